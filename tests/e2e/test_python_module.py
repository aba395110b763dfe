# SPDX-License-Identifier: Apache-2.0
"""The Python module cprof (scripts/python) in programs (scripts/module.py here, one mode per test), with the library preloaded and
without."""

import importlib.util
import json
import signal
import subprocess
import sys

import pytest

import support
from conftest import ROOT
from test_stacks import PYTHONS

MODULE = ROOT / "scripts/python"
SCRIPT = ROOT / "tests/e2e/scripts/module.py"
NO_WARMUP = {"WARMUP": 0, "ACTIVE": 1000}
DECORATED = {
    "generator": [0, "sent", "caught", 0], "returned": "end", "closed": True, "raised": "negative", "plain": [3, 6, 8],
    "async": [[0, 1, 2, 3, 4], [0, 1, 2], [0, "caught", 1]], "async closed": True,
    "names": ["plain: Adds.", "generator: Counts.", "coroutine: Waits.", "async_generator: Counts and waits."],
    "kinds": [True, True, True]}


def run(mode, folder, **more):
    """Runs a mode of the script. Returns the result and the JSON that it printed."""
    env = {"PYTHONPATH": str(MODULE), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "error"}
    done = support.run([sys.executable, SCRIPT, mode], folder, env=env, **more)
    assert done.rc == 0 and done.others == "", done.err
    return done, json.loads(done.out.splitlines()[-1])


def names(trace, **more):
    """Names of the program's own events, in time order."""
    found = [e for e in support.events(trace, **more) if not e["name"].startswith(("ProfilerStep#", "Record Window"))]
    return [e["name"] for e in sorted(found, key=lambda e: float(e["ts"]))]


def test_calls_do_nothing_without_the_library(tmp_path):
    done, result = run("all_calls", tmp_path, preload=False)
    assert result == {"same": True, "version": "", "steps": [[0, "SKIP", False]] * 4, "depths": [0, 0, -1, -1, -1],
                      "added": [False] * 3}
    assert run("decorators", tmp_path, preload=False)[1] == DECORATED
    assert run("profile", tmp_path, preload=False)[1] == {"step_num": 0, "left": True}
    assert run("schedules", tmp_path, preload=False)[1] == {"asked": []}
    assert done.err == "" and support.files(tmp_path) == []


def test_return_values_of_all_calls(tmp_path):
    done, result = run("all_calls", tmp_path, ACTIVE=2)
    assert result["same"] is True and result["version"] == "0.1.0" and result["added"] == [True, True, False]
    assert result["steps"] == [[0, "WARMUP", True], [1, "ACTIVE", True], [2, "ACTIVE_AND_SAVE", True], [3, "SKIP", False]]
    assert result["depths"] == [0, 1, 1, 0, -1]
    assert len(done.complaints) == 1 and 'no JSON at byte 0, "nonsense": not a value' in done.complaints[0]


def test_trace_holds_all_markers(tmp_path):
    done, _ = run("all_calls", tmp_path, WARMUP=0, ACTIVE=4, FILENAME="{epoch}.{batch}.{sample}.{token}.json")
    assert done.names == ["0.4.16.400.json"]
    trace = support.load(done.traces[0])
    assert names(trace, ph="X", cat="user_annotation") == ["plain", "outer", "näme \ufffd"] * 4
    assert names(trace, ph="X", cat="data,io") == ["full"] * 4 and names(trace, ph="X", cat="one") == ["only last"]
    assert sorted(names(trace, ph="i")) == sorted(["full", "full", "plain", "a moment"] * 4)
    counted = [e["args"] for e in support.events(trace, ph="C") if e["name"] in ("plain", "full")]
    for args in ({"whole": 3}, {"large": -2**63}, {"real": 0.5}, {"huge": 2.0**70}):
        assert counted.count(args) == 4
    assert len(counted) == 16
    assert trace["cprof"]["lost"]["total"] == 4 * 2  # a pop too many and a NaN


def test_decorators_keep_functions_and_nest(tmp_path):
    """Decorated functions keep their kind and behaviour. Spans nest, and none is cut."""
    done, result = run("decorators", tmp_path, STEP="manual", **NO_WARMUP)
    assert result == DECORATED
    trace = support.load(done.traces[0])
    spans = support.events(trace, ph="X", name="marked")
    assert all("finished" not in e["args"] for e in spans) and trace["cprof"]["lost"]["total"] == 0
    # 4 calls; a generator of 4 runs, one of 2; 5 coroutines of 2; async generators that run 7 and 8 times
    assert 4 + 6 + 10 < len(spans) <= 4 + 6 + 10 + 16


