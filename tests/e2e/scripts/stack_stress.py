# SPDX-License-Identifier: Apache-2.0
"""`stack_stress.py SECONDS [torch | LIBRARY]`: threads start, mark and end while generators, coroutines and compiled code are made and
freed at changing depths, with exceptions and garbage collections in between. Daemon threads go on until the interpreter has ended. A
step ends every 50 ms. The names of the `work` marks end in a checksum of the interpreter's own stack. With `torch`, operators run, too,
and throw C++ exceptions. With the plugin's library, copies of it are opened and closed. Prints the number of rounds."""

import _ctypes
import asyncio
import ctypes
import gc
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import zlib

_released, _held = ctypes.CDLL(None), ctypes.PyDLL(None)
torch = plugins = None


def mark(name):
    library = _released if random.random() < 0.5 else _held
    getattr(library, "cprof_mark", lambda _: 0)(name.encode())


def number_of(frames):
    """A checksum of [(file without folder, line, function)], innermost first."""
    return zlib.crc32("\n".join("%s(%d): %s" % frame for frame in frames).encode("utf-8", "replace"))


def stack_checksum():
    """The checksum of the caller's stack."""
    frame, frames = sys._getframe(1), []
    while frame:
        frames.append((os.path.basename(frame.f_code.co_filename), frame.f_lineno or 0, frame.f_code.co_name))
        frame = frame.f_back
    return number_of(frames)


def operate():
    a = torch.ones(3, 4)
    (a @ a.T).relu().sum()
    try:
        a @ a
    except RuntimeError:
        mark("thrown")


def work():
    mark("work %d" % stack_checksum())
    if torch:
        operate()


def deep(n):
    return work() if n <= 0 else deep(n - 1)


def generator(n):
    for i in range(n):
        work()
        yield i


async def coroutine(n):
    for _ in range(n):
        await asyncio.sleep(0)
        work()


class Dying:
    def __del__(self):
        work()


def compiled(n):
    name = "".join(random.choice("abcdefgß名😀") for _ in range(random.randrange(1, 9)))
    source = "\n" * random.randrange(9) + f"def {'f' * random.randrange(1, 9)}(work):\n    x = {n}\n    work()\n"
    scope = {}
    exec(compile(source, f"<{name}>", "exec"), scope)
    scope.popitem()[1](work)


def failing(n):
    try:
        deep(n)
        raise ValueError(n)
    except ValueError:
        work()


def mark_in_plugin(n):
    """A mark in a library that is unloaded right after it."""
    if plugins:
        library = ctypes.CDLL(random.choice(plugins), mode=random.choice([os.RTLD_NOW, os.RTLD_LAZY]))
        library.plugin(b"plugin in " + os.path.basename(library._name).encode())
        _ctypes.dlclose(library._handle)


def copies(library, folder):
    """Paths of copies of the library; the loader treats each as another library."""
    return [shutil.copy(library, os.path.join(folder, f"libplugin{i}.so")) for i in range(8)]


def one(n):
    random.choice([
        lambda: deep(n), lambda: list(generator(n)), lambda: next(generator(n + 1)), lambda: asyncio.run(coroutine(2)),
        lambda: compiled(n), lambda: failing(n), Dying, gc.collect, lambda: [compiled(i) for i in range(n)], lambda: mark_in_plugin(n),
    ])()


def rounds(end, count):
    while time.monotonic() < end and count[0] < 10**9:
        one(random.randrange(12))
        count[0] += 1


def for_ever():
    while True:
        deep(random.randrange(12))
        compiled(3)


def main():
    global torch, plugins
    what = sys.argv[2] if len(sys.argv) > 2 else None
    if what == "torch":
        import torch
        torch.set_num_threads(1)
    elif what:
        plugins = copies(what, tempfile.mkdtemp())  # never removed: cprof reads names from the files until the last trace is written
    step = getattr(_held, "cprof_step", lambda: 0)
    end = time.monotonic() + float(sys.argv[1])
    random.seed(1)
    mark("wake")
    count = [0]
    while time.monotonic() < end:
        threads = [threading.Thread(target=rounds, args=(min(end, time.monotonic() + 0.05), count)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        step()
    if not torch:  # a daemon thread inside torch ends the program with "terminate called", even without cprof
        for _ in range(4):
            threading.Thread(target=for_ever, daemon=True).start()
        time.sleep(0.05)
    print(count[0])
    mark("leaving")


if __name__ == "__main__":
    main()
