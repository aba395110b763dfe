# SPDX-License-Identifier: Apache-2.0
"""Checks that a trace keeps the rules of its readers, and reports what was lost when it was recorded.

Checks the form of each event, and the rules of torch's own validator (torch/profiler/_trace_validator.py). Finds spans of
one row that overlap without nesting (Perfetto drops or moves them); arrows, asynchronous ranges and B/E pairs without a
partner; kernels that begin before their launch. Reports lost records, as cprof and Kineto count them.

An error misleads readers, or is lost data. A warning is harmless, or usual in traces of torch.profiler. The exit code is 1 if
there are errors.
"""

import argparse
import collections
import contextlib
import json
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from cprof.tool import BAD_INPUT, note, printable
from cprof.tool.check_relations import Relations, paired
from cprof.tool.columns import Columns
from cprof.tool.engine import add_engine, each, over
from cprof.tool.fast import METADATA, REFUSED_MOST, UINT32, has_long_numbers, sound_events
from cprof.tool.given import add_traces, traces_of
from cprof.tool.progress import Progress
from cprof.tool.reader import Trace, open_trace
from cprof.tool.screen import data, put
from cprof.tool.span_reader import begins_and_ends
from cprof.tool.spans import int_or_none, to_ns
from cprof.tool.steps import FOREIGN_PIDS

HELP = "check a trace against the rules of its readers, and report losses; exit code 1 if there are errors"
ERROR, WARNING = "error", "warning"
POSSIBLE_CPU, POSSIBLE_GPU = 200, 50000  # TFLOP/s, far above what one process can reach
_HABIT, _OWN = "habit", "own"
PHASES = frozenset("BEXiICbneSTpFstfPNODMVvRc()")
INT64 = 2**63 - 1
EXAMPLES = 3


class Finding(NamedTuple):
    """A broken rule, with the number of times and examples."""
    level: str
    rule: str
    count: int
    examples: List[str]


class Findings:
    """Collects broken rules. The levels of some depend on who wrote the trace, which may be known only at its end."""

    def __init__(self) -> None:
        self.ours = False  # written by cprof: habits of Kineto count as errors
        self.flight = False  # of cprof's flight recorder, which keeps kernels without their calls
        self._found: Dict[Tuple[str, str], Finding] = {}

    def add(self, level: str, rule: str, example: str, count: int = 1) -> None:
        """Adds a broken rule."""
        found = self._found.get((level, rule))
        if found is None:
            found = self._found[level, rule] = Finding(level, rule, 0, [])
        if len(found.examples) < EXAMPLES and example:
            found.examples.append(example)
        self._found[level, rule] = found._replace(count=found.count + count)

    def habit(self, rule: str, example: str, count: int = 1) -> None:
        """Adds an error for a trace of cprof's, a warning for others."""
        self.add(_HABIT, rule, example, count)

    def own(self, rule: str, example: str, count: int = 1) -> None:
        """Adds an error for a trace of cprof's, nothing for others."""
        self.add(_OWN, rule, example, count)

    def all(self) -> List[Finding]:
        """All findings, errors first, else in the order found."""
        levels = {_HABIT: ERROR, _OWN: ERROR} if self.ours else {_HABIT: WARNING, _OWN: None}
        found = [one._replace(level=levels.get(one.level, one.level)) for one in self._found.values()]
        return sorted((one for one in found if one.level), key=lambda one: one.level != ERROR)


def shown(event: Dict[str, Any]) -> str:
    """A short text that identifies an event."""
    parts = [printable(json.dumps(event.get("name"), ensure_ascii=False))[:80]]
    for key in ("cat", "pid", "tid", "ts"):
        if key in event:
            parts.append(f"{key} {printable(event[key])[:40]}")
    return " ".join(parts)


