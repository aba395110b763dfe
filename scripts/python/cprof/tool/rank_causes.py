# SPDX-License-Identifier: Apache-2.0
"""What makes some of many ranks slow: a GPU, a host, data, uneven work, a link. The ranks' summaries say how each step was spent. A rank
stands out by a part of its steps that is longer than the median rank's. No clock of another host matters.

    for one in causes(traces): print(one.text())     # the largest first

The ranks of a host that stand out together are one cause. So are those of several hosts, if they are many: then the work is divided
unevenly. A group's collectives are compared with those of other groups that have its size and move as many bytes. Of a collective, the
shortest time of a member counts: the last one to come waits for nobody."""

import collections
import statistics
from typing import Counter, Dict, Iterable, List, NamedTuple, Set, Tuple

from cprof.tool.collectives import Times

# Below that many ranks the median says little; `cprof ranks` then goes by who waited for whom.
RANKS_LEAST = 8
# A cell stands out by six of the cells' deviations (one of 1,024 x 500 normal ones would do so in a thousand runs), and by a fiftieth of the step.
DEVIATIONS, CELL_SHARE = 6.0, 0.02
CELLS_LEAST = 2         # steps in which a rank stands out: a single one may be a hiccup of the machine
LEAST_SHARE = 0.01      # of the step: less is not worth a line
HOST_SHARE = 0.75       # of a host's ranks that stand out: it is the host
MANY_SHARE = 1 / 16     # of all ranks, on several hosts: the work is uneven
GROUPS_LEAST = 4        # groups of one kind that can be compared
LINK_FACTOR = 1.5       # of the median group's time
NORMAL = 1.4826         # standard deviations in a median absolute deviation


class Own(NamedTuple):
    """Parts of a step that a rank spends by itself."""
    kind: str
    parts: Tuple[str, ...]
    one: str                # what a rank does, around the time
    many: str               # what several ranks do
    fault: str              # of a rank
    of_host: str            # of a host
    of_many: str            # of many ranks on several hosts


DATA = Own("data", ("data",), "waits {} longer for data", "wait {} longer for data", "late data", "late data", "late data")
ON_GPU = (Own("computation", ("computation",), "computes {} longer", "compute {} longer", "slow GPU", "slow GPUs", "uneven work"), DATA,
          Own("cpu", ("operators", "outside", "sync"), "keeps its GPU idle {} longer", "keep their GPUs idle {} longer", "slow CPU", "slow host", "slow CPUs"),
          Own("copies", ("exposed_memcpy",), "copies {} longer", "copy {} longer", "slow copies", "slow copies", "slow copies"))
ON_CPU = (Own("operators", ("operators",), "is in operators {} longer", "are in operators {} longer", "slow rank", "slow host", "uneven work"), DATA,
          Own("outside", ("outside",), "is outside operators {} longer", "are outside operators {} longer", "slow rank", "slow host", "slow ranks"))


class Cause(NamedTuple):
    """Why others wait. Nanoseconds."""
    kind: str               # as of Own, or "link"
    where: str              # "rank", "host", "ranks" or "group"
    ranks: List[int]
    host: str               # "" for several
    cost: float             # in a step
    share: float            # of the step
    steps: List[int]        # in which it stands out
    compared: int           # steps
    said: str               # in words, without the steps

    def text(self) -> str:
        """In words."""
        if len(self.steps) == self.compared:
            return f"{self.said}, in all {self.compared} steps"
        return f"{self.said}, in {len(self.steps)} of {self.compared} steps: {', '.join(map(str, self.steps[:8]))}{', ...' * (len(self.steps) > 8)}"


def _time(cost: float, share: float) -> str:
    return f"{cost / 1e6:,.1f} ms a step ({100 * share:.0f} %)"


def listed(ranks: Iterable[int]) -> str:
    """0-7, 12, 16-23"""
    found: List[List[int]] = []
    for rank in sorted(ranks):
        if found and rank == found[-1][-1] + 1:
            found[-1][1:] = [rank]
        else:
            found.append([rank])
    shown = ["-".join(map(str, one)) for one in found]
    return ", ".join(shown[:6]) + (f", ... ({len(list(ranks))} in all)" if len(shown) > 6 else "")


def causes(traces: List[Times]) -> List[Cause]:
    """What stands out, the largest first. Empty if too few of the traces have summaries with parts."""
    told = [one for one in traces if one.parts]
    if len(told) < RANKS_LEAST or len(told) < len(traces):
        return []
    step_ns = statistics.median(end - start for one in told for n, (start, end) in one.steps.items() if n in one.parts) / told[0].joined
    on_gpu = any(one.device != "cpu" for one in told)
    found = [cause for own in (ON_GPU if on_gpu else ON_CPU) for cause in _own(told, own, step_ns)] + _links(told, step_ns)
    return sorted((one for one in found if one.share >= LEAST_SHARE), key=lambda one: (-one.cost, one.ranks))


# ---- what a rank does by itself ----

Cells = Dict[int, Dict[int, float]]  # by rank and step: how much longer than the median rank; a mean where steps count as one


def _excess(told: List[Times], names: Tuple[str, ...]) -> Cells:
    by_step: Dict[int, Dict[int, int]] = collections.defaultdict(dict)
    for one in told:
        for step, parts in one.parts.items():
            by_step[step][one.rank] = sum(parts[name] for name in names)
    found: Cells = collections.defaultdict(dict)
    for step, values in by_step.items():
        middle = statistics.median(values.values())
        for rank, value in values.items():
            found[rank][step] = (value - middle) / told[0].joined
    return found


