# SPDX-License-Identifier: Apache-2.0
"""`cprof open` converts a trace to Perfetto's own format. Perfetto must find in it what the trace has, with the same names and order."""

import json
import sys

import pytest

import perfetto
import perfetto_check
import support
from command_runs import Rank
from conftest import ROOT
from cprof.tool.view import write_view
from gpu_runs import gpu_run, needed

pytestmark = perfetto.needed

SLICES = "select name, category, ts, dur, depth from slice order by ts, dur desc, depth, name"


def view_of(trace, folder, title="title"):
    path = folder / "view"
    with open(path, "wb") as out:
        write_view(str(trace), out, title)
    assert perfetto.import_errors(path) == []
    return path


def rows_of(view):
    """The names of all rows and groups, from top to bottom."""
    perfetto.query(view, "select 1")
    return perfetto_check.shared().run("(() => { const walk = t => [t.name, ...t.children.flatMap(walk)]; "
                                       "return app.trace.workspace.children.flatMap(walk); })()", 60)


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """The trace of a training with stacks, and its view."""
    folder = tmp_path_factory.mktemp("training")
    run = support.run([sys.executable, ROOT / "tests/e2e/train_cnn.py"], folder, WITH_STACK=1, RECORD_SHAPES=1)
    return run.traces[0], view_of(run.traces[0], folder)


def test_view_holds_all_events_of_the_trace(training):
    trace, view = training
    assert [{**row, "depth": 0} if row["name"] == "[memory]" else row for row in perfetto.query(view, SLICES)] == \
        [{**row, "depth": 0} if row["name"] == "[memory]" else row for row in perfetto.query(trace, SLICES)]
    arrows = ("select o.name as begin, o.ts as t, i.name as end, i.ts from flow f join slice i on f.slice_in = i.id join slice o on "
              "f.slice_out = o.id order by o.ts, i.ts, i.name")
    assert perfetto.query(view, arrows) == perfetto.query(trace, arrows) != []
    counters = "select t.name as name, ts, value from counter c join counter_track t on c.track_id = t.id order by 1, 2, 3"
    # Perfetto reads "1.84956" of a JSON trace as 1.8495599999999999.
    assert perfetto.query(view, counters) == [{**row, "value": pytest.approx(row["value"], rel=1e-12)}
                                              for row in perfetto.query(trace, counters)] != []


def test_rows_keep_names_and_order(training):
    trace, view = training
    thread, = {event["args"]["name"] for event in support.events(support.load(trace), ph="M", name="thread_name")} - {"steps"}
    assert rows_of(view) == ["python", "steps", thread, "memory", "Compute CPU GFLOP/s", "Memory CPU allocated bytes"]


def test_shows_a_line_for_each_frame(training):
    trace, view = training
    event = support.events(support.load(trace), ph="X", name="aten::conv2d")[0]
    frames = event["args"]["Call stack"].split(";")[:-1]
    assert frames[0].startswith("torch/nn/modules/conv.py(") and frames[-1].startswith("train_cnn.py(")
    shown = perfetto.query(view, "select a.key as key, a.string_value as line from slice s join args a using (arg_set_id) where "
                                 f"s.ts = {support.to_ns(event['ts'])} and s.name = 'aten::conv2d' and a.key glob 'debug.Call stack*'")
    lines = {row["key"]: row["line"] for row in shown}
    assert lines == {f"debug.Call stack[{n}]": frame.replace("(", ":", 1).replace("): ", " ", 1) for n, frame in enumerate(frames)}


def test_shows_arguments_on_one_line(training):
    _, view = training
    shown = perfetto.query(view, "select distinct a.string_value as dims from slice s join args a using (arg_set_id) where "
                                 "s.name = 'aten::conv2d' and a.key = 'debug.Input Dims'")
    assert {"dims": "[[16, 3, 32, 32], [16, 3, 3, 3], [16], [], [], [], []]"} in shown


@needed
def test_shows_the_rows_of_each_gpu(tmp_path):
    run = gpu_run("train", tmp_path, "--steps", 200, env={"SIM_NVML": "throttle=4"}, ACTIVE=190)
    view = view_of(run.traces[0], tmp_path)
    rows = rows_of(view)
    assert rows[:3] == ["title", "train", "steps"] and rows[3].startswith("thread ")
    of_a_device = [f"{what}stream {n}" for n in (13, 14) for what in ("", "ranges on ", "waits on ")]
    first = rows.index("GPU 0 NVIDIA H100 80GB HBM3")
    second = rows.index("GPU 1 NVIDIA H100 80GB HBM3")
    assert rows[first + 1:first + 9] == [*of_a_device, "events", "DRAM bandwidth %"] == rows[second + 1:second + 9]
    assert rows[second - 2:second] == ["Tensor activity %", "Throttled: power limit on"]
    count = "select category, count(*) as n from slice group by 1 order by 1"
    assert perfetto.query(view, count) == perfetto.query(run.traces[0], count)
    arrows = "select count(*) as n from flow"
    assert perfetto.query(view, arrows) == perfetto.query(run.traces[0], arrows)


