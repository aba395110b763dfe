# SPDX-License-Identifier: Apache-2.0
"""`cprof ranks` on many ranks by their summaries: the planted fault is named first. `make bench-fleet` has the full sizes."""

import bisect
import itertools
import json
import re
import types

import numpy
import pytest

from cprof.tool import collectives
from cprof.tool.ranks import Cell
from cprof.tool.report_page import summaries_page
from fleet import Fleet
from command_runs import MS, Rank, cprof
from pages import Page

RANKS = 64


def ranks(folder, *more):
    done = cprof("ranks", folder, *more)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("fault, by, steps, named", [
    ("slow GPU", 1.15, None, "slow GPU: rank 17 (node002) computes "),
    ("slow host", 1.5, None, "slow host: node002 (ranks 16-23) keeps its GPU idle "),
    ("late data", 8, (3, 6, 9), "late data: rank 17 (node002) waits "),
    ("slow copies", 6, None, "slow copies: rank 17 (node002) copies "),
    ("uneven stages", 1.08, None, "uneven work: ranks 16-31 compute "),
    ("slow link", 3, None, "slow link: allreduce among ranks 17, 25 takes 3.0 times as long as in other groups of 2: ")])
def test_planted_fault_is_named_first(tmp_path, fault, by, steps, named):
    run = Fleet(RANKS, seed=len(fault))
    run.plant(fault, by, rank=17, steps=steps)
    run.write(tmp_path)
    first = ranks(tmp_path).stdout.splitlines()[0]
    assert first.startswith(named), first
    assert first.endswith("in 3 of 11 steps: 103, 106, 109" if steps else ("in all 12 steps" if fault == "slow link" else "in all 11 steps")), first
    [cause] = json.loads(ranks(tmp_path, "--json").stdout)["causes"]
    assert cause["text"] == first and 17 in cause["ranks"] and 0.01 < cause["share"] < 1


