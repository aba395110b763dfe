# SPDX-License-Identifier: Apache-2.0
"""The table of `cprof top` for people, fitted to the terminal: operators and ranges by self time, and below an operator the calls of libraries.

With a GPU the times are those of the work that a row launched, so that no kernel counts twice. Work that no row launched has one row. Steps
have no row: their self time is the time outside operators."""

import os
import shutil
import sys
from typing import List, NamedTuple, Optional, Tuple

from cprof.tool import printable
from cprof.tool.averages import Average, Averages, format_memory, format_share, format_time
from cprof.tool.rates import lines_of
from cprof.tool.steps import STEPS

ROWS = 20
WIDTH = 120          # without a terminal
BAR = 10             # characters
NAME_LEAST = 16
TITLES = ("name", "self", "share", "", "total", "calls", "memory", "FLOP/s")
OUTSIDE = "(outside operators)"


class _Line(NamedTuple):
    name: str
    self_ns: int
    total_ns: int
    calls: int
    memory: Optional[int] = None
    flops: int = 0
    below: Tuple["_Line", ...] = ()   # type: ignore[misc]

    @property
    def weight(self) -> int:
        """The sort key: its self time and those of the lines below it."""
        return self.self_ns + sum(one.self_ns for one in self.below)


def rate(flops: int, ns: int) -> str:
    """FLOPs per second, as text."""
    per_s = flops * 1e9 / ns if ns > 0 else 0.0
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("K", 1e3)):
        if per_s >= scale:
            return f"{per_s / scale:.1f} {unit}"
    return f"{per_s:.0f} " if per_s else ""


class Table:
    """The averages as a table."""

    def __init__(self, averages: Averages, sort_by: Optional[str], limit: int) -> None:
        rows = averages.sorted_by(sort_by)
        self.averages, self.limit = averages, limit
        self.on_gpu = any(row.self_device_ns > 0 for row in rows) and not (sort_by and "cpu" in sort_by)
        self.steps = [row for row in rows if row.key.startswith(STEPS)]
        others = [row for row in rows if row not in self.steps and row.device_type == "cpu"]
        of_gpu = self.on_gpu and any(row.self_device_memory_usage for row in rows)
        self.has_memory = averages.has_memory and any(row.self_device_memory_usage or row.self_cpu_memory_usage for row in others)
        lines = [line for line in (self._line(row, of_gpu) for row in others) if line.calls]
        self.total = sum(self._ns(row, True) for row in others)
        if self.on_gpu:
            kernels = sum(row.self_device_ns for row in rows if row.device_type != "cpu" and not row.is_user_annotation)
            if kernels > self.total:
                lines.append(_Line(OUTSIDE, kernels - self.total, kernels - self.total, 0))
                self.total = kernels
        if self.on_gpu:
            lines = [line for line in lines if line.weight or line.total_ns or sort_by]
        self.lines = lines if sort_by else sorted(lines, key=lambda line: (-line.weight, -line.total_ns, line.name))

    def _ns(self, row: Average, own: bool) -> int:
        if self.on_gpu:
            return row.self_device_ns if own else row.device_ns
        return row.self_cpu_ns if own else row.cpu_ns

    def _times(self, sums: List[int]) -> Tuple[int, int]:
        """Self and total time of a library's calls in Spans.below."""
        return (sums[3], sums[3]) if self.on_gpu else (sums[1], sums[2])

    def _line(self, row: Average, of_gpu: bool) -> _Line:
        below = [_Line("  " + name, *self._times(sums), sums[0]) for name, sums in self.averages.below.get(row.key, {}).items()]
        elsewhere = [calls[row.key] for calls in self.averages.below.values() if row.key in calls]  # listed below others
        own, total = (self._ns(row, is_own) - sum(self._times(sums)[not is_own] for sums in elsewhere) for is_own in (True, False))
        return _Line(row.key, own, total, row.count - sum(sums[0] for sums in elsewhere),
                     row.self_device_memory_usage if of_gpu else row.self_cpu_memory_usage,
                     0 if elsewhere else row.flops,  # known only as the sum of all its calls
                     tuple(sorted(below, key=lambda line: (-line.self_ns, line.name))))

    def _cells(self, line: _Line) -> List[str]:
        share = line.self_ns / self.total if self.total else 0.0
        return [printable(line.name), format_time(line.self_ns / 1000), format_share(line.self_ns, self.total) if self.total else "", bar(share),
                format_time(line.total_ns / 1000), f"{line.calls:,}" if line.calls else "", format_memory(line.memory) if line.memory else "",
                rate(line.flops, line.total_ns)]

    def text(self) -> str:
        """All lines, each with a newline."""
        shown = self.lines if self.limit < 0 else self.lines[:self.limit]
        cells = [self._cells(line) for one in shown for line in (one, *one.below)]
        used = [at for at in range(len(TITLES)) if at < 6 or any(line[at] for line in cells)]
        return fitted([[line[at] for at in used] for line in [list(TITLES), *cells]]) + "\n".join(self._behind(len(shown))) + "\n"

    def _behind(self, shown: int) -> List[str]:
        where = f"on the GPU ({self.averages.device_name})" if self.on_gpu else "on the CPU"
        lines = [f"{format_time(self.total / 1000)} {where}" + (f"; {len(self.lines) - shown:,} more rows (--row-limit -1)" * (len(self.lines) > shown))]
        time, outside = sum(row.cpu_ns for row in self.steps), sum(row.self_cpu_ns for row in self.steps)
        if time > 0:
            count = sum(row.count for row in self.steps)
            lines.append(f"{count:,} step{'s' * (count != 1)} took {format_time(time / 1000)}, of which "
                         f"{format_time(outside / 1000)} ({format_share(outside, time)}) lie outside operators on the CPU")
        for path, rates in self.averages.rates.items():
            where = f"{printable(os.path.basename(path))}: " if len(self.averages.rates) > 1 else ""
            lines += [where + line for line in lines_of(rates)]
        return lines


