# SPDX-License-Identifier: Apache-2.0
"""Makes a complete trace of the open file that a killed process or a crashed machine left, and gives it the trace's name.

    cprof recover RUN/torch_traces/*.part

Perfetto opens an open file without this. Strict readers need it, and so does a file whose last write was torn. The command
reports what the trace holds and what was lost. The .part file stays unless --delete is given. No file is ever replaced: if
another trace has the name, a number is added to it. A trace that was made from the same file before stays, and no second one is made.
A file that is still being written is skipped. If its writer is not visible, because it may run in another container or on another
host, the command watches for two seconds whether the file grows.

The trace has every whole event: those of the last flush, and those of the next flush as far as it was written. Ranges that were
open then are kept if their list is whole."""

import argparse
import contextlib
import gzip
import json
import os
import re
import stat
import zlib
from typing import Any, BinaryIO, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from cprof._untrusted import open_regular, printable
from cprof.tool import BAD_INPUT, Problem, note, said
from cprof.tool.given import WITHIN
from cprof.tool.output import create, end_tidily, take_name, temporary_beside
from cprof.tool.progress import Progress
from cprof.tool.screen import put
from cprof.tool.spans import step_number
from cprof.tool.steps import FOREIGN_PIDS
from cprof.tool.watch import PART, size_text
from cprof.tool.writers import FLIGHT, being_written, stamp

HELP = "make complete traces of the open files that a killed process left"
EVENTS, EVENT = b'"traceEvents": [\n', b'{"ph": '
PAGE = 4096
HEAD_MOST = 1 << 20        # the events begin before that; at 16 KiB in files of this version (writer/window/trace_text.c)
CHUNK = 1 << 20
FILE_MOST = 2 << 40        # of a file: cprof writes at most half of that, with CPROF_MAX_TRACE_MB=1048576
LINE_MOST = 16 << 20       # of a line; cprof's have a few KB, except for data that a program adds
HELD_MOST = 16 << 20       # of the lines that are kept until it is known what follows: open ranges, and a trailer
TRAILER_ENDS_MOST = 1000   # lines of a trailer that may be its last
PIDS_MOST = 1 << 16        # processes without a name that get one
# How a member of writer/file/sink_gzip.c begins: no flags, no time, level 1 or stored, Unix.
MEMBER = re.compile(rb"\x1f\x8b\x08\x00\x00\x00\x00\x00[\x00\x02\x04]\x03")
ENDING = re.compile(r"(\.pt\.trace\.json\.gz|\.pt\.trace\.json|\.json\.gz|\.json|\.gz)?$", re.IGNORECASE)
NAMES_TRIED = 1000
TAIL = 1 << 16             # bytes at the end of a trace
NEEDED = {"X": ("dur", "ts"), "i": ("s", "ts"), "C": ("args", "ts"), "s": ("id", "ts"), "f": ("id", "ts"), "b": ("ts",),
          "e": ("ts",), "M": ("args",)}
