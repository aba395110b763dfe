# SPDX-License-Identifier: Apache-2.0
"""Bad settings and hostile surroundings: cprof prints one clear line for each, and the program does not notice."""

import re
import resource
import shutil
import subprocess

import pytest

from support import (LIBRARY, Result, bound_by_permissions, events, files, load, no_mounts_reason,
                     own_descriptors_reason, own_mounts, program, python, refuse_close_range, run, step_numbers)

TWO_STEPS = dict(WARMUP=0, ACTIVE=2)


def assert_one_complaint(result, *parts):
    """Asserts that the program was not harmed and that cprof's only complaint holds all the parts."""
    assert (result.rc, result.out, result.others) == (0, "done\n", "")
    assert len(result.complaints) == 1, result.err
    for part in parts:
        assert part in result.complaints[0], result.complaints[0]


# ---- values ------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("name, value, parts", [
    ("ACTIVE", "0", ("from 1 to", "default 4")),
    ("WAIT", "-1", ("from 0 to", "default 0")),
    ("WARMUP", "two", ("whole number", "default 1")),
    ("WARMUP", "1.5", ("whole number", "default 1")),
    ("REPEAT", "99999999999999999999", ("whole number", "default 1")),
    ("USE_GZIP", "maybe", ("0 or 1", "default 0")),
    ("SCHEDULE_SCOPE", "year", ("run, epoch, none", "default run")),
    ("LOG", "loud", ("error, warn, info, debug", "default info")),
    ("FILENAME", "{nope}", ("unknown variable {nope}", "{batch}", "default rank{rank}.{batch}.pt.trace.json")),
    ("FILENAME", "rank{rank", ("default rank{rank}",)),
    ("RING_KB", "1", ("from 64", "default 8192")),
    ("ACTIVITIES", "cpu,quantum", ("cpu", "default cpu,cuda")),
])
def test_bad_value_is_reported_and_replaced_by_the_default(tmp_path, name, value, parts):
    result = run(python("steps(6); print('done')"), tmp_path, **{name: value})
    assert_one_complaint(result, f"CPROF_{name}={value}", *parts)
    assert result.names == ["rank0.5.pt.trace.json"], "the default applies"


def test_bad_folder_template_is_replaced_by_the_default(tmp_path):
    result = run(python("steps(6); print('done')"), tmp_path, cwd=tmp_path, FOLDER="{batch}/x", RUN_NAME="r")
    assert_one_complaint(result, "CPROF_FOLDER={batch}/x", "{batch}", "default {run_name}/torch_traces")
    assert result.traces == [tmp_path / "r/torch_traces/rank0.5.pt.trace.json"]


@pytest.mark.parametrize("name, nearest", [("ACTIVEE", "CPROF_ACTIVE"), ("GZIP", "CPROF_USE_GZIP"),
                                           ("SKIPFIRST", "CPROF_SKIP_FIRST")])
def test_unknown_setting_suggests_the_nearest(tmp_path, name, nearest):
    result = run(python("steps(6); print('done')"), tmp_path, **{name: "3"})
    assert_one_complaint(result, f"CPROF_{name}", nearest)
    assert result.names == ["rank0.5.pt.trace.json"]


def test_several_bad_settings_have_a_line_each(tmp_path):
    result = run(python("steps(6)"), tmp_path, ACTIVE="x", WAIT="y", NOPE="z")
    assert len(result.complaints) == 3 and result.rc == 0


def test_idle_program_prints_nothing_about_bad_settings(tmp_path):
    """Every tool of a job loads the library, so an idle program must print no line and leave no file, even with bad settings."""
    for command in (["/bin/true"], ["/bin/sh", "-c", "echo a | cat"], python("print('hello')")):
        plain = run(command, tmp_path, preload=False)
        result = run(command, tmp_path, ACTIVE="bad", NOPE=1)
        assert (result.rc, result.out, result.err) == (plain.rc, plain.out, plain.err)
    assert files(tmp_path) == []


def test_constructor_changes_no_process_state(tmp_path):
    code = ("fds = sorted(os.listdir('/proc/self/fd')); print(len(os.listdir('/proc/self/task')), len(fds), "
            "[signal.getsignal(n) for n in range(1, 32)], signal.pthread_sigmask(signal.SIG_BLOCK, []))")
    assert run(python(code), tmp_path).out == run(python(code), tmp_path, preload=False).out


def test_disabled_library_does_nothing(tmp_path):
    result = run(python("steps(6); print('done', os.environ.get('CUDA_INJECTION64_PATH'))"), tmp_path, ENABLED=0)
    assert (result.rc, result.out, result.err) == (0, "done None\n", "")
    assert files(tmp_path) == []


