# SPDX-License-Identifier: Apache-2.0
"""Other code uses torch's record path while cprof's windows open and close, in deterministic order.

Usage: torch_path_attacks.py profilers | observers OBSERVERS | memory OBSERVERS SLOTS | extensions EXTENSION... | threads EXTENSION | forks | denied |
maps | limit. OBSERVERS and EXTENSION are the libraries of tests/e2e/c; SLOTS is as in torch_path.py. Prints one JSON object: "results" is a hash of
all computed and observed values. SHOW=1 adds the values.
"""

import ctypes
import hashlib
import json
import os
import resource
import subprocess
import sys
import threading
import warnings

import torch

from path_slots import Slots

step = getattr(ctypes.CDLL(None), "cprof_step", lambda: None)
seen = []
torch.manual_seed(0)
torch.set_num_threads(1)
MODEL = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 8))
VALUES = torch.randn(4, 8)


def train():
    MODEL.zero_grad()
    loss = MODEL(VALUES).pow(2).sum()
    loss.backward()
    return hashlib.sha256(b"".join(p.grad.numpy().tobytes() for p in MODEL.parameters())).hexdigest()[:8]


def in_thread(work):
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def names(events):
    return sorted(e.name for e in events if not e.name.startswith("[memory]"))


def profilers():
    """torch's profilers start and stop in and around windows; every second step is a window."""
    from torch.autograd import profiler, profiler_legacy
    warnings.simplefilter("ignore")
    cpu = dict(activities=[torch.profiler.ProfilerActivity.CPU])
    for turn in range(4):
        step()
        for kind in (profiler.emit_nvtx, profiler.emit_itt):
            try:
                with kind(record_shapes=True):
                    seen.append(train())
                    step() if turn > 1 else None
                    in_thread(lambda: seen.append(train()))
            except (AssertionError, RuntimeError) as error:  # no CUDA
                seen.append((kind.__name__, str(error).splitlines()[0]))
            seen.append(train())
        with profiler_legacy.profile() as legacy:
            seen.append(train())
            step()
            in_thread(train)
            seen.append(train())
        seen.append(names(legacy.function_events))
        step()
        p = torch.profiler.profile(**cpu)
        p.start()
        seen.append(train())
        step()
        seen.append(train())
        in_thread(train)
        step()
        p.stop()
        seen.append(names(p.events()))
        step()
        ready = []
        with torch.profiler.profile(**cpu, schedule=torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2),
                                    on_trace_ready=lambda p: ready.append(names(p.events()))) as p:
            for n in range(9):
                train()
                if n % 2:
                    step()
                p.step()
        seen.append(ready)


def observing(path):
    library = ctypes.CDLL(path)
    library.observe.restype = ctypes.c_uint64
    library.observe.argtypes = ctypes.c_double, ctypes.c_int
    library.forget.argtypes = ctypes.c_uint64,
    library.seen.restype = ctypes.c_int64
    return library


def training(path):
    library = ctypes.CDLL(path)
    for name in ("train", "thread_with_late_state"):
        getattr(library, name).restype = ctypes.c_double
        getattr(library, name).argtypes = ctypes.c_double,
    return library


def observers(path):
    library = observing(path)
    counts = lambda: seen.append((library.seen(0), library.seen(1)))
    for here in (0, 1):
        for turn in range(4):
            handle = library.observe(1, here)
            seen.append(train())
            counts()
            step()
            second = library.observe(1, 1 - here)
            seen.append(train())
            in_thread(train)
            counts()
            library.pause_observers(1)
            train()
            counts()
            library.pause_observers(0)
            train()
            counts()
            library.forget(handle)
            train()
            counts()
            if turn % 2:
                step()
            in_thread(train)
            library.forget(second)
            train()
            counts()
        # a hook adds observers in the middle of the engine's run
        for _ in range(4):
            step()
            handles = []
            hook = MODEL[0].weight.register_hook(lambda grad: handles.append(library.observe(1, here)))
            other = MODEL[2].weight.register_hook(lambda grad: None if step() else None)
            train()
            counts()
            hook.remove()
            other.remove()
            [library.forget(handle) for handle in handles]
            train()
            counts()
    before = library.seen(0)
    handle = library.observe(1, 0)
    for n in range(500):
        train()
        if n % 50 == 0:
            step()
    library.forget(handle)
    all_of_them = library.seen(0) - before
    for here in (0, 1):
        before = library.seen(0)
        handle = library.observe(0.25, here)
        for n in range(500):
            train()
            if n % 50 == 0:
                step()
        library.forget(handle)
        share = (library.seen(0) - before) / all_of_them
        seen.append("a quarter" if 0.22 < share < 0.28 else share)
    # another thread adds and removes observers
    stopped = threading.Event()

    def come_and_go():
        while not stopped.is_set():
            library.forget(library.observe(1, 0))
    thread = threading.Thread(target=come_and_go)
    thread.start()
    for n in range(300):
        seen.append(train())
        if n % 5 == 0:
            step()
    stopped.set()
    thread.join()
    seen.append(library.seen(0) - library.seen(1))


