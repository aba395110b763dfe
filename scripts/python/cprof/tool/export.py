# SPDX-License-Identifier: Apache-2.0
"""Writes the events, steps and findings of runs as tables in Parquet files, for DuckDB, pandas, Spark and others.

    cprof export RUN -o tables --parquet
    cprof sql tables "SELECT name, sum(dur_ns) FROM events WHERE category = 'kernel' GROUP BY name"

The tables are `events`, `steps`, `findings` and `traces`. FOLDER/TABLE/run=RUN/rank=RANK/*.parquet holds a table, so readers of Hive partitions see
the columns run and rank. The folder appears when it is whole. Needs pyarrow: pip install 'cprof[data]'."""

import argparse
import functools
import json
import os
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from cprof._saved import lines_of
from cprof.tool import Problem, arrow, moments, note, printable
from cprof.tool.collectives import rank_of
from cprof.tool.dataset import CPU_TIMES, ENCODED_MOST, EVENTS, FINDINGS, GPU_TIMES, STEPS, TRACES, TableFile, encoded, place, write_mark
from cprof.tool.event_columns import CPU, EventColumns, Outline, as_text
from cprof.tool.explain import explained
from cprof.tool.given import WITHIN, add_traces, traces_of
from cprof.tool.output import appearing_folder, end_tidily
from cprof.tool.progress import Progress, Relay
from cprof.tool.reader import keep_out_pipes, open_trace
from cprof.tool.screen import data
from cprof.tool.spans import int_or_none
from cprof.tool.workers import Job, in_processes

HELP = "write events, steps and findings as tables in Parquet files, for DuckDB, pandas and Spark"
MOST_JOBS = 8
INT64_MOST = (1 << 63) - 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_traces(parser)
    parser.add_argument("-o", "--output", metavar="FOLDER", required=True, help="the folder of the tables, new or empty")
    parser.add_argument("--parquet", action="store_true", required=True, help="the format: Parquet, compressed by zstd")


class Source(NamedTuple):
    """A trace to export."""
    path: str
    run: str
    number: int   # of all traces
    order: int    # in the run


class Written(NamedTuple):
    """What export_events() wrote of a trace."""
    rank: int
    base: int            # nanoseconds
    spans: int           # events with a duration
    row: Dict[str, Any]  # of the table `traces`


class Explained(NamedTuple):
    """What explain_run() found."""
    steps: List[Tuple[str, List[Dict[str, Any]]]]   # rows by path; times relative to the trace's base
    findings: List[Tuple[int, Dict[str, Any]]]      # rows by rank
    problems: List[Problem]                         # of traces that are left out


# ---- names of runs ----

def _folder_of(path: str) -> str:
    """The folder of a trace's run."""
    folder = os.path.dirname(os.path.abspath(path))
    return os.path.dirname(folder) if os.path.basename(folder) == WITHIN else folder


def _listed(folder: str) -> Dict[str, str]:
    """The names of runs that the list beside the traces gives, by file name."""
    try:
        return {os.path.basename(line["path"]): line["run_name"] for line in lines_of(folder or ".")}
    except OSError:
        return {}


def sources_of(paths: List[str]) -> List[Source]:
    """The traces with the names of their runs: from the list of saved traces, else the folder's. Folders with the same name are one run as long as no
    two of them have the same rank; else each is named by its path."""
    listed = {folder: _listed(folder) for folder in set(map(os.path.dirname, paths))}
    names = [listed[os.path.dirname(path)].get(os.path.basename(path)) or os.path.basename(_folder_of(path)) or "run" for path in paths]
    folders: Dict[Tuple[str, int], Set[str]] = {}   # by name and rank
    for n, (path, name) in enumerate(zip(paths, names)):
        with open_trace(path) as trace:
            folders.setdefault((name, rank_of(trace.head(), path, n)), set()).add(_folder_of(path))
    apart = {name for (name, _), of_rank in folders.items() if len(of_rank) > 1}
    found: List[Source] = []
    counts: Dict[str, int] = {}
    for n, (path, name) in enumerate(zip(paths, names)):
        run = _short(as_text(_folder_of(path) if name in apart else name))
        found.append(Source(path, run, n, counts.get(run, 0)))
        counts[run] = counts.get(run, 0) + 1
    return found


def _short(run: str) -> str:
    """The name, cut to what the name of a folder can hold."""
    while len(encoded(run)) > ENCODED_MOST:
        run = run[1:]
    return run


# ---- one trace, or one run: each runs in a process of its own ----

def export_events(source: Source, output: str, tell: Callable[[int], Any]) -> Written:
    """Writes the events of a trace into the file `output`."""
    with Relay(tell) as progress:
        outline = Outline(source.path, progress)
        columns = EventColumns(outline, source.number)
        with open_trace(source.path, progress) as trace, TableFile(output, EVENTS) as file:
            trace.past_large = True
            for block in trace.blocks():
                file.add(columns.batch(block))
            metadata, notes, truncated = trace.metadata, trace.remarks(), trace.truncated
    return Written(rank_of(metadata, source.path, source.order), outline.base, columns.spans, _trace_row(source, metadata, columns, notes, truncated))


def _fitting(number: int) -> int:
    """The number, limited to 64 bits: only a damaged trace has more."""
    return max(-INT64_MOST, min(number, INT64_MOST))


def _object(value: Any) -> Dict[str, Any]:
    return value if type(value) is dict else {}


