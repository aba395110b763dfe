# SPDX-License-Identifier: Apache-2.0
"""Self-contained pages: one HTML file that makes no requests, which a content security policy enforces.

    page.document("Title", page.tag("p", name), script=SCRIPT)

tag() escapes all text, so that a name from a trace cannot become markup; only what tag() itself made, Html, goes in as it is. No element has a
style attribute, as the policy allows none. Drawings are SVG that is stretched to its place, and their labels are HTML: letters keep their size on
a phone and on paper."""

import base64
import hashlib
import html
import json
from typing import Any, Iterable, List, NamedTuple, Optional, Sequence, Tuple, Union

from cprof._untrusted import printable

NAME_MOST = 120  # characters of a name: those of kernels have thousands
_SHORT = frozenset(("rect", "line", "path", "meta", "input"))  # elements without content


class Html(str):
    """Markup."""

    def __add__(self, other: str) -> "Html":
        return Html(str(self) + str(escaped(other)))


Inside = Union[str, Html]


def escaped(text: Any) -> Html:
    """Text as markup, in one line."""
    return text if isinstance(text, Html) else Html(html.escape(printable(text)))


def tag(name: str, *inside: Inside, **attributes: Any) -> Html:
    """An element. class_: its class; "_" in other names becomes "-"; an attribute with the value None is left out."""
    told = "".join(f' {key.rstrip("_").replace("_", "-")}="{html.escape(printable(value))}"' for key, value in attributes.items() if value is not None)
    if name in _SHORT:
        return Html(f"<{name}{told}/>")
    return Html(f"<{name}{told}>{''.join(map(escaped, inside))}</{name}>")


def joined(parts: Iterable[Inside]) -> Html:
    """Joins pieces of markup."""
    return Html("".join(map(escaped, parts)))


def cut(name: str, most: int = NAME_MOST) -> str:
    """A name, shortened to fit into a cell."""
    return name if len(name) <= most else name[:most - 1] + "…"


