# SPDX-License-Identifier: Apache-2.0
"""Traces with fields of any kind and size: no sub-command raises an internal error."""

import contextlib
import gc
import io
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

import pytest

import support
import tool
from conftest import ROOT, matrix
from cprof.tool import Problem, main
from cprof.tool.view import write_view

ODD = [None, True, False, 0, -1, 1, 2**31, 2**63, -(2**70), 1e-9, 1.5, 1e18, 1e300, float("nan"), float("inf"), "", "x", "7", "é\u0000\ud800",
       [], [1], [[2, 3], []], {}, {"a": 1}, {"local": []}, "9" * 40, "aten::mm", "ProfilerStep#", "ProfilerStep#x", ";", "a;b;"]
KEYS = ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id", "id2", "s", "bp"]
ARGS = ["External id", "correlation", "Bytes", "Addr", "Device Type", "Device Id", "Total Allocated", "device", "stream", "Input Dims",
        "Concrete Inputs", "Call stack", "Sequence number", "Fwd thread id", "flops", "Module Hierarchy", "cuda_sync_kind", "name",
        "wait_on_cuda_event_record_corr_id"]
TOP = ["schemaVersion", "deviceProperties", "distributedInfo", "baseTimeNanoseconds", "cprof", "traceName", "with_flops", "INFO"]
COMMANDS = [["explain"], ["explain", "--json"], ["top"], ["top", "--group-by-input-shape"], ["top", "--group-by-stack-n", "3"], ["top", "--json"], ["top", "--by", "step"],
            ["top", "--by", "module"], ["top", "--by", "device"], ["top", "--by", "category", "--csv"], ["top", "--by", "kernel"],
            ["check"], ["check", "--json"], ["stacks"], ["events", "--step", "1", "--device", "cuda", "--name", "*"],
            ["events", "--thread", "a*"], ["compare", "t.json"], ["compare", "t.json", "--markdown"], ["memory-timeline", "-o", "out.html"], ["memory-timeline", "-o", "out.raw.json"], ["memory"], ["memory", "--json"],
            ["report", "-o", "out.html"], ["stacks", "-o", "out.html"]]


def sound():
    """One event of each kind."""
    return [
        {"ph": "M", "name": "thread_name", "pid": 5000, "tid": 5000, "ts": 0.0, "args": {"name": "x"}},
        tool.span("ProfilerStep#1", 0.0, 900.0, cat="user_annotation", tid=5001),
        tool.span("aten::mm", 10.0, 50.0, External_id=1, Input_Dims=[[2, 3], [3, 4]], Call_stack="a;b;", Sequence_number=1),
        tool.span("aten::conv2d", 100.0, 50.0, Input_Dims=[[1, 1, 4, 4], [1, 1, 2, 2], [], [], [], [], []],
                  Concrete_Inputs=["", "", "", "[1, 1]", "[0, 0]", "[1, 1]", "1"], Module_Hierarchy="A.B"),
        tool.span("autograd::engine::evaluate_function: MmBackward0", 200.0, 50.0, Sequence_number=1, Fwd_thread_id=1),
        tool.span("f.py(3): g", 300.0, 50.0, cat="python_function"),
        tool.span("cudaLaunchKernel", 20.0, 10.0, cat="cuda_runtime", External_id=1, correlation=3),
        tool.span("gemm", 40.0, 5.0, cat="kernel", pid=0, tid=7, External_id=1, correlation=3, device=0, stream=7),
        tool.span("Stream Sync", 60.0, 5.0, cat="cuda_sync", pid=0, tid=9, stream=7, device=0),
        {"ph": "s", "id": 3, "pid": 5000, "tid": 5000, "ts": 20.0, "cat": "ac2g", "name": "ac2g"},
        {"ph": "f", "id": 3, "pid": 0, "tid": 7, "ts": 40.0, "cat": "ac2g", "name": "ac2g", "bp": "e"},
        {"ph": "C", "name": "Memory CPU", "pid": 5000, "tid": 5000, "ts": 15.0, "args": {"bytes": 1}},
        {"ph": "b", "id2": {"local": 1}, "cat": "nvtx", "name": "r", "pid": 5000, "tid": 5000, "ts": 15.0},
        {"ph": "e", "id2": {"local": 1}, "cat": "nvtx", "name": "r", "pid": 5000, "tid": 5000, "ts": 18.0},
        tool.memory(30.0, 64, 1, total=100), tool.memory(40.0, -64, 1), tool.memory(45.0, 64, 2, device=1, index=0)]


