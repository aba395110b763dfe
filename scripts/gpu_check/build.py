# SPDX-License-Identifier: Apache-2.0
"""Finds the tools of the machine, and builds the library and the programs of tests/gpu for it. `--prepare` builds all of them on a machine
with nvcc and without a GPU; the machine with the GPU then uses that build (build-check/), as long as the sources are the same."""

import concurrent.futures
import glob
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

from gpu_check.run import output

CUDA_PREFIX = pathlib.Path("/usr/local/cuda")
SIM_ONLY = {"two_runtimes", "transfers", "gemm", "dnn"}
# The CUDA runtime that a program links, if not the shared one.
RUNTIME = {"static_runtime": "static", "driver_only": "none"}
# Libraries that the building machine may lack: (soname, pattern of its symbols, name of its version node).
STUBS = {"cuda": ("libcuda.so.1", r"cu[A-Z]", None), "cublas": ("libcublas.so.{major}", r"cublas(?!Lt)", "libcublas.so.{major}"),
         "cublasLt": ("libcublasLt.so.{major}", "cublasLt", "libcublasLt.so.{major}"), "nccl": ("libnccl.so.2", "nccl", None)}
USES = {"driver_only": ["cuda"], "products": ["cublas", "cublasLt"], "ranks": ["nccl"]}


# ---- the machine's tools ---------------------------------------------------------------------------------------------

def toolkit_folders(nvcc):
    """The folders of toolkits: around nvcc, from environment variables, and the usual prefix."""
    found = [pathlib.Path(nvcc).resolve().parents[1]] if nvcc else []
    found += [pathlib.Path(os.environ[name]) for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    return [folder for folder in dict.fromkeys([*found, CUDA_PREFIX]) if folder.is_dir()]


def find_nvcc():
    places = [shutil.which("nvcc")] + [str(folder / "bin/nvcc") for folder in toolkit_folders(None)]
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def find_tool(nvcc, name):
    """The path of a tool in PATH or in a toolkit, or None."""
    places = [shutil.which(name)] + [found for folder in toolkit_folders(nvcc) for pattern in (f"bin/{name}", f"nsight-systems*/bin/{name}",
                                     f"nsight-systems*/target-linux-x64/{name}", f"{name}/{name}") for found in sorted(glob.glob(str(folder / pattern)))]
    return next((place for place in places if place and os.access(place, os.X_OK)), None)


def wheel_folders():
    """Folders of NVIDIA's wheels of this Python."""
    roots = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    return [pathlib.Path(found) for root in roots for found in sorted(glob.glob(f"{root}/nvidia/*"))]


def find_first(folders, *patterns):
    for folder in folders:
        for pattern in patterns:
            for found in sorted(glob.glob(str(folder / pattern)), reverse=True):
                return pathlib.Path(found)
    return None


def find_library(nvcc, name):
    """A library of CUDA in a toolkit, in a wheel, or where the loader finds it."""
    places = (f"extras/CUPTI/lib64/{name}", f"lib64/{name}", f"targets/*/lib/{name}", f"lib/{name}")
    found = find_first([*toolkit_folders(nvcc), *wheel_folders()], *places)
    if not found:
        at = re.search(rf"{re.escape(name.rstrip('*'))}\S* .*=> (\S+)", output(["ldconfig", "-p"]))
        found = pathlib.Path(at.group(1)) if at else None
    return found


def choose(check):
    """Chooses between real hardware and the simulation, and prints why."""
    gpus = output(["nvidia-smi", "-L"]).splitlines() if shutil.which("nvidia-smi") else []
    gpus = [line for line in gpus if line.startswith("GPU ")]
    check.nvcc = find_nvcc()
    check.cupti = find_library(check.nvcc, "libcupti.so.1*")
    ready = prepared(check)
    missing = [what for what, there in (("a GPU (nvidia-smi -L)", gpus), ("nvcc or what --prepare built", check.nvcc or ready), ("libcupti", check.cupti))
               if not there]
    check.sim = check.options.sim or bool(missing)
    why = "--sim" if check.options.sim else f"without {', '.join(missing)}" if missing else gpus[0]
    print(f"gpu_check: {'the simulated GPU' if check.sim else 'a real GPU'} ({why})", flush=True)
    if check.sim and not check.options.build:  # keep what --prepare built
        check.build /= "sim"
        check.work = check.build / "gpu_check_runs"
    check.figures["device"] = "simulated" if check.sim else gpus
    check.n_devices = 2 if check.sim else len(gpus)
    if missing and check.options.real:
        sys.exit("gpu_check: --real: " + why)


def versions(check):
    query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total,clocks.max.sm", "--format=csv,noheader"]
    smi = output(query) if not check.sim else ""
    nvcc = output([check.nvcc, "--version"]) if check.nvcc else ""
    code = ("import torch; v = torch.backends.cudnn.version() if torch.cuda.is_available() else None; "
            "print(torch.__version__, torch.version.cuda, v, torch.cuda.nccl.version() if v else None)")
    check.figures["versions"] = {
        "gpu": smi.splitlines(), "nvcc": nvcc.splitlines()[-2:], "cupti": str(check.cupti), "torch": output([sys.executable, "-c", code], 120),
        "python": platform.python_version(), "libc": " ".join(platform.libc_ver()), "kernel": platform.release(), "cpus": os.cpu_count(),
        "commit": output(["git", "-C", check.root, "rev-parse", "--short", "HEAD"])}


# ---- the library -----------------------------------------------------------------------------------------------

def make(check, *targets):
    """Runs make. Returns the error, or ''."""
    jobs = f"-j{min(16, os.cpu_count() or 1)}"
    try:
        done = subprocess.run(["make", "-C", str(check.root), f"BUILD={check.build}", "WERROR=", jobs, *targets], capture_output=True, text=True,
                              timeout=max(10, check.left()), stdin=subprocess.DEVNULL)
        return "" if done.returncode == 0 else (done.stdout + done.stderr)[-2000:]
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)


