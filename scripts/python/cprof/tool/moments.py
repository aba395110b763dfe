# SPDX-License-Identifier: Apache-2.0
"""Gives each moment of a step one class, so that the parts add up to the step.

With a GPU, the class of a moment is the first of these that holds: a kernel computes; a collective's kernel runs; a copy runs; the GPU is idle.
The cause of an idle moment follows from the work that ended it. If that work was launched before the GPU became idle, the GPU made it wait
("other"). Otherwise the thread that launched it was late, and the cause is what the thread did at the moment. It fetched data, was in a call
that waits for the GPU, was between steps, or ran an operator or Python.

A call that waits for the GPU also costs idle time after it: the thread has lost its lead. Without the call each later launch would be earlier
by the call's duration, so that much of the idle time after the call counts as the call's.

Without a GPU, a moment of the thread of the steps is in an operator, waiting, or outside operators."""

import bisect
import collections
import itertools
import re
from array import array
from typing import Any, Counter, Dict, Iterator, List, NamedTuple, Optional, Tuple

from cprof.tool.categories import CALLS, runs_on_device
from cprof.tool.collectives import Times, kind_of
from cprof.tool.columns import Columns, forget
from cprof.tool.machine_use import Memory, Rated, Use, added_up, process_of
from cprof.tool.memory_holders import Account
from cprof.tool.memory_use import timelines
from cprof.tool.reader import LARGE, open_trace
from cprof.tool.span_reader import Wanted, Watch, read_spans
from cprof.tool.spans import (AT_A_TIME, FRAME, LIMIT, WATCHED, args_of, in_order, int_or_none, module_of, of_frames, step_number,
                              text_of, to_ns)
from cprof.tool.steps import STEPS, is_main_thread
from cprof.tool.thread_states import COLLECTIVE, NOBODY, Cause, ThreadStates, line_of

BUSY = ("computation", "exposed_comm", "exposed_memcpy")
IDLE = ("cpu_late", "sync", "data", "between_steps", "other")
CPU = ("operators", "outside", "waiting")
WAITING = ("data", "collective")

# Calls that return when the GPU is done, and calls of the driver's allocator, which also wait for it (CUDA's manual: "Implicit Synchronization").
SYNC = re.compile(r"(cuda|hip)((Device|Stream|Event)Synchronize|Memcpy(2D|3D)?|Malloc|Free|MallocHost|FreeHost|HostAlloc)$"
                  r"|cu((Ctx|Stream|Event)Synchronize|Memcpy\w{4}(_v2)?|Mem(Alloc|Free)(_v2)?)$")
PAGEABLE = re.compile(r"Pageable")
COMPILATION, FIRST_STEP = "compilation", "first step"  # why findings do not count a step
COMPILING = re.compile(r"\(dynamo_timed\)|^compile_fx|CachingAutotuner\.precompile|_compile_inner")
AT_A_LOOK = 1 << 10       # items between two calls of forget(): each item may read many pages
# PyTorch's dispatcher takes 1 to 5 us for an operator, and the recording and the Python around it take more: most of the time of a shorter operator
# is overhead.
BRIEF_NS = 20_000
# BRIEF_RUN brief operators in a row are more than a part of a layer: a transformer's with a GELU written out has some 15 (GPT-2).
BRIEF_RUN = 32
# Python takes less time from one operator to the next, also while stacks are recorded (transformer on an H200: 99 % of the gaps).
PAUSE_NS = 100_000
BACKWARD = "autograd::engine::evaluate_function: "
# A stall is a hundred times what PyTorch needs to launch a kernel, about 10 us (H200, launch-bound transformer: 9 to 18 us from call to kernel), or
# a part of the step that is worth a finding by itself, but no pause that is usual.
STALL_NS = 1_000_000
# XProf calls a program "moderately input-bound" from 5 % of a step on (kModeratelyInfeedBoundThresholdInPercent).
SHARE = 0.05


_keys: Dict[Tuple[str, Cause], Tuple[str, Cause]] = {}  # one object for each key of all windows


