# SPDX-License-Identifier: Apache-2.0
"""Compares the ranks of a run step by step: which rank cost the others most, what it did meanwhile, and how long the ranks
waited for each other in collectives.

    cprof ranks RUN
    cprof ranks RUN --steps 5 --json

The first line has the cost: how long the other ranks waited for one rank in sum, as the mean of the others, and in which steps.
The second line shows what that rank did in this time: operators by self time, time outside operators, and kernels. Each column
of the tables names its kind: sum, median or mean.

A step takes equally long on all ranks, because collectives hold the fast ranks back until the slow one arrives. So a rank's own
time is its step without its waits. A wait lasts from the rank's arrival at a collective until the arrival of the last rank.
In a collective that ranks may leave early, such as a broadcast, only arrivals while the rank is inside count. Collectives are
kernels of NCCL, else ranges of gloo, else calls of MPI. The rank that the others waited for has the largest own time. If several
ranks have the same own time, none is called the slowest. Without collectives the own time is that of the whole step. A step is
compared among the ranks that recorded it.

From 8 ranks on, each step of a rank is also compared with the median rank's: its kernels, its data, its time outside them. Ranks of a
host that stand out together are named as the host. The collectives of a group are compared with those of other groups of its size.
What stands out comes first, with the steps. This needs the summaries of the traces (TRACE.summary), and no trace: copy only those.

Clocks of several hosts are aligned first, as in cprof merge."""

import argparse
import bisect
import collections
import functools
import json
import statistics
from array import array
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from cprof.tool import Problem, note, printable
from cprof.tool.collectives import Clock, Times, by_rank, clocks, has_parts, meetings, of_last_attempts, of_other_runs, of_unknown_members, world_in
from cprof.tool.given import add_traces, traces_of
from cprof.tool.merge import clock_text
from cprof.tool.rank_causes import causes
from cprof.tool.rank_cost import Cost, Did, Waits, covered, did
from cprof.tool.screen import data, put
from cprof.tool.summary_file import SUFFIX, of_trace, read

SCHEMA = {"name": "cprof.summary", "version": 1}
CAUSES_SHOWN = 5
RANKS_SHOWN = 32
CLOCKS_SHOWN = 8     # hosts whose clocks get a line each
HELP = "show how much time each rank cost the others, in which steps, and what it did meanwhile"


