# SPDX-License-Identifier: Apache-2.0
"""The category and the holder of each piece of tensor memory, from the spans of a trace.

The help of the command (memory_timeline.py) has the rules for the categories.
"""

import bisect
import itertools
import re
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Tuple

from cprof.tool.columns import Columns, forget
from cprof.tool.spans import AT_A_TIME, LIMIT, Kind, Spans, in_order, rows_in_time

# In the order of torch/profiler/_memory_profiler.py, _CATEGORY_TO_INDEX; "unknown" is None there, and "kept" is not there.
CATEGORIES = ("parameter", "optimizer state", "input", "temporary", "activation", "gradient", "autograd detail", "unknown", "kept")
(_PARAMETER, OPTIMIZER_STATE, INPUT, TEMPORARY, ACTIVATION, GRADIENT, AUTOGRAD_DETAIL, UNKNOWN, KEPT) = range(9)
_PYTHON = re.compile(r"\(\d+\): ")
_LIBRARY = re.compile(r"^(.*/)?torch/|^<")  # frames of torch, and of code without a file
_MODULE = "nn.Module: "
_ENGINE = "autograd::engine::evaluate_function"


class Holder(NamedTuple):
    """The holder of memory."""
    operator: str
    module: str = ""   # if the trace has it
    line: str = ""     # a line of the program's own code, if the trace has it


class Owner(NamedTuple):
    """The place where memory was taken."""
    chain: str         # the innermost span, with the spans around it
    holder: Holder


BEFORE_TRACE = Owner("(taken before the trace)", Holder("(taken before the trace)"))


def torchs(category: int) -> int:
    """A category as torch numbers it."""
    return min(category, UNKNOWN)


PREEXISTING, CREATE, _INCREMENT_VERSION, DESTROY = range(1, 5)


class Allocation(NamedTuple):
    """A piece of memory: the times of its allocation and release (None: not in the trace), its size, its category and its owner."""
    start: Optional[int]
    end: Optional[int]
    size: int
    category: int
    owner: Owner


NOTHING, BEFORE = -1, -2  # instead of the index of the allocation that an event releases: none, or memory from before the trace
_BACKWARD, _LOADER = 1, 2
_NOWHERE = Owner("(no operator)", Holder("(no operator)"))
PLACES_MOST = 1 << 16  # entries of a cache


class Timeline:
    """The memory of one device."""

    def __init__(self, events: "_Events", number: int, device: str) -> None:
        self.device = device
        self.before = 0        # bytes that were there before the trace began
        self.begin = self.end = 0
        self.peak = self.peak_at = self.left = 0  # the most bytes, their time, and the bytes at the end
        self._events, self._number = events, number

    def allocations(self) -> Iterator[Allocation]:
        """The allocations in order of time."""
        events = self._events
        time, ends, ended_by, category, owner, owners = events.time, events.ends, events.ended_by, events.category, events.owner, events.owners
        for i, size in events.of(self._number):
            if ends[i] == BEFORE:
                yield Allocation(None, time[i], -size, UNKNOWN, BEFORE_TRACE)
            elif size > 0:
                end = ended_by[i]
                yield Allocation(time[i], time[end] if end >= 0 else None, size, category[i], owners[owner[i]])

    def actions(self) -> Iterator[Tuple[int, int, int, int]]:
        """(time, action, bytes, category) in order of time; memory from before the trace has the time -1."""
        events = self._events
        if self.before:
            yield -1, PREEXISTING, self.before, UNKNOWN
        for i, size in events.of(self._number):
            ended = events.ends[i]
            if ended >= 0:
                yield events.time[i], DESTROY, -events.size(ended), events.category[ended]
            elif ended == BEFORE:
                yield events.time[i], DESTROY, size, UNKNOWN
            if size > 0:
                yield events.time[i], CREATE, size, events.category[i]

    def coalesced(self, base: int) -> Iterator[Tuple[int, List[int]]]:
        """torch's times and sizes: microseconds, and a list of a 0 and the bytes of each category."""
        first = next((action[0] for action in self.actions() if action[0] >= 0), None)
        now, last = [0] * (torchs(KEPT) + 2), None
        for time, _, size, category in self.actions():
            us = -1 if time < 0 else (base + time) // 1000
            if last is not None and us != last:
                yield _not_before(last, first, base), list(now)
            last = us
            now[torchs(category) + 1] += size
        if last is not None:
            yield _not_before(last, first, base), now


