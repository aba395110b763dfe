# SPDX-License-Identifier: Apache-2.0
"""Tells the profiler cprof what a Python program does: steps, epochs, markers, metadata, and what to record.

    import cprof

    load = cprof.marker("load batch", categories=["data"])
    for epoch in range(epochs):
        for batch in batches:
            with load:
                x = fetch(batch)
            train(x)
            cprof.step(samples=len(x))
        cprof.epoch()

Under LD_PRELOAD=libcprof.so the calls reach the library. Without it, and where ctypes does not load (subinterpreters of
Python 3.12), every call does nothing, so a program can keep them. All calls may be made from any thread. They raise only
for arguments of a wrong type. The module is pure Python over ctypes and loads no library.

key_averages() and events() read traces, as the command `cprof` does, and raise a ValueError that names the file.
"""

from __future__ import annotations

import _thread
import inspect
import os
import sys
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, Iterator, Mapping, NamedTuple, Optional, Union

from cprof import _library
from cprof._action import Action, action_of
from cprof._library import ctypes
from cprof._library import function as _function
from cprof._library import lib as _lib
from cprof._saved import SavedTraces, saved_traces
from cprof._wrap import wrap

if TYPE_CHECKING:
    from cprof.tool.averages import Averages

__all__ = ["Action", "Marker", "Profile", "SavedTrace", "SavedTraces", "Time", "TraceHandler", "action", "add_metadata",
           "add_metadata_json", "add_trace_handler", "epoch", "events", "export_chrome_trace", "is_recording", "key_averages",
           "mark", "marker", "profile", "range_pop", "range_push", "record_chrome_json_trace_file", "saved_traces",
           "set_on_trace_ready", "set_schedule", "start", "step", "step_number", "stop", "trace_handlers", "version"]
__version__ = "0.1.0"

_INT64 = range(-2**63, 2**63)


def _say(text: str) -> None:
    """Prints a line on stderr in one write, since several threads may print."""
    try:
        sys.stderr.write("cprof: " + text.replace("\n", " ") + "\n")
    except Exception:
        pass  # a program may have closed it


def _bytes(text: Any) -> bytes:
    """A text for C. The library repairs lone surrogates when it writes the text."""
    return str(text).replace("\0", "\ufffd").encode("utf-8", "surrogatepass")


def _real(number: Any) -> float:
    """A counter's number as a float; too large a number becomes infinity."""
    try:
        return float(number)
    except OverflowError:
        return float("inf")


_version = _function("version", "c_char_p", "", b"")
_step = _function("step_samples", None, "c_int64 c_int64")
_epoch = _function("epoch", None, "")
_action = _function("action", "c_int", "", 0)
_step_number = _function("step_number", "c_int64", "", 0)
_is_recording = _function("is_recording", "c_int", "", 0)
_start = _function("start", None, "")
_stop = _function("stop", None, "")
_set_schedule = _function("set_schedule", None, "c_void_p c_void_p")
_add_metadata = _function("add_metadata", "c_int", "c_char_p c_char_p", 0)
_add_metadata_json = _function("add_metadata_json", "c_int", "c_char_p c_char_p", 0)
_record_file = _function("record_chrome_json_trace_file", "c_int", "c_char_p", 0)
_range_push = _function("range_push", "c_int", "c_char_p", 0)
_range_pop = _function("range_pop", "c_int", "", -1)
_mark = _function("mark", None, "c_char_p")
_make = _function("marker", "c_void_p", "c_char_p c_void_p")
# A marker passes the same c_void_p in each call. Without argtypes ctypes converts nothing, which is faster.
_marker_start = _function("marker_start", None, None)
_marker_finish = _function("marker_finish", None, None)
_marker_instant = _function("marker_instant", None, None)
_counter = _function("marker_counter", None, None)
_counter_int = _function("marker_counter_int", None, None)


# ---- steps ----

def version() -> str:
    """The library's version; "" without the library."""
    return _version().decode()


def step(samples: int = 0, tokens: int = 0) -> None:
    """Marks the end of a training step with its numbers of samples and tokens. From the first call on, only these calls
    count steps."""
    _step(int(samples), int(tokens))


