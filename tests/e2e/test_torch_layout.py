# SPDX-License-Identifier: Apache-2.0
"""cprof's table of torch's C++ layouts against the headers of the torch that is installed.

scripts/lint/torch_layout_check.cpp is compiled against the headers of the torch in this Python and
of the system's libtorch-dev, each with both std::string ABIs. Every offset must equal the row that
cprof would choose. The check names each field that differs.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from conftest import matrix

ROOT = Path(__file__).resolve().parents[2]
CHECK = ROOT / "scripts/lint" / "torch_layout_check.cpp"
TABLE = ROOT / "preload/core/torch_layout.def"


def venv_includes():
    """Include folders of the torch in this Python, [] if it has none."""
    try:
        from torch.utils.cpp_extension import include_paths
    except ImportError:
        return []
    return [p for p in include_paths() if Path(p).is_dir()]


def system_includes():
    """Include folders of the system's libtorch-dev, [] if it is not installed."""
    folder = Path("/usr/include")
    paths = [folder, folder / "torch/csrc/api/include"]
    return [str(p) for p in paths if p.is_dir()] if (folder / "ATen/record_function.h").is_file() else []


# The table is a source of its own: torch's headers take half a minute to compile, and only the table differs.
TABLE_SOURCE = """\
#include "preload/core/torch_layout.h"
const struct torch_layout *layout_find(int major, int minor, bool abi) { return torch_layout_find(major, minor, abi); }
const char *layout_dtype(const struct torch_layout *row, unsigned dtype) { return torch_layout_dtype(row, dtype); }
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """compiled(includes, abi): the check as an object without a table, compiled once for these headers."""
    made = {}

    def compile_check(includes, abi):
        if (*includes, abi) not in made:
            target = made[(*includes, abi)] = tmp_path_factory.mktemp("check") / "check.o"
            run(["g++", "-std=c++20", "-w", "-O0", "-DNDEBUG", "-DTABLE_APART", f"-D_GLIBCXX_USE_CXX11_ABI={abi}",
                 *(part for path in [ROOT, *includes] for part in ("-I", str(path))), "-c", str(CHECK), "-o", str(target)])
        return made[(*includes, abi)]
    return compile_check


def run(args):
    done = subprocess.run(list(map(str, args)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"the check does not compile:\n{done.stderr[-4000:]}"


def build(folder, check, extra=()):
    """Links the check with the table in the folders of `extra`, or the real one. Returns the program's path."""
    program, source = folder / "check", folder / "table.c"
    source.write_text(TABLE_SOURCE)
    run(["gcc", "-std=gnu11", "-w", *(part for path in [*extra, ROOT] for part in ("-I", path)), "-c", source, "-o", folder / "table.o"])
    run(["g++", check, folder / "table.o", "-o", program, "-no-pie", "-Wl,--unresolved-symbols=ignore-all"])
    return program


def includes_or_skip(which):
    """The include folders of `which`. Skips the test where there is no compiler or no header."""
    if shutil.which("g++") is None:
        pytest.skip("no g++: the layout check cannot be compiled")
    includes = venv_includes() if which == "venv" else system_includes()
    if not any((Path(p) / "ATen/record_function.h").is_file() for p in includes):
        pytest.skip(f"no torch headers ({which}): nothing to compare the layout with")
    return includes


@pytest.mark.parametrize("abi", matrix([1, 0], 1), ids={1: "cxx11", 0: "old"}.get)
@pytest.mark.parametrize("which", ["venv", "system"])
def test_row_equals_headers(which, abi, tmp_path, compiled):
    """Every offset, tag and dtype name of the row equals the headers."""
    program = build(tmp_path, compiled(includes_or_skip(which), abi))
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60)
    print(done.stdout)
    assert done.returncode == 0, f"preload/core/torch_layout.def is wrong:\n{done.stdout}{done.stderr}"
    assert " 0 wrong" in done.stdout


def test_check_names_a_wrong_field(tmp_path, compiled):
    """The check names a shifted offset and a moved bit, so it does compare."""
    includes = includes_or_skip("venv")
    folder = tmp_path / "preload/core"  # found before the real one
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "preload/core/torch_layout.h", folder)
    text, count = re.subn(r"\.ti_numel = \(sizes\) \+ 96", ".ti_numel = (sizes) + 104", TABLE.read_text())
    assert count == 1
    text, count = re.subn(r"\.key_vmap = \(vmap\)", ".key_vmap = (vmap) + 1", text)
    assert count == 1
    (folder / TABLE.name).write_text(text)
    program = build(tmp_path, compiled(includes, 1), extra=[tmp_path])
    done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "WRONG ti_numel" in done.stdout and "WRONG key_vmap" in done.stdout
    assert done.stdout.count("WRONG") == 2


def test_table_has_one_row_for_every_version(tmp_path):
    """The table compiles as plain C. It has a row for each version and ABI, and none outside the supported versions."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler: the table cannot be compiled")
    source = tmp_path / "rows.c"
    source.write_text(
        '#include "preload/core/torch_layout.h"\n#include <stdio.h>\n'
        "int main(void)\n{\n"
        "    for (int major = 0; major < 4; major++)\n"
        "        for (int minor = 0; minor < 40; minor++)\n"
        "            for (int abi = 0; abi < 2; abi++) {\n"
        "                const struct torch_layout *row = torch_layout_find(major, minor, abi);\n"
        '                if (row) printf("%d.%d %d %u %s\\n", major, minor, abi, row->cxx11_abi,\n'
        "                                torch_layout_dtype(row, 15));\n"
        "            }\n"
        "    return 0;\n}\n"
    )
    program = tmp_path / "rows"
    flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I", str(ROOT)]
    subprocess.run([compiler, *flags, str(source), "-o", str(program)], check=True, timeout=60)
    lines = subprocess.run([str(program)], capture_output=True, text=True, timeout=60).stdout.split("\n")
    versions = ["1.13", *(f"2.{minor}" for minor in range(16))]
    expected = [f"{v} {abi} {abi} c10::BFloat16" for v in versions for abi in (0, 1)]
    assert [line for line in lines if line] == expected