def test_log_level_limits_the_lines(tmp_path):
    for level, lines in (("debug", 1), ("info", 1), ("warn", 0), ("error", 0)):
        result = run(python("steps(6); print('done')"), tmp_path / level, LOG=level)
        assert (result.rc, result.out) == (0, "done\n") and len(result.traces) == 1
        if level == "debug":
            assert any("rank 0: 1 trace" in line for line in result.said)
        else:
            assert len(result.said) == lines
    result = run(python("steps(6)"), tmp_path / "x", LOG="error", ACTIVE="bad")
    assert result.said == []
    result = run(python("steps(6)"), tmp_path / "y", LOG="warn", ACTIVE="bad")
    assert len(result.said) == 1


def test_writes_nothing_after_stderr_was_closed(tmp_path):
    """The program closes descriptors 1 and 2 and opens files in their place. cprof writes nothing into these files."""
    code = """
os.close(1); os.close(2)
for name in sys.argv[1:3]: os.open(name, os.O_CREAT | os.O_RDWR)
steps(6); time.sleep(0.3)
"""
    result = run(python(code, tmp_path / "one", tmp_path / "two"), tmp_path / "traces", LOG="warn")
    assert (result.rc, result.out, result.err) == (0, "", "")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes() == b""
    assert len(result.traces) == 1


# ---- folders and disks -------------------------------------------------------------------------------------

def test_folder_that_is_a_file_is_reported(tmp_path):
    (tmp_path / "file").write_text("x")
    result = run(python("steps(6); print('done')"), tmp_path / "file")
    assert_one_complaint(result, str(tmp_path / "file"), "Not a directory")
    assert (tmp_path / "file").read_text() == "x"


@pytest.mark.parametrize("sleep", [0, 0.4])
def test_folder_without_permission_is_reported(tmp_path, sleep):
    """The error comes at the first flush; for a short window, at its only flush."""
    folder = tmp_path / "locked"
    folder.mkdir(mode=0o555)
    result = run(python(f"steps(1); time.sleep({sleep}); steps(5); print('done')"), folder, **TWO_STEPS,
                 before_exec=bound_by_permissions)
    assert_one_complaint(result, "Permission denied", "recording is off")
    assert files(tmp_path) == []


def test_read_only_file_system_is_reported(tmp_path):
    reason = no_mounts_reason()
    if reason:
        pytest.skip(reason)
    result = in_mounts(tmp_path, 'mount -t tmpfs -o ro,size=64k none "$M"', "steps(6); print('done')", **TWO_STEPS)
    assert_one_complaint(result, "Read-only file system", "recording is off")


def in_mounts(tmp_path, mounts, code, **settings):
    """Runs Python code with its own file system at tmp_path/fs, and copies the files there to tmp_path/left."""
    (tmp_path / "fs").mkdir()
    (tmp_path / "left").mkdir()
    shell = f'{mounts}; rc=0; "$@" || rc=$?; cp -r "$M"/. "$LEFT"; exit $rc'
    command = [*own_mounts(), shell, "sh", "env", f"LD_PRELOAD={LIBRARY}", *python(code)]
    done = run(command, tmp_path / "fs", preload=False, env=dict(M=str(tmp_path / "fs"), LEFT=str(tmp_path / "left")),
               **settings)
    return Result(done.rc, done.out, done.err, tmp_path / "left")


def test_full_disk_keeps_the_earlier_flush(tmp_path):
    """A flush does not fit. The file of the flush before can be read, and the failed flush takes no space from the program."""
    reason = no_mounts_reason()
    if reason:
        pytest.skip(reason)
    code = """
steps(1); mark(b"before"); flushed(b'"before"')
for i in range(30000): mark(b"flood")
time.sleep(0.6); steps(1); print("done")
"""
    result = in_mounts(tmp_path, 'mount -t tmpfs -o size=256k none "$M"', code, WARMUP=1, ACTIVE=9)
    assert_one_complaint(result, "No space left on device", "recording is off", ".part")
    assert result.traces == [] and len(result.parts) == 1
    trace = load(result.parts[0])
    assert len(events(trace, name="before")) == 1 and events(trace, name="flood") == []


def test_nearly_full_disk_stops_the_recording(tmp_path):
    """Recording stops while 5 % of the disk are still free for the program."""
    reason = no_mounts_reason()
    if reason:
        pytest.skip(reason)
    code = """
steps(1)
for i in range(150): steps(4); time.sleep(0.01)
s = os.statvfs(os.environ["M"])
print("done" if s.f_bavail * 100 > s.f_blocks * 3 else f"only {s.f_bavail} of {s.f_blocks} blocks are left")
"""
    mounts = 'mount -t tmpfs -o size=4m none "$M"; head -c 3800000 /dev/zero >"$M/other"'
    result = in_mounts(tmp_path, mounts, code, WARMUP=1, ACTIVE=99999)
    assert_one_complaint(result, "nearly full", "recording is off")
    trace = load(result.parts[0])
    assert step_numbers(trace)[0] == 1 and trace["cprof"]["complete"] is False


def test_nearly_full_disk_stops_short_windows(tmp_path):
    """Each window is so short that its only flush comes at its end."""
    reason = no_mounts_reason()
    if reason:
        pytest.skip(reason)
    code = "steps(200, 0.004); print('done')"
    result = in_mounts(tmp_path, 'mount -t tmpfs -o size=1m none "$M"', code, WARMUP=0, ACTIVE=1, REPEAT=0)
    assert_one_complaint(result, "nearly full", "recording is off")
    assert 5 < len(result.traces) < 100
    for path in result.traces:
        load(path)


