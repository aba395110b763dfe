# SPDX-License-Identifier: Apache-2.0
"""Other destinations of traces: cprof_export_chrome_trace() and TensorBoard's folder."""

import json
import os
import re
import socket
import stat

import pytest

import consumers
from conftest import ROOT
from support import PROGRAMS, events, files, load, python, read_bytes, run, step_numbers

MODULE = dict(env=dict(PYTHONPATH=str(ROOT / "scripts/python")))


def test_export_is_complete_on_return(tmp_path):
    """Called right after the step that ends a window, export writes that window's trace. The name decides about gzip."""
    code = """
import cprof, json, gzip
assert not cprof.export_chrome_trace("early.json")
def work():
    for i in range(200): push(b"span%d" % i); pop()
work(); step(); work(); step()
assert cprof.export_chrome_trace("a.json") and cprof.export_chrome_trace(__import__("pathlib").Path("a.json.gz"))
json.load(open("a.json")); json.load(gzip.open("a.json.gz"))
work(); step(); work(); step()
with cprof.profile() as p:
    work()
assert cprof.export_chrome_trace("a.json")   # over the old one
assert not cprof.export_chrome_trace("no/such/folder.json")
assert cprof.export_chrome_trace("nul\\0.json") and os.path.exists("nul\ufffd.json") and not os.path.exists("nul")
os.unlink("nul\ufffd.json")
"""
    for use_gzip in (0, 1):
        folder = tmp_path / str(use_gzip)
        folder.mkdir()
        result = run(python(code), folder / "t", cwd=folder, WARMUP=0, ACTIVE=1, REPEAT=2, USE_GZIP=use_gzip, **MODULE)
        assert result.rc == 0, result.err
        assert result.complaints[0] == 'cprof_export_chrome_trace("early.json"): no trace is complete yet'
        assert 'cprof_export_chrome_trace("no/such/folder.json"): cannot copy' in result.complaints[1]
        assert sorted(path.name for path in files(folder) if path.parent == folder) == ["a.json", "a.json.gz"]
        assert (folder / "a.json").read_bytes()[:1] == b"{" and (folder / "a.json.gz").read_bytes()[:2] == b"\x1f\x8b"
        assert step_numbers(load(folder / "a.json.gz")) == [1]
        assert len(events(load(folder / "a.json"), ph="X", name=re.compile("span"))) == 200
        assert read_bytes(folder / "a.json") == read_bytes(result.traces[-1])


def test_export_returns_false_without_library_or_in_a_child(tmp_path):
    code = "import cprof\nprint(cprof.export_chrome_trace('x.json'))"
    assert run(python(code), tmp_path, preload=False, **MODULE).out == "False\n"
    code = "import cprof\nsteps(2)\npid = os.fork()\nif pid == 0:\n    print(cprof.export_chrome_trace('x.json'), flush=True); os._exit(0)\n" \
           "os.waitpid(pid, 0)"
    assert run(python(code), tmp_path / "t", WARMUP=0, ACTIVE=1, **MODULE).out == "False\n"


def test_export_of_a_removed_trace_fails(tmp_path):
    code = "import cprof\nsteps(1); time.sleep(0.5)\nprint(cprof.export_chrome_trace('x.json'))"
    result = run(python(code), tmp_path / "t", cwd=tmp_path, WARMUP=0, ACTIVE=1, NUM_TRACES_TO_KEEP=0, ON_TRACE_READY="true", **MODULE)
    assert result.out == "False\n" and "No such file" in result.complaints[0]


def test_export_in_a_forked_child_reports_why(tmp_path):
    code = "import cprof\nsteps(2)\npid = os.fork()\nif pid == 0:\n    cprof.export_chrome_trace('x.json'); os._exit(0)\nos.waitpid(pid, 0)"
    result = run(python(code), tmp_path / "t", WARMUP=0, ACTIVE=1, **MODULE)
    assert result.complaints == ['cprof_export_chrome_trace("x.json"): a forked child has no traces']


# ---- destinations that are not files ---------------------------------------------------------------------------------------

