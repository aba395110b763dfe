#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Takes stacks for a long time: `stacks.py SECONDS [PYTHON …]`.

The interpreters (by default all known ones on this machine) share the time. Meanwhile threads start, run and end, code and frames are freed,
libraries are opened and closed, and windows begin and end. The run fails if
- a program dies, writes to stderr, loses stacks or grows
- a trace is not whole
- a Python stack differs from the stack that the interpreter reported at the same place
- a native stack begins in another library than the one that made the mark

It reads as many traces as it can while the program runs, and all that are left in the end. `make soak` runs this for ten minutes, the tests
for seconds."""

import contextlib
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

E2E = pathlib.Path(__file__).resolve().parents[1] / "e2e"
sys.path[:0] = [str(E2E), str(E2E / "scripts")]

import stack_stress  # noqa: E402
import support  # noqa: E402
import test_stacks  # noqa: E402

SETTINGS = dict(WITH_STACK=1, STEP="manual", SKIP_FIRST=2, WAIT=1, WARMUP=1, ACTIVE=2, REPEAT=0, NUM_TRACES_TO_KEEP=3, MAX_STACKS=1 << 20,
                LOG="warn")
GROWTH_KB = 400 << 10  # for all stacks, which are kept, and the allocators of eight threads


def resident_kb(pid):
    try:
        return int(support.status_of(pid)["VmRSS"].split()[0])
    except (OSError, KeyError):
        return 0


class Comparison:
    """Results of the comparison of the traces so far."""

    def __init__(self):
        self.stacks, self.plugins, self.wrong, self.problems, self.names = 0, 0, 0, [], set()

    def read(self, path):
        self.names.add(path.name)
        trace = support.load(path)
        marks = support.events(trace, ph="i")
        if trace["cprof"]["lost"]["total"]:
            self.problems.append(f"{path.name}: lost {trace['cprof']['lost']}")
        if marks and sum("sf" in e for e in marks) < 0.9 * len(marks):
            self.problems.append(f"{path.name}: {len(marks)} marks, few of them with a stack")
        left = min((e["ts"] for e in marks if e["name"] == "leaving"), default=math.inf)
        for mark in marks:
            if "sf" in mark and mark["name"].startswith("work "):
                self.compare(path, mark, test_stacks.python_frames(trace, mark), mark["ts"] > left)
            elif "sf" in mark and mark["name"].startswith("plugin in "):
                self.compare_library(path, mark, test_stacks.stack(trace, mark)[0][1])

    def compare(self, path, mark, frames, leaving):
        """Compares with the stack that the caller of mark() reported, whose file names have no folder. At exit the interpreter is not read."""
        if leaving and not frames:
            return
        outer = [(file.rsplit("/", 1)[-1], line, function) for file, line, function in frames[-2::-1]]
        self.stacks += 1
        if mark["name"] != f"work {stack_stress.number_of(outer)}":
            self.note(path, mark, frames)

    def compare_library(self, path, mark, innermost):
        """Compares with the library that made the mark."""
        self.plugins += 1
        if not innermost.endswith(f"plugin ({mark['name'].split()[-1]})"):
            self.note(path, mark, innermost)

    def note(self, path, mark, stack):
        self.wrong += 1
        if self.wrong == 1:
            self.problems.append(f"{path.name}: {mark['name']} has the stack {stack}")

    def read_newest(self, folder, aside):
        """Reads the newest trace. The running program may delete it at any time, so a second link in `aside` keeps it."""
        new = [path for path in sorted(support.files(folder, ".json"), key=support.natural) if path.name not in self.names]
        if new:
            kept = aside / new[-1].name
            with contextlib.suppress(FileNotFoundError):
                os.link(new[-1], kept)
                self.read(kept)
                kept.unlink()


def problems_of(process, compared, out, err, sizes):
    """Yields a text for each problem."""
    if process.returncode:
        yield f"rc {process.returncode}"
    if err.strip():
        yield f"stderr: {err[-2000:]}"
    if not out.strip().isdigit() or int(out) < 1:
        yield f"stdout: {out[-200:]!r}"
    if len(sizes) > 1 and max(sizes) - sizes[0] > GROWTH_KB:
        yield f"grew from {sizes[0]} to {max(sizes)} KB"
    if not compared.stacks or not compared.plugins:
        yield "no stack was compared"
    if compared.wrong:
        yield f"{compared.wrong} wrong stacks"
    yield from compared.problems[:10]


def soak(python, seconds, end, folder, library):
    """Runs one interpreter, which must end by `end`. Returns its problems and a summary."""
    aside, copies = folder / "aside", folder / "copies"
    folder = folder / "traces"
    for path in (aside, copies, folder):
        path.mkdir()
    command = [python, test_stacks.SCRIPTS / "stack_stress.py", seconds, library]
    env = support.environment(folder, env={"PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(copies)}, **SETTINGS)
    with subprocess.Popen([str(part) for part in command], env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace") as process:
        output = []
        reader = threading.Thread(target=lambda: output.extend(process.communicate()))
        reader.start()
        sizes, compared, settled = [], Comparison(), time.monotonic() + min(30, seconds / 2)
        while reader.is_alive() and time.monotonic() < end:
            reader.join(0.2)
            size = resident_kb(process.pid)
            if size and time.monotonic() > settled:
                sizes.append(size)
            compared.read_newest(folder, aside)
        hung = reader.is_alive()
        if hung:
            process.kill()
            reader.join()
    for path in support.files(folder, ".json"):
        if path.name not in compared.names:
            compared.read(path)
    problems = ["it hung"] if hung else list(problems_of(process, compared, *output, sizes))
    rounds = (output[0].strip() or "?") if output else "?"
    return problems, (f"{rounds} rounds, {compared.stacks} stacks and {compared.plugins} libraries of {len(compared.names)} traces compared, "
                      f"{sizes[0] >> 10 if sizes else 0} to {max(sizes, default=0) >> 10} MB")


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
