# SPDX-License-Identifier: Apache-2.0
"""Reads from a trace how a process used its machine: the rate of its operators, reserved memory, processors and pages."""

import bisect
import operator
from typing import Any, Callable, Dict, Iterable, List, NamedTuple, Optional, Tuple

from cprof.tool.columns import Columns
from cprof.tool.fast import as_event
from cprof.tool.span_reader import begins_and_ends
from cprof.tool.spans import AT_A_TIME, FRAME, in_order, int_or_none, text_of, to_ns

MOST = 1 << 50   # larger FLOPs, bytes and nanoseconds are invalid


class Process(NamedTuple):
    """The use of the host by a process while the trace was recorded. Nanoseconds are sums over its threads."""
    cores: int
    wall_ns: int
    ran_ns: int        # on a processor
    queued_ns: int     # ready to run, but waiting for a processor
    system_ns: int     # in the kernel
    page_faults: int
    main_ran_ns: Optional[int] = None     # of the main thread alone
    main_queued_ns: Optional[int] = None

    @property
    def main(self) -> Tuple[int, int]:
        """Nanoseconds for which the main thread ran, and for which it waited for a processor; of all threads if the trace does not separate it."""
        return (self.ran_ns, self.queued_ns) if self.main_ran_ns is None or self.main_queued_ns is None else (self.main_ran_ns, self.main_queued_ns)

    @property
    def blocked(self) -> Optional[float]:
        """The share of time in which the main thread neither ran nor waited for a processor."""
        if self.main_ran_ns is None or self.main_queued_ns is None:
            return None
        return max(0.0, 1 - (self.main_ran_ns + self.main_queued_ns) / self.wall_ns)

    @property
    def runnable(self) -> float:
        """The mean number of threads that ran or were ready to run."""
        return (self.ran_ns + self.queued_ns) / self.wall_ns


LEAST_TOLD = 6   # the first fields, which every version of cprof writes


class Rated(NamedTuple):
    """Sums over operators of one name and line whose FLOPs are counted."""
    name: str
    line: str
    calls: int
    flops: int
    bytes: int
    time: int          # nanoseconds: of the operators on a CPU, of their kernels on a GPU

    @property
    def rate(self) -> float:
        """FLOPs a nanosecond."""
        return self.flops / max(self.time, 1)


def added_up(found: Iterable[Rated]) -> List[Rated]:
    """One Rated for each name and line."""
    sums: Dict[Tuple[str, str], Rated] = {}
    for one in found:
        before = sums.get((one.name, one.line))
        sums[one.name, one.line] = one if before is None else Rated(*before[:2], *map(operator.add, before[2:], one[2:]))
    return list(sums.values())


class Memory:
    """Peaks of a GPU's memory, in bytes."""

    def __init__(self) -> None:
        self.reserved = self.allocated = self.driver = 0


def process_of(metadata: Dict[str, Any]) -> Optional[Process]:
    """The trace's Process; None if the trace has none, as those of other tools."""
    account = metadata.get("cprof")
    told = account.get("process") if type(account) is dict else None
    if type(told) is not dict:
        return None
    numbers = [int_or_none(told.get(name)) for name in Process._fields]
    if any(number is None or number < 0 for number in numbers[:LEAST_TOLD]) or not all(numbers[:3]):
        return None
    return Process(*numbers)  # type: ignore[arg-type]


class Slowed(NamedTuple):
    """A reason for which a GPU lowered its clocks."""
    reason: str
    share: float       # of the readings while the GPU was busy
    clock: float       # of the SMs meanwhile, MHz


class Clocks(NamedTuple):
    """How often a GPU was slowed down while it was busy."""
    busy: int                # readings
    most: float              # highest clock of the SMs, MHz
    slowed: List[Slowed]     # most frequent first


