# SPDX-License-Identifier: Apache-2.0
"""Multiplies tensors that stand for others, and complex ones: flops_inside.py WHAT. The same in each of six steps."""

import sys

import torch

torch.set_num_threads(1)


def vmap():
    """100 products of 4 x 16 by 16 x 32."""
    w, x = torch.randn(16, 32), torch.randn(100, 4, 16)
    return lambda: torch.func.vmap(lambda one: one @ w)(x)


def grad():
    """8 x 16 by 16 x 32, and the gradient of the first."""
    w, x = torch.randn(16, 32), torch.randn(8, 16)
    return lambda: torch.func.grad(lambda x: (x @ w).sum())(x)


def grad_of_grad():
    """The product and its gradient, and a gradient of each."""
    w, x = torch.randn(16, 32), torch.randn(8, 16)
    inner = torch.func.grad(lambda x: (x @ w).pow(2).sum())
    return lambda: torch.func.grad(lambda x: inner(x).sum())(x)


def grads_batched():
    """Four gradients at once, of 8 x 16 by 16 x 32; the product itself is made before."""
    w, x = torch.randn(16, 32), torch.randn(8, 16, requires_grad=True)
    y, directions = x @ w, torch.randn(4, 8, 32)
    return lambda: torch.autograd.grad(y, x, directions, is_grads_batched=True, retain_graph=True)


def tensor_parallel():
    """The part of rank 0 of two: 32 x 64 by 64 x 64, a half of the 128 columns, and its two gradients."""
    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
    from torch.testing._internal.distributed.fake_pg import FakeStore
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    layers = torch.nn.Sequential(torch.nn.Linear(64, 128, bias=False))
    parallelize_module(layers, init_device_mesh("cpu", (2,)), {"0": ColwiseParallel()})
    x = torch.randn(32, 64, requires_grad=True)
    return lambda: layers(x).sum().backward()


def complex_numbers():
    """5 x 7 by 7 x 11; each product and its sum is four products and four sums."""
    a, b = torch.randn(5, 7, dtype=torch.complex64), torch.randn(7, 11, dtype=torch.complex64)
    return lambda: a @ b


def main():
    step = globals()[sys.argv[1]]()
    weight = torch.nn.Parameter(torch.zeros(1))
    weight.grad = torch.zeros(1)
    optimizer = torch.optim.SGD([weight], lr=0.01, foreach=False)
    for _ in range(6):
        step()
        optimizer.step()


main()
