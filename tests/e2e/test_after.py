# SPDX-License-Identifier: Apache-2.0
"""What happens to a finished trace: the on-ready command, the upload, removal of old traces, the list of saved traces."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import pytest

import servers
from conftest import ROOT
from support import LIBRARY, Running, files, load, python, run, step_numbers, wait_until

sys.path.insert(0, str(ROOT / "scripts/python"))
import cprof  # noqa: E402

CYCLE = dict(WARMUP=0, ACTIVE=1, REPEAT=0)  # a trace for each step
KEYS = dict(AWS_ACCESS_KEY_ID="AKIDEXAMPLE", AWS_SECRET_ACCESS_KEY="wJalr/SECRET+key=", AWS_REGION="eu-north-1")

needs_nginx = pytest.mark.skipif(servers.nginx_reason() is not None, reason=servers.nginx_reason() or "")
needs_curl = pytest.mark.skipif(not shutil.which("curl"), reason="no curl on this machine")


def script(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    return path


# ---- CPROF_ON_TRACE_READY -------------------------------------------------------------------------------------------

def test_command_gets_path_rank_and_steps_of_each_trace(tmp_path):
    """The command runs once per finished trace, in order. Its output goes to stderr behind cprof's prefix."""
    tool = script(tmp_path / "tool", 'echo "$# $1 $2 $CPROF_TRACE_RANK $CPROF_TRACE_FIRST_STEP-$CPROF_TRACE_LAST_STEP"\n'
                  '[ "$2" = "$CPROF_TRACE_PATH" ] && python3 -m json.tool "$2" >/dev/null && echo whole >&2\n')
    result = run(python("steps(4)"), tmp_path / "t", WARMUP=1, ACTIVE=1, REPEAT=0,
                 ON_TRACE_READY=f"{tool} 'two words'", env=dict(RANK="3", WORLD_SIZE="8"))
    assert result.rc == 0 and result.out == ""
    names = [tmp_path / "t" / f"rank3.{n}.pt.trace.json" for n in (2, 4)]
    assert result.complaints == [f"2 two words {names[0]} 3 1-1", "whole", f"2 two words {names[1]} 3 3-3", "whole"]


def test_command_runs_in_a_shell_only_with_sh_prefix(tmp_path):
    result = run(python("steps(1)"), tmp_path / "a", **CYCLE, ON_TRACE_READY="echo $HOME ;")
    assert result.complaints == [f"$HOME ; {result.traces[0]}"]
    result = run(python("steps(1)"), tmp_path / "b", **CYCLE, ON_TRACE_READY='sh:echo "got $(basename "$1")" | tr a-z A-Z')
    assert result.complaints == ["GOT RANK0.1.PT.TRACE.JSON"]


def test_commands_run_one_at_a_time(tmp_path):
    tool = script(tmp_path / "tool", f'mkdir {tmp_path}/busy || echo two at once; sleep 0.05; rmdir {tmp_path}/busy\n')
    result = run(python("steps(8)"), tmp_path / "t", **CYCLE, ON_TRACE_READY=tool)
    assert len(result.traces) == 8 and result.complaints == []


def test_command_runs_without_libcprof(tmp_path):
    """The command keeps the user's variables and the other libraries of LD_PRELOAD; libcprof and its variables are removed."""
    tool = script(tmp_path / "tool", f"env >{tmp_path}/env; ls -l /proc/$$/fd >{tmp_path}/fds; cat /proc/self/status "
                  f">{tmp_path}/status; cat /proc/$$/maps >{tmp_path}/maps\n")
    other = tmp_path / "libother.so"
    subprocess.run(["cc", "-shared", "-o", str(other), "-x", "c", "/dev/null"], check=True)
    code = "import signal\nfor s in (signal.SIGUSR1, signal.SIGCHLD, signal.SIGPIPE): signal.signal(s, signal.SIG_IGN)\n" \
           "f = open('/dev/zero'); os.set_inheritable(f.fileno(), True); os.environ['SET_LATE'] = '1'; steps(1)"
    result = run(python(code), tmp_path / "t", **CYCLE, ON_TRACE_READY=tool,
                 env=dict(LD_PRELOAD=str(other), ITS_OWN="yes"))
    assert result.rc == 0 and result.complaints == []
    env = (tmp_path / "env").read_text()
    assert f"LD_PRELOAD={other}\n" in env and "ITS_OWN=yes\n" in env and "SET_LATE=1\n" in env
    assert str(LIBRARY) not in env and "INJECTION64" not in env and "INTEL_LIBITTNOTIFY64" not in env
    assert "libcprof" not in (tmp_path / "maps").read_text()
    assert "/dev/zero" not in (tmp_path / "fds").read_text()
    assert "SigBlk:\t0000000000000000" in (tmp_path / "status").read_text()


