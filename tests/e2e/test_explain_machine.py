# SPDX-License-Identifier: Apache-2.0
"""`cprof explain` on the use of the machine: processors, memory pages, FLOP rates, GPU memory, and which device works."""

import json
import os
import pathlib
import sys

import pytest

import support
import tool
from test_explain import explained

SCRIPTS = pathlib.Path(__file__).parent / "scripts"
STEPS, STEP_US = 8, 100_000
GB = 1 << 30
MS = 1_000_000


def process(cores=2, runnable=1.0, ran_ms=800, system_ms=0, faults=0):
    """The account of a process in STEPS steps."""
    wall = STEPS * STEP_US * 1000
    return {"cores": cores, "threads": 3, "wall_ns": wall, "ran_ns": ran_ms * MS, "queued_ns": int(runnable * wall) - ran_ms * MS,
            "system_ns": system_ms * MS, "page_faults": faults}


def trace(path="t.json", process=None, operators=(), instants=(), device=None, **metadata):
    """Steps with operators (name, share of the step, GFLOP/s, FLOPs a byte); on a GPU each operator has a kernel."""
    events = []
    for step in range(STEPS):
        at = step * STEP_US
        events.append(tool.span(f"ProfilerStep#{step}", at, STEP_US, "user_annotation", tid=4194305))
        for n, (name, part, rate, dense) in enumerate(operators or [("aten::linear", 0.99, 0, 1)]):
            time, external = STEP_US * part, step * 100 + n + 1
            flops = round(rate * time * 1000)
            told = {"flops": flops, "bytes": round(flops / dense)} if flops else {}
            events.append(tool.span(name, at, time, External_id=external, Call_stack=f"train.py({10 + n}): main;", **told))
            if device is not None:
                events.append(tool.span("gemm", at, time, "kernel", device, 7, device=device, stream=7, External_id=external,
                                        **({"flops": flops} if flops else {})))
            at += time
    account = {"cprof": {"process": process}} if process else {}
    return tool.write(path, events + list(instants), **account, **metadata)


def rules(*paths):
    return [one["rule"] for one in explained(*paths)["findings"]]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_finds_oversubscribed_threads(tmp_path):
    found = explained(trace(process=process(runnable=4.0)))["findings"]
    assert [one["rule"] for one in found] == ["oversubscribed-threads"] and found[0]["share"] == pytest.approx(0.5, abs=0.02)
    assert "4.0 threads are ready to run, in the mean, on 2 processors" in tool.cprof("explain", "t.json").out
    assert rules(trace(process=process(runnable=2.1))) == []


def test_other_programs_load_gives_no_finding():
    """One thread that runs half of the time and waits for a processor otherwise."""
    assert rules(trace(process=process(runnable=1.0, ran_ms=400))) == []


def test_ranks_of_a_host_share_its_processors():
    """Four ranks with two threads each are too many. With one thread each, no rank can use fewer."""
    for name, runnable, expected in (("alike", 2.0, ["oversubscribed-threads"]), ("single", 1.1, [])):
        os.mkdir(name)
        for rank in range(4):
            trace(f"{name}/rank{rank}.1.pt.trace.json", process(runnable=runnable), host_name="a", distributedInfo={"rank": rank, "world_size": 4})
        assert [rule for rule in rules(name) if rule == "oversubscribed-threads"] == expected


