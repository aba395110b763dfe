# SPDX-License-Identifier: Apache-2.0
"""The cost of a call of an nn.Module, the best of many short loops. The first argument: bare (without the library); hooks (without it, with empty
Python hooks on all modules, as a user would write them); recording; windows CORE. `windows` is one of two processes, with the library or without,
that scripts/bench lets measure in turn. Its answer to `measure` is the ns of a call; it answers `window` the same way after a window that records
modules, if there is a library. The other kinds print `name value unit` lines for scripts/bench."""

import ctypes
import os
import sys
import time

step = getattr(ctypes.CDLL(None), "cprof_step", None)
if sys.argv[1] == "windows" and step:
    step()  # ends step 0, which cprof may record, before there are modules to hook

import torch
from torch.nn.modules import module as modules

kind = sys.argv[1]
clock = time.perf_counter_ns


class Nothing(torch.nn.Module):
    def forward(self, x):
        return x


def best(call, loops, calls):
    """Nanoseconds of one call, the least of `loops` loops. The pause lets the cprof thread empty the ring."""
    values, least = torch.zeros(4), float("inf")
    for _ in range(loops):
        begin = clock()
        for _ in range(calls):
            call(values)
        least = min(least, clock() - begin)
        time.sleep(0.002)
    return least / calls


def hooked(wanted):
    """Waits until the library has set or removed its hooks, which the main thread does when it runs Python."""
    for _ in range(1000):
        torch.relu_(torch.zeros(1))
        time.sleep(0.005)
        if bool(modules._global_forward_hooks) == wanted:
            return
    sys.exit(f"the library did not {'set' if wanted else 'remove'} its hooks on modules")


def window():
    if step:
        hooked(False)
        step()
        hooked(True)
        best(nothing, 5, 500)
        step()
        hooked(False)
    best(nothing, 5, 500)
    time.sleep(0.5)  # time to write the trace


def least_call():
    """Nanoseconds of CPU time of the thread for one call."""
    values, least = torch.zeros(4), float("inf")
    for _ in range(12):
        begin = time.thread_time_ns()
        for _ in range(500):
            nothing(values)
        least = min(least, time.thread_time_ns() - begin)
    return least / 500


def serve(core):
    os.sched_setaffinity(0, {core})
    least_call()
    print("ready", flush=True)
    for line in sys.stdin:
        if line == "window\n":
            window()
        print(least_call(), flush=True)


torch.set_num_threads(1)
nothing = Nothing()
best(nothing, 5, 500)
if kind == "windows":
    serve(int(sys.argv[2]))
else:
    if kind == "hooks":
        modules.register_module_forward_pre_hook(lambda module, inputs: None)
        modules.register_module_forward_hook(lambda module, inputs, output: None, always_call=True)
    elif kind == "recording":
        step()
        hooked(True)
    print(f"call_{kind} {best(nothing, 100, 500):.1f} ns")
