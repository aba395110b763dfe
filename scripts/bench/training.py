# SPDX-License-Identifier: Apache-2.0
"""Training steps of three models on the CPU: unprofiled, with cprof between windows and in one, and with torch.profiler. Both profilers record the
same: shapes, memory and FLOPs, then also Python stacks. Another mode has torch callbacks that do nothing. It shows the cost of torch itself as soon
as anybody listens to its operators, the minimum for any profiler that does.

Each mode has its own process, and all are ready at once. One at a time trains for a few steps, on the same core. A round has such a slice of each
mode, in its own order, so that all slices of a round fall within a fraction of a second. The least step of a slice, since other load on the machine
can only add to a step, is divided by that of the unprofiled slice of the same round. The median of these ratios over all rounds is independent of
a machine that gets slower or faster between rounds. The CPU time of the training thread is also independent of programs that run while it waits."""

import json
import os
import pathlib
import random
import subprocess
import time

from common import BENCH, BUILD, PYTHON, Server, core, environment, fresh, median, output, quantile

MODELS = {"cnn": "CNN", "transformer": "transformer", "tiny": "tiny operators"}
MODES = {"none": "unprofiled", "idle": "between windows", "empty": "torch's empty callbacks", "cprof": "cprof", "torch": "torch.profiler",
         "cprof-stack": "cprof, stacks", "torch-stack": "torch.profiler, stacks"}
BEFORE = 20  # steps between windows
SLICES, SLICE = 20, 5  # slices of a window, and steps of a slice
STEPS = SLICES * SLICE
WARM = 1  # steps of a slice that do not count, since another process used the caches before
WALL, CPU, HELD, HELD_CPU = range(4)  # times of a step in train_step.py's output


def empty_callbacks():
    """Builds the callbacks that do nothing, with the headers of the measured torch. Returns None without a suitable compiler."""
    torch = pathlib.Path(output([PYTHON, "-c", "import torch; print(torch.__path__[0])"], environment(False)).split()[-1])
    target = BUILD / "bench" / "libempty_callbacks.so"
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run([os.environ.get("CXX", "g++"), "-std=c++20", "-O2", "-shared", "-fPIC", "-o", target, f"-I{torch}/include",
                               BENCH / "empty_callbacks.cpp", f"-L{torch}/lib", "-ltorch_cpu", "-lc10"], capture_output=True, check=False)
    except OSError:
        return None
    return target if done.returncode == 0 else None


def run(worker, model, count):
    """The times of `count` steps."""
    return json.loads(worker.ask(f"{model} {count}"))


def operators_of(folder):
    """The mean number of operators in a trace of this folder."""
    traces = list(pathlib.Path(folder).glob("*.json"))
    return sum(trace.read_bytes().count(b'"cpu_op"') for trace in traces) / max(1, len(traces))


def start(mode, folder, helper):
    """Starts the process of a mode."""
    record = {"WAIT": BEFORE, "WARMUP": 1, "ACTIVE": STEPS, "REPEAT": 0, "RECORD_SHAPES": 1}
    settings = {"idle": {"SKIP_FIRST": 1000000, "RECORD_SHAPES": 1}, "cprof": record,
                "cprof-stack": dict(record, WITH_STACK=1, NATIVE_STACK=0)}.get(mode)
    env = environment(settings is not None, STEP="manual", FOLDER=folder, **(settings or {}))
    return Server(mode, [PYTHON, BENCH / "train_step.py", "cprof" if settings else mode, BEFORE, STEPS, folder, core(), helper], env)


def turns(workers, order):
    """All workers in a new order, since the worker before may make one slower or faster."""
    mixed = list(workers)
    order.shuffle(mixed)
    return mixed


def train_window(workers, model, order):
    """{mode: (slices of a window, the steps before it)}. Then waits until the cprof thread has written the rest."""
    before = {w.name: run(w, model, BEFORE + 1) for w in turns(workers, order)}
    slices = {w.name: [] for w in workers}
    for _ in range(SLICES):
        for w in turns(workers, order):
            slices[w.name].append(run(w, model, SLICE))
    time.sleep(0.3)
    return {mode: (slices[mode], before[mode]) for mode in slices}


def measure(folder, windows):
    """{mode: {model: summary()}}, and the number of operators in a trace of each mode. torch.profiler takes part in every second window
    only. It takes longest to save a window, and adds most, so that fewer samples are enough."""
    helper = empty_callbacks()
    order = random.Random(1)
    folders = {mode: fresh(folder) for mode in MODES if helper or mode != "empty"}
    workers = []
    try:
        workers = [start(mode, target, helper) for mode, target in folders.items()]
        for w in workers:
            w.answer()
        few = [w for w in workers if not w.name.startswith("torch")]
        said = {model: [train_window(few if i % 2 else workers, model, order) for i in range(windows)] for model in MODELS}
        for w in workers:
            w.end()
    finally:
        for w in workers:
            w.kill()
    return ({mode: {model: summary(said[model], mode) for model in MODELS} for mode in folders},
            {mode: operators_of(target) for mode, target in folders.items()})


def counted(slices):
    """The counted steps of each slice: without the first ones, and without the step whose mark ends the window."""
    return [steps[WARM:-1 if steps is slices[-1] else None] for steps in slices]


