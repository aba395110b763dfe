# SPDX-License-Identifier: Apache-2.0
"""CPROF_WITH_STACK: stacks equal the interpreter's own, on each CPython of this machine. Taking them does not crash while threads, code and
libraries come and go. Native frames stand below Python's, and readers of traces load the stacks."""

import ast
import ctypes.util
import glob
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

import consumers
import perfetto
import torch_runs
from gpu_runs import gpu_run, needed as needs_sim
from support import BUILD, PROGRAMS, TIMEOUT_S, TRAIN, Running, events, files, load, python, run
from torch_runs import SCRIPTS, needs_torch_2

KNOWN = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15")
ROOT = pathlib.Path(__file__).resolve().parents[2]
LINE = re.compile(r"^(.*)\((\d+)\): (.*)$", re.S)
needs_libunwind = pytest.mark.skipif(ctypes.util.find_library("unwind") is None, reason="no libunwind.so.8 (Debian: libunwind8)")


def interpreters():
    """{version, "own" or "system": path}. These are the tests' own Python, the system's, those in TEST_PYTHONS (PATH:PATH, each ending in
    pythonVERSION; a path may be a script that enters another root), and those of pyenv and PATH."""
    found = {"own": sys.executable, "system": shutil.which("python3", path=os.defpath)}
    for path in filter(None, os.environ.get("TEST_PYTHONS", "").split(":")):
        found[os.path.basename(path).replace("python", "")] = path
    for folder in sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*"))):
        found.setdefault(".".join(os.path.basename(folder).split(".")[:2]), os.path.join(folder, "bin", "python3"))
    for version in KNOWN:
        found.setdefault(version, shutil.which(f"python{version}", path=os.defpath))
    return {name: path for name, path in found.items() if path and os.access(path, os.X_OK)}


