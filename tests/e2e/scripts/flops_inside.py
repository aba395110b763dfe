# SPDX-License-Identifier: Apache-2.0
"""Multiplies wrapper tensors, complex, sparse and packed tensors, and makes products that raise: flops_inside.py FUNCTION... Each function
runs in six equal steps."""

import sys

import torch

torch.set_num_threads(1)


def vmap():
    """100 products of 4 x 16 by 16 x 32."""
    w, x = torch.randn(16, 32), torch.randn(100, 4, 16)
    return lambda: torch.func.vmap(lambda one: one @ w)(x)


def grad():
    """8 x 16 by 16 x 32, and the gradient of the first factor."""
    w, x = torch.randn(16, 32), torch.randn(8, 16)
    return lambda: torch.func.grad(lambda x: (x @ w).sum())(x)


def grad_of_grad():
    """The product and its gradient, and a gradient of each."""
    w, x = torch.randn(16, 32), torch.randn(8, 16)
    inner = torch.func.grad(lambda x: (x @ w).pow(2).sum())
    return lambda: torch.func.grad(lambda x: inner(x).sum())(x)


def grads_batched():
    """Four gradients at once, of 8 x 16 by 16 x 32. The product itself is computed before the steps."""
    w, x = torch.randn(16, 32), torch.randn(8, 16, requires_grad=True)
    y, directions = x @ w, torch.randn(4, 8, 32)
    return lambda: torch.autograd.grad(y, x, directions, is_grads_batched=True, retain_graph=True)


def tensor_parallel():
    """The part of rank 0 of two ranks: 32 x 64 by 64 x 64, half of the 128 columns, and its two gradients."""
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
    """5 x 7 by 7 x 11; a complex multiplication and addition is four real ones each."""
    a, b = torch.randn(5, 7, dtype=torch.complex64), torch.randn(7, 11, dtype=torch.complex64)
    return lambda: a @ b


def sparse():
    """A sparse matrix of 48 entries, as COO and as CSR, by 32 x 8; and its square, whose number of products is unknown."""
    a = torch.zeros(32, 32)
    a.view(-1)[:96:2] = 1
    x, csr = torch.randn(32, 8), a.to_sparse_csr()
    return lambda: (torch.sparse.mm(a.to_sparse(), x), csr @ x, csr @ csr)


def raising():
    """One product of 4 x 8 by 8 x 16, one that finds no memory, and one whose hook for saved tensors raises."""
    a, b, huge = torch.randn(4, 8), torch.randn(8, 16), torch.ones(1, 1)

    def refuse(_):
        raise RuntimeError("refused")

    def work():
        for one in (lambda: a @ b, lambda: huge.expand(1 << 21, 8) @ huge.expand(8, 1 << 22), refused):
            try:
                one()
            except RuntimeError:
                pass

    def refused():
        with torch.autograd.graph.saved_tensors_hooks(refuse, refuse):
            return a.clone().requires_grad_() @ b
    return work


def checkpointed():
    """Two layers of 8 and 16, 4 samples: two products forward, four backward, and the first one recomputed."""
    from torch.utils.checkpoint import checkpoint
    layers = torch.nn.Sequential(torch.nn.Linear(8, 16, bias=False), torch.nn.ReLU(), torch.nn.Linear(16, 8, bias=False))
    x = torch.randn(4, 8, requires_grad=True)
    return lambda: checkpoint(layers, x, use_reentrant=False).sum().backward()


def layers_of_two():
    """Two products of 4 x 8 x 16 in a forward pass."""
    layers = torch.nn.Sequential(torch.nn.Linear(8, 16, bias=False), torch.nn.ReLU(), torch.nn.Linear(16, 8, bias=False))
    return layers, torch.randn(4, 8, requires_grad=True)


