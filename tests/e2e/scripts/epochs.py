# SPDX-License-Identifier: Apache-2.0
"""Training in epochs over a DataLoader, with the kinds of loops that cprof must distinguish: `epochs.py LOOP...`. The last
line is the number of steps of each epoch. The script makes no call of cprof."""

import json
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.Linear(8, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
epochs = []


def train(batch):
    optimizer.zero_grad()
    net(batch).square().mean().backward()
    optimizer.step()
    epochs[-1] += 1


def validate(loader):
    with torch.no_grad():
        for batch in loader:
            net(batch)


def plain(**options):
    """Five training batches, then a validation loop over a loader of the same kind."""
    loader, other = (DataLoader([torch.ones(8)] * n, batch_size=2, **options) for n in (10, 4))
    for _ in range(3):
        epochs.append(0)
        for batch in loader:
            train(batch)
        validate(other)


def workers():
    plain(num_workers=1, persistent_workers=True)


def accumulated():
    """One step for two of five batches. Validation runs in the middle of the epoch, between two fetches and a step."""
    loader, other = DataLoader([torch.ones(8)] * 5), DataLoader([torch.ones(8)] * 3)
    for _ in range(3):
        epochs.append(0)
        for i, batch in enumerate(loader):
            if i == 3:
                validate(other)
            if i % 2:
                train(batch)


def ahead():
    """Fetches each batch before it trains with the one before, as prefetchers do."""
    loader, other = DataLoader([torch.ones(8)] * 5), DataLoader([torch.ones(8)] * 3)
    for _ in range(3):
        epochs.append(0)
        batches = iter(loader)
        batch = next(batches)
        while batch is not None:
            following = next(batches, None)
            train(batch)
            batch = following
        validate(other)


# Imitates Accelerate's wrapper of a loader, which cprof recognises by the path of its code.
SHARD = """
class Shard:
    def __init__(self, loader):
        self.loader = loader
    def __iter__(self):
        batches = iter(self.loader)
        batch = next(batches)
        while True:
            try:
                following = next(batches)
            except StopIteration:
                yield batch
                return
            yield batch
            batch = following
"""


def accelerate():
    """One step for two batches, and one for the last batch."""
    exec(compile(SHARD, "/site-packages/accelerate/data_loader.py", "exec"), globals())
    loader = Shard(DataLoader([torch.ones(8)] * 5))
    for _ in range(3):
        epochs.append(0)
        for i, batch in enumerate(loader):
            if i % 2 or i == 4:
                train(batch)


class Stream(IterableDataset):
    def __iter__(self):
        return iter([torch.ones(8)] * 4)


def stream():
    """A loader of unknown length; the loop fails in the second epoch."""
    loader = DataLoader(Stream(), batch_size=None)
    for epoch in range(3):
        epochs.append(0)
        try:
            for i, batch in enumerate(loader):
                train(batch)
                if epoch == 1 and i == 2:
                    raise ValueError
        except ValueError:
            pass


def left():
    """A loop that is left early: cprof cannot see the end of its epoch."""
    loader = DataLoader([torch.ones(8)] * 5)
    for _ in range(3):
        epochs.append(0)
        for i, batch in enumerate(loader):
            train(batch)
            if i == 2:
                break


for loop in sys.argv[1:]:
    globals()[loop]()
print(json.dumps(epochs))
