# SPDX-License-Identifier: Apache-2.0
"""NVTX calls of programs that do not know cprof: tests/e2e/c/nvtx.c, built with the real headers; the nvtx package from PyPI; and
torch.cuda.nvtx if this torch has it."""

import collections
import importlib.util
import re
import subprocess

import pytest

import perfetto
import support
from conftest import BUILD
from support import events, load, program, run, span_ns, to_ns

PROGRAM = BUILD / "e2e" / "nvtx"
UNMARKED = "no step was marked: "
ACTIVE = {"WARMUP": 0, "ACTIVE": 1000}


@pytest.fixture(scope="module")
def built():
    """Skips if the program was built without NVTX's headers."""
    done = subprocess.run([PROGRAM, "all"], capture_output=True, text=True, timeout=120)
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    return done


@pytest.fixture
def nvtx_package():
    if not importlib.util.find_spec("nvtx"):
        pytest.skip("the nvtx package is not installed")


def the_trace(result, lost=0):
    """The only trace of a successful run that lost `lost` records."""
    assert result.rc == 0, result.err
    assert all(line.startswith(UNMARKED) for line in result.complaints), result.err
    assert len(result.traces) == 1 and result.parts == [], result.err
    found = re.search(r", ([\d,]+) lost: ", result.err)
    assert found and int(found.group(1).replace(",", "")) == lost, result.err
    trace = load(result.traces[0])
    assert_pairs(trace)
    return trace


def assert_pairs(trace):
    """Each asynchronous range has one begin and one end, in this order, with the same name, category and id."""
    sides = {ph: collections.Counter((e["id2"]["local"], e["name"], e["cat"]) for e in events(trace, ph)) for ph in "be"}
    assert sides["b"] == sides["e"] and all(n == 1 for n in sides["b"].values())
    ends = {e["id2"]["local"]: to_ns(e["ts"]) for e in events(trace, "e")}
    assert all(to_ns(e["ts"]) <= ends[e["id2"]["local"]] for e in events(trace, "b"))


def fields_of(e):
    """Domain, category and payload that the program gave an event."""
    return {key: e["args"][key] for key in ("domain", "category", "payload") if key in e["args"]}


# ---- C ------------------------------------------------------------------------------------------------------

def test_program_without_cprof_is_unchanged(built):
    assert built.returncode == 0 and "levels -2 -2 -2 -2" in built.stdout and built.stderr == ""


def test_all_nvtx_calls_are_recorded(built, tmp_path):
    """The last two steps are recorded. The ranges of the warmup step stand at the head of the file, as markers do."""
    result = run(program("nvtx", "all"), tmp_path, WARMUP=1, ACTIVE=2)
    trace = the_trace(result)
    assert result.out.count("levels 0 0 0 0\n") == 3 and "enabled 1" in result.out
    everything = {"domain": "my domain", "category": "seven", "payload": 0.25}
    assert [e["args"].keys() - {"External id", "Record function id"} for e in events(trace, "X", name="outer")] == [set()] * 3
    assert [fields_of(e) for e in events(trace, "X", name="with everything")] == [everything] * 3
    assert {e["cat"] for e in events(trace, "X")} == {"user_annotation"}
    assert [fields_of(e) for e in events(trace, "i", name="registered")] == [everything] * 3
    assert [fields_of(e) for e in events(trace, "i", name="wide é")] == [{}] * 3
    assert support.step_numbers(trace) == [1, 2]
    # of two ranges that overlap, the first to end becomes asynchronous
    assert [fields_of(e) for e in events(trace, "b", name="first")] == [{"domain": "my domain"}] * 3
    assert [fields_of(e) for e in events(trace, "X", name="second")] == [{"domain": "anöther"}] * 3
    for first, end, second in zip(*(sorted(events(trace, ph, name=name), key=lambda e: to_ns(e["ts"]))
                                    for ph, name in (("b", "first"), ("e", "first"), ("X", "second")))):
        assert to_ns(first["ts"]) <= span_ns(second)[0] <= to_ns(end["ts"]) <= span_ns(second)[1]
    # start and end
    assert [fields_of(e) for e in events(trace, "b", name="registered")] == [everything] * 3
    rows = {(e["pid"], e["tid"]): e["args"]["name"] for e in events(trace, "M", name="thread_name")}
    assert [rows[e["pid"], e["tid"]] for e in events(trace, "b", name="across €")] == ['the "main" one'] * 3
    assert [rows[e["pid"], e["tid"]] for e in events(trace, "e", name="across €")] == ["the ender"] * 3


def test_xlas_payloads_tell_the_source_line(built, tmp_path):
    """The schema and the payloads go through the real headers, whose functions find cprof's extension."""
    result = run(program("nvtx", "xla"), tmp_path)
    if "schema" not in result.out:
        pytest.skip("nvtx3 has no structured payloads")
    ranges = sorted(events(the_trace(result), "X", name="TSL:Thunk:#hlo_op=add.7#"), key=lambda e: to_ns(e["ts"]))
    assert result.out == "enabled 1\nschema 1\n"
    assert [e["args"].get("source") for e in ranges] == ["/a/train.py(12): step", "/a/model.py(31)", None]


def test_names_are_escaped_and_cut(built, tmp_path):
    trace = the_trace(run(program("nvtx", "names"), tmp_path), lost=2)  # two names are cut
    names = [e["name"] for ph in "Xib" for e in events(trace, ph)]
    assert '"quoted" \\ back\nnew\tline \x01\x1f' in names and "(unnamed)" in names
    assert any(name.startswith("invalid \ufffd\ufffd(\ufffd") for name in names)
    assert sorted(len(name) for name in names if set(name) == {"n"}) == [2944, 65536, 100000]


