# SPDX-License-Identifier: Apache-2.0
"""Reports what cprof can record on this machine and in this environment, and why something would not work.

    cprof doctor
    cprof doctor -- .venv/bin/python

Each line begins with ok, warn (works, with a drawback) or off (does not work, with the reason). The command starts the
program once under the library, to learn what it is and what the library reports about the settings. Nothing is traced. The
default program is the Python that runs this command.

The exit code is 1 if a line says off, and 2 if there is no such program."""

import argparse
import ctypes
import importlib.util
import os
import re
import sys
import tempfile
import threading
from typing import Any, Dict, Iterator, List, NamedTuple, Optional

from cprof._untrusted import printable, read_text
from cprof.tool import BAD_INPUT, Problem, library, nvml_probe, program, settings
from cprof.tool.elf import why_not_loaded
from cprof.tool.probe import find_cupti, is_python, look
from cprof.tool.screen import put
from cprof.tool.settings_table import PYTHON_MINORS, TORCH_VERSIONS
from cprof.tool.watch import size_text

HELP = "report what works here, and why something would not"
DRIVER, DRIVER_PARAMETERS = "/proc/driver/nvidia/version", "/proc/driver/nvidia/params"
DRIVER_CUDA = ((580, 13), (525, 12), (450, 11))  # CUDA's release notes: least driver by toolkit
CAP_SYS_ADMIN = 21
IN_THE_WAY = ": a trace of an earlier run is in the way"  # the library's line of CPROF_OVERWRITE=0
# Settings of outputs besides the files. If the library has a line about one, it does not work.
OUTPUTS = ("CPROF_TRACE_HANDLERS", "CPROF_ON_TRACE_READY", "CPROF_REMOTE_URL", "CPROF_TENSORBOARD_DIR", "CPROF_TRIGGER")
LEAST_FREE = 10 ** 9  # or 5 %, whichever is smaller: recording stops below


class Finding(NamedTuple):
    """A line of the report."""
    state: str
    what: str
    text: str


def ok(what: str, text: str) -> Finding:
    return Finding("ok", what, text)


def warn(what: str, text: str) -> Finding:
    return Finding("warn", what, text)


