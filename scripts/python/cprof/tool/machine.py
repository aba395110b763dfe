# SPDX-License-Identifier: Apache-2.0
"""Rules about the machine: processors, pages, memory of a GPU, rates, and which device works."""

import collections
from typing import Any, Dict, List, Tuple

from cprof.tool.machine_use import Process, Rated, added_up, clocks_of, limits_of, process_of
from cprof.tool.thread_states import Cause

# An operator is slow where it computes at less than a fifth of the best rate that the trace has: GPT-3's training as a whole reached 21 % of its
# devices' peak (Chowdhery et al., "PaLM", table 3).
LOW_RATE = 0.2
# Below this number of FLOPs a byte, memory is the limit, not the processor. Williams et al., "Roofline": 1 to 7 on CPUs. NVIDIA, "Matrix Multiplication
# Background": 139 on a V100; 295 follow for an H100 (989 TFLOP/s, 3.35 TB/s).
DENSE = {"cpu": 10, "cuda": 300}
# PyTorch's dispatcher takes 1 to 5 us for each operator: the rate of shorter operators means nothing.
RATED_NS = 50_000
# A page fault takes 2.4 us on the virtual machine on which cprof was written: twice that for a slower one.
FAULT_NS = 5_000
# Linux counts a process's time in the kernel in ticks of 1 to 10 ms: a shorter account does not tell it.
TICKED_NS = 250_000_000
PAGE = 4096
# The least mean number of runnable threads of a process: with fewer, the machine is not the reason.
THREADS = 1.5
# GMLake (ASPLOS 2024) found up to a third of the reserved memory fragmented. PyTorch's allocator takes 20 MB at once; ten times that is no rounding.
FRAGMENTED, FRAGMENTED_BYTES = 1 / 3, 200 << 20
# Half a second of readings: the power limit may hold for a moment only (NVML's power is a mean of up to a second).
CLOCK_READINGS = 5
# What each reason of throttles.def says. A hardware slowdown may come from heat or from the power supply; then the other two tell.
POWER, HEAT = ("power limit", "power brake"), ("software thermal slowdown", "hardware thermal slowdown")
# vLLM's gpu_memory_utilization: a tenth is left for memory that no allocator counts.
FULL = 0.9


def low_rate(group: Any, share: float) -> List[Any]:
    """Dense operators far below the best rate of the trace, and those in double precision."""
    dense = DENSE["cpu" if group.device == "cpu" else "cuda"]
    rated = [one for one in added_up(one for window in group.usual for one in window.rated) if one.flops >= dense * one.bytes and one.time >= RATED_NS * group.crowded * one.calls]
    least = share * group.mean(group.usual, "total")
    found = [one for one in (_slow(group, rated), _doubles(group, rated)) if one is not None and one.ms * 1e6 >= least > 0]
    return found[:1]


def _slow(group: Any, rated: List[Rated]) -> Any:
    best, steps = max((one.rate for one in rated), default=0.0), len(group.usual)
    lost: Dict[Cause, float] = {}
    calls: collections.Counter[Cause] = collections.Counter()
    slow: Dict[Cause, Rated] = {}
    for one in rated:
        if one.rate < LOW_RATE * best:
            cause = Cause("operator", one.name, one.line)
            lost[cause] = (one.time - one.flops / best) / steps
            calls[cause], slow[cause] = one.calls, one
    if not lost:
        return None
    worst = max(lost, key=lambda cause: (lost[cause], cause))
    where = f" at {worst.line}" if worst.line else ""
    return group.finding("low-flop-rate", f"{worst.name}{where} computes {slow[worst].rate:,.3g} GFLOP/s; others reach {best:,.3g}", sum(lost.values()),
                         lost, calls)


def _doubles(group: Any, rated: List[Rated]) -> Any:
    """float64 takes twice as long as float32, since half as many numbers fit into a register. A program that uses only float64 wants it."""
    account = group.facts.metadata.get("cprof")
    flops = account.get("flops") if type(account) is dict else None
    told = flops.get(group.device.upper()) if type(flops) is dict else None
    counts = [one.get("flops") if type(one) is dict else 0 for one in (told.get("float64"), told.get("float32"))] if type(told) is dict else []
    if not counts or any(type(one) is not int or not 0 < one < 1 << 80 for one in counts):
        return None
    part = counts[0] / sum(counts)
    ns = sum(one.time for one in rated) / len(group.usual) * part / (1 + part)
    return group.finding("low-flop-rate", f"{part:.0%} of the FLOPs are of float64, which takes at least twice as long as float32", ns, {})


def churn(group: Any, share: float) -> List[Any]:
    """Finds time in the kernel for page faults: memory that goes back to the kernel and is taken again."""
    used = process_of(group.facts.metadata)
    if used is None or used.wall_ns < TICKED_NS:
        return []
    part = min(min(used.system_ns, used.page_faults * FAULT_NS) / used.ran_ns, 1.0)
    ns = part * group.mean(group.usual, "operators")
    pages = used.page_faults * group.mean(group.usual, "total") / used.wall_ns
    grown = sum(held.growth for account in group.facts.memory for held in account.growing)
    causes = {Cause("operator", holder.operator, holder.line, module=holder.module): float(size)
              for account in group.facts.memory if account.device == "cpu" for holder, size in account.turned.items()}
    if ns < share * group.mean(group.usual, "total") or grown * 2 >= pages * PAGE:
        return []
    most = max(causes, key=lambda cause: (causes[cause], cause), default=None)
    where = f"; {most.name}{f' at {most.line}' if most.line else ''} takes most memory" if most is not None else ""
    return [group.finding("allocator-churn", f"the kernel hands out {pages:,.0f} fresh pages a step{where}", ns, {most: ns} if most else {})]


