# SPDX-License-Identifier: Apache-2.0
"""Trace handlers: shared objects (c/libhandler_*.c), handlers of C and C++ programs (c/handlers.c, handlers_cpp.cpp), handlers in Python
(scripts/handlers.py) and Composer's marks. Also marks in skipped steps: only handlers and the next trace file get them."""

import collections
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import time

import pytest

import support
from conftest import BUILD, ROOT

LOG = support.PROGRAMS / "libhandler_log.so"
CSV = support.PROGRAMS / "libhandler_csv.so"
SCRIPT = ROOT / "tests/e2e/scripts/handlers.py"
COMPOSER = ROOT / "tests/e2e/scripts/like_composer"
MODULE = ROOT / "scripts/python"
TWO_STEPS = {"WARMUP": 1, "ACTIVE": 2, "STEP": "manual"}


def logged(path):
    """The calls that libhandler_log.so logged, as dictionaries."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def calls_of(calls, *kinds, arg="first"):
    return [c for c in calls if c["call"] in kinds and c["arg"] == arg]


def run_with_handlers(tmp_path, code, handlers, **settings):
    """Runs Python code that imports the module cprof, with these trace handlers."""
    env = {"PYTHONPATH": str(MODULE), "PYTHONDONTWRITEBYTECODE": "1"}
    return support.run([sys.executable, "-c", "import cprof, os, sys, threading, time\n" + code], tmp_path / "traces", env=env,
                       TRACE_HANDLERS=handlers, **{**TWO_STEPS, **settings})


STEPS = """
m = cprof.marker("work", categories=["data", "io"])
skips = cprof.marker("always", actions=list(cprof.Action))
for i in range(6):
    with m:
        m.instant()
        m.counter({"whole": i, "most": 2**62})
        m.counter({"real": 0.5})
    with skips: pass
    cprof.step(samples=4)
    if i % 3 == 2: cprof.epoch()