def test_profile_context_ends_steps(tmp_path):
    done, result = run("profile", tmp_path, WARMUP=1, ACTIVE=1)
    assert result == {"step_num": 4, "left": True}
    assert done.names == ["rank0.3.pt.trace.json"]
    trace = support.load(done.traces[0])
    assert support.step_numbers(trace) == [2] and names(trace, ph="X") == ["in step"] * 2


def test_python_schedules_choose_steps(tmp_path):
    done, result = run("schedules", tmp_path)
    assert result["asked"] == [0, 1, 2, 3, 4, [4, 8, 0, True], [5, 10, 0, True], [6, 12, 0, True], [7, 14, 0, True]]
    assert done.names == ["rank0.3.pt.trace.json", "rank0.6.pt.trace.json"]
    assert done.complaints == ["the schedule raised RuntimeError(7): such steps are skipped"]


def test_schedule_set_again_takes_no_memory(tmp_path):
    code = ("import cprof\nclass A:\n    def skip(self, step): return cprof.Action.SKIP\na = A()\n"
            "for i in range(1000): cprof.set_schedule(a.skip)\nprint(len(cprof._schedules))")
    done = support.run([sys.executable, "-c", code], tmp_path, env={"PYTHONPATH": str(MODULE)})
    assert done.rc == 0 and done.out == "1\n" and done.complaints == []


def test_schedule_keeps_its_default_arguments(tmp_path):
    """`lambda step, n=n: ...` binds a value. The optional time argument must not replace it."""
    done, result = run("closures", tmp_path)
    assert done.complaints == [] and result["seen"] == [5, 5, 1, 2, 1, 1, 3, 4, 7, 7]


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "SystemExit"])
def test_signal_exception_inside_a_schedule_reaches_the_program(tmp_path, raised):
    """A signal handler raises while cprof calls the schedule. The exception must not get lost."""
    code = ("import cprof, os, signal, sys, time\n"
            f"def stop(*_): raise {raised}\n"
            "signal.signal(signal.SIGINT, stop)\n"
            "def schedule(step):\n    if step == 3: os.kill(os.getpid(), signal.SIGINT)\n    time.sleep(0)\n    return 2\n"
            "cprof.set_schedule(schedule)\n"
            "try:\n    for _ in range(1000): cprof.step(); time.sleep(0.01)\n"
            f"except {raised}: print('stopped', cprof.step_number() < 100)\n")
    done = support.run([sys.executable, "-c", code], tmp_path, env={"PYTHONPATH": str(MODULE)})
    assert done.rc == 0 and done.out == "stopped True\n" and done.others == "", done.err


@pytest.mark.parametrize("version", sorted(PYTHONS.keys() - {"3.6", "3.7"}))
@pytest.mark.parametrize("raised, code, said", [
    ("sys.exit(3)", 3, []), ("sys.exit('enough')", 1, ["enough"]), ("sys.exit()", 0, []), ("raise Stopped(1, why='full')", 7, ["(1, 'full')"]),
    ("raise KeyboardInterrupt", -signal.SIGINT, ["KeyboardInterrupt"])])
def test_signal_exception_inside_a_schedule_keeps_its_arguments(tmp_path, version, raised, code, said):
    """An exception that a signal handler raises inside a schedule keeps its exit code and its arguments."""
    text = ("import cprof, os, signal, sys, time\n"
            "class Stopped(BaseException):\n    def __init__(self, n, *, why): self.n, self.why = n, why\n"
            f"def stop(*_): {raised}\n"
            "signal.signal(signal.SIGTERM, stop)\n"
            "def schedule(step):\n    if step == 3: os.kill(os.getpid(), signal.SIGTERM)\n    time.sleep(0)\n    return 0\n"
            "cprof.set_schedule(schedule)\n"
            "try:\n    for _ in range(1000): cprof.step(); time.sleep(0.01)\n"
            "except SystemExit: raise\n"  # must still be a SystemExit here
            "except Stopped as error: print((error.n, error.why), file=sys.stderr); sys.exit(7)\n"
            "sys.exit(8)\n")
    done = support.run([PYTHONS[version], "-c", text], tmp_path, env={"PYTHONPATH": str(MODULE), "PYTHONDONTWRITEBYTECODE": "1"})
    assert (done.rc, done.others.splitlines()[-1:]) == (code, said), done.err


