# SPDX-License-Identifier: Apache-2.0
"""`cprof explain`: each moment of a step has one class, and a planted fault is the first finding. Programs run on the CPU. Traces of a GPU are
synthetic: a CPU launches, and a GPU with one stream runs one kernel after the other."""

import json
import pathlib
import sys

import pytest

import support
import tool
from cprof.tool.thread_states import line_of
from test_command_merge import training

SCRIPTS = pathlib.Path(__file__).parent / "scripts"
FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures"
STEPS, OPERATORS = 8, 20
CPU_US, KERNEL_US = 395.0, 400.0  # of an operator; the CPU is slightly faster than the GPU
STEP_US = OPERATORS * KERNEL_US
GPU_PARTS = ("computation", "exposed_comm", "exposed_memcpy", "idle")
CPU_PARTS = ("operators", "outside", "waiting")


class Machine:
    """A CPU that launches on a GPU with one stream; times in microseconds."""

    def __init__(self):
        self.now = self.free = 0.0
        self.events, self.correlation = [], 0

    def call(self, name, duration):
        self.correlation += 1
        self.events.append(tool.span(name, self.now, duration, "cuda_runtime", correlation=self.correlation))
        self.now += duration

    def work(self, name, duration, category="kernel"):
        """Starts after the last call and after the kernel launched before."""
        start = max(self.now + 1, self.free)
        self.free = start + duration
        self.events.append(tool.span(name, start, duration, category, 0, 7, device=0, stream=7, correlation=self.correlation))

    def operator(self, name, cpu=CPU_US, kernel=KERNEL_US, what="gemm", category="kernel", line=""):
        """An operator that launches a kernel at its end."""
        stack = {"Call_stack": f"torch/nn/modules/module.py(9): inner;{line};"} if line else {}
        self.events.append(tool.span(name, self.now, cpu, **stack))
        if kernel:
            self.now += cpu - 6
            self.call("cudaLaunchKernel" if category == "kernel" else "cudaMemcpyAsync", 5)
            self.work(what, kernel, category)
            self.now += 1
        else:
            self.now += cpu

    def wait(self, name, call, longer=2.0):
        """An operator that waits until the GPU is done."""
        begin = self.now
        self.now += 1
        self.call(call, max(self.free - self.now, 0) + longer)
        self.events.append(tool.span(name, begin, self.now + 1 - begin, Call_stack="train.py(30): main;"))
        self.now += 1

    def range(self, name, duration):
        self.events.append(tool.span(name, self.now, duration, "user_annotation"))
        self.now += duration


def nothing(machine, us):
    """No fault."""


def pause(machine, us):
    machine.now += us


def data(machine, us):
    machine.range("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", us)


def item(machine, us):
    """Each item() costs about as much as the CPU needs for the next launch."""
    for _ in range(max(1, round(us / CPU_US))):
        machine.wait("aten::item", "cudaStreamSynchronize")
        machine.operator("aten::mul", line="train.py(31): main")


def malloc(machine, us):
    machine.wait("aten::empty", "cudaMalloc", us)


def tiny(machine, us):
    for _ in range(round(us / 20)):
        machine.operator("aten::add", 20, 2, line="train.py(33): main")


def on_cpu(machine, us):
    machine.operator("aten::sort", us, 0, line="train.py(35): main")


def slow_call(machine, us):
    machine.operator("aten::conv2d", us, KERNEL_US, line="train.py(36): main")


def reduce(machine, us):
    machine.operator("c10d::allreduce_", us, us, "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage)")


def copy(machine, us):
    machine.operator("aten::copy_", us, us, "Memcpy HtoD (Pinned -> Device)", "gpu_memcpy")


# rule: (fault, the operator before which it is planted, text expected in the title)
FAULTS = {"input-bound": (data, 0, ""), "between-steps": (pause, 0, ""), "python": (pause, 10, "train.py(20)"),
          "synchronising-calls": (item, 10, "aten::item: cudaStreamSynchronize at train.py(30)"), "allocator-calls": (malloc, 10, "cudaMalloc"),
          "launch-bound": (tiny, 10, "aten::add at train.py(33)"), "cpu-operators": (on_cpu, 10, "aten::sort at train.py(35)"),
          "cpu-late": (slow_call, 10, "aten::conv2d at train.py(36)"),
          "exposed-communication": (reduce, 10, ""), "exposed-copies": (copy, 10, "")}


