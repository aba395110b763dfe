# SPDX-License-Identifier: Apache-2.0
"""Ends right after a TorchScript call, while the thread of torch's pool that ended the call is still returning its result. Needs libslowpool.so."""

import ctypes

import torch

torch.set_num_threads(1)
library = ctypes.PyDLL(None)  # keeps the GIL during calls


@torch.jit.script
def slow(x):
    for _ in range(3):
        x = torch.mm(x, x) * 0.001
    return x


@torch.jit.script
def waits(x):
    return torch.jit.wait(torch.jit.fork(slow, x)) + x


x = torch.randn(500, 500)
for _ in range(2):
    library.cprof_step()
    result = waits(x)
library.slow_pool(1)
result = waits(x)
del result
library.slow_pool(2)
