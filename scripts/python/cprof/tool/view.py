# SPDX-License-Identifier: Apache-2.0
"""A trace as `cprof open` shows it, in Perfetto's own format.

For a JSON trace Perfetto appends a number to each row's name, and orders rows and processes by its own rules. It draws each [memory]
event as an arrow on its thread, and shows a stack as one long text. In Perfetto's own format each row has the name and place that the trace
gives it, [memory] events have a row, and a stack has a line for each frame."""

import itertools
import json
import math
from typing import Any, BinaryIO, Dict, Iterator, List, NamedTuple, Optional, Tuple

from cprof.tool import packets
from cprof.tool.packets import Names, Packets
from cprof.tool.reader import open_trace
from cprof.tool.spans import args_of, text_of, to_ns

THREADS, RANGES, MEMORY, EVENTS, COUNTERS = range(5)  # rows of a process, from above
MEMORY_EVENTS = ("[memory]", "[OutOfMemory]", "[driver memory]", "[driver OutOfMemory]")
LAST = 1 << 31  # after all rows that have a sort index


class Row:
    """The content of a row. Times in ns."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.slices: List[Tuple[int, int, bytes]] = []   # start, end as a negative number, the rest
        self.instants: List[Tuple[int, bytes]] = []
        self.samples: List[Tuple[int, float]] = []
        self.arrows: List[Tuple[int, Any, bool]] = []    # time, arrow, whether it ends here


class Key(NamedTuple):
    """A row of a process."""
    pid: Any
    kind: int
    id: Any


class View:
    """Takes the events of a trace, then writes them all."""

    def __init__(self) -> None:
        self.names = Names(_plain)
        self.rows: Dict[Key, Row] = {}
        self.last = 0
        self._told: Dict[Any, Any] = {}                  # args of M events by name, process and thread
        self._open: Dict[Any, List[Tuple[Key, int, bytes]]] = {}
        self._arrow_starts: Dict[Any, int] = {}

    def event(self, event: Dict[str, Any]) -> None:
        """Takes any event."""
        ph, pid, tid = event.get("ph"), _id(event.get("pid")), _id(event.get("tid"))
        if ph == "M":
            what = text_of(event.get("name"))
            self._told[what, pid, tid if what.startswith("thread_") else None] = args_of(event)
            return
        at = to_ns(event.get("ts"))
        if at is None or at < 0:
            return
        self.last = max(self.last, at)
        thread = Key(pid, THREADS, tid)
        if ph == "X":
            length = to_ns(event.get("dur"))
            if length is not None and length >= 0:
                self._row(thread).slices.append((at, -at - length, self._body(event)))
        elif ph in ("i", "I", "R"):
            memory = event.get("name") in MEMORY_EVENTS
            whole = Key(pid, EVENTS, "events") if event.get("s") == "p" else thread  # of the process, such as throttling of a GPU
            self._row(Key(pid, MEMORY, "memory") if memory else whole).instants.append((at, self._body(event)))
        elif ph == "C":
            self._counter(event, pid, at)
        elif ph in ("s", "t", "f"):
            self._arrow(event, thread, at)
        elif ph in ("B", "E"):
            self._end_or_begin(event, thread, ("", pid, tid), at)
        elif ph in ("b", "e"):
            which = text_of(event.get("cat")), pid, text_of(event.get("id", event.get("id2")))
            self._end_or_begin(event, Key(pid, RANGES, text_of(event.get("name"))), which, at)

    def _row(self, key: Key) -> Row:
        row = self.rows.get(key)
        if row is None:
            row = self.rows[key] = Row(text_of(key.id))
        return row

    def _body(self, event: Dict[str, Any]) -> bytes:
        return self.names.event(text_of(event.get("cat", "")), text_of(event.get("name", "")), args_of(event))

    def _counter(self, event: Dict[str, Any], pid: Any, at: int) -> None:
        for key, value in args_of(event).items():
            if type(value) in (int, float) and math.isfinite(value):
                self._row(Key(pid, COUNTERS, f"{text_of(event.get('name'))} {key}")).samples.append((at, float(value)))

    def _arrow(self, event: Dict[str, Any], row: Key, at: int) -> None:
        which = text_of(event.get("cat")), text_of(event.get("name")), text_of(event.get("id"))
        begins = event["ph"] == "s"
        if begins:
            self._arrow_starts.setdefault(which, at)
        self._row(row).arrows.append((at, which, not begins))

    def _end_or_begin(self, event: Dict[str, Any], row: Key, which: Any, at: int) -> None:
        """Takes B, b, E and e. A nested range goes to the row of the range around it."""
        begun = self._open.setdefault(which, [])
        if event["ph"] in ("B", "b"):
            begun.append((begun[0][0] if begun else row, at, self._body(event)))
        elif begun:
            self._close(begun.pop(), at)

    def _close(self, begun: Tuple[Key, int, bytes], at: int) -> None:
        self._row(begun[0]).slices.append((begun[1], -max(at, begun[1]), begun[2]))

    # ---- writing ----

    def write(self, out: BinaryIO, title: str) -> None:
        """Writes the file. title: the name of the row around several processes."""
        for begun in itertools.chain.from_iterable(self._open.values()):
            self._close(begun, self.last)
        file, arrows = Packets(out, self.names), self._arrows()
        pids = sorted({key.pid: None for key in self.rows}, key=lambda pid: self._place("process_sort_index", pid))
        root = file.row(title) if len(pids) > 1 else 0
        for rank, pid in enumerate(pids):
            process = file.row(self._process_name(pid), root, rank)
            keys = sorted((key for key in self.rows if key.pid == pid), key=self._order)
            for place, key in enumerate(keys):
                self._write_row(file, self.rows[key], self._row_name(key), process, place, arrows.get(key, []))

    def _place(self, what: str, pid: Any, tid: Any = None) -> float:
        place = self._told.get((what, pid, tid), {}).get("sort_index")
        return place if type(place) in (int, float) and math.isfinite(place) else LAST

    def _order(self, key: Key) -> Any:
        """The sort key of a row: threads by the trace's sort index, then by number, as in Perfetto."""
        is_thread = key.kind == THREADS
        return key.kind, self._place("thread_sort_index", key.pid, key.id) if is_thread else 0, \
            key.id if type(key.id) is int else LAST, str(key.id)

    def _process_name(self, pid: Any) -> str:
        name, label = (self._told.get((what, pid, None), {}).get(key) for what, key in (("process_name", "name"), ("process_labels", "labels")))
        shown = text_of(name).strip() if name else f"process {pid}"
        return shown if label in (None, "", "CPU") or text_of(label) in shown else f"{shown} {text_of(label)}"

    def _row_name(self, key: Key) -> str:
        if key.kind != THREADS:
            return text_of(key.id)
        name = self._told.get(("thread_name", key.pid, key.id), {}).get("name")
        return text_of(name).strip() if name else f"thread {key.id}"

    def _arrows(self) -> Dict[Key, List[Tuple[int, bytes]]]:
        """The times at which arrows begin or end on each row. If several begin at one place, each gets its own number."""
        found: Dict[Key, List[Tuple[int, bytes]]] = {}
        begins: Dict[Any, Key] = {}
        for key, row in self.rows.items():
            for at, which, ends in row.arrows:
                if not ends:
                    begins.setdefault(which, key)
        count = 0
        for key, row in self.rows.items():
            for at, which, ends in row.arrows:
                start = self._arrow_starts.get(which)
                if ends and start is not None and start <= at:
                    count += 1
                    found.setdefault(begins[which], []).append((start, packets.fixed(packets.ARROW_OUT, "Q", count)))
                    found.setdefault(key, []).append((at, packets.fixed(packets.ARROW_IN, "Q", count)))
        return found

    @staticmethod
    def _write_row(file: Packets, row: Row, name: str, parent: int, rank: int, arrows: List[Tuple[int, bytes]]) -> None:
        number = file.row(name, parent, rank, bool(row.samples))
        for at, value in row.samples:
            file.event(packets.COUNTER, number, at, packets.fixed(44, "d", value))
        for at, body in row.instants:
            file.event(packets.INSTANT, number, at, body)
        row.slices.sort(key=lambda one: one[:2])
        ends = dict(_innermost(row.slices, sorted(arrows)))
        lanes: List[Tuple[int, List[int]]] = [(number, [])]  # a row's number, and the ends of its open slices
        for n, (start, minus_end, body) in enumerate(row.slices):
            for lane, open_ends in lanes:
                _end(file, lane, open_ends, start)
                if not open_ends or open_ends[-1] >= -minus_end:
                    break
            else:  # it partly overlaps open slices: Perfetto shows rows of one name as one
                lane, open_ends = file.row(name, parent, rank), []
                lanes.append((lane, open_ends))
            file.event(packets.BEGIN, lane, start, body + ends.get(n, b""))
            open_ends.append(-minus_end)
        for lane, open_ends in lanes:
            _end(file, lane, open_ends, None)