def test_program_sees_no_child_while_a_command_runs(tmp_path):
    """While a command runs, wait() and waitpid(-1) fail with ECHILD, and the program gets no SIGCHLD."""
    code = """
import errno, signal
caught = []
signal.signal(signal.SIGCHLD, lambda *a: caught.append(a))
steps(1)
end = time.monotonic() + 10
while not os.path.exists(sys.argv[1]) and time.monotonic() < end: time.sleep(0.01)
for wait in (lambda: os.wait(), lambda: os.waitpid(-1, 0), lambda: os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)):
    try:
        wait(); print("a child was seen")
    except ChildProcessError as e:
        assert e.errno == errno.ECHILD
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
print("SIGCHLD" if signal.sigtimedwait([signal.SIGCHLD], 0.5) else "none", caught)
assert subprocess.run(["true"]).returncode == 0
"""
    tool = script(tmp_path / "tool", f"touch {tmp_path}/began; sleep 0.4; touch {tmp_path}/ended\n")
    result = run(python(code, tmp_path / "began"), tmp_path / "t", **CYCLE, ON_TRACE_READY=tool)
    assert result.rc == 0 and result.out == "none []\n" and result.complaints == []
    assert (tmp_path / "ended").exists()


def test_failing_command_is_reported_and_keeps_the_trace(tmp_path):
    result = run(python("steps(3)"), tmp_path / "t", **CYCLE, NUM_TRACES_TO_KEEP=0, ON_TRACE_READY="sh:exit 3")
    assert len(result.traces) == 3
    assert result.complaints == [f"CPROF_ON_TRACE_READY: ended with status 3 for {result.traces[0]}; the file stays",
                                 "CPROF_ON_TRACE_READY: 3 of 3 commands failed"]
    result = run(python("steps(1)"), tmp_path / "u", **CYCLE, ON_TRACE_READY="no-such-tool x")
    assert result.complaints == ["CPROF_ON_TRACE_READY: no-such-tool: no such program; it is not run"]
    result = run(python("steps(1)"), tmp_path / "v", **CYCLE, ON_TRACE_READY="echo 'open")
    assert "a quote is not closed" in result.complaints[0] and len(result.traces) == 1


def test_command_ends_at_the_deadline(tmp_path):
    """The exit kills the command and its children once CPROF_UPLOAD_DEADLINE_MS is over."""
    tool = script(tmp_path / "tool", f"echo $$ >{tmp_path}/pid; sleep 1000 & sleep 1000\n")
    result = run(python("steps(2)"), tmp_path / "t", **CYCLE, ON_TRACE_READY=tool, UPLOAD_DEADLINE_MS=400)
    assert result.rc == 0
    assert result.complaints == ["2 traces not uploaded, or the command not run to its end, within "
                                 "CPROF_UPLOAD_DEADLINE_MS=400; the files stay"]
    session = int((tmp_path / "pid").read_text())
    alive = subprocess.run(["ps", "-s", str(session), "-o", "stat="], capture_output=True, text=True).stdout.split()
    assert [state for state in alive if not state.startswith("Z")] == []


def test_exit_reports_once_which_trace_it_waits_for(tmp_path):
    result = run(python("steps(1)"), tmp_path / "t", **CYCLE, ON_TRACE_READY="sh:sleep 3", UPLOAD_DEADLINE_MS=59000)
    assert result.rc == 0 and result.said[:-1] == [f"waiting for the upload or the command of {result.traces[0]}, at most 59000 ms"]


def test_full_queue_leaves_further_traces_in_place(tmp_path):
    """At most 64 traces wait for a slow command. The others stay where they are; one line and a count report them."""
    result = run(python("steps(80, 0.005)"), tmp_path / "t", **CYCLE, ON_TRACE_READY="sh:sleep 5", UPLOAD_DEADLINE_MS=0)
    assert len(result.traces) == 80
    assert re.search(r": 64 traces wait for their upload or command already; this one stays", result.complaints[0])
    assert result.complaints[1].startswith("64 traces not uploaded")
    assert result.complaints[2] == "16 traces were neither uploaded nor given to the command: 64 waited already"


