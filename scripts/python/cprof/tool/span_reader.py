# SPDX-License-Identifier: Apache-2.0
"""Reads the spans of a trace into the columns of spans.py, in one pass: whole blocks of text if fast.py has a parser, else event
by event."""

import itertools
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from cprof.tool.categories import CALLS, NO_WORK, WORK, runs_on_device
from cprof.tool.fast import REFUSED_MOST, as_event, fast_numpy, sound_events
from cprof.tool.flops import TORCH_FLOPS
from cprof.tool.reader import Trace
from cprof.tool.spans import (CPU_TYPES, DEVICE_TYPES, FRAME, HIDDEN, LIMIT, MEMORY, PLAIN, WATCHED, Kind, Row, Spans, args_of, int_or_none, module_of, number_in, of_frames, plain_shapes, text_of, to_ns, within)
from cprof.tool.steps import FOREIGN_DIGITS, NAMES, RANGES, STEPS, is_step_name, on_our_row


class Watch:
    """Sees the events of a trace. Spans that it does not watch may be left out."""

    def __call__(self, event: Dict[str, Any]) -> None:
        """Takes an event. Gets all calls and work, and memory of devices."""

    def operators(self, found: List[Any]) -> None:
        """Takes spans of fast.py that have FLOPs, or are recomputed."""
        for one in found:
            self(as_event(one))

    def watches(self, name: str, category: str) -> bool:
        """Whether it must see all spans of this name and category."""
        return category in WATCHED


class Wanted(NamedTuple):
    """What to keep beyond names and times."""
    shapes: bool = False
    stacks: bool = False
    group: Any = None      # function of an event: its result, anything hashable, also separates kinds
    flops: bool = True
    memory: bool = False   # all fields of each [memory] event
    work: bool = False     # the time of each span of a device
    nested: bool = False   # a call without operator is the child of the span around it; in torch's tables it has no parent
    watch: Optional["Watch"] = None  # sees events in the same pass


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
            if wanted.watch:
                wanted.watch(event)
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


class _Quick(NamedTuple):
    """A kind for whose spans name, time and ids are enough."""
    number: int
    is_call: bool
    is_function: bool
    told: bool             # enough only if the span has its FLOPs
    watched: bool


_COLUMNS = ("start", "end", "kind", "external", "stack", "sequence", "forward", "flops")  # in the order of _Reading._spans()
_APART = frozenset((*WORK, "gpu_user_annotation", *NO_WORK))  # categories without a row


def in_ns(times: List[Any]) -> Any:
    """Microseconds, none negative, as an array of numpy of nanoseconds, as by to_ns()."""
    given = fast_numpy().array(times, "d")
    whole = given.astype("q")
    return whole * 1000 + fast_numpy().rint((given - whole) * 1000).astype("q")


def begins_and_ends(times: List[Any], durations: List[Any]) -> Tuple[List[int], List[int]]:
    """Starts and ends in nanoseconds, as by to_ns(). No value may be negative."""
    if fast_numpy() is None:
        begins, lengths = ([whole * 1000 + round((value - whole) * 1000) for value in values for whole in (int(value),)]
                           for values in (times, durations))
        return begins, [begin + length for begin, length in zip(begins, lengths)]
    starts = in_ns(times)
    return starts.tolist(), (starts + in_ns(durations)).tolist() if durations else []


