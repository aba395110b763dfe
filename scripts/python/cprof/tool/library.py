# SPDX-License-Identifier: Apache-2.0
"""Finds libcprof.so, and puts it into a program's LD_PRELOAD."""

import os
import re
import subprocess
from typing import List, Mapping, Optional

from cprof.tool import Problem, note
from cprof.tool.elf import read_elf

NAME = "libcprof.so"
_COPY = re.compile(r"libcprof[^/]*\.so[.\d]*$")  # the name of any copy


def cached(name: str, whole: bool = True) -> Optional[str]:
    """The path of a library in the loader's cache. whole=False: of the first library whose name begins with `name`."""
    for program in ("ldconfig", "/sbin/ldconfig", "/usr/sbin/ldconfig"):
        try:
            listed = subprocess.run([program, "-p"], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                                    errors="replace", timeout=10, env=dict(os.environ, LD_PRELOAD="")).stdout
        except (OSError, subprocess.SubprocessError):
            continue
        for line in listed.splitlines():
            found, _, path = line.strip().partition(" => ")
            if path and (found.split(" ")[0] == name if whole else found.startswith(name)):
                return path
        return None
    return None


def candidates() -> List[str]:
    """Possible paths of the library, best first: in the package (a wheel), in a checkout, beside an installed command (PREFIX/share/cprof, PREFIX/bin)."""
    here = os.path.dirname(os.path.realpath(__file__))
    up = [os.path.normpath(os.path.join(here, *[".."] * n)) for n in range(1, 6)]
    found = [os.path.join(up[0], NAME)]
    found += [os.path.join(up[3], "build", NAME)]                          # checkout: scripts/python/cprof/tool
    found += [os.path.join(folder, "lib", NAME) for folder in up[2:5]]     # PREFIX/share/cprof/cprof/tool, a venv's lib
    return list(dict.fromkeys(found))


def find(given: Optional[str] = None) -> str:
    """The library's absolute path: from `given`, else CPROF_LIBRARY, else beside this command, else from the loader's cache."""
    for told, by in ((given, "--library"), (os.environ.get("CPROF_LIBRARY"), "CPROF_LIBRARY")):
        if told:
            path = os.path.join(told, NAME) if os.path.isdir(told) else told
            if read_elf(path) is None:
                raise Problem(f"{by}: " + ("is no library" if os.path.exists(path) else "is not there"), path)
            return os.path.abspath(path)
    for path in candidates():
        if os.path.isfile(path):
            return path
    path = cached(NAME)
    if path and os.path.isfile(path):
        return path
    raise Problem(f"{NAME} was not found: build it (make), install it (make install), or give its path with "
                  "--library or CPROF_LIBRARY")


def _where(part: str, environment: Mapping[str, str]) -> str:
    """The file that the loader finds for a part of LD_PRELOAD."""
    if "/" not in part:
        folders = [folder for folder in re.split("[:;]", environment.get("LD_LIBRARY_PATH", "")) if folder]
        found = next((path for path in (os.path.join(folder, part) for folder in folders) if os.path.isfile(path)), None)
        part = found or cached(part) or part
    return os.path.realpath(part)


def _parts(environment: Mapping[str, str]) -> List[str]:
    return [part for part in re.split(r"[ :]", environment.get("LD_PRELOAD", "")) if part]


def preload_value(library: str, environment: Mapping[str, str]) -> str:
    """LD_PRELOAD with the library appended, or in place of another copy."""
    check_name(library)
    others = other_copies(library, environment)
    value = [library if part in others else part for part in _parts(environment)]
    if not any(_is(library, part, environment) for part in value):
        value.append(library)
    return ":".join(dict.fromkeys(value))


def _is(library: str, part: str, environment: Mapping[str, str]) -> bool:
    return _where(part, environment) == os.path.realpath(library)


def other_copies(library: str, environment: Mapping[str, str]) -> List[str]:
    """Parts of LD_PRELOAD that are other copies of this library."""
    return [part for part in _parts(environment) if _COPY.match(os.path.basename(part)) and not _is(library, part, environment)]


def is_named(environment: Mapping[str, str]) -> bool:
    """Whether LD_PRELOAD names any copy of this library."""
    return any(_COPY.match(os.path.basename(part)) for part in _parts(environment))


def installed_beside(library: str) -> Optional[str]:
    """If the library is the wheel's: another copy, which the loader would find for the bare name in LD_PRELOAD."""
    other = cached(NAME) if library == candidates()[0] else None
    return other if other and os.path.realpath(other) != os.path.realpath(library) else None


def tell_other_copies(library: str, environment: Mapping[str, str]) -> None:
    """Prints a line for each copy that preload_value() replaces, or for a copy that is installed beside the wheel's."""
    others = other_copies(library, environment)
    for other in others:
        note(f"LD_PRELOAD names {other}, another copy of cprof: this run has {library} in its place")
    beside = None if others else installed_beside(library)
    if beside:
        note(f"{beside} is another copy of cprof: this run has {library}")


def check_name(library: str) -> None:
    """Refuses a path that LD_PRELOAD cannot hold: it has no quoting."""
    odd = re.search(r"[ :$]", library)
    if odd:
        raise Problem(f"LD_PRELOAD cannot name a path with {odd.group()!r} in it; install the library elsewhere", library)