def test_shows_ranges_in_every_form(tmp_path):
    """Nested B and E events, asynchronous ranges with and without an end, spans that overlap in part, and an arrow to two kernels."""
    one = Rank(0)
    one.span("whole", 0, 100)
    one.span("over its end", 50, 100)
    for at, ph, name in ((5, "B", "inside"), (9, "B", "deeper"), (15, "E", "deeper"), (20, "E", "")):
        one.events.append({"ph": ph, "name": name, "pid": one.pid, "tid": 77, "ts": one.us(at)})
    for at, ph, name, number in ((1, "b", "range", "0x1"), (2, "b", "within", "0x1"), (3, "b", "range", "0x2"), (4, "e", "within", "0x1"), (6, "e", "range", "0x1")):
        one.events.append({"ph": ph, "name": name, "cat": "nvtx", "id": number, "pid": one.pid, "tid": 77, "ts": one.us(at)})
    one.events.append({"ph": "s", "id": 9, "cat": "ac2g", "name": "ac2g", "pid": one.pid, "tid": one.pid, "ts": one.us(0)})
    for at in (200, 300):
        one.kernel(f"kernel at {at}", at, 10)
        one.events.append({"ph": "f", "bp": "e", "id": 9, "cat": "ac2g", "name": "ac2g", "pid": 0, "tid": 7, "ts": one.us(at)})
    view = view_of(one.write(tmp_path), tmp_path)
    first = round(one.us(0) * 1000)
    found = {(row["name"], (row["ts"] - first) // 1000, row["dur"] // 1000, row["depth"]) for row in perfetto.query(view, SLICES)}
    assert found == {("whole", 0, 100, 0), ("over its end", 50, 100, 0), ("inside", 5, 15, 0), ("deeper", 9, 6, 1), ("range", 1, 5, 0), ("within", 2, 2, 1),
                     ("range", 3, 297, 0), ("kernel at 200", 200, 10, 0), ("kernel at 300", 300, 10, 0)}
    arrows = perfetto.query(view, "select o.name as begin, i.name as end from flow f join slice i on f.slice_in = i.id join slice o on f.slice_out = o.id")
    assert sorted(map(tuple, map(dict.values, arrows))) == [("whole", "kernel at 200"), ("whole", "kernel at 300")]
    assert rows_of(view) == ["title", "python", "thread 77", f"thread {one.pid}", "range", "process 0", "thread 7"]


def test_names_rows_of_a_torch_profiler_trace(tmp_path):
    """torch.profiler gives devices the same name and different labels, and ends the names of rows with a space."""
    events = [{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": 0, "args": {"name": "python"}} for pid in (70, 0, 1)]
    events += [{"ph": "M", "name": "process_labels", "pid": pid, "tid": 0, "ts": 0, "args": {"labels": label}}
               for pid, label in ((70, "CPU"), (0, "GPU 0"), (1, "GPU 1"))]
    events += [{"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "ts": 0, "args": {"sort_index": place}}
               for pid, place in ((70, 70), (0, 5000000), (1, 5000001))]
    events += [{"ph": "M", "name": "thread_name", "pid": 0, "tid": 7, "ts": 0, "args": {"name": "stream 7 "}}]
    events += [{"ph": "X", "name": "x", "cat": "c", "pid": pid, "tid": tid, "ts": 1.5, "dur": 2} for pid, tid in ((0, 7), (70, 70))]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
    assert rows_of(view_of(tmp_path / "t.json", tmp_path)) == ["title", "python", "thread 70", "python GPU 0", "stream 7"]


def test_perfetto_accepts_odd_values(tmp_path):
    """Perfetto loads the file whatever values names and arguments have."""
    odd = [None, True, -1, 2**63, -(2**70), 1e300, float("nan"), "", "é\u0000\ud800", [], {"a": [1]}, ";", "a;b;"]
    events = [{"ph": ph, "name": name, "cat": name, "pid": name, "tid": name, "ts": 1.0 + n, "dur": 1, "id": name, "args": {"x": name, "Call stack": name}}
              for n, name in enumerate(odd) for ph in ("X", "i", "C", "s", "f", "B", "b", "M")]
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events}))
    view = view_of(tmp_path / "t.json", tmp_path)
    assert perfetto.query(view, "select count(*) as n from slice")[0]["n"] == 4 * len(odd)
