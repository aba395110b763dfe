# SPDX-License-Identifier: Apache-2.0
"""Ways to end a process: each leaves a finished trace, or an open file that can be read, with steps and without."""

import signal
import sys

import pytest
import tool
from conftest import ROOT
from support import LIBRARY, Running, events, files, load, program, python, run

CLEAN = {**dict.fromkeys(["return", "exit", "_exit", "quick_exit"], 7),
         **dict.fromkeys(["kill", "kill_group", "raise", "killpg", "tgkill", "pthread_kill", "sigqueue", "other_thread"], -signal.SIGTERM),
         "abort": -signal.SIGABRT}
KILLED = {"alarm": -signal.SIGALRM, "pipe": -signal.SIGPIPE, "segv": -signal.SIGSEGV, "raw_tgkill": -signal.SIGTERM, "exit_group": 7,
          "outside": -signal.SIGTERM, "outside SIGKILL": -signal.SIGKILL}


@pytest.mark.parametrize("steps", [False, True], ids=["without", "steps"])
@pytest.mark.parametrize("how", [*CLEAN, *KILLED])
def test_every_end_leaves_all_events(tmp_path, how, steps):
    """The ends in CLEAN pass a wrapper or an exit handler of cprof's and leave a finished trace. The others leave all events in the open file."""
    death, _, number = how.partition(" ")
    with Running(program("deaths", death, *["steps"] * steps), tmp_path, WARMUP=0 if steps else 1, ACTIVE=1000) as running:
        running.wait_for("ready")
        if how in KILLED:
            running.wait_flushed('"name": "last"', without=['"finished": "false"'])
        running.say()
        result = running.end(getattr(signal, number or "SIGTERM") if death == "outside" else None)
    assert result.rc == {**CLEAN, **KILLED}[how] and result.others == ""
    [path] = files(tmp_path)
    trace = load(path)
    assert len(events(trace, ph="X", name="work")) == 20 and len(events(trace, ph="X", name="last")) == 1
    assert trace["cprof"]["complete"] == (how in CLEAN) and trace["cprof"]["marked"] == steps
    if how in CLEAN:
        assert path.name == ("rank0.20.pt.trace.json" if steps else "rank0.0.pt.trace.json")
        assert [line for line in result.complaints if not line.startswith("no step was marked: the trace holds the whole run")] == []
    elif not steps:
        assert path.name == f"prestep.{running.process.pid}.part" and result.said == []


@pytest.mark.parametrize("steps", [False, True], ids=["without", "steps"])
def test_recording_continues_after_a_harmless_signal(tmp_path, steps):
    """The signals are blocked, handled or harmless."""
    with Running(program("deaths", "handled", *["steps"] * steps), tmp_path, WARMUP=0 if steps else 1, ACTIVE=1000) as running:
        running.wait_for("ready")
        running.say()
        result = running.end()
    assert result.rc == 7 and "did not end it" not in result.err
    assert len(events(load(result.traces[0]), ph="X", name="afterwards")) == 1


@pytest.mark.parametrize("gzip", [0, 1])
def test_recovers_events_before_the_first_step(tmp_path, gzip):
    """The file is called prestep.PID.part: check reads it, and recover gives it the name of a trace."""
    with Running(program("deaths", "outside"), tmp_path, USE_GZIP=gzip, env={"RANK": "3", "WORLD_SIZE": "4"}) as running:
        running.wait_for("ready")
        running.wait_flushed('"name": "last"', without=['"finished": "false"'])
        running.end(signal.SIGKILL)
    [part] = files(tmp_path)
    assert part.name == f"prestep.{running.process.pid}.part"
    assert "what a killed process left" in tool.cprof("check", part).out
    done = tool.cprof("recover", tmp_path)
    assert done.rc == 0, done.err
    [trace] = files(tmp_path, ".json", ".json.gz")
    assert trace.name == "rank3.0.pt.trace.json" + ".gz" * gzip and part.exists()
    assert len(events(load(trace), ph="X", name="work")) == 20
    assert tool.cprof("check", trace).rc == 0


def test_run_names_the_open_file_before_the_first_step(tmp_path):
    """The program is killed before it marks a step."""
    code = "push(b'work'); pop()\nflushed(b'work')\nos.kill(os.getpid(), 9)"
    done = tool.cprof("run", "--library", LIBRARY, "--folder", tmp_path, "--", *python(code), env={"CPROF_FOLDER": str(tmp_path)})
    assert done.rc == 128 + 9 and "prestep." in done.err and "cprof recover" in done.err, done.err


def test_events_before_the_first_step_take_little_memory(tmp_path):
    """80 MB of records: the file stays below 64 MB and the process grows by less than 8 MB. The first step removes the file."""
    code = """
def anonymous():
    return int(next(line for line in open("/proc/self/status") if line.startswith("RssAnon")).split()[1])
def much(n):
    for i in range(n):
        for k in range(100): mark(b"4 KB" * 1000)
        time.sleep(0.005)
much(5)
before = anonymous()
much(200)
for _ in range(1000):
    if sum(os.path.getsize(entry) for entry in os.scandir(os.environ["CPROF_FOLDER"])) < 30 << 20: much(1)
flushed(b"4 KB")
print(anonymous() - before, *[os.path.getsize(entry) for entry in os.scandir(os.environ["CPROF_FOLDER"])])
steps(1)
while os.listdir(os.environ["CPROF_FOLDER"]): time.sleep(0.02)
"""
    result = run(python(code), tmp_path, SKIP_FIRST=1000, RING_KB=1024)
    grown, size = map(int, result.out.split())
    assert result.rc == 0 and grown < 8 << 10 and 20 << 20 < size <= 64_100_000, result.out


@pytest.mark.parametrize("kind,end", [("fork", "terminate"), ("fork", "close"), ("fork-awake", "terminate")])
def test_pool_workers_leave_traces(tmp_path, kind, end):
    """Each worker leaves a trace, or an open file if it is killed. If the parent was traced before the fork, a line says that workers are
    not. Other start methods: `make other-programs`."""
    pytest.importorskip("torch")
    result = run([sys.executable, ROOT / "tests/others/workers.py", kind, end], tmp_path, cwd=tmp_path)
    assert result.rc == 0 and result.out == f"{kind} {end} 60 done\nended 0\nas it should be\n", result.out + result.err
