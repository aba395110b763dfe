# SPDX-License-Identifier: Apache-2.0
"""Attacks on the library: what another user, the environment or a limit of the process can do to a program that records."""

import resource
import subprocess

import pytest

from support import environment, program

KIB = 1024


# ---- limits of the process ---------------------------------------------------------------------------------

@pytest.mark.parametrize("setting", ["TYPO=1", "WAIT=abc", "LOG=debug"])
def test_a_line_on_a_full_stderr_ends_nothing(tmp_path, setting):
    """Standard error is a file at RLIMIT_FSIZE: a line written there raises SIGXFSZ."""
    log = tmp_path / "log"
    log.write_bytes(bytes(KIB))
    name, value = setting.split("=")
    with log.open("ab") as stderr:
        done = subprocess.run(program("burst", 1, 10), stdout=subprocess.PIPE, stderr=stderr, timeout=120,
                              env=environment(tmp_path / "t", ACTIVE=2, **{name: value}),
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (KIB, KIB)))
    assert (done.returncode, done.stdout) == (0, b"made 20\n")
    assert log.stat().st_size == KIB
