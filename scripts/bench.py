#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make bench`: the budgets of cprof, measured as ratios or differences within one run, best of several rounds.

    bench.py [--json] [--readme] [--quick]     --readme writes the table into README.md

Each round measures all variants one after the other, so that a machine that gets slower slows all of them. A figure over
its budget is marked; nothing fails, because a busy machine is no bug.
"""

import argparse
import functools
import json
import os
import pathlib
import platform
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()
LIBRARY = BUILD / "libcprof.so"
BENCH = ROOT / "tests/bench"
PYTHON = ROOT / ".venv/bin/python"
MARKS = ("<!-- bench -->", "<!-- bench end -->")


def environment(preload, **settings):
    """The caller's environment without its own CPROF_ settings, with ours and the library."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("CPROF_") and k != "LD_PRELOAD"}
    env.update({f"CPROF_{name}": str(value) for name, value in settings.items()})
    if preload:
        env.update(LD_PRELOAD=str(LIBRARY), CPROF_LOG="warn")
        env.setdefault("CPROF_FOLDER", tempfile.gettempdir() + "/cprof-bench-none")
    return env


def output(command, env):
    done = subprocess.run([str(c) for c in command], env=env, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        sys.exit(f"bench: {command} failed:\n{done.stdout}{done.stderr}")
    if preload_complains := [line for line in done.stderr.splitlines() if line.startswith("cprof:")]:
        sys.exit(f"bench: {command}: {preload_complains[0]}")
    return done.stdout


def values(text):
    """`name value unit` lines as a dictionary."""
    return {line.split()[0]: float(line.split()[1]) for line in text.splitlines() if len(line.split()) == 3}


def least(rounds, measure):
    """The smallest value of each key over the rounds."""
    best = {}
    for _ in range(rounds):
        for key, value in measure().items():
            best[key] = min(best.get(key, value), value)
    return best


def most(rounds, measure):
    """The largest value of each key over the rounds."""
    best = {}
    for _ in range(rounds):
        for key, value in measure().items():
            best[key] = max(best.get(key, value), value)
    return best


def compile_program(name, *options, stderr=None):
    target = BUILD / "bench" / name
    target.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([os.environ.get("CC", "cc"), "-std=gnu11", "-O2", "-D_GNU_SOURCE", f"-I{ROOT}", "-o", str(target),
                    str(BENCH / f"{name}.c"), *options], check=True, stderr=stderr)
    return target


def exec_cost(n=300):
    """CPU microseconds of one process that runs /bin/true, without and with the library."""
    result = {}
    for name, preload in (("bare", False), ("preload", True)):
        env = environment(preload)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        for _ in range(n):
            os.waitpid(os.posix_spawn("/bin/true", ["true"], env), 0)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        result[name] = spent * 1e6 / n
    return result


def bench_exec(rounds):
    best = least(rounds, exec_cost)
    return [("/bin/true with the library, whole added CPU", best["preload"] - best["bare"], "us", None,
             f"/bin/true {best['bare']:.0f} us -> {best['preload']:.0f} us CPU")]


def bench_constructor():
    program = compile_program("constructor", "-ldl")

    def measure():
        return {**values(output([program, LIBRARY], environment(False))),
                **values(output([program, LIBRARY, "inert"], environment(False)))}

    best = least(20, measure)
    return [("constructor in an unrelated process, CPU", best["constructor"] - best["load"], "us", 50,
             f"mapping and relocating the library: {best['load']:.0f} us")]


def bench_hook(folder, rounds):
    stub = BUILD / "bench" / "libcudart.so.12"
    version = BUILD / "bench" / "stub.map"
    stub.parent.mkdir(parents=True, exist_ok=True)
    version.write_text("libcudart.so.12 { global: *; };\n")
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", str(stub), "-xc", "-",
                    "-Wl,-soname,libcudart.so.12", f"-Wl,--version-script={version}"],
                   input="int cudaStreamSynchronize(void *s) { return s != 0; }\n", text=True, check=True)
    program = compile_program("hook_call", str(stub), f"-Wl,-rpath,{stub.parent}")

    def measure():
        bare = values(output([program], environment(False)))["call"]
        idle = values(output([program], environment(True, SKIP_FIRST=1000000)))["call"]
        on = values(output([program], environment(True, WARMUP=0, ACTIVE=1000000, FOLDER=fresh(folder))))["call"]
        return {"bare": bare, "idle": idle, "on": on}

    best = least(rounds, measure)
    return [("hooked call while not recording", best["idle"] - best["bare"], "ns", 5, f"over the bare call of {best['bare']:.1f} ns"),
            ("hooked call while recording", best["on"] - best["bare"], "ns", 40, "over the bare call")]


