# SPDX-License-Identifier: Apache-2.0
"""Transfers between ranks: calls of NCCL, MPI and gloo show what they send; NCCL's kernels show it, too."""

import collections
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

import consumers
import gpu_runs
import perfetto
import support
import tool
from torch_runs import LOOPBACK, TORCHRUN, needs_torch_2, skip_without_torchrun, torch_version

HERE = pathlib.Path(__file__).parent


def described(event, *names):
    return tuple(event["args"].get(name) for name in names)


def close(a, b, within=0.01):
    return abs(a - b) <= within * abs(b)


# ---- NCCL, on the simulated GPU ----

FIELDS = ("Collective name", "In msg nelems", "Out msg nelems", "dtype", "bytes", "Group size", "Rank")
# The calls of one round of tests/gpu/transfers.c, as rank 1 of 4, and as rank 0 of 2 in the split communicator.
ROUND = [("ncclAllReduce", ("allreduce", 1000, 1000, "Float", 4000, 4, 1)),
         ("ncclReduce", ("reduce", 10, 10, "Long", 80, 4, 1)),
         ("ncclBroadcast", ("broadcast", 20, 20, "Char", 20, 4, 1)),
         ("ncclReduceScatter", ("reduce_scatter", 1000, 250, "BFloat16", 2000, 4, 1)),
         ("ncclAllGather", ("allgather", 512, 1024, "Half", 2048, 2, 0)),
         ("ncclBcast", ("broadcast", 30, 30, "Float", 120, 4, 1)),  # NCCL's own calls ncclBroadcast()
         ("ncclSend", ("send", 100, 0, "Float", 400, 4, 1)),
         ("ncclRecv", ("recv", 0, 100, "Float", 400, 4, 1)),
         ("ncclAllReduce", ("allreduce", 1, 1, "Float", 4, 4, 1)),
         ("ncclAllReduce", ("allreduce", 2, 2, "Float", 8, 4, 1)),
         ("ncclAllReduce", ("allreduce", 7, 7, "Float", 28, 4, 1)),
         ("ncclBcast", ("broadcast", 9, 9, "Float", 36, 4, 1))]
GROUPS = [("coalesced", 100, 100, "Float", 800, 2), (None,) * 6, ("allreduce", 3, 3, "Float", 12, 2),
          ("allreduce", 7, 7, "Float", 28, 1), ("broadcast", 9, 9, "Float", 36, 1)]


@pytest.fixture(scope="module")
def nccl(tmp_path_factory):
    return gpu_runs.gpu_run("transfers", tmp_path_factory.mktemp("nccl"), "--rounds", 3, SCHEDULE_SCOPE="none")


@gpu_runs.needed
@pytest.mark.parametrize("more", [(), ("--from-trace",)])
def test_nccl_calls_count_as_cpu_time(nccl, more):
    """NCCL calls run on the calling thread: the GPU's total holds kernels and copies only."""
    table = json.loads(tool.cprof("top", *nccl.traces, "--json", "--row-limit", -1, *more).out)
    work = sum(float(e["dur"]) for e in support.events(nccl.trace(), ph="X") if e.get("cat") in gpu_runs.WORK)
    assert table["self_device_time_total"] == pytest.approx(work) and table["tables_used"] == ([] if more else [f"{nccl.traces[0]}.summary"])
    [call] = [row for row in table["rows"] if row["name"] == "ncclCommInitRank"]
    assert call["device_type"] == "cpu" and call["self_cpu_time_total"] > 0
    by = json.loads(tool.cprof("top", *nccl.traces, "--by", "device", "--json").out)["rows"]
    assert sorted(row["device"] for row in by) == ["CPU", "GPU 0"]


def between_two(row):
    """Sends and receives between two ranks have their own sequence numbers."""
    return "Dst Rank" in row["args"] or "Src Rank" in row["args"]


