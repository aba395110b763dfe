#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The acceptance run on a GPU: is everything that was launched in the trace, and what does recording cost?

    scripts/gpu_check.sh [--sim] [--quick] [--out FOLDER] [--library PATH]

Builds the library and the programs of tests/gpu, runs each without and with the library and compares; the same for a PyTorch
script against torch.profiler. What was measured goes to FOLDER/gpu_check.json (default $OUT, else build/gpu_check), raw buffers of
CUPTI to FOLDER/fixtures.tar.gz, a table to stdout. Exit status 1 if a check failed. Figures of cost are compared with the
budgets and marked; they fail nothing. The standard library is all that it needs.
"""

import argparse
import collections
import glob
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import time

import gpu_check_torch
from gpu_check_trace import read, whole_problems, window_problems

ROOT = pathlib.Path(__file__).resolve().parents[1]
CUDA_PREFIX = pathlib.Path("/usr/local/cuda")
LIMIT_S = 150  # of one program
FIXTURE_BYTES = 100_000

# (name, arguments quick, arguments full, settings). None: the whole run is one trace.
WHOLE = [
    ("many", "--launches 500", "--launches 20000 --ns 3000"),
    ("many", "--threads 8 --streams 4 --launches 500", "--threads 8 --streams 4 --launches 25000 --ns 20000"),
    ("copies", "", ""),
    ("graphs", "--launches 5", "--launches 1000"),
    ("events", "", "--rounds 100"),
    ("pools", "", "--rounds 50"),
    ("out_of_memory", "", ""),
    ("static_runtime", "", "--launches 1000"),
    ("driver_only", "", "--launches 1000"),
    ("two_runtimes", "", ""),
    ("reset", "", ""),
    ("forked", "", ""),
    ("exit_now", "--how return", "--how return"),
    ("exit_now", "--how exit", "--how exit"),
    ("exit_now", "--how _exit", "--how _exit"),
]
# Programs with steps; kernels of the windows: step -> launches.
WINDOWS = [
    ("outlive", "--steps 16 --ms 500", "--steps 40 --ms 2000", dict(WAIT=1, WARMUP=1, ACTIVE=3, REPEAT=3), "outlive"),
    ("train", "--steps 12", "--steps 60", dict(WARMUP=1, ACTIVE=3, REPEAT=2), "train"),
]
SIM_ONLY = {"two_runtimes"}
# CUPTI used as a guest: these stay 0 in the simulated one.
FORBIDDEN = ("misuse", "kind_kernel", "finalizes", "forced_flushes", "concurrent_flushes")


class Check:
    """What this run knows: where things are, what was measured, what failed."""

    def __init__(self, options):
        self.options = options
        self.out = pathlib.Path(options.out).resolve()
        self.build = pathlib.Path(options.build or ROOT / "build-check").resolve()
        self.work = self.build / "gpu_check_runs"  # traces, kept where a check failed
        shutil.rmtree(self.work, ignore_errors=True)
        for folder in (self.out, self.work):
            folder.mkdir(parents=True, exist_ok=True)
        self.figures, self.failures, self.skipped, self.rows = {}, [], [], []
        self.libraries = []
        self.nvcc = self.cupti = None
        self.sim = False
        self.runs = 0

    def fail(self, where, text):
        self.failures.append(f"{where}: {text}")

    def row(self, what, measured, goal="", good=None):
        self.rows.append((what, measured, goal, "" if good is None else "yes" if good else "NO"))

    # ---- running

    def environment(self, preload, settings, report, libraries):
        """The caller's environment without its CPROF_ settings, with ours."""
        variables = {k: v for k, v in os.environ.items() if not k.startswith("CPROF_") and k != "LD_PRELOAD"}
        if libraries:
            paths = [*map(str, libraries), variables.get("LD_LIBRARY_PATH", "")]
            variables["LD_LIBRARY_PATH"] = ":".join(filter(None, paths))
        variables.update({"CPROF_" + name: str(value) for name, value in settings.items()})
        if preload:
            variables["LD_PRELOAD"] = str(self.library)
        if report:
            variables["SIM_REPORT"] = str(report)
        return variables

    def run(self, command, preload=True, **settings):
        """Runs a command in a folder of its own: a namespace with rc, out, err, seconds, traces, core and cupti (counters). Our own
        programs get the toolkit's libraries; Python packages bring theirs."""
        self.runs += 1
        folder = self.work / str(self.runs)
        folder.mkdir()
        report = folder / "simulation.txt" if self.sim else None
        ours = self.build in pathlib.Path(command[0]).parents
        env = self.environment(preload, dict(FOLDER=folder / "traces", **settings), report, self.libraries if ours else [])
        start = time.monotonic()
        try:
            done = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True, errors="replace", env=env,
                                  stdin=subprocess.DEVNULL, timeout=LIMIT_S)
            rc, out, err = done.returncode, done.stdout, done.stderr
        except subprocess.TimeoutExpired as hang:
            rc, out, err = None, str(hang.stdout or ""), str(hang.stderr or "")
        seconds = time.monotonic() - start
        traces = sorted(glob.glob(str(folder / "traces" / "*.json")), key=lambda name: [int(n) for n in re.findall(r"\d+", pathlib.Path(name).name)])
        core, cupti = counters(report)
        return argparse.Namespace(rc=rc, out=out, err=err, seconds=seconds, traces=traces, folder=folder, core=core, cupti=cupti)

    def program(self, name):
        return self.build / "gpu" / name

    def has(self, name):
        if self.options.programs and name not in self.options.programs.split(","):
            return False
        if name in SIM_ONLY and not self.sim or not self.program(name).is_file():
            self.skipped.append(name)
            return False
        return True


