# SPDX-License-Identifier: Apache-2.0
"""Writes the events, steps and findings of runs as tables in Parquet files, for DuckDB, pandas, Spark and others.

    cprof export RUN -o tables --parquet
    cprof sql tables "SELECT name, sum(dur_ns) FROM events WHERE category = 'kernel' GROUP BY name"

The tables are `events`, `steps`, `findings` and `traces`. FOLDER/TABLE/run=RUN/rank=RANK/*.parquet holds a table, so readers of Hive partitions see
the columns run and rank. The folder appears when it is whole. Needs pyarrow: pip install 'cprof[data]'."""

import argparse
import contextlib
import functools
import json
import os
import tempfile
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from cprof._saved import lines_of
from cprof._untrusted import open_regular
from cprof.tool import BAD_INPUT, Problem, arrow, moments, note, said
from cprof.tool.collectives import rank_of
from cprof.tool.dataset import CPU_TIMES, ENCODED_MOST, EVENTS, FINDINGS, GPU_TIMES, STEPS, TRACES, TableFile, encoded, place, write_mark
from cprof.tool.engine import Engine, Result, Work, add_engine, attempt, each
from cprof.tool.event_columns import CPU, EventColumns, Outline, as_text
from cprof.tool.explain import Summary, of_results, reading
from cprof.tool.given import WITHIN, add_traces, traces_of
from cprof.tool.output import appearing_folder, create, end_tidily
from cprof.tool.reader import keep_out_pipes, open_trace
from cprof.tool.screen import data
from cprof.tool.spans import int_or_none

HELP = "write events, steps and findings as tables in Parquet files, for DuckDB, pandas and Spark"
INT64_MOST = (1 << 63) - 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_traces(parser)
    add_engine(parser)
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
    data: Optional[bytes] = None  # of the file, where it is not in the folder


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
        with contextlib.suppress(Problem, OSError), open_trace(path) as trace:  # its task tells
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


# ---- one trace ----

def _events_of(source: Source, folder: str) -> str:
    """The file of a trace's events until its rank is known."""
    return os.path.join(folder, f"{source.number}.parquet")


def export_events(path: str, source: Source, folder: Optional[str]) -> Written:
    """Writes the events of a trace into a file of the folder; None: into the result."""
    with contextlib.ExitStack() as stack:
        output = _events_of(source, folder or stack.enter_context(tempfile.TemporaryDirectory()))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(output)  # an earlier try
        outline = Outline(path)
        columns = EventColumns(outline, source.number)
        with open_trace(path, True) as trace, TableFile(output, EVENTS) as table:
            trace.past_large = True
            for block in trace.blocks():
                table.add(columns.batch(block))
            metadata, notes, truncated = trace.metadata, trace.remarks(), trace.truncated
        written = Written(rank_of(metadata, path, source.order), outline.base, columns.spans, _trace_row(source, metadata, columns, notes, truncated))
        if folder is None:
            with open_regular(output) as file:
                written = written._replace(data=file.read())
        return written


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


def _step_row(window: moments.Window) -> Dict[str, Any]:
    row = {"step": window.step, "device": as_text(window.device), "total_ns": window.total,
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

def _events(sources: List[Source], folder: str, results: Iterator[Result]) -> Tuple[Dict[int, Written], List[Problem]]:
    """What became of the events of each trace, by number, and the problems of the others. Raises an OSError of an output, or a Problem if no trace
    is left."""
    written: Dict[int, Written] = {}
    problems: List[Problem] = []
    for source, one in zip(sources, results):
        if isinstance(one.value, Written):
            written[source.number] = one.value
            continue
        if one.value is not None and one.value.filename != source.path:
            raise one.value
        problems.append(one.problem or Problem(said(one.value)))
        with contextlib.suppress(FileNotFoundError):
            os.unlink(_events_of(source, folder))
    if not written:
        for problem in problems[:-1]:
            note(problem)
        raise problems[-1]
    return written, problems


def _place_events(sources: List[Source], folder: str, written: Dict[int, Written]) -> None:
    """Moves the files of the events to their places, and adds the rows about the traces."""
    for source in sources:
        one = written[source.number]
        output = place(folder, EVENTS, source.run, one.rank, source.number)
        if one.data is None:
            os.rename(_events_of(source, folder), output)
        else:
            with create(output) as file:
                file.write(one.data)
        _write(folder, TRACES, source.run, one.rank, source.number, [one.row])


def _explained(results: List[Result], written: List[Written]) -> Optional[Summary]:
    """The steps and findings of a run. Notes traces that `cprof explain` refuses because they hold no span, if there are others. Raises another
    Problem."""
    if not any(one.spans for one in written):
        raise results[-1].problem or AssertionError("explained without a span")
    for result, one in zip(results, written):
        if result.problem and one.spans:
            raise result.problem
        if result.problem:
            note(f"{result.problem}: it has neither steps nor findings")
    return of_results(result for result in results if not result.problem)


def export(paths: List[str], folder: str, engine: Engine = Engine()) -> List[Problem]:
    """Writes the dataset of these traces into an empty folder. Returns the problems of traces that are left out."""
    for path in paths:
        keep_out_pipes(path, "an export")
    sources = sources_of(list(dict.fromkeys(paths)))
    runs: Dict[str, List[Source]] = {}
    for source in sources:
        runs.setdefault(source.run, []).append(source)
    here = folder if engine.where == "local" else None  # the nodes of a cluster may have other disks
    work: Work = [(functools.partial(attempt, functools.partial(export_events, source=source, folder=here)), source.path) for source in sources]
    for of_run in runs.values():
        work += reading([source.path for source in of_run])
    with contextlib.closing(each(work, engine)) as results:
        written, problems = _events(sources, folder, results)
        for of_run in runs.values():
            found = [(source, next(results)) for source in of_run]
            found = [(source, one) for source, one in found if source.number in written]
            if found:
                _write_run(folder, [source for source, _ in found], [one for _, one in found], written)
    write_mark(folder)
    return problems


def _write_run(folder: str, sources: List[Source], results: List[Result], written: Dict[int, Written]) -> None:
    """Writes the tables of a run. results: of reading() its traces."""
    found = _explained(results, [written[source.number] for source in sources])
    _place_events(sources, folder, written)
    _write_explained(folder, sources, written, found)


def _write_explained(folder: str, sources: List[Source], written: Dict[int, Written], found: Summary) -> None:
    run = sources[0].run
    for source in sources:
        one = written[source.number]
        rows = [dict(_step_row(window), trace=source.number, start_ns=_fitting(window.start + one.base), end_ns=_fitting(window.end + one.base))
                for window in found.windows.get(source.path, [])]
        _write(folder, STEPS, run, one.rank, source.number, rows)
    by_rank: Dict[int, List[Dict[str, Any]]] = {written[source.number].rank: [] for source in sources}
    for finding in found.findings:
        by_rank.setdefault(finding.rank, []).append(_finding_row(finding))
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
        problems = export(paths, folder, args.engine)
    for problem in problems:
        note(problem)
    data(args.output + "\n")
    return BAD_INPUT if problems else 0
