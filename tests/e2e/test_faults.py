# SPDX-License-Identifier: Apache-2.0
"""Calls that fail, disks that are full, folders that go away, children of all kinds, libraries that come and go: the program is never
harmed, one line says what is missing, and what is on disk can be read."""

import errno
import json
import shutil
import subprocess

import pytest

import faults
import gpu_runs
import tool
from conftest import matrix
from support import (LIBRARY, Running, bound_by_permissions, events, load, no_mounts_reason, own_descriptors_reason, own_mounts, program, python, refuse_close_range, run,
                     step_numbers)

ACTIVE_FROM_1 = dict(WARMUP=1, ACTIVE=1000)
no_mounts = no_mounts_reason()


# ---- calls that fail ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", faults.PROGRAMS_OF)
def test_each_call_in_turn(tmp_path, name):
    """A share of what `make soak` does in full, always the same one."""
    if name == "GPU" and not gpu_runs.PROGRAMS.is_dir():
        pytest.skip("no simulated GPU: `make sim` needs the CUDA headers (make setup)")
    figures = faults.fail_in_turn(tmp_path, name, share=83)
    assert figures.runs > 5 and figures.wrong == []


def opens(part):
    """An open file can be read as it is, or, where the call that failed for good was the one that cuts its end off, after `cprof recover`.
    Empty is what could be made, but not written."""
    if part.stat().st_size == 0:
        return
    try:
        load(part)
    except json.JSONDecodeError:
        whole = part.with_name("recovered.json")
        done = tool.cprof("recover", part, "-o", whole)
        assert done.rc == 0, done.err
        load(whole)


@pytest.mark.parametrize("kind, number", [("file", errno.ENOSPC), ("file", errno.EMFILE), ("memory", errno.ENOMEM)])
@pytest.mark.parametrize("at", [1, 40, 80])
def test_all_calls_from_one_on(tmp_path, kind, number, at):
    """It stays as it is: no memory and no disk for the rest of the run."""
    result, _ = faults.one(tmp_path / "t", "marks", kind, at, number, times=1000000)
    assert (result.rc, result.out, result.others) == (0, "made 400\n", "")
    assert len(result.complaints) <= 2, result.err
    for path in result.traces:
        load(path)
    for path in result.parts:
        opens(path)


# ---- disks and folders -------------------------------------------------------------------------------------

@pytest.mark.skipif(no_mounts is not None, reason=no_mounts or "")
@pytest.mark.parametrize("fill", ["", "head -c 1M /dev/zero >/mnt/ballast 2>/dev/null || :;"])
def test_a_small_disk(tmp_path, fill):
    """A tmpfs of 256 KB: the recording ends with one line before or when it is full, the file on it is whole, and nothing hangs."""
    code = "steps(2000, 0.0005)\nprint('done')"
    script = f"mount -t tmpfs -o size=256k none /mnt; {fill} \"$@\"; rc=$?; cp -r /mnt {tmp_path}/copy; exit $rc"
    result = run([*own_mounts(), script, "sh", *python(code)], "/mnt/t", **ACTIVE_FROM_1)
    assert (result.rc, result.out) == (0, "done\n"), result.err
    assert len(result.complaints) == 1 and "recording" in result.complaints[0]
    left = [path for path in (tmp_path / "copy").rglob("*.json*") if path.name != "saved_traces.jsonl"]
    for path in left:
        load(path)
    assert left or fill


@pytest.mark.parametrize("how", ["os.chmod(sys.argv[1], 0o555)", "os.rename(sys.argv[1], sys.argv[1] + '-moved')"])
def test_a_folder_that_changes(tmp_path, how):
    """Read-only or elsewhere in the middle of a window: at most one line, and the trace is where the folder is, finished or not."""
    code = f"steps(3); flushed(b'ProfilerStep#2'); {how}; steps(2); time.sleep(0.3); steps(1); print('done')"
    folder = tmp_path / "t"
    result = run(python(code, folder), folder, before_exec=bound_by_permissions, **ACTIVE_FROM_1)
    where = folder if folder.exists() else tmp_path / "t-moved"
    where.chmod(0o755)
    assert (result.rc, result.out) == (0, "done\n") and 1 <= len(result.complaints) <= 2, result.err
    left = [path for path in where.iterdir() if path.name.startswith("rank0")]
    assert len(left) == 1 and step_numbers(load(left[0]))[:2] == [1, 2]


