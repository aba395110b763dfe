# SPDX-License-Identifier: Apache-2.0
"""The cost of calls from Python and of torch's operators, also with torch.profiler."""

import pathlib

from common import (BENCH, PYTHON, ROOT, Server, compile_program, core, environment, fresh, least, median, output, quantile,
                    values)
from training import empty_callbacks

RECORD = {"WARMUP": 1, "ACTIVE": 100000000, "MAX_TRACE_MB": 100000}


def bench_module(folder, rounds):
    """The Python module's markers. The rest is the interpreter's own cost of two calls into C."""
    def measure(kind, preload, **settings):
        env = dict(environment(preload, STEP="manual", FOLDER=fresh(folder), **settings), PYTHONPATH=str(ROOT / "scripts/python"))
        return values(output([PYTHON, BENCH / "module_cost.py", kind], env))

    best = least(rounds, lambda: {**measure("bare", False), **measure("idle", True, WAIT=1000),
                                  **measure("recording", True, WARMUP=0, ACTIVE=1000)})
    return [(f"Python: {text} while recording", best[f"{key}_recording"], "ns", None,
             f"not recording: {best[f'{key}_idle']:.0f} ns; without the library: {best[f'{key}_bare']:.0f} ns")
            for key, text in (("pair", "start() and finish()"), ("with", "with block"), ("decorated", "decorated call"))]


def bench_operator(folder, rounds):
    script, helper = BENCH / "operator_cost.py", empty_callbacks()

    def one(preload, *args, **settings):
        return float(output([PYTHON, script, *args], environment(preload, **settings)).split()[-1])

    def measure():
        empty = {"empty": one(False, "empty", helper, 0), "empty_inputs": one(False, "empty", helper, 1)} if helper else {}
        return {**empty, "bare": one(False),
                "idle": one(True, "record", SKIP_FIRST=1000000),
                "on": one(True, "record", FOLDER=fresh(folder), **RECORD),
                "uncounted": one(True, "record", FOLDER=fresh(folder), WITH_FLOPS=0, **RECORD),
                "shapes": one(True, "record", FOLDER=fresh(folder), RECORD_SHAPES=1, **RECORD),
                "torch": one(False, "torch"), "torch_shapes": one(False, "torch-shapes")}

    best = least(rounds, measure)
    per = 2  # torch.relu_ is two operators: aten::relu_ and the aten::clamp_min_ inside
    added = {key: (best[key] - best["bare"]) / per for key in best}
    own = {key: f"{added[key]:.0f} ns are torch's own, for callbacks that do nothing; " if helper else "" for key in ("empty", "empty_inputs")}
    return [("operator between windows", added["idle"], "ns", 5, "over unprofiled"),
            ("operator, no shapes, no FLOPs", added["uncounted"], "ns", 80, own["empty"] + f"torch.profiler: {added['torch']:.0f} ns"),
            ("operator, no shapes, FLOPs counted (the default)", added["on"], "ns", 150,
             own["empty_inputs"] + "it hands the inputs over, as it does for shapes" if helper else ""),
            ("operator, with shapes and FLOPs", added["shapes"], "ns", 150, f"torch.profiler: {added['torch_shapes']:.0f} ns")]


def bench_stacks(folder, rounds):
    """Stacks that were seen before, with the tests' Python. The marks' own cost is in both runs."""
    on = dict(SCHEDULE_SCOPE="none", STEP="manual", STACK_ARGS="none", MAX_TRACE_MB=100000)
    kinds = {"none": dict(WITH_STACK=0), "python": dict(WITH_STACK=1, NATIVE_STACK=0), "both": dict(WITH_STACK=1)}

    def measure():
        result = {}
        for depth in (10, 30):
            for kind, settings in kinds.items():
                run = output([PYTHON, BENCH / "stack_cost.py", depth], environment(True, FOLDER=fresh(folder), **on, **settings))
                result[f"{kind}{depth}"] = values(run)["mark"]
        for kind, settings in kinds.items():
            run = output([PYTHON, BENCH / "operator_cost.py", "record"], environment(
                True, FOLDER=fresh(folder), STACK_ARGS="none", **RECORD, **settings))
            result[f"{kind}_operator"] = float(run.split()[-1]) / 2
        for kind, mode in (("torch", "torch"), ("torch_stack", "torch-stack")):
            result[kind] = float(output([PYTHON, BENCH / "operator_cost.py", mode], environment(False)).split()[-1]) / 2
        return result

    b = least(rounds, measure)
    rows = [(f"Python stack of {depth} frames, seen before", b[f"python{depth}"] - b[f"none{depth}"], "ns", None,
             f"with native frames {b[f'both{depth}'] - b[f'none{depth}']:.0f} ns") for depth in (10, 30)]
    added = {kind: b[f"{kind}_operator"] - b["none_operator"] for kind in kinds}
    rows.append(("operator with stack, over one without", added["python"], "ns", None,
                 f"with native frames {added['both']:.0f} ns; torch.profiler's with_stack: {b['torch_stack'] - b['torch']:.0f} ns"))
    return rows


