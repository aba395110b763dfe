# SPDX-License-Identifier: Apache-2.0
"""Reads Chrome JSON traces of any size, event by event, in bounded memory.

    with open_trace(path) as trace:
        print(trace.head())                  # top-level keys before the events
        for event in trace:                  # or trace.blocks(): lists of events, which is faster
            ...
        print(trace.metadata, trace.notes)   # all top-level keys except the events; remarks

Accepts the object form of cprof and torch.profiler and the bare array form, plain or gzip (also of several members). Reads
regular files, addresses (remote.py), stdin ("-") and pipes of a shell's <(...). Refuses a FIFO in a folder, since anyone may
have put it there.
A file that ends in the middle gives the events before the cut, and a note. Anything else raises a Problem that names the byte (of
the unpacked text).

The reader cuts the events into blocks at a place that looks like the end of an event ("}, {"), and passes each whole block to
json's C scanner. A wrong cut, inside a string or a nested object, leaves quotes or brackets unbalanced, so the block is no JSON;
the reader then scans it event by event. Blocks of a large file go through fast.py first.
"""

import codecs
import json
import os
import re
import sys
import zlib
from typing import Any, Callable, Dict, Iterator, List, Optional, Union

from cprof._untrusted import open_given, printable
from cprof.tool import TOO_DEEP, Problem
from cprof.tool.fast import any_events
from cprof.tool.progress import Progress
from cprof.tool.remote import is_remote, opened
from cprof.tool.summary_file import SUFFIX

CHUNK = 1 << 18          # bytes read at once, and characters parsed at once: more is not faster
MAX_VALUE = 16 << 20     # most characters of an event or metadata value in a trace. As objects of Python they take up to 30 times as much
MAX_LARGE = 64 << 20     # most characters of a LARGE key's value, if it is kept
MAX_METADATA = 16 << 20  # most characters of all other values of the top level
# Top-level keys of any size: the frames of a trace's stacks, and what merge puts after the events for all ranks. The value is the
# number of levels to go down to until the members are small.
LARGE = {"stackFrames": 1, "merged": 3}
GZIP = b"\x1f\x8b"
RANK_PIDS = 10_000       # number of pids of a rank in a merged trace; those of rank 0 begin with it
MERGED = "merged_ranks"  # key with the number of ranks of a merged trace
NEAR_END = 16            # an error so near the end of the text read so far may only be a cut: "tru", "\u12"

_space = re.compile(r"[ \t\r\n]*")


class _Cut(Exception):
    """Raised if the text ends inside a value."""


class _Source:
    """The bytes of a file or of stdin, unpacked if they are gzip."""

    def __init__(self, path: str, lenient: bool, progress: Optional[Progress]) -> None:
        self.path = path
        self.cut = ""            # why it ended too early, if it did
        self.garbage = False     # there is something after the last gzip member
        self._lenient, self._progress = lenient, progress
        if path == "-" and sys.stdin is None:
            raise Problem("stdin is closed", path)
        self._file: Any = sys.stdin.buffer if path == "-" else _open(path)
        self._read = getattr(self._file, "read1", self._file.read)  # read1: the bytes that a pipe has, without waiting for more
        self._unzip: Any = None
        self._raw = b""          # read, not unpacked
        self._begun = False

    @property
    def size(self) -> Optional[int]:
        """The bytes on disk, if known."""
        try:
            return os.fstat(self._file.fileno()).st_size or None
        except (OSError, ValueError, AttributeError):
            return getattr(getattr(self._file, "raw", None), "size", None)  # of remote.py

    def close(self) -> None:
        if self.path != "-":
            self._file.close()

    def read(self) -> bytes:
        """The next bytes of text; b"" at the end."""
        if not self._begun:
            self._begun = True
            while len(self._raw) < len(GZIP):  # a pipe may give a byte at a time
                more = self._read_file()
                self._raw += more
                if not more:
                    break
            if self._raw.startswith(GZIP):
                self._unzip = zlib.decompressobj(31)
        if self._unzip is not None:
            return self._read_gzip()
        raw, self._raw = self._raw or self._read_file(), b""
        return raw

    def _read_file(self) -> bytes:
        try:
            raw = self._read(CHUNK) or b""
        except OSError as error:
            raise Problem(error.strerror or str(error), self.path) from None
        if self._progress:
            self._progress.add(len(raw))
        return raw

    def _read_gzip(self) -> bytes:
        while not self.cut and not self.garbage:
            self._raw = self._raw or self._read_file()
            if self._unzip.eof:  # another member may follow, or padding
                self._raw = self._raw.lstrip(b"\0")
                if not self._raw.startswith(GZIP[:1]):
                    self.garbage = bool(self._raw)
                    if not self._raw and self._read_more():
                        continue
                    return b""
                self._unzip = zlib.decompressobj(31)
            elif not self._raw:
                self.cut = "the gzip data ends in the middle"
                return self._unzip.flush()
            text = self._inflate()
            if text:
                return text
        return b""

    def _read_more(self) -> bool:
        self._raw = self._read_file()
        return bool(self._raw)

    def _inflate(self) -> bytes:
        try:
            text = self._unzip.decompress(self._raw, CHUNK)
        except zlib.error as error:
            if not self._lenient:
                raise Problem(f"damaged gzip data ({str(error).rpartition(': ')[2]})", self.path) from None
            self.cut = "the gzip data is damaged"
            return b""
        self._raw = self._unzip.unused_data if self._unzip.eof else self._unzip.unconsumed_tail
        return text


