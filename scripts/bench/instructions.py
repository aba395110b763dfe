# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions that a profiler adds to a training step on the training thread, and the cache lines of code that the thread must fetch again
because of them. An emulator of the processor (callgrind) counts, so that other load on the machine does not change the figures. Times also depend on
what the processor does in parallel."""

import pathlib
import shutil
import subprocess
import sys

from common import BENCH, PYTHON, environment, fresh, stand_in
from training import empty_callbacks, operators_of

STEPS = 4  # counted steps
MODES = ("none", "empty", "cprof", "torch")
CACHE = ("--I1=32768,8,64", "--D1=32768,8,64", "--LL=524288,8,64")  # the caches of a core with small caches
COUNTER = """#include <valgrind/callgrind.h>
void counted_begin(void) { CALLGRIND_START_INSTRUMENTATION; }
void counted_end(void) { CALLGRIND_STOP_INSTRUMENTATION; }
"""


def count(mode, folder, counter, helper, **schedule):
    """Instructions and instruction cache misses of the training thread in a step."""
    env = environment(mode == "cprof", **{"STEP": "manual", "WARMUP": 1, "ACTIVE": STEPS + 2, "RECORD_SHAPES": 1, "FOLDER": folder, **schedule})
    out = pathlib.Path(fresh(folder)) / "counts"
    done = subprocess.run(["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", "--cache-sim=yes", *CACHE,
                           f"--callgrind-out-file={out}", PYTHON, BENCH / "step_instructions.py", mode, str(STEPS), counter, helper],
                          env=env, capture_output=True, text=True, timeout=900)
    if done.returncode != 0:
        sys.exit(f"bench: step_instructions.py {mode} failed:\n{done.stdout}{done.stderr}")
    lines = dict(line.split(": ", 1) for line in (out.parent / "counts-01").read_text().splitlines() if line.startswith(("events: ", "totals: ")))
    totals = dict(zip(lines["events"].split(), map(int, lines["totals"].split())))
    return totals["Ir"] / STEPS, totals["I1mr"] / STEPS


def bench_instructions(folder):
    what = "tiny operators: instructions added to a step, torch.profiler / cprof"
    helper = empty_callbacks()
    if not shutil.which("valgrind") or not pathlib.Path("/usr/include/valgrind/callgrind.h").exists() or not helper:
        return [(what, None, "x", None, "needs valgrind and a C++ compiler")]
    counter = stand_in("libcounted.so", COUNTER)
    traces = fresh(folder)
    counts = {mode: count(mode, traces if mode == "cprof" else fresh(folder), counter, helper) for mode in MODES}
    objects, _ = count("cprof", fresh(folder), counter, helper, TORCH_PATH="objects")
    idle, _ = count("cprof", fresh(folder), counter, helper, WAIT=10**6)
    flight, _ = count("cprof", fresh(folder), counter, helper, WAIT=10**6, FLIGHT=1)
    metrics, _ = count("cprof", fresh(folder), counter, helper, WAIT=10**6, METRICS=folder + "/cprof.prom")
    operators = operators_of(traces) / (STEPS + 2)
    added = {mode: [(all_of - bare) / operators for all_of, bare in zip(counts[mode], counts["none"])] for mode in MODES[1:]}
    (torch, torch_lines), (cprof, lines), (own, own_lines) = added["torch"], added["cprof"], added["empty"]
    return [(what, torch / cprof, "x", None,
             f"{torch:,.0f} / {cprof:,.0f} an operator (of {operators:.0f}), of which {own:,.0f} are torch's own, for callbacks that do nothing; lines of "
             f"code fetched anew: {torch_lines:.0f} / {lines:.0f}, torch's own {own_lines:.0f}"),
            ("the same with CPROF_TORCH_PATH=objects", torch * operators / (objects - counts["none"][0]), "x", None,
             f"{(objects - counts['none'][0]) / operators:,.0f} an operator"),
            ("tiny operators: instructions added to an operator between windows", (idle - counts["none"][0]) / operators, "", 0,
             f"of {counts['none'][0] / operators:,.0f}; less than none: torch makes its lists of callbacks less often"),
            ("tiny operators: instructions that the flight recorder adds to a step between windows", 100 * (flight - idle) / idle, "%", 1,
             "CPROF_FLIGHT=1"),
            ("tiny operators: instructions that metrics add to a step between windows", 100 * (metrics - idle) / idle, "%", 0.1, "CPROF_METRICS")]
