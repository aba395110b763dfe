# SPDX-License-Identifier: Apache-2.0
"""Two ranks of gloo whose transfers overlap, and whose groups come and go. Each transfer of a group has another size."""

import os
import time

import torch
import torch.distributed as dist

import cprof

dist.init_process_group("gloo")
sizes = iter(range(2, 1 << 20))


def reduce(group=None, **more):
    return dist.all_reduce(torch.ones(next(sizes)), group=group, **more)


cprof.step()
time.sleep(0.1 * dist.get_rank())
for work in [reduce(async_op=True) for _ in range(600)]:
    work.wait()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*[torch.nn.Linear(20 + i, 21 + i) for i in range(16)]), bucket_cap_mb=0.001)
for _ in range(20):
    model(torch.ones(4, 20)).sum().backward()
for n in range(300):
    group = dist.new_group()
    for _ in range(1 + n % 2):
        reduce(group)
    dist.destroy_process_group(group)
    kept = torch.ones(100 * (n % (3 + dist.get_rank())))
    del group
if dist.get_rank():
    dist.send(torch.ones(3), 0)
else:
    dist.recv(torch.ones(3), 1)
reduce()
dist.barrier()
time.sleep(2)  # until cprof has written all
os.kill(os.getpid(), 9)
