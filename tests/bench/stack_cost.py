# SPDX-License-Identifier: Apache-2.0
"""Nanoseconds of one mark from Python at a given depth: `stack_cost.py DEPTH`, best of many rounds. What stacks cost is the difference
between two runs. Under cprof the loop is its recording; the ring is given time to empty between rounds."""

import ctypes
import sys
import time

mark = getattr(ctypes.PyDLL(None), "cprof_mark", lambda _: None)


def rounds():
    best = 1e18
    for _ in range(60):
        before = time.perf_counter_ns()
        for _ in range(2000):
            mark(b"m")
        best = min(best, (time.perf_counter_ns() - before) / 2000)
        time.sleep(0.02)
    return best


def deeper(n):
    return rounds() if n <= 0 else deeper(n - 1)


mark(b"wake")
print("mark", f"{deeper(int(sys.argv[1]) - 3):.1f}", "ns")
