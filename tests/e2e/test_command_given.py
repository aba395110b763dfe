# SPDX-License-Identifier: Apache-2.0
"""Which traces a sub-command reads: files, a run's folder, its traces' folder, or the newest run below the current folder."""

import json
import os

import pytest

import tool
from command_runs import STEPS, cprof, python


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two runs of one rank each below the current folder. The older run has the later name."""
    for age, name in enumerate(("new", "old")):
        folder = tmp_path / name / "torch_traces"
        folder.mkdir(parents=True)
        trace = tool.write(folder / "rank0.5.pt.trace.json", [tool.span(f"aten::{name}", 0, 10)])
        os.utime(trace, (1e9 - age, 1e9 - age))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def names(result):
    """The operators of a table."""
    assert result.rc == 0, result.err
    return {row["name"] for row in json.loads(result.out)["rows"]}


def calls(result):
    """How often the range of each step was there."""
    return next(row["count"] for row in json.loads(result.out)["rows"] if row["name"] != "ProfilerStep*")


@pytest.mark.parametrize("given", ["old", "old/torch_traces", "old/torch_traces/rank0.5.pt.trace.json"])
def test_reads_a_run_its_folder_or_its_trace(runs, given):
    assert names(tool.cprof("top", "--json", given)) == {"aten::old"}


def test_reads_and_names_the_newest_run_by_default(runs):
    result = tool.cprof("top", "--json")
    assert names(result) == {"aten::new"}
    assert result.err == "cprof: new/torch_traces: the newest run below this folder\n"


@pytest.mark.parametrize("variables, folder, more", [
    ({"FOLDER": "traces"}, "traces", ""), ({"FOLDER": "."}, ".", ""), ({"FOLDER": "out/{run_name}/x"}, "out/mine/x", ""),
    ({"FILENAME": "x/{rank}.json"}, "mine/torch_traces/x", ""), ({"FOLDER": "{run_name}/{rank}"}, "mine/0", " (in 2 folders)"),
    ({"FOLDER": "n{rank}/{run_name}"}, "n0/mine", " (in 2 folders)"), ({"TENSORBOARD_DIR": "tb"}, "tb", ""),
    ({"TENSORBOARD_DIR": "tb", "USE_GZIP": "1"}, "tb", "")], ids=str)
def test_finds_the_newest_run_in_any_folder(runs, variables, folder, more):
    """An older run of another name lies in the same places. The newest has two ranks."""
    for name, count in (("before", 1), ("mine", 2)):
        for rank in range(count):
            done = cprof("run", "-q", "--run-name", name, "--overwrite", *python(STEPS.replace("work", name)), cwd=runs,
                         env={**{f"CPROF_{key}": value for key, value in variables.items()}, "RANK": str(rank)})
            assert done.returncode == 0, done.stderr
    result = tool.cprof("top", "--json")
    assert result.err.splitlines()[0] == f"cprof: {folder}: the newest run below this folder{more}", result.err
    assert names(result) == {"ProfilerStep*", "mine"} and calls(result) == 8, "four steps of each rank"


def test_newest_run_below_a_folder_is_one_run(runs):
    """Two experiments have the same run name. Hidden folders, a loop of links and other people's JSON files are no runs."""
    for place in ("a", "b"):
        (runs / place).mkdir()
        assert cprof("run", "-q", "--run-name", "train", *python(STEPS.replace("work", place)), cwd=runs / place).returncode == 0
    (runs / ".hidden").mkdir()
    tool.write(runs / ".hidden/x.pt.trace.json", [tool.span("aten::hidden", 0, 10)])
    (runs / "b/loop").symlink_to(runs)
    (runs / "b/package.json").write_text("{}")
    result = tool.cprof("top", "--json")
    assert result.err.splitlines()[0] == "cprof: b/train/torch_traces: the newest run below this folder"
    assert names(result) == {"ProfilerStep*", "b"} and calls(result) == 4


def test_compare_accepts_runs(runs):
    result = tool.cprof("compare", "old", "new", "--json")
    assert {(row["name"], row["state"]) for row in json.loads(result.out)["rows"]} == {("aten::old", "gone"), ("aten::new", "new")}, result.err


def test_events_of_several_traces_lists_them(runs):
    assert "aten::old" in tool.cprof("events", "old", "--name", "aten::*").out
    tool.write(runs / "old/torch_traces/rank1.5.pt.trace.json", [tool.span("aten::old", 0, 10)])
    result = tool.cprof("events", "old")
    assert result.rc == 2
    assert result.err == ("cprof: one trace is needed, there are 2: old/torch_traces/rank0.5.pt.trace.json, old/torch_traces/rank1.5.pt.trace.json\n")


def test_check_reads_all_traces_of_a_run(runs):
    tool.write(runs / "old/torch_traces/rank1.5.pt.trace.json", [tool.span("aten::old", 0, 10)])
    assert tool.cprof("check", "old").out.count("nothing wrong") == 2


def test_reports_a_missing_run_or_trace(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = tool.cprof("top")
    assert (result.rc, result.err) == (2, "cprof: no trace was named, and no run is below this folder (such as NAME/torch_traces/*.json)\n")
    (tmp_path / "empty").mkdir()
    result = tool.cprof("top", "empty")
    assert (result.rc, result.err) == (2, "cprof: empty: holds no traces (*.json, *.json.gz)\n")
    (tmp_path / "killed/torch_traces").mkdir(parents=True)
    (tmp_path / "killed/torch_traces/rank0.json.7.1.part").write_text("{")
    result = tool.cprof("top", "killed")
    assert (result.rc, result.err) == (2, "cprof: killed: holds no traces (*.json, *.json.gz); it holds open files (*.part): name one, or "
                                          "cprof recover killed/torch_traces\n")
