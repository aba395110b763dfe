#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`make wheel`: makes dist/cprof-VERSION-py3-none-manylinux_2_28_MACHINE.whl, with library, header, module, command, manual pages and
completions, and beside it the library's debug symbols.

    wheel.py [--machine aarch64] [--library build/libcprof.so] [--out dist]

`zig cc` compiles the library against glibc 2.28; it is in the Python package ziglang, installed into build/wheel/venv unless ZIG names
one. gcc links the library against zig's stubs of that glibc, since zig's own linker refuses exports without a version
(preload/hooks/process.c). For another machine gcc and binutils are those of Debian's gcc-aarch64-linux-gnu, and SYSROOT is a Debian for
it with zlib1g-dev. With --library the given library is packed instead. The wheel's tag is the newest glibc that the library needs, but
at least 2.28.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import platform
import re
import shlex
import shutil
import subprocess
import sys
import venv
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
GLIBC = (2, 28)
MOST_BYTES = 2 << 20
SCRATCH = ROOT / "build/wheel"


def output(*command, **options):
    """The output of a command. Its messages are shown, and its failure ends the script."""
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, text=True, **options)
    if done.returncode:
        sys.exit(f"wheel: failed: {shlex.join(str(part) for part in command)}")
    return done.stdout


# ---- the library ----

