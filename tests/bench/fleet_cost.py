#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`cprof ranks` on many ranks (`make bench-fleet`): how often it names planted faults first, and what it costs. Prints the tables of
tests/bench/README.md.

    fleet_cost.py [--ranks 1024] [--runs 100] [--seed 0] [--hta 16]

The runs are made up (tests/e2e/fleet.py), with the noise of real ones. In each, one fault or two have a random kind, place and size. --hta N:
compares the time and memory with HolisticTraceAnalysis on N traces of the same run."""

import argparse
import collections
import json
import os
import pathlib
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests/e2e"), str(ROOT / "scripts/python")]

from fleet import FAULTS, Fleet  # noqa: E402

COMMAND = [sys.executable, str(ROOT / "scripts/cprof")]
KINDS = {"slow GPU": "computation", "slow host": "cpu", "late data": "data", "uneven stages": "computation", "slow link": "link", "slow copies": "copies"}
SIZES = {"slow GPU": (1.05, 1.3), "slow host": (1.3, 2.0), "late data": (4, 20), "uneven stages": (1.04, 1.15), "slow link": (1.6, 4),
         "slow copies": (3, 15)}


def planted(choose, run):
    """Plants one or two faults: (kind, rank) of each."""
    kinds = choose.sample(FAULTS, 2 if choose.random() < 0.3 else 1)
    if set(kinds) == {"slow GPU", "uneven stages"}:
        kinds = kinds[:1]  # the same part of the step: which one is larger is no question of kind
    found = []
    for kind in kinds:
        rank, by = choose.randrange(run.ranks), choose.uniform(*SIZES[kind])
        some = kind == "late data" and choose.random() < 0.5
        steps = sorted(choose.sample(range(1, run.steps), 4)) if some else None
        run.plant(kind, by, rank, steps)
        found.append((kind, rank))
    return found


def is_named(cause, fault, run):
    """Whether a cause is the fault, with its ranks."""
    kind, rank = fault
    ranks = {"slow GPU": [rank], "late data": [rank], "slow copies": [rank], "slow host": run.groups[run.host_of[rank]],
             "uneven stages": [one for one in range(run.ranks) if run.stage_of[one] == run.stage_of[rank]],
             "slow link": next(group for group in run.across if rank in group)}[kind]
    return cause["kind"] == KINDS[kind] and cause["ranks"] == list(ranks)


def measured(command):
    """Output, seconds, CPU seconds, and the most resident MB of a command."""
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(["/usr/bin/env", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{command[-2:]}: {done.stderr[-2000:]}")
    return done.stdout, time.monotonic() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, after.ru_maxrss / 1024


def accuracy(args):
    """Counts the runs whose fault is named first."""
    right, runs, wrong = collections.Counter(), collections.Counter(), []
    cost = []
    for seed in range(args.seed, args.seed + args.runs):
        choose = random.Random(seed)
        run = Fleet(args.ranks, seed=seed)
        healthy = seed % 10 == 9
        faults = [] if healthy else planted(choose, run)
        with tempfile.TemporaryDirectory() as folder:
            size = run.write(folder)
            text, *spent = measured([*COMMAND, "ranks", "--json", folder])
        cost.append((size, *spent))
        causes = json.loads(text)["causes"]
        what = "healthy" if healthy else " and ".join(sorted(kind for kind, _ in faults)) if len(faults) < 2 else "two faults"
        good = not causes if healthy else len(causes) >= len(faults) and all(any(is_named(cause, fault, run) for cause in causes[:len(faults)])
                                                                             for fault in faults)
        runs[what] += 1
        right[what] += good
        if not good:
            wrong.append((seed, faults, [cause["text"] for cause in causes[:3]]))
            print("missed:", *wrong[-1], file=sys.stderr, flush=True)
    print(f"| planted in {args.ranks:,} ranks | runs | named first |\n| --- | --- | --- |")
    for what in sorted(runs):
        print(f"| {what} | {runs[what]} | {right[what]} |")
    print(f"| all | {sum(runs.values())} | {sum(right.values())} |\n")
    middle = [sorted(column)[len(column) // 2] for column in zip(*cost)]
    print(f"`cprof ranks` of {args.ranks:,} summaries ({middle[0] / args.ranks / 1000:,.0f} KB each): median {middle[1]:.1f} s, {middle[2]:.1f} s of CPU, "
          f"at most {max(row[3] for row in cost):,.0f} MB (the largest child so far)")


HTA = """
import sys, warnings
warnings.simplefilter("ignore")
from hta.trace_analysis import TraceAnalysis
analysis = TraceAnalysis(trace_dir=sys.argv[1], include_last_profiler_step=True)
print(analysis.get_temporal_breakdown(visualize=False).to_json())
"""


def beside_hta(count, seed):
    """Time and memory for the traces of some ranks."""
    run = Fleet(count, seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        size = run.write_traces(folder)
        rows = [("cprof summarize", measured([*COMMAND, "summarize", folder])), ("cprof ranks, then", measured([*COMMAND, "ranks", folder]))]
        rows.append(("HolisticTraceAnalysis, temporal breakdown", measured([sys.executable, "-c", HTA, folder])))
    print(f"\n| {count} traces of {size / count / 1e6:,.1f} MB | seconds | CPU seconds |\n| --- | --- | --- |")
    for name, (_, seconds, cpu, _) in rows:
        print(f"| {name} | {seconds:.1f} | {cpu:.1f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=1024)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hta", type=int, default=16, metavar="N")
    args = parser.parse_args()
    print(f"{platform.machine()}, {os.cpu_count()} processors, Python {platform.python_version()}\n", flush=True)
    accuracy(args)
    if args.hta:
        beside_hta(args.hta, args.seed)


if __name__ == "__main__":
    main()
