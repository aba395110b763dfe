# SPDX-License-Identifier: Apache-2.0
"""`make bench` measures recording, not dropping: a run that lost events gives no figure."""

import subprocess
import sys

import pytest
import support
from conftest import ROOT

RUN = """
import sys
from common import compile_program, environment, output, values
settings = dict(WAIT=0, WARMUP=1, ACTIVE=1, REPEAT=0, FOLDER=sys.argv[1], RING_KB=sys.argv[2])
print(values(output([compile_program("window_end"), 5, 2000], environment(True, **settings))))
"""


@pytest.mark.skipif(bool(support.SANITIZER), reason="the bench measures the library as it is used, without a sanitizer")
@pytest.mark.parametrize("ring_kb, lost", [(8192, False), (64, True)])
def test_bench_fails_when_events_were_lost(tmp_path, ring_kb, lost):
    done = subprocess.run([sys.executable, "-c", RUN, tmp_path, str(ring_kb)], cwd=ROOT / "scripts/bench", capture_output=True,
                          text=True, timeout=120)
    if lost:
        assert done.returncode == 1 and not done.stdout and " events, 0 lost" not in done.stderr
        assert "bench: " in done.stderr and " lost: " in done.stderr
    else:
        assert done.returncode == 0 and "window_end_p99" in done.stdout, done.stderr
