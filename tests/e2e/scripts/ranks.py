# SPDX-License-Identifier: Apache-2.0
"""A rank of a distributed run under torchrun: gloo, DistributedDataParallel, further collectives, a DataLoader with a
worker."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

STEPS = 9


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    net = DistributedDataParallel(torch.nn.Linear(8, 4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for batch in DataLoader([torch.ones(8)] * (2 * STEPS), batch_size=2, num_workers=1):
        optimizer.zero_grad()
        net(batch).sum().backward()
        value = torch.ones(1)
        dist.all_reduce(value)
        work = dist.all_reduce(value, async_op=True)
        torch.ones(4)
        work.wait()
        optimizer.step()
    dist.barrier()  # destroy_process_group() sometimes aborts if its threads outlive it, also without cprof


if __name__ == "__main__":
    main()
