# SPDX-License-Identifier: Apache-2.0
"""Every fault of the simulated GPU (tests/sim/sim.h) ends in a counted, explained result: which counter or line is said with each test.
The program is never harmed: it ends as it does without cprof."""

import re
import time

import pytest

import consumers
from gpu_runs import DEVICE, by_correlation, counts, gpu_run, lost, needed
from conftest import matrix
from support import SANITIZER, events, load, run, span_ns

pytestmark = needed

MANY = ("--threads", 2, "--streams", 2, "--launches", 500)
LAUNCHED = 1000


def faulty(folder, faults, *args, **more):
    """A run of `many` under faults; it ends well and CUPTI was not misused."""
    result = gpu_run("many", folder, *(args or MANY), faults=faults, **more)
    assert result.rc == 0 and result.launched["kernels"], result.err
    assert result.cupti["misuse"] == 0, result.err
    return result


def words(result):
    """cprof's complaints but the one about steps."""
    return [line for line in result.complaints if "no step was marked" not in line]


# ---- no GPU to speak of ------------------------------------------------------------------------------------

@pytest.mark.parametrize("fault", ["no_device", "no_driver"])
def test_no_gpu(tmp_path, fault):
    """The program fails as it does without cprof; no line."""
    without = gpu_run("many", tmp_path / "without", preload=False, faults=fault)
    result = gpu_run("many", tmp_path / "with", faults=fault)
    assert (result.rc, result.out, result.others) == (without.rc, without.out, without.err) and result.rc == 2
    assert words(result) == [] or all("GPU activity is not" in line for line in words(result))
    for path in result.traces:
        assert counts(load(path))["kernel"] == 0


def test_not_privileged(tmp_path):
    """One line that names the setting of the driver; calls are recorded by the hooks."""
    result = faulty(tmp_path, "insufficient=1")
    line, = words(result)
    assert "NVreg_RestrictProfilingToAdminUsers" in line and line.endswith("GPU activity is not")
    trace = result.trace()
    assert lost(trace) == {} and counts(trace)["kernel"] == 0
    assert len(events(trace, ph="X", name="cudaLaunchKernel")) == LAUNCHED


# Functions that cprof calls, an error for each, and whether the GPU side goes on without it.
ERRORS = [
    ("cuptiGetVersion", 999, False),
    ("cuptiSubscribe", 999, False),
    ("cuptiSubscribe", 26, False),
    ("cuptiActivityRegisterCallbacks", 15, False),
    ("cuptiActivityEnable", 15, False),
    ("cuptiActivityEnable", 35, False),
    ("cuptiActivityEnable", 1, False),
    ("cuptiActivityDisable", 1, True),
    ("cuptiActivityFlushAll", 999, None),
    ("cuptiActivityGetNextRecord", 999, None),
    ("cuptiActivityGetNumDroppedRecords", 1, True),
    ("cuptiActivitySetAttribute", 1, True),
    ("cuptiSetThreadIdType", 1, None),
    ("cuptiActivityRegisterTimestampCallback", 1, True),
    ("cuptiGetTimestamp", 999, False),
    ("cuptiGetCallbackName", 1, None),
    ("cuptiGetResultString", 1, True),
    ("cuptiEnableCallback", 1, True),
    ("cuptiActivityEnableRuntimeApi", 1, True),
    ("cuptiActivityEnableDriverApi", 1, True),
    ("cuptiActivityEnableAllSyncRecords", 1, True),
    ("cuptiUnsubscribe", 1, True),
    ("cuptiGetGraphNodeId", 1, True),
]


