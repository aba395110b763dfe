# SPDX-License-Identifier: Apache-2.0
"""Compares the ranks of a run step by step: which was the slowest, how far they are apart, and how long they waited for each
other in collectives.

    cprof ranks RUN/torch_traces

A step takes equally long on all ranks, because collectives hold the fast ones back until the slow one has come. So a rank's
own time is its step without the time that it waited: from its arrival at a collective until the last rank's, or the last
one's that came while it was in it where some may leave before others come, as from a broadcast (kernels of NCCL, else ranges
of gloo, else calls of MPI). The rank that the others waited for has the largest own time; of several with the same one none
is called the slowest. Without collectives the own time is the step's. Of ranks that recorded other steps those are compared
that have the step.

Clocks of several hosts are first brought in line, as in cprof merge."""

import argparse
import bisect
import collections
import json
import os
import statistics
from array import array
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from cprof.tool import Problem, note, printable
from cprof.tool.collectives import Clock, Times, by_rank, clocks, has_parts, meetings, of_last_attempts, of_other_runs, of_unknown_members, world_in
from cprof.tool.given import add_traces, traces_of
from cprof.tool.merge import clock_text
from cprof.tool.screen import data, put

HELP = "compare the ranks of a run step by step: slowest rank, spread, waiting"


def _number(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must be 0 or more")
    return value


_number.__name__ = "number of steps"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the traces are."""
    add_traces(parser)
    parser.add_argument("--json", action="store_true", help="everything as JSON, times in nanoseconds")
    parser.add_argument("--steps", type=_number, default=20, metavar="N", help="steps listed, the most spread ones (default 20)")


class Cell(NamedTuple):
    """A rank's step, in nanoseconds."""
    time: int
    waited: int
    collective: int

    @property
    def own(self) -> int:
        """What it took by itself."""
        return self.time - self.waited


Table = Dict[int, Dict[int, Cell]]  # step -> rank -> cell


def _waits(traces: List[Times], moved: Dict[str, Clock]) -> Dict[Tuple[int, int], int]:
    """{(trace, step): ns} from a rank's arrival until the last one's. What overlaps in one rank counts once."""
    spans: Dict[Tuple[int, int], Any] = collections.defaultdict(_starts_and_ends)
    offset = [moved[one.host].offset_ns for one in traces]
    for meeting in meetings(traces):
        arrivals = sorted(one.start + offset[index] for index, one in meeting.seen.items())
        for index, one in meeting.seen.items():
            step = traces[index].step_at(one.start)
            if step is not None:
                last = arrivals[-1] if meeting.waits else _last_before(arrivals, one.end + offset[index])
                end = min(last - offset[index], one.end, traces[index].steps[step][1])
                spans[index, step].extend((one.start, max(one.start, end)))
    return {key: _covered(found) for key, found in spans.items()}


def _last_before(arrivals: List[int], end: int) -> int:
    """The last arrival while a rank was in a collective that has a root: a receiver cannot leave before the root has come, gloo's root not before
    its receivers have; who leaves earlier did not wait for those that came later."""
    return arrivals[max(bisect.bisect_right(arrivals, end) - 1, 0)]


def _starts_and_ends() -> array:
    """Of spans, by turns: they may be many."""
    return array("q")


def _covered(spans: array) -> int:
    """Length of the union."""
    total, reached = 0, -1 << 63
    for start, end in sorted(zip(spans[::2], spans[1::2])):
        total += max(0, end - max(start, reached))
        reached = max(reached, end)
    return total


def table_of(traces: List[Times], moved: Dict[str, Clock]) -> Table:
    """What each rank did in each step."""
    waits, table = _waits(traces, moved), collections.defaultdict(dict)
    for index, one in enumerate(traces):
        inside: Dict[int, Any] = collections.defaultdict(_starts_and_ends)
        for collective in one.collectives:
            step = one.step_at(collective.start)
            if step is not None:
                inside[step].extend((collective.start, min(collective.end, one.steps[step][1])))
        for step, (start, end) in one.steps.items():
            table[step][one.rank] = Cell(end - start, waits.get((index, step), 0), _covered(inside[step]))
    return dict(sorted(table.items()))


def _ms(ns: float) -> str:
    return f"{ns / 1e6:,.3f}"


def _print(rows: List[List[str]]) -> None:
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        put("  ".join(text.rjust(width) for text, width in zip(row, widths)))


def slowest_in(cells: Dict[int, Cell]) -> Optional[int]:
    """The rank that took longest by itself; None where several took as long."""
    most = max(cell.own for cell in cells.values())
    slowest = [rank for rank, cell in cells.items() if cell.own == most]
    return slowest[0] if len(slowest) == 1 else None


def _spread(cells: Dict[int, Cell]) -> int:
    own = [cell.own for cell in cells.values()]
    return max(own) - min(own)


def _print_steps(table: Table, most: int) -> None:
    chosen = sorted(sorted(table, key=lambda step: -_spread(table[step]))[:most])
    rows = [["step", "ranks", "time ms", "slowest", "own ms", "spread ms", "waited ms", "most, rank"]]
    for step in chosen:
        cells = table[step]
        slowest, patient = slowest_in(cells), max(cells, key=lambda rank: (cells[rank].waited, -rank))
        rows.append([str(step), str(len(cells)), _ms(statistics.median(cell.time for cell in cells.values())),
                     "-" if slowest is None else f"rank {slowest}", _ms(max(cell.own for cell in cells.values())), _ms(_spread(cells)),
                     _ms(statistics.mean(cell.waited for cell in cells.values())),
                     f"{_ms(cells[patient].waited)}, {patient}"])
    _print(rows)
    if len(chosen) < len(table):
        put(f"({len(chosen)} of {len(table)} steps: the most spread ones)")


def summary(table: Table) -> List[Dict[str, Any]]:
    """Each rank over all its steps; the rank that took longest by itself first."""
    found = []
    times_slowest = collections.Counter(slowest_in(cells) for cells in table.values() if len(cells) > 1)
    for rank in sorted({rank for cells in table.values() for rank in cells}):
        own = [cells[rank] for cells in table.values() if rank in cells]
        found.append({"rank": rank, "steps": len(own), "own_ns": round(statistics.median(cell.own for cell in own)),
                      "waited_ns": round(statistics.median(cell.waited for cell in own)),
                      "collective_ns": round(statistics.median(cell.collective for cell in own)),
                      "slowest_in": times_slowest[rank]})
    return sorted(found, key=lambda row: (-row["own_ns"], row["rank"]))


def _hosts(traces: List[Times]) -> Dict[int, str]:
    """Where each rank was, one after the other where it was started again elsewhere."""
    found: Dict[int, List[str]] = collections.defaultdict(list)
    for one in sorted(traces, key=lambda one: min(one.steps.values(), default=(0, 0))):
        found[one.rank].append(one.host)
    return {rank: ", ".join(hosts) for rank, hosts in found.items()}


def _print_ranks(ranks: List[Dict[str, Any]], hosts: Dict[int, str]) -> None:
    rows = [["rank", "steps", "own ms", "waited ms", "collectives ms", "slowest in", "host"]]
    rows += [[str(row["rank"]), str(row["steps"]), _ms(row["own_ns"]), _ms(row["waited_ns"]), _ms(row["collective_ns"]),
              str(row["slowest_in"]), printable(hosts[row["rank"]])] for row in ranks]
    _print(rows)


def _verdict(ranks: List[Dict[str, Any]], table: Table) -> str:
    compared = sum(1 for cells in table.values() if len(cells) > 1)
    if len(ranks) < 2:
        return "one rank only: nothing to compare"
    if not compared:
        return "no step is in the traces of two ranks: nothing to compare"
    if not any(row["slowest_in"] for row in ranks):
        return f"no rank was slower than all others in any of {compared} steps"
    worst = max(ranks, key=lambda row: (row["slowest_in"], row["own_ns"]))
    behind = worst["own_ns"] - statistics.median(row["own_ns"] for row in ranks if row is not worst)
    return (f"rank {worst['rank']} was the slowest in {worst['slowest_in']} of {compared} steps; its median step is "
            f"{_ms(abs(behind))} ms {'behind' if behind >= 0 else 'ahead of'} the median of the others'")


def run(args: argparse.Namespace) -> int:
    """`cprof ranks`"""
    traces = []
    paths = traces_of(args.traces)
    for order, path in enumerate(paths):
        one = Times(path, order).read()
        for text in one.notes:
            note(text, path)
        traces.append(one)
    if not any(one.steps for one in traces):
        raise Problem("no trace has steps (ProfilerStep#N rows)", paths[0])
    traces = of_last_attempts(by_rank(traces))
    again: Dict[int, Set[int]] = collections.defaultdict(set)
    for one in traces:
        again[one.rank] |= one.again
    for rank, steps in sorted(again.items()):
        if steps:
            note(f"rank {rank} made {len(steps)} of its steps several times (of another run, or after a restart): the last time counts")
    moved = clocks(traces)
    table = table_of(traces, moved)
    ranks = summary(table)
    if args.json:
        data(json.dumps({"ranks": ranks, "steps": {step: {rank: {"time_ns": cell.time, "own_ns": cell.own,
                          "waited_ns": cell.waited, "collective_ns": cell.collective} for rank, cell in cells.items()}
                          for step, cells in table.items()},
                          "clocks": {host: clock._asdict() for host, clock in moved.items()}}) + "\n")
        return 0
    for text in of_other_runs(traces, moved):
        note(text)
    for host, clock in list(moved.items())[1:]:
        note(clock_text(host or "(no host name)", clock))
    world = world_in(traces)
    parts = has_parts((found.key for one in traces for found in one.collectives), world)
    apart = sum(1 for one in traces for found in one.collectives if of_unknown_members(found.key, world, parts))
    if apart:
        note(f"{apart:,} collectives are of a part of the ranks, and the traces do not tell of which: waiting in them counts as "
             "own time")
    if not any(one.collectives for one in traces):
        note("no collectives are in the traces: own time is the step's whole time")
    _print_ranks(ranks, _hosts(traces))
    put()
    _print_steps(table, args.steps)
    put()
    put(_verdict(ranks, table))
    return 0
