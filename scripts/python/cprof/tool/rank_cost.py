# SPDX-License-Identifier: Apache-2.0
"""The time that a rank cost the others of a run, and what it did while they waited for it."""

import bisect
from array import array
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from cprof.tool.collectives import Times, base_of, kind_of
from cprof.tool.columns import forget
from cprof.tool.reader import open_trace
from cprof.tool.remote import is_file
from cprof.tool.span_reader import Wanted, read_spans
from cprof.tool.spans import AT_A_TIME, Row, Spans, in_time
from cprof.tool.steps import is_step_name

OUTSIDE = "outside operators"
GPU_IDLE = "idle"
FARTHEST = 1 << 61    # a column takes the sum of two such times
SHOWN = 3             # activities in words
STEPS_SHOWN = 8
OF_THE_MOST = 4       # steps that cost at least this part of the costliest one are named


class Waits:
    """Who waited for whom, step by step. Traces are numbers; times are nanoseconds by the clock of the trace's host."""

    def __init__(self) -> None:
        self.waited: Dict[Tuple[int, int], array] = {}        # by (who waits, step)
        self._for: Dict[Tuple[int, int], Dict[int, array]] = {}  # by (for whom, step), then who waits
        self._late: Dict[int, array] = {}                     # by whom the others wait for: in its own clock

    def add(self, who: int, whom: int, step: int, start: int, end: int, moved: int) -> None:
        """Adds a wait of `who` for `whom`. moved: converts the time to the clock of `whom`."""
        if end <= start or max(abs(start), abs(end), abs(moved)) > FARTHEST:
            return
        for spans, key in ((self.waited, (who, step)), (self._for.setdefault((whom, step), {}), who), (self._late, whom)):
            found = spans.get(key)  # type: ignore[attr-defined]
            if found is None:
                found = spans[key] = array("q")  # type: ignore[index]
            shift = moved if spans is self._late else 0
            found.extend((start + shift, end + shift))

    def cost(self, whom: int, step: int, others: int) -> float:
        """The mean time for which the others, that many, waited for a rank in a step."""
        return sum(map(covered, self._for.get((whom, step), {}).values())) / others if others else 0.0

    def late(self, whom: int) -> List[Tuple[int, int]]:
        """The times at which others waited for a rank, in order."""
        return union(self._late.get(whom, array("q")))


def union(spans: array) -> List[Tuple[int, int]]:
    """The union of spans (an array of starts and ends in turn) as disjoint spans."""
    found: List[Tuple[int, int]] = []
    for start, end in sorted(zip(spans[::2], spans[1::2])):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def covered(spans: array) -> int:
    """Length of the union."""
    return sum(max(0, end - start) for start, end in union(spans))


class Cost(NamedTuple):
    """What a rank cost the others. Nanoseconds."""
    rank: int
    cost: float               # sum over the steps
    total: float              # of all compared steps
    by_step: Dict[int, float]

    def steps(self) -> List[int]:
        """The steps that make up most of the cost."""
        most = max(self.by_step.values(), default=0)
        return sorted(step for step, cost in self.by_step.items() if cost and cost * OF_THE_MOST >= most)

    def text(self) -> str:
        """In words."""
        steps, compared = self.steps(), len(self.by_step)
        which = f"all {compared} steps" if len(steps) == compared > 1 else f"{len(steps)} of {compared} steps" if len(steps) > STEPS_SHOWN \
            else f"step{'s' * (len(steps) > 1)} " + ", ".join(map(str, steps))
        return f"rank {self.rank} cost the others {_ms(self.cost)} of {_ms(self.total)} ({100 * self.cost / max(self.total, self.cost):.0f} %), in {which}"


def _ms(ns: float) -> str:
    return f"{ns / 1e6:,.0f} ms" if ns >= 1e7 else f"{ns / 1e6:,.3g} ms"


class Did(NamedTuple):
    """What a rank did in some time, by name, the longest first. Nanoseconds."""
    total: int
    cpu: List[Tuple[str, int]]   # operators' self times, and the time outside of all
    gpu: List[Tuple[str, int]]   # kernels and copies, and the time without any; empty where it has no GPU

    def text(self, rank: int) -> str:
        """In words."""
        parts = [_listed(f"meanwhile rank {rank} was", self.cpu, self.total)]
        return ", ".join(parts + ([_listed("its GPU", self.gpu, self.total)] if self.gpu else []))