def _not_before(us: int, first: Optional[int], base: int) -> int:
    return us if us >= 0 else 0 if first is None else (base + first) // 1000


class _Events:
    """The [memory] events in order of time, as columns, with their places and categories."""

    def __init__(self, spans: Spans) -> None:
        self.time = spans.memory_time
        self.device, self.address, self.total = spans.memory_more[1:]
        self.sizes = spans.memory_bytes, spans.memory_device
        self._columns = columns = Columns()
        self.owners: List[Owner] = [_NOWHERE]
        self._numbers = {_NOWHERE: 0}
        fresh = [columns.new(typecode) for typecode in "iqqbiib"]
        for at in range(0, len(self.time), AT_A_TIME):
            n = min(AT_A_TIME, len(self.time) - at)
            for one, value in zip(fresh, (0, -1, -1, 0, -1, NOTHING, UNKNOWN)):
                one.extend([value] * n)
            columns.trim()
        columns.finish()
        # The columns: owner; outermost operator, optimizer (numbers, or -1); _BACKWARD and _LOADER; the event of the release, or -1; the
        # event whose memory this one releases, or NOTHING or BEFORE; category.
        self.owner, self._operator, self._optimizer, self._flags, self.ended_by, self.ends, self.category = map(columns.whole, fresh)
        self._find_places(spans)

    def size(self, i: int) -> int:
        """Bytes taken (positive) or released (negative)."""
        return self.sizes[0][i] + self.sizes[1][i]

    def of(self, device: int) -> Iterator[Tuple[int, int]]:
        """(index, size) of the events of a device."""
        for at in range(0, len(self.time), AT_A_TIME):
            part = slice(at, at + AT_A_TIME)
            for i, (of, size, other) in enumerate(zip(self.device[part], self.sizes[0][part], self.sizes[1][part]), at):
                if of == device:
                    yield i, size + other
            forget()

    def categorise(self, i: int, given: int, same_step: bool) -> None:
        """Sets the category of an allocation. given: the event of its release, or -1. same_step: whether it is released in the same step, or,
        without a release, was taken in the last step. Without steps, all events are in one step."""
        self.category[i] = self._category(i, given, same_step)

    def _category(self, i: int, given: int, same_step: bool) -> int:
        operator, optimizer, flags = self._operator[i], self._optimizer[i], self._flags[i]
        if flags & _LOADER:
            return INPUT
        if given >= 0 and operator >= 0 and operator == self._operator[given]:
            return TEMPORARY
        if optimizer >= 0:
            return TEMPORARY if given >= 0 and self._optimizer[given] == optimizer else OPTIMIZER_STATE
        backward = given >= 0 and self._flags[given] & _BACKWARD
        if flags & _BACKWARD:
            return AUTOGRAD_DETAIL if backward else GRADIENT
        if operator < 0:
            return UNKNOWN
        if given < 0:
            return UNKNOWN if same_step else KEPT
        return ACTIVATION if backward else TEMPORARY if same_step else KEPT

    def _find_places(self, spans: Spans) -> None:
        threads, places = spans.memory_more[0], _Places(spans)
        for thread, indices in itertools.groupby(in_order(len(threads), threads.__getitem__, spans.progress), threads.__getitem__):
            row = spans.rows.get(spans.memory_threads[thread])
            if row is None:
                continue
            here, there = itertools.tee(indices)
            first = thread << 40
            for n, (i, (place, operator, optimizer)) in enumerate(zip(here, places.follow(row, (self.time[at] for at in there)))):
                if place.owner_number < 0:
                    owner = places.owner(place)
                    place.owner_number = self._numbers.setdefault(owner, len(self.owners))
                    if place.owner_number == len(self.owners):
                        self.owners.append(owner)
                self.owner[i] = place.owner_number
                self._operator[i] = first + operator if operator >= 0 else -1
                self._optimizer[i] = first + optimizer if optimizer >= 0 else -1
                self._flags[i] = place.flags
                if n % AT_A_TIME == 0:
                    forget()
                    if spans.progress:
                        spans.progress.add(AT_A_TIME)


