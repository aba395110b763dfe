# SPDX-License-Identifier: Apache-2.0
"""Makes one trace of the traces of several ranks, for Perfetto.

    cprof merge rank*.pt.trace.json -o merged.json.gz
    cprof merge rank*.pt.trace.json --ranks 0-7 --steps 10-13 --only kernel,user_annotation -o merged.json.gz
    cprof merge rank*.pt.trace.json --manifest -o merged.tar

Each process of a rank and each of its GPUs gets a process row of its own, named and sorted by rank. Arrows and asynchronous
ranges of two ranks stay apart. All times count from one base. Ranks of one host share its clock. Clocks of several hosts are
aligned by the ends of the collectives in which both took part, and the remaining error is reported. Any input may be gzip. The
merged trace is gzip if its name ends in .gz. Memory does not grow with the files.

--ranks, --steps and --only leave events out. Steps count for each rank by its own steps. Rows of steps stay with --only, and
arrows go unless their category (ac2g, fwdbwd) is named. More than 2 GB of text are written with --large only.

With --manifest the traces go unchanged into a tar, with a perfetto_manifest that has the rank and the clock offset of each.
Perfetto v58 and later opens such a tar, in the browser and as trace_processor.

The numbers in args (correlation, External id) stay those of each rank's own trace. For tables by operator, use that trace."""

import argparse
import contextlib
import functools
import gzip
import hashlib
import itertools
import json
import os
from typing import Any, Dict, FrozenSet, Iterable, List, NamedTuple, Optional, Set, Tuple

from cprof._untrusted import open_regular
from cprof.tool import TOO_DEEP, Problem, archive, note, screen
from cprof.tool.chosen_events import COUNTER, Choice, Filter, categories_of, Ranges, is_in, ranges_of, shares
from cprof.tool.collectives import Clock, Times, base_of, by_rank, clocks, ns_of, rank_of
from cprof.tool.engine import Engine, attempt, each
from cprof.tool.given import add_traces, traces_of
from cprof.tool.lines import Forms, LineTrace, NotLines, move
from cprof.tool.output import appearing, create, end_tidily, keep_apart
from cprof.tool.progress import Progress
from cprof.tool.reader import MERGED, RANK_PIDS, keep_out_pipes, open_trace

HELP = "make one trace of the traces of several ranks"
GPUS = 4096           # pids below are GPUs in traces of torch.profiler and cprof
OTHERS = 5_000        # the first number of a rank's other processes
CHUNK = 1 << 20
LEVEL = 1             # of gzip, as in cprof's own traces
MOST_JOBS = 8
LARGE = 2_000_000_000  # bytes of text that are probably too much for Perfetto in a browser

