# SPDX-License-Identifier: Apache-2.0
"""`cprof export --parquet`: the tables hold what the traces hold, whatever their names are, and the folder is whole or not there."""

import collections
import gc
import json
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

import pytest

import support
import tables
import tool
from cprof._saved import SavedTime
from cprof.tool import event_columns, main
from command_runs import COMMAND, command
from conftest import matrix
from test_command_merge import training
from test_explain import FIXTURES
from test_tool_hostile import with_odd_fields

import pyarrow.parquet  # after tables.py, which skips these tests without it

EVIL = ["../../out", "a'; DROP VIEW events; --", 'q"uo\\te', "new\nline\r\x1b[2J", "{}%*?[a]", "NUL \\u0000 %00", "run=x/rank=7", "é\u202e字", "."]
UNCOUNTED = ("Ev Idx", "Record function id")


def table(folder, name="events"):
    """A table as rows. Reads it as other programs do, by the folders' names."""
    return pyarrow.parquet.read_table(pathlib.Path(folder) / name).to_pylist()


def listing(folder):
    return sorted(str(path.relative_to(folder)) for path in pathlib.Path(folder).rglob("*") if path.is_file())


def restored(row, base):
    """An event of a trace made from its row, with the args that have a column of their own."""
    args = json.loads(row["args"] or "{}")
    for name, key in (*event_columns.NUMBERS.items(), *event_columns.TEXTS.items()):
        if row[name] is not None:
            args[key] = row[name]
    if row["shapes"] is not None:
        args["Input Dims"] = json.loads(row["shapes"])
    if row["series"] is not None:
        args[row["series"]] = row["value"]
    if row["bytes"] is not None:
        args["Bytes" if row["name"] == "[memory]" else "bytes"] = row["bytes"]
    return (row["phase"], row["category"], row["name"], row["pid"], row["tid"], row["ts_ns"] - base, row["dur_ns"], json.dumps(args, sort_keys=True))


def given(event):
    """An event as restored() makes it."""
    device = ("device", "Device Type", "Device Id", "Call stack")
    args = {key: value for key, value in event.get("args", {}).items() if key not in UNCOUNTED and key not in device}
    if event["ph"] == "C":
        args = {key: float(value) for key, value in args.items()}
    return (event["ph"], event.get("cat"), event["name"], event["pid"], event["tid"], round(event["ts"] * 1000),
            round(event["dur"] * 1000) if "dur" in event else None, json.dumps(args, sort_keys=True))


@pytest.fixture(scope="module")
def ddp(tmp_path_factory):
    """Traces of two real ranks, and their tables."""
    folder = tmp_path_factory.mktemp("tables")
    return sorted(support.files(tables.gloo(folder / "ddp", "mine"))), tables.exported(folder / "tables", folder / "ddp")


def test_each_event_of_a_real_trace_has_its_row(ddp):
    traces, folder = ddp
    found = table(folder)
    for rank, path in enumerate(traces):
        trace = support.load(path)
        of_rank = [row for row in found if row["rank"] == rank]
        wanted = collections.Counter(given(event) for event in trace["traceEvents"] if event["ph"] not in "Msf")
        assert collections.Counter(restored(row, trace["baseTimeNanoseconds"]) for row in of_rank) == wanted
        assert {row["run"] for row in of_rank} == {"mine"} and {row["device"] for row in of_rank} == {"cpu"}
        names = {(event["pid"], event["tid"]): event["args"]["name"] for event in trace["traceEvents"] if event["name"] == "thread_name"}
        assert all(row["thread"] == names.get((row["pid"], row["tid"])) for row in of_rank)
        steps = {event["name"]: support.span_ns(event) for event in support.events(trace, ph="X") if event["name"].startswith("ProfilerStep#")}
        for row in of_rank:
            at = row["ts_ns"] - trace["baseTimeNanoseconds"]
            assert row["step"] == next((int(name[13:]) for name, (start, end) in steps.items() if start <= at < end), None)


def test_traces_and_steps_of_a_real_run(ddp):
    traces, folder = ddp
    told = json.loads(tool.cprof("explain", "--json", *traces).out)
    assert [(row["rank"], row["step"], row["total_ns"] / 1e6) for row in table(folder, "steps")] == [
        (row["rank"], row["step"], row["total"]) for row in told["steps"]]
    for row, path in zip(table(folder, "traces"), traces):
        trace = support.load(path)
        assert (row["file"], row["host"], row["torch"], row["world_size"]) == (path.name, trace["host_name"], trace["torch_version"], 2)
        assert (row["first_step"], row["last_step"], row["lost"], row["losses"], row["truncated"], row["notes"]) == (1, 5, 0, "{}", False, [])


