# SPDX-License-Identifier: Apache-2.0
"""Ranks made by torch.multiprocessing.spawn, which pass their rank to init_process_group() and set no rank variables. With a port as
argument they meet at that port, as in PyTorch's tutorial; without, in a file."""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

RANKS = 2


def train(rank, store):
    if len(sys.argv) > 1:
        os.environ.update(MASTER_ADDR="localhost", MASTER_PORT=sys.argv[1])
        dist.init_process_group("gloo", rank=rank, world_size=RANKS)
    else:
        dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=RANKS)
    net = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(5):
        net(torch.ones(1, 2)).sum().backward()
        dist.all_reduce(net.weight.grad)
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(train, args=(f"{folder}/store",), nprocs=RANKS)
