# SPDX-License-Identifier: Apache-2.0
"""Asks running programs to record a window now, and waits for its traces.

    cprof trigger 4711 --steps 3
    cprof trigger --all-ranks --seconds 2
    srun cprof trigger --all-ranks --from 5000 --steps 3

The programs must run under CPROF_TRIGGER=socket (cprof run --trigger socket). The command asks only processes of this user on this
machine. For several machines run it on each (srun, mpirun), with --from. It prints the path of each trace that is complete. After
^C the windows go on.

If several processes are near the same step, the command asks them to begin with a step that all of them reach in about a second.
So their traces have the same steps. --from names that step.

The exit code is 2 if one of them could not record."""

import argparse
import contextlib
import math
import os
import re
import selectors
import socket
import struct
import time
from typing import Dict, List, NamedTuple, Optional

from cprof._untrusted import open_regular, read_text
from cprof.tool import Problem, note, printable
from cprof.tool.screen import put

HELP = "record a window in a running program"
LINE_MOST = 8192
SECONDS_LEAST, SECONDS_MOST = 0.001, 86400  # preload/steps/trigger.c
WAIT_MOST_S = 3600.0                        # longest wait of a call: select() accepts no more than some weeks
LOOK_S = 0.3                                # between two status requests to the ranks: longer than they let a client wait
ANSWER_S = 5.0                              # longest wait for a status, and for a place in the queue of a process
LINES_MOST = 10000                          # of one process's answer, which has a line for each trace
MEETING_S = 1.0                             # until a request has reached all processes
STEPS_MOST, STEP_MOST = 2**31 - 1, (2**63 - 1) // 2  # preload/steps/trigger.c, preload/settings/demands.h
LISTENING = re.compile(r"@(cprof-\d+-\d+)$")  # preload/steps/trigger.h has the protocol


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options: which processes, and what to record."""
    parser.add_argument("pids", nargs="*", type=int, metavar="PID", help="a process to ask")
    parser.add_argument("--all-ranks", "-a", action="store_true", help="ask every process of this user that listens")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=int, metavar="N", help="record N whole steps (default: the number of the setting --active)")
    parser.add_argument("--from", dest="first", type=int, metavar="K",
                        help="begin with step K (default: the next one; for several processes a step that all of them reach)")
    length.add_argument("--seconds", type=float, metavar="S", help="record from now on, for S seconds")
    length.add_argument("--last", action="store_true", help="save what the flight recorder holds (CPROF_FLIGHT)")
    length.add_argument("--status", action="store_true", help="only show the state and the step of the processes")
    parser.add_argument("--timeout", type=float, metavar="S", help="wait at most S seconds for the traces")


class Peer(NamedTuple):
    """A process that is asked."""
    pid: int
    connection: socket.socket
    first: Optional[int] = None  # the step that it is asked to begin with


class Target(NamedTuple):
    """The address at which a process listens, and its pid if the user named it."""
    address: str
    pid: Optional[int]


def _address_of(pid: int) -> str:
    """The address at which a process listens: its pid namespace, and its pid there."""
    try:
        namespace = re.fullmatch(r"pid:\[(\d+)\]", os.readlink(f"/proc/{pid}/ns/pid"))
        inner = re.search(r"^NSpid:.*?(\d+)$", read_text(f"/proc/{pid}/status"), re.M)
    except FileNotFoundError:
        raise Problem(f"process {pid}: there is none") from None
    except PermissionError:
        raise Problem(f"process {pid}: belongs to another user") from None
    return f"cprof-{namespace[1] if namespace else 0}-{inner[1] if inner else pid}"


def _is_ours(user: int, named: bool) -> bool:
    """Whether a process of that user may be asked: our own user or root. Root may ask every user's process, but only by naming it."""
    if user != 0 and user == _unmapped_user():
        return False
    return user in (os.geteuid(), 0) or named and os.geteuid() == 0


def _unmapped_user() -> Optional[int]:
    """The number that stands for all users without a number here; None outside of user namespaces, where all users have one."""
    try:
        everybody = re.fullmatch(r"\s*0\s+0\s+4294967295\s*", read_text("/proc/self/uid_map"))
        return None if everybody else int(read_text("/proc/sys/kernel/overflowuid"))
    except (OSError, ValueError):
        return None


