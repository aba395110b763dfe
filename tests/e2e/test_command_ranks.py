# SPDX-License-Identifier: Apache-2.0
"""`cprof ranks` where transfers are of a part of the ranks; the rest of it is in test_command_merge.py."""

import json

import pytest

from command_runs import ALLREDUCE, MS, Rank, cprof


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
