# SPDX-License-Identifier: Apache-2.0
"""Tensor memory over time, by what it is for: torch.profiler's export_memory_timeline(), from a trace.

The form follows from the name of FILE: .html is a page with the plot, .json and .json.gz hold [times, sizes by category],
.raw.json and .raw.json.gz a row [time, action, bytes, category] for each allocation and release.

What memory is for is told by where it was taken and given back, not by the tensors, which a trace does not know:
    optimizer state   taken in an optimizer's step, and kept beyond it
    gradient          taken in the backward pass, and kept beyond it
    autograd detail   taken in the backward pass, given back later in it
    activation        taken before the backward pass, given back in it
    input             taken in a DataLoader
    temporary         given back by the operator that took it, or in the same step without a backward pass
and unknown otherwise: parameters, for one, stand there before the trace begins.
"""

import argparse
import bisect
import gzip
import json
import os
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from cprof.tool import Problem, note
from cprof.tool.averages import NO_MEMORY
from cprof.tool.reader import open_trace
from cprof.tool.spans import Spans, Wanted, read_spans, surroundings

HELP = "tensor memory over time by what it is for, as a page or as torch's JSON"
# In the order of torch/profiler/_memory_profiler.py, _CATEGORY_TO_INDEX; the last is None there.
CATEGORIES = ("parameter", "optimizer state", "input", "temporary", "activation", "gradient", "autograd detail", "unknown")
(_PARAMETER, OPTIMIZER_STATE, INPUT, TEMPORARY, ACTIVATION, GRADIENT, AUTOGRAD_DETAIL, UNKNOWN) = range(8)
PREEXISTING, CREATE, _INCREMENT_VERSION, DESTROY = range(1, 5)
ENDINGS = (".html", ".raw.json", ".raw.json.gz", ".json", ".json.gz")


class Allocation(NamedTuple):
    """A piece of memory: when it was taken and given back (None: never seen), its size, what for, and whose it was."""
    start: Optional[int]
    end: Optional[int]
    size: int
    category: int
    owner: str


class Place(NamedTuple):
    """Where in the program memory was taken or given back."""
    owner: str             # innermost span, with what it runs in
    operator: Any          # outermost operator, as (row, index)
    backward: bool
    optimizer: Any         # likewise
    loader: bool


NOWHERE = Place("(no operator)", None, False, None, False)


class Timeline:
    """The memory of one device."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.allocations: List[Allocation] = []
        self.before = 0        # bytes that were there before the trace began
        self.begin = self.end = 0

    def actions(self) -> Iterator[Tuple[int, int, int, int]]:
        """(time, action, bytes, category) in order of time; what was there before has the time -1."""
        found: List[Tuple[int, int, int, int]] = []
        for one in self.allocations:
            if one.start is not None:
                found.append((one.start, CREATE, one.size, one.category))
            if one.end is not None:
                found.append((one.end, DESTROY, -one.size, one.category))
        found.sort(key=lambda action: action[0])
        if self.before:
            yield -1, PREEXISTING, self.before, UNKNOWN
        yield from found

    def coalesced(self, base: int) -> Tuple[List[int], List[List[int]]]:
        """torch's [times, sizes]: microseconds, and a 0 in front of the bytes of each category."""
        times: List[int] = []
        sizes: List[List[int]] = []
        for time, _, size, category in self.actions():
            us = -1 if time < 0 else (base + time) // 1000
            if not times or us != times[-1]:
                times.append(us)
                sizes.append(list(sizes[-1]) if sizes else [0] * (len(CATEGORIES) + 1))
            sizes[-1][category + 1] += size
        first = next((us for us in times if us >= 0), 0)
        return [first if us < 0 else us for us in times], sizes


def _places(spans: Spans) -> List[Place]:
    """Where each [memory] event happened."""
    places: List[Place] = [NOWHERE] * len(spans.memory_time)
    by_row: Dict[Any, List[int]] = {}
    for i, (place, _, _, _) in enumerate(spans.memory_more):
        by_row.setdefault(place, []).append(i)
    for place, indices in by_row.items():
        row = spans.rows.get(place)
        if row is None:
            continue
        around = surroundings(spans, row, [spans.memory_time[i] for i in indices])
        for i, opened in zip(indices, around):
            places[i] = _place(spans, place, row, opened)
    return places


def _place(spans: Spans, place: Any, row: Any, opened: Tuple[int, ...]) -> Place:
    names: List[str] = []
    operator = optimizer = None
    backward = loader = False
    for index in opened:
        kind = spans.kinds[row.kind[index]]
        name = kind.name
        if name.startswith("ProfilerStep") or kind.category == "python_function":
            continue
        if name.startswith("Optimizer.step#"):
            optimizer = (place, index)
        elif name.startswith("enumerate(DataLoader)#"):
            loader = True
        elif name.startswith("autograd::engine::evaluate_function"):
            backward = True
        elif operator is None and kind.category == "cpu_op":
            operator = (place, index)
        names.append(name)
    return Place(" > ".join(reversed(names[-3:])) if names else NOWHERE.owner, operator, backward, optimizer, loader)


