# SPDX-License-Identifier: Apache-2.0
"""Interposed CUDA calls in real processes: which function a call reaches when none, one or two CUDA runtimes are
loaded. The caller must see the same with and without the preload. The runtimes are stand-ins (libfakecudart.c) with the
real sonames and version nodes. Where the CUDA headers are installed, a test compares the prototypes of hooks.def with them."""

import ctypes
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import textwrap

import pytest

from conftest import BUILD, ROOT

CC = os.environ.get("CC", "cc")
SOURCES = ROOT / "tests/e2e/c"
NODES = {11: "libcudart.so.11.0", 12: "libcudart.so.12", 13: "libcudart.so.13"}

# Results of libfakecudart.c for the calls of libfakeclient.c, without the number of the library.
ANSWERS = {
    "client_malloc": lambda size: size,
    "client_copy": lambda: 1 + 2 * 2 + 4 * 3 + 8 * 4 + 16 * 5,
    "client_copy_twin": lambda: 500000 + 1 + 2 * 2 + 4 * 3 + 8 * 4 + 16 * 5,
    "client_launch": lambda: 1 + 4 + 9 + 20 + 35 + 66 + 91 + 17 * 8 + 19 * 9 + 23 * 10,
    "client_fill": lambda: 1 + 4 + 9 + 20 + 35 + 66 + 91 + 17 * 8,
}


def compile_shared(source, output, *options):
    subprocess.run([CC, "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-fPIC", "-shared", "-o", str(output),
                    str(SOURCES / source), f"-Wl,-soname,{pathlib.Path(output).name}", *options], check=True)
    return output


def make_cudart(folder, number, name=None, node=None):
    """A stand-in for the CUDA runtime `number`; node=False leaves the version nodes out."""
    folder.mkdir(exist_ok=True)
    options = [f"-DFAKE={number}"]
    if node is not False:
        script = folder / f"{number}.map"
        script.write_text(f"{node or NODES[number]} {{ global: cuda*; fake*; local: *; }};\n")
        options.append(f"-Wl,--version-script={script}")
    return compile_shared("libfakecudart.c", folder / (name or NODES[number]), *options)


def make_client(folder, name, *link, define=()):
    folder.mkdir(exist_ok=True)
    return compile_shared("libfakeclient.c", folder / f"lib{name}.so", *define, *map(str, link),
                          f"-Wl,-rpath,{folder}")


@pytest.fixture(scope="module")
def stubs(tmp_path_factory):
    """Stand-ins for three runtimes and the driver, and a client linked to each."""
    folder = tmp_path_factory.mktemp("cuda")
    for number in NODES:
        make_client(folder, f"client{number}", make_cudart(folder, number))
    driver = compile_shared("libfakecudart.c", folder / "libcuda.so.1", "-DFAKE=1")
    make_client(folder, "clientdriver", driver, define=["-DDRIVER"])
    make_client(folder, "clientown", define=["-DDRIVER", "-DOWN"])
    make_client(folder, "clientweak", define=["-DWEAK"])
    return folder


PRELUDE = """
import ctypes, json, os
def load(name, mode=ctypes.DEFAULT_MODE):
    return ctypes.CDLL(os.path.join(os.environ["STUBS"], name), mode)
def call(client, name, *args):
    return [getattr(client, name)(*args), client.client_errno()]
"""


def run(library, folder, script, preload=True, **environment):
    """The value that the Python code `script` leaves in `result`, and its stderr."""
    env = dict(os.environ, STUBS=str(folder), **environment)
    if preload:
        env["LD_PRELOAD"] = str(library)
    code = PRELUDE + textwrap.dedent(script) + "\nprint(json.dumps(result))"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60,
                          cwd=folder)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def run_both(library, folder, script):
    """The result under the preload, which must equal the one without."""
    with_preload, _ = run(library, folder, script)
    without, _ = run(library, folder, script, preload=False)
    assert with_preload == without
    return with_preload


def expect(number):
    """All answers of one stand-in: [result, errno] by name."""
    return {name: [number * 1000000 + (answer(100) if name == "client_malloc" else answer()), number]
            for name, answer in ANSWERS.items()}


ALL_CALLS = """
def all_calls(client):
    return {name: call(client, name, *([100] if name == "client_malloc" else []))
            for name in ("client_malloc", "client_copy", "client_copy_twin", "client_launch", "client_fill")}
"""