def bench_transfer(folder, rounds):
    """The cost of an intercepted collective, over a stand-in for NCCL that does nothing."""
    stub = pathlib.Path(folder) / "libnccl.so.2"
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", str(stub), "-xc", "-",
                    "-Wl,-soname,libnccl.so.2"], text=True, check=True, input="""
        int ncclCommCount(void *comm, int *n) { *n = 8; return comm == 0; }
        int ncclCommUserRank(void *comm, int *n) { *n = 0; return comm == 0; }
        int ncclAllReduce(const void *a, void *b, unsigned long n, int type, int op, void *comm, void *stream)
        { return a == b; }
    """)
    program = compile_program("transfer_call", str(stub), f"-Wl,-rpath,{stub.parent}")

    def measure():
        return {"bare": values(output([program], environment(False)))["call"],
                "idle": values(output([program], environment(True, SKIP_FIRST=1000000)))["call"],
                "on": values(output([program], environment(True, WARMUP=0, ACTIVE=1000000, FOLDER=fresh(folder))))["call"]}

    best = least(rounds, measure)
    return [("intercepted collective while not recording", best["idle"] - best["bare"], "ns", None, "over the bare call"),
            ("intercepted collective while recording", best["on"] - best["bare"], "ns", None,
             "elements, bytes, type, communicator, rank and number are noted")]


def bench_blas(folder, rounds):
    stub = BUILD / "bench" / "libstubblas.so"
    stub.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([os.environ.get("CC", "cc"), "-O2", "-shared", "-fPIC", "-o", str(stub), "-xc", "-", f"-Wl,-soname,{stub.name}"],
                   input="void sgemm_(void) {}\n", text=True, check=True)
    program = compile_program("blas_call", str(stub), f"-Wl,-rpath,{stub.parent}")

    def measure():
        bare = values(output([program], environment(False)))["call"]
        idle = values(output([program], environment(True, SKIP_FIRST=1000000)))["call"]
        on = values(output([program], environment(True, WARMUP=0, ACTIVE=1000000, FOLDER=fresh(folder))))["call"]
        return {"bare": bare, "idle": idle, "on": on}

    best = least(rounds, measure)
    return [("call of a matrix library while not recording", best["idle"] - best["bare"], "ns", 10,
             f"over the bare call of {best['bare']:.1f} ns"),
            ("call of a matrix library while recording, counted", best["on"] - best["bare"], "ns", 60, "over the bare call")]


def fresh(folder):
    """A new folder for traces, so that no run is in the way of the next."""
    return tempfile.mkdtemp(dir=folder)


def bench_marker(folder, rounds):
    program = compile_program("bench_marker")
    best = least(rounds, lambda: values(output([program, 100], environment(
        True, WAIT=2, WARMUP=0, ACTIVE=1, FOLDER=fresh(folder)))))
    clock = f"{best['clock_pair']:.1f} ns of it are the two clock reads"
    return [("marker pair while not recording", best["marker_pair_idle"], "ns", 5, ""),
            ("marker pair while recording", best["marker_pair_recording"], "ns", 25, clock),
            ("range push and pop while recording", best["range_pair_recording"], "ns", None, clock)]


