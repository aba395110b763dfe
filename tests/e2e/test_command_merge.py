# SPDX-License-Identifier: Apache-2.0
"""`cprof merge` puts the traces of several ranks side by side on one clock; `cprof ranks` shows which rank waited for which."""

import collections
import gzip
import io
import json
import os
import random
import re
import signal
import subprocess
import sys
import tarfile

import pytest

import gpu_runs
import perfetto
import support
from command_runs import ALLREDUCE, BASE_NS, FIRST_US, MS, PACKAGE, Rank, command, cprof, environment, refused
from cprof.tool import collectives, lines, main, merge
from torch_runs import LOOPBACK, SCRIPTS, TORCHRUN, needs_torch_2, skip_without_torchrun


@pytest.fixture(params=["as cprof writes", "any JSON"])
def both_forms(request, monkeypatch):
    """merge copies the first form line by line as text, and parses the second."""
    monkeypatch.setattr(Rank, "as_cprof", request.param == "as cprof writes")


def training(rank, slow_ms=0.0, steps=6, first=0, **more):
    """A rank that computes and joins an all-reduce slow_ms late. The all-reduce ends 10 ms into each step."""
    one = Rank(rank, **more)
    for n in range(first, first + steps):
        at = n * 12 * MS
        one.step(n, at, 12 * MS)
        one.span("aten::mm", at + 100, 500)
        one.kernel("gemm", at + 1000, 3000 + slow_ms * MS)
        arrived = at + 4000 + slow_ms * MS
        one.kernel(ALLREDUCE, arrived, at + 10 * MS + rank * 2 - arrived)
        one.arrow(7 + n, at + 100, at + 1000)
    return one


