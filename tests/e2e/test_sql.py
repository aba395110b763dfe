# SPDX-License-Identifier: Apache-2.0
"""`cprof sql`: the queries of scripts/guide/sql.md give what the traces' JSON gives without SQL, and a statement reaches nothing but the views."""

import collections
import csv
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

import support
import tables
import tool
from command_runs import ALLREDUCE, command
from conftest import ROOT, matrix
from test_command_merge import training
from test_explain import FIXTURES, Machine

PAGE = (ROOT / "scripts/guide/sql.md").read_text()
QUERIES = dict(re.findall(r"^\*\*(.*?)\*\*.*?^```sql\n(.*?)^```", PAGE, re.M | re.S))
STEP = 4194305  # row of the steps


def query(words):
    """The only query of the page whose question has these words."""
    found, = [text for question, text in QUERIES.items() if words in question]
    return found


def write(folder, name, events, **head):
    folder.mkdir(parents=True, exist_ok=True)
    return tool.write(folder / name, events, **head)


def waiting_for_data(folder):
    """A GPU that each step is idle for 5 ms of the DataLoader and runs dry for 2 ms of Python. A module holds part of the memory."""
    machine = Machine()
    for number in range(4):
        begin = machine.now
        machine.operator("aten::linear", 100.0, 3000.0, line="train.py(10): main")
        machine.operator("aten::linear", 100.0, 3000.0, line="train.py(10): main")
        machine.now = machine.free
        machine.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", 5000.0)
        machine.operator("aten::linear", 100.0, 1000.0)
        machine.now = machine.free + 2000.0
        machine.operator("aten::linear", 100.0, 1000.0)
        machine.now = machine.free
        machine.events.append(tool.span(f"ProfilerStep#{number}", begin, machine.now - begin, "user_annotation", tid=STEP))
    number = 0
    for event in machine.events:  # an operator comes before its call and kernel
        number += event["cat"] == "cpu_op"
        if event["cat"] != "user_annotation":
            event["args"]["External id"] = number
    for n, module in enumerate(("Net.a", "Net.b", "")):
        number = 1000 + n
        machine.events.append(tool.span("aten::empty", 10.0 + n, 0.5, External_id=number, **({"Module_Hierarchy": module} if module else {})))
        machine.events.append(tool.memory(10.1 + n, 1 << 20, number))
        machine.events[-1]["args"]["External id"] = number
    machine.events.append(tool.memory(20.0, -(1 << 20), 1001))
    return write(folder / "data", "rank0.json", machine.events, host_name="node-9")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Database and traces: real ranks of gloo, two traces of an H200, ranks with NCCL on two hosts, a GPU that waits for data."""
    folder = tmp_path_factory.mktemp("sql")
    traces = {"ddp": sorted(support.files(tables.gloo(folder / "ddp")))}
    for name, fixture in (("before", "h200-healthy"), ("after", "h200-launch-bound")):
        (folder / name).mkdir()
        os.symlink(FIXTURES / f"{fixture}.json.gz", folder / name / "rank0.json.gz")
        traces[name] = [folder / name / "rank0.json.gz"]
    (folder / "nccl").mkdir()
    traces["nccl"] = [training(rank, slow_ms=1.5 * rank, host=f"node-{rank // 2}", world=4).write(folder / "nccl") for rank in range(4)]
    traces["data"] = [waiting_for_data(folder)]
    return tables.database(tables.exported(folder / "tables", *(folder / name for name in traces))), traces


def test_page_has_ten_queries_that_work(data):
    """Each answers something about these traces. None of them is cut, so nothing is missing."""
    assert len(QUERIES) == 10
    for question, text in QUERIES.items():
        found = tables.asked(data[0], text)
        assert bool(found) != ("lack" in question), question


def test_top_kernels_over_all_ranks(data):
    database, traces = data
    sums = collections.Counter()
    for run, paths in traces.items():
        for path in paths:
            for name, start, end, _ in tables.spans(path, "kernel"):
                sums[run, name] += end - start
    total = collections.Counter()
    for (run, _), ns in sums.items():
        total[run] += ns
    found = tables.asked(database, query("Which kernels"))
    assert [row["ms"] for row in found] == pytest.approx([ns / 1e6 for _, ns in sums.most_common(10)])
    for row in found:
        ns = sums[row["run"], row["name"]]
        assert row["ms"] == pytest.approx(ns / 1e6) and row["share"] == pytest.approx(ns / total[row["run"]])


def test_skew_of_the_steps(data):
    """A rank's own time is what it does not wait for the others: with NCCL, the step without the all-reduce."""
    own = collections.defaultdict(dict)
    for rank, path in enumerate(data[1]["nccl"]):
        transfers = [tables.spans(path, "kernel")[n] for n in range(1, 12, 2)]
        for name, start, end, _ in tables.spans(path, "user_annotation"):
            during = sum(min(until, end) - since for _, since, until, _ in transfers if start <= since < end)
            own[int(name.partition("#")[2])][rank] = end - start - during
    del own[0]  # the first step is left out
    found = [row for row in tables.asked(data[0], query("ranks differ")) if row["run"] == "nccl"]
    assert len(found) == len(own) == 5
    for row in found:
        ranks = own[row["step"]]
        assert row["skew_ms"] == pytest.approx((max(ranks.values()) - min(ranks.values())) / 1e6) and row["slowest"] == max(ranks, key=ranks.get) == 3


