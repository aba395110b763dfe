# SPDX-License-Identifier: Apache-2.0
"""The checks of a trace by gpu_check: everything launched is in it once, joined and within its time bounds; products, transfers, stacks and
memory agree with the program's tally. It is independent of cprof's writer and of the tests, so that it runs with nothing but Python."""

import bisect
import collections
import itertools
import json
import re
import statistics

WORK = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def rows_of(trace, *categories):
    return [e for e in trace["traceEvents"] if e.get("ph") == "X" and e.get("cat") in categories]


def device_problems(trace):
    """Problems if a device on which kernels ran is missing in deviceProperties."""
    known = {device["id"] for device in trace.get("deviceProperties", [])}
    missing = {e["args"]["device"] for e in rows_of(trace, "kernel") if "device" in e["args"]} - known
    return [f"deviceProperties lacks device {sorted(missing)}"] if missing else []


def join_problems(trace):
    """({figures}, problems): checks that every kernel, copy and fill has a call that came before it, and that each device is described."""
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
        # Whole nanoseconds: the numbers are microseconds with three decimals.
        gap = round((e["ts"] - calls[correlation][0]["ts"]) * 1000)
        early += gap < 0
        gaps.append((e["ts"], gap))
    rows_twice = sum(len(rows) - 1 for correlation, rows in calls.items() if correlation is not None)
    figures = {"unmatched": unmatched, "before_call": early, "least_gap_ns": min((gap for _, gap in gaps), default=None), "gaps": gaps}
    problems = [f"{n} {what}" for n, what in ((unmatched, "without their call"), (early, "start before their call"),
                                              (twice, "of a call that has one already"), (rows_twice, "calls occur twice")) if n]
    return figures, problems + device_problems(trace)


def wait_problems(trace):
    """({figures}, problems): checks that the work that a wait for a stream or a context waited for ended before the wait. Together with
    join_problems() this limits a constant error of the device's clock from both sides."""
    called = {e["args"]["correlation"]: e for e in rows_of(trace, *CALLS) if "correlation" in e["args"]}
    works = collections.defaultdict(list)  # (device, context, stream) or (device, context): (when its call returned, when it ended)
    for e in rows_of(trace, *WORK):
        call, args = called.get(e["args"].get("correlation")), e["args"]
        if call:
            work = call["ts"] + call["dur"], e["ts"] + e["dur"]
            works[args.get("device"), args.get("context")].append(work)
            works[args.get("device"), args.get("context"), args.get("stream")].append(work)
    latest = {}
    for place, all_works in works.items():
        all_works.sort()
        ends = list(itertools.accumulate((end for _, end in all_works), max))
        latest[place] = [returned for returned, _ in all_works], ends
    least = []
    for e in rows_of(trace, "cuda_sync"):
        args, names = e["args"], ("device", "context", "stream")
        of_stream = args["cuda_sync_kind"] == "Stream Sync"
        call = called.get(args.get("correlation"))
        place = tuple(args.get(name) for name in names[:3 if of_stream else 2])
        if not call or not (of_stream or args["cuda_sync_kind"] == "Context Sync") or place not in latest:
            continue
        returned, ends = latest[place]
        n = bisect.bisect_right(returned, call["ts"])
        if n:
            least.append(round((call["ts"] + call["dur"] - ends[n - 1]) * 1000))
    late = sum(gap < 0 for gap in least)
    return {"waits": len(least), "least_after_ns": min(least, default=None)}, [f"{late} waits end before what they waited for"] if late else []


