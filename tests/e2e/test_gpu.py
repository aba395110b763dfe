# SPDX-License-Identifier: Apache-2.0
"""Programs on the simulated GPU: the trace holds each launched kernel, copy and fill once, joined to its call and operator, in the window
of its launch."""

import collections
import json
import re
import shutil

import pytest

from conftest import matrix
from cprof.tool import moments
from gpu_runs import (CALLS, ENVIRONMENT, PROGRAMS, SIM, WORK, by_correlation, counts, gpu_run, libraries_without, lost, needed, spans,
                      without_times)
from support import events, load, python, run, span_ns, step_numbers

pytestmark = needed

ALL = ["many", "copies", "graphs", "events", "pools", "static_runtime", "driver_only", "two_runtimes", "reset"]


# ---- whole programs ----------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", ALL)
def test_everything_launched_is_recorded_once_and_joined(tmp_path, name):
    result = gpu_run(name, tmp_path)
    result.whole()
    result.behaves()


def test_short_threads_in_one_window_lose_no_kernel(tmp_path):
    """cprof frees an ended thread's calls while the window is open, but only once their kernels have arrived."""
    result = gpu_run("many", tmp_path, "--threads", 2, "--streams", 1, "--launches", 1, "--ns", 3000000, "--rounds", 1000,
                     SCHEDULE_SCOPE="none")
    result.whole()


@pytest.mark.parametrize("name", ALL)
def test_no_cuda_call_is_added(tmp_path, name):
    """The simulated driver counts all calls of the process by name. Without cprof, CUPTI is not loaded."""
    without = gpu_run(name, tmp_path / "without", preload=False)
    profiled = gpu_run(name, tmp_path / "profiled")
    assert (without.rc, without.out) == (profiled.rc, profiled.out) == (0, profiled.out) and not without.cupti
    added = collections.Counter(profiled.calls)
    added.subtract(without.calls)
    assert {call: n for call, n in added.items() if n} == {}
    figures = {key for key in without.core if not key.startswith("calls")}
    assert {key: profiled.core[key] for key in figures} == {key: without.core[key] for key in figures}


@pytest.mark.parametrize("each", matrix([125000, 30000], 30000))
def test_hundreds_of_thousands_of_launches_lose_nothing(each, tmp_path):
    """8 threads with 4 streams each, 200 000 launches a second."""
    result = gpu_run("many", tmp_path, "--threads", 8, "--streams", 4, "--launches", each, "--ns", 160000,
                     SCHEDULE_SCOPE="none", DRAIN_DEADLINE_MS=100000)
    text = result.traces[0].read_bytes()  # the strict reader would take a minute
    about = json.loads(b'{"cprof"' + text.rpartition(b'"cprof"')[2])["cprof"]
    assert result.rc == 0 and about["lost"]["total"] == 0, result.err
    assert about["gpu"]["kernels"] == 8 * each and about["gpu"]["before_call"] == 0
    row = rb'"cat": "%s", "name": "%s.*?"ts": (\d+)\.(\d{3}), .*?"correlation": (\d+)'
    calls, kernels = ({int(c): int(us + ns) for us, ns, c in re.findall(row % which, text)}
                      for which in ((b"cuda_runtime", b"cudaLaunchKernel"), (b"kernel", b"spin_kernel")))
    assert len(kernels) == 8 * each and kernels.keys() == calls.keys()
    assert all(start >= calls[correlation] for correlation, start in kernels.items())
    result.behaves()


def test_each_device_has_its_own_rows(tmp_path):
    result = gpu_run("many", tmp_path, "--threads", 4, "--devices", 2, "--launches", 200)
    trace = result.whole()
    assert collections.Counter(e["pid"] for e in events(trace, cat="kernel", ph="X")) == {0: 400, 1: 400}
    names = {e["pid"]: e["args"]["name"] for e in events(trace, ph="M", name="process_name")}
    assert names[0].startswith("GPU 0 NVIDIA") and names[1].startswith("GPU 1 NVIDIA")
    assert [device["id"] for device in trace["deviceProperties"]] == [0, 1]


def test_copies_have_their_kinds_and_bytes(tmp_path):
    result = gpu_run("copies", tmp_path)
    trace = result.whole()  # whole() checks counts and bytes by kind
    names = {e["name"] for e in events(trace, cat="gpu_memcpy", ph="X")}
    assert {"Memcpy HtoD (Pageable -> Device)", "Memcpy DtoH (Device -> Pinned)", "Memcpy PtoP (Device -> Device)"} <= names
    fills = events(trace, cat="gpu_memset", ph="X")
    assert sum(e["args"]["bytes"] for e in fills) == result.launched["fill_bytes"]