def epoch() -> None:
    """Marks the end of an epoch. Call it after the epoch's last step()."""
    _epoch()


def action() -> Action:
    """The action of the current step; SKIP without the library."""
    return Action(_action())


def step_number() -> int:
    """The number of the current step, from 0; 0 without the library."""
    return _step_number()


def is_recording() -> bool:
    """Whether a marker started now would be recorded. Check it before work that only a marker needs."""
    return bool(_is_recording())


# ---- when to record ----

def start() -> None:
    """Limits recording to the code between start() and stop(). The settings' schedule begins anew here with its step 0."""
    _start()


def stop() -> None:
    """Ends the region of start(), and saves the active steps. In nested regions only the outermost stop() has an effect."""
    _stop()


class Profile:
    """The result of `with profile() as p`, for users of torch.profiler: start() and stop() around a block."""

    def __enter__(self) -> Profile:
        start()
        return self

    def __exit__(self, *_: Any) -> None:
        stop()

    start = staticmethod(start)
    stop = staticmethod(stop)
    step = staticmethod(step)
    epoch = staticmethod(epoch)

    @property
    def step_num(self) -> int:
        """step_number()"""
        return step_number()


def profile() -> Profile:
    """A context manager that records its block; its step() marks steps."""
    return Profile()


class Time(NamedTuple):
    """The progress of training when a step begins. Counts are of complete epochs, batches, samples and tokens. *_wct are
    seconds of wall-clock time: of the run, of the current epoch, of the last batch. step: the step's number."""
    epoch: int
    batch: int
    batch_in_epoch: int
    sample: int
    sample_in_epoch: int
    token: int
    token_in_epoch: int
    total_wct: float
    epoch_wct: float
    batch_wct: float
    step: int


Schedule = Union[Callable[[int], Any], Callable[[int, Time], Any]]
_schedules: dict = {}  # callbacks by function, kept forever: another thread may still be in an earlier one


