# SPDX-License-Identifier: Apache-2.0
"""Prints what to put into the environment of a program, for launchers that start it themselves.

    eval "$(cprof env --active 3 --record-shapes)"
    srun python train.py

The lines are for sh; the library is appended to an LD_PRELOAD that is there when they are run."""

import argparse
import shlex

from cprof.tool import library, settings
from cprof.tool.screen import data

HELP = "print the environment that switches the profiler on"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The settings, and where the library is."""
    parser.usage = "cprof env [options]"
    parser.add_argument("--library", metavar="PATH", help="libcprof.so, or its folder (default: as for cprof run)")
    settings.add_options(parser)


def run(args: argparse.Namespace) -> int:
    """`cprof env`"""
    told, path = settings.chosen(args), library.find(args.library)
    library.check_name(path)
    for name, value in told.items():
        data(f"export {name}={shlex.quote(value)}\n")
    data('export LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}"' + shlex.quote(path) + "\n")
    return 0
