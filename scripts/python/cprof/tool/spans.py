# SPDX-License-Identifier: Apache-2.0
"""The spans of a trace in a form small enough for millions of them, and who is whose parent.

read_spans() takes one pass over a trace. walk() then goes through one thread's spans and yields each when its children are
known, with the sums that torch.profiler's tables are made of (torch/autograd/profiler_util.py: EventList._build_tree and
FunctionEvent): a span's parent is the innermost one of its thread that holds it whole; a span that has one child only, of
its own name, takes that child's place; ranges of transfers are asynchronous, with neither parent nor children; a kernel
belongs to the span whose External id it carries; memory belongs to all spans in whose time it was taken or given back, on
whatever thread. Other than there, the copy of a range on the GPU
(gpu_user_annotation) is not added to the kernels that it stands for.

Spans are kept in columns (columns.py), some 30 bytes each, which go to a temporary file when they are many. Times are nanoseconds.
"""

import bisect
import heapq
import itertools
import re
from array import array
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

from cprof.tool.categories import CALLS, NO_WORK, OPERATORS, WORK, runs_on_device
from cprof.tool.columns import Columns, forget
from cprof.tool.fast import REFUSED_MOST, any_events, as_event, sound_events
from cprof.tool.flops import TORCH_FLOPS
from cprof.tool.progress import Progress
from cprof.tool.reader import Trace
from cprof.tool.steps import FOREIGN_DIGITS, NAMES, RANGES, STEPS, is_step_name, on_our_row

DEEPEST_STACK = 2048
FRAME = "\0sf "                           # in front of the number of a frame whose stack is not known yet
MEMORY = ("[memory]", "[OutOfMemory]")
HIDDEN = frozenset((*MEMORY, "profiler::_record_function_enter", "profiler::_record_function_enter_new",
                    "profiler::_record_function_exit", "aten::is_leaf", "aten::output_nr", "aten::_version",
                    "PyTorch Profiler (0)"))
# c10d opens these on one thread and may end them on another: torch takes them for asynchronous. NCCL's, too, which only tell of the launch.
ASYNC_RANGES = ("gloo:", "mpi:", "ucc:", "nccl:")
CPU_TYPES = frozenset((0, 2, 5))          # c10::DeviceType: CPU, MKLDNN, IDEEP
DEVICE_TYPES = frozenset((1, 6, 12, 20))  # CUDA, HIP, XPU, PrivateUse1
SORTED_AT_ONCE = 1 << 16
MARKS = 1 << 20
AT_A_TIME = 1 << 14                       # spans between looks at memory and clock
WATCHED = frozenset((*CALLS, *WORK, "collective_comm"))
# Whose rows are told by name, time and External id; of calls by their own row too.
_PLAIN = frozenset(OPERATORS[:3] + ("cuda_runtime", "cuda_driver", "library_call"))
LIMIT = 1 << 62                           # no time of a trace is so far away

def to_ns(number: Any) -> Optional[int]:
    """Nanoseconds of a number of microseconds; None when it is no such number."""
    if type(number) is float and -4e15 < number < 4e15:
        whole = int(number)
        # Apart: up to 2^43 us, which Kineto's times stay below, a double tells neighbouring nanoseconds apart, but
        # a product would be rounded once more.
        return whole * 1000 + round((number - whole) * 1000)
    if type(number) is int and abs(number) < LIMIT // 1000:
        return number * 1000
    return None


_step_name = re.compile(f"(?:{'|'.join(map(re.escape, NAMES))})([0-9]{{1,18}})")


def step_number(name: str) -> Optional[int]:
    """N of a step's row, `ProfilerStep#N`, or of torch.profiler's range; None when it is no such name."""
    match = _step_name.fullmatch(name)
    return int(match[1]) if match else None


def int_or_none(value: Any) -> Optional[int]:
    """An integer that fits into 63 bits, also one in quotes; else None."""
    if type(value) is not int:
        try:
            value = int(value)
        except (TypeError, ValueError, OverflowError):
            return None
    return value if -LIMIT < value < LIMIT else None


def _within(flops: int) -> int:
    """What a column takes."""
    return min(max(flops, 0), LIMIT)


