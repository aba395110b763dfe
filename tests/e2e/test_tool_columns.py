# SPDX-License-Identifier: Apache-2.0
"""The commands that read traces keep columns of numbers. Large columns go to a temporary file, which must not change any output."""

import contextlib
import gc
import io
import json
import os
import random
import re
import subprocess
import sys
import time

import pytest

import tool
from cprof.tool import columns, main, spans


def said(*args):
    """The command's exit code, stdout and stderr."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main([str(arg) for arg in args])
    return code, out.getvalue(), err.getvalue()


@pytest.fixture
def tiny(monkeypatch, request):
    """Sets limits so small that nearly all columns go to the file."""
    request.addfinalizer(gc.enable)  # the command disables it
    def use():
        monkeypatch.setattr(columns, "LIMIT", 2000)
        monkeypatch.setattr(columns, "WORTH", 8)
        monkeypatch.setattr(spans, "SORTED_AT_ONCE", 37)
        monkeypatch.setattr(spans, "AT_A_TIME", 16)
    return use


def training(path, seed=1):
    """Nested operators on two threads, with calls, kernels, arrows, memory and stacks. Seed 1: in order of their ends; else in any order."""
    choose = random.Random(seed)
    events, at, correlation = [], 1000.0, 1
    for step in range(30):
        begin = at
        for n in range(6):
            inside = []
            for m in range(3):
                correlation += 1
                inside.append(tool.span(f"aten::op{m}", at + 2 + 10 * m, 6.5, tid=5000 + n % 2, External_id=correlation, Sequence_number=correlation,
                                        Call_stack=f"a.py({m}): f;b.py({n}): g;", Input_Dims=[[m, n]], flops=m, Module_Hierarchy=f"Net.{n % 2}"))
                inside.append(tool.span("cudaLaunchKernel", at + 3 + 10 * m, 1.25, cat="cuda_runtime", tid=5000 + n % 2, External_id=correlation,
                                        correlation=correlation))
                inside.append(tool.span("gemm", at + 5 + 10 * m, 3, cat="kernel", pid=0, tid=7, External_id=correlation, correlation=correlation,
                                        device=0, stream=7))
                inside += [{"ph": ph, "id": correlation, "pid": 5000 * (ph == "s"), "tid": 7, "ts": at + 3, "cat": "ac2g", "name": "ac2g", "bp": "e"}
                           for ph in "sf"]
                inside.append(tool.memory(at + 3.5 + 10 * m, 64 * (m + 1), correlation, tid=5000 + n % 2, total=100))
                inside.append(tool.memory(at + choose.choice([4.5, 36]) + 10 * m, -64 * (m + 1), correlation, tid=5000 + n % 2, total=36))
            inside.append(tool.span(f"outer{n}", at, 33, tid=5000 + n % 2, External_id=10000 + correlation))
            if seed > 1:
                choose.shuffle(inside)
            events += inside
            at += 40
        events.append(tool.span(f"ProfilerStep#{step}", begin, at - begin, cat="user_annotation", tid=9))
    events.append({"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "ts": 0.0, "args": {"name": "stream 7"}})
    return tool.write(path, events, cprof={"lost": {"total": 0}})


@pytest.mark.parametrize("args", [["top", "--from-trace"], ["top", "--json", "--group-by-input-shape"], ["top", "--group-by-stack-n", "2"],
                                  ["top", "--by", "step"], ["top", "--by", "module"], ["top", "--by", "category"], ["check", "--json"], ["stacks"],
                                  ["stacks", "--metric", "self_cuda_time_total"], ["stacks", "-o", "out.html"], ["report", "-o", "out.html"],
                                  ["memory-timeline", "-o", "out.html"], ["memory-timeline", "-o", "out.raw.json"], ["memory-timeline", "-o", "out.json"]],
                         ids=" ".join)
@pytest.mark.parametrize("seed", [1, 2])
def test_spilling_to_a_file_changes_no_output(args, seed, tiny, tmp_path):
    path = training(tmp_path / "t.json", seed)
    results = []
    for use in (lambda: None, tiny):
        use()
        results.append(said(args[0], path, *args[1:]))
        results[-1] += tuple(open(name).read() for name in sorted(os.listdir()) if name.startswith("out"))
    assert results[0] == results[1] and results[0][0] in (0, 1)
    assert len("".join(map(str, results[0]))) > 200


def test_spilling_changes_nothing_for_real_traces(our_trace, torch_run, tiny):
    paths = [our_trace, *sorted(torch_run.glob("*.json"))[:3]]
    commands = [("top", "--from-trace", path) for path in paths] + [("check", path) for path in paths]
    before = [said(*command) for command in commands]
    tiny()
    assert [said(*command) for command in commands] == before


def test_trims_many_arrays_quickly():
    """A trace of many threads has many arrays. trim() must not visit each of them in each call."""
    one = columns.Columns()
    for _ in range(20000):
        one.new("q").append(1)
    begin = time.process_time()
    for _ in range(20000):
        one.trim()
    assert time.process_time() - begin < 5, "visiting each array takes half a minute"


def test_spilled_numbers_read_back(monkeypatch):
    monkeypatch.setattr(columns, "LIMIT", 1000)
    monkeypatch.setattr(columns, "WORTH", 8)
    one = columns.Columns()
    arrays = [one.new(typecode) for typecode in "qib"]
    for n in range(10000):
        for values in arrays:
            values.append(n % 100 - 50)
        if n % 7 == 0:
            one.trim()
            assert sum(len(values) * values.itemsize for values in arrays) <= 1000 + 7 * 13
    assert [one.length(values) for values in arrays] == [10000] * 3
    one.finish()
    for values in arrays:
        whole = one.whole(values)
        assert not isinstance(whole, type(values)), "the column must be in the file"
        assert list(whole) == [n % 100 - 50 for n in range(10000)]
        whole[5000] = 77
        columns.forget()
        assert whole[5000] == 77, "a written value must stay"


def test_pages_of_arrays_are_freed_after_their_columns_are_gone(monkeypatch):
    """Readers keep the arrays and drop the object that made them."""
    monkeypatch.setattr(columns, "LIMIT", 0)

    def made():
        one = columns.Columns()
        numbers = one.new("q")
        numbers.frombytes(bytes(8 << 20))
        one.trim()
        one.finish()
        return one.whole(numbers)

    def resident():
        return int(re.search(r"RssFile:\s+(\d+) kB", open("/proc/self/status").read())[1]) << 10
    before, numbers = resident(), made()
    assert not any(numbers)  # reads each page
    assert resident() - before > 6 << 20
    columns.forget()
    assert resident() - before < 2 << 20


def test_full_disk_keeps_columns_in_memory(tiny, tmp_path, monkeypatch):
    path = training(tmp_path / "t.json")
    before = said("top", "--from-trace", path)
    tiny()

    def full(*_, **__):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(columns.tempfile, "TemporaryFile", full)
    assert said("top", "--from-trace", path) == before


@pytest.mark.parametrize("args", [["top", "--from-trace"], ["top", "--group-by-stack-n", "2"], ["top", "--by", "module"], ["stacks"], ["check"],
                                  ["memory-timeline", "-o", "out.raw.json"]], ids=" ".join)
def test_memory_does_not_grow_with_the_trace(args, tmp_path):
    """Five times the trace takes less than 4 MB more. Without the file, the columns of the difference would take about 6 MB."""
    peaks = []
    lines = json.loads(training(tmp_path / "t.json").read_text())["traceEvents"]
    text = ",\n".join(json.dumps(event) for event in lines)
    for times in (8, 40):
        path = tmp_path / f"{times}.json"
        path.write_text('{"traceEvents": [\n' + ",\n".join([text] * times) + "\n]}")
        code = ("import re, sys\nfrom cprof.tool import columns, main, spans\ncolumns.LIMIT, spans.SORTED_AT_ONCE, spans.AT_A_TIME = 1 << 17, 1 << 11, 1 << 10\n"
                "main(sys.argv[1:])\n"
                "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read()).group(1))")
        done = subprocess.run([sys.executable, "-c", code, args[0], str(path), *args[1:]], env=dict(os.environ, PYTHONPATH=str(tool.ROOT / "scripts/python")),
                              capture_output=True, text=True, timeout=tool.TIMEOUT_S)
        assert done.returncode == 0, done.stderr
        peaks.append(int(re.search(r"(\d+)\s*$", done.stdout).group(1)))
    print("PEAKS", args, peaks)
    assert peaks[1] - peaks[0] < 4000, peaks
