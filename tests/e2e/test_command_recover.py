# SPDX-License-Identifier: Apache-2.0
"""`cprof recover` writes each whole event of an open file that a kill or a power cut left into a valid trace."""

import collections
import contextlib
import gzip
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

import support
from conftest import matrix
from command_runs import ROOT, command, cprof, environment, refused
from cprof.tool import Problem, recover

PROGRAM = ("push(b'before'); pop(); step()\n"
           "push(b'open')\n"
           "for i in range(2):\n    push(b'work %d' % i); mark(b'mark'); pop(); step()\n"
           "time.sleep(0.4)\nprint('one', flush=True); sys.stdin.readline()\n"
           "for i in range(2, 4):\n    push(b'work %d' % i); mark(b'mark'); pop(); step()\n"
           "pop(); push(b'late')\n"
           "time.sleep(0.4)\nprint('two', flush=True); sys.stdin.readline()\n")


class OpenFile:
    """An open file: its name, and its bytes after one flush and after a later one."""

    def __init__(self, name, old, new):
        self.name, self.old, self.new = name, old, new


def record(folder, zipped):
    with support.Running(support.python(PROGRAM), folder, WARMUP=0, ACTIVE=100, USE_GZIP=zipped) as running:
        running.wait_for("one")
        path = running.wait_flushed("work 1", '"open"')
        with running.stopped():
            old = path.read_bytes()
        running.say()
        running.wait_for("two")
        running.wait_flushed("work 3", '"late"')
        with running.stopped():
            new = path.read_bytes()
        running.end(signal.SIGKILL)
    return OpenFile(path.name, old, new)


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "gzip"])
def open_file(request, tmp_path_factory):
    return record(tmp_path_factory.mktemp("left"), int(request.param))


def text_of(data):
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def key(event):
    return json.dumps(event, sort_keys=True)


def events_of(data):
    """Three lists of events as text, in file order: ended ones, metadata, and open ones."""
    whole = support.loads_plainly(data) if not isinstance(data, bytes) else json.loads(text_of(data))
    done, names, pending = [], [], []
    for event in whole["traceEvents"]:
        place = names if event["ph"] == "M" else pending if event["args"].get("finished") == "false" else done
        place.append(key(event))
    return done, names, pending


def saved(folder, open_file, data, check=True):
    """Recovers a trace from these bytes. Returns None if that fails."""
    part = leave(folder / open_file.name, data)
    out = folder / ("out.json.gz" if open_file.name.count(".gz.") else "out.json")
    out.unlink(missing_ok=True)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            recover.recover(str(part), str(out))
    except Problem:
        assert not out.exists()
        return None
    finally:
        part.unlink()
    assert [path.name for path in folder.iterdir()] == [out.name], "no temporary file is left"
    return support.load(out) if check else support.loads_plainly(out)


def test_recovers_all_events_of_a_killed_program(tmp_path, open_file):
    """kill -9 leaves a whole file. recover gives it its final name and changes only the account and the name inside."""
    leave(tmp_path / open_file.name, open_file.new)
    done = cprof("recover", open_file.name)
    name = open_file.name.split(".part")[0].rsplit(".", 2)[0]
    assert done.returncode == 0 and done.stdout.startswith(f"{name}: rank 0, steps 0 to 4, "), done.stdout + done.stderr
    assert done.stderr.splitlines() == [f"cprof: {open_file.name}: 1 ranges were open: they end at the last flush"]
    trace = support.load(tmp_path / name)
    assert collections.Counter(map(key, trace["traceEvents"])) == collections.Counter(sum(events_of(open_file.new), []))
    before = json.loads(text_of(open_file.new))
    same = set(before) - {"cprof", "traceName", "traceEvents"}
    assert {k: trace[k] for k in same} == {k: before[k] for k in same}
    assert trace["cprof"]["lost"] == before["cprof"]["lost"] and not trace["cprof"]["complete"] and trace["cprof"]["partial"]
    assert trace["cprof"]["recovered"] == {"from": open_file.name, "size": len(open_file.new), "bytes_lost": 0, "account": "whole"}
    assert (tmp_path / open_file.name).read_bytes() == open_file.new, "the open file stays"


