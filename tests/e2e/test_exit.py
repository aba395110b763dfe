# SPDX-License-Identifier: Apache-2.0
"""How programs end, fork and misbehave: the trace can always be read, and the program behaves as without cprof."""

import json
import os
import pathlib
import re
import signal
import subprocess
import time

import pytest

import perfetto
from support import (LIBRARY, PROGRAMS, Running, environment, events, files, load, loads_plainly, natural, program, python, refuse_close_range, run,
                     status_of, step_numbers, wait_until)

ACTIVE_FROM_1 = dict(WARMUP=1, ACTIVE=1000)


# ---- killed in the middle of a window ----------------------------------------------------------------------

@pytest.mark.parametrize("gzip", [0, 1])
@pytest.mark.parametrize("death", ["SIGKILL", "SIGTERM", "SIGINT", "SIGSEGV", "SIGABRT"])
def test_kill_inside_a_window_leaves_a_readable_file(tmp_path, death, gzip):
    """The open file holds everything up to the last flush and can be read as it is. The open range is in it as unfinished."""
    number = signal.Signals[death]
    code = "signal.signal(signal.SIGINT, signal.SIG_DFL); steps(6); push(b'open range'); mark(b'last'); print('ready', flush=True); sys.stdin.readline()"
    with Running(python(code), tmp_path, USE_GZIP=gzip, **ACTIVE_FROM_1) as running:
        running.wait_for("ready")
        running.wait_flushed('"last"', '"open range"')
        result = running.end(number)
    assert result.rc == -number and result.err == ""
    assert result.traces == [] and len(result.parts) == 1
    assert loads_plainly(result.parts[0])["cprof"]["complete"] is False
    trace = load(result.parts[0])
    assert step_numbers(trace) == [1, 2, 3, 4, 5]
    assert len(events(trace, ph="X", name="work")) == 6 and len(events(trace, name="last")) == 1
    unfinished, = events(trace, ph="X", name="open range")
    assert unfinished["args"]["finished"] == "false" and trace["cprof"]["unfinished"] == 1


@perfetto.needed
@pytest.mark.parametrize("gzip", [0, 1])
def test_perfetto_opens_the_file_of_a_killed_program(tmp_path, gzip):
    code = "steps(6); push(b'open range'); mark(b'last'); print('ready', flush=True); sys.stdin.readline()"
    with Running(python(code), tmp_path, USE_GZIP=gzip, **ACTIVE_FROM_1) as running:
        running.wait_for("ready")
        running.wait_flushed('"last"', '"open range"')
        part, = running.end(signal.SIGKILL).parts
    assert perfetto.import_errors(part) == []
    rows = perfetto.query(part, "select name, count(*) as n from slice where name in ('work', 'open range') group by name")
    assert {row["name"]: row["n"] for row in rows} == {"work": 6, "open range": 1}


def test_kill_at_any_moment_leaves_a_readable_file(tmp_path):
    """The kill may come while the cprof thread writes; the open file can be read every time."""
    for attempt in range(4):
        folder = tmp_path / str(attempt)
        code = "print('ready', flush=True); steps(100000, 0.0005)"
        with Running(python(code), folder, USE_GZIP=attempt % 2, WARMUP=0, ACTIVE=100000) as running:
            running.wait_for("ready")
            running.wait_flushed("ProfilerStep#1")
            time.sleep(0.2 + 0.11 * attempt)
            result = running.end(signal.SIGKILL)
        trace = load(result.parts[0])
        assert step_numbers(trace) == list(range(len(step_numbers(trace)))) and step_numbers(trace)


def test_shorter_trailer_leaves_no_old_bytes(tmp_path):
    """200 open ranges make the trailer long. When they close, the file must be cut at the new end."""
    for gzip in (0, 1):
        folder = tmp_path / str(gzip)
        with Running(program("deep_and_back"), folder, USE_GZIP=gzip, **ACTIVE_FROM_1) as running:
            for where, unfinished in (("deep", 200), ("back", 0)):
                running.wait_for(where)
                trace = load(running.wait_flushed(f'"unfinished": {unfinished},', '"nnnnnn'))
                assert len(events(trace, ph="X", name=re.compile("nnn"))) == 200
                if where == "deep":
                    running.say()
            result = running.end(signal.SIGKILL)
        assert loads_plainly(result.parts[0])["cprof"]["unfinished"] == 0


# ---- ends of all kinds -------------------------------------------------------------------------------------