def _category(taken: Place, given: Optional[Place], same_step: bool) -> int:
    if taken.loader:
        return INPUT
    if given is not None and taken.operator is not None and taken.operator == given.operator:
        return TEMPORARY
    if taken.optimizer is not None:
        return TEMPORARY if given is not None and given.optimizer == taken.optimizer else OPTIMIZER_STATE
    if taken.backward:
        return AUTOGRAD_DETAIL if given is not None and given.backward else GRADIENT
    if given is None or taken.operator is None:
        return UNKNOWN
    return ACTIVATION if given.backward else TEMPORARY if same_step else UNKNOWN


def timelines(spans: Spans) -> Dict[str, Timeline]:
    """The memory of each device."""
    places = _places(spans)
    found: Dict[str, Timeline] = {}
    live: Dict[Any, Tuple[int, Place]] = {}   # by device and address: number of the allocation, where it was taken
    known_before: Dict[str, int] = {}
    starts = [start for start, _, _ in spans.steps]

    def close(key: Any, time: int, given: Optional[Place]) -> None:
        at, taken = live.pop(key)
        line = found[key[0]]
        one = line.allocations[at]
        same_step = bisect.bisect(starts, one.start or 0) == bisect.bisect(starts, time)
        line.allocations[at] = one._replace(end=time, category=_category(taken, given, same_step))

    for i, (_, device, address, total) in enumerate(spans.memory_more):
        time, size = spans.memory_time[i], spans.memory_bytes[i] + spans.memory_device[i]
        line = found.get(device)
        if line is None:
            line = found[device] = Timeline(device)
            line.begin, line.before, known_before[device] = time, max(0, total - size), 0
        line.end = time
        key = (device, address)
        if size > 0:
            if key in live:  # its release was not recorded
                close(key, time, None)
            live[key] = (len(line.allocations), places[i])
            line.allocations.append(Allocation(time, None, size, UNKNOWN, places[i].owner))
        elif key in live:
            close(key, time, places[i])
        elif size < 0:
            line.allocations.append(Allocation(None, time, -size, UNKNOWN, "(taken before the trace)"))
            known_before[device] -= size
    for (device, _), (at, taken) in live.items():
        line = found[device]
        line.allocations[at] = line.allocations[at]._replace(category=_category(taken, None, False))
    for device, size in known_before.items():
        found[device].before = max(found[device].before, size)
    return found


# ---- the command ----

def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("trace", metavar="TRACE")
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="ends in " + ", ".join(ENDINGS))
    parser.add_argument("--device", metavar="DEVICE", help="cpu, cuda:N; default cuda:0 where there is one, else cpu")


def run(args: argparse.Namespace) -> int:
    export(args.trace, args.output, args.device, progress=True)
    return 0


def export(trace_path: str, path: str, device: Optional[str] = None, progress: bool = False) -> None:
    """Writes the timeline of a trace; the ending of the path chooses the form. Raises a Problem."""
    if not path.endswith(ENDINGS):
        raise Problem(f"the name must end in {' or '.join(ENDINGS)}", path)
    with open_trace(trace_path, progress) as trace:
        spans = read_spans(trace, Wanted(memory=True, flops=False))
    for line in trace.notes:
        note(line, trace_path)
    if not spans.has_memory:
        raise Problem(NO_MEMORY, trace_path)
    found = timelines(spans)
    chosen = device or ("cuda:0" if "cuda:0" in found else "cpu" if "cpu" in found else min(found))
    if chosen == "cuda":
        chosen = "cuda:0"
    if chosen not in found:
        raise Problem(f"holds no memory of {chosen}, but of {', '.join(sorted(found))}", trace_path)
    if path.endswith(".html"):
        from cprof.tool.memory_page import page
        others = [] if device else [found[name] for name in sorted(found) if name != chosen]
        text = page(os.path.basename(trace_path), [found[chosen]] + others, spans.steps)
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        return
    base = spans.metadata.get("baseTimeNanoseconds")
    base = base if type(base) is int else 0
    line = found[chosen]
    if ".raw.json" in path:
        content: Any = [[time if time < 0 else base + time, action, size, category]
                        for time, action, size, category in line.actions()]
    else:
        content = line.coalesced(base)
    with (gzip.open(path, "wt") if path.endswith(".gz") else open(path, "w")) as file:
        json.dump(content, file)
