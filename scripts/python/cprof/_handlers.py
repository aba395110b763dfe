# SPDX-License-Identifier: Apache-2.0
"""Trace handlers in Python: objects that are called for markers, steps and traces during the run.

For each handler the library has a bounded queue of messages, and a thread here reads it, so that cprof's own thread never
waits for the interpreter. A handler that is too slow loses only its own calls, and the loss is counted. Marks may not fill
the whole queue: the rest is for rarer messages.
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
    """A finished trace. last_step: the last whole step, or first_step - 1 if there is none. partial: the trace ended
    before the end of its window in the schedule."""
    path: str
    first_step: int
    last_step: int
    events: int
    lost: int
    partial: bool
    timestamp: cprof.Time


class TraceHandler:
    """Subclass it, override the methods for the events that you want, and pass an object to add_trace_handler(). A thread
    of the handler's own makes all calls, some 10 ms after the events. If a method raises, one line reports it and the
    handler goes on; if init() raises, the handler is left out."""

    #: Bytes of the queue between cprof and the handler. Calls that find no room are lost to this handler, see lost(). Only calls
    #: of overridden methods are queued. Marks leave an eighth of the room to ends of steps, and these half of that to traces,
    #: windows and epochs.
    queue_bytes = 8 << 20

    #: The name in messages and in trace_handlers(); if empty, the name of the class.
    name = ""

    def init(self) -> None:
        """The first call."""

    def process_duration_event(self, name: str, categories: List[str], is_start: bool, timestamp: cprof.Time,
                               wall_clock_time_ns: int, thread_id: int = 0) -> None:
        """A duration has ended. Called twice in a row, with is_start True and False. The durations of one thread come in the
        order of their ends. An override may leave thread_id out."""

    def process_instant_event(self, name: str, categories: List[str], timestamp: cprof.Time, wall_clock_time_ns: int,
                              thread_id: int = 0) -> None:
        """A marker has marked a moment."""

    def process_counter_event(self, name: str, categories: List[str], timestamp: cprof.Time, wall_clock_time_ns: int,
                              values: Dict[str, Union[int, float]], thread_id: int = 0) -> None:
        """A marker has sampled a counter. A single value without a name has the key ""."""

    def process_chrome_json_trace_file(self, filepath: pathlib.Path) -> None:
        """A trace in Chrome's JSON format is there: a trace of cprof's, or the program has added a foreign one."""

    def step_end(self, timestamp: cprof.Time, wall_clock_time_ns: int) -> None:
        """A step has ended, recorded or not. timestamp.step is its number; timestamp.batch counts it."""

    def epoch_end(self, timestamp: cprof.Time, wall_clock_time_ns: int) -> None:
        """An epoch has ended; timestamp.epoch counts it."""

    def window_open(self, timestamp: cprof.Time, wall_clock_time_ns: int) -> None:
        """A window begins: the steps from here on are recorded into one file."""

    def window_close(self, timestamp: cprof.Time, wall_clock_time_ns: int) -> None:
        """A window has ended, and all its marks were passed to the handler."""

    def trace_ready(self, trace: SavedTrace) -> None:
        """A trace of cprof's is finished."""

    def lost(self, count: int) -> None:
        """`count` calls were lost just before, since the queue was full: this handler is too slow."""

    def close(self) -> None:
        """The last call, when the interpreter ends."""


def _functions() -> Any:
    """The library's calls: (add, read, lost, leave, finish, names), or None without the library."""
    try:
        keep, give = ctypes.PyDLL(None), ctypes.CDLL(None)  # calls through CDLL release the GIL
        add, lost, leave = keep["cprof_trace_queue_for"], keep["cprof_trace_queue_lost"], keep["cprof_trace_queue_leave"]
        names = keep["cprof_trace_handlers"]
        read, finish = give["cprof_trace_queue_read"], give["cprof_trace_queue_finish"]
    except (AttributeError, OSError, TypeError):
        return None
    add.restype, add.argtypes = ctypes.c_void_p, [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint]
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
    """A text of a message, and the offset of its end."""
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
        self.told: set = set()  # methods whose exception was reported
        self.methods: Dict[int, Callable] = {}
        self.with_thread: set = set()
        for kind, method in self._METHODS.items():
            self._find(kind, method)
        self.thread = threading.Thread(target=self._run, name="cprof handler", daemon=True)

    def open(self) -> bool:
        """Opens the queue for the handler's kinds of messages. False if the library refuses."""
        size = int(getattr(self.handler, "queue_bytes", TraceHandler.queue_bytes))
        name = self.name.replace("\0", "\ufffd").encode("utf-8", "surrogatepass")
        self.queue = _calls[0](name, size, sum(1 << kind for kind in self.methods))
        return self.queue is not None

    def _find(self, kind: int, name: str) -> None:
        """Finds a method. Leaves out those that are not overridden. Of a handler made for Composer it takes the process_*
        methods only, which have the same meaning there."""
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
        except BaseException as error:  # even SystemExit must not end the program here
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
        """Passes one message to the handler. Returns False if the handler is left out from now on."""
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
        """At the interpreter's end: waits for the handler's close(), at most until this time."""
        self.thread.join(max(0.0, until - time.monotonic()))
        lost = _calls[2](self.queue)
        if self.thread.is_alive():
            cprof._say(f"trace handler {self.name} was not done within CPROF_DRAIN_DEADLINE_MS; the rest is not told to it")
        if lost:
            cprof._say(f"trace handler {self.name} was too slow: {lost:,} calls were not made")


def _finish() -> None:
    """Ends the recording with the interpreter, since handlers cannot be called later."""
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
    """From now on calls the handler: a TraceHandler, or an object with Composer's methods process_*_event(). Returns
    whether the handler was accepted; if not, a line on stderr gives the reason. Without the library and in a forked child
    there is no line."""
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
        except RuntimeError as error:  # too many threads, or the interpreter is ending
            _calls[3](reader.queue)
            cprof._say(f"trace handler {name}: {error}; it is left out")
            return False
        _readers.append(reader)
    return True


def trace_handlers() -> Tuple[str, ...]:
    """The names of all handlers in the order of their calls. The first is "json", which writes the traces.
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
    """From now on calls function(trace) for each finished trace, on a thread of its own, so that training never waits.
    None removes the function. Returns whether it will be called; False without the library."""
    global _on_trace_ready
    if function is not None and not callable(function):
        raise TypeError("the function for finished traces must be callable")
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
