# SPDX-License-Identifier: Apache-2.0
"""Shared by all end-to-end tests: the paths of the library and the helper modules, and a clean environment."""

import functools
import gc
import os
import pathlib
import signal
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()

sys.path.insert(0, str(pathlib.Path(__file__).parent))
sys.path.insert(0, str(ROOT / "scripts/python"))  # the module cprof, with the command's readers

gc.set_threshold(1_000_000)  # a trace makes many objects and no cycles: collections would find nothing

# Settings of the caller's shell, or of a launcher around the test run, must not reach the traced programs.
for name in list(os.environ):
    if name.startswith("CPROF_") and name != "CPROF_BROWSER" or name == "LD_PRELOAD":
        del os.environ[name]

# A shell ignores SIGINT in background jobs, and nohup ignores SIGHUP. Programs inherit that, and tests send both signals.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


# In every Python, torch starts without its compiler, in half the time (light/sitecustomize.py).
FULL = bool(os.environ.get("FULL_MATRICES"))
LIGHT = [] if FULL else [str(pathlib.Path(__file__).parent / "light")]
os.environ["PYTHONPATH"] = os.pathsep.join([*LIGHT, *filter(None, [os.environ.get("PYTHONPATH")])])


def matrix(cases, *kept):
    """Cases for parametrize(): `kept`, or all `cases` where `make other-programs` asks for full matrices."""
    return list(cases) if FULL else list(kept)


# Several pytest processes share the files of tests: each runs a file that no other process has taken (run.sh).
TAKEN = os.environ.pop("E2E_TAKEN", None)


@functools.cache
def is_taken(path):
    """Takes a file of tests for this process. Returns True if another process has it."""
    try:
        os.mkdir(pathlib.Path(TAKEN, path.name))
    except FileExistsError:
        return True
    return False


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    """Skips a test whose file another process has taken: True ends pytest's protocol."""
    return True if TAKEN and is_taken(item.path) else None


@pytest.fixture(scope="session")
def library():
    """The path of libcprof.so, which `make e2e` builds."""
    path = BUILD / "libcprof.so"
    if not path.is_file():
        pytest.fail(f"{path} is missing: run make")
    return path


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Each test runs in a folder of its own, since traces with default names go to the current folder."""
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="session")
def torch_run(tmp_path_factory):
    """A folder with traces of torch.profiler, and torch's own tables, stacks and timeline of them."""
    pytest.importorskip("torch", reason="PyTorch is not installed in .venv")
    import tool
    return tool.torch_run(tmp_path_factory.mktemp("torch"))


@pytest.fixture(scope="session")
def our_trace(tmp_path_factory):
    """A trace of cprof's: two steps of a small training."""
    pytest.importorskip("torch", reason="PyTorch is not installed in .venv")
    import tool
    return tool.our_trace(tmp_path_factory.mktemp("ours"))
