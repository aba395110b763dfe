# SPDX-License-Identifier: Apache-2.0
"""`cprof top` and `cprof stacks`, compared with torch.profiler's tables and stacks of the same run, with slow sums over a trace of
cprof's, and with small traces of known sums. Also what they refuse."""

import csv
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import consumers
import cprof
import support
import tool
from torch_runs import LOOPBACK


# ---- against torch ----

NUMBER = re.compile(r"-?\d+\.\d+")


def same_table(ours, torchs):
    """Compares line by line. Numbers may differ by one in the last digit, since torch adds up floats."""
    ours, torchs = ours.splitlines(), torchs.splitlines()
    assert len(ours) == len(torchs)
    for mine, other in zip(ours, torchs):
        assert NUMBER.sub("#", mine) == NUMBER.sub("#", other)
        for a, b in zip(NUMBER.findall(mine), NUMBER.findall(other)):
            assert abs(float(a) - float(b)) <= 1.01 * 10.0**-len(b.partition(".")[2]), (mine, other)
    return True


def in_order_of_columns(table):
    """Swaps the last two columns of torch's table: torch prints FLOPs under Source Location and the stack under FLOPs."""
    lines = table.splitlines()
    columns = [(found.start(), found.end()) for found in re.finditer("-+", lines[0])]
    (first, end), (last, _) = columns[-2:]
    titles, width = lines[1], end - first
    assert titles[first:end].strip() == "Source Location" and titles[last:].strip() == "Total MFLOPs"
    for at, line in enumerate(lines[3:lines.index(lines[0], 3)], 3):
        flops, frame = line[first:end].strip(), line[last:].strip()
        lines[at] = f"{line[:first]}{frame:<{width}}  {flops:>12}  "
    return "\n".join(lines) + "\n"


CASES = {"plain": {}, "sorted": {"sort_by": "self_cpu_time_total", "row_limit": 7},
         "memory": {"sort_by": "self_cpu_memory_usage", "row_limit": -1}, "shapes": {"sort_by": "count"},
         "stacks": {"row_limit": 50}}


@pytest.mark.parametrize("functions", ["", "functions."], ids=["", "functions"])
@pytest.mark.parametrize("trace, case", [("plain", case) for case in ("plain", "sorted", "memory", "shapes")] +
                         [("stack", case) for case in CASES])
def test_tables_equal_torchs(torch_run, trace, case, functions):
    theirs = torch_run / f"{trace}.{case}.{functions}txt"
    if not theirs.exists() and not functions:
        pytest.skip("this torch has no table without Python functions (2.15 is the first that does)")
    group = {"shapes": {"group_by_input_shape": True}, "stacks": {"group_by_stack_n": 4}}.get(case, {})
    averages = cprof.key_averages(torch_run / f"{trace}.json", **group, include_python_functions=bool(functions))
    table = averages.table(**CASES[case])
    assert "MFLOPs" in table and "KB" in table
    assert same_table(table, in_order_of_columns(theirs.read_text()) if case == "stacks" else theirs.read_text())


def test_shows_python_functions_on_request(torch_run, tmp_path):
    args = "top", torch_run / "stack.json", "--row-limit", -1, "--json"
    plain, all_rows = ({row["name"]: row for row in json.loads(tool.cprof(*args, *more).out)["rows"]}
                       for more in ((), ("--include-python-functions",)))
    assert "nn.Module: Linear_0" in all_rows and len(plain) > 20
    functions = {e["name"] for e in cprof.events(torch_run / "stack.json") if e.get("cat") == "python_function"}
    assert set(all_rows) - set(plain) == functions and all(all_rows[name] == row for name, row in plain.items())
    only = tool.write(tmp_path / "t.json", [tool.span("train.py(9): main", 0.0, 10.0, cat="python_function")])
    tool.refused(tool.cprof("top", only), "holds no operator")
    assert "train.py(9): main" in tool.cprof("top", only, "--include-python-functions").out


def test_command_prints_the_same_as_python(torch_run):
    result = tool.cprof("top", torch_run / "plain.json", "--torch", "--sort-by", "self_cpu_time_total", "--row-limit", 7)
    assert result.rc == 0 and result.err == ""
    assert result.out == cprof.key_averages(torch_run / "plain.json").table("self_cpu_time_total", 7)


GLOO = """
import sys, torch, torch.distributed as dist
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
with torch.profiler.profile(profile_memory=True) as prof:
    for _ in range(3):
        dist.all_reduce(torch.ones(1 << 16))
        dist.broadcast(torch.ones(9), 0, async_op=True).wait()
        torch.ones(64, 64).mm(torch.ones(64, 64))
prof.export_chrome_trace(sys.argv[1])
print(prof.key_averages().table(row_limit=-1), end="")
dist.destroy_process_group()
"""


def test_tables_with_transfers_equal_torchs(torch_run, tmp_path):
    """To torch the ranges around transfers are asynchronous: their time does not count in the sum."""
    path = tmp_path / "t.json"
    done = subprocess.run([sys.executable, "-c", GLOO, str(path)], env=dict(os.environ, **LOOPBACK), capture_output=True, text=True,
                          timeout=tool.TIMEOUT_S)
    assert done.returncode == 0 and torch_run, done.stderr
    table = cprof.key_averages(path).table(row_limit=-1)
    assert "gloo:all_reduce" in table
    assert same_table(table, done.stdout[done.stdout.index("---"):])


DUPLICATE = """
import sys, torch
x = torch.ones(8, 8)
with torch.profiler.profile(with_flops=True, record_shapes=True, with_stack=len(sys.argv) > 2) as prof:
    torch.ops.aten.mul.Scalar(x, 2.0)
    torch.mul(x, x)
prof.export_chrome_trace(sys.argv[1])
print(*(row.flops for row in prof.key_averages() if row.key == "aten::mul"))
"""


@pytest.mark.parametrize("stack", [0, 1])
def test_counts_flops_of_nested_same_operators_once(stack, torch_run, tmp_path):
    path = tmp_path / "t.json"
    done = subprocess.run([sys.executable, "-c", DUPLICATE, str(path)] + ["stack"] * stack, capture_output=True, text=True,
                          timeout=tool.TIMEOUT_S)
    assert done.returncode == 0 and torch_run, done.stderr
    rows = cprof.key_averages(path, group_by_stack_n=stack)
    assert [sum(row.flops for row in rows if row.key == "aten::mul")] == [int(n) for n in done.stdout.split()]


def test_counts_nested_flops_once_in_our_trace(torch_run, tmp_path):
    code = ("import torch\nx = torch.ones(8, 8)\noptimizer = torch.optim.SGD([torch.nn.Parameter(x)], lr=0.1)\n"
            "for _ in range(4):\n    torch.ops.aten.mul.Scalar(x, 2.0)\n    torch.mul(x, x)\n    optimizer.step()\n")
    result = support.run([sys.executable, "-c", code], tmp_path, ACTIVE=2, WITH_FLOPS=1)
    assert result.rc == 0 and torch_run and len(result.traces) == 1, result.err
    support.load(result.traces[0])  # also compares the table beside the trace with it
    [row] = [row for row in cprof.key_averages(result.traces[0]) if row.key == "aten::mul"]
    assert (row.count, row.flops) == (4, 256)


