# SPDX-License-Identifier: Apache-2.0
"""Makes the summary of a trace, TRACE.summary: the parts of each step, the collectives, and the table of cprof top, in at most 200 KB.
Commands that need no more than that read the summary instead of the trace; cprof ranks compares a thousand ranks this way.

    cprof summarize RUN
    cprof summarize rank0.5.pt.trace.json

cprof leaves a summary beside each trace that it writes. The command makes it for other traces: those of torch.profiler, those that cprof
recover made, those of the flight recorder, and those of older versions. A summary that fits its trace stays as it is.

The guide "explain" has the fields."""

import argparse
import bisect
import functools
import itertools
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
from cprof.tool.moments import COMPILATION, FIRST_STEP, SYNC, Trace, Window
from cprof.tool.output import appearing
from cprof.tool.remote import checked, is_remote, open_file, write
from cprof.tool.screen import put
from cprof.tool.span_batches import Batch
from cprof.tool.span_roots import walk_all
from cprof.tool.spans import Kind
from cprof.tool.summary_file import COLLECTIVES, MODULES, MODULES_MOST, PARTS, REST, SCHEMA, STEPS, SUFFIX, identity, of_trace
from cprof.tool.thread_states import COLLECTIVE, DATA
from cprof.tool.categories import CALLS

HELP = "make the summary of a trace, with which many ranks are compared"
# Bytes, as in writer/sums/summary_limits.h.
TABLE_MOST, ABOUT_BYTES = 195_000, 16_000
COLUMNS_MOST, STEP_BYTES, PARTS_BYTES, SUM_BYTES = 130_000, 44, 120, 76
COLLECTIVES_MOST, COLLECTIVE_BYTES, KEYS_BYTES_MOST = 80_000, 40, 40_000
MODULES_BYTES_MOST, MODULE_BYTES, ROW_BYTES = 30_000, 40, 150
DEVICES_MOST, KEYS_MOST = 128, 1000


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


class _Row(NamedTuple):
    """Steps that share a row of the file. step: the number of the first one; None: the window has no steps."""
    step: Optional[int]
    count: int
    start: int
    end: int
    compiles: bool

    @property
    def total(self) -> int:
        """From the begin of the first step to the end of the last one."""
        return self.end - self.start


def _parts(pieces: Iterable[_Piece], steps: List[_Row]) -> List[List[int]]:
    """The parts of each row: differences of the unions of what has a part or an earlier one."""
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


