# SPDX-License-Identifier: Apache-2.0
"""Each call in turn that the library makes for a file or for memory fails: the program is as without cprof, what is said is one line,
and what is on disk can be read.

    python tests/e2e/faults.py [SHARE]      # part of `make soak`; of all calls one in SHARE, 1 by default

tests/e2e/test_faults.py is the short form.
"""

import dataclasses
import errno
import itertools
import pathlib
import sys
import tempfile

from support import PROGRAMS, events, files, load, program, run

KINDS = {"file": [errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EACCES, errno.EINTR], "memory": [errno.ENOMEM]}
SCHEDULE = dict(WARMUP=0, ACTIVE=2, REPEAT=0)
COMMAND = program("burst", 2, 100, 140)  # 400 marks in step 1, and a flush in the middle
OUT = "made 400\n"


@dataclasses.dataclass
class Figures:
    runs: int = 0
    whole: int = 0    # runs with all marks in a finished trace
    less: int = 0     # runs with less, and with a line or a count that says so
    lines: int = 0

    def __str__(self):
        return f"{self.runs} runs, in each another call failed: {self.whole} with all events, {self.less} with less, which was said"


def one(folder, kind="file", at=0, number=errno.EIO, times=1, **settings):
    """A run in which a call fails; the result and how many calls of each kind there were."""
    report = pathlib.Path(folder).with_suffix(".calls")
    env = dict(FAULT_KIND=kind, FAULT_AT=str(at), FAULT_ERRNO=str(number), FAULT_TIMES=str(times), FAULT_REPORT=str(report),
               LD_PRELOAD="")
    # support puts the library last; here it comes first, so that its calls come to the other one
    result = run(["env", f"LD_PRELOAD={PROGRAMS.parent / 'libcprof.so'}:{PROGRAMS / 'libfaults.so'}", *COMMAND], folder,
                 preload=False, env=env, **dict(SCHEDULE, **settings))
    calls = dict(zip(KINDS, map(int, report.read_text().split())))
    return result, calls


def examine(result, figures, what):
    """Fails unless the run was harmless and told what it lost."""
    assert (result.rc, result.out, result.others) == (0, OUT, ""), f"{what}: {result}"
    assert len(result.complaints) <= 1, f"{what}: {result.err}"
    found = finished = 0
    # one that could not be unlinked is a second name of the finished trace
    paths = {path.stat().st_ino: path for path in result.parts + result.traces}
    for path in paths.values():
        trace = load(path)
        found += len(events(trace, name="burst"))
        finished += len(events(trace, name="burst")) if path in result.traces else 0
    assert found <= 400, what
    lost = any(", 0 lost" not in line for line in result.said if line.startswith("rank "))
    figures.runs += 1
    figures.lines += len(result.complaints)
    if finished == 400:
        figures.whole += 1
    else:
        assert result.complaints or lost, f"{what}: {finished} of 400 marks, and nothing said: {result.err} {files(result.folder)}"
        figures.less += 1


def fail_in_turn(folder, share=1, **settings):
    folder, figures = pathlib.Path(folder), Figures()
    result, calls = one(folder / "none", **settings)
    examine(result, figures, "no fault")
    assert figures.whole == 1 and all(n > 20 for n in calls.values()), calls
    turns = [(kind, at, number) for kind, n in calls.items() for at, number in itertools.product(range(1, n + 1), KINDS[kind])]
    for kind, at, number in turns[::share]:
        what = f"{kind} call {at}: {errno.errorcode[number]}"
        result, _ = one(folder / f"{kind}-{at}-{number}", kind, at, number, **settings)
        examine(result, figures, what)
    return figures


def main():
    share = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    for zipped in (0, 1):
        with tempfile.TemporaryDirectory() as folder:
            print(f"faults, gzip {zipped}: {fail_in_turn(folder, share, USE_GZIP=zipped)}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
