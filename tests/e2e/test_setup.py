# SPDX-License-Identifier: Apache-2.0
"""scripts/setup.sh in a checkout of its own, with a stand-in for pip and without apt: nothing is installed here."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from conftest import ROOT

# The environment's interpreter. What pip is asked to install is noted; it then is there, in one file. With `slow` it takes a while, and
# says what pip says when it is interrupted.
PYTHON = """\
#!/bin/bash
site={site}
case "$*" in
"-m pip --version") exit ;;
*"pip index versions torch"*) echo "torch (2.0.0+cpu)"; exit ;;
"-m pip install "*)
    echo "$*" >>$site/calls
    if [ -e $site/slow ]; then
        trap 'echo "ERROR: Operation cancelled by user"; exit 1' INT
        for i in {{1..100}}; do sleep 0.1; done
    fi
    name=${{!#}}
    mkdir -p $site/${{name%%[=<>]*}} && echo >$site/${{name%%[=<>]*}}/__init__.py
    exit ;;
esac
PYTHONPATH=$site exec {python} -S "$@"
"""


@pytest.fixture
def checkout(tmp_path):
    """A folder with what set-up reads; apt-get and sudo are none, and nothing else of the machine is asked for torch."""
    for name in "setup.sh", "requirements.txt":
        (tmp_path / "scripts").mkdir(exist_ok=True)
        shutil.copy(ROOT / "scripts" / name, tmp_path / "scripts" / name)
    for name in "apt-get", "sudo", "nvidia-smi":
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / "bin" / name).chmod(0o755)
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    (tmp_path / "site").mkdir()
    python.write_text(PYTHON.format(site=tmp_path / "site", python=sys.executable))
    python.chmod(0o755)
    return tmp_path


def as_a_user():
    """For a process to come: it may write only what its owner may, root's included (PR_CAPBSET_DROP, CAP_DAC_OVERRIDE)."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background jobs ignore what the keyboard sends: not so here
    ctypes.CDLL(None).prctl(24, 1)


def start(checkout, *args, python=sys.executable):
    environment = dict(os.environ, PATH=f"{checkout}/bin:{os.environ['PATH']}", PYTHON=str(python), BUILD="build")
    return subprocess.Popen(["bash", "scripts/setup.sh", *args], cwd=checkout, env=environment, start_new_session=True, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=as_a_user)


def installed(checkout):
    calls = checkout / "site/calls"
    return [line.split()[-1] for line in calls.read_text().splitlines()] if calls.exists() else []


def test_installs_what_is_not_there(checkout):
    done = start(checkout, "--demo")
    assert done.communicate(timeout=60)[0].count("missing") == 0 and done.returncode == 0
    assert installed(checkout) == ["torch==2.0.0+cpu", "numpy>=1.21"]
    again = start(checkout, "--demo")
    assert again.communicate(timeout=60)[0] == "" and again.returncode == 0
    assert len(installed(checkout)) == 2


def test_an_interrupt_is_the_end(checkout):
    """pip, when it is interrupted, ends as if it had failed: nothing else is tried instead, and the next run is not told that all was done."""
    (checkout / "site/slow").touch()
    run = start(checkout, "--demo")
    until = time.monotonic() + 30
    while not installed(checkout) and time.monotonic() < until:
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGINT)
    said = run.communicate(timeout=60)[0]
    assert run.returncode == 130, said
    assert installed(checkout) == ["torch==2.0.0+cpu"]
    assert "interrupted" in said and not list(checkout.glob("build/.setup*"))


def test_what_was_installed_by_half_is_installed_again(checkout):
    """A torch whose installation was killed is a folder, and cannot be imported."""
    (checkout / "site/torch/nn").mkdir(parents=True)
    run = start(checkout, "--demo")
    said = run.communicate(timeout=60)[0]
    assert run.returncode == 0 and installed(checkout) == ["torch==2.0.0+cpu", "numpy>=1.21"], said


def test_a_checkout_that_cannot_be_written(checkout):
    shutil.rmtree(checkout / ".venv")
    checkout.chmod(0o555)
    said = start(checkout, "--demo").communicate(timeout=60)[0]
    checkout.chmod(0o755)
    assert f"missing: .venv ({checkout} cannot be written)" in said


def test_what_venv_says(checkout):
    shutil.rmtree(checkout / ".venv")
    (checkout / "python").write_text(f"#!/bin/sh\n[ \"$2\" != venv ] || {{ echo no ensurepip; exit 1; }}\nexec {sys.executable} -S \"$@\"\n")
    (checkout / "python").chmod(0o755)
    said = start(checkout, "--demo", python=checkout / "python").communicate(timeout=60)[0]
    assert "missing: .venv (python3 -m venv failed; is python3-venv there? no ensurepip)" in said