@pytest.mark.parametrize("end, finished", [
    ("", True),
    ("sys.exit(3)", True),
    ("raise ValueError('boom')", True),
    ("os._exit(5)", True),
    ("ctypes.CDLL(None)._Exit(6)", True),
    ("threading.Thread(target=lambda: os._exit(7)).start(); time.sleep(20)", True),
    ("ctypes.CDLL(None).quick_exit(8)", True),
    ("os.abort()", True),
    ("os.kill(os.getpid(), signal.SIGTERM); time.sleep(20)", True),
    ("os.kill(os.getpid(), signal.SIGKILL); time.sleep(20)", False),
    ("signal.raise_signal(signal.SIGTERM); time.sleep(20)", True),
    # KeyboardInterrupt: the interpreter ends, and then kills itself by the same signal
    ("os.kill(os.getpid(), signal.SIGINT); time.sleep(20)", True),
    ("ctypes.string_at(0)", False),
    ("os.execv('/bin/sh', ['sh', '-c', 'echo shell; exit 9'])", False),
])
def test_end_is_that_of_the_unprofiled_run(tmp_path, end, finished):
    """If exit handlers run, the trace is finished; otherwise the open file can be read."""
    code = f"print('begin', flush=True); steps(4); flushed(b'ProfilerStep#3'); {end}"
    plain = run(python(code), tmp_path, preload=False)
    result = run(python(code), tmp_path, WARMUP=1, ACTIVE=9)
    assert (result.rc, result.out) == (plain.rc, plain.out)
    assert re.sub("0x[0-9a-f]+", "", result.others) == re.sub("0x[0-9a-f]+", "", plain.err)
    assert result.complaints == []
    assert (result.names, len(result.parts)) == ((["rank0.4.pt.trace.json"], 0) if finished else ([], 1))
    trace = load((result.traces + result.parts)[0])
    assert step_numbers(trace) == [1, 2, 3]
    assert trace["cprof"]["complete"] is finished and trace["cprof"]["partial"] is finished


@pytest.mark.parametrize("kill", [
    "signal.signal(15, lambda *_: steps(1)); os.kill(os.getpid(), 15)",
    "signal.signal(15, signal.SIG_IGN); os.kill(os.getpid(), 15); steps(1)",
    "signal.pthread_sigmask(signal.SIG_BLOCK, [15]); os.kill(os.getpid(), 15); steps(1); signal.sigwait([15])",
    "pid = os.fork() or (os.kill(os.getpid(), 15), time.sleep(20)); assert os.waitpid(pid, 0)[1] == 15; steps(1)",
    "os.kill(os.getpid(), 0); os.kill(os.getpid(), signal.SIGCONT); steps(1)",
])
def test_recording_continues_after_a_harmless_signal(tmp_path, kill):
    """The process sends the signal to itself but handles, ignores or blocks it; or a forked child does."""
    result = run(python(f"steps(4); {kill}; steps(1)"), tmp_path, WARMUP=1, ACTIVE=9)
    assert (result.rc, result.complaints) == (0, []), result.err
    assert step_numbers(load(result.traces[0])) == [1, 2, 3, 4, 5]


def test_signal_caught_by_sigwait_finishes_the_trace(tmp_path):
    """cprof cannot see that another thread is in sigwait(), so it finishes the traces. It then reports that recording has ended."""
    wait = "signal.pthread_sigmask(signal.SIG_BLOCK, [15])\ndef send():\n signal.pthread_sigmask(signal.SIG_UNBLOCK, [15]); time.sleep(0.3); " \
           "os.kill(os.getpid(), 15)\nthreading.Thread(target=send).start(); print(signal.sigwait([15])); steps(2)"
    result = run(python(f"steps(4)\n{wait}"), tmp_path, WARMUP=1, ACTIVE=9)
    assert result.rc == 0 and result.out.endswith("15\n"), result.err
    assert [line for line in result.complaints if "signal 15, which did not end it" in line] == result.complaints != []
    assert step_numbers(load(result.traces[0])) == [1, 2, 3]


@pytest.mark.parametrize("enabled", [1, 0])
def test_exit_calls_the_next_preloads_hook(tmp_path, enabled):
    """libcprof comes first in LD_PRELOAD and calls the next library's _exit, also with CPROF_ENABLED=0."""
    preload = f"{LIBRARY} {PROGRAMS / 'libnextexit.so'}"
    result = run(python("steps(4); os._exit(5)"), tmp_path, preload=False, env=dict(LD_PRELOAD=preload),
                 ENABLED=enabled, **ACTIVE_FROM_1)
    assert (result.rc, result.others) == (5, "the next _exit was called\n")
    assert len(result.traces) == enabled


def test_exit_does_not_wait_for_deadlines(tmp_path):
    """The deadlines are an hour, longer than run() allows."""
    result = run(python("steps(4)"), tmp_path, WARMUP=0, ACTIVE=9, DRAIN_DEADLINE_MS=3600000, UPLOAD_DEADLINE_MS=3600000)
    assert result.rc == 0 and len(result.traces) == 1


