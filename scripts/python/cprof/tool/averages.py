# SPDX-License-Identifier: Apache-2.0
"""torch.profiler's key_averages() and its table, made from a trace.

    print(key_averages("rank0.5.pt.trace.json").table(sort_by="self_cpu_time_total", row_limit=20))

Columns, widths, units, order and footer are those of torch/autograd/profiler_util.py, _build_table().
"""

import math
import os
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union

from cprof.tool import Problem, printable
from cprof.tool.fast import fast_numpy
from cprof.tool.rates import Rates, lines_of, rates_of
from cprof.tool.reader import open_trace
from cprof.tool.span_batches import Batch
from cprof.tool.span_roots import walk_all
from cprof.tool.span_stacks import StackFinder, python_frames
from cprof.tool.span_reader import Wanted, read_spans
from cprof.tool.spans import Kind, Spans
from cprof.tool.summary_file import SUFFIX, Summary, of_trace, read

SORT_KEYS = ("cpu_time", "cuda_time", "cpu_time_total", "cuda_time_total", "self_cpu_time_total", "self_cuda_time_total",
             "cpu_memory_usage", "cuda_memory_usage", "self_cpu_memory_usage", "self_cuda_memory_usage", "flops", "count")
NO_SHAPES = "holds no input shapes: record it with CPROF_RECORD_SHAPES=1 (torch.profiler: record_shapes=True)"
NO_STACKS = "holds no stacks: record it with CPROF_WITH_STACK=1 (torch.profiler: with_stack=True)"
NO_FLOPS = "holds no FLOPs: record it with CPROF_WITH_FLOPS=1 (torch.profiler: with_flops=True and record_shapes=True)"
NO_TENSORS = "holds no tensor memory, though it was recorded: no PyTorch tensor was allocated or released while it was"
NO_MEMORY = "holds no tensor memory: record it with CPROF_PROFILE_MEMORY=1 (torch.profiler: profile_memory=True)"
# The sums of a row in the order of TRACE.summary.
SUMS = ("cpu_ns", "self_cpu_ns", "device_ns", "self_device_ns", "cpu_memory_usage", "self_cpu_memory_usage",
         "device_memory_usage", "self_device_memory_usage")
_WIDTH = 12
_FLOPS = ("FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs")


class Average:
    """One row: sums over the spans of one key. Times are microseconds, memory is bytes."""

    __slots__ = ("key", "device_type", "is_user_annotation", "is_async", "input_shapes", "stack", "count", "flops",
                 "cpu_ns", "self_cpu_ns", "device_ns", "self_device_ns", "cpu_memory_usage", "self_cpu_memory_usage",
                 "device_memory_usage", "self_device_memory_usage", "first")

    def __init__(self, key: str, device: bool, annotation: bool, shapes: str, stack: Tuple[str, ...]) -> None:
        self.key, self.input_shapes, self.stack = key, shapes, list(stack)
        self.device_type = "cuda" if device else "cpu"
        self.is_user_annotation, self.is_async = annotation, False
        self.count = self.flops = self.cpu_ns = self.self_cpu_ns = self.device_ns = self.self_device_ns = 0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.device_memory_usage = self.self_device_memory_usage = 0
        self.first = (1 << 62, 0)

    cpu_time_total = property(lambda self: self.cpu_ns / 1000)
    self_cpu_time_total = property(lambda self: self.self_cpu_ns / 1000)
    device_time_total = cuda_time_total = property(lambda self: self.device_ns / 1000)
    self_device_time_total = self_cuda_time_total = property(lambda self: self.self_device_ns / 1000)
    cpu_time = property(lambda self: self.cpu_ns / 1000 / self.count if self.count else 0.0)
    device_time = cuda_time = property(lambda self: self.device_ns / 1000 / self.count if self.count else 0.0)
    cuda_memory_usage = property(lambda self: self.device_memory_usage)
    self_cuda_memory_usage = property(lambda self: self.self_device_memory_usage)


