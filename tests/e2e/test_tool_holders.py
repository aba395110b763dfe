# SPDX-License-Identifier: Apache-2.0
"""`cprof memory`: the holders at the peak and at the end, and leaks. The page of `cprof memory-timeline` shows the same."""

import json
import re
import sys

import pytest

import support
import tool
from cprof.tool.memory_holders import _growth

KB = 1024


def steps(path, kept, n=6, **more):
    """Each step takes 64 KB for its backward pass. In the module Net.act it takes what `kept` says: (bytes, steps until the release)."""
    events, address = [], 100
    for step in range(n):
        start = 1e4 * step
        events += [tool.span(f"ProfilerStep#{step}", start, 1e4, cat="user_annotation", tid=4194305),
                   tool.span("aten::relu", start + 100, 100, Module_Hierarchy="Net.act",
                             Call_stack="at::empty (libtorch_cpu.so);torch/nn/modules/activation.py(9): forward;net.py(7): forward;train.py(3): <module>;"),
                   tool.span("aten::empty", start + 110, 50),
                   tool.span("aten::mm", start + 300, 100, Module_Hierarchy="Net.fc"),
                   tool.span("autograd::engine::evaluate_function: MmBackward0", start + 500, 100),
                   tool.memory(start + 310, 64 * KB, 1), tool.memory(start + 510, -64 * KB, 1)]
        for size, held in kept(step):
            address += 1
            events.append(tool.memory(start + 120, size, address))
            if held is not None and step + held < n:
                events.append(tool.memory(start + 1e4 * held + 900, -size, address))
    return tool.write(path, events, **more)


def test_names_a_leak_by_operator_module_and_line(tmp_path):
    trace = steps(tmp_path / "t.json", lambda step: [(4 * KB, None)])
    lines = tool.cprof("memory", trace).out.splitlines()
    assert lines[:2] == ["cpu: peak 88.00 KB in step 5; 24.00 KB at the end, 0 B at the begin",
                         "aten::relu in Net.act at net.py(7): forward grows by 4.00 KB a step, in 5 of 5 steps"]
    assert lines[3].split() == ["peak", "end", "per", "step", "pieces", "for", "operator", "module", "line"]
    assert re.split("  +", lines[4].strip()) == ["64.00 KB", "0 B", "1", "activation", "aten::mm", "Net.fc"]
    assert re.split("  +", lines[5].strip()) == ["24.00 KB", "24.00 KB", "+4.00 KB", "6", "kept", "aten::relu", "Net.act", "net.py(7): forward"]
    device, = json.loads(tool.cprof("memory", trace, "--json").out)["devices"]
    assert (device["begin_bytes"], device["peak_bytes"], device["end_bytes"]) == (0, 88 * KB, 24 * KB)
    assert [(one["operator"], one["end_bytes"], one["end_pieces"], one["growth_bytes_per_step"], one["grew_in_steps"])
            for one in device["holders"] if one["growth_bytes_per_step"]] == [("aten::relu", 24 * KB, 6, 4 * KB, 5)]


@pytest.mark.parametrize("kept", [lambda step: [(4 * KB, 1)], lambda step: [(4 * KB, None)] if step == 0 else [],
                                  lambda step: [(4 * KB, None if step in (1, 3) else 0)]], ids=["a step longer", "once", "in two of six"])
def test_reports_no_leak_without_steady_growth(kept, tmp_path):
    done = tool.cprof("memory", steps(tmp_path / "t.json", kept))
    assert done.out.splitlines()[1] == "no holder grows from step to step" and "per step" not in done.out


@pytest.mark.parametrize("levels, growth", [
    ([0, 10, 20, 30], (10, 3)), ([5, 5, 5, 5], (0, 0)), ([0, 10, 20], (0, 0)), ([0, 10, 20, 20, 30], (10, 3)),
    ([0, 10, 20, 30, 40, 0, 10, 20, 30, 40, 0], (0, 0)),  # a buffer that is emptied now and then
    ([0, 10, 10, 20, 20, 30], (0, 0)), ([30, 20, 10, 0], (0, 0))])
def test_growth_needs_steady_rises(levels, growth):
    assert _growth(levels) == growth


def test_growth_needs_four_steps(tmp_path):
    few = tool.cprof("memory", steps(tmp_path / "t.json", lambda step: [(4 * KB, None)], n=3)).out
    assert "growth needs 4 steps or more; the trace has 3" in few
    none = tool.write(tmp_path / "n.json", [tool.span("aten::mm", 0, 100), tool.memory(10, 64, 1)])
    assert tool.cprof("memory", none).out.startswith("cpu: peak 64 B; 64 B at the end, 0 B at the begin\ngrowth needs 4 steps")


