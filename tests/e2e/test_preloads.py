# SPDX-License-Identifier: Apache-2.0
"""Libraries in LD_PRELOAD that interfere with cprof: one that exports dlsym(), as GPU sharing tools do, and a second copy of cprof."""

import pathlib
import shutil
import sys

import pytest

import support
from conftest import BUILD
from support import load, python, run, step_numbers

HOOK, OLD = BUILD / "e2e/libdlsymhook.so", BUILD / "e2e/liboldcopy.so"
ACTIVE = {"WARMUP": 0, "ACTIVE": 1000}
ANSWERS = ["next", "default", "once"]
ONE_THREAD = {"OMP_NUM_THREADS": "1"}  # a forked child would wait for libgomp's threads, which it does not have


def ordered(first, *others):
    """LD_PRELOAD with cprof before or after the others."""
    libraries = [support.LIBRARY, *others] if first == "cprof" else [*others, support.LIBRARY]
    return ":".join(map(str, libraries))


def train(n):
    """A command that trains a torch model and forks a child that computes."""
    return python(f"""
import torch
model = torch.nn.Linear(32, 32)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
for i in range({n}):
    model(torch.ones(16, 32)).sum().backward()
    optimizer.step()
sys.stdout.flush()
child = os.fork()
if child == 0:
    model(torch.ones(16, 32))
    os._exit(3)
print("trained", os.waitpid(child, 0)[1] >> 8)
sys.exit(7)
""")


# ---- another library exports dlsym() ------------------------------------------------------------------------------

# Calls each function that both libraries wrap.
CALLS = """
_c.dlopen.restype = _c.fopen.restype = ctypes.c_void_p
file = _c.fopen(b"/dev/null", b"r"); assert file
assert _c.fclose(ctypes.c_void_p(file)) == 0
library = _c.dlopen(b"libresolv.so.2", 1); assert library
assert _c.dlclose(ctypes.c_void_p(library)) == 0
assert _c.kill(os.getpid(), 0) == 0
steps(4)
os._exit(7)
"""


@pytest.mark.parametrize("answers", ANSWERS)
@pytest.mark.parametrize("first", ["cprof", "hook"])
def test_each_wrapper_finds_the_next_function(tmp_path, first, answers):
    """In both orders the wrappers are called in the loader's order, the other library's once for each call, and cprof records."""
    log = tmp_path / "log"
    env = {"LD_PRELOAD": ordered(first, HOOK), "HOOK_ANSWERS": answers, "HOOK_LOG": str(log)}
    result = run(python(CALLS), tmp_path / "t", preload=False, env=env, **ACTIVE)
    assert (result.rc, result.others) == (7, ""), result.err
    seen = log.read_text().splitlines()
    assert [seen.count(line) for line in ("fopen /dev/null0", "kill 0", "_exit 7")] == [1, 1, 1] and "dlclose 0" in seen
    assert len(result.traces) == 1 and step_numbers(load(result.traces[0])) == [0, 1, 2, 3] and result.complaints == []


@pytest.mark.parametrize("answers", ANSWERS)
@pytest.mark.parametrize("first", ["cprof", "hook"])
def test_shell_with_a_dlsym_hook(tmp_path, first, answers):
    env = {"LD_PRELOAD": ordered(first, HOOK), "HOOK_ANSWERS": answers}
    result = run(["bash", "-c", "kill -0 $$; (exit 5); echo $?; ls / | wc -l > /dev/null; exit 6"], tmp_path, preload=False, env=env)
    assert (result.rc, result.out, result.err) == (6, "5\n", "")


@pytest.mark.parametrize("first", ["cprof", "hook"])
def test_torch_with_a_dlsym_hook(tmp_path, first):
    result = run(train(5), tmp_path, preload=False, env={"LD_PRELOAD": ordered(first, HOOK), **ONE_THREAD}, WITH_STACK=1, WITH_FLOPS=1, **ACTIVE)
    assert (result.rc, result.out, result.others) == (7, "trained 3\n", ""), result.err
    trace = load(result.traces[0])
    assert step_numbers(trace) == list(range(5)) and support.events(trace, ph="X", name="aten::linear")


