# SPDX-License-Identifier: Apache-2.0
"""Checks with the programs of tests/gpu: each prints what it launched, and all of that must be in the trace. With the simulated GPU it also
checks how cprof used CUDA and CUPTI."""

import collections
import json
import os
import pathlib
import re
import signal
import tarfile
import time

from gpu_check import raw
from gpu_check.build import find_tool
from gpu_check.rules import (failed_allocations, graph_problems, join_problems, loss_problems, product_problems, range_problems, rate_problems,
                             read, region_problems, rows_of, step_problems, transfer_problems, whole_problems, window_problems)
from gpu_check.run import FRAIL, ended, said, tally
from gpu_check.summaries import CHECKED_MOST, summary_problems

FIXTURE_BYTES = 100_000

# (name, arguments of a quick run, of a full run). The whole run of a program is one trace.
WHOLE = [
    ("many", "--launches 500", "--launches 20000 --ns 3000"),
    ("many", "--threads 8 --streams 4 --launches 500", "--threads 8 --streams 4 --launches 25000 --ns 20000"),
    ("copies", "", ""),
    ("graphs", "--launches 5", "--launches 1000"),
    ("events", "", "--rounds 100"),
    ("queries", "--rounds 500", "--rounds 14000"),
    ("long_capture", "", "--nodes 20000"),
    ("pools", "", "--rounds 50"),
    ("out_of_memory", "", ""),
    ("static_runtime", "", "--launches 1000"),
    ("driver_only", "", "--launches 1000"),
    ("two_runtimes", "", ""),
    ("reset", "", ""),
    ("forked", "", ""),
    ("marked", "", ""),
    ("exit_now", "--how return", "--how return"),
    ("exit_now", "--how exit", "--how exit"),
    ("exit_now", "--how _exit", "--how _exit"),
]
# Programs with steps: name, arguments of a quick and of a full run, settings, rule for the launches of a step.
WINDOWS = [
    ("outlive", "--steps 16 --ms 500", "--steps 40 --ms 2000", dict(WAIT=1, WARMUP=1, ACTIVE=3, REPEAT=3), "outlive"),
    ("train", "--steps 12", "--steps 60", dict(WARMUP=1, ACTIVE=3, REPEAT=2), "train"),
]
# Counters of the simulated CUPTI that must stay 0.
FORBIDDEN = ("misuse", "kind_kernel", "finalizes", "forced_while_on", "concurrent_flushes")
# Rules for single programs, beyond the counts.
MORE = {"marked": lambda trace: [*range_problems(trace, {"nvtx outer": 1, "itt inner": 1})],
        "out_of_memory": lambda trace: [] if len(failed_allocations(trace)) == 2 else
        [f"2 allocations failed, {len(failed_allocations(trace))} recorded as such"]}


def sim_problems(without, result):
    """Problems that the simulation saw: calls that cprof added, misuse of CUPTI, kinds left on."""
    added = collections.Counter({n: c for n, c in result.core.items() if n.startswith("calls.")})
    added.subtract({n: c for n, c in without.core.items() if n.startswith("calls.")})
    added = {name[6:]: n for name, n in added.items() if n}
    if added:
        yield f"CUDA calls added by cprof: {added}"
    for name in FORBIDDEN:
        if result.cupti.get(name):
            yield f"CUPTI: {name} {result.cupti[name]}"
    if result.cupti.get("enables") != result.cupti.get("disables") and f"CUPTI {FRAIL} " not in result.err:
        yield f"CUPTI: {result.cupti.get('enables')} enables, {result.cupti.get('disables')} disables"


def same_without(without, result):
    """Problems if the program does something else with the library."""
    if without.rc != 0:
        yield f"fails without cprof, too: {without.rc} {without.err[-300:]}"
    elif result.rc != 0:
        yield f"ends with {result.rc} under cprof: {result.err[-300:]}"
    elif tally(without) != tally(result):
        yield "launched something else under cprof"


def show(figures):
    least = figures.get("least_gap_ns")
    return f"{figures.get('kernels', 0):,} kernels, {figures.get('copies', 0):,} copies" + (f", least gap {least} ns" if least is not None else "")


def finish(check, where, problems, figures, shown=None):
    check.finish(where, shown or show(figures), "all, matched", figures, problems)


# ---- each kind -------------------------------------------------------------------------------------------------

