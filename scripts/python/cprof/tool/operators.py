# SPDX-License-Identifier: Apache-2.0
"""Operators and the devices' work by name, module and line of the program: sums over traces, for `cprof report`."""

import collections
from typing import Counter, Dict, List, NamedTuple, Tuple

from cprof.tool.moments import Trace
from cprof.tool.thread_states import line_of
from cprof.tool.span_roots import walk_all
from cprof.tool.span_stacks import StackFinder
from cprof.tool.spans import Kind
from cprof.tool.steps import is_step_name

_MODULE = "nn.Module: "


class Place(NamedTuple):
    """The key of a sum. Fields that the trace lacks are empty."""
    name: str
    module: str
    line: str


class Sum(NamedTuple):
    """Times are nanoseconds."""
    place: Place
    time: int     # of an operator: its self time on the CPU
    device: int   # of the work that an operator launched itself
    calls: int


def _where(frames: List[str]) -> Tuple[str, str]:
    """Module and line of a stack, innermost frame first."""
    modules = [frame[len(_MODULE):] for frame in frames if frame.startswith(_MODULE)]
    return ".".join(reversed(modules)), line_of(frames)


def _is_operator(kind: Kind) -> bool:
    return not (is_step_name(kind.name) or kind.is_async or kind.category == "python_function")


class Operators:
    """Sums over traces."""

    def __init__(self) -> None:
        self._operators: Dict[Place, List[int]] = collections.defaultdict(lambda: [0, 0, 0])
        self._work: Dict[str, Counter[Place]] = collections.defaultdict(collections.Counter)
        self._times: Counter[str] = collections.Counter()

    def add(self, trace: Trace) -> None:
        """Adds a trace."""
        spans = trace.spans
        finder = StackFinder(spans, 2, _where)
        for place, row, node in walk_all(spans, True):
            if _is_operator(spans.kinds[node.kind]):
                finder.add(place, row, node, node.end - row.start[node.index] - node.child_time, node.own_device)
        for found, (module, line) in finder.stacks():
            kind = spans.kinds[found.kind]
            sums = self._operators[Place(kind.name, kind.group or module, line)]
            for at, value in enumerate((*found.values, 1)):
                sums[at] += value
        for name, cause, time in trace.launched():
            self._work[name][Place(cause.name, cause.module, cause.line)] += time
            self._times[name] += 1

    def operators(self) -> List[Sum]:
        """The operators, the longest self time first."""
        return sorted((Sum(place, *sums) for place, sums in self._operators.items()), key=lambda one: (-one.time, one.place))

    def work(self) -> List[Tuple[str, Sum]]:
        """Kernels, copies and fills by name, the longest first, with the operator that launched most of each."""
        found: List[Tuple[str, Sum]] = []
        for name, times in self._work.items():
            most = min(times, key=lambda place: (-times[place], place))
            found.append((name, Sum(most, sum(times.values()), 0, self._times[name])))
        return sorted(found, key=lambda item: (-item[1].time, item[0]))


