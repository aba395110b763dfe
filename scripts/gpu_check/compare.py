# SPDX-License-Identifier: Apache-2.0
"""Runs the same seeded PyTorch script (tests/e2e/train_gpu.py) with cprof and with torch.profiler, each in its own process: kernels, copies,
operators and memory events must be equal. Also checks kernels of JAX and CuPy. Missing packages are skipped with a reason."""

import collections
import importlib.util
import sys

from gpu_check import features
from gpu_check.rules import CALLS, WORK, join_problems, loss_problems, read, rows_of, span_of_steps
from gpu_check.run import ended, said
from gpu_check.summaries import CHECKED_MOST, summary_problems

SCRIPT = "tests/e2e/train_gpu.py"
# Operators that Dynamo and Inductor mark only while torch's own profiler runs.
FOR_ITS_PROFILER = ("Pregraph bytecode", "AOTDispatcher ", "## Call CompiledFxGraph", "triton_")
PATHS = ("callbacks", "objects")  # ways to record operators besides the default; the model that runs with them
PATHS_MODEL = "attention"
# Models that never ran on hardware come first.
MODELS = ("graph", "compile", "amp", "loader", "cnn", "attention")
# (device type, bytes) of allocations that cprof does not record: torch maps a worker's batch in shared memory.
SHARED = {"loader": (0, 32 * 3 * 32 * 32 * 4)}
WINDOW = dict(STEP="manual", WARMUP=3, ACTIVE=3)
# Package: code, a kernel's name, number of its launches.
OTHERS = {
    "cupy": ("import cupy\nk = cupy.RawKernel('extern \"C\" __global__ void counted(float *x) {x[0] += 1;}', 'counted')\nx = cupy.zeros(1, 'f4')\n"
             "for _ in range(50):\n    k((1,), (1,), (x,))\nassert float(x[0]) == 50", "counted", 50),
    "jax": ("import jax\nassert jax.devices()[0].platform in ('gpu', 'cuda'), jax.devices()\nf = jax.jit(lambda x: (x @ x).sum())\n"
            "x = jax.numpy.ones((512, 512))\nfor _ in range(20):\n    r = f(x)\nassert float(r) == 512.0 ** 3", "", 20),
}


def work_of(trace):
    """(kernels by name, copies by name, (copies', fills') bytes, kernel time in us)."""
    kernels = collections.Counter(e["name"] for e in rows_of(trace, "kernel"))
    moved = collections.Counter((e["cat"], e["name"]) for e in rows_of(trace, "gpu_memcpy", "gpu_memset"))
    sizes = tuple(sum(e["args"].get("bytes", 0) for e in rows_of(trace, cat)) for cat in WORK[1:])
    return kernels, moved, sizes, sum(e["dur"] for e in rows_of(trace, "kernel"))


def is_first_thread(event):
    """Whether a row is of the process's first thread. cprof adds a million to a pid below 4096, since readers take such for a GPU's."""
    return event["tid"] in (event["pid"], event["pid"] - 1_000_000)


def profiled_threads(trace):
    """The threads that torch.profiler sees: the one it was started in and autograd's. cprof sees all, also OpenMP's workers and the
    thread that pins memory."""
    return {e["tid"] for e in rows_of(trace, "cpu_op") if is_first_thread(e) or e["name"].startswith("autograd::engine")}


def callers_of(trace):
    """How often (work or call, the operator of its `External id`) occurs."""
    operators = {e["args"]["External id"]: e["name"] for e in rows_of(trace, "cpu_op") if "External id" in e["args"]}
    return collections.Counter((e["name"], operators.get(e["args"].get("External id"))) for e in rows_of(trace, *WORK, *CALLS)
                               if e["cat"] in WORK or "Launch" in e["name"] or "Memcpy" in e["name"])


def memory_of(trace, threads, first, last):
    """The allocations of tensors between two times, by device type and bytes. Releases are left out: they appear only if their allocation did."""
    return collections.Counter((e["args"]["Device Type"], e["args"]["Bytes"]) for e in trace["traceEvents"] if e.get("name") == "[memory]" and
                               e["args"]["Bytes"] > 0 and first <= e["ts"] < last and e["tid"] in threads)


def operators_of(trace, threads, first, last):
    return collections.Counter(e["name"] for e in rows_of(trace, "cpu_op") if first <= e["ts"] < last and e["tid"] in threads and
                               not e["name"].startswith(FOR_ITS_PROFILER))


