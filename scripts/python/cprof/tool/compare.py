# SPDX-License-Identifier: Apache-2.0
"""Compares two traces or two runs: how much faster or slower a step got, and which rows make the difference.

    cprof compare before after
    cprof compare before after --fail-above 5%      exit code 1 if a step got more than 5 % slower
    cprof compare before after --markdown           a table for a pull request

The first line has the median step of both sides, the change, the number of steps, and the noise of the difference. The rows
follow, the largest difference first. A row is the time per step of one kernel, operator, call, range or collective,
or tensor memory. Times of operators are self times on the CPU. Times of kernels and collectives are totals. A row that only
one side has is "new" or "gone".

The value of a row is its median over the steps. The noise is three standard errors of the difference of both medians, from
the median absolute deviation of the steps. Rows whose difference is within the noise are not listed. With fewer than three
steps the noise is not known, and every difference counts. A time that differs by less than a thousandth of the step is shown
with --row-limit -1 only, unless it is new or gone.

A kernel counts in the last step that began before it. Where one side has no steps, both traces count as a whole.
Of a folder, all ranks and windows count. If one side has summaries alone (TRACE.summary), both are compared by their summaries: the rows
are then the parts of a step and the collectives."""

import argparse
import bisect
import json
import math
import statistics
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Tuple

from cprof.tool import Problem, note, printable
from cprof.tool.averages import format_memory
from cprof.tool.categories import CALLS
from cprof.tool.collectives import kind_of
from cprof.tool.columns import forget
from cprof.tool.fast import fast_numpy
from cprof.tool.given import row_limit, traces_of
from cprof.tool.reader import open_trace
from cprof.tool.screen import data, put
from cprof.tool.span_batches import Batch
from cprof.tool.span_roots import walk_all
from cprof.tool.span_reader import Wanted, read_spans
from cprof.tool.spans import AT_A_TIME, Kind, Spans
from cprof.tool.steps import STEPS
from cprof.tool.summary_file import PARTS, SUFFIX, Summary, of_trace, read

HELP = "what got faster or slower between two traces or runs, per step"
FOUND = 1                 # exit code of --fail-above
ERRORS = 3.0              # standard errors that count as noise
DEVIATION = 1.4826        # standard deviation of a normal distribution, in median absolute deviations
OF_A_MEDIAN = 1.2533      # standard error of a median, in standard errors of a mean
ROWS = 20
SHOWN = 1e-3              # part of a step by which a time must differ; a step of 100 ms is told to 0.1 ms
NAME_MOST = 100           # characters of a name in tables
STEPS_LEAST = 3           # for a spread
OUTSIDE = "(outside operators)"
_KINDS = {"cpu_op": "operator", "user_annotation": "range", "python_function": "python", "gpu_memcpy": "copy", "gpu_memset": "copy"}
Key = Tuple[str, str]     # kind of row, name


def _percent(text: str) -> float:
    value = float(text[:-1] if text.endswith("%") else text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError("must be 0 or more")
    return value


_percent.__name__ = "percentage"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="BEFORE", help="a trace, or the folder of a run")
    parser.add_argument("after", metavar="AFTER", help="the same, of the other version")
    parser.add_argument("--fail-above", type=_percent, metavar="PERCENT",
                        help="exit code 1 if a step got slower by more than this, and by more than the noise")
    parser.add_argument("--row-limit", type=row_limit, default=ROWS, metavar="N", help="the number of rows for times, and as many for memory; -1: all (default 20)")
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="one JSON object with all rows; times in microseconds, memory in bytes")
    output.add_argument("--markdown", action="store_true", help="a table in Markdown")


