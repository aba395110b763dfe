# SPDX-License-Identifier: Apache-2.0
"""Summaries of a made-up training on many ranks, with planted faults. Times have the noise of a real one: each piece of work varies by 2 %,
hosts have clocks of their own, and now and then a rank stands still for some milliseconds.

    run = Fleet(ranks=1024, seed=7)
    run.plant("slow GPU", rank=17, by=1.15)
    run.write(folder)

Eight ranks of a host are a tensor-parallel group. The hosts are divided into four pipeline stages. In a stage, ranks with the same place on
their hosts are a data-parallel group. A step ends with a collective of all ranks."""

import json
import pathlib

import numpy

HOST, STAGES = 8, 4          # ranks of a host; stages
LAYERS, BUCKETS = 24, 12      # tensor-parallel collectives and data-parallel ones in a step
MS = 1_000_000
FAULTS = ("slow GPU", "slow link", "slow host", "late data", "uneven stages", "slow copies")
BASE_NS, FIRST_NS = 1_793_664_000_000_000_000, 10**12


def members_text(ranks):
    """The members of a group as torch writes them: a long list without its middle."""
    shown = [str(rank) for rank in ranks]
    return "[" + ", ".join(shown if len(shown) <= 30 else shown[:29] + ["...", shown[-1]]) + "]"


