# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu_check.sh, the acceptance run for a GPU, here on the simulated GPU: it passes, and it fails when a figure is wrong."""

import copy
import json
import os
import signal
import subprocess
import sys
import tarfile
import types

import pytest

from conftest import BUILD, ROOT, matrix
from gpu_runs import gpu_run, needed
from support import run, step_numbers, load

sys.path.insert(0, str(ROOT / "scripts"))
from gpu_check import __main__ as command, build, compare, plan, raw, rules  # noqa: E402


def gpu_check(out, *args, faults=""):
    """(exit status, stdout, gpu_check.json)"""
    command = ["bash", ROOT / "scripts/gpu_check.sh", "--sim", "--quick", "--out", out, "--build", BUILD,
               "--library", BUILD / "libcprof.so", *args]
    done = subprocess.run(list(map(str, command)), env=dict(os.environ, PYTHON=sys.executable, SIM_FAULTS=faults),
                          capture_output=True, text=True, timeout=300)
    assert (out / "gpu_check.json").is_file(), done.stdout + done.stderr
    return done.returncode, done.stdout, json.loads((out / "gpu_check.json").read_text())


@needed
def test_gpu_check_passes_on_the_simulated_gpu(tmp_path):
    status, text, found = gpu_check(tmp_path)
    assert status == 0 and found["failures"] == [], text
    assert "the simulated GPU (--sim)" in text and found["device"] == "simulated"
    assert len(found["programs"]) >= 25 and all(each["problems"] == [] for each in found["programs"].values())
    assert found["programs"]["many --launches 500"]["kernels"] == 1000
    assert found["cupti_version"] == 130001 and len(found["deviceProperties"]) == 2
    assert found["fixtures"] and (tmp_path / "fixtures.tar.gz").is_file()
    assert len(found["clock"]["least_gap_of_each_tenth_ns"]) == 10 and found["clock"]["least_gap_ns"] > 0
    assert found["clock"]["waits"] > 900 and found["clock"]["4 streams at the same time"]["at_once"] == 4
    assert found["carried"]["13.5: many --launches 500"]["kernels"] == 1000 and found["carried"]["12.8: driver_only --launches 500"]["kernels"] == 500
    assert set(found["memory"]) == {"unprofiled", "after a window", "nodes", "graphs as a whole"}
    assert len(found["edges"]) == len(found["forks"]) == 1 and len(found["whole"]) == 2
    assert len(found["clients"]) == 9 and found["clients"]["a client like JAX after the window"]["got"] == 100
    assert found["not_run"] == [line[11:] for line in text.splitlines() if line.startswith("  not run: ")]
    assert {line.partition(":")[0] for line in found["not_run"]} >= {part.name for part in plan.BY_NAME.values() if part.hardware}
    assert any("Grace" in line and "Blackwell" in line for line in found["not_run"]) and any("MIG, vGPU, MPS" in line for line in found["not_run"])
    assert found["raw"]["no wait of cprof's for the device (raw API records)"]["many"]["waits"]["stream"] > 0
    assert set(found["cost"]) == {"C, launch-bound", "C, compute-bound", "C, graph-bound"}
    assert set(found["cost"]["C, graph-bound"]["ratios"]) == {"idle", "after", "after, CUPTI kept", "recording",
                                                                  "recording, graphs as a whole"}
    assert found["window_end_us"]["cpu_most"] > 0
    assert found["telemetry"]["account"]["readings"] >= 5 and found["telemetry"]["values"]["Power"] == [500, 500]
    assert min(found["window_open_us"].values()) > 0 and len(found["window_open_us"]) == 6
    assert found["programs"]["a graph made before the window"]["kernels"] > 4
    nested = found["driver_calls_inside_runtime_calls"]
    assert nested["runtime"] > 100 and nested["same id"] > 10 and nested["own id"] == 0
    assert {"gpu", "nvcc", "cupti", "torch", "python", "commit"} <= found["versions"].keys()
    assert {path.name for path in tmp_path.iterdir()} == {"gpu_check.json", "gpu_check.txt", "fixtures.tar.gz", "logs.tar.gz", "traces.tar.gz"}
    shown = (tmp_path / "gpu_check.txt").read_text().strip()
    assert shown.rpartition("\n")[0] in text and sum(path.stat().st_size for path in tmp_path.iterdir()) < 40 << 20
    with tarfile.open(tmp_path / "logs.tar.gz") as logs:
        assert any(name.endswith("/err.txt") for name in logs.getnames())


