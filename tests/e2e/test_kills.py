# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random times, 16 times with the same seed; `make soak` does it 200 times with another."""

import kills


def test_kill_at_random_times(tmp_path):
    figures = kills.kill_often(tmp_path, 16, seed=8)
    assert figures.kills == 16 and figures.finished > 0 and figures.parts > 0