def test_open_ranges_are_unfinished(built, tmp_path):
    trace = the_trace(run(program("nvtx", "open"), tmp_path))
    for ph, name in (("X", "never popped"), ("b", "never ended")):
        assert [e["args"]["finished"] for e in events(trace, ph, name=name)] == ["false"]
    assert trace["cprof"]["unfinished"] == 2


def test_misuse_is_counted(built, tmp_path):
    result = run(program("nvtx", "misuse"), tmp_path)
    the_trace(result, lost=2)
    assert "pop -1\n" in result.out


def test_ranges_of_64_threads_lose_nothing(built, tmp_path):
    """Half of the pairs of ranges overlap."""
    trace = the_trace(run(program("nvtx", "many"), tmp_path, RING_KB=65536))
    spans, begun = events(trace, "X", name="pair"), events(trace, "b", name="pair")
    assert len(spans) == 64 * 250 + 64 * 125 and len(begun) == 64 * 125
    assert len(events(trace, "b", name="started")) == 64 * 250
    assert len({e["tid"] for e in spans}) == 64


@pytest.mark.parametrize("glob, steps", [
    ("iteration *", 6), ("my domain/iter*[0-3]", 4), ("inside", 6), ("nothing", 0), ("my domain/inside", 0)])
def test_named_ranges_mark_steps(built, glob, steps, tmp_path):
    result = run(program("nvtx", "steps"), tmp_path, STEP=f"nvtx:{glob}", **ACTIVE)
    trace = the_trace(result)
    assert support.step_numbers(trace) == list(range(steps))
    if glob == "iteration *":
        edges = {n: span_ns(e) for n in range(6) for e in events(trace, "X", name=f"ProfilerStep#{n}")}
        for n, (begin, end) in edges.items():
            (start, stop), = [span_ns(e) for e in events(trace, "X", name=f"iteration {n}")]
            assert begin <= start and stop <= end


def test_schedule_counts_nvtx_steps(built, tmp_path):
    trace = the_trace(run(program("nvtx", "steps"), tmp_path, STEP="nvtx:iteration*", WAIT=1, WARMUP=1, ACTIVE=2))
    assert support.step_numbers(trace) == [2, 3]
    assert [e["name"] for e in events(trace, "X", name=re.compile("iteration"))] == ["iteration 1", "iteration 2", "iteration 3"]


# ---- Python -------------------------------------------------------------------------------------------------

PACKAGE = """
import nvtx, threading
@nvtx.annotate("function", color="red", domain="a", category="loading")
def function():
    pass
domain = nvtx.get_domain("b")
attributes = domain.get_event_attributes(message="attributes", payload=3)
for i in range(4):
    with nvtx.annotate("with", payload=i):
        function()
    nvtx.mark("moment é", payload=2.5)
    domain.push_range(attributes); domain.pop_range()
    ranges = []
    t = threading.Thread(target=lambda: ranges.append(nvtx.start_range("across", domain="a")))
    t.start(); t.join()
    nvtx.end_range(ranges[0])
    nvtx.push_range("A", domain="a"); nvtx.push_range("B", domain="b"); nvtx.pop_range(domain="a"); nvtx.pop_range(domain="b")
    step()
"""


def test_nvtx_package(nvtx_package, tmp_path):
    trace = the_trace(run(support.python(PACKAGE), tmp_path, **ACTIVE))
    assert support.step_numbers(trace) == [0, 1, 2, 3]
    assert [fields_of(e) for e in events(trace, "X", name="function")] == [{"domain": "a", "category": "loading"}] * 4
    assert sorted(fields_of(e)["payload"] for e in events(trace, "X", name="with")) == [0, 1, 2, 3]
    assert [fields_of(e) for e in events(trace, "i", name="moment é")] == [{"payload": 2.5}] * 4
    assert [fields_of(e) for e in events(trace, "X", name="attributes")] == [{"domain": "b", "payload": 3}] * 4
    begun, ended = events(trace, "b", name="across"), events(trace, "e", name="across")
    assert len(begun) == 4 and not {e["tid"] for e in begun} & {e["tid"] for e in ended}
    assert len(events(trace, "b", name="A")) == len(events(trace, "X", name="B")) == 4


@perfetto.needed
def test_perfetto_reads_nvtx_ranges(nvtx_package, tmp_path):
    result = run(support.python(PACKAGE), tmp_path, **ACTIVE)
    assert perfetto.import_errors(result.traces[0]) == []
    rows = perfetto.query(result.traces[0], "select name, count(*) as n, min(dur) as dur from slice group by name")
    counts = {row["name"]: int(row["n"]) for row in rows}
    assert all(counts.get(name) == 4 for name in ("with", "function", "across", "A", "B")), counts
    assert all(int(row["dur"]) >= 0 for row in rows)


def test_torch_cuda_nvtx(tmp_path):
    """torch.cuda.nvtx is a stub in builds without CUDA."""
    torch = pytest.importorskip("torch")
    try:
        torch.cuda.nvtx.range_push("probe")
        torch.cuda.nvtx.range_pop()
    except RuntimeError as error:
        pytest.skip(str(error))
    code = """
import torch
from torch.cuda import nvtx
for i in range(4):
    with nvtx.range("with {}", i):
        assert nvtx.range_push("pushed") == 1
        torch.ones(3) + 1
        assert nvtx.range_pop() == 1
    nvtx.mark("moment")
    nvtx.range_end(nvtx.range_start("started"))
    step()
"""
    trace = the_trace(run(support.python(code), tmp_path, **ACTIVE))
    assert [len(events(trace, ph, name=name)) for ph, name in
            (("X", "with 3"), ("X", "pushed"), ("i", "moment"), ("b", "started"))] == [1, 4, 4, 4]
