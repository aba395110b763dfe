# SPDX-License-Identifier: Apache-2.0
"""The rules of `cprof check` between events: nesting on each row, and the order of events on CPU and GPU.

Keeps a few numbers of each event, in columns (columns.py).
"""

import itertools
from typing import Any, Dict, Iterator, List, Optional, Set, Tuple

from cprof.tool.columns import Columns, forget
from cprof.tool.fast import as_event
from cprof.tool.progress import Progress
from cprof.tool.categories import CALLS, WORK, runs_on_device
from cprof.tool.span_reader import begins_and_ends
from cprof.tool.spans import AT_A_TIME, args_of, in_order, in_time, int_or_none, text_of, to_ns
from cprof.tool.steps import ROW

RECORDS = ("cudaEventRecord", "cudaEventRecord_ptsz", "cudaEventRecordWithFlags", "cudaEventRecordWithFlags_ptsz",
           "cuEventRecord", "cuEventRecordWithFlags")
COMMUNICATION_NAME = "record_param_comms"
COMMUNICATION = ("Collective name", "dtype", "In msg nelems", "Out msg nelems", "Group size")
EVALUATE = "autograd::engine::evaluate_function:"
_MORE = frozenset((*CALLS, *WORK, "cuda_sync", "collective_comm", "gpu_user_annotation"))  # categories with rules beyond name and time
MAX_DEPTH = 512
SEQUENCES = 1 << 16  # sequence numbers of the backward pass to remember: a number comes twice only within a step
FIRST_CPU_PID = 4096


def paired(left: Any, right: Any, progress: Optional[Progress] = None) -> Iterator[Tuple[int, List[int], List[int]]]:
    """(key, indices in left, indices in right) for each key of the two columns, in order of keys."""
    sides = [(iter(in_order(len(keys), keys.__getitem__, progress)), keys) for keys in (left, right)]
    ahead = [next(order, None) for order, _ in sides]
    n = 0
    while ahead != [None, None]:
        n += 1
        if n % AT_A_TIME == 0:
            forget()
            if progress:
                progress.add(AT_A_TIME)
        key = min(keys[i] for i, (_, keys) in zip(ahead, sides) if i is not None)
        found: List[List[int]] = [[], []]
        for side, (order, keys) in enumerate(sides):
            i = ahead[side]
            while i is not None and keys[i] == key:
                found[side].append(i)
                i = next(order, None)
            ahead[side] = i
        yield key, found[0], found[1]


def _of_part(part: int, number: Any) -> Any:
    """The number made unique among the parts of a merged trace; unchanged in a trace of one rank."""
    return number + (part << 40) if part and number is not None and 0 < number < 1 << 40 else number


def _sequence(event: Dict[str, Any], args: Dict[str, Any], part: int) -> Tuple[str, str]:
    """(text of the sequence number, its process). torch counts sequence numbers on each thread of the forward pass. If the event does not name
    that thread (no field, or 0), it is the thread of the backward pass, as is right without a GPU. cprof always names the thread."""
    forward = int_or_none(args.get("Fwd thread id"))
    whose = f"thread {forward}" if forward else f"row {text_of(event.get('tid'))}"
    words = f"{args['Sequence number']} of {whose}" + (f" of trace {part}" if part else "")
    return words, text_of(event.get("pid"))


class _Parts:
    """Tells which part of a merged trace an event belongs to. The parts follow each other, each with the names and the order of its rows at its
    end. Two parts may have the same rank, and their numbers begin anew."""

    def __init__(self) -> None:
        self._number = 1
        self._ends = False

    def of(self, event: Dict[str, Any]) -> int:
        """The number of the event's part, from 1."""
        name = event.get("name") if event.get("ph") == "M" else ""
        if self._ends and name not in ("process_name", "process_sort_index"):
            self._number += 1
            self._ends = False
        self._ends |= name == "process_sort_index"
        return self._number


class _Row:
    __slots__ = ("start", "end", "name", "device")

    def __init__(self, columns: Columns) -> None:
        self.start, self.end, self.name = (columns.new(typecode) for typecode in "qqi")
        self.device = False


