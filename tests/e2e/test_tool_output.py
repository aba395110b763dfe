# SPDX-License-Identifier: Apache-2.0
"""What the command may put its output in the place of: files, and nothing else that has a name."""

import json
import os
import stat

import pytest

from command_runs import Rank, cprof, refused


@pytest.mark.skipif(os.geteuid() != 0, reason="devices are made by root")
def test_a_device_is_no_file_to_replace(tmp_path):
    """Root's `-o /dev/null --force` would leave a regular file there, for every program of the machine."""
    path, null = Rank(0).write(tmp_path), tmp_path / "null"
    try:
        os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("no devices may be made here")
    refused(cprof("merge", path, "-o", null, "--force"), str(null), "no file")
    assert null.is_char_device()


def test_what_a_forced_merge_replaces(tmp_path):
    path, fifo, target = Rank(0).write(tmp_path), tmp_path / "fifo", tmp_path / "far" / "all.json"
    os.mkfifo(fifo)
    target.parent.mkdir()
    target.write_text("old")
    link = tmp_path / "link.json"
    link.symlink_to(target)
    for kept in (fifo, target.parent):
        refused(cprof("merge", path, "-o", kept, "--force"), str(kept), "no file")
    assert stat.S_ISFIFO(fifo.lstat().st_mode)
    assert cprof("merge", path, "-o", link, "--force").returncode == 0
    assert link.is_symlink() and json.loads(target.read_text())["merged"] and os.listdir(target.parent) == ["all.json"]
