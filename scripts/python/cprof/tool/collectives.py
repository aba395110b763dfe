# SPDX-License-Identifier: Apache-2.0
"""What the traces of several ranks say about each other: steps, collectives that all of them took part in, and how far the
clocks of their hosts are apart.

A collective is what lasts as long as its communication: a kernel of NCCL, else a range of gloo, else a call of MPI; not the
operator that only enqueues it. Those that no rank can leave before all have entered it (all-reduce, all-gather, barrier …)
show which rank the others waited for, and bound the difference of two clocks from both sides."""

import bisect
import collections
import os
import re
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from cprof.tool.reader import open_trace
from cprof.tool.steps import on_our_row

STEP = re.compile(r"ProfilerStep\s*#\s*([0-9]{1,18})(?![0-9])")
# What lasts as long as the communication, best first. The trace's best kind is used, and no other.
KINDS = (("kernel", re.compile(r"^nccl(Dev)?Kernel|^nccl[A-Z]\w*Kernel|^rccl")), (None, re.compile(r"^(gloo|mpi|ucc):")),
         (None, re.compile(r"^P?MPI_(Allreduce|Allgather|Alltoall|Barrier|Reduce_scatter|Bcast|Reduce|Gather|Scatter)", re.I)))
# Nobody leaves these before everybody has come.
ALL = re.compile(r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier", re.IGNORECASE)
MOST = 200_000  # collectives of one trace that are looked at


class Collective(NamedTuple):
    """Nanoseconds since the epoch, by the clock of its host."""
    start: int
    end: int
    key: Tuple


class Times:
    """Steps and collectives of one trace."""

    def __init__(self, path: str, order: int = 0) -> None:
        self.path = path
        self.steps: Dict[int, Tuple[int, int]] = {}
        self.collectives: List[Collective] = []
        self.notes: List[str] = []
        self._step_ranges: Dict[int, Tuple[int, int]] = {}  # of a step's name, but not on cprof's row of steps
        self.again: Set[int] = set()                   # steps that were made several times
        self._starts: List[Tuple[int, int, int]] = []  # (start, end, number) of the steps
        self._kinds: List[List[Collective]] = [[] for _ in KINDS]
        self._order = order

    def read(self, progress: bool = True) -> "Times":
        """Goes through the file."""
        with open_trace(self.path, progress=progress) as trace:
            head = trace.of_one_rank().head()
            self.base = base_of(head)
            for block in trace.blocks():
                for event in block:
                    if event.get("ph") == "X" and "dur" in event and "ts" in event:
                        self._look(event)
            self.rank = rank_of(trace.of_one_rank().metadata, self.path, self._order)
            self.world = world_of(trace.metadata)
            self.host = str(trace.metadata.get("host_name") or "")
            self.base_late = base_of(trace.metadata)
            self.notes = trace.remarks()
        self.steps = self.steps or self._step_ranges
        if self.base_late != self.base:  # the key stood behind the events
            self._shift(self.base_late - self.base)
        self.collectives = sorted(next((kind for kind in self._kinds if kind), []))
        return self._indexed()

    def _indexed(self) -> "Times":
        self._starts = sorted((start, end, n) for n, (start, end) in self.steps.items())
        return self

    def join(self, other: "Times") -> None:
        """Takes in another window of the same rank; of two attempts at a step the later one."""
        for n, step in other.steps.items():
            before = self.steps.setdefault(n, step)
            if before != step:
                self.again.add(n)
                self.steps[n] = max(before, step)
        self.collectives = sorted({*self.collectives, *other.collectives})
        self._indexed()

    def step_at(self, at: int) -> Optional[int]:
        """The step that a moment lies in."""
        found = bisect.bisect_right(self._starts, (at, 1 << 62, 0)) - 1
        if found < 0 or at >= self._starts[found][1]:
            return None
        return self._starts[found][2]

    def _look(self, event: Dict[str, Any]) -> None:
        name = event.get("name")
        if type(name) is not str:
            return
        kind = kind_of(name, event.get("cat"))
        if kind is not None:
            if len(self._kinds[kind]) < MOST:
                start, end = self._times(event)
                self._kinds[kind].append(Collective(start, end, _key(name, event.get("args"))))
        elif name.startswith("ProfilerStep"):
            match = STEP.match(name)
            if match and event.get("cat") != "gpu_user_annotation":
                (self.steps if on_our_row(event) else self._step_ranges)[int(match[1])] = self._times(event)

    def _times(self, event: Dict[str, Any]) -> Tuple[int, int]:
        start = self.base + ns_of(event["ts"])
        return start, start + ns_of(event["dur"])

    def _shift(self, by: int) -> None:
        self.steps = {n: (start + by, end + by) for n, (start, end) in self.steps.items()}
        self._kinds = [[Collective(c.start + by, c.end + by, c.key) for c in kind] for kind in self._kinds]


def kind_of(name: str, category: Any) -> Optional[int]:
    """Which of KINDS an event is."""
    if name[:1] not in "ngrmuMP":
        return None
    for number, (wanted, pattern) in enumerate(KINDS):
        if (wanted is None or wanted == category) and pattern.match(name):
            return None if wanted is None and category in ("kernel", "gpu_user_annotation") else number
    return None


def _key(name: str, args: Any) -> Tuple:
    """What two ranks' halves of one collective have in common: its name, its group's members and size where they are told."""
    if type(args) is not dict:
        return (name, "", 0)
    size = args.get("Group size")
    return (str(args.get("Collective name") or name), str(args.get("Process Group Ranks") or ""),
            size if type(size) is int else 0)


def ns_of(value: Any) -> int:
    """Microseconds, as a trace has them, in whole nanoseconds; 0 for what is no time."""
    try:
        return _time(value * 1000 if type(value) is int else round(float(value) * 1000))
    except (TypeError, ValueError, OverflowError):
        return 0


def _time(ns: int) -> int:
    """Perfetto, too, has 63 bits for a time; a larger one is of a damaged file, and is 0."""
    return ns if abs(ns) < 1 << 63 else 0


def base_of(metadata: Dict[str, Any]) -> int:
    """What a trace's times are counted from, in nanoseconds since the epoch; 0 where they are absolute."""
    base = metadata.get("baseTimeNanoseconds")
    return _time(base) if type(base) is int else 0


def rank_of(metadata: Dict[str, Any], path: str, otherwise: int) -> int:
    """The trace's rank: as it says, as its name says, or the place in the list."""
    info = metadata.get("distributedInfo")
    rank = info.get("rank") if type(info) is dict else None
    if type(rank) is int and 0 <= rank < 1 << 17:
        return rank
    match = re.search(r"rank[_-]?(\d{1,5})(?!\d)", os.path.basename(path))
    return int(match[1]) if match else otherwise


def world_of(metadata: Dict[str, Any]) -> int:
    """Ranks of the run; 0 where the trace does not say."""
    info = metadata.get("distributedInfo")
    world = info.get("world_size") if type(info) is dict else None
    return world if type(world) is int else 0


# ---- across ranks ----

def by_rank(times: List[Times]) -> List[Times]:
    """One for each rank: the windows of one run joined."""
    found: Dict[Tuple[int, str], Times] = {}
    for one in times:
        first = found.setdefault((one.rank, one.host), one)
        if first is not one:
            first.join(one)
    return list(found.values())


class Meeting(NamedTuple):
    """One collective as each rank saw it: {index of the trace: Collective}."""
    key: Tuple
    seen: Dict[int, Collective]

    @property
    def waits(self) -> bool:
        """Whether nobody leaves before everybody has come."""
        return ALL.search(self.key[0]) is not None


def meetings(ranks: List[Times]) -> Iterator[Meeting]:
    """The n-th collective of a key on one rank is the n-th on another, if all have as many of them: in the whole trace where all
    recorded the same steps, else within a step. Ranks that recorded others (each was asked for them by itself) may have as many."""
    by_key: Dict[Tuple, Dict[int, List[Collective]]] = collections.defaultdict(dict)
    for index, rank in enumerate(ranks):
        for one in rank.collectives:
            by_key[one.key].setdefault(index, []).append(one)
    for key, lists in by_key.items():
        if len(lists) < 2 or of_unknown_members(key, ranks):
            continue
        same_steps = len({frozenset(ranks[index].steps) for index in lists}) == 1
        if same_steps and len({len(found) for found in lists.values()}) == 1:
            yield from _matched(key, lists)
        else:
            yield from _by_step(key, lists, ranks)


def of_unknown_members(key: Tuple, ranks: List[Times]) -> bool:
    """Whether a collective is one of a part of the ranks, and which part is not told: its halves cannot be put together."""
    _, members, size = key
    world = max([rank.world for rank in ranks] + [len({rank.rank for rank in ranks})])
    return not members and 0 < size < world


def _matched(key: Tuple, lists: Dict[int, List[Collective]]) -> Iterator[Meeting]:
    for row in zip(*lists.values()):
        yield Meeting(key, dict(zip(lists, row)))


def _by_step(key: Tuple, lists: Dict[int, List[Collective]], ranks: List[Times]) -> Iterator[Meeting]:
    steps: Dict[int, Dict[int, List[Collective]]] = collections.defaultdict(dict)
    for index, found in lists.items():
        for one in found:
            step = ranks[index].step_at(one.start)
            if step is not None:
                steps[step].setdefault(index, []).append(one)
    for step, there in sorted(steps.items()):
        if len(there) == len(lists) and len({len(found) for found in there.values()}) == 1:
            yield from _matched(key, there)


class Clock(NamedTuple):
    """How a host's clock is brought in line with the first host's."""
    offset_ns: int            # to be added to its times
    error_ns: Optional[int]   # what is left, as the collectives show it; None: nothing shows it
    source: str               # "wall clock" or "collective ends"
    collectives: int          # that were used


def clocks(ranks: List[Times]) -> Dict[str, Clock]:
    """For each host. Ranks of one host share a clock, so that nothing has to be refined among them."""
    hosts = list(dict.fromkeys(rank.host for rank in ranks))
    found = {hosts[0]: Clock(0, 0, "wall clock", 0)}
    if len(hosts) > 1:
        met = [meeting for meeting in meetings(ranks) if meeting.waits]
        for host in hosts[1:]:
            found[host] = _clock(ranks, met, hosts[0], host)
    return found


def _middle(values: List[int]) -> int:
    """The median, in integers: nanoseconds since the epoch are too many for a float."""
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2


def _clock(ranks: List[Times], met: List[Meeting], first: str, host: str) -> Clock:
    """By the ends of what both hosts' ranks took part in. Nobody leaves before everybody has come: what one side's last
    arrival and the other side's first departure allow is a bound in each direction, which holds whatever the network did."""
    differences, least, most = [], -1 << 62, 1 << 62
    for meeting in met:
        here = [one for index, one in meeting.seen.items() if ranks[index].host == first]
        there = [one for index, one in meeting.seen.items() if ranks[index].host == host]
        if not here or not there:
            continue
        differences.append(_middle([one.end for one in here]) - _middle([one.end for one in there]))
        least = max(least, max(one.start for one in here) - min(one.end for one in there))
        most = min(most, min(one.end for one in here) - max(one.start for one in there))
    if not differences:
        return Clock(0, None, "wall clock", 0)
    offset = _middle(differences)
    if least <= most:
        offset = min(max(offset, least), most)
    apart = sorted(abs(difference - offset) for difference in differences)
    error = apart[min(len(apart) - 1, len(apart) * 9 // 10)]
    unmoved = sorted(abs(difference) for difference in differences)[min(len(apart) - 1, len(apart) * 9 // 10)]
    if abs(offset) <= error and least <= 0 <= most:  # the ends do not tell the clocks apart
        return Clock(0, unmoved, "wall clock", len(differences))
    return Clock(offset, error, "collective ends", len(differences))
