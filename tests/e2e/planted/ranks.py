# SPDX-License-Identifier: Apache-2.0
"""Training on several ranks (gloo, torchrun) with one fault, or none."""

import os
import time

import torch
import torch.distributed as dist

from cpu import LINES, Training, parse
from harness import main


class Ranks(Training):
    """All gradients are reduced after the backward pass."""
    width = 256
    clock = staticmethod(time.perf_counter)

    def __init__(self):
        dist.init_process_group("gloo")
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        super().__init__()

    def agree(self, value):
        told = torch.tensor([value], dtype=torch.float64)
        dist.broadcast(told, 0)
        return told.item()

    def reduce(self, size):
        gradients = torch.cat([parameter.grad.flatten() for parameter in self.model.parameters()])
        dist.all_reduce(gradients)

    def update(self, size):
        self.reduce(size)
        self.optimizer.step()


class LateCollective(Ranks):
    unit, limit = 1 << 20, 24 << 20

    def __init__(self):
        super().__init__()
        self.table = torch.zeros(self.limit)

    def reduce(self, size):
        super().reduce(size)
        if size:
            dist.all_reduce(self.table[:int(size)])


class SlowRankComputes(Ranks):
    """Only rank 2 has a head. size: the rows that go through it, 16 at a time."""
    unit = 64

    def __init__(self):
        super().__init__()
        self.head = torch.randn(self.width, self.width)

    def auxiliary(self, hidden, size):
        for _ in range(round(size / 16)):
            hidden[:16] @ self.head

    def forward(self, inputs, size):
        if self.rank == 2 and size:
            self.auxiliary(inputs, size)
        return self.model(inputs)


class SlowRankLoads(Ranks):
    """Rank 1 parses lines of text in the step. size: the number of lines."""
    unit = 50

    def load(self, size):
        if self.rank == 1 and size:
            parse([LINES[i % len(LINES)] for i in range(max(1, int(size)))])
        return self.inputs, self.labels


class Healthy(Ranks):
    limit = 0


PROGRAMS = {"late-collective": LateCollective, "slow-rank-computes": SlowRankComputes, "slow-rank-loads": SlowRankLoads,
            "healthy-ranks": Healthy}

if __name__ == "__main__":
    try:
        main(PROGRAMS)
    finally:
        if dist.is_initialized():
            dist.barrier()  # behind destroy_process_group() PyTorch may abort at exit, also without cprof