def test_graph_nodes_join_their_launch(tmp_path):
    """Each node has the correlation of its graph launch and the ids of its graph. Two graphs have six nodes and
    one has four; each is launched three times."""
    result = gpu_run("graphs", tmp_path, "--launches", 3)
    trace = result.whole()
    nodes = [e for e in events(trace, ph="X") if e["cat"] in WORK and e["args"].get("graph id")]
    assert len(nodes) == 2 * 3 * 6 + 3 * 4
    by_launch = collections.Counter(e["args"]["correlation"] for e in nodes)
    launches = spans(trace, "cudaGraphLaunch")
    assert sorted(by_launch.values()) == [4] * 3 + [6] * 6 and by_launch.keys() == {e["args"]["correlation"] for e in launches}
    # A node keeps its id from launch to launch.
    by_node = collections.Counter(e["args"]["graph node id"] for e in nodes)
    assert set(by_node.values()) <= {3, 6}


def test_graph_nodes_name_the_capturing_operator(tmp_path):
    code = PRELUDE + """
push(b"capture me"); graph, exec_ = capture(); pop()
push(b"replay"); launch(exec_, 3); pop()
"""
    result = gpu_python(code, tmp_path)
    trace = result
    captured, = events(trace, ph="X", name="capture me", cat="user_annotation")
    replayed, = events(trace, ph="X", name="replay", cat="user_annotation")
    nodes = [e for e in events(trace, ph="X", cat="gpu_memset") if e["args"].get("graph id")]
    assert len(nodes) == 3
    for node in nodes:
        assert node["args"]["captured in"] == "capture me"
        assert node["args"]["External id"] == replayed["args"]["External id"] != captured["args"]["External id"]


PRELUDE = """
rt = ctypes.CDLL("libcudart.so.13")
p, stream = ctypes.c_void_p(), ctypes.c_void_p()
def ok(result): assert result == 0, result
ok(rt.cudaMalloc(ctypes.byref(p), 4096)); ok(rt.cudaStreamCreate(ctypes.byref(stream)))
def fill(): ok(rt.cudaMemsetAsync(p, 0, ctypes.c_size_t(4096), stream))
def capture():
    graph, exec_ = ctypes.c_void_p(), ctypes.c_void_p()
    ok(rt.cudaStreamBeginCapture(stream, 1)); fill(); ok(rt.cudaStreamEndCapture(stream, ctypes.byref(graph)))
    ok(rt.cudaGraphInstantiate(ctypes.byref(exec_), graph, ctypes.c_ulonglong(0)))
    return graph, exec_
def launch(exec_, n):
    for _ in range(n): ok(rt.cudaGraphLaunch(exec_, stream))
    ok(rt.cudaStreamSynchronize(stream))
"""


def gpu_python(code, folder, **settings):
    """The trace of a Python program that uses the simulated runtime by ctypes."""
    result = run(python(code), folder, env=ENVIRONMENT, **settings)
    assert result.rc == 0, result.err
    return load(result.traces[0])


def test_gpu_work_has_the_innermost_ranges_id(tmp_path):
    """Calls and GPU work have the External id of the innermost range. The range's row on the GPU covers its work."""
    trace = gpu_python(PRELUDE + 'push(b"outer"); fill(); push(b"inner"); fill(); fill(); pop(); fill(); pop(); fill()\n'
                       'ok(rt.cudaStreamSynchronize(stream))', tmp_path)
    ids = {name: events(trace, ph="X", name=name, cat="user_annotation")[0]["args"]["External id"] for name in ("outer", "inner")}
    fills = sorted(events(trace, ph="X", cat="gpu_memset"), key=lambda e: e["args"]["correlation"])
    assert [e["args"].get("External id") for e in fills] == [ids["outer"], ids["inner"], ids["inner"], ids["outer"], None]
    shadow = {e["name"]: span_ns(e) for e in events(trace, ph="X", cat="gpu_user_annotation")}
    assert shadow["outer"][0] == span_ns(fills[0])[0] and shadow["outer"][1] == span_ns(fills[3])[1]
    assert shadow["inner"] == (span_ns(fills[1])[0], span_ns(fills[2])[1])


