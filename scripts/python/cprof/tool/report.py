# SPDX-License-Identifier: Apache-2.0
"""Writes a page about a run: what ran, how long the steps took, the breakdown of a step, findings, the longest operators and
kernels, memory, ranks and FLOPs.

    cprof run --run-name mine --with-stack --no-native-stack --with-modules --active 8 -- python train.py
    cprof report mine -o report.html

The page is one file of at most 1 MB, needs no network, and can be printed. Its numbers are those of `cprof explain --json`,
`cprof memory --json` and `cprof ranks --json`. The page marks lists that are cut; these commands print them whole. A folder of summaries
without their traces gives a page with what stands out, the parts of a step, the ranks, and the longest operators and kernels of all."""

import argparse
from typing import Any, Dict, List, NamedTuple

from cprof.tool import BAD_INPUT, Problem, note
from cprof.tool.averages import Average, Averages
from cprof.tool.collectives import rank_of
from cprof.tool.explain import explained
from cprof.tool.given import add_traces, traces_of
from cprof.tool.memory_holders import Account
from cprof.tool.memory_use import Timeline
from cprof.tool.moments import Trace
from cprof.tool.operators import Operators
from cprof.tool.output import end_tidily, keep_apart, replacing
from cprof.tool.ranks import compared
from cprof.tool.report_page import page, summaries_page
from cprof.tool.summary_findings import all_summaries, told

HELP = "write a page about a run: findings, steps, operators, memory, ranks, FLOPs (one HTML file)"
CHARTS = 2  # charts of memory, for the devices with the highest peaks


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_traces(parser)
    parser.add_argument("-o", "--output", metavar="FILE", required=True, help="the page, such as report.html")


class Memory(NamedTuple):
    """The memory of a device in one trace."""
    rank: int
    path: str
    account: Account
    steps: List[Any]      # start, end and name
    line: Any             # the Timeline; None where it is not drawn


class Kept:
    """Data of the traces for the page beyond the summary, taken from each trace while it is in memory."""

    def __init__(self, paths: List[str]) -> None:
        self._order = {path: order for order, path in enumerate(paths)}
        self.operators = Operators()
        self.heads: Dict[str, Dict[str, Any]] = {}  # metadata by path
        self.ranks: Dict[str, int] = {}
        self.memory: List[Memory] = []              # the highest peak first

    def take(self, trace: Trace) -> None:
        """Adds a trace."""
        rank = rank_of(trace.metadata, trace.path, self._order[trace.path])
        self.operators.add(trace)
        self.heads[trace.path], self.ranks[trace.path] = trace.metadata, rank
        lines: List[Timeline] = trace.lines
        self.memory += [Memory(rank, trace.path, account, trace.spans.steps, line) for account, line in zip(trace.memory, lines)]
        self.memory.sort(key=lambda one: (-one.account.peak, one.rank, one.path))
        self.memory[CHARTS:] = [one._replace(line=None) for one in self.memory[CHARTS:]]


def _of_summaries(paths: List[str]) -> str:
    """The page for summaries alone. Raises a Problem."""
    averages, found, lacking = Averages(), None, 0
    try:
        found = told(paths)
    except Problem as problem:
        note(problem)
    ranks = found.ranks if found else compared(paths)
    for path in paths:
        try:
            averages.add(path)
        except Problem:
            lacking += 1
    return summaries_page(paths, found, ranks, list(averages), lacking)


def run(args: argparse.Namespace) -> int:
    """`cprof report`"""
    end_tidily()
    paths = traces_of(args.traces, summaries=True)
    keep_apart(args.output, paths)
    if all_summaries(paths):
        text, problems = _of_summaries(paths), []
    else:
        kept = Kept(paths)
        summary = explained(paths, keep=kept.take)
        problems = summary.problems
        text = page(summary, kept.heads, kept.ranks, kept.operators, kept.memory)
    for problem in problems:
        note(problem)
    with replacing(args.output) as file:
        file.write(text)
    return BAD_INPUT if problems else 0