def clocks_of(metadata: Dict[str, Any], device: str) -> Optional[Clocks]:
    """The Clocks of a device ("cuda:0"); None if the trace has none."""
    account = metadata.get("cprof")
    all_told = account.get("telemetry") if type(account) is dict else None
    told = all_told.get(device.upper()) if type(all_told) is dict else None
    if type(told) is not dict:
        return None
    busy, most, reasons = int_or_none(told.get("busy")) or 0, int_or_none(told.get("sm_clock_most_mhz")) or 0, told.get("throttled", {})
    if not (0 < busy < MOST and 0 < most < MOST) or type(reasons) is not dict:
        return None
    slowed = []
    for reason, one in reasons.items():
        times, clock = (int_or_none(one.get("readings")) or 0, one.get("sm_clock_mhz")) if type(one) is dict else (0, None)
        if 0 < times <= busy and type(clock) in (int, float) and 0 < clock <= most:
            slowed.append(Slowed(text_of(reason), times / busy, clock))
    return Clocks(busy, most, sorted(slowed, key=lambda one: (-one.share, one.reason)))


def limits_of(metadata: Dict[str, Any]) -> Dict[str, int]:
    """The memory of each GPU that the process sees, in bytes."""
    told = metadata.get("deviceProperties")
    found = {f"cuda:{one.get('id')}": int_or_none(one.get("totalGlobalMem")) or 0 for one in told if type(one) is dict} if type(told) is list else {}
    return {name: size for name, size in found.items() if size > 0}


