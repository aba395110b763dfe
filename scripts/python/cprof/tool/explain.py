# SPDX-License-Identifier: Apache-2.0
"""Explains why the steps take as long as they do. Findings come first, ranked by the time that each could save in ms per step, with evidence
and advice. Then comes the breakdown of a step.

    cprof explain RUN

Each moment of a step counts once. With a GPU it is computing, exposed communication, an exposed copy, or idle time by its cause: the
CPU was late, a call waited for the GPU, data, between steps, other. Without a GPU it is operators, outside operators (Python), or waiting.
The time of a finding is an upper bound. The first step of each trace and steps that compile are left out.

A folder of summaries (TRACE.summary) alone is explained by the parts of its steps, and by the ranks that the others wait for."""

import argparse
import functools
import json
import math
import statistics
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

from cprof.tool import BAD_INPUT, Problem, note, printable
from cprof.tool.collectives import Times, rank_of
from cprof.tool.averages import format_memory
from cprof.tool.engine import IN_THIS_PROCESS, Engine, Result, Work, add_engine, each, over
from cprof.tool.findings import Finding, Group, MOST_SHARE, full_memory, leaks, of_group, of_machines, ranked
from cprof.tool.given import add_traces, traces_of
from cprof.tool.moments import BUSY, CPU, IDLE, WAITING, Facts, Trace, Window
from cprof.tool.ranks import SCHEMA, Comparison, Table
from cprof.tool.screen import data, put
from cprof.tool.summary_findings import all_summaries, modules_line, told

HELP = "explain why the steps take so long: findings ranked by the time that they could save"
WORDS = {"computation": "computing", "exposed_comm": "communication", "exposed_memcpy": "copies", "cpu_late": "idle: CPU late",
         "sync": "idle: a call waited", "data": "idle: data", "between_steps": "idle: between steps", "other": "idle: other", "operators": "operators",
         "outside": "outside operators", "waiting": "waiting"}

STACKS_SLOW = "recorded with stacks, which slow the CPU: without them the GPU waits less, and there is less time in and between operators"
OWN = ("operators", "outside", "waiting.data")  # parts of a rank without a GPU, except waiting for others
LINES_SHOWN = 16  # of ranks and devices, of summaries
SLOWED = {"launch-bound", "cpu-late", "cpu-operators", "tiny-operators", "python"}  # rules about CPU time, which stacks increase


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_traces(parser)
    add_engine(parser)
    parser.add_argument("--json", action="store_true", help="the summary as JSON: steps and findings, times in milliseconds")


def _ms(ns: float) -> float:
    return ns / 1e6


def _row(window: Window, rank: int, path: str) -> Dict[str, Any]:
    """A step for the JSON output."""
    row: Dict[str, Any] = {"trace": path, "rank": rank, "device": window.device, "step": window.step, "left_out": window.left_out or None,
                           "total": _ms(window.total)}
    if window.device == "cpu":
        row.update((name, _ms(window.parts[name])) for name in CPU)
        row["waiting_for"] = {name: _ms(window.parts["waiting." + name]) for name in WAITING}
        return row
    row.update((name, _ms(window.parts[name])) for name in BUSY)
    row.update(busy=_ms(window.busy), idle=_ms(window.idle), idle_causes={name: _ms(window.parts[name]) for name in IDLE}, launches=window.launches)
    return row


def _finding(one: Finding) -> Dict[str, Any]:
    return {"rule": one.rule, "title": one.title, "ms_per_step": one.ms, "share": one.share, "bytes_per_step": round(one.bytes), "bytes": one.held,
            "rank": one.rank, "device": one.device, "steps": one.steps, "evidence": one.evidence, "advice": one.advice}


class Summary(NamedTuple):
    """The result of explained()."""
    data: Dict[str, Any]               # for --json
    windows: Dict[str, List[Window]]   # by path
    groups: List[Group]
    findings: List[Finding]            # largest first
    ranks: Optional[Comparison]        # None for one rank
    problems: List[Problem]            # of the traces that are left out


class _Read(NamedTuple):
    """What is kept of a trace."""
    facts: Facts
    windows: List[Window]
    times: Optional[Times]


def _read(path: str, several: bool, keep: Optional[Callable[[Trace], None]] = None) -> _Read:
    """Reads a trace. several: also for a comparison with others. Raises a Problem."""
    times = Times(path) if several else None
    trace = Trace(path, True, times)
    for line in trace.notes:
        note(line, path)
    if not trace.windows:
        raise Problem("; ".join(["holds no operator, call or kernel"] + trace.notes), path)
    if keep is not None:
        keep(trace)
    return _Read(trace.facts(), trace.windows, times)


