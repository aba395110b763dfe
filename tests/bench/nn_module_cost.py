# SPDX-License-Identifier: Apache-2.0
"""What a call of an nn.Module costs: the best of many short loops. The first argument says what is measured: bare (without the library);
hooks (the same with empty Python hooks on all modules, as one would write them by hand); recording; windows CORE: one of two processes, under the
library or not, that scripts/bench lets measure in turn. It answers `measure` by the ns of a call, `window` when a window that records modules, if
there is a library, has passed. The others print `name value unit` lines for scripts/bench."""

import ctypes
import os
import sys
import time

step = getattr(ctypes.CDLL(None), "cprof_step", None)
if sys.argv[1] == "windows" and step:
    step()  # step 0, which may be kept, ends before there is anything to hook

import torch
from torch.nn.modules import module as modules

kind = sys.argv[1]
clock = time.perf_counter_ns


class Nothing(torch.nn.Module):
    def forward(self, x):
        return x


def best(call, loops, calls):
    """Nanoseconds of one call, the least of `loops` loops; the pause lets the cprof thread empty the ring."""
    values, least = torch.zeros(4), float("inf")
    for _ in range(loops):
        begin = clock()
        for _ in range(calls):
            call(values)
        least = min(least, clock() - begin)
        time.sleep(0.002)
    return least / calls


def hooked(wanted):
    """Waits until the library has hooked modules, or taken its hooks out, which the main thread does when it runs Python."""
    for _ in range(1000):
        torch.relu_(torch.zeros(1))
        time.sleep(0.005)
        if bool(modules._global_forward_hooks) == wanted:
            return
    sys.exit("modules are not hooked as they should be")


def window():
    if step:
        hooked(False)
        step()
        hooked(True)
        best(nothing, 5, 500)
        step()
        hooked(False)
    best(nothing, 5, 500)
    time.sleep(0.5)  # the trace is written beside the program


def least_call():
    """Nanoseconds of one call in CPU time of the thread."""
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
