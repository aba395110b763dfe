# SPDX-License-Identifier: Apache-2.0
"""Stacks for FlameGraph and speedscope: torch.profiler's export_stacks(), from a trace.

Writes a line for each span that has a stack: its frames, outermost first, and its self time in whole microseconds. If an operator
has a stack of its own, its time counts where it was called; in a trace of torch.profiler (with_stack=True) the Python functions
are spans themselves. The innermost frames, in which PyTorch calls the profiler, are left out, since a flame graph would show all
time in them.

    cprof stacks -o stacks.html
    cprof stacks rank0.5.pt.trace.json -o out.stacks && flamegraph.pl out.stacks > out.svg

An output name that ends in .html makes a flame graph: one page of at most 1 MB that needs no network. In it each stack ends
with its operator or call.
"""

import argparse
import contextlib
import itertools
import os
import re
from typing import Any, Callable, Iterator, List, Tuple

from cprof.tool import Problem, note
from cprof.tool.averages import NO_STACKS
from cprof.tool.flame_page import flames_of, page
from cprof.tool.given import add_traces, trace_of
from cprof.tool.output import end_tidily, keep_apart, replacing
from cprof.tool.reader import open_trace
from cprof.tool.screen import data
from cprof.tool.span_stacks import StackFinder
from cprof.tool.span_tree import walk
from cprof.tool.span_reader import Wanted, read_spans
from cprof.tool.spans import Spans

HELP = "write stacks with their times: a flame graph, or lines for FlameGraph and speedscope (torch.profiler's export_stacks)"
METRICS = ("self_cpu_time_total", "self_cuda_time_total")
_RECORDING = re.compile(r"(.*\(\d+\): )?(at::RecordFunction::|c10::Dispatcher::runRecordFunction)", re.S)
_CLEAN = str.maketrans(dict.fromkeys(" ;\t\n\r\v\f\x85\u2028\u2029", "_"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_traces(parser, one=True)
    parser.add_argument("-o", "--output", metavar="FILE", help="NAME.html: a flame graph; default: lines on stdout")
    parser.add_argument("--metric", choices=METRICS, default=METRICS[0], help="the time of each line: on the CPU (default) or on the GPU")


def _shown(stack: List[str]) -> List[str]:
    """Outermost frame first."""
    return (list(itertools.dropwhile(_RECORDING.match, stack)) or stack)[::-1]


def _line_of(stack: List[str]) -> str:
    return ";".join(frame.translate(_CLEAN) for frame in _shown(stack))


def _stacks(spans: Spans, metric: str, show: Callable[[List[str]], Any]) -> Iterator[Tuple[Any, str, int]]:
    """For each span with a stack: the converted stack, the span's name, and its time in nanoseconds."""
    finder = StackFinder(spans, 1, show)
    for place, row in spans.rows.items():
        for node in walk(spans, row, True):
            finder.add(place, row, node, node.end - row.start[node.index] - node.child_time if metric == METRICS[0] else node.own_device)
    for found, stack in finder.stacks():
        if stack:
            yield stack, spans.kinds[found.kind].name, found.values[0]


def lines(spans: Spans, metric: str) -> Iterator[str]:
    """The lines of export_stacks(), in its order."""
    for line, _, time in _stacks(spans, metric, _line_of):
        if time >= 1000:
            yield f"{line} {time // 1000}"


def run(args: argparse.Namespace) -> int:
    end_tidily()
    trace_path = trace_of(args.traces)
    keep_apart(args.output or "", [trace_path])
    with open_trace(trace_path, True) as trace:
        spans = read_spans(trace, Wanted(stacks=True, flops=False))
    for line in trace.remarks():
        note(line, trace_path)
    if not spans.has_stacks:
        raise Problem(NO_STACKS, trace_path)
    if args.metric == METRICS[1] and not spans.has_work:
        raise Problem("holds nothing that ran on a GPU: take --metric self_cpu_time_total", trace_path)
    if (args.output or "").endswith(".html"):
        text = page(os.path.basename(trace_path), args.metric, flames_of(_stacks(spans, args.metric, _shown)))
        with replacing(args.output) as file:
            file.write(text)
        return 0
    to_file = args.output and args.output != "-"
    with replacing(args.output) if to_file else contextlib.nullcontext() as file:
        write = file.write if file else data
        for line in lines(spans, args.metric):
            write(line + "\n")
    return 0