@pytest.mark.parametrize("name", matrix(["h200-healthy", "h200-launch-bound", *(path.name[:-8] for path in tool.KINETO_TRACES)],
                                         "h200-launch-bound", *(path.name[:-8] for path in tool.KINETO_TRACES if path.name.startswith("alexnet"))))
def test_traces_of_real_gpus(tmp_path, name):
    """All events; kernels with their operators; at most half of the size of the packed JSON; the same steps as `cprof explain`."""
    path = next(folder / f"{name}.json.gz" for folder in (FIXTURES, tool.KINETO) if (folder / f"{name}.json.gz").is_file())
    folder = tables.exported(tmp_path / "tables", path)
    trace, found = support.loads_plainly(path), table(folder)
    events = [event for event in trace["traceEvents"] if event["ph"] not in "Msf"]
    assert collections.Counter(row["name"] for row in found) == collections.Counter(event["name"] for event in events)
    for row in found:
        assert row["device"].startswith("cuda:") == (row["category"] in ("kernel", "gpu_memcpy", "gpu_memset", "cuda_sync", "gpu_user_annotation"))
        assert (row["work"] is not None) == (row["category"] in ("kernel", "gpu_memcpy", "gpu_memset") or row["name"].startswith("gloo:"))
    if path.stat().st_size > 100_000:
        assert sum(one.stat().st_size for one in folder.rglob("*") if one.is_file()) <= path.stat().st_size / 2
    told = json.loads(tool.cprof("explain", "--json", path).out)["steps"]
    assert [(row["step"], row["total_ns"] / 1e6) for row in table(folder, "steps")] == [(row["step"], row["total"]) for row in told]


def test_stack_line_and_work_of_the_step_that_launched_it(tmp_path):
    """A kernel counts in the step of its launch, though it runs in the next. A stack that stands in stackFrames only has a line, too."""
    events = [tool.span("ProfilerStep#1", 0, 100, "user_annotation", tid=4194305), tool.span("ProfilerStep#2", 100, 100, "user_annotation", tid=4194305),
              tool.span("aten::mm", 90, 9, Call_stack="torch/a.py(1): f;mine.py(2): g;", External_id=1), dict(tool.span("aten::mm", 110, 9), sf=5),
              tool.span("cudaLaunchKernel", 95, 2, "cuda_runtime", correlation=7), tool.span("gemm", 120, 3, "kernel", 0, 7, device=1, correlation=7),
              tool.span("gemm", 130, 3, "kernel", 0, 7, device=1, correlation=8), tool.span("late", 300, 1)]
    frames = {"5": {"name": "torch/a.py(1): f", "parent": 6}, "6": {"name": "mine.py(3): h"}}
    path = tool.write(tmp_path / "t.json", events, with_stack=1, stackFrames=frames)
    found = {(row["name"], row["ts_ns"]): row for row in table(tables.exported(tmp_path / "tables", path))}
    assert found["gemm", 120_000]["step"] == 1 and found["gemm", 130_000]["step"] == 2 and found["late", 300_000]["step"] is None
    assert found["aten::mm", 90_000]["line"] == "mine.py(2): g" and found["aten::mm", 110_000]["line"] == "mine.py(3): h"
    assert found["gemm", 120_000]["device"] == "cuda:1"


@pytest.mark.parametrize("name, category, args, work", [
    ("gemm", "kernel", {"device": 0}, "computation"), ("Memset (Device)", "gpu_memset", {"device": 0}, "computation"),
    ("Memcpy HtoD", "gpu_memcpy", {"device": 0}, "copy"), ("ncclDevKernel_AllReduce_Sum_f32", "kernel", {"device": 0}, "communication"),
    ("any", "collective_comm", {"device": 0}, "communication"), ("ncclAllReduce", "collective_comm", {}, None),
    ("MPI_Allreduce", "collective_comm", {}, "communication"), ("gloo:all_reduce", "user_annotation", {}, "communication"),
    ("aten::mm", "cpu_op", {}, None), ("gemm", "gpu_user_annotation", {"device": 0}, None)])
