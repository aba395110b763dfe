# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random times of a recording run. The files must be whole, and only the last moments may be missing.

    python tests/e2e/kills.py [TIMES] [SEED]        # part of `make soak`; 200 times by default

prints one line of figures. tests/e2e/test_kills.py is the short form.
"""

import dataclasses
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import time

import tool
from support import environment, events, files, load, program, wait_until

AT_ONCE = 4
WINDOW = dict(WARMUP=0, ACTIVE=20, REPEAT=0)  # every step is in a window; a window ends about every 0.3 s
FLIGHT = "mb:1"
LATEST_S = 1.5                                # the latest kill, after the first file appears
MOST_MISSING_S = 2.0                          # the flush interval of 250 ms, and the delay of a busy machine


@dataclasses.dataclass
class Figures:
    kills: int = 0
    finished: int = 0   # finished traces
    parts: int = 0      # open files
    empty: int = 0      # open files without a byte: the kill came before the first write
    recovered: int = 0  # open files that strict readers accept only after `cprof recover`
    marks: int = 0
    missing_s: float = 0.0  # the longest time between the last mark on disk and the program's last mark
    flights: int = 0        # files of the flight recorder; a kill may come before the first one
    dropped: int = 0        # those that had dropped their older half
    flight_missing_s: float = 0.0

    def __str__(self):
        return (f"{self.kills} kills: {self.finished} finished traces and {self.parts} open files, {self.empty} of them empty, {self.marks:,} marks; "
                f"{self.recovered} files needed `cprof recover`; at most {1000 * self.missing_s:.0f} ms missing at the end; "
                f"{self.flights} files of the flight recorder, {self.dropped} without their older half, at most {1000 * self.flight_missing_s:.0f} ms missing")


class Victim:
    """A running program with a random time for its kill."""

    def __init__(self, folder, number, chance):
        self.folder = pathlib.Path(folder) / str(number)
        self.counter = self.folder.with_suffix(".count")
        self.delay = chance.uniform(0.0, LATEST_S)
        self.process = subprocess.Popen(program("steady", self.counter, chance.choice([100, 500, 2000])),
                                        env=environment(self.folder, USE_GZIP=number % 2, FLIGHT=FLIGHT, **WINDOW),
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def kill(self):
        wait_until(lambda: files(self.folder) if self.folder.is_dir() else None, "the first file")
        time.sleep(self.delay)
        self.process.kill()
        self.said = self.process.communicate(timeout=60)[1]

    def examine(self, figures):
        """Reads all files of the run, and adds to the figures."""
        assert self.said == "", self.said
        made, made_ns = struct.unpack("QQ", self.counter.read_bytes())
        figures.kills += 1
        times, known, recovered = {}, set(), figures.recovered
        self.examine_flight(made_ns, figures)
        for path in files(self.folder):
            if path.stat().st_ino in known:
                continue  # a kill between link and unlink leaves two names for one trace
            known.add(path.stat().st_ino)
            trace = self.read(path, figures)
            times.update(marks(trace))
        # The last flush is written back to front, so a torn write misses marks before those that are there.
        n = next(n for n in range(len(times) + 1) if n not in times)
        assert n == len(times) or figures.recovered > recovered, f"{n} is missing, of {len(times)} marks"
        assert len(times) <= made + 1
        figures.marks += len(times)
        figures.missing_s = max(figures.missing_s, (made_ns - times.get(n - 1, made_ns)) / 1e9)

    def examine_flight(self, made_ns, figures):
        """The file has the last marks without a gap."""
        path = self.folder / "flight/rank0.flight"
        if not path.exists():
            return
        trace = self.read(path, figures)
        times, dropped = marks(trace), trace["cprof"].get("flight", {}).get("dropped", 1)
        if not times:
            return
        assert max(times) - min(times) == len(times) - 1, f"{path}: marks are missing"
        assert min(times) == 0 or dropped, path
        figures.flights += 1
        figures.dropped += dropped > 0
        figures.flight_missing_s = max(figures.flight_missing_s, (made_ns - times[max(times)]) / 1e9)

    def read(self, path, figures):
        if path.suffix == ".part":
            figures.parts += 1
        elif path.suffix != ".flight":
            figures.finished += 1
            return load(path)
        if path.stat().st_size == 0:
            figures.empty += 1
            done = tool.cprof("recover", path)
            assert done.rc == 2 and "is empty" in done.err
            return {"baseTimeNanoseconds": 0, "traceEvents": []}
        try:
            return load(path)
        except (ValueError, EOFError, OSError):
            figures.recovered += 1
        out = path.with_name(f"recovered-{figures.recovered}.json")
        done = tool.cprof("recover", path, "-o", out)
        assert done.rc == 0, done.err
        return load(out)


def marks(trace):
    """{number: time in ns} of the program's marks."""
    return {int(e["name"][1:]): trace["baseTimeNanoseconds"] + int(float(e["ts"]) * 1000)
            for e in events(trace, ph="i", name=re.compile(r"m\d+$"))}


def kill_often(folder, times, seed):
    chance, figures = random.Random(seed), Figures()
    for first in range(0, times, AT_ONCE):
        victims = [Victim(folder, n, chance) for n in range(first, min(first + AT_ONCE, times))]
        try:
            for victim in sorted(victims, key=lambda v: v.delay):
                victim.kill()
            for victim in victims:
                victim.examine(figures)
        finally:
            for victim in victims:
                victim.process.kill()
    return figures


def main():
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else time.time_ns()
    print(f"kill -9, seed {seed}:", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        figures = kill_often(folder, times, seed)
    print(figures)
    if max(figures.missing_s, figures.flight_missing_s) > MOST_MISSING_S:
        print(f"kills: more than {MOST_MISSING_S} s missing", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
