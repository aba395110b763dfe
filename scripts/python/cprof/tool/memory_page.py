# SPDX-License-Identifier: Apache-2.0
"""The page of `cprof memory-timeline -o FILE.html`: a chart for each device, and a short script for the tip under the pointer."""

import heapq
import json
from typing import Dict, List, Sequence, Tuple

from cprof.tool.averages import format_memory, format_time
from cprof.tool.memory import growth_text
from cprof.tool.memory_charts import COLORS, Series, drawn, holders_at
from cprof.tool.memory_holders import Account
from cprof.tool.memory_use import CATEGORIES, CREATE, Timeline
from cprof.tool.page import SORT, Html, as_data, cut, document, joined, key, tag

COLUMNS = 1400          # of time
LISTED = 3000           # largest allocations that the pointer can show
DEVICES_MOST = 64       # charts on a page
GROWING = 3             # leaks named

STYLE = """
.memory .grid { stroke: var(--line); vector-effect: non-scaling-stroke; fill: none }
.memory .step, .memory .peak, .memory .cursor { stroke: var(--muted); vector-effect: non-scaling-stroke; stroke-dasharray: 3 3; fill: none }
.memory .peak, .memory .cursor { stroke: var(--text); stroke-dasharray: none }
"""

_STYLE = """
body { max-width: 1460px }
.chart > svg.memory { height: 340px }
.tip { position: fixed; pointer-events: none; background: var(--back); border: 1px solid var(--muted); border-radius: 4px; padding: 6px 9px;
  font-size: 12px; display: none; max-width: 620px; z-index: 1 }
.tip table { margin: 0 } .tip td { border: 0; padding: 0 6px 0 0 } .tip td:first-child { text-align: right; white-space: nowrap }
"""

_SCRIPT = """
const names = %s, colors = %s, tip = document.querySelector('.tip');
const size = n => { for (const [u, s] of [['GB', 2**30], ['MB', 2**20], ['KB', 2**10]])
  if (Math.abs(n) >= s) return (n / s).toFixed(2) + ' ' + u; return n + ' B'; };
const time = ns => ns >= 1e9 ? (ns / 1e9).toFixed(3) + ' s' : ns >= 1e6 ? (ns / 1e6).toFixed(3) + ' ms' : (ns / 1e3).toFixed(3) + ' us';
const cell = (row, text, color) => { const td = row.insertCell(); td.textContent = text; if (color) td.style.color = color; };
for (const svg of document.querySelectorAll('svg[data-chart]')) {
  const d = JSON.parse(document.getElementById(svg.dataset.chart).textContent), line = svg.querySelector('.cursor');
  svg.addEventListener('mouseleave', () => { tip.style.display = 'none'; line.setAttribute('d', ''); });
  svg.addEventListener('mousemove', event => {
    const box = svg.getBoundingClientRect(), columns = d.totals.length;
    const at = Math.min(columns - 1, Math.max(0, Math.floor((event.clientX - box.left) / box.width * columns)));
    const when = d.times[at], sums = d.sizes[at];
    line.setAttribute('d', `M${at} 0V1000`);
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


def _device(number: int, line: Timeline, steps: Sequence[Tuple[int, int, str]], begin: int, end: int) -> Html:
    series, account = Series(line, begin, end, COLUMNS), Account(line, steps)
    largest, owners = _largest(line, begin, end)
    data = as_data({"times": series.times, "totals": series.totals, "sizes": series.sizes, "largest": largest, "owners": owners})
    allocations = sum(action == CREATE for _, action, _, _ in line.actions())
    peak = f"peak {format_memory(series.peak)} at {format_time(series.peak_at / 1000)}"
    return joined([
        tag("h2", line.device),
        tag("p", tag("b", peak, class_="peak"), f"; {format_memory(line.before)} were there before the trace. {allocations:,} allocations."),
        drawn(series, steps, data_chart=f"data{number}"), Html(f'<script type="application/json" id="data{number}">{data}</script>'),
        *(tag("p", tag("b", cut(growth_text(one, account), 400)), class_="grows") for one in account.growing[:GROWING]), *holders_at(account)])


def _largest(line: Timeline, begin: int, end: int) -> Tuple[List[List[int]], List[str]]:
    """[start, end, size, category, owner] of the largest allocations, and the owners' names."""
    owners: Dict[str, int] = {}
    rows = []
    for one in heapq.nlargest(LISTED, line.allocations(), key=lambda one: one.size):
        rows.append([0 if one.start is None else one.start - begin, end - begin + 1 if one.end is None else one.end - begin,
                     one.size, one.category, owners.setdefault(one.owner.chain, len(owners))])
    return rows, list(owners)


def page(title: str, lines: List[Timeline], steps: Sequence[Tuple[int, int, str]]) -> str:
    """The page as text, with a chart for each device, at most DEVICES_MOST."""
    more, lines = len(lines) - DEVICES_MOST, lines[:DEVICES_MOST]
    begin = min([line.begin for line in lines] + [start for start, _, _ in steps])
    end = max([line.end for line in lines] + [end for _, end, _ in steps])
    used = {category for line in lines for _, _, _, category in line.actions()}
    body = [tag("h1", "Tensor memory over time"),
            tag("p", f"{title}. Point at the chart to see who holds the memory. The category of memory follows from where it was taken and released.", class_="muted"),
            key((CATEGORIES[at], color) for at, color in enumerate(COLORS) if at in used)]
    body += [_device(number, line, steps, begin, end) for number, line in enumerate(lines)]
    if more > 0:
        body.append(tag("p", f"{more:,} more devices are left out: --device NAME shows one."))
    body.append(tag("div", class_="tip"))
    return document(f"Memory: {title}", *body, style=STYLE + _STYLE, script=SORT + _SCRIPT % (json.dumps(CATEGORIES), json.dumps(COLORS)))
