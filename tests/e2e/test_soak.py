# SPDX-License-Identifier: Apache-2.0
"""A run of many cycles, in 20 seconds; `make soak` does it for an hour."""

import soak


def test_cycles_leave_nothing_behind(tmp_path):
    figures = soak.soak(tmp_path, 10, 1200)
    assert soak.problems(figures, 1200) == [], figures
