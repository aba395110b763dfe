# SPDX-License-Identifier: Apache-2.0
"""Every fault of the simulated GPU (tests/sim/sim.h) is counted or reported; each test names the counter or the line. The program is never
harmed: it ends as without cprof."""

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
    """Runs `many` with these faults; checks that it ends well and that cprof did not misuse CUPTI."""
    result = gpu_run("many", folder, *(args or MANY), faults=faults, **more)
    assert result.rc == 0 and result.launched["kernels"], result.err
    assert result.cupti["misuse"] == 0, result.err
    return result


def other_complaints(result):
    """cprof's complaints, without the line about missing step marks."""
    return [line for line in result.complaints if "no step was marked" not in line]


# ---- no usable GPU ------------------------------------------------------------------------------------

@pytest.mark.parametrize("fault", ["no_device", "no_driver"])
def test_without_a_gpu_programs_fail_as_without_cprof(tmp_path, fault):
    """Exit code and output are those of the run without cprof."""
    without = gpu_run("many", tmp_path / "without", preload=False, faults=fault)
    result = gpu_run("many", tmp_path / "with", faults=fault)
    assert (result.rc, result.out, result.others) == (without.rc, without.out, without.err) and result.rc == 2
    assert other_complaints(result) == [] or all("GPU activity is not" in line for line in other_complaints(result))
    for path in result.traces:
        assert counts(load(path))["kernel"] == 0


def test_reports_missing_privileges(tmp_path):
    """One line names the driver's setting. The hooks record the calls."""
    result = faulty(tmp_path, "insufficient=1")
    line, = other_complaints(result)
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
def test_error_of_each_cupti_function_is_reported(tmp_path, function, error, goes_on):
    """Either the trace holds all kernels, or a line or a counter reports the loss."""
    result = faulty(tmp_path, f"cupti_error={function}:{error}", DRAIN_DEADLINE_MS=1500)
    kernels = [counts(load(path))["kernel"] for path in result.traces]
    counted = {name for path in result.traces for name in lost(load(path))}
    whole = kernels == [LAUNCHED]
    assert whole or other_complaints(result) or counted, f"silent loss: {kernels}\n{result.err}"
    if goes_on:
        assert whole and not counted, (kernels, counted, result.err)
    if goes_on is False:
        assert len(other_complaints(result)) >= 1 and kernels == [0], (kernels, result.err)
        assert len(events(result.trace(), ph="X", name="cudaLaunchKernel")) == LAUNCHED


def test_refused_activity_kind_does_not_hang(tmp_path):
    """cuptiActivityEnable fails at each window."""
    result = gpu_run("outlive", tmp_path, "--steps", 12, "--ms", 50, faults="cupti_error=cuptiActivityEnable:1", WARMUP=1, ACTIVE=3)
    assert result.rc == 0 and other_complaints(result)


# ---- missing, late and shuffled records -----------------------------------------------------

def test_dropped_records_are_counted(tmp_path):
    """Each dropped record counts once."""
    result = faulty(tmp_path, "drop=10")
    trace = result.trace()
    assert counts(trace)["kernel"] == LAUNCHED - 100 and result.cupti["dropped"] == 100
    assert lost(trace) == {"gpu_dropped": 100}
    assert re.search(r" 100 lost", result.err)


@pytest.mark.parametrize("faults", ["late_ms=300", "late_device_ms=100", "slow_worker_ms=80", "shuffle=1",
                                    "late_ms=100,shuffle=1", "withhold=0", "forced_unfinished=0", "enable_ms=400", "refuse_ok=1", "overlap=1"])
def test_late_or_shuffled_records_lose_nothing(tmp_path, faults):
    """Nothing is missing, and no line is printed."""
    result = faulty(tmp_path, faults)
    result.whole()
    result.behaves()


def test_missing_device_record_costs_only_occupancy(tmp_path):
    """Without a device record, kernels lack their occupancy. The window does not wait for the forced flush at the end."""
    result = faulty(tmp_path, "late_device_ms=60000", "--threads", 4, "--launches", 4000, GPU_BUFFER_KB=64)
    trace = result.trace()
    assert counts(trace)["kernel"] == result.launched["kernels"] and lost(trace) == {}
    assert any("est. achieved occupancy %" not in e["args"] for e in events(trace, ph="X", cat="kernel"))
    assert result.cupti["forced_while_on"] == 0
    result.behaves()