def test_stacks_equal_torchs(torch_run, tmp_path):
    out = tmp_path / "out.stacks"
    assert tool.cprof("stacks", torch_run / "stack.json", "-o", out).rc == 0
    # torch truncates floats: our 6 us may be its 5, and a stack of 1 us may be missing there.
    theirs = iter([line.rpartition(" ") for line in (torch_run / "stack.stacks").read_text().splitlines()])
    expected, same = next(theirs), 0
    for stack, _, value in (line.rpartition(" ") for line in out.read_text().splitlines()):
        if expected is not None and stack == expected[0] and int(value) - int(expected[2]) in (0, 1):
            expected, same = next(theirs, None), same + 1
        else:
            assert value == "1", (stack, value, expected)
    assert expected is None and same > 100
    tool.refused(tool.cprof("stacks", torch_run / "plain.json"), "plain.json", "CPROF_WITH_STACK=1")
    tool.refused(tool.cprof("stacks", torch_run / "stack.json", "--metric", "self_cuda_time_total"), "on a GPU")


def test_reads_modules_of_python_functions(torch_run):
    rows = json.loads(tool.cprof("top", torch_run / "stack.json", "--by", "module", "--json").out)["rows"]
    names = [row["module"] for row in rows]
    assert {"Sequential_0", "Sequential_0.Conv2d_0", "Sequential_0.Linear_0"} <= set(names)
    total = sum(row.self_cpu_time_total for row in cprof.key_averages(torch_run / "stack.json", include_python_functions=True))
    assert sum(row["self_cpu_time_total"] for row in rows) == pytest.approx(total)


# ---- a trace of cprof's ----

def slow_sums(path):
    """{name: [count, total, self]} in nanoseconds, by a comparison of all pairs of spans."""
    sums = {}
    spans = [(e["tid"], e["ts"], round(e["ts"] * 1000), round(e["ts"] * 1000) + round(e["dur"] * 1000), e["name"])
             for e in cprof.events(path) if e["ph"] == "X" and not e["name"].startswith("ProfilerStep")]
    for tid, _, start, end, name in spans:
        if name in ("aten::is_leaf", "aten::output_nr", "aten::_version"):
            continue
        inside = [one for one in spans if one[0] == tid and start <= one[2] and one[3] <= end and one[2:4] != (start, end)]
        covered, last = 0, start
        for _, _, begin, finish, _ in sorted(inside, key=lambda one: (one[2], -one[3])):
            if finish > last:  # outermost spans only
                covered += finish - begin
                last = finish
        row = sums.setdefault(name, [0, 0, 0])
        row[0] += 1
        row[1] += end - start
        row[2] += end - start - covered
    return sums


def test_sums_of_our_trace_equal_a_slow_count(our_trace):
    sums = slow_sums(our_trace)
    rows = {row.key: row for row in cprof.key_averages(our_trace) if row.key not in ("ProfilerStep*", "[memory]")}
    # cprof counts an operator and its only child of the same name once, as torch does.
    alone = {name for name in sums if name in rows and rows[name].count == sums[name][0]}
    assert len(alone) > 20 and set(rows) == set(sums)
    for name in alone:
        assert [rows[name].count, rows[name].cpu_ns, rows[name].self_cpu_ns] == sums[name], name


def test_steps_on_their_own_row_hold_operators(our_trace):
    """A step's self time is the time that no span of its thread covers."""
    rows = {row.key: row for row in cprof.key_averages(our_trace)}
    step = rows["ProfilerStep*"]
    assert step.count == 2 and 0 <= step.self_cpu_ns < step.cpu_ns
    by_step = json.loads(tool.cprof("top", our_trace, "--by", "step", "--json").out)["rows"]
    assert [row["step"] for row in by_step if row["step"] != "(outside)"] == ["ProfilerStep#1", "ProfilerStep#2"]
    for row in by_step[:2]:
        assert row["self_cpu_time_total"] == pytest.approx(row["duration"], rel=0.02)
    assert step.cpu_time_total == pytest.approx(sum(row["duration"] for row in by_step[:2]))


def test_steps_of_our_trace_name_their_thread(our_trace):
    """Steps name the thread that marks them, which also runs all operators here."""
    spans = [e for e in cprof.events(our_trace) if e["ph"] == "X"]
    steps = [e for e in spans if e["name"].startswith("ProfilerStep#")]
    assert len(steps) == 2 and {e["args"]["thread"] for e in steps} == {e["tid"] for e in spans if e["cat"] == "cpu_op"}


def in_our_form(path, events):
    """Writes a trace as cprof does: one event a line, times with three decimals."""
    lines = [re.sub(r'("(?:ts|dur)": )([\d.]+)', lambda m: f"{m[1]}{float(m[2]):.3f}", json.dumps(event)) for event in events]
    path.write_text('{"traceEvents": [\n' + ",\n".join(lines) + "\n]}")
    return path


@pytest.mark.parametrize("write", [tool.write, in_our_form])
@pytest.mark.parametrize("named, other, self_time", [
    (5000, 5, 80.0),   # the named thread, though another one has more spans
    (None, 5, 95.0),   # no thread named, or one without spans: the thread with most spans
    (5002, 5, 95.0),
    (None, 2, 98.0),   # two threads with as many spans: the earlier one
])
def test_step_belongs_to_the_thread_it_names(named, other, self_time, write, tmp_path):
    step = tool.span("ProfilerStep#0", 0.0, 100.0, cat="user_annotation", tid=4194305)
    step["args"] = {} if named is None else {"thread": named}
    path = write(tmp_path / "t.json", [
        step, tool.span("a", 20.0, 10.0), tool.span("b", 40.0, 10.0),
        *(tool.span("other", 10.0 + 10 * i, 1.0, tid=5001) for i in range(other))])
    rows = {row.key: row for row in cprof.key_averages(path)}
    assert rows["ProfilerStep*"].self_cpu_time_total == self_time
    by = json.loads(tool.cprof("top", path, "--by", "step", "--json").out)
    assert by["rows"][0]["self_cpu_time_total"] > 0


