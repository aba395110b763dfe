# SPDX-License-Identifier: Apache-2.0
"""Composer's own marks in cprof's traces:

    from composer import Trainer
    from composer.profiler import Profiler, cyclic_schedule
    import cprof.composer

    trainer = Trainer(..., profiler=Profiler(schedule=cyclic_schedule(), trace_handlers=[cprof.composer.TraceHandler()],
                                             torch_prof_record_shapes=False, torch_prof_profile_memory=False,
                                             torch_prof_with_stack=False, torch_prof_with_flops=False))

The last four keep Composer from running torch's profiler as well, which would take the GPU's records.

The trace has the marks of Composer's engine (event/*, algorithm/*, callback/*) and those that the program makes through
Composer's profiler, beside torch's operators. cprof's own trace handlers get them, too. Composer's schedule decides what
Composer marks; cprof's settings decide when files are written. Without the library the handler does nothing.
"""

from __future__ import annotations

import pathlib
import threading
from typing import Any, Dict, Iterable, Union

import cprof
from composer.profiler import TraceHandler as _TraceHandler

__all__ = ["TraceHandler"]


class TraceHandler(_TraceHandler):
    """Passes Composer's events to cprof. actions: the kinds of steps in cprof's schedule in which events are recorded;
    events outside its windows are at the head of the next file. steps: Composer's batches and epochs are cprof's steps and
    epochs, with their samples and tokens (run with CPROF_STEP=manual, CPROF_SCHEDULE_SCOPE=epoch). Otherwise cprof finds the
    steps itself: they end with optimizer.step(), a little before Composer's batches."""

    def __init__(self, actions: Iterable[cprof.Action] = tuple(cprof.Action), steps: bool = False) -> None:
        super().__init__()
        self._actions, self._steps = tuple(actions), steps
        self._markers: Dict[str, cprof.Marker] = {}
        self._started = threading.local()
        self._counted = {"sample": 0, "token": 0}

    def _marker(self, name: str, categories: Iterable[str]) -> cprof.Marker:
        marker = self._markers.get(name)
        if marker is None:
            marker = self._markers[name] = cprof.marker(name, actions=self._actions, categories=categories)
        return marker

    def process_duration_event(self, name: str, categories: Any, is_start: bool, timestamp: Any,
                               wall_clock_time_ns: int) -> None:
        """Leaves out the ends of durations whose start Composer did not report. Training ends in the middle of an iteration, which
        Composer never ends: it ends here with the training."""
        started = self._started.__dict__.setdefault("names", set())
        if is_start:
            started.add(name)
            self._marker(name, categories).start()
            return
        for ended in ("event/iteration", name) if name == "event/fit" else (name,):
            if ended in started:
                started.discard(ended)
                self._marker(ended, categories).finish()

    def process_instant_event(self, name: str, categories: Any, timestamp: Any, wall_clock_time_ns: int) -> None:
        self._marker(name, categories).instant()

    def process_counter_event(self, name: str, categories: Any, timestamp: Any, wall_clock_time_ns: int,
                              values: Dict[str, Union[int, float]]) -> None:
        self._marker(name, categories).counter(values)

    def process_chrome_json_trace_file(self, filepath: pathlib.Path) -> None:
        """Ignored: cprof's trace already has what torch's profiler recorded."""

    def _more(self, timestamp: Any, what: str) -> int:
        """Samples or tokens since the last batch."""
        now = int(getattr(timestamp, what))
        more, self._counted[what] = now - self._counted[what], now
        return more

    def batch_end(self, state: Any, logger: Any) -> None:
        if self._steps:
            cprof.step(self._more(state.timestamp, "sample"), self._more(state.timestamp, "token"))

    def epoch_end(self, state: Any, logger: Any) -> None:
        if self._steps:
            cprof.epoch()
