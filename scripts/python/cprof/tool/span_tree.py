# SPDX-License-Identifier: Apache-2.0
"""The tree of the spans of a thread, and the sums over children (spans.py has the rules)."""

import bisect
import itertools
from typing import Callable, Iterator, List, Optional

from cprof.tool.categories import CALLS
from cprof.tool.columns import forget
from cprof.tool.spans import AT_A_TIME, LIMIT, MARKS, Row, Spans, in_time


LIBRARY = ("library_call", "user_annotation")  # a range in an operator is a library's range of ITT or NVTX


class Node:
    """A span in the tree."""

    own_device = memory = device_memory = 0
    children = child_time = child_device = child_memory = child_device_memory = 0
    only: "Optional[Node]" = None            # the only child so far
    holds = False                            # it holds a whole step, such as a range around the loop
    root = False                             # it holds none, and neither has a parent that does not
    frames = 0                               # Python functions that it runs in: number in Spans.functions

    def __init__(self, index: int, end: int, kind: int) -> None:
        self.index, self.end, self.kind = index, end, kind


def walk(spans: Spans, row: Row, frames: bool = False,
         without: Optional[Callable[[str, int, int], bool]] = None,
         holds: Optional[Callable[[int, int], bool]] = None) -> Iterator[Node]:
    """A thread's spans, children before their parents, each when the sums over its children are known. frames: the nodes get the
    Python functions that they ran in, as numbers in spans.functions. without: tells by name, start and end which spans to ignore.
    holds: whether a whole step lies between a start and an end."""
    start, end, numbers, externals, kinds = row.start, row.end, row.kind, row.external, spans.kinds
    names = [kind.name for kind in kinds]
    python = [frames and kind.category == "python_function" for kind in kinds]
    is_call = [kind.category in CALLS for kind in kinds]
    is_operator = [kind.category == "cpu_op" for kind in kinds]
    is_library = [kind.category in LIBRARY for kind in kinds]
    is_async = [kind.is_async for kind in kinds]
    has_work = [one == spans.by_call for one in is_call]  # whether a positive External id joins work to it
    marks = spans.work_marks
    memory, sums, device_sums, seen = spans.memory_time, spans.memory_sums, spans.memory_device_sums, spans.memory_seen
    bisect_left, bisect_right, all_memory = bisect.bisect_left, bisect.bisect_right, len(memory)
    shortest = min((one[1] - one[0] for one in spans.steps), default=LIMIT)
    low = 0
    stack: List[Node] = []

    for n, i in enumerate(itertools.chain(in_time(start, end, spans.progress), (-1,))):
        if i < 0:  # the end
            begin = finish = LIMIT << 1
            kind = 0
        else:
            begin, finish, kind = start[i], end[i], numbers[i]
            if without is not None and without(names[kind], begin, finish):
                continue
        if n % AT_A_TIME == 0:
            forget()
            if spans.progress:
                spans.progress.add(AT_A_TIME)
        while stack:
            node = stack[-1]
            if begin < node.end and (finish <= node.end or is_async[kind]):
                break
            # It is complete: add its sums to its parent, and yield what cannot change any more.
            del stack[-1]
            parent = stack[-1] if stack else None
            node.root = not node.holds and (parent is None or parent.holds)
            child = node.only
            if child is not None:
                node.only = None
                if names[child.kind] == names[node.kind] and child.holds == node.holds:
                    # torch: an only child of the same name takes its parent's place; but a child in a step does not replace a span that holds steps
                    node.own_device, node.children = child.own_device, child.children
                    node.child_time, node.child_device = child.child_time, child.child_device
                    node.child_memory, node.child_device_memory = child.child_memory, child.child_device_memory
                else:
                    yield child
            if parent is None:
                yield node
                continue
            if is_library[node.kind] and is_operator[parent.kind]:
                found = spans.below.setdefault((parent.kind, node.kind), [0, 0, 0, 0])
                duration = node.end - start[node.index]
                for at, value in enumerate((1, duration - node.child_time, duration, node.own_device + node.child_device)):
                    found[at] += value
            if node.own_device and is_call[node.kind] and not parent.holds:  # the work is the operator's
                parent.own_device += node.own_device
                node.own_device = 0
            parent.child_time += node.end - start[node.index]
            parent.child_device += node.own_device + node.child_device
            parent.child_memory += node.memory
            parent.child_device_memory += node.device_memory
            parent.children += 1
            if parent.children == 1:
                parent.only = node
            else:
                yield node
        if i < 0:
            break
        node = Node(i, finish, kind)
        if low < all_memory:
            if memory[low] < begin:
                low = bisect_left(memory, begin, low)
            if low < all_memory and memory[low] <= finish:
                high = bisect_right(memory, finish, low)
                node.memory, node.device_memory = sums[high] - sums[low], device_sums[high] - device_sums[low]
                seen[low] += 1
                seen[high] -= 1
        external = externals[i]
        if external and marks[external % MARKS] and (has_work[kind] or external < 0):
            node.own_device = spans.work_of(external)
        around = stack[-1] if stack else None
        if frames and around is not None:
            node.frames = spans.functions.number(around.kind, around.frames) if python[around.kind] else around.frames
        if is_async[kind]:
            yield _alone(node, begin, around)
            continue
        if holds is not None and finish - begin >= shortest:
            node.holds = holds(begin, finish)
        if around is not None and around.only is not None:  # no longer the only child: keep the order of time
            yield around.only
            around.only = None
        stack.append(node)
    if spans.progress:
        spans.progress.close()


def _alone(node: Node, start: int, around: Optional[Node]) -> Node:
    """Handles an asynchronous range: it has no self time or memory, and its work goes to the span that it began in."""
    node.child_time, node.child_memory, node.child_device_memory = node.end - start, node.memory, node.device_memory
    if around is not None:
        around.own_device += node.own_device
        node.own_device = 0
    return node
