# SPDX-License-Identifier: Apache-2.0
"""Records a step with torch.profiler while cprof records it, too, and gives the file to cprof: foreign.py FILE [removed]"""

import os
import sys

import cprof
import torch

path = sys.argv[1]
model = torch.nn.Linear(64, 64)


def step(name):
    with torch.profiler.record_function(name):
        model(torch.randn(8, 64)).sum().backward()


step("before")
cprof.step()  # ends step 0
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
    for number in range(3):
        step(f"both {number}")
profiler.export_chrome_trace(path)
print(os.path.getsize(path), cprof.record_chrome_json_trace_file(path))
if "removed" in sys.argv:
    os.rename(path, path + ".kept")
step("after")
cprof.step()
