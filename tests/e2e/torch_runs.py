# SPDX-License-Identifier: Apache-2.0
"""Helpers beside support.py for tests with PyTorch: running scripts under any Python that has torch, and reading steps,
threads and memory from a trace."""

import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import support

SCRIPTS = pathlib.Path(__file__).parent / "scripts"
ALWAYS = {"WARMUP": 0, "ACTIVE": 1000}  # one window from start to exit


class Trace:
    """A validated trace, with times in integer nanoseconds."""

    def __init__(self, path):
        self.path = path
        self.data = support.load(path)
        self.account, self.info = self.data["cprof"], self.data["distributedInfo"]
        self.lost = self.account["lost"]["total"]

    def spans(self, category, name=""):
        """X events of this category whose name matches the pattern, in order of start."""
        found = [e for e in support.events(self.data, ph="X", cat=category) if re.search(name, e["name"])]
        return sorted(found, key=lambda e: (support.span_ns(e)[0], -support.span_ns(e)[1]))

    def ops(self, name=""):
        return self.spans("cpu_op", name)

    def ranges(self, name=""):
        return self.spans("user_annotation", name)

    @functools.cached_property
    def steps(self):
        """{number: (start, end)} of the ProfilerStep rows."""
        return {int(e["name"].partition("#")[2]): support.span_ns(e) for e in self.ranges(r"^ProfilerStep#\d+$")}

    def by_step(self, events):
        """{step: [names in order]}; None has the events that are not whole inside a step."""
        found = {}
        for event in events:
            start, end = support.span_ns(event)
            at = next((n for n, (a, b) in self.steps.items() if a <= start and end <= b), None)
            found.setdefault(at, []).append(event["name"])
        return found

    def memory(self):
        """`[memory]` instants in order of time."""
        return sorted(support.events(self.data, name="[memory]"), key=lambda e: float(e["ts"]))


def traces(result):
    """The traces of a run in the order of their names."""
    return [Trace(path) for path in result.traces]


def trace(result):
    """The only trace of a successful run. Nothing may be lost, and one line on stderr must name the trace."""
    assert_good(result)
    assert len(result.traces) == 1, f"{result.names}\n{result.err}"
    assert_told(result)
    one = Trace(result.traces[0])
    assert one.lost == 0, one.account["lost"]
    return one


def assert_good(result):
    assert result.rc == 0, f"rc {result.rc}\n{result.out[-2000:]}\n{result.err[-4000:]}"


def assert_told(result):
    """Checks that cprof printed only one line, which counts the traces and names the first two."""
    assert result.complaints == [] and len(result.said) == 1, result.err
    assert re.match(rf"rank \d+: {len(result.traces)} traces?, [\d,]+ events, [\d,]+ lost: ", result.said[0]), result.said
    # the first two that were written, which need not be the first two by name
    paths = re.findall(r"/\S+", result.said[0])
    assert len(paths) == min(2, len(result.traces)) and set(paths) <= set(map(str, result.traces)), result.said


def printed(result):
    """The JSON value in the last line that the script printed."""
    assert_good(result)
    return json.loads(result.out.splitlines()[-1])


def run(script, folder, *args, python=sys.executable, env=None, **more):
    """Runs scripts/<script>; keywords as support.run()."""
    env = dict({"PYTHONPATH": str(SCRIPTS), "PYTHONDONTWRITEBYTECODE": "1"}, **(env or {}))
    return support.run([python, SCRIPTS / script, *args], folder, env=env, **more)


# The interpreters that tests run under: the one of the tests, and the system's if that has a torch of its own.
PYTHONS = {"own": sys.executable, "system": shutil.which("python3", path=os.defpath)}


@functools.cache
def torch_version(which):
    """The version of this interpreter's torch; None if it has none."""
    if not PYTHONS[which]:
        return None
    done = subprocess.run([PYTHONS[which], "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def python_or_skip(which):
    if torch_version(which) is None:
        pytest.skip(f"the {which} Python ({PYTHONS[which]}) has no torch: nothing to trace")
    return PYTHONS[which]


def needs_torch_2(why):
    """Skips a test, with the reason, where the torch of the tests is 1.x (Debian 12)."""
    version = torch_version("own") or "0"
    return pytest.mark.skipif(version.startswith("1."), reason=f"torch {version}: {why}")


both_pythons = pytest.mark.parametrize("which", list(PYTHONS))

# torchrun on loopback, for scripts that use gloo. Without these, both wait forever on a machine whose name has no address.
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--local-addr", "127.0.0.1"]
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo"}


@functools.cache
def _store_problem():
    code = "import torch.distributed as d; d.TCPStore('127.0.0.1', 0, is_master=True, wait_for_workers=False)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=support.TIMEOUT_S)
    return done.stderr.strip().rpartition("\n")[2] if done.returncode else ""


def skip_without_torchrun():
    """Skips where torchrun fails by itself: Debian's torch 2.6 needs libuv but was built without it."""
    if "libuv" in _store_problem():
        pytest.skip(f"this torch's torchrun does not work by itself: {_store_problem()}")

