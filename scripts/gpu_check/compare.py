# SPDX-License-Identifier: Apache-2.0
"""The part of scripts/gpu_check.py that needs Python packages with CUDA: the same seeded PyTorch script (tests/e2e/train_gpu.py) with
cprof and with torch.profiler, each in a process of its own, and a few kernels of CuPy and JAX. What is not installed is skipped."""

import collections
import pathlib
import subprocess
import sys

from gpu_check_trace import WORK, loss_problems, join_problems, read, rows_of

SCRIPT = pathlib.Path(__file__).resolve().parents[1] / "tests/e2e/train_gpu.py"
MODELS = ("cnn", "attention", "amp", "graph", "compile")
OTHERS = {
    "cupy": "import cupy as c; x = c.arange(1 << 20, dtype='f4'); print(float((x * 2 + 1).sum()))",
    "jax": "import jax, jax.numpy as n; x = n.ones((512, 512)); print(float((x @ x).sum()))",
}


def has_cuda():
    code = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    try:
        return subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def work_of(trace):
    """(kernels by name, copies by name, (copies', fills') bytes, kernel time in us)."""
    kernels = collections.Counter(e["name"] for e in rows_of(trace, "kernel"))
    moved = collections.Counter((e["cat"], e["name"]) for e in rows_of(trace, "gpu_memcpy", "gpu_memset"))
    sizes = tuple(sum(e["args"].get("bytes", 0) for e in rows_of(trace, cat)) for cat in WORK[1:])
    return kernels, moved, sizes, sum(e["dur"] for e in rows_of(trace, "kernel"))


def difference(ours, theirs):
    """What only one has, with how many more."""
    more, fewer = ours - theirs, theirs - ours
    return [f"{n} more: {str(key)[:120]}" for key, n in more.most_common(4)] + \
           [f"{n} fewer: {str(key)[:120]}" for key, n in fewer.most_common(4)]


def compare(ours, theirs):
    """({figures}, problems) of cprof's trace against torch.profiler's."""
    mine, other = work_of(ours), work_of(theirs)
    problems = [f"kernels: {text}" for text in difference(mine[0], other[0])]
    problems += [f"copies: {text}" for text in difference(mine[1], other[1])]
    if mine[2] != other[2]:
        problems.append(f"bytes copied and filled: {mine[2]}, torch.profiler {other[2]}")
    ratio = mine[3] / other[3] if other[3] else None
    if ratio is None or abs(ratio - 1) > 0.01:
        problems.append(f"kernel time {ratio} x torch.profiler's")
    operators = [collections.Counter(e["name"] for e in rows_of(trace, "cpu_op")) for trace in (ours, theirs)]
    figures = {"kernels": sum(mine[0].values()), "theirs": sum(other[0].values()), "names": len(mine[0]), "copies": sum(mine[1].values()),
               "kernel_us": mine[3], "kernel_time_ratio": ratio, "operators": [sum(each.values()) for each in operators],
               "operators_differ": difference(*operators)}
    return figures, problems


def run_model(check, model):
    """One script, unprofiled and under each profiler."""
    command = [sys.executable, SCRIPT, "--model", model, "--steps", "8"]
    plain = check.run(command, preload=False)
    theirs = check.run([*command, "--profile", "theirs.json"], preload=False)
    ours = check.run(command, STEP="manual", WARMUP=3, ACTIVE=3)
    failed = [f"{what} ends with {each.rc}: {each.err[-300:]}" for what, each in
              (("unprofiled", plain), ("torch.profiler", theirs), ("cprof", ours)) if each.rc != 0]
    path = theirs.folder / "theirs.json"
    if not failed and (len(ours.traces) != 1 or not path.is_file()):
        failed = [f"{len(ours.traces)} traces of cprof: {ours.err[-300:]}"]
    if failed:
        return {}, failed
    trace = read(ours.traces[0])
    figures, problems = compare(trace, read(path))
    joined, unjoined = join_problems(trace)
    figures.update(before_call=joined["before_call"], least_gap_ns=joined["least_gap_ns"], seconds=ours.seconds,
                   seconds_without=plain.seconds, seconds_theirs=theirs.seconds)
    if plain.out != ours.out:
        problems.append("the losses differ from the unprofiled run's")
    return figures, problems + unjoined + loss_problems(trace)


def run_other(check, name, code):
    """A library with CUDA inside: at least one kernel is seen."""
    if subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True, timeout=120).returncode != 0:
        check.skipped.append(name)
        return
    result = check.run([sys.executable, "-c", code])
    kernels = sum(len(rows_of(read(path), "kernel")) for path in result.traces)
    problems = [] if result.rc == 0 and kernels else [f"ends with {result.rc}, {kernels} kernels: {result.err[-300:]}"]
    report(check, name, {"kernels": kernels}, problems)


def report(check, where, figures, problems):
    check.figures.setdefault("python", {})[where] = dict(figures, problems=problems[:20])
    for problem in problems[:6]:
        check.fail(where, problem)
    check.row(where, f"{figures.get('kernels', 0):,} kernels, torch.profiler {figures.get('theirs', '-')}", "equal", not problems)
    print(f"  {'ok  ' if not problems else 'FAIL'} {where}: {figures.get('kernels', 0):,} kernels", flush=True)


def run(check):
    if not has_cuda():
        check.skipped.append("PyTorch: none with CUDA in " + sys.executable)
    else:
        for model in MODELS[:2] if check.options.quick else MODELS:
            report(check, f"torch {model}", *run_model(check, model))
    for name, code in OTHERS.items():
        run_other(check, name, code)
