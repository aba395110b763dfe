# SPDX-License-Identifier: Apache-2.0
"""Runs a command while cprof's thread stands still now and then, in every process of the command.

    standing.py [--chance 0.1] [--most 0.5] COMMAND...

Every 50 ms each thread named "cprof" is stopped with this chance, for up to this many seconds. A machine under load does the same, but less
often. What a test expects of a recording must not depend on when cprof's thread runs. Needs the right to trace: root, or ptrace_scope 0."""

import argparse
import ctypes
import os
import random
import subprocess
import sys
import threading
import time

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000  # waitpid() of a thread
PAUSE_S = 0.05
MARK = f"STANDING_OF={os.getpid()}"

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def stop(tid, seconds):
    """Stops a thread for some time. A tracer is a thread: each stop needs its own."""
    status = 1 << 16
    if _libc.ptrace(SEIZE, tid, None, None) != 0:
        return
    if _libc.ptrace(INTERRUPT, tid, None, None) == 0:
        try:
            _, status = os.waitpid(tid, WALL)
        except ChildProcessError:  # it has ended
            return
        time.sleep(seconds)
    signal = os.WSTOPSIG(status) if status >> 16 == 0 else 0  # a signal that it was about to get
    _libc.ptrace(DETACH, tid, None, signal)


def threads():
    """The ids of cprof's threads in processes of the command."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            found = [tid for tid in os.listdir(f"/proc/{pid}/task") if open(f"/proc/{pid}/task/{tid}/comm").read() == "cprof\n"]
            if found and MARK.encode() in open(f"/proc/{pid}/environ", "rb").read().split(b"\0"):
                yield from map(int, found)
        except OSError:  # it has ended
            continue


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chance", type=float, default=0.1)
    parser.add_argument("--most", type=float, default=0.5, help="seconds")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    args = parser.parse_args()
    name, value = MARK.split("=")
    command = subprocess.Popen(args.command, env=dict(os.environ, **{name: value}))
    stops = 0
    while command.poll() is None:
        for tid in threads():
            if random.random() < args.chance:
                threading.Thread(target=stop, args=(tid, random.uniform(0, args.most)), daemon=True).start()
                stops += 1
        time.sleep(PAUSE_S)
    print(f"standing.py: cprof's thread stood still {stops:,} times", file=sys.stderr)
    return command.returncode


if __name__ == "__main__":
    sys.exit(main())
