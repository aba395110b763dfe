# SPDX-License-Identifier: Apache-2.0
"""What tensor memory is for, and who held it when, from the spans of a trace.

The rule for the categories is in the help of the command (memory_timeline.py).
"""

import bisect
import itertools
import re
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from cprof.tool.columns import Columns, forget
from cprof.tool.span_tree import surroundings
from cprof.tool.spans import AT_A_TIME, Kind, Spans, in_order

# In the order of torch/profiler/_memory_profiler.py, _CATEGORY_TO_INDEX; "unknown" is None there, and "kept" is not there.
CATEGORIES = ("parameter", "optimizer state", "input", "temporary", "activation", "gradient", "autograd detail", "unknown", "kept")
(_PARAMETER, OPTIMIZER_STATE, INPUT, TEMPORARY, ACTIVATION, GRADIENT, AUTOGRAD_DETAIL, UNKNOWN, KEPT) = range(9)
_PYTHON = re.compile(r"\(\d+\): ")
_LIBRARY = re.compile(r"^(.*/)?torch/|^<")  # frames of torch, and of code without a file
_MODULE = "nn.Module: "
_ENGINE = "autograd::engine::evaluate_function"


class Holder(NamedTuple):
    """Who holds memory."""
    operator: str
    module: str = ""   # where the trace tells
    line: str = ""     # of the program's own code, likewise


class Owner(NamedTuple):
    """Where memory was taken."""
    chain: str         # the innermost span, with what it runs in
    holder: Holder


BEFORE_TRACE = Owner("(taken before the trace)", Holder("(taken before the trace)"))


def torchs(category: int) -> int:
    """A category as torch numbers it."""
    return min(category, UNKNOWN)


PREEXISTING, CREATE, _INCREMENT_VERSION, DESTROY = range(1, 5)


class Allocation(NamedTuple):
    """A piece of memory: when it was taken and given back (None: never seen), its size, what for, and whose it was."""
    start: Optional[int]
    end: Optional[int]
    size: int
    category: int
    owner: Owner


class Place(NamedTuple):
    """Where in the program memory was taken or given back."""
    owner: Owner
    operator: Any          # outermost operator, as a number
    backward: bool
    optimizer: Any         # likewise
    loader: bool


NOTHING, BEFORE = -1, -2  # in place of the event that took what is given back: nothing is, or what was there before
_BACKWARD, _LOADER = 1, 2
NOWHERE = Place(Owner("(no operator)", Holder("(no operator)")), None, False, None, False)


