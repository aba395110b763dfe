# SPDX-License-Identifier: Apache-2.0
"""FLOPs of operators, forward and backward, compared with torch's two counters: torch.profiler's with_flops for each operator, and
FlopCounterMode of torch.utils.flop_counter for the sums. DIFFERENCES lists where they differ, with the reason."""

import collections
import importlib.util
import json
import subprocess
import sys

import pytest

import support
import torch_runs

from cprof.tool.averages import Averages

torch = pytest.importorskip("torch", reason="PyTorch is not installed in .venv")
pytestmark = pytest.mark.skipif(not torch.autograd.kineto_available(),
                                reason=f"torch {torch.__version__} was built without Kineto: its profiler counts no FLOPs")

SCRIPTS = support.pathlib.Path(__file__).parent / "scripts"
SCRIPT = SCRIPTS / "flops.py"

# The operators that torch.profiler counts.
PROFILED = ["aten::conv2d", "aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::mul", "aten::add"]

# FlopCounterMode's operators, and cprof's with the same work: cprof counts at the outermost operator, FlopCounterMode at the innermost.
SAME_WORK = {"aten.convolution": ["aten::conv1d", "aten::conv2d", "aten::conv_transpose2d", "aten::convolution"],
             "aten.convolution_backward": ["aten::convolution_backward"], "aten.addmm": ["aten::addmm"], "aten.mm": ["aten::mm"],
             "aten.bmm": ["aten::bmm"]}
SAME_WORK.update((f"aten.{name}", [f"aten::{name}"]) for name in (  # FlopCounterMode has these since torch 2.15
    "_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_flash_attention_for_cpu_backward"))

