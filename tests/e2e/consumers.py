# SPDX-License-Identifier: Apache-2.0
"""The programs that read traces, as functions from a trace to plain data, and the rules for a GPU trace.

    assert consumers.hta(folder)["temporal"][0][0]["idle_time(us)"] == 608   # HolisticTraceAnalysis over all ranks of a folder
    assert consumers.tensorboard(path)["steps"] == ["1", "2", "3"]           # torch_tb_profiler's own loader
    problems, excused = consumers.torch_rules(trace)                         # torch/profiler/_trace_validator.py
    assert consumers.gpu_problems(trace, printed) == []                      # compares with the counts that the program printed
    assert consumers.perfetto_problems(path) == []

The test is skipped if its consumer is not installed.
"""

import collections
import io
import json
import logging
import os
import pathlib
import pickle
import subprocess
import sys
import tempfile
import warnings

import pytest

import perfetto
import support

WORK = {"kernel", "gpu_memcpy", "gpu_memset"}
CALLS = {"cuda_runtime", "cuda_driver"}
ON_DEVICE = WORK | {"gpu_user_annotation", "cuda_sync", "cuda_event"}
RECORD_CALLS = {"cudaEventRecord", "cudaEventRecordWithFlags", "cuEventRecord", "cuEventRecordWithFlags"}


# ---- HolisticTraceAnalysis ---------------------------------------------------------------------------------

def hta(folder, last_step=False, critical=True, exact=False):
    """All analyses over the traces of a folder: analysis -> rank -> rows (dicts). HTA leaves out the last ProfilerStep unless
    last_step is set. The critical path is that of the first step. exact: without HTA's rounding to whole microseconds, which
    gives short kernels a negative duration and then fails HTA's own assertions."""
    return _run_hta("analyses", folder, {"last_step": last_step, "critical": critical}, {"HTA_DISABLE_NS_ROUNDING": "1"} if exact else {})


def hta_table(folder, rank=0):
    """The table (pandas) that HTA makes of a rank's trace."""
    return _run_hta("table", folder, {"rank": rank}, {})


class HTAError(Exception):
    """HTA failed; the message is its own traceback."""


def _run_hta(what, folder, options, environment):
    """Runs one function of scripts/run_hta.py in a process of its own. HTA forks workers; from a process with threads, such as this
    one with Perfetto's server, a worker may wait forever for a lock that a thread held."""
    pytest.importorskip("hta", reason="HolisticTraceAnalysis is not installed in .venv")
    script = pathlib.Path(__file__).parent / "scripts/run_hta.py"
    with tempfile.TemporaryFile() as said, tempfile.NamedTemporaryFile(suffix=".pickle") as result:
        done = subprocess.run([sys.executable, str(script), what, str(folder), json.dumps(options), result.name],
                              env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                              timeout=support.TIMEOUT_S)
        if done.returncode:
            said.seek(0)
            raise HTAError(said.read().decode(errors="replace"))
        return pickle.load(result)


# ---- torch_tb_profiler -------------------------------------------------------------------------------------

def tensorboard(path):
    """The result of the TensorBoard plugin's loader for one trace. The plugin's last release knows calls as cat "Runtime" only, not
    as cuda_runtime (Kineto's name since 2022), so it joins no kernel to an operator. tensorboard_join() shows its join."""
    return _tensorboard(json.loads(support.read_bytes(path)), path)


def tensorboard_join(path):
    """The same with the calls renamed to what the plugin knows, so that it joins kernels to operators."""
    trace = json.loads(support.read_bytes(path))
    for event in trace["traceEvents"]:
        if event.get("cat") in CALLS:
            event["cat"] = "Runtime"
    return _tensorboard(trace, path)