def findings(path: str, progress: bool = False) -> Tuple[List[Finding], int]:
    """The findings about a trace, and its number of events. Raises a Problem if the file is no trace."""
    with open_trace(path, progress) as trace:
        trace.past_large = True
        found = Findings()
        columns = Columns()
        form, pairs = _Form(found), _Pairs(found, columns, trace.is_merged)
        relations = Relations(found, columns, trace.is_merged)
        count = 0

        def take(text: str) -> bool:
            """Takes a block of well-formed events through the fast parser. False if the block needs the slow way."""
            nonlocal count, refused
            kinds = sound_events() if refused < REFUSED_MOST else None
            events = kinds.events(text) if kinds and not has_long_numbers(text) else None
            refused = refused + 1 if events is None else 0
            if not kinds or events is None:
                return False
            relations.spans([event for event in events if type(event) is kinds.span])
            for kind in (kinds.start, kinds.end):
                pairs.sound_arrows([event for event in events if type(event) is kind], kind is kinds.start)
            for event in events:
                if type(event) is kinds.metadata and event.name == "thread_name":
                    relations.name_thread(event.pid, event.tid)
            count += len(events)
            columns.trim()
            return True

        refused = 0
        trace.take_text = None if trace.is_merged else take
        for block in trace.blocks():
            for event in block:
                count += 1
                if form.event(event) and pairs.event(event):
                    relations.event(event)
            columns.trim()
        columns.finish()
        account = trace.metadata.get("cprof")
        found.flight = type(account) is dict and "flight" in account
        with Progress("comparing") if progress else contextlib.nullcontext() as shown_progress:
            pairs.end(shown_progress)
            relations.end(shown_progress)
        found.ours = _is_cprofs(trace.metadata)
        _top_level(trace, found)
        _losses(trace.metadata, found)
        if not count:
            found.add(WARNING, "no events", "")
    return found.all(), count


def _is_cprofs(metadata: Dict[str, Any]) -> bool:
    """Whether cprof wrote the trace. The key `cprof` comes after the events and may be cut off; Kineto does not write the two keys of
    distributedInfo."""
    info = metadata.get("distributedInfo")
    return "cprof" in metadata or type(info) is dict and {"local_rank", "node_rank"} <= info.keys()


# ---- one event ----

class _Form:
    """The rules for a single event."""

    def __init__(self, found: Findings) -> None:
        self.found = found

    def event(self, event: Dict[str, Any]) -> bool:
        """Checks an event. Returns whether it is well-formed enough for the rules between events."""
        add, ph = self.found.add, event.get("ph")
        if type(ph) is not str or ph not in PHASES or len(ph) != 1:
            add(ERROR, "unknown phase", f"ph {printable(ph)[:40]}: {shown(event)}")
            return False
        sound = self._place(event, ph) & self._time(event, ph)
        name, args = event.get("name"), event.get("args")
        if ph in "XBIibC" and type(name) is not str:
            add(ERROR, "no name", shown(event))
            sound = False
        elif name == "":
            add(WARNING, "an empty name", shown(event))
        if args is not None and type(args) is not dict:
            add(ERROR, "args is no object", shown(event))
            sound = False
        if ph == "X" and not event.get("cat"):
            add(WARNING, "no category: HolisticTraceAnalysis and others drop the row", shown(event))
        elif "cat" in event and type(event["cat"]) is not str:
            add(ERROR, "cat is no text", shown(event))
            sound = False
        elif ph == "C":
            values = list(args.values()) if type(args) is dict else []
            if not values or not all(type(value) in (int, float) for value in values):
                add(ERROR, "a counter without a number", shown(event))
        elif ph in "iI" and event.get("s", "t") not in ("t", "p", "g"):
            add(ERROR, "scope of an instant", shown(event))
        elif ph == "M" and (type(name) is not str or name not in METADATA):
            add(WARNING, "metadata that nobody reads", shown(event))
        if sound and type(args) is dict:
            self._numbers(event, args)
        return sound

    def _place(self, event: Dict[str, Any], ph: str) -> bool:
        sound = True
        for key in ("pid", "tid"):
            value = event.get(key)
            if value is None and (ph == "M" or key == "tid" and ph in "Cbne"):
                continue
            if type(value) is str:
                self.found.own("pid or tid is a text", shown(event))
            elif type(value) is not int:
                self.found.add(ERROR, "no pid or tid", shown(event))
                sound = False
            elif value > UINT32:
                self.found.habit("pid or tid of more than 32 bits: Perfetto mixes such rows up", shown(event))
            elif value < 0:
                self.found.habit("negative pid or tid", shown(event))
            elif key == "tid" and value == 0:
                self.found.own("tid 0 is the main thread to readers", shown(event))
        return sound

    def _time(self, event: Dict[str, Any], ph: str) -> bool:
        if ph == "M" and "ts" not in event:
            return True
        start = to_ns(event.get("ts"))
        if start is None:
            self.found.add(ERROR, "no usable ts", f"ts {printable(event.get('ts'))[:40]}: {shown(event)}")
            return False
        if start < 0:
            self.found.add(ERROR, "negative ts", shown(event))
        if ph != "X":
            return True
        duration = to_ns(event.get("dur"))
        if duration is None:
            self.found.add(ERROR, "no usable dur", f"dur {printable(event.get('dur'))[:40]}: {shown(event)}")
            return False
        if duration < 0:
            self.found.add(ERROR, "negative dur", shown(event))
            return False
        return True

    def _numbers(self, event: Dict[str, Any], args: Dict[str, Any]) -> None:
        for key, value in args.items():
            if type(value) is int and not -INT64 - 1 <= value <= INT64:
                self.found.habit("a number of more than 64 bits: Perfetto reads it wrong", f"{printable(key)} in {shown(event)}")


