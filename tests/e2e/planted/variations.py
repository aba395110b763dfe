# SPDX-License-Identifier: Apache-2.0
"""More training on the CPU with one fault, or none: variations.py NAME --share X. planted.py describes the fault of each program."""

import concurrent.futures
import json
import math
import pickle
import threading
import time

import torch
from torch import nn
from torch.nn import functional as F

from cpu import Training
from harness import main


# ---- faults ----

RECORDS = [json.dumps({"id": i, "label": i % 10, "pixels": [(i * j) % 255 for j in range(64)]}) for i in range(50)]


class DecodedJson(Training):
    """size: records of JSON that are decoded in the step."""
    unit = 50

    def load(self, size):
        if size:
            records = [json.loads(RECORDS[i % len(RECORDS)]) for i in range(max(1, int(size)))]
            torch.tensor([one["pixels"] for one in records], dtype=torch.float32).div_(255)
        return self.inputs, self.labels


class Exporter(Training):
    """A thread that writes its metrics as JSON all the time. size: numbers in a document."""
    unit, linear = 2000, False
    clock = staticmethod(time.perf_counter)

    def __init__(self):
        super().__init__()
        self.values = []
        threading.Thread(target=self.export, name="exporter", daemon=True).start()

    def export(self):
        while True:
            time.sleep(0.002)
            json.dumps(self.values)

    def load(self, size):
        if len(self.values) != int(size):
            self.values = [i / 7 for i in range(int(size))]
        return self.inputs, self.labels


class BuiltMask(Training):
    """A causal mask and its bias are made in each step, by operators that each make a new tensor. size: the length of the mask."""
    unit, limit, linear = 256, 3072, False

    def forward(self, inputs, size):
        n = int(size)
        if n:
            position = torch.arange(n)
            distance = (position[:, None] - position[None]).float()
            bias = (-0.1 * distance.abs()).masked_fill(distance < 0, -1e9)
            inputs = inputs + 1e-9 * torch.exp(bias).sum()
        return self.model(inputs)


class WrittenOutGelu(Training):
    """The activation and its norm are written out. size: the columns for which they are; the others go through the library's."""
    rows, width, depth = 256, 512, 3
    unit, limit = 256, 512

    def activation(self, x):
        x = 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x ** 3)))
        return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True) + 1e-5)

    def forward(self, inputs, size):
        hidden, n = inputs, int(size)
        for layer in list(self.model)[:-1:2]:
            hidden = layer(hidden)
            hidden = torch.cat([self.activation(hidden[:, :n]), F.relu(hidden[:, n:])], 1) if n else F.relu(hidden)
        return self.model[-1](hidden)


class CosinePairs(Training):
    """A contrastive loss that multiplies all pairs element by element instead of by a matrix product. size: the rows."""
    unit, limit, linear = 16, 128, False

    def forward(self, inputs, size):
        self.hidden = self.model[:-1](inputs)
        return self.model[-1](self.hidden)

    def criterion(self, outputs, labels, size):
        loss, n = F.cross_entropy(outputs, labels), int(size)
        if n:
            unit = F.normalize(self.hidden[:n], dim=1)
            similar = (unit[:, None, :] * unit[None, :, :]).sum(-1)
            loss = loss + 1e-3 * (similar - torch.eye(n)).pow(2).mean()
        return loss


class SampleBySample(Training):
    """The first rows go through the model one by one, and the losses are stacked. size: these rows."""
    unit, limit = 8, 128

    def step(self, size):
        n = int(size)
        losses = [F.cross_entropy(self.model(self.inputs[i:i + 1]), self.labels[i:i + 1], reduction="sum") for i in range(n)]
        if n < self.rows:
            losses.append(F.cross_entropy(self.model(self.inputs[n:]), self.labels[n:], reduction="sum"))
        self.optimizer.zero_grad()
        (torch.stack(losses).sum() / self.rows).backward()
        self.optimizer.step()


class KeptGraph(Training):
    """A sum of losses that keeps the graph of each step. size: the columns of a head that goes into this sum."""
    unit, limit = 1024, 65536

    def __init__(self):
        super().__init__()
        self.head, self.running = torch.randn(512, self.limit, requires_grad=True), 0.0

    def clear(self):
        self.running = 0.0

    def finish(self, outputs, size):
        if size:
            self.running = self.running + (self.inputs @ self.head[:, :int(size)]).tanh().mean()