"""


# ---- shared objects ------------------------------------------------------------------------------------------

def test_example_handler_counts_by_category(tmp_path):
    done = run_with_handlers(tmp_path, STEPS, f"{CSV}={tmp_path}/counts.csv")
    rows = list(csv.DictReader((tmp_path / "counts.csv").open()))
    assert {row["category"]: int(row["count"]) for row in rows} == {"data": 3, "none": 6}
    assert all(int(row["total_ns"]) > 0 for row in rows) and done.complaints == []


def test_calls_come_in_order(tmp_path):
    """Handlers get every step, recorded or not. Marks of the thread that marks steps come in the order of time. A trace comes after its marks."""
    done = run_with_handlers(tmp_path, STEPS, f"{LOG}={tmp_path}/log", WARMUP=1, WAIT=1)
    assert done.rc == 0 and done.complaints == []
    calls = logged(tmp_path / "log")
    assert len({c["thread"] for c in calls}) == 1 and all(c["same"] for c in calls)
    assert calls[0]["call"] == "init" and calls[-1]["call"] == "close"
    order = [(c["call"], c.get("step"), c.get("name")) for c in calls if c["call"] not in ("init", "close")]
    expected = []
    for step in range(6):
        if step == 2:
            expected.append(("window_open", 2, None))
        if step in (1, 2, 3):
            expected += [("instant", step, "work"), ("counter", step, "work"), ("counter", step, "work"),
                         ("duration", step, "work"), ("duration", step, "work")]
        expected += [("duration", step, "always")] * 2 + [("step_end", step, None)]
        if step % 3 == 2:
            expected.append(("epoch_end", step + 1, None))
    rest = ["window_close", "chrome_json_file", "trace_ready"]
    assert [o for o in order if o[0] not in rest] == expected and [o[0] for o in order if o[0] in rest] == rest
    assert order.index(("step_end", 3, None)) < [o[0] for o in order].index("window_close")


def test_calls_carry_the_values_of_the_trace(tmp_path):
    done = run_with_handlers(tmp_path, STEPS, f"{LOG}={tmp_path}/log", WAIT=1)
    calls = logged(tmp_path / "log")
    trace = support.load(done.traces[0])
    spans = calls_of(calls, "duration")
    for start, end in zip(spans[::2], spans[1::2]):
        assert (start["start"], end["start"], start["name"]) == (1, 0, end["name"]) and start["wall"] <= end["wall"]
        assert start["cut"] == 0 and start["tid"] == end["tid"] and start["id"] == end["id"]
    work = [c for c in spans if c["name"] == "work" and c["start"]]
    assert [(c["step"], c["action"], c["batch"], c["sample"], c["epoch"]) for c in work] == [
        (1, 1, 1, 4, 0), (2, 2, 2, 8, 0), (3, 3, 3, 12, 1)]
    assert all(c["categories"] == ["data", "io"] for c in calls_of(calls, "instant", "counter") + work)
    assert [c["values"] for c in calls_of(calls, "counter")] == [v for i in (1, 2, 3) for v in
                                                            ({"whole": i, "most": 2**62}, {"real": 0.5})]
    # the same ids and times as in the trace
    base = trace["baseTimeNanoseconds"]
    in_trace = {e["args"]["External id"]: base + round(float(e["ts"]) * 1000) for e in support.events(trace, ph="X", name="work")}
    assert {c["id"]: c["wall"] for c in work} == in_trace
    assert [(c["step"], c["batch"], c["batch_in_epoch"], c["sample"]) for c in calls_of(calls, "step_end")] == [
        (i, i + 1, i % 3 + 1, 4 * (i + 1)) for i in range(6)]
    assert [(c["epoch"], c["batch"], c["batch_in_epoch"]) for c in calls_of(calls, "epoch_end")] == [(1, 3, 0), (2, 6, 0)]
    (ready,) = calls_of(calls, "trace_ready")
    assert (ready["path"], ready["first"], ready["last"], ready["partial"]) == (str(done.traces[0]), 2, 3, 0)
    assert ready["events"] == trace["cprof"]["events"] and ready["lost"] == 0
    assert calls_of(calls, "chrome_json_file")[0]["path"] == str(done.traces[0])
    assert trace["cprof"]["handlers_ns"] > 0


def test_tells_handlers_of_a_foreign_trace(tmp_path):
    """Handlers get the path of a foreign trace once it is read, before the trace that holds it. They get no path of a broken one."""
    foreign, broken = tmp_path / "foreign.json", tmp_path / "broken.json"
    foreign.write_text('[{"ph": "X", "name": "theirs", "cat": "x", "pid": 1, "tid": 1, "ts": 1, "dur": 1}]')
    broken.write_text('{"no": "trace')
    hand_in = f"cprof.record_chrome_json_trace_file({str(broken)!r}); cprof.record_chrome_json_trace_file({str(foreign)!r})\n"
    done = run_with_handlers(tmp_path, hand_in + STEPS, f"{LOG}={tmp_path}/log")
    assert support.events(support.load(done.traces[0]), name="theirs")
    assert [c["path"] for c in calls_of(logged(tmp_path / "log"), "chrome_json_file")] == [str(foreign), str(done.traces[0])]


def test_records_marks_of_skipped_steps_on_request(tmp_path):
    """In skipped steps, cprof records only the markers that ask for it. Their marks are in the next trace file and in no other."""
    code = """
always = cprof.marker("always", actions=list(cprof.Action)); usual = cprof.marker("usual")
only = cprof.marker("only", actions=[cprof.Action.SKIP])
def other():
    for _ in range(300): always.instant()
for i in range(14):
    with always, only, usual: cprof.mark("mark"); cprof.range_push("range"); cprof.range_pop()
    if i == 4:
        t = threading.Thread(target=other); t.start(); t.join()
    cprof.step()
