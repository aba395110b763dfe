# SPDX-License-Identifier: Apache-2.0
"""`cprof hang`: jobs that hang in step 15 because of their last rank. The command names that rank, what it has not entered, and its line."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

import support
import test_collectives
import tool
from conftest import FULL, ROOT, matrix
from servers import free_port
from torch_runs import SCRIPTS, needs_torch_2

HANG_S = 3
SOURCE = (SCRIPTS / "hangs.py").read_text().splitlines()
# What the command says: the kind of the finding, and what the culprit does. With `line`, that it is in the case's line.
CASES = {
    "sleeps": ("missing", "in clock_nanosleep", True), "groups": ("cycle", "wait for each other", True),
    "order": ("different", "rank 1 entered allgather of 4 Float; rank 0 entered allreduce of 4 Float", False),
    "stopped": ("missing", "is stopped", False), "killed": ("missing", "was killed", False), "raises": ("missing", "has ended (exit code 1)", False),
    "loader": ("missing", "it waits for a DataLoader", True), "lock": ("missing", "in futex", True), "busy": ("missing", "works in", True),
    "file": ("missing", "in read of ", True), "sizes": ("different", "rank 1 entered allreduce of 262,144 Float", False),
    "part": ("missing", "(number 15 of group 2 (4 ranks)); it stands in", True)}
KEPT = ("sleeps", "groups", "order", "stopped", "killed")  # in `make test`
RANKS = {"raises": 3, "killed": 3, "part": 8}


class Job:
    """The ranks of a job, each with a flight recorder in one folder."""

    def __init__(self, folder, command, ranks, **more):
        self.folder, self.processes = folder, []
        port = str(free_port())
        for rank in ranks:
            env = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": len(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                   "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": 1} if rank is not None else {}
            env = support.environment(folder, env={key: str(value) for key, value in {**env, **more}.items()}, FLIGHT=1, FLIGHT_HANG_S=HANG_S, FLIGHT_SLOW=0,
                                      SKIP_FIRST=1000000)
            self.processes.append(subprocess.Popen([*map(str, command)], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def told(self, kind, words, waiting):
        """What the command says once the ranks have told what they do: at most 15 s after the first one has."""
        support.wait_until(lambda: any(self.folder.glob("flight/rank*.gz")), "a saved recording", 90)
        end = time.monotonic() + 15
        found = self.finding()
        while not (found and found["kind"] == kind and words in found["text"] and found["waiting"] == waiting) and time.monotonic() < end:
            time.sleep(0.3)
            found = self.finding()
        return found

    def finding(self):
        done = tool.cprof("hang", self.folder, "--json")
        found = json.loads(done.out)["findings"] if done.rc == 0 else []
        return found[0] if found else None

    def end(self):
        for process in self.processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def jobs(tmp_path_factory):
    """All jobs of `make test`, at the same time: most of each is waiting. With full matrices, one after the other."""
    started = {}

    def job(case):
        for name in [case] if FULL else [one for one in KEPT if one not in started]:
            folder = tmp_path_factory.mktemp(name)
            started[name] = Job(folder, [sys.executable, SCRIPTS / "hangs.py", name, folder / "fifo"], range(RANKS.get(name, 2)))
        return started[case]
    yield job
    for one in started.values():
        one.end()


@needs_torch_2("its gloo reports other errors")
@pytest.mark.parametrize("case", matrix(CASES, *KEPT))
def test_names_the_rank_that_the_others_wait_for(jobs, case):
    job = jobs(case)
    kind, words, in_line = CASES[case]
    culprit = len(job.processes) - 1
    waiting = [*range(4, 7)] if case == "part" else [*range(culprit)]
    found = job.told(kind, words, waiting if kind == "missing" else [])
    assert found and found["kind"] == kind and words in found["text"], found
    assert sorted(found["ranks"]) == ([0, 1] if kind == "cycle" else [culprit]), found
    if kind == "missing":
        assert (found["number"], found["waiting"]) == (15, waiting), found
    lines = [n for n, text in enumerate(SOURCE, 1) if re.search(rf"#.*\b{case}\b", text)]
    assert not in_line or any(f"hangs.py({n})" in found["text"] for n in lines), (lines, found)
    if case in ("killed", "raises"):
        reasons = {support.load(path)["cprof"]["flight"]["reason"] for path in job.folder.glob("flight/rank0.*.gz")}
        assert any("gloo reported an error in step 15" in why for why in reasons), reasons
    if case == "sleeps":
        text = tool.cprof("hang", job.folder).out
        assert re.search(r"\n    \w*nanosleep \(libc.*\n    time_sleep .*\n(    .*\n)*    .*hangs.py\(\d+\): wait\n", text), text
    job.end()


def test_mpi_rank_that_does_not_come(tmp_path):
    """A program in C: no Python, but the system call of its main thread."""
    launcher = test_collectives.mpi_build("openmpi", "hang.c", tmp_path / "hang", "-O1", "-I", ROOT / "preload")
    job = Job(tmp_path / "run", [launcher, "--allow-run-as-root", "--oversubscribe", "-n", "2", tmp_path / "hang"], [None])
    try:
        support.wait_until(lambda: len(list((tmp_path / "run").glob("flight/rank*.gz"))) == 2, "two saved recordings", 60)
        found = job.finding()
        assert (found["kind"], found["ranks"], found["waiting"], found["number"]) == ("missing", [1], [0], 15), found
        assert "pause" in found["text"] and re.search(r"\n    (__libc_)?pause \(libc.*\n    main \(hang\)\n", tool.cprof("hang", job.folder).out), found
    finally:
        for process in job.processes:
            process.terminate()
        job.end()


@needs_torch_2("its groups have no names")
def test_ranks_count_transfers_alike(tmp_path):
    """With 600 that are open at once, DistributedDataParallel, and 300 groups, one after the other: a number of a group means the same transfer."""
    job = Job(tmp_path, [sys.executable, SCRIPTS / "groups.py"], range(2), PYTHONPATH=ROOT / "scripts/python")
    for process in job.processes:
        assert process.wait(100) == -signal.SIGKILL
    seen = []
    for rank in range(2):
        rows = [e["args"] for e in support.events(support.load(tmp_path / f"flight/rank{rank}.flight"), ph="X") if e["name"].startswith("gloo:")]
        assert len(rows) > 600 + 450 + 20 * 8 and not [row for row in rows if "Seq" not in row or "Process Group Name" not in row]
        seen.append({(row["Process Group Name"], row["Seq"], row["Collective name"] in ("send", "recv")): row["In msg nelems"] for row in rows})
    assert seen[0] == seen[1] and len({group for group, _, _ in seen[0]}) == 301


def test_a_process_of_a_container_is_alive(tmp_path):
    """Inside it is process 1, whose rows have another number, and outside it has yet another pid."""
    inside = ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--pid", "--fork", "--mount-proc"]
    if subprocess.run([*inside, "true"], capture_output=True, timeout=60).returncode:
        pytest.skip("no new namespace of processes here")
    with support.Running([*inside, *support.python("steps(30, 0.01)\ntime.sleep(100)")], tmp_path, FLIGHT=1, FLIGHT_HANG_S=2, FLIGHT_SLOW=0) as running:
        support.wait_until(lambda: list(tmp_path.glob("flight/*.gz")), "a saved recording", 60)

        def row():
            one, = json.loads(tool.cprof("hang", tmp_path / "flight/rank0.flight", "--json").out)["ranks"]
            return one["pid"], one["does"]
        pid, does = row()
        assert pid == 1 and does.startswith("stands in <string>("), does
        inner = subprocess.run(["pgrep", "-P", str(running.process.pid)], capture_output=True, text=True, check=True).stdout
        os.kill(int(inner), signal.SIGSTOP)
        assert row() == (1, "is stopped (SIGSTOP)")
        os.kill(int(inner), signal.SIGKILL)
        support.wait_until(lambda: "its process 1 was killed" in row()[1], "the end", 30)


def test_a_process_that_sent_itself_a_signal_has_ended(tmp_path):
    """It is not found in cprof's code, which saves its traces."""
    done = support.run(support.python("steps(30, 0.01); os.kill(os.getpid(), 15)"), tmp_path, FLIGHT=1, SKIP_FIRST=1000000)
    row, = json.loads(tool.cprof("hang", tmp_path, "--json").out)["ranks"]
    assert done.rc == -15 and row["does"] == "has ended (signal 15)", row


