# SPDX-License-Identifier: Apache-2.0
"""Spans out of the text of cprof's own traces, a third of the time that reading them as JSON takes: one event in a line, its
keys in the order of writer/json/json.c. A line that looks different is read as JSON, and a block in which that fails, or in which
most lines do, is left to reader.py as a whole: nothing is guessed."""

import json
import re
from typing import Any, Callable, Dict, List, Optional, Tuple

_PLACE = r'"pid": (\d+), "tid": (\d+), "ts": (\d{1,15})\.(\d{3})'
_TEXT = r'[^"\\\x00-\x1f]*'
_NUMBER = r"-?\d{1,18}(?:\.\d+)?"  # others are read as JSON
_ARGS = rf'(?:"{_TEXT}": (?:{_NUMBER}|\[(?:\d+(?:, \d+)*)?\])(?:, )?)*'
_line = re.compile(
    rf'^(?:\{{"ph": "X", "cat": "([a-z_]+)", "name": "({_TEXT})", {_PLACE}, "dur": (\d{{1,15}})\.(\d{{3}}), '
    rf'"args": \{{(?:"External id": (\d{{1,18}})(?:, )?)?({_ARGS})\}}\}}'
    rf'|\{{"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "\[memory\]", "pid": \d+, "tid": \d+, "ts": (\d{{1,15}})\.(\d{{3}}), '
    rf'"args": \{{"Total Reserved": -?\d+, "Total Allocated": -?\d+, "Bytes": (-?\d{{1,18}}), "Device Id": -?\d+, '
    rf'"Device Type": (-?\d{{1,18}})(?:, "{_TEXT}": {_NUMBER})*\}}\}}'
    rf'|\{{"ph": "(?:(C)", "name": "{_TEXT}"|([sf])", "id": \d+), "pid": \d+, "tid": \d+, "ts": {_NUMBER}, '
    rf'(?:"args": \{{"{_TEXT}": {_NUMBER}\}}|"cat": "{_TEXT}", "name": "{_TEXT}"(?:, "bp": "e")?)\}}'
    r"),?$|^(.+)$", re.M | re.A)
# in the order of the groups
_CATEGORY, _NAME, _PID, _TID, _US, _NS, _DUR_US, _DUR_NS, _EXTERNAL, _REST = range(10)
_MEMORY_US, _MEMORY_NS, _BYTES, _DEVICE, _COUNTER, _FLOW, _ODD = range(10, 17)
_wanted = {name: re.compile(rf'"{name}": (\d+)(?:,|$)', re.A) for name in ("correlation", "flops", "thread")}
_flops = _wanted["flops"]
_MOST_ODD = 3  # of so many lines one; more are faster as a block


class LineTaker:
    """Takes blocks of text for a reading (spans.py). slow: reads an event that is a dictionary."""

    def __init__(self, reading: Any, slow: Callable[[Dict[str, Any]], None]) -> None:
        self._reading, self._slow = reading, slow
        # Of operators, of calls without one, of others: a row may be of several.
        self._rows: Tuple[Dict[Any, Tuple[Any, Any, Any, Any]], ...] = ({}, {}, {})
        self._kinds: Dict[Tuple[str, str], Optional[Tuple[int, bool]]] = {}
        self._refused = 0

    def take(self, text: str) -> bool:
        """The events of a text, a comma between them. False: nothing of it was taken."""
        if self._refused > 2:
            return False
        found = _line.findall(text)
        try:
            odd = self._others([line[_ODD] for line in found if line[_ODD]], len(found))
        except (ValueError, RecursionError):
            odd = None
        if odd is None:
            self._refused += 1
            return False
        self._add(found, iter(odd))
        self._reading.spans.columns.trim()
        return True

    @staticmethod
    def _others(lines: List[str], n: int) -> Optional[List[Dict[str, Any]]]:
        if len(lines) * _MOST_ODD > n:
            return None
        events = json.loads("[" + ",".join([line[:-1] if line.endswith(",") else line for line in lines]) + "]")
        if len(events) != len(lines) or not all(type(event) is dict for event in events):
            return None
        return events

    def _add(self, found: List[Tuple[str, ...]], odd: Any) -> None:
        reading, spans, kinds = self._reading, self._reading.spans, self._kinds
        since, apart = reading.since, not reading.wanted.nested
        for line in found:
            category = line[0]
            if not category:
                if line[_ODD]:
                    self._slow(next(odd))
                elif line[_MEMORY_US]:
                    reading.add_memory(int(line[_MEMORY_US] + line[_MEMORY_NS]), int(line[_BYTES]), int(line[_DEVICE]))
                continue
            key = (category, line[1])
            if key not in kinds:
                kinds[key] = reading.plain_kind(category, line[1])
            kind = kinds[key]
            if kind is None:  # steps, kernels, what is left out: seldom, or with a way of their own
                self._slow(_event(line))
                continue
            start = int(line[4] + line[5])
            if start < since and reading.is_before(line[2], start):
                continue
            number, is_call = kind
            external = int(line[_EXTERNAL] or 0)
            joined = external
            if is_call and not apart and not external:
                correlation = _wanted["correlation"].search(line[_REST])
                joined = reading.call_number(correlation and correlation.group(1))
            place = (line[2], line[3], is_call and apart and not external)
            rows = self._rows[0 if not is_call else 2 if external else 1]
            row = rows.get(place)
            if row is None:
                row = rows[place] = reading.row_ends(place, is_call, external)
            row[0](start)
            row[1](start + int(line[6] + line[7]))
            row[2](number)
            row[3](joined)
            if "flops" in line[_REST]:
                flops = _flops.search(line[_REST])
                if flops:
                    spans.flops[number] = spans.flops.get(number, 0) + int(flops.group(1))


def _event(line: Tuple[str, ...]) -> Dict[str, Any]:
    """The event as the reading wants it."""
    args: Dict[str, Any] = {}
    if line[_EXTERNAL]:
        args["External id"] = int(line[_EXTERNAL])
    for name, pattern in _wanted.items():
        found = pattern.search(line[_REST])
        if found:
            args[name] = int(found.group(1))
    return {"ph": "X", "cat": line[_CATEGORY], "name": line[_NAME], "pid": line[_PID], "tid": line[_TID], "args": args,
            "ts": float(f"{line[_US]}.{line[_NS]}"), "dur": float(f"{line[_DUR_US]}.{line[_DUR_NS]}")}
