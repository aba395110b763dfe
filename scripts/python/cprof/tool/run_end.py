# SPDX-License-Identifier: Apache-2.0
"""What `cprof run` prints after the program ended: a line for each rank, and what to type next. At most 12 lines on stderr."""

import collections
import contextlib
import itertools
import json
import os
import shlex
import shutil
import signal
import sys
import tempfile
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Optional

from cprof._saved import LINE_MOST, LIST_MOST, is_sound
from cprof._untrusted import lines_in, open_regular, printable
from cprof.tool import Problem, note
from cprof.tool.given import SHOWN, WITHIN
from cprof.tool.screen import BOLD, WARNING, tell
from cprof.tool.settings import in_force, is_on
from cprof.tool.watch import Watch, natural, size_text
from cprof.tool.writers import being_written

MOST_LINES = 12
ASK_DOCTOR = " (cprof doctor tells what may be in the way)"
STEP_RANGES = 3             # most ranges of steps in a rank's line
FLIGHTS_READ_BYTES = 64 << 20  # more of the flight recorders' files are left as they are, for the same reason
RANKS_READ_BYTES = 64 << 20  # larger traces take longer to compare than people wait for a prompt


# ---- what the library reports ----

class Report:
    """A file to which the library adds a line for each complete trace, and for each process that ends (CPROF_REPORT, preload/delivery/saved.h)."""

    def __init__(self) -> None:
        fd, self.path = tempfile.mkstemp(prefix="cprof-", suffix=".report")
        os.close(fd)

    def lines(self) -> List[Dict[str, Any]]:
        """The valid lines. Processes of the program may write to the file, too."""
        found = []
        with open_regular(self.path, LIST_MOST) as file:
            for text in lines_in(file, LINE_MOST, LIST_MOST):
                with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                    line = json.loads(text.decode("utf-8", "surrogateescape"))
                    if type(line["unreached"]) is int if "ended" in line else is_sound(line):
                        found.append(line)
        return found

    def close(self) -> None:
        """Removes the file."""
        with contextlib.suppress(OSError):
            os.unlink(self.path)


# ---- the traces of a rank ----

class Trace(NamedTuple):
    """A file, and its line in the report or in the folder's list, or None."""
    path: str
    line: Optional[Dict[str, Any]]

    @property
    def rank(self) -> int:
        """The rank; -1 if unknown."""
        return self.line["rank"] if self.line else -1

    @property
    def size(self) -> int:
        """The size in bytes; 0 if there is no file."""
        with contextlib.suppress(OSError):
            return os.stat(self.path).st_size
        return 0

    def number(self, key: str) -> float:
        """A number of its line; 0 if missing."""
        value = self.line.get(key) if self.line else None
        return value if type(value) in (int, float) else 0


def shown(path: str) -> str:
    """The path, relative if it is below the current folder."""
    relative = os.path.relpath(path)
    return printable(path if relative.startswith("..") else relative)


def _steps(traces: List[Trace]) -> Iterator[str]:
    ranges = [(int(one.number("first_step")), int(one.number("last_step"))) for one in traces if one.number("steps_ms") > 0]
    count = sum(last - first + 1 for first, last in ranges)
    if count > 0:
        listed = [str(first) if first == last else f"{first}-{last}" for first, last in ranges[:STEP_RANGES]]
        yield f"{count} step{'s' * (count > 1)} ({', '.join(listed)}{', ...' * (len(ranges) > STEP_RANGES)})"
        yield f"mean {sum(one.number('steps_ms') for one in traces) / count:.4g} ms"
    elif any(one.line for one in traces):
        yield "no whole step"


def rank_line(rank: int, traces: List[Trace]) -> str:
    """rank 0: 4 steps (1-4), mean 12.3 ms, 0 lost: run/torch_traces/rank0.5.pt.trace.json (1.2 MB)"""
    said = list(_steps(traces))
    if rank >= 0:
        said.append(f"{int(sum(one.number('lost') for one in traces)):,} lost")
    more = f" and {len(traces) - 1} more" if len(traces) > 1 else ""
    size = size_text(sum(one.size for one in traces))
    head = f"rank {rank}: {', '.join(said)}" if rank >= 0 else "a trace"
    return f"{head}: {shown(traces[0].path)}{more} ({size})"


# ---- what to type next ----

def command_name() -> str:
    """The name under which the user calls this command."""
    path = sys.argv[0]
    found = shutil.which("cprof")
    if found and os.path.exists(path) and os.path.samefile(found, path):
        return "cprof"
    return "python -m cprof" if os.path.basename(path) == "__main__.py" else shlex.quote(shown(os.path.abspath(path)))


def _folders(traces: List[Trace]) -> List[str]:
    """The arguments of the commands: the run's folder, or the folders that its name templates make."""
    folders = sorted({os.path.dirname(one.path) for one in traces}, key=natural)
    return [shown(os.path.dirname(folder) if os.path.basename(folder) == WITHIN else folder) for folder in folders]


def next_commands(traces: List[Trace], several: bool) -> List[str]:
    """Lines for a shell. No lines if they would name too many folders."""
    folders = _folders(traces)
    if len(folders) > SHOWN:
        return []
    what = {"explain": "why a step is slow", "top": "what takes the time", "open": "the timeline, in a browser"}
    if several:
        what = {"explain": what["explain"], "ranks": "who waits for whom", "open": what["open"]}
    given = " ".join(map(shlex.quote, folders))
    lines = [f"{command_name()} {name} {given}" for name in what]
    width = max(map(len, lines))
    return [f"  {line:<{width}}  # {text}" for line, text in zip(lines, what.values())]