def test_exit_deadline_of_zero_waits_for_nothing(tmp_path):
    result = run(python("steps(4)"), tmp_path, WARMUP=0, ACTIVE=9, DRAIN_DEADLINE_MS=0)
    assert result.rc == 0
    assert result.traces or len([line for line in result.said if "CPROF_DRAIN_DEADLINE_MS" in line]) == 1
    for path in result.traces:
        load(path)
    for path in result.parts:
        assert load(path)["traceEvents"]


# ---- open spans --------------------------------------------------------------------------------------------

def test_spans_of_64_threads_open_at_exit(tmp_path):
    result = run(program("open_spans", "stay", 64), tmp_path, **ACTIVE_FROM_1)
    assert result.rc == 0 and result.complaints == []
    trace = load(result.traces[0])
    assert trace["cprof"]["unfinished"] == 3 * 64
    for name in ("outer", "middle", "inner"):
        found = events(trace, ph="X", name=name)
        assert len({e["tid"] for e in found}) == len(found) == 64
        assert all(e["args"]["finished"] == "false" for e in found)


def test_open_spans_of_an_ended_thread_are_unfinished(tmp_path):
    result = run(program("open_spans", "end", 4), tmp_path, **ACTIVE_FROM_1)
    trace = load(result.traces[0])
    assert step_numbers(trace) == [1] and len(events(trace, name="one step later")) == 1
    for name in ("outer", "middle", "inner"):
        found = events(trace, ph="X", name=name)
        assert len(found) == 4 and all(e["args"]["finished"] == "false" for e in found)
    assert trace["cprof"]["lost"]["total"] == 0


def test_range_over_several_windows_belongs_to_the_first(tmp_path):
    """The range belongs to the window in which it began. That window's file does not wait for its end for ever."""
    result = run(python("push(b'whole run'); steps(3, 0.35)"), tmp_path, WARMUP=0, ACTIVE=1, REPEAT=0)
    traces = [load(path) for path in result.traces]
    assert [step_numbers(trace) for trace in traces] == [[0], [1], [2]]
    assert [len(events(trace, name="whole run")) for trace in traces] == [1, 0, 0]
    assert events(traces[0], name="whole run")[0]["args"]["finished"] == "false"


# ---- losses ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("threads", [1, 3])
def test_full_ring_counts_lost_events(tmp_path, threads):
    result = run(program("burst", threads, 50000, 50), tmp_path, RING_KB=64, **ACTIVE_FROM_1)
    trace = load(result.traces[0])
    kept, lost = len(events(trace, name="burst")), trace["cprof"]["lost"]
    assert lost["ring_full"] == lost["total"] > 0, "the ring was not made small enough for the test"
    assert kept + lost["total"] == int(result.out.split()[1]) == threads * 100000
    assert f"{lost['total']:,} lost" in result.said[0]
    assert trace["cprof"]["records"] == kept


def test_usual_rate_loses_nothing(tmp_path):
    result = run(program("burst", 2, 10000, 20), tmp_path, **ACTIVE_FROM_1)
    trace = load(result.traces[0])
    assert trace["cprof"]["lost"]["total"] == 0 and len(events(trace, name="burst")) == 40000


def test_deadline_during_a_write_leaves_a_readable_file(tmp_path):
    """Each file call takes 20 ms longer. At the deadline cprof waits for the current write and begins no other, so the file can be read."""
    before = f"{LIBRARY}:{program('libfaults.so')[0]}"
    code = "step()\nfor i in range(9): mark(b'early')\nflushed(b'early')\nfor i in range(9000): mark(b'late')"
    for ms in range(200, 280, 16):
        result = run(["env", f"LD_PRELOAD={before}", "FAULT_DELAY_US=20000", *python(code)], tmp_path / str(ms), preload=False,
                     before_exec=refuse_close_range, WARMUP=0, ACTIVE=9, DRAIN_DEADLINE_MS=ms, USE_GZIP=0)
        assert result.rc == 0 and len(result.complaints) == 1 and "what is on disk opens as it is" in result.complaints[0], result.err
        assert len(events(load(result.parts[0]), name="early")) == 9


def test_run_without_marks_keeps_at_most_64_mb(tmp_path):
    """The rest is not recorded, and the trace counts it as lost."""
    result = run(python(MORE), tmp_path, RING_KB=1 << 16)
    assert result.rc == 0 and len(result.complaints) == 1
    trace = load(result.traces[0])
    kept, lost = len(events(trace, ph="i")), trace["cprof"]["lost"]
    assert 8000 < kept < 20000 and kept + lost["total"] == 40000
    assert lost["before_first_step_full"] == lost["total"]
    assert len(trace["cprof"]["notes"]) == 1 and "before the first step mark" in trace["cprof"]["notes"][0]


def test_events_dropped_at_the_first_mark_are_not_lost(tmp_path):
    result = run(python(MUCH + "steps(4)"), tmp_path, SKIP_FIRST=1, WARMUP=0, ACTIVE=2, RING_KB=256)
    trace = load(result.traces[0])
    assert step_numbers(trace) == [1, 2] and len(events(trace, name="work")) == 2
    assert trace["cprof"]["lost"]["total"] == 0 and trace["cprof"]["notes"] == []
    assert ", 0 lost: " in result.said[0]


