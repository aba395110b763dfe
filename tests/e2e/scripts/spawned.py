# SPDX-License-Identifier: Apache-2.0
"""Ranks made by torch.multiprocessing.spawn, which set the rank variables only in their own environment."""

import os

import torch
import torch.multiprocessing as mp

RANKS = 2


def train(rank, start):
    net = torch.nn.Linear(2, 2)  # the first tensors come before the rank is known
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE=str(RANKS))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(6):
        net(start).sum().backward()
        optimizer.step()


if __name__ == "__main__":
    mp.spawn(train, args=(torch.ones(1, 2).share_memory_(),), nprocs=RANKS)
