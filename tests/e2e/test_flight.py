# SPDX-License-Identifier: Apache-2.0
"""CPROF_FLIGHT: the last steps are in one file all the time. It survives any death, is saved when something goes wrong, and goes at a normal end."""

import os
import re
import signal
import subprocess

import pytest

import tool
from conftest import matrix
from support import PRELUDE, Running, events, load, program, python, run, span_ns, step_numbers, wait_until

# The end of a program: it is killed when the file has all before.
KILLED = "\nmark(b'the end'); flushed(b'the end'); os.kill(os.getpid(), 9)"
QUIET = dict(SKIP_FIRST=1000000)  # no window: what is there is the recorder's


def flights(folder):
    return sorted(path.name for path in (folder / "flight").glob("*"))


def told(folder, name):
    """A saved recording, and its reason."""
    trace = load(folder / "flight" / name)
    return trace, trace["cprof"]["flight"]["reason"]


def names(trace, **wanted):
    return {e["name"] for e in events(trace, ph="X", **wanted)}


# ---- the file ----

def test_kill_leaves_the_last_steps(tmp_path):
    """Between windows, too. The file is a trace as it stands, and recover gives it a trace's name."""
    code = "steps(200, 0.005)" + KILLED
    done = run(python(code), tmp_path, FLIGHT=1, SKIP_FIRST=5, WARMUP=0, ACTIVE=2)
    assert (done.rc, flights(tmp_path)) == (-signal.SIGKILL, ["rank0.flight"]), done.err
    trace = load(tmp_path / "flight/rank0.flight")
    assert step_numbers(trace) == list(range(200)) and len(events(trace, ph="X", name="work")) == 200
    assert len(events(trace, ph="i", name="mark")) == 200 and trace["cprof"]["lost"]["total"] == 0
    assert step_numbers(load(done.traces[0])) == [5, 6], "the window has what it has without the recorder"
    assert tool.cprof("recover", tmp_path / "flight/rank0.flight").rc == 0
    assert step_numbers(load(tmp_path / "flight/rank0.pt.trace.json")) == list(range(200))


def test_normal_end_removes_the_file(tmp_path):
    done = run(python("steps(20, 0.03)"), tmp_path, FLIGHT=1, WARMUP=0, ACTIVE=2)
    assert (done.rc, flights(tmp_path), done.complaints) == (0, [], []), done.err


def test_restart_keeps_the_file_of_a_killed_run(tmp_path):
    for n in range(2):
        run(python("steps(50, 0.01); os.kill(os.getpid(), 9)"), tmp_path, FLIGHT=1, **QUIET)
    assert flights(tmp_path) == ["rank0-2.flight", "rank0.flight"]
    done = run(python("steps(8)"), tmp_path, FLIGHT=1, WARMUP=0, ACTIVE=1)
    assert done.names == ["rank0.1.pt.trace.json"] and done.rc == 0, "the recorder's files are no traces of an earlier run"
    assert flights(tmp_path) == ["rank0-2.flight", "rank0-3.flight"] and "left by a run that was killed" in done.err


@pytest.mark.parametrize("value, steps", [("steps:20", (20, 250)), ("mb:1", (500, 2500)), ("seconds:1", (60, 350))])
def test_the_file_keeps_what_was_asked_for(value, steps, tmp_path):
    """What is older goes with the next flush but one."""
    n, pause = (3000, 0.0007) if value == "mb:1" else (300, 0.01)
    done = run(python(f"steps({n}, {pause})" + KILLED), tmp_path, FLIGHT=value, **QUIET)
    trace = load(tmp_path / "flight/rank0.flight")
    kept = step_numbers(trace)
    assert steps[0] <= len(kept) <= steps[1] and kept == list(range(kept[0], kept[-1] + 1)) and trace["cprof"]["flight"]["dropped"] > 0, done.err
    assert os.path.getsize(tmp_path / "flight/rank0.flight") < 1.2e6
    assert [e["args"]["name"] for e in events(trace, ph="M", name="thread_name")].count("steps") >= 1


def test_a_removed_folder_begins_a_new_file(tmp_path):
    """Whatever the recorder does at that moment: the program removes the folder again and again, 3000 times."""
    code = """
import shutil
folder = os.environ["CPROF_FOLDER"] + "/flight"
steps(50, 0.01)
for _ in range(3000):
    shutil.rmtree(folder, ignore_errors=True); steps(1, 0.0005)
made = lambda: os.path.exists(folder + "/rank0.flight")
for _ in range(1000):
    made() or steps(1, 0.01)
steps(100, 0.01); os.kill(os.getpid(), 9)
"""
    done = run(python(code), tmp_path, FLIGHT=1, **QUIET)
    assert step_numbers(load(tmp_path / "flight/rank0.flight"))[-1] > 3060, done.err


