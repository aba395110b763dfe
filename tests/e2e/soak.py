# SPDX-License-Identifier: Apache-2.0
"""A long run of many cycles, or of one endless window. Memory must stay below a limit, the numbers of files and threads must not change, every
trace must be whole, and nothing may be lost.

    python tests/e2e/soak.py SECONDS [CYCLES]       # `make soak`; 3600 and 1000 by default
    python tests/e2e/soak.py --endless SECONDS

prints one line of figures and fails if one of them breaks a limit. tests/e2e/test_soak.py is the short form.
"""

import contextlib
import dataclasses
import gzip
import json
import pathlib
import re
import sys
import tempfile
import threading

from support import events, load, natural, program, run

STEPS_OF_A_CYCLE = 5
SETTLED = 4500    # steps until each table of a fixed size has been filled once
FIFTHS = 5
GROWTH_KB = 1024  # the most that memory may grow from the first to the last fifth of the time after SETTLED
SCHEDULE = dict(WAIT=1, WARMUP=1, ACTIVE=3, REPEAT=0, RING_KB=1024, NUM_TRACES_TO_KEEP=20, FLIGHT="mb:4", FLIGHT_SLOW=0)
FLIGHT_BYTES = 4_000_000
MARKS, THREAD_EACH = 3, 20  # marks of the main thread in a step; in each 20th step a thread lives for the step and makes as many
ENDLESS = dict(SCHEDULE_SCOPE="none", RING_KB=256, USE_GZIP=1, MAX_TRACE_MB=100000)
CEILING_KB = 96 << 10  # of memory in an endless window: 32 MB of CPROF_SUMMARY_MB, 64 rings, and what the allocator keeps; for any number of threads and steps