# ---- two copies of cprof ------------------------------------------------------------------------------------------

@pytest.fixture
def copy(tmp_path):
    """A copy of this build's library."""
    (tmp_path / "copy").mkdir()
    return pathlib.Path(shutil.copy(support.LIBRARY, tmp_path / "copy" / support.LIBRARY.name))


@pytest.fixture
def older(tmp_path):
    """A stand-in for an older build."""
    (tmp_path / "older").mkdir()
    return pathlib.Path(shutil.copy(OLD, tmp_path / "older" / support.LIBRARY.name))


def line_about(other):
    """The line with which the first copy reports the other."""
    return f"{other} is another copy of cprof, which LD_PRELOAD names, too; it does nothing, {support.LIBRARY} records"


def test_first_of_two_copies_records(tmp_path, copy):
    """The loader binds programs to the first copy. Each BLAS call reaches the right function and is recorded once."""
    env = {"LD_PRELOAD": ordered("cprof", copy)}
    result = run([BUILD / "e2e/blas", BUILD / "e2e"], tmp_path / "t", preload=False, env=env, **ACTIVE)
    assert result.rc == 0 and result.others == "" and result.complaints == [line_about(copy)]
    calls = support.events(load(result.traces[0]), ph="X", cat="library_call")
    assert sorted(e["args"]["flops"] for e in calls if e["name"] == "sgemm_") == [12] * 8 + [120] * 4 + [12000] * 4
    result = run(python("steps(4)\nprint(_c.cprof_step_number())\nsys.stdout.flush()\nos._exit(7)"), tmp_path / "u", preload=False, env=env, **ACTIVE)
    assert (result.rc, result.out) == (7, "4\n") and step_numbers(load(result.traces[0])) == [0, 1, 2, 3]


@pytest.mark.parametrize("first", ["cprof", "older"])
def test_works_beside_an_older_copy(tmp_path, older, first):
    """The older copy calls the next function in the loader's order; with none there, cprof must not call back and loop."""
    env = {"LD_PRELOAD": ordered(first, older)}
    result = run([BUILD / "e2e/blas", BUILD / "e2e"], tmp_path / "t", preload=False, env=env, **ACTIVE)
    assert result.rc == 0 and result.others == ""
    assert result.complaints == ([line_about(older)] if first == "cprof" else []) and len(result.traces) == (first == "cprof")
    result = run(["bash", "-c", "kill -0 $$; (exit 5); echo $?; exit 6"], tmp_path / "u", preload=False, env=env)
    assert (result.rc, result.out, result.err) == (6, "5\n", "")


@pytest.mark.parametrize("first", ["cprof", "older"])
def test_variables_name_the_recording_copy(tmp_path, older, first):
    """Variables inherited from a parent may name the copy that is inert here, and are corrected. The user's other variables stay."""
    variables = ["CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64"]
    records, inert = (support.LIBRARY, older) if first == "cprof" else (older, support.LIBRARY)
    env = {"LD_PRELOAD": ordered(first, older), variables[0]: str(inert), variables[1]: "/other/libtool.so"}
    result = run([sys.executable, "-c", f"import os; print(*[os.environ.get(name) for name in {variables}])"], tmp_path, preload=False, env=env)
    assert (result.rc, result.out) == (0, f"{records} /other/libtool.so {records}\n"), result.err


def test_torch_with_two_copies(tmp_path, copy):
    result = run(train(5), tmp_path / "t", preload=False, env={"LD_PRELOAD": ordered("cprof", copy), **ONE_THREAD}, WITH_STACK=1, WITH_FLOPS=1, **ACTIVE)
    assert (result.rc, result.out, result.others) == (7, "trained 3\n", ""), result.err
    trace = load(result.traces[0])
    assert step_numbers(trace) == list(range(5)) and len(result.traces) == 1
    two_copies, forked = result.complaints
    assert two_copies == line_about(copy) and "run operators, which cprof does not record" in forked
