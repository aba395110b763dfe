# SPDX-License-Identifier: Apache-2.0
"""Failing calls, full disks, vanishing folders, children of all kinds, libraries that come and go. The program is never harmed, one line
reports what is missing, and the files on disk can be read."""

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
def test_survives_each_file_and_memory_call_failing(tmp_path, name):
    """A fixed sample of the calls; `make soak` makes every call fail."""
    if name == "GPU" and not gpu_runs.PROGRAMS.is_dir():
        pytest.skip("no simulated GPU: `make sim` needs the CUDA headers (make setup)")
    figures = faults.fail_in_turn(tmp_path, name, share=83)
    assert figures.runs > 5 and figures.wrong == []


def opens(part):
    """Checks that an open file can be read. If truncating the file failed, `cprof recover` must repair it first. The file is empty if it
    could be created but not written."""
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
def test_survives_all_calls_failing_from_one_on(tmp_path, kind, number, at):
    """No memory, or no disk, for the rest of the run."""
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
def test_small_disk_ends_the_recording_with_one_line(tmp_path, fill):
    """A tmpfs of 256 KB: recording stops with one line, the file on it can be read, and nothing hangs."""
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
def test_survives_a_read_only_or_moved_folder(tmp_path, how):
    """The folder becomes read-only or moves in the middle of a window. Its trace, finished or not, stays in the folder and can be read."""
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
    "vfork": "subprocess.run(['/bin/true'], check=True, close_fds=True)",  # close_fds=False would use posix_spawn
}


@pytest.mark.parametrize("number", matrix([1000], 300))
@pytest.mark.parametrize("kind", MANY)
def test_many_children_while_a_thread_records(tmp_path, kind, number):
    """Another thread records all the time. Every child ends, and the trace holds the parent's events only."""
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


def test_steps_count_while_another_thread_starts_cprof(tmp_path):
    """The first call starts the library, which takes milliseconds. Steps that another thread marks meanwhile must count."""
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


def test_raw_clones_that_exit_at_once(tmp_path):
    """clone() without the C library skips its fork handlers."""
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


def test_raw_clones_that_mark_steps_do_not_hang(tmp_path):
    """Other threads mark steps, too, and one often holds cprof's lock at the clone. That thread does not exist in the child, so the child must
    not wait for the lock."""
    code = """
import platform, signal, sys
SYS_clone, SIGCHLD = {"x86_64": 56, "aarch64": 220}[platform.machine()], 17
sys.setswitchinterval(1000)  # a child asked to release the GIL would wait for a thread that it does not have
here = ctypes.PyDLL(None)  # keeps the GIL, which a child could not get
call, mark_here, leave = here.syscall, here.cprof_step, here._exit  # looked up now: in a child the loader's lock may be held
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


def test_short_threads_over_many_windows_lose_nothing(tmp_path):
    """Each thread records one range, over many windows."""
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


def test_libraries_can_be_loaded_and_unloaded(tmp_path):
    """dlopen, calls and dlclose of a library with hooked symbols, while recording."""
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

def test_thousands_of_signals_lose_nothing(tmp_path):
    """Signals arrive while marks are made and files are written. Handlers run in the program's threads."""
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
def test_exit_does_not_wait_for_a_stuck_thread(tmp_path, end):
    """The thread holds a range open and never returns."""
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
def test_recording_continues_after_all_descriptors_were_closed(tmp_path, call):
    code = f"steps(2); flushed(b'ProfilerStep#1')\nfor i in range(10):\n    {call}; steps(1); time.sleep(0.03)\nprint('done')"
    result = run(python(code), tmp_path, USE_GZIP=0, **ACTIVE_FROM_1)
    assert (result.rc, result.out, result.complaints) == (0, "done\n", [])
    assert step_numbers(load(result.traces[0])) == list(range(1, 12))


@pytest.mark.skipif(own_descriptors_reason() is not None, reason=own_descriptors_reason() or "")
@pytest.mark.parametrize("settings", [{}, {"USE_GZIP": 1, "NUM_TRACES_TO_KEEP": 1}, {"WITH_STACK": 1}, {"TRIGGER": "file:go"}, {"TRIGGER": "socket"},
                                      {"ON_TRACE_READY": "true"}], ids=str)
def test_program_never_sees_cprofs_descriptors(tmp_path, settings):
    """The program closes all descriptors and opens its own file, in a loop, while each file call of the library takes a millisecond longer."""
    before = f"{LIBRARY}:{program('libfaults.so')[0]}"
    result = run(["env", f"LD_PRELOAD={before}", "FAULT_DELAY_US=1000", *program("descriptors", 1500, tmp_path / "own")], tmp_path / "traces", preload=False,
                 cwd=tmp_path, WARMUP=0, ACTIVE=3, REPEAT=0, **settings)
    assert (result.rc, result.out, result.complaints) == (0, "other numbers 0, written to 0, closed 0\n", [])
    traces = [load(path) for path in result.traces]
    assert all(t["cprof"]["complete"] and not any(t["cprof"]["lost"].values()) for t in traces)
    if "NUM_TRACES_TO_KEEP" not in settings:
        assert sum(len(events(t, name="round")) for t in traces) == 1500 and len(traces) >= 25


def test_works_without_per_thread_descriptor_tables(tmp_path):
    """cprof then opens files in the program's table; scripts/LIMITS.md has the consequences."""
    result = run(program("burst", 2, 100), tmp_path, LOG="debug", WARMUP=0, ACTIVE=1000, before_exec=refuse_close_range)
    assert (result.rc, result.out, result.others) == (0, "made 400\n", "")
    assert len([line for line in result.said if line.startswith("files are opened among the program's own: Function not implemented")]) == 1
    assert len(events(load(result.traces[0]), name="burst")) == 400


def time_namespace_reason():
    done = subprocess.run(["unshare", "--time", "--monotonic", "1000000", "true"], capture_output=True, text=True, timeout=60)
    return None if done.returncode == 0 else f"no time namespace here: {done.stderr.strip()}"


@pytest.mark.skipif(time_namespace_reason() is not None, reason=time_namespace_reason() or "")
def test_times_are_wall_clock_in_a_time_namespace(tmp_path):
    """CLOCK_MONOTONIC is 11 days ahead, as in a container that was moved."""
    code = "import time as t; before = t.time_ns(); steps(3); print(before, t.time_ns())"
    result = run(["unshare", "--time", "--fork", "--monotonic", "1000000", "--boottime", "1000000", *python(code)], tmp_path,
                 **ACTIVE_FROM_1)
    before, after = map(int, result.out.split())
    trace = load(result.traces[0])
    for e in events(trace, name="work"):
        assert before - 10**9 <= trace["baseTimeNanoseconds"] + float(e["ts"]) * 1000 <= after + 10**9
