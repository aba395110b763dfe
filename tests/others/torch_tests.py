# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own test files. A wheel has torch.testing but not test/*.py, so the files come from Debian's source package, whose version may differ
from the torch under test. A test that fails because of that also fails without the library, and is no difference.

OTHER_TORCH_TESTS names the folder test/ of a source tree. Without it, apt-get fetches the package once, from this machine's own sources."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

SUITE = "trixie"
NEEDED = ("expecttest", "hypothesis", "pytest", "pytest-timeout")
APT_SOURCES = pathlib.Path("/etc/apt/sources.list.d/debian.sources")

# {group: files}; one pytest process a group. PyTorch's other files test much the same.
GROUPS = {
    "profiler": "profiler/test_profiler profiler/test_profiler_tree profiler/test_record_function profiler/test_torch_tidy "
                "profiler/test_memory_profiler profiler/test_kineto profiler/test_execution_trace test_itt",
    "small": "test_futures test_module_hooks test_module_tracker test_weak test_subclass test_monitor test_autograd_fallback test_flop_counter "
             "test_dlpack test_throughput_benchmark test_mkl_verbose test_mkldnn_verbose test_logging test_openmp test_native_mha test_show_pickle "
             "test_legacy_vmap test_set_default_mobile_cpu_allocator jit/test_script_profile",
    "hooks of modules": "test_flop_counter",
    "serialization": "test_serialization",
    "dataloader": "test_dataloader",
    "dynamo": "dynamo/test_profiler dynamo/test_hooks",
    "multiprocessing": "test_multiprocessing test_multiprocessing_spawn",
    "dispatch": "test_overrides test_dispatch test_static_runtime test_autocast test_functional_optim lazy/test_bindings",
    "store": "distributed/test_store",
    "gloo": "distributed/test_c10d_gloo distributed/test_c10d_object_collectives",
    "launcher": "distributed/elastic/multiprocessing/redirects_test distributed/elastic/multiprocessing/tail_log_test distributed/test_multi_threaded_pg",
    "vmap": "functorch/test_vmap",
    "autograd": "test_autograd",
}
# {group: pytest -k expression} for groups that run in part.
CHOSEN = {
    "dataloader": "not (Segfault or error_traceback or proper_exit)",  # these tests crash or wait on purpose, for minutes
    "small": "not test_hook_registration",
    "hooks of modules": "test_hook_registration",
    "vmap": "TestVmapAPI",
    "gloo": "ProcessGroupGlooTest and not cuda and (barrier or allgather_coalesced or gather_noncontiguous or reduce_scatter or send_recv or "
            "allreduce_basics or broadcast_basics) or Object",  # each test starts four processes
    "autograd": "hook or checkpoint or anomaly or profiler or thread or custom_function",
}
# The test counts the entries of torch's tables of hooks, and CPROF_WITH_MODULES=1 adds two (scripts/LIMITS.md).
SETTINGS = {"hooks of modules": {"CPROF_WITH_MODULES": "0"}}


def _ran(command, folder):
    """Runs a command. Returns None, or the last line of its output if it failed."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return ((done.stderr or done.stdout).strip() or "failed").splitlines()[-1] if done.returncode else None


def _source_list(folder):
    """A list of apt sources for source packages, from this machine's own mirror; None if this is no Debian."""
    try:
        text = APT_SOURCES.read_text()
    except OSError:
        return None
    first = re.sub(r"(?m)^#.*\n", "", text).strip().split("\n\n")[0]
    for field, value in {"Types": "deb-src", "Suites": SUITE, "Components": "main"}.items():
        first = re.sub(rf"(?m)^{field}:.*$", f"{field}: {value}", first)
    path = folder / "source.sources"
    path.write_text(first + "\n")
    return path


def _fetched(folder):
    """(folder test/, None) or (None, reason)."""
    named = os.environ.get("OTHER_TORCH_TESTS")
    found = pathlib.Path(named) if named else folder / "tree/test"
    if found.is_dir() or named:
        return (found, None) if found.is_dir() else (None, f"OTHER_TORCH_TESTS: no folder {named}")
    if not shutil.which("apt-get"):
        return None, "no apt-get here: OTHER_TORCH_TESTS=FOLDER names test/ of a source tree"
    shutil.rmtree(folder / "tree", ignore_errors=True)
    for name in ("lists/partial", "tree"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    sources = _source_list(folder)
    if sources is None:
        return None, "no sources of Debian here: OTHER_TORCH_TESTS=FOLDER names test/ of a source tree"
    apt = ["apt-get", "-q", "-o", f"Dir::Etc::sourcelist={sources}", "-o", "Dir::Etc::sourceparts=-", "-o", f"Dir::State::lists={folder}/lists"]
    unpack = "tar -xf pytorch_*.orig.tar.* -C tree --strip-components=1 --wildcards '*/test/*'"
    for command in ([*apt, "update"], [*apt, "source", "--download-only", "pytorch"], ["sh", "-c", unpack]):
        reason = _ran(command, folder)
        if reason:
            return None, f"PyTorch's sources cannot be had: {reason}"
    return found, None


def torch_tests(build):
    """(name, arguments of python, environment) for each group, or (name, None, why it is skipped)."""
    folder = build / "torch-tests"
    folder.mkdir(parents=True, exist_ok=True)
    tests, reason = _fetched(folder)
    packages = folder / "packages"
    if not reason and not (packages / "expecttest").is_dir():
        reason = _ran([sys.executable, "-m", "pip", "install", "-q", "--target", str(packages), *NEEDED], folder)
    for name, files in GROUPS.items():
        paths = [] if reason else [str(path) for path in (tests / f"{file}.py" for file in files.split()) if path.exists()]
        if not paths:
            yield f"PyTorch's tests: {name}", None, reason or f"none of its files are in {tests}"
            continue
        chosen = ["-k", CHOSEN[name]] if name in CHOSEN else []
        arguments = ["-m", "pytest", "-q", "-c", os.devnull, "--noconftest", "-p", "no:cacheprovider", "--timeout", "300", "--junit-xml",
                     "junit.xml", "--rootdir", str(tests), *chosen, *paths]
        yield f"PyTorch's tests: {name}", arguments, {"PYTHONPATH": f"{packages}:{tests}", "OMP_NUM_THREADS": "1", **SETTINGS.get(name, {})}
