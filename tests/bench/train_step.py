# SPDX-License-Identifier: Apache-2.0
"""The time that recording adds to the steps of three small models on the CPU. Their operators are short, which is the hard case. One torch thread, on
one core.

Usage: train_step.py MODE BEFORE STEPS FOLDER CORE [HELPER]. Modes: none; empty (torch calls callbacks of HELPER that do nothing); cprof (preloaded;
its settings decide whether it records); torch (torch.profiler with shapes, memory and FLOPs); torch-stack (also with stacks). Windows follow each
other, each with BEFORE steps, a warmup step and STEPS recorded steps.

scripts/bench lets several such processes train in turn. For each line `MODEL COUNT` on stdin, the process trains COUNT steps and prints a JSON list.
It has [wall, cpu, held, held_cpu] in ns for each step: its wall time, its CPU time on this thread, and the wall and CPU time of its mark. A
profiler may save its trace in the mark. The process ends at the end of stdin."""

import ctypes
import gc
import json
import os
import sys
import time

import torch
from torch import nn


def cnn():
    block = [nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()]
    layers = [nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), *block, nn.MaxPool2d(2), *block, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)]
    return nn.Sequential(*layers), torch.randn(8, 3, 16, 16)


def transformer():
    layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.1, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(4, 16, 64)


def tiny():
    return nn.Sequential(*[nn.Linear(16, 16) for _ in range(20)]), torch.randn(4, 16)


def trainer(model, values):
    """A function that trains one step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=False)

    def train():
        optimizer.zero_grad()
        model(values).sum().backward()
        optimizer.step()

    return train


class Mode:
    """The functions of a mode: end_step() ends a step, finish() ends the run."""

    def __init__(self, mode, before, steps, folder, helper):
        self.end_step = self.finish = lambda: None
        if mode == "cprof":
            self.end_step = ctypes.CDLL(None).cprof_step
        elif mode == "empty":
            self.end_step = empty_windows(ctypes.CDLL(helper), before, steps)
        elif mode.startswith("torch"):
            profiler = torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_flops=True,
                with_stack=mode == "torch-stack", schedule=torch.profiler.schedule(wait=before, warmup=1, active=steps),
                on_trace_ready=lambda p: p.export_chrome_trace(f"{folder}/torch-{p.step_num}.json"))
            profiler.start()
            self.end_step, self.finish = profiler.step, profiler.stop


def empty_windows(helper, before, steps):
    """Sets the empty callbacks in torch while steps are recorded, as a profiler does."""
    done = 0

    def end_step():
        nonlocal done
        done += 1
        place = done % (before + 1 + steps)
        if place == before + 1:
            helper.empty_callbacks_on(1)
        elif place == 0:
            helper.empty_callbacks_off()

    return end_step


def run(train, end_step, count):
    clock, cpu = time.perf_counter_ns, time.thread_time_ns
    times = []
    for _ in range(count):
        begin_cpu, begin = cpu(), clock()
        train()
        middle, middle_cpu = clock(), cpu()
        end_step()
        end, end_cpu = clock(), cpu()
        times.append((end - begin, end_cpu - begin_cpu, end - middle, end_cpu - middle_cpu))
    return times


def main():
    kind, before, steps, folder, core, *helper = sys.argv[1:]
    os.sched_setaffinity(0, {int(core)})  # pins this thread only: a profiler's threads may run elsewhere
    torch.manual_seed(0)
    torch.set_num_threads(1)
    models = {make.__name__: trainer(*make()) for make in (cnn, transformer, tiny)}
    mode = Mode(kind, int(before), int(steps), folder, *helper or [None])
    gc.freeze()  # keeps imported objects out of collections in the middle of a step
    print("ready", flush=True)
    for line in sys.stdin:
        model, count = line.split()
        print(json.dumps(run(models[model], mode.end_step, int(count))), flush=True)
    mode.finish()


main()
