# SPDX-License-Identifier: Apache-2.0
"""The spans of a trace in a form small enough for millions of them.

read_spans() of span_reader.py takes one pass over a trace. walk() then goes through one thread's spans and yields each span when its
children are known, with the sums of torch.profiler's tables (torch/autograd/profiler_util.py: EventList._build_tree and
FunctionEvent). The rules are:

- A span's parent is the innermost span of its thread that holds it whole.
- If a span has an only child of its own name, the child takes its place.
- Ranges of transfers are asynchronous, with neither parent nor children.
- A kernel belongs to the span whose External id it carries.
- Memory belongs to all spans in whose time it was allocated or freed, on any thread.
- Unlike in torch.profiler, the copy of a range on the GPU (gpu_user_annotation) is not added to the kernels that it covers.

Spans are kept in columns (columns.py), about 30 bytes each, which go to a temporary file if they are many. Times are nanoseconds.
"""

import bisect
import heapq
import itertools
import re
from array import array
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple

from cprof.tool.categories import CALLS, OPERATORS, WORK
from cprof.tool.columns import Columns, forget
from cprof.tool.fast import fast_numpy
from cprof.tool.progress import Progress
from cprof.tool.steps import NAMES, STEPS

DEEPEST_STACK = 2048
FRAME = "\0sf "                           # precedes the number of a frame whose stack is not known yet
MEMORY = ("[memory]", "[OutOfMemory]")
HIDDEN = frozenset((*MEMORY, "profiler::_record_function_enter", "profiler::_record_function_enter_new",
                    "profiler::_record_function_exit", "aten::is_leaf", "aten::output_nr", "aten::_version",
                    "PyTorch Profiler (0)"))
# c10d opens these on one thread and may end them on another, so torch treats them as asynchronous; also NCCL's, which only mark the launch.
ASYNC_RANGES = ("gloo:", "mpi:", "ucc:", "nccl:")
CPU_TYPES = frozenset((0, 2, 5))          # c10::DeviceType: CPU, MKLDNN, IDEEP
DEVICE_TYPES = frozenset((1, 6, 12, 20))  # CUDA, HIP, XPU, PrivateUse1
SORTED_AT_ONCE = 1 << 16
WAITING_MOST = 8                          # pieces that are sorted together, at most
MARKS = 1 << 20
AT_A_TIME = 1 << 14                       # spans between looks at memory and clock
WATCHED = frozenset((*CALLS, *WORK, "collective_comm"))
# Name, time and External id are enough for spans of these; calls also need their own row.
PLAIN = frozenset(OPERATORS[:3] + ("cuda_runtime", "cuda_driver", "library_call"))
LIMIT = 1 << 62                           # no time of a trace is so far away

def to_ns(number: Any) -> Optional[int]:
    """Microseconds as nanoseconds; None if it is no usable number."""
    if type(number) is float and -4e15 < number < 4e15:
        whole = int(number)
        # In two parts, since a product would be rounded once more. Up to 2^43 us, more than Kineto's times, a double
        # distinguishes neighbouring nanoseconds.
        return whole * 1000 + round((number - whole) * 1000)
    if type(number) is int and abs(number) < LIMIT // 1000:
        return number * 1000
    return None


_step_name = re.compile(f"(?:{'|'.join(map(re.escape, NAMES))})([0-9]{{1,18}})")


def step_number(name: str) -> Optional[int]:
    """N of a step, `ProfilerStep#N`, or of a range of torch.profiler's; None for other names."""
    match = _step_name.fullmatch(name)
    return int(match[1]) if match else None


def int_or_none(value: Any) -> Optional[int]:
    """An integer that fits into 63 bits, also one as text; else None."""
    if type(value) is not int:
        try:
            value = int(value)
        except (TypeError, ValueError, OverflowError):
            return None
    return value if -LIMIT < value < LIMIT else None


def within(flops: int) -> int:
    """FLOPs, limited to what a column can hold."""
    return min(max(flops, 0), LIMIT)


class Kind(NamedTuple):
    """The kind of a span: torch's key_averages() adds up the spans of one kind."""
    name: str
    device: bool          # ran on a device
    annotation: bool      # a range of the program's
    category: str
    shapes: str = ""
    group: Any = None     # result of Wanted.group

    @property
    def is_async(self) -> bool:
        """Whether it is the range of a transfer, which has no place in the tree."""
        return self.category == "user_annotation" and self.name.startswith(ASYNC_RANGES)


