# SPDX-License-Identifier: Apache-2.0
"""Makes marks in every kind of frame, and notes the interpreter's own stack beside each. Prints {mark: [[file, line, name], …]}, outermost
first, as JSON. Runs under any CPython from 3.9 on, without torch."""

import asyncio
import contextlib
import ctypes
import functools
import gc
import json
import sys
import threading

_released, _held = ctypes.CDLL(None), ctypes.PyDLL(None)  # the first releases the GIL during a call, the second keeps it
seen = {}


def mark(name):
    getattr(_released, "cprof_mark", lambda _: 0)(name.encode())


def mark_holding(name):
    getattr(_held, "cprof_mark", lambda _: 0)(name.encode())


def stack(name):
    """Notes the caller's stack as the interpreter reports it."""
    frame, found = sys._getframe(1), []
    while frame:
        found.append([frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name])
        frame = frame.f_back
    seen[name] = found[::-1]


# `stack` and `mark` are called on one line, so that the caller's frame has the same line in both. `mark` itself is an additional frame.
def plain(name):
    stack(name); mark(name)


def held(name):
    stack(name); mark_holding(name)


def recursive(n, name):
    return plain(name) if n == 0 else recursive(n - 1, name)


def generator(name):
    yield 1
    stack(name); mark(name)
    yield 2


class Object:
    def method(self, name):
        stack(name); mark(name)

    @property
    def attribute(self):
        stack("property"); mark("property")


class Finalized:
    def __del__(self):
        stack("finalizer"); mark("finalizer")


async def coroutine(name):
    await asyncio.sleep(0)
    stack(name); mark(name)


async def async_generator(name):
    yield 1
    stack(name); mark(name)


async def use_async():
    await coroutine("coroutine")
    async for _ in async_generator("async_generator"):
        pass


@contextlib.contextmanager
def context(name):
    stack(name); mark(name)
    yield


def décorée_名前_𝒻(name):
    stack(name); mark(name)


def separated(name):
    stack(name); mark(name)


separated.__code__ = separated.__code__.replace(co_name="a;b c\td\ne 12", co_filename="/a folder;/näme 7.py")


def long_function():
    x = 0
    # more than one entry of any line table, and jumps backwards
    for i in range(3):
        x += i
        if x > 100:
            x -= 1
        else:
            try:
                with contextlib.suppress(ValueError):
                    x = [i for i in range(3)][0]
                    raise ValueError
            finally:
                x = {i: i for i in (1, 2)}[1]
    stack("long"); mark("long")


def compiled(source, file, name):
    exec(compile(source, file, "exec"), {"stack": stack, "mark": mark, "name": name})


def reused(n):
    """Makes and frees code objects at the same addresses, with different lines and names."""
    for i in range(n):
        name = "reused %d" % i
        compiled("\n" * (i % 7) + "def f%d():\n    stack(name); mark(name)\nf%d()" % (i % 3, i % 3), "<made %d>" % (i % 5), name)
        gc.collect() if i % 16 == 0 else None
    for letters in ("dff", "dfff", "egb", "eggb"):  # names that differ in one doubled letter
        file = "<名%s>" % letters
        compiled("stack(name); mark(name)", file, "reused " + letters)


def in_thread(function, *args):
    thread = threading.Thread(target=function, args=args)
    thread.start()
    thread.join()


def main():
    mark("wake")
    for _ in range(1000):  # gives cprof the chance to check its frames against the interpreter's
        plain("warm")
    plain("plain")
    held("held")
    recursive(20, "recursive")
    (lambda name: (stack(name), mark(name)))("lambda")
    g = generator("generator")
    list(g)
    list(x for x in generator("generator expression"))
    [plain("comprehension") for _ in (1,)]
    Object().method("method")
    Object().attribute
    Finalized()
    gc.collect()
    functools.partial(plain, "partial")()
    sorted([1], key=lambda _: plain("key"))
    asyncio.run(use_async())
    with context("context"):
        pass
    décorée_名前_𝒻("unicode")
    separated("separators")
    long_function()
    in_thread(plain, "thread")
    in_thread(recursive, 5, "thread recursive")
    in_thread(held, "thread held")
    compiled("def f():\n\n    stack(name); mark(name)\nf()", "<a \"quoted\" näme\\>", "exec")
    eval("plain('eval')", {"plain": plain})
    reused(200)


if __name__ == "__main__":
    main()
    print(json.dumps(seen))
