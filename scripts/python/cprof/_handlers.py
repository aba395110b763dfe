# SPDX-License-Identifier: Apache-2.0
"""Trace handlers in Python: who wants to be told of markers, steps and traces while they come.

The library puts what a handler wants to be told of into a bounded queue of its own, and a thread here takes it out: cprof's
own thread never waits for the interpreter. A handler that is too slow loses calls of its own, which are counted, and nobody
else's; marks leave room for what is rarer.
"""

from __future__ import annotations

import atexit
import inspect
import os
import pathlib
import struct
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Union

import cprof
from cprof._library import ctypes, in_subinterpreter

_BUFFER = 1 << 20  # bytes of messages taken at once
_INIT, _DURATION, _INSTANT, _COUNTER, _FILE, _TRACE, _STEP, _EPOCH, _OPEN, _SHUT, _LOST, _CLOSE = range(1, 13)
_HEAD = struct.Struct("=IB")
_TIME = struct.Struct("=8q3dq")
_EVENT = struct.Struct("=BBBIQ")
_SAVED = struct.Struct("=qqQQB")
_COUNT, _LENGTH = struct.Struct("=H"), struct.Struct("=I")
_REAL, _WHOLE, _LOST_COUNT = struct.Struct("=d"), struct.Struct("=q"), struct.Struct("=Q")


class SavedTrace(NamedTuple):
    """A trace that is whole and has its name. last_step: the last whole one; first_step - 1 when none is. partial: it
    ended before the schedule's end of it."""
    path: str
    first_step: int
    last_step: int
    events: int
    lost: int
    partial: bool
    timestamp: cprof.Time


class TraceHandler:
    """Subclass it, override what you want to be told of, and hand an object to add_trace_handler(). All calls come from
    one thread of the handler's own, some 10 ms after what they tell of. One that raises is told of in one line, and
    the handler goes on; when init() raises, it is left out."""

    #: Bytes of the queue between cprof and the handler; what finds no room in it is lost() to this handler. Only what it
    #: overrides is queued, and marks leave an eighth of the room to ends of steps, and half of that to traces, windows and epochs.
    queue_bytes = 8 << 20

    #: For messages and trace_handlers(); the class's own name when it is empty.
    name = ""

    def init(self) -> None:
        """The first call."""

    def process_duration_event(self, name: str, categories: List[str], is_start: bool, timestamp: cprof.Time,
                               wall_clock_time_ns: int, thread_id: int = 0) -> None:
        """A duration that has ended: called twice, with is_start True and False, and with nothing between the two.
        Those of one thread come in the order in which they end. An override may leave thread_id out."""

    def process_instant_event(self, name: str, categories: List[str], timestamp: cprof.Time, wall_clock_time_ns: int,
                              thread_id: int = 0) -> None:
        """A moment."""

    def process_counter_event(self, name: str, categories: List[str], timestamp: cprof.Time, wall_clock_time_ns: int,
                              values: Dict[str, Union[int, float]], thread_id: int = 0) -> None:
        """A sample of a counter. The key of an only value without a name is ""."""

    def process_chrome_json_trace_file(self, filepath: pathlib.Path) -> None:
        """A trace in Chrome's JSON format is there: one of ours, or a foreign one that was handed in."""

    def step_end(self, timestamp: cprof.Time, wall_clock_time_ns: int) -> None:
        """A step has ended, recorded or not. timestamp.step is its number; timestamp.batch counts it."""

    def epoch_end(self, timestamp: cprof.Time, wall_clock_time_ns: int) -> None:
        """An epoch has ended; timestamp.epoch counts it."""

    def window_open(self, timestamp: cprof.Time, wall_clock_time_ns: int) -> None:
        """What is recorded of the steps from here on goes into one file."""

    def window_close(self, timestamp: cprof.Time, wall_clock_time_ns: int) -> None:
        """All of a window has been told."""

    def trace_ready(self, trace: SavedTrace) -> None:
        """A trace of ours is whole."""

    def lost(self, count: int) -> None:
        """So many calls found no room in the queue just before: this handler is too slow."""

    def close(self) -> None:
        """The last call: the interpreter ends."""


def _add_function(library: ctypes.PyDLL) -> Callable[[bytes, int, int], Optional[int]]:
    """Opens a queue for a name, of so many bytes and some kinds of messages; one of an older library takes in all kinds."""
    try:
        add = library["cprof_trace_queue_for"]
    except AttributeError:
        of_all = library["cprof_trace_queue"]
        of_all.restype, of_all.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_size_t]
        return lambda name, size, _: of_all(name, size)
    add.restype, add.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint]
    return add