def _end(file: Packets, row: int, ends: List[int], before: Optional[int]) -> None:
    """Ends the slices that end by that time; None: all."""
    while ends and (before is None or ends[-1] <= before):
        file.event(packets.END, row, ends.pop())


def _innermost(slices: List[Tuple[int, int, bytes]], arrows: List[Tuple[int, bytes]]) -> Iterator[Tuple[int, bytes]]:
    """The number of each slice in which arrows begin or end, and the arrows."""
    found: Dict[int, bytes] = {}
    around: List[int] = []
    n = 0
    for at, arrow in arrows:
        for n in range(n, len(slices) + 1):
            if n == len(slices) or slices[n][0] > at:
                break
            while around and -slices[around[-1]][1] <= slices[n][0]:
                around.pop()
            around.append(n)
        while around and -slices[around[-1]][1] < at:
            around.pop()
        if around:
            found[around[-1]] = found.get(around[-1], b"") + arrow
    yield from found.items()


def _id(value: Any) -> Any:
    return value if type(value) in (int, str) else str(value)


def _plain(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def write_view(path: str, out: BinaryIO, title: str) -> None:
    """Reads a trace and writes its view."""
    view = View()
    with open_trace(path, True) as trace:
        trace.past_large = True
        for block in trace.blocks():
            for event in block:
                view.event(event)
        view.write(out, title)
