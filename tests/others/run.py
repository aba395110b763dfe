# SPDX-License-Identifier: Apache-2.0
"""Runs other people's programs with the library and without: nothing may differ.

    run.py [--quick] [--only WORD,WORD] [--list]

Runs each case below twice or more, in a folder of its own (compare.py). Prints a line for each. Exit code 1 if a case differs.
Cases that this machine cannot run are skipped with the reason. `make other-programs` takes an hour on two CPUs; `make test` runs --quick.
"""

import argparse
import dataclasses
import functools
import glob
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from typing import List

from compare import HERE, MODES, Case, compare
from torch_tests import torch_tests
from workers import KINDS, SERVERS

ROOT = HERE.parents[1]
BUILD = pathlib.Path(os.environ.get("BUILD", ROOT / "build")).resolve()
LIBRARY, WAKE, PROGRAMS = BUILD / "libcprof.so", BUILD / "e2e/libwake.so", BUILD / "e2e"

# CPython's own tests of what a preloaded library with a thread could disturb.
CPYTHON = """
    test_thread test_threading test_threadsignals test_threading_local test_subprocess test_signal test_ctypes test_gc test_faulthandler
    test_fork1 test_posix test_os test_io test_sys test_sys_settrace test_exceptions test_atexit test_resource test_mmap test_select test_poll
    test_epoll test_generators test_coroutines test_sys_setprofile test_profile test_cprofile test_tracemalloc test_bdb
    test_multiprocessing_fork test_multiprocessing_spawn test_multiprocessing_forkserver test_multiprocessing_main_handling
    test_concurrent_futures test_asyncio test_queue test_site test_cmd_line test_embed test_capi test_pty test_fcntl test_weakref test_socket
    test_socketserver test_ssl test_venv test_runpy test_shutil test_tempfile test_logging test_time test_wait3 test_wait4 test_popen
    test_warnings test_locale test_math test_float test_decimal test_struct test_zlib test_gzip test_hashlib test_sqlite3 test_dbm test_curses
    test_readline test_code_module test_import test_importlib test_largefile test_openpty test_setcomps test_syslog test_sched test_timeout
""".split()

# Runs the command as a child of sh, not as the leader of its session: a leader that opens a pseudo-terminal (test_pty up to 3.7) gets that as its
# terminal, and SIGHUP when it closes.
FOLLOWS = ["sh", "-c", '"$@"; exit $?', "sh"]

# These tests hang where the kernel has vsock without a loopback, with or without the library. The time limit would end the process without results.
HANGS = "*VSOCK*"

CHECK_S = 3600

TORCH = ("autograd_threads dataloader_fork dataloader_spawn spawn_queue shared_tensors hogwild jit compile export gloo_ddp checkpoint fx "
         "testing save_load random profiler_inside").split()


@dataclasses.dataclass
class Check:
    """A command that loads the library itself and must exit with 0."""
    name: str
    command: List[str]
    quick: bool = False
    modes: tuple = ("checked",)

    def run(self):
        """The output of the command if it failed."""
        try:
            done = subprocess.run(self.command, env=dict(os.environ, BUILD=str(BUILD)), capture_output=True, text=True, timeout=CHECK_S)
        except subprocess.TimeoutExpired:
            return [f"not done after {CHECK_S} s"]
        return [] if done.returncode == 0 else [*(done.stdout + done.stderr).splitlines(), f"exit code {done.returncode}"]


def lacks(*programs):
    """The programs that are not installed."""
    return [name for name in programs if not shutil.which(name)]