def recompute_stopping():
    """Two products forward and four backward. The first one is recomputed; recomputation then stops, because nothing later was saved."""
    from torch.utils.checkpoint import checkpoint
    layers, x = layers_of_two()
    return lambda: checkpoint(layers, x, use_reentrant=False).sum().backward()


def recompute_reentrant():
    """Two products forward and four backward; both forward ones are recomputed."""
    from torch.utils.checkpoint import checkpoint
    layers, x = layers_of_two()
    return lambda: checkpoint(layers, x, use_reentrant=True).sum().backward()


def recompute_nested():
    """Two products forward, four backward. Both forward ones are recomputed, and the first once more for the inner checkpoint."""
    from torch.utils.checkpoint import checkpoint
    layers, x = layers_of_two()
    inner = lambda x: layers[2](checkpoint(layers[:2], x, use_reentrant=True))
    return lambda: checkpoint(inner, x, use_reentrant=True).sum().backward()


def recompute_autocast():
    """Like recompute_reentrant, in bfloat16 and inside a range."""
    from torch.utils.checkpoint import checkpoint
    layers, x = layers_of_two()

    def ranged(x):
        with torch.profiler.record_function("both"):
            return layers(x)

    def work():
        with torch.autocast("cpu", torch.bfloat16):
            y = checkpoint(ranged, x, use_reentrant=True)
        y.float().sum().backward()
    return work


def recompute_of_gradients():
    """Like twice_gradient, with the products and their gradient in a checkpoint: these four are recomputed."""
    from torch.utils.checkpoint import checkpoint
    layers, x = layers_of_two()

    def force(x):
        with torch.enable_grad():
            return torch.autograd.grad(layers(x).sum(), x, create_graph=True)[0]
    return lambda: checkpoint(force, x, use_reentrant=True).pow(2).sum().backward()


def twice_gradient():
    """A gradient penalty. Two products forward, and two for the gradient of x. The backward pass of that has three gradients of the
    gradient's products (its constant ones need none), and two of the first layer, which gets zeros from the ReLU."""
    layers, x = layers_of_two()

    def work():
        slope, = torch.autograd.grad(layers(x).sum(), x, create_graph=True)
        slope.pow(2).sum().backward()
    return work


class Product(torch.autograd.Function):
    """x @ w with a custom backward function."""

    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return gradient @ w.t(), x.t() @ gradient


def twice_function():
    """One product forward and two backward."""
    x, w = torch.randn(4, 8, requires_grad=True), torch.randn(8, 16, requires_grad=True)
    return lambda: Product.apply(x, w).sum().backward()


def twice_function_gradient():
    """One product forward and two for its gradient. The backward pass of that needs the gradient of w only: its constant ones need none."""
    x, w = torch.randn(4, 8, requires_grad=True), torch.randn(8, 16, requires_grad=True)

    def work():
        slope, = torch.autograd.grad(Product.apply(x, w).sum(), x, create_graph=True)
        slope.pow(2).sum().backward()
    return work


def packed():
    """4 x 64 by 64 x 32 in each form that CPU inference offers."""
    from torch.utils import mkldnn
    x, linear = torch.randn(4, 64), torch.nn.Linear(64, 32).eval()
    dense = mkldnn.to_mkldnn(torch.nn.Linear(64, 32).eval())
    whole, scales = torch.randint(-9, 9, (32, 64), dtype=torch.int8), torch.ones(32).bfloat16()
    quantized = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(64, 32)), {torch.nn.Linear})

    def work():
        with torch.no_grad():
            linear(x), dense(x.to_mkldnn()), torch.ops.aten._weight_int8pack_mm(x.bfloat16(), whole, scales), quantized(x)
    return work


def main():
    weight = torch.nn.Parameter(torch.zeros(1))
    weight.grad = torch.zeros(1)
    optimizer = torch.optim.SGD([weight], lr=0.01, foreach=False)
    for what in sys.argv[1:]:
        step = globals()[what]()
        for _ in range(6):
            step()
            optimizer.step()


main()