def gpu_trace(fault, at, us, odd=()):
    """A run with a fault in each step, or only in the steps `odd`."""
    machine = Machine()
    for number in range(STEPS):
        begin = machine.now
        for n in range(OPERATORS):
            if n == at and (not odd or number in odd):
                fault(machine, us)
            machine.operator("aten::linear", line=f"train.py({10 + n}): main")
        machine.events.append(tool.span(f"ProfilerStep#{number}", begin, machine.now - begin, "user_annotation", tid=4194305))
    return tool.write("t.json", machine.events)


def us_of_share(share):
    """The duration that makes up this share of the step."""
    return STEP_US * share / (1 - share)


def explained(*paths):
    """The JSON summary; checks that its parts add up."""
    result = tool.cprof("explain", "--json", *paths)
    assert result.rc == 0, result.err
    found = json.loads(result.out)
    assert found["schema"] == {"name": "cprof.summary", "version": 1} and found["time_unit"] == "ms"
    for step in found["steps"]:
        names = CPU_PARTS if step["device"] == "cpu" else GPU_PARTS
        assert sum(step[name] for name in names) == pytest.approx(step["total"], abs=1e-6), step
        if step["device"] == "cpu":
            assert sum(step["waiting_for"].values()) == pytest.approx(step["waiting"], abs=1e-6)
        else:
            assert sum(step["idle_causes"].values()) == pytest.approx(step["idle"], abs=1e-6)
            assert step["busy"] + step["idle"] == pytest.approx(step["total"], abs=1e-6)
    for one in found["findings"]:
        assert (0 < one["share"] or 0 < one["bytes_per_step"] or 0 < one["bytes"]) and one["advice"], one
    return found


@pytest.mark.parametrize("rule", FAULTS)
def test_names_a_planted_gpu_fault_first(rule, tmp_path, monkeypatch):
    """A fault at twice the threshold is named. At half of it there is no finding."""
    monkeypatch.chdir(tmp_path)
    fault, at, said = FAULTS[rule]
    found = explained(gpu_trace(fault, at, us_of_share(0.2)))
    assert found["findings"] and found["findings"][0]["rule"] == rule, found["findings"]
    first = found["findings"][0]
    text = tool.cprof("explain", "t.json").out
    assert text.startswith(f"1. {rule}: ") and said in text.splitlines()[0], text
    assert first["steps"] == list(range(1, STEPS)) and 0.15 < first["share"] < 0.27, first
    assert sum(one["share"] for one in found["findings"]) <= 1
    assert explained(gpu_trace(fault, at, us_of_share(0.05)))["findings"] == []


