# SPDX-License-Identifier: Apache-2.0
"""What one window without end, or one long capture, must not make of a trace."""

from gpu_runs import counts, gpu_run, lost, needed

pytestmark = needed


def test_queries_take_no_place_from_launches(tmp_path):
    run = gpu_run("queries", tmp_path, "--rounds", 14000, "--queries", 100, SCHEDULE_SCOPE="none")
    trace = run.whole()
    assert lost(trace) == {}
    assert counts(trace)["kernel"] == 14000


def test_each_launch_of_a_long_capture_is_known_as_captured(tmp_path):
    run = gpu_run("long_capture", tmp_path, "--nodes", 20000, SKIP_FIRST=1, WARMUP=0, ACTIVE=1)
    trace = run.trace()
    assert lost(trace) == {}
    assert counts(trace)["kernel"] == 20000


def test_ranges_that_never_end_do_not_hold_up_the_writer(tmp_path):
    """A program that forgets to end its ranges has hundreds open, and each launch is inside of all."""
    run = gpu_run("queries", tmp_path, "--rounds", 4000, "--queries", 0, "--open", 250, SCHEDULE_SCOPE="none", DRAIN_DEADLINE_MS=5000)
    trace = run.whole()
    assert lost(trace) == {}
    assert counts(trace)["kernel"] == 4000 and counts(trace)["gpu_user_annotation"] == 250