def test_xla_names_the_instruction_of_its_work(tmp_path):
    """XLA's NVTX ranges tell the instruction and the module of what they launch, also when they capture it into a graph."""
    trace = gpu_python(PRELUDE + """
push(b"TSL:XlaModule:#prefix=jit(step)/jit(main),hlo_module=jit_step,program_id=3#")
push(b"TSL:Thunk:#name=not_hlo_op=x,hlo_op=loop_multiply_fusion,unique_hlo_op_id=4#"); fill(); pop()
push(b"TSL:Thunk:#hlo_op=copy.2#"); fill(); pop()
push(b"TSL:Thunk:#hlo_op=command_buffer#"); push(b"TSL:Thunk:#hlo_op=add.7#"); graph, exec_ = capture(); pop(); launch(exec_, 1); pop()
fill(); pop(); fill()
ok(rt.cudaStreamSynchronize(stream))
""", tmp_path)
    args = [e["args"] for e in sorted(events(trace, ph="X", cat="gpu_memset"), key=lambda e: e["ts"])]
    assert [(one.get("hlo_op"), one.get("hlo_module")) for one in args] == [("loop_multiply_fusion", "jit_step"), ("copy.2", "jit_step"), ("add.7", "jit_step"),
                                                                           (None, "jit_step"), (None, None)]
    assert args[2]["captured in"] == "TSL:Thunk:#hlo_op=add.7#"


# A client of NVTX, with the functions that XLA calls: the tables of a module of size n are filled by cprof.
NVTX = """
import ctypes as C
lib, SIZE = C.CDLL(None), 16
slots = {module: (C.c_void_p * SIZE)(*[1] * SIZE) for module in (1, 5)}
tables = {module: (C.c_void_p * SIZE)(*[C.addressof(slots[module]) + 8 * n for n in range(SIZE)]) for module in slots}
@C.CFUNCTYPE(C.c_int, C.c_int, C.POINTER(C.c_void_p), C.POINTER(C.c_uint))
def module_table(module, table, n):
    if module in tables:
        table[0], n[0] = C.addressof(tables[module]), SIZE
    return module in tables
class Callbacks(C.Structure):
    _fields_ = [("size", C.c_size_t), ("module_table", C.c_void_p)]
callbacks = Callbacks(C.sizeof(Callbacks), C.cast(module_table, C.c_void_p))
export = C.CFUNCTYPE(C.c_void_p, C.c_uint)(lambda which: C.addressof(callbacks))
assert lib.InitializeInjectionNvtx2(export) == 1
extension = (C.c_size_t * 8)()
class Segment(C.Structure):
    _fields_ = [("id", C.c_size_t), ("n", C.c_size_t), ("slots", C.c_void_p)]
class Extension(C.Structure):
    _fields_ = [("version", C.c_uint16), ("size", C.c_uint16), ("module", C.c_uint16), ("compatible", C.c_uint16), ("n", C.c_size_t),
                ("segments", C.POINTER(Segment)), ("export", C.c_void_p), ("info", C.c_void_p)]
segment = Segment(0, 8, C.addressof(extension))
assert lib.InitializeInjectionNvtxExtension(C.byref(Extension(3, C.sizeof(Extension), 2, 0x104, 1, C.pointer(segment), None, None))) == 1
class Entry(C.Structure):
    _fields_ = [("flags", C.c_uint64), ("type", C.c_uint64), ("name", C.c_char_p), ("description", C.c_char_p), ("detail", C.c_uint64),
                ("offset", C.c_uint64), ("semantics", C.c_void_p), ("reserved", C.c_void_p)]
class Schema(C.Structure):
    _fields_ = [("fields", C.c_uint64), ("name", C.c_char_p), ("type", C.c_uint64), ("flags", C.c_uint64), ("entries", C.POINTER(Entry)), ("n", C.c_size_t),
                ("size", C.c_size_t), ("alignment", C.c_size_t), ("id", C.c_uint64)]
entry = Entry(0, 80, b"Source locations", None, 0, 0, None, None)
schema_id = C.CFUNCTYPE(C.c_uint64, C.c_void_p, C.POINTER(Schema))(extension[0])(None, C.byref(Schema(52, b"XlaInstruction", 1, 0, C.pointer(entry), 1, 8, 0, 0)))
class Attributes(C.Structure):
    _fields_ = [("version", C.c_uint16), ("size", C.c_uint16), ("category", C.c_uint32), ("color_type", C.c_int32), ("color", C.c_uint32),
                ("payload_type", C.c_uint32), ("count", C.c_int32), ("payload", C.c_uint64), ("message_type", C.c_int32), ("message", C.c_char_p)]
register = C.CFUNCTYPE(C.c_void_p, C.c_void_p, C.c_char_p)(slots[5][10])
def instruction(name, lines=None):
    handle = C.c_void_p(register(None, lines) if lines else None)
    payload = (C.c_uint64 * 3)(schema_id, 8, C.addressof(handle))
    attributes = Attributes(3, C.sizeof(Attributes), 0, 0, 0, 0xdfbd0009, 1, C.addressof(payload), 1, name)
    C.CFUNCTYPE(C.c_int, C.c_void_p, C.POINTER(Attributes))(slots[5][4])(None, C.byref(attributes))
end = C.CFUNCTYPE(C.c_int, C.c_void_p)(slots[5][5])
"""


