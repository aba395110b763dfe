# SPDX-License-Identifier: Apache-2.0
"""`cprof explain` on summaries without their traces: the parts of the steps, and the ranks that the others wait for."""

import json
import os

import pytest

import support
from command_runs import ALLREDUCE, MS, Rank, cprof, refused
from fleet import Fleet
from cprof.tool import summary_file
from gpu_check.summaries import READ_MOST

PARTS = ("computation", "exposed_comm", "exposed_memcpy", "data", "collective", "sync", "operators", "transfer", "outside")


def run_of(folder, data_ms=0.0, sync_ms=0.0, comm_ms=0.0, gap_ms=0.0, ranks=1, steps=6):
    """Summaries of steps of 20 ms and more. A kernel of 10 ms is launched first; what follows is not hidden."""
    folder.mkdir()
    for number in range(ranks):
        rank = Rank(number, world=ranks)
        length = 20 + data_ms + sync_ms + comm_ms + gap_ms
        for step in range(steps):
            at = step * length * MS
            rank.step(step + 4, at, length * MS)
            rank.span("enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", at, data_ms * MS, "user_annotation")
            at += data_ms * MS
            rank.span("aten::linear", at, 0.4 * MS, **{"Module Hierarchy": "Net.head"})
            rank.span("aten::mm", at + 0.1 * MS, 0.1 * MS, **{"Module Hierarchy": "Net.blocks.\033[31m"})
            rank.kernel("gemm", at, 19.5 * MS)
            at += 19.5 * MS
            rank.span("cudaStreamSynchronize", at, sync_ms * MS, "cuda_runtime")
            rank.kernel(ALLREDUCE, at + sync_ms * MS, comm_ms * MS)
        path = rank.write(folder)
        made = cprof("summarize", path)
        assert made.returncode == 0, made.stderr
        path.unlink()
    return folder