def with_odd_fields(choose):
    """Events, and keys beside them, with odd values in some fields."""
    events = sound() * 2
    top = {key: choose.choice(ODD) for key in choose.sample(TOP, 2)}
    for _ in range(choose.randint(1, 12)):
        event = choose.choice(events)
        if choose.random() < 0.5 or not isinstance(event.get("args"), dict):
            event[choose.choice(KEYS)] = choose.choice(ODD)
        else:
            event["args"][choose.choice(ARGS)] = choose.choice(ODD)
    return events, top


@pytest.mark.parametrize("seed", range(10))
def test_commands_survive_odd_fields(seed, monkeypatch, request):
    monkeypatch.setenv("CPROF_LOG", "debug")  # raises internal errors
    choose = random.Random(seed)
    request.addfinalizer(gc.enable)  # the command disables it
    for _ in range(3):
        events, top = with_odd_fields(choose)
        with open("t.json", "w") as file:
            json.dump({**top, "traceEvents": events}, file)
        for command in COMMANDS:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
                code = main([command[0], "t.json"] + command[1:])
            assert code in (0, 1, 2) and (code != 2 or said.getvalue().startswith("cprof: ")), (command, said.getvalue())
        show("t.json")


def show(path):
    """Converts the trace as `cprof open` does before it serves."""
    with contextlib.suppress(Problem):
        write_view(path, io.BytesIO(), "t")


WHOLE = (ROOT / "tests/fuzz/readers/whole.json").read_bytes()
KINETO = (ROOT / "tests/fuzz/readers/kineto.json").read_bytes()
GPU = (ROOT / "tests/fuzz/readers/gpu.json").read_bytes()
PART = "rank0.0.pt.trace.json.4194305.0.part"  # of a pid that no process has
PLACES = {"in front of the events": (b'"host_name": "vm"', b'"host_name": %s'), "behind the events": (b'"notes": []', b'"notes": %s'),
          "rank": (b'"rank": 0', b'"rank": %s'), "name of an event": (b'"name": "ProfilerStep#0"', b'"name": %s'),
          "argument": (b'"args": {"name": "steps"}', b'"args": {"name": %s}'), "time": (b'"ts": 0.000', b'"ts": %s'),
          "between events": (b'{"ph": "M", "name": "thread_name"', b'%s,\n{"ph": "M", "name": "thread_name"'),
          "text of JSON": (b'{"ph": "M", "name": "thread_name"', json.dumps(tool.span(
              "aten::conv2d", 100.0, 50.0, Input_Dims=[[1, 1, 4, 4], [1, 1, 2, 2], [], [], [], [], []],
              Concrete_Inputs=["", "", "", "%s", "[0, 0]", "[1, 1]", "1"])).encode() + b',\n{"ph": "M", "name": "thread_name"')}


def run_all_commands(what, recovered, jobs="12"):
    """Runs every command on t.json, other.json and PART: each succeeds or names the file that it cannot read. jobs: processes of merge."""
    others = [*[["merge", "--jobs", n, "t.json", "other.json", "-o", "merged.json", "-f"] for n in jobs], ["ranks", "t.json", "other.json"],
              ["compare", "t.json", "other.json"], ["recover", "--force", PART, "-o", recovered]]
    for command in [[command[0], "t.json"] + command[1:] for command in COMMANDS] + others:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as said:
            code = main(command)
        assert code in (0, 1, 2) and (code != 2 or said.getvalue().startswith("cprof: t.json: ") or command[0] == "recover"), (
            what, command, said.getvalue())
    show("t.json")


