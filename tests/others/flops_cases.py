# SPDX-License-Identifier: Apache-2.0
"""The program of flops_sweep.py: flops_cases.py KIND OUT. Runs one operator a step. Writes a JSON list to OUT: the name of each operator, whether it
raised, and its floating-point operations as worked out by hand, or null if they are unknown.

KIND: a layout (strided, turned, complex, coo, csr, csc, bsr, mkldnn, nested), `raising`, or `samples`. With `raising`, each operator of the layout
strided raises. `samples` are torch's own sample inputs of its operators with their gradients, compared with torch.utils.flop_counter."""

import ctypes
import importlib.util
import json
import sys
import time
import types
import unittest
import warnings

import torch
from torch.utils._python_dispatch import TorchDispatchMode

M, K, N, B = 4, 8, 6, 2
A = torch.ops.aten
# {operator of one tensor: operations per element}
ONE = dict(sqrt=1, rsqrt=1, exp=1, log=1, neg=1, reciprocal=1, sin=1, cos=1, relu=0, relu_=0, gelu=1, silu=1, silu_=1, sigmoid=1, sigmoid_=1, tanh=1,
           tanh_=1, leaky_relu=1, elu=1, softplus=1, hardswish=1, sum=1, mean=1)
# {operator of two tensors of one size: operations per element}
TWO = dict(add=1, mul=1, add_=1, mul_=1, sub=1, sub_=1, div=1, div_=1, maximum=0, minimum=0, sigmoid_backward=2, tanh_backward=2, silu_backward=2,
           gelu_backward=2, mse_loss=3)
# {operator of a list of tensors: (operations per element, the other inputs: numbers or "list")}
LISTS = dict(_foreach_add=(1, 1.0), _foreach_add_=(1, 1.0), _foreach_sub=(1, 1.0), _foreach_sub_=(1, 1.0), _foreach_mul=(1, 2.0), _foreach_mul_=(1, 2.0),
             _foreach_div=(1, 2.0), _foreach_div_=(1, 2.0), _foreach_neg=(1,), _foreach_neg_=(1,), _foreach_sqrt=(1,), _foreach_sqrt_=(1,),
             _foreach_pow=(1, 2.0), _foreach_pow_=(1, 2.0), _foreach_reciprocal_=(1,), _foreach_maximum_=(0, 1.0), _foreach_lerp_=(3, "list", 0.5),
             _foreach_addcmul_=(3, "list", "list"), _foreach_addcdiv_=(3, "list", "list"), _foreach_norm=(2,), _foreach_zero_=(0,), _foreach_copy_=(0, "list"),
             cat=(0,))


def positive(*sizes, dtype=torch.float32):
    return torch.rand(*sizes).to(dtype) + 0.5


class Layout:
    """A layout of tensors: makes tensors of it, and counts the numbers that they store."""

    def __init__(self, kind):
        self.kind = kind
        self.factor = 4 if kind == "complex" else 1  # products of complex numbers
        self.dtype = torch.complex64 if kind == "complex" else torch.float32

    def dense(self, *sizes):
        return positive(*sizes, dtype=self.dtype)

    def of(self, *sizes):
        """A tensor of these sizes in this layout. In a sparse layout half of its rows are zeros."""
        x = self.dense(*sizes)
        if self.kind == "turned":
            return x.transpose(-1, -2).contiguous().transpose(-1, -2) if x.dim() > 1 else x.repeat_interleave(2)[::2]
        if self.kind == "mkldnn":
            return x.to_mkldnn()
        if self.kind == "nested":
            return torch.nested.nested_tensor(list(x))
        if self.kind in ("coo", "csr", "csc", "bsr"):
            if x.dim() < 2 and self.kind != "coo":
                raise RuntimeError("compressed tensors have two dimensions")
            x[..., ::2, :] = 0
            return {"coo": x.to_sparse, "csr": x.to_sparse_csr, "csc": x.to_sparse_csc, "bsr": lambda: x.to_sparse_bsr((2, 2))}[self.kind]()
        return x

    def stored(self, *sizes):
        n = 1
        for size in sizes:
            n *= size
        # In bsr, a block of two rows also stores the zeros of one of them.
        return n // 2 if self.kind in ("coo", "csr", "csc") else n