class Kind(NamedTuple):
    """What spans are told apart by: torch's key_averages() adds up those of one kind."""
    name: str
    device: bool          # ran on a device
    annotation: bool      # a range of the program's
    category: str
    shapes: str = ""
    group: Any = None     # what a table by something else than the name asks for

    @property
    def is_async(self) -> bool:
        """It is a transfer's range: in no tree, and its time is nobody's."""
        return self.category == "user_annotation" and self.name.startswith(ASYNC_RANGES)


class Row:
    """The spans of one thread in columns of one length, in the order of the file."""

    COLUMNS = ("start", "end", "kind", "external", "stack", "sequence", "forward", "flops", "shaped", "shaped_flops")
    __slots__ = COLUMNS

    def __init__(self, columns: Columns) -> None:
        self.start, self.end = columns.new("q"), columns.new("q")
        self.kind = columns.new("i")
        self.external = columns.new("q")     # External id; 0 for none
        # These are empty unless stacks are asked for.
        self.stack = columns.new("i")        # number in Spans.stacks; -1 for none
        self.sequence = columns.new("q")     # Sequence number; -1 for none
        self.forward = columns.new("b")      # 1: of the backward pass, it tells the thread of the forward one
        self.flops = columns.new("q")        # -1 for none; below: -2 - FLOPs that the trace does not tell
        # Empty if they are: the few spans whose FLOPs the trace does not tell, ascending, and what they are.
        self.shaped, self.shaped_flops = columns.new("q"), columns.new("q")

    def flops_of(self, index: int) -> int:
        """FLOPs of a span that the trace does not tell. Without stacks."""
        at = bisect.bisect_left(self.shaped, index) if self.shaped else 0
        return self.shaped_flops[at] if at < len(self.shaped) and self.shaped[at] == index else 0


class Functions:
    """Python functions that run in each other: each way in which they do has a number; 0 is none."""

    def __init__(self) -> None:
        self._numbers: Dict[Tuple[int, int], int] = {}
        self._entries: List[Tuple[int, int]] = [(-1, 0)]

    def number(self, kind: int, outer: int) -> int:
        """A function of this kind that runs in others."""
        key = (kind, outer)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._entries)
            self._entries.append(key)
        return number

    def kinds(self, number: int) -> Iterator[int]:
        """Their kinds, innermost first."""
        while number:
            kind, number = self._entries[number]
            yield kind


