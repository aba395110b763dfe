#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks what the built library brings into a process: check_library.py build/libcprof.so

- It NEEDs only libc.
- Its TLS block is at most 256 bytes, since initial-exec TLS of a preloaded library comes from a small reserve.
- Its defined dynamic symbols are those of preload/exports.map, and its CUDA wrappers are the rows of preload/hooks/hooks.def.
"""

import fnmatch
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAX_TLS = 256
# libpthread and libdl are part of libc.so.6 from glibc 2.34 on; the loader is named on some platforms.
NEEDED = re.compile(r"libc\.so\.6|ld-linux[\w-]*\.so\.\d+|libpthread\.so\.0|libdl\.so\.2")

# Wrappers of libc calls, in the base version: callers ask for _exit@GLIBC_2.2.5 (see preload/exports.map).
UNVERSIONED = {"_exit", "_Exit", "abort", "kill", "killpg", "raise", "tgkill", "pthread_kill", "sigqueue",
               "dlclose", "fopen", "fopen64"}


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def map_patterns():
    """The patterns of global names in all nodes of preload/exports.map."""
    text = re.sub(r"/\*.*?\*/|#[^\n]*", " ", (ROOT / "preload/exports.map").read_text(), flags=re.S)
    return [name for body in re.findall(r"global\s*:(.*?)(?:local\s*:|\})", text, flags=re.S)
            for name in re.split(r"[;\s]+", body) if name]


def hook_exports():
    """symbol@version of each row of preload/hooks/hooks.def, expanded by the preprocessor."""
    source = ('#include "preload/hooks/hooks.h"\n'
              "#define HOOK(node, symbol, ...) ROW symbol HOOK_SUFFIX_##node\n"
              '#include "preload/hooks/hooks.def"\n')
    text = subprocess.run([os.environ.get("CC", "cc"), "-I.", "-E", "-P", "-"], cwd=ROOT, input=source,
                          capture_output=True, text=True, check=True).stdout
    return {name + version for name, version in re.findall(r'ROW (\w+) "(@[^"]*)"', text)}


def check_exports(library):
    found = {line.split()[-1] for line in output("nm", "-D", "--defined-only", library).splitlines()
             if line.split()[-2] != "A"}  # A: a version node itself
    names = {symbol: symbol.partition("@")[0] for symbol in found}

    hooks = hook_exports()
    for symbol in sorted(hooks - found):
        yield f"preload/hooks/hooks.def has a row for {symbol}, which the library does not export"
    for symbol in sorted(symbol for symbol in found - hooks if re.match(r"cuda|cu[A-Z]|__cuda", names[symbol])):
        yield f"exports {symbol}, which is no row of preload/hooks/hooks.def"

    patterns = map_patterns()
    for symbol in sorted(found):
        if names[symbol] not in UNVERSIONED and not any(fnmatch.fnmatchcase(names[symbol], p) for p in patterns):
            yield f"exports {symbol}, which preload/exports.map does not name"
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names.values()):
            yield f"preload/exports.map names {pattern}, which the library does not define"


def check(library):
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-dW", library)):
        if not NEEDED.fullmatch(name):
            yield f"NEEDs {name}; only libc is allowed"
    for line in output("readelf", "-lW", library).splitlines():
        fields = line.split()
        if fields and fields[0] == "TLS" and int(fields[5], 16) > MAX_TLS:
            yield f"TLS block of {int(fields[5], 16)} bytes; at most {MAX_TLS}"
    yield from check_exports(library)


def main():
    problems = list(check(sys.argv[1]))
    for text in problems[:20]:
        print(f"{sys.argv[1]}: {text}")
    if len(problems) > 20:
        print(f"... and {len(problems) - 20} more")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