# (model, operator): (cprof's sum minus FlopCounterMode's, why)
DIFFERENCES = {
    ("cnn", "aten.convolution_backward"): (
        -147456, "FlopCounterMode leaves the groups out of account in a weight's gradient: 2 * 4*8*8 positions * 8*8/2*9 products "
                 "is right for the convolution with two groups, it counts twice that"),
}
# (model, operator): (how many of torch.profiler's rows cprof lacks, why)
INSIDE = {
    ("lstm", "aten::add"): (4, "biases are added inside mkldnn_rnn_layer and its gradient, which have the count of all that they do"),
}
# Operators that not every version of torch's counters knows, with FLOPs computed by hand.
BY_HAND = {
    # 3 samples x 4 heads x 12 x 12 scores; two products over 8, then five
    "transformer": {"aten::_scaled_dot_product_flash_attention_for_cpu": 2 * 2 * 3 * 4 * 12 * 12 * 8 * 2,
                    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": 2 * 2 * 3 * 4 * 12 * 12 * 8 * 5},
    # 7 steps x 3 samples; four gates of 24; inputs of 16 and of 24
    "lstm": {"aten::mkldnn_rnn_layer": 2 * 21 * 96 * (16 + 24 + 24 + 24),
             "aten::mkldnn_rnn_layer_backward": 2 * 2 * 21 * 96 * (16 + 24 + 24 + 24)},
}


MODELS = ["cnn", "mlp", "transformer", "lstm"]


def traces_of(script, names, folder, **settings):
    """{name: path of the trace}. The script makes six steps for each name; the trace holds the last one."""
    run = support.run([sys.executable, script, *names], folder, STEP="optimizer:SGD", WAIT=4, ACTIVE=1, REPEAT=0, **settings)
    assert run.rc == 0 and len(run.traces) == len(names), run.err
    return dict(zip(names, run.traces))


def load_of(traces, name):
    trace = support.load(traces[name])
    assert support.step_numbers(trace) == [6 * list(traces).index(name) + 5]
    return trace


@pytest.fixture(scope="module")
def theirs_of():
    """{model: torch's counts of one step}"""
    plain = subprocess.run([sys.executable, SCRIPT, "--oracle", *MODELS], capture_output=True, text=True, timeout=300, check=True)
    return json.loads(plain.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def ours_of(tmp_path_factory):
    return traces_of(SCRIPT, MODELS, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module", params=MODELS)
def counted(request, theirs_of, ours_of):
    """Model, torch's counts of one step, cprof's trace of one step."""
    return request.param, theirs_of[request.param], load_of(ours_of, request.param)


def flops_by_operator(trace):
    found = collections.defaultdict(list)
    for event in support.events(trace, ph="X", cat="cpu_op"):
        if event["args"].get("flops"):
            found[event["name"]].append(event["args"]["flops"])
    return found


def test_operator_flops_equal_torch_profilers(counted):
    model, theirs, trace = counted
    ours = flops_by_operator(trace)
    for name in PROFILED:
        mine, other = sorted(ours.get(name, [])), sorted(theirs["profiler"].get(name, []))
        missing, why = INSIDE.get((model, name), (0, "nothing is missing"))
        extra = collections.Counter(other) - collections.Counter(mine)
        assert not collections.Counter(mine) - collections.Counter(other), f"{name}: {mine} {other}"
        assert sum(extra.values()) == missing, f"{name}: {extra}, but {why}"


def test_flops_sums_equal_flop_counter_modes(counted):
    model, theirs, trace = counted
    ours = flops_by_operator(trace)
    assert set(theirs["counter"]) <= set(SAME_WORK), "an operator that this test does not know"
    for name, total in theirs["counter"].items():
        difference, why = DIFFERENCES.get((model, name), (0, "they should be equal"))
        assert sum(sum(ours[n]) for n in SAME_WORK[name]) - total == difference, f"{name}: {why}"


def test_counts_operators_that_torch_leaves_out(counted):
    model, _, trace = counted
    ours = flops_by_operator(trace)
    for name, total in BY_HAND.get(model, {}).items():
        assert sum(ours[name]) == total, name


def test_no_operation_is_counted_twice(counted):
    """No operator with a count is nested in another one with a count."""
    _, _, trace = counted
    rows = [e for e in support.events(trace, ph="X", cat="cpu_op") if "flops" in e["args"] or "bytes" in e["args"]]
    assert rows
    by_thread = collections.defaultdict(list)
    for row in rows:
        by_thread[row["tid"]].append(support.span_ns(row))
    for spans in by_thread.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in zip(spans, spans[1:]))


def test_with_flops_writes_no_shapes(counted):
    _, _, trace = counted
    assert trace["with_flops"] == 1 and "record_shapes" not in trace
    assert not [e for e in trace["traceEvents"] if "Input Dims" in e.get("args", {})]


# FLOPs of a step's operators in PRODUCTS, computed by hand.
WRAPPED = {
    "vmap": 2 * 100 * 4 * 16 * 32,
    "grad": 2 * 2 * 8 * 16 * 32,
    "grad_of_grad": 4 * 2 * 8 * 16 * 32,
    "grads_batched": 4 * 2 * 8 * 16 * 32,
    "tensor_parallel": 3 * 2 * 32 * 64 * 64,
}
PRODUCTS = ["aten::mm", "aten::addmm", "aten::bmm", "aten::mv", "aten::dot", "aten::_sparse_addmm", "aten::mkldnn_linear",
            "aten::_weight_int8pack_mm"]


@pytest.fixture(scope="module")
def inside(tmp_path_factory):
    names = [name for name in (*WRAPPED, "complex_numbers", *SPECIAL) if not unsupported_reason(name)]
    return traces_of(SCRIPTS / "flops_inside.py", names, tmp_path_factory.mktemp("inside"))


@pytest.fixture(scope="module")
def recomputed(tmp_path_factory):
    return traces_of(SCRIPTS / "flops_inside.py", RECOMPUTED, tmp_path_factory.mktemp("again"), PEAK_TFLOPS="cpu=0.5")


def unsupported_reason(name):
    """What this torch lacks for the script `name`, or None."""
    if name == "tensor_parallel" and not importlib.util.find_spec("torch.distributed.tensor"):
        return "this torch has no tensor parallelism"
    if name in SPECIAL and torch.__version__ < "2":
        return "some of these operators are newer"
    return None


def products_of_a_step(traces, what):
    if unsupported_reason(what):
        pytest.skip(unsupported_reason(what))
    trace = load_of(traces, what)
    ours = flops_by_operator(trace)
    return sum(sum(ours[name]) for name in PRODUCTS), trace


@pytest.mark.parametrize("what", WRAPPED)
def test_counts_the_work_inside_wrapper_tensors(what, inside):
    """The computed work counts, not the shape that the program sees: this rank's part of a DTensor, all samples of vmap's tensors."""
    products, trace = products_of_a_step(inside, what)
    assert products == WRAPPED[what]
    assert trace["cprof"]["flops"]["unknown"] == 0


def test_complex_product_counts_eight_operations(inside):
    """The library call inside the operator has the same count."""
    products, trace = products_of_a_step(inside, "complex_numbers")
    calls = [e["args"]["flops"] for e in support.events(trace, ph="X", cat="library_call") if e["name"] == "cgemm_"]
    assert products == 8 * 5 * 7 * 11
    assert calls in ([products], [])  # some builds of torch make no library call that cprof sees


# script: (FLOPs of products in a step, operators whose products are unknown)
SPECIAL = {
    "sparse": (2 * 2 * 48 * 8, 1),
    "raising": (2 * 4 * 8 * 16, 0),
    "checkpointed": (7 * 2 * 4 * 8 * 16, 0),
    "packed": (3 * 2 * 4 * 64 * 32, {"quantized::linear_dynamic": 1}),
}


# script: (products of 4 x 8 x 16 in a step, those of them that repeat forward work), computed by hand.
RECOMPUTED = {
    "recompute_stopping": (7, 1),
    "recompute_reentrant": (8, 2),
    "recompute_nested": (9, 3),
    "recompute_autocast": (8, 2),
    "recompute_of_gradients": (13, 4),
    "twice_gradient": (9, 0),
    "twice_function": (3, 0),
    "twice_function_gradient": (4, 0),
}


@torch_runs.needs_torch_2("checkpoints of older versions take other arguments")
@pytest.mark.parametrize("what", RECOMPUTED)
def test_recomputed_work_counts_for_hfu_only(what, recomputed):
    """Forward work repeated in the backward pass is marked `recompute`, and MFU leaves it out. Double backward and custom backward functions
    are not recomputation."""
    path, trace = str(recomputed[what]), load_of(recomputed, what)
    rows = [e for e in support.events(trace, ph="X", cat="cpu_op") if e["args"].get("flops")]
    redone = [e for e in rows if "recompute" in e["args"]]
    assert all(e["args"]["recompute"] is True for e in redone)
    found = [sum(e["args"]["flops"] for e in some if e["name"] in PRODUCTS) for some in (rows, redone)]
    assert found == [products * 2 * 4 * 8 * 16 for products in RECOMPUTED[what]]
    told = trace["cprof"]["flops"]["CPU"]
    assert told["flops"] == sum(e["args"]["flops"] for e in rows)
    assert told["recompute_flops"] == sum(e["args"]["flops"] for e in redone)
    assert trace["cprof"]["notes"] == []
    useful = 1 - told["recompute_flops"] / told["flops"]
    mfu, hfu = ({e["ts"]: e["args"]["%"] for e in support.events(trace, ph="C") if e["name"] == f"{name} CPU"} for name in ("MFU", "HFU"))
    assert mfu.keys() == hfu.keys() and any(hfu.values())
    for one, all_of in [(told["mfu_percent"], told["hfu_percent"]), *((mfu[ts], hfu[ts]) for ts in hfu)]:
        assert one == pytest.approx(all_of * useful, rel=1e-4)
    for from_trace in (False, True):
        averages = Averages()
        averages.add(path, from_trace=from_trace)
        rates = averages.rates[path]["CPU"]
        assert bool(averages.tables) != from_trace and rates.items() <= told.items() and {"mfu_percent", "hfu_percent"} <= rates.keys()
        told_again = f", {100 - 100 * useful:.1f}% recomputed" if redone else ""
        assert averages.table().splitlines()[-1] == \
            f"CPU: {told['tflops_per_s']:.4g} TFLOP/s, MFU {told['mfu_percent']:.4g} %, HFU {told['hfu_percent']:.4g} %{told_again}"


@pytest.mark.parametrize("what", SPECIAL)
def test_counts_sparse_failed_and_unknown_products(what, inside):
    """A sparse matrix counts by its entries, an operator that raises counts nothing, and unknown operators are listed."""
    products, trace = products_of_a_step(inside, what)
    flops, unknown = SPECIAL[what]
    names = trace["cprof"]["flops"].get("unknown_operators", {})
    assert products == flops
    assert sum(names.values()) == trace["cprof"]["flops"]["unknown"]
    if isinstance(unknown, dict):
        assert names == unknown
    else:
        assert sum(n for name, n in names.items() if name.endswith("mm")) == unknown, names
