# SPDX-License-Identifier: Apache-2.0
"""Renumbers and shifts the events of a trace as text, in a third of the time that JSON takes. The trace must be whole, with one
event a line and the keys in the order of writer/json/json.c. For any other trace it raises `NotLines`, and the caller uses
reader.py.

Replacing text is safe: a quote inside a JSON string has a backslash before it, so the patterns match keys only. Each line must
have exactly one `, "pid": N, "tid": `, or its block is read as JSON. `Forms` checks that the lines are JSON."""

import json
import re
import zlib
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, Tuple

EVENTS = b'"traceEvents": [\n'
HEAD_MOST = 1 << 20
CHUNK = 1 << 20
TAIL_MOST = 16 << 20  # bytes after the events
_meta = re.compile(rb'\n\{"ph": "M"[^\n]*')
_flow = re.compile(rb'\n\{"ph": "[sf]", "id": [0-9]+(?=, )')
_long_id = re.compile(rb'"id": [0-9]{15}')  # room for the suffix below 2^63
_pid = re.compile(rb', "pid": ([0-9]{1,18}), "tid": ')
_PID = b', "pid": %d, "tid": '
_odd = (b'"bind_id"', b'"global"', b"NaN", b"Infinity", b"\\ud", b"\\uD")  # other kinds of ids, and text on which Perfetto hangs
_time = re.compile(rb'(, "tid": [0-9]+, "ts": )([0-9]{1,15})\.([0-9]{3})(?=[,}])')


class NotLines(Exception):
    """The trace does not have this form."""


def _pieces(file: BinaryIO, progress: Callable[[int], Any]) -> Iterator[bytes]:
    """The file's text, unpacked if it is gzip data."""
    raw = file.read(CHUNK)
    progress(len(raw))
    if raw[:2] != b"\x1f\x8b":
        while raw:
            yield raw
            raw = file.read(CHUNK)
            progress(len(raw))
        return
    unzip = zlib.decompressobj(31)
    try:
        while raw:
            if unzip.eof:  # members may follow each other, and padding may follow the last
                raw = raw.lstrip(b"\0")
                unzip = zlib.decompressobj(31) if raw else unzip
            if raw:
                yield unzip.decompress(raw, 4 * CHUNK)
                raw = unzip.unused_data if unzip.eof else unzip.unconsumed_tail
            if not raw:
                raw = file.read(CHUNK)
                progress(len(raw))
    except zlib.error:
        raise NotLines from None
    if not unzip.eof:
        raise NotLines


