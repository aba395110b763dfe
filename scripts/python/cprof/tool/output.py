# SPDX-License-Identifier: Apache-2.0
"""A file that appears when it is whole."""

import contextlib
import errno
import gzip
import os
import shutil
import signal
import stat
import sys
from typing import Any, Iterable, Iterator, Tuple

from cprof.tool import Problem


NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EMLINK, errno.ENOSYS)


def end_tidily() -> None:
    """SIGTERM and SIGHUP, with which a terminal closes, are to remove temporary files, as ^C does. One that is ignored (nohup) stays so."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, lambda number, _: sys.exit(128 + number))


def take_name(temporary: str, name: str) -> None:
    """Gives the file a name that nothing has; FileExistsError when something has it."""
    try:
        os.link(temporary, name)
    except OSError as error:
        if error.errno not in NO_LINKS:
            raise
        if os.path.lexists(name):  # a moment's gap: such file systems know no better
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), name) from None
        os.rename(temporary, name)


def keep_apart(output: str, traces: Iterable[str]) -> None:
    """A Problem where the output would take the place of a trace that it is made of."""
    for trace in traces:
        with contextlib.suppress(OSError):  # the one or the other is not there; stdin
            if os.path.samefile(output, trace) and stat.S_ISREG(os.stat(trace).st_mode):
                raise Problem("is the trace itself, which would be lost: another name is needed", output)


@contextlib.contextmanager
def appearing(output: str, force: bool) -> Iterator[Tuple[str, str]]:
    """`with appearing(output, force) as (folder, whole):` is to write the file `whole`, which becomes `output` at the end; other files may
    stand in the folder meanwhile. Nothing is left when it fails. force: replaces the file that has that name, or that a link of that
    name leads to, and nothing else: root would lose /dev/null."""
    if os.path.lexists(output) and not force:
        raise Problem("is there already (--force replaces it)", output)
    path = os.path.realpath(output) if force else output
    if os.path.lexists(path) and not os.path.isfile(path):
        raise Problem("is no file that could be replaced: another name is needed", output)
    folder = os.path.join(os.path.dirname(path) or ".", f".{os.path.basename(path)}.{os.getpid()}.tmp")
    whole = os.path.join(folder, "whole")
    try:
        os.mkdir(folder)
        yield folder, whole
        if force:
            os.replace(whole, path)
        else:
            take_name(whole, path)
    except FileExistsError:
        raise Problem("is there already (--force replaces it)", output) from None
    except OSError as error:
        if isinstance(error.filename, str) and not error.filename.startswith(folder):
            raise
        raise Problem(error.strerror or str(error), output) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def replacing(output: str, packed: bool = False) -> Iterator[Any]:
    """`with replacing(output) as file:` is to write text, which takes the place of the file `output` when all of it is there; what is no
    regular file (a pipe, /dev/stdout) is written to. Says in which file something went wrong."""
    path = os.path.realpath(output)
    other = os.path.exists(path) and not stat.S_ISREG(os.stat(path).st_mode)
    temporary = path if other else os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.{os.getpid()}.tmp")
    try:
        try:
            with (gzip.open(temporary, "wt", 6, "utf-8", "backslashreplace") if packed else
                  open(temporary, "w", encoding="utf-8", errors="backslashreplace")) as file:
                yield file
            if not other:
                os.replace(temporary, path)
        finally:
            if not other and os.path.lexists(temporary):
                os.unlink(temporary)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise Problem(error.strerror or str(error), output) from None
