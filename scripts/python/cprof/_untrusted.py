# SPDX-License-Identifier: Apache-2.0
"""Safe handling of files and texts that another user or program may have made: opening files, and printing text on a terminal."""

from __future__ import annotations

import errno
import os
import re
import stat
from typing import Any, BinaryIO, Iterator, Optional, Union

Path = Union[str, bytes, "os.PathLike[str]"]

_GIVEN = re.compile(r"/dev/stdin|(?:/dev|/proc/self)/fd/(\d+)")  # descriptors that this process inherited


def open_regular(path: Path, most: Optional[int] = None) -> BinaryIO:
    """Opens a regular file for reading, without waiting. Raises an OSError for a FIFO, device or folder, and for a file of more than `most` bytes."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        info = os.fstat(fd)
        if stat.S_ISDIR(info.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if not stat.S_ISREG(info.st_mode):
            raise OSError(errno.EINVAL, "is not a regular file", path)
        if most is not None and info.st_size > most:
            raise OSError(errno.EFBIG, f"has {info.st_size:,} bytes: at most {most:,} are read", path)
        return open(fd, "rb")
    except BaseException:
        os.close(fd)
        raise


def open_given(path: Path) -> BinaryIO:
    """Like open_regular(), but also opens an inherited pipe: /dev/stdin, or a shell's <(...). Refuses a FIFO with a name in a folder, since
    anyone may have made it."""
    given = _GIVEN.fullmatch(os.fsdecode(path))
    if given and not os.path.isfile(path):
        return open(os.dup(int(given[1] or 0)), "rb")
    return open_regular(path)


def is_inherited(path: str) -> bool:
    """Whether only this process can read it: "-", or a descriptor that it inherited."""
    return path == "-" or _GIVEN.fullmatch(path) is not None


def read_text(path: Path, most: int = 1 << 20) -> str:
    """The first `most` bytes of a regular file as text. Replaces invalid UTF-8."""
    with open_regular(path) as file:
        return file.read(most).decode("utf-8", "replace")


def lines_in(file: BinaryIO, line_most: int, most: int) -> Iterator[bytes]:
    """The lines of a file, up to `most` bytes in all. A line of more than `line_most` bytes comes in pieces."""
    while most > 0:
        line = file.readline(min(line_most, most))
        if not line:
            return
        most -= len(line)
        yield line


def printable(text: Any) -> str:
    """The text as one line that is safe on a terminal: escapes control characters, line breaks and marks of writing direction."""
    text = str(text)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)
