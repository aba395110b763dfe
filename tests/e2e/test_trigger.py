# SPDX-License-Identifier: Apache-2.0
"""Windows requested in a running job: by a signal, a file, a socket, an NVTX range or cudaProfilerStart()."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

import pytest

import gpu_runs
from conftest import ROOT
from support import LIBRARY, PRELUDE, PROGRAMS, Running, events, files, load, own_descriptors_reason, python, run, step_numbers, wait_until

# Marks steps until a line comes in on stdin.
LOOP = """
import select
n = 0
def work():
    global n
    push(b"work%d" % n); mark(b"m"); pop(); time.sleep(0.02); n += 1
print("runs", flush=True)
while not select.select([0], [], [], 0)[0]:
    work()
    if sys.argv[1] == "steps": step()
"""
NONE = dict(SKIP_FIRST=1000000)  # the schedule records nothing


class Client:
    """Speaks the protocol of preload/steps/trigger.h."""

    def __init__(self, pid, request):
        namespace = re.search(r"\d+", os.readlink(f"/proc/{pid}/ns/pid")).group()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(f"\0cprof-{namespace}-{pid}")
        self.socket.sendall(request.encode() + b"\n")
        self.lines = self.socket.makefile("r")

    def line(self):
        return self.lines.readline().rstrip("\n")

    def rest(self):
        return [line.rstrip("\n") for line in self.lines]


def ask(pid, request):
    return Client(pid, request).rest()


def loop(tmp_path, trigger, steps="steps", **settings):
    p = Running(python(LOOP, steps), tmp_path / "t", TRIGGER=trigger, **{**NONE, **settings})
    p.wait_for("runs")
    return p


def wait_socket(pid):
    def there():
        try:
            return ask(pid, "status")
        except OSError:
            return None
    return wait_until(there, "the socket")[0]


# ---- the socket --------------------------------------------------------------------------------------------

def test_socket_opens_a_window_of_steps(tmp_path):
    """The window begins with the next step and is whole. The client gets the trace's path. A second window follows."""
    with loop(tmp_path, "socket") as p:
        status = wait_socket(p.process.pid)
        assert re.fullmatch(rf"status pid={p.process.pid} rank=0 step=\d+ action=skip traces=0", status)
        for _ in range(2):
            lines = ask(p.process.pid, "window steps=3")
            first = int(re.fullmatch(r"opens step=(\d+) steps=3", lines[0]).group(1))
            path = lines[1].removeprefix("trace ")
            assert lines[2:] == ["done"]
            trace = load(path)
            assert step_numbers(trace) == [first, first + 1, first + 2]
            assert {e["name"] for e in events(trace, ph="X", name=re.compile("work"))} == \
                {f"work{n}" for n in range(first, first + 3)}
        p.say()
        assert len(p.end().traces) == 2


def test_socket_opens_a_window_of_seconds(tmp_path):
    """The window opens at once, in the middle of a step, in a program with steps and in one without."""
    for steps in ("steps", "none"):
        with loop(tmp_path / steps, "socket", steps) as p:
            wait_socket(p.process.pid)
            start = time.monotonic()
            lines = ask(p.process.pid, "window seconds=0.5")
            assert re.fullmatch(r"opens step=\d+ seconds=0\.500", lines[0]) and lines[2:] == ["done"]
            assert 0.5 <= time.monotonic() - start < 5
            spans = [float(e["ts"]) for e in events(load(lines[1].removeprefix("trace ")), ph="X", name=re.compile("work"))]
            assert 0.3e6 < max(spans) - min(spans) < 1.5e6  # on a busy machine it closes late
            p.say()
            assert p.end().complaints == []


def test_window_of_seconds_works_with_a_trace_handler(tmp_path):
    """Marks that handlers make on cprof's thread do not count as the program's. The handler gets the requested window."""
    for steps in ("steps", "none"):
        with loop(tmp_path / steps, "socket", steps, TRACE_HANDLERS=f"{PROGRAMS}/libhandler_log.so={tmp_path}/log-{steps}") as p:
            wait_socket(p.process.pid)
            time.sleep(0.3)  # the handler has got some calls
            lines = ask(p.process.pid, "window seconds=0.5")
            assert lines[0].endswith(" seconds=0.500") and lines[-1] == "done", lines
            assert events(load(lines[1].removeprefix("trace ")), ph="X", name=re.compile("work"))
            p.say()
            assert p.end().complaints == []
        calls = [json.loads(line)["call"] for line in (tmp_path / f"log-{steps}").read_text().splitlines()]
        assert calls.count("window_open") == calls.count("window_close") == calls.count("trace_ready") == 1