def _tensorboard(trace, path):
    pytest.importorskip("torch_tb_profiler", reason="torch_tb_profiler is not installed in .venv")
    from torch_tb_profiler import consts
    match = consts.WORKER_PATTERN.match(pathlib.Path(path).name)
    assert match, f"the plugin does not see a file of the name {pathlib.Path(path).name}"
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    logger = logging.getLogger("pytorch_profiler")
    with tempfile.TemporaryDirectory() as cache, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch_tb_profiler.profiler.data import DistributedRunProfileData, RunProfileData
        from torch_tb_profiler.profiler.event_parser import ProfileRole
        from torch_tb_profiler.profiler.run_generator import RunGenerator
        file = pathlib.Path(cache) / pathlib.Path(path).name.removesuffix(".gz")
        file.write_text(json.dumps(trace))
        logger.addHandler(handler)
        try:
            data = RunProfileData.parse(match.group(1), match.group(2), str(file), cache)
            page = RunGenerator(match.group(1), match.group(2), data).generate_run_profile()
            DistributedRunProfileData(data)
        finally:
            logger.removeHandler(handler)
        roles = [role.name for role in ProfileRole]
        memory = page.get_memory_stats() if data.memory_snapshot else {}
        return {
            "worker": match.group(1),
            "said": said.getvalue().strip(),
            "steps": list(data.steps_names),
            "costs": [dict(zip(roles, map(float, step.costs))) for step in data.steps_costs],
            "devices": list(data.used_devices),
            "gpus": page.gpu_metrics or {},
            "utilization": {gpu: data.gpu_metrics_parser.gpu_utilization[gpu] for gpu in sorted(data.gpu_metrics_parser.gpu_ids)},
            "kernels": {} if data.kernel_stat is None else data.kernel_stat.to_dict("index"),
            "kernels_by_operator": {(each.name, each.op_name): each.calls for each in data.kernel_list_groupby_name_op or ()},
            "operators": {op.name: {"calls": op.calls, "device_us": op.device_duration} for op in data.op_list_groupby_name},
            "collectives": [(node.name, node.total_time) for node in data.comm_node_list or ()],
            "memory": memory,
            "memory_peak": {f"{getattr(kind, 'name', kind)}{number}": peak for (kind, number), peak in
                            (data.memory_snapshot.get_peak_memory() if data.memory_snapshot else {}).items()},
            "views": [str(getattr(view, "display_name", view)) for view in page.views],
        }


# ---- Perfetto ----------------------------------------------------------------------------------------------

def perfetto_problems(path):
    """The errors and losses that Perfetto's trace processor counts, and arrows that end without a start."""
    return [f"{row['name']} ({row['idx']}): {row['value']}" for row in perfetto.import_errors(path)]


# ---- torch's rules -----------------------------------------------------------------------------------------