def _connect(address: str, expected: Optional[int], wait: float) -> Optional[Peer]:
    """The process at an address; None if there is none of this user. Raises a BlockingIOError if its queue is full for `wait` seconds."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        seconds = max(wait, 0.001)  # 0 would be for ever
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(seconds), int(seconds % 1 * 1e6)))
        connection.connect("\0" + address)
        pid, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
        connection.settimeout(ANSWER_S)
        if _is_ours(user, expected is not None) and (expected is None or pid in (expected, 0)):
            return Peer(pid or expected or 0, connection)
    except BlockingIOError:
        connection.close()
        raise
    except OSError:
        pass
    connection.close()
    return None


def _connected(targets: List[Target]) -> Dict[Target, Optional[Peer]]:
    """The process at each address; None for another user's. If a queue is full, which other users can cause, waits for it at the end, and leaves
    the process out if it stays full."""
    found: Dict[Target, Optional[Peer]] = {}
    full = []
    for target in targets:
        try:
            found[target] = _connect(*target, 0)
        except BlockingIOError:
            full.append(target)
    end = time.monotonic() + ANSWER_S
    for n, target in enumerate(full):
        with contextlib.suppress(BlockingIOError):
            found[target] = _connect(*target, (end - time.monotonic()) / (len(full) - n))
    return found


def listening() -> List[str]:
    """Addresses at which programs under cprof listen, of any user."""
    try:
        with open_regular("/proc/net/unix") as file:
            found = (LISTENING.search(line.decode("ascii", "replace").rstrip("\n")) for line in file)
            return sorted({match[1] for match in found if match})
    except OSError:
        return []


def _targets(args: argparse.Namespace) -> List[Target]:
    named = [Target(_address_of(pid), pid) for pid in args.pids]
    others = listening() if args.all_ranks else []
    return named + [Target(address, None) for address in others if address not in {target.address for target in named}]


def _peers(targets: List[Target], meeting: Dict[str, int]) -> List[Peer]:
    connected = _connected(targets)
    for target in targets:
        if target not in connected and target.pid is None:
            note(f"{target.address}: others keep its queue of requests full")
        elif target not in connected:
            raise Problem(f"process {target.pid}: others keep its queue of requests full (try again)")
        elif target.pid is not None and connected[target] is None:
            raise Problem(f"process {target.pid}: does not listen (is it under CPROF_TRIGGER=socket, and awake? in a container with "
                          "a network of its own, run this inside)")
    return [peer._replace(first=meeting.get(target.address)) for target, peer in connected.items() if peer is not None]


def _request(args: argparse.Namespace) -> str:
    if args.first is not None and (args.status or args.last or args.seconds is not None):
        raise Problem("--from: only with --steps, or alone")
    if args.first is not None and not 1 <= args.first <= STEP_MOST:
        raise Problem(f"--from={args.first}: must be from 1 to {STEP_MOST}")
    if args.status or args.last:
        return "status" if args.status else "last"
    if args.steps is not None:
        if not 1 <= args.steps <= STEPS_MOST:
            raise Problem(f"--steps={args.steps}: must be at least 1" if args.steps < 1 else
                          f"--steps={args.steps}: must be at most {STEPS_MOST}")
        return f"window steps={args.steps}"
    if args.seconds is not None:
        if not SECONDS_LEAST <= args.seconds <= SECONDS_MOST:
            raise Problem(f"--seconds={args.seconds:g}: must be from {SECONDS_LEAST} to {SECONDS_MOST}")
        return f"window seconds={args.seconds:.3f}"
    return "window"


# ---- where ranks meet -----------------------------------------------------------------------------------------------

class Place(NamedTuple):
    """The step that a process was in, and when it answered so."""
    step: int
    at: float


def _step_told(peer: Peer, until: float) -> Optional[Place]:
    """The step in a process's answer to "status"; None without an answer in time."""
    text = b""
    try:
        while b"\n" not in text and len(text) < LINE_MOST:
            peer.connection.settimeout(max(until - time.monotonic(), 0.01))
            data = peer.connection.recv(4096)
            if not data:
                break
            text += data
    except OSError:
        return None
    found = re.match(rb"status .*\bstep=(\d+)\b", text)
    return Place(int(found[1]), time.monotonic()) if found else None


def _look(targets: List[Target]) -> Dict[str, Place]:
    """The steps of the processes that answer."""
    peers = {target.address: peer for target, peer in _connected(targets).items() if peer is not None}
    for peer in peers.values():
        try:
            peer.connection.sendall(b"status\n")
        except OSError:
            pass  # it does not answer, then
    until = time.monotonic() + ANSWER_S
    places = {}
    for address, peer in peers.items():
        place = _step_told(peer, until)
        peer.connection.close()
        if place is not None:
            places[address] = place
    return places


def meeting_steps(before: Dict[str, Place], now: Dict[str, Place]) -> Dict[str, int]:
    """For each process that is near the step of others: the step that all of these reach in about a second. The processes may
    belong to several jobs, each with its own step."""
    paces = [(now[a].step - before[a].step) / max(now[a].at - before[a].at, 1e-3) for a in now if a in before]
    ahead = math.ceil(max(paces, default=0.0) * MEETING_S) + 2  # the step being run may end at once, and the next has begun then
    groups: List[List[str]] = []
    for address in sorted((a for a in now if now[a].step > 0), key=lambda a: now[a].step):
        if groups and now[address].step - now[groups[-1][-1]].step <= ahead:
            groups[-1].append(address)
        else:
            groups.append([address])
    return {address: now[group[-1]].step + ahead for group in groups if len(group) > 1 for address in group}