@pytest.mark.parametrize("function, error, goes_on", ERRORS)
def test_an_error_of_each_function(tmp_path, function, error, goes_on):
    """Either the trace is whole, or a line or a counter says what is missing. Never both silent and incomplete."""
    result = faulty(tmp_path, f"cupti_error={function}:{error}", DRAIN_DEADLINE_MS=1500)
    kernels = [counts(load(path))["kernel"] for path in result.traces]
    counted = {name for path in result.traces for name in lost(load(path))}
    whole = kernels == [LAUNCHED]
    assert whole or words(result) or counted, f"silent loss: {kernels}\n{result.err}"
    if goes_on:
        assert whole and not counted, (kernels, counted, result.err)
    if goes_on is False:
        assert len(words(result)) >= 1 and kernels == [0], (kernels, result.err)
        assert len(events(result.trace(), ph="X", name="cudaLaunchKernel")) == LAUNCHED


def test_one_kind_is_refused(tmp_path):
    """cuptiActivityEnable fails in the middle of a run (the fault is read each time): nothing hangs."""
    result = gpu_run("outlive", tmp_path, "--steps", 12, "--ms", 50, faults="cupti_error=cuptiActivityEnable:1", WARMUP=1, ACTIVE=3)
    assert result.rc == 0 and words(result)


# ---- records that do not come, come late, come in disorder -----------------------------------------------------

def test_dropped_records(tmp_path):
    """Each is counted once, as dropped by CUPTI."""
    result = faulty(tmp_path, "drop=10")
    trace = result.trace()
    assert counts(trace)["kernel"] == LAUNCHED - 100 and result.cupti["dropped"] == 100
    assert lost(trace) == {"gpu_dropped": 100}
    assert re.search(r" 100 lost", result.err)


@pytest.mark.parametrize("faults", ["late_ms=300", "late_device_ms=100", "slow_worker_ms=80", "shuffle=1",
                                    "late_ms=100,shuffle=1", "withhold=0", "forced_unfinished=0", "enable_ms=400", "refuse_ok=1", "overlap=1"])
def test_what_only_takes_longer_or_comes_otherwise(tmp_path, faults):
    """Nothing is missing, nothing is said."""
    result = faulty(tmp_path, faults)
    result.whole()
    result.behaves()


def test_the_device_is_never_described(tmp_path):
    """Its kernels are there without an occupancy, and the window does not wait for the forced flush at the end."""
    result = faulty(tmp_path, "late_device_ms=60000", "--threads", 4, "--launches", 4000, GPU_BUFFER_KB=64)
    trace = result.trace()
    assert counts(trace)["kernel"] == result.launched["kernels"] and lost(trace) == {}
    assert any("est. achieved occupancy %" not in e["args"] for e in events(trace, ph="X", cat="kernel"))
    assert result.cupti["forced_while_on"] == 0
    result.behaves()


@pytest.mark.parametrize("faults", ["late_ms=300", "shuffle=1", "slow_worker_ms=50"])
def test_windows_under_the_same(tmp_path, faults):
    """Records of two windows that drain at once find their files."""
    result = gpu_run("outlive", tmp_path, "--steps", 24, "--at", 3, "--ms", 400, faults=faults,
                     WAIT=1, WARMUP=1, ACTIVE=3, REPEAT=3)
    assert result.rc == 0 and len(result.traces) == 3, result.err
    for path, kernels in zip(result.traces, (16, 15, 15)):
        trace = load(path)
        assert (lost(trace), trace["cprof"]["gpu"]["kernels"]) == ({}, kernels)
    result.behaves()


def test_overlapping_kernels_of_one_stream(tmp_path):
    """They stand on an extra lane: the rows nest (load() checks), none is cut."""
    result = faulty(tmp_path, "overlap=1", "--threads", 1, "--streams", 1, "--launches", 50, "--ns", 200000)
    trace = result.whole()
    rows = {e["tid"] for e in events(trace, ph="X", cat="kernel")}
    assert len(rows) >= 2
    assert all(abs(end - start - 200000) < 1000 for start, end in map(span_ns, events(trace, ph="X", cat="kernel")))