def products(layout):
    """(operator, call, operations) of matrix products. The first matrix has the layout."""
    of, dense, f = layout.of, layout.dense, layout.factor
    mm, mv = 2 * f * layout.stored(M, K) * N, 2 * f * layout.stored(M, K)
    bmm = 2 * f * layout.stored(B, M, K) * N
    yield "mm", lambda: (A.mm, of(M, K), dense(K, N)), mm
    yield "addmm", lambda: (A.addmm, dense(M, N), of(M, K), dense(K, N)), mm
    yield "addmm_", lambda: (A.addmm_, dense(M, N), of(M, K), dense(K, N)), mm
    yield "_addmm_activation", lambda: (A._addmm_activation, dense(N), of(M, K), dense(K, N)), mm
    yield "mv", lambda: (A.mv, of(M, K), dense(K)), mv
    yield "addmv", lambda: (A.addmv, dense(M), of(M, K), dense(K)), mv
    yield "addmv_", lambda: (A.addmv_, dense(M), of(M, K), dense(K)), mv
    yield "bmm", lambda: (A.bmm, of(B, M, K), dense(B, K, N)), bmm
    yield "baddbmm", lambda: (A.baddbmm, dense(B, M, N), of(B, M, K), dense(B, K, N)), bmm
    yield "baddbmm_", lambda: (A.baddbmm_, dense(B, M, N), of(B, M, K), dense(B, K, N)), bmm
    yield "addbmm", lambda: (A.addbmm, dense(M, N), of(B, M, K), dense(B, K, N)), bmm
    yield "addbmm_", lambda: (A.addbmm_, dense(M, N), of(B, M, K), dense(B, K, N)), bmm
    yield "dot", lambda: (A.dot, of(K), dense(K)), 2 * f * K
    yield "vdot", lambda: (A.vdot, of(K), dense(K)), 2 * f * K
    yield "matmul", lambda: (A.matmul, of(B, M, K), dense(B, K, N)), bmm
    yield "linear", lambda: (A.linear, of(M, K), dense(N, K), dense(N)), mm
    yield "einsum", lambda: (torch.einsum, "ij,jk->ik", of(M, K), dense(K, N)), mm
    yield "mm, dense by it", lambda: (A.mm, dense(N, M), of(M, K)), mm
    yield "mm, both", lambda: (A.mm, of(M, K), of(K, N)), None if layout.kind in ("coo", "csr", "csc", "bsr") else mm
    for name, per, extra in (("_sparse_addmm", mm, ()), ("sspaddmm", mm, ()), ("hspmm", mm, ())):
        first = () if name == "hspmm" else (of if name == "sspaddmm" else dense,)
        yield name, lambda name=name, first=first: (getattr(A, name), *(one(M, N) for one in first), of(M, K), dense(K, N)), per


