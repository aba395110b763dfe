# SPDX-License-Identifier: Apache-2.0
"""The sums of span_tree.walk(), computed by numpy, if it is installed, for a batch of spans at a time, in columns.

A batch may end anywhere. Spans that are open at its end go into the next batch, with the sums over their children so far. So
does an only child that may still take its parent's place."""

import heapq
from typing import Any, Callable, Iterator, List, NamedTuple, Tuple

from cprof.tool import spans as given
from cprof.tool.categories import CALLS
from cprof.tool.columns import forget
from cprof.tool.fast import fast_numpy
from cprof.tool.spans import MARKS, Row, Spans, parts_in_time
from cprof.tool.span_tree import LIBRARY

AT_ONCE = 1 << 14      # new spans of a batch
WORTH = 1 << 14        # spans of a row: for fewer, numpy need not be loaded
MOST = 1 << 61         # no sum may come near 64 bits: Python's have no such limit


class Batch(NamedTuple):
    """Columns of spans in order of time, in nanoseconds and bytes, like the fields of a Node."""
    index: Any
    start: Any
    end: Any
    kind: Any
    is_async: Any
    root: Any
    own_device: Any
    memory: Any
    device_memory: Any
    child_time: Any
    child_device: Any
    child_memory: Any
    child_device_memory: Any

    @property
    def self_time(self) -> Any:
        """The time without that of the children; 0 for asynchronous ranges."""
        return self.end - self.start - self.child_time


_GIVEN, _SUMS = ("index", "start", "end", "kind", "memory", "device_memory"), ("own", "children", "time", "device", "bytes", "device_bytes")


def fits(spans: Spans, row: Row) -> bool:
    """Whether batches() is worth it, and all sums fit into 64 bits."""
    if len(row.start) < WORTH or fast_numpy() is None:
        return False
    times = max((int((end - start).max()) for start, end in pieces(row.start, row.end)), default=0)
    sizes = [abs(int(limit)) for sums in pieces(spans.memory_sums, spans.memory_device_sums) for one in sums for limit in (one.min(), one.max())]
    return max(times, *sizes, max(spans.work_time, default=0)) * len(row.start) < MOST


def pieces(*columns: Any) -> Iterator[Tuple[Any, ...]]:
    """Columns of 64-bit numbers of one length, in pieces."""
    whole = [fast_numpy().frombuffer(one, "q") for one in columns]
    for at in range(0, len(columns[0]), given.SORTED_AT_ONCE):
        yield tuple(one[at:at + given.SORTED_AT_ONCE] for one in whole)
        forget()


def batches(spans: Spans, row: Row, without: Callable[[Any, Any, Any], Any]) -> Iterator[Batch]:
    """A thread's spans. without: a function of the columns kind, start and end that tells which spans to ignore; or None."""
    tree = _Tree(spans, row, without)
    for part in parts_in_time(row.start, row.end, spans.progress):
        for at in range(0, len(part), AT_ONCE):
            yield tree.batch(part[at:at + AT_ONCE], False)
            forget()
        if spans.progress:
            spans.progress.add(len(part))
    if tree.is_open:
        yield tree.batch(fast_numpy().zeros(0, "q"), True)
    if spans.progress:
        spans.progress.close()


