# SPDX-License-Identifier: Apache-2.0
"""Markers as decorators: the wrapper has the kind of the function (plain, generator, coroutine, async generator)."""

import functools
import inspect
import sys
import types
from typing import Any, Callable


class _Slices:
    """Runs a generator or coroutine, and marks each time that it runs. Passes through what it yields, returns and raises."""

    __slots__ = ("_marker", "_inner")

    def __init__(self, marker: Any, inner: Any) -> None:
        self._marker, self._inner = marker, inner

    def __iter__(self) -> Any:
        return self

    __await__ = __iter__

    def __next__(self) -> Any:
        return self.send(None)

    def send(self, value: Any) -> Any:
        with self._marker:
            return self._inner.send(value)

    def throw(self, *error: Any) -> Any:
        with self._marker:
            return self._inner.throw(*error)

    def close(self) -> None:
        with self._marker:
            self._inner.close()


def wrap(marker: Any, function: Callable) -> Callable:
    """A wrapper that marks the function, with the same name, docstring and kind."""
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(wrap(marker, function.__func__))  # type: ignore
    if isinstance(function, type):  # a function in its place would break isinstance() and subclasses
        raise TypeError(f"{function!r} is a class: the marker's decorator belongs to its methods")
    if not callable(function):
        raise TypeError(f"{function!r} cannot be called: the marker's decorator belongs to a function")
    if inspect.isasyncgenfunction(function):
        return functools.wraps(function)(_async_generator(marker, function))
    if inspect.iscoroutinefunction(function):
        return functools.wraps(function)(_coroutine(marker, function))
    if inspect.isgeneratorfunction(function):
        wrapped = functools.wraps(function)(_generator(marker, function))
        return types.coroutine(wrapped) if _is_awaited(function) else wrapped

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with marker:
            return function(*args, **kwargs)

    return wrapper


def _is_awaited(function: Any) -> bool:
    """Whether a generator function is one of types.coroutine's, which `await` takes."""
    while isinstance(function, functools.partial):
        function = function.func
    return bool(getattr(getattr(function, "__code__", None), "co_flags", 0) & inspect.CO_ITERABLE_COROUTINE)


def _generator(marker: Any, function: Callable) -> Callable:
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return (yield from _Slices(marker, function(*args, **kwargs)))

    return wrapper


def _coroutine(marker: Any, function: Callable) -> Callable:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        inner = function(*args, **kwargs)
        # A function marked by inspect.markcoroutinefunction() may return any awaitable.
        return await _Slices(marker, inner if hasattr(inner, "send") else inner.__await__())

    return wrapper


def _begun(source: Any) -> Any:
    """Starts an async generator without registering it with the event loop. The generator around it closes it; a loop that ends
    would close both at once."""
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, None)
    try:
        return source.asend(None)
    finally:
        sys.set_asyncgen_hooks(*hooks)


def _async_generator(marker: Any, function: Callable) -> Callable:
    async def wrapper(*args: Any, **kwargs: Any) -> Any:
        source = function(*args, **kwargs)
        wanted = _begun(source)
        while True:
            try:
                item = await _Slices(marker, wanted)
            except StopAsyncIteration:
                return
            try:
                wanted = source.asend((yield item))
            except GeneratorExit:
                await _Slices(marker, source.aclose())
                raise
            except BaseException as error:
                wanted = source.athrow(error)

    return wrapper
