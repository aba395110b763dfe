# SPDX-License-Identifier: Apache-2.0
"""`cprof compare`: the step and the rows of small traces with known differences, the noise, the exit code, and two runs of PyTorch
that differ by an operator."""

import json
import sys

import pytest

import support
import tool


def steps(path, ms, rows=(), n=6, jitter=0.1, **more):
    """A trace of n steps. rows: (name, category, ms per step), one after the other from the start of each step."""
    events = []
    for step in range(n):
        start = 1e6 + 1e5 * step
        length = ms * 1000 * (1 + jitter * (step % 3 - 1) / 10)
        events.append(tool.span(f"ProfilerStep#{step}", start, length, cat="user_annotation"))
        at = start + 1
        for name, category, took in rows:
            on_gpu = category == "kernel"
            events.append(tool.span(name, at, took * 1000, cat=category, **(dict(pid=0, tid=7, device=0, stream=7) if on_gpu else {})))
            at += 0 if on_gpu else took * 1000 + 1
    return tool.write(path, events, **more)


def rows_of(*args):
    found = json.loads(tool.cprof("compare", *args, "--json").out)
    return found, {row["name"]: row for row in found["rows"]}


def test_removed_operator_is_the_first_row(tmp_path):
    before = steps(tmp_path / "a.json", 47.1, [("aten::sort", "cpu_op", 13.7), ("aten::mm", "cpu_op", 20)])
    after = steps(tmp_path / "b.json", 33.0, [("aten::mm", "cpu_op", 20)])
    done = tool.cprof("compare", before, after)
    lines = done.out.splitlines()
    # ±1.3: three times 1.2533 x 1.4826 x the median deviation (1 % of a step) / sqrt(6), of both sides
    assert lines[0] == "step 47.1 → 33.0 ms (-30 %; 6 and 6 steps; ±1.3)", done.out
    assert lines[3].split() == ["-13.700", "13.700", "-", "1", "0", "operator", "gone:", "aten::sort"]
    assert "aten::mm" not in done.out and done.rc == 0
    found, rows = rows_of(after, before)
    assert rows["aten::sort"]["state"] == "new" and rows["aten::sort"]["difference"] == 13700
    assert found["step"]["percent"] == pytest.approx(100 * 14.1 / 33)


def test_compares_kernels_collectives_and_ranges(tmp_path):
    nccl = "ncclDevKernel_AllReduce_Sum_f32"
    before = steps(tmp_path / "a.json", 50, [("gemm", "kernel", 5), (nccl, "kernel", 9), ("gloo:all_reduce", "user_annotation", 3), ("load", "user_annotation", 1)])
    after = steps(tmp_path / "b.json", 50, [("gemm", "kernel", 6), (nccl, "kernel", 2), ("gloo:all_reduce", "user_annotation", 4), ("load", "user_annotation", 3)])
    found, rows = rows_of(before, after)
    assert [(row["name"], row["kind"], row["difference"]) for row in found["rows"] if row["kind"] != "outside"] == [
        (nccl, "collective", -7000), ("load", "range", 2000), ("gemm", "kernel", 1000), ("gloo:all_reduce", "collective", 1000)]
    assert rows["gemm"]["count_before"] == rows["gemm"]["count_after"] == 1


def test_compares_memory_peak_and_growth(tmp_path):
    def trace(name, size, kept):
        events = []
        for step in range(5):
            start = 1e6 + 1e5 * step
            events += [tool.span(f"ProfilerStep#{step}", start, 1e4, cat="user_annotation"), tool.span("aten::mm", start + 1, 100),
                       tool.memory(start + 2, size, 1, device=1, index=0), tool.memory(start + 3, -size + kept, 1, device=1, index=0)]
        return tool.write(tmp_path / name, events)
    done = tool.cprof("compare", trace("a.json", 1 << 20, 0), trace("b.json", 3 << 20, 0))
    assert "+2.00 MB  1.00 MB  3.00 MB" in done.out and "GPU peak" in done.out and "GPU growth" not in done.out
    _, rows = rows_of(tmp_path / "a.json", trace("c.json", 1 << 20, 4096))
    assert rows["GPU growth"]["difference"] == 4096


def test_leaves_out_rows_within_the_noise(tmp_path):
    """Each operator's spread is larger than its difference."""
    def trace(name, more):
        events = []
        for step in range(12):
            start, took = 1e6 + 1e5 * step, 1000 + 700 * (step * 5 % 12) / 12 + more
            events += [tool.span(f"ProfilerStep#{step}", start, took + 500, cat="user_annotation"), tool.span("aten::mm", start + 1, took)]
        return tool.write(tmp_path / name, events)
    done = tool.cprof("compare", trace("a.json", 0), trace("b.json", 40), "--fail-above", "1%")
    assert done.rc == 0 and "2 rows are the same or within the noise" in done.out and "aten::mm" not in done.out, done.out
    done = tool.cprof("compare", tmp_path / "a.json", trace("c.json", 1500), "--fail-above", "1%")
    assert done.rc == 1 and "aten::mm" in done.out


@pytest.mark.parametrize("limit, rc", [("5%", 1), ("30", 0), ("0", 1)])
def test_fail_above_sets_the_exit_code(limit, rc, tmp_path):
    before, after = steps(tmp_path / "a.json", 10), steps(tmp_path / "b.json", 12)
    done = tool.cprof("compare", before, after, "--fail-above", limit)
    assert done.rc == rc and done.out.startswith("step 10.0 → 12.0 ms (+20 %;")
    assert done.err == (f"cprof: a step got 20.0 % slower: more than {limit.strip('%')} %\n" if rc else "")
    assert tool.cprof("compare", after, before, "--fail-above", limit).rc == 0


