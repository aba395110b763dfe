# SPDX-License-Identifier: Apache-2.0
"""While a window records, cprof redirects some calls of torch to itself (CPROF_TORCH_PATH=objects). The program must compute the same, and
the trace must hold the same rows as with callbacks alone. torch.profiler must see the same. Outside of windows, the GOT entries of
libtorch_cpu are torch's own.
"""

import collections
import json
import pathlib
import platform
import re
import shutil
import subprocess

import pytest

import torch_runs
from conftest import matrix
from support import events

torch = pytest.importorskip("torch", reason="PyTorch is not installed in .venv")
pytestmark = torch_runs.needs_torch_2("the script uses torch.func")

WINDOW = {"TORCH_PATH": "objects", "STEP": "manual", "WAIT": 1, "WARMUP": 1, "ACTIVE": 1, "RECORD_SHAPES": 1}
X86 = platform.machine() == "x86_64"
LISTS, NAMES = "_ZN2at24set_record_function_tls_ERKNS_17RecordFunctionTLSE", "_ZN3c108demangleB5cxx11EPKc"
RUN = ("_ZN3c1010Dispatcher17runRecordFunctionERN2at14RecordFunctionESt17reference_wrapperIKNS_14FunctionSchemaEENS_11DispatchKeyE"
       "NS_14DispatchKeySetE")
DESTROY = "_ZN2at14RecordFunctionD1Ev"
OBJECTS = (DESTROY, "_ZN2at14RecordFunctionC1EONS_13StepCallbacksE", "_ZN2at14RecordFunctionC1ENS_11RecordScopeE",
           "_ZN5torch8autograd6Engine17evaluate_functionERSt10shared_ptrINS0_9GraphTaskEEPNS0_4NodeERNS0_11InputBufferERKS2_INS0_10ReadyQueueEE",
           "_ZN2at14RecordFunction3endEv", "_ZN2at14RecordFunction6beforeESt7variantIJSt17basic_string_viewIcSt11char_traitsIcEESt17"
           "reference_wrapperIKN3c1014FunctionSchemaEEEEl", RUN, RUN + "NS_8ArrayRefIKNS_6IValueEEE")
PATH = "callbacks+lists+names+objects" if X86 else "callbacks+lists"
IDS = {"External id", "Addr", "thread"}
RACES = IDS | {"Comms Id", "Algorithm bandwidth (GB/s)", "Bus bandwidth (GB/s)", "Sequence number", "Fwd thread id"}


def run(folder, what, *args, preload=True, **settings):
    return torch_runs.run("torch_path.py", folder, what, *args, preload=preload, **{**WINDOW, **settings})


def told(result, what="results"):
    return torch_runs.printed(result)[what]


def rows(trace, left_out=IDS):
    """For each thread, the list of (category, name, args without ids) in order of time."""
    found = collections.defaultdict(list)
    for event in sorted(trace.data["traceEvents"], key=lambda e: (float(e.get("ts", 0)), -float(e.get("dur", 0)))):
        if event["ph"] in "Xi" and event.get("cat") in ("cpu_op", "cpu_instant_event", "user_annotation"):
            args = {key: value for key, value in event.get("args", {}).items() if key not in left_out}
            found[event["tid"]].append((event["cat"], event["name"], json.dumps(args, sort_keys=True)))
    return sorted(found.values())


def entries(*more):
    """The offsets of libtorch_cpu's GOT entries as JSON: of the calls that cprof redirects, and of `more` names."""
    library = pathlib.Path(torch.__file__).parent / "lib/libtorch_cpu.so"
    if not shutil.which("readelf") or not library.exists():
        pytest.skip("needs readelf, and a torch whose libraries stand beside it")
    listed = subprocess.run(["readelf", "-rW", library], capture_output=True, text=True, check=True).stdout
    names = ((LISTS, NAMES, *OBJECTS) if X86 else (LISTS,)) + more
    found = {}
    for line in listed.splitlines():
        match = re.match(r"([0-9a-f]+)\s+\S+\s+R_\w+_JUMP_SLO\S*\s+\S+\s+(\S+)", line)
        if match and match[2].split("@")[0] in names:
            found[match[2].split("@")[0]] = int(match[1], 16)
    assert len(found) == len(names)
    return json.dumps(found)


@pytest.fixture(scope="module")
def offsets():
    return entries()


def test_both_paths_record_the_same(tmp_path):
    plain = run(tmp_path / "plain", "diverse", preload=False)
    auto = run(tmp_path / "auto", "diverse")
    callbacks = run(tmp_path / "callbacks", "diverse", TORCH_PATH="callbacks")
    default = run(tmp_path / "default", "diverse", TORCH_PATH="auto")
    assert told(plain) == told(auto) == told(callbacks) == told(default)
    assert torch_runs.trace(default).account["record_path"] == PATH.replace("+objects", "")
    assert rows(torch_runs.trace(default)) == rows(torch_runs.trace(callbacks))
    short, whole = torch_runs.trace(auto), torch_runs.trace(callbacks)
    assert short.account["record_path"] == PATH and whole.account["record_path"] == "callbacks"
    assert rows(short) == rows(whole)
    names = [name for thread in rows(short) for _, name, _ in thread]
    assert len(names) > 800 and "torch::autograd::AccumulateGrad" in names
    assert f"{'Long' * 80}Backward" in names  # a name that cprof leaves to torch


