# SPDX-License-Identifier: Apache-2.0
"""What `cprof explain` tells from summaries (TRACE.summary) without their traces: how much of a step each part takes, by rank and device, and which
ranks the others wait for. The operator, line or call behind a part is in the trace.

A part is a finding from the share of a step on that findings.py names. Ranks with the same finding share one."""

import statistics
from typing import Any, Dict, List, NamedTuple, Optional, Set, Tuple

from cprof.tool import Problem, note
from cprof.tool.collectives import rank_of
from cprof.tool.findings import EXPOSED_ON_CPU, MOST_SHARE, Finding
from cprof.tool.rank_causes import listed
from cprof.tool.ranks import SCHEMA, Comparison, compared
from cprof.tool.summary_file import MODULES, PARTS, SUFFIX, read

# PyTorch needs about 10 us to launch a kernel (moments.py): shorter ones leave the GPU waiting for the next launch.
LAUNCH_NS = 10_000
MODULES_SHOWN = 5
CPU = "cpu"
WORDS = {"computation": "computing", "exposed_comm": "communication", "exposed_memcpy": "copies", "data": "waiting for data", "collective": "in collectives",
         "sync": "in calls that wait for the GPU", "operators": "in operators", "transfer": "transfers", "outside": "outside operators"}
COMMUNICATION = ("exposed_comm", "collective", "transfer")
ON_GPU = (("input-bound", ("data",), "the GPU waits for data"), ("exposed-communication", COMMUNICATION, "communication that nothing hides"),
          ("exposed-copies", ("exposed_memcpy",), "copies that nothing hides"), ("synchronising-calls", ("sync",), "the GPU runs dry in calls that wait for it"),
          ("cpu-late", ("operators", "outside"), "the GPU waits for the CPU"))
ON_CPU = (("input-bound", ("data",), "the step waits for data"), ("exposed-communication", COMMUNICATION, "the step waits for other ranks"))


class Steps:
    """The steps of a rank on a device. Nanoseconds."""

    def __init__(self, rank: int, device: str) -> None:
        self.rank, self.device = rank, device
        self.numbers: List[Optional[int]] = []
        self.total: List[int] = []
        self.count = 0                          # of the steps, of which several may share an element of the lists
        self.parts: Dict[str, List[int]] = {name: [] for name in ("launches", *PARTS)}
        self.left_out = 0

    def add(self, steps: Dict[str, Any], device: Dict[str, Any]) -> None:
        """Adds the steps of a summary, without those that explain leaves out."""
        counted = [n for n, why in enumerate(steps["left_out"]) if why is None]
        self.count += sum(steps["count"][n] for n in counted)
        self.left_out += sum(steps["count"]) - sum(steps["count"][n] for n in counted)
        self.numbers += [steps["step"][n] for n in counted]
        self.total += [steps["total"][n] for n in counted]
        for name, column in self.parts.items():
            column += [device[name][n] for n in counted]

    def mean(self, *names: str) -> float:
        """Of the parts in a step."""
        return sum(sum(self.parts[name]) for name in names) / self.count

    @property
    def step_ns(self) -> float:
        """Of a step."""
        return max(sum(self.total) / self.count, 1.0)

    def text(self) -> str:
        """In a line."""
        parts = [f"{WORDS[name]} {self.mean(name) / self.step_ns:.0%}" for name in PARTS if self.mean(name) >= self.step_ns / 100]
        count = f"{self.count:,} step{'s' * (self.count != 1)}" + (f", {self.left_out} left out" if self.left_out else "")
        return f"rank {self.rank}, {self.device}: step {self.step_ns / 1e6:,.1f} ms ({count}): {', '.join(parts)}"


class Told(NamedTuple):
    """What the summaries tell."""
    data: Dict[str, Any]                # for --json, without `ranks`
    steps: List[Steps]                  # by rank and device
    findings: List[Finding]             # largest first
    ranks: Optional[Comparison]         # None for one rank
    modules: Dict[str, List[int]]       # count, ns on the CPU, ns on devices: sums over the summaries


def all_summaries(paths: List[str]) -> bool:
    """Whether they are summaries, and not traces. Raises a Problem if they are both."""
    summaries = [path for path in paths if path.endswith(SUFFIX)]
    if summaries and summaries != paths:
        raise Problem("is a summary, and others are traces: name the ones or the others", summaries[0])
    return bool(summaries)


def told(paths: List[str]) -> Told:
    """What the summaries tell. Raises a Problem."""
    groups: Dict[Tuple[int, str], Steps] = {}
    rows: List[Dict[str, Any]] = []
    modules: Dict[str, List[int]] = {}
    for order, path in enumerate(paths):
        found = read(path, table=True)
        _add_modules(found.modules, modules)
        rank = rank_of({"distributedInfo": found.about}, path, order)
        if found.steps is None or found.steps["devices"] is None:
            raise Problem("has no parts of steps: the trace is needed", path)
        for device in found.steps["devices"]:
            groups.setdefault((rank, device["device"]), Steps(rank, device["device"])).add(found.steps, device)
            rows += _rows(path, rank, found.steps, device)
    steps = [groups[key] for key in sorted(groups) if groups[key].count]
    if not steps:
        raise Problem("has no steps that count", paths[0])
    ranks = _ranks(paths) if len({one.rank for one in steps}) > 1 else None
    late = _late(ranks, steps) if ranks else []
    waited = _waited(ranks) if ranks and late else {}
    slow = {rank for cause in ranks.causes for rank in cause.ranks} if ranks and ranks.causes else {one.rank for one in late}
    findings = sorted([*late, *_of_parts(steps, waited, slow)], key=lambda one: (-one.ms, one.rule, one.rank))
    told_of = [{"name": name, "count": count, "self_cpu": cpu / 1e6, "self_device": device / 1e6} for name, (count, cpu, device) in modules.items()]
    return Told({"schema": SCHEMA, "time_unit": "ms", "summaries": paths, "steps": rows, "modules": told_of}, steps, findings, ranks, modules)