def overlap_problems(trace, streams, event_ms, gap=0.05):
    """({figures}, problems): checks that kernels of a stream do not overlap, and that `streams` streams ran at once. The time from the first to
    the last kernel must agree with that between CUDA's events around them. The first kernel of each stream ran earlier, alone. gap: the part of
    the events' time in which nothing may have run."""
    by_stream, edges = collections.defaultdict(list), []
    for e in rows_of(trace, "kernel"):
        start = round(e["ts"] * 1000)  # a sum in microseconds would lose a nanosecond after weeks of uptime
        by_stream[e["args"].get("stream")].append((start, start + round(e["dur"] * 1000)))
    overlapping = 0
    for kernels in by_stream.values():
        kernels.sort()
        overlapping += sum(after[0] < before[1] for before, after in zip(kernels, kernels[1:]))
        edges += [edge for start, end in kernels[1:] for edge in ((start, 1), (end, -1))]
    at_once = max(itertools.accumulate(change for _, change in sorted(edges)), default=0)
    busy = (max(edges)[0] - min(edges)[0]) / 1e6 if edges else 0
    problems = [f"{overlapping} kernels begin before the one before them on their stream ended"] if overlapping else []
    if (len(by_stream), at_once) != (streams, streams):
        problems.append(f"{streams} streams worked at once, {len(by_stream)} recorded, {at_once} at once")
    if not -0.1 <= event_ms - busy <= gap * event_ms + 0.1:
        problems.append(f"kernels took {busy:.2f} ms, {event_ms:.2f} by CUDA's events")
    return {"at_once": at_once, "busy_ms": busy, "event_ms": event_ms}, problems


def loss_problems(trace):
    lost = {name: n for name, n in trace["cprof"]["lost"].items() if n and name != "total"}
    return [f"lost: {lost}"] if lost else []


def fills_as_kernels(trace, tally):
    """The number of a graph's fills that the driver ran as kernels: as many kernels too many as fills too few. CUPTI then records a kernel
    (changes of CUPTI 11.0: "no longer disables the conversion of memset nodes into kernel nodes")."""
    graphs = collections.Counter(e["cat"] for e in rows_of(trace, *WORK) if e["args"].get("graph id"))
    more, fewer = graphs["kernel"] - tally.get("graph_kernels", 0), tally.get("graph_fills", 0) - graphs["gpu_memset"]
    return more if more == fewer and more > 0 else 0


def count_problems(trace, tally):
    """Compares the trace with the program's tally."""
    found = collections.Counter(e["cat"] for e in rows_of(trace, *WORK))
    as_kernels = fills_as_kernels(trace, tally)
    found.update(kernel=-as_kernels, gpu_memset=as_kernels)
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
    """({figures}, problems) of a trace of a whole run. slots: the number of parts of the run whose least gap goes into the figures."""
    figures, problems = join_problems(trace)
    gaps = figures.pop("gaps")
    waits, late = wait_problems(trace)
    figures.update(waits)
    problems += [*late, *count_problems(trace, tally), *loss_problems(trace)]
    figures.update(counted(trace), launched=tally.get("kernels", 0) + tally.get("graph_kernels", 0), fills_as_kernels=fills_as_kernels(trace, tally))
    if slots:
        figures["gap_slots_ns"] = least_of_slots(gaps, slots)
    return figures, problems


def graph_problems(trace, launches):
    """({figures}, problems) of a trace with graphs as a whole: a row for each launch, none for a node."""
    figures, problems = join_problems(trace)
    figures.pop("gaps")
    figures.update(counted(trace))
    calls = {e["args"].get("correlation") for e in rows_of(trace, *CALLS) if "GraphLaunch" in e["name"]}
    found = collections.Counter(e["args"].get("correlation") for e in rows_of(trace, *WORK) if e["args"].get("graph id"))
    once = sum(found[call] == 1 for call in calls)
    if (len(calls), once, sum(found.values())) != (launches, launches, launches):
        problems.append(f"{launches} launches of graphs, {len(calls)} recorded, {once} with one row; {sum(found.values())} rows of graphs")
    return figures, [*problems, *loss_problems(trace)]


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
    """The number of kernels that a program of tests/gpu launches in a step."""
    return 5 + (step == 3) if rule == "outlive" else 33 * devices


def window_problems(trace, rule):
    """({figures}, problems) of a trace of some steps: checks the launches of each step, and their kernels."""
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


# ---- steps of programs that print their launches -------------------------------------------------------------------------

