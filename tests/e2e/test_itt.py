# SPDX-License-Identifier: Apache-2.0
"""ITT: PyTorch's ranges and emit_itt, a client in C, and Intel's Python package if it is installed."""

import collections
import functools
import re
import subprocess
import sys

import pytest

import perfetto
import support
from conftest import BUILD, ROOT
from torch_runs import ALWAYS, Trace, printed, run, trace

CLIENT = BUILD / "e2e" / "itt_client"
AWKWARD = 'quote " and \\ \n\x01 bad \ufffd utf8'  # the name of the client's inner task, as traces show it


@functools.cache
def no_itt():
    """Why this torch makes no ITT calls; None if it makes them."""
    code = "import torch; print(torch.__version__, torch.profiler.itt.is_available())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    return None if done.stdout.strip().endswith("True") else f"torch {done.stdout.strip() or 'is missing'}: built without ITT"


@pytest.fixture
def torch_itt():
    if no_itt():
        pytest.skip(no_itt())


def rows(one):
    """{tid: name} of the thread rows; the last name wins."""
    return {e["tid"]: e["args"]["name"] for e in support.events(one.data, ph="M", name="thread_name")}


def client(folder, *args, **settings):
    done = support.run([CLIENT, *args], folder, **{**ALWAYS, **settings})
    assert done.rc == 0 and done.out == "collected\n", done.err
    return done


# ---- PyTorch -------------------------------------------------------------------------------------------------

def test_torch_ranges(torch_itt, tmp_path):
    """The calls return the same as without cprof, and their ranges nest in the trace."""
    plain = printed(run("itt.py", tmp_path / "plain", "ranges", preload=False))
    done = run("itt.py", tmp_path / "traces", "ranges", STEP="manual", **ALWAYS)
    assert printed(done) == plain and plain["available"]
    one = Trace(done.traces[0])
    assert one.lost == 0
    spans = one.ranges("^(step|inner|moment|with)")
    assert [e["name"] for e in spans] == ["step 0", 'inner "quoted"', "step 1", 'inner "quoted"', "step 2", 'inner "quoted"',
                                          "moment", "with format"]
    assert all("domain" not in e["args"] and "finished" not in e["args"] for e in spans)
    outer, inner = map(support.span_ns, spans[:2])
    assert outer[0] <= inner[0] and inner[1] <= outer[1]
    assert any(inner[0] <= support.span_ns(e)[0] <= inner[1] for e in one.ops("aten::add"))


def test_torch_ranges_after_cprof_started(torch_itt, tmp_path):
    one = Trace(run("itt.py", tmp_path, "before", STEP="manual", **ALWAYS).traces[0])
    assert len(one.ranges("^late$")) == 1 and one.lost == 0


def test_emit_itt_gives_each_operator_a_range(torch_itt, tmp_path):
    """emit_itt ends a range after the operator's end; no range is lost because of that."""
    one = Trace(run("itt.py", tmp_path, "emit", STEP="manual", **ALWAYS).traces[0])
    assert one.lost == 0, one.account["lost"]
    ranges = collections.Counter(e["name"] for e in one.ranges() if not e["name"].startswith("ProfilerStep"))
    ops = collections.Counter(e["name"] for e in one.ops())
    assert ranges["MulBackward0"] == 1 and ranges["aten::mul"] == 2
    assert ranges - ops == collections.Counter(), "each range has its operator"
    engine, = one.ops(r"evaluate_function: MulBackward0$")
    assert engine["args"]["Sequence number"] == one.ops("^MulBackward0$")[0]["args"]["Sequence number"]


def test_torch_pop_without_push_is_counted(torch_itt, tmp_path):
    one = Trace(run("itt.py", tmp_path, "unbalanced", STEP="manual", **ALWAYS).traces[0])
    assert {e["name"]: e["args"].get("finished") for e in one.ranges("^(left|ended)")} == {"left open": "false", "ended": None}
    assert one.account["lost"]["total"] <= 1  # the pop, unless the file began to count after it


def test_torch_range_marks_steps(torch_itt, tmp_path):
    done = run("itt.py", tmp_path, "ranges", STEP="itt:step *", **ALWAYS)
    one = trace(done)
    assert sorted(one.steps) == [0, 1, 2]
    assert one.by_step(one.ranges("^step ")) == {i: [f"step {i}"] for i in range(3)}


# ---- C -------------------------------------------------------------------------------------------------------