def test_recovers_all_events_before_a_cut(tmp_path, open_file):
    """The file is cut at many places. The events before the cut are recovered; before the first event, nothing is."""
    data, last = open_file.new, -1
    done, names, pending = events_of(data)
    whole = set(done) | set(names) | set(pending)
    text, plain = text_of(data), data[:1] == b"{"
    begin = text.index(b'"traceEvents": [\n') + 17
    behind = range(16380, len(data) + 1)
    points = sorted({*range(0, 16380, 1117), *matrix(behind, *behind[::3], len(data))})
    for n in points:
        trace = saved(tmp_path, open_file, data[:n], check=n % 23 == 0)
        if trace is None:
            assert n < begin + 40, f"nothing at {n}"
            assert last == -1
            continue
        found = [key(event) for event in trace["traceEvents"] if not event["args"].get("name", "").startswith("process ")]
        assert set(found) <= whole and len(found) == len(set(found)), f"cut at {n}"
        ended = [one for one in found if one in set(done)]
        assert ended == done[:len(ended)] and len(ended) >= last, f"cut at {n}"
        last = len(ended)
        if plain:
            lines = [line for line in data[begin:n].split(b"\n") if b'"ph": "M"' not in line and b'"finished"' not in line]
            assert len(ended) == sum(1 for line in lines if line.endswith(b"}},") or line.endswith(b"}}")), f"cut at {n}"
    assert last == len(done) and set(found) == whole


PAGE = 64  # stands for the kernel's page of 4096 bytes: this file is too small for tears at that size


def torn(open_file):
    """The file at each moment of the flush from old to new (writer/file/sink_file.c). The flush writes behind the old end first,
    then over the old trailer."""
    old, new = open_file.old, open_file.new
    same = next(n for n in range(16384, len(old)) if old[n] != new[n])
    for n in range(len(old) + 1, len(new), 37):
        yield "behind", old + new[len(old):n]
    for n in range(same + PAGE - same % PAGE, len(old), PAGE):
        yield "over", new[:n] + old[n:] + new[len(old):]


def test_recovers_the_previous_flush_from_a_torn_one(tmp_path, open_file, monkeypatch):
    """All events of the old flush are recovered, except at most one beside the tear. Each event comes once, and only from one of
    the two flushes."""
    monkeypatch.setattr(recover, "PAGE", PAGE)
    old, new = events_of(open_file.old), events_of(open_file.new)
    whole = set(sum(old, []) + sum(new, []))
    seen = collections.Counter()
    for n, (where, data) in enumerate(torn(open_file)):
        trace = saved(tmp_path, open_file, data, check=n % 5 == 0)
        found = [key(event) for event in trace["traceEvents"] if not event["args"].get("name", "").startswith("process ")]
        spans = [one for one in found if '"ph": "M"' not in one]
        assert set(found) <= whole and len(spans) == len(set(spans)), f"{where} {n}"
        assert len(set(old[0]) - set(found)) <= 1, f"{where} {n}"
        open_ones = {(e["name"], e["ts"]) for e in trace["traceEvents"] if e["args"].get("finished") == "false"}
        ended = {(e["name"], e["ts"]) for e in trace["traceEvents"] if e["ph"] == "X" and "finished" not in e["args"]}
        assert not open_ones & ended, "a range is both open and ended"
        seen[where, len(set(found) - set(old[0])) > len(old[1]) + 1] += 1
        account = trace["cprof"]["recovered"]
        assert account["account"] in ("as of the last flush", "missing", "whole"), account
    assert seen["behind", False] and seen["over", True], f"both kinds of tear must occur: {seen}"


