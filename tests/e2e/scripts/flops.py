# SPDX-License-Identifier: Apache-2.0
"""Trains small models one after the other, six steps each: flops.py [--oracle] MODEL... With --oracle it prints JSON instead: for each
model, the counts of one step by torch.profiler (with_flops) and by FlopCounterMode, for each operator."""

import collections
import json
import sys

import torch
from torch import nn

STEPS = 6


class Attention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        b, s, w = x.shape
        q, k, v = (t.view(b, s, self.heads, w // self.heads).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, s, w))


class Block(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.one, self.two, self.attention = nn.LayerNorm(width), nn.LayerNorm(width), Attention(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width, bias=False))

    def forward(self, x):
        x = x + self.attention(self.one(x))
        return x + self.mlp(self.two(x))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm, self.gru, self.out = nn.LSTM(16, 24, 2), nn.GRU(24, 8), nn.Linear(8, 4)

    def forward(self, x):
        return self.out(self.gru(self.lstm(x)[0])[0])


class Einsum(nn.Module):
    """Multiplies samples x 10 by five matrices of 10 x 6, and sums the results with weights."""

    def __init__(self):
        super().__init__()
        self.experts, self.weights = nn.Parameter(torch.randn(5, 10, 6)), nn.Parameter(torch.randn(5))

    def forward(self, x):
        return torch.einsum("beh,e->bh", torch.einsum("bi,eih->beh", x, self.experts), self.weights)


def cnn():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, padding="same", groups=2),
        nn.ConvTranspose2d(8, 4, 2, stride=2), nn.Flatten(2), nn.Conv1d(4, 6, 5, dilation=2), nn.Flatten(),
        nn.Linear(6 * 248, 10)), torch.randn(4, 3, 16, 16)


MODELS = {
    "cnn": cnn,
    "mlp": lambda: (nn.Sequential(nn.Linear(20, 50), nn.ReLU(), nn.Linear(50, 10, bias=False), Einsum()), torch.randn(8, 20)),
    "transformer": lambda: (nn.Sequential(nn.Embedding(50, 32), Block(), Block(), nn.Linear(32, 50)), torch.randint(50, (3, 12))),
    "lstm": lambda: (Recurrent(), torch.randn(7, 3, 16)),
}


def step(model, x, optimizer):
    loss = model(x).mul(0.5).sum()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def oracle(*args):
    from torch.utils.flop_counter import FlopCounterMode
    step(*args)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_flops=True, record_shapes=True) as profile:
        step(*args)
    by_profiler = collections.defaultdict(list)
    for event in profile.events():
        if event.flops:
            by_profiler[event.name].append(event.flops)
    with FlopCounterMode(display=False) as counter:
        step(*args)
    by_counter = {str(op): n for op, n in counter.get_flop_counts()["Global"].items()}
    return {"profiler": by_profiler, "counter": by_counter}


def trained(name):
    torch.manual_seed(0)
    model, x = MODELS[name]()
    return model, x, torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=False)


def main():
    torch.set_num_threads(1)
    if sys.argv[1] == "--oracle":
        print(json.dumps({name: oracle(*trained(name)) for name in sys.argv[2:]}))
        return
    for name in sys.argv[1:]:
        training = trained(name)
        for _ in range(STEPS):
            step(*training)


main()