class Piece(NamedTuple):
    """What a step has of a class and a cause. Nanoseconds."""
    name: str          # of the class
    cause: Cause
    time: int
    count: int
    stalled: int       # time of stalls, outside operators
    stalls: int        # the number of stalls


class Window:
    """A step, or a whole trace without steps, with nanoseconds by class."""

    def __init__(self, start: int, end: int, step: Optional[int], device: str) -> None:
        self.start, self.end, self.step, self.device = start, end, step, device
        self.stall_ns = max(PAUSE_NS, min(STALL_NS, SHARE * (end - start)))  # the least length of a stall
        self.parts: Counter[str] = collections.Counter()
        self.calls: Counter[Tuple[Cause, int]] = collections.Counter()   # of operators without a GPU: by cause and number of the stack
        self.brief: Counter[Cause] = collections.Counter()   # time in runs of brief operators, without a GPU
        self.late: Counter[Cause] = collections.Counter()    # outside operators: time of pauses of more than PAUSE_NS each
        self.launches = 0                                   # work of the device that began in the step
        self.rated: List[Rated] = []                        # operators whose FLOPs are counted: Trace.facts()
        self.repeated = 0                                   # time of operators that run a second time, without a GPU: Trace.facts()
        self.left_out = ""                                  # why the findings do not count it
        self._added: Dict[Tuple[str, int], List[Any]] = {}  # by class and id of the cause: the cause, then as in Piece
        self._keys: List[Tuple[str, Cause]] = []            # after finish(), and their numbers: four for each, which takes far less memory than objects
        self._numbers = array("q")

    total = property(lambda self: self.end - self.start)
    busy = property(lambda self: sum(self.parts[name] for name in BUSY))
    idle = property(lambda self: sum(self.parts[name] for name in IDLE))

    def add(self, name: str, time: int, cause: Cause = NOBODY) -> None:
        """Adds time of a class. finish() adds the times up."""
        if time > 0:
            found = self._added.get((name, id(cause)))
            if found is None:
                found = self._added[name, id(cause)] = [cause, 0, 0, 0, 0]  # keeps the cause alive, so that its id stays unique
            found[1] += time
            found[2] += 1
            if time >= self.stall_ns and cause.what == "python":
                found[3] += time
                found[4] += 1

    def finish(self) -> None:
        """Ends the adding, after the last piece."""
        sums: Dict[Tuple[str, Cause], List[int]] = {}
        for (name, _), (cause, *numbers) in self._added.items():
            self.parts[name] += numbers[0]
            key = _keys.setdefault((name, cause), (name, cause))
            before = sums.get(key)
            sums[key] = numbers if before is None else [one + other for one, other in zip(before, numbers)]
        self._added.clear()
        self._keys = list(sums)
        self._numbers = array("q", itertools.chain.from_iterable(sums.values()))

    def pieces(self) -> Iterator[Piece]:
        """The sums of each class and cause. Call it after finish()."""
        numbers = iter(self._numbers)
        for (name, cause), *values in zip(self._keys, numbers, numbers, numbers, numbers):
            yield Piece(name, cause, *values)


