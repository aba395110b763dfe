# SPDX-License-Identifier: Apache-2.0
"""Floating-point operations of an operator from the shapes in its args, by torch.profiler's formulas.

For traces of torch.profiler made with with_flops=True: torch's table has the FLOPs, the trace has only the shapes.
Formulas: torch/csrc/profiler/util.cpp, computeFlops().
"""

import json
from typing import Any, Dict, List, Optional


TORCH_FLOPS = frozenset(("aten::conv2d", "aten::mm", "aten::bmm", "aten::addmm", "aten::baddbmm", "aten::mul", "aten::add"))


def _sizes(dims: Any, at: int) -> List[int]:
    sizes = dims[at]
    if type(sizes) is not list or not all(type(size) is int and size >= 0 for size in sizes):
        raise ValueError
    return sizes


def _product(sizes: List[int]) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result


def _matrices(dims: Any, first: int) -> int:
    one, other = _sizes(dims, first), _sizes(dims, first + 1)
    if len(one) < 2 or len(other) < 2:
        raise ValueError
    return 2 * _product(one) * _product(other[:-2] if len(other) == 2 else []) * other[-1]


def _pair(concrete: Any, at: int) -> List[int]:
    value = json.loads(concrete[at])
    if type(value) is not list or len(value) != 2 or not all(type(one) is int for one in value):
        raise ValueError
    return value


def _convolution(dims: Any, concrete: Any) -> int:
    images, _, height, width = _sizes(dims, 0)
    out_channels, channels_of_group, kernel_height, kernel_width = _sizes(dims, 1)
    stride, padding, dilation = _pair(concrete, 3), _pair(concrete, 4), _pair(concrete, 5)
    if not all(stride):
        raise ValueError
    out_height = (height + 2 * padding[0] - dilation[0] * (kernel_height - 1) - 1) // stride[0] + 1
    out_width = (width + 2 * padding[1] - dilation[1] * (kernel_width - 1) - 1) // stride[1] + 1
    return 2 * images * out_height * out_width * kernel_height * kernel_width * channels_of_group * out_channels


def torch_flops(name: str, args: Dict[str, Any]) -> Optional[int]:
    """The FLOPs that torch counts for this operator; None if it counts nothing or the args lack the shapes."""
    dims = args.get("Input Dims")
    try:
        if name == "aten::conv2d":
            return _convolution(dims, args["Concrete Inputs"])
        if name in ("aten::mm", "aten::bmm"):
            return _matrices(dims, 0)
        if name in ("aten::addmm", "aten::baddbmm"):
            return _matrices(dims, 1)
        if name in ("aten::mul", "aten::add"):
            return _product(_sizes(dims, 0))
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        pass
    return None
