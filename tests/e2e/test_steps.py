# SPDX-License-Identifier: Apache-2.0
"""Steps without a code change: what marks them, where their edges are, and that no operator of a step is missing."""

import collections
import pathlib
import re
import shutil
import subprocess

import pytest

import support
from conftest import FULL, ROOT, matrix
from torch_runs import ALWAYS, PYTHONS, assert_told, both_pythons, needs_torch_2, printed, python_or_skip, run, torch_version, trace, traces


def assert_probes(one, wanted, count):
    """The steps in `wanted` hold these probes; the others of `count` steps hold none. Each step begins a nanosecond after the one before."""
    assert one.by_step(one.ranges(r"^probe \d+$")) == {step: [f"probe {i}" for i in probes] for step, probes in wanted.items()}
    assert sorted(one.steps) == list(range(count))
    edges = [edge for n in sorted(one.steps) for edge in one.steps[n]]
    assert [edge + 1 for edge in edges[1:-1:2]] == edges[2::2], "a step begins a nanosecond after the one before"


def assert_one_probe_each(one, count):
    """Step i holds probe i."""
    assert_probes(one, {i: [i] for i in range(count)}, count)


@both_pythons
def test_optimizer_marks_steps(which, tmp_path):
    """Only the end of the first optimizer's outermost step() ends a step. If that optimizer was freed, the next training's optimizer takes
    over with its first step. If it is kept, an optimizer that has never stepped before takes over after 10 steps, and one that alternated
    with it after 100."""
    # kept_folds comes before the loops with alternating optimizers: its optimizer might otherwise reuse the address of one of these
    done = run("steps.py", tmp_path, "one", "folds", "kept_folds", "two_classes", "two_of_one", python=python_or_skip(which), **ALWAYS)
    one = trace(done)
    assert printed(done)["loops"] == [6, 6, 23, 6, 6]
    wanted = {i: [i] for i in range(15)}
    wanted[15] = list(range(15, 26))  # ten steps of the second training that do not count, and the first that does
    wanted.update({i: [i + 10] for i in range(16, 37)})
    assert_probes(one, wanted, 37 + 2 + 110 - 100)  # the second optimizer made two steps after the first one's last
    assert len(one.ranges("^whole iteration$")) == 6, "no range is cut by a step's edge"


# pattern: (probes by step, number of steps)
BY_CLASS = {"*": ({**{4 * i + 3: [i] for i in range(6)}, **{24 + i: [6 + i] for i in range(6)}}, 30),
            "SGD": ({**{3 * i + 3: [i] for i in range(5)}, 18: [5, 6], **{18 + 2 * i: [6 + i] for i in range(1, 6)}}, 30),
            "[!S]*": ({**{i: [i] for i in range(6)}, None: list(range(6, 12))}, 6),
            "Sharded": ({0: list(range(7)), **{i: [6 + i] for i in range(1, 6)}}, 6)}


@pytest.mark.parametrize("which, pattern", matrix([(which, pattern) for which in PYTHONS for pattern in BY_CLASS],
                                                  ("own", "SGD"), ("own", "Sharded"), ("system", "SGD")))
def test_optimizers_of_a_class_mark_steps(which, pattern, tmp_path):
    """CPROF_STEP=optimizer:GLOB: the end of each outermost matching step(), whichever optimizer stepped first. Also several times in
    an iteration, and inside the step() of an optimizer that does not match."""
    done = run("steps.py", tmp_path, "gan", "sharded", python=python_or_skip(which), STEP=f"optimizer:{pattern}", **ALWAYS)
    one = trace(done)
    assert_probes(one, *BY_CLASS[pattern])
    assert one.account["optimizers"] == {"SGD": 18, "Adam": 6, "Sharded": 6}, "only outermost step() calls count"
    assert "stepped" not in done.err, "with a pattern, no list of optimizers is printed"


def test_optimizers_that_do_not_match_are_named(tmp_path):
    """If the pattern matches none, a line at exit lists the optimizers that stepped."""
    done = run("steps.py", tmp_path, "gan", STEP="optimizer:Adam?", **ALWAYS)
    assert done.rc == 0 and len(done.traces) == 1
    assert done.complaints == ["CPROF_STEP=optimizer:Adam?: no optimizer of such a class stepped; those that did: SGD (18), Adam (6); no step was marked"]


def test_optimizers_of_several_classes_are_named(tmp_path):
    """The exit line lists the optimizers and names the setting to choose one; without it the first optimizer marks the steps."""
    done = run("steps.py", tmp_path, "gan", **ALWAYS)
    one = trace(done)
    assert len(one.steps) == 18 and one.account["optimizers"] == {"SGD": 18, "Adam": 6}
    assert done.said[0].endswith(" (optimizers that stepped: SGD (18), Adam (6); CPROF_STEP=optimizer:GLOB chooses by class)"), done.said


