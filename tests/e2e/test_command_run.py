# SPDX-License-Identifier: Apache-2.0
"""`cprof run`, `cprof env`, `cprof doctor`: the program runs as without cprof, options become settings, and problems are reported
before the program starts."""

import contextlib
import glob
import json
import os
import pty
import re
import shlex
import shutil
import signal
import stat
import subprocess
import sys

import pytest

import support
from command_runs import MARK, ROOT, STEPS, command, cprof, environment, python, refused
from cprof.tool import elf, probe

def summary(done):
    """The lines that `cprof run` prints when the program has ended."""
    return done.stderr.splitlines()


# ---- run ----

def test_run_leaves_stdin_stdout_and_exit_code_alone(tmp_path):
    code = STEPS + "import sys; sys.stdout.write(sys.stdin.read().upper()); sys.exit(7)"
    done = subprocess.run(command("run", "--active", 2, *python(code)), input="hello\n", env=environment(),
                          capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (7, "HELLO\n"), "the program gets stdin and stdout"
    path, = support.files(tmp_path, ".json")
    assert path.name == "rank0.3.pt.trace.json" and support.step_numbers(support.load(path)) == [1, 2]
    first, *commands = summary(done)
    where = re.escape(str(path.relative_to(tmp_path)))
    assert re.fullmatch(rf"cprof: rank 0: 2 steps \(1-2\), mean [\d.e-]+ ms, 0 lost: {where} \([\d.]+ kB\)", first), first
    run = where.split("/")[0]
    assert [re.fullmatch(rf"  \S*cprof (\w+) {run} +# [a-z ,]+", line)[1] for line in commands] == ["explain", "top", "open"], commands


def test_commands_in_the_summary_work(tmp_path):
    done = cprof("run", "--run-name", "mine", *python(STEPS))
    lines = [line.split("#")[0] for line in summary(done)[1:]]
    assert len(lines) == 3
    for line in lines:
        ends = " open " not in line  # `cprof open` prints its address at once and serves until it is stopped
        with subprocess.Popen(line if ends else f"exec {line} --no-browser --port 0", shell=True, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True) as shown:
            said = shown.stdout.read() if ends else shown.stdout.readline()
            if not ends:
                shown.terminate()
            complaint = shown.stderr.read()
        assert said and shown.returncode == (0 if ends else 128 + signal.SIGTERM), (line, shown.returncode, complaint)


def test_summary_has_at_most_twelve_lines(tmp_path):
    code = f"import os, subprocess, sys\nfor rank in range(20): subprocess.run([sys.executable, '-c', {STEPS!r}], env=dict(os.environ, RANK=str(rank)))"
    done = cprof("run", *python(code))
    lines = summary(done)
    assert len(lines) == 12 and [line.split(":")[1] for line in lines[:8]] == [f" rank {rank}" for rank in range(8)], done.stderr
    assert lines[8] == "cprof: and 12 more ranks" and [line.split()[1] for line in lines[9:]] == ["explain", "ranks", "open"], done.stderr
    assert len(support.files(tmp_path, ".json")) == 20


@pytest.mark.parametrize("ranks, named", [(2, "0 1"), (5, None)])
def test_summary_of_one_folder_per_rank(tmp_path, ranks, named):
    code = f"import os, subprocess, sys\nfor rank in range({ranks}): subprocess.run([sys.executable, '-c', {STEPS!r}], env=dict(os.environ, RANK=str(rank)))"
    done = cprof("run", "--folder", "{rank}", *python(code))
    lines = summary(done)
    assert [line.split(":")[1] for line in lines[:ranks]] == [f" rank {rank}" for rank in range(ranks)], done.stderr
    assert [line.split("explain ")[1].split("  #")[0].strip() for line in lines[ranks:ranks + 1]] == ([named] if named else []), done.stderr


def test_summary_has_one_line_per_rank(tmp_path):
    """The summary also finds traces in a folder that the program itself set."""
    code = "import os\nos.environ['RANK'] = '3'\n" + STEPS
    done = cprof("run", "--steps", "1-2,4,6,8", *python(code), env={"CPROF_FOLDER": "traces"})
    assert re.match(r"cprof: rank 3: 5 steps \(1-2, 4, 6, \.\.\.\), mean \S+ ms, 0 lost: traces/rank3\.3\.pt\.trace\.json and 3 more \(", done.stderr), done.stderr
    moved = cprof("run", "--", "env", "CPROF_FOLDER=elsewhere", sys.executable, "-c", STEPS)
    assert "elsewhere/rank0.5.pt.trace.json" in moved.stderr, moved.stderr


def test_summary_reports_losses_with_their_cause(tmp_path):
    """The library's line names the thread and the cause. Only the summary names the trace."""
    code = MARK + "for i in range(3):\n    for _ in range(50000): c.cprof_range_push(b'work'); c.cprof_range_pop()\n    c.cprof_step()"
    done = cprof("run", "--ring-kb", 64, "--active", 2, *python(code))
    path, = support.files(tmp_path, ".json")
    library, rank = done.stderr.splitlines()[:2]
    assert re.fullmatch(r"cprof: rank 0: 1 trace, [\d,]+ events, (at least )?[\d,]+ lost \(thread \d+ lost .*\)", library), done.stderr
    lost = support.load(path)["cprof"]["lost"]["total"]
    assert f", {lost:,} lost: {path.relative_to(tmp_path)} (" in rank, (lost, done.stderr)


@pytest.mark.parametrize("given, failed", [(["--remote-url", "http://127.0.0.1:9/nobody"], "the upload failed: "),
                                           (["--on-trace-ready", "false"], "CPROF_ON_TRACE_READY: ended with status 1 for ")])
def test_path_appears_once_when_an_upload_or_command_fails(tmp_path, given, failed):
    done = cprof("run", "--run-name", "up", "--num-traces-to-keep", 0, *given, *python(STEPS))
    path, = support.files(tmp_path, ".json")
    assert failed in done.stderr and done.stderr.count(str(path.relative_to(tmp_path))) == 1, done.stderr
    assert f": up/torch_traces/{path.name} (" in done.stderr, "the line of the rank names it"


@pytest.mark.parametrize("variables, coloured", [({}, True), ({"NO_COLOR": ""}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "dumb"}, False)], ids=str)
def test_summary_is_coloured_on_terminals_only(tmp_path, variables, coloured):
    master, slave = os.openpty()
    done = subprocess.run(command("run", *python(STEPS)), env={**environment(), "TERM": "xterm", **variables}, stderr=slave, timeout=60)
    os.close(slave)
    said = b""
    with contextlib.suppress(OSError):  # EIO: the end
        while more := os.read(master, 4096):
            said += more
    os.close(master)
    assert done.returncode == 0 and b"cprof: rank 0: 4 steps" in said and (b"\033[" in said) == coloured, said


