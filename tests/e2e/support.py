# SPDX-License-Identifier: Apache-2.0
"""Shared by the end-to-end tests: running a program under the preload, reading its traces, and a strict validator.

    result = run(python("step()"), tmp_path, ACTIVE=1)       # CPROF_ACTIVE=1, CPROF_FOLDER=tmp_path
    assert result.rc == 0 and result.said == [] and result.names == ["rank0.5.pt.trace.json"]
    trace = load(result.traces[0])                            # read strictly and validated

The validator does not depend on how cprof writes. Its rules are those of strict JSON, and of what Perfetto's importer drops,
repairs or hangs on.
"""

import bisect
import collections
import contextlib
import ctypes
import dataclasses
import errno
import gzip
import itertools
import json
import math
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import zlib

from conftest import BUILD, LIGHT, ROOT

sys.path.insert(0, str(ROOT / "scripts"))
from cprof.tool import averages, doctor  # noqa: E402
from gpu_check.summaries import summary_problems  # noqa: E402

LIBRARY = BUILD / "libcprof.so"
PROGRAMS = BUILD / "e2e"
TRAIN = pathlib.Path(__file__).parent / "train_cnn.py"
SANITIZER = os.environ.get("SANITIZER_RUNTIME")  # `make sanitize`: the runtime of the sanitizer must be loaded first
TIMEOUT_S = 120 * int(os.environ.get("CK_TIMEOUT_MULTIPLIER", "1"))  # of one program, so that a hang fails

INT64_MAX = 2**63 - 1
UINT32_MAX = 2**32 - 1
FIRST_CPU_PID = 4096      # pids below are GPU ordinals to readers
EXACT_NS = 2**42 * 1000   # beyond, Perfetto's importer loses nanoseconds
BASE_STEP_NS = 30 * 86400 * 10**9
MAX_DEPTH = 512
PHASES = set("XiCMsfbe")
PROCESS_META = {"process_name", "process_labels", "process_sort_index"}
THREAD_META = {"thread_name", "thread_sort_index"}
GPU_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset", "gpu_user_annotation", "cuda_sync", "overhead"}

# The first lines of Python test programs. Without the preload every call does nothing.
PRELUDE = """\
import ctypes, os, signal, subprocess, sys, threading, time
_c = ctypes.CDLL(None)
def _call(name):
    return getattr(_c, "cprof_" + name, lambda *args: 0)
step, mark, push, pop = (_call(name) for name in ("step", "mark", "range_push", "range_pop"))
def flushed(text):
    # until the open file or the recorder's holds the text (not in gzip)
    while hasattr(_c, "cprof_step") and not any(text in open(os.path.join(folder, name), "rb").read()
            for folder, _, names in os.walk(os.environ["CPROF_FOLDER"]) for name in names if name.endswith((".part", ".flight"))):
        time.sleep(0.02)
def steps(n, pause=0.0):
    for i in range(n):
        push(b"work"); mark(b"mark"); pop()
        time.sleep(pause)
        step()
"""


# ---- running -----------------------------------------------------------------------------------------------

@dataclasses.dataclass
class Result:
    """The result of a program: exit code as subprocess gives it, output, and files."""
    rc: int
    out: str
    err: str
    folder: pathlib.Path

    @property
    def said(self):
        """cprof's lines on stderr, without the prefix."""
        return [line[len("cprof: "):] for line in self.err.splitlines() if line.startswith("cprof: ")]

    @property
    def complaints(self):
        """cprof's lines, without the summary at exit and, on a slow machine, the line about an unfinished upload or command."""
        return [line for line in self.said if not re.match(r"rank \d+: [\d,]+ traces?, |waiting for the upload or the command of ", line)]

    @property
    def others(self):
        """What the program itself wrote to stderr."""
        return "".join(line for line in self.err.splitlines(keepends=True) if not line.startswith("cprof: "))

    @property
    def traces(self):
        """Finished traces below the folder, in the order of the numbers in their names."""
        return sorted(files(self.folder, ".json", ".json.gz"), key=natural)

    @property
    def parts(self):
        return sorted(files(self.folder, ".part"), key=natural)

    @property
    def names(self):
        return [path.name for path in self.traces]