def torch_rules(trace):
    """(problems, excused): the rules of torch/profiler/_trace_validator.py, joined by correlation or thread where torch joins loosely.

    Two kinds of waits are excused, by name with their counts. The recording of a wait's event cannot be in the trace, because
    it was before the window or while nothing was enabled. A wait for a stream begins while its kernel runs. To torch the latter
    are violations, but CUPTI's record of a wait begins with the call. Instead, no kernel of the stream that was launched before the
    wait may end after it."""
    problems, excused = [], collections.Counter()
    rows = [e for e in trace["traceEvents"] if e.get("ph") == "X"]
    calls = {e["args"]["correlation"]: e for e in rows if e.get("cat") in CALLS}
    records = {c: e for c, e in calls.items() if e["name"] in RECORD_CALLS}
    kernels = [e for e in rows if e.get("cat") == "kernel"]
    by_stream = collections.defaultdict(list)
    for e in kernels:
        by_stream[e["args"].get("device"), e["args"].get("stream")].append(e)
        launch = calls.get(e["args"].get("correlation"))
        if launch is not None and float(e["ts"]) < float(launch["ts"]):
            problems.append(f"kernel causality: {e['name']!r} at {e['ts']} before its launch at {launch['ts']}")
    for e in (e for e in rows if e.get("cat") == "cuda_sync"):
        args, kind = e["args"], e["args"].get("cuda_sync_kind")
        if kind in ("Stream Wait Event", "Event Sync"):
            waited = args.get("wait_on_cuda_event_record_corr_id")
            if waited is None:
                problems.append(f"{kind} at {e['ts']} has no wait_on_cuda_event_record_corr_id")
            elif waited < 0:
                excused["recorded while nothing was enabled"] += 1
            elif waited < min(calls, default=0):
                excused["recorded before the window"] += 1
            elif waited not in records:
                problems.append(f"{kind} at {e['ts']} names recording {waited}, which is not in the trace")
            elif float(records[waited]["ts"]) > float(e["ts"]):
                problems.append(f"{kind} at {e['ts']} names recording {waited}, which comes later")
        if kind == "Stream Sync":
            end = float(e["ts"]) + float(e["dur"])
            for kernel in by_stream[args.get("device"), args.get("stream")]:
                start, kernel_end = float(kernel["ts"]), float(kernel["ts"]) + float(kernel["dur"])
                launch = calls.get(kernel["args"].get("correlation"))
                if start < float(e["ts"]) < kernel_end:
                    excused["kernel runs when the wait for its stream begins"] += 1
                if launch is not None and float(launch["ts"]) < float(e["ts"]) and kernel_end > end and \
                        launch["tid"] == calls.get(args.get("correlation"), launch)["tid"]:
                    problems.append(f"Stream Sync ends at {end:.3f}, before {kernel['name']!r} at {kernel_end:.3f}")
    needed = {"Collective name", "dtype", "In msg nelems", "Out msg nelems", "Group size"}
    names = collections.defaultdict(set)
    for e in rows:
        if e["name"] == "record_param_comms" and not needed <= e.get("args", {}).keys():
            problems.append(f"record_param_comms at {e['ts']} lacks {sorted(needed - e.get('args', {}).keys())}")
        if "autograd::engine::evaluate_function:" in e["name"] and e["args"].get("Sequence number"):
            names[e["args"].get("Fwd thread id"), e["args"]["Sequence number"]].add(e["name"])  # torch counts on each thread
    problems += [f"Sequence number {number} of thread {thread} of several backward operators: {sorted(ops)}"
                 for (thread, number), ops in names.items() if len(ops) > 1]
    return problems, excused


def check_problems(path):
    """The errors that `cprof check` finds, in words."""
    from cprof.tool.check import problems
    return problems(str(path))


def torch_validator(path):
    """Violations that torch's own validator finds, by rule. Skips where this torch has none (before 2.13)."""
    validator = pytest.importorskip("torch.profiler._trace_validator", reason="this torch has no trace validator")
    return collections.Counter(violation.rule_name for violation in validator.validate_trace(str(path))[1])


# ---- our own rules -----------------------------------------------------------------------------------------

LAUNCHES = ("LaunchKernel", "LaunchCooperativeKernel", "GraphLaunch", "cuLaunch", "LaunchHostFunc")


def printed(out):
    """The JSON object in the last such line of a program's stdout."""
    lines = [line for line in out.splitlines() if line.startswith("{")]
    assert lines, f"no JSON line in {out!r}"
    return json.loads(lines[-1])


def gpu_problems(trace, said=None):
    """The problems of the GPU side of a parsed trace, as text. said: the counts of what the program launched while it was recorded.
    support.validate() checks nesting, names of rows and all other arrows."""
    problems = []
    rows = [e for e in trace["traceEvents"] if e.get("ph") == "X"]
    calls = collections.defaultdict(list)
    for e in rows:
        if e.get("cat") in CALLS:
            calls[e["args"].get("correlation")].append(e)
    for check in (_count_problems, _join_problems, _external_problems, _flow_problems, _row_problems, _loss_problems):
        problems += check(trace, rows, calls, said or {})
    return problems