def test_both_paths_record_the_same_torchscript_tasks(tmp_path):
    plain = run(tmp_path / "plain", "scripted", preload=False)
    auto = run(tmp_path / "auto", "scripted")
    callbacks = run(tmp_path / "callbacks", "scripted", TORCH_PATH="callbacks")
    assert told(plain) == told(auto) == told(callbacks)
    both = [torch_runs.trace(one) for one in (auto, callbacks)]
    # A call that ends on the other thread is an asynchronous range.
    short, whole = (collections.Counter(e["name"] for ph in "Xb" for e in events(one.data, ph, "cpu_op")) for one in both)
    assert short == whole and short["forked"] == 50
    for one in both:
        dims = collections.Counter((e["name"], json.dumps(e["args"].get("Input Dims"))) for e in one.ops())
        assert dims["<forked function>", "[[4, 8]]"] == dims["aten::add", "[[4, 8], [4, 8], []]"] == 50


# What of the program is compared, and what must be among it. How torch adds up gradients of other workers is a race of its own.
LARGER = {"dtensor": (".", "aten::mm"), "compiled": (".", "CompiledFunctionBackward"), "loaded": (".", "aten::tanh"),
          "remote": ("Rpc|Mm|Pow|::(mm|pow|sum)$", "torch::distributed::autograd::SendRpcBackward")}


@pytest.mark.parametrize("what", matrix(LARGER, "dtensor"))
def test_both_paths_record_the_same_of_larger_programs(tmp_path, what):
    """Which thread serves a request, and when it frees memory, are races of the program itself: the operators of all threads are compared
    together."""
    compared, name = LARGER[what]
    runs = [run(tmp_path / path, what, TORCH_PATH=path) for path in ("objects", "callbacks")]
    assert told(run(tmp_path / "plain", what, preload=False)) == told(runs[0]) == told(runs[1])
    short, whole = (collections.Counter(row for thread in rows(torch_runs.trace(one), RACES) for row in thread
                                        if row[0] != "cpu_instant_event" and re.search(compared, row[1])) for one in runs)
    assert short == whole and any(row[1] == name for row in short), (short - whole, whole - short)
    assert [torch_runs.trace(one).account["record_path"] for one in runs] == [PATH, "callbacks"]


def test_torch_profiler_inside_a_window_sees_the_same(tmp_path):
    plain = run(tmp_path / "plain", "profiled", preload=False)
    auto = run(tmp_path / "auto", "profiled")
    callbacks = run(tmp_path / "callbacks", "profiled", TORCH_PATH="callbacks")
    assert told(plain, "torch") == told(auto, "torch") == told(callbacks, "torch") and len(told(auto, "torch")) > 50
    assert told(plain) == told(auto)
    assert rows(torch_runs.trace(auto)) == rows(torch_runs.trace(callbacks))


def test_restores_entries_outside_windows_and_in_children(tmp_path, offsets):
    """Two calls stay redirected after the first window, here the time before the first mark."""
    result = run(tmp_path, "slots", offsets)
    found = torch_runs.printed(result)
    stay = {LISTS, DESTROY} if X86 else {LISTS}
    assert set(found["before"]) == set(found["behind"]) == stay
    assert sorted(found["within"]) == sorted(json.loads(offsets))
    assert found["in_child"] == [[], [[1.0, 1.0], [1.0, 1.0]]]
    [one] = torch_runs.traces(result)
    assert one.account["record_path"] == PATH and one.lost == 0


@pytest.mark.skipif(not X86, reason="cprof redirects the call for names on x86-64 only")
def test_keeps_no_stale_node_names(tmp_path, offsets):
    first, other = "torch::autograd::FirstNode", "torch::autograd::OtherNode"
    assert told(run(tmp_path, "slots", offsets), "demangled") == [first, other, first, "int", "int", "no name"]


def test_keeps_an_entry_written_by_other_code(tmp_path, offsets):
    result = run(tmp_path, "taken", offsets, REPEAT=2)
    found = torch_runs.printed(result)
    assert found["called"] > 0 and found["called_behind"] and found["behind"] and found["left"]
    first, second = torch_runs.traces(result)
    assert first.account["record_path"] == PATH
    assert second.account["record_path"] == PATH.replace("+lists", "")
    assert first.lost == second.lost == 0


def test_keeps_entries_that_cannot_be_written(tmp_path, offsets):
    """The program makes the pages read-only after the first window. Calls that are redirected by then stay redirected."""
    result = run(tmp_path, "read_only", offsets)
    assert set(told(result, "within")) == ({LISTS, DESTROY} if X86 else {LISTS})
    one = torch_runs.trace(result)
    assert one.account["record_path"] == "callbacks+lists" and one.ops("AccumulateGrad")


def differences(runs):
    """A line for each tensor whose values differ from those of most iterations of the first run (mode storm)."""
    first = next(iter(runs.values()))
    usual = [max(results, key=lambda one: one["count"])["tensors"] for results in first]
    lines = []
    for run_name, threads in runs.items():
        for number, results in enumerate(threads):
            for one in results:
                for name, values in one["tensors"].items():
                    odd = [f"[{i}] {a!r} for {b!r}" for i, (a, b) in enumerate(zip(values, usual[number][name], strict=True)) if a != b]
                    if odd:
                        lines.append(f"{run_name}, thread {number}, from iteration {one['first']}, {one['count']} times: {name} differs in "
                                     f"{len(odd)} of {len(values)}: {', '.join(odd[:8])}")
    return lines


def test_windows_open_and_close_while_threads_train(tmp_path):
    plain = run(tmp_path / "plain", "storm", preload=False)
    stormy = run(tmp_path / "auto", "storm", WARMUP=0, REPEAT=0)
    odd = differences({"plain": told(plain, "threads"), "with cprof": told(stormy, "threads")})
    assert not odd, "\n".join(odd)
    assert told(plain) == told(stormy)
    assert len(stormy.traces) > 20
    for path in matrix(stormy.traces, *stormy.traces[::30], stormy.traces[-1]):  # the validator takes longer for one than the program runs
        assert torch_runs.Trace(path).account["record_path"] == PATH