def version_of(path):
    done = subprocess.run([path, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, check=True)
    return tuple(map(int, done.stdout.split()))


PYTHONS = interpreters()
each_python = pytest.mark.parametrize("which", ["own", "system", *KNOWN])


def python_or_skip(which):
    if which not in PYTHONS:
        pytest.skip(f"no Python {which} on this machine")
    return PYTHONS[which]


def traced(script, folder, *args, which="own", env=None, **settings):
    env = {"PYTHONPATH": str(SCRIPTS), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
    settings = {"WITH_STACK": 1, "STEP": "manual", "SCHEDULE_SCOPE": "none", **settings}
    return run([python_or_skip(which), SCRIPTS / script, *args], folder, env=env, **settings)


def trace_of(result):
    assert result.rc == 0, f"rc {result.rc}\n{result.out[-1000:]}\n{result.err[-3000:]}"
    assert len(result.traces) == 1, result.err
    trace = load(result.traces[0])
    assert trace["cprof"]["lost"]["total"] == 0, trace["cprof"]["lost"]
    return trace


def stack(trace, event):
    """Frames of an event from stackFrames, innermost first; None without a stack."""
    frames, at = [], event.get("sf")
    if at is None:
        assert "Call stack" not in event["args"]
        return None
    while at is not None:
        frame = trace["stackFrames"][str(at)]
        frames.append((frame["category"], frame["name"]))
        at = frame.get("parent")
    return frames


def python_frames(trace, event):
    """[(file, line, function)], outermost first. All native frames must be below those of Python."""
    frames = stack(trace, event) or []
    kinds = [kind for kind, _ in frames]
    assert kinds == sorted(kinds), f"{event['name']}: native frames among those of Python: {frames}"
    found = [LINE.match(name).groups() for kind, name in frames if kind == "python"]
    return [(file, int(line), function) for file, line, function in found[::-1]]


def same(ours, theirs):
    """cprof shows file names relative to their folder of sys.path."""
    return len(ours) == len(theirs) and all(
        a[1:] == tuple(b[1:]) and (b[0] == a[0] or b[0].endswith("/" + a[0])) for a, b in zip(ours, theirs))


def compare(result, least):
    """Each mark's stack must equal the interpreter's on the same line, plus the frame of mark() itself."""
    trace = trace_of(result)
    seen = json.loads(result.out.splitlines()[-1])
    marks = [e for e in events(trace, ph="i") if e["name"] in seen and e["name"] != "warm"]
    assert len({e["name"] for e in marks}) == len(seen) - 1 >= least
    for mark in marks:
        ours = python_frames(trace, mark)
        assert ours and ours[-1][2].startswith("mark"), f"{mark['name']}: {ours}"
        assert same(ours[:-1], seen[mark["name"]]), f"{mark['name']}\n{ours}\n{seen[mark['name']]}"
    return trace


# ---- equal to the interpreter's own stacks ------------------------------------------------------------------------

@each_python
def test_python_stacks_equal_the_interpreters(tmp_path, which):
    """Main and other threads, with and without the GIL; methods, lambdas, generators, coroutines, comprehensions, finalizers, exec,
    non-ASCII names; and new code objects at the addresses of freed ones."""
    result = traced("python_stacks.py", tmp_path, which=which)
    assert result.complaints == [], result.err
    compare(result, 220)


@each_python
def test_stacks_of_greenlets(tmp_path, which):
    if subprocess.run([python_or_skip(which), "-c", "import greenlet"], capture_output=True).returncode:
        pytest.skip(f"{PYTHONS[which]} has no greenlet")
    compare(traced("odd_stacks.py", tmp_path, "greenlet", which=which), 7)


@each_python
def test_stacks_of_subinterpreters(tmp_path, which):
    """From 3.12 on, a thread's state tells its interpreter, so its frames are right. Before, there are no frames while several interpreters
    exist, with one line."""
    result = traced("odd_stacks.py", tmp_path, "subinterpreter", which=which)
    trace = trace_of(result)
    frames = {e["name"]: python_frames(trace, e) for e in events(trace, ph="i")}
    can_tell = version_of(PYTHONS[which]) >= (3, 12)
    assert [frame[2] for frame in frames["end"]] == ["<module>", "in_subinterpreters", "plain", "mark"]
    if can_tell:
        assert result.complaints == []
        assert [frame[2] for frame in frames["inside"]] == ["<module>", "inner"]
        assert [frame[2] for frame in frames["before"]] == [frame[2] for frame in frames["end"]]
    else:
        assert len(result.complaints) == 1 and "subinterpreters" in result.complaints[0]
        assert frames["inside"] == frames["before"] == frames["after"] == []


DEEP = """
import sys
from python_stacks import mark, recursive, held, seen
def deep(n):
    if n > 0:
        return deep(n - 1)
    mark("wake")
    for _ in range(1000):
        held("warm")
    for n in range(int(sys.argv[2]), int(sys.argv[3])):
        recursive(n, "deep %d" % n)
    print({name: len(frames) + 1 for name, frames in seen.items() if name != "warm"})
deep(int(sys.argv[1]))
"""


def deep(tmp_path, which, *depths):
    env = {"PYTHONPATH": str(SCRIPTS), "PYTHONDONTWRITEBYTECODE": "1"}
    result = run([python_or_skip(which), "-c", DEEP, *depths], tmp_path, env=env, WITH_STACK=1, NATIVE_STACK=0, STEP="manual",
                 SCHEDULE_SCOPE="none")
    assert result.complaints == [], result.err
    return trace_of(result), ast.literal_eval(result.out)


@each_python
def test_stacks_are_right_around_64_frames(tmp_path, which):
    """cprof checks its own walk against the interpreter's for the innermost 64 frames. The interpreter's entry frame does not count."""
    for depth in (59, 60, 61):
        trace, told = deep(tmp_path / str(depth), which, depth, 0, 1)
        mark = events(trace, ph="i", name="deep 0")[0]
        assert len(stack(trace, mark)) == told["deep 0"]


@each_python
def test_stacks_are_cut_at_256_frames(tmp_path, which):
    trace, told = deep(tmp_path, which, 0, 245, 260)
    assert {min(told.values()) < 256, max(told.values()) > 256, 256 in told.values()} == {True}
    for name, depth in told.items():
        frames = [frame for _, frame in stack(trace, events(trace, ph="i", name=name)[0])]
        cut = frames[-1:] == ["[outer frames left out]"]
        assert cut == (depth > 256) and len(frames) - cut == min(depth, 256), name


def test_refuses_an_interpreter_without_gil(tmp_path):
    """cprof recognises such an interpreter by a function that only it exports; here another library exports the function."""
    library = tmp_path / "libnogil.so"
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-xc", "-", "-o", library], check=True, text=True,
                   input="void _Py_MergeZeroLocalRefcount(void) {}")
    result = traced("python_stacks.py", tmp_path / "traces", env={"LD_PRELOAD": str(library)})
    assert result.complaints == ["Python stacks are not recorded: this Python has no GIL; all else is"]
    assert not any(frame["category"] == "python" for frame in trace_of(result).get("stackFrames", {}).values())


@pytest.mark.parametrize("which", ["3.8", "3.16"])
def test_refuses_an_unknown_interpreter(tmp_path, which):
    result = traced("python_stacks.py", tmp_path, which=which)
    trace = trace_of(result)
    assert result.complaints == [
        f"Python stacks are not recorded: the layout of Python {which} is not known; all else is"]
    assert trace["cprof"]["notes"] == [result.complaints[0].replace("; all else is", "")]
    assert all(kind == "native" for e in events(trace, ph="i") for kind, _ in stack(trace, e) or [])


@each_python
def test_layouts_match_the_headers(tmp_path, which):
    paths = subprocess.run([python_or_skip(which), "-c", "import sysconfig; print(sysconfig.get_paths()['include'])"],
                           capture_output=True, text=True, check=True)
    include = pathlib.Path(paths.stdout.strip())
    if not (include / "internal" / "pycore_code.h").is_file():
        pytest.skip(f"{PYTHONS[which]} has no headers")
    check = tmp_path / "check"
    subprocess.run([os.environ.get("CC", "cc"), "-w", f"-I{include}", f"-I{include}/internal", "-o", check,
                    ROOT / "scripts/lint/python_layout_check.c"], check=True)
    rows = subprocess.run([check], capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(rows) == 1 + (version_of(PYTHONS[which]) >= (3, 13))
    assert set(rows) <= set((ROOT / "preload/stacks/pyframes.def").read_text().splitlines())


# ---- nothing crashes ----------------------------------------------------------------------------------------

def test_stress_on_each_python():
    """Threads, code, frames and libraries come and go while stacks are taken and windows begin and end. The interpreter ends while daemon
    threads go on. The test runs on each CPython in turn; `make soak` does the same for ten minutes."""
    seconds = 0.75 * sum(version in PYTHONS for version in KNOWN)
    done = subprocess.run([sys.executable, ROOT / "tests/soak/stacks.py", str(seconds or 0.75)], capture_output=True, text=True,
                          timeout=TIMEOUT_S * 2, env={**os.environ, "BUILD": str(BUILD)})
    assert done.returncode == 0 and done.stdout.count(": good") == max(1, sum(version in PYTHONS for version in KNOWN)), \
        done.stdout + done.stderr


def bindings(folder):
    """{symbol: files that it was bound to} of the unwinder's functions, from the loader's log."""
    found = {}
    for path in files(folder):
        for line in path.read_text(errors="replace").splitlines():
            if m := re.search(r"binding file (\S+) .*to (\S+) .*symbol `(_Unwind_\w+)'", line):
                if "libunwind" not in m.group(1):
                    found.setdefault(m.group(3), set()).add(m.group(2))
    return found


@needs_libunwind
@needs_torch_2("its errors are the same, but one is enough")
def test_torchs_exceptions_use_libgccs_unwinder(tmp_path):
    (tmp_path / "ld").mkdir()
    result = traced("stack_stress.py", tmp_path / "traces", 0.3, "torch",
                    env={"LD_DEBUG": "bindings", "LD_DEBUG_OUTPUT": str(tmp_path / "ld" / "log")})
    trace = trace_of(result)
    thrown = events(trace, ph="i", name="thrown")
    assert thrown and all(python_frames(trace, e)[-2][2] == "operate" for e in thrown)
    bound = bindings(tmp_path / "ld")
    assert "_Unwind_RaiseException" in bound
    assert all("libgcc_s" in file for where in bound.values() for file in where), bound
    native = {name for e in events(trace, ph="X", cat="cpu_op") for kind, name in stack(trace, e) or [] if kind == "native"}
    assert any(name.startswith("at::_ops::") for name in native), "no native frames: the test proves nothing"


# ---- native frames ------------------------------------------------------------------------------------------

@needs_libunwind
@needs_sim
def test_cuda_calls_have_native_stacks(tmp_path):
    """A program without Python: its launches have native stacks, also in CUPTI's rows."""
    result = gpu_run("many", tmp_path, "--launches", 50, WITH_STACK=1, SCHEDULE_SCOPE="none")
    trace = result.whole()
    launches = events(trace, ph="X", cat="cuda_runtime", name="cudaLaunchKernel")
    assert launches
    for launch in launches:
        names = [name for kind, name in stack(trace, launch)]
        shown = launch["args"]["Call stack"].split(";")[:-1]  # addr2line may answer after the event was written
        assert [LINE.sub(r"\3", name) for name in shown] == [LINE.sub(r"\3", name) for name in names]
        assert any(name.endswith("(many)") for name in names) and not any("libcprof" in name for name in names), names


def binaries(folder, *names):
    """A folder for PATH with these programs only."""
    folder.mkdir()
    for name in names:
        (folder / name).symlink_to(shutil.which(name))
    return str(folder)


def native_marks(program, folder, **more):
    """Runs tests/e2e/c/lines.c. Returns the result, the trace, the program's own {function: FILE:LINE}, and the frames as {function: texts}.
    With with_lines, the program runs until lines of its own file are in the trace."""
    with_lines = more.pop("with_lines", True)
    with Running([program, 0], folder, WITH_STACK=1, SCHEDULE_SCOPE="none", **more) as running:
        if with_lines:
            running.wait_flushed("lines.c(", ": innermost (")
        running.process.stdin.close()
        result = running.end()
    trace = trace_of(result)
    frames = {}
    for frame in trace["stackFrames"].values():
        if m := re.search(r"(?:^|: )([\w.]+)(?:\.\w+)? \(\w*lines\w*\)$", frame["name"]):
            frames.setdefault(m.group(1), set()).add(frame["name"])
    return result, trace, dict(line.split() for line in result.out.splitlines()), frames


needs_addr2line = pytest.mark.skipif(not shutil.which("addr2line"), reason="no addr2line (Debian: binutils)")


@needs_libunwind
@needs_addr2line
@pytest.mark.parametrize("tool", ["eu-addr2line", "addr2line"])
def test_native_frames_have_lines(tmp_path, tool):
    """Lines equal the compiler's. They are of the frame's function, not of a function inlined there."""
    if not shutil.which(tool):
        pytest.skip(f"no {tool} (Debian: elfutils)")
    result, trace, told, frames = native_marks(PROGRAMS / "lines", tmp_path, env={"PATH": binaries(tmp_path / "bin", tool)})
    assert result.complaints == [] and set(told) == {"main", "in_between", "innermost"}
    for function, place in told.items():
        file, line = place.rsplit(":", 1)
        assert any(text.endswith(f"{file}({line}): {function} (lines)") for text in frames[function]), (place, frames)


@needs_libunwind
@needs_addr2line
def test_lines_come_from_a_separate_debug_file(tmp_path):
    """`strip` moved the debug information to another file, which .gnu_debuglink names."""
    program, debug = tmp_path / "lines", tmp_path / ".debug" / "lines.debug"
    debug.parent.mkdir()
    for command in (["objcopy", "--only-keep-debug", PROGRAMS / "lines", debug], ["strip", "-g", "-o", program, PROGRAMS / "lines"],
                    ["objcopy", f"--add-gnu-debuglink={debug}", program]):
        subprocess.run(command, check=True, timeout=120)
    _, _, told, frames = native_marks(program, tmp_path / "traces")
    file, line = told["innermost"].rsplit(":", 1)
    assert any(text.endswith(f"{file}({line}): innermost (lines)") for text in frames["innermost"])


@needs_libunwind
@needs_addr2line
def test_frames_without_debug_information_have_names(tmp_path):
    program = tmp_path / "lines"
    subprocess.run(["strip", "-g", "-o", program, PROGRAMS / "lines"], check=True)
    result, _, _, frames = native_marks(program, tmp_path / "traces", with_lines=False)
    assert result.complaints == []
    assert frames["innermost"] == {"innermost (lines)"} and frames["main"] == {"main (lines)"}


@needs_libunwind
def test_frames_without_addr2line_have_names(tmp_path):
    result, _, _, frames = native_marks(PROGRAMS / "lines", tmp_path / "traces", with_lines=False,
                                        env={"PATH": binaries(tmp_path / "bin")})
    assert len(result.complaints) == 1 and result.complaints[0].startswith("native stacks are without lines: "), result.err
    assert frames["innermost"] == {"innermost (lines)"}


@needs_libunwind
def test_broken_addr2line_does_not_block(tmp_path):
    """addr2line never answers, dies, or prints nonsense. The trace is finished, and frames have names."""
    for name, script in (("hangs", "exec sleep 1000"), ("dies", "kill -9 $$"), ("lies", "yes 0x12")):
        folder = tmp_path / name
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "addr2line").write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        (folder / "bin" / "addr2line").chmod(0o755)
        result, _, _, frames = native_marks(PROGRAMS / "lines", folder / "traces", with_lines=False, env={"PATH": str(folder / "bin")})
        assert frames["innermost"] == {"innermost (lines)"} and len(result.complaints) <= 1, result.err


REPLACED = """
import _ctypes
places = set()
mark(b"wake"); step()
for i in range(4):
    path = sys.argv[1 + i % 2]
    library = ctypes.PyDLL(path)
    function = getattr(library, os.path.basename(path)[3:-3])
    places.add(ctypes.cast(function, ctypes.c_void_p).value)
    step()
    name = b"%d in %s" % (i, os.path.basename(path).encode())
    function(name); flushed(name)
    _ctypes.dlclose(library._handle)
print(len(places))
"""


@needs_libunwind
def test_reused_addresses_name_the_current_library(tmp_path):
    """Another library is loaded at the addresses of an unloaded one. Each frame names the library that was loaded at that time."""
    paths = [tmp_path / "libfirst.so", tmp_path / "libother.so"]
    for path in paths:
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-fPIC", "-shared", f"-DPLUGIN={path.stem[3:]}", "-o", path,
                        ROOT / "tests/e2e/c/libplugin.c"], check=True)
    result = run(python(REPLACED, *paths), tmp_path / "traces", WITH_STACK=1, STACK_ARGS="all", WAIT=0, WARMUP=0, ACTIVE=100)
    trace = trace_of(result)
    if int(result.out) == 4:
        pytest.skip("the loader gave each library its own addresses")
    marks = events(trace, ph="i", name=re.compile(r"\d in lib"))
    assert len(marks) == 4
    for mark in marks:
        library = mark["name"].split()[-1]
        assert f"{library[3:-3]} ({library});" in mark["args"]["Call stack"], mark


