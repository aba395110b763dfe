# SPDX-License-Identifier: Apache-2.0
"""Training on the CPU with one fault, or none: cpu.py NAME --share X. planted.py describes the fault of each program."""

import os
import tempfile
import threading
import time

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from harness import Blocks, Program, main


class Training(Program):
    """An MLP with SGD. Each program overrides one part of the step."""
    rows, width, depth = 128, 512, 4

    def __init__(self):
        self.model = self.make()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-4)
        self.inputs, self.labels = self.data()

    def make(self):
        layers = [layer for _ in range(self.depth) for layer in (nn.Linear(self.width, self.width), nn.ReLU())]
        return nn.Sequential(*layers, nn.Linear(self.width, 10))

    def data(self):
        return torch.randn(self.rows, self.width), torch.arange(self.rows) % 10

    def load(self, size):
        return self.inputs, self.labels

    def forward(self, inputs, size):
        return self.model(inputs)

    def criterion(self, outputs, labels, size):
        return F.cross_entropy(outputs, labels)

    def update(self, size):
        self.optimizer.step()

    def finish(self, outputs, size):
        pass

    def step(self, size):
        inputs, labels = self.load(size)
        outputs = self.forward(inputs, size)
        loss = self.criterion(outputs, labels, size)
        self.optimizer.zero_grad()
        loss.backward()
        self.update(size)
        self.finish(outputs, size)


def parse(lines):
    return torch.tensor([[float(value) for value in line.split(",")] for line in lines])


LINES = [",".join(f"{(i * j) % 97 / 97:.4f}" for j in range(64)) for i in range(50)]


class ParsedInLoop(Training):
    unit = 50

    def load(self, size):
        if size:
            parse([LINES[i % len(LINES)] for i in range(max(1, int(size)))])
        return self.inputs, self.labels


class Disk(torch.utils.data.Dataset):
    """Samples of a slow disk, which reads 16 samples in batch_ms."""

    def __init__(self, batch_ms, width):
        self.wait, self.sample = batch_ms / 1e3, torch.randn(width)

    def __len__(self):
        return 16 * 1000

    def __getitem__(self, i):
        if self.wait and i % 16 == 0:
            time.sleep(self.wait)
        return self.sample, i % 10


class SlowLoader(Blocks, Training):
    """size: milliseconds of a batch in the only worker."""
    rows = 16
    width, depth = 1024, 4
    batches = None

    def start(self, size):
        loader = torch.utils.data.DataLoader(Disk(size, self.width), batch_size=16, num_workers=1)
        self.batches = iter(loader)

    def load(self, size):
        if self.batches is None:
            self.start(0)
        begin = time.perf_counter()
        batch = next(self.batches)
        self.inside += time.perf_counter() - begin
        return batch

    def fitted(self, share):
        size = 100.0
        for _ in range(2):
            healthy, slow = self.measure(size, 20)
            size = max(1.0, 1e3 * (healthy / (1 - share) - slow) + size)
        return size


class HealthyLoader(SlowLoader):
    limit = 0


class PythonBetween(Training):
    unit = 1000

    def __init__(self):
        super().__init__()
        self.averages = {}

    def track(self, size):
        for i in range(int(size)):
            key = f"unit{i % 64}"
            self.averages[key] = 0.9 * self.averages.get(key, 0.0) + 0.1 * i

    def forward(self, inputs, size):
        hidden = self.model[:4](inputs)
        self.track(size)
        return self.model[4:](hidden)


class RowByRow(Training):
    unit, limit = 32, 128

    def criterion(self, outputs, labels, size):
        n = int(size)
        total = F.cross_entropy(outputs[n:], labels[n:], reduction="sum") if n < len(labels) else 0
        for output, label in zip(outputs[:n], labels[:n]):
            total = total + 0.5 * F.cross_entropy(output, label) + 0.5 * F.nll_loss(F.log_softmax(output, 0), label)
        return total / len(labels)


class HandOptimizer(Training):
    unit, limit = 256, 2048

    @torch.no_grad()
    def update(self, size):
        left = int(size)
        for parameter in self.model.parameters():
            rows = min(left, len(parameter)) if parameter.dim() == 2 else 0
            left -= rows
            for i in range(rows):
                parameter[i] -= 1e-4 * parameter.grad[i]
            parameter[rows:].sub_(parameter.grad[rows:], alpha=1e-4)


class Recomputed(Training):
    width, depth, unit, limit = 256, 24, 24, 24

    def forward(self, inputs, size):
        hidden, layers, n = inputs, list(self.model), round(size)
        for i in range(self.depth):
            block = self.model[2 * i:2 * i + 2]
            hidden = checkpoint(block, hidden, use_reentrant=False) if i < n else block(hidden)
        return layers[-1](hidden)


