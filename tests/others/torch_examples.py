# SPDX-License-Identifier: Apache-2.0
"""torch_examples.py NAME: an example in the style of PyTorch's documentation, with the same results in each run."""

import copy
import hashlib
import io
import os
import sys
import threading
import time

import torch
import torch.multiprocessing as mp
from torch import nn
from torch.utils.data import DataLoader, Dataset

WAIT_S = 300


def digest(*tensors):
    text = hashlib.sha256()
    for t in tensors:
        text.update(t.detach().contiguous().cpu().numpy().tobytes())
    return text.hexdigest()[:16]


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 10), nn.Dropout(0.2))


def train(model, steps=5, seed=1):
    torch.manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(steps):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(torch.randn(4, 3, 8, 8)), torch.randint(10, (4,))).backward()
        optimizer.step()
    return digest(*model.parameters(), *model.buffers())


class Squares(Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.full((3,), float(i)) ** 2, i


def autograd_threads():
    model, results = net(), [None] * 4

    def one(n):
        mine = copy.deepcopy(model)
        x = torch.ones(2, 3, 8, 8) * n
        mine.eval()(x).sum().backward()
        results[n] = digest(*[p.grad for p in mine.parameters()])
    threads = [threading.Thread(target=one, args=(n,)) for n in range(4)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    print(*results, train(model))
    try:
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    except RuntimeError as error:
        print(error)
    with torch.autograd.detect_anomaly(check_nan=False):
        x = torch.ones(3, requires_grad=True)
        x.register_hook(lambda g: print("hook", g.tolist()))
        (x * 2).sum().backward()
    print(torch.autograd.functional.jacobian(lambda v: v ** 2, torch.arange(3.)).tolist())


def loader(context):
    data = DataLoader(Squares(), 8, shuffle=True, num_workers=2, multiprocessing_context=context, persistent_workers=True,
                      generator=torch.Generator().manual_seed(3))
    for _ in range(2):
        print([int(i.sum()) for _, i in data], digest(*[x for x, _ in data]))


def in_child(n, queue, tensor):
    tensor[n] += n
    queue.put((n, digest(torch.ones(3) * n)))


def spawn_queue():
    context = mp.get_context("spawn")
    queue, shared = context.Queue(), torch.zeros(3).share_memory_()
    children = [context.Process(target=in_child, args=(n, queue, shared)) for n in range(3)]
    [c.start() for c in children]
    print(sorted(queue.get(timeout=WAIT_S) for _ in children))
    [c.join(WAIT_S) for c in children]
    print(shared.tolist(), [c.exitcode for c in children])


def fails(rank):
    if rank == 1:
        raise ValueError("rank 1 fails")
    time.sleep(WAIT_S)  # still runs when rank 1 fails: spawn() prints a line that it ends this rank


def shared_tensors():
    try:
        mp.spawn(fails, nprocs=2)
    except Exception as error:
        print(type(error).__name__, "rank 1 fails" in str(error))
    with mp.get_context("fork").Pool(2) as pool:
        print(pool.map_async(digest, [torch.ones(2), torch.zeros(2)]).get(WAIT_S))


def adds(model):
    torch.set_num_threads(1)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(1)


def hogwild():
    model = nn.Linear(3, 3)
    with torch.no_grad():
        [p.zero_() for p in model.parameters()]
    model.share_memory()
    for _ in range(2):
        child = mp.get_context("fork").Process(target=adds, args=(model,))
        child.start()
        child.join(WAIT_S)
    print(digest(*model.parameters()), model.bias.tolist())


def jit():
    import warnings
    warnings.simplefilter("ignore")
    @torch.jit.script
    def loop(x, n: int):
        for i in range(n):
            x = torch.relu(x) + i if bool(x.sum() > 0) else x - 1
        return x
    print(loop(torch.ones(3), 5).tolist())
    traced = torch.jit.trace(net().eval(), torch.ones(1, 3, 8, 8))
    file = io.BytesIO()
    torch.jit.save(traced, file)
    file.seek(0)
    print(digest(torch.jit.load(file)(torch.ones(1, 3, 8, 8))), digest(torch.jit.freeze(traced)(torch.ones(1, 3, 8, 8))))
    futures = [torch.jit.fork(loop, torch.ones(2) * n, 3) for n in range(3)]
    print([torch.jit.wait(f).tolist() for f in futures])


def compile():
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    torch.manual_seed(0)
    [nn.init.normal_(p) for p in model.parameters()]
    fast = torch.compile(model)
    x = torch.arange(16.).reshape(2, 8) / 16
    for batch in (2, 2, 3):
        torch._dynamo.mark_dynamic
        y = fast(x[:1].expand(batch, 8))
        print(torch.allclose(y, model(x[:1].expand(batch, 8)), atol=1e-5))
    fast(x).sum().backward()
    print(len(torch._dynamo.utils.counters["graph_break"]), torch._dynamo.utils.counters["stats"]["unique_graphs"])


def export():
    made = torch.export.export(net().eval(), (torch.ones(2, 3, 8, 8),))
    print(digest(made.module()(torch.ones(2, 3, 8, 8))), len(list(made.graph.nodes)))
    print(str(made.graph)[:2000])


def rank_of_two(rank, path):
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=2)
    model = nn.parallel.DistributedDataParallel(net())
    print_from = train(model, 3, rank)
    x = torch.ones(4) * (rank + 1)
    dist.all_reduce(x)
    gathered = [None, None]
    dist.all_gather_object(gathered, (rank, print_from, x.tolist()))
    if rank == 0:
        print(gathered, gathered[0][1] == gathered[1][1] or "buffers are each rank's own", flush=True)
    dist.barrier()
    dist.destroy_process_group()


def gloo_ddp():
    mp.spawn(rank_of_two, (os.path.abspath("store"),), nprocs=2)


def checkpoint():
    from torch.utils.checkpoint import checkpoint_sequential
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(4)])
    x = torch.ones(2, 8, requires_grad=True)
    checkpoint_sequential(model, 2, x, use_reentrant=False).sum().backward()
    print(digest(x.grad, *[p.grad for p in model.parameters()]))


