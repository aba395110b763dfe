# SPDX-License-Identifier: Apache-2.0
"""Finds the program to be traced, as the shell does, and the reasons why tracing it would not work."""

import errno
import os
import re
import shutil
import stat
from typing import Dict, Iterator, List, NoReturn

from cprof.tool import note
from cprof.tool.elf import script_interpreter, why_not_loaded
from cprof.tool.probe import find_cupti, is_python, look
from cprof.tool.setting_values import OFF, ON

NOT_FOUND, NOT_EXECUTABLE = 127, 126  # exit codes, as of env and nohup

# Variables by which other profilers come into a process, and whose they are.
INJECTIONS = {"CUDA_INJECTION64_PATH": "CUDA's injection", "NVTX_INJECTION64_PATH": "NVTX's injection",
              "INTEL_LIBITTNOTIFY64": "ITT's collector"}
PROFILERS = {"nsys": "Nsight Systems", "ncu": "Nsight Compute", "cuda-gdb": "cuda-gdb",
             "compute-sanitizer": "compute-sanitizer", "nvprof": "nvprof"}
PRELOADS = re.compile(r"(ToolsInjection|nsys|nsight|rocprof|roctracer|libtau|libhpcrun)", re.IGNORECASE)


def find(command: List[str], not_found: int = NOT_FOUND, not_executable: int = NOT_EXECUTABLE) -> str:
    """The path of the command's program. Ends the process when there is none, as a shell would or with these exit codes."""
    name = command[0]
    path = name if "/" in name else shutil.which(name)
    try:
        folder = path is not None and stat.S_ISDIR(os.stat(path).st_mode)
    except PermissionError:
        _end(f"{name}: cannot be reached: {os.strerror(errno.EACCES)}", not_executable)
    except OSError:
        path = None
    if path is None:
        _end(f"{name}: no such program{_meant(command)}", not_found)
    if folder or not os.access(path, os.X_OK):
        why = "it is a folder" if folder else "it lacks the permission (chmod +x), or take its interpreter: python FILE"
        _end(f"{name}: cannot be executed: {why}", not_executable)
    return path


def _meant(command: List[str]) -> str:
    """What to write instead, in parentheses, where that can be guessed."""
    name = command[0]
    if name.lower() in ON + OFF or "--" in command[1:2]:
        return " (a switch takes no value: --NAME is 1, --no-NAME is 0)"
    if name.endswith(".py") and os.path.isfile(name):
        return f" (its interpreter comes first: python {name})"
    if "/" not in name and os.path.isfile(name):
        return f" (in this folder: ./{name})"
    if " " in name:
        return " (without quotation marks around the program and its arguments)"
    return ""


def _end(text: str, code: int) -> NoReturn:
    note(text)
    raise SystemExit(code)


def native(path: str) -> str:
    """The program that the kernel will run: a script's interpreter."""
    for _ in range(4):
        interpreter = script_interpreter(path)
        found = shutil.which(interpreter) if interpreter else None
        if not found:
            return path
        path = found
    return path


def has_driver() -> bool:
    """Whether NVIDIA's driver is on this machine."""
    return os.path.exists("/proc/driver/nvidia/version") or os.path.exists("/dev/nvidiactl")


def other_profilers(command: List[str], environment: Dict[str, str], library: str) -> Iterator[str]:
    """Warnings about other profilers of the program."""
    tool = PROFILERS.get(os.path.basename(command[0])) if command else None
    if tool:
        yield f"{tool} has CUPTI to itself: cprof will record CUDA calls, but no kernels, below it"
    for part in re.split(r"[ :]", environment.get("LD_PRELOAD", "")):
        if part and os.path.realpath(part) != os.path.realpath(library) and PRELOADS.search(os.path.basename(part)):
            yield f"LD_PRELOAD already holds {part}: two tools in one process may be in each other's way"
    for name, whose in INJECTIONS.items():
        path = environment.get(name)
        # The library takes the place of another copy of itself.
        if path and os.path.basename(path) != os.path.basename(library) and os.path.realpath(path) != os.path.realpath(library):
            loses = "kernels may be missing" if name.startswith("CUDA") else "its ranges will be missing"
            yield f"{name}={path} is set: {whose} goes there, not to cprof; {loses}"


def warnings(command: List[str], path: str, environment: Dict[str, str], library: str) -> Iterator[str]:
    """Warnings about what will not work."""
    program = native(path)
    why = why_not_loaded(program)
    if why:
        yield f"{program} {why}; nothing will be recorded"
    yield from other_profilers(command, environment, library)
    if not why and has_driver() and is_python(program):
        found = look(program, environment)
        if "error" not in found and find_cupti(found, environment) is None:
            yield ("there is a GPU driver, but no CUPTI is to be found (pip install nvidia-cuda-cupti, or LD_LIBRARY_PATH "
                   "to a toolkit's): there will be no kernels")
