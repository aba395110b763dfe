# SPDX-License-Identifier: Apache-2.0
"""The page of `cprof report`. All numbers come from the summary of explain.py and the modules that `cprof memory`, `ranks` and `top` use; this
module only draws them. Lists have limits, so that the page stays below 1 MB for every run."""

import collections
import datetime
import os
import statistics
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from cprof.tool.averages import Average, format_memory
from cprof.tool.explain import STACKS_SLOW, WORDS, Summary, amount, are_slowed, mean_line
from cprof.tool.findings import Finding, Group
from cprof.tool.memory import growth_text
from cprof.tool.memory_page import STYLE as MEMORY
from cprof.tool.memory_charts import COLORS, chart_of, holders_at
from cprof.tool.memory_use import CATEGORIES
from cprof.tool.moments import BUSY, CPU, IDLE
from cprof.tool.operators import Operators
from cprof.tool.page import Column, Html, Number, SORT, bar, chart, cut, document, drawing, joined, key, left_out, table, tag, ticks
from cprof.tool.rank_causes import listed
from cprof.tool.ranks import Comparison
from cprof.tool.rates import rates_of
from cprof.tool.spans import int_or_none
from cprof.tool.steps import STEPS
from cprof.tool.summary_file import PARTS
from cprof.tool.summary_findings import WORDS as PART_WORDS, Steps, Told

GPU = BUSY + IDLE
SHADES = {"computation": "#3d9950", "exposed_comm": "#d9822b", "exposed_memcpy": "#9c6b3f", "cpu_late": "#cf4a4a", "sync": "#9a5fc4", "data": "#d6b52c",
          "between_steps": "#4a86c9", "other": "#8b95a1", "operators": "#3d9950", "outside": "#4a86c9", "waiting": "#d6b52c"}
PART_SHADES = dict(SHADES, operators="#4fb3a5", collective="#e8a15c", transfer="#cf4a4a")  # computing and operators are apart
HEAT = "#c2362b"
FINDINGS, STEPS_SHOWN, OPERATORS, KERNELS, DEVICES, GROUPS, TRACES = 30, 200, 30, 30, 64, 64, 8
DRAWN = 4               # ranks and devices whose steps are drawn one by one
BINS = 120              # bars of a chart: with more steps each bar is the mean of several
CELLS, HEAT_ROWS = 6400, 64
SETTINGS = ("record_shapes", "profile_memory", "with_stack", "with_modules", "with_flops")


Heads = Dict[str, Dict[str, Any]]  # metadata of each trace


def page(summary: Summary, heads: Heads, ranks: Dict[str, int], operators: Operators, memory: Sequence[Any]) -> str:
    """The page as text. ranks: the rank of each trace."""
    paths = summary.data["traces"]
    title = _title(paths)
    sections = [
        ("", _headline(summary)), ("What stands out", _findings(summary.findings, are_slowed(summary.groups, summary.findings))), ("What ran", _what_ran(summary, heads, ranks)),
        ("Where each step goes", _parts(summary)), ("Step times", _steps(summary)), ("Ranks", _ranks(summary.ranks) if summary.ranks else Html()),
        ("Operators and calls", _operators(operators)), ("Kernels and copies", _kernels(operators)), ("Memory", _memory(memory)),
        ("FLOPs", _rates(heads, ranks)), ("Steps in numbers", joined(_step_tables(summary)))]
    body = [tag("section", tag("h2", name) if name else Html(), inside) for name, inside in sections if inside]
    return document(f"{title} - cprof report", tag("h1", title), *body, style=MEMORY + _STYLE, script=SORT)


def _title(paths: List[str]) -> str:
    """The name of the run: its folder is NAME/torch_traces."""
    folder = os.path.dirname(os.path.abspath(paths[0]))
    name = os.path.basename(os.path.dirname(folder) if os.path.basename(folder) == "torch_traces" else folder)
    return cut(os.path.basename(paths[0]) if len(paths) == 1 and os.path.basename(folder) != "torch_traces" else name or folder)


