#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes documents and Python code from the lists in preload/ and writer/:

- scripts/guide/settings.md from config.def, and the losses in writer/README.md from losses.def, between two marks each

    <!-- settings: made by scripts/lint/gen_settings.py from preload/settings/config.def -->
    <!-- settings end -->

- scripts/python/cprof/tool/settings_table.py, from which the command `cprof` makes its options: an installed package has no
  config.def. The variables of templates come from run_names.c, the versions of torch and Python from torch_layout.def and
  pyframes.def, the kinds of numbers from flop_classes.def.

- the version, from the three numbers in preload/cprof.h, for the library and for the Python module

`--check` only compares, and exits 1 if one of them is not up to date.
"""

import ast
import difflib
import itertools
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
MADE_BY = "made by scripts/lint/gen_settings.py from"
NO_LIMIT = 2147483647


def split_row(text):
    """The arguments of X(...), some of which are quoted text."""
    parts = re.findall(r'"(?:\\.|[^"\\])*"|[^,()\s"]+', text)
    return [ast.literal_eval(part) if part.startswith('"') else part for part in parts]


def rows():
    """The arguments of each X row."""
    for line in (ROOT / "preload/settings/config.def").read_text().splitlines():
        match = re.fullmatch(r"X\((.*)\)", line)
        if match:
            yield split_row(match.group(1))


def values_text(kind, low, high, allowed):
    """The allowed values of a setting."""
    if kind == "INT":
        return f"{low} and up" if int(high) == NO_LIMIT else f"{low} to {high}"
    if "|" not in allowed:
        return allowed
    listed = " ".join(f"`{value}`" for value in allowed.split("|"))
    return f"comma-separated: {listed}" if kind == "LIST" else listed


def settings_page():
    """The settings as lists, a heading for each group."""
    lines = []
    for heading, members in groups():
        members = [row for _, row in members if row[7] != "INTERNAL"]
        if not members:
            continue
        lines += [f"## {heading}", ""]
        for name, kind, _field, default, low, high, allowed, _state, text in members:
            shown = f", default `{default}`" if default else ""
            item = f"**`{name}`**{shown} ({values_text(kind, low, high, allowed)}): {text}."
            lines += textwrap.wrap(item, 118, initial_indent="- ", subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        lines.append("")
    return "\n" + "\n".join(lines)


def losses_table():
    text = (ROOT / "writer/record/losses.def").read_text()
    lines = ["| key | what happened |", "| --- | --- |"]
    lines += [f"| `{key}` | {what} |" for key, what in re.findall(r'^LOSS\(\w+, "(\w+)", "(.*)"\)', text, re.M)]
    return "\n".join(lines)


def groups():
    """(heading, rows) in the order of config.def. The comment line above each group is its heading."""
    found, heading = [], ""
    for line in (ROOT / "preload/settings/config.def").read_text().splitlines():
        comment = re.fullmatch(r"/\* ([^:.]*).*\*/", line)
        match = re.fullmatch(r"X\((.*)\)", line)
        if comment:
            heading = comment.group(1)
        elif match:
            found.append((heading, split_row(match.group(1))))
    return itertools.groupby(found, key=lambda pair: pair[0])


def template_variables():
    """The variables of file names, and the number of the first ones that folders accept too (NAMES_RUN_VARIABLES)."""
    listed = re.search(r"names_variables\[\w+\] = \{(.*?)\};", (ROOT / "preload/settings/run_names.c").read_text(), re.S)
    run = re.search(r"NAMES_RUN_VARIABLES = (\d+)", (ROOT / "preload/settings/run_names.h").read_text())
    return re.findall(r'"(\w+)"', listed.group(1)), int(run.group(1))


def torch_versions():
    """(first, last) version of each row of known layouts. Rows of the same range, which differ in the C++ ABI, count once."""
    text = (ROOT / "preload/core/torch_layout.def").read_text()
    found = re.findall(r"^TORCH_LAYOUT\(TL_V\((\d+), (\d+)\),\s*TL_V\((\d+), (\d+)\)", text, re.M)
    return sorted({((int(a), int(b)), (int(c), int(d))) for a, b, c, d in found})


def python_minors():
    """The minor versions of CPython 3 whose frames are known."""
    rows = re.findall(r"^LAYOUT\((\d+),", (ROOT / "preload/stacks/pyframes.def").read_text(), re.M)
    return [int(minor) for minor in rows]


def flop_classes():
    """The names of kinds of numbers: of each the one in traces, then the other one."""
    text = (ROOT / "writer/base/flop_classes.def").read_text()
    return [name for pair in re.findall(r'^FLOP_CLASS\(\w+, "(\w+)", "(\w+)"\)', text, re.M) for name in pair]


def python_table():
    """The text of settings_table.py."""
    variables, n_run = template_variables()
    lines = ["# SPDX-License-Identifier: Apache-2.0",
             '"""The settings of libcprof.so and what else the command knows of it. Made by scripts/lint/gen_settings.py from the lists in',
             'preload/: change those."""', "",
             "# (heading, [(name, kind, default, least, most, allowed, help)])", "GROUPS = ["]
    for heading, members in groups():
        members = [row for _, row in members if row[7] != "INTERNAL"]
        if not members:
            continue
        lines.append(f"    ({heading!r}, [")
        for name, kind, _field, default, low, high, allowed, _state, text in members:
            row = (name, kind, default, int(low), int(high), allowed, text)
            lines.append(f"        {row!r},")
        lines.append("    ]),")
    lines += ["]", "", "# What stands in braces in CPROF_FILENAME, and in CPROF_FOLDER.", f"FILE_VARIABLES = {variables!r}",
              f"FOLDER_VARIABLES = {variables[:n_run]!r}", "",
              "# Kinds of numbers in CPROF_PEAK_TFLOPS: of each the name in traces, then its other name.", f"FLOP_CLASSES = {flop_classes()!r}", "",
              "# First and last version of torch for each row of known layouts.", "TORCH_VERSIONS = ["]
    lines += [f"    {pair!r}," for pair in torch_versions()]
    lines += ["]", "", "# CPython 3.N whose frames are known.", f"PYTHON_MINORS = {python_minors()!r}", ""]
    return "\n".join(lines)


