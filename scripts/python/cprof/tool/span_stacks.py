# SPDX-License-Identifier: Apache-2.0
"""Stacks of spans as in torch.profiler's tables (profiler_util.py, profiler.py: _parse_kineto_results): the stack written with the
span, else the Python functions that it ran in. An operator of the backward pass has the stack of its forward operator.

    finder = StackFinder(spans, 1)
    finder.add(place, row, node, self_time)     # each span, as it comes from walk() with frames
    for found, frames in finder.stacks():       # in order of time
        print(found.values[0], frames)

The spans are kept in columns (columns.py), so memory grows only with the number of different stacks."""

import bisect
import functools
import re
from array import array
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from cprof.tool.columns import Columns, forget
from cprof.tool.progress import Progress
from cprof.tool.span_tree import Node
from cprof.tool.spans import AT_A_TIME, Row, Spans, in_order, in_time

KEPT_FRAMES = 1 << 10     # stacks whose frames are kept apart
_EVALUATE = "autograd::engine::evaluate_function: "
# Frames that torch leaves out of stacks.
_UNSEEN = (("autograd/__init__", "_make_grads"), ("autograd/__init__", "backward"), ("torch/tensor", "backward"),
           ("_internal/common_utils", "prof_callable"), ("_internal/common_utils", "prof_func_call"),
           ("_internal/common_utils", "prof_meth_call"))
_PYTHON = re.compile(r"\(\d+\): |^<built-in |^nn\.Module: ")
_NO_STACK = -1            # of numbers: stacks written with the span are 0 and up, Python functions are below
_FORWARD = -2             # of sequence numbers: the span is not of the backward pass


def seen_frame(frame: str) -> bool:
    """Whether torch shows this frame in stacks."""
    return not any(file in frame and function in frame for file, function in _UNSEEN)


def is_python_frame(frame: str) -> bool:
    """Whether a frame is Python's, or has a line number like those."""
    return _PYTHON.search(frame) is not None


def python_frames(stack: List[str]) -> List[str]:
    """The stack without native frames, which hardly distinguish the callers of an operator; unchanged if it has no others."""
    return list(filter(is_python_frame, stack)) or stack


class Found(NamedTuple):
    """A span."""
    start: int
    end: int
    kind: int
    values: Tuple[int, ...]   # those passed to add()


class StackFinder:
    """Takes the spans of a trace, then finds the stack of each."""

    def __init__(self, spans: Spans, values: int, show: Callable[[List[str]], Any] = lambda stack: stack) -> None:
        """values: how many numbers to keep for each span. show: converts each stack for stacks()."""
        self._spans, self._show = spans, show
        self._columns = Columns()
        self._start, self._end = (self._columns.new("q") for _ in range(2))
        self._place, self._kind, self._stack = (self._columns.new("i") for _ in range(3))
        self._sequence, self._is_backward = self._columns.new("q"), self._columns.new("b")
        self._values = [self._columns.new("q") for _ in range(values)]
        self._places: Dict[Any, int] = {}
        self._shown = functools.lru_cache(KEPT_FRAMES)(self._make)

    def add(self, place: Any, row: Row, node: Node, *values: int) -> None:
        """Adds a span of walk() with frames."""
        index, written = node.index, row.stack[node.index] if row.stack else _NO_STACK
        self._start.append(row.start[index])
        self._end.append(node.end)
        self._place.append(self._places.setdefault(place, len(self._places)))
        self._kind.append(node.kind)
        self._stack.append(written if written >= 0 else _NO_STACK - node.frames)
        self._sequence.append(row.sequence[index] if row.sequence else -1)
        self._is_backward.append(row.forward[index] if row.forward else 0)
        for column, value in zip(self._values, values):
            column.append(value)
        if len(self._start) % AT_A_TIME == 0:
            self._columns.trim()

    def stacks(self) -> Iterator[Tuple[Found, Any]]:
        """Each span with its stack, in order of time. Call it once, after all add()."""
        columns = self._columns
        n = columns.length(self._start)
        columns.finish()
        start, end, kind, stack, *values = (columns.whole(one) for one in (self._start, self._end, self._kind, self._stack, *self._values))
        with Progress("finding stacks", 2 * n) if self._spans.progress else _Silent() as progress:
            order, backward, forward = self._in_time(n, start, end, progress)
            for at, i in enumerate(order):
                if at % AT_A_TIME == 0:
                    forget()
                    progress.add(AT_A_TIME)
                number = stack[i] if backward[at] == _FORWARD else forward.of(backward[at])
                yield Found(start[i], end[i], kind[i], tuple(one[i] for one in values)), self._shown(number)

    def _in_time(self, n: int, start: Any, end: Any, progress: Any) -> Tuple[Any, Any, "_Forward"]:
        """The spans in order of time; for each the sequence number of its forward operator, or _FORWARD; and the stacks of those operators."""
        place, kind, stack, sequence, is_backward = (self._columns.whole(one) for one in (
            self._place, self._kind, self._stack, self._sequence, self._is_backward))
        names = [one.name for one in self._spans.kinds]
        columns, forward = Columns(), _Forward()
        order, backward = columns.new("i"), columns.new("q")
        nested: Dict[int, List[Tuple[int, Optional[str], Optional[int]]]] = {number: [] for number in self._places.values()}
        for at, i in enumerate(in_time(start, end)):
            if at % AT_A_TIME == 0:
                columns.trim()
                forget()
                progress.add(AT_A_TIME)
            found = _backward(nested[place[i]], end[i], names[kind[i]], sequence[i], is_backward[i])
            order.append(i)
            backward.append(_FORWARD if found is None else found)
            if found is None and sequence[i] >= 0:
                forward.add(sequence[i], stack[i])
        columns.finish()
        forward.finish()
        return columns.whole(order), columns.whole(backward), forward

    def _make(self, number: int) -> Any:
        """The converted stack with this number."""
        spans = self._spans
        if number >= 0:
            frames = [frame for frame in spans.stacks[number].split(";") if frame]
        else:
            frames = [spans.kinds[kind].name for kind in spans.functions.kinds(_NO_STACK - number)]
        return self._show([frame for frame in frames if seen_frame(frame)])