class _Work:
    """The work of the devices, and the calls that launched it."""

    def __init__(self) -> None:
        self.columns = Columns()
        new = self.columns.new
        self.start, self.end, self.correlation, self.level, self.device, self.name = new("q"), new("q"), new("q"), new("b"), new("i"), new("i")
        self.maker = new("i")
        self.call_correlation, self.call_start, self.call_end, self.call_place, self.call_name = new("q"), new("q"), new("q"), new("i"), new("i")
        self.pageable, self.seen = new("q"), 0
        self.devices: Dict[str, int] = {}
        self.kernels: Dict[str, int] = {}
        self.makers: Dict[Tuple[str, str, str], int] = {}  # operator, module and line, where the work itself names them: of CUDA graphs, and XLA's
        self.places: Dict[Any, int] = {}
        self.names: Dict[str, int] = {}
        self.stacks: Dict[Tuple[int, int], str] = {}   # of calls that wait: (place, start)

    def see(self, event: Dict[str, Any]) -> None:
        """Takes an event of any kind."""
        category = event.get("cat")
        if event.get("ph") != "X" or type(category) is not str or category not in WATCHED:
            return
        is_call, args, start, duration = category in CALLS, args_of(event), to_ns(event.get("ts")), to_ns(event.get("dur"))
        if start is None or duration is None or not is_call and not runs_on_device(category, args):
            return
        end, name, correlation = start + max(duration, 0), text_of(event.get("name")), int_or_none(args.get("correlation")) or 0
        if is_call:
            self._call(event, args, start, end, name, correlation)
        else:
            level = 2 if category == "gpu_memcpy" else 1 if category == "collective_comm" or kind_of(name, category) == 0 else 0
            self.start.append(start)
            self.end.append(end)
            self.correlation.append(correlation)
            self.level.append(level)
            self.device.append(self.devices.setdefault(text_of(args.get("device", event.get("pid"))), len(self.devices)))
            self.name.append(self.kernels.setdefault(name, len(self.kernels)))
            maker = (text_of(args.get("hlo_op") or args.get("captured in", "")), text_of(args.get("hlo_module") or args.get("captured module", "")),
                     text_of(args.get("source", "")))
            self.maker.append(self.makers.setdefault(maker, len(self.makers)))
            if level == 2 and PAGEABLE.search(name):
                self.pageable.append(correlation)
        self.seen += 1
        if self.seen % AT_A_TIME == 0:
            self.columns.trim()

    def _call(self, event: Dict[str, Any], args: Dict[str, Any], start: int, end: int, name: str, correlation: int) -> None:
        place = self.places.setdefault((text_of(event.get("pid")), text_of(event.get("tid")), False), len(self.places))
        self.call_correlation.append(correlation)
        self.call_start.append(start)
        self.call_end.append(end)
        self.call_place.append(place)
        self.call_name.append(self.names.setdefault(name, len(self.names)))
        text = args.get("Call stack")
        frame = event.get("sf")
        if SYNC.match(name) and (type(text) is str or type(frame) in (int, str)):
            self.stacks[place, start] = text if type(text) is str else f"{FRAME}{frame}"

    def finish(self) -> None:
        """Sorts calls by correlation id, and work by start."""
        self.columns.finish()
        whole = self.columns.whole
        columns = Columns()
        for names, key in ((("call_correlation", "call_start", "call_end", "call_place", "call_name"), "call_correlation"),
                           (("start", "end", "correlation", "level", "device", "name", "maker"), "start")):
            found = [whole(getattr(self, name)) for name in names]
            by, ordered = whole(getattr(self, key)), [columns.new(typecode) for typecode in ("qqqii" if key != "start" else "qqqbiii")]
            for n, i in enumerate(in_order(len(by), by.__getitem__)):
                for source, target in zip(found, ordered):
                    target.append(source[i])
                if n % AT_A_TIME == 0:
                    columns.trim()
            for name, target in zip(names, ordered):
                setattr(self, name, target)
        columns.finish()
        for name in ("call_correlation", "call_start", "call_end", "call_place", "call_name", "start", "end", "correlation", "level", "device", "name",
                     "maker"):
            setattr(self, name, columns.whole(getattr(self, name)))
        self.pageable = whole(self.pageable)

    def call_of(self, correlation: int) -> Optional[int]:
        """The index of the call that launched the work."""
        at = bisect.bisect_left(self.call_correlation, correlation)
        return at if correlation and at < len(self.call_correlation) and self.call_correlation[at] == correlation else None


