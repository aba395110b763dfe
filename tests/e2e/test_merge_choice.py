# SPDX-License-Identifier: Apache-2.0
"""`cprof merge --ranks, --steps, --only`: what is left out, and what a trace that would be too large says."""

import collections

import pytest

import perfetto
import support
from command_runs import ALLREDUCE, MS, cprof, refused
from cprof.tool import chosen_events, merge
from test_command_merge import merged, of_rank, training

RANKS = range(4)


def names(trace, ph="X"):
    return collections.Counter(e["name"] for e in trace["traceEvents"] if e["ph"] == ph)


def test_ranks(tmp_path):
    trace, _ = merged(tmp_path, [training(n) for n in RANKS], "--ranks", "1,3-7")
    assert [r["rank"] for r in trace["merged"]] == [1, 3] and not of_rank(trace, 0) and not of_rank(trace, 2)
    assert names(trace)["aten::mm"] == 2 * 6


def test_steps_are_each_ranks_own(tmp_path):
    """Rank 1 began at step 2, and has one of the steps that are asked for. An arrow and a range across the edge of a step stay whole."""
    first, second = training(0), training(1, first=2, steps=3)
    for n, (start, end) in enumerate([(1, 2), (20, 30), (47, 49), (70, 71), (25, None)]):
        for ph, at in (("b", start), ("e", end)):
            first.events += [{"ph": ph, "id": n, "cat": "request", "name": f"range {n}", "pid": first.pid, "tid": first.pid, "ts": first.us(at * MS)}] if at else []
    first.arrow(99, 46 * MS, 50 * MS)
    first.span("across", 46 * MS, 4 * MS)
    first.events.append({"ph": "i", "s": "t", "name": "mark", "cat": "user_annotation", "pid": first.pid, "tid": first.pid, "ts": first.us(13 * MS)})
    trace, said = merged(tmp_path, [first, second], "--steps", "0,3-4")
    steps = [sorted(int(e["name"].partition("#")[2]) for e in of_rank(trace, n) if e["name"].startswith("ProfilerStep#")) for n in range(2)]
    assert steps == [[0, 3, 4], [3, 4]] and said == []
    assert names(trace) == {"ProfilerStep#0": 1, "ProfilerStep#3": 2, "ProfilerStep#4": 2, "aten::mm": 5, "gemm": 5, ALLREDUCE: 5, "across": 1}
    assert names(trace, "b") == {"range 0": 1, "range 2": 1, "range 4": 1} and names(trace, "e") == {"range 0": 1, "range 2": 1}
    assert names(trace, "s") == names(trace, "f") == {"ac2g": 6} and not names(trace, "i")


def test_only_some_categories(tmp_path):
    ranks = [training(n) for n in range(2)]
    for one in ranks:
        one.events += [{"ph": "C", "name": "memory", "pid": one.pid, "ts": one.us(5), "args": {"bytes": 1}}]
    trace, said = merged(tmp_path, ranks, "--only", "kernel, odd")
    assert names(trace) == {**{f"ProfilerStep#{n}": 2 for n in range(6)}, "gemm": 12, ALLREDUCE: 12}, "steps stay"
    assert not names(trace, "s") and not names(trace, "C") and names(trace, "M")["process_name"] == 4
    assert said == ["cprof: no event has the category odd; there are: ac2g, counter, cpu_op, kernel, user_annotation"]
    trace, _ = merged(tmp_path, ranks, "--only", "kernel,cpu_op,ac2g,counter", "--force")
    assert names(trace, "s") == names(trace, "f") == {"ac2g": 12} and names(trace, "C") == {"memory": 2} and names(trace)["aten::mm"] == 12


@perfetto.needed
def test_perfetto_reads_what_is_left(tmp_path):
    merged(tmp_path, [training(n) for n in RANKS], "--ranks", "0-2", "--steps", "1-2", "--only", "kernel,cpu_op,ac2g", name="merged.json.gz")
    path = tmp_path / "merged.json.gz"
    assert perfetto.import_errors(path) == []
    assert perfetto.query(path, "select count(*) as n from flow") == [{"n": 6}]


def test_what_cannot_be_meant_is_refused(tmp_path):
    paths, out = [training(n).write(tmp_path) for n in range(2)], tmp_path / "out.json"
    for options, said in ((["--ranks", "7"], "there are 0, 1"), (["--ranks", "3-1"], "--ranks=3-1: must be numbers and ranges"),
                          (["--steps", "a"], "--steps=a: must be"), (["--manifest", "--only", "kernel"], "keeps the traces as they are")):
        refused(cprof("merge", *paths, "-o", out, *options), said)
    trace, said = merged(tmp_path, [training(0), training(1, first=10)], "--steps", "2", name="one.json")
    assert len(said) == 1 and said[0].endswith("rank1-1.json: has none of the steps 2") and names(trace)["aten::mm"] == 1


@pytest.mark.parametrize("jobs", [1, 2])
def test_too_large_a_result_says_what_to_leave_out(tmp_path, jobs):
    paths = [str(training(n).write(tmp_path)) for n in RANKS]
    size = sum(one.size for one in merge._write(merge.parts_of(paths, False), str(tmp_path), 1))
    before = set(tmp_path.iterdir())
    with pytest.raises(merge.Problem, match=r"--ranks.*--steps.*of rank 0's events are 33% kernel, 33% ac2g, 17% "):
        merge.merge(paths, str(tmp_path / "out.json"), jobs=jobs, limit=size - 1)
    assert set(tmp_path.iterdir()) == before, "nothing is left"
    merge.merge(paths, str(tmp_path / "out.json"), jobs=jobs, limit=size)
    assert names(support.loads_plainly(tmp_path / "out.json"))["aten::mm"] == 4 * 6


def test_filter_holds_ranges_until_they_end():
    """Of two with one id, the inner one ends first."""
    wanted = chosen_events.Filter(None, [(10_000, 20_000), (30_000, 40_000)])
    events = [{"ph": ph, "cat": "c", "id": 1, "pid": 1, "name": name, "ts": at} for ph, name, at in
              (("b", "outer", 1), ("b", "inner", 2), ("e", "inner", 3), ("e", "outer", 11), ("b", "open", 35), ("b", "late", 41))]
    assert [e["name"] for e in wanted(events)] == ["outer", "outer"] and [e["name"] for e in wanted.rest()] == ["open"]