def test_recovers_around_zeroed_pages(tmp_path, open_file):
    """Pages that never reached the disk are zeros."""
    done = set(sum(events_of(open_file.new), []))
    for start in range(16384, len(open_file.new), 1024):
        data = open_file.new[:start] + bytes(min(700, len(open_file.new) - start)) + open_file.new[start + 700:]
        trace = saved(tmp_path, open_file, data)
        if trace is None:
            continue
        found = {key(event) for event in trace["traceEvents"] if not event["args"].get("name", "").startswith("process ")}
        assert found <= done
        assert trace["cprof"]["recovered"]["bytes_lost"] or found == done


def test_recovers_rank_and_base_time_from_a_torn_head(tmp_path):
    """recover finds the rank and the base time in the torn head. Without a base time there is no trace."""
    open_file = record(tmp_path / "left", 0)
    at = open_file.new.index(b'"displayTimeUnit"')
    trace = saved(tmp_path / "left", open_file, open_file.new[:at] + b"\0" * 6 + open_file.new[at + 6:])
    assert trace["distributedInfo"]["rank"] == 0 and trace["baseTimeNanoseconds"] == json.loads(open_file.new)["baseTimeNanoseconds"]
    assert len(trace["traceEvents"]) == len(json.loads(open_file.new)["traceEvents"])
    at = open_file.new.index(b'"baseTimeNanoseconds"')
    assert saved(tmp_path / "left", open_file, open_file.new[:at] + b"\0" * 40 + open_file.new[at + 40:]) is None


def test_skips_a_long_garbage_line(tmp_path, open_file, monkeypatch):
    """Reading garbage without line breaks takes linear time. A line longer than LINE_MOST is skipped without being buffered. Events on both
    sides are recovered."""
    if open_file.name.count(".gz."):
        pytest.skip("gzip detects a gap by itself")
    cut = open_file.new.index(b"\n", open_file.new.index(b'"work 1"')) + 1
    whole = recovered(tmp_path, open_file, open_file.new)
    monkeypatch.setattr(recover, "CHUNK", 512)
    for most in (recover.LINE_MOST, 1 << 16):
        monkeypatch.setattr(recover, "LINE_MOST", most)
        begin = time.process_time()
        trace = recovered(tmp_path, open_file, open_file.new[:cut] + b"x" * (8 << 20) + b"\n" + open_file.new[cut:])
        assert time.process_time() - begin < 10
        assert trace["cprof"]["recovered"]["bytes_lost"] == 8 << 20
        assert [event["name"] for event in trace["traceEvents"]] == [event["name"] for event in whole["traceEvents"]]
    refused(cprof("recover", "-o", "x", odd_part(tmp_path, b"x" * (3 << 20))), "is no open trace of cprof")


def leave(path, data):
    """An open file that nobody has changed for two hours, so that recover does not watch whether it grows."""
    path.write_bytes(data)
    os.utime(path, (time.time() - 7200,) * 2)
    return path


def odd_part(folder, data):
    return leave(folder / "odd.json.999999999.1.part", data)


def recovered(folder, open_file, data):
    """The trace of these bytes."""
    folder = folder / "left"
    folder.mkdir(exist_ok=True)
    saved(folder, open_file, data)
    return json.loads(text_of(next(folder.glob("out.json*")).read_bytes()))


def test_recover_replaces_no_file_and_deletes_only_recovered(tmp_path, open_file):
    """recover replaces no file. A folder stands for all its open files. --delete removes only files that were recovered."""
    other = open_file.name.replace("rank0", "rank1")
    for name in (open_file.name, other):
        leave(tmp_path / name, open_file.new)
    leave(tmp_path / open_file.name.replace("rank0", "rank2"), open_file.new[:90])
    assert cprof("recover", open_file.name).returncode == 0
    done = cprof("recover", "--delete", tmp_path)
    assert done.returncode == 2 and "nothing to recover" in done.stderr, "rank2's file has no events"
    ending = ".pt.trace.json" + (".gz" if ".gz." in open_file.name else "")
    assert sorted(path.name for path in tmp_path.iterdir()) == \
        [f"rank0.0{ending}", f"rank1.0{ending}", open_file.name.replace("rank0", "rank2")]
    leave(tmp_path / open_file.name, open_file.new)
    refused(cprof("recover", open_file.name, "-o", f"rank1.0{ending}"), "is there already")
    (tmp_path / f"rank0.0{ending}").write_text("another trace")
    assert cprof("recover", open_file.name).returncode == 0 and (tmp_path / f"rank0.0-2{ending}").exists()
    assert (tmp_path / f"rank0.0{ending}").read_text() == "another trace"