def run_whole(check, name, args):
    where = f"{name} {args}".strip()
    command = [check.program(name), *args.split()]
    without, result = check.run(command, preload=False), check.run(command, SCHEDULE_SCOPE="none")
    problems = list(same_without(without, result))
    figures = {}
    if len(result.traces) != 1:
        problems.append(f"{len(result.traces)} traces: {result.err[-300:]}")
    else:
        trace = read(result.traces[0])
        figures, found = whole_problems(trace, tally(result))
        problems += [*found, *MORE.get(name, lambda trace: [])(trace), *summary_problems(result.traces[0], CHECKED_MOST)]
        if trace.get("cupti_version", 0) < check.least_version:
            problems.append(f"cprof took CUPTI {trace.get('cupti_version')}, not {check.least_version}")
        if not check.label:  # the machine's own CUPTI
            check.figures.setdefault("cupti_version", trace.get("cupti_version"))
            check.figures.setdefault("deviceProperties", trace.get("deviceProperties"))
    problems += [f"said: {line}" for line in said(result) if not line.startswith(check.may_say)]
    if check.sim:
        problems += sim_problems(without, result)
    finish(check, where, problems, dict(figures, seconds=result.seconds, seconds_without=without.seconds))


def run_windows(check, name, args, settings, rule):
    where = f"{name} {args}".strip()
    command = [check.program(name), *args.split()]
    without, result = check.run(command, preload=False), check.run(command, **settings)
    problems = list(same_without(without, result))
    if len(result.traces) != settings["REPEAT"]:
        problems.append(f"{len(result.traces)} traces, {settings['REPEAT']} windows: {result.err[-300:]}")
    figures = collections.Counter()
    for path in result.traces:
        window, found = window_problems(read(path), rule)
        problems += found
        figures.update({key: value for key, value in window.items() if isinstance(value, int) and not key.startswith("least")})
    problems += [f"said: {line}" for line in said(result)]
    if check.sim:
        problems += sim_problems(without, result)
    finish(check, where, problems, dict(figures, seconds=result.seconds, seconds_without=without.seconds))


def run_client(check, _name):
    """Checks that the records of another client are complete, and cprof's while that client does not work. Like Kineto, the client may leave
    CUPTI its counter as clock: CUPTI 13.0 then times the first kernels of the next window between the two clocks, and cprof counts them as
    untimed. A kernel that runs when the client begins may reach the client or nobody."""
    client_case(check, "second client")
    client_case(check, "second client that leaves its clock", "--clock 1", untimed=0 if check.sim else LAUNCHES)
    client_case(check, "second client that begins while a kernel runs", "--busy 20000000", spare=1)


LAUNCHES = 50  # of a step of second_client


def client_case(check, where, args="", spare=0, untimed=0):
    """spare: kernels of a session that may be lost or go to the other client. untimed: kernels of a session that may lack times."""
    command = f"--first 4 --length 2 --period 8 --sessions 3 --steps 30 {args}".split()
    result = check.run([check.program("second_client"), *command], WARMUP=1, ACTIVE=3, REPEAT=7)
    problems = ended(result)
    sessions = re.findall(r"^session (\d+) (\d+) (\d+)$", result.out, re.M)
    problems += [f"session {n} of the other: {launched} launched, it got {got}" for n, launched, got in sessions
                 if not 0 <= int(got) - int(launched) <= spare]
    if len(sessions) != 3:
        problems.append(f"{len(sessions)} sessions of 3")
    if len(result.traces) != 7:
        problems.append(f"{len(result.traces)} traces of 7")
    kernels, lost = 0, collections.Counter()
    for path in result.traces:
        trace = read(path)
        lost.update({name: n for name, n in trace["cprof"]["lost"].items() if n and name != "total"})
        problems += join_problems(trace)[1]
        kernels += len(rows_of(trace, "kernel"))
    # A busy machine writes two windows at once, and a session's loss may be in either.
    allowed = {"gpu_unfinished", "launch_without_kernel"} if spare else set()
    allowed |= {"gpu_no_time"} if (spare or untimed) and not check.sim else set()
    if set(lost) - allowed or sum(lost.values()) > (spare + untimed) * len(sessions):
        problems.append(f"lost: {dict(lost)}")
    if kernels < LAUNCHES:
        problems.append(f"{kernels} kernels of cprof's windows between the other's sessions")
    problems += [f"said: {line}" for line in said(result) if "CUPTI client" not in line]
    finish(check, where, problems, {"kernels": kernels, "traces": len(result.traces)})