def test_plan_fits_into_its_time_limits():
    """The plan takes at most 14 minutes in all and 10 minutes a call. Each part can be called by its name."""
    done = subprocess.run(["bash", ROOT / "scripts/gpu_check.sh", "--plan"], env=dict(os.environ, PYTHON=sys.executable), capture_output=True, text=True,
                          check=True)
    rows = [line.split() for line in done.stdout.splitlines()[1:] if line.split()[1].isdigit()]
    seconds = {row[0]: int(row[1]) for row in rows}
    assert seconds["total"] <= 14 * 60 and sum(int(row[1]) for row in rows if row[2] in ("1", "2")) == seconds["total"]
    calls = [line.rpartition(" ")[2].split(",") for line in done.stdout.splitlines() if line.startswith("call ")]
    assert len(calls) == 2 and all(sum(seconds[name] for name in call) < 600 for call in calls)
    assert [*calls[0], *calls[1]] == [part.name for part in plan.PARTS] and calls[0][:3] == ["build", "again", "after"]


@needed
def test_killed_run_keeps_the_results_so_far(tmp_path):
    """The run is killed in the middle of a part. The files are complete and hold the checks before it."""
    command = ["bash", ROOT / "scripts/gpu_check.sh", "--sim", "--quick", "--out", tmp_path, "--build", tmp_path / "build", "--parts", "forks,programs",
               "--library", BUILD / "libcprof.so"]
    (tmp_path / "build").mkdir()
    for name in ("gpu", "sim"):
        (tmp_path / "build" / name).symlink_to(BUILD / name)
    with subprocess.Popen(list(map(str, command)), env=dict(os.environ, PYTHON=sys.executable), stdout=subprocess.PIPE, text=True,
                          start_new_session=True) as process:
        lines = []
        while len([line for line in lines if line.startswith("  ok ")]) < 3:
            lines.append(process.stdout.readline())
            assert lines[-1], lines
        os.killpg(process.pid, signal.SIGKILL)
    found = json.loads((tmp_path / "gpu_check.json").read_text())
    assert len(found["forks"]) == 1 and len(found["programs"]) >= 1 and found["not_run"]
    assert "forks beside a thread" in (tmp_path / "gpu_check.txt").read_text()


@needed
@pytest.mark.parametrize("faults, sign", matrix([
    ("drop=10", "kernels launched"),
    ("zero_times=3", "lost: {'gpu_no_time': 3"),
    ("skew_ns=-2000000", "start before their call"),
    ("bytes_off=512", "bytes copied"),
    ("unlinked=7", "without their call"),
    ("insufficient=1", "CUPTI does not record"),
], ("unlinked=7", "without their call"), ("insufficient=1", "CUPTI does not record")))
def test_gpu_check_fails_when_a_figure_is_wrong(tmp_path, faults, sign):
    status, text, found = gpu_check(tmp_path, "--parts", "programs", "--programs", "copies" if "bytes" in faults else "many", faults=faults)
    assert status == 1 and any(sign in failure for failure in found["failures"]), text
    assert "FAILED" in text


@needed
@pytest.mark.parametrize("faults", ["version=22", "version=130000,hold_disable=1"])
def test_gpu_check_passes_with_special_cupti_versions(tmp_path, faults):
    """CUPTI before 12.6 has no whole graphs; with the first release of 13.0, kernels stay on. cprof's lines about that are no failure."""
    status, text, found = gpu_check(tmp_path, "--parts", "programs", "--programs", "graphs,outlive", faults=faults)
    assert status == 0 and found["failures"] == [], text
    assert found["programs"]["graphs as a whole"]["kernels"] == (50 if "22" in faults else 15)