def steps_of(trace):
    """step -> (start, end)"""
    return {int(e["name"].partition("#")[2]): (e["ts"], e["ts"] + e["dur"])
            for e in rows_of(trace, "user_annotation", "cpu_op") if e["name"].startswith("ProfilerStep#")}


def span_of_steps(trace):
    """(start of the first step, end of the last step); unlimited without steps."""
    steps = steps_of(trace).values()
    return (min(start for start, _ in steps), max(end for _, end in steps)) if steps else (float("-inf"), float("inf"))


def kernels_by_step(trace, steps):
    """step -> number of kernels whose call was made in it; -1 -> in no step."""
    calls = {e["args"].get("correlation"): e["ts"] for e in rows_of(trace, *CALLS)}
    found = collections.Counter()
    for e in rows_of(trace, "kernel"):
        at = calls.get(e["args"].get("correlation"))
        found[next((step for step, (start, end) in steps.items() if at is not None and start <= at < end), -1)] += 1
    return found


def step_problems(trace, launched):
    """({figures}, problems) of a trace of some steps. launched: the number of kernels of each step of the run."""
    figures, problems = join_problems(trace)
    figures.pop("gaps")
    figures.update(counted(trace))
    steps = steps_of(trace)
    found = kernels_by_step(trace, steps)
    if not steps:
        problems.append("no ProfilerStep rows")
    for step in sorted(steps):
        if found[step] != launched[step]:
            problems.append(f"step {step}: {launched[step]} kernels launched, {found[step]} recorded")
    if found[-1]:
        problems.append(f"{found[-1]} kernels of no step of the window")
    return figures, problems + loss_problems(trace)


# ---- ranges, stacks, modules -----------------------------------------------------------------------------------

def inside(row, around):
    return row["tid"] == around["tid"] and row["pid"] == around["pid"] and around["ts"] <= row["ts"] and \
        row["ts"] + row["dur"] <= around["ts"] + around["dur"]


def range_problems(trace, names, domains=()):
    """Checks that each range is on the CPU and, if there are kernels, on the GPU, and that each domain (a pattern) has a range. Ranges of warmup
    steps, at the start of the file, do not count."""
    first, last = span_of_steps(trace)
    on_cpu = collections.Counter(e["name"] for e in rows_of(trace, "user_annotation") if first <= e["ts"] < last)
    on_gpu = collections.Counter(e["name"] for e in rows_of(trace, "gpu_user_annotation"))
    for name, count in names.items():
        if on_cpu[name] != count:
            yield f"{count} ranges {name}, {on_cpu[name]} recorded"
        if rows_of(trace, "kernel") and not on_gpu[name]:
            yield f"range {name} has no row on the GPU"
    seen = {e["args"].get("domain", "") for e in rows_of(trace, "user_annotation", "library_call")} | \
        {e.get("args", {}).get("domain", "") for e in trace["traceEvents"] if e.get("ph") in ("b", "i")}
    for pattern in domains:
        if not any(re.search(pattern, text or "", re.I) for text in seen):
            yield f"no NVTX range of a domain like {pattern}; domains seen: {sorted(filter(None, seen))}"


def stack_problems(trace, operator, function, calls):
    """Checks the number of calls of an operator that have the Python function on their stack. With kernels, each must have a launch with it, too."""
    found = [e for e in rows_of(trace, "cpu_op") if e["name"] == operator and function in e["args"].get("Call stack", "")]
    if len(found) != calls:
        yield f"{calls} calls of {operator} in {function}(), {len(found)} with it on their stack"
    if not rows_of(trace, "kernel"):
        return
    bare = 0
    for operator_row in found:
        launches = [e for e in rows_of(trace, *CALLS) if "Launch" in e["name"] and inside(e, operator_row)]
        bare += not any(function in e["args"].get("Call stack", "") for e in launches)
    if bare:
        yield f"{bare} calls of {operator} without a launch that has {function}() on its stack"


