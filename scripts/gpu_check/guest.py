# SPDX-License-Identifier: Apache-2.0
"""Checks cprof as a guest: memory, kernels that wait for other threads, forks, and other clients of CUPTI before, during and after a window."""

import re

from gpu_check.rules import join_problems, loss_problems, read, rows_of, steps_of, whole_problems
from gpu_check.run import ended, said, tally

MODES = {"unprofiled": None, "after a window": dict(SKIP_FIRST=1, WARMUP=0, ACTIVE=1),
         "nodes": dict(SCHEDULE_SCOPE="none", MAX_TRACE_MB=256, NUM_TRACES_TO_KEEP=1),
         "graphs as a whole": dict(SCHEDULE_SCOPE="none", GPU_GRAPHS="whole")}
DEVICE_GROWTH_MB, RESIDENT_GROWTH_MB = 100, 100  # a million graph nodes


# ---- memory ----------------------------------------------------------------------------------------------------

def growth(parts):
    """(first, last, growth per million nodes) in MB, from (nodes, MB) pairs. Memory of the first part does not count as growth."""
    (nodes, first), (more, last) = parts[0], parts[-1]
    return first, last, (last - first) * 1e6 / (more - nodes)


def run_memory(check):
    """Measures the memory in use after each fifth of a run of graphs."""
    if not check.has("memory"):
        return
    small = check.sim or check.options.quick
    command = [check.program("memory"), "--nodes", 4000 if small else 1000000]
    found = {}
    for mode, settings in MODES.items():
        more = ["--mark", 2] if mode == "after a window" else []
        result = check.run([*command, *more], preload=settings is not None, **(settings or {}))
        rows = [tuple(map(int, row)) for row in re.findall(r"^memory (\d+) (\d+) (\d+)$", result.err, re.M)]
        if result.rc != 0 or len(rows) < 2:
            check.fail(f"memory, {mode}", f"ends with {result.rc}: {result.err[-300:]}")
            continue
        found[mode] = {"device": growth([(nodes, device / 1e6) for nodes, device, _ in rows]),
                       "process": growth([(nodes, kb / 1e3) for nodes, _, kb in rows])}
        show_memory(check, mode, found, rows[-1][0])
    check.figures["memory"] = found


def show_memory(check, mode, found, nodes):
    bare, now = found.get("unprofiled"), found[mode]
    for what, most in (("device", DEVICE_GROWTH_MB), ("process", RESIDENT_GROWTH_MB)):
        first, last, grows = now[what]
        over = f", {last - bare[what][1]:+.0f} MB over unprofiled" if bare and mode != "unprofiled" else ""
        measured = not (check.sim or check.options.quick)  # a few thousand nodes are too few to judge
        check.row(f"memory of the {what}, {mode}, {nodes:,} graph nodes", f"{last:.0f} MB{over}, {grows:+.1f} MB a million nodes",
                  f"<= {most} MB" if measured else "", grows <= most if measured else None)


# ---- kernels that wait, forks -----------------------------------------------------------------------------------

def run_edges(check):
    """Checks that another thread can end a kernel that waits for it, while steps begin and end: neither cprof nor a call of CUPTI that it makes
    waits for the device."""
    if not check.has("edges"):
        return
    command = [check.program("edges"), "--rounds", 3 if check.options.quick else 10]
    without = check.run(command, preload=False)
    result = check.run(command, WAIT=1, WARMUP=1, ACTIVE=1, REPEAT=0)
    problems = [*ended(without, "no profiler"), *ended(result)]
    told, alone = tally(result), tally(without)
    if not problems and told["by_flag"] != alone["by_flag"]:
        problems.append(f"of {told['rounds']} kernels {told['by_flag']} ended by the other thread, {alone['by_flag']} without cprof")
    if not problems and len(result.traces) < 2 * told["rounds"]:
        problems.append(f"{len(result.traces)} windows")
    for path in result.traces:
        problems += join_problems(read(path))[1]
    problems += [f"said: {line}" for line in said(result)]
    check.finish("steps while a kernel waits for another thread", f"{told.get('by_flag')} of {told.get('rounds')} kernels, {len(result.traces)} windows",
                 "as without", {"seconds": result.seconds, "seconds_without": without.seconds}, problems)


def run_forks(check):
    """Checks forks. Each child calls CUDA, which fails there, and exits. An alarm ends a child that hangs, and the run fails."""
    if not check.has("forked"):
        return
    children = 20 if check.options.quick else 500
    result = check.run([check.program("forked"), "--children", children, "--beside", 1], limit=25, SCHEDULE_SCOPE="none")
    problems, figures = ended(result), {}
    if not problems and len(result.traces) != 1:
        problems = [f"{len(result.traces)} traces: {result.err[-300:]}"]
    if not problems:
        figures, problems = whole_problems(read(result.traces[0]), tally(result))
        problems += [f"said: {line}" for line in said(result)]
    check.finish(f"{children} forks beside a thread that launches", f"{figures.get('kernels', 0):,} kernels, {result.seconds:.1f} s", "all end", figures,
                 problems)


# ---- other clients -----------------------------------------------------------------------------------------------