@pytest.mark.parametrize("place", PLACES)
def test_commands_survive_deep_nesting(place, monkeypatch, request):
    """Deeply nested values: some are too deep for Python's JSON reader, some only for later processing."""
    monkeypatch.setenv("CPROF_LOG", "debug")  # raises internal errors
    request.addfinalizer(gc.enable)
    old, new = PLACES[place]
    assert old in WHOLE
    for depth in matrix((100, 300, 600, 900, *range(940, 1000, 12), 1000, 5000, 300_000), 900, 952, 1000, 300_000):
        for opened, closed in ((b"[", b"]"), (b'{\\"a\\": ' if b'"%s"' in new else b'{"a": ', b"}")):
            deep = opened * depth + b"1" + closed * depth
            pathlib.Path("t.json").write_bytes(WHOLE.replace(old, new.replace(b"%s", deep), 1))
            shutil.copy("t.json", PART)
            pathlib.Path("other.json").write_bytes(WHOLE)
            run_all_commands(depth, f"whole{depth}{opened[0]}.json")
    assert not [name for name in os.listdir() if name.startswith(".") or name.endswith(".tmp")]


NUMBERS = {"step": (b'"ProfilerStep#1"', b'"ProfilerStep#%s"'), "ts": (b'"ts": ', b'"ts": %s'), "dur": (b'"dur": ', b'"dur": %s'),
           "pid": (b'"pid": ', b'"pid": %s'), "External id": (b'"External id": ', b'"External id": %s'), "flops": (b'"flops": ', b'"flops": %s'),
           "Bytes": (b'"Bytes": ', b'"Bytes": %s'), "Device Type": (b'"Device Type": ', b'"Device Type": %s'), "arrow": (b'"id": ', b'"id": %s'),
           "Kineto": (b'"schemaVersion"', b'"INFO": ["Record counts: Out-of-range = %s"], "schemaVersion"'),
           "base": (b'"baseTimeNanoseconds": ', b'"baseTimeNanoseconds": %s')}


@pytest.mark.parametrize("place", NUMBERS)
@pytest.mark.parametrize("number", [b"9" * 18, b"9" * 19, b"9" * 4296, b"9" * 5000, "\u00b2".encode(), "\u0663".encode()],
                         ids=["18 digits", "19 digits", "4296 digits", "5000 digits", "superscript", "arabic"])
