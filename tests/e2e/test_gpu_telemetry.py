# SPDX-License-Identifier: Apache-2.0
"""The state of GPUs, read from a simulated NVML (tests/sim/nvml.c): counters, throttling, energy, and what happens without NVML."""

import json
import os
import pathlib
import re
import statistics
import time

import pytest

import tool
from gpu_runs import ENVIRONMENT, PROGRAMS, SIM, figures, gpu_run, libraries_without, lost, needed
from support import Running, events, load, python, run, status_of, to_ns, wait_until

pytestmark = needed

# Name, unit, and the value on GPU n.
VALUES = [("SM clock", "MHz", lambda n: 1980), ("Memory clock", "MHz", lambda n: 2619), ("Power", "W", lambda n: 500 + 100 * n),
          ("Temperature", "C", lambda n: 40 + n), ("Memory used", "bytes", lambda n: (n + 1) << 30), ("PCIe sent", "MB/s", lambda n: 1000),
          ("PCIe received", "MB/s", lambda n: 2000), ("NVLink sent", "MB/s", lambda n: pytest.approx(100, rel=0.05)),
          ("NVLink received", "MB/s", lambda n: pytest.approx(200, rel=0.05)), ("SM activity", "%", lambda n: 75),
          ("Tensor activity", "%", lambda n: 50), ("DRAM bandwidth", "%", lambda n: 25)]
GPM = ("SM activity", "Tensor activity", "DRAM bandwidth")
POWER, ENERGY = "nvmlDeviceGetPowerUsage", "nvmlDeviceGetTotalEnergyConsumption"


def train(folder, *args, steps=200, devices=1, nvml="", env=None, **more):
    """A training of 5 ms a step and device. All steps but the first are recorded, unless `more` says otherwise."""
    return gpu_run("train", folder, "--steps", steps, "--devices", devices, *args, env={"SIM_NVML": nvml, **(env or {})}, **{"ACTIVE": steps, **more})


def counters(trace, name=None):
    """The counters of GPUs: {(name, GPU): [values]}."""
    found = {}
    for e in events(trace, ph="C"):
        if e["pid"] < 16 and name in (None, e["name"]):
            found.setdefault((e["name"], e["pid"]), []).append(*e["args"].values())
    return found


def flops(trace, device=0):
    return trace["cprof"]["flops"][f"CUDA:{device}"]


def is_sound(result):
    """Checks that NVML was called by one thread only, not after its end, not in a child, and that nothing was lost."""
    assert result.rc == 0, result.err
    assert result.nvml["wrong"] == 0 and result.nvml["running"] == 0, result.nvml
    trace = result.trace()
    assert lost(trace) == {}
    return trace


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """A training on two GPUs."""
    return train(tmp_path_factory.mktemp("both"), devices=2, WARMUP=0)


def test_counters_have_the_values_and_units_of_each_gpu(both):
    trace = is_sound(both)
    found = counters(trace)
    assert set(found) == {(name, n) for name, _, _ in VALUES for n in (0, 1)}
    for name, unit, value in VALUES:
        for n in (0, 1):
            assert found[name, n] == [value(n)] * len(found[name, n]), name
        assert {unit} == {key for e in events(trace, ph="C", name=name) for key in e["args"]}
    told = trace["cprof"]["telemetry"]
    assert all(told[f"CUDA:{n}"]["sm_clock_most_mhz"] == 1980 and told[f"CUDA:{n}"]["power_limit_w"] == 700 for n in (0, 1))
    assert trace["cprof"]["notes"] == []


def test_readings_come_ten_times_a_second_inside_the_window(both):
    trace = both.trace()
    steps = sorted(to_ns(e["ts"]) for e in events(trace, ph="X", name=re.compile("ProfilerStep#")))
    times = sorted(to_ns(e["ts"]) for e in events(trace, ph="C", name="Power") if e["pid"] == 0)
    apart = [after - before for before, after in zip(times, times[1:-1])]
    assert len(apart) >= 3 and 90e6 < statistics.median(apart) < 150e6 and times[0] > steps[0]


def test_rows_have_the_name_of_the_gpu(both):
    names = {e["pid"]: e["args"]["name"] for e in events(both.trace(), ph="M", name="process_name")}
    assert names[0] == "GPU 0 NVIDIA H100 80GB HBM3" and names[1] == "GPU 1 NVIDIA H100 80GB HBM3"


def energy(trace, device):
    """(joules per step as the trace has it, watts times the mean length of the steps that it counts)."""
    told = flops(trace, device)
    steps = sorted(events(trace, ph="X", name=re.compile("ProfilerStep#")), key=lambda e: to_ns(e["ts"]))[-told["joules_steps"]:]
    ns = to_ns(steps[-1]["ts"]) + to_ns(steps[-1]["dur"]) - to_ns(steps[0]["ts"])
    assert told["joules_steps"] >= 50
    return told["joules_per_step"], (500 + 100 * device) * ns / 1e9 / told["joules_steps"]