def test_recovering_twice_makes_one_trace(tmp_path, open_file):
    """`cprof top RUN` would add two of them up. After the file has grown, the earlier trace stays until the user removes it."""
    part = tmp_path / open_file.name
    leave(part, open_file.new)
    first = cprof("recover", part)
    name = first.stdout.split(": rank")[0]
    before = (tmp_path / name).read_bytes()
    again = cprof("recover", "--delete", os.path.relpath(part, tmp_path))
    assert again.returncode == 0 and not part.exists(), again.stderr
    assert f"cprof: {os.path.basename(name)}: was made from this file before, and stays as it is\n" in again.stderr
    assert os.listdir(tmp_path) == [os.path.basename(name)] and (tmp_path / name).read_bytes() == before
    leave(part, open_file.new + b" " * 10)
    refused(cprof("recover", part), f"{name}: holds an earlier state of {part.name}: remove it, or give another name by --output")
    assert (tmp_path / name).read_bytes() == before and part.exists()


def test_removes_a_leftover_copy_of_a_killed_drop(tmp_path, open_file):
    """cprof was killed while it copied the file to drop old events. recover removes the unfinished copy, but no link of that name."""
    part = tmp_path / "prestep.999999999.part"
    leave(part, open_file.new)
    copy = tmp_path / "prestep.999999999.part.new"
    copy.write_bytes(open_file.new[:1000])
    assert cprof("recover", "--force", tmp_path).returncode == 0 and copy.exists(), "with --force its writer may be alive"
    assert cprof("recover", tmp_path).returncode == 0 and part.exists() and not copy.exists()
    (tmp_path / "target").write_text("")
    copy.symlink_to("target")
    assert cprof("recover", tmp_path).returncode == 0 and copy.is_symlink() and (tmp_path / "target").exists()


def test_one_bad_file_does_not_stop_the_others(tmp_path, open_file):
    """The bad ones: a missing file, a folder without open files, and a folder named like an open file."""
    other, third = (open_file.name.replace("rank0", name) for name in ("rank1", "sub/rank2"))
    (tmp_path / "sub").mkdir()
    (tmp_path / "run/torch_traces").mkdir(parents=True)
    (tmp_path / "empty").mkdir()
    within = "run/torch_traces/" + open_file.name
    for name in (open_file.name, other, third, within):
        leave(tmp_path / name, open_file.new)
    (tmp_path / "folder.json.999999999.1.part").mkdir()
    gone = "gone/x.json.999999999.1.part"
    done = cprof("recover", "--delete", gone, open_file.name, "empty", "folder.json.999999999.1.part", other, "sub", "run")
    assert done.returncode == 2, done.stdout + done.stderr
    assert [line for line in done.stderr.splitlines() if "were open" not in line] == [
        "cprof: empty: holds no open file (*.part)", "cprof: folder.json.999999999.1.part: holds no open file (*.part)",
        f"cprof: {gone}: No such file or directory"]
    assert len(done.stdout.splitlines()) == 4 and not list(tmp_path.rglob("rank*.part"))