_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False).encode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The files."""
    add_traces(parser)
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="the merged trace; gzip if it ends in .gz")
    parser.add_argument("--force", "-f", action="store_true", help="replace FILE if it is there")
    parser.add_argument("--ranks", metavar="N,N-M", help="these ranks only")
    parser.add_argument("--steps", metavar="N,N-M", help="what happened in these steps only")
    parser.add_argument("--only", metavar="CATEGORIES", help=f"events of these categories only, such as kernel,cpu_op; {COUNTER}: counters")
    parser.add_argument("--large", action="store_true", help="write more than 2 GB of text, too")
    parser.add_argument("--manifest", action="store_true",
                        help="write a tar of the unchanged traces with a perfetto_manifest (Perfetto v58 and later)")
    parser.add_argument("--jobs", "-j", type=int, default=0, metavar="N",
                        help=f"traces processed at a time (default: one for each CPU, at most {MOST_JOBS})")


class Part(NamedTuple):
    """One of the merged traces."""
    path: str
    index: int          # in the list; makes ids unique
    count: int          # length of the list
    rank: int
    host: str
    shift_ns: int       # added to its times
    base_ns: int        # its own base
    clock: Clock
    several_hosts: bool
    gzip: bool
    pids: Dict[Any, int] = {}  # new numbers that processes of the rank already have
    choice: Choice = Choice()
    limit: float = LARGE       # bytes of text


class TooLarge(Problem):
    """The merged trace would have more than the limit."""


class Done(NamedTuple):
    """The result of writing a part."""
    metadata: Dict[str, Any]
    notes: List[str]
    events: int
    size: int            # bytes of text
    pids: Dict[Any, int] = {}
    categories: FrozenSet[str] = frozenset()  # if only some were wanted: those that are there


# ---- one rank's events ----

class Rewriter:
    """Renumbers a rank's processes and ids so that they differ from other ranks'."""

    def __init__(self, part: Part) -> None:
        self.part = part
        self.pids: Dict[Any, int] = {}
        self.names: Dict[int, str] = {}
        self._first = (part.rank + 1) * RANK_PIDS

    def pid(self, old: Any) -> int:
        """The new number of a process."""
        new = self.pids.get(old)
        if new is None:
            new = self.pids[old] = self.part.pids.get(old) or self._new(old)
        return new

    def _new(self, old: Any) -> int:
        if _is_gpu(old):
            return self._first + 1 + old
        others = sum(1 for pid in {**self.part.pids, **self.pids} if not _is_gpu(pid))
        return self._first + min(OTHERS + others, RANK_PIDS - 1)

    @property
    def suffix(self) -> str:
        """Digits appended to the ids of this part, unique among the parts."""
        part = self.part
        return str(part.index).zfill(len(str(part.count - 1)))

    def id(self, old: Any) -> Any:
        """The new id of an arrow or an asynchronous range, unique among the parts."""
        part = self.part
        try:
            number = int(old, 16) if type(old) is str else old
            new = int(f"{number:d}{self.suffix}")
            if 0 <= number and new < 1 << 63:
                return hex(new) if type(old) is str else new
        except (TypeError, ValueError):
            pass
        digest = int.from_bytes(hashlib.blake2b(f"{part.index} {old}".encode("utf-8", "replace"), digest_size=8).digest(),
                                "big") >> 1
        return hex(digest) if type(old) is str else digest

    def event(self, event: Dict[str, Any]) -> Optional[Dict[str, Any]]:
        """The event with its new numbers; None for metadata that rows() writes."""
        ph = event.get("ph")
        old = event.get("pid", 0)
        try:
            pid = event["pid"] = self.pids[old]
        except (KeyError, TypeError):
            pid = event["pid"] = self.pid(old if isinstance(old, (int, str)) else str(old))
        if ph == "M":
            return self._meta(event, pid)
        if self.part.shift_ns and "ts" in event:
            event["ts"] = (ns_of(event["ts"]) + self.part.shift_ns) / 1000
        if ph != "X" and ph != "C" and "id" in event:
            event["id"] = self.id(event["id"])
        if "bind_id" in event:
            event["bind_id"] = self.id(event["bind_id"])
        if type(event.get("id2")) is dict and "global" in event["id2"]:
            event["id2"]["global"] = self.id(event["id2"]["global"])
        return event

    def _meta(self, event: Dict[str, Any], pid: int) -> Optional[Dict[str, Any]]:
        name, args = event.get("name"), event.get("args")
        if name == "process_sort_index":
            return None
        if name == "process_name":
            if type(args) is dict and type(args.get("name")) is str:
                self.names[pid] = args["name"]
            return None
        return event

    def rows(self) -> List[Dict[str, Any]]:
        """Metadata events with the name and the order of each process."""
        part, found = self.part, []
        if not self.pids:
            self.names[self.pid("")] = "no events"
        for old, pid in self.pids.items():
            name = self.names.get(pid) or (f"GPU {old}" if _is_gpu(old) else f"process {old}")
            where = f" on {part.host}" if part.several_hosts and part.host else ""
            place = 1 + old if _is_gpu(old) else pid - self._first if "overhead" in name or type(old) is str else 0
            found.append({"ph": "M", "name": "process_name", "pid": pid, "tid": pid, "ts": 0,
                          "args": {"name": f"rank {part.rank} {name}{where}"}})
            found.append({"ph": "M", "name": "process_sort_index", "pid": pid, "tid": pid, "ts": 0,
                          "args": {"sort_index": part.rank * RANK_PIDS + place}})
        return found


def _is_gpu(pid: Any) -> bool:
    return type(pid) is int and 0 <= pid < GPUS


def _line(event: Any) -> str:
    try:
        return _encode(event)
    except ValueError:  # NaN or infinity, which hang Perfetto
        return _encode(_finite(event))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_finite(one) for one in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value


def _json_of(events: Iterable[Dict[str, Any]], rewriter: Rewriter) -> bytes:
    text = "".join([_line(event) + ",\n" for event in map(rewriter.event, events) if event is not None])
    return text.encode("utf-8", "replace")


def _from_lines(part: Part, rewriter: Rewriter, out: Any, progress: Progress) -> Done:
    """Writes a part by editing its text. Raises NotLines if its form does not allow that."""
    def as_json(lines: bytes) -> bytes:
        try:
            return _json_of(json.loads(b"[" + lines.rstrip(b",\n") + b"]"), rewriter)
        except (ValueError, RecursionError):
            raise NotLines from None

    events = size = 0
    with open_regular(part.path) as file:
        trace, forms = LineTrace(file, progress.add), Forms()
        for block in trace.blocks():
            forms.check(block)
            data = move(block, rewriter.pids, rewriter.pid, rewriter.suffix.encode(), part.shift_ns, as_json) or as_json(block)
            out.write(data)
            events += block.count(b"\n")
            size = _within(part, size + len(data))
    return Done(trace.metadata, [], events, size)


def _within(part: Part, size: int) -> int:
    if size > part.limit:
        raise TooLarge("is too large", part.path)
    return size


def _from_json(part: Part, rewriter: Rewriter, out: Any, progress: Progress) -> Done:
    """Writes a part of any form, by JSON."""
    events = size = 0
    seen: Set[str] = set()
    spans = _spans_of(part)
    chosen = Filter(part.choice.only, spans)
    with open_trace(part.path, progress=progress) as trace:
        for block in itertools.chain(trace.blocks(), [None]):
            if part.choice.only is not None:
                seen.update(category for event in block or () for category in categories_of(event))
            wanted = block if part.choice.is_all else list(chosen.rest() if block is None else chosen(block))
            data = _json_of(wanted or (), rewriter)
            out.write(data)
            events += len(wanted or ())
            size = _within(part, size + len(data))
    none = [f"has none of the steps {part.choice.steps_text}"] if spans == [] else []
    return Done(dict(trace.metadata), trace.remarks() + none, events, size, categories=frozenset(seen))


def _spans_of(part: Part) -> Optional[List[Tuple[int, int]]]:
    """The times of the wanted steps as the trace counts them; None: of all."""
    steps = part.choice.steps
    if steps is None:
        return None
    times = Times(part.path, part.index).read(progress=False)
    return [(start - times.base, end - times.base) for n, (start, end) in times.steps.items() if is_in(n, steps)]


def write_part(path: str, part: Part, output: str) -> Done:
    """Writes a part's events, each followed by a comma."""
    for as_lines in (True, False) if part.choice.is_all else (False,):
        rewriter = Rewriter(part)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(output)  # an earlier try
        with create(output) as raw, gzip.GzipFile("", "wb", LEVEL, raw, 0) if part.gzip else contextlib.nullcontext(raw) as out:
            try:
                with Progress(os.path.basename(path), _size(path)) as progress:
                    done = (_from_lines if as_lines else _from_json)(part, rewriter, out, progress)
            except NotLines:
                continue
            rows = ",\n".join(_line(row) for row in rewriter.rows()) + ("\n" if part.index == part.count - 1 else ",\n")
            out.write(rows.encode("utf-8", "replace"))
            return done._replace(size=done.size + len(rows), pids=rewriter.pids)
    raise AssertionError("JSON always does")