def test_full_disk_ends_the_recorder_alone(tmp_path):
    """The folder cannot be made: one line, and the window is whole."""
    (tmp_path / "flight").write_text("")
    done = run(python("steps(40, 0.02)"), tmp_path, FLIGHT=1, WARMUP=0, ACTIVE=2)
    assert done.rc == 0 and step_numbers(load(done.traces[0])) == [0, 1]
    assert len([line for line in done.complaints if "the flight recorder is off" in line]) == 1, done.err


def test_chosen_kinds_only(tmp_path):
    run(python("steps(30, 0.01); flushed(b'ProfilerStep#29'); os.kill(os.getpid(), 9)"), tmp_path, FLIGHT=1, FLIGHT_WHAT="steps", SKIP_FIRST=5, WARMUP=0, ACTIVE=2)
    trace = load(tmp_path / "flight/rank0.flight")
    assert len(step_numbers(trace)) > 10 and not events(trace, name=re.compile("work|mark"))


@pytest.mark.parametrize("value", ["2", "steps", "steps:0", "mb:x"])
def test_bad_values_get_a_line(value, tmp_path):
    done = run(python("steps(3)"), tmp_path, FLIGHT=value, WARMUP=0, ACTIVE=1)
    assert len([line for line in done.complaints if line.startswith(f"CPROF_FLIGHT={value}: must")]) == 1 and len(done.traces) == 1, done.err


def test_is_recording_tells_of_windows_only(tmp_path):
    code = "is_recording = _call('is_recording'); steps(8); print(is_recording()); steps(2); print(is_recording())"
    done = run(python(code), tmp_path, FLIGHT=1, WARMUP=0, SKIP_FIRST=1, ACTIVE=9)
    assert done.out == "1\n0\n", done.err


# ---- saving ----

@pytest.mark.parametrize("end, rc, reason", [
    ("sys.exit(3)", 3, "exit code 3"), ("os._exit(4)", 4, "exit code 4"), ("raise ValueError", 1, "exit code 1"), ("os.abort()", -6, "SIGABRT"),
    ("os.kill(os.getpid(), signal.SIGTERM)", -15, "signal 15")])
def test_an_abnormal_end_saves(end, rc, reason, tmp_path):
    done = run(python(f"steps(30, 0.01); {end}"), tmp_path, FLIGHT=1, **QUIET)
    assert (done.rc, flights(tmp_path)) == (rc, ["rank0.30.pt.trace.json.gz"]), done.err
    trace, why = told(tmp_path, "rank0.30.pt.trace.json.gz")
    assert why == reason and step_numbers(trace) == list(range(30)) and f"flight recorder saved ({reason})" in done.err


def test_slow_steps_are_saved_four_times_an_hour(tmp_path):
    """The slow step and those before it. Six slow steps make four files; the limit gets one line."""
    code = "steps(30, 0.01)\nfor i in range(6): steps(1, 0.3); time.sleep(0.3); steps(3, 0.01)"
    done = run(python(code), tmp_path, FLIGHT=1, **QUIET)
    found = flights(tmp_path)
    assert done.rc == 0 and len(found) == 4, (found, done.err)
    trace, why = told(tmp_path, found[0])
    assert re.fullmatch(r"step 30 took 0\.\d\d s, [\d.]+ times the median", why), why
    slow = next(e for e in events(trace, ph="X", name="ProfilerStep#30"))
    assert span_ns(slow)[1] - span_ns(slow)[0] > 250e6 and step_numbers(trace)[0] == 0
    assert len([line for line in done.complaints if "not saved" in line]) == 1, done.err


@pytest.mark.parametrize("waits, saved", [("time.sleep(4)", True), ("t = time.time()\nwhile time.time() - t < 4: pass", False)], ids=["stands", "works"])
def test_a_hang_is_saved_and_work_is_not(waits, saved, tmp_path):
    done = run(python(f"steps(30, 0.01)\n{waits}\nsteps(1)"), tmp_path, FLIGHT=1, FLIGHT_HANG_S=2, FLIGHT_SLOW=0, **QUIET)
    found = flights(tmp_path)
    assert len(found) == saved and ("no step for" in done.err) == (not saved), done.err
    if saved:
        assert re.fullmatch(r"nothing runs and step 30 has not ended for [\d.]+ s", told(tmp_path, found[0])[1])


