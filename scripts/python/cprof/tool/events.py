# SPDX-License-Identifier: Apache-2.0
"""Prints the events of a trace as JSON lines, in the order of the file, for scripts and for jq."""

import argparse
import bisect
import fnmatch
import re
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from cprof.tool import Problem, note
from cprof.tool.given import add_traces, trace_of
from cprof.tool.reader import Trace, keep_out_pipes, open_trace
from cprof.tool.screen import json_line, on_terminal
from cprof.tool.spans import args_of, int_or_none, step_number, text_of, to_ns
from cprof.tool.steps import NAMES, on_our_row

HELP = "the events as JSON lines, filtered by name, category, step, device or thread"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_traces(parser, one=True)
    parser.add_argument("--name", action="append", metavar="GLOB", help="events with this name: 'aten::conv*', '[memory]'")
    parser.add_argument("--category", action="append", metavar="CAT", help="events of this category: kernel, cpu_op …")
    parser.add_argument("--step", action="append", type=int, metavar="N",
                        help="events that begin in step N, and the GPU work launched in it; for the trace of one rank")
    parser.add_argument("--device", action="append", metavar="DEVICE", help="cpu, cuda (any), or cuda:1")
    parser.add_argument("--thread", action="append", metavar="TID", help="events of this thread id or thread name (a glob)")
    parser.epilog = "An option given several times matches any of its values; different options must all match."


def _device_pid(event: Dict[str, Any]) -> Optional[Any]:
    """The GPU of an event, or None."""
    args = args_of(event)
    if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync"):
        return args.get("device", event.get("pid"))
    if event.get("name") == "[memory]" and args.get("Device Type") == 1:
        return args.get("Device Id")
    return None


def _names(globs: List[str]) -> Callable[[Any], bool]:
    """A test whether a name matches one of the globs, or equals one: "[memory]" as a glob would match a single letter."""
    names = set(globs)
    pattern = re.compile("|".join(fnmatch.translate(glob) for glob in globs))
    return lambda name: text_of(name) in names or pattern.match(text_of(name)) is not None


class _Steps:
    """The times of all steps, and the work launched in the wanted steps."""

    def __init__(self, trace: Trace, wanted: List[int]) -> None:
        found: List[Tuple[int, int, int]] = []
        ranges: List[Tuple[int, int, int]] = []  # ranges with a step's name: steps if there are no others (steps.py)
        calls: List[Tuple[int, Any]] = []
        for event in trace:
            name = event.get("name")
            start = to_ns(event.get("ts"))
            if event.get("ph") != "X" or type(name) is not str or start is None:
                continue
            if name.startswith(NAMES) and event.get("cat") != "gpu_user_annotation":
                number = step_number(name)
                if number is not None:
                    (found if on_our_row(event) else ranges).append((start, start + (to_ns(event.get("dur")) or 0), number))
            elif event.get("cat") in ("cuda_runtime", "cuda_driver"):
                calls.append((start, int_or_none(args_of(event).get("correlation"))))
        found = sorted(found or ranges)
        self.found, self.starts, self.wanted = found, [start for start, _, _ in found], set(wanted)
        self.correlations = {correlation for start, correlation in calls if self.has(start) and correlation is not None}

    def has(self, start: int) -> bool:
        """Whether this time is in a wanted step."""
        at = bisect.bisect_right(self.starts, start) - 1
        return at >= 0 and start < self.found[at][1] and self.found[at][2] in self.wanted

    def takes(self, event: Dict[str, Any]) -> bool:
        """Whether the event belongs to a wanted step."""
        if event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset"):
            return int_or_none(args_of(event).get("correlation")) in self.correlations
        start = to_ns(event.get("ts"))
        return event.get("ph") != "M" and start is not None and self.has(start)


def _by_name(threads: List[str]) -> bool:
    """Whether a thread is given by its name, which needs a first pass over the trace."""
    return not all(one.isdigit() for one in threads)