@pytest.mark.parametrize("name", ["torch.profiler step ", "ProfilerStep#"])  # as cprof writes them now, and as it did before
@pytest.mark.parametrize("write", [tool.write, in_our_form])
def test_torchs_step_ranges_count_as_ranges(write, name, tmp_path):
    """The program also calls torch.profiler's prof.step(). cprof's steps are the steps; torch's ranges are plain ranges."""
    events = [tool.span(f"ProfilerStep#{n}", 100.0 * n, 100.0, cat="user_annotation", tid=4194305, thread=5000) for n in (1, 2)]
    events += [tool.span(f"{name}{n}", 50.0 + 100.0 * n, 95.0, cat="user_annotation") for n in (1, 2)]
    events += [tool.span("aten::mm", 110.0 + 100.0 * n, 30.0) for n in (0, 1)]
    path = write(tmp_path / "t.json", events)
    rows = {row.key: (row.count, row.cpu_time_total, row.self_cpu_time_total) for row in cprof.key_averages(path)}
    assert rows == {"ProfilerStep*": (2, 200.0, 25.0), "ProfilerStep* (torch.profiler)": (2, 190.0, 160.0), "aten::mm": (2, 60.0, 60.0)}
    steps = json.loads(tool.cprof("top", path, "--by", "step", "--json").out)["rows"]
    assert [(row["step"], row["self_cpu_time_total"], row["duration"], row["count"]) for row in steps] == [
        ("ProfilerStep#1", 100.0, 100.0, 2), ("ProfilerStep#2", 100.0, 100.0, 2)]
    assert "2 and 2 steps" in tool.cprof("compare", path, path).out
    assert [e["name"] for e in cprof.events(path, step=1, name="aten::*")] == ["aten::mm"]


@pytest.mark.parametrize("write", [tool.write, in_our_form])
def test_range_around_steps_is_outside_of_them(write, tmp_path):
    """Such as the range of an epoch or of the training: its self time is the time outside of steps."""
    events = [tool.span(f"ProfilerStep#{n}", 1000.0 + 100 * n, 100.0, cat="user_annotation", tid=4194305, thread=5000) for n in (0, 1)]
    events += [tool.span("epoch", 900.0, 400.0, cat="user_annotation"), tool.span("train", 800.0, 600.0, cat="user_annotation")]
    for n in (0, 1):
        events += [tool.span("aten::mm", 1010.0 + 100 * n, 50.0, **{"External id": 10 + n}),
                   tool.span("gemm", 1030.0 + 100 * n, 40.0, cat="kernel", tid=7, **{"External id": 10 + n})]
    rows = {row.key: (row.cpu_time_total, row.self_cpu_time_total, row.device_time_total, row.self_device_time_total)
            for row in cprof.key_averages(write(tmp_path / "t.json", events)) if row.device_type == "cpu"}
    assert rows == {"ProfilerStep*": (200.0, 100.0, 80.0, 0.0), "aten::mm": (100.0, 100.0, 80.0, 80.0),
                    "epoch": (400.0, 200.0, 80.0, 0.0), "train": (600.0, 200.0, 80.0, 0.0)}


@pytest.mark.parametrize("write", [tool.write, in_our_form])
def test_step_may_cross_the_end_of_a_range(write, tmp_path):
    events = [tool.span(f"ProfilerStep#{n}", 30.0 * n, 30.0, cat="user_annotation", tid=4194305, thread=5000) for n in range(6)]
    events += [tool.span(name, start, length, cat="user_annotation")
               for name, start, length in (("train", 0.0, 200.0), ("epoch", 0.0, 100.0), ("epoch", 100.0, 100.0))]
    rows = {row.key: (row.cpu_time_total, row.self_cpu_time_total) for row in cprof.key_averages(write(tmp_path / "t.json", events))}
    assert rows == {"ProfilerStep*": (180.0, 180.0), "train": (200.0, 0.0), "epoch": (200.0, 20.0)}


@pytest.mark.parametrize("write", [tool.write, in_our_form])
def test_range_around_steps_may_repeat_inside_a_step(write, tmp_path):
    """The inner range of the same name belongs to its step."""
    events = [tool.span(f"ProfilerStep#{n}", 30.0 * n, 30.0, cat="user_annotation", tid=4194305, thread=5000) for n in range(4)]
    events += [tool.span("train", 0.0, 120.0, cat="user_annotation"), tool.span("train", 35.0, 20.0, cat="user_annotation"),
               tool.span("aten::mm", 40.0, 10.0)]
    rows = {row.key: (row.cpu_time_total, row.self_cpu_time_total) for row in cprof.key_averages(write(tmp_path / "t.json", events))}
    assert rows == {"ProfilerStep*": (120.0, 100.0), "train": (140.0, 10.0), "aten::mm": (10.0, 10.0)}


def test_counts_a_range_around_a_real_loop(tmp_path):
    code = ("import torch\nfrom torch.profiler import record_function\nmodel = torch.nn.Linear(8, 8)\n"
            "optimizer = torch.optim.SGD(model.parameters())\nwith record_function('epoch'):\n  for n in range(6):\n"
            "    model(torch.ones(4, 8)).sum().backward()\n    optimizer.step()\n")
    result = support.run([sys.executable, "-c", code], tmp_path, WARMUP=0, ACTIVE=8)
    assert result.rc == 0, result.err
    trace = support.load(result.traces[0])  # compares the table with the trace
    rows = {row.key: row for row in cprof.key_averages(result.traces[0])}
    steps, epoch = rows["ProfilerStep*"], rows["epoch"]
    [around] = support.events(trace, ph="X", name="epoch")
    begin, end = float(around["ts"]), float(around["ts"]) + float(around["dur"])
    inside = [float(e["dur"]) for e in support.events(trace, ph="X", name=re.compile("ProfilerStep#"))
              if begin <= float(e["ts"]) and float(e["ts"]) + float(e["dur"]) <= end]
    assert len(inside) == 5
    assert 0 < steps.self_cpu_time_total < steps.cpu_time_total and steps.cpu_memory_usage != steps.self_cpu_memory_usage
    assert 0 <= epoch.self_cpu_time_total < epoch.cpu_time_total - sum(inside) + 1


def test_counts_both_kinds_of_steps_of_a_run(tmp_path):
    """The table that cprof writes beside the trace counts both kinds as the command does."""
    code = ("import torch\nfrom torch.profiler import record_function\nmodel = torch.nn.Linear(8, 8)\n"
            "optimizer = torch.optim.SGD(model.parameters())\nfor n in range(6):\n"
            "    with record_function(f'ProfilerStep#{n + 7}'):\n"
            "        model(torch.ones(4, 8)).sum().backward()\n        optimizer.step()\n")
    result = support.run([sys.executable, "-c", code], tmp_path, ACTIVE=3)
    assert result.rc == 0 and len(result.traces) == 1, result.err
    for more in ((), ("--from-trace",)):
        rows = {row["name"]: row["count"] for row in json.loads(tool.cprof("top", *result.traces, "--json", *more).out)["rows"]}
        assert rows["ProfilerStep*"] == 3 and rows["ProfilerStep* (torch.profiler)"] in (2, 3, 4)
    trace = support.load(result.traces[0])  # compares the table with the trace
    assert support.step_numbers(trace) == [1, 2, 3]
    assert consumers.tensorboard(result.traces[0])["steps"] == ["1", "2", "3"]
    assert support.events(trace, ph="X", cat="user_annotation", name=re.compile(r"torch\.profiler step \d+$"))


def test_groups_our_trace_by_shape(our_trace):
    rows = [row for row in cprof.key_averages(our_trace, group_by_input_shape=True) if row.key == "aten::addmm"]
    assert {row.input_shapes for row in rows} == {"[[64], [16, 64], [64, 64], [], []]", "[[8], [16, 64], [64, 8], [], []]"}
    assert all(row.count == 2 for row in rows)