def element_wise(layout):
    of, dense, n = layout.of, layout.dense, layout.stored(M, K)
    for name, per in ONE.items():
        yield name, lambda name=name: (getattr(A, name), of(M, K)), n * per
    for name, per in TWO.items():
        yield name, lambda name=name: (getattr(A, name), of(M, K), of(M, K)), n * per if n == M * K else None
        if "_" not in name:
            yield f"{name}, by a number", lambda name=name: (getattr(A, name), of(M, K), 2.0), n * per
    yield "mul, broadcast", lambda: (A.mul, of(M, K), dense(K)), n if n == M * K else None
    yield "add, first is smaller", lambda: (A.add, dense(K), dense(M, K)), K  # torch's own rule
    yield "sub, broadcast", lambda: (A.sub, dense(K), dense(M, K)), M * K
    yield "pow", lambda: (A.pow, of(M, K), 2.0), n
    yield "clamp_min", lambda: (A.clamp_min, of(M, K), 0.0), 0
    yield "clamp_min_", lambda: (A.clamp_min_, of(M, K), 0.0), 0
    yield "threshold_backward", lambda: (A.threshold_backward, of(M, K), of(M, K), 0.0), 0
    yield "leaky_relu_backward", lambda: (A.leaky_relu_backward, of(M, K), of(M, K), 0.1, False), 2 * n
    yield "elu_backward", lambda: (A.elu_backward, of(M, K), 1.0, 1.0, 1.0, False, of(M, K)), 2 * n
    yield "mse_loss_backward", lambda: (A.mse_loss_backward, dense(M, K), of(M, K), of(M, K), 0), 3 * n
    for name in ("addcmul", "addcmul_", "addcdiv", "addcdiv_"):
        yield name, lambda name=name: (getattr(A, name), of(M, K), of(M, K), of(M, K)), 3 * n if n == M * K else None
    yield "lerp", lambda: (A.lerp, of(M, K), of(M, K), 0.5), 3 * n
    yield "lerp_", lambda: (A.lerp_, of(M, K), of(M, K), 0.5), 3 * n
    yield "cumsum", lambda: (A.cumsum, of(M, K), 1), n
    yield "linalg_vector_norm", lambda: (A.linalg_vector_norm, of(M, K)), 2 * n
    yield "_softmax", lambda: (A._softmax, of(M, K), 1, False), 4 * n
    yield "_log_softmax", lambda: (A._log_softmax, of(M, K), 1, False), 4 * n
    yield "_softmax_backward_data", lambda: (A._softmax_backward_data, of(M, K), of(M, K), 1, torch.float32), 4 * n
    yield "_log_softmax_backward_data", lambda: (A._log_softmax_backward_data, of(M, K), of(M, K), 1, torch.float32), 4 * n
    yield "native_dropout", lambda: (A.native_dropout, of(M, K), 0.5, True), 2 * n
    yield "native_dropout_backward", lambda: (A.native_dropout_backward, of(M, K), torch.ones(M, K, dtype=torch.bool), 2.0), 2 * n
    for name, per in (("copy_", 0), ("fill_", 0), ("zero_", 0)):
        yield name, lambda name=name: (getattr(A, name), of(M, K), *{"copy_": [of(M, K)], "fill_": [1.0], "zero_": []}[name]), per
    yield "native_layer_norm", lambda: (A.native_layer_norm, of(M, K), [K], dense(K), dense(K), 1e-5), 7 * M * K
    yield "_fused_rms_norm", lambda: (A._fused_rms_norm, of(M, K), [K], dense(K), 1e-5), 4 * M * K


