# SPDX-License-Identifier: Apache-2.0
"""Jobs of several processes: each rank leaves its traces under its own name, and launchers and workers leave none."""

import re
import shutil
import sys

import pytest

import support
from servers import free_port
from torch_runs import SCRIPTS, Trace, assert_good, needs_torch_2, run, skip_without_torchrun

STEPS = "steps(8)"  # a Python program without torch
CYCLES = {"WAIT": 1, "WARMUP": 1, "ACTIVE": 2, "REPEAT": 2}  # two traces: of steps 2 and 3, and of 6 and 7
TEMPLATE = "{run_name}/torch_traces"


def assert_ranks(folder, world, source, files=("4", "8")):
    """Asserts that the folder holds the traces of `world` ranks and nothing else. Returns {name: trace}."""
    found = {p.name: Trace(p) for p in support.files(folder)}
    assert sorted(found) == sorted(f"rank{r}.{n}.pt.trace.json" for r in range(world) for n in files)
    for name, one in found.items():
        rank = int(re.match(r"rank(\d+)", name)[1])
        info = {key: one.info[key] for key in ("rank", "world_size", "local_rank", "node_rank")}
        assert info == {"rank": rank, "world_size": world, "local_rank": rank, "node_rank": 0}
        assert one.account["rank_from"] == source and one.lost == 0
    return found


def torchrun(folder, *arguments, **settings):
    skip_without_torchrun()
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", *arguments]
    env = {"PYTHONPATH": str(SCRIPTS), "OMP_NUM_THREADS": "1"}
    return support.run(command, TEMPLATE, cwd=folder, env=env, **dict(CYCLES, **settings))


@needs_torch_2("its torchrun does not work with Python 3.11")
def test_torchrun_leaves_one_trace_per_rank_and_cycle(tmp_path):
    """DistributedDataParallel over gloo with DataLoader workers. The agent, the launcher and the workers leave no trace. The
    traces hold collectives and gloo's own threads."""
    done = torchrun(tmp_path, "--standalone", SCRIPTS / "ranks.py")
    assert_good(done)
    assert sorted(re.match(r"rank \d: 2 traces, ", line)[0] for line in done.said) == \
        ["rank 0: 2 traces, ", "rank 1: 2 traces, "]
    run_folder, = tmp_path.iterdir()
    for one in assert_ranks(run_folder / "torch_traces", 2, "torchrun").values():
        reductions = one.by_step(one.ops("^c10d::allreduce_$"))
        assert {n: len(names) for n, names in reductions.items()} == {n: 3 for n in one.steps}, reductions
        assert one.ranges("^gloo:all_reduce$")


@needs_torch_2("its torchrun does not work with Python 3.11")
def test_elastic_restart_keeps_all_traces(tmp_path):
    """Failed ranks are restarted. The traces of both attempts stay. A second launch right after it has its own folder."""
    folders = []
    for launch in ("one", "two"):
        notes = tmp_path / launch
        notes.mkdir()
        runs = tmp_path / "runs"
        runs.mkdir(exist_ok=True)
        done = torchrun(runs, "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0", "--max-restarts=1",
                        SCRIPTS / "fail_once.py", notes)
        assert_good(done)
        new, = set(runs.iterdir()) - set(folders)
        folders.append(new)
        assert re.fullmatch(r"fail_once-\d{8}-\d{6}", new.name), "the script's name and the launch's start"
        traces = {p.name: Trace(p) for p in support.files(new / "torch_traces")}
        assert sorted(traces) == sorted(f"rank{r}.{n}.pt.trace.json" for r in range(2) for n in ("4", "4-2", "8"))
        for name, one in traces.items():
            assert (one.info["rank"], one.info["world_size"]) == (int(name[4]), 2)
            first, last = one.account["first_step"], one.account["last_step"]
            assert one.by_step(one.ranges("^work$")) == {None: ["work"], first: ["work"], last: ["work"]}, "the warmup step's range comes first"
            assert one.lost == 0


def test_mpirun_leaves_one_trace_per_rank_and_cycle(tmp_path):
    """Ranks of Open MPI; mpirun itself leaves no trace."""
    mpirun = shutil.which("mpirun")
    if not mpirun or "Open MPI" not in support.run([mpirun, "--version"], tmp_path, preload=False).out:
        pytest.skip("no Open MPI on this machine")
    command = [mpirun, "--allow-run-as-root", "--oversubscribe", "-n", 2, *support.python(STEPS)]
    done = support.run(command, TEMPLATE, cwd=tmp_path, **CYCLES)
    assert_good(done)
    run_folder, = tmp_path.iterdir()
    assert_ranks(run_folder / "torch_traces", 2, "Open MPI")
    assert len(done.said) == 2


LAUNCHERS = {
    "Slurm": ({"SLURM_PROCID": 5, "SLURM_STEP_NUM_TASKS": 8, "SLURM_LOCALID": 1, "SLURM_NODEID": 1, "SLURM_JOB_ID": 77,
               "SLURM_STEP_ID": 2, "SLURM_STEP_TASKS_PER_NODE": "4(x2)"},
              {"rank": 5, "world_size": 8, "local_rank": 1, "node_rank": 1}, "77.2"),
    "PMI": ({"PMI_RANK": 2, "PMI_SIZE": 3, "MPI_LOCALRANKID": 2, "MPI_LOCALNRANKS": 3, "PMI_JOBID": "job-9"},
            {"rank": 2, "world_size": 3, "local_rank": 2, "node_rank": 0}, "job-9"),
}


