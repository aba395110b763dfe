# SPDX-License-Identifier: Apache-2.0
"""The Makefile on a machine that lacks what cprof can do without: json-c, ISA-L's header, libsupc++."""

import os
import shlex
import subprocess

from conftest import ROOT
from support import events, load, python, run

OPTIONAL = ["isa-l.h", "json-c/json.h", "libsupc++.a", "libjson-c.a"]

# What is hidden is an error when included, and is a name without a folder when asked for, as gcc and clang say of an absent file.
COMPILER = """\
#!/bin/sh
case "$*" in
{answers}
esac
exec {compiler} -I {hidden} "$@"
"""


def compiler_without(folder, names):
    """A compiler for which none of these headers and libraries is there."""
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
    """A variable of the Makefile as make expands it."""
    printer = f"--eval=told-by-test: ; @echo '<$({name})>'"
    return make("-s", *args, printer, "told-by-test").split("<")[1].split(">")[0]


def test_optional_headers_are_taken_when_they_are_there(tmp_path):
    for header in ["isa-l.h", "json-c/json.h"]:
        (tmp_path / "there" / header).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "there" / header).write_text("")
    (tmp_path / "libjson-c.a").write_text("")
    here = f"CC=cc -I {tmp_path}/there -B {tmp_path}"
    assert variable("IGZIP", here) == "-DCPROF_IGZIP" and "-l:libjson-c.a" in variable("JSONC", here)


def test_library_without_what_is_optional(tmp_path):
    compiler = compiler_without(tmp_path, OPTIONAL)
    build = tmp_path / "build"
    make("-j2", f"CC={compiler}", f"BUILD={build}", "CFLAGS=-O0", build / "libcprof.so")
    theirs = tmp_path / "theirs.json"
    theirs.write_text('{"traceEvents": []}')
    hand_in = f"print(_c.cprof_record_chrome_json_trace_file({str(theirs).encode()!r})); steps(2)"
    result = run(python(hand_in), tmp_path / "out", preload=False, env={"LD_PRELOAD": str(build / "libcprof.so")},
                 SCHEDULE_SCOPE="none", USE_GZIP=1)
    assert result.rc == 0 and result.out == "0\n", result
    assert result.err.count("this libcprof.so was built without json-c") == 1, result.err
    assert [path.suffix for path in result.traces] == [".gz"]
    assert len(events(load(result.traces[0]), name="work")) == 2