def _headline(summary: Summary) -> Html:
    """The answer in a few lines."""
    lines = summary.ranks.answer() if summary.ranks and summary.ranks.worst else []
    counted = [group for group in summary.groups if group.counted]
    lines += [mean_line(group) for group in counted[:DRAWN]]
    return joined(tag("p", cut(line, 400)) for line in lines) + left_out(min(len(counted), DRAWN), len(counted), "ranks and devices; all are below")


# ---- findings ----

def _findings(found: Sequence[Finding], by_stacks: bool) -> Html:
    """by_stacks: the recording of stacks slowed the program."""
    if not found:
        return tag("p", "Nothing stands out.", id="findings")
    parts = []
    for number, one in enumerate(found[:FINDINGS], 1):
        steps = ", ".join(map(str, one.steps[:8])) + (", …" if len(one.steps) > 8 else "")
        where = f"rank {one.rank}, {one.device}" + (f", steps {steps}" if steps else "")
        rows = [(Number(f"{row['ms']:,.3f}", row["ms"]), Number(f"{row['per_step']:,.4g}", row["per_step"]) if row["per_step"] else None, row["what"])
                for row in one.evidence if not round(one.bytes)]
        evidence = table((Column("ms a step" if one.steps else "ms"), Column("times"), Column("cause", "p")), rows, sort=False) if rows else Html()
        parts.append(tag("div", tag("h3", f"{number}. {cut(one.title, 300)}"),
                         tag("p", tag("b", amount(one)), f" · {one.rule} · {where}", data_ms=f"{one.ms:.12g}"),
                         bar([(one.share, HEAT, "")], 1.0) if one.share else Html(), evidence, tag("p", one.advice), class_="finding"))
    slowed = tag("p", STACKS_SLOW[0].upper() + STACKS_SLOW[1:] + ".") if by_stacks else Html()
    return tag("div", *parts, slowed, left_out(min(len(found), FINDINGS), len(found), "findings; cprof explain lists all"), id="findings")


# ---- what ran ----

def _told(heads: Heads, say: Any) -> str:
    """The different values in the traces, without those that are neither text nor a number."""
    found = dict.fromkeys(str(answer) for answer in map(say, heads.values()) if answer and type(answer) in (str, int))
    return ", ".join(list(found)[:TRACES]) + (f" and {len(found) - TRACES} more" if len(found) > TRACES else "")


def _text_or(value: Any, otherwise: str) -> str:
    """The value if it is text, else `otherwise`."""
    return value if type(value) is str else otherwise


def _texts(value: Any) -> List[str]:
    return [one for one in value[:TRACES] if type(one) is str] if type(value) is list else []


def _account(head: Dict[str, Any]) -> Dict[str, Any]:
    account = head.get("cprof")
    return account if type(account) is dict else {}


def _devices(head: Dict[str, Any]) -> str:
    told = head.get("deviceProperties")
    found = collections.Counter((_text_or(one.get("name"), "?"), int_or_none(one.get("totalGlobalMem"))) for one in (told if type(told) is list else ())
                                if type(one) is dict)
    return ", ".join((f"{count} × {name}" if count > 1 else name) + (f" ({size / 2**30:.0f} GiB)" if size else "") for (name, size), count in found.items())


