# SPDX-License-Identifier: Apache-2.0
"""CPROF_STEP=symbol:NAME: calls of an exported function end steps, and nothing else about the calls changes. The program is
tests/e2e/c/engine.c, linked in every way; its library is tests/e2e/c/libengine.c."""

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
def test_marks_steps_with_every_way_of_linking(linked, how, tmp_path):
    program = linked.engine(how)
    done = support.run([program, "all"], tmp_path, STEP="symbol:engine_step", **ALWAYS)
    assert done.out == plain(program, "all") and steps_of(done) == 3


@pytest.mark.parametrize("name", ["many", "large", "two", "long", "sum"])
def test_passes_arguments_and_results_through(linked, name, tmp_path):
    program = linked.engine(LINKS[0])
    done = support.run([program, "all"], tmp_path, STEP=f"symbol:engine_{name}", **ALWAYS)
    assert done.out == plain(program, "all") and steps_of(done) == 3


def test_passes_stack_arguments_at_any_page_offset(linked, tmp_path):
    program = linked.engine(LINKS[0])
    done = support.run([program, "pages"], tmp_path, STEP="symbol:engine_many", **ALWAYS)
    assert done.out == plain(program, "pages") and done.out.endswith(" wrong 0\n") and steps_of(done) == 288


def test_reads_no_arguments_beyond_the_stacks_top(linked, tmp_path):
    """cprof copies up to 256 bytes of stack arguments. Here fewer bytes lie above, and the next page may not be read."""
    done = support.run([linked.engine(LINKS[0]), "fiber"], tmp_path, STEP="symbol:engine_step", **ALWAYS)
    assert done.out == plain(linked.engine(LINKS[0]), "fiber") == "42\n" and steps_of(done) == 1


def test_longjmp_out_of_a_call_marks_no_step(linked, tmp_path):
    """Only calls that return end steps. A symbol of data is not touched. Neither starts cprof."""
    program = linked.engine(LINKS[0])
    for name in ("engine_leave", "engine_data"):
        done = support.run([program, "all"], tmp_path, STEP=f"symbol:{name}", **ALWAYS)
        assert (done.out, done.err, done.names) == (plain(program, "all"), "", [])


def test_calls_inside_the_library(linked, tmp_path):
    """Calls inside the library mark steps only if they pass its PLT, as in a library linked without -Bsymbolic."""
    done = support.run([linked.engine(LINKS[0]), "inside"], tmp_path, STEP="symbol:engine_step", **ALWAYS)
    assert steps_of(done) in (0, 5) and done.out == "5\n"


def test_calls_of_many_threads_mark_steps(linked, tmp_path):
    done = support.run([linked.engine(LINKS[0]), "threads"], tmp_path, STEP="symbol:engine_step", **ALWAYS)
    assert done.out == "wrong 0\n" and steps_of(done) == 800


def test_marks_steps_in_a_library_opened_later(linked, tmp_path):
    done = support.run([linked.engine(LINKS[0]), "open", linked.plugin], tmp_path, STEP="symbol:engine_step", **ALWAYS)
    assert done.out == "20\n" and steps_of(done) == 5


def test_redirects_many_libraries_in_several_passes(linked, tmp_path):
    """There are more libraries than one pass redirects. Later ranges trigger further passes."""
    copies = [shutil.copy(linked.now, tmp_path / f"now{i}.so") for i in range(100)]
    code = ("libraries = [ctypes.CDLL(path) for path in sys.argv[1:]]\nfor i in range(20): time.sleep(0.006); push(b'range'); pop()\n"
            "print(sum(library.plugin_run(1) == 0 for library in libraries))")
    done = support.run(support.python(code, *copies), tmp_path / "traces", STEP="symbol:engine_step", **ALWAYS)
    assert done.out == "100\n" and steps_of(done) == 100


def test_reports_a_name_that_nothing_calls(linked, tmp_path):
    done = support.run([linked.engine(LINKS[0]), "open", linked.plugin], tmp_path, STEP="symbol:nonesuch", **ALWAYS)
    assert done.out == "20\n" and done.rc == 0
    assert [line for line in done.said if "nonesuch" in line] == [
        "CPROF_STEP=symbol:nonesuch: no loaded object calls an exported function of this name; it marked no step"], done.said


NOT_REDIRECTED = "its calls could not be redirected: "


def walk_count(result):
    """How often cprof walked the list of loaded objects in half a second, in which 80 walks were possible. cprof's thread walks it at each
    write, too."""
    assert_good(result)
    return int(re.search(r"^walks (\d+)$", result.out, re.M)[1])


def test_stops_searching_for_an_unresolved_weak_reference(linked, tmp_path):
    """The loader never binds the reference. cprof retries the library only a few times, and reports that nothing calls the function."""
    done = support.run(support.program("walks", linked.weak), tmp_path, STEP="symbol:engine_nowhere", **ALWAYS)
    assert walk_count(done) < 20
    assert [line for line in done.said if "no loaded object calls an exported function" in line], done.said


def test_forked_child_walks_no_objects(linked, tmp_path):
    done = support.run(support.program("walks", linked.weak, "fork"), tmp_path, STEP="symbol:engine_nowhere", **ALWAYS)
    assert "asked 0\n" in done.out, done.out


def test_gives_up_on_addresses_left_writable(linked, tmp_path):
    """Addresses are writable while the loader still relocates a library, so cprof waits, but not for ever. One line reports the failure."""
    done = support.run(support.program("walks", linked.now, "writable"), tmp_path, STEP="symbol:engine_step", **ALWAYS)
    assert walk_count(done) < 20
    assert [line for line in done.said if NOT_REDIRECTED in line], done.said


@pytest.mark.skipif(support.no_mounts_reason() is not None, reason=support.no_mounts_reason() or "")
def test_reports_missing_proc(linked, tmp_path):
    program = linked.engine(LINKS[0])
    inside = shlex.join([str(program), "threads"])
    done = support.run([*support.own_mounts(), f"mount -t tmpfs none /proc; exec {inside}"], tmp_path, STEP="symbol:engine_step", **ALWAYS)
    assert done.out == "wrong 0\n" and [line for line in done.said if NOT_REDIRECTED in line], done.said


@pytest.mark.skipif(not shutil.which("g++"), reason="no g++ on this machine")
def test_exceptions_pass_through_redirected_calls(tmp_path):
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