@gpu_runs.needed
def test_nccl_calls_have_sizes_peers_and_numbers(nccl):
    trace = nccl.whole()
    assert trace["distributedInfo"]["backend"] == "nccl"
    rows = sorted(support.events(trace, ph="X", cat="collective_comm"), key=lambda e: float(e["ts"]))
    transfers = [(e["name"], described(e, *FIELDS)) for e in rows
                 if "Collective name" in e["args"] and e["name"] != "ncclGroupEnd"]
    assert transfers == ROUND * 3 + [("ncclAllReduce", ("allreduce", 5, 5, "Float", 20, 2, 0))]
    groups = [described(e, *FIELDS[:5], "Coalesced") for e in rows if e["name"] == "ncclGroupEnd"]
    assert groups == GROUPS * 3
    peers = collections.Counter((e["name"], *described(e, "Root rank", "Dst Rank", "Src Rank")) for e in rows)
    assert peers[("ncclReduce", 3, None, None)] == peers[("ncclBroadcast", 2, None, None)] == 3
    assert peers[("ncclBcast", 0, None, None)] == 6
    assert peers[("ncclSend", None, 2, None)] == peers[("ncclRecv", None, None, 0)] == 3
    init = [described(e, "Group size", "Rank") for e in rows if e["name"] == "ncclCommInitRank"]
    assert init == [(4, 1), (2, 0)]
    numbers = collections.defaultdict(list)
    for e in rows[:-3]:  # the last communicator may reuse the first one's address
        if "Seq" in e["args"]:
            numbers[e["args"]["Comms Id"], between_two(e)].append(e["args"]["Seq"])
    assert sorted(map(len, numbers.values())) == [3, 6, 27]
    assert all(seen == list(range(len(seen))) for seen in numbers.values())


@gpu_runs.needed
def test_sequence_numbers_count_unrecorded_calls(tmp_path):
    """A rank that records only the third round has the same numbers as a rank that records all rounds."""
    done = gpu_runs.gpu_run("transfers", tmp_path, "--rounds", 3, WARMUP=2, ACTIVE=1)
    numbers = collections.defaultdict(list)
    for e in support.events(done.trace(), ph="X", cat="collective_comm"):
        if e["args"].get("Group size") in (2, 4) and "Seq" in e["args"]:
            numbers[e["args"]["Group size"], between_two(e)].append(e["args"]["Seq"])
    assert {which: sorted(seen) for which, seen in numbers.items()} == {(4, False): list(range(18, 27)), (4, True): [4, 5], (2, False): [2]}


@gpu_runs.needed
def test_sequence_numbers_survive_another_communicators_end(tmp_path):
    done = gpu_runs.gpu_run("transfers", tmp_path, "--rounds", 1, "--groups", 150, SCHEDULE_SCOPE="none")
    numbers = collections.defaultdict(list)
    for e in sorted(support.events(done.trace(), ph="X", cat="collective_comm"), key=lambda e: float(e["ts"])):
        if e["args"].get("Group size") == 8 and "Seq" in e["args"]:
            numbers[e["args"]["Comms Id"]].append(e["args"]["Seq"])
    assert sorted(map(tuple, numbers.values())) == [(0,)] * 75 + [(0, 1)] * 75


@gpu_runs.needed
def test_simulated_group_end_closes_the_group(tmp_path):
    """torch's Inductor estimates costs with ncclGroupSimulateEnd(). The call ends the group and sends nothing."""
    trace = gpu_runs.gpu_run("transfers", tmp_path, "--rounds", 1, "--estimates", 2, SCHEDULE_SCOPE="none").trace()
    rows = sorted(support.events(trace, ph="X", cat="collective_comm"), key=lambda e: float(e["ts"]))
    assert [described(e, *FIELDS[:5], "Coalesced") for e in rows if e["name"] == "ncclGroupEnd"] == GROUPS
    assert [e["args"].get("Collective name") for e in rows if e["name"] == "ncclGroupSimulateEnd"] == [None, None]