def _version(number: int) -> str:
    """A version of CUDA: 12040 is 12.4."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _time(head: Dict[str, Any]) -> str:
    base, since = head.get("baseTimeNanoseconds"), head.get("recorded_from")
    if type(base) is not int or type(since) not in (int, float):
        return ""
    try:
        return datetime.datetime.fromtimestamp(base / 1e9 + since / 1e6, datetime.timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError, OSError):
        return ""


def _lost(heads: Heads) -> Dict[str, int]:
    """Lost records by cause, from the traces that have the counts."""
    found: Dict[str, int] = collections.Counter()
    for head in heads.values():
        lost = _account(head).get("lost")
        for name, count in lost.items() if type(lost) is dict else ():
            if type(count) is int and count > 0 and name != "total":
                found[name] += count
    return found


def _what_ran(summary: Summary, heads: Heads, ranks: Dict[str, int]) -> Html:
    lost, tells = _lost(heads), any(_account(head).get("lost") is not None for head in heads.values())
    info = [head["distributedInfo"] for head in heads.values() if type(head.get("distributedInfo")) is dict]
    world = max((one["world_size"] for one in info if type(one.get("world_size")) is int), default=0)
    there = len(set(ranks.values()))
    causes = ", ".join(f"{cut(name, 40)} {count:,}" for name, count in list(lost.items())[:TRACES])
    rows: List[Tuple[str, str]] = [
        ("host", _told(heads, lambda head: head.get("host_name"))),
        ("recorded", _told(heads, _time)),
        ("ranks", f"{there} of {world}" if world > 1 else "" if there == 1 else str(there)),
        ("backend", _told(heads, lambda head: head["distributedInfo"].get("backend") if type(head.get("distributedInfo")) is dict else "")),
        ("devices", _told(heads, _devices) or ", ".join(list(dict.fromkeys(group.device for group in summary.groups))[:TRACES])),
        ("profiler", _told(heads, lambda head: f"cprof {_text_or(_account(head).get('version'), '')}" if _account(head) else "another, such as torch.profiler")),
        ("torch", _told(heads, lambda head: head.get("torch_version"))),
        ("CUDA", _told(heads, lambda head: ", ".join(f"{name} {_version(head[key])}" for name, key in (("runtime", "cuda_runtime_version"), (
            "driver", "cuda_driver_version")) if type(head.get(key)) is int))),
        ("CUPTI", _told(heads, lambda head: head.get("cupti_version"))),
        ("settings", _told(heads, lambda head: " ".join(name for name in SETTINGS if head.get(name) in (1, True)))),
        ("ended early", _told(heads, lambda head: "a trace ends before its schedule does" if _account(head).get("partial") is True else "")),
        ("notes", _told(heads, lambda head: "; ".join(_texts(_account(head).get("notes"))))),
        ("traces", ", ".join(os.path.basename(path) for path in list(heads)[:TRACES]) + (f" and {len(heads) - TRACES} more" if len(heads) > TRACES else ""))]
    items = [joined((tag("dt", name), tag("dd", cut(value, 600)))) for name, value in rows if value]
    items.append(joined((tag("dt", "lost records"), tag("dd", f"{sum(lost.values()):,}: {causes}" if lost else "none" if tells else "not told",
                                                        class_="bad" if lost else None))))
    return tag("dl", *items)


# ---- steps ----

def _names(group: Group) -> Sequence[str]:
    return CPU if group.device == "cpu" else GPU


def _part(row: Dict[str, Any], name: str) -> float:
    """The time of a class of a step in ms, from the summary."""
    return row[name] if name in row else row["idle_causes"][name]


def _label(group: Group) -> str:
    return f"rank {group.rank}, {group.device}"


def _parts(summary: Summary) -> Html:
    """A bar for each rank and device: the mean of the counted steps."""
    groups = [group for group in summary.groups if group.counted]
    longest = max((group.mean(group.counted, "total") for group in groups), default=0)
    parts = []
    for names in (GPU, CPU):
        own, rows = [group for group in groups if _names(group) == names], []
        for group in own[:GROUPS]:
            means = [(name, group.mean(group.counted, name) / 1e6) for name in names]
            drawn = bar([(ms, SHADES[name], f"{WORDS[name]}: {ms:,.3f} ms") for name, ms in means], longest / 1e6)
            total = group.mean(group.counted, "total") / 1e6
            rows.append([_label(group), Number(str(len(group.counted)), len(group.counted)), Number(f"{total:,.3f}", total), drawn]
                        + [Number(f"{100 * ms / total:.1f} %", ms) if ms and total else None for _, ms in means])
        if rows:
            columns = [Column("", "t"), Column("steps"), Column("ms"), Column("", "b")] + [Column(WORDS[name]) for name in names]
            parts += [key((WORDS[name], SHADES[name]) for name in names if any(group.mean(group.counted, name) for group in own)),
                      table(columns, rows), left_out(len(rows), len(own), "ranks and devices")]
    return joined(parts)


def _binned(rows: List[Dict[str, Any]]) -> List[List[Dict[str, Any]]]:
    """Steps in order, grouped so that they fit into a chart."""
    size = -(-len(rows) // BINS)
    return [rows[at:at + size] for at in range(0, len(rows), size)]


def _columns(group: Group, rows: List[Dict[str, Any]]) -> Html:
    """The steps side by side, each as a stack of its classes."""
    bins = _binned(rows)
    scale = ticks(max(row["total"] for row in rows))
    rects = []
    for at, one in enumerate(bins):
        below, parts = 0.0, []
        for name in _names(group):
            ms = statistics.fmean(_part(row, name) for row in one)
            if ms > 0:
                height = 1000 * ms / scale[0]
                parts.append(f'<rect y="{1000 - below - height:.1f}" width="8" height="{height:.1f}" fill="{SHADES[name]}"/>')
                below += height
        total = statistics.fmean(row["total"] for row in one)
        parts.append(tag("title", f"step {_span(one)}: {total:,.3f} ms" + (f", left out ({one[0]['left_out']})" if one[0]["left_out"] else "")))
        rects.append(Html(f'<g transform="translate({10 * at + 1} 0)"{" class=out" * all(row["left_out"] for row in one)}>{"".join(parts)}</g>'))
    lines = "".join(f'<path class="grid" d="M0 {1000 - 1000 * tick / scale[0]:.0f}H{10 * len(bins)}"/>' for tick in scale)
    along = [_span(bins[at]) for at in sorted({0, len(bins) // 2, len(bins) - 1})]
    return chart(drawing(Html(lines + joined(rects)), 10 * len(bins), 1000, "plot"), [f"{tick:,.4g} ms" for tick in scale],
                 [f"step {text}" for text in along])


def _span(rows: List[Dict[str, Any]]) -> str:
    first, last = rows[0]["step"], rows[-1]["step"]
    return str(first) if first == last else f"{first} to {last}"


def _steps(summary: Summary) -> Html:
    named = [(one.rank, one.device) for one in summary.findings]
    groups = sorted((group for group in summary.groups if group.windows[0].step is not None),
                    key=lambda group: (group.rank, group.device) not in named)
    if not groups:
        return tag("p", "The traces have no steps: all of each trace counts as one.") if summary.data["steps"] else Html()
    rows_of = collections.defaultdict(list)
    for row in summary.data["steps"]:
        rows_of[row["rank"], row["device"]].append(row)
    spread = []
    for group in groups:
        totals = [row["total"] for row in rows_of[group.rank, group.device] if not row["left_out"]]
        if totals:
            spread.append([_label(group), Number(str(len(totals)), len(totals)), *(Number(f"{value:,.3f}", value) for value in (
                statistics.median(totals), min(totals), max(totals), statistics.pstdev(totals)))])
    heads = [Column("", "t")] + [Column(name) for name in ("steps", "median ms", "shortest ms", "longest ms", "standard deviation ms")]
    parts = [table(heads, spread[:GROUPS]),
             left_out(min(GROUPS, len(spread)), len(spread), "ranks and devices")]
    for group in groups[:DRAWN]:
        rows = rows_of[group.rank, group.device]
        names = [name for name in _names(group) if any(_part(row, name) for row in rows)]
        parts += [tag("h3", _label(group)), key((WORDS[name], SHADES[name]) for name in names), _columns(group, rows)]
    parts.append(left_out(min(DRAWN, len(groups)), len(groups), "ranks and devices are drawn"))
    return joined(parts)


def _step_tables(summary: Summary) -> Iterator[Html]:
    """The numbers of each step."""
    steps = [row for row in summary.data["steps"] if row["step"] is not None]
    shown = sorted(sorted(steps, key=lambda row: -row["total"])[:STEPS_SHOWN], key=lambda row: (row["step"], row["rank"], row["device"]))
    for is_cpu, classes in ((False, GPU), (True, CPU)):
        own = [row for row in shown if (row["device"] == "cpu") == is_cpu]
        names = [name for name in classes if any(_part(row, name) for row in own)]
        rows = [[Number(str(row["step"]), row["step"]), Number(str(row["rank"]), row["rank"]), row["device"], Number(f"{row['total']:,.3f}", row["total"])]
                + [Number(f"{_part(row, name):,.3f}", _part(row, name)) for name in names] + [row["left_out"]]
                for row in own]
        if rows:
            heads = [Column("step"), Column("rank"), Column("device", "t"), Column("ms")]
            yield table(heads + [Column(WORDS[name]) for name in names] + [Column("left out", "t")], rows, "steps-cpu" if is_cpu else "steps-gpu")
    yield left_out(len(shown), len(steps), "steps of ranks and devices: the longest ones")


# ---- operators ----

def _operators(operators: Operators) -> Html:
    found = operators.operators()
    whole, device = sum(one.time for one in found), sum(one.device for one in found)
    rows = []
    for one in found[:OPERATORS]:
        rows.append([*one.place, Number(f"{one.time / 1e6:,.3f}", one.time), Number(f"{one.time / max(whole, 1):.1%}", one.time),
                     Number(f"{one.device / 1e6:,.3f}", one.device) if device else None, Number(f"{one.calls:,}", one.calls)])
    columns = [Column("operator", "p"), Column("module", "p"), Column("line", "p"), Column("self CPU ms"), Column("share"), Column("its kernels ms"),
               Column("calls")]
    return table(columns, rows, "operators") + left_out(len(rows), len(found), "rows: those that took longest by themselves") if rows else Html()


def _kernels(operators: Operators) -> Html:
    found = operators.work()
    whole = sum(one.time for _, one in found)
    rows = [[name, Number(f"{one.time / 1e6:,.3f}", one.time), Number(f"{one.time / max(whole, 1):.1%}", one.time), Number(f"{one.calls:,}", one.calls),
             one.place.name, one.place.module, one.place.line] for name, one in found[:KERNELS]]
    columns = [Column("kernel or copy", "p"), Column("ms"), Column("share"), Column("times"), Column("most launched by", "p"), Column("module", "p"),
               Column("line", "p")]
    return table(columns, rows, "kernels") + left_out(len(rows), len(found), "names") if rows else Html()


# ---- memory ----

def _memory(memory: Sequence[Any]) -> Html:
    if not memory:
        return Html()
    rows = [[f"rank {one.rank}, {one.account.device}", *(Number(format_memory(size), size) for size in (one.account.peak, one.account.end, one.account.begin)),
             os.path.basename(one.path)] for one in memory[:DEVICES]]
    parts = [table([Column("", "t"), Column("peak"), Column("at the end"), Column("at the begin"), Column("trace", "p")], rows, "memory"),
             left_out(len(rows), len(memory), "devices and traces: the highest peaks")]
    for one in memory:
        if one.line is None:
            continue
        parts += [tag("h3", f"rank {one.rank}, {one.account.device}")]
        parts += [tag("p", tag("b", cut(growth_text(held, one.account), 400))) for held in one.account.growing[:3]]
        parts += [key((CATEGORIES[at], color) for at, color in enumerate(COLORS) if at in {category for _, _, _, category in one.line.actions()}),
                  chart_of(one.line, one.steps)]
        parts += holders_at(one.account)
    return joined(parts)


# ---- ranks ----

def _ranks(found: Comparison, with_answer: bool = True) -> Html:
    ms = 1e6
    rows = [[Number(str(row["rank"]), row["rank"]), Number(str(row["steps"]), row["steps"])]
            + [Number(f"{row[name] / ms:,.3f}", row[name]) for name in ("cost_sum_ns", "waited_sum_ns", "own_ns", "collective_ns")]
            + [Number(str(row["slowest_in"]), row["slowest_in"])] for row in found.ranks[:GROUPS]]
    columns = [Column(name) for name in ("rank", "steps", "cost sum ms", "waited sum ms", "own median ms", "collectives median ms", "slowest in")]
    answer = [] if found.worst or not with_answer else found.answer()  # else it is the headline
    return joined((*(tag("p", cut(line, 400)) for line in answer), table(columns, rows, "ranks"), left_out(len(rows), len(found.ranks), "ranks"), _heat(found)))


def _heat(found: Comparison) -> Html:
    """By how much each rank's own time exceeds the fastest rank's in each step. Many ranks share a row, which has the time of the latest of them."""
    ranks = sorted(row["rank"] for row in found.ranks)
    table_ = {step: cells for step, cells in found.table.items() if len(cells) > 1}
    if len(ranks) < 2 or not table_:
        return Html()
    together = -(-len(ranks) // HEAT_ROWS)
    rows = [ranks[at:at + together] for at in range(0, len(ranks), together)]
    numbers = list(table_)
    size = -(-len(numbers) * len(rows) // CELLS)
    bins = [numbers[at:at + size] for at in range(0, len(numbers), size)]
    fastest = {step: min(cell.own for cell in cells.values()) for step, cells in table_.items()}
    behind = {}
    for x, steps in enumerate(bins):
        for y, row in enumerate(rows):
            late = [(statistics.fmean(table_[step][rank].own - fastest[step] for step in there), rank)
                    for rank in row for there in [[step for step in steps if rank in table_[step]]] if there]
            if late:
                behind[x, y] = max(late)
    most = max(ns for ns, _ in behind.values())
    rects = []
    for (x, y), (ns, rank) in behind.items():
        steps = str(bins[x][0]) if len(bins[x]) == 1 else f"{bins[x][0]} to {bins[x][-1]}"
        rects.append(f'<rect x="{x}" y="{y}" width="1" height="1" fill-opacity="{ns / most if most else 0:.2f}">'
                     f'<title>rank {rank}, step {steps}: {ns / 1e6:,.3f} ms</title></rect>')
    plot = drawing(Html("".join(rects)), len(bins), len(rows), "heat", height=14 * len(rows))
    along = [f"step {bins[at][0]}" for at in sorted({0, len(bins) // 2, len(bins) - 1})]
    whose = "the rank" if together == 1 else "the latest of its ranks"
    return joined((tag("p", f"Each row is {'a rank' if together == 1 else f'{together} ranks'}, each column {'a step' if size == 1 else f'the mean of {size} steps'}. "
                       f"The stronger the red, the more time of its own {whose} took beyond the fastest one; the strongest is {most / 1e6:,.3f} ms.", class_="muted"),
                   tag("div", chart(plot, [f"rank{'s' * (len(row) > 1)} {listed(row)}" for row in rows], along), class_="map")))


def _sums(rows: Sequence[Average], device: str, heads: Sequence[str], most: int, time: str) -> Html:
    """The rows of a device that took longest by themselves, of `cprof top`'s table."""
    found = sorted(((getattr(row, time), row) for row in rows if row.device_type == device and getattr(row, time)), key=lambda one: (-one[0], one[1].key))
    whole = sum(ns for ns, _ in found)
    body = [[row.key, Number(f"{ns / 1e6:,.3f}", ns), Number(f"{ns / whole:.1%}", ns), Number(f"{row.count:,}", row.count)] for ns, row in found[:most]]
    columns = [Column(heads[0], "p"), Column(heads[1]), Column("share"), Column(heads[2])]
    return table(columns, body, heads[0].split()[0] + "s") + left_out(len(body), len(found), "rows") if body else Html()


