# SPDX-License-Identifier: Apache-2.0
"""Cancellation, signals and forks that interrupt cprof in the middle of its work."""

import bisect
import re
import sys

import pytest

import torch_runs
from support import LIBRARY, SANITIZER, Running, events, load, program, run, span_ns, step_numbers
from torch_runs import both_pythons, needs_torch_2, python_or_skip

from conftest import BUILD

ALWAYS = dict(WARMUP=0, ACTIVE=1000000)


def test_cancelling_the_thread_that_starts_cprof(tmp_path):
    """The start completes, so the other threads' steps are counted and recorded."""
    result = run(program("odd_moments", "cancel"), tmp_path, **ALWAYS)
    assert (result.rc, result.out, result.complaints) == (0, "cancelled 1, step 5\n", [])
    trace, = result.traces
    assert len(events(load(trace), name="first")) == 1


def test_cancelling_a_thread_that_marks_a_step(tmp_path):
    """A step's edge reads files, which is a cancellation point. A thread cancelled there would hold the lock of steps for ever."""
    result = run(program("odd_moments", "cancel-in-step"), tmp_path, WAIT=1, WARMUP=0, ON_TRACE_READY="true")
    assert (result.rc, result.out, result.complaints) == (0, "came back 1, cancelled 1, step 6\n", [])


def test_cancelling_a_thread_during_a_stack_walk(tmp_path):
    """libunwind opens and reads files, which are cancellation points. If a thread ended there, each later fork would wait a second for it."""
    result = run(program("odd_moments", "cancel-in-stack"), tmp_path, WITH_STACK=1, **ALWAYS)
    assert (result.rc, result.out) == (0, "marked 20\n"), result.err
    assert len(events(load(result.traces[0]), name="with a stack")) == 20


def test_exit_from_a_handler_inside_malloc(tmp_path):
    """The events before the first step become the trace. The exiting thread must allocate nothing, for it holds malloc's lock."""
    for attempt in range(8):
        result = run(program("odd_moments", "leave-in-malloc"), tmp_path / str(attempt), timeout=60)
        assert result.rc == 7 and len(result.traces) == 1, result.err


@pytest.mark.skipif(bool(SANITIZER), reason="the sanitizer's own functions take more stack")
@pytest.mark.parametrize("log", ["info", "error"])
def test_exit_from_a_handler_on_a_small_stack(tmp_path, log):
    """The stack has the size of _SC_SIGSTKSZ. The memory below it may belong to the program."""
    result = run(program("odd_moments", "leave-on-small-stack"), tmp_path, LOG=log)
    assert result.rc == 7 and len(result.traces) == 1, result.err


@pytest.mark.skipif(bool(SANITIZER), reason="the sanitizer's own functions take more stack")
@pytest.mark.parametrize("settings", [{}, dict(SKIP_FIRST=100)])
def test_exit_from_a_handler_on_a_stack_of_8_kb(tmp_path, settings):
    """8 KB is SIGSTKSZ before glibc 2.34, and in programs compiled with an older glibc. One case also prints a line."""
    result = run(program("odd_moments", "leave-on-small-stack", 8192), tmp_path, **settings)
    if result.rc == 77:
        pytest.skip("this processor's registers need a larger signal stack")
    assert result.rc == 7 and ("nothing was recorded" in result.err) == bool(settings), result.err


@pytest.mark.skipif(bool(SANITIZER), reason="the sanitizer's own functions take more stack")
@pytest.mark.parametrize("settings", [{}, dict(USE_GZIP=1), dict(WITH_STACK=1), dict(ON_TRACE_READY="true", LOG="debug"), dict(TRIGGER="socket")])
def test_thread_with_the_smallest_stack_starts_cprof(tmp_path, settings):
    """The stack has PTHREAD_STACK_MIN. cprof's start needs more, so it must not run on the stack of the calling thread."""
    copy = tmp_path / "copy.json.gz"
    result = run(program("odd_moments", "small-stacks", copy), tmp_path / "t", **settings)
    assert (result.rc, result.out) == (0, "came back\n"), result.err
    assert len(events(load(copy), name="work")) > 0


def test_steps_marked_in_a_handler_inside_a_step_mark(tmp_path):
    result = run(program("odd_moments", "steps-in-handlers"), tmp_path, WAIT=2**31 - 1)
    assert (result.rc, result.out) == (0, "counted 1\n"), result.err
    *marks, unreached = result.complaints
    assert all("a signal handler marks a step" in line for line in marks) and unreached.startswith("nothing was recorded: the program ended after ")


def test_jump_out_of_a_mark_counts_lost_events(tmp_path):
    """After the jump, the thread's marks are no longer recorded. They count as lost, except the mark of each jump."""
    result = run(program("odd_moments", "jump-out-of-marks"), tmp_path, SCHEDULE_SCOPE="none")
    trace = load(result.traces[0])
    lost = trace["cprof"]["lost"]
    assert result.rc == 0 and lost["in_handler"] > 0, (result.err, lost)
    assert 0 <= int(result.out) - len(events(trace, name="mark")) - lost["total"] <= 20
    assert f" {lost['total']:,} lost" in result.err, result.err