def test_healthy_gpu_gives_no_finding(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = explained(gpu_trace(nothing, 0, 0))
    assert found["findings"] == [] and tool.cprof("explain", "t.json").out.startswith("nothing stands out\n")
    assert [step["left_out"] for step in found["steps"]] == ["first step"] + [None] * (STEPS - 1)
    assert all(step["computation"] > 0.98 * step["total"] for step in found["steps"][1:])


def test_one_long_step_is_reported_as_outlier(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = explained(gpu_trace(pause, 10, 3 * STEP_US, odd=(5,)))["findings"]
    assert [one["rule"] for one in found] == ["outlier-steps"] and found[0]["steps"] == [5]
    assert "cpu_late" in found[0]["title"] and "train.py(20)" in found[0]["title"]
    assert found[0]["ms_per_step"] == pytest.approx(3 * STEP_US / 1000 / (STEPS - 1), rel=0.1)


def test_recomputation_comes_from_the_flops_account(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = gpu_trace(nothing, 0, 0)
    account = {"flops": {"CUDA:0": {"flops": 1000, "recompute_flops": 250}}}
    tool.write("t.json", json.loads(pathlib.Path(path).read_text())["traceEvents"], cprof=account)
    found = explained("t.json")["findings"]
    assert [one["rule"] for one in found] == ["recomputation"] and found[0]["share"] == pytest.approx(0.25, abs=0.01)


def test_copies_and_collectives_below_kernels_are_hidden(tmp_path, monkeypatch):
    """Overlapping work counts once: as computation first, then as communication, then as a copy."""
    monkeypatch.chdir(tmp_path)
    events = [tool.span("ProfilerStep#1", 0.0, 100.0, "user_annotation", tid=4194305),
              tool.span("gemm", 10.0, 30.0, "kernel", 0, 7, device=0, stream=7, correlation=1),
              tool.span("ncclDevKernel_AllGather", 20.0, 40.0, "kernel", 0, 8, device=0, stream=8, correlation=2),
              tool.span("Memcpy DtoH (Device -> Pinned)", 5.0, 65.0, "gpu_memcpy", 0, 9, device=0, stream=9, correlation=3)]
    step, = explained(tool.write("t.json", events))["steps"]
    assert [step[name] for name in GPU_PARTS] == pytest.approx([0.030, 0.020, 0.015, 0.035])


def test_idle_after_a_timely_launch_is_not_cpu_late(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    events = [tool.span("ProfilerStep#1", 0.0, 100.0, "user_annotation", tid=4194305), tool.span("aten::mm", 1.0, 9.0)]
    for n, start in enumerate((10.0, 60.0)):
        events.append(tool.span("cudaLaunchKernel", 2.0 + 2 * n, 1.0, "cuda_runtime", correlation=n + 1))
        events.append(tool.span("gemm", start, 20.0, "kernel", 0, 7, device=0, stream=7, correlation=n + 1))
    step, = explained(tool.write("t.json", events))["steps"]
    assert step["idle_causes"]["other"] == pytest.approx(0.030)


def test_each_device_of_a_process_has_its_own_times(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    events = [tool.span("ProfilerStep#1", 0.0, 100.0, "user_annotation", tid=4194305)]
    events += [tool.span("gemm", 10.0, 20.0 * (device + 1), "kernel", device, 7, device=device, stream=7, correlation=device + 1) for device in range(2)]
    steps = explained(tool.write("t.json", events))["steps"]
    assert {step["device"]: step["computation"] for step in steps} == pytest.approx({"cuda:0": 0.02, "cuda:1": 0.04})


def test_straggler_is_named_with_its_extra_work(tmp_path):
    """The other rank's wait is the straggler's fault, not the collective's."""
    for rank in range(2):
        training(rank, slow_ms=5 * rank).write(tmp_path)
    found = explained(tmp_path)["findings"]
    assert (found[0]["rule"], found[0]["rank"]) == ("straggler", 1) and "exposed-communication" not in [one["rule"] for one in found], found
    assert found[0]["ms_per_step"] == pytest.approx(5, abs=0.1) and found[0]["evidence"][0]["what"] == "more of: computing"
    (tmp_path / "alike").mkdir()
    for rank in range(2):
        training(rank, slow_ms=5).write(tmp_path / "alike")
    assert "straggler" not in [one["rule"] for one in explained(tmp_path / "alike")["findings"]]


def test_ranks_and_explain_agree(tmp_path):
    """Their common fields are equal. A single rank has no comparison."""
    for rank in range(2):
        training(rank, slow_ms=5 * rank).write(tmp_path)
    found, ranks = explained(tmp_path), json.loads(tool.cprof("ranks", "--json", tmp_path).out)
    assert {key: ranks.pop(key) for key in ("schema", "traces")} == {key: found[key] for key in ("schema", "traces")}
    assert found["ranks"] == ranks and ranks["worst"]["rank"] == 1
    for row in found["steps"]:
        assert row["total"] == pytest.approx(ranks["steps"][str(row["step"])][str(row["rank"])]["time_ns"] / 1e6)
    assert explained(next(tmp_path.iterdir()))["ranks"] is None


@pytest.mark.parametrize("path", tool.KINETO_TRACES, ids=lambda path: path.name)
def test_parts_add_up_on_real_traces(path):
    assert explained(path)["steps"]


@pytest.mark.parametrize("name, rule", [("launch-bound", "launch-bound"), ("healthy", None)])
def test_explains_transformers_on_an_h200(name, rule):
    """Recorded by cprof, two steps each, cut down for this test. One model is tiny (d = 128, batches of 2 x 32), one keeps the GPU busy."""
    found = explained(FIXTURES / f"h200-{name}.json.gz")
    assert [one["rule"] for one in found["findings"][:1]] == ([rule] if rule else [])
    _, step = found["steps"]  # findings leave out the first step
    share = step["idle"] / step["total"]
    assert share > 0.95 if rule else share < 0.05, share
    told = tool.cprof("explain", FIXTURES / f"h200-{name}.json.gz").out
    assert ("recorded with stacks, which slow the CPU" in told) == (rule is not None), told


def cpu_trace(stacks, us=40, calls=150, nested=0, lengths=(1.0,)):
    """Steps with calls of a small operator from `stacks` different stacks, `nested` operators inside each, and a large operator at the end.
    lengths: factors of the large operator, used in turn."""
    events, at = [], 0.0
    for number in range(12):
        begin = at
        for n in range(calls):
            frames = f"torch/nn/modules/module.py({n % stacks}): inner;train.py(20): forward;"
            events.append(tool.span("aten::linear", at, us, Call_stack=frames))
            events += [tool.span("aten::view", at + 1 + 2 * k, 1, Call_stack=frames) for k in range(nested)]
            at += us
        long = 10_000 * lengths[number % len(lengths)]
        events.append(tool.span("aten::mm", at, long, Call_stack="train.py(30): main;"))
        at += long
        events.append(tool.span(f"ProfilerStep#{number}", begin, at - begin, "user_annotation", tid=4194305))
    return tool.write("t.json", events)


def test_operators_of_layers_are_not_a_loop(tmp_path, monkeypatch):
    """Many calls from one stack are a loop; layers call from several stacks. Operators nested in another do not count by themselves."""
    monkeypatch.chdir(tmp_path)
    found = explained(cpu_trace(1))["findings"]
    assert [one["rule"] for one in found] == ["tiny-operators"] and "150 small operators a step: aten::linear at train.py(20): forward" in found[0]["title"]
    assert explained(cpu_trace(4))["findings"] == []
    assert explained(cpu_trace(1, us=60, calls=30, nested=20))["findings"] == []
    assert explained(cpu_trace(1, us=60, nested=20))["findings"] == []


def test_every_third_long_step_is_an_outlier(tmp_path, monkeypatch):
    """As in a program that saves a checkpoint every third step."""
    monkeypatch.chdir(tmp_path)
    found = explained(cpu_trace(4, lengths=(1.0, 1.0, 3.0)))["findings"]
    assert [one["rule"] for one in found] == ["outlier-steps"] and found[0]["steps"] == [2, 5, 8, 11]
    assert found[0]["title"].startswith("steps 2, 5, 8, 11 take far longer: 20.0 ms more each of operators: aten::mm at train.py(30)"), found


def test_title_reports_the_longest_outlier_alone(tmp_path, monkeypatch):
    """The mean of a very long step and a slightly long step would describe neither."""
    monkeypatch.chdir(tmp_path)
    found = explained(cpu_trace(4, lengths=[50.0 if n == 8 else 4.0 if n == 10 else 1.0 for n in range(12)]))["findings"]
    assert [one["rule"] for one in found] == ["outlier-steps"] and found[0]["steps"] == [8, 10]
    assert found[0]["title"].startswith("step 8 takes far longer (1 more by less): 490.0 ms more of operators: aten::mm at train.py(30)"), found


# ---- programs ----

@pytest.mark.parametrize("fault, size, rule, said", [("none", 0, None, ""), ("input", 100, "input-bound", "enumerate(DataLoader)"),
                                                     ("python", 100, "python", "from planted.py(37): <module> to planted.py(44)"),
                                                     ("loop", 2000, "tiny-operators", "planted.py(27): add_up"),
                                                     ("leak", 16, "leak", "aten::repeat at planted.py(43): <module>"),
                                                     ("outlier", 2000, "outlier-steps", "step 8 takes far longer")])
def test_names_a_planted_fault_of_a_program_first(fault, size, rule, said, tmp_path):
    result = support.run([sys.executable, SCRIPTS / "planted.py", fault, size], tmp_path, cwd=SCRIPTS, ACTIVE=12, WITH_STACK=1, NATIVE_STACK=0)
    assert result.rc == 0, result.err
    found = explained(*result.traces)
    rules = [one["rule"] for one in found["findings"]]
    # A busy machine may stop the program for long, which is reported as an outlier step.
    rules = [one for one in rules if one != "outlier-steps" or rule == one]
    assert rules[:1] == ([rule] if rule else []), found["findings"]
    assert not rule or said in next(one["title"] for one in found["findings"] if one["rule"] == rule), found["findings"]


def test_generated_code_is_no_line_of_the_program():
    """The innermost frame of an operator that Inductor calls is in a file of its cache."""
    cache = "/tmp/torchinductor_me/nq/cnq4nyok57nug36fu24fi767d4ht2czg7bojv2efsfdke35wlnlt.py"
    frames = [f"{cache}(145): call", "torch/_inductor/output_code.py(763): __call__", "torch/_dynamo/eval_frame.py(1446): _fn", "c.py(9): forward",
              "torch/nn/modules/module.py(1789): _call_impl", "c.py(16): <module>"]
    assert line_of(frames) == "c.py(9): forward"
    assert line_of([frame.replace("/nq/", "/ab/") for frame in frames]) == frames[0].replace("/nq/", "/ab/"), "a name like that alone"
