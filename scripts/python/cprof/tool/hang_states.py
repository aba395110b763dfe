# SPDX-License-Identifier: Apache-2.0
"""What the flight recorder left of each rank: where it stands, its transfers, and what its threads do."""

import functools
import glob
import os
import re
import socket
import stat
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from cprof._untrusted import printable
from cprof.tool import Problem, said
from cprof.tool.collectives import STEP, base_of, ns_of, rank_of, world_of
from cprof.tool.reader import open_trace
from cprof.tool.steps import on_our_row
from cprof.tool.writers import is_stopped, writer_of

FOLDER, WITHIN = "flight", "torch_traces"
LIVE = re.compile(r"rank(\d{1,6})\.flight$")
SAVED = re.compile(r"rank(\d{1,6})\.-?\d+(-\d+)?\.pt\.trace\.json(\.gz)?$")
HANGS = ("has not ended for", "nothing runs")  # in the reason of a recording that a hang saved
FAILS = ("reported an error", " returned ")    # in that of one that a failed transfer saved
BETWEEN_TWO = ("send", "recv", "isend", "irecv")  # transfers between two ranks, which are numbered apart
NUMBERS_KEPT = 1000        # transfers of a group
WORLD_MOST = 1 << 17
START_NS = 60_000_000_000  # the most between the starts of the ranks of a run
BEHIND_NS = 5_000_000_000  # a file that ends so long before the others' is not written any more
LIBRARIES = ("site-packages/", "dist-packages/", "/lib/python3", "<frozen ")  # in the paths of code that is not the user's

Group = Tuple[str, int]  # its name on all ranks and its size; ("", size of the world): the group of all ranks, without a name


class Transfer(NamedTuple):
    """A transfer as one rank entered it. Times are nanoseconds since the epoch."""
    name: str
    start: int
    end: Optional[int]     # None: it has not ended
    elements: Optional[int]
    dtype: str
    size_bytes: Optional[int]

    def moved(self, by: int) -> "Transfer":
        return self._replace(start=self.start + by, end=None if self.end is None else self.end + by)

    @property
    def text(self) -> str:
        amount = f" of {self.elements:,} {self.dtype}".rstrip() if self.elements is not None else ""
        return self.name + amount


class State:
    """What one rank did last. All texts are safe to print."""

    def __init__(self, path: str, order: int = 0) -> None:
        self.path, self.live = path, LIVE.search(path) is not None
        self.groups: Dict[Group, Dict[int, Transfer]] = {}  # by number; the newest ones
        self.unknown: List[Transfer] = []                   # open transfers between two ranks, or with an unknown group
        self.step: Optional[int] = None                     # the last one that ended
        self._last = 0
        with open_trace(path) as trace:
            trace.past_large = True
            for block in trace.blocks():
                for event in block:
                    self._see(event)
            meta = trace.metadata
        base = base_of(meta)
        self.rank, self.world, self.host = rank_of(meta, path, order), min(world_of(meta), WORLD_MOST), printable(meta.get("host_name") or "")
        told = meta.get("cprof")
        flight = told.get("flight") if type(told) is dict else None
        if type(flight) is not dict:
            raise Problem("is no file of the flight recorder", path)
        self.reason = printable(flight.get("reason") or "")
        threads = flight.get("threads")
        self.threads = [_safe(thread) for thread in threads if type(thread) is dict] if type(threads) is list else []
        self.began = base + ns_of(meta.get("recorded_from"))  # when the process began to record
        self.at = base + ns_of(flight["threads_at"]) if "threads_at" in flight else base + self._last
        self.groups = {group: {n: one.moved(base) for n, one in by_number.items()} for group, by_number in self.groups.items()}
        pid = flight.get("pid")
        self.pid: int = pid if type(pid) is int else 0  # as the process itself sees it; 0: unknown
        self._ended = {group: max(by_number) for group, by_number in self.groups.items()}
        self._waits = {group: min(n for n, one in by_number.items() if one.end is None) for group, by_number in self.groups.items()
                       if any(one.end is None for one in by_number.values())}

    def _see(self, event: Dict[str, Any]) -> None:
        name = event.get("name")
        if event.get("ph") != "X" or type(name) is not str or "ts" not in event or "dur" not in event:
            return
        start = ns_of(event["ts"])
        end = start + ns_of(event["dur"])
        self._last = max(self._last, end)
        args = event.get("args")
        args = args if type(args) is dict else {}
        step = STEP.match(name)
        if step and on_our_row(event):
            self.step = max(int(step[1]), -1 if self.step is None else self.step)
        if "Collective name" in args:
            self._transfer(args, start, end)

    def _transfer(self, args: Dict[str, Any], start: int, end: int) -> None:
        elements, size, number = (value if type(value) is int else None for value in (args.get("In msg nelems"), args.get("Group size"), args.get("Seq")))
        size_bytes = args.get("bytes")
        one = Transfer(printable(args["Collective name"]), start, None if args.get("finished") == "false" else end, elements,
                       printable(args.get("dtype") or ""), size_bytes if type(size_bytes) is int else None)
        if size is not None and number is not None and not one.name.lower().startswith(BETWEEN_TWO):
            by_number = self.groups.setdefault((printable(args.get("Process Group Name") or ""), size), {})
            by_number[number] = one
            if len(by_number) > 2 * NUMBERS_KEPT:
                for n in sorted(by_number)[:-NUMBERS_KEPT]:
                    if by_number[n].end is not None:
                        del by_number[n]
        elif one.end is None:
            self.unknown.append(one)

    # ---- what it does ----

    @property
    def hangs(self) -> bool:
        return any(words in self.reason for words in HANGS)

    @property
    def ended(self) -> bool:
        """Whether the process saved itself because it ended."""
        return self.reason.startswith(("exit code", "signal", "SIG", "exception"))

    @property
    def failed(self) -> bool:
        """Whether the process saved itself because a transfer failed."""
        return any(words in self.reason for words in FAILS)

    def waits(self) -> Dict[Group, int]:
        """The number of the transfer that has not ended, by group: the first one of each."""
        return self._waits

    def entered(self, group: Group) -> int:
        """The last number that it entered; -1: none is known."""
        return self._ended.get(group, -1)

    @functools.cached_property
    def process(self) -> str:
        """What the kernel says of the process, if it is one of this machine: "stopped", "gone", "" if there is nothing to say."""
        if not self.live or self.host != socket.gethostname() or self.pid <= 0:
            return ""
        pid = writer_of(self.path, self.pid)
        if pid is None:
            return "gone"
        return "stopped" if is_stopped(pid) else ""

    def main(self) -> Optional[Dict[str, Any]]:
        """The main thread, if it is known what it did."""
        return next((thread for thread in self.threads if thread.get("tid") == self.pid), None)

    def line(self) -> str:
        """The line of the user's code in which the main thread is; "" if unknown."""
        frames = frames_of(self.main() or {})
        return next((frame for frame in frames if not any(part in frame for part in LIBRARIES)), frames[0] if frames else "")


