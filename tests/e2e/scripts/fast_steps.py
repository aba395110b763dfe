# SPDX-License-Identifier: Apache-2.0
"""Very short, identical training steps. `fast_steps.py STEPS` trains; `fast_steps.py STEPS FILE` trains under
torch.profiler, which records steps 3 to 5 into FILE."""

import json
import sys
import time

import torch
from torch import nn
from torch.autograd.profiler import record_function


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    data, target = torch.randn(3, 4), torch.tensor([0, 1, 0])
    profiler = None
    if len(sys.argv) > 2:
        profiler = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True,
            schedule=torch.profiler.schedule(wait=2, warmup=1, active=3, repeat=1),
            on_trace_ready=lambda p: p.export_chrome_trace(sys.argv[2]))
        profiler.start()
    took = []
    for _ in range(int(sys.argv[1])):
        start = time.perf_counter()
        with record_function("forward pass"):
            loss = nn.functional.cross_entropy(net(data), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        took.append(time.perf_counter() - start)
        if profiler:
            profiler.step()
    if profiler:
        profiler.stop()
    print(json.dumps({"loss": loss.item().hex(), "step_ms": sorted(took)[len(took) // 2] * 1e3}))


main()