class Spans:
    """What read_spans() found."""

    def __init__(self) -> None:
        self.kinds: List[Kind] = []
        self.columns = Columns()
        self.progress: Optional[Progress] = None  # of walk()
        self.rows: Dict[Any, Row] = {}
        self.operator_rows: Set[Any] = set()  # places of those that hold more than calls
        self.stacks: List[str] = []          # as in `Call stack`: innermost first, ";" behind each
        self.functions = Functions()         # that walk() came through
        # device spans: sums by kind, and work by External id
        self.device_count: Dict[int, int] = {}
        self.device_time: Dict[int, int] = {}
        self.work_external, self.work_time = self.columns.new("q"), self.columns.new("q")
        self.work_marks = bytearray(MARKS)   # by remainder of the External ids: whether there may be work
        self.work_kind, self.work_start, self.work_duration = (self.columns.new(typecode) for typecode in "iqq")  # where asked for
        self.loose_time: Dict[int, int] = {}  # async ranges: by kind
        self.loose_count: Dict[int, int] = {}
        self.first: Dict[int, Tuple[int, int]] = {}  # by kind, for those: start and -end of the first
        self.below: Dict[Tuple[int, int], List[int]] = {}  # kind of an operator and of a library's call right in it: calls, self, total, on the GPU
        self.flops: Dict[int, int] = {}      # by kind, where the trace tells them
        # [memory] events, and the threads they were on
        self.memory_time, self.memory_bytes, self.memory_device = (self.columns.new("q") for _ in range(3))
        # where asked for: number of the thread and of the device, address, total behind it
        self.memory_more: List[Any] = [self.columns.new(typecode) for typecode in "iiqq"]
        self.memory_threads: List[Any] = []
        self.memory_devices: List[str] = []
        self.steps: List[Tuple[int, int, str]] = []  # start, end, name
        self.stepping: Any = None            # place of the thread that the first step names
        self.bad = 0                         # spans without a usable time
        self.has_shapes = self.has_stacks = self.has_modules = self.has_memory = self.has_work = False
        self.by_call = True                  # External ids link no operators: they repeat the correlation, as old ones do
        self.device_name = "CUDA"
        self.metadata: Dict[str, Any] = {}
        self._numbers: Dict[Kind, int] = {}

    def number_of(self, kind: Kind) -> int:
        """The kind's number."""
        number = self._numbers.get(kind)
        if number is None:
            number = self._numbers[kind] = len(self.kinds)
            self.kinds.append(kind)
        return number

    def row(self, place: Any) -> Row:
        """The row of a thread, new where there was none."""
        row = self.rows.get(place)
        if row is None:
            row = self.rows[place] = Row(self.columns)
        return row

    def read_again(self) -> None:
        """All rows in memory or in another file, so that they can be appended to once more."""
        whole, self.columns = self.columns, Columns()
        whole.finish()
        for row in self.rows.values():
            for name in Row.COLUMNS:
                setattr(row, name, _copied(whole.whole(getattr(row, name)), self.columns))
        for name in ("work_external", "work_time", "memory_time", "memory_bytes", "memory_device", "work_kind", "work_start", "work_duration"):
            setattr(self, name, _copied(whole.whole(getattr(self, name)), self.columns))
        self.memory_more = [_copied(whole.whole(one), self.columns) for one in self.memory_more]

    def finish(self, with_progress: bool) -> None:
        """Puts in order what is searched later."""
        columns = self.columns
        columns.finish()
        if with_progress:  # each is sorted, then looked at
            sizes = [len(columns.whole(one)) for one in (self.memory_time, self.work_time, *(row.start for row in self.rows.values()))]
            self.progress = Progress("adding up", 2 * sum(sizes))
        for row in self.rows.values():
            for name in Row.COLUMNS:
                setattr(row, name, columns.whole(getattr(row, name)))
        self._sort_memory(*(columns.whole(one) for one in (self.memory_time, self.memory_bytes, self.memory_device)))
        self.work_external, self.work_time = _merged(columns.whole(self.work_external), columns.whole(self.work_time), self.progress)
        for external in self.work_external:
            self.work_marks[external % MARKS] = 1
        self.steps.sort()
        forget()
        if self.progress:
            self.progress.close()

    def _sort_memory(self, times: Any, sizes: Any, device_sizes: Any) -> None:
        """[memory] events in order of time, with sums; and how many spans cover them, as differences, to be filled."""
        columns = Columns()
        found = [columns.new("q") for _ in range(6)]
        time, size, device_size, sums, device_sums, seen = found
        more = [(columns.new(one.typecode), self.columns.whole(one)) for one in self.memory_more if len(self.columns.whole(one))]
        total = device_total = 0
        order = iter(in_order(len(times), times.__getitem__, self.progress))
        for part in iter(lambda: list(itertools.islice(order, AT_A_TIME)), []):
            for sorted_one, one in ((time, times), (size, sizes), (device_size, device_sizes), *more):
                sorted_one.extend(map(one.__getitem__, part))
            for sorted_one, one, before in ((sums, sizes, total), (device_sums, device_sizes, device_total)):
                sorted_one.extend(itertools.islice(itertools.accumulate(map(one.__getitem__, part), initial=before), len(part)))
            total, device_total = sums[-1] + sizes[part[-1]], device_sums[-1] + device_sizes[part[-1]]
            seen.extend(bytes(len(part)))
            columns.trim()
            forget()
            if self.progress:
                self.progress.add(len(part))
        sums.append(total)
        device_sums.append(device_total)
        seen.append(0)
        columns.finish()
        (self.memory_time, self.memory_bytes, self.memory_device, self.memory_sums, self.memory_device_sums,
         self.memory_seen) = (columns.whole(one) for one in found)
        self.memory_more = [columns.whole(one) for one, _ in more]

    def work_of(self, external: int) -> int:
        """Time of the device work that carries this External id."""
        at = bisect.bisect_left(self.work_external, external)
        if at < len(self.work_external) and self.work_external[at] == external:
            return self.work_time[at]
        return 0

    def step_places(self) -> Tuple[List[Any], Any]:
        """Rows that hold steps only, as cprof's do, and the thread that the steps are of: the one that they name, else the one
        that does most, of two the one that began earlier."""
        apart = [place for place, row in self.rows.items()
                 if all(self.kinds[number].name == STEPS for number in set(row.kind))]
        if not apart:
            return [], None
        rows = [place for place in self.rows if place not in apart and not place[2]]
        others = [place for place in rows if place in self.operator_rows] or rows  # programs without operators have calls only
        if not others or self.stepping in rows:
            return (apart, self.stepping) if others else ([], None)
        most = max(len(self.rows[place].start) for place in others)
        return apart, min((place for place in others if len(self.rows[place].start) == most),
                          key=lambda place: min(self.rows[place].start))

    def uncovered_memory(self) -> Iterator[int]:
        """[memory] events in no span's time. After the walks."""
        depth = 0
        for i in range(len(self.memory_time)):
            depth += self.memory_seen[i]
            if depth == 0:
                yield i