def test_xla_names_the_source_line_of_its_work(tmp_path):
    """The line comes from the payload of the NVTX range of an instruction; work of a graph has the line of its capture."""
    trace = gpu_python(PRELUDE + NVTX + """
instruction(b"TSL:XlaModule:#hlo_module=jit_step,program_id=3#")
instruction(b"TSL:Thunk:#hlo_op=fusion.1#", b"\\n- /a/train.py:3[<module>]\\n-- /a/train.py:12[step] mul\\n- /a/train.py:4[<module>]\\n"); fill(); end(None)
instruction(b"TSL:Thunk:#hlo_op=copy.2#"); fill(); end(None)
instruction(b"TSL:Thunk:#hlo_op=command_buffer#")
instruction(b"TSL:Thunk:#hlo_op=add.7#", b"\\n- /a/train.py:13[&lt;lambda&gt;] add\\n"); graph, exec_ = capture(); end(None)
launch(exec_, 2); end(None)
instruction(b"TSL:Thunk:#hlo_op=still.open#", b"\\n- /a/train.py:14[step]\\n"); fill()
ok(rt.cudaStreamSynchronize(stream))
flushed(b'"hlo_op": "still.open"'); end(None); end(None)
""", tmp_path, USE_GZIP=0)
    work = sorted(events(trace, ph="X", cat="gpu_memset"), key=lambda e: span_ns(e)[0])
    assert [(e["args"].get("hlo_op"), e["args"].get("source")) for e in work] == [
        ("fusion.1", "/a/train.py(12): step"), ("copy.2", None), *[("add.7", "/a/train.py(13): <lambda>")] * 2, ("still.open", "/a/train.py(14): step")]
    assert {e["args"]["hlo_module"] for e in work} == {"jit_step"}
    assert [e["args"].get("source") for e in events(trace, ph="X", name="TSL:Thunk:#hlo_op=fusion.1#", cat="user_annotation")] == ["/a/train.py(12): step"]
    [path] = tmp_path.rglob("*.json")
    causes = collections.Counter((cause.name, cause.module, cause.line) for _, cause, _ in moments.Trace(str(path)).launched())
    assert causes["add.7", "jit_step", "/a/train.py(13): <lambda>"] == 2 and causes["copy.2", "jit_step", ""] == 1


# ---- windows -----------------------------------------------------------------------------------------------


def test_nvtx_and_itt_ranges_cover_their_kernels(tmp_path):
    """Each range covers the kernels launched in it, on each stream that they ran on."""
    run = gpu_run("marked", tmp_path, SCHEDULE_SCOPE="none")
    trace = run.whole()
    kernels = {}
    for e in events(trace, ph="X", cat="kernel"):
        kernels.setdefault((e["args"]["stream"], e["name"].partition("<")[0]), []).append(span_ns(e))
    (a, gemm), = [key for key in kernels if len(kernels[key]) == 2 and "gemm" in key[1].lower()]
    (b, softmax), = [key for key in kernels if "softmax" in key[1].lower()]
    assert a != b
    shadow = {}
    for e in events(trace, ph="X", cat="gpu_user_annotation"):
        inside = [key[0] for key, spans in kernels.items() for span in spans
                  if span_ns(e)[0] <= span[0] and span[1] <= span_ns(e)[1]]
        shadow.setdefault(e["name"], []).append((e["tid"], span_ns(e), inside))
    assert sorted(shadow) == ["itt inner", "nvtx outer"]

    def covers(name, stream, spans):
        return any(begin <= spans[0][0] and spans[-1][1] <= end and end - begin - (spans[-1][1] - spans[0][0]) <= 10
                   for _, (begin, end), inside in shadow[name] if stream in inside)

    assert len(shadow["itt inner"]) == 1 and covers("itt inner", b, sorted(kernels[b, softmax]))
    assert len(shadow["nvtx outer"]) == 2
    assert covers("nvtx outer", a, sorted(kernels[a, gemm])) and covers("nvtx outer", b, sorted(kernels[b, softmax]))
    for name in shadow:
        span, = events(trace, ph="X", name=name, cat="user_annotation")
        assert {e["args"]["External id"] for e in events(trace, ph="X", name=name, cat="gpu_user_annotation")} == \
            {span["args"]["External id"]}


