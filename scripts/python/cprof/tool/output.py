# SPDX-License-Identifier: Apache-2.0
"""Output files that appear when they are whole. Until then a file has a name that nobody can guess, since others may write to its
folder. The command never opens a planted link or FIFO, and never removes a file that it did not make."""

import contextlib
import errno
import gzip
import io
import os
import secrets
import shutil
import signal
import stat
import sys
from typing import Any, BinaryIO, Iterable, Iterator, Tuple

from cprof.tool import Problem


LINKS_MOST = 40  # in a row, as Linux
NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)


def end_tidily() -> None:
    """Makes SIGTERM and SIGHUP remove temporary files, as ^C does. An ignored signal (nohup) stays ignored."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, lambda number, _: sys.exit(128 + number))


def take_name(temporary: str, name: str) -> None:
    """Renames the file to a new name. Raises FileExistsError if the name exists."""
    try:
        os.link(temporary, name, follow_symlinks=False)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if os.path.lexists(name):  # not atomic: such file systems offer nothing better
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name) from None
        os.rename(temporary, name)


def keep_apart(output: str, traces: Iterable[str]) -> None:
    """Raises a Problem if the output would replace one of its input traces."""
    for trace in traces:
        with contextlib.suppress(OSError):  # the one or the other is not there; stdin
            if os.path.samefile(output, trace) and stat.S_ISREG(os.stat(trace).st_mode):
                raise Problem("is the trace itself, which would be lost: another name is needed", output)


def _target(output: str) -> str:
    """The file behind symbolic links. Does not follow another user's link."""
    path = output
    for _ in range(LINKS_MOST):
        if not os.path.islink(path):
            return path
        if os.lstat(path).st_uid not in (os.geteuid(), 0):
            raise Problem("is another user's symbolic link: another name is needed", output)
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    raise Problem(os.strerror(errno.ELOOP), output)


def create(path: str) -> BinaryIO:
    """Creates a new file. Fails if the name exists, also as a link."""
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666), "wb")


@contextlib.contextmanager
def temporary_beside(path: str, output: str) -> Iterator[str]:
    """A folder for temporary files beside the path, with a name that nobody can guess. Others can neither enter it nor make the command empty another
    folder in its place. It is removed at the end. An OSError about its files, or without a file name, becomes a Problem of the output."""
    folder = os.path.join(os.path.dirname(path), f".cprof-{secrets.token_hex(8)}.tmp")
    try:
        os.mkdir(folder, 0o700)
        own = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise Problem(error.strerror or str(error), output) from None
    try:
        yield folder
    except BrokenPipeError:
        raise
    except OSError as error:
        if isinstance(error.filename, str) and not error.filename.startswith(folder):
            raise
        raise Problem(error.strerror or str(error), output) from None
    finally:
        with contextlib.suppress(OSError):
            for name in os.listdir(own):
                os.unlink(name, dir_fd=own)
            os.rmdir(folder)
        os.close(own)


@contextlib.contextmanager
def appearing(output: str, force: bool) -> Iterator[Tuple[str, BinaryIO]]:
    """`with appearing(output, force) as (folder, file):` writes the file, which gets the name `output` at the end. Temporary files may be in the
    folder. Nothing is left on failure. force: replaces a regular file of that name, or to which a link of that name leads, and nothing
    else: root would lose /dev/null."""
    if os.path.lexists(output) and not force:
        raise Problem("is there already (--force replaces it)", output)
    path = _target(output) if force else output
    if os.path.lexists(path) and not os.path.isfile(path):
        raise Problem("is no file that could be replaced: another name is needed", output)
    try:
        with temporary_beside(path, output) as folder:
            whole = os.path.join(folder, "whole")
            with create(whole) as file:
                yield folder, file
            if force:
                os.replace(whole, path)
            else:
                take_name(whole, path)
    except FileExistsError:
        raise Problem("is there already (--force replaces it)", output) from None


@contextlib.contextmanager
def replacing(output: str, packed: bool = False) -> Iterator[Any]:
    """`with replacing(output) as file:` writes text, which replaces the file `output` when it is complete. Writes directly to what is no
    regular file (a pipe, /dev/stdout), but never waits for it. Errors name the file."""
    path = _target(output)
    if os.path.exists(output) and not os.path.isfile(output):
        with _to_other(output) as raw, _text_to(raw, packed) as file:
            yield file
        return
    with temporary_beside(path, output) as folder:
        whole = os.path.join(folder, "whole")
        with create(whole) as raw, _text_to(raw, packed) as file:
            yield file
        os.replace(whole, path)


@contextlib.contextmanager
def _to_other(output: str) -> Iterator[BinaryIO]:
    """Opens an output that is no regular file. Refuses a FIFO that nobody reads."""
    try:
        fd = os.open(output, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        os.set_blocking(fd, True)
        with open(fd, "wb") as file:
            yield file
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Problem("is a pipe that nobody reads" if error.errno == errno.ENXIO else error.strerror or str(error), output) from None


def _text_to(raw: BinaryIO, packed: bool) -> Any:
    if packed:
        return io.TextIOWrapper(gzip.GzipFile("", "wb", 6, raw), "utf-8", "backslashreplace")
    return io.TextIOWrapper(raw, "utf-8", "backslashreplace")


@contextlib.contextmanager
def appearing_folder(output: str) -> Iterator[str]:
    """`with appearing_folder(output) as folder:` fills a folder, which gets the name `output` at the end. Nothing is left on failure. Replaces
    nothing but an empty folder."""
    path = output.rstrip("/") or output
    if os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path) or os.listdir(path)):
        raise Problem("is there already, and is no empty folder: another name is needed", output)
    with temporary_beside(path, output) as beside:
        folder = os.path.join(beside, "whole")
        os.mkdir(folder)
        try:
            yield folder
            os.rename(folder, path)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
