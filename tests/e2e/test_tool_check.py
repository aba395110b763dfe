# SPDX-License-Identifier: Apache-2.0
"""`cprof check` finds nothing in good traces of cprof and torch.profiler, and finds each broken rule with its level. Also its exit codes.
test_demo.py and test_consumers.py run it on the traces of whole programs."""

import gzip
import json

import pytest

import tool
from cprof.tool.check import ERROR, WARNING, findings

OURS = {"distributedInfo": {"rank": 0, "world_size": 1, "local_rank": 0, "node_rank": 0}, "deviceProperties": [],
        "baseTimeNanoseconds": 10**18, "displayTimeUnit": "ms", "traceName": "t", "cprof": {"lost": {"late": 0, "total": 0}}}


def name_row(pid, tid):
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "ts": 0.0, "args": {"name": "x"}}


def good():
    """The events of a good trace: a launch with its kernel, an arrow, a counter, an instant and an asynchronous range."""
    return [
        name_row(5000, 5000), name_row(0, 7),
        tool.span("aten::mm", 10.0, 50.0, External_id=1),
        tool.span("cudaLaunchKernel", 20.0, 10.0, cat="cuda_runtime", External_id=1, correlation=3),
        tool.span("gemm", 40.0, 5.0, cat="kernel", pid=0, tid=7, External_id=1, correlation=3, device=0, stream=7),
        {"ph": "s", "id": 3, "pid": 5000, "tid": 5000, "ts": 20.0, "cat": "ac2g", "name": "ac2g"},
        {"ph": "f", "id": 3, "pid": 0, "tid": 7, "ts": 40.0, "cat": "ac2g", "name": "ac2g", "bp": "e"},
        {"ph": "C", "name": "Memory CPU", "pid": 5000, "tid": 5000, "ts": 15.0, "args": {"bytes": 1}},
        {"ph": "i", "s": "t", "cat": "user_annotation", "name": "mark", "pid": 5000, "tid": 5000, "ts": 15.0},
        {"ph": "b", "id2": {"local": 1}, "cat": "nvtx", "name": "r", "pid": 5000, "tid": 5000, "ts": 15.0},
        {"ph": "e", "id2": {"local": 1}, "cat": "nvtx", "name": "r", "pid": 5000, "tid": 5000, "ts": 18.0},
    ]


def found(tmp_path, events, **more):
    """[(level, rule)] of a trace."""
    return [(one.level, one.rule) for one in findings(str(tool.write(tmp_path / "t.json", events, **more)))[0]]


def test_finds_nothing_in_a_good_trace(tmp_path):
    assert found(tmp_path, good(), **OURS) == [] == found(tmp_path, good())
    result = tool.cprof("check", tmp_path / "t.json")
    assert result.rc == 0 and result.out == f"{tmp_path}/t.json: 11 events: nothing wrong\n" and result.err == ""


def test_warns_of_unknown_losses_in_a_recovered_trace(tmp_path):
    """`lost` is zero in such a trace because the count was lost, too."""
    known = {"account": "whole", "bytes_lost": 0}
    account = "the account of what was dropped while recording was lost: cprof.lost says nothing"
    for told, says in ((known, []), ({"account": "missing", "bytes_lost": 0}, [(WARNING, account)]),
                       ({"account": "whole", "bytes_lost": 7}, [(WARNING, "bytes of the open file held no whole event")]), (7, [])):
        assert found(tmp_path, good(), **dict(OURS, cprof=dict(OURS["cprof"], recovered=told))) == says


def change(at, **fields):
    def apply(events):
        events[at] = {**events[at], **fields}
        return events
    return apply


def args(at, **fields):
    def apply(events):
        events[at]["args"] = {**events[at]["args"], **{key.replace("_", " "): value for key, value in fields.items()}}
        return events
    return apply


def without(at, key=None):
    def apply(events):
        if key is None:
            return events[:at] + events[at + 1:]
        return events[:at] + [{name: value for name, value in events[at].items() if name != key}] + events[at + 1:]
    return apply


def plus(*more):
    return lambda events: events + list(more)


OUR_STEP = tool.span("ProfilerStep#8", 0.0, 90.0, cat="user_annotation", tid=4194305)
WAIT = {"cuda_sync_kind": "Stream Wait Event", "wait_on_cuda_event_record_corr_id": 9, "stream": 7, "device": 0}


