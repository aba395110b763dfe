# SPDX-License-Identifier: Apache-2.0
"""The events of a trace as columns of Arrow, block by block, in the order of the file.

    outline = Outline(path)                    # a first pass: what columns need from elsewhere in the file
    columns = EventColumns(outline, 0)         # 0: the number of the trace, a column
    batch = columns.batch(events)              # a record batch of schema()

Only spans, instants, counters and halves of ranges are events here: an arrow repeats ids of the events at its ends. Whole columns are converted
at once. A column in which some value has another type is converted value by value, with null for what does not fit."""

import bisect
import itertools
import json
import marshal
from array import array
from typing import Any, Callable, Dict, Iterable, List, Optional, Set, Tuple, Union

from cprof.tool.arrow import pyarrow
from cprof.tool.categories import CALLS, WORK, runs_on_device
from cprof.tool.collectives import base_of, kind_of
from cprof.tool.fast import chosen_events
from cprof.tool.progress import Progress
from cprof.tool.reader import open_trace
from cprof.tool.spans import CPU_TYPES, FRAME, LIMIT, MEMORY, args_of, in_order, int_or_none, of_frames, step_number, text_of, to_ns
from cprof.tool.steps import NAMES, on_our_row
from cprof.tool.thread_states import line_of

PHASES = ("X", "i", "I", "C", "b", "e")
NUMBERS = {"stream": "stream", "external_id": "External id", "correlation": "correlation", "sequence": "Sequence number",
           "forward_thread": "Fwd thread id", "flops": "flops", "group_size": "Group size", "collective_seq": "Seq", "elements_in": "In msg nelems",
           "elements_out": "Out msg nelems", "address": "Addr", "allocated": "Total Allocated", "reserved": "Total Reserved"}
TEXTS = {"module": "Module Hierarchy", "collective": "Collective name", "dtype": "dtype", "communicator": "Process Group Name"}
# Args with a column, and numbers that mean something to the profiler only.
TAKEN = frozenset((*NUMBERS.values(), *TEXTS.values(), "bytes", "Bytes", "device", "Device Type", "Device Id", "Call stack", "Input Dims", "Ev Idx",
                   "Record function id"))
CPU = "cpu"
COMPUTATION, COMMUNICATION, COPY = "computation", "communication", "copy"
KEPT_MOST = 1 << 16       # results that are kept of one function
KEPT_BYTES = 16 << 20     # of their keys and texts
BASE_MOST = 1 << 62       # with the latest time of a trace it fits into 64 bits
US_MOST = 4e15            # times up to here are exact nanoseconds
_NO_ARGS: Dict[str, Any] = {}


def schema() -> Any:
    """The columns of an event."""
    pa = pyarrow()
    text, number = pa.string(), pa.int64()
    return pa.schema([("trace", pa.int32()), ("ts_ns", number), ("dur_ns", number), ("phase", text), ("category", text), ("name", text),
                      ("device", text), ("work", text), ("step", number), ("pid", number), ("tid", number), ("thread", text),
                      *((name, number) for name in NUMBERS), ("bytes", number), *((name, text) for name in TEXTS), ("line", text), ("series", text),
                      ("value", pa.float64()), ("shapes", text), ("args", text)])


