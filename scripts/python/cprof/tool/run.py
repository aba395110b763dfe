# SPDX-License-Identifier: Apache-2.0
"""Runs a program under the profiler.

    cprof run -- python train.py
    cprof run --active 3 --repeat 2 --record-shapes -- torchrun --nproc-per-node 8 train.py

Every setting of the library is an option; what the environment says counts where no option is given. Before the program
starts, one line on stderr names each thing that will not work; on a terminal a line tells when a window opens and closes.
Nothing that lies in the traces' folder changes what happens to the program.
Signals are passed on. At the end the traces are listed on stderr, with the most expensive operators of the first one; those of another
run that writes into the same folder meanwhile are among them. Of several ranks the last lines name the one that the others waited for. Windows are cut off where no process writes them any more.

The exit code is the program's, 128 + N when signal N ended it, 127 when there is no such program, 126 when it cannot be
executed, 2 when an option is wrong (the program is not started then)."""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
from typing import Any, Callable, Dict, List, Optional

from cprof.tool import Problem, note, printable, said
from cprof.tool import library, program, settings
from cprof.tool.screen import tell
from cprof.tool.top_file import load
from cprof.tool.watch import PART, State, Watch, size_text
from cprof.tool.writers import being_written

HELP = "run a program under the profiler"
PASSED_ON = ("SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGUSR1", "SIGUSR2", "SIGALRM", "SIGXCPU", "SIGURG", "SIGWINCH")
POLL_S = 0.3
TELL_S = 30  # at the end, at most: traces may be made to take long
TOP_BYTES = 64 << 20  # a larger trace takes longer to read than people wait for a prompt, where its table is not there
LISTED, TOP_ROWS = 20, 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of its own, then the settings, then the program."""
    parser.usage = "cprof run [options] [--] PROGRAM [ARGUMENT...]"
    parser.add_argument("--library", metavar="PATH", help="libcprof.so, or its folder (default: CPROF_LIBRARY, the one of "
                        "this checkout or installation, the loader's cache)")
    parser.add_argument("--quiet", "-q", action="store_true", help="no warnings, no status, no list of traces")
    parser.add_argument("--no-top", action="store_true", help="list the traces without their most expensive operators, and of several ranks "
                        "without the one that the others waited for")
    settings.add_options(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="PROGRAM", help="the program and its arguments")


def command_of(args: argparse.Namespace) -> List[str]:
    """The program and its arguments."""
    return args.command[1:] if args.command[:1] == ["--"] else args.command


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
    """Runs the program to its end, passing signals on; its exit code. `look` is called a few times a second."""
    passed = {getattr(signal, name) for name in PASSED_ON if hasattr(signal, name)} | set(range(signal.SIGRTMIN, signal.SIGRTMAX + 1))
    passed = {one for one in passed if signal.getsignal(one) is not signal.SIG_IGN}
    waited = passed | {signal.SIGCHLD}
    of_children = signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, as some launchers leave it, nothing would tell of the end
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, waited)
    try:
        child = _start(command, environment, mask, of_children)
        while child.poll() is None:
            info = signal.sigtimedwait(waited, POLL_S) if look else signal.sigwaitinfo(waited)
            # The terminal sends its signals (si_code above 0) to the program as well.
            if info is not None and info.si_signo in passed and info.si_code <= 0:
                with contextlib.suppress(ProcessLookupError):
                    child.send_signal(info.si_signo)
            if look:
                look()
        return child.returncode if child.returncode >= 0 else 128 - child.returncode
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


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _shown(path: str) -> str:
    relative = os.path.relpath(path)
    return printable(path if relative.startswith("..") else relative)


def _list(paths: List[str]) -> None:
    for path in paths[:LISTED]:
        tell(f"  {_shown(path)} ({size_text(_size(path))})")
    if len(paths) > LISTED:
        tell(f"  and {len(paths) - LISTED} more")


def _top(path: str) -> None:
    """The table of `cprof top`, on stderr: stdout is the program's."""
    from cprof.tool import top
    parser = argparse.ArgumentParser()
    top.add_arguments(parser)
    args = parser.parse_args([f"--row-limit={TOP_ROWS}", path])
    args.tell = False
    tell(f"{_shown(path)}:")
    with contextlib.redirect_stdout(sys.stderr):
        top.run(args)


def _ranks(paths: List[str]) -> None:
    """What `cprof ranks` begins with, on stderr."""
    if sum(map(_size, paths)) > TOP_BYTES:
        tell("cprof: cprof ranks tells for which rank the others waited")
        return
    from cprof.tool.ranks import compared
    with contextlib.suppress(Problem):  # no steps, for one
        found = compared(paths, progress=False)
        if found.worst:
            for line in found.answer():
                tell(printable(line))


def _open_windows(paths: List[str]) -> None:
    """Those whose writer is dead, and those of programs that still run: left behind by this one, or of another run."""
    written = being_written(paths)
    cut = [path for path in paths if path not in written]
    if cut:
        tell("cprof: windows that were cut off (they open as they are; cprof recover gives them their names):")
        _list(cut)
    if written:
        tell("cprof: windows that are still being written:")
        _list(sorted(written))


def _summary(watch: Watch, with_top: bool) -> None:
    state, gone = watch.state(), watch.gone()
    if state.closed:
        tell(f"cprof: {len(state.closed)} trace{'s' * (len(state.closed) > 1)} (cprof open shows one):")
        _list(state.closed)
    if gone:
        note("1 trace was written and is not here any more" if gone == 1 else f"{gone} traces were written and are not here any more")
    _open_windows(state.open)
    if not state.closed and not state.open and not gone:
        note("no trace was written (cprof doctor tells what may be in the way)")
    if state.closed and with_top and (_size(state.closed[0]) <= TOP_BYTES or load(state.closed[0])[0]):
        _top(state.closed[0])
    if len(state.closed) > 1 and with_top:
        _ranks(state.closed)


def _best_effort(call: Callable, *args: Any) -> Any:
    """What the call returns. Whatever goes wrong in it is one line: the program and its exit code are not touched."""
    try:
        return call(*args)
    except Exception as error:
        note(f"the traces are not told of: {said(error) or type(error).__name__}")
        return None


def _tell_of_traces(watch: Watch, with_top: bool) -> None:
    def give_up(*_: Any) -> None:
        raise Problem(f"looking at them takes more than {TELL_S} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.alarm(TELL_S)
    try:
        _summary(watch, with_top)
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
    status = _Status(watch) if watch and sys.stderr.isatty() else None
    code = _supervise(command, environment, status)
    if watch:
        with contextlib.suppress(KeyboardInterrupt):
            _best_effort(_tell_of_traces, watch, not args.no_top)
    return code
