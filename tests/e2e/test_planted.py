# SPDX-License-Identifier: Apache-2.0
"""Two programs of tests/e2e/planted; truth.py there asks about all."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "planted"))
import truth  # noqa: E402


@pytest.mark.parametrize("name, share, rule", [("kept-features", 0.3, "leak"), ("healthy-mlp", 0.0, None)])
def test_a_planted_fault_is_named_first(name, share, rule, tmp_path):
    found = truth.judged(name, share, tmp_path / "traces")["findings"]
    rules = [one[0] for one in found if one[0] != "outlier-steps"]  # a machine that does other work may hold up any step
    assert rules[:1] == ([rule] if rule else []), found
