# SPDX-License-Identifier: Apache-2.0
"""All output of the command, so that no text of a file or of another process can control a terminal.
(progress.py writes its own control characters.)"""

import errno
import io
import json
import os
import sys
from typing import Any, Optional

from cprof._untrusted import printable


BOLD, WARNING = "1", "33"  # styles: parameters of SGR


def _lines(text: Any) -> str:
    return "\n".join(map(printable, str(text).split("\n")))


def put(text: Any = "") -> None:
    """Lines for people, on stdout."""
    text = str(text)
    sys.stdout.write(_lines(text if text.endswith("\n") else text + "\n"))
    sys.stdout.flush()


def data(text: str) -> None:
    """Text for programs, on stdout: unchanged, except on a terminal."""
    sys.stdout.write(_lines(text) if sys.stdout.isatty() else text)


def on_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout.isatty()


def json_line(value: Any) -> None:
    """A line of JSON on stdout. Escapes what stdout cannot encode, and on a terminal what is not printable; the line stays JSON."""
    is_utf8 = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "") == "utf8"
    text = json.dumps(value, ensure_ascii=not is_utf8)
    sys.stdout.write((text if text.isprintable() or not on_terminal() else json.dumps(value)) + "\n")


def _colours(stream: Any) -> bool:
    """Whether to use colours: on a terminal without NO_COLOR (no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def tell(text: Any, style: str = "") -> None:
    """Lines on stderr, on a terminal in one of the styles above. Ignores errors of stderr: they are no reason to end."""
    try:
        lines = _lines(text)
        sys.stderr.write((f"\033[{style}m{lines}\033[0m" if style and _colours(sys.stderr) else lines) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass


def note(text: Any, file: Optional[str] = None) -> None:
    """One line on stderr about something that does not end the command."""
    tell(printable("cprof: " + ("" if file is None else f"{file}: ") + str(text)))


# ---- the streams ----

class _Closed(io.TextIOBase):
    """Stdout if it is closed (`>&-`)."""

    def write(self, _: str) -> int:
        raise OSError(errno.EBADF, "stdout is closed")


def prepare() -> None:
    """Makes the streams accept any text."""
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:  # print() would take stdout for it
        sys.stderr = io.TextIOWrapper(io.FileIO(os.open(os.devnull, os.O_WRONLY), "w"))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # names of any alphabet, terminals of one


def flush() -> None:
    """Writes everything that was printed. Raises an OSError if that fails."""
    sys.stdout.flush()


def quiet(stream: Any) -> None:
    """Redirects the stream, so that the interpreter's last flush does not fail on a closed pipe or a full disk."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError, AttributeError):
        pass