def module_problems(trace, modules, operators):
    """Checks that every operator with one of the names has a module, and that every listed module has an operator."""
    found = collections.Counter(e["args"].get("Module Hierarchy") for e in rows_of(trace, "cpu_op") if e["name"] in operators)
    if found[None]:
        yield f"{found[None]} operators without a module"
    for name in modules:
        if not found[name]:
            yield f"no operator of module {name}; there are {sorted(filter(None, found))}"


# ---- FLOPs -----------------------------------------------------------------------------------------------------

def product_problems(trace, products):
    """Checks the number of calls of the matrix libraries, and their exact operation counts."""
    wanted, found = collections.Counter(), collections.Counter()
    for product in products:
        wanted[product["name"].replace("_v2", ""), int(product["flops"])] += product["calls"]
    for e in rows_of(trace, "library_call"):
        found[e["name"], e["args"].get("flops")] += 1
    for (name, flops), calls in wanted.items():
        if found[name, flops] != calls:
            sizes = sorted({other for (seen, other) in found if seen == name and other is not None})
            yield f"{calls} calls of {name} of {flops} operations each, {found[name, flops]} recorded; counted: {sizes[:6]}"
    total = trace["cprof"]["flops"].get("CUDA:0", {}).get("flops")
    asked = sum(flops * calls for (_, flops), calls in wanted.items())
    if total != asked:
        yield f"{asked} operations on the device asked for, {total} in the trace's sum"


def rate_problems(trace, flops, ns, count, least=0.9, most=1.1):
    """({figures}, problems): compares the rate of a large product's kernels with the rate measured by events. Both are of the fastest `count`
    products in a row, since a device slows down under load within a tenth of a second."""
    measured = flops / ns / 1e3
    rates = [e["args"]["TFLOP/s"] for e in sorted(rows_of(trace, "kernel"), key=lambda e: e["ts"]) if e["args"].get("flops") == flops]
    shown = max((rates[i:i + count] for i in range(len(rates) - count + 1)), key=statistics.median, default=[])
    peak = next((kind["peak_tflops_per_s"] for name, kind in trace["cprof"]["flops"].get("CUDA:0", {}).items() if name == "bfloat16"), None)
    figures = {"measured_tflops": measured, "shown_tflops": statistics.median(shown) if shown else None, "peak_tflops": peak}
    problems = []
    if not shown:
        problems.append("no kernel of the large product shows a rate")
    elif not least <= figures["shown_tflops"] / measured <= most:
        problems.append(f"kernels show {figures['shown_tflops']:.1f} TFLOP/s, events show {measured:.1f}")
    if peak is None:
        problems.append("no peak for bfloat16")
    elif figures["shown_tflops"]:
        figures["mfu"] = figures["shown_tflops"] / peak
        if not 0.3 <= figures["mfu"] <= 1.05:
            problems.append(f"a large product runs at {figures['mfu']:.0%} of the peak of {peak} TFLOP/s")
    return figures, problems


def operator_problems(trace, wanted, library=()):
    """Checks the exact sum of operations of each operator. library: operators that must hold a call of cuBLAS or cuDNN with as many operations."""
    found = collections.Counter()
    rows = [e for e in rows_of(trace, "cpu_op") if e["name"] in wanted and e["args"].get("flops")]
    for e in rows:
        found[e["name"]] += e["args"]["flops"]
    for name, flops in wanted.items():
        if found[name] != flops:
            yield f"{name}: {flops} operations asked for, {found[name]} counted"
    calls = rows_of(trace, "library_call")
    without = [e["name"] for e in rows if e["name"] in library and
               not any(call["args"].get("flops") == e["args"]["flops"] and inside(call, e) for call in calls)]
    if without:
        yield f"{len(without)} operators without a call of a library of as many operations: {sorted(set(without))}"


# ---- memory ----------------------------------------------------------------------------------------------------

