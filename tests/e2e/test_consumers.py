# SPDX-License-Identifier: Apache-2.0
"""Readers of traces, fed with traces of known content: HTA, TensorBoard's profiler plugin, Perfetto, torch's own trace validator.
The keys are compared with those of real Kineto traces.

The traces come from `training()` below, a small simulated training with fixed times. It is also the reference for the GPU rows
of cprof's own traces. The last tests apply the same checks to traces that cprof recorded of a program of tests/gpu.
"""

import json
import pathlib

import pytest

import consumers
import kineto_keys
import perfetto
import support
from conftest import BUILD

KINETO = pathlib.Path(__file__).resolve().parents[3] / "shared/data/kineto"
real_kineto = pytest.mark.skipif(not KINETO.is_dir(), reason=f"no real Kineto traces here ({KINETO})")

STEPS = (1, 2, 3)
STEP_US = 1000
NCCL_US = {0: 200, 1: 150}  # the second rank comes later to the same end
CBIDS = {"cudaLaunchKernel": 211, "cudaLaunchKernelExC": 430, "cudaMemcpyAsync": 41, "cudaMemsetAsync": 51,
         "cudaEventRecord": 135, "cudaStreamWaitEvent": 147, "cudaEventSynchronize": 137, "cudaGraphLaunch": 311,
         "cudaStreamSynchronize": 131, "cudaDeviceSynchronize": 165}


