# SPDX-License-Identifier: Apache-2.0
"""Training steps of three models on the CPU: unprofiled, under cprof between windows and in one, and with torch.profiler, with the same
information: shapes, memory and FLOPs, then also the Python stacks. And with callbacks of torch that do nothing, which shows what torch itself takes
as soon as anybody listens to its operators: no profiler that does adds less."""

import json
import os
import pathlib
import shutil
import subprocess

from common import BENCH, BUILD, PYTHON, environment, fresh, output

MODELS = {"cnn": "CNN", "transformer": "transformer", "tiny": "tiny operators"}
MODES = {"none": "unprofiled", "idle": "between windows", "empty": "torch's empty callbacks", "cprof": "cprof", "torch": "torch.profiler",
         "cprof-stack": "cprof, stacks", "torch-stack": "torch.profiler, stacks"}


def empty_callbacks():
    """Builds the callbacks that do nothing with the headers of the torch that is measured; None where there is no compiler for them."""
    torch = pathlib.Path(output([PYTHON, "-c", "import torch; print(torch.__path__[0])"], environment(False)).split()[-1])
    target = BUILD / "bench" / "libempty_callbacks.so"
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20", "-O2", "-shared", "-fPIC", "-o", target, f"-I{torch}/include",
                               BENCH / "empty_callbacks.cpp", f"-L{torch}/lib", "-ltorch_cpu", "-lc10"], capture_output=True, check=False)
    except OSError:
        return None
    return target if done.returncode == 0 else None


def median(some):
    return sorted(some)[len(some) // 2]


def run_mode(mode, steps, folder, helper):
    """What train_step.py says of each model in one mode, and how many operators are in its traces."""
    record = {"SKIP_FIRST": 20, "SKIP_FIRST_WAIT": 1, "WAIT": 30, "WARMUP": 1, "ACTIVE": steps, "REPEAT": 0, "RECORD_SHAPES": 1}
    settings = {"idle": {"SKIP_FIRST": 1000000, "RECORD_SHAPES": 1}, "cprof": record,
                "cprof-stack": dict(record, WITH_STACK=1, NATIVE_STACK=0)}.get(mode)
    target = fresh(folder)
    env = environment(settings is not None, STEP="manual", FOLDER=target, **(settings or {}))
    kind = "cprof" if settings else mode
    said = json.loads(output([PYTHON, BENCH / "train_step.py", kind, steps, target, helper], env).splitlines()[-1])
    traces = list(pathlib.Path(target).glob("*.json"))
    if len(traces) != (0 if mode in ("none", "idle", "empty") else len(MODELS)):
        raise SystemExit(f"bench: {mode}: {len(traces)} traces")
    operators = sum(trace.read_bytes().count(b'"cpu_op"') for trace in traces)
    shutil.rmtree(target)
    return said, operators


def measure(folder, rounds, steps):
    """{mode: {model: {what: microseconds}}}, and how many operators stand in the traces of a mode. The modes take turns. A median is the
    least of those of the rounds, because what else runs on the machine only adds to it; the tail is that of all rounds' steps together."""
    helper = empty_callbacks()
    modes = [mode for mode in MODES if helper or mode != "empty"]
    runs, operators = {mode: [] for mode in modes}, {}
    for _ in range(rounds):
        for mode in modes:
            said, operators[mode] = run_mode(mode, steps, folder, helper)
            runs[mode].append(said)
    return {mode: {model: summary([run[model] for run in runs[mode]]) for model in MODELS} for mode in modes}, operators


def summary(runs):
    """Of one model in one mode."""
    together = sorted(time for run in runs for time in run["steps"])
    return {"step": min(median(run["steps"]) for run in runs), "p99": together[len(together) * 99 // 100], "most": together[-1],
            "held": min(run["held"] for run in runs), "whole": min(run["whole"] for run in runs)}


def added(result, mode, model, what="step"):
    return result[mode][model][what] - result["none"][model][what]


def ratio(torch, cprof):
    """None where the machine was too busy to see what cprof adds."""
    return torch / cprof if torch > 0 and cprof > 0 else None


def ratio_row(result, model, kind):
    """How much less cprof adds to a step."""
    cprof, torch = (added(result, tool + kind, model) for tool in ("cprof", "torch"))
    remark = f"{torch:.0f} us / {cprof:.0f} us on {result['none'][model]['step']:.0f} us"
    if "empty" in result and not kind:
        floor = added(result, "empty", model)
        most = ratio(torch, floor)
        remark += f"; {floor:.0f} us are torch's own, for callbacks that do nothing" + (f", so that {most:.1f} x is the most that can be" if most else "")
    name = f"{MODELS[model]}: time added to a step, torch.profiler / cprof" + (", with stacks" if kind else "")
    return (name, ratio(torch, cprof), "x", -10, remark)


def rows_of(result):
    held = {mode: {model: result[mode][model]["held"] for model in MODELS} for mode in ("cprof", "torch")}
    whole = {model: ratio(added(result, "torch", model, "whole"), added(result, "cprof", model, "whole")) for model in MODELS}
    known = [value for value in whole.values() if value]
    idle = {model: result["idle"][model]["step"] / result["none"][model]["step"] for model in MODELS}
    return [("training step between windows, most of three models", max(idle.values()), "x", 1.05, ""),
            *(ratio_row(result, model, kind) for kind in ("", "-stack") for model in MODELS),
            ("time added until the trace is saved, without stacks, least of the three", min(known) if len(known) == len(whole) else None, "x", -10,
             ", ".join(f"{MODELS[model]} {value:.0f} x" for model, value in whole.items() if value)),
            ("training thread held at the end of a window, most of the three", max(held["cprof"].values()), "us", 100,
             f"wall clock; torch.profiler, which saves the trace there: {max(held['torch'].values()) / 1e6:.1f} s")]


def table_of(result, operators):
    """A second table: how long steps take."""
    heads = [MODES[mode] for mode in result]
    lines = [f"Steps of the three models in us, median / p99 / longest, with one thread of torch. The traces of cprof hold {operators['cprof']:,} "
             f"operators, those of torch.profiler {operators['torch']:,}.", "",
             "| | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
    for model, name in MODELS.items():
        cells = (result[mode][model] for mode in result)
        lines.append(f"| {name} | " + " | ".join(f"{c['step']:.0f} / {c['p99']:.0f} / {c['most']:.0f}" for c in cells) + " |")
    return "\n".join(lines)