def fx():
    graph = torch.fx.symbolic_trace(net().eval())
    print(graph.code, digest(graph(torch.ones(1, 3, 8, 8))))
    from torch.func import grad, vmap
    print(vmap(grad(lambda v: (v ** 3).sum()))(torch.arange(6.).reshape(2, 3)).tolist())


def testing():
    torch.testing.assert_close(torch.ones(2), torch.ones(2))
    try:
        torch.testing.assert_close(torch.ones(2), torch.zeros(2))
    except AssertionError as error:
        print(error)
    print(torch.autograd.gradcheck(torch.sigmoid, torch.randn(4, dtype=torch.double, requires_grad=True)))
    from torch.utils.benchmark import Timer
    print(Timer("x + 1", globals={"x": torch.ones(2)}).timeit(10).number_per_run)


def save_load():
    model = net()
    torch.save({"model": model.state_dict(), "step": 3}, "c.pt")
    again = net()
    print(again.load_state_dict(torch.load("c.pt", weights_only=True)["model"]), train(again) == train(model), os.path.getsize("c.pt"))


def random():
    torch.manual_seed(5)
    print(digest(torch.rand(10), torch.randn(10), torch.randperm(10)), torch.initial_seed(), torch.get_num_threads(), torch.is_grad_enabled())
    print(digest(torch.linalg.svd(torch.eye(4) * 2)[1], torch.fft.fft(torch.ones(8)).real, torch.sparse.mm(torch.eye(3).to_sparse(), torch.ones(3, 3))))
    with torch.autocast("cpu", torch.bfloat16):
        print((torch.ones(4, 4) @ torch.ones(4, 4)).dtype)
    print(torch.quantization.quantize_dynamic(nn.Linear(4, 4).eval(), {nn.Linear}, torch.qint8)(torch.ones(1, 4)).shape)


def profiler_inside():
    """The program profiles itself with torch.profiler: its table and trace must be the same."""
    from torch.profiler import ProfilerActivity, profile, schedule
    model, made = net(), []
    with profile(activities=[ProfilerActivity.CPU], schedule=schedule(wait=1, warmup=1, active=2, repeat=2), record_shapes=True,
                 profile_memory=True, with_stack=True, with_flops=True, on_trace_ready=lambda p: made.append(p)) as p:
        for _ in range(8):
            train(model, 1)
            p.step()
    averages = p.key_averages(group_by_input_shape=True)
    for e in sorted(averages, key=lambda e: (e.key, str(e.input_shapes))):
        python = e.key.startswith(("<built-in ", "nn.Module: ")) or "): " in e.key  # Python functions include the hooks of CPROF_WITH_MODULES
        if not python and not e.key.startswith(("ProfilerStep", "[memory]")):
            print(e.key, e.count, e.input_shapes, e.flops, e.cpu_memory_usage, e.self_cpu_memory_usage)
    p.export_chrome_trace("t.json")
    import json
    with open("t.json") as file:
        trace = json.load(file)
    import collections
    print(len(made), sorted(collections.Counter((e["ph"], e.get("cat", "")) for e in trace["traceEvents"] if e["ph"] == "X" and
                                                e.get("cat") in ("cpu_op", "user_annotation")).items()))


if __name__ == "__main__":
    name = sys.argv[1]
    {"dataloader_fork": lambda: loader("fork"), "dataloader_spawn": lambda: loader("spawn")}.get(name, globals().get(name))()
