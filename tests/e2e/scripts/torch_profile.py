# SPDX-License-Identifier: Apache-2.0
"""Runs a small training under torch.profiler. Writes into the given folder the traces plain.json and stack.json, and beside
each the tables, stacks and memory timeline that torch makes of the same run."""

import inspect
import pathlib
import sys
import warnings

import torch
from torch.profiler import ProfilerActivity, profile, record_function

warnings.simplefilter("ignore")  # export_memory_timeline is deprecated
folder = pathlib.Path(sys.argv[1])
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(8 * 30 * 30, 10))
optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
x = torch.randn(4, 3, 32, 32)


def train(**options):
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True, profile_memory=True, with_flops=True, **options,
                 schedule=torch.profiler.schedule(wait=0, warmup=1, active=3, repeat=1)) as p:
        for _ in range(4):
            with record_function("forward"):
                loss = model(x).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            p.step()
    return p


# Since torch 2.15, Python functions have rows only on request; before they always had them.
CHOICES = {"": {}, "functions.": {"include_python_functions": True}}
if "include_python_functions" not in inspect.signature(profile.key_averages).parameters:
    CHOICES = {"functions.": {}}


def tables(p, name):
    p.export_chrome_trace(str(folder / f"{name}.json"))
    for case, group, options in (("plain", {}, {}), ("sorted", {}, {"sort_by": "self_cpu_time_total", "row_limit": 7}),
                                 ("memory", {}, {"sort_by": "self_cpu_memory_usage", "row_limit": -1}),
                                 ("shapes", {"group_by_input_shape": True}, {"sort_by": "count"}),
                                 ("stacks", {"group_by_stack_n": 4}, {"row_limit": 50})):
        for choice, functions in CHOICES.items():
            (folder / f"{name}.{case}.{choice}txt").write_text(p.key_averages(**group, **functions).table(**options))


tables(train(), "plain")
verbose = torch._C._profiler._ExperimentalConfig(verbose=True)
stacked = train(with_stack=True, with_modules=True, experimental_config=verbose)
tables(stacked, "stack")
stacked.export_stacks(str(folder / "stack.stacks"))
if hasattr(stacked, "export_memory_timeline"):
    stacked.export_memory_timeline(str(folder / "stack.raw.json.gz"), device="cpu")