def _copied(values: Any, columns: Columns) -> array:
    copy = columns.new(values.typecode if isinstance(values, array) else values.format)
    for at in range(0, len(values), AT_A_TIME):
        copy.frombytes(values[at:at + AT_A_TIME].tobytes())
        columns.trim()
    return copy


def _merged(keys: Any, values: Any, progress: Optional[Progress]) -> Tuple[Any, Any]:
    """Both columns sorted by key, with one value, the sum, for each key."""
    columns = Columns()
    merged_keys, merged_values = columns.new("q"), columns.new("q")
    last, total = None, 0
    for n, i in enumerate(in_order(len(keys), keys.__getitem__, progress)):
        if keys[i] != last:
            if last is not None:
                merged_keys.append(last)
                merged_values.append(total)
            last, total = keys[i], 0
        total += values[i]
        if n % AT_A_TIME == 0:
            columns.trim()
            if progress:
                progress.add(AT_A_TIME)
    if last is not None:
        merged_keys.append(last)
        merged_values.append(total)
    columns.finish()
    return columns.whole(merged_keys), columns.whole(merged_values)


def in_order(n: int, key: Any, progress: Optional[Progress] = None, piece: Any = None) -> Iterable[int]:
    """range(n) sorted by key(i), in little memory: sorted piece by piece, then merged. piece: sorts the numbers between two."""
    piece = piece or (lambda begin, end: sorted(range(begin, end), key=key))
    if n <= SORTED_AT_ONCE:
        return piece(0, n)
    columns = Columns()
    numbers, pieces = columns.new("i"), range(0, n, SORTED_AT_ONCE)
    apart = False  # pieces follow each other
    before = None
    for at in pieces:
        found = piece(at, min(at + SORTED_AT_ONCE, n))
        apart |= before is not None and before > key(found[0])
        before = key(found[-1]) if before is None else max(before, key(found[-1]))
        numbers.extend(found)
        columns.trim()
        forget()
        if progress:
            progress.add(len(found))
    del found
    columns.finish()
    ordered = columns.whole(numbers)
    if apart:
        return heapq.merge(*(memoryview(ordered)[at:at + SORTED_AT_ONCE] for at in pieces), key=key)
    return ordered


def in_time(start: Any, end: Any, progress: Optional[Progress] = None) -> Iterable[int]:
    """The numbers of spans in order of time: what holds others stands before them."""

    def piece(first: int, last: int) -> List[int]:
        ends = end[first:last].tolist()
        found = sorted(range(last - first), key=ends.__getitem__, reverse=True)
        found.sort(key=start[first:last].tolist().__getitem__)
        return [i + first for i in found] if first else found
    return in_order(len(start), lambda i: (start[i] << 64) - end[i], progress, piece)


class Wanted(NamedTuple):
    """What is kept beyond names and times."""
    shapes: bool = False
    stacks: bool = False
    group: Any = None      # event -> anything hashable: kinds are told apart by it too
    flops: bool = True
    memory: bool = False   # what is known of each [memory] event
    work: bool = False     # when each span of a device ran
    nested: bool = False   # a call without operator is the child of what it runs in; in torch's tables it is nobody's
    see: Any = None        # called with each event as well, in the same pass
    watch: Any = None      # called with calls, work, operators whose FLOPs are told or that run again, and memory of devices