def exposed(path):
    """Nanoseconds by collective in which it runs and nothing computes, in a trace of NCCL or gloo."""
    found, device = collections.Counter(), tables.spans(path, "kernel")
    transfers = [one for one in device if one[0].startswith("nccl")] or [one for one in tables.spans(path) if one[0].startswith("gloo:")]
    computing = [one for one in device if not one[0].startswith("nccl")] if device else \
        [one for one in tables.spans(path, "cpu_op") if not one[0].startswith("c10d::")]
    busy = tables.union([(start, end) for _, start, end, _ in computing])
    for name, start, end, event in transfers:
        found[event["args"].get("Collective name", name)] += end - start - tables.common([(start, end)], busy)
    return found


def test_exposed_communication_by_collective(data):
    database, traces = data
    found = tables.asked(database, query("collectives are exposed"))
    for run in ("ddp", "nccl"):
        wanted = sum(map(exposed, traces[run]), collections.Counter())
        assert {row["name"]: row["exposed_ms"] for row in found if row["run"] == run} == pytest.approx({name: ns / 1e6 for name, ns in wanted.items()})
        assert all(row["ms"] >= row["exposed_ms"] > 0 for row in found if row["run"] == run)
    assert {row["run"] for row in found} == {"ddp", "nccl"}
    steps = tables.asked(database, "SELECT sum(exposed_comm_ns) / 1e6 AS ms FROM steps WHERE run = 'nccl'")
    assert [row["ms"] for row in steps] == pytest.approx([row["exposed_ms"] for row in found if row["run"] == "nccl"], rel=1e-3)


def test_idle_by_cause(data):
    """The planted waits are known. On the H200 the causes add up to the time without work."""
    database, traces = data
    found = tables.asked(database, query("GPU idle"))
    planted = {row["cause"]: row["ms"] for row in found if row["run"] == "data"}
    assert planted["data"] == pytest.approx(5.0, abs=0.2) and planted["cpu_late"] == pytest.approx(2.0, abs=0.3)
    for run in ("before", "after"):
        path, = traces[run]
        busy = tables.union([(start, end) for _, start, end, _ in tables.spans(path, "kernel", "gpu_memcpy", "gpu_memset")])
        steps = sorted((start, end) for name, start, end, event in tables.spans(path, "user_annotation") if event["tid"] == STEP)
        idle = [end - start - tables.common([(start, end)], busy) for start, end in steps[1:]]
        assert sum(row["ms"] for row in found if row["run"] == run) == pytest.approx(sum(idle) / len(idle) / 1e6)


def test_what_changed_between_two_runs(data):
    database, traces = data
    means = {}
    for run in ("before", "after"):
        path, = traces[run]
        steps = [one for one in tables.spans(path, "user_annotation") if one[3]["tid"] == STEP]
        calls = {event["args"].get("correlation"): start for _, start, _, event in tables.spans(path, "cuda_runtime", "cuda_driver")}
        for name, start, end, event in tables.spans(path, "kernel", "gpu_memcpy", "gpu_memset", "cpu_op"):
            begun = start if event["cat"] == "cpu_op" else calls[event["args"]["correlation"]]
            if any(since <= begun < until for _, since, until, _ in steps):
                of_both = means.setdefault((event["cat"], name), {"before": 0, "after": 0})
                of_both[run] += (end - start) / len(steps) / 1e6
    found = tables.asked(database, query("What changed"))
    assert len(found) == 20
    for row in found:
        both = means[row["category"], row["name"]]
        assert (row["before_ms"], row["after_ms"]) == pytest.approx((both["before"], both["after"]))
    largest = sorted((abs(both["after"] - both["before"]) for both in means.values()), reverse=True)[:20]
    assert [abs(row["change_ms"]) for row in found] == pytest.approx(largest)


