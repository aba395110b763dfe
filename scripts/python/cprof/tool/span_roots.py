# SPDX-License-Identifier: Apache-2.0
"""What steps that stand on a row of their own hold: the outermost spans of the thread that they are of (spans.py)."""

import bisect
from typing import Optional

from cprof.tool.columns import Columns
from cprof.tool.spans import AT_A_TIME, Node


class Roots:
    """The outermost spans of one thread, in order of time: what steps that stand on a row of their own are held against."""

    def __init__(self) -> None:
        self._columns: Optional[Columns] = Columns()
        self.start, self.end, *self.sums = (self._columns.new("q") for _ in range(5))
        self._totals = [0, 0, 0]
        self._end_sums()

    def _end_sums(self) -> None:
        for sums, total in zip(self.sums, self._totals):
            sums.append(total)

    def add(self, node: Node, start: int) -> None:
        """The next one. Before any adopt()."""
        self.start.append(start)
        self.end.append(node.end)
        for n, value in enumerate((node.own_device + node.child_device, node.memory, node.device_memory)):
            self._totals[n] += value
        self._end_sums()
        if self._columns and len(self.start) % AT_A_TIME == 0:
            self._columns.trim()

    def adopt(self, step: Node, start: int) -> None:
        """Makes those that begin in the step its children; of one that goes on into the next step, only the time inside."""
        if self._columns:
            columns, self._columns = self._columns, None
            columns.finish()
            self.start, self.end, *self.sums = (columns.whole(one) for one in (self.start, self.end, *self.sums))
        low, high = bisect.bisect_left(self.start, start), bisect.bisect_left(self.start, step.end)
        step.child_time = sum(min(self.end[i], step.end) - self.start[i] for i in range(low, high))
        if low and self.end[low - 1] > start:
            step.child_time += min(self.end[low - 1], step.end) - start
        step.child_device, step.child_memory, step.child_device_memory = (sums[high] - sums[low] for sums in self.sums)