# ---- files made by hand ----

def state(folder, rank, world, transfers, reason="nothing runs and step 7 has not ended for 60 s", host="h", **flight):
    """A saved recording of a rank; transfers: (group, size, number, name, elements, finished)."""
    rows = [tool.span("ncclAllReduce" if done else "gloo:x", n, 1 if done else 90e6, "collective_comm", **{
        "Collective_name": name, "In_msg_nelems": elements, "dtype": "Float", "Process_Group_Name": group, "Group_size": size, "Seq": number,
        **({} if done else {"finished": "false"})}) for n, (group, size, number, name, elements, done) in enumerate(transfers)]
    path = folder / f"rank{rank}.7.pt.trace.json"
    tool.write(path, rows, distributedInfo={"rank": rank, "world_size": world}, host_name=host, baseTimeNanoseconds=10**18,
               cprof={"flight": {"reason": reason, "dropped": 0, **flight}})
    return path


def said(folder):
    done = tool.cprof("hang", folder)
    assert done.rc == 0, done.err
    return done.out


def test_transfers_on_a_gpu_are_only_enqueued(tmp_path):
    """The rank that enqueued fewer is missing, although no call is open."""
    for rank in range(4):
        state(tmp_path, rank, 4, [("0", 4, n, "allreduce", 8, True) for n in range(9 if rank == 2 else 10)])
    assert said(tmp_path).startswith("rank 2 has not entered allreduce of 8 Float (number 9 of all ranks)")
    assert "ranks 0, 1 and 3 wait for it" in said(tmp_path)


