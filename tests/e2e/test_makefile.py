# SPDX-License-Identifier: Apache-2.0
"""The Makefile on a machine without cprof's optional dependency: libsupc++."""

import os
import re
import shutil
import subprocess

from conftest import BUILD, ROOT
from support import events, load, python, run

# Sources that match this use the optional dependency.
ASKS = re.compile(r"NO_DEMANGLE|__cxa_demangle")

# -print-file-name of the hidden library prints the bare name, as gcc and clang do for a missing file.
COMPILER = """\
#!/bin/sh
case "$*" in
-print-file-name=libsupc++.a) echo libsupc++.a; exit;;
esac
exec {compiler} "$@"
"""


def compiler_without_libsupcxx(folder):
    compiler = folder / "compiler"
    compiler.write_text(COMPILER.format(compiler=os.environ.get("CC", "cc")))
    compiler.chmod(0o755)
    return compiler


def make(*args):
    made = subprocess.run(["make", "-C", str(ROOT), *map(str, args)], capture_output=True, text=True)
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-4000:]
    return made.stdout


def objects_to_start_from(build):
    """Copies the objects that `make` has built, except those of sources that use the optional dependency. Returns the names of these sources."""
    asking = []
    for room in ("preload", "cupti", "writer"):
        for source in (ROOT / room).rglob("*.c"):
            if ASKS.search(source.read_text()):
                asking.append(source.name)
            else:
                made = source.relative_to(ROOT).with_suffix(".o")
                (build / made).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(BUILD / made, build / made)
    return sorted(asking)


def test_library_builds_and_works_without_optional_parts(tmp_path):
    compiler = compiler_without_libsupcxx(tmp_path)
    build = tmp_path / "build"
    asking = objects_to_start_from(build)
    made = make("-j2", f"CC={compiler}", f"BUILD={build}", "CFLAGS=-O0", "-o", ".always", "-o", build / ".flags", build / "libcprof.so")
    assert sorted(re.findall(r"CC +\S*/(\S+\.c)$", made, re.M)) == asking and asking
    result = run(python("steps(2)"), tmp_path / "out", preload=False, env={"LD_PRELOAD": str(build / "libcprof.so")},
                 SCHEDULE_SCOPE="none", USE_GZIP=1)
    assert result.rc == 0 and result.complaints == [], result
    assert [path.suffix for path in result.traces] == [".gz"]
    assert len(events(load(result.traces[0]), name="work")) == 2
