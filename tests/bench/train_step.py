# SPDX-License-Identifier: Apache-2.0
"""What recording adds to the steps of three small models on the CPU, where operators are short: the hard case. One torch thread.

Usage: train_step.py MODE STEPS FOLDER [HELPER]. Modes: none; empty (torch calls callbacks of HELPER that do nothing); cprof (preloaded; its
settings say whether it records); torch (torch.profiler with shapes, memory and FLOPs); torch-stack (and stacks). STEPS are recorded of each model,
with BEFORE steps before them, one of warmup, and AFTER steps after them. Prints one JSON object of models; times in microseconds:
  steps   of the recorded ones, but for the last
  held    how long the call took that ended the last of them, in which the profiler may save the trace
  whole   the recorded steps, that call and what it delayed, divided by STEPS
"""

import ctypes
import gc
import json
import sys
import time

import torch
from torch import nn

BEFORE, AFTER = 20, 10


def cnn():
    block = [nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()]
    layers = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), *block, nn.MaxPool2d(2), *block, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)]
    return nn.Sequential(*layers), torch.randn(8, 3, 16, 16)


def transformer():
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(4, 16, 64)


def tiny():
    return nn.Sequential(*[nn.Linear(16, 16) for _ in range(20)]), torch.randn(4, 16)


def torch_profiler(steps, stacks, trace):
    return torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_flops=True, with_stack=stacks,
        schedule=torch.profiler.schedule(wait=BEFORE, warmup=1, active=steps, repeat=1), on_trace_ready=lambda p: p.export_chrome_trace(trace))


class Mode:
    """What is called at the end of each step, and when the recorded steps begin and end."""

    def __init__(self, mode, steps, trace, helper):
        self.end_step = self.begin = self.end = lambda: None
        if mode == "cprof":
            self.end_step = ctypes.CDLL(None).cprof_step
        elif mode == "empty":
            self.begin, self.end = helper.empty_callbacks_on, helper.empty_callbacks_off
        elif mode.startswith("torch"):
            profiler = torch_profiler(steps, mode == "torch-stack", trace)
            profiler.start()
            self.end_step, self.finish = profiler.step, profiler.stop

    def finish(self):
        pass


def run(model, values, mode, steps):
    """Times of all steps, without and with their marks."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=False)
    clock, worked, ended = time.perf_counter, [], []
    for step in range(BEFORE + 1 + steps + AFTER):
        if step == BEFORE + 1:
            mode.begin()
        elif step == BEFORE + 1 + steps:
            mode.end()
        begin = clock()
        optimizer.zero_grad()
        model(values).sum().backward()
        optimizer.step()
        middle = clock()
        mode.end_step()
        end = clock()
        worked.append((middle - begin) * 1e6)
        ended.append((end - begin) * 1e6)
    return worked, ended


def summary(worked, ended, steps):
    first, last = BEFORE + 1, BEFORE + steps
    after = sorted(ended[last + 2:])
    delayed = ended[last + 1] - after[len(after) // 2]  # a step may begin with what the end has left to do
    return {"steps": ended[first:last], "held": ended[last] - worked[last], "whole": (sum(ended[first:last + 1]) + delayed) / steps}


def main():
    kind, steps, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    helper = ctypes.CDLL(sys.argv[4]) if kind == "empty" else None
    torch.manual_seed(0)
    torch.set_num_threads(1)
    result = {}
    for make in cnn, transformer, tiny:
        model, values = make()
        mode = Mode(kind, steps, f"{folder}/torch-{make.__name__}.json", helper)
        result[make.__name__] = summary(*run(model, values, mode, steps), steps)
        mode.finish()
        del mode
        gc.collect()
        time.sleep(0.5)  # the trace is written beside the program: the next model begins in peace
    print(json.dumps(result))


main()
