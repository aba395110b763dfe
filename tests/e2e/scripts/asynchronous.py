# SPDX-License-Identifier: Apache-2.0
"""Decorated asynchronous functions in an event loop. Prints the awaited results and the loop's complaints."""

import asyncio
import inspect
import json
import types

import cprof

mark = cprof.marker("marked")
left, complaints = [], []


@mark
async def numbers():
    try:
        for number in range(9):
            yield number
    finally:
        await asyncio.sleep(0.01)
        left.append("closed")


@mark
@types.coroutine
def once():
    yield
    return 5


def future():
    return asyncio.ensure_future(asyncio.sleep(0, 7))


async def main():
    asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told["message"]))
    generator = numbers()
    left.append(generator)  # keeps it alive until the loop ends
    async for number in generator:
        if number == 2:
            break
    awaited = getattr(inspect, "markcoroutinefunction", lambda one: one)(future)
    return await once(), await mark(awaited)()


print(json.dumps({"awaited": asyncio.run(main()), "left": left[1:], "complaints": complaints}))