def test_adds_up_several_traces(our_trace):
    one = json.loads(tool.cprof("top", our_trace, "--json", "--row-limit", -1).out)
    two = json.loads(tool.cprof("top", our_trace, our_trace, "--json", "--row-limit", -1).out)
    assert two["self_cpu_time_total"] == pytest.approx(2 * one["self_cpu_time_total"]) and one["self_cpu_time_total"] > 0
    assert [row["count"] for row in two["rows"]] == [2 * row["count"] for row in one["rows"]]
    assert two["rows"][0].keys() >= {"name", "self_cpu_time_total", "device_time_total", "cpu_memory_usage", "flops"}


# ---- known sums ----

def gpu_events():
    """Two steps in which an operator launches a kernel. The second kernel takes ten times as long."""
    events = []
    for step, (start, kernel) in enumerate(((1000.0, 5.0), (2000.0, 50.0))):
        events += [
            tool.span(f"ProfilerStep#{step}", start, 500.0, cat="user_annotation", External_id=10 + step),
            tool.span("train", start + 10, 400.0, cat="user_annotation", External_id=20 + step),
            tool.span("aten::linear", start + 20, 100.0, External_id=30 + step),
            tool.span("aten::mm", start + 30, 60.0, External_id=40 + step, flops=2000),
            tool.span("cudaLaunchKernel", start + 40, 10.0, cat="cuda_runtime", External_id=40 + step, correlation=50 + step),
            tool.span("gemm", start + 600, kernel, cat="kernel", pid=0, tid=7, External_id=40 + step, correlation=50 + step,
                      device=0, stream=7),
            tool.span("train", start + 600, kernel, cat="gpu_user_annotation", pid=0, tid=7, External_id=20 + step),
            tool.memory(start + 35, 2048, 1, device=1, index=0, total=2048),
            tool.memory(start + 300, -2048, 1, device=1, index=0),
        ]
    return events


def test_kernels_belong_to_the_operator_that_launched_them(tmp_path):
    path = tool.write(tmp_path / "t.json", gpu_events())
    rows = {(row.key, row.device_type): row for row in cprof.key_averages(path)}

    def times(*key):
        row = rows[key]
        return (row.count, row.self_cpu_time_total, row.cpu_time_total, row.self_device_time_total, row.device_time_total)

    assert times("aten::mm", "cpu") == (2, 100.0, 120.0, 55.0, 55.0)
    assert times("aten::linear", "cpu") == (2, 80.0, 200.0, 0.0, 55.0)
    assert times("train", "cpu") == (2, 600.0, 800.0, 0.0, 55.0)
    assert times("ProfilerStep*", "cpu") == (2, 200.0, 1000.0, 0.0, 55.0)
    assert times("gemm", "cuda") == (2, 0, 0, 55.0, 55.0)
    assert times("cudaLaunchKernel", "cpu") == (2, 20.0, 20.0, 0.0, 0.0)
    assert rows["aten::mm", "cpu"].flops == 4000
    assert rows["aten::mm", "cpu"].self_cuda_memory_usage == 4096 and rows["train", "cpu"].self_cuda_memory_usage == -4096
    table = cprof.key_averages(path).table(sort_by="cuda_time_total")
    assert "Self CPU time total: 1.000ms\nSelf CUDA time total: 55.000us\n" in table
    assert "Total KFLOPs" in table and "CUDA Mem" in table


def transfer_events(name):
    """An operator begins a transfer that outlasts it and launches a kernel. Another transfer runs on a thread of gloo."""
    return [tool.span("ProfilerStep#0", 0.0, 100.0, cat="user_annotation", tid=4194305, thread=5000),
            tool.span("c10d::allreduce_", 10.0, 40.0, External_id=1), tool.span(name, 20.0, 60.0, cat="user_annotation", External_id=2),
            tool.span("aten::copy_", 30.0, 10.0, External_id=3), tool.span(name, 15.0, 70.0, cat="user_annotation", tid=5001, External_id=4),
            tool.span("copy", 50.0, 5.0, cat="kernel", pid=0, tid=7, External_id=2, correlation=9, device=0, stream=7)]


@pytest.mark.parametrize("write", [tool.write, in_our_form])
@pytest.mark.parametrize("name", ["gloo:all_reduce", "mpi:all_reduce", "ucc:all_reduce", "nccl:all_reduce"])
def test_transfer_ranges_hold_no_other_spans(name, write, tmp_path):
    path = write(tmp_path / "t.json", transfer_events(name))
    rows = {row.key: row for row in cprof.key_averages(path)}
    assert {key: (row.count, row.cpu_time_total, row.self_cpu_time_total, row.device_time_total, row.is_async) for key, row in rows.items()} == {
        "ProfilerStep*": (1, 100.0, 60.0, 5.0, False), "c10d::allreduce_": (1, 40.0, 30.0, 5.0, False), name: (2, 130.0, 0.0, 0.0, True),
        "aten::copy_": (1, 10.0, 10.0, 0.0, False), "copy": (1, 0.0, 0.0, 5.0, False)}
    for by, expected in (("step", {"ProfilerStep#0": (100.0, 5.0)}), ("category", {"user_annotation": (60.0, 0.0), "cpu_op": (40.0, 0.0),
                                                                                  "kernel": (0.0, 5.0)})):
        found = json.loads(tool.cprof("top", path, "--by", by, "--json").out)["rows"]
        assert {row[by]: (row["self_cpu_time_total"], row["self_device_time_total"]) for row in found} == expected


@pytest.mark.parametrize("by, expected", [
    ("step", {"ProfilerStep#0": (500.0, 5.0), "ProfilerStep#1": (500.0, 50.0)}),
    ("device", {"CPU": (1000.0, 0), "GPU 0": (0, 55.0)}),
    ("kernel", {"gemm": (0, 55.0)}),
    ("category", {"cpu_op": (180.0, 0), "user_annotation": (800.0, 0), "cuda_runtime": (20.0, 0), "kernel": (0, 55.0),
                  "gpu_user_annotation": (0, 0)}),
])
def test_by_groups_times_as_asked(by, expected, tmp_path):
    path = tool.write(tmp_path / "t.json.gz", gpu_events())
    rows = list(csv.DictReader(io.StringIO(tool.cprof("top", path, "--by", by, "--csv").out)))
    assert {row[by]: (float(row["self_cpu_time_total"]), float(row["self_device_time_total"])) for row in rows} == expected
    assert "55.000us on the GPU (CUDA)" in tool.cprof("top", path, "--by", by).out


@pytest.mark.parametrize("write", [tool.write, in_our_form])
@pytest.mark.parametrize("by, expected", [
    ("step", {"ProfilerStep#0": (100.0, 5), "(outside)": (20.0, 1)}), ("device", {"CPU": (120.0, 6)}),
    ("category", {"user_annotation": (75.0, 1), "cpu_op": (15.0, 1), "cuda_runtime": (30.0, 4)}),
    ("module", {"(outside)": (105.0, 5), "Net.fc1": (15.0, 1)})])