class _Run:
    """The traces of a run, and what is wrong with the others."""

    def __init__(self, found: Iterable[Result]) -> None:
        self.windows: Dict[str, List[Window]] = {}
        self.problems: List[Problem] = []
        self.rows: List[Dict[str, Any]] = []
        self.times: List[Times] = []
        self._parts: Dict[Tuple[int, str], Tuple[List[Window], Facts]] = {}
        for order, one in enumerate(found):
            if one.problem is not None:
                self.problems.append(one.problem)
            else:
                self._add(one.path, order, one.value)

    def _add(self, path: str, order: int, read: _Read) -> None:
        rank = rank_of(read.facts.metadata, path, order)
        self.windows[path] = read.windows
        for window in read.windows:
            self._parts.setdefault((rank, window.device), ([], read.facts))[0].append(window)
            self.rows.append(_row(window, rank, path))
        if read.times is not None:
            read.times.rank = rank
            self.times.append(read.times)

    def groups(self) -> List[Group]:
        """The steps by rank and device."""
        return [Group(rank, device, windows, facts) for (rank, device), (windows, facts) in sorted(self._parts.items())]


def _straggler(table: Table, groups: List[Group]) -> Tuple[List[Finding], Dict[int, float]]:
    """Findings about the rank that the others wait for, and the time that each rank waits in a step."""
    left_out = {window.step for group in groups for window in group.windows if window.left_out}
    steps = {step: cells for step, cells in table.items() if len(cells) > 1 and step not in left_out}
    waited = {rank: statistics.fmean(cells[rank].waited for cells in steps.values() if rank in cells)
              for rank in {rank for cells in steps.values() for rank in cells}}
    lost: Dict[int, Dict[int, int]] = {}
    for step, cells in steps.items():
        slowest = max(cells, key=lambda rank: (cells[rank].own, -rank))
        behind = cells[slowest].own - max(cell.own for rank, cell in cells.items() if rank != slowest)
        lost.setdefault(slowest, {})[step] = behind
    found = []
    for rank, by_step in lost.items():
        ns, total = sum(by_step.values()) / len(steps), statistics.fmean(cell.time for cells in steps.values() for cell in cells.values())
        ns = min(ns, _surplus(rank, groups))
        if ns >= MOST_SHARE * total > 0:
            device = next((group.device for group in groups if group.rank == rank), "")
            late = sorted(step for step, behind in by_step.items() if behind >= MOST_SHARE * total)
            found.append(Finding("straggler", f"the other ranks wait for rank {rank}", _ms(ns), ns / total, rank, device, late, _more_of(rank, groups)))
    return found, waited


def _surplus(rank: int, groups: List[Group]) -> float:
    """How much longer a rank without a GPU works in a step than the median of the others. Leaves out the time for which its thread waited for a
    processor longer than the others' threads would have for the same work: other programs of the machine took that."""
    own = {group.rank: sum(group.mean(group.counted, name) for name in OWN) for group in groups if group.device == "cpu" and group.counted}
    told = {group.rank: (group.used.main, group.used.wall_ns / max(group.mean(group.counted, "total"), 1))
            for group in groups if group.rank in own and group.used is not None}
    if rank not in own or len(own) < 2:
        return math.inf
    if len(told) == len(own):
        stretch = sum(queued for (_, queued), _ in told.values()) / max(sum(ran for (ran, _), _ in told.values()), 1)
        for one, ((ran, queued), steps) in told.items():
            own[one] -= (queued - ran * stretch) / steps
    return own.pop(rank) - statistics.median(own.values())


def _more_of(rank: int, groups: List[Group]) -> List[Dict[str, Any]]:
    """The parts of a step of which the rank has most more than the median of the others."""
    found: List[Tuple[float, str]] = []
    for group in groups:
        others = [one for one in groups if one.device.partition(":")[0] == group.device.partition(":")[0] and one.rank != rank and one.counted]
        if group.rank == rank and group.counted and others:
            for name in CPU if group.device == "cpu" else BUSY + IDLE:
                found.append((group.mean(group.counted, name) - statistics.median(one.mean(one.counted, name) for one in others), name))
    found.sort(reverse=True)
    return [{"what": f"more of: {WORDS[name]}", "operator": "", "module": "", "line": "", "to_line": "", "ms": _ms(ns), "per_step": 0.0}
            for ns, name in found[:2] if ns > 0]


def mean_line(group: Group) -> str:
    """The first line of a rank and device."""
    total = group.mean(group.counted, "total")
    names = CPU if group.device == "cpu" else BUSY + IDLE
    parts = [f"{WORDS[name]} {group.mean(group.counted, name) / max(total, 1):.0%}" for name in names
             if group.mean(group.counted, name) >= max(total, 1) / 100]
    count = len(group.counted)
    what = f"step {total / 1e6:,.1f} ms" if group.counted[0].step is not None else f"trace of {total / 1e6:,.1f} ms, without steps"
    left = len(group.windows) - count
    return (f"rank {group.rank}, {group.device}: {what} ({count} step{'s' * (count != 1)}{f', {left} left out' if left else ''}): "
            f"{', '.join(parts)}")


