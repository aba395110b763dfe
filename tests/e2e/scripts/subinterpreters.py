# SPDX-License-Identifier: Apache-2.0
"""Interpreters within one process, on each version of CPython that has them."""

import sys


def make_subinterpreter():
    """The module that runs code in it, and a new one that shares the GIL: ctypes loads in no other."""
    try:
        import _xxsubinterpreters as interpreters
    except ImportError:
        import _interpreters as interpreters
    if sys.version_info >= (3, 13):
        other = interpreters.create("legacy")
    elif sys.version_info >= (3, 12):
        other = interpreters.create(isolated=False)
    else:
        other = interpreters.create()
    return interpreters, other
