# SPDX-License-Identifier: Apache-2.0
"""Calls at moments that nobody chooses: a thread is cancelled, a signal comes, a process forks while cprof is in the middle of something."""

import bisect
import re
import sys

import pytest

import torch_runs
from support import LIBRARY, SANITIZER, Running, events, load, program, run, span_ns, step_numbers
from torch_runs import both_pythons, needs_torch_2, python_or_skip

from conftest import BUILD

ALWAYS = dict(WARMUP=0, ACTIVE=1000000)


def test_a_thread_is_cancelled_where_it_wakes_cprof_up(tmp_path):
    """Nothing stays half-done: the steps of the others are counted, and recorded."""
    result = run(program("odd_moments", "cancel"), tmp_path, **ALWAYS)
    assert (result.rc, result.out, result.complaints) == (0, "cancelled 1, step 5\n", [])
    trace, = result.traces
    assert len(events(load(trace), name="first")) == 1


def test_a_thread_is_cancelled_where_it_marks_a_step(tmp_path):
    """What an edge does reads files; a thread that ended there would keep the others, which mark steps, too, waiting for ever."""
    result = run(program("odd_moments", "cancel-in-step"), tmp_path, WAIT=1, WARMUP=0, ON_TRACE_READY="true")
    assert (result.rc, result.out, result.complaints) == (0, "came back 1, cancelled 1, step 6\n", [])


def test_a_thread_is_cancelled_where_its_stack_is_taken(tmp_path):
    """libunwind opens and reads files, where threads are cancelled: forks would wait a second each for one that ended there."""
    result = run(program("odd_moments", "cancel-in-stack"), tmp_path, WITH_STACK=1, **ALWAYS)
    assert (result.rc, result.out) == (0, "marked 20\n"), result.err
    assert len(events(load(result.traces[0]), name="with a stack")) == 20


def test_a_signal_handler_leaves_in_the_middle_of_malloc(tmp_path):
    """What was before the first step becomes the trace, and the exiting thread allocates nothing for that."""
    for attempt in range(8):
        result = run(program("odd_moments", "leave-in-malloc"), tmp_path / str(attempt), timeout=60)
        assert result.rc == 7 and len(result.traces) == 1, result.err


@pytest.mark.skipif(bool(SANITIZER), reason="the sanitizer's own functions take more stack")
@pytest.mark.parametrize("log", ["info", "error"])
def test_a_signal_handler_leaves_on_a_small_stack(tmp_path, log):
    """As large as _SC_SIGSTKSZ says. What lies below may be the program's."""
    result = run(program("odd_moments", "leave-on-small-stack"), tmp_path, LOG=log)
    assert result.rc == 7 and len(result.traces) == 1, result.err


@pytest.mark.skipif(bool(SANITIZER), reason="the sanitizer's own functions take more stack")
@pytest.mark.parametrize("settings", [{}, dict(SKIP_FIRST=100)])
def test_a_signal_handler_leaves_on_a_stack_of_8_kb(tmp_path, settings):
    """SIGSTKSZ before glibc 2.34, and of what was compiled with it. With a line to write, too."""
    result = run(program("odd_moments", "leave-on-small-stack", 8192), tmp_path, **settings)
    if result.rc == 77:
        pytest.skip("this processor's registers take more")
    assert result.rc == 7 and ("nothing was recorded" in result.err) == bool(settings), result.err


@pytest.mark.skipif(bool(SANITIZER), reason="the sanitizer's own functions take more stack")
@pytest.mark.parametrize("settings", [{}, dict(USE_GZIP=1), dict(WITH_STACK=1), dict(ON_TRACE_READY="true", LOG="debug"), dict(TRIGGER="socket")])
def test_a_thread_with_a_small_stack_wakes_cprof_up(tmp_path, settings):
    """PTHREAD_STACK_MIN. What waking up needs besides does not lie on the stack of whoever comes first."""
    copy = tmp_path / "copy.json.gz"
    result = run(program("odd_moments", "small-stacks", copy), tmp_path / "t", **settings)
    assert (result.rc, result.out) == (0, "came back\n"), result.err
    assert len(events(load(copy), name="work")) > 0