def _trace_row(source: Source, metadata: Dict[str, Any], columns: EventColumns, notes: List[str], truncated: bool) -> Dict[str, Any]:
    """The row of the table `traces`."""
    account, lost = _object(metadata.get("cprof")), _object(_object(metadata.get("cprof")).get("lost"))
    devices = metadata.get("deviceProperties")
    counts = {as_text(key): int_or_none(count) for key, count in lost.items() if key != "total" and int_or_none(count)}

    def text(value: Any) -> Optional[str]:
        return as_text(value) if type(value) is str else None

    return {"trace": source.number, "file": as_text(os.path.basename(source.path)), "host": text(metadata.get("host_name")),
            "devices": [text(one.get("name")) for one in devices if type(one) is dict] if type(devices) is list else [],
            "torch": text(metadata.get("torch_version")), "cprof": text(account.get("version")),
            "world_size": int_or_none(_object(metadata.get("distributedInfo")).get("world_size")),
            "first_step": int_or_none(account.get("first_step")), "last_step": int_or_none(account.get("last_step")),
            "begin_ns": _fitting(columns.begin) if columns.events else None, "end_ns": _fitting(columns.end) if columns.events else None, "events": columns.events,
            "lost": int_or_none(lost.get("total")), "losses": json.dumps(counts), "truncated": truncated, "notes": list(map(as_text, notes))}


def explain_run(paths: List[str], tell: Callable[[int], Any] = lambda done: None) -> Explained:
    """The steps and findings of a run."""
    steps: List[Tuple[str, List[Dict[str, Any]]]] = []

    def take(trace: moments.Trace) -> None:
        steps.append((trace.path, [_step_row(window) for window in trace.windows]))

    try:
        found = explained(paths, keep=take, progress=False)
    except Problem as problem:
        return Explained([], [], [problem])
    return Explained(steps, [(one.rank, _finding_row(one)) for one in found.findings], found.problems)


def _step_row(window: moments.Window) -> Dict[str, Any]:
    row = {"step": window.step, "device": window.device, "start_ns": window.start, "end_ns": window.end, "total_ns": window.total,
           "left_out": window.left_out or None}
    parts = window.parts
    if window.device == CPU:
        row.update(zip(CPU_TIMES, [parts[name] for name in moments.CPU] + [parts[f"waiting.{name}"] for name in moments.WAITING]))
    else:
        row.update(zip(GPU_TIMES, [parts[name] for name in moments.BUSY] + [window.idle] + [parts[name] for name in moments.IDLE]), launches=window.launches)
    return row


def _finding_row(one: Any) -> Dict[str, Any]:
    evidence = [{key: as_text(value) if type(value) is str else value for key, value in row.items()} for row in one.evidence]
    return {"rule": one.rule, "title": as_text(one.title), "device": as_text(one.device), "ms_per_step": one.ms, "share": one.share,
            "bytes_per_step": _fitting(round(one.bytes)), "bytes": _fitting(one.held), "steps": one.steps, "evidence": evidence, "advice": one.advice}


# ---- all of them ----

def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _explained(sources: List[Source], written: List[Written], found: Explained) -> Explained:
    """The steps and findings of a run. Notes traces that `cprof explain` refuses because they hold no span, if there are others. Raises another
    Problem."""
    empty = tuple(printable(source.path) + ": " for source in sources if not written[source.number].spans)
    for problem in found.problems:
        if not str(problem).startswith(empty) or len(empty) == len(sources):
            raise problem
        note(f"{problem}: it has neither steps nor findings")
    return found


def export(paths: List[str], folder: str) -> None:
    """Writes the dataset of these traces into an empty folder."""
    for path in paths:
        keep_out_pipes(path, "an export")
    sources = sources_of(list(dict.fromkeys(paths)))
    runs: Dict[str, List[Source]] = {}
    for source in sources:
        runs.setdefault(source.run, []).append(source)
    files = [os.path.join(folder, f"{source.number}.parquet") for source in sources]
    jobs = [Job(of_run[0].path, 0, functools.partial(explain_run, [source.path for source in of_run])) for of_run in runs.values()]
    jobs += [Job(source.path, 2 * _size(source.path), functools.partial(export_events, source, file)) for source, file in zip(sources, files)]
    with Progress("exporting", sum(job.size for job in jobs)) as progress:
        done = in_processes(jobs, min(len(os.sched_getaffinity(0)), MOST_JOBS), progress)
    written: List[Written] = done[len(runs):]
    for source, file, one in zip(sources, files, written):
        os.rename(file, place(folder, EVENTS, source.run, one.rank, source.number))
        _write(folder, TRACES, source.run, one.rank, source.number, [one.row])
    for of_run, found in zip(runs.values(), done):
        _write_explained(folder, of_run, written, _explained(of_run, written, found))
    write_mark(folder)


def _write_explained(folder: str, sources: List[Source], written: List[Written], found: Explained) -> None:
    by_path, run = dict(found.steps), sources[0].run
    for source in sources:
        one = written[source.number]
        rows = [dict(row, trace=source.number, start_ns=_fitting(row["start_ns"] + one.base), end_ns=_fitting(row["end_ns"] + one.base),
                     device=as_text(row["device"])) for row in by_path.get(source.path, [])]
        _write(folder, STEPS, run, one.rank, source.number, rows)
    by_rank: Dict[int, List[Dict[str, Any]]] = {written[source.number].rank: [] for source in sources}
    for rank, row in found.findings:
        by_rank.setdefault(rank, []).append(row)
    for rank, rows in by_rank.items():
        _write(folder, FINDINGS, run, rank, sources[0].number, rows)


def _write(folder: str, table: str, run: str, rank: int, number: int, rows: List[Dict[str, Any]]) -> None:
    with TableFile(place(folder, table, run, rank, number), table) as file:
        file.add_rows(rows)


def run(args: argparse.Namespace) -> int:
    """`cprof export`"""
    end_tidily()
    arrow.need("pyarrow")
    paths = traces_of(args.traces)
    with appearing_folder(args.output) as folder:
        export(paths, folder)
    data(args.output + "\n")
    return 0
