# SPDX-License-Identifier: Apache-2.0
"""A training with known tensor memory. The argument is leak, threads, oom (a caught error) or die (the same, then the process kills
itself by SIGKILL)."""

import os
import sys
import threading

import torch
from torch import nn

MB = 1 << 20


class Leaks(nn.Module):
    """Keeps one MiB at each call."""

    def __init__(self):
        super().__init__()
        self.kept = []

    def forward(self, x):
        self.kept.append(torch.zeros(MB // 4))
        return x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(64, 256)
        self.b = nn.Sequential(nn.Tanh(), Leaks())
        self.c = nn.Linear(256, 8)

    def forward(self, x):
        return self.c(self.b(self.a(x)))


def churn(n):
    kept = []
    for i in range(300):
        kept.append(torch.zeros((i % 7 + 1) * 1000 * n))
        if i % 3 == 0:
            kept.clear()


mode = sys.argv[1]
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range(6):
    optimizer.zero_grad()
    net(torch.ones(512, 64)).sum().backward()
    if mode == "threads":
        threads = [threading.Thread(target=churn, args=(n,)) for n in (1, 2, 3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if mode in ("oom", "die") and step == 3:
        try:
            torch.empty(1 << 45)
        except RuntimeError as error:
            print("caught" if "allocate" in str(error) else error)
            if mode == "die":
                sys.stdout.flush()
                os.kill(os.getpid(), 9)
    optimizer.step()
print("done")
