# SPDX-License-Identifier: Apache-2.0
"""Real PyTorch over the simulated GPU. A custom operator launches kernels through a library that is independent of torch: operators, ranges
and steps are real, and only the device is simulated."""

import json
import sys
import textwrap

import pytest

import consumers
import support
from conftest import matrix
from cprof.tool.moments import Trace
from cprof.tool.operators import Operators
from gpu_runs import ENVIRONMENT, PROGRAMS, SIM, lost, needed

torch = pytest.importorskip("torch", reason="PyTorch is not installed in .venv")
pytestmark = needed

SCRIPT = """
import ctypes, os, torch
gpu = ctypes.CDLL(os.environ["GPU_LIBRARY"])
library = torch.library.Library("simulated", "DEF")
library.define("launch(Tensor x, int n) -> Tensor")
def launch(x, n):
    assert gpu.gpu_work_13(n) == 13000
    return x.clone()
library.impl("launch", launch, "CompositeExplicitAutograd")
weight = torch.nn.Parameter(torch.ones(4))
optimizer = torch.optim.SGD([weight], lr=0.1)
for step in range(8):
    with torch.profiler.record_function("train"):
        with torch.profiler.record_function("forward"):
            y = torch.ops.simulated.launch(weight.detach(), 3)
        loss = (weight * y).sum()
        loss.backward()
        torch.ops.simulated.launch(y, 2)
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.fixture(scope="module", params=["13", "11.8"])
def trace(request, tmp_path_factory):
    """Steps 2 to 4 of the script, with two versions of CUPTI. A torch built for CUDA brings NVIDIA's runtime and CUPTI, which do not work on the
    simulated driver. With it, the script's library has the runtime linked in, and the simulated CUPTI is loaded before torch's."""
    folder = tmp_path_factory.mktemp("torch")
    script = folder / "train.py"
    script.write_text(textwrap.dedent(SCRIPT))
    faults = "" if request.param == "13" else "version=18"
    env = {**ENVIRONMENT, "GPU_LIBRARY": str(PROGRAMS / "libgpu13.so"), "SIM_FAULTS": faults}
    if torch.version.cuda:
        env.update(GPU_LIBRARY=str(PROGRAMS / "libgpu13_static.so"), LD_PRELOAD=f"{ENVIRONMENT['LD_PRELOAD']}:{SIM / 'libcupti.so.13'}")
    result = support.run([sys.executable, script], folder, WARMUP=2, ACTIVE=3, env=env)
    assert result.rc == 0 and len(result.traces) == 1, result.err
    return support.load(result.traces[0])


def rows(trace, category, name=None):
    return [e for e in support.events(trace, ph="X", cat=category) if name is None or e["name"] == name]


def test_every_kernel_is_recorded_and_joined(trace):
    assert consumers.gpu_problems(trace, {"kernels": 15}) == []
    assert lost(trace) == {}


def test_kernels_belong_to_the_operator_that_launched_them(trace):
    operators = {e["args"]["External id"]: e for e in rows(trace, "cpu_op", "simulated::launch")}
    assert len(operators) == 6
    launched = {}
    for kernel in rows(trace, "kernel"):
        launched.setdefault(kernel["args"]["External id"], []).append(kernel["name"])
    assert set(launched) == set(operators)
    assert sorted(len(names) for names in launched.values()) == [2, 2, 2, 3, 3, 3]
    for call in rows(trace, "cuda_runtime", "cudaLaunchKernel"):
        start, end = support.span_ns(call)
        around = support.span_ns(operators[call["args"]["External id"]])
        assert around[0] <= start and end <= around[1]


def test_gpu_ranges_cover_their_kernels(trace):
    names = sorted(e["name"] for e in rows(trace, "gpu_user_annotation"))
    assert names == ["forward"] * 3 + ["train"] * 3
    kernels = [support.span_ns(e) for e in rows(trace, "kernel")]
    for row in rows(trace, "gpu_user_annotation", "forward"):
        start, end = support.span_ns(row)
        inside = [k for k in kernels if start <= k[0] and k[1] <= end]
        assert len(inside) == 3 and inside[0][0] == start and inside[-1][1] == end


def test_optimizer_marks_the_steps(trace):
    assert [e["name"] for e in rows(trace, "user_annotation") if e["name"].startswith("ProfilerStep")] == [
        f"ProfilerStep#{n}" for n in (2, 3, 4)]


def test_head_has_devices_and_cupti_version(trace):
    assert [d["id"] for d in trace["deviceProperties"]] == [0, 1] and trace["cupti_version"] in (18, 130001)
    assert json.dumps(trace["deviceProperties"])


# ---- graphs ----

CAPTURED = """
import ctypes, torch
rt = ctypes.CDLL("libcudart.so.13")
p, stream, graph, exec_ = (ctypes.c_void_p() for _ in range(4))
def ok(result): assert result == 0, result
ok(rt.cudaMalloc(ctypes.byref(p), 4096)); ok(rt.cudaStreamCreate(ctypes.byref(stream)))
library = torch.library.Library("simulated", "DEF")
library.define("fill(Tensor x) -> Tensor")
def fill(x):
    ok(rt.cudaMemsetAsync(p, 0, ctypes.c_size_t(4096), stream))
    return x.clone()
