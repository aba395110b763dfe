# SPDX-License-Identifier: Apache-2.0
"""A PyTorch case for each feature (tests/e2e/torch_gpu.py): stacks, modules, FLOPs, memory, triggers, ranges, transfers, a second profiler,
failed allocations, DataLoader workers. With the simulated GPU they run on the CPU, where only some of the rules apply."""

import collections
import sys

from gpu_check.rules import (driver_memory, failed_allocations, join_problems, loss_problems, memory_problems, module_problems, operator_problems,
                             range_problems, read, rows_of, stack_problems, steps_of)
from gpu_check.run import ended, output, said, tally
from gpu_check.summaries import CHECKED_MOST, summary_problems

SCRIPT = "tests/e2e/torch_gpu.py"
STEPS = 6
WINDOW = dict(STEP="manual", WARMUP=3, ACTIVE=STEPS - 3)


# ---- a rule per case: (trace, the script's tally, whether it ran on a GPU) -> problems ---------------------------

def stack(trace, told, _device):
    return stack_problems(trace, told["operator"], told["function"], told["calls"])


def modules(trace, told, _device):
    return module_problems(trace, told["modules"], told["operators"])


def flops(trace, told, device):
    yield from operator_problems(trace, told["operators"], told["library"] if device else ())
    where = "CUDA:0" if device else "CPU"
    total, wanted = trace["cprof"]["flops"].get(where, {}).get("flops"), sum(told["operators"].values())
    if total != wanted:
        yield f"{wanted} operations asked for, {total} in the trace's sum"
    coverage = trace["cprof"]["flops"].get(where, {}).get("coverage_percent", 0)
    if device and coverage < 99:
        yield f"{coverage} % of the kernel time was counted, all of it computes"


def memory(trace, told, device):
    yield from memory_problems(trace, told["allocations"], device)
    if device and driver_memory(trace) != told["from_driver"]:
        yield f"torch took {told['from_driver']} bytes from the driver, {driver_memory(trace)} recorded"


def ranges(trace, told, _device):
    return range_problems(trace, told["ranges"])


def transfers(trace, told, device):
    found = collections.Counter(e["name"] for e in rows_of(trace, "collective_comm") if e["args"].get("bytes") == told["bytes"])
    for name, calls in told["calls"].items() if device else ():
        if found[name] != calls:
            yield f"{calls} calls of {name} of {told['bytes']} bytes, {found[name]} recorded"


def out_of_memory(trace, told, device):
    failed = failed_allocations(trace)
    # torch tries again after it released its cache: one failure of torch, two of the driver.
    if device and failed.count("[OutOfMemory]") != told["failed"]:
        yield f"{told['failed']} allocations failed, recorded: {failed}"
    calls = sum(e["name"] == told["operator"] for e in rows_of(trace, "cpu_op"))
    if calls != told["calls"]:
        yield f"{told['calls']} calls of {told['operator']} beside it, {calls} recorded"


def loader(trace, told, device):
    drawn = sum(e["name"].startswith("enumerate(DataLoader)") for e in rows_of(trace, "user_annotation", "cpu_op"))
    if drawn != told["batches"]:
        yield f"{told['batches']} batches drawn, {drawn} recorded"
    copies = [e for e in rows_of(trace, "gpu_memcpy") if e["args"]["bytes"] == told["bytes"]]
    if device and (len(copies) != told["batches"] or any("Pinned" not in e["name"] for e in copies)):
        yield f"{told['batches']} copies of {told['bytes']} bytes from pinned memory, recorded: {[e['name'] for e in copies]}"


# case -> (rule, settings)
CASES = {
    "stack": (stack, dict(WINDOW, WITH_STACK=1)),
    "modules": (modules, dict(WINDOW, WITH_MODULES=1)),
    "flops": (flops, WINDOW),
    "memory": (memory, WINDOW),
    "ranges": (ranges, WINDOW),
    "transfers": (transfers, WINDOW),
    "out_of_memory": (out_of_memory, WINDOW),
    "loader": (loader, WINDOW),
}


# ---- running ---------------------------------------------------------------------------------------------------

def show(trace):
    return f"{len(rows_of(trace, 'kernel')):,} kernels, {len(rows_of(trace, 'cpu_op')):,} operators"


def without_unwinder(check, line):
    """Whether the line reports a missing libunwind, without which there are no native stacks. Notes that as skipped."""
    if "there is no libunwind" not in line:
        return False
    check.skip("native stacks", line)
    return True


def run_case(check, case):
    rule, settings = CASES[case]
    command = [sys.executable, check.root / SCRIPT, "--case", case, "--steps", STEPS]
    result = check.run(command, **settings)
    problems, shown = ended(result), ""
    if not problems and len(result.traces) != 1:
        problems = [f"{len(result.traces)} traces: {result.err[-400:]}"]
    if not problems:
        trace, told = read(result.traces[0]), tally(result)
        device = told["device"] == "cuda"
        problems = [*rule(trace, told, device), *loss_problems(trace), *join_problems(trace)[1], *summary_problems(result.traces[0], CHECKED_MOST)]
        problems += [f"said: {line}" for line in said(result) if not without_unwinder(check, line)]
        if sorted(steps_of(trace)) != list(range(3, STEPS)):
            problems.append(f"steps {sorted(steps_of(trace))} recorded, 3 to {STEPS - 1} asked for")
        if device and bool(rows_of(trace, "kernel")) != told.get("launches", True):
            problems.append(f"{len(rows_of(trace, 'kernel'))} kernels")
        shown = show(trace)
    check.finish(f"torch: {case}", shown, "as told", {"seconds": result.seconds}, problems)


