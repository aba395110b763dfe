# SPDX-License-Identifier: Apache-2.0
"""`cprof top` reads the FLOP rates of a trace's cprof object, which may hold anything."""

import pytest

from cprof.tool import rates


@pytest.mark.parametrize("told", [None, [], "x", {"CPU": None}, {"CPU": {"flops": "5"}}, {"CPU": {"flops": 10**400, "mfu_percent": 1}}, {"CPU": {"flops": -1}},
                                  {"CPU": {"flops": 1e999}}, {"unknown": 5, "CPU": {"flops": True}}], ids=lambda told: str(told)[:30])
def test_leaves_out_malformed_rates(told):
    assert rates.rates_of(told) == {}


def test_keeps_sound_rates_beside_malformed_ones():
    told = {"CPU\x1b[2J": {"flops": 8, "recompute_flops": float("nan"), "tflops_per_s": 0.5, "mfu_percent": 10**400, "hfu_percent": [1]}}
    told.update((f"CUDA:{n}", {"flops": 1}) for n in range(100000))
    found = rates.rates_of(told)
    assert found["CPU\x1b[2J"] == {"flops": 8, "tflops_per_s": 0.5} and len(found) < 1000
    assert rates.lines_of(found)[0].endswith("[2J: 0.5 TFLOP/s") and "\x1b" not in rates.lines_of(found)[0]