# After each thousand marks it waits until cprof's thread has written and then pauses, so that the ring never fills.
MORE = """
import glob
def written(): return [os.stat(path).st_mtime_ns for path in glob.glob(os.environ["CPROF_FOLDER"] + "/prestep.*.part")]
for i in range(40):
    before = written()
    for k in range(1000): mark(b"4 KB" * 1000)
    now = before
    while now == before or now != written():
        now = written()
        time.sleep(0.03)
"""

MUCH = """
for i in range(20):
    for k in range(1000): mark(b"4 KB" * 1000)
    time.sleep(0.02)
"""


# ---- many windows ------------------------------------------------------------------------------------------

def test_memory_and_files_stay_flat_over_1000_windows(tmp_path):
    copy = tmp_path.with_suffix(".json")
    result = run(program("many_windows", 1000, 1000, 10, copy), tmp_path, WARMUP=0, ACTIVE=1, REPEAT=0, RING_KB=64)
    assert result.rc == 0 and result.complaints == []
    (kb, fds, threads), (kb_end, fds_end, threads_end) = (
        map(int, re.findall(r": (\d+) KB (\d+) fds (\d+) threads", line)[0]) for line in result.out.splitlines())
    assert (fds_end, threads_end) == (fds, threads)
    assert kb_end - kb < 4096, "900 windows must not grow the memory"
    assert len(result.traces) == 1000
    for at in (0, 499, 999):
        trace = load(result.traces[at])
        assert step_numbers(trace) == [at] and len(events(trace, name="work")) == 10
    assert result.parts == []


def test_too_fast_steps_stop_the_recording_with_one_line(tmp_path):
    """Steps without work. The events before the stop are a finished trace, and the program never waits."""
    result = run(program("many_windows", 200000, 0, 0), tmp_path, WARMUP=0, ACTIVE=1000000)
    assert result.rc == 0 and result.names and result.parts == []
    trace = load(result.traces[0])
    numbers = step_numbers(trace)
    assert numbers == list(range(len(numbers))) and trace["cprof"]["complete"] and trace["cprof"]["partial"]
    if len(numbers) < 200000:
        assert len(result.complaints) == 1 and "recording is off" in result.complaints[0]


# ---- fork, vfork, exec -------------------------------------------------------------------------------------

def not_traced(result):
    """The lines of forked children whose calls would record."""
    return [line for line in result.complaints if re.fullmatch(r"process \d+ was forked from a traced one: its steps are not "
                                                               r"traced \(start ranks with torchrun or spawn\)", line)]


