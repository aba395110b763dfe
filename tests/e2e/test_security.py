# SPDX-License-Identifier: Apache-2.0
"""The promises of .github/SECURITY.md, attacked by a user who may write to the traces' folder, and by another user."""

import contextlib
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile

import pytest

import servers
from conftest import ROOT
from support import LIBRARY, Running, files, load, program, python, run, step_numbers, wait_until

ACTIVE_FROM_1 = dict(WARMUP=1, ACTIVE=1000)
NOBODY = 65534
PRECIOUS = "precious\n"
SECRETS = dict(AWS_ACCESS_KEY_ID="AKIDEXAMPLE", AWS_SECRET_ACCESS_KEY="wJalrSECRETkey", AWS_SESSION_TOKEN="SESSIONtoken",
               AWS_REGION="eu-north-1")

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become another user")
needs_curl = pytest.mark.skipif(not shutil.which("curl"), reason="no curl on this machine")


def traps(victim):
    """{kind: function that puts such a trap at a path where cprof is about to write}"""
    return {"link": lambda path: path.symlink_to(victim), "dangling link": lambda path: path.symlink_to(victim.with_name("new")),
            "hard link": lambda path: os.link(victim, path), "fifo": os.mkfifo, "folder": pathlib.Path.mkdir}


KINDS = list(traps(pathlib.Path("victim")))


@pytest.fixture(params=KINDS)
def trap(request, tmp_path):
    """set() puts a trap at a path. unharmed() is false if cprof fell into it."""
    class Trap:
        kind = request.param
        victim = tmp_path / "victim"

        def set(self, path):
            path.parent.mkdir(parents=True, exist_ok=True)
            traps(self.victim)[self.kind](path)

        def unharmed(self):
            return self.victim.read_text() == PRECIOUS and not self.victim.with_name("new").exists()

    Trap.victim.write_text(PRECIOUS)
    return Trap()


# ---- files in a shared folder ------------------------------------------------------------------------------