def _count_problems(_trace, rows, _calls, said):
    """said: the tally of tests/gpu/program.h, which counts the work of graphs separately."""
    found = collections.Counter(e.get("cat") for e in rows)
    copies, bytes_copied = collections.Counter(), collections.Counter()
    for e in rows:
        if e.get("cat") == "gpu_memcpy":
            kind = e["name"].split()[1].lower()
            copies[kind] += 1
            bytes_copied[kind] += e["args"]["bytes"]
    for what, cat in (("kernels", "kernel"), ("fills", "gpu_memset")):
        launched = said.get(what, 0) + said.get(f"graph_{what}", 0)
        if what in said and found[cat] != launched:
            yield f"{launched} {what} launched, {found[cat]} recorded"
    if "copies" not in said:
        return
    launched = sum(each["count"] for each in said["copies"].values()) + said.get("graph_copies", 0)
    if found["gpu_memcpy"] != launched:
        yield f"{launched} copies launched, {found['gpu_memcpy']} recorded"
    for kind, each in said["copies"].items():
        if not said.get("graph_copies") and (copies[kind], bytes_copied[kind]) != (each["count"], each["bytes"]):
            yield f"copies {kind}: {each['count']} of {each['bytes']} B, recorded {copies[kind]} of {bytes_copied[kind]} B"


def _join_problems(trace, rows, calls, _said):
    known = {device["id"] for device in trace.get("deviceProperties", ())}
    for correlation, same in calls.items():
        if correlation is not None and len(same) > 1:
            yield f"correlation {correlation} has several calls: {[e['name'] for e in same]}"
    seen = collections.Counter()
    for e in rows:
        if e.get("cat") not in WORK:
            continue
        args = e["args"]
        call = calls.get(args.get("correlation"), [])
        graph = bool(args.get("graph id"))
        if not graph:
            seen[args.get("correlation")] += 1
        if not call:
            yield f"{e['cat']} {e['name'][:60]!r} (correlation {args.get('correlation')}) has no call"
            continue
        name = call[0]["name"]
        if e["cat"] == "kernel" and not any(word in name for word in LAUNCHES):
            yield f"kernel {e['name'][:60]!r} comes from {name}"
        if graph != ("GraphLaunch" in name):
            yield f"{e['name'][:60]!r} with graph id {args.get('graph id')} comes from {name}"
        if float(e["ts"]) < float(call[0]["ts"]):
            yield f"{e['name'][:60]!r} at {e['ts']} starts before its call {name} at {call[0]['ts']}"
        if args.get("External id") != call[0]["args"].get("External id") and not graph:
            yield f"{e['name'][:60]!r} has External id {args.get('External id')}, its call {call[0]['args'].get('External id')}"
        device = args.get("device", args.get("inDevice"))
        if device != e["pid"]:
            yield f"{e['name'][:60]!r} of device {device} stands on pid {e['pid']}"
        if e["cat"] == "kernel" and "grid" in args:
            if not args.get("blocks per SM", 1) > 0:
                yield f"{e['name'][:60]!r} has {args['blocks per SM']} blocks per SM: the plugin complains of each"
            if device in known and "est. achieved occupancy %" not in args:
                yield f"{e['name'][:60]!r} has no occupancy, though its device is described"
    for correlation, count in seen.items():
        if count > 1:
            yield f"correlation {correlation} has {count} kernels, copies or fills"


def _external_problems(_trace, rows, _calls, _said):
    spans = {e["args"].get("External id") for e in rows if e.get("cat") in ("cpu_op", "user_annotation", "library_call")}
    for e in rows:
        external = e.get("args", {}).get("External id")
        if e.get("cat") in ON_DEVICE | CALLS and external is not None and external not in spans:
            yield f"{e['cat']} {e['name'][:60]!r}: no operator, range or library call has External id {external}"


def _flow_problems(trace, rows, calls, _said):
    arrows = [e for e in trace["traceEvents"] if e.get("cat") == "ac2g"]
    starts = {e["id"]: e for e in arrows if e["ph"] == "s"}
    ends = collections.defaultdict(list)
    for e in arrows:
        if e["ph"] == "f":
            ends[e["id"]].append((e["pid"], e["tid"], float(e["ts"])))
    for e in rows:
        correlation = e.get("args", {}).get("correlation")
        if e.get("cat") in WORK and correlation in calls:
            start, call = starts.get(correlation), calls[correlation][0]
            if start is None or any(float(start[key]) != float(call[key]) for key in ("pid", "tid", "ts")):
                yield f"no arrow leaves {call['name']} (correlation {correlation})"
            if (e["pid"], e["tid"], float(e["ts"])) not in ends[correlation]:
                yield f"no arrow reaches {e['name'][:60]!r} (correlation {correlation})"
    for number in starts.keys() - ends.keys():
        yield f"arrow {number} never ends"
    for number in {n for n, places in ends.items() if places} - starts.keys():
        yield f"arrow {number} ends without a start"


