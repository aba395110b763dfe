# SPDX-License-Identifier: Apache-2.0
"""CPROF_STEP=symbol:NAME: calls of loaded objects to an exported function end steps, and nothing else about them changes. The program
is tests/e2e/c/engine.c, linked here in every way there is; its library is tests/e2e/c/libengine.c."""

import re
import shlex
import shutil
import subprocess

import pytest

import support
from conftest import BUILD, ROOT
from torch_runs import ALWAYS, assert_good, trace

LINKS = ["-pie -Wl,-z,now", "-pie -Wl,-z,lazy", "-fno-plt", "-no-pie -fno-pie -Wl,-z,lazy", "-Wl,-z,norelro"]


@pytest.fixture(scope="module")
def linked(tmp_path_factory):
    folder = tmp_path_factory.mktemp("engine")
    shutil.copy(BUILD / "e2e" / "libengine.so", folder)
    (folder / "plugin.c").write_text("int engine_step(int);\nint plugin_run(int n);\n"
                                     "int plugin_run(int n) { int sum = 0; while (n--) sum += engine_step(n); return sum; }\n")

    def build(source, output, *options):
        if not (folder / output).exists():
            subprocess.run(["cc", "-D_GNU_SOURCE", "-O2", *options, "-I", ROOT, source, "-o", folder / output, "-Wl,--no-as-needed",
                            folder / "libengine.so", f"-Wl,-rpath,{folder}", "-pthread", "-ldl"], check=True)
        return folder / output

    build.plugin = build(folder / "plugin.c", "plugin.so", "-shared", "-fPIC")
    (folder / "weak.c").write_text("int engine_nowhere(void) __attribute__((weak));\nint weak_run(void);\n"
                                   "int weak_run(void) { return engine_nowhere ? engine_nowhere() : 0; }\n")
    build.weak = build(folder / "weak.c", "weak.so", "-shared", "-fPIC")
    build.now = build(folder / "plugin.c", "now.so", "-shared", "-fPIC", "-Wl,-z,relro,-z,now")
    build.engine = lambda how: build(ROOT / "tests/e2e/c/engine.c", f"engine {LINKS.index(how)}", *how.split())
    return build


def plain(program, *args):
    return subprocess.run([program, *args], capture_output=True, text=True, timeout=60, check=True).stdout


def steps_of(result):
    assert_good(result)
    return len(trace(result).steps)


@pytest.mark.parametrize("how", LINKS)
def test_every_way_of_linking(linked, how, tmp_path):
    program = linked.engine(how)
    done = support.run([program, "all"], tmp_path, STEP="symbol:engine_step", **ALWAYS)
    assert done.out == plain(program, "all") and steps_of(done) == 3


@pytest.mark.parametrize("name", ["many", "large", "two", "long", "sum"])
def test_arguments_and_results_stay(linked, name, tmp_path):
    program = linked.engine(LINKS[0])
    done = support.run([program, "all"], tmp_path, STEP=f"symbol:engine_{name}", **ALWAYS)
    assert done.out == plain(program, "all") and steps_of(done) == 3


def test_arguments_stay_wherever_they_lie_in_a_page(linked, tmp_path):
    program = linked.engine(LINKS[0])
    done = support.run([program, "pages"], tmp_path, STEP="symbol:engine_many", **ALWAYS)
    assert done.out == plain(program, "pages") and done.out.endswith(" wrong 0\n") and steps_of(done) == 288


def test_a_call_at_the_top_of_a_stack_below_a_guard(linked, tmp_path):
    """There are no 256 bytes of arguments to copy: what lies above is mapped, but may not be read."""
    done = support.run([linked.engine(LINKS[0]), "fiber"], tmp_path, STEP="symbol:engine_step", **ALWAYS)
    assert done.out == plain(linked.engine(LINKS[0]), "fiber") == "42\n" and steps_of(done) == 1


def test_call_that_does_not_return(linked, tmp_path):
    """longjmp() passes; only calls that come back end steps. A name of data is not touched. Neither wakes cprof."""
    program = linked.engine(LINKS[0])
    for name in ("engine_leave", "engine_data"):
        done = support.run([program, "all"], tmp_path, STEP=f"symbol:{name}", **ALWAYS)
        assert (done.out, done.err, done.names) == (plain(program, "all"), "", [])


def test_calls_of_the_library_itself(linked, tmp_path):
    """Where they pass its PLT, as a library's do that was linked without -Bsymbolic."""
    done = support.run([linked.engine(LINKS[0]), "inside"], tmp_path, STEP="symbol:engine_step", **ALWAYS)
    assert steps_of(done) in (0, 5) and done.out == "5\n"


