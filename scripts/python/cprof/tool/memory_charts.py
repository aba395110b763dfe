# SPDX-License-Identifier: Apache-2.0
"""The parts of pages about a device's memory: a chart over time by category, and tables of the holders."""

from typing import Dict, List, Sequence, Tuple

from cprof.tool.averages import format_memory, format_time
from cprof.tool.memory_holders import Account, Held
from cprof.tool.memory_use import CATEGORIES, Timeline
from cprof.tool.page import Column, Html, Number, chart, drawing, marks, table, tag, ticks
from cprof.tool.spans import step_number

COLORS = ("#3d9950", "#d6b52c", "#5f6b7a", "#9d7fd1", "#d6453d", "#3a59c9", "#5e9be0", "#a3a3a3", "#c2185b")
COLUMNS = 300     # columns of time in a chart; each shows its largest total
HOLDERS = 15      # rows of a table
STEPS_NAMED = 12  # in a chart
_UNITS = ((1 << 40, "TB"), (1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"), (1, "B"))


class Series:
    """A timeline in columns of time. Each column has the moment at which most was in use."""

    def __init__(self, line: Timeline, begin: int, end: int, columns: int = COLUMNS) -> None:
        self.columns, self.begin, self.span = columns, begin, max(1, end - begin)
        self.peak, self.peak_at = 0, 0
        now = [0] * len(CATEGORIES)
        best: Dict[int, Tuple[int, int, List[int]]] = {}
        last = -1
        total = 0
        for time, _, size, category in line.actions():
            time = 0 if time < 0 else time - begin
            column = min(columns - 1, time * columns // self.span)
            if column != last:
                for between in range(max(last, 0), column + 1):  # columns without an event continue the one before
                    kept = best.get(between)
                    if kept is None:
                        best[between] = (total, between * self.span // columns, list(now))
                last = column
            now[category] += size
            total += size
            if total > best[column][0]:
                best[column] = (total, time, list(now))
            if total > self.peak:
                self.peak, self.peak_at = total, time
        for column in range(columns):
            if column not in best:
                best[column] = (total, column * self.span // columns, list(now))
        self.totals = [best[column][0] for column in range(columns)]
        self.times = [best[column][1] for column in range(columns)]
        self.sizes = [best[column][2] for column in range(columns)]


def drawn(series: Series, steps: Sequence[Tuple[int, int, str]], **attributes: str) -> Html:
    """The chart."""
    unit, name = next((unit for unit in _UNITS if unit[0] <= max(series.peak, 1)))
    scale = [tick * unit for tick in ticks(series.peak / unit)]
    columns = series.columns
    parts = [f'<path class="grid" d="M0 {1000 - 1000 * tick / scale[0]:.0f}H{columns}"/>' for tick in scale]
    below = [0] * columns
    for category, color in enumerate(COLORS):
        above = [low + max(0, sizes[category]) for low, sizes in zip(below, series.sizes)]
        if above != below:
            heights = [[round(1000 - 1000 * size / scale[0]) for size in side] for side in (above, below)]
            parts.append(f'<path data-category="{CATEGORIES[category]}" fill="{color}" d="{_outline(*heights)}"/>')
        below = above
    inside = [(start - series.begin, name) for start, _, name in steps if 0 <= start - series.begin <= series.span]
    parts += [f'<path class="step" d="M{columns * at / series.span:.2f} 0V1000"/>' for at, _ in inside[:columns]]
    parts.append(f'<path class="peak" d="M{columns * series.peak_at / series.span:.2f} 0V1000"/><path class="cursor"/>')
    named = inside[::-(-len(inside) // STEPS_NAMED) or 1]
    return chart(drawing(Html("".join(parts)), columns, 1000, "memory", **attributes), [f"{tick / unit:,.4g} {name}" for tick in scale],
                 [format_time(part * series.span / 1000) for part in (0, 0.5, 1)],
                 marks([(at / series.span, f"step {_step_text(name)}") for at, name in named]))


def _outline(above: List[int], below: List[int]) -> str:
    """The path of an area as stairs: along one side and back along the other. Level stretches need no points."""
    forth = "".join(f"V{y}H{x + 1}" if not x or y != above[x - 1] or x + 1 == len(above) else f"H{x + 1}" if y != above[x + 1] else ""
                    for x, y in enumerate(above))
    back = "".join(f"V{below[x]}H{x}" if x + 1 == len(below) or below[x] != below[x + 1] or not x else f"H{x}" if below[x] != below[x - 1] else ""
                   for x in range(len(below) - 1, -1, -1))
    return f"M0 {below[0]}{forth}{back}Z"


def _step_text(name: str) -> str:
    """A step's number as text, or its name if that has no number."""
    number = step_number(name)
    return name if number is None else str(number)


def chart_of(line: Timeline, steps: Sequence[Tuple[int, int, str]]) -> Html:
    """The chart of one device."""
    begin = min([line.begin] + [start for start, _, _ in steps])
    end = max([line.end] + [end for _, end, _ in steps])
    return drawn(Series(line, begin, end), steps)


def holders_at(account: Account) -> List[Html]:
    """Tables of the largest holders at the peak and at the end."""
    return _table("At the peak", [(one.peak, one.peak_pieces, one) for one in account.held]) + \
        _table("At the end", [(one.end, one.end_pieces, one) for one in account.held])


def _table(title: str, held: List[Tuple[int, int, Held]]) -> List[Html]:
    rows = sorted((one for one in held if one[0] > 0), key=lambda one: -one[0])[:HOLDERS]
    if not rows:
        return []
    cells = [[Number(format_memory(size), size), Number(f"{pieces:,}", pieces),
              Number("+" + format_memory(round(one.growth)), one.growth) if one.growth else None, CATEGORIES[one.category], *one.holder]
             for size, pieces, one in rows]
    columns = [Column("bytes"), Column("pieces"), Column("per step"), Column("for", "t"), Column("operator", "p"), Column("module", "p"), Column("line", "p")]
    return [tag("h3", title), table(columns, cells)]
