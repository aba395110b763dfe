# SPDX-License-Identifier: Apache-2.0
"""The tables of `cprof top --by`: self times added up by step, module, line, kernel, device or category."""

import bisect
import os
import re
from typing import Any, Callable, Dict, Iterator, List, Tuple

from cprof._untrusted import read_text
from cprof.tool import Problem, note, printable
from cprof.tool.averages import NO_STACKS, format_share, format_time
from cprof.tool.categories import runs_on_device
from cprof.tool.fast import fast_numpy
from cprof.tool.reader import open_trace
from cprof.tool.span_batches import Batch
from cprof.tool.span_roots import walk_all
from cprof.tool.span_stacks import StackFinder
from cprof.tool.span_tree import Node
from cprof.tool.span_reader import Wanted, read_spans
from cprof.tool.spans import Kind, Spans, args_of, module_of, step_number
from cprof.tool.steps import STEPS
from cprof.tool.thread_states import line_of
from cprof.tool.top_table import bar, fitted

BY = ("step", "module", "line", "kernel", "device", "category")
NO_MODULES = "holds no modules: record it with CPROF_WITH_MODULES=1 (torch.profiler: with_stack=True)"
NO_STEPS = "holds no steps: mark them (CPROF_STEP says how)"
NO_DEVICE = "holds nothing that ran on a GPU"
OUTSIDE = "(outside)"
RANGES = "user_annotation"  # the category of steps and ranges
_FRAME = re.compile(r"(.*\.py)\((\d{1,9})\): ")
Result = Tuple[List[str], List[List[Any]], Callable[[List[List[Any]]], str]]


class _Sum:
    """Self times of one group in nanoseconds, and its number of spans."""

    __slots__ = ("cpu", "device", "count", "wall")

    def __init__(self) -> None:
        self.cpu = self.device = self.count = self.wall = 0


def _device_of(event: Dict[str, Any]) -> str:
    args = args_of(event)
    return f"GPU {args.get('device', event.get('pid'))}" if runs_on_device(event.get("cat"), args) else "CPU"


def breakdown(by: str, paths: List[str]) -> Result:
    """Columns, rows, and a function that prints rows. The longest rows come first; steps are sorted by number."""
    sums: Dict[str, _Sum] = {}
    outside = 0
    for path in paths:
        group = _device_of if by == "device" else module_of if by == "module" else None
        with open_trace(path, True) as trace:
            spans = read_spans(trace, Wanted(stacks=by in ("module", "line"), group=group, flops=False, nested=True))
        for line in trace.remarks():
            note(line, path)
        for missing, says in ((by == "module" and not spans.has_modules, NO_MODULES),
                              (by == "line" and not spans.has_stacks, NO_STACKS),
                              (by == "step" and not spans.steps, NO_STEPS),
                              (by == "kernel" and not spans.has_work, NO_DEVICE),
                              (not spans.kinds, "holds no operator, call or kernel")):
            if missing:
                raise Problem(says, path)
        if by == "line":
            _add_lines(path, spans, sums)
        else:
            _add(by, spans, sums)
        outside -= _in_operators(spans) if by == "category" else 0
    outside += sums[RANGES].cpu if by == "category" and RANGES in sums else 0
    order = _step_number if by == "step" else lambda item: (-item[1].device, -item[1].cpu, item[0])
    rows: List[List[Any]] = []
    for name, found in sorted(sums.items(), key=order):
        rows.append([name, found.cpu / 1000, found.device / 1000, found.count] + ([found.wall / 1000] if by == "step" else []))
    columns = [by, "self_cpu_time_total", "self_device_time_total", "count"] + (["duration"] if by == "step" else [])
    total_cpu, total_device = (sum(row[at] for row in rows) for at in (1, 2))

    def text(shown: List[List[Any]]) -> str:
        lines = [[by]] + [[printable(row[0])] for row in shown]
        main = 2 if total_device else 1  # the column with bars
        for at, total, what in ((2, total_device, spans.device_name), (1, total_cpu, "CPU")):
            if total:  # a column of zeros is left out
                lines[0] += [f"self {what}", "share"] + [""] * (at == main)
                for line, row in zip(lines[1:], shown):
                    line += [format_time(row[at]), format_share(row[at], total)] + [bar(row[at] / total)] * (at == main)
        lines[0] += ["calls"] + ["duration"] * (by == "step")
        for line, row in zip(lines[1:], shown):
            line += [f"{row[3]:,}"] + [format_time(us) for us in row[4:]]
        return fitted(lines) + "".join(f"{line}\n" for line in totals(len(shown)))

    def totals(shown: int) -> Iterator[str]:
        more = f"; {len(rows) - shown:,} more rows (--row-limit -1)" * (len(rows) > shown)
        yield " and ".join(f"{format_time(total)} on the {where}" for total, where in ((total_device, f"GPU ({spans.device_name})"), (total_cpu, "CPU"))
                           if total) + more
        if outside:
            yield f"{format_time(outside / 1000)} ({format_share(outside / 1000, total_cpu)}) on the CPU lie outside operators, in steps and ranges"

    return columns, rows, text


def _step_number(item: Tuple[str, Any]) -> Tuple[int, str]:
    number = step_number(item[0])
    return (1 << 62 if number is None else number, item[0])


