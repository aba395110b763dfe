# SPDX-License-Identifier: Apache-2.0
"""Trains the model of tiny operators of train_step.py for three steps, then for STEPS steps whose instructions callgrind counts.

Usage: step_instructions.py MODE STEPS COUNTER [HELPER]. Modes: none; empty (torch calls callbacks of HELPER that do nothing, with inputs); cprof
(preloaded; step 0 is not recorded); torch (torch.profiler with shapes, memory and FLOPs). COUNTER: a library that starts and stops callgrind's
count."""

import ctypes
import os
import sys

import torch
from torch import nn

mode, steps, counter, *helper = sys.argv[1:]
counter = ctypes.CDLL(counter)
torch.manual_seed(0)
torch.set_num_threads(1)
model, values = nn.Sequential(*[nn.Linear(16, 16) for _ in range(20)]), torch.randn(4, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=False)
end_step = ctypes.CDLL(None).cprof_step if mode == "cprof" else lambda: None
if mode == "empty":
    ctypes.CDLL(helper[0]).empty_callbacks_on(1)
if mode == "torch":
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_flops=True)
    profiler.start()


def train():
    optimizer.zero_grad()
    model(values).sum().backward()
    optimizer.step()
    end_step()


for _ in range(3):
    train()
counter.counted_begin()
for _ in range(int(steps)):
    train()
counter.counted_end()
if mode != "cprof":
    os._exit(0)  # skips torch.profiler's work at exit, which is not measured and fails under callgrind
