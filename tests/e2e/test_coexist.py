# SPDX-License-Identifier: Apache-2.0
"""Other profilers and preloaded libraries in the same process work as they do without cprof. cprof reports in one line what it leaves to
them, and records the rest. Other clients of CUPTI that come and go: test_gpu_clients.py."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

import gpu_runs
import support
from conftest import BUILD
from gpu_runs import counts, gpu_run, lost
from support import LIBRARY, Running, events, load, python, run, step_numbers

TOOL = BUILD / "e2e/libothertool.so"
ACTIVE = {"WARMUP": 0, "ACTIVE": 1000}
UNMARKED = "no step was marked"


def other_complaints(result):
    return [line for line in result.complaints if not line.startswith(UNMARKED)]


# ---- tools that the driver, NVTX or ITT load -------------------------------------------------------------

@gpu_runs.needed
def test_injected_tool_keeps_cupti(tmp_path):
    """The driver loads tools such as Nsight Systems before the program's first CUDA call. They take CUPTI, and cprof leaves it to them."""
    env = {"CUDA_INJECTION64_PATH": str(TOOL), "OTHER_TOOL": "cupti"}
    alone = gpu_run("many", tmp_path / "alone", "--launches", 20, env=env, preload=False)
    result = gpu_run("many", tmp_path, "--launches", 20, env=env)
    its_lines = [line for line in result.err.splitlines() if line.startswith("other tool")]
    assert its_lines == [line for line in alone.err.splitlines() if line.startswith("other tool")]
    assert "other tool: 40 kernels" in its_lines and "other tool: 0 0 0" in its_lines
    assert len(other_complaints(result)) == 1 and other_complaints(result)[0].startswith("another CUPTI client is at work in this process")
    trace = result.trace()
    assert result.rc == 0 and counts(trace)["kernel"] == 0 and counts(trace)["cuda_runtime"] > 0 and lost(trace) == {}
    assert trace["cprof"]["notes"] == ["another CUPTI client was at work; GPU activity is missing where it was"]


@gpu_runs.needed
@pytest.mark.parametrize("path", [TOOL, "/nowhere/libtool.so"], ids=["a tool that leaves CUPTI alone", "a library that is not there"])
def test_records_kernels_beside_an_injected_tool(tmp_path, path):
    """The driver loads the other tool in cprof's place, so recording begins at the first CUDA call of any thread.
    Each recorded launch has its kernel."""
    for n in range(8):
        result = gpu_run("many", tmp_path / str(n), "--launches", 20, "--threads", 4, env={"CUDA_INJECTION64_PATH": str(path)})
        trace = result.trace()
        assert result.rc == 0 and other_complaints(result) == [] and lost(trace) == {}
        launches = events(trace, ph="X", name="cudaLaunchKernel")
        assert len(launches) == counts(trace)["kernel"] > 0, (n, counts(trace))


SECOND = """
def begin(library):
    init, more = (address(library, name) for name in (b"InitializeInjectionNvtx2", b"cprof_step"))
    print(ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(init)(None))
    for _ in range(8): ctypes.CFUNCTYPE(None)(more)()
def names():
    return sorted(open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task"))
def at_rest():  # a thread has its creator's name until it sets its own: cprof's file thread counts as `cprof` until then
    counts = [names().count('cprof') for _ in range(50) if not time.sleep(0.01)]
    return max(set(counts), key=counts.count)
address = _c.dlsym
address.argtypes, address.restype = [ctypes.c_void_p, ctypes.c_char_p], ctypes.c_void_p
steps(3)
"""


@pytest.mark.parametrize("how", ["another path", "another namespace"])
def test_second_copy_of_the_library_stays_inert(tmp_path, how):
    """NVTX and ITT clients open the library that their variable names. This may load a second copy: into another namespace, or from another
    installation."""
    copy = tmp_path / support.LIBRARY.name
    shutil.copy(support.LIBRARY, copy)
    open_it = f"_c.dlopen({str(copy).encode()}, 1)" if how == "another path" else f"_c.dlmopen(-1, {str(support.LIBRARY).encode()}, 1)"
    code = f"{SECOND}_c.dlopen.restype = _c.dlmopen.restype = ctypes.c_void_p\n_c.dlmopen.argtypes = [ctypes.c_long, ctypes.c_char_p, ctypes.c_int]\n" \
           f"begin({open_it})\nsteps(3)\nprint(at_rest())"
    result = run(python(code), tmp_path / "t", **ACTIVE)
    assert (result.rc, result.out) == (0, "1\n1\n"), result.err
    assert len(result.traces) == 1 and step_numbers(load(result.traces[0])) == list(range(6)) and other_complaints(result) == []