def _columns() -> int:
    """The width of the terminal."""
    return shutil.get_terminal_size((WIDTH, 24)).columns if sys.stdout.isatty() or "COLUMNS" in os.environ else WIDTH


def bar(share: float) -> str:
    """A bar whose length shows the share, 0 to 1."""
    utf8 = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "") == "utf8"
    eighths = round(max(0.0, min(share, 1.0)) * BAR * 8)
    if not utf8:
        return "#" * (eighths // 8)
    return "█" * (eighths // 8) + ("▏▎▍▌▋▊▉"[eighths % 8 - 1] if eighths % 8 else "")


def fitted(lines: List[List[str]]) -> str:
    """The lines as columns; the first line has the titles. The names and the bar (without a title) are aligned left. On a narrow terminal names are
    shortened, then the bar is left out, then the last columns."""
    width = _columns()
    while len(lines[0]) > 3 and NAME_LEAST + _needed(lines) > width:
        at = lines[0].index("") if "" in lines[0] else len(lines[0]) - 1
        lines = [line[:at] + line[at + 1:] for line in lines]
    most = max(NAME_LEAST, width - _needed(lines))
    names = [line[0] if len(line[0]) <= most else line[0][:most - 3] + "..." for line in lines]
    widths = [max(map(len, names))] + [max(len(line[at]) for line in lines) for at in range(1, len(lines[0]))]
    text = ""
    for name, line in zip(names, lines):
        rest = [cell.ljust(size) if title == "" else cell.rjust(size) for title, cell, size in zip(lines[0][1:], line[1:], widths[1:])]
        text += "  ".join([name.ljust(widths[0]), *rest]).rstrip() + "\n"
    return text


def _needed(lines: List[List[str]]) -> int:
    """The width of all columns except the names."""
    return sum(2 + max(len(line[at]) for line in lines) for at in range(1, len(lines[0])))