def pythons():
    """Interpreters that have CPython's tests, one of each version."""
    named = os.environ.get("OTHER_PYTHONS")
    found = {}
    for path in named.split() if named else [sys.executable, *sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")))]:
        try:
            done = subprocess.run([path, "-c", "import sys, test.libregrtest, test.test_threading; print('%d.%d' % sys.version_info[:2], sys.base_prefix)"],
                                  capture_output=True, text=True, timeout=60)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            version, prefix = done.stdout.split()
            found.setdefault(version, str(pathlib.Path(prefix) / "bin/python3"))
    return found


@functools.lru_cache(None)
def tests_of(python):
    done = subprocess.run([python, "-c", "import os, test; print(*os.listdir(os.path.dirname(test.__file__)))"], capture_output=True, text=True,
                          timeout=60)
    return {name.partition(".")[0] for name in done.stdout.split()}


def cpython_cases():
    """One case for each of CPython's tests, for the interpreters in OTHER_PYTHONS, else for the oldest and the newest."""
    found = pythons()
    if not found:
        yield "CPython's tests", "no Python here has its package `test`"
        return
    versions = sorted(found, key=lambda v: int(v.partition(".")[2]))
    chosen = versions if os.environ.get("OTHER_PYTHONS") else dict.fromkeys([versions[0], versions[-1]])
    for version in chosen:
        ignore = [] if version == "3.6" else ["--ignore", HANGS]
        for test in CPYTHON:
            if test in tests_of(found[version]):
                yield Case(f"python{version} {test}", [*FOLLOWS, found[version], "-m", "test", "--junit-xml", "junit.xml", "--timeout", "1000", *ignore, "-v", test],
                           env={"PATH": os.path.dirname(found[version]) + ":" + os.environ["PATH"]}, junit="junit.xml",
                           modes=("recording", "stacks"), limit_s=1200)


def script_cases():
    """The shell, tools, and confined surroundings."""
    yield Case("everyday commands", ["bash", str(HERE / "everyday.sh")], quick=True)
    for name, needs in {"git": ["git"], "tar": ["tar", "xz", "cpio"], "make": ["make"], "gcc": ["gcc", "g++"], "perl": ["perl"], "tcl": ["tclsh"],
                        "node": ["node"], "java": ["java"], "sqlite": ["sqlite3"], "postgres": ["psql", "setpriv"], "tmux": ["tmux"],
                        "vim": ["vim"]}.items():
        missing = lacks(*needs)
        if name == "postgres" and (os.geteuid() or not glob.glob("/usr/lib/postgresql/*/bin/initdb")):
            missing = ["root and a PostgreSQL server"]
        yield (name, f"no {missing[0]} here") if missing else Case(
            name, ["bash", str(HERE / "tools.sh"), name, str(HERE)], results=["*.o", "t.db", "r/.git/refs/heads/*"],
            modes=MODES[:1] if name == "postgres" else MODES[:2], quick=name in ("git", "perl", "gcc"))
    # In these cases the tool itself must not record, only the programs that it starts: with cprof's thread it could not enter a user namespace or
    # change its user with capabilities kept, and under the seccomp filter a call of that thread would kill it.
    alone = ("seccomp", "processes", "other_user", "unshare")
    root = "needs root" if os.geteuid() else ""
    for name in ("no_files few_files memory stack file_size file_size_signal cpu no_new_privs seccomp seccomp_off static closed odd_env deleted_folder "
                 "renamed processes other_user unshare chroot").split():
        reason = root if name in ("processes", "other_user", "unshare", "chroot") else ""
        yield (name, reason) if reason else Case(f"confined: {name}", ["bash", str(HERE / "confined.sh"), name, str(PROGRAMS)],
                                                 modes=MODES[:1] if name in alone else MODES[:2],
                                                 quick=name in ("few_files", "memory", "seccomp", "closed", "chroot"))


def watcher_cases():
    """Debuggers and tracers that run or trace a recording program."""
    for name, needs in {"gdb": ["gdb"], "strace": ["strace"], "ltrace": ["ltrace"], "valgrind": ["valgrind"]}.items():
        missing = lacks(*needs)
        yield (name, f"no {missing[0]} here") if missing else Case(
            name, [sys.executable, str(HERE / "watchers.py"), name, str(PROGRAMS)], quick=name == "strace")


def server_cases():
    nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    yield ("nginx", "no nginx here") if not nginx else Case("nginx", [sys.executable, str(HERE / "servers.py"), nginx])


def torch_cases():
    done = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, timeout=300)
    if done.returncode:
        yield "PyTorch", "not installed"
        return
    for name in TORCH:
        yield Case(f"torch {name}", [sys.executable, str(HERE / "torch_examples.py"), name], modes=("idle", "stacks", "flight"),
                   env={"OMP_NUM_THREADS": "1"}, limit_s=600)
    for package, part in (("numpy", "numpy._core.tests.test_multithreading"), ("numpy", "numpy.linalg"), ("numpy", "numpy.random")):
        wanted = subprocess.run([sys.executable, "-c", f"import {package}, hypothesis, pytest"], capture_output=True, timeout=300)
        yield (f"{part}", f"{package}'s tests need hypothesis and pytest") if wanted.returncode else Case(
            part, [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junit-xml", "junit.xml", "--pyargs", part], junit="junit.xml",
            modes=("idle", "stacks"), limit_s=1200)


def torch_test_cases():
    """PyTorch's own tests. Their version may differ from the torch here, so some fail with and without the library."""
    for name, arguments, more in torch_tests(BUILD):
        yield (name, more) if arguments is None else Case(name, [sys.executable, *arguments], env=more, junit="junit.xml",
                                                          modes=("idle", "stacks", "flight"), limit_s=1800)


def framework_cases():
    """Training runs of frameworks under the interpreter in OTHER_FRAMEWORKS, else under this one."""
    python, script = os.environ.get("OTHER_FRAMEWORKS", sys.executable), str(HERE / "frameworks.py")
    for line in subprocess.run([python, script, "--can"], capture_output=True, text=True, timeout=60).stdout.splitlines():
        name, _, lacking = line.partition(":")
        yield (f"framework {name}", f"no{lacking} in {python}") if lacking else Case(
            f"framework {name}", [python, script, name], modes=("idle", "stacks"), env={"OMP_NUM_THREADS": "1"}, limit_s=600)


def memray_case():
    """memray's unwinder keeps a pipe in a global variable, and its allocator hook runs on every thread. It is installed in an environment below BUILD."""
    python = BUILD / "venv-memray/bin/python"
    is_there = lambda: python.exists() and subprocess.run([str(python), "-c", "import memray"], capture_output=True, timeout=60).returncode == 0
    for command in [[sys.executable, "-m", "venv", str(python.parents[1])], [str(python), "-m", "pip", "install", "-q", "memray"]]:
        done = None if is_there() else subprocess.run(command, capture_output=True, text=True, timeout=600)
        if done and done.returncode:
            return "memray", f"cannot be installed: {(done.stderr or done.stdout).strip().splitlines()[-1]}"
    return Case("memray", [str(python), "-m", "memray", "run", "--native", "-f", "-o", "m.bin", str(HERE / "allocates.py")], modes=MODES,
                env={"CPROF_WITH_STACK": "1", "CPROF_OVERWRITE": "1"})


@functools.lru_cache(None)
def older_build():
    """(path, None) of a libcprof.so from before cprof handled other copies of itself, or (None, reason)."""
    commit, path = "1c9057e", BUILD / "older/build/libcprof.so"
    if subprocess.run(["git", "-C", ROOT, "cat-file", "-e", commit + "^{commit}"], capture_output=True, timeout=60).returncode:
        return None, f"no commit {commit} in this clone"
    if not path.exists():
        path.parents[1].mkdir(parents=True, exist_ok=True)
        text = f"git -C '{ROOT}' archive {commit} | tar -x && env -u BUILD make -j2 build/libcprof.so"
        if subprocess.run(["bash", "-o", "pipefail", "-c", text], cwd=path.parents[1], capture_output=True, timeout=1200).returncode:
            return None, f"commit {commit} does not build here"
    return str(path), None


def worker_cases():
    """Servers and pools whose workers run operators. The servers are installed into a folder below BUILD."""
    folder, script = BUILD / "servers", HERE / "workers.py"
    env = {"PYTHONPATH": str(folder)}
    is_there = lambda name: subprocess.run([sys.executable, "-c", f"import {name}"], env={**os.environ, **env}, capture_output=True,
                                           timeout=300).returncode == 0
    if not is_there("torch"):
        yield "workers", "PyTorch is not installed"
        return
    reason = ""
    if not (is_there("uvicorn") and is_there("gunicorn")):
        done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), "uvicorn", "gunicorn"],
                              capture_output=True, text=True, timeout=600)
        reason = (done.stderr or done.stdout).strip().splitlines()[-1] if done.returncode else ""
    for kind, ends in KINDS.items():
        for end in ends:
            name = f"workers: {kind} {end}"
            yield (name, f"cannot be installed: {reason}") if reason and kind in SERVERS else Case(
                name, [sys.executable, str(script), kind, end], modes=MODES[:1], env=env)


