# SPDX-License-Identifier: Apache-2.0
"""Makes the summary of a trace, TRACE.summary: the parts of each step, the collectives, and the table of cprof top, in at most 200 KB.
Commands that need no more than that read the summary instead of the trace; cprof ranks compares a thousand ranks this way.

    cprof summarize RUN
    cprof summarize rank0.5.pt.trace.json

cprof leaves a summary beside each trace that it writes. The command makes it for other traces: those of torch.profiler, those that cprof
recover made, those of the flight recorder, and those of older versions. A summary that fits its trace stays as it is.

The guide "explain" has the fields."""

import argparse
import functools
import json
import operator
import os
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from cprof._untrusted import printable
from cprof.tool import BAD_INPUT, Problem, __version__, note
from cprof.tool.averages import SUMS, Averages
from cprof.tool.collectives import Times, rank_of, world_of
from cprof.tool.engine import add_engine, each, over
from cprof.tool.fast import fast_numpy
from cprof.tool.given import add_traces, traces_of
from cprof.tool.moments import SYNC, Trace, Window
from cprof.tool.output import appearing
from cprof.tool.remote import checked, is_remote, open_file, write
from cprof.tool.screen import put
from cprof.tool.span_batches import Batch
from cprof.tool.span_roots import walk_all
from cprof.tool.spans import Kind
from cprof.tool.summary_file import COLLECTIVES, MODULES, MODULES_MOST, PARTS, SCHEMA, STEPS, SUFFIX, identity, of_trace
from cprof.tool.thread_states import COLLECTIVE, DATA
from cprof.tool.categories import CALLS

HELP = "make the summary of a trace, with which many ranks are compared"
# As in writer/sums/summary_file.c.
FILE_MOST, COLLECTIVES_MOST, PARTS_MOST, STEPS_MOST = 200_000, 2000, 250, 800


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_traces(parser)
    add_engine(parser)
    parser.add_argument("-o", "--output", metavar="FOLDER", help="where the summaries are written, a folder or an address (by default beside the traces)")


class _Piece(NamedTuple):
    """Time that has a part; the part's number in PARTS."""
    start: int
    end: int
    part: int


OUTSIDE = len(PARTS) - 1
DATA_PART, COLLECTIVE_PART, SYNC_PART, OPERATOR_PART, TRANSFER_PART = range(3, OUTSIDE)


def _part_of(kind: Kind) -> Optional[int]:
    """The part that a span of the thread of the steps has."""
    if kind.is_async or kind.category in ("overhead", "python_function"):
        return None
    if kind.category == "user_annotation":
        return DATA_PART if kind.name.startswith(DATA) else None
    if COLLECTIVE.match(kind.name):
        return COLLECTIVE_PART
    return SYNC_PART if kind.category in CALLS and SYNC.match(kind.name) else OPERATOR_PART


def _pieces(trace: Trace, device: Optional[int]) -> List[_Piece]:
    """What counts for the steps of a device: its work, the transfers, and what the thread of the steps did."""
    work, spans = trace.work, trace.spans
    found = [_Piece(start, end, level) for start, end, level, its_device in zip(work.start, work.end, work.level, work.device) if its_device == device]
    parts = [_part_of(kind) for kind in spans.kinds]
    transfers = {number for number, kind in enumerate(spans.kinds) if kind.is_async}
    for place, row in spans.rows.items():
        for start, end, kind in zip(row.start, row.end, row.kind) if place == trace.main or not transfers.isdisjoint(row.kind) else ():
            part = TRANSFER_PART if kind in transfers else parts[kind] if place == trace.main else None
            if part is not None:
                found.append(_Piece(start, end, part))
    return sorted(found, key=operator.itemgetter(0))


def _parts(pieces: Iterable[_Piece], steps: List[Window]) -> List[List[int]]:
    """The parts of each step: differences of the unions of what has a part or an earlier one."""
    sums = [[0] * OUTSIDE for _ in steps]
    reached = [-1 << 62] * OUTSIDE
    low = 0
    for start, end, part in pieces:
        while low < len(steps) and steps[low].end <= start:
            low += 1
        while part < OUTSIDE and end > reached[part]:
            since = max(start, reached[part])
            at = low
            while at < len(steps) and steps[at].start < end:
                sums[at][part] += max(0, min(end, steps[at].end) - max(since, steps[at].start))
                at += 1
            reached[part] = end
            part += 1
    return [[one - before for one, before in zip([*row, step.end - step.start], [0, *row])] for row, step in zip(sums, steps)]


