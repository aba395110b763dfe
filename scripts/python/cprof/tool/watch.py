# SPDX-License-Identifier: Apache-2.0
"""The traces that a running program leaves: which windows are open (`….part`) and which are closed."""

import contextlib
import errno
import glob
import os
import re
import stat
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Tuple

from cprof._saved import LIST_NAME, lines_of
from cprof.tool.settings import in_force, is_on

# PATH.PID.FIRST STEP.part for a window, FOLDER/prestep.PID.part for the time before the first step mark (writer/base/path.h).
PART = re.compile(r"(?:(?P<path>.*)\.(?P<pid>\d+)\.(?P<step>-?\d+)|(?:.*/)?prestep\.(?P<prestep>\d+)(?:-\d+)?)\.part", re.S)
SUMMARY = re.compile(r"\.summary(\.\d+~)?\Z")  # writer/sums/summary_file.c
RUN_NAME_MOST = 160                        # bytes; longer ones are cut (preload/settings/run_names.h)
BLANKS = " \t\r\n"


class State(NamedTuple):
    """Files that are new or changed since the watch began."""
    open: List[str]
    closed: List[str]


def _run_name(environment: Mapping[str, str]) -> str:
    """The run name in folder names; "" if the library makes one up."""
    name = re.sub(r"[\x00-\x1f\x7f/]", "_", environment.get("CPROF_RUN_NAME", "").strip(BLANKS))
    return "_" * len(name) if name in (".", "..") else name if len(os.fsencode(name)) <= RUN_NAME_MOST else ""


def _pattern(template: str, run_name: str) -> str:
    """A glob for all names that the template may give."""
    def piece(text: str) -> str:
        if text in ("{{", "}}"):
            return text[0]
        if text[:1] != "{":
            return glob.escape(text)
        return glob.escape(run_name) if text == "{run_name}" and run_name else "*"
    return "".join(map(piece, re.split(r"(\{\{|\}\}|\{[^{}]*\})", template)))


def _templates(environment: Mapping[str, str]) -> Tuple[str, str]:
    """The templates of the folder and of the names in it."""
    folder = in_force(environment, "CPROF_TENSORBOARD_DIR")
    if folder:  # the time comes before the ending
        return folder, (in_force(environment, "CPROF_TENSORBOARD_WORKER") or "{worker}") + ".{time}.pt.trace.json"
    return in_force(environment, "CPROF_FOLDER"), in_force(environment, "CPROF_FILENAME").lstrip("/")


def _is_gzip(environment: Mapping[str, str]) -> bool:
    """Whether traces are compressed even if their names lack .gz."""
    remote = in_force(environment, "CPROF_REMOTE_URL") and in_force(environment, "CPROF_REMOTE_FILE_NAME")
    return is_on(environment, "CPROF_USE_GZIP") or remote.lower().endswith(".gz")