def test_jump_out_of_metadata_leaves_no_lock(tmp_path):
    """Code that allocates or holds a lock must not be left by a jump: the program or the cprof thread would hang."""
    result = run(program("odd_moments", "jump-out-of-metadata"), tmp_path, **ALWAYS)
    assert (result.rc, result.out) == (0, "came back\n") and len(result.traces) == 1, result.err


def test_handler_that_ends_a_thread_leaves_no_lock(tmp_path):
    """The handler calls pthread_exit() or siglongjmp(). No thread could release a lock that the ended thread held."""
    result = run(program("odd_moments", "end-in-steps"), tmp_path, WAIT=2**31 - 1)
    assert (result.rc, result.out) == (0, "came back\n"), result.err


def test_forked_children_can_load_libraries(tmp_path):
    """The C library does not release the lock of dl_iterate_phdr() in a child. No thread of cprof may hold it during a fork."""
    result = run(program("odd_moments", "forks", BUILD / "e2e/libplugin.so", 300), tmp_path, WITH_STACK=1, **ALWAYS)
    assert (result.rc, result.out) == (0, "child 0\n"), result.err


def test_thread_of_one_event_takes_little_memory(tmp_path):
    with Running(program("odd_moments", "threads", 200), tmp_path, SCHEDULE_SCOPE="none") as running:
        running.wait_for("ready")
        running.wait_flushed('"once"')
        running.process.stdin.write("\n")
        running.process.stdin.flush()
        running.wait_for("MB")
        result = running.end()
    if result.rc == 77:
        pytest.skip("200 threads cannot be started here")
    assert result.rc == 0 and int(re.search(r"(\d+) MB", result.out)[1]) < 120
    assert len(events(load(result.traces[0]), name="once")) == 200


def test_ended_threads_take_no_memory(tmp_path):
    """The recording lasts as long as the program."""
    with Running(program("odd_moments", "threads-in-turn", 2000), tmp_path, SCHEDULE_SCOPE="none", RING_KB=64) as running:
        running.wait_for("ready")
        running.wait_flushed('"last"')
        running.say()
        result = running.end()
    if result.rc == 77:
        pytest.skip("the threads cannot be started here")
    assert (result.rc, result.out) == (0, "ready\ngiven back\n"), result.err
    assert len(events(load(result.traces[0]), name="once")) == 2000


@pytest.mark.skipif(bool(SANITIZER), reason="the sanitizer's own memory is above the limit")
def test_threads_leave_room_in_a_limited_address_space(tmp_path):
    """Under ulimit -v, rings of the usual size would leave no room for 300 threads and the program's memory."""
    with Running(program("odd_moments", "limited-threads", 300), tmp_path, SCHEDULE_SCOPE="none") as running:
        running.wait_flushed('"last"')
        running.say()
        result = running.end()
    if result.rc == 77:
        pytest.skip("300 threads cannot be started here")
    assert (result.rc, result.out) == (0, "ready\nenough\n"), result.err
    assert len([line for line in result.said if "the address space is limited" in line]) == 1
    assert len(events(load(result.traces[0]), name="once")) > 20


@both_pythons
def test_marks_in_a_handler_do_not_corrupt_operators(tmp_path, which):
    """The handler interrupts its thread while that thread writes to the ring. No record may be mixed up; marks without room count as lost."""
    result = run([python_or_skip(which), "-c", """
import ctypes, sys, torch
torch.set_num_threads(1)
library = ctypes.CDLL(sys.argv[1])
a = torch.ones(3)
a.neg()
library.begin()
for _ in range(12000): a.neg()
print(library.end())
""", BUILD / "e2e/libmarksinhandler.so"], tmp_path, SCHEDULE_SCOPE="none")
    trace = load(result.traces[0])
    refused = trace["cprof"]["lost"].get("in_handler", 0)
    assert result.rc == 0 and int(result.out) == len(events(trace, name="from a handler")) + refused > 100
    assert trace["cprof"]["lost"]["total"] == refused and result.complaints == [], result.err
    assert (f", {refused:,} lost" in result.err) == (refused > 0)
    names = {e["name"] for e in events(trace) if e["ph"] in "Xi" and e.get("cat") in ("cpu_op", "user_annotation")}
    assert {n for n in names if not n.startswith("aten::")} <= {"from a handler", "before", "Record Window End"}
    assert {"from a handler", "aten::neg"} <= names and all(re.fullmatch(r"aten::\w+", n) for n in names if n.startswith("aten::"))
    assert len(events(trace, name="aten::neg")) >= 12000


