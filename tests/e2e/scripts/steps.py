# SPDX-License-Identifier: Apache-2.0
"""Training loops of every shape that finds its own steps. Each marks iteration i with a range `probe i` in front of what ends
the step, so that the trace tells whether the edges lie where they should. Knows cprof only where it calls cprof_step()."""

import ctypes
import json
import sys

import torch
from torch import nn
from torch.autograd.profiler import record_function

torch.manual_seed(0)
torch.set_num_threads(1)
ITERATIONS = 6


def model():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def backward(net):
    net.zero_grad()
    loss = net(torch.ones(2, 8)).square().mean()
    loss.backward()
    return loss


def probe(i):
    with record_function(f"probe {i}"):
        torch.ones(3)


def sgd():
    """One optimizer with a scheduler, gradients accumulated over three batches, a range around the whole iteration."""
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for i in range(ITERATIONS):
        with record_function("whole iteration"):
            for _ in range(3):
                backward(net)
            probe(i)
            optimizer.step()
            scheduler.step()


def two_classes():
    """Like a GAN: two optimizers, of which the one that steps first counts."""
    a, b = model(), model()
    first = torch.optim.SGD(a.parameters(), lr=0.01)
    second = torch.optim.Adam(b.parameters(), lr=0.01)
    for i in range(ITERATIONS):
        backward(a)
        probe(i)
        first.step()
        for _ in range(2):
            backward(b)
            second.step()


def two_of_one():
    """Two optimizers of one class: their ranges have one name."""
    a, b = model(), model()
    first = torch.optim.Adam(a.parameters(), lr=0.01)
    second = torch.optim.Adam(b.parameters(), lr=0.01)
    for i in range(ITERATIONS):
        backward(a)
        probe(i)
        first.step()
        for _ in range(2):
            backward(b)
            second.step()


class Own(torch.optim.SGD):
    def step(self, closure=None):
        with record_function("own step"):
            return super().step(closure)


def subclass():
    """A step that calls super().step(), which torch has wrapped too: one range inside the other."""
    net = model()
    torch.optim.SGD(net.parameters(), lr=0.01)  # torch wraps SGD.step when the first SGD is made
    optimizer = Own(net.parameters(), lr=0.01)
    for i in range(ITERATIONS):
        backward(net)
        probe(i)
        optimizer.step()


def lbfgs():
    """An optimizer that evaluates the loss several times in one step; one step fails, which the script survives."""
    net = model()
    optimizer = torch.optim.LBFGS(net.parameters(), max_iter=3)

    def fails():
        raise ValueError("no loss today")

    for i in range(ITERATIONS):
        probe(i)
        try:
            optimizer.step(fails if i == 2 else lambda: backward(net))
        except ValueError:
            pass


def explicit():
    """cprof_step() after each second optimizer step, from iteration 2 on."""
    mark = ctypes.CDLL(None).cprof_step
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for i in range(ITERATIONS):
        backward(net)
        if i < 2:
            probe(i)
        optimizer.step()
        if i >= 2:
            backward(net)
            optimizer.step()
            probe(i)
            mark()


def infer():
    """Two epochs of batches through a model, without an optimizer."""
    net = model().eval()
    loader = torch.utils.data.DataLoader([torch.ones(8)] * (ITERATIONS // 2), batch_size=1)
    i = 0
    with torch.no_grad():
        for _ in range(2):
            for batch in loader:
                net(batch)
                probe(i)
                i += 1


class Outer(nn.Module):
    """A model whose call makes more calls, and which fails once."""

    def __init__(self):
        super().__init__()
        self.inner = model()

    def forward(self, x, i):
        probe(i)
        if i == 2:
            raise ValueError("no answer today")
        return self.inner(self.inner(x).repeat(1, 2))


def forward():
    """Module calls, one of which fails, which the script survives."""
    net = Outer().eval()
    with torch.no_grad():
        for i in range(ITERATIONS):
            try:
                net(torch.ones(2, 8), i)
            except ValueError:
                pass


globals()[sys.argv[1]]()
print(json.dumps({"iterations": ITERATIONS}))
