# SPDX-License-Identifier: Apache-2.0
"""Finds out what NVML tells about the GPUs here, as the library would ask (cupti/device_values.c). A process of its own asks, because a driver may hang."""

import json
import subprocess
import sys
from typing import Any, Dict, List, NamedTuple, Optional

TIMEOUT_S = 10
NO_LIBRARY = "no libnvidia-ml.so.1"
ERRORS = {3: "not supported", 4: "no permission", 9: "the driver is not loaded", 12: "no library", 13: "the driver is too old", 15: "the GPU is lost",
          18: "the driver and its library have different versions"}   # nvmlReturn_t

# Prints {"why": error or null, "gpus": number, "refused": {value: error}}, the last of the first GPU.
CODE = f"NO_LIBRARY = {NO_LIBRARY!r}" + r"""
import ctypes, json, sys
found = {"why": None, "gpus": 0, "refused": {}}
def say():
    sys.stdout.write(json.dumps(found) + "\n")
    sys.exit()
try:
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
except OSError:
    found["why"] = NO_LIBRARY
    say()
found["why"] = nvml.nvmlInit_v2() or None
if found["why"]:
    say()
number, device = ctypes.c_uint(0), ctypes.c_void_p()
found["why"] = nvml.nvmlDeviceGetCount_v2(ctypes.byref(number)) or None
found["gpus"] = number.value
if found["why"] or not number.value:
    say()
found["why"] = nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(0), ctypes.byref(device)) or None
if found["why"]:
    say()
room = ctypes.create_string_buffer(64)
support = (ctypes.c_uint * 2)(1, 0)
def ask(value, name, *args):
    try:
        result = getattr(nvml, name)(device, *args)
    except AttributeError:
        result = 13
    if result:
        found["refused"][value] = result
ask("clocks", "nvmlDeviceGetClockInfo", ctypes.c_int(1), room)
ask("power", "nvmlDeviceGetPowerUsage", room)
ask("energy", "nvmlDeviceGetTotalEnergyConsumption", room)
ask("temperature", "nvmlDeviceGetTemperature", ctypes.c_int(0), room)
ask("PCIe", "nvmlDeviceGetPcieThroughput", ctypes.c_int(0), room)
ask("activity", "nvmlGpmQueryDeviceSupport", support)
if "activity" not in found["refused"]:
    sample = ctypes.c_void_p()
    if not support[1]:
        found["refused"]["activity"] = 3
    elif not nvml.nvmlGpmSampleAlloc(ctypes.byref(sample)):
        ask("activity", "nvmlGpmSampleGet", sample)
say()
"""


class Nvml(NamedTuple):
    """What NVML tells."""
    why: Optional[str]      # why it tells nothing; None if it works
    refused: List[str]      # what the first GPU refuses, with the reason


def _error(number: Any) -> str:
    return number if type(number) is str else ERRORS.get(number, f"error {number}")


def look(environment: Dict[str, str]) -> Nvml:
    """Asks NVML in this environment."""
    try:
        done = subprocess.run([sys.executable, "-I", "-c", CODE], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S,
                              env={name: value for name, value in environment.items() if name != "LD_PRELOAD"})
        found = json.loads(done.stdout) if done.returncode == 0 else {"why": f"the process that asked it ended with {done.returncode}"}
    except subprocess.TimeoutExpired:
        return Nvml(f"no answer within {TIMEOUT_S} s", [])
    except (OSError, ValueError) as error:
        return Nvml(f"cannot be asked: {error}", [])
    if found["why"] is not None:
        return Nvml(_error(found["why"]), [])
    if not found["gpus"]:
        return Nvml("no GPU", [])
    return Nvml(None, [f"{value} ({_error(result)})" for value, result in found["refused"].items()])