class _Brief:
    """Finds runs of operators that usually take less than BRIEF_NS each."""

    def __init__(self) -> None:
        self._seen: Dict[int, List[int]] = {}     # by id of the cause: calls, and brief ones
        self._times: Dict[int, List[Any]] = {}    # likewise: time in the run, and the cause
        self._length = 0

    def see(self, window: Window, cause: Cause, time: int) -> None:
        """Takes the thread's next piece. All causes are of one timeline, which keeps them alive."""
        if cause.what == "python":
            if self._length and time < window.stall_ns:
                self._add(cause, time)
            return
        if cause.what == "operator" and not cause.optimizer:
            seen = self._seen.get(id(cause))
            if seen is None:
                seen = self._seen[id(cause)] = [0, 0]
            seen[0] += 1
            seen[1] += time < BRIEF_NS
            if seen[1] * 2 >= seen[0]:
                self._add(cause, time)
                self._length += 1
                return
        self.end_run(window)

    def _add(self, cause: Cause, time: int) -> None:
        found = self._times.get(id(cause))
        if found is None:
            self._times[id(cause)] = [time, cause]
        else:
            found[0] += time

    def end_run(self, window: Window) -> None:
        """Ends a run."""
        if self._length >= BRIEF_RUN:
            for time, cause in self._times.values():
                window.brief[cause] += time
        self._length = 0
        self._times.clear()


class _Waits:
    """The calls of one thread that wait for the GPU, in order of time."""

    def __init__(self, found: List[Tuple[int, int, Cause]]) -> None:
        found.sort()
        self.start, self.end = (array("q", [one[n] for one in found]) for n in (0, 1))
        self.cause = [one[2] for one in found]
        self.lead: Dict[int, int] = {}  # by number of the call: what is left of the time that its thread has lost, where it is not whole

    def since(self, time: int) -> int:
        """The number of the last call that begins at this time or before, at least 0."""
        return max(bisect.bisect_right(self.start, time) - 1, 0)


_NONE = _Waits([])


class _Watch(Watch):
    """Passes events to all readers of a trace in one pass."""

    def __init__(self, work: _Work, use: Use, times: Optional[Times]) -> None:
        self.operators = use.operators  # type: ignore[method-assign]
        self._all = [work.see, use.see] + ([times.see] if times is not None else [])
        self._times = times

    def __call__(self, event: Dict[str, Any]) -> None:
        for one in self._all:
            one(event)

    def watches(self, name: str, category: str) -> bool:
        return super().watches(name, category) or self._times is not None and self._times.watches(name, category)


class Facts(NamedTuple):
    """What the findings need of a trace beside its windows. A Trace has columns of all its events; this is small."""
    metadata: Dict[str, Any]        # without the LARGE keys of reader.py
    on_main_thread: bool
    memory: List[Account]
    peaks: Dict[str, Memory]        # of each GPU


