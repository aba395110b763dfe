# SPDX-License-Identifier: Apache-2.0
"""The table that cprof leaves beside a trace, TRACE.top: what read_spans() and walk() would find in the trace, added up while
it was written (writer/top.h).

    rows, why = load("rank0.5.pt.trace.json")   # rows is None where there is no such table, or it is of another trace
"""

import json
import os
import stat
import zlib
from typing import Any, List, NamedTuple, Optional, Tuple

SUFFIX = ".top"
MOST_BYTES = 64 << 20  # of a table; cprof's have at most 16384 names
_TAIL = 4096
_NUMBERS = 15          # behind the name


class Table(NamedTuple):
    """What is in the file."""
    path: str
    memory: bool           # tensor memory was recorded
    rows: List[List[Any]]  # name, then the numbers in top_finish()'s order


def load(trace: str) -> Tuple[Optional[Table], str]:
    """The table of a trace; else None and, where there is a table but not of this state of the trace, why it is not used."""
    path = trace + SUFFIX
    try:
        table, of_trace = os.stat(path), os.stat(trace)
        if not (stat.S_ISREG(table.st_mode) and stat.S_ISREG(of_trace.st_mode)) or table.st_size > MOST_BYTES:
            return None, ""
        with open(path, encoding="utf-8") as file:
            head = json.loads(file.readline())
            if type(head) is not dict or head.get("cprof_top") != 1:
                return None, f"{path} is of another version"
            if head.get("trace_bytes") != of_trace.st_size or _tail_sum(trace) != head.get("trace_tail"):
                return None, f"{path} is of another trace"
            if of_trace.st_mtime_ns > table.st_mtime_ns:
                return None, f"the trace is newer than {path}"
            rows = [json.loads(line) for line in file]
    except OSError:
        return None, ""
    except (ValueError, RecursionError):
        return None, f"{path} is damaged"
    if not rows or rows.pop() != {"end": True} or not all(_is_row(row) for row in rows):
        return None, f"{path} is damaged"
    return Table(path, head.get("memory") is True, rows), ""


def _is_row(row: Any) -> bool:
    return type(row) is list and len(row) == 1 + _NUMBERS and type(row[0]) is str and \
        all(type(number) is int and -1 << 63 <= number < 1 << 63 for number in row[1:])


def _tail_sum(trace: str) -> int:
    with open(trace, "rb", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _TAIL))
        return zlib.crc32(file.read(_TAIL))