class Kept(Training):
    unit, limit = 1 << 20, 24 << 20

    def __init__(self):
        super().__init__()
        self.features, self.history = torch.randn(self.limit), []

    def clear(self):
        self.history.clear()

    def finish(self, outputs, size):
        if size:
            self.history.append(self.features[:int(size)].clone())


class BusyThread(Training):
    unit, linear = 300, False
    clock = staticmethod(time.perf_counter)

    def __init__(self):
        super().__init__()
        self.rounds = 0
        threading.Thread(target=self.watch, name="monitor", daemon=True).start()

    def watch(self):
        while True:
            time.sleep(0.005)
            for i in range(int(self.rounds)):
                str({"time": i, "load": i / 7})

    def load(self, size):
        self.rounds = size
        return self.inputs, self.labels


class Doubles(Training):
    width, depth, unit, limit = 256, 40, 40, 40

    def __init__(self):
        super().__init__()
        self.doubles = self.make().double()
        self.optimizer.add_param_group({"params": self.doubles.parameters()})

    def forward(self, inputs, size):
        n = 2 * round(size)
        hidden = self.doubles[:n](inputs.double()).float() if n else inputs
        return self.model[n:](hidden)


class Saves(Training):
    period, unit, limit = 4, 1 << 20, 48 << 20

    def __init__(self):
        super().__init__()
        self.state, self.steps = torch.randn(self.limit), 0
        self.folder = tempfile.TemporaryDirectory()

    def save(self, size):
        torch.save({"momentum": self.state[:int(size)].clone()}, os.path.join(self.folder.name, "model.pt"))

    def finish(self, outputs, size):
        self.steps += 1
        if size and self.steps % 4 == 0:
            self.save(size)


class Temporaries(Training):
    """A penalty that makes a large temporary in each operator, or works in place. size: the elements with temporaries."""
    unit, limit = 12 << 20, 12 << 20

    def __init__(self):
        super().__init__()
        self.field, self.buffer = torch.randn(self.limit), torch.empty(self.limit)

    @torch.no_grad()
    def finish(self, outputs, size):
        n = int(size)
        if n:
            ((self.field[:n] - 0.5) * 2.0).clamp(min=0.0)
        torch.sub(self.field[n:], 0.5, out=self.buffer[n:]).mul_(2.0).clamp_(min=0.0)


class PairLoss(Training):
    unit, limit = 16, 128

    def criterion(self, outputs, labels, size):
        loss, n = F.cross_entropy(outputs, labels), int(size)
        if n:
            first = outputs[:n].repeat(1, 4)
            distance = (first[:, None] - outputs.repeat(1, 4)[None]).pow(2).sum(-1)
            loss = loss + 1e-3 * F.relu(1 - distance).mean()
        return loss


class Mlp(Training):
    limit = 0


class Cnn(Training):
    limit = 0

    def make(self):
        return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
                             nn.MaxPool2d(2), nn.Flatten(), nn.Linear(2048, 10))

    def data(self):
        return torch.randn(16, 3, 32, 32), torch.arange(16) % 10


class Transformer(Training):
    limit = 0

    def make(self):
        layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True, dropout=0.0)
        return nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(32 * 128, 10))

    def data(self):
        return torch.randn(16, 32, 128), torch.arange(16) % 10


class Accumulated(Training):
    limit, rows = 0, 64

    def step(self, size):
        self.optimizer.zero_grad()
        for _ in range(4):
            (F.cross_entropy(self.model(self.inputs), self.labels) / 4).backward()
        self.optimizer.step()


class Inference(Training):
    limit, rows = 0, 256

    def step(self, size):
        with torch.inference_mode():
            return self.model(self.inputs).argmax(1)


PROGRAMS = {
    "parsed-in-loop": ParsedInLoop, "slow-loader": SlowLoader, "python-between": PythonBetween, "row-by-row-loss": RowByRow,
    "row-by-row-optimizer": HandOptimizer, "recomputed": Recomputed, "kept-features": Kept, "busy-thread": BusyThread,
    "doubles": Doubles, "saves-every-4th": Saves, "temporaries": Temporaries, "pair-loss": PairLoss,
    "healthy-mlp": Mlp, "healthy-cnn": Cnn, "healthy-transformer": Transformer, "healthy-loader": HealthyLoader,
    "healthy-accumulated": Accumulated, "healthy-inference": Inference,
}

if __name__ == "__main__":
    main(PROGRAMS)