LAUNCHES = 50  # of a step
WINDOW = dict(SKIP_FIRST=14, WARMUP=1, ACTIVE=3)  # the steps 15 to 17; each begins with a pause of 40 ms
STYLES = {"Kineto": "", "JAX": "--hidden 1 --leaves 1 --patience 5", "Proton": "--hidden 1 --leaves 1 --finalizes 1 --patience 5"}
WHEN = {"before": "--first 10 --length 2", "during": "--first 16 --length 1", "after": "--first 28 --length 2"}
AGAIN = {"CUPTI kept in between": dict(SKIP_FIRST=30, WAIT=30, WARMUP=1, ACTIVE=3, REPEAT=6),
         "CUPTI given back in between": dict(SKIP_FIRST=150, WAIT=150, WARMUP=1, ACTIVE=3, REPEAT=6)}


def run_client(check, style, when):
    """Checks another client of CUPTI. Outside the window it gets all its records. During the window cprof gives way to a client that it sees,
    and may then lose kernels; a client that it cannot see is refused, and cprof's window is complete."""
    command = f"--steps 34 --pause 40 --launches {LAUNCHES} --sessions 1 {WHEN[when]} {STYLES[style]}".split()
    result = check.run([check.program("second_client"), *command], **WINDOW)
    problems, seen = ended(result), style == "Kineto"
    sessions = re.findall(r"^session \d+ (\d+) (\d+)$", result.out, re.M)
    launched, got = map(int, sessions[0]) if len(sessions) == 1 else (0, 0)
    if not problems and (len(sessions) != 1 or len(result.traces) != 1):
        problems = [f"{len(sessions)} sessions and {len(result.traces)} traces, one each was asked for: {result.err[-300:]}"]
    if not problems and got != launched and not (when == "during" and not seen and got == 0):
        problems.append(f"it launched {launched} kernels and got {got}")
    kernels = 0
    if not problems:
        trace = read(result.traces[0])
        kernels = len(rows_of(trace, "kernel"))
        problems += [*loss_problems(trace), *join_problems(trace)[1]]
        wanted = LAUNCHES * len(steps_of(trace))
        if kernels != wanted and not (when == "during" and seen):
            problems.append(f"{wanted} kernels in the window, cprof recorded {kernels}")
    problems += [f"said: {line}" for line in said(result) if not (seen and "CUPTI client" in line)]
    shown = f"it got {got} of {launched} kernels, cprof {kernels} of {3 * LAUNCHES}"
    check.finish(f"a client like {style} {when} the window", shown, "its own, all" if when != "during" else "", {"got": got, "kernels": kernels}, problems)


def run_clients(check):
    if check.has("second_client"):
        check.together([(run_client, style, when) for style in STYLES for when in WHEN])


def run_again_case(check, name, settings):
    """Checks steps of a millisecond without a pause: cprof switches off kinds and releases CUPTI while the program launches."""
    steps = settings["SKIP_FIRST"] + settings["REPEAT"] * (settings["WAIT"] + 4) + 50
    result = check.run([check.program("second_client"), "--sessions", 0, "--launches", LAUNCHES, "--steps", steps], **settings)
    problems, kernels = ended(result), []
    if not problems and len(result.traces) != settings["REPEAT"]:
        problems.append(f"{len(result.traces)} windows of {settings['REPEAT']}: {result.err[-300:]}")
    for path in result.traces:
        trace = read(path)
        kernels.append(len(rows_of(trace, "kernel")))
        problems += [*loss_problems(trace), *join_problems(trace)[1]]
    if not problems and set(kernels) != {3 * LAUNCHES}:
        problems.append(f"windows of {3 * LAUNCHES} kernels have {kernels}")
    problems += [f"said: {line}" for line in said(result)]
    check.finish(f"windows while launches go on, {name}", f"{kernels} kernels", "all", {"kernels": kernels, "seconds": result.seconds}, problems)


def run_again(check):
    if check.has("second_client"):
        check.together([(run_again_case, name, settings) for name, settings in AGAIN.items()])


def run_whole_then(check):
    """Checks another client's graphs after a window of cprof's. In mode nodes it gets all of them. In mode whole CUPTI's header applies:
    "disabling does not restore node level tracing"."""
    if not check.has("second_client"):
        return
    for mode in ("nodes", "whole"):
        command = f"--graph 1 --steps 16 --launches {LAUNCHES} --first 10 --length 2".split()
        result = check.run([check.program("second_client"), *command], WARMUP=1, ACTIVE=2, GPU_GRAPHS=mode)
        problems = ended(result)
        sessions = re.findall(r"^session \d+ (\d+) (\d+)$", result.out, re.M)
        launched, got = map(int, sessions[0]) if sessions else (0, 0)
        if not launched or (mode == "nodes" and got != launched):
            problems.append(f"it launched {launched} nodes and got {got}")
        check.finish(f"another client's graphs after CPROF_GPU_GRAPHS={mode}", f"it got {got} of {launched} nodes",
                     "all" if mode == "nodes" else "", {"launched": launched, "got": got}, problems)
    from gpu_check import features
    if not check.sim and features.torch_is_there(check):
        check.together([(features.run_graph_client, mode) for mode in ("nodes", "whole")])
