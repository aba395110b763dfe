# SPDX-License-Identifier: Apache-2.0
"""Asks `cprof explain` about the programs of planted.py: is the planted fault its first finding, and do healthy programs have no finding?

    truth.py -o DIR [--shares 0.05,0.1,0.2] [--jobs 1] [NAME...]

The traces and a line of JSON a run (truth.jsonl) stay in DIR; runs that are there are not repeated. Prints the table of
scripts/guide/explain.md. A share is the part of a step that the fault costs, as the program measures it; 0.1 is the threshold of most rules.
"""

import argparse
import concurrent.futures
import json
import pathlib
import subprocess
import sys

from planted import FAULTS, HEALTHY, PROGRAMS, VARIATIONS

HERE = pathlib.Path(__file__).resolve().parent
CPROF = HERE.parents[2] / "scripts/cprof"

# The rules that name each cause. This table was written with knowledge of the rules, planted.py without.
RULES = {
    "parsed-in-loop": ("python", "input-bound"), "slow-loader": ("input-bound",), "python-between": ("python",), "row-by-row-loss": ("tiny-operators",),
    "row-by-row-optimizer": ("tiny-operators",), "recomputed": ("recomputation",), "kept-features": ("leak",), "busy-thread": ("interpreter-lock",),
    "doubles": ("low-flop-rate",), "saves-every-4th": ("outlier-steps",), "temporaries": ("allocator-churn", "unfused-operators"), "pair-loss": ("unfused-operators",),
    "item-in-loop": ("synchronising-calls",), "malloc-each-step": ("allocator-calls",), "pageable-copy": ("exposed-copies", "synchronising-calls"),
    "late-collective": ("exposed-communication",), "slow-rank-computes": ("straggler",), "slow-rank-loads": ("straggler",),
    "decoded-json": ("python", "input-bound"), "exporter-thread": ("interpreter-lock",), "built-mask": ("unfused-operators", "allocator-churn"),
    "written-out-gelu": ("unfused-operators",), "cosine-pairs": ("unfused-operators",), "sample-by-sample": ("tiny-operators",), "kept-graph": ("leak",),
    "evaluates-every-5th": ("outlier-steps",), "pickled-history": ("python",)}


def traced(name, share, folder):
    """Runs the program once. Returns its JSON line."""
    done = folder.parent / f"{folder.name}.json"
    if not done.exists():
        run = subprocess.run([sys.executable, str(HERE / "run.py"), name, "--share", str(share), "-o", str(folder)],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=900)
        lines = [line for line in run.stdout.splitlines() if line.startswith("{")]
        if run.returncode or not lines:
            raise SystemExit(f"{name}: exit code {run.returncode}\n{run.stderr[-2000:]}")
        done.write_text(lines[-1])
    return json.loads(done.read_text())


def judged(name, share, folder):
    """Runs the program and `cprof explain`. Returns a row with the findings and the place of the right one."""
    told = traced(name, share, folder)
    run = subprocess.run([str(CPROF), "explain", "--json", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode:
        raise SystemExit(f"{name}: {run.stderr}")
    found = json.loads(run.stdout)["findings"]
    rules = RULES.get(name, ())
    place = next((n for n, one in enumerate(found, 1) if one["rule"] in rules and PROGRAMS[name].rank in (-1, one["rank"])), 0)
    return {"name": name, "share": share, "measured": told["measured_share"], "place": place,
            "findings": [[one["rule"], one["title"], round(one["share"], 3), one["bytes_per_step"]] for one in found]}


def said(row):
    """A cell of the table: the place of the right finding, or the first finding instead."""
    first = row["findings"][0][0] if row["findings"] else "nothing"
    return "first" if row["place"] == 1 else f"{row['place']}: after {first}" if row["place"] else first


def table(rows, shares):
    """Prints the table as Markdown."""
    by = {(row["name"], row["share"]): row for row in rows}
    print("| program | " + " | ".join(f"{share:.0%}" for share in shares) + " | measured |")
    print("| --- |" + " --- |" * (len(shares) + 1))
    for program in FAULTS + VARIATIONS:
        cells = [by[program.name, share] for share in shares if (program.name, share) in by]
        if cells:
            print(f"| `{program.name}` | {' | '.join(map(said, cells))} | {', '.join(format(row['measured'], '.0%') for row in cells)} |")
    for share in shares:
        mine = [row for row in rows if row["share"] == share and PROGRAMS[row["name"]].cause]
        if mine:
            print(f"\n{share:.0%}: {sum(row['place'] == 1 for row in mine)} of {len(mine)} named first")
    healthy = [row for row in rows if not PROGRAMS[row["name"]].cause]
    wrong = [f"{row['name']}: {row['findings'][0][0]}" for row in healthy if row["findings"]]
    print(f"healthy: {len(wrong)} of {len(healthy)} with findings {'; '.join(wrong)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", dest="folder", type=pathlib.Path, required=True, metavar="DIR")
    parser.add_argument("--shares", type=lambda text: [float(one) for one in text.split(",")], default=[0.05, 0.1, 0.2])
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    wanted = [PROGRAMS[name] for name in args.names] or [*FAULTS, *VARIATIONS, *HEALTHY]
    runs = [(one.name, share) for share in sorted(args.shares, reverse=True) for one in wanted if one.cause]
    runs = [(one.name, 0.0) for one in wanted if not one.cause] + runs
    rows = []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for row in pool.map(lambda run: judged(*run, args.folder.resolve() / f"{run[0]}-{run[1]}"), runs):
            print(json.dumps(row), file=sys.stderr)
            rows.append(row)
    (args.folder / "truth.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    table(rows, args.shares)


if __name__ == "__main__":
    main()
