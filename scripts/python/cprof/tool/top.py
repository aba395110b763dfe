# SPDX-License-Identifier: Apache-2.0
"""Shows where the time goes: operators and ranges by their self time, the largest first.

    cprof top                       the newest run
    cprof top RUN --by line         by lines of the program: record with --with-stack
    cprof top RUN --torch           the table of torch.profiler's key_averages()

The times are GPU times if anything ran on a GPU, else CPU times. "self" is a row's time without what it calls; on the GPU it is the
work that the row itself launched. What a library did for an operator, such as sgemm_, is listed below the operator if the trace is
read. FLOP/s are those of the whole operator. The last lines show how much of the steps lies outside operators.

cprof leaves a summary beside each trace that it writes (TRACE.summary), so that the command answers at once for a large trace. If it is
missing, has no table, or is older than the trace, and for all grouped tables, the command reads the trace. A line tells when it was used.
Of a folder with summaries and without their traces, it adds up the summaries.
Several traces are added up. --sort-by, --json and --csv name the columns as torch does. --json and --csv have all rows.
"""

import argparse
import csv
import io
import json
import os
from typing import Any, Dict, List

from cprof.tool import Problem, note
from cprof.tool.averages import SORT_KEYS, Averages
from cprof.tool.breakdown import BY, breakdown
from cprof.tool.compare import ROWS as COMPARED, show as compare
from cprof.tool.given import add_traces, row_limit, traces_of
from cprof.tool.screen import data, put
from cprof.tool.summary_file import SUFFIX
from cprof.tool.top_table import ROWS, Table

HELP = "show where the time goes: operators by self time, or sums by step, module, line, kernel, device or category"
TORCHS = 100      # rows that torch shows
SMALL = 16 << 20  # bytes of text
GZIP_RATIO = 12   # about that of traces


def _depth(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must be 0 or more")
    return value


_depth.__name__ = "number of frames"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_traces(parser)
    parser.add_argument("--sort-by", metavar="KEY", help="one of " + ", ".join(SORT_KEYS))
    parser.add_argument("--row-limit", type=row_limit, metavar="N", help="number of rows to show; -1: all (default 20; --torch: 100; --json, --csv: all)")
    parser.add_argument("--torch", action="store_true",
                        help="torch.profiler's own layout, in the order of the trace without --sort-by; also with --group-by-...")
    parser.add_argument("--group-by-input-shape", action="store_true", help="a row for each operator and its input shapes")
    parser.add_argument("--group-by-stack-n", type=_depth, default=0, metavar="N",
                        help="a row for each operator and the N innermost frames that called it")
    parser.add_argument("--include-python-functions", action="store_true",
                        help="also a row for each Python function of a trace of torch.profiler's")
    parser.add_argument("--from-trace", action="store_true",
                        help="read the trace even if it has a summary (TRACE.summary)")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--by", choices=BY, help="sums of self times by something else than the operator's name")
    form.add_argument("--compare", action="store_true", help="compare two traces or runs, like cprof compare")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="one JSON object; times in microseconds, memory in bytes")
    output.add_argument("--csv", action="store_true", help="comma-separated values, with a line of names")


def _refuse(args: argparse.Namespace) -> None:
    """Refuses options that would have no effect."""
    if args.sort_by is not None and args.sort_by.replace("xpu", "cuda").replace("device", "cuda") not in SORT_KEYS:
        raise Problem(f"cannot sort by {args.sort_by!r}: take one of {' '.join(SORT_KEYS)}")
    grouped = args.group_by_input_shape or args.group_by_stack_n
    if (args.by or args.compare) and grouped:
        raise Problem("--group-by-input-shape and --group-by-stack-n go with the plain table only")
    if args.compare and args.csv:
        raise Problem("--csv goes without --compare, which has --json")
    for option, given in (("--sort-by", args.sort_by), ("--include-python-functions", args.include_python_functions),
                          ("--from-trace", args.from_trace), ("--torch", args.torch)):
        if (args.by or args.compare) and given:
            also = ": --by and --compare always read the trace" if option == "--from-trace" else ""
            raise Problem(f"{option} goes with the plain table only{also}")


