# SPDX-License-Identifier: Apache-2.0
"""libtorch_cpu's GOT entries, for scripts that check which calls cprof redirects to itself."""

import ctypes
import json


class Slots:
    """libtorch_cpu's GOT entries, read and written as another tool in this process would."""

    def __init__(self, offsets):
        self.base = min(int(line.split("-")[0], 16) for line in open("/proc/self/maps") if "libtorch_cpu.so" in line)
        self.torch = ctypes.CDLL("libtorch_cpu.so")
        self.at = {name: self.base + offset for name, offset in json.loads(offsets).items()}

    def now(self, name):
        return ctypes.c_uint64.from_address(self.at[name]).value

    def put(self, name, value):
        ctypes.c_uint64.from_address(self.at[name]).value = value

    def torchs(self, name):
        return ctypes.cast(getattr(self.torch, name), ctypes.c_void_p).value

    def ours(self):
        """Names of the calls that are redirected away from torch."""
        return [name for name in self.at if self.now(name) != self.torchs(name)]