def test_call_without_operator_counts_for_its_surroundings(by, expected, write, tmp_path):
    """One call is directly in the step, one in an operator without a link to it, one on another thread."""
    step = tool.span("ProfilerStep#0", 0.0, 100.0, cat="user_annotation", tid=4194305, thread=5000)
    path = write(tmp_path / "t.json", [
        tool.span("cudaLaunchKernel", 35.0, 3.0, cat="cuda_runtime", External_id=1, correlation=1),
        tool.span("cudaMalloc", 40.0, 2.0, cat="cuda_runtime", correlation=2),
        tool.span("aten::mm", 30.0, 20.0, External_id=1, **{"Module Hierarchy": "Net.fc1"} if by == "module" else {}),
        tool.span("cudaDeviceSynchronize", 60.0, 5.0, cat="cuda_runtime", correlation=3),
        step, tool.span("cudaEventQuery", 200.0, 20.0, cat="cuda_runtime", tid=5001, correlation=4)])
    rows = json.loads(tool.cprof("top", path, "--by", by, "--json").out)["rows"]
    assert {row[by]: (row["self_cpu_time_total"], row["count"]) for row in rows} == expected


@pytest.mark.parametrize("write", [tool.write, in_our_form])
def test_call_may_precede_its_operator_in_the_file(write, tmp_path):
    """In cprof's files the span that ends first comes first. The thread of the operators is the step's."""
    step = tool.span("ProfilerStep#0", 0.0, 100.0, cat="user_annotation", tid=4194305)
    path = write(tmp_path / "t.json", [
        tool.span("cudaLaunchKernel", 35.0, 3.0, cat="cuda_runtime", External_id=1, correlation=1),
        tool.span("aten::mm", 30.0, 20.0, External_id=1), tool.span("aten::add", 60.0, 20.0, External_id=2), step])
    rows = {row.key: row for row in cprof.key_averages(path)}
    assert rows["ProfilerStep*"].self_cpu_time_total == 60.0


def step(number, begin, duration):
    """A step of thread 5000, as cprof writes it."""
    return tool.span(f"ProfilerStep#{number}", begin, duration, cat="user_annotation", tid=4194305, thread=5000)


@pytest.mark.parametrize("by, shown, hidden", [("step", "CPU", "CUDA"), ("device", "CPU", "CUDA"), ("category", "CPU", "CUDA"),
                                               ("kernel", "CUDA", "CPU")])
def test_leaves_out_columns_without_values(by, shown, hidden, tmp_path):
    events = gpu_events() if by == "kernel" else [step(0, 0.0, 100.0), tool.span("aten::mm", 10.0, 20.0)]
    path = tool.write(tmp_path / "t.json", events)
    heads = tool.cprof("top", path, "--by", by).out.splitlines()[0]
    assert f"self {shown}" in heads and f"self {hidden}" not in heads
    assert "NaN" not in tool.cprof("top", path, "--by", by).out


@pytest.mark.parametrize("write", [tool.write, in_our_form])
@pytest.mark.parametrize("operator", [[], [tool.span("aten::mm", 30.0, 20.0, External_id=1)]], ids=["C", "PyTorch"])
def test_calls_without_operators_count_for_their_step(operator, write, tmp_path):
    """As in C++ or JAX: the step has the time of its calls, and of their kernels whenever these run."""
    launched = 70.0 if operator else 40.0
    path = write(tmp_path / "t.json", [step(0, 0.0, 100.0), step(1, 100.0, 100.0), *operator,
                 tool.span("cudaLaunchKernel", launched, 10.0, cat="cuda_runtime", correlation=7),
                 tool.span("cudaLaunchKernel", 120.0, 10.0, cat="cuda_runtime", correlation=8),
                 tool.span("gemm", 150.0, 5.0, cat="kernel", pid=0, tid=7, device=0, correlation=7),
                 tool.span("gemm", 155.0, 50.0, cat="kernel", pid=0, tid=7, device=0, correlation=8)])
    rows = json.loads(tool.cprof("top", path, "--by", "step", "--json").out)["rows"]
    assert {row["step"]: (row["self_cpu_time_total"], row["self_device_time_total"]) for row in rows} == {
        "ProfilerStep#0": (100.0, 5.0), "ProfilerStep#1": (100.0, 50.0)}


@pytest.mark.parametrize("write", [tool.write, in_our_form])
@pytest.mark.parametrize("begin, end", [(-50.0, 450.0), (50.0, 350.0)])
def test_range_around_steps_takes_none_of_their_time(begin, end, write, tmp_path):
    """Such as the range of an epoch."""
    path = write(tmp_path / "t.json", [
        tool.span("epoch", 1000.0 + begin, end - begin, cat="user_annotation"),
        *(step(n, 1000.0 + 100 * n, 100.0) for n in range(4)),
        *(tool.span("aten::mm", 1060.0 + 100 * n, 20.0) for n in range(4)),
        *(tool.span("Optimizer.step#SGD.step", 1090.0 + 100 * n, 11.0, cat="user_annotation") for n in range(4))])
    rows = json.loads(tool.cprof("top", path, "--by", "step", "--json").out)["rows"]
    # The optimizer's last microsecond counts for the step in which it begins.
    assert [(row["step"], row["self_cpu_time_total"]) for row in rows] == [
        ("ProfilerStep#0", 101.0), ("ProfilerStep#1", 100.0), ("ProfilerStep#2", 100.0), ("ProfilerStep#3", 100.0)]


def test_by_module_adds_up_operators(tmp_path):
    events = gpu_events()
    for event in events:
        if event["name"] == "aten::mm":
            event["args"]["Module Hierarchy"] = "Net.fc1"
    path = tool.write(tmp_path / "t.json", events)
    rows = json.loads(tool.cprof("top", path, "--by", "module", "--json").out)["rows"]
    assert rows[0] == {"module": "Net.fc1", "self_cpu_time_total": 100.0, "self_device_time_total": 55.0, "count": 2}


def test_joins_launches_by_nesting_without_ids(tmp_path):
    """Old traces repeat the correlation id as External id, which may also be the id of an unrelated operator."""
    path = tool.write(tmp_path / "t.json", [
        tool.span("aten::detach", 0.0, 5.0, External_id=7), tool.span("aten::copy_", 10.0, 50.0, External_id=2),
        tool.span("cudaMemcpyAsync", 20.0, 10.0, cat="cuda_runtime", External_id=7, correlation=7),
        tool.span("Memcpy HtoD", 40.0, 4.0, cat="gpu_memcpy", pid=0, tid=7, External_id=7, correlation=7)])
    rows = {row.key: row.self_device_time_total for row in cprof.key_averages(path)}
    assert rows == {"aten::detach": 0, "aten::copy_": 4.0, "cudaMemcpyAsync": 0, "Memcpy HtoD": 4.0}


