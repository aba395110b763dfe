# SPDX-License-Identifier: Apache-2.0
"""The acceptance run on a GPU: is everything that was launched in the trace, and what does recording cost?

    scripts/gpu_check.sh [--plan] [--sim] [--quick] [--parts NAMES] [--out FOLDER] [--library PATH]

Builds the library and the programs of tests/gpu, runs each without and with the library and compares; PyTorch scripts against
torch.profiler and against what they say of themselves. Each part has a time of its own, and the whole has one; what fails or takes too long
stops nothing else. In FOLDER (default $OUT, else build/gpu_check), written anew after each check: gpu_check.json, gpu_check.txt (the table);
after each part: fixtures.tar.gz (raw buffers of CUPTI), logs.tar.gz (what each program and cprof said), traces.tar.gz (of what failed, then small ones).
Exit status 1 if a check failed. Figures of cost are compared with the budgets and marked; they fail nothing. The standard library is all that
it needs.
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
    """The files, in order, until the archive would become too large; what a program never wrote is not missed."""
    with tarfile.open(archive, "w:gz", compresslevel=6) as tar:
        for path in paths:
            if path.is_file() and path.stat().st_size < 8 * ARCHIVE_BYTES:
                tar.add(path, str(path.relative_to(root)))
            if archive.stat().st_size > ARCHIVE_BYTES:
                break


def save_logs(check):
    """Also what a single long log would push out: at most a megabyte of each."""
    logs = sorted(check.work.glob("*/*.txt"), key=lambda path: (path.stat().st_size > 1 << 20, path.stat().st_mtime))
    pack(check.out / "logs.tar.gz", [path for path in logs if path.stat().st_size], check.work)


def save_traces(check):
    traces = [path for folder in check.work.glob("*/traces") for path in folder.iterdir() if ".json" in path.name]
    traces += list(check.work.glob("*/theirs.json"))
    pack(check.out / "traces.tar.gz", sorted(traces, key=lambda path: path.stat().st_size), check.work)


def save(check):
    """Whole at each moment: the run may be cut off in this one."""
    with check.lock:
        figures = dict(check.figures, seconds=time.monotonic() - check.started, failures=check.failures, skipped=check.skipped, rows=check.rows,
                       not_run=check.not_run)
        for name, text in (("gpu_check.json", json.dumps(figures, indent=1)), ("gpu_check.txt", table(check))):
            (check.out / f".{name}").write_text(text + "\n")
            (check.out / f".{name}").rename(check.out / name)


# ---- all -------------------------------------------------------------------------------------------------------

def seconds_for(check, part):
    """The plan's seconds are those of a machine with a GPU; on the simulation a part has what is left of the whole."""
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
        check.fail(name, "no time left for all of it")
    except Exception:  # of the check itself: the other parts go on
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
    parser.add_argument("--sim", action="store_true", help="the simulated GPU, also where there is a real one")
    parser.add_argument("--real", action="store_true", help="fail where there is no real GPU, instead of taking the simulated one")
    parser.add_argument("--prepare", action="store_true", help="only build all that the real GPU's machine needs, into build-check/")
    parser.add_argument("--quick", action="store_true", help="less of everything: a minute, for CI")
    parser.add_argument("--out", default=os.environ.get("OUT") or str(ROOT / "build/gpu_check"), help="folder for the results")
    parser.add_argument("--build", help="folder to build in (default build-check, simulated build-check/sim)")
    parser.add_argument("--library", help="this libcprof.so instead of one built here")
    parser.add_argument("--parts", help="of: " + ",".join(plan.BY_NAME))
    parser.add_argument("--programs", help="of the programs only these, comma-separated")
    parser.add_argument("--cases", help="of the PyTorch features only these")
    parser.add_argument("--models", help="of the PyTorch models only these")
    parser.add_argument("--limit", type=float, default=570, help="seconds for all of it (570)")
    parser.add_argument("--program-limit", type=float, default=100, help="seconds for one program (100)")
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
