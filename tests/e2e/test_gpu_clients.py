# SPDX-License-Identifier: Apache-2.0
"""Another client of CUPTI in the process (tests/gpu/second_client.c, which behaves as Kineto does). The client always gets all its records.
cprof steps aside, reports that once and in the trace, and resumes when the client is done."""

import re
import struct
import threading

import pytest

from gpu_runs import SIM, counts, gpu_run, lost, needed
from support import events, load, step_numbers

pytestmark = needed

LAUNCHES = 50  # of a step
BEGINS = "another CUPTI client begins in this process; its GPU activity is not recorded by cprof, CUDA calls are"
BACK = "the other CUPTI client is idle; GPU activity is recorded again"
HANGS = "may hang when kernels are switched off"
NOTE = "another CUPTI client was at work; GPU activity is missing where it was"


def client_run(folder, *args, **settings):
    """Runs second_client and checks that each of its sessions got all launches."""
    result = gpu_run("second_client", folder, "--launches", LAUNCHES, *args, **settings)
    assert result.rc == 0, result.err
    sessions = [tuple(map(int, found)) for found in re.findall(r"^session (\d+) (\d+) (\d+)$", result.out, re.M)]
    assert sessions, result.out
    assert [recorded for _, _, recorded in sessions] == [launched for _, launched, _ in sessions], result.out
    assert result.cupti["misuse"] == 0 and result.cupti["finalizes"] == 0, result.err
    return result


def kernels_by_step(trace):
    """{step: kernels launched in the step}"""
    spans = {int(e["name"].partition("#")[2]): (e["ts"], e["ts"] + e["dur"])
             for e in events(trace, ph="X") if e["name"].startswith("ProfilerStep#")}
    launched = {e["args"]["correlation"]: e["ts"] for e in events(trace, ph="X", name="cudaLaunchKernel") if e["args"].get("correlation")}
    found = dict.fromkeys(spans, 0)
    for e in events(trace, ph="X", cat="kernel"):
        at = launched[e["args"]["correlation"]]
        for step, (start, end) in spans.items():
            found[step] += start <= at < end
    return found


def calls_by_step(trace):
    """{step: launch calls in the step}, whether CUPTI or the hooks recorded them."""
    spans = {int(e["name"].partition("#")[2]): (e["ts"], e["ts"] + e["dur"])
             for e in events(trace, ph="X") if e["name"].startswith("ProfilerStep#")}
    calls = [e["ts"] for e in events(trace, ph="X", name="cudaLaunchKernel")]
    return {step: sum(start <= at < end for at in calls) for step, (start, end) in spans.items()}


@pytest.mark.parametrize("version", [130000, 130001])
def test_steps_aside_for_a_client_in_mid_window(tmp_path, version):
    """cprof gives CUPTI up when the client begins and takes it again at the first step after the client's end. With the first release of
    13.0, kernels are still on when the client begins, which does no harm."""
    result = client_run(tmp_path, "--first", 6, "--length", 2, faults=f"version={version}", WARMUP=1, ACTIVE=100)
    trace = result.trace()
    assert [line for line in result.complaints if HANGS not in line] == [BEGINS, BACK]
    assert trace["cprof"]["notes"] == [NOTE]
    assert lost(trace) == {}
    assert kernels_by_step(trace) == {step: 0 if step in (6, 7) else LAUNCHES for step in range(1, 20)}
    assert calls_by_step(trace) == {step: LAUNCHES for step in range(1, 20)}


@pytest.mark.parametrize("version", [130001, 130100])
def test_times_stay_right_after_a_client_set_its_clock(tmp_path, version):
    """Kineto sets the processor's counter as CUPTI's clock and leaves it set. CUPTI 130001 follows a new clock at once; 130100 reads its clock
    when it is subscribed. With both, calls join their records, and kernels begin after their launch."""
    result = client_run(tmp_path, "--first", 6, "--length", 2, "--clock", 1, "--steps", 60, faults=f"version={version}", WARMUP=1, ACTIVE=100)
    trace = result.trace()
    assert result.complaints == [BEGINS, BACK] and lost(trace) == {}
    assert kernels_by_step(trace) == {step: 0 if step in (6, 7) else LAUNCHES for step in range(1, 60)}
    assert calls_by_step(trace) == {step: LAUNCHES for step in range(1, 60)}
    launched = {e["args"]["correlation"]: e["ts"] for e in events(trace, ph="X", name="cudaLaunchKernel") if e["args"].get("correlation")}
    waited = [launched[e["args"]["correlation"]] <= e["ts"] for e in events(trace, ph="X", cat="kernel")]
    assert sum(waited) >= 0.999 * len(waited)