def _shares(steps: Sequence[Steps]) -> Html:
    """A bar for each rank and device, of summaries: the mean of the counted steps."""
    longest = max((one.step_ns for one in steps), default=0)
    used = [name for name in PARTS if any(one.mean(name) for one in steps)]
    rows = []
    for one in steps[:GROUPS]:
        means = [(name, one.mean(name)) for name in used]
        drawn = bar([(ns / 1e6, PART_SHADES[name], f"{PART_WORDS[name]}: {ns / 1e6:,.3f} ms") for name, ns in means], longest / 1e6)
        rows.append([f"rank {one.rank}, {one.device}", Number(str(one.count), one.count), Number(f"{one.step_ns / 1e6:,.3f}", one.step_ns / 1e6), drawn]
                    + [Number(f"{100 * ns / one.step_ns:.1f} %", ns / 1e6) if ns else None for _, ns in means])
    columns = [Column("", "t"), Column("steps"), Column("ms"), Column("", "b")] + [Column(PART_WORDS[name]) for name in used]
    return joined((key((PART_WORDS[name], PART_SHADES[name]) for name in used), table(columns, rows), left_out(len(rows), len(steps), "ranks and devices")))


def summaries_page(paths: List[str], told: Optional[Told], ranks: Optional[Comparison], rows: Sequence[Average], lacking: int) -> str:
    """The page as text for summaries without traces. told: None if their steps have no parts. ranks: None for one rank. rows: the sums of their tables,
    which `lacking` of them do not have."""
    title = _title(paths)
    lines = ranks.answer() if ranks else [one.text() for one in told.steps[:DRAWN]] if told else []
    where = f"By {len(paths):,} {'summaries' if len(paths) > 1 else 'summary'} without traces: this page has no lines or memory."
    lack = tag("p", f"{lacking:,} of them {'have' if lacking > 1 else 'has'} no table of operators.", class_="muted") if lacking else Html()
    rows = [row for row in rows if row.key != STEPS]  # whose own time is that outside operators
    kernels = [row for row in rows if not row.is_user_annotation]
    sections = [("What stands out", _findings(told.findings, False) if told else Html()), ("Where each step goes", _shares(told.steps) if told else Html()),
                ("Ranks", _ranks(ranks, False) if ranks else Html()),
                ("Operators and calls of all ranks", _sums(rows, "cpu", ("operator", "self CPU ms", "calls"), OPERATORS, "self_cpu_ns")),
                ("Kernels and copies of all ranks", _sums(kernels, "cuda", ("kernel or copy", "ms", "times"), KERNELS, "self_device_ns"))]
    return document(f"{title} - cprof report", tag("h1", title),
                    tag("section", joined(tag("p", cut(line, 400)) for line in lines), tag("p", where, class_="muted"), lack),
                    *(tag("section", tag("h2", name), inside) for name, inside in sections if inside), style=MEMORY + _STYLE, script=SORT)