# NVIDIA's tools, which prevent the use of CUPTI in the process that they watch.
TOOLS = {"nsys": ["profile", "--trace=cuda", "--sample=none", "--cpuctxsw=none", "--force-overwrite=true", "--output=theirs"],
         "compute-sanitizer": ["--tool=memcheck", "--log-file=theirs.txt"]}


def run_tool(check, tool):
    """Checks cprof in a program under another tool. The program and the tool do the same as without cprof. cprof records everything, or it
    records the calls and reports in one line that the kernels are missing."""
    path = find_tool(check.nvcc, tool)
    if check.sim or not path:
        check.skip(f"{tool} beside cprof", "no such tool on the simulated GPU" if check.sim else "not installed")
        return
    command = [path, *TOOLS[tool], check.program("many"), "--launches", 500]
    without, result = check.run(command, preload=False), check.run(command, SCHEDULE_SCOPE="none")
    problems = list(same_without(without, result))
    left = [len(list(each.folder.glob("theirs*"))) for each in (without, result)]
    if left[0] != left[1]:
        problems.append(f"the tool leaves {left[1]} files, {left[0]} without cprof")
    calls = kernels = 0
    for trace in map(read, result.traces):
        calls += sum("LaunchKernel" in e["name"] for e in rows_of(trace, "cuda_runtime"))
        kernels += len(rows_of(trace, "kernel"))
    if not problems and calls != tally(result)["kernels"]:
        problems.append(f"{tally(result)['kernels']} launches, {calls} recorded")
    lines = [line for line in said(result) if not line.startswith("NVTX_INJECTION64_PATH is ")]  # compute-sanitizer also uses NVTX
    if len(lines) != (kernels != calls):
        problems.append(f"{kernels} kernels of {calls} launches, and said: {lines}")
    finish(check, f"{tool} beside cprof", problems, {"calls": calls, "kernels": kernels, "seconds": result.seconds, "seconds_without": without.seconds},
           f"{calls:,} launches, {kernels:,} kernels; {lines[0][:60] if lines else 'no message'}")


def run_capture(check, _name):
    """Checks windows that begin and end during a capture: the capture succeeds, and each step has its kernels. Also checks a window that
    launches a graph made while cprof did not record. CUPTI is subscribed then without any kind, and issues report graphs whose kernels are
    never seen (lightseekorg/tokenspeed#1348, CUDA 13.0)."""
    without = check.run([check.program("capture")], preload=False)
    capture_windows(check, without, "windows during a capture", 4, [], WARMUP=1, ACTIVE=2, REPEAT=4)
    earlier = ["--at", "5", "--steps", "15", "--step-ms", "250"]  # made in steps 7 and 10, when the kinds of the first step are off
    without = check.run([check.program("capture"), *earlier], preload=False)
    capture_windows(check, without, "a graph made before the window", 1, earlier, WAIT=11, WARMUP=1, ACTIVE=2, REPEAT=1)
    # A graph made while kinds are on, and launched after they were switched off and on: according to torch's own monitor of CUPTI its nodes then
    # give no records if RUNTIME and DRIVER were off (torch/profiler/_cupti/monitor.py).
    first = ["--at", "13", "--captures", "1", "--steps", "34", "--step-ms", "100"]
    without = check.run([check.program("capture"), *first], preload=False)
    capture_windows(check, without, "a graph of the window before", 2, first, WAIT=12, WARMUP=1, ACTIVE=3, REPEAT=2)


def capture_windows(check, without, where, windows, args, **settings):
    result = check.run([check.program("capture"), *args], **settings)
    problems = [*same_without(without, result)]
    figures = collections.Counter()
    if len(result.traces) != windows:
        problems.append(f"{len(result.traces)} traces of {windows}: {result.err[-300:]}")
    for path in result.traces if result.rc == 0 else []:
        window, found = step_problems(read(path), tally(result)["steps"])
        problems += found
        figures.update({key: window[key] for key in ("kernels", "copies")})
    problems += [f"said: {line}" for line in said(result)]
    finish(check, where, problems, dict(figures, seconds=result.seconds))


def run_graphs(check, _name):
    """Checks CPROF_GPU_GRAPHS=whole: each launch of a graph has a row. If CUPTI is too old, cprof reports that, and each node has a row."""
    graphs_from_start(check)
    if check.has("capture"):
        graphs_after_waiting(check)


