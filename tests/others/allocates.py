# SPDX-License-Identifier: Apache-2.0
"""A program for memory profilers: allocates, marks steps and prints to stdout and stderr, for the time of a few flushes."""

import ctypes
import sys
import time

library = ctypes.CDLL(None)
if hasattr(library, "cprof_step"):
    push, pop, step = library.cprof_range_push, library.cprof_range_pop, library.cprof_step
else:
    push = pop = step = lambda *unused: 0

for i in range(15):
    push(b"work")
    kept = [bytes(1000 + k) for k in range(200)]
    pop()
    step()
    print("line", i, flush=True)
    print("said", i, file=sys.stderr, flush=True)
    time.sleep(0.05)
