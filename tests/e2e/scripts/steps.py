# SPDX-License-Identifier: Apache-2.0
"""All kinds of loops whose steps cprof must find: `steps.py LOOP...`, with a loop's argument after a colon.

Each loop opens a range `probe i` in iteration i before the step's end, so the trace shows whether the edges are right. Iterations are
numbered through all loops. The last line is the number of iterations of each loop. Only explicit() calls cprof."""

import ctypes
import gc
import json
import sys
import time

import torch
from torch import nn
from torch.autograd.profiler import record_function

torch.manual_seed(0)
torch.set_num_threads(1)
ITERATIONS = 6
ALONE = 110
SURVIVED = "the failure that a script survives"
probes = []  # number of probes of each loop
placeholders = []   # objects at the addresses of freed optimizers


def model():
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))


def backward(net):
    net.zero_grad()
    loss = net(torch.ones(2, 8)).square().mean()
    loss.backward()
    return loss


def probe(i):
    """Opens the range of iteration i of the current loop."""
    with record_function(f"probe {sum(probes[:-1]) + i}"):
        torch.ones(3)
    probes[-1] += 1


class Own(torch.optim.SGD):
    def step(self, closure=None):
        with record_function("own step"):
            return super().step(closure)


def one():
    """A user's optimizer whose step() calls super().step(), which torch has wrapped, too; a scheduler; gradients accumulated
    over three batches; a range around the whole iteration."""
    net = model()
    torch.optim.SGD(net.parameters(), lr=0.01)  # torch wraps SGD.step when the first SGD is made
    optimizer = Own(net.parameters(), lr=0.01)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    for i in range(ITERATIONS):
        with record_function("whole iteration"):
            for _ in range(3):
                backward(net)
            probe(i)
            optimizer.step()
            scheduler.step()


def two_classes():
    """Two optimizers, of which the first to step marks the steps. It evaluates the loss several times in a step, and fails
    once."""
    a, b = model(), model()
    first = torch.optim.LBFGS(a.parameters(), max_iter=3)
    second = torch.optim.Adam(b.parameters(), lr=0.01)

    def fail():
        raise ValueError(SURVIVED)

    for i in range(ITERATIONS):
        probe(i)
        try:
            first.step(fail if i == 2 else lambda: backward(a))
        except ValueError as error:
            assert str(error) == SURVIVED
        for _ in range(2):
            backward(b)
            second.step()


def two_of_one():
    """Two optimizers of one class, whose ranges have the same name. The first marks the steps; later the second goes on
    alone."""
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
    for _ in range(ALONE):
        second.step()


def gan():
    """Three steps of the critic's optimizer, then one of the generator's."""
    a, b = model(), model()
    critic = torch.optim.SGD(a.parameters(), lr=0.01)
    generator = torch.optim.Adam(b.parameters(), lr=0.01)
    for i in range(ITERATIONS):
        for _ in range(3):
            backward(a)
            critic.step()
        backward(b)
        probe(i)
        generator.step()


class Sharded(torch.optim.Optimizer):
    """Steps two optimizers of its own, as ZeroRedundancyOptimizer steps one."""

    def __init__(self, *models):
        super().__init__([p for m in models for p in m.parameters()], {})
        self.inner = [torch.optim.SGD(m.parameters(), lr=0.01) for m in models]

    def step(self, closure=None):
        for inner in self.inner:
            inner.step()


def sharded():
    """An optimizer's step() inside another one's."""
    models = model(), model()
    optimizer = Sharded(*models)
    for i in range(ITERATIONS):
        for net in models:
            backward(net)
        probe(i)
        optimizer.step()


def folds():
    """Trainings one after the other, each with its own model and optimizer, which are freed before the next training begins."""
    def train(first):
        net = model()
        optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
        for i in range(first, first + 2):
            backward(net)
            probe(i)
            optimizer.step()
    between = []
    for first in range(0, ITERATIONS, 2):
        train(first)
        gc.collect()
        between.append([object() for _ in range(1000)])  # takes the optimizer's address


class Plain:
    """Its objects are as large as optimizers, so they take the addresses of freed ones."""


def kept_folds():
    """Like folds(), but the first optimizer is kept. No optimizer of a later loop may get the address of one of these, because cprof
    would take it for that one."""
    kept = []
    for first, steps in (0, 3), (3, 20):
        net = model()
        kept.append(torch.optim.Adam(net.parameters(), lr=0.01))
        for i in range(first, first + steps):
            backward(net)
            probe(i)
            kept[-1].step()
    kept.clear()
    for _ in range(10):  # repeated, because short-lived objects may occupy the addresses at first
        gc.collect()
        placeholders.extend([Plain() for _ in range(1000)])


def explicit():
    """From iteration 2 on, cprof_step() marks the steps, each with two optimizer steps inside."""
    mark = ctypes.CDLL(None).cprof_step
    net = model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    begun = time.monotonic()
    for i in range(ITERATIONS):
        backward(net)
        if i < 2:
            probe(i)
            optimizer.step()
        else:
            probe(i)
            if i == 2:  # as long as the iterations before: cprof_step() just after an optimizer's step counts as the same step
                time.sleep(time.monotonic() - begun)
            mark()
            for _ in range(2):
                backward(net)
                optimizer.step()


def infer():
    """Three epochs of batches through a model, without an optimizer; the first is left early."""
    net = model().eval()
    loader = torch.utils.data.DataLoader([torch.ones(8)] * 3, batch_size=1)
    i = 0
    with torch.no_grad():
        for most in (2, 4, 4):
            for n, batch in enumerate(loader, 1):
                net(batch)
                probe(i)
                i += 1
                if n == most:
                    break


class Outer(nn.Module):
    """A model whose call makes more module calls, and which fails in one iteration."""

    def __init__(self, failing):
        super().__init__()
        self.inner = model()
        self.failing = failing

    def forward(self, x, i):
        probe(i)
        if i == self.failing:
            raise ValueError(SURVIVED)
        return self.inner(self.inner(x).repeat(1, 2))


def forward(failing):
    """Module calls, of which iteration `failing` raises."""
    net = Outer(int(failing)).eval()
    with torch.no_grad():
        for i in range(ITERATIONS):
            try:
                net(torch.ones(2, 8), i)
            except ValueError as error:
                assert str(error) == SURVIVED


def criterion():
    """A call of the model, and calls of loss modules after it."""
    net, losses = model().eval(), [nn.MSELoss(), nn.CrossEntropyLoss()]
    with torch.no_grad():
        for i in range(ITERATIONS):
            probe(i)
            found = net(torch.ones(2, 8))
            for loss in losses:
                loss(found, torch.ones_like(found))


for name, _, argument in (loop.partition(":") for loop in sys.argv[1:]):
    probes.append(0)
    globals()[name](*filter(None, [argument]))
    gc.collect()  # frees a loop's optimizers before the next loop begins
print(json.dumps({"iterations": sum(probes), "loops": probes}))