def test_buffers_are_refused(tmp_path):
    """No memory for buffers beyond a small limit: counted by CUPTI, counted by cprof, no crash where refusing is safe."""
    result = faulty(tmp_path, "late_ms=3000,refuse_ok=1", "--threads", 4, "--streams", 2, "--launches", 5000,
                    SCHEDULE_SCOPE="none", GPU_BUFFER_KB=64, DRAIN_DEADLINE_MS=6000)
    trace = result.trace()
    found, kernels = lost(trace), counts(trace)["kernel"]
    assert kernels == 20000 - result.cupti["dropped"]
    assert bool(found) == bool(result.cupti["dropped"])


# ---- graphs -----------------------------------------------------------------------------------------------------

def test_graphs_of_which_nothing_comes(tmp_path):
    """One line and the head of the trace say it: launches without their kernels would else look like graphs of none."""
    result = gpu_run("graphs", tmp_path, faults="no_nodes=1")
    trace, launches = result.trace(), result.launched["graph_launches"]
    line, = words(result)
    assert f"CUPTI reports no work of {launches} launches of CUDA graphs" in line
    assert any("launches of CUDA graphs" in note for note in trace["cprof"]["notes"])
    gpu = trace["cprof"]["gpu"]
    assert (gpu["graph_launches"], gpu["graph_launches_without_work"], lost(trace)) == (launches, launches, {})


def test_graphs_with_conditional_nodes(tmp_path):
    """CUPTI tells of the first iteration of a loop only (kineto#1062): one line and a note name what may be missing."""
    result = gpu_run("graphs", tmp_path, faults="conditional=1")
    line, = words(result)
    note, = result.trace()["cprof"]["notes"]
    assert "conditional nodes" in line and "conditional nodes" in note and lost(result.trace()) == {}


# ---- a version that hangs ---------------------------------------------------------------------------------------

FRAIL = "version=130000,hold_disable=1"  # CUDA 13.0 as first released


@pytest.mark.parametrize("repeat", [1, 3])
def test_kernels_are_never_switched_off_where_that_hangs(tmp_path, repeat):
    """Each window is whole and holds nothing of what ran between them, and what runs after the last is recycled."""
    result = gpu_run("train", tmp_path, "--steps", 300, faults=FRAIL, WAIT=20, WARMUP=1, ACTIVE=3, REPEAT=repeat)
    assert result.rc == 0 and len(result.traces) == repeat and result.parts == [], result.err
    line, = words(result)
    assert "may hang when kernels are switched off" in line and "13.0 Update 1" in line
    for path in result.traces:
        trace = load(path)
        assert lost(trace) == {} and trace["cprof"]["gpu"]["kernels"] == 3 * 66 and counts(trace)["gpu_memcpy"] == 6
        assert set(by_correlation(trace, "kernel")) <= set(by_correlation(trace, "cuda_runtime", "cuda_driver"))
    assert result.cupti["records.concurrent_kernel"] > 250 * 66
    assert result.cupti["misuse"] == 0 and result.cupti["refused"] == 0


def test_a_flush_only_where_a_window_ends_where_that_may_crash(tmp_path):
    """Two seconds of recording: the first release of 13.0 is flushed as often as a window ends, the next one as time goes by."""
    flushes = {}
    for version in (130000, 130001):
        result = gpu_run("outlive", tmp_path / str(version), "--steps", 40, "--ms", 20, "--step-ms", 50, faults=f"version={version}",
                         WARMUP=0, ACTIVE=40)
        trace = result.trace()
        assert lost(trace) == {} and trace["cprof"]["gpu"]["kernels"] == 40 * 5 + 1
        flushes[version] = result.cupti["flushes"]
    assert 1 <= flushes[130000] <= 3 and flushes[130001] >= 6, flushes


# ---- time ------------------------------------------------------------------------------------------------------