def test_quiet_prints_no_summary(tmp_path):
    done = cprof("run", "-q", *python(STEPS))
    assert done.returncode == 0 and re.fullmatch(r"cprof: rank 0: 1 trace, .*\n", done.stderr) and support.files(tmp_path, ".json")


DOCTOR = " (cprof doctor tells what may be in the way)"


@pytest.mark.parametrize("options, program, code, why", [
    ([], ["true"], 0, "no tensor, CUDA call, collective or mark was seen" + DOCTOR),
    ([], ["false"], 1, "the program ended with exit code 1, and cprof had recorded nothing until then"),
    ([], ["sh", "-c", "kill -9 $$"], 137, "SIGKILL ended the program before one was whole"),
    ([], ["sh", "-c", "kill -35 $$"], 163, "signal 35 ended the program before one was whole"),
    (["--steps", "50"], [sys.executable, "-c", STEPS], 0, "the schedule records none of the program's 9 steps"),
    (["--trigger", "nvtx:never"], [sys.executable, "-c", STEPS], 0, "nothing was recorded; CPROF_TRIGGER=nvtx:never starts recording"),
    (["--no-enabled"], [sys.executable, "-c", STEPS], 0, "CPROF_ENABLED=0 turns recording off")], ids=lambda value: str(value)[:20])
def test_summary_explains_a_missing_trace(options, program, code, why):
    done = cprof("run", *options, "--", *program)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.splitlines()[-1] == f"cprof: no trace was written: {why}", done.stderr


def test_summary_names_what_was_in_the_way(tmp_path):
    (tmp_path / "file").write_text("")
    done = cprof("run", "--folder", "file/traces", *python(STEPS))
    assert done.stderr.splitlines()[-1] == f"cprof: no trace was written: {tmp_path}/file is not a folder", done.stderr
    for _ in range(2):
        done = cprof("run", "--run-name", "twice", *python(STEPS))
    assert done.stderr.splitlines()[-1] == ("cprof: no trace was written: twice/torch_traces holds the traces of an earlier run; use --overwrite "
                                            "or another --run-name"), done.stderr


@pytest.mark.parametrize("given", [
    {"RUN_NAME": ".."}, {"RUN_NAME": "two\nlines"}, {"RUN_NAME": " a/b\t"}, {"RUN_NAME": "[x]*?"}, {"RUN_NAME": "\xa0"}, {"RUN_NAME": ".hidden"}, {"RUN_NAME": "long" * 60},
    {"FILENAME": "out"}, {"FILENAME": "{rank}"}, {"FILENAME": "out.pt.trace"}, {"FILENAME": "x.GZ", "USE_GZIP": "1"}, {"FILENAME": "X.JSON"},
    {"FILENAME": "/a/{rank}/x"}, {"FILENAME": "two\nlines\n"}, {"FILENAME": "{nope}"}, {"FILENAME": " x "},
    {"FOLDER": "two\nlines/{rank}"}, {"FOLDER": " f"}, {"FOLDER": "{epoch}"}, {"FOLDER": "{{x}}"}, {"FOLDER": ""},
    {"TENSORBOARD_DIR": "tb"}, {"TENSORBOARD_DIR": "tb", "TENSORBOARD_WORKER": ".w{rank}", "USE_GZIP": "1"}, {"TENSORBOARD_DIR": "{epoch}"},
    {"REMOTE_URL": "http://127.0.0.1:9/x", "REMOTE_FILE_NAME": "x.json.gz", "UPLOAD_DEADLINE_MS": "0"}], ids=str)
def test_summary_finds_traces_with_odd_names(given, tmp_path):
    odd = tmp_path / "here [1]*"
    odd.mkdir()
    done = cprof("run", "--active", 2, *python(STEPS), cwd=odd, env={f"CPROF_{name}": value for name, value in given.items()})
    assert len(support.files(odd)) == 1 and "cprof: rank 0: 2 steps (1-2), " in done.stderr, done.stderr


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo, lambda path: os.symlink(path, path)], ids=["folder", "fifo", "loop"])
def test_summary_ignores_other_users_folders(tmp_path, make):
    """Another user's folder fits the folder template, and its saved_traces.jsonl cannot be read."""
    others = tmp_path / "shared" / "theirs"
    others.mkdir(parents=True)
    make(others / "saved_traces.jsonl")
    done = cprof("run", "--folder", tmp_path / "shared" / "{run_name}", *python(STEPS), cwd=tmp_path)
    assert done.returncode == 0 and "cprof: rank 0: 4 steps (1-4), " in done.stderr, done.stderr


def test_summary_finds_open_files_with_odd_names(tmp_path):
    code = MARK + "import os, time\nfor i in range(3): c.cprof_range_push(b'work'); c.cprof_range_pop(); c.cprof_step()\ntime.sleep(1.5)\nos.kill(os.getpid(), 9)"
    done = cprof("run", *python(code), env={"CPROF_FOLDER": "two\nlines"})
    assert "cprof: cut off, opens as it is" in done.stderr and "no trace" not in done.stderr, done.stderr
    assert cprof("recover", *tmp_path.glob("*/*.part")).returncode == 0