library.impl("fill", fill, "CompositeExplicitAutograd")
class Fill(torch.nn.Module):
    def forward(self, x):
        return torch.ops.simulated.fill(x)
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Fill()
    def forward(self, x):
        return torch.ops.simulated.fill(self.inner(x))
net, x = Net(), torch.ones(4)
optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(4))], lr=0.1)
for step in range(10):
    net(x) if step < 3 else 0
    if step == 3:
        ok(rt.cudaStreamBeginCapture(stream, 1))
        net(x)
        ok(rt.cudaStreamEndCapture(stream, ctypes.byref(graph)))
        ok(rt.cudaGraphInstantiate(ctypes.byref(exec_), graph, ctypes.c_ulonglong(0)))
    elif step > 3:
        ok(rt.cudaGraphLaunch(exec_, stream))
        ok(rt.cudaStreamSynchronize(stream))
    optimizer.step()
"""


def test_graph_nodes_name_operator_and_module_of_their_capture(tmp_path):
    """Also in a later window than that of the capture. The report names them, too."""
    script = tmp_path / "captured.py"
    script.write_text(CAPTURED)
    result = support.run([sys.executable, script], tmp_path, WITH_MODULES=1, WAIT=0, WARMUP=1, ACTIVE=4, REPEAT=2, env=ENVIRONMENT)
    assert result.rc == 0 and len(result.traces) == 2, result.err
    for path, launches in zip(result.traces, (1, 4)):
        nodes = [e["args"] for e in support.events(support.load(path), ph="X", cat="gpu_memset") if e["args"].get("graph id")]
        assert len(nodes) == 2 * launches and {(args["captured in"], args["captured module"]) for args in nodes} == {
            ("simulated::fill", "Net.inner"), ("simulated::fill", "Net")}
        [(name, found)] = operators_of(path).work()
        assert (name, found.place.name) == ("Memset (Device)", "simulated::fill") and found.place.module in ("Net", "Net.inner")


def operators_of(path):
    found = Operators()
    found.add(Trace(str(path)))
    return found


# ---- compiled code ----

COMPILED = """
import ctypes, os, torch
gpu = ctypes.CDLL(os.environ["GPU_LIBRARY"])
@torch.library.custom_op("simulated::work", mutates_args=())
def work(x: torch.Tensor) -> torch.Tensor:
    assert gpu.gpu_work_13(2) == 13000
    return x.clone()
work.register_fake(torch.empty_like)
work.register_autograd(lambda ctx, grad: torch.ops.simulated.work(grad))
class Block(torch.nn.Module):
    def forward(self, x):
        return torch.ops.simulated.work(x).sin() * 2
net = torch.nn.Sequential(Block(), Block())
weight = torch.nn.Parameter(torch.ones(4))
step = torch.compile(net, backend=os.environ["BACKEND"])
optimizer = torch.optim.SGD([weight], lr=0.1)
for _ in range(10):
    step(weight).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize("backend", matrix(["aot_eager", "inductor"]))
def test_kernels_of_compiled_code_have_a_region_and_a_line(tmp_path, backend):
    """All of their time has the compiled region and the line of the script that calls it."""
    script = tmp_path / "compiled.py"
    script.write_text(COMPILED)
    env = {**ENVIRONMENT, "GPU_LIBRARY": str(PROGRAMS / "libgpu13.so"), "BACKEND": backend}
    result = support.run([sys.executable, script], tmp_path, WAIT=4, WARMUP=1, ACTIVE=3, WITH_STACK=1, env=env)
    assert result.rc == 0 and len(result.traces) == 1, result.err
    trace = support.load(result.traces[0])
    regions = [support.span_ns(e) for e in rows(trace, "cpu_op") if e["name"].startswith(("Torch-Compiled Region", "CompiledFunctionBackward"))]
    launches = [support.span_ns(e) for e in rows(trace, "cuda_runtime", "cudaLaunchKernel")]
    assert len(launches) == 3 * 2 * 2 * 2 and all(any(start <= at[0] and at[1] <= end for start, end in regions) for at in launches)
    places = [sums.place for _, sums in operators_of(result.traces[0]).work()]
    called = COMPILED[:COMPILED.index("step(weight)")].count("\n") + 1
    assert {(place.name, place.line) for place in places} <= {(name, f"compiled.py({called}): <module>") for name in (
        "Torch-Compiled Region: 0/0", "CompiledFunctionBackward")}, places