def test_threads_share_a_schedule(tmp_path):
    done, result = run("threads", tmp_path, timeout=60)
    assert result == {"steps": 64} and done.complaints == []


def test_accepts_torchs_schedule(tmp_path):
    """set_schedule() accepts the result of torch.profiler.schedule()."""
    pytest.importorskip("torch")
    code = ("import cprof, torch\ncprof.set_schedule(torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=2, skip_first=10))\n"
            "for i in range(25): cprof.step()\n")
    done = support.run([sys.executable, "-c", code], tmp_path, env={"PYTHONPATH": str(MODULE)})
    assert done.rc == 0 and done.complaints == [] and done.names == ["rank0.15.pt.trace.json", "rank0.20.pt.trace.json"]
    assert [support.step_numbers(support.load(path)) for path in done.traces] == [[12, 13, 14], [17, 18, 19]]


def test_torchs_schedule_is_not_cut_by_epochs(tmp_path):
    """Epochs end after steps 4 and 9. They cut no window, as in torch.profiler."""
    pytest.importorskip("torch")
    code = ("import cprof, runpy, sys, torch\n"
            "cprof.set_schedule(torch.profiler.schedule(wait=1, warmup=1, active=3, repeat=2, skip_first=2))\n"
            f"sys.argv = ['epochs.py', 'plain']\nrunpy.run_path({str(SCRIPT.parent / 'epochs.py')!r}, run_name='__main__')\n")
    done = support.run([sys.executable, "-c", code], tmp_path, env={"PYTHONPATH": str(MODULE)}, FILENAME="{epoch}.{batch}.json")
    assert done.rc == 0 and done.out == "[5, 5, 5]\n" and done.complaints == [] and done.names == ["1.7.json", "2.12.json"]
    assert [support.step_numbers(support.load(path)) for path in done.traces] == [[4, 5, 6], [9, 10, 11]]


@pytest.mark.parametrize("preload", [True, False])
def test_markers_can_be_copied_and_pickled(tmp_path, preload):
    """Objects that hold a marker can be copied, pickled, and sent to a spawned DataLoader worker."""
    done, result = run("copies", tmp_path, preload=preload, **NO_WARMUP)
    assert result == {"same": [True] * 3, "back": ["kept", ["ACTIVE"], True, ["io"]]} and done.complaints == []
    if preload:
        assert names(support.load(done.traces[0]), ph="X", cat="io") == ["kept"]


@pytest.mark.parametrize("preload", [True, False])
def test_counter_skips_numbers_too_large(tmp_path, preload):
    """A number that is too large is left out, as infinities are."""
    code = "import cprof\nloss = cprof.marker('loss')\nloss.counter({'a': 10**400, 'b': 1})\nloss.counter({'c': 2**63})\ncprof.step()"
    done = support.run([sys.executable, "-c", code], tmp_path, preload=preload, env={"PYTHONPATH": str(MODULE)}, **NO_WARMUP)
    assert done.rc == 0 and done.complaints == [], done.err
    if preload:
        assert [e["args"] for e in support.events(support.load(done.traces[0]), ph="C", name="loss")] == [{"b": 1}, {"c": 2**63}]


@pytest.mark.parametrize("preload", [True, False])
def test_decorators_work_on_methods_of_classes(tmp_path, preload):
    done, result = run("descriptors", tmp_path, preload=preload, **NO_WARMUP)
    assert result == {"called": [1, 2, 3, ["Both", 4], ["Both", 5]], "doc": ["of_class", "Says who."],
                      "refused": ["int", "property", "type"]} and done.complaints == []
    if preload:
        assert names(support.load(done.traces[0]), ph="X") == ["marked"] * 5