def extensions(*paths):
    """Another thread opens and closes extension libraries."""
    close = ctypes.CDLL(None).dlclose
    close.argtypes = ctypes.c_void_p,
    stopped, results = threading.Event(), set()

    def open_and_close():
        turns = 0
        while turns < 40 or not stopped.is_set():
            library = training(paths[turns % len(paths)])
            results.add(library.train(3.0))
            results.add(library.thread_with_late_state(3.0))
            assert torch.ops.cprof_extension.twice(torch.ones(1)).item() == 2
            del torch.ops.cprof_extension  # it caches objects of the library that is closed next
            close(library._handle)
            turns += 1

    threads = [threading.Thread(target=open_and_close)]
    [thread.start() for thread in threads]
    for n in range(100):
        seen.append(train())
        step()
        threading.Event().wait(0.01)
    stopped.set()
    [thread.join() for thread in threads]
    seen.append(sorted(results))
    seen.append([path for path in paths if path in open("/proc/self/maps").read()])


def forks():
    stopped = threading.Event()
    weight = torch.ones(4, requires_grad=True)

    def work():
        mine = torch.ones(4, requires_grad=True)
        while not stopped.is_set():
            (mine * 2).sum().backward()
    threads = [threading.Thread(target=work) for _ in range(3)]
    [thread.start() for thread in threads]
    for n in range(60):
        step()
        child = os.fork()
        if child == 0:
            code = 3
            try:
                (weight * n).sum().backward()
                code = 0 if weight.grad.tolist() == [n] * 4 else 4
            finally:
                os._exit(code)
        seen.append(os.waitpid(child, 0)[1])
        if n % 10 == 0:
            seen.append(subprocess.run([sys.executable, "-c", "print(1)"], capture_output=True).stdout.decode())
    stopped.set()
    [thread.join() for thread in threads]


def threads(path):
    """Threads start and end while windows open and close."""
    library, results = training(path), set()

    def spawn():
        for _ in range(60):
            in_thread(lambda: results.add(library.train(2.0)))
            results.add(library.thread_with_late_state(2.0))
    spawners = [threading.Thread(target=spawn) for _ in range(4)]
    [thread.start() for thread in spawners]
    for _ in range(150):
        step()
        seen.append(train())
        threading.Event().wait(0.005)
    [thread.join() for thread in spawners]
    seen.append(sorted(results))


def memory(path, offsets):
    """Calls redirected functions while libtorch_cpu's operator new fails. Returns how each call ended: 1 is std::bad_alloc."""
    library, found, ended = observing(path), Slots(offsets), []
    demangle, set_tls = (next(name for name in found.at if word in name) for word in ("demangle", "set_record"))
    new = ctypes.c_void_p(found.at["_Znwm"])
    kept = ctypes.create_string_buffer(b"N5torch8autograd9FirstNodeE")
    for _ in range(4):
        step()
        seen.append(train())
        ours = found.ours()
        for _ in range(3):
            ended.append([demangle in ours, library.demangle_without_memory(ctypes.c_void_p(found.now(demangle)), new, kept)])
        ended.append([set_tls in ours, library.set_without_memory(ctypes.c_void_p(found.now(set_tls)), new)])
        seen.append(train())
    return {"ended": ended}


FUTEX, MPROTECT = 202, 10


def denied():
    """A seccomp filter gives EPERM for mprotect and for the futex operation with which cprof tests addresses."""
    step()
    seen.append(train())

    class Filter(ctypes.Structure):
        _fields_ = [("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32)]

    class Program(ctypes.Structure):
        _fields_ = [("len", ctypes.c_uint16), ("filter", ctypes.POINTER(Filter))]
    load, equal, give = 0x20, 0x15, 0x06
    rows = (Filter * 7)((load, 0, 0, 0), (equal, 3, 0, MPROTECT), (equal, 0, 3, FUTEX), (load, 0, 0, 24), (equal, 0, 1, 5 | 128),
                        (give, 0, 0, 0x00050001), (give, 0, 0, 0x7fff0000))
    program = Program(7, rows)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    # all threads of the process, as sandboxes do
    assert libc.syscall(317, 1, 1, ctypes.byref(program)) == 0, ctypes.get_errno()
    for _ in range(6):
        seen.append(train())
        step()


def maps():
    """A program that reads libtorch_cpu's lines of /proc/self/maps in each step."""
    look = lambda: [line.split()[1:3] for line in open("/proc/self/maps") if "libtorch_cpu.so" in line]
    for _ in range(6):
        seen.append(look())
        train()
        step()


def limit():
    """Memory runs out in mid-window."""
    step()
    seen.append(train())
    step()
    now = int(open("/proc/self/statm").read().split()[0]) * 4096
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (now + 64 * 1024 * 1024, hard))
    held, failed = [], 0
    for size in (1 << 24, 1 << 20, 1 << 16, 1 << 12):
        while True:
            try:
                held.append(torch.empty(size, dtype=torch.uint8))
            except RuntimeError:
                failed += 1
                break
    for _ in range(6):
        for _ in range(20):
            try:
                train()
            except (MemoryError, RuntimeError):
                pass
        step()
    del held
    resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    seen.append(failed)
    for _ in range(6):
        seen.append(train())
        step()


def main():
    what, *args = sys.argv[1:]
    step()
    told = globals()[what](*args) or {}
    step()
    print(json.dumps({"results": hashlib.sha256(repr(seen).encode()).hexdigest(), **told, **({"seen": seen} if os.environ.get("SHOW") else {})}))


main()