def _rows(steps: List[Window], joined: int) -> List[_Row]:
    found = []
    for _, group in itertools.groupby(steps, key=lambda step: None if step.step is None else step.step // joined):
        shared = list(group)
        found.append(_Row(shared[0].step, len(shared), shared[0].start, shared[-1].end, any(step.left_out == COMPILATION for step in shared)))
    return found


def _left_out(rows: List[_Row]) -> List[Optional[str]]:
    """The rules of moments.py, for rows."""
    found = [COMPILATION if row.compiles else None for row in rows]
    if len(rows) > 1:
        found[0] = found[0] or FIRST_STEP
    if all(found):
        found[-1] = None
    return found


class _Columns:
    """The steps and collectives of a trace, with as many steps in a row as it takes for all to fit."""

    def __init__(self, trace: Trace, times: Times) -> None:
        self._trace = trace
        by_device: Dict[str, List[Window]] = {}
        for window in trace.windows:
            by_device.setdefault(window.device, []).append(window)
        steps = next(iter(by_device.values()), [])
        self._devices = sorted(by_device, key=lambda name: (len(name), name)) if len(by_device) <= DEVICES_MOST else []
        self._keys: Dict[Tuple, int] = {}
        self._collectives = [(one.start - times.base_late, one.end - one.start, self._keys.setdefault(one.key, len(self._keys)), one.bytes, one.number)
                             for one in times.collectives]
        self._keys_bytes = sum(len(_json(list(key))) + 2 for key in self._keys)
        size = len(self._collectives) * COLLECTIVE_BYTES + self._keys_bytes
        self._single = size <= COLLECTIVES_MOST
        self._too_many = len(self._keys) > KEYS_MOST or self._keys_bytes > KEYS_BYTES_MOST
        self.joined, self.rows = 1, _rows(steps, 1)
        while self.size > COLUMNS_MOST and self.joined < 1 << 62:
            self.joined *= 2
            self.rows = _rows(steps, self.joined)

    @property
    def size(self) -> int:
        """What counts against the file's limit, in bytes."""
        sums = len(self._collectives) * COLLECTIVE_BYTES if self._single else len(self.rows) * len(self._keys) * SUM_BYTES
        return len(self.rows) * (STEP_BYTES + len(self._devices) * PARTS_BYTES) + (0 if self._too_many else sums + self._keys_bytes)

    def steps(self) -> Optional[Dict[str, Any]]:
        """As in the file."""
        if not self.rows:
            return None
        found = {"joined": self.joined, "truncated": self.joined > 1, **{name: [getattr(row, name) for row in self.rows] for name in STEPS}}
        if not self._devices:
            return dict(found, left_out=None, devices=None)
        return dict(found, left_out=_left_out(self.rows), devices=[self._device(name) for name in self._devices])

    def _device(self, name: str) -> Dict[str, Any]:
        pieces = _pieces(self._trace, self._trace.work.devices.get(name.partition(":")[2]))
        begins = [piece.start for piece in pieces if piece.part < DATA_PART]
        launches = [bisect.bisect_left(begins, row.end) - bisect.bisect_left(begins, row.start) for row in self.rows]
        return {"device": name, "launches": launches, **dict(zip(PARTS, map(list, zip(*_parts(pieces, self.rows)))))}

    def collectives(self) -> Optional[Dict[str, Any]]:
        """As in the file."""
        if self._too_many or not self._single and not self.rows:
            return None
        found: Dict[str, Any] = {"keys": [list(key) for key in self._keys]}
        if not self._single:
            return dict(found, sums=self._sums(), truncated=True)
        starts = [row[0] for row in self._collectives]
        deltas = [start - before for start, before in zip(starts, [0, *starts])]
        columns = [[row[at] for row in self._collectives] for at in (2, 1, 3, 4)]
        return dict(found, **dict(zip(COLLECTIVES, [columns[0], deltas, *columns[1:]])), truncated=False)

    def _sums(self) -> List[List[int]]:
        """Sums by row and key: number of the row, key, count, duration, bytes, the time in which any ran, and the end of the last one since the row's
        begin."""
        sums: Dict[Tuple[int, int], List[int]] = {}
        at = 0
        for start, duration, key, size, _ in self._collectives:
            while at < len(self.rows) and start >= self.rows[at].end:
                at += 1
            if at < len(self.rows) and start >= self.rows[at].start:
                found = sums.setdefault((at, key), [0, 0, 0, 0, 0])
                begin, end = start - self.rows[at].start, start + duration - self.rows[at].start
                found[0] += 1
                found[1] += duration
                found[2] += max(size, 0)
                found[3] += max(0, end - max(begin, found[4]))
                found[4] = max(found[4], end)
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


def _modules(trace: Trace) -> Tuple[Optional[Dict[str, Any]], int]:
    """Self times by module, the largest first, and what counts against the file's limit, in bytes. None: no span has one."""
    kinds = trace.spans.kinds
    if not any(kind.group for kind in kinds):
        return None, 0
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
    shown, size = _first(order[:MODULES_MOST], MODULE_BYTES, MODULES_BYTES_MOST)
    columns = [[sums[name][at] for name in shown] for at in range(len(MODULES))]
    return {"name": shown, **dict(zip(MODULES, columns)), "truncated": len(shown) < len(order)}, size


def _first(names: List[str], each: int, most: int) -> Tuple[List[str], int]:
    """The first names that fit into `most` bytes, and their bytes. each: bytes of a row without its name."""
    size = 0
    for at, name in enumerate(names):
        more = len(name.encode("utf-8", "replace")) + each
        if size + more > most:
            return names[:at], size
        size += more
    return names, size


def lines_of(path: str) -> Tuple[List[Any], int, int]:
    """The first lines of the summary of a trace, and the modules; and what the columns and the modules take of the file, in assumed bytes. Raises a
    Problem."""
    times = Times(path)
    trace = Trace(path, True, times)
    columns = _Columns(trace, times)
    modules, size = _modules(trace)
    return [_about(trace, path), {"steps": columns.steps()}, {"collectives": columns.collectives()}, modules], columns.size, size


def table_of(path: str) -> List[List[Any]]:
    """The whole table of a trace. Raises a Problem."""
    averages = Averages()
    for line in averages.add(path, progress=True, from_trace=True):
        note(line, path)
    return [[row.key, row.device_type != "cpu", row.is_user_annotation, row.is_async, row.count, *(getattr(row, name) for name in SUMS), row.flops, *row.first]
            for row in averages]


def _json(value: Any) -> bytes:
    """As the library writes it. A damaged trace may have half of a surrogate pair."""
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")


def shown_of(rows: List[List[Any]], most: int) -> List[List[Any]]:
    """The rows of a table that fit into `most` bytes: those with most time of their own, on devices and then on the CPU, and the sums of the others."""
    device, cpu = (5 + SUMS.index(name) for name in ("self_device_ns", "self_cpu_ns"))
    ranked = sorted(range(len(rows)), key=lambda at: (-rows[at][device], -rows[at][cpu], rows[at][0].encode("utf-8", "replace")))
    kept = len(_first([rows[at][0] for at in ranked], ROW_BYTES, most)[0])
    rest: Dict[Tuple[int, ...], List[Any]] = {}
    for row in ([rows[at][0], *map(int, rows[at][1:])] for at in ranked[kept:]):
        sums = rest.setdefault(tuple(row[1:4]), [REST, *row[1:4], *[0] * (len(row) - 6), *row[-2:]])
        sums[4:-2] = [one + other for one, other in zip(sums[4:-2], row[4:-2])]
        sums[-2:] = min(sums[-2:], row[-2:])
    return [rows[at] for at in sorted(ranked[:kept])] + [rest[flags] for flags in sorted(rest)]


def table_for(rows: List[List[Any]], used: int, modules: Any, modules_size: int) -> List[List[Any]]:
    """The rows that a file takes. used: assumed bytes of the columns; modules_size: of the modules."""
    room = TABLE_MOST - ABOUT_BYTES - used
    most = room - modules_size
    shown = shown_of(rows, most)
    while most and len(_json(modules)) + sum(len(_json([row[0], *map(int, row[1:])])) + 1 for row in shown) > room:  # JSON makes names longer
        most //= 2
        shown = shown_of(rows, most)
    return shown


def _text(lines: List[Any], used: int, modules_size: int, rows: List[List[Any]]) -> bytes:
    *first, modules = lines
    shown = table_for(rows, used, modules, modules_size)
    head = {"table": {"rows": len(rows), "truncated": any(row[0] == REST for row in shown)}, "modules": modules}
    columns = [json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass") for line in first]
    return b"".join(line + b"\n" for line in (*columns, _json(head), *(_json([row[0], *map(int, row[1:])]) for row in shown), b'{"end": true}'))


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
    return _text(*lines_of(path), table_of(path))


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