class Trace:
    """One trace, classified."""

    def __init__(self, path: str, progress: bool = False, times: Optional[Times] = None) -> None:
        """times: reads the trace in the same pass."""
        self.path = path
        self.work, self.use = _Work(), Use()
        with open_trace(path, progress) as trace:
            if times is not None:
                times.begin(trace)
            self.spans = read_spans(trace, Wanted(stacks=True, flops=False, memory=True, nested=True, group=module_of,
                                                   watch=_Watch(self.work, self.use, times)))
            if times is not None:
                times.finish(trace)
        self.metadata, self.notes = self.spans.metadata, trace.remarks()
        self.lines = [line for _, line in sorted(timelines(self.spans).items())] if self.spans.has_memory else []
        self.memory = [Account(line, self.spans.steps) for line in self.lines]
        self.work.finish()
        self.use.finish()
        self._timelines: Dict[Any, ThreadStates] = {}
        self._waits: Dict[Any, _Waits] = {}
        self.main = self._main_place()
        self.on_main_thread = self.main is not None and is_main_thread(*self.main[:2])  # the steps are made there
        used = process_of(self.metadata) if self.on_main_thread else None
        self._queued_ns = used.main_queued_ns or 0 if used is not None else 0  # waits for a processor that have no place in a step yet
        self.windows: List[Window] = []
        spans = self._steps()
        self._find_waits()
        if len(self.work.start):
            for device, number in self.work.devices.items():
                self.windows += self._of_device([Window(start, end, step, f"cuda:{device}") for start, end, step in spans], number)
        else:
            self.windows = self._of_cpu([Window(start, end, step, "cpu") for start, end, step in spans])
        self._leave_out()

    # ---- operators, kernels and steps ----

    def launched(self) -> Iterator[Tuple[str, Cause, int]]:
        """(name, launching cause, duration) of all work of the devices. Of a node of a CUDA graph the cause is what was captured."""
        work, names = self.work, list(self.work.kernels)
        makers = [Cause("operator", name, line, module=module) if name or module else None for name, module, line in work.makers]
        for i in range(len(work.start)):
            call = work.call_of(work.correlation[i])
            cause = makers[work.maker[i]] or NOBODY
            if call is not None and cause is NOBODY:
                timeline = self._timeline(self._place(work.call_place[call]))
                cause = timeline.cause(timeline.number_at(work.call_start[call]))
            yield names[work.name[i]], cause, work.end[i] - work.start[i]

    def facts(self) -> Facts:
        """What the findings need beside the windows. Completes the windows: their rated and repeated operators."""
        lines: Dict[str, str] = {}  # by stack
        for device in {window.device for window in self.windows}:
            own = [window for window in self.windows if window.device == device]
            spans = [(window.start, window.end) for window in own]
            for window, rated in zip(own, self.use.rated(spans, device)):
                lines.update((stack, self._line(stack)) for stack in {one.line for one in rated}.difference(lines))
                window.rated = added_up(one._replace(line=lines[one.line]) for one in rated)
            for window, time in zip(own, self._repeated(spans) if device == "cpu" else ()):
                window.repeated = time
        metadata = {key: value for key, value in self.metadata.items() if key not in LARGE}
        return Facts(metadata, self.on_main_thread, self.memory, self.use.memory)

    def _line(self, stack: str) -> str:
        """The line of a stack or of a frame."""
        text = of_frames(stack, self.metadata.get("stackFrames")) if stack.startswith(FRAME) else stack
        return line_of([frame for frame in text.split(";") if frame])

    def _repeated(self, spans: List[Tuple[int, int]]) -> List[int]:
        """The time for which the thread of the steps ran operators a second time in each span of time. Includes the way there: an operator of the
        backward pass first unpacks saved tensors, which computes them again (torch.utils.checkpoint, saved tensor hooks)."""
        timeline = self._timeline(self.main)

        def begun(time: int) -> int:
            return timeline.start_of(time) if timeline.cause(timeline.number_at(time)).name.startswith(BACKWARD) else time
        return self.use.repeated(spans, begun)

    def _main_place(self) -> Any:
        """The thread of the steps."""
        spans = self.spans
        place = spans.step_places()[1]
        if place is None:
            numbers = {n for n, kind in enumerate(spans.kinds) if kind.name == STEPS}
            own = [place for place, row in spans.rows.items() if numbers and not numbers.isdisjoint(row.kind)]
            threads = [place for place in spans.rows if not place[2]]  # the others have overhead and calls of unknown threads
            others = own or [place for place in threads if place in spans.operator_rows] or threads
            place = max(others, key=lambda place: len(spans.rows[place].start), default=None)
        return place

    def _steps(self) -> List[Tuple[int, int, Optional[int]]]:
        """(start, end, number) of the steps, without overlaps; without steps, of the whole trace."""
        found: List[Tuple[int, int, Optional[int]]] = []
        reached = -LIMIT
        for start, end, name in sorted(self.spans.steps):
            if end > max(start, reached):
                found.append((max(start, reached), end, step_number(name)))
                reached = end
        if not found:
            starts = [min(row.start) for row in self.spans.rows.values() if len(row.start)] + list(self.work.start[:1])
            ends = [max(row.end) for row in self.spans.rows.values() if len(row.end)] + ([max(self.work.end)] if len(self.work.end) else [])
            if starts and max(ends) > min(starts):
                found = [(min(starts), max(ends), None)]
        return found

    def _timeline(self, place: Any) -> ThreadStates:
        found = self._timelines.get(place)
        if found is None:
            found = self._timelines[place] = ThreadStates(self.spans, self.spans.rows.get(place))
        return found

    def _place(self, number: int) -> Any:
        place = self._places[number]
        return place if place in self.spans.rows else self.main

    def _find_waits(self) -> None:
        """Finds the calls that wait for the GPU, by thread."""
        work = self.work
        self._places = list(work.places)
        names = list(work.names)
        waits = {number for number, name in enumerate(names) if SYNC.match(name)}
        pageable = set(filter(None, map(work.call_of, work.pageable)))
        frames = self.metadata.get("stackFrames")
        found: Dict[Any, List[Tuple[int, int, Cause]]] = {}
        causes: Dict[Cause, Cause] = {}  # one object for each
        for i in range(len(work.call_start)):
            if i % AT_A_LOOK == 0:
                forget()
            if work.call_name[i] in waits or i in pageable:
                place = self._place(work.call_place[i])
                timeline = self._timeline(place)
                cause = timeline.cause(timeline.number_at(work.call_start[i]))
                name = names[work.call_name[i]]
                text = work.stacks.get((work.call_place[i], work.call_start[i]), "")
                line = line_of((of_frames(text, frames) if text.startswith(FRAME) else text).split(";")) if text else ""
                said = f"{cause.name}: {name}" if cause.what in ("operator", "collective") and cause.name != name else name
                waiting = Cause("call", said + (" of pageable memory" if i in pageable else ""), line or cause.line, optimizer=cause.optimizer)
                found.setdefault(place, []).append((work.call_start[i], work.call_end[i], causes.setdefault(waiting, waiting)))
        self._waits = {place: _Waits(of_place) for place, of_place in found.items()}
        for place, waits in self._waits.items():
            for call in zip(waits.start, waits.end, waits.cause):
                self._timeline(place).put_wait(*call)

    # ---- with a GPU ----

    def _of_device(self, windows: List[Window], device: int) -> List[Window]:
        work, starts = self.work, [one.start for one in windows]
        reached = [-LIMIT] * len(BUSY)  # the ends of the unions of each class and those before it
        covered: List[Counter[int]] = [collections.Counter() for _ in BUSY]
        edges = self._edges(windows)
        for waits in self._waits.values():
            waits.lead.clear()

        def parts(start: int, end: int) -> Iterator[Tuple[int, int, int]]:
            at = max(bisect.bisect_right(starts, start) - 1, 0)
            while at < len(windows) and windows[at].start < end:
                low, high = max(start, windows[at].start), min(end, windows[at].end)
                if low < high:
                    yield low, high, at
                at += 1

        finished = 0

        def gap(start: int, end: int, call: Optional[int]) -> None:
            nonlocal finished
            for low, high, at in parts(start, end):
                self._idle(windows[at], low, high, start, call, edges[at])
            while finished < len(windows) and windows[finished].end <= end:  # no later gap begins before this end
                windows[finished].finish()
                finished += 1

        before = -LIMIT
        for i in range(len(work.start)):
            if i % AT_A_LOOK == 0:
                forget()
            if work.device[i] != device:
                continue
            start, end, level = work.start[i], work.end[i], work.level[i]
            if start > before:
                gap(before, start, work.call_of(work.correlation[i]))
            before = max(before, end)
            for n in range(level, len(BUSY)):
                for low, high, at in parts(max(start, reached[n]), end):
                    covered[n][at] += high - low
                reached[n] = max(reached[n], end)
            at = bisect.bisect_right(starts, start) - 1
            if at >= 0 and start < windows[at].end:
                windows[at].launches += 1
        gap(before, LIMIT, None)
        for at, window in enumerate(windows):
            sums = [counter[at] for counter in covered]
            for name, time in zip(BUSY, (sums[0], sums[1] - sums[0], sums[2] - sums[1])):
                window.parts[name] = time
        return windows

    def _edges(self, windows: List[Window]) -> List[Tuple[int, int]]:
        """For each step, the start of the main thread's first operator and the end of its last one."""
        timeline = self._timeline(self.main)
        found = []
        for window in windows:
            forget()
            busy = [(low, high) for low, high, number in timeline.pieces(window.start, window.end)
                    if timeline.states[number].operator >= 0 or timeline.states[number].data >= 0]
            found.append((busy[0][0], busy[-1][1]) if busy else (window.end, window.end))
        return found

    def _idle(self, window: Window, start: int, end: int, since: int, call: Optional[int], edges: Tuple[int, int]) -> None:
        """Classifies idle time of a device. since: the start of the idle time; call: the call that launched the work that ended it."""
        work = self.work
        if call is not None and work.call_end[call] <= since:
            window.add("other", end - start)
            return
        place = self.main if call is None else self._place(work.call_place[call])
        threads = [place] + ([self.main] if self.main != place else [])
        waiting = [self._waits[one] for one in threads if one in self._waits]
        for low, high, cause, calls, lost in self._caused(threads, waiting, start, end):
            if lost >= 0 and low < calls.end[lost]:
                window.add("sync", high - low, calls.cause[lost])
                continue
            if cause.what == "data":
                window.add("data", high - low, cause)
                continue
            around = self._wait_around(threads, low) if waiting and cause.what == "operator" else None
            if around is not None:
                window.add("sync", high - low, around)
                continue
            if lost >= 0:
                left = calls.lead.get(lost)
                if left is None:
                    left = calls.end[lost] - calls.start[lost]
                taken = min(left, high - low)
                calls.lead[lost] = left - taken
                window.add("sync", taken, calls.cause[lost])
                low += taken
            outside = window.step is not None and cause.what == "python" and (cause.optimizer or high <= edges[0] or low >= edges[1])
            window.add("between_steps" if outside else "cpu_late", high - low, cause)

    def _caused(self, threads: List[Any], waiting: List[_Waits], start: int, end: int) -> Iterator[Tuple[int, int, Cause, _Waits, int]]:
        """Cuts a time into pieces in which no thread changes its state, each with the cause in the launching thread, and _wait_at() its start."""
        if len(threads) > 1:
            for low, high in self._cut(threads, start, end):
                yield (low, high, self._doing(threads, low), *self._wait_at(waiting, low))
            return
        timeline, waits = self._timeline(threads[0]), self._waits.get(threads[0], _NONE)
        begins, ends = waits.start, waits.end
        begun, count = bisect.bisect_right(begins, start), len(begins)
        for low, high, number in timeline.pieces(start, end):
            cause = timeline.cause(number)
            while low < high:
                while begun < count and begins[begun] <= low:
                    begun += 1
                until = high
                if begun and low < ends[begun - 1] < until:
                    until = ends[begun - 1]
                if begun < count and begins[begun] < until:
                    until = begins[begun]
                yield low, until, cause, waits, begun - 1
                low = until

    def _cut(self, threads: List[Any], start: int, end: int) -> List[Tuple[int, int]]:
        """Cuts a time into pieces in which no thread changes its state."""
        cuts = {start, end}
        for place in threads:
            cuts.update(low for low, _, _ in self._timeline(place).pieces(start, end))
            waits = self._waits.get(place, _NONE)
            at = waits.since(start - 1)
            while at < len(waits.start) and waits.start[at] < end:
                cuts.update(time for time in (waits.start[at], waits.end[at]) if start < time < end)
                at += 1
        ordered = sorted(cuts)
        return list(zip(ordered, ordered[1:]))

    @staticmethod
    def _wait_at(waiting: List[_Waits], time: int) -> Tuple[_Waits, int]:
        """The calls of a thread and the number of the one that waits at this time, else of the last waiting call that is over; -1 for none."""
        last, number = _NONE, -1
        for waits in waiting:
            at = bisect.bisect_right(waits.start, time) - 1
            if at >= 0:
                if time < waits.end[at]:
                    return waits, at
                if number < 0 or waits.end[at] > last.end[number]:
                    last, number = waits, at
        return last, number

    def _wait_around(self, threads: List[Any], time: int) -> Optional[Cause]:
        """The waiting call inside the operator that runs at this time."""
        for place in threads:
            timeline = self._timeline(place)
            found = timeline.inside.get(timeline.index_at(time)) if timeline.inside else None
            if found is not None:
                return found
        return None

    def _doing(self, threads: List[Any], time: int) -> Cause:
        """The cause in the launching thread, or in the main thread if the launching thread did nothing."""
        cause = NOBODY
        for place in threads:
            timeline = self._timeline(place)
            number = timeline.number_at(time)
            cause = timeline.cause(number)
            if cause.what != "python" or timeline.states[number].function >= 0:
                break
        return cause

    # ---- without a GPU ----

    def _of_cpu(self, windows: List[Window]) -> List[Window]:
        timeline = self._timeline(self.main)
        transfers = self._transfers()
        begins = [start for start, _ in transfers]
        brief = _Brief()
        for window in windows:
            forget()
            for start, end, number in timeline.pieces(window.start, window.end):
                cause = timeline.cause(number)
                brief.see(window, cause, end - start)
                if cause.what in ("data", "collective"):
                    window.parts["waiting." + cause.what] += end - start
                    window.add("waiting", end - start, cause)
                elif cause.what == "operator":
                    window.add("operators", end - start, cause)
                    window.calls[cause, timeline.states[number].caller] += 1
                else:
                    self._outside(window, start, end, cause, transfers, begins)
            brief.end_run(window)
            window.finish()
        return windows

    def _outside(self, window: Window, start: int, end: int, cause: Cause, transfers: List[Tuple[int, int]], begins: List[int]) -> None:
        """Classifies time without an operator: during a transfer the thread waits for it. Behind it the thread waits for a processor, as far as it
        did that at all."""
        at = max(bisect.bisect_right(begins, start) - 1, 0)
        waited = woken = 0
        while at < len(transfers) and transfers[at][0] < end:
            during = min(end, transfers[at][1]) - max(start, transfers[at][0])
            if during > 0:
                waited, woken = waited + during, end - min(end, transfers[at][1])
            at += 1
        queued = min(woken, self._queued_ns)
        self._queued_ns -= queued
        window.parts["waiting.collective"] += waited
        window.add("waiting", waited, Cause("collective", "a transfer", cause.line))
        window.add("outside", queued, Cause("", "a processor, behind a transfer", cause.line))
        own = end - start - waited - queued
        window.add("outside", own, cause)
        if own > PAUSE_NS:
            window.late[cause] += own

    def _transfers(self) -> List[Tuple[int, int]]:
        """The times of transfers between ranks, as a union."""
        numbers = {n for n, kind in enumerate(self.spans.kinds) if kind.is_async and COLLECTIVE.match(kind.name)}
        found: List[Tuple[int, int]] = []
        for row in self.spans.rows.values() if numbers else ():
            found += [(row.start[i], row.end[i]) for i in range(len(row.start)) if row.kind[i] in numbers]
        joined: List[Tuple[int, int]] = []
        for start, end in sorted(found):
            if joined and start <= joined[-1][1]:
                joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
            else:
                joined.append((start, end))
        return joined

    # ---- steps that are left out ----

    def _leave_out(self) -> None:
        """Leaves out the first step, which has set-up and, on a GPU, lacks work of the step before; and steps that compile."""
        compiling = [(row.start[i], row.end[i]) for row in self.spans.rows.values() for numbers in [self._compiling()] if numbers
                     for i in range(len(row.start)) if row.kind[i] in numbers]
        for window in self.windows:
            if any(start < window.end and end > window.start for start, end in compiling):
                window.left_out = COMPILATION
        for device in {window.device for window in self.windows}:
            own = [window for window in self.windows if window.device == device]
            if len(own) > 1:
                own[0].left_out = own[0].left_out or FIRST_STEP
            if all(window.left_out for window in own):
                own[-1].left_out = ""

    def _compiling(self) -> Any:
        return {n for n, kind in enumerate(self.spans.kinds) if COMPILING.search(kind.name)}