class Outline:
    """What must be known of a trace before its events: the zero of its times, its steps, the names of threads, and which step launched which work.
    Times are nanoseconds."""

    def __init__(self, path: str, progress: Union[bool, Progress] = False) -> None:
        self.threads: Dict[Tuple[Any, Any], str] = {}
        self._correlations, self._starts = array("q"), array("q")
        self._steps: List[Tuple[int, int, int]] = []
        self._ranges: List[Tuple[int, int, int]] = []   # with a step's name: steps if there are no others (steps.py)
        with open_trace(path, progress) as trace:
            self._chosen = chosen_events(_is_wanted)
            trace.of_one_rank().take_text = self._take
            for block in trace.blocks():
                self._see(event for event in block if _is_wanted(event.get("ph"), event.get("cat"), event.get("name")))
            metadata = trace.of_one_rank().metadata
        base = base_of(metadata)
        self.base = base if 0 <= base < BASE_MOST else 0
        self.frames = metadata.get("stackFrames")
        self._steps = sorted(self._steps or self._ranges)
        self._step_starts = [start for start, _, _ in self._steps]
        self._sort_calls()

    def _take(self, text: str) -> bool:
        """Takes a text of events. Returns False if it took none."""
        found = self._chosen(text) if self._chosen else None
        if found is not None:
            self._see(found)
        return found is not None

    def _see(self, events: Iterable[Dict[str, Any]]) -> None:
        for event in events:
            if event["ph"] == "M":
                self.threads[text_of(event.get("pid")), text_of(event.get("tid"))] = text_of(args_of(event).get("name"))
            elif event.get("cat") in CALLS:
                start, correlation = to_ns(event.get("ts")), int_or_none(args_of(event).get("correlation"))
                if start is not None and correlation:
                    self._starts.append(start)
                    self._correlations.append(correlation)
            else:
                start, number = to_ns(event.get("ts")), step_number(event["name"])
                if start is not None and number is not None:
                    end = start + max(to_ns(event.get("dur")) or 0, 0)
                    (self._steps if on_our_row(event) else self._ranges).append((start, end, number))

    def _sort_calls(self) -> None:
        """Sorts the calls by correlation id."""
        order = array("q", in_order(len(self._correlations), self._correlations.__getitem__))
        self._correlations, self._starts = (array("q", map(one.__getitem__, order)) for one in (self._correlations, self._starts))

    def span_at(self, time: int) -> Tuple[int, int, Optional[int]]:
        """The start, end and number of the step at a time; of the time between two steps, without a number."""
        at = bisect.bisect_right(self._step_starts, time)
        following = self._step_starts[at] if at < len(self._steps) else LIMIT
        if not at:
            return -LIMIT, following, None
        start, end, number = self._steps[at - 1]
        return (start, min(end, following), number) if time < end else (end, following, None)

    def launched_at(self, correlation: Any, otherwise: int) -> int:
        """When the call with this correlation id began."""
        number = int_or_none(correlation) or 0
        at = bisect.bisect_left(self._correlations, number)
        return self._starts[at] if number and at < len(self._correlations) and self._correlations[at] == number else otherwise


def _is_wanted(phase: Any, category: Any, name: Any) -> bool:
    """Whether an outline needs such an event: the name of a thread, a call, or a step."""
    if phase == "X":
        return category in CALLS or type(name) is str and name.startswith(NAMES) and category != "gpu_user_annotation"
    return phase == "M" and name == "thread_name"


# ---- values ----

def as_text(value: Any) -> str:
    """The value as text that UTF-8 can encode: lone surrogates, which stand for bytes that are no UTF-8, are escaped."""
    return text_of(value).encode("utf-8", "backslashreplace").decode()


def _no_bools(values: List[Any]) -> List[Any]:
    """The values. Raises a TypeError if one is true or false, which Arrow takes for a float."""
    if bool in set(map(type, values)):
        raise TypeError
    return values


def _array(values: List[Any], kind: Any, one_by_one: Callable[[Any], Any]) -> Any:
    """The values as an array of Arrow."""
    pa = pyarrow()
    try:
        return pa.array(_no_bools(values) if kind == pa.float64() else values, kind)
    except (TypeError, ValueError, OverflowError):
        return pa.array([None if value is None else one_by_one(value) for value in values], kind)


def _float(value: Any) -> Optional[float]:
    try:
        return float(value) if type(value) in (int, float) else None
    except OverflowError:
        return None


def _as_json(value: Any) -> str:
    """The value as strict JSON in ASCII."""
    try:
        return json.dumps(value, allow_nan=False)
    except ValueError:
        return json.dumps(json.loads(json.dumps(value), parse_constant=lambda name: None))


class _Known:
    """The texts that a function makes of JSON values, by value."""

    def __init__(self, function: Callable[[Any], str]) -> None:
        self._function = function
        self._found: Dict[Any, str] = {}
        self._bytes = 0

    def __call__(self, value: Any) -> str:
        try:
            key = marshal.dumps(value, 2)  # this version has no references: equal values have equal bytes
        except ValueError:  # nested too deeply for it
            return self._function(value)
        found = self._found.get(key)
        if found is None:
            found = self._function(value)
            self._bytes += len(key) + len(found)
            if len(self._found) >= KEPT_MOST or self._bytes > KEPT_BYTES:
                self._found.clear()
                self._bytes = len(key) + len(found)
            self._found[key] = found
        return found


