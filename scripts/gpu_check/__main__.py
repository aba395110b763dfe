# SPDX-License-Identifier: Apache-2.0
"""The acceptance run on a GPU: checks that traces have everything that was launched, and measures the cost of recording.

    scripts/gpu_check.sh [--plan] [--sim] [--quick] [--parts NAMES] [--out FOLDER] [--library PATH]

Builds the library and the programs of tests/gpu, runs each with and without the library, and compares. Compares PyTorch scripts with
torch.profiler and with their own tallies. Each part has a time limit, and so has the whole run; a part that fails or takes too long does not
stop the others. Results are in FOLDER (default $OUT, else build/gpu_check). gpu_check.json and gpu_check.txt (the table) are rewritten after
each check, fixtures.tar.gz (raw buffers of CUPTI) and logs.tar.gz (output of programs and cprof) after each part. traces.tar.gz (smallest
first) is written at the end. The exit status is 1 if a check failed. Costs are compared with the budgets and marked, but fail nothing. It only needs Python's
standard library.
"""

import argparse
import json
import os
import pathlib
import shutil
import sys
import tarfile
import time
import traceback

from gpu_check import build, plan, versions
from gpu_check.run import Check, OutOfTime

ROOT = pathlib.Path(__file__).resolve().parents[2]
ARCHIVE_BYTES = 14 << 20  # of logs, and of traces, packed


# ---- results ---------------------------------------------------------------------------------------------------

def table(check):
    lines = [""]
    width = max((len(row[0]) for row in check.rows), default=0)
    shown = min(90, max((len(row[1]) for row in check.rows), default=0))
    lines += [f"  {what:<{width}}  {measured:<{shown}}  {goal:<14} {good}".rstrip() for what, measured, goal, good in check.rows]
    lines += ["", *(f"  not run: {what}" for what in check.not_run)]
    lines += [*(f"  skipped: {what}: {why}" for what, why in sorted(check.skipped.items())), *(f"  FAILED {failure}" for failure in check.failures)]
    state = "simulated GPU" if check.sim else "real GPU"
    lines.append(f"gpu_check: {state}: {len(check.rows)} rows, {len(check.failures)} failures, {time.monotonic() - check.started:.0f} s, "
                 f"{check.out / 'gpu_check.json'}")
    return "\n".join(lines)


def pack(archive, paths, root):
    """Packs the files, in order, until the archive is too large. Skips missing files."""
    with tarfile.open(archive, "w:gz", compresslevel=6) as tar:
        for path in paths:
            if path.is_file() and path.stat().st_size < 8 * ARCHIVE_BYTES:
                tar.add(path, str(path.relative_to(root)))
            if archive.stat().st_size > ARCHIVE_BYTES:
                break


def save_logs(check):
    """Packs the logs. Logs of more than a megabyte come last, so that they do not push out others."""
    logs = sorted(check.work.glob("*/*.txt"), key=lambda path: (path.stat().st_size > 1 << 20, path.stat().st_mtime))
    pack(check.out / "logs.tar.gz", [path for path in logs if path.stat().st_size], check.work)


def save_traces(check):
    traces = [path for folder in check.work.glob("*/traces") for path in folder.iterdir() if ".json" in path.name]
    traces += list(check.work.glob("*/theirs.json"))
    pack(check.out / "traces.tar.gz", sorted(traces, key=lambda path: path.stat().st_size), check.work)


def save(check):
    """Writes the results. The files are whole at any time, since the run may be cut off."""
    with check.lock:
        figures = dict(check.figures, seconds=time.monotonic() - check.started, failures=check.failures, skipped=check.skipped, rows=check.rows,
                       not_run=check.not_run)
        for name, text in (("gpu_check.json", json.dumps(figures, indent=1)), ("gpu_check.txt", table(check))):
            (check.out / f".{name}").write_text(text + "\n")
            (check.out / f".{name}").rename(check.out / name)


# ---- all -------------------------------------------------------------------------------------------------------

def seconds_for(check, part):
    """The time limit of a part. The plan's seconds are for real hardware; in the simulation a part may use all the time that is left."""
    return check.left() if check.sim else part.seconds