@pytest.mark.parametrize("version", sorted(PYTHONS.keys() - {"3.6", "3.7"}))
def test_decorated_asynchronous_functions_behave_the_same(version):
    """An asynchronous generator that is open when the loop ends is closed once. Generators of types.coroutine can be awaited, and so can
    functions that are marked as coroutines but return another awaitable."""
    done = subprocess.run([PYTHONS[version], ROOT / "tests/e2e/scripts/asynchronous.py"], capture_output=True, text=True, timeout=60,
                          env={"PYTHONPATH": str(MODULE), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONWARNINGS": "error"})
    assert done.stderr == "" and json.loads(done.stdout) == {"awaited": [5, 7], "left": ["closed"], "complaints": []}


def test_callbacks_of_an_ended_subinterpreter_are_refused(tmp_path):
    """cprof refuses a schedule and handlers of a subinterpreter, with a line each. All other calls work."""
    if not any(importlib.util.find_spec(name) for name in ("_xxsubinterpreters", "_interpreters")):
        pytest.skip("this Python has no module for subinterpreters")
    done, result = run("subinterpreter", tmp_path, timeout=60, **NO_WARMUP)
    assert result == {"step": 3} and len(done.complaints) == 3 and all("subinterpreter" in line for line in done.complaints)
    assert names(support.load(done.traces[0]), ph="X") == ["both"] * 2


WITHOUT_CTYPES = ("import runpy, sys; sys.modules['_ctypes'] = None; sys.argv = sys.argv[1:]\n"
                  "runpy.run_path(sys.argv[0], run_name='__main__')")


@pytest.mark.parametrize("mode, expected", [
    ("all_calls", {"same": True, "version": "", "steps": [[0, "SKIP", False]] * 4, "depths": [0, 0, -1, -1, -1], "added": [False] * 3}),
    ("decorators", DECORATED), ("profile", {"step_num": 0, "left": True}), ("schedules", {"asked": []}),
    ("copies", {"same": [True] * 3, "back": ["kept", ["ACTIVE"], True, ["io"]]}),
    ("nothing_is_told", {"handlers": [False, False, []], "exported": False, "refused": 3})])
def test_calls_do_nothing_without_ctypes(tmp_path, mode, expected):
    """The library is preloaded; without ctypes, the module behaves as without it."""
    env = {"PYTHONPATH": f"{MODULE}:{SCRIPT.parent}", "PYTHONDONTWRITEBYTECODE": "1"}
    done = support.run([sys.executable, "-c", WITHOUT_CTYPES, SCRIPT, mode], tmp_path, env=env)
    assert done.rc == 0 and done.err == "", done.err
    assert json.loads(done.out.splitlines()[-1]) == expected


def test_subinterpreter_of_python_3_12_records_nothing(tmp_path):
    """ctypes does not load in a subinterpreter of Python 3.12."""
    if "3.12" not in PYTHONS:
        pytest.skip("no Python 3.12 on this machine")
    code = """
import _xxsubinterpreters as interpreters, cprof
inside = interpreters.create()
interpreters.run_string(inside, "import cprof\\nwith cprof.marker('inside'): cprof.step()\\nprint(cprof.step_number(), flush=True)")
interpreters.destroy(inside)
with cprof.marker("outside"): pass
cprof.step()
"""
    env = {"PYTHONPATH": str(MODULE), "PYTHONDONTWRITEBYTECODE": "1"}
    done = support.run([PYTHONS["3.12"], "-c", code], tmp_path, env=env, **NO_WARMUP)
    assert done.rc == 0 and done.out == "0\n" and done.complaints == []
    assert names(support.load(done.traces[0]), ph="X") == ["outside"]


def test_pip_installs_the_module(tmp_path):
    pytest.importorskip("setuptools.build_meta")
    site = support.pip_install(tmp_path)
    assert {path.name for path in (site / "cprof").iterdir()} >= {"__init__.py", "py.typed"}
    shown = subprocess.run([sys.executable, "-c", "import cprof; print(cprof.__file__)"], cwd=site, capture_output=True, text=True,
                           timeout=60)
    assert str(site / "cprof") in shown.stdout, shown.stderr


def test_markers_and_torch_ranges_may_overlap(tmp_path):
    """Composer's markers overlap torch's ranges. Neither cuts the other; one of the two becomes asynchronous."""
    pytest.importorskip("torch")
    code = """
import torch
m = cprof.marker("marker")
for i in range(4):
    outer = torch.profiler.record_function("range")
    outer.__enter__()
    m.start()
    torch.ones(2) + 1
    outer.__exit__(None, None, None)
    torch.ones(2) + 1
    m.finish()
    cprof.step()
"""
    result = support.run([sys.executable, "-c", "import cprof, sys\n" + code], tmp_path, WARMUP=1, ACTIVE=2,
                         env={"PYTHONPATH": str(MODULE), "PYTHONDONTWRITEBYTECODE": "1"})
    assert result.rc == 0 and result.complaints == []
    trace = support.load(result.traces[0])
    begun = [e["name"] for e in trace["traceEvents"] if e["ph"] in "Xb" and e["name"] in ("marker", "range")]
    assert sorted(begun) == ["marker"] * 3 + ["range"] * 2  # with the warmup step's marker at the head
    assert trace["cprof"]["lost"]["total"] == 0