class Timeline:
    """The memory of one device."""

    def __init__(self, events: "_Events", number: int, device: str) -> None:
        self.device = device
        self.before = 0        # bytes that were there before the trace began
        self.begin = self.end = 0
        self._events, self._number = events, number

    def allocations(self) -> Iterator[Allocation]:
        """In order of time."""
        events = self._events
        for i in events.of(self._number):
            if events.ends[i] == BEFORE:
                yield Allocation(None, events.time[i], -events.size(i), UNKNOWN, BEFORE_TRACE)
            elif events.size(i) > 0:
                end = events.ended_by[i]
                yield Allocation(events.time[i], events.time[end] if end >= 0 else None, events.size(i), events.category[i],
                                 events.owners[events.owner[i]])

    def actions(self) -> Iterator[Tuple[int, int, int, int]]:
        """(time, action, bytes, category) in order of time; what was there before has the time -1."""
        events = self._events
        if self.before:
            yield -1, PREEXISTING, self.before, UNKNOWN
        for i in events.of(self._number):
            size, ended = events.size(i), events.ends[i]
            if ended >= 0:
                yield events.time[i], DESTROY, -events.size(ended), events.category[ended]
            elif ended == BEFORE:
                yield events.time[i], DESTROY, size, UNKNOWN
            if size > 0:
                yield events.time[i], CREATE, size, events.category[i]

    def coalesced(self, base: int) -> Iterator[Tuple[int, List[int]]]:
        """torch's times and sizes: microseconds, and a 0 in front of the bytes of each category."""
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
    """The [memory] events in order of time, as columns, with what becomes of each."""

    def __init__(self, spans: Spans) -> None:
        self.time = spans.memory_time
        self.device, self.address, self.total = spans.memory_more[1:]
        self._bytes = spans.memory_bytes, spans.memory_device
        self._columns = columns = Columns()
        self.owners: List[Owner] = [NOWHERE.owner]
        self._numbers = {NOWHERE.owner: 0}
        fresh = [columns.new(typecode) for typecode in "iqqbiib"]
        for at in range(0, len(self.time), AT_A_TIME):
            n = min(AT_A_TIME, len(self.time) - at)
            for one, value in zip(fresh, (0, -1, -1, 0, -1, NOTHING, UNKNOWN)):
                one.extend([value] * n)
            columns.trim()
        columns.finish()
        # owner; outermost operator and optimizer: a number, or -1; _BACKWARD and _LOADER; the event that gave it back, or -1; the event
        # whose memory this one gives back, or NOTHING or BEFORE; what for
        self.owner, self._operator, self._optimizer, self._flags, self.ended_by, self.ends, self.category = map(columns.whole, fresh)
        self._find_places(spans)

    def size(self, i: int) -> int:
        """Bytes taken, or given back."""
        return self._bytes[0][i] + self._bytes[1][i]

    def of(self, device: int) -> Iterator[int]:
        """Those of a device."""
        for at in range(0, len(self.time), AT_A_TIME):
            for i, of in enumerate(self.device[at:at + AT_A_TIME], at):
                if of == device:
                    yield i
            forget()

    def place(self, i: int) -> Place:
        """Where it happened."""
        flags = self._flags[i]
        return Place(self.owners[self.owner[i]], _or_none(self._operator[i]), bool(flags & _BACKWARD), _or_none(self._optimizer[i]),
                     bool(flags & _LOADER))

    def _find_places(self, spans: Spans) -> None:
        threads, places = spans.memory_more[0], _Places(spans)
        for thread, indices in itertools.groupby(in_order(len(threads), threads.__getitem__, spans.progress), threads.__getitem__):
            place = spans.memory_threads[thread]
            row = spans.rows.get(place)
            if row is None:
                continue
            here, there = itertools.tee(indices)
            for n, (i, opened) in enumerate(zip(here, surroundings(spans, row, (self.time[at] for at in there)))):
                found = places.of(thread << 40, row, opened)
                number = self._numbers.setdefault(found.owner, len(self.owners))
                if number == len(self.owners):
                    self.owners.append(found.owner)
                self.owner[i] = number
                self._operator[i] = -1 if found.operator is None else found.operator
                self._optimizer[i] = -1 if found.optimizer is None else found.optimizer
                self._flags[i] = _BACKWARD * found.backward + _LOADER * found.loader
                if n % AT_A_TIME == 0:
                    forget()


def _or_none(number: int) -> Optional[int]:
    return None if number < 0 else number


def _what(kind: Kind) -> str:
    """What a span of this kind tells of the place."""
    if kind.name.startswith("ProfilerStep"):
        return "step"
    if kind.category == "python_function":
        return "function"
    starts = (("Optimizer.step#", "optimizer"), ("enumerate(DataLoader)#", "loader"), (_ENGINE, "backward"))
    return next((what for start, what in starts if kind.name.startswith(start)), "")


