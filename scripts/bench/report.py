# SPDX-License-Identifier: Apache-2.0
"""The table of results, and its place in the README."""

import os
import pathlib
import platform
import subprocess

from common import PYTHON, ROOT

MARKS = ("<!-- bench -->", "<!-- bench end -->")


def verdict(value, budget):
    if budget is None or value is None:
        return ""
    return "yes" if (value >= -budget if budget < 0 else value <= budget) else "NO"


def table(rows):
    lines = ["| what | measured | budget | within | |", "| --- | --- | --- | --- | --- |"]
    for name, value, unit, budget, remark in rows:
        text = "" if budget is None else f"{'>=' if budget < 0 else '<='} {abs(budget)} {unit}".strip()
        measured = "not measured" if value is None else f"{value:.2f} {unit}"
        lines.append(f"| {name} | {measured} | {text} | {verdict(value, budget)} | {remark} |".replace("  ", " "))
    return "\n".join(lines)


def machine():
    model = "unknown CPU"
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    torch = subprocess.run([str(PYTHON), "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True).stdout.strip()
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release().split('-')[0]}, torch {torch}"


def write_readme(text):
    readme = ROOT / "tests/bench/README.md"
    old = readme.read_text()
    begin, end = old.index(MARKS[0]) + len(MARKS[0]), old.index(MARKS[1])
    readme.write_text(old[:begin] + "\n" + text + "\n" + old[end:])