def merged(tmp_path, ranks, *options, name="merged.json"):
    paths = [one.write(tmp_path, f"rank{one.rank}-{n}.json") for n, one in enumerate(ranks)]
    done = cprof("merge", *paths, "-o", tmp_path / name, *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{tmp_path / name}\n"
    return support.loads_plainly(tmp_path / name), done.stderr.splitlines()


def of_rank(trace, rank):
    """Events of a rank's processes."""
    return [e for e in trace["traceEvents"] if e["pid"] // 10_000 == rank + 1]


def test_merge_keeps_rows_ids_and_times_apart(tmp_path, both_forms):
    """Both ranks use GPU 0, the same arrow ids and the same thread numbers. One file's base time is 30 days earlier."""
    ranks = [training(0), training(1, base_ns=BASE_NS - 30 * 86400 * 10**9)]
    trace, said = merged(tmp_path, ranks)
    assert said == []
    names = {e["args"]["name"]: e["pid"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    assert sorted(names) == ["rank 0 GPU 0", "rank 0 python", "rank 1 GPU 0", "rank 1 python"]
    assert len(set(names.values())) == 4
    order = {e["pid"]: e["args"]["sort_index"] for e in trace["traceEvents"] if e["name"] == "process_sort_index"}
    assert sorted(names, key=lambda name: order[names[name]]) == ["rank 0 python", "rank 0 GPU 0", "rank 1 python", "rank 1 GPU 0"]
    arrows = collections.defaultdict(set)
    for e in trace["traceEvents"]:
        if e["ph"] in "sf":
            arrows[e["id"]].add((e["ph"], e["pid"] // 10_000))
    assert len(arrows) == 12 and set(map(frozenset, arrows.values())) == \
        {frozenset({("s", 1), ("f", 1)}), frozenset({("s", 2), ("f", 2)})}
    for rank in (0, 1):
        times = [e["ts"] for e in of_rank(trace, rank) if e["name"] == "gemm"]
        assert times == [round(FIRST_US + 30 * 86400e6 + n * 12 * MS + 1000, 3) for n in range(6)]
    assert trace["baseTimeNanoseconds"] == BASE_NS - 30 * 86400 * 10**9
    assert trace["distributedInfo"] == {"backend": "nccl", "rank": 0, "world_size": 2}
    assert [(r["rank"], r["file"], r["events"], r["distributedInfo"]["rank"], r["clock"]["from"]) for r in trace["merged"]] == \
        [(0, "rank0-0.json", len(ranks[0].events), 0, "wall clock"), (1, "rank1-1.json", len(ranks[1].events), 1, "wall clock")]


@perfetto.needed
def test_perfetto_reads_a_merged_trace(tmp_path):
    merged(tmp_path, [training(0), training(1), training(2)], name="merged.json.gz")
    path = tmp_path / "merged.json.gz"
    assert perfetto.import_errors(path) == []
    rows = perfetto.query(path, "select p.name as name, count(*) as n from slice s join thread_track t on s.track_id = t.id join "
                          "thread using (utid) join process p using (upid) group by p.name order by p.name")
    assert [(row["name"], row["n"]) for row in rows] == \
        [(f"rank {n} {what}", 12) for n in range(3) for what in ("GPU 0", "python")]
    assert perfetto.query(path, "select count(*) as n from flow") == [{"n": 18}]


@pytest.mark.parametrize("off_us", [5300.0, -81000.0, 12.0])
def test_merge_aligns_the_clocks_of_two_hosts(tmp_path, off_us, both_forms):
    """Host two's clock is off by off_us. Its ranks leave each collective 4 us after those of host one."""
    ranks = [training(0), training(1), training(2, host="two", clock_us=off_us), training(3, slow_ms=2, host="two", clock_us=off_us)]
    trace, said = merged(tmp_path, ranks)
    line, = said
    moved = re.fullmatch(r"cprof: clock of two: moved by ([-+][\d,.]+) us; the ends of (\d+) collectives then agree within "
                         r"([\d.]+) us \(9 of 10\)", line)
    assert moved, line
    assert float(moved[1].replace(",", "")) == -off_us - 4 and moved[2] == "6" and float(moved[3]) == 0
    clock = trace["merged"][3]["clock"]
    assert clock["from"] == "collective ends" and clock["offset_ns"] == -off_us * 1000 - 4000 and clock["collectives"] == 6
    assert trace["merged"][1]["clock"]["offset_ns"] == 0
    gemm = {rank: [e["ts"] for e in of_rank(trace, rank) if e["name"] == "gemm"] for rank in range(4)}
    assert all(abs(a - b - 4) < 0.01 for a, b in zip(gemm[0], gemm[2])) and gemm[2] == gemm[3]
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    assert "rank 2 python on two" in names


def test_merge_leaves_agreeing_clocks_alone(tmp_path):
    trace, said = merged(tmp_path, [training(0), training(0, host="two")])
    assert said == ["cprof: several traces of rank 0: they share its rows",
                    "cprof: clock of two: unchanged; the ends of 6 collectives agree within 0.0 us (9 of 10)"]
    assert trace["merged"][1]["clock"] == {"offset_ns": 0, "error_ns": 0, "from": "wall clock", "collectives": 6}


def test_merge_reads_a_host_name_after_the_events(tmp_path, both_forms):
    """Another tool may have moved the key host_name behind the events; its clock is still aligned."""
    paths = [one.write(tmp_path, f"{one.rank}.json") for one in (training(0), training(1, host="two", clock_us=-700))]
    text = paths[1].read_text()
    name = re.search(r'"host_name": "two",\s*', text)[0]
    paths[1].write_text(text.replace(name, "").rstrip()[:-1] + ', "host_name": "two"}')
    done = cprof("merge", *paths, "-o", tmp_path / "merged.json")
    assert done.returncode == 0, done.stderr
    assert "clock of two: moved by +698.0 us" in done.stderr
    support.loads_plainly(tmp_path / "merged.json")


def test_merge_takes_the_first_of_two_host_names(tmp_path):
    """A file has host_name before and after the events. The first one counts, also for the clocks."""
    paths = [one.write(tmp_path, f"{one.rank}.json") for one in (training(0), training(1, host="two", clock_us=-700))]
    paths[1].write_text(paths[1].read_text().rstrip()[:-1] + ', "host_name": "three"}')
    done = cprof("merge", *paths, "-o", tmp_path / "merged.json")
    assert done.returncode == 0, done.stderr
    assert "clock of two: moved by +698.0 us" in done.stderr


def test_merge_aligns_clocks_by_common_steps_only(tmp_path, both_forms):
    """Host two recorded as many steps, beginning one step later. Step 3 must not be matched with step 4."""
    ranks = [training(0), training(1, first=1, host="two", clock_us=-700)]
    trace, said = merged(tmp_path, ranks)
    assert said == ["cprof: clock of two: moved by +698.0 us; the ends of 5 collectives then agree within 0.0 us (9 of 10)"]
    assert trace["merged"][1]["clock"]["offset_ns"] == 698_000


def test_merge_reports_hosts_without_collectives(tmp_path):
    one, two = Rank(0), Rank(1, host="two")
    for rank in (one, two):
        rank.span("aten::mm", 0, 5)
    _, said = merged(tmp_path, [one, two])
    assert said == ["cprof: clock of two: unchanged; no collective shows its error"]


def test_clock_offset_respects_causality():
    """No rank leaves a collective before all have joined. This bounds the offset when the ends differ for another reason."""
    def rank(host, start, end):
        one = collectives.Times("x")
        one.rank, one.host, one.world = 0, host, 2
        one.collectives = [collectives.Collective(start, end, ("all_reduce", "", 0))]
        return one
    # Host two leaves 800 ns after host one. It joined 100 ns before host one left, so its clock is at most 100 ns behind.
    clock = collectives.clocks([rank("one", 0, 1000), rank("two", 900, 1800)])["two"]
    assert -800 <= clock.offset_ns <= 100
    moved = collectives.clocks([rank("one", 0, 1000), rank("two", 5000, 5200)])["two"]
    assert 900 - 5200 <= moved.offset_ns <= 1000 - 5000


def test_merge_keeps_odd_events(tmp_path, both_forms):
    """Pids and ids that are text, ranges across threads, emoji, and NaN."""
    one, two = Rank(0), Rank(1)
    for rank in (one, two):
        rank.span("aten::mm \U0001f600 \u00e9 \"q\" \\ \x01", 0, 5, loss=float("nan"))
        rank.events += [
            {"ph": "b", "cat": "range", "name": "load", "id2": {"local": "0x1"}, "pid": rank.pid, "tid": 5, "ts": rank.us(1)},
            {"ph": "e", "cat": "range", "name": "load", "id2": {"local": "0x1"}, "pid": rank.pid, "tid": 5, "ts": rank.us(2)},
            {"ph": "b", "cat": "range", "name": "all", "id": "0xff", "pid": rank.pid, "tid": 5, "ts": rank.us(1)},
            {"ph": "e", "cat": "range", "name": "all", "id": "0xff", "pid": rank.pid, "tid": 5, "ts": rank.us(2)},
            {"ph": "X", "cat": "Trace", "name": "PyTorch Profiler (0)", "pid": "Spans", "tid": "PyTorch Profiler", "ts": rank.us(0), "dur": 9},
            {"ph": "s", "id": 2**62, "pid": rank.pid, "tid": rank.pid, "ts": rank.us(0), "cat": "ac2g", "name": "ac2g"},
            {"ph": "f", "id": 2**62, "pid": rank.pid, "tid": rank.pid, "ts": rank.us(3), "cat": "ac2g", "name": "ac2g", "bp": "e"}]
    trace, _ = merged(tmp_path, [one, two])
    text = (tmp_path / "merged.json").read_text()
    assert "\U0001f600" in text and "NaN" not in text and not re.search(r"\\u[^0]", text)
    assert {e["args"]["loss"] for e in trace["traceEvents"] if e["name"].startswith("aten")} == {"nan"}
    ids = collections.Counter(e["id"] for e in trace["traceEvents"] if "id" in e)
    assert len(ids) == 4 and set(ids.values()) == {2} and all(type(i) is str or 0 <= i < 2**63 for i in ids)
    assert {e["id2"]["local"] for e in trace["traceEvents"] if "id2" in e} == {"0x1"}, "local ids belong to the process and stay"
    assert all(type(e["pid"]) is int and 0 <= e["pid"] < 2**32 for e in trace["traceEvents"])
    if perfetto._reason is None:
        assert perfetto.import_errors(tmp_path / "merged.json") == []


def test_merge_as_text_equals_merge_as_json(tmp_path, monkeypatch):
    """Merges real traces both ways: copied as text, and parsed. They come from markers and, if built, the simulated GPU."""
    result = support.run(support.python("steps(40)"), tmp_path / "cpu", WARMUP=0, ACTIVE=1000)
    paths = [str(path) for path in result.traces]
    if gpu_runs.SIM.is_dir():
        paths += map(str, gpu_runs.gpu_run("train", tmp_path / "gpu").traces)
    assert paths
    monkeypatch.setattr(lines, "CHUNK", 5000)  # many blocks
    moved = []
    move = merge.move
    monkeypatch.setattr(merge, "move", lambda *args: moved.append((args[0], move(*args))) or moved[-1][1])
    parts = [part._replace(shift_ns=shift) for shift in (0, 12_345, -7) for part in merge.parts_of(paths, False)]
    for part in parts:
        merge.write_part(part.path, part, str(tmp_path / "lines"))
        with monkeypatch.context() as patch:
            patch.setattr(merge, "LineTrace", lambda *_: (_ for _ in ()).throw(lines.NotLines()))
            merge.write_part(part.path, part, str(tmp_path / "json"))
        read = [json.loads("[" + (tmp_path / name).read_text().rstrip(",\n") + "]") for name in ("lines", "json")]
        assert len(read[0]) > 100
        assert collections.Counter(map(str, read[0])) == collections.Counter(map(str, read[1]))
        order = [[e["ts"] for e in events if e["ph"] == "X"] for events in read]
        assert order[0] == order[1]
    # a block that only holds row names may become empty: merge writes these names itself
    read_as_json = [block for block, made in moved if not made and block.count(b'{"ph": "M"') < block.count(b"\n")]
    assert len(moved) > (60 if gpu_runs.SIM.is_dir() else 10) and read_as_json == []


@pytest.mark.parametrize("head", [b"", b'{"traceEvents": 1,\n', b'{"a": 1,\n"traceEvents": [\n'], ids=["none", "a line", "whole"])
def test_file_without_line_breaks_falls_back_to_json_early(head):
    """Most writers put everything on one line. The reader must give up early, without buffering the whole file."""
    read = []
    with pytest.raises(lines.NotLines):
        for block in lines.LineTrace(io.BytesIO(head + b'{"ph": "X"}, ' * (5 << 20)), read.append).blocks():
            lines.sound(block)
    assert sum(read) <= 8 * lines.CHUNK, "must give up long before the end of 65 MB"


def test_reads_a_long_metadata_line_after_the_events():
    """A program's own metadata may be a long line."""
    events = b'{"ph": "X"},\n{"ph": "X"}'
    text = b'{"a": 1,\n"traceEvents": [\n' + events + b'\n],\n"long": "' + b"x" * (5 << 20) + b'"}\n'
    trace = lines.LineTrace(io.BytesIO(text), lambda _: None)
    assert b"".join(trace.blocks()) == events + b",\n" and len(trace.metadata["long"]) == 5 << 20


@pytest.mark.parametrize("behind", [b"\0" * 512, b"\0" * (3 << 20), b"\0" * 5 + gzip.compress(b""), b"\0\1", b"\x1f"],
                         ids=["padded", "padded by megabytes", "a member behind padding", "garbage", "a member cut"])
def test_merge_ignores_bytes_after_gzip_data(behind, tmp_path, both_forms):
    """Zeros follow the data when a file was copied in whole blocks, or when its size reached the disk before its contents."""
    paths = [tmp_path / f"rank{rank}.json.gz" for rank in (0, 1)]
    for rank, path in enumerate(paths):
        path.write_bytes(gzip.compress(training(rank).write(tmp_path, "plain").read_bytes()) + behind)
    done = cprof("merge", *paths, "-o", tmp_path / "merged.json")
    assert done.returncode == 0, done.stderr
    trace = support.loads_plainly(tmp_path / "merged.json")
    assert len(of_rank(trace, 0)) == len(of_rank(trace, 1)) >= 40


def test_merge_leaves_names_and_args_unchanged(tmp_path):
    """Names and args hold the text that merge replaces. One process has the number that merge gives to another."""
    one = Rank(0)
    one.span(', "pid": 10000, "tid": 5, "ts": 1.000', 0, 5, note='{"ph": "M", "id": 5, "pid": 10000, "tid": ')
    one.span("args", 0, 5, **{"a": 1, "pid": 10000, "tid": 7})
    one.pid = 15000
    one.meta(15000, "process_name", name="second")
    one.span("aten::mm", 10, 5)
    before = {e["name"]: e["args"] for e in one.events if e["ph"] == "X"}
    trace, _ = merged(tmp_path, [one, Rank(1)])
    spans = {e["name"]: e for e in trace["traceEvents"] if e["ph"] == "X"}
    assert {name: e["args"] for name, e in spans.items()} == before
    names = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    assert names[spans["args"]["pid"]] == "rank 0 python" and names[spans["aten::mm"]["pid"]] == "rank 0 second"


def test_commands_for_single_ranks_refuse_a_merged_trace(tmp_path):
    """Merging keeps correlation numbers in args, and both ranks use the same ones. Launches, stacks or memory would be mixed up between ranks."""
    ranks = [training(0), training(1)]
    for early, one in enumerate(ranks):
        for n in range(6):
            one.span("cudaLaunchKernel", n * 12 * MS + 740 - early * 30, 5, cat="cuda_runtime", correlation=100 + n)
            one.span("copy", n * 12 * MS + 750 - early * 30, 5, "kernel", 0, 7, device=0, stream=7, correlation=100 + n)
    trace, _ = merged(tmp_path, ranks)
    path = tmp_path / "merged.json"
    assert trace["merged_ranks"] == 2
    launches = [e for e in trace["traceEvents"] if e["name"] == "cudaLaunchKernel"]
    assert len(launches) == 12 and len({e["args"]["correlation"] for e in launches}) == 6
    checked = cprof("check", "--json", path)
    assert "before the call" not in checked.stdout and checked.returncode == 0, checked.stdout
    path.write_text(path.read_text().replace('"merged_ranks": 2,\n', ""))  # merged by a version that did not write this key
    for _ in range(2):
        for command in (["top"], ["top", "--by", "device"], ["stacks"], ["memory-timeline", "-o", tmp_path / "x.html"], ["ranks"]):
            done = cprof(*command[:1], path, *command[1:])
            assert done.returncode == 2 and done.stdout == "" and "ranks' own traces" in done.stderr, (command, done)
        path.write_text(path.read_text().replace("{", '{"merged_ranks": 2,', 1))
    again = cprof("merge", path, "-o", tmp_path / "again.json")
    assert again.returncode == 2 and "ranks' own traces" in again.stderr and not (tmp_path / "again.json").exists()


CHILD = 12711


def window_of(pids, at, tmp_path):
    """A trace of rank 0 with one operator of each process."""
    one = Rank(0)
    one.events.clear()
    for pid in pids:
        one.span("aten::mm", at, 50, pid=pid, of=pid)
    return one.write(tmp_path, f"rank0.{at}.json")


@pytest.mark.parametrize("jobs", [1, 2])
def test_merge_keeps_processes_of_a_rank_apart(tmp_path, both_forms, jobs):
    """Two windows list parent and child in different order; a third holds the child alone. Each process keeps one row."""
    paths = [window_of(pids, 100 * n, tmp_path) for n, pids in enumerate(((10000, CHILD), (CHILD, 10000), (CHILD,)))]
    done = cprof("merge", *paths, "-j", jobs, "-o", tmp_path / "merged.json")
    assert done.returncode == 0, done.stderr
    trace = support.loads_plainly(tmp_path / "merged.json")
    rows = collections.defaultdict(set)
    for e in trace["traceEvents"]:
        if e["ph"] == "X":
            rows[e["args"]["of"]].add(e["pid"])
    assert list(map(len, rows.values())) == [1, 1] and rows[10000] != rows[CHILD]
    assert len([e for e in trace["traceEvents"] if e["ph"] == "X"]) == 5


def test_merge_of_parent_and_child_passes_check(tmp_path):
    """Both have a main thread and steps at the same time; nothing may overlap in the merged trace."""
    paths = []
    for n in range(2):
        one = Rank(0)
        one.pid += n
        one.events.clear()
        one.step(1, n * 3000, 12 * MS)
        one.span("aten::mm", 100 + 3000 * n, 5000, tid=7)
        paths.append(one.write(tmp_path, f"rank0.{n}.json"))
    assert cprof("merge", *paths, "-o", tmp_path / "merged.json").returncode == 0
    assert findings_of(tmp_path / "merged.json") == set()


def test_check_of_two_merged_runs_of_a_rank(tmp_path, both_forms):
    """Correlation numbers repeat between runs; check must not report that. It still finds the faults of each run."""
    for run, (at, wrong) in enumerate(((0, 0), (-5000, 0), (-9000, 40))):
        one = Rank(0)
        one.span("cudaLaunchKernel", at + 50, 5, "cuda_runtime", correlation=30)
        one.span("cudaEventRecord", at + 20, 5, "cuda_runtime", correlation=31 + run)
        one.span(f"autograd::engine::evaluate_function: {run}", at + 200, 5, **{"Sequence number": 3})
        one.meta(0, "thread_name", 7, name="stream 7")
        one.span("gemm", at + 60 - wrong, 80, "kernel", 0, 7, device=0, stream=7, correlation=30)
        for n, recording in enumerate((31 + run, 20)):  # the second one was recorded before the window
            one.span("Stream Wait Event", at + 150 + 10 * n, 5, "cuda_sync", 0, 7, cuda_sync_kind="Stream Wait Event", device=0, stream=7,
                     wait_on_cuda_event_record_corr_id=recording)
        one.write(tmp_path, f"run{run}.json")
    done = cprof("merge", "run0.json", "run1.json", "-o", "sound.json")
    assert done.returncode == 0 and "several traces of rank 0" in done.stderr
    assert findings_of("run0.json") == findings_of("sound.json") == {("warning", "a wait names a recording that is not in the trace")}
    cprof("merge", "run0.json", "run1.json", "run2.json", "-o", "wrong.json")
    assert findings_of("wrong.json") == findings_of("run2.json") == findings_of("run0.json") | {
        ("error", "work on the GPU begins before the call that launched it")}


def findings_of(path):
    """Levels and rules of the findings, without those about keys that these files lack."""
    done = json.loads(cprof("check", "--json", path).stdout)
    return {(one["level"], one["rule"]) for one in done["findings"] if "missing" not in one["rule"]}


def test_merge_replaces_no_file_and_names_bad_inputs(tmp_path):
    path, other = Rank(0).write(tmp_path), Rank(1).write(tmp_path)
    out = tmp_path / "out.json"
    out.write_text("precious")
    refused(cprof("merge", path, other, "-o", out), str(out), "is there already")
    assert out.read_text() == "precious"
    assert cprof("merge", path, other, "-o", out, "--force").returncode == 0 and json.loads(out.read_text())["merged"]
    refused(cprof("merge", path, tmp_path / "none.json", "-o", tmp_path / "new.json"), "none.json")
    (tmp_path / "text.json").write_text("text")
    refused(cprof("merge", path, tmp_path / "text.json", "-o", tmp_path / "new.json"), "text.json")
    refused(cprof("merge", path, "-o", tmp_path / "no/folder/new.json"), "no/folder")
    for pipe in ("-", "/dev/stdin"):
        for options in ([], ["--manifest"]):
            refused(cprof("merge", path, pipe, *options, "-o", tmp_path / "new.tar", stdin=None, input=other.read_text()), f"cprof: {pipe}: is read twice")
    cut = tmp_path / "cut.json"
    cut.write_text(training(2).write(tmp_path).read_text()[:-800])
    done = cprof("merge", path, cut, "-o", tmp_path / "cut-merged.json")
    assert done.returncode == 0 and str(cut) in done.stderr, "the events before the cut are used"
    assert support.loads_plainly(tmp_path / "cut-merged.json")["merged"][1]["events"] > 20
    assert {p.name for p in tmp_path.iterdir()} == {"rank0.4.pt.trace.json", "rank1.4.pt.trace.json", "rank2.4.pt.trace.json",
                                                    "out.json", "text.json", "cut.json", "cut-merged.json"}, "no temporary file is left"


def test_merge_works_without_hard_links(tmp_path):
    """FUSE, SMB and FAT have no hard links. merge still writes its result there, and still replaces no file."""
    training(0).write(tmp_path)
    [trace] = tmp_path.iterdir()
    code = ("import errno, os, sys\nfrom cprof.tool import main\n"
            "def link(*names, **how): raise OSError(errno.EPERM, os.strerror(errno.EPERM), *names)\n"
            "os.link = link\nsys.exit(main(sys.argv[1:]))")
    out = tmp_path / "out.json"
    for code_expected in (0, 2):
        done = subprocess.run([sys.executable, "-c", code, "merge", trace, "-o", out], env=environment(PYTHONPATH=PACKAGE),
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == code_expected, done.stderr
    assert "is there already" in done.stderr and support.loads_plainly(out)["merged"]
    assert {path.name for path in tmp_path.iterdir()} == {trace.name, "out.json"}


def test_merge_memory_is_bounded(tmp_path):
    """Merges two gzipped traces, one of each form, with one job and with two: no process takes more than 100 MB."""
    one = training(0, steps=400)
    lines = ",\n".join(json.dumps(e) for e in one.events)
    paths = []
    for rank in range(2):
        path = tmp_path / f"rank{rank}.json.gz"
        with gzip.open(path, "wt", 1) as file:
            file.write('{"distributedInfo": {"rank": %d}, "host_name": "h", "baseTimeNanoseconds": %d, "traceEvents": [\n' % (rank, BASE_NS))
            file.write(",\n".join([lines] * 20) + ("\n]}\n" if rank else "\n],\n\"traceName\": \"\"}\n"))
        paths.append(str(path))
    for jobs in ("1", "2"):
        # not RUSAGE_SELF: its ru_maxrss includes the forked copy of the test process before exec
        code = ("import re, resource, sys\nfrom cprof.tool import main\ncode = main(sys.argv[1:])\n"
                "own = int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read()).group(1))\n"
                "print(max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss))\nsys.exit(code)")
        done = subprocess.run([sys.executable, "-c", code, "merge", *paths, "-j", jobs, "-o", tmp_path / f"{jobs}.json.gz"],
                              env=environment(PYTHONPATH=PACKAGE), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        assert int(done.stdout.split()[-1]) < 100_000, done.stdout
    one, two = (gzip.open(tmp_path / f"{jobs}.json.gz").read().partition(b'"merged"')[0] for jobs in "12")
    assert one == two, "--jobs does not change the result"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_merge_leaves_no_files(tmp_path, number):
    """The signal goes to the whole process group, as from a terminal. No process prints a traceback."""
    line = json.dumps(training(0).events[1])
    for rank in range(2):
        (tmp_path / f"rank{rank}.json").write_text('{"traceEvents": [' + ",\n".join([line] * 100_000) + "]}")
    with subprocess.Popen(command("merge", "-j", 2, *tmp_path.iterdir(), "-o", tmp_path / "out.json"), env=environment(),
                          stderr=subprocess.PIPE, text=True, start_new_session=True) as running:
        support.wait_until(lambda: len(list(tmp_path.glob(".cprof-*.tmp/[01]"))) == 2, "both workers to begin")
        os.killpg(running.pid, number)
        assert running.wait(30) == 128 + number and running.stderr.read() == ""
    assert {path.name for path in tmp_path.iterdir()} == {"rank0.json", "rank1.json"}


# ---- ranks ----

def test_ranks_finds_the_rank_that_others_wait_for(tmp_path):
    """Rank 2 comes 3 ms late to each all-reduce; all steps take equally long."""
    for rank in range(4):
        training(rank, slow_ms=3 if rank == 2 else 0).write(tmp_path)
    done = cprof("ranks", tmp_path)
    assert done.returncode == 0 and done.stderr == ""
    verdict, ranks, steps = done.stdout.rstrip("\n").split("\n\n")
    rows = [line.split() for line in ranks.splitlines()]
    assert rows[1] == ["2", "6", "18.000", "0.000", "12.000", "3.004", "6", "one"]
    assert {tuple(row[2:7]) for row in rows[2:]} == {("0.000", "18.000", "9.000", time, "0") for time in ("6.000", "6.002", "6.006")}
    assert len(steps.splitlines()) == 7 and all("rank 2" in line for line in steps.splitlines()[1:])
    assert verdict.splitlines()[0] == "rank 2 cost the others 18 ms of 72 ms (25 %), in all 6 steps"
    whole = json.loads(cprof("ranks", "--json", tmp_path).stdout)
    assert whole["steps"]["3"]["0"] == {"time_ns": 12_000_000, "own_ns": 9_000_000, "waited_ns": 3_000_000, "collective_ns": 6_000_000}


@pytest.mark.parametrize("late", [0, 1, 2])
def test_broadcast_waits_follow_the_root(tmp_path, late):
    """Receivers wait for the root, and gloo's root waits for its receivers. A receiver does not wait for another receiver."""
    for rank in range(3):
        one = Rank(rank, world=3)
        came = 20 * MS if rank == late else 2 * MS
        over = 22 * MS if late in (0, rank) or rank == 0 else 4 * MS  # a receiver needs the root only
        one.step(3, 0, 30 * MS)
        one.span("gloo:broadcast", came, over - came, "user_annotation", **{"Collective name": "broadcast", "Group size": 3})
        one.write(tmp_path)
    waited = {int(rank): cell["waited_ns"] / 1e6 for rank, cell in json.loads(cprof("ranks", "--json", tmp_path).stdout)["steps"]["3"].items()}
    assert waited == {rank: 0 if rank == late or (late and rank) else 18 for rank in range(3)}


def test_cost_between_two_ranks_is_the_whole_gap(tmp_path):
    for rank in range(2):
        training(rank, slow_ms=3 * rank).write(tmp_path)
    assert cprof("ranks", tmp_path).stdout.startswith("rank 1 cost the others 18 ms of 72 ms (25 %), in all 6 steps\n")


def test_ranks_compares_common_steps_only(tmp_path):
    """Rank 1 recorded as many steps, beginning one step later. Only steps that both recorded are compared."""
    for rank in range(2):
        training(rank, slow_ms=3 * rank, first=rank).write(tmp_path)
    cells = json.loads(cprof("ranks", "--json", tmp_path).stdout)["steps"]
    assert [cells[n]["0"]["waited_ns"] for n in "012345"] == [0] + [3_000_000] * 5
    assert [cells[n]["1"]["waited_ns"] for n in "123456"] == [0] * 6


@pytest.mark.parametrize("name", ["torch.profiler step ", "ProfilerStep#"])
def test_ranks_prefers_cprofs_steps_to_torchs(name, tmp_path):
    """The program also calls torch.profiler's prof.step(), whose ranges look like steps."""
    for rank in range(2):
        one = training(rank, slow_ms=3 * rank)
        for n in range(6):
            one.span(f"{name}{n}", n * 12 * MS + 6000, 11 * MS, "user_annotation")
        one.write(tmp_path)
    cells = json.loads(cprof("ranks", "--json", tmp_path).stdout)["steps"]
    assert [(cells[n]["0"]["time_ns"], cells[n]["0"]["waited_ns"]) for n in "012345"] == [(12_000_000, 3_000_000)] * 6


def test_events_by_step_refuses_a_merged_trace(tmp_path):
    """Step numbers of a merged trace are ambiguous between ranks. A query by name still works."""
    merged(tmp_path, [training(0), training(1, first=3)])
    refused(cprof("events", "--step", 4, tmp_path / "merged.json"), "merged.json: is merged of several ranks")
    done = cprof("events", "--name", "gemm", tmp_path / "merged.json")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 12


def test_ranks_with_a_step_missing_on_one_rank(tmp_path):
    """The other ranks are still compared in that step."""
    for rank in range(3):
        training(rank, slow_ms=3 * rank, steps=6 - (rank == 2), world=3).write(tmp_path)
    cells = json.loads(cprof("ranks", "--json", tmp_path).stdout)["steps"]
    assert [cells[n]["0"]["waited_ns"] for n in "012345"] == [6_000_000] * 5 + [3_000_000]
    assert list(cells["5"]) == ["0", "1"] and cells["5"]["1"]["waited_ns"] == 0


def test_no_wait_is_counted_for_a_missing_collective(tmp_path):
    """Rank 2 recorded the last step without its collective. How long the others waited for it is unknown, so no wait is counted."""
    for rank in range(3):
        one = training(rank, slow_ms=rank, world=3)
        one.events = [e for e in one.events if not (rank == 2 and e["name"] == ALLREDUCE and e["ts"] > FIRST_US + 60 * MS)]
        one.write(tmp_path)
    cells = json.loads(cprof("ranks", "--json", tmp_path).stdout)["steps"]
    assert [cells[n]["0"]["waited_ns"] for n in "012345"] == [2_000_000] * 5 + [0]


def test_equal_ranks_have_no_slowest(tmp_path):
    for rank in range(2):
        training(rank).write(tmp_path)
    verdict, ranks, steps = cprof("ranks", tmp_path).stdout.rstrip("\n").split("\n\n")
    assert "rank" not in "".join(steps.splitlines()[1:]) and [line.split()[6] for line in ranks.splitlines()[1:]] == ["0", "0"]
    assert verdict == "no rank was slower than all others in any of 6 steps"
    refused(cprof("ranks", "--steps", -3, tmp_path), "--steps: must be 0 or more")


def test_ranks_matches_tens_of_thousands_of_collectives(tmp_path):
    """70,000 collectives a step. Rank 1 is late in the second step only, so the last collectives must be matched, too."""
    n, step_us = 70_000, 700_000
    for rank in range(2):
        one = Rank(rank)
        events = [json.dumps(one.events[0])]
        for step in range(2):
            late = 2 * rank * step
            one.step(step, step * step_us, step_us)
            events += [json.dumps(one.events[-1])]
            events += [f'{{"ph":"X","cat":"kernel","name":"{ALLREDUCE}","pid":0,"tid":7,"ts":{FIRST_US + step * step_us + 10 * at + late},'
                       f'"dur":{6 - late}}}' for at in range(n)]
        (tmp_path / f"rank{rank}.json").write_text(
            f'{{"distributedInfo": {{"rank": {rank}, "world_size": 2}}, "traceEvents": [' + ",\n".join(events) + "]}")
    found = json.loads(cprof("ranks", "--json", tmp_path).stdout)
    assert [found["steps"][step]["0"]["waited_ns"] for step in "01"] == [0, 2000 * n]
    assert [(row["rank"], row["slowest_in"]) for row in found["ranks"]] == [(1, 1), (0, 0)]


def test_ranks_skips_other_json_in_the_folder(tmp_path):
    for rank in range(2):
        training(rank, slow_ms=rank).write(tmp_path)
    before = cprof("ranks", "--json", tmp_path)
    (tmp_path / "config.json").write_text('{"lr": 0.1}')
    (tmp_path / "empty.json").write_text("")
    done = cprof("ranks", "--json", tmp_path)
    assert (done.returncode, done.stdout) == (0, before.stdout)
    assert done.stderr.splitlines() == [f"cprof: {tmp_path / 'config.json'}: has no traceEvents: no trace: left out",
                                        f"cprof: {tmp_path / 'empty.json'}: is empty: left out"]
    refused(cprof("ranks", tmp_path / "config.json"), "no traceEvents")


def test_ranks_matches_windows_by_step(tmp_path):
    """The second window of a rank is not matched with the first window of another."""
    for rank in range(2):
        for window in range(2):
            one = Rank(rank)
            for n in (window * 5 + 1, window * 5 + 2):
                at, late = n * 12 * MS, 2 * MS * (rank == 1)
                one.step(n, at, 12 * MS)
                one.kernel(ALLREDUCE, at + 4000 + late, 6000 - late)
            one.write(tmp_path, f"rank{rank}.{window * 5 + 3}.pt.trace.json")
    found = json.loads(cprof("ranks", "--json", tmp_path).stdout)
    assert sorted(found["steps"], key=int) == ["1", "2", "6", "7"]
    assert all(cells["0"]["waited_ns"] == 2_000_000 and cells["1"]["waited_ns"] == 0 for cells in found["steps"].values())


def test_ranks_skips_a_merged_trace_in_the_folder(tmp_path):
    """Users put the merged trace beside its inputs. ranks skips it in a folder, and refuses it when named."""
    paths = [training(rank, slow_ms=2 * rank).write(tmp_path) for rank in range(2)]
    before = cprof("ranks", "--json", tmp_path)
    for name in ("merged.json", "merged.json.gz"):
        assert cprof("merge", *paths, "-o", name).returncode == 0
    done = cprof("ranks", "--json", tmp_path)
    assert (done.returncode, done.stdout) == (0, before.stdout)
    assert done.stderr.splitlines() == [f"cprof: {tmp_path / name}: is merged of several ranks: left out"
                                        for name in ("merged.json", "merged.json.gz")] + before.stderr.splitlines()
    refused(cprof("ranks", *paths, "merged.json"), "merged.json: is merged of several ranks")
    for path in paths:
        path.unlink()
    refused(cprof("ranks", "merged.json"), "is merged of several ranks")
    done = cprof("ranks", tmp_path)
    assert done.returncode == 2 and done.stderr.startswith(f"cprof: {tmp_path}: holds no trace of a single rank ({tmp_path}/merged.json: is merged of several ranks")


def test_ranks_uses_the_last_time_of_a_repeated_step(tmp_path):
    """Two attempts at a run share a folder. ranks reports which one it uses, whatever the order of the files. A duplicate trace counts
    once."""
    for n, name in (1, "a"), (0, "b"), (0, "c"):
        for rank in range(2):
            training(rank, slow_ms=3 * rank if n else 0, clock_us=n * 10**6).write(tmp_path, f"rank{rank}-{name}.json")
    done = cprof("ranks", tmp_path)
    assert done.stderr.splitlines() == [f"cprof: rank {rank} made 6 of its steps several times (of another run, or after a restart): the "
                                        "last time counts" for rank in range(2)]
    cells = json.loads(cprof("ranks", "--json", tmp_path).stdout)["steps"]
    assert [cells[str(n)]["0"]["waited_ns"] for n in range(6)] == [3_000_000] * 6


def test_ranks_warns_about_traces_of_different_attempts(tmp_path):
    """After a restart, rank 0's trace is of the first attempt and rank 1's of the second. A comparison would mean nothing."""
    for rank in range(2):
        training(rank, clock_us=rank * 10**7).write(tmp_path)
    done = cprof("ranks", tmp_path)
    assert done.returncode == 0 and re.fullmatch(r"cprof: step \d began on rank 1 10\.0 s after it was over on rank 0: are these traces of several runs, "
                                                 r"or of attempts at one\? Then the comparison means nothing\n", done.stderr)


def test_ranks_without_common_steps_compares_nothing(tmp_path):
    for rank in range(2):
        one = Rank(rank)
        one.step(rank + 1, 0, 10)
        one.write(tmp_path)
    assert cprof("ranks", tmp_path).stdout.startswith("no step is in the traces of two ranks: nothing to compare\n")


def test_ranks_without_steps_or_traces(tmp_path):
    refused(cprof("ranks", tmp_path), "holds no traces")
    one = Rank(0)
    one.span("aten::mm", 0, 5)
    one.write(tmp_path)
    refused(cprof("ranks", tmp_path), "no trace has steps")
    one.step(1, 0, 10)
    one.write(tmp_path)
    done = cprof("ranks", tmp_path)
    assert done.returncode == 0 and "no collectives" in done.stderr and "nothing to compare" in done.stdout


# ---- odd values in any field ----

ODD = [None, True, 0, -1, 1, 2**31, 2**63, -(2**70), 1e-9, 1.5, 1e18, 1e300, float("nan"), float("inf"), "", "x", "7", "\u00e9\u0000\ud800", "0xff",
       [], [1], {}, {"a": 1}, {"local": []}, {"global": "5"}, "9" * 40, "ProfilerStep#", "ProfilerStep#" + "9" * 30, ALLREDUCE, "kernel", "M"]
KEYS = ["ph", "cat", "name", "pid", "tid", "ts", "dur", "args", "id", "id2", "bind_id"]
TOP = ["distributedInfo", "baseTimeNanoseconds", "host_name", "cprof", "deviceProperties"]


@pytest.mark.parametrize("seed", range(12))
def test_merge_and_ranks_survive_odd_field_values(seed, monkeypatch, capsys):
    """Either the result is JSON with numbers that Perfetto accepts, or the command refuses the trace."""
    monkeypatch.setenv("CPROF_LOG", "debug")  # with debug, internal errors are raised
    choose = random.Random(seed)
    for _ in range(6):
        paths = []
        for rank in range(2):
            one = training(rank, steps=2, host=choose.choice(["one", "two"]))
            for _ in range(choose.randint(0, 4)):
                choose.choice(one.events)[choose.choice(KEYS)] = choose.choice(ODD)
            top = {key: choose.choice(ODD) for key in choose.sample(TOP, choose.randint(0, 2))}
            head = dict({"distributedInfo": {"rank": rank}, "baseTimeNanoseconds": BASE_NS}, **top)
            form = ",\n".join(json.dumps(event) for event in one.events)
            paths.append(f"rank{rank}.json")
            with open(paths[-1], "w") as file:
                file.write(json.dumps(head, indent=0)[:-2] + ',\n"traceEvents": [\n' + form + '\n],\n"traceName": ""\n}\n')
        for command in (["merge", *paths, "-o", "out.json", "--force", "-j", "1"], ["ranks", *paths], ["ranks", "--json", *paths]):
            code = main(command)
            out, err = capsys.readouterr()
            assert code == 0 or code == 2 and err.startswith("cprof: "), (command, err)
            if command[0] == "merge" and code == 0:
                with open("out.json", encoding="utf-8") as file:
                    made = json.load(file, parse_constant=lambda text: pytest.fail(text))
                assert all(type(e["pid"]) is int and 0 <= e["pid"] < 2**32 for e in made["traceEvents"])


@pytest.mark.parametrize("number", [10**56, -10**56, 10**500, 1 << 63], ids=["large", "less", "no float", "63 bits"])
@pytest.mark.parametrize("place", ["ts", "dur", "baseTimeNanoseconds"])
def test_merge_takes_impossible_times_as_zero(tmp_path, place, number, both_forms):
    """A damaged file has times with too many digits. They count as 0, and the rest is merged."""
    paths = [one.write(tmp_path, f"{one.rank}.json") for one in (training(0), training(1, base_ns=BASE_NS - 10**9))]
    text = paths[1].read_text()
    for time in reversed(list(re.finditer(rf'"{place}": ([1-9][\d.]+)', text))):
        text = text[:time.start(1)] + str(number) + text[time.end(1):]
    paths[1].write_text(text)
    done = cprof("merge", *paths, "-o", tmp_path / "merged.json")
    assert done.returncode == 0, done.stderr
    support.loads_plainly(tmp_path / "merged.json")
    assert cprof("ranks", *paths).returncode == 0


# ---- real ranks ----

@needs_torch_2("its torchrun does not work with Python 3.11")
def test_run_merge_and_ranks_with_torchrun(tmp_path):
    """Runs torchrun under `cprof run`, merges the two traces, opens the result in Perfetto and compares the ranks."""
    skip_without_torchrun()
    done = cprof("run", "--active", 5, "--folder", tmp_path / "out", "--", *TORCHRUN, "--nproc_per_node=2",
                 "--standalone", SCRIPTS / "ranks.py", env=dict(LOOPBACK, OMP_NUM_THREADS=1))
    assert done.returncode == 0 and "cprof: rank 1: 5 steps (1-5), " in done.stderr, done.stderr
    paths = sorted(support.files(tmp_path / "out"))
    made = cprof("merge", *paths, "-o", tmp_path / "merged.json.gz")
    assert made.returncode == 0 and made.stderr == ""
    trace = support.loads_plainly(tmp_path / "merged.json.gz")
    for rank, path in enumerate(paths):
        mine = support.load(path)
        count = collections.Counter((e["ph"], e["name"]) for e in mine["traceEvents"] if e["ph"] != "M")
        assert collections.Counter((e["ph"], e["name"]) for e in of_rank(trace, rank) if e["ph"] != "M") == count
        old = sorted(float(e["ts"]) for e in support.events(mine, ph="X"))
        assert sorted(e["ts"] for e in of_rank(trace, rank) if e["ph"] == "X") == old, "on one host, times stay the same"
    checked = cprof("check", tmp_path / "merged.json.gz")
    assert checked.returncode == 0, checked.stdout
    if perfetto._reason is None:
        assert perfetto.import_errors(tmp_path / "merged.json.gz") == []
    found = json.loads(cprof("ranks", "--json", tmp_path / "out").stdout)
    assert sorted(found["steps"], key=int) == ["1", "2", "3", "4", "5"]
    assert all(cells[rank]["collective_ns"] > 0 for cells in found["steps"].values() for rank in "01")
    assert all(0 <= cells[rank]["waited_ns"] <= cells[rank]["collective_ns"] for cells in found["steps"].values() for rank in "01")


# ---- an archive with a manifest ----

def unpacked(path):
    """The manifest of an archive, its names in order, and the texts of its files."""
    with tarfile.open(path) as tar:
        members = tar.getmembers()
        assert all(member.isreg() and not member.pax_headers for member in members)
        texts = {member.name: tar.extractfile(member).read() for member in members}
    assert members[0].name == "perfetto_manifest.json" and len(texts) == len(members)
    assert re.match(rb'\s*\{\s*"perfetto_manifest"', texts[members[0].name]), "Perfetto recognises the manifest by its first key"
    return json.loads(texts.pop(members[0].name)), [member.name for member in members[1:]], texts


def check_manifest(manifest, names):
    """The rules of https://perfetto.dev/docs/reference/perfetto-manifest, version 1, as far as they concern JSON traces."""
    assert manifest.keys() == {"perfetto_manifest"}
    body = manifest["perfetto_manifest"]
    assert body.keys() <= {"version", "trace_time", "files", "attributes"} and body["version"] == 1
    assert [file["path"] for file in body["files"]] == names
    for file in body["files"]:
        assert file.keys() <= {"path", "machine", "clocks"} and file["machine"].keys() == {"name"} and file["machine"]["name"]
        if "clocks" in file:  # without "clock", Perfetto moves the whole file
            assert file["clocks"].keys() == {"sync_to", "offset_ns"} and type(file["clocks"]["offset_ns"]) is int
            assert file["clocks"]["sync_to"].keys() == {"file"} and file["clocks"]["sync_to"]["file"] in names
            assert file["clocks"]["offset_ns"] >= 0 and file["clocks"]["sync_to"]["file"] != file["path"]
    assert all(key and type(value) in (str, int) for key, value in body["attributes"].items())
    return body["files"]


def test_archive_holds_the_unchanged_traces(tmp_path):
    first, second = training(0), training(1, base_ns=BASE_NS + 5 * MS * MS)
    paths = [first.write(tmp_path, "a.json"), second.write(tmp_path, "b.json")]
    text = paths[1].read_bytes()
    packed = tmp_path / "b.json.gz"
    packed.write_bytes(gzip.compress(text[:1000]) + gzip.compress(text[1000:]))
    done = cprof("merge", packed, paths[0], "--manifest", "-o", tmp_path / "all.tar")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{tmp_path / 'all.tar'}\n", "")
    manifest, names, texts = unpacked(tmp_path / "all.tar")
    files = check_manifest(manifest, names)
    assert names == ["a.json", "b.json"] and texts == {"a.json": paths[0].read_bytes(), "b.json": text}
    assert [file["machine"]["name"] for file in files] == ["rank 0", "rank 1"]
    assert "clocks" not in files[0] and files[1]["clocks"] == {"sync_to": {"file": "a.json"}, "offset_ns": 5 * MS * MS}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_archive_aligns_the_clocks_of_hosts(tmp_path):
    ranks = [training(0, host="one"), training(1, host="two", clock_us=700.0)]  # two's clock is 0.7 ms ahead
    paths = [one.write(tmp_path, f"{one.rank}.json") for one in ranks]
    done = cprof("merge", *paths, "--manifest", "-o", tmp_path / "all.tar")
    assert done.returncode == 0 and "clock of two: moved by -702.0 us" in done.stderr, done.stderr
    manifest, names, _ = unpacked(tmp_path / "all.tar")
    files = check_manifest(manifest, names)
    assert [file["machine"]["name"] for file in files] == ["rank 0 on one", "rank 1 on two"]
    assert files[0]["clocks"] == {"sync_to": {"file": names[1]}, "offset_ns": 702_000} and "clocks" not in files[1]


def test_archive_refuses_bad_names_and_damaged_traces(tmp_path):
    path, = [training(0).write(tmp_path, "a.json")]
    refused(cprof("merge", path, "--manifest", "-o", tmp_path / "all.json"), ".tar")
    assert cprof("merge", path, path, "--manifest", "-o", tmp_path / "all.tar").returncode == 0
    assert unpacked(tmp_path / "all.tar")[1] == ["a.json", "2-a.json"]
    refused(cprof("merge", path, "--manifest", "-o", tmp_path / "all.tar"), "already")
    assert cprof("merge", path, "--manifest", "-o", tmp_path / "all.tar", "--force").returncode == 0
    broken = tmp_path / "c.json.gz"
    whole = gzip.compress(path.read_bytes() * 1 + b" " * 100_000)
    broken.write_bytes(whole[:len(whole) - 20])
    refused(cprof("merge", broken, "--manifest", "-o", tmp_path / "d.tar"), "damaged gzip")
    assert not (tmp_path / "d.tar").exists()
    cut = tmp_path / "e.json"
    cut.write_bytes(path.read_bytes()[:-50])
    refused(cprof("merge", path, cut, "--manifest", "-o", tmp_path / "d.tar"), "e.json: ends in the middle")
    assert [name.name for name in tmp_path.iterdir() if name.name.startswith(("d.", "."))] == []