def test_kernels_without_a_time(tmp_path):
    """The first ones after a cold start: left out, counted."""
    result = faulty(tmp_path, "zero_times=5")
    assert counts(result.trace())["kernel"] == LAUNCHED - 5
    assert lost(result.trace()) == {"gpu_no_time": 5}
    assert words(result) == []


@pytest.mark.parametrize("version", [18, 24, 130001, 130100])
def test_cupti_is_given_no_clock(tmp_path, version):
    """Some versions give kernels no times then."""
    result = faulty(tmp_path, f"zero_with_callback=1,version={version}")
    assert result.cupti["register_timestamp"] == 0
    result.whole()


def test_another_client_leaves_a_clock_that_gives_no_times(tmp_path):
    """A line and the counts say it."""
    result = gpu_run("second_client", tmp_path, "--early", 1, "--first", 0, "--length", 2, "--clock", 1, "--steps", 30, faults="zero_with_callback=1",
                     WAIT=20, WARMUP=0, ACTIVE=3)
    assert result.rc == 0 and [line for line in words(result) if "gives kernels no times" in line], result.err
    trace = result.trace()
    assert trace["cprof"]["notes"] == ["CUPTI gave kernels no times"] and lost(trace)["gpu_no_time"] >= 150 and counts(trace)["kernel"] == 0


@pytest.mark.parametrize("version", [18, 130100])
def test_first_kernels_by_the_systems_clock(tmp_path, version):
    """Though another client gave CUPTI its clock again. Each comes after its call, but for the few where a reading of the clocks was
    interrupted."""
    result = gpu_run("second_client", tmp_path, "--first", 1, "--length", 1, "--clock", 1, "--steps", 40, faults=f"default_clock=600,version={version}",
                     WAIT=5, WARMUP=1, ACTIVE=30)
    trace = result.trace()
    assert result.cupti["register_timestamp"] == 1 and counts(trace)["kernel"] == 1500 and lost(trace) == {}
    assert trace["cprof"]["gpu"]["before_call"] < 10


@pytest.mark.parametrize("version", [18, 130001])
def test_kernels_before_their_launch(tmp_path, version):
    """A device clock that is 1 ms slow: every kernel stands where it says, counted, without an arrow back in time."""
    result = faulty(tmp_path, f"skew_ns=-1000000,version={version}")
    trace = result.trace()
    assert counts(trace)["kernel"] == LAUNCHED and lost(trace) == {}
    calls = by_correlation(trace, "cuda_runtime")
    early = {e["args"]["correlation"] for e in events(trace, ph="X", cat="kernel") if e["ts"] < calls[e["args"]["correlation"]][0]["ts"]}
    assert trace["cprof"]["gpu"]["before_call"] == len(early) > LAUNCHED * 0.9
    assert not {e["id"] for e in events(trace, ph="f", cat="ac2g")} & early


quick = pytest.mark.skipif(bool(SANITIZER), reason="under a sanitizer's runtime a reading of the clocks takes too long")


@quick
@pytest.mark.parametrize("ppm, version", matrix([(50, 130001), (500, 130001), (500, 18)], (500, 130001), (500, 18)))
def test_the_systems_clock_is_slewed(tmp_path, ppm, version):
    """As NTP does it, but every 20 ms the other way: each call is joined to its hook, each kernel comes after its call."""
    faults = f"slew_ppm={ppm},version={version}"
    faulty(tmp_path / "many", faults, "--threads", 2, "--streams", 2, "--launches", 8000, SCHEDULE_SCOPE="none").whole()
    for program in ("copies", "events"):
        gpu_run(program, tmp_path / program, faults=faults, SCHEDULE_SCOPE="none").whole()


@quick
def test_the_systems_clock_is_slewed_fast(tmp_path):
    """Ten times what NTP does at most: what cannot be joined is counted, and is little."""
    trace = faulty(tmp_path, "slew_ppm=5000", "--threads", 2, "--launches", 8000, SCHEDULE_SCOPE="none").trace()
    found = lost(trace)
    assert counts(trace)["kernel"] == 16000 and set(found) <= {"call_without_record"}, found
    assert found.get("call_without_record", 0) + trace["cprof"]["gpu"]["before_call"] < 800, (found, trace["cprof"]["gpu"])


