# SPDX-License-Identifier: Apache-2.0
"""Uses much of torch's record path in deterministic order, and checks which calls cprof redirects to itself.

Usage: torch_path.py diverse | scripted | dtensor | compiled | remote | loaded | profiled | slots SLOTS | taken SLOTS | read_only SLOTS | storm. SLOTS is a JSON object: {name of a function: offset of
libtorch_cpu's GOT entry for it}. Prints one JSON object: "results" is a hash of all computed values, the other keys depend on the mode.
"""

import concurrent.futures
import ctypes
import hashlib
import itertools
import json
import mmap
import os
import socket
import sys
import threading
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from path_slots import Slots

LISTS, NAMES = "_ZN2at24set_record_function_tls_ERKNS_17RecordFunctionTLSE", "_ZN3c108demangleB5cxx11EPKc"
step = getattr(ctypes.CDLL(None), "cprof_step", lambda: None)
results = hashlib.sha256()
torch.manual_seed(0)
torch.set_num_threads(1)


def note(*values):
    for value in values:
        results.update(value.detach().to_dense().contiguous().numpy().tobytes() if isinstance(value, torch.Tensor) else repr(value).encode())


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


class Subclass(torch.Tensor):
    pass


LongName = type("Long" * 80, (torch.autograd.Function,), {"forward": Twice.forward, "backward": Twice.backward})


class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        raise ValueError("in a node")


@torch.jit.script
def doubled(x: torch.Tensor):
    return x * 2


@torch.jit.script
def forked(x: torch.Tensor):
    other = torch.jit.fork(doubled, x)
    return torch.jit.wait(other) + x


def train(model, values):
    loss = Twice.apply(model(values)).pow(2).sum()
    loss.backward()
    note(loss, *[p.grad for p in model.parameters()])
    model.zero_grad()


def model_of(width=8):
    return nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, width))


def diverse():
    model, values = model_of(), torch.randn(4, 8)
    LongName.apply(values.clone().requires_grad_()).sum().backward()
    hook = model[0].weight.register_hook(lambda grad: grad * 3)
    train(model, values)
    hook.remove()
    for _ in range(2):
        try:
            Fails.apply(model(values)).sum().backward()
        except ValueError as error:
            note(error)
        try:
            torch.mm(values, values)
        except RuntimeError as error:
            note(str(error))
    note(torch.vmap(torch.dot)(values, values), *torch.func.jvp(torch.sin, (values,), (values,)))
    note(torch.func.grad(lambda x: model(x).sum())(values))
    inner = values.clone().requires_grad_()
    checkpoint(model, inner, use_reentrant=False).sum().backward()
    checkpoint(model, inner, use_reentrant=True).sum().backward()
    first, = torch.autograd.grad(inner.pow(3).sum(), inner, create_graph=True)
    first.sum().backward()
    note(inner.grad)
    torch.autograd.grad(model(inner * 2).sum(), [inner])  # the engine has ranges for leaves that it does not evaluate
    note(torch.ones(2).as_subclass(Subclass) + 1)
    sparse = torch.eye(8).to_sparse().requires_grad_()
    torch.sparse.mm(sparse, values.t()).sum().backward()
    note(sparse.grad)
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])
    note(*(nested * 2).unbind())
    note(torch.quantize_per_tensor(values, 0.1, 0, torch.qint8).int_repr(), torch.view_as_real(torch.fft.fft(values)))
    for number in range(3):
        torch.manual_seed(number)
        worker = threading.Thread(target=lambda: train(model_of(), torch.randn(4, 8)))
        worker.start()
        worker.join()


def alone_in(backend):
    """A process group of this process alone."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0", GLOO_SOCKET_IFNAME="lo")
    torch.distributed.init_process_group(backend, rank=0, world_size=1, store=torch.distributed.HashStore())


def dtensor():
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    alone_in("gloo")
    mesh = init_device_mesh("cpu", (1,))
    step()
    weight = distribute_tensor(torch.randn(8, 8), mesh, [Shard(0)]).requires_grad_()
    values = distribute_tensor(torch.randn(4, 8), mesh, [Replicate()])
    for _ in range(3):
        torch.mm(values, weight).relu().sum().backward()
    note(weight.grad.full_tensor())
    step()
    torch.distributed.destroy_process_group()


def compiled():
    model = model_of()
    fast = torch.compile(model, backend="aot_eager")
    values = torch.randn(4, 8)
    fast(values).sum().backward()  # compiles outside of the window
    step()
    for _ in range(3):
        train(fast, values)
    train(torch.compile(model_of(4), backend="aot_eager"), torch.randn(2, 4))  # compiles inside it
    step()


def remote():
    """Distributed autograd: the backward pass of a call to another worker, here to this process."""
    from torch.distributed import autograd as distributed_autograd
    from torch.distributed import rpc
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), TP_SOCKET_IFNAME="lo", GLOO_SOCKET_IFNAME="lo")
    rpc.init_rpc("worker", rank=0, world_size=1)
    step()
    values, weight = torch.randn(4, 8), torch.randn(8, 8, requires_grad=True)
    for _ in range(3):
        with distributed_autograd.context() as context:
            product = rpc.rpc_sync("worker", torch.mm, args=(values, weight))
            distributed_autograd.backward(context, [product.pow(2).sum()])
            note(distributed_autograd.get_gradients(context)[weight])
    step()
    rpc.shutdown()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, number):
        return torch.full((8,), float(number)).square()


def loaded():
    model, loader = model_of(), torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=2)
    step()
    for _ in range(2):
        for values in loader:
            train(model, values)
    step()


def scripted():
    """Which of the two threads adds and which frees memory is a race of the program itself."""
    values = torch.randn(4, 8)
    step()
    for _ in range(50):
        note(forked(values))
    # A call may end on the other thread after its result is there. That thread must be done before the interpreter ends.
    time.sleep(0.5)
    note(values + 1)  # a thread learns at its next record that its call ended on another thread
    step()


def demangled(function, mangled):
    """The result of c10::demangle(), as the GOT entry has it now, for this buffer."""
    out = (ctypes.c_uint64 * 4)()
    ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(function)(ctypes.addressof(out), ctypes.addressof(mangled))
    return ctypes.string_at(out[0], out[1]).decode()


def in_child(slots):
    """Trains in a forked child in mid-window. Returns the redirected calls and the gradient there."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        # torch's engine does not work in a forked child once it had threads; on the CPU it runs on the caller's thread
        values = torch.ones(2, 2, requires_grad=True)
        values.sum().backward()
        os.write(write, json.dumps([slots.ours(), values.grad.tolist()]).encode())
        os._exit(0)
    os.waitpid(child, 0)
    return json.loads(os.read(read, 65536))


