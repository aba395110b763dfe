# SPDX-License-Identifier: Apache-2.0
"""Arrays of numbers for traces of any size. Arrays beyond some tens of megabytes go to a temporary file.

    columns = Columns()
    start = columns.new("q")
    start.append(7)                 # an ordinary array while it grows
    columns.trim()                  # now and then: moves large arrays to the file
    columns.finish()
    start = columns.whole(start)    # the whole array, to be read by index: an array or a memoryview
    forget()                        # now and then: frees the memory of pages that were read

The file has no name and disappears with the process. tempfile chooses its folder (TMPDIR). If the disk is full, the arrays stay in memory.
"""

import mmap
import tempfile
import weakref
from array import array
from typing import Any, Dict, List, Tuple

LIMIT = 4 << 20      # bytes of one Columns in memory
WORTH = 1 << 12       # bytes of an array that are worth a write
LOOKED_AT = 128       # arrays that a trim() visits on average, at most: a trace of many threads has many arrays
_ALIGN = 8

_maps: "weakref.WeakSet[mmap.mmap]" = weakref.WeakSet()  # those of all arrays in use, whose Columns may be gone


def forget() -> None:
    """Frees the memory of pages that were read from files."""
    if hasattr(mmap, "MADV_DONTNEED"):
        for one in _maps:
            one.madvise(mmap.MADV_DONTNEED)


class Columns:
    """Arrays that share one temporary file."""

    def __init__(self) -> None:
        self._arrays: List[array] = []
        self._written: Dict[int, List[Tuple[int, int]]] = {}  # by id of the array: places and sizes in the file
        self._whole: Dict[int, Any] = {}
        self._file: Any = None
        self._full = False  # the disk is full
        self._passed = 0    # calls of trim() since it last visited the arrays

    def new(self, typecode: str) -> array:
        """Makes an array."""
        self._arrays.append(array(typecode))
        return self._arrays[-1]

    def length(self, one: array) -> int:
        """The number of numbers appended to the array. Call it before finish()."""
        return len(one) + sum(size for _, size in self._written.get(id(one), ())) // one.itemsize

    def trim(self) -> None:
        """Moves large arrays to the file. Takes time for each array: do not call it for each number."""
        self._passed += 1
        if self._passed * LOOKED_AT < len(self._arrays):
            return
        self._passed = 0
        if self._full or sum(len(one) * one.itemsize for one in self._arrays) <= LIMIT:
            return
        for one in self._arrays:
            if len(one) * one.itemsize >= WORTH and not self._write(one):
                return

    def _write(self, one: array) -> bool:
        try:
            self._file = self._file or tempfile.TemporaryFile(buffering=0)
            at, data = self._file.seek(0, 2), memoryview(one).cast("B")
            done = 0
            while done < len(data):
                done += self._file.write(data[done:])
        except OSError:
            self._full = True
            return False
        finally:
            data = None
        self._written.setdefault(id(one), []).append((at, done))
        del one[:]
        return True

    def finish(self) -> None:
        """Ends the appending."""
        if not self._written:
            return
        source, self._file = self._file, None
        found: List[Tuple[array, int, int]] = []
        try:
            target = tempfile.TemporaryFile(buffering=1 << 20)
            for one in self._arrays:
                pieces = self._written.get(id(one))
                if pieces:
                    target.write(bytes(-target.tell() % _ALIGN))
                    at = target.tell()
                    for place, size in pieces:
                        _copy(source, place, size, target)
                    target.write(memoryview(one).cast("B") if one else b"")
                    found.append((one, at, target.tell()))
            target.flush()
            mapped = mmap.mmap(target.fileno(), 0)
            _maps.add(mapped)
            view = memoryview(mapped)
            self._whole = {id(one): view[at:end].cast(one.typecode) for one, at, end in found}
        except OSError:  # reads it back: memory may suffice
            for one in self._arrays:
                if self._written.get(id(one)):
                    self._whole[id(one)] = _read_back(source, self._written[id(one)], one)
        source.close()
        for one, _, _ in found:
            del one[:]

    def whole(self, one: array) -> Any:
        """All numbers appended to the array. Call it after finish()."""
        return self._whole.get(id(one), one)


def _copy(source: Any, at: int, size: int, target: Any) -> None:
    source.seek(at)
    while size:
        data = source.read(min(size, 1 << 20))
        if not data:
            raise OSError("the temporary file is too short")
        target.write(data)
        size -= len(data)


def _read_back(source: Any, pieces: List[Tuple[int, int]], one: array) -> array:
    found = array(one.typecode)
    for at, size in pieces:
        source.seek(at)
        while size:
            data = source.read(min(size, 1 << 20) // found.itemsize * found.itemsize)
            if not data:
                raise OSError("the temporary file is too short")
            found.frombytes(data)
            size -= len(data)
    found.extend(one)
    return found