def coarser(path, left_out=0):
    """Rewrites a summary as that of a window with more steps and collectives than the file takes: two steps share a row, collectives are summed.
    left_out: steps at the end that the window does not have."""
    about, steps, collectives, *rest = map(json.loads, path.read_text().splitlines())
    steps, found = steps["steps"], collectives["collectives"]
    for columns in (steps, steps["devices"][0]) if left_out else ():
        columns.update({name: column[:-left_out] for name, column in columns.items() if type(column) is list and name != "devices"})
    rows = [[n for n, number in enumerate(steps["step"]) if number // 2 == half] for half in sorted({number // 2 for number in steps["step"]})]
    starts = [steps["start"][own[0]] for own in rows]
    device = {name: [sum(column[n] for n in own) for own in rows] for name, column in steps["devices"][0].items() if name != "device"}
    joined = {"joined": 2, "truncated": True, "step": [steps["step"][own[0]] for own in rows], "count": [len(own) for own in rows], "start": starts,
              "total": [sum(steps["total"][n] for n in own) for own in rows], "left_out": ["first step"] + [None] * (len(rows) - 1),
              "devices": [{"device": "cuda:0", **device}]}
    sums = {}
    for start, duration, key, size in zip(itertools.accumulate(found["start_delta"]), found["duration"], found["key"], found["bytes"]):
        at = bisect.bisect(starts, start) - 1
        if start >= starts[-1] + steps["total"][-1] * 2:
            continue
        count, time, total, covered, end = sums.get((at, key), (0, 0, 0, 0, 0))
        sums[at, key] = (count + 1, time + duration, total + size, covered + duration, max(end, start + duration - starts[at]))
    summed = {"keys": found["keys"], "sums": [[*where, *row] for where, row in sorted(sums.items())], "truncated": True}
    path.write_text("".join(json.dumps(line) + "\n" for line in (about, {"steps": joined}, {"collectives": summed}, *rest)))


@pytest.mark.parametrize("fault, by, named", [("slow GPU", 1.15, "slow GPU: rank 17 (node002) computes "), ("late data", 8, "late data: rank 17 (node002) waits "),
                                              ("slow link", 3, "slow link: allreduce among ranks 17, 25 takes 3.0 times as long as in other groups of 2: ")])
def test_summaries_of_long_windows_name_the_same(tmp_path, fault, by, named):
    """One rank's summary has steps that share rows, and sums of collectives; those of the others are read as if they had no more."""
    run = Fleet(RANKS, seed=len(fault))
    run.plant(fault, by, rank=17, steps=(3, 6, 9) if fault == "late data" else None)
    run.write(tmp_path)
    shown, exact = ranks(tmp_path), json.loads(ranks(tmp_path, "--json").stdout)
    for path in tmp_path.glob("rank3*.summary") if fault != "slow GPU" else tmp_path.iterdir():
        coarser(path)
    done, found = ranks(tmp_path), json.loads(ranks(tmp_path, "--json").stdout)
    assert done.stdout.splitlines()[0].startswith(named) and shown.stdout.startswith(named)
    assert "cprof: the windows are long: 2 steps count as one, named by its first step\n" in done.stderr and found["joined"] == 2 and found["summed"]
    assert "cprof: the windows have many collectives: " in done.stderr and not exact["summed"] and "windows are long" not in shown.stderr
    [cause], [before] = found["causes"], exact["causes"]
    assert [cause[name] for name in ("share", "cost_ns")] == pytest.approx([before[name] for name in ("share", "cost_ns")], rel=0.25) and cause["ranks"] == before["ranks"]
    if fault == "late data":
        assert cause["steps"] == [102, 106, 108] and before["steps"] == [103, 106, 109]
    if fault == "slow GPU":  # of the pair that is late to the others' collectives
        assert [row["rank"] for row in found["ranks"]][:2] == [row["rank"] for row in exact["ranks"]][:2] == [25, 17]


def test_a_shorter_row_at_the_end_of_a_window_is_not_compared(tmp_path):
    """One rank's window ends a step earlier, in the middle of a row that the others have whole."""
    Fleet(RANKS, seed=4).write(tmp_path)
    for path in tmp_path.iterdir():
        coarser(path, left_out=path.name.startswith("rank60."))
    found = json.loads(ranks(tmp_path, "--json").stdout)
    assert "110" in found["steps"] and "60" not in found["steps"]["110"] and "60" in found["steps"]["108"] and len(found["steps"]["110"]) == RANKS - 1
    assert found["causes"] == [] and max(row["cost_sum_ns"] for row in found["ranks"]) < 10e6
    assert max(abs(clock["offset_ns"]) for clock in found["clocks"].values()) < 20e6


def test_collectives_that_overlap_count_once():
    """Two threads communicate at a time."""
    one = collectives.Times("t.json")
    one.steps, one.collectives = {4: (0, 1000), 5: (1000, 2000)}, collectives.Collectives()
    for start, end in ((100, 300), (150, 350), (400, 500), (1100, 1200)):
        one.collectives.add(start, end, ("all_reduce", "", 2), 8)
    one.join(collectives.Times("u.json"))
    one.coarsen(1, True)
    assert [(found.start, found.end, found.bytes) for found in one.collectives] == [(150, 500, 24), (1100, 1200, 8)]


def test_a_folder_of_traces_and_summaries_has_all_ranks(tmp_path):
    """Summaries whose trace is elsewhere count beside the traces."""
    for rank in range(4):
        run = Rank(rank, world=4)
        for step in range(4):
            run.step(step, step * 10 * MS, 10 * MS)
            run.span("gloo:all_reduce", step * 10 * MS + 4 * MS, (1 if rank == 2 else 3) * MS, "user_annotation")
        path = run.write(tmp_path, f"rank{rank}.json")
        if rank < 2:
            assert cprof("summarize", path).returncode == 0
            path.unlink()
    done = ranks(tmp_path, "--json")
    assert {row["rank"] for row in json.loads(done.stdout)["ranks"]} == {0, 1, 2, 3}
    for command in ("explain", "report"):
        refused = cprof(command, tmp_path, *(["-o", tmp_path / "r.html"] if command == "report" else []))
        assert refused.returncode == 2 and "is a summary, and others are traces" in refused.stderr


def test_two_faults_are_both_named_the_larger_one_first(tmp_path):
    run = Fleet(RANKS, seed=5)
    run.plant("late data", 20, rank=3)
    run.plant("slow GPU", 1.1, rank=50)
    run.write(tmp_path)
    first, second = ranks(tmp_path).stdout.splitlines()[:2]
    assert first.startswith("late data: rank 3 (node000) ") and second.startswith("slow GPU: rank 50 (node006) ")


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_named_in_a_healthy_run(tmp_path, seed):
    Fleet(RANKS, seed=seed).write(tmp_path)
    assert json.loads(ranks(tmp_path, "--json").stdout)["causes"] == []


def test_more_kernels_are_no_slow_gpu(tmp_path):
    run = Fleet(RANKS, seed=2)
    run.plant("slow GPU", 1.15, rank=9)
    run.write(tmp_path)
    path = tmp_path / "rank9.100.pt.trace.json.summary"
    path.write_text(path.read_text().replace('"launches": [400', '"launches": [460').replace(", 400", ", 460"))
    first = ranks(tmp_path).stdout.splitlines()[0]
    assert first.startswith("more work: rank 9 (node001) computes ") and "the median rank, with 460 kernels and copies in a step instead of 400, in" in first


def test_tables_and_clocks_stay_short(tmp_path):
    Fleet(RANKS * 2, seed=1).write(tmp_path)
    done = ranks(tmp_path)
    assert "(32 of 128 ranks: those with the largest cost; --json has all)" in done.stdout
    assert [line for line in done.stderr.splitlines() if "clock" in line] == [line for line in done.stderr.splitlines() if "clocks of 16 hosts: 15 aligned" in line]
    assert len(json.loads(ranks(tmp_path, "--json").stdout)["ranks"]) == 128


def test_page_of_many_ranks_shows_the_late_ones(tmp_path):
    """The heat map has a row for several ranks, as high as its label, with the latest rank's time."""
    run = Fleet(RANKS * 2, seed=4)
    run.plant("late data", 15, rank=70, steps=[3, 8])
    run.write(tmp_path / "run")
    made = cprof("report", tmp_path / "run", "-o", tmp_path / "report.html")
    assert made.returncode == 0, made.stderr
    with Page(tmp_path / "report.html") as page:
        assert page("document.querySelector('section p').innerText").startswith("late data: rank 70 (node008) waits ")
        assert page("document.querySelectorAll('.map .up span').length") == RANKS and page("document.querySelectorAll('.heat rect').length") == RANKS * 12
        assert page("Math.abs(document.querySelector('.heat').getBoundingClientRect().height"
                    " - document.querySelector('.map .up').getBoundingClientRect().height)") < 2
        darkest = page("[...document.querySelectorAll('.heat rect')].sort((a, b) => b.getAttribute('fill-opacity') - a.getAttribute('fill-opacity'))"
                       ".slice(0, 2).map(one => one.textContent.split(':')[0]).sort().join()")
    assert darkest == "rank 70, step 103,rank 70, step 108"


def test_heat_map_of_1024_ranks_and_500_steps(tmp_path):
    """A rank that is always slow, a host that is for 60 steps, and a single slow step all show."""
    own = numpy.random.default_rng(1).lognormal(0, 0.02, (500, 1024)) * 90e6
    own[:, 17] *= 1.15
    own[200:260, 512:520] *= 1.2
    own[333, 900] *= 2
    table = {step: {rank: Cell(100_000_000, int(100_000_000 - own[step, rank]), 0) for rank in range(1024)} for step in range(500)}
    ranks = [{"rank": rank, "steps": 500, "cost_sum_ns": 0, "waited_sum_ns": 0, "own_ns": 1, "collective_ns": 1, "slowest_in": 0} for rank in range(1024)]
    text = summaries_page(["run/rank0.summary"], None, types.SimpleNamespace(ranks=ranks, table=table, worst=None, answer=lambda: ["an answer"]), [], 0)
    cells = [(float(opacity), int(rank), steps) for opacity, rank, steps in
             re.findall(r'fill-opacity="([\d.]+)"><title>rank (\d+), step ([^:]+):', text)]
    dark = [(rank, steps) for opacity, rank, steps in cells if opacity > 0.5]
    assert len(text) < 1_000_000 and len(cells) <= 6400
    assert {rank for rank, _ in dark} <= {17, *range(512, 520), 900}
    assert sum(rank == 17 for rank, _ in dark) == 100 and sum(512 <= rank < 520 for rank, _ in dark) == 12 and (900, "330 to 334") in dark


def test_runs_are_compared_by_their_summaries(tmp_path):
    """Kernels of all ranks got 10 % slower; a summary is refused beside a trace without one."""
    for name, by in (("before", 1.0), ("after", 1.1)):
        run = Fleet(16, seed=3)
        run.compute *= by
        run.write(tmp_path / name)
    done = cprof("compare", tmp_path / "before", tmp_path / "after", "--json")
    found = json.loads(done.stdout)
    assert found["step"]["steps_before"] == found["step"]["steps_after"] == 16 * 12 and 4 < found["step"]["percent"] < 9, found["step"]
    first = found["rows"][0]
    assert (first["kind"], first["name"]) == ("part", "computation") and first["difference"] == pytest.approx(0.1 * first["before"], rel=0.05)
    assert {row["kind"] for row in found["rows"]} <= {"part", "collective"}
    trace = tmp_path / "rank0.json"
    trace.write_text('{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 2}]}')
    refused = cprof("compare", tmp_path / "before", trace)
    assert refused.returncode == 2 and refused.stderr.endswith("(no summary): cprof summarize makes it\n")
    assert cprof("summarize", trace).returncode == 0
    shown = cprof("compare", tmp_path / "before", trace)
    assert (shown.returncode, shown.stderr) == (0, "cprof: by summaries alone: operators, calls and kernels are in the traces\n")


def test_times_beyond_all_clocks_are_no_error(tmp_path):
    """A damaged summary: its times add up to more than 64 bits."""
    Fleet(16, seed=1).write(tmp_path)
    path = tmp_path / "rank3.100.pt.trace.json.summary"
    path.write_text(path.read_text().replace('"start_delta": [', '"start_delta": [' + f"{2**61}, " * 5).replace('"duration": [', '"duration": [' + "1, " * 5)
                    .replace('"key": [', '"key": [' + "0, " * 5).replace('"bytes": [', '"bytes": [' + "1, " * 5).replace('"number": [', '"number": [' + "1, " * 5))
    ranks(tmp_path)
    path.write_text(path.read_text().replace('"key": [0', '"key": [9999'))
    assert ".summary: is damaged" in cprof("ranks", tmp_path).stderr
