# SPDX-License-Identifier: Apache-2.0
"""Attacks on a program that records: by another user, through the environment, through limits of the process."""

import multiprocessing
import os
import resource
import socket
import subprocess
import sys
import threading
import time

import pytest

import servers
from conftest import FULL
from support import Running, environment, files, parse, program, python, run, step_numbers, wait_until
from test_security import NOBODY, PRECIOUS, as_root, needs_curl, public, traps  # noqa: F401

KIB = 1024
TWO_TRACES = dict(WARMUP=0, ACTIVE=1, REPEAT=2)
S3 = dict(AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret")


# ---- limits of the process ---------------------------------------------------------------------------------

@pytest.mark.parametrize("setting", ["TYPO=1", "WAIT=abc", "LOG=debug"])
def test_survives_a_message_to_a_full_stderr(tmp_path, setting):
    """Standard error is a file at RLIMIT_FSIZE: a line written there raises SIGXFSZ."""
    log = tmp_path / "log"
    log.write_bytes(bytes(KIB))
    name, value = setting.split("=")
    with log.open("ab") as stderr:
        done = subprocess.run(program("burst", 1, 10), stdout=subprocess.PIPE, stderr=stderr, timeout=120,
                              env=environment(tmp_path / "t", ACTIVE=2, **{name: value}),
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (KIB, KIB)))
    assert (done.returncode, done.stdout) == (0, b"made 20\n")
    assert log.stat().st_size == KIB


# ---- another file under the name of a trace ------------------------------------------------------------

def replace_by_trap(path, kind, victim):
    """Replaces the file with a trap."""
    path.unlink()
    traps(victim)[kind](path)


@needs_curl
@pytest.mark.parametrize("kind", ["link", "hard link", "fifo"])
def test_uploads_no_file_exchanged_for_a_trace(tmp_path, kind):
    """The second trace is replaced while it waits for the upload of the first one and of its summary."""
    victim, second = tmp_path / "victim", tmp_path / "t/rank0.2.pt.trace.json"
    victim.write_text(PRECIOUS)

    def check(_):
        wait_until(lambda: (tmp_path / "t/saved_traces.jsonl").read_text().count("\n") == 2, "the second trace")
        replace_by_trap(second, kind, victim)

    with servers.Server(check=check) as server:
        result = run(python("steps(2); print('done')"), tmp_path / "t", **TWO_TRACES, NUM_TRACES_TO_KEEP=0,
                     REMOTE_URL=f"http://127.0.0.1:{server.port}", REMOTE_FILE_NAME="{batch}.json")
    assert (result.rc, result.out) == (0, "done\n")
    assert list(server.files) == ["/1.json", "/1.json.summary"] and server.methods == ["PUT"] * 2
    assert step_numbers(parse(server.files["/1.json"])) == [0]
    assert result.complaints == [f"{second}: the upload failed: another file has the name; the file stays"]
    assert os.path.lexists(second) and victim.read_text() == PRECIOUS


@needs_curl
def test_runs_no_command_for_an_exchanged_trace(tmp_path):
    """The trace is replaced while it is uploaded; the on-ready command would come next."""
    victim, trace = tmp_path / "victim", tmp_path / "t/rank0.1.pt.trace.json"
    victim.write_text(PRECIOUS)
    with servers.Server(check=lambda _: replace_by_trap(trace, "link", victim)) as server:
        result = run(python("steps(1)"), tmp_path / "t", WARMUP=0, ACTIVE=1, REPEAT=1, NUM_TRACES_TO_KEEP=0,
                     REMOTE_URL=f"http://127.0.0.1:{server.port}", ON_TRACE_READY=f"cp -t {tmp_path}")
    assert result.complaints == ["CPROF_ON_TRACE_READY: not run, because another file has the name, "
                                 f"for {trace}; the file stays"]
    assert len(server.files) == 2 and trace.is_symlink() and not (tmp_path / trace.name).exists()



@pytest.mark.parametrize("kind", ["hard link", "link"])
def test_exports_no_file_exchanged_for_a_trace(tmp_path, kind):
    victim, trace, copy = tmp_path / "victim", tmp_path / "t/rank0.1.pt.trace.json", tmp_path / "copy.json"
    victim.write_text(PRECIOUS)
    traps(victim)[kind](tmp_path / "trap")
    code = """
export = _call("export_chrome_trace")
steps(1)
print(export((sys.argv[3] + ".first").encode()))
os.replace(*sys.argv[1:3])
print(export(sys.argv[3].encode()))
"""
    result = run(python(code, tmp_path / "trap", trace, copy), tmp_path / "t", WARMUP=0, ACTIVE=1, REPEAT=1)
    assert (result.rc, result.out) == (0, "1\n0\n") and not copy.exists()
    reason = {"hard link": "another file has its name", "link": os.strerror(40)}[kind]
    assert result.complaints == [f'cprof_export_chrome_trace("{copy}"): cannot copy {trace}: {reason}']


# ---- environment -----------------------------------------------------------------------------