class Side:
    """The times and memory of one side's traces, step by step. Times are nanoseconds."""

    def __init__(self, given: str, paths: List[str], by_summaries: bool) -> None:
        """paths: the traces, or summaries, of what is given."""
        self.given = given
        self.steps: List[int] = []                       # the duration of each step; the mean of those that share a row of a summary
        self.count = 0                                   # of the steps
        self.whole = 0                                   # the time of all traces, each from its first event to its last
        self.has_steps = True
        self.cells: Dict[Key, Dict[int, int]] = {}       # {step: sum}; -1: outside of all steps
        self.calls: Dict[Key, int] = {}
        for path in paths:
            if by_summaries:
                self._add_summary(_summary_of(path), path)
                continue
            with open_trace(path, True) as trace:
                spans = read_spans(trace, Wanted(flops=False, nested=True, work=True))
            for line in trace.remarks():
                note(line, path)
            if not spans.kinds:
                raise Problem("holds no operator, call or kernel", path)
            self._add(spans)

    def _add(self, spans: Spans) -> None:
        first, starts = len(self.steps), [start for start, _, _ in spans.steps]
        ends = [end for _, end, _ in spans.steps]
        self.has_steps &= bool(starts)
        self.steps += [end - start for start, end, _ in spans.steps]
        self.count += len(starts)
        keys = [_key(kind) for kind in spans.kinds]
        low, high = 1 << 62, -1 << 62

        def step_at(time: int, until: bool) -> int:
            at = bisect.bisect_right(starts, time) - 1
            return first + at if at >= 0 and (time < ends[at] or not until) else -1

        def take(_: Any, batch: Batch) -> None:
            nonlocal low, high
            low, high = min([low, *batch.start[:1].tolist()]), max([high, *batch.end.tolist()])
            numpy = fast_numpy()
            begins, last = numpy.array([-1 << 62] + starts), numpy.array([-1 << 62] + ends)
            steps = numpy.searchsorted(begins, batch.start, "right") - 1
            steps[batch.start >= last[steps]] = 0
            cells, inverse, counts = numpy.unique(batch.kind * len(begins) + steps, return_inverse=True, return_counts=True)
            times = numpy.zeros(len(cells), "q")
            numpy.add.at(times, inverse, numpy.where(batch.is_async, batch.end - batch.start, batch.self_time))
            for cell, count, time in zip(cells.tolist(), counts.tolist(), times.tolist()):
                kind, step = divmod(cell, len(begins))
                self._count(keys[kind], first + step - 1 if step else -1, time, count)

        for _, row, node in walk_all(spans, by_step=True, take=take):
            start, kind = row.start[node.index], spans.kinds[node.kind]
            low, high = min(low, start), max(high, node.end)
            time = node.end - start - (0 if kind.is_async else node.child_time)
            self._count(keys[node.kind], step_at(start, True), time)
        for number, start, duration in _work(spans):
            low, high = min(low, start), max(high, start + duration)
            if not spans.kinds[number].annotation:
                self._count(keys[number], step_at(start, False), duration)
        self.whole += max(0, high - low)
        self._add_memory(spans, first, starts, ends)

    def _add_summary(self, found: Summary, path: str) -> None:
        steps, first = found.steps, len(self.steps)
        if steps is None or not steps["devices"]:
            raise Problem("has no parts of steps: the traces of both sides are needed", path)
        self.has_steps &= None not in steps["step"]
        if steps["truncated"]:
            note(f"{steps['joined']} steps share a row of the summary: their mean counts", path)
        counts = steps["count"]
        self.steps += [total // count for total, count in zip(steps["total"], counts)]
        self.count += sum(counts)
        self.whole += sum(steps["total"])
        for device in steps["devices"]:
            for name in PARTS:
                for at, (time, count) in enumerate(zip(device[name], counts), first):
                    self._count(("part", name), at, time // count, count if time else 0)
        collectives = found.collectives
        if collectives is None:
            return
        keys = [key[0] for key in collectives["keys"]]
        if collectives["truncated"]:
            for at, key, calls, duration, *_ in collectives["sums"]:
                self._count(("collective", keys[key]), first + at, duration // counts[at], calls)
            return
        starts, start = steps["start"], 0
        for delta, duration, key in zip(collectives["start_delta"], collectives["duration"], collectives["key"]):
            start += delta
            at = bisect.bisect_right(starts, start) - 1
            inside = at >= 0 and start < starts[at] + steps["total"][at]
            self._count(("collective", keys[key]), first + at if inside else -1, duration // (counts[at] if inside else 1))

    def _count(self, key: Key, step: int, time: int, calls: int = 1) -> None:
        cells = self.cells.setdefault(key, {})
        cells[step] = cells.get(step, 0) + time
        self.calls[key] = self.calls.get(key, 0) + calls * (step >= 0)

    def _add_memory(self, spans: Spans, first: int, starts: List[int], ends: List[int]) -> None:
        """Adds the peak of each step, and the growth from its begin to its end, in bytes."""
        for name, sums in (("CPU", spans.memory_sums), ("GPU", spans.memory_device_sums)):
            if not any(spans.memory_bytes if name == "CPU" else spans.memory_device):
                continue
            before = _before(spans, name, sums)
            bounds = list(zip(starts, ends)) or [(-1 << 62, 1 << 62)]
            for at, (start, end) in enumerate(bounds, first if starts else -1):
                low, high = bisect.bisect_left(spans.memory_time, start), bisect.bisect_left(spans.memory_time, end)
                self.cells.setdefault(("memory", f"{name} peak"), {})[at] = before + max(sums[i] for i in range(low, high + 1))
                self.cells.setdefault(("memory", f"{name} growth"), {})[at] = sums[high] - sums[low]
                forget()

    def values(self, key: Key, whole: bool) -> List[int]:
        """One number for each step; one in all if `whole`."""
        cells = self.cells.get(key, {})
        if whole:
            return [max(cells.values(), default=0) if key[0] == "memory" else sum(cells.values())]
        return [cells.get(step, 0) for step in range(len(self.steps))]


def _summary_of(path: str) -> Summary:
    """A summary by itself, or that of a trace."""
    if path.endswith(SUFFIX):
        return read(path)
    found, why = of_trace(path)
    if found is None:
        raise Problem(f"the other side has summaries alone, and this has none ({why or 'no summary'}): cprof summarize makes it", path)
    return found


def _work(spans: Spans) -> Iterator[Tuple[int, int, int]]:
    """Kind, start and duration of each span of a device."""
    for n, one in enumerate(zip(*map(spans.columns.whole, (spans.work_kind, spans.work_start, spans.work_duration)))):
        if n % AT_A_TIME == 0:
            forget()
        yield one


def _before(spans: Spans, name: str, sums: Any) -> int:
    """Bytes in use when the trace began, if the trace has that (cprof.memory)."""
    account = spans.metadata.get("cprof")
    devices = account.get("memory") if type(account) is dict else None
    peaks = [one["peak_bytes"] for one in devices if type(one) is dict and type(one.get("peak_bytes")) is int and
             str(one.get("device")).lower().startswith("cpu") == (name == "CPU")] if type(devices) is list else []
    return max(0, peaks[0] - max(sums)) if len(peaks) == 1 else 0


def _key(kind: Kind) -> Key:
    if kind.name == STEPS:
        return "outside", OUTSIDE
    collective = kind_of(kind.name, kind.category) is not None
    shown = "collective" if collective else "call" if kind.category in CALLS else _KINDS.get(kind.category, kind.category)
    return shown, kind.name


class Change(NamedTuple):
    """A number per step of both sides, and the noise of its difference; None: the spread is not known."""
    before: float
    after: float
    noise: Optional[float]

    @property
    def difference(self) -> float:
        return self.after - self.before

    @property
    def counts(self) -> bool:
        """Whether the difference is more than noise."""
        return abs(self.difference) > (self.noise or 0)


def _error(values: List[int], middle: float) -> float:
    """Standard error of the median."""
    return OF_A_MEDIAN * DEVIATION * statistics.median(abs(value - middle) for value in values) / math.sqrt(len(values))


def change_of(before: List[int], after: List[int]) -> Change:
    """The medians of both, and the noise of their difference."""
    middles = statistics.median(before), statistics.median(after)
    noise = None
    if min(len(before), len(after)) >= STEPS_LEAST:
        noise = ERRORS * math.hypot(_error(before, middles[0]), _error(after, middles[1]))
    return Change(*middles, noise)


class Row(NamedTuple):
    """One row of the comparison."""
    kind: str
    name: str
    change: Change
    calls: Tuple[float, float]

    @property
    def state(self) -> str:
        """"new" or "gone" if only one side has the row."""
        if self.kind == "memory":
            return ""
        return "new" if not self.calls[0] and self.calls[1] else "gone" if self.calls[0] and not self.calls[1] else ""


class Comparison:
    """Both sides, and what differs."""

    def __init__(self, before: str, after: str) -> None:
        paths = [traces_of([side], summaries=True) for side in (before, after)]
        self.by_summaries = by_summaries = any(path.endswith(SUFFIX) for side in paths for path in side)
        self.sides = [Side(given, side, by_summaries) for given, side in zip((before, after), paths)]
        self.whole = not all(side.has_steps for side in self.sides)
        lengths = [[side.whole] if self.whole else side.steps for side in self.sides]
        self.step = change_of(*lengths)
        rows = [self._row(key) for key in dict.fromkeys(key for side in self.sides for key in side.cells)]
        # times before memory: nanoseconds and bytes are not compared with each other
        self.rows = sorted((row for row in rows if row.change.counts), key=lambda row: (row.kind == "memory", -abs(row.change.difference), row.name, row.kind))
        self.within_noise = len(rows) - len(self.rows)

    def _row(self, key: Key) -> Row:
        both = [side.values(key, self.whole) for side in self.sides]
        calls = [side.calls.get(key, 0) / max(side.count, 1) for side in self.sides]
        if self.whole:
            calls = [float(key in side.cells) for side in self.sides]
        return Row(*key, change_of(*both), (calls[0], calls[1]))

    def slower_by(self) -> float:
        """Percent."""
        return 100 * self.step.difference / self.step.before if self.step.before else math.inf if self.step.after else 0.0

    def of(self, memory: bool, limit: int) -> Iterator[Row]:
        """The rows that are shown, of memory or of times."""
        rows = [row for row in self.rows if (row.kind == "memory") == memory]
        least = 0.0 if memory else SHOWN * max(self.step.before, self.step.after)
        return iter(rows if limit < 0 else [row for row in rows if row.state or abs(row.change.difference) >= least][:limit])

    def head(self) -> str:
        """The first line of the answer."""
        what, change = "whole trace" if self.whole else "step", self.step
        share = f"{_signed(self.slower_by(), '.0f')} %" if change.before else "new"
        steps = "no steps" if self.whole else " and ".join(f"{side.count:,}" for side in self.sides) + " steps"
        noise = f"±{change.noise / 1e6:,.1f}" if change.noise is not None else "spread unknown"
        return f"{what} {change.before / 1e6:,.1f} → {change.after / 1e6:,.1f} ms ({share}; {steps}; {noise})"


def _signed(value: float, form: str) -> str:
    text = format(value, form)
    return text if text.startswith("-") or not float(text.replace(",", "")) else "+" + text


def _size(value: float) -> str:
    return format_memory(round(value))


def _cells(row: Row) -> List[str]:
    change = row.change
    if row.kind == "memory":
        return [("+" if change.difference > 0 else "") + _size(change.difference), _size(change.before), _size(change.after), "", "", row.kind, row.name]
    there = [f"{value / 1e6:,.3f}" if calls or value else "-" for value, calls in zip((change.before, change.after), row.calls)]
    return [_signed(change.difference / 1e6, ",.3f"), *there, *(f"{calls:,.4g}" for calls in row.calls), row.kind, row.name]


def _table(rows: List[Row], columns: List[str], markdown: bool) -> str:
    lines = [[*(_cells(row)), row.state] for row in rows]
    for line in lines:
        line[6] = printable(line[6])
        line[6] = line[6] if len(line[6]) <= NAME_MOST else line[6][:NAME_MOST - 3] + "..."
    if markdown:
        body = [columns, ["---:"] * 5 + ["---"] * 2, *(line[:6] + [_code(line[6]) + (f" ({line[7]})" if line[7] else "")] for line in lines)]
        return "".join("| " + " | ".join(line) + " |\n" for line in body)
    texts = [columns, *(line[:6] + [(f"{line[7]}: " if line[7] else "") + line[6]] for line in lines)]
    widths = [max(len(text[at]) for text in texts) for at in range(6)]
    return "".join("  ".join([text[at].rjust(widths[at]) for at in range(5)] + [text[5].ljust(widths[5]), text[6]]) + "\n" for text in texts)


def _code(name: str) -> str:
    """A name as Markdown code, so that it is no markup, does not end the cell, and mentions nobody."""
    return "`" + name.replace("`", "'").replace("|", "\\|") + "`"


def _text(found: Comparison, limit: int, markdown: bool) -> str:
    per = "" if found.whole else " per step"
    text = ("**" + found.head() + "**" if markdown else found.head()) + "\n"
    for memory, columns in ((False, ["B - A ms", "A ms", "B ms", "calls A", "calls B", "kind", "name" + per]),
                            (True, ["B - A", "A", "B", "", "", "kind", "name" + per])):
        rows = list(found.of(memory, limit))
        if rows:
            text += "\n" + _table(rows, columns, markdown)
    hidden = len(found.rows) - sum(len(list(found.of(memory, limit))) for memory in (False, True))
    ends = [f"{hidden:,} smaller rows are not shown (--row-limit -1 shows them)"] * bool(hidden)
    ends += [f"{found.within_noise:,} rows are the same or within the noise"] * bool(found.within_noise)
    return text + ("\n" + "; ".join(ends) + "\n" if ends else "")


def _json(found: Comparison) -> str:
    def numbers(change: Change, scale: int) -> Dict[str, Any]:
        return {"before": change.before / scale, "after": change.after / scale, "difference": change.difference / scale,
                "noise": None if change.noise is None else change.noise / scale}
    rows = [{"name": row.name, "kind": row.kind, **numbers(row.change, 1 if row.kind == "memory" else 1000), "state": row.state or "both",
             "count_before": row.calls[0], "count_after": row.calls[1]} for row in found.rows]
    step = {**numbers(found.step, 1000), "percent": found.slower_by() if found.step.before else None,
            "steps_before": 0 if found.whole else found.sides[0].count, "steps_after": 0 if found.whole else found.sides[1].count}
    return json.dumps({"step": step, "within_noise": found.within_noise, "rows": rows}, indent=1) + "\n"


def show(before: str, after: str, limit: int, as_json: bool, markdown: bool = False) -> Comparison:
    """Prints the comparison."""
    found = Comparison(before, after)
    if found.by_summaries and not as_json:
        note("by summaries alone: operators, calls and kernels are in the traces")
    if as_json:
        data(_json(found))
    elif markdown:
        data(_text(found, limit, True))
    else:
        put(_text(found, limit, False))
    return found


def run(args: argparse.Namespace) -> int:
    """`cprof compare`"""
    found = show(args.before, args.after, args.row_limit, args.json, args.markdown)
    if args.fail_above is None or found.slower_by() <= args.fail_above or not found.step.counts:
        return 0
    note(f"{'the trace' if found.whole else 'a step'} got {found.slower_by():.1f} % slower: more than {args.fail_above:g} %")
    return FOUND
