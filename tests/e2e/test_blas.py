# SPDX-License-Identifier: Apache-2.0
"""Interposed matrix libraries: the real function gets its arguments, each call has the exact FLOPs, totals count each operation once.
A loop of products on the simulated GPU has the utilisation that follows from its kernels' times."""

import re
import subprocess
import sys

import pytest

import support
from conftest import BUILD
from gpu_runs import gpu_run, needed
from test_stacks import needs_libunwind

ALL = {"WARMUP": 0, "ACTIVE": 1000}
M, N, K = 64, 48, 32
PRODUCT = 2 * M * N * K

# FLOPs of each call of gemm.c --calls, computed by hand.
CALLS = {"cublasSgemm": 2 * PRODUCT,  # and cublasSgemm_64
         "cublasGemmEx": PRODUCT, "cublasGemmStridedBatchedEx": 5 * PRODUCT,
         "cublasGemmGroupedBatchedEx": 2 * (10 * 2 * 4 * 6 + 11 * 3 * 5 * 7), "cublasSsyrk": N * (N + 1) * K,
         "cublasDtrsmBatched": 4 * N * M * M, "cublasLtMatmul": 3 * PRODUCT}


def calls(trace):
    return support.events(trace, ph="X", cat="library_call")


def samples(trace, name):
    """Values of a counter, ordered by time."""
    found = sorted(support.events(trace, ph="C", name=name), key=lambda e: float(e["ts"]))
    assert all(len(e["args"]) == 1 for e in found)
    return [next(iter(e["args"].values())) for e in found]


def steps(trace):
    """[(start, end)] of the steps in nanoseconds."""
    return sorted(support.span_ns(e) for e in support.events(trace, ph="X") if e["name"].startswith("ProfilerStep#"))


def test_blas_arguments_reach_the_callers_own_copy(tmp_path):
    run = support.run([BUILD / "e2e/blas", BUILD / "e2e"], tmp_path, **ALL)
    assert run.rc == 0, run.err
    trace = support.load(run.traces[0])
    rows = calls(trace)
    assert [e["args"]["flops"] for e in rows if e["name"] == "cblas_dgemm"] == [2 * 30 * 40 * 50] * 4
    assert [e["args"]["flops"] for e in rows if e["name"] == "cblas_sgemm"] == [2 * 3 * 4 * 5] * 4
    assert sorted(e["args"]["flops"] for e in rows if e["name"] == "sgemm_") == [12] * 8 + [120] * 4 + [12000] * 4
    account = trace["cprof"]["flops"]
    assert account["CPU"]["flops"] == sum(e["args"]["flops"] for e in rows)
    assert account["unknown"] == account["not_placed"] == account["late"] == 0


@pytest.mark.parametrize("recorded", [True, False])
def test_plugin_is_unloaded_and_replaced(tmp_path, monkeypatch, recorded):
    """dlclose() unloads the plugin, as without cprof, and calls of its thread do not wait for that.
    A plugin loaded later at the same addresses counts as another caller."""
    versions = [BUILD / "e2e/libreload.so", BUILD / "e2e/libreload2.so"] * 3
    monkeypatch.chdir(tmp_path)
    plain = subprocess.run([BUILD / "e2e/reload", *versions], capture_output=True, text=True, timeout=60, check=True)
    assert plain.stdout.split() == ["103", "203"] * 6
    run = support.run([BUILD / "e2e/reload", *versions], tmp_path, WITH_FLOPS=int(recorded), **ALL)
    assert (run.rc, run.out, run.complaints) == (0, plain.stdout, []), run.err
    if recorded:
        assert len(calls(support.load(run.traces[0]))) == 48


@needs_libunwind
def test_blas_calls_have_the_callers_stack(tmp_path):
    """A library call's time is not part of the operator's self time: without its stack a flame graph would miss it."""
    run = support.run([BUILD / "e2e/blas", BUILD / "e2e"], tmp_path, WITH_STACK=1, **ALL)
    assert run.rc == 0, run.err
    trace = support.load(run.traces[0])
    rows = calls(trace)
    stacks = [e["args"].get("Call stack", "") for e in rows]
    assert len(rows) == 24 and trace["cprof"]["lost"]["total"] == 0
    assert all(re.search(r"(^|[; ])main \(blas\);", stack) and "libcprof" not in stack for stack in stacks), stacks