def test_kill_9_ends_the_helper_process(tmp_path):
    """The helper process shares the program's memory, so it must not outlive the program."""
    tool = script(tmp_path / "tool", f"touch {tmp_path}/began; sleep 3\n")
    with Running(python("steps(1); print('on', flush=True); time.sleep(60)"), tmp_path / "t", **CYCLE, ON_TRACE_READY=tool) as p:
        wait_until((tmp_path / "began").exists, "the command")
        helpers = subprocess.run(["ps", "--ppid", str(p.process.pid), "-o", "pid="], capture_output=True, text=True).stdout.split()
        assert len(helpers) == 1
        p.end(9)
        wait_until(lambda: not pathlib.Path(f"/proc/{helpers[0]}").exists(), "the helper's end", 5)


def test_forked_child_runs_no_command(tmp_path):
    code = "steps(1)\npid = os.fork()\nif pid == 0:\n    steps(3); os._exit(0)\nassert os.waitpid(pid, 0)[1] == 0"
    result = run(python(code), tmp_path / "t", **CYCLE, ON_TRACE_READY="echo ready")
    assert result.rc == 0 and len(result.traces) == 1
    assert len([line for line in result.said if line.startswith("ready")]) == 1


# ---- which traces stay -------------------------------------------------------------------------------------

def summaries(folder):
    """Names of the summaries beside traces, unfinished ones included."""
    return sorted(path.name for path in folder.rglob("*.summary*"))


def test_summary_is_removed_with_its_trace(tmp_path):
    """The summary goes even when the command, not cprof, moves the trace away."""
    (tmp_path / "taken").mkdir()
    result = run(python("steps(3)"), tmp_path / "t", **CYCLE, ON_TRACE_READY=f"sh:case $1 in *.2.*) mv $1 {tmp_path / 'taken'};; esac")
    assert result.names == ["rank0.1.pt.trace.json", "rank0.3.pt.trace.json"] and len(files(tmp_path / "taken")) == 1
    assert summaries(tmp_path) == [name + ".summary" for name in result.names]
    assert run(python("steps(1)"), tmp_path / "u", **CYCLE, SUMMARY_MB=0).names == ["rank0.1.pt.trace.json"]
    assert summaries(tmp_path / "u") == []


def test_leftover_summary_is_not_an_earlier_trace(tmp_path):
    (tmp_path / "trace-0.summary").write_text("")
    os.utime(tmp_path / "trace-0.summary", (1, 1))
    result = run(python("steps(1)"), tmp_path, **CYCLE, FILENAME="trace-{rank}")
    assert result.complaints == [] and (tmp_path / "trace-0").is_file() and (tmp_path / "trace-0.summary").stat().st_size > 0


def test_last_line_names_the_trace_kept_after_late_removals(tmp_path):
    """The command holds every trace back until the last one exists, so cprof removes the older ones late."""
    last = "rank0.6.pt.trace.json"
    result = run(python("steps(6)"), tmp_path / "t", **CYCLE, NUM_TRACES_TO_KEEP=1,
                 ON_TRACE_READY=f"sh:until [ -e {tmp_path / 't' / last} ]; do sleep 0.01; done")
    assert result.names == [last]
    assert result.said[-1].endswith(f"lost: {result.traces[0]} (5 removed)"), result.said[-1]


def test_keeps_newest_traces(tmp_path):
    result = run(python("steps(6)"), tmp_path, **CYCLE, NUM_TRACES_TO_KEEP=2)
    assert result.names == ["rank0.5.pt.trace.json", "rank0.6.pt.trace.json"]
    assert "(4 removed)" in result.said[-1] and str(result.traces[0]) in result.said[-1]
    assert summaries(tmp_path) == [name + ".summary" for name in result.names]
    assert run(python("steps(6)"), tmp_path / "all", **CYCLE, NUM_TRACES_TO_KEEP=-1).names[0] == "rank0.1.pt.trace.json"