def test_joules_per_step_add_up(both):
    trace = both.trace()
    for device in (0, 1):
        told, due = energy(trace, device)
        assert told == pytest.approx(due, rel=0.02) and flops(trace, device)["joules_from"] == "counter"


def test_energy_follows_from_power_where_it_is_not_counted(tmp_path):
    trace = is_sound(train(tmp_path, nvml=f"refuse={ENERGY}:3"))
    told, due = energy(trace, 0)
    assert told == pytest.approx(due, rel=0.02) and flops(trace)["joules_from"] == "power"


def test_throttling_begins_with_an_instant(tmp_path):
    trace = is_sound(train(tmp_path, steps=300, nvml="throttle=0x45,throttle_ms=200"))  # 1: idle, which is no throttling
    found = counters(trace)
    assert {name for name, _ in found if "Throttled" in name} == {"Throttled: power limit", "Throttled: hardware thermal slowdown"}
    changes = found["Throttled: power limit", 0]
    assert changes == [n % 2 == 0 for n in range(len(changes))] and len(changes) >= 3
    begins = events(trace, ph="i", name="throttled: power limit")
    assert len(begins) == sum(changes) and all(e["s"] == "p" and e["pid"] == 0 for e in begins)
    assert set(found["SM clock", 0]) == {1980, 1410}


@pytest.mark.parametrize("nvml, missing", [("no_gpm", GPM), ("nan", GPM), ("refuse=nvmlDeviceGetPowerUsage:4,refuse=nvmlDeviceGetMemoryInfo_v2:3", ("Power", "Memory used"))])
def test_what_a_gpu_refuses_is_missing_and_not_asked_again(tmp_path, nvml, missing):
    result = train(tmp_path, steps=200, nvml=nvml)
    found = {name for name, _ in counters(is_sound(result))}
    assert found == {name for name, _, _ in VALUES if name not in missing}
    assert result.complaints == [] and result.nvml[POWER] >= 1 and ("Power" not in missing or result.nvml[POWER] == 1)


def test_a_divided_gpu_has_what_is_of_the_whole(tmp_path):
    result = train(tmp_path, steps=200, nvml="mig", faults="mig=1")
    trace = is_sound(result)
    assert {name for name, _ in counters(trace)} == {"SM clock", "Memory clock", "Power", "Temperature"}
    assert any("MIG" in note for note in trace["cprof"]["notes"]) and "joules_per_step" not in flops(trace)


def has_none(result):
    """Whether nothing was recorded, and nothing said."""
    trace = result.trace()
    assert lost(trace) == {} and result.rc == 0
    assert counters(trace) == {} and "telemetry" not in trace["cprof"] and "joules_per_step" not in flops(trace)
    assert result.complaints == [] and trace["cprof"]["notes"] == []


def test_without_permission_or_library_or_setting_nothing_is_recorded(tmp_path):
    denied = train(tmp_path / "denied", steps=60, nvml="refuse=nvmlInit_v2:4")
    has_none(denied)
    assert denied.nvml["nvmlInit_v2"] == 1
    has_none(train(tmp_path / "missing", steps=20, libraries=libraries_without(tmp_path / "libraries", "libnvidia-ml")))
    for n, off in enumerate(({"GPU_TELEMETRY": 0}, {"ACTIVITIES": "cpu"})):
        result = train(tmp_path / str(n), steps=20, **off)
        assert result.rc == 0 and not result.nvml and "telemetry" not in result.trace()["cprof"]


def test_a_program_without_cuda_does_not_load_nvml(tmp_path):
    result = run(python("steps(6, 0.05); print([l for l in open('/proc/self/maps') if 'nvidia-ml' in l])"), tmp_path, env=ENVIRONMENT)
    assert result.rc == 0 and result.out.strip() == "[]" and len(result.traces) == 1


@pytest.mark.parametrize("ms", [250, 60000])
def test_a_slow_call_ends_telemetry_with_one_line(tmp_path, ms):
    """60 s: the cprof thread finds the call that does not return."""
    began = time.monotonic()
    result = train(tmp_path, steps=300, nvml=f"slow={POWER}:{ms}")
    line, = result.complaints
    assert re.match(rf"a call of NVML \({POWER}\) took \d+ ms: the GPUs' clocks and power are not recorded", line)
    trace = result.trace()
    assert result.rc == 0 and line in trace["cprof"]["notes"] and result.nvml[POWER] == 1 and result.nvml["wrong"] == 0
    assert time.monotonic() - began < 15


