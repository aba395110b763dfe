# SPDX-License-Identifier: Apache-2.0
"""The findings of `cprof explain`: what stands out in the steps of a run, ranked by the time that each finding could save, an upper bound in ms
per step.

A bound adds up moments of the step. Each moment has one class (moments.py), so no two findings count the same moment. Steps that are far longer
than the others are a finding of their own, and no other finding counts them."""

import collections
import math
import re
import statistics
from typing import Any, Callable, Counter, Dict, Iterable, List, NamedTuple, Optional, Tuple

from cprof.tool import machine
from cprof.tool.averages import format_memory
from cprof.tool.machine_use import process_of
from cprof.tool.moments import BACKWARD, BUSY, CPU, IDLE, SHARE, Facts, Window
from cprof.tool.thread_states import Cause

# The least share of a step that is worth a finding. XProf's overview page reports input and idle time above 10 % (OpenXLA, "Overview page"), barriers
# from 10 %. Without a GPU it is SHARE (moments.py), where steps differ so little that it is known that well, else more, at most MOST_SHARE. A GPU loses
# some hundred microseconds behind each call that waits, and a healthy program has one in a step (planted/gpu.py: 4 % of 20 ms).
MOST_SHARE = 0.10
# Two standard errors: in 95 % of the cases the mean of all steps is nearer to that of the recorded ones. 1.4826 median absolute deviations are a standard
# deviation (Iglewicz and Hoaglin).
ERRORS, DEVIATION = 2, 1.4826
# Operators that only launch kernels, or make views and empty tensors, keep the GPU waiting for less than this, also while cprof records (in the same
# run 99 % of the gaps are below 100 us).
BOOKKEEPING_NS = 100_000
# LOOP_CALLS calls of an operator from one stack in each step are a loop, not the layers of a model: GPT-3 has 96 (Brown et al., table 2.1).
# PyTorch's dispatcher takes 1 to 5 us for an operator, and Python more: below TINY_NS that is most of the operator's time.
LOOP_CALLS, TINY_NS = 100, 50_000
# Of a fleet's GPU hours, 14 to 32 % are exposed communication (Hsia et al., "MAD Max", ISCA 2024), so up to three tenths are usual. Without a GPU,
# transfers take the processors that compute, so overlap saves less.
EXPOSED_ON_CPU = 0.3
# A tensor that does not fit into a processor's first-level cache (32 KiB and more since 2006): the next operator reads it from a slower level.
LARGE_BYTES = 32 << 10
# Operators that compute much for each byte that they move: products, and random numbers.
COSTLY = re.compile(r"mm|linear|matmul|conv|einsum|dot|attention|lstm|gru|cdist|rand|normal_?$|uniform|dropout|bernoulli|multinomial", re.IGNORECASE)
SINGLE = "_SingleProcessDataLoaderIter"
# Of the pauses of a thread, so many at one place are that place's: all layers of a model may have one line of the program.
ONE_PLACE = 0.75
# Growth that would double the peak within a thousand steps. Which holders grow is decided in memory_holders.py.
LEAK_SHARE = 0.001
# Iglewicz and Hoaglin's modified z-score (1993), which works if up to half of the steps are outliers; and a length that a person would notice.
SCORE, SCORE_STEPS, NOTICED = 3.5, 5, 1.5
EVIDENCE_SHOWN = 3
_NUMBER = re.compile(r"\(\d+\)")