class Simulation:
    """Writes the trace of one rank. Times are in microseconds; rows and keys are those of cprof."""

    def __init__(self, rank, ranks=2, device=0, recordings=None):
        """recordings: rows of cuda_event too, with a stream (True) or without (False)."""
        self.rank, self.ranks, self.device, self.recordings = rank, ranks, device, recordings
        self.pid = 5000 + rank
        self.lines, self.rows, self.correlation, self.span, self.operator = [], set(), 0, 0, 0
        self.meta("process_name", self.pid, self.pid, name="train")
        self.meta("process_labels", self.pid, self.pid, labels="CPU")
        self.meta("process_sort_index", self.pid, self.pid, sort_index=self.pid)
        self.row(self.pid, self.pid, "thread 1 (main)")
        self.row(self.pid, self.pid + 1, "steps")
        self.row(self.pid, self.pid + 2, "thread 2 (backward)")

    def event(self, ph, name, cat=None, pid=None, tid=None, ts=0.0, dur=None, args=None, **more):
        pid = self.pid if pid is None else pid
        parts = {"ph": json.dumps(ph), **({"cat": json.dumps(cat)} if cat else {}), "name": json.dumps(name), "pid": str(pid),
                 "tid": str(pid if tid is None else tid), "ts": f"{ts:.3f}"}
        if dur is not None:
            parts["dur"] = f"{dur:.3f}"
        parts.update((key, json.dumps(value)) for key, value in more.items())
        if args is not None:
            parts["args"] = json.dumps(args)
        self.lines.append("{" + ", ".join(f'"{key}": {value}' for key, value in parts.items()) + "}")

    def meta(self, kind, pid, tid, **args):
        self.event("M", kind, pid=pid, tid=tid, args=args)

    def row(self, pid, tid, name):
        if (pid, tid) not in self.rows:
            self.rows.add((pid, tid))
            self.meta("thread_name", pid, tid, name=name)
            self.meta("thread_sort_index", pid, tid, sort_index=tid)

    def gpu_row(self, stream, kind=""):
        """The row of a stream; the device gets its name with its first row."""
        if not any(pid == self.device for pid, _ in self.rows):
            self.meta("process_name", self.device, 1, name="train")
            self.meta("process_labels", self.device, 1, labels=f"GPU {self.device}")
            self.meta("process_sort_index", self.device, 1, sort_index=5000000 + self.device)
        tid = {"": stream, "sync": 1000000 + (stream if stream >= 0 else 999999), "context": 3000000 + stream}[kind]
        self.row(self.device, tid, {"": "", "sync": "waits on ", "context": "ranges on "}[kind] + f"stream {stream}")
        return {"pid": self.device, "tid": tid}

    # -- the application's thread

    def annotation(self, name, start, end, tid=None, **args):
        self.span += 1
        self.event("X", name, "user_annotation", tid=tid, ts=start, dur=end - start,
                   args={"External id": self.span, "Record function id": 0, **args})
        return self.span

    def op(self, name, start, end, tid=None, **args):
        self.span += 1
        self.operator = self.span
        self.event("X", name, "cpu_op", tid=tid, ts=start, dur=end - start,
                   args={"External id": self.span, "Record function id": 0, **args})
        return self.span

    def call(self, name, start, end, arrow=True):
        self.correlation += 1
        self.event("X", name, "cuda_runtime", ts=start, dur=end - start,
                   args={**self.by(), "cbid": CBIDS[name], "correlation": self.correlation})
        if arrow:
            self.event("s", "ac2g", "ac2g", ts=start, id=self.correlation)
        return self.correlation

    def memory(self, at, bytes, total):
        self.event("i", "[memory]", "cpu_instant_event", ts=at, s="t", args={
            "Total Reserved": total, "Total Allocated": total, "Bytes": bytes, "Addr": 0x7f0000000000, "Device Id": self.device,
            "Device Type": 1, **self.by()})

    def driver_memory(self, at, bytes):
        self.event("i", "[driver memory]", "cuda_memory", ts=at, s="t", args={
            **self.by(), "Total Allocated": bytes, "Bytes": bytes, "Device Id": self.device, "Memory Kind": "Device",
            "Addr": 1 << 40, "correlation": self.correlation})

    def overhead(self, name, start, end):
        """A row of the process "overhead", named after the thread that was held up."""
        place = {"pid": 4294967, "tid": self.pid}
        if (place["pid"], place["tid"]) not in self.rows:
            self.meta("process_name", **place, name="overhead")
            self.meta("process_sort_index", **place, sort_index=16777226)
            self.row(place["pid"], place["tid"], "thread 1")
        self.event("X", name, "overhead", ts=start, dur=end - start, **place, args={})

    # -- the device

    def work(self, cat, name, start, end, place, args):
        self.event("X", name, cat, ts=start, dur=end - start, **place, args=args)
        self.event("f", "ac2g", "ac2g", ts=start, id=args["correlation"], bp="e", **place)

    def where(self, stream):
        return {"device": self.device, "context": 1, "stream": stream, "correlation": self.correlation}

    def by(self):
        return {"External id": self.operator} if self.operator else {}

    def kernel(self, name, stream, start, end, blocks=64, **graph):
        self.work("kernel", name, start, end, self.gpu_row(stream), {
            **self.by(), "queued": 0, **self.where(stream), "registers per thread": 32, "shared memory": 4096,
            "blocks per SM": blocks / 132, "warps per SM": blocks * 8 / 132, "grid": [blocks, 1, 1], "block": [256, 1, 1],
            "est. achieved occupancy %": 6, **graph, "priority": 0, "channel": 1, "channel_type": 0})

    def copy(self, name, start, end, bytes, cat="gpu_memcpy", stream=7):
        self.work(cat, name, start, end, self.gpu_row(stream), {
            **self.by(), **self.where(stream), "bytes": bytes,
            "memory bandwidth (GB/s)": bytes / ((end - start) * 1000), "channel": 2, "channel_type": 1})

    def wait(self, kind, stream, start, end, on=None):
        """on: stream, correlation and id of the recording waited for."""
        waited = dict(zip(("wait_on_stream", "wait_on_cuda_event_record_corr_id", "wait_on_cuda_event_id"), on)) if on else {}
        self.work("cuda_sync", kind, start, end, self.gpu_row(stream, "sync"),
                  {**self.by(), "cuda_sync_kind": kind, **waited, **self.where(stream)})

    def recorded(self, event, stream, at):
        """A recording of an event."""
        if self.recordings is not None:
            where = {key: value for key, value in self.where(stream).items() if self.recordings or key != "stream"}
            self.event("X", "cudaEvent", "cuda_event", ts=at, dur=0.001, **self.gpu_row(stream, "sync"),
                       args={"event_id": event, **where})

    def gpu_annotation(self, name, external, stream, start, end):
        """One nanosecond wider than the work on both sides, as in Kineto."""
        self.event("X", name, "gpu_user_annotation", ts=start - 0.001, dur=end - start + 0.002, **self.gpu_row(stream, "context"),
                   args={"External id": external})

    # -- one step

    def step(self, number):
        t = number * STEP_US
        self.annotation(f"ProfilerStep#{number}", t, t + STEP_US, tid=self.pid + 1, thread=self.pid)
        self.annotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", t + 1, t + 15)

        self.op("aten::copy_", t + 20, t + 60)
        self.call("cudaMemcpyAsync", t + 30, t + 40)
        self.copy("Memcpy HtoD (Pinned -> Device)", t + 50, t + 150, 1_000_000)         # 10 GB/s

        self.op("aten::mm", t + 70, t + 110, **{
            "Input type": ["float", "float"], "Input Dims": [[64, 64], [64, 64]],
            "Input Strides": [[64, 1], [64, 1]], "Concrete Inputs": ["", ""], "Sequence number": number, "Fwd thread id": 0})
        self.event("s", "fwdbwd", "fwdbwd", ts=t + 70, id=1_000_000 + number)
        self.memory(t + 75, 16384, 16384)
        self.driver_memory(t + 78, 2 << 20)
        self.call("cudaLaunchKernel", t + 80, t + 90)
        self.kernel("ampere_sgemm_64x64_nn", 7, t + 150, t + 350, blocks=132)

        comm = self.annotation("nccl:all_reduce", t + 115, t + 165)
        self.op("record_param_comms", t + 117, t + 163, **{
            "Collective name": "allreduce", "dtype": "Float", "In msg nelems": 4096, "Out msg nelems": 4096,
            "Group size": self.ranks})
        computed = self.call("cudaEventRecord", t + 120, t + 122, arrow=False)
        self.recorded(1, 7, t + 121.5)
        self.call("cudaStreamWaitEvent", t + 125, t + 128)
        self.wait("Stream Wait Event", 20, t + 125, t + 128, on=(7, computed, 1))
        self.call("cudaLaunchKernelExC", t + 130, t + 140)
        self.kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)", 20,
                    t + 550 - NCCL_US[self.rank], t + 550, blocks=24)
        self.gpu_annotation("nccl:all_reduce", comm, 20, t + 550 - NCCL_US[self.rank], t + 550)

        self.op("aten::relu", t + 170, t + 210)
        self.call("cudaLaunchKernel", t + 180, t + 190)
        self.kernel("void at::native::vectorized_elementwise_kernel<4, relu>(int)", 7, t + 370, t + 470)

        self.op("aten::zero_", t + 225, t + 240)
        self.call("cudaMemsetAsync", t + 230, t + 235)
        self.copy("Memset (Device)", t + 500, t + 510, 4000, cat="gpu_memset")          # 0.4 GB/s

        self.operator = 0  # calls outside all operators
        reduced = self.call("cudaEventRecord", t + 245, t + 247, arrow=False)
        self.recorded(2, 20, t + 246.5)
        self.call("cudaEventSynchronize", t + 250, t + 553)
        self.wait("Event Sync", -1, t + 250, t + 552, on=(20, reduced, 2))

        self.op("aten::_local_scalar_dense", t + 560, t + 640)
        self.call("cudaMemcpyAsync", t + 565, t + 575)
        self.copy("Memcpy DtoH (Device -> Pinned)", t + 580, t + 600, 100_000)          # 5 GB/s
        self.call("cudaStreamSynchronize", t + 577, t + 602)
        self.wait("Stream Sync", 7, t + 578, t + 601)

        backward = {"tid": self.pid + 2}
        self.op("autograd::engine::evaluate_function: MmBackward0", t + 650, t + 690, **backward,
                **{"Sequence number": number, "Fwd thread id": 1})
        self.event("f", "fwdbwd", "fwdbwd", ts=t + 650, id=1_000_000 + number, bp="e", **backward)

        self.annotation("Optimizer.step#SGD.step", t + 700, t + 760)
        self.op("aten::add_", t + 705, t + 740)
        self.call("cudaLaunchKernel", t + 710, t + 720)
        self.kernel("void at::native::vectorized_elementwise_kernel<4, add>(int)", 7, t + 730, t + 780)
        self.memory(t + 750, -16384, 0)
        self.overhead("Command Buffer Full", t + 752, t + 754)
        self.operator = 0
        self.call("cudaDeviceSynchronize", t + 790, t + 800)
        self.wait("Context Sync", -1, t + 791, t + 799)

        replay = self.op("replay", t + 810, t + 840)
        self.call("cudaGraphLaunch", t + 815, t + 830)
        for node, (start, end) in enumerate(((840, 860), (862, 880)), start=1):
            self.kernel("node", 7, t + start, t + end, **{"graph id": 5, "graph node id": node, "captured by": replay,
                                                                      "captured in": "replay"})

    def text(self):
        """The file, with the head as cprof writes it."""
        device = {"id": self.device, "name": "Simulated", "totalGlobalMem": 85899345920, "computeMajor": 9, "computeMinor": 0,
                  "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65536, "warpSize": 32,
                  "sharedMemPerBlock": 49152, "numSms": 132, "regsPerMultiprocessor": 65536, "sharedMemPerBlockOptin": 232448,
                  "sharedMemPerMultiprocessor": 233472}
        info = {"backend": "nccl", "rank": self.rank, "world_size": self.ranks}
        cprof = {"version": "0", "first_step": STEPS[0], "last_step": STEPS[-1], "lost": {"total": 0}}
        cprof.update(dict.fromkeys(("records", "events", "unfinished", "writer_cpu_ns", "bytes"), 0))
        head = {"schemaVersion": 1, "deviceProperties": [device], "distributedInfo": info, "displayTimeUnit": "ms",
                "baseTimeNanoseconds": 600 * support.BASE_STEP_NS}
        lines = [f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in head.items()]
        return ("{\n" + "".join(lines) + '"traceEvents": [\n' + ",\n".join(self.lines) + '\n],\n"cprof": ' + json.dumps(cprof) +
                ',\n"traceName": "synthetic"\n}\n')


