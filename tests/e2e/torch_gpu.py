# SPDX-License-Identifier: Apache-2.0
"""PyTorch scripts for scripts/gpu_check.sh, one a feature (--case). Each runs --steps steps, ends each with cprof_step(), and prints as its
last line what a trace of the steps from 3 on must hold. They also run on the CPU, without the parts that need a GPU."""

import argparse
import contextlib
import ctypes
import json
import os
import time

import torch
from torch import nn

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
FIRST = 3  # CPROF_WARMUP=3
end_step = getattr(ctypes.CDLL(None), "cprof_step", lambda: None)


def wait():
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def steps(count, work):
    """Calls work(step) in each step. Returns its results in the recorded steps."""
    wait()
    returned = []
    for step in range(count):
        result = work(step)
        wait()
        end_step()
        if step >= FIRST:
            returned.append(result)
    return returned


def stack(args):
    x = torch.ones(1000, device=DEVICE)

    def where_it_is_launched():
        return torch.relu(x)

    steps(args.steps, lambda step: [where_it_is_launched() for _ in range(4)])
    return {"function": "where_it_is_launched", "operator": "aten::relu", "calls": 4 * (args.steps - FIRST)}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(8 * 14 * 14, 10))

    def forward(self, x):
        return self.head(torch.relu(self.conv(x)))


def modules(args):
    net, x = Net().to(DEVICE), torch.ones(4, 3, 16, 16, device=DEVICE)
    steps(args.steps, lambda step: net(x).sum().backward())
    return {"modules": ["Net.conv", "Net.head.1"], "operators": ["aten::conv2d", "aten::linear", "aten::convolution_backward"]}


def flops(args):
    """Forward only, so that each operator is called once a step."""
    torch.backends.cudnn.benchmark = False

    def tensor(*shape, dtype=torch.float32):
        return torch.randn(*shape, device=DEVICE, dtype=dtype)

    a, b = tensor(300, 500), tensor(500, 700)
    low = [tensor(256, 512, dtype=torch.bfloat16), tensor(512, 384, dtype=torch.bfloat16)]
    bias, left, right = tensor(704), tensor(320, 192), tensor(192, 704)
    batches = tensor(6, 100, 60), tensor(6, 60, 80)
    images, filters = tensor(8, 16, 32, 32), tensor(24, 16, 3, 3)

    def work(_step):
        a @ b
        low[0] @ low[1]
        torch.addmm(bias, left, right)
        torch.bmm(*batches)
        torch.nn.functional.conv2d(images, filters, padding=1)

    with torch.no_grad():
        steps(args.steps, work)
    each = {"aten::mm": 2 * (300 * 500 * 700 + 256 * 512 * 384), "aten::addmm": 2 * 320 * 192 * 704, "aten::bmm": 2 * 6 * 100 * 60 * 80,
            "aten::conv2d": 2 * 8 * 24 * 32 * 32 * 16 * 3 * 3}
    return {"operators": {name: count * (args.steps - FIRST) for name, count in each.items()}, "library": ["aten::mm", "aten::addmm", "aten::bmm", "aten::conv2d"]}


def memory(args):
    """Reports the state of torch's allocator after each allocation. The large allocation comes from the driver each time."""
    held = []

    def now():
        return [torch.cuda.memory_allocated(), torch.cuda.memory_reserved()] if DEVICE == "cuda" else [0, 0]

    def work(step):
        rows = []
        for size in (4096 * (step + 1), 1 << 20, 100 << 20):
            before = now()
            held.append(torch.empty(size, dtype=torch.uint8, device=DEVICE))
            after = now()
            rows.append([after[0] - before[0] if DEVICE == "cuda" else size, *after, after[1] - before[1]])
        held.clear()
        wait()
        if DEVICE == "cuda":
            torch.cuda.empty_cache()
        return rows

    rows = [row for each in steps(args.steps, work) for row in each]
    return {"allocations": [row[:3] for row in rows], "from_driver": sum(row[3] for row in rows), "launches": False}


def trigger(args):
    x = torch.ones(1000, device=DEVICE)
    for region in range(2):
        for _ in range(5):
            torch.sigmoid(x)
        wait()
        if DEVICE == "cuda":
            torch.cuda.profiler.start()
        for _ in range(6 + region):
            torch.relu(x)
        wait()
        if DEVICE == "cuda":
            torch.cuda.profiler.stop()
    return {"inside": [6, 7], "operator": "aten::relu", "other": "aten::sigmoid"}


def ranges(args):
    """Ranges of the script: NVTX on a GPU, record_function() on the CPU."""
    a, b = torch.randn(256, 256, device=DEVICE), torch.randn(256, 256, device=DEVICE)
    named = torch.cuda.nvtx.range if DEVICE == "cuda" else torch.profiler.record_function

    def work(_step):
        with named("outer"):
            with named("inner"):
                a @ b
            a + b

    with torch.no_grad():
        steps(args.steps, work)
    return {"ranges": {"outer": args.steps - FIRST, "inner": args.steps - FIRST}}


