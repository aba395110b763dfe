# SPDX-License-Identifier: Apache-2.0
"""stack_cost.py DEPTH: nanoseconds of a mark from Python at a depth of the stack, the best of many rounds. The cost of stacks is the
difference between two runs. The pause between rounds lets the cprof thread empty the ring."""

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