def test_a_signal_handler_marks_steps_while_its_thread_does(tmp_path):
    result = run(program("odd_moments", "steps-in-handlers"), tmp_path, WAIT=2**31 - 1)
    assert (result.rc, result.out) == (0, "counted 1\n"), result.err
    *marks, unreached = result.complaints
    assert all("a signal handler marks a step" in line for line in marks) and unreached.startswith("nothing was recorded: the program ended after ")


def test_a_signal_handler_jumps_out_of_marks(tmp_path):
    """What its thread marks from then on is not recorded any more: counted, all but the mark in each jump, and said."""
    result = run(program("odd_moments", "jump-out-of-marks"), tmp_path, SCHEDULE_SCOPE="none")
    trace = load(result.traces[0])
    lost = trace["cprof"]["lost"]
    assert result.rc == 0 and lost["in_handler"] > 0, (result.err, lost)
    assert 0 <= int(result.out) - len(events(trace, name="mark")) - lost["total"] <= 20
    assert f" {lost['total']:,} lost" in result.err, result.err


def test_a_signal_handler_jumps_out_of_metadata(tmp_path):
    """What allocates and takes a lock is not left half-way: neither the program nor the cprof thread could go on."""
    result = run(program("odd_moments", "jump-out-of-metadata"), tmp_path, **ALWAYS)
    assert (result.rc, result.out) == (0, "came back\n") and len(result.traces) == 1, result.err


def test_a_signal_handler_ends_a_thread_that_marks_steps(tmp_path):
    """By pthread_exit(), or by siglongjmp(): the lock that it held would be nobody's to give back."""
    result = run(program("odd_moments", "end-in-steps"), tmp_path, WAIT=2**31 - 1)
    assert (result.rc, result.out) == (0, "came back\n"), result.err


def test_children_load_libraries_whatever_other_threads_look_at(tmp_path):
    """The C library does not free the lock of dl_iterate_phdr() in a child: nobody may be inside when a process forks."""
    result = run(program("odd_moments", "forks", BUILD / "e2e/libplugin.so", 300), tmp_path, WITH_STACK=1, **ALWAYS)
    assert (result.rc, result.out) == (0, "child 0\n"), result.err


def test_a_thread_of_one_event_takes_little_memory(tmp_path):
    with Running(program("odd_moments", "threads", 200), tmp_path, SCHEDULE_SCOPE="none") as running:
        running.wait_for("ready")
        running.wait_flushed('"once"')
        running.process.stdin.write("\n")
        running.process.stdin.flush()
        running.wait_for("MB")
        result = running.end()
    if result.rc == 77:
        pytest.skip("200 threads cannot be had here")
    assert result.rc == 0 and int(re.search(r"(\d+) MB", result.out)[1]) < 120
    assert len(events(load(result.traces[0]), name="once")) == 200


def test_threads_that_have_ended_take_no_memory(tmp_path):
    """In a recording that goes on as long as the program does, too."""
    with Running(program("odd_moments", "threads-in-turn", 2000), tmp_path, SCHEDULE_SCOPE="none", RING_KB=64) as running:
        running.wait_for("ready")
        running.wait_flushed('"last"')
        running.say()
        result = running.end()
    if result.rc == 77:
        pytest.skip("threads cannot be had here")
    assert (result.rc, result.out) == (0, "ready\ngiven back\n"), result.err
    assert len(events(load(result.traces[0]), name="once")) == 2000