def slots(offsets):
    found, model, values = Slots(offsets), model_of(), torch.randn(4, 8)
    train(model, values)
    told = {"before": found.ours()}
    step()
    train(model, values)
    told["within"], told["in_child"] = found.ours(), in_child(found)
    names, same_place = found.now(NAMES), ctypes.create_string_buffer(64)
    told["demangled"] = []
    for mangled in (b"N5torch8autograd9FirstNodeE", b"N5torch8autograd9OtherNodeE", b"N5torch8autograd9FirstNodeE", b"i", b"i", b"no name"):
        same_place.value = mangled
        told["demangled"].append(demangled(names, same_place))
    train(model, values)
    step()
    told["behind"] = found.ours()
    train(model, values)
    return told


def taken(offsets):
    """Another tool puts its own function into the GOT entry in mid-window. That function calls the former one."""
    found, model, values = Slots(offsets), model_of(), torch.randn(4, 8)
    step()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    stood_there, calls = kind(found.now(LISTS)), []

    def set_callbacks(callbacks):
        calls.append(callbacks)
        stood_there(callbacks)

    its = kind(set_callbacks)
    found.put(LISTS, ctypes.cast(its, ctypes.c_void_p).value)
    train(model, values)
    told = {"called": len(calls)}
    step()
    told["behind"] = found.now(LISTS) == ctypes.cast(its, ctypes.c_void_p).value
    step()  # the second window
    train(model, values)
    step()
    told["left"] = found.now(LISTS) == ctypes.cast(its, ctypes.c_void_p).value
    train(model, values)
    told["called_behind"] = len(calls) > told["called"]
    found.put(LISTS, found.torchs(LISTS))
    return told


def read_only(offsets):
    found, model, values = Slots(offsets), model_of(), torch.randn(4, 8)
    train(model, values)
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    pages = {at & -mmap.PAGESIZE for at in found.at.values()}
    for page in pages:
        assert protect(ctypes.c_void_p(page), ctypes.c_size_t(mmap.PAGESIZE), mmap.PROT_READ) == 0
    step()
    train(model, values)
    told = {"within": found.ours()}
    step()
    return told


def storm():
    """Windows open and close while threads train. Returns each thread's distinct results: {first iteration, count, tensors}."""
    stopped = threading.Event()

    def work(number):
        generator = torch.Generator().manual_seed(number)
        model = model_of()
        with torch.no_grad():
            for p in model.parameters():
                p.copy_(torch.randn(p.shape, generator=generator))
        values, found = torch.randn(4, 8, generator=generator), {}
        for iteration in itertools.count():
            if stopped.is_set() and iteration >= 20:
                return found
            model.zero_grad()
            output = model(values)
            output.pow(2).sum().backward()
            tensors = {"output": output.detach(), **{name: p.grad for name, p in model.named_parameters()}}
            key = b"".join(tensor.numpy().tobytes() for tensor in tensors.values())
            if key not in found:
                found[key] = {"first": iteration, "count": 0, "tensors": {name: tensor.flatten().tolist() for name, tensor in tensors.items()}}
            found[key]["count"] += 1

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        threads = [pool.submit(work, number) for number in range(6)]
        for _ in range(200):
            step()
            threading.Event().wait(0.005)
        stopped.set()
    found = [thread.result() for thread in threads]
    note([sorted(results) for results in found])
    return {"threads": [list(results.values()) for results in found]}


def profiled():
    """torch.profiler starts and stops in mid-window. Returns its operators."""
    model, values = model_of(), torch.randn(4, 8)
    step()
    train(model, values)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        train(model, values)
        worker = threading.Thread(target=lambda: train(model, values))
        worker.start()
        worker.join()
    train(model, values)
    return {"torch": sorted(e.name for e in profile.events() if not e.name.startswith("[memory]"))}


def main():
    what, *args = sys.argv[1:]
    step()  # ends step 0, which may be recorded
    if what in ("diverse", "storm"):
        step()
    modes = (diverse, scripted, dtensor, compiled, remote, loaded, slots, taken, read_only, storm, profiled)
    told = {mode.__name__: mode for mode in modes}[what](*args) or {}
    if what == "diverse":
        step()
    print(json.dumps({"results": results.hexdigest(), **told}))


main()
