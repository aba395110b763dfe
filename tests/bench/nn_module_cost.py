# SPDX-License-Identifier: Apache-2.0
"""What a call of an nn.Module costs: the best of many short loops. The first argument says what is measured: bare (without the library);
hooks (the same with empty Python hooks on all modules, as one would write them by hand); recording; windows (under the library: before
the first window, in which nothing has been hooked yet, and behind it, when all hooks have gone. In one process, because two of them differ
by more than what is looked for). Prints `name value unit` lines for scripts/bench."""

import ctypes
import sys
import time

step = getattr(ctypes.CDLL(None), "cprof_step", None)
if sys.argv[1] == "windows":
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


def windows():
    hooked(False)
    print(f"call_before {best(nothing, 400, 250):.1f} ns")
    step()
    hooked(True)
    best(nothing, 5, 500)
    step()
    hooked(False)
    best(nothing, 5, 500)
    print(f"call_after {best(nothing, 400, 250):.1f} ns")


torch.set_num_threads(1)
nothing = Nothing()
best(nothing, 5, 500)
if kind == "windows":
    windows()
else:
    if kind == "hooks":
        modules.register_module_forward_pre_hook(lambda module, inputs: None)
        modules.register_module_forward_hook(lambda module, inputs, output: None, always_call=True)
    elif kind == "recording":
        step()
        hooked(True)
    print(f"call_{kind} {best(nothing, 100, 500):.1f} ns")