class Fleet:
    """A run. Plant faults, then write."""

    def __init__(self, ranks=1024, steps=12, seed=0, first_step=100):
        self.ranks, self.steps, self.first_step = ranks, steps, first_step
        self.random = numpy.random.default_rng(seed)
        self.hosts = ranks // HOST
        self.host_of = numpy.arange(ranks) // HOST
        self.stage_of = self.host_of * STAGES // self.hosts
        self.compute = numpy.ones((steps, ranks))             # factors
        self.launch = numpy.ones((steps, ranks))
        self.data_ms = numpy.zeros((steps, ranks))            # more than the usual 0.3 ms
        self.copies_ms = numpy.zeros((steps, ranks))          # likewise, 0.5 ms
        self.link = {}                                        # factor by group
        self.groups = [list(range(at, at + HOST)) for at in range(0, ranks, HOST)]
        across = ([rank for rank in range(ranks) if self.stage_of[rank] == stage and rank % HOST == place]
                  for stage in range(STAGES) for place in range(HOST))
        self.across = [group for group in across if group]

    def plant(self, fault, by, rank=0, steps=None):
        """Plants a fault at a rank, its host, or its stage. by: the factor, or milliseconds for data and copies. steps: indices; None: all."""
        where = slice(None) if steps is None else list(steps)
        if fault == "slow GPU":
            self.compute[where, rank] *= by
        elif fault == "slow host":
            self.launch[where, self.host_of == self.host_of[rank]] *= by
        elif fault == "late data":
            self.data_ms[where, rank] += by
        elif fault == "slow copies":
            self.copies_ms[where, rank] += by
        elif fault == "uneven stages":
            self.compute[where, self.stage_of == self.stage_of[rank]] *= by
        elif fault == "slow link":
            self.link["across", next(n for n, group in enumerate(self.across) if rank in group)] = by
        else:
            raise ValueError(fault)

    def _noisy(self, ms, spread=0.02):
        return ms * MS * self.random.lognormal(0, spread, self.ranks)

    def _meet(self, groups, kind, now, ms, seen, key):
        """A collective in each group: nobody leaves before all have come."""
        for number, group in enumerate(groups):
            took = ms * MS * self.link.get((kind, number), 1.0) * self.random.lognormal(0, 0.03)
            end = now[group].max() + took + self.random.uniform(0, 2000, len(group))
            for rank, at in zip(group, end):
                seen[rank].append((key[number], int(now[rank]), int(at)))
            now[group] = end

    def run(self):
        """(steps, collectives) of each rank: start, end, and parts of a step; key, start and end."""
        everybody = [list(range(self.ranks))]
        keys = [[("allreduce", members_text(group), len(group)) for group in groups] for groups in (self.groups, self.across, everybody)]
        seen, rows = [[] for _ in range(self.ranks)], [[] for _ in range(self.ranks)]
        now = FIRST_NS + self.random.uniform(0, 0.2 * MS, self.ranks)
        for step in range(self.steps):
            begin, before = now.copy(), [len(one) for one in seen]
            data, copies, outside, compute = (numpy.zeros(self.ranks) for _ in range(4))

            def work(into, ns):
                into += ns
                now[:] += ns
            work(data, self._noisy(0.3, 0.1) + self.data_ms[step] * MS)
            work(copies, self._noisy(0.5, 0.05) + self.copies_ms[step] * MS)
            for _ in range(LAYERS):
                work(outside, self._noisy(0.1, 0.05) * self.launch[step] + (self.launch[step] - 1) * MS)
                work(compute, self._noisy(2.0) * self.compute[step])
                self._meet(self.groups, "host", now, 0.4, seen, keys[0])
            for _ in range(BUCKETS):
                work(compute, self._noisy(1.0) * self.compute[step])
                self._meet(self.across, "across", now, 1.5, seen, keys[1])
            stalls = self.random.random(self.ranks) < 1e-4
            work(outside, stalls * self.random.uniform(3, 15, self.ranks) * MS)
            self._meet(everybody, "all", now, 0.5, seen, keys[2])
            work(outside, self._noisy(1.0, 0.05))
            for rank in range(self.ranks):
                communication = sum(end - start for _, start, end in seen[rank][before[rank]:])
                parts = {"computation": int(compute[rank]), "exposed_comm": communication, "exposed_memcpy": int(copies[rank]), "data": int(data[rank]),
                         "collective": 0, "sync": 0, "operators": int(outside[rank] * 0.6), "transfer": 0}
                total = int(now[rank]) - int(begin[rank])
                parts["outside"] = max(0, total - sum(parts.values()))
                rows[rank].append((int(begin[rank]), total, parts))
        return rows, seen

    def write(self, folder):
        """Writes a summary for each rank, without traces. Returns the bytes of all."""
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        rows, seen = self.run()
        clocks = self.random.normal(0, 3 * MS, self.hosts).astype(int)
        size = 0
        for rank in range(self.ranks):
            text = self._text(rank, rows[rank], seen[rank], int(clocks[self.host_of[rank]]))
            (folder / f"rank{rank}.{self.first_step}.pt.trace.json.summary").write_text(text)
            size += len(text)
        return size

    def write_traces(self, folder):
        """Writes traces with the collectives' kernels, and 400 other kernels in a step with their operators. Returns the bytes of all."""
        folder = pathlib.Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        rows, seen = self.run()
        size = 0
        for rank in range(self.ranks):
            text = json.dumps({"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": self.ranks},
                               "host_name": f"node{self.host_of[rank]:03}", "deviceProperties": [], "baseTimeNanoseconds": BASE_NS,
                               "traceEvents": list(self._events(rank, rows[rank], seen[rank]))})
            (folder / f"rank{rank}.{self.first_step}.pt.trace.json").write_text(text)
            size += len(text)
        return size

    def _events(self, rank, rows, seen):
        number = 0
        pid = 10_000 + rank

        def kernel(name, start, end, **args):
            nonlocal number
            number += 1
            call = {"ph": "X", "pid": pid, "tid": pid, "ts": (start - 5000) / 1000, "dur": 4.0}
            yield dict(call, cat="cpu_op", name="aten::mm", args={"External id": number})
            yield dict(call, cat="cuda_runtime", name="cudaLaunchKernel", args={"External id": number, "correlation": number})
            yield {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": start / 1000, "dur": (end - start) / 1000,
                   "args": {"External id": number, "device": 0, "stream": 7, "correlation": number, **args}}
        for step, (start, total, parts) in enumerate(rows):
            yield {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{self.first_step + step}", "pid": pid, "tid": 4194305,
                   "ts": start / 1000, "dur": total / 1000, "args": {"thread": pid}}
            free = [(before[2], after[1]) for before, after in zip([(None, start, start), *seen], seen) if start <= after[1] < start + total]
            each = max(1, 400 // max(len(free), 1))
            for low, high in free:
                for n in range(each):
                    at = low + (high - low) * n // each
                    yield from kernel("gemm", at, at + (high - low) // each)
        for (name, members, size), start, end in seen:
            yield from kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL", start, end,
                              **{"Collective name": name, "Process Group Ranks": members, "Group size": size, "bytes": 1 << 26})

    def _text(self, rank, rows, seen, clock):
        about = {"schema": {"name": "cprof.window", "version": 2}, "time_unit": "ns", "cprof": "0.1.0", "trace_bytes": 1, "trace_tail": 0, "rank": rank,
                 "world_size": self.ranks, "host_name": f"node{self.host_of[rank]:03}", "baseTimeNanoseconds": BASE_NS, "deviceProperties": [], "lost": 0,
                 "profile_memory": False}
        steps = {"joined": 1, "truncated": False, "step": [self.first_step + n for n in range(self.steps)], "count": [1] * self.steps, "start": [start + clock for start, _, _ in rows],
                 "total": [total for _, total, _ in rows], "left_out": ["first step"] + [None] * (self.steps - 1),
                 "devices": [{"device": "cuda:0", "launches": [400] * self.steps, **{name: [parts[name] for _, _, parts in rows] for name in rows[0][2]}}]}
        keys = {key: n for n, key in enumerate(dict.fromkeys(key for key, _, _ in seen))}
        sizes = {HOST: 64 << 20, self.ranks: 4}
        starts = [start + clock for _, start, _ in seen]
        collectives = {"keys": [list(key) for key in keys], "key": [keys[key] for key, _, _ in seen],
                       "start_delta": [start - before for start, before in zip(starts, [0, *starts])], "duration": [end - start for _, start, end in seen],
                       "bytes": [sizes.get(key[2], 256 << 20) for key, _, _ in seen], "number": [-1] * len(seen), "truncated": False}
        lines = [about, {"steps": steps}, {"collectives": collectives}, {"table": None}, {"end": True}]
        return "".join(json.dumps(line) + "\n" for line in lines)