class EvaluatesEvery5th(Training):
    """size: the rows of a validation set that every fifth step goes through."""
    period, unit = 5, 256

    def __init__(self):
        super().__init__()
        self.steps = 0

    @torch.no_grad()
    def evaluate(self, size):
        for _ in range(round(size / 64)):
            self.model(self.inputs[:64]).argmax(1)

    def finish(self, outputs, size):
        self.steps += 1
        if size and self.steps % 5 == 0:
            self.evaluate(size)


class Pickled(Training):
    """size: numbers of a history that are pickled in each step, between the forward and the backward pass."""
    unit = 20000

    def criterion(self, outputs, labels, size):
        if size:
            self.snapshot(int(size))
        return F.cross_entropy(outputs, labels)

    def snapshot(self, size):
        pickle.dumps([{"loss": i / 3, "step": i} for i in range(size // 10)])


# ---- healthy ----

class Gan(Training):
    """A generator and a discriminator in turns."""
    limit = 0

    def __init__(self):
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(64, 256), nn.LeakyReLU(0.2), nn.Linear(256, 512), nn.Tanh())
        self.critic = nn.Sequential(nn.Linear(512, 256), nn.LeakyReLU(0.2), nn.Linear(256, 1))
        self.first = torch.optim.Adam(self.generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
        self.second = torch.optim.Adam(self.critic.parameters(), lr=2e-4, betas=(0.5, 0.999))

    def step(self, size):
        real, ones, zeros = self.inputs, torch.ones(self.rows, 1), torch.zeros(self.rows, 1)
        false = self.generator(torch.randn(self.rows, 64))
        self.second.zero_grad()
        (F.binary_cross_entropy_with_logits(self.critic(real), ones) +
         F.binary_cross_entropy_with_logits(self.critic(false.detach()), zeros)).backward()
        self.second.step()
        self.first.zero_grad()
        F.binary_cross_entropy_with_logits(self.critic(false), ones).backward()
        self.first.step()


class Reinforced(Training):
    """An actor and a critic, 512 environments that are simulated as tensors, eight moves, then an update."""
    limit, rows, width, depth = 0, 512, 256, 2

    def __init__(self):
        super().__init__()
        self.value = nn.Linear(self.width, 1)
        self.optimizer = torch.optim.Adam([*self.model.parameters(), *self.value.parameters()], lr=1e-4)
        self.state = torch.randn(self.rows, self.width)

    def move(self, action):
        """The environments' answer."""
        self.state = 0.9 * self.state + 0.1 * torch.randn_like(self.state)
        return (self.state[:, :10].gather(1, action[:, None]) > 0).float().squeeze(1)

    def step(self, size):
        states, actions, rewards = [], [], []
        with torch.no_grad():
            for _ in range(8):
                states.append(self.state)
                actions.append(torch.multinomial(F.softmax(self.model(self.state), 1), 1).squeeze(1))
                rewards.append(self.move(actions[-1]))
        returns, total = [], torch.zeros(self.rows)
        for reward in reversed(rewards):
            total = reward + 0.99 * total
            returns.append(total)
        seen, done, gained = torch.cat(states), torch.cat(actions), torch.cat(returns[::-1])
        value = self.value(seen).squeeze(1)
        chosen = F.log_softmax(self.model(seen), 1).gather(1, done[:, None]).squeeze(1)
        loss = -(chosen * (gained - value.detach())).mean() + F.mse_loss(value, gained)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


class Evaluation(Training):
    """Measures a model batch by batch."""
    limit, rows = 0, 256

    def step(self, size):
        with torch.no_grad():
            outputs = self.model(self.inputs)
            right = (outputs.argmax(1) == self.labels).sum()
            loss = F.cross_entropy(outputs, self.labels, reduction="sum")
        return right.item(), loss.item()


class Augmented(Training):
    """Two threads crop, mirror and add noise to the next batches while this one trains. They run torch, which lets the lock go."""
    limit, rows, depth = 0, 128, 6
    clock = staticmethod(time.perf_counter)

    def __init__(self):
        super().__init__()
        self.images = torch.rand(64, 3, 40, 40)
        self.mapped = nn.Linear(3 * 32 * 32, self.width)
        self.pool = concurrent.futures.ThreadPoolExecutor(2)
        self.next = [self.pool.submit(self.batch, n) for n in range(4)]

    def batch(self, n):
        at = n % 8
        images = self.images[:, :, at:at + 32, at:at + 32].flip(3 if n % 2 else 2)
        return (images + 0.01 * torch.randn_like(images)).clamp(0, 1).flatten(1)

    def step(self, size):
        images = self.next.pop(0).result()
        self.next.append(self.pool.submit(self.batch, len(images) + id(images) % 7))
        outputs = self.model(self.mapped(images))
        self.optimizer.zero_grad()
        F.cross_entropy(outputs, self.labels[:64]).backward()
        self.optimizer.step()


class Recurrent(Training):
    """A language model with an LSTM, clipped gradients, Adam, a schedule, and a loss that is logged."""
    limit = 0

    def __init__(self):
        super().__init__()
        self.embedding, self.lstm, self.head = nn.Embedding(1000, 128), nn.LSTM(128, 256, 2, batch_first=True), nn.Linear(256, 1000)
        self.all = [*self.embedding.parameters(), *self.lstm.parameters(), *self.head.parameters()]
        self.optimizer = torch.optim.AdamW(self.all, lr=1e-3)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 1000)
        self.tokens, self.losses = torch.randint(1000, (16, 33)), []

    def step(self, size):
        hidden, _ = self.lstm(self.embedding(self.tokens[:, :-1]))
        loss = F.cross_entropy(self.head(hidden).flatten(0, 1), self.tokens[:, 1:].flatten())
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.all, 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.losses.append(loss.item())


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
                                  nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        return F.relu(x + self.body(x))


class Resnet(Training):
    limit = 0

    def make(self):
        return nn.Sequential(nn.Conv2d(3, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU(), *[Residual(32) for _ in range(3)],
                             nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10))

    def data(self):
        return torch.randn(16, 3, 32, 32), torch.arange(16) % 10


class Diffusion(Training):
    """Predicts the noise of an image at a random time."""
    limit, rows = 0, 128

    def __init__(self):
        super().__init__()
        self.alphas = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 1000), 0)
        self.time = nn.Embedding(1000, self.width)
        self.model = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(self.width, self.width), nn.SiLU())], nn.Linear(self.width, self.width))
        self.optimizer = torch.optim.AdamW([*self.model.parameters(), *self.time.parameters()], lr=1e-4)

    def step(self, size):
        when, noise = torch.randint(1000, (self.rows,)), torch.randn_like(self.inputs)
        alpha = self.alphas[when][:, None]
        noisy = alpha.sqrt() * self.inputs + (1 - alpha).sqrt() * noise
        loss = F.mse_loss(self.model(noisy + self.time(when)), noise)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