def _sums_of(node: Any, duration: int, is_async: bool) -> Tuple[int, ...]:
    """The values that a span adds to the sums of its row, in the order of SUMS."""
    if is_async:  # count and total only, as torch has it
        return (duration, 0, 0, 0, node.memory, 0, node.device_memory, 0)
    return (duration, duration - node.child_time, node.own_device + node.child_device, node.own_device, node.memory,
            node.memory - node.child_memory, node.device_memory, node.device_memory - node.child_device_memory)


def _sums_of_batch(batch: Batch, shown: Any) -> Iterator[Tuple[int, List[int], Tuple[int, int]]]:
    """For each kind of span that is shown: its number; the count and the sums for its row; (start, -end) of the first span."""
    numpy = fast_numpy()
    kinds, at, counts = numpy.unique(batch.kind[shown], return_index=True, return_inverse=True)
    own = ~batch.is_async
    values = (numpy.ones(len(own), "q"), batch.end - batch.start, batch.self_time * own, (batch.own_device + batch.child_device) * own,
              batch.own_device * own, batch.memory, (batch.memory - batch.child_memory) * own, batch.device_memory,
              (batch.device_memory - batch.child_device_memory) * own)
    sums = []
    for one in values:
        total = numpy.zeros(len(kinds), "q")
        numpy.add.at(total, counts, one[shown])
        sums.append(total.tolist())
    starts, ends = (one[shown][at].tolist() for one in (batch.start, batch.end))
    for n, kind in enumerate(kinds.tolist()):
        yield kind, [total[n] for total in sums], (starts[n], -ends[n])