@needs_curl
def test_upload_refuses_a_file_url(tmp_path):
    """With AWS_ENDPOINT_URL=file:///... curl would write to a local path."""
    (tmp_path / "up/bucket").mkdir(parents=True)
    result = run(python("steps(1)"), tmp_path / "t", WARMUP=0, ACTIVE=1, REPEAT=1, REMOTE_URL="s3://bucket", REMOTE_FILE_NAME="r.json",
                 env=dict(S3, AWS_ENDPOINT_URL=f"file://{tmp_path}/up"))
    assert files(tmp_path / "up") == []
    complaint, = result.complaints
    assert "the upload failed: AWS_ENDPOINT_URL must begin with http:// or https://" in complaint


@needs_curl
def test_session_token_cannot_add_a_header(tmp_path):
    """A token with a line break is refused. A token of 6,000 characters is sent whole."""
    def upload(token):
        with servers.Server() as server:
            result = run(python("steps(1)"), tmp_path / str(len(token)), WARMUP=0, ACTIVE=1, REPEAT=1, REMOTE_URL="s3://bucket",
                         REMOTE_FILE_NAME="r.json",
                         env=dict(S3, AWS_SESSION_TOKEN=token, AWS_ENDPOINT_URL=f"http://127.0.0.1:{server.port}"))
        return [headers.get("x-amz-security-token") for headers in server.headers], result.complaints
    long = "T" * 6000
    assert upload(long) == ([long, long], [])  # of the trace and of its summary
    sent, (complaint,) = upload("t\r\nX-Evil: 4")
    assert sent == [] and complaint.endswith("the upload failed: AWS_SESSION_TOKEN holds a control character; the file stays")


@as_root
def test_host_name_cannot_leave_the_folder(tmp_path):
    """A container may have any host name, and the name becomes part of TensorBoard's file names."""
    folder = tmp_path / "a/b/tb"
    if subprocess.run(["unshare", "--uts", "true"], capture_output=True, timeout=60).returncode:
        pytest.skip("no UTS namespace can be made here")
    code = "import socket; socket.sethostname('../../{out}/x'); steps(1); print('done')"
    result = run(["unshare", "--uts", *python(code)], tmp_path, FOLDER=None, TENSORBOARD_DIR=folder, WARMUP=0, ACTIVE=1, REPEAT=1)
    assert (result.rc, result.out) == (0, "done\n")
    assert [(path.parent, path.name[:14]) for path in result.traces] == [(folder, ".._.._{out}_x_")], result.err


# ---- other users -------------------------------------------------------------------------------------------

VICTIM, ATTACKER = 54321, 54322


def become(uid):
    """For before_exec: becomes this user and leaves all groups."""
    def change():
        os.setgroups([])
        os.setgid(uid)
        os.setuid(uid)
    return change


def put_file_as(uid, path):
    """An empty file of another user, older than the run."""
    path.touch()
    os.chown(path, uid, uid)
    os.utime(path, (1, 1))


def connect_for(seconds, address):
    """Connects as another user, as often as possible."""
    become(ATTACKER)()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket(socket.AF_UNIX) as s:
            s.setblocking(False)
            if s.connect_ex(address):
                time.sleep(0.001)


def test_hard_link_does_not_trigger(tmp_path):
    """A user who may write to the folder can link any empty file of the victim there."""
    (tmp_path / "empty").touch()
    os.link(tmp_path / "empty", tmp_path / "go")
    code = "steps(1); time.sleep(0.6); steps(2); print('done')"
    result = run(python(code), tmp_path / "t", TRIGGER=f"file:{tmp_path / 'go'}", SKIP_FIRST=1000000)
    assert (result.rc, result.out, result.traces) == (0, "done\n", [])
    assert result.complaints == [f"{tmp_path / 'go'}: must belong to this user or root and have one link; it is ignored"]


def test_a_name_that_comes_and_goes_does_not_trigger(tmp_path):
    """As above, but the second name is there for instants only."""
    (tmp_path / "empty").touch()
    racer = subprocess.Popen(program("racer", tmp_path / "empty", tmp_path / "go", 20))
    try:
        result = run(python("steps(400, 0.01); print('done')"), tmp_path / "t", TRIGGER=f"file:{tmp_path / 'go'}", SKIP_FIRST=1000000)
    finally:
        (tmp_path / "empty").unlink()
        racer.wait(60)
    assert (result.rc, result.out, result.traces) == (0, "done\n", []), result.err
    assert all("it is ignored" in line for line in result.complaints), result.err


@as_root
def test_another_users_request_does_not_silence_the_owners(public):
    """Somebody else's file is ignored while it is there. What the owner puts there later counts."""
    folder, trigger = public / "run", public / "run/go"
    folder.mkdir()
    folder.chmod(0o777)
    (public / "t").mkdir()
    (public / "t").chmod(0o777)
    put_file_as(ATTACKER, trigger)

    def replace():
        trigger.unlink()
        put_file_as(VICTIM, public / "go")
        (public / "go").write_text("seconds=0.5")
        (public / "go").rename(trigger)
    timer = threading.Timer(1.0, replace)
    timer.start()
    result = run(program("burst", 1, 10, 1500), public / "t", before_exec=become(VICTIM), cwd="/", TRIGGER=f"file:{trigger}", SKIP_FIRST=1000000)
    timer.join()
    assert (result.rc, len(result.traces)) == (0, 1), result.err
    assert len([line for line in result.complaints if "it is ignored" in line]) == 1, result.err