def read_spans(trace: Trace, wanted: Wanted = Wanted()) -> Spans:
    """Reads a trace of one rank to its end."""
    reading = _Reading(wanted)
    trace.past_large = not wanted.stacks
    head = trace.of_one_rank().head()
    reading.with_flops = head.get("with_flops") in (1, True, "1") and wanted.flops
    reading.since = to_ns(head.get("recorded_from")) or -LIMIT
    if not wanted.shapes and wanted.group in (None, module_of):
        trace.take_text = reading.take
    for block in trace.blocks():
        for event in block:
            reading.event(event)
            for look in filter(None, (wanted.see, wanted.watch)):
                look(event)
        reading.spans.columns.trim()
    spans = reading.spans
    if spans.bad:
        trace.notes.append(f"{spans.bad} events without a usable time are left out")
    spans.metadata = trace.of_one_rank().metadata
    reading.settle_steps()
    reading.adopt_strays()
    if wanted.stacks:
        frames = trace.metadata.get("stackFrames")
        spans.stacks = [text if not text.startswith(FRAME) else of_frames(text, frames) or written
                        for text, written in zip(spans.stacks, reading.written)]
    spans.finish(trace.shows_progress)
    return spans


def of_frames(text: str, frames: Any) -> str:
    """The stack of a frame of stackFrames, as `Call stack` has it."""
    found: List[str] = []
    at: Any = text[len(FRAME):]
    while type(frames) is dict and at is not None and len(found) < DEEPEST_STACK:
        frame = frames.get(str(at))
        if type(frame) is not dict:
            break
        found.append(text_of(frame.get("name")).replace(";", ":"))
        at = frame.get("parent")
    return "".join(name + ";" for name in found)


def module_of(event: Dict[str, Any]) -> Optional[str]:
    """For Wanted.group: the module that an operator runs in."""
    module = args_of(event).get("Module Hierarchy")
    return module if type(module) is str and module else None


def text_of(value: Any) -> str:
    """A name, whatever the trace has in its place."""
    return value if type(value) is str else str(value)


def args_of(event: Dict[str, Any]) -> Dict[str, Any]:
    """The event's args, empty when they are no object."""
    args = event.get("args")
    return args if type(args) is dict else {}


def plain_shapes(dims: Any) -> str:
    """Input shapes as torch's tables have them: a list of tensors is []."""
    if type(dims) is not list:
        return "[]"
    return str([[] if type(one) is not list or any(type(size) is list for size in one) else one for one in dims])


def _number_in(numbers: Dict[Any, int], key: Any, texts: List[Any]) -> int:
    """The number of a key; texts has the keys by number."""
    number = numbers.get(key)
    if number is None:
        number = numbers[key] = len(texts)
        texts.append(key)
    return number