def window_problems(trace, per_step):
    """{step: launches} of the steps whose number of launches differs from per_step(step)."""
    launches = sorted(span_ns(e)[0] for e in events(trace, ph="X", name="cudaLaunchKernel"))
    found = {}
    for e in events(trace, ph="X"):
        if e["name"].startswith("ProfilerStep#"):
            start, end = span_ns(e)
            found[int(e["name"].partition("#")[2])] = sum(start <= at < end for at in launches)
    return {step: n for step, n in found.items() if n != per_step(step)}


def test_kernel_that_outlives_its_window_is_in_its_trace(tmp_path):
    """The kernel runs for a second while the program continues. Later windows are written earlier, each with its own kernels."""
    result = gpu_run("outlive", tmp_path, "--steps", 30, "--at", 3, "--ms", 1000, "--step-ms", 20,
                     WAIT=1, WARMUP=1, ACTIVE=3, REPEAT=3)
    assert result.rc == 0 and len(result.traces) == 3, result.err
    for trace, first in zip(map(load, result.traces), (2, 7, 12)):
        assert step_numbers(trace) == [first, first + 1, first + 2]
        assert lost(trace) == {} and trace["cprof"]["gpu"]["kernels"] == 15 + (first == 2)
        assert window_problems(trace, lambda step: 6 if step == 3 else 5) == {}
    long_one, = [e for e in events(load(result.traces[0]), ph="X", cat="kernel") if e["dur"] > 900000]
    assert long_one["name"].startswith("void gemm_kernel")
    assert span_ns(long_one)[1] > max(span_ns(e)[1] for e in events(load(result.traces[0]), ph="X", name="ProfilerStep#4"))
    result.behaves()


def test_long_kernel_does_not_hold_up_the_program(tmp_path):
    """cprof makes no call that waits for the device."""
    args = ("--steps", 20, "--at", 3, "--ms", 700, "--step-ms", 5, "--wait", 0)
    result = gpu_run("outlive", tmp_path, *args, WARMUP=1, ACTIVE=3)
    trace = result.trace()
    assert lost(trace) == {} and trace["cprof"]["gpu"]["kernels"] == 16
    assert result.core["device_syncs"] == 0


def test_windows_hold_the_launches_of_all_threads(tmp_path):
    result = gpu_run("train", tmp_path, "--steps", 12, WARMUP=1, ACTIVE=3, REPEAT=2)
    assert result.rc == 0 and len(result.traces) == 2, result.err
    for path in result.traces:
        trace = load(path)
        assert lost(trace) == {} and trace["cprof"]["gpu"]["kernels"] == 3 * 66 and counts(trace)["gpu_memcpy"] == 6
        for kernels in by_correlation(trace, "kernel").values():
            assert len(kernels) == 1
        calls = by_correlation(trace, *CALLS)
        assert all(correlation in calls for correlation in by_correlation(trace, *WORK, "cuda_sync"))
    result.behaves()


def test_device_records_are_requested_once(tmp_path):
    """Devices do not change between windows. From CUDA 13.0 on, the client has to free the name in each device record."""
    result = gpu_run("outlive", tmp_path, "--steps", 40, "--ms", 300, WAIT=5, WARMUP=1, ACTIVE=1, REPEAT=5)
    assert len(result.traces) == 5 and result.cupti["misuse"] == 0, result.err
    assert all(len(trace["deviceProperties"]) == 2 for trace in map(load, result.traces))
    assert 2 <= result.cupti["records.device"] <= 4 and result.cupti["enables"] == result.cupti["disables"]


def test_activity_kinds_go_off_after_a_short_first_step(tmp_path):
    """Step 0 may become the trace, so the kinds are on until it ends, here perhaps before cprof's thread first runs. They are off a second
    later at most. The outcome depends on which thread is first, so the test runs several times."""
    for run in range(*matrix([4], 2)):
        result = gpu_run("many", tmp_path / str(run), "--mark", 1, "--threads", 8, "--streams", 4, "--launches", 25000, "--ns", 320000,
                         SKIP_FIRST=100)
        assert result.rc == 0 and result.launched["kernels"] == 200000, result.err
        assert result.cupti["records.concurrent_kernel"] < 150000, run


def test_activity_kinds_are_off_between_windows(tmp_path):
    """200 steps of 33 kernels, of which two are recorded. CUPTI may also make records for the other kernels in the same buffers."""
    result = gpu_run("train", tmp_path, "--steps", 200, "--devices", 1, WARMUP=1, ACTIVE=2)
    assert counts(result.trace())["kernel"] == 2 * 33
    made = result.cupti["records.concurrent_kernel"]
    assert result.core["launched.kernels"] == 200 * 33 and 2 * 33 <= made <= 100 * 33, result.cupti
    result.behaves()