def _meeting(args: argparse.Namespace, targets: List[Target]) -> Dict[str, int]:
    """The step with which each process is asked to begin, by address; without one: the next step."""
    if args.first is not None:
        return {target.address: args.first for target in targets}
    if args.status or args.last or args.seconds is not None or len(targets) < 2:
        return {}
    before = _look(targets)
    time.sleep(LOOK_S)
    return meeting_steps(before, _look(targets))


# ---- asking ---------------------------------------------------------------------------------------------------------


class _Answers:
    """Reads the answers of the processes to the end."""

    def __init__(self, peers: List[Peer]) -> None:
        self.failed = False
        self._rest: Dict[int, bytes] = {}
        self._lines: Dict[int, int] = {}
        self._selector = selectors.DefaultSelector()
        for peer in peers:
            self._selector.register(peer.connection, selectors.EVENT_READ, peer)

    def read(self, timeout: Optional[float]) -> None:
        """Reads to the end of all answers, or until the timeout."""
        end = None if timeout is None else time.monotonic() + timeout
        while self._selector.get_map():
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                for key in self._selector.get_map().values():
                    note(f"process {key.data.pid}: its trace is not there yet; the window goes on")
                self.failed = True
                return
            for key, _ in self._selector.select(left if left is None else min(left, WAIT_MOST_S)):
                self._take(key.data)

    def _take(self, peer: Peer) -> None:
        try:
            data = peer.connection.recv(4096)
        except OSError:
            data = b""
        if not data:
            self._selector.unregister(peer.connection)
            peer.connection.close()
            if self._rest.pop(peer.pid, None) is not None:
                self._fail(peer, "ended before its trace was complete")
            return
        *lines, rest = (self._rest.get(peer.pid, b"") + data).split(b"\n")
        self._rest[peer.pid] = rest[:LINE_MOST]
        self._lines[peer.pid] = self._lines.get(peer.pid, 0) + len(lines)
        if self._lines[peer.pid] > LINES_MOST:
            self._selector.unregister(peer.connection)
            peer.connection.close()
            self._fail(peer, f"answers with more than {LINES_MOST:,} lines")
            return
        for line in lines:
            self._line(peer, line.decode(errors="replace"))

    def _line(self, peer: Peer, line: str) -> None:
        word, _, text = line.partition(" ")
        if word in ("trace", "status"):
            put(printable(text))
        elif word in ("open", "opens"):
            note(f"process {peer.pid}: {_opening(word, text, peer.first)}")
        elif word == "error":
            self._fail(peer, text)
        if word in ("done", "status", "error"):
            self._rest.pop(peer.pid, None)

    def _fail(self, peer: Peer, text: str) -> None:
        self.failed = True
        note(f"process {peer.pid}: {printable(text)}")


def _opening(word: str, text: str, first: Optional[int]) -> str:
    """`step=7 steps=3` in words. first: the requested first step."""
    values = dict(pair.split("=", 1) for pair in text.split() if "=" in pair)
    step = printable(values.get("step", "?"))
    if word == "open":
        return f"records already, in step {step}: its trace follows"
    if "seconds" in values:
        return f"records from now on, in step {step}, for {printable(values['seconds'])} s"
    late = f" (it was behind step {first} already)" if first is not None and step != str(first) else ""
    return f"records {printable(values.get('steps', '?'))} steps from step {step} on{late}"


def run(args: argparse.Namespace) -> int:
    """`cprof trigger`"""
    request = _request(args)
    if not args.pids and not args.all_ranks:
        raise Problem("say which process, or --all-ranks")
    if args.timeout is not None and not args.timeout >= 0:
        raise Problem(f"--timeout={args.timeout:g}: must be 0 or more")
    targets = _targets(args)
    peers = _peers(targets, _meeting(args, targets))
    if not peers:
        raise Problem("no process of this user listens (is the program under CPROF_TRIGGER=socket, and awake?)")
    answers = _Answers(peers)
    for peer in peers:  # ask all of them before reading an answer, so that they begin together
        first = "" if peer.first is None else f" from={peer.first}"
        try:
            peer.connection.sendall(f"{request}{first}\n".encode())
        except OSError as error:
            note(f"process {peer.pid}: {error.strerror}")
            answers.failed = True
        answers._rest[peer.pid] = b""
    answers.read(args.timeout)
    return 2 if answers.failed else 0