def _steps(trace: Trace) -> Optional[Dict[str, Any]]:
    by_device: Dict[str, List[Window]] = {}
    for window in trace.windows:
        by_device.setdefault(window.device, []).append(window)
    steps = next(iter(by_device.values()), [])
    if not steps or len(steps) > STEPS_MOST:
        return None
    found: Dict[str, Any] = dict(zip(STEPS, ([step.step for step in steps], [step.start for step in steps], [step.total for step in steps])))
    if len(steps) * len(by_device) > PARTS_MOST:
        return dict(found, left_out=None, devices=None)
    found["left_out"] = [step.left_out or None for step in steps]
    found["devices"] = []
    for device in sorted(by_device, key=lambda name: (len(name), name)):
        number = trace.work.devices.get(device.partition(":")[2])
        columns = zip(*_parts(_pieces(trace, number), steps))
        found["devices"].append({"device": device, "launches": [step.launches for step in by_device[device]], **dict(zip(PARTS, map(list, columns)))})
    return found


def _collectives(times: Times, steps: Optional[Dict[str, Any]]) -> Dict[str, Any]:
    keys: Dict[Tuple, int] = {}
    rows = []
    for one in times.collectives:
        rows.append((one.start - times.base_late, one.end - one.start, keys.setdefault(one.key, len(keys)), one.bytes, one.number))
    found: Dict[str, Any] = {"keys": [list(key) for key in keys]}
    if len(rows) <= COLLECTIVES_MOST:
        starts = [row[0] for row in rows]
        columns = ([row[2] for row in rows], [start - before for start, before in zip(starts, [0, *starts])], [row[1] for row in rows],
                   [row[3] for row in rows], [row[4] for row in rows])
        return dict(found, **dict(zip(COLLECTIVES, columns)), truncated=False)
    return dict(found, sums=_sums(rows, steps), truncated=True)


def _sums(rows: List[Tuple[int, ...]], steps: Optional[Dict[str, Any]]) -> List[List[int]]:
    """Sums by step and key: number of the step in the list, key, count, duration, bytes."""
    sums: Dict[Tuple[int, int], List[int]] = {}
    spans = list(zip(steps["start"], steps["total"])) if steps else []
    at = 0
    for start, duration, key, size, _ in rows:
        while at < len(spans) and start >= sum(spans[at]):
            at += 1
        if at < len(spans) and start >= spans[at][0]:
            found = sums.setdefault((at, key), [0, 0, 0])
            found[0] += 1
            found[1] += duration
            found[2] += max(size, 0)
    return [[*where, *found] for where, found in sorted(sums.items())]


def _about(trace: Trace, path: str) -> Dict[str, Any]:
    metadata, account = trace.metadata, trace.metadata.get("cprof")
    account = account if type(account) is dict else {}
    lost = account.get("lost")
    with open_file(path) as file:
        size, tail = identity(file)
    about = {"schema": SCHEMA, "time_unit": "ns", "cprof": __version__, "trace_bytes": size, "trace_tail": tail, "rank": rank_of(metadata, path, 0),
             "world_size": world_of(metadata), "host_name": str(metadata.get("host_name") or ""),
             "baseTimeNanoseconds": metadata.get("baseTimeNanoseconds", 0), "deviceProperties": metadata.get("deviceProperties", []),
             "lost": lost.get("total", 0) if type(lost) is dict else 0, "profile_memory": metadata.get("profile_memory") in (1, True)}
    return dict(about, **{name: account[name] for name in ("memory", "flops", "process") if name in account})