def _takes_time(function: Callable) -> bool:
    """Whether the function wants the time: it has two required arguments, or a second one named `time`. Any other second
    argument has a default of its own, as in `lambda step, every=every: ...`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return False
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(places) > 1 and (places[1].default is places[1].empty or places[1].name == "time")


def _raise_later(thread: int, error: BaseException) -> None:
    """Raises an exception in a thread after the thread has left its callback."""
    class Later(type(error)):  # type: ignore[misc]
        """Python takes a class and makes an exception of it without arguments. This class returns the original exception, with its exit code.
        Up to Python 3.10, Python also makes an exception of the original one where it is raised again."""

        def __new__(cls, *_: Any) -> BaseException:
            return error

    kind = KeyboardInterrupt if type(error) is KeyboardInterrupt else Later  # Python 3.10 recognises ^C by this exact class

    def run() -> None:
        time.sleep(0.01)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))

    _thread.start_new_thread(run, ())


def set_schedule(function: Optional[Schedule]) -> None:
    """From now on function(step) or function(step, time) returns the Action of the step that begins. The function gets the
    time if it has two required arguments, or a second one named `time`. None restores the settings' schedule. The result of
    torch.profiler.schedule(...) is such a function. The thread that marks steps calls it: first for the current step, then
    for each new one, and again at the end of an epoch. If it raises, the step is skipped, and a line on stderr reports the
    first time. Does nothing in subinterpreters."""
    if function is not None and not callable(function):
        raise TypeError("a schedule must be callable")
    if _lib is None:
        return
    if _library.in_subinterpreter():
        _say("set_schedule() was called in a subinterpreter, which the process may outlive: nothing is changed")
        return
    if function is None:
        _set_schedule(None, None)
        return
    try:
        callback = _schedules.get(function)
    except TypeError:  # not hashable
        callback = None
    if callback is not None:
        _set_schedule(ctypes.cast(callback, ctypes.c_void_p), None)
        return
    takes_time, told = _takes_time(function), []

    def choose(time: Any, _: Any) -> int:
        try:
            t = time.contents
            if takes_time:
                return action_of(function(t.step, Time(*(getattr(t, name) for name in Time._fields))))
            return action_of(function(t.step))
        except Exception as error:
            if not told:
                told.append(True)
                _say(f"the schedule raised {error!r}: such steps are skipped")
            return Action.SKIP
        except BaseException as error:  # ^C, or an exception of another signal handler: it belongs to the program, and ctypes would drop it
            _raise_later(threading.get_ident(), error)
            return Action.SKIP

    callback = _library.Choose(choose)
    try:
        _schedules[function] = callback
    except TypeError:
        _schedules[id(callback)] = callback
    _set_schedule(ctypes.cast(callback, ctypes.c_void_p), None)


# ---- metadata ----

def add_metadata(key: str, value: str) -> bool:
    """Adds a key to the trace's top level, in the open file and every later one. The last value of a key wins. Returns
    whether the key was accepted; if not, a line on stderr gives the reason. False without the library."""
    return bool(_add_metadata(_bytes(key), _bytes(value)))


def add_metadata_json(key: str, value: str) -> bool:
    """Like add_metadata(), with a value of any JSON type as text. The text is checked strictly."""
    return bool(_add_metadata_json(_bytes(key), _bytes(value)))


# ---- traces of other tools ----

def record_chrome_json_trace_file(path: Union[str, bytes, os.PathLike]) -> bool:
    """Adds a Chrome JSON trace of another tool, plain or gzip. Its events go into the open trace, else into the next one,
    on rows of their own and at their own times (cprof.h lists the clocks that cprof understands). The file may be removed
    after the call, but not changed. Returns whether the file was accepted; if not, a line on stderr gives the reason.
    False without the library."""
    return bool(_record_file(os.fsencode(path).replace(b"\0", b"\xef\xbf\xbd")))


# ---- traces ----

def export_chrome_trace(path: Union[str, "os.PathLike[str]"]) -> bool:
    """Copies the last complete trace to path, in gzip if path ends in .gz. Follows a link, and writes into a device or FIFO.
    Waits for a window that has just ended; other Python threads run meanwhile. Returns whether the trace was written; if
    not, a line on stderr gives the reason. False without the library and where it is off."""
    if _lib is None or not hasattr(_lib, "cprof_export_chrome_trace"):
        return False
    export = ctypes.CDLL(None)["cprof_export_chrome_trace"]  # releases the GIL, unlike the short calls
    export.restype, export.argtypes = ctypes.c_int, [ctypes.c_char_p]
    return bool(export(os.fsencode(path).replace(b"\0", b"\xef\xbf\xbd")))


# ---- markers ----

class Marker:
    """A named mark, made by marker(): an object with start() and finish(), a context manager, and a decorator. Durations
    of one thread nest: finish() also ends those that were started inside on the same thread. A `with` block that waits
    (await, yield) includes what else the thread runs meanwhile; a decorated function does not."""

    __slots__ = ("name", "actions", "record_instant_on_start", "record_instant_on_finish", "categories", "_marker",
                 "__weakref__")

    def __init__(self, name: str, actions: tuple, on_start: bool, on_finish: bool, categories: tuple) -> None:
        self.name, self.actions, self.categories = name, actions, categories
        self.record_instant_on_start, self.record_instant_on_finish = on_start, on_finish
        self._marker = self._made()

    def _made(self) -> Any:
        """The library's marker as a c_void_p; None without the library."""
        if _lib is None:
            return None
        texts = (ctypes.c_char_p * len(self.categories))(*map(_bytes, self.categories))
        options = _library.Options(ctypes.sizeof(_library.Options), sum({1 << action for action in self.actions}),
                                   self.record_instant_on_start, self.record_instant_on_finish, texts, len(self.categories))
        return ctypes.c_void_p(_make(_bytes(self.name), ctypes.byref(options)))

    def start(self) -> None:
        """Begins a duration on this thread. Has no effect if this thread has begun it already."""
        _marker_start(self._marker)

    def finish(self) -> None:
        """Ends the duration that this thread began; does nothing without one."""
        _marker_finish(self._marker)

    def instant(self) -> None:
        """Marks a moment."""
        _marker_instant(self._marker)

    def counter(self, values: Mapping[str, Union[int, float]]) -> None:
        """Samples a counter of one or more named values. NaN and infinities are left out."""
        numbers = list(values.values())
        are_whole = all(isinstance(number, int) and number in _INT64 for number in numbers)
        if not are_whole:
            numbers = list(map(_real, numbers))
        if _lib is None:
            return
        n = len(values)
        series = (ctypes.c_char_p * n)(*map(_bytes, values))
        size = ctypes.c_size_t(n)
        if are_whole:
            _counter_int(self._marker, size, series, (ctypes.c_int64 * n)(*numbers))
        else:
            _counter(self._marker, size, series, (ctypes.c_double * n)(*numbers))

    def __enter__(self) -> Marker:
        _marker_start(self._marker)
        return self

    def __exit__(self, *_: Any) -> None:
        _marker_finish(self._marker)

    def __call__(self, function: Callable) -> Callable:
        """Marks each call of a function. An async function and a generator are marked while they run: one duration from
        each resumption to the next suspension, so that what runs in between on the same thread stays outside."""
        return wrap(self, function)

    def __reduce__(self) -> tuple:
        """A copy, also in another process, is the marker of this name there."""
        return marker, (self.name, tuple(map(int, self.actions)), self.record_instant_on_start, self.record_instant_on_finish,
                        self.categories)

    def __repr__(self) -> str:
        return f"cprof.marker({self.name!r})"