def natural(path):
    """Sorts rank0.12 after rank0.7."""
    return [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", str(path))]


def files(folder, *endings):
    """Regular files below the folder, with one of the endings if any are given. Leaves out lists of saved traces and summaries
    (`.summary`, and `.summary.PID~`, which kill -9 leaves)."""
    found = [path for path in pathlib.Path(folder).rglob("*") if path.is_file() and path.name != "saved_traces.jsonl" and
             ".summary" not in path.suffixes]
    return [path for path in found if not endings or path.name.endswith(endings)]


def python(code, *args):
    """The command that runs Python code that may call step(), steps(), mark(), push() and pop()."""
    return [sys.executable, "-c", PRELUDE + code, *map(str, args)]


def program(name, *args):
    """The command that runs a program of tests/e2e/c."""
    return [str(PROGRAMS / name), *map(str, args)]


def environment(folder, preload=True, env=None, **settings):
    """The environment for a program: settings without their prefix, None to leave one out; env adds other variables."""
    variables = dict(os.environ, PYTHONUNBUFFERED="1", **(env or {}))
    if settings.get("WITH_MODULES"):
        variables["WHOLE_TORCH"] = "1"  # cprof's hooks on modules work with the real torch._dynamo
    path = [part for part in variables.get("PYTHONPATH", "").split(os.pathsep) if part not in LIGHT]
    variables["PYTHONPATH"] = os.pathsep.join(filter(None, LIGHT + path))
    libraries = [variables.get("LD_PRELOAD"), str(LIBRARY) if preload else None]
    if any(libraries):
        variables["LD_PRELOAD"] = ":".join(filter(None, [SANITIZER, *libraries]))
    for name, value in dict({"FOLDER": folder}, **settings).items():
        if value is not None:
            variables["CPROF_" + name] = str(value)
    return variables


def run(command, folder, cwd=None, timeout=TIMEOUT_S, before_exec=None, **more):
    """Runs a command under the preload to its end; `more` goes to environment()."""
    done = subprocess.run([str(part) for part in command], env=environment(folder, **more), cwd=cwd, timeout=timeout,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          preexec_fn=before_exec)
    return Result(done.returncode, done.stdout, done.stderr, pathlib.Path(folder))


class Running:
    """A program that runs beside the test. wait_for() waits for a line on its stdout."""

    def __init__(self, command, folder, cwd=None, **more):
        self.folder = pathlib.Path(folder)
        self.process = subprocess.Popen([str(part) for part in command], env=environment(folder, **more), cwd=cwd,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True, errors="replace")
        self._out, self._err = [], []
        self._new_line = threading.Condition()
        self._readers = [threading.Thread(target=self._read, args=pair, daemon=True) for pair in
                         ((self.process.stdout, self._out), (self.process.stderr, self._err))]
        for reader in self._readers:
            reader.start()

    def _read(self, stream, lines):
        for line in stream:
            with self._new_line:
                lines.append(line)
                self._new_line.notify_all()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(OSError):
                stream.close()

    def wait_for(self, text, timeout=TIMEOUT_S):
        """Waits until a line of stdout holds the text."""
        end = time.monotonic() + timeout
        with self._new_line:
            while not any(text in line for line in self._out):
                left = end - time.monotonic()
                assert left > 0 and (self.process.poll() is None or self._readers[0].is_alive()), \
                    f"no {text!r}; rc {self.process.poll()}\n{''.join(self._out)}{''.join(self._err)}"
                self._new_line.wait(min(left, 0.2))

    def has_said(self, text):
        """Whether stderr holds the text already."""
        with self._new_line:
            return text in "".join(self._err)

    def wait_flushed(self, *texts, without=()):
        """Waits until the open file, gzip or not, is whole and holds `texts` and none of `without`. Returns its path. An open range is in
        the file at once, maybe before earlier records that the cprof thread reads only in its next pass."""
        def holds():
            for path in files(self.folder, ".part"):
                with contextlib.suppress(OSError, EOFError, ValueError, zlib.error):
                    data = read_bytes(path)
                    if all(text.encode() in data for text in texts) and not any(text.encode() in data for text in without) and parse(data):
                        return path
            return None
        return wait_until(holds, f"{texts} in an open file")

    def say(self, line=""):
        """Writes a line to the program's stdin."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    @contextlib.contextmanager
    def stopped(self):
        """Stops the program inside the block, as if it had been killed there."""
        self.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: status_of(self.process.pid)["State"].startswith("T"), "the program to stop")
        try:
            yield
        finally:
            self.process.send_signal(signal.SIGCONT)

    def end(self, number=None):
        """Sends a signal, if one is given, and waits for the end."""
        if number is not None:
            self.process.send_signal(number)
        rc = self.process.wait(TIMEOUT_S)
        for reader in self._readers:
            reader.join(TIMEOUT_S)
        return Result(rc, "".join(self._out), "".join(self._err), self.folder)


def wait_until(true, what, timeout=30.0):
    """Polls until true() returns a true value, and returns that."""
    end = time.monotonic() + timeout
    while True:
        result = true()
        if result:
            return result
        assert time.monotonic() < end, f"waited in vain for {what}"
        time.sleep(0.02)


def status_of(pid, thread=None):
    """/proc/PID/status as a dictionary."""
    path = f"/proc/{pid}/status" if thread is None else f"/proc/{pid}/task/{thread}/status"
    return dict(line.split(":\t", 1) for line in pathlib.Path(path).read_text().splitlines() if ":\t" in line)


# ---- reading -----------------------------------------------------------------------------------------------

class Real(float):
    """A number with a point, which keeps its text."""
    __slots__ = ("text",)

    def __new__(cls, text, new=float.__new__):
        self = new(cls, text)
        self.text = text
        return self


def _unique(pairs):
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = [key for key, n in collections.Counter(key for key, _ in pairs).items() if n > 1]
        raise ValueError(f"an object has a key twice: {twice}")
    return found


def _no_constant(text):
    raise ValueError(f"{text} is no JSON")


def read_bytes(path):
    """The bytes of a trace, unpacked if they are gzip data, whatever the file's name."""
    data = pathlib.Path(path).read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def parse(data):
    """Parses strict JSON: valid UTF-8, no NaN, no duplicate keys, nothing after the end."""
    return json.loads(data.decode("utf-8", errors="strict"), parse_float=Real, parse_constant=_no_constant,
                      object_pairs_hook=_unique)


def load(path):
    """Reads a trace and asserts that it is valid."""
    data = read_bytes(path)
    trace = parse(data)
    problems = text_problems(data) + validate(trace) + summary_problems(path)
    assert not problems, f"{path}:\n" + "\n".join(problems[:20])
    return trace


def loads_plainly(path):
    """Reads a trace as users do: json.load, through gzip where needed."""
    with open(path, "rb") as file:
        opener = gzip.open if file.read(2) == b"\x1f\x8b" else open
    with opener(path, "rt", encoding="utf-8") as file:
        return json.load(file)


def events(trace, ph=None, cat=None, name=None):
    """Events of a phase, category and name (a string, or a compiled pattern that must match at its start)."""
    def fits(e):
        return ((ph is None or e["ph"] == ph) and (cat is None or e.get("cat") == cat) and
                (name is None or (bool(name.match(e["name"])) if isinstance(name, re.Pattern) else e["name"] == name)))
    return [e for e in trace["traceEvents"] if fits(e)]


def step_numbers(trace):
    """Numbers of the ProfilerStep#N rows, in order of time."""
    rows = events(trace, ph="X", name=re.compile(r"ProfilerStep#\d+$"))
    return [int(e["name"].partition("#")[2]) for e in sorted(rows, key=lambda e: float(e["ts"]))]


def span_ns(event):
    """Start and end of an X event in integer nanoseconds."""
    start = to_ns(event["ts"])
    return start, start + to_ns(event["dur"])


def to_ns(number):
    """The nanoseconds of a number of microseconds with three decimals."""
    return int(number.text.replace(".", "", 1))


# ---- the validator -----------------------------------------------------------------------------------------

def text_problems(data):
    """Problems that only the text shows: escapes on which Perfetto hangs, and the start of the file."""
    problems = []
    if not re.match(rb'\s*\{\s*"', data):
        problems.append("the file does not begin with an object that has a key")
    for match in re.finditer(rb"\\(?:u[0-9a-fA-F]{4}|.)", data, re.S):
        escape = match.group()
        if escape.startswith(b"\\u") and int(escape[2:], 16) >= 0x20:
            problems.append(f"byte {match.start()}: {escape.decode()} should be raw UTF-8")
    return problems


def validate(trace):
    """The problems of a parsed trace, as text. A trace without problems loads in every reader without repair."""
    problems = []
    for check in (_check_top, _check_events, _check_rows, _check_flows):
        if check is _check_rows and problems:
            break  # the checks of rows and arrows need well-formed events
        check(trace, problems)
    return problems


def _is_int(value):
    return isinstance(value, int) and not isinstance(value, bool)


def _check_top(trace, problems):
    for key, kind in (("schemaVersion", int), ("deviceProperties", list), ("distributedInfo", dict),
                      ("displayTimeUnit", str), ("baseTimeNanoseconds", int), ("traceEvents", list),
                      ("traceName", str), ("cprof", dict)):
        if not isinstance(trace.get(key), kind):
            problems.append(f"{key} is missing, or no {kind.__name__}")
    if problems:
        return
    if trace["displayTimeUnit"] not in ("ms", "ns"):
        problems.append(f"displayTimeUnit {trace['displayTimeUnit']}")
    if trace["baseTimeNanoseconds"] % BASE_STEP_NS or trace["baseTimeNanoseconds"] <= 0:
        problems.append("baseTimeNanoseconds is no multiple of 30 days")
    info = trace["distributedInfo"]
    if not all(_is_int(info.get(key)) for key in ("rank", "world_size")):
        problems.append(f"distributedInfo {info}")
    lost = dict(trace["cprof"].get("lost", {}))
    total = lost.pop("total", None)
    if total is None or total != sum(lost.values()):
        problems.append(f"cprof.lost does not add up: {trace['cprof'].get('lost')}")
    for key in ("first_step", "last_step", "records", "events", "unfinished", "writer_cpu_ns", "bytes"):
        if not _is_int(trace["cprof"].get(key)):
            problems.append(f"cprof.{key} is missing")


def _check_events(trace, problems):
    for at, e in enumerate(trace.get("traceEvents", [])):
        for what in () if _is_sound(e) else _event_problems(e):
            problems.append(f"event {at}: {what}: {str(e)[:300]}")


def _is_sound(e):
    """A fast check: True for most spans and arrows without _event_problems()."""
    ph, ts, pid, tid, args = e.get("ph"), e.get("ts"), e.get("pid"), e.get("tid"), e.get("args", {})
    if not (type(e.get("name")) is type(e.get("cat", "")) is str and e["name"] and type(ts) is Real and
            _THREE_DECIMALS.fullmatch(ts.text) and to_ns(ts) < EXACT_NS and type(pid) is type(tid) is int and
            0 <= pid <= UINT32_MAX and 0 < tid <= UINT32_MAX and type(args) is dict and _fit(args.values())):
        return False
    if ph == "X":
        return bool(e.get("cat") and _three_decimals(e.get("dur")) and (pid >= FIRST_CPU_PID or e["cat"] in GPU_CATEGORIES))
    return ph in ("s", "f") and type(e.get("id")) is int and 0 <= e["id"] <= INT64_MAX and (ph == "s" or e.get("bp") == "e")


def _fit(values):
    """True if no value has _number_problems()."""
    for value in values:
        kind = type(value)
        if kind is int:
            if not -INT64_MAX - 1 <= value <= INT64_MAX:
                return False
        elif kind is Real:
            if not math.isfinite(value):
                return False
        elif kind is list or kind is dict:
            if not _fit(value if kind is list else value.values()):
                return False
    return True


def _event_problems(e):
    ph = e.get("ph")
    if ph not in PHASES:
        yield f"phase {ph}"
        return
    yield from _place_problems(e)
    if not isinstance(e.get("name"), str) or not e["name"]:
        yield "no name"
    if "args" in e:
        if not isinstance(e["args"], dict):
            yield "args is no object"
        else:
            yield from _number_problems(e["args"])
    if ph == "X" and not e.get("cat"):
        yield "no category: readers drop the row"
    if ph == "X" and not _three_decimals(e.get("dur")):
        yield f"dur {e.get('dur')}"
    if ph == "i" and e.get("s") not in ("t", "p", "g"):
        yield f"scope {e.get('s')}"
    if ph == "C":
        values = list(e.get("args", {}).values())
        if len(values) != 1 or isinstance(values[0], (bool, str)) or not isinstance(values[0], (int, float)):
            yield "a counter must have one key with a number"
    if ph == "M" and e.get("name") not in PROCESS_META | THREAD_META:
        yield "unknown metadata"
    if ph in "be" and not isinstance(e.get("id2", {}).get("local"), (int, str)):
        yield "async event without id2.local"
    if ph in "sf" and not (_is_int(e.get("id")) and 0 <= e["id"] <= INT64_MAX):
        yield f"flow id {e.get('id')}"
    if ph == "f" and e.get("bp") != "e":
        yield "flow end without bp e"


_THREE_DECIMALS = re.compile(r"(0|[1-9]\d*)\.\d{3}")


def _three_decimals(number):
    return isinstance(number, Real) and _THREE_DECIMALS.fullmatch(number.text) is not None


def _place_problems(e):
    if not _three_decimals(e.get("ts")):
        yield f"ts {getattr(e.get('ts'), 'text', e.get('ts'))} is not written with three decimals"
    elif to_ns(e["ts"]) >= EXACT_NS:
        yield "ts is so large that readers round it"
    for key in ("pid", "tid"):
        if not (_is_int(e.get(key)) and 0 <= e[key] <= UINT32_MAX):
            yield f"{key} {e.get(key)}"
            return
    if e["tid"] == 0:
        yield "tid 0 means the main thread to readers"
    on_gpu = e.get("cat") in GPU_CATEGORIES or e["ph"] in "MCsfi"
    if e["pid"] < FIRST_CPU_PID and not on_gpu:
        yield f"pid {e['pid']} looks like a GPU's"


def _number_problems(value):
    if isinstance(value, (dict, list)):
        for inner in value.values() if isinstance(value, dict) else value:
            if type(inner) is not str:  # most values are strings, and a trace has many
                yield from _number_problems(inner)
    elif _is_int(value) and not -INT64_MAX - 1 <= value <= INT64_MAX:
        yield f"{value} does not fit into 64 bits"
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{value} is no number"


def _rows(trace):
    rows = collections.defaultdict(list)
    for e in trace.get("traceEvents", []):
        if e["ph"] == "X":
            start, end = span_ns(e)
            rows[e["pid"], e["tid"]].append((start, -end, e["name"]))
    for row in rows.values():
        row.sort()
    return rows


def _check_rows(trace, problems):
    for place, row in _rows(trace).items():
        open_ends = []
        for start, minus_end, name in row:
            end = -minus_end
            while open_ends and open_ends[-1][0] <= start:
                open_ends.pop()
            if open_ends and end > open_ends[-1][0]:
                problems.append(f"row {place}: {name!r} [{start}, {end}) crosses {open_ends[-1]}")
            open_ends.append((end, name))
            if len(open_ends) > MAX_DEPTH + 1:
                problems.append(f"row {place}: deeper than {MAX_DEPTH}")
                break


def _check_flows(trace, problems):
    begun, ends = {}, []
    rows = collections.defaultdict(list)
    for e in trace.get("traceEvents", []):
        if e.get("ph") == "s":
            if e["id"] in begun:
                problems.append(f"flow {e['id']} begins twice")
            begun[e["id"]] = e
        elif e.get("ph") == "f":
            ends.append(e)
        elif e.get("ph") == "X":
            rows[e["pid"], e["tid"]].append(span_ns(e))
    for e in ends:
        start = begun.get(e["id"])
        if not start:
            problems.append(f"flow {e['id']} ends without a beginning")
        elif (start.get("cat"), start["name"]) != (e.get("cat"), e["name"]):
            problems.append(f"flow {e['id']} changes its category or name")
        elif to_ns(start["ts"]) > to_ns(e["ts"]):
            problems.append(f"flow {e['id']} ends before it begins")
    for key in begun.keys() - {e["id"] for e in ends}:
        problems.append(f"flow {key} never ends")
    starts, last_ends = {}, {}
    for place, spans in rows.items():
        spans.sort()
        starts[place] = [start for start, _ in spans]
        last_ends[place] = list(itertools.accumulate((end for _, end in spans), max))
    for e in [*begun.values(), *ends]:
        place = e["pid"], e["tid"]
        before = bisect.bisect_right(starts.get(place, []), to_ns(e["ts"]))
        if not before or last_ends[place][before - 1] < to_ns(e["ts"]):
            problems.append(f"flow {e['id']} ({e['ph']}) is on no slice")


# ---- surroundings ------------------------------------------------------------------------------------------

def pip_install(folder):
    """`pip install ./scripts/python` into a folder, offline. Installs from a copy, since the build writes beside the source. Returns the path."""
    source = folder / "source"
    shutil.copytree(ROOT / "scripts/python", source, ignore=shutil.ignore_patterns("__pycache__", "build", "*.egg-info"))
    for path in [source, *source.rglob("*")]:
        path.chmod(path.stat().st_mode | 0o200)  # the checkout may be read-only
    done = subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--no-index",
                           "--target", folder / "site", source], capture_output=True, text=True, timeout=300,
                          env=dict(os.environ, HOME=str(folder)))  # setuptools needs a home, also if the user has none
    assert done.returncode == 0, done.stderr
    return folder / "site"


