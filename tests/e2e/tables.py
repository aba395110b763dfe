# SPDX-License-Identifier: Apache-2.0
"""Shared by the tests of `cprof export` and `cprof sql`: exporting, asking DuckDB, and real traces of two ranks."""

import json
import pathlib
import socket
import subprocess
import sys

import pytest

import support
import tool

duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed in .venv")
pytest.importorskip("pyarrow", reason="pyarrow is not installed in .venv")

from cprof.tool import sql  # noqa: E402

SCRIPTS = pathlib.Path(__file__).parent / "scripts"


def exported(folder, *traces):
    """The dataset of these traces."""
    done = tool.cprof("export", *traces, "-o", folder, "--parquet")
    assert done.rc == 0 and done.out == f"{folder}\n", done.err
    return folder


def rows(folder, query):
    """The answer of `cprof sql` as dictionaries."""
    done = tool.cprof("sql", folder, query, "--json")
    assert done.rc == 0, done.err
    return [json.loads(line) for line in done.out.splitlines()]


def database(folder):
    """The database of `cprof sql`."""
    return sql._connection(str(folder))


def asked(database, query):
    """The answer of a database as dictionaries."""
    cursor = database.execute(query)
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row)) for row in cursor.fetchall()]


def gloo(folder, name="ddp"):
    """Traces of two ranks of a DistributedDataParallel training over gloo, steps 1 to 5. Their run is called `name`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {"PYTHONPATH": str(SCRIPTS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "GLOO_SOCKET_IFNAME": "lo",
           "OMP_NUM_THREADS": "1"}
    ranks = [subprocess.Popen([sys.executable, SCRIPTS / "ranks.py"], stderr=subprocess.PIPE, text=True, env=support.environment(
        folder, WARMUP=1, ACTIVE=5, RUN_NAME=name, env=dict(env, RANK=str(rank), LOCAL_RANK=str(rank)))) for rank in range(2)]
    said = [rank.communicate(timeout=support.TIMEOUT_S)[1] for rank in ranks]
    assert not any(rank.returncode for rank in ranks), said
    return folder


def spans(path, *categories):
    """(name, start, end, event) of a trace's spans, in nanoseconds since 1970."""
    trace = support.loads_plainly(path)
    base = trace.get("baseTimeNanoseconds", 0)
    found = [(event["name"], base + round(event["ts"] * 1000), event) for event in trace["traceEvents"]
             if event["ph"] == "X" and (not categories or event["cat"] in categories)]
    return [(name, start, start + round(event["dur"] * 1000), event) for name, start, event in found]


def union(times):
    """Disjoint times that cover the same moments, in order."""
    found = []
    for start, end in sorted(times):
        if found and start <= found[-1][1]:
            found[-1][1] = max(found[-1][1], end)
        else:
            found.append([start, end])
    return found


def common(one, other):
    """How long both of two lists of disjoint times last together."""
    return sum(max(0, min(end, until) - max(start, since)) for start, end in one for since, until in other)
