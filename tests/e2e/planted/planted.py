# SPDX-License-Identifier: Apache-2.0
"""The programs with one planted fault each, and the healthy ones: how each runs, and what a competent engineer would call the cause.

run.py runs a program by its name. `cause` and `where` are the expected answer. `steps`: which steps have the fault. `rank`: the rank
at fault.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Planted:
    name: str
    cause: str            # empty: healthy
    where: str = ""       # function, operator or call
    script: str = "cpu.py"
    ranks: int = 1
    rank: int = -1        # -1: no rank, or all ranks
    steps: str = "all"
    most: float = 0.5     # the largest possible share
    gpu: bool = False     # on the simulated GPU


FAULTS = (
    Planted("parsed-in-loop", "data loading in the loop: Python parses text lines before each step", "parse() under load()"),
    Planted("slow-loader", "the training loop waits for the DataLoader, whose one worker reads slower than the step trains",
            "next() of the DataLoader in load(); Disk.__getitem__() sleeps in the worker"),
    Planted("python-between", "pure Python between two operators of the forward pass", "track() under forward(), after the second ReLU"),
    Planted("row-by-row-loss", "a Python loop launches many tiny operators, a few for each sample, instead of one for the batch",
            "criterion(): cross_entropy, log_softmax, nll_loss and their backward", most=0.3),
    Planted("row-by-row-optimizer", "the optimizer is written by hand and updates the weights row by row: many tiny operators",
            "update(): aten::select, aten::mul, aten::sub_", most=0.3),
    Planted("recomputed", "activation checkpointing computes the forward pass of blocks again in the backward pass",
            "checkpoint() in forward(): aten::linear and aten::relu run under backward", most=0.22),
    Planted("kept-features", "memory leak: each step keeps a copy of the features in a list; copying to fresh pages costs the time",
            "finish(): aten::clone, kept in history"),
    Planted("busy-thread", "another Python thread holds the interpreter lock, so the training thread waits to run Python",
            "watch() in the thread monitor"),
    Planted("doubles", "blocks run in float64 instead of float32, at half the rate", "forward(): the double aten::linear, aten::addmm",
            most=0.45),
    Planted("saves-every-4th", "a checkpoint is written every fourth step, which makes that step an outlier", "save(): torch.save",
            steps="every 4th"),
    Planted("temporaries", "large temporaries that the allocator returns to the system each time: page faults, where in place would do",
            "finish(): aten::sub, aten::mul, aten::clamp of several MiB", most=0.2),
    Planted("pair-loss", "a slow loss of the program's own: it makes a tensor of all pairs", "criterion(): sub, pow and sum of 4 dimensions",
            most=0.3),
    Planted("item-in-loop", ".item() after each layer waits for the GPU, so nothing is launched ahead and the GPU idles between kernels",
            "item() in between(): cudaStreamSynchronize", script="gpu.py", gpu=True, most=0.3),
    Planted("malloc-each-step", "device memory is allocated and freed in the step; cudaFree waits for the GPU",
            "between(): cudaMalloc, cudaFree", script="gpu.py", gpu=True, most=0.3),
    Planted("pageable-copy", "the batch is copied from pageable memory, and the copy is not overlapped: the GPU computes nothing meanwhile",
            "load(): copy_pageable, cudaMemcpy of host to device", script="gpu.py", gpu=True, most=0.2),
    Planted("late-collective", "a large all-reduce after the backward pass is exposed: nothing overlaps it", "reduce(): gloo:all_reduce",
            script="ranks.py", ranks=2),
    Planted("slow-rank-computes", "rank 2 straggles: it computes more than the others, who wait in the all-reduce",
            "auxiliary() on rank 2: aten::matmul", script="ranks.py", ranks=4, rank=2),
    Planted("slow-rank-loads", "rank 1 straggles: it parses its data in the step, and rank 0 waits in the all-reduce",
            "parse() under load() on rank 1", script="ranks.py", ranks=2, rank=1),
)

# These and the later half of HEALTHY were written by who had read the rules, before the rules were changed to what they are now.
VARIATIONS = (
    Planted("decoded-json", "data loading in the loop: Python decodes JSON before each step", "load(): json.loads", script="variations.py"),
    Planted("exporter-thread", "another thread holds the interpreter's lock inside json.dumps", "export() in the thread exporter",
            script="variations.py"),
    Planted("built-mask", "a mask that is always the same is made in each step, with a large temporary in each operator", "forward(): sub, abs, "
            "masked_fill, exp", script="variations.py", most=0.3),
    Planted("written-out-gelu", "an activation and a norm are written out as many operators on large tensors", "activation()",
            script="variations.py", most=0.3),
    Planted("cosine-pairs", "a loss multiplies all pairs of rows element by element instead of by one matrix product", "criterion(): mul and sum "
            "of 3 dimensions", script="variations.py", most=0.3),
    Planted("sample-by-sample", "samples go through the model one by one", "step(): the model and cross_entropy of one row",
            script="variations.py", most=0.3),
    Planted("kept-graph", "memory leak: a running sum of losses keeps the graph of each step", "finish(): running", script="variations.py", most=0.3),
    Planted("evaluates-every-5th", "every fifth step evaluates the model, which makes that step an outlier", "evaluate() under finish()",
            script="variations.py", steps="every 5th"),
    Planted("pickled-history", "pure Python between the forward and the backward pass: a history is pickled", "snapshot() under criterion()",
            script="variations.py"),
)

HEALTHY = (
    Planted("healthy-mlp", ""),
    Planted("healthy-cnn", ""),
    Planted("healthy-transformer", ""),
    Planted("healthy-loader", ""),
    Planted("healthy-accumulated", ""),
    Planted("healthy-inference", ""),
    Planted("healthy-ranks", "", script="ranks.py", ranks=2),
    Planted("healthy-gpu", "", script="gpu.py", gpu=True),
    *(Planted(f"healthy-{name}", "", script="variations.py")
      for name in ("gan", "reinforced", "evaluation", "augmented", "recurrent", "resnet", "diffusion", "embedded")),
)

PROGRAMS = {program.name: program for program in FAULTS + VARIATIONS + HEALTHY}
