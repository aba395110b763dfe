# SPDX-License-Identifier: Apache-2.0
"""Uses the Python module cprof; each function is a mode of tests/e2e/test_python_module.py. The last line is JSON."""

import asyncio
import enum
import inspect
import json
import sys
import threading

import cprof
from subinterpreters import make_subinterpreter

result = {}


def all_calls():
    """Makes every call once in each of four steps, and notes what the calls return."""
    plain = cprof.marker("plain")
    full = cprof.marker("full", record_instant_on_start=True, record_instant_on_finish=True, categories=["data", "io"])
    last = cprof.marker("only last", actions=[cprof.Action.ACTIVE_AND_SAVE], categories="one")
    result["same"] = cprof.marker("plain", categories=["other"]) is plain
    result["version"] = cprof.version()
    result["steps"] = []
    for _ in range(4):
        result["steps"].append([cprof.step_number(), cprof.action().name, cprof.is_recording()])
        with plain as entered:
            assert entered is plain
            full.start()
            full.finish()
        with last:
            pass
        plain.instant()
        plain.counter({"whole": 3, "large": -2**63})
        full.counter({"real": 0.5, "nan": float("nan"), "huge": 2**70})
        result["depths"] = [cprof.range_push("outer"), cprof.range_push("näme \0"), cprof.range_pop(), cprof.range_pop(),
                            cprof.range_pop()]
        cprof.mark("a moment")
        cprof.step(samples=4, tokens=100)
    cprof.epoch()
    result["added"] = [cprof.add_metadata("text", "ä\0"), cprof.add_metadata_json("json", json.dumps({"é": [1, None]})),
                       cprof.add_metadata_json("json", "nonsense")]


def decorators():
    """Decorates all kinds of functions; each keeps its kind and behaviour."""
    marked = cprof.marker("marked")

    @marked
    def plain(a, b=2):
        """Adds."""
        if a < 0:
            raise ValueError("negative")
        return a + b

    @marked
    def generator(n):
        """Counts."""
        try:
            for i in range(n):
                got = yield i
                if got is not None:
                    yield got
        except KeyError:
            yield "caught"
        finally:
            result["closed"] = True
        return "end"

    @marked
    async def coroutine(n):
        """Waits."""
        await asyncio.sleep(0.001)
        return n

    @marked
    async def async_generator(n):
        """Counts and waits."""
        try:
            for i in range(n):
                try:
                    await asyncio.sleep(0)
                    yield i
                except KeyError:
                    yield "caught"
        finally:
            result["async closed"] = True

    class Model:
        @marked
        def forward(self, x):
            return x * 2

    async def run():
        together = await asyncio.gather(*(coroutine(i) for i in range(5)))
        agen = async_generator(3)
        pieces = [await agen.asend(None), await agen.athrow(KeyError()), await agen.asend(None)]
        await agen.aclose()
        return together, [i async for i in async_generator(3)], pieces

    def delegate():
        result["returned"] = yield from generator(1)

    gen = generator(3)
    values = [next(gen), gen.send("sent"), gen.throw(KeyError())]
    gen.close()
    result["generator"] = values + list(delegate())
    try:
        plain(-1)
    except ValueError as error:
        result["raised"] = str(error)
    result["plain"] = [plain(1), plain(1, b=5), Model().forward(4)]
    result["async"] = asyncio.run(run())
    result["names"] = [f.__name__ + ": " + f.__doc__ for f in (plain, generator, coroutine, async_generator)]
    result["kinds"] = [inspect.isgeneratorfunction(generator), inspect.iscoroutinefunction(coroutine),
                       inspect.isasyncgenfunction(async_generator)]


def work(i):
    with cprof.marker("in step"):
        pass


def profile():
    """As with torch.profiler, nothing outside the block is recorded. An exception leaves the block."""
    with cprof.marker("outside"):
        cprof.step()
    try:
        with cprof.profile() as p:
            for i in range(3):
                work(i)
                p.step(samples=2)
            result["step_num"] = p.step_num
            raise KeyError
    except KeyError:
        result["left"] = True
    with cprof.marker("outside"):
        cprof.step()