class Watch:
    """Watches the folders into which an environment's settings put traces. Files that are already there do not count."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        run_name = _run_name(environment)
        folder, name = (_pattern(template, run_name) for template in _templates(environment))
        if _is_gzip(environment) and not name.lower().endswith(".gz"):
            name += ".gz"
        # A name that is taken gets a number, and a child's its pid, before the ending.
        stem, ending = re.fullmatch(r"(.*?)((?:(?:\.pt\.trace)?\.json)?(?:\.gz)?)", name, re.IGNORECASE | re.S).groups()
        self._closed = os.path.join(glob.escape(os.getcwd()), folder, stem.rstrip("*") + "*" + ending)
        self._open = self._closed + ".*.part"
        self._prestep = os.path.join(os.path.dirname(self._closed), "prestep.*.part")
        self._flight = os.path.join(os.path.dirname(self._closed), "flight", "rank*.flight")
        self._before, self._flights_before = self._look(), self._stamps([self._flight])
        self._lists_before = self._lists()
        self._folder = _templates(environment)[0].replace("{run_name}", run_name) if run_name else _templates(environment)[0]
        self._may_refuse = bool(run_name) and not is_on(environment, "CPROF_OVERWRITE")

    def obstacle(self) -> str:
        """Why the library may have refused to record: earlier traces, or a folder that cannot be written. "" if nothing is in the way."""
        earlier = [path for path in self._before if not PART.fullmatch(path)]
        if earlier and self._may_refuse:
            return f"{os.path.relpath(os.path.dirname(earlier[0]))} holds the traces of an earlier run; use --overwrite or another --run-name"
        known = self._folder.partition("{")[0]
        place = os.path.join(os.getcwd(), known if known == self._folder else os.path.dirname(known))
        while not os.path.lexists(place):
            place = os.path.dirname(place)
        if not os.path.isdir(place):
            return f"{place} is not a folder"
        return "" if os.access(place, os.W_OK | os.X_OK) else f"{place}: {os.strerror(errno.EACCES)}"

    def _look(self) -> Dict[str, Tuple[int, int]]:
        return self._stamps([self._open, self._prestep, self._closed])

    @staticmethod
    def _stamps(patterns: List[str]) -> Dict[str, Tuple[int, int]]:
        """The inode and the time of regular files."""
        found = {}
        for path in [path for pattern in patterns for path in glob.glob(pattern)]:
            try:
                info = os.stat(path)
            except OSError:
                continue
            if stat.S_ISREG(info.st_mode) and not SUMMARY.search(path) and os.path.basename(path) != LIST_NAME:
                found[path] = (info.st_ino, info.st_mtime_ns)
        return found

    def _lists(self) -> Dict[str, Tuple[int, int]]:
        """The inode and the size of each folder's list of traces."""
        found = {}
        for folder in glob.glob(os.path.dirname(self._closed)):
            with contextlib.suppress(OSError):
                info = os.stat(os.path.join(folder, LIST_NAME))
                found[folder] = info.st_ino, info.st_size
        return found

    def saved(self) -> Iterator[Dict[str, Any]]:
        """The lines that were added to the folders' lists of traces (_saved.py). Ignores unreadable lists, since folders that fit may be another user's."""
        for folder, (inode, size) in self._lists().items():
            before = self._lists_before.get(folder, (inode, 0))
            start = before[1] if before[0] == inode and before[1] <= size else 0
            with contextlib.suppress(OSError):
                yield from lines_of(folder, start)

    def gone(self) -> int:
        """How many traces were written and are not there any more: moved by a command, removed after an upload, or replaced by later
        ones."""
        new = [line["path"] for line in self.saved()]
        return len(new) - sum(os.path.lexists(path) for path in set(new))

    def uploads(self) -> List[str]:
        """The remote names of the traces that were written and are not there any more."""
        return [line["remote"] for line in self.saved() if type(line.get("remote")) is str and not os.path.lexists(line["path"])]

    def flights(self) -> List[str]:
        """Files of flight recorders that did not end. Those of earlier runs, which get another name, do not count."""
        known = set(self._flights_before.values())
        return sorted((path for path, what in self._stamps([self._flight]).items() if what not in known and not os.path.islink(path)), key=natural)

    def state(self) -> State:
        """The open and the closed files now."""
        found = [path for path, what in self._look().items() if self._before.get(path) != what]
        return State(sorted(path for path in found if PART.fullmatch(path)),
                     sorted((path for path in found if not PART.fullmatch(path)), key=natural))


def natural(path: str) -> List:
    """A sort key that puts rank0.12 after rank0.7."""
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in re.split(r"(\d+)", path)]


def size_text(n: float) -> str:
    """1.3 MB"""
    for unit in ("bytes", "kB", "MB", "GB"):
        if n < 1000 or unit == "GB":
            return f"{n:.0f} {unit}" if unit == "bytes" else f"{n:.1f} {unit}"
        n /= 1000
    return ""
