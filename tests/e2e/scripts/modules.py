# SPDX-License-Identifier: Apache-2.0
"""Models whose modules cprof must name. The first argument chooses the case. The last line is JSON for the test."""

import gc
import json
import sys
import threading
import warnings
import weakref

import torch
from torch import nn
from torch.nn.modules import module as torch_modules
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 3, 3, padding=1)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.act(self.conv1(x)) + nn.Sigmoid()(x)


class Net(nn.Module):
    """One Linear has two names and is called under each."""

    def __init__(self):
        super().__init__()
        self.layer1 = nn.Sequential(Block(), Block())
        self.fc = nn.Linear(192, 192)
        self.again = self.fc
        self.blocks = nn.ModuleList([nn.Linear(192, 8), nn.Tanh()])

    def forward(self, x):
        x = self.fc(self.layer1(x).flatten(1))
        x = self.again(x)
        for block in self.blocks:
            x = block(x)
        return x


class Raises(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(2, 2)
        self.bad = nn.Linear(3, 3)

    def forward(self, x):
        try:
            self.bad(self.inner(x))
        except RuntimeError:
            x = x.exp()
        return self.bad(x)


class Nested(nn.Module):
    """Calls itself."""

    def forward(self, x, depth=2):
        return self(x.sin(), depth - 1) if depth else x.cos()


class Checkpointed(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 8), nn.Tanh())
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        return self.head(checkpoint(self.body, x, use_reentrant=True))


class Changes(nn.Module):
    """Makes a new layer at each call."""

    def forward(self, x):
        self.late = nn.Linear(4, 4)
        return self.late(x)


class Called(nn.Module):
    """Overrides __call__, so that no hooks run."""

    def __call__(self, x):
        return self.forward(x)

    def forward(self, x):
        return x.tan()


def hooks():
    return len(torch_modules._global_forward_hooks) + len(torch_modules._global_forward_pre_hooks)


def train(step, steps=6):
    parameter = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    seen = []
    for _ in range(steps):
        step()
        seen.append(hooks())
        parameter.grad = torch.ones(1)
        optimizer.step()
    return seen


def eager():
    net, nested, point, changes, called = Net(), Nested(), Checkpointed(), Changes(), Called()
    raises, dead = Raises(), []

    def step():
        net(torch.ones(2, 3, 8, 8)).sum().backward()
        try:
            raises(torch.ones(2, 2))
        except RuntimeError:
            pass
        torch.ones(2).acos()  # in no module
        nested(torch.ones(2))
        point(torch.ones(2, 8, requires_grad=True)).sum().backward()
        changes(torch.ones(2, 4))
        called(torch.ones(2))
        threads = [threading.Thread(target=net.layer1, args=(torch.ones(2, 3, 8, 8),)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gone = nn.Sequential(nn.Linear(2, 2))
        gone(torch.ones(2, 2))
        dead.append(weakref.ref(gone))

    seen = train(step)
    return {"hooks": seen, "left": hooks(), "alive": sum(ref() is not None for ref in dead)}


class Leaf(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Linear(4, 4)

    def helper(self, x):
        return x * 2 + 1

    def forward(self, x):
        return self.helper(self.c(x).relu())


class Tree(nn.Module):
    def __init__(self):
        super().__init__()
        self.l = nn.Sequential(Leaf(), Leaf())
        self.h = nn.Linear(4, 2)

    def forward(self, x):
        return self.h(self.l(x)).sum()


def script():
    """With a path as second argument, torch.profiler records a step into that file instead."""
    torch.manual_seed(1)
    net, x = torch.jit.script(Tree()), torch.ones(3, 4)

    def step():
        net(x)

    for _ in range(4):
        step()
    if len(sys.argv) > 2:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_modules=True) as profiler:
            step()
        profiler.export_chrome_trace(sys.argv[2])
        return {}
    train(step)
    return {}


def compiled(late):
    """late: torch.compile is called in the middle of a window."""
    from torch._dynamo.utils import counters
    graphs = []

    def backend(graph, inputs):
        graphs.append(1)
        return graph.forward

    net, x = Tree(), torch.ones(3, 4)
    fast = None if late else torch.compile(net, backend=backend)
    calls = 0

    def step():
        nonlocal fast, calls
        calls += 1
        if late and calls == 4:
            net.compile(backend=backend)
        if calls == 5:
            torch.compile(Leaf(), backend=backend)(x)
        (net if fast is None else fast)(x).backward()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        train(step, 12)
    return {"graphs": len(graphs), "breaks": sum(counters["graph_break"].values()), "frames": dict(counters["frames"]),
            "warnings": sorted({str(w.message)[:60] for w in caught if "hook" in str(w.message)})}


done = {"eager": eager, "script": script, "compiled": lambda: compiled(False), "late": lambda: compiled(True)}[sys.argv[1]]()
gc.collect()
print(json.dumps(done))