def counters(report):
    """(driver's, CUPTI's) counters that the simulation wrote, of the process that ended last."""
    lines = [json.loads(line) for line in report.read_text().splitlines()] if report and report.is_file() else []
    found = {"core": collections.Counter(), "cupti": collections.Counter()}
    for line in lines:
        if line["pid"] == lines[-1]["pid"]:
            found[line["of"]][line["name"]] += line["value"]
    return found["core"], found["cupti"]


def output(command):
    """The output of a command, or ''."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.stdout.strip() if done.returncode == 0 else ""
    except (OSError, subprocess.TimeoutExpired):
        return ""


def said(result):
    """cprof's lines that are complaints."""
    lines = [line[7:] for line in result.err.splitlines() if line.startswith("cprof: ")]
    return [line for line in lines if not re.match(r"rank \d+: [\d,]+ traces?, |no step was marked", line)]


def tally(result):
    lines = [line for line in result.out.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {}


# ---- what there is ---------------------------------------------------------------------------------------------

def toolkit_folders(nvcc):
    """Where a toolkit may be: around nvcc, where the variables say, the usual prefix."""
    found = [pathlib.Path(nvcc).resolve().parents[1]] if nvcc else []
    found += [pathlib.Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    return [folder for folder in dict.fromkeys([*found, CUDA_PREFIX]) if folder.is_dir()]


def find_nvcc():
    places = [shutil.which("nvcc")] + [str(folder / "bin/nvcc") for folder in toolkit_folders(None)]
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def wheel_folders():
    """Folders of NVIDIA's wheels of this Python, and of one found in PATH."""
    roots = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    return [pathlib.Path(found) for root in roots for found in glob.glob(f"{root}/nvidia/*")]


def find_first(folders, *patterns):
    for folder in folders:
        for pattern in patterns:
            for found in sorted(glob.glob(str(folder / pattern)), reverse=True):
                return pathlib.Path(found)
    return None


def find_cupti(nvcc):
    """libcupti of the toolkit or of a wheel."""
    places = ("extras/CUPTI/lib64/libcupti.so.1*", "lib64/libcupti.so.1*", "targets/*/lib/libcupti.so.1*", "lib/libcupti.so.1*")
    return find_first([*toolkit_folders(nvcc), *wheel_folders()], *places)


def choose(check):
    """Real hardware or the simulation, and why."""
    gpu = output(["nvidia-smi", "-L"]) if shutil.which("nvidia-smi") else ""
    check.nvcc, check.cupti = find_nvcc(), None
    check.cupti = find_cupti(check.nvcc)
    missing = [what for what, there in (("a GPU (nvidia-smi -L)", gpu), ("nvcc", check.nvcc), ("libcupti", check.cupti)) if not there]
    check.sim = check.options.sim or bool(missing)
    why = "--sim" if check.options.sim else f"without {', '.join(missing)}" if missing else gpu.splitlines()[0]
    print(f"gpu_check: {'the simulated GPU' if check.sim else 'a real GPU'} ({why})", flush=True)
    check.figures["device"] = "simulated" if check.sim else gpu.splitlines()


def versions(check):
    smi = output(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]) if not check.sim else ""
    nvcc = output([check.nvcc, "--version"]) if check.nvcc else ""
    torch = output([sys.executable, "-c", "import torch; print(torch.__version__, torch.version.cuda)"])
    check.figures["versions"] = {
        "gpu": smi.splitlines(), "nvcc": nvcc.splitlines()[-2:], "cupti": str(check.cupti), "torch": torch,
        "python": platform.python_version(), "kernel": platform.release(), "cpus": os.cpu_count(),
        "commit": output(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"])}


# ---- building --------------------------------------------------------------------------------------------------

def make(check, *targets):
    done = subprocess.run(["make", "-C", str(ROOT), f"BUILD={check.build}", "WERROR=", "-j4", *targets],
                          capture_output=True, text=True, timeout=600)
    return "" if done.returncode == 0 else (done.stdout + done.stderr)[-2000:]


def build_library(check):
    """The library: the one given, else built here, else what lies in build/ (a machine may lack zlib's static library)."""
    if check.options.library:
        check.library, error = pathlib.Path(check.options.library).resolve(), ""
    else:
        check.library, error = check.build / "libcprof.so", make(check, "all")
        if error and (ROOT / "build/libcprof.so").is_file():
            check.library = ROOT / "build/libcprof.so"
            check.figures["library"] = "build/libcprof.so, because it cannot be built here: " + error[-400:]
    if not check.library.is_file():
        sys.exit(f"gpu_check: no library: {error}")


def build_simulated(check):
    error = make(check, "sim")
    if error:
        sys.exit(f"gpu_check: make sim: {error}")
    check.libraries = [check.build / "sim"]


def compile_one(check, command, name):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=600)
    if done.returncode:
        check.fail("build", f"{name}: {(done.stdout + done.stderr)[-600:]}")
    return done.returncode == 0


def build_real(check):
    """nvcc for the kernels and the linking, the C compiler for the programs."""
    folder, source = check.build / "gpu", ROOT / "tests/gpu"
    folder.mkdir(parents=True, exist_ok=True)
    toolkit = toolkit_folders(check.nvcc)
    libraries = [path for root in toolkit for path in (root / "lib64", root / "extras/CUPTI/lib64", *map(pathlib.Path, glob.glob(f"{root}/targets/*/lib")))
                 if path.is_dir()]
    check.libraries = list(dict.fromkeys([*libraries, check.cupti.parent]))
    includes = [f"-I{path}" for root in toolkit for path in (root / "include", root / "extras/CUPTI/include") if path.is_dir()]
    includes += [f"-I{path}" for path in (check.cupti.parent.parent / "include",) if path.is_dir()]
    kernels = folder / "kernels.o"
    arches = (["-arch=native"], [])
    if not any(compile_quietly([check.nvcc, "-c", "-O2", *arch, f"-I{ROOT}", "-o", kernels, source / "kernels.cu"]) for arch in arches):
        compile_one(check, [check.nvcc, "-c", f"-I{ROOT}", "-o", kernels, source / "kernels.cu"], "kernels.cu")
        return
    for path in sorted(source.glob("*.c")):
        name = path.stem
        if name.startswith(("kernels", "lib")) or name in SIM_ONLY:
            continue
        object_file = folder / f"{name}.o"
        if not compile_one(check, [os.environ.get("CC", "cc"), "-std=gnu11", "-D_GNU_SOURCE=", "-O2", f"-I{ROOT}", *includes, "-c", "-o", object_file, path], name):
            continue
        link = [check.nvcc, "-o", folder / name, object_file]
        link += [] if name == "driver_only" else [kernels]
        link += ["-cudart", "none"] if name == "driver_only" else ["-cudart", "static" if name == "static_runtime" else "shared"]
        link += [f"-L{path}" for path in check.libraries] + [f"-L{path}/stubs" for path in check.libraries if (path / "stubs").is_dir()]
        link += ["-lcuda"] if name == "driver_only" else []
        link += ["-Xlinker", str(check.cupti)] if name == "second_client" else []
        compile_one(check, [*link, "-lpthread", "-ldl"], name)


def compile_quietly(command):
    return subprocess.run([str(part) for part in command], capture_output=True, timeout=600).returncode == 0


# ---- the programs ----------------------------------------------------------------------------------------------

def sim_problems(without, result):
    """What the simulation saw: calls that cprof added, CUPTI misused, kinds left on."""
    added = collections.Counter({n: c for n, c in result.core.items() if n.startswith("calls.")})
    added.subtract({n: c for n, c in without.core.items() if n.startswith("calls.")})
    added = {name[6:]: n for name, n in added.items() if n}
    if added:
        yield f"CUDA calls added by cprof: {added}"
    for name in FORBIDDEN:
        if result.cupti.get(name):
            yield f"CUPTI: {name} {result.cupti[name]}"
    if result.cupti.get("enables") != result.cupti.get("disables"):
        yield f"CUPTI: {result.cupti.get('enables')} enables, {result.cupti.get('disables')} disables"


def same_without(without, result):
    """The program must do the same with the library."""
    if without.rc != 0:
        yield f"fails without cprof, too: {without.rc} {without.err[-300:]}"
    elif result.rc != 0:
        yield f"ends with {result.rc} under cprof: {result.err[-300:]}"
    elif tally(without) != tally(result):
        yield "launched something else under cprof"


def run_whole(check, name, args):
    where = f"{name} {args}".strip()
    command = [check.program(name), *args.split()]
    without, result = check.run(command, preload=False), check.run(command)
    problems = list(same_without(without, result))
    figures = {}
    if len(result.traces) != 1:
        problems.append(f"{len(result.traces)} traces: {result.err[-300:]}")
    else:
        trace = read(result.traces[0])
        figures, found = whole_problems(trace, tally(result))
        problems += found
        check.figures.setdefault("cupti_version", trace.get("cupti_version"))
        check.figures.setdefault("deviceProperties", trace.get("deviceProperties"))
    problems += [f"said: {line}" for line in said(result)]
    if check.sim:
        problems += sim_problems(without, result)
    finish(check, where, problems, dict(figures, seconds=result.seconds, seconds_without=without.seconds))


def run_windows(check, name, args, settings, rule):
    where = f"{name} {args}".strip()
    command = [check.program(name), *args.split()]
    without, result = check.run(command, preload=False), check.run(command, **settings)
    problems = list(same_without(without, result))
    if len(result.traces) != settings["REPEAT"]:
        problems.append(f"{len(result.traces)} traces, {settings['REPEAT']} windows: {result.err[-300:]}")
    figures = collections.Counter()
    for path in result.traces:
        window, found = window_problems(read(path), rule)
        problems += found
        figures.update({key: value for key, value in window.items() if isinstance(value, int) and not key.startswith("least")})
    problems += [f"said: {line}" for line in said(result)]
    if check.sim:
        problems += sim_problems(without, result)
    finish(check, where, problems, dict(figures, seconds=result.seconds, seconds_without=without.seconds))


def run_client(check):
    """The other client's records are complete, and cprof's where it was not at work."""
    args = "--first 4 --length 2 --period 8 --sessions 3 --steps 30".split()
    result = check.run([check.program("second_client"), *args], WARMUP=1, ACTIVE=3, REPEAT=7)
    problems = [] if result.rc == 0 else [f"ends with {result.rc}: {result.err[-300:]}"]
    sessions = re.findall(r"^session (\d+) (\d+) (\d+)$", result.out, re.M)
    problems += [f"session {n} of the other: {launched} launched, it got {got}" for n, launched, got in sessions if launched != got]
    if len(sessions) != 3:
        problems.append(f"{len(sessions)} sessions of 3")
    kernels = sum(read(path)["cprof"].get("gpu", {}).get("kernels", 0) for path in result.traces)
    finish(check, "second client", problems, {"kernels": kernels, "traces": len(result.traces)})


def finish(check, where, problems, figures):
    check.figures.setdefault("programs", {})[where] = dict(figures, problems=problems[:20])
    for problem in problems[:5]:
        check.fail(where, problem)
    if len(problems) > 5:
        check.fail(where, f"… {len(problems)} problems in all")
    least = figures.get("least_gap_ns")
    shown = f"{figures.get('kernels', 0):,} kernels, {figures.get('copies', 0):,} copies" + (f", least gap {least} ns" if least is not None else "")
    check.row(where, shown, "all, matched", not problems)
    print(f"  {'ok  ' if not problems else 'FAIL'} {where}: {shown}", flush=True)


# ---- cost ------------------------------------------------------------------------------------------------------

def seconds_of(result):
    """Of the launching part, as `many` prints it."""
    match = re.search(r"^([\d.]+) s, ", result.err, re.M)
    return float(match.group(1)) if match and result.rc == 0 else None


def run_cost(check):
    """unprofiled / between windows / recording: each the best of several rounds, measured in turn."""
    rounds = 2 if check.options.quick else 5
    loads = {"launch-bound": "--mark 1 --threads 1 --streams 1 --ns 1000 --sync 100 --launches 5000",
             "compute-bound": "--mark 1 --threads 1 --streams 1 --ns 100000 --sync 50 --launches 1000"}
    goals = {("launch-bound", "recording"): 1.3, ("compute-bound", "recording"): 1.01,
             ("launch-bound", "idle"): 1.002, ("compute-bound", "idle"): 1.002}
    if not check.options.quick:
        loads = {name: re.sub(r"(?<=--launches )\d+", lambda m: str(int(m.group()) * 10), args) for name, args in loads.items()}
    for load, args in loads.items():
        command = [check.program("many"), *args.split()]
        times = collections.defaultdict(list)
        for _ in range(rounds):
            times["unprofiled"].append(seconds_of(check.run(command, preload=False)))
            times["idle"].append(seconds_of(check.run(command, SKIP_FIRST=1000)))
            times["recording"].append(seconds_of(check.run(command, SKIP_FIRST=1, WARMUP=0, ACTIVE=1)))
        check.figures.setdefault("cost", {})[load] = times
        if any(None in measured for measured in times.values()):
            check.fail(load, "a run failed or did not say its time")
            continue
        for what in ("idle", "recording"):
            ratio, goal = min(times[what]) / min(times["unprofiled"]), goals[load, what]
            spread = max(times[what]) / min(times[what])
            check.row(f"{load}: {what}", f"{ratio:.3f} x unprofiled (spread {spread:.2f})", f"<= {goal} x", ratio <= goal)


def run_window_end(check):
    """The stepping thread at the end of a window."""
    launches, windows = (2000, 5) if check.options.quick else (100000, 9)
    result = check.run([check.program("window_end"), "--launches", launches, "--windows", windows],
                       WARMUP=1, ACTIVE=1, REPEAT=0)
    found = {name: float(value) for name, value in re.findall(r"^gpu_window_end_(\w+) ([\d.]+) us$", result.err, re.M)}
    check.figures["window_end_us"] = found
    if result.rc != 0 or "cpu_most" not in found:
        check.fail("window_end", f"ends with {result.rc}: {result.err[-300:]}")
        return
    check.row(f"thread at the end of a window of {launches:,} kernels", f"{found['cpu_median']} us CPU, at most {found['cpu_most']}",
              "<= 100 us", found["cpu_most"] <= 100)


def run_clock(check):
    """Kernels against their launches over a minute: the least gap in each tenth of it, and whether it drifts."""
    seconds = 3 if check.options.quick or check.sim else 60
    count = seconds * 500
    result = check.run([check.program("many"), "--threads", 1, "--streams", 1, "--sync", 1, "--ns", seconds * 1000000000 // count * 9 // 10,
                        "--launches", count], SCHEDULE_SCOPE="none")
    if result.rc != 0 or len(result.traces) != 1:
        check.fail("clock", f"ends with {result.rc}, {len(result.traces)} traces")
        return
    figures, problems = whole_problems(read(result.traces[0]), tally(result), slots=10)
    gaps = figures.pop("gap_slots_ns")
    check.figures["clock"] = dict(figures, seconds=result.seconds, least_gap_of_each_tenth_ns=gaps)
    for problem in problems[:5]:
        check.fail("clock", problem)
    drift = (gaps[-1] - gaps[0]) if gaps and None not in (gaps[0], gaps[-1]) else None
    check.row("kernel start - launch start, least", f"{figures['least_gap_ns']} ns", ">= 0", (figures["least_gap_ns"] or 0) >= 0)
    check.row(f"drift of that over {result.seconds:.0f} s", f"{drift} ns", "", None)


# ---- raw buffers -----------------------------------------------------------------------------------------------

def run_fixtures(check):
    """Raw buffers of small runs, for the tests that replay them."""
    runs = [("copies", ""), ("graphs", "--launches 2"), ("events", "--rounds 2"), ("many", "--launches 20"), ("pools", "--rounds 2")]
    archive = check.out / "fixtures.tar.gz"
    kept = []
    with tarfile.open(archive, "w:gz") as tar:
        for name, args in runs:
            if not check.has(name):
                continue
            folder = check.work / f"raw-{name}"
            folder.mkdir()
            result = check.run([check.program(name), *args.split()], GPU_DUMP=folder, GPU_BUFFER_KB=64)
            found = sorted(folder.glob("*.bin"))
            if result.rc != 0 or not found:
                check.fail("raw buffers", f"{name}: {len(found)} files, {result.err[-200:]}")
            for path in found:
                if path.stat().st_size < FIXTURE_BYTES:
                    tar.add(path, f"{name}-{path.name}")
                    kept.append(f"{name}-{path.name}")
    check.figures["fixtures"] = kept
    if not kept:
        check.fail("raw buffers", "none was small enough to keep")
    check.row("raw buffers kept", f"{len(kept)} in {archive.name}", "", None)


# ---- all -------------------------------------------------------------------------------------------------------

def table(check):
    width = max(len(row[0]) for row in check.rows)
    shown = max(len(row[1]) for row in check.rows)
    print()
    for what, measured, goal, good in check.rows:
        print(f"  {what:<{width}}  {measured:<{shown}}  {goal:<14} {good}")
    print()
    for name in sorted(set(check.skipped)):
        print(f"  skipped: {name}")
    for failure in check.failures:
        print(f"  FAILED {failure}")
    state = "simulated GPU" if check.sim else "real GPU"
    print(f"gpu_check: {state}: {len(check.rows)} rows, {len(check.failures)} failures, {check.out / 'gpu_check.json'}")


def run_all(check):
    only = check.options.only.split(",")
    if "programs" in only:
        run_programs(check)
    if "raw" in only:
        run_fixtures(check)
    if "clock" in only and check.has("many"):
        run_clock(check)
    if "cost" in only and check.has("many"):
        run_cost(check)
    if "cost" in only and check.has("window_end"):
        run_window_end(check)
    if "python" in only and not check.sim:
        gpu_check_torch.run(check)


def run_programs(check):
    quick = check.options.quick
    for name, few, many in WHOLE:
        if check.has(name):
            run_whole(check, name, few if quick else many)
    for name, few, many, settings, rule in WINDOWS:
        if check.has(name):
            run_windows(check, name, few if quick else many, settings, rule)
    if check.has("second_client"):
        run_client(check)


def main():
    parser = argparse.ArgumentParser(description="The acceptance run on a GPU.")
    parser.add_argument("--sim", action="store_true", help="the simulated GPU, also where there is a real one")
    parser.add_argument("--quick", action="store_true", help="less of everything: a minute, for CI")
    parser.add_argument("--out", default=os.environ.get("OUT") or str(ROOT / "build/gpu_check"), help="folder for the results")
    parser.add_argument("--build", help="folder to build in (default build-check)")
    parser.add_argument("--library", help="this libcprof.so instead of one built here")
    parser.add_argument("--programs", help="of the programs only these, comma-separated")
    parser.add_argument("--only", default="programs,raw,clock,cost,python", help="parts to run, of: programs,raw,clock,cost,python")
    check = Check(parser.parse_args())
    started = time.monotonic()
    choose(check)
    versions(check)
    build_library(check)
    (build_simulated if check.sim else build_real)(check)
    run_all(check)
    check.figures.update(seconds=time.monotonic() - started, failures=check.failures, skipped=sorted(set(check.skipped)), rows=check.rows)
    (check.out / "gpu_check.json").write_text(json.dumps(check.figures, indent=1) + "\n")
    table(check)
    if check.failures:
        print(f"gpu_check: the traces are in {check.work}")
    else:
        shutil.rmtree(check.work, ignore_errors=True)
    return 1 if check.failures else 0


if __name__ == "__main__":
    sys.exit(main())
