# SPDX-License-Identifier: Apache-2.0
"""cprof.record_chrome_json_trace_file() merges another tool's trace. Here torch.profiler recorded the same steps in the same process. The
merged trace opens in Perfetto and HTA, and ranges that both profilers saw have the same times."""

import gzip
import json
import re
import sys
import time

import pytest

import consumers
import perfetto
import support
import test_consumers
from conftest import ROOT

TOLERANCE_NS = 1_000_000  # each profiler maps its own clock to the wall clock; on a quiet machine they differ by 1 us
MOVED = 10_000_000  # added to pids of the first merged file


@pytest.fixture(scope="module")
def merged(tmp_path_factory):
    """Path of the merged trace, its content, and torch.profiler's own trace."""
    pytest.importorskip("torch", reason="PyTorch is not installed in .venv")
    folder = tmp_path_factory.mktemp("merged")
    path = tmp_path_factory.mktemp("theirs") / "theirs.json.gz"
    done = support.run([sys.executable, ROOT / "tests/e2e/scripts/foreign.py", path, "removed"], folder,
                       env={"PYTHONPATH": str(ROOT / "scripts/python")}, WARMUP=0, SKIP_FIRST=1, ACTIVE=1)
    assert done.rc == 0 and done.complaints == [], done.err
    assert done.out.endswith(" True\n")
    kept = path.with_name(path.name + ".kept")
    return done.traces[0], support.load(done.traces[0]), json.loads(gzip.decompress(kept.read_bytes()))


def theirs_in(trace):
    return [e for e in trace["traceEvents"] if e["pid"] >= MOVED]


def ours_in(trace):
    return [e for e in trace["traceEvents"] if e["pid"] < MOVED]


def test_merges_every_event(merged):
    _, trace, theirs = merged
    account = trace["cprof"]["merged"]
    assert account == {"files": 1, "events": len(theirs["traceEvents"]), "left_out": 0}
    assert trace["cprof"]["lost"]["total"] == 0

    def names(events):
        return sorted(f'{e["ph"]} {e["name"]}' for e in events if e["ph"] != "M")

    assert names(theirs_in(trace)) == names(theirs["traceEvents"])
    assert support.events({"traceEvents": theirs_in(trace)}, ph="M", name="thread_name")


def test_merged_events_have_the_right_time(merged):
    """Ranges that both profilers saw have nearly the same times."""
    _, trace, theirs = merged
    apart = []
    for number in range(3):
        here = [e for e in support.events(trace, ph="X", name=f"both {number}")]
        ours, moved = sorted(here, key=lambda e: e["pid"])
        assert moved["tid"] == ours["tid"]
        apart.append(max(abs(a - b) for a, b in zip(support.span_ns(ours), support.span_ns(moved))))
        base = theirs["baseTimeNanoseconds"] - trace["baseTimeNanoseconds"]
        source = next(e for e in theirs["traceEvents"] if e["name"] == f"both {number}" and e["ph"] == "X")
        assert moved["pid"] == source["pid"] + MOVED
        assert abs(support.span_ns(moved)[0] - source["ts"] * 1000 - base) < 2  # ns, rounding of a float
    assert min(apart) < TOLERANCE_NS, apart  # the machine may interrupt a pair of clock readings


def test_merged_ids_do_not_collide(merged):
    _, trace, theirs = merged
    starts = [e["id"] for e in theirs["traceEvents"] if e["ph"] == "s"]
    moved = [e["id"] for e in theirs_in(trace) if e["ph"] == "s"]
    own = {e["id"] for e in ours_in(trace) if "id" in e}
    assert starts and len(set(moved)) == len(set(starts)) and not own & set(moved)
    ends = [e["id"] for e in theirs_in(trace) if e["ph"] == "f"]
    assert sorted(ends) == sorted(moved)
    external = {e["args"]["External id"] for e in ours_in(trace) if "External id" in e.get("args", {})}
    assert not external & {e["args"].get("External id") for e in theirs_in(trace) if "args" in e}


@perfetto.needed
def test_perfetto_reads_the_merged_trace(merged):
    path, trace, theirs = merged
    assert perfetto.import_errors(path) == []
    rows = perfetto.query(path, "select count(*) as n, p.pid >= 10000000 as foreign_one from flow "
                                "join slice s on s.id = flow.slice_out join thread_track t on s.track_id = t.id "
                                "join thread using (utid) join process p using (upid) group by 2 order by 2")
    count = {int(row["foreign_one"]): int(row["n"]) for row in rows}
    assert count[1] == sum(e["ph"] == "f" for e in theirs["traceEvents"])
    assert count[0] == sum(e["ph"] == "f" for e in ours_in(trace))