KEYS = {"ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "s", "id", "id2", "bp", "sf"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The files."""
    parser.add_argument("files", nargs="+", metavar="FILE.part", help="an open window's file, or a folder of them")
    parser.add_argument("-o", "--output", metavar="FILE", help="the trace's name (default: that of FILE.part without .PID.STEP.part, rankN.0.pt.trace.json for prestep.PID.part)")
    parser.add_argument("--delete", action="store_true", help="remove the .part file after its trace is written")
    parser.add_argument("--force", action="store_true", help="also take a file that is still being written, as far as it is there")


# ---- the text that was written ----

class Text:
    """The text of a plain or gzip file in pieces; None marks a gap of missing or damaged bytes."""

    def __init__(self, file: BinaryIO, size: int, progress: Progress) -> None:
        self.lost = 0            # bytes of the file that gave no text
        self._file, self._size, self._progress = file, size, progress
        self._member_end = 0
        self.gzip = file.read(2) == b"\x1f\x8b"

    def pieces(self) -> Iterator[Optional[bytes]]:
        """The text from its start."""
        return self._members() if self.gzip else self._plain()

    def _plain(self) -> Iterator[Optional[bytes]]:
        self._file.seek(0)
        for piece in iter(lambda: self._file.read(CHUNK), b""):
            self._progress.add(len(piece))
            yield piece

    def _members(self) -> Iterator[Optional[bytes]]:
        at = 0
        while at < self._size:
            begin = self._next_member(at)
            if begin == self._size:
                return
            if begin != at:
                yield None
            try:
                for _ in self._member(begin):  # only its end shows whether the text is whole, and it may be too long to keep
                    pass
                yield from self._member(begin)
                at = self._member_end
                self._progress.add(at - begin)
            except zlib.error:  # the next member may begin after the torn place
                yield None
                self.lost += 1
                at = begin + 1

    def _next_member(self, at: int) -> int:
        """The place where the next member begins. Bytes before it are lost, except zeros at the end, which are blanks."""
        self._file.seek(at)
        data, base = b"", at
        while True:
            more = self._file.read(CHUNK)
            data += more
            match = MEMBER.search(data)
            if match:
                self.lost += base + match.start() - at
                return base + match.start()
            if not more:
                self.lost += base + len(data.rstrip(b"\0")) - at
                return self._size
            base, data = base + max(0, len(data) - 10), data[-10:]

    def _member(self, at: int) -> Iterator[bytes]:
        """The text of the member that begins here. Afterwards _member_end is the end of the member or of the file."""
        self._file.seek(at)
        unzip = zlib.decompressobj(31)
        while not unzip.eof:
            raw = unzip.unconsumed_tail or self._file.read(CHUNK)
            text = unzip.decompress(raw, CHUNK)
            if not raw and not text:
                break
            yield text
        self._member_end = self._file.tell() - len(unzip.unused_data)


class Lines:
    """Whole lines of the text, each with a flag whether a write may have been torn inside it: the kernel copies page by page. In
    gzip data a torn write shows by itself. Drops the line before a gap, and lines that are too long."""

    def __init__(self, text: Text) -> None:
        self.lost = 0
        self._text = text
        self._rest: List[bytes] = []  # the beginning of a line without its end
        self._size = 0
        self._left_out = 0            # bytes of that line that were dropped

    def __iter__(self) -> Iterator[Optional[Tuple[bytes, bool]]]:
        """Lines without their break; None for a gap."""
        at = 0
        for piece in self._text.pieces():
            if piece is None:
                self._give_up()
                self._left_out = 0
                yield None
                continue
            *lines, last = piece.split(b"\n")
            for line in lines:
                if self._rest or self._left_out:
                    self._keep(line)
                    line = b"".join(self._rest)
                end = at + self._left_out + len(line) + 1
                if self._left_out:
                    self._give_up()
                else:
                    yield line, not self._text.gzip and at // PAGE != (end - 1) // PAGE
                self._rest, self._size, self._left_out, at = [], 0, 0, end
            self._keep(last)
            if self._size > LINE_MOST:
                self._give_up()
        if self._left_out:
            self._give_up()
        elif any(piece.strip(b" \0") for piece in self._rest):
            yield b"".join(self._rest), False

    def _keep(self, piece: bytes) -> None:
        self._rest.append(piece)
        self._size += len(piece)

    def _give_up(self) -> None:
        """Drops the line as far as it was read. Zeros and blanks are no loss."""
        self.lost += sum(len(piece.strip(b" \0")) for piece in self._rest)
        self._left_out += self._size
        self._rest, self._size = [], 0


# ---- the content of the lines ----

class Trace:
    """The saved content of an open file. Read it through events()."""

    def __init__(self, path: str) -> None:
        self.path, self.size = path, os.path.getsize(path)
        self.head: Dict[str, Any] = {}
        self.head_whole = False
        self.metadata: Dict[str, Any] = {}    # keys after the events, of the last whole trailer
        self.open_spans: List[bytes] = []
        self.written = 0
        self.lost = 0                         # bytes of text in no whole event
        self.behind = 0               # events after the last whole trailer
        self.whole_end = False                # the last line was that of a whole trailer
        self.doubted = 0                      # events dropped because a write may have been torn there
        self.named: set = set()
        self.pids: Dict[Any, None] = {}
        self.steps: List[int] = []            # the first and the last
        self._held = 0                        # bytes of lines that wait for what follows

    def events(self, lines: Iterator[Optional[Tuple[bytes, bool]]]) -> Iterator[bytes]:
        """The events' lines, without comma; ranges that are still open at the end come last."""
        self._read_head(lines)
        held: Optional[Tuple[bytes, bool]] = None  # the last event, until it is known what follows
        pending: List[bytes] = []                  # open ranges of a trailer whose end was not seen yet
        trailer: Optional[List[bytes]] = None
        ends = 0                                   # lines of the trailer that may be its last
        for found in lines:
            line, straddles = found or (b"", False)
            torn = found is None or trailer is not None and line.startswith(EVENT)  # the trailer is cut here
            if torn or self.whole_end and line.strip(b" \0"):  # or a later flush has begun to overwrite it
                yield from self._doubt(held)
                held = None
            if torn:
                self._lose(*pending, *trailer or [])
                pending, trailer, self._held = [], None, 0
            if found is None:
                continue
            if line.startswith(EVENT):
                event = _event(line)
                if event is None:
                    self._lose(line)
                elif _is_open(event):
                    self._hold(pending, line)
                elif event["ph"] == "M":
                    yield self._take(line)
                else:
                    if held:
                        yield self._take(held[0])
                    held = line, straddles
            elif trailer is not None:
                self._hold(trailer, line)
                ends += line == b"}"
                if line == b"}" and ends <= TRAILER_ENDS_MOST and self._close(trailer, pending):
                    pending, trailer, self._held = [], None, 0
            elif line == b"],":
                trailer, ends = [], 0
            else:
                self._lose(line)
        if held:
            yield self._take(held[0])
        self._lose(*pending, *trailer or [])
        yield from self._last()

    def _hold(self, held: List[bytes], line: bytes) -> None:
        """Keeps a line until it is known what follows. Drops it if too many are kept."""
        size = len(line) + 64  # what Python adds
        if self._held + size > HELD_MOST:
            self._lose(line)
        else:
            self._held += size
            held.append(line)

    def _doubt(self, held: Optional[Tuple[bytes, bool]]) -> Iterator[bytes]:
        """Handles the event before a trailer that was torn, or that a later flush has begun to overwrite. If a page ends inside the event,
        it may be made of two halves. The same holds for the open ranges of the trailer."""
        if held and held[1]:
            self.doubted += 1
            self._lose(held[0])
        elif held:
            yield self._take(held[0])
        self.doubted += len(self.open_spans)
        self.open_spans, self.whole_end = [], False

    def _read_head(self, lines: Iterator[Optional[Tuple[bytes, bool]]]) -> None:
        found, size, line = [], 0, None
        for one in lines:
            line = one[0] if one else None
            if line is None or line + b"\n" == EVENTS or size > HEAD_MOST:
                break
            found.append(line)
            size += len(line) + 1
        else:
            line = None
        if line is None or line + b"\n" != EVENTS:
            if os.path.getsize(self.path) == 0:
                raise Problem("is empty: the program was killed before the first write; nothing to recover", self.path)
            raise Problem("ends, or is torn, before its events begin: nothing to recover" if found and
                          found[0].startswith(b"{") else "is no open trace of cprof", self.path)
        text = b"\n".join(found).rstrip(b" \n\0,")
        try:
            self.head = _json(text + b"}")
            if not self.head:
                raise ValueError("empty")
            self.head_whole = True
        except ValueError:
            self._mend_head(text)

    def _mend_head(self, text: bytes) -> None:
        """The fields that can be read in a torn head."""
        self.lost += len(text)
        self.head = {"schemaVersion": 1, "deviceProperties": [], "distributedInfo": {"rank": 0, "world_size": 1}}
        for key, place in (("rank", "distributedInfo"), ("world_size", "distributedInfo"), ("baseTimeNanoseconds", "")):
            match = re.search(rb'"%s": (\d{1,19})\b' % key.encode(), text)
            if match:
                (self.head[place] if place else self.head)[key] = int(match[1])
        if "baseTimeNanoseconds" not in self.head:
            raise Problem("its head is torn: what its times count from is not known", self.path)
        self.head["displayTimeUnit"] = "ms"

    def _lose(self, *lines: bytes) -> None:
        self.lost += sum(len(line.strip(b" \0")) for line in lines)

    def _take(self, line: bytes) -> bytes:
        """Counts an event. Returns its line."""
        event = _json(_bare(line))
        self.written += 1
        pid, ph = event.get("pid"), event["ph"]
        if ph != "M":
            self.behind += bool(self.metadata) and not self.whole_end
        if not _is_foreign(event):  # foreign events have names from their own file, and their own steps
            self._learn(event["name"], ph, pid)
        return _bare(line)

    def _learn(self, name: str, ph: str, pid: Any) -> None:
        """Notes the processes, which of them have a name, and the steps."""
        if ph != "M" and len(self.pids) < PIDS_MOST:
            self.pids[pid] = None
        if ph == "M" and name == "process_name" and len(self.named) < PIDS_MOST:
            self.named.add(pid)
        number = step_number(name)
        if number is not None:
            self.steps = [min([number, *self.steps]), max([number, *self.steps])]

    def _close(self, trailer: List[bytes], pending: List[bytes]) -> bool:
        """Takes these lines if they are a trailer."""
        try:
            found = _json(b"{" + b"\n".join(trailer))
        except ValueError:
            return False
        if "cprof" not in found:
            return False
        self.metadata, self.whole_end, self.behind = found, True, 0
        self.open_spans = [_bare(line) for line in pending]
        return True

    def _last(self) -> Iterator[bytes]:
        """Ranges that are still open, and names for processes without one."""
        for line in self.open_spans:
            self.written += 1
            yield line
        for pid in self.pids:
            if pid not in self.named:
                self.written += 1
                yield (b'{"ph": "M", "name": "process_name", "pid": %d, "tid": %d, "ts": 0.000, "args": {"name": "process %d"}}'
                       % (pid, pid, pid))

    @property
    def rank(self) -> Any:
        """The rank in the head."""
        info = self.head.get("distributedInfo")
        return info.get("rank", "?") if isinstance(info, dict) else "?"

    def account(self, first_step: Optional[int], lost_bytes: int) -> Dict[str, Any]:
        """The `cprof` object of the new trace."""
        known = self.metadata.get("cprof")
        account = dict(known) if isinstance(known, dict) else {
            "version": "", "first_step": first_step or 0, "last_step": max(self.steps or [first_step or 0]),
            "records": self.written, "unfinished": 0, "lost": {"total": 0}, "writer_cpu_ns": 0, "bytes": 0, "notes": []}
        whole = self.whole_end and not lost_bytes
        account.update(events=self.written, complete=bool(account.get("complete")) and whole, partial=not whole or
                       bool(account.get("partial")) or not account.get("complete"))
        account.pop("recovered", None)
        account["recovered"] = {"from": os.path.basename(self.path), "size": self.size, "bytes_lost": lost_bytes,
                                "account": "missing" if known is None else "whole" if whole else "as of the last flush"}
        if self.path.endswith(FLIGHT):  # another run's file has the same name
            account["recovered"]["recorded_from"] = self.head.get("recorded_from")
        return account


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no JSON")


def _number(text: str) -> Any:
    number = float(text)
    return number if abs(number) != float("inf") else text


def _json(text: bytes) -> Any:
    """The value of strict JSON in UTF-8, an infinite number as a string. Raises a ValueError otherwise."""
    try:
        return json.loads(text.decode("utf-8"), parse_constant=_refuse, parse_float=_number)
    except RecursionError:
        raise ValueError("too deep") from None


def _event(line: bytes) -> Optional[Dict[str, Any]]:
    """The event of a line; None if it is not whole. Halves of two events that happen to be JSON lack a key."""
    try:
        event = _json(_bare(line))
    except ValueError:
        return None
    if type(event) is not dict or type(event.get("ph")) is not str or type(event.get("pid")) is not int or "tid" not in event:
        return None
    if _is_foreign(event):
        sound = len(event["ph"]) == 1 and "ts" in event and (event["ph"] != "X" or "dur" in event)
    else:
        sound = (event["ph"] in NEEDED and all(key in event for key in NEEDED[event["ph"]]) and
                 type(event.get("name")) is str and KEYS.issuperset(event))
    return event if sound else None


def _is_foreign(event: Dict[str, Any]) -> bool:
    """Whether an event is of a program's own trace, whose events have any phase and keys."""
    return event["pid"] >= FOREIGN_PIDS


def _bare(line: bytes) -> bytes:
    """The line without blanks and comma at its end."""
    return line.rstrip(b" \0").rstrip(b",")


def _is_open(event: Dict[str, Any]) -> bool:
    """Whether the next flush writes the event again, as an open range. Open ranges of a merged file stay unchanged."""
    return type(event.get("args")) is dict and event["args"].get("finished") == "false" and not _is_foreign(event)


# ---- files ----

def numbered(path: str, n: int) -> str:
    """The path for n = 1, else the path with -n before its ending, as in the library."""
    end = ENDING.search(path).start()  # type: ignore[union-attr]
    return path if n == 1 else f"{path[:end]}-{n}{path[end:]}"


def _origin(path: str) -> Dict[str, Any]:
    """What a trace tells of the open file that it was recovered from. The command writes that last. {} for other traces."""
    tail = b""
    with contextlib.suppress(OSError, EOFError, zlib.error, ValueError), open_regular(path) as raw:
        with gzip.GzipFile("", "rb", fileobj=raw) if path.lower().endswith(".gz") else contextlib.nullcontext(raw) as file:
            if file is raw:
                raw.seek(max(0, os.fstat(raw.fileno()).st_size - TAIL))
            for piece in iter(lambda: file.read(CHUNK), b""):
                tail = (tail + piece)[-TAIL:]
            found = json.loads(tail.rpartition(b'"recovered": ')[2].strip()[:-2].decode())
            return found if type(found) is dict else {}
    return {}


def _name(temporary: str, wanted: str, exact: bool, origin: Dict[str, Any]) -> Tuple[str, bool]:
    """(a name that did not exist, which the file has now; True), or (the trace that was made from the same open file before; False)."""
    for n in range(1, 2 if exact else NAMES_TRIED):
        path = numbered(wanted, n)
        with contextlib.suppress(FileExistsError):
            take_name(temporary, path)
            return path, True
        before = {} if exact else _origin(path)
        if before == origin:
            return path, False
        if before.get("from") == origin["from"] and before.get("recorded_from") == origin.get("recorded_from"):
            raise Problem(f"holds an earlier state of {origin['from']}: remove it, or give another name by --output", path)
    raise Problem("is there already; nothing is replaced", wanted)


def _write(trace: Trace, text: Text, out: Any, first_step: Optional[int]) -> Tuple[int, Dict[str, Any]]:
    """Writes the complete trace. Returns the number of lost bytes, and the `cprof` object."""
    lines = Lines(text)
    events = trace.events(iter(lines))
    first = next(events, None)
    head = json.dumps(trace.head, ensure_ascii=False, indent=0)[:-2]
    # The head keeps its lines, since HTA reads `"rank": N` line by line.
    out.write(head.encode("utf-8", "replace") + b",\n" + EVENTS)
    if first is not None:
        out.write(first)
        for line in events:
            out.write(b",\n" + line)
    lost = trace.lost + lines.lost + text.lost
    account = trace.account(first_step, lost)
    rest = {**trace.metadata, "traceName": trace.path}
    rest.pop("cprof", None)
    rest["cprof"] = account  # last, for _origin()
    out.write(b"\n],\n" + json.dumps(rest, ensure_ascii=False)[1:].encode("utf-8", "replace") + b"\n")
    return lost, account


def _prestep_name(path: str, rank: Any, packed: bool) -> str:
    """The name that the library gives such a trace by default."""
    number = rank if type(rank) is int else 0
    return os.path.join(os.path.dirname(path), f"rank{number}.0.pt.trace.json{'.gz' * packed}")


class Made(NamedTuple):
    """A complete trace, and what is known of it. new: it was not made before."""
    path: str
    new: bool
    trace: Trace
    lost: int
    account: Dict[str, Any]


def make(path: str, output: Optional[str] = None) -> Made:
    """Writes the complete trace of an open file under a new name."""
    match = PART.fullmatch(path)
    os.stat(path)  # a missing file is a different error than a wrong name
    if match is None and output is None:
        if not path.endswith(FLIGHT):
            raise Problem("is no open file of cprof (NAME.PID.STEP.part, prestep.PID.part, rankN.flight); --output names the trace of another", path)
        wanted: Optional[str] = path[:-len(FLIGHT)] + ".pt.trace.json"
    else:
        wanted = output or match["path"]  # type: ignore[index]
    trace = Trace(path)
    with temporary_beside(wanted or path, wanted or path) as folder:
        whole = os.path.join(folder, "whole")
        with open_regular(path, FILE_MOST) as file, Progress(os.path.basename(path), os.fstat(file.fileno()).st_size) as progress:
            text = Text(file, os.fstat(file.fileno()).st_size, progress)
            with create(whole) as raw:
                packed = wanted.lower().endswith(".gz") if wanted else text.gzip
                with gzip.GzipFile("", "wb", 1, raw, 0) if packed else contextlib.nullcontext(raw) as out:
                    lost, account = _write(trace, text, out, int(match["step"] or 0) if match else None)
        named, new = _name(whole, wanted or _prestep_name(path, trace.rank, text.gzip), output is not None, account["recovered"])
    return Made(named, new, trace, lost, account)


def recover(path: str, output: Optional[str] = None) -> str:
    """Writes the complete trace and prints what it holds. Returns its path."""
    made = make(path, output)
    if not made.new:
        note("was made from this file before, and stays as it is", made.path)
    _tell(made.path, made.trace, made.lost, made.account)
    return made.path


def _remove_copy(path: str) -> None:
    """The file that a process leaves beside its own if it was killed while dropping the older half (writer/file/sink_file.c). All of its
    content is also in the file."""
    with contextlib.suppress(FileNotFoundError):
        copy = os.lstat(path + ".new")
        if stat.S_ISREG(copy.st_mode) and copy.st_uid == os.stat(path).st_uid:
            os.unlink(path + ".new")


def _tell(named: str, trace: Trace, lost: int, account: Dict[str, Any]) -> None:
    steps = f"steps {min(trace.steps)} to {max(trace.steps)}" if trace.steps else "no whole step"
    put(printable(f"{named}: rank {trace.rank}, {steps}, {trace.written:,} events, {size_text(os.path.getsize(named))}"))
    if trace.open_spans:
        note(f"{len(trace.open_spans)} ranges were open: they end at the last flush", trace.path)
    if trace.behind:
        note(f"{trace.behind:,} events came from the write that was going on", trace.path)
    if trace.doubted:
        note(f"{trace.doubted:,} events stood where the write may have been torn: they are left out", trace.path)
    if lost:
        note(f"{lost:,} bytes held no whole event and are lost", trace.path)
    if not trace.head_whole:
        note("its head was torn: rank and base of times were saved, the rest of it is lost", trace.path)
    if account["recovered"]["account"] == "missing":
        note("the account of what was dropped while recording is lost", trace.path)


def _files_in(path: str) -> List[str]:
    """The files to recover: those of a folder, or the given one."""
    if not os.path.isdir(path):
        return [path]
    folders = [path, os.path.join(path, WITHIN)]
    inside = sorted(entry.path for folder in folders if os.path.isdir(folder) for entry in os.scandir(folder) if PART.fullmatch(entry.name))
    if not inside:
        raise Problem("holds no open file (*.part)", path)
    return inside


def _each(items: List[str], act: Callable[[str], Any]) -> List[Any]:
    """The results of act() for all items. Prints the error of a failed item and goes on."""
    found = []
    for item in items:
        try:
            found.append(act(item))
        except (Problem, OSError) as error:
            note(said(error))
    return found


def run(args: argparse.Namespace) -> int:
    """`cprof recover`"""
    end_tidily()
    listed = _each(args.files, _files_in)
    files = [path for inside in listed for path in inside]
    if args.output and len(files) > 1:
        raise Problem("--output is for one file")

    writers = {} if args.force else being_written(files)

    def act(path: str) -> None:
        if path in writers:
            raise Problem(f"{writers[path]} (--force takes what there is)", path)
        before = stamp(path)
        recover(path, args.output)
        if not args.force:
            _remove_copy(path)
        if args.delete and stamp(path) != before:
            raise Problem("was written to meanwhile: it stays", path)
        if args.delete:
            os.unlink(path)

    done = _each(files, act)
    return 0 if len(listed) == len(args.files) and len(done) == len(files) else BAD_INPUT
