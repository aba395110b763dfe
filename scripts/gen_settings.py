#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the README's table of settings from preload/config.def, between the two marks

    <!-- settings: made by scripts/gen_settings.py from preload/config.def -->
    <!-- settings end -->

`--check` only compares, and exits 1 when the README is not up to date.
"""

import ast
import difflib
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BEGIN = "<!-- settings: made by scripts/gen_settings.py from preload/config.def -->"
END = "<!-- settings end -->"
NO_LIMIT = 2147483647


def split_row(text):
    """The arguments of X(...), which hold quoted text and LATER("...")."""
    parts = re.findall(r'"(?:\\.|[^"\\])*"|\w+\("(?:\\.|[^"\\])*"\)|[^,()\s"]+', text)
    return [ast.literal_eval(part) if part.startswith('"') else part for part in parts]


def rows():
    """The arguments of each X row."""
    for line in (ROOT / "preload/config.def").read_text().splitlines():
        match = re.fullmatch(r"X\((.*)\)", line)
        if match:
            yield split_row(match.group(1))


def values_text(kind, low, high, allowed):
    """The column that says what may be set."""
    if kind == "INT":
        return f"{low} and up" if int(high) == NO_LIMIT else f"{low} to {high}"
    if "|" not in allowed:
        return allowed
    listed = " ".join(f"`{value}`" for value in allowed.split("|"))
    return f"comma-separated: {listed}" if kind == "LIST" else listed


def table():
    lines = ["| name | default | values | what it does |", "| --- | --- | --- | --- |"]
    for name, kind, _field, default, low, high, allowed, state, text in rows():
        if state == "INTERNAL":
            continue
        if state.startswith("LATER"):
            text += " *(not in this version)*"
        shown = f"`{default}`" if default else ""
        lines.append(f"| `{name}` | {shown} | {values_text(kind, low, high, allowed)} | {text} |")
    return "\n".join(lines)


def main():
    readme = ROOT / "README.md"
    old = readme.read_text() if readme.is_file() else ""
    if BEGIN not in old or END not in old:
        print(f"README.md lacks the marks for the settings table:\n{BEGIN}\n{END}")
        return 1
    head, rest = old.split(BEGIN, 1)
    new = head + BEGIN + "\n" + table() + "\n" + END + rest.split(END, 1)[1]
    if "--check" not in sys.argv:
        readme.write_text(new)
        return 0
    if new != old:
        print("README.md: the table of settings differs from preload/config.def; run scripts/gen_settings.py")
        print("\n".join(list(difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0))[:12]))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
