# SPDX-License-Identifier: Apache-2.0
"""Names for return addresses in ELF files, from their symbols. Only for files of this machine: those of another may differ."""

import bisect
import os
import shutil
import struct
import subprocess
from typing import Dict, List, Optional, Tuple

from cprof._untrusted import open_regular, printable

SYMTAB, DYNSYM, FUNCTION = 2, 11, 2
FILE_MOST = 4 << 30  # bytes of a library
TABLE_MOST = 1 << 28  # bytes of its symbols or their names


def _tables(file) -> List[Tuple[bytes, bytes]]:
    """(symbols, names) of the file's symbol tables."""
    head = file.read(64)
    if len(head) < 64 or head[:6] != b"\x7fELF\x02\x01":
        return []
    at, (size, count) = struct.unpack_from("<Q", head, 40)[0], struct.unpack_from("<HH", head, 58)
    file.seek(at)
    sections = [struct.unpack_from("<IIQQQQIIQQ", raw) for raw in iter(lambda: file.read(size), b"")][:count] if size == 64 else []

    def bytes_of(section) -> bytes:
        file.seek(section[4])
        return file.read(min(section[5], TABLE_MOST))

    return [(bytes_of(one), bytes_of(sections[one[6]])) for one in sections if one[1] in (SYMTAB, DYNSYM) and one[6] < len(sections)]


def _names_in(path: str, addresses: List[int]) -> Dict[int, str]:
    """The functions that hold the addresses, as they are in the file."""
    wanted, found = sorted(addresses), {}
    try:
        with open_regular(path, FILE_MOST) as file:
            tables = _tables(file)
    except (OSError, struct.error, MemoryError):
        return {}
    for symbols, names in tables:
        for name, info, _, _, start, size in struct.iter_unpack("<IBBHQQ", symbols[:len(symbols) // 24 * 24]):
            if info & 15 != FUNCTION or not size:
                continue
            for n in range(bisect.bisect_left(wanted, start), bisect.bisect_left(wanted, start + size)):
                found.setdefault(wanted[n], names[name:names.find(b"\0", name)].decode("utf-8", "replace"))
    return found


def _demangled(names: List[str]) -> List[str]:
    tool = shutil.which("c++filt")
    if not tool or not any(name.startswith("_Z") for name in names):
        return names
    done = subprocess.run([tool, "-p"], input="\n".join(names), capture_output=True, text=True)
    plain = done.stdout.splitlines()
    return plain if len(plain) == len(names) else names


def native_names(frames: List[str]) -> List[str]:
    """Lines for frames of the form FILE+0xADDRESS, the innermost first: "function (library.so)", or "library.so+0xADDRESS"."""
    places: List[Optional[Tuple[str, int]]] = []
    by_file: Dict[str, List[int]] = {}
    for at, frame in enumerate(frames):
        path, plus, text = frame.rpartition("+0x")
        try:
            place = (path, int(text, 16) - (at > 0)) if plus and path != "?" else None  # a return address is behind its call
        except ValueError:
            place = None
        places.append(place)
        if place:
            by_file.setdefault(place[0], []).append(place[1])
    known = {path: _names_in(path, addresses) for path, addresses in by_file.items()}
    names = [known[place[0]].get(place[1], "") if place else "" for place in places]
    return [printable(f"{name} ({os.path.basename(place[0])})" if name and place else os.path.basename(frame))
            for name, place, frame in zip(_demangled(names), places, frames)]