def test_cupti_makes_no_records_for_skipped_steps(tmp_path):
    result = gpu_run("train", tmp_path, "--steps", 6, SKIP_FIRST=1000)
    assert result.traces == []
    # step 0 is recorded until its end shows that the program marks steps
    assert result.behaves()["records.concurrent_kernel"] <= 66 * 6


# ---- ends --------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("how", ["return", "exit", "_exit", "thread"])
def test_exit_waits_for_running_kernels(tmp_path, how):
    """Ten kernels of 20 ms are still running at the exit."""
    result = gpu_run("exit_now", tmp_path, "--how", how, "--ns", 20000000)
    assert counts(result.whole())["kernel"] == 10


def test_exit_counts_kernels_running_beyond_the_deadline(tmp_path):
    """One forced flush then fetches the finished records. The other launches are counted as lost."""
    result = gpu_run("exit_now", tmp_path, "--ns", 3000000000, "--launches", 2, DRAIN_DEADLINE_MS=1500)
    trace = result.trace()
    found = lost(trace)
    assert result.rc == 0 and result.cupti["forced_while_on"] == 1 and counts(trace)["kernel"] == 0
    assert found and set(found) <= {"gpu_unfinished", "launch_without_kernel"} and sum(found.values()) == 2
    assert result.cupti["misuse"] == 0


def test_abort_while_kernels_run_leaves_readable_files(tmp_path):
    result = gpu_run("exit_now", tmp_path, "--how", "abort", "--ns", 1000000)
    assert result.rc == -6
    for path in [*result.traces, *result.parts]:
        load(path)


def test_device_reset_loses_nothing(tmp_path):
    result = gpu_run("reset", tmp_path, "--rounds", 4)
    trace = result.whole()
    contexts = {e["args"]["context"] for e in events(trace, ph="X", cat="kernel")}
    assert len(contexts) == 5


@pytest.mark.parametrize("how", ["exit", "_exit", "exec"])
def test_forked_child_of_a_cuda_program_is_inert(tmp_path, how):
    """The parent's trace has all events, whatever the child does."""
    result = gpu_run("forked", tmp_path, "--child", how, "--children", 3)
    result.whole()
    assert len(result.traces) == 1 and result.parts == []
    result.behaves()


def test_fork_during_a_flush_does_not_hang_the_child(tmp_path):
    """The flush holds a lock of CUPTI on a thread that the child does not have. cprof flushes every 15 ms while a window drains,
    and each flush takes 3 ms. Without care, some children hang."""
    result = gpu_run("forked", tmp_path, "--children", 60, "--mark", 1, faults="flush_holds_ms=3", SCHEDULE_SCOPE="none")
    assert result.rc == 0, result.err


# ---- CUPTI's versions --------------------------------------------------------------------------------------

VERSIONS = [18, 22, 24, 26, 130001, 999999]


@pytest.mark.parametrize("name", ["copies", "events", "pools", "driver_only"])
def test_every_cupti_version_gives_the_same_trace(tmp_path, name):
    """Only times differ. without_times() drops what a version lacks. Before CUDA 12.8, cprof works out which recording a wait meant."""
    traces = {}
    for version in VERSIONS:
        result = gpu_run(name, tmp_path / str(version), faults=f"version={version}")
        traces[version] = without_times(result.whole())
        assert result.trace()["cupti_version"] == version
        result.behaves()
    reference = traces[130001]
    for version, rows in traces.items():
        assert rows == reference, f"{version}: {[(a, b) for a, b in zip(rows, reference) if a != b][:4]}"


@pytest.mark.parametrize("version", [18, 23, 130001, 130100, 130500])
def test_every_cupti_version_keeps_time_in_each_window(tmp_path, version):
    """cprof subscribes to CUPTI for each window. The kernels' times must stay consistent with those of their calls."""
    result = gpu_run("second_client", tmp_path, "--sessions", 0, "--steps", 30, faults=f"version={version}",
                     WAIT=2, WARMUP=1, ACTIVE=3, REPEAT=5)
    assert len(result.traces) == 5, result.err
    for path in result.traces:
        trace = load(path)
        called = by_correlation(trace, "cuda_runtime")
        gaps = [e["ts"] - called[e["args"]["correlation"]][0]["ts"] for e in events(trace, ph="X", cat="kernel")]
        assert len(gaps) == 150 and lost(trace) == {} and 0 <= min(gaps) and max(gaps) < 1e6, (path.name, lost(trace), gaps)
    result.behaves()