# ---- all ranks ----

def _heads(paths: List[str]) -> List[Dict[str, Any]]:
    found = []
    for path in paths:
        with open_trace(path) as trace:
            trace.past_large = True
            head = dict(trace.of_one_rank().head())
            if not {"baseTimeNanoseconds", "distributedInfo", "host_name"} <= head.keys():
                for _ in trace.blocks():  # the keys may come after the events
                    pass
                head = dict(trace.metadata)
        found.append(head)
    return found


def _times_of(path: str, order: int, host: str) -> Times:
    """The trace's Times with the host of its part: a host name after the events must not change it."""
    times = Times(path, order).read()
    times.host = host
    return times


def parts_of(paths: List[str], zipped: bool) -> List[Part]:
    """Ranks, bases and clocks of the traces, in the order of ranks."""
    for path in paths:
        keep_out_pipes(path, "a merge")
    heads = _heads(paths)
    order = sorted(range(len(paths)), key=lambda n: (rank_of(heads[n], paths[n], n), n))
    hosts = [str(heads[n].get("host_name") or "") for n in order]
    several = len(set(hosts)) > 1
    times = by_rank([_times_of(paths[n], n, host) for n, host in zip(order, hosts)]) if several else []
    by_host = clocks(times) if several else {hosts[0]: Clock(0, 0, "wall clock", 0)}
    bases = [base_of(heads[n]) for n in order]
    return [Part(paths[n], index, len(paths), rank_of(heads[n], paths[n], n), host,
                 base - min(bases) + by_host[host].offset_ns, base, by_host[host], several, zipped)
            for index, (n, host, base) in enumerate(zip(order, hosts, bases))]