class EventColumns:
    """Converts blocks of events of one trace."""

    def __init__(self, outline: Outline, number: int) -> None:
        self.spans = self.events = 0            # events with a duration; all events
        self.begin, self.end = LIMIT, -LIMIT    # of all events, absolute
        self._outline, self._number, self._schema = outline, number, schema()
        self._json, self._lines = _Known(_as_json), _Known(self._line_of)
        self._rest: Dict[Tuple[str, ...], Tuple[str, ...]] = {}  # by the keys of args: those without a column
        self._works: Dict[Any, Any] = {}
        self._threads: Dict[Any, Any] = {}
        self._span: Tuple[int, int, Optional[int]] = (0, 0, None)

    def batch(self, block: List[Dict[str, Any]]) -> Any:
        """The events of a block as a record batch. Leaves out those without a time."""
        events = [event for event in block if event.get("ph") in PHASES]
        starts = _nanoseconds([event.get("ts") for event in events])
        if starts.null_count:
            events = [event for event, is_time in zip(events, starts.is_valid().to_pylist()) if is_time]
            starts = starts.drop_null()
        pa = pyarrow()
        args = [args_of(event) for event in events]
        durations = pa.compute.max_element_wise(_nanoseconds([event.get("dur") for event in events]), 0, skip_nulls=False)
        self._note(len(events), starts, durations)
        found = {"ts_ns": pa.compute.add(starts, self._outline.base), "dur_ns": durations}
        keys = set().union(*args)
        for name, values in self._columns(events, args, starts.to_pylist(), keys).items():
            kind = self._schema.field(name).type
            found[name] = _array(values, kind, as_text if kind == pa.string() else _float if kind == pa.float64() else int_or_none)
        return pa.record_batch([found[field.name] if field.name in found else pa.nulls(len(events), field.type) for field in self._schema],
                               schema=self._schema)

    def _columns(self, events: List[Dict[str, Any]], args: List[Dict[str, Any]], starts: List[int], keys: Set[str]) -> Dict[str, List[Any]]:
        """The values of all columns but times. Columns without a value are left out. keys: those of all args."""
        phases, categories, names, pids, tids = ([event.get(key) for event in events] for key in ("ph", "cat", "name", "pid", "tid"))
        columns = {"trace": [self._number] * len(events), "phase": phases, "category": categories, "name": names, "pid": pids, "tid": tids,
                   "device": [CPU if category == "cpu_op" else _device(*pair) for category, *pair in zip(categories, events, args)],
                   "work": _by_key(list(zip(phases, names, _told_apart(categories, args))), self._works, _work),
                   "step": self._steps(categories, args, starts), "thread": _by_key(list(zip(pids, tids)), self._threads, self._thread)}
        for name, key in (*NUMBERS.items(), *TEXTS.items()):
            if key in keys:
                columns[name] = list(map(dict.get, args, itertools.repeat(key)))
        if not keys.isdisjoint(("bytes", "Bytes")):
            columns["bytes"] = [one.get("bytes", one.get("Bytes")) for one in args]
        if "Input Dims" in keys:
            columns["shapes"] = [self._json(one["Input Dims"]) if "Input Dims" in one else None for one in args]
        if "Call stack" in keys or self._outline.frames:
            stacks = [one.get("Call stack") or event.get("sf") for event, one in zip(events, args)]
            columns["line"] = [self._lines(stack) or None if stack is not None else None for stack in stacks]
        if "C" in phases:
            series = [one if phase == "C" and len(one) == 1 else _NO_ARGS for phase, one in zip(phases, args)]
            columns["series"] = [next(iter(one), None) for one in series]
            columns["value"] = [next(iter(one.values()), None) for one in series]
            args = [one if not alone else _NO_ARGS for one, alone in zip(args, series)]
        columns["args"] = list(map(self._other, args))
        return columns

    def _note(self, count: int, starts: Any, durations: Any) -> None:
        pc = pyarrow().compute
        self.events += count
        self.spans += count - durations.null_count
        if count:
            self.begin = min(self.begin, pc.min(starts).as_py() + self._outline.base)
            self.end = max(self.end, pc.max(pc.add(starts, pc.fill_null(durations, 0))).as_py() + self._outline.base)

    def _steps(self, categories: List[Any], args: List[Dict[str, Any]], starts: List[int]) -> List[Optional[int]]:
        """The step in which each event began; of a device's work the step in which it was launched."""
        outline, found = self._outline, []
        low, high, step = self._span
        for category, one, start in zip(categories, args, starts):
            if category in WORK:
                start = outline.launched_at(one.get("correlation"), start)
            if not low <= start < high:
                low, high, step = outline.span_at(start)
            found.append(step)
        self._span = low, high, step
        return found

    def _thread(self, place: Tuple[Any, Any]) -> Optional[str]:
        return self._outline.threads.get((text_of(place[0]), text_of(place[1])))

    def _line_of(self, stack: Any) -> str:
        """The program's line of a stack, or of the number of a frame."""
        text = stack if type(stack) is str and ";" in stack else of_frames(f"{FRAME}{stack}", self._outline.frames)
        return line_of([frame for frame in text.split(";") if frame])

    def _other(self, args: Dict[str, Any]) -> Optional[str]:
        """The args without a column, as JSON."""
        keys = tuple(args)
        rest = self._rest.get(keys)
        if rest is None:
            if len(self._rest) >= KEPT_MOST:
                self._rest.clear()
            rest = self._rest[keys] = tuple(key for key in keys if key not in TAKEN)
        return self._json({key: args[key] for key in rest}) if rest else None