def graphs_after_waiting(check):
    """Checks a graph made long before the window, while nothing is recorded: CUPTI must still record it as a whole."""
    steps = 2
    result = check.run([check.program("capture"), "--at", 5, "--steps", 15, "--step-ms", 250], GPU_GRAPHS="whole", WAIT=11, WARMUP=1, ACTIVE=steps,
                       REPEAT=1)
    problems, figures = ended(result), {}
    if not problems and len(result.traces) != 1:
        problems = [f"{len(result.traces)} traces: {result.err[-300:]}"]
    if not problems and not any("older than CUDA 12.6" in line for line in said(result)):
        figures, problems = graph_problems(read(result.traces[0]), steps)
        problems += [f"said: {line}" for line in said(result)]
    finish(check, "a graph as a whole, made before the window", problems, figures)


def graphs_from_start(check):
    result = check.run([check.program("graphs"), "--launches", 5 if check.options.quick else 1000], GPU_GRAPHS="whole")
    problems, figures = ended(result), {}
    if not problems and len(result.traces) != 1:
        problems = [f"{len(result.traces)} traces: {result.err[-300:]}"]
    if not problems:
        trace, told = read(result.traces[0]), tally(result)
        old = [line for line in said(result) if "older than CUDA 12.6" in line]
        figures, problems = whole_problems(trace, told) if old else graph_problems(trace, told["graph_launches"])
        problems += [f"said: {line}" for line in said(result) if line not in old]
    finish(check, "graphs as a whole", problems, figures)


def run_profiled(check, _name):
    """Checks that CPROF_TRIGGER=cuda records exactly what is between cudaProfilerStart and Stop."""
    result = check.run([check.program("profiled")], TRIGGER="cuda", SCHEDULE_SCOPE="none")
    problems = ended(result)
    traces = [read(path) for path in result.traces]
    if not problems:
        problems += region_problems(traces, tally(result)["inside"], "gemm_kernel")
    finish(check, "cudaProfilerStart to Stop", problems, {"kernels": sum(len(rows_of(trace, "kernel")) for trace in traces)})


def run_products(check, _name):
    """Checks cuBLAS and cuBLASLt called from C: exact operation counts, and the rate of a large product compared with events."""
    count, args = (5, "--size 2048 --ns 25000") if check.sim else (20, "--size 8192")
    result = check.run([check.program("products"), *args.split(), "--peak", count], SCHEDULE_SCOPE="none")
    problems, figures = ended(result), {}
    if not problems and len(result.traces) != 1:
        problems = [f"{len(result.traces)} traces: {result.err[-300:]}"]
    if not problems:
        trace, told = read(result.traces[0]), tally(result)
        joined, unjoined = join_problems(trace)
        problems = [*product_problems(trace, told["products"]), *unjoined, *loss_problems(trace)]
        # Simulated kernels follow each other with gaps that only the events see.
        figures, rates = rate_problems(trace, told["large"]["flops"], told["large"]["ns"], count, most=3 if check.sim else 1.1)
        problems += rates
        figures.update(kernels=len(rows_of(trace, "kernel")), calls=sum(p["calls"] for p in told["products"]), least_gap_ns=joined["least_gap_ns"])
    rate = figures.get("shown_tflops") or 0
    finish(check, "cuBLAS and cuBLASLt", problems, figures,
           f"{figures.get('calls', 0)} calls, {rate:.0f} TFLOP/s by kernels, {figures.get('measured_tflops', 0):.0f} by events, MFU {figures.get('mfu', 0):.0%}")


def run_ranks(check, ranks):
    """Checks NCCL, with a process and a device for each rank."""
    meeting = check.work / f"nccl-{ranks}"
    command = [check.program("ranks"), "--ranks", ranks, "--id", meeting, "--check", int(not check.sim), "--rank"]
    running = [check.start([*command, rank], SCHEDULE_SCOPE="none", env={"NCCL_NVTX_DISABLE": "0"}) for rank in range(ranks)]
    problems, figures = [], collections.Counter()
    for result in [check.wait(each, check.options.program_limit) for each in running]:
        problems += ended(result)
        if result.rc == 0 and len(result.traces) != 1:
            problems.append(f"{len(result.traces)} traces: {result.err[-300:]}")
        if result.rc != 0 or len(result.traces) != 1:
            continue
        trace = read(result.traces[0])
        found, wrong = transfer_problems(trace, tally(result))
        problems += [*wrong, *loss_problems(trace)]
        problems += [] if check.sim else range_problems(trace, {}, ["nccl"])
        figures.update(found)
    finish(check, f"NCCL, {ranks} rank{'s' * (ranks > 1)}", problems, figures,
           f"{figures['transfers']} transfers, {figures['nccl_kernels']} kernels of NCCL")