def _number(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must be 0 or more")
    return value


_number.__name__ = "number of steps"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the traces and the options."""
    add_traces(parser)
    parser.add_argument("--json", action="store_true", help="all results as JSON, times in nanoseconds")
    parser.add_argument("--steps", type=_number, default=20, metavar="N", help="the number of steps to list, those with the largest spread (default 20)")


class Cell(NamedTuple):
    """A rank's step, in nanoseconds."""
    time: int
    waited: int
    collective: int

    @property
    def own(self) -> int:
        """Its own time."""
        return self.time - self.waited


Table = Dict[int, Dict[int, Cell]]  # step -> rank -> cell


def _waits(traces: List[Times], moved: Dict[str, Clock]) -> Waits:
    """The waits of all ranks: from a rank's arrival until the last rank's. Overlapping waits of a rank count once."""
    found = Waits()
    offset = [moved[one.host].offset_ns for one in traces]
    for meeting in meetings(traces):
        arrivals = sorted((one.start + offset[index], index) for index, one in meeting.seen.items())
        for index, one in meeting.seen.items():
            step = traces[index].step_at(one.start)
            if step is not None:
                last, whom = arrivals[-1] if meeting.waits else _last_before(arrivals, one.end + offset[index])
                end = min(last - offset[index], one.end, traces[index].steps[step][1])
                found.add(index, whom, step, one.start, end, offset[index] - offset[whom])
    return found


def _last_before(arrivals: List[Tuple[int, int]], end: int) -> Tuple[int, int]:
    """The last arrival while a rank was in a collective with a root. A receiver cannot leave before the root arrives, nor gloo's root before its
    receivers; a rank that leaves earlier did not wait for later ranks."""
    return arrivals[max(bisect.bisect_right(arrivals, (end, 1 << 62)) - 1, 0)]


def _starts_and_ends() -> array:
    """A new array for starts and ends of spans in turn, since they may be many."""
    return array("q")


def table_of(traces: List[Times], moved: Dict[str, Clock], waits: Optional[Waits] = None) -> Table:
    """The cells of each rank in each step. waits: those of these traces, if known."""
    waits = waits or _waits(traces, moved)
    table: Table = collections.defaultdict(dict)
    for index, one in enumerate(traces):
        inside: Dict[int, Any] = collections.defaultdict(_starts_and_ends)
        for collective in one.collectives:
            step = one.step_at(collective.start)
            if step is not None:
                inside[step].extend((collective.start, min(collective.end, one.steps[step][1])))
        for step, (start, end) in one.steps.items():
            table[step][one.rank] = Cell(end - start, covered(waits.waited.get((index, step), array("q"))), covered(inside[step]))
    return dict(sorted(table.items()))


def costs(traces: List[Times], waits: Waits, table: Table) -> List[Cost]:
    """The cost of each rank for the others, the largest first."""
    total = sum(statistics.mean(cell.time for cell in cells.values()) for cells in table.values() if len(cells) > 1)
    found: Dict[int, Dict[int, float]] = collections.defaultdict(dict)
    there: Dict[int, List[int]] = collections.defaultdict(list)
    for index, one in enumerate(traces):
        for step in one.steps:
            there[step].append(index)
    for step, indices in there.items():
        for index in indices if len(indices) > 1 else ():
            found[traces[index].rank][step] = waits.cost(index, step, len(indices) - 1)
    rows = [Cost(rank, sum(by_step.values()), total, by_step) for rank, by_step in found.items()]
    return sorted(rows, key=lambda row: (-row.cost, row.rank))


def _ms(ns: float) -> str:
    return f"{ns / 1e6:,.3f}"


def _print(rows: List[List[str]]) -> None:
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    for row in rows:
        put("  ".join(text.rjust(width) for text, width in zip(row, widths)))


def slowest_in(cells: Dict[int, Cell]) -> Optional[int]:
    """The rank with the longest own time; None if several have the same."""
    most = max(cell.own for cell in cells.values())
    slowest = [rank for rank, cell in cells.items() if cell.own == most]
    return slowest[0] if len(slowest) == 1 else None


def _spread(cells: Dict[int, Cell]) -> int:
    own = [cell.own for cell in cells.values()]
    return max(own) - min(own)


def _print_steps(table: Table, most: int) -> None:
    chosen = sorted(sorted(table, key=lambda step: -_spread(table[step]))[:most])
    rows = [["step", "ranks", "median ms", "slowest", "its own ms", "spread ms", "mean wait ms", "longest, rank"]]
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


def summary(table: Table, cost: List[Cost]) -> List[Dict[str, Any]]:
    """Each rank over all its steps, sorted by its cost for the others, then by its own time, the largest first."""
    found = []
    cost_of = {one.rank: round(one.cost) for one in cost}
    times_slowest = collections.Counter(slowest_in(cells) for cells in table.values() if len(cells) > 1)
    for rank in sorted({rank for cells in table.values() for rank in cells}):
        own = [cells[rank] for cells in table.values() if rank in cells]
        found.append({"rank": rank, "steps": len(own), "own_ns": round(statistics.median(cell.own for cell in own)),
                      "waited_ns": round(statistics.median(cell.waited for cell in own)),
                      "collective_ns": round(statistics.median(cell.collective for cell in own)),
                      "cost_sum_ns": cost_of.get(rank, 0), "waited_sum_ns": sum(cell.waited for cell in own),
                      "slowest_in": times_slowest[rank]})
    return sorted(found, key=lambda row: (-row["cost_sum_ns"], -row["own_ns"], row["rank"]))


def _hosts(traces: List[Times]) -> Dict[int, str]:
    """The hosts of each rank, several if it was started again elsewhere."""
    found: Dict[int, List[str]] = collections.defaultdict(list)
    for one in sorted(traces, key=lambda one: min(one.steps.values(), default=(0, 0))):
        found[one.rank].append(one.host)
    return {rank: ", ".join(hosts) for rank, hosts in found.items()}


def _print_ranks(ranks: List[Dict[str, Any]], hosts: Dict[int, str]) -> None:
    rows = [["rank", "steps", "cost sum ms", "waited sum ms", "own median ms", "collectives median ms", "slowest in", "host"]]
    rows += [[str(row["rank"]), str(row["steps"]), _ms(row["cost_sum_ns"]), _ms(row["waited_sum_ns"]), _ms(row["own_ns"]), _ms(row["collective_ns"]),
              str(row["slowest_in"]), printable(hosts[row["rank"]])] for row in ranks[:RANKS_SHOWN]]
    _print(rows)
    if len(ranks) > RANKS_SHOWN:
        put(f"({RANKS_SHOWN} of {len(ranks):,} ranks: those with the largest cost; --json has all)")


def _slowest(ranks: List[Dict[str, Any]], table: Table) -> str:
    """The answer if the traces do not show who waited for whom."""
    compared = [cells for cells in table.values() if len(cells) > 1]
    if len(ranks) < 2:
        return "one rank only: nothing to compare"
    if not compared:
        return "no step is in the traces of two ranks: nothing to compare"
    if not any(row["slowest_in"] for row in ranks):
        return f"no rank was slower than all others in any of {len(compared)} steps"
    worst = max(ranks, key=lambda row: (row["slowest_in"], row["own_ns"]))["rank"]
    behind = sum(cells[worst].own - statistics.median(cell.own for rank, cell in cells.items() if rank != worst) for cells in compared if worst in cells)
    return (f"rank {worst} was the slowest in {sum(slowest_in(cells) == worst for cells in compared)} of {len(compared)} steps, in sum {_ms(abs(behind))} ms "
            f"{'behind' if behind >= 0 else 'ahead of'} the median of the others")


def _times(path: str, order: int, progress: bool) -> Times:
    """The steps and collectives of a rank: from its summary where that has them, else from the trace."""
    found, why = (read(path), "") if path.endswith(SUFFIX) else of_trace(path)
    one = Times.of_summary(found, order) if found is not None else None
    if one is not None:
        return one
    if found is not None and path.endswith(SUFFIX):
        raise Problem("lacks steps or collectives: the trace is needed", path)
    if why:
        note(f"{why}: the trace is read")
    return Times(path, order).read(progress)


def _clocks(moved: List[Tuple[str, Clock]]) -> List[str]:
    """What is known of the hosts' clocks: a line for each, or one for many."""
    if len(moved) <= CLOCKS_SHOWN:
        return [clock_text(host or "(no host name)", clock) for host, clock in moved]
    known = [clock for _, clock in moved if clock.error_ns is not None]
    most, error = max((abs(clock.offset_ns) for clock in known), default=0), max((clock.error_ns or 0 for clock in known), default=0)
    return [f"clocks of {len(moved) + 1} hosts: {len(known)} aligned by collectives, by up to {most / 1e6:,.3f} ms; up to {error / 1e6:,.3f} ms of error "
            "are left"]


def compared(paths: List[str], progress: bool = True) -> "Comparison":
    """Compares the ranks of these traces. May raise a Problem."""
    traces = []
    for order, path in enumerate(paths):
        one = _times(path, order, progress)
        for text in one.notes:
            note(text, path)
        traces.append(one)
    joined, summed = max((one.joined for one in traces), default=1), any(one.summed for one in traces)
    for one in traces:
        one.coarsen(joined, summed)
    if not any(one.steps for one in traces):
        raise Problem("no trace has steps (ProfilerStep#N rows)", paths[0])
    return Comparison(traces)


class Comparison:
    """The ranks of a run, step by step."""

    def __init__(self, traces: List[Times]) -> None:
        self.joined, self.summed = max(one.joined for one in traces), any(one.summed for one in traces)
        self.traces = of_last_attempts(by_rank(traces))
        self.moved = clocks(self.traces)
        waits = _waits(self.traces, self.moved)
        self.table = table_of(self.traces, self.moved, waits)
        self.costs = costs(self.traces, waits, self.table)
        self.ranks = summary(self.table, self.costs)
        self.causes = causes(self.traces)
        self.worst = self.costs[0] if self.costs and self.costs[0].cost > 0 else None
        self._waits = waits

    @functools.cached_property
    def did(self) -> Optional[Did]:
        """What the rank with the largest cost did meanwhile. Reads its traces again."""
        late = [(found, self._waits.late(index)) for index, found in enumerate(self.traces) if self.worst and found.rank == self.worst.rank]
        return next((done for done in (did(found, times) for found, times in late) if done), None)

    def summary(self) -> Dict[str, Any]:
        """The part of the summary that is about ranks (scripts/guide/explain.md). Times are nanoseconds, as the names say."""
        worst, done = self.worst, self.did
        return {"worst": worst and {"rank": worst.rank, "cost_sum_ns": round(worst.cost), "steps_sum_ns": round(worst.total), "steps": worst.steps(),
                                    "did": done and {"total_ns": done.total, "cpu": dict(done.cpu), "gpu": dict(done.gpu)}},
                "causes": [{"kind": one.kind, "where": one.where, "ranks": one.ranks, "host": one.host, "cost_ns": round(one.cost), "share": one.share,
                            "steps": one.steps, "text": one.text()} for one in self.causes],
                "ranks": self.ranks,
                "steps": {step: {rank: {"time_ns": cell.time, "own_ns": cell.own, "waited_ns": cell.waited, "collective_ns": cell.collective}
                                 for rank, cell in cells.items()} for step, cells in self.table.items()},
                "joined": self.joined, "summed": self.summed,
                "clocks": {host: clock._asdict() for host, clock in self.moved.items()}}

    def remarks(self) -> List[str]:
        """What the summaries lack, in words."""
        lines = []
        if self.joined > 1:
            lines.append(f"the windows are long: {self.joined} steps count as one, named by its first step")
        if self.summed:
            lines.append("the windows have many collectives: those of a communicator count as one in each step")
        return lines

    def answer(self) -> List[str]:
        """The answer in some lines: what stands out among many ranks, else which rank the others waited for."""
        if self.causes:
            return [one.text() for one in self.causes[:CAUSES_SHOWN]]
        if self.worst is None:
            return [_slowest(self.ranks, self.table)]
        return [self.worst.text()] + ([self.did.text(self.worst.rank)] if self.did else [])


def run(args: argparse.Namespace) -> int:
    """`cprof ranks`"""
    paths = traces_of(args.traces, summaries=True)
    found = compared(paths)
    traces, moved, table = found.traces, found.moved, found.table
    again: Dict[int, Set[int]] = collections.defaultdict(set)
    for one in traces:
        again[one.rank] |= one.again
    for rank, steps in sorted(again.items()):
        if steps:
            note(f"rank {rank} made {len(steps)} of its steps several times (of another run, or after a restart): the last time counts")
    if args.json:
        data(json.dumps({"schema": SCHEMA, "traces": paths, **found.summary()}) + "\n")
        return 0
    summaries = sum(one.from_summary for one in traces)
    if summaries:
        note(f"{summaries:,} of {len(traces):,} ranks by their summaries, the others by their traces" if summaries < len(traces) else
             "by the summaries made with the traces")
    for text in [*found.remarks(), *of_other_runs(traces, moved)]:
        note(text)
    for text in _clocks(list(moved.items())[1:]):
        note(text)
    world = world_in(traces)
    parts = has_parts((found.key for one in traces for found in one.collectives), world)
    apart = sum(1 for one in traces for found in one.collectives if of_unknown_members(found.key, world, parts))
    if apart:
        note(f"{apart:,} collectives are of a part of the ranks, and the traces do not tell of which: waiting in them counts as "
             "own time")
    if not any(one.collectives for one in traces):
        note("no collectives are in the traces: own time is the step's whole time")
    for text in found.answer():
        put(printable(text))
    put()
    _print_ranks(found.ranks, _hosts(traces))
    put()
    _print_steps(table, args.steps)
    return 0