def _blocks(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Blocks of whole lines. The last block may lack its line break; a line longer than any event comes in several blocks."""
    rest = b""
    for piece in pieces:
        cut = piece.rfind(b"\n") + 1
        if not cut and len(rest) > HEAD_MOST:
            cut = len(piece)
        if cut:
            yield rest + piece[:cut]
            rest = piece[cut:]
        else:
            rest += piece
    if rest:
        yield rest


class LineTrace:
    """A trace, read as lines."""

    def __init__(self, file: BinaryIO, progress: Callable[[int], Any]) -> None:
        self.metadata: Dict[str, Any] = {}
        self._source = _blocks(_pieces(file, progress))
        self._first = self._head()

    def _head(self) -> bytes:
        """Reads the head of the file. Returns the events after it in the same block."""
        text = b""
        for block in self._source:
            text += block
            begin = text.find(EVENTS)
            if begin >= 0:
                self._parse(text[:begin].rstrip(b" \n,") + b"}")
                return text[begin + len(EVENTS):]
            if len(text) > HEAD_MOST:
                break
        raise NotLines

    def _parse(self, text: bytes) -> None:
        try:
            self.metadata.update(json.loads(text))
        except (ValueError, RecursionError):
            raise NotLines from None

    def _tail(self, text: bytes) -> bytes:
        for piece in self._source:
            text += piece
            if len(text) > TAIL_MOST:
                raise NotLines
        return text

    def blocks(self) -> Iterator[bytes]:
        """Blocks of events, each event followed by a comma and a line break."""
        block = self._first
        while True:
            end = block.find(b"\n],\n")
            if block.startswith(b"],\n"):
                raise NotLines  # an empty array, or a comma before its end
            if end >= 0:
                yield block[:end] + b",\n"
                self._parse(b"{" + self._tail(block[end + 4:]))
                return
            following = next(self._source, None)
            if following is None:
                raise NotLines
            if following.startswith(b"],\n"):  # the array's last line ended the block
                block += following
                continue
            if block:
                yield block
            block = following


class Forms:
    """Checks that lines are JSON. Lines that differ only in digits have the same form, and only one line of each form is read as JSON. A damaged
    line has a form of its own, so no damage passes."""

    MOST = 1 << 16       # forms that are kept: a trace has about one for each name
    MOST_BYTES = 64 << 20
    ONES = bytes.maketrans(b"123456789", b"1" * 9)
    LEADING = [before + b"0" + digit for before in (b" ", b"[", b"-") for digit in (b"0", b"1")]  # 007 is no JSON

    def __init__(self) -> None:
        self._known = {b""}
        self._bytes = 0

    def check(self, block: bytes) -> None:
        """Raises NotLines if a line of the block is no JSON object."""
        text = block.translate(self.ONES)
        if any(zero in text for zero in self.LEADING):
            self._read(block.splitlines())
        text = text.replace(b"1", b"0")
        for zeroes in (b"00000000", b"0000", b"00", b"00"):
            text = text.replace(zeroes, b"0")
        forms = text.split(b"\n")
        new = set(forms) - self._known
        if not new:
            return
        self._read(list({form: line for form, line in zip(forms, block.split(b"\n")) if form in new}.values()))
        if len(self._known) > self.MOST or self._bytes > self.MOST_BYTES:
            self._known, self._bytes = {b""}, 0
        self._known |= new
        self._bytes += sum(map(len, new))

    @staticmethod
    def _read(lines: List[bytes]) -> None:
        try:
            for line in lines:
                if line:
                    json.loads(line.rstrip(b",").decode("utf-8"))
        except (ValueError, RecursionError):
            raise NotLines from None


def sound(block: bytes) -> int:
    """The number of lines of a block. Raises NotLines unless every line is one event."""
    n = block.count(b"\n")
    if not block.startswith(b'{"ph": "') or not block.endswith(b"},\n") or block.count(b'},\n{"ph": "') != n - 1:
        raise NotLines
    return n


def _processes(block: bytes, lines: int, known: Dict[Any, int]) -> List[int]:
    """The pids in a block of `lines` lines, in the order of their events; an empty list unless each line has exactly one pid."""
    found = [pid for pid in known if type(pid) is int]
    if sum(block.count(_PID % pid) for pid in found) != lines:
        found = [int(pid) for pid in dict.fromkeys(_pid.findall(block))]
        if sum(block.count(_PID % pid) for pid in found) != lines:
            return []
    return found


def move(block: bytes, pids: Dict[Any, int], renumber: Callable[[int], int], suffix: bytes, shift_ns: int,
         meta: Callable[[bytes], bytes]) -> bytes:
    """The block with renumbered processes, the suffix after ids of arrows, and shifted times. Metadata events go through `meta`.
    `pids`: the pids that renumber() knows so far. Returns b"" if the block must be read as JSON, because it holds something that
    cprof does not write."""
    lines = sound(block)
    if any(odd in block for odd in _odd):
        return b""
    found_pids = _processes(block, lines, pids)
    if not found_pids:
        return b""
    names: List[Tuple[bytes, bytes]] = [(_PID % old, _PID % renumber(old)) for old in found_pids]
    ids = block.count(b'"id": ')
    if ids and _long_id.search(block):
        return b""
    block, arrows = _flow.subn(rb"\g<0>" + suffix, b"\n" + block) if ids else (b"\n" + block, 0)
    if arrows != ids:
        return b""
    found = _meta.findall(block)
    if found:
        block = _meta.sub(b"", block)
    if set(pids) & set(pids.values()):  # a new pid equals another old one: go through placeholders
        for n, (old, _) in enumerate(names):
            block = block.replace(old, b', "pid": #%d, "tid": ' % n)
        names = [(b', "pid": #%d, "tid": ' % n, new) for n, (_, new) in enumerate(names)]
    for old, new in names:
        block = block.replace(old, new)
    if shift_ns:
        block, moved = _time.subn(lambda match: _moved(match, shift_ns), block)
        if moved != lines - len(found):
            return b""
    return block[1:] + (meta(b"".join(line[1:] + b"\n" for line in found)) if found else b"")


def _moved(match: "re.Match[bytes]", shift_ns: int) -> bytes:
    ns = int(match.group(2)) * 1000 + int(match.group(3)) + shift_ns
    return b"%b%d.%03d" % (match.group(1), ns // 1000, ns % 1000)