def test_kinds_of_work(tmp_path, name, category, args, work):
    """The same as in `cprof explain`; also communication that a thread of the CPU waits for."""
    outline = event_columns.Outline(tool.write(tmp_path / "t.json", []))
    row, = event_columns.EventColumns(outline, 0).batch([dict(tool.span(name, 1, 2, category), args=args)]).to_pylist()
    assert row["work"] == work


def test_row_groups_hold_steps(tmp_path):
    """A long step has a row group of its own; short ones share one; what belongs to no step goes along."""
    events, at = [], 0
    for number, count in enumerate([20_000, 18_000, 100, 200, 17_000]):
        events.append(tool.span(f"ProfilerStep#{number}", at, count, "user_annotation", tid=4194305))
        events += [{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": at + n, "dur": 1} for n in range(count)]
        at += count
    path = tool.write(tmp_path / "t.json", events)
    folder = tables.exported(tmp_path / "tables", path)
    file = pyarrow.parquet.ParquetFile(next((folder / "events").rglob("*.parquet")))
    steps = [file.read_row_group(n, ["step"])["step"].unique().to_pylist() for n in range(file.num_row_groups)]
    assert steps == [[0], [1], [2, 3, 4]] and file.metadata.row_group(0).column(5).path_in_schema == "name"
    assert "RLE_DICTIONARY" in file.metadata.row_group(0).column(5).encodings


# ---- names and odd values ----

def test_names_are_data(tmp_path, monkeypatch):
    """Runs, hosts, files and events with quotes, SQL, paths, line breaks, globs and bytes that are no UTF-8 come back as they were."""
    monkeypatch.chdir(tmp_path)
    os.makedirs("in")
    wanted = collections.Counter()
    for n, name in enumerate(EVIL):
        folder = pathlib.Path("in", f"{n}")
        folder.mkdir()
        tool.write(folder / "rank0.json", [tool.span(name, 1, 2, cat=name, Module_Hierarchy=name, Call_stack=f"{name};f.py(1): {name.replace(';', '')};"),
                                           tool.span("\udcff\ud800", 3, 4)], host_name=name, deviceProperties=[{"name": name}], cprof={"lost": {name: 1}})
        (folder / "saved_traces.jsonl").write_text(json.dumps({"rank": 0, "world_size": 1, "keep": 1, "saved_ns": 1, "path": "rank0.json", "run_name": name,
                                                              "timestamp": dict.fromkeys(SavedTime._fields, 0)}) + "\n")
        wanted[name, name] += 1
        wanted[name, "\\udcff\\ud800"] += 1
    folder = tables.exported("tables", *sorted(map(str, pathlib.Path("in").iterdir())))
    assert sorted(os.listdir()) == ["in", "tables"] and all(len(path.split("/")) == 4 for path in listing(folder) if path != "cprof-dataset")
    assert collections.Counter((row["run"], row["name"]) for row in table(folder)) == wanted
    found = tables.rows(folder, "SELECT run, host, devices, losses FROM traces")
    assert [(row["host"], row["devices"], json.loads(row["losses"])) for row in found] == [(row["run"], [row["run"]], {row["run"]: 1}) for row in found]
    views = tables.database(folder)
    for name in EVIL:
        text = "SELECT count(*) AS n FROM events WHERE run = '{0}' AND name = '{0}' AND module = '{0}'".format(name.replace("'", "''"))
        assert tables.asked(views, text) == [{"n": 1}], name
    shown = tool.cprof("sql", folder, "SELECT run, name, host FROM events JOIN traces USING (run)")
    assert all(c.isprintable() or c == "\n" for c in shown.out) and len(shown.out.splitlines()) == 1 + 2 * len(EVIL)


def same(one, other):
    """Whether two rows are equal; NaN equals NaN."""
    return one.keys() == other.keys() and all(value == other[key] or value != value and other[key] != other[key] for key, value in one.items())


@pytest.mark.parametrize("seed", matrix(range(10), 0, 1))
def test_odd_fields(seed, tmp_path, monkeypatch, request):
    """Any value in any field: no internal error, and the same rows, whichever way the columns are made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CPROF_LOG", "debug")  # raises internal errors
    request.addfinalizer(gc.enable)
    choose = random.Random(seed)
    for n in range(40):
        events, top = with_odd_fields(choose)
        tool.write("t.json", events, **top)
        outline = event_columns.Outline("t.json")
        given = [json.loads(json.dumps(event)) for event in events]
        whole = event_columns.EventColumns(outline, 0).batch(given).to_pylist()
        columns = event_columns.EventColumns(outline, 0)
        apart = [row for event in given for row in columns.batch([event]).to_pylist()]
        assert len(whole) == len(apart) and all(map(same, whole, apart)), "a column that is converted at once equals one converted value by value"
        if n == 0:
            code = main(["export", "t.json", "-o", "out", "--parquet"])
            assert code == 0 and len(table("out")) == len(whole) or code == 2 and not os.path.exists("out")


def test_times_are_exact_nanoseconds(tmp_path):
    """Of doubles, large integers and a base, in one column or each alone; a duration is never negative."""
    times = [0, 0.001, 2318225022128.427, 1712195495519689.0, 1712195495519689, -3.5, 4.1e15, 2**53 + 1, "1", None, 1e300, float("nan"), True]
    path = tool.write(tmp_path / "t.json", [dict(tool.span("a", 0, -1), ts=ts) for ts in times], baseTimeNanoseconds=1793664000000000000)
    outline = event_columns.Outline(path)
    found = event_columns.EventColumns(outline, 0).batch([dict(tool.span("a", 0, -1), ts=ts) for ts in times]).to_pylist()
    exact = [0, 1, 2318225022128427, 1712195495519689000, 1712195495519689000, -3500]
    usable = [ns + 1793664000000000000 for ns in exact]
    assert [row["ts_ns"] for row in found] == usable and {row["dur_ns"] for row in found} == {0}


def test_outline_is_the_same_without_the_faster_parser(tmp_path, monkeypatch):
    """Steps, threads and calls, from blocks that msgspec takes, from one that it refuses, and from all without it."""
    events = [tool.span("ProfilerStep#4", 0, 9e5, "user_annotation", tid=4194305), tool.span("ProfilerStep#7", 3, 4, "user_annotation"),
              {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "main"}}, dict(tool.span("aten::odd", 1, 1), args={"x": math.nan})]
    events += [tool.span(f"a{n}", n, 1, "cuda_runtime" if n % 3 else "cpu_op", correlation=7 * n) for n in range(9000)]
    path = tool.write(tmp_path / "t.json", events[::-1])

    def outline():
        one = event_columns.Outline(path)
        return one.threads, [one.span_at(time) for time in (5, 10**9)], [one.launched_at(7 * n, -1) for n in range(9000)]

    found = outline()
    monkeypatch.setitem(sys.modules, "msgspec", None)
    assert outline() == found
    assert found[:2] == ({("1", "2"): "main"}, [(0, 900_000_000, 4), (900_000_000, 1 << 62, None)]) and found[2][3:5] == [-1, 4000]


# ---- which run ----

def test_names_of_runs(tmp_path, monkeypatch):
    """Folders of one name are one run if they hold different ranks; else the path tells them apart."""
    monkeypatch.chdir(tmp_path)
    for folder, rank in (("one/mine/torch_traces", 0), ("two/mine/torch_traces", 1), ("three/mine", 0)):
        os.makedirs(folder)
        training(rank).write(folder)
    runs = {row["run"] for row in table(tables.exported("ab", "one/mine", "two/mine"), "traces")}
    assert runs == {"mine"}
    runs = {row["run"] for row in table(tables.exported("ac", "one/mine", "three/mine"), "traces")}
    assert runs == {f"{tmp_path}/one/mine", f"{tmp_path}/three/mine"}
    long = "字" * 80
    os.makedirs(long)
    training(0).write(long)
    assert {row["run"] for row in table(tables.exported("long", long), "traces")} == {long[-22:]}


# ---- traces that are not whole ----

def test_cut_trace_is_told_and_the_others_are_whole(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.makedirs("run")
    paths = [training(rank).write("run") for rank in range(2)]
    text = paths[1].read_text()
    paths[1].write_text(text[:text.index("gemm", len(text) // 2)])
    done = tool.cprof("export", "run", "-o", "tables", "--parquet")
    assert done.rc == 0 and f"cprof: {paths[1]}: ends in the middle, at byte " in done.err and str(paths[0]) not in done.err
    found = tables.rows("tables", "SELECT rank, truncated, notes, events FROM traces ORDER BY rank")
    assert [row["truncated"] for row in found] == [False, True] and "ends in the middle" in found[1]["notes"][0]
    assert found[0]["events"] == 24 > found[1]["events"] > 0


def test_trace_that_is_none(tmp_path, monkeypatch):
    """In a folder it is left out and told; named by itself it is refused, and no folder is left."""
    monkeypatch.chdir(tmp_path)
    os.makedirs("run")
    training(0).write("run")
    pathlib.Path("run/x.json").write_text("hello")
    done = tool.cprof("export", "run", "-o", "tables", "--parquet")
    assert done.rc == 0 and done.err == "cprof: run/x.json: byte 0: no JSON object or array: no trace: left out\n"
    tool.refused(tool.cprof("export", "run/x.json", "-o", "other", "--parquet"), "run/x.json: ", "no trace")
    tool.refused(tool.cprof("export", "-", "-o", "other", "--parquet"), "is read twice for an export")
    tool.write("run/empty.json", [tool.memory(1, 2, 3)], distributedInfo={"rank": 1})
    done = tool.cprof("export", "run", "-o", "most", "--parquet")
    assert done.rc == 0 and "run/empty.json: holds no operator, call or kernel: it has neither steps nor findings" in done.err
    assert [row["events"] for row in table("most", "traces")] == [24, 1] and len(table("most", "steps")) == 6
    tool.refused(tool.cprof("export", "run/empty.json", "-o", "other", "--parquet"), "holds no operator, call or kernel")
    merged = tool.cprof("merge", "run/rank0.4.pt.trace.json", "-o", "merged.json")
    assert merged.rc == 0
    tool.refused(tool.cprof("export", "merged.json", "-o", "other", "--parquet"), "is merged of several ranks")
    assert not os.path.exists("other") and not [name for name in os.listdir() if name.startswith(".")]


# ---- the folder ----

@pytest.mark.parametrize("output", ["file", "full", "link", "missing/out"])
def test_refuses_an_output_that_is_there(tmp_path, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    trace = training(0).write(tmp_path)
    pathlib.Path("file").write_text("mine")
    os.makedirs("full/of")
    os.makedirs("empty")
    os.symlink("empty", "link")
    before = listing(".")
    tool.refused(tool.cprof("export", trace, "-o", output, "--parquet"), output)
    assert listing(".") == before and os.listdir("empty") == []
    tables.exported("empty/", trace)
    assert os.path.exists("empty/cprof-dataset")


@pytest.mark.parametrize("number", matrix([signal.SIGTERM, signal.SIGINT], signal.SIGTERM))
def test_interrupted_export_leaves_nothing(tmp_path, number):
    trace = tool.write(tmp_path / "t.json", [tool.span(f"a{n % 7}", n, 1) for n in range(300_000)])
    running = subprocess.Popen(command("export", trace, "-o", tmp_path / "tables", "--parquet"), stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               start_new_session=True)
    for _ in range(1000):
        if list(tmp_path.glob(".cprof-*/whole/0.parquet")):
            break
        time.sleep(0.01)
    running.send_signal(number)
    assert running.wait(60) == 128 + number
    assert os.listdir(tmp_path) == ["t.json"]


def test_full_disk_leaves_nothing(tmp_path):
    """No file may grow beyond some kilobytes."""
    trace = tool.write(tmp_path / "t.json", [tool.span(f"a{n}", n + n % 7 / 7, n % 99) for n in range(20_000)])
    code = f"import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000)); sys.argv[0] = {str(COMMAND)!r}; " \
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    done = subprocess.run([sys.executable, "-c", code, "export", trace, "-o", tmp_path / "tables", "--parquet"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr == f"cprof: {tmp_path / 'tables'}: File too large\n" and os.listdir(tmp_path) == ["t.json"]


def test_says_what_to_install(tmp_path):
    """Without site-packages there is neither of the packages."""
    trace = training(0).write(tmp_path)
    for args, what in ((["export", trace, "-o", tmp_path / "out", "--parquet"], "pyarrow"), (["sql", trace, "SELECT 1"], "pyarrow and duckdb")):
        done = subprocess.run([sys.executable, "-S", str(COMMAND), *map(str, args)], capture_output=True, text=True)
        assert (done.returncode, done.stdout, done.stderr) == (2, "", f"cprof: needs {what}: pip install 'cprof[data]'\n")
