# SPDX-License-Identifier: Apache-2.0
"""What scripts/gpu_check.py asks of a trace: everything launched is in it, once, joined, inside its bounds. It knows nothing of
how cprof writes and shares no code with the tests, so that it runs where only Python is."""

import collections
import json

WORK = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def rows_of(trace, *categories):
    return [e for e in trace["traceEvents"] if e.get("ph") == "X" and e.get("cat") in categories]


def join_problems(trace):
    """({figures}, problems): every kernel, copy and fill has its call, which came before it."""
    calls = collections.defaultdict(list)
    for e in rows_of(trace, *CALLS):
        calls[e["args"].get("correlation")].append(e)
    unmatched, early, twice, gaps = 0, 0, 0, []
    seen = collections.Counter()
    for e in rows_of(trace, *WORK):
        correlation = e["args"].get("correlation")
        if correlation not in calls:
            unmatched += 1
            continue
        if not e["args"].get("graph id"):
            seen[correlation] += 1
            twice += seen[correlation] > 1
        # Whole nanoseconds: the numbers carry three decimals of microseconds.
        gap = round((e["ts"] - calls[correlation][0]["ts"]) * 1000)
        early += gap < 0
        gaps.append((e["ts"], gap))
    rows_twice = sum(len(rows) - 1 for correlation, rows in calls.items() if correlation is not None)
    figures = {"unmatched": unmatched, "before_call": early, "least_gap_ns": min((gap for _, gap in gaps), default=None), "gaps": gaps}
    problems = [f"{n} {what}" for n, what in ((unmatched, "without their call"), (early, "start before their call"),
                                              (twice, "of a call that has one already"), (rows_twice, "calls stand twice")) if n]
    return figures, problems


def loss_problems(trace):
    lost = {name: n for name, n in trace["cprof"]["lost"].items() if n and name != "total"}
    return [f"lost: {lost}"] if lost else []


def count_problems(trace, tally):
    """Against what the program says it launched."""
    found = collections.Counter(e["cat"] for e in rows_of(trace, *WORK))
    for category, name in (("kernel", "kernels"), ("gpu_memset", "fills")):
        launched = tally.get(name, 0) + tally.get("graph_" + name, 0)
        if found[category] != launched:
            yield f"{launched} {name} launched, {found[category]} recorded"
    launched = sum(kind["count"] for kind in tally.get("copies", {}).values()) + tally.get("graph_copies", 0)
    if found["gpu_memcpy"] != launched:
        yield f"{launched} copies launched, {found['gpu_memcpy']} recorded"
    if not tally.get("graph_copies"):
        sent = sum(kind["bytes"] for kind in tally.get("copies", {}).values())
        recorded = sum(e["args"]["bytes"] for e in rows_of(trace, "gpu_memcpy"))
        if sent != recorded:
            yield f"{sent} bytes copied, {recorded} recorded"
    fills = sum(e["args"]["bytes"] for e in rows_of(trace, "gpu_memset") if not e["args"].get("graph id"))
    if fills != tally.get("fill_bytes", 0):
        yield f"{tally.get('fill_bytes')} bytes filled, {fills} recorded"
    waits = collections.Counter(e["args"]["cuda_sync_kind"] for e in rows_of(trace, "cuda_sync"))
    if waits["Stream Sync"] != tally.get("stream_syncs", 0):
        yield f"{tally.get('stream_syncs')} waits for a stream, {waits['Stream Sync']} recorded"


def counted(trace):
    found = collections.Counter(e["cat"] for e in rows_of(trace, *WORK))
    return {"kernels": found["kernel"], "copies": found["gpu_memcpy"], "fills": found["gpu_memset"]}


def whole_problems(trace, tally, slots=0):
    """({figures}, problems) of a trace of a whole run. slots: the least gap in so many parts of the run, in order."""
    figures, problems = join_problems(trace)
    gaps = figures.pop("gaps")
    problems += [*count_problems(trace, tally), *loss_problems(trace)]
    figures.update(counted(trace), launched=tally.get("kernels", 0) + tally.get("graph_kernels", 0))
    if slots:
        figures["gap_slots_ns"] = least_of_slots(gaps, slots)
    return figures, problems


def least_of_slots(gaps, slots):
    if not gaps:
        return []
    first, last = min(gaps)[0], max(gaps)[0]
    least = [None] * slots
    for at, gap in gaps:
        slot = min(slots - 1, int((at - first) / (last - first or 1) * slots))
        least[slot] = gap if least[slot] is None else min(gap, least[slot])
    return least


def per_step(rule, step, devices):
    """Kernels that the programs of tests/gpu launch in a step."""
    return 5 + (step == 3) if rule == "outlive" else 33 * devices


def window_problems(trace, rule):
    """({figures}, problems) of a trace of some steps: each step's launches, and a kernel for each."""
    figures, problems = join_problems(trace)
    figures.pop("gaps")
    figures.update(counted(trace))
    spans = {int(e["name"].partition("#")[2]): (e["ts"], e["ts"] + e["dur"])
             for e in rows_of(trace, *("user_annotation", "cpu_op")) if e["name"].startswith("ProfilerStep#")}
    launches = {e["args"].get("correlation"): e["ts"] for e in rows_of(trace, *CALLS) if "LaunchKernel" in e["name"]}
    kernels = rows_of(trace, "kernel")
    devices = len({e["pid"] for e in kernels}) or 1
    if not spans:
        problems.append("no ProfilerStep rows")
    for step, (start, end) in sorted(spans.items()):
        wanted = per_step(rule, step, devices)
        of_step = {c for c, at in launches.items() if start <= at < end}
        ran = sum(e["args"].get("correlation") in of_step for e in kernels)
        if (len(of_step), ran) != (wanted, wanted):
            problems.append(f"step {step}: {wanted} launched, {len(of_step)} launches and {ran} kernels recorded")
    total = sum(per_step(rule, step, devices) for step in spans)
    if len(kernels) != total:
        problems.append(f"{total} kernels in the window's steps, {len(kernels)} in the file")
    return figures, problems + loss_problems(trace)