class Use:
    """Collects rates and memory from each event in the pass of read_spans()."""

    def __init__(self) -> None:
        self.memory: Dict[str, Memory] = {}
        self._columns = Columns()
        new = self._columns.new
        self._start, self._time, self._flops, self._bytes, self._external = (new("q") for _ in range(5))
        self._kind = new("i")
        self._kernel_external, self._kernel_time, self._kernel_device = new("q"), new("q"), new("i")
        self._again_start, self._again_end = new("q"), new("q")
        self._kinds: Dict[Tuple[str, str], int] = {}
        self._devices: Dict[str, int] = {}
        self._seen = 0

    def see(self, event: Dict[str, Any]) -> None:
        """Takes an event of any kind."""
        args, category = event.get("args"), event.get("cat")
        if type(args) is not dict:
            return
        if category == "cpu_op" and args.get("recompute"):
            self._repeated(event)
        elif category == "cpu_op" and "flops" in args:
            self._operator(event, args)
        elif category == "kernel" and "flops" in args:
            self._kernel(event, args)
        elif event.get("name") in ("[memory]", "[driver memory]"):
            self._memory(event["name"], args)

    def _repeated(self, event: Dict[str, Any]) -> None:
        start, time = to_ns(event.get("ts")), to_ns(event.get("dur"))
        if start is not None and time is not None and 0 < time < MOST:
            self._again_start.append(start)
            self._again_end.append(start + time)
            self._trim()

    def operators(self, found: List[Any]) -> None:
        """Takes spans of fast.py's class that have FLOPs, or run a second time."""
        found = [one for one in found if one.cat == "cpu_op"]
        for one in found:
            if one.args.recompute:
                self._repeated(as_event(one))
        found = [one for one in found if not one.args.recompute]
        for one, start, end in zip(found, *begins_and_ends([one.ts for one in found], [one.dur for one in found])):
            args = one.args
            self._add_operator(one.name, start, end - start, args.flops, args.bytes, args.external or 0, args.stack, one.sf)

    def _operator(self, event: Dict[str, Any], args: Dict[str, Any]) -> None:
        start, time = to_ns(event.get("ts")), to_ns(event.get("dur"))
        if start is not None and time is not None:
            self._add_operator(text_of(event.get("name")), start, time, args["flops"], args.get("bytes"), int_or_none(args.get("External id")) or 0,
                               args.get("Call stack"), event.get("sf"))

    def _add_operator(self, name: str, start: int, time: int, flops: Any, size: Any, external: int, text: Any, frame: Any) -> None:
        if type(flops) is not int or type(size) is not int or not (0 < time < MOST and 0 < flops < MOST and 0 < size < MOST):
            return
        self._start.append(start)
        self._time.append(time)
        self._flops.append(flops)
        self._bytes.append(size)
        self._external.append(external)
        key = (name, text if type(text) is str else f"{FRAME}{frame}" if type(frame) in (int, str) else "")
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = len(self._kinds)
        self._kind.append(kind)
        self._trim()

    def _kernel(self, event: Dict[str, Any], args: Dict[str, Any]) -> None:
        time, external = to_ns(event.get("dur")), int_or_none(args.get("External id"))
        if time is not None and external and 0 < time < MOST:
            self._kernel_external.append(external)
            self._kernel_time.append(time)
            self._kernel_device.append(self._devices.setdefault(f"cuda:{text_of(args.get('device', event.get('pid')))}", len(self._devices)))
            self._trim()

    def _trim(self) -> None:
        self._seen += 1
        if self._seen % AT_A_TIME == 0:
            self._columns.trim()

    def _memory(self, name: str, args: Dict[str, Any]) -> None:
        index, total = int_or_none(args.get("Device Id")), int_or_none(args.get("Total Allocated")) or 0
        if index is None or index < 0 or name == "[memory]" and args.get("Device Type") != 1 or args.get("Memory Kind", "Device") != "Device":
            return
        found = self.memory.setdefault(f"cuda:{index}", Memory())
        if name != "[memory]":
            found.driver = max(found.driver, total)
            return
        found.allocated = max(found.allocated, total)
        found.reserved = max(found.reserved, int_or_none(args.get("Total Reserved")) or 0)

    def finish(self) -> None:
        """Ends the collection, after the last event."""
        self._columns.finish()
        for name in ("_start", "_time", "_flops", "_bytes", "_external", "_kind", "_kernel_external", "_kernel_time", "_kernel_device", "_again_start",
                     "_again_end"):
            setattr(self, name, self._columns.whole(getattr(self, name)))

    def repeated(self, spans: List[Tuple[int, int]], begun: Callable[[int], int]) -> List[int]:
        """The time of operators that run a second time, for the backward pass, in each of these disjoint spans of time. Counts each moment once.
        begun: the start of the operator that runs at a time; the recomputation begins with the operator around it."""
        starts, reached, found = [start for start, _ in spans], -MOST * MOST, [0] * len(spans)
        for i in in_order(len(self._again_start), self._again_start.__getitem__):
            start, end = max(begun(self._again_start[i]), reached), self._again_end[i]
            at = bisect.bisect_right(starts, start) - 1
            if start < end and at >= 0 and start < spans[at][1]:
                found[at] += min(end, spans[at][1]) - start
            reached = max(reached, end)
        return found

    def rated(self, spans: List[Tuple[int, int]], device: str) -> List[List[Rated]]:
        """The operators that began in each of these disjoint spans of time. `line` still holds the stack. On a GPU: only operators with one kernel
        each."""
        starts = [start for start, _ in spans]
        sums: List[Dict[int, List[int]]] = [{} for _ in spans]
        kernels = {} if device == "cpu" else self._kernels(self._devices.get(device, -1))
        for i in range(len(self._start)):
            at = bisect.bisect_right(starts, self._start[i]) - 1
            time = self._time[i] if device == "cpu" else kernels.get(self._external[i], 0)
            if at >= 0 and self._start[i] < spans[at][1] and time:
                found = sums[at].setdefault(self._kind[i], [0, 0, 0, 0])
                for n, value in enumerate((1, self._flops[i], self._bytes[i], time)):
                    found[n] += value
        names = list(self._kinds)
        return [[Rated(*names[kind], *found) for kind, found in of_span.items()] for of_span in sums]

    def _kernels(self, device: int) -> Dict[int, int]:
        return {self._kernel_external[i]: self._kernel_time[i] for i in range(len(self._kernel_time)) if self._kernel_device[i] == device}