def gradients(layout):
    """Norms, convolutions and their gradients, on images of the layout."""
    of, dense, n = layout.of, layout.dense, B * M * K * K
    image, channels = lambda: of(B, M, K, K), lambda: dense(M)
    for name, more in (("native_batch_norm", (True, 0.1, 1e-5)), ("_native_batch_norm_legit", (True, 0.1, 1e-5)), ("_batch_norm_with_update", (0.1, 1e-5))):
        yield name, lambda name=name, more=more: (getattr(A, name), image(), channels(), channels(), channels(), channels(), *more), 7 * n
    yield "native_group_norm", lambda: (A.native_group_norm, image(), channels(), channels(), B, M, K * K, 2, 1e-5), 7 * n
    yield "native_layer_norm_backward", lambda: (A.native_layer_norm_backward, dense(M, K), of(M, K), [K], dense(M, 1), dense(M, 1), dense(K), dense(K),
                                                 [True] * 3), 13 * M * K
    yield "native_batch_norm_backward", lambda: (A.native_batch_norm_backward, dense(B, M, K, K), image(), *(channels() for _ in range(5)), True, 1e-5,
                                                 [True] * 3), 13 * n
    yield "batch_norm_backward", lambda: (A.batch_norm_backward, dense(B, M, K, K), image(), *(channels() for _ in range(5)), True, 1e-5, [True] * 3,
                                          torch.zeros(0, dtype=torch.uint8)), 13 * n
    yield "native_group_norm_backward", lambda: (A.native_group_norm_backward, dense(B, M, K, K), image(), dense(B, 2), dense(B, 2), dense(M), B, M, K * K, 2,
                                                 [True] * 3), 13 * n
    yield "_adaptive_avg_pool2d", lambda: (A._adaptive_avg_pool2d, image(), [2, 2]), n
    yield "max_pool2d_with_indices", lambda: (A.max_pool2d_with_indices, image(), [2, 2]), 0
    # 2 images, 4 channels to 6, 8 x 8 and filters of 3 x 3
    conv = 2 * layout.factor * B * N * K * K * M * 9
    filters = lambda: dense(N, M, 3, 3)
    yield "conv2d", lambda: (A.conv2d, image(), filters(), None, [1, 1], [1, 1]), conv
    # Of complex numbers torch makes three real convolutions, and sums of inputs, filters and results.
    three = 3 * conv // 4 + B * M * K * K + N * M * 9 + 5 * B * N * K * K
    yield "conv2d, by name", lambda: (A.conv2d.padding, image(), filters(), None, [1, 1], "same"), three if layout.kind == "complex" else conv
    yield "convolution", lambda: (A.convolution, image(), filters(), None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1), conv
    yield "conv2d, groups", lambda: (A.conv2d, image(), dense(N, M // 2, 3, 3), None, [1, 1], [1, 1], [1, 1], 2), conv // 2
    yield "conv2d, strides", lambda: (A.conv2d, image(), filters(), None, [2, 2], [1, 1]), conv // 4
    yield "conv2d, wide", lambda: (A.conv2d, image(), filters(), None, [1, 1], [2, 2], [2, 2]), conv
    yield "mkldnn_convolution", lambda: (A.mkldnn_convolution, image(), filters(), None, [1, 1], [1, 1], [1, 1], 1), conv
    yield "_slow_conv2d_forward", lambda: (A._slow_conv2d_forward, image(), filters(), [3, 3], None, [1, 1], [1, 1]), conv
    yield "conv_transpose2d", lambda: (A.conv_transpose2d, image(), dense(M, N, 3, 3)), conv
    yield "convolution, transposed", lambda: (A.convolution, image(), dense(M, N, 3, 3), None, [1, 1], [0, 0], [1, 1], True, [0, 0], 1), conv
    yield "conv1d", lambda: (A.conv1d, of(B, M, K), dense(N, M, 3), None, [1], [1]), 2 * layout.factor * B * N * K * M * 3
    yield "conv_transpose1d", lambda: (A.conv_transpose1d, of(B, M, K), dense(M, N, 3)), 2 * layout.factor * B * N * K * M * 3
    yield "conv3d", lambda: (A.conv3d, of(B, M, K, K, K), dense(N, M, 3, 3, 3), None, [1] * 3, [1] * 3), conv * K * 3
    yield "conv_transpose3d", lambda: (A.conv_transpose3d, of(B, M, K, K, K), dense(M, N, 3, 3, 3)), conv * K * 3
    for wanted in ([True, True, True], [True, False, False], [False, True, False], [False, False, True]):
        yield f"convolution_backward, {wanted}", lambda wanted=wanted: (
            A.convolution_backward, dense(B, N, K, K), image(), filters(), [N], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, wanted), conv * sum(wanted[:2])


def attention(layout):
    """Attention over 2 samples with 3 heads of size 8, 4 queries and 6 keys."""
    of, dense = layout.of, layout.dense
    q, k = lambda: of(B, 3, M, K), lambda: dense(B, 3, N, K)
    scores = 2 * layout.factor * B * 3 * M * N * K
    yield "_scaled_dot_product_flash_attention_for_cpu", lambda: (A._scaled_dot_product_flash_attention_for_cpu, q(), k(), k()), 2 * scores
    if layout.kind in ("strided", "turned"):  # in other layouts it raises after the first product
        attend = torch.nn.functional.scaled_dot_product_attention
        # as single operators: both inputs scaled, softmax, the mask added
        more = B * 3 * (M * K + N * K + 4 * M * N) if layout.kind == "turned" else 0
        yield "scaled_dot_product_attention", lambda: (attend, q(), k(), k()), 2 * scores + more
        yield "scaled_dot_product_attention, mask", lambda: (attend, q(), k(), k(), torch.ones(M, N, dtype=torch.bool)), \
            2 * scores + (more and more + B * 3 * M * N)

    def backward():
        out, log = A._scaled_dot_product_flash_attention_for_cpu(q(), k(), k())
        return (A._scaled_dot_product_flash_attention_for_cpu_backward, dense(B, 3, M, K), q(), k(), k(), out, log, 0.0, False)
    yield "_scaled_dot_product_flash_attention_for_cpu_backward", backward, 5 * scores


def others(layout):
    """Operators without a choice of layout: lists, look-ups, optimizers, recurrent layers, packed and small numbers."""
    tensors = lambda: [positive(M, K), positive(N)]
    n = M * K + N
    for name, (per, *more) in LISTS.items():
        if name == "cat":
            yield name, lambda: (A.cat, [positive(M, K), positive(M, K)]), 0
            continue
        yield name, lambda name=name, more=more: (getattr(A, name), tensors(), *(tensors() if one == "list" else one for one in more)), n * per
    steps = lambda: [torch.ones(()) for _ in range(2)]
    for name, per in (("_fused_adam_", 13), ("_fused_adamw_", 14)):
        yield name, lambda name=name: (lambda *a: getattr(A, name)(*a, lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.0, eps=1e-8, amsgrad=False, maximize=False),
                                       tensors(), tensors(), tensors(), tensors(), [], steps()), n * per
    yield "_fused_adagrad_", lambda: (lambda *a: A._fused_adagrad_(*a, lr=0.1, lr_decay=0.0, weight_decay=0.0, eps=1e-8, maximize=False),
                                      tensors(), tensors(), tensors(), steps()), n * 7
    yield "_fused_sgd_", lambda: (lambda *a: A._fused_sgd_(*a, weight_decay=0.0, momentum=0.9, lr=0.1, dampening=0.0, nesterov=False, maximize=False,
                                                           is_first_step=False), tensors(), tensors(), tensors()), n * 4
    rows = lambda: torch.randint(M, (N,))
    yield "embedding", lambda: (A.embedding, positive(M, K), rows()), 0
    yield "embedding_dense_backward", lambda: (A.embedding_dense_backward, positive(N, K), rows(), M, -1, False), N * K
    for name in ("_embedding_bag", "_embedding_bag_forward_only"):
        for mode, per in ((0, 1), (1, 1), (2, 0)):
            yield f"{name}, mode {mode}", lambda name=name, mode=mode: (getattr(A, name), positive(M, K), rows(), torch.tensor([0, 2]), False, mode), N * K * per
    lstm = torch.nn.LSTM(K, N)
    bag = torch.tensor([0] * 2 + [1] * (N - 2))
    yield "_embedding_bag_dense_backward", lambda: (A._embedding_bag_dense_backward, positive(2, K), rows(), bag, torch.tensor([2, N - 2]), torch.tensor([]), M,
                                                    False, 0, None), N * K
    # 3 steps of 2 samples, four gates, inputs of 8 and 6. In the backward pass each gradient costs as much; the result is summed.
    layer = 2 * 3 * B * 4 * N * (K + N)
    yield "lstm", lambda: (lstm, positive(3, B, K)), layer

    def trained(x):
        with torch.enable_grad():
            lstm(x)[0].sum().backward()
    yield "lstm, trained", lambda: (trained, positive(3, B, K)), 3 * layer + 3 * B * N
    cell = torch.nn.LSTMCell(K, N)
    # Two products; for each number of the state 4 sums, 4 gates, 3 operations for the cell and 2 for the result.
    yield "lstm_cell", lambda: (cell, positive(B, K)), 2 * B * 4 * N * (K + N) + 13 * B * N
    yield "_int_mm", lambda: (A._int_mm, torch.ones(M * 8, K, dtype=torch.int8), torch.ones(K, N, dtype=torch.int8)), 2 * M * 8 * K * N
    eight = lambda *sizes: positive(*sizes).to(torch.float8_e4m3fn)
    one = lambda: torch.ones(())
    yield "_scaled_mm", lambda: (A._scaled_mm, eight(16, 32), eight(16, 32).t(), one(), one()), 2 * 16 * 32 * 16
    groups = torch.tensor([2, M], dtype=torch.int32)
    half = lambda *sizes: positive(*sizes, dtype=torch.bfloat16)
    yield "_grouped_mm, rows", lambda: (A._grouped_mm, half(M, 16), half(2, 16, 8), groups), 2 * M * 16 * 8
    yield "_grouped_mm, batch", lambda: (A._grouped_mm, half(2, M, 16), half(2, 16, 8)), 2 * 2 * M * 16 * 8
    yield "_weight_int8pack_mm", lambda: (A._weight_int8pack_mm, half(M, 64), torch.ones(32, 64, dtype=torch.int8), half(32)), 2 * M * 64 * 32
    packed = lambda: A._convert_weight_to_int4pack_for_cpu(torch.ones(32, 64, dtype=torch.int32), 1)
    yield "_weight_int4pack_mm_for_cpu", lambda: (A._weight_int4pack_mm_for_cpu, half(M, 64), packed(), 32, half(2, 32, 2)), 2 * M * 64 * 32
    mkldnn = torch.ops.mkldnn
    weight = lambda: mkldnn._reorder_linear_weight(positive(32, 64), M)
    yield "mkldnn::_linear_pointwise", lambda: (mkldnn._linear_pointwise, positive(M, 64), weight(), None, "none", [], ""), 2 * M * 64 * 32
    yield "mkldnn::_linear_pointwise, added", lambda: (mkldnn._linear_pointwise.binary, positive(M, 64), positive(M, 32), weight(), None, "add"), 2 * M * 64 * 32
    yield "mkldnn_linear", lambda: (A.mkldnn_linear, positive(M, 64).to_mkldnn(), positive(32, 64).to_mkldnn()), 2 * M * 64 * 32
    if hasattr(torch.ops, "mkl") and torch.backends.mkl.is_available():
        original = positive(32, 64)
        mkl = lambda: torch.ops.mkl._mkl_reorder_linear_weight(original, M)
        yield "mkl::_mkl_linear", lambda: (torch.ops.mkl._mkl_linear, positive(M, 64), mkl(), original, None, M), 2 * M * 64 * 32
    conv = 2 * B * N * K * K * M * 9
    image, filters = lambda: positive(B, M, K, K), positive(N, M, 3, 3)
    args = ([1, 1], [1, 1], [1, 1], 1)
    yield "mkldnn::_convolution_pointwise", lambda: (mkldnn._convolution_pointwise, image(), filters, None, *args, "none", [], ""), conv
    yield "mkldnn::_convolution_pointwise, added", lambda: (mkldnn._convolution_pointwise.binary, image(), positive(B, N, K, K), filters, None, *args, "add",
                                                            None, None, [], None), conv
    yield "mkldnn::_convolution_pointwise_, added", lambda: (mkldnn._convolution_pointwise_.binary, positive(B, N, K, K), image(), filters, None, *args, "add",
                                                             None, None, [], None), conv
    quantized = torch.ao.quantization.quantize_dynamic(torch.nn.Sequential(torch.nn.Linear(64, 32)), {torch.nn.Linear})
    yield "an unknown operator", lambda: (torch.ops.cprof_sweep.fused_mlp, positive(M, K), positive(K, N)), None
    yield "quantized::linear_dynamic", lambda: (quantized, positive(M, 64)), None
    # Squares and their sums, one side times -2, and the product of the concatenated matrices.
    yield "cdist", lambda: (torch.cdist, positive(30, K), positive(30, K)), 2 * 2 * 30 * K + 30 * K + 2 * 30 * 30 * (K + 2)
    # Four layers, two products of two heads, scaled queries, softmax, the mean of the heads.
    yield "multi_head_attention", lambda: (mha, *[positive(3, B, K)] * 3), \
        4 * 2 * 3 * B * K * K + 2 * 2 * B * 2 * 3 * 3 * (K // 2) + 3 * B * K + 5 * B * 2 * 3 * 3
    mha = torch.nn.MultiheadAttention(K, 2, bias=False)


@torch.library.custom_op("cprof_sweep::fused_mlp", mutates_args=())
def fused_mlp(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.zeros(x.shape[0], w.shape[1])


class Refusing(TorchDispatchMode):
    """Makes each operator raise."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        raise RuntimeError("refused")


def samples():
    """(operator, call, operations) of torch's own samples: the first three of each operator, with their gradients."""
    if not importlib.util.find_spec("expecttest"):  # torch's module imports it for test classes that are not needed here
        sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase)
    from torch.testing._internal.common_methods_invocations import op_db
    from torch.utils.flop_counter import FlopCounterMode
    for info in op_db:
        if torch.float32 not in info.supported_dtypes("cpu"):
            continue
        try:
            found = [sample for sample, _ in zip(info.sample_inputs("cpu", torch.float32, requires_grad=info.supports_autograd), range(3))]
        except Exception:
            continue
        for sample in found:
            def call(info=info, sample=sample):
                out = info(sample.input, *sample.args, **sample.kwargs)
                out = out[0] if isinstance(out, (tuple, list)) and out else out
                if isinstance(out, torch.Tensor) and out.requires_grad:
                    out.sum().abs().backward()
            try:
                call()
                with FlopCounterMode(display=False) as counter:
                    call()
            except Exception:
                continue
            if counter.get_total_flops():
                yield info.name, lambda call=call: (call,), counter.get_total_flops()


def cases(kind):
    if kind == "samples":
        return list(samples())
    layout = Layout("strided" if kind == "raising" else kind)
    parts = [products, element_wise, gradients, attention] + ([others] if layout.kind == "strided" else [])
    return [case for part in parts for case in part(layout)]


def main():
    kind, out = sys.argv[1:]
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    told, step = [], ctypes.CDLL(None).cprof_step
    ready = []
    for name, make, flops in cases(kind):
        try:
            function, *args = make()
        except Exception:
            continue  # torch cannot make such a tensor
        ready.append((name, function, args, flops))
    step()
    for name, function, args, flops in ready:
        raised = ""
        try:
            if kind == "raising":
                with Refusing():
                    function(*args)
            elif kind == "samples":
                function(*args)
            else:
                with torch.no_grad():
                    function(*args)
        except Exception as error:
            raised = f"{type(error).__name__}: {error}".splitlines()[0]
        step()
        time.sleep(0.005)  # so that each step's trace gets its file
        told.append({"name": name, "raised": raised, "flops": flops})
    with open(out, "w", encoding="utf-8") as file:
        json.dump(told, file)


main()