def _functions() -> Any:
    """The library's calls: (add, read, lost, leave, finish, names), or None without the library."""
    try:
        keep, give = ctypes.PyDLL(None), ctypes.CDLL(None)  # calls through the second one give the GIL up
        add, lost, leave = _add_function(keep), keep["cprof_trace_queue_lost"], keep["cprof_trace_queue_leave"]
        names = keep["cprof_trace_handlers"]
        read, finish = give["cprof_trace_queue_read"], give["cprof_trace_queue_finish"]
    except (AttributeError, OSError, TypeError):
        return None
    read.restype, read.argtypes = ctypes.c_int64, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    lost.restype, lost.argtypes = ctypes.c_uint64, [ctypes.c_void_p]
    leave.restype, leave.argtypes = None, [ctypes.c_void_p]
    finish.restype, finish.argtypes = ctypes.c_int64, []
    names.restype, names.argtypes = ctypes.c_size_t, [ctypes.POINTER(ctypes.c_char_p), ctypes.c_size_t]
    return add, read, lost, leave, finish, names


_calls = _functions()
_readers: List[_Reader] = []
_lock = threading.Lock()


def _text(data: bytes, at: int) -> Tuple[str, int]:
    """A text of a message, and where it ends."""
    (length,) = _LENGTH.unpack_from(data, at)
    at += _LENGTH.size
    return data[at:at + length].decode("utf-8", "replace"), at + length