class ProfilerAction(enum.Enum):
    """The names and values of torch's enum."""
    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def schedules():
    """A schedule that takes the step and returns torch's actions, one that takes the time, too, one that raises, and None."""
    asked = result["asked"] = []

    def like_torch(step):
        asked.append(step)
        return ProfilerAction.RECORD_AND_SAVE if step == 2 else ProfilerAction.NONE

    def with_time(step, time):
        asked.append([step, time.sample, time.epoch, time.total_wct > 0])
        return "active_and_save" if step == 5 else cprof.Action.SKIP

    def wrong(step):
        raise RuntimeError(step)

    cprof.set_schedule(like_torch)
    for i in range(4):
        work(i)
        cprof.step(samples=2)
    cprof.set_schedule(with_time)
    for i in range(3):
        work(i)
        cprof.step(samples=2)
    cprof.set_schedule(wrong)
    cprof.step()
    cprof.step()
    cprof.set_schedule(None)


def closures():
    """cprof passes the time if the second parameter has no default or is called `time`. Otherwise the parameter keeps its default."""
    seen = result["seen"] = []

    def every(step, n=5):
        seen.append(n)

    def time_by_name(step, time=None):
        seen.append(time.batch)

    def any_number(*args):
        seen.append(len(args))

    def other_name(step, now):
        seen.append(now.batch)

    for function in (every, time_by_name, any_number, other_name, lambda step, *, n=7: seen.append(n)):
        cprof.set_schedule(function)
        cprof.step()


def subinterpreter():
    """In a subinterpreter a schedule and handlers are refused. Marks and steps work there as in the main interpreter."""
    interpreters, other = make_subinterpreter()
    here = cprof.marker("both")
    cprof.step()
    interpreters.run_string(other, """if True:
        import cprof
        with cprof.marker("both"):
            cprof.mark("inside")
        cprof.set_schedule(lambda step: cprof.Action.SKIP)
        assert not cprof.add_trace_handler(cprof.TraceHandler()) and not cprof.set_on_trace_ready(print)
        cprof.step()
        """)
    interpreters.destroy(other)
    with here:
        pass
    cprof.step()
    result["step"] = cprof.step_number()


def copies():
    """Copies and pickles a marker, alone and inside another object."""
    import copy
    import pickle
    kept = cprof.marker("kept", actions=cprof.Action.ACTIVE, record_instant_on_start=True, categories=["io"])
    holder = {"marker": kept, "n": [1]}
    result["same"] = [copy.deepcopy(holder)["marker"] is kept, copy.copy(kept) is kept, pickle.loads(pickle.dumps(kept)) is kept]
    sent = pickle.dumps(kept)
    del kept, holder
    back = pickle.loads(sent)
    result["back"] = [back.name, [a.name for a in back.actions], back.record_instant_on_start, list(back.categories)]
    with back:
        pass


def descriptors():
    """Decorators combined with staticmethod and classmethod, in either order. Objects that cannot be called are refused at once."""
    marked = cprof.marker("marked")

    class Both:
        @marked
        @staticmethod
        def outside(x):
            return x

        @staticmethod
        @marked
        def inside(x):
            return x

        @marked
        @classmethod
        def of_class(cls, x):
            """Says who."""
            return cls.__name__, x

    result["called"] = [Both().outside(1), Both.outside(2), Both().inside(3), Both.of_class(4), Both().of_class(5)]
    result["doc"] = [Both.of_class.__name__, Both.of_class.__doc__]
    result["refused"] = []
    for wrong in (5, property(lambda self: 1), type("Net", (), {})):
        try:
            marked(wrong)
        except TypeError:
            result["refused"].append(type(wrong).__name__)


def nothing_is_told():
    """Without the library, handlers and exports do nothing, but wrong arguments still raise."""
    result["handlers"] = [cprof.add_trace_handler(cprof.TraceHandler()), cprof.set_on_trace_ready(print), list(cprof.trace_handlers())]
    result["exported"] = cprof.export_chrome_trace("nowhere")
    result["refused"] = 0
    for wrong in (lambda: cprof.set_schedule(5), lambda: cprof.add_trace_handler(5), lambda: cprof.marker("m").counter({"x": "text"})):
        try:
            wrong()
        except (TypeError, ValueError):
            result["refused"] += 1


def threads():
    """A schedule in Python, and threads that mark steps at the same time. They must not deadlock."""
    cprof.set_schedule(lambda step, time: sum(range(1000)) * 0)

    def mark():
        for _ in range(16):  # 4 x 16: up to 64 steps may wait while the schedule runs, in any order of threads
            cprof.step()

    workers = [threading.Thread(target=mark) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    result["steps"] = cprof.step_number()


globals()[sys.argv[1]]()
print(json.dumps(result))
