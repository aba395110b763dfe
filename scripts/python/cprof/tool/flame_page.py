# SPDX-License-Identifier: Apache-2.0
"""The page of `cprof stacks -o FILE.html`: a flame graph that the browser draws from data in the page. A click on a frame makes it as wide as the
page, and a search shows the share of time of the matching frames. The smallest frames are left out if they do not fit into 1 MB."""

from typing import Any, Dict, Iterable, List, Sequence, Tuple

from cprof.tool.averages import format_time
from cprof.tool.thread_states import is_own_frame
from cprof.tool.page import Html, as_data, cut, document, key, tag
from cprof.tool.span_stacks import is_python_frame

BYTES_MOST = 900_000
NODE_BYTES = 30  # the most bytes of a frame, without its name
KINDS = (("operators and calls", "#3d9950"), ("Python of the program", "#e08a3c"), ("Python of libraries", "#d9b65c"), ("native code", "#8fa3bf"))
_OPERATOR, _OWN, _LIBRARY, _NATIVE = range(4)


class _Node:
    """A node of the tree: a frame with those inside it."""

    __slots__ = ("name", "kind", "time", "inside")

    def __init__(self, name: str, kind: int) -> None:
        self.name, self.kind, self.time = name, kind, 0
        self.inside: Dict[Tuple[str, int], _Node] = {}


class Flames:
    """The tree of stacks."""

    def __init__(self) -> None:
        self.root = _Node("all", len(KINDS))

    def add(self, frames: Sequence[str], leaf: str, time: int) -> None:
        """Adds the time of a call (leaf) in these frames, outermost first."""
        node = self.root
        node.time += time
        for name, kind in [(frame, _kind(frame)) for frame in frames] + [(leaf, _OPERATOR)]:
            child = node.inside.get((name, kind))
            if child is None:
                child = node.inside[name, kind] = _Node(name, kind)
            node = child
            node.time += time

    def data(self) -> Tuple[Dict[str, List[Any]], int]:
        """The largest frames as columns, outer frames first: the number of the frame around it, the number of its name, its kind and time. Also the
        number of frames left out."""
        waiting: List[Tuple[int, _Node]] = [(-1, self.root)]
        names: Dict[str, int] = {}
        columns: Tuple[List[int], ...] = ([], [], [], [])
        left, room = 0, BYTES_MOST
        while waiting:  # a level at a time: each level's frames are smaller than those around them
            inner: List[Tuple[int, _Node]] = []
            for parent, node in sorted(waiting, key=lambda item: -item[1].time):
                name = cut(node.name)
                room -= NODE_BYTES + (0 if name in names else len(as_data(name)) + 1)
                if room < 0:
                    left += 1
                    continue
                number = len(columns[0])
                for column, value in zip(columns, (parent, names.setdefault(name, len(names)), node.kind, node.time)):
                    column.append(value)
                inner += [(number, child) for child in node.inside.values()]
            waiting = inner
        return {"names": list(names), "parent": columns[0], "name": columns[1], "kind": columns[2], "time": columns[3]}, left


def _kind(frame: str) -> int:
    return _OWN if is_own_frame(frame) else _LIBRARY if is_python_frame(frame) and not frame.endswith(".so)") else _NATIVE


def flames_of(stacks: Iterable[Tuple[Sequence[str], str, int]]) -> Flames:
    """The tree of (frames, what was called, nanoseconds)."""
    found = Flames()
    for frames, leaf, time in stacks:
        if time > 0:
            found.add(frames, leaf, time)
    return found


def page(title: str, metric: str, flames: Flames) -> str:
    """The page as text."""
    data, left = flames.data()
    what = "self time on the CPU" if metric == "self_cpu_time_total" else "time of the GPU work that was launched"
    about = f"Stacks by {what}: {format_time(flames.root.time / 1000)} in all. A click on a frame widens it. A click on the top frame, or Escape, shows all again."
    body = [tag("h1", cut(title)), tag("p", about, class_="muted"),
            tag("p", tag("label", "search ", tag("input", id="search", type="search", placeholder="a part of a name")), " ", tag("span", id="matched")),
            key((name, color) for name, color in KINDS), tag("p", id="about"), tag("div", id="flames"),
            tag("p", f"{left:,} small frames, with the frames inside them, are left out.", class_="muted") if left else Html(),
            Html(f'<script type="application/json" id="data">{as_data(data)}</script>')]
    return document(f"{title} - stacks", *body, style=_STYLE, script=_SCRIPT)