def test_refuses_files_that_are_no_open_traces(tmp_path):
    refused(cprof("recover", tmp_path), "holds no open file")
    refused(cprof("recover", "gone.json.1.1.part"), "gone.json.1.1.part")
    (tmp_path / "x.json").write_text("{}")
    refused(cprof("recover", "x.json"), "is no open file of cprof")
    (tmp_path / "y.json.999999999.1.part").write_text("something else\n")
    refused(cprof("recover", "y.json.999999999.1.part"), "is no open trace of cprof")
    (tmp_path / "z.json.999999999.1.part").touch()
    refused(cprof("recover", tmp_path / "z.json.999999999.1.part"), "is empty: the program was killed before the first write")


def test_refuses_a_file_still_being_written(tmp_path):
    with support.Running(support.python(PROGRAM), tmp_path, WARMUP=0, ACTIVE=100) as running:
        running.wait_for("one")
        path = running.wait_flushed("work 1")
        refused(cprof("recover", path), f"process {running.process.pid} is still writing it")
        done = cprof("recover", "--force", path)
        assert done.returncode == 0 and path.exists()
        support.load(done.stdout.split(": rank")[0])
        running.end(signal.SIGKILL)


def test_recovers_after_the_pid_was_reused(tmp_path, open_file):
    """Containers reuse pids quickly. A process that began after the last write to the file is not its writer."""
    with support.Running(support.python("step(); print('on', flush=True)\ntime.sleep(100)"), tmp_path / "other", WARMUP=0, ACTIVE=100) as running:
        running.wait_for("on")
        path = tmp_path / re.sub(r"\.\d+\.0\.part$", f".{running.process.pid}.0.part", open_file.name)
        path.write_bytes(open_file.new)
        refused(cprof("recover", path), f"process {running.process.pid} is still writing it")
        os.utime(path, (time.time() - 600, time.time() - 600))
        assert cprof("recover", path).returncode == 0
        running.end(signal.SIGKILL)


def test_program_named_cprof_is_not_the_writer(tmp_path, open_file):
    """The process has the pid in the file's name, and its thread is called cprof, but it is /bin/sleep."""
    shutil.copy(shutil.which("sleep"), tmp_path / "cprof")
    with subprocess.Popen([tmp_path / "cprof", "100"]) as process:
        path = tmp_path / re.sub(r"\.\d+\.0\.part$", f".{process.pid}.0.part", open_file.name)
        path.write_bytes(open_file.new)
        done = cprof("recover", path)
        process.kill()
    assert done.returncode == 0, done.stderr


APART = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]  # a pid namespace, as in a container
needs_unshare = pytest.mark.skipif(not shutil.which("unshare") or subprocess.run([*APART, "true"], capture_output=True, check=False).returncode != 0,
                                   reason="no pid namespace can be made here")


@needs_unshare
@pytest.mark.parametrize("zipped", [0, 1], ids=["plain", "gzip"])
def test_refuses_a_file_written_in_another_container(tmp_path, zipped):
    """Inside its container the writer has another pid. recover sees the writer from the host. From a third container it sees only that the
    file grows. After the kill it recovers the file."""
    with support.Running([*APART, *support.python(PROGRAM)], tmp_path, WARMUP=0, ACTIVE=100, USE_GZIP=zipped) as running:
        running.wait_for("one")
        path = running.wait_flushed("work 1")
        assert ".1.0.part" in path.name
        refused(cprof("recover", "--delete", path), "is still writing it")
        done = subprocess.run([*APART, *command("recover", "--delete", path)], env=environment(), capture_output=True, text=True, check=False)
        refused(done, "is still written, by a process that cannot be seen from here")
        done = cprof("recover", "--delete", "--force", path)
        assert done.returncode in (0, 2) and path.exists() == ("was written to meanwhile: it stays" in done.stderr)
        running.end(signal.SIGKILL)
    if path.exists():
        done = subprocess.run([*APART, *command("recover", "--delete", path)], env=environment(), capture_output=True, text=True, check=False)
        assert done.returncode == 0 and not path.exists(), done.stderr