class Averages:
    """The rows of key_averages() for one trace, or added up for several."""

    def __init__(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                 include_python_functions: bool = False) -> None:
        self.by_shape, self.stack_depth = group_by_input_shape, group_by_stack_n
        self.python_functions = include_python_functions
        self.device_name = "CUDA"
        self.has_memory = self.has_flops = False
        self.rates: Dict[str, Rates] = {}  # by trace
        self.tables: List[str] = []      # summaries that were read instead of the traces
        self.below: Dict[str, Dict[str, List[int]]] = {}  # calls of libraries by operator, if a trace was read: as Spans.below
        self._rows: Dict[Any, Average] = {}

    def __iter__(self) -> Iterator[Average]:
        """The rows in the order in which their first spans began."""
        return iter(sorted(self._rows.values(), key=lambda row: (row.first, row.key, row.device_type, row.is_user_annotation,
                                                                 row.input_shapes, row.stack)))

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, at: int) -> Average:
        return list(self)[at]

    def add(self, path: str, progress: bool = False, from_trace: bool = False) -> List[str]:
        """Adds a trace, or a summary by itself. Reads the trace's summary instead if that is enough, unless from_trace is set. Returns remarks about
        the trace."""
        summary, why = None, ""
        if path.endswith(SUFFIX):
            return self._add_table(self._alone(path, from_trace), path)
        if not (from_trace or self.by_shape or self.stack_depth):
            summary, why = of_trace(path, table=True)
        if summary is not None and summary.rows and not summary.truncated:
            return self._add_table(summary, path)
        return ([why + ": the trace is read"] if why else []) + self._read(path, progress)

    def _alone(self, path: str, from_trace: bool) -> Summary:
        """A summary with a table. Raises a Problem."""
        if from_trace or self.by_shape or self.stack_depth:
            raise Problem("is a summary: shapes, stacks and single events are in the trace", path)
        found = read(path, table=True)
        if not found.rows:
            raise Problem("has no table of operators: it is in the trace", path)
        return found

    def _read(self, path: str, progress: bool) -> List[str]:
        with open_trace(path, progress) as trace:
            spans = read_spans(trace, Wanted(shapes=self.by_shape, stacks=self.stack_depth > 0))
        if self.by_shape and not spans.has_shapes:
            raise Problem(NO_SHAPES, path)
        if self.stack_depth > 0 and not spans.has_stacks:
            raise Problem(NO_STACKS, path)
        if all(map(self._left_out, spans.kinds)) and next(spans.uncovered_memory(), None) is None:
            raise Problem("; ".join(["holds no operator, call or kernel"] + trace.remarks()), path)
        self._add(spans)
        account = spans.metadata.get("cprof")
        self.rates[path] = rates_of(account.get("flops") if type(account) is dict else None)
        return trace.remarks()

    def need(self, sort_by: Optional[str], path: str) -> None:
        """Raises a Problem if the traces lack the values to sort by."""
        if sort_by == "flops" and not self.has_flops:
            raise Problem(NO_FLOPS, path)
        if sort_by and "memory" in sort_by and not self.has_memory:
            raise Problem(NO_MEMORY, path)

    def _left_out(self, kind: Kind) -> bool:
        """Whether a kind gets no row. Its time still does not count as self time of the spans around it."""
        return kind.category == "python_function" and not self.python_functions

    def _add_table(self, summary: Summary, path: str) -> List[str]:
        self.tables.append(summary.path)
        self.rates[path] = rates_of(summary.about.get("flops"))
        self.has_memory |= summary.about.get("profile_memory") is True
        for name, device, annotation, is_async, count, *sums, flops, first, first_end in summary.rows or ():
            key = (name, bool(device), bool(annotation), "", ())
            row = self._rows.get(key)
            if row is None:
                row = self._rows[key] = Average(name, bool(device), bool(annotation), "", ())
            row.is_async |= bool(is_async)
            row.count += count
            for attribute, value in zip(SUMS, sums):
                setattr(row, attribute, getattr(row, attribute) + value)
            row.flops += flops
            self.has_flops |= flops > 0
            row.first = min(row.first, (first, first_end))
            if name == "[memory]":
                self.has_memory = True
        self._drop_empty()
        return []

    def _drop_empty(self) -> None:
        for key in [key for key, row in self._rows.items() if not row.count]:
            del self._rows[key]

    def _row(self, spans: Spans, number: int, stack: Tuple[str, ...] = ()) -> Average:
        kind = spans.kinds[number]
        key = (kind.name, kind.device, kind.annotation, kind.shapes, stack)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = Average(kind.name, kind.device, kind.annotation, kind.shapes, stack)
            row.is_async = kind.is_async
        return row

    def _add(self, spans: Spans) -> None:
        self.device_name = spans.device_name
        self.has_memory |= spans.has_memory or spans.metadata.get("profile_memory") in (1, True)
        numbered: List[Optional[Average]] = [None] * len(spans.kinds)
        without = [self._left_out(kind) for kind in spans.kinds]
        is_async = [kind.is_async for kind in spans.kinds]
        tells_all = "cprof" in spans.metadata  # cprof gives every operator its FLOPs: nothing is computed from shapes
        finder = StackFinder(spans, len(SUMS) + 1, self._group_of) if self.stack_depth else None

        def take(row: Any, batch: Batch) -> None:
            shown = numpy.array([not one for one in without])[batch.kind]
            for number, sums, first in _sums_of_batch(batch, shown):
                average = numbered[number]
                if average is None:
                    average = numbered[number] = self._row(spans, number)
                average.count += sums[0]
                for name, value in zip(SUMS, sums[1:]):
                    setattr(average, name, getattr(average, name) + value)
                average.first = min(average.first, first)
            if row.shaped and not tells_all:
                for index, number in zip(batch.index[shown].tolist(), batch.kind[shown].tolist()):
                    numbered[number].flops += row.flops_of(index)  # type: ignore[union-attr]

        numpy = fast_numpy()
        for place, row, node in walk_all(spans, finder is not None, take=take if finder is None else None):
            if without[node.kind]:
                continue
            start = row.start[node.index]
            if finder is not None:
                sums = _sums_of(node, node.end - start, is_async[node.kind])
                finder.add(place, row, node, *sums, row.flops[node.index] if row.flops else -1)
                continue
            average = numbered[node.kind]
            if average is None:
                average = numbered[node.kind] = self._row(spans, node.kind)
            if is_async[node.kind] or node.memory or node.device_memory or node.own_device or node.child_device:
                self._count(average, _sums_of(node, node.end - start, is_async[node.kind]), start, node.end)
            else:  # the common case
                if start <= average.first[0]:
                    average.first = min(average.first, (start, -node.end))
                average.count += 1
                average.cpu_ns += node.end - start
                average.self_cpu_ns += node.end - start - node.child_time
                average.self_cpu_memory_usage -= node.child_memory
                average.self_device_memory_usage -= node.child_device_memory
            if row.shaped and not tells_all:
                average.flops += row.flops_of(node.index)
        for (operator, call), sums in spans.below.items():
            before = self.below.setdefault(spans.kinds[operator].name, {}).setdefault(spans.kinds[call].name, [0] * len(sums))
            before[:] = map(sum, zip(before, sums))
        self.has_flops |= not tells_all and any(len(row.shaped) > 0 for row in spans.rows.values())
        if finder is not None:
            self._add_stacks(spans, finder)
        self._add_rest(spans)

    def _group_of(self, stack: List[str]) -> Tuple[str, ...]:
        return tuple(python_frames(stack)[:self.stack_depth])

    def _add_stacks(self, spans: Spans, finder: StackFinder) -> None:
        for found, group in finder.stacks():
            average = self._row(spans, found.kind, group)
            self._count(average, found.values, found.start, found.end)
            flops = found.values[len(SUMS)]
            if flops < -1:  # the trace has no FLOPs for this span; in cprof's traces that means none
                flops = -1 if "cprof" in spans.metadata else -2 - flops
            if flops >= 0:
                self.has_flops = True
                average.flops += flops

    @staticmethod
    def _count(average: Average, sums: Tuple[int, ...], start: int, end: int) -> None:
        if start <= average.first[0] and (start, -end) < average.first:
            average.first = (start, -end)
        average.count += 1
        average.cpu_ns += sums[0]
        average.self_cpu_ns += sums[1]
        average.device_ns += sums[2]
        average.self_device_ns += sums[3]
        average.cpu_memory_usage += sums[4]
        average.self_cpu_memory_usage += sums[5]
        average.device_memory_usage += sums[6]
        average.self_device_memory_usage += sums[7]

    def _add_rest(self, spans: Spans) -> None:
        """Adds what is in no thread's tree."""
        for number, count in spans.device_count.items():
            average = self._row(spans, number)
            average.count += count
            average.device_ns += spans.device_time[number]
            average.self_device_ns += spans.device_time[number]
        for number, count in spans.loose_count.items():
            average = self._row(spans, number)
            average.is_async = True
            average.count += count
            average.cpu_ns += spans.loose_time[number]
        for i in spans.uncovered_memory():
            key = ("[memory]", False, False, "[]" if self.by_shape else "", ())
            if key not in self._rows:
                self._rows[key] = Average(key[0], False, False, key[3], ())
            average = self._rows[key]
            average.count += 1
            average.first = min(average.first, (spans.memory_time[i], -spans.memory_time[i]))
            average.cpu_memory_usage += spans.memory_bytes[i]
            average.self_cpu_memory_usage += spans.memory_bytes[i]
            average.device_memory_usage += spans.memory_device[i]
            average.self_device_memory_usage += spans.memory_device[i]
        for number, flops in spans.flops.items():
            self.has_flops = True
            self._row(spans, number).flops += flops
        for number, first in spans.first.items():
            average = self._row(spans, number)
            average.first = min(average.first, first)
        self._drop_empty()

    def sorted_by(self, sort_by: Optional[str]) -> List[Average]:
        """The rows, largest first; with None in the order of the trace."""
        rows = list(self)
        if sort_by is None:
            return rows
        attribute = sort_by.replace("cuda", "device").replace("xpu", "device").replace("privateuse1", "device")
        if attribute.replace("device", "cuda") not in SORT_KEYS:
            raise Problem(f"cannot sort by {sort_by!r}: take one of {' '.join(SORT_KEYS)}")
        return sorted(rows, key=lambda row: getattr(row, attribute), reverse=True)

    def table(self, sort_by: Optional[str] = None, row_limit: int = 100, max_src_column_width: Optional[int] = 75,
              max_name_column_width: Optional[int] = 55, max_shapes_column_width: Optional[int] = 80,
              header: Optional[str] = None, time_unit: Optional[str] = None) -> str:
        """The table as torch prints it, then the FLOP rates by device of cprof's traces. row_limit -1: all rows."""
        rows = self.sorted_by(sort_by)
        if not rows:
            return ""
        return _Table(self, rows, max_src_column_width, max_name_column_width, max_shapes_column_width,
                      time_unit).text(row_limit, header)