COME_AND_GO = """
import _ctypes, random, threading
mark(b"wake"); step()
threads, mine = int(sys.argv[1]), sys.argv[2:]
def opened(path):
    library = ctypes.PyDLL(path)
    library.plugin(b"in " + os.path.basename(path).encode())
    return library
def close(library):
    _ctypes.dlclose(library._handle)
def come_and_go(paths, seed):
    chance = random.Random(seed)
    for i in range(600):
        library = opened(chance.choice(paths))
        if i % 50 == 0: step()
        close(library)
all = [opened(path) for path in mine]
for library in all[::2]: close(library)
others = [threading.Thread(target=come_and_go, args=(mine[::2][i::threads], i)) for i in range(threads)]
[thread.start() for thread in others]; [thread.join() for thread in others]
for library in all[1::2]: library.plugin(b"still in " + os.path.basename(library._name).encode())
"""


@needs_libunwind
@pytest.mark.parametrize("libraries,threads", [(6, 1), (24, 4), (240, 4)])  # 240 leave more gaps than cprof keeps separately
def test_stacks_are_right_while_libraries_come_and_go(libraries, threads, tmp_path):
    """The program's threads do not wait for the cprof thread. A library may span the former addresses of several smaller ones."""
    paths = [tmp_path / f"lib{i}.so" for i in range(libraries)]
    for i, path in enumerate(paths):
        if i < 7:
            subprocess.run([os.environ.get("CC", "cc"), "-O1", "-fPIC", "-shared", f'-DPAD="{(i + 1) * 40000}"', "-o", path,
                            ROOT / "tests/e2e/c/libplugin.c"], check=True)
        else:
            shutil.copy(paths[i % 7], path)
    result = run(python(COME_AND_GO, threads, *paths), tmp_path / "traces", WITH_STACK=1, STACK_ARGS="all", WAIT=0, WARMUP=0, ACTIVE=10000)
    trace = trace_of(result)
    marks = events(trace, ph="i", name=re.compile(r"(still )?in lib.*"))
    assert len(marks) == libraries + threads * 600 + libraries // 2
    wrong = [mark for mark in marks if not mark["args"]["Call stack"].startswith(f"plugin ({mark['name'].split()[-1]});")]
    assert wrong == []