@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_file_modes_follow_the_umask(tmp_path, mask):
    code = f"os.umask({mask}); steps(4); _call('export_chrome_trace')((sys.argv[1] + '/copy.json').encode())"
    result = run(python(code, tmp_path), tmp_path / "a/b", WARMUP=1, ACTIVE=1, REPEAT=0)
    made = [*result.traces, tmp_path / "a/b/saved_traces.jsonl", tmp_path / "copy.json"]
    assert len(made) == 4
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o666 & ~mask}
    assert {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a", tmp_path / "a/b")} == {0o777 & ~mask}


def test_trap_at_the_open_file(tmp_path, trap):
    """An attacker can predict the open file's name from the pid. cprof takes another name, or stops recording with one line."""
    folder = tmp_path / "traces"
    trap.set(folder / "here")
    code = """
os.rename(sys.argv[1] + "/here", f"{sys.argv[1]}/rank0.1.pt.trace.json.{os.getpid()}.1.part")
steps(4); print("done")
"""
    result = run(python(code, folder), folder, **ACTIVE_FROM_1)
    assert (result.rc, result.out) == (0, "done\n") and trap.unharmed()
    assert len(result.traces) == 1 or len(result.complaints) == 1, result.err
    for path in result.traces:
        load(path)


@pytest.mark.parametrize("overwrite", [0, 1])
def test_trap_at_the_name_of_the_trace(tmp_path, trap, overwrite):
    folder = tmp_path / "traces"
    code = """
steps(3); flushed(b"ProfilerStep#2")
os.rename(sys.argv[1], sys.argv[2] + "/rank0.4.pt.trace.json")
steps(1); print("done")
"""
    trap.set(tmp_path / "trap")
    kind = stat.S_IFMT((tmp_path / "trap").lstat().st_mode)
    result = run(python(code, tmp_path / "trap", folder), folder, OVERWRITE=overwrite, **ACTIVE_FROM_1)
    assert (result.rc, result.out) == (0, "done\n") and trap.unharmed()
    assert stat.S_IFMT((folder / "rank0.4.pt.trace.json").lstat().st_mode) == kind
    left = [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink() and path.name != "saved_traces.jsonl"
            and path.suffix != ".summary" and not path.samefile(trap.victim)]
    assert len(left) == 1 and step_numbers(load(left[0])) == [1, 2, 3], "the trace has this or another name"


def test_trap_at_the_open_file_while_recording(tmp_path, trap):
    """The file is replaced between two flushes. cprof neither writes to the trap nor waits for it."""
    folder = tmp_path / "traces"
    code = """
steps(3); flushed(b"ProfilerStep#2")
part, = [name for name in os.listdir(sys.argv[2]) if name.endswith(".part")]
os.rename(f"{sys.argv[2]}/{part}", sys.argv[2] + "/moved")
os.rename(sys.argv[1], f"{sys.argv[2]}/{part}")
steps(1); time.sleep(0.3); steps(1); print("done")
"""
    trap.set(tmp_path / "trap")
    result = run(python(code, tmp_path / "trap", folder), folder, **ACTIVE_FROM_1)
    assert (result.rc, result.out) == (0, "done\n") and trap.unharmed()
    assert len(result.said) == 1 and "recording is off" in result.said[0]
    assert step_numbers(load(folder / "moved")) == [1, 2]


def test_trap_at_the_list_of_traces(tmp_path, trap):
    folder = tmp_path / "traces"
    trap.set(folder / "saved_traces.jsonl")
    result = run(python("steps(3); print('done')"), folder, **ACTIVE_FROM_1)
    assert (result.rc, result.out) == (0, "done\n") and trap.unharmed()
    assert len(result.complaints) == 1, result.err
    assert "cannot add the trace to the list" in result.complaints[0]
    assert len([path for path in result.traces if step_numbers(load(path)) == [1, 2]]) == 1


def test_trap_at_the_trigger_file(tmp_path, trap):
    """The trap starts no recording and stays. One line reports it."""
    trigger = tmp_path / "go"
    trap.set(trigger)
    code = "steps(1); time.sleep(0.6); steps(2); time.sleep(0.3); print('done')"
    result = run(python(code), tmp_path / "traces", TRIGGER=f"file:{trigger}", SKIP_FIRST=1000000)
    assert (result.rc, result.out) == (0, "done\n") and trap.unharmed() and result.traces == []
    assert len(result.complaints) == 1, result.err


def test_trap_at_an_exported_trace(tmp_path, trap):
    """The last trace is replaced by a trap before it is exported."""
    second = tmp_path / "second"
    code = """
steps(3)
export = _call("export_chrome_trace")
assert export((sys.argv[2] + "/first.json").encode()) == 1
os.unlink(sys.argv[2] + "/rank0.2.pt.trace.json")
os.rename(sys.argv[1], sys.argv[2] + "/rank0.2.pt.trace.json")
export((sys.argv[2] + "/copy.json").encode())
print("done")
"""
    trap.set(tmp_path / "trap2")
    result = run(python(code, tmp_path / "trap2", second), second, WARMUP=0, ACTIVE=2)
    assert (result.rc, result.out) == (0, "done\n") and trap.unharmed(), result.err


@as_root
def test_trap_where_an_export_goes(public):
    """In a folder like /tmp cprof does not follow another user's link, and does not harm a hard link, FIFO or folder."""
    folder, victim = public / "shared", public / "victim"
    folder.mkdir()
    folder.chmod(0o1777)
    victim.write_text(PRECIOUS)
    for kind, trap in traps(victim).items():
        trap(folder / f"{kind}.json")
        os.chown(folder / f"{kind}.json", NOBODY, NOBODY, follow_symlinks=False)
    code = """
steps(3)
print(*(_call("export_chrome_trace")(f"{sys.argv[1]}/{kind}.json".encode()) for kind in sys.argv[2:]))
"""
    result = run(python(code, folder, *KINDS), public / "t", WARMUP=0, ACTIVE=2)
    assert (result.rc, result.out) == (0, "0 0 1 0 0\n"), result.err
    assert len(result.complaints) == 4
    assert victim.read_text() == PRECIOUS and not victim.with_name("new").exists()


def test_writes_no_file_outside_the_folder(tmp_path):
    """cprof writes nothing to /tmp, TMPDIR, the working folder or the home folder."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    code = "steps(4); _call('export_chrome_trace')(b'copy.json')"
    run(python(code), tmp_path / "traces", cwd=elsewhere, WARMUP=1, ACTIVE=2, ON_TRACE_READY="true", TRIGGER="socket",
        env=dict(TMPDIR=str(elsewhere), HOME=str(elsewhere)))
    assert [path.name for path in elsewhere.iterdir()] == ["copy.json"]
    code_and_data = subprocess.run(["readelf", "-p", ".rodata", "-p", ".data", LIBRARY], capture_output=True, check=True, timeout=60)
    assert b"/tmp" not in code_and_data.stdout


# ---- other users -------------------------------------------------------------------------------------------

@pytest.fixture
def public():
    """A folder that other users can enter."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        for path in (pathlib.Path(folder), *pathlib.Path(folder).parents, *LIBRARY.parents):
            if not path.stat().st_mode & stat.S_IXOTH:
                pytest.skip(f"other users cannot enter {path}")
        yield pathlib.Path(folder)


def become_nobody():
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


@as_root
def test_leaves_another_users_files_alone(public):
    """In a folder like /tmp, another user has files under the names that cprof would use."""
    folder = public / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    theirs = folder / "rank0.2.pt.trace.json"
    for path in (theirs, folder / "saved_traces.jsonl"):
        path.write_text(PRECIOUS)
        path.chmod(0o600)

    result = run(program("burst", 1, 10), folder, before_exec=become_nobody, cwd=public, OVERWRITE=1, RUN_NAME="r", **ACTIVE_FROM_1)
    assert (result.rc, result.out) == (0, "made 20\n")
    assert theirs.read_text() == (folder / "saved_traces.jsonl").read_text() == PRECIOUS
    assert 1 <= len(result.complaints) <= 2
    mine = [path for path in files(folder) if path != theirs]
    assert len(mine) == 1 and step_numbers(load(mine[0])) == [1]


@as_root
def test_inert_in_set_user_id_programs(public):
    """A set-user-ID program is linked to the library. cprof writes no file and no line, and sets no variable."""
    binary = public / "secure"
    subprocess.run([os.environ.get("CC", "cc"), "-o", binary, ROOT / "tests/e2e/c/secure.c", f"-I{ROOT}", "-Wl,--no-as-needed",
                    LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}", "-ldl"], check=True, timeout=60)
    folder = public / "traces"
    folder.mkdir()
    folder.chmod(0o777)
    said = {}
    for mode in (0o755, 0o4755):
        binary.chmod(mode)
        result = run([binary], folder, preload=False, before_exec=become_nobody, cwd=public, WARMUP=1, ACTIVE=1)
        said[mode] = result.out, len(result.traces), result.err != ""
        for path in files(folder):
            path.unlink()
    if said[0o4755][0].startswith("secure 0"):
        pytest.skip("this file system does not honour the set-user-ID bit")
    assert said == {0o755: ("secure 0, CUDA_INJECTION64_PATH set\n", 1, True),
                    0o4755: ("secure 1, CUDA_INJECTION64_PATH not set\n", 0, False)}


# ---- contents of traces ------------------------------------------------------------------------------------

def test_names_are_never_run_by_a_shell(tmp_path):
    """Markers and the run name hold shell code. The run name is part of the path that on-ready commands get."""
    evil = "$(touch pwned1)`touch pwned2`;touch pwned3|touch pwned4\n&& touch pwned5 '\"<script>"
    code = f"push({evil.encode()!r}); mark({evil.encode()!r}); pop(); steps(3)"
    work = tmp_path / "work"
    work.mkdir()
    for at, command in enumerate(("cat", "sh:cat \"$1\" >/dev/null")):
        run(python(code), f"{tmp_path}/{at}/{{run_name}}", cwd=work, RUN_NAME=evil.replace("/", ""), ON_TRACE_READY=command,
            **ACTIVE_FROM_1)
        assert list(work.iterdir()) == [] and not list(tmp_path.rglob("pwned?"))
        trace, = files(tmp_path / str(at), ".json")
        load(trace)


@needs_curl
def test_credentials_appear_nowhere_else(tmp_path):
    """Credentials are in no trace, list or message (also in debug), on no command line, and not in curl's environment."""
    with servers.Server("slow") as server:
        url = "s3://bucket/prefix"
        env = dict(SECRETS, AWS_ENDPOINT_URL=f"http://127.0.0.1:{server.port}")
        code = "steps(1); print('on', flush=True); sys.stdin.readline()"
        with Running(python(code), tmp_path / "t", WARMUP=0, ACTIVE=1, LOG="debug", REMOTE_URL=url, env=env) as running:
            wait_until(lambda: server.methods, "the upload")
            curls = our_curls(tmp_path)
            assert curls
            seen = [(curl / name).read_bytes() for curl in curls for name in ("cmdline", "environ")]
            result = running.end(9)
    written = [path.read_bytes() for path in (tmp_path / "t").rglob("*") if path.is_file()]
    assert written
    for text in (*seen, *written, result.err.encode(), result.out.encode()):
        assert not [name for name, secret in SECRETS.items() if name != "AWS_REGION" and secret.encode() in text], text[:2000]


def our_curls(folder):
    """/proc/PID of this test's curl processes, recognised by the folder of its traces."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            is_curl = b"\0--config\0-\0" in (path / "cmdline").read_bytes()
            if is_curl and f"CPROF_FOLDER={folder}/t\0".encode() in (path / "environ").read_bytes():
                found.append(path)
    return found


@needs_curl
def test_url_password_is_not_in_curls_environment(tmp_path):
    with servers.Server("slow") as server:
        code = "steps(1); print('on', flush=True); sys.stdin.readline()"
        with Running(python(code), tmp_path / "t", WARMUP=0, ACTIVE=1, LOG="debug",
                     REMOTE_URL=f"http://joe:pa55word@127.0.0.1:{server.port}/x") as running:
            wait_until(lambda: server.methods, "the upload")
            curls = our_curls(tmp_path)
            assert curls and not [c for c in curls for name in ("cmdline", "environ") if b"pa55word" in (c / name).read_bytes()]
            result = running.end(9)
    assert "pa55word" not in result.err
    assert not [path for path in (tmp_path / "t").rglob("*") if path.is_file() and b"pa55word" in path.read_bytes()]