@pytest.mark.parametrize("launcher", list(LAUNCHERS))
def test_rank_and_run_name_come_from_the_launcher(launcher, tmp_path):
    """Reads the variables that srun and Hydra (MPICH, Intel MPI) set."""
    variables, info, run_name = LAUNCHERS[launcher]
    env = {name: str(value) for name, value in variables.items()}
    done = support.run(support.python(STEPS), TEMPLATE, cwd=tmp_path, env=env, **CYCLES)
    assert_good(done)
    names = sorted(p.name for p in support.files(tmp_path / run_name / "torch_traces"))
    assert names == [f"rank{info['rank']}.{n}.pt.trace.json" for n in (4, 8)]
    one = Trace(tmp_path / run_name / "torch_traces" / names[0])
    assert {key: one.info[key] for key in info} == info and one.account["rank_from"] == launcher


PROXY = """#!/bin/sh
# like MPICH's proxy of this name: not under cprof, gives its ranks no launch id, and starts them in different seconds
for rank in 0 1; do
    LD_PRELOAD="$LIBRARY" PMI_RANK=$rank PMI_SIZE=2 "$@" &
    sleep 1.1
done
wait
"""


@pytest.mark.parametrize("shell", [[], ["/bin/sh", "-c", '"$@"; exit $?', "sh"]])
def test_ranks_of_mpich_share_a_run_name(tmp_path, shell):
    """Ranks of a launch share a run name, and another launch has another one, also if a script starts the ranks."""
    proxy = tmp_path / "hydra_pmi_proxy"
    proxy.write_text(PROXY)
    proxy.chmod(0o700)
    (tmp_path / "runs").mkdir()
    for launch in (1, 2):
        done = support.run([str(proxy), *shell, *support.python(STEPS)], TEMPLATE, cwd=tmp_path / "runs", preload=False,
                           env={"LIBRARY": str(support.LIBRARY), "PMI_JOBID": ""}, **CYCLES)
        assert done.rc == 0 and done.complaints == [], done.err
        folders = sorted((tmp_path / "runs").iterdir())
        assert len(folders) == launch
        assert sorted(p.name for p in support.files(folders[-1] / "torch_traces")) == [f"rank{rank}.{n}.pt.trace.json" for rank in (0, 1) for n in (4, 8)]


AGENT = """
ranks = []
for rank in 0, 1:  # starts ranks one after the other, as torchrun does
    ranks.append(subprocess.Popen(sys.argv[1:], env=dict(os.environ, RANK=str(rank), WORLD_SIZE="4", LOCAL_RANK=str(rank), LOCAL_WORLD_SIZE="2")))
    time.sleep(1.1)
sys.exit(max(rank.wait() for rank in ranks))
"""


def test_ranks_below_mpich_share_a_run_name(tmp_path):
    """The proxy starts an agent on each node, which starts the node's ranks."""
    proxy = tmp_path / "hydra_pmi_proxy"
    proxy.write_text('#!/bin/sh\nLD_PRELOAD="$LIBRARY" PMI_RANK=0 PMI_SIZE=2 "$@"\nexit $?\n')
    proxy.chmod(0o700)
    (tmp_path / "runs").mkdir()
    done = support.run([str(proxy), *support.python(AGENT, *support.python(STEPS))], TEMPLATE, cwd=tmp_path / "runs", preload=False,
                       env={"LIBRARY": str(support.LIBRARY), "PMI_JOBID": ""}, **CYCLES)
    assert done.rc == 0 and done.complaints == [], done.err
    folder, = (tmp_path / "runs").iterdir()
    assert len(support.files(folder / "torch_traces")) == 4


def test_spawned_children_with_rank_variables(tmp_path):
    """Children of torch.multiprocessing.spawn set RANK in their own environment after their first tensors."""
    done = run("spawned.py", tmp_path, WARMUP=1, ACTIVE=2, REPEAT=2)
    assert_good(done)
    assert_ranks(tmp_path, 2, "torchrun", files=("3", "6"))
    assert len(done.said) == 2


RENAMES_ITSELF = """
fields = open("/proc/self/stat").read().rpartition(")")[2].split()
start, end = int(fields[45]), int(fields[46])
ctypes.memmove(start, b"trainer rank 0 of 2".ljust(end - start, b"\\0"), end - start)
assert open("/proc/self/cmdline").read().startswith("trainer rank 0")
steps(4)
"""


def test_run_name_survives_a_renamed_process(tmp_path):
    """setproctitle overwrites the command line before cprof starts; the run still has the script's name."""
    script = tmp_path / "train.py"
    script.write_text(support.PRELUDE + RENAMES_ITSELF)
    result = support.run([sys.executable, script, "a longer argument to write over"], TEMPLATE, cwd=tmp_path, WARMUP=0, ACTIVE=2)
    assert result.rc == 0, result.err
    folder, = (path.name for path in tmp_path.iterdir() if path.is_dir())
    assert re.fullmatch(r"train-\d{8}-\d{6}", folder)


@pytest.mark.parametrize("here", [False, True], ids=["file", "localhost"])
def test_rank_comes_from_init_process_group(tmp_path, here):
    """Children of torch.multiprocessing.spawn without variables. The local rank is null, in names, too, unless the ranks meet at an address
    of this host."""
    done = run("spawned_bare.py", tmp_path, *[free_port()] * here, WARMUP=1, ACTIVE=2, FILENAME="r{rank}-{local_rank}.json")
    assert_good(done)
    names = ["r0-0.json", "r1-1.json"] if here else ["r0-null.json", "r1-null.json"]
    assert sorted(path.name for path in support.files(tmp_path)) == names
    for rank, name in enumerate(names):
        one = Trace(tmp_path / name)
        assert one.account["rank_from"] == "torch.distributed"
        assert (one.info["rank"], one.info["world_size"], one.info["local_rank"]) == (rank, 2, rank if here else None)
