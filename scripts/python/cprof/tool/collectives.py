# SPDX-License-Identifier: Apache-2.0
"""Compares the traces of several ranks: their steps, the collectives in which all of them took part, and the differences between the
clocks of their hosts.

A collective is the event that lasts as long as the communication: a kernel of NCCL, else a range of gloo, else a call of MPI. The
operator that only enqueues it does not count. No rank can leave an all-reduce, an all-gather or a barrier before all ranks have
entered it. Such collectives show which rank the others waited for, and bound the difference of two clocks from both sides."""

import bisect
import collections
import heapq
import os
import re
from array import array
from typing import Any, Dict, FrozenSet, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from cprof.tool.reader import Trace, open_trace
from cprof.tool.spans import in_order, text_of
from cprof.tool.steps import RANGE_NAME, on_our_row
from cprof.tool.summary_file import PARTS, SUFFIX, Summary

STEP = re.compile(rf"(?:ProfilerStep\s*#\s*|{re.escape(RANGE_NAME)})([0-9]{{1,18}})(?![0-9])")
# The kinds of events that last as long as the communication, best first. Only the best kind that a trace has is used.
KINDS = (("kernel", re.compile(r"^nccl(Dev)?Kernel|^nccl[A-Z]\w*Kernel|^rccl")), (None, re.compile(r"^(gloo|mpi|ucc):")),
         (None, re.compile(r"^P?MPI_(Allreduce|Allgather|Alltoall|Barrier|Reduce_scatter|Bcast|Reduce|Gather|Scatter)", re.I)))
# Collectives that no rank leaves before all have entered.
ALL = re.compile(r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|barrier", re.IGNORECASE)
LIMIT = (1 << 63) - 1  # the largest number in a column
APART_NS = 5_000_000_000  # the most between the end of a step on one rank and its start on another, in one run


class Collective(NamedTuple):
    """Times are nanoseconds since the epoch, by the clock of the host."""
    start: int
    end: int
    key: Tuple
    bytes: int = -1    # of its larger side; -1: unknown
    number: int = -1   # in its communicator; -1: unknown


class Collectives:
    """A list of collectives in columns, with 36 bytes each."""

    def __init__(self) -> None:
        self._start, self._end, self._key, self._bytes, self._number = (array(typecode) for typecode in "qqiqq")
        self._keys: List[Tuple] = []
        self._numbers: Dict[Tuple, int] = {}

    def __len__(self) -> int:
        return len(self._start)

    def __getitem__(self, at: int) -> Collective:
        return Collective(self._start[at], self._end[at], self._keys[self._key[at]], self._bytes[at], self._number[at])

    def __iter__(self) -> Iterator[Collective]:
        return map(self.__getitem__, range(len(self)))

    @classmethod
    def of_summary(cls, columns: Dict[str, Any], base: int) -> "Collectives":
        """From a summary's columns, which are in order."""
        found = cls()
        found._keys = [tuple(key) for key in columns["keys"]]
        found._numbers = {key: number for number, key in enumerate(found._keys)}
        start = base
        for delta, duration in zip(columns["start_delta"], columns["duration"]):
            start += delta
            found._start.append(max(-LIMIT, min(start, LIMIT)))
            found._end.append(max(-LIMIT, min(start + duration, LIMIT)))
        for column, name in ((found._key, "key"), (found._bytes, "bytes"), (found._number, "number")):
            column.extend(columns[name])
        return found

    @classmethod
    def of_sums(cls, columns: Dict[str, Any], starts: List[int]) -> "Collectives":
        """From a summary's sums by step and key, as if each were one collective that ends with the last one. starts: of the steps."""
        found = cls()
        for step, key, _, _, size, covered, end in columns["sums"]:
            found.add(*_as_one(starts[step], starts[step] + end, covered), tuple(columns["keys"][key]), size)
        return found.in_order()

    def add(self, start: int, end: int, key: Tuple, size: int = -1, place: int = -1) -> None:
        """Adds a collective."""
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._keys)
            self._keys.append(key)
        for column, value in ((self._start, start), (self._end, end), (self._key, number), (self._bytes, size), (self._number, place)):
            column.append(max(-LIMIT, min(value, LIMIT)))

    def in_order(self, moved_by: int = 0) -> "Collectives":
        """A sorted copy, with `moved_by` nanoseconds added to all times."""
        found = Collectives()
        for at in in_order(len(self), self.__getitem__):
            start, end, *rest = self[at]
            found.add(start + moved_by, end + moved_by, *rest)
        return found


