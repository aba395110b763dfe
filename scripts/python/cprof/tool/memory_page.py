# SPDX-License-Identifier: Apache-2.0
"""The page of `cprof memory-timeline -o FILE.html`: one chart for each device, drawn as SVG here, with a few lines of script
for what stands under the pointer. It needs nothing from anywhere else."""

import heapq
import html
import json
from typing import Any, Dict, List, Sequence, Tuple

from cprof.tool.averages import format_memory, format_time
from cprof.tool.memory import growth_text
from cprof.tool.memory_holders import Account, Held
from cprof.tool.memory_use import CATEGORIES, CREATE, Timeline
from cprof.tool.spans import step_number

COLORS = ("#2f6b2f", "#d9a521", "#333333", "#9d7fd1", "#d6453d", "#2846b5", "#5e86e0", "#a3a3a3", "#c2185b")
WIDTH, HEIGHT, LEFT, TOP, BOTTOM, RIGHT = 1400, 420, 90, 30, 40, 20
COLUMNS = 1400          # time is drawn in so many columns, each with its largest total
LISTED = 3000           # largest allocations that the pointer can show
DEVICES_MOST = 64       # charts on a page
HOLDERS, GROWING = 15, 3  # rows of a table, and leaks named

_STYLE = """
body { font: 14px system-ui, sans-serif; margin: 24px; color: #222; background: #fff; max-width: 1460px }
h1 { font-size: 20px; margin: 0 0 4px } h2 { font-size: 16px; margin: 28px 0 4px }
p { margin: 2px 0 } .muted { color: #666 } svg { width: 100%; height: auto; display: block }
svg text { font: 12px system-ui, sans-serif; fill: #444 } .key { display: inline-block; margin-right: 16px }
.key i { display: inline-block; width: 12px; height: 12px; margin-right: 5px; border-radius: 2px; vertical-align: -1px }
.tip { position: fixed; pointer-events: none; background: #fff; border: 1px solid #999; border-radius: 4px; padding: 6px 9px;
  font-size: 12px; box-shadow: 0 2px 8px #0003; display: none; max-width: 620px; z-index: 1 }
.tip table { border-spacing: 6px 1px } .tip td:first-child { text-align: right; white-space: nowrap }
table.owners { border-collapse: collapse; margin-top: 6px } table.owners td, table.owners th { padding: 2px 12px 2px 0;
  text-align: left; font-size: 13px } table.owners td:first-child { text-align: right }
"""

_SCRIPT = """
'use strict';
const names = %s, colors = %s, tip = document.querySelector('.tip');
const size = n => { for (const [u, s] of [['GB', 2**30], ['MB', 2**20], ['KB', 2**10]])
  if (Math.abs(n) >= s) return (n / s).toFixed(2) + ' ' + u; return n + ' B'; };
const time = ns => ns >= 1e9 ? (ns / 1e9).toFixed(3) + ' s' : ns >= 1e6 ? (ns / 1e6).toFixed(3) + ' ms' : (ns / 1e3).toFixed(3) + ' us';
const cell = (row, text, color) => { const td = row.insertCell(); td.textContent = text; if (color) td.style.color = color; };
for (const svg of document.querySelectorAll('svg[data-chart]')) {
  const d = JSON.parse(document.getElementById(svg.dataset.chart).textContent), line = svg.querySelector('.cursor');
  svg.addEventListener('mouseleave', () => { tip.style.display = 'none'; line.style.display = 'none'; });
  svg.addEventListener('mousemove', event => {
    const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) * %d / box.width;
    const at = Math.min(d.totals.length - 1, Math.max(0, Math.floor((x - %d) / (%d) * d.totals.length)));
    const when = d.times[at], sums = d.sizes[at];
    line.setAttribute('x1', x); line.setAttribute('x2', x); line.style.display = '';
    tip.textContent = '';
    const head = tip.appendChild(document.createElement('b'));
    head.textContent = time(when) + ': ' + size(d.totals[at]);
    let table = tip.appendChild(document.createElement('table'));
    sums.forEach((n, i) => { if (n > 0) { const row = table.insertRow(); cell(row, size(n)); cell(row, names[i], colors[i]); } });
    const live = d.largest.filter(a => a[0] <= when && when < a[1]).slice(0, 8);
    if (live.length) {
      tip.appendChild(document.createElement('b')).textContent = 'largest';
      table = tip.appendChild(document.createElement('table'));
      for (const a of live) { const row = table.insertRow(); cell(row, size(a[2])); cell(row, d.owners[a[4]], colors[a[3]]); }
    }
    tip.style.display = 'block';
    tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)) + 'px';
    tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)) + 'px';
  });
}
"""


