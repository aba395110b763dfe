# SPDX-License-Identifier: Apache-2.0
"""The cost of a torch operator in ns: the best of many short loops, so that other jobs on the machine do not count.

Usage: operator_cost.py [record | empty HELPER INPUTS]. `record` first marks a step, which with the settings of scripts/bench starts the
recording. With `empty`, torch calls callbacks of HELPER that do nothing. Prints the nanoseconds of one call of torch.relu_ (two operators:
aten::relu_ and the aten::clamp_min_ inside) on four floats.
"""

import ctypes
import sys
import time

import torch

torch.set_num_threads(1)
values = torch.zeros(4)
relu = torch.relu_
clock = time.perf_counter_ns


def best(loops, calls):
    """Nanoseconds of one call, the least of `loops` loops. The pause lets the cprof thread empty the ring: a dropped record costs less."""
    least = None
    for _ in range(loops):
        begin = clock()
        for _ in range(calls):
            relu(values)
        took = clock() - begin
        time.sleep(0.003)
        least = took if least is None or took < least else least
    return least / calls


best(5, 500)
if "empty" in sys.argv[1:]:
    ctypes.CDLL(sys.argv[2]).empty_callbacks_on(int(sys.argv[3]))
if "record" in sys.argv[1:]:
    ctypes.CDLL(None).cprof_step()
if {"torch", "torch-shapes", "torch-stack"} & set(sys.argv[1:]):
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                record_shapes="torch-shapes" in sys.argv[1:], with_stack="torch-stack" in sys.argv[1:]):
        print(best(60, 500))
else:
    print(best(400, 500))
