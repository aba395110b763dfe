# SPDX-License-Identifier: Apache-2.0
"""Asks running programs to record a window now, and waits for its traces.

    cprof trigger 4711 --steps 3
    cprof trigger --all-ranks --seconds 2

The programs must run under CPROF_TRIGGER=socket (cprof run --trigger socket). Only processes of this user on this machine
are asked; on several machines run the command on each (srun, mpirun). Each trace's path is printed when it is whole. After
^C the windows go on.

The exit code is 2 when one of them could not record."""

import argparse
import os
import re
import selectors
import socket
import struct
import sys
import time
from typing import Dict, Iterator, List, NamedTuple, Optional

from cprof.tool import Problem, note, printable

HELP = "record a window in a running program"
LINE_MOST = 8192
SECONDS_LEAST, SECONDS_MOST = 0.001, 86400  # preload/trigger.c
WAIT_MOST_S = 3600.0                        # at a time: select() takes no more than some weeks
LISTENING = re.compile(r"@(cprof-\d+-\d+)$")  # preload/trigger.h has the protocol


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Who is asked, and for what."""
    parser.add_argument("pids", nargs="*", type=int, metavar="PID", help="a process")
    parser.add_argument("--all-ranks", "-a", action="store_true", help="every process of this user that listens")
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--steps", type=int, metavar="N", help="N whole steps, beginning with the next")
    length.add_argument("--seconds", type=float, metavar="S", help="from now on (default: as many steps as --active said)")
    length.add_argument("--status", action="store_true", help="only say where the processes stand")
    parser.add_argument("--timeout", type=float, metavar="S", help="do not wait longer for the traces")


class Peer(NamedTuple):
    """A process that was asked."""
    pid: int
    connection: socket.socket


def _address_of(pid: int) -> str:
    """The address at which a process listens: its pid namespace, and its pid there."""
    try:
        namespace = re.fullmatch(r"pid:\[(\d+)\]", os.readlink(f"/proc/{pid}/ns/pid"))
        with open(f"/proc/{pid}/status") as file:
            inner = re.search(r"^NSpid:.*?(\d+)$", file.read(), re.M)
    except FileNotFoundError:
        raise Problem(f"process {pid}: there is none") from None
    except PermissionError:
        raise Problem(f"process {pid}: belongs to another user") from None
    return f"cprof-{namespace[1] if namespace else 0}-{inner[1] if inner else pid}"


def _connect(address: str, expected: Optional[int]) -> Optional[Peer]:
    """The process at an address; None when nobody of this user is there."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(5)
        connection.connect("\0" + address)
        pid, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    except OSError:
        connection.close()
        return None
    if user not in (os.geteuid(), 0) and os.geteuid() != 0 or expected is not None and pid not in (expected, 0):
        connection.close()
        return None
    return Peer(pid or expected or 0, connection)


def listening() -> List[str]:
    """Addresses at which programs under cprof listen, of any user."""
    try:
        with open("/proc/net/unix") as file:
            found = (LISTENING.search(line.rstrip("\n")) for line in file)
            return sorted({match[1] for match in found if match})
    except OSError:
        return []


def _peers(args: argparse.Namespace) -> Iterator[Peer]:
    for pid in args.pids:
        peer = _connect(_address_of(pid), pid)
        if peer is None:
            raise Problem(f"process {pid}: does not listen (is it under CPROF_TRIGGER=socket, and awake? in a container with "
                          "a network of its own, run this inside)")
        yield peer
    if args.all_ranks:
        for address in listening():
            peer = _connect(address, None)
            if peer is not None:
                yield peer


def _request(args: argparse.Namespace) -> str:
    if args.status:
        return "status"
    if args.steps is not None:
        if args.steps < 1:
            raise Problem(f"--steps={args.steps}: must be at least 1")
        return f"window steps={args.steps}"
    if args.seconds is not None:
        if not SECONDS_LEAST <= args.seconds <= SECONDS_MOST:
            raise Problem(f"--seconds={args.seconds:g}: must be from {SECONDS_LEAST} to {SECONDS_MOST}")
        return f"window seconds={args.seconds:.3f}"
    return "window"


class _Answers:
    """What the processes say, until each has said its last word."""

    def __init__(self, peers: List[Peer]) -> None:
        self.failed = False
        self._rest: Dict[int, bytes] = {}
        self._selector = selectors.DefaultSelector()
        for peer in peers:
            self._selector.register(peer.connection, selectors.EVENT_READ, peer)

    def read(self, timeout: Optional[float]) -> None:
        """Reads on to the end, or for so long."""
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
                self._fail(peer, "ended before its trace was whole")
            return
        *lines, rest = (self._rest.get(peer.pid, b"") + data).split(b"\n")
        self._rest[peer.pid] = rest[:LINE_MOST]
        for line in lines:
            self._line(peer, line.decode(errors="replace"))

    def _line(self, peer: Peer, line: str) -> None:
        word, _, text = line.partition(" ")
        if word == "trace":
            print(text, flush=True)
        elif word == "status":
            print(printable(text), flush=True)
        elif word in ("open", "opens"):
            note(f"process {peer.pid}: {_opening(word, text)}")
        elif word == "error":
            self._fail(peer, text)
        if word in ("done", "status", "error"):
            self._rest.pop(peer.pid, None)

    def _fail(self, peer: Peer, text: str) -> None:
        self.failed = True
        note(f"process {peer.pid}: {printable(text)}")


def _opening(word: str, text: str) -> str:
    """`step=7 steps=3` in words."""
    values = dict(pair.split("=", 1) for pair in text.split() if "=" in pair)
    step = printable(values.get("step", "?"))
    if word == "open":
        return f"records already, in step {step}: its trace follows"
    if "seconds" in values:
        return f"records from now on, in step {step}, for {printable(values['seconds'])} s"
    return f"records {printable(values.get('steps', '?'))} steps from step {step} on"


def run(args: argparse.Namespace) -> int:
    """`cprof trigger`"""
    request = _request(args)
    if not args.pids and not args.all_ranks:
        raise Problem("say which process, or --all-ranks")
    if args.timeout is not None and not args.timeout >= 0:
        raise Problem(f"--timeout={args.timeout:g}: must be 0 or more")
    peers = list(_peers(args))
    if not peers:
        raise Problem("no process of this user listens (is the program under CPROF_TRIGGER=socket, and awake?)")
    answers = _Answers(peers)
    for peer in peers:  # all of them before the first answer: ranks are to record the same steps
        try:
            peer.connection.sendall(request.encode() + b"\n")
        except OSError as error:
            note(f"process {peer.pid}: {error.strerror}")
            answers.failed = True
        answers._rest[peer.pid] = b""
    answers.read(args.timeout)
    sys.stdout.flush()
    return 2 if answers.failed else 0