class _Series:
    """A timeline in columns of time: of each column the moment at which most was in use."""

    def __init__(self, line: Timeline, begin: int, end: int) -> None:
        self.span = max(1, end - begin)
        self.times: List[int] = []
        self.sizes: List[List[int]] = []
        self.peak, self.peak_at = 0, 0
        now = [0] * len(CATEGORIES)
        best: Dict[int, Tuple[int, int, List[int]]] = {}
        last = -1
        total = 0
        for time, _, size, category in line.actions():
            time = 0 if time < 0 else time - begin
            column = min(COLUMNS - 1, time * COLUMNS // self.span)
            if column != last:
                for between in range(max(last, 0), column + 1):  # what goes on from the column before
                    kept = best.get(between)
                    if kept is None:
                        best[between] = (total, between * self.span // COLUMNS, list(now))
                last = column
            now[category] += size
            total += size
            if total > best[column][0]:
                best[column] = (total, time, list(now))
            if total > self.peak:
                self.peak, self.peak_at = total, time
        for column in range(COLUMNS):
            if column not in best:
                best[column] = (total, column * self.span // COLUMNS, list(now))
        self.totals = [best[column][0] for column in range(COLUMNS)]
        self.times = [best[column][1] for column in range(COLUMNS)]
        self.sizes = [best[column][2] for column in range(COLUMNS)]


def _ticks(top: float, binary: bool) -> List[float]:
    """Four or five round numbers up to the top."""
    unit = 1024.0 ** max(0, (int(top).bit_length() - 1) // 10) if binary else 1.0
    step = 10.0 ** (len(str(int(top / unit))) - 1) if top >= unit else 0.1
    while top / unit / step < 3:
        step /= 2
    while top / unit / step > 6:
        step *= 2
    return [i * step * unit for i in range(int(top / unit / step) + 1)]


def _chart(number: int, line: Timeline, steps: Sequence[Tuple[int, int, str]], begin: int, end: int) -> str:
    series = _Series(line, begin, end)
    top = max(1.0, series.peak * 1.08)
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM

    def x_of(time: float) -> float:
        return LEFT + inner_width * time / series.span

    def y_of(size: float) -> float:
        return TOP + inner_height * (1 - size / top)

    parts: List[str] = []
    for tick in _ticks(top, True):
        y = y_of(tick)
        parts.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e4e4e4"/>'
                     f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{format_memory(int(tick))}</text>')
    for tick in _ticks(series.span / 1e6, False):
        x = x_of(tick * 1e6)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{tick:g} ms</text>')
    for start, _, name in steps:
        if begin <= start <= end:
            x = x_of(start - begin)
            parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#bbb" '
                         f'stroke-dasharray="3 3"/><text x="{x + 3:.1f}" y="{TOP - 8}">step {_step_text(name)}</text>')
    parts += _areas(series, y_of, inner_width)
    x, y = x_of(series.peak_at), y_of(series.peak)
    anchor = "end" if x > WIDTH / 2 else "start"
    parts.append(f'<circle class="peak" cx="{x:.1f}" cy="{y:.1f}" r="4" fill="none" stroke="#000" stroke-width="1.5"/>'
                 f'<text x="{x + (-9 if anchor == "end" else 9):.1f}" y="{y - 6:.1f}" text-anchor="{anchor}" '
                 f'style="font-weight:600">peak {format_memory(series.peak)} at {format_time(series.peak_at / 1000)}</text>')
    parts.append(f'<line class="cursor" y1="{TOP}" y2="{HEIGHT - BOTTOM}" stroke="#000" style="display:none"/>')
    largest, owners = _largest(line, begin, end)
    data = json.dumps({"times": series.times, "totals": series.totals, "sizes": series.sizes, "largest": largest,
                       "owners": owners}, separators=(",", ":")).replace("<", "\\u003c")
    return (f'<h2>{html.escape(line.device)}</h2><p>Peak {format_memory(series.peak)} at '
            f'{format_time(series.peak_at / 1000)}; {format_memory(line.before)} were there before the trace. '
            f'{sum(action == CREATE for _, action, _, _ in line.actions()):,} allocations.</p>'
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" data-chart="data{number}">{"".join(parts)}</svg>'
            f'<script type="application/json" id="data{number}">{data}</script>' + _holders(Account(line, steps)))


def _step_text(name: str) -> str:
    """A step's number, whoever named it."""
    number = step_number(name)
    return html.escape(name) if number is None else str(number)


def _areas(series: _Series, y_of: Any, width: int) -> List[str]:
    """The categories on top of each other, as steps."""
    parts = []
    below = [0] * COLUMNS
    step = width / COLUMNS
    for category, color in enumerate(COLORS):
        above = [low + max(0, sizes[category]) for low, sizes in zip(below, series.sizes)]
        if above != below:
            forth = " ".join(f"{LEFT + i * step:.1f},{y_of(size):.1f} {LEFT + (i + 1) * step:.1f},{y_of(size):.1f}"
                             for i, size in enumerate(above))
            back = " ".join(f"{LEFT + (i + 1) * step:.1f},{y_of(below[i]):.1f} {LEFT + i * step:.1f},{y_of(below[i]):.1f}"
                            for i in range(COLUMNS - 1, -1, -1))
            parts.append(f'<polygon data-category="{CATEGORIES[category]}" points="{forth} {back}" fill="{color}"/>')
        below = above
    return parts


def _largest(line: Timeline, begin: int, end: int) -> Tuple[List[List[int]], List[str]]:
    """[start, end, size, category, owner] of the largest allocations, and the owners' names."""
    owners: Dict[str, int] = {}
    rows = []
    for one in heapq.nlargest(LISTED, line.allocations(), key=lambda one: one.size):
        rows.append([0 if one.start is None else one.start - begin, end - begin + 1 if one.end is None else one.end - begin,
                     one.size, one.category, owners.setdefault(one.owner.chain, len(owners))])
    return rows, list(owners)


def _holders(account: Account) -> str:
    """What grows, and tables of who held most at the peak and at the end."""
    grows = "".join(f"<p class='grows'><b>{html.escape(growth_text(one, account))}</b></p>" for one in account.growing[:GROWING])
    return grows + _holders_at("At the peak", [(one.peak, one.peak_pieces, one) for one in account.held]) + \
        _holders_at("At the end", [(one.end, one.end_pieces, one) for one in account.held])


def _holders_at(title: str, held: List[Tuple[int, int, Held]]) -> str:
    rows = sorted((one for one in held if one[0] > 0), key=lambda one: -one[0])[:HOLDERS]
    if not rows:
        return ""
    used = [at for at in range(3) if any(one.holder[at] for _, _, one in rows)]
    heads = "".join(f"<th>{('operator', 'module', 'line')[at]}</th>" for at in used)
    lines = "".join(f'<tr><td>{format_memory(size)}</td><td>{pieces:,}</td><td style="color:{COLORS[one.category]}">{CATEGORIES[one.category]}</td>'
                    + "".join(f"<td>{html.escape(one.holder[at])}</td>" for at in used) + "</tr>" for size, pieces, one in rows)
    return (f"<p style='margin-top:10px'><b>{title}</b></p><table class='owners'><tr><th>bytes</th><th>pieces</th>"
            f"<th>for</th>{heads}</tr>{lines}</table>")


def page(title: str, lines: List[Timeline], steps: Sequence[Tuple[int, int, str]]) -> str:
    """The page as text: a chart for each device, but for no more than DEVICES_MOST."""
    left_out, lines = len(lines) - DEVICES_MOST, lines[:DEVICES_MOST]
    begin = min([line.begin for line in lines] + [start for start, _, _ in steps])
    end = max([line.end for line in lines] + [end for _, end, _ in steps])
    used = {CATEGORIES[category] for line in lines for _, _, _, category in line.actions()}
    keys = "".join(f'<span class="key"><i style="background:{color}"></i>{name}</span>'
                   for name, color in zip(CATEGORIES, COLORS) if name in used)
    charts = "".join(_chart(number, line, steps, begin, end) for number, line in enumerate(lines))
    if left_out > 0:
        charts += f'<p>{left_out:,} more devices are left out: --device NAME shows one.</p>'
    script = _SCRIPT % (json.dumps(CATEGORIES), json.dumps(COLORS), WIDTH, LEFT, WIDTH - LEFT - RIGHT)
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>Memory: {html.escape(title)}</title>'
            f'<style>{_STYLE}</style></head><body><h1>Tensor memory over time</h1><p class="muted">{html.escape(title)}; '
            f'point at the chart for who holds what. What memory is for is told by where it was taken and given back.</p>'
            f'<p style="margin-top:8px">{keys}</p>{charts}<div class="tip"></div><script>{script}</script></body></html>\n')
