# SPDX-License-Identifier: Apache-2.0
"""A run of many cycles, and of one window without end, in seconds; `make soak` does both for long."""

import soak


def test_cycles_leave_nothing_behind(tmp_path):
    figures = soak.soak(tmp_path, 10, 1200)
    assert soak.problems(figures, 1200) == [], figures


def test_a_window_without_end_leaves_nothing_behind(tmp_path):
    figures = soak.soak_endless(tmp_path, 10)
    assert soak.problems(figures, 1, endless=True) == [], figures
