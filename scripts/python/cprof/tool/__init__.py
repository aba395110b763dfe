# SPDX-License-Identifier: Apache-2.0
"""The command `cprof`: a module of this package for each sub-command, and shared modules.

A sub-command's module has
    HELP                     one line for `cprof --help`; `cprof NAME --help` begins with the module's docstring
    add_arguments(parser)    declares its arguments
    run(args) -> int         runs the sub-command; returns the exit code

Exit codes: 0 fine, 1 something was found (check, compare), 2 bad input or usage, 128 + N after signal N (^C: 130). Errors are one line on stderr,
`cprof: FILE: what`: raise Problem(what, file). Stdout is for data.
"""

import argparse
import errno
import gc
import importlib
import os
import shutil
import signal
import sys
import threading
from typing import Any, List, NoReturn, Optional

from cprof import __version__
from cprof._untrusted import printable
from cprof.tool import screen
from cprof.tool.screen import note

COMMANDS = [  # as typed; the module has the same name, with "_" for "-"
    "run",
    "env",
    "doctor",
    "open",
    "merge",
    "ranks",
    "recover",
    "trigger",
    "top",
    "compare",
    "explain",
    "hang",
    "report",
    "events",
    "summarize",
    "export",
    "sql",
    "check",
    "stacks",
    "memory",
    "memory-timeline",
]

EXAMPLES = """examples:
  cprof run -- python train.py    records steps 1 to 4, and says where the trace is
  cprof top                       where the time went in the newest run
  cprof open                      that run in Perfetto
"""

BAD_INPUT = 2
INTERRUPTED = 130
BROKEN_PIPE = 141  # a shell's exit code for a program that SIGPIPE ended


class Problem(ValueError):
    """Ends the command with exit code 2 and one line on stderr."""

    def __init__(self, what: str, file: Optional[str] = None) -> None:
        super().__init__(printable(what if file is None else f"{file}: {what}"))


TOO_DEEP = "nested too deeply"  # exceeds Python's recursion limit, in its JSON reader or later


class _Parser(argparse.ArgumentParser):
    """Prints errors of usage in one line."""

    def print_help(self, file: Any = None, whole: bool = False) -> None:
        for action in self._actions:
            if getattr(action, "rare", False) and not whole:
                action.help = argparse.SUPPRESS
        screen.data(self.format_help())  # argparse's own print_help() ignores a failed write

    def error(self, message: str) -> NoReturn:
        prefix = self.prog.partition(" ")[2]
        message = message.replace("ignored explicit argument", "takes no value (--NAME is 1, --no-NAME is 0), not")
        note(f"{prefix + ': ' if prefix else ''}{message} ({self.prog} --help shows how)")
        raise SystemExit(BAD_INPUT)


def _module(command: str) -> Any:
    return importlib.import_module("cprof.tool." + command.replace("-", "_"))


def _parse(argv: List[str]) -> argparse.Namespace:
    parser = _Parser(prog="cprof", description="Runs programs under the profiler; reads, checks and shows the traces of cprof, of\n"
                     "torch.profiler, and any other of Chrome's JSON form. A trace may be gzip, or cut off.", epilog=EXAMPLES,
                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", action="version", version="cprof " + __version__)
    commands = parser.add_subparsers(metavar="COMMAND", dest="command")
    # Imports only the module of the sub-command: the others cost time and may need missing packages.
    asked = argv[0] if argv and argv[0] in COMMANDS else None
    if argv and not asked and not argv[0].startswith("-") and shutil.which(argv[0]):
        raise Problem(f"no such command: a program is run by cprof run -- {' '.join(argv)}", argv[0])
    for command in [asked] if asked else COMMANDS:
        module = _module(command)
        sub = commands.add_parser(command, help=module.HELP, description=(module.__doc__ or module.HELP),
                                  formatter_class=argparse.RawDescriptionHelpFormatter)
        module.add_arguments(sub)
        sub.set_defaults(run=module.run)
    args, unknown = parser.parse_known_args(argv)
    if unknown:  # the error names the sub-command's help
        commands.choices.get(asked or "", parser).error("unrecognized arguments: " + " ".join(unknown))
    if args.command is None:
        parser.print_help()
        raise SystemExit(0)
    return args


def said(error: BaseException) -> str:
    """The text of an error."""
    if isinstance(error, OSError) and error.strerror:
        names = ": ".join(printable(os.fsdecode(name)) for name in (error.filename, error.filename2)
                          if isinstance(name, (str, bytes)))
        if not names and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            names = "stdout"  # errors of other written files have a name
        return f"{names}: {error.strerror}" if names else error.strerror
    if isinstance(error, MemoryError):
        return "out of memory"
    if isinstance(error, RecursionError):
        return f"a value {TOO_DEEP}"
    return printable(error)


def went_wrong(error: Exception) -> str:
    """The text of an error that is not about the input."""
    return f"went wrong inside: {type(error).__name__}: {error} (CPROF_LOG=debug shows where)"


def main(argv: Optional[List[str]] = None) -> int:
    """Runs the command. Returns the exit code."""
    screen.prepare()
    gc.disable()  # millions of small dictionaries without cycles: collections would take a third of the time and find nothing
    try:
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) == signal.SIG_DFL:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            args = _parse(sys.argv[1:] if argv is None else argv)
            code = args.run(args)
        except SystemExit as ending:  # argparse's
            code = ending.code if isinstance(ending.code, int) or not ending.code else BAD_INPUT
        screen.flush()
        return code or 0
    except KeyboardInterrupt:
        screen.quiet(sys.stdout)
        return INTERRUPTED
    except BrokenPipeError:
        screen.quiet(sys.stdout)
        return BROKEN_PIPE
    except (Problem, OSError, MemoryError, RecursionError) as error:
        try:
            screen.flush()
        except (OSError, ValueError):
            screen.quiet(sys.stdout)  # from Python 3.13 on, Python writes again at exit what a full disk refused
        note(said(error))
        return BAD_INPUT
    except Exception as error:
        if os.environ.get("CPROF_LOG") == "debug":
            raise
        note(went_wrong(error))
        return BAD_INPUT