@pytest.mark.parametrize("step_us", matrix([-5, 100000, -1000000, 3600000000], 100000, -1000000))
def test_the_systems_clock_is_set(tmp_path, step_us):
    """Once, while kernels run: what CUPTI stamped across it, or what fits before and after, is counted; all else has its place."""
    trace = faulty(tmp_path, f"step_us={step_us}", "--threads", 2, "--launches", 8000, "--ns", 40000, "--sync", 10,
                   SCHEDULE_SCOPE="none").trace()
    found = lost(trace)
    assert set(found) <= {"call_without_record", "gpu_invalid", "gpu_without_call"}, found
    assert sum(found.values()) < 800 and counts(trace)["kernel"] >= 16000 - sum(found.values()), (found, counts(trace))


def test_kernels_long_after_their_launch(tmp_path):
    result = faulty(tmp_path, "skew_ns=1000000")
    assert result.whole()["cprof"]["gpu"]["before_call"] == 0


def test_correlation_ids_wrap(tmp_path):
    """At 2^32: every kernel has its call; arrows after the wrap have numbers of their own."""
    result = faulty(tmp_path, "wrap=1")
    trace = result.trace()
    problems = [p for p in consumers.gpu_problems(trace, result.launched) if "arrow" not in p]
    assert problems == [] and lost(trace) == {}
    calls = by_correlation(trace, "cuda_runtime")
    wrapped = [c for c in by_correlation(trace, "kernel") if c < 2**31]
    assert wrapped and all(len(calls[c]) == 1 for c in wrapped)
    ends = {e["id"] for e in events(trace, ph="f", cat="ac2g")}
    assert {c + 2**32 for c in wrapped} <= ends


# ---- a CUPTI that hangs --------------------------------------------------------------------------------------

def not_finished(result):
    """One line says so, and truly what there is of the trace: one file that opens, or none where all was over before it was made."""
    line, = words(result)
    assert result.rc == 0 and "CPROF_DRAIN_DEADLINE_MS" in line and result.traces == [] and len(result.parts) < 2, result.err
    assert ("what is on disk opens as it is" if result.parts else "nothing of it is on disk") in line
    for path in result.parts:
        load(path)


def test_a_flush_that_never_returns(tmp_path):
    """The program ends within the deadline; one line; what is on disk opens."""
    result = faulty(tmp_path, "hold_flush=1", DRAIN_DEADLINE_MS=700)
    not_finished(result)


def test_a_flush_that_never_returns_before_anything_is_on_disk(tmp_path):
    """No file is promised that is not there."""
    result = gpu_run("exit_now", tmp_path, faults="hold_flush=1", DRAIN_DEADLINE_MS=300, SCHEDULE_SCOPE="none")
    not_finished(result)
    assert result.parts == []


def test_letting_go_of_cupti_never_returns(tmp_path):
    """cuptiUnsubscribe hangs when all is written: the program ends, the trace is whole, one line says it."""
    result = faulty(tmp_path, "cupti_error=cuptiUnsubscribe:-1", DRAIN_DEADLINE_MS=700, timeout=60)
    line, = words(result)
    assert "CUPTI" in line and "CPROF_DRAIN_DEADLINE_MS" in line
    assert counts(result.trace())["kernel"] == LAUNCHED and lost(result.trace()) == {}


def test_a_hang_in_the_middle_of_steps(tmp_path):
    """The stepping thread is not taken along."""
    result = gpu_run("train", tmp_path, "--steps", 40, faults="hold_flush=1", WARMUP=1, ACTIVE=2, REPEAT=3, DRAIN_DEADLINE_MS=700)
    assert result.rc == 0, result.err
    assert words(result)


