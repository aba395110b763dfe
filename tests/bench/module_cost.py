# SPDX-License-Identifier: Apache-2.0
"""The cost of a marker of the Python module to the thread that uses it: start() and finish(), a with block and a decorated
call, each compared with the same code without a marker. Prints `name value unit` lines for scripts/bench. The first
argument: bare (without the library), idle or recording (with the library)."""

import sys
import time

import cprof

N, ROUNDS = 2000, 60
kind = sys.argv[1]
load = cprof.marker("load")


def nothing():
    pass


decorated = load(nothing)


def pair():
    for _ in range(N):
        load.start()
        load.finish()


def block():
    for _ in range(N):
        with load:
            pass


def call():
    for _ in range(N):
        decorated()


def plain_call():
    for _ in range(N):
        nothing()


def empty():
    for _ in range(N):
        pass


def measure(function):
    """Nanoseconds of one turn of the loop, the best of ROUNDS. The pause lets the cprof thread empty the ring."""
    best = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        function()
        best = min(best, time.perf_counter_ns() - begin)
        time.sleep(0.002)
    return best / N


cprof.step()  # ends step 0, which cprof may record
assert cprof.is_recording() == (kind == "recording")
loop = measure(empty)
print(f"pair_{kind} {measure(pair) - loop:.1f} ns")
print(f"with_{kind} {measure(block) - loop:.1f} ns")
print(f"decorated_{kind} {measure(call) - measure(plain_call):.1f} ns")
