# SPDX-License-Identifier: Apache-2.0
"""A rank of a distributed run: gloo, DistributedDataParallel, a DataLoader with workers. `ranks.py fail-once FILE` ends badly after
a few steps where FILE does not exist yet, as a rank does whose launcher starts it again."""

import json
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader

STEPS = 12


def train(steps=STEPS):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    net = DistributedDataParallel(torch.nn.Linear(8, 4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    loader = DataLoader([torch.ones(8)] * (2 * steps), batch_size=2, num_workers=1)
    for batch in loader:
        optimizer.zero_grad()
        net(batch).sum().backward()
        loss = torch.ones(1)
        dist.all_reduce(loss)
        work = dist.all_reduce(loss, async_op=True)
        torch.ones(4)
        work.wait()
        optimizer.step()
    dist.destroy_process_group()


def main():
    if sys.argv[1:2] == ["fail-once"]:
        file = pathlib.Path(sys.argv[2] + os.environ["RANK"])
        if not file.exists():
            file.touch()
            train(4)
            sys.exit(3)
    train()
    print(json.dumps({"rank": int(os.environ["RANK"])}))


if __name__ == "__main__":
    main()
