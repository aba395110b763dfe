# SPDX-License-Identifier: Apache-2.0
"""c10d describes the transfers that it asks NCCL for. cprof writes record_param_comms as torch.profiler does, and NCCL's calls and kernels with
the process group. The C++ part uses c10d's own macros (tests/e2e/c/comms.cpp); NCCL and the GPU are simulated."""

import collections
import json
import pathlib
import shutil
import subprocess
import sys
import textwrap

import pytest

import consumers
import gpu_runs
import support

torch = pytest.importorskip("torch", reason="PyTorch is not installed in .venv")

HERE = pathlib.Path(__file__).parent
# name, rank, size, start, stride, elements, group, description, splits
TRANSFERS = [("allreduce", 1, 4, 0, 1, 8, "0", "default_pg", 0), ("_allgather_base", 1, 40, 3, 2, 8, "12", "mesh_tp", 40),
             ("all_to_allv", 0, 4, 0, 1, 100, "1", "mesh_ep", 4), ("send", 1, 4, 8, 2, 8, "12", "", 0), ("recv", 3, 4, 8, 2, 8, "12", "mesh_pp", 0),
             ("send", 2, 4, 3, -1, 8, "13", "mesh_pp", 0), ("recv", 1, 4, 0, -1, 8, "13", "mesh_pp", 0), ("barrier", 1, 4, -1, 0, 1, "", "", 0)]
LOAD = """
    import ctypes, torch
    library = ctypes.CDLL({library!r})
    def transfer(name, rank, size, start, stride, n, group, about, splits, communicator=None, stream=None, grouped=0):
        library.transfer(name.encode(), rank, size, start, stride, n, group.encode(), about.encode(), splits, communicator, stream, grouped)
    def all_of_them():
        for one in {transfers!r}:
            transfer(*one)
"""
THEIRS = """
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU], record_shapes={shapes}) as profiler:
        all_of_them()
    profiler.export_chrome_trace({out!r})
"""
ON_A_GPU = """
    class Id(ctypes.Structure):
        _fields_ = [("bytes", ctypes.c_char * 128)]
    runtime = ctypes.CDLL("libcudart.so.13")
    nccl = ctypes.CDLL({nccl!r}, mode=ctypes.RTLD_GLOBAL)
    ident, world, stream = Id(), ctypes.c_void_p(), ctypes.c_void_p()
    assert runtime.cudaStreamCreate(ctypes.byref(stream)) == 0 and nccl.ncclGetUniqueId(ctypes.byref(ident)) == 0
    assert nccl.ncclCommInitRank(ctypes.byref(world), 4, ident, 1) == 0
    for grouped in range(3):
        transfer("allreduce", 1, 4, 0, 2, 1000, "7", "mesh_dp", 0, world, stream, grouped)
    assert runtime.cudaStreamSynchronize(stream) == 0
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ on this machine")
    if tuple(map(int, torch.__version__.split(".")[:2])) < (2, 4):
        pytest.skip(f"torch {torch.__version__} is older than 2.4, the first that this test knows")
    from torch.utils.cpp_extension import include_paths
    made = tmp_path_factory.mktemp("comms") / "libcomms.so"
    folder = pathlib.Path(torch.__file__).parent / "lib"
    subprocess.run([compiler, "-std=c++20", "-w", "-shared", "-fPIC", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
                    HERE / "c" / "comms.cpp", "-o", made, *(f"-I{path}" for path in include_paths()), f"-L{folder}", "-ltorch_cpu", "-lc10",
                    f"-Wl,-rpath,{folder}"], check=True)
    return made


def script(folder, library, *parts, **values):
    path = folder / "script.py"
    values = dict(library=str(library), transfers=TRANSFERS, **values)
    path.write_text("".join(textwrap.dedent(part).format(**values) for part in (LOAD, *parts)))
    return [sys.executable, path]


def said(events):
    """The args of each record_param_comms, in order. `Comms Id` is a hash; cprof writes no `Ev Idx` and no `finished`."""
    rows = sorted((e for e in events if e.get("name") == "record_param_comms" and e.get("ph") == "X"), key=lambda e: float(e["ts"]))
    left_out = {"External id", "Record function id", "Ev Idx", "Comms Id", "finished"}
    return [{key: value for key, value in e["args"].items() if key not in left_out} for e in rows]


@pytest.mark.parametrize("shapes", [0, 1])
def test_records_transfers_as_torch_profiler_does(tmp_path, library, shapes):
    out = tmp_path / "theirs.txt"
    theirs = support.run(script(tmp_path, library, THEIRS, shapes=bool(shapes), out=str(out)), tmp_path, preload=False)
    assert theirs.rc == 0, theirs.err
    wanted = said(json.loads(out.read_text())["traceEvents"])
    assert [each["Collective name"] for each in wanted] == [name for name, *_ in TRANSFERS]
    ours = support.run(script(tmp_path, library, "\nall_of_them()\n"), tmp_path / "ours", SCHEDULE_SCOPE="none", RECORD_SHAPES=shapes)
    assert ours.rc == 0 and len(ours.traces) == 1, ours.err
    assert said(support.load(ours.traces[0])["traceEvents"]) == wanted
    assert any("Input Dims" in each for each in wanted) == bool(shapes)


@gpu_runs.needed
@pytest.mark.skipif(torch.version.cuda is not None, reason="this torch brings NVIDIA's runtime, which does not work on a simulated driver")
def test_kernels_name_their_process_group(tmp_path, library):
    """NCCL's call launches its kernel inside an NVTX range, inside torch's range, inside record_param_comms."""
    code = script(tmp_path, library, ON_A_GPU, nccl=str(gpu_runs.PROGRAMS / "libnccl.so.2"))
    result = support.run(code, tmp_path, SCHEDULE_SCOPE="none", env=gpu_runs.ENVIRONMENT)
    assert result.rc == 0 and len(result.traces) == 1, result.err
    trace = support.load(result.traces[0])
    operators = {e["args"]["External id"] for e in support.events(trace, ph="X", name="record_param_comms")}
    group = {"Process Group Name": "7", "Process Group Description": "mesh_dp", "Process Group Ranks": "[0, 2, 4, 6]", "Group size": 4,
             "Collective name": "allreduce", "dtype": "Float"}
    calls = [e for e in support.events(trace, ph="X", cat="collective_comm") if "Collective name" in e["args"]]
    kernels = sorted(support.events(trace, ph="X", cat="kernel"), key=lambda e: float(e["ts"]))
    assert collections.Counter(e["name"] for e in calls) == {"ncclAllReduce": 4, "ncclGroupEnd": 2} and len(operators) == len(kernels) == 3
    for e in [*calls, *kernels]:
        assert group.items() <= e["args"].items()
    assert [(e["args"].get("Rank"), e["args"].get("Coalesced"), e["args"]["In msg nelems"]) for e in kernels] == [(1, None, 1000), (None, 1, 1000),
                                                                                                            (None, 2, 2000)]
    # The share of one kernel in a group of several is not known.
    assert ["Bus bandwidth (GB/s)" in e["args"] for e in kernels] == [True, True, False]
    assert {e["args"]["External id"] for e in kernels} == operators
    assert consumers.hta_problems(trace) == []
    checked = subprocess.run([sys.executable, HERE.parents[1] / "scripts/cprof", "check", "-q", result.traces[0]], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
