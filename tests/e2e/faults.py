# SPDX-License-Identifier: Apache-2.0
"""Fails each of the library's calls for a file or for memory, one a run. The program must run as without cprof, cprof must print at most
two lines, and the files on disk must be readable.

    python tests/e2e/faults.py [SHARE [PROGRAM …]]      # part of `make soak`; fails every SHARE-th call, by default each

tests/e2e/test_faults.py is the short form.
"""

import dataclasses
import errno
import itertools
import pathlib
import re
import sys
import tempfile

from conftest import BUILD, ROOT
from support import PROGRAMS, events, files, load, program, refuse_close_range, run

KINDS = {"file": [errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EACCES, errno.EINTR], "memory": [errno.ENOMEM]}
MARKS = program("burst", 2, 100, 140)  # 400 marks in step 1, and a flush in the middle
FEW = program("burst", 1, 20)
WINDOWS = dict(WARMUP=0, ACTIVE=1, REPEAT=0)
PYTHON = """
import cprof, json, sys, time
path = sys.argv[1] + "-foreign.json"
with open(path, "w") as file:
    json.dump({"traceEvents": [{"ph": "X", "cat": "theirs", "name": f"foreign {i}", "ts": time.time_ns() // 1000, "dur": 1, "pid": 1, "tid": 1} for i in range(6)]}, file)
cprof.add_metadata_json("config", json.dumps({"lr": 0.1}))
work = cprof.marker("work", categories=["data"])
for step in range(5):
    if step == 1: cprof.record_chrome_json_trace_file(path)
    for i in range(5):
        with work:
            work.counter({"loss": 0.5})
            cprof.mark("moment")
    cprof.step()
cprof.export_chrome_trace(sys.argv[1] + "-copy.json.gz")
print("done")
"""
# name: (command, settings, variables). {folder} is the folder of the run.
PROGRAMS_OF = {
    "marks": (MARKS, dict(WARMUP=0, ACTIVE=2, REPEAT=0, USE_GZIP=0), {}),
    "marks, gzip": (MARKS, dict(WARMUP=0, ACTIVE=2, REPEAT=0, USE_GZIP=1), {}),
    "what follows a trace": (FEW, dict(WINDOWS, ON_TRACE_READY="true", NUM_TRACES_TO_KEEP=9), {}),
    "handlers, stacks, trigger": (FEW, dict(WINDOWS, WITH_STACK=1, TRIGGER="socket", TRACE_HANDLERS=f"{PROGRAMS}/libhandler_csv.so={{folder}}/csv"), {}),
    "Python": ([sys.executable, "-c", PYTHON, "{folder}"], dict(WARMUP=0, ACTIVE=2, REPEAT=0, WITH_STACK=1),
               {"PYTHONPATH": str(ROOT / "scripts/python"), "PYTHONDONTWRITEBYTECODE": "1"}),
    "GPU": ([str(BUILD / "gpu/many"), "--launches", "40"], dict(SCHEDULE_SCOPE="none"), {"LD_LIBRARY_PATH": str(BUILD / "sim")}),
}


@dataclasses.dataclass
class Figures:
    runs: int = 0
    whole: int = 0    # runs with all events in finished traces
    less: int = 0     # runs with fewer events, and a line or a count that reports it
    wrong: list = dataclasses.field(default_factory=list)  # runs that broke a rule, as text

    def __str__(self):
        return (f"{self.runs} runs, in each another call failed: {self.whole} with all events, {self.less} with fewer and a report; "
                f"{len(self.wrong)} wrong")


def one(folder, name="marks", kind="file", at=0, number=errno.EIO, times=1):
    """A run in which one call fails. Returns the result and the number of calls of each kind. Where a file's call is to fail, close_range() is refused, so
    that cprof uses the program's descriptor table: its thread with a table of its own makes system calls without the C library (writer/base/io_server.c)."""
    command, settings, variables = PROGRAMS_OF[name]
    report = pathlib.Path(folder).with_suffix(".calls")
    env = dict(variables, FAULT_KIND=kind, FAULT_AT=str(at), FAULT_ERRNO=str(number), FAULT_TIMES=str(times), FAULT_REPORT=str(report),
               LD_PRELOAD="")
    # support puts the library last in LD_PRELOAD. Here it comes first, so that its calls reach libfaults.so.
    command = [folder if part == "{folder}" else part for part in command]
    result = run(["env", f"LD_PRELOAD={PROGRAMS.parent / 'libcprof.so'}:{PROGRAMS / 'libfaults.so'}", *command], folder, preload=False, env=env,
                 before_exec=refuse_close_range if kind == "file" else None, **{key: str(value).format(folder=folder) for key, value in settings.items()})
    return result, dict(zip(KINDS, map(int, report.read_text().split())))


def events_of(result):
    """The number of events in finished traces. Reads all files, also open ones, so that load() checks them."""
    paths = {path.stat().st_ino: path for path in result.parts + result.traces}  # a file that could not be unlinked has two names
    loaded = {path: load(path) for path in paths.values()}
    return sum(len([e for e in trace["traceEvents"] if e["ph"] in "Xi" and e.get("cat") != "overhead"])
               for path, trace in loaded.items() if path in result.traces)  # the number of CUPTI's flushes varies


def no_numbers(text):
    """The text without numbers: programs print durations."""
    return re.sub(r"\d+", "", text)


def examine(result, usual, figures):
    """Adds a run to the figures. Fails unless the run was harmless and reported its losses. usual: the run in which no call failed."""
    figures.runs += 1
    assert (result.rc, result.out, no_numbers(result.others)) == (0, usual.out, no_numbers(usual.others)), result
    assert len(result.complaints) <= 2, result.err
    found = events_of(result)
    lost = any(", 0 lost" not in line for line in result.said if line.startswith("rank "))
    if found >= usual.events:
        figures.whole += 1
    else:
        assert result.complaints or lost, f"{found} of {usual.events} events, and no report: {result.err} {files(result.folder)}"
        figures.less += 1


def fail_in_turn(folder, name="marks", share=1):
    """Runs the program once for each `share`-th call, which fails in that run."""
    folder, figures = pathlib.Path(folder), Figures()
    usual, calls = one(folder / "none", name)
    calls["memory"] = one(folder / "none-memory", name, "memory")[1]["memory"]
    usual.events = events_of(usual)
    examine(usual, usual, figures)
    assert usual.complaints == [] and usual.events > 20 and all(n > 20 for n in calls.values()), (usual, calls)
    turns = [(kind, at, number) for kind, n in calls.items() for at, number in itertools.product(range(1, n + 1), KINDS[kind])]
    for kind, at, number in turns[::share]:
        try:
            result, _ = one(folder / f"{kind}-{at}-{number}", name, kind, at, number)
            examine(result, usual, figures)
        except Exception as error:  # reported at the end: the other runs go on
            figures.wrong.append(f"{name}: {kind} call {at}: {errno.errorcode[number]}: {error}")
    return figures


def main():
    share, wrong = int(sys.argv[1]) if len(sys.argv) > 1 else 1, 0
    for name in sys.argv[2:] or PROGRAMS_OF:
        if not pathlib.Path(PROGRAMS_OF[name][0][0]).exists():
            print(f"faults, {name}: skipped, {PROGRAMS_OF[name][0][0]} was not built")
            continue
        with tempfile.TemporaryDirectory() as folder:
            figures = fail_in_turn(folder, name, share)
        print(f"faults, {name}: {figures}", *figures.wrong, sep="\n    ", flush=True)
        wrong |= bool(figures.wrong)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