CHANGED = """
import _ctypes, shutil
path, other, third = sys.argv[1:]
def call(library, function, name):
    getattr(library, function)(name); flushed(name)
mark(b"wake"); step()
library = ctypes.PyDLL(path)
call(library, "first", b"as it was")
_ctypes.dlclose(library._handle)
shutil.copyfile(other, path)  # it is the same file, changed
library = ctypes.PyDLL(path)
call(library, "other", b"copied over it")
_ctypes.dlclose(library._handle)
shutil.copyfile(third, path)
library = ctypes.PyDLL(path)
os.replace(other, path)
call(library, "third", b"replaced")
"""


@needs_libunwind
def test_replaced_library_file_gives_no_wrong_names(tmp_path):
    """An upgrade replaces a library's file while the program runs. Names come from the mapped file, or there are none."""
    paths = [tmp_path / f"lib{name}.so" for name in ("first", "other", "third")]
    for path in paths:
        subprocess.run([os.environ.get("CC", "cc"), "-O1", "-fPIC", "-shared", f"-DPLUGIN={path.stem[3:]}", "-o", path,
                        ROOT / "tests/e2e/c/libplugin.c"], check=True)
    result = run(python(CHANGED, *paths), tmp_path / "traces", WITH_STACK=1, STACK_ARGS="all", WAIT=0, WARMUP=0, ACTIVE=100)
    trace = trace_of(result)
    innermost = [events(trace, ph="i", name=name)[0]["args"]["Call stack"].split(";")[0]
                 for name in ("as it was", "copied over it", "replaced")]
    assert innermost[:2] == ["first (libfirst.so)", "other (libfirst.so)"]
    assert re.fullmatch(r"libfirst\.so\+0x[0-9a-f]+", innermost[2])


