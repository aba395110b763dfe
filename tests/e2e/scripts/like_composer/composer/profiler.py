# SPDX-License-Identifier: Apache-2.0
"""Profiler, Marker, TraceHandler and an engine that calls them as Composer's does."""

import enum
import time
import types


class ProfilerAction(enum.Enum):
    SKIP, WARMUP, ACTIVE, ACTIVE_AND_SAVE = "skip", "warmup", "active", "active_and_save"


USUAL = (ProfilerAction.WARMUP, ProfilerAction.ACTIVE, ProfilerAction.ACTIVE_AND_SAVE)


class TraceHandler:
    """A Callback: run_event() calls the method that is named like the event."""

    def run_event(self, event, state, logger=None):
        getattr(self, event, lambda *_: None)(state, logger)

    def process_duration_event(self, name, categories, is_start, timestamp, wall_clock_time_ns):
        pass

    def process_instant_event(self, name, categories, timestamp, wall_clock_time_ns):
        pass

    def process_counter_event(self, name, categories, timestamp, wall_clock_time_ns, values):
        pass

    def process_chrome_json_trace_file(self, filepath):
        pass


def cyclic_schedule(wait=0, warmup=1, active=4):
    """Counts the batches of each epoch."""
    def schedule(state):
        batch = state.timestamp.batch_in_epoch - wait
        if batch < 0 or batch >= warmup + active:
            return ProfilerAction.SKIP
        if batch < warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.ACTIVE_AND_SAVE if batch == warmup + active - 1 else ProfilerAction.ACTIVE
    return schedule


class Marker:
    def __init__(self, profiler, name, actions, categories):
        self.profiler, self.name, self.actions, self.categories = profiler, name, actions, categories

    def _tell(self, method, **more):
        if self.profiler.schedule(self.profiler.state) in self.actions or not more.get("is_start", True):
            for handler in self.profiler.trace_handlers:
                getattr(handler, method)(name=self.name, categories=self.categories, timestamp=self.profiler.state.timestamp,
                                         wall_clock_time_ns=time.time_ns(), **more)

    def start(self):
        self._tell("process_duration_event", is_start=True)

    def finish(self):  # also when the start was not told, as Composer does
        self._tell("process_duration_event", is_start=False)

    def instant(self):
        self._tell("process_instant_event")

    def counter(self, values):
        self._tell("process_counter_event", values=values)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.finish()


class Profiler:
    def __init__(self, schedule, trace_handlers):
        self.schedule, self.trace_handlers, self._markers = schedule, trace_handlers, {}
        self.state = types.SimpleNamespace(timestamp=types.SimpleNamespace(
            epoch=0, batch=0, batch_in_epoch=0, sample=0, token=0), profiler=self)

    def marker(self, name, actions=USUAL, categories=()):
        return self._markers.setdefault(name, Marker(self, name, actions, categories))


class Engine:
    """fit(): epochs of batches with Composer's events, in its order."""

    def __init__(self, profiler, algorithms, callbacks):
        self.profiler, self.algorithms, self.callbacks = profiler, algorithms, callbacks

    def run_event(self, event):
        state = self.profiler.state
        edge = {"start": "start", "before": "start", "end": "finish", "after": "finish"}
        parts = event.split("_")
        which = edge.get(parts[0]) or edge.get(parts[-1])
        name = "event/" + "_".join(p for p in parts if p not in edge)
        actions = tuple(ProfilerAction) if name in ("event/fit", "event/iteration", "event/epoch") else USUAL
        mark = self.profiler.marker(name, actions=actions)
        if which == "finish":
            mark.finish()
        for algorithm in self.algorithms:
            if algorithm.match(event):
                with self.profiler.marker(f"algorithm/{type(algorithm).__name__}/event/{event}", categories=["algorithm"]):
                    algorithm.apply(event, state)
        for callback in list(self.callbacks) + list(self.profiler.trace_handlers):
            with self.profiler.marker(f"callback/{type(callback).__name__}/event/{event}", categories=["callback"]):
                callback.run_event(event, state, None)
        if which == "start":
            mark.start()

    def fit(self, epochs, batches, samples):
        t = self.profiler.state.timestamp
        self.run_event("fit_start")
        self.run_event("iteration_start")  # without an end, as where no iteration's length is given
        for _ in range(epochs):
            self.run_event("epoch_start")
            for _ in range(batches):
                for event in ("batch_start", "before_forward", "after_forward", "before_backward", "after_backward"):
                    self.run_event(event)
                t.batch, t.batch_in_epoch, t.sample = t.batch + 1, t.batch_in_epoch + 1, t.sample + samples
                self.run_event("batch_end")
            t.epoch, t.batch_in_epoch = t.epoch + 1, 0
            self.run_event("epoch_end")
        self.run_event("fit_end")
