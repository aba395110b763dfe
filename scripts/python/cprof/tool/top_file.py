# SPDX-License-Identifier: Apache-2.0
"""The table that cprof leaves beside a trace, TRACE.top: the sums that read_spans() and walk() would find in the trace, added up
while it was written (writer/sums/top.h).

    table, why = load("rank0.5.pt.trace.json")   # table is None if there is none, or it is of another trace
"""

import json
import os
import zlib
from typing import Any, BinaryIO, List, NamedTuple, Optional, Tuple

from cprof._untrusted import lines_in, open_regular

SUFFIX = ".top"
MOST_BYTES = 64 << 20  # of a table
MOST_LINE = 1 << 20    # bytes
MOST_ROWS = 16384      # KINDS_MOST in writer/sums/top.c
_TAIL = 4096
_NUMBERS = 15          # of a row, after the name


class Table(NamedTuple):
    """The content of the file."""
    path: str
    memory: bool           # tensor memory was recorded
    flops: Any             # cprof.flops of the trace
    rows: List[List[Any]]  # name, then the numbers in top_finish()'s order


def load(trace: str) -> Tuple[Optional[Table], str]:
    """The table of a trace; else None and, if there is a table that does not fit the trace, why it is not used."""
    path = trace + SUFFIX
    try:
        with open_regular(path, MOST_BYTES) as file, open_regular(trace) as traced:
            table, of_trace = os.fstat(file.fileno()), os.fstat(traced.fileno())
            head = json.loads(file.readline(MOST_LINE))
            if type(head) is not dict or head.get("cprof_top") != 1:
                return None, f"{path} is of another version"
            if head.get("trace_bytes") != of_trace.st_size or _tail_sum(traced) != head.get("trace_tail"):
                return None, f"{path} is of another trace"
            if of_trace.st_mtime_ns > table.st_mtime_ns:
                return None, f"the trace is newer than {path}"
            rows = []
            for line in lines_in(file, MOST_LINE, MOST_BYTES):
                rows.append(json.loads(line))
                if not _is_row(rows[-1]) or len(rows) > MOST_ROWS:
                    break
            more = file.read(1)
    except OSError:
        return None, ""
    except (ValueError, RecursionError):
        return None, f"{path} is damaged"
    if not rows or rows.pop() != {"end": True} or more:
        return None, f"{path} is damaged"
    return Table(path, head.get("memory") is True, head.get("flops"), rows), ""


def _is_row(row: Any) -> bool:
    return type(row) is list and len(row) == 1 + _NUMBERS and type(row[0]) is str and \
        all(type(number) is int and -1 << 63 <= number < 1 << 63 for number in row[1:])


def _tail_sum(trace: BinaryIO) -> int:
    size = trace.seek(0, os.SEEK_END)
    trace.seek(max(0, size - _TAIL))
    return zlib.crc32(trace.read(_TAIL))
