# SPDX-License-Identifier: Apache-2.0
"""Runs a program under the profiler.

    cprof run -- python train.py
    cprof run --active 3 --repeat 2 --record-shapes -- torchrun --nproc-per-node 8 train.py

Every setting of the library is an option. Without the option, the environment variable counts. Before the program starts, a
line on stderr names each thing that will not work. On a terminal, a line reports each window that opens or closes.
Files in the traces' folder never change what happens to the program. Signals are passed on to it.
At the end, at most 12 lines on stderr report the traces of each rank, the rank that the others waited for, and what to type
next, or why there is no trace. Colours appear on a terminal only, and NO_COLOR turns them off.

The exit code is the program's; 128 + N if signal N ended it; 127 if there is no such program; 126 if it cannot be executed.
It is 2 if an option is wrong; then the program is not started."""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from typing import Any, Callable, Dict, List, Optional

from cprof.tool import Problem, note, printable, said
from cprof.tool import library, program, settings
from cprof.tool.run_end import Report, tell_end
from cprof.tool.setting_values import OFF, ON
from cprof.tool.watch import PART, State, Watch

HELP = "run a program under the profiler"
PASSED_ON = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGXCPU", "SIGURG", "SIGWINCH")
POLL_S = 0.3
TELL_S = 30  # at the end, at most: traces may be made to take long


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of its own, then the settings, then the program."""
    parser.usage = "cprof run [options] [--] PROGRAM [ARGUMENT...]"
    parser.add_argument("--library", metavar="PATH", help="libcprof.so, or its folder (default: CPROF_LIBRARY, the one of "
                        "this checkout or installation, the loader's cache)")
    parser.add_argument("--quiet", "-q", action="store_true", help="no warnings, no status, no summary; the library's own line stays")
    settings.add_options(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="PROGRAM", help="the program and its arguments")


def command_of(args: argparse.Namespace) -> List[str]:
    """The program and its arguments. `--with-stack yes -- PROGRAM` would run the program `yes`, which never ends."""
    command = args.command
    if command[1:2] == ["--"] and command[0].lower() in ON + OFF:
        raise Problem(f"{command[0]}: a switch takes no value: --NAME is 1, --no-NAME is 0")
    return command[1:] if command[:1] == ["--"] else command


# ---- the program ----

def _start(command: List[str], environment: Dict[str, str], mask: set, of_children: Any) -> "subprocess.Popen[bytes]":
    def as_it_was() -> None:
        """Signals are blocked here, to be waited for, but not in the program."""
        signal.signal(signal.SIGCHLD, of_children)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    try:
        return subprocess.Popen(command, env=environment, close_fds=False, preexec_fn=as_it_was)
    except OSError as error:
        note(f"{command[0]}: {error.strerror}")
        raise SystemExit(program.NOT_FOUND if isinstance(error, FileNotFoundError) else program.NOT_EXECUTABLE)


def _supervise(command: List[str], environment: Dict[str, str], look: Optional[Callable[[], None]]) -> int:
    """Runs the program to its end and passes signals on. Returns its exit code, or -N after signal N. Calls `look` a few times a second."""
    passed = {getattr(signal, name) for name in PASSED_ON if hasattr(signal, name)} | set(range(signal.SIGRTMIN, signal.SIGRTMAX + 1))
    passed = {one for one in passed if signal.getsignal(one) is not signal.SIG_IGN}
    waited = passed | {signal.SIGCHLD}
    of_children = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, as some launchers leave it, nothing would tell of the end
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        child = _start(command, environment, mask, of_children)
        while child.poll() is None:
            info = signal.sigtimedwait(waited, POLL_S) if look else signal.sigwaitinfo(waited)
            # The terminal sends its signals (si_code above 0) to the program as well. A program that signals its group has the signal already.
            if info is not None and info.si_signo in passed and info.si_code <= 0 and info.si_pid != child.pid:
                with contextlib.suppress(ProcessLookupError):
                    child.send_signal(info.si_signo)
            if look:
                look()
        return child.returncode
    finally:
        while signal.sigtimedwait(waited, 0):
            pass
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


# ---- what is said ----

class _Status:
    """A line on stderr whenever a window opened or closed."""

    def __init__(self, watch: Watch) -> None:
        self._watch, self._last = watch, State([], [])

    def __call__(self) -> None:
        with contextlib.suppress(Exception):
            self._tell()

    def _tell(self) -> None:
        now = self._watch.state()
        opened = [path for path in now.open if path not in self._last.open and not PART.fullmatch(path)["prestep"]]  # type: ignore[index]
        closed = [path for path in now.closed if path not in self._last.closed]
        self._last = now
        if closed:
            note("window closed: " + _few(closed))
        if opened:
            note("window open: " + _few(opened))


def _few(paths: List[str]) -> str:
    first = printable(os.path.basename(paths[0]))
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"


def _best_effort(call: Callable, *args: Any) -> Any:
    """The result of the call. Prints an error as one line, so that it does not affect the program and its exit code."""
    try:
        return call(*args)
    except Exception as error:
        note(f"the traces are not told of: {said(error) or type(error).__name__}")
        return None


def _tell_of_traces(watch: Watch, environment: Dict[str, str], report: Optional[Report], code: int) -> None:
    def give_up(*_: Any) -> None:
        raise Problem(f"looking at them takes more than {TELL_S} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(TELL_S)
    try:
        tell_end(watch, environment, report.lines() if report else [], code)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _warn(command: List[str], found: str, environment: Dict[str, str], path: str) -> None:
    library.tell_other_copies(path, os.environ)
    for warning in program.warnings(command, found, environment, path):
        note(f"warning: {warning}")


def run(args: argparse.Namespace) -> int:
    """`cprof run`"""
    command, told = command_of(args), settings.chosen(args)
    if not command:
        raise Problem("no program to run (cprof run --help shows how)")
    path = library.find(args.library)
    environment = dict(os.environ, LD_PRELOAD=library.preload_value(path, os.environ), **told)
    found = program.find(command)
    if not args.quiet:
        _best_effort(_warn, command, found, environment, path)
    watch = None if args.quiet else _best_effort(Watch, environment)
    report = _best_effort(Report) if watch else None
    if report:
        environment["CPROF_REPORT"] = report.path
    status = _Status(watch) if watch and sys.stderr.isatty() else None
    try:
        code = _supervise(command, environment, status)
        if watch:
            with contextlib.suppress(KeyboardInterrupt):
                _best_effort(_tell_of_traces, watch, environment, report, code)
        return code if code >= 0 else 128 - code
    finally:
        if report:
            report.close()
