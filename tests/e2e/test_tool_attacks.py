# SPDX-License-Identifier: Apache-2.0
"""The command `cprof` against attacks: links and FIFOs under the names that it opens, files that would take all memory, and text that
controls a terminal. Some tests need a second user, and so root."""

import contextlib
import importlib.util
import errno
import gzip
import io
import json
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import socket
import subprocess
import time

import pytest

import command_runs
import support
import tool
from command_runs import command, environment
from cprof import _saved
from cprof.tool import main, memory_page, output, progress, recover, summary_file
from cprof.tool.view import write_view
from test_command_open import Listener, address_in, fetch, free_port, opened, status
from test_security import KINDS, NOBODY, PRECIOUS, as_root, become_nobody, traps

PART = "rank0.0.pt.trace.json.4194305.0.part"  # of a pid that no process has
EVIL = "\x1b]0;PWNED\x07\x1b[31m\x9b2J\u202e"
MB = 1 << 20
LIMIT = 250 * MB                               # of address space: the command must work in it


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@contextlib.contextmanager
def no_wait(seconds=60):
    """Fails a call that takes longer than `seconds`."""
    def hangs(*_):
        raise AssertionError("the call hangs")
    before = signal.signal(signal.SIGALRM, hangs)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def called(*args):
    """Runs the command in this process; returns exit code, stdout and stderr."""
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err, no_wait():
        code = main(list(map(str, args)))
    return code, out.getvalue(), err.getvalue()


def any_python():
    """A Python that other users can run."""
    found = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    return found or pytest.skip("no Python that other users can run")


def a_trace(path="t.json", **top):
    return tool.write(path, [tool.span("ProfilerStep#0", 0.0, 100.0, cat="user_annotation"), tool.memory(15.0, 64, 1),
                             tool.span("aten::mm", 10.0, 20.0, Call_stack="a.py(1): f;")], **top)


def left(head=b"", tail=b""):
    """The bytes of an open trace file, as cprof leaves it when it is killed."""
    return (b'{\n"schemaVersion": 1,\n' + head + b'"distributedInfo": {\n"rank": 0\n},\n"baseTimeNanoseconds": 0,\n"traceEvents": [\n'
            b'{"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1.000, "dur": 1.000, "args": {}},\n' + tail)


# ---- where the command writes --------------------------------------------------------------------------------------

EXPORT = [["export", "t.json", "-o", "out", "--parquet"]] if importlib.util.find_spec("pyarrow") else []
WRITERS = [["stacks", "t.json", "-o", "out"], ["memory-timeline", "t.json", "-o", "out.html"], ["report", "t.json", "-o", "out.html"],
           ["stacks", "t.json", "-o", "out.html"], ["merge", "t.json", "-f", "-o", "out.json"],
           ["merge", "--manifest", "t.json", "-o", "out.tar"], ["recover", "--force", PART], *EXPORT]


@pytest.mark.parametrize("kind", KINDS)
def test_does_not_follow_a_planted_temporary_file(tmp_path, monkeypatch, kind):
    """The attacker even knows the random name. The command does not write to what is there, wait for it or remove it."""
    monkeypatch.setattr(output.secrets, "token_hex", lambda _: "known")
    a_trace()
    pathlib.Path(PART).write_bytes(left())
    victim, trap = tmp_path / "victim", tmp_path / ".cprof-known.tmp"
    victim.write_text(PRECIOUS)
    traps(victim)[kind](trap)
    before = trap.lstat()
    for one in WRITERS:
        code, _, err = called(*one)
        assert code == 2 and "File exists" in err, (one, err)
    assert victim.read_text() == PRECIOUS and not victim.with_name("new").exists()
    assert trap.lstat().st_ino == before.st_ino and not list(tmp_path.glob("out*"))