"""
    done = run_with_handlers(tmp_path, code, None, WAIT=3, WARMUP=1, ACTIVE=2, REPEAT=2)
    assert done.complaints == [] and done.names == ["rank0.6.pt.trace.json", "rank0.12.pt.trace.json"]
    for path, own in zip(done.traces, (0, 300)):
        trace = support.load(path)
        count = collections.Counter(e["name"] for e in support.events(trace, ph="X"))
        assert (count["always"], count["only"], count["usual"], count["range"]) == (6, 3, 3, 3)
        assert len(support.events(trace, ph="i", name="mark")) == 3 and trace["cprof"]["lost"]["total"] == 0
        # Step 4 is active: the other thread's 300 marks are in the first file.
        assert len(support.events(trace, ph="i", name="always")) == 300 - own
    # The same run with a handler, which gets the marks.
    done = run_with_handlers(tmp_path / "2", code, f"{LOG}={tmp_path}/log", WAIT=3, WARMUP=1, ACTIVE=2, REPEAT=2)
    spans = [c for c in calls_of(logged(tmp_path / "log"), "duration") if c["start"]]
    assert [c["step"] for c in spans if c["name"] == "always"] == list(range(14))
    assert [c["step"] for c in spans if c["name"] == "only"] == [0, 1, 2, 6, 7, 8, 12, 13]
    assert [c["step"] for c in spans if c["name"] == "usual"] == [3, 4, 5, 9, 10, 11]


def test_passes_marks_of_a_program_without_steps(tmp_path):
    """Handlers get each mark once, whether step 0 was a warm-up or skipped."""
    for wait in (0, 2):
        log = tmp_path / f"log{wait}"
        done = run_with_handlers(tmp_path / str(wait), "m = cprof.marker('m')\nfor i in range(5):\n with m: pass\n", f"{LOG}={log}", WAIT=wait)
        calls = logged(log)
        assert len(calls_of(calls, "duration")) == 10 and [c["call"] for c in calls if c["call"] not in ("duration", "init")] == [
            "window_open", "window_close", "chrome_json_file", "trace_ready", "close"]
        assert len(support.events(support.load(done.traces[0]), ph="X", name="m")) == 5


def test_names_and_leaves_out_bad_handlers(tmp_path):
    """One line names each bad handler. The rest of the list gets its calls."""
    (tmp_path / "no library.so").write_text("text")
    items = [f"{tmp_path}/missing.so", f"{tmp_path}/no library.so=x", f"{support.PROGRAMS}/libnextexit.so", f"{LOG}=version:{tmp_path}/v",
             str(CSV), "", f" {LOG}=refuse:{tmp_path}/r "]
    if LOG.parent.is_dir():  # copies: a shared object has one state
        shutil.copy(LOG, tmp_path / "log.so")
        shutil.copy(LOG, tmp_path / "refuses.so")
    items[-1] = f" {tmp_path}/refuses.so=refuse:{tmp_path}/r "
    items.append(f"{tmp_path}/log.so={tmp_path}/log")
    done = run_with_handlers(tmp_path, STEPS, ",".join(items))
    assert done.rc == 0 and len(done.complaints) == 6, done.err
    for line, (who, why) in zip(done.complaints, [
            ("missing.so", "cannot be loaded: "), ("no library.so", "cannot be loaded: "),
            ("libnextexit.so", "has no cprof_trace_handler_open()"), ("libhandler_log.so", "is of version 7, this library knows 1"),
            ("libhandler_csv.so", 'refuses: cprof_trace_handler_open("") returned none'), ("first", "refuses: its init returned 3")]):
        assert line.startswith("trace handler ") and who in line and why in line and line.endswith("it is left out")
    assert [c["call"] for c in logged(tmp_path / "r")] == ["init"]
    assert len(calls_of(logged(tmp_path / "log"), "duration")) == 2 * (3 + 6)


def test_accepts_a_handler_of_an_older_header(tmp_path):
    """Its struct is shorter: cprof calls only the functions that it has."""
    run_with_handlers(tmp_path, STEPS, f"{LOG}=small:{tmp_path}/log")
    assert {c["call"] for c in logged(tmp_path / "log")} == {"init", "duration"}


def test_handler_adds_another_from_a_callback(tmp_path):
    """The added handler gets the calls that come later."""
    run_with_handlers(tmp_path, STEPS.replace("cprof.step(", "time.sleep(0.05); cprof.step("), f"{LOG}=adds:{tmp_path}/log")
    calls = [c for c in logged(tmp_path / "log") if c["call"] != "added"]
    first, second = ([c["call"] for c in calls if c["arg"] == arg] for arg in ("first", "second"))
    assert second[0] == "init" and second[-1] == "close" and first[-len(second) + 1:] == second[1:]
    assert 0 < len(second) < len(first)
    for one, other in zip(calls, calls[1:]):  # the first handler is called before the second
        assert not (one["arg"] == "second" and other["arg"] == "first" and one["call"] == other["call"] == "step_end"
                    and one["step"] == other["step"])


def test_callbacks_may_query_and_mark(tmp_path):
    run_with_handlers(tmp_path, STEPS, f"{LOG}=queries:{tmp_path}/log")
    last = logged(tmp_path / "log")[-1]
    assert (last["handlers"], last["first"], last["version"]) == (2, "json", "0.1.0")
    done = run_with_handlers(tmp_path / "2", STEPS, f"{LOG}=marks:{tmp_path}/marks")
    calls = logged(tmp_path / "marks")
    assert {c["name"] for c in calls_of(calls, "duration", "instant")} == {"work", "always"}
    assert len(calls_of(calls, "step_end")) == 6 and len(calls_of(calls, "epoch_end")) == 2 and done.names == ["rank0.3.pt.trace.json"]


def test_slow_handler_loses_no_events(tmp_path):
    """The trace counts the time in handlers. The program does not wait for them."""
    code = """
