# SPDX-License-Identifier: Apache-2.0
"""A plain PyTorch training script without cprof: a small CNN on random images, a DataLoader with workers, SGD."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class RandomImages(Dataset):
    """n images of 3 x 32 x 32 with labels from 0 to 9, the same for the same index."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        return torch.randn(3, 32, 32, generator=generator), index % 10


class SmallCNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
        )
        self.classify = nn.Linear(32 * 8 * 8, 10)

    def forward(self, images):
        return self.classify(self.features(images).flatten(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loader = DataLoader(RandomImages(args.steps * args.batch), batch_size=args.batch, num_workers=args.workers)
    model = SmallCNN().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    for step, (images, labels) in enumerate(loader):
        optimizer.zero_grad()
        loss = loss_of(model(images.to(device)), labels.to(device))
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.9f}")


if __name__ == "__main__":
    main()