def test_only_forced_buffers_may_be_unfinished(tmp_path):
    """Stepping aside ends with a forced flush, whose buffers may hold unfinished records. Buffers after cprof's return may not."""
    raw = tmp_path / "raw"
    raw.mkdir()
    result = client_run(tmp_path, "--first", 6, "--length", 2, WARMUP=1, ACTIVE=100, GPU_DUMP=raw)
    assert result.complaints == [BEGINS, BACK]
    forced = {int(path.stem.rpartition("-")[2]): struct.unpack_from("<8xIII", path.read_bytes())[2] for path in raw.iterdir()}
    assert forced[max(forced)] == 0, forced


def test_leaves_cupti_to_an_earlier_client(tmp_path):
    """The client subscribes before CUDA begins and records during cprof's whole window. Only the hooks record, and one line says so."""
    result = client_run(tmp_path, "--early", 1, "--first", 1, "--length", 5, WARMUP=1, ACTIVE=3)
    trace = result.trace()
    # cprof may notice the client's end while the window is written.
    assert result.complaints in ([BEGINS], [BEGINS, BACK]), result.err
    assert trace["cprof"]["notes"] == [NOTE] and lost(trace) == {}
    assert kernels_by_step(trace) == {1: 0, 2: 0, 3: 0}
    assert calls_by_step(trace) == {1: LAUNCHES, 2: LAUNCHES, 3: LAUNCHES}


def test_waits_for_a_client_active_before_cuda(tmp_path):
    """The client switches activity kinds on before cuInit. cprof does not touch CUPTI until the client is done."""
    result = client_run(tmp_path, "--first", 0, "--early", 1, "--length", 3, "--steps", 30, WAIT=2, WARMUP=1, ACTIVE=3, REPEAT=3)
    assert [step_numbers(load(path)) for path in result.traces] == [[3, 4, 5], [9, 10, 11], [15, 16, 17]]
    for path in result.traces:
        assert lost(load(path)) == {}
    assert kernels_by_step(load(result.traces[-1])) == {15: LAUNCHES, 16: LAUNCHES, 17: LAUNCHES}
    assert len(result.complaints) == 2 and result.complaints[1] == BACK


@pytest.mark.parametrize("clock", [0, 1])
def test_client_sessions_and_windows_in_turn(tmp_path, clock):
    """Three sessions of the client overlap with seven windows of cprof. Each session gets all its records, and each line is printed once.
    If the client sets its clock, records of cprof with the former clock are still on their way."""
    result = client_run(tmp_path, "--first", 4, "--length", 2, "--period", 8, "--sessions", 3, "--steps", 30, "--clock", clock,
                        WARMUP=1, ACTIVE=3, REPEAT=7)
    assert result.complaints == [BEGINS, BACK]
    assert len(result.out.split("session ")) == 4 and len(result.traces) == 7
    session_steps = {4, 5, 12, 13, 20, 21}
    for path in result.traces:
        trace = load(path)
        assert lost(trace) == {}
        for step, kernels in kernels_by_step(trace).items():
            assert kernels == (0 if step in session_steps else LAUNCHES), (path.name, kernels_by_step(trace))
        steps = kernels_by_step(trace)
        if session_steps & set(steps):
            assert trace["cprof"]["notes"] == [NOTE]
        elif not session_steps & {min(steps) - 1, max(steps) + 1}:  # a session next to a window may begin or end inside it
            assert trace["cprof"]["notes"] == []
        assert set(calls_by_step(trace).values()) == {LAUNCHES}, (path.name, calls_by_step(trace))


def test_client_that_begins_during_a_drain_costs_no_kernel(tmp_path):
    """All kernels of the window are in its file."""
    result = client_run(tmp_path, "--first", 4, "--length", 3, WARMUP=1, ACTIVE=3)
    trace = result.trace()
    assert kernels_by_step(trace) == {1: LAUNCHES, 2: LAUNCHES, 3: LAUNCHES} and lost(trace) == {}
    assert calls_by_step(trace) == {1: LAUNCHES, 2: LAUNCHES, 3: LAUNCHES}