def _told_apart(categories: List[Any], args: List[Dict[str, Any]]) -> List[Any]:
    """The categories for _work(): "" for a collective's call on the CPU, whose args alone tell it from work of a device."""
    if "collective_comm" not in categories:
        return categories
    return ["" if category == "collective_comm" and not runs_on_device(category, one) else category for category, one in zip(categories, args)]


def _work(key: Tuple[Any, Any, Any]) -> Optional[str]:
    """The kind of a device's work as in moments.py; also of a call or range that lasts as long as the communication."""
    phase, name, category = key
    if phase != "X" or type(name) is not str or type(category) is not str:
        return None
    if category == "collective_comm" or kind_of(name, category) is not None:
        return COMMUNICATION
    return COPY if category == "gpu_memcpy" else COMPUTATION if category in WORK else None


def _device(event: Dict[str, Any], args: Dict[str, Any]) -> str:
    """Where an event ran, or the memory lies."""
    category = event.get("cat")
    if runs_on_device(category, args) or category == "cuda_sync":
        return f"cuda:{text_of(args.get('device', event.get('pid')))}"
    kind = int_or_none(args.get("Device Type")) if event.get("name") in MEMORY else None
    return CPU if kind is None or kind in CPU_TYPES else f"{'xpu' if kind == 12 else 'cuda'}:{text_of(args.get('Device Id'))}"


def _by_key(keys: List[Any], known: Dict[Any, Any], function: Callable[[Any], Any]) -> List[Any]:
    """function(key) of each key. Calls it once for each key that is not known yet."""
    try:
        new = set(keys) - known.keys()
    except TypeError:  # a list or an object where a name or number belongs
        return [function(key) for key in keys]
    if len(known) + len(new) > KEPT_MOST:
        known.clear()
        new = set(keys)
    known.update((key, function(key)) for key in new)
    return list(map(known.__getitem__, keys))


def _nanoseconds(us: List[Any]) -> Any:
    """Microseconds as nanoseconds, each as by to_ns()."""
    pa = pyarrow()
    pc = pa.compute
    try:
        given = pa.array(_no_bools(us), pa.float64())
        limits = pc.min_max(given).as_py()
        if limits["min"] is None or -US_MOST < limits["min"] and limits["max"] < US_MOST:
            whole = pc.trunc(given)
            parts = pc.round(pc.multiply(pc.subtract(given, whole), 1000.0))
            return pc.add(pc.multiply(whole.cast(pa.int64()), 1000), parts.cast(pa.int64()))
    except (TypeError, ValueError, OverflowError):
        pass
    return pa.array([None if value is None else to_ns(value) for value in us], pa.int64())