@needs_libunwind
def test_generated_code_ends_the_stack_safely(tmp_path):
    """Code made at run time has no unwind information and any value in the frame pointer. Each mark is recorded with the right innermost frame.
    libunwind tests addresses through a pipe; it must not use a descriptor of the program for that."""
    result = run([PROGRAMS / "made_code", tmp_path / "own"], tmp_path / "traces", WITH_STACK=1, SCHEDULE_SCOPE="none")
    marks = events(trace_of(result), ph="i", name="made")
    made, touched = map(int, result.out.split())
    assert len(marks) == made > 50 and touched == 0
    for mark in marks:
        assert LINE.sub(r"\3", mark["args"]["Call stack"].split(";")[0]) == "mark (made_code)"


def test_unusable_libunwind_is_reported_in_one_line(tmp_path):
    """Python stacks are still recorded."""
    subprocess.run([os.environ.get("CC", "cc"), "-shared", "-fPIC", "-o", tmp_path / "libunwind.so.8", "-xc", os.devnull], check=True)
    result = traced("python_stacks.py", tmp_path / "traces", env={"LD_LIBRARY_PATH": str(tmp_path)})
    trace = compare(result, 220)
    assert len(result.complaints) == 1 and result.complaints[0].startswith("native stacks are not recorded: "), result.err
    assert all(frame["category"] == "python" for frame in trace["stackFrames"].values())