def test_merge_keeps_another_process_temporary_folder(tmp_path):
    """A folder under an old style of temporary name belongs to another process."""
    a_trace()
    other = tmp_path / f".out.json.{os.getpid()}.tmp"
    other.mkdir()
    (other / "whole").write_text("another process's work")
    assert called("merge", "t.json", "-f", "-o", "out.json")[0] == 0
    assert (other / "whole").read_text() == "another process's work"


def test_writes_into_a_fifo_that_is_read():
    a_trace()
    os.mkfifo("out")
    code, _, err = called("stacks", "t.json", "-o", "out")
    assert (code, err) == (2, "cprof: out: is a pipe that nobody reads\n")
    with open(os.open("out", os.O_RDONLY | os.O_NONBLOCK)) as read:
        assert called("stacks", "t.json", "-o", "out")[0] == 0 and read.read() == "a.py(1):_f 20\n"
    done = subprocess.run(command("stacks", "t.json", "-o", "/dev/stdout"), stdout=subprocess.PIPE, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"a.py(1):_f 20\n")


@as_root
@pytest.mark.parametrize("writer", WRITERS[:3], ids=lambda one: one[0])
def test_refuses_another_users_link_as_output(tmp_path, writer):
    """The command follows root's own links."""
    a_trace()
    victim, out = tmp_path / "victim", tmp_path / writer[-1]
    victim.write_text(PRECIOUS)
    out.symlink_to(victim)
    os.chown(out, NOBODY, NOBODY, follow_symlinks=False)
    code, _, err = called(*writer)
    assert code == 2 and "is another user's symbolic link" in err and victim.read_text() == PRECIOUS
    os.chown(out, 0, 0, follow_symlinks=False)
    assert called(*writer)[0] == 0 and victim.read_text() != PRECIOUS and out.is_symlink()


# ---- what the command reads ----------------------------------------------------------------------------------------

READERS = [["top"], ["top", "--by", "step"], ["check"], ["events"], ["events", "--step", "1"], ["stacks"], ["memory-timeline", "-o", "out.json"],
           ["merge", "-o", "out.json"], ["merge", "--manifest", "-o", "out.tar"], ["ranks"], ["open", "--no-browser"], ["recover", "-o", "out"],
           ["env", "--library"], *([["export", "--parquet", "-o", "out"]] if EXPORT else [])]


@pytest.mark.parametrize("what", ["fifo", "/dev/zero", "folder", "huge.part"])
def test_refuses_fifos_devices_folders_and_sparse_files(what):
    """No command waits for a FIFO or reads a device or a sparse file to its end. Two commands take a folder as one of traces."""
    if what == "fifo":
        os.mkfifo(what)
    elif what == "huge.part":
        with open(what, "wb") as file:
            file.truncate(8 << 40)
    elif what == "folder":
        os.mkdir(what)
    for reader in READERS:
        code, out, err = called(*reader, what)
        assert code == 2 and out == "" and len(err.splitlines()) == 1 and what in err, (reader, err)
    assert called("run", "--library", what, "true")[0] == 2
    assert not [name for name in os.listdir() if name.startswith(("out", "."))]


def test_does_not_wait_for_fifos_in_a_folder():
    os.mkdir("run")
    a_trace("run/rank0.0.pt.trace.json")
    for name in ("rank0.0.pt.trace.json.summary", "rank1.0.pt.trace.json", PART, _saved.LIST_NAME):
        os.mkfifo(f"run/{name}")
    assert called("top", "run/rank0.0.pt.trace.json")[0] == 0
    assert called("ranks", "run")[0] == 0
    code, out, err = called("recover", "run")
    assert (code, out, err) == (2, "", f"cprof: run/{PART}: is not a regular file\n")
    with no_wait(), pytest.raises(OSError, match="is not a regular file"):
        _saved.saved_traces("run")


