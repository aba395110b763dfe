# SPDX-License-Identifier: Apache-2.0
"""The Makefile on a machine without cprof's optional dependencies: ISA-L's header and libsupc++."""

import os
import re
import shlex
import shutil
import subprocess

from conftest import BUILD, ROOT
from support import events, load, python, run

OPTIONAL = ["isa-l.h", "libsupc++.a"]
# Sources that match this use an optional dependency.
ASKS = re.compile(r"isa-l|IGZIP|NO_DEMANGLE|__cxa_demangle")

# Including a hidden header is an error. -print-file-name of a hidden library prints the bare name, as gcc and clang do for a missing file.
COMPILER = """\
#!/bin/sh
case "$*" in
{answers}
esac
exec {compiler} -I {hidden} "$@"
"""


def compiler_without(folder, names):
    """A compiler that cannot find these headers and libraries."""
    hidden = folder / "hidden"
    for name in names:
        (hidden / name).parent.mkdir(parents=True, exist_ok=True)
        (hidden / name).write_text("#error not here\n")
    answers = "\n".join(f"-print-file-name={name}) echo {name}; exit;;" for name in names)
    compiler = folder / "compiler"
    compiler.write_text(COMPILER.format(answers=answers, compiler=os.environ.get("CC", "cc"), hidden=shlex.quote(str(hidden))))
    compiler.chmod(0o755)
    return compiler


def make(*args):
    made = subprocess.run(["make", "-C", str(ROOT), *map(str, args)], capture_output=True, text=True)
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-4000:]
    return made.stdout


def variable(name, *args):
    """The value of a Makefile variable."""
    printer = f"--eval=told-by-test: ; @echo '<$({name})>'"
    return make("-s", *args, printer, "told-by-test").split("<")[1].split(">")[0]


def test_make_uses_isa_l_if_its_header_exists(tmp_path):
    (tmp_path / "isa-l.h").write_text("")
    assert variable("IGZIP", f"CC=cc -I {tmp_path}") == "-DCPROF_IGZIP"


def objects_to_start_from(build):
    """Copies the objects that `make` has built, except those of sources that use an optional dependency. Returns the names of these sources."""
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
    compiler = compiler_without(tmp_path, OPTIONAL)
    build = tmp_path / "build"
    asking = objects_to_start_from(build)
    made = make("-j2", f"CC={compiler}", f"BUILD={build}", "CFLAGS=-O0", "-o", ".always", "-o", build / ".flags", build / "libcprof.so")
    assert sorted(re.findall(r"CC +\S*/(\S+\.c)$", made, re.M)) == asking and asking
    result = run(python("steps(2)"), tmp_path / "out", preload=False, env={"LD_PRELOAD": str(build / "libcprof.so")},
                 SCHEDULE_SCOPE="none", USE_GZIP=1)
    assert result.rc == 0 and result.complaints == [], result
    assert [path.suffix for path in result.traces] == [".gz"]
    assert len(events(load(result.traces[0]), name="work")) == 2
