# SPDX-License-Identifier: Apache-2.0
"""`cprof ranks`: how much time a late rank cost the others and what it did meanwhile; collectives of subgroups; a rank that moved to
another host. More tests of `cprof ranks` are in test_command_merge.py."""

import json
import os
import re
import sys

import pytest

from command_runs import ALLREDUCE, MS, Rank, cprof
from torch_runs import LOOPBACK
from test_command_merge import training


@pytest.mark.parametrize("more, waited", [({"Group size": 4}, 3_000_000), ({"Group size": 2}, 0),
                                          ({"Group size": 2, "Process Group Ranks": "mine"}, 3_000_000)])
def test_waits_within_subgroups_of_ranks(tmp_path, more, waited):
    """Rank 1 is late for rank 0, and rank 3 for rank 2. Without the members of a group, cprof counts no waiting."""
    for rank in range(4):
        one, late = Rank(rank, world=4), 3000 * (rank % 2)
        args = dict({"Collective name": "allreduce"}, **more)
        if "Process Group Ranks" in more:
            args["Process Group Ranks"] = str([0, 1] if rank < 2 else [2, 3])
            late += 1000 * (rank > 1)
        one.step(1, 0, 12 * MS)
        one.kernel(ALLREDUCE, 4000 + late, 6000 - late, **args)
        one.write(tmp_path)
    done = cprof("ranks", "--json", tmp_path)
    cells = json.loads(done.stdout)["steps"]["1"]
    assert [cells[str(rank)]["waited_ns"] for rank in range(4)] == [waited, 0, waited, 0]
    said = cprof("ranks", tmp_path).stderr
    assert ("4 collectives are of a part of the ranks" in said) == (waited == 0)


def test_no_waits_for_groups_of_unknown_size(tmp_path):
    """Some collectives here are of subgroups, so a collective without a size may be, too. cprof uses it for neither waits nor clocks."""
    for rank in range(4):
        one, late = Rank(rank, world=4), 3000 * (rank % 2)
        one.step(1, 0, 12 * MS)
        one.kernel(ALLREDUCE, 1000, 100, **{"Collective name": "allreduce", "Group size": 2})
        one.kernel(ALLREDUCE, 4000 + late, 6000 - late, **{"Collective name": "reduce_scatter"})
        one.write(tmp_path)
    cells = json.loads(cprof("ranks", "--json", tmp_path).stdout)["steps"]["1"]
    assert [cells[str(rank)]["waited_ns"] for rank in range(4)] == [0, 0, 0, 0]
    assert "8 collectives are of a part of the ranks" in cprof("ranks", tmp_path).stderr


@pytest.mark.parametrize("first", [0, 4], ids=["from the beginning", "from a checkpoint"])
@pytest.mark.parametrize("names", ["ab", "ba"])
def test_restart_on_another_host_counts_the_last_attempt(tmp_path, first, names):
    """The last attempt at each step counts, whatever the order of the file names. The clock of each host is aligned with the collectives
    recorded on it."""
    for attempt, name in enumerate(names):
        for rank, host in enumerate(["three" if attempt else "one", "two"]):
            clock_us = attempt * 10**7 + 50_000 * (host == "three")
            training(rank, slow_ms=3 * rank * attempt, first=first * attempt, host=host, clock_us=clock_us).write(tmp_path, f"rank{rank}-{name}.json")
    done = cprof("ranks", tmp_path)
    said = [line for line in done.stderr.splitlines() if "clock of" not in line]
    assert said == [f"cprof: rank {rank} made {6 - first} of its steps several times (of another run, or after a restart): the last time counts"
                    for rank in range(2)]
    assert ("  one, three\n" if first else "  three\n") in done.stdout
    found = json.loads(cprof("ranks", "--json", tmp_path).stdout)
    for step, cells in found["steps"].items():
        assert cells["0"]["waited_ns"] == pytest.approx(3 * MS * 1000 * (int(step) >= first), abs=5000), step
    assert len(found["steps"]) == first + 6 and [row["slowest_in"] for row in found["ranks"] if row["rank"] == 1] == [6]
    moved = {host: clock["offset_ns"] for host, clock in found["clocks"].items()}
    assert abs(moved["three"] - moved["two"] + 50 * MS * 1000) < 5000 and ("one" in moved) == (first > 0)


def late(folder, steps, fill, ranks=2, ms=10, hosts=("one", "one")):
    """Rank 1 joins the all-reduce of these steps, of six, `ms` late. fill(rank, start, wait) adds what it does meanwhile."""
    for rank in range(ranks):
        one = Rank(rank, world=ranks, host=hosts[rank % 2], clock_us=30 * MS * hosts.index(hosts[rank % 2]))
        for n in range(6):
            start, wait = n * 40 * MS, ms * MS * (n in steps)
            one.step(n, start, 40 * MS)
            one.span("aten::mm", start, 5 * MS)
            if rank == 1 and wait:
                fill(one, start + 5 * MS, wait)
            came = start + 5 * MS + wait * (rank == 1)
            one.kernel(ALLREDUCE, came, start + 20 * MS - came)
        one.write(folder)
    return cprof("ranks", folder)


def pause(one, start, wait):
    pass


def operator(one, start, wait):
    one.span("aten::linear", start, wait)
    one.span("aten::addmm", start + 100, wait - 1000)