def test_blas_calls_work_while_nothing_is_recorded(tmp_path):
    run = support.run([BUILD / "e2e/blas", BUILD / "e2e"], tmp_path, SKIP_FIRST=100)
    assert run.rc == 0, run.err
    run = support.run([BUILD / "e2e/blas", BUILD / "e2e"], tmp_path, WITH_FLOPS=0, **ALL)
    assert run.rc == 0, run.err
    trace = support.load(run.traces[0])
    assert not calls(trace) and "flops" not in trace["cprof"] and "with_flops" not in trace


@pytest.mark.parametrize("settings", [ALL, {"SKIP_FIRST": 100}], ids=["recorded", "not recorded"])
def test_blas_leaves_the_stack_of_a_caller_without_lengths_alone(tmp_path, settings):
    run = support.run([BUILD / "e2e/blas", BUILD / "e2e", "bare"], tmp_path, **settings)
    assert run.rc == 0, run.err


def test_numpy_products_are_counted_once(tmp_path):
    """NumPy's wheels call their own OpenBLAS (scipy_cblas_sgemm64_) through the PLT. A distribution's NumPy calls the system's BLAS,
    whose cblas_sgemm may call its own sgemm_."""
    pytest.importorskip("numpy", reason="NumPy is not installed in .venv")
    script = support.pathlib.Path(__file__).parent / "scripts" / "numpy_gemm.py"
    plain = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=100, check=True)
    run = support.run([sys.executable, script], tmp_path, **ALL)
    assert run.rc == 0 and run.out == plain.stdout, run.err
    trace = support.load(run.traces[0])
    found = [(match[1], e["args"]["flops"]) for e in calls(trace)
             if (match := re.fullmatch(r"(?:scipy_)?cblas_([a-z])gemm(?:64_)?", e["name"]))]
    if not calls(trace):
        pytest.skip("this NumPy's BLAS is not called through the PLT")
    product = 30 * 30 * 40
    assert set(found) == {("s", 2 * product), ("d", 2 * product), ("c", 8 * product)}
    assert trace["cprof"]["flops"]["CPU"]["flops"] == sum(flops for _, flops in found), "each product counts once"


@needed
def test_counts_each_call_of_cublas(tmp_path):
    run = gpu_run("gemm", tmp_path, "--calls", 1, "--steps", 3, **ALL)
    trace = run.whole()
    top = [e for e in calls(trace) if "flops" in e["args"]]
    inner = 3 * [PRODUCT]  # cublasGemmEx calls cublasLtMatmul, which shows its own count
    found = {name: sorted(e["args"]["flops"] for e in top if e["name"] == name) for name in CALLS}
    assert found.pop("cublasSgemm") == 6 * [PRODUCT]
    assert found == {name: sorted(3 * [flops] + (inner if name == "cublasLtMatmul" else []))
                     for name, flops in CALLS.items() if name != "cublasSgemm"}
    failed = [e for e in calls(trace) if "flops" not in e["args"]]
    # cublasLtMatmul: descriptors of an unknown version. cublasSgemm: a call that fails.
    assert [e["name"] for e in failed] == 3 * ["cublasLtMatmul", "cublasSgemm"]
    account = trace["cprof"]["flops"]
    assert account["CUDA:0"]["flops"] == 3 * sum(CALLS.values())
    assert account["CUDA:0"]["tfloat32"]["flops"] == 3 * 2 * PRODUCT and account["CUDA:0"]["float64"]["flops"] == 3 * CALLS["cublasDtrsmBatched"]
    assert account["not_placed"] == account["late"] == 0 and account["unknown"] == 3
    # a call's FLOPs stand on its kernel; with two kernels, on neither
    kernels = support.events(trace, ph="X", cat="kernel")
    assert len([e for e in kernels if "flops" not in e["args"]]) == 3 * (2 + 1)
    assert sum(e["args"].get("flops", 0) for e in kernels) == 3 * (sum(CALLS.values()) - CALLS["cublasLtMatmul"])