def sources(check):
    """A digest of the sources of the library and the programs."""
    digest = hashlib.sha256()
    for pattern in ("preload/**/*.*", "cupti/*", "writer/**/*.*", "tests/gpu/*", "tests/sim/sim.mk", "Makefile"):
        for path in sorted(check.root.glob(pattern)):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def prepared(check):
    stamp = check.build / "gpu" / "prepared.txt"
    return stamp.is_file() and stamp.read_text() == sources(check) and (check.build / "libcprof.so").is_file()


def build_library(check):
    """Chooses the library: the given one, the prepared one, one built here, or that in build/ (a machine may lack zlib's static library)."""
    error = ""
    if check.options.library:
        check.library = pathlib.Path(check.options.library).resolve()
    else:
        check.library = check.build / "libcprof.so"
        error = "" if not check.sim and prepared(check) else make(check, "all")
        if error and (check.root / "build/libcprof.so").is_file():
            check.library = check.root / "build/libcprof.so"
            check.figures["library"] = "build/libcprof.so, because it cannot be built here: " + error[-400:]
            check.skip("the library of this checkout", "it cannot be built here; build/libcprof.so was taken")
    if not check.library.is_file():
        sys.exit(f"gpu_check: no library: {error}")


def build_simulated(check):
    """Builds the simulation, unless a library and a folder are given, which are then built already."""
    there = check.options.library and (check.build / "gpu/many").is_file()
    error = "" if there else make(check, "sim")
    if error:
        sys.exit(f"gpu_check: make sim: {error}")
    check.libraries = [check.build / "sim"]


def run_build(check):
    (build_simulated if check.sim else build_real)(check)


# ---- the programs, for real hardware ---------------------------------------------------------------------------

def compile_one(check, command):
    """Runs a compiler. Returns its messages, also warnings, or ''."""
    try:
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=max(10, check.left()), stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (done.stdout + done.stderr).strip()[-600:] or ("" if done.returncode == 0 else f"exit code {done.returncode}")


def build_kernels(check, folder):
    """Compiles the kernels for the machine's GPU; without one for Hopper, and as PTX for others."""
    source, out = check.root / "tests/gpu/kernels.cu", folder / "kernels.o"
    arches = [["-arch=native"]] if not check.options.prepare else []
    arches += [["-gencode", "arch=compute_90,code=sm_90", "-gencode", "arch=compute_75,code=compute_75"], []]
    for arch in arches:
        error = compile_one(check, [check.nvcc, "-c", "-O2", *arch, f"-I{check.root}", "-o", out, source])
        if not error:
            return ""
    return error


