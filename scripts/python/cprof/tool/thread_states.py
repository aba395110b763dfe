# SPDX-License-Identifier: Apache-2.0
"""What one thread does at each time, also in words: an operator, Python between two operators, the DataLoader, a collective.

An operator of the backward pass gets the line of its forward operator if one thread runs both: they have the same sequence number."""

import bisect
import itertools
import re
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from cprof.tool.categories import CALLS
from cprof.tool.columns import Columns
from cprof.tool.spans import AT_A_TIME, LIMIT, Row, Spans, rows_in_time
from cprof.tool.steps import STEPS

DATA = "enumerate(DataLoader)#"
OPTIMIZER = "Optimizer."
COLLECTIVE = re.compile(r"c10d::|record_param_comms$|gloo:|mpi:|ucc:|P?MPI_")
# Code that Inductor generates is in a file whose name begins with "c", in a folder of the two letters behind that.
_FRAMES_OF_OTHERS = re.compile(r"^(<|torch/|threading\.py|multiprocessing/|importlib/|.*/site-packages/|nn\.Module: |runpy\.py|contextlib\.py)|"
                               r"^(?:.*/)?(?P<two>[a-z2-7]{2})/c(?P=two)[a-z2-7]{49}\.py\(|^[^ ]+ \([^()]*\.so|\.so\)$")
_LINE = re.compile(r".*\(\d+\): ")
FORWARD_MOST = 1 << 16    # sequence numbers whose forward operators are kept


class Cause(NamedTuple):
    """Why time was lost."""
    what: str             # "operator", "python", "call", "data", "collective", or "" if unknown
    name: str             # of the operator, call or range; for Python: of the operator before
    line: str = ""        # innermost line of the program's
    to_line: str = ""     # for Python: the line of the next operator
    on_gpu: bool = True   # the operator launches work
    optimizer: bool = False
    module: str = ""
    direct: bool = False  # that line itself calls the operator, not a library


NOBODY = Cause("", "")


def is_own_frame(frame: str) -> bool:
    """Whether it is a line of the program's own."""
    return _LINE.match(frame) is not None and not _FRAMES_OF_OTHERS.match(frame)


def line_of(frames: List[str]) -> str:
    """The innermost line of the program's own, else of library code."""
    lines = [frame for frame in frames if _LINE.match(frame)]
    own = next(filter(is_own_frame, lines), None)
    return own or (lines[0] if lines else "")


class State(NamedTuple):
    """What a thread does. Kinds are numbers in Spans.kinds, -1 for none."""
    data: int = -1
    operator: int = -1
    stack: int = -1
    collective: int = -1
    optimizer: bool = False
    function: int = -1
    forward: int = -1     # stack of its forward operator
    # outside operators: the operator before and the one after
    before: int = -1
    before_stack: int = -1
    behind_stack: int = -1

    @property
    def caller(self) -> int:
        """The operator's stack; in the backward pass that of its forward operator."""
        return self.forward if self.forward >= 0 else self.stack