def arrows_of(trace):
    """(operators at its start, at its end) of the arrows from forward to backward. The engine's thread runs a GPU's backward pass."""
    at = collections.defaultdict(list)
    for e in rows_of(trace, "cpu_op"):
        at[e["tid"], e["ts"]].append(e["name"])
    ends = collections.defaultdict(dict)
    for e in trace["traceEvents"]:
        if e.get("cat") == "fwdbwd" and e.get("ph") in ("s", "f"):
            ends[e["id"]][e["ph"]] = tuple(sorted(at[e["tid"], e["ts"]]))
    return collections.Counter((each.get("s"), each.get("f")) for each in ends.values())


def difference(ours, theirs):
    """The keys that differ in number, with the difference."""
    more, fewer = ours - theirs, theirs - ours
    return [f"{n} more: {str(key)[:120]}" for key, n in more.most_common(4)] + \
           [f"{n} fewer: {str(key)[:120]}" for key, n in fewer.most_common(4)]


def compare(ours, theirs, shared=None):
    """({figures}, problems) of cprof's trace compared with torch.profiler's. shared: a kind of memory event to ignore."""
    mine, other = work_of(ours), work_of(theirs)
    problems = [f"kernels: {text}" for text in difference(mine[0], other[0])]
    problems += [f"copies: {text}" for text in difference(mine[1], other[1])]
    if mine[2] != other[2]:
        problems.append(f"bytes copied and filled: {mine[2]}, torch.profiler {other[2]}")
    ratio = mine[3] / other[3] if other[3] else None
    if other[3] and abs(ratio - 1) > 0.01:
        problems.append(f"kernel time {ratio} x torch.profiler's")
    if not any(e["name"].startswith(FOR_ITS_PROFILER) for e in rows_of(theirs, "cpu_op")):  # else some `External id` is one of these
        problems += [f"callers: {text}" for text in difference(callers_of(ours), callers_of(theirs))]
    problems += [f"arrows: {text}" for text in difference(arrows_of(ours), arrows_of(theirs))]
    operators = [operators_of(trace, profiled_threads(trace), *span_of_steps(trace)) for trace in (ours, theirs)]
    problems += [f"operators: {text}" for text in difference(*operators)]
    memory = [memory_of(trace, profiled_threads(trace), *span_of_steps(trace)) for trace in (ours, theirs)]
    for each in memory:
        each.pop(shared, None)
    problems += [f"memory events: {text}" for text in difference(*memory)]
    figures = {"kernels": sum(mine[0].values()), "theirs": sum(other[0].values()), "names": len(mine[0]), "copies": sum(mine[1].values()),
               "kernel_us": mine[3], "kernel_time_ratio": ratio, "operators": [sum(each.values()) for each in operators],
               "memory_events": [sum(each.values()) for each in memory]}
    return figures, problems


# ---- readers of traces -----------------------------------------------------------------------------------------

def reader_problems(check, path, device):
    """Runs `cprof check`, torch's own validator and HolisticTraceAnalysis, each in its own process."""
    result = check.run([sys.executable, check.root / "scripts/cprof", "check", "-q", path], preload=False, limit=120)
    if result.rc != 0:
        yield f"cprof check: {result.out[-300:]} {result.err[-200:]}"
    code = ("import importlib.util as u, sys\nif u.find_spec('torch.profiler._trace_validator') is None: print('none'); sys.exit()\n"
            "from torch.profiler._trace_validator import validate_trace\nprint('ran')\n"
            "for v in validate_trace(sys.argv[1])[1][:5]: print('violation', v)")
    result = check.run([sys.executable, "-c", code, path], preload=False, limit=120)
    if result.out.startswith("none"):
        check.skip("torch's trace validator", "this torch has none")
    elif result.rc != 0 or device and "violation" in result.out:
        yield f"torch's validator: {result.out[-300:]} {result.err[-200:] if result.rc else ''}"
    if importlib.util.find_spec("hta") is None:
        check.skip("HolisticTraceAnalysis", "not installed; the traces in traces.tar.gz can be read by it elsewhere")
        return
    code = ("import sys, os\nfrom hta.trace_analysis import TraceAnalysis\nt = TraceAnalysis(trace_dir=os.path.dirname(sys.argv[1]))\n"
            "print(t.get_temporal_breakdown(visualize=False).to_string())\nprint(t.get_gpu_kernel_breakdown(visualize=False)[0].to_string())")
    result = check.run([sys.executable, "-c", code, path], preload=False, limit=180)
    if device and result.rc != 0:
        yield f"HolisticTraceAnalysis: {result.err[-300:]}"


