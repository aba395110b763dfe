# SPDX-License-Identifier: Apache-2.0
"""The command replaces files only, no devices, FIFOs or folders. A command that is stopped leaves no file."""

import json
import os
import signal
import stat
import subprocess
import sys

import pytest

import tool
from command_runs import PACKAGE, Rank, cprof, environment, refused


@pytest.mark.skipif(os.geteuid() != 0, reason="devices are made by root")
def test_refuses_to_replace_a_device(tmp_path):
    """Otherwise root's `-o /dev/null --force` would leave a regular file there, to all programs of the machine."""
    path, null = Rank(0).write(tmp_path), tmp_path / "null"
    try:
        os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
    except PermissionError:
        pytest.skip("this container may not make devices")
    refused(cprof("merge", path, "-o", null, "--force"), str(null), "no file")
    assert null.is_char_device()


def test_forced_merge_replaces_files_only(tmp_path):
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


class Ending:
    """A command that has written its output to a temporary file, and waits for a line before it renames the file."""

    CODE = ("import os, sys\nfrom cprof.tool import main\n"
            "def waits(call):\n    def wait(*args, **more):\n        print('here', flush=True)\n        sys.stdin.readline()\n        return call(*args, **more)\n"
            "    return wait\n"
            "os.replace, os.link = waits(os.replace), waits(os.link)\nsys.exit(main(sys.argv[1:]))")

    def __init__(self, *args, **more):
        self._running = subprocess.Popen([sys.executable, "-c", self.CODE, *map(str, args)], env=environment(PYTHONPATH=PACKAGE), text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        assert self._running.stdout.readline() == "here\n"

    def stopped(self, number):
        """Sends the signal, then the line. Returns the exit code and stderr."""
        self._running.send_signal(number)
        said = self._running.communicate("\n", timeout=60)[1]
        return self._running.returncode, said


def with_stacks(path):
    return tool.write(path, [tool.span("ProfilerStep#0", 0.0, 100.0, cat="user_annotation"), tool.memory(15.0, 64, 1),
                             tool.span("aten::mm", 10.0, 20.0, Call_stack="a.py(1): f;")])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("command", [["stacks", "-o", "out"], ["memory-timeline", "-o", "out.html"], ["memory-timeline", "-o", "out.json.gz"],
                                     ["merge", "-o", "out.json"], ["merge", "-f", "-o", "out.json"], ["merge", "--manifest", "-o", "out.tar"],
                                     ["recover", "-o", "out.json"]], ids=" ".join)
def test_stopped_command_leaves_no_file(command, number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trace = Rank(0).write(tmp_path, "t.json") if command[0] == "recover" else with_stacks(tmp_path / "t.json")
    assert Ending(*command, trace).stopped(number) == (128 + number, "")
    assert os.listdir() == ["t.json"]


@pytest.mark.parametrize("command", [["stacks"], ["merge"]], ids=" ".join)
def test_nohup_command_survives_a_hangup(command, tmp_path):
    """A command that ignores SIGHUP finishes its output when the terminal closes."""
    out, trace = tmp_path / "out", with_stacks(tmp_path / "t.json")
    ending = Ending(*command, trace, "-o", out, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    assert ending.stopped(signal.SIGHUP)[0] == 0 and out.stat().st_size > 0
