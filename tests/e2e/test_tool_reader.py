# SPDX-License-Identifier: Apache-2.0
"""cprof.tool.reader reads every form of a trace as json.load does, in pieces of any size. A cut file gives the events before the cut.
A file that is no trace is refused with the byte at fault."""

import gzip
import json
import random
import subprocess
import sys

import pytest

import tool
from cprof.tool import Problem, collectives, explain, fast, moments, reader, span_batches

EVENTS = [
    {"ph": "M", "name": "process_name", "pid": 1, "tid": 1, "ts": 0.0, "args": {"name": "日本 \"é\" \u2028 \\"}},
    {"ph": "X", "name": "},\n{", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 1.5, "dur": 2, "args": {}},
    {"ph": "X", "name": "nested", "ts": 1e3, "dur": -0.0, "args": {"a": [{"b": 1}, {"c": [{}, {}]}], "d": None, "e": True}},
    {"ph": "i", "name": "\U0001f600" * 20, "ts": 3, "args": {"big": 2**63, "small": -(2**63), "float": 1.25e-7}},
    {},
    {"ph": "C", "name": "c", "ts": 4, "args": {"": 1}},
] * 5


def read(path, chunk=None, monkeypatch=None):
    """(events, trace) of a file, read in pieces of so many bytes."""
    if chunk:
        monkeypatch.setattr(reader, "CHUNK", chunk)
    with reader.open_trace(str(path)) as trace:
        return list(trace), trace


def forms():
    """(name, text, expected metadata) of each form of a trace."""
    top = {"schemaVersion": 1, "deviceProperties": [{"id": 0}], "baseTimeNanoseconds": 1}
    after = {"traceName": "x", "cprof": {"lost": {"total": 0}}}
    lines = ",\n".join(json.dumps(event) for event in EVENTS)
    head = json.dumps(top)[:-1]
    yield "lines", f'{head},\n"traceEvents": [\n{lines}\n],\n{json.dumps(after)[1:]}\n', {**top, **after}
    yield "compact", json.dumps({**top, "traceEvents": EVENTS, **after}, separators=(",", ":")), {**top, **after}
    yield "pretty", json.dumps({"traceEvents": EVENTS, **after}, indent=4, ensure_ascii=False), after
    yield "mark", "\ufeff \n" + json.dumps({"traceEvents": EVENTS}), {}
    yield "array", json.dumps(EVENTS, indent=1), {}
    yield "empty", '{"traceEvents": [ ] }', {}
    yield "empty array", " [ ] ", {}