# ---- running ---------------------------------------------------------------------------------------------------

def run_model(check, model):
    """Runs a script unprofiled and under each profiler, and compares."""
    command = [sys.executable, check.root / SCRIPT, "--model", model, "--steps", "8"]
    plain = check.run(command, preload=False)
    if model == "compile" and plain.rc not in (0, None):
        check.skip("torch compile against torch.profiler", f"does not run here without cprof either: {plain.err[-200:]}")
        return
    theirs = check.run([*command, "--profile", "theirs.json"], preload=False)
    compare_model(check, model, plain, theirs, check.run(command, **WINDOW))


def run_paths(check):
    """The same model with the other ways to record operators: each gives what torch.profiler does."""
    if not features.torch_is_there(check):
        return
    command = [sys.executable, check.root / SCRIPT, "--model", PATHS_MODEL, "--steps", "8"]
    plain, theirs = check.run(command, preload=False), check.run([*command, "--profile", "theirs.json"], preload=False)
    for path in PATHS:
        compare_model(check, PATHS_MODEL, plain, theirs, check.run(command, TORCH_PATH=path, **WINDOW), f", operators by {path}")


def compare_model(check, model, plain, theirs, ours, how=""):
    """Compares the traces of a model's runs. plain: the run without a profiler. how: of ours, for the row."""
    problems = [*ended(plain, "no profiler"), *ended(theirs, "torch.profiler"), *ended(ours)]
    path = theirs.folder / "theirs.json"
    if not problems and (len(ours.traces) != 1 or not path.is_file()):
        problems = [f"{len(ours.traces)} traces of cprof: {ours.err[-300:]}"]
    figures = {}
    if not problems:
        trace = read(ours.traces[0])
        device = bool(rows_of(trace, "kernel")) or not check.sim
        figures, problems = compare(trace, read(path), SHARED.get(model))
        joined, unjoined = join_problems(trace)
        figures.update(before_call=joined["before_call"], least_gap_ns=joined["least_gap_ns"], seconds=ours.seconds,
                       seconds_without=plain.seconds, seconds_theirs=theirs.seconds)
        if plain.out != ours.out:
            problems.append("the losses differ from the unprofiled run's")
        if device and not figures["kernels"]:
            problems.append("no kernel was recorded by either")
        problems += [*unjoined, *loss_problems(trace), *reader_problems(check, ours.traces[0], device), *summary_problems(ours.traces[0], CHECKED_MOST)]
        problems += [f"said: {line}" for line in said(ours)]
    shown = (f"{figures.get('kernels', 0):,} kernels, {figures.get('operators', [0])[0]:,} operators, {figures.get('memory_events', [0])[0]:,} memory events, "
             f"kernel time {figures.get('kernel_time_ratio') or 0:.4f} x")
    check.finish(f"torch {model} against torch.profiler{how}", shown, "equal", figures, problems)


def run_other(check, name, code, kernel, count):
    """Checks that the kernels of another library with CUDA inside are recorded."""
    if importlib.util.find_spec(name) is None:
        check.skip(name, "not installed")
        return
    plain = check.run([sys.executable, "-c", code], preload=False)
    if plain.rc != 0:
        check.skip(name, f"does not run here without cprof either: {plain.err[-200:]}")
        return
    result = check.run([sys.executable, "-c", code])
    problems, kernels = ended(result), []
    if not problems and len(result.traces) != 1:
        problems.append(f"{len(result.traces)} traces: {result.err[-300:]}")
    for path in result.traces:
        trace = read(path)
        kernels += [e["name"] for e in rows_of(trace, "kernel")]
        problems += [*join_problems(trace)[1], *loss_problems(trace)]
    found = kernels.count(kernel) if kernel else len(kernels)
    if not problems and (found != count if kernel else found < count):
        problems.append(f"{count} kernels {kernel}, {found} recorded")
    check.finish(name, f"{len(kernels)} kernels", "all seen", {"kernels": collections.Counter(kernels).most_common(10)}, problems)


def run_torch(check):
    if not features.torch_is_there(check):
        return
    for model in ("cnn", "attention") if check.options.quick else MODELS:
        if model in (check.options.models or ",".join(MODELS)).split(","):
            check.together([(run_model, model)])  # one at a time: kernel times are compared


def run_libraries(check):
    if check.sim:
        check.skip("cupy, jax", "no GPU")
        return
    check.together([(run_other, name, *rest) for name, rest in OTHERS.items()])