class _Reading:
    """What read_spans() goes through the events with."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted, self.spans = wanted, Spans()
        self.with_flops = False
        self.since = -LIMIT   # when the first recorded step began
        self._stacks: Dict[str, int] = {}
        self.written: List[str] = []         # of each stack, what stands with its first span: some frames, in a file cut off the only ones
        self._open: Dict[Any, Tuple[int, str]] = {}
        self._plain: Dict[Any, int] = {}     # number of a kind by name and category, where these tell all
        self._quick: Dict[Any, Tuple[int, bool]] = {}  # kinds that take() knows: number, and whether it is a call
        self._rows: Tuple[Dict[Any, Any], ...] = ({}, {}, {})  # what appends to a row: of operators, of calls without one, of others
        self._refused = 0
        self._any_events: Any = any_events()
        self._linked_rows: Set[Any] = set()  # places of calls that are linked to an operator
        self._memory_threads: Dict[Any, int] = {}
        self._memory_devices: Dict[str, int] = {}
        self._step_ranges: List[Tuple[int, int, str]] = []  # as Spans.steps: not on cprof's row of steps

    def settle_steps(self) -> None:
        """Ranges that have a step's name are the steps where cprof wrote none."""
        spans = self.spans
        if not spans.steps:
            spans.steps = self._step_ranges
            spans.kinds = [kind._replace(name=STEPS) if kind.name == RANGES else kind for kind in spans.kinds]

    def is_before(self, pid: str, start: int) -> bool:
        """Whether it is a marker of a step before the first recorded one, of warmup or skipped: such stand at the head of cprof's files, and in
        no table. What another tool's trace brought into the file has larger pids."""
        return start < self.since and len(pid) < FOREIGN_DIGITS

    def event(self, event: Dict[str, Any]) -> None:
        """Any event."""
        ph = event.get("ph")
        if ph == "X":
            self.span(event)
        elif ph == "i" or ph == "I":
            if event.get("name") in MEMORY:
                self.memory(event)
        elif ph == "b" or ph == "e":
            self.loose(event, ph)

    def take(self, text: str) -> bool:
        """The events of a text. False: nothing of it was taken."""
        kinds = sound_events() if self._refused < REFUSED_MOST else None
        events, see = kinds.events(text) if kinds else None, self.wanted.see
        seen = self._any_events(text) if events is not None and see else []  # with all args
        if not kinds or events is None or seen is None:
            self._refused += 1
            return False
        self._refused = 0
        for one in seen:
            see(one)
        span_kind, instant_kind, wanted, quick, since = kinds.span, kinds.instant, self.wanted, self._quick, self.since
        by_module, stacks, flops_of, watch = wanted.group is not None, wanted.stacks, self.spans.flops, wanted.watch
        for event in events:
            kind = type(event)
            if kind is not span_kind:
                if kind is instant_kind:
                    if event.name in MEMORY:
                        self._instant(event)
                    if watch and (event.name != MEMORY[0] or event.args.type not in CPU_TYPES):
                        watch(as_event(event, "i"))
                continue
            args = event.args
            if watch and (args.flops is not None or args.recompute is not None or event.cat in WATCHED):
                watch(as_event(event))
            found = quick.get((event.name, event.cat, args.module if by_module else None))
            if found is None:
                self.span(as_event(event))
                continue
            start, duration = event.ts, event.dur
            whole, whole_duration = int(start), int(duration)
            begin = whole * 1000 + round((start - whole) * 1000)  # to_ns()
            if begin < since and self.is_before(str(event.pid), begin):
                continue
            number, is_call = found
            external = args.external
            rows = self._rows[0 if not is_call else 2 if external else 1]
            append = rows.get((event.pid, event.tid))
            if append is None:
                append = rows[event.pid, event.tid] = self._row_ends(event.pid, event.tid, is_call, external)
            append[0](begin)
            append[1](begin + whole_duration * 1000 + round((duration - whole_duration) * 1000))
            append[2](number)
            append[3](external or (self.call_number(args.correlation) if is_call else 0))
            flops = args.flops if wanted.flops else None
            if stacks:
                self._keep_stack(append[4], args.stack, args.sequence, args.forward, event.cat, event.sf)
                append[4].flops.append(-1 if flops is None else _within(flops))
            elif flops is not None:
                flops_of[number] = flops_of.get(number, 0) + flops
        self.spans.columns.trim()
        return True

    def _is_quick(self, name: str, category: str) -> bool:
        """Whether take() can tell such spans by these."""
        return category in _PLAIN and not is_step_name(name) and not name.startswith("nn.Module: ") and \
            not (self.with_flops and name in TORCH_FLOPS)

    def row_of(self, place: Tuple[str, str, bool], is_call: bool, external: int) -> Row:
        """The row that a span stands on."""
        if not is_call:
            self.spans.operator_rows.add(place)
        elif external:
            self._linked_rows.add(place)
        return self.spans.row(place)

    def _row_ends(self, pid: int, tid: int, is_call: bool, external: int) -> Tuple[Any, ...]:
        """What appends to the arrays of a row, for all spans that are calls, and linked, like this one; and the row."""
        row = self.row_of((str(pid), str(tid), is_call and not external and not self.wanted.nested), is_call, external)
        return row.start.append, row.end.append, row.kind.append, row.external.append, row

    def call_number(self, correlation: Any) -> int:
        """What joins work to a call where no operator does: in torch's tables nothing, elsewhere a number unlike any External id."""
        return -(int_or_none(correlation) or 0) if self.wanted.nested else 0

    # ---- one by one ----

    def span(self, event: Dict[str, Any]) -> None:
        spans = self.spans
        start, duration = to_ns(event.get("ts")), to_ns(event.get("dur"))
        if start is None or duration is None:
            spans.bad += 1
            return
        category, args = event.get("cat"), event.get("args")
        if type(args) is not dict:
            args = {}
        if runs_on_device(category, args):
            self._device_span(event, category, args, start, start + max(duration, 0))
            return
        name, pid = text_of(event.get("name")), text_of(event.get("pid"))
        if name in HIDDEN or category in NO_WORK:
            return
        is_step = name.startswith(NAMES)
        if self.is_before(pid, start) and not is_step:  # a step may have begun in the file before
            return
        number = self._number(event, name, category, args)
        if not self.wanted.shapes and type(event.get("name")) is type(category) is str and self._is_quick(name, category):
            self._quick[name, category, self.spans.kinds[number].group] = number, category in CALLS
        external = int_or_none(args.get("External id", 0)) or 0
        # A call is torch's child of the operator that it is linked to, else nobody's.
        place = (pid, text_of(event.get("tid")),
                 not external and not self.wanted.nested if category in CALLS else category == "overhead")
        row = self.row_of(place, category in CALLS, external)
        if category in CALLS:
            external = external or self.call_number(args.get("correlation"))
            if category == "xpu_runtime":
                spans.device_name = "XPU"
        elif is_step:
            steps = spans.steps if on_our_row(event) else self._step_ranges
            steps.append((start, start + max(duration, 0), name))
            if spans.stepping is None and "thread" in args:
                spans.stepping = (place[0], text_of(args["thread"]), False)
        row.start.append(start)
        row.end.append(start + max(duration, 0))
        row.kind.append(number)
        row.external.append(external)
        flops = args.get("flops")
        told = flops is not None
        if not told and category == "cpu_op" and self.with_flops:
            from cprof.tool.flops import torch_flops
            flops = torch_flops(name, args)
        if type(flops) is not int or not self.wanted.flops:
            flops = None
        if self.wanted.stacks:
            self._keep_stack(row, args.get("Call stack"), args.get("Sequence number"), args.get("Fwd thread id"), category, event.get("sf"))
            row.flops.append(-1 if flops is None else _within(flops) if told else -2 - _within(flops))
        elif flops is not None and told:
            spans.flops[number] = spans.flops.get(number, 0) + flops
        elif flops is not None:  # of two in each other, one goes: known when the tree is
            row.shaped.append(spans.columns.length(row.start) - 1)
            row.shaped_flops.append(_within(flops))

    def _number(self, event: Dict[str, Any], name: str, category: Any, args: Dict[str, Any]) -> int:
        """The number of the span's kind."""
        spans, wanted = self.spans, self.wanted
        if "Input Dims" in args and category == "cpu_op":  # transfers of gloo always have them
            spans.has_shapes = True
        if "Module Hierarchy" in args or name.startswith("nn.Module: "):
            spans.has_modules = True
        is_step = is_step_name(name)
        plain = not wanted.shapes and wanted.group is None and not is_step
        if plain:
            number = self._plain.get((name, category)) if type(category) is str else None
            if number is not None:
                return number
        if is_step:
            name = STEPS if on_our_row(event) else RANGES
        kind = Kind(name, runs_on_device(category, args), category in ("user_annotation", "gpu_user_annotation"),
                    text_of(category), plain_shapes(args.get("Input Dims")) if wanted.shapes else "",
                    wanted.group(event) if wanted.group else None)
        number = spans.number_of(kind)
        if plain and type(category) is str:
            self._plain[name, category] = number
        return number

    def _keep_stack(self, row: Row, written: Any, sequence: Any, forward: Any, category: Any, frame: Any) -> None:
        text = f"{FRAME}{frame}" if type(frame) in (int, str) else written  # the file's stackFrames have the native frames, too
        if type(text) is str and text:
            number = self._stacks.get(text)
            if number is None:
                number = self._stacks[text] = len(self.spans.stacks)
                self.spans.stacks.append(text)
                self.written.append(written if type(written) is str else "")
            self.spans.has_stacks = True
        else:
            number = -1
        if category == "python_function":
            self.spans.has_stacks = True
        has_sequence = type(sequence) is int and 0 <= sequence < LIMIT
        row.sequence.append(sequence if has_sequence else -1)
        row.forward.append(has_sequence and type(forward) is int and forward > 0)
        row.stack.append(number)

    def _device_span(self, event: Dict[str, Any], category: str, args: Dict[str, Any], start: int, end: int) -> None:
        spans = self.spans
        number = self._number(event, text_of(event.get("name")), category, args)
        spans.has_work = True
        spans.device_count[number] = spans.device_count.get(number, 0) + 1
        spans.device_time[number] = spans.device_time.get(number, 0) + end - start
        self._note_first(number, start, end)
        if self.wanted.work:
            for column, value in zip((spans.work_kind, spans.work_start, spans.work_duration), (number, start, end - start)):
                column.append(value)
        external = int_or_none(args.get("External id", 0)) or self.call_number(args.get("correlation"))
        # A range's copy on the GPU would count its kernels twice.
        if external and category != "gpu_user_annotation":
            spans.by_call &= external < 0 or args.get("correlation") == external
            spans.work_external.append(external)
            spans.work_time.append(end - start)

    def _note_first(self, number: int, start: int, end: int) -> None:
        first = self.spans.first.get(number)
        if first is None or (start, -end) < first:
            self.spans.first[number] = (start, -end)

    def memory(self, event: Dict[str, Any]) -> None:
        """[memory] and [OutOfMemory] events."""
        spans, args, at = self.spans, args_of(event), to_ns(event.get("ts"))
        size = int_or_none(args.get("Bytes"))
        if at is None or size is None:
            spans.bad += 1
        elif event.get("name") == MEMORY[0]:
            self._memory((event.get("pid"), event.get("tid")), at, size, int_or_none(args.get("Device Type")), args.get("Device Id"),
                         int_or_none(args.get("Addr")), int_or_none(args.get("Total Allocated")))

    def _instant(self, event: Any) -> None:
        args = event.args
        if args.Bytes is None:
            self.spans.bad += 1
        elif event.name == MEMORY[0]:
            whole = int(event.ts)
            self._memory((event.pid, event.tid), whole * 1000 + round((event.ts - whole) * 1000), args.Bytes, args.type, args.id, args.Addr, args.total)

    def _memory(self, thread: Tuple[Any, Any], at: int, size: int, device: Optional[int], index: Any, address: Optional[int],
                total: Optional[int]) -> None:
        spans = self.spans
        spans.has_memory = True
        spans.memory_time.append(at)
        spans.memory_bytes.append(size if device in CPU_TYPES else 0)
        spans.memory_device.append(size if device in DEVICE_TYPES else 0)
        if self.wanted.memory:
            kind = "cpu" if device in CPU_TYPES else "xpu" if device == 12 else "cuda"
            name = kind if kind == "cpu" else f"{kind}:{index if type(index) is int and index >= 0 else 0}"
            threads, devices, addresses, totals = spans.memory_more
            threads.append(_number_in(self._memory_threads, (text_of(thread[0]), text_of(thread[1]), False), spans.memory_threads))
            devices.append(_number_in(self._memory_devices, name, spans.memory_devices))
            addresses.append(address or 0)
            totals.append(total or 0)

    def loose(self, event: Dict[str, Any], ph: str) -> None:
        """Ranges that may begin and end on different threads: torch calls them async."""
        local = event.get("id2")
        key = (text_of(event.get("cat")), text_of(event.get("name")), str(local if local is not None else event.get("id")),
               text_of(event.get("pid")))
        at = to_ns(event.get("ts"))
        if at is None:
            self.spans.bad += 1
        elif ph == "b":
            if not self.is_before(key[3], at):
                self._open[key] = (at, key[1])
        elif key in self._open:
            start, name = self._open.pop(key)
            number = self._number(event, name, event.get("cat"), args_of(event))
            self.spans.loose_count[number] = self.spans.loose_count.get(number, 0) + 1
            self.spans.loose_time[number] = self.spans.loose_time.get(number, 0) + max(0, at - start)
            self._note_first(number, start, at)

    def adopt_strays(self) -> None:
        """Calls whose thread is not known by its right number stand on a row of their own: they belong to the thread of
        the operators that they are linked to."""
        rows = self.spans.rows
        strays = [place for place in rows if place in self._linked_rows and place not in self.spans.operator_rows]
        if not strays:
            return
        self.spans.read_again()
        linked = {external for place in strays for external in rows[place].external if external}
        home = {external: place for place in self.spans.operator_rows for external in rows[place].external if external in linked}
        for place in strays:
            stray = rows.pop(place)
            names = [name for name in Row.COLUMNS if getattr(stray, name)]
            for i, external in enumerate(stray.external):
                row = self.spans.row(home.get(external, place[:2] + (True,)))
                for name in names:
                    getattr(row, name).append(getattr(stray, name)[i])