_markers: weakref.WeakValueDictionary = weakref.WeakValueDictionary()


def marker(name: str, actions: Union[Action, Iterable[Action]] = (Action.WARMUP, Action.ACTIVE, Action.ACTIVE_AND_SAVE),
           record_instant_on_start: bool = False, record_instant_on_finish: bool = False,
           categories: Iterable[str] = ()) -> Marker:
    """The marker of this name, made by the first call, whose options count. `actions`: the kinds of steps in which it
    records."""
    found = _markers.get(name)
    if found is not None:
        return found
    names = (categories,) if isinstance(categories, str) else tuple(categories)
    wanted = (actions,) if isinstance(actions, (str, Action)) else actions
    made = Marker(name, tuple(Action(action_of(one)) for one in wanted), bool(record_instant_on_start),
                  bool(record_instant_on_finish), names)
    return _markers.setdefault(name, made)


def range_push(name: str) -> int:
    """Begins a range on this thread and returns its zero-based depth; 0 without the library."""
    return _range_push(_bytes(name))


def range_pop() -> int:
    """Ends this thread's innermost range and returns its depth; -1 if there is none, and without the library."""
    return _range_pop()


def mark(name: str) -> None:
    """Marks a moment."""
    _mark(_bytes(name))


# ---- traces ----

def key_averages(path: Union[str, os.PathLike], group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                 include_python_functions: bool = False) -> Averages:
    """torch.profiler's key_averages() of a trace: rows with torch's attributes, and table(sort_by, row_limit)."""
    from cprof.tool.averages import key_averages as read  # imported late: a program that only marks must not load the readers
    return read(path, group_by_input_shape, group_by_stack_n, include_python_functions)


def events(path: Union[str, os.PathLike], name: Union[str, Iterable[str], None] = None,
           category: Union[str, Iterable[str], None] = None, step: Union[int, Iterable[int], None] = None,
           device: Union[str, Iterable[str], None] = None,
           thread: Union[str, int, Iterable[Union[str, int]], None] = None) -> Iterator[Dict[str, Any]]:
    """The events of a trace of any size, one by one, as dictionaries. The filters are those of `cprof events`.
    name: a glob, or a literal name such as `[memory]`. device: `cpu`, `cuda` or `cuda:1`. thread: its id, or a glob of its
    name. An event passes if it matches any value of each filter. An empty list matches nothing. Raises a ValueError if the
    trace has no such step."""
    from cprof.tool.events import events as read
    return read(path, name, category, step, device, thread)


# ---- trace handlers ----

from cprof._handlers import (SavedTrace, TraceHandler, add_trace_handler, set_on_trace_ready,  # noqa: E402
                             trace_handlers)