@pytest.mark.parametrize("faults", ["late_ms=300", "shuffle=1", "slow_worker_ms=50"])
def test_late_or_shuffled_records_find_their_window(tmp_path, faults):
    """Two windows drain at the same time; each record goes into the file of its own window."""
    result = gpu_run("outlive", tmp_path, "--steps", 24, "--at", 3, "--ms", 400, faults=faults,
                     WAIT=1, WARMUP=1, ACTIVE=3, REPEAT=3)
    assert result.rc == 0 and len(result.traces) == 3, result.err
    for path, kernels in zip(result.traces, (16, 15, 15)):
        trace = load(path)
        assert (lost(trace), trace["cprof"]["gpu"]["kernels"]) == ({}, kernels)
    result.behaves()


def test_overlapping_kernels_get_an_extra_lane(tmp_path):
    """Overlapping kernels of a stream stand in an extra row. load() checks that rows nest; no kernel is cut."""
    result = faulty(tmp_path, "overlap=1", "--threads", 1, "--streams", 1, "--launches", 50, "--ns", 200000)
    trace = result.whole()
    rows = {e["tid"] for e in events(trace, ph="X", cat="kernel")}
    assert len(rows) >= 2
    assert all(abs(end - start - 200000) < 1000 for start, end in map(span_ns, events(trace, ph="X", cat="kernel")))


def test_refused_buffers_are_counted(tmp_path):
    """Beyond a small limit cprof refuses buffers. CUPTI then drops records, and cprof counts them."""
    result = faulty(tmp_path, "late_ms=3000,refuse_ok=1", "--threads", 4, "--streams", 2, "--launches", 5000,
                    SCHEDULE_SCOPE="none", GPU_BUFFER_KB=64, DRAIN_DEADLINE_MS=6000)
    trace = result.trace()
    found, kernels = lost(trace), counts(trace)["kernel"]
    assert kernels == 20000 - result.cupti["dropped"]
    assert bool(found) == bool(result.cupti["dropped"])


# ---- graphs -----------------------------------------------------------------------------------------------------

def test_reports_graph_launches_without_records(tmp_path):
    """CUPTI reports no work of graphs. One line and a note say so; otherwise the graphs would look empty."""
    result = gpu_run("graphs", tmp_path, faults="no_nodes=1")
    trace, launches = result.trace(), result.launched["graph_launches"]
    line, = other_complaints(result)
    assert f"CUPTI reports no work of {launches} launches of CUDA graphs" in line
    assert any("launches of CUDA graphs" in note for note in trace["cprof"]["notes"])
    gpu = trace["cprof"]["gpu"]
    assert (gpu["graph_launches"], gpu["graph_launches_without_work"], lost(trace)) == (launches, launches, {})


def test_warns_about_conditional_graph_nodes(tmp_path):
    """CUPTI reports only the first iteration of a conditional loop (kineto#1062). One line and a note name what may be missing."""
    result = gpu_run("graphs", tmp_path, faults="conditional=1")
    line, = other_complaints(result)
    note, = result.trace()["cprof"]["notes"]
    assert "conditional nodes" in line and "conditional nodes" in note and lost(result.trace()) == {}


# ---- a version that hangs ---------------------------------------------------------------------------------------

FRAIL = "version=130000,hold_disable=1"  # CUDA 13.0 as first released


@pytest.mark.parametrize("repeat", [1, 3])
def test_never_switches_kernels_off_where_that_hangs(tmp_path, repeat):
    """Each window holds all its kernels and none from between the windows. Records after the last window are dropped."""
    result = gpu_run("train", tmp_path, "--steps", 300, faults=FRAIL, WAIT=20, WARMUP=1, ACTIVE=3, REPEAT=repeat)
    assert result.rc == 0 and len(result.traces) == repeat and result.parts == [], result.err
    line, = other_complaints(result)
    assert "may hang when kernels are switched off" in line and "13.0 Update 1" in line
    for path in result.traces:
        trace = load(path)
        assert lost(trace) == {} and trace["cprof"]["gpu"]["kernels"] == 3 * 66 and counts(trace)["gpu_memcpy"] == 6
        assert set(by_correlation(trace, "kernel")) <= set(by_correlation(trace, "cuda_runtime", "cuda_driver"))
    assert result.cupti["records.concurrent_kernel"] > 250 * 66
    assert result.cupti["misuse"] == 0 and result.cupti["refused"] == 0