LAUNCHING = """
import ctypes, sys
from python_stacks import held
library = ctypes.PyDLL(sys.argv[1])
def train_step():
    return library.gpu_work_13(3)
held("wake")
for _ in range(1000):
    held("warm")
assert train_step() > 0
"""


@needs_sim
def test_launches_have_python_stacks(tmp_path):
    env = {"PYTHONPATH": str(SCRIPTS), "PYTHONDONTWRITEBYTECODE": "1"}
    result = run([sys.executable, "-c", LAUNCHING, BUILD / "gpu" / "libgpu13.so"], tmp_path, env=env, WITH_STACK=1, SCHEDULE_SCOPE="none")
    trace = trace_of(result)
    launches = events(trace, ph="X", cat="cuda_runtime", name="cudaLaunchKernel")
    assert len(launches) == 3 and events(trace, ph="X", cat="kernel")
    for launch in launches:
        assert [frame[1:] for frame in python_frames(trace, launch)] == [(10, "<module>"), (6, "train_step")]


# ---- torch --------------------------------------------------------------------------------------------------

PROFILED = """
import sys, torch, torch._C._profiler
sys.argv = ["train_cnn.py", "--steps", "3", "--workers", "0"]
sys.path.insert(0, {folder!r})
import train_cnn
config = torch._C._profiler._ExperimentalConfig(verbose=True)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], with_stack=True, experimental_config=config) as p:
    train_cnn.main()
p.export_chrome_trace({trace!r})
"""


def functions(event):
    """(file, function) of the Python frames of a Call stack, innermost first. Lines are left out: torch gives the line of the def."""
    frames = [LINE.match(text) for text in event["args"]["Call stack"].split(";")]
    return tuple((m.group(1), m.group(3)) for m in frames if m)


def profiled_by_torch(path):
    """torch.profiler's trace of the training script. With stacks it sometimes writes bytes that are no valid text, so this tries again."""
    script = PROFILED.format(folder=str(TRAIN.parent), trace=str(path))
    for left in (4, 3, 2, 1, 0):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
        if done.returncode < 0:  # Debian 13's torch 2.6 under Python 3.13
            pytest.skip(f"torch.profiler of this torch crashes by itself (signal {-done.returncode})")
        assert done.returncode == 0, done.stderr
        try:
            return json.loads(path.read_text(errors="replace"), strict=False)
        except json.JSONDecodeError:
            if not left:
                raise