def _as_one(begin: int, end: int, covered: int) -> Tuple[int, int]:
    """Start and end of a collective in place of several in a step. begin: of the step; end: of the last one; covered: time in which any ran. The rank
    that arrives last has the shortest ones, so that the difference of two ranks' starts is about the time that one waited for the other."""
    return max(begin, end - covered), end


def _together(one: Iterable[Collective], other: Iterable[Collective]) -> Collectives:
    """The union of two sorted lists, sorted."""
    found, last = Collectives(), None
    for collective in heapq.merge(one, other):
        if collective != last:
            found.add(*collective)
        last = collective
    return found


class Times:
    """The steps and collectives of one trace."""

    def __init__(self, path: str, order: int = 0) -> None:
        self.path, self.paths = path, [path]  # paths: also of the traces that were joined
        self.steps: Dict[int, Tuple[int, int]] = {}
        self.collectives: Sequence[Collective] = []
        self.notes: List[str] = []
        self.parts: Dict[int, Dict[str, int]] = {}  # from a summary, by step: the parts, and `launches`; without steps that explain leaves out
        self.device, self.from_summary = "cpu", False
        self.joined, self.summed = 1, False            # how many steps share one of `steps`; whether a collective stands for all of its key in a step
        self._step_ranges: Dict[int, Tuple[int, int]] = {}  # ranges with a step's name that are not on cprof's row of steps
        self.again: Set[int] = set()                   # steps that ran several times
        self._starts: List[Tuple[int, int, int]] = []  # (start, end, number) of the steps
        self._kinds = [Collectives() for _ in KINDS]
        self._order = order

    @classmethod
    def of_summary(cls, found: Summary, order: int) -> Optional["Times"]:
        """From a summary. None if that lacks the steps or collectives: the trace must be read."""
        steps, collectives = found.steps, found.collectives
        if steps is None or collectives is None:
            return None
        one = cls(found.path[:-len(SUFFIX)], order)
        info = {"distributedInfo": found.about}
        one.rank, one.world, one.host = rank_of(info, found.path, order), world_of(info), text_of(found.about.get("host_name") or "")
        one.base = one.base_late = base_of(found.about)
        starts = [one.base + start for start in steps["start"]]
        one.steps = {n: (start, start + total) for n, start, total, count in zip(steps["step"], starts, steps["total"], steps["count"])
                     if n is not None and count == steps["joined"]}  # the first and the last row of a window may have fewer
        one.joined, one.summed, one.from_summary = steps["joined"], collectives["truncated"], True
        one.collectives = Collectives.of_sums(collectives, starts) if one.summed else Collectives.of_summary(collectives, one.base)
        for device in steps["devices"][:1] if steps["devices"] else ():  # a rank has one
            one.device = device["device"]
            columns = [device[name] for name in ("launches", *PARTS)]
            one.parts = {n: dict(zip(("launches", *PARTS), row)) for n, left_out, *row in zip(steps["step"], steps["left_out"], *columns)
                         if n in one.steps and left_out is None}
        return one._indexed()

    def read(self, progress: bool = True) -> "Times":
        """Reads the file."""
        with open_trace(self.path, progress=progress) as trace:
            trace.past_large = True
            self.begin(trace)
            for block in trace.blocks():
                for event in block:
                    self.see(event)
            return self.finish(trace)

    def begin(self, trace: Trace) -> None:
        """Prepares for a trace that the caller reads: the caller passes each event to see()."""
        self.base = base_of(trace.of_one_rank().head())

    def see(self, event: Dict[str, Any]) -> None:
        """Takes an event of any kind."""
        if event.get("ph") == "X" and "dur" in event and "ts" in event:
            self._look(event)

    @staticmethod
    def watches(name: str, category: Any) -> bool:
        """Whether see() needs such events."""
        return kind_of(name, category) is not None or name.startswith(("ProfilerStep", RANGE_NAME))

    def finish(self, trace: Trace) -> "Times":
        """Ends the reading, after the last event."""
        self.rank = rank_of(trace.of_one_rank().metadata, self.path, self._order)
        self.world = world_of(trace.metadata)
        self.host = str(trace.metadata.get("host_name") or "")
        self.base_late = base_of(trace.metadata)
        self.notes = trace.remarks()
        late = self.base_late - self.base  # not 0 if the key comes after the events
        self.steps = {n: (start + late, end + late) for n, (start, end) in (self.steps or self._step_ranges).items()}
        self.collectives = next((kind for kind in self._kinds if len(kind)), self._kinds[0]).in_order(late)
        self._kinds.clear()
        return self._indexed()

    def _indexed(self) -> "Times":
        self._starts = sorted((start, end, n) for n, (start, end) in self.steps.items())
        return self

    def join(self, other: "Times") -> None:
        """Adds another window of the same rank. Of two attempts at a step it keeps the later one."""
        self.paths += other.paths
        for n, step in other.steps.items():
            before = self.steps.setdefault(n, step)
            if before != step:
                self.again.add(n)
                self.steps[n] = max(before, step)
        self.collectives = _together(self.collectives, other.collectives)
        self.parts.update(other.parts)
        self._indexed()

    def leave(self, steps: Set[int]) -> None:
        """Drops steps that count for another trace of the rank."""
        for n in steps:
            del self.steps[n]
        self._indexed()

    def coarsen(self, joined: int, summed: bool) -> None:
        """Makes the steps and collectives comparable with those of a rank whose summary has less. joined: a power of 2, as in the summary."""
        if joined > self.joined:
            rows: Dict[int, List[int]] = {}
            for n in sorted(self.steps):
                rows.setdefault(n // joined, []).append(n)
            rows = {n: row for n, row in rows.items() if len(row) * self.joined == joined}
            parts = {row[0]: [self.parts[n] for n in row] for row in rows.values() if all(n in self.parts for n in row)}
            self.steps = {row[0]: (min(self.steps[n][0] for n in row), max(self.steps[n][1] for n in row)) for row in rows.values()}
            self.parts = {n: {name: sum(one[name] for one in own) for name in own[0]} for n, own in parts.items()}
            self.joined = joined
            self._indexed()
        if summed and (not self.summed or joined > 1):
            self.collectives, self.summed = self._summed(), True

    def _summed(self) -> Collectives:
        """One collective for all of a key in a step."""
        sums: Dict[Tuple[int, Tuple], List[int]] = {}
        for one in self.collectives:
            step = self.step_at(one.start)
            if step is not None:
                found = sums.setdefault((step, one.key), [one.start, 0, 0])
                found[1] += max(0, one.end - max(one.start, found[0]))
                found[0] = max(found[0], one.end)
                found[2] += max(one.bytes, 0)
        made = Collectives()
        for (step, key), (end, covered, size) in sums.items():
            made.add(*_as_one(self.steps[step][0], end, covered), key, size)
        return made.in_order()

    def durations(self) -> Dict[Tuple, Tuple[List[int], Tuple[int, ...]]]:
        """By key: the durations of the collectives in turn, and the bytes of those in the first step."""
        found: Dict[Tuple, List[Collective]] = collections.defaultdict(list)
        for one in self.collectives:
            found[one.key].append(one)
        until = self._starts[0][1] if self._starts else 0
        return {key: ([one.end - one.start for one in ones], tuple(one.bytes for one in ones if one.start < until)) for key, ones in found.items()}

    def step_at(self, at: int) -> Optional[int]:
        """The step at a moment; None outside of steps."""
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
            args = event.get("args")
            self._kinds[kind].add(*self._times(event), _key(name, args), *(_whole(args, key) for key in ("bytes", "Seq")))
        elif name.startswith(("ProfilerStep", RANGE_NAME)):
            match = STEP.match(name)
            if match and event.get("cat") != "gpu_user_annotation":
                (self.steps if on_our_row(event) else self._step_ranges)[int(match[1])] = self._times(event)

    def _times(self, event: Dict[str, Any]) -> Tuple[int, int]:
        start = self.base + ns_of(event["ts"])
        return start, start + ns_of(event["dur"])


def kind_of(name: str, category: Any) -> Optional[int]:
    """The index in KINDS of an event's kind; None if it is no collective."""
    if name[:1] not in "ngrmuMP":
        return None
    for number, (wanted, pattern) in enumerate(KINDS):
        if (wanted is None or wanted == category) and pattern.match(name):
            return None if wanted is None and category in ("kernel", "gpu_user_annotation") else number
    return None


def _whole(args: Any, key: str) -> int:
    value = args.get(key) if type(args) is dict else None
    return value if type(value) is int and abs(value) < LIMIT else -1


def _key(name: str, args: Any) -> Tuple:
    """The key that the ranks' events of one collective share: its name, and the members and the size of its group if known."""
    if type(args) is not dict:
        return (name, "", 0)
    size = args.get("Group size")
    return (str(args.get("Collective name") or name), str(args.get("Process Group Ranks") or ""),
            size if type(size) is int else 0)


def ns_of(value: Any) -> int:
    """A trace's microseconds as whole nanoseconds; 0 for a value that is no time."""
    try:
        return _time(value * 1000 if type(value) is int else round(float(value) * 1000))
    except (TypeError, ValueError, OverflowError):
        return 0


def _time(ns: int) -> int:
    """Replaces a time of more than 63 bits by 0: the file is damaged. Perfetto has the same limit."""
    return ns if abs(ns) < 1 << 63 else 0


def base_of(metadata: Dict[str, Any]) -> int:
    """The zero of a trace's times in nanoseconds since the epoch; 0 if the times are absolute."""
    base = metadata.get("baseTimeNanoseconds")
    return _time(base) if type(base) is int else 0


def rank_of(metadata: Dict[str, Any], path: str, otherwise: int) -> int:
    """The trace's rank: from its metadata, else from the file name, else `otherwise`."""
    info = metadata.get("distributedInfo")
    rank = info.get("rank") if type(info) is dict else None
    if type(rank) is int and 0 <= rank < 1 << 17:
        return rank
    match = re.search(r"rank[_-]?(\d{1,5})(?!\d)", os.path.basename(path))
    return int(match[1]) if match else otherwise


def world_of(metadata: Dict[str, Any]) -> int:
    """The number of ranks of the run; 0 if the trace does not have it."""
    info = metadata.get("distributedInfo")
    world = info.get("world_size") if type(info) is dict else None
    return world if type(world) is int else 0


# ---- across ranks ----

def by_rank(times: List[Times]) -> List[Times]:
    """One Times for each rank and host, with all its windows joined."""
    found: Dict[Tuple[int, str], Times] = {}
    for one in times:
        first = found.setdefault((one.rank, one.host), one)
        if first is not one:
            first.join(one)
    return list(found.values())


def of_last_attempts(ranks: List[Times]) -> List[Times]:
    """Keeps each step of each rank once. A restarted job may run a rank on another host, where it repeats steps: the last attempt counts. Ranks
    with most steps come first, since their hosts share most collectives with others, and all clocks are relative to the first host."""
    last: Dict[Tuple[int, int], Times] = {}
    for one in ranks:
        for n, step in one.steps.items():
            before = last.setdefault((one.rank, n), one)
            if before is not one:
                late = last[one.rank, n] = one if step > before.steps[n] else before
                late.again.add(n)
    left = []
    for one in ranks:
        elsewhere = {n for n in one.steps if last[one.rank, n] is not one}
        one.leave(elsewhere)
        if one.steps or not elsewhere:
            left.append(one)
    moved = len({one.rank for one in left}) < len(left)
    return sorted(left, key=lambda one: -len(one.steps)) if moved else left


class Meeting(NamedTuple):
    """One collective as each rank saw it: {index of the trace: Collective}."""
    key: Tuple
    seen: Dict[int, Collective]

    @property
    def waits(self) -> bool:
        """Whether no rank leaves before all have entered."""
        return ALL.search(self.key[0]) is not None


Places = Dict[int, Any]  # {index of the trace: where in its collectives}


def meetings(ranks: List[Times]) -> Iterator[Meeting]:
    """Matches collectives: the n-th of a key on one rank is the n-th on another, if all ranks have the same number of them. Counts over
    the whole trace if all ranks recorded the same steps, else within each step, among the ranks that recorded it: with different steps
    the numbers could be equal by chance."""
    by_key: Dict[Tuple, Places] = collections.defaultdict(dict)
    for index, rank in enumerate(ranks):
        for at, one in enumerate(rank.collectives):
            _put(by_key[one.key], index, at)
    world, steps = world_in(ranks), [frozenset(rank.steps) for rank in ranks]
    parts = has_parts(by_key, world)
    for key, lists in by_key.items():
        if len(lists) < 2 or of_unknown_members(key, world, parts):
            continue
        if len({steps[index] for index in lists}) == 1 and _as_many(lists):
            yield from _matched(key, lists, ranks)
        else:
            yield from _by_step(key, lists, ranks, steps)


def _put(lists: Places, index: int, at: int) -> None:
    found = lists.get(index)
    if found is None:
        found = lists[index] = array("q")
    found.append(at)


def _as_many(lists: Places) -> bool:
    return len({len(found) for found in lists.values()}) == 1


def world_in(ranks: List[Times]) -> int:
    """The number of ranks of the run, as far as the traces show it."""
    return max([rank.world for rank in ranks] + [len({rank.rank for rank in ranks})])


def has_parts(keys: Iterable[Tuple], world: int) -> bool:
    """Whether some collectives have only a part of the ranks. Then a collective without a group size may be one of those, too."""
    return any(0 < size < world for _, _, size in keys)


def of_unknown_members(key: Tuple, world: int, parts: bool) -> bool:
    """Whether a collective may have only a part of the ranks, with unknown members. It cannot be matched between ranks."""
    _, members, size = key
    return not members and (0 < size < world or (parts and size == 0))


def _matched(key: Tuple, lists: Places, ranks: List[Times]) -> Iterator[Meeting]:
    for row in zip(*lists.values()):
        yield Meeting(key, {index: ranks[index].collectives[at] for index, at in zip(lists, row)})


def _by_step(key: Tuple, lists: Places, ranks: List[Times], recorded: List[FrozenSet[int]]) -> Iterator[Meeting]:
    steps: Dict[int, Places] = collections.defaultdict(dict)
    for index, found in lists.items():
        for at in found:
            step = ranks[index].step_at(ranks[index].collectives[at].start)
            if step is not None:
                _put(steps[step], index, at)
    for step, there in sorted(steps.items()):
        # Every rank of the step must have the collective: a rank without it may be the one that the others waited for.
        if len(there) > 1 and len(there) == sum(1 for index in lists if step in recorded[index]) and _as_many(there):
            yield from _matched(key, there, ranks)


class Clock(NamedTuple):
    """The correction of a host's clock to the first host's."""
    offset_ns: int            # to be added to its times
    error_ns: Optional[int]   # the remaining error by the collectives; None: not known
    source: str               # "wall clock" or "collective ends"
    collectives: int          # the number of collectives used


def clocks(ranks: List[Times]) -> Dict[str, Clock]:
    """The clock of each host. Ranks of one host share a clock, so they need no correction among them."""
    first, *others = list(dict.fromkeys(rank.host for rank in ranks))
    apart = {host: _Apart() for host in others}
    for meeting in meetings(ranks) if others else ():
        if meeting.waits:
            by_host: Dict[str, List[Collective]] = {}
            for index, one in meeting.seen.items():
                by_host.setdefault(ranks[index].host, []).append(one)
            here = by_host.pop(first, None)
            for host, there in by_host.items() if here else ():
                apart[host].add(here, there)
    return {first: Clock(0, 0, "wall clock", 0), **{host: one.clock() for host, one in apart.items()}}


def of_other_runs(ranks: List[Times], moved: Dict[str, Clock]) -> Iterator[str]:
    """A line if a step ended on one rank long before it began on another: the traces may be of different runs."""
    when: Dict[int, Tuple[int, int, int, int]] = {}  # step -> its first end and that rank; its last start and that rank
    for one in ranks:
        offset = moved[one.host].offset_ns
        for step, (start, end) in one.steps.items():
            over, first, began, last = when.get(step, (end + offset, one.rank, start + offset, one.rank))
            when[step] = (*min((over, first), (end + offset, one.rank)), *max((began, last), (start + offset, one.rank)))
    apart = {step: began - over for step, (over, _, began, _) in when.items() if began - over > APART_NS}
    if apart:
        step = max(apart, key=lambda step: apart[step])
        yield (f"step {step} began on rank {when[step][3]} {apart[step] / 1e9:,.1f} s after it was over on rank {when[step][1]}: are "
               "these traces of several runs, or of attempts at one? Then the comparison means nothing")


def _middle(values: List[int]) -> int:
    """The median in integers: a float cannot hold nanoseconds since the epoch."""
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2


class _Apart:
    """The difference between a host's clock and the first host's, by the ends of their common collectives. No rank leaves before all
    have entered: the last arrival on one side and the first departure on the other bound the difference in each direction, whatever
    the network's delays."""

    def __init__(self) -> None:
        self._differences: List[int] = []
        self._least, self._most = -1 << 62, 1 << 62

    def add(self, here: List[Collective], there: List[Collective]) -> None:
        """Adds a collective: its events on the first host and on this host."""
        self._differences.append(_middle([one.end for one in here]) - _middle([one.end for one in there]))
        self._least = max(self._least, max(one.start for one in here) - min(one.end for one in there))
        self._most = min(self._most, min(one.end for one in here) - max(one.start for one in there))

    def clock(self) -> Clock:
        """The correction of this host's clock."""
        differences, least, most = self._differences, self._least, self._most
        if not differences:
            return Clock(0, None, "wall clock", 0)
        offset = _middle(differences)
        if least <= most:
            offset = min(max(offset, least), most)
        apart = sorted(abs(difference - offset) for difference in differences)
        error = apart[min(len(apart) - 1, len(apart) * 9 // 10)]
        unmoved = sorted(abs(difference) for difference in differences)[min(len(apart) - 1, len(apart) * 9 // 10)]
        if abs(offset) <= error and least <= 0 <= most:  # the ends show no difference of the clocks
            return Clock(0, unmoved, "wall clock", len(differences))
        return Clock(offset, error, "collective ends", len(differences))
