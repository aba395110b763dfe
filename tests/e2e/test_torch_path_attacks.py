# SPDX-License-Identifier: Apache-2.0
"""Other code uses torch's recording while cprof redirects its calls (torch_path.c). It must compute and see the same as without cprof."""

import mmap
import pathlib
import re
import shutil
import struct
import subprocess

import pytest

import support
import torch_runs
from conftest import matrix
from test_torch_path import PATH, X86, entries

torch = pytest.importorskip("torch", reason="PyTorch is not installed in .venv")
pytestmark = torch_runs.needs_torch_2("the extensions are compiled against its headers")

HERE = pathlib.Path(__file__).parent
LIBRARIES = pathlib.Path(torch.__file__).parent / "lib"
TURNS = {"TORCH_PATH": "objects", "STEP": "manual", "WAIT": 1, "WARMUP": 0, "ACTIVE": 1, "REPEAT": 0}  # every second step is a window
SCRIPT = "torch_path_attacks.py"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """compiled(name): tests/e2e/c/NAME.cpp as a library that can be closed."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ on this machine")
    from torch.utils.cpp_extension import include_paths
    folder = tmp_path_factory.mktemp("compiled")

    def compiled(name):
        made = folder / f"lib{name}.so"
        if not made.exists():
            subprocess.run([compiler, "-std=c++20", "-w", "-shared", "-fPIC", "-fno-gnu-unique",
                            f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", HERE / f"c/{name}.cpp", "-o", made,
                            *(f"-I{path}" for path in include_paths()), f"-L{LIBRARIES}", "-ltorch_cpu", "-lc10", f"-Wl,-rpath,{LIBRARIES}"], check=True)
        return made
    return compiled


def same(folder, what, *args, paths=(PATH,), windows=2, **more):
    """Runs the mode without cprof, and while cprof's windows open and close: results and messages must be the same."""
    plain = torch_runs.run(SCRIPT, folder / "plain", what, *args, preload=False, **more)
    ours = torch_runs.run(SCRIPT, folder / "ours", what, *args, **TURNS, **more)
    assert torch_runs.printed(plain) == torch_runs.printed(ours)
    said = [re.sub(r"\d+", "N", text) for text in (plain.others, ours.others)]  # torch's own lines have times and pids
    assert said[0] == said[1]
    accounts = [support.loads_plainly(path)["cprof"] for path in ours.traces]
    assert len(accounts) >= windows and not any(one["lost"]["total"] for one in accounts)
    assert {one["record_path"] for one in accounts} <= set(paths)
    for path in matrix(ours.traces, *ours.traces[::20], ours.traces[-1]):
        support.load(path)
    return ours


@pytest.mark.parametrize("what, windows", matrix([("profilers", 20), ("forks", 30), ("maps", 4), ("limit", 8)], ("profilers", 20)))
def test_other_profilers_forks_and_limits_change_nothing(tmp_path, what, windows):
    """Other profilers start and stop within windows and across their edges. Other modes fork, change mappings, and limit memory."""
    same(tmp_path, what, windows=windows)


def test_observers_come_and_go_inside_windows(tmp_path, compiled):
    same(tmp_path, "observers", compiled("observers"), windows=50)


@pytest.mark.skipif(not X86, reason="operator new is called by cprof on x86-64 only")
def test_exceptions_pass_through(tmp_path, compiled):
    ours = torch_runs.run(SCRIPT, tmp_path, "memory", compiled("observers"), entries("_Znwm"), **TURNS)
    ended = torch_runs.printed(ours)["ended"]
    lists, names = ended[3::4], [one for at, one in enumerate(ended) if at % 4 != 3]
    assert [True, 1] in names and [False, 0] in names and [False, 1] not in names
    assert lists == [[True, 1]] * 4
    assert all(one.lost == 0 and one.account["record_path"] == PATH for one in torch_runs.traces(ours))


@pytest.mark.parametrize("what, windows", matrix([("extensions", 40), ("threads", 60)]))
def test_extensions_open_and_close_during_windows(tmp_path, compiled, what, windows):
    """Extensions are opened and closed, and their threads start and end."""
    first, second = compiled("extension"), tmp_path / "libsecond.so"
    shutil.copy(first, second)
    same(tmp_path, what, first, *([second] if what == "extensions" else []), windows=windows)


@pytest.mark.skipif(not X86, reason="the filter holds the numbers of x86-64")
@pytest.mark.parametrize("what", matrix(["denied"]))
def test_survives_denied_mprotect_and_futex(tmp_path, what):
    """The process sets a seccomp filter in its first window. Calls that are redirected by then stay redirected."""
    same(tmp_path, what, paths=(PATH, "callbacks+lists"))


def linked_copy(folder):
    """A copy of libtorch_cpu (another inode) beside links to the libraries that it needs."""
    folder.mkdir()
    for path in LIBRARIES.iterdir():
        if path.name != "libtorch_cpu.so":
            (folder / path.name).symlink_to(path)
    return shutil.copy(LIBRARIES / "libtorch_cpu.so", folder / "libtorch_cpu.so")


def seal(library):
    """Changes the library so that the loader makes .got.plt read-only, as in a library linked with -z now."""
    listed = subprocess.run(["readelf", "-SW", library], capture_output=True, text=True, check=True).stdout
    row = next(line for line in listed.splitlines() if " .got.plt " in line).partition("PROGBITS")[2].split()
    end = (int(row[0], 16) + int(row[2], 16)) // mmap.PAGESIZE * mmap.PAGESIZE  # the rest of the page stays writable
    with open(library, "r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        at, size, n = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
        [relro] = [where for where in range(at, at + n * size, size) if struct.unpack_from("<I", data, where)[0] == 0x6474E552]
        begin = struct.unpack_from("<Q", data, relro + 16)[0]
        struct.pack_into("<QQ", data, relro + 32, end - begin, end - begin)


@pytest.mark.parametrize("what", matrix(["maps"]))
def test_keeps_entries_sealed_by_the_loader(tmp_path, what):
    library = linked_copy(tmp_path / "lib")
    seal(library)
    same(tmp_path, what, paths=("callbacks",), windows=4, env={"LD_BIND_NOW": "1", "LD_PRELOAD": str(library)})