@pytest.fixture
def device(tmp_path):
    """Makes device files for the test. export must never run on the machine's own devices."""
    def make(name, minor):
        path = tmp_path / name
        try:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, minor))
            path.open("wb").close()
        except OSError as error:
            pytest.skip(f"no device can be made here: {error}")
        return path
    return make


def test_export_into_a_device(tmp_path, device):
    null, full = device("null", 3), device("full.json.gz", 7)
    (tmp_path / "link.json").symlink_to("null")
    code = "import cprof\nsteps(2)\nprint(*(cprof.export_chrome_trace(name) for name in ('null', 'link.json', 'full.json.gz')))"
    result = run(python(code), tmp_path / "t", cwd=tmp_path, WARMUP=0, ACTIVE=1, **MODULE)
    assert result.out == "True True False\n"
    assert [stat.S_ISCHR(path.lstat().st_mode) for path in (null, full)] == [True, True] and (tmp_path / "link.json").is_symlink()
    assert len(result.complaints) == 1 and result.complaints[0].endswith("No space left on device")
    assert sorted(os.listdir(tmp_path)) == ["full.json.gz", "link.json", "null", "t"]


def test_export_into_a_fifo(tmp_path):
    """The reader is slower than the export."""
    code = """
import cprof, fcntl, gzip, json, select
steps(2)
for name in ("a.json", "a.json.gz"):
    os.mkfifo(name)
    fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK)
    fcntl.fcntl(fd, 1031, 4096)  # F_SETPIPE_SZ
    os.set_blocking(fd, True)
    got = []
    def read():
        select.select([fd], [], [])  # until the export has opened it
        time.sleep(0.2)
        while data := os.read(fd, 1000): got.append(data)
    thread = threading.Thread(target=read)
    thread.start()
    assert cprof.export_chrome_trace(name)
    thread.join()
    os.close(fd)
    json.loads(gzip.decompress(b"".join(got)) if name.endswith(".gz") else b"".join(got))
"""
    result = run(python(code), tmp_path / "t", cwd=tmp_path, WARMUP=0, ACTIVE=1, **MODULE)
    assert result.rc == 0 and result.complaints == [], result.err
    assert sorted(os.listdir(tmp_path)) == ["a.json", "a.json.gz", "t"]


def test_export_into_stuck_fifos_folders_and_sockets_fails(tmp_path):
    """FIFOs without a reader, with a stuck reader and with a reader that leaves; a folder; a socket. Each gives one line, and the program
    continues."""
    code = """
import cprof, fcntl, socket
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
steps(2)
os.mkfifo("alone"); os.mkfifo("stuck"); os.mkfifo("goes"); os.mkdir("folder"); socket.socket(socket.AF_UNIX).bind("socket")
assert not cprof.export_chrome_trace("alone")
fd = os.open("stuck", os.O_RDONLY | os.O_NONBLOCK)
fcntl.fcntl(fd, 1031, 4096)
assert not cprof.export_chrome_trace("stuck")
fd = os.open("goes", os.O_RDONLY | os.O_NONBLOCK)
fcntl.fcntl(fd, 1031, 4096)
threading.Timer(0.3, os.close, [fd]).start()
assert not cprof.export_chrome_trace("goes")
assert not cprof.export_chrome_trace("folder") and not cprof.export_chrome_trace("socket")
print("done")
"""
    result = run(python(code), tmp_path / "t", cwd=tmp_path, WARMUP=0, ACTIVE=1, **MODULE)
    assert (result.rc, result.out) == (0, "done\n"), result.err
    ends = {"alone": "nobody reads the FIFO", "stuck": "it took nothing for 5 s", "goes": "nobody reads the FIFO",
            "folder": "Is a directory", "socket": "it is a socket"}
    assert len(result.complaints) == len(ends)
    for line, (name, why) in zip(result.complaints, ends.items()):
        assert line.startswith(f'cprof_export_chrome_trace("{name}"): cannot copy ') and line.endswith(f": {why}")
    assert sorted(os.listdir(tmp_path)) == ["alone", "folder", "goes", "socket", "stuck", "t"]