def chosen_parts(parts: List[Part], ranks: Optional[Ranges]) -> List[Part]:
    """Those of the ranks, numbered anew."""
    chosen = [part for part in parts if ranks is None or is_in(part.rank, ranks)]
    if not chosen:
        raise Problem(f"--ranks: no trace is of such a rank; there are {', '.join(str(rank) for rank in sorted({part.rank for part in parts})[:20])}")
    return [part._replace(index=n, count=len(chosen)) for n, part in enumerate(chosen)]


def clock_text(host: str, clock: Clock) -> str:
    """The text about the correction of a host's clock."""
    if clock.source == "collective ends":
        return (f"clock of {host}: moved by {clock.offset_ns / 1000:+,.1f} us; the ends of {clock.collectives:,} collectives "
                f"then agree within {(clock.error_ns or 0) / 1000:,.1f} us (9 of 10)")
    if clock.error_ns is None:
        return f"clock of {host}: unchanged; no collective shows its error"
    return (f"clock of {host}: unchanged; the ends of {clock.collectives:,} collectives agree within "
            f"{clock.error_ns / 1000:,.1f} us (9 of 10)")


def _head(parts: List[Part], done: List[Done]) -> str:
    """The head of the merged file, line by line as in cprof's own traces."""
    first = done[0].metadata
    info = dict(first["distributedInfo"]) if type(first.get("distributedInfo")) is dict else {}
    info.setdefault("rank", parts[0].rank)
    info.setdefault("world_size", len({part.rank for part in parts}))
    lines = [f"{json.dumps(key)}: {_line(value)}" for key, value in info.items()]
    devices = _line(first.get("deviceProperties") or [])  # of the first rank; the tail has those of all ranks
    return ("{\n\"schemaVersion\": 1,\n\"" + MERGED + "\": " + str(len({part.rank for part in parts})) + ",\n\"deviceProperties\": " + devices + ",\n\"distributedInfo\": {\n" + ",\n".join(lines) + "\n},\n\"displayTimeUnit\": \"ms\",\n"
            f"\"baseTimeNanoseconds\": {min(part.base_ns for part in parts)},\n\"traceEvents\": [\n")


def _tail(parts: List[Part], done: List[Done], name: str) -> str:
    """The tail of the merged file: the metadata of each rank."""
    ranks = []
    for part, one in zip(parts, done):
        try:
            ranks.append(_line({"rank": part.rank, "file": os.path.basename(part.path), "events": one.events,
                                "clock": {"offset_ns": part.clock.offset_ns, "error_ns": part.clock.error_ns,
                                          "from": part.clock.source, "collectives": part.clock.collectives},
                                **{key: _finite(value) for key, value in one.metadata.items() if key != "schemaVersion"}}))
        except RecursionError:
            raise Problem(TOO_DEEP, part.path) from None
    return ("],\n\"merged\": [\n" + ",\n".join(ranks) + "\n],\n\"traceName\": " +
            json.dumps(os.path.basename(name), ensure_ascii=False) + "\n}\n")


def _write_all(parts: List[Part], folder: str, jobs: int) -> List[Done]:
    """Writes each part into a file of its own. Raises TooLarge before there are many more bytes than the limit."""
    done = _write(parts, folder, jobs)
    again = _otherwise_numbered(parts, done)
    if again:
        for part, one in zip(again, _write(again, folder, min(jobs, len(again)))):
            done[part.index] = one
    return done


def _otherwise_numbered(parts: List[Part], done: List[Done]) -> List[Part]:
    """Parts that must be written again with other process numbers, mostly none. Each part numbers processes in the order of their events, so
    two parts of one rank (windows, or a process and its child) may have numbered them differently."""
    pids: Dict[int, Dict[Any, int]] = {}
    again = []
    for part, one in zip(parts, done):
        of_rank = pids.setdefault(part.rank, {})
        rewriter = Rewriter(part._replace(pids=of_rank))
        wanted = {old: rewriter.pid(old) for old in one.pids}
        of_rank.update(wanted)
        if wanted != one.pids:
            again.append(part._replace(pids=wanted))
    return again