def test_backward_function_has_its_forward_stack(tmp_path):
    """A backward function has the stack of its forward operator."""
    path = tool.write(tmp_path / "t.json", [
        tool.span("aten::mm", 0.0, 10.0, Call_stack="net.py(3): forward;train.py(9): main;", Sequence_number=4,
                  Fwd_thread_id=0),
        tool.span("autograd::engine::evaluate_function: MmBackward0", 20.0, 30.0, tid=5001, Sequence_number=4, Fwd_thread_id=1),
        tool.span("MmBackward0", 22.0, 20.0, tid=5001, Sequence_number=4, Fwd_thread_id=1),
        tool.span("aten::t", 23.0, 5.0, tid=5001)])
    assert tool.cprof("stacks", path).out.splitlines() == [
        "train.py(9):_main;net.py(3):_forward 10", "train.py(9):_main;net.py(3):_forward 15",
        "train.py(9):_main;net.py(3):_forward 5"]


def test_native_frames_do_not_group_stacks(tmp_path):
    path = tool.write(tmp_path / "t.json", [
        tool.span("aten::mm", 0.0, 10.0, Call_stack="at::mm (libtorch_cpu.so);net.py(3): forward;train.py(9): main;"),
        tool.span("aten::add", 20.0, 10.0, Call_stack="at::add (libtorch_cpu.so);main (a.out);")])
    stacks = {row.key: row.stack for row in cprof.key_averages(path, group_by_stack_n=2)}
    assert stacks == {"aten::mm": ["net.py(3): forward", "train.py(9): main"],
                      "aten::add": ["at::add (libtorch_cpu.so)", "main (a.out)"]}
    assert tool.cprof("stacks", path).out.startswith("train.py(9):_main;net.py(3):_forward;at::mm_(libtorch_cpu.so) 10")


def test_stacks_leave_out_recording_frames(tmp_path):
    """Frames of torch's recording are the same below each operator. A stack of nothing else stays as it is."""
    hook = "{0}at::RecordFunction::runStartCallbacks (libtorch_cpu.so);{0}c10::Dispatcher::runRecordFunction (libtorch_cpu.so);"
    path = tool.write(tmp_path / "t.json", [
        tool.span("aten::mm", 0.0, 10.0, Call_stack=hook.format("") + "at::_ops::mm::call (libtorch_cpu.so);net.py(3): forward;"),
        tool.span("aten::add", 20.0, 5.0, Call_stack=hook.format("c10/src/record_function.cpp(7): ") + "net.py(4): forward;"),
        tool.span("aten::sub", 30.0, 4.0, Call_stack="at::RecordFunction::runStartCallbacks (libtorch_cpu.so);"),
        tool.span("aten::div", 40.0, 3.0, Call_stack="at::f (a.so);at::RecordFunction::runStartCallbacks (a.so);b (a.so);")])
    assert tool.cprof("stacks", path).out.splitlines() == [
        "net.py(3):_forward;at::_ops::mm::call_(libtorch_cpu.so) 10", "net.py(4):_forward 5",
        "at::RecordFunction::runStartCallbacks_(libtorch_cpu.so) 4", "b_(a.so);at::RecordFunction::runStartCallbacks_(a.so);at::f_(a.so) 3"]


def test_writes_each_stack_on_one_line(tmp_path):
    """Speedscope's importer, in JavaScript, also ends lines at characters at which Python does not."""
    path = tool.write(tmp_path / "t.json", [
        tool.span("aten::mm", 0.0, 10.0, Call_stack="a b\tc.py(3): f\r\ng\rh\u2028i\u2029j\x85k\x0bl\x0c;näme 名前.py(1): 9 8;")])
    assert tool.cprof("stacks", path).out.splitlines(keepends=True) == ["näme_名前.py(1):_9_8;a_b_c.py(3):_f__g_h_i_j_k_l_ 10\n"]


def test_reads_chromes_stack_frames(tmp_path):
    """Chrome's stackFrames, which spans without a stack in args refer to."""
    events = [dict(tool.span("aten::mm", 0.0, 10.0), sf=3), dict(tool.span("aten::add", 20.0, 5.0), sf="2"),
              dict(tool.span("aten::sub", 30.0, 5.0), sf=9), dict(tool.span("aten::div", 40.0, 5.0), sf=4)]
    frames = {"1": {"name": "train.py(9): main"}, "2": {"name": "net.py(3): forward", "parent": 1},
              "3": {"name": "a;b", "parent": "2"}, "4": {"name": "loop", "parent": 4}}
    result = tool.cprof("stacks", tool.write(tmp_path / "t.json", events, stackFrames=frames)).out.splitlines()
    assert result[:2] == ["train.py(9):_main;net.py(3):_forward;a:b 10", "train.py(9):_main;net.py(3):_forward 5"]
    assert len(result) == 3 and result[2].startswith("loop;loop;")


def test_counts_no_time_of_module_rows(tmp_path):
    """Rows that show a thread's modules add no time. A call of a matrix library has FLOPs."""
    path = tool.write(tmp_path / "t.json", [
        tool.span("aten::mm", 0.0, 10.0, Module_Hierarchy="Net.fc"), tool.span("Net.fc", 0.0, 20.0, cat="nn_module", tid=9),
        tool.span("sgemm_", 1.0, 8.0, cat="library_call", flops=500)])
    rows = {row.key: (row.self_cpu_time_total, row.flops) for row in cprof.key_averages(path)}
    assert rows == {"aten::mm": (2.0, 0), "sgemm_": (8.0, 500)}


def test_stacks_and_flops_have_their_own_columns(tmp_path):
    path = tool.write(tmp_path / "t.json", [tool.span("aten::mm", 0.0, 10.0, flops=1500, Call_stack="net.py(3): forward;train.py(9): main;")])
    lines = cprof.key_averages(path, group_by_stack_n=2).table().splitlines()
    source, flops = lines[1].index("Source Location"), lines[1].index("Total KFLOPs")
    assert [(line[source:flops].strip(), line[flops:].strip()) for line in lines[3:6]] == [
        ("net.py(3): forward", "1.500"), ("train.py(9): main", ""), ("", "")]


# ---- what it refuses ----

@pytest.mark.parametrize("args, said", [
    (["--group-by-input-shape"], "CPROF_RECORD_SHAPES=1"), (["--group-by-stack-n", "2"], "CPROF_WITH_STACK=1"),
    (["--by", "module"], "CPROF_WITH_MODULES=1"), (["--sort-by", "flops"], "CPROF_WITH_FLOPS=1"),
    (["--sort-by", "self_cpu_memory_usage"], "CPROF_PROFILE_MEMORY=1"), (["--by", "step"], "CPROF_STEP"),
    (["--by", "kernel"], "GPU"),
])
def test_names_the_setting_for_missing_data(args, said, tmp_path):
    path = tool.write(tmp_path / "t.json", [tool.span("aten::add", 0.0, 1.0)])
    tool.refused(tool.cprof("top", path, *args), path, said)


