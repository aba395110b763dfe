# SPDX-License-Identifier: Apache-2.0
"""Compares the summary that cprof left beside a trace with what `cprof summarize` makes of the trace. Needs nothing but Python."""

import gc
import itertools
import math
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from cprof.tool import summarize, summary_file  # noqa: E402

READ_MOST = 2 << 20  # bytes of traces whose steps and collectives are compared
CHECKED_MOST = 16 << 20  # bytes of traces that gpu_check reads for this: a second or two of the lent machine
_compared = itertools.count(1)


def summary_problems(path, most=math.inf):
    """Differences between the summary beside a trace, if there is one, and what `cprof summarize` makes of the trace. most: bytes of traces that are
    read at all."""
    if os.path.getsize(path) > most:
        return []
    kept, why = summary_file.of_trace(str(path), table=True)
    if kept is None:
        return [why] if why else []
    problems, rows = [], None
    if os.path.getsize(path) <= READ_MOST:
        if next(_compared) % 32 == 0:
            gc.collect()  # cycles hold the columns of a trace, and they are too few to start a collection
        (about, steps, collectives, modules), used, size = summarize.lines_of(str(path))
        if kept.rows:
            rows = summarize.table_for(summarize.table_of(str(path)), used, modules, size)
        problems += [f"summary: {key}: {kept.about.get(key)}, of the trace: {value}" for key, value in about.items()
                     if key != "cprof" and kept.about.get(key) != value]
        if kept.steps is not None:  # null: the trace must be read
            problems += _unlike("steps", kept.steps, steps["steps"])
        if kept.modules is not None or kept.rows is not None:  # null, too, where memory was short
            problems += _unlike("modules", kept.modules, modules)
        if kept.collectives is not None and collectives["collectives"] is None:
            problems.append("summary: it has collectives, and that of the trace has none")
        elif kept.collectives is not None:
            problems += _unlike("collectives", _with_keys(kept.collectives), _with_keys(collectives["collectives"]))
    elif kept.rows and not kept.truncated:
        rows = summarize.table_of(str(path))
    if rows is not None:
        by_name = [{tuple(row[:4]): list(map(int, row[1:])) for row in table} for table in (kept.rows, rows)]
        problems += [f"summary: {key}: {by_name[0].get(key)}, of the trace: {by_name[1].get(key)}" for key in by_name[0].keys() | by_name[1].keys()
                     if by_name[0].get(key) != by_name[1].get(key)]
    return problems


def _with_keys(collectives):
    """The keys themselves in place of their numbers, whose order is of no importance."""
    keys = collectives["keys"]
    if collectives["truncated"]:
        return sorted([row[0], keys[row[1]], *row[2:]] for row in collectives["sums"])
    starts = itertools.accumulate(collectives["start_delta"])
    return sorted(zip(starts, collectives["duration"], [keys[number] for number in collectives["key"]], collectives["bytes"], collectives["number"]))


def _unlike(what, kept, read):
    """Fields that differ; a null must be read from the trace."""
    if type(kept) is not dict or type(read) is not dict:
        return [f"summary: {what}: {kept}, of the trace: {read}"] if kept != read else []
    return [f"summary: {what}: {key}: {kept[key]}, of the trace: {read.get(key)}" for key in kept if kept[key] is not None and kept[key] != read.get(key)]