ADVICE = {
    "input-bound": "The training loop waits for its next batch. Give the DataLoader more workers (num_workers), keep them between epochs "
                   "(persistent_workers=True), let them read ahead (prefetch_factor), and move costly transforms out of the loop.",
    "synchronising-calls": "A call in the loop waits until the GPU is done, so the GPU is idle until new work arrives. Keep values on the "
                           "GPU: sum the loss there and read it every N steps, replace nonzero() and boolean indexing by where(), and copy from "
                           "pinned memory with non_blocking=True.",
    "allocator-calls": "The loop asks the driver for memory, and the driver waits for the GPU. PyTorch's allocator keeps memory, so this should end "
                       "after the first steps. Avoid empty_cache() in the loop; where shapes change, set "
                       "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.",
    "launch-bound": "The GPU is done with each kernel before the CPU has launched the next one: the kernels are many and short. Use larger batches, "
                    "torch.compile (mode=\"reduce-overhead\" records CUDA graphs), or the fused and foreach forms of the optimizer (fused=True).",
    "cpu-late": "The GPU waits while the CPU is inside an operator. Find out why this operator takes so long on the CPU: its arguments, a first call, "
                "or work before its first launch.",
    "cpu-operators": "Operators run on the CPU while the GPU waits. Check the device of the tensors: make them on the GPU (device=...), and move "
                     "inputs there once, before the loop.",
    "python": "The program runs for a long time between two operators. Move that code out of the loop, run it less often, or run it in another thread "
              "or process.",
    "between-steps": "Time passes between the last operator of a step and the first one of the next: logging, a checkpoint, evaluation, bookkeeping. "
                     "Do it less often, or in another thread; write checkpoints asynchronously (torch.distributed.checkpoint.async_save).",
    "exposed-communication": "Collectives run while nothing is computed. Let them overlap the backward pass (DistributedDataParallel's buckets, "
                             "bucket_cap_mb), send less (gradient accumulation, lower precision), and see with `cprof ranks` whether one rank is late.",
    "exposed-copies": "Copies run while nothing is computed. Copy ahead on a separate stream, from pinned memory, with non_blocking=True; keep data on "
                      "the GPU that is used again.",
    "recomputation": "Part of the products is computed a second time in the backward pass (activation checkpointing). If memory is left, "
                     "checkpoint fewer layers, or only the cheap ones.",
    "tiny-operators": "One line of the program runs a great many small operators, and most of their time is overhead of the calls. Replace the loop by "
                      "operators on whole tensors, or compile the function (torch.compile).",
    "unfused-operators": "Each of these operators reads and writes whole tensors, and computes little. Compile the function (torch.compile), so that they "
                         "become one pass over memory, or call an operator that does the same. Reuse existing tensors (in-place operators, "
                         "out=). Make the tensors smaller: a comparison of all pairs of rows takes the square of the rows.",
    "interpreter-lock": "A thread that runs Python holds the interpreter's lock, and the training thread waits for it after each operator. Move "
                        "that work to a process of its own (multiprocessing), do it less often, or let it sleep longer.",
    "low-flop-rate": "These operators compute far slower than others of the same trace. Check the type of their numbers (float16 and bfloat16 are slow on "
                     "CPUs without instructions for them, float64 everywhere), sizes that are no multiples of 8 or 16, and layouts (contiguous(), "
                     "channels_last).",
    "throttling": "The GPU lowers its clock, whatever the program does. At the power limit: see whether the limit is set below the GPU's own (nvidia-smi -q -d "
                  "POWER), and compare runs at the same limit; work in lower precision takes less power. Heat: have the cooling of the machine "
                  "checked, and compare with other machines. A power brake or hardware slowdown comes from the power supply or the cooling.",
    "wrong-device": "A device is idle while another one does the work. Call torch.cuda.set_device(local_rank) before anything else, and create "
                    "model and inputs on the device (device=...). To give each rank its own device only, set CUDA_VISIBLE_DEVICES.",
    "allocator-churn": "Memory goes back to the kernel and is taken again, and each fresh page costs a fault. The C library does so with tensors of "
                       "32 MiB and more. Reuse buffers (out=, in-place operators), use smaller batches, or preload jemalloc or tcmalloc.",
    "oversubscribed-threads": "More threads are ready to run than there are processors. Set OMP_NUM_THREADS or torch.set_num_threads() to the number of "
                              "processors, divided by the ranks of the machine.",
    "fragmentation": "The allocator has reserved far more than was in use at once: its free blocks do not fit the requests, or they are left from a "
                     "larger phase. Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, and keep shapes alike from step to step.",
    "memory-limit": "The device is nearly full: a slightly larger batch fails, and the allocator may have to release memory and allocate it again. "
                    "`cprof memory` lists the holders.",
    "leak": "Tensors are kept from step to step. Look for lists, dictionaries and hooks that hold them; keep loss.item() or loss.detach() instead of "
            "the loss. `cprof memory` lists all holders.",
    "outlier-steps": "A few steps take far longer than the others, mostly in the part named here.",
    "straggler": "The other ranks wait for one rank that is late for the collectives. Compare it with the others: its input, its host, "
                 "its share of the work.",
}