def test_other_queries(data):
    """Memory by module, the slowest host, findings, lines."""
    database, _ = data
    memory = {row["module"]: row for row in tables.asked(database, query("modules take memory")) if row["run"] == "data"}
    assert {name: (row["allocations"], row["mb"], row["kept_mb"]) for name, row in memory.items()} == {
        "Net.a": (1, 1.048576, 1.048576), "Net.b": (1, 1.048576, 0), "(no module)": (1, 1.048576, 1.048576)}
    hosts = [row for row in tables.asked(database, query("host is slowest")) if row["run"] == "nccl"]
    assert [(row["host"], row["ranks"]) for row in hosts] == [("node-1", 2), ("node-0", 2)] and hosts[0]["own_ms"] > hosts[1]["own_ms"] + 2
    told = json.loads(tool.cprof("explain", "--json", FIXTURES / "h200-launch-bound.json.gz").out)["findings"]
    rules = {row["rule"]: row["worst_ms"] for row in tables.asked(database, query("findings do most")) if row["run"] == "after"}
    assert rules == pytest.approx({one["rule"]: one["ms_per_step"] for one in told}) and rules
    lines = [(row["line"], row["ms"]) for row in tables.asked(database, query("lines and modules")) if row["run"] == "data"]
    assert lines == [("train.py(10): main", pytest.approx(24.0)), ("(no line)", pytest.approx(8.0))]


# ---- the command ----