def _what(kind: Kind) -> str:
    """The role of a kind of span for a place."""
    if kind.name.startswith("ProfilerStep"):
        return "step"
    if kind.category == "python_function":
        return "function"
    starts = (("Optimizer.step#", "optimizer"), ("enumerate(DataLoader)#", "loader"), (_ENGINE, "backward"))
    return next((what for start, what in starts if kind.name.startswith(start)), "")


class _Place:
    """A place in the program, from the spans around it."""

    __slots__ = ("names", "shown", "module", "line", "function", "modules", "flags", "owner_number")

    def __init__(self, names: Tuple[str, ...] = (), shown: Optional[str] = None, module: str = "", line: str = "", function: str = "",
                 modules: Tuple[str, ...] = (), flags: int = 0) -> None:
        self.names = names      # the innermost spans
        self.shown = shown      # the outermost operator
        self.module, self.line, self.function, self.modules, self.flags = module, line, function, modules, flags
        self.owner_number = -1  # -1: not known yet

    @property
    def key(self) -> Tuple[Any, ...]:
        """The identity of the place."""
        return self.names, self.shown, self.module, self.line, self.function, self.modules, self.flags


_Open = Tuple[_Place, int, int]  # a place, its outermost operator, its optimizer: numbers of spans in order of time, or -1


class _Places:
    """Finds the places of events."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans
        self._lines: Dict[int, str] = {}  # by number of the stack
        self._kinds = [(_what(kind), kind.name, kind.group if type(kind.group) is str else "", kind.category == "cpu_op") for kind in spans.kinds]
        self._top = _Place()
        self._known: Dict[Tuple[Any, ...], _Place] = {self._top.key: self._top}
        self._inner: Dict[Tuple[int, int, int], _Place] = {}  # by id of the place around it, kind and stack; _known keeps the places alive

    def follow(self, row: Any, times: Iterable[int]) -> Iterator[_Open]:
        """The place of a thread at each of the ascending times."""
        has_stacks = len(row.stack) > 0
        order = enumerate(rows_in_time(row.start, row.end, row.start, row.end, row.kind, row.stack if has_stacks else row.kind))
        nothing = (LIMIT, 0, 0, 0)
        number, (begins, end, kind, stack) = next(order, (0, nothing))
        opened: List[Tuple[int, int, int, int]] = []  # end, number, kind and stack of the open spans
        known: List[_Open] = []  # places of the outermost open spans
        nowhere = (self._top, -1, -1)
        for time in times:
            while begins <= time:
                if end >= time:
                    while opened and opened[-1][0] < end:
                        opened.pop()
                    opened.append((end, number, kind, stack if has_stacks else -1))
                    del known[len(opened) - 1:]
                number, (begins, end, kind, stack) = next(order, (0, nothing))
            while opened and opened[-1][0] < time:
                opened.pop()
            del known[len(opened):]
            for _, *span in opened[len(known):]:
                known.append(self._in(*span, *(known[-1] if known else nowhere)))
            yield known[-1] if known else nowhere

    def _in(self, number: int, kind: int, stack: int, around: _Place, operator: int, optimizer: int) -> _Open:
        """The place inside a span."""
        what, _, _, is_operator = self._kinds[kind]
        place = self._inner.get((id(around), kind, stack))
        if place is None:
            if len(self._inner) > PLACES_MOST:
                self._inner.clear()
            place = self._inner[id(around), kind, stack] = self._new(around, kind, stack)
        if what == "optimizer":
            optimizer = number
        elif not what and operator < 0 and is_operator:
            operator = number
        return place, operator, optimizer

    def _new(self, around: _Place, kind: int, stack: int) -> _Place:
        what, name, group, is_operator = self._kinds[kind]
        line, shown, flags = around.line, around.shown, around.flags
        if stack >= 0 and (not line or is_operator):
            line = self._line(stack) or line
        modules, function, names = around.modules, around.function, around.names
        if what == "function":
            modules += (name[len(_MODULE):],) if name.startswith(_MODULE) else ()
            function = name if _is_own(name) else function
        elif what != "step":
            flags |= _LOADER * (what == "loader") | _BACKWARD * (what == "backward")
            if not what and shown is None and is_operator:
                shown = name
            names = (names + (name,))[-3:]
        place = _Place(names, shown, group or around.module, line, function, modules, flags)
        return self._known.setdefault(place.key, place)

    @staticmethod
    def owner(place: _Place) -> Owner:
        """The owner of memory taken at a place."""
        modules = ".".join(place.modules)
        if not place.names:
            return _NOWHERE if not place.function else Owner(_NOWHERE.chain, Holder(_NOWHERE.holder.operator, modules, place.function))
        return Owner(" > ".join(reversed(place.names)), Holder(place.shown or place.names[-1], place.module or modules, place.line or place.function))

    def _line(self, stack: int) -> str:
        found = self._lines.get(stack)
        if found is None:
            frames = self._spans.stacks[stack].split(";")
            found = self._lines[stack] = next(filter(_is_own, frames), "")
        return found


def _is_own(frame: str) -> bool:
    """Whether a frame is one of the program's own Python functions."""
    return _PYTHON.search(frame) is not None and not _LIBRARY.search(frame)