@pytest.mark.parametrize("broken, ours, others, says", [
    (change(2, ph="Q"), ERROR, ERROR, "unknown phase"),
    (change(2, ts=float("nan")), ERROR, ERROR, "no usable ts"),
    (change(2, ts="10"), ERROR, ERROR, "no usable ts"),
    (change(2, ts=-1.0), ERROR, ERROR, "negative ts"),
    (change(2, dur=-1.0), ERROR, ERROR, "negative dur"),
    (without(2, "dur"), ERROR, ERROR, "no usable dur"),
    (without(2, "name"), ERROR, ERROR, "no name"),
    (change(2, name=""), WARNING, WARNING, "an empty name"),
    (without(2, "pid"), ERROR, ERROR, "no pid or tid"),
    (without(2, "cat"), WARNING, WARNING, "no category"),
    (change(2, args=[]), ERROR, ERROR, "args is no object"),
    (change(2, tid=2**40), ERROR, WARNING, "more than 32 bits"),
    (change(2, tid=-1), ERROR, WARNING, "negative pid or tid"),
    (args(2, Addr=2**64), ERROR, WARNING, "more than 64 bits"),
    (change(7, args={}), ERROR, ERROR, "a counter without a number"),
    (plus(tool.span("late", 30.0, 100.0)), ERROR, WARNING, "spans of one row overlap without nesting"),
    (plus(tool.span("gemm2", 42.0, 5.0, cat="kernel", pid=0, tid=7, device=0, stream=7)), ERROR, WARNING,
     "kernels of one row overlap"),
    (without(5), ERROR, WARNING, "an arrow ends without a beginning"),
    (without(6), WARNING, WARNING, "an arrow has no end"),
    (change(6, ts=19.0), ERROR, ERROR, "an arrow ends before it begins"),
    (without(6, "bp"), ERROR, WARNING, "without bp e"),
    (without(9), ERROR, ERROR, "an asynchronous range ends without a beginning"),
    (without(10), WARNING, WARNING, "an asynchronous range has no end"),
    (plus({"ph": "E", "pid": 1, "tid": 1, "ts": 1.0}), ERROR, ERROR, "E without B"),
    (plus({"ph": "B", "pid": 1, "tid": 1, "ts": 1.0, "name": "x"}), ERROR, ERROR, "B without E"),
    (change(4, ts=19.5), ERROR, ERROR, "begins before the call"),
    (without(3), ERROR, WARNING, "whose call is not in the trace"),
    (without(1), ERROR, None, "rows of a GPU without a name"),
    (args(4, device=1), ERROR, None, "work of one GPU on the row of another"),
    (plus(tool.span("record_param_comms", 12.0, 1.0)), ERROR, WARNING, "record_param_comms lacks"),
    (plus(*(tool.span(f"autograd::engine::evaluate_function: {name}", ts, 1.0, Sequence_number=5)
            for name, ts in (("AddBackward0", 70.0), ("MulBackward0", 80.0)))), ERROR, WARNING, "one Sequence number"),
    (plus(*(tool.span(str(i), 100 + i / 1000, 2000 - i / 500) for i in range(600))), ERROR, ERROR, "more than 512 spans"),
    (plus(5), ERROR, ERROR, "no objects"),
    (plus(tool.span("ProfilerStep#3", 70.0, 10.0, cat="gpu_user_annotation", pid=0, tid=7)), ERROR, None, "a range of a GPU has a step's name"),
    (plus(OUR_STEP, tool.span("ProfilerStep#3", 70.0, 10.0, cat="user_annotation")), ERROR, None, "a range has the name of cprof's steps"),
    (plus(tool.span("ProfilerStep#3", 70.0, 10.0, cat="user_annotation")), None, None, "step"),
    (plus(OUR_STEP, tool.span("torch.profiler step 3", 70.0, 10.0, cat="user_annotation")), None, None, "step"),
])
def test_finds_a_broken_rule(broken, ours, others, says, tmp_path):
    for level, more in ((ours, OURS), (others, {})):
        said = [one for one in found(tmp_path, broken(good()), **more) if says in one[1]]
        assert [one[0] for one in said] == ([level] if level else []), said


def halves(pid):
    """Events of a foreign file whose first span has no beginning and whose last one has no end."""
    return [name_row(pid, 1)] + [{"ph": ph, "pid": pid, "tid": 1, "ts": ts, "cat": "fit", "name": "event/fit"}
                                 for ph, ts in (("E", 1.0), ("B", 2.0), ("E", 3.0), ("B", 4.0))]


