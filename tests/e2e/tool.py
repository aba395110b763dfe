# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of the command `cprof`: running it, making small traces, and real traces of torch.profiler.

    result = tool.cprof("top", path)          # rc, out, err
    path = tool.write(folder / "t.json", [tool.span("aten::add", 0, 10)])
"""

import dataclasses
import gzip
import json
import os
import pathlib
import subprocess
import sys

import pytest

import command_runs
import support
from command_runs import COMMAND
from conftest import BUILD, ROOT

TIMEOUT_S = 120
BUILD_PICTURES = BUILD / "e2e/pictures"

# Traces of real GPUs (HolisticTraceAnalysis' test data), if they are beside the checkout.
KINETO = pathlib.Path(os.environ.get("KINETO_TRACES", ROOT.parent / "shared/data/kineto"))
KINETO_TRACES = sorted(KINETO.glob("*.json.gz")) if KINETO.is_dir() else []


def torch_run(folder):
    """Leaves traces of torch.profiler in the folder, with torch's own tables, stacks and timeline of them."""
    script = pathlib.Path(__file__).parent / "scripts/torch_profile.py"
    done = subprocess.run([sys.executable, str(script), str(folder)], capture_output=True, text=True, timeout=TIMEOUT_S)
    if done.returncode < 0:  # Debian 13's torch 2.6 under Python 3.13, with_stack
        pytest.skip(f"torch.profiler of this torch crashes by itself (signal {-done.returncode})")
    assert done.returncode == 0, done.stderr
    return folder


def our_trace(folder):
    """A trace of cprof's: two steps of a small training."""
    code = ("import torch\nmodel = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))\n"
            "optimizer = torch.optim.Adam(model.parameters())\n"
            "for _ in range(4):\n    optimizer.zero_grad()\n    model(torch.ones(16, 64)).sum().backward()\n    optimizer.step()\n")
    result = support.run([sys.executable, "-c", code], folder, ACTIVE=2, RECORD_SHAPES=1)
    assert result.rc == 0 and len(result.traces) == 1, result.err
    return result.traces[0]


@dataclasses.dataclass
class Result:
    """The result of the command."""
    rc: int
    out: str
    err: str


def cprof(*args, stdin=b"", env=None, **more):
    """Runs the command to its end. It must print no traceback and no internal error."""
    done = command_runs.run_command(args, dict(os.environ, **(env or {})), input=stdin, **more)
    result = Result(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert "Traceback" not in result.err and "went wrong inside" not in result.err, result.err
    return result


def refused(result, *said):
    """Checks that the command refused its input: exit code 2, nothing on stdout, one line that holds each text."""
    assert result.rc == 2 and result.out == "", result
    lines = result.err.splitlines()
    assert len(lines) == 1 and lines[0].startswith("cprof: "), result.err
    for text in said:
        assert str(text) in lines[0], lines[0]
    return True


def span(name, ts, dur, cat="cpu_op", pid=5000, tid=5000, **args):
    """An X event. A "_" in the name of an arg becomes a space."""
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur,
            "args": {key.replace("_", " "): value for key, value in args.items()}}


def memory(ts, size, address, device=0, total=0, pid=5000, tid=5000, index=-1):
    """A [memory] event."""
    return {"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": pid, "tid": tid, "ts": ts,
            "args": {"Bytes": size, "Addr": address, "Device Type": device, "Device Id": index, "Total Allocated": total}}


def write(path, events, **more):
    """Writes a trace as torch does, in gzip if the name ends in .gz."""
    text = json.dumps(dict({"schemaVersion": 1}, traceEvents=events, **more))
    if str(path).endswith(".gz"):
        pathlib.Path(path).write_bytes(gzip.compress(text.encode()))
    else:
        pathlib.Path(path).write_text(text)
    return path