m = cprof.marker("m")
for i in range(200):
    with m: pass
    cprof.step()
"""
    done = run_with_handlers(tmp_path, code, f"{LOG}=slow:{tmp_path}/log", ACTIVE=1000)
    assert done.complaints == [] and len(calls_of(logged(tmp_path / "log"), "step_end")) == 200
    trace = support.load(done.traces[0])
    assert trace["cprof"]["handlers_ns"] > 200 * 2 * 2_000_000 and trace["cprof"]["lost"]["total"] == 0


def test_gives_up_a_handler_that_hangs_at_exit(tmp_path):
    began = time.monotonic()
    done = run_with_handlers(tmp_path, STEPS, f"{LOG}=hang:{tmp_path}/log", DRAIN_DEADLINE_MS=700)
    assert done.rc == 0 and 0.7 < time.monotonic() - began and done.names == ["rank0.3.pt.trace.json"]
    assert done.complaints[0].startswith("the trace was not finished within CPROF_DRAIN_DEADLINE_MS=700")
    assert done.complaints[1:] == ["trace handler first has not returned from its close()"]


def test_loads_no_handler_without_marks(tmp_path):
    """A shell, a helper without marks, and a child process load no handler."""
    log = tmp_path / "log"
    done = support.run(["sh", "-c", "true"], tmp_path / "traces", TRACE_HANDLERS=f"{LOG}={log}")
    assert not log.exists() and done.err == ""
    code = ("import subprocess\ncprof.step()\n"
            "subprocess.run([sys.executable, '-c', 'import cprof\\nwith cprof.marker(\"m\"): pass'], check=True, "
            f"env=dict(os.environ, CPROF_TRACE_HANDLERS='{LOG}={tmp_path}/child'))\n")
    run_with_handlers(tmp_path, code, f"{LOG}={log}")
    assert log.exists() and not (tmp_path / "child").exists()


def test_resolves_paths_in_the_start_folder(tmp_path):
    shutil.copy(LOG, tmp_path / "relative.so")
    done = run_with_handlers(tmp_path, "cprof.marker('wake'); os.chdir('/')\n" + STEPS, f"./relative.so={tmp_path}/log")
    assert done.complaints == [] and len(calls_of(logged(tmp_path / "log"), "step_end")) == 6


def test_passes_nvtx_ranges_to_handlers(tmp_path):
    """NVTX ranges and marks reach handlers. Ranges of torch's record_function() do not: they are in the trace only."""
    pytest.importorskip("nvtx")
    code = """
import nvtx
for i in range(3):
    with nvtx.annotate("ranged", domain="mine"): nvtx.mark("moment")
    a = nvtx.start_range("started"); nvtx.end_range(a)
    cprof.step()
"""
    run_with_handlers(tmp_path, code, f"{LOG}={tmp_path}/log", WARMUP=0, ACTIVE=3)
    names = collections.Counter(c["name"] for c in calls_of(logged(tmp_path / "log"), "duration", "instant"))
    assert names == {"ranged": 6, "moment": 3, "started": 6}


# ---- C and C++ programs ----------------------------------------------------------------------------------------

def handlers(tmp_path, mode, *args, preload=True, **settings):
    done = support.run(support.program("handlers", mode, *args), tmp_path, preload=preload, **settings)
    return done, done.out.splitlines()


def counts(line):
    return {key: int(n) for key, n in re.findall(r"(\w+) (\d+)", line.split(": ", 1)[1])}