class _Reading:
    """The state of read_spans()."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted, self.spans = wanted, Spans()
        self.with_flops = False
        self.since = -LIMIT   # when the first recorded step began
        self._stacks: Dict[str, int] = {}
        self.written: List[str] = []         # for each stack, the frames in its first span: in a file that was cut off there are no others
        self._open: Dict[Any, Tuple[int, str]] = {}
        self._plain: Dict[Any, int] = {}     # number of a kind by name and category, if these are enough
        self._quick: Dict[Any, _Quick] = {}  # kinds that take() knows, by name, category and group
        self._frames: Dict[Any, int] = {}    # number of a stack by its frame or text
        self._rows: Tuple[Dict[Any, Any], ...] = ({}, {}, {})  # rows by thread: for operators, for calls without one, for other calls
        self._refused = 0
        self._linked_rows: Set[Any] = set()  # places of calls that are linked to an operator
        self._memory_threads: Dict[Any, int] = {}
        self._memory_devices: Dict[Any, int] = {}
        self._step_ranges: List[Tuple[int, int, str]] = []  # like Spans.steps, but not on cprof's row of steps

    def settle_steps(self) -> None:
        """Makes ranges with a step's name the steps if cprof wrote none."""
        spans = self.spans
        if not spans.steps:
            spans.steps = self._step_ranges
            spans.kinds = [kind._replace(name=STEPS) if kind.name == RANGES else kind for kind in spans.kinds]

    def is_before(self, pid: str, start: int) -> bool:
        """Whether it is a marker of a step before the first recorded one, in warmup or skipped. cprof's files begin with such markers, and no table
        has them. Events that come from another tool's trace have larger pids."""
        return start < self.since and len(pid) < FOREIGN_DIGITS

    def event(self, event: Dict[str, Any]) -> None:
        """Takes any event."""
        ph = event.get("ph")
        if ph == "X":
            self.span(event)
        elif ph == "i" or ph == "I":
            if event.get("name") in MEMORY:
                self.memory(event)
        elif ph == "b" or ph == "e":
            self.loose(event, ph)

    def take(self, text: str) -> bool:
        """Takes the events of a text. Returns False if it took none of them."""
        kinds = sound_events() if self._refused < REFUSED_MOST and fast_numpy() is not None else None
        events = kinds.events(text) if kinds else None
        if not kinds or events is None:
            self._refused += 1
            return False
        self._refused = 0
        span_kind, instant_kind = kinds.span, kinds.instant
        self._instants([one for one in events if type(one) is instant_kind])
        by_module, get = self.wanted.group is not None, self._quick.get
        found = [one for one in events if type(one) is span_kind]
        kinds_of = [get((one.name, one.cat, one.args.module if by_module else None)) for one in found]
        if self.wanted.watch:
            self._show(found, kinds_of)
        begun = 0
        for at in [at for at, kind in enumerate(kinds_of) if kind is None or kind.told and found[at].args.flops is None]:
            one, kind = found[at], kinds_of[at]
            if kind is None:
                kinds_of[at] = kind = get((one.name, one.cat, one.args.module if by_module else None))
            if kind is not None and not (kind.told and one.args.flops is None):
                continue  # known since the one before
            if one.cat not in _APART:  # it has a row, which is in the order of the file
                self._spans(found[begun:at], kinds_of[begun:at])
                begun = at + 1
            self.span(as_event(one))
        self._spans(found[begun:], kinds_of[begun:])
        self.spans.columns.trim()
        return True

    def _show(self, found: List[Any], kinds_of: List[Optional["_Quick"]]) -> None:
        """Passes the watched ones of these spans to the watch."""
        watch = self.wanted.watch
        assert watch is not None
        for one in [one for one, kind in zip(found, kinds_of) if kind is None or kind.watched]:
            watch(as_event(one))
        rated = [one for one, kind in zip(found, kinds_of) if (one.args.flops is not None or one.args.recompute is not None) and
                 kind is not None and not kind.watched]
        if rated:
            watch.operators(rated)

    def _spans(self, found: List[Any], kinds_of: List[Optional["_Quick"]]) -> None:
        """Adds spans whose kind take() knows, to rows of the CPU. Skips those with None as kind."""
        if None in kinds_of:
            found = [one for one, kind in zip(found, kinds_of) if kind is not None]
            kinds_of = [kind for kind in kinds_of if kind is not None]
        if not found:
            return
        numpy, args, threads = fast_numpy(), [one.args for one in found], [(one.pid, one.tid) for one in found]
        begins = in_ns([one.ts for one in found])
        ends = begins + in_ns([one.dur for one in found])
        externals = [one.external or 0 for one in args]
        rows: List[Any] = list(map(self._rows[0].get, threads))
        calls = [at for at, kind in enumerate(kinds_of) if kind.is_call]  # type: ignore[union-attr]
        for at in calls:
            rows[at] = self._rows[2 if externals[at] else 1].get(threads[at])
        if None in rows:
            for at, row in enumerate(rows):
                rows[at] = row or self._row_of_quick(threads[at], kinds_of[at].is_call, externals[at])  # type: ignore[union-attr]
        for at in calls:
            externals[at] = externals[at] or self.call_number(args[at].correlation)
        numbers = numpy.array([kind.number for kind in kinds_of], "i")  # type: ignore[union-attr]
        columns: List[Any] = [begins, ends, numbers, numpy.array(externals, "q")]
        if self.wanted.stacks:
            columns += self._stack_columns(found, args, kinds_of)
        if self.wanted.flops:
            columns.append(numpy.array([-1 if one.flops is None else within(one.flops) for one in args], "q"))
        distinct = list(dict.fromkeys(rows))
        of_row = [numpy.array([one is row for one in rows]) if len(distinct) > 1 else numpy.ones(len(rows), bool) for row in distinct]
        if begins.min() < self.since:
            kept = numpy.array([not self.is_before(str(thread[0]), begin) for thread, begin in zip(threads, begins.tolist())])
            of_row = [own & kept for own in of_row]
        if self.wanted.flops and not self.wanted.stacks:
            sums = self.spans.flops
            for at in (columns.pop() >= 0).nonzero()[0].tolist():
                if any(own[at] for own in of_row):
                    number = int(numbers[at])
                    sums[number] = sums.get(number, 0) + args[at].flops
        names = _COLUMNS if self.wanted.stacks else _COLUMNS[:4]
        for row, own in zip(distinct, of_row):
            for name, values in zip(names, columns):
                getattr(row, name).frombytes((values if own.all() else values[own]).view("B"))

    def _stack_columns(self, found: List[Any], args: List[Any], kinds_of: List[Any]) -> List[Any]:
        """The columns stack number, sequence number and forward of these spans."""
        numpy, get = fast_numpy(), self._frames.get
        keys = [(one.sf is None, one.sf if one.sf is not None else arg.stack or arg.source or None) for one, arg in zip(found, args)]
        stacks = list(map(get, keys))
        if None in stacks:
            for at in [at for at, number in enumerate(stacks) if number is None]:
                key, written = keys[at], args[at].stack or args[at].source
                number = get(key)
                if number is None:
                    number = self._frames[key] = self._stack_of(str(key[1]) if key[0] else f"{FRAME}{key[1]}", written) if key[1] is not None else -1
                stacks[at] = number
        self.spans.has_stacks |= max(stacks) >= 0 or any(kind.is_function for kind in kinds_of)  # type: ignore[type-var, operator]
        sequences = numpy.array([-1 if arg.sequence is None else arg.sequence for arg in args], "q")
        sequences[sequences < 0] = -1
        forward = (sequences >= 0) & numpy.array([arg.forward is not None and arg.forward > 0 for arg in args])
        return [numpy.array(stacks, "i"), sequences, forward]

    def _instants(self, found: List[Any]) -> None:
        """Takes instant events, such as [memory] and [OutOfMemory]."""
        watch, spans, numpy = self.wanted.watch, self.spans, fast_numpy()
        for one in found if watch else ():
            if one.name != MEMORY[0] or one.args.type not in CPU_TYPES:
                watch(as_event(one))
        taken = [one for one in found if one.name == MEMORY[0] and one.args.Bytes is not None]
        spans.bad += sum(one.name in MEMORY and one.args.Bytes is None for one in found) if len(taken) < len(found) else 0
        if not taken:
            return
        spans.has_memory = True
        args = [one.args for one in taken]
        values = [in_ns([one.ts for one in taken]),
                  [one.Bytes if one.type in CPU_TYPES else 0 for one in args], [one.Bytes if one.type in DEVICE_TYPES else 0 for one in args]]
        targets = [spans.memory_time, spans.memory_bytes, spans.memory_device]
        if self.wanted.memory:
            threads, devices = [(one.pid, one.tid) for one in taken], [(one.type, one.id) for one in args]
            numbers, places = list(map(self._memory_threads.get, threads)), list(map(self._memory_devices.get, devices))
            if None in numbers:
                numbers = [self._memory_thread(one) for one in threads]
            if None in places:
                places = [self._memory_device(*one) for one in devices]
            values += [numbers, places, [one.Addr or 0 for one in args], [one.total or 0 for one in args]]
            targets += spans.memory_more
        for target, value in zip(targets, values):
            target.frombytes(numpy.array(value, target.typecode).view("B"))

    def _row_of_quick(self, thread: Tuple[int, int], is_call: bool, external: int) -> Row:
        """The row of a span that take() knows."""
        rows = self._rows[0 if not is_call else 2 if external else 1]
        row = rows.get(thread)
        if row is None:
            place = (str(thread[0]), str(thread[1]), is_call and not external and not self.wanted.nested)
            row = rows[thread] = self.row_of(place, is_call, external)
        return row

    def _is_quick(self, name: str, category: str) -> bool:
        """Whether name and category are enough for take()."""
        return category in PLAIN and not is_step_name(name) and not name.startswith("nn.Module: ")

    def row_of(self, place: Tuple[str, str, bool], is_call: bool, external: int) -> Row:
        """The row of a span at this place."""
        if not is_call:
            self.spans.operator_rows.add(place)
        elif external:
            self._linked_rows.add(place)
        return self.spans.row(place)

    def call_number(self, correlation: Any) -> int:
        """The number that joins work to a call without an operator: none in torch's tables, else a negative one, unlike any External id."""
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
            watch = self.wanted.watch
            self._quick[name, category, self.spans.kinds[number].group] = _Quick(
                number, category in CALLS, category == "python_function", self.with_flops and category == "cpu_op" and name in TORCH_FLOPS,
                watch is not None and watch.watches(name, category))
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
            self._keep_stack(row, args.get("Call stack") or args.get("source"), args.get("Sequence number"), args.get("Fwd thread id"), category, event.get("sf"))
            if self.wanted.flops:
                row.flops.append(-1 if flops is None else within(flops) if told else -2 - within(flops))
        elif flops is not None and told:
            spans.flops[number] = spans.flops.get(number, 0) + flops
        elif flops is not None:  # one of two nested spans is dropped later, when the tree is known
            row.shaped.append(spans.columns.length(row.start) - 1)
            row.shaped_flops.append(within(flops))

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
        text = f"{FRAME}{frame}" if type(frame) in (int, str) else written  # the file's stackFrames also have the native frames
        if type(text) is str and text:
            number = self._stack_of(text, written)
            self.spans.has_stacks = True
        else:
            number = -1
        if category == "python_function":
            self.spans.has_stacks = True
        has_sequence = type(sequence) is int and 0 <= sequence < LIMIT
        row.sequence.append(sequence if has_sequence else -1)
        row.forward.append(has_sequence and type(forward) is int and forward > 0)
        row.stack.append(number)

    def _stack_of(self, text: str, written: Any) -> int:
        """The number of a stack."""
        number = self._stacks.get(text)
        if number is None:
            number = self._stacks[text] = len(self.spans.stacks)
            self.spans.stacks.append(text)
            self.written.append(written if type(written) is str else "")
        return number

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
        """Takes a [memory] or [OutOfMemory] event."""
        spans, args, at = self.spans, args_of(event), to_ns(event.get("ts"))
        size = int_or_none(args.get("Bytes"))
        if at is None or size is None:
            spans.bad += 1
        elif event.get("name") == MEMORY[0]:
            self._memory((text_of(event.get("pid")), text_of(event.get("tid"))), at, size, int_or_none(args.get("Device Type")), args.get("Device Id"),
                         int_or_none(args.get("Addr")), int_or_none(args.get("Total Allocated")))

    def _memory(self, thread: Tuple[Any, Any], at: int, size: int, device: Optional[int], index: Any, address: Optional[int],
                total: Optional[int]) -> None:
        spans = self.spans
        spans.has_memory = True
        spans.memory_time.append(at)
        spans.memory_bytes.append(size if device in CPU_TYPES else 0)
        spans.memory_device.append(size if device in DEVICE_TYPES else 0)
        if self.wanted.memory:
            values = (self._memory_thread(thread), self._memory_device(device, index), address or 0, total or 0)
            for column, value in zip(spans.memory_more, values):
                column.append(value)

    def _memory_thread(self, thread: Tuple[Any, Any]) -> int:
        number = self._memory_threads.get(thread)
        if number is None:
            number = self._memory_threads[thread] = number_in(
                self._memory_threads, (text_of(thread[0]), text_of(thread[1]), False), self.spans.memory_threads)
        return number

    def _memory_device(self, device: Optional[int], index: Any) -> int:
        key = device, index if type(index) is int and index >= 0 else 0
        number = self._memory_devices.get(key)
        if number is None:
            kind = "cpu" if device in CPU_TYPES else "xpu" if device == 12 else "cuda"
            number = self._memory_devices[key] = number_in(
                self._memory_devices, kind if kind == "cpu" else f"{kind}:{key[1]}", self.spans.memory_devices)
        return number

    def loose(self, event: Dict[str, Any], ph: str) -> None:
        """Takes the begin or end of a range that may end on another thread: torch calls it async."""
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
        """Moves calls on a row of their own, whose thread number is wrong, to the thread of the operators that they are
        linked to."""
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