@needed
def test_graph_rule_finds_missing_and_double_rows(tmp_path):
    result = gpu_run("graphs", tmp_path, "--launches", 2, GPU_GRAPHS="whole")
    good = rules.read(result.traces[0])
    rows = [e for e in rules.rows_of(good, "kernel") if e["args"].get("graph id")]
    assert rules.graph_problems(good, 6)[1] == []
    twice, missing = copy.deepcopy(good), without(good, lambda e: e == rows[0])
    twice["traceEvents"].append(rows[0])
    for changed, n, once, total in ((good, 7, 6, 6), (twice, 6, 5, 7), (missing, 6, 5, 5)):
        assert rules.graph_problems(changed, n)[1][-1] == f"{n} launches of graphs, 6 recorded, {once} with one row; {total} rows of graphs"


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """(trace, tally) of a small run."""
    result = gpu_run("copies", tmp_path_factory.mktemp("copies"))
    return rules.read(result.traces[0]), result.launched


def without(trace, drop):
    changed = copy.deepcopy(trace)
    changed["traceEvents"] = [e for e in changed["traceEvents"] if not drop(e)]
    return changed


@needed
def test_each_rule_finds_its_problem(trace):
    good, tally = trace
    assert rules.whole_problems(good, tally)[1] == []
    copies = rules.rows_of(good, "gpu_memcpy")
    first = copies[0]["args"]["correlation"]

    def problems(changed, said=tally):
        return " ".join(rules.whole_problems(changed, said)[1])

    assert "22 recorded" in problems(without(good, lambda e: e.get("cat") == "gpu_memcpy" and e["args"]["correlation"] == first))
    assert "without their call" in problems(without(good, lambda e: e.get("cat") == "cuda_runtime" and e["args"].get("correlation") == first))
    twice = copy.deepcopy(good)
    twice["traceEvents"].append(copies[0])
    assert "has one already" in problems(twice)
    assert "bytes copied" in problems(good, {**tally, "copies": {**tally["copies"], "htod": {"count": tally["copies"]["htod"]["count"], "bytes": 1}}})
    lost = copy.deepcopy(good)
    lost["cprof"]["lost"]["late"] = 1
    assert "lost: {'late': 1}" in problems(lost)


@needed
@pytest.mark.parametrize("us, problem", [(0, None), (50, "waits end before what they waited for"), (-50, "start before their call")])
def test_rules_find_a_late_or_early_clock(tmp_path, us, problem):
    """Device times are 50 us late or early. A kernel must begin after its launch and end before the wait for it."""
    result = gpu_run("many", tmp_path, "--launches", 20, "--sync", 1)
    trace = rules.read(result.traces[0])
    for e in rules.rows_of(trace, "kernel"):
        e["ts"] += us
    found = rules.whole_problems(trace, result.launched)[1]
    assert [problem in one for one in found] == [True] if problem else found == [], found


def test_overlap_rule_finds_mistakes():
    """Four streams. The first kernel of each runs alone, the others at the same time."""
    def row(stream, start, dur=100.0):
        return {"ph": "X", "cat": "kernel", "name": "k", "ts": start, "dur": dur, "args": {"stream": stream}}
    rows = [row(stream, stream * 200.0) for stream in range(4)] + [row(stream, 1000.0 + 100 * k) for stream in range(4) for k in range(5)]
    assert rules.overlap_problems({"traceEvents": rows}, 4, 0.51) == ({"at_once": 4, "busy_ms": 0.5, "event_ms": 0.51}, [])
    assert "begin before" in rules.overlap_problems({"traceEvents": rows + [row(0, 1050.0, 10.0)]}, 4, 0.51)[1][0]
    apart = [{**e, "ts": e["ts"] + 1000 * e["args"]["stream"]} for e in rows]
    assert "1 at once" in rules.overlap_problems({"traceEvents": apart}, 4, 4.0)[1][0]
    assert "by CUDA's events" in rules.overlap_problems({"traceEvents": rows}, 4, 0.9)[1][0]


