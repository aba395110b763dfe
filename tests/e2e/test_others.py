# SPDX-License-Identifier: Apache-2.0
"""Short runs of `make other-programs` and of `make fuzz` for the command's readers, each in its own process."""

import os
import pathlib
import subprocess
import sys

import pytest

from conftest import BUILD, ROOT

LIMIT_S = 900


def run(*command, cwd):
    return subprocess.run([sys.executable, *map(str, command)], cwd=cwd, env=dict(os.environ, BUILD=str(BUILD)), timeout=LIMIT_S,
                          capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL)


def test_other_peoples_programs_do_not_differ(tmp_path):
    done = run(ROOT / "tests/others/run.py", "--quick", cwd=tmp_path)
    assert done.returncode == 0 and not done.stdout.splitlines()[-1].startswith("0 compared"), done.stdout + done.stderr
    print(done.stdout)


@pytest.mark.parametrize("kind", ["strided", "coo", "raising"])
def test_flops_sweep_finds_no_wrong_count(kind, tmp_path):
    pytest.importorskip("torch", reason="PyTorch is not installed in .venv")
    done = run(ROOT / "tests/others/flops_sweep.py", kind, cwd=tmp_path)
    assert done.returncode == 0 and ", 0 wrong; " in done.stdout, done.stdout + done.stderr


def test_readers_survive_damaged_traces(tmp_path):
    done = run(ROOT / "tests/fuzz/fuzz_readers.py", "--seed", 1, "--runs", 40, "--keep", pathlib.Path(tmp_path), cwd=tmp_path)
    assert done.returncode == 0 and "Done 40 runs, 0 faults" in done.stdout, done.stdout + done.stderr
