# SPDX-License-Identifier: Apache-2.0
"""Whether an open file is still written. Its name has the writer's pid as that process itself sees it, but says neither of which
container nor of which host: that no such process is here proves nothing. So those files are looked at for a while, too: what
writes a file changes it with every flush (writer/writer.c), also when the program does nothing. Not seen from here is a program
that stands still (SIGSTOP, a paused container) elsewhere."""

import os
import re
import time
from typing import Collection, Dict, Iterable, List, Optional, Tuple

from cprof._untrusted import open_regular, read_text
from cprof.tool.watch import PART

LOOK_S, POLL_S = 2.0, 0.1  # eight flushes, 250 ms apart
OLD_S = 3600.0             # what was changed before that need not be looked at: no two machines' clocks are that far apart

CLOCK_S = 2.0              # what times of a file system and of processes are apart at most on one machine
BLOCKED_LEAST = 48         # of 64 signals that a thread of cprof's takes none of

Stamp = Optional[Tuple[int, int, int]]


def stamp(path: str) -> Stamp:
    """What every write changes; None: the file cannot be read."""
    try:
        with open_regular(path) as file:  # opened, because NFS asks its server only then
            info = os.fstat(file.fileno())
    except OSError:
        return None
    return info.st_ino, info.st_size, info.st_mtime_ns


def being_written(paths: Iterable[str]) -> Dict[str, str]:
    """Those of these open files that are still written: {path: by whom, in words}. Takes LOOK_S where no process here is the writer."""
    pids = {path: int(match["pid"] or match["prestep"]) for path in paths for match in [PART.fullmatch(path)] if match}
    here = _writers_here(set(pids.values()))
    found = {path: f"process {process} is still writing it" for path, pid in pids.items() for process in _older(here.get(pid, []), path)[:1]}
    changed = _changing([path for path in pids if path not in found])
    found.update((path, "is still written, by a process that cannot be seen from here (of another container or host)") for path in changed)
    return found


def _older(processes: List[int], path: str) -> List[int]:
    """Those of these processes that are no younger than the last change of the file: pids are used again, in containers soon."""
    found = stamp(path)
    return [pid for pid in processes if found is None or _started(pid) <= found[2] / 1e9 + CLOCK_S]


def _changing(paths: Iterable[str]) -> Collection[str]:
    """Those that change, or go, while they are looked at."""
    before = {path: stamp(path) for path in paths}
    young = {path: one for path, one in before.items() if one and time.time() - one[2] / 1e9 < OLD_S}
    changed: Dict[str, None] = {}
    end = time.monotonic() + LOOK_S
    while len(changed) < len(young) and time.monotonic() < end:
        time.sleep(POLL_S)
        changed.update((path, None) for path, one in young.items() if path not in changed and stamp(path) != one)
    return changed


def _writers_here(wanted: Collection[int]) -> Dict[int, List[int]]:
    """The processes under cprof that have one of these pids in their own eyes, with the pids that they have in ours. A container's
    are seen from its host, not the other way round."""
    found: Dict[int, List[int]] = {}
    for pid in filter(str.isdigit, os.listdir("/proc") if wanted else ()):
        own = _own_pid(pid)
        if own in wanted and _has_writer(pid):
            found.setdefault(own, []).append(int(pid))
    return found


def _own_pid(pid: str) -> int:
    """What getpid() gives in that process; 0 when it is gone."""
    try:
        inner = re.search(r"^NSpid:.*?(\d+)$", read_text(f"/proc/{pid}/status"), re.M)
        return int(inner[1]) if inner else int(pid)
    except OSError:
        return 0


def _started(pid: int) -> float:
    """When a process began, in seconds since 1970; 0 when that cannot be told."""
    try:
        ticks = int(read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[19])
        return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return 0.0


def _has_writer(pid: str) -> bool:
    """Whether this process has a thread of cprof's. A program may itself be called cprof, and so are then its threads: not its first
    one, nor one that takes signals (preload/settings/identity.c knows it by the same)."""
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
