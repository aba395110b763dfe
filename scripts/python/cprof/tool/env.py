# SPDX-License-Identifier: Apache-2.0
"""Prints the environment that switches the profiler on, for launchers that start the program themselves.

    eval "$(cprof env --active 3 --record-shapes)"
    srun python train.py

The lines are for sh. They append the library to the LD_PRELOAD of the shell that runs them. If LD_PRELOAD names a copy of the
library now, this library replaces it."""

import argparse
import os
import shlex

from cprof.tool import library, settings
from cprof.tool.screen import data

HELP = "print the environment that switches the profiler on"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The settings, and the path of the library."""
    parser.usage = "cprof env [options]"
    parser.add_argument("--library", metavar="PATH", help="libcprof.so, or its folder (default: as for cprof run)")
    settings.add_options(parser)


def run(args: argparse.Namespace) -> int:
    """`cprof env`"""
    told, path = settings.chosen(args), library.find(args.library)
    library.check_name(path)
    for name, value in told.items():
        data(f"export {name}={shlex.quote(value)}\n")
    library.tell_other_copies(path, os.environ)
    if library.is_named(os.environ):
        data(f"export LD_PRELOAD={shlex.quote(library.preload_value(path, os.environ))}\n")
    else:
        data('export LD_PRELOAD="${LD_PRELOAD:+$LD_PRELOAD:}"' + shlex.quote(path) + "\n")
    return 0
