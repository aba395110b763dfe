# SPDX-License-Identifier: Apache-2.0
"""Tests the Perfetto harness: it must report errors, or an empty list of errors would mean nothing."""

import json

import pytest

import perfetto

pytestmark = perfetto.needed


def write(path, *events):
    path.write_text(json.dumps({"traceEvents": list(events)}))
    return path


def span(name, ts, dur, tid=1):
    return {"ph": "X", "name": name, "pid": 1, "tid": tid, "ts": ts, "dur": dur}


def test_clean_trace_has_no_errors(tmp_path):
    trace = write(tmp_path / "t.json", span("outer", 1.5, 10), span("inner", 2, 3.25))
    assert perfetto.import_errors(trace) == []
    rows = perfetto.query(trace, "select name, ts, dur, depth from slice order by ts")
    assert rows == [{"name": "outer", "ts": 1500, "dur": 10000, "depth": 0},
                    {"name": "inner", "ts": 2000, "dur": 3250, "depth": 1}]


def test_finds_overlapping_slices(tmp_path):
    trace = write(tmp_path / "t.json", span("a", 1, 10), span("b", 5, 10))
    assert "overlapping_complete_event" in perfetto.import_errors(trace)[0]["name"]


def test_finds_an_arrow_back_in_time(tmp_path):
    trace = write(tmp_path / "t.json", span("a", 10, 5), span("b", 1, 5, tid=2),
                  {"ph": "s", "id": 1, "name": "x", "cat": "x", "pid": 1, "tid": 1, "ts": 11},
                  {"ph": "f", "bp": "e", "id": 1, "name": "x", "cat": "x", "pid": 1, "tid": 2, "ts": 2})
    assert [row["name"] for row in perfetto.import_errors(trace)] == ["flow_end_without_start"]


def test_cut_file_is_refused_and_the_next_one_loads(tmp_path):
    cut = tmp_path / "cut.json"
    cut.write_text('{"traceEvents":[' + json.dumps(span("a", 1, 1)))
    assert [row["name"] for row in perfetto.import_errors(cut)] == ["refused"]
    assert perfetto.import_errors(write(tmp_path / "t.json", span("a", 1, 1))) == []


def test_bad_sql_raises_and_the_trace_stays_usable(tmp_path):
    trace = write(tmp_path / "t.json", span("a", 1, 1))
    with pytest.raises(perfetto.PerfettoError, match="no such table"):
        perfetto.query(trace, "select * from nothing_of_that_name")
    assert perfetto.query(trace, "select count(*) as n from slice") == [{"n": 1}]


def test_screenshot_is_a_png(tmp_path):
    trace = write(tmp_path / "t.json", span("a", 1, 10))
    perfetto.screenshot(trace, tmp_path / "t.png")
    data = (tmp_path / "t.png").read_bytes()
    assert data.startswith(b"\x89PNG") and len(data) > 5000