def launches_in(path):
    """The launches in a file that is still being written or was left; None if it is not whole JSON at the moment."""
    try:
        trace = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return sum("LaunchKernel" in e["name"] for e in rows_of(trace, "cuda_runtime", "cuda_driver"))


def run_killed(check, _name):
    """Checks SIGTERM during a kernel that began after 40 steps: the program dies of it at once and leaves a whole file."""
    running = check.start([check.program("outlive"), "--steps", 2000, "--at", 40, "--ms", 20000], SCHEDULE_SCOPE="none")
    folder, until = running.folder, time.monotonic() + min(15, check.left())  # the long kernel runs for 20 s
    enough = 50  # launches of the first quarter of a second before the kernel, five per step

    def ready():
        written = (launches_in(path) or 0 for path in (folder / "traces").glob("*.part"))
        return "long kernel" in (folder / "err.txt").read_text() and any(n >= enough for n in written)

    while not ready() and time.monotonic() < until and running.process.poll() is None:
        time.sleep(0.05)
    sent = time.monotonic()
    if running.process.poll() is None:
        os.kill(running.process.pid, signal.SIGTERM)
    result = check.wait(running, 30)
    problems = [] if result.rc == -signal.SIGTERM else [f"ends with {result.rc}, not by SIGTERM: {result.err[-300:]}"]
    left = sorted(path for path in (folder / "traces").glob("*") if ".json" in path.name and not path.name.endswith(".jsonl"))
    launches = launches_in(left[0]) if len(left) == 1 else None
    figures = {"seconds_to_die": time.monotonic() - sent, "files": [path.name for path in left], "launches": launches}
    if len(left) != 1:
        problems.append(f"files left: {figures['files']}")
    elif launches is None:
        problems.append("the file that was left is not JSON")
    elif launches < enough:
        problems.append(f"{launches} launches in the file that was left, but about 200 were made before the long kernel")
    check.finish("SIGTERM in the middle of a kernel", f"{launches} launches in the file left, dead after {figures['seconds_to_die']:.1f} s", "a whole file",
                 figures, problems)


def run_flight(check, _name):
    """Checks kill -9 with the flight recorder: the file has the last steps, each with its five kernels."""
    running = check.start([check.program("outlive"), "--steps", 2000, "--at", 2000], FLIGHT=1, FLIGHT_WHAT="steps,kernels", FLIGHT_SLOW=0,
                          SKIP_FIRST=1000000)
    path, until = running.folder / "traces/flight/rank0.flight", time.monotonic() + min(15, check.left())

    def recorded():
        """(the steps whose kernels are there, the times of all kernels). CUPTI delivers a buffer when all of its records are finished: the last
        steps may lack theirs."""
        try:
            trace = json.loads(path.read_text())
        except (OSError, ValueError):
            return [], []
        begun = sorted(e["ts"] for e in rows_of(trace, "kernel"))
        steps = sorted((e["ts"], e["ts"] + e["dur"]) for e in rows_of(trace, "user_annotation") if "ProfilerStep#" in e["name"])
        return [(start, end) for start, end in steps[1:-20] if begun and end < begun[-1]], begun

    while len(recorded()[0]) < 40 and time.monotonic() < until and running.process.poll() is None:
        time.sleep(0.1)
    os.kill(running.process.pid, signal.SIGKILL)
    result = check.wait(running, 30)
    problems = [] if result.rc == -signal.SIGKILL else [f"ends with {result.rc}: {result.err[-300:]}"]
    whole, begun = recorded()
    wrong = [n for n, (start, end) in enumerate(whole) if sum(start <= at < end for at in begun) != 5]
    if len(whole) < 20:
        problems.append(f"{len(whole)} steps with kernels in the file")
    if wrong:
        problems.append(f"{len(wrong)} of {len(whole)} steps have not five kernels: {wrong[:5]}")
    finish(check, "kill -9 with the flight recorder", problems, {"steps": len(whole), "kernels": len(begun)},
           f"{len(whole)} steps, {len(begun)} kernels in the file")