def toolkit_major(nvcc):
    """The major version of the toolkit, which is also that of its cuBLAS."""
    release = re.search(r"release (\d+)\.", output([nvcc, "--version"])) if nvcc else None
    return int(release.group(1)) if release else 13


def stub(check, folder, which, object_file):
    """Builds an empty library to link against, with a real library's name, version node and the symbols that a program needs of it. The real
    library is on the machine with the GPU."""
    soname, symbols, node = (text and text.format(major=toolkit_major(check.nvcc)) for text in STUBS[which])
    wanted = sorted(set(re.findall(rf"\bU ({symbols}\w*)", output(["nm", "-u", object_file]))))
    library = folder / "stubs" / object_file.stem / soname
    library.parent.mkdir(parents=True, exist_ok=True)
    code, versions_ = library.with_suffix(".c"), library.with_suffix(".map")
    code.write_text("".join(f"int {name}(void);\nint {name}(void) {{return 0;}}\n" for name in wanted))
    versions_.write_text((node or "") + " { global: *; };\n")
    options = [f"-Wl,--version-script={versions_}"] if node else []
    error = compile_one(check, [os.environ.get("CC", "cc"), "-shared", "-fPIC", f"-Wl,-soname,{soname}", *options, "-o", library, code])
    return library, error


def build_program(check, folder, path, includes, kernels):
    name, object_file = path.stem, folder / f"{path.stem}.o"
    error = compile_one(check, [os.environ.get("CC", "cc"), "-std=gnu11", "-D_GNU_SOURCE=", "-O2", "-Wall", "-Wextra", f"-I{check.root}", *includes,
                                "-c", "-o", object_file, path])
    link = [check.nvcc, "-o", folder / name, object_file, *([kernels] if name != "driver_only" else [])]
    link += ["-cudart", RUNTIME.get(name, "shared")] + [f"-L{path}" for path in check.libraries]
    link += ["-Xlinker", check.cupti] if name == "second_client" else []
    for which in USES.get(name, ()):
        library, failed = stub(check, folder, which, object_file) if not error else (None, "")
        error = error or failed
        link += ["-Xlinker", library, "-Xlinker", "--allow-shlib-undefined"]
    return error or compile_one(check, [*link, "-lpthread", "-ldl"])


def library_folders(check):
    """The folders in which programs find CUDA at run time: the toolkit, then the folders of libcupti, libcublas and NCCL."""
    toolkit = toolkit_folders(check.nvcc)
    found = [path for root in toolkit for path in (root / "lib64", root / "extras/CUPTI/lib64", *map(pathlib.Path, glob.glob(f"{root}/targets/*/lib")))
             if path.is_dir()]
    others = [check.cupti, *(find_library(check.nvcc, name) for name in ("libcudart.so.1*", "libcublas.so.1*", "libcublasLt.so.1*", "libnccl.so.2*"))]
    return list(dict.fromkeys([*found, *(path.parent for path in others if path)]))


def build_real(check):
    """Builds the programs in parallel: nvcc compiles the kernels and links, the C compiler compiles the rest."""
    folder, source = check.build / "gpu", check.root / "tests/gpu"
    check.libraries = library_folders(check)
    if prepared(check) and not check.options.prepare:
        check.figures["built"] = "as prepared"
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    includes = [f"-I{path}" for root in toolkit_folders(check.nvcc) for path in (root / "include", root / "extras/CUPTI/include") if path.is_dir()]
    includes += [f"-I{path}" for path in (check.cupti.parent.parent / "include",) if path.is_dir()]
    error = build_kernels(check, folder)
    if error:
        check.fail("build", f"kernels.cu: {error}")
        return
    paths = [path for path in sorted(source.glob("*.c")) if not path.stem.startswith(("kernels", "lib")) and path.stem not in SIM_ONLY]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for path, error in zip(paths, pool.map(lambda path: build_program(check, folder, path, includes, folder / "kernels.o"), paths)):
            if error:
                check.fail("build", f"{path.stem}: {error}")
    (folder / "prepared.txt").write_text(sources(check))