def test_c_calls_do_nothing_without_the_library(tmp_path):
    assert handlers(tmp_path, "all", preload=False)[1] == ["added 0 0", "0: (0)", "late 0", "0: (0)"]
    assert handlers(tmp_path, "many", preload=False)[1] == ["0 0"]
    assert handlers(tmp_path, "all", ENABLED=0)[1] == ["added 0 0", "0: (0)", "late 0", "0: (0)"]


def test_c_handlers_get_every_call(tmp_path):
    done, lines = handlers(tmp_path, "all", STEP="manual")
    assert lines[:4] == ["added 1 1", "3: json without a name early (3)", "late 1", "4: json without a name early late (4)"]
    early, late = counts(lines[4]), counts(lines[5])
    assert lines[4].startswith("early") and lines[5].startswith("late") and done.complaints == []
    assert early == dict(inits=1, closes=1, durations=5, instants=5, counters=5, steps=6, epochs=3, opened=1, closed=1, files=1,
                         ready=1, unbalanced=0)
    assert late == dict(early, durations=2, instants=2, counters=2, steps=3, epochs=2, opened=0)


def test_c_refuses_bad_handlers(tmp_path):
    done, lines = handlers(tmp_path, "bad")
    assert lines == ["0 0 0 0", "1: json (1)"] and len(done.complaints) == 3
    assert "is of version 2, this library knows 1" in done.complaints[0]
    assert all("has no size: begin with CPROF_TRACE_HANDLER_DEFAULTS" in line for line in done.complaints[1:])
    done, lines = handlers(tmp_path / "many", "many")
    assert lines == ["64 65"] and len(done.complaints) == 6 and "there are 64 already" in done.complaints[0]


def test_c_handler_names_are_complete_during_opening(tmp_path):
    """A program that asks for the names gets a name for each handler, also while the cprof thread opens them."""
    for attempt in range(40):
        done, lines = handlers(tmp_path / str(attempt), "names", TRACE_HANDLERS=",".join([f"{CSV}={tmp_path}/counts.csv"] * 60), WARMUP=0)
        assert (done.rc, lines) == (0, ["missing 0"]), done.err


def test_c_forked_children_have_no_handlers(tmp_path):
    done, lines = handlers(tmp_path, "fork", STEP="manual")
    assert lines[:2] == ["child 0 0: (0)", "status 0"] and len(lines) == 3
    assert counts(lines[2])["durations"] == 4 and counts(lines[2])["closes"] == 1 and len(done.traces) == 1


@pytest.mark.parametrize("threads,ring_kb", [(256, 256), (24, 8192)])
def test_c_many_threads_balance_or_count_losses(tmp_path, threads, ring_kb):
    """Each thread marks 10,000 ranges. Every start has its end, and the trace counts the calls that were lost."""
    done, lines = handlers(tmp_path, "threads", threads, STEP="manual", RING_KB=ring_kb, DRAIN_DEADLINE_MS=90000)
    seen = counts(lines[0])
    lost = int(re.search(r"([\d,]+) lost", done.err).group(1).replace(",", ""))
    assert seen["unbalanced"] == 0 and seen["durations"] + lost == threads * 10000 and seen["durations"] > threads
    assert (lost == 0) == (ring_kb == 8192)


@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_cpp_handlers_work_with_each_compiler(tmp_path, compiler):
    if not shutil.which(compiler):
        pytest.skip(f"{compiler} is not installed")
    program = tmp_path / "handlers_cpp"
    subprocess.run([compiler, "-std=c++11", "-O1", "-Wall", "-Wextra", "-Wshadow", "-Wcast-qual", "-Werror", f"-I{ROOT}", "-o", program,
                    ROOT / "tests/e2e/c/handlers_cpp.cpp"], check=True)
    assert support.run([program], tmp_path / "t", preload=False).out.splitlines() == ["added 0", "handlers 0 ", "closed 0 before the end"]
    assert support.run([program], tmp_path / "t").out.splitlines() == [
        "added 1", "handlers 2 totals", "work 4", "x 2", "y 8", "closed 1 before the end"]


# ---- the Python module -----------------------------------------------------------------------------------------

def python(tmp_path, mode, *args, rc=0, path=(), **more):
    env = {"PYTHONPATH": os.pathsep.join(map(str, (MODULE, *path))), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "error"}
    done = support.run([sys.executable, SCRIPT, mode, *args], tmp_path, env=env, **{"WARMUP": 0, "ACTIVE": 2, "STEP": "manual", **more})
    assert done.rc == rc, done.err
    return done, [json.loads(line) for line in done.out.splitlines()]