@pytest.mark.skipif(bool(SANITIZER), reason="the sanitizer's own memory is above the limit")
def test_threads_leave_a_limited_address_space_to_the_program(tmp_path):
    """ulimit -v: with a ring of the usual size for each thread neither they nor what the program allocates then would find room."""
    with Running(program("odd_moments", "limited-threads", 300), tmp_path, SCHEDULE_SCOPE="none") as running:
        running.wait_flushed('"last"')
        running.say()
        result = running.end()
    if result.rc == 77:
        pytest.skip("300 threads cannot be had here")
    assert (result.rc, result.out) == (0, "ready\nenough\n"), result.err
    assert len([line for line in result.said if "the address space is limited" in line]) == 1
    assert len(events(load(result.traces[0]), name="once")) > 20


@both_pythons
def test_a_signal_handler_marks_while_its_thread_records_operators(tmp_path, which):
    """What both write must not meet in one place of the ring: each event has a name that somebody gave it. What finds no place is counted."""
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
def test_ranges_that_another_thread_leaves(tmp_path, which):
    """More than the stack of open spans holds: each ends when it was left, and the operators are all there."""
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
def test_ranges_that_another_thread_leaves_between_windows(tmp_path, which):
    """Nothing is recorded when they are left, and more are left than the stack of open spans holds; others begin and end meanwhile."""
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
        assert unfinished == [] or step_numbers(trace)[0] % 4 == 0  # until its thread begins another range


@torch_runs.needs_torch_2("its interpreter was not looked at")
def test_torchscript_functions_that_end_on_another_thread(tmp_path):
    """More of them than spans may be open on a thread. None holds what comes after it, nor outlives its window."""
    calls, steps = 300, 4
    result = torch_runs.run("jit_wait.py", tmp_path, calls, steps, WAIT=1, WARMUP=0, ACTIVE=1, REPEAT=2, RING_KB=65536)
    took = torch_runs.printed(result)
    for at, trace in zip((1, 3), torch_runs.traces(result)):
        assert trace.lost == 0 and trace.account["unfinished"] == 0, trace.account
        (after, around) = trace.ranges("^after$"), trace.ranges("^around$")
        assert len(after) == len(around) == calls and len(trace.ranges("Optimizer.step")) == 1
        inside = trace.ops("^waits$")
        beside = events(trace.data, ph="b", name="waits")  # torch may end it after its caller has gone on
        assert len(inside) + len(beside) == calls and len(inside) > calls // 2
        for begun, call in zip(around, took[at * calls:]):
            assert span_ns(begun)[1] - span_ns(begun)[0] < call * 1e3 + 1
        starts = [span_ns(e)[0] for e in after]
        for start, end in map(span_ns, inside):
            assert bisect.bisect(starts, start) == bisect.bisect(starts, end - 1), "a range after the call lies in it"


@torch_runs.needs_torch_2("its interpreter was not looked at")
def test_the_interpreter_ends_behind_a_torchscript_function(tmp_path):
    """CPython ends a thread that waits for its lock then, and C++ answers that by abort(): the threads that ended calls get their turn before."""
    preload = f"{program('libslowpool.so')[0]}:{LIBRARY}"
    result = torch_runs.run("jit_last.py", tmp_path, preload=False, env={"LD_PRELOAD": preload, "SLOWPOOL_MS": "100"}, **ALWAYS)
    assert len(torch_runs.trace(result).ops("aten::mm")) == 9


@needs_torch_2("Debian's is no wheel")
def test_the_version_of_a_torch_without_python(tmp_path):
    """A C++ program that is linked to the wheel has no _C.so in it: the version stands beside the folder of the library."""
    result = run([sys.executable, "-c", """
import ctypes, importlib.util, os
libraries = os.path.join(os.path.dirname(importlib.util.find_spec("torch").origin), "lib")
for name in ("libc10.so", "libtorch_cpu.so"):
    ctypes.CDLL(os.path.join(libraries, name), ctypes.RTLD_GLOBAL)
for _ in range(4):
    ctypes.CDLL(None).cprof_step()
"""], tmp_path, WARMUP=0, ACTIVE=2)
    assert result.rc == 0 and result.complaints == [], result.err
