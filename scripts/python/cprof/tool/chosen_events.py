# SPDX-License-Identifier: Apache-2.0
"""Which events of a trace are wanted: those of some steps, or of some categories."""

import bisect
import re
from typing import Any, Dict, FrozenSet, Iterable, Iterator, List, NamedTuple, Optional, Set, Tuple

from cprof.tool import Problem
from cprof.tool.collectives import ns_of

Ranges = Tuple[Tuple[int, int], ...]  # of numbers, both ends included
NUMBERS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
COUNTER = "counter"                   # the name for counters, which have no category
SAMPLE = 200_000                      # events that are looked at to say which categories a trace has
ENDS = ("b", "e")                     # of asynchronous ranges


def ranges_of(text: str, option: str) -> Ranges:
    """The ranges of "0,4-7"."""
    found = []
    for part in text.split(","):
        match = NUMBERS.fullmatch(part.strip())
        if not match or int(match[2] or match[1]) < int(match[1]):
            raise Problem(f"{option}={text}: must be numbers and ranges, such as 0,4-7")
        found.append((int(match[1]), int(match[2] or match[1])))
    return tuple(found)


def is_in(number: int, ranges: Ranges) -> bool:
    """Whether one of the ranges has the number."""
    return any(first <= number <= last for first, last in ranges)


class Choice(NamedTuple):
    """What is wanted; None: everything."""
    steps: Optional[Ranges] = None
    only: Optional[FrozenSet[str]] = None

    @property
    def steps_text(self) -> str:
        """The steps as the option has them."""
        return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in self.steps or ())

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self.steps is None and self.only is None


def categories_of(event: Dict[str, Any]) -> List[str]:
    """The categories of an event; [] for metadata."""
    category = event.get("cat")
    if type(category) is str and category:
        return category.split(",")
    return [COUNTER] if event.get("ph") == "C" else []


class Filter:
    """Lets the wanted events of a trace pass, in their order. An asynchronous range is held until its end is known; rest() has those without an
    end. An arrow passes if its beginning does, and with `only`, if its own category is named."""

    def __init__(self, only: Optional[FrozenSet[str]], spans: Optional[Iterable[Tuple[int, int]]]) -> None:
        """spans: the time of the wanted steps, in ns as the events count them; None: all the time."""
        self._only = only
        self._spans = None if spans is None else sorted(spans)
        self._starts = [start for start, _ in self._spans or ()]
        self._arrows: Set[Tuple[str, str]] = set()
        self._begun: Dict[Tuple[str, str, str], List[Dict[str, Any]]] = {}

    def __call__(self, events: Iterable[Dict[str, Any]]) -> Iterator[Dict[str, Any]]:
        """Those of the events that are wanted."""
        for event in events:
            if event.get("ph") == "M":
                yield event
            elif self._only is None or not self._only.isdisjoint(categories_of(event)) or str(event.get("name")).startswith("ProfilerStep#"):
                yield from [event] if self._spans is None else self._in_time(event)

    def rest(self) -> Iterator[Dict[str, Any]]:
        """The beginnings of asynchronous ranges that have no end."""
        for begun in self._begun.values():
            for event in begun:
                if self._overlaps(ns_of(event.get("ts")), 1 << 62):
                    yield event

    def _overlaps(self, start: int, end: int) -> bool:
        """Whether [start, end] and a wanted step have a moment in common."""
        spans = self._spans or []
        at = bisect.bisect_right(self._starts, end) - 1
        # steps follow each other; of steps that overlap, an earlier one may end later
        return any(spans[n][1] > start and (spans[n][0] < end or start == end) for n in range(at, max(at - 3, -1), -1))

    def _in_time(self, event: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
        ph, start = event.get("ph"), ns_of(event.get("ts"))
        if ph in ENDS:
            yield from self._asynchronous(event, start)
        elif ph in ("f", "t"):
            if self._arrow(event) in self._arrows:
                yield event
        elif self._overlaps(start, start + (ns_of(event.get("dur")) if ph == "X" else 0)):
            if ph == "s":
                self._arrows.add(self._arrow(event))
            yield event

    @staticmethod
    def _arrow(event: Dict[str, Any]) -> Tuple[str, str]:
        return str(event.get("cat")), str(event.get("id"))

    def _asynchronous(self, event: Dict[str, Any], at: int) -> Iterator[Dict[str, Any]]:
        key = str(event.get("pid")), str(event.get("cat")), str(event.get("id", event.get("id2")))
        if event["ph"] == "b":
            self._begun.setdefault(key, []).append(event)
            return
        begun = self._begun.get(key)
        if not begun:
            return
        first = begun.pop()
        if not begun:
            del self._begun[key]
        if self._overlaps(ns_of(first.get("ts")), at):
            yield first
            yield event


def shares(events: Iterable[Dict[str, Any]]) -> List[Tuple[str, float]]:
    """The categories of the first events and their shares, the largest first."""
    count: Dict[str, int] = {}
    total = 0
    for event in events:
        for category in categories_of(event)[:1]:
            count[category] = count.get(category, 0) + 1
            total += 1
        if total >= SAMPLE:
            break
    return sorted(((name, n / total) for name, n in count.items()), key=lambda one: -one[1])
