# SPDX-License-Identifier: Apache-2.0
"""Runs of PyTorch scripts for the tests of steps, ranks and harmlessness: with or without the preload, under any Python
that has torch, and what their traces say."""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from conftest import BUILD

SCRIPTS = pathlib.Path(__file__).parent / "scripts"
LIBRARY = BUILD / "libcprof.so"


class Trace:
    """One trace file. Times are integer nanoseconds."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.data = json.loads(self.path.read_text())
        self.events = self.data["traceEvents"]
        self.account = self.data["cprof"]
        self.info = self.data["distributedInfo"]
        self.lost = self.account["lost"]["total"]
        self.notes = self.account["notes"]

    @staticmethod
    def edges(event):
        """First and last nanosecond of an X event."""
        start = round(event["ts"] * 1000)
        return start, start + round(event["dur"] * 1000)

    def spans(self, category=None, name=None):
        """X events of this category whose name matches this pattern, in order of start."""
        found = [e for e in self.events if e["ph"] == "X" and category in (None, e["cat"])]
        if name:
            found = [e for e in found if re.search(name, e["name"])]
        return sorted(found, key=lambda e: (self.edges(e)[0], -self.edges(e)[1]))

    def ops(self, name=None):
        return self.spans("cpu_op", name)

    def steps(self):
        """{number: (start, end)} of the ProfilerStep rows."""
        return {int(e["name"].partition("#")[2]): self.edges(e) for e in self.spans(name=r"^ProfilerStep#\d+$")}

    def step_of(self, event):
        """The step in which the whole event lies, or None."""
        start, end = self.edges(event)
        return next((n for n, (a, b) in self.steps().items() if a <= start and end <= b), None)

    def in_steps(self, events):
        """{step: [names in order]} of events; key None holds what is in no step as a whole."""
        steps, found = list(self.steps().items()), {}
        for event in events:
            start, end = self.edges(event)
            at = next((n for n, (a, b) in steps if a <= start and end <= b), None)
            found.setdefault(at, []).append(event["name"])
        return found

    def memory(self):
        """`[memory]` instants in order of time."""
        return sorted((e for e in self.events if e.get("name") == "[memory]"), key=lambda e: e["ts"])

    def assert_nested(self):
        """No two rows of one thread overlap without one holding the other."""
        rows = {}
        for event in self.spans():
            rows.setdefault(event["tid"], []).append(event)
        for tid, row in rows.items():
            open_ends = []
            for event in row:
                start, end = self.edges(event)
                while open_ends and open_ends[-1] <= start:
                    open_ends.pop()
                assert not open_ends or end <= open_ends[-1], f"{event} sticks out of its parent on row {tid}"
                open_ends.append(end)


class Run:
    """A finished program."""

    def __init__(self, done, folder):
        self.rc, self.out, self.err, self.folder = done.returncode, done.stdout, done.stderr, folder

    @property
    def said(self):
        """cprof's lines on stderr."""
        return [line for line in self.err.splitlines() if line.startswith("cprof:")]

    @property
    def files(self):
        """Everything that is in the folder of the traces, as names."""
        return sorted(p.name for p in self.folder.rglob("*") if p.is_file())

    @property
    def traces(self):
        """The traces in order of their first step."""
        found = [Trace(p) for p in self.folder.rglob("*.pt.trace.json")]
        return sorted(found, key=lambda t: (t.info["rank"], t.account["first_step"], t.path))

    @property
    def trace(self):
        traces = self.traces
        assert len(traces) == 1, f"{len(traces)} traces where one is expected; stderr:\n{self.err}"
        return traces[0]

    @property
    def result(self):
        """The JSON that the script printed in its last line."""
        return json.loads(self.out.splitlines()[-1])

    def assert_good(self):
        assert self.rc == 0, f"rc {self.rc}\n{self.out[-2000:]}\n{self.err[-4000:]}"
        return self


def environment(folder, preload=True, **settings):
    """The environment of a traced program. settings without a lower-case prefix: SKIP_FIRST=1 is CPROF_SKIP_FIRST=1, and
    env_NAME=x is NAME=x."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("CPROF_")}
    env["PYTHONDONTWRITEBYTECODE"] = "1"
    env["PYTHONPATH"] = str(SCRIPTS)
    if preload:
        env["LD_PRELOAD"] = str(LIBRARY)
        env["CPROF_FOLDER"] = str(folder)
    for name, value in settings.items():
        env[name[4:] if name.startswith("env_") else "CPROF_" + name] = str(value)
    return env


def run_command(command, folder, preload=True, timeout=100, **settings):
    """Runs a command whose processes are all traced, below `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=timeout,
                          cwd=folder, stdin=subprocess.DEVNULL, env=environment(folder / "traces", preload, **settings))
    return Run(done, folder / "traces")


def run(script, folder, *args, python=sys.executable, **more):
    """Runs scripts/<script> under `python`; keywords as run_command()."""
    return run_command([python, SCRIPTS / script, *args], folder, **more)


@functools.cache
def torch_of(python):
    """Version of this interpreter's torch, or None."""
    if not python:
        return None
    done = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


# The interpreters that the step tests run on: the one of the tests, and the system's if it has a torch of its own.
PYTHONS = {"own": sys.executable, "system": shutil.which("python3", path=os.defpath)}


def python_or_skip(which):
    """The interpreter called `which`; skips, saying why, when it has no torch."""
    if torch_of(PYTHONS[which]) is None:
        pytest.skip(f"the {which} Python ({PYTHONS[which]}) has no torch: nothing to trace")
    return PYTHONS[which]


both_pythons = pytest.mark.parametrize("python", list(PYTHONS), indirect=True)
