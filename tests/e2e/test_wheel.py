# SPDX-License-Identifier: Apache-2.0
"""The wheel in a fresh environment: pip installs the library, the command and the man pages, and needs no settings. The wheel holds the
library under test. WHEEL names a wheel of `make wheel` instead (as `make other-programs` does)."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

import support
from command_runs import environment
from conftest import BUILD, ROOT

PROGRAM = """\
import cprof
for _ in range(8):
    cprof.range_push("work")
    sum(range(10000))
    cprof.range_pop()
    cprof.step()
print("done")
"""


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=300, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    if os.environ.get("WHEEL"):
        return pathlib.Path(os.environ["WHEEL"]).resolve()
    if not shutil.which("objcopy"):
        pytest.skip("binutils are not installed")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, ROOT / "scripts/wheel.py", "--library", BUILD / "libcprof.so", "--out", folder)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """The environment's folder."""
    folder = tmp_path_factory.mktemp("installed") / "venv"
    made = subprocess.run([sys.executable, "-m", "venv", str(folder)], capture_output=True, text=True, timeout=300)
    if made.returncode:
        pytest.skip(f"no environment can be made here: {made.stdout.strip()}")
    run(folder / "bin/python", "-m", "pip", "install", "-q", "--no-index", "--no-deps", wheel)
    return folder


def in_it(installed, **more):
    return environment(CPROF_LIBRARY=None, PYTHONPATH=None, PATH=f"{installed}/bin:{os.environ['PATH']}", **more)


def test_installed_command_runs_and_reads_a_trace(installed, tmp_path):
    (tmp_path / "x.py").write_text(PROGRAM)
    done = run("cprof", "run", "--run-name", "first", "--", "python", "x.py", cwd=tmp_path, env=in_it(installed))
    assert done.stdout == "done\n"
    trace, = support.files(tmp_path, ".json")
    assert trace == tmp_path / "first/torch_traces/rank0.5.pt.trace.json" and str(trace.relative_to(tmp_path)) in done.stderr
    table = run("cprof", "top", cwd=tmp_path, env=in_it(installed)).stdout
    row = next(line.split() for line in table.splitlines() if line.split()[:1] == ["work"])
    assert "4" in row[3:], table


def test_uses_its_own_library(installed, tmp_path):
    """Also where LD_PRELOAD names another copy, which one line reports."""
    other = shutil.copy(BUILD / "libcprof.so", tmp_path / "libcprof.so")
    library, = installed.glob("lib/python3*/site-packages/cprof/libcprof.so")
    done = run("cprof", "env", cwd=tmp_path, env=in_it(installed, LD_PRELOAD=other))
    assert done.stdout == f"export LD_PRELOAD={library}\n"
    assert f"LD_PRELOAD names {other}, another copy of cprof" in done.stderr
    assert f"ok    library   {library}, version " in run("cprof", "doctor", cwd=tmp_path, env=in_it(installed)).stdout


def test_names_another_copy_that_ldconfig_finds(installed, tmp_path):
    """`ldconfig -p` lists the other copy."""
    other = shutil.copy(BUILD / "libcprof.so", tmp_path / "libcprof.so")
    ldconfig = tmp_path / "bin/ldconfig"
    ldconfig.parent.mkdir()
    ldconfig.write_text(f"#!/bin/sh\necho '\tlibcprof.so (libc6,x86-64) => {other}'\n")
    ldconfig.chmod(0o755)
    env = in_it(installed)
    env["PATH"] = f"{ldconfig.parent}:{env['PATH']}"
    assert f"cprof: {other} is another copy of cprof: this run has " in run("cprof", "run", "--", "python", "-c", "", cwd=tmp_path, env=env).stderr
    assert f"warn  copies    {other} is another copy of cprof" in run("cprof", "doctor", cwd=tmp_path, env=env).stdout


def test_installs_pages_header_and_pkg_config(installed):
    assert (installed / "share/man/man1/cprof-run.1").is_file() and (installed / "share/man/man7/cprof-settings.7").is_file()
    assert (installed / "share/bash-completion/completions/cprof").is_file()
    if not shutil.which("pkg-config"):
        pytest.skip("pkg-config is not installed")
    asked = dict(os.environ, PKG_CONFIG_PATH=str(installed / "lib/pkgconfig"))
    flags = run("pkg-config", "--cflags", "cprof", env=asked).stdout.split()
    run("cc", "-fsyntax-only", "-xc", "-", *flags, input='#include "cprof.h"\nint main(void) { cprof_step(); return 0; }\n')
    assert run("pkg-config", "--modversion", "cprof", env=asked).stdout == run(installed / "bin/cprof", "--version").stdout.split()[1] + "\n"
