# SPDX-License-Identifier: Apache-2.0
"""Trace handlers of the Python module; each function is a mode of tests/e2e/test_handlers.py. Handlers print JSON when they are closed."""

import atexit
import collections
import ctypes
import json
import os
import sys
import threading
import time

import cprof


def say(what):
    """Prints one line in one write, because several threads print."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


class Log(cprof.TraceHandler):
    """Records all calls of its methods, and prints them at the end."""

    def __init__(self):
        self.calls, self.threads, self.pid = [], set(), os.getpid()

    def _add(self, *what):
        self.calls.append(what)
        self.threads.add(threading.get_ident())
        assert os.getpid() == self.pid

    def init(self):
        self._add("init")

    def process_duration_event(self, name, categories, is_start, timestamp, wall_clock_time_ns, thread_id=0):
        self._add("duration", name, categories, is_start, timestamp.step, wall_clock_time_ns, thread_id)

    def process_instant_event(self, name, categories, timestamp, wall_clock_time_ns):
        self._add("instant", name, categories, timestamp.step)

    def process_counter_event(self, name, categories, timestamp, wall_clock_time_ns, values):
        self._add("counter", name, categories, timestamp.step, values)

    def process_chrome_json_trace_file(self, filepath):
        self._add("file", str(filepath), filepath.exists())

    def step_end(self, timestamp, wall_clock_time_ns):
        self._add("step_end", timestamp.step, timestamp.batch, timestamp.sample)

    def epoch_end(self, timestamp, wall_clock_time_ns):
        self._add("epoch_end", timestamp.epoch, timestamp.batch_in_epoch)

    def window_open(self, timestamp, wall_clock_time_ns):
        self._add("window_open", timestamp.step)

    def window_close(self, timestamp, wall_clock_time_ns):
        self._add("window_close", timestamp.step)

    def trace_ready(self, trace):
        self._add("trace_ready", trace.path, trace.first_step, trace.last_step, trace.events, trace.lost, trace.partial)

    def lost(self, count):
        self._add("lost", count)

    def close(self):
        self._add("close")
        say({"calls": self.calls, "threads": len(self.threads), "main": threading.main_thread().ident in self.threads})


class Count(cprof.TraceHandler):
    """Counts events. nap: seconds that it sleeps at each duration."""

    def __init__(self, name, nap=0.0, queue_bytes=1 << 24):
        self._name, self.nap, self.queue_bytes = name, nap, queue_bytes
        self.seen, self.gone, self.unbalanced, self.open = collections.Counter(), 0, 0, {}

    name = property(lambda self: self._name)

    def process_duration_event(self, name, categories, is_start, timestamp, wall_clock_time_ns, thread_id):
        key = (name, thread_id)
        self.unbalanced += self.open.get(key, False) == is_start
        self.open[key] = is_start
        self.seen["duration"] += not is_start
        time.sleep(self.nap)

    def step_end(self, timestamp, wall_clock_time_ns):
        self.seen["step"] += 1

    def lost(self, count):
        self.gone += count

    def close(self):
        say({"name": self.name, "unbalanced": self.unbalanced + sum(self.open.values()), "gone": self.gone, **self.seen})


def work(steps, pairs=1):
    marker = cprof.marker("work", categories=["one", "two"])
    for _ in range(steps):
        for _ in range(pairs):
            with marker:
                pass
        cprof.step(samples=2)


def wait_for_trace_holding_the_gil(trace):
    """Waits for the trace without releasing the GIL, so no other Python thread runs. Returns whether the trace appeared."""
    libc, path = ctypes.PyDLL(None), os.fsencode(os.path.join(os.environ["CPROF_FOLDER"], trace))
    sys.setswitchinterval(1000)
    for _ in range(6000):
        if libc.access(path, os.F_OK) == 0:
            return True
        libc.usleep(10_000)
    return False


def all_calls():
    taken = [cprof.add_trace_handler(Log()), list(cprof.trace_handlers()), cprof.set_on_trace_ready(None)]
    say(taken)
    marker = cprof.marker("all", categories=["one", "two"])
    for _ in range(4):
        with marker:
            marker.instant()
            marker.counter({"whole": 2**62, "other": 1})
            marker.counter({"real": 0.5})
        cprof.step(samples=2)
    cprof.epoch()


def refused():
    """Objects that are no handlers, a handler that raises everywhere, and a handler whose init raises."""
    class Bad(Log):
        def init(self):
            raise RuntimeError("no")

    class Raises(Log):
        def process_duration_event(self, *_, **__):
            raise SystemExit(3)

        def step_end(self, timestamp):  # lacks a parameter
            pass

    errors = 0
    for wrong in (None, Log, object(), print):
        try:
            cprof.add_trace_handler(wrong)
        except TypeError:
            errors += 1
    taken = cprof.add_trace_handler(Raises())  # added first: the window may open before the next handler is added
    say([errors, taken, cprof.add_trace_handler(Bad())])
    work(4)


def slow():
    """The slow handler loses events. The quick handler and the trace lose none."""
    cprof.add_trace_handler(Count("slow", nap=0.0002, queue_bytes=1 << 16))
    cprof.add_trace_handler(Count("quick"))
    work(2, 5000)


def late():
    """Handlers added after the second step, and from a callback."""
    told = threading.Event()

    class First(cprof.TraceHandler):
        def step_end(self, timestamp, wall_clock_time_ns):
            if timestamp.step == 1:
                told.set()

    class Adds(Count):
        def step_end(self, timestamp, wall_clock_time_ns):
            super().step_end(timestamp, wall_clock_time_ns)
            if not told.is_set():
                cprof.add_trace_handler(Count("from a callback"))
            told.set()

    cprof.add_trace_handler(First())
    work(2)
    assert told.wait(60)  # all earlier events have been delivered
    told.clear()
    cprof.add_trace_handler(Adds("late"))
    work(1)
    assert told.wait(60)
    work(3)


def fork():
    cprof.add_trace_handler(Count("parent"))
    work(1)
    time.sleep(0.1)
    cprof.set_on_trace_ready(len)
    pid = os.fork()
    if pid == 0:
        work(2)
        say(["child", cprof.add_trace_handler(Count("child")), cprof.trace_handlers(), cprof.set_on_trace_ready(print)])
        sys.exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    work(3)


def on_ready():
    """The function may be replaced, also by None."""
    seen = []
    done = threading.Event()

    def first(trace):
        seen.append(["first", os.path.basename(trace.path), os.path.exists(trace.path)])
        done.set()

    say([cprof.set_on_trace_ready(first)])
    work(1)
    assert not hasattr(ctypes.CDLL(None), "cprof_version") or done.wait(20)
    done.clear()
    cprof.set_on_trace_ready(lambda trace: (seen.append(["second", os.path.basename(trace.path)]), done.set()))
    work(1)
    assert not hasattr(ctypes.CDLL(None), "cprof_version") or done.wait(20)
    cprof.set_on_trace_ready(None)
    work(1)
    say(seen)


def on_ready_behind_marks():
    """More marks than a queue holds, while no other Python thread can run."""
    class Both(Count):
        def trace_ready(self, trace):
            self.seen["ready"] += 1

    paths = []
    atexit.register(lambda: say(paths))  # runs after all events were delivered
    cprof.set_on_trace_ready(lambda trace: paths.append(os.path.basename(trace.path)))
    cprof.add_trace_handler(Both("both", queue_bytes=1 << 16))
    sys.setswitchinterval(1000)  # nothing below releases the GIL
    work(3, 40_000)
    wait_for_trace_holding_the_gil("rank0.3.pt.trace.json")


def ends():
    """The last trace is written when the interpreter ends: by sys.exit(argument), an exception, or os._exit()."""
    cprof.add_trace_handler(Log())
    work(2)
    if sys.argv[2] == "raise":
        raise RuntimeError("the program's own")
    if sys.argv[2] == "_exit":
        os._exit(4)
    sys.exit(int(sys.argv[2]))


def hangs():
    class Hangs(Log):
        def step_end(self, timestamp, wall_clock_time_ns):
            time.sleep(1000)

    cprof.add_trace_handler(Hangs())
    cprof.add_trace_handler(Count("other"))
    work(4)


def holds_the_lock():
    """While no other Python thread can run, cprof continues and finishes its file."""
    cprof.add_trace_handler(Count("waits"))
    work(3)
    there = wait_for_trace_holding_the_gil("rank0.2.pt.trace.json")
    say([there])
    work(2)


def no_thread():
    """The handler's thread cannot be started."""
    class Named(Log):
        def __init__(self):
            super().__init__()
            self.name = "mine"

    def start(self):
        raise RuntimeError("can't start new thread")

    start, threading.Thread.start = threading.Thread.start, start
    taken = [cprof.add_trace_handler(Named())]
    threading.Thread.start = start
    say(taken + [cprof.add_trace_handler(Named()), list(cprof.trace_handlers())[-1]])
    work(4)


