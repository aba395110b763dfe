# SPDX-License-Identifier: Apache-2.0
"""The cost of single calls: processes, hooks, markers, NVTX and ITT, compared with the same call without the library."""

import functools
import os
import resource
import subprocess
import time

from common import BUILD, LIBRARY, compile_program, environment, fresh, least, output, stand_in, values

HALF = "half a pair, whole: not over anything"  # the budget is a hook's, and a pair is two


def exec_cost(n=300):
    """CPU time in microseconds of a process that runs /bin/true, without and with the library."""
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


def call_cost(program, stub, folder, rounds):
    """The best time in nanoseconds of a call from `program` into the library `stub`: bare, with cprof between windows, and recorded."""
    built = compile_program(program, str(stub), f"-Wl,-rpath,{stub.parent}")

    def one(preload, **settings):
        return values(output([built], environment(preload, **settings)))["call"]

    return least(rounds, lambda: {"bare": one(False), "idle": one(True, SKIP_FIRST=1000000),
                                  "on": one(True, WARMUP=0, ACTIVE=1000000, FOLDER=fresh(folder))})


def bench_hook(folder, rounds):
    version = BUILD / "bench" / "stub.map"
    version.parent.mkdir(parents=True, exist_ok=True)
    version.write_text("libcudart.so.12 { global: *; };\n")
    stub = stand_in("libcudart.so.12", "int cudaStreamSynchronize(void *s) { return s != 0; }\n", f"-Wl,--version-script={version}")
    best = call_cost("hook_call", stub, folder, rounds)
    return [("hooked call while not recording", best["idle"] - best["bare"], "ns", 5, f"over the bare call of {best['bare']:.1f} ns"),
            ("hooked call while recording", best["on"] - best["bare"], "ns", 40, "over the bare call")]


def bench_blas(folder, rounds):
    best = call_cost("blas_call", stand_in("libstubblas.so", "void sgemm_(void) {}\n"), folder, rounds)
    return [("call of a matrix library while not recording", best["idle"] - best["bare"], "ns", 5,
             f"over the bare call of {best['bare']:.1f} ns"),
            ("call of a matrix library while recording, counted", best["on"] - best["bare"], "ns", 60, "over the bare call")]


def bench_transfer(folder, rounds):
    stub = stand_in("libnccl.so.2", """
        int ncclCommCount(void *comm, int *n) { *n = 8; return comm == 0; }
        int ncclCommUserRank(void *comm, int *n) { *n = 0; return comm == 0; }
        int ncclAllReduce(const void *a, void *b, unsigned long n, int type, int op, void *comm, void *stream)
        { return a == b; }
    """)
    best = call_cost("transfer_call", stub, folder, rounds)
    return [("intercepted collective while not recording", best["idle"] - best["bare"], "ns", 5,
             "over the bare call; numbered all the same, so that ranks that record other steps have the same numbers"),
            ("intercepted collective while recording", best["on"] - best["bare"], "ns", None,
             "elements, bytes, type, communicator, rank and number are noted")]


def pair_cost(program, folder, rounds, *options):
    """The best values that a program of pairs prints in all rounds; it changes from idle to recording by itself."""
    built = compile_program(program, *options)
    return least(rounds, lambda: values(output([built, 100], environment(True, WAIT=2, WARMUP=0, ACTIVE=1, FOLDER=fresh(folder)))))


def bench_marker(folder, rounds):
    best = pair_cost("bench_marker", folder, rounds)
    absent = least(rounds, lambda: values(output([BUILD / "bench" / "bench_marker", 20], environment(False))))
    clock = f"{best['clock_pair']:.1f} ns of it are the two clock reads"
    bare = absent["marker_pair_idle"]
    return [("marker's start or finish while not recording", (best["marker_pair_idle"] - bare) / 2, "ns", 5,
             f"half a pair of {best['marker_pair_idle']:.1f} ns, over one of {bare:.1f} ns that reaches nothing"),
            ("marker pair while recording", best["marker_pair_recording"], "ns", 25, clock),
            ("range push and pop while recording", best["range_pair_recording"], "ns", None, clock)]


def bench_lttng(folder):
    """The same range with LTTng-UST, if installed, with our own session daemon."""
    name = "for comparison: the same range by LTTng-UST"
    try:
        subprocess.run(["lttng", "--version"], check=True, capture_output=True)
        program = compile_program("lttng_pair", "-llttng-ust", "-ldl", stderr=subprocess.DEVNULL)
    except (subprocess.SubprocessError, OSError):
        return [(name, None, "ns", None, "not installed here (lttng-tools, liblttng-ust-dev)")]
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
        return [(name, None, "ns", None, f"its daemon does not work here: {error}")]
    finally:
        daemon.terminate()
        daemon.wait()
    return [(name, pair, "ns", None, "an event with the name, and one at the end")]


def bench_nvtx(folder, rounds):
    best = pair_cost("bench_nvtx", folder, rounds, "-ldl")
    range_pair = best["range_pair"]
    remark = f"over cprof_range_push and pop of {range_pair:.1f} ns"
    return [("NVTX push or pop while not recording", best["nvtx_pair_idle"] / 2, "ns", 5, HALF),
            ("NVTX push and pop while recording", best["nvtx_pair"] - range_pair, "ns", 40, remark),
            ("the same with domain and payload", best["nvtx_domain_pair"] - range_pair, "ns", 40, remark),
            ("NVTX start and end while recording", best["nvtx_start_end"] - range_pair, "ns", 40, remark)]


def bench_itt(folder, rounds):
    best = pair_cost("bench_itt", folder, rounds, "-ldl")
    return [("ITT task begin or end while not recording", best["itt_pair_idle"] / 2, "ns", 5, HALF),
            ("ITT task begin and end while recording", best["itt_pair"] - best["range_pair"], "ns", 40,
             f"over cprof_range_push and pop of {best['range_pair']:.1f} ns")]