@pytest.mark.parametrize("order", [(12, 13), (13, 12), (11, 13, 12)])
def test_each_caller_reaches_its_own_runtime(library, stubs, order):
    result = run_both(library, stubs, ALL_CALLS + f"""
clients = {{n: load(f"libclient{{n}}.so") for n in {order}}}
result = {{n: all_calls(c) for n, c in clients.items()}}
result["again"] = [all_calls(clients[{order[0]}]), all_calls(clients[{order[1]}])]
""")
    for number in order:
        assert result[str(number)] == expect(number)
    assert result["again"] == [expect(order[0]), expect(order[1])]


def test_calls_are_bound_to_the_wrapper_of_their_version(library, stubs):
    _, log = run(library, stubs, ALL_CALLS + """
result = [all_calls(load("libclient12.so")), all_calls(load("libclient13.so"))]
""", LD_DEBUG="bindings")
    for number in (12, 13):
        for name in ("cudaMalloc", "cudaMemcpyAsync_ptsz", "cudaLaunchKernel"):
            pattern = rf"file \S*libclient{number}\.so \[0\] to {re.escape(str(library))} \[0\]: normal symbol `{name}'"
            assert re.search(rf"{pattern} \[{re.escape(NODES[number])}\]", log), (number, name)


def test_calls_reach_globally_loaded_runtimes(library, stubs):
    result = run_both(library, stubs, ALL_CALLS + """
clients = [load(f"libclient{n}.so", ctypes.RTLD_GLOBAL) for n in (13, 12)]
result = [all_calls(c) for c in clients]
""")
    assert result == [expect(13), expect(12)]


