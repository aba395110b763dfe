# SPDX-License-Identifier: Apache-2.0
"""Says why a run hangs, from what the flight recorders of its ranks left (CPROF_FLIGHT): which rank is missing in which transfer, who waits
for it, and in which line its Python is.

    cprof hang RUN

RUN is a run's folder, its folder `flight`, or files of it; without it the newest such folder below this one. The job may still hang: the
recorders have written what they know, and nothing is asked of the processes.

The transfers of a group have numbers, which all its ranks count alike. A rank that has not entered the transfer in which others wait is
missing. If it waits in a transfer of another group, the rank that is missing there is looked for, and so on; ranks that wait for each other
are named together. Ranks that entered different transfers under one number, or the same one with different sizes, are named, too."""

import argparse
import json
import os
import socket
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from cprof.tool.hang_states import BEHIND_NS, Group, State, Transfer, frames_of, states_of
from cprof.tool.native_names import native_names
from cprof.tool.screen import data, put

HELP = "say why a run hangs: the rank that the others wait for, and its Python line"
SCHEMA = {"name": "cprof.hang", "version": 1}
ROOTED = ("gather", "scatter", "all_to_all", "alltoall", "reduce_scatter", "send", "recv", "barrier")  # whose ranks may have different sizes
FRAMES_SHOWN = 6
RANKS_SHOWN = 100
LONG_NS = 10_000_000_000  # a transfer that is open for so long is a sign of a hang
LOADER = "torch/utils/data/dataloader.py"


class Finding(NamedTuple):
    """A cause, and the ranks it is about."""
    kind: str    # missing, cycle, different, inside, alone
    text: str
    ranks: List[int]
    waiting: List[int]
    group: Optional[Group]
    number: Optional[int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", nargs="*", metavar="RUN", help="the folder of a run, its folder `flight`, or files of it; without one the newest "
                        "below the current folder")
    parser.add_argument("--json", action="store_true", help="the findings and the ranks as JSON")


# ---- words ----

def _ranks(numbers: List[int]) -> str:
    """"rank 3", "ranks 0 to 4 and 7"."""
    parts: List[Tuple[int, int]] = []
    for n in sorted(numbers):
        if parts and n == parts[-1][1] + 1:
            parts[-1] = (parts[-1][0], n)
        else:
            parts.append((n, n))
    texts = [f"{first} to {last}" if last > first + 1 else f"{first}, {last}" if last > first else str(first) for first, last in parts]
    text = ", ".join(texts[:-1]) + (" and " if len(texts) > 1 else "") + texts[-1]
    return ("rank " if len(numbers) == 1 else "ranks ") + text


def _group(group: Group, world: int) -> str:
    name, size = group
    if size == world and name in ("", "0"):
        return "all ranks"
    return f"group {name} ({size} ranks)" if name else f"a group of {size} ranks"


def _seconds(ns: int) -> str:
    return f"{max(ns, 0) / 1e9:,.0f} s"


def _doing(state: State, latest: int) -> str:
    """What the rank does, in a few words."""
    process = state.process
    if process == "stopped":
        return "is stopped (SIGSTOP)"
    if state.ended:
        return f"has ended ({state.reason})"
    thread = state.main()
    if process == "gone":
        return f"is gone: its process {state.pid} was killed" + (f"; before, it was in {state.line() or thread.get('call')}" if thread else "")
    if thread is None and latest - state.at > BEHIND_NS:
        return f"is silent: its file ends {_seconds(latest - state.at)} before the others'"
    if thread is None:
        return "hangs" if state.hangs else "works, as far as is known"
    moves, line = thread.get("stands") is False or thread.get("state") == "R", state.line()
    place = [f"in {line}"] if line else []
    if type(thread.get("call")) is str and not moves:
        place.append(f"in {thread['call']}" + (f" of {thread['file']}" if type(thread.get("file")) is str else ""))
    loader = any(LOADER in frame for frame in frames_of(thread))
    return " ".join(["works" if moves else "stands", ", ".join(place)]).strip() + (" (it waits for a DataLoader)" if loader else "")


# ---- causes ----