def as_data(value: Any) -> str:
    """JSON that is safe inside a script element."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8', 'backslashreplace')).digest()).decode()}'"


def document(title: str, *body: Inside, style: str = "", script: str = "") -> str:
    """The whole page."""
    style = STYLE + style
    policy = f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    return (f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">{tag("meta", http_equiv="Content-Security-Policy", content=policy)}'
            f'<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
            f'{tag("title", title)}<style>{style}</style></head><body>{joined(body)}<script>{script}</script></body></html>\n')


# ---- tables ----

class Column(NamedTuple):
    """A column of a table. kind: "n" for numbers, "t" for text, "p" for a name that may be long, "b" for a drawing."""
    title: str
    kind: str = "n"


class Number(NamedTuple):
    """The content of a cell, and its sort key."""
    text: str
    value: float


Cell = Union[str, Html, Number, None]


def _cell(cell: Cell, column: Column) -> Html:
    if isinstance(cell, Number):
        return tag("td", cell.text, class_=column.kind, data_v=f"{cell.value:.12g}")
    return tag("td", cell if isinstance(cell, Html) else cut(cell or ""), class_=column.kind)


def table(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], name: Optional[str] = None, sort: bool = True) -> Html:
    """A table without its empty columns. sort: a click on a head sorts."""
    used = [at for at in range(len(columns)) if any(row[at] not in (None, "") for row in rows)]
    head = tag("tr", *(tag("th", columns[at].title, class_=columns[at].kind, scope="col") for at in used))
    body = joined(tag("tr", *(_cell(row[at], columns[at]) for at in used)) for row in rows)
    return tag("div", tag("table", tag("thead", head), tag("tbody", body), class_="sort" if sort else None, id=name), class_="wide")


def left_out(shown: int, whole: int, what: str) -> Html:
    """A line about rows that are not shown, or nothing."""
    return tag("p", f"{shown:,} of {whole:,} {what}", class_="muted") if shown < whole else Html()


# ---- drawings ----

def bar(parts: Sequence[Tuple[float, str, str]], whole: float) -> Html:
    """A bar of parts (size, color, title); `whole` is the size of the full length."""
    rects, at = [], 0.0
    for size, color, what in parts:
        if size > 0 < whole:
            width = 1000 * size / whole
            rects.append(tag("rect", x=f"{at:.1f}", width=f"{width:.1f}", height=10, fill=color) if not what else Html(
                f'<rect x="{at:.1f}" width="{width:.1f}" height="10" fill="{escaped(color)}">{tag("title", what)}</rect>'))
            at += width
    return drawing(joined(rects), 1000, 10, "bar")


def drawing(inside: Html, across: int, down: int, kind: str, **attributes: Any) -> Html:
    """SVG with this number of units, which fills its place of any size."""
    return tag("svg", inside, class_=kind, viewBox=f"0 0 {across} {down}", preserveAspectRatio="none", **attributes)


def chart(plot: Html, highest: Sequence[str], along: Sequence[str], above: Html = Html()) -> Html:
    """A drawing with labels of its height, from the top down, and of its width, from left to right. above: marks()."""
    return tag("div", above, tag("div", *(tag("span", text) for text in highest), class_="up"), plot,
               tag("div", *(tag("span", text) for text in along), class_="along"), class_="chart")


def marks(texts: Iterable[Tuple[float, str]]) -> Html:
    """Words at places of the width, 0 to 1."""
    return tag("svg", *(tag("text", cut(text, 20), x=f"{100 * at:.2f}%", y=12) for at, text in texts), class_="marks")


def key(parts: Iterable[Tuple[str, str]]) -> Html:
    """A legend of the colors."""
    return tag("p", *(tag("span", Html(f'<svg class="dot" viewBox="0 0 1 1">{tag("rect", width=1, height=1, fill=color)}</svg>'), name, class_="key")
                      for name, color in parts))


def ticks(most: float) -> List[float]:
    """Label values from a round number of at least `most` down to 0."""
    if not most > 0:
        return [1.0, 0.0]
    unit = 10.0 ** len(str(int(most))) / 100 if most >= 1 else most / 10
    while unit * 10 < most:
        unit *= 2
    top = next(n for n in range(1, 11) if unit * n >= most * 0.9999)
    top += top % 2
    return [unit * top, unit * top / 2, 0.0]


STYLE = """
:root { --back: #fff; --text: #1d2430; --muted: #5d6675; --line: #d8dde4; --panel: #f5f7f9; --accent: #1f5fbf; --bad: #b3261e }
@media (prefers-color-scheme: dark) { :root { --back: #14181e; --text: #e3e7ec; --muted: #9aa4b2; --line: #323a45; --panel: #1c222a;
  --accent: #7db0ff; --bad: #ff8a80 } }
* { box-sizing: border-box }
body { font: 15px/1.5 system-ui, sans-serif; margin: 0 auto; padding: 16px; max-width: 1180px; color: var(--text); background: var(--back) }
h1 { font-size: 22px; margin: 0 0 4px; overflow-wrap: anywhere } h2 { font-size: 18px; margin: 32px 0 6px; border-top: 1px solid var(--line);
  padding-top: 14px } h3 { font-size: 15px; margin: 18px 0 4px; overflow-wrap: anywhere } p { margin: 4px 0; overflow-wrap: anywhere }
.muted { color: var(--muted) } .bad { color: var(--bad) } svg { display: block; width: 100% }
.bar { height: 14px; min-width: 120px }
.key { display: inline-block; margin-right: 14px; white-space: nowrap; font-size: 13px } .dot { display: inline-block; width: 11px; height: 11px;
  margin-right: 5px; vertical-align: -1px }
.chart { display: grid; grid-template-columns: max-content 1fr; gap: 2px 6px; margin: 8px 0 } .chart > svg:not(.marks, .heat) { height: 190px;
  background: var(--panel); border-bottom: 1px solid var(--line) } .up, .along { display: flex; justify-content: space-between; font-size: 12px;
  color: var(--muted) } .up { flex-direction: column; text-align: right; line-height: 1 } .along, .marks { grid-column: 2 }
.marks { height: 16px; overflow: visible; fill: var(--muted); font-size: 12px }
.wide { overflow-x: auto } table { border-collapse: collapse; font-size: 13px; margin: 6px 0 } th, td { padding: 3px 12px 3px 0; text-align: left;
  vertical-align: top; border-bottom: 1px solid var(--line) } th { white-space: nowrap; color: var(--muted); font-weight: 600 }
.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums } td.p { min-width: 9em; max-width: 30em; overflow-wrap: anywhere }
td.t { white-space: nowrap } td.b { min-width: 150px; width: 40% } .sort th { cursor: pointer } .sort th[aria-sort=ascending]::after { content: " \\2191" }
.sort th[aria-sort=descending]::after { content: " \\2193" } th:focus-visible { outline: 2px solid var(--accent) }
@media (max-width: 600px) { .marks text:not(:nth-child(3n+1)) { display: none } }
@media print { :root { --back: #fff; --text: #000; --muted: #444; --line: #bbb; --panel: #f4f4f4; --accent: #000; --bad: #900 }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact } body { max-width: none; padding: 0; font-size: 10pt }
  .wide { overflow: visible } table { font-size: 8pt; width: 100% } tr, .chart, .finding { break-inside: avoid } h2, h3 { break-after: avoid }
  td.p { min-width: 0 } td.b { width: 25% } th { white-space: normal } th, td { padding-right: 6px } }
"""

SORT = """
'use strict';
for (const table of document.querySelectorAll('table.sort')) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  const value = (row, at) => { const cell = row.cells[at]; return 'v' in cell.dataset ? Number(cell.dataset.v) : cell.textContent; };
  const less = (a, b) => typeof a === typeof b ? (typeof a === 'number' ? a - b : a.localeCompare(b)) : typeof a === 'number' ? 1 : -1;
  heads.forEach((head, at) => {
    const sort = () => {
      const down = head.ariaSort ? head.ariaSort === 'ascending' : head.className === 'n';
      heads.forEach(other => { other.ariaSort = null; });
      head.ariaSort = down ? 'descending' : 'ascending';
      body.append(...[...body.rows].sort((a, b) => (down ? -1 : 1) * less(value(a, at), value(b, at))));
    };
    head.tabIndex = 0;
    head.addEventListener('click', sort);
    head.addEventListener('keydown', event => { if (event.key === 'Enter' || event.key === ' ') { event.preventDefault(); sort(); } });
  });
}
"""