def unused(group: Any, share: float) -> List[Any]:
    """Finds operators on the CPU while a GPU of the process is idle."""
    limits = limits_of(group.facts.metadata)
    ns = group.mean(group.usual, "operators")
    if not limits or ns < share * group.mean(group.usual, "total"):
        return []
    return [group.finding("wrong-device", f"all operators run on the CPU; {', '.join(sorted(limits)[:4])} does nothing", ns, {})]


def throttling(group: Any) -> List[Any]:
    """Finds a GPU that runs below its highest clock, and why. The bound takes kernels to be as much faster as the clock could be: a B200 at 1,580 instead
    of 1,965 MHz lost up to 15 % of its TFLOP/s (flashinfer#2899)."""
    clocks = clocks_of(group.facts.metadata, group.device)
    if clocks is None or clocks.busy < CLOCK_READINGS or not clocks.slowed:
        return []
    most = max(clocks.slowed, key=lambda one: one.share * (clocks.most - one.clock))
    reasons = {one.reason for one in clocks.slowed if one.share * 2 >= most.share}
    heat, power = not reasons.isdisjoint(HEAT), not reasons.isdisjoint(POWER)
    who = "heat and the power limit hold" if heat and power else "heat holds" if heat else "the power limit holds" if power else "the hardware holds"
    title = f"{who} the SM clock at {most.clock:,.0f} of {clocks.most:,.0f} MHz in {most.share:.0%} of the readings while the GPU was busy"
    ns = group.mean(group.usual, "computation")
    evidence = [{"what": f"{one.reason}: {one.share:.0%} of the readings, SM clock {one.clock:,.0f} MHz", "operator": "", "module": "", "line": "", "to_line": "",
                 "ms": ns * one.share * (1 - one.clock / clocks.most) / 1e6, "per_step": 0.0} for one in clocks.slowed[:3]]
    return [group.finding("throttling", title, ns * most.share * (1 - most.clock / clocks.most), {})._replace(evidence=evidence)]


def by_host(groups: List[Any]) -> List[List[Any]]:
    """The groups by host."""
    hosts: Dict[str, List[Any]] = {}
    for group in groups:
        hosts.setdefault(str(group.facts.metadata.get("host_name", "")), []).append(group)
    return list(hosts.values())


def oversubscribed(groups: List[Any], share: float) -> List[Any]:
    """Finds a host whose ranks together have more runnable threads than processors."""
    used = {group.rank: process_of(group.facts.metadata) for group in groups if group.device == "cpu" and group.usual}
    told: List[Process] = [one for one in used.values() if one is not None]
    if not told or max(one.runnable for one in told) < THREADS:
        return []
    runnable, cores = sum(one.runnable for one in told), max(one.cores for one in told)
    found = []
    for group in groups:
        if used.get(group.rank) is None:
            continue
        ns = group.mean(group.usual, "operators") * (1 - cores / runnable)
        if ns >= share * group.mean(group.usual, "total") > 0:
            of = f" of {len(told)} ranks" if len(told) > 1 else ""
            found.append(group.finding("oversubscribed-threads", f"{runnable:,.1f} threads{of} are ready to run, in the mean, on {cores} processors", ns, {}))
    return found


def shared_devices(groups: List[Any], share: float) -> List[Any]:
    """Finds ranks of a host that share a GPU while another GPU that they see is idle."""
    ranks: Dict[str, List[int]] = {}
    for group in groups:
        if group.device != "cpu" and group.counted:
            ranks.setdefault(group.device, []).append(group.rank)
    seen = {device for group in groups for device in limits_of(group.facts.metadata)}
    free = sorted(seen - set(ranks))
    found = []
    for group in groups:
        there = ranks.get(group.device, [])
        if free and len(there) > 1 and group.usual:
            ns = group.mean(group.usual, "computation") * (1 - 1 / len(there))
            if ns >= share * group.mean(group.usual, "total"):
                found.append(group.finding("wrong-device", f"ranks {', '.join(map(str, sorted(there)))} all work on {group.device}, none on {free[0]}", ns, {}))
    return found


def memory(group: Any) -> List[Tuple[str, str, str, int]]:
    """(rule, title, device, bytes) of reserved memory that was never in use, and of devices that are nearly full."""
    limits, found = limits_of(group.facts.metadata), []
    for device, used in sorted(group.facts.peaks.items()):
        unused_bytes, limit, peak = used.reserved - used.allocated, limits.get(device, 0), max(used.reserved, used.driver, used.allocated)
        if unused_bytes >= max(FRAGMENTED * used.reserved, FRAGMENTED_BYTES):
            found.append(("fragmentation", f"{unused_bytes / used.reserved:.0%} of the reserved memory of {device} was never in use at once", device,
                          unused_bytes))
        if limit and peak >= FULL * limit:
            found.append(("memory-limit", f"{peak / limit:.0%} of the memory of {device} are taken", device, peak))
    return found