@pytest.fixture(scope="module")
def run_of(tmp_path_factory):
    """get(name, arguments) -> (traces, the program's JSON). Each program runs once."""
    runs = {}

    def get(name, *args, **settings):
        if name not in runs:
            result = gpu_run(name, tmp_path_factory.mktemp(name), *args, **settings)
            assert result.rc == 0 and result.traces, result.err
            runs[name] = [rules.read(path) for path in result.traces], json.loads(result.out.splitlines()[-1])
        return runs[name]

    return get


def changed(trace, category, change):
    """A copy of the trace with `change` applied to the first row of a category."""
    other = copy.deepcopy(trace)
    change(rules.rows_of(other, category)[0])
    return other


@needed
def test_product_rules_find_mistakes(run_of):
    (trace,), printed = run_of("products", "--size", 1024, "--peak", 3, "--ns", 4000, SCHEDULE_SCOPE="none")
    assert list(rules.product_problems(trace, printed["products"])) == []
    assert rules.rate_problems(trace, printed["large"]["flops"], printed["large"]["ns"], 5, most=100)[1] == []
    wrong = changed(trace, "library_call", lambda row: row["args"].update(flops=row["args"]["flops"] + 2))
    assert any("operations each" in text for text in rules.product_problems(wrong, printed["products"]))
    more = [dict(product, calls=product["calls"] + 1) for product in printed["products"]]
    assert any("in the trace's sum" in text for text in rules.product_problems(trace, more))
    assert any("events show" in text for text in rules.rate_problems(trace, printed["large"]["flops"], printed["large"]["ns"] / 50, 5)[1])


@needed
def test_transfer_rules_find_mistakes(run_of):
    (trace,), printed = run_of("ranks", "--check", 0, SCHEDULE_SCOPE="none")
    assert rules.transfer_problems(trace, printed)[1] == []
    assert rules.transfer_problems(trace, {**printed, "ranks": 2})[1]
    wrong = copy.deepcopy(trace)
    for row in rules.rows_of(wrong, "collective_comm"):
        row["args"]["bytes"] = 4
    assert rules.transfer_problems(wrong, printed)[1]
    slow = copy.deepcopy(trace)
    for row in rules.rows_of(slow, "kernel"):
        row["dur"] *= 2
    assert any("GB/s" in text for text in rules.transfer_problems(slow, printed)[1])
    other = {**trace, "distributedInfo": {**trace["distributedInfo"], "backend": "gloo"}}
    assert any("backend gloo" in text for text in rules.transfer_problems(other, printed)[1])


@needed
def test_step_and_region_rules_find_mistakes(run_of):
    traces, printed = run_of("capture", WARMUP=1, ACTIVE=2, REPEAT=4)
    assert [rules.step_problems(trace, printed["steps"])[1] for trace in traces] == [[], [], [], []]
    assert rules.step_problems(traces[1], [n + 1 for n in printed["steps"]])[1]
    traces, printed = run_of("profiled", TRIGGER="cuda", SCHEDULE_SCOPE="none")
    assert rules.region_problems(traces, printed["inside"], "gemm_kernel") == []
    assert rules.region_problems(traces, [7, 7], "gemm_kernel") and rules.region_problems(traces[:1], printed["inside"], "gemm_kernel")


@needed
def test_raw_records_show_an_added_wait(tmp_path):
    (tmp_path / "raw").mkdir()
    result = gpu_run("events", tmp_path, "--rounds", 2, GPU_DUMP=tmp_path / "raw", GPU_BUFFER_KB=64)
    found = sorted((tmp_path / "raw").glob("*.bin"))
    assert raw.wait_problems(found, result.launched)[1] == []
    for what in ("device_syncs", "stream_syncs", "event_syncs"):
        fewer = {**result.launched, what: result.launched[what] - 1}
        assert len(raw.wait_problems(found, fewer)[1]) == 1