def run_trigger(check, _case):
    """Checks torch.cuda.profiler.start() and stop(). On the CPU the script does not call them, and nothing is recorded."""
    result = check.run([sys.executable, check.root / SCRIPT, "--case", "trigger"], TRIGGER="cuda", SCHEDULE_SCOPE="none")
    problems, told = ended(result), tally(result)
    if not problems and told["device"] == "cuda":
        calls = [collections.Counter(e["name"] for e in rows_of(read(path), "cpu_op")) for path in result.traces]
        found = [each[told["operator"]] for each in calls]
        if found != told["inside"] or any(each[told["other"]] for each in calls):
            problems.append(f"{told['inside']} calls inside the regions, {found} recorded; outside {[each[told['other']] for each in calls]}")
        kernels = [len(rows_of(read(path), "kernel")) for path in result.traces]
        if kernels != told["inside"]:
            problems.append(f"{told['inside']} kernels inside the regions, {kernels} recorded")
    elif not problems and result.traces:
        problems.append(f"{len(result.traces)} traces of a program that never called start()")
    check.finish("torch: trigger", f"{len(result.traces)} regions", "as told", {}, problems)


def run_client(check, _case):
    """Checks torch.profiler in the middle of the run: its trace is complete, and so are cprof's windows while it does not work."""
    result = check.run([sys.executable, check.root / SCRIPT, "--case", "client", "--steps", 15], STEP="manual", WARMUP=1, ACTIVE=2, REPEAT=5)
    problems, told, figures = ended(result), tally(result), {}
    path = result.folder / "theirs.json"
    if not problems and (not path.is_file() or len(result.traces) != 5):
        problems = [f"{len(result.traces)} traces of 5, torch.profiler's {'is' if path.is_file() else 'is not'} there: {result.err[-300:]}"]
    if not problems:
        device = told["device"] == "cuda"
        theirs = read(path)
        got = len(rows_of(theirs, "kernel")) if device else sum(e["name"] == "aten::relu" for e in rows_of(theirs, "cpu_op"))
        if got != told["theirs"]:
            problems.append(f"torch.profiler's trace has {got} of {told['theirs']}")
        for ours in map(read, result.traces):
            steps = sorted(steps_of(ours))
            operators = sum(e["name"] == "aten::relu" for e in rows_of(ours, "cpu_op"))
            if operators != told["each"] * len(steps):
                problems.append(f"steps {steps}: {operators} operators of {told['each'] * len(steps)}")
            # The window in which torch.profiler begins or works, and the next one, which waits for its end, may lack kernels.
            free = max(steps) < min(told["steps_of_theirs"]) or min(steps) > max(told["steps_of_theirs"]) + 3
            if device and free and len(rows_of(ours, "kernel")) != told["each"] * len(steps):
                problems.append(f"steps {steps}: {len(rows_of(ours, 'kernel'))} kernels of {told['each'] * len(steps)}")
            problems += [f"steps {steps}: {text}" for text in [*loss_problems(ours), *join_problems(ours)[1]]]
        figures = {"said": said(result), "kernels": [len(rows_of(read(path), "kernel")) for path in result.traces]}
        problems += [f"said: {line}" for line in said(result) if "CUPTI client" not in line]
    check.finish("torch: torch.profiler in between", f"kernels by window {figures.get('kernels')}", "both whole", figures, problems)


def run_graph_client(check, mode):
    """Checks torch.profiler's CUDA graphs after a window of cprof's."""
    result = check.run([sys.executable, check.root / SCRIPT, "--case", "client", "--graph", 1, "--steps", 9], STEP="manual", WARMUP=1, ACTIVE=2,
                       GPU_GRAPHS=mode)
    problems, told, path, got = ended(result), tally(result), result.folder / "theirs.json", 0
    if not problems:
        got = len(rows_of(read(path), "kernel")) if path.is_file() else 0
    if not problems and mode == "nodes" and got != told["theirs"]:
        problems.append(f"torch.profiler's trace has {got} of {told['theirs']} graph nodes")
    check.finish(f"torch.profiler's graphs after CPROF_GPU_GRAPHS={mode}", f"it got {got} of {told.get('theirs')} nodes", "all" if mode == "nodes" else "",
                 {"got": got}, problems)


def torch_is_there(check):
    """Whether there is PyTorch with a GPU; any PyTorch if the GPU is simulated."""
    code = "import torch; print('yes')" if check.sim else "import torch; print('yes' if torch.cuda.is_available() else 'no')"
    there = output([sys.executable, "-c", code], 120) == "yes"
    if not there:
        check.skip("PyTorch", f"none {'' if check.sim else 'with CUDA '}for {sys.executable}")
    return there


def run_features(check):
    if not torch_is_there(check):
        return
    wanted = check.options.cases.split(",") if check.options.cases else [*CASES, "trigger", "client"]
    special = {"trigger": run_trigger, "client": run_client}
    check.together([(special.get(case, run_case), case) for case in wanted])
