# SPDX-License-Identifier: Apache-2.0
"""Nanoseconds of one CPU allocation and its release by torch's allocator, the best of many loops: `allocation_cost.py HELPER KIND`. KIND:
bare (without the library), idle (under it, between windows), recording."""

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
    time.sleep(0.002)  # the cprof thread empties the ring
print(f"pair {best:.1f} ns")
