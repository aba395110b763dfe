# SPDX-License-Identifier: Apache-2.0
"""CPROF_WITH_MODULES: forward and backward operators have their module, and a row shows the running modules. The program behaves
as without it."""

import collections
import json
import re
import sys

import pytest

import support
from conftest import matrix
from torch_runs import needs_torch_2, printed, run, trace

torch = pytest.importorskip("torch", reason="PyTorch is not installed in .venv")

KEY = "Module Hierarchy"


@pytest.fixture(scope="module")
def eager(tmp_path_factory):
    return run("modules.py", tmp_path_factory.mktemp("eager"), "eager", WITH_MODULES=1)


@pytest.fixture(scope="module")
def modules_of(eager):
    """{operator: Counter of modules} of step 3 on the main thread."""
    one = trace(eager)
    begin, end = one.steps[3]
    main = max(collections.Counter(e["tid"] for e in one.ops()).items(), key=lambda item: item[1])[0]
    found = collections.defaultdict(collections.Counter)
    for e in one.ops():
        if begin <= support.span_ns(e)[0] < end and e["tid"] == main:
            found[e["name"]][e["args"].get(KEY)] += 1
    return found


def test_forward_operators_have_their_module(modules_of):
    assert modules_of["aten::conv2d"] == {"Net.layer1.0.conv1": 1, "Net.layer1.1.conv1": 1}
    assert modules_of["aten::relu"] == {"Net.layer1.0.act": 1, "Net.layer1.1.act": 1}
    assert modules_of["aten::flatten"] == {"Net": 1}
    assert modules_of["aten::acos"] == {None: 1}, "an operator outside all modules has no module"


def test_shared_module_has_its_first_name(modules_of):
    """The module has the first of its names, as in named_modules(). A module list is part of the path."""
    assert modules_of["aten::linear"]["Net.fc"] == 2 and modules_of["aten::linear"]["Net.again"] == 0
    assert modules_of["aten::linear"]["Net.blocks.0"] == 1 and modules_of["aten::tanh"]["Net.blocks.1"] == 1


def test_unnamed_module_has_its_class_name(modules_of):
    """A module made in forward() is no attribute, so its class stands for its name. If it is an attribute when called, it has that name."""
    assert modules_of["aten::sigmoid"] == {"Net.layer1.0.(Sigmoid)": 1, "Net.layer1.1.(Sigmoid)": 1}
    assert modules_of["aten::linear"]["Changes.late"] + modules_of["aten::linear"]["Changes.(Linear)"] == 1


def test_backward_operators_have_their_module(modules_of):
    assert modules_of["ConvolutionBackward0"] == {"Net.layer1.0.conv1": 1, "Net.layer1.1.conv1": 1}
    assert modules_of["aten::convolution_backward"] == modules_of["ConvolutionBackward0"], "operators inside an autograd node have the node's module"
    assert modules_of["autograd::engine::evaluate_function: ReluBackward0"] == {"Net.layer1.0.act": 1, "Net.layer1.1.act": 1}
    assert modules_of["SigmoidBackward0"] == {"Net.layer1.1.(Sigmoid)": 1}
    assert modules_of["SumBackward0"] == {None: 2}, "sum() is called outside the models"


def test_modules_end_after_exceptions_and_recursion(modules_of):
    assert modules_of["aten::exp"] == {"Raises": 1}, "the module that raised has ended"
    assert modules_of["aten::acos"] == {None: 1}, "so has the module around it"
    assert modules_of["aten::sin"] == {"Nested": 2} and modules_of["aten::cos"] == {"Nested": 1}
    assert modules_of["aten::tan"] == {None: 1}, "a __call__ that runs no hooks has no module"


def test_checkpointed_forward_keeps_its_modules(modules_of):
    """The forward pass that is repeated inside the backward pass has the same modules."""
    assert modules_of["aten::linear"]["Checkpointed.body.0"] == 2 and modules_of["aten::tanh"]["Checkpointed.body.1"] == 2
    assert modules_of["TanhBackward0"]["Checkpointed.body.1"] == 1


def test_one_module_in_several_threads(eager):
    """Several threads call the same module at the same time, without the model around it."""
    one = trace(eager)
    paths = collections.defaultdict(set)
    for e in one.ops("^aten::conv2d$"):
        paths[e["tid"]].add(e["args"][KEY])
    assert len(paths) > 4 and set(map(frozenset, paths.values())) == {frozenset({"Net.layer1.0.conv1", "Net.layer1.1.conv1"})}


def test_module_rows_nest_beside_their_threads(eager):
    """Each thread has a row of modules, named and nested. Operators lie inside the span of their module."""
    one = trace(eager)
    support.validate(one.data)
    names = {e["tid"]: e["args"]["name"] for e in support.events(one.data, ph="M", name="thread_name")}
    spans = one.spans("nn_module")
    assert spans and all(names[e["tid"]].startswith("modules of thread ") for e in spans)
    row = {int(re.search(r"\d+$", names[e["tid"]])[0]): e["tid"] for e in spans}
    where = collections.defaultdict(list)
    for e in spans:
        where[e["tid"], e["name"]].append(support.span_ns(e))
    checked = 0
    for e in one.ops(r"^aten::(conv2d|linear|tanh|sigmoid)$"):
        start, end = support.span_ns(e)
        assert any(a <= start and end <= b for a, b in where[row[e["tid"]], e["args"][KEY]]), e
        checked += 1
    assert checked > 50


