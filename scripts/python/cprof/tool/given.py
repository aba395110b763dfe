# SPDX-License-Identifier: Apache-2.0
"""Finds the traces for a sub-command: given files, given folders of runs, or by default the newest run below the current folder."""

import argparse
import os
from typing import List, Tuple

from cprof.tool import Problem, note
from cprof.tool.reader import open_trace
from cprof.tool.watch import natural

ENDINGS = (".json", ".json.gz")
WITHIN = "torch_traces"  # the last part of CPROF_FOLDER's default
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


def _newest() -> str:
    """The trace folder of the newest run below the current folder."""
    with os.scandir(".") as entries:
        folders = [os.path.join(entry.name, WITHIN) for entry in entries if entry.is_dir()]
    times = {folder: max(map(os.path.getmtime, inside)) for folder, inside in ((folder, _inside(folder)) for folder in folders) if inside}
    if not times:
        raise Problem(f"no trace was named, and no run is below this folder (NAME/{WITHIN}/*.json)")
    newest = max(sorted(times), key=lambda folder: times[folder])
    note("the newest run below this folder", newest)
    return newest


def traces_of(given: List[str], merged: bool = False) -> List[str]:
    """The files for the arguments. merged: includes merged traces found in a folder. Raises a Problem."""
    found = []
    for path in given or [_newest()]:
        found += _traces_in(path, merged) if os.path.isdir(path) else [path]
    return found


def trace_of(given: List[str]) -> str:
    """The only file for the arguments. Raises a Problem if there are several."""
    found = traces_of(given)
    if len(found) > 1:
        names = ", ".join(found[:SHOWN]) + (f" and {len(found) - SHOWN} more" if len(found) > SHOWN else "")
        raise Problem(f"one trace is needed, there are {len(found)}: {names}")
    return found[0]
