# SPDX-License-Identifier: Apache-2.0
"""Traces on other machines: addresses such as s3://BUCKET/RUN, which fsspec reads (the extra cprof[remote]). Local paths never import it.

Files are read in pieces and never copied. All errors are OSErrors with a text for people. Addresses appear in messages, so one with a
password or a signature is refused: fsspec takes credentials from the environment and from files."""

import contextlib
import errno
import io
import os
import re
from typing import Any, BinaryIO, Iterator, List, Tuple

from cprof._untrusted import open_regular, printable
from cprof.tool import Problem

BLOCK = 2 << 20    # bytes that are requested at once
TEXT_MOST = 200    # characters of an error
_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]*://")
_PASSWORD = re.compile(r"://[^@]*:[^@]*@")  # with a "/" in it, too, although that is no sound address
_SECRET = re.compile(r"://[^\s'\"]*[@?][^\s'\"]*")  # an address in an error that may have a password or a signature
_HTTP = ("http://", "https://")
LOCAL = "file://"


def is_remote(path: str) -> bool:
    """Whether fsspec reads it."""
    return _ADDRESS.match(path) is not None


def checked(path: str) -> str:
    """The path, or the address if it is sound. Raises a Problem."""
    if path.startswith(LOCAL):
        return path[len(LOCAL):]
    if is_remote(path):
        if _PASSWORD.search(path) or path.startswith(_HTTP) and "?" in path:
            raise Problem("an address with a password or a query is not read: keep credentials in the environment or in fsspec's files",
                          path.partition("://")[0] + "://...")
        if "::" in path:
            raise Problem("is a chain of addresses: only one is read", path)
    return path


def open_file(path: str) -> BinaryIO:
    """Opens a regular file, or that of an address. Raises an OSError."""
    return opened(path) if is_remote(path) else open_regular(path)


def opened(path: str) -> BinaryIO:
    """Opens the file of an address for reading. Raises an OSError."""
    with _told(path):
        files, name = _at(path)
        about = files.info(name)
        if about.get("type") == "directory":
            raise IsADirectoryError(path)
        if about.get("type") != "file":
            raise OSError(errno.EINVAL, "is not a regular file", path)
        streams = path.startswith(_HTTP) and not about.get("partial")  # the server sends whole files only
        return io.BufferedReader(_Raw(path, files.open(name, "rb", block_size=0 if streams else BLOCK)), BLOCK)  # type: ignore[return-value]


def is_folder(path: str) -> bool:
    """Whether the path, of this machine or an address, is a folder. A web page is one if its address ends in a slash."""
    if not is_remote(path):
        return os.path.isdir(path)
    if path.startswith(_HTTP):
        return path.endswith("/")
    return _is(path, "isdir")


def is_file(path: str) -> bool:
    """Whether the path, of this machine or an address, is a file."""
    return _is(path, "isfile") if is_remote(path) else os.path.isfile(path)


def _is(path: str, what: str) -> bool:
    """False also if nobody can tell: whoever opens the file reports why."""
    try:
        with _told(path):
            files, name = _at(path)
            return getattr(files, what)(name)
    except OSError:
        return False


def listing(folder: str) -> List[str]:
    """The addresses of the files in a folder. Raises an OSError."""
    with _told(folder):
        files, name = _at(folder)
        names = [entry["name"].rsplit("/", 1)[-1] for entry in files.ls(name, detail=True) if entry["type"] == "file"]
    return [os.path.join(folder, one) for one in names if one]


def write(path: str, content: bytes) -> None:
    """Writes a whole file. Raises an OSError."""
    with _told(path):
        files, name = _at(path)
        files.pipe_file(name, content)


def _at(path: str) -> Tuple[Any, str]:
    """The file system of an address, and the name in it."""
    import fsspec.core
    return fsspec.core.url_to_fs(path)


@contextlib.contextmanager
def _told(path: str) -> Iterator[None]:
    """Makes an OSError of any error. File systems raise what their libraries do."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path) from None
    except IsADirectoryError:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path) from None
    except ImportError as error:
        raise OSError(errno.ENOPKG, f"needs a package ({printable(error)}): pip install 'cprof[remote]'", path) from None
    except MemoryError:
        raise
    except Exception as error:
        text = _SECRET.sub("://...", getattr(error, "strerror", None) or str(error).strip() or type(error).__name__)
        raise OSError(getattr(error, "errno", None) or errno.EIO, printable(text[:TEXT_MOST]), path) from None


class _Raw(io.RawIOBase):
    """A file of fsspec with errors as of _told()."""

    def __init__(self, path: str, file: Any) -> None:
        self._path, self._file = path, file
        self.size = getattr(file, "size", None)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _told(self._path):
            found = self._file.read(len(buffer))
        buffer[:len(found)] = found
        return len(found)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        with _told(self._path):
            return self._file.seek(offset, whence)

    def tell(self) -> int:
        with _told(self._path):
            return self._file.tell()

    def close(self) -> None:
        if not self.closed:
            with contextlib.suppress(Exception):
                self._file.close()
        super().close()
