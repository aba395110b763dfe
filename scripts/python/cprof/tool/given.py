# SPDX-License-Identifier: Apache-2.0
"""Finds the traces for a sub-command: given files, given folders of runs (also addresses, remote.py), or by default the newest run below the current folder."""

import argparse
import contextlib
import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from cprof._saved import LIST_NAME, lines_of
from cprof.tool import Problem, note
from cprof.tool.reader import open_trace
from cprof.tool.remote import checked, is_folder, is_remote, listing
from cprof.tool.summary_file import SUFFIX
from cprof.tool.watch import natural

ENDINGS = (".json", ".json.gz")
WITHIN = "torch_traces"  # the last part of CPROF_FOLDER's default
USUAL = (".pt.trace.json", ".pt.trace.json.gz")  # the endings of CPROF_FILENAME's default and of CPROF_TENSORBOARD_DIR
LEVELS, FOLDERS_MOST = 4, 10000                  # below the current folder that are searched for the newest run
SHOWN = 4                # names in a message


def row_limit(text: str) -> int:
    """An argument's value: a number of rows, or -1 for all."""
    value = int(text)
    if value < -1:
        raise argparse.ArgumentTypeError("must be -1 (all) or more")
    return value


row_limit.__name__ = "number of rows"  # in argparse's message


def add_traces(parser: argparse.ArgumentParser, one: bool = False) -> None:
    """Adds the argument `traces`, a list. one: the sub-command needs a single trace."""
    parser.add_argument("traces", nargs="*", metavar="FOLDER|TRACE", help=f"{'a trace' if one else 'traces'}, or the folder of a run; "
                        "without one the newest run below the current folder")


def _inside(folder: str, endings: Tuple[str, ...] = ENDINGS) -> List[str]:
    """The traces of a folder, in their natural order."""
    try:
        if is_remote(folder):
            return sorted((path for path in listing(folder) if path.endswith(endings)), key=natural)
        with os.scandir(folder) as entries:
            found = [entry.path for entry in entries if entry.name.endswith(endings) and entry.is_file()]
    except FileNotFoundError:
        return []
    return sorted(found, key=natural)


def _single(inside: List[str], folder: str) -> List[str]:
    """The traces of a single rank. Leaves out merged traces and other JSON files in the same folder."""
    found, left_out = [], []
    for path in inside:
        try:
            with open_trace(path) as trace:
                trace.past_large = True
                if trace.is_merged:
                    left_out.append(f"{path}: is merged of several ranks")
                else:
                    found.append(path)
        except Problem as problem:
            left_out.append(str(problem))
    if not found:
        raise Problem(f"holds no trace of a single rank ({left_out[0]})", folder)
    for text in left_out:
        note(f"{text}: left out")
    return found


def _traces_in(folder: str, merged: bool) -> List[str]:
    """The traces in a run's folder, or in the folder of its traces. Raises a Problem if there are none."""
    found = _inside(folder) or _inside(os.path.join(folder, WITHIN))
    if not found:
        opened = [path for path in (folder, os.path.join(folder, WITHIN)) if _inside(path, (".part",))]
        more = f"; it holds open files (*.part): name one, or cprof recover {opened[0]}" if opened else ""
        raise Problem(f"holds no traces (*.json, *.json.gz){more}", folder)
    return found if merged else _single(found, folder)


def _summaries_alone(folder: str) -> List[str]:
    """The summaries of a folder whose traces are elsewhere."""
    for where in (folder, os.path.join(folder, WITHIN)):
        inside = _inside(where, (SUFFIX,))
        if inside:
            traces = set(_inside(where))
            return [path for path in inside if path[:-len(SUFFIX)] not in traces]
    return []


# ---- the newest run ----