def run_deadline(check, _name):
    """Checks a program that exits while cprof still drains CUPTI. After the deadline cprof calls CUPTI no more, because the driver shuts down;
    the file is whole JSON, but has no finished trace's name. The program waits for the file: on a busy machine it could end before there is
    one."""
    command = [check.program("exit_now"), "--launches", 50000, "--ns", 100, "--linger", 300]
    without = check.run(command, preload=False)
    result = check.run([*command, "--when-written", "traces"], SCHEDULE_SCOPE="none", DRAIN_DEADLINE_MS=1)
    problems = list(same_without(without, result))
    left = sorted((result.folder / "traces").glob("*.part"))
    files = [pathlib.Path(path) for path in result.traces] + left
    launches = launches_in(files[0]) if len(files) == 1 else None
    if len(files) != 1 or launches is None:
        problems.append(f"not one file of whole JSON: {[path.name for path in files]}")
    if left and not any("CPROF_DRAIN_DEADLINE_MS" in line for line in said(result)):
        problems.append("the trace was left unfinished without a message")
    if result.cupti.get("misuse"):
        problems.append(f"CUPTI: misuse {result.cupti['misuse']}")
    finish(check, "exit in the middle of a drain", problems, {"launches": launches, "finished": not left, "seconds": result.seconds},
           f"{launches} launches in the file, which is {'left as .part' if left else 'finished'}")


SPECIAL = {"exit_now": run_deadline, "graphs": run_graphs, "second_client": run_client, "capture": run_capture, "profiled": run_profiled,
           "outlive": run_killed}


def run_programs(check):
    quick = check.options.quick
    jobs = [(run_whole, name, few if quick else many) for name, few, many in WHOLE if (check.sim or name != "two_runtimes") and check.has(name)]
    jobs += [(run_windows, name, few if quick else many, settings, rule) for name, few, many, settings, rule in WINDOWS if check.has(name)]
    jobs += [(function, name) for name, function in SPECIAL.items() if check.has(name)]
    jobs += [(run_flight, "outlive")] if check.has("outlive") else []
    alone = [(run_products, "products")] if check.has("products") else []  # alone, since two programs on a device take turns, which changes kernel times
    if check.has("ranks"):
        jobs += [(run_ranks, ranks) for ranks in (1, 2) if ranks <= check.n_devices]
        if check.n_devices < 2:
            check.skip("NCCL, 2 ranks", "one device")
    check.together(jobs)
    check.together(alone)


def run_tools(check):
    check.together([(run_tool, tool) for tool in TOOLS if check.has("many")])


# ---- raw buffers -----------------------------------------------------------------------------------------------

def run_raw(check):
    """Saves raw buffers of small runs for the tests that replay them, and checks in them that cprof never waits for the device."""
    runs = [("copies", ""), ("graphs", "--launches 2"), ("events", "--rounds 2"), ("many", "--launches 20"), ("pools", "--rounds 2"), ("reset", "--rounds 1")]
    archive = check.out / "fixtures.tar.gz"
    kept, figures, problems, found = [], {}, [], []
    nested = collections.Counter()
    with tarfile.open(archive, "w:gz") as tar:
        for name, args in runs:
            if not check.has(name):
                continue
            folder = check.work / f"raw-{name}"
            folder.mkdir(parents=True, exist_ok=True)
            result = check.run([check.program(name), *args.split()], GPU_DUMP=folder, GPU_BUFFER_KB=64)
            found = sorted(folder.glob("*.bin"))
            if result.rc != 0 or not found:
                problems.append(f"{name}: {len(found)} files, {result.err[-200:]}")
                continue
            figures[name], wrong = raw.wait_problems(found, tally(result))
            problems += [f"{name}: {text}" for text in wrong]
            nested.update(raw.nesting(found))
            for path in found:
                if path.stat().st_size < FIXTURE_BYTES:
                    tar.add(path, f"{name}-{path.name}")
                    kept.append(f"{name}-{path.name}")
    if not kept:
        problems.append("none was small enough to keep")
    check.figures["fixtures"] = kept
    check.figures["driver_calls_inside_runtime_calls"] = dict(nested)
    check.row("driver calls inside runtime calls (raw)", f"of {nested['runtime']} runtime calls: {nested['same id']} with its id, {nested['own id']} with their own")
    asked = sum(sum(each["waits"].values()) for each in figures.values())
    check.finish("no wait of cprof's for the device (raw API records)", f"{asked} waits, {len(kept)} raw buffers kept", "the program's only", figures, problems)