def test_old_cupti_records_unknown_calls_as_driver_calls(tmp_path):
    """CUPTI 11.8 does not know two calls of newer runtimes. The driver's calls are recorded instead, and no node is missing."""
    result = gpu_run("graphs", tmp_path, faults="version=18")
    trace = result.whole()
    assert counts(trace)["cuda_driver"] == 2 and counts(trace)["kernel"] == result.launched["graph_kernels"]


@pytest.mark.parametrize("soname, version", [("11.8", 18), ("12", 26), ("13", 130001)])
def test_uses_the_loaded_libcupti(tmp_path, soname, version):
    """cprof uses the libcupti that the process has loaded, whichever others are installed."""
    result = gpu_run("copies", tmp_path, env={"LD_PRELOAD": str(SIM / f"libcupti.so.{soname}")}, LOG="debug")
    assert result.trace()["cupti_version"] == version, result.err
    assert lost(result.trace()) == {} and counts(result.trace())["gpu_memcpy"] == 23
    assert any(f"libcupti.so.{soname}" in line for line in result.said)
    result.behaves()


def test_finds_libcupti_beside_other_wheels(tmp_path):
    """JAX and Numba from pip, without a toolkit: a static runtime and no torch. cprof finds CUPTI beside another loaded NVIDIA wheel."""
    wheels = tmp_path / "nvidia"
    for name in ("cuda_cupti", "cublas"):
        (wheels / name / "lib").mkdir(parents=True)
    shutil.copy(SIM / "libcupti.so.13", wheels / "cuda_cupti/lib/libcupti.so.13")
    shutil.copy(SIM / "libcublasLt.so.12", wheels / "cublas/lib/libcublasLt.so.12")
    preload = f"{SIM / 'libsystemclock.so'}:{wheels / 'cublas/lib/libcublasLt.so.12'}"
    result = gpu_run("static_runtime", tmp_path, libraries=libraries_without(tmp_path / "lib", "libcupti"), env={"LD_PRELOAD": preload}, LOG="debug")
    assert any(f"{wheels}/cublas/lib/../../cuda_cupti/lib/libcupti.so.13" in line for line in result.said), result.err
    assert lost(result.trace()) == {} and counts(result.trace())["kernel"] == result.launched["kernels"]


# ---- no GPU side -------------------------------------------------------------------------------------------

def test_records_calls_without_libcupti(tmp_path):
    """The hooks record CUDA calls, and one line reports the lack. A real CUPTI on this machine would find no driver and report that."""
    result = gpu_run("many", tmp_path, "--launches", 50, libraries=libraries_without(tmp_path / "lib", "libcupti"))
    trace = result.trace()
    lines = [line for line in result.complaints if "no step was marked" not in line]
    assert len(lines) == 1 and lines[0].endswith("CUDA calls are recorded, GPU activity is not"), result.err
    assert len(events(trace, ph="X", name="cudaLaunchKernel")) == 100 and counts(trace)["kernel"] == 0
    assert lost(trace) == {}


def test_activities_cpu_never_touches_cupti(tmp_path):
    result = gpu_run("train", tmp_path, ACTIVITIES="cpu", WARMUP=1, ACTIVE=2)
    assert result.rc == 0 and result.complaints == [] and not any(result.cupti.values())
    trace = result.trace()
    assert set(counts(trace)) == {"user_annotation"} and "cupti_version" not in trace and trace["deviceProperties"] == []


def test_child_programs_that_use_the_gpu_run_unharmed(tmp_path):
    """A shell starts two programs, one after the other."""
    result = run(["sh", "-c", f"{PROGRAMS / 'many'} --launches 20 && {PROGRAMS / 'copies'}"], tmp_path)
    assert result.rc == 0 and 1 <= len(result.traces) <= 2, result.err


def test_whole_graphs_give_one_row_per_launch(tmp_path):
    """CPROF_GPU_GRAPHS=whole records each launch of a graph as one row, not each node."""
    result = gpu_run("graphs", tmp_path, "--launches", 4, GPU_GRAPHS="whole")
    trace = result.trace()
    assert result.rc == 0 and lost(trace) == {}, result.err
    wholes = [e for e in events(trace, ph="X", cat="kernel") if e["args"].get("graph id")]
    assert len(wholes) == 12 and counts(trace)["kernel"] == 12
    launches = {e["args"]["correlation"] for e in spans(trace, "cudaGraphLaunch")}
    assert {e["args"]["correlation"] for e in wholes} == launches


