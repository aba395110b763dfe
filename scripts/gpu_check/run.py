# SPDX-License-Identifier: Apache-2.0
"""Runs programs with and without the library, so that none can hang the check. Each has its own process group, its output in files, and a time
limit: the least of its own, its part's and the whole run's."""

import argparse
import collections
import contextlib
import glob
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time


class OutOfTime(Exception):
    """The part's or the run's time is over."""


class Check:
    """The state of the run: paths, measurements and failures. Several threads may run programs."""

    def __init__(self, options, root):
        self.options, self.root = options, root
        self.out = pathlib.Path(options.out).resolve()
        self.build = pathlib.Path(options.build or root / "build-check").resolve()
        self.work = self.build / "gpu_check_runs"
        self.figures, self.failures, self.skipped, self.rows, self.not_run = {}, [], {}, [], []
        self.on_result = lambda: None  # called after each check, so that nothing is lost if the run is cut off
        self.use()
        self.libraries = []  # folders in which our own programs find CUDA
        self.nvcc = self.cupti = self.library = None
        self.sim = False
        self.n_devices = 0
        self.part = ""
        self.lock = threading.Lock()
        self.started = time.monotonic()
        self.deadline = self.last = self.started + options.limit
        self.runs = 0

    def use(self, label="", preload=(), env=None, least=0, may_say=()):
        """Sets what applies from now on: label of results, libraries preloaded after cprof, environment variables, least version of CUPTI,
        and beginnings of messages that cprof may print. Without arguments restores the defaults."""
        self.label, self.behind, self.always, self.least_version, self.may_say = label, list(preload), dict(env or {}), least, tuple(may_say)

    # ---- results

    def fail(self, where, text):
        with self.lock:
            self.failures.append(f"{where}: {text}")

    def skip(self, what, why):
        with self.lock:
            self.skipped[what] = why

    def row(self, what, measured, goal="", good=None):
        with self.lock:
            self.rows.append((what, measured, goal, "" if good is None else "yes" if good else "NO"))

    def finish(self, where, shown, goal, figures, problems):
        """Ends a check: adds its row, its figures and at most five of its problems."""
        where = self.label + where
        with self.lock:
            self.figures.setdefault(self.part, {})[where] = dict(figures, problems=problems[:20])
        for problem in problems[:5]:
            self.fail(where, problem)
        if len(problems) > 5:
            self.fail(where, f"… {len(problems)} problems in all")
        self.row(where, shown, goal, not problems)
        print(f"  {'ok  ' if not problems else 'FAIL'} {where}: {shown}", flush=True)
        self.on_result()

    # ---- time

    def left(self):
        return self.deadline - time.monotonic()

    @contextlib.contextmanager
    def within(self, part, seconds):
        """A part of the run with a time limit."""
        self.part, self.deadline = part, min(self.last, time.monotonic() + seconds)
        try:
            yield
        finally:
            self.deadline = self.last

    # ---- running

    def environment(self, preload, settings, report, libraries, more):
        """The caller's environment with our CPROF_ settings instead of its own."""
        variables = {k: v for k, v in os.environ.items() if not k.startswith("CPROF_") and k != "LD_PRELOAD"}
        if libraries:
            paths = [*map(str, libraries), variables.get("LD_LIBRARY_PATH", "")]
            variables["LD_LIBRARY_PATH"] = ":".join(filter(None, paths))
        variables.update({"CPROF_" + name: str(value) for name, value in settings.items()})
        # Else JAX would allocate three quarters of the device. All runs share what inductor compiled.
        variables.update(XLA_PYTHON_CLIENT_PREALLOCATE="false", TORCHINDUCTOR_CACHE_DIR=str(self.work / "inductor"))
        clock = [libraries[0] / "libsystemclock.so"] if self.sim and libraries else []  # the simulated GPU's clock, without NTP
        preloaded = [*clock, *([self.library, *self.behind] if preload else [])]
        variables.update({name: str(value) for name, value in self.always.items()} if preload else {})
        if preloaded:
            variables["LD_PRELOAD"] = ":".join(map(str, preloaded))
        if report:
            variables["SIM_REPORT"] = str(report)
        variables.update(more or {})
        return variables

    def start(self, command, preload=True, env=None, **settings):
        """Starts a program. run() also waits for it."""
        with self.lock:
            self.runs += 1
            folder = self.work / str(self.runs)
        folder.mkdir(parents=True)
        report = folder / "simulation.txt" if self.sim else None
        ours = any(self.build in pathlib.Path(str(part)).parents for part in command)
        variables = self.environment(preload, dict(FOLDER=folder / "traces", **settings), report, self.libraries if ours else [], env)
        with open(folder / "out.txt", "wb") as out, open(folder / "err.txt", "wb") as err:
            process = subprocess.Popen([str(part) for part in command], cwd=folder, stdout=out, stderr=err, env=variables,
                                       stdin=subprocess.DEVNULL, start_new_session=True)
        return argparse.Namespace(process=process, folder=folder, report=report, command=" ".join(map(str, command)), began=time.monotonic())

    def wait(self, running, limit):
        """Waits for a program, and then ends its process group. rc is None if it did not end in time."""
        process, left = running.process, min(limit, self.left())
        try:
            rc = process.wait(max(0.1, left))
        except subprocess.TimeoutExpired:
            rc = None
        seconds = time.monotonic() - running.began
        with contextlib.suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)  # a process stuck in the driver cannot even be killed
        out, err = ((running.folder / name).read_text(errors="replace") for name in ("out.txt", "err.txt"))
        if rc is None:
            err += f"\n[did not end within {left:.0f} s]"
        traces = glob.glob(str(running.folder / "traces" / "*.json"))
        traces.sort(key=lambda name: [int(n) for n in re.findall(r"\d+", pathlib.Path(name).name)])
        core, cupti = counters(running.report)
        (running.folder / "command.txt").write_text(f"{running.command}\nrc {rc}, {seconds:.1f} s\n")
        return argparse.Namespace(rc=rc, out=out, err=err, seconds=seconds, traces=traces, folder=running.folder, core=core, cupti=cupti)

    def run(self, command, preload=True, limit=None, env=None, **settings):
        """Runs a command in its own folder. Returns a namespace with rc, out, err, seconds, traces, core and cupti (counters). Our own
        programs use the toolkit's libraries; Python packages bring theirs."""
        if self.left() < 1:
            raise OutOfTime
        return self.wait(self.start(command, preload, env, **settings), limit or self.options.program_limit)

    def program(self, name):
        return self.build / "gpu" / name

    def has(self, name):
        if self.options.programs and name not in self.options.programs.split(","):
            return False
        if not self.program(name).is_file():
            self.skip(name, "not built")
            return False
        return True

    def together(self, jobs):
        """Calls each (function, arguments...), a few at a time. An exception counts as a failure of that job."""
        def work():
            while True:
                with self.lock:
                    if not queue:
                        return
                    function, *args = queue.pop(0)
                try:
                    function(self, *args)
                except OutOfTime:
                    self.fail(f"{self.part}: {args[0] if args else function.__name__}", "no time left, not run")
                except Exception as error:  # an error of the check itself
                    self.fail(f"{self.part}: {args[0] if args else function.__name__}", f"the check itself failed: {type(error).__name__}: {error}")

        queue = list(jobs)
        threads = [threading.Thread(target=work) for _ in range(max(1, min(4, (os.cpu_count() or 1) // 3)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def counters(report):
    """The counters of (driver, CUPTI) that the simulation wrote for the process that ended last."""
    lines = [json.loads(line) for line in report.read_text().splitlines()] if report and report.is_file() else []
    found = collections.defaultdict(collections.Counter)
    for line in lines:
        if line["pid"] == lines[-1]["pid"]:
            found[line["of"]][line["name"]] += line["value"]
    return found["core"], found["cupti"]


def output(command, limit=60):
    """The output of a command, or ''."""
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=limit, stdin=subprocess.DEVNULL)
        return done.stdout.strip() if done.returncode == 0 else ""
    except (OSError, subprocess.TimeoutExpired):
        return ""


FRAIL = 130000  # CUPTI of the first CUDA 13.0: cprof never switches kernels off again (cupti/session.c), and reports that


def said(result):
    """cprof's complaints about this run. A frail CUPTI does not count: it belongs to the machine."""
    lines = [line[7:] for line in result.err.splitlines() if line.startswith("cprof: ")]
    return [line for line in lines if not re.match(rf"rank \d+: [\d,]+ traces?, |no step was marked: the trace holds the whole run|CUPTI {FRAIL} ", line)]


def tally(result):
    """The tally of launches that a program prints as a line of JSON."""
    lines = [line for line in result.out.splitlines() if line.startswith("{")]
    return json.loads(lines[-1]) if lines else {}


def ended(result, what="cprof"):
    """A problem if the program failed or did not end, as a list."""
    return [] if result.rc == 0 else [f"ends with {result.rc} under {what}: {result.err[-400:].strip()}"]