def test_says_what_it_does_not_know(tmp_path):
    """Lost hosts, groups without a name, and a transfer in which all are."""
    for rank in (0, 1, 2):
        state(tmp_path, rank, 4, [("0", 4, 5, "allreduce", 8, False)])
    text = said(tmp_path)
    assert text.startswith("all its ranks are in allreduce of 8 Float (number 5 of all ranks)") and "as far as is known: rank 3 left no file" in text
    assert "ranks 0 to 2 told nothing of their threads" in text
    state(tmp_path, 0, 4, [("", 2, 5, "allreduce", 8, False)])
    assert "rank 0 waits in allreduce, for whom is not known" in said(tmp_path)


def test_follows_ranks_that_wait_elsewhere(tmp_path):
    """Rank 0 waits for rank 1, which waits for rank 2 in another group."""
    state(tmp_path, 0, 3, [("a", 2, 5, "allreduce", 8, False)])
    state(tmp_path, 1, 3, [("a", 2, 4, "allreduce", 8, True), ("b", 2, 9, "broadcast", 8, False)])
    state(tmp_path, 2, 3, [("b", 2, 8, "broadcast", 8, True)])
    found = json.loads(tool.cprof("hang", tmp_path, "--json").out)["findings"]
    assert [(one["kind"], one["ranks"], one["waiting"], one["group"]) for one in found] == [("missing", [2], [1], "b")]


def test_transfers_between_two_ranks_are_no_collectives(tmp_path):
    """Rank 1 receives from rank 0, which does nothing. Both have numbers of their own for that."""
    state(tmp_path, 0, 3, [("0", 3, 5, "allreduce", 8, True)])
    state(tmp_path, 1, 3, [("0", 3, 5, "allreduce", 8, True), ("0", 3, 6, "recv", 4, False)])
    state(tmp_path, 2, 3, [("0", 3, 6, "allreduce", 8, False)])
    found = json.loads(tool.cprof("hang", tmp_path, "--json").out)["findings"]
    assert [(one["kind"], one["ranks"], one["number"]) for one in found] == [("missing", [0], 6), ("missing", [1], 6)]
    assert "rank 1 waits in recv, for whom is not known" in said(tmp_path)


