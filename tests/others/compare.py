# SPDX-License-Identifier: Apache-2.0
"""Runs a command without and with the library and reports differences: exit code, both outputs, files, results of single tests.

    found = compare(Case("echo", ["echo", "x"]), "recording", library, wake, folder)
    assert found == []

Modes: `idle` preloads the library only. `recording` also preloads libwake.so, so that every process of the tree records from before
its main() to its end. `stacks` records with Python and native stacks, shapes and modules, from the time when Python imports `site`. cprof's own
lines on stderr are no difference; everything else is.
"""

import dataclasses
import difflib
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import xml.etree.ElementTree
from typing import Callable, Dict, List, Optional

HERE = pathlib.Path(__file__).resolve().parent
NO_TESTS_RAN = 4  # exit code of CPython's regrtest: all tests of a file need a resource that was not granted, such as a network
MODES = ("idle", "recording", "stacks", "flight")
SITE = """\
import ctypes
library = ctypes.CDLL(None)
if hasattr(library, "cprof_range_push"):
    library.cprof_range_push(b"the whole program")
    library.cprof_mark(b"begins")
del ctypes, library
"""


@dataclasses.dataclass
class Case:
    """A command, and which of its results are compared."""
    name: str
    command: List[str]
    env: Dict[str, str] = dataclasses.field(default_factory=dict)
    stdin: bytes = b""
    results: List[str] = dataclasses.field(default_factory=list)  # globs of files whose bytes are compared
    junit: str = ""            # a file with the outcome of each test, compared instead of the outputs
    mask: Callable[[str], str] = lambda text: text  # removes text that differs from run to run
    modes: tuple = MODES[:2]
    limit_s: float = 300
    quick: bool = False        # also part of --quick
    behind: str = ""           # a library after cprof in LD_PRELOAD; a library in env comes before it


@dataclasses.dataclass
class Outcome:
    """The results of a run."""
    rc: object
    out: str
    err: str
    files: Dict[str, str]
    tests: Optional[Dict[str, str]]


def common_mask(text):
    """Masks addresses, durations and pids in messages."""
    text = re.sub(r"0x[0-9a-f]{4,}", "0x…", text)
    text = re.sub(r"\b[IWEF]\d{4} \d\d:\d\d:\d\d\.\d+( \d+ )?", "TIME PID ", text)  # lines of glog, and torch's in its style
    text = re.sub(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d \d+:\d+\b", "TIME PID", text)
    text = re.sub(r"\b(process) \d+\b", r"\1 PID", text)
    text = re.sub(r"(line \d+:) +\d+ ([A-Z][a-z ]+)", r"\1 PID \2", text)  # the shell's line about a child that a signal ended
    return re.sub(r"\b\d+(\.\d+)?(e-\d+)? ?(ms|us|s|sec|seconds)\b", "… s", text)


def environment(mode, library, wake, folder):
    """The environment of a run; mode None is the run without the library."""
    variables = {name: value for name, value in os.environ.items() if not name.startswith("CPROF_") and name != "LD_PRELOAD"}
    variables.update(LC_ALL="C.UTF-8", TERM="dumb", HOME=str(folder / "home"), TMPDIR=str(folder / "tmp"))
    if mode == "stacks" or mode is None and (folder / "site").is_dir():
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, [str(folder / "site"), variables.get("PYTHONPATH")]))
    if mode is None:
        return variables
    variables["LD_PRELOAD"] = f"{wake}:{library}" if mode in ("recording", "flight") else str(library)
    settings = {"FOLDER": folder.parent / "traces", "LOG": "error"}
    if mode == "flight":  # between windows, with looks at the threads
        settings.update(FLIGHT=1, FLIGHT_HANG_S=1, WAIT=1000000, TRACE_CHILDREN=1, OVERWRITE=1)
    elif mode != "idle":
        settings.update(SCHEDULE_SCOPE="none", TRACE_CHILDREN=1, OVERWRITE=1, MAX_TRACE_MB=64)
    if mode == "stacks":
        settings.update(WITH_STACK=1, RECORD_SHAPES=1, WITH_MODULES=1)
    variables.update({"CPROF_" + name: str(value) for name, value in settings.items()})
    return variables


