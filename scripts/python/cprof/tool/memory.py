# SPDX-License-Identifier: Apache-2.0
"""Shows who holds tensor memory: the peak and the end of each device, the holders by operator, module and line, and which
of them grow from step to step.

    cprof run --with-stack --no-native-stack --with-modules --active 8 -- python train.py
    cprof memory
    cprof memory RUN --device cuda:0 --json

The first line of a device has its peak, and what is in use at the end of the trace. The second line names a leak: a holder
whose memory grows in at least three quarters of the steps. Growth is the median over the steps; it needs four steps or more.
The holders follow, the largest first.

A holder is the outermost operator that took the memory, with its module and the line of the program if the trace has these
(--with-modules, --with-stack; torch.profiler: with_stack=True)."""

import argparse
import json
from typing import Any, Dict, List, Tuple

from cprof.tool import Problem, note, printable
from cprof.tool.averages import NO_MEMORY, NO_TENSORS, format_memory
from cprof.tool.given import add_traces, row_limit, trace_of
from cprof.tool.memory_holders import DIFFERENCES_LEAST, Account, Held
from cprof.tool.memory_use import CATEGORIES, Timeline, timelines
from cprof.tool.reader import open_trace
from cprof.tool.screen import data, put
from cprof.tool.span_reader import Wanted, read_spans
from cprof.tool.spans import Spans, module_of, step_number

HELP = "show who holds tensor memory at the peak and at the end, and what grows from step to step"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_traces(parser, one=True)
    parser.add_argument("--device", metavar="DEVICE", help="only this device: cpu, cuda:N")
    parser.add_argument("--row-limit", type=row_limit, default=15, metavar="N", help="the number of holders for each device; -1: all (default 15)")
    parser.add_argument("--json", action="store_true", help="one JSON object with all holders, in bytes")


def read(path: str, progress: bool, holders: bool = True) -> Tuple[Spans, Dict[str, Timeline]]:
    """The spans of a trace and the memory of each device. holders: with modules and lines. Raises a Problem if there is no memory."""
    with open_trace(path, progress) as trace:
        spans = read_spans(trace, Wanted(stacks=holders, group=module_of if holders else None, memory=True, flops=False))
    for line in trace.remarks():
        note(line, path)
    if not spans.has_memory:
        recorded = spans.metadata.get("profile_memory") in (1, True)
        raise Problem(NO_TENSORS if recorded else NO_MEMORY, path)
    return spans, timelines(spans)


def chosen(found: Dict[str, Timeline], device: str, path: str) -> Timeline:
    """The device of this name. Raises a Problem."""
    name = "cuda:0" if device == "cuda" else device
    if name not in found:
        raise Problem(f"holds no memory of {name}, but of {', '.join(sorted(found))}", path)
    return found[name]


def _step_at(spans: Spans, time: int) -> str:
    """The text of the step at a moment."""
    for start, end, name in spans.steps:
        if start <= time < end:
            number = step_number(name)
            return f" in step {name if number is None else number}"
    return ""


def growth_text(one: Held, account: Account) -> str:
    """The text of a leak."""
    where = (f" in {one.holder.module}" if one.holder.module else "") + (f" at {one.holder.line}" if one.holder.line else "")
    return f"{one.holder.operator}{where} grows by {format_memory(round(one.growth))} a step, in {one.grew} of {account.differences} steps"


def _say(account: Account, spans: Spans, limit: int) -> None:
    put(f"{account.device}: peak {format_memory(account.peak)}{_step_at(spans, account.peak_at)}; {format_memory(account.end)} at the end, "
        f"{format_memory(account.begin)} at the begin")
    for one in account.growing[:3]:
        put(printable(growth_text(one, account)))
    if len(account.growing) > 3:
        put(f"and {len(account.growing) - 3} more holders grow")
    if not account.growing:
        put("no holder grows from step to step" if account.differences >= DIFFERENCES_LEAST
            else f"growth needs {DIFFERENCES_LEAST + 1} steps or more; the trace has {len(spans.steps)}")
    shown = account.held if limit < 0 else account.held[:limit]
    rows = [["peak", "end", "per step", "pieces", "for", "operator", "module", "line"]]
    for held in shown:
        rows.append([format_memory(held.peak), format_memory(held.end), "+" + format_memory(round(held.growth)) if held.growth else "",
                     f"{max(held.peak_pieces, held.end_pieces):,}", CATEGORIES[held.category], *(_cut(text) for text in held.holder)])
    used = [at for at in range(8) if any(row[at] for row in rows[1:])]
    widths = [max(len(row[at]) for row in rows) for at in range(8)]
    put()
    for row in rows if shown else ():
        put("  ".join(row[at].rjust(widths[at]) if at < 4 else row[at].ljust(widths[at]) for at in used).rstrip())
    if len(shown) < len(account.held):
        put(f"({len(shown)} of {len(account.held):,} holders; --row-limit -1 shows all)")


def _cut(text: str) -> str:
    text = printable(text)
    return text if len(text) <= 60 else text[:57] + "..."


def _json(account: Account) -> Dict[str, Any]:
    return {"device": account.device, "begin_bytes": account.begin, "peak_bytes": account.peak, "end_bytes": account.end,
            "step_differences": account.differences, "holders": [
                {**one.holder._asdict(), "peak_bytes": one.peak, "end_bytes": one.end, "peak_pieces": one.peak_pieces, "end_pieces": one.end_pieces,
                 "category": CATEGORIES[one.category], "growth_bytes_per_step": one.growth, "grew_in_steps": one.grew} for one in account.held]}


def run(args: argparse.Namespace) -> int:
    """`cprof memory`"""
    path = trace_of(args.traces)
    spans, found = read(path, True)
    lines = [chosen(found, args.device, path)] if args.device else [found[name] for name in sorted(found, key=lambda name: (name == "cpu", name))]
    accounts: List[Account] = [Account(line, spans.steps) for line in lines]
    if args.json:
        data(json.dumps({"devices": [_json(account) for account in accounts]}, indent=1) + "\n")
        return 0
    for n, account in enumerate(accounts):
        if n:
            put()
        _say(account, spans, args.row_limit)
    return 0