class ThreadStates:
    """The states of one thread."""

    def __init__(self, spans: Spans, row: Optional[Row]) -> None:
        self._spans, self._columns = spans, Columns()
        self.at, self.number = self._columns.new("q"), self._columns.new("i")
        self.states: List[State] = [State()]
        self._put_last = -1
        self._numbers: Dict[State, int] = {self.states[0]: 0}
        self.launching: Dict[Tuple[int, int], bool] = {}  # by operator and stack: whether it calls a device's API
        self.inside: Dict[int, Cause] = {}                # by index of a piece in an operator: the first call in it that waits for the GPU
        self._causes: Dict[int, Cause] = {}
        self._words_of: Dict[Cause, Cause] = {}
        if row is not None:
            self._fill(row)
        self._columns.finish()
        self.at, self.number = self._columns.whole(self.at), self._columns.whole(self.number)

    def _kind(self, kind: Any) -> str:
        if kind.category in CALLS:
            return "call"
        if kind.category == "user_annotation" or kind.category == "overhead":
            return "data" if kind.name.startswith(DATA) else "optimizer" if kind.name.startswith(OPTIMIZER) else "range"
        return "function" if kind.category == "python_function" else "operator"

    def _number(self, state: State) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self.states)
            self.states.append(state)
        return number

    def _put(self, time: int, number: int) -> None:
        if number != self._put_last:  # spans inside an operator do not split it
            self._put_last = number
            self.at.append(time)
            self.number.append(number)

    def _between(self, idle: int, before: int, behind: int) -> int:
        """The number of a state between two operators; behind: the state after it, 0 for none."""
        state, one, other = self.states[idle], self.states[before], self.states[behind]
        within = one.forward >= 0 and other.forward >= 0  # in the backward pass
        return self._number(state._replace(before=one.operator, before_stack=one.forward if within else one.stack,
                                           behind_stack=other.forward if within else other.stack))

    def _fill(self, row: Row) -> None:
        spans, states, put = self._spans, self.states, self._put
        kinds = [self._kind(kind) for kind in spans.kinds]
        left_out = [kind.name == STEPS or kind.is_async for kind in spans.kinds]
        is_collective = [COLLECTIVE.match(kind.name) is not None for kind in spans.kinds]
        is_own = [kind.category == "python_function" and is_own_frame(kind.name) for kind in spans.kinds]
        is_operator = [kind in ("call", "operator") for kind in kinds]
        has_stacks = len(row.stack) > 0
        forward: Dict[int, int] = {}                # stack by sequence number, of forward operators
        ends: List[int] = []                        # of the open spans that changed the state,
        opened: List[int] = []                      # and the states that they changed it to
        inner: Dict[Tuple[int, int, int, int], int] = {}    # by state, kind, stack and stack of the forward operator: the state in such a span
        between: Dict[Tuple[int, int, int], int] = {}
        launching = set()
        idle_since, idle = 0, -1                    # since when no operator is open, not yet put, and the state; -1 for none
        before, now = 0, 0                          # the last state with an operator; the state
        last = -LIMIT

        def change(time: int, number: int) -> None:
            nonlocal idle, idle_since, before
            in_operator = states[number].operator >= 0
            if idle >= 0:
                key = (idle, before, number if in_operator else 0)
                known = between.get(key)
                if known is None:
                    known = between[key] = self._between(*key)
                put(idle_since, known)
                idle = -1
            if in_operator:
                before = number
                put(time, number)
            else:
                idle, idle_since = number, time

        columns = [row.start, row.end, row.kind] + ([row.stack, row.sequence, row.forward] if has_stacks else [row.kind] * 3)
        for n, (start, end, kind, its_stack, sequence, in_backward) in enumerate(rows_in_time(row.start, row.end, *columns)):
            if n % AT_A_TIME == 0:
                self._columns.trim()
            if left_out[kind]:
                continue
            while ends and ends[-1] <= start:
                last = max(last, ends.pop())
                opened.pop()
                now = opened[-1] if opened else 0
                change(last, now)
            stack = of_forward = -1
            if is_operator[kind]:
                in_operator = states[now].operator >= 0
                if has_stacks:
                    stack = its_stack
                    if sequence >= 0 and not in_backward:  # the last one that has the number
                        forward[sequence] = stack
                        if len(forward) > FORWARD_MOST:
                            for old in list(itertools.islice(forward, FORWARD_MOST // 2)):
                                del forward[old]
                    elif sequence >= 0 and not in_operator:
                        of_forward = forward.get(sequence, -1)
                if in_operator:
                    if kinds[kind] == "call":
                        launching.add(now)
                    if not is_collective[kind]:
                        continue
            key = (now, kind, stack, of_forward)
            found = inner.get(key)
            if found is None:
                found = inner[key] = self._number(self._inside(states[now], kinds[kind], kind, is_own[kind], is_collective[kind], stack, of_forward))
            if found != now or states[now].operator < 0:
                ends.append(min(end, ends[-1]) if ends else end)  # of a damaged trace: it must nest
                opened.append(found)
                if found != now:
                    now, last = found, max(last, start)
                    change(last, found)
        while ends:
            last = max(last, ends.pop())
            opened.pop()
            change(last, opened[-1] if opened else 0)
        if idle >= 0:
            put(idle_since, self._between(idle, before, 0))
        for number in launching:
            self.launching[states[number].operator, states[number].stack] = True

    @staticmethod
    def _inside(state: State, what: str, kind: int, is_own: bool, is_collective: bool, stack: int, forward: int) -> State:
        """The state in a span."""
        if what == "function":
            return state._replace(function=kind if is_own or state.function < 0 else state.function)
        if what == "data":
            return state._replace(data=kind)
        if what == "optimizer":
            return state._replace(optimizer=True)
        if what == "range":
            return state
        if state.operator < 0:
            state = state._replace(operator=kind, stack=stack, forward=forward)
        return state._replace(collective=kind) if is_collective else state

    def pieces(self, start: int, end: int) -> Iterator[Tuple[int, int, int]]:
        """The time between start and end in pieces of one state: start, end, number."""
        times, numbers, last = self.at, self.number, len(self.at) - 1
        at = max(bisect.bisect_right(times, start) - 1, 0)
        if last < 0 or start < times[0]:
            until = min(end, times[0]) if last >= 0 else end
            yield start, until, 0
            start = until
        while start < end:
            while at < last and times[at + 1] <= start:
                at += 1
            until = min(end, times[at + 1]) if at < last else end
            yield start, until, numbers[at]
            start = until

    def index_at(self, time: int) -> int:
        """The index of the piece at a time, -1 for none."""
        return bisect.bisect_right(self.at, time) - 1

    def start_of(self, time: int) -> int:
        """The start of the piece at a time."""
        at = self.index_at(time)
        return self.at[at] if at >= 0 else -LIMIT

    def number_at(self, time: int) -> int:
        """The state at a time."""
        at = self.index_at(time)
        return self.number[at] if at >= 0 else 0

    def put_wait(self, start: int, end: int, cause: Cause) -> None:
        """Takes a call that waits for the GPU, in order of time."""
        at = self.index_at(start)
        if at >= 0 and self.states[self.number[at]].operator >= 0 and (at + 1 == len(self.at) or end <= self.at[at + 1]):
            self.inside.setdefault(at, cause)

    def _frames(self, stack: int) -> List[str]:
        return [frame for frame in self._spans.stacks[stack].split(";") if frame] if stack >= 0 else []

    def line(self, stack: int, function: int = -1) -> str:
        """The program's line of a stack."""
        if stack >= 0:
            return line_of(self._frames(stack))
        return self._spans.kinds[function].name if function >= 0 else ""

    def cause(self, number: int) -> Cause:
        """A state in words."""
        found = self._causes.get(number)
        if found is None:
            words = self._words(self.states[number])
            found = self._causes[number] = self._words_of.setdefault(words, words)  # equal ones are one object
        return found

    def _words(self, state: State) -> Cause:
        kinds = self._spans.kinds
        if state.data >= 0:
            return Cause("data", kinds[state.data].name, self.line(state.stack, state.function) or self.line(state.behind_stack))
        if state.operator >= 0:
            what = "collective" if state.collective >= 0 else "operator"
            direct = any(map(is_own_frame, self._frames(state.caller)[:1]))
            return Cause(what, kinds[state.operator].name, self.line(state.caller, state.function), direct=direct,
                         on_gpu=self.launching.get((state.operator, state.stack), False) or kinds[state.operator].category in CALLS,
                         optimizer=state.optimizer, module=kinds[state.operator].group or "")
        line = self.line(-1, state.function)
        return Cause("python", "" if line or state.before < 0 else kinds[state.before].name, line or self.line(state.before_stack),
                     "" if line else self.line(state.behind_stack), optimizer=state.optimizer)