def memory_problems(trace, said, device):
    """Compares tensor memory with torch's own numbers. said: [bytes, allocated, reserved] after each allocation of the window's steps, in order."""
    kind = 1 if device else 0
    events = [e["args"] for e in trace["traceEvents"] if e.get("name") == "[memory]" and e["args"]["Device Type"] == kind and e["args"]["Bytes"] > 0]
    wanted = {tuple(row) for row in said}
    seen = [(e["Bytes"], e["Total Allocated"], e["Total Reserved"]) for e in events]
    if not device:
        wanted, seen = {row[:1] for row in wanted}, [row[:1] for row in seen]
    missing = sorted(wanted - set(seen))
    if missing:
        yield f"{len(missing)} of {len(wanted)} allocations differ from torch's numbers (bytes, allocated, reserved): {missing[:3]}; recorded {seen[:6]}"


def driver_memory(trace):
    """The bytes of device memory allocated from the driver."""
    return sum(e["args"]["Bytes"] for e in trace["traceEvents"] if e.get("name") == "[driver memory]" and e["args"]["Bytes"] > 0 and
               e["args"].get("Memory Kind") == "Device")


def failed_allocations(trace):
    return [e["name"] for e in trace["traceEvents"] if "OutOfMemory]" in str(e.get("name"))]


# ---- transfers -------------------------------------------------------------------------------------------------

def transfer_problems(trace, said):
    """({figures}, problems): checks each requested transfer with its sizes, group and rank, and the kernels that NCCL launched for them."""
    wanted = collections.Counter((t["name"], t["in"], t["out"], t["bytes"]) for t in said["transfers"])
    rows = [e for e in rows_of(trace, "collective_comm") if "Collective name" in e["args"] and e["name"] != "ncclGroupEnd"]
    found = collections.Counter((e["name"], e["args"]["In msg nelems"], e["args"]["Out msg nelems"], e["args"]["bytes"]) for e in rows)
    problems = [f"{count} x {key} asked for, {found[key]} recorded" for key, count in wanted.items() if found[key] != count]
    problems += [f"{count} x {key} recorded, not asked for" for key, count in found.items() if key not in wanted]
    wrong = [e["name"] for e in rows if (e["args"].get("Group size"), e["args"].get("Rank")) != (said["ranks"], said["rank"])]
    if wrong:
        problems.append(f"{len(wrong)} transfers with another group or rank than {said['rank']} of {said['ranks']}: {wrong[:3]}")
    kernels = [e for e in rows_of(trace, "kernel") if e["name"].startswith("ncclDevKernel")]
    figures = {"transfers": len(rows), "nccl_kernels": len(kernels)}
    if said["ranks"] > 1 and not kernels:
        problems.append("no kernel of NCCL")
    if trace["distributedInfo"].get("backend") != "nccl":
        problems.append(f"distributedInfo has backend {trace['distributedInfo'].get('backend')}")
    nameless = sum("Collective name" not in e["args"] for e in kernels)
    if nameless:
        problems.append(f"{nameless} kernels of NCCL lack the data of their transfer")
    for e in kernels:
        rate = e["args"].get("Algorithm bandwidth (GB/s)")
        if rate is not None and e["dur"] and abs(rate - e["args"]["bytes"] / (e["dur"] * 1000)) > 0.02 * rate:
            problems.append(f"{e['name']}: {rate} GB/s for {e['args']['bytes']} bytes in {e['dur']} us")
            break
    return figures, problems


# ---- regions, unfinished files ---------------------------------------------------------------------------------

def region_problems(traces, inside_each, name):
    """Checks that each region has a trace with exactly its kernels."""
    if len(traces) != len(inside_each):
        return [f"{len(inside_each)} regions, {len(traces)} traces"]
    problems = []
    traces = sorted(traces, key=lambda trace: min((e["ts"] for e in rows_of(trace, "kernel")), default=0))
    for trace, wanted in zip(traces, inside_each):
        found = collections.Counter(e["name"] for e in rows_of(trace, "kernel"))
        got = sum(count for kernel, count in found.items() if name in kernel)
        if got != wanted or got != sum(found.values()):
            problems.append(f"{wanted} kernels in the region, {got} recorded and {sum(found.values()) - got} of others")
        problems += loss_problems(trace)
    return problems