def test_reads_a_pipe_that_the_user_names():
    path = a_trace()
    for asked in ('zcat -f t.json | "$@" /dev/stdin', '"$@" <(zcat -f t.json)', '"$@" - < t.json', '"$@" /dev/stdin < t.json'):
        done = subprocess.run(["bash", "-c", asked, "bash", *command("check")], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and " 3 events: " in done.stdout, (asked, done, path)


def in_little_memory(*args):
    """Runs the command in LIMIT bytes of address space."""
    done = subprocess.run(command(*args), capture_output=True, text=True, timeout=support.TIMEOUT_S, env=environment(),
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT)))
    assert "out of memory" not in done.stderr and "Traceback" not in done.stderr, done.stderr
    return done


def test_recovers_a_gzip_bomb_in_little_memory():
    """A gzip member of 200 MB, in a file of 0.2 MB."""
    packed = io.BytesIO()
    with gzip.GzipFile("", "wb", 1, packed, 0) as out:
        out.write(left())
        for _ in range(200):
            out.write(b"x" * MB)
    data = bytearray(packed.getvalue())
    data[8:10] = b"\0\3"  # the header that writer/file/sink_gzip.c writes
    pathlib.Path(PART).write_bytes(data)
    done = in_little_memory("recover", "--force", PART)
    assert done.returncode == 0 and f"{200 * MB:,} bytes held no whole event and are lost" in done.stderr, done.stderr
    assert json.loads(pathlib.Path(PART[:-15]).read_text())["traceEvents"][0]["name"] == "a"


OPEN = b'{"ph": "X", "cat": "", "name": "", "pid": 1, "tid": 1, "ts": 1.0, "dur": 1.0, "args": {"finished": "false"}},\n'


@pytest.mark.parametrize("lines", [OPEN, b'],\n' + b'"a": 1,\n'], ids=["open ranges", "a trailer"])
def test_recover_limits_the_lines_that_it_holds_back(monkeypatch, lines):
    first, _, line = lines.rpartition(b"\n" if lines is OPEN else b"],\n")
    pathlib.Path(PART).write_bytes(left(tail=first + (line or lines) * 1000))
    monkeypatch.setattr(recover, "HELD_MOST", 1 << 12)
    found = []
    lose = recover.Trace._lose
    monkeypatch.setattr(recover.Trace, "_lose", lambda self, *lost: (found.append(len(lost)), lose(self, *lost)))
    code, _, err = called("recover", "--force", PART)
    assert code == 0 and "bytes held no whole event and are lost" in err and max(found) < 100 < sum(found), err


