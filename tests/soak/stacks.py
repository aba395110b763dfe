#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`stacks.py SECONDS [PYTHON …]`: stacks are taken for that long, the time shared by the interpreters (all that this machine has), while
threads start, run and end, code and frames are freed, libraries are opened and closed and windows begin and end. Fails when a
program dies, complains, loses stacks or grows, or when a trace is not whole. Run by `make soak` for ten minutes, by the tests for
seconds."""

import pathlib
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

import support  # noqa: E402
import test_stacks  # noqa: E402

SETTINGS = dict(WITH_STACK=1, STEP="manual", SKIP_FIRST=2, WAIT=1, WARMUP=1, ACTIVE=2, REPEAT=0, NUM_TRACES_TO_KEEP=3, MAX_STACKS=1 << 20,
                LOG="warn")
GROWTH_KB = 400 << 10  # what stacks may take: all are kept; and allocators of eight threads


def resident_kb(pid):
    try:
        return int(support.status_of(pid)["VmRSS"].split()[0])
    except (OSError, KeyError):
        return 0


def problems_of(process, folder, out, err, sizes):
    """What went wrong, in words."""
    if process.returncode:
        yield f"rc {process.returncode}"
    if err.strip():
        yield f"stderr: {err[-2000:]}"
    if not out.strip().isdigit() or int(out) < 1:
        yield f"stdout: {out[-200:]!r}"
    if len(sizes) > 1 and max(sizes) - sizes[0] > GROWTH_KB:
        yield f"grew from {sizes[0]} to {max(sizes)} KB"
    traces = sorted(support.files(folder, ".json"))
    if not traces:
        yield "no trace"
    for path in traces:
        trace = support.load(path)
        marks = support.events(trace, ph="i")
        if trace["cprof"]["lost"]["total"]:
            yield f"{path.name}: lost {trace['cprof']['lost']}"
        if marks and sum("sf" in e for e in marks) < 0.9 * len(marks):
            yield f"{path.name}: {len(marks)} marks, few of them with a stack"


def soak(python, seconds, end, folder, library):
    """The problems of one interpreter's run, which must be over by `end`, and what it did."""
    command = [python, test_stacks.SCRIPTS / "stack_stress.py", seconds, library]
    env = support.environment(folder, env={"PYTHONDONTWRITEBYTECODE": "1"}, **SETTINGS)
    with subprocess.Popen([str(part) for part in command], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace") as process:
        output = []
        reader = threading.Thread(target=lambda: output.extend(process.communicate()))
        reader.start()
        sizes, settled = [], time.monotonic() + min(30, seconds / 2)
        while reader.is_alive() and time.monotonic() < end:
            reader.join(0.2)
            size = resident_kb(process.pid)
            if size and time.monotonic() > settled:
                sizes.append(size)
        hung = reader.is_alive()
        if hung:
            process.kill()
            reader.join()
    problems = ["it hung"] if hung else list(problems_of(process, folder, *output, sizes))
    rounds = (output[0].strip() or "?") if output else "?"
    return problems, f"{rounds} rounds, {sizes[0] >> 10 if sizes else 0} to {max(sizes, default=0) >> 10} MB"


def main():
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600
    known = [test_stacks.PYTHONS[version] for version in test_stacks.KNOWN if version in test_stacks.PYTHONS]
    pythons = sys.argv[2:] or known or [sys.executable]
    library = support.PROGRAMS / "libplugin.so"
    status, end = 0, time.monotonic() + 3 * seconds + 120
    for python in pythons:
        with tempfile.TemporaryDirectory() as folder:
            problems, did = soak(python, seconds / len(pythons), end, pathlib.Path(folder), library)
        version = ".".join(map(str, test_stacks.version_of(python)))
        print(f"stacks, Python {version}: {did}: {'; '.join(problems) or 'good'}", flush=True)
        status |= bool(problems)
    return status


if __name__ == "__main__":
    sys.exit(main())