def test_reports_each_device_and_earlier_memory(tmp_path):
    trace = tool.write(tmp_path / "t.json", [
        tool.span("aten::mm", 0, 100), tool.memory(10, 1 * KB, 1, total=1 * KB), tool.memory(20, 2 * KB, 1, device=1, index=0, total=10 * KB),
        tool.memory(30, -3 * KB, 2, device=1, index=0, total=7 * KB)])
    out = tool.cprof("memory", trace).out
    assert [line for line in out.splitlines() if "peak " in line and "begin" in line] == [
        "cuda:0: peak 10.00 KB; 7.00 KB at the end, 8.00 KB at the begin", "cpu: peak 1.00 KB; 1.00 KB at the end, 0 B at the begin"]
    gpu = tool.cprof("memory", trace, "--device", "cuda").out
    assert "cpu:" not in gpu and re.search(r"8.00 KB +5.00 KB +2 +unknown +\(taken before the trace\)", gpu)
    tool.refused(tool.cprof("memory", trace, "--device", "cuda:3"), "cpu, cuda:0")
    tool.refused(tool.cprof("memory", tool.write(tmp_path / "w.json", [tool.span("aten::add", 0, 1)])), "CPROF_PROFILE_MEMORY=1")


def test_reads_modules_and_lines_of_torch_traces(tmp_path):
    names = ["train.py(3): <module>", "nn.Module: Net_0", "net.py(7): forward", "nn.Module: ReLU_0", "torch/nn/modules/activation.py(9): forward"]
    trace = tool.write(tmp_path / "t.json", [*(tool.span(name, n, 100 - 2 * n, cat="python_function") for n, name in enumerate(names)),
                                             tool.span("aten::relu", 20, 40), tool.memory(30, 64, 1)])
    holder, = json.loads(tool.cprof("memory", trace, "--json").out)["devices"][0]["holders"]
    assert (holder["operator"], holder["module"], holder["line"]) == ("aten::relu", "Net_0.ReLU_0", "net.py(7): forward")


def test_escapes_names_in_terminal_and_page(tmp_path):
    evil = "\x1b]0;title\x07<script>alert(1)</script>\nover"
    events = [tool.span(evil, 0, 100, Module_Hierarchy=evil, Call_stack=f"{evil}(1): f;"), tool.memory(10, 64, 1)]
    trace = tool.write(tmp_path / "t.json", events)
    out = tool.cprof("memory", trace).out
    assert all(c.isprintable() or c == "\n" for c in out) and not re.search("^ *over", out, re.M)
    assert tool.cprof("memory-timeline", trace, "-o", tmp_path / "t.html").rc == 0
    assert "<script>alert" not in (tmp_path / "t.html").read_text()


def test_page_shows_the_same_holders(tmp_path):
    trace = steps(tmp_path / "t.json", lambda step: [(4 * KB, None)])
    assert tool.cprof("memory-timeline", trace, "-o", tmp_path / "t.html").rc == 0
    text = (tmp_path / "t.html").read_text()
    assert "aten::relu in Net.act at net.py(7): forward grows by 4.00 KB a step, in 5 of 5 steps" in text
    peak, end = (re.findall("<tr>(<td.*?)</tr>", table) for table in re.findall(r"<tbody>(.*?)</tbody>", text))
    assert [re.sub("<[^>]*>", "|", row) for row in end] == ["|24.00 KB||6||+4.00 KB||kept||aten::relu||Net.act||net.py(7): forward|"]
    assert len(peak) == 2 and "unknown" not in "".join(peak + end)
    assert tool.cprof("memory-timeline", trace, "-o", tmp_path / "t.raw.json").rc == 0
    assert {row[3] for row in json.loads((tmp_path / "t.raw.json").read_text())} == {4, 7}  # torch's numbers


LEAK = """
import torch
net = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.Linear(64, 8))
optimizer, kept = torch.optim.SGD(net.parameters(), lr=0.1), []
net[1].register_forward_hook(lambda module, inputs, output: kept.append(output.detach()))
for _ in range(8):
    optimizer.zero_grad()
    net(torch.ones(32, 64)).sum().backward()
    optimizer.step()
"""


def test_names_the_leak_of_a_training(tmp_path):
    (tmp_path / "leak.py").write_text(LEAK)
    result = support.run([sys.executable, "leak.py"], tmp_path, ACTIVE=6, WITH_STACK=1, WITH_MODULES=1, NATIVE_STACK=0)
    assert result.rc == 0, result.err
    out = tool.cprof("memory", result.traces[0]).out
    assert out.splitlines()[1] == "aten::gelu in Sequential.1 at leak.py(8): <module> grows by 8.00 KB a step, in 5 of 5 steps", out