@both_pythons
def test_ranges_left_by_another_thread_end_there(tmp_path, which):
    """There are more ranges than the stack of open spans holds. Each ends when it was left, and no operator is lost."""
    result = run([python_or_skip(which), "-c", """
import queue, threading, torch
from torch.profiler import record_function
ranges = queue.Queue(100)
def leave():
    while (r := ranges.get()) is not None: r.__exit__(None, None, None)
thread = threading.Thread(target=leave)
thread.start()
a = torch.ones(4)
for i in range(1500):
    r = record_function("request")
    r.__enter__()
    a.neg()
    ranges.put(r)
ranges.put(None)
thread.join()
with record_function("last"): a.neg()
"""], tmp_path, SCHEDULE_SCOPE="none")
    assert (result.rc, result.complaints) == (0, [])
    trace = load(result.traces[0])
    assert len(events(trace, name="aten::neg")) == 1501 and trace["cprof"]["lost"]["total"] == 0
    assert len(events(trace, ph="b", name="request")) == len(events(trace, ph="e", name="request")) == 1500
    assert not [e for e in events(trace, name="request") if "finished" in e.get("args", {})]


@both_pythons
def test_ranges_left_between_windows_stay_closed(tmp_path, which):
    """The ranges are left while nothing is recorded. There are more than the stack of open spans holds, and others begin and end meanwhile."""
    result = run([python_or_skip(which), "-c", """
import ctypes, threading, torch
from torch.profiler import record_function
a, step = torch.ones(4), ctypes.CDLL(None).cprof_step
def leave(ranges):
    for r in ranges: r.__exit__(None, None, None)
    for i in range(1500):
        with record_function("not recorded"): pass
for i in range(8):
    ranges = [record_function("request") for k in range(100)]
    for r in ranges: r.__enter__()
    a.neg()
    step()
    thread = threading.Thread(target=leave, args=(ranges,))
    thread.start()
    thread.join()
    if i % 2:
        with record_function("not recorded"): pass
    step()
"""], tmp_path, WAIT=1, WARMUP=0, ACTIVE=1, REPEAT=0, SKIP_FIRST=0, SKIP_FIRST_WAIT=1)
    assert (result.rc, result.complaints) == (0, [])
    assert len(result.traces) == 8
    for trace in sorted(map(load, result.traces), key=step_numbers):
        assert len(events(trace, name="aten::neg")) == 1 and trace["cprof"]["lost"]["total"] == 0
        assert events(trace, name="not recorded") == []
        unfinished = [e for e in events(trace, name="request") if "finished" in e.get("args", {})]
        assert unfinished == [] or step_numbers(trace)[0] % 4 == 0  # unfinished until their thread begins another range


@torch_runs.needs_torch_2("cprof does not follow its TorchScript interpreter")
def test_torchscript_functions_ended_by_another_thread(tmp_path):
    """More functions than spans may be open on a thread. No function's span contains later ranges or outlives its window."""
    calls, steps = 300, 4
    result = torch_runs.run("jit_wait.py", tmp_path, calls, steps, WAIT=1, WARMUP=0, ACTIVE=1, REPEAT=2, RING_KB=65536)
    took = torch_runs.printed(result)
    for at, trace in zip((1, 3), torch_runs.traces(result)):
        assert trace.lost == 0 and trace.account["unfinished"] == 0, trace.account
        (after, around) = trace.ranges("^after$"), trace.ranges("^around$")
        assert len(after) == len(around) == calls and len(trace.ranges("Optimizer.step")) == 1
        inside = trace.ops("^waits$")
        beside = events(trace.data, ph="b", name="waits")  # torch may end the function after its caller has continued
        assert len(inside) + len(beside) == calls and len(inside) > calls // 2
        for begun, call in zip(around, took[at * calls:]):
            assert span_ns(begun)[1] - span_ns(begun)[0] < call * 1e3 + 1
        starts = [span_ns(e)[0] for e in after]
        for start, end in map(span_ns, inside):
            assert bisect.bisect(starts, start) == bisect.bisect(starts, end - 1), "a range after the call lies in it"


@torch_runs.needs_torch_2("cprof does not follow its TorchScript interpreter")
def test_exit_right_after_a_torchscript_function(tmp_path):
    """At its end CPython kills threads that wait for the GIL, which C++ answers with abort(). Threads that end TorchScript calls must finish
    before that."""
    preload = f"{program('libslowpool.so')[0]}:{LIBRARY}"
    result = torch_runs.run("jit_last.py", tmp_path, preload=False, env={"LD_PRELOAD": preload, "SLOWPOOL_MS": "100"}, **ALWAYS)
    assert len(torch_runs.trace(result).ops("aten::mm")) == 9


@needs_torch_2("Debian's is no wheel")
def test_finds_the_version_of_torch_without_python(tmp_path):
    """A C++ program linked to the wheel does not load _C.so. cprof then reads the version from a file beside the library's folder."""
    result = run([sys.executable, "-c", """
import ctypes, importlib.util, os
libraries = os.path.join(os.path.dirname(importlib.util.find_spec("torch").origin), "lib")
for name in ("libc10.so", "libtorch_cpu.so"):
    ctypes.CDLL(os.path.join(libraries, name), ctypes.RTLD_GLOBAL)
for _ in range(4):
    ctypes.CDLL(None).cprof_step()
"""], tmp_path, WARMUP=0, ACTIVE=2)
    assert result.rc == 0 and result.complaints == [], result.err