WORKING = {
    "a child": "import subprocess; subprocess.run([sys.executable, '-c', 'import time; t = time.time()\\nwhile time.time() - t < 4: pass'])",
    "children that end": "import subprocess\nt = time.time()\nwhile time.time() - t < 4: subprocess.run(['sh', '-c', 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'])",
    "children that nobody waits for": "import signal, subprocess\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)\nt = time.time()\n"
                                      "while time.time() - t < 4: subprocess.Popen(['sleep', '0.9']).wait()",
    "a file": "f = open(os.environ['CPROF_FOLDER'] + '/data', 'wb')\nfor _ in range(40): f.write(b'x' * 200000); f.flush(); time.sleep(0.1)",
}


@pytest.mark.parametrize("what", matrix(WORKING, "children that nobody waits for", "a file"))
def test_work_of_children_and_on_files_is_no_hang(what, tmp_path):
    """The main thread uses next to no CPU time."""
    done = run(python(f"steps(30, 0.01)\n{WORKING[what]}\nsteps(1)"), tmp_path, FLIGHT=1, FLIGHT_HANG_S=2, FLIGHT_SLOW=0, **QUIET)
    assert flights(tmp_path) == [] and done.err.count("still working") == 1, done.err


def test_a_hang_after_long_work_is_saved(tmp_path):
    code = "steps(30, 0.01)\nt = time.time()\nwhile time.time() - t < 3: pass\ntime.sleep(4)\nsteps(1)"
    done = run(python(code), tmp_path, FLIGHT=1, FLIGHT_HANG_S=2, FLIGHT_SLOW=0, **QUIET)
    assert len(flights(tmp_path)) == 1 and done.err.count("still working") == 1, done.err


def test_threads_that_end_are_no_work(tmp_path):
    """They take the count of what they have read with them."""
    code = ("import threading\ndef read(n):\n    open('/dev/zero', 'rb').read(4 << 20)\n    time.sleep(0.3 * n)\n"
            "for n in range(20): threading.Thread(target=read, args=(n,), daemon=True).start()\nsteps(30, 0.01)\ntime.sleep(5)\nsteps(1)")
    run(python(code), tmp_path, FLIGHT=1, FLIGHT_HANG_S=2, FLIGHT_SLOW=0, **QUIET)
    assert [told(tmp_path, name)[1].partition(" and")[0] for name in flights(tmp_path)] == ["nothing runs"]


def test_slow_steps_do_not_use_up_what_a_hang_needs(tmp_path):
    code = "for _ in range(6): steps(20, 0.005); time.sleep(0.4)\nsteps(20, 0.005); time.sleep(6); steps(1)"
    done = run(python(code), tmp_path, FLIGHT=1, FLIGHT_HANG_S=2, **QUIET)
    reasons = [told(tmp_path, name)[1] for name in flights(tmp_path)]
    assert sum("times the median" in why for why in reasons) == 4 and sum("nothing runs" in why for why in reasons) == 1, done.err


def test_a_transfer_that_hangs_before_the_first_step_is_saved(tmp_path):
    """A program without a step that does nothing is none that hangs."""
    run(python("push(b'gloo:all_reduce'); time.sleep(5); pop()"), tmp_path / "transfer", FLIGHT=1, FLIGHT_HANG_S=2)
    run(python("push(b'work'); time.sleep(4); pop()"), tmp_path / "work", FLIGHT=1, FLIGHT_HANG_S=2)
    assert [told(tmp_path / "transfer", name)[1] for name in flights(tmp_path / "transfer")] == ["gloo:all_reduce has not ended for 2 s, in step 0"]
    assert flights(tmp_path / "work") == []


def test_the_file_of_a_living_recorder_is_left_alone(tmp_path):
    """`cprof recover` refuses it, and `cprof run` does not take the process that its program left behind for a killed one."""
    child = PRELUDE + "steps(400, 0.01)"
    code = f"import subprocess\nsubprocess.Popen([sys.executable, '-c', {child!r}], env=dict(os.environ, RANK='1', WORLD_SIZE='2'), " \
           "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\nwhile not os.path.exists(os.environ['CPROF_FOLDER'] + '/flight/rank1.flight'): steps(1, 0.05)\ntime.sleep(0.5)"
    said = tool.cprof("run", "--folder", tmp_path / "t", "--flight", "1", "--skip-first", "100000", "--", *python(code))
    assert said.rc == 0 and "still being written: " in said.err and "cut off" not in said.err, said
    refused = tool.cprof("recover", "--delete", tmp_path / "t/flight/rank1.flight")
    assert refused.rc == 2 and "is still writing it" in refused.err and flights(tmp_path / "t") == ["rank1.flight"], refused
    wait_until(lambda: flights(tmp_path / "t") == [], "the end of the process")


