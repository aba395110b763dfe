# SPDX-License-Identifier: Apache-2.0
"""Finds the library's functions in this process, and declares their structures.

Where ctypes does not load, as in subinterpreters of Python 3.12, every call does nothing.
"""

from __future__ import annotations

from typing import Any, Callable, Optional

try:
    import ctypes
except ImportError:
    ctypes = None  # type: ignore[assignment]


def _library() -> Optional[ctypes.PyDLL]:
    """The functions of the process, if cprof's are among them. Their calls keep the GIL: they are short, and releasing the
    GIL would cost more than the calls."""
    try:
        library = ctypes.PyDLL(None)
        library.cprof_version
    except (AttributeError, OSError, TypeError):
        return None
    return library


lib = _library()


def in_subinterpreter() -> bool:
    """Whether this is not the process's first interpreter. Callbacks are impossible there: other interpreters outlive it,
    and C code finds only the first. Call it only where there is a library."""
    try:
        first, current = ctypes.pythonapi["PyInterpreterState_Main"], ctypes.pythonapi["PyInterpreterState_Get"]
    except AttributeError:  # not CPython, or 3.8
        return False
    first.restype = current.restype = ctypes.c_void_p
    return bool(first() != current())


def function(name: str, result: Optional[str], arguments: Optional[str], otherwise: Any = None) -> Callable:
    """cprof_<name>, or without the library a function that returns `otherwise`, as in cprof.h. result, arguments: names of
    ctypes' types. arguments=None passes arguments as they are."""
    try:
        found = lib["cprof_" + name]  # type: ignore[index]  # a new object each time, so the types set here are its own
    except (AttributeError, TypeError):
        return lambda *args: otherwise
    found.restype = result and getattr(ctypes, result)
    found.argtypes = None if arguments is None else [getattr(ctypes, one) for one in arguments.split()]
    return found


if ctypes is not None:
    class Options(ctypes.Structure):
        """struct cprof_marker_options"""
        _fields_ = [("size", ctypes.c_size_t), ("actions", ctypes.c_uint), ("on_start", ctypes.c_int),
                    ("on_finish", ctypes.c_int), ("categories", ctypes.POINTER(ctypes.c_char_p)),
                    ("n_categories", ctypes.c_size_t)]

    class Time(ctypes.Structure):
        """struct cprof_time"""
        _fields_ = [("size", ctypes.c_size_t)] + [(name, ctypes.c_int64) for name in (
            "step", "epoch", "batch", "batch_in_epoch", "sample", "sample_in_epoch", "token", "token_in_epoch")] + [
            (name, ctypes.c_double) for name in ("total_wct", "epoch_wct", "batch_wct")]

    Choose = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.POINTER(Time), ctypes.c_void_p)