def zig():
    """The compiler: ZIG, or that of the Python package."""
    if os.environ.get("ZIG"):
        return os.environ["ZIG"]
    folder = SCRATCH / "venv"
    python = folder / "bin/python"
    if not list(folder.glob("lib/python3*/site-packages/ziglang/zig")):
        print("wheel: installing ziglang (pip)", flush=True)
        venv.create(folder, with_pip=True)
        output(python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", "ziglang")
    return str(next(folder.glob("lib/python3*/site-packages/ziglang/zig")))


def stubs(compiler):
    """The stubs of libc for linking: those that zig passes to its own linker."""
    source = SCRATCH / "empty.c"
    source.write_text("")
    done = subprocess.run([*compiler, "-O2", "-shared", "-v", "-o", str(SCRATCH / "empty.so"), str(source)], stderr=subprocess.PIPE, text=True)
    line = next((line for line in reversed(done.stderr.splitlines()) if line.startswith("ld.lld ")), "")  # earlier ones link the stubs
    wanted = ("libc.so.6", "libpthread.so.0", "libdl.so.2", "libld.so.2", "libc_nonshared.a")  # libld: the loader
    found = [os.path.abspath(part) for part in line.split() if os.path.basename(part) in wanted]
    if len(found) < len(wanted):
        sys.exit(f"wheel: zig does not print where its libc is: {done.stderr[-500:]}")
    return found


def build(machine):
    """Builds the library for the old glibc in its own build folder."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    os.environ.setdefault("ZIG_GLOBAL_CACHE_DIR", str(SCRATCH / "cache"))
    compiler = [zig(), "cc", "-target", f"{machine}-linux-gnu.{GLIBC[0]}.{GLIBC[1]}"]
    linker = tool(machine, "gcc") + (f" --sysroot={os.environ['SYSROOT']}" if os.environ.get("SYSROOT") else "")
    folder = SCRATCH / machine
    libc = " ".join(["-nodefaultlibs", "-Wl,--build-id", *stubs(compiler), "-lgcc"])
    # The headers of zlib and ISA-L are this machine's; those of zig's libc come first.
    done = subprocess.run(["make", "-C", str(ROOT), f"-j{len(os.sched_getaffinity(0))}", f"BUILD={folder}", f"LINKER={linker}", f"LIBC={libc}",
                           f"CC={shlex.join(compiler)} -idirafter /usr/include", f"{folder}/libcprof.so"])
    if done.returncode:
        sys.exit("wheel: the library cannot be built")
    return folder / "libcprof.so"


def tool(machine, name):
    """A program of gcc or binutils for the machine."""
    return name if machine == platform.machine() else f"{machine}-linux-gnu-{name}"


def newest_glibc(library, machine):
    """The newest version of glibc that the library needs."""
    asked = re.findall(r"\(GLIBC_(\d+)\.(\d+)[.\d]*\)", output(tool(machine, "objdump"), "-T", library))
    return max((int(major), int(minor)) for major, minor in asked)


def split_debug(library, machine, stem):
    """(the library without debug symbols, the file that has them)"""
    bare, debug = SCRATCH / "libcprof.so", SCRATCH / f"{stem}.debug"
    output(tool(machine, "objcopy"), "--only-keep-debug", library, debug)
    output(tool(machine, "objcopy"), "--strip-debug", f"--add-gnu-debuglink={debug}", library, bare)
    return bare, debug


# ---- the wheel ----

def project():
    """(table of pyproject.toml, version)"""
    try:
        import tomllib
    except ImportError:  # before Python 3.11
        from pip._vendor import tomli as tomllib
    table = tomllib.loads((ROOT / "scripts/python/pyproject.toml").read_text())
    return table["project"], re.search(r'^__version__ = "(.*)"', (ROOT / "scripts/python/cprof/__init__.py").read_text(), re.M)[1]


def metadata(table, version):
    """The text of METADATA."""
    lines = ["Metadata-Version: 2.1", f"Name: {table['name']}", f"Version: {version}", f"Summary: {table['description']}",
             f"License: {table['license']['text']}", f"Requires-Python: {table['requires-python']}"]
    for extra, needs in table.get("optional-dependencies", {}).items():
        lines += [f"Provides-Extra: {extra}", *(f"Requires-Dist: {need}; extra == '{extra}'" for need in needs)]
    return "\n".join([*lines, "Description-Content-Type: text/markdown", "", (ROOT / "README.md").read_text()])


def contents(table, version, library):
    """(name in the wheel, bytes) of each file, except the list of files."""
    package = ROOT / "scripts/python"
    for path in sorted(package.glob("cprof/**/*")):
        if path.suffix in (".py", ".typed"):
            yield str(path.relative_to(package)), path.read_bytes()
    yield "cprof/libcprof.so", library.read_bytes()
    # pip puts these files below the environment, as `make install` puts them below PREFIX.
    staged = SCRATCH / "staged"
    shutil.rmtree(staged, ignore_errors=True)
    output("make", "-s", "-C", ROOT, "install-pages", f"DESTDIR={staged}", "PREFIX=")
    for path in sorted(staged.glob("**/*")):
        if path.is_file():
            yield f"cprof-{version}.data/data/{path.relative_to(staged)}", path.read_bytes()
    info = f"cprof-{version}.dist-info"
    yield f"{info}/LICENSE", (ROOT / "LICENSE").read_bytes()
    scripts = "".join(f"{name} = {entry}\n" for name, entry in table["scripts"].items())
    yield f"{info}/entry_points.txt", f"[console_scripts]\n{scripts}".encode()
    yield f"{info}/METADATA", metadata(table, version).encode()


def pack(path, tag, version, files):
    """Writes the wheel. The same files give the same bytes."""
    info, record = f"cprof-{version}.dist-info", []
    files = [*files, (f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: cprof\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        def add(name, data):
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o755 if name.endswith(".so") else 0o644) << 16
            wheel.writestr(entry, data)

        for name, data in files:
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record.append(f"{name},sha256={digest},{len(data)}\n")
            add(name, data)
        add(f"{info}/RECORD", "".join([*record, f"{info}/RECORD,,\n"]).encode())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--machine", default=platform.machine(), choices=["x86_64", "aarch64"])
    parser.add_argument("--library", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "dist")
    args = parser.parse_args()
    SCRATCH.mkdir(parents=True, exist_ok=True)
    library = args.library or build(args.machine)
    table, version = project()
    glibc = max(GLIBC, newest_glibc(library, args.machine))
    if not args.library and glibc > GLIBC:
        sys.exit("wheel: the library needs glibc %d.%d" % glibc)
    tag = f"py3-none-manylinux_{glibc[0]}_{glibc[1]}_{args.machine}"
    bare, debug = split_debug(library, args.machine, f"libcprof-{version}-{args.machine}.so")
    args.out.mkdir(parents=True, exist_ok=True)
    path = args.out / f"cprof-{version}-{tag}.whl"
    pack(path, tag, version, contents(table, version, bare))
    shutil.move(debug, args.out / debug.name)
    size = path.stat().st_size
    if size > MOST_BYTES:
        sys.exit(f"wheel: {path}: {size} bytes, more than {MOST_BYTES}")
    print(f"wheel: {path} ({size / 1e6:.2f} MB, needs glibc {glibc[0]}.{glibc[1]} or later)")


if __name__ == "__main__":
    main()