class Ranks:
    """The ranks' states, and who waits for whom."""

    def __init__(self, states: List[State]) -> None:
        self.states = {state.rank: state for state in states}
        self.world = max([state.world for state in states] + [len(states)])
        self.latest = max(state.at for state in states)
        self.absent = [rank for rank in range(self.world) if rank not in self.states]
        self._members: Dict[Group, List[int]] = {}
        for rank, state in self.states.items():
            for group in state.groups:
                self._members.setdefault(group, []).append(rank)
        for group in self._members:
            if group[1] == self.world:
                self._members[group] = list(self.states)
        self._least = {group: min(self.states[rank].entered(group) for rank in them) for group, them in self._members.items()}
        self._waits = {rank: self._waits_of(state) for rank, state in self.states.items()}

    def members(self, group: Group) -> List[int]:
        """The known ranks of a group."""
        return self._members.get(group, [])

    def known(self, group: Group) -> bool:
        """Whether the group's transfers can be compared between ranks."""
        return bool(group[0]) or group[1] == self.world

    def _waits_of(self, state: State) -> Dict[Group, int]:
        found = {group: number for group, number in state.waits().items() if self.known(group)}
        if not found and (state.hangs or state.ended or state.failed):
            found = {group: state.entered(group) for group in state.groups if self.known(group) and self._least[group] < state.entered(group)}
        return found

    def waits(self, rank: int) -> Dict[Group, int]:
        """The transfers in which a rank waits. Its last one also counts if it hangs or has failed and others have not entered that: on a GPU a
        transfer is only enqueued, and an error ends it."""
        return self._waits[rank]

    def missing(self, group: Group, number: int) -> List[int]:
        """The ranks of the group that have not entered this transfer."""
        if self._least[group] >= number:
            return []
        return [rank for rank in self.members(group) if self.states[rank].entered(group) < number]

    def waiting(self) -> Dict[Tuple[Group, int], List[int]]:
        """The ranks that wait, by group and number."""
        found: Dict[Tuple[Group, int], List[int]] = {}
        for rank in self.states:
            for group, number in self.waits(rank).items():
                found.setdefault((group, number), []).append(rank)
        return found

    @property
    def hang(self) -> bool:
        """Whether there is a sign of a hang: a rank that says so, has ended, is stopped or gone, or a transfer that is open for long."""
        return any(state.hangs or state.ended or state.failed or state.process or any(
            state.at - state.groups[group][number].start > LONG_NS for group, number in state.waits().items()) for state in self.states.values())


def _transfer(ranks: Ranks, group: Group, number: int) -> str:
    one = next((state.groups[group][number] for state in ranks.states.values() if number in state.groups.get(group, {})), None)
    return f"{one.text if one else 'a transfer'} (number {number} of {_group(group, ranks.world)})"


def _different(ranks: Ranks) -> Iterator[Finding]:
    """The first number of each group under which ranks entered different transfers."""
    for group in sorted({group for rank in ranks.states for group in ranks.waits(rank)}):
        by_rank = {rank: ranks.states[rank].groups[group] for rank in ranks.members(group) if group in ranks.states[rank].groups}
        for number in sorted(set().union(*by_rank.values())):
            there = {rank: by_number[number] for rank, by_number in by_rank.items() if number in by_number}
            kinds: Dict[Tuple, List[int]] = {}
            for rank, one in there.items():
                kinds.setdefault(_kind(one), []).append(rank)
            if len(kinds) > 1:
                odd, *usual = sorted(kinds.values(), key=lambda them: (len(them), -them[0]))
                parts = [f"{_ranks(them)} entered {there[them[0]].text}" for them in [odd] + usual]
                lines = [f"{_ranks([rank])} {_doing(ranks.states[rank], ranks.latest)}" for rank in odd[:2]]
                yield Finding("different", f"number {number} of {_group(group, ranks.world)} is not the same on all ranks: {'; '.join(parts)}. "
                              + ". ".join(lines), odd, sorted(rank for them in usual for rank in them), group, number)
                break


def _kind(one: Transfer) -> Tuple:
    name = one.name.lower().replace("_", "")
    return (name,) if any(word.replace("_", "") in name for word in ROOTED) and "allgather" not in name else (name, one.elements, one.dtype)


def _cycle(ranks: Ranks, start: int) -> List[int]:
    """Ranks that wait for each other, along the first missing rank of each; empty if the way ends at a rank that waits for nobody."""
    way: List[int] = []
    at: Optional[int] = start
    while at is not None and at not in way:
        way.append(at)
        at = next((rank for group, number in ranks.waits(at).items() for rank in ranks.missing(group, number)), None)
    return way[way.index(at):] if at is not None else []


def _waits_text(ranks: Ranks, rank: int) -> str:
    group, number = next((group, number) for group, number in ranks.waits(rank).items() if ranks.missing(group, number))
    return f"{_ranks([rank])} waits in {_transfer(ranks, group, number)} for {_ranks(ranks.missing(group, number))} and {_doing(ranks.states[rank], ranks.latest)}"


def _waited_for(ranks: Ranks) -> Iterator[Finding]:
    """The ranks that are missing in transfers, and groups all of whose ranks are in the transfer."""
    named: Set[int] = set()
    for (group, number), them in sorted(ranks.waiting().items(), key=lambda item: -len(item[1])):
        missing = ranks.missing(group, number)
        if not missing:
            absent = f", as far as is known: {_ranks(ranks.absent)} left no file" if ranks.absent and group[1] == ranks.world else ""
            since = ranks.latest - max(ranks.states[rank].groups[group][number].start for rank in them)
            yield Finding("inside", f"all its ranks are in {_transfer(ranks, group, number)}, for {_seconds(since)}, and it does not end{absent}",
                          ranks.absent if group[1] == ranks.world else [], them, group, number)
            continue
        causes = [rank for rank in missing if not any(ranks.missing(other, n) for other, n in ranks.waits(rank).items())]
        for rank in causes:
            if rank not in named:
                yield Finding("missing", f"{_ranks([rank])} has not entered {_transfer(ranks, group, number)}; it {_doing(ranks.states[rank], ranks.latest)}",
                              [rank], them, group, number)
        named.update(causes)
        cycle = [] if causes else _cycle(ranks, missing[0])
        if cycle and not named.issuperset(cycle):
            yield Finding("cycle", f"{_ranks(cycle)} wait for each other: {'; '.join(_waits_text(ranks, rank) for rank in cycle)}", cycle, them, None, None)
            named.update(cycle)