def test_the_end_of_the_program_waits_for_the_call_in_progress(tmp_path):
    """NVML's destructor counts the calls that are in progress when it runs."""
    result = gpu_run("many", tmp_path, "--launches", 600, "--ns", 1000000, env={"SIM_NVML": "slow=nvmlDeviceGetPcieThroughput:150"}, SCHEDULE_SCOPE="none")
    is_sound(result)
    assert result.nvml["nvmlDeviceGetPcieThroughput"] >= 1


def test_children_of_fork_make_no_call_and_inherit_none(tmp_path):
    result = gpu_run("forked", tmp_path, "--children", 300, "--beside", 1, "--child", "exit", SCHEDULE_SCOPE="none", env={"SIM_NVML": "slow=nvmlDeviceGetPowerUsage:5"})
    is_sound(result)
    reported = [json.loads(line) for line in (tmp_path / "simulation.txt").read_text().splitlines()]
    locked = [line["value"] for line in reported if line["name"] == "locked"]
    assert result.nvml[POWER] >= 1 and len(locked) > 50 and sum(locked) == 0


def test_the_thread_sleeps_between_windows(tmp_path):
    """In a pause of the program after the window it is not woken once."""
    env = dict(ENVIRONMENT, LD_LIBRARY_PATH=str(SIM), SIM_REPORT=str(tmp_path / "simulation.txt"))
    with Running([PROGRAMS / "train", "--steps", 320, "--devices", 1, "--pause", 3000, "--pause-after", 170], tmp_path, env=env, ACTIVE=140, WAIT=20,
                 WARMUP=1, REPEAT=0) as program:
        wait_until(lambda: list(tmp_path.glob("*.json")), "the trace")
        pid = program.process.pid
        thread, = [task for task in os.listdir(f"/proc/{pid}/task") if pathlib.Path(f"/proc/{pid}/task/{task}/comm").read_text() == "cprof-gpu\n"]
        time.sleep(0.2)
        before = status_of(pid, thread)
        time.sleep(0.4)
        assert status_of(pid, thread)["voluntary_ctxt_switches"] == before["voluntary_ctxt_switches"]
        assert int(before["SigBlk"], 16) & 1 << 14  # SIGTERM
        result = program.end()
    assert result.rc == 0 and len(result.traces) == 2
    for trace in map(load, result.traces):
        assert ("Power", 0) in counters(trace)
    assert figures(tmp_path / "simulation.txt")[2]["wrong"] == 0


def told_by_doctor(nvml="", libraries=SIM, **more):
    """What `cprof doctor` says about telemetry; None if nothing."""
    done = tool.cprof("doctor", "--", "true", env={"SIM_NVML": nvml, "LD_LIBRARY_PATH": str(libraries), **more})
    return next((line for line in done.out.splitlines() if line.split()[1] == "telemetry"), None)


def test_doctor_says_what_is_recorded_and_why_not(tmp_path):
    assert told_by_doctor() == "ok    telemetry NVML: clocks, power, energy, temperature, throttling, memory, PCIe, activity"
    assert told_by_doctor(f"no_gpm,refuse={POWER}:4") == "ok    telemetry NVML; the GPU does not tell: power (no permission), activity (not supported)"
    assert told_by_doctor("refuse=nvmlInit_v2:9") == "warn  telemetry NVML: the driver is not loaded: clocks and power of the GPUs are not recorded"
    assert "CPROF_GPU_TELEMETRY=0" in told_by_doctor(CPROF_GPU_TELEMETRY="0")
    assert told_by_doctor(libraries=tmp_path) is None or "no libnvidia-ml.so.1" in told_by_doctor(libraries=tmp_path)


def test_explain_names_the_throttling_of_a_run(tmp_path):
    train(tmp_path / "slow", steps=240, nvml="throttle=4")
    found = tool.cprof("explain", str(tmp_path / "slow")).out
    assert "throttling: the power limit holds the SM clock at 1,410 of 1,980 MHz in 100% of the readings" in found


def test_check_and_merge_take_the_counters(tmp_path):
    """Perfetto and HTA read traces with them in test_gpu_picture.py and test_consumers.py."""
    for rank in (0, 1):
        train(tmp_path / str(rank), steps=150, devices=2 - rank, nvml="throttle=4", env={"RANK": str(rank), "WORLD_SIZE": "2"})
    assert tool.cprof("check", str(tmp_path / "0"), str(tmp_path / "1")).out.count("nothing wrong") == 2
    merged = tmp_path / "merged.json"
    assert tool.cprof("merge", str(tmp_path / "0"), str(tmp_path / "1"), "-o", str(merged)).rc == 0
    found = json.loads(merged.read_text())["traceEvents"]
    assert len({e["pid"] for e in found if e["ph"] == "C" and e["name"] == "Power"}) == 3
    assert len({e["pid"] for e in found if e["ph"] == "i" and e["name"] == "throttled: power limit"}) == 3
