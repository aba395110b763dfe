# SPDX-License-Identifier: Apache-2.0
"""A rank of a small training whose trace has every kind of event: operators, shapes, memory, steps, arrows, transfers, and kernels if
GPU_LIBRARY names the library of tests/gpu/libgpu.c for the simulated GPU."""

import ctypes
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    gpu = ctypes.CDLL(os.environ["GPU_LIBRARY"]) if "GPU_LIBRARY" in os.environ else None
    library = torch.library.Library("simulated", "DEF")
    library.define("launch(Tensor x) -> Tensor")

    def launch(x):
        if gpu:
            gpu.gpu_work_13(2)
        return x.clone()

    library.impl("launch", launch, "CompositeExplicitAutograd")
    net = DistributedDataParallel(nn.Sequential(*[layer for _ in range(6) for layer in (nn.Linear(32, 32), nn.ReLU())], nn.Linear(32, 8)))
    optimizer = torch.optim.Adam(net.parameters())
    for _ in range(14):
        optimizer.zero_grad()
        with torch.profiler.record_function("forward"):
            loss = nn.functional.cross_entropy(net(torch.randn(16, 32)), torch.randint(8, (16,)))
        loss.backward()
        for _ in range(10):
            torch.ops.simulated.launch(loss.detach())
        optimizer.step()
    dist.barrier()


if __name__ == "__main__":
    main()
