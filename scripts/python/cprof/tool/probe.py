# SPDX-License-Identifier: Apache-2.0
"""Asks a Python interpreter, in a process of its own without large imports, for what matters to cprof.

`look(command)` runs the interpreter with the code below and returns what it printed. With a library it preloads that, and so
finds out whether preloading works there, and what the library reports about the settings."""

import json
import os
import subprocess
from typing import Any, Dict, List, Optional

from cprof.tool.library import cached
from cprof.tool.settings import by_name, what_is_wrong

TIMEOUT_S = 60

# Runs in the interpreter that is asked about: Python 2.7, 3.6 and later. Torch is found, not imported: that takes seconds.
CODE = r"""
import sys
sys.path[:] = [folder for folder in sys.path if folder]  # what lies in the current folder is not run: anyone may have put it there
import json, os, platform
found = {"version": list(sys.version_info[:3]), "implementation": platform.python_implementation().lower(), "executable": sys.executable,
         "bits": 64 if sys.maxsize > 2**32 else 32, "shared_gil": True}
try:
    found["shared_gil"] = sys._is_gil_enabled()
except AttributeError:
    pass
try:
    import ctypes
    library = ctypes.CDLL(None)
    library.cprof_version.restype = ctypes.c_char_p
    found["cprof"] = library.cprof_version().decode()
except Exception:
    found["cprof"] = None
try:
    found["tried"] = bool(library.cprof_try_settings())
except Exception:
    found["tried"] = False
def package(name):
    try:
        import importlib.util
        spec = importlib.util.find_spec(name)
        return None if spec is None else (spec.origin, list(spec.submodule_search_locations or []))
    except Exception:
        return None
torch = package("torch")
found["torch"] = None
if torch and torch[0]:
    folder = os.path.dirname(torch[0])
    info = {"folder": folder, "version": None, "cuda": None, "hip": None}
    try:
        space = {}
        exec(open(os.path.join(folder, "version.py")).read(), space)
        for key, name in (("version", "__version__"), ("cuda", "cuda"), ("hip", "hip")):
            info[key] = None if space.get(name) is None else str(space[name])
    except Exception:
        pass
    try:
        info["libraries"] = sorted(os.listdir(os.path.join(folder, "lib")))
    except OSError:
        info["libraries"] = []
    found["torch"] = info
nvidia = package("nvidia")
found["nvidia"] = nvidia[1] if nvidia else []
found["viztracer"] = bool(package("viztracer"))
found["module"] = (package("cprof") or [None])[0]
maps = ""
try:
    maps = open("/proc/self/maps").read()
except OSError:
    pass
found["loaded"] = sorted({line.split(None, 5)[5].strip() for line in maps.splitlines() if ".so" in line and "/" in line})
sys.stdout.write("\n" + json.dumps(found) + "\n")
"""


def look(python: str, environment: Dict[str, str], library: Optional[str] = None) -> Dict[str, Any]:
    """The interpreter's answers; {"error": text} if it does not run."""
    env = {name: value for name, value in environment.items() if name != "LD_PRELOAD" or library}
    if library:
        env["LD_PRELOAD"] = library
    if what_is_wrong(by_name()["CPROF_LOG"], env.get("CPROF_LOG", "")) is None:  # else the library says so, and info counts
        env["CPROF_LOG"] = "warn"
    try:
        done = subprocess.run([python, "-c", CODE], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=TIMEOUT_S, env=env)
    except (OSError, subprocess.SubprocessError) as error:
        return {"error": str(error)}
    lines = done.stdout.strip().splitlines()
    try:
        found = json.loads(lines[-1])
    except (IndexError, ValueError):
        said = done.stderr.strip().splitlines()
        return {"error": said[-1] if said else f"exit code {done.returncode}"}
    found["said"] = done.stderr.strip().splitlines()
    return found


def is_python(path: str) -> bool:
    """Whether a program is an interpreter, by its name: python, python3, python3.13t."""
    name = os.path.basename(os.path.realpath(path)), os.path.basename(path)
    return any(one.rstrip("t0123456789.") in ("python", "pypy", "python-real") for one in name)


# ---- CUPTI ----

SONAMES = ("libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8")
TOOLKITS = ("/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib",
            "/usr/local/cuda/targets/sbsa-linux/lib", "/opt/cuda/extras/CUPTI/lib64")


def cupti_folders(found: Dict[str, Any], environment: Dict[str, str]) -> List[str]:
    """Where the library looks (cupti/bind.c): beside torch and its CUDA, the loader's path, a toolkit."""
    folders = []
    torch = found.get("torch")
    if torch:
        site = os.path.dirname(torch["folder"])
        folders += [os.path.join(torch["folder"], "lib"), os.path.join(site, "nvidia/cuda_cupti/lib"),
                    os.path.join(site, "nvidia/cu13/lib")]
    folders += [part for part in environment.get("LD_LIBRARY_PATH", "").split(":") if part]
    return folders + list(TOOLKITS)


def find_cupti(found: Dict[str, Any], environment: Dict[str, str]) -> Optional[str]:
    """The CUPTI that the library would find in such a process, or None."""
    for folder in cupti_folders(found, environment):
        for name in SONAMES:
            path = os.path.join(folder, name)
            if os.path.isfile(path):
                return path
    return cached("libcupti.so.", whole=False)