def _modules(trace: Trace) -> Optional[Dict[str, Any]]:
    """Self times by module, the largest first. None: no span has one."""
    kinds = trace.spans.kinds
    if not any(kind.group for kind in kinds):
        return None
    sums: Dict[str, List[int]] = {}

    def add(kind: int, count: int, cpu: int, device: int) -> None:
        if kinds[kind].group:
            found = sums.setdefault(kinds[kind].group or "", [0, 0, 0])
            for at, value in enumerate((count, cpu, device)):
                found[at] += value

    def take(_: Any, batch: Batch) -> None:
        for kind in fast_numpy().unique(batch.kind).tolist():
            own = batch.kind == kind
            add(kind, int(own.sum()), int(batch.self_time[own].sum()), int(batch.own_device[own].sum()))

    for _, row, node in walk_all(trace.spans, take=take):
        add(node.kind, 1, node.end - row.start[node.index] - node.child_time, node.own_device)
    order = sorted(sums, key=lambda name: (-sums[name][2], -sums[name][1], name.encode("utf-8", "replace")))
    shown = order[:MODULES_MOST]
    return {"name": shown, **dict(zip(MODULES, (list(column) for column in zip(*map(sums.__getitem__, shown))))), "truncated": len(shown) < len(order)}


def lines_of(path: str) -> List[Any]:
    """The first lines of the summary of a trace, and the modules. Raises a Problem."""
    times = Times(path)
    trace = Trace(path, True, times)
    steps = _steps(trace)
    return [_about(trace, path), {"steps": steps}, {"collectives": _collectives(times, steps)}, _modules(trace)]


def table_of(path: str) -> List[List[Any]]:
    """The table of the summary of a trace. Raises a Problem."""
    averages = Averages()
    for line in averages.add(path, progress=True, from_trace=True):
        note(line, path)
    return [[row.key, row.device_type != "cpu", row.is_user_annotation, row.is_async, row.count, *(getattr(row, name) for name in SUMS), row.flops, *row.first]
            for row in averages]


def _text(lines: List[Any], rows: List[List[Any]]) -> bytes:
    *first, modules = lines
    text = "".join(json.dumps(line) + "\n" for line in first).encode()
    table = "".join(json.dumps([row[0], *map(int, row[1:])], separators=(",", ":")) + "\n" for row in rows).encode()
    size = len(json.dumps(modules))
    fits = len(text) + len(table) + size + 64 <= FILE_MOST
    kept = modules if len(text) + len(table) * fits + size + 64 <= FILE_MOST else None
    return text + json.dumps({"table": fits, "modules": kept}).encode() + b"\n" + (table if fits else b"") + b'{"end": true}\n'


def _target(path: str, folder: Optional[str]) -> str:
    """The summary's file."""
    return (path if folder is None else os.path.join(folder, os.path.basename(path))) + SUFFIX


def _made(path: str, folder: Optional[str]) -> Optional[bytes]:
    """The text of the summary; None if it is there. Raises a Problem."""
    found, why = of_trace(path, summary=_target(path, folder))
    if found is not None:
        return None
    if why:
        note(f"{why}: it is made anew")
    return _text(lines_of(path), table_of(path))


def _write(target: str, text: bytes) -> None:
    """Raises a Problem."""
    if not is_remote(target):
        with appearing(target, True) as (_, file):
            file.write(text)
        return
    try:
        write(target, text)
    except OSError as error:
        raise Problem(f"cannot be written ({error.strerror}): -o FOLDER puts summaries elsewhere", target) from None


def _keep_apart(paths: List[str], folder: str) -> None:
    """Raises a Problem if two summaries would have one name in the folder."""
    targets: Dict[str, str] = {}
    for path in paths:
        other = targets.setdefault(_target(path, folder), path)
        if other != path:
            raise Problem(f"has the name of {other}: their summaries would be one file in {folder}", path)


def run(args: argparse.Namespace) -> int:
    """`cprof summarize`"""
    paths, folder = traces_of(args.traces), args.output and checked(args.output)
    if folder is not None:
        _keep_apart(paths, folder)
    code = 0
    for path, text, problem in each(over(functools.partial(_made, folder=folder), paths), args.engine):
        target = _target(path, folder)
        try:
            if problem is not None:
                raise problem
            if text is not None:
                _write(target, text)
        except Problem as found:  # goes on with the other traces
            note(found)
            code = BAD_INPUT
            continue
        put(f"{printable(target)}: is there" if text is None else f"{printable(target)}: {len(text):,} bytes")
    return code