def _row_problems(trace, rows, _calls, _said):
    used = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e.get("ph") in "Xi" and e["pid"] != ""}
    processes, threads, labels = {}, {}, {}
    for e in trace["traceEvents"]:
        if e.get("ph") == "M":
            table = {"process_name": processes, "thread_name": threads, "process_labels": labels}.get(e["name"], {})
            table[e["pid"] if table is not threads else (e["pid"], e["tid"])] = e["args"]
    for pid, tid in sorted(used, key=str):
        if not threads.get((pid, tid), {}).get("name"):
            yield f"row {pid}/{tid} has no name"
        if pid not in processes:
            yield f"process {pid} has no name"
    counters = {e["pid"] for e in trace["traceEvents"] if e.get("ph") == "C"}
    devices = {pid for pid, args in labels.items() if str(args.get("labels")).startswith("GPU")}
    for pid in devices - {pid for pid, _ in used} - counters:
        yield f"GPU {pid} has a row and nothing on it"
    for place in threads.keys() - used:
        if place[0] in devices:
            yield f"row {place} of a GPU is empty"
    for e in rows:
        if e.get("cat") in ON_DEVICE and e["pid"] not in devices:
            yield f"{e['cat']} {e['name'][:60]!r} stands on pid {e['pid']}, which is not labelled as a GPU"
        if e.get("cat") not in ON_DEVICE and e["pid"] in devices:
            yield f"{e.get('cat')} {e['name'][:60]!r} stands on a GPU"
        if e.get("cat") not in ON_DEVICE and "stream" in e.get("args", {}):
            yield f"{e.get('cat')} {e['name'][:60]!r} has a stream: HTA takes it for a GPU row"
    # HTA searches the head of the file for the rank.
    if "rank" not in trace.get("distributedInfo", {}):
        yield "no rank"


def _loss_problems(trace, _rows, _calls, _said):
    about = trace.get("cprof", {})
    for key in ("lost", "unmatched"):
        value = about.get(key, 0)
        for name, count in value.items() if isinstance(value, dict) else [(key, value)]:
            if count:
                yield f"cprof.{key}: {name} {count}"


# ---- rules of HTA that fail far from their cause -----------------------------------------------------------

def hta_problems(trace):
    """The problems of a trace that would make an analysis of HTA fail or mislead."""
    problems = []
    events = trace["traceEvents"]
    if events and events[0].get("ph") == "X" and events[0].get("cat") in CALLS | WORK:
        problems.append("the first event of the file is a call or a kernel: HTA takes row number 0 for \"no partner\"")
    waited = collections.defaultdict(set)
    for e in events:
        if e.get("ph") == "X" and e.get("cat") == "cuda_sync" and e["args"].get("wait_on_stream", -1) >= 0:
            waited[e["args"]["wait_on_cuda_event_record_corr_id"]].add((e["args"]["wait_on_stream"], e["pid"]))
    for correlation, places in waited.items():
        if correlation < 0:
            problems.append("wait_on_stream where the recording is unknown: HTA's critical path wants one stream per recording")
        elif len(places) > 1:
            problems.append(f"recording {correlation} is waited for on several (stream, pid): {sorted(places)}")
    for e in events:
        if e.get("ph") == "X" and e.get("cat") == "cuda_event" and e["args"].get("stream", -1) >= 0:
            problems.append("cuda_event rows with a stream: HTA counts them as compute kernels")
            break
    for e in events:
        if e.get("cat") == "gpu_user_annotation" and e["name"].startswith("ProfilerStep"):
            problems.append("ProfilerStep as gpu_user_annotation: HTA and TensorBoard take it for one more step")
            break
    for e in events:
        if e.get("cat") == "gpu_user_annotation" and e.get("args", {}).keys() & {"stream", "correlation"}:
            problems.append("gpu_user_annotation with stream or correlation: HTA takes it for a kernel")
            break
    return problems
