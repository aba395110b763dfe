# SPDX-License-Identifier: Apache-2.0
"""allocation_cost.py HELPER KIND: nanoseconds of a CPU allocation and its release by torch's allocator, the best of many loops. KIND: bare (without
the library), idle (with the library, between windows), recording."""

import ctypes
import sys
import time

import torch

helper = ctypes.CDLL(sys.argv[1])
helper.allocation_pair.restype = ctypes.c_double
torch.zeros(4)
if sys.argv[2] != "bare":
    ctypes.CDLL(None).cprof_step()
best = float("inf")
for _ in range(400):
    best = min(best, helper.allocation_pair(500))
    time.sleep(0.002)  # lets the cprof thread empty the ring
print(f"pair {best:.1f} ns")