def floors(said, mode, which):
    """The least step of each slice, in us."""
    return [min(step[which] for step in steps) / 1e3 for window in said for steps in counted(window[mode][0])]


def added(said, mode, which):
    """The time that the mode adds to a step, in us: median and quartiles of the rounds' ratios to the unprofiled slice, times an unprofiled step on a
    quiet machine."""
    bare = floors(said, "none", which)
    ratios = [mine / other - 1 for mine, other in zip(floors(said, mode, which), bare)]
    return [quantile(ratios, part) * quantile(bare, 0.25) for part in (0.5, 0.25, 0.75)]


def end_of(window, which, held):
    """The time in us for which the end of a window held the training thread, with the delay of the next step."""
    slices, before = window
    level = median([step[which] for step in before[1:]]) if before else 0
    return (slices[-1][-1][held] + (before[0][which] - level if before else 0)) / 1e3


def summary(said, mode):
    """Of one model in one mode, in us: times of steps, the added time, and the ends of its windows."""
    said = [window for window in said if mode in window]
    steps = [step for window in said for steps in counted(window[mode][0]) for step in steps]
    wall = [step[WALL] / 1e3 for step in steps]
    ends = [window[mode][0][-1][-1] for window in said]
    # after each window come the first steps of the next
    behind = [(window[mode][0], after[mode][1] if after else None) for window, after in zip(said, [*said[1:], None])]
    of_end = median([end_of(window, CPU, HELD_CPU) for window in behind]) / STEPS
    cpu = added(said, mode, CPU)
    return {"step": median(wall), "p99": quantile(wall, 0.99), "most": max(wall), "cpu": quantile(floors(said, mode, CPU), 0.25),
            "added": cpu, "added_wall": added(said, mode, WALL), "whole": cpu[0] + of_end,
            "held": max(end[HELD] for end in ends) / 1e3, "held_cpu": max(end[HELD_CPU] for end in ends) / 1e3}


def ratio(torch, cprof):
    """The ratio; None if the machine was too busy to see what cprof adds."""
    return torch / cprof if torch > 0 and cprof > 0 else None


def spread(added_):
    return f"{added_[0]:.0f} ({added_[1]:.0f} to {added_[2]:.0f})"


def ratio_row(result, model, kind):
    """The row with the ratio of the times that torch.profiler and cprof add to a step."""
    cprof, torch = (result[tool + kind][model] for tool in ("cprof", "torch"))
    remark = f"{spread(torch['added'])} us / {spread(cprof['added'])} us of CPU on {result['none'][model]['cpu']:.0f} us"
    wall = ratio(torch["added_wall"][0], cprof["added_wall"][0])
    remark += f", {wall:.1f} x by the clock" if wall else ""
    if "empty" in result and not kind:
        empty = result["empty"][model]["added"]
        most = ratio(torch["added"][0], empty[0])
        remark += f"; {spread(empty)} us are torch's own, for callbacks that do nothing" + (f": {most:.1f} x is the most that can be" if most else "")
    name = f"{MODELS[model]}: time added to a step, torch.profiler / cprof" + (", with stacks" if kind else "")
    return (name, ratio(torch["added"][0], cprof["added"][0]), "x", -10, remark)


def rows_of(result):
    def most(mode, what):
        return max(result[mode][model][what] for model in MODELS)

    whole = {model: ratio(result["torch"][model]["whole"], result["cprof"][model]["whole"]) for model in MODELS}
    known = [value for value in whole.values() if value]
    idle = {model: 1 + result["idle"][model]["added"][0] / result["none"][model]["cpu"] for model in MODELS}
    return [("training step between windows, most of three models, CPU", max(idle.values()), "x", 1.05,
             ", ".join(f"{MODELS[model]} {spread(result['idle'][model]['added'])} us" for model in MODELS)),
            *(ratio_row(result, model, kind) for kind in ("", "-stack") for model in MODELS),
            ("CPU time added until the trace is saved, without stacks, least of the three", min(known) if len(known) == len(whole) else None, "x", -10,
             ", ".join(f"{MODELS[model]} {value:.0f} x" for model, value in whole.items() if value)),
            ("CPU time of the training thread at the end of a window, most of all windows", most("cprof", "held_cpu"), "us", 100,
             f"{most('cprof', 'held'):.0f} us by the clock; unprofiled, where it is a function that does nothing: {most('none', 'held_cpu'):.0f} us of CPU; "
             f"torch.profiler, which saves the trace there: {most('torch', 'held') / 1e6:.1f} s")]


def table_of(result, operators):
    """A second table: the times of steps, and the times added to them."""
    heads = [MODES[mode] for mode in result]
    lines = ["Steps of the three models in us by the clock, median / p99 / longest; below it what is added to the CPU time of one, median (quartiles of "
             f"the rounds). One thread of torch. A trace of cprof holds {operators['cprof']:,.0f} operators, one of torch.profiler "
             f"{operators['torch']:,.0f}.", "", "| | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(heads)]
    for model, name in MODELS.items():
        cells = [result[mode][model] for mode in result]
        lines.append(f"| {name} | " + " | ".join(f"{c['step']:.0f} / {c['p99']:.0f} / {c['most']:.0f}" for c in cells) + " |")
        lines.append("| added, CPU | | " + " | ".join(spread(c["added"]) for c in cells[1:]) + " |")
    return "\n".join(lines)