def test_python_raises_value_errors(tmp_path):
    path = tool.write(tmp_path / "t.json", [tool.span("aten::add", 0.0, 1.0)])
    with pytest.raises(ValueError, match="CPROF_RECORD_SHAPES=1"):
        cprof.key_averages(path, group_by_input_shape=True)
    with pytest.raises(ValueError, match="cannot sort by 'speed'"):
        cprof.key_averages(path).table(sort_by="speed")
    with pytest.raises(ValueError, match="No such file"):
        next(cprof.events(tmp_path / "none"))


@pytest.mark.parametrize("command", [["top"], ["events"], ["check"], ["stacks"], ["memory-timeline", "-o", "x.html"]])
def test_refuses_bad_input(command, tmp_path):
    garbage = tmp_path / "garbage.json"
    garbage.write_bytes(bytes(range(256)) * 10)
    for path in (garbage, tmp_path / "none.json", tmp_path):
        tool.refused(tool.cprof(*command[:1], path, *command[1:]), path)
    tool.refused(tool.cprof(*command), "no trace was named")
    assert not os.path.exists("x.html")


@pytest.mark.parametrize("args", [["top", "x", "--sort-by", "speed"], ["top", "x", "--row-limit", "-2"], ["nonsense"],
                                  ["top", "x", "--by", "colour"], ["top", "x", "--by", "step", "--group-by-input-shape"]])
def test_refuses_bad_usage(args):
    assert tool.refused(tool.cprof(*args))


@pytest.mark.parametrize("options", [["--sort-by", "count"], ["--include-python-functions"], ["--from-trace"], ["--group-by-input-shape"],
                                     ["--group-by-stack-n", "2"]], ids=" ".join)
def test_refuses_table_options_beside_by(options, tmp_path):
    path = tool.write(tmp_path / "t.json", gpu_events())
    tool.refused(tool.cprof("top", path, "--by", "step", *options), options[0], "plain table")


def test_survives_hostile_events(tmp_path):
    """Fields of any kind: the table has the well-formed events, and a note counts the rest."""
    odd = [{"ph": "X"}, {"ph": "X", "ts": "1", "dur": []}, {"ph": "X", "ts": 1e300, "dur": 1}, {"ph": ["X"]}, {},
           {"ph": "X", "name": ["a"], "cat": {"b": 1}, "ts": 1, "dur": 2, "args": 7, "pid": {}, "tid": None},
           {"ph": "X", "name": "k", "cat": "kernel", "ts": 1, "dur": -5, "args": {"External id": "9" * 30, "correlation": []}},
           {"ph": "i", "name": "[memory]", "ts": 1, "args": {"Bytes": "x"}}, {"ph": "e", "ts": 2}, {"ph": "b", "ts": None},
           {"ph": "X", "name": "op", "cat": "cpu_op", "ts": True, "dur": 1}, 5, None, [{}],
           {"ph": "X", "name": "m", "cat": "cpu_op", "ts": 5, "dur": 5, "args": {"Input Dims": [1, [[2]], "x"], "flops": 1e99,
                                                                                "Call stack": 5, "Sequence number": "a"}}]
    path = tmp_path / "t.json"
    path.write_text(json.dumps({"traceEvents": [tool.span("aten::add", 0, 10)] + odd}))
    result = tool.cprof("top", path)
    assert result.rc == 0 and "aten::add" in result.out and "left out" in result.err
    for args in (["--group-by-input-shape"], ["--by", "device"], ["--by", "category"], ["--compare", path]):
        assert tool.cprof("top", *args, path).rc == 0
    assert tool.cprof("check", path).rc == 1
    assert tool.cprof("events", path, "--name", "*", "--device", "cuda").rc == 0
    tool.refused(tool.cprof("top", tool.write(tmp_path / "e.json", [])), "holds no operator")


@pytest.mark.skipif(not tool.KINETO_TRACES, reason="the traces of real GPUs are not beside this checkout")
@pytest.mark.parametrize("path", tool.KINETO_TRACES, ids=lambda path: path.name)
def test_kernels_of_kineto_traces_have_one_operator(path):
    result = tool.cprof("top", path, "--sort-by", "self_cuda_time_total", "--json", "--row-limit", -1)
    assert result.rc == 0 and result.err == ""
    rows = json.loads(result.out)["rows"]
    kernels = sum(row["self_device_time_total"] for row in rows if row["device_type"] == "cuda" and not row["is_user_annotation"])
    operators = sum(row["self_device_time_total"] for row in rows if row["device_type"] == "cpu")
    assert operators <= kernels * 1.0001  # a kernel belongs to one operator at most
    assert operators >= 0.9 * kernels or path.name.startswith(("ns_", "alexnet"))
    stacks = tool.cprof("stacks", path)
    assert stacks.rc == 2 and "CPROF_WITH_STACK=1" in stacks.err or stacks.rc == 0


# ---- the summary beside the trace ----

def test_uses_and_names_the_summary_beside_the_trace(our_trace, tmp_path):
    """support.load() compares the numbers of summary and trace for every trace that a test reads."""
    path, table = tmp_path / "t.json", tmp_path / "t.json.summary"
    shutil.copy2(our_trace, path)
    shutil.copy2(f"{our_trace}.summary", table)
    used, read = (tool.cprof("top", path, "--torch", "--sort-by", "self_cpu_time_total", *more) for more in ((), ("--from-trace",)))
    assert used.rc == read.rc == 0 and used.out == read.out and len(used.out.splitlines()) > 20
    assert used.err == f"cprof: {table}: the summary made with the trace (--from-trace reads the trace)\n" and read.err == ""
    assert json.loads(tool.cprof("top", path, "--json").out)["tables_used"] == [str(table)]
    assert cprof.key_averages(path).table() == tool.cprof("top", path, "--torch", "--from-trace").out
    assert tool.cprof("top", path, "--group-by-input-shape").err == ""  # the table has no shapes
    assert table.stat().st_size < 16384


def test_adds_up_summaries_alone(our_trace, tmp_path):
    for name in ("a", "b"):
        shutil.copy2(f"{our_trace}.summary", tmp_path / f"{name}.json.summary")
    shown = tool.cprof("top", tmp_path, "--json", "--sort-by", "self_cpu_time_total")
    once = json.loads(tool.cprof("top", our_trace, "--json", "--sort-by", "self_cpu_time_total", "--from-trace").out)["rows"]
    twice = json.loads(shown.out)["rows"]
    assert {row["name"]: (2 * row["count"], 2 * row["self_cpu_time_total"]) for row in once} == {
        row["name"]: (row["count"], pytest.approx(row["self_cpu_time_total"])) for row in twice} and len(once) > 20
    assert shown.err == "cprof: by summaries alone: what libraries did inside operators is in the traces\n"
    for option in ("--from-trace", "--group-by-input-shape"):
        refused = tool.cprof("top", tmp_path / "a.json.summary", option)
        assert refused.rc == 2 and "a.json.summary: is a summary: shapes, stacks and single events are in the trace" in refused.err
    assert tool.cprof("top", tmp_path, "--by", "line").rc == 2