@pytest.mark.parametrize("limit", ["-1", "x", "nan", "inf", "%"])
def test_refuses_a_limit_that_is_no_percentage(limit, tmp_path):
    tool.refused(tool.cprof("compare", "a.json", "b.json", f"--fail-above={limit}"), "--fail-above")


def test_markdown_escapes_names(tmp_path):
    evil = "a`b|c<script>@somebody\n\x1b[2J"
    before, after = steps(tmp_path / "a.json", 10), steps(tmp_path / "b.json", 12, [(evil, "cpu_op", 2)])
    lines = tool.cprof("compare", before, after, "--markdown").out.splitlines()
    assert lines[0] == "**step 10.0 → 12.0 ms (+20 %; 6 and 6 steps; ±0.4)**"
    row, = [line for line in lines if "somebody" in line]
    assert row.startswith("| +2.000 | - | 2.000 | 0 | 1 | operator | `a'b\\|c<script>@somebody") and row.endswith("` (new) |")
    text = tool.cprof("compare", before, after).out
    assert "\x1b" not in text and "new: a`b|c<script>@somebody" in text


def test_compares_whole_traces_without_steps(tmp_path):
    before, after = (tool.write(tmp_path / name, [tool.span("aten::mm", 0, 1000), tool.span("aten::add", 1000, took)])
                     for name, took in (("a.json", 500), ("b.json", 2000)))
    done = tool.cprof("compare", before, after)
    assert done.out.splitlines()[0] == "whole trace 1.5 → 3.0 ms (+100 %; no steps; spread unknown)"
    assert "+1.500  0.500  2.000" in done.out and "aten::mm" not in done.out
    with_steps = steps(tmp_path / "c.json", 3, [("aten::mm", "cpu_op", 1)])
    assert tool.cprof("compare", before, with_steps).out.startswith("whole trace ")
    tool.refused(tool.cprof("compare", before, tool.write(tmp_path / "e.json", [])), "e.json: holds no operator")


def test_few_steps_leave_the_spread_unknown(tmp_path):
    before, after = steps(tmp_path / "a.json", 10, n=2), steps(tmp_path / "b.json", 12, n=12)
    assert "; 2 and 12 steps; spread unknown)" in tool.cprof("compare", before, after).out


def test_compares_all_windows_and_ranks_of_a_run(tmp_path):
    for run, ms in (("old", 10), ("new", 20)):
        (tmp_path / run / "torch_traces").mkdir(parents=True)
        for name in ("rank0.3.pt.trace.json", "rank0.9.pt.trace.json", "rank1.3.pt.trace.json"):
            steps(tmp_path / run / "torch_traces" / name, ms, [("aten::mm", "cpu_op", ms / 2)], n=4)
    done = tool.cprof("compare", tmp_path / "old", tmp_path / "new")
    assert "; 12 and 12 steps;" in done.out and "+5.000" in done.out


def test_top_compare_prints_the_same(tmp_path):
    before, after = steps(tmp_path / "a.json", 10, [("aten::mm", "cpu_op", 2)]), steps(tmp_path / "b.json", 12, [("aten::mm", "cpu_op", 3)])
    for more in ([], ["--json"]):
        assert tool.cprof("top", "--compare", before, after, *more) == tool.cprof("compare", before, after, *more)
    tool.refused(tool.cprof("top", "--compare", before), "two traces")
    for options in (["--sort-by", "count"], ["--csv"], ["--from-trace"]):
        tool.refused(tool.cprof("top", "--compare", before, after, *options), options[0])


def test_row_limit_counts_hidden_rows(tmp_path):
    before = steps(tmp_path / "a.json", 50)
    after = steps(tmp_path / "b.json", 50, [(f"aten::op{n}", "cpu_op", 1 + n / 10) for n in range(10)])
    done = tool.cprof("compare", before, after, "--row-limit", 4)
    assert done.out.count("new: aten::op") == 3 and "7 smaller rows are not shown (--row-limit -1 shows them)" in done.out
    assert tool.cprof("compare", before, after, "--row-limit", -1).out.count("new: aten::op") == 10


def test_shows_small_differences_on_request(tmp_path):
    """An operator that differs by less than a thousandth of a step is counted, not listed."""
    def trace(name, small, large):
        return steps(tmp_path / name, 50, [("aten::small", "cpu_op", small), ("aten::large", "cpu_op", large)])
    before, after = trace("a.json", 1, 2), trace("b.json", 1.03, 3)
    done = tool.cprof("compare", before, after)
    assert "aten::large" in done.out and "aten::small" not in done.out and "1 smaller rows are not shown" in done.out, done.out
    assert "aten::small" in tool.cprof("compare", before, after, "--row-limit", -1).out


TRAINING = """
import sys, torch
torch.set_num_threads(1)  # on a busy machine several wait for each other
model, x = torch.nn.Linear(64, 64), torch.ones(32, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(8):
    optimizer.zero_grad()
    if len(sys.argv) > 1:
        torch.sort(torch.ones(2_000_000).sin_())
    model(x).sum().backward()
    optimizer.step()
"""


def test_finds_an_operator_removed_from_a_training(tmp_path):
    traces = []
    for name, more in (("with", ["sort"]), ("without", [])):
        (tmp_path / name).mkdir()
        result = support.run([sys.executable, "-c", TRAINING, *more], tmp_path / name, ACTIVE=6)
        assert result.rc == 0, result.err
        traces += result.traces
    found, rows = rows_of(*traces)
    assert found["rows"][0]["name"] == "aten::sort" and found["rows"][0]["state"] == "gone"
    assert found["step"]["difference"] < 0 and found["step"]["steps_before"] == found["step"]["steps_after"] == 6
