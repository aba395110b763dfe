# SPDX-License-Identifier: Apache-2.0
"""ITT from PyTorch: ranges, marks and emit_itt. Prints the calls' return values. Argument: the mode."""

import json
import sys

import torch

itt = torch.profiler.itt
mode = sys.argv[1]
answers = {"available": itt.is_available()}

if mode == "ranges":
    for i in range(3):
        answers["push"] = [itt.range_push(f"step {i}"), itt.range_push('inner "quoted"')]
        torch.ones(3).add(1)
        answers["pop"] = [itt.range_pop(), itt.range_pop()]
    answers["mark"] = itt.mark("moment")
    with itt.range("with {}", "format"):
        torch.ones(2)
elif mode == "before":
    torch.ones(3)  # starts cprof before the first ITT call
    itt.range_push("late")
    itt.range_pop()
elif mode == "emit":
    x = torch.ones(3, requires_grad=True)
    with torch.autograd.profiler.emit_itt():
        (x * 2).sum().backward()
elif mode == "unbalanced":
    itt.range_pop()
    itt.range_push("left open")
    itt.range_push("ended")
    itt.range_pop()
print(json.dumps(answers))
