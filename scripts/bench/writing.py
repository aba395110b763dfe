# SPDX-License-Identifier: Apache-2.0
"""The cost of the cprof thread's work: from records to files, the growth of windows, and the end of a window."""

import os
import pathlib
import re
import statistics
import subprocess
import sys

from common import BUILD, ROOT, compile_program, complaints, environment, fresh, most, output, values


def bench_window_end(folder):
    program = compile_program("window_end")
    v = values(output([program, 300, 2000], environment(True, WAIT=0, WARMUP=1, ACTIVE=1, REPEAT=0, FOLDER=fresh(folder))))
    return [("CPU time of the training thread at a window's end, p99", v["window_end_p99"], "us", 100,
             f"median {v['window_end_p50']:.1f} us")]


def bench_json():
    v = most(5, lambda: values(output([BUILD / "bench" / "bench_json", 0.3], environment(False))))
    return [("records to JSON, one thread", v["json_events_per_s"] / 1e6, "M/s", -4, f"{v['json_bytes_per_event']:.0f} bytes an event"),
            ("the same with the table beside the trace", v["json_top_events_per_s"] / 1e6, "M/s", -4, "its adding up at the window's end included"),
            ("records to JSON to gzip, one thread", v["gzip1_events_per_s"] / 1e6, "M/s", -1,
             f"{1 - v['gzip1_events_per_s'] / v['json_events_per_s']:.0%} of the time is zlib's"),
            ("the same by igzip, where it is there", v["igzip_events_per_s"] / 1e6, "M/s", None, f"{v['igzip_bytes_per_event']:.1f} bytes an event"),
            ("records with stacks to JSON, one thread", v["stacks_events_per_s"] / 1e6, "M/s", -1, f"{v['stacks_bytes_per_event']:.0f} bytes an event"),
            ("records with stacks to JSON to gzip, one thread", v["stacks_gzip_events_per_s"] / 1e6, "M/s", -1,
             f"{v['stacks_gzip_bytes_per_event']:.1f} bytes an event on disk"),
            ("the same with native frames in args, CPROF_STACK_ARGS=all", v["stacks_all_gzip_events_per_s"] / 1e6, "M/s", None,
             f"{v['stacks_all_gzip_bytes_per_event']:.1f} bytes an event on disk"),
            ("bytes on disk of an event, gzip", v["gzip1_bytes_per_event"], "B", 35, "")]


def bench_growth(folder, sizes=(10**5, 10**7)):
    """A window a hundred times as large: CPU time and bytes on disk of an event, and memory."""
    def one(events):
        target = pathlib.Path(fresh(folder))
        process = subprocess.Popen([str(BUILD / "bench" / "bench_growth"), str(events)], stderr=subprocess.PIPE, text=True, env=environment(
            True, WARMUP=1, ACTIVE=1, FOLDER=target, FILENAME="growth.json.gz", MAX_TRACE_MB=100000, DRAIN_DEADLINE_MS=60000))
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = status
        traces = list(target.rglob("*.json.gz"))
        if status or complaints(said) or len(traces) != 1:
            sys.exit(f"bench: window of {events} events: status {status}, {len(traces)} traces: {said}")
        return {"cpu": (used.ru_utime + used.ru_stime) * 1e9 / events, "mb": used.ru_maxrss / 1024,
                "bytes": traces[0].stat().st_size / events}

    small, large = (one(events) for events in sizes)
    name = f"window of {sizes[1]:,} events over one of {sizes[0]:,}"
    return [(f"{name}: CPU time of an event", large["cpu"] / small["cpu"], "x", 1.2, f"{large['cpu']:.0f} ns, gzip and the marks included"),
            (f"{name}: bytes on disk of an event", large["bytes"] / small["bytes"], "x", 1.2, f"{large['bytes']:.1f} B"),
            (f"{name}: memory", large["mb"] - small["mb"], "MB", 16, f"{large['mb']:.0f} MB resident in all")]