def _own(told: List[Times], own: Own, step_ns: float) -> List[Cause]:
    cells = _excess(told, own.parts)
    deviation = NORMAL * statistics.median(abs(value) for row in cells.values() for value in row.values())
    least = max(DEVIATIONS * deviation, CELL_SHARE * step_ns)
    out = {rank: sorted(step for step, value in row.items() if value > least) for rank, row in cells.items()}
    out = {rank: steps for rank, steps in out.items() if len(steps) >= CELLS_LEAST}
    return [_cause(own, where, ranks, told, cells, out, step_ns) for where, ranks in _together(out, told)]


def _together(out: Dict[int, List[int]], told: List[Times]) -> List[Tuple[str, List[int]]]:
    """The ranks that stand out, in groups with one cause."""
    hosts: Dict[str, List[int]] = collections.defaultdict(list)
    for one in told:
        hosts[one.host].append(one.rank)
    whole = {host: ranks for host, ranks in hosts.items() if len(ranks) > 1 and sum(rank in out for rank in ranks) >= HOST_SHARE * len(ranks)}
    if len(whole) > 1 and len(out) >= MANY_SHARE * len(told):
        return [("ranks", sorted(out))]
    found = [("host", [rank for rank in ranks if rank in out]) for ranks in whole.values()] if len(hosts) > 1 else []
    taken: Set[int] = {rank for _, ranks in found for rank in ranks}
    return found + [("rank", [rank]) for rank in sorted(out) if rank not in taken]


def _cause(own: Own, where: str, ranks: List[int], told: List[Times], cells: Cells, out: Dict[int, List[int]], step_ns: float) -> Cause:
    times = Counter(step for rank in ranks for step in out[rank])
    steps = sorted(step for step, count in times.items() if 2 * count >= len(ranks))
    compared = max(len(cells[rank]) for rank in ranks)
    cost = statistics.median(sum(cells[rank][step] for step in out[rank]) / len(cells[rank]) for rank in ranks)
    host = next(one.host for one in told if one.rank == ranks[0])
    return Cause(own.kind, where, ranks, "" if where == "ranks" else host, cost, cost / step_ns, steps, compared,
                 _said(own, where, ranks, host, _time(cost, cost / step_ns), told))


def _said(own: Own, where: str, ranks: List[int], host: str, time: str, told: List[Times]) -> str:
    if where == "ranks":
        return f"{own.of_many}: ranks {listed(ranks)} {own.many.format(time)} than the others"
    who = f"{host} (ranks {listed(ranks)})" if where == "host" else f"rank {ranks[0]} ({host})"
    fault, than = own.of_host if where == "host" else own.fault, "the median rank"
    if own.kind == "computation":
        launches = {one.rank: statistics.median(parts["launches"] for parts in one.parts.values()) / one.joined for one in told}
        usual, its = statistics.median(launches.values()), statistics.median(launches[rank] for rank in ranks)
        if abs(its - usual) > CELL_SHARE * usual:
            fault, than = "more work", f"{than}, with {its:,.0f} kernels and copies in a step instead of {usual:,.0f}"
    return f"{fault}: {who} {own.one.format(time)} than {than}"


# ---- links ----

def _links(told: List[Times], step_ns: float) -> List[Cause]:
    """Groups whose collectives take longer than those of other groups of their kind."""
    shortest: Dict[Tuple, List[int]] = {}   # by key: of each collective in turn
    members: Dict[Tuple, List[int]] = collections.defaultdict(list)
    sizes: Dict[Tuple, Tuple[int, ...]] = {}
    for one in told:
        for key, (durations, size) in one.durations().items():
            if len(shortest.setdefault(key, durations)) == len(durations):
                shortest[key] = list(map(min, shortest[key], durations))
                members[key].append(one.rank)
                sizes[key] = size
    kinds: Dict[Tuple, List[Tuple]] = collections.defaultdict(list)
    for key in shortest:
        name, named, group_size = key
        if named and len(members[key]) == group_size:
            kinds[name, group_size, len(shortest[key]), sizes[key]].append(key)
    found = []
    for keys in kinds.values():
        if len(keys) >= GROUPS_LEAST:
            usual = statistics.median(statistics.median(shortest[key]) for key in keys)
            found += [_link(key, shortest[key], members[key], usual, told, step_ns) for key in keys
                      if statistics.median(shortest[key]) > LINK_FACTOR * usual]
    return found


def _link(key: Tuple, durations: List[int], ranks: List[int], usual: float, told: List[Times], step_ns: float) -> Cause:
    one = next(one for one in told if one.rank == ranks[0])
    by_step: Counter[int] = collections.Counter()
    for number, collective in enumerate(found for found in one.collectives if found.key == key):
        step = one.step_at(collective.start)
        if step is not None:
            by_step[step] += int((durations[number] - usual) / one.joined)
    compared = len(one.steps)
    cost = sum(by_step.values()) / max(compared, 1)
    hosts = {each.host for each in told if each.rank in set(ranks)}
    steps = sorted(step for step, extra in by_step.items() if extra > LEAST_SHARE * step_ns)
    said = f"slow link: {key[0]} among ranks {listed(ranks)} takes {statistics.median(durations) / usual:.1f} times as long as in other groups of " \
        f"{len(ranks)}: {_time(cost, cost / step_ns)}"
    return Cause("link", "group", sorted(ranks), next(iter(hosts)) if len(hosts) == 1 else "", cost, cost / step_ns, steps, compared, said)