def _of(one: Finding) -> str:
    return " a step" if one.steps else ""


def amount(one: Finding) -> str:
    """The time that a finding could save, or its memory."""
    if one.held:
        return format_memory(one.held)
    return f"{format_memory(round(one.bytes))} a step" if one.bytes else f"up to {one.ms:,.1f} ms{_of(one)} ({one.share:.0%})"


def are_slowed(groups: List[Group], found: List[Finding]) -> bool:
    """Whether recorded stacks increase the time of a finding."""
    return any(one.rule in SLOWED for one in found) and any(group.facts.metadata.get("with_stack") for group in groups)


def _show(found: List[Finding], lines: Iterable[str]) -> None:
    """Prints the findings. lines: about the steps."""
    if not found:
        put("nothing stands out")
    for number, one in enumerate(found, 1):
        put(f"{number}. {one.rule}: {one.title}; {amount(one)}")
    put()
    for line in lines:
        put(line)
    for number, one in enumerate(found, 1):
        steps = ", ".join(map(str, one.steps[:8])) + (", ..." if len(one.steps) > 8 else "")
        put(f"\n{number}. {one.rule} (rank {one.rank}, {one.device}{f', steps {steps}' if steps else ''})")
        for row in one.evidence if not one.bytes else ():
            times = f", {row['per_step']:,.4g} times" if row["per_step"] else ""
            put(f"   {row['ms']:10,.3f} ms{_of(one)}{times}: {row['what']}")
        put(f"   {one.advice}")


def explained(paths: List[str], engine: Engine = IN_THIS_PROCESS, keep: Optional[Callable[[Trace], None]] = None) -> Summary:
    """The findings about the traces of a run, except those that cannot be read. keep: called in this process with every trace, while it is in memory.
    Raises a Problem if no trace can be read."""
    return of_results(each(reading(paths, keep), engine))


def reading(paths: List[str], keep: Optional[Callable[[Trace], None]] = None) -> Work:
    """The tasks that read the traces of a run."""
    return over(functools.partial(_read, several=len(paths) > 1, keep=keep), paths)


def of_results(results: Iterable[Result]) -> Summary:
    """As explained(), of the results of reading()."""
    read = _Run(results)
    if not read.windows:
        for problem in read.problems[:-1]:
            note(problem)
        raise read.problems[-1]
    groups = read.groups()
    ranks = Comparison(read.times) if len({group.rank for group in groups}) > 1 else None
    late, waited = _straggler(ranks.table, groups) if ranks else ([], {})
    slow = {one.rank for one in late}
    found = of_machines(groups)
    shared = {(one.rank, one.device): one.ms * 1e6 for one in found}
    for group in groups:
        found += of_group(group, waited.get(group.rank, 0.0), shared.get((group.rank, group.device), 0.0))
    # A rule that only the straggler breaks is the reason for the waits: its time counts in the straggler's finding.
    elsewhere = {one.rule for one in found if one.rank not in slow}
    # Each trace has the memory of all devices of its process: one group a rank is enough.
    first = [next(group for group in groups if group.rank == rank) for rank in sorted({group.rank for group in groups})]
    growing = [one for group in first for one in leaks(group) + full_memory(group)]
    listed = ranked(late + growing + [one for one in found if one.rank not in slow or one.rule in elsewhere])
    summary = {"schema": SCHEMA, "time_unit": "ms", "traces": list(read.windows), "steps": read.rows, "findings": [_finding(one) for one in listed]}
    return Summary(summary, read.windows, groups, listed, ranks, read.problems)


def _of_summaries(paths: List[str], as_json: bool) -> int:
    """Explains a run by its summaries alone."""
    found = told(paths)
    if as_json:
        data(json.dumps(dict(found.data, findings=list(map(_finding, found.findings)), ranks=found.ranks and found.ranks.summary()), indent=1) + "\n")
        return 0
    note("by summaries alone: the operator, line or call behind a part is in the trace")
    more = len(found.steps) - LINES_SHOWN
    _show(found.findings, [one.text() for one in found.steps[:LINES_SHOWN]] + [f"and {more:,} more"] * (more > 0)
          + list(map(printable, modules_line(found.modules))))
    return 0


def run(args: argparse.Namespace) -> int:
    """`cprof explain`"""
    paths = traces_of(args.traces, summaries=True)
    if all_summaries(paths):
        return _of_summaries(paths, args.json)
    found = explained(paths, args.engine)
    for problem in found.problems:
        note(problem)
    if args.json:
        data(json.dumps(dict(found.data, ranks=found.ranks and found.ranks.summary()), indent=1) + "\n")
    else:
        slowed = [STACKS_SLOW] * are_slowed(found.groups, found.findings)
        _show(found.findings, [mean_line(group) for group in found.groups if group.counted] + slowed)
    return BAD_INPUT if found.problems else 0