class Finding(NamedTuple):
    """Something that stands out."""
    rule: str
    title: str
    ms: float                          # of a step, upper bound
    share: float                       # of the step
    rank: int
    device: str
    steps: List[int]
    evidence: List[Dict[str, Any]]     # largest first
    bytes: float = 0.0                 # growth per step
    held: int = 0                      # bytes, if the finding is about memory and not about time

    @property
    def advice(self) -> str:
        """What to do."""
        return ADVICE[self.rule]


Key = Tuple[str, Cause]


class Group:
    """The steps of one rank on one device."""

    def __init__(self, rank: int, device: str, windows: List[Window], facts: Facts) -> None:
        self.rank, self.device, self.facts = rank, device, facts
        self.windows = windows
        self.counted = [window for window in windows if not window.left_out]
        self.outliers = _outliers(self.counted)
        self.usual = [window for window in self.counted if window not in self.outliers]
        self.least = _least(self.usual) if device == "cpu" else MOST_SHARE   # share of a step
        used = process_of(facts.metadata)
        # The factor by which work took longer because its threads waited for a processor.
        self.used = used
        self.crowded = 1 + used.queued_ns / used.ran_ns if used is not None else 1.0
        self.queued_ns = used.queued_ns if used is not None else 0
        # The share of time for which the thread of the steps slept, if the trace has that.
        self.blocked = used.blocked if used is not None and facts.on_main_thread else None

    def mean(self, windows: List[Window], name: str) -> float:
        """Nanoseconds of a part in a step."""
        return statistics.fmean(getattr(window, name) if name in ("total", "busy", "idle") else window.parts[name] for window in windows)

    def finding(self, rule: str, title: str, ns: float, causes: Dict[Cause, float], pieces: Optional[Counter[Cause]] = None) -> Finding:
        """A finding about the usual steps. ns: the time of a step."""
        return Finding(rule, title, ns / 1e6, ns / max(self.mean(self.usual, "total"), 1), self.rank, self.device,
                       [window.step for window in self.usual if window.step is not None], _evidence(causes, pieces, len(self.usual)))


def _outliers(windows: List[Window]) -> List[Window]:
    if len(windows) < SCORE_STEPS:
        return []
    middle = statistics.median(window.total for window in windows)
    spread = statistics.median(abs(window.total - middle) for window in windows)
    return [window for window in windows if window.total > max(middle + SCORE * spread / 0.6745, NOTICED * middle)]


def _least(windows: List[Window]) -> float:
    """The least share of a step that is worth a finding."""
    if len(windows) < SCORE_STEPS:
        return MOST_SHARE
    middle = statistics.median(window.total for window in windows)
    spread = statistics.median(abs(window.total - middle) for window in windows)
    return min(MOST_SHARE, max(SHARE, ERRORS * DEVIATION * spread / math.sqrt(len(windows)) / max(middle, 1)))


def said(cause: Cause) -> str:
    """The text of a cause."""
    at = f" at {cause.line}" if cause.line else ""
    if cause.what == "python":
        if cause.to_line and cause.to_line != cause.line:
            return f"outside operators, from {cause.line or 'the start'} to {cause.to_line}"
        return "outside operators" + (at and "," + at) + (f", after {cause.name}" if cause.name else "")
    return (cause.name or "(not named)") + (f" in {cause.module}" if cause.module else "") + at