# ---- partners ----

class _Pairs:
    """Arrows, asynchronous ranges, and pairs of B and E. merged: the merge has renumbered the processes."""

    def __init__(self, found: Findings, columns: Columns, merged: bool) -> None:
        self.found, self._merged = found, merged
        self._columns = columns
        self._arrows: Dict[str, Any] = {}      # by category: ids and times of starts, ids and times of ends
        self._texts: Dict[str, int] = {}       # numbers for ids that are texts
        self._ranges: Any = collections.Counter()
        self._open: Dict[Any, int] = collections.defaultdict(int)

    def event(self, event: Dict[str, Any]) -> bool:
        """Takes a well-formed event. Returns whether the rules of Relations apply to it."""
        ph = event["ph"]
        if ph in ("s", "f", "t"):
            self._arrow(event, ph)
            return False
        if ph in ("b", "e"):
            local = event.get("id2")
            key = (str(event.get("cat")), str(event.get("name")), str(local if local is not None else event.get("id")),
                   str(event.get("pid")) if local is not None else "")
            if local is None and "id" not in event:
                self.found.add(ERROR, "an asynchronous range without id", shown(event))
            elif ph == "e" and not self._ranges[key]:
                self.found.add(ERROR, "an asynchronous range ends without a beginning", shown(event))
            else:
                self._ranges[key] += 1 if ph == "b" else -1
        elif ph in ("B", "E"):
            place = (str(event.get("pid")), str(event.get("tid")), self._halves(event.get("pid")))
            if ph == "B":
                self._open[place] += 1
            elif self._open[place]:
                self._open[place] -= 1
            else:
                self.found.add(place[2], "E without B", shown(event))
        return True

    def _halves(self, pid: Any) -> str:
        """The level of an unpaired B or E of this process. cprof writes none. A foreign file that the program added may begin or end in the
        middle of a span: readers ignore its E, and draw its B to the end."""
        return WARNING if self._merged or type(pid) is int and pid >= FOREIGN_PIDS else ERROR

    def _arrow(self, event: Dict[str, Any], ph: str) -> None:
        number, start = event.get("id"), to_ns(event.get("ts"))
        if type(number) not in (int, str) or start is None:
            self.found.add(ERROR, "an arrow without id or ts", shown(event))
            return
        if type(number) is str or not -INT64 <= number <= INT64:
            number = -1 - self._texts.setdefault(str(number), len(self._texts))
        if ph == "f" and event.get("bp") != "e":
            self.found.habit("an arrow's end without bp e: it points to the next span", shown(event))
        self._keep(str(event.get("cat")), number, start, {"s": 0, "f": 2}.get(ph))

    def _keep(self, category: str, number: int, time: int, column: Optional[int]) -> None:
        arrows = self._arrows_of(category)
        if column is not None:
            arrows[column].append(number)
            arrows[column + 1].append(time)

    def _arrows_of(self, category: str) -> Any:
        arrows = self._arrows.get(category)
        if arrows is None:
            arrows = self._arrows[category] = tuple(self._columns.new("q") for _ in range(4))
        return arrows

    def sound_arrows(self, found: List[Any], begins: bool) -> None:
        """Takes arrows of fast.py's classes."""
        for category in dict.fromkeys([one.cat for one in found]):
            own = [one for one in found if one.cat == category]
            arrows = self._arrows_of(category)[0 if begins else 2:]
            arrows[0].extend([one.id for one in own])
            arrows[1].extend(begins_and_ends([one.ts for one in own], [])[0])

    def end(self, progress: Optional[Progress] = None) -> None:
        """Reports what has no partner. Needs finished columns."""
        found = self.found
        for category, columns in self._arrows.items():
            starts, start_times, ends, end_times = map(self._columns.whole, columns)
            if progress:  # each is sorted, then visited
                progress.total = (progress.total or 0) + 2 * (len(starts) + len(ends))
            for number, begun, ended in paired(starts, ends, progress):
                what = f"{printable(category)[:40]} {number}"
                if len(begun) > 1:
                    found.habit("several arrows of one id", what)
                if not begun:
                    found.habit("an arrow ends without a beginning", what, len(ended))
                elif not ended:
                    found.add(WARNING, "an arrow has no end", what)
                elif min(end_times[i] for i in ended) < min(start_times[i] for i in begun):
                    found.add(ERROR, "an arrow ends before it begins", what)
        for key, n in self._ranges.items():
            if n > 0:
                found.add(WARNING, "an asynchronous range has no end", key[1][:80], n)
        for place, n in self._open.items():
            if n:
                found.add(place[2], "B without E", f"pid {place[0]} tid {place[1]}", n)