def off(what: str, text: str) -> Finding:
    return Finding("off", what, text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The library and the program."""
    parser.usage = "cprof doctor [--library PATH] [--] [PROGRAM]"
    parser.add_argument("--library", metavar="PATH", help="libcprof.so, or its folder (default: as for cprof run)")
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="PROGRAM",
                        help="the program to be traced (default: this Python); arguments are ignored")


# ---- the parts ----

def _library(path: str, found: Dict[str, Any]) -> Iterator[Finding]:
    version = found.get("cprof")
    yield ok("library", f"{path}" + (f", version {version}" if version else ""))
    try:
        library.check_name(path)
    except Problem as problem:
        yield off("library", str(problem))


def _copies(path: str, found: Dict[str, Any], environment: Dict[str, str]) -> Iterator[Finding]:
    """Other copies of the library: those in LD_PRELOAD, and those that are loaded anyway (/etc/ld.so.preload)."""
    for other in library.other_copies(path, environment):
        yield warn("copies", f"LD_PRELOAD names {other}, another copy of cprof: cprof run takes {path} in its place; without cprof run the "
                   "first of the two records")
    beside = library.installed_beside(path)
    if beside:
        yield warn("copies", f"{beside} is another copy of cprof: LD_PRELOAD={library.NAME} means that one, and cprof run takes {path}")
    for other in found.get("loaded", ()):
        if os.path.basename(other) == library.NAME and os.path.realpath(other) != os.path.realpath(path):
            yield warn("copies", f"{other} is loaded into every program, too (/etc/ld.so.preload): it does nothing beside {path}")


def _program(path: str) -> Iterator[Finding]:
    real = program.native(path)
    why = why_not_loaded(real)
    yield off("program", f"{real} {why}") if why else ok("program", real)
    yield ok("children", "the programs that it starts inherit LD_PRELOAD: those that run on musl end with 127, those that gcc built with AddressSanitizer "
             "with 1; R reports libcprof.so as its BLAS")


def _python(found: Dict[str, Any]) -> Iterator[Finding]:
    if "error" in found:
        yield off("python", f"does not run: {found['error']}")
        return
    major, minor, micro = found["version"]
    name = f"{found['implementation']} {major}.{minor}.{micro}"
    if found.get("cprof"):
        yield ok("preload", "the library comes along")
    else:
        yield off("preload", "the library does not come along: is LD_PRELOAD allowed here, is the program a wrapper?"
                  + "".join(f" ({line})" for line in found.get("said", [])[:1]))
    if found["implementation"] != "cpython" or major != 3 or minor not in PYTHON_MINORS or not found["shared_gil"]:
        known = f"CPython 3.{PYTHON_MINORS[0]} to 3.{PYTHON_MINORS[-1]}" if PYTHON_MINORS else "none"
        yield warn("python", f"{name}: its frames are not known (those of {known} are): epochs are not seen, two optimizers "
                   "of one class count as one")
    else:
        yield ok("python", name)


def _torch(found: Dict[str, Any]) -> Iterator[Finding]:
    torch = found.get("torch")
    if not torch:
        yield ok("torch", "not installed: steps are marked by calls, NVTX or ITT only")
        return
    match = re.match(r"(\d+)\.(\d+)", torch["version"] or "")
    version = (int(match[1]), int(match[2])) if match else None
    if version and any(first <= version <= last for first, last in TORCH_VERSIONS):
        yield ok("torch", f"{torch['version']}: its layout is known")
    else:
        first, last = TORCH_VERSIONS[0][0], TORCH_VERSIONS[-1][1]
        yield off("torch", f"{torch['version'] or 'of unknown version'}: its layout is not known (those of "
                  f"{first[0]}.{first[1]} to {last[0]}.{last[1]} are): no operators; steps, memory and markers stay")
    if torch.get("hip"):
        yield warn("torch", f"built for ROCm {torch['hip']}: AMD's GPUs are not recorded")


def _driver_release() -> Optional[str]:
    try:
        match = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)\s", read_text(DRIVER))
        return match[1] if match else "of unknown release"
    except OSError:
        return None


def _gpu(found: Dict[str, Any], environment: Dict[str, str]) -> Iterator[Finding]:
    release = _driver_release()
    cuda = (found.get("torch") or {}).get("cuda")
    if release is None:
        text = "no NVIDIA driver: the CPU's side only"
        yield warn("GPU", text + f", although torch is built for CUDA {cuda}") if cuda else ok("GPU", text)
        return
    newest = next((cuda for least, cuda in DRIVER_CUDA if release[:1].isdigit() and int(release.split(".")[0]) >= least), 0)
    yield ok("driver", f"{release}" + (f", runs CUDA up to {newest}" if newest else ""))
    if cuda:
        yield ok("CUDA", f"torch is built for {cuda}")
    path = find_cupti(found, environment)
    if path is None:
        yield off("CUPTI", "not to be found beside torch, in LD_LIBRARY_PATH, the loader's cache or a toolkit: no kernels, no "
                  "copies (pip install nvidia-cuda-cupti brings it)")
    else:
        version = re.search(r"\.so\.([\d.]+)", os.path.realpath(path))
        major = int(version[1].split(".")[0]) if version else 0
        where = f"{version[1] if version else ''} {path}".strip()
        if newest and major > newest:
            yield off("CUPTI", f"{where}: newer than the driver, which runs CUDA {newest}")
        else:
            yield ok("CUPTI", where)
    yield from _counters()


def _counters() -> Iterator[Finding]:
    """Whether this user may read the GPU's counters. Kernels and copies need no privilege."""
    try:
        restricted = re.search(r"RmProfilingAdminOnly: 1", read_text(DRIVER_PARAMETERS)) is not None
        able = int(re.search(r"CapEff:\s*(\w+)", read_text("/proc/self/status")).group(1), 16) >> CAP_SYS_ADMIN & 1  # type: ignore
    except (OSError, AttributeError):
        return
    if restricted and not able:
        yield warn("counters", "reserved for administrators (RmProfilingAdminOnly: 1): kernels and copies are recorded all "
                   "the same")
    else:
        yield ok("counters", "open to this user")


def _telemetry(environment: Dict[str, str]) -> Iterator[Finding]:
    """Whether the GPUs' clocks, power and activity can be read."""
    if not settings.is_on(environment, "CPROF_GPU_TELEMETRY"):
        yield ok("telemetry", "CPROF_GPU_TELEMETRY=0: clocks and power of the GPUs are not recorded")
        return
    told = nvml_probe.look(environment)
    if told.why is not None:
        if _driver_release() is not None or told.why != nvml_probe.NO_LIBRARY:
            yield warn("telemetry", f"NVML: {told.why}: clocks and power of the GPUs are not recorded")
    elif told.refused:
        yield ok("telemetry", f"NVML; the GPU does not tell: {', '.join(told.refused)}")
    else:
        yield ok("telemetry", "NVML: clocks, power, energy, temperature, throttling, memory, PCIe, activity")


def _said(found: Dict[str, Any]) -> Optional[List[str]]:
    """The library's lines about the settings; None if the library was not loaded."""
    start = "cprof: "
    return [line[len(start):] for line in found.get("said", ()) if line.startswith(start)] if found.get("tried") else None


def _is_about(line: str, name: str) -> bool:
    """Whether the library's line is about a setting."""
    return line.startswith((name + "=", name + ":")) or name == "CPROF_TRACE_HANDLERS" and line.startswith("trace handler ")


def _settings(environment: Dict[str, str], said: Optional[List[str]]) -> Iterator[Finding]:
    on = settings.is_on(environment, "CPROF_ENABLED")
    if not on:
        yield off("settings", "CPROF_ENABLED=0")
    elif said is None:
        yield warn("settings", "not checked: the library does not come along, or is of another version")
    lines = said or []
    warnings = [line for line in lines if IN_THE_WAY not in line and not any(_is_about(line, name) for name in OUTPUTS)]
    yield from (warn("settings", line) for line in warnings)
    given = [name for name in settings.by_name() if environment.get(name, "").strip()]
    sound = [name for name in given if not any(_is_about(line, name) for line in lines) and (on or name != "CPROF_ENABLED")]
    others = "the others: " if warnings or len(sound) < len(given) else ""
    yield ok("settings", others + (" ".join(settings.shown(name, environment[name]) for name in sound) or "the defaults"))
    yield from _steps(environment)
    yield ok("schedule", _schedule(environment))


def _steps(environment: Dict[str, str]) -> Iterator[Finding]:
    """Which optimizers mark steps, if any do. Only a run shows which of them step."""
    kind, _, glob = settings.in_force(environment, "CPROF_STEP").strip().partition(":")
    if kind.lower() == "auto":
        yield ok("steps", "of the first optimizer that steps, if there are several; CPROF_STEP=optimizer:GLOB chooses by class name")
    elif kind.lower() == "optimizer":
        yield ok("steps", f"each step of an optimizer whose class name matches {glob.strip()}; after a run its line at exit or, in "
                 "its traces, cprof.optimizers names the classes that stepped")


def _schedule(environment: Dict[str, str]) -> str:
    scope = environment.get("CPROF_SCHEDULE_SCOPE", "run").strip().lower()
    named = settings.in_force(environment, "CPROF_STEPS")
    if named.strip():
        return f"steps {named.strip()}"
    if scope == "none":
        return "everything from start to exit"
    skip, wait, warmup, active, repeat = (int(settings.in_force(environment, "CPROF_" + name)) for name in
                                          ("SKIP_FIRST", "WAIT", "WARMUP", "ACTIVE", "REPEAT"))
    first = skip + warmup + (0 if settings.is_on(environment, "CPROF_SKIP_FIRST_WAIT") else wait)
    text = f"steps {first} to {first + active - 1}" if active > 1 else f"step {first}"
    if repeat != 1:
        text += f", then {active} of every {wait + warmup + active}" + (f", {repeat} times in all" if repeat else "")
    return text + (" of each epoch" if scope == "epoch" else "")


def _folder(environment: Dict[str, str], said: Optional[List[str]]) -> Iterator[Finding]:
    template = settings.in_force(environment, "CPROF_TENSORBOARD_DIR") or settings.in_force(environment, "CPROF_FOLDER")
    fixed = re.split(r"\{(?!\{)", template.replace("{{", "\0").replace("}}", "}"), maxsplit=1)[0].replace("\0", "{")
    there = os.path.abspath(os.path.dirname(fixed) if fixed != template else fixed)
    while not os.path.exists(there):
        there = os.path.dirname(there)
    shown = os.path.join(os.getcwd(), template) if not template.startswith("/") else template
    try:
        with tempfile.TemporaryFile(dir=there):
            disk = os.statvfs(there)
    except OSError as error:
        yield off("folder", f"{shown}: {there} cannot be written to: {error.strerror}")
        return
    yield from (off("folder", line) for line in said or () if IN_THE_WAY in line)
    free, size = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    if free < min(LEAST_FREE, size // 20):
        yield off("folder", f"{shown}: only {size_text(free)} free of {size_text(size)}: nothing is recorded")
    else:
        yield ok("folder", f"{shown}, {size_text(free)} free")


def _uploads_nothing(environment: Dict[str, str]) -> bool:
    name = environment.get("CPROF_REMOTE_FILE_NAME", "-")
    return not name.strip() or name.lower() == "none"


def _outputs(environment: Dict[str, str], said: Optional[List[str]]) -> Iterator[Finding]:
    """Other receivers of traces, and triggers: whether they work, by the library's lines."""
    for name in OUTPUTS:
        value = environment.get(name, "").strip()
        if not value:
            continue
        what, shown = "trigger" if name == "CPROF_TRIGGER" else "handlers", settings.shown(name, value)
        lines = [line for line in said or () if _is_about(line, name)]
        for line in lines:  # an address may hold a password: only the reason is shown
            yield off(what, f"{shown}: {line.rpartition(': ')[2]}" if name == "CPROF_REMOTE_URL" else line)
        if not lines:
            no_upload = name == "CPROF_REMOTE_URL" and _uploads_nothing(environment)
            yield ok(what, shown + (": nothing is uploaded, CPROF_REMOTE_FILE_NAME is none or empty" if no_upload else ""))


def reading_refusal() -> Optional[str]:
    """Why a process cannot read its own memory by process_vm_readv here, as a seccomp profile may have it; None if it can."""
    class Part(ctypes.Structure):
        _fields_ = [("at", ctypes.c_void_p), ("size", ctypes.c_size_t)]

    libc = ctypes.CDLL(None, use_errno=True)
    libc.process_vm_readv.restype = ctypes.c_ssize_t
    source, target = ctypes.create_string_buffer(b"x"), ctypes.create_string_buffer(1)
    parts = [Part(ctypes.addressof(buffer), 1) for buffer in (target, source)]
    one, none = ctypes.c_ulong(1), ctypes.c_ulong(0)
    done = libc.process_vm_readv(os.getpid(), ctypes.byref(parts[0]), one, ctypes.byref(parts[1]), one, none)
    return None if done == 1 else os.strerror(ctypes.get_errno())


def _flight(environment: Dict[str, str]) -> Iterator[Finding]:
    kept = settings.in_force(environment, "CPROF_FLIGHT").strip()
    if kept == "0":
        return
    seconds, why = settings.in_force(environment, "CPROF_FLIGHT_HANG_S").strip(), reading_refusal()
    what = settings.in_force(environment, "CPROF_FLIGHT_WHAT").strip()
    if seconds == "0":
        yield ok("flight", f"{kept}: keeps {what}; hangs are not looked for")
    elif why:
        yield warn("flight", f"{kept}: keeps {what}; what is saved of a hang has no Python frames: process_vm_readv is refused here: {why}")
    else:
        yield ok("flight", f"{kept}: keeps {what}; a hang is saved after {seconds} s, with Python's frames")


def _metrics(environment: Dict[str, str]) -> Iterator[Finding]:
    template = settings.in_force(environment, "CPROF_METRICS").strip()
    folder = os.path.dirname(os.path.abspath(template))
    if not template or "{" in folder:
        return
    if os.access(folder, os.W_OK | os.X_OK):
        yield ok("metrics", f"{template}, every 10 s")
    else:
        yield off("metrics", f"{template}: {folder} cannot be written to")


def _clock() -> Iterator[Finding]:
    try:
        flags = re.search(r"^flags\s*:\s*(.*)$", read_text("/proc/cpuinfo"), re.M)
    except OSError:
        return
    if flags and not {"constant_tsc", "nonstop_tsc"} <= set(flags[1].split()):
        yield warn("clock", "the processor's time stamp counter is not invariant: CLOCK_MONOTONIC is used, which costs more")
    elif flags:
        yield ok("clock", "the processor's time stamp counter")


def own_descriptors_refusal() -> Optional[str]:
    """Why a thread cannot have a descriptor table of its own here (writer/base/io_thread.h); None if it can."""
    libc, errors = ctypes.CDLL(None, use_errno=True), []

    def attempt() -> None:
        close_range, unshare, nobody = 436, 2, ctypes.c_uint(0xffffffff)  # the call's number on all processors, CLOSE_RANGE_UNSHARE
        errors.append(ctypes.get_errno() if libc.syscall(close_range, nobody, nobody, unshare) else 0)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    return os.strerror(errors[0]) if errors[0] else None


def _descriptors() -> Iterator[Finding]:
    why = own_descriptors_refusal()
    if why:
        yield warn("files", f"close_range is refused here (Linux 5.9 has it): {why}. They are open among the program's own descriptors, for moments")
    else:
        yield ok("files", "out of reach of the program's descriptors")


def _zlib() -> Iterator[Finding]:
    if importlib.util.find_spec("zlib") is None:
        yield off("gzip", "this Python has no zlib: the command cannot read compressed traces; the library writes them all the same")
    else:
        yield ok("gzip", "built into the library; this Python reads it")


def _rank(environment: Dict[str, str]) -> Iterator[Finding]:
    for rank, size, who in (("RANK", "WORLD_SIZE", "torchrun"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "Open MPI"),
                            ("PMI_RANK", "PMI_SIZE", "PMI"), ("SLURM_PROCID", "SLURM_NTASKS", "Slurm")):
        if environment.get(rank):
            yield ok("rank", f"{environment[rank]} of {environment.get(size, '?')} ({who}'s variables)")
            return


def _findings(path: str, command: List[str]) -> Iterator[Finding]:
    environment = dict(os.environ)
    name = program.find(command, BAD_INPUT, BAD_INPUT) if command else sys.executable
    real = program.native(name)
    found: Dict[str, Any] = {}
    asked = name if is_python(name) else real if is_python(real) else None
    if asked:
        found = look(asked, environment, path)
    yield from _library(path, found)
    yield from _copies(path, found, environment)
    yield from _program(name)
    if asked:
        yield from _python(found)
        yield from _torch(found)
    yield from _gpu(found, environment)
    yield from _telemetry(environment)
    for text in program.other_profilers(command, environment, path):
        yield warn("others", text)
    said = _said(found if asked else look(sys.executable, environment, path))
    yield from _settings(environment, said)
    yield from _rank(environment)
    yield from _folder(environment, said)
    yield from _outputs(environment, said)
    yield from _flight(environment)
    yield from _metrics(environment)
    yield from _descriptors()
    yield from _clock()
    yield from _zlib()


def run(args: argparse.Namespace) -> int:
    """`cprof doctor`"""
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    bad = False
    for finding in _findings(library.find(args.library), command):
        put(printable(f"{finding.state:5} {finding.what:9} {finding.text}"))
        bad |= finding.state == "off"
    return 1 if bad else 0