def _evidence(causes: Dict[Cause, float], pieces: Optional[Counter[Cause]], steps: int) -> List[Dict[str, Any]]:
    """The largest causes, with their times per step."""
    largest = sorted(causes.items(), key=lambda item: (-item[1], item[0]))[:EVIDENCE_SHOWN]
    return [{"what": said(cause), "operator": cause.name, "module": cause.module, "line": cause.line, "to_line": cause.to_line, "ms": ns / 1e6,
             "per_step": (pieces or {}).get(cause, 0) / steps} for cause, ns in largest if ns > 0]


def _where(causes: Dict[Cause, float]) -> str:
    """The largest cause."""
    largest = min(causes, key=lambda cause: (-causes[cause], cause), default=None)
    return said(largest) if largest is not None else "a cause that the trace does not tell"


class _Sums:
    """Time and pieces of the causes of some classes, in all usual steps."""

    def __init__(self, group: Group) -> None:
        self.steps, self._crowded = max(len(group.usual), 1), group.crowded
        self.pieces: Counter[Key] = collections.Counter()
        self.calls: Counter[Tuple[Cause, int]] = collections.Counter()
        time: Counter[Key] = collections.Counter()
        stalled: Counter[Key] = collections.Counter()
        stalls: Counter[Key] = collections.Counter()
        for window in group.usual:
            for name, cause, *numbers in window.pieces():
                for sums, number in zip((time, self.pieces, stalled, stalls), numbers):
                    sums[name, cause] += number
            self.calls.update(window.calls)
        self.time = time
        # (key, time, pieces, whether these are stalls). A place has stalls if at least half of its pieces are some, or if every second step has one:
        # a busy machine delays each piece now and then.
        self._told: List[Tuple[Key, int, int, bool]] = []
        for key, count in self.pieces.items():
            long = stalls[key] if stalls[key] * 2 >= min(count, self.steps) else 0
            if long:
                self._told.append((key, stalled[key], long, True))
            if long < count:
                self._told.append((key, time[key] - stalled[key] * (long > 0), count - long, False))

    def of(self, classes: Tuple[str, ...], fits: Callable[[Cause, float, bool], bool] = lambda cause, piece, stalls: True,
           ) -> Tuple[Dict[Cause, float], Counter[Cause]]:
        """Nanoseconds of a step by cause. fits: called with the cause, the mean time of its pieces, less the waits for a processor, and whether these are
        stalls, apart from the other pieces."""
        found: Counter[Cause] = collections.Counter()
        pieces: Counter[Cause] = collections.Counter()
        for (name, cause), time, count, stalls in self._told:
            if name in classes and fits(cause, time / count / self._crowded, stalls):
                found[cause] += time
                pieces[cause] += count
        return {cause: time / self.steps for cause, time in found.items()}, pieces

    def pieces_of(self, causes: Iterable[Cause]) -> Counter[Cause]:
        """The number of pieces of each cause, in operators and outside of them."""
        return collections.Counter({cause: self.pieces["operators", cause] + self.pieces["outside", cause] for cause in causes})


def _stalls(_: Cause, __: float, stalls: bool) -> bool:
    return stalls


def _is_cpu_operator(cause: Cause, piece: float, _: bool) -> bool:
    return cause.what == "operator" and not cause.on_gpu and piece >= BOOKKEEPING_NS


def _is_launching(cause: Cause, piece: float, stalls: bool) -> bool:
    return not stalls and not _is_cpu_operator(cause, piece, stalls)