def _add_modules(found: Optional[Dict[str, Any]], sums: Dict[str, List[int]]) -> None:
    for name, *numbers in zip(found["name"], *map(found.__getitem__, MODULES)) if found else ():
        own = sums.setdefault(name, [0, 0, 0])
        for at, number in enumerate(numbers):
            own[at] += number


def modules_line(modules: Dict[str, List[int]]) -> List[str]:
    """The modules with most time of their own, as a line; none if they are unknown."""
    where, at = ("GPU", 2) if any(numbers[2] for numbers in modules.values()) else ("CPU", 1)
    total = sum(numbers[at] for numbers in modules.values())
    largest = sorted(modules, key=lambda name: (-modules[name][at], name))[:MODULES_SHOWN]
    shares = [f"{name} {modules[name][at] / total:.0%}" for name in largest if modules[name][at] > 0]
    return [f"modules by their time on the {where}: {', '.join(shares)}"] if shares else []


def _rows(path: str, rank: int, steps: Dict[str, Any], device: Dict[str, Any]) -> List[Dict[str, Any]]:
    return [{"summary": path, "rank": rank, "device": device["device"], "step": steps["step"][n], "count": steps["count"][n], "left_out": steps["left_out"][n],
             "total": steps["total"][n] / 1e6, **{name: device[name][n] / 1e6 for name in PARTS}, "launches": device["launches"][n]}
            for n in range(len(steps["step"]))]


def _ranks(paths: List[str]) -> Optional[Comparison]:
    try:
        found = compared(paths)
        for line in found.remarks():
            note(line)
        return found
    except Problem as problem:
        note(f"the ranks are not compared: {problem}")
        return None


def _late(ranks: Comparison, steps: List[Steps]) -> List[Finding]:
    """Ranks that the others wait for."""
    devices = {one.rank: one.device for one in reversed(steps)}
    if ranks.causes:
        return [Finding("straggler", one.said, one.cost / 1e6, one.share, one.ranks[0], devices.get(one.ranks[0], ""), one.steps, [])
                for one in ranks.causes]
    worst = ranks.worst
    if worst is None or worst.cost < MOST_SHARE * worst.total:
        return []
    share = worst.cost / worst.total
    return [Finding("straggler", worst.text(), share * statistics.fmean(one.step_ns for one in steps) / 1e6, share, worst.rank,
                    devices.get(worst.rank, ""), list(worst.steps()), [])]


def _waited(ranks: Comparison) -> Dict[int, float]:
    """For how long each rank waits for others in a step."""
    waits: Dict[int, List[int]] = {}
    for cells in ranks.table.values():
        for rank, cell in cells.items():
            waits.setdefault(rank, []).append(cell.waited)
    return {rank: statistics.fmean(found) / ranks.joined for rank, found in waits.items()}


def _of_parts(steps: List[Steps], waited: Dict[int, float], slow: Set[int]) -> List[Finding]:
    """Findings about the parts of a step. waited: time for other ranks, which is another finding's. slow: the ranks of that; what only they have is
    its reason."""
    found: Dict[str, List[Tuple[Steps, float, Tuple[str, ...], str]]] = {}
    for one in steps:
        for rule, names, title in ON_CPU if one.device == CPU else ON_GPU:
            ns = one.mean(*names) - (waited.get(one.rank, 0.0) if names == COMMUNICATION else 0.0)
            least = EXPOSED_ON_CPU if one.device == CPU and names == COMMUNICATION else MOST_SHARE
            if ns < least * one.step_ns:
                continue
            launches = one.mean("launches")
            if rule == "cpu-late" and launches and one.mean("computation") / launches < LAUNCH_NS:
                rule, title = "launch-bound", f"the GPU waits for launches: {launches:,.0f} a step"
            found.setdefault(rule, []).append((one, ns, names, title))
    return [_of_rule(rule, rows, len(steps)) for rule, rows in found.items() if not {row[0].rank for row in rows} <= slow]


def _of_rule(rule: str, rows: List[Tuple[Steps, float, Tuple[str, ...], str]], groups: int) -> Finding:
    """One finding of all ranks that have it. Its evidence is from the rank that has most."""
    one, most, names, title = max(rows, key=lambda row: (row[1], -row[0].rank))
    ranks = {row[0].rank for row in rows}
    where = f", on {'rank' if len(ranks) == 1 else 'ranks'} {listed(ranks)}" if groups > 1 else ""
    more = f", up to {most / 1e6:,.1f} ms" if len(rows) > 1 else ""
    evidence = [{"what": WORDS[name], "operator": "", "module": "", "line": "", "to_line": "", "ms": one.mean(name) / 1e6, "per_step": 0.0}
                for name in sorted(names, key=lambda name: -one.mean(name)) if one.mean(name) > 0]
    ns = statistics.median(row[1] for row in rows)
    return Finding(rule, title + where + more, ns / 1e6, statistics.median(row[1] / row[0].step_ns for row in rows), one.rank, one.device,
                   [number for number in one.numbers if number is not None], evidence)
