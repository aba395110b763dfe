# SPDX-License-Identifier: Apache-2.0
"""Runs the command `cprof` for tests as a user does, and makes traces of several ranks for it.

    done = cprof("merge", *paths, "-o", out)
    assert done.returncode == 0 and done.stdout == f"{out}\n"
"""

import inspect
import io
import json
import os
import pathlib
import re
import runpy
import signal
import subprocess
import sys
import traceback

import support
from conftest import ROOT

COMMAND = ROOT / "scripts/cprof"
PACKAGE = ROOT / "scripts/python"
sys.path.insert(0, str(PACKAGE))  # tests of single functions import cprof.tool

# A program in Python: access to the calls of cprof.h, and nine steps.
MARK = "import ctypes\nc = ctypes.CDLL(None)\n"
STEPS = MARK + "for i in range(9): c.cprof_range_push(b'work'); c.cprof_range_pop(); c.cprof_step()\n"

BASE_NS = 20760 * 86400 * 10**9  # a multiple of 30 days
FIRST_US = 5e11


def environment(**variables):
    """The environment of the command; None removes a variable."""
    env = dict(os.environ, CPROF_LIBRARY=str(support.LIBRARY), PYTHONDONTWRITEBYTECODE="1")
    for name, value in variables.items():
        env.pop(name, None)
        if value is not None:
            env[name] = str(value)
    return env


def python(code):
    """The program of a command: Python with this code."""
    return ["--", sys.executable, "-c", code]


def command(*args):
    return [sys.executable, str(COMMAND), *map(str, args)]


def run_command(args, env, **more):
    """subprocess.run() of the command. Where the test does not need a new interpreter, a forked child of this process runs the
    script: Python takes longer to start than most commands to run."""
    own = [name for name in {*env, *os.environ} if re.match("PYTHON(?!DONTWRITEBYTECODE)|LC_|LANG|LD_|TZ", name)]
    if more.keys() - {"stdin", "input", "text", "cwd"} or \
            any(env.get(name) != os.environ.get(name) for name in own):
        return subprocess.run(command(*args), env=env, capture_output=True, timeout=support.TIMEOUT_S, **more)
    return subprocess.run([str(COMMAND), *map(str, args)], preexec_fn=lambda: _become_command(args, env), capture_output=True,
                          timeout=support.TIMEOUT_S, **more)


def _become_command(args, env):
    """Runs the script in a child between fork and exec, and exits. First restores the state in which a new interpreter starts."""
    code = 1
    try:
        os.closerange(3, 1 << 16)  # also subprocess's pipe, on which the parent waits for exec
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN)
        os.environ.clear()
        os.environ.update(env)
        sys.argv = [str(COMMAND), *map(str, args)]
        sys.setrecursionlimit(sys.getrecursionlimit() + len(inspect.stack(0)))
        encoding = sys.__stdout__.encoding
        sys.stdin = sys.__stdin__ = io.TextIOWrapper(open(0, "rb", closefd=False), encoding)
        sys.stdout = sys.__stdout__ = io.TextIOWrapper(open(1, "wb", closefd=False), encoding)
        sys.stderr = sys.__stderr__ = io.TextIOWrapper(open(2, "wb", closefd=False), encoding, "backslashreplace", line_buffering=True)
        try:
            runpy.run_path(str(COMMAND), run_name="__main__")
            code = 0
        except SystemExit as ending:
            code = ending.code or 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)


def cprof(*args, env=None, **more):
    """Runs the command to its end. It must print no traceback."""
    if "input" not in more:
        more.setdefault("stdin", subprocess.DEVNULL)
    done = run_command(args, environment(**(env or {})), text=True, **more)
    assert "Traceback" not in done.stderr, done.stderr
    return done


def refused(done, *texts):
    """Checks for exit code 2 and one line on stderr that holds the texts."""
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and len(lines) == 1 and lines[0].startswith("cprof: "), (done.returncode, done.stderr)
    assert all(text in lines[0] for text in texts), lines[0]


ALLREDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
MS = 1000  # in microseconds


class Rank:
    """A trace of one rank, to be written. Times are microseconds from a moment that all ranks share. `as_cprof`: one event a line
    and three decimals, as cprof writes; else compact JSON."""

    as_cprof = True

    def __init__(self, rank, host="one", clock_us=0.0, world=2, base_ns=BASE_NS):
        self.rank, self.host, self.clock_us, self.world, self.base_ns = rank, host, clock_us, world, base_ns
        self.pid = 10000 + rank
        self.events = []
        self.meta(self.pid, "process_name", name="python")

    def us(self, at):
        """The time on this rank's clock."""
        return round(FIRST_US + at + self.clock_us + (BASE_NS - self.base_ns) / 1000, 3)

    def meta(self, pid, what, /, tid=None, **args):
        self.events.append({"ph": "M", "name": what, "pid": pid, "tid": pid if tid is None else tid, "ts": 0.0, "args": args})

    def span(self, name, start, duration, cat="cpu_op", pid=None, tid=None, **args):
        self.events.append({"ph": "X", "cat": cat, "name": name, "pid": self.pid if pid is None else pid,
                            "tid": self.pid if tid is None else tid, "ts": self.us(start), "dur": duration, "args": args})

    def step(self, number, start, duration):
        self.span(f"ProfilerStep#{number}", start, duration, "user_annotation", tid=4194305)

    def kernel(self, name, start, duration, stream=7, **args):
        self.span(name, start, duration, "kernel", 0, stream, device=0, stream=stream, correlation=1, **args)

    def arrow(self, number, start, end):
        """Adds an arrow from this rank's CPU to its GPU."""
        for ph, at, pid, tid, more in (("s", start, self.pid, self.pid, {}), ("f", end, 0, 7, {"bp": "e"})):
            self.events.append({"ph": ph, "id": number, "pid": pid, "tid": tid, "ts": self.us(at), "cat": "ac2g",
                                "name": "ac2g", **more})

    def write(self, folder, name=None):
        path = pathlib.Path(folder) / (name or f"rank{self.rank}.4.pt.trace.json")
        head = {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": self.rank, "world_size": self.world},
                "host_name": self.host, "displayTimeUnit": "ms", "baseTimeNanoseconds": self.base_ns}
        tail = {"cprof": {"version": "0"}, "traceName": str(path)}
        text = json.dumps(dict(head, traceEvents=self.events, **tail), ensure_ascii=False)
        if self.as_cprof:
            lines = ",\n".join(json.dumps(event, ensure_ascii=False) for event in self.events)
            lines = re.sub(r'("tid": [^,]+, "ts": |"dur": )([\d.]+)', lambda m: f"{m[1]}{float(m[2]):.3f}", lines)
            text = (json.dumps(head, indent=0)[:-2] + "," + " " * 100 + '\n"traceEvents": [\n' + lines + "\n],\n" +
                    json.dumps(tail)[1:] + "\n")
        path.write_text(text, encoding="utf-8")
        return path