def test_partial_last_step_does_not_count_towards_the_limit(tmp_path):
    result = run(python("steps(6)\nmark(b'rest')"), tmp_path / "t", **CYCLE, NUM_TRACES_TO_KEEP=1)
    assert result.names == ["rank0.6-2.pt.trace.json", "rank0.6.pt.trace.json"] and "(5 removed)" in result.said[-1]
    assert run(python("steps(6)\nmark(b'rest')"), tmp_path / "none", **CYCLE, NUM_TRACES_TO_KEEP=0, ON_TRACE_READY="true").names == []


# A span that begins in the first step and stays open: the first window waits for its end while later windows finish.
HELD = "import cprof\npush('over all')\nsteps(6, 0.01)\ntime.sleep(1.5)\nprint(cprof.export_chrome_trace(sys.argv[1]))\npop()"


@pytest.mark.parametrize("keep", [1, 3])
def test_keeps_newest_traces_when_an_older_one_finishes_late(tmp_path, keep):
    result = run(python(HELD, tmp_path / "last.json"), tmp_path / "t", **CYCLE, NUM_TRACES_TO_KEEP=keep, env={"PYTHONPATH": str(ROOT / "scripts/python")})
    assert result.out == "True\n" and result.names == [f"rank0.{n}.pt.trace.json" for n in range(7 - keep, 7)]
    saved_ns = {line["path"]: line["saved_ns"] for line in map(json.loads, (tmp_path / "t/saved_traces.jsonl").read_text().splitlines())}
    assert max(saved_ns, key=saved_ns.get) != str(tmp_path / "t/rank0.6.pt.trace.json"), "the newest trace was also saved last: this run proves nothing"
    assert [time.batch for time, _ in cprof.saved_traces(tmp_path / "t")] == list(range(7 - keep, 7))
    assert step_numbers(load(tmp_path / "last.json")) == [5]


def test_keeps_no_trace_after_the_command_took_them(tmp_path):
    (tmp_path / "taken").mkdir()
    result = run(python("steps(3)"), tmp_path / "t", **CYCLE, NUM_TRACES_TO_KEEP=0,
                 ON_TRACE_READY=f"cp -t {tmp_path / 'taken'}")
    assert result.complaints == [] and result.names == [] and len(files(tmp_path / "taken")) == 3
    assert summaries(tmp_path) == [] and result.said[-1].endswith("lost: none left here (3 removed)")
    result = run(python("steps(1)"), tmp_path / "u", **CYCLE, NUM_TRACES_TO_KEEP=0)
    assert result.names == ["rank0.1.pt.trace.json"]
    assert result.complaints == ["CPROF_NUM_TRACES_TO_KEEP=0: keeps no trace at all without CPROF_REMOTE_URL or "
                                 "CPROF_ON_TRACE_READY; ignored"]


def test_removes_only_traces_of_this_rank_and_run(tmp_path):
    """cprof leaves traces of other ranks alone, and a file that the program wrote under the name of a trace."""
    (tmp_path / "rank1.1.pt.trace.json").write_text("other")
    code = "steps(1)\nend = time.monotonic() + 10\nmine = sys.argv[1]\n" \
           "while not os.path.exists(mine) and time.monotonic() < end: time.sleep(0.01)\n" \
           "os.unlink(mine); open(mine, 'w').write('new'); steps(3)"
    result = run(python(code, tmp_path / "rank0.1.pt.trace.json"), tmp_path, **CYCLE, NUM_TRACES_TO_KEEP=1)
    assert result.names == ["rank0.1.pt.trace.json", "rank0.4.pt.trace.json", "rank1.1.pt.trace.json"]
    assert (tmp_path / "rank0.1.pt.trace.json").read_text() == "new"


# ---- saved_traces.jsonl ----------------------------------------------------------------------------------------------