def run(args: argparse.Namespace) -> int:
    _refuse(args)
    if args.compare and len(args.traces) != 2:
        raise Problem("--compare takes two traces")
    if args.compare:
        compare(*args.traces, COMPARED if args.row_limit is None else args.row_limit, args.json)
        return 0
    args.traces = traces_of(args.traces, summaries=not args.by)
    if not args.by:
        return _table(args)
    columns, rows, text = breakdown(args.by, args.traces)
    limit = _limit(args, ROWS)
    rows = rows if limit < 0 else rows[:limit]
    if args.json or args.csv:
        _write(args, columns, [dict(zip(columns, row)) for row in rows], {})
    else:
        put(text(rows))
    return 0


def _reads_fast(path: str) -> bool:
    """Whether it is a trace that is read so fast that nobody notices: it has more than its summary."""
    try:
        return not path.endswith(SUFFIX) and os.path.getsize(path) * (GZIP_RATIO if path.endswith(".gz") else 1) <= SMALL
    except OSError:
        return False


def _limit(args: argparse.Namespace, rows: int) -> int:
    """The number of rows to show; -1 for all."""
    return args.row_limit if args.row_limit is not None else -1 if args.json or args.csv else rows


def _table(args: argparse.Namespace) -> int:
    averages = Averages(args.group_by_input_shape, args.group_by_stack_n, args.include_python_functions)
    for_people = not (args.json or args.csv or args.torch or args.group_by_input_shape or args.group_by_stack_n)
    for path in args.traces:
        for line in averages.add(path, progress=True, from_trace=args.from_trace or for_people and _reads_fast(path)):
            note(line, path)
    alone = set(averages.tables).intersection(args.traces)
    if alone:
        note("by summaries alone: what libraries did inside operators is in the traces")
    for path in averages.tables if getattr(args, "tell", True) else ():
        if path not in alone:
            note("the summary made with the trace (--from-trace reads the trace)", path)
    averages.need(args.sort_by, args.traces[0])
    if not (args.json or args.csv):
        put(Table(averages, args.sort_by, _limit(args, ROWS)).text() if for_people else averages.table(args.sort_by, _limit(args, TORCHS)))
        return 0
    limit = _limit(args, TORCHS)
    rows = averages.sorted_by(args.sort_by)
    total_cpu = sum(row.self_cpu_ns for row in rows) / 1000
    total_device = sum(row.self_device_ns for row in rows if row.device_type != "cpu" and not row.is_user_annotation) / 1000
    rows = rows if limit < 0 else rows[:limit]
    names = ["count", "cpu_time", "cpu_time_total", "self_cpu_time_total", "device_time", "device_time_total",
             "self_device_time_total", "cpu_memory_usage", "self_cpu_memory_usage", "device_memory_usage",
             "self_device_memory_usage", "flops"]
    columns = ["name", "device_type", "is_user_annotation", *names]
    columns += ["input_shapes"] * args.group_by_input_shape + ["stack"] * bool(args.group_by_stack_n)
    listed: List[Dict[str, Any]] = []
    for row in rows:
        found: Dict[str, Any] = {"name": row.key, "device_type": row.device_type,
                                 "is_user_annotation": row.is_user_annotation}
        found.update((name, getattr(row, name)) for name in names)
        if args.group_by_input_shape:
            found["input_shapes"] = row.input_shapes
        if args.group_by_stack_n:
            found["stack"] = ";".join(row.stack) if args.csv else row.stack
        listed.append(found)
    _write(args, columns, listed, {"self_cpu_time_total": total_cpu, "self_device_time_total": total_device,
                                   "rates": averages.rates, "tables_used": averages.tables})
    return 0


def _write(args: argparse.Namespace, columns: List[str], rows: List[Dict[str, Any]], totals: Dict[str, Any]) -> None:
    if args.json:
        data(json.dumps(dict(totals, rows=rows), indent=1) + "\n")
    else:
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        data(text.getvalue())
