# SPDX-License-Identifier: Apache-2.0
"""Reads the raw buffers of CPROF_GPU_DUMP (layout: cupti/dump.h). They have more than a trace: every API call of the process that CUPTI saw,
also those of cprof's own threads."""

import bisect
import collections
import struct

DRIVER, RUNTIME = 4, 5  # CUpti_ActivityKind
# Waits by (kind, cbid), from cupti_runtime_cbid.h and cupti_driver_cbid.h, which only append.
WAITS = {(RUNTIME, 126): "device", (RUNTIME, 165): "device", (RUNTIME, 131): "stream", (RUNTIME, 239): "stream", (RUNTIME, 137): "event",
         (DRIVER, 17): "device", (DRIVER, 800): "device", (DRIVER, 126): "stream", (DRIVER, 440): "stream", (DRIVER, 121): "event"}


Call = collections.namedtuple("Call", "kind cbid start end tid correlation")


def api_calls(path):
    """The API records of a file."""
    data = open(path, "rb").read()
    if data[:8] != b"CPROFGPU":
        raise ValueError(f"{path}: no raw buffer")
    _form, _version, _flags, _base, size, count = struct.unpack_from("<IIIQQI", data, 8)
    start = 8 + struct.calcsize("<IIIQQI")
    for at in struct.unpack_from(f"<{count}I", data, start + size):
        kind, cbid, begun, ended, _pid, tid, correlation = struct.unpack_from("<IIQQIII", data, start + at)
        if kind in (DRIVER, RUNTIME):
            yield Call(kind, cbid, begun, ended, tid, correlation)


def waits(paths):
    """({"device", "stream", "event": number of waits of the program or of cprof}, ids of threads that made API calls). A runtime call and
    the driver call inside it have the same correlation and count once."""
    seen, threads = {}, set()
    for path in paths:
        for call in api_calls(path):
            threads.add(call.tid)
            if (call.kind, call.cbid) in WAITS:
                seen[call.correlation] = WAITS[call.kind, call.cbid]
    return collections.Counter(seen.values()), threads


def wait_problems(paths, tally):
    """({figures}, problems): checks that all waits for the device, a stream or an event are the program's own."""
    found, threads = waits(paths)
    asked = {"device": tally["device_syncs"], "stream": tally["stream_syncs"], "event": tally["event_syncs"]}
    problems = [f"{asked[what]} waits for {what} asked for by the program, CUPTI saw {found[what]}" for what in asked if asked[what] != found[what]]
    return {"waits": dict(found), "threads": len(threads)}, problems


def nesting(paths):
    """Counts the runtime calls, and the driver calls inside a runtime call of their thread: those with its correlation and those with their
    own. CUPTI's documentation allows both, and writer/join/call_rows.c handles both; CUPTI 13.0 on an H200 recorded no such driver call."""
    calls = [call for path in paths for call in api_calls(path)]
    outer, found = collections.defaultdict(list), collections.Counter()
    for call in calls:
        if call.kind == RUNTIME:
            outer[call.tid].append((call.start, call.end, call.correlation))
    for runtime in outer.values():
        runtime.sort()
    for call in calls:
        runtime = outer[call.tid]
        before = bisect.bisect_right(runtime, (call.start, float("inf"))) - 1
        if call.kind == DRIVER and before >= 0 and call.end <= runtime[before][1]:
            found["same id" if call.correlation == runtime[before][2] else "own id"] += 1
    return {"runtime": sum(map(len, outer.values())), "same id": found["same id"], "own id": found["own id"]}