@pytest.mark.parametrize("request_", ["window steps=5", "window seconds=0.3"])
def test_window_starts_with_marks_of_skipped_steps(tmp_path, request_):
    """Marks of markers that record skipped steps are at the head of the file, as before a scheduled window."""
    code = """
import cprof, select, sys, time
always = cprof.marker("always", actions=list(cprof.Action))
print("runs", flush=True)
while not select.select([0], [], [], 0)[0]:
    with always: time.sleep(0.02)
    cprof.step()
"""
    env = {"PYTHONPATH": str(ROOT / "scripts/python"), "PYTHONDONTWRITEBYTECODE": "1"}
    with Running([sys.executable, "-c", code], tmp_path / "t", env=env, TRIGGER="socket", STEP="manual", **NONE) as p:
        p.wait_for("runs")
        wait_socket(p.process.pid)
        time.sleep(0.3)
        trace = load(ask(p.process.pid, request_)[1].removeprefix("trace "))
        p.say()
        p.end()
    first = step_numbers(trace)[0]
    assert first > 0 and len(events(trace, ph="X", name="always")) >= first


def test_request_without_length_records_active_steps(tmp_path):
    """Without a length, the window has CPROF_ACTIVE steps."""
    with loop(tmp_path, "socket", ACTIVE=2) as p:
        wait_until(lambda: " step=0 " not in wait_socket(p.process.pid), "a step")
        lines = ask(p.process.pid, "window")
        assert lines[0].endswith(" steps=2") and len(step_numbers(load(lines[1].removeprefix("trace ")))) == 2


def test_opens_between_and_after_scheduled_windows(tmp_path):
    """The schedule's own windows are unchanged. Requested windows open between them and after them."""
    code = """
def to(n):
    while _c.cprof_step_number() < n: steps(1, 0.02)
to(3); print("waits", flush=True); sys.stdin.readline()
to(60); print("waits again", flush=True); sys.stdin.readline()
to(90)
"""
    with Running(python(code), tmp_path / "t", TRIGGER="socket", WAIT=28, WARMUP=0, ACTIVE=2, REPEAT=2, SKIP_FIRST_WAIT=1) as p:
        p.wait_for("waits")
        pid = p.process.pid
        wait_socket(pid)
        one = Client(pid, "window steps=2")
        assert one.line() == "opens step=4 steps=2"
        p.say()
        p.wait_for("waits again")
        two = Client(pid, "window steps=3")
        assert two.line() == "opens step=61 steps=3"
        p.say()
        assert one.rest()[-1] == two.rest()[-1] == "done"
        result = p.end()
    assert [step_numbers(load(path)) for path in result.traces] == [[0, 1], [4, 5], [30, 31], [61, 62, 63]]
    assert result.complaints == []


def test_windows_start_at_a_given_step(tmp_path):
    """Several requests wait for their steps. Adjacent windows become one. If the step has passed, the window opens at the next step."""
    with loop(tmp_path, "socket", ACTIVE=2) as p:
        step = int(re.search(r"step=(\d+)", wait_socket(p.process.pid)).group(1)) + 150  # in 3 s, time for four requests
        clients = [Client(p.process.pid, request) for request in
                   (f"window steps=3 from={step}", f"window from={step + 3}", f"window from={step + 20} steps=1", "window from=1 steps=2")]
        told = [client.line() for client in clients]
        assert told[:3] == [f"opens step={step} steps=3", f"opens step={step + 3} steps=2", f"opens step={step + 20} steps=1"]
        late = int(re.fullmatch(r"opens step=(\d+) steps=2", told[3]).group(1))
        ends = [client.rest() for client in clients]
        assert ends[0] == ends[1] and all(end[-1] == "done" for end in ends)
        steps = [step_numbers(load(end[0].removeprefix("trace "))) for end in (ends[0], ends[2], ends[3])]
        assert steps == [list(range(step, step + 5)), [step + 20], [late, late + 1]] and late < step
        for n in range(15):  # each takes one of sixteen places until it closes its socket
            gone = Client(p.process.pid, "window seconds=0.001" if n % 2 else "window from=1000000000")
            assert gone.line().startswith("open")
            gone.lines.close()
            gone.socket.close()
        waiting = [Client(p.process.pid, "window from=1000000000") for _ in range(5)]
        assert [client.line() for client in waiting] == ["opens step=1000000000 steps=2"] * 5
        waiting, *_ = waiting
        p.say()
        assert waiting.rest() == ["error the program ends; no trace was written"]
        assert p.end().complaints == []