# ---- the rest of the file ----

def _top_level(trace: Trace, found: Findings) -> None:
    for line in trace.notes:
        found.add(ERROR, "the file", line)
    if trace.no_objects:
        found.add(ERROR, "elements of traceEvents that are no objects", "", trace.no_objects)
    if trace.path.endswith(".part") and not trace.truncated:
        found.add(WARNING, "the file is still open, or what a killed process left", "")
    if trace.form != "object":
        return
    kinds = {"schemaVersion": int, "deviceProperties": list, "distributedInfo": dict, "baseTimeNanoseconds": int,
             "displayTimeUnit": str, "traceName": str}
    for key, kind in kinds.items():
        value = trace.metadata.get(key)
        if key not in trace.metadata:
            if found.ours and not trace.truncated:
                found.add(ERROR, "a key of the top level is missing", key)
        elif type(value) is not kind:
            found.add(ERROR, "a key of the top level is of another kind", f"{key}: {printable(value)[:60]}")
    info = trace.metadata.get("distributedInfo")
    if type(info) is dict and type(info.get("rank")) is not int:
        found.add(WARNING, "no rank: readers of several traces take it for rank 0", "")


def _losses(metadata: Dict[str, Any], found: Findings) -> None:
    """Reports the losses that cprof and Kineto counted."""
    about = metadata.get("cprof")
    if type(about) is dict:
        lost = about.get("lost")
        causes = {key: n for key, n in lost.items() if type(n) is int} if type(lost) is dict else {}
        total = causes.pop("total", sum(causes.values()))
        for cause, n in causes.items():
            if n:
                found.add(ERROR, f"records lost: {printable(cause)}", "", n)
        if total != sum(causes.values()):
            found.add(ERROR, "cprof.lost does not add up", f"total {total}, causes {sum(causes.values())}")
        if type(about.get("unfinished")) is int and about["unfinished"]:
            found.add(WARNING, "spans that were still open", "", about["unfinished"])
        _rates(about.get("flops"), found)
        _recovered(about.get("recovered"), found)
        notes = about.get("notes")
        for line in notes if type(notes) is list else ():
            found.add(WARNING, "cprof's note", printable(line)[:200])
    for key in ("INFO", "WARNING", "ERROR"):
        for line in metadata[key] if type(metadata.get(key)) is list else ():
            _kineto_losses(printable(line), found)