@pytest.mark.parametrize("pid, level", [(10_000_001, WARNING), (9_999_999, ERROR), ("10000001", ERROR)])
def test_excuses_unpaired_spans_of_foreign_files(pid, level, tmp_path):
    """Composer's trace handler ends spans whose beginning it left out, and leaves some open. cprof itself writes no B or E events."""
    said = found(tmp_path, good() + halves(pid), **OURS)
    assert [one for one in said if one[1] in ("E without B", "B without E")] == [(level, "E without B"), (level, "B without E")]


def test_excuses_unpaired_foreign_spans_after_a_merge(tmp_path):
    """A merge renumbers the processes."""
    ranks = [tool.write(tmp_path / f"rank{rank}.json", good() + halves(10_000_001),
                        **{**OURS, "distributedInfo": {**OURS["distributedInfo"], "rank": rank, "world_size": 2}}) for rank in range(2)]
    assert tool.cprof("merge", *ranks, "-o", tmp_path / "merged.json").rc == 0
    result = tool.cprof("check", tmp_path / "merged.json")
    assert result.rc == 0 and "warning: E without B (2 times)" in result.out and "warning: B without E (2 times)" in result.out, result.out


def backward(name, tid=5000, **fields):
    return tool.span(f"autograd::engine::evaluate_function: {name}", 70.0 + 2 * len(name), 1.0, tid=tid, **{"Sequence_number": 5, **fields})


@pytest.mark.parametrize("more, says", [
    ([backward("SumBackward0", Fwd_thread_id=1), backward("AddmmBackward0", Fwd_thread_id=1)], 1),
    ([backward("SumBackward0", Fwd_thread_id=1), backward("AddmmBackward0", Fwd_thread_id=2)], 0),  # torch counts on each thread
    ([backward("SumBackward0", Fwd_thread_id=1), backward("SumBackward0", Fwd_thread_id=1)], 0),
    # the backward thread of a GPU runs functions that a thread of the program runs, too
    ([backward("SumBackward0", Fwd_thread_id=1), backward("AddmmBackward0", tid=5001, Fwd_thread_id=1)], 1),
    # without Fwd thread id: without a GPU each thread runs its own backward functions
    ([backward("SumBackward0"), backward("AddmmBackward0")], 1),
    ([backward("SumBackward0"), backward("AddmmBackward0", tid=5001)], 0),
    ([backward("SumBackward0", Fwd_thread_id=0), backward("AddmmBackward0", tid=5001, Fwd_thread_id=0)], 0),
    ([backward("SumBackward0", Fwd_thread_id=[1]), backward("AddmmBackward0", Fwd_thread_id=[1])], 1),
    # each process numbers its own threads
    ([backward("SumBackward0", Fwd_thread_id=1), {**backward("AddmmBackward0", Fwd_thread_id=1), "pid": 5005}], 0),
])
def test_sequence_numbers_are_unique_per_thread(more, says, tmp_path):
    said = found(tmp_path, good() + more, **OURS)
    assert said == [(ERROR, "one Sequence number of several backward operators")] * says


def wait(ts, **fields):
    """A cuda_sync span of a stream that waits for an event."""
    event = tool.span("Stream Wait Event", ts, 1.0, cat="cuda_sync", pid=0, tid=9)
    event["args"] = {**WAIT, **fields}
    return event


def stream_wait(ts, dur, **fields):
    return {**wait(ts, cuda_sync_kind="Stream Sync", **fields), "dur": dur}


def record(ts, correlation):
    return tool.span("cudaEventRecord", ts, 1.0, cat="cuda_runtime", tid=5001, correlation=correlation)