def _threads(path: Any, wanted: List[str], progress: bool) -> Callable[[Dict[str, Any]], bool]:
    """A test whether an event is of one of these threads, given by id or by name in the trace."""
    names: Dict[Any, str] = {}
    if _by_name(wanted):
        with open_trace(path, progress) as trace:
            trace.past_large = True
            for event in trace:
                if event.get("ph") == "M" and event.get("name") == "thread_name":
                    names[text_of(event.get("pid")), text_of(event.get("tid"))] = text_of(args_of(event).get("name"))
    numbers, fits = set(wanted), _names(wanted)
    return lambda event: (text_of(event.get("tid")) in numbers or
                          fits(names.get((text_of(event.get("pid")), text_of(event.get("tid"))), "")))


def _filters(path: Any, name: Optional[List[str]], category: Optional[List[str]], step: Optional[List[int]],
             device: Optional[List[str]], thread: Optional[List[str]], progress: bool) -> List[Callable[[Dict[str, Any]], bool]]:
    """The tests that an event must pass. Steps and names of threads need a first pass over the trace. None: no test; an empty list matches nothing."""
    if [] in (name, category, step, device, thread):
        return [lambda event: False]
    tests: List[Callable[[Dict[str, Any]], bool]] = []
    if step or _by_name(thread or []):
        keep_out_pipes(path, "--step and --thread NAME")
    if name:
        fits = _names(name)
        tests.append(lambda event: fits(event.get("name")))
    if category:
        categories = set(category)
        tests.append(lambda event: text_of(event.get("cat")) in categories)
    if device:
        devices = {one.lower() for one in device}
        for one in devices:
            if not re.fullmatch(r"cpu|cuda(:\d+)?", one):
                raise Problem(f"--device {one!r}: take cpu, cuda or cuda:N")

        def on_device(event: Dict[str, Any]) -> bool:
            found = _device_pid(event)
            return "cpu" in devices if found is None else "cuda" in devices or f"cuda:{found}" in devices
        tests.append(on_device)
    if thread:
        tests.append(_threads(path, thread, progress))
    if step:
        with open_trace(path, progress) as trace:
            trace.past_large = True
            steps = _Steps(trace.of_one_rank(), step)
            trace.of_one_rank()  # again: the key of a merged trace may come after the events
        known = {number for _, _, number in steps.found}
        if not known & steps.wanted:
            held = f"it holds {', '.join(map(str, sorted(known)[:20]))}" if known else "it holds none"
            raise Problem(f"no step {', '.join(map(str, step))}: {held}", path)
        tests.append(steps.takes)
    return tests


def _several(given: Any) -> Optional[List[Any]]:
    """One value or several as a list; None stays None."""
    return None if given is None else [given] if isinstance(given, str) or not hasattr(given, "__iter__") else list(given)


def _step(given: Any) -> int:
    """A step's number, as int() reads it: "3" and numpy's 3 are 3."""
    number = int_or_none(given)
    if number is None:
        raise Problem(f"step {given!r}: take a number")
    return number


def events(path: Any, name: Any = None, category: Any = None, step: Any = None, device: Any = None,
           thread: Any = None) -> Iterator[Dict[str, Any]]:
    """See cprof.events."""
    threads, steps = _several(thread), _several(step)
    tests = _filters(path, _several(name), _several(category), None if steps is None else [_step(one) for one in steps], _several(device),
                     None if threads is None else [str(one) for one in threads], False)
    with open_trace(path) as trace:
        trace.past_large = True
        yield from (event for event in trace if all(test(event) for test in tests))


def run(args: argparse.Namespace) -> int:
    trace_path = trace_of(args.traces)
    tests = _filters(trace_path, args.name, args.category, args.step, args.device, args.thread, True)
    found = False
    with open_trace(trace_path, not on_terminal()) as trace:
        trace.past_large = True
        for event in trace:
            if all(test(event) for test in tests):
                found = True
                json_line(event)
    for line in trace.remarks():
        note(line, trace_path)
    if tests and not found:
        note("no event matches", trace_path)
    return 0
