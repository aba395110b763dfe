# SPDX-License-Identifier: Apache-2.0
"""Sizes a fault so that it costs a share of the step, measures its true cost, then marks the steps that cprof records.

A program has step(size), where size 0 is the healthy step. main() prints one line of JSON: cost_ms is the time that the fault adds
to a step, measured just before the recorded steps. recorded_ms is the mean of the recorded steps by the wall clock.
"""

import argparse
import ctypes
import json
import math
import statistics
import time

import torch

WARMUP, ACTIVE, AFTER = 3, 12, 2
end_step = getattr(ctypes.CDLL(None), "cprof_step", lambda: None)


def quartile(times):
    """The lower quartile: other jobs on the machine only lengthen a step."""
    return sorted(times)[len(times) // 4]


class Program:
    unit = 1.0        # the first size that is tried
    limit = math.inf  # the largest possible size
    period = 1        # steps from one occurrence of the fault to the next
    linear = True     # twice the size costs twice the time
    inside = 0.0      # seconds that step() has spent in the fault, if it measures that
    # The clock for a step. A program that waits in its step needs time.perf_counter, which other jobs on the machine disturb.
    clock = staticmethod(time.process_time)

    def step(self, size):
        raise NotImplementedError

    def start(self, size):
        """Called before a row of steps of this size."""

    def clear(self):
        """Drops what the measurement has left."""

    def agree(self, value):
        """The value of rank 0."""
        return value

    def seconds(self, size):
        """Seconds of one step, as the mean of a period."""
        begin = self.clock()
        for _ in range(self.period):
            self.step(size)
        return (self.clock() - begin) / self.period

    def measure(self, size, pairs):
        """(healthy, faulty) seconds of a step, measured in turns."""
        both = [(self.seconds(0), self.seconds(size)) for _ in range(pairs)]
        self.clear()
        return tuple(self.agree(quartile(column)) for column in zip(*both))

    def fitted(self, share):
        """The size of the fault that costs this share of the faulty step."""
        size = self.unit
        for _ in range(12):
            healthy, faulty = self.measure(size, 3)
            if faulty - healthy > healthy / 2 or size >= self.limit:
                break
            size = min(self.limit, size * 3)
        for _ in range(1 if self.linear else 4):
            healthy, faulty = self.measure(size, 9)
            factor = healthy * share / (1 - share) / max(faulty - healthy, healthy / 50)
            size = min(self.limit, size * factor)
        return size


class Blocks(Program):
    """Measures healthy and faulty steps in a row each, for programs whose steps depend on earlier ones."""
    clock = staticmethod(time.perf_counter)

    def measure(self, size, pairs):
        result = []
        for each in (0, size):
            self.start(each)
            times = [self.seconds(each) for _ in range(pairs + 4)]
            result.append(quartile(times[4:]))
        return tuple(result)


def main(programs):
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=programs)
    parser.add_argument("--share", type=float, default=0.1)
    args = parser.parse_args()
    if not 0 <= args.share < 0.9:
        parser.error(f"--share {args.share}: must be at least 0 and below 0.9")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    program = programs[args.name]()
    for _ in range(4):
        program.step(0)
    size = program.fitted(args.share) if args.share and program.limit else 0
    healthy, faulty = program.measure(size, max(4, 16 // program.period))
    program.start(size)
    times = []
    for _ in range(WARMUP + ACTIVE + AFTER):
        begin, inside = time.perf_counter(), program.inside
        program.step(size)
        end_step()
        times.append((time.perf_counter() - begin, program.inside - inside))
    wall, inside = (1e3 * statistics.mean(column) for column in zip(*times[WARMUP:WARMUP + ACTIVE]))
    if getattr(program, "rank", 0) == 0:
        print(json.dumps({
            "name": args.name, "share": args.share, "size": round(size, 3), "healthy_ms": round(healthy * 1e3, 3),
            "faulty_ms": round(faulty * 1e3, 3), "cost_ms": round((faulty - healthy) * 1e3, 3),
            "measured_share": round(1 - healthy / faulty, 4),
            "recorded_ms": round(wall, 3), "recorded_inside_ms": round(inside, 3)}), flush=True)