@gpu_runs.needed
def test_nccl_kernels_have_sizes_and_bandwidth(nccl):
    kernels = sorted(support.events(nccl.trace(), ph="X", cat="kernel"), key=lambda e: float(e["ts"]))
    single = [what for _, what in ROUND[:6]]
    seen = [described(e, *FIELDS) for e in kernels]
    grouped = [(*g[:5], None, None) for g in GROUPS if g[0]]
    assert seen == (single + grouped) * 3 + [("allreduce", 5, 5, "Float", 20, 2, 0)]
    shares = {"allreduce": lambda n: 2 * (n - 1) / n, "reduce_scatter": lambda n: (n - 1) / n,
              "allgather": lambda n: (n - 1) / n, "broadcast": lambda n: 1, "reduce": lambda n: 1}
    for e in kernels:
        args = e["args"]
        if args.get("Coalesced", 1) > 1:  # the kernel's part of the group is unknown
            assert "Algorithm bandwidth (GB/s)" not in args
            continue
        rate = args["bytes"] / (float(e["dur"]) * 1000)
        assert close(args["Algorithm bandwidth (GB/s)"], rate)
        if "Group size" in args:
            share = shares[args["Collective name"]](args["Group size"])
            assert close(args["Bus bandwidth (GB/s)"], rate * share)


