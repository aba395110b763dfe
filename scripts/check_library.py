#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the built library shows to the process it is loaded into: check_library.py build/libcprof.so

- it NEEDs libc only
- its TLS block is at most 256 bytes (initial-exec TLS of a preloaded library comes out of a small reserve)
- its defined dynamic symbols are exactly those of preload/exports.map
"""

import fnmatch
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
MAX_TLS = 256
# libpthread and libdl are part of libc.so.6 from glibc 2.34 on; the loader is named on some platforms.
NEEDED = re.compile(r"libc\.so\.6|ld-linux[\w-]*\.so\.\d+|libpthread\.so\.0|libdl\.so\.2")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def map_exports(text):
    """(name pattern, version node) of each global row; the anonymous node has the name ''."""
    text = re.sub(r"/\*.*?\*/|#[^\n]*", " ", text, flags=re.S)
    rows = []
    for node, body in re.findall(r"([\w.]*)\s*\{([^}]*)\}", text):
        visible = True
        for word in re.split(r"[;\s]+", re.sub(r"\b(global|local)\s*:", r"\1: ", body)):
            if word in ("global:", "local:"):
                visible = word == "global:"
            elif word and visible:
                rows.append((word, node))
    return rows


def check_exports(library):
    wanted = map_exports((ROOT / "preload/exports.map").read_text())
    found = []
    for line in output("nm", "-D", "--defined-only", library).splitlines():
        kind, name = line.split()[-2:]
        if kind == "A":
            continue  # a version node itself
        name, _, version = name.partition("@")
        found.append((name, version.lstrip("@")))

    def fits(symbol, row):
        return fnmatch.fnmatchcase(symbol[0], row[0]) and symbol[1] == row[1]

    for row in wanted:
        if not any(fits(symbol, row) for symbol in found):
            yield f"preload/exports.map names {'@'.join(filter(None, row))}, which the library does not define"
    for symbol in found:
        if not any(fits(symbol, row) for row in wanted):
            yield f"the library exports {'@'.join(filter(None, symbol))}, which preload/exports.map does not name"


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
    for text in problems:
        print(f"{sys.argv[1]}: {text}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