@both_pythons
def test_dataloader_marks_steps(which, tmp_path):
    """Each batch is a step, also over several epochs, whose last fetch returns no batch, and if a loop is left early."""
    done = run("steps.py", tmp_path, "infer", python=python_or_skip(which), STEP="dataloader", **ALWAYS)
    one = trace(done)
    assert_one_probe_each(one, 8)
    fetches = one.by_step(one.ranges(r"^enumerate\(DataLoader\)#"))
    assert [len(fetches[i]) for i in range(8)] == [1, 1, 1, 1, 1, 2, 1, 1] and len(fetches[None]) == 1


@both_pythons
def test_forward_marks_steps(which, tmp_path):
    """Each outermost module call is a step; with torch 2.1 and later, also a call that raises. A loss module marks no step: there is
    one step for each batch, and the loss after the last one comes after its step."""
    python = python_or_skip(which)
    tells = torch_version(which) >= "2"
    done = run("steps.py", tmp_path, "criterion", f"forward:{2 if tells else -1}", "criterion", python=python, STEP="forward", **ALWAYS)
    assert_one_probe_each(trace(done), printed(done)["iterations"])


def test_explicit_steps_win(tmp_path):
    """After the first cprof_step(), no optimizer marks a step."""
    done = run("steps.py", tmp_path, "explicit", **ALWAYS)
    assert_one_probe_each(trace(done), printed(done)["iterations"])


def test_first_explicit_step_after_an_optimizer_counts_once(tmp_path):
    """The loop of preload/README.md. Each iteration is one step from the first on, and the file name has the samples of its steps."""
    code = """
import torch
net = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for i in range(6):
    push(b"iteration")
    net(torch.ones(2, 4)).sum().backward()
    if i == 0: time.sleep(1)  # even on a busy machine, the time after the optimizer's step is short beside the iteration
    optimizer.step()
    pop()
    _c.cprof_step_samples(ctypes.c_int64(2), ctypes.c_int64(0))
print(_c.cprof_step_number())
"""
    done = support.run(support.python(code), tmp_path, WARMUP=1, ACTIVE=4, FILENAME="b{batch}-s{sample}.json")
    assert (done.rc, done.out, done.names) == (0, "6\n", ["b5-s10.json"]), done.err
    found = support.load(done.traces[0])
    steps = [support.span_ns(e) for e in support.events(found, ph="X", name=re.compile("ProfilerStep"))]
    began = [support.span_ns(e)[0] for e in support.events(found, ph="X", name="iteration")]
    assert [sum(start <= at < end for at in began) for start, end in steps] == [1] * 4


def test_manual_ignores_optimizers(tmp_path):
    """Without a mark there is one trace without steps, and no list of optimizers."""
    done = run("steps.py", tmp_path, "gan", STEP="manual", **ALWAYS)
    one = trace(done)
    assert one.steps == {} and "stepped" not in done.err
    assert len(one.ranges("^probe")) == 6


def counts(events, edges):
    """A Counter of the operators with their shapes within the edges, and the names of those that cross an edge."""
    inside, across = collections.Counter(), []
    for e in events:
        start, end = support.span_ns(e)
        if edges[0] <= start and end <= edges[1]:
            inside[e["name"], str(e["args"].get("Input Dims")), str(e["args"].get("Input type"))] += 1
        elif start < edges[0] < end or start < edges[1] < end:
            across.append(e["name"])
    return inside, across


@needs_torch_2("built without Kineto, its profiler writes no shapes to compare with")
def test_every_step_has_all_operators(tmp_path):
    """In 20 windows of very short steps, every step has the operators that torch.profiler finds in it. None is missing at a
    window's beginning or end, and none crosses an edge."""
    reference = printed(run("fast_steps.py", tmp_path, 7, tmp_path / "torch.json", preload=False))
    wanted = support.parse((tmp_path / "torch.json").read_bytes())
    step = next(e for e in wanted["traceEvents"] if e["name"] == "ProfilerStep#4")
    wanted, _ = counts(support.events(wanted, ph="X", cat="cpu_op"), support.span_ns(step))
    assert sum(wanted.values()) > 40

    done = run("fast_steps.py", tmp_path / "cprof", 20 * 6 + 3, WAIT=2, WARMUP=1, ACTIVE=3, REPEAT=20, RECORD_SHAPES=1)
    print(reference, printed(done))
    windows = traces(done)
    assert_told(done)
    assert len(windows) == 20
    for window, one in enumerate(windows):
        assert one.lost == 0 and one.account["complete"], one.account
        assert sorted(one.steps) == [6 * window + 3, 6 * window + 4, 6 * window + 5]
        for number, edges in one.steps.items():
            found, across = counts(one.ops(), edges)
            assert across == [] and found == wanted, f"step {number}: {found - wanted} too many, {wanted - found} missing"
        assert sum(wanted.values()) * 3 == len(one.ops())


def test_steps_are_found_without_recording_operators(tmp_path):
    """CPROF_ACTIVITIES=cuda records no operators, but finds the steps."""
    one = trace(run("steps.py", tmp_path, "infer", STEP="dataloader", ACTIVITIES="cuda", **ALWAYS))
    assert one.ops() == [] and sorted(one.steps) == list(range(8))


# kind of loop: steps of each epoch that an exhausted DataLoader ends
EPOCHS = {"plain": [5, 5, 5], "workers": [5, 5, 5], "accumulated": [2, 2, 2], "ahead": [5, 5, 5], "accelerate": [3, 3, 3], "stream": [4, 7],
          "left": []}


