# SPDX-License-Identifier: Apache-2.0
"""Reads the lists of saved traces, saved_traces.jsonl, that the library writes beside the traces: one line per trace and rank."""

from __future__ import annotations

import collections
import errno
import itertools
import json
import os
from typing import Iterable, List, NamedTuple, Optional, Tuple, Union

from cprof._untrusted import lines_in, open_regular

LIST_NAME = "saved_traces.jsonl"

Folder = Union[str, "os.PathLike[str]"]


class SavedTime(NamedTuple):
    """The progress of training when a trace was saved: counts of complete epochs, batches, samples and tokens, and wall-clock seconds."""
    epoch: int
    batch: int
    batch_in_epoch: int
    sample: int
    sample_in_epoch: int
    token: int
    token_in_epoch: int
    total_wct: float
    epoch_wct: float
    batch_wct: float


SavedTraces = List[Tuple[SavedTime, List[Optional[str]]]]


MOST_RANKS = 1 << 20   # limits the rank in a line, which is an index into a list
LIST_MOST = 64 << 20   # bytes of a list that are read; a line of the library has some hundred bytes
LINE_MOST = 1 << 16
PLACES_MOST = 1 << 24  # ranks times moments


def is_sound(line: dict) -> bool:
    """Whether a line holds what the library writes (preload/delivery/saved.c)."""
    return (all(type(line[key]) is int for key in ("rank", "world_size", "keep", "saved_ns")) and
            type(line.get("began_ns", 0)) is int and type(line["path"]) is str and type(line["run_name"]) is str and
            0 <= line["rank"] < MOST_RANKS and line["world_size"] <= MOST_RANKS and
            all(type(value) in (int, float) for value in line["timestamp"].values()))


def lines_of(folder: Folder, start: int = 0) -> Iterable[dict]:
    """The lines of one list from byte `start` on. Skips other lines, for example one that a full disk cut. Raises an OSError if the list is no
    regular file, or has more than LIST_MOST bytes after `start`."""
    try:
        file = open_regular(os.path.join(folder, LIST_NAME), start + LIST_MOST)
    except FileNotFoundError:
        return
    with file:
        file.seek(start)
        for text in lines_in(file, LINE_MOST, LIST_MOST):
            try:
                line = json.loads(text.decode("utf-8", "surrogateescape"))
                if not is_sound(line):
                    continue
                line["time"] = SavedTime(**line["timestamp"])
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                continue
            yield line


def _lists_in(folder: Folder) -> List[Folder]:
    """The folder if it has a list, else the folders below it that have one: a file name template may contain folders."""
    if os.path.exists(os.path.join(folder, LIST_NAME)):
        return [folder]
    return sorted(path for path, _, names in os.walk(folder) if LIST_NAME in names)


def _moments(lines: List[dict]) -> List[List[dict]]:
    """The lines of one run, grouped by the moment of saving, oldest first. The nth trace that a rank saved at a batch belongs to
    the nth of every other rank. The windows of the rank with most traces give the order, by their beginnings: ranks are not in step, and
    a window that waits for spans is saved after later windows."""
    moments: dict = {}
    seen: dict = {}
    for line in lines:
        at = line["time"].epoch, line["time"].batch
        nth = seen.get((line["rank"], at), 0)
        seen[line["rank"], at] = nth + 1
        moments.setdefault((at, nth), []).append(line)
    count = collections.Counter(line["rank"] for line in lines)
    leader = max(sorted(count), key=count.__getitem__)

    def order(moment: List[dict]) -> int:
        return min(line.get("began_ns", line["saved_ns"]) for line in moment if line["rank"] == leader or leader not in {o["rank"] for o in moment})

    return sorted(moments.values(), key=order)


def saved_traces(folder: Union[Folder, Iterable[Folder]]) -> SavedTraces:
    """The traces that runs have saved in or below a folder, or in several folders if each rank has its own: a list of (timestamp, paths),
    newest last. paths[rank] is the path that this global rank wrote, valid on its node; None if the rank saved no trace then. As in
    Composer's TorchProfiler.saved_traces, a run has at most CPROF_NUM_TRACES_TO_KEEP entries."""
    folders = [folder] if isinstance(folder, (str, os.PathLike)) else list(folder)
    by_path: dict = {}
    for one in itertools.chain.from_iterable(map(_lists_in, folders)):
        for line in lines_of(one):
            by_path.pop((line["rank"], line["path"]), None)  # a later run may have replaced a file
            by_path[line["rank"], line["path"]] = line
    runs: dict = {}
    for line in by_path.values():
        runs.setdefault(line["run_name"], []).append(line)
    found = []
    for lines in sorted(runs.values(), key=lambda of: min(line["saved_ns"] for line in of)):
        moments = _moments(lines)
        keep = max(line["keep"] if line["keep"] >= 0 else len(moments) for line in lines)
        found += moments[len(moments) - min(keep, len(moments)):]
    result: SavedTraces = []
    sizes = [max(max(line["world_size"], line["rank"] + 1) for line in moment) for moment in found]
    if sum(sizes) > PLACES_MOST:
        raise OSError(errno.EFBIG, f"a list names {sum(sizes):,} places for traces: at most {PLACES_MOST:,} are read", LIST_NAME)
    for moment, size in zip(found, sizes):
        paths: List[Optional[str]] = [None] * size
        for line in moment:
            paths[line["rank"]] = line["path"]
        result.append((min(moment, key=lambda line: line["rank"])["time"], paths))
    return result