class _Places:
    """Where in the program spans are."""

    def __init__(self, spans: Spans) -> None:
        self._spans = spans
        self._lines: Dict[int, str] = {}  # by number of the stack
        self._kinds = [(_what(kind), kind.name, kind.group if type(kind.group) is str else "", kind.category == "cpu_op") for kind in spans.kinds]

    def of(self, thread: int, row: Any, opened: Tuple[int, ...]) -> Place:
        """In these spans of a thread, outermost first."""
        names: List[str] = []
        operator = optimizer = None
        backward = loader = False
        shown = module = line = function = ""
        modules: List[str] = []
        for index in opened:
            what, name, group, is_operator = self._kinds[row.kind[index]]
            module = group or module
            if row.stack and row.stack[index] >= 0 and (not line or is_operator):
                line = self._line(row.stack[index]) or line
            if what == "step":
                continue
            if what == "function":
                modules += [name[len(_MODULE):]] if name.startswith(_MODULE) else []
                function = name if _is_own(name) else function
                continue
            if what == "optimizer":
                optimizer = thread + index
            elif what == "loader":
                loader = True
            elif what == "backward":
                backward = True
            elif operator is None and is_operator:
                operator, shown = thread + index, name
            names.append(name)
        if not names:
            return NOWHERE if not function else NOWHERE._replace(owner=Owner(NOWHERE.owner.chain, Holder(
                NOWHERE.owner.holder.operator, ".".join(modules), function)))
        holder = Holder(shown or names[-1], module or ".".join(modules), line or function)
        return Place(Owner(" > ".join(reversed(names[-3:])), holder), operator, backward, optimizer, loader)

    def _line(self, stack: int) -> str:
        found = self._lines.get(stack)
        if found is None:
            frames = self._spans.stacks[stack].split(";")
            found = self._lines[stack] = next(filter(_is_own, frames), "")
        return found


def _is_own(frame: str) -> bool:
    """Whether a frame is one of the program's own Python functions."""
    return _PYTHON.search(frame) is not None and not _LIBRARY.search(frame)


def _category(taken: Place, given: Optional[Place], same_step: bool) -> int:
    """same_step: of memory that is not given back, whether it was taken in the last step; without steps all is in one."""
    if taken.loader:
        return INPUT
    if given is not None and taken.operator is not None and taken.operator == given.operator:
        return TEMPORARY
    if taken.optimizer is not None:
        return TEMPORARY if given is not None and given.optimizer == taken.optimizer else OPTIMIZER_STATE
    if taken.backward:
        return AUTOGRAD_DETAIL if given is not None and given.backward else GRADIENT
    if taken.operator is None:
        return UNKNOWN
    if given is None:
        return UNKNOWN if same_step else KEPT
    return ACTIVATION if given.backward else TEMPORARY if same_step else KEPT


def timelines(spans: Spans) -> Dict[str, Timeline]:
    """The memory of each device."""
    events = _Events(spans)
    found = {name: Timeline(events, number, name) for number, name in enumerate(spans.memory_devices)}
    of_number = list(found.values())
    live: Dict[Tuple[int, int], int] = {}     # by device and address: where it was taken
    known_before = [0] * len(of_number)
    starts = [start for start, _, _ in spans.steps]
    begun = [False] * len(of_number)

    def close(key: Tuple[int, int], by: int, given: Optional[Place]) -> None:
        taken = live.pop(key)
        same_step = bisect.bisect(starts, events.time[taken]) == bisect.bisect(starts, events.time[by])
        events.ended_by[taken], events.ends[by] = by, taken
        events.category[taken] = _category(events.place(taken), given, same_step)

    for i, number in enumerate(events.device):
        time, size, line = events.time[i], events.size(i), of_number[number]
        if not begun[number]:
            begun[number] = True
            line.begin, line.before = time, max(0, events.total[i] - size)
        line.end = time
        key = (number, events.address[i])
        if size > 0:
            if key in live:  # its release was not recorded
                close(key, i, None)
            live[key] = i
        elif key in live:
            close(key, i, events.place(i))
        elif size < 0:
            events.ends[i] = BEFORE
            known_before[number] -= size
        if i % AT_A_TIME == 0:
            forget()
    for taken in live.values():
        events.category[taken] = _category(events.place(taken), None, bisect.bisect(starts, events.time[taken]) >= len(starts))
    keep = {events.owner[taken] for taken in live.values() if events.category[taken] == KEPT}
    for taken in live.values():
        if events.category[taken] == UNKNOWN and events.owner[taken] in keep:
            events.category[taken] = KEPT
    for line, size in zip(of_number, known_before):
        line.before = max(line.before, size)
    return found