def preload_cases():
    """A library that exports dlsym(), one that hooks malloc() and keeps a pipe, and an older build of cprof, each before and after cprof in LD_PRELOAD."""
    for name, (path, reason) in {"a library that exports dlsym": (str(PROGRAMS / "libdlsymhook.so"), None),
                                 "a library that hooks malloc": (str(PROGRAMS / "libmallocpipe.so"), None), "an older build": older_build()}.items():
        if reason:
            yield name, reason
            continue
        for place in ({"env": {"LD_PRELOAD": path}}, {"behind": path}):
            where = f"{name} {'behind' if 'behind' in place else 'before'} cprof"
            yield Case(f"{where}: everyday commands", ["bash", str(HERE / "everyday.sh")], **place)
            for example in ("autograd_threads", "dataloader_fork", "jit"):
                yield Case(f"{where}: torch {example}", [sys.executable, str(HERE / "torch_examples.py"), example], modes=("idle", "stacks"),
                           limit_s=600, **{**place, "env": {"OMP_NUM_THREADS": "1", **place.get("env", {})}})


def build_case():
    if lacks("make", "gcc"):
        return "this project", "no make or gcc here"
    # env -u BUILD: the harness's BUILD names the folder of the tested build.
    copied = " ".join(f"'{ROOT / name}'" for name in ("preload", "cupti", "writer", "tests", "Makefile"))
    text = (f"set -e -o pipefail; cp -r {copied} .; git init -q .; env -u BUILD make -j2 build/libcprof.so 2>&1 | sort; "
            "test -s build/libcprof.so")
    return Case("this project, built", ["bash", "-c", text], results=["build/**/*.o", "build/libcprof.so"], limit_s=1200)