def _safe(value: Any) -> Any:
    """A JSON value whose texts are safe to print."""
    if type(value) is str:
        return printable(value)
    if type(value) is list:
        return [_safe(one) for one in value]
    return {printable(key): _safe(one) for key, one in value.items()} if type(value) is dict else value


def frames_of(thread: Dict[str, Any]) -> List[str]:
    """The thread's Python frames, the innermost first."""
    frames = thread.get("python")
    return [frame for frame in frames if type(frame) is str] if type(frames) is list else []


# ---- finding the files ----

def _newest_folder() -> str:
    """The folder `flight` below the current one, at most three levels down, in which a file was written last."""
    folders = [path for stars in range(4) for path in glob.glob(os.path.join(*["*"] * stars, FOLDER)) if os.path.isdir(path)]
    found = [(max(map(_written, inside)), folder)
             for folder in folders for inside in [glob.glob(os.path.join(glob.escape(folder), "rank*"))] if inside]
    if not found:
        raise Problem(f"no run was named, and no folder below this one holds files of the flight recorder ({FOLDER}/rank0.flight)")
    return max(found)[1]


def _written(path: str) -> float:
    """When the file was written; 0: it is gone, or no regular file."""
    try:
        info = os.lstat(path)
    except OSError:
        return 0
    return info.st_mtime if stat.S_ISREG(info.st_mode) else 0


def _files_in(folder: str) -> List[str]:
    """A file for each rank: the one that its process still writes or was killed over, else its newest saved recording."""
    for inside in (folder, os.path.join(folder, FOLDER), os.path.join(folder, WITHIN, FOLDER)):
        paths = sorted(filter(_written, glob.glob(os.path.join(glob.escape(inside), "rank*"))), key=_written)
        found: Dict[int, str] = {}
        for pattern in (SAVED, LIVE):
            for path in paths:
                match = pattern.search(path)
                if match:
                    found[int(match[1])] = path
        if found:
            return [found[rank] for rank in sorted(found)]
    raise Problem(f"holds no files of the flight recorder ({FOLDER}/rank0.flight); CPROF_FLIGHT=1 turns it on", folder)


def _reason_of(state: State) -> str:
    """Why the process has saved a recording of the same step."""
    step = (-1 if state.step is None else state.step) + 1
    paths = glob.glob(os.path.join(glob.escape(os.path.dirname(state.path)), f"rank{state.rank}.{step}[.-]*"))
    for path in sorted(filter(_written, paths), key=_written, reverse=True):
        try:
            saved = State(path) if SAVED.search(path) else None
        except (Problem, OSError):
            continue
        if saved and saved.pid == state.pid and saved.began == state.began:
            return saved.reason
    return ""


def _read(path: str, order: int) -> State:
    """Reads a file that its process may be writing: then another look finds it whole."""
    for left in (2, 1, 0):
        try:
            return State(path, order)
        except Problem:
            if not left:
                raise
        time.sleep(0.1)
    raise AssertionError


def states_of(given: List[str]) -> Tuple[List[State], List[str]]:
    """The last state of each rank, by files or folders; of the newest run below the current folder without any. And lines about files that
    were left out: those that cannot be read, and those of earlier runs."""
    paths = [found for path in given or [_newest_folder()] for found in (_files_in(path) if os.path.isdir(path) else [path])]
    by_rank: Dict[int, State] = {}
    left_out: List[str] = []
    for order, path in enumerate(paths):
        try:
            state = _read(path, order)
        except (Problem, OSError) as error:
            if len(paths) == 1:
                raise
            left_out.append(said(error))
            continue
        if state.live and not state.reason:
            state.reason = _reason_of(state)
        before = by_rank.get(state.rank)
        if before is None or state.at >= before.at:
            by_rank[state.rank] = state
    newest = max(by_rank.values(), key=lambda state: state.began, default=None)
    for rank, state in list(by_rank.items()):
        more_ranks = 1 < newest.world <= rank and state.began < newest.began  # it was started again with fewer
        if state.at < newest.began - START_NS or more_ranks:
            left_out.append(f"{state.path}: is of an earlier run")
            del by_rank[rank]
    if not by_rank:
        raise Problem(left_out[0] if left_out else "no file can be read")
    return [by_rank[rank] for rank in sorted(by_rank)], left_out