def test_file_size_limit_stops_the_recording(tmp_path):
    """At RLIMIT_FSIZE, SIGXFSZ would kill the program if cprof's thread took signals."""
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 10, 100 << 10))
    code = """
steps(1); mark(b"before"); flushed(b'"before"')
for i in range(3000): mark(b"flood")
time.sleep(0.6); steps(1); print("done")
"""
    result = run(python(code), tmp_path, before_exec=limit, WARMUP=1, ACTIVE=9)
    assert_one_complaint(result, "File too large", "recording is off")
    assert len(events(load(result.parts[0]), name="before")) == 1


def test_limited_address_space_is_left_to_the_program(tmp_path):
    """Under RLIMIT_AS, memory that cprof maps would be missing for the program."""
    code = """
import resource, mmap
size = int(open("/proc/self/statm").read().split()[0]) * mmap.PAGESIZE
resource.setrlimit(resource.RLIMIT_AS, (size + (64 << 20), -1))
steps(6)
if len(mmap.mmap(-1, 60 << 20)) == 60 << 20: print("done")
"""
    result = run(python(code), tmp_path, WARMUP=0, ACTIVE=3)
    assert_one_complaint(result, "RLIMIT_AS", "nothing is recorded")


def test_records_with_large_thread_local_storage(tmp_path):
    """The C library puts thread-local storage on each thread's stack. cprof's two threads must still have enough stack."""
    result = run(program("thread_storage"), tmp_path, WITH_STACK=1, LOG="debug", WARMUP=0, ACTIVE=1000)
    assert (result.rc, result.out, result.others) == (0, "done 1\n", "")
    assert own_descriptors_reason() or not [line for line in result.said if "among the program's own" in line]
    trace = load(result.traces[0])
    assert trace["cprof"]["complete"] and len(events(trace, name="work")) == 5


def test_records_nothing_without_a_thread(tmp_path):
    """RLIMIT_NPROC binds users without privileges, not root."""
    code = """
import resource
if os.geteuid() == 0: os.setresgid(54321, 54321, 54321); os.setresuid(54321, 54321, 54321)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
try: threading.Thread(target=print).start(); print("a thread was started")
except RuntimeError: pass
steps(6); print("done")
"""
    result = run(python(code), tmp_path)
    if "a thread was started" in result.out:
        pytest.skip("RLIMIT_NPROC has no effect here")
    assert_one_complaint(result, "cannot start a thread", "nothing is recorded")
    assert files(tmp_path) == []


ALL_DESCRIPTORS_TAKEN = """
import resource
steps(1)
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
taken = []
try:
    while True: taken.append(os.open("/dev/null", os.O_RDONLY))
except OSError: pass
time.sleep(0.6); steps(3)
for fd in taken: os.close(fd)
print("done")
"""


@pytest.mark.skipif(own_descriptors_reason() is not None, reason=own_descriptors_reason() or "")
def test_records_while_the_program_uses_all_descriptors(tmp_path):
    """cprof's files are in another descriptor table."""
    result = run(python(ALL_DESCRIPTORS_TAKEN), tmp_path, WARMUP=1, ACTIVE=9)
    assert (result.rc, result.out, result.complaints) == (0, "done\n", [])
    assert step_numbers(load(result.traces[0])) == [1, 2, 3]


def test_shared_descriptor_table_without_room_stops_recording(tmp_path):
    """Without close_range(), cprof's files are in the program's table. No file can be opened, which one line reports."""
    result = run(python(ALL_DESCRIPTORS_TAKEN), tmp_path, WARMUP=1, ACTIVE=9, before_exec=refuse_close_range)
    assert_one_complaint(result, "Too many open files", "recording is off")


@pytest.mark.skipif(not shutil.which("nm"), reason="no nm on this machine")
def test_library_needs_libc_only():
    needed = subprocess.run(["readelf", "-d", LIBRARY], capture_output=True, text=True, check=True).stdout
    rest = set(re.findall(r"NEEDED.*\[(.*?)\]", needed)) - {"libc.so.6", "libdl.so.2", "libpthread.so.0"}
    # every process has the loader
    assert all(re.fullmatch(r"ld-linux[\w-]*\.so\.\d+", name) for name in rest), rest


def test_debug_log_prints_settings_and_schedule(tmp_path):
    result = run(python("steps(6)"), tmp_path, LOG="debug", WARMUP=1, ACTIVE=2)
    assert "woken by a marker" in result.said
    assert any(line.startswith("CPROF_ACTIVE=2") for line in result.said)
    schedule, = [line for line in result.said if line.startswith("schedule: ")]
    assert "warm up 1" in schedule and "record 2" in schedule
    assert run(python("steps(6)"), tmp_path / "info", WARMUP=1, ACTIVE=2).complaints == []