def test_run_names_a_flight_file_that_cannot_become_a_trace(tmp_path):
    command = ["run", "--run-name", "r", "--flight", "1", "--skip-first", "100000", "--"]
    code = "steps(30, 0.02); os.truncate('r/torch_traces/flight/rank0.flight', 300); os.kill(os.getpid(), 9)"
    said = tool.cprof(*command, *python(code), cwd=tmp_path)
    assert said.rc == 137 and "cut off, and the flight recorder's file has its last steps: r/torch_traces/flight/rank0.flight (" in said.err, said
    # the next run names the schedule, not the earlier run, as the reason why there is no trace
    said = tool.cprof(*command, *python("steps(5)"), cwd=tmp_path)
    assert said.rc == 0 and "the schedule records none of the program's 5 steps" in said.err, said


def test_no_hang_is_looked_for_without_a_time(tmp_path):
    done = run(python("steps(30, 0.01); time.sleep(2.5); steps(1)"), tmp_path, FLIGHT=1, FLIGHT_HANG_S=0, FLIGHT_SLOW=0, **QUIET)
    assert flights(tmp_path) == [] and "step" not in "".join(line for line in done.complaints if "nothing was recorded" not in line), done.err


def threads_told(tmp_path, code):
    """What is told of the threads of a program that hangs."""
    done = run(python(code), tmp_path, FLIGHT=1, FLIGHT_HANG_S=1, **QUIET)
    assert len(flights(tmp_path)) == 1, done.err
    return done, told(tmp_path, flights(tmp_path)[0])[0]["cprof"]["flight"]["threads"]


def test_a_hang_has_the_main_threads_frames_among_many(tmp_path):
    """1,200 threads, of which 100 are deep, and a name like that of cprof's threads. The first is the main thread, whole and right."""
    code = """
import threading, ctypes
ctypes.CDLL(None).prctl(15, b"cprof-bench")
steps(15, 0.02)
wait = threading.Event()
def deep(n): deep(n - 1) if n else wait.wait()
threading.stack_size(1 << 20)
for n in range(1200): threading.Thread(target=deep, args=(70 if n % 12 == 0 else 0,), daemon=True).start()
def here():
    time.sleep(4)
here()
"""
    done, threads = threads_told(tmp_path, code)
    [main] = [thread for thread in threads if thread["name"] == "cprof-bench" and any("here" in frame for frame in thread.get("python", ()))]
    assert done.rc == 0 and [frame.split(": ")[1] for frame in main["python"]] == ["here", "<module>"], main
    assert main["call"] == "clock_nanosleep" and 200 < len(threads) <= 257


def test_frames_are_there_when_the_first_step_came_from_a_thread_that_ended(tmp_path):
    code = """
import threading
thread = threading.Thread(target=lambda: steps(15, 0.02)); thread.start(); thread.join()
def here(): time.sleep(4)
here()
"""
    _, threads = threads_told(tmp_path, code)
    assert threads[0]["python"][0].endswith(": here"), threads


def test_older_saved_files_go(tmp_path):
    """Those of this folder, not those of one that a pattern of the same letters matches."""
    other = tmp_path / "run1/flight/rank0.1.pt.trace.json.gz"
    other.parent.mkdir(parents=True)
    other.touch()
    for _ in range(7):
        run(python("steps(12, 0.03); sys.exit(1)"), tmp_path / "run[1]", FLIGHT=1, **QUIET)
    assert len(flights(tmp_path / "run[1]")) == 5 and other.exists()


def test_trigger_saves_the_last_steps(tmp_path):
    with Running(program("steady", tmp_path / "n", 1000), tmp_path, FLIGHT=1, TRIGGER="socket", FLIGHT_SLOW=0, **QUIET) as p:
        wait_until(lambda: (tmp_path / "flight/rank0.flight").exists(), "the recorder's file")
        said = tool.cprof("trigger", p.process.pid, "--last")
        assert said.rc == 0 and said.out.strip().startswith(str(tmp_path / "flight/rank0.")), said
        trace = load(said.out.strip())
        assert trace["cprof"]["flight"]["reason"] == "asked for" and len(step_numbers(trace)) > 3
    assert tool.cprof("trigger", os.getpid(), "--last").rc == 2


