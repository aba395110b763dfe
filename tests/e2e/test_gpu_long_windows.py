# SPDX-License-Identifier: Apache-2.0
"""One endless window, or one long graph capture, must not lose events."""

from gpu_runs import counts, gpu_run, lost, needed

pytestmark = needed


def test_queries_do_not_displace_launches(tmp_path):
    run = gpu_run("queries", tmp_path, "--rounds", 14000, "--queries", 100, SCHEDULE_SCOPE="none")
    trace = run.whole()
    assert lost(trace) == {}
    assert counts(trace)["kernel"] == 14000


def test_long_capture_loses_no_launch(tmp_path):
    run = gpu_run("long_capture", tmp_path, "--nodes", 20000, SKIP_FIRST=1, WARMUP=0, ACTIVE=1)
    trace = run.trace()
    assert lost(trace) == {}
    assert counts(trace)["kernel"] == 20000


def test_hundreds_of_open_ranges_do_not_slow_the_writer(tmp_path):
    """A program that forgets to end its ranges has hundreds open. Each launch is inside all of them."""
    run = gpu_run("queries", tmp_path, "--rounds", 4000, "--queries", 0, "--open", 250, SCHEDULE_SCOPE="none", DRAIN_DEADLINE_MS=5000)
    trace = run.whole()
    assert lost(trace) == {}
    assert counts(trace)["kernel"] == 4000 and counts(trace)["gpu_user_annotation"] == 250