@both_pythons
def test_dataloaders_end_epochs(which, tmp_path):
    """An exhausted DataLoader whose batches led to steps ends an epoch. Validation loops and loops that are left early do
    not."""
    done = run("epochs.py", tmp_path, *EPOCHS, python=python_or_skip(which), WARMUP=0, ACTIVE=1, REPEAT=0,
               FILENAME="{epoch}-{batch_in_epoch}-{batch}.json")
    steps = sum(printed(done))
    epochs = sum(EPOCHS.values(), [])
    assert steps == sum(epochs) + 3 * 3, "steps of loops that were left early follow the last epoch"
    wanted, epoch, in_epoch = [], 0, 0
    for batch in range(1, steps + 1):
        in_epoch += 1
        wanted.append(f"{epoch}-{in_epoch}-{batch}.json")
        if epoch < len(epochs) and in_epoch == epochs[epoch]:
            epoch, in_epoch = epoch + 1, 0
    assert set(wanted) <= set(done.names) and len(done.names) <= len(wanted) + 1  # one for the partial last step


@pytest.mark.parametrize("settings,why", [({"SCHEDULE_SCOPE": "epoch"}, "CPROF_SCHEDULE_SCOPE=epoch counts"),
                                          ({"FILENAME": "{epoch}-{batch}.json"}, "CPROF_FILENAME counts"), ({}, None)])
def test_reports_settings_that_need_epochs(settings, why, tmp_path):
    """A line reports missing epochs only if the settings count epochs."""
    done = support.run(support.python("steps(9)"), tmp_path, WARMUP=0, ACTIVE=1, **settings)
    assert [f"no end of an epoch was seen in 9 steps, and {why}" in line for line in done.complaints] == ([True] if why else []), done.err


def test_epoch_scope_replays_the_schedule(tmp_path):
    """Each epoch of five steps replays the schedule, and its end saves its last two steps."""
    done = run("epochs.py", tmp_path, "plain", SCHEDULE_SCOPE="epoch", WAIT=2, WARMUP=1, ACTIVE=4,
               FILENAME="ep{epoch}-ba{batch}.json")
    assert done.complaints == [] and "stepped" not in done.err, "with one class of optimizer, no list is printed"
    assert done.names == ["ep0-ba5.json", "ep1-ba10.json", "ep2-ba15.json"]
    assert [sorted(one.steps) for one in traces(done)] == [[3, 4], [8, 9], [13, 14]]
    assert all(one.lost == 0 and not one.account["partial"] for one in traces(done))


def test_cpp_training_marks_steps_explicitly(tmp_path):
    """libtorch without Python: step() of its optimizers opens no range, so it marks no step. A line lists what marks steps.
    `make test` compiles the program without the optimizer."""
    if not shutil.which("g++"):
        pytest.skip("no g++ on this machine")
    torch = pytest.importorskip("torch")
    include, library = (pathlib.Path(torch.__file__).parent / name for name in ("include", "lib"))
    program = tmp_path / "training"
    subprocess.run(["g++", "-std=c++20", "-w", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", *["-DOPTIMIZER"] * FULL,
                    f"-I{ROOT}", f"-I{include}", f"-I{include}/torch/csrc/api/include", ROOT / "tests/e2e/c/optimizer.cpp", "-o", program,
                    f"-L{library}", "-ltorch", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{library},-rpath-link,{library}"], check=True)
    silent = support.run([program], tmp_path / "silent")
    assert silent.rc == 0 and silent.out == "done\n" and len(silent.traces) == 1 and "stepped" not in silent.err
    [line] = silent.complaints
    assert line.startswith("no step was marked: the trace holds the whole run; steps are marked by cprof_step(), an optimizer of Python, or CPROF_STEP=")
    marked = support.run([program, "mark"], tmp_path / "marked", **ALWAYS)
    assert marked.rc == 0 and marked.complaints == [] and len(trace(marked).ops("^aten::matmul$")) == 5
    assert sorted(trace(marked).steps) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("settings", [{"WARMUP": 1}, {"SKIP_FIRST": 1, "WARMUP": 0}], ids=["warmup", "skipped"])
def test_a_burst_before_the_first_mark_takes_nothing_from_the_window(settings, tmp_path):
    """Step 0 is recorded in case the program never marks a step. What finds no room then is no loss of a window that comes later,
    and the window has room from its first event on."""
    code = "for _ in range(100000): push(b'before'); pop()\nstep()\nfor _ in range(4): [(push(b'inside'), pop()) for _ in range(20)]; step()"
    done = support.run(support.python(code), tmp_path, RING_KB=64, ACTIVE=4, **settings)
    found = support.load(done.traces[0])["cprof"]
    assert (found["lost"]["ring_full"], len(support.events(support.load(done.traces[0]), ph="X", name="inside"))) == (0, 80), done.err
    told = [note for note in found["notes"] if "markers of warmup steps" in note]
    assert len(told) == ("SKIP_FIRST" not in settings), found["notes"]