def test_whole_graphs_made_before_the_window_are_recorded(tmp_path):
    """CUPTI reports no graph that was instantiated while the kind was off, so the kind stays on. Launches between windows are dropped."""
    settings = {"SKIP_FIRST": 18, "WAIT": 1, "WARMUP": 1, "ACTIVE": 2, "REPEAT": 2}
    args = ("--at", 12, "--steps", 28, "--step-ms", 100)  # --at 12: after more than a second the kinds of the first step are surely off
    result = gpu_run("capture", tmp_path, *args, GPU_GRAPHS="whole", **settings)
    assert result.rc == 0 and len(result.traces) == 2 and result.complaints == [], result.err
    for path in result.traces:
        trace = load(path)
        launches = {e["args"]["correlation"] for e in spans(trace, "cudaGraphLaunch")}
        wholes = [e["args"]["correlation"] for e in events(trace, ph="X", cat="kernel") if e["args"].get("graph id")]
        assert lost(trace) == {} and len(launches) == 2 and sorted(wholes) == sorted(launches)
    result.behaves()


@pytest.mark.parametrize("version", [22, 23])
def test_whole_graphs_fall_back_to_nodes_on_old_cupti(tmp_path, version):
    """CUPTI before 12.6 may crash with whole graphs. cprof records the nodes instead and reports it."""
    result = gpu_run("graphs", tmp_path, GPU_GRAPHS="whole", faults=f"version={version}")
    [line] = [line for line in result.complaints if "no step was marked" not in line]
    assert "older than CUDA 12.6" in line and result.trace()["cprof"]["lost"]["total"] == 0
    assert counts(result.trace())["kernel"] == result.launched["graph_kernels"]


def test_driver_memory_is_recorded(tmp_path):
    """Allocations and releases of device memory; with PROFILE_MEMORY=0 there are none."""
    result = gpu_run("pools", tmp_path, "--rounds", 3)
    trace = result.whole()
    rows = [e for e in events(trace) if e["name"] in ("[memory]", "[driver memory]") or "memory" in e.get("cat", "")]
    assert rows, sorted({e["name"] for e in trace["traceEvents"]})
    off = gpu_run("pools", tmp_path / "off", "--rounds", 3, PROFILE_MEMORY=0)
    assert off.cupti["records.memory2"] == 0 < result.cupti["records.memory2"]
    assert counts(off.whole())["kernel"] == 3


def test_peak_of_driver_memory_matches_its_events(tmp_path):
    """The peak of each kind equals that of the file's own events. Driver memory has its own rows and counters, apart from tensor memory."""
    trace = gpu_run("out_of_memory", tmp_path, SCHEDULE_SCOPE="none", GPU_TELEMETRY=0).whole()
    most, kinds = {}, {}
    for e in events(trace, name="[driver memory]"):
        kinds[e["args"]["Memory Kind"]] = max(kinds.get(e["args"]["Memory Kind"], 0), e["args"]["Total Allocated"])
    for found in trace["cprof"]["memory"]:
        assert found["level"] == "driver"
        most[found["kind"]] = found["peak_bytes"]
    assert most == kinds == {"Device": 4 << 20, "Pinned": 1 << 16}
    assert not events(trace, name="[memory]")
    counters = {e["name"] for e in events(trace, ph="C")}
    assert counters == {"Driver memory CUDA:0", "Driver memory Pinned"}


def test_failed_driver_allocation_is_an_event(tmp_path):
    """A call that found no memory leaves an event with the requested bytes and the range around the call."""
    trace = gpu_run("out_of_memory", tmp_path, SCHEDULE_SCOPE="none").whole()
    failed = [e["args"] for e in events(trace, name="[driver OutOfMemory]")]
    assert [(a["Call"], a["Bytes"]) for a in failed] == [("cudaMalloc", 1 << 50), ("cudaMallocAsync", (1 << 50) + 1)]
    [around] = events(trace, ph="X", name="too much")
    assert failed[0]["External id"] == around["args"]["External id"] and "External id" not in failed[1]


def test_failed_driver_allocation_is_in_the_open_file(tmp_path):
    """SIGKILL comes right after the failed call."""
    result = gpu_run("out_of_memory", tmp_path, "--die", 1, SCHEDULE_SCOPE="none")
    [part] = [path for path in tmp_path.rglob("*.part")]
    [failed] = events(load(part), name="[driver OutOfMemory]")
    assert result.rc == -9 and failed["args"]["Bytes"] == 1 << 50


def test_gpu_side_starts_while_another_thread_starts_the_library(tmp_path):
    """The driver calls the library once, at cuInit, here while another thread is starting the library. Nothing else would start the GPU side."""
    for us in range(0, 3000, 100):
        gpu_run("static_runtime", tmp_path / str(us), "--launches", 5, "--woken-us", us).whole()