def test_summary_of_many_names_has_those_with_most_time(tmp_path):
    path = tmp_path / "t.json"
    tool.write(path, [tool.span(f"name {'x' * 60}{n}", 100.0 * n, 5.0 + n % 7) for n in range(3000)])
    assert tool.cprof("summarize", path).rc == 0 and (tmp_path / "t.json.summary").stat().st_size <= 200_000
    whole = tool.cprof("top", path, "--json", "--sort-by", "self_cpu_time_total")
    rows = json.loads(whole.out)["rows"]
    assert len(rows) == 3000 and json.loads(whole.out)["tables_used"] == [], "the trace has all names"
    path.unlink()
    alone = tool.cprof("top", tmp_path, "--json", "--sort-by", "self_cpu_time_total")
    kept = json.loads(alone.out)["rows"]
    [rest] = [row for row in kept if row["name"] == "(other names)"]
    kept.remove(rest)
    assert 500 < len(kept) < 1000 and min(row["self_cpu_time_total"] for row in kept) >= 10 and len({row["name"] for row in kept}) == len(kept)
    assert rest["count"] == 3000 - len(kept) and sum(row["self_cpu_time_total"] for row in (rest, *kept)) == pytest.approx(
        sum(row["self_cpu_time_total"] for row in rows))


@pytest.mark.parametrize("change, said", [
    (lambda path, table: path.write_bytes(path.read_bytes() + b" "), "another trace"),
    (lambda path, table: path.write_bytes(path.read_bytes().replace(b'"hook_ns": ', b'"hook_ms": ')), "another trace"),
    (lambda path, table: os.utime(path, ns=(1, table.stat().st_mtime_ns + 1)), "the trace is newer than"),
    (lambda path, table: table.write_bytes(table.read_bytes()[:-20]), "damaged"),
    (lambda path, table: table.write_bytes(table.read_bytes().replace(b", 0, 0, ", b', "0", 0, ')), "damaged"),
    (lambda path, table: table.write_bytes(table.read_bytes().replace(b", 0, 0, ", b", %s, 0, " % (b"9" * 400))), "damaged"),
    (lambda path, table: table.write_bytes(table.read_bytes().replace(b", 0, 0, ", b", %s, 0, " % (b"9" * 5000))), "damaged"),
    (lambda path, table: table.write_text("{}\n"), "another version"),
    (lambda path, table: table.write_bytes(b"\xff\xfe"), "damaged"),
    (lambda path, table: table.write_bytes(table.read_bytes().replace(b'"total": [', b'"total": [1,')), "damaged"),
    (lambda path, table: table.write_bytes(table.read_bytes().replace(b'"key": [', b'"key": [7')), "damaged"),
    (lambda path, table: table.unlink(), ""),
])
def test_ignores_a_stale_or_damaged_summary(our_trace, tmp_path, change, said):
    path, table = tmp_path / "t.json", tmp_path / "t.json.summary"
    shutil.copy2(our_trace, path)
    shutil.copy2(f"{our_trace}.summary", table)
    change(path, table)
    result = tool.cprof("top", "--torch", path)
    assert result.rc == 0 and result.out == tool.cprof("top", "--torch", path, "--from-trace").out
    assert said in result.err and len(result.err.splitlines()) == bool(said)
    assert "the trace is read" in result.err or not said


def test_leaves_out_markers_of_warmup_steps(tmp_path):
    """Their spans are at the head of the file. Tables count recorded steps only. One range reaches from warmup into the first step."""
    code = """push(b"outer"); steps(2); pop(); steps(3)"""
    result = support.run(support.python(code), tmp_path, WARMUP=2, ACTIVE=3, STEP="manual")
    trace = support.load(result.traces[0])
    assert [e["name"] for e in support.events(trace, ph="X", cat="user_annotation")].count("work") == 5
    first = min(float(e["ts"]) for e in support.events(trace, ph="X") if e["name"].startswith("ProfilerStep#"))
    assert abs(float(trace["recorded_from"]) - first) < 0.0015  # a step's row begins a nanosecond after the step
    for more in ((), ("--from-trace",), ("--by", "category")):
        rows = json.loads(tool.cprof("top", result.traces[0], "--json", *more).out)["rows"]
        counts = {row.get("name", row.get("category")): row["count"] for row in rows}
        assert counts in ({"work": 3, "ProfilerStep*": 3}, {"user_annotation": 6})
    rows = json.loads(tool.cprof("top", result.traces[0], "--by", "step", "--json").out)["rows"]
    assert [(row["step"], row["count"]) for row in rows] == [(f"ProfilerStep#{n}", 2) for n in (2, 3, 4)]


def test_tabulates_a_trace_of_memory_only(tmp_path):
    """The last file of a long recording may hold only the releases at exit."""
    path = tool.write(tmp_path / "t.json", [tool.memory(10.0, 64, 1), tool.memory(11.0, -32, 2)])
    row, = cprof.key_averages(path)
    assert (row.key, row.count, row.cpu_memory_usage) == ("[memory]", 2, 32)


@pytest.mark.parametrize("options", [["--sort-by", "self_cpu_time_total"], ["--torch"], ["--by", "kernel"], ["--by", "step"], ["--by", "module"], ["--by", "line"], ["--group-by-stack-n", "2"]], ids=str)
def test_prints_no_escape_sequences_of_names(options, tmp_path):
    """Names come from the program or from whoever made the trace. Control characters are printed as text."""
    evil = "\x1b]0;title\x07\x9b2J\nover"
    path = tool.write(tmp_path / "t.json", [
        tool.span("ProfilerStep#1" + evil, 0.0, 100.0, cat="user_annotation"), tool.span(evil, 10.0, 50.0, Module_Hierarchy=evil, Call_stack=f"a{evil};b"),
        tool.span("cudaLaunchKernel", 11.0, 2.0, cat="cuda_runtime", correlation=7),
        tool.span(evil, 30.0, 2.0, cat="kernel", pid=1, tid=7, device=1, correlation=7)])
    done = tool.cprof("top", path, *options)
    assert done.rc == 0 and all(c.isprintable() or c == "\n" for c in done.out), repr(done.out)
    assert ("over" in done.out or "line" in options) and not re.search("^ *over", done.out, re.M), done.out


@pytest.mark.parametrize("options", [[], ["--by", "category"], ["--group-by-input-shape"]], ids=str)
def test_csv_without_rows_has_a_header(options, our_trace):
    lines = tool.cprof("top", our_trace, *options, "--csv").out.splitlines()
    assert tool.cprof("top", our_trace, *options, "--csv", "--row-limit", "0").out.splitlines() == lines[:1] and len(lines) > 1


def test_counts_gpu_memory_of_an_operator_without_kernels(tmp_path):
    path = tool.write(tmp_path / "t.json", [tool.span("aten::empty", 0, 10), tool.memory(5, 512, 4096, device=1, index=0)], profile_memory=1)
    row, = cprof.key_averages(path)
    assert (row.key, row.device_memory_usage, row.self_device_memory_usage) == ("aten::empty", 512, 512)
