# SPDX-License-Identifier: Apache-2.0
"""range_cost.py KIND: nanoseconds of a `with` block that names a range in Python, without the loop, the best of many. KIND: bare
(torch's record_function without a profiler), torch (with torch.profiler), cprof (with the recording library), marker (a marker of
the module cprof, with the recording library)."""

import sys
import time

import cprof
import torch

N, ROUNDS = 100, 400  # short loops, so that other jobs on the machine do not count
kind = sys.argv[1]
marker = cprof.marker("range")
record_function = torch.profiler.record_function


def ranges():
    for _ in range(N):
        with record_function("range"):
            pass


def markers():
    for _ in range(N):
        with marker:
            pass


def empty():
    for _ in range(N):
        pass


def best(function):
    least = float("inf")
    for _ in range(ROUNDS):
        begin = time.perf_counter_ns()
        function()
        least = min(least, time.perf_counter_ns() - begin)
        time.sleep(0.002)  # lets the cprof thread empty the ring
    return least / N


torch.set_num_threads(1)
torch.relu_(torch.zeros(1))
cprof.step()
assert cprof.is_recording() == (kind in ("cprof", "marker"))
measured = markers if kind == "marker" else ranges
measured()
if kind == "torch":
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        took = best(measured)
else:
    took = best(measured)
print(f"range {took - best(empty):.1f} ns")