def call_between_windows(folder):
    """By how many ns a call is slower after a window than before the first one, each compared in turns with a process without the library."""
    script = BENCH / "nn_module_cost.py"
    traced = environment(True, WITH_MODULES=1, WAIT=2, WARMUP=0, ACTIVE=1, REPEAT=1, STEP="manual", FOLDER=fresh(folder))
    bare, cprof = servers = [Server(name, [PYTHON, script, "windows", core()], env) for name, env in (("bare", environment(False)), ("cprof", traced))]
    try:
        for server in servers:
            server.answer()

        def turns():
            pairs = [[float(server.ask("measure")) for server in servers] for _ in range(40)]
            return median([mine / other for other, mine in pairs]), quantile([other for other, _ in pairs], 0.25)

        before, level = turns()
        for server in servers:
            server.ask("window")
        more = (turns()[0] - before) * level
        bare.end()
        cprof.end()
        return more
    finally:
        for server in servers:
            server.kill()


def bench_nn_module(folder, rounds):
    """CPROF_WITH_MODULES. Between windows nothing is hooked: a call costs the same as before the first window."""
    def one(kind, preload, **settings):
        return values(output([PYTHON, BENCH / "nn_module_cost.py", kind], environment(preload, **settings)))

    b = least(rounds, lambda: {**one("bare", False), **one("hooks", False),
                               **one("recording", True, WITH_MODULES=1, FOLDER=fresh(folder), **RECORD)})
    between = [call_between_windows(folder) for _ in range(rounds)]
    return [("module call between windows that record modules", median(between), "ns", 5,
             f"over one before the first window, {min(between):.0f} to {max(between):.0f} ns in {rounds} runs; bare: {b['call_bare']:.0f} ns"),
            ("module call while recording modules", b["call_recording"] - b["call_bare"], "ns", None,
             f"over the bare call; two empty hooks in Python: {b['call_hooks'] - b['call_bare']:.0f} ns")]


def bench_allocation(folder, rounds):
    lib = pathlib.Path(output([PYTHON, "-c", "import torch; print(torch.__path__[0])"], environment(False)).split()[-1]) / "lib"
    helper = compile_program("liballoc_call", "-shared", "-fPIC", f"-L{lib}", "-lc10", f"-Wl,-rpath,{lib}")

    def one(kind, preload, **settings):
        return values(output([PYTHON, BENCH / "allocation_cost.py", helper, kind], environment(preload, **settings)))["pair"]

    b = least(rounds, lambda: {"bare": one("bare", False), "idle": one("idle", True, SKIP_FIRST=1000000),
                               "on": one("recording", True, FOLDER=fresh(folder), **RECORD)})
    return [("tensor allocation and release while not recording", b["idle"] - b["bare"], "ns", None, f"over the bare pair of {b['bare']:.0f} ns"),
            ("tensor allocation and release while recording", b["on"] - b["bare"], "ns", None, "two records with size, address and bytes alive")]


def bench_range(folder, rounds):
    def one(kind, preload, **settings):
        env = dict(environment(preload, STEP="manual", FOLDER=fresh(folder), **settings), PYTHONPATH=str(ROOT / "scripts/python"))
        return values(output([PYTHON, BENCH / "range_cost.py", kind], env))["range"]

    b = least(rounds, lambda: {"bare": one("bare", False), "torch": one("torch", False),
                               "cprof": one("cprof", True, **RECORD), "marker": one("marker", True, **RECORD)})
    return [("torch.profiler.record_function while recording", b["cprof"] - b["bare"], "ns", None,
             f"over {b['bare']:.0f} ns when nobody listens; torch.profiler: {b['torch'] - b['bare']:.0f} ns"),
            ("the same block by a marker of the module cprof", b["marker"], "ns", None,
             f"whole, not over anything; record_function with torch.profiler: {b['torch']:.0f} ns")]