@needed
def test_rules_accept_graph_fills_as_kernels(run_of):
    (trace,), printed = run_of("graphs", "--launches", 2)
    assert rules.whole_problems(trace, printed)[1] == []
    assert "deviceProperties lacks device [0]" in rules.whole_problems({**trace, "deviceProperties": []}, printed)[1]
    other = copy.deepcopy(trace)
    fills = [e for e in rules.rows_of(other, "gpu_memset") if e["args"].get("graph id")]
    for fill in fills[:3]:
        fill.update(cat="kernel", name="memset kernel")
    figures, problems = rules.whole_problems(other, printed)
    assert problems == [] and figures["fills_as_kernels"] == 3
    fills[-1]["cat"] = "gone"
    assert any("fills launched" in text for text in rules.whole_problems(other, printed)[1])


def test_toolkit_version_comes_from_nvcc(tmp_path):
    for line, major in (("Cuda compilation tools, release 12.8, V12.8.93", 12), ("Cuda compilation tools, release 13.0, V13.0.88", 13)):
        nvcc = tmp_path / "nvcc"
        nvcc.write_text(f"#!/bin/sh\necho '{line}'\n")
        nvcc.chmod(0o755)
        assert build.toolkit_major(str(nvcc)) == major
    assert build.toolkit_major(None) == 13


def test_simulation_is_not_bound_by_the_plans_seconds():
    """The plan's seconds are for a machine with a GPU. The simulation may run on two cores, so a part gets all the time that is left."""
    part = plan.BY_NAME["programs"]
    assert command.seconds_for(types.SimpleNamespace(sim=False, left=lambda: 400), part) == part.seconds
    assert command.seconds_for(types.SimpleNamespace(sim=True, left=lambda: 400), part) == 400


@needed
def test_failing_part_does_not_stop_the_others(tmp_path):
    """A part without time left and a program that hangs are failures. The other parts run, and the check ends."""
    status, text, found = gpu_check(tmp_path, "--parts", "programs,raw", "--programs", "many,copies", "--program-limit", "0.2", faults="late_ms=2000")
    assert status == 1 and any("did not end within" in failure or "ends with None" in failure for failure in found["failures"]), text
    assert "raw" in found["part_seconds"]
    status, text, found = gpu_check(tmp_path, "--limit", "0.2", "--parts", "programs,raw", "--programs", "many")
    assert status == 1 and all("no time left" in failure or "ends with" in failure for failure in found["failures"]), text


FEATURE = {"ph": "X", "pid": 1, "tid": 1, "ts": 1.0, "dur": 5.0}


