# SPDX-License-Identifier: Apache-2.0
"""An optional parser that needs a fifth of json's time: msgspec, with numpy (cprof's wheel with `[fast]`).

    events = any_events()     # text of a JSON array -> events, or None
    chosen = chosen_events(f) # likewise, only those that f() takes
    sound = sound_events()    # the same, as objects with the fields that readers need

For a text that the parser refuses (NaN, lone surrogates, events that are no objects) the result is None, and json reads or refuses the text.
The parser is as strict as json about fields that it skips."""

import functools
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Union

METADATA = frozenset(("process_name", "process_labels", "process_sort_index", "process_uptime_seconds", "thread_name",
                      "thread_sort_index", "global_rank", "clock_sync_timestamp_us", "clock_sync_error_bound", "num_cpus",
                      "trace_config", "trace_buffer_overflowed"))
UINT32 = 2**32 - 1
MOST = 2**62 - 1          # the largest number that is no time
MOST_US = 4e15            # the latest time: up to here a double distinguishes nanoseconds
REFUSED_MOST = 3          # refused texts in a row after which a reader gives the parser up
_ZEROS = bytes.maketrans(b"123456789", b"0" * 9)
_LONG = b"0" * 19         # a number with fewer digits fits into 64 bits


def _taken(decode: Callable[[Any], Any]) -> Callable[[Any], Any]:
    import msgspec

    def events(text: Any) -> Any:
        try:
            return decode(text)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
    return events


def any_events() -> Optional[Callable[[str], Optional[List[Dict[str, Any]]]]]:
    """A function that makes events of a text. None if the parser is not installed."""
    try:
        import msgspec
    except ImportError:
        return None
    return _taken(msgspec.json.Decoder(List[Dict[str, Any]]).decode)


def chosen_events(is_wanted: Callable[[Any, Any, Any], bool]) -> Optional[Callable[[str], Optional[List[Dict[str, Any]]]]]:
    """Like any_events(), in half the time: a function that makes only the events that are wanted by their ph, cat and name. None if the parser is not
    installed."""
    try:
        import msgspec
    except ImportError:
        return None

    class Event(msgspec.Struct, gc=False):
        ph: Any = None
        cat: Any = None
        name: Any = None
        pid: Any = None
        tid: Any = None
        ts: Any = None
        dur: Any = None
        args: msgspec.Raw = msgspec.Raw(b"null")

    decode, names, args_of = msgspec.json.Decoder(List[Event]).decode, Event.__struct_fields__, msgspec.json.decode

    def chosen(text: str) -> List[Dict[str, Any]]:
        found = [one for one in decode(text) if is_wanted(one.ph, one.cat, one.name)]
        return [{name: args_of(one.args) if name == "args" else getattr(one, name) for name in names} for one in found]
    return _taken(chosen)


@functools.lru_cache(None)
def fast_numpy() -> Any:
    """numpy, for columns of numbers; None if it is not installed."""
    try:
        import numpy
    except ImportError:
        return None
    return numpy


class Sound(NamedTuple):
    """A function that makes events of a text if each keeps `cprof check`'s rules for a single event, and the classes of these events."""
    events: Callable[[str], Optional[List[Any]]]
    span: Any
    instant: Any
    start: Any                # of an arrow
    end: Any
    metadata: Any


def has_long_numbers(text: str) -> bool:
    """Whether a number may have more than 64 bits."""
    digits = text.encode("utf-8", "replace").translate(_ZEROS)
    at = digits.find(_LONG)
    while at > 0 and digits[at - 1:at] == b".":  # digits after a point do not count
        at += len(_LONG)
        while digits[at:at + 1] == b"0":
            at += 1
        at = digits.find(_LONG, at)
    return at >= 0