@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A dataset of one synthetic rank."""
    folder = tmp_path_factory.mktemp("small")
    training(0).write(folder)
    return tables.exported(folder / "tables", folder)


@pytest.fixture(scope="module")
def views(small):
    """The database of that dataset."""
    return tables.database(small)


def test_forms_of_the_answer(small):
    text = "SELECT step, name, count(*) AS name FROM events WHERE category = 'kernel' GROUP BY ALL ORDER BY step, 2"
    found = tables.rows(small, text)
    assert len(found) == 12 and found[0] == {"step": 0, "name": "gemm", "name_2": 1}
    lines = list(csv.reader(io.StringIO(tool.cprof("sql", small, text, "--csv").out)))
    assert lines[0] == ["step", "name", "name_2"] and [list(map(str, row.values())) for row in found] == lines[1:]
    shown = tool.cprof("sql", small, text, "--row-limit", "3")
    assert shown.out.splitlines()[:2] == ["step  name" + " " * (len(ALLREDUCE) - 4) + "  name_2", "   0  gemm" + " " * (len(ALLREDUCE) - 4) + "       1"] and len(shown.out.splitlines()) == 4
    assert shown.err == "cprof: the first 3 rows; --row-limit -1, --csv and --json give all\n"


def test_table_cuts_texts_only(small):
    """Columns of text get narrower until the table fits. Numbers stay whole."""
    wide = tool.cprof("sql", small, "SELECT repeat('x', 500) AS a, 1795982000000000000 AS b, repeat('y', 20) AS c, 'd' AS d").out.splitlines()
    assert all(len(line) <= 160 for line in wide) and "1795982000000000000" in wide[1] and "y" * 20 in wide[1] and "x…" in wide[1]


def test_values_of_all_types(small):
    found, = tables.rows(small, "SELECT [1, NULL] AS list, {'a': 1.5} AS struct, NULL AS nothing, 'nan'::DOUBLE AS nan, DATE '2026-01-02' AS day, "
                         "'a\nb' AS text, true AS yes, 170141183460469231731687303715884105727 AS large")
    assert found == {"list": [1, None], "struct": {"a": 1.5}, "nothing": None, "nan": "nan", "day": "2026-01-02", "text": "a\nb", "yes": True,
                     "large": 2**127 - 1}
    assert "a\\nb" in tool.cprof("sql", small, "SELECT 'a\nb' AS text").out


@pytest.mark.parametrize("text", [
    "SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM read_text('/etc/hostname')", "SELECT * FROM '/etc/passwd'", "SELECT * FROM glob('/*')",
    "COPY (SELECT 1) TO 'out.csv'", "EXPORT DATABASE 'out'", "ATTACH 'out.db'", "INSTALL httpfs", "LOAD httpfs", "SET enable_external_access = true",
    "SET memory_limit = '1TB'", "SELECT * FROM read_parquet('https://example.com/x.parquet')", "SELECT * FROM small", "SELECT * FROM views",
    "CREATE SECRET (TYPE s3)"])
def test_statement_reaches_no_file_and_no_setting(views, text, tmp_path, monkeypatch):
    """Reading, writing, extensions, the network, settings, and variables of Python."""
    monkeypatch.chdir(tmp_path)
    views.execute("SELECT count(*) FROM events")
    with pytest.raises(tables.duckdb.Error):
        views.execute(text)
    assert not os.listdir()


def test_command_reaches_no_file(small, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert tool.refused(tool.cprof("sql", small, "COPY (SELECT 1) TO 'out.csv'"), "DuckDB: Permission Error: ") and not os.listdir()


def test_many_traces_need_many_files(tmp_path):
    """Each file of a dataset holds a descriptor, and the usual limit is 1,024."""
    for rank in range(12):
        training(rank, steps=1).write(tmp_path)
    folder = tables.exported(tmp_path / "tables", tmp_path)
    done = subprocess.run(["bash", "-c", 'ulimit -S -n 40; exec "$@"', "-", *command("sql", folder, "SELECT count(DISTINCT rank) AS n FROM events", "--csv")],
                          capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("n\n12\n", "")


def test_refuses_statements_that_are_not_one(small):
    tool.refused(tool.cprof("sql", small, "SELECT 1; SELECT 2"), "one statement is needed, there are 2")
    tool.refused(tool.cprof("sql", small, ""), "one statement is needed, there are 0")
    tool.refused(tool.cprof("sql", small, "SELECT nothing FROM events"), 'DuckDB: Binder Error: Referenced column "nothing" not found')
    tool.refused(tool.cprof("sql", small, small, "SELECT 1"), "is one of several")


def test_statement_has_bounded_memory(small, monkeypatch):
    monkeypatch.setattr(tables.sql, "MEMORY_LIMIT", "50MB")
    with pytest.raises(tables.duckdb.OutOfMemoryException):
        tables.database(small).execute("SELECT count(*) FROM (SELECT DISTINCT range, repeat('x', 1000) || range FROM range(1000000))").fetchall()


@pytest.mark.parametrize("number", matrix([signal.SIGINT, signal.SIGTERM], signal.SIGINT))
def test_interrupted_statement_ends_and_leaves_nothing(tmp_path, number):
    """DuckDB by itself would go on for years."""
    (tmp_path / "tmp").mkdir()
    trace = training(0).write(tmp_path)
    text = "SELECT count(*) FROM range(100000000) AS a, range(100000000) AS b WHERE hash(a.range + b.range) = 7"
    running = subprocess.Popen(command("sql", trace, text), env=dict(os.environ, TMPDIR=str(tmp_path / "tmp")), stderr=subprocess.PIPE, text=True)
    assert "exports 1 trace" in running.stderr.readline()
    while not list(tmp_path.glob("tmp/cprof-sql-*/cprof-dataset")):
        time.sleep(0.01)
    time.sleep(0.3)
    running.send_signal(number)
    assert running.wait(30) == 128 + number and running.stderr.read() == "" and os.listdir(tmp_path / "tmp") == []


def test_run_is_exported_and_removed_again(tmp_path, monkeypatch):
    """The newest run needs no name. A dataset needs no trace."""
    (tmp_path / "tmp").mkdir()
    (tmp_path / "mine/torch_traces").mkdir(parents=True)
    training(0).write(tmp_path / "mine/torch_traces")
    monkeypatch.chdir(tmp_path)
    for args in (["mine"], []):
        done = tool.cprof("sql", *args, "SELECT run, count(*) AS n FROM steps GROUP BY run", "--json", env={"TMPDIR": str(tmp_path / "tmp")})
        assert done.rc == 0 and json.loads(done.out) == {"run": "mine", "n": 6}
        assert done.err.splitlines()[-1] == "cprof: exports 1 trace for this question; `cprof export -o FOLDER --parquet` keeps the tables"
        assert os.listdir("tmp") == []


@pytest.mark.parametrize("damage, said", [
    (lambda folder: (folder / "cprof-dataset").write_text('{"version": 2}'), "is a dataset of version 2, and this cprof reads version 1"),
    (lambda folder: (folder / "cprof-dataset").write_text("x"), "is damaged, so this is no dataset"),
    (lambda folder: next(folder.glob("steps/*/*/*")).write_bytes(b"PAR1" * 9), "0.parquet: is damaged ("),
    (lambda folder: next(folder.glob("steps/*/*/*")).write_bytes(b""), "0.parquet: is damaged ("),
    (lambda folder: (folder / "steps/x/rank=0").mkdir(parents=True), "x/rank=0: is no folder of a dataset"),
    (lambda folder: os.mkfifo(next(folder.glob("steps/*/*")) / "9.parquet"), "9.parquet: is not a regular file")])
def test_names_what_is_damaged(tmp_path, damage, said):
    training(0).write(tmp_path)
    folder = tables.exported(tmp_path / "tables", tmp_path)
    damage(pathlib.Path(folder))
    tool.refused(tool.cprof("sql", folder, "SELECT * FROM events"), said)