# ---- where there is no trace ----

def _signal_name(number: int) -> str:
    """The name of a signal. Of the real-time signals only two have names."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _why_none(watch: Watch, environment: Mapping[str, str], lines: List[Dict[str, Any]], code: int) -> str:
    if not is_on(environment, "CPROF_ENABLED"):
        return "CPROF_ENABLED=0 turns recording off"
    obstacle = watch.obstacle() if lines else ""
    if obstacle:
        return printable(obstacle)
    unreached = max((line["unreached"] for line in lines if "ended" in line), default=0)
    if unreached:
        return f"the schedule records none of the program's {unreached} step{'s' * (unreached > 1)}"
    if code < 0:
        return f"{_signal_name(-code)} ended the program before one was whole"
    trigger = in_force(environment, "CPROF_TRIGGER")
    if trigger != "off":
        return f"nothing was recorded; CPROF_TRIGGER={trigger} starts recording"
    if lines:
        return "nothing was recorded" + ASK_DOCTOR
    if code:
        return f"the program ended with exit code {code}, and cprof had recorded nothing until then"
    return "no tensor, CUDA call, collective or mark was seen" + ASK_DOCTOR


# ---- all of it ----

def _ranks(traces: List[Trace]) -> List[str]:
    """The first lines of `cprof ranks`."""
    if sum(one.size for one in traces) > RANKS_READ_BYTES:
        return []
    from cprof.tool.ranks import compared
    with contextlib.suppress(Problem):  # such as no steps
        found = compared([one.path for one in traces], progress=False)
        if found.worst:
            return [f"cprof: {printable(text)}" for text in found.answer()]
    return []


def _files(paths: List[str], what: str) -> List[str]:
    """A line about files of windows, or nothing without files."""
    if not paths:
        return []
    more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
    return [f"cprof: {what}: {shown(paths[0])} ({size_text(sum(Trace(path, None).size for path in paths))}){more}"]


def _open_windows(paths: List[str]) -> List[str]:
    """Lines about open files: those whose writer is dead, and those of programs that still run, started by this program or of another run."""
    written = being_written(paths)
    cut = [path for path in paths if path not in written]
    return (_files(cut, "cut off, opens as it is, and cprof recover gives it its name") +
            _files(sorted(written), "still being written"))


def _flights(paths: List[str]) -> List[str]:
    """Makes ordinary traces of the files that killed processes left, and returns a line about them, or nothing without files."""
    from cprof.tool.recover import make
    written = being_written(paths, watch=False)
    made, left, size = [], [], 0
    for path in paths:
        size += Trace(path, None).size
        if path in written:
            continue
        with contextlib.suppress(Problem, OSError):
            if size <= FLIGHTS_READ_BYTES:
                made.append(make(path).path)
                continue
        left.append(path)
    return (_files(made, "cut off, and its last steps are there as a trace") + _files(left, "cut off, and the flight recorder's file has its last steps") +
            _files(sorted(written), "still being written"))


def _gone(count: int, uploads: List[str]) -> List[str]:
    if not count:
        return []
    more = f" and {len(uploads) - 1} more" if len(uploads) > 1 else ""
    where = f"; uploads: {printable(uploads[0])}{more}" if uploads else ""
    return [f"cprof: {count} trace{'s were' if count > 1 else ' was'} written and {'are' if count > 1 else 'is'} not here any more{where}"]


def tell_end(watch: Watch, environment: Mapping[str, str], lines: List[Dict[str, Any]], code: int) -> None:
    """Prints the lines. code: the program's exit code, negative after a signal. lines: those of the report."""
    state, flights = watch.state(), watch.flights()
    about = {line["path"]: line for line in itertools.chain(watch.saved(), lines) if "path" in line}
    closed = sorted(set(state.closed) | {path for path in about if os.path.exists(path)}, key=natural)
    traces = [Trace(path, about.get(path)) for path in closed]
    ranks = collections.defaultdict(list)
    for one in traces:
        ranks[one.rank].append(one)
    several = len(ranks) > 1
    said = (_ranks(traces) if several else []) + _gone(watch.gone(), watch.uploads()) + _open_windows(state.open)
    said += _flights(flights)
    if not traces and not said:
        note(f"no trace was written: {_why_none(watch, environment, lines, code)}")
    commands = next_commands(traces, several) if traces else []
    if len(flights) > 1:
        commands.append(f"  {command_name()} hang {shlex.quote(os.path.dirname(flights[0]))}  # which rank the others waited for")
    room = MOST_LINES - len(said) - len(commands)
    shown_ranks = sorted(ranks)[:room if len(ranks) <= room else room - 1]
    for rank in shown_ranks:
        lost = any(one.number("lost") for one in ranks[rank])
        tell("cprof: " + rank_line(rank, ranks[rank]), WARNING if lost else "")
    if len(ranks) > len(shown_ranks):
        note(f"and {len(ranks) - len(shown_ranks):,} more ranks")
    for text in said:
        tell(text)
    for text in commands:
        tell(text, BOLD)
