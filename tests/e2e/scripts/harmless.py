# SPDX-License-Identifier: Apache-2.0
"""Programs that a profiler in their process may disturb. Their output must be the same with and without cprof. A last line
in JSON tells the test what the trace must hold."""

import contextlib
import json
import os
import signal
import sys
import threading
import warnings
import weakref

import torch
from torch import nn
from torch.autograd.profiler import record_function
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils.data import DataLoader

warnings.simplefilter("ignore")
torch.manual_seed(0)
FORKS = int(sys.argv[2]) if sys.argv[2:] else 0


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, x):
        return self.b(torch.relu(self.a(x)))


def show(*values):
    """Prints the values, with all bits of floats."""
    print(*(v.hex() if isinstance(v, float) else v for v in values))


def adam(net):
    return torch.optim.Adam(net.parameters(), lr=0.01)


def train(net, optimizer, steps, before_step=lambda i: None):
    for i in range(steps):
        optimizer.zero_grad()
        loss = net(torch.randn(5, 8)).float().square().mean()
        loss.backward()
        before_step(i)
        optimizer.step()
        show("loss", i, loss.item())


# torch 2.6 lacks this count
storage_uses = getattr(torch._C, "_storage_Use_Count", lambda storage: None)


def references(i):
    """Reference counts while operators are recorded with shapes: only the program may hold its tensors."""
    t, u = torch.ones(1000), torch.ones(1000)
    v = t + u
    w = torch.cat([t, u, v])
    tensor, storage = weakref.ref(t), StorageWeakRef(t.untyped_storage())
    show("references", sys.getrefcount(t), sys.getrefcount(v), t._use_count(),
         storage_uses(t.untyped_storage()._cdata))
    with record_function("del"):
        del t
    show("alive", tensor() is not None, not storage.expired(), w.sum().item())


def raises(i):
    """Operators that end in an exception, at several depths."""
    for x in (torch.ones(2, 3), torch.ones(7)):
        try:
            with record_function("fails"):
                nn.functional.linear(x, torch.ones(5, 5))
        except RuntimeError as error:
            show("error", str(error))


class Wrong(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        raise ValueError("wrong in backward")


def raises_in_backward(i):
    try:
        Wrong.apply(torch.ones(3, requires_grad=True)).sum().backward()
    except ValueError as error:
        show("error", str(error))


def autocast(i):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        show("autocast", (torch.ones(4, 8) @ torch.ones(8, 4)).dtype)


def results():
    """Eager and scripted training with all of the above in each step. It ends with an uncaught exception in the middle of a
    step."""
    torch.set_num_threads(1)

    def extra(i):
        references(i)
        raises(i)
        raises_in_backward(i)
        autocast(i)

    net = Net()
    optimizer = adam(net)
    train(net, optimizer, 4, extra)
    train(torch.jit.script(net), optimizer, 3)
    show("random", torch.rand(1).item())
    torch.ones(2, 3) @ torch.ones(2, 3)


def affinities():
    """{thread name: processors that it may use}; the main thread is "main"."""
    found = {"main": sorted(os.sched_getaffinity(0))}
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/comm") as comm:
            found[comm.read().strip()] = sorted(os.sched_getaffinity(int(task)))
    return found


def threads():
    """Two Python threads run operators and backward passes beside the main thread, whose operators use OpenMP. One thread
    frees tensors that another thread made."""
    torch.set_num_threads(2)
    handed, tids, turn = [], [], threading.Barrier(3)

    def work(number):
        tids.append((number, threading.get_native_id()))
        turn.wait()
        for _ in range(50):
            x = torch.ones(number, requires_grad=True)
            (x * 2).sum().backward()
        handed.append(torch.empty(1000 * number))
        turn.wait()

    def before_step(i):
        pool = [threading.Thread(target=work, args=(n,)) for n in (3, 5)]
        for t in pool:
            t.start()
        turn.wait()
        with record_function("busy"):
            big = torch.ones(400, 400)
            for _ in range(5):
                big = torch.relu(big + 1)
        turn.wait()
        for t in pool:
            t.join()
        with record_function("freed by another thread"):
            handed.clear()

    net = Net()
    train(net, adam(net), 2, before_step)
    print(json.dumps({"tids": tids, "main": threading.get_native_id(), "affinities": affinities()}))


def profiler():
    """A program that uses torch.profiler itself, during steps that cprof records and steps that it does not record."""
    torch.set_num_threads(1)
    net = Net()
    optimizer = adam(net)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True,
                                profile_memory=True) as prof:
        train(net, optimizer, 6)
    rows = sorted((e.key, e.count, getattr(e, "self_cpu_memory_usage", 0)) for e in prof.key_averages())
    for row in rows:
        show(*row)
    train(net, optimizer, 6)


def forks():
    """Forks in the middle of a step: one child exits at once, one runs operators, one trains."""
    torch.set_num_threads(1)
    net = Net()
    optimizer = adam(net)

    def before_step(i):
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            if i == 0:
                os._exit(7)
            if i == 1:
                with record_function("in the child"):
                    torch.ones(12345).sum().item()
            if i == 2:
                train(net, optimizer, 3)
                sys.stdout.flush()
            sys.exit(9)
        show("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    train(net, optimizer, 4, before_step)


@contextlib.contextmanager
def busy_threads():
    """Other threads run operators all the time, in compiled loops that do not hold the GIL."""
    @torch.jit.script
    def loop(x: torch.Tensor, n: int):
        for _ in range(n):
            x = torch.neg(x)
        return x

    done = threading.Event()

    def work():
        while not done.is_set():
            loop(torch.ones(1), 30)
            done.wait(0.0002)

    threads = [threading.Thread(target=work) for _ in range(2)]
    for t in threads:
        t.start()
    try:
        yield
    finally:
        done.set()
        for t in threads:
            t.join()


def children():
    """Forks FORKS times right after a step's edge, which switches the recording of operators on or off, while other threads run operators.
    The children run operators, too."""
    torch.set_num_threads(1)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with busy_threads():
        for _ in range(FORKS):
            net(torch.ones(8)).mean().backward()
            optimizer.step()
            child = os.fork()
            if child == 0:
                signal.alarm(30)  # a child that hangs ends by a signal
                os._exit(int(torch.neg(torch.ones(3)).sum().item() != -3))
            assert os.waitpid(child, 0)[1] == 0
    print(json.dumps({"steps": FORKS}))


def loaders():
    """The same with forked DataLoader workers; then workers made by spawn and forkserver."""
    torch.set_num_threads(1)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    data = [torch.full((8,), float(i)) for i in range(12)]
    steps = 0

    def epoch(method, workers):
        nonlocal steps
        for batch in DataLoader(data, batch_size=3, num_workers=workers, multiprocessing_context=method, timeout=60):
            net(batch).mean().backward()
            optimizer.step()
            steps += 1

    with busy_threads():
        for _ in range(FORKS // 4):
            epoch("fork", 4)
    epoch("spawn", 1)
    epoch("forkserver", 1)
    print(json.dumps({"steps": steps}))


if __name__ == "__main__":
    globals()[sys.argv[1]]()