def one_run(case, mode, stacks, library, wake, folder):
    """Runs the command in a new folder, which has the same name in each run."""
    shutil.rmtree(folder, ignore_errors=True)
    for name in ("home", "tmp", "work", *(["site"] if stacks else [])):
        (folder / name).mkdir(parents=True)
    if stacks:
        (folder / "site/sitecustomize.py").write_text(SITE)
    env = environment(mode, library, wake, folder)
    for name, value in case.env.items():
        env[name] = value + (":" + env[name] if name in ("LD_PRELOAD", "PYTHONPATH") and name in env else "")
    if case.behind:
        env["LD_PRELOAD"] = ":".join(filter(None, [env.get("LD_PRELOAD"), case.behind]))
    process = subprocess.Popen(case.command, env=env, cwd=folder / "work", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, start_new_session=True)
    try:
        out, err = process.communicate(case.stdin, case.limit_s)
        rc = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate(timeout=60)
        rc = f"not done after {case.limit_s} s"
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # processes that the command left behind
        except OSError:
            pass
    lines = err.decode("utf-8", "replace").splitlines(keepends=True)
    text = "".join(line for line in lines if not line.startswith("cprof: "))
    files = {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
             for glob in case.results for path in sorted((folder / "work").glob(glob)) if path.is_file()}
    tests = outcomes(folder / "work" / case.junit) if case.junit else None
    return Outcome(rc, case.mask(common_mask(out.decode("utf-8", "replace"))), case.mask(common_mask(text)), files, tests)


def outcomes(path):
    """{test: ok, failed or skipped} of a JUnit file; None if there is no such file."""
    try:
        root = xml.etree.ElementTree.parse(path).getroot()
    except (OSError, xml.etree.ElementTree.ParseError):
        return None
    found = {}
    for test in root.iter("testcase"):
        kinds = {child.tag for child in test}
        result = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else test.get("result", "ok")
        found[f"{test.get('classname', '')}.{test.get('name')}".lstrip(".")] = result
    return found


def diff(what, a, b):
    lines = list(difflib.unified_diff(a.splitlines(), b.splitlines(), "without", "with", lineterm="", n=0))
    return [f"{what}: {line}" for line in lines[2:12]]


def differences(a, b):
    """The differences between two outcomes, as text."""
    if a.tests is not None or b.tests is not None:
        return []  # compare_tests() compares single tests over several runs
    found = [] if a.rc == b.rc else [f"exit code {a.rc} without, {b.rc} with"]
    found += diff("stdout", a.out, b.out) + diff("stderr", a.err, b.err)
    for name in sorted(a.files.keys() | b.files.keys()):
        if a.files.get(name) != b.files.get(name):
            found.append(f"file {name} differs" if name in a.files and name in b.files else f"file {name} is in one run only")
    return found


def compare(case, mode, library, wake, folder, tries=3):
    """The differences that every try shows. A single test differs if no try gives a result that it has without the library. A command that fails
    without the library is a difference, too, since it compares nothing."""
    run = lambda which: one_run(case, which, mode == "stacks", library, wake, pathlib.Path(folder) / "run")
    shutil.rmtree(pathlib.Path(folder) / "traces", ignore_errors=True)
    without, found = run(None), []
    if without.tests is not None or case.junit:
        return compare_tests(case, mode, run, without)
    if without.rc != 0:
        return [f"the command fails without the library: exit code {without.rc}", *(without.err or without.out).splitlines()[-5:]]
    for attempt in range(tries):
        found = differences(without, run(mode))
        if not found:
            return []
        if attempt + 1 < tries:
            again = run(None)
            if differences(without, again):
                without = again  # runs without the library differ, too: compare with the new one
    return found


def compare_tests(case, mode, run, without, tries=8):
    """Compares single tests. A flaky test has several outcomes without the library. Eight tries, since of hundreds of flaky tests some show the same
    outcome three times in a row."""
    if without.tests is None and without.rc == NO_TESTS_RAN:
        last = run(mode)
        return [] if last.tests is None and last.rc == without.rc else [f"exit code {without.rc} without, {last.rc} with"]
    if without.tests is None:
        return [f"the run without the library left no {case.junit}: exit code {without.rc}\n{without.err[-1000:]}"]
    expected = {name: {result} for name, result in without.tests.items()}
    open_tests, last = None, without
    for attempt in range(tries):
        last = run(mode)
        if last.tests is None:
            found = [f"the run with the library left no {case.junit}: exit code {last.rc}\n{last.out[-500:]}{last.err[-1500:]}"]
        else:
            names = expected.keys() | last.tests.keys()
            bad = {n for n in names if last.tests.get(n, "missing") not in expected.get(n, {"missing"})}
            open_tests = bad if open_tests is None else open_tests & bad
            found = [f"{n}: {'/'.join(sorted(expected.get(n, {'missing'})))} without, {last.tests.get(n, 'missing')} with"
                     for n in sorted(open_tests)]
            if not open_tests:
                return []
        if attempt + 1 < tries:
            for name, result in (run(None).tests or {}).items():
                expected.setdefault(name, set()).add(result)
    return found
