# SPDX-License-Identifier: Apache-2.0
"""Checks the floating-point operations of every operator that has a formula in preload/flops/flops.def: flops_sweep.py [KIND...]

Runs flops_cases.py under the library with a trace for each call, in each layout, with and without exceptions. cprof must count what was worked out
by hand (or by torch.utils.flop_counter), and nothing for an operator that raised. In a layout that is not plain, cprof may count the operator as
`unknown` instead. Prints the unknown operators. Exit code 1 if a count was wrong, or if an operator of the list was never called and is not in
NOT_CALLED."""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()
PLAIN = ("strided", "turned", "complex")
KINDS = (*PLAIN, "coo", "csr", "csc", "bsr", "mkldnn", "nested", "raising", "samples")
LIMIT_S = 900

# {reason: pattern of the names of operators that this sweep cannot call}
NOT_CALLED = {
    "another device's": r"cudnn|miopen|aten::_flash_attention|_efficient_attention|_cslt|semi_structured|_mixed_dtypes|_weight_int4pack_mm$|"
                        r"_with_scales_and_zeros|_conv_depthwise2d|_depthwise3d|_scaled_grouped|overrideable|flash_attn::|"
                        r"_scaled_dot_product_flash_attention(_backward)?$|_thnn_fused|_scaled_dot_product_cudnn|_fused_rms_norm_backward",
    "only oneDNN's graphs call it": r"onednn::|_wrapped_quantized|_dyn_quant|_convolution_transpose_pointwise|_scaled_mm_v2|_sparse_mm_reduce",
}
# {(sample, FlopCounterMode's number): (cprof's number, why FlopCounterMode is wrong)}
GROUPS = "it ignores groups in the gradient of a weight"
INSIDE = "it does not see the products inside linalg_pinv and inside operators written in Python"
OTHERWISE = {
    ("nn.functional.conv1d", 384): (288, GROUPS),
    ("nn.functional.conv2d", 1152): (864, GROUPS),
    ("nn.functional.conv_transpose1d", 1024): (768, GROUPS),
    ("nn.functional.conv_transpose2d", 20480): (15360, GROUPS),
    ("nn.functional.conv_transpose3d", 491520): (368640, GROUPS),
    ("nn.functional.linear_cross_entropy", 48): (72, INSIDE),
    ("nn.functional.linear_cross_entropy", 384): (576, INSIDE),
    ("pinverse", 2000): (2250, INSIDE),
    ("linalg.pinv", 2000): (2250, INSIDE),
    ("linalg.pinv", 432): (486, INSIDE),
    ("linalg.pinv", 486): (540, INSIDE),
    ("linalg.pinv", 540): (594, INSIDE),
    ("linalg.lstsq", 264): (288, INSIDE),
    ("linalg.lstsq", 540): (594, INSIDE),
    ("linalg.lstsq", 816): (888, INSIDE),
}
# Operators that FlopCounterMode does not count.
NOT_THEIRS = {"aten::mv", "aten::dot", "aten::vdot", "aten::addmv", "aten::addmv_", "aten::addbmm", "aten::addbmm_", "aten::addmm_", "aten::baddbmm_",
              "aten::mkldnn_rnn_layer", "aten::mkldnn_rnn_layer_backward"}
ELEMENT_WISE = {"ELEMENTS", "FIRST", "REDUCE", "LIST", "COPY", "GATHER", "BAG"}


def rows():
    """{operator: formula} of flops.def."""
    text = (ROOT / "preload/flops/flops.def").read_text()
    return dict(re.findall(r'^FLOPS\("([^"]+)", (\w+),', text, re.M))


def run(kind, folder):
    """[(the program's entry for a call, the call's trace)]."""
    out = folder / "told"
    env = dict(os.environ, LD_PRELOAD=str(BUILD / "libcprof.so"), CPROF_FOLDER=str(folder / "traces"), CPROF_STEP="manual", CPROF_SKIP_FIRST="1",
               CPROF_WARMUP="0", CPROF_ACTIVE="1", CPROF_REPEAT="0", OMP_NUM_THREADS="1")
    done = subprocess.run([sys.executable, HERE / "flops_cases.py", kind, out], env=env, capture_output=True, text=True, timeout=LIMIT_S)
    if done.returncode:
        raise SystemExit(f"{kind}: the program failed: {done.stderr[-2000:]}")
    told = json.loads(out.read_text())
    traces = sorted((folder / "traces").glob("*.json"), key=lambda path: [int(part) for part in path.name.split(".")[1].split("-")])
    if len(traces) - len(told) not in (0, 1):  # the time after the last step may have a trace, too
        raise SystemExit(f"{kind}: {len(told)} calls, {len(traces)} traces: {done.stderr[-2000:]}")
    return list(zip(told, (json.loads(path.read_text()) for path in traces)))


def counted(trace, only=None):
    return sum(e["args"]["flops"] for e in trace["traceEvents"] if e.get("ph") == "X" and e.get("cat") == "cpu_op" and "flops" in e["args"]
               and (only is None or e["name"] in only))


def judge(kind, call, flops, unknown):
    """The fault in the count of a call, as text; empty if there is none."""
    if call["raised"] and kind != "samples":
        return f"raised and counted {flops}" if flops else ""
    if call["flops"] is None:
        return "" if unknown else f"{flops}, but its operations are unknown"
    if flops == call["flops"] or (unknown and not flops and kind not in PLAIN):
        return ""
    return f"{flops}, not {call['flops']}" + (f"; unknown: {unknown}" if unknown else "")


def sweep(kind, known, called):
    """Checks all calls of a kind. Returns the number of wrong counts."""
    theirs = {name for name, formula in known.items() if formula not in ELEMENT_WISE} - NOT_THEIRS
    bad, n, refused, unknowns = 0, 0, 0, collections.Counter()
    with tempfile.TemporaryDirectory(prefix="flops-") as folder:
        for call, trace in run(kind, pathlib.Path(folder)):
            names = {e["name"] for e in trace["traceEvents"] if e.get("ph") == "X" and e.get("cat") == "cpu_op"}
            unknown = trace["cprof"]["flops"].get("unknown_operators", {})
            if kind == "samples":
                call["flops"], _ = OTHERWISE.get((call["name"], call["flops"]), (call["flops"], ""))
            wrong = judge(kind, call, counted(trace, theirs if kind == "samples" else None), unknown)
            n, refused, bad = n + 1, refused + bool(call["raised"]), bad + bool(wrong)
            unknowns.update(unknown)
            if not call["raised"]:
                called |= names
            if wrong:
                print(f"wrong      {kind}: {call['name']}: {wrong}", flush=True)
    print(f"{kind}: {n} calls, {refused} raised, {bad} wrong; unknown: {', '.join(sorted(unknowns)) or 'none'}", flush=True)
    return bad


def main():
    known, called = rows(), set()
    kinds = sys.argv[1:] or KINDS
    bad = sum(sweep(kind, known, called) for kind in kinds)
    if not sys.argv[1:]:
        left = [name for name in known if name not in called and not any(re.search(why, name) for why in NOT_CALLED.values())]
        bad += len(left)
        for name in left:
            print(f"wrong      {name} was never called")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