def test_flushes_only_at_window_ends_where_flushing_may_crash(tmp_path):
    """Two seconds of recording. The first release of 13.0 is flushed only at the end of a window, the next release regularly."""
    flushes = {}
    for version in (130000, 130001):
        result = gpu_run("outlive", tmp_path / str(version), "--steps", 40, "--ms", 20, "--step-ms", 50, faults=f"version={version}",
                         WARMUP=0, ACTIVE=40)
        trace = result.trace()
        assert lost(trace) == {} and trace["cprof"]["gpu"]["kernels"] == 40 * 5 + 1
        flushes[version] = result.cupti["flushes"]
    assert 1 <= flushes[130000] <= 3 and flushes[130001] >= 6, flushes


# ---- time ------------------------------------------------------------------------------------------------------

def test_kernels_without_times_are_counted(tmp_path):
    """The first kernels after a cold start have no times. They are left out and counted."""
    result = faulty(tmp_path, "zero_times=5")
    assert counts(result.trace())["kernel"] == LAUNCHED - 5
    assert lost(result.trace()) == {"gpu_no_time": 5}
    assert other_complaints(result) == []


@pytest.mark.parametrize("version", [18, 24, 130001, 130100])
def test_sets_no_clock_in_cupti(tmp_path, version):
    """Some versions give kernels no times when a clock callback is registered."""
    result = faulty(tmp_path, f"zero_with_callback=1,version={version}")
    assert result.cupti["register_timestamp"] == 0
    result.whole()


def test_reports_kernels_without_times_after_another_client(tmp_path):
    """The client's clock callback makes CUPTI give kernels no times. A line, a note and a counter report it."""
    result = gpu_run("second_client", tmp_path, "--early", 1, "--first", 0, "--length", 2, "--clock", 1, "--steps", 30, faults="zero_with_callback=1",
                     WAIT=20, WARMUP=0, ACTIVE=3)
    assert result.rc == 0 and [line for line in other_complaints(result) if "gives kernels no times" in line], result.err
    trace = result.trace()
    assert trace["cprof"]["notes"] == ["CUPTI gave kernels no times"] and lost(trace)["gpu_no_time"] >= 150 and counts(trace)["kernel"] == 0


@pytest.mark.parametrize("version", [18, 130100])
def test_kernels_keep_order_after_the_clock_was_reset(tmp_path, version):
    """Another client set CUPTI's clock and reset it. Kernels begin after their calls, except the few for which reading the clocks was
    interrupted."""
    result = gpu_run("second_client", tmp_path, "--first", 1, "--length", 1, "--clock", 1, "--steps", 40, faults=f"default_clock=600,version={version}",
                     WAIT=5, WARMUP=1, ACTIVE=30)
    trace = result.trace()
    assert result.cupti["register_timestamp"] == 1 and counts(trace)["kernel"] == 1500 and lost(trace) == {}
    assert trace["cprof"]["gpu"]["before_call"] < 10


@pytest.mark.parametrize("version", [18, 130001])
def test_kernels_before_their_launch_are_counted(tmp_path, version):
    """The device clock is 1 ms slow. Kernels keep their times and are counted. No arrow goes back in time."""
    result = faulty(tmp_path, f"skew_ns=-1000000,version={version}")
    trace = result.trace()
    assert counts(trace)["kernel"] == LAUNCHED and lost(trace) == {}
    calls = by_correlation(trace, "cuda_runtime")
    early = {e["args"]["correlation"] for e in events(trace, ph="X", cat="kernel") if e["ts"] < calls[e["args"]["correlation"]][0]["ts"]}
    assert trace["cprof"]["gpu"]["before_call"] == len(early) > LAUNCHED * 0.9
    assert not {e["id"] for e in events(trace, ph="f", cat="ac2g")} & early


needs_fast_clocks = pytest.mark.skipif(bool(SANITIZER), reason="reading the clocks takes too long under a sanitizer")


@needs_fast_clocks
@pytest.mark.parametrize("ppm, version", matrix([(50, 130001), (500, 130001), (500, 18)], (500, 130001), (500, 18)))
def test_slewed_system_clock_loses_no_joins(tmp_path, ppm, version):
    """The clock is slewed as by NTP, in the other direction every 20 ms. Each call joins its hook, and each kernel begins after its call."""
    faults = f"slew_ppm={ppm},version={version}"
    faulty(tmp_path / "many", faults, "--threads", 2, "--streams", 2, "--launches", 8000, SCHEDULE_SCOPE="none").whole()
    for program in ("copies", "events"):
        gpu_run(program, tmp_path / program, faults=faults, SCHEDULE_SCOPE="none").whole()


