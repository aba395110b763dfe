# SPDX-License-Identifier: Apache-2.0
"""Which traces a sub-command reads: files, a run's folder, its traces' folder, or the newest run below the current folder."""

import json
import os

import pytest

import tool


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


@pytest.mark.parametrize("given", ["old", "old/torch_traces", "old/torch_traces/rank0.5.pt.trace.json"])
def test_reads_a_run_its_folder_or_its_trace(runs, given):
    assert names(tool.cprof("top", "--json", given)) == {"aten::old"}


def test_reads_and_names_the_newest_run_by_default(runs):
    result = tool.cprof("top", "--json")
    assert names(result) == {"aten::new"}
    assert result.err == "cprof: new/torch_traces: the newest run below this folder\n"


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
    assert (result.rc, result.err) == (2, "cprof: no trace was named, and no run is below this folder (NAME/torch_traces/*.json)\n")
    (tmp_path / "empty").mkdir()
    result = tool.cprof("top", "empty")
    assert (result.rc, result.err) == (2, "cprof: empty: holds no traces (*.json, *.json.gz)\n")
    (tmp_path / "killed/torch_traces").mkdir(parents=True)
    (tmp_path / "killed/torch_traces/rank0.json.7.1.part").write_text("{")
    result = tool.cprof("top", "killed")
    assert (result.rc, result.err) == (2, "cprof: killed: holds no traces (*.json, *.json.gz); it holds open files (*.part): name one, or "
                                          "cprof recover killed/torch_traces\n")