def _rates(flops: Any, found: Findings) -> None:
    """Reports FLOP rates that no device can reach: something was counted that was not computed."""
    for device, told in flops.items() if type(flops) is dict else ():
        if type(told) is not dict:
            continue
        share, rate = told.get("hfu_percent", told.get("mfu_percent")), told.get("tflops_per_s")
        if type(share) in (int, float) and share > 100:
            found.add(WARNING, "a rate above the device's peak", f"{printable(str(device))}: {min(share, 1e30):g} %")
        elif type(rate) in (int, float) and rate > (POSSIBLE_CPU if device == "CPU" else POSSIBLE_GPU):
            found.add(WARNING, "a rate above any possible peak", f"{printable(str(device))}: {min(rate, 1e30):g} TFLOP/s")


def _recovered(told: Any, found: Findings) -> None:
    """Reports what `cprof recover` could not save."""
    if type(told) is not dict:
        return
    if type(told.get("bytes_lost")) is int and told["bytes_lost"] > 0:
        found.add(WARNING, "bytes of the open file held no whole event", "", told["bytes_lost"])
    if told.get("account") == "missing":
        found.add(WARNING, "the account of what was dropped while recording was lost: cprof.lost says nothing", "")


def _kineto_losses(line: str, found: Findings) -> None:
    if "Record counts:" not in line:
        return
    for part in line.partition("Record counts:")[2].split(","):
        name, _, number = part.partition("=")
        counted = int_or_none(number)
        if name.strip() in ("Out-of-range", "Invalid ext correlations", "CPU GPU out-of-order") and counted and counted > 0:
            found.add(WARNING, f"Kineto's count of {name.strip()} records", "", counted)


# ---- the command ----

def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_traces(parser)
    add_engine(parser)
    parser.add_argument("--strict", action="store_true", help="warnings count as errors")
    parser.add_argument("--json", action="store_true", help="one JSON object for each trace, in a line of its own")
    parser.add_argument("-q", "--quiet", action="store_true", help="errors only")


def _findings(path: str) -> Tuple[List[Finding], int]:
    return findings(path, progress=True)


def run(args: argparse.Namespace) -> int:
    code = 0
    for path, value, problem in each(over(_findings, traces_of(args.traces, merged=True)), args.engine):
        if problem is not None:
            note(problem)
            code = BAD_INPUT
            continue
        found, count = value
        bad = any(one.level == ERROR or args.strict for one in found)
        code = max(code, int(bad))
        if args.json:
            data(json.dumps({"trace": path, "events": count, "ok": not bad, "findings": [one._asdict() for one in found]}) + "\n")
        else:
            _print(path, found, count, args.quiet)
    return code


def _print(path: str, found: List[Finding], count: int, quiet: bool) -> None:
    for one in found:
        if quiet and one.level != ERROR:
            continue
        times = f" ({one.count:,} times)" if one.count > 1 else ""
        examples = "".join(f"\n    {example}" for example in one.examples)
        put(f"{printable(path)}: {one.level}: {one.rule}{times}{examples}")
    if not quiet:
        numbers = collections.Counter(one.level for one in found)
        said = [f"{numbers[level]} kind{'s' * (numbers[level] != 1)} of {level}s" for level in (ERROR, WARNING) if numbers[level]]
        put(f"{printable(path)}: {count:,} events: {' and '.join(said) or 'nothing wrong'}")


def problems(path: str) -> List[str]:
    """The errors of a trace as text, for tests."""
    return [f"{one.rule} ({one.count}): {'; '.join(one.examples)}" for one in findings(path)[0] if one.level == ERROR]