class _Silent:
    """Stands in for Progress without a terminal."""

    def __enter__(self) -> "_Silent":
        return self

    def __exit__(self, *_: Any) -> None:
        pass

    def add(self, _: int) -> None:
        """Does nothing."""


class _Forward:
    """The stack of the first span of each sequence number in the forward pass."""

    def __init__(self) -> None:
        self._columns = Columns()
        self._sequences: Any = self._columns.new("q")
        self._stacks: Any = self._columns.new("i")

    def add(self, sequence: int, stack: int) -> None:
        """Adds the next span in order of time."""
        self._sequences.append(sequence)
        self._stacks.append(stack)
        if len(self._sequences) % AT_A_TIME == 0:
            self._columns.trim()

    def finish(self) -> None:
        """Sorts the spans. No add() may follow."""
        self._columns.finish()
        sequences, stacks = (self._columns.whole(one) for one in (self._sequences, self._stacks))
        columns, last = Columns(), None
        firsts: Tuple[array, array] = columns.new("q"), columns.new("i")
        for n, i in enumerate(in_order(len(sequences), sequences.__getitem__)):
            if n % AT_A_TIME == 0:
                columns.trim()
                forget()
            if sequences[i] != last:
                last = sequences[i]
                firsts[0].append(last)
                firsts[1].append(stacks[i])
        columns.finish()
        self._columns = columns
        self._sequences, self._stacks = (columns.whole(one) for one in firsts)

    def of(self, sequence: int) -> int:
        """The stack number of this sequence number."""
        at = bisect.bisect_left(self._sequences, sequence)
        return self._stacks[at] if at < len(self._sequences) and self._sequences[at] == sequence else _NO_STACK


def _backward(nested: List[Tuple[int, Optional[str], Optional[int]]], end: int, name: str, sequence: int, is_backward: int) -> Optional[int]:
    """The sequence number of the backward function that the span is, or runs in; None outside of one. nested: the open spans as
    (end, function that is evaluated, sequence number)."""
    while nested and nested[-1][0] < end:
        nested.pop()
    if name.startswith(_EVALUATE):
        nested.append((end, name[len(_EVALUATE):], nested[-1][2] if nested else None))
    elif is_backward or nested and nested[-1][1] == name:
        nested.append((end, None, sequence))
    return nested[-1][2] if nested else None
