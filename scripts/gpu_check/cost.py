# SPDX-License-Identifier: Apache-2.0
"""Measures the cost of recording, as ratios of alternating runs: unprofiled, before any window, after one, while recording, under torch.profiler.
Also measures for how long a window's end blocks the stepping thread, and how well the clocks of GPU and CPU agree over idle gaps."""

import collections
import re
import statistics
import sys

from gpu_check import features
from gpu_check.rules import overlap_problems, read, whole_problems
from gpu_check.run import ended, tally

IDLE_GOAL = 1.002
GOALS = {("launch-bound", "recording"): 1.3, ("compute-bound", "recording"): 1.01,
         **{(load, mode): IDLE_GOAL for load in ("launch-bound", "compute-bound", "graph-bound") for mode in ("idle", "after")}}
# Loads of `many`: launches as fast as possible; kernels of 100 us, so that the GPU is the limit; graphs of 200 nodes.
LOADS = {"launch-bound": "--threads 1 --streams 1 --ns 1000 --sync 100 --launches 5000",
         "compute-bound": "--threads 1 --streams 1 --ns 100000 --sync 50 --launches 1000",
         "graph-bound": "--threads 1 --streams 1 --ns 2000 --graph 200 --launches 20000"}
# name: (arguments of the program, settings of cprof). after: the window is over, and cprof has released CUPTI.
MODES = {"unprofiled": ("--mark 1", None),
         "idle": ("--mark 1", dict(SKIP_FIRST=1000000)),
         "after": ("--recorded 2000 --settle 500", dict(SKIP_FIRST=1, WARMUP=0, ACTIVE=1)),
         "recording": ("--mark 1", dict(SKIP_FIRST=1, WARMUP=0, ACTIVE=1))}
REST = 20  # steps after each window of window_end, in which cprof switches off the kinds and releases CUPTI
# With CPROF_GPU_GRAPHS=whole cprof keeps CUPTI between windows and after the last.
KEPT = {"after, CUPTI kept": ("--recorded 2000 --settle 500", dict(SKIP_FIRST=1, WARMUP=0, ACTIVE=1, GPU_GRAPHS="whole"))}
WHOLE = {"recording, graphs as a whole": ("--mark 1", dict(SKIP_FIRST=1, WARMUP=0, ACTIVE=1, GPU_GRAPHS="whole"))}


def report(check, load, times, source):
    """times: mode -> seconds of each round. Only complete rounds count, since the run may have been cut off. The ratios are within rounds, so
    that a slower machine slows both sides."""
    figures = {}
    whole = min(map(len, times.values()), default=0)
    times = {mode: measured[:whole] for mode, measured in times.items()}
    if not whole or any(None in measured for measured in times.values()):
        check.fail(f"{source}, {load}", f"a run failed or did not print its time: {times}")
        return
    for mode, measured in times.items():
        if mode == "unprofiled":
            continue
        ratios = [mine / bare for mine, bare in zip(measured, times["unprofiled"])]
        figures[mode] = {"median": statistics.median(ratios), "least": min(ratios), "most": max(ratios), "rounds": len(ratios)}
        goal = GOALS.get((load, mode))
        shown = f"{figures[mode]['median']:.3f} x unprofiled ({min(ratios):.3f} to {max(ratios):.3f}, {len(ratios)} rounds)"
        check.row(f"{source}, {load}: {mode}", shown, f"<= {goal} x" if goal else "", None if goal is None else figures[mode]["median"] <= goal)
    found = check.figures.setdefault("cost", {}).setdefault(f"{source}, {load}", {"seconds": {}, "ratios": {}})
    found["ratios"].update(figures)
    found["seconds"].update({mode: measured for mode, measured in times.items() if mode not in found["seconds"]})


def seconds_of(result):
    """The seconds of the launching part, which `many` prints."""
    match = re.search(r"^([\d.]+) s, ", result.err, re.M)
    return float(match.group(1)) if match and result.rc == 0 else None


def run_after(check):
    run_cost(check, "launch-bound", {**MODES, **KEPT})
    run_cost(check, "compute-bound", MODES)


def run_graph_cost(check):
    run_cost(check, "graph-bound", {**MODES, **KEPT, **WHOLE})


def run_cost(check, load, modes):
    """Measures the cost in C, the hardest case: no interpreter between the launches."""
    if not check.has("many"):
        return
    rounds, args = 2 if check.options.quick else 5, LOADS[load]
    if not check.options.quick:
        args = re.sub(r"(?<=--launches )\d+", lambda m: str(int(m.group()) * 10), args)
    times = collections.defaultdict(list)
    try:
        for _ in range(rounds):
            for mode, (more, settings) in modes.items():
                command = [check.program("many"), *args.split(), *more.split()]
                times[mode].append(seconds_of(check.run(command, preload=settings is not None, **(settings or {}))))
    finally:
        report(check, load, times, "C")