@pytest.mark.parametrize("leave", ["os._exit(0)", "sys.exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_forked_children_are_inert(tmp_path, leave):
    code = f"""
steps(3)
for i in range(3):
    child = os.fork()
    if child == 0:
        steps(20)
        mark(b"child")
        threading.Thread(target=lambda: mark(b"thread of the child")).start()
        time.sleep(0.05)
        print("threads", len(os.listdir("/proc/self/task")), flush=True)
        {leave}
    os.waitpid(child, 0)
    steps(1)
"""
    result = run(python(code), tmp_path, **ACTIVE_FROM_1)
    assert result.rc == 0 and not_traced(result) == result.complaints and len(result.complaints) == 3 and len(result.said) == 4
    assert result.out == "threads 1\n" * 3
    assert [path.name for path in files(tmp_path)] == ["rank0.6.pt.trace.json"]
    trace = load(result.traces[0])
    assert step_numbers(trace) == [1, 2, 3, 4, 5]
    assert len(events(trace, name="work")) == 6 and events(trace, name=re.compile(".*child")) == []


@pytest.mark.parametrize("calls,told", [("_c.cprof_step()", 1), ("_c.cprof_step_samples(1, 1)", 1), ("_c.cprof_start()", 1),
                                        ("_c.cprof_epoch()", 1), ("_c.cprof_set_schedule(None, None)", 1),
                                        ("_c.cprof_start(); steps(3); _c.cprof_stop(); os.fork() or steps(2)", 2),
                                        ("mark(b'child'); _c.cprof_action(); _c.cprof_stop()", 0)])
def test_forked_child_reports_once_that_it_is_not_traced(tmp_path, calls, told):
    """Each forked process reports for itself. A child that only makes marks, as a DataLoader's worker does, reports nothing."""
    code = f"steps(6)\nif os.fork() == 0:\n    {calls}\n    sys.exit(0)\nos.wait()"
    result = run(python(code), tmp_path)
    assert result.rc == 0 and not_traced(result) == result.complaints and len(set(result.complaints)) == len(result.complaints) == told


def test_forked_daemon_leaves_no_trace(tmp_path):
    """A program that turns itself into a daemon: the parent leaves, and the forked child goes on."""
    code = """
steps(2)
if os.fork():
    os._exit(0)
os.setsid(); time.sleep(0.3); steps(5); open(sys.argv[1], "w").write("done")
"""
    done = tmp_path / "done"
    result = run(python(code, done), tmp_path / "traces", **ACTIVE_FROM_1)
    wait_until(done.exists, "the daemon")
    assert result.rc == 0 and result.names == ["rank0.2.pt.trace.json"]
    assert len(files(tmp_path / "traces")) == 1


def test_vfork_children_do_not_finish_the_trace(tmp_path):
    result = run(program("vfork_exit"), tmp_path, **ACTIVE_FROM_1)
    assert (result.rc, result.out) == (0, "sum 12\n")
    trace = load(result.traces[0])
    assert step_numbers(trace) == [1, 2, 3, 4, 5] and len(events(trace, name="work")) == 6
    assert files(tmp_path) == result.traces


def test_failing_subprocess_does_not_finish_the_trace(tmp_path):
    """Python's subprocess uses vfork. A child that cannot exec calls _exit in the parent's memory."""
    code = """
for i in range(5):
    try:
        subprocess.run(["/nowhere/to/be/found"])
    except FileNotFoundError:
        print("not found")
    subprocess.run(["/bin/true"], check=True)
    steps(1)
"""
    result = run(python(code), tmp_path, **ACTIVE_FROM_1)
    assert (result.rc, result.out) == (0, "not found\n" * 5)
    assert step_numbers(load(result.traces[0])) == [1, 2, 3, 4]
    assert files(tmp_path) == result.traces


def test_child_programs_are_traced_as_their_own_ranks(tmp_path):
    """Child programs load the library, too. Without step marks they leave no trace; with marks each is its own rank."""
    code = """
child = sys.argv[1]
steps(2)
subprocess.run([sys.executable, "-c", child, "0"], check=True)
subprocess.run([sys.executable, "-c", child, "3"], check=True, env=dict(os.environ, RANK="1", WORLD_SIZE="2"))
subprocess.run(["/bin/sh", "-c", "true | cat; ls / | wc -l >/dev/null"], check=True)
steps(2)
"""
    child = """
import ctypes, sys
c = ctypes.CDLL(None)
c.cprof_range_push(b"of the child"); c.cprof_mark(b"x"); c.cprof_range_pop()
for i in range(int(sys.argv[1])):
    c.cprof_mark(b"x"); c.cprof_step()
"""
    result = run(python(code, child), tmp_path, **ACTIVE_FROM_1)
    assert result.rc == 0 and result.complaints == []
    assert result.names == ["rank0.4.pt.trace.json", "rank1.3.pt.trace.json"] and len(files(tmp_path)) == 2
    parent, rank1 = map(load, result.traces)
    assert step_numbers(parent) == [1, 2, 3] and events(parent, name="of the child") == []
    assert step_numbers(rank1) == [1, 2] and rank1["distributedInfo"]["rank"] == 1


def test_parent_named_cprof_does_not_count_as_traced(tmp_path):
    """pip may start the program through an executable called cprof. That is no traced process, so its child records without step marks, too."""
    named = tmp_path / "cprof"
    named.write_bytes(pathlib.Path("/bin/sh").resolve().read_bytes())
    named.chmod(0o755)
    result = run([named, "-c", '"$@"; exit $?', "sh", *python("mark(b'x'); push(b'work'); pop()")], tmp_path / "traces")
    assert result.rc == 0 and len(result.traces) == 1 and len(events(load(result.traces[0]), ph="X", name="work")) == 1, result.err


def test_trace_children_gives_children_their_own_traces(tmp_path):
    code = "steps(2); subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"
    child = "import ctypes, os; ctypes.CDLL(None).cprof_mark(b'of the child'); print(os.getpid())"
    for name, plain, with_pid in ((None, "rank0.2.pt.trace.json", "rank0.0-pid{}.pt.trace.json"),
                                  ("trace.json.gz", "trace.json.gz", "trace-pid{}.json.gz")):
        folder = tmp_path / str(name)
        result = run(python(code, child), folder, TRACE_CHILDREN=1, FILENAME=name, **ACTIVE_FROM_1)
        assert result.rc == 0 and sorted(result.names) == sorted([plain, with_pid.format(int(result.out))])
        of_child = load(folder / with_pid.format(int(result.out)))
        assert len(events(of_child, name="of the child")) == 1


def test_child_sees_a_traced_parent_before_its_thread_runs(tmp_path):
    """A child recognises a traced parent by the name of cprof's thread. On a busy machine that thread may not run yet, so its creator gives
    it the name. The creating thread keeps its own name."""
    code = "name = open('/proc/self/comm').read(); steps(2); assert open('/proc/self/comm').read() == name; subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"
    child = "import ctypes; ctypes.CDLL(None).cprof_mark(b'of the child')"
    result = run(["env", f"LD_PRELOAD={LIBRARY}:{PROGRAMS / 'libslowstart.so'}", *python(code, child)], tmp_path, preload=False,
                 **ACTIVE_FROM_1)
    assert result.rc == 0 and result.names == ["rank0.2.pt.trace.json"], result.err


def test_parent_without_steps_is_traced_beside_its_children(tmp_path):
    """Without CPROF_TRACE_CHILDREN the parent counts as the launcher of its children."""
    code = "mark(b'of the parent'); subprocess.run([sys.executable, '-c', sys.argv[1]], check=True)"
    child = "import ctypes; ctypes.CDLL(None).cprof_mark(b'of the child')"
    result = run(python(code, child), tmp_path, TRACE_CHILDREN=1)
    assert result.rc == 0 and len(result.traces) == 2, result.err
    [of_parent] = [path for path in result.traces if "-pid" not in path.name]
    assert len(events(load(of_parent), name="of the parent")) == 1


def test_programs_without_steps_each_leave_a_trace(tmp_path):
    """Programs that follow each other within a second or run at the same time do not count as each other's launcher."""
    for i in range(3):
        result = run(python("mark(b'x')"), tmp_path, FOLDER=f"{tmp_path}/{{run_name}}")
        assert result.rc == 0 and len(result.traces) == i + 1, result.err
    beside = tmp_path / "beside"
    with Running(python("mark(b'long'); print('ready', flush=True); sys.stdin.readline()"), beside) as running:
        running.wait_for("ready")
        assert len(run(python("mark(b'short')"), beside).traces) == 1
        running.say()
        result = running.end()
    assert result.rc == 0 and len(result.traces) == 2, result.err


def test_consecutive_traced_children_each_leave_a_trace(tmp_path):
    """Neither the first child's trace nor the parent's counts as a trace of an earlier run."""
    code = """
steps(5); time.sleep(1.1)
for i in range(2):
    subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
    time.sleep(1.1)
"""
    child = "import ctypes; ctypes.CDLL(None).cprof_mark(b'of the child')"
    result = run(python(code, child), tmp_path, TRACE_CHILDREN=1, WARMUP=0, ACTIVE=2)
    assert result.rc == 0 and result.complaints == [], result.err
    assert [len(events(load(path), name="of the child")) for path in result.traces if "-pid" in path.name] == [1, 1]
    assert len(result.traces) == 3


# ---- what belongs to the program ---------------------------------------------------------------------------

def test_writes_to_no_descriptor_after_all_were_closed(tmp_path):
    """Daemons close every descriptor and open their own files. A descriptor that cprof kept would then write into such a file."""
    code = """
steps(2); flushed(b"ProfilerStep#1")
for i in range(30):
    os.closerange(3, 256)
    fd = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR | os.O_TRUNC)
    os.write(fd, b"checkpoint")
    steps(1); time.sleep(0.02)
    assert os.pread(fd, 1 << 20, 0) == b"checkpoint", "cprof wrote into the program's file"
print(open(sys.argv[1]).read())
"""
    result = run(python(code, tmp_path / "own"), tmp_path / "traces", **ACTIVE_FROM_1)
    assert (result.rc, result.out) == (0, "checkpoint\n"), result.err
    assert step_numbers(load(result.traces[0])) == list(range(1, 32))


def test_no_file_is_kept_open(tmp_path):
    with Running(python("steps(3); print('ready', flush=True); sys.stdin.readline()"), tmp_path,
                 **ACTIVE_FROM_1) as running:
        running.wait_for("ready")
        running.wait_flushed("ProfilerStep#1")
        with running.stopped():
            links = [os.readlink(entry) for entry in fd_entries(running.process.pid)]
    assert not [link for link in links if ".part" in link or str(tmp_path) in link]
    assert len(links) == 3, links


def fd_entries(pid):
    return [entry.path for entry in os.scandir(f"/proc/{pid}/fd")]


def test_cprofs_threads_take_no_signals(tmp_path):
    """Signal masks of the program's threads and children are as without cprof."""
    code = """
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})  # what OpenMP does with OMP_PROC_BIND, before cprof's thread starts
steps(2)
print("child", subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout)
got = []
signal.signal(signal.SIGTERM, lambda *args: got.append("SIGTERM"))
print("ready", flush=True); sys.stdin.readline()
print("got", got, flush=True)
steps(1)
"""
    with Running(python(code), tmp_path, **ACTIVE_FROM_1) as running:
        running.wait_for("ready")
        pid = running.process.pid
        masks = {}
        for thread in os.listdir(f"/proc/{pid}/task"):
            status = status_of(pid, thread)
            masks[status["Name"]] = int(status["SigBlk"], 16)
            if status["Name"] in ("cprof", "cprof-files"):
                assert status["Cpus_allowed_list"] == status_of("self")["Cpus_allowed_list"], "cprof's thread is pinned with the program's"
        running.process.send_signal(signal.SIGTERM)
        time.sleep(0.1)
        running.say()
        result = running.end()
    assert result.rc == 0 and "got ['SIGTERM']" in result.out
    unblockable = {signal.SIGKILL, signal.SIGSTOP, 32, 33}  # the last two are the C library's own
    for ours in [masks.pop("cprof"), *([masks.pop("cprof-files")] if "cprof-files" in masks else [])]:
        assert all(ours >> number - 1 & 1 for number in range(1, 65) if number not in unblockable)
    assert masks and all(mask == 0 for mask in masks.values())
    assert re.search(r"^SigBlk:\s*0+$", result.out, re.M), "a child inherited blocked signals"
    assert re.search(r"^SigIgn:\s*[0-9a-f]+$", result.out, re.M)


def test_wait_finds_only_the_programs_children(tmp_path):
    code = """
steps(3)
child = os.fork()
if child == 0: os._exit(7)
pid, status = os.waitpid(-1, 0)
print(pid == child, os.waitstatus_to_exitcode(status))
try: os.waitpid(-1, os.WNOHANG)
except ChildProcessError: print("no more")
"""
    result = run(python(code), tmp_path, **ACTIVE_FROM_1)
    assert (result.rc, result.out) == (0, "True 7\nno more\n")


def test_children_inherit_only_cprofs_added_variables(tmp_path):
    """cprof adds its own variables where the user has set none, and changes none of the user's."""
    code = "steps(2); subprocess.run(['env'])"
    own = dict(CUDA_INJECTION64_PATH="/the/users/own.so", RANK="0")
    seen = [dict(line.split("=", 1) for line in run(python(code), tmp_path, env=own, preload=preload,
                                                    **ACTIVE_FROM_1).out.splitlines() if "=" in line)
            for preload in (False, True)]
    added = {"LD_PRELOAD", "NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64", "CPROF_START_TIME"}
    assert set(seen[1]) - set(seen[0]) == added
    assert {name: seen[1].get(name) for name in seen[0]} == seen[0]


def test_only_traces_end_in_json_or_gz(tmp_path):
    """Readers load every .json and .gz of a folder. Other files must end differently, also while recording and after a kill."""
    seen = set()
    code = "print('ready', flush=True); steps(400, 0.002); sys.stdin.readline()"
    with Running(python(code), tmp_path, WARMUP=0, ACTIVE=40, REPEAT=0) as running:
        running.wait_for("ready")
        for _ in range(60):
            seen |= {path for path in files(tmp_path)}
            time.sleep(0.015)
        running.end(signal.SIGKILL)
    seen |= set(files(tmp_path))
    for path in sorted(seen, key=natural):
        if path.name.endswith((".json", ".gz")):
            load(path)
        else:
            assert path.name.endswith(".part")
    assert any(path.name.endswith(".json") for path in seen)


def test_link_under_the_open_files_name_is_not_followed(tmp_path):
    target = tmp_path / "precious"
    target.write_text("precious")
    code = """
os.symlink(sys.argv[1], f"{sys.argv[2]}/rank0.1.pt.trace.json.{os.getpid()}.1.part")
steps(4); time.sleep(0.6); print("done")
"""
    folder = tmp_path / "traces"
    folder.mkdir()
    result = run(python(code, target, folder), folder, **ACTIVE_FROM_1)
    assert (result.rc, result.out) == (0, "done\n") and target.read_text() == "precious"
    assert len(result.said) == 1 and "symbolic link" in result.said[0]


def test_keeps_the_open_file_of_a_killed_run(tmp_path):
    """A restarted container has the same pid again, and so the same name for the open file."""
    code = """
os.makedirs(sys.argv[1])
for n in ("1", "1-2"):
    open(f"{sys.argv[1]}/rank0.{n}.pt.trace.json.{os.getpid()}.1.part", "w").write("of a killed run")
steps(3); flushed(b"ProfilerStep#2")
"""
    result = run(python(code, tmp_path / "traces"), tmp_path / "traces", **ACTIVE_FROM_1)
    assert result.complaints == [] and result.names == ["rank0.3.pt.trace.json"]
    assert [path.read_text() for path in result.parts] == ["of a killed run"] * 2
    assert step_numbers(load(result.traces[0])) == [1, 2]


def test_removed_folder_stops_the_recording_with_one_line(tmp_path):
    """The program removes the folder in the middle of a window."""
    code = """
import shutil
steps(3); flushed(b"ProfilerStep#2")
shutil.rmtree(sys.argv[1])
steps(2); time.sleep(0.4); steps(1); print("done")
"""
    result = run(python(code, tmp_path / "traces"), tmp_path / "traces", **ACTIVE_FROM_1)
    assert (result.rc, result.out) == (0, "done\n")
    assert len(result.said) == 1 and "recording is off" in result.said[0]
    assert not (tmp_path / "traces").exists()


@pytest.mark.parametrize("us", [500, 2000, 20000])
def test_exit_by_another_thread_waits_for_the_save(tmp_path, us):
    """A watchdog thread calls _exit() while the main thread saves the traces in exit()."""
    code = f"""
for i in range(200000): push(b"range"); pop()
def watch():
    ctypes.CDLL(None).usleep({us}); os._exit(0)
threading.Thread(target=watch, daemon=True).start()
ctypes.CDLL(None).exit(0)
"""
    result = run(python(code), tmp_path, SCHEDULE_SCOPE="none", RING_KB=65536)
    assert result.rc == 0 and len(result.traces) == 1 and not result.parts, (result.err, result.names)
    one = load(result.traces[0]) if us == 2000 else loads_plainly(result.traces[0])  # the strict reader takes seconds
    assert len(events(one, ph="X")) >= 200000


# ---- other ends than a return from main() ------------------------------------------------------------------------

@pytest.mark.parametrize("how, steps", [("pthread_exit", 6), ("alone", 3), ("cancelled", 6), ("woken", 3)])
def test_program_ends_after_main_thread_left(tmp_path, how, steps):
    """The C library calls exit(0) when the last thread ends. cprof's threads must not keep the program alive."""
    for folder, settings in (("bare", dict(preload=False)), ("traced", dict(WARMUP=0, ACTIVE=100))):
        began = time.monotonic()
        result = run(program("ends", how), tmp_path / folder, timeout=30, **settings)
        assert (result.rc, result.out, result.others) == (0, "handlers of exit() are called\n", "")
        assert time.monotonic() - began < 10
    trace = load(result.traces[0])
    assert len(events(trace, ph="X", name="work")) == steps and result.parts == []
    assert result.complaints == []


def test_sigterm_ends_a_program_without_main_thread(tmp_path):
    with Running(program("ends", "woken"), tmp_path, WARMUP=0, ACTIVE=100) as running:
        time.sleep(0.1)
        result = running.end(signal.SIGTERM)
    assert result.rc == -signal.SIGTERM


def test_quick_exit_leaves_a_trace(tmp_path):
    """quick_exit() runs at_quick_exit() handlers, and no atexit() handlers."""
    result = run(program("ends", "quick_exit"), tmp_path, WARMUP=0, ACTIVE=100)
    assert (result.rc, result.out, result.parts) == (3, "", []) and result.complaints == []
    assert len(events(load(result.traces[0]), ph="X", name="work")) == 3


def test_full_stderr_pipe_does_not_block_the_exit(tmp_path):
    """Writing to a full pipe would block, so cprof drops its own lines and those of the on-ready command."""
    reader, writer = os.pipe()
    settings = environment(tmp_path, WARMUP=0, ACTIVE=100, ON_TRACE_READY="echo uploaded")
    process = subprocess.Popen(program("ends", "full"), env=settings, stdout=subprocess.DEVNULL, stderr=writer)
    os.close(writer)
    try:
        assert process.wait(20) == 0
    finally:
        process.kill()
        said = os.fdopen(reader).read()
    assert set(said) == {"x"} and len(files(tmp_path, ".json")) == 1


DATA = """
fd = os.open(os.path.join({folder!r}, "data"), os.O_RDWR | os.O_CREAT | {flags}, 0o600)
os.write(fd, b"HEADER\\n")
"""


@pytest.mark.parametrize("how, flags, told", [("closed", "0", False), ("closed from the start", "0", False), ("dup2", "os.O_APPEND", True), ("dup2", "0", False)])
def test_writes_no_lines_into_a_file_at_descriptor_2(tmp_path, how, flags, told):
    """The program opened a data file as descriptor 2: neither cprof nor the on-ready command may write to it. A file opened with O_APPEND is a
    log, and gets the lines."""
    opened = DATA.format(folder=str(tmp_path), flags=flags)
    code = f"steps(2); {'os.close(2)' if how == 'closed' else 'pass'}{opened}{'os.dup2(fd, 2)' if how == 'dup2' else 'assert fd == 2'}\nsteps(3)"
    before = (lambda: os.close(2)) if how == "closed from the start" else None
    result = run(python(code), tmp_path / "traces", WARMUP=0, ACTIVE=100, ON_TRACE_READY="echo uploaded", before_exec=before)
    text = (tmp_path / "data").read_text()
    assert result.rc == 0 and len(result.traces) == 1
    assert text.startswith("HEADER\n") and (told or text == "HEADER\n")
    assert all((line in text) == told for line in ("cprof: rank 0: 1 trace", f"cprof: uploaded {result.traces[0]}\n"))