def of_group(group: Group, waited_ns: float = 0.0, others_ns: float = 0.0) -> List[Finding]:
    """The findings for one rank and device. Time of a step that other findings count: waited_ns of waiting for other ranks; others_ns of operators (on a
    GPU: of kernels)."""
    found: List[Finding] = []
    if not group.usual:
        return found
    total, sums, least = group.mean(group.usual, "total"), _Sums(group), group.least

    def look(rule: str, title: str, causes: Dict[Cause, float], pieces: Optional[Counter[Cause]] = None, less: float = 0.0, share: float = least) -> None:
        ns = sum(causes.values()) - less
        if ns >= share * total > 0:
            found.append(group.finding(rule, title + _where(causes), ns, causes, pieces))

    if group.device == "cpu":
        # One wait has many pieces: small operators run in between.
        data, _ = sums.of(("waiting",), lambda cause, *_: cause.what == "data")
        look("input-bound", "the step waits for data: ", data, less=_worked(group, data, total), share=MOST_SHARE)
        comm, _ = sums.of(("waiting",), lambda cause, *_: cause.what == "collective")
        look("exposed-communication", "the step waits for other ranks: ", comm,
             less=waited_ns + (sum(comm.values()) - waited_ns) * (1 - 1 / group.crowded), share=EXPOSED_ON_CPU)
        lock = _interpreter_lock(group, sums, total)
        found += lock
        look("python", "the step stands still between two operators: ", *sums.of(("outside",), _stalls), less=sum(one.ms for one in lock) * 1e6)
        churn = machine.churn(group, MOST_SHARE)  # kernel time is counted in ticks
        found += _within(group.mean(group.usual, "operators") - others_ns, least * total, machine.unused(group, least) + _recomputation(group, total)
                         + _tiny_operators(group, sums, total) + machine.low_rate(group, least) + churn
                         + _unfused(group, sums, total, sum(one.ms for one in churn) * 1e6))
    else:
        look("input-bound", "the GPU waits for data: ", sums.of(("data",))[0])
        look("allocator-calls", "the GPU waits for the driver's allocator: ", *sums.of(("sync",), lambda cause, *_: _allocates(cause)))
        look("synchronising-calls", "the GPU runs dry behind calls that wait for it: ", *sums.of(("sync",), lambda cause, *_: not _allocates(cause)))
        look("python", "the GPU waits while no operator runs: ", *sums.of(("cpu_late",), _stalls))
        look("cpu-operators", "the GPU waits for operators on the CPU: ", *sums.of(("cpu_late",), _is_cpu_operator))
        found += _launch_bound(group, sums, total)
        look("between-steps", "the GPU waits between steps: ", *sums.of(("between_steps",), lambda cause, _, stalls: not cause.optimizer or stalls))
        for rule, name, title in (("exposed-communication", "exposed_comm", "communication that nothing hides"),
                                  ("exposed-copies", "exposed_memcpy", "copies that nothing hides")):
            ns = group.mean(group.usual, name) - (waited_ns if name == "exposed_comm" else 0)
            if ns >= least * total > 0:
                found.append(group.finding(rule, title, ns, {}))
        found += _within(group.mean(group.usual, "computation") - others_ns, least * total,
                         _recomputation(group, total) + machine.low_rate(group, least) + machine.throttling(group))
    return found + _outlier_steps(group, sums)


def _within(ns: float, least: float, found: List[Finding]) -> List[Finding]:
    """Limits findings about the same moments to `ns` in all: the largest first, each to what the earlier ones leave."""
    kept = []
    for one in sorted(found, key=lambda one: -one.ms):
        told = min(one.ms, ns / 1e6)
        if told * 1e6 >= least and told > 0:
            kept.append(one._replace(ms=told, share=one.share * told / one.ms))
            ns -= told * 1e6
    return kept


def of_machines(groups: List[Group]) -> List[Finding]:
    """Findings about ranks that share a machine: processors and devices."""
    found: List[Finding] = []
    for own in machine.by_host(groups):
        found += machine.oversubscribed(own, MOST_SHARE) + machine.shared_devices([group for group in own if group.usual], MOST_SHARE)
    return found


