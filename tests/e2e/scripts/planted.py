# SPDX-License-Identifier: Apache-2.0
"""A small training on the CPU with one planted fault: planted.py FAULT SIZE. SIZE is in ms for faults that stall, else a count."""

import sys
import time

import torch

FAULT, SIZE = sys.argv[1], float(sys.argv[2])
torch.manual_seed(0)
torch.set_num_threads(int(SIZE) if FAULT == "threads" else 1)


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 16 * 14

    def __getitem__(self, index):
        if FAULT == "input":
            time.sleep(SIZE / 1000 / 16)
        return torch.full((128,), float(index)), index % 8


def add_up(values):
    total = torch.zeros(())
    for value in values[:int(SIZE)]:
        total = total + value
    return total


kept = []
net = torch.nn.Sequential(torch.nn.Linear(128, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 8))
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
for step, (inputs, targets) in enumerate(torch.utils.data.DataLoader(Data(), batch_size=16)):
    optimizer.zero_grad()
    outputs = net(inputs.repeat(16, 1))
    loss = torch.nn.functional.cross_entropy(outputs, targets.repeat(16))
    if FAULT == "python" or FAULT == "outlier" and step == 8:
        time.sleep(SIZE / 1000)
    if FAULT == "loop":
        loss = loss + 0 * add_up(outputs[:, 0].repeat(8))
    if FAULT == "leak":
        kept.append(inputs.repeat(int(SIZE), 1))
    loss.backward()
    optimizer.step()