@gpu_runs.needed
@pytest.mark.parametrize("env, rank, world, source", [
    ({}, 1, 4, "NCCL"),
    ({"WORLD_SIZE": "4", "RANK": "3"}, 3, 4, "torchrun"),
    ({"SLURM_STEP_ID": "0", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, 0, 1, "Slurm"),
])
def test_rank_comes_from_nccl_without_a_launcher(tmp_path, env, rank, world, source):
    result = gpu_runs.gpu_run("transfers", tmp_path, SCHEDULE_SCOPE="none", env=env)
    trace = result.trace()
    assert (trace["distributedInfo"]["rank"], trace["distributedInfo"]["world_size"]) == (rank, world)
    assert trace["cprof"]["rank_from"] == source and result.names[0].startswith(f"rank{rank}.")


@gpu_runs.needed
def test_hta_reads_nccl_kernels(nccl, tmp_path):
    """HTA counts all GPU time of this run as communication."""
    shutil.copy(nccl.traces[0], tmp_path)
    seen = consumers.hta(tmp_path, last_step=True, critical=False, exact=True)
    assert [row["kernel_type"] for row in seen["kernel_types"]] == ["COMMUNICATION"]
    assert {row["name"].split("(")[0] for row in seen["kernels"][1]} == {"ncclDevKernel_AllReduce_Sum_f32_RING_LL"}
    assert consumers.hta_problems(nccl.trace()) == []


@gpu_runs.needed
@perfetto.needed
def test_perfetto_reads_nccl_kernels(nccl):
    assert consumers.perfetto_problems(nccl.traces[0]) == []


# ---- several copies of a library ----

def build(path, source, *flags):
    """A library from C source."""
    path.with_suffix(".c").write_text(textwrap.dedent(source))
    subprocess.run(["gcc", "-shared", "-fPIC", f"-Wl,-soname,{path.name}", "-o", path, path.with_suffix(".c"),
                    *map(str, flags)], check=True)
    return path


def test_each_caller_reaches_its_own_nccl(tmp_path):
    """Two libraries, loaded with RTLD_LOCAL, each have their own NCCL. Each call reaches the caller's NCCL. A caller without NCCL
    gets ncclInternalError, not a crash."""
    users = []
    for number in (1, 2):
        nccl = build(tmp_path / f"libnccl{number}.so", f"""
            int ncclCommCount(void *comm, int *count) {{ *count = {number}; return 0; }}
            int ncclAllReduce(const void *a, void *b, unsigned long n, int type, int op, void *comm, void *stream)
            {{ return {number} * 1000 + (int)n; }}
        """)
        users.append(build(tmp_path / f"libuser{number}.so", f"""
            int ncclAllReduce(const void *, void *, unsigned long, int, int, void *, void *);
            int use(int n) {{ return ncclAllReduce(0, 0, n, 7, 0, (void *){number}, 0); }}
        """, nccl, f"-Wl,-rpath,{tmp_path}"))
    none = build(tmp_path / "libnone.so", """
        int ncclAllGather(const void *, void *, unsigned long, int, void *, void *) __attribute__((weak));
        int use(int n) { return ncclAllGather ? ncclAllGather(0, 0, n, 7, 0, 0) : -1; }
    """)
    code = f"""
first, second, none = (ctypes.CDLL(path, mode=os.RTLD_LOCAL) for path in {[str(lib) for lib in (*users, none)]})
print([first.use(1), second.use(2), first.use(3), second.use(4), none.use(1), none.use(2)])
"""
    plain = support.run(support.python(code), tmp_path, preload=False)
    result = support.run(support.python(code), tmp_path, SCHEDULE_SCOPE="none")
    assert plain.out.strip() == "[1001, 2002, 1003, 2004, -1, -1]"
    assert result.out.strip() == "[1001, 2002, 1003, 2004, 3, 3]"  # ncclInternalError
    rows = sorted(support.events(support.load(result.traces[0]), name="ncclAllReduce"), key=lambda e: float(e["ts"]))
    assert [e["args"]["Group size"] for e in rows] == [1, 2, 1, 2]


# ---- MPI ----

MPI_KINDS = ["openmpi", "mpich", "abi"]  # the last: MPI's standard ABI, by MPICH
ABI = pathlib.Path(sys.prefix) / "mpi"  # put there by scripts/setup.sh


def mpi_build(kind, source, binary, *options, cc=None):
    """Builds a program of tests/e2e/mpi; returns the launcher for it, or skips."""
    compiler, launcher = [shutil.which(f"{tool}.{kind}") for tool in ("mpicc", "mpirun")]
    if kind == "abi":
        launcher = ABI / "bin/mpirun"
        # MPICH's mpicc_abi does not run under Debian's sh
        options = [*options, "-DMPI_ABI", "-I", ABI / "include", ABI / "lib/libmpi_abi.so.1", f"-Wl,-rpath,{ABI / 'lib'}"]
        compiler = shutil.which(cc or "gcc") if launcher.exists() else None
    if not compiler or not launcher:
        pytest.skip(f"no compiler and launcher of MPI here: {kind}")
    env = dict(os.environ, MPICH_CC=cc, OMPI_CC=cc) if cc and shutil.which(cc) else None
    subprocess.run([compiler, HERE / "mpi" / source, *options, "-o", binary], check=True, env=env)
    return launcher


@pytest.mark.parametrize("kind", MPI_KINDS)
def test_mpi_calls_have_sizes_and_bandwidth(tmp_path, kind):
    binary = tmp_path / "transfers"
    launcher = mpi_build(kind, "transfers.c", binary, "-O1")
    allow = ["--allow-run-as-root", "--oversubscribe"] if kind == "openmpi" else []
    command = [launcher, *allow, "-n", "2", binary]
    plain = support.run(command, tmp_path, preload=False)
    if plain.rc:  # Ubuntu 24.04's MPICH: each rank is alone
        pytest.skip(f"{launcher} does not run the program without the library either: {plain.err.splitlines()[0]}")
    result = support.run(command, tmp_path, SCHEDULE_SCOPE="none")
    assert result.rc == 0, result.err
    assert plain.out.count("fine") == result.out.count("fine") == 2
    assert [path.name.split(".")[0] for path in result.traces] == ["rank0", "rank1"]
    for rank, path in enumerate(result.traces):
        trace = support.load(path)
        assert trace["distributedInfo"]["backend"] == "mpi"
        rows = sorted(support.events(trace, ph="X", cat="collective_comm"), key=lambda e: float(e["ts"]))
        names = ("Collective name", "In msg nelems", "Out msg nelems", "bytes", "Group size", "Rank")
        seen = [(e["name"], *described(e, *names)) for e in rows]
        assert seen == [
            ("MPI_Allreduce", "allreduce", 100, 100, 800, 2, rank),
            ("MPI_Bcast", "broadcast", 7, 7, 28, 2, rank),
            ("MPI_Allgather", "allgather", 3, 6, 48, 2, rank),
            ("MPI_Alltoallv", "all_to_allv", 3, 3, 12, 2, rank),
            ("MPI_Reduce_scatter", "reduce_scatter", 5, 2 + rank, 20, 2, rank),
            ("MPI_Gather", "gather", 4, 8, 32, 2, rank),
            ("MPI_Sendrecv", "sendrecv", 9, 9, 9, 2, rank),
            ("MPI_Iallreduce", "allreduce", 50, 50, 400, 2, rank),
            ("MPI_Wait", None, None, None, None, None, None),
            ("MPI_Barrier", "barrier", 0, 0, None, 2, rank),
        ]
        by_name = {e["name"]: e for e in rows}
        assert "Algorithm bandwidth (GB/s)" not in by_name["MPI_Iallreduce"]["args"]
        reduce = by_name["MPI_Allreduce"]
        assert close(reduce["args"]["Algorithm bandwidth (GB/s)"], 800 / (float(reduce["dur"]) * 1000))
        assert close(reduce["args"]["Bus bandwidth (GB/s)"], reduce["args"]["Algorithm bandwidth (GB/s)"])


@pytest.mark.parametrize("activities, own_compiler", [("cpu", "clang"), ("cpu,cuda", "clang"), ("cpu", "gcc")])
@pytest.mark.parametrize("kind", MPI_KINDS)
def test_mpi_errors_freed_communicators_and_bad_types(tmp_path, kind, activities, own_compiler):
    """Edge cases, none of which needs a GPU. A transfer left by longjmp() ends when the next one begins. The upper half of an int on the stack
    is not read as part of a handle. A communicator at a freed one's address starts at number 0. cprof does not ask MPI about an invalid type."""
    binary = tmp_path / "oddities"
    # clang leaves garbage above an int on the stack; with gcc, calls after the longjmp() stand deeper in the stack
    mpi_build(kind, "oddities.c", binary, "-O0", "-w", cc=own_compiler)
    result = support.run([binary], tmp_path, SCHEDULE_SCOPE="none", ACTIVITIES=activities, FLIGHT=1)
    assert (result.rc, result.out) == (0, "fine\n"), result.err
    saved, window = result.traces  # flight/rank0... has what came before the first error, and what came until it was saved
    assert re.fullmatch(r"MPI_\w+ returned \d+ (in|before) step 0", support.load(saved)["cprof"]["flight"]["reason"])
    trace = support.load(window)
    rows = sorted(support.events(trace, ph="X", cat="collective_comm"), key=lambda e: float(e["ts"]))
    world = rows[0]["args"]["Comms Id"]
    # the sends, one of them in the error handler of the other, have their own numbers
    assert [(e["name"], e["args"]["Seq"], e["args"]["Comms Id"] == world) for e in rows if "Seq" in e["args"]] == [
        ("MPI_Allreduce", 0, True), ("MPI_Send", 0, True), ("MPI_Send", 1, True), *(("MPI_Allgather", n, True) for n in (1, 2, 3)),
        ("MPI_Allreduce", 0, False), ("MPI_Allreduce", 0, False), ("MPI_Allreduce", 1, False), ("MPI_Bcast", 0, False)]
    assert [e["args"].get("finished") for e in rows if e["name"] in ("MPI_Send", "MPI_Barrier")] == ["false", "false"]
    assert trace["cprof"]["lost"]["total"] == 0


# ---- gloo ----

DDP = """
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo")
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
wrapped = DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
alone = [dist.new_group([rank]) for rank in range(2)][dist.get_rank()]
for i in range(5):
    optimizer.zero_grad()
    wrapped(torch.randn(16, 64)).sum().backward()
    if i == 2:
        dist.all_gather([torch.zeros(6) for _ in range(2)], torch.ones(6))
        dist.broadcast(torch.ones(5, dtype=torch.int64), 1)
        dist.all_reduce(torch.ones(3), group=alone)
        dist.send(torch.ones(4), 1) if dist.get_rank() == 0 else dist.recv(torch.ones(4), 0)
    optimizer.step()
if dist.get_rank() == 0:  # two ranks that print into one pipe may mix their lines
    print(sum(p.numel() * p.element_size() for p in model.parameters()))
dist.barrier()
"""


@pytest.fixture(scope="module")
def gloo(tmp_path_factory):
    """Bytes of the model's gradients, and the traces of both ranks."""
    folder = tmp_path_factory.mktemp("gloo")
    script = folder / "ddp.py"
    script.write_text(DDP)
    skip_without_torchrun()
    result = support.run([*TORCHRUN, "--nproc-per-node", "2", script], folder,
                         WARMUP=1, ACTIVE=3, env=dict(LOOPBACK, OMP_NUM_THREADS="1"))
    assert result.rc == 0 and len(result.traces) == 2, result.err
    [sent] = [int(line) for line in result.out.splitlines() if line.isdigit()]  # Gloo of torch 2.9 prints to stdout, too
    return sent, [support.load(path) for path in result.traces]


@needs_torch_2("its torchrun does not work with Python 3.11")
def test_gloo_reduces_the_size_of_the_gradients(gloo):
    """Two ranks of PyTorch: each step reduces exactly the bytes of the model's gradients."""
    gradients, traces = gloo
    for trace in traces:
        rows = [e for e in support.events(trace, ph="X", name="gloo:all_reduce") if e["args"]["In msg nelems"] > 3]
        assert len(rows) == 3
        for e in rows:
            args = e["args"]
            assert (args["Collective name"], args["dtype"], args["bytes"]) == ("allreduce", "Float", gradients)
            assert args["In msg nelems"] == args["Out msg nelems"] == gradients // 4
            # as torch.profiler writes them; TensorBoard takes the size from these
            assert (args["Input Dims"], args["Input type"]) == ([[gradients // 4]], ["float"])
            assert close(args["Algorithm bandwidth (GB/s)"], gradients / (float(e["dur"]) * 1000))


@needs_torch_2("its torchrun does not work with Python 3.11")
def test_gloo_calls_have_group_peer_and_number(gloo):
    """Group, rank in the group, peer and number come from the operator that asked for the transfer. A group of one rank is not the world."""
    version = torch_version("own")
    if tuple(map(int, version.split(".")[:2])) < (2, 4):
        pytest.skip(f"cprof does not read the process group objects of torch {version}")
    gradients, traces = gloo
    numbers = []
    for rank, trace in enumerate(traces):
        assert trace["distributedInfo"]["backend"] == "gloo"
        rows = support.events(trace, ph="X") + support.events(trace, ph="b")  # send and recv end on another thread
        rows = sorted(rows, key=lambda e: float(e["ts"]))
        rows = [e for e in rows if e["name"].startswith("gloo:") and "Group size" in e.get("args", {})]
        names = ("Collective name", "Out msg nelems", "bytes", "Group size", "Rank", "Root rank", "Dst Rank", "Src Rank")
        seen = [described(e, *names) for e in rows]
        gradient = ("allreduce", gradients // 4, gradients, 2, rank, None, None, None)
        p2p = ("send", None, 16, 2, 0, None, 1, None) if rank == 0 else ("recv", None, 16, 2, 1, None, None, 0)
        assert seen.count(gradient) == 3
        assert [what for what in seen if what != gradient and what[5] != 0] == [  # DDP broadcasts its buckets from rank 0
            ("allgather", 12, 48, 2, rank, None, None, None), ("broadcast", 5, 40, 2, rank, 1, None, None),
            ("allreduce", 3, 12, 1, 0, None, None, None), p2p]
        alone = [e["args"]["Comms Id"] for e in rows if e["args"]["Group size"] == 1]
        world = [e for e in rows if e["args"]["Group size"] == 2]
        assert len({e["args"]["Comms Id"] for e in world}) == 1 and alone[0] not in {e["args"]["Comms Id"] for e in world}
        numbers.append([e["args"]["Seq"] for e in world if not between_two(e)])
        assert [e["args"]["Seq"] for e in world if between_two(e)] == [0]
    first = numbers[0][0]
    assert numbers[0] == numbers[1] == list(range(first, first + len(numbers[0])))