def test_program_linked_to_two_runtimes_calls_each(library, stubs, tmp_path):
    source = tmp_path / "main.c"
    source.write_text("""#include <dlfcn.h>
        #include <stdio.h>
        int main(int argc, char **argv)
        {
            for (int i = 1; i < argc; i++) {
                void *client = dlopen(argv[i], RTLD_NOW);
                int (*call)(unsigned long) = (int (*)(unsigned long))dlsym(client, "client_malloc");
                printf("%d ", call(100));
            }
            return 0;
        }""")
    clients = [str(stubs / f"libclient{n}.so") for n in (13, 12)]
    program = tmp_path / "main"
    subprocess.run([CC, "-o", str(program), str(source), "-Wl,--no-as-needed", *clients, f"-Wl,-rpath,{stubs}"],
                   check=True)
    done = subprocess.run([str(program), *clients], env=dict(os.environ, LD_PRELOAD=str(library)),
                          capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["13000100", "12000100"]


def test_weak_probe_without_a_runtime_gets_an_error(library, stubs):
    script = """
    client = load("libclientweak.so")
    result = [client.client_has_malloc()] + (call(client, "client_malloc", 1) if client.client_has_malloc() else [])
    """
    assert run(library, stubs, script, preload=False)[0] == [0]
    # cprof exports the symbol, so the probe succeeds. The call then returns "not initialised" and keeps errno.
    assert run(library, stubs, script)[0] == [1, 3, 5]


def test_a_runtime_that_is_loaded_later_is_found(library, stubs):
    result, _ = run(library, stubs, """
    weak = load("libclientweak.so")
    result = [call(weak, "client_malloc", 7), call(weak, "client_malloc", 7)]
    load("libcudart.so.12")
    result += [call(weak, "client_malloc", 7), call(weak, "client_copy_twin")]
    """)
    assert result == [[3, 5], [3, 5], [12000007, 12], expect(12)["client_copy_twin"]]


def test_dlsym_by_handle_finds_the_runtimes_function(library, stubs):
    result, _ = run(library, stubs, """
    direct = load("libcudart.so.13")
    pointer = ctypes.c_void_p()
    default = ctypes.CDLL(None)
    result = [f(ctypes.byref(pointer), ctypes.c_size_t(9)) for f in (direct.cudaMalloc, default.cudaMalloc)]
    result.append(ctypes.cast(direct.cudaMalloc, ctypes.c_void_p).value ==
                  ctypes.cast(default.cudaMalloc, ctypes.c_void_p).value)
    """)
    # The handle gives the runtime's own function, the global scope gives cprof's wrapper.
    assert result == [13000009, 13000009, False]


def test_finds_a_renamed_runtime_by_its_version_node(library, tmp_path):
    """Wheels carry runtimes as libcudart-<hash>.so.12. Their version node tells the version."""
    renamed = make_cudart(tmp_path, 12, name="libcudart-1a2b3c4d.so.12")
    make_client(tmp_path, "renamed", renamed)
    make_client(tmp_path, "client13", make_cudart(tmp_path, 13))
    result = run_both(library, tmp_path, ALL_CALLS + """
result = [all_calls(load("libclient13.so")), all_calls(load("librenamed.so"))]
""")
    assert result == [expect(13), expect(12)]


def test_forwards_to_a_runtime_without_version_nodes(library, tmp_path):
    make_client(tmp_path, "client12", make_cudart(tmp_path, 12, node=False))
    result = run_both(library, tmp_path, ALL_CALLS + 'result = all_calls(load("libclient12.so"))')
    assert result == expect(12)


def test_passes_through_a_runtime_of_an_unknown_version(library, tmp_path):
    make_client(tmp_path, "client14", make_cudart(tmp_path, 14, name="libcudart.so.14", node="libcudart.so.14"))
    result = run_both(library, tmp_path, ALL_CALLS + 'result = all_calls(load("libclient14.so"))')
    assert result == expect(14)


def test_forwards_driver_calls(library, stubs):
    result = run_both(library, stubs, """
    client = load("libclientdriver.so")
    result = [call(client, "client_alloc", 100), call(client, "client_alloc", 101)]
    """)
    assert result == [[1000100, 1], [1000101, 1]]


def test_calls_the_programs_own_driver_functions(library, stubs):
    result = run_both(library, stubs, """
    client = load("libclientown.so")
    result = [call(client, "client_alloc", 100), call(client, "client_alloc", 101)]
    """)
    assert result == [[42000100, 42], [42000101, 42]]


def test_forwards_calls_from_many_threads(library, stubs):
    result = run_both(library, stubs, """
    import threading
    client = load("libclient12.so")
    barrier, seen = threading.Barrier(8), []
    def work():
        barrier.wait()
        seen.append([client.client_malloc(n) for n in range(200)])
    threads = [threading.Thread(target=work) for _ in range(8)]
    for t in threads: t.start()
    for t in threads: t.join()
    result = [len(seen), all(s == [12000000 + n for n in range(200)] for s in seen), load("libcudart.so.12").fake_calls()]
    """)
    assert result == [8, True, 1600]


def test_records_runtime_and_driver_calls(library, stubs, tmp_path):
    """Calls of two runtimes and the driver, recorded from start to exit, have names without suffixes and the right categories."""
    run(library, stubs, ALL_CALLS + """
clients = [load("libclient12.so"), load("libclient13.so")]
result = clients[0].client_free()  # wakes cprof
for _ in range(10):
    [all_calls(c) for c in clients]
    load("libclientdriver.so").client_alloc(1)
""", CPROF_SCHEDULE_SCOPE="none", CPROF_FOLDER=str(tmp_path), CPROF_FILENAME="t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    counts = {}
    for event in events:
        if event.get("cat") in ("cuda_runtime", "cuda_driver"):
            assert event["ph"] == "X" and event["dur"] >= 0
            counts[event["cat"], event["name"]] = counts.get((event["cat"], event["name"]), 0) + 1
    assert counts == {("cuda_runtime", "cudaMalloc"): 20, ("cuda_runtime", "cudaMemcpyAsync"): 40,
                      ("cuda_runtime", "cudaLaunchKernel"): 20, ("cuda_runtime", "cudaMemset3D"): 20,
                      ("cuda_driver", "cuMemAlloc"): 10} | {
                          key: n for key, n in counts.items() if key[1] == "cudaFree"}


# ---- the rows against the CUDA headers ----


def header_folders():
    """Folders of the CUDA headers, as scripts/setup.sh found them."""
    for path in (BUILD / "cuda.mk", ROOT / "build/cuda.mk"):
        if path.is_file():
            found = re.search(r"^CUDA_INC := (.+)$", path.read_text(), re.M)
            if found:
                return [str(ROOT / folder) for folder in found[1].split()]
    return []


def rows():
    """(node, symbol, shown, types) of every row, expanded by the preprocessor."""
    source = '#define HOOK(node, symbol, shown, r, m, c, ...) ROW node symbol shown {__VA_ARGS__}\n' \
             '#include "preload/hooks/hooks.def"\n'
    text = subprocess.run([CC, "-I.", "-E", "-P", "-x", "c", "-"], input=source, cwd=ROOT, capture_output=True,
                          text=True, check=True).stdout
    return re.findall(r"ROW (\w+) (\w+) (\w+) \{(.*?)\}", re.sub(r"\s+", " ", text))


ABI_CHECK = r"""
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <cstdint>
#include <type_traits>

struct cuda_dim3 { unsigned x, y, z; };
struct cuda_extent { size_t width, height, depth; };
struct cuda_pitched { void *pointer; size_t pitch, width, height; };

// The same to the C ABIs of Linux: equal size and alignment, and both in integer registers or both a struct.
template <class A, class B> constexpr bool alike =
    sizeof(A) == sizeof(B) && alignof(A) == alignof(B) && std::is_class<A>::value == std::is_class<B>::value &&
    !std::is_floating_point<A>::value && !std::is_floating_point<B>::value;

template <class A, class B> struct same_abi : std::false_type {};
template <class R, class... A, class S, class... B> struct same_abi<R (*)(A...), S (*)(B...)> {
    static constexpr bool value = [] {
        if constexpr (sizeof...(A) == sizeof...(B))
            return alike<R, S> && (alike<A, B> && ...);
        else
            return false;
    }();
};
#define CHECK(function, ...) \
    static_assert(same_abi<decltype(&function), int (*)(__VA_ARGS__)>::value, "hooks.def: " #function)
"""


# The header wheels lack crt/, which comes with the CUDA compiler.
HOST_DEFINES = """
#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __align__(n) __attribute__((aligned(n)))
#define __builtin_align__(n) __align__(n)
#define __device_builtin__
#define __device_builtin_texture_type__
#define __device_builtin_surface_type__
#define __cudart_builtin__
#define __specialization_static static
#define CUDARTAPI
#define CUDARTAPI_CDECL
#define CUDA_CB
"""


def test_hook_rows_match_the_cuda_headers(tmp_path, capsys):
    compiler = shutil.which(os.environ.get("CXX", "c++")) or shutil.which("g++") or shutil.which("clang++")
    folders = header_folders()
    if not folders or not (pathlib.Path(folders[0]) / "cuda.h").is_file():
        pytest.skip("no CUDA headers (scripts/setup.sh looks for them)")
    if not compiler:
        pytest.skip("no C++ compiler")
    if not any((pathlib.Path(folder) / "crt/host_defines.h").is_file() for folder in folders):
        (tmp_path / "crt").mkdir()
        (tmp_path / "crt/host_defines.h").write_text(HOST_DEFINES)
        folders.append(str(tmp_path))
    includes = [option for folder in folders for option in ("-isystem", folder)]
    (tmp_path / "version.cpp").write_text("#include <cuda.h>\nCUDA_IS CUDA_VERSION\n")
    expanded = subprocess.run([compiler, "-E", "-P", *includes, str(tmp_path / "version.cpp")],
                              capture_output=True, text=True, check=True).stdout
    major = int(re.search(r"CUDA_IS (\d+)", expanded)[1]) // 1000
    if f"V{major}" not in ("V11", "V12", "V13"):
        pytest.skip(f"headers of CUDA {major}, for which hooks.def has no rows")

    is_clang = "clang" in subprocess.run([compiler, "--version"], capture_output=True, text=True, check=True).stdout
    limit = "-ferror-limit=0" if is_clang else "-fmax-errors=0"
    wanted = {symbol: types for node, symbol, shown, types in rows()
              if node in (f"V{major}", "DRIVER") and symbol == shown}
    checks = {symbol: f"CHECK({symbol}, {types});" for symbol, types in wanted.items()}
    # Old functions are in the libraries but no longer in the headers: they cannot be compared.
    undeclared = []
    for _ in range(3):
        source = tmp_path / "abi.cpp"
        source.write_text("#define __CUDA_API_VERSION_INTERNAL\n" + ABI_CHECK + "\n".join(checks.values()))
        done = subprocess.run([compiler, "-std=c++17", "-fsyntax-only", "-w", limit, *includes, str(source)],
                              capture_output=True, text=True, env=dict(os.environ, LC_ALL="C"))
        missing = set(re.findall(r"'(\w+)' was not declared|undeclared identifier '(\w+)'", done.stderr))
        missing = {gcc or clang for gcc, clang in missing} & set(checks)
        if not missing:
            break
        undeclared += sorted(missing)
        for symbol in missing:
            del checks[symbol]
    assert done.returncode == 0, done.stderr[-4000:]
    with capsys.disabled():
        print(f"\n  CUDA {major} headers: {len(checks)} rows compared, not declared: {', '.join(undeclared) or 'none'}")
    assert len(checks) > 100


def test_extension_loads_its_own_zlib(library, tmp_path):
    """The extension's run path leads to a libz that is newer than the system's. A preload that needs libz would load the system's copy
    first, under the same name, and the extension would not load. The program is in C, since Ubuntu's Python needs libz itself."""
    (tmp_path / "z.map").write_text("ZLIB_9.9 { global: *; };\n")
    (tmp_path / "z.c").write_text("int newer_than_any(void) { return 99; }\n")
    (tmp_path / "extension.c").write_text("int newer_than_any(void);\nint answer(void) { return newer_than_any(); }\n")
    newer = tmp_path / "libz.so.1"
    subprocess.run([CC, "-shared", "-fPIC", "-o", newer, tmp_path / "z.c", "-Wl,-soname,libz.so.1",
                    f"-Wl,--version-script={tmp_path / 'z.map'}"], check=True)
    subprocess.run([CC, "-shared", "-fPIC", "-o", tmp_path / "extension.so", tmp_path / "extension.c", newer,
                    f"-Wl,-rpath,{tmp_path}"], check=True)
    (tmp_path / "program.c").write_text("""#include <dlfcn.h>
        #include <stdio.h>
        int main(int argc, char **argv)
        {
            void *extension = dlopen(argv[argc - 1], RTLD_NOW);
            if (!extension)
                return fprintf(stderr, "%s\\n", dlerror()), 1;
            return printf("%d\\n", ((int (*)(void))dlsym(extension, "answer"))()) < 0;
        }""")
    subprocess.run([CC, "-o", tmp_path / "program", tmp_path / "program.c", "-ldl"], check=True)
    command = [tmp_path / "program", tmp_path / "extension.so"]
    done = subprocess.run(command, env=dict(os.environ, LD_PRELOAD=str(library)), capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.stdout, done.stderr) == ("99\n", "")
    with_zlib = dict(os.environ, LD_PRELOAD="libz.so.1")
    control = subprocess.run(command, env=with_zlib, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    if control.returncode == 0:
        pytest.skip("this machine has no libz.so.1: nothing could hide the extension's copy")
    assert "ZLIB_9.9" in control.stderr, "the control run must fail at the system's libz"


def test_does_not_call_cupti_without_a_driver(stubs, library, tmp_path):
    """CUPTI 13.2.86, which comes with torch 2.15, overflows the stack when it finds no driver. Where another tool owns
    CUDA_INJECTION64_PATH, the first CUDA call starts cprof's GPU side, and so ended the program."""
    try:
        ctypes.CDLL("libcuda.so.1")
        pytest.skip("this machine has a driver")
    except OSError:
        pass
    (tmp_path / "cupti.c").write_text("""#include <dlfcn.h>
        int cuptiGetVersion(unsigned *version)
        {
            if (!dlopen("libcuda.so.1", RTLD_LAZY))
                __builtin_trap();
            *version = 130200;
            return 0;
        }""")
    cupti = tmp_path / "libcupti.so.13"
    subprocess.run([CC, "-shared", "-fPIC", "-o", cupti, tmp_path / "cupti.c", "-Wl,-soname,libcupti.so.13", "-ldl"], check=True)
    code = f"import ctypes; print(ctypes.CDLL('{stubs}/libclient13.so').client_malloc(7))"
    env = dict(os.environ, LD_PRELOAD=f"{cupti}:{library}", CUDA_INJECTION64_PATH="/mine.so", CPROF_FOLDER=str(tmp_path / "traces"))
    for driver, said in ((None, "found no driver (libcuda.so.1); "), (stubs, "CUPTI lacks functions that cprof needs; ")):
        more = {"LD_LIBRARY_PATH": str(driver)} if driver else {}
        done = subprocess.run([sys.executable, "-S", "-c", code], env=dict(env, **more), capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, "13000007\n"), done.stderr
        about = [line for line in done.stderr.splitlines() if "GPU activity is not" in line]
        assert len(about) == 1 and said in about[0], done.stderr


def test_injection_entry_points_answer(library, tmp_path):
    """The constructor sets the injection variables of the driver, NVTX and ITT. Their entry points in the library return success."""
    code = """
import ctypes, os
for name in ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "INTEL_LIBITTNOTIFY64"):
    assert os.path.samefile(os.environ[name], os.environ["LD_PRELOAD"]), name
me = ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"])
me.__itt_api_init(None, 0)
print(me.InitializeInjection(), me.InitializeInjectionNvtx2(None))
"""
    done = subprocess.run([sys.executable, "-S", "-c", code], env=dict(os.environ, LD_PRELOAD=str(library)),
                          capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.stdout == "1 1\n" and list(tmp_path.iterdir()) == []
    said, = done.stderr.splitlines()  # this machine has no driver
    assert said.startswith("cprof: ") and said.endswith("CUDA calls are recorded, GPU activity is not")
    mine = dict(os.environ, LD_PRELOAD=str(library), CUDA_INJECTION64_PATH="/mine.so")
    done = subprocess.run(["sh", "-c", "echo $CUDA_INJECTION64_PATH"], env=mine, capture_output=True, text=True, timeout=60)
    assert done.stdout == "/mine.so\n", "cprof must keep a variable that the user has set"