CONVOLUTION = 2 * (2 * 4 * 6 * 6) * (3 * 3 * 3)
# two layers, two directions: gates x hidden x (input + hidden); 5 + 4 + 2 time steps
RECURRENT = 2 * 11 * 2 * (4 * 24 * (16 + 24) + 4 * 24 * (48 + 24))
ATTENTION = 2 * (2 * 4 * 10 * 12) * 16 + 2 * (2 * 4 * 10 * 16) * 12
# eight heads of queries, two of keys; 10 x 12 scores a head; keys of 16, values of 24; backward: three and two such products
ONE_NODE, ONE_NODE_BACK = 2 * 2 * 8 * 10 * 12 * (16 + 24), 2 * 2 * 8 * 10 * 12 * (3 * 16 + 2 * 24)


@needed
def test_counts_each_call_of_cudnn(tmp_path):
    """Direct calls, and plans that were set up before cprof recorded. One of dnn.c's thirteen plans multiplies nothing. Three are unknown:
    packed sequences, a plan whose creation cprof did not see, and attention whose lengths are in device memory."""
    run = gpu_run("dnn", tmp_path, "--steps", 3, **ALL)
    trace = run.whole()
    found = {}
    for e in calls(trace):
        found.setdefault(e["name"], []).append(e["args"].get("flops"))
    assert found == {"cudnnConvolutionForward": 3 * [CONVOLUTION, None],  # the second one fails
                     "cudnnConvolutionBiasActivationForward": 3 * [CONVOLUTION], "cudnnConvolutionBackwardData": 3 * [CONVOLUTION],
                     "cudnnConvolutionBackwardFilter": 3 * [CONVOLUTION], "cudnnRNNForward": 3 * [RECURRENT],
                     "cudnnRNNBackwardData": 3 * [RECURRENT], "cudnnRNNBackwardWeights": 3 * [RECURRENT],
                     "cudnnBackendExecute": 3 * [CONVOLUTION, CONVOLUTION, CONVOLUTION, ATTENTION, None, None, None,
                                                 CONVOLUTION, CONVOLUTION, CONVOLUTION, ONE_NODE, ONE_NODE_BACK, None] + [None]}
    account = trace["cprof"]["flops"]
    gpu = account["CUDA:0"]
    assert gpu["float32"]["flops"] == 3 * 4 * CONVOLUTION and gpu["tfloat32"]["flops"] == 3 * 2 * CONVOLUTION
    assert gpu["float16"]["flops"] == 3 * (3 * RECURRENT + 4 * CONVOLUTION) 
    assert gpu["bfloat16"]["flops"] == 3 * (ATTENTION + ONE_NODE + ONE_NODE_BACK)
    assert account["not_placed"] == account["late"] == 0 and account["unknown"] == 3 * 3
    kernels = support.events(trace, ph="X", cat="kernel")
    assert len(kernels) == 3 * 20 and sum(e["args"].get("flops", 0) for e in kernels) == gpu["flops"]


@needed
def test_cudnn_calls_work_while_nothing_is_recorded(tmp_path):
    for settings in ({"SKIP_FIRST": 100}, {"WITH_FLOPS": 0, **ALL}, {"ENABLED": 0}):
        run = gpu_run("dnn", tmp_path / settings.popitem()[0], "--steps", 2, **settings)
        assert run.rc == 0, run.err


@needed
def test_counts_each_launch_of_a_captured_graph(tmp_path):
    """The graph is captured before the first mark and launched twice in each of three steps. It holds a product of one kernel, a product of
    two kernels and a kernel without FLOPs. Each launch counts once; the capture does not count."""
    run = gpu_run("gemm", tmp_path, "--replays", 2, "--steps", 4, SKIP_FIRST=1, WARMUP=0, ACTIVE=3)
    trace = run.trace()
    product = CALLS["cublasLtMatmul"]
    account = trace["cprof"]["flops"]
    assert account["CUDA:0"]["flops"] == account["CUDA:0"]["bfloat16"]["flops"] == 3 * 2 * 2 * product
    assert account["not_placed"] == account["unknown"] == account["late"] == 0
    kernels = support.events(trace, ph="X", cat="kernel")
    assert len(kernels) == 3 * 2 * 4
    assert [e["args"]["flops"] for e in kernels if "flops" in e["args"]] == 3 * 2 * [product]  # a product of two kernels has none
    ran = {name: sum(end - start for start, end in (support.span_ns(e) for e in kernels if name in e["name"])) for name in ("", "softmax")}
    assert account["CUDA:0"]["coverage_percent"] == pytest.approx(100 * (1 - ran["softmax"] / ran[""]), rel=1e-4)
    rates = samples(trace, "Compute CUDA:0")
    for rate, (start, end) in zip(rates, steps(trace)):
        assert rate == pytest.approx(2 * 2 * product / (end - start) / 1e3, rel=1e-4)