class Embedded(Training):
    """A recommender: sparse look-ups, a small tower, many rows."""
    limit, rows = 0, 2048

    def __init__(self):
        super().__init__()
        self.users, self.items = nn.Embedding(50000, 64), nn.Embedding(20000, 64)
        self.tower = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1))
        self.optimizer = torch.optim.SGD([*self.tower.parameters()], lr=1e-2)
        self.pairs = torch.randint(20000, (2, self.rows))

    def step(self, size):
        both = torch.cat([self.users(self.pairs[0]), self.items(self.pairs[1])], 1).detach()
        loss = F.binary_cross_entropy_with_logits(self.tower(both).squeeze(1), (self.pairs[0] % 2).float())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


PROGRAMS = {
    "decoded-json": DecodedJson, "exporter-thread": Exporter, "built-mask": BuiltMask, "written-out-gelu": WrittenOutGelu,
    "cosine-pairs": CosinePairs, "sample-by-sample": SampleBySample, "kept-graph": KeptGraph, "evaluates-every-5th": EvaluatesEvery5th,
    "pickled-history": Pickled,
    "healthy-gan": Gan, "healthy-reinforced": Reinforced, "healthy-evaluation": Evaluation, "healthy-augmented": Augmented,
    "healthy-recurrent": Recurrent, "healthy-resnet": Resnet, "healthy-diffusion": Diffusion, "healthy-embedded": Embedded,
}

if __name__ == "__main__":
    main(PROGRAMS)