def _open(path: str) -> Any:
    try:
        return opened(path) if is_remote(path) else open_given(path)
    except OSError as error:
        raise Problem(error.strerror or str(error), path) from None
    except ValueError as error:  # a NUL in the name
        raise Problem(str(error), path) from None


def keep_out_pipes(path: Any, why: str) -> None:
    """Raises a Problem for stdin, a FIFO or a shell's <(...), if the trace must be read twice."""
    if path == "-" or os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise Problem(f"is read twice for {why}, which stdin and pipes cannot be: a file is needed", path)


def _size(text: str) -> int:
    """The number of bytes that the text was decoded from."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogateescape"))


class Trace:
    """One trace being read, once, from its beginning to its end. Made by open_trace()."""

    def __init__(self, path: str, progress: Union[bool, Progress] = False, pairs: Optional[Callable] = None) -> None:
        self.path = path
        self.metadata: Dict[str, Any] = {}
        self.notes: List[str] = []      # remarks, in words
        self.truncated = False          # it ends in the middle
        self.form = ""                  # "object" or "array", once something was read
        self.no_objects = 0             # elements of traceEvents that are no objects, and left out
        # A torn last write leaves nonsense after the last whole event of an open file.
        self._lenient = path.endswith(".part")
        # A function that may take a text of events, separated by commas, instead of the reader; returns False if it did not.
        self.take_text: Optional[Callable[[str], bool]] = None
        # Whether values of LARGE keys are parsed but not kept: the metadata has None for them.
        self.past_large = False
        self._progress = progress if isinstance(progress, Progress) else Progress(os.path.basename(path)) if progress else None
        self._source = _Source(path, self._lenient, self._progress)
        if self._progress:
            self._progress.total = self._source.size
        self._takes_fast = pairs is None
        self._any_events: Any = None    # the parser of fast.py; False: that of json, as for a trace of at most one block
        self._scan = json.JSONDecoder(parse_constant=self._constant, object_pairs_hook=pairs).raw_decode
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._text, self._at = "", 0    # the text read so far, and the position in it
        self._behind = 0                # bytes before _text
        self._read_bytes = 0
        self._eof = False
        self._metadata_left = MAX_METADATA
        self._has_events = False
        self._error: Optional[Exception] = None  # raised after the events before it were returned
        self._stage = "start"           # then "keys", "events", "end"

    @property
    def shows_progress(self) -> bool:
        """Whether a terminal shows the progress."""
        return self._progress is not None

    def close(self) -> None:
        """Closes the file. May be called at any time, also repeatedly."""
        if self._progress:
            self._progress.close()
        self._source.close()

    def __enter__(self) -> "Trace":
        return self

    def __exit__(self, kind: Any, *_: Any) -> None:
        self.close()
        if kind is RecursionError:
            raise Problem(TOO_DEEP, self.path) from None
        if kind is OverflowError:
            raise Problem("holds numbers whose sum is more than 64 bits: no trace has such", self.path) from None

    # ---- for callers ----

    def head(self) -> Dict[str, Any]:
        """The metadata before the events; of a file cut off before its events, as far as there is any."""
        if self._stage in ("start", "keys"):
            self._guarded(self._to_events)
        return self.metadata

    @property
    def is_merged(self) -> bool:
        """Whether `cprof merge` made it of several ranks: then ids in args, and memory, are separate for each rank."""
        return MERGED in self.head() or "merged" in self.metadata

    def of_one_rank(self) -> "Trace":
        """Returns itself. Raises a Problem if the trace, as far as it was read, is merged: its ranks share the ids and times that join kernels and
        memory to operators."""
        if self.is_merged:
            raise Problem("is merged of several ranks: give the ranks' own traces, any number of them to `cprof top`", self.path)
        return self

    def remarks(self) -> List[str]:
        """Remarks about the file after reading: its notes, and the number of elements left out."""
        left_out = f"{self.no_objects} elements of traceEvents are no objects: left out"
        return self.notes + ([left_out] if self.no_objects else [])

    def __iter__(self) -> Iterator[Dict[str, Any]]:
        for block in self.blocks():
            yield from block

    def blocks(self) -> Iterator[List[Dict[str, Any]]]:
        """The events in lists of hundreds or thousands, in the order of the file."""
        while self._stage != "end":
            if self._stage == "events":
                block = self._guarded(self._block)
                if block:
                    yield block
            else:
                self._guarded(self._to_events)
        self.close()

    # ---- the top level ----

    def _guarded(self, step: Callable) -> Any:
        """Runs one step. Ends the trace with a note if the file ends in the middle, or if an open file is damaged."""
        try:
            return step()
        except _Cut:
            self._cut_short(self._source.cut or "ends in the middle")
        except Problem:
            if not (self._lenient and self._has_events):
                raise
            self._cut_short("damaged")
        return []

    def _cut_short(self, what: str) -> None:
        if not self._has_events and not (self.form == "object" and self.metadata):
            raise Problem("is empty" if self._position() == 0 else "ends before its events begin", self.path)
        self.truncated = True
        self.notes.append(f"{what}, at byte {self._position()}: what stands before it is used")
        self._stage = "end"

    def _to_events(self) -> None:
        """Reads top-level keys, from the start or from after the events, to the next events or to the end."""
        if self._stage == "start":
            first = self._next_char()
            if first == "\ufeff":
                self._at += 1
                first = self._next_char()
            if first not in ("{", "["):
                raise self._bad("no JSON object or array: no trace" if first else "is empty")
            self._at += 1
            self.form = "object" if first == "{" else "array"
            self._stage = "keys"
            if first == "[":
                self._begin_events()
                return
            if self._next_char() == "}":
                self._at += 1
                self._end()
                return
        elif self.form == "array" or not self._more_keys():
            self._end()
            return
        while self._key() and self._more_keys():
            pass
        if self._stage == "keys":
            self._end()

    def _more_keys(self) -> bool:
        char = self._next_char()
        if char == ",":
            self._at += 1
            return True
        if char == "}":
            self._at += 1
            return False
        raise self._unexpected("',' or '}' behind a value")

    def _key(self) -> bool:
        """Reads `"key": value`. Returns False if the events begin."""
        key = self._member_key()
        if key == "traceEvents":
            if self._next_char() not in ("[", ""):
                raise self._bad("traceEvents is no array")
            if not self._next_char():
                raise _Cut
            self._at += 1
            self._begin_events()
            return False
        levels = LARGE.get(key, 0) if type(key) is str else 0
        if self.past_large and levels:
            self.metadata[key] = self._past(levels)
        elif levels:
            self.metadata[key] = self._value(MAX_LARGE)
        else:
            begin = self._behind + self._at
            self.metadata[key] = self._value()
            self._metadata_left -= self._behind + self._at - begin + len(key)
            if self._metadata_left < 0:
                raise self._bad(f"more than {MAX_METADATA >> 20} MB beside the events")
        return True

    def _member_key(self) -> str:
        if self._next_char() != '"':
            raise self._unexpected("a key in double quotes")
        key = self._value()
        if self._next_char() != ":":
            raise self._unexpected("':' behind a key")
        self._at += 1
        return key

    def _begin_events(self) -> None:
        self._has_events, self._stage = True, "events"

    def _end(self) -> None:
        self._stage = "end"
        if not self._has_events:
            beside = self.path[:-len(SUFFIX)] if self.path.endswith(SUFFIX) else ""
            raise Problem(f"is the summary of {printable(os.path.basename(beside))}: give that one" if beside else
                          "has no traceEvents: no trace", self.path)
        if self._next_char():
            self.notes.append(f"something stands behind the end, at byte {self._position()}")
        if self._source.garbage:
            self.notes.append("something stands behind the end of the gzip data")

    # ---- the events ----

    def _block(self) -> List[Dict[str, Any]]:
        """The next events; the stage shows whether more follow."""
        if self._error:
            raise self._error
        while len(self._text) - self._at < CHUNK and self._fill():
            pass
        found = self._fast_block()
        return self._slow_block() if found is None else found

    def _fast_block(self) -> Optional[List[Dict[str, Any]]]:
        """All events of the text read so far except the last one, parsed at once; None if that fails."""
        text, end = self._text, len(self._text)
        while True:
            end = text.rfind("},", self._at, end)
            if end < 0:
                return None
            following = _space.match(text, end + 2).end()  # type: ignore[union-attr]
            if text.startswith("{", following):
                break
        block = "[" + text[self._at:end + 1] + "]"
        if self._any_events is None:
            self._any_events = self._takes_fast and not self._eof and any_events() or False
        if self._any_events:
            found = [] if self.take_text and self.take_text(block) else self._any_events(block)
            if found is not None:
                self._at = following
                return found
        try:
            found, parsed = self._scan(block)
        except (ValueError, RecursionError):
            return None
        if parsed != len(block):
            return None
        self._at = following
        return self._objects(found)

    def _objects(self, found: List[Any]) -> List[Dict[str, Any]]:
        """The elements that are objects. Counts the others."""
        for event in found:
            if type(event) is not dict:
                break
        else:
            return found
        objects = [event for event in found if type(event) is dict]
        self.no_objects += len(found) - len(objects)
        return objects

    def _slow_block(self) -> List[Dict[str, Any]]:
        """The events of the text read so far, parsed one by one: at least one, or the end."""
        found: List[Any] = []
        try:
            while True:
                if self._next_char() == "]" or not self._next_char() and self.form == "array":
                    break  # after a comma: no JSON, but Chrome accepts it, as it accepts an array without its end
                found.append(self._value())
                char = self._next_char()
                if char == ",":
                    self._at += 1
                    self._next_char()
                    if len(self._text) - self._at < CHUNK and not self._eof:
                        return self._objects(found)
                elif char == "]" or not char and self.form == "array":
                    break
                else:
                    raise self._unexpected("',' or ']' behind an event")
        except (_Cut, Problem) as error:
            self._error = error  # the events read before it are returned first
            return self._objects(found)
        self._at += 1 if self._next_char() else 0
        self._stage = "keys"
        return self._objects(found)

    # ---- values and characters ----

    def _past(self, levels: int) -> None:
        """Skips the value that begins here. Reads its members one by one, down to this number of levels."""
        opening = self._next_char()
        if not levels or opening not in ("{", "["):
            self._value()
            return
        self._at += 1
        closing = "}" if opening == "{" else "]"
        more = self._next_char() != closing
        refused = -1  # the text that failed as a block: its members are read one by one
        while more:
            if levels == 1 and opening == "{" and refused != self._behind:
                if self._past_members():
                    continue
                refused = self._behind
            if opening == "{":
                self._member_key()
            self._past(levels - 1)
            more = self._next_char() == ","
            if more:
                self._at += 1
        if self._next_char() != closing:
            raise self._unexpected(f"',' or {closing!r} behind a value")
        self._at += 1

    def _past_members(self) -> bool:
        """Skips all members of an object in the text read so far except the last one, at once, like _fast_block(). Returns False if that
        fails."""
        while len(self._text) - self._at < CHUNK and self._fill():
            pass
        end = self._text.rfind("},", self._at)
        if end < 0:
            return False
        block = "{" + self._text[self._at:end + 1] + "}"
        try:
            parsed = self._scan(block)[1]
        except (ValueError, RecursionError):
            return False
        if parsed != len(block):
            return False
        self._at = end + 2
        return True

    def _value(self, most: int = MAX_VALUE) -> Any:
        """Reads the JSON value that begins here."""
        self._next_char()
        while True:
            try:
                value, end = self._scan(self._text, self._at)
                if end < len(self._text) or self._eof:  # a number may go on
                    self._at = end
                    return value
                error = None
            except json.JSONDecodeError as caught:
                error = caught
                unfinished = caught.pos >= len(self._text) - NEAR_END or caught.msg.startswith("Unterminated")
                if not unfinished:
                    raise self._bad(caught.msg, caught.pos) from None
            except RecursionError:
                raise self._bad(TOO_DEEP) from None
            except ValueError:
                raise self._bad("a number of more digits than Python takes") from None
            size = len(self._text) - self._at
            if size > most:
                raise self._bad(f"a value of more than {most >> 20} MB")
            if not self._fill(size):
                if error is None:
                    continue
                if "Unterminated" in error.msg or error.pos >= len(self._text) or self._cut_token(error.pos):
                    raise _Cut
                raise self._bad(error.msg, error.pos)

    def _cut_token(self, at: int) -> bool:
        """Whether the text from here is the beginning of something valid, of which only the end is missing."""
        rest = self._text[at:]
        return any(word.startswith(rest) for word in ("true", "false", "null", "-", "NaN", "Infinity", "-Infinity")) or \
            re.fullmatch(r"\\?(u[0-9a-fA-F]{0,4})?|\.|[eE][+-]?", rest) is not None

    def _next_char(self) -> str:
        """Skips white space. Returns the next character, "" at the end of the file."""
        while True:
            self._at = _space.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._fill():
                return ""

    def _fill(self, at_least: int = 0) -> bool:
        """Reads on, at least this number of characters. Returns False at the end of the file."""
        if self._eof:
            return False
        if self._at:
            self._behind += _size(self._text[:self._at])
            self._text, self._at = self._text[self._at:], 0
        new, size = [self._text], 0
        while not size or size < at_least:
            data = self._source.read()
            text = self._decode(data)
            self._read_bytes += len(data)
            self._eof = not data
            new.append(text)
            size += len(text)
            if self._eof:
                break
        self._text = "".join(new)
        return size > 0

    def _decode(self, data: bytes) -> str:
        try:
            return self._decoder.decode(data, not data)
        except UnicodeDecodeError as error:
            self.notes.append(f"byte {self._read_bytes + error.start - len(self._decoder.getstate()[0])} is no UTF-8")
            state = self._decoder.getstate()
            # Bytes become lone surrogates, one each, so that positions stay known.
            self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
            self._decoder.setstate(state)
            return self._decoder.decode(data, not data)

    def _constant(self, name: str) -> float:
        text = f"{name} is no JSON: strict readers refuse the file"
        if text not in self.notes:
            self.notes.append(text)
        return float(name.replace("Infinity", "inf"))

    # ---- errors ----

    def _position(self, at: Optional[int] = None) -> int:
        """The number of the byte of the text at this place."""
        return self._behind + _size(self._text[:self._at if at is None else at])

    def _bad(self, what: str, at: Optional[int] = None) -> Problem:
        return Problem(f"byte {self._position(at)}: {what}" if self._position(at) or self._text else what, self.path)

    def _unexpected(self, wanted: str) -> Exception:
        if self._at >= len(self._text):
            return _Cut()
        return self._bad(f"{self._text[self._at]!r} where {wanted} is expected")


def open_trace(path: str, progress: Union[bool, Progress] = False, pairs: Optional[Callable] = None) -> Trace:
    """Opens a trace. progress: True shows it on a terminal; a Progress gets the bytes. pairs: json's object_pairs_hook, which costs speed."""
    return Trace(os.fspath(path), progress, pairs)
