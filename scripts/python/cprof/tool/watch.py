# SPDX-License-Identifier: Apache-2.0
"""The traces that a running program leaves: which windows are open (`….part`) and which are closed."""

import glob
import os
import re
from typing import Dict, List, Mapping, NamedTuple, Tuple

from cprof.tool.settings import by_name, is_on

PART = re.compile(r"(.*)\.(\d+)\.(-?\d+)\.part")  # PATH.PID.FIRST STEP.part (writer/path.h)
TABLE = re.compile(r"\.top(\.\d+~)?$")  # writer/top_file.c


class State(NamedTuple):
    """Files that are new or changed since the watch began."""
    open: List[str]
    closed: List[str]


def _pattern(template: str, values: Mapping[str, str]) -> str:
    """A glob of what the template may become."""
    def piece(match: "re.Match[str]") -> str:
        text = match.group()
        if text in ("{{", "}}"):
            return text[0]
        return glob.escape(values[text[1:-1]].replace("/", "_")) if values.get(text[1:-1]) else "*"
    parts = re.split(r"(\{\{|\}\}|\{[^{}]*\})", template)
    return "".join(re.sub(r"\{\{|\}\}|\{[^{}]*\}", piece, part) if part[:1] in "{}" and part else glob.escape(part)
                   for part in parts)


def _setting(name: str, environment: Mapping[str, str]) -> str:
    return environment.get(name, "").strip() or by_name()[name].default


class Watch:
    """Looks where an environment's settings put traces. What lies there already does not count."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        values = {"run_name": environment.get("CPROF_RUN_NAME", "").strip()}
        folder = _pattern(_setting("CPROF_FOLDER", environment), values)
        name = _pattern(_setting("CPROF_FILENAME", environment).lstrip("/"), values)
        if environment.get("CPROF_TENSORBOARD_DIR", "").strip():
            folder, name = _pattern(environment["CPROF_TENSORBOARD_DIR"].strip(), values), "*.pt.trace.json"
        if is_on(environment, "CPROF_USE_GZIP") and not name.endswith(".gz"):
            name += ".gz"
        # A name that is taken gets a number, and a child's its pid, before the ending.
        stem, ending = re.fullmatch(r"(.*?)((?:\.pt\.trace)?(?:\.json)?(?:\.gz)?)", name, re.IGNORECASE | re.S).groups()
        self._closed = os.path.join(os.getcwd(), folder, stem.rstrip("*") + "*" + ending)
        self._open = self._closed + ".*.part"
        self._before = self._look()

    def _look(self) -> Dict[str, Tuple[int, int]]:
        found = {}
        for path in glob.glob(self._open) + glob.glob(self._closed):
            try:
                info = os.stat(path)
            except OSError:
                continue
            if not TABLE.search(path):
                found[path] = (info.st_ino, info.st_mtime_ns)
        return found

    def state(self) -> State:
        """What is open and closed by now."""
        found = [path for path, what in self._look().items() if self._before.get(path) != what]
        return State(sorted(path for path in found if PART.fullmatch(path)),
                     sorted((path for path in found if not PART.fullmatch(path)), key=natural))


def natural(path: str) -> List:
    """Sorts rank0.12 after rank0.7."""
    return [(1, int(part), "") if part.isdigit() else (0, 0, part) for part in re.split(r"(\d+)", path)]


def size_text(n: float) -> str:
    """1.3 MB"""
    for unit in ("bytes", "kB", "MB", "GB"):
        if n < 1000 or unit == "GB":
            return f"{n:.0f} {unit}" if unit == "bytes" else f"{n:.1f} {unit}"
        n /= 1000
    return ""