def full_memory(group: Group) -> List[Finding]:
    """Findings about the memory of a trace's GPUs."""
    steps = [window.step for window in group.usual if window.step is not None]
    return [Finding(rule, title, 0.0, 0.0, group.rank, device, steps, [], 0.0, size) for rule, title, device, size in machine.memory(group)]


def _allocates(cause: Cause) -> bool:
    return any(word in cause.name for word in ("Malloc", "Free", "HostAlloc", "MemAlloc"))


def _launch_bound(group: Group, sums: _Sums, total: float) -> List[Finding]:
    """Finds whether the GPU waits for many short launches (launch-bound) or for slow operators (cpu-late)."""
    causes, pieces = sums.of(("cpu_late",), _is_launching)
    optimizer, more = sums.of(("between_steps",), lambda cause, _, stalls: cause.optimizer and not stalls)
    for cause, ns in optimizer.items():
        causes[cause] = causes.get(cause, 0) + ns
    pieces += more
    ns = sum(causes.values())
    if not ns >= group.least * total > 0:
        return []
    slow = {cause: time for cause, time in causes.items() if time * sums.steps / pieces[cause] >= BOOKKEEPING_NS}
    if sum(slow.values()) >= ns / 2:
        return [group.finding("cpu-late", f"the GPU waits for the CPU: {_where(slow)}", ns, causes, pieces)]
    launches = statistics.fmean(window.launches for window in group.usual)
    each = group.mean(group.usual, "busy") / max(launches, 1) / 1e3
    return [group.finding("launch-bound", f"the GPU waits for launches: {launches:,.0f} a step, {each:,.1f} us each; most in {_where(causes)}", ns, causes,
                          pieces)]


def _function_of(line: str) -> str:
    """A line without its number."""
    return _NUMBER.sub("", line, count=1)


def _is_small(cause: Cause, piece: float, stalls: bool) -> bool:
    if cause.optimizer:
        return False
    same = not cause.to_line or _function_of(cause.to_line) == _function_of(cause.line)
    return piece < TINY_NS if cause.what == "operator" else same and not stalls


def _tiny_operators(group: Group, sums: _Sums, total: float) -> List[Finding]:
    """Finds functions in which one stack calls a small operator many times, or in which brief operators follow each other. Their backward pass
    counts, too. Leaves out optimizers: on a CPU their other forms are loops as well."""
    causes, _ = sums.of(("operators", "outside"), _is_small)
    repeated = {cause for (cause, _), calls in sums.calls.items() if calls >= LOOP_CALLS * sums.steps}
    runs: Counter[Cause] = collections.Counter()
    for window in group.usual:
        runs.update(window.brief)
    brief = {cause: time / sums.steps for cause, time in runs.items()}
    loops = {function: own for function, own in _by_function(causes).items() if not repeated.isdisjoint(own)}
    for function, own in _by_function(brief).items():
        if sum(own.values()) > sum(loops.get(function, {}).values()):
            loops[function] = own
    found = []
    for own in list(loops.values()) + [brief]:
        time, operators = sum(own.values()), [cause for cause in own if cause.what == "operator"]
        if time >= group.least * total > 0 and operators and (own is not brief or not found):
            calls = sum(sums.pieces["operators", cause] for cause in operators) / sums.steps
            largest = max(operators, key=lambda cause: (cause in repeated, own[cause], cause))
            found.append(group.finding("tiny-operators", f"{calls:,.0f} small operators a step: {said(largest)}", time, own, sums.pieces_of(own)))
    return found


def _by_function(causes: Dict[Cause, float]) -> Dict[str, Dict[Cause, float]]:
    """The causes by function, as far as they have a line."""
    found: Dict[str, Dict[Cause, float]] = {}
    for cause, time in causes.items():
        if cause.line:
            found.setdefault(_function_of(cause.line), {})[cause] = time
    return found


