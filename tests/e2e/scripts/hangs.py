# SPDX-License-Identifier: Apache-2.0
"""A training of several ranks with gloo that hangs in step 15 in the way that is asked for: hangs.py CASE. Each line that a rank should be found
in has a comment with the case."""

import os
import signal
import sys
import threading
import time

import torch
import torch.distributed as dist

CASE = sys.argv[1]
dist.init_process_group("gloo")
RANK, WORLD = dist.get_rank(), dist.get_world_size()
CULPRIT = WORLD - 1
model = torch.nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
lock = threading.Lock()
halves = [dist.new_group(list(range(WORLD // 2))), dist.new_group(list(range(WORLD // 2, WORLD)))] if CASE == "part" else []
pair = [dist.new_group(), dist.new_group()] if CASE == "groups" else []


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 1

    def __getitem__(self, at):
        time.sleep(1000)


def wait():
    """What the culprit does instead of going on."""
    if CASE in ("sleeps", "part"):
        time.sleep(1000)  # sleeps part
    elif CASE == "raises":
        time.sleep(0.5)
        raise ValueError("no more data")
    elif CASE == "loader":
        for _ in torch.utils.data.DataLoader(Slow(), num_workers=1):  # loader
            pass
    elif CASE == "lock":
        lock.acquire()
        lock.acquire()  # lock
    elif CASE == "stopped":
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGSTOP)
    elif CASE == "killed":
        time.sleep(0.5)
        os.kill(os.getpid(), signal.SIGKILL)
    elif CASE == "busy":
        while True:  # busy
            pass
    elif CASE == "file":
        os.mkfifo(sys.argv[2])
        os.read(os.open(sys.argv[2], os.O_RDWR), 1)  # file


def transfer(step):
    first = RANK == CULPRIT
    if step != 15 or CASE not in ("sizes", "order", "groups"):
        dist.all_reduce(model.weight.grad, group=halves[2 * RANK // WORLD] if CASE == "part" else None)
    elif CASE == "sizes":
        dist.all_reduce(torch.ones(1 << (18 if first else 10)))  # sizes
    elif CASE == "order":
        one, other = [lambda: dist.all_reduce(torch.ones(4)), lambda: dist.all_gather([torch.ones(4)] * WORLD, torch.ones(4))][::-1 if first else 1]
        one()
        other()
    else:
        for group in pair[::-1 if first else 1]:
            dist.all_reduce(torch.ones(4), group=group)  # groups


for step in range(20):
    if step == 15 and RANK == CULPRIT:
        wait()
    model(torch.ones(4, 8)).sum().backward()
    transfer(step)
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.005)
