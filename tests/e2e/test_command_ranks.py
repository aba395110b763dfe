# SPDX-License-Identifier: Apache-2.0
"""`cprof ranks` where transfers are of a part of the ranks, or a rank was on several hosts; the rest of it is in test_command_merge.py."""

import json

import pytest

from command_runs import ALLREDUCE, MS, Rank, cprof
from test_command_merge import training


@pytest.mark.parametrize("more, waited", [({"Group size": 4}, 3_000_000), ({"Group size": 2}, 0),
                                          ({"Group size": 2, "Process Group Ranks": "mine"}, 3_000_000)])
def test_groups_of_a_part_of_the_ranks(tmp_path, more, waited):
    """Rank 1 is late for rank 0, rank 3 for rank 2. Where the traces do not say who is in a group nothing is made up."""
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


def test_groups_of_which_nothing_is_told(tmp_path):
    """Where others are of a part of the ranks, so may be those without a size: neither waiting nor clocks are made of them."""
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
def test_a_rank_that_was_started_again_on_another_host(tmp_path, first, names):
    """Of its steps, too, the last time counts, whatever the files are called; the clock of either host is brought in line with what was
    recorded at its time."""
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