@gpu_runs.needed
@pytest.mark.parametrize("step", [None, "nvtx:step*", "itt:step*"])
def test_leaves_nvtx_and_itt_to_other_tools(tmp_path, step):
    env = {"NVTX_INJECTION64_PATH": str(TOOL), "INTEL_LIBITTNOTIFY64": "/opt/vtune/libittnotify_collector.so"}
    result = gpu_run("marked", tmp_path, env=env, STEP=step)
    assert result.rc == 0 and counts(result.trace())["kernel"] > 0
    nvtx, itt = other_complaints(result)
    assert nvtx.startswith(f"NVTX_INJECTION64_PATH is {TOOL}: NVTX ranges go there") and itt.startswith("INTEL_LIBITTNOTIFY64 is /opt/vtune/")
    assert ("none marks a step" in nvtx) == (step == "nvtx:step*") and ("none marks a step" in itt) == (step == "itt:step*")


def test_variables_of_another_copy_are_not_reported(tmp_path):
    """NVTX and ITT variables inherited from a parent with another copy of cprof do not count as another tool's."""
    other = {name: f"/elsewhere/{support.LIBRARY.name}" for name in ("NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64")}
    result = run(python("steps(2)"), tmp_path, env=other, **ACTIVE)
    assert result.rc == 0 and other_complaints(result) == []


# ---- neighbours in LD_PRELOAD ------------------------------------------------------------------------------------

NEIGHBOURS = {"gperftools": "libprofiler.so.0", "jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4",
              "mimalloc": "libmimalloc.so.2"}
WORK = ("threads = [threading.Thread(target=lambda: [bytes(i) for i in range(3000)]) for _ in range(4)]\n"
        "[t.start() for t in threads]; steps(4); [t.join() for t in threads]\n"
        "child = os.fork() or os._exit(5)\nprint(os.waitpid(child, 0)[1] >> 8, subprocess.run(['sh', '-c', 'exit 6']).returncode)\nsys.exit(7)")


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.parametrize("name", NEIGHBOURS)
def test_works_beside_another_preloaded_library(tmp_path, name, place):
    path = pathlib.Path("/usr/lib/x86_64-linux-gnu") / NEIGHBOURS[name]
    if not path.exists():
        pytest.skip(f"no {path.name} on this machine")
    preload = f"{path}:{support.LIBRARY}" if place == "before" else f"{support.LIBRARY}:{path}"
    profile = tmp_path / "cpu.prof"
    result = run(python(WORK), tmp_path, preload=False, env={"LD_PRELOAD": preload, "CPUPROFILE": str(profile)}, WITH_STACK=1, **ACTIVE)
    assert (result.rc, result.out) == (7, "5 6\n"), result.err
    assert other_complaints(result) == [] and step_numbers(load(result.traces[0])) == [0, 1, 2, 3]
    assert name != "gperftools" or any(p.stat().st_size > 0 for p in tmp_path.glob("cpu.prof*"))