def test_summary_names_files_still_being_written(tmp_path):
    """The program leaves a child running that still records. Its open file must not count as cut off."""
    child = STEPS + "import time\nprint('on', flush=True)\ntime.sleep(60)"
    code = (f"import os, subprocess, sys\nchild = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)\n"
            "child.stdout.readline()\nimport glob, time\n"
            "while not glob.glob('traces/*.part'): time.sleep(0.05)\nprint(child.pid)")
    done = cprof("run", *python(code), env={"CPROF_FOLDER": "traces", "CPROF_ACTIVE": "1000", "CPROF_WARMUP": "0"})
    os.kill(int(done.stdout), signal.SIGKILL)
    line, = [line for line in summary(done) if line.startswith("cprof: still being written: ")]
    assert f".{int(done.stdout)}.0.part (" in line and "cut off" not in done.stderr, done.stderr


@pytest.mark.parametrize("what, text", [("sh:mv \"$1\" archive/", "5 traces were written and are not here any more"), ("rm", "5 traces were written"),
                                        ("sh:[ $CPROF_TRACE_FIRST_STEP = 1 ] && rm \"$1\" || true", "1 trace was written and is not here any more")])
def test_summary_counts_traces_removed_by_a_command(tmp_path, what, text):
    (tmp_path / "archive").mkdir()
    for _ in range(2):  # the second run must not count the traces that the first one listed
        done = cprof("run", "--active", 1, "--warmup", 1, "--repeat", 0, "--on-trace-ready", what, *python(STEPS),
                     env={"CPROF_FOLDER": "traces", "CPROF_OVERWRITE": "1"})
        assert text in done.stderr and "no trace was written" not in done.stderr, done.stderr
        assert (" and 3 more (" in done.stderr) == text.startswith("1 trace"), done.stderr


def test_summary_counts_traces_replaced_under_one_name(tmp_path):
    """All traces have one name and one is kept. Each replaced trace counts as gone."""
    done = cprof("run", "--active", 1, "--warmup", 1, "--repeat", 0, "--num-traces-to-keep", 1, "--filename", "r.json", *python(STEPS),
                 env={"CPROF_FOLDER": "traces"})
    left = len(list((tmp_path / "traces").glob("*.json")))
    assert f"{5 - left} traces were written and are not here any more" in done.stderr, done.stderr


@pytest.mark.parametrize("program, code", [
    (["sh", "-c", "kill -9 $$"], 137), (["sh", "-c", "kill -15 $$"], 143), (["sh", "-c", "exit 3"], 3),
    (["no-such-program"], 127), (["/dev/null"], 126), (["./no/such"], 127)])
def test_exit_code_is_the_programs_or_a_shells(program, code):
    done = cprof("run", "-q", "--", *program)
    assert done.returncode == code, done.stderr


@pytest.mark.parametrize("word", ["yes", "true", "False", "1", "off"])
def test_value_of_a_switch_is_not_run_as_a_program(word):
    """`yes` and `true` are programs, too: one would never end, the other would take the program's place."""
    done = cprof("run", "--with-stack", word, "--", "echo", "started")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"cprof: {word}: a switch takes no value: --NAME is 1, --no-NAME is 0\n")


@pytest.mark.parametrize("words, said", [(["true-ish", "--", "true"], True), (["0", "true"], True),
                                         (["no-such-program", "true", "--", "x"], False)])
def test_value_after_a_switch_is_explained(words, said):
    """Users write `--with-stack 1` as they write CPROF_WITH_STACK=1."""
    done = cprof("run", "--with-stack", *words)
    assert done.returncode == 127 and f"cprof: {words[0]}: no such program" in done.stderr
    assert ("a switch takes no value: --NAME is 1, --no-NAME is 0" in done.stderr) == said, done.stderr


@pytest.mark.parametrize("words, meant", [(["run", "train.py"], "train.py: no such program (its interpreter comes first: python train.py)"),
                                          (["run", "job"], "job: no such program (in this folder: ./job)"),
                                          (["run", "--", "python train.py"],
                                           "python train.py: no such program (without quotation marks around the program and its arguments)"),
                                          (["true", "train.py"], "true: no such command: a program is run by cprof run -- true train.py")])
def test_a_first_mistake_is_answered_with_the_right_command(tmp_path, words, meant):
    for name in "train.py", "job":
        (tmp_path / name).write_text("")
    done = cprof(*words)
    assert done.returncode in (2, 127) and done.stderr == f"cprof: {meant}\n"


@pytest.mark.parametrize("number", ["SIGTERM", "SIGINT", "SIGUSR1", "SIGHUP", "SIGRTMIN", "SIGRTMAX"])
def test_signals_reach_the_program(number):
    # Python calls a handler between two instructions. A signal just before a sleep waits for its end, so the sleeps are short.
    code = (f"import signal, sys, time\nsignal.signal(signal.{number}, lambda *_: sys.exit(5))\n"
            "print('ready', flush=True)\nwhile True: time.sleep(0.1)")
    with subprocess.Popen(command("run", "-q", *python(code)), stdout=subprocess.PIPE, text=True, env=environment()) as running:
        assert running.stdout.readline() == "ready\n"
        running.send_signal(getattr(signal, number))
        assert running.wait(30) == 5