def between_marks(old, what, source, new):
    """A page with the text between its two marks replaced; None if it lacks them."""
    begin, end = f"<!-- {what}: {MADE_BY} {source} -->", f"<!-- {what} end -->"
    if begin not in old or end not in old:
        return None
    head, rest = old.split(begin, 1)
    return head + begin + "\n" + new + "\n" + end + rest.split(end, 1)[1]


def version():
    """"0.1.0", from the three numbers in cprof.h."""
    return ".".join(re.findall(r"^#define CPROF_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", (ROOT / "preload/cprof.h").read_text(), re.M))


def update(path, old, new, check):
    """Writes the new text, or with check prints the difference. Returns whether the file is now up to date."""
    if new != old and not check:
        path.write_text(new)
    elif new != old:
        name = path.relative_to(ROOT)
        print(f"{name}: differs from the lists it is made from; run scripts/lint/gen_settings.py and scripts/lint/gen_man.py")
        print("\n".join(list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0))[:12]))
        return False
    return True


def main():
    check = "--check" in sys.argv
    good = True
    for page, what, source, text in (("scripts/guide/settings.md", "settings", "preload/settings/config.def", settings_page()),
                                     ("writer/README.md", "losses", "writer/record/losses.def", losses_table())):
        old = (ROOT / page).read_text()
        new = between_marks(old, what, source, text)
        if new is None:
            print(f"{page} lacks the marks `<!-- {what}: {MADE_BY} {source} -->` and `<!-- {what} end -->`")
            return 1
        good &= update(ROOT / page, old, new, check)
    module = ROOT / "scripts/python/cprof/tool/settings_table.py"
    good &= update(module, module.read_text() if module.is_file() else "", python_table(), check)
    for name, before in (("writer/writer.h", "#define CPROF_VERSION "), ("scripts/python/cprof/__init__.py", "__version__ = ")):
        old = (ROOT / name).read_text()
        good &= update(ROOT / name, old, re.sub(f'^{before}".*"$', f'{before}"{version()}"', old, flags=re.M), check)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