def test_works_with_address_sanitizer(tmp_path):
    """AddressSanitizer's runtime must come first in LD_PRELOAD; cprof comes after it."""
    gcc = shutil.which("gcc")
    asan = gcc and subprocess.run([gcc, "-print-file-name=libasan.so"], capture_output=True, text=True, timeout=60).stdout.strip()
    if not asan or "/" not in asan:
        pytest.skip("no gcc with AddressSanitizer here")
    text = ('#include "preload/cprof.h"\n#include <stdio.h>\n#include <stdlib.h>\nint main(int n, char **v) {(void)v; for (int i = 0; i < 4; i++) {'
            'cprof_range_push("x"); free(malloc(10)); cprof_range_pop(); cprof_step();} char *volatile p = malloc(3); puts("here"); return n > 1 ? p[3] : 4;}')
    (tmp_path / "a.c").write_text(text)
    root = pathlib.Path(__file__).resolve().parents[2]
    subprocess.run([gcc, "-g", "-fsanitize=address", f"-I{root}", "-o", tmp_path / "a", tmp_path / "a.c"], check=True, timeout=120)
    runtime = next(line.split()[2] for line in subprocess.run(["ldd", tmp_path / "a"], capture_output=True, text=True,
                                                              timeout=60).stdout.splitlines() if "libasan" in line)
    env = {"LD_PRELOAD": f"{runtime}:{support.LIBRARY}", "ASAN_OPTIONS": "detect_leaks=0"}
    result = run([tmp_path / "a"], tmp_path / "fine", preload=False, env=env, **ACTIVE)
    assert (result.rc, result.out, result.others) == (4, "here\n", "") and step_numbers(load(result.traces[0])) == [0, 1, 2, 3]
    result = run([tmp_path / "a", "bad"], tmp_path / "bad", preload=False, env=env, **ACTIVE)
    assert result.rc == 1 and "heap-buffer-overflow" in result.err and "in main" in result.err, "the sanitizer still finds the overflow"


# ---- profilers of Python in the same interpreter -----------------------------------------------------------------

PROFILED = """
import io, sys
def leaf(n):
    return sum(range(n))
def work():
    push(b"work")
    got = [leaf(i) for i in range(200)]
    pop(); step()
    return len(got)
"""
INSIDE = {
    "cProfile": "import cProfile, pstats\np = cProfile.Profile()\nfor _ in range(4): p.runcall(work)\n"
                "print(sorted((k[2], v[0]) for k, v in pstats.Stats(p).stats.items() if k[2] in ('leaf', 'work')))",
    "settrace": "seen = []\nsys.settrace(lambda f, e, a: seen.append(f.f_code.co_name))\nfor _ in range(4): work()\nsys.settrace(None)\n"
                "print(seen.count('leaf'), seen.count('work'))",
    "setprofile": "seen = []\nsys.setprofile(lambda f, e, a: seen.append((f.f_code.co_name, e)))\nfor _ in range(4): work()\nsys.setprofile(None)\n"
                  "print(seen.count(('leaf', 'call')), seen.count(('work', 'return')))",
    "tracemalloc": "import tracemalloc\ntracemalloc.start(10)\nfor _ in range(4): work()\nkept = bytes(100000)\n"
                   "print(tracemalloc.take_snapshot().statistics('lineno')[0].size >= 100000)",
    "faulthandler": "import faulthandler\nfaulthandler.enable()\nfaulthandler.dump_traceback_later(0.05, repeat=True)\n"
                    "for _ in range(4): work(); time.sleep(0.05)\nfaulthandler.cancel_dump_traceback_later()\nprint('done')",
    "viztracer": "import viztracer\nt = viztracer.VizTracer(output_file='v.json', verbose=0)\nt.start()\nfor _ in range(4): work()\nt.stop(); t.save()\n"
                 "import json\nprint(sum(e['name'].startswith('leaf') for e in json.load(open('v.json'))['traceEvents']))",
    "coverage": "import coverage\nc = coverage.Coverage(data_file=None)\nc.start()\nimport this_is_measured\nc.stop()\n"
                "for _ in range(4): work()\nprint(c.analysis('this_is_measured.py')[1:])",
}


@pytest.mark.parametrize("name", INSIDE)
def test_python_profiler_gets_the_same_result(tmp_path, name):
    """With stacks on, cprof reads the frames that the other profiler hooks."""
    (tmp_path / "this_is_measured.py").write_text("a = 1\nif a > 2:\n    b = 1\n")
    command = python(PROFILED + INSIDE[name])
    env = {"PYTHONPATH": os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))}
    without = run(command, tmp_path / "without", preload=False, cwd=tmp_path, env=env)
    if "ModuleNotFoundError" in without.err:
        pytest.skip(f"{name} is not installed in this environment")
    result = run(command, tmp_path / "with", cwd=tmp_path, env=env, WITH_STACK=1, **ACTIVE)
    assert without.rc == 0 and (result.rc, result.out) == (0, without.out), result.err
    assert other_complaints(result) == [] and (name == "faulthandler" or result.others == without.others)
    assert name != "faulthandler" or "in work" in result.others or "Timeout" in result.others
    trace = load(result.traces[0])
    assert step_numbers(trace) == [0, 1, 2, 3] and len(events(trace, ph="X", name="work")) == 4 and lost(trace) == {}


