# SPDX-License-Identifier: Apache-2.0
"""What the flight recorder left of each rank: where it stands, its transfers, and what its threads do."""

import glob
import os
import re
import socket
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

from cprof._untrusted import read_text
from cprof.tool import Problem
from cprof.tool.collectives import STEP, base_of, ns_of, rank_of, world_of
from cprof.tool.reader import open_trace
from cprof.tool.steps import on_our_row

FOLDER, WITHIN = "flight", "torch_traces"
LIVE = re.compile(r"rank(\d{1,6})\.flight$")
SAVED = re.compile(r"rank(\d{1,6})\.-?\d+(-\d+)?\.pt\.trace\.json(\.gz)?$")
HANGS = ("has not ended for", "nothing runs")  # in the reason of a recording that a hang saved
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
    ranks: str             # as in the trace; "" if unknown

    @property
    def text(self) -> str:
        amount = f" of {self.elements:,} {self.dtype}".rstrip() if self.elements is not None else ""
        return self.name + amount


class State:
    """What one rank did last."""

    def __init__(self, path: str, order: int = 0) -> None:
        self.path, self.live = path, LIVE.search(path) is not None
        self.groups: Dict[Group, Dict[int, Transfer]] = {}  # by number
        self.unknown: List[Transfer] = []                   # open transfers whose group or number is unknown
        self.step: Optional[int] = None                     # the last one that ended
        self.pid, self._last = 0, 0
        with open_trace(path) as trace:
            trace.past_large = True
            base = base_of(trace.head())
            for block in trace.blocks():
                for event in block:
                    self._see(event, base)
            meta = trace.metadata
        self.rank, self.world, self.host = rank_of(meta, path, order), world_of(meta), str(meta.get("host_name") or "")
        told = meta.get("cprof")
        flight = told.get("flight") if type(told) is dict else None
        if type(flight) is not dict:
            raise Problem("is no file of the flight recorder", path)
        self.reason = str(flight.get("reason") or "")
        self.threads = [thread for thread in flight.get("threads") or () if type(thread) is dict]
        self.at = base + ns_of(flight["threads_at"]) if "threads_at" in flight else self._last
        if self.threads and not self.pid:
            self.pid = self.threads[0].get("tid") or 0

    def _see(self, event: Dict[str, Any], base: int) -> None:
        name = event.get("name")
        if event.get("ph") != "X" or type(name) is not str or "ts" not in event or "dur" not in event:
            return
        start = base + ns_of(event["ts"])
        end = start + ns_of(event["dur"])
        self._last = max(self._last, end)
        args = event.get("args")
        args = args if type(args) is dict else {}
        if type(event.get("pid")) is int:
            self.pid = event["pid"]
        step = STEP.match(name)
        if step and on_our_row(event):
            self.step = max(int(step[1]), -1 if self.step is None else self.step)
        if "Collective name" in args:
            self._transfer(args, start, end)

    def _transfer(self, args: Dict[str, Any], start: int, end: int) -> None:
        elements, size, number = (value if type(value) is int else None for value in (args.get("In msg nelems"), args.get("Group size"), args.get("Seq")))
        size_bytes = args.get("bytes")
        one = Transfer(str(args["Collective name"]), start, None if args.get("finished") == "false" else end, elements, str(args.get("dtype") or ""),
                       size_bytes if type(size_bytes) is int else None, str(args.get("Process Group Ranks") or ""))
        if size is not None and number is not None and not ("Dst Rank" in args or "Src Rank" in args):
            self.groups.setdefault((str(args.get("Process Group Name") or ""), size), {})[number] = one
        elif one.end is None:
            self.unknown.append(one)

    # ---- what it does ----

    @property
    def hangs(self) -> bool:
        return any(words in self.reason for words in HANGS)

    @property
    def ended(self) -> bool:
        """Whether the process saved itself because it ended."""
        return self.reason.startswith(("exit code", "SIG", "exception"))

    def waits(self) -> Dict[Group, int]:
        """The number of the transfer that has not ended, by group: the first one of each."""
        return {group: min(n for n, one in by_number.items() if one.end is None) for group, by_number in self.groups.items()
                if any(one.end is None for one in by_number.values())}

    def entered(self, group: Group) -> int:
        """The last number that it entered; -1: none is known."""
        return max(self.groups.get(group, {}), default=-1)

    def process(self) -> str:
        """What the kernel says of the process, if it is one of this machine: "stopped", "gone", "" if there is nothing to say."""
        if not self.live or self.host != socket.gethostname() or not self.pid:
            return ""
        try:
            state = read_text(f"/proc/{self.pid}/stat").rpartition(") ")[2][:1]
        except OSError:
            return "gone"
        return "stopped" if state in ("T", "t") else "gone" if state == "Z" else ""

    def main(self) -> Optional[Dict[str, Any]]:
        """The main thread, if it is known what it did."""
        return next((thread for thread in self.threads if thread.get("tid") == self.pid), None)

    def line(self) -> str:
        """The line of the user's code in which the main thread is; "" if unknown."""
        frames = frames_of(self.main() or {})
        return next((frame for frame in frames if not any(part in frame for part in LIBRARIES)), frames[0] if frames else "")


