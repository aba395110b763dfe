# SPDX-License-Identifier: Apache-2.0
"""The summary of a window, TRACE.summary. cprof leaves it beside a trace (writer/sums/summary.h); `cprof summarize` makes it for any trace.

    found, why = of_trace("rank0.5.pt.trace.json")   # found is None if there is none, or it is of another trace
    found = read("rank0.5.pt.trace.json.summary")    # raises a Problem

The first line identifies the trace and says what recorded it, the second one has the steps, the third one the collectives, the fourth one the
modules. Then comes the table of `cprof top`, a line for each row: the sums that read_spans() and walk() find in the trace. Columns are lists of one length. What
is null must be read from the trace. Times are nanoseconds, from baseTimeNanoseconds on.
"""

import json
import os
import zlib
from typing import Any, BinaryIO, Dict, List, NamedTuple, Optional, Tuple

from cprof._untrusted import lines_in
from cprof.tool import Problem
from cprof.tool.remote import is_remote, open_file

SUFFIX = ".summary"
SCHEMA = {"name": "cprof.window", "version": 2}
MOST_BYTES = 4 << 20   # of a file: cprof writes at most 200 KB
MOST_ROWS = 16384      # KINDS_MOST in writer/sums/top.c
TAIL_BYTES = 4096      # of the trace, whose checksum identifies it
# The parts of a step in the order in which they count: writer/sums/step_parts.def.
PARTS = ("computation", "exposed_comm", "exposed_memcpy", "data", "collective", "sync", "operators", "transfer", "outside")
STEPS = ("step", "count", "start", "total")
COLLECTIVES = ("key", "start_delta", "duration", "bytes", "number")
MODULES = ("count", "self_cpu", "self_device")
REST = "(other names)"  # a row with the sums of those that did not fit: TOP_REST in writer/sums/top.h
MODULES_MOST = 256     # FILE_MODULES_MOST in writer/sums/summary_limits.h
_NUMBERS = 15          # of a row, after the name
_LIMIT = 1 << 62       # no time is so far away


class Summary(NamedTuple):
    """The content of the file."""
    path: str
    about: Dict[str, Any]                    # the first line
    steps: Optional[Dict[str, Any]]          # columns; `devices` has the parts, or is null
    collectives: Optional[Dict[str, Any]]    # `keys`, and columns, or `sums` if truncated
    rows: Optional[List[List[Any]]] = None   # of the table: name, then the numbers in top_put()'s order
    modules: Optional[Dict[str, Any]] = None  # columns: name, and MODULES
    truncated: bool = False                  # rows without much time are summed in rows named REST


class _Damaged(Exception):
    """The file is not as a writer leaves it."""


def of_trace(trace: str, table: bool = False, summary: Optional[str] = None) -> Tuple[Optional[Summary], str]:
    """The summary of a trace; else None and, if there is one that does not fit the trace, why it is not used. table: it needs its rows. summary: the
    file, if it is not beside the trace."""
    path = summary or trace + SUFFIX
    try:
        with open_file(path) as file, open_file(trace) as traced:
            found = _parsed(path, file, table)
            if (found.about.get("trace_bytes"), found.about.get("trace_tail")) != identity(traced):
                return None, f"{path} is of another trace"
            if not (is_remote(path) or is_remote(trace)) and os.fstat(traced.fileno()).st_mtime_ns > os.fstat(file.fileno()).st_mtime_ns:
                return None, f"the trace is newer than {path}"
    except OSError:
        return None, ""
    except _Damaged as damage:
        return None, f"{path} {damage}"
    return found, ""


def read(path: str, table: bool = False) -> Summary:
    """A summary by itself. Raises a Problem."""
    try:
        with open_file(path) as file:
            return _parsed(path, file, table)
    except OSError as error:
        raise Problem(error.strerror or str(error), path) from None
    except _Damaged as damage:
        raise Problem(str(damage), path) from None


def identity(trace: BinaryIO) -> Tuple[int, int]:
    """The size of a trace, and the checksum of its end."""
    size = trace.seek(0, os.SEEK_END)
    trace.seek(max(0, size - TAIL_BYTES))
    return size, zlib.crc32(trace.read(TAIL_BYTES))


