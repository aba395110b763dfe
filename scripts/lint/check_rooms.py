#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the rooms, which are the sub-folders of preload/ and writer/: which of them may call which.

    check_rooms.py BUILD           prints a line for each broken rule, and exits 1 if there is any
    check_rooms.py BUILD --tree    prints the rooms, their modules, and the calls between them, on one page
    check_rooms.py BUILD --write   writes each folder's part of that page into its README.md

The calls come from the object files in BUILD: which one defines the symbol that another one needs. A module is a .c file.

- A folder calls only folders before it in FLOORS. A room calls only rooms before it there, and includes only their
  public headers, ROOM/ROOM.h.
- Not more than 4 modules of a room call each other in a circle. A room has at most 14 modules.
- Each basename occurs once in the library. No name of a static function occurs in more than three files.
- A suite of unit tests stands in the room of the module that it is named after: tests/unit/ROOM/test_MODULE.c, test_MODULE_SUBJECT.c.
- The README.md of each folder has its part of the page.
"""

import collections
import pathlib
import re
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A folder may call the folders before it, and a room the rooms before it. "" is the folder itself.
FLOORS = {
    "writer": ["os", "base", "record", "stack", "json", "sums", "file", "window", "join", "import", ""],
    "cupti": [""],
    "preload": ["core", "settings", "link", "steps", "delivery", "stacks", "flops", "collectives", "markers", "torch", "hooks", ""],
}
# Symbols that are defined below the room that declares them. init.c answers the requests of all rooms, which must work before any constructor runs.
ANSWERED_BELOW = {"life_table"}
# Headers for callers outside the folder; its rooms implement them.
PUBLIC = {"preload/cprof.h", "cupti/gpu_trace.h", "writer/writer.h"}
BEGIN, END = "<!-- tree: made by scripts/lint/check_rooms.py -->", "<!-- end of tree -->"
MOST_MODULES, MOST_IN_CIRCLE, MOST_SAME_STATIC = 14, 4, 3

Module = collections.namedtuple("Module", "folder room name")


def module_of(path):
    """The module of a path below the root: writer/base/buf.o."""
    parts = pathlib.PurePath(path).parts
    return Module(parts[0], parts[1] if len(parts) == 3 else "", pathlib.PurePath(path).stem)


def where(module):
    return "/".join(part for part in module if part)


def objects(build):
    return [path for folder in FLOORS for path in sorted((build / folder).rglob("*.o"))
            if (ROOT / path.relative_to(build)).with_suffix(".c").is_file()]


def nm(paths, *options):
    """(path, type, symbol) of each symbol."""
    out = subprocess.run(["nm", "-A", *options, *map(str, paths)], capture_output=True, text=True, check=True).stdout
    for line in out.splitlines():
        path, rest = line.rsplit(":", 1)
        fields = rest.split()
        yield path, fields[-2], fields[-1]


def call_graph(build):
    """{module: {module: {symbol, ...}}} of all calls between modules."""
    paths = objects(build)
    module = {str(path): module_of(path.relative_to(build)) for path in paths}
    home = {symbol: module[path] for path, _, symbol in nm(paths, "-g", "--defined-only")}
    calls = {one: collections.defaultdict(set) for one in module.values()}
    for path, _, symbol in nm(paths, "-u"):
        if symbol in home and home[symbol] != module[path]:
            calls[module[path]][home[symbol]].add(symbol)
    return calls


def floor(module):
    """Higher numbers may call lower ones."""
    return list(FLOORS).index(module.folder), FLOORS[module.folder].index(module.room)


def circles(modules, calls):
    """The strongly connected components of more than one module (Tarjan)."""
    order, low, stack, found = {}, {}, [], []

    def visit(one):
        order[one] = low[one] = len(order)
        stack.append(one)
        for other in calls[one]:
            if other in modules and other not in order:
                visit(other)
            if other in modules and other in stack:
                low[one] = min(low[one], low[other])
        if low[one] == order[one]:
            at = stack.index(one)
            found.append(stack[at:])
            del stack[at:]

    for one in modules:
        if one not in order:
            visit(one)
    return [circle for circle in found if len(circle) > 1]


def check_calls(calls):
    for one, others in sorted(calls.items()):
        for other, symbols in sorted(others.items()):
            if floor(other) > floor(one) and symbols - ANSWERED_BELOW:
                yield f"{where(one)} calls {', '.join(sorted(symbols))} of {where(other)}, which is below it"
    for room in sorted({(one.folder, one.room) for one in calls}):
        modules = {one for one in calls if (one.folder, one.room) == room}
        name = "/".join(part for part in room if part)
        if room[0] != "cupti" and len(modules) > MOST_MODULES:
            yield f"{name}: {len(modules)} modules; at most {MOST_MODULES} in a room"
        for circle in circles(modules, calls):
            if len(circle) > MOST_IN_CIRCLE:
                yield f"{name}: {len(circle)} modules call each other in a circle: {' '.join(sorted(one.name for one in circle))}"


def sources():
    return sorted(path for folder in FLOORS for path in (ROOT / folder).rglob("*") if path.suffix in (".c", ".h", ".def"))


def check_includes(path, text):
    one = module_of(path.relative_to(ROOT))
    for name in re.findall(r'^\s*#\s*include\s+["<]([^">]+\.h)[">]', text, re.M):
        if name.split("/")[0] == one.folder and name not in PUBLIC:
            other = module_of(name)
            if other.room in FLOORS[one.folder] and floor(other) > floor(one):
                yield f"{path.relative_to(ROOT)}: includes {name} of a room below it"
            if other.room not in ("", one.room) and other.name != other.room and str(path.relative_to(ROOT)) not in PUBLIC:
                yield f"{path.relative_to(ROOT)}: includes {name}; the room's header is {other.room}.h"


def check_names(texts):
    stems = collections.defaultdict(set)
    statics = collections.defaultdict(set)
    for path, text in texts.items():
        stems[path.stem].add(path.parent)
        for name in re.findall(r"^static\b(?:[^;={(]|__attribute__\(\(\w+\)\))*?\b(?!__attribute__)(\w+)\([^;{]*\)\s*\{", text, re.M):
            statics[name].add(path)
    for stem, folders in sorted(stems.items()):
        if len(folders) > 1:
            yield f"{stem}: is in {', '.join(sorted(str(folder.relative_to(ROOT)) for folder in folders))}"
    for name, paths in sorted(statics.items()):
        if len(paths) > MOST_SAME_STATIC:
            yield f"{name}(): a static function in {len(paths)} files: {', '.join(sorted(path.name for path in paths))}"


def check_suites():
    for path in sorted((ROOT / "tests/unit").glob("*/**/test_*.c")):
        words = path.stem.split("_")[1:]
        room = ROOT / path.parent.relative_to(ROOT / "tests/unit")
        if not any((room / "_".join(words[:n])).with_suffix(suffix).is_file() for n in range(1, len(words) + 1) for suffix in (".c", ".h")):
            yield f"{path.relative_to(ROOT)}: no module of this name in {room.relative_to(ROOT)}"


def folder_page(folder, calls):
    """The rooms of a folder in the order of FLOORS: their modules, and the rooms that they call."""
    yield f"{folder}/"
    for number, room in enumerate(FLOORS[folder]):
        modules = sorted(one for one in calls if (one.folder, one.room) == (folder, room))
        below = sorted({floor(other) for one in modules for other, symbols in calls[one].items()
                        if other.folder == folder and other.room != room and symbols - ANSWERED_BELOW})
        yield from textwrap.wrap(" ".join(one.name for one in modules), 100, initial_indent=f"  {number:2} {room or '(here)':12} ",
                                 subsequent_indent=" " * 18)
        if below:
            yield " " * 18 + "calls " + ", ".join(FLOORS[folder][room] for _, room in below)


def tree(calls):
    for folder in FLOORS:
        yield from folder_page(folder, calls)
    between = sorted({(one.folder, other.folder) for one in calls for other in calls[one] if one.folder != other.folder})
    yield "between folders: " + ", ".join(f"{one} -> {other}" for one, other in between)


def readme_with_page(folder, calls):
    """(path, current text, text with the right page)"""
    path = ROOT / folder / "README.md"
    text = path.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page = "\n".join(folder_page(folder, calls))
    return path, text, f"{before}{BEGIN}\n```\n{page}\n```\n{END}{after}"


def check_readmes(calls):
    for folder in FLOORS:
        path, text, right = readme_with_page(folder, calls)
        if text != right:
            yield f"{path.relative_to(ROOT)}: the page of rooms is out of date; run scripts/lint/check_rooms.py build --write"


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    calls = call_graph(build)
    if "--tree" in sys.argv[2:]:
        print("\n".join(tree(calls)))
        return 0
    if "--write" in sys.argv[2:]:
        for path, _, right in (readme_with_page(folder, calls) for folder in FLOORS):
            path.write_text(right)
        return 0
    texts = {path: path.read_text() for path in sources()}
    problems = list(check_calls(calls))
    for path, text in texts.items():
        problems += check_includes(path, text)
    problems += check_names(texts)
    problems += check_suites()
    problems += check_readmes(calls)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