class Row:
    """The spans of one thread in columns of one length, in the order of the file."""

    COLUMNS = ("start", "end", "kind", "external", "stack", "sequence", "forward", "flops", "shaped", "shaped_flops")
    __slots__ = COLUMNS

    def __init__(self, columns: Columns) -> None:
        self.start, self.end = columns.new("q"), columns.new("q")
        self.kind = columns.new("i")
        self.external = columns.new("q")     # External id; 0 for none
        # These are empty unless stacks are wanted.
        self.stack = columns.new("i")        # number in Spans.stacks; -1 for none
        self.sequence = columns.new("q")     # Sequence number; -1 for none
        self.forward = columns.new("b")      # 1: in the backward pass, with the thread of the forward operator
        self.flops = columns.new("q")        # -1 for none; lower: -2 - FLOPs that are not in the trace
        # Empty if stacks are wanted: the few spans whose FLOPs are not in the trace, ascending, and their FLOPs.
        self.shaped, self.shaped_flops = columns.new("q"), columns.new("q")

    def flops_of(self, index: int) -> int:
        """FLOPs of a span that are not in the trace. Only without stacks."""
        at = bisect.bisect_left(self.shaped, index) if self.shaped else 0
        return self.shaped_flops[at] if at < len(self.shaped) and self.shaped[at] == index else 0


class Functions:
    """Nested Python functions: each nesting has a number; 0 is none."""

    def __init__(self) -> None:
        self._numbers: Dict[Tuple[int, int], int] = {}
        self._entries: List[Tuple[int, int]] = [(-1, 0)]

    def number(self, kind: int, outer: int) -> int:
        """The number of a function of this kind inside the nesting `outer`."""
        key = (kind, outer)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._entries)
            self._entries.append(key)
        return number

    def kinds(self, number: int) -> Iterator[int]:
        """The kinds of a nesting, innermost first."""
        while number:
            kind, number = self._entries[number]
            yield kind


class Spans:
    """The result of read_spans()."""

    def __init__(self) -> None:
        self.kinds: List[Kind] = []
        self.columns = Columns()
        self.progress: Optional[Progress] = None  # of walk()
        self.rows: Dict[Any, Row] = {}
        self.operator_rows: Set[Any] = set()  # places of rows that hold more than calls
        self.stacks: List[str] = []          # as in `Call stack`: innermost first, ";" after each
        self.functions = Functions()         # filled by walk()
        # device spans: sums by kind, and work by External id
        self.device_count: Dict[int, int] = {}
        self.device_time: Dict[int, int] = {}
        self.work_external, self.work_time = self.columns.new("q"), self.columns.new("q")
        self.work_marks = bytearray(MARKS)   # by remainder of the External ids: whether there may be work
        self.work_kind, self.work_start, self.work_duration = (self.columns.new(typecode) for typecode in "iqq")  # with Wanted.work
        self.loose_time: Dict[int, int] = {}  # async ranges: by kind
        self.loose_count: Dict[int, int] = {}
        self.first: Dict[int, Tuple[int, int]] = {}  # start and -end of the first one by kind, for device spans and async ranges
        self.below: Dict[Tuple[int, int], List[int]] = {}  # by kind of an operator and of a library's call in it: calls, self, total, GPU time
        self.flops: Dict[int, int] = {}      # by kind, those in the trace
        # [memory] events, and their threads
        self.memory_time, self.memory_bytes, self.memory_device = (self.columns.new("q") for _ in range(3))
        # with Wanted.memory: number of the thread and of the device, address, total after the event
        self.memory_more: List[Any] = [self.columns.new(typecode) for typecode in "iiqq"]
        self.memory_threads: List[Any] = []
        self.memory_devices: List[str] = []
        self.steps: List[Tuple[int, int, str]] = []  # start, end, name
        self.stepping: Any = None            # place of the thread named by the first step
        self.bad = 0                         # spans without a usable time
        self.has_shapes = self.has_stacks = self.has_modules = self.has_memory = self.has_work = False
        self.by_call = True                  # External ids do not link operators, but repeat the correlation, as in old traces
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
        """The row of a thread; makes it if needed."""
        row = self.rows.get(place)
        if row is None:
            row = self.rows[place] = Row(self.columns)
        return row

    def read_again(self) -> None:
        """Copies all rows to new columns, so that they can be appended to again."""
        whole, self.columns = self.columns, Columns()
        whole.finish()
        for row in self.rows.values():
            for name in Row.COLUMNS:
                setattr(row, name, _copied(whole.whole(getattr(row, name)), self.columns))
        for name in ("work_external", "work_time", "memory_time", "memory_bytes", "memory_device", "work_kind", "work_start", "work_duration"):
            setattr(self, name, _copied(whole.whole(getattr(self, name)), self.columns))
        self.memory_more = [_copied(whole.whole(one), self.columns) for one in self.memory_more]

    def finish(self, with_progress: bool) -> None:
        """Sorts what is searched later."""
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
        """Sorts [memory] events by time and adds sums, and a column for how many spans cover them, as differences, still empty."""
        columns = Columns()
        found = [columns.new("q") for _ in range(6)]
        time, size, device_size, sums, device_sums, seen = found
        more = [(columns.new(one.typecode), self.columns.whole(one)) for one in self.memory_more if len(self.columns.whole(one))]
        total = device_total = 0
        pairs = [(time, times), (size, sizes), (device_size, device_sizes), *more]
        for part, gathered in _gathered(times, None, [one for _, one in pairs], self.progress):
            for (sorted_one, _), values in zip(pairs, gathered):
                sorted_one.extend(values)
            for sorted_one, values, before in ((sums, gathered[1], total), (device_sums, gathered[2], device_total)):
                sorted_one.extend(itertools.islice(itertools.accumulate(values, initial=before), part))
            total, device_total = sums[-1] + gathered[1][-1], device_sums[-1] + gathered[2][-1]
            seen.extend(bytes(part))
            columns.trim()
            forget()
            if self.progress:
                self.progress.add(part)
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
        """Rows that hold only steps, as cprof's do, and the thread that the steps belong to. That is the thread that they name, else
        the one with the most spans, and of several the one that began first."""
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
        """[memory] events in no span's time. Only after the walks."""
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
    apart = False  # the pieces overlap
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
    """The numbers of spans in order of time: a span comes before those that it holds."""
    if len(start) >= AT_A_TIME and fast_numpy() is not None:
        return itertools.chain.from_iterable(part.tolist() for part in parts_in_time(start, end, progress))
    return _merged_in_time(start, end, progress)


