# SPDX-License-Identifier: Apache-2.0
"""Attacks on the library: what another user, the environment or a limit of the process can do to a program that records."""

import os
import resource
import subprocess

import pytest

import servers
from support import environment, files, parse, program, python, run, step_numbers, wait_until
from test_security import PRECIOUS, as_root, needs_curl, traps

KIB = 1024
TWO_TRACES = dict(WARMUP=0, ACTIVE=1, REPEAT=2)
S3 = dict(AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="secret")


# ---- limits of the process ---------------------------------------------------------------------------------

@pytest.mark.parametrize("setting", ["TYPO=1", "WAIT=abc", "LOG=debug"])
def test_a_line_on_a_full_stderr_ends_nothing(tmp_path, setting):
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


# ---- a trace whose name is given to another file ------------------------------------------------------------

def exchange(path, kind, victim):
    """Puts a trap in the place of the file."""
    path.unlink()
    traps(victim)[kind](path)


@needs_curl
@pytest.mark.parametrize("kind", ["link", "hard link", "fifo"])
def test_only_what_cprof_wrote_is_uploaded(tmp_path, kind):
    """The second trace is exchanged while it waits for the upload of the first one."""
    victim, second = tmp_path / "victim", tmp_path / "t/rank0.2.pt.trace.json"
    victim.write_text(PRECIOUS)

    def check(_):
        wait_until(lambda: (tmp_path / "t/saved_traces.jsonl").read_text().count("\n") == 2, "the second trace")
        exchange(second, kind, victim)

    with servers.Server(check=check) as server:
        result = run(python("steps(2); print('done')"), tmp_path / "t", **TWO_TRACES, NUM_TRACES_TO_KEEP=0,
                     REMOTE_URL=f"http://127.0.0.1:{server.port}", REMOTE_FILE_NAME="{batch}.json")
    assert (result.rc, result.out) == (0, "done\n")
    assert list(server.files) == ["/1.json"] and server.methods == ["PUT"]
    assert step_numbers(parse(server.files["/1.json"])) == [0]
    assert result.complaints == [f"{second}: the upload failed: another file has the name; the file stays"]
    assert os.path.lexists(second) and victim.read_text() == PRECIOUS


@needs_curl
def test_a_command_gets_only_what_cprof_wrote(tmp_path):
    """The trace is exchanged while it is uploaded; the command after that does not run for it."""
    victim, trace = tmp_path / "victim", tmp_path / "t/rank0.1.pt.trace.json"
    victim.write_text(PRECIOUS)
    with servers.Server(check=lambda _: exchange(trace, "link", victim)) as server:
        result = run(python("steps(1)"), tmp_path / "t", WARMUP=0, ACTIVE=1, REPEAT=1, NUM_TRACES_TO_KEEP=0,
                     REMOTE_URL=f"http://127.0.0.1:{server.port}", ON_TRACE_READY=f"cp -t {tmp_path}")
    assert result.complaints == ["CPROF_ON_TRACE_READY: not run, because another file has the name, "
                                 f"for {trace}; the file stays"]
    assert len(server.files) == 1 and trace.is_symlink() and not (tmp_path / trace.name).exists()



@pytest.mark.parametrize("kind", ["hard link", "link"])
def test_only_what_cprof_wrote_is_exported(tmp_path, kind):
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


# ---- what the environment says -----------------------------------------------------------------------------

@needs_curl
def test_an_upload_goes_to_a_server(tmp_path):
    """AWS_ENDPOINT_URL=file:///... would write to a path."""
    (tmp_path / "up/bucket").mkdir(parents=True)
    result = run(python("steps(1)"), tmp_path / "t", WARMUP=0, ACTIVE=1, REPEAT=1, REMOTE_URL="s3://bucket", REMOTE_FILE_NAME="r.json",
                 env=dict(S3, AWS_ENDPOINT_URL=f"file://{tmp_path}/up"))
    assert files(tmp_path / "up") == []
    complaint, = result.complaints
    assert "the upload failed: AWS_ENDPOINT_URL must begin with http:// or https://" in complaint


@needs_curl
def test_a_session_token_is_one_header(tmp_path):
    """A line break in it makes no other header, and a long one is not cut."""
    def upload(token):
        with servers.Server() as server:
            result = run(python("steps(1)"), tmp_path / str(len(token)), WARMUP=0, ACTIVE=1, REPEAT=1, REMOTE_URL="s3://bucket",
                         REMOTE_FILE_NAME="r.json",
                         env=dict(S3, AWS_SESSION_TOKEN=token, AWS_ENDPOINT_URL=f"http://127.0.0.1:{server.port}"))
        return [headers.get("x-amz-security-token") for headers in server.headers], result.complaints
    long = "T" * 6000
    assert upload(long) == ([long], [])
    sent, (complaint,) = upload("t\r\nX-Evil: 4")
    assert sent == [] and complaint.endswith("the upload failed: AWS_SESSION_TOKEN holds a control character; the file stays")


@as_root
def test_the_name_of_the_host_stays_in_the_folder(tmp_path):
    """A container may have any name; TensorBoard's workers are called by it."""
    folder = tmp_path / "a/b/tb"
    if subprocess.run(["unshare", "--uts", "true"], capture_output=True, timeout=60).returncode:
        pytest.skip("no name space of its own for a host's name here")
    code = "import socket; socket.sethostname('../../{out}/x'); steps(1); print('done')"
    result = run(["unshare", "--uts", *python(code)], tmp_path, FOLDER=None, TENSORBOARD_DIR=folder, WARMUP=0, ACTIVE=1, REPEAT=1)
    assert (result.rc, result.out) == (0, "done\n")
    assert [(path.parent, path.name[:14]) for path in result.traces] == [(folder, ".._.._{out}_x_")], result.err