@needs_torch_2("torch 1.x has no verbose stacks")
def test_frames_equal_torch_profilers(tmp_path):
    """Compares operators of the training script and the functions around them. Each tool runs in its own process."""
    torchs = {(e["name"], functions(e)) for e in profiled_by_torch(tmp_path / "torch.json")["traceEvents"]
              if e.get("cat") == "cpu_op" and "Call stack" in e["args"]}
    result = run([sys.executable, TRAIN, "--steps", 5, "--workers", 0], tmp_path / "traces", WITH_STACK=1, NATIVE_STACK=0, WARMUP=1,
                 ACTIVE=2)
    trace = trace_of(result)
    ours = set()
    for e in events(trace, ph="X", cat="cpu_op"):
        frames = functions(e)
        assert e["args"]["Call stack"] == "".join(name + ";" for _, name in stack(trace, e))
        ours.add((e["name"], frames))

    def inside(pairs):
        """Frames inside the model only: outside of it the two runs differ. torch leaves its own wrapper functions out."""
        left_out = ("_wrapped_call_impl", "_call_impl", "_fn", "wrapper", "decorate_context", "_use_grad")
        cut = set()
        for name, frames in pairs:
            names = [frame for frame in frames if frame[1] not in left_out]
            if ("train_cnn.py", "forward") in names:
                cut.add((name, tuple(names[:names.index(("train_cnn.py", "forward"))])))
        return cut

    assert len(inside(torchs)) > 20
    assert inside(torchs) == inside(ours)


@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """A training run with stacks and shapes."""
    folder = tmp_path_factory.mktemp("training")
    result = run([sys.executable, TRAIN, "--steps", 8, "--workers", 1], folder, WITH_STACK=1, RECORD_SHAPES=1)
    torch_runs.assert_told(result)
    return result.traces[0], trace_of(result)


@needs_torch_2("its stack has other frames")
def test_operators_ranges_and_allocations_have_stacks(training):
    _, trace = training
    assert trace["with_stack"] == 1
    for e in events(trace, ph="X", cat="cpu_op"):
        assert python_frames(trace, e)[0][0] == "train_cnn.py", e
    assert all("sf" in e for e in events(trace, ph="X", cat="user_annotation") if "#" in e["name"] and "ProfilerStep" not in e["name"])
    for e in events(trace, name="[memory]"):
        assert ("sf" in e) == (e["args"]["Bytes"] > 0)
    forward = next(e for e in events(trace, ph="X", name="aten::conv2d"))
    assert [function for _, _, function in python_frames(trace, forward)][-2:] == ["forward", "_conv_forward"]


@needs_torch_2("its stack has other frames")
def test_readers_load_traces_with_stacks(training):
    """Perfetto ignores `sf` and shows the args; HTA and TensorBoard load the file."""
    path, trace = training
    hta = pytest.importorskip("hta.trace_analysis", reason="HolisticTraceAnalysis is not installed in .venv")
    table = hta.TraceAnalysis(trace_dir=str(path.parent), include_last_profiler_step=True).t.get_trace(0)
    assert (table["ts"].count(), len(table)) == (len(table),) * 2 and len(table) >= len(events(trace, ph="X", cat="cpu_op"))
    consumers.tensorboard(path)
    if perfetto.unavailable_reason() is None:
        assert perfetto.import_errors(path) == []
        sql = "select count(*) as n from args where key = 'args.Call stack' and string_value like '%train_cnn.py(%): main;%'"
        rows = perfetto.query(path, sql)
        assert rows[0]["n"] > 100


@pytest.mark.parametrize("what", ["all", "python", "none", None])
def test_stack_args_chooses_the_frames_in_args(tmp_path, what):
    """CPROF_STACK_ARGS. By default args hold Python's frames, so that readers without stackFrames see them. stackFrames always has all."""
    trace = trace_of(traced("python_stacks.py", tmp_path, **{"STACK_ARGS": what} if what else {}))
    mark = events(trace, ph="i", name="plain")[0]
    frames = [name for kind, name in stack(trace, mark) if what == "all" or kind == "python"]
    if what == "none":
        assert "Call stack" not in mark["args"]
    else:
        assert mark["args"]["Call stack"] == "".join(name + ";" for name in frames)


@pytest.mark.parametrize("where", ["main", "thread"])
def test_reports_a_main_thread_that_runs_no_python(tmp_path, where):
    """CPython runs cprof's check in its main thread only. While that waits in a join(), stacks have native frames only: a line says so."""
    result = traced("joined_thread.py", tmp_path, where)
    trace = load(result.traces[0])
    operators = events(trace, ph="X", cat="cpu_op")
    python = [e for e in operators if "joined_thread.py" in e["args"].get("Call stack", "")]
    line = "stacks begin without Python frames"
    if where == "main":
        assert len(python) > 0.9 * len(operators) > 1000 and line not in result.err
    else:
        assert not python and not any("Call stack" in e["args"] for e in operators)
        assert len(operators) > 1000 and all("sf" in e for e in operators)
        assert result.err.count(line) == 1 and any(note.startswith(line) for note in trace["cprof"]["notes"])