class _Tree:
    """The state between batches."""

    def __init__(self, spans: Spans, row: Row, without: Any) -> None:
        self.numpy = numpy = fast_numpy()
        self.spans, self._without = spans, without
        self._row = [numpy.frombuffer(one, typecode) for one, typecode in zip((row.start, row.end, row.kind, row.external), "qqiq")]
        kinds = spans.kinds
        names = {name: n for n, name in enumerate({kind.name for kind in kinds})}
        self.names = numpy.array([names[kind.name] for kind in kinds])
        self.is_call, self.is_operator, self.is_library, self.is_async = (numpy.array(one, bool) for one in zip(*(
            (kind.category in CALLS, kind.category == "cpu_op", kind.category in LIBRARY, kind.is_async) for kind in kinds)))
        self.has_work = self.is_call == spans.by_call
        self._carried = {name: numpy.zeros(0, "q") for name in _GIVEN + _SUMS}

    @property
    def is_open(self) -> bool:
        """Whether spans wait for the next batch."""
        return len(self._carried["index"]) > 0

    def batch(self, part: Any, is_last: bool) -> Batch:
        """The next complete spans, in order of time."""
        numpy = self.numpy
        columns = self._with(part)
        starts, ends, kinds = columns["start"], columns["end"], columns["kind"]
        is_async = self.is_async[kinds]
        above, opened = parents(starts.tolist(), ends.tolist(), is_async.tolist())
        parent = numpy.array(above, "q")
        below = (parent >= 0) & ~is_async
        children = columns["children"].copy()
        numpy.add.at(children, parent[below], 1)
        # torch: a child that is alone and of the same name takes its parent's place
        alone = below & (self.names[kinds] == self.names[kinds[parent]]) & (children[parent] == 1)
        stays = numpy.zeros(len(starts), bool)
        stays[[] if is_last else opened] = True
        more = alone & stays[parent] & ~stays
        while more.any():
            stays |= more
            more = alone & stays[parent] & ~stays
        done = ~stays & below
        for name, values in (("children", 1), ("time", (ends - starts)[done]), ("bytes", columns["memory"][done]),
                             ("device_bytes", columns["device_memory"][done])):
            numpy.add.at(columns[name], parent[done], values)
        source = self._sources(numpy.flatnonzero(alone & ~stays), parent)
        self._add_work(columns, above, is_async, stays, source)
        sums = {name: columns[name][source] for name in ("own", "time", "device", "bytes", "device_bytes")}
        for name, values in (("time", ends - starts), ("bytes", columns["memory"]), ("device_bytes", columns["device_memory"])):
            sums[name][is_async] = values[is_async]
        self._add_libraries(numpy.flatnonzero(done & self.is_library[kinds] & self.is_operator[kinds[parent]]), kinds, parent, ends - starts, sums)
        self._carried = {name: values[stays] for name, values in columns.items()}
        shown = ~stays & ~(alone & ~stays)
        return Batch(*(one[shown] for one in (
            columns["index"], starts, ends, kinds, is_async, (parent < 0) & ~is_async, sums["own"], columns["memory"], columns["device_memory"], sums["time"],
            sums["device"], sums["bytes"], sums["device_bytes"])))

    def _with(self, index: Any) -> Any:
        """The columns of the waiting spans, then of the new ones."""
        numpy, spans = self.numpy, self.spans
        start, end, kind, external = (one[index] for one in self._row)
        if self._without is not None:
            kept = ~self._without(kind, start, end)
            index, start, end, kind, external = (one[kept] for one in (index, start, end, kind, external))
        new = {name: numpy.zeros(len(index), "q") for name in _GIVEN + _SUMS}
        new.update(index=index, start=start, end=end, kind=kind.astype("q"))
        if len(spans.memory_time) and len(index):
            times, *sums = (numpy.frombuffer(one, "q") for one in (spans.memory_time, spans.memory_sums, spans.memory_device_sums))
            low, high = numpy.searchsorted(times, start, "left"), numpy.searchsorted(times, end, "right")
            new["memory"], new["device_memory"] = (one[high] - one[low] for one in sums)
            covered, seen = high > low, numpy.frombuffer(spans.memory_seen, "q")
            numpy.add.at(seen, low[covered], 1)
            numpy.subtract.at(seen, high[covered], 1)
        for at in numpy.flatnonzero((external < 0) | (external > 0) & self.has_work[kind]).tolist():
            number = int(external[at])
            if spans.work_marks[number % MARKS]:
                new["own"][at] = spans.work_of(number)
        return {name: numpy.concatenate((self._carried[name], values)) for name, values in new.items()}

    def _sources(self, taken: Any, parent: Any) -> Any:
        """The source of each span's sums: itself, or the child that takes its place."""
        source = self.numpy.arange(len(parent))
        for child in taken.tolist()[::-1]:  # children come after their parents
            source[parent[child]] = source[child]
        return source

    def _add_work(self, columns: Any, above: List[int], is_async: Any, stays: Any, source: Any) -> None:
        """Adds launched work. The work of a call or an asynchronous range goes to the span around it."""
        numpy, own, device = self.numpy, columns["own"], columns["device"]
        places = numpy.arange(len(own))
        moved = is_async | self.is_call[columns["kind"]]
        # if a child took a call's place, the work is in the child's sum
        found = [-at for at in numpy.flatnonzero(~stays & ((own != 0) | moved & (source != places))).tolist()]
        heapq.heapify(found)
        climbing: List[int] = []
        before = -1
        while found:
            at = -heapq.heappop(found)
            if at == before or stays[at]:
                continue
            before, parent, of = at, above[at], source[at]
            if of != at:
                own[at] = 0
            if moved[at] and parent >= 0:
                if own[of]:
                    own[parent] += own[of]
                    heapq.heappush(found, -parent)
                own[of] = 0
            elif of == at:
                climbing.append(at)
        for at in climbing:
            value, parent = own[at], above[at]
            while value and parent >= 0:
                device[parent] += value
                parent = above[parent]

    def _add_libraries(self, found: Any, kinds: Any, parent: Any, durations: Any, sums: Any) -> None:
        """Adds calls of libraries directly in operators."""
        for at in found.tolist():
            entry = self.spans.below.setdefault((int(kinds[parent[at]]), int(kinds[at])), [0, 0, 0, 0])
            duration = int(durations[at])
            for n, value in enumerate((1, duration - int(sums["time"][at]), duration, int(sums["own"][at] + sums["device"][at]))):
                entry[n] += value


def parents(starts: List[int], ends: List[int], is_async: List[bool]) -> Tuple[List[int], List[int]]:
    """For spans in order of time: the innermost span that holds each, or -1; and the spans that are open at the end."""
    found: List[int] = []
    opened: List[int] = []
    for at, (start, end, apart) in enumerate(zip(starts, ends, is_async)):
        while opened and (start >= ends[opened[-1]] or end > ends[opened[-1]] and not apart):
            opened.pop()
        found.append(opened[-1] if opened else -1)
        if not apart:
            opened.append(at)
    return found, opened