def _add(by: str, spans: Spans, sums: Dict[str, _Sum]) -> None:
    """Adds a trace's spans to the sums."""
    if by in ("kernel", "device", "category"):
        _add_device_rows(by, spans, sums)
    if by == "kernel":
        return
    starts = [step[0] for step in spans.steps]
    attributed = 0

    def take(_: Any, batch: Batch) -> None:
        nonlocal attributed
        numpy = fast_numpy()
        if by == "step":
            begins, ends = (numpy.array([-1 << 62] + [step[n] for step in spans.steps]) for n in (0, 1))
            groups = numpy.searchsorted(begins, batch.start, "right") - 1
            groups[batch.start >= ends[groups]] = 0
            names = [OUTSIDE] + [step[2] for step in spans.steps]
        else:
            groups, names = batch.kind, ["CPU" if by == "device" else kind.category for kind in spans.kinds]
        for group in numpy.unique(groups).tolist():
            own, found = groups == group, sums.setdefault(names[group], _Sum())
            found.cpu += int(batch.self_time[own].sum())
            found.count += int(own.sum())
            if by == "step":
                found.device += int(batch.own_device[own].sum())
        attributed += int(batch.own_device.sum())

    for _, row, node in walk_all(spans, by == "module", by == "step", take if by != "module" else None):
        start = row.start[node.index]
        found = sums.setdefault(_group(by, spans, starts, spans.kinds[node.kind], node, start), _Sum())
        found.cpu += node.end - start - node.child_time
        found.count += 1
        if by in ("step", "module"):  # otherwise kernels count where they ran
            found.device += node.own_device
            attributed += node.own_device
    for start, end, name in spans.steps if by == "step" else ():
        sums.setdefault(name, _Sum()).wall += end - start
    if by in ("step", "module"):
        rest = sum(time for number, time in spans.device_time.items() if not spans.kinds[number].annotation) - attributed
        if rest > 0:
            sums.setdefault(OUTSIDE, _Sum()).device += rest


def _in_operators(spans: Spans) -> int:
    """Self time of ranges that libraries made inside operators."""
    return sum(sums[1] for (_, call), sums in spans.below.items() if spans.kinds[call].category == RANGES)


def _add_lines(path: str, spans: Spans, sums: Dict[str, _Sum]) -> None:
    """Adds the times of the operators and calls of each line of the program."""
    finder = StackFinder(spans, 2, line_of)
    attributed = 0
    for place, row, node in walk_all(spans, True):
        kind = spans.kinds[node.kind]
        if kind.name != STEPS and kind.category != "python_function" and not kind.is_async:
            attributed += node.own_device
            finder.add(place, row, node, node.end - row.start[node.index] - node.child_time, node.own_device)
    texts = Lines(path)
    for span, line in finder.stacks():
        found = sums.setdefault(texts.shown(line) or OUTSIDE, _Sum())
        found.cpu += span.values[0]
        found.device += span.values[1]
        found.count += 1
    rest = sum(time for number, time in spans.device_time.items() if not spans.kinds[number].annotation) - attributed
    if rest > 0:
        sums.setdefault(OUTSIDE, _Sum()).device += rest


class Lines:
    """Adds the text of the source line to a frame, if the file is there and older than the trace."""

    MOST = 4 << 20  # bytes of a file

    def __init__(self, trace: str) -> None:
        self._trace = trace
        self._files: Dict[str, List[str]] = {}
        self._shown: Dict[str, str] = {"": ""}

    def shown(self, frame: str) -> str:
        """The frame, with the text of its line in place of the function if that is known."""
        found = self._shown.get(frame)
        if found is None:
            at = _FRAME.match(frame)
            lines = self._read(at[1]) if at else []
            text = lines[int(at[2]) - 1].strip() if at and 0 < int(at[2]) <= len(lines) else ""
            found = self._shown[frame] = f"{frame[:at.end() - 1]} {text}" if at and text else frame
        return found

    def _read(self, name: str) -> List[str]:
        if name not in self._files:
            try:
                newer = os.path.getmtime(name) > os.path.getmtime(self._trace)
                self._files[name] = [] if newer else read_text(name, self.MOST).splitlines()
            except (OSError, ValueError):  # the file is on another machine, or in another folder
                self._files[name] = []
        return self._files[name]


def _add_device_rows(by: str, spans: Spans, sums: Dict[str, _Sum]) -> None:
    for number, time in spans.device_time.items():
        kind = spans.kinds[number]
        if kind.annotation and by != "category":
            continue
        name = kind.name if by == "kernel" else kind.group if by == "device" else kind.category
        found = sums.setdefault(name, _Sum())
        found.device += 0 if kind.annotation else time
        found.count += spans.device_count[number]


def _group(by: str, spans: Spans, starts: List[int], kind: Kind, node: Node, start: int) -> str:
    if by == "category":
        return kind.category
    if by == "device":
        return "CPU"
    if by == "step":
        at = bisect.bisect_right(starts, start) - 1
        return spans.steps[at][2] if at >= 0 and start < spans.steps[at][1] else OUTSIDE
    if kind.group is not None:
        return kind.group
    modules = [kind.name] if kind.name.startswith("nn.Module: ") else []
    names = (spans.kinds[number].name for number in spans.functions.kinds(node.frames))
    modules += [name for name in names if name.startswith("nn.Module: ")]
    return ".".join(name[len("nn.Module: "):] for name in reversed(modules)) or OUTSIDE
