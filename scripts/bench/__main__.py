#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make bench`: measures cprof's budgets, as ratios or differences within one run, best of several rounds.

    scripts/bench [--json] [--readme] [--quick] [--only NAME,NAME]     --readme writes the tables into tests/bench/README.md

Each round measures all variants one after the other, so that a slower machine slows all of them. A figure over its budget
is marked. Nothing fails, since a busy machine is no bug.
"""

import argparse
import json
import shutil
import sys
import tempfile

import calls
import instructions
import report
import torch_calls
import training
import writing


def parts(folder, quick):
    """The measurements by name: functions that return rows. A round of programs in C takes a second, of Python ten."""
    many, few = (1, 1) if quick else (5, 3)
    return {
        "exec": lambda: calls.bench_exec(many) + calls.bench_constructor(),
        "hook": lambda: calls.bench_hook(folder, many),
        "blas": lambda: calls.bench_blas(folder, many),
        "marker": lambda: calls.bench_marker(folder, many) + calls.bench_lttng(folder),
        "collective": lambda: calls.bench_transfer(folder, many),
        "nvtx": lambda: calls.bench_nvtx(folder, many) + calls.bench_itt(folder, many),
        "module": lambda: torch_calls.bench_module(folder, few),
        "range": lambda: torch_calls.bench_range(folder, few),
        "operator": lambda: torch_calls.bench_operator(folder, few),
        "allocation": lambda: torch_calls.bench_allocation(folder, few),
        "stacks": lambda: torch_calls.bench_stacks(folder, min(few, 2)),
        "nn_module": lambda: torch_calls.bench_nn_module(folder, few),
        "window_end": lambda: writing.bench_window_end(folder),
        "json": writing.bench_json,
        "growth": lambda: writing.bench_growth(folder, (10**4, 10**6) if quick else (10**5, 10**7)),
        "gpu": lambda: writing.bench_gpu(folder),
        "instructions": lambda: instructions.bench_instructions(folder),
    }


def run(only, quick):
    """The rows, and the result of training.measure(), or None if it did not run."""
    folder = tempfile.mkdtemp(prefix="cprof-bench-")
    rows, steps = [], None
    try:
        for name, part in parts(folder, quick).items():
            if not only or name in only:
                rows += part()
        if not only or "training" in only:
            steps = training.measure(folder, 1 if quick else 8)
            rows += training.rows_of(steps[0])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return rows, steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the tables")
    parser.add_argument("--readme", action="store_true", help="write the tables into tests/bench/README.md")
    parser.add_argument("--quick", action="store_true", help="one short round, to check that everything runs")
    parser.add_argument("--only", help=f"run only these, comma-separated, of: {','.join([*parts('', True), 'training'])}")
    args = parser.parse_args()
    only = set(args.only.split(",")) if args.only else set()
    unknown = only - {*parts("", True), "training"}
    if unknown or (only and args.readme):
        sys.exit(f"bench: no such measurement: {', '.join(unknown)}" if unknown else "bench: --readme needs all measurements")
    rows, steps = run(only, args.quick)
    if args.json:
        print(json.dumps({"machine": report.machine(), "rows": [dict(zip(("what", "value", "unit", "budget", "remark"), r)) for r in rows],
                          "steps": steps and steps[0], "operators": steps and steps[1]}))
        return
    text = f"On {report.machine()}:\n\n{report.table(rows)}"
    if steps:
        text += f"\n\n{training.table_of(*steps)}"
    print(text)
    if args.readme:
        report.write_readme(text)


main()
