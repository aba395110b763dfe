# SPDX-License-Identifier: Apache-2.0
"""Runs programs of tests/gpu on the simulated GPU (tests/sim). Their traces must hold everything that the programs say they launched.

    run = gpu_run("many", tmp_path, "--launches", 1000, faults="wrap=1", SCHEDULE_SCOPE="none")
    trace = run.whole()                          # valid, complete, every kernel once and joined to its call
    assert run.cupti["forced_while_on"] == 0     # counters of the simulated CUPTI; run.core: counters of the driver
"""

import collections
import dataclasses
import json
import pathlib
import shutil

import pytest

import consumers
from conftest import BUILD
from support import Result, events, load, run

SIM = BUILD / "sim"
PROGRAMS = BUILD / "gpu"
# Variables for a process on the simulated GPU: the GPU's libraries, and the clock that process and GPU share (tests/sim/system_clock.c).
ENVIRONMENT = {"LD_LIBRARY_PATH": str(SIM), "LD_PRELOAD": str(SIM / "libsystemclock.so")}
needed = pytest.mark.skipif(not (SIM / "libcuda.so.1").is_file() or not (PROGRAMS / "many").is_file(),
                            reason=f"no simulated GPU in {SIM}: `make sim` needs the CUDA headers (make setup)")

WORK = ("kernel", "gpu_memcpy", "gpu_memset")
CALLS = ("cuda_runtime", "cuda_driver")
DEVICE = (*WORK, "cuda_sync", "gpu_user_annotation")


@dataclasses.dataclass
class GpuRun(Result):
    """The result of a program, with its tally of launches and the counters of the simulation."""
    core: dict = dataclasses.field(default_factory=dict)
    cupti: dict = dataclasses.field(default_factory=dict)
    nvml: dict = dataclasses.field(default_factory=dict)

    @property
    def launched(self):
        """The tally that the program printed."""
        return consumers.printed(self.out)

    @property
    def calls(self):
        """The program's API calls, counted by name."""
        return {name.partition(".")[2]: n for name, n in self.core.items() if name.startswith("calls.")}

    def trace(self):
        """The only trace, validated."""
        assert len(self.traces) == 1, f"{self.names}\n{self.err}"
        return load(self.traces[0])

    def whole(self, excused=None):
        """The only trace. It must hold and join everything that the program launched, and cprof must have printed no complaint.
        excused: text of problems that do not count."""
        assert self.rc == 0, f"exit code {self.rc}\n{self.err}"
        trace = self.trace()
        problems = [p for p in consumers.gpu_problems(trace, self.launched) if not (excused and excused in p)]
        assert not problems, "\n".join([*problems[:20], f"({len(problems)} in all)", self.err])
        assert lost(trace) == {} and trace["cprof"]["gpu"]["before_call"] == 0
        assert [line for line in self.complaints if "no step was marked" not in line] == []
        return trace

    def behaves(self):
        """Checks that cprof used CUPTI without misuse and without disturbing other clients. Returns CUPTI's counters."""
        for name in ("misuse", "kind_kernel", "finalizes", "forced_while_on", "concurrent_flushes"):
            assert self.cupti.get(name, 0) == 0, f"{name}: {self.cupti}\n{self.err}"
        assert self.cupti["register_timestamp"] == 0
        return self.cupti


def lost(trace):
    """cprof.lost without zeros and without the total."""
    return {name: n for name, n in trace["cprof"]["lost"].items() if n and name != "total"}


def gpu_run(name, folder, *args, faults="", libraries=SIM, env=None, **more):
    """Runs a program of tests/gpu on the simulated GPU. faults: SIM_FAULTS of sim.h; libraries: folder of the GPU's
    libraries; `more` goes to support.run()."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    report = folder / "simulation.txt"
    report.unlink(missing_ok=True)
    variables = {**ENVIRONMENT, "LD_LIBRARY_PATH": str(libraries), "SIM_FAULTS": faults, "SIM_REPORT": str(report), **(env or {})}
    result = run([PROGRAMS / name, *args], folder, env=variables, **more)
    return GpuRun(result.rc, result.out, result.err, result.folder, *figures(report))


def figures(report):
    """(driver's, CUPTI's, NVML's) counters of the process that ended last: the parent, since children end first."""
    lines = [json.loads(line) for line in report.read_text().splitlines()] if report.is_file() else []
    last = lines[-1]["pid"] if lines else None
    result = {"core": collections.Counter(), "cupti": collections.Counter(), "nvml": collections.Counter()}
    for line in lines:
        if line["pid"] == last:
            result[line["of"]][line["name"]] += line["value"]
    return result["core"], result["cupti"], result["nvml"]


def libraries_without(folder, *names):
    """A folder with the simulated GPU's libraries, except those whose names begin with one of `names`."""
    folder.mkdir(parents=True)
    for library in SIM.iterdir():
        if library.is_file() and ".so" in library.name and not library.name.startswith(tuple(names)):
            shutil.copy(library, folder / library.name)
    return folder


def counts(trace):
    """The number of spans by category."""
    return collections.Counter(e["cat"] for e in trace["traceEvents"] if e["ph"] == "X")


def by_correlation(trace, *categories):
    """{correlation: spans of the categories}."""
    found = collections.defaultdict(list)
    for e in trace["traceEvents"]:
        if e["ph"] == "X" and e.get("cat") in categories and "correlation" in e["args"]:
            found[e["args"]["correlation"]].append(e)
    return found


def without_times(trace):
    """The part of a trace that does not depend on the layout of CUPTI's records: spans with their arguments, correlations numbered
    in order, sorted by category and number."""
    rows = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["cat"] in (*CALLS, *WORK, "cuda_sync")]
    numbers = {c: n for n, c in enumerate(sorted({e["args"].get("correlation", 0) for e in rows}))}
    # priority: CUPTI has it from 13.1 on
    changing = {"memory bandwidth (GB/s)", "queued", "External id", "wait_on_cuda_event_record_corr_id", "cbid", "priority"}
    result = []
    for e in rows:
        args = {k: v for k, v in e["args"].items() if k not in changing}
        args["correlation"] = numbers[e["args"].get("correlation", 0)]
        waited = e["args"].get("wait_on_cuda_event_record_corr_id")
        if waited is not None:
            args["waited"] = numbers.get(waited, waited)
        place = e["pid"] if e["cat"] not in CALLS else "cpu"
        result.append((e["cat"], args["correlation"], e["name"], place, json.dumps(args, sort_keys=True)))
    return sorted(result)


def spans(trace, name):
    """X events of one name, by time."""
    return sorted(events(trace, ph="X", name=name), key=lambda e: float(e["ts"]))
