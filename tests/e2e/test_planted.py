# SPDX-License-Identifier: Apache-2.0
"""Two programs of tests/e2e/planted; truth.py there checks all of them."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent / "planted"))
import truth  # noqa: E402


@pytest.mark.parametrize("name, share, rule", [("kept-features", 0.3, "leak"), ("healthy-mlp", 0.0, None)])
def test_names_the_planted_fault_first(name, share, rule, tmp_path):
    found = truth.judged(name, share, tmp_path / "traces")["findings"]
    rules = [one[0] for one in found if one[0] != "outlier-steps"]  # a busy machine may delay any step
    assert rules[:1] == ([rule] if rule else []), found