def test_hta_reads_the_merged_trace(merged):
    path, trace, _ = merged
    pytest.importorskip("hta", reason="HolisticTraceAnalysis is not installed in .venv")
    table = consumers.hta_table(path.parent)
    assert (table["pid"] >= MOVED).sum() == sum("dur" in e and e.get("cat") not in (None, "Trace") for e in theirs_in(trace))
    assert (table["pid"] < MOVED).sum() > 0


@pytest.fixture(scope="module")
def gpu(tmp_path_factory):
    """A trace with GPU rows (test_consumers.py), and the trace of a program without GPU that merged it."""
    alone, folder = tmp_path_factory.mktemp("alone"), tmp_path_factory.mktemp("gpu")
    path = test_consumers.training(alone, 0)
    text = path.read_text()
    base = f'"baseTimeNanoseconds": {600 * support.BASE_STEP_NS}'
    assert base in text
    now = time.time_ns() // support.BASE_STEP_NS * support.BASE_STEP_NS  # cprof's own base: earlier events would be left out
    path.write_text(text.replace(base, f'"baseTimeNanoseconds": {now}'))
    code = f"import cprof\ncprof.mark('ours')\ncprof.record_chrome_json_trace_file({str(path)!r})"
    done = support.run([sys.executable, "-c", code], folder, env={"PYTHONPATH": str(ROOT / "scripts/python")})
    assert done.rc == 0 and support.load(done.traces[0])["cprof"]["merged"]["left_out"] == 0, done.err
    return path, done.traces[0]


def test_hta_finds_the_same_in_merged_gpu_rows(gpu):
    """HTA's results of the merged trace equal those of the file: calls and kernels are joined by their new ids."""
    pytest.importorskip("hta", reason="HolisticTraceAnalysis is not installed in .venv")
    alone, merged = (consumers.hta(path.parent) for path in gpu)
    for row in merged["launches"][0]:
        row["correlation"] -= 1 << 33  # the merge adds this to the ids of calls and kernels
    for analysis in ("steps", "temporal", "kernels", "kernel_types", "idle", "overlap", "bandwidth", "queue", "launches", "critical"):
        assert alone[analysis] and merged[analysis] == alone[analysis], analysis


@perfetto.needed
def test_perfetto_finds_the_same_in_merged_gpu_rows(gpu):
    query = "select source.name as a, target.name as b, count(*) as n from flow join slice source on source.id = slice_out " \
            "join slice target on target.id = slice_in group by 1, 2 order by 1, 2"
    assert perfetto.import_errors(gpu[1]) == []
    arrows = perfetto.query(gpu[0], query)
    assert arrows and perfetto.query(gpu[1], query) == arrows


VIZTRACER = """
import cprof, sys, viztracer
around = cprof.marker("around")
def work(): return sum(range(100000))
tracer = viztracer.VizTracer(output_file=sys.argv[1], verbose=0)
tracer.start()
with around: work()
tracer.stop()
tracer.save()
print(cprof.record_chrome_json_trace_file(sys.argv[1]))
"""


def test_merges_a_trace_in_monotonic_time(tmp_path):
    """VizTracer's times are those of CLOCK_MONOTONIC, without a base. They must fall into this run."""
    pytest.importorskip("viztracer", reason="VizTracer is not installed in .venv")
    done = support.run([sys.executable, "-c", VIZTRACER, tmp_path / "viztracer.json"], tmp_path / "out",
                       env={"PYTHONPATH": str(ROOT / "scripts/python")})
    assert done.rc == 0 and done.out == "True\n", done.err
    trace = support.load(done.traces[0])
    around, = map(support.span_ns, support.events(trace, ph="X", name="around"))
    work, = (support.span_ns(e) for e in theirs_in(trace) if e["name"].startswith("work "))
    assert around[0] - TOLERANCE_NS < work[0] and work[1] < around[1] + TOLERANCE_NS


def test_reports_files_that_cannot_be_merged(tmp_path):
    bad, missing = tmp_path / "bad", tmp_path / "missing"
    bad.write_text('[{"ph": "i", "ts": 1},\n{"ph": }]')
    code = (f"import cprof\nprint(cprof.record_chrome_json_trace_file({str(bad)!r}), "
            f"cprof.record_chrome_json_trace_file({str(missing)!r}), cprof.record_chrome_json_trace_file('/tmp'))\ncprof.mark('m')")
    done = support.run([sys.executable, "-c", code], tmp_path / "out", env={"PYTHONPATH": str(ROOT / "scripts/python")})
    assert done.rc == 0 and done.out == "True False False\n"
    assert len(done.complaints) == 4, done.err  # the fourth: no step was marked
    assert any(re.search(r"/bad: byte 30 of its text: .*; it is not merged", line) for line in done.complaints)
    assert f"{missing}: No such file or directory; it is not merged" in done.complaints
    assert "/tmp: it is not a regular file; it is not merged" in done.complaints
    assert support.events(support.load(done.traces[0]), name="m")
