# SPDX-License-Identifier: Apache-2.0
"""A program computes, prints and ends with cprof as it does without: each known way to disturb PyTorch has a test."""

import os
import re

import pytest

import support
import torch_runs
from conftest import matrix
from torch_runs import ALWAYS, Trace, assert_good, assert_told, printed, run, trace, traces

SHAPES = dict(ALWAYS, RECORD_SHAPES=1)


def assert_same(with_it, without):
    """Output and exit code are the same. On stderr, cprof adds one line."""
    assert (with_it.rc, with_it.out) == (without.rc, without.out)
    assert mask(with_it.others) == mask(without.others)
    assert_told(with_it)


def mask(text):
    """The text without its numbers: times, process ids and line numbers differ from run to run."""
    return re.sub(r"\d+", "N", text)


@torch_runs.needs_torch_2("the script asks storages for what 1.x has not")
def test_results_and_errors_are_the_same(tmp_path):
    """Compares losses bit by bit, random numbers, messages of failing operators and reference counts, in eager mode,
    TorchScript and autocast, and the exit code and traceback of the exception that ends the program. In a recorded step
    with shapes, `del` frees a tensor's memory at once."""
    without = run("harmless.py", tmp_path, "results", preload=False)
    assert re.search(r"^error (mm: )?mat1 and mat2 shapes cannot be multiplied \(2x3 and 5x5\)$", without.out, re.M)
    assert "error wrong in backward" in without.out and "alive False False" in without.out
    assert without.rc == 1 and "shapes cannot be multiplied (2x3 and 2x3)" in without.err
    done = run("harmless.py", tmp_path, "results", **SHAPES)
    assert_same(done, without)
    one, = traces(done)
    assert sorted(one.steps) == list(range(7)) and one.lost == 0
    assert len(one.ranges("^fails$")) == 8, "ranges that end by an exception are closed"
    assert one.account["unfinished"] == 0
    names = {e["name"] for e in one.ops()}
    assert {"aten::linear", "aten::_to_copy", "WrongBackward", "forward"} <= names, names
    assert len(one.ranges("^del$")) == 4
    for e in one.ranges("^del$"):
        start, end = support.span_ns(e)
        assert -4000 in [m["args"]["Bytes"] for m in one.memory() if start <= support.to_ns(m["ts"]) <= end]


def test_records_each_thread_on_its_own_row(tmp_path):
    """Each thread has all its operators on its own row, beside OpenMP. Allocations and releases match, also where one
    thread frees what another took. The cprof thread may use every processor although OpenMP has pinned the main thread."""
    pinned = {"OMP_PROC_BIND": "true", "OMP_NUM_THREADS": "2"}
    done = run("harmless.py", tmp_path, "threads", env=pinned, **ALWAYS)
    one, result = trace(done), printed(done)
    for number, tid in result["tids"]:
        row = [e for e in one.ops() if e["tid"] == tid]
        names = [e["name"] for e in row]
        assert names.count("aten::ones") == 50 and names.count("MulBackward0") == 50, (number, names.count("aten::ones"))
    rows = {e["tid"] for e in one.ops()}
    assert rows <= {tid for _, tid in result["tids"]} | {result["main"]}
    for number in (3, 5):
        made = [m for m in one.memory() if m["args"]["Bytes"] == 4000 * number]
        freed = [m for m in one.memory() if m["args"]["Bytes"] == -4000 * number]
        assert len(made) == len(freed) == 2
        assert {m["tid"] for m in freed} == {result["main"]} and result["main"] not in {m["tid"] for m in made}
        assert {m["args"]["Addr"] for m in made} == {m["args"]["Addr"] for m in freed}
    where = result["affinities"]
    assert where["cprof"] == sorted(os.sched_getaffinity(0))
    if len(os.sched_getaffinity(0)) == 1:
        pytest.skip("one processor: the affinity of the cprof thread shows nothing")
    if where["main"] == where["cprof"]:
        without = printed(run("harmless.py", tmp_path / "without", "threads", env=pinned, preload=False))["affinities"]
        assert where["main"] == without["main"]
        pytest.skip("this OpenMP does not pin the main thread, with cprof or without: its affinity shows nothing")


@torch_runs.needs_torch_2("its profiler's memory column differs from run to run")
def test_leaves_torch_profilers_table_alone(tmp_path):
    """torch.profiler's own table is the same: no column of memory that it did not record. cprof goes on afterwards."""
    without = run("harmless.py", tmp_path, "profiler", preload=False)
    done = run("harmless.py", tmp_path, "profiler", SKIP_FIRST=1, WAIT=0, WARMUP=1, ACTIVE=2, REPEAT=3)
    if done.out != without.out and run("harmless.py", tmp_path, "profiler", preload=False).out != without.out:  # Debian 13's torch 2.6
        pytest.skip("this torch's own table differs from run to run")
    assert "aten::addmm 12 " in without.out
    assert_same(done, without)
    assert [sorted(one.steps) for one in traces(done)] == [[2, 3], [5, 6], [8, 9]]
    assert [len(one.ops("^aten::addmm$")) for one in traces(done)] == [4, 4, 4]