@functools.lru_cache(None)
def sound_events() -> Optional[Sound]:
    """See Sound. None if the parser is not installed."""
    try:
        from typing import Annotated, Literal
        import msgspec
    except ImportError:
        return None
    field, limit = msgspec.field, msgspec.Meta
    process, thread = Annotated[int, limit(ge=0, le=UINT32)], Annotated[int, limit(ge=1, le=UINT32)]
    time = Union[Annotated[int, limit(ge=0, le=int(MOST_US))], Annotated[float, limit(ge=0, le=MOST_US)]]
    text, number = Annotated[str, limit(min_length=1)], Annotated[int, limit(ge=-MOST, le=MOST)]

    class Args(msgspec.Struct, gc=False, omit_defaults=True):
        """The args of a span that readers need."""
        external: Optional[number] = field(default=None, name="External id")  # type: ignore[valid-type]
        correlation: Optional[number] = None                                  # type: ignore[valid-type]
        flops: Optional[number] = None                                        # type: ignore[valid-type]
        stack: Optional[str] = field(default=None, name="Call stack")
        module: Optional[text] = field(default=None, name="Module Hierarchy")  # type: ignore[valid-type]
        sequence: Optional[number] = field(default=None, name="Sequence number")  # type: ignore[valid-type]
        forward: Optional[number] = field(default=None, name="Fwd thread id")  # type: ignore[valid-type]
        device: Optional[number] = None                                       # type: ignore[valid-type]
        stream: Optional[number] = None                                       # type: ignore[valid-type]
        inDevice: Optional[number] = None                                     # type: ignore[valid-type]
        step_thread: Optional[number] = field(default=None, name="thread")    # type: ignore[valid-type]
        cuda_sync_kind: Optional[str] = None
        wait_on_cuda_event_record_corr_id: Optional[number] = None            # type: ignore[valid-type]
        collective: Optional[str] = field(default=None, name="Collective name")
        dtype: Optional[str] = None
        nelems_in: Optional[number] = field(default=None, name="In msg nelems")  # type: ignore[valid-type]
        nelems_out: Optional[number] = field(default=None, name="Out msg nelems")  # type: ignore[valid-type]
        group_size: Optional[number] = field(default=None, name="Group size")  # type: ignore[valid-type]
        recompute: Any = None
        bytes: Any = None
        ranks: Any = field(default=None, name="Process Group Ranks")
        place: Any = field(default=None, name="Seq")
        captured_in: Any = field(default=None, name="captured in")
        captured_module: Any = field(default=None, name="captured module")
        hlo_op: Any = None
        hlo_module: Any = None
        source: Optional[str] = None

    no_args = Args()

    class Span(msgspec.Struct, gc=False, omit_defaults=True, tag_field="ph", tag="X"):
        ts: time       # type: ignore[valid-type]
        dur: time      # type: ignore[valid-type]
        pid: process   # type: ignore[valid-type]
        tid: thread    # type: ignore[valid-type]
        name: text     # type: ignore[valid-type]
        cat: text      # type: ignore[valid-type]
        args: Args = field(default_factory=lambda: no_args)
        sf: Union[int, str, None] = None

    class Memory(msgspec.Struct, gc=False, omit_defaults=True):
        """The args of an instant that readers need."""
        Bytes: Optional[number] = None                                        # type: ignore[valid-type]
        type: Optional[number] = field(default=None, name="Device Type")      # type: ignore[valid-type]
        id: Optional[number] = field(default=None, name="Device Id")          # type: ignore[valid-type]
        Addr: Optional[number] = None                                         # type: ignore[valid-type]
        total: Optional[number] = field(default=None, name="Total Allocated")  # type: ignore[valid-type]
        reserved: Any = field(default=None, name="Total Reserved")
        kind: Any = field(default=None, name="Memory Kind")

    no_memory = Memory()

    class Instant(msgspec.Struct, gc=False, omit_defaults=True, tag_field="ph", tag="i"):
        ts: time       # type: ignore[valid-type]
        pid: process   # type: ignore[valid-type]
        tid: thread    # type: ignore[valid-type]
        name: text     # type: ignore[valid-type]
        cat: Optional[str] = None
        s: Literal["t", "p", "g"] = "t"
        args: Memory = field(default_factory=lambda: no_memory)

    class Counter(msgspec.Struct, gc=False, tag_field="ph", tag="C"):
        ts: time       # type: ignore[valid-type]
        pid: process   # type: ignore[valid-type]
        name: text     # type: ignore[valid-type]
        args: Annotated[Dict[str, Union[int, float]], limit(min_length=1)]
        tid: Optional[thread] = None  # type: ignore[valid-type]
        cat: Optional[str] = None

    class Arrow(msgspec.Struct, gc=False, kw_only=True):
        """The fields of both ends of an arrow."""
        ts: time       # type: ignore[valid-type]
        pid: process   # type: ignore[valid-type]
        tid: thread    # type: ignore[valid-type]
        id: number     # type: ignore[valid-type]
        cat: str
        name: Optional[text] = None  # type: ignore[valid-type]
        args: Optional[Dict[str, Any]] = None

    class Start(Arrow, gc=False, kw_only=True, tag_field="ph", tag="s"):
        pass

    class End(Arrow, gc=False, kw_only=True, tag_field="ph", tag="f"):
        bp: Literal["e"]

    class Metadata(msgspec.Struct, gc=False, tag_field="ph", tag="M"):
        name: Literal[tuple(sorted(METADATA))]  # type: ignore[valid-type]
        pid: Optional[process] = None  # type: ignore[valid-type]
        tid: Optional[thread] = None   # type: ignore[valid-type]
        ts: Optional[time] = None      # type: ignore[valid-type]
        args: Optional[Dict[str, Any]] = None

    decode = _taken(msgspec.json.Decoder(List[Union[Span, Instant, Counter, Start, End, Metadata]]).decode)
    return Sound(decode, Span, Instant, Start, End, Metadata)


def as_event(one: Any) -> Dict[str, Any]:
    """A span or instant as a dictionary, as json would make it, with the known fields that are not at their default."""
    import msgspec
    found: Dict[str, Any] = msgspec.to_builtins(one)
    return found