def training(folder, rank):
    """Path of the trace of one rank of the simulated training."""
    simulation = Simulation(rank)
    for number in STEPS:
        simulation.step(number)
    path = pathlib.Path(folder) / f"rank{rank}.{STEPS[-1] + 1}.pt.trace.json"
    path.write_text(simulation.text())
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Traces of both ranks."""
    folder = tmp_path_factory.mktemp("training")
    for rank in NCCL_US:
        training(folder, rank)
    return folder


@pytest.fixture(scope="module")
def trace(folder):
    return folder / "rank0.4.pt.trace.json"


def edited(path, to, edit):
    """Writes a copy of the trace into another folder, with edit() applied to each event in place."""
    trace = json.loads(path.read_text())
    for event in trace["traceEvents"]:
        edit(event)
    # HTA looks for the rank line by line.
    (to / path.name).write_text(json.dumps(trace, indent=0))
    return support.parse(json.dumps(trace).encode())


# ---- HolisticTraceAnalysis: two of the three steps, because HTA drops the last one ---------------------------

@pytest.fixture(scope="module")
def hta(folder):
    return consumers.hta(folder)


def test_hta_ranks_and_steps(hta):
    assert hta["ranks"] == [0, 1] and hta["steps"] == [1, 2]


def test_hta_temporal_breakdown(hta):
    # A step's rows with a stream: 50-550 without a gap, the wait for stream 7 578-601, 730-780, 840-860, 862-880.
    busy = 500 + 23 + 50 + 20 + 18
    compute = 200 + 100 + 50 + 20 + 18 + 3  # 3: HTA counts `Stream Wait Event` as a compute kernel
    total = STEP_US + 880 - 50
    want = {"idle_time(us)": total - 2 * busy, "compute_time(us)": 2 * compute, "kernel_time(us)": total,
            "non_compute_time(us)": 2 * (busy - compute)}
    assert {key: hta["temporal"][0][0][key] for key in want} == want
    # Rank 1's collective begins at 400, so 350-370 is idle there.
    want.update({"idle_time(us)": total - 2 * (busy - 20), "non_compute_time(us)": 2 * (busy - 20 - compute)})
    assert {key: hta["temporal"][1][0][key] for key in want} == want


def test_hta_kernel_breakdown(hta):
    for rank, nccl in NCCL_US.items():
        sums = {row["name"].split("(")[0]: (row["kernel_type"], row["sum (us)"], row["mean (us)"])
                for row in hta["kernels"][rank]}
        assert sums == {
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL": ("COMMUNICATION", 2 * nccl, nccl),
            "ampere_sgemm_64x64_nn": ("COMPUTATION", 400, 200), "Stream Wait Event": ("COMPUTATION", 6, 3),
            "void at::native::vectorized_elementwise_kernel<4, relu>": ("COMPUTATION", 200, 100),
            "void at::native::vectorized_elementwise_kernel<4, add>": ("COMPUTATION", 100, 50), "node": ("COMPUTATION", 76, 19),
            "Memcpy HtoD ": ("MEMORY", 200, 100), "Memcpy DtoH ": ("MEMORY", 40, 20), "Memset ": ("MEMORY", 20, 10)}


def test_hta_idle_time(hta):
    idle = {(row["stream"], row["idle_category"]): row["idle_time"] for row in hta["idle"][0]}
    # Stream 7. Host: 510 to the copy at 580, 600 to 730, 780 to 840 of both steps, and 880 to 1050 between them. Device: 350
    # to 370 and 860 to 862, below the limit of 30 us; 470 to 500 above.
    assert idle[7, "host_wait"] == 2 * (70 + 130 + 60) + 170
    assert idle[7, "kernel_wait"] == 2 * 20 + 2 * 2
    assert idle[7, "other"] == 2 * 30
    assert idle[20, "host_wait"] == STEP_US - NCCL_US[0]


def test_hta_overlap(hta):
    # relu 370-470 runs beside the collective: all of it on rank 0 (350-550), 70 us on rank 1 (400-550).
    assert hta["overlap"][0][0]["comp_comm_overlap_pctg"] == 50.0
    assert hta["overlap"][1][0]["comp_comm_overlap_pctg"] == pytest.approx(100 * 70 / 150, abs=0.01)


def test_hta_bandwidth(hta):
    for rank in NCCL_US:
        rows = {row["name"]: (row["memory_bw_gbps.count"], row["memory_bw_gbps.max"]) for row in hta["bandwidth"][rank]}
        assert rows == {"Memcpy HtoD": (2, 10.0), "Memcpy DtoH": (2, 5.0), "Memset": (2, 0.4)}
        assert [row["memory_bw_gbps"] for row in hta["bandwidth_series"][rank] if row["name"] == "Memcpy HtoD"] == [10.0, 0.0] * 2


def test_hta_queue_length(hta):
    lengths = [row["queue_length"] for row in hta["queue_series"][0] if row["stream"] == 7]
    assert lengths == [1, 0, 1, 0, 1, 2, 1, 0, 1, 0, 1, 0] * 2
    summary = {row["stream"]: (row["queue_length.count"], row["queue_length.max"]) for row in hta["queue"][0]}
    assert summary == {7: (24, 2), 20: (4, 1)}


def test_hta_launches(hta):
    first = [(row["cpu_duration"], row["gpu_duration"], row["launch_delay"]) for row in hta["launches"][0]][:7]
    assert first == [(10, 100, 10), (10, 200, 60), (10, 200, 210), (10, 100, 180), (5, 10, 265), (10, 20, 5), (10, 50, 10)]


def test_hta_critical_path(hta):
    # Through the copy and the product, over the event to the collective on the other stream, over the host's wait for the
    # second event to the copy back, and over the wait for the stream to the optimizer and the graph.
    path = ["aten::copy_", "cudaMemcpyAsync", "Memcpy HtoD (Pinned -> Device)", "ampere_sgemm_64x64_nn",
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)", "cudaEventSynchronize",
            "aten::_local_scalar_dense", "Memcpy DtoH (Device -> Pinned)", "cudaStreamSynchronize", "aten::add_",
            "cudaLaunchKernel", "void at::native::vectorized_elementwise_kernel<4, add>(int)", "node"]
    for rank, nccl in NCCL_US.items():
        assert hta["critical"][rank]["events"] == path
        assert hta["critical"][rank]["us"] == 583 + nccl


def _of(cat, **args):
    return lambda e: e.get("cat") == cat and e["args"].update(args)


@pytest.mark.parametrize("change, problem", [
    (lambda e: "wait_on_stream" in e.get("args", {}) and e["args"].update(wait_on_cuda_event_record_corr_id=-1),
     "recording is unknown"),
    (lambda e: e.get("cat") == "gpu_user_annotation" and e["args"].update(stream=20, correlation=e["args"]["External id"]),
     "with stream or correlation"),
])
def test_hta_fails_on_traces_that_our_rules_reject(trace, tmp_path, change, problem):
    changed = edited(trace, tmp_path, change)
    assert any(problem in line for line in consumers.hta_problems(changed))
    with pytest.raises(Exception):  # raised inside pandas or networkx, far from the cause
        consumers.hta(tmp_path)


def test_tensorboard_counts_gpu_annotations_as_steps(trace, tmp_path):
    changed = edited(trace, tmp_path, lambda e: e.get("cat") == "gpu_user_annotation" and e.update(name="ProfilerStep#1"))
    assert any("ProfilerStep" in line for line in consumers.hta_problems(changed))
    assert len(consumers.tensorboard(tmp_path / trace.name)["steps"]) == 2 * len(STEPS)


def test_hta_ignores_event_rows_without_a_stream(hta, tmp_path):
    for name, recordings, same in (("with", True, False), ("without", False, True)):
        folder = tmp_path / name
        folder.mkdir()
        simulation = Simulation(0, recordings=recordings)
        for number in STEPS:
            simulation.step(number)
        (folder / "rank0.4.pt.trace.json").write_text(simulation.text())
        found = consumers.hta(folder)
        assert (found["critical"][0] == hta["critical"][0]) == same
        assert (found["kernels"][0] == hta["kernels"][0]) == same
        assert (consumers.hta_problems(support.parse(simulation.text().encode())) == []) == same


# ---- torch_tb_profiler ---------------------------------------------------------------------------------------

def test_tensorboard_views(trace):
    board = consumers.tensorboard(trace)
    assert board["said"] == ""
    assert board["worker"] == "rank0"
    assert board["steps"] == ["1", "2", "3"]
    assert [step["Total"] for step in board["costs"]] == [STEP_US] * 3
    assert [(step["Kernel"], step["Memcpy"]) for step in board["costs"]] == [(200 + 200 + 50 + 20 + 18, 120)] * 3
    assert board["devices"] == [0] and board["utilization"] == {0: pytest.approx(0.488)}
    sgemm = board["kernels"]["ampere_sgemm_64x64_nn"]
    assert (sgemm["count"], sgemm["sum"], sgemm["blocks_per_sm"], sgemm["occupancy"]) == (3, 600, 1.0, 6.0)
    assert board["memory"]["rows"] == {"GPU0": [["aten::mm", 3, 48.0, 48.0, 3, 3, 48.0, 48.0]]}
    assert board["memory_peak"] == {"CUDA0": 16384}
    assert board["views"] == ["Overview", "Operator", "Kernel", "Trace", "Memory"]


def test_tensorboard_joins_kernels_to_operators(trace):
    board = consumers.tensorboard_join(trace)
    assert board["kernels_by_operator"]["ampere_sgemm_64x64_nn", "aten::mm"] == 3
    assert "CallTreeRoot" not in {operator for _, operator in board["kernels_by_operator"]}
    assert board["operators"]["aten::copy_"] == {"calls": 3, "device_us": 300.0}
    assert "different external id" not in board["said"]


# ---- Perfetto, torch's validator, keys -----------------------------------------------------------------------

@perfetto.needed
def test_perfetto_joins_launches_and_kernels(trace):
    assert consumers.perfetto_problems(trace) == []
    arrows = perfetto.query(trace, "select o.name as launch, i.name as kernel, count(*) as n from flow f "
                                   "join slice i on f.slice_in = i.id join slice o on f.slice_out = o.id "
                                   "where i.category = 'kernel' group by 1, 2")
    assert {(row["launch"], row["kernel"].split("(")[0]): row["n"] for row in arrows} == {
        ("cudaLaunchKernel", "ampere_sgemm_64x64_nn"): 3, ("cudaLaunchKernelExC", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"): 3,
        ("cudaLaunchKernel", "void at::native::vectorized_elementwise_kernel<4, relu>"): 3,
        ("cudaLaunchKernel", "void at::native::vectorized_elementwise_kernel<4, add>"): 3, ("cudaGraphLaunch", "node"): 6}


@perfetto.needed
def test_perfetto_reports_an_arrow_without_a_start(trace, tmp_path):
    edited(trace, tmp_path, lambda e: e["ph"] == "s" and e["cat"] == "ac2g" and e.update(ph="i", s="t"))
    assert any("flow_end_without_start" in line for line in consumers.perfetto_problems(tmp_path / trace.name))


def test_simulated_trace_keeps_torchs_rules(trace):
    loaded = support.load(trace)
    assert consumers.torch_rules(loaded) == ([], {})
    assert consumers.check_problems(trace) == []
    assert not consumers.torch_validator(trace)


def _move(name, ts):
    return lambda e: e["name"] == name and e["ph"] == "X" and e.update(ts=ts)


@pytest.mark.parametrize("change, problem", [
    (_move("ampere_sgemm_64x64_nn", 1000.0), "kernel causality"),
    (lambda e: e["name"] == "cudaEventRecord" and e.update(name="cudaEventQuery"), "not in the trace"),
    (lambda e: e["name"] == "Stream Sync" and e.update(dur=10.0), None),
    (lambda e: e["name"] == "record_param_comms" and e["args"].pop("dtype"), "lacks ['dtype']"),
])
def test_torch_rules_find_mistakes(trace, tmp_path, change, problem):
    problems, _ = consumers.torch_rules(edited(trace, tmp_path, change))
    assert bool(problems) == (problem is not None)
    assert problem is None or any(problem in line for line in problems)
    assert bool(consumers.torch_validator(tmp_path / trace.name)) == bool(problems)
    assert bool(consumers.check_problems(tmp_path / trace.name)) == bool(problems)


def test_torch_rules_excuse_a_wait_begun_during_a_kernel(trace, tmp_path):
    def longer(e):
        if e["name"].startswith("Memcpy DtoH") and e["ph"] == "X":
            e["cat"] = "kernel"
    problems, excused = consumers.torch_rules(edited(trace, tmp_path, lambda e: longer(e) or _later(e)))
    assert problems == [] and excused == {"kernel runs when the wait for its stream begins": len(STEPS)}
    assert set(consumers.torch_validator(tmp_path / trace.name)) == {"_check_stream_sync_overlap"}


def _later(e):
    """The wait for the stream begins in the middle of the copy back."""
    if e["name"] == "Stream Sync":
        e.update(ts=e["ts"] + 12, dur=e["dur"] - 12)


def test_torch_rules_excuse_events_recorded_before_the_window(trace, tmp_path):
    def forget(e):
        if e.get("cat") == "cuda_sync" and "wait_on_stream" in e["args"]:
            e["args"].update(wait_on_stream=-1, wait_on_cuda_event_record_corr_id=-1)
    problems, excused = consumers.torch_rules(edited(trace, tmp_path, forget))
    assert problems == [] and excused == {"recorded while nothing was enabled": 2 * len(STEPS)}


@pytest.fixture(scope="module")
def kineto():
    """Real Kineto traces by name."""
    return {path.name.partition(".")[0]: support.loads_plainly(path) for path in sorted(KINETO.glob("*.json.gz"))}


@real_kineto
def test_keys_differ_from_kinetos_only_where_listed(folder, kineto):
    ours = [support.load(path) for path in sorted(folder.glob("*.json"))]
    assert kineto_keys.problems(ours, kineto.values()) == []


@real_kineto
def test_key_comparison_finds_extra_and_missing_keys(trace, tmp_path, kineto):
    more = edited(trace, tmp_path, _of("kernel", extra=1))
    assert kineto_keys.problems([more], kineto.values()) == ["kernel: only ours: extra"]
    assert kineto_keys.problems([more], kineto.values(), whole=False) == ["kernel: only ours: extra"]
    less = edited(trace, tmp_path, lambda e: e.get("cat") == "gpu_memset" and e["args"].pop("channel"))
    assert kineto_keys.problems([less], kineto.values()) == ["gpu_memset: channel is in MEANT and differs no more"]


@real_kineto
def test_rules_accept_real_kineto_traces(kineto, tmp_path):
    """Tests the rules themselves, on traces that are known to be good."""
    before = {"recorded while nothing was enabled": 1}
    for name, excused in (("alexnet", {}), ("event_sync_multi_stream", before), ("triton", {})):
        assert consumers.torch_rules(kineto[name]) == ([], excused)
    (tmp_path / "alexnet.json.gz").symlink_to(KINETO / "alexnet.json.gz")
    found = consumers.hta(tmp_path, critical=False)
    assert found["temporal"][0][0]["kernel_time(us)"] > 0 and found["queue"][0]
    assert any("has no call" in line or "ends without a start" in line for line in consumers.gpu_problems(kineto["alexnet"]))


# ---- our own rules -------------------------------------------------------------------------------------------

# The counts, in the form that the programs of tests/gpu print.
SAID = {"kernels": 4 * len(STEPS), "graph_kernels": 2 * len(STEPS), "fills": len(STEPS), "copies": {
    "htod": {"count": len(STEPS), "bytes": 1_000_000 * len(STEPS)}, "dtoh": {"count": len(STEPS), "bytes": 100_000 * len(STEPS)}}}


def test_simulated_trace_keeps_the_gpu_rules(folder):
    for path in sorted(folder.glob("*.json")):
        loaded = support.load(path)
        assert consumers.gpu_problems(loaded, SAID) == []
        assert consumers.hta_problems(loaded) == []


def _swap(cat, **more):
    return lambda e: e.get("cat") == cat and e["ph"] == "X" and e.update(more)


@pytest.mark.parametrize("change, problem", [
    (lambda e: e["name"] == "ampere_sgemm_64x64_nn" and e.update(cat="gpu_memset"), "18 kernels launched, 15 recorded"),
    (lambda e: e["name"].startswith("Memcpy DtoH") and e["args"].update(bytes=1), "dtoh: 3 of 300000 B, recorded 3 of 3 B"),
    (_of("kernel", **{"blocks per SM": 0.0}), "has 0.0 blocks per SM"),
    (_of("kernel", correlation=1), "correlation 1 has 13 kernels"),
    (lambda e: e["name"] == "cudaEventRecord" and e["args"].update(correlation=1), "has several calls"),
    (_move("ampere_sgemm_64x64_nn", 1000.0), "starts before its call"),
    (lambda e: e["name"] == "ampere_sgemm_64x64_nn" and e["args"].update({"External id": 999}), "no operator, range or library call has"),
    (lambda e: e["ph"] == "f" and e["cat"] == "ac2g" and e.update(id=e["id"] + 1000), "never ends"),
    (lambda e: e["ph"] == "s" and e["cat"] == "ac2g" and e.update(id=e["id"] + 1000), "ends without a start"),
    (lambda e: e["ph"] == "M" and e["name"] == "thread_name" and e["tid"] == 20 and e["args"].update(name=""), "has no name"),
    (lambda e: e["name"] == "thread_name" and e["tid"] == 5001 and e.update(pid=0), "row (0, 5001) of a GPU is empty"),
    (lambda e: e["name"] == "aten::mm" and e["args"].update(stream=7), "has a stream"),
    (_swap("kernel", pid=1), "stands on pid 1"),
])
def test_gpu_rules_find_mistakes(trace, tmp_path, change, problem):
    found = consumers.gpu_problems(edited(trace, tmp_path, change), SAID)
    assert any(problem in line for line in found), found


def test_gpu_rules_find_losses(trace):
    loaded = support.load(trace)
    loaded["cprof"]["lost"].update(gpu_dropped=3, total=3)
    assert "cprof.lost: gpu_dropped 3" in consumers.gpu_problems(loaded, SAID)


# ---- what cprof writes on the simulated GPU ------------------------------------------------------------------

PROGRAM = BUILD / "gpu/train"
on_simulation = pytest.mark.skipif(not (PROGRAM.is_file() and (BUILD / "sim").is_dir()), reason=f"{PROGRAM} is not built")


def simulated(folder, rank=0, ranks=1, devices=1, **settings):
    """Runs the training program on the simulated GPU. HTA merges equal stream numbers of different devices, so its tests use
    one device."""
    env = {"LD_LIBRARY_PATH": str(BUILD / "sim"), "RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank)}
    result = support.run([PROGRAM, "--devices", devices], folder, env=env, **settings)
    assert result.rc == 0 and not result.complaints, result.err
    return result


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """Traces of two ranks of the training program."""
    folder = tmp_path_factory.mktemp("simulated")
    for rank in range(2):
        simulated(folder, rank, 2)
    return folder


@on_simulation
def test_records_everything_launched(tmp_path):
    result = simulated(tmp_path, devices=2, SCHEDULE_SCOPE="none")
    assert consumers.gpu_problems(support.load(result.traces[0]), consumers.printed(result.out)) == []


@on_simulation
def test_simulated_run_keeps_all_rules(run_folder, request):
    for path in support.files(run_folder, ".json"):
        loaded = support.load(path)
        assert support.events(loaded, ph="X", cat="kernel")
        assert consumers.gpu_problems(loaded) == []
        assert consumers.hta_problems(loaded) == []
        problems, excused = consumers.torch_rules(loaded)
        assert problems == []
        assert not excused["recorded while nothing was enabled"], "the program waits only for events that it recorded in the step"
        if KINETO.is_dir():
            assert kineto_keys.problems([loaded], request.getfixturevalue("kineto").values(), whole=False) == []


@on_simulation
@perfetto.needed
def test_perfetto_reads_the_simulated_run(run_folder):
    for path in support.files(run_folder, ".json"):
        assert consumers.perfetto_problems(path) == []


@on_simulation
@pytest.mark.parametrize("exact", [False, True])
def test_hta_reads_the_simulated_run(run_folder, exact):
    """The critical path needs exact times. On a fast processor each call of a step takes less than one microsecond, which HTA
    rounds to 0: it drops the calls and finds no path."""
    found = consumers.hta(run_folder, exact=exact, critical=exact)
    assert found["ranks"] == [0, 1]
    for rank in found["ranks"]:
        for analysis in ("temporal", "kernels", "idle", "overlap", "bandwidth", "queue", "launches"):
            assert found[analysis][rank], analysis
        assert not exact or found["critical"][rank]["us"] > 0


@on_simulation
def test_tensorboard_reads_the_simulated_run(run_folder):
    for path in support.files(run_folder, ".json"):
        board = consumers.tensorboard(path)
        assert board["steps"] == [str(number) for number in support.step_numbers(support.load(path))]
        assert board["kernels"] and board["said"] == ""
        assert "CallTreeRoot" not in {operator for _, operator in consumers.tensorboard_join(path)["kernels_by_operator"]}
