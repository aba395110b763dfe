# SPDX-License-Identifier: Apache-2.0
"""cprof.h in C and C++ programs: return values and traces, with and without the library.

The programs are tests/e2e/c/marks.c (one mode per test) and marks_cpp.cpp. A run has one warm-up step and two active
steps unless a test sets others. load() checks that the spans of each row nest.
"""

import collections
import functools
import json
import math
import os
import platform
import re
import shutil
import subprocess
import tempfile

import pytest

from conftest import BUILD, ROOT

MARKS = BUILD / "e2e" / "marks"
SCHEDULE = {"CPROF_WAIT": "0", "CPROF_WARMUP": "1", "CPROF_ACTIVE": "2"}
ALL_LOST = 6  # of mode all: one pop too many and one NaN in each of three steps
OUTPUT_WITHOUT_LIBRARY = ["version []", "interned 1"] + ["step 0 action 0 recording 0", "depths 0 0 -1 -1 -1"] * 4


def run(command, library=None, folder=None, lost=0, children=0, **settings):
    """Runs the program and returns the lines of its stdout. With a library, traces go to `folder`. The only lines on stderr are then the exit
    line, which must count `lost` records, and one line for each forked child that marks steps. The exit line counts from the start; a file's
    own count begins later, when the cprof thread opens the file."""
    env = dict(os.environ)
    if library:
        env |= SCHEDULE | {"LD_PRELOAD": str(library), "CPROF_FOLDER": str(folder)} | settings
    done = subprocess.run([str(part) for part in command], env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    if folder and folder.exists():
        untraced = r"(?:cprof: process \d+ was forked from a traced one: .*\n){%d}" % children
        found = re.fullmatch(untraced + r"cprof: rank 0: \d traces?, [\d,]+ events, ([\d,]+) lost: .*\n", done.stderr)
        assert found, done.stderr
        assert int(found.group(1).replace(",", "")) == lost
    else:
        assert done.stderr == ""
    return done.stdout.splitlines()


def trace_of(folder):
    """The only trace in folder, its spans checked for nesting."""
    files = sorted(folder.glob("*.json"))
    assert len(files) == 1, files
    return load(files[0])


def load(path):
    trace = json.loads(path.read_bytes().decode("utf-8"))
    rows = collections.defaultdict(list)
    for event in trace["traceEvents"]:
        assert event["ph"] in "XiCM", event
        if event["ph"] == "X":
            start = round(event["ts"] * 1000)
            rows[event["tid"]].append((start, start + round(event["dur"] * 1000)))
    for spans in rows.values():
        open_ends = []
        for start, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while open_ends and open_ends[-1] <= start:
                open_ends.pop()
            assert not open_ends or end <= open_ends[-1], "a span reaches beyond the one around it"
            open_ends.append(end)
    return trace


def events(trace, ph, name=None):
    """The program's own events in time order. With equal times from a coarse clock, the longer event comes first, then the lower id."""
    return sorted((e for e in trace["traceEvents"] if e["ph"] == ph and name in (None, e["name"])
                   and not e["name"].startswith(("ProfilerStep#", "Record Window"))),
                  key=lambda e: (e["ts"], -e.get("dur", 0), e["args"].get("External id", 0)))


def steps(trace):
    """Number of each recorded step -> (start, end)."""
    return {int(e["name"].split("#")[1]): (e["ts"], e["ts"] + e["dur"])
            for e in trace["traceEvents"] if e["name"].startswith("ProfilerStep#")}


# ---- every call ----------------------------------------------------------------------------------------------

def test_calls_do_nothing_without_the_library():
    assert run([MARKS, "all"]) == OUTPUT_WITHOUT_LIBRARY
    for mode in ("null", "names", "long", "misuse", "many"):
        run([MARKS, mode])


def test_calls_do_nothing_with_the_library_disabled(library, tmp_path):
    lines = run([MARKS, "all"], library, tmp_path / "traces", CPROF_ENABLED="0")
    assert lines[1:] == [line.replace("0 0 -1 -1 -1", "0 1 1 0 -1") for line in OUTPUT_WITHOUT_LIBRARY[1:]]
    assert not (tmp_path / "traces").exists()


def test_return_values_of_all_calls(library, tmp_path):
    lines = run([MARKS, "all"], library, tmp_path, lost=ALL_LOST)
    assert lines[:2] == ["version [0.1.0]", "interned 1"]
    assert [line for line in lines if line.startswith("step")] == [
        "step 0 action 1 recording 1", "step 1 action 2 recording 1",
        "step 2 action 3 recording 1", "step 3 action 0 recording 0"]
    assert [line for line in lines if line.startswith("depths")] == ["depths 0 1 1 0 -1"] * 4


def test_trace_holds_all_markers(library, tmp_path):
    run([MARKS, "all"], library, tmp_path, lost=ALL_LOST)
    trace = trace_of(tmp_path)
    edges = steps(trace)
    assert list(edges) == [1, 2]
    # one of each per step; those of the warm-up step come first
    for name, cat in (("plain", "user_annotation"), ("full", "data,io"), ("outer", "user_annotation"),
                      ("inner", "user_annotation")):
        spans = events(trace, "X", name)
        assert [e["cat"] for e in spans] == [cat] * 3
        assert spans[0]["ts"] + spans[0]["dur"] < edges[1][0]
        assert [step for e in spans for step, (start, end) in edges.items() if start <= e["ts"] < end] == [1, 2]
    assert len(events(trace, "X", "only last")) == 1
    assert edges[2][0] <= events(trace, "X", "only last")[0]["ts"] < edges[2][1]
    inner, outer = events(trace, "X", "inner"), events(trace, "X", "outer")
    assert all(o["ts"] <= i["ts"] and i["ts"] + i["dur"] <= o["ts"] + o["dur"] for i, o in zip(inner, outer))
    assert [(e["cat"], e["s"]) for e in events(trace, "i", "full")] == [("data,io", "t")] * 6
    assert len(events(trace, "i", "plain")) == len(events(trace, "i", "a moment")) == 3
    assert all("finished" not in e["args"] for e in events(trace, "X"))


def test_counters_keep_their_values(library, tmp_path):
    run([MARKS, "all"], library, tmp_path, lost=ALL_LOST)
    trace = trace_of(tmp_path)
    assert [e["args"] for e in events(trace, "C", "loss")] == [{"value": 0.5}, {"value": 1.5}, {"value": 2.5}]
    assert [e["args"] for e in events(trace, "C", "two")] == [{"up": 1.25}, {"down": -3e300}] * 3
    assert [e["args"] for e in events(trace, "C", "large")] == [{"most": 2**63 - 1}, {"least": -2**63}] * 3
    assert all(math.isfinite(value) for e in events(trace, "C") for value in e["args"].values())


def test_null_names_and_markers_are_harmless(library, tmp_path):
    assert run([MARKS, "null"], library, tmp_path) == ["1"]
    trace = trace_of(tmp_path)
    assert len(events(trace, "X", "")) == len(events(trace, "i", "")) == 3


# ---- names ---------------------------------------------------------------------------------------------------

def test_awkward_names_are_kept(library, tmp_path):
    run([MARKS, "names"], library, tmp_path)
    trace = trace_of(tmp_path)
    names = ['quote " and \\ backslash', "line\nbreak\r\ttab", "\x01\x02\x1f control", "héllo € 😀",
             "bad \ufffd\ufffd utf8 \ufffd", "</script> 'x'", ""]
    for name in names:
        assert [e["cat"] for e in events(trace, "X", name)] == ["user_annotation", name or "user_annotation"] * 3
        assert [e["cat"] for e in events(trace, "i", name)] == [name or "user_annotation", "user_annotation"] * 3
        assert [e["args"] for e in events(trace, "C", name)] == [{"value": 1}] * 3
    assert {e["name"] for e in events(trace, "X")} == set(names)


def test_long_names_are_cut(library, tmp_path):
    run([MARKS, "long"], library, tmp_path, lost=3)
    trace = trace_of(tmp_path)
    assert sorted(len(e["name"]) for e in events(trace, "X")) == [60000] * 3 + [65536] * 3
    assert [len(e["name"]) for e in events(trace, "i")] == [100000] * 3
    assert {c for e in events(trace, "X") for c in e["name"]} == {"n"}


def test_many_markers_keep_their_names(library, tmp_path):
    run([MARKS, "many"], library, tmp_path)
    trace = trace_of(tmp_path)
    assert [e["name"] for e in events(trace, "X")] == [f"marker {i}" for i in range(100)] * 3


# ---- misuse and edges ---------------------------------------------------------------------------------------

def test_misuse_is_counted_and_nesting_stays_valid(library, tmp_path):
    # lost per step: a finish, a pop, a second start, two cut markers
    run([MARKS, "misuse"], library, tmp_path, lost=3 * 5)
    trace = trace_of(tmp_path)
    found = [(e["name"], e["args"].get("finished")) for e in events(trace, "X")]
    assert found == [("twice", None), ("a", None), ("b", "false"), ("cut too", None), ("b", "false")] * 3


def test_range_across_steps_belongs_to_its_first_step(library, tmp_path):
    """Two windows of wait 1, warmup 1, active 2. `in` begins in a skipped step, so no trace holds it. `out` begins in the last
    step of each window and ends in a later step."""
    run([MARKS, "crossing"], library, tmp_path, CPROF_WAIT="1", CPROF_REPEAT="0")
    traces = [load(path) for path in sorted(tmp_path.glob("*.json"))]
    assert len(traces) == 2
    for trace in traces:
        edges = steps(trace)
        assert events(trace, "X", "in") == []
        out, = events(trace, "X", "out")
        start, end = list(edges.values())[-1]
        assert start <= out["ts"] < end
        assert [e["args"].get("finished") for e in events(trace, "X", "step")] == [None] * 3
        starts = [e["ts"] for e in events(trace, "X", "step")]
        first, last = list(edges.values())
        assert starts[0] < first[0] <= starts[1] < first[1] and last[0] <= starts[2] < last[1]
    

def test_open_markers_of_an_ended_thread_are_unfinished(library, tmp_path):
    run([MARKS, "open"], library, tmp_path)
    trace = trace_of(tmp_path)
    for name in ("left open", "range left open"):
        assert [e["args"]["finished"] for e in events(trace, "X", name)] == ["false"] * 3


def test_open_at_exit_nests(library, tmp_path):
    run([MARKS, "exit"], library, tmp_path)
    trace = trace_of(tmp_path)
    around, = events(trace, "X", "around")
    assert around["args"]["finished"] == "false"


def test_markers_of_many_threads_lose_nothing(library, tmp_path):
    run([MARKS, "threads"], library, tmp_path)
    trace = trace_of(tmp_path)
    rows = collections.Counter((e["tid"], e["name"]) for e in events(trace, "X"))
    assert len(rows) == 128 and set(rows.values()) == {1000}


def test_forked_child_is_inert(library, tmp_path):
    assert run([MARKS, "fork"], library, tmp_path, children=4) == ["child 0"] * 4
    trace = trace_of(tmp_path)
    assert [e["name"] for e in events(trace, "X")] == ["parent"] * 3
    assert events(trace, "i") == []


def test_program_without_steps_gets_one_trace(library, tmp_path):
    """Step 0 becomes the trace, whatever the schedule. A marker for warmup steps only is left out if the schedule would skip
    step 0."""
    for wait, instants in ("0", ["only warmup", "only active"]), ("5", ["only active"]):
        folder = tmp_path / wait
        env = dict(os.environ) | SCHEDULE | {"LD_PRELOAD": str(library), "CPROF_FOLDER": str(folder), "CPROF_WAIT": wait,
                                             "CPROF_LOG": "error"}
        done = subprocess.run([MARKS, "nostep"], env=env, capture_output=True, text=True, timeout=60, check=True)
        assert done.stdout == "recording 1\n"
        trace = trace_of(folder)
        assert [e["name"] for e in events(trace, "X")] == ["range", "marker"]
        assert [e["name"] for e in events(trace, "i")] == instants


# ---- every way to build --------------------------------------------------------------------------------------

@functools.lru_cache(maxsize=None)
def lto_linker(compiler):
    """(options with which this compiler can link with -flto, "") or (None, why not). Without llvm-dev, Ubuntu's clang lacks the
    plugin for the default linker; lld needs none."""
    with tempfile.TemporaryDirectory() as folder:
        for options in (), ("-fuse-ld=lld",):
            done = subprocess.run([compiler, "-flto", *options, "-x", "c", "-", "-o", f"{folder}/a"], input="int main(void) { return 0; }",
                                  capture_output=True, text=True, timeout=120)
            if done.returncode == 0:
                return options, ""
    return None, f"{compiler} -flto cannot link an empty program here: {done.stderr.splitlines()[0]}"


def compile_with(compiler, source, output, *options):
    if shutil.which(compiler) is None:
        pytest.skip(f"no {compiler}")
    if "-flto" in options:
        linker, why = lto_linker(compiler)
        if linker is None:
            pytest.skip(why)
        options += linker
    done = subprocess.run([compiler, *options, "-I", ROOT, source, "-o", output, "-pthread"], capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr, done.stderr


@pytest.mark.parametrize("flavour", ["-fPIE -pie", "-fno-pie -no-pie", "-fPIC -pie", "-static", "-static-pie -fPIE"])
@pytest.mark.parametrize("level", ["-O0", "-O2", "-O3 -flto"])
@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_builds_of_a_c_program(library, tmp_path, compiler, level, flavour):
    """Compiler, linker and loader together resolve weak references. Every kind of build must reach the library, except static
    programs, which have no loader."""
    program = tmp_path / "marks"
    source = ROOT / "tests/e2e/c/marks.c"
    compile_with(compiler, source, program, "-std=gnu99", "-D_GNU_SOURCE", *level.split(), *flavour.split())
    assert run([program, "all"]) == OUTPUT_WITHOUT_LIBRARY
    lines = run([program, "all"], library, tmp_path / "traces", lost=ALL_LOST)
    if "-static" in flavour:
        assert lines == OUTPUT_WITHOUT_LIBRARY
    else:
        assert len(events(trace_of(tmp_path / "traces"), "X", "plain")) == 3
        # markers are on the heap, whose addresses are low if the program's are
        run([program, "misuse many"], library, tmp_path / "misuse", lost=3 * 5)


@pytest.mark.parametrize("level", ["-O0", "-O2 -fno-pie -no-pie", "-O3 -flto"])
@pytest.mark.parametrize("compiler", ["g++", "clang++"])
def test_cpp_interface(library, tmp_path, compiler, level):
    program = tmp_path / "marks"
    source = ROOT / "tests/e2e/c/marks_cpp.cpp"
    compile_with(compiler, source, program, "-std=c++11", "-Wall", "-Wextra", "-pedantic", "-Wshadow", *level.split())
    assert run([program]) == ["version [] own 7"] + ["step 0 action 0 recording 0 depths 0 -1"] * 4
    lines = run([program], library, tmp_path / "traces")
    assert lines == ["version [0.1.0] own 7", "step 0 action 1 recording 1 depths 0 0", "step 1 action 2 recording 1 depths 0 0",
                     "step 2 action 3 recording 1 depths 0 0", "step 3 action 0 recording 0 depths 0 0"]
    trace = trace_of(tmp_path / "traces")
    assert [e["cat"] for e in events(trace, "X", "scope")] == ["c++,raii"] * 3
    assert [e["args"] for e in events(trace, "C")] == [{"x": 2.5}, {"x": -7}] * 3


def test_markers_in_a_shared_library(library, tmp_path):
    """A library, linked with -z defs, uses cprof.h; so does the program that calls it."""
    (tmp_path / "lib.c").write_text(
        '#include "preload/cprof.h"\nvoid work(void);\nvoid work(void) { cprof_range_push("in a library"); cprof_range_pop(); }\n')
    (tmp_path / "main.c").write_text(
        '#include "preload/cprof.h"\nextern void work(void);\n'
        "int main(void) { for (int i = 0; i < 4; i++) { work(); cprof_step(); } return 0; }\n")
    compile_with("gcc", tmp_path / "lib.c", tmp_path / "libwork.so", "-shared", "-fPIC", "-Wl,-z,defs")
    compile_with("gcc", tmp_path / "main.c", tmp_path / "main", f"-L{tmp_path}", f"-Wl,-rpath,{tmp_path}", "-Wl,--no-as-needed",
                 tmp_path / "libwork.so")
    run([tmp_path / "main"])
    run([tmp_path / "main"], library, tmp_path / "traces")
    assert len(events(trace_of(tmp_path / "traces"), "X", "in a library")) == 3


DIALECT = "-masm=intel" if platform.machine() == "x86_64" else ""  # dialect of assembly; other processors have only one


@pytest.mark.parametrize("compiler,options", [
    ("gcc", "-std=c99 -x c"), ("gcc", f"-std=c17 -x c {DIALECT}"), ("g++", "-std=c++11 -x c++"), ("g++", "-std=c++20 -x c++"),
    ("clang", "-std=c99 -x c"), ("clang", f"-std=c11 -x c {DIALECT}"), ("clang++", "-std=c++11 -x c++")])
def test_header_alone_is_clean(tmp_path, compiler, options):
    user = tmp_path / "user.txt"
    user.write_text('#include "preload/cprof.h"\nint main(void) { cprof_step(); return cprof_range_pop() != -1; }\n')
    words = options.split()
    strict = ["-Wall", "-Wextra", "-pedantic", "-Wshadow", "-Wundef", "-Wconversion", "-Wredundant-decls", "-Werror"]
    compile_with(compiler, user, tmp_path / "user", *strict, *words)
    assert subprocess.run([tmp_path / "user"], timeout=120).returncode == 0