def _gathered(start: Any, end: Any, columns: Sequence[Any], progress: Optional[Progress] = None) -> Iterator[Tuple[int, List[List[int]]]]:
    """Columns in order of time, in parts: the length of a part, and a list of each column's numbers. Without ends: in the order of the starts."""
    numpy = fast_numpy()
    if len(start) >= AT_A_TIME and numpy is not None:
        whole = [numpy.frombuffer(one, one.typecode if isinstance(one, array) else one.format) for one in columns]
        for part in parts_in_time(start, end, progress):
            yield len(part), [one[part].tolist() for one in whole]
        return
    order = iter(_merged_in_time(start, end, progress) if end is not None else in_order(len(start), start.__getitem__, progress))
    for found in iter(lambda: list(itertools.islice(order, AT_A_TIME)), []):
        yield len(found), [list(map(one.__getitem__, found)) for one in columns]


def rows_in_time(start: Any, end: Any, *columns: Any) -> Iterator[Tuple[int, ...]]:
    """The spans in order of time, as in in_time(), each as a tuple of its numbers in these columns."""
    for _, gathered in _gathered(start, end, columns):
        yield from zip(*gathered)
        forget()


def _merged_in_time(start: Any, end: Any, progress: Optional[Progress]) -> Iterable[int]:
    def piece(first: int, last: int) -> List[int]:
        ends = end[first:last].tolist()
        found = sorted(range(last - first), key=ends.__getitem__, reverse=True)
        found.sort(key=start[first:last].tolist().__getitem__)
        return [i + first for i in found] if first else found
    return in_order(len(start), lambda i: (start[i] << 64) - end[i], progress, piece)


def parts_in_time(start: Any, end: Any = None, progress: Optional[Progress] = None) -> Iterator[Any]:
    """The result of in_time() in arrays of numpy. Without ends: in the order of the starts."""
    numpy = fast_numpy()
    starts, ends = (numpy.frombuffer(one, "q") if one is not None else None for one in (start, end))
    size = min(SORTED_AT_ONCE, AT_A_TIME)
    places = range(0, len(starts), size)
    least, most = (numpy.array([limit(starts[at:at + size]) for at in places] + [numpy.iinfo("q").max]) for limit in (numpy.min, numpy.max))
    least = numpy.minimum.accumulate(least[::-1])[::-1]
    if any((most[:n] >= least[n]).sum() > WAITING_MOST for n in range(len(places))):  # pieces do not follow each other
        order = iter(_merged_in_time(start, end, progress) if end is not None else in_order(len(start), start.__getitem__, progress))
        for part in iter(lambda: list(itertools.islice(order, size)), []):
            yield numpy.array(part, "q")
        return
    waiting = numpy.zeros(0, "q")
    for n, at in enumerate(places):
        found = numpy.concatenate((waiting, numpy.arange(at, min(at + size, len(starts)))))
        begun = starts[found]
        found = found[numpy.lexsort((found, -ends[found], begun) if ends is not None else (found, begun))]
        # those that no later span can precede
        done = len(found) if n == len(places) - 1 else int(numpy.searchsorted(starts[found], least[n + 1], "left"))
        waiting = found[done:]
        forget()
        if progress:
            progress.add(min(size, len(starts) - at))
        if done:
            yield found[:done]


def of_frames(text: str, frames: Any) -> str:
    """The stack of a frame of stackFrames, in the form of `Call stack`."""
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
    """The value as text, of whatever type it is."""
    return value if type(value) is str else str(value)


def args_of(event: Dict[str, Any]) -> Dict[str, Any]:
    """The event's args; empty if they are no object."""
    args = event.get("args")
    return args if type(args) is dict else {}


def plain_shapes(dims: Any) -> str:
    """Input shapes as in torch's tables: a list of tensors is []."""
    if type(dims) is not list:
        return "[]"
    return str([[] if type(one) is not list or any(type(size) is list for size in one) else one for one in dims])


def number_in(numbers: Dict[Any, int], key: Any, texts: List[Any]) -> int:
    """The number of a key, new if needed; texts has the keys by number."""
    number = numbers.get(key)
    if number is None:
        number = numbers[key] = len(texts)
        texts.append(key)
    return number