def test_list_never_writes_to_a_linked_file(tmp_path):
    """Meanwhile another process links a file of this user to the list's name and unlinks it, in a loop."""
    precious, folder = tmp_path / "precious", tmp_path / "t"
    precious.write_text(PRECIOUS)
    folder.mkdir()
    racer = subprocess.Popen(program("racer", precious, folder / "saved_traces.jsonl", 60))
    try:
        result = run(python(f"steps({4000 if FULL else 500}); print('done')"), folder, WARMUP=0, ACTIVE=1, REPEAT=0, SUMMARY_MB=0,
                     NUM_TRACES_TO_KEEP=3, LOG="error")
    finally:
        text = precious.read_text()
        precious.unlink()
        racer.wait(60)
    assert (result.rc, result.out) == (0, "done\n") and text == PRECIOUS


@as_root
def test_another_users_file_does_not_stop_the_recording(public):
    """The attacker leaves an empty file under the name of a trace; cprof takes another name."""
    folder = public / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    put_file_as(ATTACKER, folder / "rank0.1.pt.trace.json")
    result = run(program("burst", 1, 10), folder, before_exec=become(VICTIM), cwd="/", WARMUP=0, ACTIVE=1, REPEAT=1)
    assert (result.rc, result.out, result.complaints) == (0, "made 20\n", [])
    assert [path.name for path in result.traces if path.stat().st_size] == ["rank0.1-2.pt.trace.json"]


def test_a_linked_file_does_not_stop_the_recording(tmp_path):
    """The attacker links a file of the victim's under the name of a trace."""
    (tmp_path / "own").touch()
    os.utime(tmp_path / "own", (1, 1))
    (tmp_path / "t").mkdir()
    os.link(tmp_path / "own", tmp_path / "t/rank0.1.pt.trace.json")
    result = run(program("burst", 1, 10), tmp_path / "t", WARMUP=0, ACTIVE=1, REPEAT=1)
    assert (result.rc, result.out, result.complaints) == (0, "made 20\n", [])
    assert [path.name for path in result.traces if path.stat().st_size] == ["rank0.1-2.pt.trace.json"]


@as_root
def test_unmapped_users_cannot_trigger(public):
    """In a user namespace all unmapped users appear as the overflow user. This process is that user, too."""
    if subprocess.run(["unshare", "--user", "--map-user=65534", "true"], capture_output=True, timeout=60).returncode:
        pytest.skip("no user namespaces here")
    run_folder, folder = public / "run", public / "t"
    for path in (run_folder, folder):
        path.mkdir()
        path.chmod(0o777)
    trigger = run_folder / "go"
    put_file_as(ATTACKER, trigger)
    command = ["unshare", "--user", "--map-user=65534", *program("burst", 1, 10, 400)]
    result = run(command, folder, before_exec=become(VICTIM), cwd="/", TRIGGER=f"file:{trigger}", SKIP_FIRST=1000000)
    assert result.rc == 0 and result.traces == []
    assert [line for line in result.complaints if "must belong to this user or root" in line], result.err


@as_root
def test_user_nobody_may_trigger_outside_user_namespaces(public):
    trigger, folder = public / "run/go", public / "t"
    for path in (trigger.parent, folder):
        path.mkdir()
        path.chmod(0o777)
    put_file_as(NOBODY, trigger)
    if open("/proc/self/uid_map").read().split()[-1] != str(2**32 - 1):
        pytest.skip("this is a user namespace")
    result = run(program("burst", 1, 10, 400), folder, before_exec=become(NOBODY), cwd="/", TRIGGER=f"file:{trigger}",
                 SKIP_FIRST=1000000)
    assert result.rc == 0 and not trigger.exists() and [line for line in result.said if "a window opens" in line], result.err


@as_root
def test_flood_of_connections_does_not_block_the_owner(public):
    """Another user connects to the trigger socket in a loop; the owner still gets an answer."""
    fork = multiprocessing.get_context("fork")
    with Running(python("steps(1); print('on', flush=True); sys.stdin.readline()"), public / "t", TRIGGER="socket",
                 SKIP_FIRST=1000000) as running:
        running.wait_for("on")
        namespace = "".join(c for c in os.readlink(f"/proc/{running.process.pid}/ns/pid") if c.isdigit())
        address = f"\0cprof-{namespace}-{running.process.pid}"
        strangers = [fork.Process(target=connect_for, args=(4, address)) for _ in range(2)]
        for stranger in strangers:
            stranger.start()
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(30)
            wait_until(lambda: s.connect_ex(address) == 0, "a place in the socket's queue")
            s.sendall(b"status\n")
            assert s.recv(200).startswith(b"status pid=")
        for stranger in strangers:
            stranger.join(60)
        assert running.end(9).rc == -9
