# SPDX-License-Identifier: Apache-2.0
"""All spans of a trace whose steps are on a row of their own. A step holds the outermost spans of the thread that it belongs to (spans.py).
Spans of that thread that hold whole steps, such as a range around the loop, belong to no step."""

import bisect
from typing import Any, Callable, Iterator, List, Optional, Tuple

from cprof.tool.columns import Columns
from cprof.tool.fast import fast_numpy
from cprof.tool.span_batches import Batch, batches, fits, pieces
from cprof.tool.span_tree import Node, walk
from cprof.tool.spans import AT_A_TIME, LIMIT, Row, Spans
from cprof.tool.steps import RANGES


def walk_all(spans: Spans, frames: bool = False, by_step: bool = False, take: Optional[Callable[[Row, Batch], None]] = None) -> \
        Iterator[Tuple[Any, Row, Node]]:
    """Thread, row and node of each span, as from walk(), steps last. by_step: ignores spans that go on from step to step, that is torch's
    ranges, since the spans in them belong to the step that they begin in, and spans that hold whole steps. take: gets spans in batches
    where that is faster; the others come as nodes."""
    apart, main = spans.step_places()
    roots = _Roots(spans.steps)
    for place in sorted(spans.rows, key=apart.__contains__):
        row, is_main, is_apart = spans.rows[place], place == main, place in apart

        def goes_on(name: str, start: int, end: int, is_main: bool = is_main) -> bool:
            return name == RANGES or is_main and end - start >= roots.shortest and roots.holds(start, end)

        if take and not is_apart and fits(spans, row) and (by_step or not is_main or not roots.any_holds(row)):
            for batch in batches(spans, row, roots.going_on(spans, is_main) if by_step else None):
                if is_main:
                    roots.add_batch(batch)
                take(row, batch)
            continue
        for node in walk(spans, row, frames, goes_on if by_step else None, roots.holds if is_main else None):
            if node.holds:
                roots.held.append((row.start[node.index], -node.end, len(roots.held), node))
                continue
            if is_main and node.root:
                roots.add(node, row.start[node.index])
            elif is_apart:
                roots.adopt(node, row.start[node.index])
            yield place, row, node
    for *_, node in roots.held:
        yield main, spans.rows[main], node


class _Roots:
    """The outermost spans of one thread, in order of time. Steps on a row of their own are compared with them."""

    def __init__(self, steps: List[Tuple[int, int, str]]) -> None:
        self._steps = steps
        self._step_starts = [start for start, _, _ in steps]
        self.shortest = min((end - start for start, end, _ in steps), default=LIMIT)
        self.held: List[Tuple[int, int, int, Node]] = []  # spans that hold whole steps: start, -end, number
        self._open: List[int] = []  # those of `held` around the current step, innermost last
        self._next = self._before = 0
        self._over = False
        self._columns: Optional[Columns] = Columns()
        self.start, self.end, *self.sums = (self._columns.new("q") for _ in range(5))
        self._totals = [0, 0, 0]
        self._end_sums()

    def holds(self, start: int, end: int) -> bool:
        """Whether a whole step lies between start and end."""
        at = bisect.bisect_left(self._step_starts, start)
        return at < len(self._steps) and self._steps[at][1] <= end

    def _hold(self, starts: Any, ends: Any) -> Any:
        """holds() for columns."""
        numpy = fast_numpy()
        firsts, lasts = (numpy.array([step[n] for step in self._steps] + [numpy.iinfo("q").max], "q") for n in (0, 1))
        return lasts[numpy.searchsorted(firsts, starts, "left")] <= ends

    def any_holds(self, row: Row) -> bool:
        """Whether a span of the row holds a whole step."""
        return bool(self._steps) and any(self._hold(starts, ends).any() for starts, ends in pieces(row.start, row.end))

    def going_on(self, spans: Spans, is_main: bool) -> Callable[[Any, Any, Any], Any]:
        """The function that tells which spans walk_all() ignores by step, from the columns kind, start and end."""
        is_range = fast_numpy().array([kind.name == RANGES for kind in spans.kinds])
        return lambda kinds, starts, ends: is_range[kinds] | self._hold(starts, ends) if is_main and self._steps else is_range[kinds]

    def _end_sums(self) -> None:
        for sums, total in zip(self.sums, self._totals):
            sums.append(total)

    def add(self, node: Node, start: int) -> None:
        """Adds the next span. Only before the first adopt()."""
        self.start.append(start)
        self.end.append(node.end)
        for n, value in enumerate((node.own_device + node.child_device, node.memory, node.device_memory)):
            self._totals[n] += value
        self._end_sums()
        if self._columns and len(self.start) % AT_A_TIME == 0:
            self._columns.trim()

    def add_batch(self, batch: Batch) -> None:
        """Adds the outermost spans of a batch, like add()."""
        own, root = batch.own_device + batch.child_device, batch.root
        self.start.frombytes(batch.start[root].tobytes())
        self.end.frombytes(batch.end[root].tobytes())
        for n, (sums, values) in enumerate(zip(self.sums, (own, batch.memory, batch.device_memory))):
            totals = values[root].cumsum() + self._totals[n]
            sums.frombytes(totals.tobytes())
            self._totals[n] = int(totals[-1]) if len(totals) else self._totals[n]
        if self._columns:
            self._columns.trim()

    def adopt(self, step: Node, start: int) -> None:
        """Makes the spans that begin in the step its children. If one ends later, only the time inside the step counts."""
        if self._columns:
            columns, self._columns = self._columns, None
            columns.finish()
            self.start, self.end, *self.sums = (columns.whole(one) for one in (self.start, self.end, *self.sums))
            self.held.sort()
        low, high = bisect.bisect_left(self.start, start), bisect.bisect_left(self.start, step.end)
        step.child_time = self._time_of(start, step.end)
        step.child_device, step.child_memory, step.child_device_memory = (sums[high] - sums[low] for sums in self.sums)
        self._take_from_holders(step, start)

    def _time_of(self, start: int, end: int) -> int:
        """The time of the roots between start and end."""
        low, high = bisect.bisect_left(self.start, start), bisect.bisect_left(self.start, end)
        time = sum(min(self.end[i], end) - self.start[i] for i in range(low, high))
        if low and self.end[low - 1] > start:
            time += min(self.end[low - 1], end) - start
        return time

    def _until(self, time: int) -> None:
        """Opens the spans that have begun by then, and closes those that have ended."""
        held, around = self.held, self._open
        while self._next < len(held) and held[self._next][0] <= time:
            while around and held[around[-1]][3].end <= held[self._next][0]:
                around.pop()
            around.append(self._next)
            self._next += 1
        while around and held[around[-1]][3].end <= time:
            around.pop()

    def _take_from_holders(self, step: Node, start: int) -> None:
        """Subtracts the step's self time from the innermost spans around it, and its own memory from the innermost span that holds it
        whole. The steps of a row come in order of time."""
        held, around = self.held, self._open
        self._over |= self._before > start  # another row of steps: they go on at the same time
        if self._over:
            return
        self._before = start
        self._until(start)
        for holder in (held[n][3] for n in reversed(around)):
            if holder.end >= step.end:
                holder.child_memory += step.memory - step.child_memory
                holder.child_device_memory += step.device_memory - step.child_device_memory
                break
        while start < step.end:
            self._until(start)
            end = min([step.end] + [held[n][3].end for n in around[-1:]] + [one[0] for one in held[self._next:self._next + 1]])
            if around:
                held[around[-1]][3].child_time += end - start - self._time_of(start, end)
            start = end