def test_client_that_begins_during_a_slow_disable(tmp_path):
    """CUPTI takes four seconds to switch kernels off, and the client's calls wait for cprof only two. cprof still notices the client: it gives
    up its buffers, and takes CUPTI again for the next window."""
    result = gpu_run("second_client", tmp_path, "--launches", LAUNCHES, "--first", 6, "--length", 1, "--busy", 4000000000, "--steps", 30, "--careful", 1,
                     faults="hold_disable=4000", WARMUP=1, ACTIVE=2, WAIT=6, REPEAT=3, timeout=60)
    assert result.rc == 0 and result.complaints == [BEGINS, BACK], result.err
    assert kernels_by_step(load(result.traces[-1])) == {25: LAUNCHES, 26: LAUNCHES}
    assert lost(load(result.traces[-1])) == {}


def test_disabled_cprof_leaves_a_clients_calls_alone(tmp_path):
    """With CPROF_ENABLED=0 the client's calls reach CUPTI unchanged."""
    without = gpu_run("second_client", tmp_path / "without", preload=False)
    result = client_run(tmp_path / "with", "--first", 6, ENABLED=0)
    assert counts_of(without) == counts_of(result)


def counts_of(result):
    return {name: result.cupti[name] for name in ("subscribes", "register_callbacks", "enables", "disables", "forced_flushes")}


def test_no_client_gives_no_line_and_no_note(tmp_path):
    result = gpu_run("second_client", tmp_path, "--sessions", 0, WARMUP=1, ACTIVE=3)
    assert result.complaints == [] and result.trace()["cprof"]["notes"] == [] and counts(result.trace())["kernel"] == 3 * LAUNCHES
    result.behaves()


def test_late_buffers_do_not_reach_the_client(tmp_path):
    """CUPTI's thread delivers buffers shortly after a forced flush has returned. The client must get none of cprof's buffers, for it would free
    them."""
    result = gpu_run("second_client", tmp_path, "--first", 6, "--length", 2, "--busy", 20000000, faults="late_forced_ms=30",
                     WARMUP=1, ACTIVE=100)
    trace = result.trace()
    assert result.rc == 0 and result.complaints == [BEGINS, BACK], result.err
    assert lost(trace) == {"gpu_unfinished": 1} and kernels_by_step(trace) == {step: 0 if step in (6, 7) else LAUNCHES for step in range(1, 20)}


@pytest.mark.parametrize("args", [("--sessions", 0), ("--first", 15, "--length", 5)])
def test_restores_cuptis_settings_after_the_last_window(tmp_path, args):
    """cprof turns off records of failed queries, which another client may want. After the last window cprof is no longer subscribed."""
    result = gpu_run("second_client", tmp_path, *args, WARMUP=1, ACTIVE=3)
    assert result.rc == 0 and result.cupti["all_syncs"] == 1, result.err
    assert result.cupti["subscribes"] == result.cupti["unsubscribes"] + (args[1] > 0)  # the client stays subscribed


def test_windows_open_and_close_during_launches(tmp_path):
    """Activity kinds go off and on while the program launches without a pause. If a thread is inside a CUDA call when call recording goes off,
    real CUPTI considers it inside that call for ever (tests/sim/cupti_tap.c)."""
    result = gpu_run("second_client", tmp_path, "--sessions", 0, "--steps", 700, SKIP_FIRST=60, WAIT=250, WARMUP=1, ACTIVE=3, REPEAT=2)
    assert result.rc == 0 and result.complaints == [], result.err
    assert result.cupti["subscribes"] >= 2 and result.cupti["subscribes"] == result.cupti["unsubscribes"]
    assert len(result.traces) == 2
    for path in result.traces:
        trace = load(path)
        assert set(kernels_by_step(trace).values()) == {LAUNCHES} and lost(trace) == {}


CLIENTS = {"kineto": (), "jax": ("--hidden", 1, "--leaves", 1), "proton": ("--hidden", 1, "--leaves", 1, "--finalizes", 1)}


