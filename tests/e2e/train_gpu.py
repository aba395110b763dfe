# SPDX-License-Identifier: Apache-2.0
"""A seeded PyTorch script on a GPU, for scripts/gpu_check.sh: each run launches the same kernels. --model picks the model. The script
synchronises the device at the end of each step, as Kineto does at a window's edges. --profile FILE records steps 3 to 5 with
torch.profiler; CPROF_STEP=manual CPROF_WARMUP=3 CPROF_ACTIVE=3 records the same steps. Runs on the CPU, too, for tests of the script."""

import argparse
import contextlib
import ctypes

import torch
from torch import nn
from torch.nn import functional as F


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
                                    nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10))

    def forward(self, x):
        return self.layers(x)


class Attention(nn.Module):
    def __init__(self, size=128, heads=4):
        super().__init__()
        self.heads, self.project, self.out = heads, nn.Linear(size, 3 * size), nn.Linear(size, 10)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.project(x).chunk(3, -1))
        return self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)).mean(1)


def make(model, device):
    """(module, a batch on the host)."""
    images = torch.randn(32, 3, 32, 32)
    tokens = torch.randn(16, 64, 128)
    if model in ("cnn", "loader"):
        return CNN().to(device), images
    if model == "graph":
        module = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10)).to(device)
        batch = torch.randn(64, 256)
        if device == "cuda":
            module = torch.cuda.make_graphed_callables(module, (batch.to(device),))
        return module, batch
    module = Attention().to(device)
    return (torch.compile(module) if model == "compile" else module), tokens


class Batches(torch.utils.data.Dataset):
    """The same images again and again, loaded one by one by workers."""

    def __init__(self, images):
        self.images = images

    def __len__(self):
        return 100 * len(self.images)

    def __getitem__(self, i):
        return self.images[i % len(self.images)]


def source(args, device, batch):
    """An endless iterator over batches."""
    if args.model != "loader":
        while True:
            yield batch
    yield from torch.utils.data.DataLoader(Batches(batch), batch_size=len(batch), num_workers=2, pin_memory=device == "cuda")


def loop(args, device, ended):
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = False
    module, batch = make(args.model, device)
    labels, batches = torch.arange(len(batch)) % 10, source(args, device, batch)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)
    autocast = torch.autocast(device, dtype=torch.bfloat16) if args.model == "amp" else contextlib.nullcontext()
    ranges = torch.cuda.nvtx.range if device == "cuda" else contextlib.nullcontext
    if device == "cuda":
        torch.cuda.synchronize()
    for step in range(args.steps):
        with ranges("load"):
            x, y = next(batches).to(device), labels.to(device)
        with ranges("train"), autocast:
            loss = F.cross_entropy(module(x).float(), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}")
        if device == "cuda":
            torch.cuda.synchronize()
        ended()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", choices=("cnn", "attention", "amp", "loader", "graph", "compile"), default="cnn")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--profile")
    args = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if args.profile:
        from torch.profiler import ProfilerActivity, profile, schedule
        kinds = [ProfilerActivity.CPU] + ([ProfilerActivity.CUDA] if device == "cuda" else [])
        with profile(activities=kinds, profile_memory=True, schedule=schedule(wait=0, warmup=3, active=3, repeat=1),
                     on_trace_ready=lambda p: p.export_chrome_trace(args.profile)) as profiler:
            loop(args, device, profiler.step)
    else:
        loop(args, device, getattr(ctypes.CDLL(None), "cprof_step", lambda: None))


if __name__ == "__main__":
    main()