def test_commands_survive_odd_numbers(place, number, monkeypatch, request):
    """Numbers with more digits than Python converts (4,300), and characters that are digits to Python but not to JSON."""
    monkeypatch.setenv("CPROF_LOG", "debug")  # raises internal errors
    request.addfinalizer(gc.enable)
    old, new = NUMBERS[place]
    text = next(text for text in (WHOLE, GPU, KINETO) if old in text)
    parts = text.split(old)
    for at, cut in matrix({"first": 1, "middle": max(len(parts) // 2, 1), "last": len(parts) - 1}.items(), ("last", len(parts) - 1)):
        pathlib.Path("t.json").write_bytes(old.join(parts[:cut]) + new.replace(b"%s", number) + old.join(parts[cut:]))
        pathlib.Path("other.json").write_bytes(text.replace(b'"baseTimeNanoseconds": 1793664', b'"baseTimeNanoseconds": 1793663'))
        shutil.copy("t.json", PART)
        run_all_commands((at,), f"whole-{at}.json", *matrix(["12"], "1"))


@pytest.mark.parametrize("command", [["events", "t.json"], ["top", "t.json"], ["check", "t.json"], ["env"], ["ranks", "t.json"],
                                     ["--help"], ["run", "--help"]], ids=" ".join)
def test_reports_a_closed_stdout(command):
    with open("t.json", "w") as file:
        json.dump({"traceEvents": sound()}, file)
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", sys.executable, str(tool.COMMAND), *command], stdin=subprocess.DEVNULL,
                          capture_output=True, env=dict(os.environ, CPROF_LIBRARY=str(support.LIBRARY)), timeout=tool.TIMEOUT_S)
    assert done.returncode == 2 and done.stderr.splitlines()[-1] == b"cprof: stdout is closed", done
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([sys.executable, str(tool.COMMAND), *command], stdin=subprocess.DEVNULL, stdout=full, stderr=subprocess.PIPE,
                                  env=dict(os.environ, CPROF_LIBRARY=str(support.LIBRARY)), timeout=tool.TIMEOUT_S)
        assert done.returncode == 2 and done.stderr.splitlines()[-1] == b"cprof: stdout: No space left on device", done
    if "--help" in command:
        return
    done = subprocess.run(["sh", "-c", '"$@" 2>&-', "sh", sys.executable, str(tool.COMMAND), command[0], "missing.json"], stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=tool.TIMEOUT_S)
    assert done.stdout == b"" and done.returncode == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("command", [["memory-timeline", "t.json", "-o"], ["report", "t.json", "-o"], ["merge", "t.json", "t.json", "-f", "-o"]], ids=" ".join)
def test_names_an_output_that_cannot_be_written(command, tmp_path):
    with open("t.json", "w") as file:
        json.dump({"traceEvents": sound()}, file)
    output = "missing/out.html"
    assert tool.refused(tool.cprof(*command, output), output, "No such file")
    if command[0] != "merge":
        os.symlink("/dev/full", "full.html")
        assert tool.refused(tool.cprof(*command, "full.html"), "full.html", "No space left")
    assert sorted(os.listdir()) == sorted({"t.json", *(name for name in os.listdir() if name == "full.html")})


@pytest.mark.parametrize("command", [["memory-timeline", "-o"], ["report", "-o"], ["stacks", "-o"], ["merge", "--force", "-o"]], ids=lambda c: c[0])
def test_never_overwrites_the_input_trace(command):
    with open("t.json", "w") as file:
        json.dump({"traceEvents": sound()}, file)
    os.link("t.json", "same.json")
    os.symlink("t.json", "link.json")
    before = open("t.json").read()
    for name in ("t.json", "./same.json", "link.json"):
        assert tool.refused(tool.cprof(*command, name, "t.json"), name, "is the trace itself")
    assert open("t.json").read() == before and not os.path.islink("t.json")
    if command[0] == "merge":
        assert tool.refused(tool.cprof(*command, "-", "t.json"), "-: a merged trace is a file")
    assert sorted(os.listdir()) == ["link.json", "same.json", "t.json"]


def test_names_the_cut_in_a_trace_without_spans():
    with open("t.json", "w") as file:
        file.write('{"traceEvents": [\n{"ph": "M", "name": "process_name", "pid": 1, "tid": 1, "args": {"name": "x"}},\n{"ph": "X", "na')
    assert tool.refused(tool.cprof("top", "t.json"), "t.json: holds no operator, call or kernel; ends in the middle, at byte ")


def test_prints_version_and_refuses_unknown_options():
    said = tool.cprof("--version")
    assert said.rc == 0 and re.fullmatch(r"cprof \d+\.\d+\.\d+\n", said.out)
    assert tool.refused(tool.cprof("top", "--nosuch", "t.json"), "cprof: top: unrecognized arguments: --nosuch (cprof top --help shows how)")
    assert tool.refused(tool.cprof("run", "--no-active", "true"), "cprof: run: unrecognized arguments: --no-active (cprof run --help shows how)")
    assert tool.refused(tool.cprof("--nosuch"), "cprof: unrecognized arguments: --nosuch (cprof --help shows how)")


@pytest.mark.parametrize("command", [["top"], ["top", "--by", "device"], ["top", "--by", "step"], ["memory-timeline", "-o", "out.json"],
                                     ["memory"], ["stacks"]], ids=" ".join)
def test_counts_events_without_a_usable_time(command, tmp_path, monkeypatch):
    """Every sub-command that adds up times counts the events it leaves out."""
    monkeypatch.chdir(tmp_path)
    path = tool.write(tmp_path / "t.json", [
        tool.span("ProfilerStep#0", 0.0, 100.0, cat="user_annotation"), tool.span("aten::mm", 10.0, 20.0, Call_stack="a.py(1): f;"),
        tool.memory(15.0, 64, 1), tool.span("aten::mm", "soon", 20.0), tool.span("aten::mm", 40.0, None)])
    result = tool.cprof(*command, path)
    assert result.rc == 0 and "2 events without a usable time are left out" in result.err


def test_refuses_sums_over_64_bits(tmp_path):
    trace = tool.write(tmp_path / "t.json", [tool.memory(float(at), 4 * 10**18, 1) for at in range(3)] + [tool.span("aten::mm", 0.0, 5.0)])
    for command in (["top"], ["top", "--by", "category"], ["memory"], ["memory-timeline", "-o", tmp_path / "t.html"]):
        tool.refused(tool.cprof(*command, trace), str(trace), "holds numbers whose sum is more than 64 bits")