def _listed(who: str, found: List[Tuple[str, int]], total: int) -> str:
    shown = [(name, time) for name, time in found[:SHOWN] if time * 100 >= total] or found[:1]
    return f"{who}: " + ", ".join(f"{name[:80]} {_ms(time)} ({100 * time / total:.0f} %)" for name, time in shown)


class _Clip:
    """Times of a trace, which count from its base, clipped to spans that do not overlap."""

    def __init__(self, spans: List[Tuple[int, int]], base: int) -> None:
        self.base, self._spans = base, [(start - base, end - base) for start, end in spans]
        self._starts, self._sums = [start for start, _ in self._spans], [0]
        for start, end in self._spans:
            self._sums.append(self._sums[-1] + end - start)

    @property
    def total(self) -> int:
        """Length of all."""
        return self._sums[-1]

    def clipped(self, start: int, end: int) -> Tuple[int, int]:
        """From the first span's start to the last one's end at most, without the base."""
        return max(start, self._starts[0]) + self.base, min(end, self._spans[-1][1]) + self.base

    def _until(self, time: int) -> int:
        at = bisect.bisect_right(self._starts, time) - 1
        return 0 if at < 0 else self._sums[at] + min(time, self._spans[at][1]) - self._spans[at][0]

    def of(self, start: int, end: int) -> int:
        """How much of the time between lies in the spans."""
        return self._until(end) - self._until(start)


def did(one: Times, late: List[Tuple[int, int]]) -> Optional[Did]:
    """What a rank did in these times; None where its traces cannot be read once more."""
    paths = [path for path in one.paths if is_file(path)]
    if not late or len(paths) < len(one.paths):
        return None
    names: Dict[str, int] = {}
    kernels: Dict[str, int] = {}
    busy, worked, has_gpu = array("q"), array("q"), False
    for path in paths:
        with open_trace(path) as trace:
            spans = read_spans(trace, Wanted(flops=False, nested=True, work=True))
        clip = _Clip(late, base_of(spans.metadata))
        for row in spans.rows.values():
            _add_thread(spans, row, clip, names, busy)
        has_gpu |= spans.has_work
        for number, start, duration in zip(*map(spans.columns.whole, (spans.work_kind, spans.work_start, spans.work_duration))):
            kind = spans.kinds[number]
            inside = 0 if kind.annotation or kind_of(kind.name, kind.category) is not None else clip.of(start, start + duration)
            if inside:
                kernels[kind.name] = kernels.get(kind.name, 0) + inside
                worked.extend(clip.clipped(start, start + duration))
    clip = _Clip(late, 0)
    names[OUTSIDE] = clip.total - sum(clip.of(*span) for span in union(busy))
    if has_gpu:
        kernels[GPU_IDLE] = clip.total - sum(clip.of(*span) for span in union(worked))
    return Did(clip.total, _sorted(names), _sorted(kernels))


def _sorted(sums: Dict[str, int]) -> List[Tuple[str, int]]:
    return sorted(((name, time) for name, time in sums.items() if time > 0), key=lambda item: (-item[1], item[0]))


def _add_thread(spans: Spans, row: Row, clip: _Clip, names: Dict[str, int], busy: array) -> None:
    """Self times of a thread's spans, and when there is any."""
    left_out = [kind.is_async or is_step_name(kind.name) for kind in spans.kinds]
    start, end = row.start, row.end
    stack: List[Any] = []  # (end, name)
    for n, i in enumerate(in_time(start, end)):
        if n % AT_A_TIME == 0:
            forget()
        if left_out[row.kind[i]]:
            continue
        while stack and stack[-1][0] <= start[i]:
            stack.pop()
        inside = clip.of(start[i], min(end[i], stack[-1][0]) if stack else end[i])
        name = spans.kinds[row.kind[i]].name
        if inside:
            names[name] = names.get(name, 0) + inside
            if stack:
                names[stack[-1][1]] = names.get(stack[-1][1], 0) - inside
            else:
                busy.extend(clip.clipped(start[i], end[i]))
        stack.append((end[i], name))