def key_averages(path: Union[str, "os.PathLike[str]"], group_by_input_shape: bool = False,
                 group_by_stack_n: int = 0, include_python_functions: bool = False) -> Averages:
    """The averages of a trace. Rows for Python functions (recorded by torch.profiler's with_stack=True) are left out by default, as in
    torch since 2.15. Raises a Problem, which is a ValueError, if the trace cannot be read or lacks the shapes or stacks to group by."""
    averages = Averages(group_by_input_shape, group_by_stack_n, include_python_functions)
    averages.add(os.fspath(path))
    return averages


# ---- the table ----

def format_time(us: float, unit: Optional[str] = None) -> str:
    """A time as torch prints it."""
    if unit == "s" or unit is None and us >= 1e6:
        return f"{us / 1e6:.3f}s"
    if unit == "ms" or unit is None and us >= 1e3:
        return f"{us / 1e3:.3f}ms"
    return f"{us:.3f}us"


def format_share(us: float, total: float) -> str:
    """A part of a total as torch prints it."""
    return f"{us * 100.0 / total:.2f}%" if total else "NaN"


def format_memory(size: int) -> str:
    """A number of bytes as torch prints it."""
    for unit, scale in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(size) >= scale:
            return f"{size * 1.0 / scale:.2f} {unit}"
    return f"{size} B"