FORKED = r"processes forked by \d+ run operators, which cprof does not record; it records spawned processes, with CPROF_TRACE_CHILDREN=1"


def test_forked_children_leave_no_events(tmp_path):
    """Forked children leave no event in the trace and no file. One line reports all of them."""
    without = run("harmless.py", tmp_path / "without", "forks", preload=False)
    ends = re.findall("child (.*)", without.out)
    if ends != ["7", "9", "9", "9"]:  # Debian 13's torch 2.6
        pytest.skip(f"a forked child that trains fails without the library, too: {without.err.splitlines()[-1]}")
    done = run("harmless.py", tmp_path, "forks", **ALWAYS)
    assert_good(done)
    assert re.findall("child (.*)", done.out) == ends and done.others == ""
    assert len(re.findall("loss", done.out)) == 4 + 3
    assert [line for line in done.complaints if not re.fullmatch(FORKED, line)] == [] and len(done.complaints) == 1
    assert len(support.files(tmp_path)) == 1
    one = Trace(done.traces[0])
    assert one.lost == 0 and sorted(one.steps) == [0, 1, 2, 3]
    assert one.ranges("in the child") == [] and len({(e["pid"], e["tid"]) for e in one.ops()}) == 1
    assert not any(m["args"]["Bytes"] == 4 * 12345 for m in one.memory())


@pytest.mark.parametrize("what,lines", [("children", 1), ("loaders", 0)])
def test_forked_workers_neither_hang_nor_leave_files(tmp_path, what, lines):
    """40 workers are forked beside a busy thread, while every step switches operators on and off. None hangs and none leaves a file.
    The same holds for workers of spawn and forkserver, which load the library themselves. Workers of a DataLoader get no line."""
    done = run("harmless.py", tmp_path, what, *matrix([120], 40), WAIT=1, WARMUP=0, ACTIVE=1, REPEAT=0)
    assert_good(done)
    assert len(done.complaints) == lines and done.others == "" and all(re.fullmatch(FORKED, line) for line in done.complaints), done.err
    recorded = printed(done)["steps"] // 2
    assert [p.name for p in sorted(support.files(tmp_path), key=support.natural)] == \
        [f"rank0.{2 * i + 2}.pt.trace.json" for i in range(recorded)]
    for at, path in enumerate(done.traces):  # of these many events the strict validator would take four times as long as the program
        one = support.load(path) if at in matrix(range(recorded), recorded // 2) else support.loads_plainly(path)
        assert len([e for e in one["traceEvents"] if e["name"] == "aten::linear" and e.get("cat") == "cpu_op"]) == 2
        lost = {cause for cause, n in one["cprof"]["lost"].items() if n}
        assert lost <= {"ring_full", "total"}, "on a busy machine the writer may fall behind the busy threads"


def package_of_version(folder, version):
    """A torch package of another version: links to the parts of the real one, and a version.py of its own."""
    import torch
    real = os.path.dirname(torch.__file__)
    (folder / "torch").mkdir()
    for entry in os.listdir(real):
        if entry not in ("version.py", "__pycache__"):
            os.symlink(os.path.join(real, entry), folder / "torch" / entry)
    text = open(os.path.join(real, "version.py")).read()
    changed = re.sub(r"^(__version__ = ')[\d.]+", rf"\g<1>{version}", text, flags=re.M)
    assert changed != text
    (folder / "torch" / "version.py").write_text(changed)
    return str(folder)


@torch_runs.needs_torch_2("without a layout it has no hook for optimizers either")
def test_records_steps_of_an_unknown_torch(tmp_path):
    """Of a torch with an unknown layout, cprof records no operators and reports it in one line. It still records steps
    and memory."""
    (tmp_path / "package").mkdir()
    path = package_of_version(tmp_path / "package", "99.1.0")
    env = {"PYTHONPATH": f"{path}:{torch_runs.SCRIPTS}"}
    done = run("steps.py", tmp_path / "traces", "one", env=env, **SHAPES)
    assert_good(done)
    why = "operators and ranges are not recorded: torch 99.1.0: its layout is not known to this version of cprof"
    assert done.complaints == [why + "; all else is"]
    one = Trace(done.traces[0])
    assert one.ops() == [] and len(one.memory()) > 100 and one.account["notes"] == [why]
    assert sorted(one.steps) == list(range(printed(done)["iterations"]))
    done = run("steps.py", tmp_path / "chosen", "gan", env=env, STEP="optimizer:Adam", **SHAPES)
    one = Trace(done.traces[0])
    assert sorted(one.steps) == list(range(printed(done)["iterations"])) and one.account["optimizers"] == {"SGD": 18, "Adam": 6}


