# SPDX-License-Identifier: Apache-2.0
"""Creates a subinterpreter, on each version of CPython that has them."""

import sys


def make_subinterpreter():
    """Returns the module that runs code in subinterpreters, and a new one. It shares the GIL, because ctypes does not load in others."""
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
