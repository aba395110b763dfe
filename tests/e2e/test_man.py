# SPDX-License-Identifier: Apache-2.0
"""The manual pages and completions of scripts/man: they are complete, render without warnings and match their sources."""

import re
import shutil
import subprocess
import sys

import pytest

import tool
from conftest import ROOT
from cprof.tool import COMMANDS

MAN = ROOT / "scripts/man"
PAGES = sorted(path.name for path in MAN.glob("*.[137]"))


def plain(name):
    """The text of a page without troff requests and escapes."""
    text = re.sub(r"^\.(?!B).*$", "", (MAN / name).read_text(), flags=re.M)
    return re.sub(r"\\f[BIR]|\\&", "", text).replace("\\-", "-").replace("\\(aq", "'").replace("\\e", "\\")


@pytest.mark.skipif(not shutil.which("groff"), reason="groff is not installed")
@pytest.mark.parametrize("name", PAGES)
def test_page_renders_without_warnings(name):
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", MAN / name], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and done.stderr == "" and len(done.stdout) > 500


@pytest.mark.parametrize("command", COMMANDS)
def test_page_has_each_option(command):
    shown = tool.cprof(command, "--help-all" if command in ("run", "env") else "--help").out
    options = set(re.findall(r"^  (?:-\w, )?(--[a-z][\w-]*)", shown, re.M))
    assert options and options <= set(re.findall(r"--[a-z][\w-]*", plain(f"cprof-{command}.1")))


def test_interface_page_has_each_call():
    header = (ROOT / "preload/cprof.h").read_text()
    calls = set(re.findall(r"^CPROF_(?:FUNCTION_\([^,]*, |PROCEDURE_\()\s*(cprof_\w+)", header, re.M))
    assert len(calls) > 20 and calls <= set(re.findall(r"\b(cprof_\w+)\(", plain("cprof.3")))


def test_settings_page_has_each_setting():
    settings = re.findall(r"^X\((\w+),.* NOW, ", (ROOT / "preload/settings/config.def").read_text(), re.M)
    assert len(settings) > 30 and set(settings) <= set(re.findall(r"^(CPROF_\w+)", plain("cprof-settings.7"), re.M))


@pytest.mark.parametrize("line, offered", [("cprof m", ["merge", "memory", "memory-timeline"]), ("cprof top --so", ["--sort-by"]),
                                           ("cprof run --with-f", ["--with-flops"])])
def test_bash_completes(line, offered):
    script = f'source {MAN}/cprof.bash; COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _cprof; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == offered, done.stderr


def test_check_finds_an_outdated_page(tmp_path):
    check = [sys.executable, "scripts/lint/gen_man.py", "--check"]
    done = subprocess.run(check, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout
    for name in "scripts", "preload", "writer":
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    page = tmp_path / "scripts/man/cprof-top.1"
    page.write_text(page.read_text().replace("sort", "tros"))
    done = subprocess.run(check, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 1 and "scripts/man/cprof-top.1: differs" in done.stdout
