# SPDX-License-Identifier: Apache-2.0
"""Compares cprof's prototypes, structs and numbers of NVML (cupti/nvml.h, cupti/nvml.def, writer/record/throttles.def) with the real nvml.h. It comes
from a CUDA toolkit, from NVIDIA's wheels in .venv (nvidia-nvml-dev), or from the folders in LIBRARY_HEADERS (with colons)."""

import glob
import os
import pathlib
import re
import shutil
import site
import subprocess

import pytest

from conftest import ROOT

# struct of cprof: (NVIDIA's, {field of cprof: NVIDIA's})
STRUCTS = {
    "nvml_memory": ("nvmlMemory_v2_t", {"version": "version", "total": "total", "reserved": "reserved", "free": "free", "used": "used"}),
    "nvml_field": ("nvmlFieldValue_t", {"field": "fieldId", "scope": "scopeId", "at_us": "timestamp", "latency_us": "latencyUsec", "type": "valueType",
                                        "result": "nvmlReturn", "value": "value"}),
    "nvml_gpm_support": ("nvmlGpmSupport_t", {"version": "version", "is_supported": "isSupportedDevice"}),
    "nvml_gpm_metric": ("nvmlGpmMetric_t", {"metric": "metricId", "result": "nvmlReturn", "value": "value", "names": "metricInfo"}),
    "nvml_gpm": ("nvmlGpmMetricsGet_t", {"version": "version", "n": "numMetrics", "from": "sample1", "to": "sample2", "metrics": "metrics"}),
}
NUMBERS = {
    "NVML_OK": "NVML_SUCCESS", "NVML_INVALID_ARGUMENT": "NVML_ERROR_INVALID_ARGUMENT", "NVML_NOT_SUPPORTED": "NVML_ERROR_NOT_SUPPORTED",
    "NVML_NO_PERMISSION": "NVML_ERROR_NO_PERMISSION", "NVML_NO_FUNCTION": "NVML_ERROR_FUNCTION_NOT_FOUND", "NVML_GPU_IS_LOST": "NVML_ERROR_GPU_IS_LOST",
    "NVML_VERSION_MISMATCH": "NVML_ERROR_ARGUMENT_VERSION_MISMATCH", "NVML_UNKNOWN": "NVML_ERROR_UNKNOWN", "NVML_CLOCK_OF_SM": "NVML_CLOCK_SM",
    "NVML_CLOCK_OF_MEMORY": "NVML_CLOCK_MEM", "NVML_SENSOR_OF_GPU": "NVML_TEMPERATURE_GPU", "NVML_PCIE_SENT": "NVML_PCIE_UTIL_TX_BYTES",
    "NVML_PCIE_RECEIVED": "NVML_PCIE_UTIL_RX_BYTES", "NVML_NVLINK_SENT": "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX",
    "NVML_NVLINK_RECEIVED": "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX", "NVML_GPM_SM": "NVML_GPM_METRIC_SM_UTIL",
    "NVML_GPM_TENSOR": "NVML_GPM_METRIC_ANY_TENSOR_UTIL", "NVML_GPM_DRAM": "NVML_GPM_METRIC_DRAM_BW_UTIL", "NVML_MEMORY_VERSION": "nvmlMemory_v2",
    "NVML_GPM_VERSION": "NVML_GPM_METRICS_GET_VERSION", "NVML_IDLE": "nvmlClocksEventReasonGpuIdle",
}
REASONS = {"POWER_LIMIT": "SwPowerCap", "HW_SLOWDOWN": "HwSlowdown", "SW_THERMAL": "SwThermalSlowdown", "HW_THERMAL": "HwThermalSlowdown",
           "POWER_BRAKE": "HwPowerBrakeSlowdown"}


def folders():
    """The folders of this machine with an nvml.h of NVIDIA's."""
    places = [p for p in os.environ.get("LIBRARY_HEADERS", "").split(":") if p]
    places += [os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include")]
    places += [p for s in site.getsitepackages() for p in sorted(glob.glob(f"{s}/nvidia/*/include"))]
    return [p for p in dict.fromkeys(places) if os.path.exists(os.path.join(p, "nvml.h"))]


def rows():
    """[(function, parameters)] of nvml.def."""
    return re.findall(r"^NVML\(\w+, (\w+), (\(.*\))\)$", (ROOT / "cupti/nvml.def").read_text(), re.M)


def throttles():
    """[(id, bit)] of throttles.def."""
    return re.findall(r"^THROTTLE\((\w+), (\w+),", (ROOT / "writer/record/throttles.def").read_text(), re.M)


def test_parses_every_row():
    assert len(rows()) == (ROOT / "cupti/nvml.def").read_text().count("\nNVML(") > 10
    assert {name for name, _ in throttles()} == set(REASONS)


def size_of(parameter):
    """The text of a C expression: how a parameter is passed. Pointers are one class; integers and enums are told apart by size."""
    return "sizeof(void *)" if "*" in parameter else f"sizeof({parameter.strip().rpartition(' ')[0] or 'int'})"


@pytest.mark.parametrize("folder", folders() or [None], ids=lambda v: v or "")
def test_matches_the_header(folder, tmp_path):
    if not folder:
        pytest.skip("no nvml.h of NVIDIA's on this machine (pip install nvidia-nvml-dev; LIBRARY_HEADERS may name folders)")
    compiler = shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    header = subprocess.run([compiler, "-E", "-P", "-I", folder, "-include", "nvml.h", "-"], input="", capture_output=True, text=True, timeout=60,
                            check=True).stdout
    header = re.sub(r"\s+", " ", header)
    names = pathlib.Path(folder, "nvml.h").read_text()
    lines = ['#include "nvml.h"', "#include <stddef.h>", '#include "cupti/nvml.h"']
    for own, (theirs, fields) in STRUCTS.items():
        if own != "nvml_gpm":  # its array is longer in each version
            lines.append(f'_Static_assert(sizeof(struct {own}) == sizeof({theirs}), "size of {own}");')
        lines += [f'_Static_assert(offsetof(struct {own}, {field}) == offsetof({theirs}, {other}), "{own}.{field}");' for field, other in fields.items()]
    lines.append('_Static_assert(sizeof(struct nvml_gpm) >= sizeof(nvmlGpmMetricsGet_t), "room for all metrics");')
    lines += [f'_Static_assert({own} == {theirs}, "{own}");' for own, theirs in NUMBERS.items()]
    for name, bit in throttles():
        known = re.search(rf"\bnvmlClocks(Event|Throttle)Reason{REASONS[name]}\b", names)
        lines.append(f'_Static_assert({bit} == {known.group()}, "{name}");')
    for function, parameters in rows():
        found = re.search(rf"\b{function} ?\(([^)]*)\) ?;", header)
        assert found, f"{function} is not in nvml.h"
        own, theirs = parameters[1:-1].split(","), found[1].split(",")
        assert len(own) == len(theirs), f"{function}: {parameters}, in nvml.h ({found[1]})"
        for mine, other in zip(own, theirs):
            if mine.strip() != "void":
                handle = re.sub(r"\bnvml(Device|GpmSample)_t (?=\w)", "void *", other)
                lines.append(f'_Static_assert({size_of(mine)} == {size_of(handle)}, "{function}: {mine.strip()}");')
                assert ("*" in mine) == ("*" in handle), f"{function}: {mine}, in nvml.h {other}"
    source = tmp_path / "check.c"
    source.write_text("\n".join(lines) + "\n")
    done = subprocess.run([compiler, "-std=gnu11", "-fsyntax-only", "-w", "-I", folder, "-I", str(ROOT), str(source)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr[:3000]
