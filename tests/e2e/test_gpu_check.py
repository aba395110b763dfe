# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu_check.sh, the acceptance run on a GPU, on the simulated one: it is green, and it fails where a figure is wrong."""

import copy
import json
import os
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT
from gpu_runs import gpu_run, needed
from support import run, step_numbers, load

sys.path.insert(0, str(ROOT / "scripts"))
import gpu_check_torch  # noqa: E402
import gpu_check_trace  # noqa: E402


def gpu_check(out, *args, faults=""):
    """(exit status, stdout, gpu_check.json)"""
    command = ["bash", ROOT / "scripts/gpu_check.sh", "--sim", "--quick", "--out", out, "--build", BUILD,
               "--library", BUILD / "libcprof.so", *args]
    done = subprocess.run(list(map(str, command)), env=dict(os.environ, PYTHON=sys.executable, SIM_FAULTS=faults),
                          capture_output=True, text=True, timeout=300)
    assert (out / "gpu_check.json").is_file(), done.stdout + done.stderr
    return done.returncode, done.stdout, json.loads((out / "gpu_check.json").read_text())


@needed
def test_green_on_the_simulated_gpu(tmp_path):
    status, text, found = gpu_check(tmp_path)
    assert status == 0 and found["failures"] == [], text
    assert "the simulated GPU (--sim)" in text and found["device"] == "simulated"
    assert len(found["programs"]) >= 17 and all(each["problems"] == [] for each in found["programs"].values())
    assert found["programs"]["many --launches 500"]["kernels"] == 1000
    assert found["cupti_version"] == 130000 and len(found["deviceProperties"]) == 2
    assert found["fixtures"] and (tmp_path / "fixtures.tar.gz").is_file()
    assert len(found["clock"]["least_gap_of_each_tenth_ns"]) == 10 and found["clock"]["least_gap_ns"] > 0
    assert set(found["cost"]) == {"launch-bound", "compute-bound"} and found["window_end_us"]["cpu_most"] > 0
    assert {"gpu", "nvcc", "cupti", "torch", "python", "commit"} <= found["versions"].keys()


@needed
@pytest.mark.parametrize("faults, sign", [
    ("drop=10", "kernels launched"),
    ("zero_times=3", "lost: {'gpu_no_time': 3"),
    ("skew_ns=-2000000", "start before their call"),
])
def test_red_when_a_figure_is_wrong(tmp_path, faults, sign):
    status, text, found = gpu_check(tmp_path, "--only", "programs", "--programs", "many,copies", faults=faults)
    assert status == 1 and any(sign in failure for failure in found["failures"]), text
    assert "FAILED" in text


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """(trace, tally) of a small run."""
    result = gpu_run("copies", tmp_path_factory.mktemp("copies"))
    return gpu_check_trace.read(result.traces[0]), result.launched


def without(trace, drop):
    changed = copy.deepcopy(trace)
    changed["traceEvents"] = [e for e in changed["traceEvents"] if not drop(e)]
    return changed


@needed
def test_each_rule_finds_its_problem(trace):
    good, tally = trace
    assert gpu_check_trace.whole_problems(good, tally)[1] == []
    copies = gpu_check_trace.rows_of(good, "gpu_memcpy")
    first = copies[0]["args"]["correlation"]

    def problems(changed, said=tally):
        return " ".join(gpu_check_trace.whole_problems(changed, said)[1])

    assert "22 recorded" in problems(without(good, lambda e: e is e and e.get("cat") == "gpu_memcpy" and e["args"]["correlation"] == first))
    assert "without their call" in problems(without(good, lambda e: e.get("cat") == "cuda_runtime" and e["args"].get("correlation") == first))
    twice = copy.deepcopy(good)
    twice["traceEvents"].append(copies[0])
    assert "has one already" in problems(twice)
    assert "bytes copied" in problems(good, {**tally, "copies": {**tally["copies"], "htod": {"count": tally["copies"]["htod"]["count"], "bytes": 1}}})
    lost = copy.deepcopy(good)
    lost["cprof"]["lost"]["late"] = 1
    assert "lost: {'late': 1}" in problems(lost)


@needed
def test_two_traces_are_compared_by_name_and_count(trace):
    good, _ = trace
    kernels = copy.deepcopy(good)
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "ts": 1.0, "dur": 100.0, "args": {}}
    kernels["traceEvents"] += [dict(kernel) for _ in range(3)]
    assert gpu_check_torch.compare(kernels, kernels)[1] == []
    fewer = without(kernels, lambda e: e.get("cat") == "gpu_memcpy" and "DtoH" in e["name"])
    assert any("fewer" in p for p in gpu_check_torch.compare(fewer, kernels)[1])
    other_name = copy.deepcopy(kernels)
    other_name["traceEvents"][-1]["name"] = "K"
    assert any("1 more: K" in p for p in gpu_check_torch.compare(other_name, kernels)[1])
    slower = copy.deepcopy(kernels)
    slower["traceEvents"][-1]["dur"] = 110.0
    assert any("kernel time" in p for p in gpu_check_torch.compare(slower, kernels)[1])


@pytest.mark.parametrize("model", ["cnn", "attention"])
def test_the_pytorch_script(tmp_path, model):
    """On the CPU: both profilers record the same steps, and the losses are the same."""
    pytest.importorskip("torch")
    script = ROOT / "tests/e2e/train_gpu.py"
    theirs = run([sys.executable, script, "--model", model, "--profile", tmp_path / "theirs.txt"], tmp_path / "theirs", preload=False)
    ours = run([sys.executable, script, "--model", model], tmp_path / "ours", STEP="manual", WARMUP=3, ACTIVE=3)
    assert theirs.rc == ours.rc == 0 and theirs.out == ours.out, ours.err + theirs.err
    steps = [e["name"] for e in json.loads((tmp_path / "theirs.txt").read_text())["traceEvents"] if e.get("name", "").startswith("ProfilerStep")]
    assert sorted(set(steps)) == ["ProfilerStep#3", "ProfilerStep#4", "ProfilerStep#5"]
    assert step_numbers(load(ours.traces[0])) == [3, 4, 5]