# ---- profilers from outside --------------------------------------------------------------------------------------

LOOP = "print('ready', flush=True)\ndef spin():\n    while not sys.stdin.readable() or not done: steps(1, 0.001)\ndone = []\n" \
       "t = threading.Thread(target=lambda: done.append(sys.stdin.readline())); t.start(); spin(); t.join(); print('end'); sys.exit(3)"


@pytest.mark.parametrize("tool", ["py-spy", "perf", "gdb", "strace"])
def test_attached_profiler_works(tmp_path, tool):
    if not shutil.which(tool):
        pytest.skip(f"no {tool} on this machine")
    with Running(python(LOOP), tmp_path, WITH_STACK=1, **ACTIVE) as running:
        running.wait_for("ready")
        pid = str(running.process.pid)
        command = {"py-spy": ["py-spy", "dump", "--pid", pid], "perf": ["perf", "record", "-g", "-o", str(tmp_path / "perf.data"), "-p", pid, "sleep", "0.5"],
                   "gdb": ["gdb", "-nx", "-batch", "-p", pid, "-ex", "thread apply all bt 3", "-ex", "detach"],
                   "strace": ["timeout", "-s", "INT", "1", "strace", "-f", "-o", str(tmp_path / "strace.txt"), "-p", pid]}[tool]
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=support.TIMEOUT_S, stdin=subprocess.DEVNULL)
        running.say("stop")
        result = running.end()
    if done.returncode and re.search("not permitted|Permission denied|not supported|perf_event_paranoid|No permission|not found for kernel", done.stdout + done.stderr):
        pytest.skip(f"{tool} may not attach here: {done.stderr.strip()[:200]}")
    assert tool != "py-spy" or "spin" in done.stdout, done.stdout + done.stderr
    assert tool != "gdb" or "cprof" in done.stdout
    assert (result.rc, result.out.splitlines()[-1]) == (3, "end"), result.err
    trace = load(result.traces[0])
    assert other_complaints(result) == [] and lost(trace) == {} and len(step_numbers(trace)) > 1


# ---- a malloc hook that keeps a descriptor in a global variable ---------------------------------------------------

TALKS = """
for i in range(12):
    push(b"work"); data = [bytes(1000 + k) for k in range(50)]; pop(); step()
    print("line", i); print("said", i, file=sys.stderr); time.sleep(0.05)
sys.exit(3)
"""


@pytest.mark.parametrize("settings", [{}, {"WITH_STACK": 1, "TRIGGER": "socket", "USE_GZIP": 0}], ids=str)
@pytest.mark.parametrize("order", ["cprof first", "cprof last"])
def test_malloc_hook_that_opens_a_pipe_keeps_its_descriptors(tmp_path, order, settings):
    """cprof's file thread, which has its own descriptor table, allocates nothing. Otherwise the hook would open its pipe in that table, and the
    descriptor numbers would be the program's stdout elsewhere."""
    libraries = [LIBRARY, BUILD / "e2e/libmallocpipe.so"]
    preload = ":".join(map(str, libraries if order == "cprof first" else reversed(libraries)))
    report = tmp_path / "report"
    result = run(["env", f"LD_PRELOAD={preload}", f"MALLOC_PIPE_REPORT={report}", *python(TALKS)], tmp_path / "traces", preload=False, WARMUP=0, ACTIVE=1000,
                 **settings)
    lines = range(12)
    assert (result.rc, result.out) == (3, "".join(f"line {i}\n" for i in lines))
    assert (result.others, result.complaints) == ("".join(f"said {i}\n" for i in lines), [])
    trace = load(result.traces[0])
    assert trace["cprof"]["complete"] and lost(trace) == {} and len(events(trace, name="work")) == 12
    on_cprof, on_files = map(int, report.read_text().split())
    assert on_cprof > 100 and on_files == 0
