# SPDX-License-Identifier: Apache-2.0
"""Training in epochs over a DataLoader, in the shapes that cprof must tell apart: `epochs.py SHAPE...`. The last line says
how many steps each epoch had. Knows nothing of cprof."""

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
    """A loop of five batches, then one of validation over a loader of the same kind."""
    loader, other = (DataLoader([torch.ones(8)] * n, batch_size=2, **options) for n in (10, 4))
    for _ in range(3):
        epochs.append(0)
        for batch in loader:
            train(batch)
        validate(other)


def workers():
    plain(num_workers=1, persistent_workers=True)


def accumulated():
    """A step for every two of five batches; validation in the middle of the epoch, between two fetches and a step."""
    loader, other = DataLoader([torch.ones(8)] * 5), DataLoader([torch.ones(8)] * 3)
    for _ in range(3):
        epochs.append(0)
        for i, batch in enumerate(loader):
            if i == 3:
                validate(other)
            if i % 2:
                train(batch)


def ahead():
    """Each batch is fetched before the one in front of it is worked on, as prefetchers do."""
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


# What Accelerate makes of a loader, known by where its code lies.
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
    """A step for every two batches and for the last one."""
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
    """A loader that does not know its length, and fails in the second epoch."""
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
    """A loop that is left early ends no epoch that could be seen."""
    loader = DataLoader([torch.ones(8)] * 5)
    for _ in range(3):
        epochs.append(0)
        for i, batch in enumerate(loader):
            train(batch)
            if i == 2:
                break


for shape in sys.argv[1:]:
    globals()[shape]()
print(json.dumps(epochs))