@needs_fast_clocks
def test_kernel_of_a_call_between_pauses_begins_after_it(tmp_path):
    """The thread makes no call for 7 ms, and is then away for 7 ms inside its next one, whose kernel begins at once. The slewing turns in between.
    It is fast, because the simulated kernel begins 10 us after its call."""
    faulty(tmp_path, "slew_ppm=5000,hold_launch_ms=7", "--threads", 1, "--streams", 1, "--launches", 1, "--rounds", 100, "--gap", 7,
           SCHEDULE_SCOPE="none").whole()


@needs_fast_clocks
def test_fast_slewing_loses_few_joins(tmp_path):
    """Ten times NTP's limit. Few calls cannot be joined, and these are counted."""
    trace = faulty(tmp_path, "slew_ppm=5000", "--threads", 2, "--launches", 8000, SCHEDULE_SCOPE="none").trace()
    found = lost(trace)
    assert counts(trace)["kernel"] == 16000 and set(found) <= {"call_without_record"}, found
    assert found.get("call_without_record", 0) + trace["cprof"]["gpu"]["before_call"] < 800, (found, trace["cprof"]["gpu"])


@pytest.mark.parametrize("step_us", matrix([-5, 100000, -1000000, 3600000000], 100000, -1000000))
def test_setting_the_system_clock_loses_few_joins(tmp_path, step_us):
    """The clock is set once while kernels run. Records around that moment may be ambiguous; these are counted, and all others are joined."""
    trace = faulty(tmp_path, f"step_us={step_us}", "--threads", 2, "--launches", 8000, "--ns", 40000, "--sync", 10,
                   SCHEDULE_SCOPE="none").trace()
    found = lost(trace)
    assert set(found) <= {"call_without_record", "gpu_invalid", "gpu_without_call"}, found
    assert sum(found.values()) < 800 and counts(trace)["kernel"] >= 16000 - sum(found.values()), (found, counts(trace))


def test_fast_device_clock_is_no_problem(tmp_path):
    result = faulty(tmp_path, "skew_ns=1000000")
    assert result.whole()["cprof"]["gpu"]["before_call"] == 0


def test_wrapped_correlation_ids_stay_joined(tmp_path):
    """Correlation ids wrap at 2^32. Every kernel has its call, and arrows after the wrap have new ids."""
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

def assert_not_finished(result):
    """Checks that one line reports the unfinished trace and whether there is a file. A file, if any, can be read."""
    line, = other_complaints(result)
    assert result.rc == 0 and "CPROF_DRAIN_DEADLINE_MS" in line and result.traces == [] and len(result.parts) < 2, result.err
    assert ("what is on disk opens as it is" if result.parts else "nothing of it is on disk") in line
    for path in result.parts:
        load(path)


def test_hanging_flush_does_not_hold_up_the_exit(tmp_path):
    """The program ends within the deadline with one line, and the open file can be read."""
    result = faulty(tmp_path, "hold_flush=1", DRAIN_DEADLINE_MS=700)
    assert_not_finished(result)


def test_hanging_flush_without_a_file_promises_none(tmp_path):
    """The flush hangs before the file exists; the line must not name a file. A slow run has made one: then another run shows it."""
    for n in range(9):
        result = gpu_run("exit_now", tmp_path / str(n), faults="hold_flush=1", DRAIN_DEADLINE_MS=300, SCHEDULE_SCOPE="none")
        assert_not_finished(result)
        if not result.parts:
            return
    pytest.fail("each run has made a file before it ended")


def test_hanging_unsubscribe_keeps_the_trace(tmp_path):
    """cuptiUnsubscribe hangs after the trace was written. The program ends with one line and a finished trace."""
    result = faulty(tmp_path, "cupti_error=cuptiUnsubscribe:-1", DRAIN_DEADLINE_MS=700, timeout=60)
    line, = other_complaints(result)
    assert "CUPTI" in line and "CPROF_DRAIN_DEADLINE_MS" in line
    assert counts(result.trace())["kernel"] == LAUNCHED and lost(result.trace()) == {}