def bench_lttng(folder):
    """The same range by LTTng-UST, where it is installed, with a session daemon of our own."""
    name = "for comparison: the same range by LTTng-UST"
    try:
        subprocess.run(["lttng", "--version"], check=True, capture_output=True)
        program = compile_program("lttng_pair", "-llttng-ust", "-ldl", stderr=subprocess.DEVNULL)
    except (subprocess.SubprocessError, OSError):
        return [(name, float("nan"), "ns", None, "not installed here (lttng-tools, liblttng-ust-dev)")]
    env = environment(False)
    env.update(LTTNG_HOME=fresh(folder))
    run = functools.partial(subprocess.run, env=env, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
    daemon = subprocess.Popen(["lttng-sessiond"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for attempt in range(50):
            if subprocess.run(["lttng", "create", "bench", f"--output={fresh(folder)}"], env=env, capture_output=True).returncode == 0:
                break
            time.sleep(0.1)
        run(["lttng", "enable-channel", "-u", "wide", "--subbuf-size=1M", "--num-subbuf=8"])
        run(["lttng", "enable-event", "-u", "-c", "wide", "cprof_bench:*"])
        run(["lttng", "start"])
        pair = least(3, lambda: values(output([program], env)))["pair"]
        run(["lttng", "destroy"])
    except (subprocess.SubprocessError, OSError) as error:
        return [(name, float("nan"), "ns", None, f"its daemon does not work here: {error}")]
    finally:
        daemon.terminate()
        daemon.wait()
    return [(name, pair, "ns", None, "an event with the name, and one at the end")]


def bench_nvtx(folder, rounds):
    program = compile_program("bench_nvtx", "-ldl")
    best = least(rounds, lambda: values(output([program, 100], environment(
        True, WAIT=2, WARMUP=0, ACTIVE=1, FOLDER=fresh(folder)))))
    range_pair = best["range_pair"]
    remark = f"over cprof_range_push and pop of {range_pair:.1f} ns"
    return [("NVTX push and pop while not recording", best["nvtx_pair_idle"], "ns", 5, ""),
            ("NVTX push and pop while recording", best["nvtx_pair"] - range_pair, "ns", 40, remark),
            ("the same with domain and payload", best["nvtx_domain_pair"] - range_pair, "ns", 40, remark),
            ("NVTX start and end while recording", best["nvtx_start_end"] - range_pair, "ns", 40, remark)]


def bench_module(folder, rounds):
    """The Python module's markers. What remains is the interpreter's own cost of two calls into C."""
    def measure(kind, preload, **settings):
        env = dict(environment(preload, STEP="manual", FOLDER=fresh(folder), **settings), PYTHONPATH=str(ROOT / "scripts/python"))
        return values(output([PYTHON, BENCH / "module_cost.py", kind], env))

    best = least(rounds, lambda: {**measure("bare", False), **measure("idle", True, WAIT=1000),
                                  **measure("recording", True, WARMUP=0, ACTIVE=1000)})
    return [(f"Python: {text} while recording", best[f"{key}_recording"], "ns", None,
             f"not recording: {best[f'{key}_idle']:.0f} ns; without the library: {best[f'{key}_bare']:.0f} ns")
            for key, text in (("pair", "start() and finish()"), ("with", "with block"), ("decorated", "decorated call"))]


def bench_operator(folder, rounds):
    script = BENCH / "operator_cost.py"
    record = dict(WARMUP=1, ACTIVE=100000000, MAX_TRACE_MB=100000)

    def one(preload, *args, **settings):
        return float(output([PYTHON, script, *args], environment(preload, **settings)).split()[-1])

    def measure():
        return {"bare": one(False),
                "idle": one(True, "record", SKIP_FIRST=1000000),
                "on": one(True, "record", FOLDER=fresh(folder), **record),
                "uncounted": one(True, "record", FOLDER=fresh(folder), WITH_FLOPS=0, **record),
                "shapes": one(True, "record", FOLDER=fresh(folder), RECORD_SHAPES=1, **record),
                "torch": one(False, "torch"), "torch_shapes": one(False, "torch-shapes")}

    best = least(rounds, measure)
    per = 2  # torch.relu_ is two operators: aten::relu_ and the aten::clamp_min_ inside
    added = {key: (best[key] - best["bare"]) / per for key in best}
    return [("operator between windows", added["idle"], "ns", 5, "over unprofiled"),
            ("operator, no shapes, no FLOPs", added["uncounted"], "ns", 80, f"torch.profiler: {added['torch']:.0f} ns"),
            ("operator, no shapes, FLOPs counted (the default)", added["on"], "ns", 150,
             f"{added['on'] - added['uncounted']:.0f} ns of it are FLOPs: torch hands the inputs over, as it does for shapes"),
            ("operator, with shapes and FLOPs", added["shapes"], "ns", 150, f"torch.profiler: {added['torch_shapes']:.0f} ns")]


def bench_stacks(folder, rounds):
    """Stacks that were seen before, on the Python of the tests. The marks' own cost is in both runs."""
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
                True, FOLDER=fresh(folder), WARMUP=1, ACTIVE=100000000, MAX_TRACE_MB=100000, STACK_ARGS="none", **settings))
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


def bench_nn_module(folder, rounds):
    """CPROF_WITH_MODULES. Without it nothing is hooked: a call costs what it costs without the library."""
    script = BENCH / "nn_module_cost.py"
    record = dict(WARMUP=1, ACTIVE=100000000, MAX_TRACE_MB=100000)

    def one(kind, preload, name="", **settings):
        return {key + name: value for key, value in values(output([PYTHON, script, kind], environment(preload, **settings))).items()}

    def measure():
        return {**one("bare", False), **one("hooks", False),
                **one("idle", True, WITH_MODULES=1, SKIP_FIRST=1000000),
                **one("recording", True, WITH_MODULES=1, FOLDER=fresh(folder), **record)}

    b = least(rounds, measure)
    return [("module call between windows", b["call_idle"] - b["call_bare"], "ns", 5, f"over the bare call of {b['call_bare']:.0f} ns"),
            ("module call while recording modules", b["call_recording"] - b["call_bare"], "ns", None,
             f"over the bare call; two empty hooks in Python: {b['call_hooks'] - b['call_bare']:.0f} ns")]


def bench_step(folder, rounds, steps):
    script = BENCH / "train_step.py"

    def one(mode, preload, **settings):
        row = json.loads(output([PYTHON, script, mode, steps, fresh(folder)], environment(preload, **settings)).splitlines()[-1])
        return {f"{mode}_{key}": value for key, value in row.items()}

    def measure():
        return {**one("none", False),
                **one("cprof", True, WAIT=30, WARMUP=1, ACTIVE=steps, RECORD_SHAPES=1, FOLDER=fresh(folder)),
                **one("torch", False)}

    b = least(rounds, measure)
    step_c, step_t = b["cprof_step"] - b["none_step"], b["torch_step"] - b["none_step"]
    whole_c, whole_t = b["cprof_whole"] - b["none_whole"], b["torch_whole"] - b["none_whole"]
    return [("training step between windows", b["cprof_idle"] / b["none_idle"], "x", 1.05, f"unprofiled {b['none_idle']:.0f} us"),
            ("training step while recording", b["cprof_step"] / b["none_step"], "x", None,
             f"torch.profiler: {b['torch_step'] / b['none_step']:.2f} x"),
            ("time added to a step: torch.profiler / cprof", step_t / step_c, "x", None, f"{step_t:.0f} us / {step_c:.0f} us"),
            ("the same with the window's end, until the trace is saved", whole_t / whole_c, "x", -10,
             f"{whole_t:.0f} us / {whole_c:.0f} us a step, {steps} steps a window")]


def bench_window_end(folder):
    program = compile_program("window_end")
    v = values(output([program, 300, 2000], environment(True, WAIT=0, WARMUP=1, ACTIVE=1, REPEAT=0, FOLDER=fresh(folder))))
    return [("CPU time of the training thread at a window's end, p99", v["window_end_p99"], "us", 100,
             f"median {v['window_end_p50']:.1f} us")]


def bench_json():
    v = values(output([BUILD / "bench" / "bench_json"], environment(False)))
    return [("records to JSON, one thread", v["json_events_per_s"] / 1e6, "M/s", -4, f"{v['json_bytes_per_event']:.0f} bytes an event"),
            ("the same with the table beside the trace", v["json_top_events_per_s"] / 1e6, "M/s", -4, "its adding up at the window's end included"),
            ("records to JSON to gzip, one thread", v["gzip1_events_per_s"] / 1e6, "M/s", -1, ""),
            ("the same by igzip, where it is there", v["igzip_events_per_s"] / 1e6, "M/s", None, f"{v['igzip_bytes_per_event']:.1f} bytes an event"),
            ("bytes on disk of an event, gzip", v["gzip1_bytes_per_event"], "B", 35, "")]


def bench_growth(folder, sizes=(10**5, 10**7)):
    """A window a hundred times as large: CPU time, memory and bytes on disk of an event."""
    def one(events):
        target = pathlib.Path(fresh(folder))
        process = subprocess.Popen([str(BUILD / "bench" / "bench_growth"), str(events)], stderr=subprocess.PIPE, text=True, env=environment(
            True, WARMUP=1, ACTIVE=1, FOLDER=target, FILENAME="growth.json.gz", MAX_TRACE_MB=100000, DRAIN_DEADLINE_MS=60000))
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = status
        traces = list(target.rglob("*.json.gz"))
        if status or said or len(traces) != 1:
            sys.exit(f"bench: window of {events} events: status {status}, {len(traces)} traces: {said}")
        return {"cpu": (used.ru_utime + used.ru_stime) * 1e9 / events, "mb": used.ru_maxrss / 1024,
                "bytes": traces[0].stat().st_size / events}

    small, large = (one(events) for events in sizes)
    name = f"window of {sizes[1]:,} events over one of {sizes[0]:,}"
    return [(f"{name}: CPU time of an event", large["cpu"] / small["cpu"], "x", 1.2, f"{large['cpu']:.0f} ns, gzip and the marks included"),
            (f"{name}: bytes on disk of an event", large["bytes"] / small["bytes"], "x", 1.2, f"{large['bytes']:.1f} B"),
            (f"{name}: memory", large["mb"] - small["mb"], "MB", 16, f"{large['mb']:.0f} MB resident in all")]


def bench_gpu(folder):
    """The way of GPU records, and the end of a window of a million of them on the simulated GPU."""
    best = most(5, lambda: values(output([BUILD / "bench" / "bench_join", 300000, fresh(folder)], environment(False))))
    rows = [("GPU records from CUPTI to the file, one thread", best["gpu_records_per_s"] / 1e6, "M/s", -1,
             "translate, join with hook and operator, JSON, write; a hooked span for each two")]
    json_gpu = most(3, lambda: values(output([BUILD / "bench" / "bench_json_gpu"], environment(False))))
    rows.append(("kernels to JSON, one thread", json_gpu["json_kernel_events_per_s"] / 1e6, "M/s", None, ""))
    if not (BUILD / "gpu" / "window_end").exists():
        return rows
    env = environment(True, WAIT=0, WARMUP=1, ACTIVE=1, REPEAT=0, FOLDER=fresh(folder))
    env.update(LD_LIBRARY_PATH=str(BUILD / "sim"), CPROF_LOG="info")
    done = subprocess.run([str(BUILD / "gpu" / "window_end"), "--launches", "500000", "--windows", "3", "--ns", "5000"], env=env,
                          capture_output=True, text=True, check=True)
    v = values("\n".join(line for line in done.stderr.splitlines() if line.startswith("gpu_window")))
    lost = re.search(r"([\d,]+) lost", done.stderr)
    rows.append(("training thread held at the end of a window of 10^6 GPU records, most of 3", v["gpu_window_end_wall_most"], "us", 100,
                 f"simulated GPU, 200 K launches/s, wall clock; CPU {v['gpu_window_end_cpu_most']:.1f} us; {lost.group(1) if lost else '?'} records lost"))
    return rows


def verdict(value, budget):
    if budget is None:
        return ""
    return "yes" if (value >= -budget if budget < 0 else value <= budget) else "NO"


def table(rows):
    lines = ["| what | measured | budget | within | |", "| --- | --- | --- | --- | --- |"]
    for name, value, unit, budget, remark in rows:
        text = "" if budget is None else f"{'>=' if budget < 0 else '<='} {abs(budget)} {unit}".strip()
        lines.append(f"| {name} | {value:.2f} {unit} | {text} | {verdict(value, budget)} | {remark} |".replace("  ", " "))
    return "\n".join(lines)


def machine():
    model = "unknown CPU"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    torch = subprocess.run([str(PYTHON), "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True).stdout.strip()
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release().split('-')[0]}, torch {torch}"


def write_readme(text):
    readme = ROOT / "README.md"
    old = readme.read_text()
    begin, end = old.index(MARKS[0]) + len(MARKS[0]), old.index(MARKS[1])
    readme.write_text(old[:begin] + "\n" + text + "\n" + old[end:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of the table")
    parser.add_argument("--readme", action="store_true", help="write the table into README.md")
    parser.add_argument("--quick", action="store_true", help="one short round, to see that everything runs")
    args = parser.parse_args()
    rounds = 1 if args.quick else 5
    folder = tempfile.mkdtemp(prefix="cprof-bench-")
    try:
        rows = bench_exec(rounds) + bench_constructor() + bench_hook(folder, rounds) + bench_blas(folder, rounds)
        rows += bench_marker(folder, rounds) + bench_lttng(folder)
        rows += bench_transfer(folder, rounds)
        rows += bench_nvtx(folder, rounds) + bench_module(folder, rounds)
        rows += bench_operator(folder, 1 if args.quick else 3) + bench_stacks(folder, 1 if args.quick else 2)
        rows += bench_nn_module(folder, 1 if args.quick else 3)
        rows += bench_step(folder, 1 if args.quick else 3, 100)
        rows += bench_window_end(folder) + bench_json() + bench_growth(folder, (10**4, 10**6) if args.quick else (10**5, 10**7))
        rows += bench_gpu(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if args.json:
        print(json.dumps({"machine": machine(), "rows": [dict(zip(("what", "value", "unit", "budget", "remark"), r)) for r in rows]}))
        return
    text = f"On {machine()}:\n\n{table(rows)}"
    print(text)
    if args.readme:
        write_readme(text)


main()
