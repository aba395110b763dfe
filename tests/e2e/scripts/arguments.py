# SPDX-License-Identifier: Apache-2.0
"""Calls operators with arguments of many kinds, twice. Only the second time is recorded: by torch.profiler if a file is named, else by cprof."""

import ctypes
import sys
import warnings

import torch

warnings.simplefilter("ignore")
F = torch.nn.functional
a = torch.arange(24.0).reshape(2, 3, 4)


def scalars():
    for number in (1, 1.5, True, 1 + 2j, -0.1, -0.0, 1e10, 1e18, 2.0**63, -2.0**63, 1e-320, float("inf"), float("-inf"), float("nan"), 2**62, 1.5 - 0.25j, 0.1 - 1e20j):
        torch.full((2,), number)
    torch.clamp(a, None, 2)
    torch.ones(2, 2).addmm(torch.ones(2, 3), torch.ones(3, 2), beta=0, alpha=-1.25)
    torch.div(a, 2, rounding_mode="floor")  # a string
    torch.arange(0, 5, 2)


def lists():
    a.sum([0, 2]), a.sum([], keepdim=True), a.sum(), a.sum(-1)
    a.flip([0]), a.roll([1, 2], [0, 1])
    torch.zeros(1).expand([1] * 30), torch.zeros(1).expand([1] * 31)  # the longest list that is written, and one too long
    F.conv2d(torch.zeros(1, 2, 5, 5), torch.zeros(3, 2, 3, 3), None, 1, 1)
    F.interpolate(torch.zeros(1, 1, 4, 4), scale_factor=[2.0, 1.5], mode="bilinear")
    torch.ops.aten.convolution_backward(torch.zeros(1, 3, 3), torch.zeros(1, 2, 5), torch.zeros(3, 2, 3), [3], [1], [0], [1], False, [0], 1,
                                        [True, False, True])
    torch.einsum("ij,jk->ik", torch.zeros(2, 3), torch.zeros(3, 4))


def tensors():
    torch.cat([a, a]), torch.cat([a.transpose(0, 1), a.transpose(0, 1)], 1), torch.stack([torch.zeros(())] * 3)
    torch.cat([torch.zeros(1)] * 30), torch.cat([torch.zeros(1)] * 31)
    torch._foreach_add([a, a], 1.5)
    a[torch.tensor([0, 1])], a.index_put((torch.tensor([0]),), torch.zeros(1))  # lists with None


def strides():
    a.permute(2, 0, 1).contiguous(), a.transpose(0, 2) + a.transpose(0, 2), a[:, 1:, ::2].clone(), a.expand(5, 2, 3, 4).clone()
    torch.zeros(1, 1, 1, 1, 1, 2) + 1, torch.zeros(()).clone(), torch.zeros(0, 3) + 1  # torch keeps more than five dimensions in another place
    torch.empty_strided((2, 3), (10, 1)).fill_(1), torch.zeros(8).as_strided((2, 2), (1, 3), 1).clone()
    torch.zeros(1, 2, 3, 4).to(memory_format=torch.channels_last) + 1


def layouts():
    torch.sparse_coo_tensor([[0], [1]], [2.0], (2, 3)).coalesce() * 2
    torch.eye(3).to_sparse_csr() * 2
    if torch.backends.mkldnn.is_available():
        torch.ones(4, 4).to_mkldnn().relu()
    torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)]) * 2
    torch.zeros(3, device="meta") + 1
    torch.vmap(lambda t: t + 1)(torch.zeros(2, 3))
    torch.quantize_per_tensor(torch.ones(2), 0.1, 3, torch.quint8).dequantize()


def others():
    torch.rand(2, generator=torch.Generator()), torch.zeros(3).to("cpu", torch.float64), torch.ones(2, dtype=torch.bool).any()
    x = torch.ones(2, 2, requires_grad=True)
    (x * 2).sum().backward()


def work():
    for part in (scalars, lists, tensors, strides, layouts, others):
        part()


work()
if len(sys.argv) > 1:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        work()
    profiler.export_chrome_trace(sys.argv[1])
else:
    step = ctypes.CDLL(None).cprof_step
    step()
    work()
    step()