def test_python_calls_do_nothing_without_the_library(tmp_path):
    assert python(tmp_path, "all_calls", preload=False)[1] == [[False, [], False]]
    assert python(tmp_path, "on_ready", preload=False)[1] == [[False], []]
    done, lines = python(tmp_path, "refused", preload=False)
    assert lines == [[4, False, False]] and done.err == ""


def test_python_handlers_get_every_call(tmp_path):
    done, (taken, last) = python(tmp_path, "all_calls")
    assert taken == [True, ["json", "Log"], False] and done.complaints == []
    assert last["threads"] == 1 and last["main"] is False
    calls = [call[:-2] if call[0] == "duration" else call for call in last["calls"]]
    path, both = str(done.traces[0]), ["one", "two"]
    expected = [["init"], ["window_open", 0]]
    for step in range(4):
        if step < 2:
            expected += [["instant", "all", both, step], ["counter", "all", both, step, {"whole": 2**62, "other": 1}],
                         ["counter", "all", both, step, {"real": 0.5}], ["duration", "all", both, True, step],
                         ["duration", "all", both, False, step]]
        expected.append(["step_end", step, step + 1, 2 * (step + 1)])
    expected += [["epoch_end", 1, 0], ["close"]]
    traces = [["window_close", 1], ["file", path, True], ["trace_ready", path, 0, 1, 10, 0, False]]
    assert [c for c in calls if c not in traces] == expected and [c for c in calls if c in traces] == traces
    walls = [c[5] for c in last["calls"] if c[0] == "duration"]
    assert walls == sorted(walls) and abs(walls[0] / 1e9 - time.time()) < 600


def test_python_names_a_handler_that_raises(tmp_path):
    done, (results, last) = python(tmp_path, "refused")
    assert results == [4, True, True]
    assert [c[0] for c in last["calls"]] == ["init", "window_open", "window_close", "file", "trace_ready", "close"]
    assert sorted(line.split(" raised ")[0] for line in done.complaints) == [
        "trace handler Bad: init()", "trace handler Raises: process_duration_event()", "trace handler Raises: step_end()"]
    assert sum(line.endswith("it goes on") for line in done.complaints) == 2


def test_python_slow_handler_loses_only_its_own_calls(tmp_path):
    done, lines = python(tmp_path, "slow", DRAIN_DEADLINE_MS=60000)
    seen = {line["name"]: line for line in lines}
    slow = seen["slow"]
    assert seen["quick"]["duration"] == 10000 and seen["quick"]["gone"] == 0 and seen["quick"]["step"] == slow["step"] == 2
    assert 0 < slow["duration"] < 10000 and slow["unbalanced"] == 0 and slow["gone"] >= 2 * (10000 - slow["duration"])
    assert done.complaints == [f"trace handler slow was too slow: {slow['gone']:,} calls were not made"]
    assert support.load(done.traces[0])["cprof"]["lost"]["total"] == 0


def test_python_adds_handlers_late_and_from_a_callback(tmp_path):
    done, lines = python(tmp_path, "late", ACTIVE=100)
    late, other = sorted(lines, key=lambda line: line["name"] == "from a callback")
    assert late["step"] == late["duration"] == 4 and other["step"] == 3 and done.complaints == []


def test_python_forked_children_have_no_handlers(tmp_path):
    done, lines = python(tmp_path, "fork", ACTIVE=100)
    assert lines[0] == ["child", False, [], False] and len(done.complaints) == 1 and "forked from a traced one" in done.complaints[0]
    assert lines[1:] == [{"name": "parent", "unbalanced": 0, "gone": 0, "duration": 4, "step": 4}]


def test_python_calls_on_trace_ready(tmp_path):
    done, lines = python(tmp_path, "on_ready", ACTIVE=1, REPEAT=0)
    assert lines == [[True], [["first", "rank0.1.pt.trace.json", True], ["second", "rank0.2.pt.trace.json"]]]
    assert len(done.traces) == 3 and done.complaints == []


