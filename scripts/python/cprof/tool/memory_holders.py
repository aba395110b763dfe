# SPDX-License-Identifier: Apache-2.0
"""The holders of a device's memory at its peak and at the end of a trace, and the growth of each from step to step."""

import bisect
import itertools
import statistics
from typing import Dict, List, NamedTuple, Sequence, Tuple

from cprof.tool.memory_use import BEFORE_TRACE, UNKNOWN, Allocation, Holder, Timeline

DIFFERENCES_LEAST = 3  # differences between steps that growth needs
OFTEN = 0.75           # the least share of steps in which a leak grows


class Held(NamedTuple):
    """The memory of one holder."""
    holder: Holder
    peak: int          # bytes at the device's peak
    end: int           # bytes at the end of the trace
    peak_pieces: int
    end_pieces: int
    category: int      # the category of most of these bytes
    growth: float      # median bytes per step; 0 if it does not grow
    grew: int          # the number of steps in which it grew


class Account:
    """A device's memory. Bytes; nanoseconds."""

    def __init__(self, line: Timeline, steps: Sequence[Tuple[int, int, str]]) -> None:
        self.device, self.begin = line.device, line.before
        self.peak, self.peak_at, self.end = line.peak, line.peak_at, line.left
        self._ends = sorted(end for _, end, _ in steps if end <= max(line.end, steps[-1][1])) if steps else []
        self.differences = max(0, len(self._ends) - 1)
        found: Dict[Holder, _Sums] = {}
        rest = line.before
        for one in line.allocations():
            sums = found.get(one.owner.holder)
            if sums is None:
                sums = found[one.owner.holder] = _Sums()
            sums.add(one, self.peak_at, self._ends)
            if one.start is None:
                rest -= one.size
            elif one.end is not None:
                sums.turned += one.size
        if rest > 0:  # it was never released
            found.setdefault(BEFORE_TRACE.holder, _Sums()).add(Allocation(None, None, rest, UNKNOWN, BEFORE_TRACE), self.peak_at, self._ends)
        self.turned = {holder: sums.turned for holder, sums in found.items() if sums.turned}  # bytes taken and released
        held = [self._held(holder, sums) for holder, sums in found.items() if sums.peak or sums.end or sums.levels]
        held = [one for one in held if one.peak or one.end or one.growth]
        self.held = sorted(held, key=lambda one: (-max(one.peak, one.end), one.holder))
        self.growing = sorted((one for one in self.held if one.growth), key=lambda one: -one.growth)

    def _held(self, holder: Holder, sums: "_Sums") -> Held:
        growth, grew = _growth(list(itertools.accumulate(sums.levels.get(n, 0) for n in range(len(self._ends)))))
        category = max(sums.categories, key=lambda one: sums.categories[one])
        return Held(holder, sums.peak, sums.end, sums.peak_pieces, sums.end_pieces, category, growth, grew)


class _Sums:
    """Sums of one holder."""

    def __init__(self) -> None:
        self.peak = self.end = self.peak_pieces = self.end_pieces = self.turned = 0
        self.categories: Dict[int, int] = {}
        self.levels: Dict[int, int] = {}  # by step: the change from the end of the step before to its end

    def add(self, one: Allocation, peak_at: int, ends: List[int]) -> None:
        """Adds an allocation."""
        at_peak = (one.start is None or one.start <= peak_at) and (one.end is None or one.end > peak_at)
        self.peak += one.size * at_peak
        self.peak_pieces += at_peak
        self.end += one.size * (one.end is None)
        self.end_pieces += one.end is None
        self.categories[one.category] = self.categories.get(one.category, 0) + one.size * (at_peak or one.end is None)
        first = 0 if one.start is None else bisect.bisect_left(ends, one.start)
        last = len(ends) if one.end is None else bisect.bisect_left(ends, one.end)
        if first < last:
            self.levels[first] = self.levels.get(first, 0) + one.size
            self.levels[last] = self.levels.get(last, 0) - one.size


def _growth(levels: List[int]) -> Tuple[float, int]:
    """(bytes per step, number of steps with growth); (0, 0) if the levels do not grow steadily."""
    differences = [after - before for before, after in zip(levels, levels[1:])]
    if len(differences) < DIFFERENCES_LEAST:
        return 0, 0
    middle, grew = statistics.median(differences), sum(one > 0 for one in differences)
    grows = middle > 0 and grew >= OFTEN * len(differences) and levels[-1] - levels[0] >= middle * len(differences) / 2
    return (middle, grew) if grows else (0, 0)