# ---- children and threads ----------------------------------------------------------------------------------

MANY = {
    "fork": "pid = os.fork()\n    if pid == 0: push(b'child'); pop(); os._exit(0)\n    assert os.waitpid(pid, 0)[1] == 0",
    "exec": "pid = os.fork()\n    if pid == 0: os.execv('/bin/true', ['true'])\n    assert os.waitpid(pid, 0)[1] == 0",
    "posix_spawn": "pid = os.posix_spawn('/bin/true', ['true'], os.environ); assert os.waitpid(pid, 0)[1] == 0",
    "vfork": "subprocess.run(['/bin/true'], check=True, close_fds=True)",  # else it is posix_spawn
}


@pytest.mark.parametrize("number", matrix([1000], 300))
@pytest.mark.parametrize("kind", MANY)
def test_many_children(tmp_path, kind, number):
    """While another thread records all the time: each child comes back, and the trace has what the parent did and nothing else."""
    code = f"""
busy = True
def work():
    while busy:
        push(b"busy"); pop(); time.sleep(0.0005)
thread = threading.Thread(target=work); thread.start()
steps(2)
for i in range({number}):
    {MANY[kind]}
    if i % {number // 10} == 0: steps(1)
busy = False
thread.join(); steps(1); print("done")
"""
    result = run(python(code), tmp_path, **ACTIVE_FROM_1)
    assert (result.rc, result.out, result.complaints) == (0, "done\n", [])
    trace = load(result.traces[0])
    assert step_numbers(trace) == list(range(1, 13)) and len(result.traces) == 1 and result.parts == []
    assert events(trace, name="child") == [] and trace["cprof"]["lost"]["total"] == 0


def test_steps_while_another_thread_wakes_cprof_up(tmp_path):
    """What calls first starts the library, which takes milliseconds. A step that another thread marks meanwhile counts."""
    code = """
barrier = threading.Barrier(2)
def first(): barrier.wait(); push(b"first"); pop()
thread = threading.Thread(target=first); thread.start()
barrier.wait(); time.sleep(%f); steps(5)
thread.join(); print("done")
"""
    for n in range(8):
        result = run(python(code % (n * 0.0002)), tmp_path / str(n), WARMUP=0, WAIT=0, ACTIVE=4)
        assert (result.rc, result.out) == (0, "done\n")
        assert step_numbers(load(result.traces[0])) == [0, 1, 2, 3], n


def test_raw_clones(tmp_path):
    """Processes made by clone() without the C library's fork handlers, also in the parent's memory, that leave at once."""
    code = """
import platform
SYS_clone, SIGCHLD, CLONE_VM, CLONE_VFORK = {"x86_64": 56, "aarch64": 220}[platform.machine()], 17, 0x100, 0x4000
_c.syscall.restype = ctypes.c_long
steps(2)
for i in range(1000):
    pid = _c.syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        _c._exit(3)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 3
steps(1); print("done")
"""
    result = run(python(code), tmp_path, **ACTIVE_FROM_1)
    assert (result.rc, result.out, result.complaints) == (0, "done\n", [])
    assert step_numbers(load(result.traces[0])) == [1, 2] and result.parts == []