def test_hooks_are_removed_after_recording(eager):
    done = printed(eager)
    assert done["hooks"] == [2, 2, 2, 2, 2, 0], "hooks exist only while recording"
    assert done["left"] == 0 and done["alive"] == 0, "no hook is left, and no module is kept alive"


@needs_torch_2("torch.compile came with 2.0")
@pytest.mark.parametrize("mode", matrix(["compiled", "late"], "late"))
def test_torch_compile_gives_the_same_graphs(mode, tmp_path):
    """Graphs, graph breaks, compiled frames and warnings are the same. One line reports what is not recorded."""
    bare = run("modules.py", tmp_path / "bare", mode, env={"WHOLE_TORCH": "1"}, preload=False)
    result = run("modules.py", tmp_path / "traced", mode, WITH_MODULES=1)
    assert printed(result) == printed(bare) and printed(bare)["graphs"]
    assert len([line for line in result.complaints if "torch.compile" in line]) == len(result.complaints) == 1, result.err
    [note] = json.loads(result.traces[0].read_text())["cprof"]["notes"]
    assert "torch.compile" in note


@needs_torch_2("torch._dynamo came with 2.0")
def test_no_finder_of_the_program_is_skipped(tmp_path):
    """cprof's finder leaves the list of finders while the import of torch._dynamo walks it."""
    result = support.run(support.python("""
import torch
class Own:
    asked = []
    def find_spec(name, *rest):
        Own.asked.append(name)
sys.meta_path.insert(0, Own)
net = torch.nn.Linear(2, 2)
while sys.meta_path[0] is Own:
    net(torch.ones(1, 2)); step()
import torch._dynamo
print(sys.meta_path[0] is Own, Own.asked.count("torch._dynamo"))
"""), tmp_path, WITH_MODULES=1, WARMUP=0, ACTIVE=1000000)
    assert (result.rc, result.out) == (0, "True 1\n"), result.err


@needs_torch_2("its profiler writes no Module Hierarchy without Kineto")
def test_torchscript_modules_match_torchs(tmp_path):
    reference = tmp_path / "torch.json"
    printed(run("modules.py", tmp_path / "torch", "script", reference, preload=False))
    theirs = [(e["name"], e["args"].get(KEY)) for e in
              sorted(support.events(json.loads(reference.read_text()), ph="X", cat="cpu_op"), key=lambda e: (e["ts"], -e["dur"]))]
    one = trace(run("modules.py", tmp_path / "cprof", "script", WITH_MODULES=1))
    begin, end = one.steps[4]
    ours = [(e["name"], e["args"].get(KEY)) for e in one.ops() if begin <= support.span_ns(e)[0] < end]
    # the script's own operators between the model and the end of the step come last
    assert ours[:len(theirs)] == theirs
    # functions of submodules are frames; whether the module's own function (SELF) is one depends on torch's version
    assert any("(Sequential)::forward.1(Leaf)::forward." in (path or "") for _, path in ours), {path for _, path in ours}


@pytest.mark.parametrize("name", ["SIGINT", "SIGALRM"])
def test_exception_of_a_signal_handler_reaches_the_program(tmp_path, name):
    """The signal arrives while cprof asks a module for its names. cprof hides errors of that query from the program, but not this exception."""
    result = support.run([sys.executable, "-c", """
import signal, sys, torch
class Late(Exception): pass
def late(*unused): raise Late
signal.signal(signal.SIGALRM, late)
class Slow(torch.nn.Linear):
    def named_modules(self, *args, **kwargs):
        if armed == "signal": signal.raise_signal(getattr(signal, sys.argv[1]))
        if armed == "error": raise ValueError
        return super().named_modules(*args, **kwargs)
for armed in "error", "signal":
    net = Slow(4, 4)
    try:
        net(torch.ones(2, 4))
        print("done")
    except BaseException as error:
        print(type(error).__name__)
""", name], tmp_path, WITH_MODULES=1, SCHEDULE_SCOPE="none")
    assert (result.rc, result.out) == (0, "done\n" + {"SIGINT": "KeyboardInterrupt\n", "SIGALRM": "Late\n"}[name]), result.err


@pytest.mark.parametrize("where", ["main", "thread"])
def test_reports_hooks_that_cannot_be_installed(tmp_path, where):
    """CPython lets cprof install its hooks in the main thread only. While that waits in a join(), eager modules are missing: a line says so."""
    result = run("joined_thread.py", tmp_path, where, WITH_MODULES=1, STEP="manual", SCHEDULE_SCOPE="none")
    written = json.loads(result.traces[0].read_text())
    products = support.events(written, ph="X", cat="cpu_op", name="aten::addmm")
    named = [e for e in products if e["args"].get(KEY)]
    line = "operators begin without eager modules"
    if where == "main":
        assert len(named) == len(products) == 300 and line not in result.err
    else:
        assert not named and len(products) == 300
        assert result.err.count(line) == 1 and any(note.startswith(line) for note in written["cprof"]["notes"])
