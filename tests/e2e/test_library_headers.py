# SPDX-License-Identifier: Apache-2.0
"""Compares the prototypes and constants with which cprof interposes cuBLAS, cuBLASLt and cuDNN with those libraries' own headers. They come from
a CUDA toolkit (CUDA_HOME, /usr/local/cuda), NVIDIA's wheels in .venv, or the folders in LIBRARY_HEADERS (with colons)."""

import glob
import os
import pathlib
import re
import shutil
import site
import subprocess

import pytest

from conftest import BUILD, ROOT

HEADERS = {"CUBLAS": ["cublas_v2.h", "cublasLt.h"], "CUDNN": ["cudnn.h"]}

# Parameters match if the calling convention passes them alike: pointers, integers of the same size, floating-point numbers of the same size.
CHECK = """
template <class T> constexpr int passed = std::is_pointer<T>::value ? 1 : std::is_floating_point<T>::value ? 100 + sizeof(T)
    : std::is_enum<T>::value || std::is_integral<T>::value ? 200 + sizeof(T) : 300 + sizeof(T);
template <class A, class B> struct alike { static constexpr bool value = false; };
template <class R, class... A, class S, class... B> struct alike<R (*)(A...), S (*)(B...)> {
    template <class... C> struct list {};
    template <int... I> struct codes {};
    static constexpr bool value = std::is_same<codes<passed<R>, passed<A>...>, codes<passed<S>, passed<B>...>>::value;
};
#define SAME(symbol, ret, ...) static_assert(alike<decltype(&::symbol), ret (*) __VA_ARGS__>::value, "prototype of " #symbol);
#define NUMBER(name, number) static_assert((long)name == number, #name);
"""


def folders():
    """[(library, folder, further include folders)] of the headers on this machine."""
    made = (BUILD / "cuda.mk").read_text() if (BUILD / "cuda.mk").exists() else ""
    configured = [str(ROOT / p) for line in re.findall(r"^CUDA_INC := (.*)$", made, re.MULTILINE) for p in line.split()]
    places = [p for p in os.environ.get("LIBRARY_HEADERS", "").split(":") if p] + configured
    places += [os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "include")]
    places += [p for s in site.getsitepackages() for p in sorted(glob.glob(f"{s}/nvidia/*/include"))]
    found = []
    for library, names in HEADERS.items():
        found += [(library, p, configured) for p in dict.fromkeys(places) if os.path.exists(os.path.join(p, names[0]))]
    return found


def preprocessed(compiler, text, *options):
    return subprocess.run([compiler, "-E", "-P", *options, "-"], input=text, capture_output=True, text=True, timeout=60, check=True).stdout


def rows():
    """{symbol: (ret, params)} of blas.def."""
    text = preprocessed("cc", '#define BLAS(node, symbol, ret, missing, params, args, count) ROW symbol ; ret ; params END\n'
                              '#include "preload/flops/blas.def"\n', "-I", str(ROOT))
    found = re.findall(r"ROW (\S+) ; (\S+) ; (\(.*?\)) END", re.sub(r"\s+", " ", text))
    return {symbol: (ret, params) for symbol, ret, params in found}


def numbers():
    """[(library, name, value)] of library_numbers.def."""
    text = (ROOT / "preload/flops/library_numbers.def").read_text()
    return re.findall(r"^NUMBER\((\w+), (\w+), (\d+)\)$", text, re.MULTILINE)


def test_parses_every_row_and_number():
    assert len(rows()) > 80 and {"cublasSgemm_v2", "cublasSgemm_v2_64", "cublasLtMatmul", "cudnnBackendExecute", "sgemm_"} <= set(rows())
    assert len(numbers()) == (ROOT / "preload/flops/library_numbers.def").read_text().count("\nNUMBER(")


@pytest.mark.parametrize("library, folder, more", folders() or [(None, None, None)], ids=lambda v: v if isinstance(v, str) else "")
def test_rows_match_the_headers(library, folder, more, tmp_path):
    if not library:
        pytest.skip("no cublas_v2.h or cudnn.h on this machine (LIBRARY_HEADERS may name folders)")
    compiler = shutil.which("g++") or shutil.which("clang++")
    if not compiler:
        pytest.skip("no C++ compiler")
    options = ["-x", "c++", "-std=c++17", "-I", folder, *(o for p in more for o in ("-I", p))]
    includes = "".join(f"#include <{name}>\n" for name in ["cstdint", "type_traits", *HEADERS[library]])
    header = preprocessed(compiler, includes, *options)
    # cublas_v2.h has an inline C++ overload of some calls, which would make &symbol ambiguous
    header = re.sub(r"static inline cublasStatus_t cublas\w+\([^{;]*\) *\{.*?\n\}", "", header, flags=re.DOTALL)
    prefix = library.lower()
    known = {symbol: row for symbol, row in rows().items() if symbol.startswith(prefix)}
    here = {symbol: row for symbol, row in known.items() if re.search(rf"\b{symbol}\s*\(", header)}
    named = [(name, value) for of, name, value in numbers() if of in (library, "CUDA") and re.search(rf"\b{name}\b", header)]
    assert len(here) > len(known) / 3 and len(named) > 8
    source = tmp_path / "headers.cc"
    source.write_text(header + CHECK + "".join(f"SAME({s}, {ret}, {params})\n" for s, (ret, params) in here.items())
                      + "".join(f"NUMBER({name}, {value})\n" for name, value in named))
    done = subprocess.run([compiler, *options[:3], "-w", "-fsyntax-only", str(source)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, re.findall(r"error: .*", done.stderr)