# Events of other tools (Chrome's format): begin and end events, old instants, asynchronous events, objects, samples, marks, and keys that
# cprof's own events never have.
FOREIGN = [
    {"ph": "B", "name": "range", "pid": 7, "tid": 8, "ts": 1.0}, {"ph": "E", "pid": 7, "tid": 8, "ts": 2.0},
    {"ph": "I", "name": "old", "pid": 7, "tid": 8, "ts": 1.0}, {"ph": "i", "name": "bare", "pid": 7, "tid": 8, "ts": 1.0},
    {"ph": "n", "name": "async", "cat": "c", "id": 3, "pid": 7, "tid": 8, "ts": 1.0, "scope": "mine"},
    {"ph": "s", "name": "arrow", "cat": "c", "id": 3, "pid": 7, "tid": 8, "ts": 1.0},
    {"ph": "t", "name": "arrow", "cat": "c", "id": 3, "pid": 7, "tid": 8, "ts": 1.0},
    {"ph": "N", "name": "object", "id": "0x1", "pid": 7, "tid": 8, "ts": 1.0}, {"ph": "R", "name": "mark", "pid": 7, "tid": 8, "ts": 1.0},
    {"ph": "P", "name": "sample", "pid": 7, "tid": 8, "ts": 1.0, "stack": ["a", "b"]},
    {"ph": "X", "name": "span", "pid": "text", "tid": "other", "ts": 1.0, "dur": 2.0, "tts": 1, "tdur": 1, "cname": "good", "bind_id": "0x5",
     "flow_out": True},
    {"ph": "X", "name": "ProfilerStep#77", "pid": 7, "tid": 8, "ts": 1.0, "dur": 2.0, "args": {"finished": "false"}}]
RICH = """\
import sys, time
import torch
import cprof
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def steps(n):
    for _ in range(n):
        optimizer.zero_grad(); model(torch.ones(4, 64)).sum().backward(); optimizer.step()
steps(3)
cprof.record_chrome_json_trace_file(sys.argv[1])
steps(3)
cprof.range_push("still open")
cprof.mark("the last")
print("done", flush=True)
time.sleep(1000)
"""


@pytest.mark.parametrize("zipped", [0, 1], ids=["plain", "gzip"])
def test_recovers_every_kind_of_event(tmp_path, zipped):
    """The trace has stacks, modules, memory, shapes and the events of another tool."""
    pytest.importorskip("torch", reason="PyTorch is not installed in .venv")
    base = time.time_ns() // 1000
    foreign = [dict(event, ts=base + 5e6 + event["ts"]) for event in FOREIGN]
    (tmp_path / "theirs.json").write_text(json.dumps({"traceEvents": foreign, "baseTimeNanoseconds": 0}))
    with support.Running([sys.executable, "-c", RICH, tmp_path / "theirs.json"], tmp_path / "out", WARMUP=0, ACTIVE=1000, USE_GZIP=zipped,
                         WITH_STACK=1, WITH_MODULES=1, PROFILE_MEMORY=1, RECORD_SHAPES=1,
                         env={"PYTHONPATH": str(ROOT / "scripts/python")}) as running:
        running.wait_for("done")
        part = running.wait_flushed("the last", '"still open"', '"stackFrames"')
        running.end(signal.SIGKILL)
    before = support.loads_plainly(part)["traceEvents"]
    assert any("sf" in event for event in before) and any(event["name"] == "[memory]" for event in before if "name" in event)
    moved = [event for event in before if event["pid"] >= recover.FOREIGN_PIDS]
    assert {event["ph"] for event in FOREIGN} <= {event["ph"] for event in moved}, moved
    done = cprof("recover", part)
    assert done.returncode == 0 and done.stderr.count("\n") == 1 and "1 ranges were open" in done.stderr, done.stderr
    assert "steps 0 to 5, " in done.stdout and f" {len(before):,} events" in done.stdout, done.stdout
    after = support.loads_plainly(done.stdout.split(": rank")[0])
    assert collections.Counter(map(key, after["traceEvents"])) == collections.Counter(map(key, before))
    assert after["cprof"]["recovered"]["bytes_lost"] == 0 and after["stackFrames"]