def run_part(check, name):
    part = plan.BY_NAME[name]
    print(f"gpu_check: {name} ({time.monotonic() - check.started:.0f} s)", flush=True)
    began = time.monotonic()
    try:
        with check.within(name, seconds_for(check, part)):
            if check.left() < 5:
                raise OutOfTime
            part.function(check)
    except OutOfTime:
        check.fail(name, "no time left for the whole part")
    except Exception:  # an error of the check itself: the other parts go on
        check.fail(name, "the check itself failed: " + traceback.format_exc(limit=-3)[-600:])
    check.figures.setdefault("part_seconds", {})[name] = round(time.monotonic() - began, 1)
    try:
        save(check)
        save_logs(check)
    except Exception as error:
        print(f"gpu_check: cannot save: {error}", flush=True)


def options():
    parser = argparse.ArgumentParser(prog="gpu_check.sh", description="The acceptance run on a GPU.")
    parser.add_argument("--plan", action="store_true", help="print the parts with their seconds, most valuable first, and run nothing")
    parser.add_argument("--sim", action="store_true", help="use the simulated GPU, even if there is a real one")
    parser.add_argument("--real", action="store_true", help="fail without a real GPU, instead of using the simulated one")
    parser.add_argument("--prepare", action="store_true", help="only build what the machine with the GPU needs, into build-check/")
    parser.add_argument("--quick", action="store_true", help="a short run of a minute, for CI")
    parser.add_argument("--out", default=os.environ.get("OUT") or str(ROOT / "build/gpu_check"), help="folder for the results")
    parser.add_argument("--build", help="folder to build in (default build-check, simulated build-check/sim)")
    parser.add_argument("--library", help="use this libcprof.so instead of building one")
    parser.add_argument("--parts", help="run only these parts, comma-separated, of: " + ",".join(plan.BY_NAME))
    parser.add_argument("--programs", help="run only these programs, comma-separated")
    parser.add_argument("--cases", help="run only these PyTorch features, comma-separated")
    parser.add_argument("--models", help="run only these PyTorch models, comma-separated")
    parser.add_argument("--limit", type=float, default=570, help="time limit of the whole run in seconds (570)")
    parser.add_argument("--program-limit", type=float, default=100, help="time limit of one program in seconds (100)")
    found = parser.parse_args()
    unknown = [name for name in (found.parts or "").split(",") if name and name not in plan.BY_NAME]
    if unknown:
        parser.error(f"--parts: no {unknown[0]}; there are {', '.join(plan.BY_NAME)}")
    return found


def prepare(check):
    if not check.nvcc or not check.cupti:
        sys.exit("gpu_check: --prepare needs nvcc and libcupti")
    build.build_library(check)
    versions.fetch(check)
    with check.within("build", 600):
        build.build_real(check)
    for what, why in check.skipped.items():
        print(f"  skipped: {what}: {why}")
    for failure in check.failures:
        print(f"  FAILED {failure}")
    names = sorted(path.stem for path in (check.build / "gpu").glob("*.o") if path.stem != "kernels")
    print(f"gpu_check: {check.build}: libcprof.so and {len(names)} programs: {', '.join(names)}")
    return 1 if check.failures else 0


def wanted_parts(check):
    if check.options.parts:
        named = filter(None, check.options.parts.split(","))
    else:
        named = [part.name for part in plan.BY_NAME.values() if part.simulated or not check.sim]
    return list(dict.fromkeys(["build", *named]))


def main():
    chosen = options()
    if chosen.plan:
        print(plan.table())
        return 0
    check = Check(chosen, ROOT)
    if chosen.prepare:
        check.nvcc = build.find_nvcc()
        check.cupti = build.find_library(check.nvcc, "libcupti.so.1*")
        return prepare(check)
    build.choose(check)
    shutil.rmtree(check.work, ignore_errors=True)
    for folder in (check.out, check.work):
        folder.mkdir(parents=True, exist_ok=True)
    build.versions(check)
    build.build_library(check)
    names = wanted_parts(check)
    plan.note_hardware(check, names)
    check.on_result = lambda: save(check)
    for name in names:
        run_part(check, name)
    save_traces(check)
    print(table(check), flush=True)
    if check.failures:
        print(f"gpu_check: the traces are in {check.work}")
    else:
        shutil.rmtree(check.work, ignore_errors=True)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
