# SPDX-License-Identifier: Apache-2.0
"""Perfetto's own trace format, as far as `cprof open` needs it: rows in trees, with slices, instants, counters and arrows.

The messages and the numbers of their fields: protos/perfetto/trace in https://github.com/google/perfetto."""

import re
import struct
from typing import Any, BinaryIO, Callable, Dict

BEGIN, END, INSTANT, COUNTER = 1, 2, 3, 4  # TrackEvent.type
ARROW_OUT, ARROW_IN = 47, 48               # fields of TrackEvent: an arrow begins or ends here
_EXPLICIT = 3                              # TrackDescriptor.child_ordering
_NAMES_BEGIN, _NAMES_NEEDED = 1, 2         # TracePacket.sequence_flags
_CATEGORIES, _NAMES, _ARGS, _FRAMES = 1, 2, 3, 29  # fields of InternedData
_frame = re.compile(r"(.+)\((\d+)\): (.*)", re.S)


# All values of fourteen bits, seven per byte, as the end of a number, and before its end.
_LAST = [bytes([n]) if n < 128 else bytes([n & 127 | 128, n >> 7]) for n in range(1 << 14)]
_MORE = [bytes([n & 127 | 128, n >> 7 | 128]) for n in range(1 << 14)]


def varint(value: int) -> bytes:
    """A number in as few bytes as it needs; a negative number as 64 bits."""
    if value < 0:
        value += 1 << 64
    out = b""
    while value >= 1 << 14:
        out += _MORE[value & 0x3fff]
        value >>= 14
    return out + _LAST[value]


def number(field: int, value: int) -> bytes:
    """A whole number."""
    return varint(field << 3) + varint(value)


def fixed(field: int, kind: str, value: Any) -> bytes:
    """Eight bytes: kind "d" is a double, "Q" a number."""
    return varint(field << 3 | 1) + struct.pack("<" + kind, value)


def data(field: int, value: bytes) -> bytes:
    """A text in UTF-8, or a message."""
    return varint(field << 3 | 2) + varint(len(value)) + value


def text(field: int, value: str) -> bytes:
    """A text."""
    return data(field, value.encode("utf-8", "replace"))


def frame_line(frame: str) -> str:
    """torch's `module.py(12): function` as `module.py:12 function`; a native frame unchanged."""
    return _frame.sub(r"\1:\2 \3", frame)


class Names:
    """Texts that are in the file once, and the events' references to them."""

    def __init__(self, show: Callable[[Any], str]) -> None:
        self._show = show  # text of an argument that is no scalar
        self._known: Dict[int, Dict[str, int]] = {_CATEGORIES: {}, _NAMES: {}, _ARGS: {}, _FRAMES: {}}
        self._stacks: Dict[str, bytes] = {}

    def _id(self, kind: int, name: str) -> int:
        known = self._known[kind]
        return known.setdefault(name, len(known) + 1)

    def event(self, category: str, name: str, args: Dict[str, Any]) -> bytes:
        """The part of a TrackEvent that does not depend on its place and time."""
        shown = [self._arg(key, value) for key, value in args.items() if value is not None]
        return number(3, self._id(_CATEGORIES, category)) + number(10, self._id(_NAMES, name)) + b"".join(shown)

    def _arg(self, key: str, value: Any) -> bytes:
        kind = type(value)
        if kind is str:
            shown = self._stack(value) if key == "Call stack" else text(6, value)
        elif kind is bool:
            shown = number(2, value)
        elif kind is int and abs(value) < 1 << 63:
            shown = number(4, value)
        elif kind is float:
            shown = fixed(5, "d", value)
        else:
            shown = text(6, self._show(value))
        return data(4, number(1, self._id(_ARGS, key)) + shown)

    def _stack(self, stack: str) -> bytes:
        """A line for each frame."""
        shown = self._stacks.get(stack)
        if shown is None:
            lines = [data(12, number(17, self._id(_FRAMES, frame_line(frame)))) for frame in stack.split(";") if frame]
            shown = self._stacks[stack] = b"".join(lines)
        return shown

    def table(self) -> bytes:
        """InternedData."""
        return b"".join(data(kind, number(1, one) + text(2, name)) for kind, known in self._known.items() for name, one in known.items())


_NEEDED = number(13, _NAMES_NEEDED)


class Packets:
    """Writes the file."""

    def __init__(self, out: BinaryIO, names: Names) -> None:
        self._out, self._rows = out, 0
        self._what: Dict[Any, bytes] = {}  # the fields for kind and row of an event
        self._packet(data(12, names.table()) + number(13, _NAMES_BEGIN))

    def _packet(self, content: bytes) -> None:
        self._out.write(data(1, content + b"\x50\x01"))  # of the first sequence

    def row(self, name: str, parent: int = 0, rank: int = 0, counter: bool = False) -> int:
        """Adds a row, or a group of rows, to its parent, sorted by rank. Returns its number."""
        self._rows += 1
        more = (number(5, parent) if parent else b"") + (data(8, b"") if counter else b"")
        self._packet(data(60, number(1, self._rows) + text(2, name) + number(11, _EXPLICIT) + number(12, rank) + more))
        return self._rows

    def event(self, kind: int, row: int, at: int, body: bytes = b"") -> None:
        """Adds an event at a time in ns."""
        what = self._what.get((kind, row))
        if what is None:
            what = self._what[kind, row] = number(9, kind) + number(11, row)
        self._packet(number(8, at) + _NEEDED + data(11, what + body))