def transfers(args):
    """torch.distributed on one rank, where NCCL copies and launches no kernel."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", RANK="0", WORLD_SIZE="1")
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("nccl" if DEVICE == "cuda" else "gloo", store=store, rank=0, world_size=1)
    x = torch.ones(1000, device=DEVICE)
    parts = [torch.empty_like(x)]

    def work(_step):
        torch.distributed.all_reduce(x)
        torch.distributed.all_gather(parts, x)
        torch.distributed.broadcast(x, 0)

    steps(args.steps, work)
    torch.distributed.destroy_process_group()
    return {"calls": {"ncclAllReduce": args.steps - FIRST, "ncclAllGather": args.steps - FIRST}, "bytes": 4000, "launches": False}


def captured(function):
    """A function that replays a CUDA graph of `function`; without a GPU, `function` itself."""
    if DEVICE != "cuda":
        return function
    function()  # the first call initialises, which must not be captured
    wait()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    return graph.replay


def client(args):
    """torch.profiler runs in the same process in steps 6 and 7, which cprof records too. --graph 1: the operators run in a CUDA graph."""
    x = torch.ones(1000, device=DEVICE)
    profiler = None

    def relus():
        for _ in range(5):
            torch.relu(x)

    run = captured(relus) if args.graph else relus

    def work(step):
        nonlocal profiler
        if step == 6:
            kinds = [torch.profiler.ProfilerActivity.CPU] + [torch.profiler.ProfilerActivity.CUDA] * (DEVICE == "cuda")
            profiler = torch.profiler.profile(activities=kinds)
            profiler.start()
        run()
        wait()
        if step == 7:
            profiler.stop()

    steps(args.steps, work)
    profiler.export_chrome_trace("theirs.json")
    return {"each": 5, "theirs": 10, "steps_of_theirs": [6, 7]}


def out_of_memory(args):
    x = torch.ones(1000, device=DEVICE)

    def work(step):
        if step == FIRST:
            with contextlib.suppress(RuntimeError, MemoryError):
                torch.empty(1 << 55, dtype=torch.uint8, device=DEVICE)
                raise SystemExit("so much memory cannot be there")
        torch.relu(x)

    steps(args.steps, work)
    return {"failed": 1, "operator": "aten::relu", "calls": args.steps - FIRST}


class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 10000

    def __getitem__(self, i):
        return torch.full((64,), float(i))


def loader(args):
    """A DataLoader with forked workers while CUDA is in use, and torch's thread that pins memory."""
    device = DEVICE == "cuda"
    batches = iter(torch.utils.data.DataLoader(Data(), batch_size=32, num_workers=2, pin_memory=device))
    torch.ones(1, device=DEVICE)

    def work(_step):
        return float(next(batches).to(DEVICE, non_blocking=True).sum())

    sums = steps(args.steps, work)
    return {"batches": args.steps - FIRST, "bytes": 64 * 32 * 4, "sums": sums}


def cost(args):
    """Seconds of the fastest of --steps steps of each load, after warm-up: a shared machine has slow seconds. --profile 1: under
    torch.profiler, without its start and end."""
    a = torch.randn(4096, 4096, device=DEVICE, dtype=torch.bfloat16) if DEVICE == "cuda" else torch.randn(256, 256)
    small = torch.ones(1000, device=DEVICE)

    def launches():
        for _ in range(2000 if DEVICE == "cuda" else 200):
            small.add_(1)

    def nodes():
        for _ in range(200 if DEVICE == "cuda" else 20):
            small.add_(1)

    graph = captured(nodes)

    def graphs():
        for _ in range(20):
            graph()

    def compute():
        for _ in range(100 if DEVICE == "cuda" else 5):
            a @ a

    def timed(load):
        times = []
        for _ in range(args.steps):
            wait()
            start = time.perf_counter()
            load()
            wait()
            times.append(time.perf_counter() - start)
            end_step()
        return min(times)

    with torch.no_grad():
        for _ in range(FIRST):
            launches()
            compute()
            graphs()
            wait()
            end_step()
        time.sleep(0.5)  # time to write the finished window
        found = {}
        for name, load in (("launch-bound", launches), ("compute-bound", compute), ("graph-bound", graphs)):
            if args.profile:
                kinds = [torch.profiler.ProfilerActivity.CPU] + [torch.profiler.ProfilerActivity.CUDA] * (DEVICE == "cuda")
                with torch.profiler.profile(activities=kinds):
                    load()
                    found[name] = timed(load)
            else:
                found[name] = timed(load)
    return {"seconds": found}


CASES = {function.__name__: function for function in
         (stack, modules, flops, memory, trigger, ranges, transfers, client, out_of_memory, loader, cost)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--case", choices=CASES, required=True)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--profile", type=int, default=0)
    parser.add_argument("--graph", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(0)
    print(json.dumps({"device": DEVICE, **CASES[args.case](args)}))


if __name__ == "__main__":
    main()
