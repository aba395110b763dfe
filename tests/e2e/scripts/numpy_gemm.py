# SPDX-License-Identifier: Apache-2.0
"""Multiplies matrices with NumPy, one product of each number type per step, and prints their sums."""

import ctypes

import numpy

step = getattr(ctypes.CDLL(None), "cprof_step", lambda: None)
for _ in range(4):
    for dtype in ("float32", "float64", "complex64"):
        a = numpy.arange(30 * 40, dtype=dtype).reshape(30, 40)
        print(dtype, (a @ a.reshape(40, 30)).sum())
    step()