def test_saved_traces_has_composers_form(tmp_path):
    """Two ranks write at the same time. The newest trace is last, and at most NUM_TRACES_TO_KEEP are listed."""
    ranks = [Running(python("steps(6, 0.002)"), tmp_path, **CYCLE, RUN_NAME="r", NUM_TRACES_TO_KEEP=3,
                     env=dict(RANK=str(rank), WORLD_SIZE="3")) for rank in (0, 2)]
    for rank in ranks:
        with rank:
            assert rank.end().rc == 0
    lines = (tmp_path / "saved_traces.jsonl").read_text().splitlines()
    assert len(lines) == 12 and all(json.loads(line)["events"] > 0 for line in lines)
    found = cprof.saved_traces(tmp_path)
    assert [time.batch for time, _ in found] == [4, 5, 6]
    for time_, paths in found:
        assert paths == [str(tmp_path / f"rank{rank}.{time_.batch}.pt.trace.json") if rank != 1 else None for rank in range(3)]
        assert load(paths[0])["distributedInfo"]["rank"] == 0
    with open(tmp_path / "saved_traces.jsonl", "a") as file:
        for key, odd in [("rank", -1), ("rank", 1 << 40), ("rank", 0.5), ("rank", True), ("rank", "1"), ("world_size", 1 << 40), ("keep", []), ("path", [1]),
                         ("path", None), ("run_name", {}), ("saved_ns", "1"), ("saved_ns", None), ("timestamp", [1]), ("timestamp", None),
                         ("timestamp", {**json.loads(lines[0])["timestamp"], "batch": "1"})]:
            file.write(json.dumps({**json.loads(lines[0]), key: odd}) + "\n")
        file.write("[" * 100_000 + "\n" + "[1]\n" + '{"cut')  # lines of another program, a line cut by a full disk
    run(python("steps(1)"), tmp_path, **CYCLE, RUN_NAME="later", OVERWRITE=1)
    assert [time.batch for time, _ in cprof.saved_traces(tmp_path)] == [4, 5, 6, 1]
    assert cprof.saved_traces(tmp_path / "nothing") == []


def test_each_folder_has_its_own_list(tmp_path):
    run(python("steps(3)"), tmp_path, **CYCLE, FILENAME="at{batch}/rank{rank}.json")
    assert not (tmp_path / "saved_traces.jsonl").exists()
    assert cprof.saved_traces(tmp_path)[-1][1] == [str(tmp_path / "at3/rank0.json")] and len(cprof.saved_traces(tmp_path)) == 3
    assert len(cprof.saved_traces(tmp_path / "at2")) == 1


def test_trace_named_like_the_list_stays_intact(tmp_path):
    result = run(python("steps(3)"), tmp_path, WARMUP=0, ACTIVE=1, REPEAT=2, FILENAME="saved_traces.jsonl")
    assert result.rc == 0 and len(result.complaints) == 1 and "saved_traces.jsonl: cannot add the trace to the list: File exists" in result.complaints[0]
    assert step_numbers(load(tmp_path / "saved_traces.jsonl")) == [0]


@pytest.mark.parametrize("what", ["fifo", "link"])
def test_list_ignores_a_planted_link_or_pipe(tmp_path, what):
    """cprof neither follows a link nor waits for a pipe in the list's place, and reports it in one line."""
    (tmp_path / "t").mkdir()
    target = tmp_path / "t" / "saved_traces.jsonl"
    os.mkfifo(target) if what == "fifo" else target.symlink_to(tmp_path / "victim")
    result = run(python("steps(2)"), tmp_path / "t", **CYCLE)
    assert len(result.traces) == 2 and not (tmp_path / "victim").exists()
    assert len(result.complaints) == 1 and "cannot add the trace to the list" in result.complaints[0]


# ---- uploads -----------------------------------------------------------------------------------------------

@needs_nginx
@needs_curl
def test_upload_to_nginx(tmp_path):
    """The remote name expands format variables and loses its leading slash. Removing a local trace sends no DELETE."""
    with servers.nginx(tmp_path / "www") as (port, log):
        result = run(python("steps(4)"), tmp_path / "t", **CYCLE, NUM_TRACES_TO_KEEP=1, USE_GZIP=1, RUN_NAME="my run",
                     REMOTE_URL=f"http://127.0.0.1:{port}/base/", REMOTE_FILE_NAME="//{run_name}/r{rank} b{batch}.json")
        assert result.complaints == [] and result.names == ["rank0.4.pt.trace.json.gz"]
        there = sorted(path for path in (tmp_path / "www/files").rglob("*") if path.is_file())
        assert [str(path.relative_to(tmp_path / "www/files")) for path in there] == \
            [f"base/my run/r0 b{n}.json.gz{summary}" for n in (1, 2, 3, 4) for summary in ("", ".summary")]
        assert there[-2].read_bytes() == result.traces[0].read_bytes() and load(there[0])
        assert there[-1].read_bytes() == pathlib.Path(f"{result.traces[0]}.summary").read_bytes()
        methods = re.findall(r'"([A-Z]+) ', log.read_text())
        assert methods == ["PUT"] * 8