def test_raw_clones_that_mark_steps(tmp_path):
    """While other threads do, one of which holds cprof's lock in most of them: there is no such thread in the child, which does not wait."""
    code = """
import platform, signal, sys
SYS_clone, SIGCHLD = {"x86_64": 56, "aarch64": 220}[platform.machine()], 17
sys.setswitchinterval(1000)  # a child that is asked to hand on the GIL waits for a thread it does not have
here = ctypes.PyDLL(None)  # keeps the GIL, which a child could not get
call, mark_here, leave = here.syscall, here.cprof_step, here._exit  # looked up now: a child might not get the loader's lock
call.restype = ctypes.c_long
over = False
def mark():
    while not over: step()
threads = [threading.Thread(target=mark) for _ in range(2)]
for t in threads: t.start()
stuck = 0
for i in range(300):
    pid = call(SYS_clone, SIGCHLD, 0, 0, 0, 0)
    if pid == 0:
        mark_here()
        leave(3)
    end = time.monotonic() + 20
    while (found := os.waitpid(pid, os.WNOHANG)) == (0, 0) and time.monotonic() < end: time.sleep(0.0005)
    if found == (0, 0):
        stuck += 1
        os.kill(pid, signal.SIGKILL); os.waitpid(pid, 0)
        break
    assert os.waitstatus_to_exitcode(found[1]) == 3, found
over = True
for t in threads: t.join()
print("stuck", stuck)
"""
    result = run(python(code), tmp_path, **ACTIVE_FROM_1)
    assert (result.rc, result.out) == (0, "stuck 0\n")
    assert step_numbers(load(result.traces[0])) and result.parts == []


def test_threads_that_begin_and_end_during_drains(tmp_path):
    """Each lives for one range, over many windows; nothing of any of them is lost."""
    code = """
mark(b"awake")
def life(): push(b"life"); pop()
for step_number in range(40):
    threads = [threading.Thread(target=life) for _ in range(10)]
    for t in threads: t.start()
    for t in threads: t.join()
    step()
print("done")
"""
    result = run(python(code), tmp_path, WARMUP=0, ACTIVE=4, REPEAT=0)
    assert (result.rc, result.out, result.complaints) == (0, "done\n", [])
    assert sum(len(events(load(path), name="life")) for path in result.traces) == 400


