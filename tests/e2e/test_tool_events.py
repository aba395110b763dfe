# SPDX-License-Identifier: Apache-2.0
"""The filters of `cprof events`, and what all sub-commands share: help, closed pipes, ^C, the progress line, no needless imports."""

import ast
import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

import support
import tool
import cprof
from cprof.tool import COMMANDS


def names(trace, *args):
    """Names of the events that pass the filters."""
    result = tool.cprof("events", trace, *args)
    found = [json.loads(line)["name"] for line in result.out.splitlines()]
    assert result.rc == 0 and result.err == ("" if found else f"cprof: {trace}: no event matches\n"), result.err
    return found


@pytest.fixture
def trace(tmp_path):
    thread = {"ph": "M", "name": "thread_name", "pid": 5000, "tid": 5001, "ts": 0, "args": {"name": "thread 5001 (autograd)"}}
    return tool.write(tmp_path / "t.json.gz", [
        thread,
        tool.span("ProfilerStep#3", 0.0, 100.0, cat="user_annotation"), tool.span("ProfilerStep#4", 100.0, 100.0, cat="user_annotation"),
        tool.span("aten::mm", 10.0, 5.0), tool.span("aten::add", 110.0, 5.0, tid=5001),
        tool.span("cudaLaunchKernel", 11.0, 2.0, cat="cuda_runtime", correlation=7),
        tool.span("gemm", 120.0, 2.0, cat="kernel", pid=1, tid=7, device=1, correlation=7),
        tool.memory(12.0, 8, 1, device=1, index=0)])


@pytest.mark.parametrize("args, expected", [
    ([], ["thread_name", "ProfilerStep#3", "ProfilerStep#4", "aten::mm", "aten::add", "cudaLaunchKernel", "gemm", "[memory]"]),
    (["--name", "aten::*"], ["aten::mm", "aten::add"]),
    (["--name", "aten::m?", "--name", "gemm"], ["aten::mm", "gemm"]),
    (["--category", "kernel", "--category", "cuda_runtime"], ["cudaLaunchKernel", "gemm"]),
    (["--step", "3"], ["ProfilerStep#3", "aten::mm", "cudaLaunchKernel", "gemm", "[memory]"]),
    (["--step", "4"], ["ProfilerStep#4", "aten::add"]),
    (["--device", "cuda"], ["gemm", "[memory]"]),
    (["--device", "cuda:0"], ["[memory]"]),
    (["--device", "cpu", "--category", "cpu_op"], ["aten::mm", "aten::add"]),
    (["--thread", "5001", "--category", "cpu_op"], ["aten::add"]),
    (["--thread", "*autograd*"], ["thread_name", "aten::add"]),
    (["--name", "none"], []),
    (["--name", "[memory]"], ["[memory]"]),
    (["--name", "[gm]e*"], ["gemm"]),
])
def test_filters_select_events(args, expected, trace):
    assert names(trace, *args) == expected
    given = {}
    for option, value in zip(args[::2], args[1::2]):
        given.setdefault(option[2:], []).append(int(value) if option == "--step" else value)
    assert [event["name"] for event in cprof.events(trace, **given)] == expected
    assert [event["name"] for event in cprof.events(trace, **{key: of[0] for key, of in given.items() if len(of) == 1},
                                                    **{key: tuple(of) for key, of in given.items() if len(of) > 1})] == expected


@pytest.mark.parametrize("key", ["name", "category", "step", "device", "thread"])
def test_empty_filter_matches_nothing(key, trace):
    assert list(cprof.events(trace, **{key: []})) == [] and list(cprof.events(trace, **{key: ()})) == []


def test_refuses_bad_filters(trace):
    tool.refused(tool.cprof("events", trace, "--step", "9"), "no step 9: it holds 3, 4")
    tool.refused(tool.cprof("events", trace, "--device", "tpu"), "cpu, cuda or cuda:N")
    for pipe, *option in (("-", "--step", "3"), ("/dev/stdin", "--step", "3"), ("/dev/stdin", "--thread", "*grad*")):
        tool.refused(tool.cprof("events", pipe, *option, stdin=trace.read_bytes()), f"cprof: {pipe}: is read twice", "stdin and pipes cannot be")
    assert tool.cprof("events", "-", "--thread", "5001", stdin=trace.read_bytes()).out == tool.cprof("events", trace, "--thread", "5001").out != ""
    with pytest.raises(ValueError, match="no step 9: it holds 3, 4"):
        next(cprof.events(trace, step=9))
    with pytest.raises(ValueError, match="step 'last': take a number"):
        next(cprof.events(trace, step="last"))
    os.mkfifo(trace.parent / "fifo")  # nobody writes to the FIFO: the command must not open it
    with pytest.raises(ValueError, match="fifo: is read twice"):
        next(cprof.events(trace.parent / "fifo", step=3))


def test_accepts_a_step_as_text(trace):
    assert list(cprof.events(trace, step="3")) == list(cprof.events(trace, step=3)) != []