@dataclasses.dataclass
class Figures:
    """The figures of a run. kb, fds, threads: resident memory without pages of files, open files and threads in each sample after SETTLED.
    flight: the largest size of the flight recorder's file in bytes."""
    steps: int
    cycles: int
    lost: int
    kb: list
    fds: list
    threads: list
    flight: int = 0

    @property
    def most_kb(self):
        """The most memory in each fifth of the time. Single samples vary with the window being written and with the allocator."""
        starts = [len(self.kb) * i // FIFTHS for i in range(FIFTHS + 1)]
        return [max(self.kb[start:max(end, start + 1)]) for start, end in zip(starts, starts[1:])]

    @property
    def growth_kb(self):
        return self.most_kb[-1] - self.most_kb[0]

    def __str__(self):
        return (f"{self.steps:,} steps, {self.cycles:,} traces, {self.lost} records lost; resident {min(self.kb):,} to "
                f"{max(self.kb):,} KB, {min(self.fds)} to {max(self.fds)} files, {min(self.threads)} to "
                f"{max(self.threads)} threads" + f"; flight recorder's file up to {self.flight:,} bytes" * (self.flight > 0))


def soak(folder, seconds, cycles, pause_us=1000, gzip=0):
    """Runs the program. Checks the kept traces and the list of all traces, and returns the figures."""
    with largest(pathlib.Path(folder) / "flight/rank0.flight") as flight:
        result = run(program("soak", seconds, cycles * STEPS_OF_A_CYCLE, pause_us), folder, timeout=60 + 20 * seconds + cycles,
                     USE_GZIP=gzip, **SCHEDULE)
    steps, kb, fds, threads = samples_of(result)
    saved = [json.loads(line) for line in (pathlib.Path(folder) / "saved_traces.jsonl").read_text().splitlines()]
    figures = Figures(steps[-1], len(saved), sum(entry["lost"] for entry in saved), kb, fds, threads, max(flight))
    assert [entry["first_step"] for entry in saved] == list(range(2, steps[-1] + 1, STEPS_OF_A_CYCLE))
    assert f"{figures.cycles} traces" in result.said[-1] and ", 0 lost: " in result.said[-1], result.err
    check_traces(result)
    return figures


@contextlib.contextmanager
def largest(path):
    """Looks at the file's size ten times a second. Yields a list whose largest number is the largest size."""
    sizes, over = [0], threading.Event()

    def look():
        while not over.wait(0.1):
            with contextlib.suppress(FileNotFoundError):
                sizes[:] = [max(sizes[0], path.stat().st_size)]
    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield sizes
    finally:
        over.set()
        looking.join()


def samples_of(result):
    """The samples that the program printed after SETTLED: lists of steps, memory, files and threads."""
    assert result.rc == 0 and result.complaints == [], result.err
    looks = [list(map(int, re.fullmatch(r"step (\d+): (\d+) KB (\d+) fds (\d+) threads", line).groups()))
             for line in result.out.splitlines()]
    return map(list, zip(*[look for look in looks if look[0] >= SETTLED]))


def soak_endless(folder, seconds, pause_us=1000):
    """One window from start to exit, with a thread that lives for the step in each step. Returns the figures. Counts the marks line by line, since
    the trace is too large to load."""
    result = run(program("soak", seconds, 2 * SETTLED, pause_us, 1), folder, timeout=300 + 20 * seconds, **ENDLESS)
    steps, kb, fds, threads = samples_of(result)
    assert len(result.traces) == 1 and result.parts == []
    with gzip.open(result.traces[0], "rt", encoding="utf-8") as trace:
        marks = sum('"name": "mark"' in line for line in trace)
    lost = int(re.search(r"([\d,]+) lost: ", result.said[-1]).group(1).replace(",", ""))
    assert marks == 2 * MARKS * steps[-1], f"{marks} marks of {steps[-1]} steps"
    return Figures(steps[-1], 1, lost, kb, fds, threads)


def check_traces(result):
    """Checks that the newest traces are there, at most one of the time after the last step, and that they hold all marks."""
    traces = [load(path) for path in sorted(result.traces, key=natural)]
    rests = [trace["cprof"] for trace in traces if trace["cprof"]["last_step"] < trace["cprof"]["first_step"]]
    assert len(traces) - len(rests) == SCHEDULE["NUM_TRACES_TO_KEEP"] and len(rests) <= 1 and result.parts == []
    for trace in traces:
        info = trace["cprof"]
        # including the warmup step, whose marks are at the head of the file
        made = sum(MARKS * (1 + (n % THREAD_EACH == 0)) for n in range(info["first_step"] - 1, info["last_step"] + 1))
        assert len(events(trace, name="mark")) == made and info["lost"]["total"] == 0


def problems(figures, least_cycles, endless=False):
    """The broken limits, as text."""
    wrong = []
    if figures.cycles < least_cycles:
        wrong.append(f"only {figures.cycles} cycles")
    if endless and max(figures.kb) > CEILING_KB:
        wrong.append(f"memory grew to {max(figures.kb)} KB")
    if not endless and figures.growth_kb > GROWTH_KB:
        wrong.append(f"memory grew by {figures.growth_kb} KB, the most of each fifth: {figures.most_kb}")
    # The fewest of several samples: cprof's thread opens files for moments and may be caught in one.
    for what, numbers in (("files", figures.fds), ("threads", figures.threads)):
        few = max(1, len(numbers) // 5)
        if min(numbers[:few]) != min(numbers[-few:]):
            wrong.append(f"the number of {what} did not stay the same: {numbers}")
    if not endless and not FLIGHT_BYTES / 2 < figures.flight <= FLIGHT_BYTES:
        wrong.append(f"the flight recorder's file had up to {figures.flight:,} bytes")
    if figures.lost:
        wrong.append("records were lost")
    return wrong


def main():
    endless = "--endless" in sys.argv
    numbers = [int(arg) for arg in sys.argv[1:] if arg != "--endless"]
    seconds = numbers[0] if numbers else 3600
    cycles = 1 if endless else numbers[1] if len(numbers) > 1 else 1000
    with tempfile.TemporaryDirectory() as folder:
        figures = soak_endless(folder, seconds) if endless else soak(folder, seconds, cycles)
    print(f"soak, {seconds} s{' in one window' if endless else ''}: {figures}")
    wrong = problems(figures, cycles, endless)
    for line in wrong:
        print(f"soak: {line}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
