# SPDX-License-Identifier: Apache-2.0
"""CPROF_FLIGHT with a GPU (simulated): kernels in all steps, errors of NCCL, and ranks that hang in it."""

import os
import signal

import gpu_runs
import test_flight
import test_hang
import tool
from gpu_runs import ENVIRONMENT, PROGRAMS
from support import Running, events, load, step_numbers, wait_until

pytestmark = gpu_runs.needed
QUIET = dict(test_flight.QUIET, FLIGHT_SLOW=0)
KERNELS = 33  # of a step of the program `train` with one device


def last_steps(folder):
    """The flight recorder's file as it stands, or None."""
    try:
        return load(folder / "flight/rank0.flight")
    except (FileNotFoundError, ValueError):
        return None


def test_kernels_of_all_steps(tmp_path):
    """CPROF_FLIGHT_WHAT=kernels: each step of a killed program has its kernels, and a window in between has its own with their calls."""
    command = [PROGRAMS / "train", "--steps", 1000000, "--devices", 1]
    with Running(command, tmp_path, env=ENVIRONMENT, FLIGHT=1, FLIGHT_WHAT="steps,kernels", FLIGHT_SLOW=0, SKIP_FIRST=5, WARMUP=1, ACTIVE=2) as running:
        wait_until(lambda: (trace := last_steps(tmp_path)) and len(step_numbers(trace)) > 50, "50 steps")
        os.kill(running.process.pid, signal.SIGKILL)
        running.process.wait()
    trace = last_steps(tmp_path)
    steps = sorted((float(e["ts"]), float(e["ts"]) + float(e["dur"])) for e in events(trace, ph="X") if e["name"].startswith("ProfilerStep#"))
    kernels = sorted(float(e["ts"]) for e in events(trace, ph="X", cat="kernel"))
    found = [sum(start <= at < end for at in kernels) for start, end in steps[1:-20]]  # the last ones may not have been delivered yet
    assert len(found) > 20 and set(found) == {KERNELS}, found
    assert events(trace, ph="X", cat="gpu_memcpy") and not events(trace, ph="X", cat="cuda_runtime")
    named = {e["args"]["name"] for e in events(trace, ph="M", name="process_name")}
    assert any(name.startswith("GPU 0") for name in named), named
    assert tool.cprof("check", tmp_path / "flight/rank0.flight").rc == 0
    window = load(next(tmp_path.glob("rank0.*.json")))
    assert len(events(window, ph="X", cat="kernel")) == 2 * KERNELS and window["cprof"]["lost"]["total"] == 0
    assert all(e["args"]["External id"] for e in events(window, ph="X", cat="kernel"))


def test_cost_is_told(tmp_path):
    done = gpu_runs.gpu_run("train", tmp_path, "--steps", 20, FLIGHT=1, FLIGHT_WHAT="calls,kernels", **QUIET)
    line, = [line for line in done.err.splitlines() if "keeps calls kernels in all steps" in line]
    assert "ns for each event" in line and done.rc == 0


def test_no_kernels_unless_asked_for(tmp_path):
    done = gpu_runs.gpu_run("train", tmp_path, "--steps", 60, FLIGHT=1, **QUIET)
    assert done.behaves()["records.concurrent_kernel"] <= 66 * 6 and "in all steps" not in done.err


def test_an_error_of_nccl_is_saved(tmp_path):
    """One of many steps has an invalid root. The program goes on."""
    done = gpu_runs.gpu_run("ranks", tmp_path, "--check", 0, "--rounds", 30, "--refused", 20, "--id", tmp_path / "id", FLIGHT=1, **QUIET)
    names = test_flight.flights(tmp_path)
    assert done.rc == 0 and [test_flight.told(tmp_path, name)[1] for name in names] == ["ncclBroadcast returned 4 before step 30"], done.err


def test_hang_names_the_rank_that_does_not_come_to_nccl(tmp_path):
    """The other rank waits for its kernel, which does not end. Each round has four collectives."""
    command = [PROGRAMS / "ranks", "--check", "0", "--rounds", "30", "--absent", "15", "--id", tmp_path / "id", "--ranks", "2", "--rank"]
    jobs = [test_hang.Job(tmp_path, [*command, rank], [rank], **ENVIRONMENT, NCCL_SIM_ALONE=15 * 5, WORLD_SIZE=2) for rank in range(2)]
    try:
        found = jobs[0].told("missing", "pause", [0])
        assert found and (found["kind"], found["ranks"], found["waiting"], found["number"]) == ("missing", [1], [0], 15 * 4), found
    finally:
        for job in jobs:
            job.end()