def test_trigger_without_a_recorder_says_so(tmp_path):
    with Running(program("steady", tmp_path / "n", 1000), tmp_path, TRIGGER="socket", **QUIET) as p:
        wait_until((tmp_path / "n").exists, "the program")
        said = tool.cprof("trigger", p.process.pid, "--last", "--timeout", 20)
        assert said.rc == 2 and "no flight recorder" in said.err, said


def test_run_makes_a_trace_of_the_last_steps_of_a_killed_program(tmp_path):
    command = ["run", "--folder", tmp_path / "t", "--flight", "1", "--skip-first", "100000", "--",
               *python("steps(30, 0.02)" + KILLED)]
    for n in range(2):  # the second time the first one's file is there, under another name
        said = tool.cprof(*command)
        told = [line for line in said.err.splitlines() if "its last steps are there as a trace" in line]
        assert said.rc == 137 and len(told) == 1 and f"/rank0{f'-{n + 1}' * n}.pt.trace.json (" in told[0] and "more" not in told[0], said
    for name in ("rank0", "rank0-2"):
        numbers = step_numbers(load(tmp_path / f"t/flight/{name}.pt.trace.json"))
        assert len(numbers) > 10 and numbers == list(range(len(numbers)))


# ---- with PyTorch ----

TRAINING = """
import torch
m = torch.nn.Linear(64, 64); o = torch.optim.SGD(m.parameters(), .1)
for i in range(40):
    with torch.profiler.record_function("mine"):
        m(torch.ones(64, 64)).pow(2).mean().backward(); o.step(); o.zero_grad()
    time.sleep(0.01)
"""


def test_training_keeps_ranges_and_memory_without_operators(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed in .venv")
    done = run(python(TRAINING + KILLED), tmp_path, FLIGHT=1, SKIP_FIRST=10, WARMUP=0, ACTIVE=2)
    trace = load(tmp_path / "flight/rank0.flight")
    assert len(step_numbers(trace)) == 40 and len(events(trace, ph="X", name="mine")) == 40, done.err
    memory = events(trace, name="[memory]")
    assert memory and all(abs(e["args"]["Bytes"]) >= 4096 for e in memory) and not events(trace, cat="cpu_op")
    with_operators = run(python(TRAINING + "torch.eye(2); flushed(b'aten::eye'); os.kill(os.getpid(), 9)"), tmp_path / "o", FLIGHT=1,
                         FLIGHT_WHAT="steps,operators", **QUIET)
    assert with_operators.rc == -9
    found = load(tmp_path / "o/flight/rank0.flight")
    assert len([e for e in events(found, ph="X", name="aten::addmm")]) == 40 and not events(found, name="[memory]")


def test_a_failed_allocation_is_saved(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed in .venv")
    code = TRAINING + "\ntry: torch.empty(1 << 44)\nexcept RuntimeError: print('failed')\ntime.sleep(0.6)"
    done = run(python(code), tmp_path, FLIGHT=1, FLIGHT_SLOW=0, **QUIET)
    assert done.out == "failed\n" and [told(tmp_path, name)[1] for name in flights(tmp_path)] == ["an allocation failed in step 40"], done.err


HANGING = """
import os, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
m = torch.nn.Linear(8, 8); o = torch.optim.SGD(m.parameters(), .1)
for i in range(20):
    if i == 15 and dist.get_rank() == 1: time.sleep(5)
    m(torch.ones(4, 8)).sum().backward(); dist.all_reduce(m.weight.grad); o.step(); o.zero_grad()
dist.barrier()
"""


def test_the_rank_that_waits_names_its_transfer(tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed in .venv")
    (tmp_path / "hanging.py").write_text(HANGING)
    command = [*python("")[:1], "-m", "torch.distributed.run", "--local-addr", "127.0.0.1", "--nproc-per-node", "2", tmp_path / "hanging.py"]
    done = run(command, tmp_path / "t", env={"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}, FLIGHT=1, FLIGHT_HANG_S=2, FLIGHT_SLOW=0, **QUIET)
    reasons = {name.split(".")[0]: told(tmp_path / "t", name)[1] for name in flights(tmp_path / "t")}
    assert done.rc == 0 and reasons.keys() == {"rank0", "rank1"}, done.err
    assert reasons["rank0"] == "gloo:all_reduce has not ended for 2 s, in step 15" and reasons["rank1"].startswith("nothing runs and step 15")