def _alone(ranks: Ranks) -> Iterator[Finding]:
    """Ranks that hang without any transfer."""
    for rank, state in ranks.states.items():
        if state.hangs and not ranks.waits(rank):
            yield Finding("alone", f"{_ranks([rank])} {_doing(state, ranks.latest)}", [rank], [], None, None)


def findings_of(ranks: Ranks) -> List[Finding]:
    """The causes, most certain first."""
    if not ranks.hang:
        return []
    different = list(_different(ranks))
    waited = [one for one in _waited_for(ranks) if not any(one.group == other.group for other in different)]
    found = different + waited
    return found or list(_alone(ranks))


# ---- output ----

def _row(state: State, latest: int) -> Dict[str, Any]:
    return {"rank": state.rank, "file": state.path, "host": state.host, "pid": state.pid, "step": state.step, "reason": state.reason,
            "seconds_before_the_last": max(latest - state.at, 0) / 1e9, "does": _doing(state, latest), "line": state.line(),
            "waits": [{"group": group[0], "size": group[1], "number": number, "name": one.name, "elements": one.elements, "dtype": one.dtype,
                       "bytes": one.size_bytes, "seconds": max(state.at - one.start, 0) / 1e9}
                      for group, number in state.waits().items() for one in [state.groups[group][number]]],
            "threads": state.threads}


def _stack(state: State) -> Iterator[str]:
    """The main thread's frames, the innermost first: those below Python, then Python's."""
    thread = state.main() or {}
    frames = frames_of(thread)
    native = [frame for frame in thread.get("native") or () if type(frame) is str]
    names = native_names(native) if state.host == socket.gethostname() else [os.path.basename(frame) for frame in native]
    below = next((n for n, name in enumerate(names) if name.startswith("_PyEval_EvalFrame")), len(names))
    for name in names[:min(below, FRAMES_SHOWN)]:
        yield "    " + name
    for frame in frames[:FRAMES_SHOWN]:
        yield "    " + frame
    if len(frames) > FRAMES_SHOWN:
        yield f"    and {len(frames) - FRAMES_SHOWN} more"


def _unknown(ranks: Ranks) -> Iterator[str]:
    """What the files do not tell."""
    if ranks.absent:
        yield f"{_ranks(ranks.absent)} left no file: a lost host, a rank that ended normally, or a folder that is not here"
    blind = [rank for rank, state in ranks.states.items() if state.main() is None and not state.process and not state.ended]
    if blind:
        yield f"{_ranks(blind)} told nothing of {'its' if len(blind) == 1 else 'their'} threads: a recorder looks at them when no step has ended for CPROF_FLIGHT_HANG_S"
    parts = [rank for rank, state in ranks.states.items() if state.unknown or any(not ranks.known(group) for group in state.waits())]
    names = sorted({one.name for rank in parts for one in ranks.states[rank].unknown} |
                   {ranks.states[rank].groups[group][n].name for rank in parts for group, n in ranks.states[rank].waits().items() if not ranks.known(group)})
    if parts:
        yield f"{_ranks(parts)} {'waits' if len(parts) == 1 else 'wait'} in {', '.join(names[:3])}, for whom is not known"


def run(args: argparse.Namespace) -> int:
    """Runs the sub-command."""
    states, left_out = states_of(args.runs)
    ranks = Ranks(states)
    found = findings_of(ranks)
    if args.json:
        result = {"schema": SCHEMA, "ranks_of_run": ranks.world, "findings": [dict(one._asdict(), group=one.group and one.group[0]) for one in found],
                  "ranks": [_row(state, ranks.latest) for state in ranks.states.values()], "absent": ranks.absent, "left_out": left_out}
        data(json.dumps(result, indent=1) + "\n")
        return 0
    hung = [state for state in ranks.states.values() if state.hangs]
    if not found:
        put("no rank hangs, as far as the files tell" if not hung else "these ranks hang, and nothing shows why")
    for one in found:
        put(one.text)
        if one.waiting and one.kind == "missing":
            put(f"  {_ranks(one.waiting)} {'waits' if len(one.waiting) == 1 else 'wait'} for it")
        for rank in one.ranks[:3]:
            for line in _stack(ranks.states[rank]) if rank in ranks.states else ():
                put(line)
    put()
    put("rank  step    what it does")
    for rank, state in list(ranks.states.items())[:RANKS_SHOWN]:
        put(f"{rank:4}  {'?' if state.step is None else state.step + 1:>6}  {_doing(state, ranks.latest)}")
    if len(ranks.states) > RANKS_SHOWN:
        put(f"and {len(ranks.states) - RANKS_SHOWN:,} more (--json has them)")
    for line in [*_unknown(ranks), *left_out]:
        put(f"not known: {line}")
    return 0