@pytest.mark.parametrize("more, level, says", [
    ([record(28.0, 9), wait(30.0)], None, None),
    ([record(31.0, 9), wait(30.0)], ERROR, "comes later"),
    ([wait(30.0)], ERROR, "not in the trace"),
    ([wait(30.0, wait_on_cuda_event_record_corr_id=1)], WARNING, "not in the trace"),  # recorded before the first call in the trace
    ([wait(30.0, wait_on_cuda_event_record_corr_id=-1)], WARNING, "not known"),
    # the kernel runs from 40 to 45
    ([stream_wait(42.0, 2.9)], WARNING, "ends while"),
    ([stream_wait(42.0, 3.0)], None, None),
    ([stream_wait(39.0, 3.0)], None, None),  # the kernel was launched after the wait
    ([stream_wait(42.0, 2.9, stream=8)], None, None),
    ([stream_wait(42.0, 3.0), stream_wait(43.0, 1.0)], WARNING, "ends while"),
    ([stream_wait(46.0, 1.0)], None, None),
])
def test_checks_gpu_waits_against_the_work(more, level, says, tmp_path):
    said = found(tmp_path, good() + [name_row(0, 9), name_row(5000, 5001)] + more, **OURS)
    assert [one[0] for one in said] == ([level] if level else []) and (says is None or says in said[0][1])


@pytest.mark.parametrize("top, level, says", [
    ({"cprof": {"lost": {"late": 3, "total": 3}}}, ERROR, "records lost: late"),
    ({"cprof": {"lost": {"late": 0, "total": 3}}}, ERROR, "does not add up"),
    ({"cprof": {"lost": {"total": 0}, "notes": ["gpu given up"]}}, WARNING, "cprof's note"),
    ({"cprof": {"unfinished": 2}}, WARNING, "still open"),
    ({"cprof": {"flops": {"CPU": {"mfu_percent": 557816, "tflops_per_s": 5578}}}}, WARNING, "above the device's peak"),
    ({"cprof": {"flops": {"CPU": {"mfu_percent": 10**400}}}}, WARNING, "above the device's peak"),
    ({"cprof": {"flops": {"CPU": {"mfu_percent": 90, "hfu_percent": 120}}}}, WARNING, "above the device's peak"),
    ({"cprof": {"flops": {"CPU": {"tflops_per_s": 5578}, "unknown": 0}}}, WARNING, "above any possible peak"),
    ({"traceName": 5}, ERROR, "of another kind"),
    ({"distributedInfo": {"local_rank": 0, "node_rank": 0}}, WARNING, "no rank"),
    ({"INFO": ["x] Record counts: Out-of-range = 7, Blocklisted runtime = 55"]}, WARNING, "Out-of-range"),
])
def test_reports_losses_and_bad_top_level_values(top, level, says, tmp_path):
    said = found(tmp_path, good(), **{**OURS, **top})
    assert [one[0] for one in said] == [level] and says in said[0][1], said


def test_reports_a_missing_top_level_key(tmp_path):
    assert found(tmp_path, good(), **{key: value for key, value in OURS.items() if key != "baseTimeNanoseconds"}) == [
        (ERROR, "a key of the top level is missing")]


def test_reports_cut_and_open_files(tmp_path):
    whole = tool.write(tmp_path / "t.json", good()).read_bytes()
    (tmp_path / "cut.json.gz").write_bytes(gzip.compress(whole)[:-60])
    result = tool.cprof("check", tmp_path / "cut.json.gz")
    assert result.rc == 1 and "ends in the middle" in result.out
    (tmp_path / "open.json.part").write_bytes(whole)
    result = tool.cprof("check", tmp_path / "open.json.part")
    assert result.rc == 0 and "still open" in result.out
    assert tool.cprof("check", "--strict", tmp_path / "open.json.part").rc == 1


def test_exit_code_is_the_worst_of_several_traces(tmp_path):
    fine, bad, none = (tmp_path / name for name in ("fine.json", "bad.json", "none.json"))
    tool.write(fine, good())
    tool.write(bad, without(9)(good()))
    result = tool.cprof("check", "--json", fine, bad)
    rows = [json.loads(line) for line in result.out.splitlines()]
    assert result.rc == 1 and [row["ok"] for row in rows] == [True, False] and rows[1]["findings"][0]["count"] == 1
    result = tool.cprof("check", none, fine)
    assert result.rc == 2 and "none.json: No such file" in result.err and "fine.json: 11 events" in result.out
    assert tool.cprof("check", "-q", fine).out == ""


@pytest.mark.skipif(not tool.KINETO_TRACES, reason="the traces of real GPUs are not beside this checkout")
@pytest.mark.parametrize("path", tool.KINETO_TRACES, ids=lambda path: path.name)
def test_finds_no_errors_in_kineto_traces(path):
    result = tool.cprof("check", path)
    assert result.rc == 0 and "error" not in result.out and result.err == "", result.out