class Relations:
    """Takes all well-formed events; end() reports broken rules. merged: ids in args are unique only within a part."""

    def __init__(self, found: Any, columns: Columns, merged: bool = False) -> None:
        self.found, self._parts = found, _Parts() if merged else None
        self._columns = columns
        self._progress: Optional[Progress] = None
        self._names: Dict[str, int] = {}
        self._rows: Dict[Any, _Row] = {}
        self._plain: Dict[str, int] = {}                   # numbers of the names without further rules, of spans of fast.py's
        self._threads: Dict[Any, _Row] = {}                # their rows, by (pid, tid)
        self._calls: List[Any] = [columns.new(typecode) for typecode in "qqi"]  # correlation, start, name
        self._work: List[Any] = [columns.new(typecode) for typecode in "qqi"]   # likewise
        self._records: Dict[int, int] = {}                 # recordings of events: by correlation and External id
        self._waits = [columns.new("q"), columns.new("q")]  # start, recording waited for
        self._syncs: Dict[Any, List[Any]] = {}             # waits for a stream, by (device, stream): starts and ends
        self._streams: Dict[Any, List[Any]] = {}           # kernels, likewise
        self._backward: Dict[Any, Any] = {}                # by _sequence(): the name, or a set of several names
        self._named: Set[Any] = set()
        self._own_steps: Set[int] = set()                  # parts in which cprof wrote steps
        self._step_ranges: Dict[int, List[Any]] = {}       # by part: count and first of the ranges on other rows that have a step's name
        self._fractions = False                            # times have fractions of microseconds

    def name_thread(self, pid: Any, tid: Any) -> None:
        """Notes that the thread has a name."""
        self._named.add((text_of(pid), text_of(tid)))

    def spans(self, found: List[Any]) -> None:
        """Takes spans of fast.py's class, in a trace of one rank."""
        names = [self._plain.get(one.name, -1) if one.cat not in _MORE else -1 for one in found]
        for at in [at for at, number in enumerate(names) if number < 0]:
            one = found[at]
            names[at] = self._number(one.name)
            if one.cat in _MORE or one.name == COMMUNICATION_NAME or one.name.startswith("ProfilerStep") or EVALUATE in one.name:
                event = as_event(one)
                self._more(event, 0)
                if one.cat in _MORE and self._is_devices(one.cat, event):
                    self._row(text_of(one.pid), text_of(one.tid)).device = True
            else:
                self._plain[one.name] = names[at]
        self._plain_spans(found, names)

    def _plain_spans(self, found: List[Any], names: List[int]) -> None:
        """Keeps the spans' names and times."""
        if not found:
            return
        times = [one.ts for one in found]
        begins, ends = begins_and_ends(times, [one.dur for one in found])
        self._fractions |= float in map(type, times)
        rows: List[Any] = [self._threads.get((one.pid, one.tid)) for one in found]
        for at in [at for at, row in enumerate(rows) if row is None]:
            one = found[at]
            rows[at] = self._threads[one.pid, one.tid] = self._row(text_of(one.pid), text_of(one.tid))
        for row in dict.fromkeys(rows):
            own = [one is row for one in rows]
            for column, values in ((row.start, begins), (row.end, ends), (row.name, names)):
                column.extend(values if all(own) else itertools.compress(values, own))

    def _row(self, pid: str, tid: str) -> _Row:
        row = self._rows.get((pid, tid))
        if row is None:
            row = self._rows[pid, tid] = _Row(self._columns)
        return row

    def event(self, event: Dict[str, Any]) -> None:
        """Takes an event."""
        ph = event.get("ph")
        part = self._parts.of(event) if self._parts else 0
        if ph == "M" and event.get("name") == "thread_name":
            self.name_thread(event.get("pid"), event.get("tid"))
        if ph != "X":
            return
        start, duration = to_ns(event["ts"]) or 0, to_ns(event["dur"]) or 0
        self._fractions |= type(event["ts"]) is float
        self._keep(event, event["name"], event.get("cat"), start, start + duration)
        self._more(event, part)

    def _more(self, event: Dict[str, Any], part: int) -> None:
        """Keeps what the rules need of a span beyond its name and times."""
        start, duration = to_ns(event["ts"]) or 0, to_ns(event["dur"]) or 0
        name, category, args = event["name"], event.get("cat"), args_of(event)
        if category in CALLS:
            self._call(name, args, start, part)
        elif category in WORK:
            self._work_row(event, name, category, args, start, duration, part)
        elif category == "cuda_sync":
            self._sync(event, args, start, duration, part)
        if name.startswith("ProfilerStep"):
            self._step(event, part)
        if name == COMMUNICATION_NAME and not all(key in args for key in COMMUNICATION):
            lacks = [key for key in COMMUNICATION if key not in args]
            self.found.habit("record_param_comms lacks what readers of collectives need", ", ".join(lacks))
        if EVALUATE in name:
            if args.get("Sequence number"):
                self._function(_sequence(event, args, part), name)

    def _step(self, event: Dict[str, Any], part: int) -> None:
        """Takes a span whose name readers take for a step."""
        what = f"{event['name'][:60]!r} at {event['ts']}"
        if event.get("cat") == "gpu_user_annotation":
            self.found.own("a range of a GPU has a step's name: HTA and TensorBoard take it for one more step", what)
        elif text_of(event.get("tid")) == ROW:
            self._own_steps.add(part)
        else:
            self._step_ranges.setdefault(part, [0, what])[0] += 1

    def _tell_steps(self) -> None:
        """Reports ranges with a step's name beside cprof's steps. Without cprof's steps they are the steps."""
        for part in self._own_steps & self._step_ranges.keys():
            count, what = self._step_ranges[part]
            self.found.own("a range has the name of cprof's steps: readers take it for one more step", what, count)

    def _function(self, sequence: Tuple[str, str], name: str) -> None:
        """Takes a function of the backward pass."""
        before = self._backward.setdefault(sequence, name)
        if name not in (before if type(before) is set else (before,)):
            self._backward[sequence] = {name, *(before if type(before) is set else (before,))}
        if len(self._backward) > SEQUENCES:
            self._tell_functions(next(iter(self._backward)))

    def _tell_functions(self, sequence: Tuple[str, str]) -> None:
        names = self._backward.pop(sequence)
        if type(names) is set:
            self.found.habit("one Sequence number of several backward operators", f"{sequence[0]}: {', '.join(sorted(names))[:160]}")

    def _number(self, name: str) -> int:
        return self._names.setdefault(name, len(self._names))

    @staticmethod
    def _is_devices(category: Any, event: Dict[str, Any]) -> bool:
        """Whether an event of this category is on the row of a device."""
        return category == "cuda_sync" or runs_on_device(category, args_of(event))

    def _keep(self, event: Dict[str, Any], name: str, category: Any, start: int, end: int) -> None:
        row = self._row(text_of(event.get("pid")), text_of(event.get("tid")))
        row.device |= self._is_devices(category, event)
        row.start.append(start)
        row.end.append(end)
        row.name.append(self._number(name))

    def _call(self, name: str, args: Dict[str, Any], start: int, part: int) -> None:
        correlation, external = (_of_part(part, int_or_none(args.get(key))) for key in ("correlation", "External id"))
        if correlation is not None and correlation > 0:
            for values, value in zip(self._calls, (correlation, start, self._number(name))):
                values.append(value)
        if name in RECORDS:
            for number in (external, correlation):
                if number is not None:
                    self._records[number] = min(start, self._records.get(number, start))

    def _work_row(self, event: Dict[str, Any], name: str, category: str, args: Dict[str, Any], start: int,
                  duration: int, part: int) -> None:
        correlation = _of_part(part, int_or_none(args.get("correlation")))
        if correlation is not None and correlation > 0:
            for values, value in zip(self._work, (correlation, start, self._number(name))):
                values.append(value)
        if category == "kernel":
            key = (str(args.get("device")), str(args.get("stream")), part)
            if key not in self._streams:
                self._streams[key] = [self._columns.new("q"), self._columns.new("q")]
            starts, ends = self._streams[key]
            starts.append(start)
            ends.append(start + duration)
        device = args.get("device", args.get("inDevice"))
        pid = event.get("pid")
        # A larger pid is no device number: `cprof merge` renumbers the GPUs of the ranks.
        if type(device) is int and type(pid) is int and device != pid and pid < FIRST_CPU_PID:
            self.found.own("work of one GPU on the row of another", f"{name[:80]}: device {device}, pid {event['pid']}")

    def _sync(self, event: Dict[str, Any], args: Dict[str, Any], start: int, duration: int, part: int) -> None:
        kind = args.get("cuda_sync_kind")
        if kind in ("Stream Wait Event", "Event Sync"):
            waited = int_or_none(args.get("wait_on_cuda_event_record_corr_id"))
            if waited is None or waited < 0:
                # CUPTI does not know a recording from before the window, so the trace cannot name it.
                self.found.add("warning", "a wait for an event whose recording is not known", f"{kind} at {event['ts']}")
            elif kind == "Stream Wait Event":
                self._waits[0].append(start)
                self._waits[1].append(_of_part(part, waited))
        elif kind == "Stream Sync":
            key = (str(args.get("device")), str(args.get("stream")), part)
            if key not in self._syncs:
                self._syncs[key] = [self._columns.new("q"), self._columns.new("q")]
            starts, ends = self._syncs[key]
            starts.append(start)
            ends.append(start + duration)

    def end(self, progress: Optional[Progress] = None) -> None:
        """Checks the rules between all events. Needs finished columns."""
        whole = self._columns.whole
        for row in self._rows.values():
            row.start, row.end, row.name = map(whole, (row.start, row.end, row.name))
        self._calls, self._work, self._waits = ([whole(one) for one in columns] for columns in (self._calls, self._work, self._waits))
        self._streams = {key: [whole(one) for one in columns] for key, columns in self._streams.items()}
        self._syncs = {key: [whole(one) for one in columns] for key, columns in self._syncs.items()}
        self._progress = progress
        if progress:  # each is sorted, then looked at
            progress.total = (progress.total or 0) + 2 * sum(len(one) for one in (self._calls[0], self._work[0], *(row.start for row in self._rows.values())))
        self._nesting()
        self._causality()
        self._recordings()
        self._stream_waits()
        for sequence in list(self._backward):
            self._tell_functions(sequence)
        self._tell_steps()
        nameless = sum(row.device and place not in self._named for place, row in self._rows.items())
        if nameless:
            self.found.own("rows of a GPU without a name", "", nameless)

    def _nesting(self) -> None:
        texts = list(self._names)
        slack = self._slack()
        for place, row in self._rows.items():
            start, end = row.start, row.end
            ends: List[Tuple[int, int]] = []
            for n, i in enumerate(in_time(start, end, self._progress)):
                if n % AT_A_TIME == 0:
                    forget()
                    if self._progress:
                        self._progress.add(AT_A_TIME)
                while ends and ends[-1][0] <= start[i]:
                    ends.pop()
                if ends and end[i] > ends[-1][0] + slack and ends[-1][0] > start[i] + slack:
                    what = f"pid {place[0]} tid {place[1]}: {texts[row.name[i]][:60]!r} at {start[i] / 1000:.3f} and " \
                           f"{texts[row.name[ends[-1][1]]][:60]!r}"
                    rule = "kernels of one row overlap" if row.device else "spans of one row overlap without nesting"
                    self.found.habit(f"{rule}: Perfetto drops or moves one", what)
                ends.append((end[i], i))
                if len(ends) > MAX_DEPTH:
                    self.found.add("error", f"more than {MAX_DEPTH} spans inside each other: Perfetto drops them",
                                   f"pid {place[0]} tid {place[1]}")
                    break

    def _causality(self) -> None:
        """No kernel may begin before its launch. torch joins them by External id; the correlation id is exact for each launch."""
        texts = list(self._names)
        without = 0
        for _, calls, works in paired(self._calls[0], self._work[0], self._progress):
            if not calls:
                without += len(works)
                continue
            call = calls[0]
            for work in works:
                early = self._calls[1][call] - self._work[1][work]
                if early > 0:
                    self.found.add("error", "work on the GPU begins before the call that launched it",
                                   f"{texts[self._work[2][work]][:80]!r} {early / 1000:.3f} us before {texts[self._calls[2][call]]}")
        if without and not self.found.flight:
            self.found.habit("work on the GPU whose call is not in the trace", "", without)

    def _recordings(self) -> None:
        first = min(self._calls[0], default=0)
        for start, waited in zip(*self._waits):
            recorded = self._records.get(waited)
            if recorded is None:
                # A recording from before the window is not in the trace: a warning only.
                level = self.found.habit if waited >= first else lambda rule, example: self.found.add("warning", rule, example)
                level("a wait names a recording that is not in the trace", f"correlation {waited % (1 << 40) if self._parts else waited}")
            elif recorded > start:
                self.found.add("error", "a wait names a recording that comes later", f"correlation {waited % (1 << 40) if self._parts else waited}")

    def _slack(self) -> int:
        """The tolerance for ends in ns: in a trace of whole microseconds, ends are rounded up and starts down."""
        return 0 if self._fractions else 1000

    def _stream_waits(self) -> None:
        """A wait for a stream must not end before the kernels that the stream began before the wait. torch's rule, that no kernel runs when the
        wait begins, is too strict: CUPTI's record of a wait begins with the call."""
        for key, (waits, over) in self._syncs.items():
            starts, ends = self._streams.get(key, ((), ()))
            order = iter(in_order(len(starts), starts.__getitem__)) if starts else iter(())
            at, running = next(order, None), 0
            for wait in in_order(len(waits), waits.__getitem__):
                while at is not None and starts[at] < waits[wait]:
                    running = max(running, ends[at])
                    at = next(order, None)
                if running > over[wait] + self._slack():
                    self.found.add("warning", "a wait for a stream ends while a kernel runs that began before it",
                                   f"device {key[0]} stream {key[1]}: {(running - over[wait]) / 1000:.3f} us longer")