def explained(folder):
    done = cprof("explain", "--json", folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("fault, rule, ms", [({"data_ms": 5}, "input-bound", 5), ({"sync_ms": 6}, "synchronising-calls", 6),
                                             ({"comm_ms": 7}, "exposed-communication", 7), ({"gap_ms": 8}, "cpu-late", 8.5)])
def test_names_the_largest_part(tmp_path, fault, rule, ms):
    folder = run_of(tmp_path / "run", **fault)
    found = explained(folder)
    [one] = found["findings"]
    assert one["rule"] == rule and one["ms_per_step"] == pytest.approx(ms, abs=1e-3) and one["share"] == pytest.approx(ms / (20 + sum(fault.values())))
    assert one["device"] == "cuda:0" and one["steps"] == [5, 6, 7, 8, 9], "the first step is left out"
    assert one["evidence"][0]["ms"] == pytest.approx(ms, abs=1e-3) and one["advice"]
    shown = cprof("explain", folder)
    assert shown.stdout.startswith(f"1. {rule}: ") and shown.stderr == "cprof: by summaries alone: the operator, line or call behind a part is in the trace\n"


def test_steps_of_a_long_window_share_rows(tmp_path):
    """What is said of a step is its mean."""
    folder = run_of(tmp_path / "run", data_ms=5, steps=900)
    [path] = folder.iterdir()
    assert path.stat().st_size < 200_000
    found = explained(folder)
    [one] = found["findings"]
    assert one["rule"] == "input-bound" and one["ms_per_step"] == pytest.approx(5, abs=1e-3)
    assert {row["count"] for row in found["steps"]} == {2} and sum(row["count"] for row in found["steps"]) == 900
    assert "rank 0, cuda:0: step 25.0 ms (898 steps, 2 left out): " in cprof("explain", folder).stdout
    done = cprof("compare", folder, folder)
    assert done.stdout.startswith("step 25.0 → 25.0 ms (0 %; 900 and 900 steps; ") and ".summary: 2 steps share a row of the summary: their mean counts" in done.stderr
    done = cprof("ranks", folder)
    assert "the windows are long: 2 steps count as one" in done.stderr and done.returncode == 0


def test_summary_of_the_library_and_of_the_command_leave_out_the_same(tmp_path):
    """support.load() compares them field by field."""
    code = "for n in range(1000):\n push(b'%d ' % n + b'x' * 200); pop(); steps(1)\n for _ in range(3):\n  push(b'gloo:all_reduce'); pop()"
    [path] = support.run(support.python(code), tmp_path, WARMUP=0, ACTIVE=1000, REPEAT=1).traces
    assert path.stat().st_size < READ_MOST, "larger traces are not compared"
    support.load(path)
    found = summary_file.read(f"{path}.summary", table=True)
    assert found.steps["joined"] == 2 and found.collectives["truncated"] and found.truncated and 100 < len(found.rows) < 1003
    assert sum(row[2] for row in found.collectives["sums"]) == 2997 and os.path.getsize(found.path) < 200_000 and found.rows[-1][0] == summary_file.REST


def test_nothing_stands_out_in_a_healthy_run(tmp_path):
    folder = run_of(tmp_path / "run")
    shown = cprof("explain", folder).stdout.splitlines()
    assert explained(folder)["findings"] == [] and shown[0] == "nothing stands out"
    assert shown[-1] == "modules by their time on the CPU: Net.head 75%, Net.blocks.\\x1b[31m 25%"


def test_json_has_the_parts_of_each_step(tmp_path):
    found = explained(run_of(tmp_path / "run", data_ms=5, ranks=2))
    assert found["schema"] == {"name": "cprof.summary", "version": 1} and found["time_unit"] == "ms" and len(found["summaries"]) == 2 and "traces" not in found
    assert [(row["rank"], row["step"]) for row in found["steps"]] == [(rank, step) for rank in range(2) for step in range(4, 10)]
    for row in found["steps"]:
        assert sum(row[name] for name in PARTS) == pytest.approx(row["total"]) and row["launches"] == 2
        assert row["left_out"] == ("first step" if row["step"] == 4 else None)
    assert found["modules"] == [{"name": "Net.head", "count": 12, "self_cpu": pytest.approx(3.6), "self_device": 0},
                                {"name": "Net.blocks.\033[31m", "count": 12, "self_cpu": pytest.approx(1.2), "self_device": 0}]
    [one] = found["findings"]
    assert one["title"] == "the GPU waits for data, on ranks 0-1, up to 5.0 ms" and found["ranks"]["causes"] == []


@pytest.mark.parametrize("fault, by, says", [("late data", 40, "late data: rank 17 (node002) waits "), ("slow GPU", 1.6, "slow GPU: rank 17 (node002) computes ")])
def test_names_the_rank_that_others_wait_for(tmp_path, fault, by, says):
    """A third of a step of this made-up training is communication that nothing hides, also without the fault."""
    run = Fleet(64, seed=3)
    run.plant(fault, by, rank=17)
    run.write(tmp_path)
    found = explained(tmp_path)["findings"]
    assert [one["rule"] for one in found] == ["straggler", "exposed-communication"]
    assert found[0]["rank"] == 17 and found[0]["title"].startswith(says) and found[0]["ms_per_step"] > found[1]["ms_per_step"] > 20
    lines = cprof("explain", tmp_path).stdout.splitlines()
    assert lines[0].startswith("1. straggler: " + says) and "and 48 more" in lines


def test_summaries_and_traces_are_not_mixed(tmp_path):
    folder = run_of(tmp_path / "run")
    trace = Rank(1).write(tmp_path)
    refused(cprof("explain", folder, trace), ".summary: is a summary, and others are traces")


def test_summary_without_parts_needs_the_trace(tmp_path):
    folder = run_of(tmp_path / "run")
    [path] = folder.iterdir()
    lines = path.read_text().splitlines()
    steps = json.loads(lines[1])
    for name in ("devices", "left_out"):
        steps["steps"][name] = None
    path.write_text("\n".join([lines[0], json.dumps(steps), *lines[2:]]) + "\n")
    refused(cprof("explain", folder), "has no parts of steps: the trace is needed")


@pytest.mark.parametrize("modules", [1, [], {"name": 1}, {"name": ["a"], "count": [1], "truncated": False}, {"name": [1], "truncated": False},
                                     {"name": ["a"], "count": ["x"], "self_cpu": [1], "self_device": [1], "truncated": False},
                                     {"name": ["a"], "count": [1], "self_cpu": [1, 2], "self_device": [1], "truncated": False},
                                     {"name": ["a"], "count": [1], "self_cpu": [1], "self_device": [1 << 80], "truncated": False}], ids=str)
def test_odd_modules_are_damage(tmp_path, modules):
    folder = run_of(tmp_path / "run")
    [path] = folder.iterdir()
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:3], json.dumps({"table": None, "modules": modules}), *lines[4:]]) + "\n")
    refused(cprof("explain", folder), ".summary: is damaged")