def test_hanging_flush_does_not_stop_the_steps(tmp_path):
    """The flush hangs on cprof's thread; the program's thread goes on with its steps."""
    result = gpu_run("train", tmp_path, "--steps", 40, faults="hold_flush=1", WARMUP=1, ACTIVE=2, REPEAT=3, DRAIN_DEADLINE_MS=700)
    assert result.rc == 0, result.err
    assert other_complaints(result)


def test_hanging_disable_does_not_hold_up_the_exit(tmp_path):
    """cuptiActivityDisable hangs on cprof's thread at the exit. The program waits for CPROF_DRAIN_DEADLINE_MS at most."""
    began = time.monotonic()
    result = gpu_run("outlive", tmp_path, "--steps", 60, "--at", 100, faults="hold_disable=1", SCHEDULE_SCOPE="none", DRAIN_DEADLINE_MS=700,
                     timeout=60)
    assert result.rc == 0 and time.monotonic() - began < 10, result.err
    line, = other_complaints(result)
    assert "CPROF_DRAIN_DEADLINE_MS" in line


def test_no_cupti_call_after_the_deadline(tmp_path):
    """After the deadline cprof calls CUPTI no more, because the driver may shut down at any moment. The file does not count as complete."""
    result = gpu_run("exit_now", tmp_path, "--launches", 50000, "--ns", 100, "--linger", 300, DRAIN_DEADLINE_MS=1, SCHEDULE_SCOPE="none",
                     faults="late_ms=1")
    assert result.cupti["misuse"] == 0, result.err
    assert_not_finished(result)


def test_unfinished_kernels_are_counted_once(tmp_path):
    """A kernel outlives the deadline. The forced flush delivers it unfinished, which is the default, or not at all."""
    for fault in ("forced_unfinished=1", "forced_unfinished=0"):
        result = gpu_run("exit_now", tmp_path / fault, "--launches", 1, "--ns", 5000000000, faults=fault, DRAIN_DEADLINE_MS=2000)
        found = lost(result.trace())
        assert result.rc == 0 and counts(result.trace())["kernel"] == 0, result.err
        assert found and set(found) <= {"launch_without_kernel", "gpu_unfinished", "call_without_record"}, (fault, found)


def test_late_last_buffers_are_in_the_trace(tmp_path):
    """At the exit a kernel runs beyond the deadline, and the buffers come after the forced flush. Kernels that finished before it are in the
    trace."""
    result = gpu_run("outlive", tmp_path, "--steps", 5, "--at", 4, "--ms", 5000, "--wait", 0, faults="late_forced_ms=30",
                     DRAIN_DEADLINE_MS=2000, WARMUP=1, ACTIVE=100)
    trace = result.trace()
    assert result.rc == 0 and counts(trace)["kernel"] == 4 * 5, result.err
    assert set(lost(trace)) <= {"launch_without_kernel", "gpu_unfinished"} and lost(trace)


# ---- small memory --------------------------------------------------------------------------------------------

def test_tiny_ring_loses_no_gpu_records(tmp_path):
    """Records of the hooks are lost and counted. CUPTI's records are complete."""
    result = faulty(tmp_path, "", "--threads", 4, "--streams", 2, "--launches", 8000, "--ns", 1000, RING_KB=64, SCHEDULE_SCOPE="none",
                    DRAIN_DEADLINE_MS=120000)  # sanitizers are slow
    trace = result.trace()
    assert counts(trace)["kernel"] == 32000
    assert set(lost(trace)) <= {"ring_full"}
    assert len(events(trace, ph="X", name="cudaLaunchKernel")) == 32000


def test_full_trace_counts_lost_gpu_records(tmp_path):
    """At CPROF_MAX_TRACE_MB further records are dropped and counted, and the trace is finished."""
    result = faulty(tmp_path, "", "--launches", 20000, MAX_TRACE_MB=1, WARMUP=0, ACTIVE=1000)
    trace = result.trace()
    assert set(lost(trace)) <= {"file_limit", "before_first_step_full"} and lost(trace)
    assert DEVICE and counts(trace)["kernel"] <= 40000


def test_program_without_gpu_ignores_gpu_faults(tmp_path):
    result = run(["/bin/sh", "-c", "exit 3"], tmp_path, env={"SIM_FAULTS": "no_driver"})
    assert result.rc == 3 and result.err == "" and result.traces == []