_STYLE = """
body { max-width: none } #flames { position: relative; margin-top: 8px; font-size: 12px } #about { min-height: 3em; font-variant-numeric: tabular-nums }
#flames button { position: absolute; height: 19px; line-height: 17px; border: 0; border-right: 1px solid var(--back); text-indent: 3px; overflow: hidden; padding: 0;
  white-space: nowrap; cursor: pointer; color: #10151c; font: inherit; text-align: left; text-overflow: ellipsis }
#flames button.around { opacity: .55 } #flames button.hit { outline: 2px solid #c218a8; outline-offset: -2px } input { font: inherit; max-width: 60vw }
%s
@media print { input, label { display: none } }
""" % "\n".join(f"#flames .k{number} {{ background: {color} }}" for number, color in enumerate([color for _, color in KINDS] + ["#b9c2cc"]))

_SCRIPT = """
'use strict';
const d = JSON.parse(document.getElementById('data').textContent), n = d.parent.length, box = document.getElementById('flames');
const about = document.getElementById('about'), search = document.getElementById('search'), matched = document.getElementById('matched');
const start = new Float64Array(n), taken = new Float64Array(n), depth = new Int32Array(n);
for (let i = 1; i < n; i++) {
  const p = d.parent[i];
  start[i] = start[p] + taken[p];
  taken[p] += d.time[i];
  depth[i] = depth[p] + 1;
}
const name = i => d.names[d.name[i]], share = t => (100 * t / d.time[0]).toFixed(2) + ' %';
const time = ns => ns >= 1e9 ? (ns / 1e9).toFixed(3) + ' s' : ns >= 1e6 ? (ns / 1e6).toFixed(3) + ' ms' : (ns / 1e3).toFixed(3) + ' us';
const words = i => `${name(i)}: ${time(d.time[i])} (${share(d.time[i])})`;
let focus = 0;
const draw = () => {
  const around = new Set(), wanted = search.value.toLowerCase(), inHit = new Uint8Array(n);
  for (let i = d.parent[focus]; i >= 0; i = d.parent[i]) around.add(i);
  const found = document.createDocumentFragment();
  let deepest = 0, hits = 0;
  for (let i = 0; i < n; i++) {
    const hit = wanted && name(i).toLowerCase().includes(wanted);
    inHit[i] = hit || (i && inHit[d.parent[i]]) ? 1 : 0;
    if (hit && !(i && inHit[d.parent[i]])) hits += d.time[i];
    let left = (start[i] - start[focus]) / d.time[focus], width = d.time[i] / d.time[focus];
    if (around.has(i)) { left = 0; width = 1; }
    else if (depth[i] < depth[focus] || left < -1e-9 || left > 1 - 1e-9 || width < 5e-4) continue;
    const one = document.createElement('button');
    one.className = 'k' + d.kind[i] + (around.has(i) ? ' around' : '') + (hit ? ' hit' : '');
    one.style.left = 100 * left + '%';
    one.style.width = 100 * width + '%';
    one.style.top = 20 * depth[i] + 'px';
    one.title = words(i);
    if (width > 0.01) one.textContent = name(i);
    one.addEventListener('click', () => { focus = i; draw(); });
    one.addEventListener('pointerenter', () => { about.textContent = words(i); });
    found.append(one);
    deepest = Math.max(deepest, depth[i]);
  }
  box.replaceChildren(found);
  box.style.height = 20 * (deepest + 1) + 'px';
  about.textContent = words(focus);
  matched.textContent = wanted ? `matched: ${time(hits)} (${share(hits)})` : '';
};
search.addEventListener('input', draw);
addEventListener('keydown', event => { if (event.key === 'Escape') { focus = 0; search.value = ''; draw(); } });
draw();
"""