def threads():
    cprof.add_trace_handler(Count("threads"))
    marker = cprof.marker("pair")
    cprof.step()

    def run():
        for _ in range(200):
            with marker:
                pass

    all_of_them = [threading.Thread(target=run) for _ in range(32)]
    for thread in all_of_them:
        thread.start()
    for thread in all_of_them:
        thread.join()
    cprof.step()


def composer():
    """Sends Composer's events through cprof.composer.TraceHandler. Prints Composer's events and those that cprof's handler got."""
    import cprof.composer
    from composer.profiler import Engine, Profiler, TraceHandler, cyclic_schedule

    class Tells(TraceHandler):
        seen = collections.Counter()

        def process_duration_event(self, name, categories, is_start, timestamp, wall_clock_time_ns):
            self.seen["X", name] += is_start

        def process_instant_event(self, name, **_):
            self.seen["i", name] += 1

        def process_counter_event(self, name, **_):
            self.seen["C", name] += 1

    class Hears(cprof.TraceHandler):
        seen = collections.Counter()

        def process_duration_event(self, name, categories, is_start, timestamp, wall_clock_time_ns):
            self.seen["X", name] += is_start

        def process_instant_event(self, name, **_):
            self.seen["i", name] += 1

        def process_counter_event(self, name, **_):
            self.seen["C", name] += 1

        def close(self):
            say([[*key, n] for key, n in sorted(self.seen.items())])

    class Alibi:
        def match(self, event):
            return event == "after_forward"

        def apply(self, event, state):
            state.profiler.marker("loss", categories=["mine"]).counter({"loss": 1.5})

    class Monitor(TraceHandler):
        def batch_start(self, state, logger):
            state.profiler.marker("batch", categories=["mine"]).instant()

    cprof.add_trace_handler(Hears())
    profiler = Profiler(cyclic_schedule(wait=1, warmup=1, active=2), [Tells(), cprof.composer.TraceHandler(steps=True)])
    Engine(profiler, [Alibi()], [Monitor()]).fit(epochs=2, batches=6, samples=8)
    say([[*key, n] for key, n in sorted(Tells.seen.items()) if n])


if __name__ == "__main__":
    globals()[sys.argv[1]]()
