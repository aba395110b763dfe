# SPDX-License-Identifier: Apache-2.0
"""cprof and torch.profiler record the same script, each in its own process: the same operators with the same shapes in the same
steps, the same arrows, the same tensor memory.

Only the two events with which torch.profiler marks its own window may be missing. cprof writes no `Ev Idx`, and ids differ.
"""

import collections
import json
import subprocess
import sys

import pytest

import support
from conftest import matrix

torch = pytest.importorskip("torch", reason="PyTorch is not installed in .venv")
pytestmark = pytest.mark.skipif(not torch.autograd.kineto_available(),
                                reason=f"torch {torch.__version__} was built without Kineto: its profiler records no inputs")

SCRIPT = support.pathlib.Path(__file__).parent / "scripts" / "zoo.py"
INPUTS = ("Input Dims", "Input Strides", "Input type", "Concrete Inputs")
SETTINGS = {"SKIP_FIRST": 2, "WAIT": 1, "WARMUP": 1, "ACTIVE": 3, "REPEAT": 2, "RECORD_SHAPES": 1}


@pytest.fixture(scope="module", params=matrix([[], ["--wrap"]], ["--wrap"]), ids=lambda wrap: "in a record_function" if wrap else "plain")
def pair(request, tmp_path_factory):
    """Two traces of torch.profiler, two of cprof, and the paths of cprof's."""
    theirs, ours = tmp_path_factory.mktemp("torch"), tmp_path_factory.mktemp("cprof")
    plain = subprocess.run([sys.executable, SCRIPT, *request.param, "--torch", theirs], capture_output=True, text=True,
                           timeout=300, check=True)
    run = support.run([sys.executable, SCRIPT, *request.param], ours, **SETTINGS)
    assert run.rc == 0, run.err
    assert run.out == plain.stdout
    assert run.names == ["rank0.7.pt.trace.json", "rank0.12.pt.trace.json"]
    return [[json.loads((theirs / f"{n}.json").read_text()) for n in (0, 1)],
            [json.loads(path.read_text()) for path in run.traces], run.traces]


def events(trace, **wanted):
    return [e for e in trace["traceEvents"] if all(e.get(k) == v for k, v in wanted.items())]


def steps(trace):
    """{number: (begin, end)} in microseconds."""
    return {int(e["name"].split("#")[1]): (e["ts"], e["ts"] + e["dur"])
            for e in events(trace, ph="X", cat="user_annotation") if e["name"].startswith("ProfilerStep#")}


def spans(trace):
    found = events(trace, ph="X", cat="cpu_op") + events(trace, ph="X", cat="user_annotation")
    # oneDNN marks its primitives by ITT if a collector is there; those ranges have a domain
    return [e for e in found if not e["name"].startswith("ProfilerStep#") and "domain" not in e["args"]]


def by_step(trace, some, key):
    """{step: Counter of key(event)} by the start of each event; None: in no step."""
    edges = steps(trace)
    found = collections.defaultdict(collections.Counter)
    for event in some:
        at = next((n for n, (begin, end) in edges.items() if begin <= event["ts"] < end), None)
        found[at][key(event)] += 1
    return found


def compare(pair, select, key):
    for theirs, ours in zip(*pair[:2]):
        a, b = by_step(theirs, select(theirs), key), by_step(ours, select(ours), key)
        for step in steps(theirs):
            assert a[step], "torch.profiler saw nothing: the comparison is void"
            assert a[step] - b[step] == {}, f"only torch.profiler has these in step {step}"
            assert b[step] - a[step] == {}, f"only cprof has these in step {step}"


def test_steps_have_the_same_numbers(pair):
    for theirs, ours, numbers in zip(*pair[:2], ([4, 5, 6], [9, 10, 11])):
        assert sorted(steps(theirs)) == sorted(steps(ours)) == numbers


def test_operators_and_ranges_are_the_same(pair):
    compare(pair, spans, lambda e: (e["cat"], e["name"]))


def test_holds_no_operator_of_other_steps(pair):
    for ours in pair[1]:
        assert None not in by_step(ours, spans(ours), lambda e: e["name"])


def test_shapes_and_types_are_the_same(pair):
    def key(e):
        args = e["args"]
        return e["name"], json.dumps([args.get(key) for key in (*INPUTS, "Fwd thread id")])
    compare(pair, lambda trace: events(trace, ph="X", cat="cpu_op"), key)


def test_nested_lists_are_among_the_shapes(pair):
    """The comparison above would also pass on a model without lists of tensors."""
    dims = [e["args"].get("Input Dims") for e in events(pair[1][0], ph="X", name="aten::cat")]
    assert [[[8, 10], [8, 10]], []] in dims


def test_arguments_of_many_kinds_are_the_same(tmp_path):
    """Scalars, lists, strings, None, devices, types, strides and layouts, in the order in which the operators began."""
    script = SCRIPT.with_name("arguments.py")
    subprocess.run([sys.executable, script, tmp_path / "theirs.txt"], capture_output=True, timeout=300, check=True)
    run = support.run([sys.executable, script], tmp_path / "ours", STEP="manual", RECORD_SHAPES=1, SKIP_FIRST=1, WAIT=0, WARMUP=0, ACTIVE=1, REPEAT=1)
    assert run.rc == 0 and len(run.traces) == 1, run.err

    def said(trace):
        found = sorted(events(trace, ph="X", cat="cpu_op"), key=lambda e: (float(e["ts"]), -float(e["dur"])))
        return [(e["name"], *(e["args"].get(key) for key in INPUTS)) for e in found]

    theirs, ours = said(json.loads((tmp_path / "theirs.txt").read_text())), said(support.load(run.traces[0]))
    assert len(theirs) > 300 and ours == theirs
    values = {value for _, _, _, _, concrete in ours for value in concrete or ()}
    assert {"", "[]", "True", "1.5", "0.", "inf", "nan", "[2., 1.5]", "[True, False, True]", "0.10000000000000001-1e+20j"} <= values