def test_client_without_cprof_finds_no_collector(tmp_path):
    done = subprocess.run([CLIENT], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("no collector\n", "", 0)
    done = support.run([CLIENT], tmp_path / "off", ENABLED="0")
    assert (done.out, done.err) == ("no collector\n", "")


def test_client_tasks_marks_counters_and_names(tmp_path):
    """Metadata, marks, counters, pause and thread names. The client's first domain and string come from ITT's static part."""
    one = Trace(client(tmp_path).traces[0])
    assert one.lost == 0, one.account["lost"]
    spans = [e for e in one.ranges() if not e["name"].startswith("ProfilerStep")]
    assert [e["name"] for e in spans] == ["the first"] + [name for i in range(4) for name in (f"step {i}", AWKWARD)]
    assert {e["args"]["domain"] for e in spans} == {"client"}
    assert [e["args"].get("note") for e in spans[1:3]] == ['a "note" \x01', None]
    instants = support.events(one.data, ph="i", name="moment")
    assert [(e["cat"], e["args"]["domain"]) for e in instants] == [("user_annotation", "client")] * 4
    assert [e["args"] for e in support.events(one.data, ph="C", name="client: items")] == [{"value": 5 * i} for i in range(1, 5)]
    assert rows(one)[spans[0]["tid"]] == "the main one"


def test_client_marks_steps(tmp_path):
    one = trace(client(tmp_path, STEP="itt:step ?"))
    assert sorted(one.steps) == [0, 1, 2, 3]
    assert {n: [name for name in names if name.startswith("step")] for n, names in one.by_step(one.ranges("^step ")).items()} == \
        {i: [f"step {i}"] for i in range(4)}


@pytest.mark.parametrize("wait", [1, 0])
def test_tasks_of_skipped_steps_are_left_out(wait, tmp_path):
    """Tasks of warmup and skipped steps are dropped, because libraries make many. Marks and counters of the warmup step stand at the head of
    its window's file, as all markers do. Without a wait, the warmup step is step 0, which is kept until the first mark."""
    one = trace(client(tmp_path, STEP="itt:step ?", WARMUP=1, ACTIVE=1, WAIT=wait))
    recorded = wait + 1
    assert sorted(one.steps) == [recorded] and one.lost == 0
    begin = one.steps[recorded][0]
    tasks = [e for e in one.ranges() if e["args"].get("domain") == "client"]
    assert [e["name"] for e in tasks] == [f"step {recorded}", AWKWARD]
    assert all(support.to_ns(e["ts"]) >= begin for e in tasks)
    early = [e for e in one.data["traceEvents"] if e["ph"] != "M" and support.to_ns(e["ts"]) < begin]
    assert [(e["ph"], e["name"]) for e in early] == [("i", "moment"), ("C", "client: items")]
    assert early[0]["args"]["domain"] == "client"


def test_onednn_tasks_begin_with_the_first_recorded_step(torch_itt, tmp_path):
    """All of oneDNN's tasks of the recorded steps are there, and none from before."""
    done = support.run([sys.executable, ROOT / "tests/e2e/train_cnn.py", "--steps", 5, "--workers", 0], tmp_path, WARMUP=2, ACTIVE=2)
    one = trace(done)
    assert sorted(one.steps) == [2, 3] and one.lost == 0
    tasks = [e for e in one.ranges() if e["args"].get("domain", "").startswith("dnnl::")]
    if not tasks:
        pytest.skip("this torch's oneDNN makes no ITT calls")
    named = one.by_step(tasks)
    assert sorted(named) == [2, 3] and collections.Counter(named[2]) == collections.Counter(named[3])
    assert collections.Counter(named[2])["convolution"] >= 4, "two convolutions, forward and backward"
    assert min(support.to_ns(e["ts"]) for e in one.data["traceEvents"] if e["ph"] in "Xib") >= one.steps[2][0]


def test_marks_mark_steps(tmp_path):
    assert sorted(trace(client(tmp_path, STEP="itt:mom*")).steps) == [0, 1, 2, 3]


def test_tasks_of_many_threads_lose_nothing(tmp_path):
    one = Trace(client(tmp_path, "threads").traces[0])
    assert one.lost == 0
    names = rows(one)
    found = collections.Counter((names[e["tid"]], e["name"]) for e in one.ranges("^worker "))
    assert len(found) == 64 and set(found.values()) == {1000}
    assert all(row == name for row, name in found)


@perfetto.needed
def test_perfetto_imports_itt_traces(tmp_path):
    for mode in ("rounds", "threads"):
        done = client(tmp_path / mode, mode)
        assert perfetto.import_errors(done.traces[0]) == []


# ---- Intel's static part -------------------------------------------------------------------------------------

ITTAPI = """
import ittapi, sys, threading
domain = ittapi.domain("intel")
for i in range(3):
    with ittapi.task(f"step {i}", domain=domain):
        with ittapi.task("inner", domain=domain):
            pass
event = ittapi.event("an event")
event.begin()
event.end()
ittapi.pause()
with ittapi.task("paused", domain=domain):
    pass
ittapi.resume()
ittapi.thread_set_name("named by ittapi")
first, second = (ittapi.task(name, domain=domain, overlapped=True) for name in ("over 1", "over 2"))
first.begin()
second.begin()
first.end()
ender = threading.Thread(target=second.end)
ender.start()
ender.join()
"""


def test_intels_python_package(tmp_path):
    if subprocess.run([sys.executable, "-c", "import ittapi"], capture_output=True).returncode:
        pytest.skip("no ittapi package (PyPI), which contains Intel's static part")
    done = support.run([sys.executable, "-c", ITTAPI], tmp_path, STEP="itt:step *", **ALWAYS)
    one = trace(done)
    assert sorted(one.steps) == [0, 1, 2]
    spans = one.ranges("^(step|inner|an event|paused)")
    assert [e["name"] for e in spans] == ["step 0", "inner", "step 1", "inner", "step 2", "inner", "an event"]
    assert {e["args"].get("domain") for e in spans} == {"intel", None}
    assert rows(one)[spans[0]["tid"]] == "named by ittapi"
    ends = sorted(((e["ph"], e["name"], e["id2"]["local"]) for e in one.data["traceEvents"] if e["ph"] in "be"),
                  key=lambda end: (end[1], end[0]))
    assert [(ph, name) for ph, name, _ in ends] == [("b", "over 1"), ("e", "over 1"), ("b", "over 2"), ("e", "over 2")]
    assert ends[0][2] == ends[1][2] != ends[2][2] == ends[3][2]
    assert len({e["tid"] for e in one.data["traceEvents"] if e["name"] == "over 2"}) == 2
