# SPDX-License-Identifier: Apache-2.0
"""Trains a CNN, an LSTM and an attention layer together for 20 steps, deterministically.

Usage: zoo.py [--wrap] [--torch FOLDER]. --wrap puts a record_function around each whole iteration. --torch records the run
with torch.profiler on the schedule of test_torch_profiler.py and exports FOLDER/N.json, N = 0, 1.
"""

import argparse
import contextlib

import torch
from torch import nn

SCHEDULE = {"skip_first": 2, "wait": 1, "warmup": 1, "active": 3, "repeat": 2}


class Zoo(nn.Module):
    def __init__(self):
        super().__init__()
        self.cnn = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 14 * 14, 10))
        self.lstm = nn.LSTM(10, 12, batch_first=True)
        self.attention = nn.MultiheadAttention(12, 2, batch_first=True)

    def forward(self, images):
        scores = self.cnn(images)
        hidden, _ = self.lstm(scores.view(8, 1, 10).expand(8, 5, 10))
        mixed, _ = self.attention(hidden, hidden, hidden)
        return scores, mixed


def recorder(folder):
    """A started torch.profiler with shapes and memory."""
    saved = []

    def save(profile):
        profile.export_chrome_trace(f"{folder}/{len(saved)}.json")
        saved.append(profile.step_num)

    profile = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True, profile_memory=True,
                                     schedule=torch.profiler.schedule(**SCHEDULE), on_trace_ready=save)
    profile.start()
    return profile


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--wrap", action="store_true")
    parser.add_argument("--torch", metavar="FOLDER")
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Zoo()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    profile = recorder(args.torch) if args.torch else None
    for _ in range(20):
        with torch.profiler.record_function("train_batch") if args.wrap else contextlib.nullcontext():
            images, labels = torch.randn(8, 3, 16, 16), torch.randint(0, 10, (8,))
            scores, mixed = model(images)
            loss = nn.functional.cross_entropy(scores, labels) + mixed.sum() * 1e-3 + torch.cat([scores, scores], 1).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if profile:
                profile.step()  # right after optimizer.step(), so that both profilers have the same step edges
            print(f"{loss.item():.9f}")
    if profile:
        profile.stop()


main()