def test_libraries_that_come_and_go(tmp_path):
    """dlopen and dlclose of a library with hooked symbols, and calls in between, while it is recorded."""
    if not shutil.which("cc"):
        pytest.skip("no C compiler")
    source = tmp_path / "come.c"
    source.write_text("int cprof_range_push(const char *); int cprof_range_pop(void);\n"
                      "int MPI_Comm_rank(void *comm, int *rank) { *rank = 5; return 0; }\n"
                      "int go(void) { int rank = 0; MPI_Comm_rank((void *)0, &rank); return rank; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "libcome.so", source], check=True, timeout=60)
    code = """
import _ctypes
steps(2)
for i in range(300):
    library = ctypes.CDLL(sys.argv[1])
    assert library.go() == 5, "not forwarded"
    _ctypes.dlclose(library._handle)
    if i % 100 == 0: steps(1)
print("done")
"""
    result = run(python(code, tmp_path / "libcome.so"), tmp_path / "t", **ACTIVE_FROM_1)
    assert (result.rc, result.out, result.complaints) == (0, "done\n", []), result.err
    assert step_numbers(load(result.traces[0])) == [1, 2, 3, 4]


# ---- signals, clocks and ends ------------------------------------------------------------------------------

def test_a_storm_of_signals(tmp_path):
    """Thousands of signals while marks are made and files are written: handlers run in the program's threads, nothing is lost."""
    code = """
got = [0]
signal.signal(signal.SIGALRM, lambda *args: got.__setitem__(0, got[0] + 1))
signal.signal(signal.SIGUSR1, lambda *args: push(b"handler") or pop())
signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
steps(3)
for i in range(300):
    os.kill(os.getpid(), signal.SIGUSR1)
    push(b"busy"); mark(b"busy mark"); pop(); time.sleep(0.001)
signal.setitimer(signal.ITIMER_REAL, 0)
steps(1); print("done", got[0] > 50)
"""
    result = run(python(code), tmp_path, **ACTIVE_FROM_1)
    assert (result.rc, result.out, result.complaints) == (0, "done True\n", [])
    trace = load(result.traces[0])
    assert len(events(trace, ph="X", name="busy")) == len(events(trace, name="busy mark")) == 300
    assert len(events(trace, ph="X", name="handler")) == 300 and trace["cprof"]["lost"]["total"] == 0


@pytest.mark.parametrize("end", ["", "os._exit(0)"])
def test_a_thread_that_is_stuck_for_ever(tmp_path, end):
    """It holds a range open and never comes back; the exit does not wait for it."""
    code = f"""
there = threading.Event()
def stuck():
    push(b"stuck"); there.set(); _c.pause()
steps(2); threading.Thread(target=stuck, daemon=True).start(); there.wait()
steps(2); print("done", flush=True); {end}
"""
    result = run(python(code), tmp_path, **ACTIVE_FROM_1)
    assert (result.rc, result.out, result.complaints) == (0, "done\n", [])
    trace = load(result.traces[0])
    stuck, = events(trace, ph="X", name="stuck")
    assert stuck["args"]["finished"] == "false" and step_numbers(trace) == [1, 2, 3]


@pytest.mark.parametrize("call", ["os.closerange(3, 65536)", "_c.closefrom(3)", "_c.close_range(3, 0xffffffff, 0)"])
def test_all_files_are_closed(tmp_path, call):
    code = f"steps(2); flushed(b'ProfilerStep#1')\nfor i in range(10):\n    {call}; steps(1); time.sleep(0.03)\nprint('done')"
    result = run(python(code), tmp_path, USE_GZIP=0, **ACTIVE_FROM_1)
    assert (result.rc, result.out, result.complaints) == (0, "done\n", [])
    assert step_numbers(load(result.traces[0])) == list(range(1, 12))


@pytest.mark.skipif(own_descriptors_reason() is not None, reason=own_descriptors_reason() or "")
@pytest.mark.parametrize("settings", [{}, {"USE_GZIP": 1, "NUM_TRACES_TO_KEEP": 1}, {"WITH_STACK": 1}, {"TRIGGER": "file:go"}, {"TRIGGER": "socket"},
                                      {"ON_TRACE_READY": "true"}], ids=str)
def test_descriptors_are_the_programs_own(tmp_path, settings):
    """It closes all of them again and again and opens a file of its own, while each of the library's calls takes a millisecond longer."""
    before = f"{LIBRARY}:{program('libfaults.so')[0]}"
    result = run(["env", f"LD_PRELOAD={before}", "FAULT_DELAY_US=1000", *program("descriptors", 1500, tmp_path / "own")], tmp_path / "traces", preload=False,
                 cwd=tmp_path, WARMUP=0, ACTIVE=3, REPEAT=0, **settings)
    assert (result.rc, result.out, result.complaints) == (0, "other numbers 0, written to 0, closed 0\n", [])
    traces = [load(path) for path in result.traces]
    assert all(t["cprof"]["complete"] and not any(t["cprof"]["lost"].values()) for t in traces)
    if "NUM_TRACES_TO_KEEP" not in settings:
        assert sum(len(events(t, name="round")) for t in traces) == 1500 and len(traces) >= 25


def test_kernel_without_tables_of_descriptors_for_threads(tmp_path):
    """Files are opened in the program's table, which costs it nothing but what scripts/LIMITS.md says."""
    result = run(program("burst", 2, 100), tmp_path, LOG="debug", WARMUP=0, ACTIVE=1000, before_exec=refuse_close_range)
    assert (result.rc, result.out, result.others) == (0, "made 400\n", "")
    assert len([line for line in result.said if line.startswith("files are opened among the program's own: Function not implemented")]) == 1
    assert len(events(load(result.traces[0]), name="burst")) == 400


def time_namespace_reason():
    done = subprocess.run(["unshare", "--time", "--monotonic", "1000000", "true"], capture_output=True, text=True, timeout=60)
    return None if done.returncode == 0 else f"no time namespace here: {done.stderr.strip()}"


@pytest.mark.skipif(time_namespace_reason() is not None, reason=time_namespace_reason() or "")
def test_a_clock_of_another_origin(tmp_path):
    """CLOCK_MONOTONIC 11 days ahead, as in a container that was moved: times in the trace are those of the wall clock."""
    code = "import time as t; before = t.time_ns(); steps(3); print(before, t.time_ns())"
    result = run(["unshare", "--time", "--fork", "--monotonic", "1000000", "--boottime", "1000000", *python(code)], tmp_path,
                 **ACTIVE_FROM_1)
    before, after = map(int, result.out.split())
    trace = load(result.traces[0])
    for e in events(trace, name="work"):
        assert before - 10**9 <= trace["baseTimeNanoseconds"] + float(e["ts"]) * 1000 <= after + 10**9