class _Found(NamedTuple):
    """A folder with traces."""
    path: str
    traces: Dict[str, float]  # their times
    list: List[Dict[str, Any]]  # the lines of its list of traces, if it has one

    @property
    def newest(self) -> str:
        """The trace that was written last."""
        return max(sorted(self.traces), key=self.traces.__getitem__)

    def run_of(self, trace: str) -> str:
        """The run's name that the list gives; "" if it names no such trace."""
        name = os.path.basename(trace)
        return next((line["run_name"] for line in reversed(self.list) if os.path.basename(line["path"]) == name), "")

    def of_run(self, name: str) -> List[str]:
        """The traces of this run, and those that the list does not name."""
        return [trace for trace in sorted(self.traces, key=natural) if self.run_of(trace) in (name, "")]

    def ranks(self, name: str) -> Set[int]:
        """The ranks of this run whose traces the list names."""
        return {line["rank"] for line in self.list if line["run_name"] == name}


def _look(folder: str) -> Tuple[Optional[_Found], List[str]]:
    """The folder if it holds traces of cprof, and the folders in it. Those are known by the list beside them, or by the folder's or the
    traces' usual name: a recovered trace is in no list."""
    try:
        with os.scandir(folder) as entries:
            inside = sorted(entries, key=lambda entry: entry.name)
        below = [os.path.normpath(entry.path) for entry in inside if not entry.name.startswith(".") and entry.is_dir()]
        usual = os.path.basename(os.path.abspath(folder)) == WITHIN or any(entry.name == LIST_NAME or entry.name.endswith(USUAL) for entry in inside)
        times = {os.path.normpath(entry.path): entry.stat().st_mtime for entry in inside if usual and entry.name.endswith(ENDINGS) and entry.is_file()}
    except OSError:
        return None, []
    lines: List[Dict[str, Any]] = []
    with contextlib.suppress(OSError):
        lines = list(lines_of(folder)) if times else []
    return _Found(folder, times, lines) if times else None, below


def _found_below() -> Iterator[_Found]:
    """The folders of traces below the current one, which may be one itself: the nearest first, LEVELS levels and FOLDERS_MOST folders at most."""
    level, left = ["."], FOLDERS_MOST
    for _ in range(LEVELS + 1):
        following: List[str] = []
        for folder in level[:left]:
            found, below = _look(folder)
            following += below
            if found:
                yield found
        left -= len(level)
        level = following if left > 0 else []


def _newest() -> List[str]:
    """The traces of the newest run below the current folder. Folders of the same run name belong to it as far as they hold other ranks."""
    found = sorted(_found_below(), key=lambda one: one.traces[one.newest], reverse=True)
    if not found:
        raise Problem(f"no trace was named, and no run is below this folder (such as NAME/{WITHIN}/*.json)")
    name = found[0].run_of(found[0].newest)
    ranks: Set[int] = set()
    folders = []
    for one in found:
        own = one.ranks(name) if name else set()
        if not folders or own and not own & ranks:
            folders.append(one)
            ranks |= own
    folders.sort(key=lambda one: natural(one.path))
    more = f" (in {len(folders)} folders)" if len(folders) > 1 else ""
    note(f"the newest run below this folder{more}", os.path.normpath(folders[0].path))
    return [trace for one in folders for trace in one.of_run(name)]


def traces_of(given: List[str], merged: bool = False, summaries: bool = False) -> List[str]:
    """The files for the arguments. merged: includes merged traces found in a folder. summaries: includes summaries whose trace is elsewhere.
    Raises a Problem."""
    if not given:
        newest = _newest()
        return newest if merged else _single(newest, os.path.dirname(newest[0]) or ".")
    found = []
    for path in map(checked, given):
        if not is_folder(path):
            found.append(path)
            continue
        alone = _summaries_alone(path) if summaries else []
        traces = [] if alone and not any(map(_inside, (path, os.path.join(path, WITHIN)))) else _traces_in(path, merged)
        found += sorted(alone + traces, key=natural) if alone else traces
    return found


def trace_of(given: List[str]) -> str:
    """The only file for the arguments. Raises a Problem if there are several."""
    found = traces_of(given)
    if len(found) > 1:
        names = ", ".join(found[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
        raise Problem(f"one trace is needed, there are {len(found)}: {names}")
    return found[0]
