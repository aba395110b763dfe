# SPDX-License-Identifier: Apache-2.0
"""Steps without a code change: what marks them, where their edges lie, and that the operators of a step are all there."""

import pytest

from torch_runs import both_pythons, python_or_skip, run

ALL = {"WARMUP": 0, "ACTIVE": 1000}  # one window from start to exit


@pytest.fixture
def python(request):
    return python_or_skip(request.param)


def assert_one_probe_each(trace, count):
    """Step i holds probe i, and there are `count` of them."""
    probes = trace.in_steps(trace.spans("user_annotation", r"^probe \d+$"))
    assert probes == {i: [f"probe {i}"] for i in range(count)}


@both_pythons
@pytest.mark.parametrize("loop", ["sgd", "two_classes", "two_of_one", "subclass", "lbfgs"])
def test_optimizer_marks_steps(loop, python, tmp_path):
    done = run("steps.py", tmp_path, loop, python=python, **ALL).assert_good()
    trace = done.trace
    assert_one_probe_each(trace, done.result["iterations"])
    trace.assert_nested()
    assert trace.lost == 0
    assert len(done.said) == 1