def run_torch_cost(check):
    """Measures the cost in PyTorch. Each process runs all loads, and the profilers' windows cover the timed steps."""
    if check.sim or not features.torch_is_there(check):
        return
    steps = torch_steps(check)
    torch_rounds(check, {"unprofiled": None, "idle": dict(SKIP_FIRST=1000000), "after": dict(WARMUP=1, ACTIVE=1),
                         "recording": dict(WARMUP=3, ACTIVE=3 * steps), "torch.profiler": None})


def run_flight_cost(check):
    """Measures the cost of the flight recorder in PyTorch, as it is and with kernels, between windows."""
    if check.sim or not features.torch_is_there(check):
        return
    torch_rounds(check, {"unprofiled": None, "flight recorder": dict(SKIP_FIRST=1000000, FLIGHT=1),
                         "flight recorder with kernels": dict(SKIP_FIRST=1000000, FLIGHT=1, FLIGHT_WHAT="steps,collectives,markers,memory,kernels")})


def torch_steps(check):
    """The steps of each load."""
    return 4 if check.options.quick else 40


def torch_rounds(check, modes):
    """modes: the settings of cprof, or None for a run without it."""
    times = collections.defaultdict(lambda: collections.defaultdict(list))
    try:
        run_rounds(check, 1 if check.options.quick else 2, torch_steps(check), modes, times)
    finally:
        for load, measured in times.items():
            report(check, load, measured, "PyTorch")


def run_rounds(check, rounds, steps, modes, times):
    script = check.root / features.SCRIPT
    for _ in range(rounds):
        for mode, settings in modes.items():
            command = [sys.executable, script, "--case", "cost", "--steps", steps, *(["--profile", "1"] if mode == "torch.profiler" else [])]
            result = check.run(command, preload=settings is not None, STEP="manual", **(settings or {}))
            problems = ended(result, mode)
            if problems:
                check.fail("torch cost", problems[0])
                return
            for load, seconds in tally(result)["seconds"].items():
                times[load][mode].append(seconds)


def run_window(check):
    run_window_end(check)
    run_window_open(check)


def run_window_end(check):
    """Measures how long the end of a window blocks the stepping thread."""
    if not check.has("window_end"):
        return
    launches, windows = (2000, 5) if check.options.quick else (100000, 9)
    result = check.run([check.program("window_end"), "--launches", launches, "--windows", windows], WARMUP=1, ACTIVE=1, REPEAT=0)
    found = {name: float(value) for name, value in re.findall(r"^gpu_window_end_(\w+) ([\d.]+) us$", result.err, re.M)}
    check.figures["window_end_us"] = found
    if result.rc != 0 or "cpu_most" not in found:
        check.fail("window_end", f"ends with {result.rc}: {result.err[-300:]}")
        return
    check.row(f"thread at the end of a window of {launches:,} kernels",
              f"{found['cpu_median']} us CPU, at most {found['cpu_most']}; wall {found['wall_median']}, at most {found['wall_most']}",
              "<= 100 us", found["cpu_most"] <= 100)


def run_window_open(check):
    """Measures how long the stepping thread is blocked where kinds are switched on without a warmup step, while a context works. Measures the
    same where they are switched off: by the edge and by the first launch after it, the first time and later. Others saw seconds (pytorch/kineto#542) if CUPTI
    was not loaded from the start."""
    if not check.has("window_end"):
        return
    windows = 3 if check.options.quick else 9
    result = check.run([check.program("window_end"), "--launches", 1000, "--windows", windows, "--rest", REST], SKIP_FIRST=1, SKIP_FIRST_WAIT=1,
                       WAIT=REST + 1, WARMUP=0, ACTIVE=1, REPEAT=0)
    found = {name: float(value) for name, value in re.findall(r"^gpu_window_((?:open|rest)_\w+) ([\d.]+) us$", result.err, re.M)}
    check.figures["window_open_us"] = found
    if result.rc != 0 or "rest_edge_median" not in found:
        check.fail("window_open", f"ends with {result.rc}: {result.err[-300:]}")
        return
    check.row("thread at the start of a window without warmup",
              f"edge {found['open_edge_first']} us, later {found['open_edge_median']}; first launch {found['open_launch_first']}, "
              f"later {found['open_launch_median']}")
    check.row("thread at the longest edge after a window, where kinds go off",
              f"{found['rest_edge_first']} us, later {found['rest_edge_median']}")


def run_clock(check):
    run_clock_gaps(check)
    run_overlap(check)


