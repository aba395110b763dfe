# SPDX-License-Identifier: Apache-2.0
"""The table that `cprof top` prints for people: its rows and their order, its width, and the tables by line and by category."""

import json
import os
import shutil

import pytest

import tool
from cprof.tool import top
from test_tool_top import gpu_events


def people_events():
    """Two steps: a product with a library call inside, another operator, and a library call outside of operators."""
    for n in range(2):
        at = 100.0 * n
        yield dict(tool.span(f"ProfilerStep#{n}", at, 90.0, cat="user_annotation", tid=4194305), args={"thread": 5000})
        yield tool.span("aten::linear", at, 50.0, External_id=1, Call_stack="torch/nn.py(3): f;prog.py(2): <module>;")
        yield tool.span("aten::mm", at + 5, 40.0, External_id=2, flops=8000, Call_stack="torch/nn.py(3): f;prog.py(2): <module>;")
        yield tool.span("sgemm_", at + 8, 30.0, cat="library_call", External_id=3, flops=8000, Call_stack="torch/nn.py(3): f;prog.py(2): <module>;")
        yield tool.span("aten::relu", at + 52, 12.0, External_id=4, Call_stack="prog.py(3): <module>;")
        yield tool.span("sgemm_", at + 66, 3.0, cat="library_call", External_id=5, flops=10, Call_stack="gone.py(3): <module>;")


def test_lists_operators_above_their_library_calls(tmp_path):
    path = tool.write(tmp_path / "t.json", list(people_events()))
    done = tool.cprof("top", path)
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0] == ["name", "self", "share", "total", "calls", "FLOP/s"]
    assert [line[:3] for line in lines[1:6]] == [["aten::mm", "20.000us", "15.38%"], ["sgemm_", "60.000us", "46.15%"], ["aten::relu", "24.000us", "18.46%"],
                                                 ["aten::linear", "20.000us", "15.38%"], ["sgemm_", "6.000us", "4.62%"]]
    assert lines[1][-2:] == ["200.0", "M"] and done.out.splitlines()[2].startswith("  sgemm_")
    assert lines[5][-1] == "2", "no rate: the FLOPs of sgemm_ are those of all its calls, also below aten::mm"
    assert lines[6] == ["130.000us", "on", "the", "CPU"] and "ProfilerStep" not in done.out
    assert done.out.splitlines()[7] == "2 steps took 180.000us, of which 50.000us (27.78%) lie outside operators on the CPU"
    assert [len(set(line)) > 1 for line in done.out.splitlines()] and "█" in done.out


def test_people_see_twenty_rows_and_programs_all(tmp_path):
    path = tool.write(tmp_path / "t.json", [tool.span(f"op{n:03}", 100.0 * n, 1.0 + n) for n in range(150)])
    lines = tool.cprof("top", path).out.splitlines()
    assert [line.split()[0] for line in lines[1:21]] == [f"op{n:03}" for n in range(149, 129, -1)] and "; 130 more rows (--row-limit -1)" in lines[21]
    assert len(tool.cprof("top", path, "--torch").out.splitlines()) == 3 + 100 + 2
    assert len(json.loads(tool.cprof("top", path, "--json").out)["rows"]) == 150
    assert len(tool.cprof("top", path, "--csv").out.splitlines()) == 151
    assert len(json.loads(tool.cprof("top", path, "--json", "--row-limit", 3).out)["rows"]) == 3


def test_counts_each_kernel_once_on_the_gpu(tmp_path):
    path = tool.write(tmp_path / "t.json", [*gpu_events(), tool.span("alone", 900.0, 20.0, cat="kernel", pid=0, tid=7, device=0)])
    rows = [line.split() for line in tool.cprof("top", path).out.splitlines()[1:]]
    shares = [float(cell[:-1]) for row in rows for cell in row[:4] if cell.endswith("%")]
    assert 99.9 < sum(shares) < 100.1 and any(row[:2] == ["(outside", "operators)"] for row in rows), rows
    assert any(row[:4] == ["75.000us", "on", "the", "GPU"] for row in rows) and not any(row[0] == "gemm" for row in rows)
    assert "on the CPU" in tool.cprof("top", path, "--sort-by", "self_cpu_time_total").out


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_table_fits_the_terminal(width, tmp_path):
    path = tool.write(tmp_path / "t.json", [tool.span("x" * 300, 0.0, 5000.0, flops=10**9), tool.span("y", 6000.0, 50.0), tool.memory(20.0, 4096, 1)])
    lines = tool.cprof("top", path, env={"COLUMNS": str(width)}).out.splitlines()
    assert max(map(len, lines[:3])) <= width and lines[1].startswith("x" * 13) and lines[2].split()[0] == "y"
    assert ("FLOP/s" in lines[0]) == (width > 60)


def test_by_line_shows_the_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prog.py").write_text("import torch\n  y = m(x)\x1b  # slow\n")
    os.utime(tmp_path / "prog.py", (1, 1))
    path = tool.write(tmp_path / "t.json", list(people_events()))
    rows = json.loads(tool.cprof("top", path, "--by", "line", "--json").out)["rows"]
    assert [(row["line"], row["self_cpu_time_total"], row["count"]) for row in rows] == [
        ("prog.py(2): y = m(x)\x1b  # slow", 100.0, 6), ("prog.py(3): <module>", 24.0, 2), ("gone.py(3): <module>", 6.0, 2)]
    os.utime(tmp_path / "prog.py")  # the source is newer than the trace: its lines may differ
    os.utime(path, (1, 1))
    assert "prog.py(2): <module>" in tool.cprof("top", path, "--by", "line").out
    tool.refused(tool.cprof("top", tool.write(tmp_path / "n.json", [tool.span("a", 0, 1)]), "--by", "line"), "CPROF_WITH_STACK=1")


def test_by_line_reads_no_pipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo(tmp_path / "prog.py")
    path = tool.write(tmp_path / "t.json", list(people_events()))
    os.utime(tmp_path / "prog.py", (1, 1))
    assert "prog.py(2): <module>" in tool.cprof("top", path, "--by", "line").out


def test_by_category_shows_time_outside_operators(tmp_path):
    path = tool.write(tmp_path / "t.json", [*people_events(), tool.span("inside", 54.0, 4.0, cat="user_annotation")])
    out = tool.cprof("top", path, "--by", "category").out
    assert "50.000us (27.78%) on the CPU lie outside operators, in steps and ranges\n" in out


def test_by_shows_bars_and_counts_hidden_rows(tmp_path):
    path = tool.write(tmp_path / "t.json", [*people_events()])
    lines = tool.cprof("top", path, "--by", "category", "--row-limit", "1", env={"COLUMNS": "60"}).out.splitlines()
    assert lines[0].split() == ["category", "self", "CPU", "share", "calls"] and "█" in lines[1] and len(lines) == 4
    assert lines[2].endswith(" on the CPU; 2 more rows (--row-limit -1)") and max(map(len, lines[:2])) <= 60


def test_uses_the_table_of_a_large_trace(our_trace, tmp_path, monkeypatch):
    path = tmp_path / "t.json"
    shutil.copy2(our_trace, path)
    shutil.copy2(f"{our_trace}.summary", f"{path}.summary")
    read = tool.cprof("top", path)
    monkeypatch.setattr(top, "SMALL", 0)
    used = tool.cprof("top", path)
    assert read.err == "" and "the summary made with the trace" in used.err
    assert [line for line in used.out.splitlines() if " steps took " in line] == [line for line in read.out.splitlines() if " steps took " in line] != []