@needed
def test_does_not_count_the_capture_of_a_graph(tmp_path):
    run = gpu_run("gemm", tmp_path, "--replays", 2, "--steps", 3, **ALL)
    trace = run.whole()
    account, product = trace["cprof"]["flops"], CALLS["cublasLtMatmul"]
    assert account["CUDA:0"]["flops"] == 3 * 2 * 2 * product and account["not_placed"] == 0
    rows = calls(trace)
    assert [e["args"].get("captured flops") for e in rows] == [product, product]
    assert not [e for e in rows if "flops" in e["args"]]


@needed
def test_utilisation_of_a_loop_of_products(tmp_path):
    """Consecutive products of 2 x 1024^3 FLOPs in 500 us each. Rates follow from each step's length. In the least disturbed step,
    the utilisation is within 2 % of the one computed from the kernels' times."""
    peak, flops, n = 25.0, 2 * 1024 ** 3, 100
    run = gpu_run("gemm", tmp_path, "--steps", 6, "--products", n, "--us", 500, PEAK_TFLOPS="fp32=1, bf16=25", **ALL)
    trace = run.whole()
    kernels = support.events(trace, ph="X", cat="kernel")
    for kernel in kernels:
        assert kernel["args"]["flops"] == flops
        start, end = support.span_ns(kernel)
        assert kernel["args"]["TFLOP/s"] == pytest.approx(flops / (end - start) / 1e3, rel=1e-3)
    found, rates = samples(trace, "MFU CUDA:0"), samples(trace, "Compute CUDA:0")
    assert len(found) == len(rates) == 6 + 1 and found[-1] == rates[-1] == 0
    distances = []
    for mfu, rate, (start, end) in zip(found, rates, steps(trace)):
        assert rate == pytest.approx(n * flops / (end - start) / 1e3, rel=1e-4)
        assert mfu == pytest.approx(100 * rate / peak, rel=1e-4)
        ran = [e - s for s, e in map(support.span_ns, kernels) if start <= s < end]
        distances.append(abs(mfu / (100 * flops * len(ran) / sum(ran) / 1e3 / peak) - 1))
    assert min(distances) < 0.02, distances
    account = trace["cprof"]["flops"]["CUDA:0"]
    assert account["flops"] == 6 * n * flops
    assert account["busy_ns"] == account["counted_ns"] == sum(e - s for s, e in map(support.span_ns, kernels))
    assert account["coverage_percent"] == 100 and account["bfloat16"]["peak_tflops_per_s"] == peak


@needed
def test_peak_comes_from_the_device(tmp_path):
    run = gpu_run("gemm", tmp_path, "--steps", 4, "--products", 3, **ALL)
    trace = run.whole()
    device = trace["deviceProperties"][0]
    assert "H100" in device["name"] or device["computeMajor"] == 9, device
    assert trace["cprof"]["flops"]["CUDA:0"]["bfloat16"]["peak_tflops_per_s"] == pytest.approx(989.4)


def test_bad_peak_is_reported_in_one_line(tmp_path):
    run = support.run([BUILD / "e2e/blas", BUILD / "e2e"], tmp_path, PEAK_TFLOPS="bf16:989", **ALL)
    assert run.rc == 0 and len(run.traces) == 1
    assert len([line for line in run.err.splitlines() if "CPROF_PEAK_TFLOPS=bf16:989: must be a number above 0, or name=number" in line]) == 1