def test_export_beyond_the_file_size_limit_fails(tmp_path):
    """Beyond RLIMIT_FSIZE, SIGXFSZ would end the program."""
    code = """
import cprof, resource
steps(2); cprof.export_chrome_trace("a.json")
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
print(cprof.export_chrome_trace("b.json"))
"""
    result = run(python(code), tmp_path / "t", cwd=tmp_path, WARMUP=0, ACTIVE=1, **MODULE)
    assert (result.rc, result.out) == (0, "False\n") and len(result.complaints) == 1, result.err
    assert sorted(os.listdir(tmp_path)) == ["a.json", "t"]


# ---- at the end of the program -----------------------------------------------------------------------------

def test_export_while_the_program_ends(tmp_path):
    """on_trace_ready exports the trace that the callback is for, also the partial trace at the end."""
    code = """
import atexit, cprof
atexit.register(lambda: print("late", cprof.export_chrome_trace("late.json")))
def ready(trace):
    print(os.path.basename(trace.path), cprof.export_chrome_trace(f"{trace.first_step}.json"), flush=True)
cprof.set_on_trace_ready(ready)
steps(1); time.sleep(1); steps(2)
"""
    result = run(python(code), tmp_path / "t", cwd=tmp_path, WARMUP=1, ACTIVE=3, **MODULE)
    assert result.complaints == [] and len(result.traces) == 1
    assert result.out == f"{result.names[0]} True\nlate True\n"
    assert read_bytes(tmp_path / "1.json") == read_bytes(tmp_path / "late.json") == read_bytes(result.traces[0])


def test_export_from_a_trace_handler(tmp_path):
    result = run(python("steps(2)"), tmp_path / "t", cwd=tmp_path, WARMUP=0, ACTIVE=3,
                 TRACE_HANDLERS=f"{PROGRAMS}/libhandler_log.so=exports:{tmp_path}/log")
    assert result.complaints == [] and len(result.traces) == 1
    calls = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    assert {"call": "exported", "done": 1} in calls
    assert read_bytes(tmp_path / "copy.json") == read_bytes(result.traces[0])


# ---- TensorBoard -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("use_gzip", [0, 1])
def test_tensorboard_file_names_match_torchs(tmp_path, use_gzip):
    """The names match those of torch.profiler.tensorboard_trace_handler, and the plugin parses them."""
    result = run(python("print(os.getpid()); steps(4)"), tmp_path / "tb", WARMUP=0, ACTIVE=2, REPEAT=2, FOLDER=None,
                 TENSORBOARD_DIR=tmp_path / "tb", USE_GZIP=use_gzip)
    ending = r"\.pt\.trace\.json" + (r"\.gz" if use_gzip else "")
    worker = f"{re.escape(socket.gethostname())}_{result.out.strip()}"
    assert len(result.names) == 2 and all(re.fullmatch(rf"{worker}\.\d{{19}}{ending}", name) for name in result.names)
    consts = pytest.importorskip("torch_tb_profiler.consts")
    for path in result.traces:
        match = consts.WORKER_PATTERN.match(path.name)
        assert match and match.group(1) == worker.replace("\\", "") and load(path)
    assert (tmp_path / "tb/saved_traces.jsonl").exists()


def test_tensorboard_worker_expands_variables(tmp_path):
    """The plugin loads the run and finds the worker of each rank."""
    for rank in (0, 1):
        result = run(python("steps(2)"), tmp_path / "x", WARMUP=0, ACTIVE=2, FOLDER=None, TENSORBOARD_DIR=tmp_path / "{run_name}",
                     RUN_NAME="tb", TENSORBOARD_WORKER="worker{rank}-b{batch}", env=dict(RANK=str(rank), WORLD_SIZE="2"))
        assert result.rc == 0 and result.complaints == []
    names = sorted(path.name for path in files(tmp_path / "tb", ".json"))
    assert [re.sub(r"\d{19}", "N", name) for name in names] == [f"worker{rank}-b2.N.pt.trace.json" for rank in (0, 1)]
    for path in files(tmp_path / "tb", ".json"):
        assert consumers.tensorboard(path)["steps"] == ["0", "1"]
