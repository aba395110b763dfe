# SPDX-License-Identifier: Apache-2.0
"""What a call of an nn.Module costs, and an operator inside one: the best of many short loops. The first argument says what is measured:
bare (without the library), idle (under it, between windows), recording; hooks: bare, with empty Python hooks on all modules, as
one would write them by hand. Prints `name value unit` lines for scripts/bench.py."""

import ctypes
import sys
import time

import torch
from torch.nn.modules import module as modules

kind = sys.argv[1]
clock = time.perf_counter_ns


class Nothing(torch.nn.Module):
    def forward(self, x):
        return x


class Relu(torch.nn.Module):
    def forward(self, x):
        for _ in range(200):
            torch.relu_(x)
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


torch.set_num_threads(1)
nothing, relu = Nothing(), Relu()
best(nothing, 5, 500)
if kind == "hooks":
    modules.register_module_forward_pre_hook(lambda module, inputs: None)
    modules.register_module_forward_hook(lambda module, inputs, output: None, always_call=True)
if kind in ("idle", "recording"):
    ctypes.CDLL(None).cprof_step()
    torch.relu_(torch.zeros(1))
    time.sleep(0.05)
    assert bool(modules._global_forward_hooks) == (kind == "recording")
print(f"call_{kind} {best(nothing, 100, 500):.1f} ns")
print(f"operator_{kind} {best(relu, 60, 5) / 200:.1f} ns")