def _unfused(group: Group, sums: _Sums, total: float, churned: float) -> List[Finding]:
    """Finds functions of the program that directly call several operators, none of them a product, that make large tensors. Their backward pass counts,
    too; time for fresh pages (churned) does not."""
    taken: Counter[Tuple[str, str]] = collections.Counter()
    for account in group.facts.memory:
        for holder, size in account.turned.items():
            taken[holder.operator, holder.line] += size / len(group.windows) if account.device == "cpu" else 0
    functions: Dict[str, Dict[Cause, float]] = {}
    for cause, time in sums.of(("operators",))[0].items():
        if cause.direct and cause.line and not COSTLY.search(cause.name):
            functions.setdefault(_function_of(cause.line), {})[cause] = time
    found = []
    for function, own in functions.items():
        makers = {cause: taken[cause.name, cause.line] for cause in own
                  if taken[cause.name, cause.line] >= LARGE_BYTES * max(1, sums.pieces["operators", cause] / sums.steps)}
        own = {cause: time for cause, time in own.items() if cause in makers or cause.name.startswith(BACKWARD)}
        ns = sum(own.values()) - churned
        if len(makers) > 1 and ns >= group.least * total > 0:
            found.append(group.finding("unfused-operators", f"{len(makers)} operators of {function} make {format_memory(round(sum(makers.values())))} of tensors a "
                                       f"step and compute little: {_where(own)}", ns, own, sums.pieces_of(own)))
    return found


def _worked(group: Group, data: Dict[Cause, float], total: float) -> float:
    """The time of a step in a loader with workers for which the thread did not sleep: it handled data that was there, or waited for a processor. 0 for
    a loader without workers, which reads on this thread."""
    if group.blocked is None or any(SINGLE in cause.name for cause in data):
        return 0.0
    return max(0.0, sum(data.values()) - group.blocked * total)


def _interpreter_lock(group: Group, sums: _Sums, total: float) -> List[Finding]:
    """Finds a thread that sleeps in many places between operators while another thread of the process runs. Pauses at a single place have another reason."""
    used = group.used
    late: Counter[Cause] = collections.Counter()
    if used is None or used.main_ran_ns is None or group.blocked is None:
        return []
    for window in group.usual:
        late.update(window.late)
    stalled, _ = sums.of(("outside",), _stalls)
    slept = group.blocked * total - group.mean(group.usual, "waiting")
    others = (used.ran_ns - used.main_ran_ns) / used.wall_ns * total
    every = {cause: time / sums.steps for cause, time in late.items()}
    # Long pauses at one place may have a reason of their own: if they are most of all, only the others are looked at.
    for pauses, least in ((every, 0.0), ({cause: time for cause, time in every.items() if cause not in stalled}, sum(stalled.values()))):
        ns = min(sum(pauses.values()), slept - least, others)
        if ns >= group.least * total and max(pauses.values()) <= ONE_PLACE * sum(pauses.values()):
            break
    else:
        return []
    return [group.finding("interpreter-lock", f"the thread sleeps between operators, while others of the process run for {others / 1e6:,.1f} ms a step", ns, pauses, sums.pieces_of(pauses))]


def _recomputation(group: Group, total: float) -> List[Finding]:
    """Measures recomputation on a CPU by the time of marked operators; on a GPU, whose kernels are not marked, by FLOPs."""
    if group.device == "cpu":
        ns = sum(window.repeated for window in group.usual) / len(group.usual)
        title = f"{ns / max(total, 1):.0%} of the step goes into operators that run a second time"
    else:
        account = group.facts.metadata.get("cprof")
        flops = account.get("flops") if type(account) is dict else None
        told = flops.get(group.device.upper()) if type(flops) is dict else None
        whole, again = (told.get("flops"), told.get("recompute_flops")) if type(told) is dict else (0, 0)
        if type(whole) is not int or type(again) is not int or not 0 < again <= whole:
            return []
        ns = group.mean(group.usual, "computation") * again / whole
        title = f"{again / whole:.0%} of the FLOPs are computed a second time"
    return [group.finding("recomputation", title, ns, {})] if ns >= group.least * total > 0 else []