@needs_nginx
@needs_curl
def test_upload_with_a_password(tmp_path):
    """The password comes from the URL or ~/.netrc. It appears in no message and in no trace."""
    with servers.nginx(tmp_path / "www", "joe:{PLAIN}pa55word") as (port, log):
        result = run(python("steps(1)"), tmp_path / "t", **CYCLE, LOG="debug",
                     REMOTE_URL=f"http://joe:pa55word@127.0.0.1:{port}", REMOTE_FILE_NAME="a.json")
        assert (tmp_path / "www/files/a.json").exists() and "pa55word" not in result.err + result.traces[0].read_text()
        (tmp_path / ".netrc").write_text("machine 127.0.0.1 login joe password pa55word\n")
        (tmp_path / ".netrc").chmod(0o600)
        run(python("steps(1)"), tmp_path / "u", **CYCLE, env=dict(HOME=str(tmp_path)),
            REMOTE_URL=f"http://127.0.0.1:{port}", REMOTE_FILE_NAME="b.json")
        assert (tmp_path / "www/files/b.json").exists()
        result = run(python("steps(1)"), tmp_path / "v", **CYCLE,
                     REMOTE_URL=f"http://joe:wrong@127.0.0.1:{port}", REMOTE_FILE_NAME="c.json")
        assert result.complaints == [f"{result.traces[0]}: the upload failed: curl: (22) The requested URL returned error: 401; "
                                     "the file stays"]


@needs_curl
def test_upload_with_a_signature(tmp_path):
    """S3 signatures: the server computes the signature of each request again and compares."""
    def check(request):
        return servers.signature_fault(request, KEYS["AWS_ACCESS_KEY_ID"], KEYS["AWS_SECRET_ACCESS_KEY"], KEYS["AWS_REGION"], "to/ken==")

    with servers.Server(200, check=check) as server:
        env = dict(KEYS, AWS_SESSION_TOKEN="to/ken==", AWS_ENDPOINT_URL=f"http://127.0.0.1:{server.port}")
        result = run(python("steps(2)"), tmp_path / "t", **CYCLE, REMOTE_URL="s3://bucket/some/prefix/", LOG="debug",
                     REMOTE_FILE_NAME="r{rank} {batch}=x.json", NUM_TRACES_TO_KEEP=0, env=env)
        assert server.faults == [] and sorted(server.files) == [f"/bucket/some/prefix/r0 {n}=x.json{summary}" for n in (1, 2) for summary in ("", ".summary")]
        assert result.names == [] and server.methods == ["PUT"] * 4
        assert KEYS["AWS_SECRET_ACCESS_KEY"] not in result.err and "to/ken" not in result.err
        result = run(python("steps(1)"), tmp_path / "u", **CYCLE, REMOTE_URL="s3://bucket", NUM_TRACES_TO_KEEP=0,
                     env=dict(env, AWS_SECRET_ACCESS_KEY="wrong"))
        assert server.faults == ["the signature does not match"] and len(result.traces) == 1
        assert len(result.complaints) == 1 and "error: 403; the file stays" in result.complaints[0]
    result = run(python("steps(1)"), tmp_path / "v", **CYCLE, REMOTE_URL="s3://bucket")
    assert "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are not set" in result.complaints[0]


@needs_curl
def test_secrets_are_on_no_command_line(tmp_path):
    with servers.Server("slow") as server:
        env = dict(KEYS, AWS_ENDPOINT_URL=f"http://127.0.0.1:{server.port}")
        with Running(python("steps(1); print('on', flush=True); time.sleep(30)"), tmp_path / "t", **CYCLE,
                     REMOTE_URL="s3://bucket", env=env) as p:
            wait_until(lambda: server.methods, "the upload")
            lines = [pathlib.Path(f).read_bytes() for f in map(str, pathlib.Path("/proc").glob("[0-9]*/cmdline"))
                     if os.path.exists(f)]
            curl = [line for line in lines if b"curl" in line and b"--config" in line]
            assert curl and not any(b"SECRET" in line or b"AKID" in line for line in curl)
            p.end(9)


