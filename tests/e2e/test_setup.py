# SPDX-License-Identifier: Apache-2.0
"""scripts/setup.sh in its own checkout, with a fake pip and without apt. The tests install nothing on this machine."""

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from conftest import ROOT

# A fake interpreter of the environment. It logs what pip is to install and creates each package as one file. If the file `slow` exists,
# the installation takes long and reports an interrupt as pip does.
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
    """A folder with the files that setup.sh reads, failing apt-get and sudo, and the fake interpreter."""
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
    """For preexec_fn: file permissions bind even root (PR_CAPBSET_DROP of CAP_DAC_OVERRIDE)."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # background jobs of a shell ignore SIGINT; this process must not
    ctypes.CDLL(None).prctl(24, 1)


def start(checkout, *args, python=sys.executable):
    environment = dict(os.environ, PATH=f"{checkout}/bin:{os.environ['PATH']}", PYTHON=str(python), BUILD="build")
    return subprocess.Popen(["bash", "scripts/setup.sh", *args], cwd=checkout, env=environment, start_new_session=True, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=as_a_user)


def installed(checkout):
    calls = checkout / "site/calls"
    return [line.split()[-1] for line in calls.read_text().splitlines()] if calls.exists() else []


def test_setup_installs_missing_packages_once(checkout):
    done = start(checkout, "--demo")
    assert done.communicate(timeout=60)[0].count("missing") == 0 and done.returncode == 0
    assert installed(checkout) == ["torch==2.0.0+cpu", "numpy>=1.21"]
    again = start(checkout, "--demo")
    assert again.communicate(timeout=60)[0] == "" and again.returncode == 0
    assert len(installed(checkout)) == 2


def test_setup_stops_on_an_interrupt(checkout):
    """An interrupted pip ends like a failed one. setup.sh must try nothing else, and must not record that set-up was done."""
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


def test_setup_reinstalls_a_broken_package(checkout):
    """A torch whose installation was killed is a folder that cannot be imported."""
    (checkout / "site/torch/nn").mkdir(parents=True)
    run = start(checkout, "--demo")
    said = run.communicate(timeout=60)[0]
    assert run.returncode == 0 and installed(checkout) == ["torch==2.0.0+cpu", "numpy>=1.21"], said


def test_setup_reports_a_read_only_checkout(checkout):
    shutil.rmtree(checkout / ".venv")
    checkout.chmod(0o555)
    said = start(checkout, "--demo").communicate(timeout=60)[0]
    checkout.chmod(0o755)
    assert f"missing: .venv ({checkout} cannot be written)" in said


def test_setup_reports_a_failing_venv(checkout):
    shutil.rmtree(checkout / ".venv")
    (checkout / "python").write_text(f"#!/bin/sh\n[ \"$2\" != venv ] || {{ echo no ensurepip; exit 1; }}\nexec {sys.executable} -S \"$@\"\n")
    (checkout / "python").chmod(0o755)
    said = start(checkout, "--demo", python=checkout / "python").communicate(timeout=60)[0]
    assert "missing: .venv (python3 -m venv failed; is python3-venv there? no ensurepip)" in said