def test_feature_rules_find_mistakes():
    """On handmade rows, each rule accepts correct rows and reports missing ones."""
    operator = {**FEATURE, "cat": "cpu_op", "name": "aten::relu", "args": {"Call stack": "a.py(3): f;", "Module Hierarchy": "Net.a", "flops": 8}}
    launch = {**FEATURE, "cat": "cuda_runtime", "name": "cudaLaunchKernel", "ts": 2.0, "dur": 1.0, "args": {"correlation": 1, "Call stack": "a.py(3): f;"}}
    kernel = {**FEATURE, "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 3.0, "args": {"correlation": 1}}
    call = {**FEATURE, "cat": "library_call", "name": "cublasGemmEx", "ts": 2.0, "dur": 2.0, "args": {"flops": 8}}
    trace = {"traceEvents": [operator, launch, kernel, call]}
    assert list(rules.stack_problems(trace, "aten::relu", "f", 1)) == []
    assert list(rules.stack_problems(trace, "aten::relu", "f", 2))
    bare = {"traceEvents": [operator, {**launch, "args": {"correlation": 1}}, kernel]}
    assert any("without a launch" in text for text in rules.stack_problems(bare, "aten::relu", "f", 1))
    assert list(rules.module_problems(trace, ["Net.a"], ["aten::relu"])) == [] and list(rules.module_problems(trace, ["Net.b"], ["aten::relu"]))
    assert list(rules.operator_problems(trace, {"aten::relu": 8}, ["aten::relu"])) == []
    assert list(rules.operator_problems(trace, {"aten::relu": 9}))
    assert list(rules.operator_problems({"traceEvents": [operator]}, {"aten::relu": 8}, ["aten::relu"]))
    memory = {"ph": "i", "name": "[memory]", "ts": 1.0, "args": {"Device Type": 1, "Bytes": 512, "Total Allocated": 1024, "Total Reserved": 2048}}
    driver = {"ph": "i", "name": "[driver memory]", "ts": 1.0, "args": {"Bytes": 64, "Memory Kind": "Device"}}
    held = {"traceEvents": [memory, driver]}
    assert list(rules.memory_problems(held, [[512, 1024, 2048]], True)) == [] and rules.driver_memory(held) == 64
    assert list(rules.memory_problems(held, [[512, 1024, 4096]], True))
    ranges = {"traceEvents": [{**FEATURE, "cat": "user_annotation", "name": "r", "args": {"domain": "cuBLAS"}}, kernel]}
    assert any("no row on the GPU" in text for text in rules.range_problems(ranges, {"r": 1}, ["cublas"]))
    assert any("NCCL" in text for text in rules.range_problems(ranges, {}, ["NCCL"]))
    assert any("2 ranges" in text for text in rules.range_problems(ranges, {"r": 2}))


@needed
def test_compare_finds_differences_in_names_and_counts(trace):
    good, _ = trace
    kernels = copy.deepcopy(good)
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1.0, "dur": 100.0, "args": {}}
    kernels["traceEvents"] += [dict(kernel) for _ in range(3)]
    assert compare.compare(kernels, kernels)[1] == []
    fewer = without(kernels, lambda e: e.get("cat") == "gpu_memcpy" and "DtoH" in e["name"])
    assert any("fewer" in p for p in compare.compare(fewer, kernels)[1])
    other_name = copy.deepcopy(kernels)
    other_name["traceEvents"][-1]["name"] = "K"
    assert any("1 more: K" in p for p in compare.compare(other_name, kernels)[1])
    slower = copy.deepcopy(kernels)
    slower["traceEvents"][-1]["dur"] = 110.0
    assert any("kernel time" in p for p in compare.compare(slower, kernels)[1])


@pytest.mark.parametrize("part", matrix(["features", "paths"], "features"))
def test_pytorch_parts_pass_on_the_cpu(tmp_path, part):
    """features runs tests/e2e/torch_gpu.py through the check: the trace must hold what the script prints. paths compares the ways to record operators
    with torch.profiler."""
    pytest.importorskip("torch")
    cases = matrix(["flops", "memory", "loader"], "flops")
    status, text, found = gpu_check(tmp_path, "--parts", part, "--cases", ",".join(cases))
    assert status == 0 and len(found[part]) == (len(cases) if part == "features" else 2), text


@pytest.mark.parametrize("model", matrix(["attention", "loader"], "attention"))
def test_pytorch_script_gives_both_profilers_the_same_steps(tmp_path, model):
    """On the CPU, torch.profiler and cprof record the same steps, and the losses are equal."""
    pytest.importorskip("torch")
    script = ROOT / "tests/e2e/train_gpu.py"
    theirs = run([sys.executable, script, "--model", model, "--profile", tmp_path / "theirs.txt"], tmp_path / "theirs", preload=False)
    ours = run([sys.executable, script, "--model", model], tmp_path / "ours", STEP="manual", WARMUP=3, ACTIVE=3)
    assert theirs.rc == ours.rc == 0 and theirs.out == ours.out, ours.err + theirs.err
    steps = [e["name"] for e in json.loads((tmp_path / "theirs.txt").read_text())["traceEvents"] if e.get("name", "").startswith("ProfilerStep")]
    assert sorted(set(steps)) == ["ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5"]
    assert step_numbers(load(ours.traces[0])) == [3, 4, 5]