def data(one, start, wait):
    one.span("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", start, wait, "user_annotation")


def kernel(one, start, wait):
    one.kernel("slow_gemm", start, wait, stream=8)


@pytest.mark.parametrize("fill, did", [(pause, "outside operators 20 ms (100 %)"), (operator, "aten::addmm 18 ms (90 %), aten::linear 2 ms (10 %)"),
                                       (data, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__ 20 ms (100 %)"),
                                       (kernel, "outside operators 20 ms (100 %), its GPU: slow_gemm 20 ms (100 %)")],
                         ids=["a gap outside operators", "an operator", "data", "a slow kernel"])
def test_verdict_names_cost_and_cause(fill, did, tmp_path):
    lines = late(tmp_path, (1, 4), fill).stdout.splitlines()
    assert lines[0] == "rank 1 cost the others 20 ms of 240 ms (8 %), in steps 1, 4"
    gpu = "" if "its GPU" in did else ", its GPU: idle 20 ms (100 %)"
    assert lines[1] == f"meanwhile rank 1 was: {did}{gpu}"
    found = json.loads(cprof("ranks", "--json", tmp_path).stdout)
    assert {key: found["worst"][key] for key in ("rank", "cost_sum_ns", "steps_sum_ns", "steps")} == {
        "rank": 1, "cost_sum_ns": 20_000_000, "steps_sum_ns": 240_000_000, "steps": [1, 4]}
    assert [(row["rank"], row["cost_sum_ns"], row["waited_sum_ns"]) for row in found["ranks"]] == [(1, 20_000_000, 0), (0, 0, 20_000_000)]


def test_cost_is_the_mean_wait_of_the_others(tmp_path):
    assert late(tmp_path, (2,), pause, ranks=4).stdout.startswith("rank 1 cost the others 10 ms of 240 ms (4 %), in step 2\n")


def test_cause_is_found_on_the_late_ranks_clock(tmp_path):
    lines = late(tmp_path, (1, 4), operator, hosts=("one", "two")).stdout.splitlines()
    assert lines[0].startswith("rank 1 cost the others 20 ms") and "aten::addmm 18 ms (90 %)" in lines[1]


def test_table_headers_name_unit_and_statistic(tmp_path):
    _, ranks, steps = late(tmp_path, (1,), pause).stdout.split("\n\n")
    assert re.split("  +", ranks.splitlines()[0].strip()) == ["rank", "steps", "cost sum ms", "waited sum ms", "own median ms", "collectives median ms",
                                                              "slowest in", "host"]
    assert re.split("  +", steps.splitlines()[0].strip()) == ["step", "ranks", "median ms", "slowest", "its own ms", "spread ms", "mean wait ms",
                                                              "longest, rank"]


def test_control_characters_do_not_reach_the_terminal(tmp_path):
    def evil(one, start, wait):
        one.span("\x1b]0;title\x07\nover", start, wait)
    out = late(tmp_path, (1,), evil).stdout
    assert all(c.isprintable() or c == "\n" for c in out) and not re.search("^ *over", out, re.M)


def test_without_collectives_names_the_slowest_rank(tmp_path):
    for rank in range(2):
        one = Rank(rank)
        for n in range(3):
            one.step(n, n * 40 * MS, (20 + 5 * rank) * MS)
        one.write(tmp_path)
    done = cprof("ranks", tmp_path)
    assert done.stdout.startswith("rank 1 was the slowest in 3 of 3 steps, in sum 15.000 ms behind the median of the others\n")
    assert "no collectives are in the traces" in done.stderr


STRAGGLER = """
import time, torch, torch.distributed as dist
dist.init_process_group("gloo")
parameter = torch.nn.Parameter(torch.ones(64))
optimizer = torch.optim.SGD([parameter], lr=0.1)
for step in range(9):
    if dist.get_rank() == 1 and step in (3, 6):
        time.sleep(0.4)
    parameter.grad = torch.ones(64)
    dist.all_reduce(parameter.grad)
    optimizer.step()
dist.barrier()  # behind destroy_process_group() PyTorch may abort at exit, also without cprof
"""


def test_run_of_several_ranks_ends_with_the_verdict(tmp_path):
    (tmp_path / "train.py").write_text(STRAGGLER)
    done = cprof("run", "--run-name", "r", "--active", 7, "--", sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", 2, "train.py",
                 cwd=tmp_path, env=dict(os.environ, **LOOPBACK))
    assert done.returncode == 0, done.stderr
    rank_0, rank_1, cost, meanwhile, *commands = [line.replace("cprof: ", "", 1) for line in done.stderr.splitlines()[-7:]]
    assert rank_0.startswith("rank 0: 7 steps (1-7), ") and rank_1.startswith("rank 1: 7 steps (1-7), ") and len(commands) == 3, done.stderr
    assert re.fullmatch(r"rank 1 cost the others (\d+) ms of [\d,]+ ms \(\d+ %\), in steps 3, 6", cost), done.stderr
    assert 700 < int(re.search(r"others (\d+)", cost)[1]) < 1600 and meanwhile.startswith("meanwhile rank 1 was: outside operators "), done.stderr
    assert cprof("ranks", "r", cwd=tmp_path).stdout.splitlines()[:2] == [cost, meanwhile]