class _Reader:
    """One handler, its queue and its thread."""

    _METHODS = {_DURATION: "process_duration_event", _INSTANT: "process_instant_event",
                _COUNTER: "process_counter_event", _FILE: "process_chrome_json_trace_file", _TRACE: "trace_ready",
                _STEP: "step_end", _EPOCH: "epoch_end", _OPEN: "window_open", _SHUT: "window_close", _LOST: "lost",
                _INIT: "init", _CLOSE: "close"}

    def __init__(self, handler: Any, name: str) -> None:
        self.name, self.handler = name, handler
        self.queue: Optional[int] = None
        self.told: set = set()  # methods of which was said that they raised
        self.methods: Dict[int, Callable] = {}
        self.with_thread: set = set()
        for kind, method in self._METHODS.items():
            self._find(kind, method)
        self.thread = threading.Thread(target=self._run, name="cprof handler", daemon=True)

    def open(self) -> bool:
        """Has the queue made, for what the handler is called with."""
        size = int(getattr(self.handler, "queue_bytes", TraceHandler.queue_bytes))
        name = self.name.replace("\0", "\ufffd").encode("utf-8", "surrogatepass")
        self.queue = _calls[0](name, size, sum(1 << kind for kind in self.methods))
        return self.queue is not None

    def _find(self, kind: int, name: str) -> None:
        """Those that do nothing are not called; of a handler made for Composer only what has the same meaning there."""
        ours = isinstance(self.handler, TraceHandler)
        method = getattr(self.handler, name, None)
        if method is None or not (ours or name.startswith("process_")):
            return
        if ours and getattr(method, "__func__", None) is getattr(TraceHandler, name):
            return
        self.methods[kind] = method
        try:
            parameters = inspect.signature(method).parameters
        except (TypeError, ValueError):
            return
        if "thread_id" in parameters or any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
            self.with_thread.add(kind)

    def _call(self, kind: int, *args: Any, **named: Any) -> bool:
        try:
            self.methods[kind](*args, **named)
        except BaseException as error:  # even SystemExit ends no program from here
            name = self._METHODS[kind]
            if name not in self.told:
                self.told.add(name)
                left = "it is left out" if kind == _INIT else "it goes on"
                cprof._say(f"trace handler {self.name}: {name}() raised {error!r}; {left}")
            return False
        return True

    def _event(self, kind: int, data: bytes, at: int) -> None:
        timestamp, wall, at = self._moment(data, at)
        is_start, _, _, thread, _ = _EVENT.unpack_from(data, at)
        name, at = _text(data, at + _EVENT.size)
        (n,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        categories = []
        for _ in range(n):
            category, at = _text(data, at)
            categories.append(category)
        named: Dict[str, Any] = {"name": name, "categories": categories, "timestamp": timestamp,
                                 "wall_clock_time_ns": wall}
        if kind in self.with_thread:
            named["thread_id"] = thread
        if kind == _DURATION:
            named["is_start"] = bool(is_start)
        elif kind == _COUNTER:
            named["values"] = self._values(data, at)
        self._call(kind, **named)

    @staticmethod
    def _values(data: bytes, at: int) -> Dict[str, Union[int, float]]:
        (n,) = _COUNT.unpack_from(data, at)
        at += _COUNT.size
        values = {}
        for _ in range(n):
            name, at = _text(data, at)
            (values[name],) = (_REAL if data[at] else _WHOLE).unpack_from(data, at + 1)
            at += 1 + _WHOLE.size
        return values

    @staticmethod
    def _moment(data: bytes, at: int) -> Tuple[cprof.Time, int, int]:
        fields = _TIME.unpack_from(data, at)
        return cprof.Time(*fields[1:11], fields[0]), fields[11], at + _TIME.size

    def _trace(self, data: bytes, at: int) -> None:
        timestamp, _, at = self._moment(data, at)
        path, at = _text(data, at)
        first, last, events, lost, partial = _SAVED.unpack_from(data, at)
        self._call(_TRACE, SavedTrace(path, first, last, events, lost, bool(partial), timestamp))

    def _take(self, kind: int, data: bytes, at: int) -> bool:
        """One message. False: the handler is left out."""
        if kind not in self.methods:
            return True
        if kind in (_DURATION, _INSTANT, _COUNTER):
            self._event(kind, data, at)
        elif kind in (_STEP, _EPOCH, _OPEN, _SHUT):
            timestamp, wall, _ = self._moment(data, at)
            self._call(kind, timestamp, wall)
        elif kind == _FILE:
            self._call(kind, pathlib.Path(_text(data, at)[0]))
        elif kind == _TRACE:
            self._trace(data, at)
        elif kind == _LOST:
            self._call(kind, _LOST_COUNT.unpack_from(data, at)[0])
        else:
            return self._call(kind) or kind != _INIT
        return True

    def _run(self) -> None:
        _, read, _, leave, _, _ = _calls
        buffer = ctypes.create_string_buffer(_BUFFER)
        while True:
            n = read(self.queue, buffer, _BUFFER, 3_600_000)
            if n < 0:
                return
            data, at = ctypes.string_at(buffer, n), 0
            while at < n:
                length, kind = _HEAD.unpack_from(data, at)
                if not self._take(kind, data, at + _HEAD.size):
                    leave(self.queue)
                    return
                at += length

    def end(self, until: float) -> None:
        """At the interpreter's end: waits until close() has come back, at most until then."""
        self.thread.join(max(0.0, until - time.monotonic()))
        lost = _calls[2](self.queue)
        if self.thread.is_alive():
            cprof._say(f"trace handler {self.name} was not done within CPROF_DRAIN_DEADLINE_MS; the rest is not told to it")
        if lost:
            cprof._say(f"trace handler {self.name} was too slow: {lost:,} calls were not made")


def _finish() -> None:
    """The recording ends with the interpreter: handlers could not be told of anything later."""
    began = time.monotonic()
    deadline = _calls[4]() if _readers else -1
    if deadline < 0:
        return
    until = max(began + deadline / 1000, time.monotonic() + min(deadline, 100) / 1000)
    for reader in list(_readers):
        reader.end(until)


def _in_child() -> None:
    global _lock, _on_trace_ready
    _lock, _on_trace_ready = threading.Lock(), None
    _readers.clear()


def add_trace_handler(handler: Any) -> bool:
    """From now on the handler is told. A TraceHandler, or an object with methods process_*_event() as Composer's have
    them. Whether it was taken; when not, one line on stderr says why, but without the library and in a forked child."""
    if isinstance(handler, type) or not (isinstance(handler, TraceHandler) or
                                         callable(getattr(handler, "process_duration_event", None))):
        raise TypeError(f"{handler!r} is no trace handler")
    name = str(getattr(handler, "name", None) or type(handler).__name__)
    if _calls is None:
        return False
    if in_subinterpreter():
        cprof._say(f"trace handler {name}: a subinterpreter, which the process may outlive, can have none; it is left out")
        return False
    with _lock:
        reader = _Reader(handler, name)
        if not reader.open():
            return False
        if not _readers:
            atexit.unregister(_finish)
            atexit.register(_finish)
        try:
            reader.thread.start()
        except RuntimeError as error:  # there are too many, or the interpreter is ending
            _calls[3](reader.queue)
            cprof._say(f"trace handler {name}: {error}; it is left out")
            return False
        _readers.append(reader)
    return True


def trace_handlers() -> Tuple[str, ...]:
    """Names of all handlers, in the order in which they are called; the first one is "json", which writes the traces.
    () without the library and in a forked child."""
    if _calls is None:
        return ()
    most = 128
    names = (ctypes.c_char_p * most)()
    n = _calls[5](names, most)
    return tuple((name or b"").decode("utf-8", "replace") for name in names[:min(n, most)])


class _OnTraceReady(TraceHandler):
    """Calls the function of set_on_trace_ready()."""

    name = "on_trace_ready"
    function: Optional[Callable[[SavedTrace], Any]] = None

    def trace_ready(self, trace: SavedTrace) -> None:
        function = self.function
        if function is not None:
            function(trace)


_on_trace_ready: Optional[_OnTraceReady] = None


def set_on_trace_ready(function: Optional[Callable[[SavedTrace], Any]]) -> bool:
    """From now on function(trace) is called with each trace that is whole, on a thread of its own: training never
    waits. None takes it away. Whether it will be called; False without the library."""
    global _on_trace_ready
    if function is not None and not callable(function):
        raise TypeError("what is called with a trace must be callable")
    if _on_trace_ready is None:
        handler = _OnTraceReady()
        handler.function = function
        if function is None or not add_trace_handler(handler):
            return False
        _on_trace_ready = handler
    _on_trace_ready.function = function
    return function is not None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