def launch_rows(folder):
    """The cost of 100,000 launches a second for their 8 threads on the simulated GPU, compared with a client of CUPTI that records the same and discards
    it."""
    kinds = re.findall(r"^KIND\(\w+, (\d+), KIND_ALWAYS", (ROOT / "cupti/kinds.def").read_text(), re.M)
    many = [str(BUILD / "gpu/many"), "--mark", "1", "--threads", "8", "--streams", "4", "--launches", "25000", "--ns", "320000"]
    lost = set()

    def once(preload, more=None, settle=0, **settings):
        env = environment(preload, FOLDER=fresh(folder), **settings)
        env.update({"LD_LIBRARY_PATH": str(BUILD / "sim"), **(more or {})})
        done = subprocess.run([*many, "--settle", str(settle)], env=env, capture_output=True, text=True, check=True)
        if preload:
            lost.update(re.findall(r"([\d,]+) lost", done.stderr))
        return values("\n".join(line for line in done.stderr.splitlines() if line.startswith("launch_cpu")))["launch_cpu"]

    def round_of_all():
        cost = {"none": once(False),
                "other": once(False, {"CUDA_INJECTION64_PATH": str(BUILD / "e2e/libothertool.so"), "OTHER_TOOL": "cupti", "OTHER_KINDS": ",".join(kinds)}),
                # the kinds for the step before the first mark are switched off a second after it (ASKED_MS of cupti/session.c)
                "idle": once(True, settle=1600, SKIP_FIRST=100), "recording": once(True, SCHEDULE_SCOPE="none")}
        return {key: value - cost["none"] for key, value in cost.items() if key != "none"} | {"none": cost["none"]}

    # Eight threads and the simulated GPU share the machine's cores, so runs differ: takes the differences within a round, and their median over
    # the rounds.
    rounds = [round_of_all() for _ in range(9)]
    added = {key: statistics.quantiles([cost[key] for cost in rounds], n=4) for key in rounds[0]}

    def told(key):
        return f"{added[key][1]:.0f} ({added[key][0]:.0f} to {added[key][2]:.0f}) ns"

    return [("launch between windows, 8 threads, simulated GPU", added["idle"][1], "ns", None, f"CPU of the thread: {told('idle')} over {told('none')}"),
            ("launch while recording, 100 K/s from 8 threads", added["recording"][1], "ns", None,
             f"{told('recording')}; a client that throws away what the simulated CUPTI records: {told('other')}; {', '.join(sorted(lost))} lost")]


def bench_gpu(folder):
    """The cost of GPU records from CUPTI to the file, and of the end of a window with a million of them on the simulated GPU."""
    best = most(5, lambda: values(output([BUILD / "bench" / "bench_join", 300000, fresh(folder)], environment(False))))
    rows = [("GPU records from CUPTI to the file, one thread", best["gpu_records_per_s"] / 1e6, "M/s", -1,
             "translate, join with hook and operator, JSON, write; a hooked span for each two")]
    json_gpu = most(3, lambda: values(output([BUILD / "bench" / "bench_json_gpu"], environment(False))))
    rows.append(("kernels to JSON, one thread", json_gpu["json_kernel_events_per_s"] / 1e6, "M/s", None, ""))
    if not (BUILD / "gpu" / "window_end").exists():
        return rows
    env = environment(True, WAIT=0, WARMUP=1, ACTIVE=1, REPEAT=0, FOLDER=fresh(folder))
    env.update(LD_LIBRARY_PATH=str(BUILD / "sim"))
    done = subprocess.run([str(BUILD / "gpu" / "window_end"), "--launches", "500000", "--windows", "3", "--ns", "5000"], env=env,
                          capture_output=True, text=True, check=True)
    v = values("\n".join(line for line in done.stderr.splitlines() if line.startswith("gpu_window")))
    lost = re.search(r"([\d,]+) lost", done.stderr)
    rows.append(("training thread held at the end of a window of 10^6 GPU records, most of 3", v["gpu_window_end_wall_most"], "us", 100,
                 f"simulated GPU, 200 K launches/s, wall clock; CPU {v['gpu_window_end_cpu_most']:.1f} us; {lost.group(1) if lost else '?'} records lost"))
    return rows + launch_rows(folder)
