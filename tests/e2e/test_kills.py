# SPDX-License-Identifier: Apache-2.0
"""kill -9 at random times: 16 times with a fixed seed; `make soak` does it 200 times with another seed."""

import kills


def test_kill_at_random_times_leaves_readable_files(tmp_path):
    figures = kills.kill_often(tmp_path, 16, seed=8)
    assert figures.kills == 16 and figures.finished > 0 and figures.parts > 0
