# SPDX-License-Identifier: Apache-2.0
"""TorchScript functions that wait for a future: each continues and ends on a thread of torch's pool. Prints the calls' durations in us.

Usage: jit_wait.py CALLS STEPS, with CALLS calls in each step."""

import json
import sys
import time

import torch
from torch.profiler import record_function

calls, steps = map(int, sys.argv[1:])


@torch.jit.script
def slow(x):
    for _ in range(3):
        x = torch.mm(x, x) * 0.001
    return x


@torch.jit.script
def waits(x):
    future = torch.jit.fork(slow, x)
    y = x.sin()
    return torch.jit.wait(future) + y


weight = torch.nn.Parameter(torch.zeros(1))
weight.grad = torch.zeros(1)
optimizer = torch.optim.SGD([weight], lr=0.0)
x = torch.randn(64, 64)
took = []
for _ in range(steps):
    for _ in range(calls):
        began = time.perf_counter_ns()
        with record_function("around"):
            waits(x)
        took.append((time.perf_counter_ns() - began) / 1e3)
        with record_function("after"):
            time.sleep(0.0002)
    optimizer.step()
print(json.dumps(took))