@pytest.mark.parametrize("chunk", [1, 7, 64, 1000, 1 << 18])
@pytest.mark.parametrize("form", [name for name, _, _ in forms()])
@pytest.mark.parametrize("packed", [False, True])
def test_reads_every_form_as_json_does(form, chunk, packed, tmp_path, monkeypatch):
    text, metadata = {name: rest for name, *rest in forms()}[form]
    data = text.encode("utf-8", "surrogatepass") if form != "pretty" else text.encode()
    path = tmp_path / "t.json"
    path.write_bytes(gzip.compress(data[:len(data) // 2]) + gzip.compress(data[len(data) // 2:]) + b"\0" * 512
                     if packed else data)
    events, trace = read(path, chunk, monkeypatch)
    assert events == ([] if "empty" in form else EVENTS)
    assert trace.metadata == metadata and trace.notes == [] and not trace.truncated


FRAMES = {str(n): {"category": "c", "name": 'f(},\n{") ' + "é" * (n % 7), "parent": n // 2, "n": {"a": [{}, {}]}} for n in range(40)}


@pytest.mark.parametrize("chunk", [1, 64, 1000, 1 << 18])
@pytest.mark.parametrize("indent", [None, 0, 2])
@pytest.mark.parametrize("key, value", [("stackFrames", FRAMES), ("stackFrames", {}), ("stackFrames", None), ("stackFrames", [FRAMES, 1]),
                                        ("merged", [{"rank": n, "x": [], "y": {}, "stackFrames": FRAMES, "name": ""} for n in (0, 1)])])
def test_skips_large_unwanted_values(key, value, indent, chunk, tmp_path, monkeypatch):
    """Before or after the events, in any layout. A reader that wants them gets the same values."""
    for text in (json.dumps({key: value, "traceEvents": EVENTS, "b": 2}, indent=indent),
                 json.dumps({"traceEvents": EVENTS, key: value, "b": 2}, indent=indent)):
        (tmp_path / "t.json").write_text(text)
        monkeypatch.setattr(reader, "CHUNK", chunk)
        with reader.open_trace(str(tmp_path / "t.json")) as trace:
            trace.past_large = True
            assert list(trace) == EVENTS and trace.metadata == {key: None, "b": 2} and trace.notes == []
        assert read(tmp_path / "t.json")[1].metadata == {key: value, "b": 2}


@pytest.mark.parametrize("text, said", [('{"1": {"a": 1} "2": {}}', "where ',' or '}'"), ('{"1": {"a": 1}, 2: {}}', "a key in double quotes"),
                                        ('{"1": {"a": 1},}', "a key in double quotes"), ('{"1": {"a" 1}, "2": {"b": 1}}', "delimiter"),
                                        ('{"1": {"a": 1}]', "where ',' or '}'")])
def test_skipped_values_must_be_json(text, said, tmp_path):
    (tmp_path / "t.json").write_text('{"traceEvents": [{}], "stackFrames": ' + text + ', "behind": "a text that is long enough"}')
    with pytest.raises(Problem, match="byte ") as raised, reader.open_trace(str(tmp_path / "t.json")) as trace:
        trace.past_large = True
        list(trace)
    assert said in str(raised.value)


def test_accepts_a_cut_inside_a_skipped_value(tmp_path):
    text = json.dumps({"traceEvents": EVENTS, "stackFrames": FRAMES})
    for end in range(text.index('"stackFrames"'), len(text), 7):
        (tmp_path / "t.json").write_text(text[:end])
        with reader.open_trace(str(tmp_path / "t.json")) as trace:
            trace.past_large = True
            assert list(trace) == EVENTS and trace.truncated, end


def test_accepts_large_values_behind_the_events(tmp_path):
    """A trace and a merged trace with very many stack frames: every command accepts them."""
    frames = "{" + ",\n".join(f'"{n}": {{"name": "{"f" * 500}", "parent": {n - 1}}}' for n in range(1, 130_000)) + "}"
    assert len(frames) > reader.MAX_VALUE
    event = json.dumps(dict(tool.span("aten::mm", 0.0, 5.0), sf=1))
    path, merged = tmp_path / "t.json", tmp_path / "m.json"
    path.write_text(f'{{"traceEvents": [\n{event}\n],\n"stackFrames": {frames}}}')
    for command in (("top", path), ("check", path), ("events", path, "--name", "aten::*"), ("merge", path, "-o", merged),
                    ("check", merged), ("events", merged), ("top", path, "--group-by-stack-n", 1)):
        done = tool.cprof(*command)
        assert done.rc == 0, (command, done.err)
    assert "ffff" in done.out
    tool.refused(tool.cprof("top", merged), "is merged of several ranks")


def test_reads_the_head_before_the_events(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('{"a": 1, "traceEvents": [{"ph": "X"}], "b": 2}')
    with reader.open_trace(str(path)) as trace:
        assert trace.head() == {"a": 1}
        assert list(trace) == [{"ph": "X"}] and trace.metadata == {"a": 1, "b": 2}


@pytest.mark.parametrize("packed", [False, True])
def test_uses_events_before_a_cut_at_any_byte(packed, tmp_path):
    """The reader yields the events before the cut, notes the cut, and invents no event."""
    text = next(text for name, text, _ in forms() if name == "lines")[:600].encode()
    whole = json.loads(next(text for name, text, _ in forms() if name == "lines"))["traceEvents"]
    data = gzip.compress(text, mtime=0) if packed else text
    path = tmp_path / "t.json"
    most = 0
    for end in range(len(data)):
        path.write_bytes(data[:end])
        try:
            events, trace = read(path)
        except Problem as error:
            # One byte of gzip data does not tell the format.
            assert "empty" in str(error) or "before its events" in str(error) or packed and end == 1, (end, error)
            assert most == 0
            continue
        assert trace.truncated and "byte" in trace.notes[0], end
        assert events == whole[:len(events)] and len(events) >= most
        most = len(events)
    assert most > 1


@pytest.mark.parametrize("text, message", [
    (b"", "is empty"),
    (b"   \n", "is empty"),
    (b"hello", "byte 0: no JSON object or array"),
    (b"\x7fELF\x00\x01", "byte 0: no JSON object"),
    (b"{}", "has no traceEvents"),
    (b'{"a": [1, 2]}', "has no traceEvents"),
    (b'{"traceEvents": null}', "traceEvents is no array"),
    (b'{"traceEvents": {"ph": "X"}}', "traceEvents is no array"),
    (b'{traceEvents: []}', "byte 1: 't' where a key"),
    (b'{"traceEvents" []}', "where ':'"),
    (b'{"traceEvents": [{"ph": "X"} {"ph": "X"}]}', "byte 29: '{' where ',' or ']'"),
    (b'{"traceEvents": [{"ph": X, "name": "a longer one behind"}]}', "byte 24: Expecting value"),
    ('{"é": 1, "traceEvents": [{"ph": X, "name": "a longer one behind"}]}'.encode(), "byte 33: Expecting value"),
    (b'{"traceEvents": [' + b"[" * 100000, "nested too deeply"),
    (b'{"traceEvents": [{"ts": ' + b"9" * 5000 + b', "name": "a number too long"}]}', "byte 17: a number of more digits"),
    (b"\x1f\x8b\x08\x00" + b"garbage" * 9, "damaged gzip data"),
])
def test_refuses_garbage_with_its_byte(text, message, tmp_path):
    if text.endswith(b'"a number too long"}]}') and not hasattr(sys, "set_int_max_str_digits"):
        pytest.skip("this Python takes numbers of any length")
    path = tmp_path / "t.json"
    path.write_bytes(text)
    with pytest.raises(Problem, match="t.json: ") as raised:
        read(path)
    assert message in str(raised.value)


def test_refuses_the_summary_beside_a_trace(tmp_path):
    """A glob for traces finds the summary, too."""
    (tmp_path / "t.json.summary").write_text('{}')
    with pytest.raises(Problem, match="t.json.summary: is the summary of t.json: give that one"):
        read(tmp_path / "t.json.summary")


def test_yields_events_before_an_error(tmp_path):
    path = tmp_path / "t.json"
    path.write_text('{"traceEvents": [{"ph": "X"}, {"ph": "i"}, nonsense and more of it ]}')
    seen = []
    with pytest.raises(Problem, match="byte 43"):
        with reader.open_trace(str(path)) as trace:
            for event in trace:
                seen.append(event["ph"])
    assert seen == ["X", "i"]


def test_drops_a_torn_write_of_an_open_file(tmp_path):
    """A kill in the middle of a write leaves half an event in a .part file. The reader drops it and notes the damage."""
    path = tmp_path / "rank0.5.json.part"
    path.write_text('{"traceEvents": [\n{"ph": "X"},\n{"ph": "i"},\n{"ph": "X", "na\n],\n"traceName": "x"\n}\n}\n')
    events, trace = read(path)
    assert events == [{"ph": "X"}, {"ph": "i"}] and trace.truncated and "damaged" in trace.notes[0]


@pytest.mark.parametrize("tail, note", [(b"}", "behind the end"), (b"\n\x00\x00", "behind the end")])
def test_notes_bytes_behind_the_end(tail, note, tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(b'{"traceEvents": [{"ph": "X"}]}' + tail)
    events, trace = read(path)
    assert events == [{"ph": "X"}] and note in trace.notes[0]


def test_accepts_invalid_utf8_and_nan(tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(b'{"traceEvents": [{"name": "a\xffb", "x": NaN, "y": -Infinity}, 5, {"name": "c"}]}')
    events, trace = read(path)
    assert [event["name"] for event in events] == ["a\udcffb", "c"] and events[0]["y"] == float("-inf")
    assert trace.no_objects == 1 and len(trace.notes) == 3 and trace.notes[0] == "byte 28 is no UTF-8"


def test_mutated_traces_raise_only_problems(tmp_path):
    """Bytes changed at random give events or a Problem, and no other exception."""
    data = next(text for name, text, _ in forms() if name == "lines").encode()
    choose = random.Random(1)
    path = tmp_path / "t.json"
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(choose.randint(1, 4)):
            at = choose.randrange(len(changed))
            changed[at:at + choose.randint(0, 3)] = bytes(choose.choices(b'{}[],:"\\ \n0aeE.-\xff', k=choose.randint(0, 3)))
        path.write_bytes(changed)
        try:
            events, _ = read(path)
        except Problem as error:
            assert "byte" in str(error) or "traceEvents" in str(error) or "events" in str(error)
            continue
        assert all(type(event) is dict for event in events)


def test_reads_large_traces_in_little_memory(tmp_path):
    """20 MB of events as plain text and as gzip data, in less than 30 MB."""
    line = json.dumps(tool.span("aten::add", 1.5, 2.5, External_id=7)) + ",\n"
    path = tmp_path / "t.json"
    with open(path, "w") as file:
        file.write('{"traceEvents": [\n')
        for _ in range(20_000_000 // len(line) // 1000):
            file.write(line * 1000)
        file.write("{}]}")
    with open(path, "rb") as plain, gzip.open(str(path) + ".gz", "wb", compresslevel=1) as packed:
        packed.writelines(plain)
    code = ("import re, sys\nsys.path.insert(0, sys.argv[1])\nfrom cprof.tool.reader import open_trace\n"
            "n = sum(1 for path in sys.argv[2:] for _ in open_trace(path))\n"
            "print(n, re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read()).group(1))")
    out = subprocess.run([sys.executable, "-c", code, str(tool.ROOT / "scripts/python"), str(path), str(path) + ".gz"],
                         capture_output=True, text=True, check=True).stdout
    count, peak_kb = map(int, out.split())
    assert count == 2 * (20_000_000 // len(line) // 1000 * 1000 + 1)
    assert peak_kb < 30_000


@pytest.mark.skipif(not tool.KINETO_TRACES, reason="the traces of real GPUs are not beside this checkout")
@pytest.mark.parametrize("path", tool.KINETO_TRACES, ids=lambda path: path.name)
def test_reads_real_traces_as_json_does(path):
    with gzip.open(path) as file:
        whole = json.load(file)
    events, trace = read(path)
    assert events == whole.pop("traceEvents") and trace.metadata == whole and trace.notes == []


def test_reads_from_a_pipe(tmp_path):
    data = json.dumps({"traceEvents": [tool.span("aten::add", 0, 10)]}).encode()
    for given in (data, gzip.compress(data)):
        assert json.loads(tool.cprof("events", "-", stdin=given).out)["name"] == "aten::add"


# ---- the parser that may be installed ----

@pytest.fixture
def parser():
    """A function that hides msgspec or numpy, to test without them."""
    pytest.importorskip("msgspec")

    def without(monkeypatch, *names):
        for name in names:
            monkeypatch.setitem(sys.modules, name, None)
        fast.sound_events.cache_clear()
        fast.fast_numpy.cache_clear()
        assert fast.fast_numpy() is None
        assert "msgspec" not in names or fast.any_events() is None and fast.sound_events() is None
    yield without
    fast.sound_events.cache_clear()
    fast.fast_numpy.cache_clear()


ODD = [{"ph": "X", "name": "no args", "cat": "cpu_op", "pid": 5000, "tid": 5000, "ts": 900.25, "dur": 1},
       {"ph": "X", "name": "texts", "cat": "cpu_op", "pid": "5000", "tid": "5000", "ts": 901.25, "dur": 1.5, "args": {"External id": "7"}},
       {"ph": "X", "name": 7, "cat": "cpu_op", "pid": True, "tid": 5000, "ts": 902.25, "dur": 1.5, "args": {"flops": 2.5}},
       {"ph": "X", "name": "before", "cat": "cpu_op", "pid": 5000, "tid": 0, "ts": -3.5, "dur": -1, "args": {"x": 2**64}},
       {"ph": "X", "name": "no time", "cat": "cpu_op", "pid": 5000, "tid": 5000, "ts": "now", "args": []},
       {"ph": "X", "name": "infinite", "cat": "cpu_op", "pid": 5000, "tid": 5000, "ts": 903.0, "dur": float("inf")},
       {"ph": "i", "name": "[memory]", "pid": 5000, "tid": 5000, "ts": 904.0, "args": {"Bytes": "64", "Device Type": 0}},
       {"ph": "i", "name": "[OutOfMemory]", "pid": 5000, "tid": 5000, "ts": 905.0, "s": "t", "args": {}},
       {"ph": "f", "id": "a text", "pid": 5000, "tid": 5000, "ts": 906.0, "cat": "ac2g", "name": "ac2g"}, 5, None, [{}]]


def sound(n):
    """Well-formed events of n steps."""
    for step in range(n):
        at, ids = 1000.0 + step * 100, 10 * step
        yield dict(tool.span(f"ProfilerStep#{step}", at, 90.0, cat="user_annotation", tid=4194305), args={"thread": 5000})
        yield tool.span("aten::linear", at + 1, 40.125, External_id=ids + 1, flops=64, Call_stack="a.py(1): f;b.py(2): g", Sequence_number=step,
                        Input_Dims=[[2, 3]], text="\"}, {\\")
        yield tool.span("aten::mm", at + 2, 20, External_id=ids + 2, Fwd_thread_id=0, Module_Hierarchy="net.0")
        yield tool.span("cudaLaunchKernel", at + 3, 1.5, cat="cuda_runtime", External_id=ids + 2, correlation=ids + 3)
        yield tool.span("kernel<é>", at + 6, 30.001, cat="kernel", pid=0, tid=7, device=0, stream=7, External_id=ids + 2, correlation=ids + 3)
        yield tool.span("cudaDeviceSynchronize", at + 50, 5.5, cat="cuda_runtime", correlation=ids + 4)
        yield tool.span("record_param_comms", at + 60, 5.5, Collective_name="allreduce", dtype="float")
        yield tool.memory(at + 4, 64, 4096 + step)
        yield tool.memory(at + 70, -64, 4096 + step - step % 2)
        yield {"ph": "C", "name": "Memory CPU", "pid": 5000, "tid": 5000, "ts": at + 4, "args": {"allocated bytes": 64}}
        yield {"ph": "s", "id": step, "pid": 5000, "tid": 5000, "ts": at + 3, "cat": "ac2g", "name": "ac2g"}
        yield {"ph": "f", "id": step, "pid": 0, "tid": 7, "ts": at + 6, "cat": "ac2g", "name": "ac2g", "bp": "e"}
    yield {"ph": "M", "name": "thread_name", "pid": 5000, "tid": 5000, "args": {"name": "main"}}


COMMANDS = [("top", "--from-trace"), ("top", "--by", "module"), ("top", "--by", "step"), ("top", "--by", "device"), ("top", "--group-by-stack-n", 3),
            ("top", "--group-by-input-shape"), ("explain",), ("explain", "--json"), ("explain", "--json", "rank1.json"), ("check",), ("memory",), ("stacks",), ("events",), ("compare",)]


@pytest.mark.parametrize("command", COMMANDS, ids=[" ".join(map(str, one)) for one in COMMANDS])
@pytest.mark.parametrize("odd", [False, True], ids=["sound", "odd"])
def test_every_parser_gives_the_same_answer(command, odd, parser, tmp_path, monkeypatch):
    """Equal to the byte. Each odd event stands between sound ones."""
    events = list(sound(40))
    for n, event in enumerate(ODD if odd else ()):
        events.insert(37 * (n + 1), event)
    monkeypatch.chdir(tmp_path)
    for rank, path in enumerate(("rank1.json", "t.json")):
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"schemaVersion": 1, "profile_memory": 1, "distributedInfo": {"rank": rank, "world_size": 2}, "traceEvents": events}, file, ensure_ascii=False)
    monkeypatch.setattr(reader, "CHUNK", 1000)
    monkeypatch.setattr(span_batches, "WORTH", 1)
    args = [*command, path, *([path] if command == ("compare",) else ["-o", "-"] if command == ("stacks",) else [])]
    first = tool.cprof(*args)
    parser(monkeypatch, "numpy")
    second = tool.cprof(*args)
    parser(monkeypatch, "msgspec")
    third = tool.cprof(*args)
    assert first == second == third and first.rc in (0, 1) and first.out


def test_every_parser_keeps_who_made_the_work_of_a_device(parser, tmp_path, monkeypatch):
    """What the work itself names: the operator that was captured into a CUDA graph, XLA's instruction, and its line."""
    told = [{"captured in": "aten::mm", "captured module": "net.0"}, {"hlo_op": "add.7", "hlo_module": "jit_f", "source": "/a/b.py(3): f"}]
    events = list(sound(40)) + [{**tool.span("node", 9000.0 + n, 1.0, cat="kernel", pid=0, tid=7, device=0), "args": {"device": 0, **one}}
                                for n, one in enumerate(told * 20)]
    path = str(tool.write(tmp_path / "t.json", events))
    monkeypatch.setattr(reader, "CHUNK", 1000)
    causes = [(cause.name, cause.module, cause.line) for name, cause, _ in moments.Trace(path).launched() if name == "node"]
    assert causes == [("aten::mm", "net.0", ""), ("add.7", "jit_f", "/a/b.py(3): f")] * 20
    for name in ("numpy", "msgspec"):
        parser(monkeypatch, name)
        assert [(cause.name, cause.module, cause.line) for name, cause, _ in moments.Trace(path).launched() if name == "node"] == causes


def test_lines_of_xlas_work(parser, tmp_path, monkeypatch):
    """A range of XLA's has its line where a call has its stack."""
    events = []
    for n in range(200):
        args = {"External id": n + 1, "source": f"/a/b.py({n % 2 + 3}): f"}
        events += [dict(tool.span("TSL:Thunk:#hlo_op=a#", 10.0 * n, 8.0, cat="user_annotation"), args=args),
                   tool.span("cudaLaunchKernel", 10.0 * n + 1, 2.0, cat="cuda_runtime", External_id=n + 1, correlation=n + 1),
                   tool.span("k", 10.0 * n + 4, 5.0 + n % 2, cat="kernel", pid=0, tid=7, device=0, External_id=n + 1, correlation=n + 1)]
    path = tool.write(tmp_path / "t.json", events)
    monkeypatch.setattr(reader, "CHUNK", 1000)
    shown = tool.cprof("top", path, "--by", "line", "--json")
    assert [(row["line"], row["self_device_time_total"]) for row in json.loads(shown.out)["rows"]] == [
        ("/a/b.py(4): f", 600.0), ("/a/b.py(3): f", 500.0), ("(outside)", 0.0)]
    for name in ("numpy", "msgspec"):
        parser(monkeypatch, name)
        assert tool.cprof("top", path, "--by", "line", "--json") == shown


def test_explain_reads_the_trace_of_each_rank_once(parser, tmp_path, monkeypatch):
    """The comparison of ranks makes no dictionaries of well-formed events."""
    events = [event for event in sound(40) if "text" not in event["args" if "args" in event else "ph"]]  # a block that ends inside such a text is read twice
    paths = [str(tool.write(tmp_path / f"rank{rank}.json", events, distributedInfo={"rank": rank, "world_size": 2})) for rank in range(2)]
    monkeypatch.setattr(reader, "CHUNK", 1000)
    opened, whole, any_events = [], [], fast.any_events
    monkeypatch.setattr(moments, "open_trace", lambda path, *args: opened.append(path) or reader.open_trace(path, *args))
    monkeypatch.setattr(collectives, "open_trace", lambda path, *args, **more: opened.append(path) or reader.open_trace(path, *args, **more))
    monkeypatch.setattr(reader, "any_events", lambda: lambda text: whole.append(text) or any_events()(text))
    assert explain.explained(paths).ranks is not None
    assert opened == paths and not whole


def test_fast_parser_takes_sound_events(parser, tmp_path, monkeypatch):
    """In a trace of several blocks, blocks of well-formed events go through the fast parser."""
    path = tool.write(tmp_path / "t.json", list(sound(40)))
    monkeypatch.setattr(reader, "CHUNK", 1000)
    left = []
    with reader.open_trace(str(path)) as trace:
        kinds, taken = fast.sound_events(), []
        trace.take_text = lambda text: taken.extend(kinds.events(text) or ()) or True
        left = list(trace)
    assert len(taken) > 400 and len(left) < 20 and {type(one).__name__ for one in taken} >= {"Span", "Instant", "Counter", "Start", "End"}


@pytest.mark.parametrize("text, long", [("12345678901234567890", True), ("[-1234567890123456789]", True), ("[0.1234567890123456789]", False),
                                        ("123456789012345678", False), ("[0.12345678901234567890123456789, 1234567890123456789]", True), ("", False)])
def test_detects_numbers_over_64_bits(text, long):
    assert fast.has_long_numbers(text) == long


def test_fast_parser_accepts_only_what_json_accepts(parser):
    """Of damaged texts, the fast parser accepts only those that json reads, with the same result."""
    texts = [json.dumps(event, ensure_ascii=False) for event in sound(2)]
    chance, decode, taken = random.Random(7), fast.any_events(), 0
    for _ in range(4000):
        text = list(chance.choice(texts))
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(text))
            text[at:at + chance.randint(0, 2)] = chance.choice('{}[]",:\\ 019.eE+-tfn\x00\x7f\n/ué')
        text = "[" + "".join(text) + "]"
        found = decode(text)
        if found is not None:
            taken += 1
            assert repr(found) == repr(json.loads(text)), text
        elif fast.sound_events().events(text) is not None:
            raise AssertionError(text)
    assert taken > 500