def test_reads_a_huge_table_in_little_memory():
    """The first line that is no row ends the reading of the table."""
    path = a_trace()
    size, tail = summary_file.identity(open(path, "rb"))
    head = "".join(json.dumps(line) + "\n" for line in (
        {"schema": summary_file.SCHEMA, "trace_bytes": size, "trace_tail": tail}, {"steps": None}, {"collectives": None}, {"table": {"rows": 10, "truncated": False}}))
    row = json.dumps(["a"] + [0] * 15) + "\n"
    for text in ("[" + "[]," * (20 * MB) + "[]]\n", ("[" + "[]," * (MB // 4) + "[]]\n") * 60, row * 300_000):
        pathlib.Path(path + ".summary").write_text(head + text)
        done = in_little_memory("top", "--torch", path)
        assert done.returncode == 0 and "t.json.summary is damaged" in done.stderr and "aten::mm" in done.stdout


@pytest.mark.parametrize("text", ['"a": "%s",' % ("x" * 17 * MB), "".join(f'"k{n}": "{"x" * MB}",' for n in range(20))], ids=["one value", "many"])
def test_refuses_top_level_values_over_16_mb(text):
    with gzip.open("t.json", "wt", 1) as file:
        file.write("{" + text + '"traceEvents": []}')
    code, _, err = called("top", "t.json")
    assert code == 2 and "more than 16 MB" in err


def test_memory_page_limits_its_devices():
    events = [event for n in range(800) for event in (tool.memory(1.0 + n, 64, n + 1, device=1, index=n), tool.memory(2.0 + n, -64, n + 1, device=1, index=n))]
    tool.write("t.json", events + [tool.span("aten::mm", 0.0, 5.0)])
    assert called("memory-timeline", "t.json", "-o", "t.html")[0] == 0
    page = pathlib.Path("t.html").read_text()
    assert len(page) < 10 * MB and page.count("<h2>") == memory_page.DEVICES_MOST and "736 more devices are left out" in page


def a_list(line, n=1):
    text = json.dumps(dict(dict(rank=0, world_size=1, keep=-1, saved_ns=1, path="/x.json", run_name="r",
                                timestamp=dict.fromkeys(_saved.SavedTime._fields, 0)), **line)) + "\n"
    pathlib.Path(_saved.LIST_NAME).write_text(text * n)


def test_refuses_huge_lists_of_saved_traces():
    a_list({})
    assert [paths for _, paths in _saved.saved_traces(".")] == [["/x.json"]]
    os.truncate(_saved.LIST_NAME, 8 << 30)
    with pytest.raises(OSError, match="at most 67,108,864 are read") as error:
        _saved.saved_traces(".")
    assert error.value.errno == errno.EFBIG and error.value.filename.endswith(_saved.LIST_NAME)
    os.truncate(_saved.LIST_NAME, 60 * MB)
    assert [paths for _, paths in _saved.saved_traces(".")] == [["/x.json"]]
    with open(_saved.LIST_NAME, "w") as file:
        for n in range(32):
            a_list(dict(world_size=1 << 20, path=f"/{n}", timestamp=dict.fromkeys(_saved.SavedTime._fields, n)))
            file.write(pathlib.Path(_saved.LIST_NAME).read_text())
    texts = []
    for n in range(32):
        a_list(dict(world_size=1 << 20, path=f"/{n}", timestamp=dict.fromkeys(_saved.SavedTime._fields, n)))
        texts.append(pathlib.Path(_saved.LIST_NAME).read_text())
    pathlib.Path(_saved.LIST_NAME).write_text("".join(texts))
    with pytest.raises(OSError, match="at most 16,777,216 are read"):
        _saved.saved_traces(".")


def test_doctor_runs_no_module_of_the_current_folder():
    """`doctor` starts the program's Python in the user's current folder."""
    for name in ("json", "platform", "ctypes", "importlib", "torch"):
        pathlib.Path(f"{name}.py").write_text(f"open('ran-{name}', 'w')\n")
    done = command_runs.cprof("doctor")
    assert "python" in done.stdout and not list(pathlib.Path().glob("ran-*"))


# ---- cprof run -----------------------------------------------------------------------------------------------------

ATTACKS = {"fifo": "mkfifo t/rank0.0.pt.trace.json", "list": "rm -f t/saved_traces.jsonl; truncate -s 8G t/saved_traces.jsonl"}


@pytest.mark.parametrize("attack, when", [("fifo", "meanwhile"), ("list", "before"), ("list", "meanwhile")])
def test_run_survives_files_planted_in_its_folder(tmp_path, attack, when):
    (tmp_path / "t").mkdir()
    attacked = ATTACKS[attack]
    if when == "before":
        subprocess.run(["sh", "-c", attacked], check=True)
        attacked = "true"
    limited = "ulimit -v 3000000; exec \"$@\""
    done = subprocess.run(["sh", "-c", limited, "sh", *command("run", "--folder", "t", "--overwrite", "--", "sh", "-c", f"{attacked}; echo ran; exit 7")],
                          capture_output=True, text=True, timeout=60, env=environment())
    assert (done.returncode, done.stdout) == (7, "ran\n"), done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
def test_full_stderr_keeps_the_programs_exit_code():
    with open("/dev/full", "w") as full:
        done = subprocess.run(command("run", "sh", "-c", "exit 7"), stdout=subprocess.PIPE, stderr=full, timeout=60, env=environment())
    assert done.returncode == 7


# ---- what reaches a terminal ---------------------------------------------------------------------------------------

def on_a_terminal(*args):
    """What the command writes to a terminal, stdout and stderr together, without its line of progress (after a second)."""
    master, slave = pty.openpty()
    with subprocess.Popen(command(*args), stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, env=environment(PYTHONIOENCODING="utf-8")) as running:
        os.close(slave)
        said = b""
        with contextlib.suppress(OSError):  # the end
            while piece := os.read(master, 65536):
                said += piece
        os.close(master)
    assert running.returncode in (0, 1, 2) and said
    return re.sub(r"(\r\x1b\[K[^\r\n]*)*\r\x1b\[K", "", said.decode().replace("\r\n", "\n"))


@pytest.mark.parametrize("args", [
    ["top"], ["top", "--by", "step"], ["top", "--csv"], ["top", "--json"], ["check"], ["check", "--json"], ["stacks"], ["events"],
    ["ranks"], ["merge", "--force", "-o", f"{EVIL}.out"], ["memory-timeline", "-o", f"{EVIL}.raw.json", "--device", EVIL]], ids=" ".join)
def test_prints_no_escape_sequences_of_a_trace(args):
    """Neither from the file name nor from any text in the trace."""
    names = [tool.write(f"{n}{EVIL}.json", [
        tool.span("ProfilerStep#0", 0.0, 900.0, cat="user_annotation"), tool.span(EVIL, 10.0, 5.0, cat=EVIL, Call_stack=f"{EVIL};a;", External_id=EVIL),
        {"ph": EVIL, "name": EVIL}, {"ph": "f", "id": EVIL, "pid": 1, "tid": 1, "ts": 1.0, "cat": EVIL, "name": EVIL},
        tool.span("aten::mm", 20.0, "x" + EVIL), tool.memory(15.0, 64, 1)], host_name=f"h{n}{EVIL}", schemaVersion=EVIL,
        cprof={"notes": [EVIL], "lost": {EVIL: 1}}, distributedInfo={"rank": n, EVIL: EVIL}, INFO=[EVIL]) for n in range(2)]
    said = on_a_terminal(*args, *names[:1 if args[0] not in ("ranks", "merge") else 2])
    assert all(c.isprintable() or c == "\n" for c in said), ascii(said)
    if args[0] in ("events", "check") and args[-1] != "check":
        for line in said.splitlines():
            json.loads(line)


def test_recover_prints_no_escape_sequences():
    name = EVIL + PART
    pathlib.Path(name).write_bytes(left().replace(b'"rank": 0', b'"rank": %s' % json.dumps(EVIL).encode()))
    code, out, err = called("recover", "--force", name)
    assert code == 0 and "rank " in out and all(c.isprintable() or c == "\n" for c in out + err)


def test_progress_line_shows_no_escape_sequences():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    stream = Terminal()
    with progress.Progress(EVIL, 100, stream) as shown:
        shown._show()
    assert "PWNED" in stream.getvalue() and all(c.isprintable() for c in stream.getvalue().replace("\r\x1b[K", ""))


# ---- cprof trigger -------------------------------------------------------------------------------------------------

def test_trigger_prints_no_escape_sequences_of_an_answer():
    with Listener(f"opens step={EVIL} steps=3\ntrace /x{EVIL}\ndone\n"):
        done = command_runs.cprof("trigger", os.getpid(), "--steps", 3)
    assert done.returncode == 0 and "/x" in done.stdout and all(c.isprintable() or c == "\n" for c in done.stdout + done.stderr)


def test_trigger_refuses_an_endless_answer():
    with Listener("opens step=1 steps=3\n", *["trace x\n" * 4000] * 4):
        done = command_runs.cprof("trigger", os.getpid(), "--steps", 3)
    assert done.returncode == 2 and "answers with more than 10,000 lines" in done.stderr


@as_root
def test_root_does_not_ask_other_users_processes():
    """--all-ranks asks this user's processes only. Another user's process listens at an address that looks like theirs."""
    code = ("import os, socket\ns = socket.socket(socket.AF_UNIX)\ns.bind('\\0cprof-1-4000001')\ns.listen()\nprint('on', flush=True)\n"
            "while True:\n    c, _ = s.accept()\n    c.recv(100); c.sendall(b'status step=1 IMPOSTOR\\n'); c.close()\n")
    with subprocess.Popen([any_python(), "-c", code], stdout=subprocess.PIPE, cwd="/", preexec_fn=become_nobody) as impostor:
        try:
            assert impostor.stdout.readline() == b"on\n"
            done = command_runs.cprof("trigger", "--all-ranks", "--status")
            assert "IMPOSTOR" not in done.stdout
        finally:
            impostor.kill()


def test_trigger_waits_while_the_socket_queue_is_full():
    """Other clients fill the queue of the socket. The command waits for a place in it."""
    with socket.socket(socket.AF_UNIX) as late, contextlib.ExitStack() as stack:
        namespace = os.readlink("/proc/self/ns/pid")[5:-1]
        late.bind(f"\0cprof-{namespace}-{os.getpid()}")
        late.listen(0)
        others = 0
        with contextlib.suppress(BlockingIOError):
            while True:
                other = stack.enter_context(socket.socket(socket.AF_UNIX))
                other.setblocking(False)
                other.connect(late.getsockname())
                others += 1
        running = stack.enter_context(subprocess.Popen(command("trigger", os.getpid(), "--steps", "3"), stdout=subprocess.PIPE, env=environment()))
        until = time.monotonic() + 3
        while "unix" not in pathlib.Path(f"/proc/{running.pid}/wchan").read_text() and time.monotonic() < until:
            time.sleep(0.05)  # not every kernel shows what a process waits for
        for _ in range(others):
            late.accept()[0].close()
        with late.accept()[0] as connection:
            assert connection.recv(100) == b"window steps=3\n"
            connection.sendall(b"opens step=1 steps=3\ntrace /x\ndone\n")
        assert running.communicate(timeout=60)[0] == b"/x\n" and running.returncode == 0


# ---- cprof open ----------------------------------------------------------------------------------------------------

def test_address_of_an_offline_trace_cannot_be_guessed():
    pytest.importorskip("viztracer")
    with opened("--offline", a_trace()) as running:
        origin, rest = running.url.partition("/#!/?url=")[0], address_in(running.url)
        assert rest.startswith(origin + "/") and len(rest.split("/")[3]) >= 20 and rest.endswith("/t.json")
        assert status(rest, method="HEAD") == 200 and status(origin + "/localtrace") == status(origin + "/t.json") == 404
    with opened("--offline", "t.json") as again:
        assert address_in(again.url).split("/")[3] != rest.split("/")[3]


@as_root
def test_serves_no_trace_to_other_users():
    """Another user gets 403 even with the address, which the browser's command line shows."""
    port = free_port()
    with opened(a_trace(), "--port", port) as running:
        address = address_in(running.url).replace("9001", str(port))
        code = f"import urllib.request\nurllib.request.urlopen('{address}')"
        done = subprocess.run([any_python(), "-c", code], preexec_fn=become_nobody, cwd="/", capture_output=True, text=True, timeout=60)
        assert "403" in done.stderr and status(address, method="HEAD") == 200


def test_serves_the_file_that_was_named(tmp_path):
    """A link that replaces the file later is not served."""
    port, trace = free_port(), pathlib.Path(a_trace())
    shown = io.BytesIO()
    write_view(str(trace), shown, trace.name)
    with opened(trace, "--port", port) as running:
        (tmp_path / "private").write_text(PRECIOUS)
        trace.unlink()
        trace.symlink_to(tmp_path / "private")
        assert fetch(address_in(running.url).replace("9001", str(port)))[2] == shown.getvalue()