def test_python_marks_crowd_out_no_trace_calls(tmp_path):
    """A handler of traces alone loses no call, however many marks there are. A handler of both loses marks only."""
    done, (both, paths) = python(tmp_path, "on_ready_behind_marks", ACTIVE=1, REPEAT=0, RING_KB=65536, DRAIN_DEADLINE_MS=60000)
    assert paths == done.names and len(paths) == 3
    assert both["ready"] == both["step"] == 3 and both["unbalanced"] == 0 and both["gone"] > 0
    assert done.complaints == [f"trace handler both was too slow: {both['gone']:,} calls were not made"]


@pytest.mark.parametrize("how,rc", [("5", 5), ("0", 0), ("raise", 1)])
def test_python_handlers_see_the_last_trace_at_exit(tmp_path, how, rc):
    """Handlers get the partial trace of the last window before the interpreter ends."""
    done, (last,) = python(tmp_path, "ends", how, rc=rc, ACTIVE=100)
    (ready,) = [c for c in last["calls"] if c[0] == "trace_ready"]
    assert ready[1] == str(done.traces[0]) and ready[-1] is True and last["calls"][-1] == ["close"] and done.complaints == []


def test_python_os_exit_does_not_wait_for_handlers(tmp_path):
    done, lines = python(tmp_path, "ends", "_exit", rc=4, ACTIVE=100)
    assert lines == [] and len(done.traces) == 1


def test_python_gives_up_a_handler_that_hangs(tmp_path):
    done, (other,) = python(tmp_path, "hangs", DRAIN_DEADLINE_MS=800)
    assert other["step"] == 4
    assert done.complaints == ["trace handler Hangs was not done within CPROF_DRAIN_DEADLINE_MS; the rest is not told to it"]


def test_python_cprof_does_not_wait_for_the_interpreter(tmp_path):
    done, lines = python(tmp_path, "holds_the_lock")
    assert lines[0] == [True] and lines[1]["step"] == 5 and done.complaints == []


def test_python_names_a_handler_without_a_thread(tmp_path):
    """One line names the handler, and the exit does not wait for it. A handler may have a `name` of its own."""
    done, (taken, last) = python(tmp_path, "no_thread")
    assert taken == [False, True, "mine"] and last["calls"][-1] == ["close"]
    assert done.complaints == ["trace handler mine: can't start new thread; it is left out"]


def test_python_handlers_get_marks_of_all_threads(tmp_path):
    done, lines = python(tmp_path, "threads")
    assert lines == [{"name": "threads", "unbalanced": 0, "gone": 0, "duration": 6400, "step": 2}]


def test_composers_marks_reach_trace_and_handlers(tmp_path):
    """cprof's trace and handlers get every mark that Composer's own handlers get, also of epochs that begin in skipped steps."""
    done, (theirs, ours) = python(tmp_path, "composer", path=[COMPOSER], WAIT=1, WARMUP=1, SCHEDULE_SCOPE="epoch")
    assert theirs == ours and len(theirs) > 20 and done.complaints == []
    assert ["X", "event/epoch", 2] in ours and ["X", "event/fit", 1] in ours and ["i", "batch", 6] in ours and ["C", "loss", 6] in ours
    seen = collections.Counter()
    for path in done.traces:
        trace = support.load(path)
        assert trace["cprof"]["lost"]["total"] == 0
        seen.update((e["ph"], e["name"].split(".")[0]) for e in trace["traceEvents"] if e["ph"] in "XiC")
    # A range that ends after the last file is in no file.
    missing = {(ph, name): n - seen[ph, name] for ph, name, n in theirs if n > seen[ph, name]}
    assert set(missing) <= {("X", "event/epoch"), ("X", "event/fit"), ("X", "event/iteration")}, missing


def test_ends_composers_open_iteration_with_the_training(tmp_path):
    """The iteration is whole in the trace. cprof reports no misuse of a marker."""
    done, (theirs, ours) = python(tmp_path, "composer", path=[COMPOSER], SCHEDULE_SCOPE="none", WARMUP=None, ACTIVE=None)
    assert theirs == ours and done.complaints == []
    trace = support.load(done.traces[0])
    spans = {name: support.events(trace, ph="X", name=f"event/{name}") for name in ("fit", "iteration")}
    assert [len(found) for found in spans.values()] == [1, 1] and trace["cprof"]["lost"]["total"] == 0
    assert all("finished" not in found[0]["args"] for found in spans.values())