def arrows(trace):
    """For each forward-backward arrow, the time of its end and the names of the spans at its start and end."""
    at = collections.defaultdict(list)
    for e in events(trace, ph="X", cat="cpu_op"):
        at[e["tid"], e["ts"]].append(e["name"])
    starts = {e["id"]: e for e in events(trace, ph="s", cat="fwdbwd")}
    for end in events(trace, ph="f", cat="fwdbwd"):
        begin = starts[end["id"]]
        yield {"ts": end["ts"], "names": (tuple(at[begin["tid"], begin["ts"]]), tuple(at[end["tid"], end["ts"]]))}


def test_forward_backward_arrows_are_the_same(pair):
    compare(pair, lambda trace: list(arrows(trace)), lambda e: e["names"])


ON_ANOTHER_THREAD = """
import ctypes, queue, sys, threading, torch
end_step = getattr(ctypes.CDLL(None), "cprof_step")
torch.set_num_threads(1)
layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
todo, done = queue.Queue(), queue.Queue()

def forward():
    return layers(torch.ones(3, 4)).sum()

def worker():
    while (loss := todo.get()) is not None:
        done.put((loss if loss == "forward" else loss.backward()) and forward())

torch.ones(1)  # the first thread's records are drained first, or last
thread = threading.Thread(target=worker)
thread.start()
for step in range(40):
    if sys.argv[1] == "backward there":
        todo.put(forward())
        done.get()
    else:
        todo.put("forward")
        done.get().backward()
    end_step()
todo.put(None)
thread.join()
"""


@pytest.mark.parametrize("where", ["backward there", "forward there"])
def test_arrows_join_forward_and_backward_threads(tmp_path, where):
    """As with a GPU, whose backward pass runs on a thread of autograd. Either thread's records may be drained first."""
    script = tmp_path / "threads.py"
    script.write_text(ON_ANOTHER_THREAD)
    result = support.run([sys.executable, script, where], tmp_path, STEP="manual", WARMUP=3, ACTIVE=30)
    assert result.rc == 0 and len(result.traces) == 1, result.err
    trace = support.load(result.traces[0])
    nodes = [e for e in events(trace, ph="X", cat="cpu_op") if e["args"].get("Fwd thread id") and e["name"].startswith("autograd::engine")]
    made = {e["args"]["Sequence number"] for e in events(trace, ph="X", cat="cpu_op") if e["args"].get("Fwd thread id") == 0}
    wanted = [e for e in nodes if e["args"]["Sequence number"] in made]
    ends = [e["ts"] for e in events(trace, ph="f", cat="fwdbwd")]
    assert len(wanted) >= 30 * 5 and len({e["tid"] for e in nodes}) == 1
    begins = {e["tid"] for e in events(trace, ph="s", cat="fwdbwd")}
    assert len(ends) == len(wanted) and begins.isdisjoint(e["tid"] for e in nodes)


def memory(trace):
    """[memory] instants in order, without releases of blocks from before this trace: from its second window on,
    torch.profiler may take a reused address for the block of an earlier window, with that block's size."""
    alive, kept = set(), []
    for e in sorted(events(trace, name="[memory]"), key=lambda e: e["ts"]):
        address, allocated = e["args"]["Addr"], e["args"]["Bytes"] > 0
        if allocated or address in alive:
            kept.append(e)
        (alive.add if allocated else alive.discard)(address)
    return kept


def test_tensor_memory_is_the_same(pair):
    for ours in pair[1]:
        assert len(memory(ours)) == len(events(ours, name="[memory]")), "cprof invented a release"
    compare(pair, memory, lambda e: (e["args"]["Bytes"], e["args"]["Device Type"], e["args"]["Device Id"]))
    for theirs, ours in zip(*pair[:2]):
        totals = [[e["args"]["Total Allocated"] for e in memory(trace)] for trace in (theirs, ours)]
        rises = [[b - a for a, b in zip(total, total[1:])] for total in totals]
        if theirs is pair[0][0]:  # torch.profiler's later totals are wrong by the releases that memory() leaves out
            assert rises[0] == rises[1], "totals move differently"
        assert sum(e["args"]["Bytes"] for e in memory(theirs)) == sum(e["args"]["Bytes"] for e in memory(ours))


def test_memory_counter_follows_the_total(pair):
    for ours in pair[1]:
        counters = {e["ts"]: e["args"] for e in events(ours, ph="C", name="Memory CPU")}
        for e in events(ours, name="[memory]"):
            assert counters[e["ts"]] == {"allocated bytes": e["args"]["Total Allocated"]}


def test_traces_pass_the_strict_validator(pair):
    for path in pair[2]:
        support.validate(support.load(path))


def test_fast_ranges_are_those_that_torch_opens(tmp_path):
    """torch opens _RecordFunctionFast's ranges only while its own profiler runs (scripts/LIMITS.md). cprof then has them, too."""
    code = """
import torch
from torch.profiler import profile
def fast(name):
    with torch._C._profiler._RecordFunctionFast(name):
        torch.ones(2)
step(); fast("alone")
with profile() as p:
    fast("together")
step()
print([e.key for e in p.key_averages() if e.key in ("alone", "together")])
"""
    done = support.run(support.python(code), tmp_path, ACTIVE=1)
    assert (done.rc, done.out) == (0, "['together']\n"), done.err
    trace = support.load(done.traces[0])
    assert [e["name"] for e in support.events(trace, ph="X") if e["name"] in ("alone", "together")] == ["together"]