def run_clock_gaps(check):
    """Compares the times of kernels with those of their launches, and of waits with those of kernels, over idle gaps: the least difference in
    each tenth of the run, and its drift."""
    if not check.has("many"):
        return
    seconds, gap_ms, rounds = (1, 300, 2) if check.options.quick or check.sim else (2, 8000, 3)
    count = seconds * 500
    result = check.run([check.program("many"), "--threads", 1, "--streams", 1, "--sync", 1, "--ns", seconds * 1000000000 // count * 9 // 10,
                        "--launches", count, "--rounds", rounds, "--gap", gap_ms], limit=60, SCHEDULE_SCOPE="none")
    if result.rc != 0 or len(result.traces) != 1:
        check.fail("clock", f"ends with {result.rc}, {len(result.traces)} traces: {result.err[-300:]}")
        return
    figures, problems = whole_problems(read(result.traces[0]), tally(result), slots=10)
    gaps = figures.pop("gap_slots_ns")
    drift = gaps[-1] - gaps[0] if gaps and None not in (gaps[0], gaps[-1]) else None
    after = figures["least_after_ns"]
    check.figures["clock"] = dict(figures, seconds=result.seconds, least_gap_of_each_tenth_ns=gaps, drift_ns=drift)
    for problem in problems[:5]:
        check.fail("clock", problem)
    check.row("kernel start - launch start, least", f"{figures['least_gap_ns']} ns", ">= 0", (figures["least_gap_ns"] or 0) >= 0)
    check.row("end of a wait - end of what it waited for, least", f"{after} ns", ">= 0", (after or 0) >= 0)
    check.row(f"drift of that over {result.seconds:.0f} s", f"{drift} ns; by tenths {gaps}", "", None)


def run_telemetry(check):
    """Measures what reading the GPU's clocks and power costs while a window records, and shows what was read."""
    if not check.has("many"):
        return
    rounds, launches = (1, 8000) if check.options.quick else (2, 20000)
    times, told = collections.defaultdict(list), {}
    for _ in range(rounds):
        for on in (0, 1):
            result = check.run([check.program("many"), "--threads", 1, "--streams", 1, "--ns", 100000, "--sync", 50, "--launches", launches],
                               SCHEDULE_SCOPE="none", GPU_TELEMETRY=on)
            times[on].append(seconds_of(result))
            if on and result.traces:
                told = read_telemetry(read(result.traces[0]))
    check.figures["telemetry"] = {"seconds": times, **told}
    if None in times[0] + times[1] or not told:
        check.fail("telemetry", f"a run failed, or NVML told nothing (cprof doctor says why): {dict(times)}")
        return
    ratio = statistics.median(on / without for on, without in zip(times[1], times[0]))
    check.row("telemetry: recording with it", f"{ratio:.3f} x without", "<= 1.01 x", ratio <= 1.01)
    check.row(f"telemetry: {told['account'].get('readings')} readings", ", ".join(f"{name} {low:g} to {high:g}" for name, (low, high) in told["values"].items()))
    for note in told["notes"]:
        check.fail("telemetry", note)


def read_telemetry(trace):
    """The account and the notes of a trace, and the least and the greatest value of each counter of GPU 0; {} without readings."""
    values = collections.defaultdict(list)
    for e in trace["traceEvents"]:
        if e.get("ph") == "C" and e["pid"] == 0:
            values[e["name"]] += e["args"].values()
    account = trace["cprof"].get("telemetry", {}).get("CUDA:0")
    return {"account": account, "notes": trace["cprof"]["notes"], "values": {name: (min(all_), max(all_)) for name, all_ in values.items()}} if account else {}


def event_ms(result):
    match = re.search(r"^event_ms ([\d.]+)$", result.err, re.M)
    return float(match.group(1)) if match and result.rc == 0 else None


def run_overlap(check):
    """Checks that streams which work at the same time also do so under cprof, and that their rows show it; kernels of one stream follow each
    other. CUDA's events measure the time, also of an unprofiled run."""
    if not check.has("overlap"):
        return
    streams = 4
    command = [check.program("overlap"), "--streams", streams, "--launches", 20 if check.options.quick else 200]
    without, result = check.run(command, preload=False), check.run(command, SCHEDULE_SCOPE="none")
    bare, took = event_ms(without), event_ms(result)
    if not bare or not took or len(result.traces) != 1:
        check.fail("overlap", f"ends with {result.rc}, {len(result.traces)} traces: {result.err[-300:]}")
        return
    # Simulated streams are threads, which wait on a busy machine.
    figures, problems = overlap_problems(read(result.traces[0]), streams, took, 0.9 if check.sim else 0.05)
    check.finish(f"{streams} streams at the same time", f"{figures['at_once']} at once, busy {figures['busy_ms']:.1f} ms, by events {took:.1f}",
                 "all at once", figures, problems)
    check.row("their time by CUDA's events", f"{took / bare:.3f} x unprofiled", "" if check.sim else "<= 1.05 x",
              None if check.sim else took / bare <= 1.05)
