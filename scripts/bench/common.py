# SPDX-License-Identifier: Apache-2.0
"""Shared by all measurements: building and running programs, with or without the library, and the best of several rounds."""

import os
import pathlib
import re
import select
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()
LIBRARY = BUILD / "libcprof.so"
PATIENCE = 120  # time limit of an answer in seconds: many times what torch.profiler needs to save a trace
BENCH = ROOT / "tests/bench"
PYTHON = ROOT / ".venv/bin/python"


def environment(preload, **settings):
    """The caller's environment with our CPROF_ settings instead of its own, and with the library."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("CPROF_") and k != "LD_PRELOAD"}
    env.update({f"CPROF_{name}": str(value) for name, value in settings.items()})
    if preload:
        env.update(LD_PRELOAD=str(LIBRARY))
        env.setdefault("CPROF_FOLDER", tempfile.gettempdir() + "/cprof-bench-none")
    return env


# Messages of cprof for a run that it recorded completely or not at all; the imitated CUDA has no driver.
EXPECTED = re.compile(r"cprof: (rank \d+: .* events, 0 lost: |nothing was recorded: the program ended |no driver )")


def complaints(said):
    """cprof's messages on stderr that make a figure worthless, such as losses, whose cost was not measured."""
    return [line for line in said.splitlines() if line.startswith("cprof:") and not EXPECTED.match(line)]


def output(command, env):
    done = subprocess.run([str(c) for c in command], env=env, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"bench: {command} failed:\n{done.stdout}{done.stderr}")
    if said := complaints(done.stderr):
        sys.exit(f"bench: {command}: {said[0]}")
    return done.stdout


class Server:
    """A program that prints a line when it is ready and answers each input line with a line. Several can be ready and measured in turn, so that a slow
    phase of the machine slows all of them."""

    def __init__(self, name, command, env):
        self.name, self.said = name, tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([str(c) for c in command], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True)

    def fail(self, what):
        self.said.seek(0)
        sys.exit(f"bench: {self.name}: {what}\n{self.said.read()}")

    def answer(self):
        if not select.select([self.process.stdout], [], [], PATIENCE)[0]:
            self.fail(f"no answer within {PATIENCE} s")
        return self.process.stdout.readline() or self.fail("ended")

    def ask(self, line):
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            self.fail("ended")
        return self.answer()

    def end(self):
        self.process.stdin.close()
        if self.process.wait(PATIENCE) != 0:
            self.fail(f"exit code {self.process.returncode}")
        self.said.seek(0)
        if said := complaints(self.said.read()):
            self.fail(said[0])

    def kill(self):
        self.process.kill()
        self.process.wait()


def core():
    """The core for programs that take turns."""
    return max(os.sched_getaffinity(0))


def quantile(some, part):
    some = sorted(some)
    return some[min(len(some) - 1, int(len(some) * part))]


def median(some):
    return quantile(some, 0.5)


def values(text):
    """`name value unit` lines as a dictionary."""
    return {line.split()[0]: float(line.split()[1]) for line in text.splitlines() if len(line.split()) == 3}


def rounds_of(choose, rounds, measure):
    """`choose` (min, max) of each key's values over the rounds."""
    best = {}
    for _ in range(rounds):
        for key, value in measure().items():
            best[key] = choose(best.get(key, value), value)
    return best


def least(rounds, measure):
    """The smallest value of each key: other load on the machine can only add to it."""
    return rounds_of(min, rounds, measure)


def most(rounds, measure):
    """The largest value of each key, for counts per second."""
    return rounds_of(max, rounds, measure)


def fresh(folder):
    """A new folder for traces, so that no run disturbs the next."""
    return tempfile.mkdtemp(dir=folder)


def compile_program(name, *options, stderr=None):
    """Builds tests/bench/NAME.c."""
    target = BUILD / "bench" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-D_GNU_SOURCE", f"-I{ROOT}", "-o", str(target),
                    str(BENCH / f"{name}.c"), *options], check=True, stderr=stderr)
    return target


def stand_in(name, source, *options):
    """Builds a small library from C source with the name of a real one. Returns its path."""
    target = BUILD / "bench" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", str(target), "-xc", "-", f"-Wl,-soname,{name}", *options],
                   input=source, text=True, check=True)
    return target