def test_threads(linked, tmp_path):
    done = support.run([linked.engine(LINKS[0]), "threads"], tmp_path, STEP="symbol:engine_step", **ALWAYS)
    assert done.out == "wrong 0\n" and steps_of(done) == 800


def test_library_opened_later(linked, tmp_path):
    done = support.run([linked.engine(LINKS[0]), "open", linked.plugin], tmp_path, STEP="symbol:engine_step", **ALWAYS)
    assert done.out == "20\n" and steps_of(done) == 5


def test_many_libraries_at_once(linked, tmp_path):
    """More than are redirected in one go: the rest follow with the next ranges."""
    copies = [shutil.copy(linked.now, tmp_path / f"now{i}.so") for i in range(100)]
    code = ("libraries = [ctypes.CDLL(path) for path in sys.argv[1:]]\nfor i in range(20): time.sleep(0.006); push(b'range'); pop()\n"
            "print(sum(library.plugin_run(1) == 0 for library in libraries))")
    done = support.run(support.python(code, *copies), tmp_path / "traces", STEP="symbol:engine_step", **ALWAYS)
    assert done.out == "100\n" and steps_of(done) == 100


def test_name_that_nobody_calls(linked, tmp_path):
    done = support.run([linked.engine(LINKS[0]), "open", linked.plugin], tmp_path, STEP="symbol:nonesuch", **ALWAYS)
    assert done.out == "20\n" and done.rc == 0
    assert [line for line in done.said if "nonesuch" in line] == [
        "CPROF_STEP=symbol:nonesuch: no loaded object calls an exported function of this name; it marked no step"], done.said


NOT_REDIRECTED = "its calls could not be redirected: "


def walks(result):
    """How often all objects were looked at, in half a second in which they could have been 80 times. The library's own thread looks at them
    too, as often as it writes."""
    assert_good(result)
    return int(re.search(r"^walks (\d+)$", result.out, re.M)[1])


def test_weak_reference_to_nothing(linked, tmp_path):
    """It is never bound: the library is looked at again, but not for ever; and nobody calls the function."""
    done = support.run(support.program("walks", linked.weak), tmp_path, STEP="symbol:engine_nowhere", **ALWAYS)
    assert walks(done) < 20
    assert [line for line in done.said if "no loaded object calls an exported function" in line], done.said


def test_forked_child_looks_at_nothing(linked, tmp_path):
    done = support.run(support.program("walks", linked.weak, "fork"), tmp_path, STEP="symbol:engine_nowhere", **ALWAYS)
    assert "asked 0\n" in done.out, done.out


def test_addresses_that_another_tool_left_writable(linked, tmp_path):
    """As they are while the loader still relocates a library: they are waited for, but not for ever, and a line says what became of it."""
    done = support.run(support.program("walks", linked.now, "writable"), tmp_path, STEP="symbol:engine_step", **ALWAYS)
    assert walks(done) < 20
    assert [line for line in done.said if NOT_REDIRECTED in line], done.said


@pytest.mark.skipif(support.no_mounts_reason() is not None, reason=support.no_mounts_reason() or "")
def test_without_proc(linked, tmp_path):
    program = linked.engine(LINKS[0])
    inside = shlex.join([str(program), "threads"])
    done = support.run([*support.own_mounts(), f"mount -t tmpfs none /proc; exec {inside}"], tmp_path, STEP="symbol:engine_step", **ALWAYS)
    assert done.out == "wrong 0\n" and [line for line in done.said if NOT_REDIRECTED in line], done.said


@pytest.mark.skipif(not shutil.which("g++"), reason="no g++ on this machine")
def test_exceptions_pass(tmp_path):
    (tmp_path / "lib.cpp").write_text('extern "C" int train(int i) { if (i % 2) throw i; return i; }\n')
    (tmp_path / "main.cpp").write_text(
        '#include <cstdio>\nextern "C" int train(int);\n'
        'int main() { int n = 0; for (int i = 0; i < 6; i++) try { n += train(i); } catch (int e) { n += 100 * e; }\n'
        'std::printf("%d\\n", n); }\n')
    subprocess.run(["g++", "-shared", "-fPIC", tmp_path / "lib.cpp", "-o", tmp_path / "libtrain.so"], check=True)
    subprocess.run(["g++", tmp_path / "main.cpp", "-o", tmp_path / "main", tmp_path / "libtrain.so", f"-Wl,-rpath,{tmp_path}"],
                   check=True)
    done = support.run([tmp_path / "main"], tmp_path / "traces", STEP="symbol:train", **ALWAYS)
    assert done.out == "906\n" and steps_of(done) == 3, done.err