@pytest.mark.parametrize("client, first", [("kineto", 33), ("jax", 7), ("jax", 33), ("proton", 33), ("proton", 49)])
def test_clients_get_cupti_between_windows(tmp_path, client, first):
    """JAX's profiler and Triton's Proton open libcupti themselves, so cprof cannot see them. After a window cprof gives CUPTI back.
    Each session is one later step and tries to subscribe once."""
    windows = [{23, 24}, {38, 39}]  # the steps before them are warmup
    result = gpu_run("second_client", tmp_path, "--first", first, "--length", 1, "--period", 1, "--sessions", 3, "--steps", 54, "--pause", 80,
                     "--patience", 5, *CLIENTS[client], SKIP_FIRST=10, WAIT=12, WARMUP=1, ACTIVE=2, REPEAT=2)
    assert result.rc == 0, result.err
    sessions = [tuple(map(int, found)) for found in re.findall(r"^session (\d+) (\d+) (\d+)$", result.out, re.M)]
    assert [recorded for _, _, recorded in sessions] == [LAUNCHES] * 3, result.out
    assert client == "kineto" and set(result.complaints) <= {BEGINS, BACK} or result.complaints == [], result.err
    assert [set(step_numbers(load(path))) for path in result.traces] == windows
    for path in result.traces:
        trace = load(path)
        assert set(kernels_by_step(trace).values()) == {LAUNCHES} and lost(trace) == {}


@pytest.mark.parametrize("asked", [False, True])
def test_trigger_subscribes_to_cupti_only_on_request(tmp_path, asked):
    """Before the first mark cprof records step 0, which may become the trace. Later it subscribes only for a request and then gives CUPTI back.
    A client that cprof cannot see subscribes before and after."""
    go = tmp_path / "go"
    timer = threading.Timer(1.7, go.touch)  # half-way between the sessions at 0.5 and 3 s
    if asked:
        timer.start()
    result = gpu_run("second_client", tmp_path, "--first", 400, "--length", 1, "--period", 2500, "--sessions", 2, "--steps", 3000, "--hidden", 1,
                     "--leaves", 1, TRIGGER=f"file:{go}", WAIT=1000000, WARMUP=1, ACTIVE=3)
    assert result.rc == 0 and len(result.complaints) == asked and all("a window opens" in line for line in result.complaints), result.err
    assert re.findall(r"^session \d+ (\d+) (\d+)$", result.out, re.M) == [(str(LAUNCHES),) * 2] * 2, result.out
    assert result.cupti["subscribes"] == 3 + asked == result.cupti["unsubscribes"]
    assert [counts(load(path))["kernel"] for path in result.traces] == [3 * LAUNCHES] * asked


@pytest.mark.parametrize("first", [1, 4])
def test_leaves_a_statically_linked_cupti_alone(tmp_path, first):
    """The client begins before a window or inside it. Its calls pass no symbol that cprof could hook, so cprof does not touch CUPTI at
    all and reports that in one line."""
    result = gpu_run("second_client", tmp_path, "--inside", 1, "--first", first, "--length", 2, "--launches", LAUNCHES,
                     libraries=f"{SIM}:{SIM / 'torch'}", SKIP_FIRST=3, WARMUP=1, ACTIVE=4)
    assert result.rc == 0, result.err
    assert re.findall(r"^session \d+ (\d+) (\d+)$", result.out, re.M) == [(str(2 * LAUNCHES),) * 2], result.out
    assert result.cupti["refused_subscribes"] == 0 and result.cupti["subscribes"] == 1
    line, = (line for line in result.complaints if "torch of unknown version" not in line)  # the fake torch has no version
    assert line.startswith("this PyTorch has CUPTI linked into libtorch_cpu.so")
    trace = result.trace()
    assert counts(trace)["kernel"] == 0 and set(calls_by_step(trace).values()) == {LAUNCHES} and lost(trace) == {}


def test_leaves_cupti_to_an_unseen_tool(tmp_path):
    """An injected tool subscribed before cprof could see it. Only the hooks record, and cprof leaves CUPTI alone."""
    result = gpu_run("many", tmp_path, "--launches", 20, faults="other_first=1")
    assert result.rc == 0 and result.cupti["subscribes"] == 0 and result.cupti["enables"] == 0
    assert any(line.startswith("another CUPTI client is at work") for line in result.complaints)
    trace = result.trace()
    assert trace["cprof"]["notes"] == [NOTE] and counts(trace)["kernel"] == 0 and lost(trace) == {}
    assert len(events(trace, ph="X", name="cudaLaunchKernel")) == 40