def _write(parts: List[Part], folder: str, jobs: int) -> List[Done]:
    tasks = [functools.partial(write_part, part=part, output=os.path.join(folder, str(part.index))) for part in parts]
    done: List[Done] = []
    with contextlib.closing(each([(functools.partial(attempt, task), part.path) for task, part in zip(tasks, parts)], Engine(jobs=jobs))) as results:
        for one in results:
            if one.problem or isinstance(one.value, OSError):
                raise one.problem or one.value
            done.append(one.value)
            _within(parts[0], sum(one.size for one in done))
    return done


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _put(out: Any, text: str, zipped: bool) -> None:
    data = text.encode("utf-8", "replace")
    out.write(gzip.compress(data, LEVEL) if zipped else data)


def _refuse(part: Part) -> None:
    """Says what may be left out."""
    with open_trace(part.path) as trace:
        largest = ", ".join(f"{share:.0%} {name}" for name, share in shares(trace)[:4])
    raise Problem(f"would have more than {part.limit / 1e9:.0f} GB of text, which Perfetto may not load in a browser. Leave out ranks (--ranks 0-7), steps "
                  f"(--steps 10-13) or categories (--only kernel,user_annotation; of rank {part.rank}'s events are {largest}), or write it by --large")


def _tell_missing(choice: Choice, done: List[Done]) -> None:
    """Names the wanted categories that no trace has."""
    there = frozenset().union(*(one.categories for one in done))
    missing = sorted((choice.only or frozenset()) - there)
    if missing:
        note(f"no event has the category {', '.join(missing)}; there are: {', '.join(sorted(there))}")


def _merge(parts: List[Part], output: str, force: bool, jobs: int) -> List[Done]:
    with appearing(output, force) as (folder, out):
        zipped = output.endswith(".gz")
        jobs = max(1, min(jobs or len(os.sched_getaffinity(0)), len(parts), MOST_JOBS if not jobs else jobs))
        done = _write_all(parts, folder, jobs)
        pieces = [os.path.join(folder, str(part.index)) for part in parts]
        with Progress("joining", sum(map(_size, pieces))) as progress:
            _put(out, _head(parts, done), zipped)
            for name in pieces:
                with open_regular(name) as piece:
                    for data in iter(lambda: piece.read(CHUNK), b""):
                        out.write(data)
                        progress.add(len(data))
                os.unlink(name)
            _put(out, _tail(parts, done, output), zipped)
    return done


def merge(paths: List[str], output: str, force: bool = False, jobs: int = 0, choice: Choice = Choice(), ranks: Optional[Ranges] = None,
          limit: float = LARGE) -> List[Part]:
    """Writes the merged trace, and returns its parts. The file appears when it is whole."""
    parts = chosen_parts(parts_of(paths, output.endswith(".gz")), ranks)
    parts = [part._replace(choice=choice, limit=limit) for part in parts]
    try:
        done = _merge(parts, output, force, jobs)
    except TooLarge:
        _refuse(parts[0])
    _tell_missing(choice, done)
    for part, one in zip(parts, done):
        for text in one.notes:
            note(text, part.path)
    return parts


def run(args: argparse.Namespace) -> int:
    """`cprof merge`"""
    end_tidily()
    args.traces = traces_of(args.traces)
    keep_apart(args.output, args.traces)
    if args.output == "-":
        raise Problem("a merged trace is a file, stdout only gets its name: --output NAME", "-")
    ranks = ranges_of(args.ranks, "--ranks") if args.ranks else None
    choice = Choice(ranges_of(args.steps, "--steps") if args.steps else None,
                    frozenset(filter(None, map(str.strip, args.only.split(",")))) if args.only else None)
    if args.manifest:
        if not choice.is_all:
            raise Problem("--manifest keeps the traces as they are: no --steps and no --only")
        if not args.output.endswith(".tar"):
            raise Problem("--manifest writes a tar: its name must end in .tar", args.output)
        parts = chosen_parts(parts_of(args.traces, False), ranks)
        archive.write(parts, args.output, args.force)
    else:
        parts = merge(args.traces, args.output, args.force, args.jobs, choice, ranks, float("inf") if args.large else LARGE)
    twice = sorted({part.rank for part in parts if sum(1 for other in parts if other.rank == part.rank) > 1})
    if twice and not args.manifest:
        note(f"several traces of rank {', '.join(map(str, twice))}: they share its rows")
    for host, clock in {part.host: part.clock for part in parts}.items():
        if parts[0].several_hosts and host != parts[0].host:
            note(clock_text(host or "(no host name)", clock))
    with contextlib.suppress(OSError):
        screen.data(args.output + "\n")
    return 0