def test_semicolons_in_names_become_colons(tmp_path):
    """Readers split Call stack at semicolons, so a semicolon in a file's or function's name becomes a colon there."""
    trace = trace_of(traced("python_stacks.py", tmp_path, NATIVE_STACK=0))
    mark = events(trace, ph="i", name="separators")[0]
    frames = [name for _, name in stack(trace, mark)]
    assert frames[1].startswith("/a folder;/näme 7.py(") and frames[1].endswith("): a;b c\td\ne 12")
    assert mark["args"]["Call stack"].split(";") == [name.replace(";", ":") for name in frames] + [""]


@pytest.mark.parametrize("name", ["x" * 1500, "名" * 400], ids=["ascii", "utf-8"])
def test_long_file_names_are_cut(tmp_path, name):
    """A file name of more than 1024 bytes must not make cprof believe that the interpreter's layout is unknown."""
    program = f"exec(compile('from python_stacks import held\\nfor _ in range(9): held(\"warm\")', {name!r}, 'exec'))"
    env = {"PYTHONPATH": str(SCRIPTS), "PYTHONDONTWRITEBYTECODE": "1"}
    result = run([sys.executable, "-c", program], tmp_path, env=env, WITH_STACK=1, STEP="manual", SCHEDULE_SCOPE="none")
    assert result.complaints == [], result.err
    trace = trace_of(result)
    mark = [e for e in events(trace, ph="i", name="warm") if e.get("sf") is not None][-1]
    assert any(frame.startswith(name[:300]) and len(frame.encode()) < 1100 for _, frame in stack(trace, mark))


# ---- limits, and stacks off ----------------------------------------------------------------------------------------

MANY = """
from python_stacks import held, mark, recursive, seen
def deeper(n):
    return held("many") if n == 0 else deeper(n - 1)
mark("wake")
for _ in range(1000):
    held("warm")
for n in range(200):
    recursive(n, "many")
    deeper(n)
"""


def test_stacks_beyond_the_limit_are_counted(tmp_path):
    """Events without a stack are counted, and the kept stacks are right."""
    result = run([sys.executable, "-c", MANY], tmp_path, env={"PYTHONPATH": str(SCRIPTS), "PYTHONDONTWRITEBYTECODE": "1"},
                 WITH_STACK=1, MAX_STACKS=256, NATIVE_STACK=0, SCHEDULE_SCOPE="none")
    trace = load(result.traces[0])
    marks = events(trace, ph="i", name="many")
    lost = trace["cprof"]["lost"]
    assert len(marks) == 400 and lost["stacks_full"] == lost["total"] == sum("sf" not in e for e in marks) > 100
    depths = sorted(len(python_frames(trace, e)) for e in marks if "sf" in e)
    assert len(depths) > 200 and depths[0] == 4 and all(b - a <= 1 for a, b in zip(depths, depths[1:]))


def test_open_file_has_its_frames(tmp_path):
    """The open file of a killed program can be read and holds all frames that its events refer to."""
    code = "import time\nfrom python_stacks import held\nheld('wake')\nwhile True:\n    held('many')\n    time.sleep(0.001)"
    env = {"PYTHONPATH": str(SCRIPTS), "PYTHONDONTWRITEBYTECODE": "1"}
    with Running([sys.executable, "-c", code], tmp_path, env=env, WITH_STACK=1, SCHEDULE_SCOPE="none") as program:
        path = program.wait_flushed('"stackFrames"', '"many"')
        program.process.kill()
    trace = load(path)
    stacks = [python_frames(trace, e) for e in events(trace, ph="i", name="many") if "sf" in e]
    assert stacks and all([frame[2] for frame in frames] == ["<module>", "held", "mark_holding"] for frames in stacks)


def test_no_stacks_without_the_setting(tmp_path):
    maps = "print(open('/proc/self/maps').read().count('libunwind'))"
    result = run([sys.executable, "-c", f"import ctypes\nctypes.CDLL(None).cprof_mark(b'm')\n{maps}"], tmp_path, WARMUP=0)
    text = result.traces[0].read_text()
    assert result.out.strip() == "0" and "stackFrames" not in text and '"sf"' not in text and "Call stack" not in text
