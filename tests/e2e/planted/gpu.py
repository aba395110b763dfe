# SPDX-License-Identifier: Apache-2.0
"""Training on the simulated GPU (tests/sim) with one fault, or none. Operators run in torch; their kernels are simulated."""

import ctypes
import os
import time

import torch

from harness import Program, main

LIBRARY = ctypes.CDLL(os.environ["GPU_LIBRARY"])
CUDA = ctypes.CDLL("libcudart.so.13")
GEMM, ELEMENTWISE, ADAM = 0, 2, 4
TO_DEVICE, TO_HOST = 1, 2
operators = torch.library.Library("simulated", "DEF")


def check(result):
    if result:
        raise RuntimeError(f"CUDA error {result}")


def defined(signature):
    def define(function):
        operators.define(signature)
        operators.impl(signature.partition("(")[0], function, "CompositeExplicitAutograd")
        return getattr(torch.ops.simulated, function.__name__)
    return define


def pointer(allocate, size, *more):
    address = ctypes.c_void_p()
    check(allocate(ctypes.byref(address), ctypes.c_size_t(size), *more))
    return address


@defined("layer(Tensor x, int kernel, int us) -> Tensor")
def layer(x, kernel, us):
    check(LIBRARY.gpu_launch_13(ctypes.c_int(kernel), ctypes.c_ulong(us * 1000)))
    return x.clone()


HOST, DEVICE = ctypes.create_string_buffer(8), pointer(CUDA.cudaMalloc, 8)


@defined("item(Tensor x) -> float")
def item(x):
    check(CUDA.cudaMemcpyAsync(HOST, DEVICE, ctypes.c_size_t(4), TO_HOST, None))
    check(CUDA.cudaStreamSynchronize(None))
    return float(x[0])


@defined("copy_pageable(Tensor x) -> Tensor")
def copy_pageable(x):
    check(CUDA.cudaMemcpy(TARGET, ctypes.c_void_p(x.data_ptr()), ctypes.c_size_t(x.numel()), TO_DEVICE))
    return x[:8].clone()


class Gpu(Program):
    """Each step launches 80 kernels ahead of the device, and calls .item() once at its end."""
    clock = staticmethod(time.perf_counter)
    kernels = 80

    def __init__(self):
        self.x = torch.ones(8)

    def load(self, size):
        pass

    def between(self, i, size):
        pass

    def step(self, size):
        self.load(size)
        x = self.x
        for i in range(self.kernels):
            x = layer(x, (GEMM, GEMM, ELEMENTWISE)[i % 3], 250)
            self.between(i, size)
        item(layer(x, ADAM, 300))


class ItemInLoop(Gpu):
    unit, limit = 80, 80

    def __init__(self):
        super().__init__()
        self.norms = []

    def between(self, i, size):
        if i < round(size):
            self.norms.append(item(self.x))
            self.norms = self.norms[-100:]


class MallocEachStep(Gpu):
    unit, limit = 80, 80

    def between(self, i, size):
        if i < round(size):
            workspace = pointer(CUDA.cudaMalloc, 1 << 20)
            check(CUDA.cudaFree(workspace))


class PageableCopy(Gpu):
    """The batch has 24 MiB. size: the bytes that are copied from pageable memory; the rest is on the device already."""
    unit, limit = 24 << 20, 24 << 20

    def __init__(self):
        super().__init__()
        self.batch = torch.zeros(self.limit, dtype=torch.uint8)

    def load(self, size):
        if size:
            copy_pageable(self.batch[:int(size)])


class Healthy(Gpu):
    limit = 0


TARGET = pointer(CUDA.cudaMalloc, PageableCopy.limit)
PROGRAMS = {"item-in-loop": ItemInLoop, "malloc-each-step": MallocEachStep, "pageable-copy": PageableCopy, "healthy-gpu": Healthy}

if __name__ == "__main__":
    main(PROGRAMS)