def timelines(spans: Spans) -> Dict[str, Timeline]:
    """The memory of each device."""
    events = _Events(spans)
    found = {name: Timeline(events, number, name) for number, name in enumerate(spans.memory_devices)}
    of_number = list(found.values())
    live: Dict[Tuple[int, int], int] = {}     # by device and address: the event that took it
    known_before = [0] * len(of_number)
    starts = [start for start, _, _ in spans.steps]
    begun = [False] * len(of_number)

    def close(key: Tuple[int, int], by: int, given: int) -> None:
        taken = live.pop(key)
        of_number[key[0]].left -= size_here[taken] + size_there[taken]
        same_step = bisect.bisect(starts, times[taken]) == bisect.bisect(starts, times[by])
        events.ended_by[taken], events.ends[by] = by, taken
        events.categorise(taken, given, same_step)

    times, address, (size_here, size_there) = events.time, events.address, events.sizes
    for i, number in enumerate(events.device):
        time, size, line = times[i], size_here[i] + size_there[i], of_number[number]
        if not begun[number]:
            begun[number] = True
            line.begin = line.peak_at = time
            line.before = max(0, events.total[i] - size)
        line.end = time
        key = (number, address[i])
        if size > 0:
            if key in live:  # its release was not recorded
                close(key, i, -1)
            live[key] = i
            line.left += size
            if line.left > line.peak:
                line.peak, line.peak_at = line.left, time
        elif key in live:
            close(key, i, i)
        elif size < 0:
            events.ends[i] = BEFORE
            known_before[number] -= size
            line.left += size
        if i % AT_A_TIME == 0:
            forget()
    for taken in live.values():
        events.categorise(taken, -1, bisect.bisect(starts, times[taken]) >= len(starts))
    keep = {events.owner[taken] for taken in live.values() if events.category[taken] == KEPT}
    for taken in live.values():
        if events.category[taken] == UNKNOWN and events.owner[taken] in keep:
            events.category[taken] = KEPT
    for line, size in zip(of_number, known_before):
        line.before = max(line.before, size)
        line.peak += line.before
        line.left += line.before
    return found
