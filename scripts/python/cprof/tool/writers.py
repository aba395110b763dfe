# SPDX-License-Identifier: Apache-2.0
"""Finds out whether an open file is still being written. Its name has the pid as the writer itself sees it, but neither the container nor
the host, so a missing process proves nothing. Files without a visible writer are therefore watched for a while: the writer changes its
file with every flush (writer/writer.c), even if the program is idle. A program that is stopped elsewhere (SIGSTOP, a paused container)
cannot be detected."""

import os
import re
import time
from typing import Collection, Dict, Iterable, List, Optional, Tuple

from cprof._untrusted import open_regular, read_text
from cprof.tool.watch import PART

FLIGHT = ".flight"         # ending of a flight recorder's file
FLIGHT_PID = re.compile(rb'"flight": \{"reason": "(?:[^"\\]|\\.)*", "pid": (\d+)')  # in its tail (writer/window/trace_text.c)
TAIL = 1 << 20
LOOK_S, POLL_S = 2.0, 0.1  # eight flushes, 250 ms apart
STILL_S = 10.0             # a process of another container that writes changes its file much sooner
OLD_S = 3600.0             # files changed before that are not watched: no two machines' clocks differ that much

CLOCK_S = 2.0              # largest difference between the clocks of a file system and of processes on one machine
BLOCKED_LEAST = 48         # of 64 signals: a thread of cprof's blocks them all

Stamp = Optional[Tuple[int, int, int]]


def stamp(path: str) -> Stamp:
    """Values that change with every write; None if the file cannot be read."""
    try:
        with open_regular(path) as file:  # opened, because NFS asks its server only then
            info = os.fstat(file.fileno())
    except OSError:
        return None
    return info.st_ino, info.st_size, info.st_mtime_ns


def being_written(paths: Iterable[str], watch: bool = True) -> Dict[str, str]:
    """Those of the open files that are still being written: {path: by whom, in words}. Takes LOOK_S if the writer is not visible here; without
    `watch`, such a file counts as left."""
    pids = {path: _pid_of(path) for path in paths}
    pids = {path: pid for path, pid in pids.items() if pid}
    here = _writers_here(set(pids.values()))
    found = {path: f"process {process} is still writing it" for path, pid in pids.items() for process in _older(here.get(pid, []), path)[:1]}
    changed = _changing([path for path in pids if path not in found]) if watch else ()
    found.update((path, "is still written, by a process that cannot be seen from here (of another container or host)") for path in changed)
    return found


def _pid_of(path: str) -> int:
    """The pid of the file's writer as the writer itself sees it; 0: unknown."""
    match = PART.fullmatch(path)
    if match:
        return int(match["pid"] or match["prestep"])
    if not path.endswith(FLIGHT):
        return 0
    try:
        with open_regular(path) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - TAIL))
            found = FLIGHT_PID.findall(file.read(TAIL))
    except OSError:
        return 0
    return int(found[-1]) if found else 0


def writer_of(path: str, pid: int) -> Optional[int]:
    """The process that keeps changing this file, which it does while it lives, and sees itself as `pid`. 0: it cannot be seen from here. None:
    there is none."""
    here = _own_pid(str(pid)) == pid and _has_writer(str(pid))
    seen = _older([pid], path) if here else []
    seen = seen or _older(_writers_here({pid}).get(pid, []), path)
    changed = stamp(path)
    return seen[0] if seen else 0 if changed and abs(time.time() - changed[2] / 1e9) < LOOK_S else None


def _older(processes: List[int], path: str) -> List[int]:
    """Those of the processes that began before the last change of the file: pids are reused, in containers soon. Several containers have
    processes with the same pid, so one of a container must have changed the file lately, or be stopped."""
    found = stamp(path)
    if found is None:
        return processes
    changed = found[2] / 1e9
    still = abs(time.time() - changed) > STILL_S
    return [pid for pid in processes if _started(pid) <= changed + CLOCK_S and not (still and _own_pid(str(pid)) != pid and not is_stopped(pid))]


def is_stopped(pid: int) -> bool:
    """Whether a process is stopped, by SIGSTOP or a debugger."""
    try:
        return read_text(f"/proc/{pid}/stat").rpartition(") ")[2][:1] in ("T", "t")
    except OSError:
        return False


def _changing(paths: Iterable[str]) -> Collection[str]:
    """The files that change or disappear while they are watched."""
    before = {path: stamp(path) for path in paths}
    young = {path: one for path, one in before.items() if one and time.time() - one[2] / 1e9 < OLD_S}
    changed: Dict[str, None] = {}
    end = time.monotonic() + LOOK_S
    while len(changed) < len(young) and time.monotonic() < end:
        time.sleep(POLL_S)
        changed.update((path, None) for path, one in young.items() if path not in changed and stamp(path) != one)
    return changed


def _writers_here(wanted: Collection[int]) -> Dict[int, List[int]]:
    """The processes under cprof that see one of these pids as their own, with their pids here. A host sees its containers' processes,
    but not the other way round."""
    found: Dict[int, List[int]] = {}
    for pid in filter(str.isdigit, os.listdir("/proc") if wanted else ()):
        own = _own_pid(pid)
        if own in wanted and _has_writer(pid):
            found.setdefault(own, []).append(int(pid))
    return found


def _own_pid(pid: str) -> int:
    """The result of getpid() in that process; 0 if it is gone."""
    try:
        inner = re.search(r"^NSpid:.*?(\d+)$", read_text(f"/proc/{pid}/status"), re.M)
        return int(inner[1]) if inner else int(pid)
    except OSError:
        return 0


def _started(pid: int) -> float:
    """When a process began, in seconds since 1970; 0 if unknown."""
    try:
        ticks = int(read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[19])
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


def _has_writer(pid: str) -> bool:
    """Whether this process has a thread of cprof's. A program may itself be called cprof, and so may its threads: the first thread does not
    count, nor one that accepts signals (as in preload/settings/identity.c)."""
    try:
        return any(_is_writer(f"/proc/{pid}/task/{task}") for task in os.listdir(f"/proc/{pid}/task") if task != pid)
    except OSError:
        return False


def _is_writer(task: str) -> bool:
    try:
        status = read_text(f"{task}/status")
    except OSError:
        return False
    blocked = re.search(r"^SigBlk:\s*(\w+)$", status, re.M)
    return status.startswith("Name:\tcprof\n") and blocked is not None and bin(int(blocked[1], 16)).count("1") > BLOCKED_LEAST
