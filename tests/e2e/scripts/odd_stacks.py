# SPDX-License-Identifier: Apache-2.0
"""Marks inside greenlets (`odd_stacks.py greenlet`) or subinterpreters (`odd_stacks.py subinterpreter`). The output is as in python_stacks.py."""

import json
import sys

import python_stacks
from python_stacks import mark, plain, recursive, seen, stack
from subinterpreters import make_subinterpreter

IN_THE_OTHER = """
import ctypes
mark = ctypes.PyDLL(None).cprof_mark
def inner():
    mark(b"inside")
inner()
"""


def in_greenlets():
    import greenlet

    def work(name, other):
        recursive(3, name + " before")
        greenlet.getcurrent().parent.switch()
        stack(name + " after"); mark(name + " after")
        if other:
            other.switch()
        recursive(2, name + " again")

    first = greenlet.greenlet(work)
    second = greenlet.greenlet(work)
    first.switch("first", None)
    second.switch("second", first)
    plain("between")
    second.switch()
    plain("end")


def in_subinterpreters():
    interpreters, other = make_subinterpreter()
    plain("before")
    interpreters.run_string(other, IN_THE_OTHER)
    plain("after")
    interpreters.destroy(other)
    plain("end")


if __name__ == "__main__":
    mark("wake")
    for _ in range(1000):
        plain("warm")
    {"greenlet": in_greenlets, "subinterpreter": in_subinterpreters}[sys.argv[1]]()
    print(json.dumps(seen))
