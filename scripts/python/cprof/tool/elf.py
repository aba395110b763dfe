# SPDX-License-Identifier: Apache-2.0
"""Reads the head of a program file to find out whether the loader would load a preloaded library into it."""

import os
import platform
import stat
import struct
from typing import BinaryIO, NamedTuple, Optional, Tuple

from cprof._untrusted import open_regular

# e_machine of ELF, by the name that the kernel gives the machine.
MACHINES = {"x86_64": 62, "amd64": 62, "aarch64": 183, "arm64": 183, "i386": 3, "i686": 3, "ppc64le": 21, "riscv64": 243}
MACHINE_NAMES = {3: "32-bit x86", 21: "PowerPC", 40: "32-bit ARM", 62: "x86-64", 183: "aarch64", 243: "RISC-V"}
PT_DYNAMIC, PT_INTERP = 2, 3


class Program(NamedTuple):
    """An ELF file. `interpreter` is the loader that it names, "" for a static program."""
    bits: int
    machine: int
    dynamic: bool
    interpreter: str


def read_elf(path: str) -> Optional[Program]:
    """The head of an ELF file; None if the file is no ELF file or cannot be read."""
    try:
        with open_regular(path) as file:
            return _parse(file)
    except (OSError, struct.error, ValueError):
        return None


def _parse(file: BinaryIO) -> Optional[Program]:
    ident = file.read(16)
    if len(ident) < 16 or ident[:4] != b"\x7fELF" or ident[4] not in (1, 2) or ident[5] not in (1, 2):
        return None
    wide, order = ident[4] == 2, "<" if ident[5] == 1 else ">"
    head = struct.Struct(order + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"))
    _, machine, _, _, offset, _, _, _, size, count, _, _, _ = head.unpack(file.read(head.size))
    dynamic, interpreter = False, ""
    for n in range(min(count, 256)):
        file.seek(offset + n * size)
        kind, at, length = _segment(file.read(size), wide, order)
        dynamic = dynamic or kind == PT_DYNAMIC
        if kind == PT_INTERP:
            file.seek(at)
            interpreter = file.read(min(length, 4096)).rstrip(b"\0").decode(errors="replace")
    return Program(64 if wide else 32, machine, dynamic, interpreter)


def _segment(data: bytes, wide: bool, order: str) -> Tuple[int, int, int]:
    """The kind, offset and length of a segment, from its program header."""
    if wide:
        kind, _, at, _, _, length = struct.unpack_from(order + "IIQQQQ", data)
    else:
        kind, at, _, _, length = struct.unpack_from(order + "IIIII", data)
    return kind, at, length


def _gains_privileges(path: str) -> Optional[str]:
    """Why the loader would ignore LD_PRELOAD for this program; None if it would not."""
    info = os.stat(path)
    if info.st_mode & stat.S_ISUID and info.st_uid != os.geteuid():
        return "is set-user-ID"
    if info.st_mode & stat.S_ISGID and info.st_mode & stat.S_IXGRP and info.st_gid != os.getegid():
        return "is set-group-ID"
    try:
        if os.geteuid() != 0 and os.getxattr(path, "security.capability"):
            return "has file capabilities"
    except (OSError, AttributeError):
        pass
    return None


def why_not_loaded(path: str) -> Optional[str]:
    """Why the loader will not load the library into this program, as text; None if there is no reason."""
    privileged = _gains_privileges(path)
    if privileged:
        return f"{privileged}: the loader ignores LD_PRELOAD there"
    program = read_elf(path)
    if program is None:
        return None
    ours = MACHINES.get(platform.machine())
    if program.bits == 32 or ours is not None and program.machine != ours:
        name = MACHINE_NAMES.get(program.machine, f"machine {program.machine}")
        return f"is a program for {name}: the library is not of that kind"
    if not program.interpreter:
        return "is linked statically: there is no loader that would bring the library in"
    if "ld-musl" in program.interpreter:
        return "runs on musl: the library needs glibc"
    return None


def script_interpreter(path: str) -> Optional[str]:
    """The program in the first line of a script; after `env`, the program that env is to find. None if the file is no script."""
    try:
        with open_regular(path) as file:
            first = file.readline(256)
    except OSError:
        return None
    if not first.startswith(b"#!"):
        return None
    words = first[2:].decode(errors="replace").split()
    if not words:
        return None
    if os.path.basename(words[0]) == "env":
        names = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        return names[0] if names else None
    return words[0]