def test_a_hang_while_kinds_are_switched_off(tmp_path):
    """At exit, in cprof's thread: the program waits for it no longer than it said."""
    began = time.monotonic()
    result = gpu_run("outlive", tmp_path, "--steps", 60, "--at", 100, faults="hold_disable=1", SCHEDULE_SCOPE="none", DRAIN_DEADLINE_MS=700,
                     timeout=60)
    assert result.rc == 0 and time.monotonic() - began < 10, result.err
    line, = words(result)
    assert "CPROF_DRAIN_DEADLINE_MS" in line


def test_a_program_that_ends_in_the_middle_of_a_drain(tmp_path):
    """Past the deadline no call of CUPTI is begun: the driver may go down at any moment. The file is not called whole."""
    result = gpu_run("exit_now", tmp_path, "--launches", 50000, "--ns", 100, "--linger", 300, DRAIN_DEADLINE_MS=1, SCHEDULE_SCOPE="none",
                     faults="late_ms=1")
    assert result.cupti["misuse"] == 0, result.err
    not_finished(result)


def test_records_never_finish(tmp_path):
    """A kernel that outlives the deadline, delivered unfinished by the forced flush (its default) or not at all: counted once."""
    for fault in ("forced_unfinished=1", "forced_unfinished=0"):
        result = gpu_run("exit_now", tmp_path / fault, "--launches", 1, "--ns", 5000000000, faults=fault, DRAIN_DEADLINE_MS=2000)
        found = lost(result.trace())
        assert result.rc == 0 and counts(result.trace())["kernel"] == 0, result.err
        assert found and set(found) <= {"launch_without_kernel", "gpu_unfinished", "call_without_record"}, (fault, found)


def test_the_last_buffers_come_after_the_flush(tmp_path):
    """At exit a kernel is still running when the deadline is near: what was finished before it is in the trace all the same."""
    result = gpu_run("outlive", tmp_path, "--steps", 5, "--at", 4, "--ms", 5000, "--wait", 0, faults="late_forced_ms=30",
                     DRAIN_DEADLINE_MS=2000, WARMUP=1, ACTIVE=100)
    trace = result.trace()
    assert result.rc == 0 and counts(trace)["kernel"] == 4 * 5, result.err
    assert set(lost(trace)) <= {"launch_without_kernel", "gpu_unfinished"} and lost(trace)


# ---- small memory --------------------------------------------------------------------------------------------

def test_a_tiny_ring(tmp_path):
    """The hooks' records are lost and counted; CUPTI's are all there."""
    result = faulty(tmp_path, "", "--threads", 4, "--streams", 2, "--launches", 8000, "--ns", 1000, RING_KB=64, SCHEDULE_SCOPE="none",
                    DRAIN_DEADLINE_MS=120000)  # a sanitizer needs its time
    trace = result.trace()
    assert counts(trace)["kernel"] == 32000
    assert set(lost(trace)) <= {"ring_full"}
    assert len(events(trace, ph="X", name="cudaLaunchKernel")) == 32000


def test_the_trace_is_full(tmp_path):
    """CPROF_MAX_TRACE_MB: counted, and the file is whole."""
    result = faulty(tmp_path, "", "--launches", 20000, MAX_TRACE_MB=1, WARMUP=0, ACTIVE=1000)
    trace = result.trace()
    assert set(lost(trace)) <= {"file_limit", "before_first_step_full"} and lost(trace)
    assert DEVICE and counts(trace)["kernel"] <= 40000


def test_programs_below_a_shell_with_faults(tmp_path):
    """A child that does not use the GPU is untouched by all this."""
    result = run(["/bin/sh", "-c", "exit 3"], tmp_path, env={"SIM_FAULTS": "no_driver"})
    assert result.rc == 3 and result.err == "" and result.traces == []