def test_program_keeps_signal_mask_and_descriptors(tmp_path):
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    code = ("import os, signal, sys\n"
            "print(sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))), signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN)\n"
            f"os.write({writing}, b'here')")
    done = subprocess.run(command("run", "-q", *python(code)), pass_fds=[writing], env=environment(), capture_output=True, text=True, timeout=120)
    plain = subprocess.run([sys.executable, "-c", code], pass_fds=[writing], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and done.stdout == plain.stdout, done.stderr
    assert os.read(reading, 100) == b"herehere"
    os.close(reading)
    os.close(writing)


def test_run_works_with_sigchld_ignored():
    """Some launchers leave SIGCHLD ignored. The program inherits that, and `cprof run` still gets its exit code."""
    code = "import signal, sys; sys.exit(6 if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN else 5)"
    done = subprocess.run(command("run", "-q", *python(code)), env=environment(), capture_output=True, timeout=60,
                          preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    assert done.returncode == 6, done.stderr


def test_run_without_a_program_is_an_error():
    refused(cprof("run", "--active", "3"), "no program")


def test_run_without_a_usable_library_is_an_error(tmp_path):
    refused(cprof("run", "true", env={"CPROF_LIBRARY": tmp_path / "gone.so"}), "CPROF_LIBRARY", "is not there")
    (tmp_path / "text.so").write_text("no library")
    refused(cprof("env", "--library", tmp_path / "text.so"), "is no library")
    spaced = tmp_path / "with blank"
    spaced.mkdir()
    shutil.copy(support.LIBRARY, spaced)
    refused(cprof("run", "--library", spaced, "true"), "LD_PRELOAD cannot name a path with ' '")


def test_run_keeps_an_existing_ld_preload(tmp_path):
    other = shutil.copy(support.LIBRARY, tmp_path / "other.so")
    done = cprof("run", "-q", *python("import os; print(os.environ['LD_PRELOAD'])"), env={"LD_PRELOAD": other})
    assert done.stdout == f"{other}:{support.LIBRARY}\n"
    done = cprof("run", "-q", *python("import os; print(os.environ['LD_PRELOAD'])"), env={"LD_PRELOAD": support.LIBRARY})
    assert done.stdout == f"{support.LIBRARY}\n", "LD_PRELOAD must not name the library twice"


def test_run_replaces_another_copy_in_ld_preload(tmp_path):
    """A container image may set LD_PRELOAD to its own copy. The variables for the driver, NVTX and ITT then name that copy, too."""
    copies = []
    for name in "ab":
        (tmp_path / name).mkdir()
        copies.append(str(shutil.copy(support.LIBRARY, tmp_path / name / support.LIBRARY.name)))
    env = {"LD_PRELOAD": f"libm.so.6 {copies[0]}:{copies[1]}", "CUDA_INJECTION64_PATH": copies[0]}
    code = "import os; print(os.environ['LD_PRELOAD'], os.environ['CUDA_INJECTION64_PATH']); raise SystemExit(5)"
    done = cprof("run", *python(code), env=env)
    assert done.stdout == f"libm.so.6:{support.LIBRARY} {support.LIBRARY}\n" and done.returncode == 5
    said = [line for line in done.stderr.splitlines() if "copy" in line]
    assert said == [f"cprof: LD_PRELOAD names {copy}, another copy of cprof: this run has {support.LIBRARY} in its place" for copy in copies]
    assert "INJECTION" not in done.stderr
    lines = [(state, text) for state, what, text in report(cprof("doctor", "--", sys.executable, env=env)) if what == "copies"]
    assert [state for state, _ in lines] == ["warn"] * 2 and all(copy in text for copy, (_, text) in zip(copies, lines))


def test_run_resolves_a_bare_library_name_as_the_loader_does(tmp_path):
    shutil.copy(support.LIBRARY, tmp_path / support.LIBRARY.name)
    code = "import os; print(os.environ['LD_PRELOAD'])"
    for folder, kept in ((tmp_path, False), (support.LIBRARY.parent, True)):
        done = cprof("run", "-q", *python(code), env={"LD_PRELOAD": support.LIBRARY.name, "LD_LIBRARY_PATH": folder})
        assert done.stdout == f"{support.LIBRARY.name if kept else support.LIBRARY}\n" and done.stderr.count("copy") == 0


# ---- warnings before the program starts ----

def elf_file(path, bits=64, machine=62, interpreter="/lib64/ld-linux-x86-64.so.2"):
    """Writes the ELF header of a program, without code."""
    import struct
    ident = b"\x7fELF" + bytes([2 if bits == 64 else 1, 1, 1]) + bytes(9)
    name = interpreter.encode() + b"\0"
    size, head = (56, "<HHIQQQIHHHHHH") if bits == 64 else (32, "<HHIIIIIHHHHHH")
    start = 16 + struct.calcsize(head)
    text = struct.pack(head, 2, machine, 1, 0, start, 0, 0, start, size, 1 if interpreter else 0, 0, 0, 0)
    if interpreter and bits == 64:
        text += struct.pack("<IIQQQQQQ", 3, 4, start + size, 0, 0, len(name), len(name), 1) + name
    elif interpreter:
        text += struct.pack("<IIIIIIII", 3, start + size, 0, 0, len(name), len(name), 4, 1) + name
    path.write_bytes(ident + text)
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("what, text", [
    ({"interpreter": ""}, "linked statically"), ({"bits": 32, "machine": 3}, "32-bit x86"), ({"machine": 183}, "aarch64"),
    ({"interpreter": "/lib/ld-musl-x86_64.so.1"}, "musl"), ({}, None)])
def test_explains_why_a_program_cannot_load_the_library(tmp_path, monkeypatch, what, text):
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    said = elf.why_not_loaded(str(elf_file(tmp_path / "program", **what)))
    assert (said is None) if text is None else text in said


def test_reads_truncated_elf_headers_without_an_error(tmp_path):
    whole = elf_file(tmp_path / "program").read_bytes()
    for n in range(len(whole)):
        (tmp_path / "cut").write_bytes(whole[:n])
        elf.why_not_loaded(str(tmp_path / "cut"))  # raises nothing


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a set-user-ID program of another user")
def test_warns_about_set_user_id_programs(tmp_path):
    program = tmp_path / "program"
    shutil.copy(shutil.which("true"), program)
    os.chown(program, 65534, 65534)
    program.chmod(0o4755)
    done = cprof("run", "--", program)
    assert f"cprof: warning: {program} is set-user-ID" in done.stderr


def test_warns_about_other_profilers(tmp_path):
    done = cprof("run", "true", env={"CUDA_INJECTION64_PATH": "/opt/nvidia/libToolsInjection64.so"})
    assert done.returncode == 0 and "warning: CUDA_INJECTION64_PATH=/opt/nvidia" in done.stderr
    nsys = tmp_path / "nsys"
    nsys.write_text("#!/bin/sh\n")
    nsys.chmod(0o755)
    assert "warning: Nsight Systems has CUPTI to itself" in cprof("run", "--", nsys).stderr


def test_finds_cupti_beside_torch_and_on_the_loaders_path(tmp_path):
    for place, found in (("nvidia/cu13/lib", {"torch": {"folder": str(tmp_path / "torch")}}), ("here", {"torch": None})):
        folder = tmp_path / place
        folder.mkdir(parents=True)
        (folder / "libcupti.so.13").touch()
        assert probe.find_cupti(found, {"LD_LIBRARY_PATH": str(tmp_path / "here")}) == str(folder / "libcupti.so.13")


def test_reports_windows_on_a_terminal(tmp_path):
    code = MARK + ("import time\nfor i in range(4):\n    c.cprof_range_push(b'work'); time.sleep(0.5); c.cprof_range_pop(); c.cprof_step()\n"
                   "time.sleep(0.7)")
    master, slave = pty.openpty()
    with subprocess.Popen(command("run", "--active", 2, *python(code)), env=environment(), stdin=slave, stdout=slave,
                          stderr=slave) as running:
        os.close(slave)
        text = b""
        try:
            while True:
                text += os.read(master, 4096)
        except OSError:  # the terminal's other end is closed
            pass
        assert running.wait(30) == 0
    os.close(master)
    lines = [line for line in text.decode().replace("\r", "").splitlines() if line.startswith("cprof: window")]
    assert re.fullmatch(r"cprof: window open: rank0\.1\.pt\.trace\.json\.\d+\.1\.part", lines[0]), text.decode()
    assert lines[1:] == ["cprof: window closed: rank0.3.pt.trace.json"], text.decode()


def test_control_c_reaches_the_program_once(tmp_path):
    """The terminal sends SIGINT to both processes. `cprof run` must not forward it again, and ends with the program."""
    code = ("import signal, sys, time\nseen = []\nsignal.signal(signal.SIGINT, lambda *_: seen.append(1))\n"
            "print('ready', flush=True)\nend = time.time() + 1.5\nwhile time.time() < end: time.sleep(0.05)\nprint('seen', len(seen))\nsys.exit(4)")
    master, slave = pty.openpty()
    with subprocess.Popen(command("run", "-q", *python(code)), env=environment(), stdin=slave, stdout=slave, stderr=slave,
                          start_new_session=True, preexec_fn=lambda: __import__("fcntl").ioctl(0, 0x540E, 0)) as running:
        os.close(slave)
        text = b""
        while b"ready" not in text:
            text += os.read(master, 4096)
        os.write(master, b"\x03")
        try:
            while True:
                text += os.read(master, 4096)
        except OSError:
            pass
        assert running.wait(30) == 4, text
    os.close(master)
    assert b"seen 1" in text, text


def test_a_signal_to_its_own_group_reaches_the_program_once(tmp_path):
    """`kill 0` of a launcher, or os.killpg(): cprof run is in the group, too, and must not send the signal back."""
    code = ("import os, signal, time\nwaited = {signal.SIGRTMIN}\nsignal.pthread_sigmask(signal.SIG_BLOCK, waited)\nos.killpg(0, signal.SIGRTMIN)\n"
            "time.sleep(0.5)\nprint('seen', sum(signal.sigtimedwait(waited, 0) is not None for _ in range(3)))")
    done = subprocess.run(command("run", "-q", *python(code)), env=environment(), capture_output=True, text=True, timeout=60, start_new_session=True)
    assert (done.returncode, done.stdout) == (0, "seen 1\n"), done.stderr


# ---- env ----

def test_env_prints_shell_code(tmp_path):
    done = cprof("env", "--active", 2, "--run-name", "it's $HOME `x` \"q\"", "--record-shapes")
    show = "\npython3 -c 'import json, os; print(json.dumps(dict(os.environ)))'"
    for before, after in ((None, str(support.LIBRARY)), ("/x/libother.so", f"/x/libother.so:{support.LIBRARY}")):
        env = environment(LD_PRELOAD=None)
        script = (f"LD_PRELOAD={before}\n" if before else "") + done.stdout + "\nset > " + shlex.quote(str(tmp_path / "set"))
        subprocess.run(["sh", "-euc", script], env=env, check=True, capture_output=True, timeout=120)
        seen = (tmp_path / "set").read_text()
        assert f"LD_PRELOAD='{after}'" in seen and "CPROF_ACTIVE='2'" in seen and "CPROF_RECORD_SHAPES='1'" in seen
    shown = subprocess.run(["sh", "-euc", done.stdout + show], env=environment(LD_PRELOAD=None), capture_output=True, text=True, timeout=120)
    assert json.loads(shown.stdout)["CPROF_RUN_NAME"] == "it's $HOME `x` \"q\""


def test_env_replaces_another_copy(tmp_path):
    """Only one of two copies in a process records, so `cprof env` replaces the other, as `cprof run` does. Running it again changes nothing."""
    copy = tmp_path / "libcprof.so"
    copy.write_bytes(b"")
    expected = f"/x/libother.so:{support.LIBRARY}:/y/last.so"
    for before, notes in ((f"/x/libother.so:{copy}:/y/last.so", 1), (expected, 0)):
        done = cprof("env", env={"LD_PRELOAD": before})
        script = done.stdout + '\nprintf %s "$LD_PRELOAD"'
        shown = subprocess.run(["sh", "-euc", script], env=environment(LD_PRELOAD=before), capture_output=True, text=True, check=True, timeout=120)
        assert shown.stdout == expected
        assert done.stderr.count(f"LD_PRELOAD names {copy}, another copy of cprof: this run has {support.LIBRARY} in its place") == notes


# ---- doctor ----

def report(done):
    return [line.split(None, 2) for line in done.stdout.splitlines()]


def test_doctor_of_a_healthy_setup(tmp_path):
    done = cprof("doctor", "--", sys.executable)
    lines = {what: (state, text) for state, what, text in report(done)}
    assert done.returncode == 0 and done.stderr == "" and "off" not in {state for state, _, _ in report(done)}
    assert str(support.LIBRARY) in lines["library"][1] and "version" in lines["library"][1]
    assert lines["preload"] == ("ok", "the library comes along")
    assert all(word in lines["children"][1] for word in ("musl end with 127", "AddressSanitizer with 1", "R reports"))
    assert lines["schedule"] == ("ok", "steps 1 to 4") and str(tmp_path) in lines["folder"][1]


@pytest.mark.parametrize("pattern", ["2.7.*", "3.6.*"])
def test_doctor_of_an_old_python(pattern):
    """The library works in an old Python. Only Python stacks are missing."""
    found = glob.glob(os.path.expanduser(f"~/.pyenv/versions/{pattern}/bin/python"))
    if not found:
        pytest.skip(f"pyenv has no Python {pattern}")
    lines = {what: (state, text) for state, what, text in report(cprof("doctor", "--", found[0]))}
    assert lines["preload"] == ("ok", "the library comes along")
    assert lines["python"][0] == "warn" and re.match(f"cpython {pattern[:3]}.*its frames are not known", lines["python"][1])


def test_doctor_warns_without_per_thread_descriptor_tables():
    done = cprof("doctor", preexec_fn=support.refuse_close_range)
    lines = {what: (state, text) for state, what, text in report(done)}
    assert done.returncode == 0 and lines["files"][0] == "warn" and "Function not implemented" in lines["files"][1]


@pytest.mark.parametrize("given, flight, metrics", [
    ({}, None, None), ({"FLIGHT": "1"}, ("ok", "a hang is saved after 60 s, with Python's frames"), None),
    ({"FLIGHT": "mb:8", "FLIGHT_HANG_S": "0"}, ("ok", "hangs are not looked for"), None),
    ({"METRICS": "/tmp/{rank}.prom"}, None, ("ok", "every 10 s")), ({"METRICS": "/proc/none/{rank}.prom"}, None, ("off", "cannot be written to"))], ids=str)
def test_doctor_of_flight_recorder_and_metrics(given, flight, metrics):
    lines = {what: (state, text) for state, what, text in report(cprof("doctor", env={f"CPROF_{name}": value for name, value in given.items()}))}
    for what, said in (("flight", flight), ("metrics", metrics)):
        assert (what in lines) == (said is not None) and (not said or (lines[what][0], said[1] in lines[what][1]) == (said[0], True)), lines


def test_doctor_reports_bad_settings_and_unknown_torch(tmp_path):
    torch = tmp_path / "site/torch"
    torch.mkdir(parents=True)
    (torch / "__init__.py").touch()
    (torch / "version.py").write_text("__version__ = '99.1.0'\ncuda = None\n")
    done = cprof("doctor", "--", sys.executable, env={
        "PYTHONPATH": tmp_path / "site", "CPROF_FOLDER": "/proc/none/{rank}", "CPROF_ACTIV": "3", "CPROF_WAIT": "x",
        "CPROF_REPEAT": "0", "CPROF_SKIP_FIRST": "10", "RANK": "3", "WORLD_SIZE": "8"})
    lines = report(done)
    found = {(state, what): text for state, what, text in lines}
    assert done.returncode == 1
    assert found["off", "torch"].startswith("99.1.0: its layout is not known")
    assert "/proc cannot be written to" in found["off", "folder"]
    said = [text for state, what, text in lines if (state, what) == ("warn", "settings")]
    assert sorted(said) == ["CPROF_ACTIV: unknown setting; did you mean CPROF_ACTIVE?",
                            "CPROF_WAIT=x: must be a whole number from 0 to 2147483647; using the default 0"]
    assert "CPROF_WAIT" not in found["ok", "settings"] and "CPROF_REPEAT=0" in found["ok", "settings"]
    assert found["ok", "schedule"] == "steps 11 to 14, then 4 of every 5"
    assert found["ok", "rank"] == "3 of 8 (torchrun's variables)"


@pytest.mark.parametrize("step, said", [("", "CPROF_STEP=optimizer:GLOB chooses"), ("optimizer: Adam*", "matches Adam*; "), ("forward", None)])
def test_doctor_reports_which_optimizers_mark_steps(step, said):
    lines = {what: text for state, what, text in report(cprof("doctor", "--", "true", env={"CPROF_STEP": step}))}
    assert said in lines["steps"] if said else "steps" not in lines


def test_upload_url_is_never_shown():
    """The URL may hold a password, and users paste doctor's output into bug reports."""
    url = "https://user:secret@host/x"
    done = cprof("doctor", "--", sys.executable, env={"CPROF_REMOTE_URL": url})
    assert done.returncode == 0 and "secret" not in done.stdout + done.stderr and done.stdout.count("CPROF_REMOTE_URL=(set)") == 2
    refused(cprof("run", "--remote-url", url * 200, "--", "true"), "--remote-url=(set): must be at most 4000 bytes")


def test_doctor_of_a_static_program(tmp_path):
    done = cprof("doctor", elf_file(tmp_path / "program", interpreter=""))
    assert done.returncode == 1 and "off   program" in done.stdout and "linked statically" in done.stdout


@pytest.mark.parametrize("program, said", [("no-such-program", "no such program"), ("./no-such-program", "no such program"),
                                           ("/etc", "cannot be executed: it is a folder"),
                                           ("/etc/passwd", "cannot be executed: it lacks the permission")])
def test_doctor_of_a_program_that_cannot_run(program, said):
    """doctor does not use a shell's exit codes 126 and 127: no program was to run."""
    done = cprof("doctor", "--", program)
    assert done.stdout == ""
    refused(done, f"{program}: {said}")


def test_doctor_reports_disabled_recording():
    done = cprof("doctor", env={"CPROF_ENABLED": "0"})
    assert done.returncode == 1 and "off   settings  CPROF_ENABLED=0\nok    settings  the others: the defaults\n" in done.stdout


@pytest.mark.parametrize("given, text", [
    ({}, "the defaults"), ({"WAIT": "2"}, "CPROF_WAIT=2"), ({"WAIT": "x"}, "the others: the defaults"),
    ({"WAITT": "2"}, "the others: the defaults"), ({"WAIT": "x", "ACTIVE": "2"}, "the others: CPROF_ACTIVE=2"),
    ({"TRIGGER": "signal:FOO"}, "the others: the defaults"), ({"ENABLED": "1"}, "CPROF_ENABLED=1")], ids=str)
def test_doctor_lists_only_good_settings_as_ok(given, text):
    """A setting with a warning is not listed as ok."""
    done = cprof("doctor", env={f"CPROF_{name}": value for name, value in given.items()})
    assert [(state, said) for state, what, said in report(done) if what == "settings"][-1] == ("ok", text)


@pytest.mark.parametrize("name, value, why", [
    ("REMOTE_URL", "ftp://host/x", "must begin with http://, https:// or s3://; nothing is uploaded"),
    ("REMOTE_URL", "s3:///x", "names no bucket; nothing is uploaded"), ("REMOTE_URL", "https://", "names no host; nothing is uploaded"),
    ("ON_TRACE_READY", "no-such-program {x}", "no-such-program: no such program; it is not run"),
    ("ON_TRACE_READY", "'a", "a quote is not closed, or there are more than 255 words; it is not run"),
    ("ON_TRACE_READY", "sh:anything", None), ("ON_TRACE_READY", "ls -l 'a b'", None), ("REMOTE_URL", "HTTP://host", None),
    ("TENSORBOARD_DIR", "/tmp/{epoch}", "unknown variable {epoch}"), ("TENSORBOARD_DIR", "here/{rank}", None),
    ("TRACE_HANDLERS", "./gone.so=x", "trace handler ./gone.so cannot be loaded"),
    ("TRACE_HANDLERS", str(support.LIBRARY), "has no cprof_trace_handler_open()"),
    ("TRACE_HANDLERS", f"{support.BUILD}/e2e/libhandler_log.so=x", None),
    ("TRIGGER", "signal:FOO", "must be one of USR1, USR2, HUP"), ("TRIGGER", "file:/tmp/{epoch}", "the trigger is off"),
    ("TRIGGER", "anything", "must be one of off, signal:NAME"), ("TRIGGER", "signal:USR2", None), ("TRIGGER", "file:/tmp/{rank}", None),
    ("TRIGGER", "cuda", None)])
def test_doctor_checks_uploads_commands_handlers_and_triggers(tmp_path, name, value, why):
    """doctor runs the library's own checks and prints its messages. The check writes no file."""
    done = cprof("doctor", "--", sys.executable, env={"CPROF_" + name: value})
    text = f"CPROF_{name}={'(set)' if name == 'REMOTE_URL' else value}"
    found = [line for line in report(done) if line[1] in ("handlers", "trigger")]
    assert [state for state, _, _ in found] == ["off" if why else "ok"], done.stdout
    assert why in found[0][2] if why else found[0][2] == text
    assert done.returncode == (1 if why else 0) and support.files(tmp_path) == []


@pytest.mark.parametrize("given, said", [
    ({"NUM_TRACES_TO_KEEP": "0"}, "CPROF_NUM_TRACES_TO_KEEP=0: keeps no trace at all without CPROF_REMOTE_URL or CPROF_ON_TRACE_READY; ignored"),
    ({"TENSORBOARD_DIR": "here", "FOLDER": "there"}, "CPROF_FOLDER=there: CPROF_TENSORBOARD_DIR says where traces go; ignored"),
    ({"SCHEDULE_SCOPE": "none", "ACTIVE": "3"}, "CPROF_ACTIVE=3: counts nothing with CPROF_SCHEDULE_SCOPE=none; ignored"),
    ({"STEPS": "5-3"}, "CPROF_STEPS=5-3: 5-3 ends before it begins; using the default"),
    ({"ACTIVITIES": "cpu,xpu"}, "CPROF_ACTIVITIES=cpu,xpu: xpu and mtia are not supported; the rest is recorded"),
    ({"PEAK_TFLOPS": "-1"}, "CPROF_PEAK_TFLOPS=-1: must be a number above 0"),
    ({"LOG": "loud"}, "CPROF_LOG=loud: must be one of error, warn, info, debug; using the default info"),
    ({"LOG": "error", "WAIT": "x"}, "CPROF_WAIT=x: must be a whole number")])
def test_doctor_repeats_the_librarys_warnings(tmp_path, given, said):
    done = cprof("doctor", env={f"CPROF_{name}": value for name, value in given.items()})
    warned = [text for state, what, text in report(done) if (state, what) == ("warn", "settings")]
    assert len(warned) == 1 and warned[0].startswith(said), done.stdout
    assert said.split(":")[0] not in {text for state, what, text in report(done) if state == "ok"}
    assert done.returncode == 0 and support.files(tmp_path) == []


def test_doctor_checks_settings_without_a_python_program():
    """The check then runs inside doctor's own Python."""
    done = cprof("doctor", "/bin/sh", env={"CPROF_TRIGGER": "signal:FOO"})
    assert done.returncode == 1 and "off   trigger   CPROF_TRIGGER=signal:FOO: must be one of" in done.stdout


def test_doctor_of_a_folder_that_cannot_be_made():
    for name in ("CPROF_FOLDER", "CPROF_TENSORBOARD_DIR"):
        done = cprof("doctor", env={name: "/proc/tb"})
        assert done.returncode == 1 and "off   folder    /proc/tb: /proc cannot be written to" in done.stdout, done.stdout


def test_doctor_of_a_folder_that_holds_an_earlier_run(tmp_path):
    """With CPROF_OVERWRITE=0, the default, the library would record nothing; doctor prints the library's message."""
    env = {"CPROF_FOLDER": tmp_path, "CPROF_RUN_NAME": "x"}
    trace = support.run(support.python("steps(20)"), tmp_path, RUN_NAME="x").traces[0]
    os.utime(trace, (10, 10))  # cprof ignores traces of the same second, so this one must be older
    for overwrite, rank, said in (("0", "0", True), ("1", "0", False), ("0", "1", False)):
        done = cprof("doctor", env=dict(env, CPROF_OVERWRITE=overwrite, RANK=rank, WORLD_SIZE="2"))
        line = f"off   folder    {trace}: a trace of an earlier run is in the way and CPROF_OVERWRITE=0; nothing is recorded."
        assert (line in done.stdout, done.returncode) == (said, int(said)), done.stdout


@pytest.mark.parametrize("folder,filename,helps", [("{run_name}", None, "CPROF_RUN_NAME"), ("f", "{run_name}.json", "CPROF_RUN_NAME"),
                                                   ("f", None, "CPROF_FOLDER")])
def test_advice_against_an_earlier_run_works(tmp_path, folder, filename, helps):
    """The message suggests another run name, or another folder where no file name depends on the run name. Following it works."""
    names = {"FOLDER": f"{tmp_path}/{folder}", "FILENAME": filename, "RUN_NAME": "x"}
    trace = support.run(support.python("steps(20)"), tmp_path, **names).traces[0]
    os.utime(trace, (10, 10))
    again = support.run(support.python("steps(20)"), tmp_path, **names)
    assert again.complaints[0] == f"{trace}: a trace of an earlier run is in the way and CPROF_OVERWRITE=0; nothing is recorded. " \
        f"Set CPROF_OVERWRITE=1 or another {helps}"
    names[helps.removeprefix("CPROF_")] = f"{tmp_path}/g" if helps == "CPROF_FOLDER" else "y"
    assert len(support.run(support.python("steps(20)"), tmp_path, **names).traces) == 2


def test_doctor_does_not_consume_a_trigger_file(tmp_path):
    (tmp_path / "go").touch()
    done = cprof("doctor", env={"CPROF_TRIGGER": "file:go", "CPROF_SCHEDULE_SCOPE": "none"})
    assert done.returncode == 0 and [path.name for path in support.files(tmp_path)] == ["go"]


@pytest.mark.parametrize("name", ["none", "None", " "])
def test_doctor_of_an_upload_that_is_off(name):
    done = cprof("doctor", "--", sys.executable, env={"CPROF_REMOTE_URL": "ftp://host/x", "CPROF_REMOTE_FILE_NAME": name})
    assert "ok    handlers  CPROF_REMOTE_URL=(set): nothing is uploaded, CPROF_REMOTE_FILE_NAME is none or empty\n" in done.stdout
    assert done.returncode == 0


def test_doctor_looks_for_curl(tmp_path):
    done = cprof("doctor", "--", sys.executable, env={"CPROF_REMOTE_URL": "http://host", "PATH": tmp_path})
    assert "off   handlers  CPROF_REMOTE_URL=(set): uploads need the program curl, which is not in PATH; nothing is uploaded\n" in done.stdout


# ---- installing ----

def test_make_install_and_uninstall_the_command(tmp_path):
    """The installed command finds its package and the library. `make uninstall` leaves no file."""
    made = subprocess.run(["make", "-s", "-C", ROOT, "install", f"DESTDIR={tmp_path}", "PREFIX=/opt/x",
                           f"BUILD={support.BUILD}"], capture_output=True, text=True, timeout=120)
    assert made.returncode == 0, made.stderr
    installed = tmp_path / "opt/x/bin/cprof"
    done = subprocess.run([installed, "env"], capture_output=True, text=True, env=environment(CPROF_LIBRARY=None), timeout=120)
    assert done.stdout.endswith(f":}}\"{tmp_path}/opt/x/lib/libcprof.so\n"), done.stdout + done.stderr
    assert stat.S_IMODE(installed.stat().st_mode) == 0o755
    said = [line for line in made.stdout.splitlines() if not line.startswith("  ")]
    assert said[0] == "LD_PRELOAD=/opt/x/lib/libcprof.so python train.py"
    assert said[1].startswith("import cprof: with PYTHONPATH=/opt/x/share/cprof, ")
    assert (tmp_path / "opt/x/lib/pkgconfig/cprof.pc").is_file()
    code = "import ctypes; print(ctypes.CDLL(None).cprof_step is not None)"  # LD_LIBRARY_PATH stands for the loader's cache
    bare = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=tmp_path,
                          env=environment(LD_PRELOAD="libcprof.so", LD_LIBRARY_PATH=tmp_path / "opt/x/lib"))
    assert bare.stdout == "True\n" and bare.stderr == "", bare.stderr
    subprocess.run(["make", "-s", "-C", ROOT, "uninstall", f"DESTDIR={tmp_path}", "PREFIX=/opt/x"], check=True, timeout=120)
    assert support.files(tmp_path / "opt") == []


def make_install(*args, path=None):
    env = dict(os.environ, PATH=f"{path}:{os.environ['PATH']}") if path else None
    done = subprocess.run(["make", "-s", "-C", ROOT, *args, f"BUILD={support.BUILD}"], capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if not line.startswith("  ")]  # indented lines are the build's


def test_make_install_makes_the_module_importable(tmp_path):
    """`import cprof` works in the python3 below PREFIX. The output says whether the loader finds the bare name libcprof.so."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True, timeout=120)
    said = make_install("install", f"PREFIX={venv}", path=venv / "bin")
    assert said[0] == f"LD_PRELOAD={venv}/lib/libcprof.so python train.py" and said[1].startswith("LD_PRELOAD=libcprof.so: the loader "), said
    asked = subprocess.run([venv / "bin/python3", "-c", "import cprof; print(cprof.__file__)"], capture_output=True, text=True, timeout=120,
                           env=environment(PYTHONPATH=None))
    assert asked.stdout == f"{venv}/share/cprof/cprof/__init__.py\n", asked.stderr
    make_install("uninstall", f"PREFIX={venv}", path=venv / "bin")
    assert not [path for path in venv.rglob("*") if "cprof" in path.name]


def test_pip_installs_the_command(tmp_path):
    pytest.importorskip("setuptools.build_meta")
    site = support.pip_install(tmp_path)
    done = subprocess.run([site / "bin/cprof", "env"], capture_output=True, text=True,
                          env=environment(PYTHONPATH=site), timeout=120)
    assert str(support.LIBRARY) in done.stdout, done.stderr
