# SPDX-License-Identifier: Apache-2.0
"""What recording adds to a training step of a small MLP (many short operators: the hard case), with the same information
recorded by nobody, by cprof (preloaded) or by torch.profiler: shapes and memory, STEPS active steps, a saved trace.

Usage: train_step.py none|cprof|torch STEPS FOLDER. Prints one JSON object; times in microseconds:
  step   median time of an active step
  whole  time from the first active step until training can go on after the last, divided by STEPS: with the window's end
  idle   median time of a step before the window
"""

import json
import sys
import time

import torch
from torch import nn

WAIT = 30


def main():
    mode, steps, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(*[nn.Linear(16, 16) for _ in range(20)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=False)
    values = torch.randn(4, 16)
    profiler = None
    if mode == "torch":
        profiler = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True,
            schedule=torch.profiler.schedule(wait=WAIT, warmup=1, active=steps, repeat=1),
            on_trace_ready=lambda p: p.export_chrome_trace(f"{folder}/torch.json"))
        profiler.start()

    times = []
    for step in range(WAIT + 1 + steps + 5):
        begin = time.perf_counter()
        optimizer.zero_grad()
        model(values).sum().backward()
        optimizer.step()
        if profiler:
            profiler.step()
        times.append((time.perf_counter() - begin) * 1e6)
    if profiler:
        profiler.stop()

    def median(some):
        return sorted(some)[len(some) // 2]

    active = times[WAIT + 1:WAIT + 1 + steps]
    # The step after the last active one belongs to the window's end as well: it may start with a stall.
    print(json.dumps({"idle": median(times[10:WAIT]), "step": median(active),
                      "whole": (sum(active) + times[WAIT + 1 + steps] - median(times[10:WAIT])) / steps}))


main()