def _shortened(path: str, width: int) -> str:
    path = printable(path)
    if len(path) > width:
        path = path[len(path) - width:]
        if len(path) > 3:
            path = "..." + path[3:]
    return path


class _Table:
    """_build_table()."""

    def __init__(self, averages: Averages, rows: List[Average], source_width: Optional[int], name_width: Optional[int],
                 shapes_width: Optional[int], unit: Optional[str]) -> None:
        self.rows, self.unit, self.max_name = rows, unit, name_width
        self.has_device = any(row.self_device_ns > 0 for row in rows)
        self.has_memory = averages.has_memory
        self.has_device_memory = self.has_memory and any(row.self_device_memory_usage > 0 for row in rows)
        self.device = averages.device_name
        self.rates = averages.rates
        self.stacks = [row.stack for row in rows if row.stack]
        self.columns: List[Tuple[str, int, str]] = []

        def limited(width: int, limit: Optional[int]) -> int:
            return width if limit is None else min(width, limit)

        self._add("Name", limited(max(len(row.key) for row in rows) + 4, name_width))
        for name in ("Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"):
            self._add(name)
        if self.has_device:
            for name in (f"Self {self.device}", f"Self {self.device} %", f"{self.device} total", f"{self.device} time avg"):
                self._add(name)
        if self.has_memory:
            self._add("CPU Mem")
            self._add("Self CPU Mem")
        if self.has_device_memory:
            self._add(f"{self.device} Mem")
            self._add(f"Self {self.device} Mem")
        self._add("# of Calls")
        self.shapes_width = limited(max(len(row.input_shapes) for row in rows) + 4, shapes_width)
        self.has_shapes = any(row.input_shapes for row in rows)
        if self.has_shapes:
            self._add("Input Shapes", self.shapes_width)
        if self.stacks:
            self.source_width = limited(max(len(frame) for stack in self.stacks for frame in stack) + 4, source_width)
            self._add("Source Location", self.source_width, "<")
        counted = [row.flops for row in rows if row.flops > 0]
        self.flops_scale = 0.0
        if counted:
            level = max(0.0, min(math.log10(min(counted)) / 3, float(len(_FLOPS) - 1)))
            self.flops_scale = pow(10, math.floor(level) * -3.0)
            self._add(f"Total {_FLOPS[int(level)]}")
        self.total_cpu = sum(row.self_cpu_ns for row in rows) / 1000
        self.total_device = sum(row.self_device_ns for row in rows
                                if row.device_type != "cpu" and not row.is_user_annotation) / 1000

    def _add(self, name: str, width: int = _WIDTH, direction: str = ">") -> None:
        self.columns.append((name, width, direction))

    def _line(self, values: List[str]) -> str:
        return "".join(f"{value: {direction}{width}}  " for value, (_, width, direction) in zip(values, self.columns))

    def _time(self, us: float) -> str:
        return format_time(us, self.unit)

    def _values(self, row: Average) -> List[str]:
        name = printable(row.key)
        if self.max_name is not None and len(name) >= self.max_name - 3:
            name = name[:self.max_name - 3] + "..."
        values = [name, format_share(row.self_cpu_time_total, self.total_cpu), self._time(row.self_cpu_time_total),
                  format_share(row.cpu_time_total, self.total_cpu) if not row.is_async else "0",
                  self._time(row.cpu_time_total), self._time(row.cpu_time)]
        if self.has_device:
            values += [self._time(row.self_device_time_total), format_share(row.self_device_time_total, self.total_device),
                       self._time(row.device_time_total), self._time(row.device_time)]
        if self.has_memory:
            values += [format_memory(row.cpu_memory_usage), format_memory(row.self_cpu_memory_usage)]
        if self.has_device_memory:
            values += [format_memory(row.device_memory_usage), format_memory(row.self_device_memory_usage)]
        values.append(str(row.count))
        if self.has_shapes:
            values.append(row.input_shapes[:self.shapes_width])
        if self.stacks:  # in the order of the columns; torch swaps these two
            values.append(_shortened(row.stack[0], self.source_width) if row.stack else "")
        if self.flops_scale:
            values.append("--" if row.flops <= 0 else f"{row.flops * self.flops_scale:8.3f}")
        return values

    def text(self, row_limit: int, header: Optional[str]) -> str:
        """All lines, each with its end."""
        rule = "".join("-" * width + "  " for _, width, _ in self.columns)
        lines = [] if header is None else ["=" * (len(rule) - 2), header]
        lines += [rule, self._line([name for name, _, _ in self.columns]), rule]
        for row in self.rows if row_limit < 0 else self.rows[:row_limit]:
            lines.append(self._line(self._values(row)))
            if self.stacks:
                at = next(at for at, column in enumerate(self.columns) if column[0] == "Source Location")
                before, behind = [""] * at, [""] * (len(self.columns) - at - 1)
                lines += [self._line(before + [_shortened(frame, self.source_width)] + behind) for frame in row.stack[1:]]
                lines.append(self._line(before + [""] + behind))
        lines.append(rule)
        lines.append(f"Self CPU time total: {self._time(self.total_cpu)}")
        if self.has_device:
            lines.append(f"Self {self.device} time total: {self._time(self.total_device)}")
        for path, rates in self.rates.items():
            where = f"{printable(os.path.basename(path))}: " if len(self.rates) > 1 else ""
            lines += [where + line for line in lines_of(rates)]
        return "\n".join(lines) + "\n"
