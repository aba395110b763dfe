# SPDX-License-Identifier: Apache-2.0
"""Short runs of many cycles and of one endless window; `make soak` runs both for long."""

import soak


def test_many_cycles_leak_nothing(tmp_path):
    figures = soak.soak(tmp_path, 10, 1200)
    assert soak.problems(figures, 1200) == [], figures


def test_endless_window_leaks_nothing(tmp_path):
    figures = soak.soak_endless(tmp_path, 10)
    assert soak.problems(figures, 1, endless=True) == [], figures