def flops_case():
    """The counts of FLOPs: a check, not a comparison."""
    done = subprocess.run([sys.executable, "-c", "import torch"], capture_output=True, timeout=300)
    name = "FLOPs of operators"
    return (name, "no PyTorch here") if done.returncode else Check(name, [sys.executable, str(HERE / "flops_sweep.py")])


def matrix_case():
    """The tests that `make test` runs only in part: those with matrix() of tests/e2e/conftest.py, and those of torch, which `make test` starts without its compiler."""
    tests = sorted({str(path) for path in (ROOT / "tests/e2e").glob("test_*.py") if re.search(r"matrix\(|torch", path.read_text())})
    return Check("full matrices", ["env", "FULL_MATRICES=1", sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests])


def wheel_case():
    """A wheel built with zig, which pip installs, in a fresh environment."""
    text = ("make -s wheel WHEEL=\"--out '$PWD/build/dist'\" && "
            "WHEEL=$(ls -t build/dist/cprof-*.whl | head -n 1) \"$0\" -m pytest -q -p no:cacheprovider tests/e2e/test_wheel.py")
    return Check("wheel", ["env", "-C", str(ROOT), "bash", "-c", text, sys.executable])


def ray_cases():
    """Tasks of the command on a cluster of Ray, which is installed into a folder below BUILD."""
    folder, script = BUILD / "ray", str(HERE / "ray_cluster.py")
    env = {"PYTHONPATH": str(folder)}
    if subprocess.run([sys.executable, "-c", "import ray, grpc"], env={**os.environ, **env}, capture_output=True, timeout=300).returncode:
        done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), "ray[client]"], capture_output=True, text=True,
                              timeout=1200)
        if done.returncode:
            yield "Ray cluster", f"cannot be installed: {(done.stderr or done.stdout).strip().splitlines()[-1]}"
            return
    for name, arguments in (("Ray cluster", []), ("Ray cluster, by its client", ["--client"])):
        yield Check(name, ["env", f"PYTHONPATH={folder}", sys.executable, script, *arguments])


def all_cases(quick):
    """All cases. --quick leaves out those for which the search for PyTorch and interpreters takes seconds."""
    yield from (*script_cases(), *watcher_cases())
    if not quick:
        yield from (*server_cases(), *worker_cases(), *preload_cases(), *torch_cases(), *torch_test_cases(), *framework_cases(), *cpython_cases(), memray_case(), build_case(),
                    flops_case(), matrix_case(), wheel_case(), *ray_cases())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="", metavar="WORD,…")
    parser.add_argument("--mode", choices=MODES)
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it in background jobs, where a test of CPython's then never ends
    bad, done, words = 0, 0, args.only.split(",")
    with tempfile.TemporaryDirectory(prefix="others-") as folder:
        os.chmod(folder, 0o755)
        for case in all_cases(args.quick):
            if isinstance(case, tuple):
                if any(word in case[0] for word in words):
                    print(f"skipped    {case[0]}: {case[1]}", flush=True)
                continue
            if not any(word in case.name for word in words) or args.quick and not case.quick:
                continue
            # What cannot bear a recording tool (modes idle alone) is not run in another mode.
            for mode in [args.mode] if args.mode and case.modes != MODES[:1] else case.modes[-1:] if args.quick else case.modes:
                if args.list:
                    print(case.name, mode)
                    continue
                begun = time.monotonic()
                found = case.run() if isinstance(case, Check) else compare(case, mode, LIBRARY, WAKE, folder)
                done, bad = done + 1, bad + bool(found)
                print(f"{'DIFFERENT ' if found else 'same      '} {case.name}, {mode} ({time.monotonic() - begun:.0f} s)", *found, sep="\n           ",
                      flush=True)
    print(f"{done} compared, {bad} different")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