def _common(group: Group, usual: float, sums: _Sums, names: Tuple[str, ...]) -> int:
    """The number of outliers of which one cause makes half of the extra time. A busy machine delays different causes."""
    found: Counter[Key] = collections.Counter()
    for window in group.outliers:
        for name, cause, time, *_ in window.pieces():
            found[name, cause] += name in names and (time - sums.time[name, cause] / sums.steps) * 2 >= window.total - usual
    return max(found.values(), default=0)


def _outlier_steps(group: Group, sums: _Sums) -> List[Finding]:
    """Finds outlier steps and the part of which they have most more than other steps."""
    if not group.outliers:
        return []
    usual = statistics.median(window.total for window in group.usual)
    lost = sum(window.total - usual for window in group.outliers) / len(group.counted)
    names = CPU if group.device == "cpu" else BUSY + IDLE
    if lost * len(group.counted) <= group.queued_ns and _common(group, usual, sums, names) < 2:
        return []  # the threads' waits for a processor, which the trace has only as a sum, may explain the time
    # The title must fit each step that it names: a step that took 20 ms more is not named beside one that took two seconds more.
    longest = max(window.total for window in group.outliers) - usual
    told = [window for window in group.outliers if (window.total - usual) * 2 >= longest]
    more = {name: group.mean(told, name) - group.mean(group.usual, name) for name in names}
    part = max(names, key=lambda name: more[name])
    causes: Counter[Cause] = collections.Counter()
    for window in told:
        for name, cause, time, *_ in window.pieces():
            if name == part:
                causes[cause] += time / len(told)
    for (name, cause), time in sums.time.items():
        if name == part:
            causes[cause] -= time / sums.steps
    steps = [window.step for window in group.outliers if window.step is not None]
    named = ", ".join(str(window.step) for window in told[:5]) + (", ..." if len(told) > 5 else "")
    who = f"steps {named} take" if len(told) > 1 else f"step {named} takes"
    others = f" ({len(group.outliers) - len(told)} more by less)" if len(told) < len(group.outliers) else ""
    where = f": {_where(causes)}" if causes else ""
    title = f"{who} far longer{others}: {more[part] / 1e6:,.1f} ms more{' each' * (len(told) > 1)} of {part}{where}"
    return [group.finding("outlier-steps", title, lost, dict(causes))._replace(steps=steps)]


def leaks(group: Group) -> List[Finding]:
    """Findings about memory that grows from step to step, on all devices of a trace."""
    found: List[Finding] = []
    steps = [window.step for window in group.windows if window.step is not None]
    for account in group.facts.memory:
        for held in account.growing if steps and account.peak else ():
            if held.growth >= LEAK_SHARE * account.peak:
                cause = Cause("operator", held.holder.operator, held.holder.line, module=held.holder.module)
                evidence = _evidence({cause: 1.0}, None, 1)
                evidence[0]["ms"] = 0.0
                found.append(Finding("leak", f"{said(cause)} grows on {account.device}, in {held.grew} of {account.differences} steps", 0.0, 0.0, group.rank,
                                     account.device, steps, evidence, held.growth))
    return found


def ranked(found: List[Finding]) -> List[Finding]:
    """The findings, largest first. Of the same rule and place on several ranks, keeps the one that loses most."""
    best: Dict[Tuple[str, str], Finding] = {}
    for one in found:
        place = one.title.partition(": ")[2] if one.rule == "tiny-operators" else one.evidence[0]["what"] if one.rule == "leak" else ""
        key = (one.rule, place)
        if key not in best or (one.ms, one.bytes, one.held) > (best[key].ms, best[key].bytes, best[key].held):
            best[key] = one
    return sorted(best.values(), key=lambda one: (-one.ms, -one.bytes, -one.held, one.rule))