def test_help_lists_the_commands():
    shown = tool.cprof("--help")
    assert shown.rc == 0 and all(f"    {command}" in shown.out for command in COMMANDS)
    assert tool.cprof().out == shown.out
    for command in ("top", "events", "check", "stacks", "memory-timeline"):
        assert tool.cprof(command, "--help").out.startswith(f"usage: cprof {command} ")


def test_runs_as_a_python_module(trace):
    done = subprocess.run([sys.executable, "-m", "cprof", "events", str(trace), "--name", "gemm"], capture_output=True, text=True,
                          env=dict(os.environ, PYTHONPATH=str(tool.ROOT / "scripts/python")), timeout=tool.TIMEOUT_S)
    assert done.returncode == 0 and json.loads(done.stdout)["name"] == "gemm"


def large(folder, n=200_000):
    """A trace that takes a while to read."""
    path = folder / "large.json"
    line = json.dumps(tool.span("aten::add", 1.0, 1.0)) + ",\n"
    path.write_text('{"traceEvents": [\n' + line * n + "{}]}")
    return path


def test_exits_quietly_when_the_pipe_closes(tmp_path):
    process = subprocess.Popen([sys.executable, str(tool.COMMAND), "events", str(large(tmp_path, 20_000))], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait(tool.TIMEOUT_S) == 141
    process.stderr.close()


def test_exits_quietly_on_control_c(tmp_path):
    process = subprocess.Popen([sys.executable, str(tool.COMMAND), "events", str(large(tmp_path))], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    process.stdout.close()
    assert process.stderr.read() == b"" and process.wait(tool.TIMEOUT_S) in (130, 141)
    process.stderr.close()


def test_exits_quietly_on_control_c_during_imports(tmp_path):
    """A file named argparse.py takes the place of the module and sleeps, so that the signal comes during the imports."""
    (tmp_path / "argparse.py").write_text(f"import time\nopen({str(tmp_path / 'here')!r}, 'w').close()\ntime.sleep(60)\n")
    with subprocess.Popen([sys.executable, str(tool.COMMAND), "check", "t.json"], env=dict(os.environ, PYTHONPATH=str(tmp_path)),
                          stderr=subprocess.PIPE) as process:
        support.wait_until(lambda: (tmp_path / "here").exists(), "the command to begin")
        process.send_signal(signal.SIGINT)
        assert process.wait(tool.TIMEOUT_S) == -signal.SIGINT and process.stderr.read() == b""


def test_shows_progress_on_a_terminal(tmp_path):
    """The progress line appears after a second: here on a slow pipe."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen([sys.executable, str(tool.COMMAND), "check", "-q", "-"], stdin=subprocess.PIPE,
                               stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    event = json.dumps(tool.span("aten::add", 1.0, 1.0)).encode()
    process.stdin.write(b"[" + event)
    deadline = time.monotonic() + tool.TIMEOUT_S
    while not select.select([ours], [], [], 0.2)[0]:  # the command may start slowly
        assert time.monotonic() < deadline, "nothing was shown"
        process.stdin.write(b"," + event)
        process.stdin.flush()
    process.stdin.write(b"]")
    process.stdin.close()
    assert process.wait(tool.TIMEOUT_S) == 0
    shown = ""
    with contextlib.suppress(OSError):  # the other end of the terminal is closed
        while not shown.endswith("\r\x1b[K"):
            shown += os.read(ours, 1000).decode()
    os.close(ours)
    assert "MB" in shown and shown.endswith("\r\x1b[K"), shown


def test_importing_cprof_loads_no_reader():
    """A program that only marks steps must not load the command's modules."""
    code = "import sys; sys.path.insert(0, sys.argv[1]); import cprof; print([m for m in sys.modules if 'cprof.tool' in m])"
    assert subprocess.run([sys.executable, "-c", code, str(tool.ROOT / "scripts/python")], capture_output=True,
                          text=True, check=True).stdout == "[]\n"


def test_source_parses_as_python_3_8():
    for path in sorted((tool.ROOT / "scripts/python/cprof").rglob("*.py")) + [tool.COMMAND]:
        ast.parse(path.read_text(), str(path), feature_version=(3, 8))


@pytest.mark.parametrize("command", [("events",), ("top",), ("merge", "--output", "m.json")])
def test_counts_elements_that_are_no_events(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tool.write(tmp_path / "t.json", [1, tool.span("aten::mm", 10.0, 5.0), "two"])
    result = tool.cprof(*command, path)
    assert result.rc == 0 and f"{path}: 2 elements of traceEvents are no objects: left out" in result.err


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_lines_are_json_in_any_encoding(tmp_path, encoding):
    trace = tool.write(tmp_path / "t.json", [tool.span("\u00e9\U0001f600", 0.0, 5.0)])
    result = tool.cprof("events", trace, env={"PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"})
    assert json.loads(result.out)["name"] == "\u00e9\U0001f600"


def test_refuses_a_closed_stdin():
    done = subprocess.run(["sh", "-c", '"$0" "$@" <&-', sys.executable, str(tool.COMMAND), "events", "-"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", "cprof: -: stdin is closed\n")