@needs_curl
def test_upload_uses_credentials_the_program_sets(tmp_path):
    """The program sets them after cprof has started and before it trains."""
    with servers.Server(200, check=lambda r: servers.signature_fault(r, "late", "secret", "us-east-1")) as server:
        code = f"mark(b'awake'); os.environ.update(AWS_ACCESS_KEY_ID='late', AWS_SECRET_ACCESS_KEY='secret', " \
               f"AWS_ENDPOINT_URL='http://127.0.0.1:{server.port}'); steps(2)"
        result = run(python(code), tmp_path / "t", WARMUP=1, ACTIVE=1, REMOTE_URL="s3://b")
        assert server.faults == [] and len(server.files) == 2 and result.complaints == []


@needs_curl
def test_retries_a_failed_upload(tmp_path):
    """The server answers 503, then cuts the connection, then accepts; and the same for the summary."""
    with servers.Server(503, "cut", 201, 503, "cut", 201) as server:
        result = run(python("push(b'x' * 3000); pop(); steps(1)"), tmp_path, **CYCLE, NUM_TRACES_TO_KEEP=0,
                     REMOTE_URL=f"http://127.0.0.1:{server.port}", REMOTE_FILE_NAME="{rank}.json")
        assert server.methods == ["PUT"] * 6 and list(server.files) == ["/0.json", "/0.json.summary"] and json.loads(server.files["/0.json"])
        assert result.complaints == [] and result.names == []


@needs_curl
def test_failed_upload_keeps_the_trace(tmp_path):
    """A refused, unreachable or slow server costs one line with curl's reason. The exit code is the program's."""
    for answer, reason in ((403, "error: 403"), ("refused", "curl: (7)"), ("slow", "within CPROF_UPLOAD_DEADLINE_MS=800")):
        with servers.Server(answer if answer != "refused" else 500) as server:
            port = server.port if answer != "refused" else servers.free_port()
            start = time.monotonic()
            n = 1 if answer == "refused" else 2
            result = run(python(f"steps({n}); sys.exit(5)"), tmp_path / str(answer), **CYCLE, NUM_TRACES_TO_KEEP=0,
                         UPLOAD_DEADLINE_MS=8500 if answer == "refused" else 800, REMOTE_URL=f"http://127.0.0.1:{port}", LOG="warn")
            assert result.rc == 5 and len(result.traces) == n, answer
            assert reason in result.complaints[0] and len(result.complaints) <= 2, result.complaints
            assert time.monotonic() - start < 15


@needs_curl
def test_failed_upload_of_a_summary_keeps_both_files(tmp_path):
    """Also a summary whose name another file has taken is not uploaded."""
    with servers.Server(200, 403) as server:
        result = run(python("steps(1)"), tmp_path / "t", **CYCLE, NUM_TRACES_TO_KEEP=0, REMOTE_URL=f"http://127.0.0.1:{server.port}")
        assert [re.sub(r".*/", "", line) for line in result.complaints] == [
            "rank0.1.pt.trace.json.summary: the upload failed: curl: (22) The requested URL returned error: 403; the file stays"]
        assert len(result.traces) == 1 and pathlib.Path(f"{result.traces[0]}.summary").is_file() and len(server.files) == 1
    planted = tmp_path / "planted"

    def plant(_):
        planted.write_text("of somebody else")
        planted.replace(next((tmp_path / "u").rglob("*.summary")))

    with servers.Server(200, check=plant) as server:
        result = run(python("steps(1)"), tmp_path / "u", **CYCLE, REMOTE_URL=f"http://127.0.0.1:{server.port}")
        assert [re.sub(r".*/", "", line) for line in result.complaints] == [
            "rank0.1.pt.trace.json.summary: the upload failed: another file has the name; the file stays"]
        assert len(server.files) == 1 and json.loads(*server.files.values())


def test_bad_upload_settings_are_reported_at_the_start(tmp_path):
    result = run(python("steps(1)"), tmp_path / "a", **CYCLE, REMOTE_URL="ftp://u:secret@h/x")
    assert result.complaints == ["CPROF_REMOTE_URL=ftp://...@h/x: must begin with http://, https:// or s3://; nothing is uploaded"]
    result = run(python("steps(1)"), tmp_path / "b", **CYCLE, REMOTE_URL="http://h", env=dict(PATH=str(tmp_path)))
    assert result.complaints == ["CPROF_REMOTE_URL=http://h: uploads need the program curl, which is not in PATH; nothing is uploaded"]
    assert run(python("steps(1)"), tmp_path / "c", **CYCLE, REMOTE_URL="http://h", REMOTE_FILE_NAME="none").complaints == []
