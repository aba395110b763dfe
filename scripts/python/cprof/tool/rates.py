# SPDX-License-Identifier: Apache-2.0
"""The FLOP rates of each device in a trace of cprof's: rate, MFU (useful work only) and HFU (all work)."""

import itertools
from typing import Any, Dict, List

from cprof.tool import printable

MOST_DEVICES = 256  # a process has the CPU and at most 128 GPUs in its account
KEYS = ("flops", "recompute_flops", "tflops_per_s", "mfu_percent", "hfu_percent")
Rates = Dict[str, Dict[str, float]]  # device -> those of KEYS that the trace has


def rates_of(flops: Any) -> Rates:
    """The devices that computed something, of the object `cprof.flops`; it may be of any kind."""
    found: Rates = {}
    for device, told in itertools.islice(flops.items(), MOST_DEVICES) if type(flops) is dict else ():
        if type(told) is dict:
            numbers = {key: told[key] for key in KEYS if type(told.get(key)) in (int, float) and 0 <= told[key] < 1e30}
            if numbers.get("flops", 0) > 0:
                found[device] = numbers
    return found


def lines_of(rates: Rates) -> List[str]:
    """A line for each device."""
    lines = []
    for device, told in rates.items():
        parts = [f"{told['tflops_per_s']:.4g} TFLOP/s"] if "tflops_per_s" in told else []
        parts += [f"{name} {told[key]:.4g} %" for name, key in (("MFU", "mfu_percent"), ("HFU", "hfu_percent")) if key in told]
        if told.get("recompute_flops", 0) > 0:
            parts.append(f"{told['recompute_flops'] / told['flops']:.1%} recomputed")
        lines.append(f"{printable(device)}: {', '.join(parts)}")
    return lines