def test_ranks_that_wait_in_a_circle_and_elsewhere(tmp_path):
    state(tmp_path, 0, 3, [("", 2, 1, "allreduce", 8, False), ("a", 2, 5, "allreduce", 8, False), ("b", 2, 4, "allreduce", 8, True)])
    state(tmp_path, 1, 3, [("a", 2, 4, "allreduce", 8, True), ("b", 2, 5, "allreduce", 8, False)])
    state(tmp_path, 2, 3, [])
    found = json.loads(tool.cprof("hang", tmp_path, "--json").out)["findings"]
    assert [(one["kind"], sorted(one["ranks"])) for one in found] == [("cycle", [0, 1])]


def test_leftovers_of_more_ranks_are_left_out(tmp_path):
    """The job was started again with two ranks, three seconds after four were killed."""
    for rank in range(4):
        path = state(tmp_path, rank, 2 if rank < 2 else 4, [("", 2 if rank < 2 else 4, 5 - rank % 2, "allreduce", 8, bool(rank % 2))])
        trace = json.loads(path.read_text())
        path.write_text(json.dumps(dict(trace, baseTimeNanoseconds=10**18 - (0 if rank < 2 else 3 * 10**9))))
    text = said(tmp_path)
    assert text.startswith("rank 1 has not entered allreduce") and text.count("is of an earlier run") == 2, text


def test_a_failed_transfer_counts_as_entered(tmp_path):
    state(tmp_path, 0, 2, [("0", 2, 5, "allreduce", 8, True)], reason="gloo reported an error in step 7")
    state(tmp_path, 1, 2, [("0", 2, 4, "allreduce", 8, True)], reason="gloo reported an error in step 7")
    assert said(tmp_path).startswith("rank 1 has not entered allreduce of 8 Float (number 5 of all ranks)")


def test_bad_and_old_files_are_left_out(tmp_path):
    """An old file of a rank, one that is cut, a link to nowhere, and texts with line breaks; the others are still compared."""
    for rank in (0, 1, 3, 4):
        state(tmp_path, rank, 5, [("0", 5, n, "all\nreduce", 8, True) for n in range(9 + rank % 2)], reason="nothing runs\nrank 9 is it", threads=5)
    path = state(tmp_path, 3, 5, [("0", 5, 900, "allreduce", 8, True)])
    trace = json.loads(path.read_text())
    path.write_text(json.dumps(dict(trace, baseTimeNanoseconds=1)))
    (tmp_path / "rank4.flight").write_text('{"traceEvents": [{"ph": "X", ')
    (tmp_path / "rank2.flight").symlink_to(tmp_path / "nowhere")
    text = said(tmp_path)
    assert text.startswith("rank 0 has not entered all") and "\nrank 9" not in text and "\nreduce" not in text
    assert text.count("not known") == 4 and "not known: ranks 2 to 4 left no file" in text and "rank4.flight: " in text and "rank3.7.pt.trace.json: is of an earlier run" in text


def test_a_thousand_ranks(tmp_path):
    """Bounded in time; a size of the world that no run has is cut."""
    for rank in range(1000):
        state(tmp_path, rank, 10**15 if rank == 5 else 1000, [("0", 1000, n, "allreduce", 8, True) for n in range(49 + (rank != 77))])
    begun = time.process_time()
    assert said(tmp_path).startswith("rank 77 has not entered allreduce of 8 Float (number 49 of ") and time.process_time() - begun < 10


def test_healthy_ranks_are_no_finding(tmp_path):
    for rank in range(2):
        state(tmp_path, rank, 2, [("0", 2, n, "allreduce", 8, True) for n in range(9 + rank)], reason="step 6 took 2.00 s, 4.0 times the median")
    (tmp_path / "rank0.7.pt.trace.json").rename(tmp_path / "rank0.flight")
    state(tmp_path, 0, 2, [("0", 2, 1, "allreduce", 8, False)]).rename(tmp_path / "rank0.70.pt.trace.json")  # of another step
    assert said(tmp_path).startswith("no rank hangs, as far as the files tell")


def test_other_files_are_refused(tmp_path):
    path = tool.write(tmp_path / "rank0.7.pt.trace.json", [tool.span("a", 0, 1)])
    assert tool.refused(tool.cprof("hang", path), "is no file of the flight recorder")
    os.mkdir(tmp_path / "empty")
    assert tool.refused(tool.cprof("hang", tmp_path / "empty"), "holds no files of the flight recorder", "CPROF_FLIGHT=1")