def test_finds_allocator_churn():
    found = explained(trace(process=process(system_ms=160, faults=80_000)))["findings"]
    assert [one["rule"] for one in found] == ["allocator-churn"] and "10,000 fresh pages a step" in found[0]["title"]
    assert found[0]["share"] == pytest.approx(0.2, abs=0.01)
    assert rules(trace(process=process(system_ms=40, faults=20_000))) == []
    assert rules(trace(process=process(system_ms=400, faults=1000))) == []  # few page faults: the kernel time has another cause
    short = {name: value // 4 if name.endswith("_ns") else value for name, value in process(system_ms=160, faults=80_000).items()}
    assert rules(trace(process=short)) == []  # 200 ms: the kernel's ticks do not tell


@pytest.mark.parametrize("device, dense", [(None, 50), (0, 500)])
def test_finds_products_below_the_rate_of_others(device, dense):
    def found(slow, fewer=1):
        return explained(trace(device=device, operators=[("aten::mm", 0.5, 100.0, dense), ("aten::bmm", 0.2, slow, dense / fewer), ("aten::relu", 0.29, 0, 1)]))["findings"]
    one, = found(10.0)
    assert one["rule"] == "low-flop-rate" and "aten::bmm at train.py(11): main computes 10 GFLOP/s; others reach 100" in one["title"]
    assert one["share"] == pytest.approx(0.18, abs=0.01)
    assert found(25.0) == [] and found(10.0, fewer=1000) == []


def test_finds_recomputation_on_a_cpu():
    """Counts the time of the outermost operators that are marked as recomputed."""
    again = [tool.span(name, step * STEP_US + at, us, recompute=True) for step in range(STEPS)
             for name, at, us in (("aten::linear", 10, STEP_US * 0.25), ("aten::addmm", 20, STEP_US * 0.2))]
    found, = explained(trace(instants=again))["findings"]
    assert found["rule"] == "recomputation" and found["share"] == pytest.approx(0.25, abs=0.01)


def test_recomputation_counts_from_its_backward_operator():
    """Counts from the begin of the backward operator to the end of the recomputation, and nothing after that."""
    def share(outer):
        again = [tool.span(name, (step + at) * STEP_US, part * STEP_US, recompute=True) for step in range(STEPS)
                 for name, at, part in (("aten::linear", 0.1, 0.05), ("aten::relu", 0.2, 0.01))]
        found = explained(trace(operators=[(outer, 0.5, 0, 1), ("aten::mm", 0.49, 0, 1)], instants=again))["findings"]
        return [round(one["share"], 2) for one in found if one["rule"] == "recomputation"]
    assert share("autograd::engine::evaluate_function: ReluBackward0") == [0.21]
    assert share("aten::sin") == [0.06]


def test_long_step_of_a_busy_machine_gives_no_finding():
    """One long step is not reported if threads waited in the run queue for as long. Two long steps with a common cause are."""
    for longer, expected in (((5,), []), ((3, 5), ["outlier-steps"])):
        events, at = [], 0
        for step in range(STEPS):
            time = STEP_US * (3 if step in longer else 1)
            events += [tool.span(f"ProfilerStep#{step}", at, time, "user_annotation", tid=4194305), tool.span("aten::mm", at, time)]
            at += time
        used = dict(process(), queued_ns=5 * STEP_US * 1000)
        assert rules(tool.write("t.json", events, cprof={"process": used})) == expected


@pytest.mark.parametrize("double, expected", [(500, 1 / 3 * 0.99), (50, None), (1000, None)])
def test_finds_double_precision_among_single(double, expected):
    """Half of the FLOPs in double take two thirds of the time. If all are in double, that is intended."""
    trace(operators=[("aten::mm", 0.99, 100.0, 50)])
    whole = json.loads(pathlib.Path("t.json").read_text())
    whole["cprof"] = {"flops": {"CPU": {"flops": 1000, "float64": {"flops": double}, **({"float32": {"flops": 1000 - double}} if double < 1000 else {})}}}
    pathlib.Path("t.json").write_text(json.dumps(whole))
    found = explained("t.json")["findings"]
    assert [one["share"] for one in found] == ([pytest.approx(expected, abs=0.01)] if expected else [])


def allocation(device, reserved, allocated):
    return {"ph": "i", "s": "t", "name": "[memory]", "pid": 1, "tid": 2, "ts": 50.0, "args": {
        "Total Reserved": reserved, "Total Allocated": allocated, "Bytes": 1, "Device Id": device, "Device Type": 1, "Addr": 4096}}


def test_finds_fragmentation_and_memory_limit():
    def found(reserved, allocated):
        return explained(trace(device=0, instants=[allocation(0, reserved, allocated)], deviceProperties=[{"id": 0, "totalGlobalMem": 80 * GB}]))["findings"]
    assert found(30 * GB, 25 * GB) == []
    assert found(22 << 20, 1 << 20) == []  # the allocator's rounding
    one, = found(30 * GB, 15 * GB)
    assert one["rule"] == "fragmentation" and one["bytes"] == 15 * GB and "50% of the reserved memory of cuda:0" in one["title"]
    assert tool.cprof("explain", "t.json").out.splitlines()[0].endswith("; 15.00 GB")
    one, = found(75 * GB, 70 * GB)
    assert one["rule"] == "memory-limit" and one["bytes"] == 75 * GB and "94% of the memory of cuda:0" in one["title"]


def test_finds_ranks_on_the_same_gpu():
    properties = [{"id": n, "totalGlobalMem": 80 * GB} for n in range(2)]
    for name, devices, expected in (("same", (0, 0), ["wrong-device"]), ("apart", (0, 1), [])):
        os.mkdir(name)
        for rank, device in enumerate(devices):
            trace(f"{name}/rank{rank}.1.pt.trace.json", device=device, host_name="a", deviceProperties=properties,
                  distributedInfo={"rank": rank, "world_size": 2})
        found = explained(name)["findings"]
        assert [one["rule"] for one in found] == expected
        assert not found or found[0]["title"] == "ranks 0, 1 all work on cuda:0, none on cuda:1"


def test_finds_an_unused_gpu():
    assert rules(trace(deviceProperties=[{"id": 0, "totalGlobalMem": 80 * GB}])) == ["wrong-device"]


@pytest.mark.parametrize("told", [{}, {"cores": 0}, {"wall_ns": -1}, {"ran_ns": 0}, {"cores": "many"}, {"queued_ns": 1 << 70}])
def test_ignores_a_nonsensical_account(told):
    assert rules(trace(process={**process(runnable=9.0), **told} if told else "none")) == []


def test_library_records_the_account_of_its_process(tmp_path):
    """A program with eight threads per processor; the account is in the trace."""
    cores = len(os.sched_getaffinity(0))
    result = support.run([sys.executable, SCRIPTS / "planted.py", "threads", 8 * cores], tmp_path, cwd=SCRIPTS, ACTIVE=12)
    assert result.rc == 0, result.err
    account = json.loads(pathlib.Path(result.traces[0]).read_text())["cprof"]["process"]
    assert account["cores"] == cores and account["threads"] >= 8 * cores
    assert account["ran_ns"] + account["queued_ns"] > 2 * cores * account["wall_ns"], account
    assert explained(*result.traces)["findings"][0]["rule"] == "oversubscribed-threads"


@pytest.mark.parametrize("step, counted", [(1, False), (3, True)])
def test_page_faults_of_the_first_step_are_not_counted(tmp_path, step, counted):
    """The first step grows the memory pools. Its page faults must not count as allocator churn."""
    code = f"""
import cprof, mmap, time
for n in range(5):
    pages = mmap.mmap(-1, 5000 * mmap.PAGESIZE if n == {step} else mmap.PAGESIZE)
    for at in range(0, len(pages), mmap.PAGESIZE):
        pages[at] = 1
    time.sleep(0.1)
    cprof.step()
"""
    result = support.run([sys.executable, "-c", code], tmp_path, env={"PYTHONPATH": str(support.ROOT / "scripts/python")})
    assert result.rc == 0, result.err
    account = support.load(result.traces[0])["cprof"]["process"]
    assert (account["page_faults"] >= 5000) == counted, account


def clocks(busy=20, most=1980, **reasons):
    """The account of a GPU's clocks. reasons: (readings, SM clock) by name, _ for a space."""
    told = {name.replace("_", " "): {"readings": times, "sm_clock_mhz": clock} for name, (times, clock) in reasons.items()}
    return {"CUDA:0": {"readings": busy + 1, "busy": busy, "sm_clock_most_mhz": most, **({"throttled": told} if told else {})}}


def throttling(telemetry):
    path = trace(device=0, cprof={"telemetry": telemetry})
    return [one for one in explained(path)["findings"] if one["rule"] == "throttling"]


def test_finds_a_gpu_at_its_power_limit():
    one, = throttling(clocks(power_limit=(15, 1485)))
    assert one["share"] == pytest.approx(0.99 * 0.75 * 0.25, rel=0.01) and one["device"] == "cuda:0"
    assert one["title"] == "the power limit holds the SM clock at 1,485 of 1,980 MHz in 75% of the readings while the GPU was busy"
    assert [row["what"] for row in one["evidence"]] == ["power limit: 75% of the readings, SM clock 1,485 MHz"]


def test_tells_heat_from_power():
    hot, = throttling(clocks(software_thermal_slowdown=(20, 990), hardware_slowdown=(20, 990), power_limit=(2, 1900)))
    assert hot["title"].startswith("heat holds the SM clock at 990") and len(hot["evidence"]) == 3
    assert throttling(clocks(power_brake=(20, 990)))[0]["title"].startswith("the power limit holds")
    assert throttling(clocks(hardware_slowdown=(20, 990)))[0]["title"].startswith("the hardware holds")
    assert throttling(clocks(hardware_thermal_slowdown=(20, 990), power_limit=(19, 990)))[0]["title"].startswith("heat and the power limit hold")


@pytest.mark.parametrize("healthy", [
    clocks(), clocks(power_limit=(20, 1900)), clocks(power_limit=(3, 1000)), clocks(busy=4, power_limit=(4, 990)), clocks(power_limit=(21, 990)), None, 5, {},
    {"CUDA:0": 3}, {"CUDA:0": {"busy": 20}}, {"CUDA:0": {"busy": -1, "sm_clock_most_mhz": 1980, "throttled": {}}},
    {"CUDA:0": {"busy": 20, "sm_clock_most_mhz": 1980, "throttled": [1]}},
    {"CUDA:0": {"busy": 20, "sm_clock_most_mhz": 1980, "throttled": {"power limit": {"readings": 20, "sm_clock_mhz": True}, "x": 7}}},
    {"CUDA:0": {"busy": 20, "sm_clock_most_mhz": 1980, "throttled": {"power limit": {"readings": 20, "sm_clock_mhz": 0}}}}])
def test_a_gpu_that_is_hardly_slowed_is_no_finding(healthy):
    """Below a tenth of the step, too few readings, and accounts that make no sense."""
    assert throttling(healthy) == []
