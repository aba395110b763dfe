# SPDX-License-Identifier: Apache-2.0
"""The real Perfetto for tests: scripts/perfetto_check.py under a name that tests can import.

    import perfetto
    pytestmark = perfetto.needed                      # skips, with the reason, where there is no browser
    assert perfetto.import_errors(trace) == []
    rows = perfetto.query(trace, "select name, count(*) as n from slice group by name")
    shown = perfetto.view_of(trace, tmp_path / "view") # the file that `cprof open` shows
"""

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from conftest import BUILD, ROOT  # noqa: E402
from perfetto_check import PerfettoError, import_errors, query, screenshot, unavailable_reason  # noqa: E402,F401

from cprof.tool.view import write_view  # noqa: E402

_reason = unavailable_reason()
needed = pytest.mark.skipif(_reason is not None, reason=_reason or "")


def view_of(trace, path):
    """Writes the copy of a trace that `cprof open` shows; returns its path."""
    with open(path, "wb") as out:
        write_view(str(trace), out, pathlib.Path(trace).name)
    return path


def picture_of(trace, name, **view):
    """Takes a picture of a trace into build/e2e/pictures, or with UPDATE=1 into tests/e2e/pictures for the documentation."""
    folder = ROOT / "tests/e2e/pictures" if os.environ.get("UPDATE") else BUILD / "e2e/pictures"
    folder.mkdir(parents=True, exist_ok=True)
    picture = folder / name
    screenshot(trace, picture, **view)
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert picture.stat().st_size > 20000, "an empty page compresses to less"