def test_requested_window_overlaps_the_schedules_window(tmp_path):
    """The requested window is recorded whole, whatever the schedule's actions are meanwhile."""
    code = """
def to(n):
    while _c.cprof_step_number() < n: steps(1, 0.02)
to(3); print("waits", flush=True); sys.stdin.readline()
to(60)
"""
    with Running(python(code), tmp_path / "t", TRIGGER="socket", WAIT=27, WARMUP=1, ACTIVE=4, REPEAT=1) as p:
        p.wait_for("waits")
        wait_socket(p.process.pid)
        client = Client(p.process.pid, "window steps=6 from=30")
        assert client.line() == "opens step=30 steps=6"
        p.say()
        lines = client.rest()
        result = p.end()
    recorded = sorted(step for path in result.traces for step in step_numbers(load(path)))
    assert recorded == list(range(28, 36)) and lines[1:] == ["done"]
    assert set(range(30, 36)) <= set(step_numbers(load(lines[0].removeprefix("trace "))))


def test_request_joins_the_open_window(tmp_path):
    """The second client is told that a window is open, and gets its trace. The window stays as long as it was."""
    with loop(tmp_path, "socket") as p:
        wait_socket(p.process.pid)
        one = Client(p.process.pid, "window steps=100")
        assert one.line().startswith("opens ")
        two = Client(p.process.pid, "window steps=2")
        assert two.line().startswith("open step=")
        ends = one.rest(), two.rest()
        assert ends[0] == ends[1] and len(step_numbers(load(ends[0][0].removeprefix("trace ")))) == 100


def test_longer_request_extends_the_open_window(tmp_path):
    """The longer request is recorded whole, in the same trace."""
    with loop(tmp_path, "socket") as p:
        wait_socket(p.process.pid)
        one = Client(p.process.pid, "window steps=100")
        first = int(re.match(r"opens step=(\d+)", one.line()).group(1))
        wait_until(lambda: int(re.search(r" step=(\d+)", ask(p.process.pid, "status")[0]).group(1)) > first + 2, "the window")
        two = Client(p.process.pid, "window steps=150")
        at = int(re.match(r"open step=(\d+)", two.line()).group(1))
        ends = one.rest(), two.rest()
        assert ends[0] == ends[1]
        steps = step_numbers(load(ends[0][0].removeprefix("trace ")))
        assert steps[0] == first and at + 150 - 2 <= steps[-1] <= at + 150 + 3


def test_refuses_bad_requests_and_survives_leaving_clients(tmp_path):
    with loop(tmp_path, "socket") as p:
        pid = p.process.pid
        wait_socket(pid)
        assert ask(pid, "window steps=0") == ["error a window takes steps=N and from=K, or seconds=S"]
        assert ask(pid, "stop") == ["error known requests: window [steps=N] [from=K], window seconds=S, last, status"]
        assert ask(pid, "x" * 300) == ["error the line is too long"]
        left = Client(pid, "window steps=2")
        left.line()
        left.lines.close()
        left.socket.close()
        wait_until(lambda: files(tmp_path / "t", ".json"), "the trace")
        last = Client(pid, "window steps=100000")
        last.line()
        p.say()
        assert p.end().rc == 0
        assert last.rest()[0].split()[0] in ("trace", "error")


def test_empty_window_writes_no_trace(tmp_path):
    """The client is told that no trace was written."""
    code = "mark(b'awake')\nprint('runs', flush=True)\nsys.stdin.readline()"
    with Running(python(code), tmp_path / "t", TRIGGER="socket", **NONE) as p:
        p.wait_for("runs")
        wait_socket(p.process.pid)
        assert ask(p.process.pid, "window seconds=0.2")[1:] == ["error nothing was recorded: no trace was written"]
        p.say()
        assert p.end().said == []


NOTHING = "nothing was recorded: no trace was written"
IDLE = "mark(b'awake')\nprint('runs', flush=True)\nsys.stdin.readline()"