# ---- FLOPs ----

def _rates(heads: Heads, ranks: Dict[str, int]) -> Html:
    rows = []
    for path, head in heads.items():
        for device, told in rates_of(_account(head).get("flops")).items():
            again = told.get("recompute_flops", 0) / told["flops"]
            rows.append([Number(str(ranks[path]), ranks[path]), cut(device, 40), Number(f"{told['flops'] / 1e9:,.3f}", told["flops"]),
                         *(Number(f"{told[name]:,.4g}{unit}", told[name]) if name in told else None
                           for name, unit in (("tflops_per_s", ""), ("mfu_percent", " %"), ("hfu_percent", " %"))),
                         Number(f"{again:.1%}", again) if again else None, os.path.basename(path)])
    columns = [Column("rank"), Column("device", "t"), Column("GFLOP"), Column("TFLOP/s"), Column("MFU"), Column("HFU"), Column("recomputed"),
               Column("trace", "p")]
    note = Html() if not any(row[4] or row[5] for row in rows) else tag("p", "MFU counts useful work only, HFU also what was computed again; both are of the device's peak rate.", class_="muted")
    return table(columns, rows[:DEVICES], "flops") + left_out(min(DEVICES, len(rows)), len(rows), "devices and traces") + note if rows else Html()


_STYLE = """
.plot .grid { stroke: var(--line); vector-effect: non-scaling-stroke; fill: none } .plot .out { opacity: .35 }
.finding { border-left: 3px solid var(--line); padding-left: 12px; margin: 12px 0 } .finding h3 { margin-top: 0 }
.finding .bar { height: 6px; max-width: 400px; background: var(--line) }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 14px; margin: 6px 0 } dt { color: var(--muted) }
dd { margin: 0; overflow-wrap: anywhere }
.map .up span { height: 14px; line-height: 14px } .map svg { fill: %s }
""" % HEAT