def no_mounts_reason():
    """Why this machine cannot mount a file system for a test; None if it can."""
    if not shutil.which("unshare"):
        return "no unshare on this machine"
    done = subprocess.run([*own_mounts(), "mount -t tmpfs -o size=64k none /mnt"], capture_output=True, text=True)
    return None if done.returncode == 0 else f"cannot mount here: {done.stderr.strip()}"


def own_descriptors_reason():
    """Why a thread cannot have a descriptor table of its own here; None if it can."""
    why = doctor.own_descriptors_refusal()
    return why and f"close_range(2) is refused here: {why}"


def refuse_close_range():
    """For before_exec: a seccomp filter refuses close_range() with ENOSYS, as kernels before 5.9 do. The filter survives exec."""
    load_number, same, give_back = 0x20, 0x15, 0x06  # BPF_LD | W | ABS, BPF_JMP | JEQ | K, BPF_RET | K
    ALLOW, ERRNO, SYS_close_range, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 0x7fff0000, 0x50000, 436, 22, 38
    code = b"".join(struct.pack("HBBI", *line) for line in [(load_number, 0, 0, 0), (same, 0, 1, SYS_close_range), (give_back, 0, 0, ERRNO | errno.ENOSYS),
                                                            (give_back, 0, 0, ALLOW)])
    held = ctypes.create_string_buffer(code)
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", 4, ctypes.addressof(held)))
    libc = ctypes.CDLL(None, use_errno=True)
    for call in [(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), (PR_SET_SECCOMP, 2, ctypes.c_void_p(ctypes.addressof(program)), 0, 0)]:
        if libc.prctl(*call) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


def own_mounts():
    """The start of a command line that runs shell text in a mount namespace of its own."""
    return ["unshare", *([] if os.geteuid() == 0 else ["--map-root-user"]), "--mount", "sh", "-ec"]


def bound_by_permissions():
    """For before_exec: file modes bind root, too (drops CAP_DAC_OVERRIDE)."""
    if os.geteuid() == 0:
        PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 24, 1, 2
        libc = ctypes.CDLL(None)
        for capability in (CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH):
            libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