def catches(pid, number):
    """Whether the process has a handler for the signal."""
    mask = re.search(r"SigCgt:\s*(\w+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]
    return int(mask, 16) >> (number - 1) & 1


def test_file_trigger_reports_an_empty_window(tmp_path):
    """A line reports it while the program runs."""
    with Running(python(IDLE), tmp_path / "t", TRIGGER=f"file:{tmp_path}/go", **NONE) as p:
        p.wait_for("runs")
        (tmp_path / "new").write_text("seconds=0.2")
        os.rename(tmp_path / "new", tmp_path / "go")
        wait_until(lambda: p.has_said(NOTHING), "the line")
        p.say()
        result = p.end()
    assert result.said == [f"{tmp_path}/go: a window opens step=0 seconds=0.200", f"{tmp_path}/go: {NOTHING}"]


@pytest.mark.parametrize("settings, opens", [({}, "step=0 seconds=5.000"), ({"ACTIVE": 2}, "step=4 steps=2")])
def test_signal_trigger_reports_a_window_cut_by_exit(tmp_path, settings, opens):
    """A line at exit reports it."""
    steps = "" if not settings else "steps(3)\n"
    with Running(python(steps + IDLE), tmp_path / "t", TRIGGER="signal:USR2", **{**NONE, **settings}) as p:
        p.wait_for("runs")
        wait_until(lambda: catches(p.process.pid, signal.SIGUSR2), "the handler")
        p.process.send_signal(signal.SIGUSR2)
        wait_until(lambda: p.has_said("a window opens"), "the line")
        p.say()
        result = p.end()
    assert [line for line in result.said if line.startswith("signal")] == [f"signal 12: a window opens {opens}", f"signal 12: {NOTHING}"]


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
def test_answers_no_other_user(tmp_path):
    with loop(tmp_path, "socket") as p:
        wait_socket(p.process.pid)
        namespace = re.search(r"\d+", os.readlink(f"/proc/{p.process.pid}/ns/pid")).group()
        code = "import os, socket, sys; os.setuid(int(sys.argv[1])); s = socket.socket(socket.AF_UNIX)\n" \
               "s.connect('\\0' + sys.argv[2]); s.sendall(b'status\\n'); print(s.recv(100))"
        said = [subprocess.run([sys.executable, "-c", code, user, f"cprof-{namespace}-{p.process.pid}"], capture_output=True,
                               text=True, timeout=120).stdout for user in ("0", "65534")]
        assert "status" in said[0] and "status" not in said[1]


def test_keeps_an_ignored_signal_ignored(tmp_path):
    """nohup ignores SIGHUP for all its programs. With a handler of cprof instead, child programs would not inherit that and would die of
    the signal."""
    result = run(python("""
signal.signal(signal.SIGHUP, signal.SIG_IGN)
steps(3)
child = subprocess.Popen([sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGHUP)"])
print(child.wait(60), signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)
"""), tmp_path, TRIGGER="signal:HUP")
    assert (result.rc, result.out) == (0, "0 True\n"), result.err
    assert len([line for line in result.said if "this process ignores the signal" in line]) == 1


@pytest.mark.skipif(own_descriptors_reason() is not None, reason=own_descriptors_reason() or "")
def test_listens_after_the_program_closed_all_descriptors(tmp_path):
    """cprof does not touch the program's descriptors, and its socket still answers."""
    code = """
import re, socket
def status():
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(f"\\0cprof-{re.sub(r'[^0-9]', '', os.readlink('/proc/self/ns/pid'))}-{os.getpid()}")
        s.sendall(b"status\\n")
        return s.recv(100).split()[0].decode()
steps(1); time.sleep(0.6)
os.closerange(3, 64)
own = [socket.socket() for _ in range(8)]
for s in own: s.bind(("127.0.0.1", 0)); s.listen()
port = own[0].getsockname()[1]
client = socket.create_connection(("127.0.0.1", port))
time.sleep(0.8)
for s in own: s.settimeout(0.2)
print(sum(1 for s in own if s.fileno() >= 0), own[0].accept()[1][1] == client.getsockname()[1])
print(status())
"""
    result = run(python(code), tmp_path / "t", TRIGGER="socket", **NONE)
    assert result.rc == 0 and result.out == "8 True\nstatus\n"


@pytest.mark.skipif(own_descriptors_reason() is not None, reason=own_descriptors_reason() or "")
def test_forked_child_does_not_listen(tmp_path):
    """After the parent's death nobody answers at its address. Parent and child have no descriptor that they did not open."""
    code = """
def link(fd):
    try:
        return os.readlink(f"/proc/self/fd/{fd}")
    except OSError:
        return ""
def say_sockets():
    n = sum(link(fd).startswith("socket") for fd in os.listdir("/proc/self/fd"))
    os.write(1, b"sockets %d\\n" % n)  # one write: both write to the same pipe, and print() writes in pieces
steps(1)
print(os.getpid(), flush=True)
sys.stdin.readline()
if os.fork() == 0:
    say_sockets()
    sys.stdin.readline()
    say_sockets()
else:
    say_sockets()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    with Running(python(code), tmp_path / "t", TRIGGER="socket", **NONE) as p:
        wait_socket(p.process.pid)
        p.say()
        p.process.wait(60)
        namespace = re.search(r"\d+", os.readlink("/proc/self/ns/pid")).group()
        with pytest.raises(ConnectionRefusedError), socket.socket(socket.AF_UNIX) as s:
            s.connect(f"\0cprof-{namespace}-{p.process.pid}")
        p.say()
        ended = p.end()
        assert (ended.rc, re.findall("sockets (.)", ended.out)) == (-signal.SIGKILL, ["0"] * 3), ended


def test_rank_below_a_traced_launcher_listens(tmp_path):
    """The launcher is traced, too. The rank listens at its own address from its first step on."""
    code = f"mark(b'awake')\nchild = subprocess.Popen([sys.executable, '-c', {PRELUDE + LOOP!r}, 'steps'], stdin=subprocess.PIPE)\n" \
           "print('child', child.pid, flush=True)\nsys.stdin.readline(); child.communicate(b'end\\n')"
    with Running(python(code), tmp_path / "t", TRIGGER="socket", **NONE) as p:
        p.wait_for("runs")
        pid = int(re.search(r"child (\d+)", "".join(p._out)).group(1))
        wait_socket(pid)
        lines = ask(pid, "window steps=2")
        assert lines[0].endswith(" steps=2") and len(step_numbers(load(lines[1].removeprefix("trace ")))) == 2
        p.say()
        assert p.end().rc == 0


# ---- signal ------------------------------------------------------------------------------------------------

def test_signal_opens_a_window(tmp_path):
    with loop(tmp_path, "signal:USR2", ACTIVE=2) as p:
        wait_until(lambda: "cprof" in [pathlib.Path(f"/proc/{p.process.pid}/task/{t}/comm").read_text().strip()
                                       for t in os.listdir(f"/proc/{p.process.pid}/task")], "the cprof thread")
        time.sleep(0.2)
        for n in (1, 2):
            p.process.send_signal(signal.SIGUSR2)
            wait_until(lambda: len(files(tmp_path / "t", ".json")) == n, "the trace")
        p.say()
        result = p.end()
    assert result.rc == 0 and all(len(step_numbers(load(path))) == 2 for path in result.traces)
    assert len([line for line in result.said if re.match(r"signal 12: a window opens step=\d+ steps=2", line)]) == 2


def test_signal_ends_a_forked_child(tmp_path):
    """The child has no handler for the signal, so its parent can end it."""
    code = """
steps(1); time.sleep(0.1)
child = os.fork()
if child == 0:
    print("here", flush=True)
    time.sleep(60)
    os._exit(3)
time.sleep(0.3)
os.kill(child, signal.SIGUSR2)
print(os.waitpid(child, 0)[1])
"""
    result = run(python(code), tmp_path / "t", TRIGGER="signal:USR2", **NONE)
    assert (result.rc, result.out) == (0, f"here\n{int(signal.SIGUSR2)}\n"), result.err


def test_calls_the_programs_signal_handler_too(tmp_path):
    code = "got = []\nsignal.signal(signal.SIGUSR1, lambda *a: got.append(a))\nsteps(1)\ntime.sleep(0.1)\n" \
           "os.kill(os.getpid(), signal.SIGUSR1)\nsteps(4, 0.05)\nprint(len(got))"
    result = run(python(code), tmp_path / "t", TRIGGER="signal:SIGUSR1", ACTIVE=1, **NONE)
    assert result.rc == 0 and result.out == "1\n" and len(result.traces) == 1


def test_reinstalls_its_handler_after_a_reset(tmp_path):
    """At the end of fit(), Lightning's trainer resets all handlers to those that Python knew before. The signal must not end the program."""
    code = "before = signal.getsignal(signal.SIGUSR2)\nsteps(1)\ntime.sleep(0.1)\nfor again in range(2):\n    signal.signal(signal.SIGUSR2, before)\n" \
           "    time.sleep(1)\n    os.kill(os.getpid(), signal.SIGUSR2)\n    steps(4, 0.05)\n" \
           "    while sum(name.endswith('.json') for _, _, names in os.walk(os.environ['CPROF_FOLDER']) for name in names) <= again: time.sleep(0.02)\nprint(before == signal.SIG_DFL)"
    result = run(python(code), tmp_path / "t", TRIGGER="signal:USR2", ACTIVE=1, **NONE)
    assert (result.rc, result.out) == (0, "True\n") and len(result.traces) == 2, result.err


def test_keeps_a_handler_set_during_the_reinstallation(tmp_path):
    """cprof finds its handler reset and installs it again. It must not replace a handler that the program sets in the meantime."""
    code = "steps(1)\nsignal.signal(signal.SIGUSR2, signal.SIG_DFL)\ntime.sleep(0.4)\nsignal.signal(signal.SIGUSR2, lambda *_: print('mine'))\n" \
           "time.sleep(1)\nos.kill(os.getpid(), signal.SIGUSR2)\ntime.sleep(0.1)"
    result = run(["env", f"LD_PRELOAD={LIBRARY}:{PROGRAMS / 'libslowsignals.so'}", *python(code)], tmp_path / "t", preload=False,
                 TRIGGER="signal:USR2", **NONE)
    assert (result.rc, result.out) == (0, "mine\n"), result.err


@pytest.mark.parametrize("own", ["lambda *a: got.append(a)", "signal.SIG_IGN"])
def test_reports_a_replaced_handler_at_exit(tmp_path, own):
    code = f"steps(1)\ntime.sleep(0.1)\ngot = []\nsignal.signal(signal.SIGUSR2, {own})\ntime.sleep(0.6)\n" \
           "os.kill(os.getpid(), signal.SIGUSR2)\nsteps(4, 0.05)"
    result = run(python(code), tmp_path / "t", TRIGGER="signal:USR2", ACTIVE=1, **NONE)
    assert result.rc == 0 and not result.traces
    assert "the program replaced cprof's handler" in result.err


def test_refuses_unsupported_signals(tmp_path):
    result = run(python("steps(1)"), tmp_path / "t", TRIGGER="signal:TERM", WARMUP=0)
    assert len(result.traces) == 1 and "CPROF_TRIGGER=signal:TERM: must be one of USR1, USR2, HUP" in result.complaints[0]
    result = run(python("print(signal.getsignal(signal.SIGUSR2)); steps(1)"), tmp_path / "u")
    assert result.out == "0\n" or "SIG_DFL" in result.out


# ---- file --------------------------------------------------------------------------------------------------

def test_file_opens_a_window_for_its_rank(tmp_path):
    """The text of the file is the request, and cprof removes the file. {rank} gives each rank a file of its own."""
    with loop(tmp_path, f"file:{tmp_path}/go-{{rank}}", env=dict(RANK="1", WORLD_SIZE="2")) as p:
        (tmp_path / "go-0").write_text("")
        for n, text in enumerate(("steps=3\n", "seconds=0.3"), 1):
            (tmp_path / "new").write_text(text)
            os.rename(tmp_path / "new", tmp_path / "go-1")
            wait_until(lambda: len(files(tmp_path / "t", ".json")) == n, "the trace")
            assert not (tmp_path / "go-1").exists()
        (tmp_path / "new").write_text("nonsense")
        os.rename(tmp_path / "new", tmp_path / "go-1")
        wait_until(lambda: not (tmp_path / "go-1").exists(), "the removal")
        p.say()
        result = p.end()
    assert (tmp_path / "go-0").exists() and len(step_numbers(load(result.traces[0]))) == 3
    assert [line for line in result.complaints if "must be empty or hold" in line] and len(result.traces) == 2


@pytest.mark.parametrize("what", ["link", "fifo", "folder"])
def test_refuses_links_fifos_and_folders(tmp_path, what):
    """In a shared folder another user may plant a link or a FIFO. One line reports it, and it stays."""
    path = tmp_path / "go"
    with loop(tmp_path, f"file:{path}") as p:
        (tmp_path / "victim").write_text("steps=1")
        {"link": lambda: path.symlink_to(tmp_path / "victim"), "fifo": lambda: os.mkfifo(path), "folder": path.mkdir}[what]()
        time.sleep(0.8)
        p.say()
        result = p.end()
    assert result.traces == [] and (tmp_path / "victim").exists() and os.path.lexists(path)
    assert len(result.complaints) == 1 and "it is ignored" in result.complaints[0]


# ---- ranges of the program ---------------------------------------------------------------------------------

def test_records_only_inside_nvtx_ranges(tmp_path):
    """A matching range records as if between cprof_start() and cprof_stop()."""
    code = """
import nvtx
def more(n, tag):
    for i in range(n):
        push(b"%s%d" % (tag, i)); pop(); step()
more(3, b"before")
with nvtx.annotate("capture this", domain="mine"): more(2, b"first")
more(3, b"between")
r = nvtx.start_range("capture that"); more(1, b"second"); nvtx.end_range(r)
with nvtx.annotate("not this"): more(2, b"after")
"""
    pytest.importorskip("nvtx")
    result = run(python(code), tmp_path / "t", TRIGGER="nvtx:capture*", SCHEDULE_SCOPE="none")
    assert result.rc == 0 and result.complaints == []
    names = [sorted(e["name"] for e in events(load(path), ph="X", name=re.compile("first|second|before|between|after|capture")))
             for path in result.traces]
    assert names == [["capture this", "first0", "first1"], ["second0"]]


@pytest.mark.skipif(not (PROGRAMS.parent / "gpu/train").exists(), reason="no simulated GPU: no CUDA headers")
def test_records_between_cuda_profiler_calls(tmp_path):
    """Only CPROF_TRIGGER=cuda records between cudaProfilerStart() and cudaProfilerStop(). A repeated start has no effect."""
    code = f"""
rt = ctypes.CDLL({str(PROGRAMS.parent / 'sim/libcudart.so.13')!r}, mode=ctypes.RTLD_GLOBAL)
def more(n, tag):
    for i in range(n):
        push(b"%s%d" % (tag, i)); pop(); step()
rt.cudaDeviceSynchronize(); _c.cudaDeviceSynchronize()
more(2, b"before")
print(_c.cudaProfilerStart(), _c.cudaProfilerStart()); more(3, b"inside"); print(_c.cudaProfilerStop())
more(2, b"after")
"""
    result = run(python(code), tmp_path / "t", TRIGGER="cuda", SCHEDULE_SCOPE="none")
    assert result.rc == 0 and result.out == "0 0\n0\n" and len(result.traces) == 1, result.err
    names = [e["name"] for e in events(load(result.traces[0]), ph="X", name=re.compile("before|inside|after"))]
    assert names == ["inside0", "inside1", "inside2"]
    result = run(python(code), tmp_path / "u", SKIP_FIRST=1000)
    assert result.rc == 0 and result.traces == []
    result = run(python("steps(3)"), tmp_path / "v", TRIGGER="cuda", WARMUP=0)
    assert result.traces == [] and "cprof saw no call of cudaProfilerStart" in result.complaints[0]


def test_names_an_unknown_trigger(tmp_path):
    result = run(python("steps(1)"), tmp_path, TRIGGER="telepathy", WARMUP=0)
    assert len(result.traces) == 1 and result.complaints[0].startswith("CPROF_TRIGGER=telepathy: must be one of off, signal:NAME")


@gpu_runs.needed
@pytest.mark.parametrize("request_", ["steps=4", "seconds=0.4"])
def test_window_of_a_gpu_program_loses_nothing(tmp_path, request_):
    """The thread that opens the window switches CUPTI on. Each launch of the window has its kernel, and nothing is lost."""
    with Running([gpu_runs.PROGRAMS / "train", "--steps", 100000, "--devices", 1], tmp_path / "t", TRIGGER="socket",
                 env=gpu_runs.ENVIRONMENT, **NONE) as p:
        wait_until(lambda: " step=0 " not in wait_socket(p.process.pid), "a step")
        lines = ask(p.process.pid, f"window {request_}")
        assert lines[0].startswith("opens ") and lines[2:] == ["done"]
        trace = load(lines[1].removeprefix("trace "))
    launches = events(trace, cat="cuda_runtime", name=re.compile("cudaLaunchKernel"))
    kernels = events(trace, cat="kernel")
    by_id = {e["args"]["correlation"] for e in kernels}
    assert len(launches) > 20 and all(e["args"]["correlation"] in by_id for e in launches)
    assert trace["cprof"]["lost"]["total"] == 0 and trace["cprof"]["gpu"]["before_call"] == 0
    if "steps" in request_:
        per_step = [len([e for e in launches if s <= float(e["ts"]) < s + d]) for s, d in
                    ((float(e["ts"]), float(e["dur"])) for e in events(trace, ph="X", name=re.compile("ProfilerStep")))]
        assert len(per_step) == 4 and len(set(per_step)) == 1, per_step


def to_step(pid, n):
    wait_until(lambda: int(re.search(r" step=(\d+)", ask(pid, "status")[0]).group(1)) >= n, f"step {n}")


def test_shorter_request_keeps_the_schedules_window(tmp_path):
    """The open window already covers the request. The schedule's trace is unchanged."""
    with loop(tmp_path, "socket", SKIP_FIRST=100, WAIT=0, WARMUP=0, ACTIVE=150, REPEAT=1) as p:
        wait_socket(p.process.pid)
        to_step(p.process.pid, 105)
        one = Client(p.process.pid, "window steps=5")
        assert one.line().startswith("open step=")
        path = one.rest()[0].removeprefix("trace ")
        to_step(p.process.pid, 260)
        p.say()
        result = p.end()
    assert [step_numbers(load(path)) for path in result.traces] == [list(range(100, 250))]
    assert path == str(result.traces[0])


def test_answers_a_request_while_everything_is_recorded(tmp_path):
    with loop(tmp_path, "socket", SKIP_FIRST=0, SCHEDULE_SCOPE="none") as p:
        wait_socket(p.process.pid)
        one = Client(p.process.pid, "window steps=5")
        at = int(re.match(r"open step=(\d+)", one.line()).group(1))
        to_step(p.process.pid, at + 60)
        p.say()
        assert one.rest()[-1] == "done"
        assert len(p.end().traces) == 1


SLOW = """
import select
print("runs", flush=True)
while not select.select([0], [], [], 0)[0]:
    push(b"work"); mark(b"m"); pop(); time.sleep(1.2)
    step()
"""


def test_records_a_request_in_a_windows_last_step(tmp_path):
    """The trace that the client gets holds the requested steps."""
    with Running(python(SLOW), tmp_path / "t", TRIGGER="socket", **NONE) as p:
        p.wait_for("runs")
        pid = p.process.pid
        wait_socket(pid)
        first = Client(pid, "window steps=1")
        assert first.line().startswith("opens ")
        wait_until(lambda: "action=active_and_save" in ask(pid, "status")[0], "the window's last step")
        second = Client(pid, "window steps=2")
        said = second.line()
        at = int(re.search(r"step=(\d+)", said).group(1))
        path = second.rest()[0].removeprefix("trace ")
        steps = step_numbers(load(path))
        p.say()
        p.end()
    assert len([step for step in steps if step >= at]) >= 2, (said, steps)


def test_steps_extend_an_open_window_of_seconds(tmp_path):
    """Steps requested now are added to the window. Steps that begin later are a window of their own."""
    with loop(tmp_path, "socket") as p:
        pid = p.process.pid
        wait_socket(pid)
        one = Client(pid, "window seconds=1.5")
        first = int(re.match(r"opens step=(\d+) seconds", one.line()).group(1))
        two = Client(pid, "window steps=150")
        at = int(re.match(r"open step=(\d+)", two.line()).group(1))
        three = Client(pid, f"window steps=3 from={at + 250}")
        assert three.line() == f"opens step={at + 250} steps=3"
        ends = one.rest(), two.rest(), three.rest()
        assert ends[0] == ends[1] and all(end[-1] == "done" for end in ends)
        p.say()
        steps = [step_numbers(load(path)) for path in p.end().traces]
    assert steps == [list(range(first, at + 151)), list(range(at + 250, at + 253))]


def test_window_of_seconds_runs_into_the_schedules_window(tmp_path):
    """The schedule's window goes on to its end."""
    code = """
def to(n):
    while _c.cprof_step_number() < n: steps(1, 0.02)
to(3); print("waits", flush=True); sys.stdin.readline()
for i in range(3, 9):
    mark(b"begin%d" % i); time.sleep(0.5); mark(b"end%d" % i)
    steps(1)
"""
    with Running(python(code), tmp_path / "t", TRIGGER="socket", WAIT=3, WARMUP=1, ACTIVE=3, REPEAT=1) as p:
        p.wait_for("waits")
        wait_socket(p.process.pid)
        one = Client(p.process.pid, "window seconds=0.75")
        assert one.line() == "opens step=3 seconds=0.750"
        p.say()
        lines = one.rest()
        result = p.end()
    assert lines == [f"trace {result.traces[0]}", "done"]
    loaded = [load(path) for path in result.traces]
    assert sorted(step for trace in loaded for step in step_numbers(trace)) == [3, 4, 5, 6]
    names = {e["name"] for trace in loaded for e in events(trace, ph="i")}
    assert {f"{edge}{step}" for edge in ("begin", "end") for step in (4, 5, 6)} <= names


def test_empty_window_of_seconds_keeps_waiting_requests(tmp_path):
    """A client that waits for later steps gets no error for another client's empty window."""
    code = """
mark(b"awake"); steps(2)
print("runs", flush=True); sys.stdin.readline()
steps(20, 0.02)
print("done", flush=True); sys.stdin.readline()
"""
    with Running(python(code), tmp_path / "t", TRIGGER="socket", **NONE) as p:
        p.wait_for("runs")
        pid = p.process.pid
        wait_socket(pid)
        steps, seconds = Client(pid, "window steps=3 from=10"), Client(pid, "window seconds=0.2")
        assert seconds.rest()[1] == "error nothing was recorded: no trace was written"
        p.say()
        p.wait_for("done")
        assert [line.split()[0] for line in steps.rest()] == ["opens", "trace", "done"]
        p.say()
        p.end()


def test_tells_waiting_clients_that_recording_is_off(tmp_path):
    (tmp_path / "t").mkdir()
    old = tmp_path / "t/rank0.5.pt.trace.json"  # a trace of an earlier run turns recording off
    old.write_text("{}")
    os.utime(old, (1e9, 1e9))
    with loop(tmp_path, "socket") as p:
        wait_socket(p.process.pid)
        assert ask(p.process.pid, "window steps=3")[1:] == ["error recording is off: no trace was written"]
        p.say()
        p.end()