def _parsed(path: str, file: BinaryIO, table: bool) -> Summary:
    lines = lines_in(file, MOST_BYTES, MOST_BYTES)
    about = _object(lines)
    if about.get("schema") != SCHEMA:
        raise _Damaged("is of another version, or no summary")
    steps, collectives = _object(lines).get("steps"), _object(lines).get("collectives")
    if not (steps is None or _are_steps(steps)) or not (collectives is None or _are_collectives(collectives, steps)):
        raise _Damaged("is damaged")
    return Summary(path, about, steps, collectives, *(_table(lines) if table else ()))


def _value(lines: Any) -> Any:
    try:
        return json.loads(next(lines))
    except (StopIteration, ValueError, RecursionError):
        raise _Damaged("is damaged") from None


def _object(lines: Any) -> Dict[str, Any]:
    found = _value(lines)
    if type(found) is not dict:
        raise _Damaged("is damaged")
    return found


def _table(lines: Any) -> Tuple[Optional[List[List[Any]]], Optional[Dict[str, Any]], bool]:
    """Rows, modules, and whether rows were summed."""
    rows: List[List[Any]] = []
    head = _object(lines)
    modules, table = head.get("modules"), head.get("table")
    if modules is not None and not _are_modules(modules) or table is not None and not _is_table(table):
        raise _Damaged("is damaged")
    while True:
        row = _value(lines)
        if row == {"end": True}:
            break
        if not _is_row(row) or len(rows) == MOST_ROWS:
            raise _Damaged("is damaged")
        rows.append(row)
    if next(lines, b""):
        raise _Damaged("is damaged")
    return (rows, modules, table["truncated"]) if table is not None else (None, modules, False)


def _is_table(found: Any) -> bool:
    return type(found) is dict and _is_time(found.get("rows")) and type(found.get("truncated")) is bool


def _are_modules(found: Any) -> bool:
    names = found.get("name") if type(found) is dict else None
    if type(names) is not list or len(names) > MODULES_MOST or not all(type(name) is str for name in names):
        return False
    return type(found.get("truncated")) is bool and _columns(found, MODULES, len(names)) is not None


def _is_row(row: Any) -> bool:
    return type(row) is list and len(row) == 1 + _NUMBERS and type(row[0]) is str and all(map(_is_int, row[1:]))


def _is_int(number: Any) -> bool:
    return type(number) is int and -1 << 63 <= number < 1 << 63


def _is_time(number: Any) -> bool:
    return type(number) is int and -_LIMIT < number < _LIMIT


def _columns(found: Any, names: Tuple[str, ...], length: Optional[int] = None) -> Optional[int]:
    """The length of the columns; None if they are not all lists of times of one length."""
    if type(found) is not dict:
        return None
    for name in names:
        column = found.get(name)
        if type(column) is not list or not all(_is_time(value) or value is None and name == "step" for value in column):
            return None
        length = len(column) if length is None else length
        if len(column) != length:
            return None
    return length


def _are_steps(steps: Any) -> bool:
    length = _columns(steps, STEPS)
    if length is None or not _is_time(steps.get("joined")) or steps["joined"] < 1 or min(steps["count"], default=1) < 1:
        return False
    devices = steps.get("devices")
    if devices is None:
        return "devices" in steps
    left_out = steps.get("left_out")
    return type(left_out) is list and len(left_out) == length and type(devices) is list and all(
        _columns(one, ("launches", *PARTS), length) is not None and type(one.get("device")) is str for one in devices)


def _are_collectives(found: Any, steps: Any) -> bool:
    keys = found.get("keys") if type(found) is dict else None
    if type(keys) is not list or not all(type(key) is list and list(map(type, key)) == [str, str, int] for key in keys):
        return False
    if type(found.get("truncated")) is not bool:
        return False
    if not found["truncated"]:
        return _columns(found, COLLECTIVES) is not None and all(0 <= key < len(keys) for key in found["key"])
    sums, last = found.get("sums"), len(steps["step"]) if steps else 0
    return type(sums) is list and all(type(row) is list and len(row) == 7 and all(map(_is_time, row)) and
                                      0 <= row[0] < last and 0 <= row[1] < len(keys) for row in sums)