def frames_of(thread: Dict[str, Any]) -> List[str]:
    """The thread's Python frames, the innermost first."""
    frames = thread.get("python")
    return [frame for frame in frames if type(frame) is str] if type(frames) is list else []


# ---- finding the files ----

def _newest_folder() -> str:
    """The folder `flight` below the current one, at most three levels down, in which a file was written last."""
    folders = [path for stars in range(4) for path in glob.glob(os.path.join(*["*"] * stars, FOLDER)) if os.path.isdir(path)]
    found = [(max(os.stat(path).st_mtime for path in inside), folder)
             for folder in folders for inside in [glob.glob(os.path.join(glob.escape(folder), "rank*"))] if inside]
    if not found:
        raise Problem(f"no run was named, and no folder below this one holds files of the flight recorder ({FOLDER}/rank0.flight)")
    return max(found)[1]


def _files_in(folder: str) -> List[str]:
    """A file for each rank: the one that its process still writes or was killed over, else its newest saved recording."""
    for inside in (folder, os.path.join(folder, FOLDER), os.path.join(folder, WITHIN, FOLDER)):
        paths = sorted(glob.glob(os.path.join(glob.escape(inside), "rank*")), key=lambda path: os.stat(path).st_mtime)
        found: Dict[int, str] = {}
        for pattern in (SAVED, LIVE):
            for path in paths:
                match = pattern.search(path)
                if match and os.path.isfile(path):
                    found[int(match[1])] = path
        if found:
            return [found[rank] for rank in sorted(found)]
    raise Problem(f"holds no files of the flight recorder ({FOLDER}/rank0.flight); CPROF_FLIGHT=1 turns it on", folder)


def _reason_of(state: State) -> str:
    """Why this rank saved a recording of the same step."""
    pattern = f"{glob.escape(os.path.dirname(state.path) or '.')}/rank{state.rank}.{(-1 if state.step is None else state.step) + 1}*.pt.trace.json*"
    for path in sorted(glob.glob(pattern), key=lambda path: os.stat(path).st_mtime, reverse=True):
        if SAVED.search(path):
            return State(path).reason
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


def states_of(given: List[str]) -> List[State]:
    """The last state of each rank, by files or folders; of the newest run below the current folder without any."""
    paths = [found for path in given or [_newest_folder()] for found in (_files_in(path) if os.path.isdir(path) else [path])]
    by_rank: Dict[int, State] = {}
    for order, path in enumerate(paths):
        state = _read(path, order)
        if state.live and not state.reason:
            state.reason = _reason_of(state)
        before = by_rank.get(state.rank)
        if before is None or state.at >= before.at:
            by_rank[state.rank] = state
    return [by_rank[rank] for rank in sorted(by_rank)]
