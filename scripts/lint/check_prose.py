#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the documents. Prints `file:line: text` for each broken rule, and then exits 1.

- README, guides, LIMITS, CHANGELOG and the pages in .github: sentences of at most 35 words, the median at most 16
- docstrings of Python: sentences of at most 35 words; indented lines are examples
- lines of at most 120 columns (rows of tables in other pages are exempt); README.md at most 200 lines and 14 KB
- relative links lead to a file, anchors to a heading
- commands in code exist: `cprof X` with its options, `make X`, `scripts/X`; so do paths, CPROF_ names and cprof_ functions
- README.md names `make demo` and `make test`; scripts/guide/settings.md names each setting, writer/README.md each
  key of losses.def

`check_prose.py FILE...` also prints the sentence figures of these files, for their authors.
"""

import ast
import functools
import importlib
import pathlib
import re
import statistics
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MOST_WORDS, MOST_MEDIAN, MOST_COLUMNS, MOST_LINES, MOST_BYTES = 35, 16, 120, 200, 14 * 1024
GENERATED = re.compile(r"<!-- (losses: |bench -->|tree: ).*?<!-- (losses end|bench end|end of tree) -->", re.S)
FENCE = re.compile(r"^ *```.*?^ *```", re.S | re.M)
SHELL = re.compile(r"^ *```(?:sh|bash|console)\n(.*?)^ *```", re.S | re.M)
PATH = re.compile(r"(?:preload|cupti|writer|scripts|tests|\.ci|\.github)/[\w./-]*[\w-]")

problems = []


def problem(path, line, text):
    problems.append(f"{path}:{line}: {text}")


def documents(pattern="*.md"):
    """Tracked pages and new ones that git does not ignore."""
    out = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", pattern], cwd=ROOT,
                         capture_output=True, text=True, check=True).stdout
    return sorted(name for name in set(out.split("\0")) if name and (ROOT / name).is_file())


def is_prose(path):
    """Whether the rules on sentences apply to a page: to pages for users, not to those of source folders."""
    return path in ("README.md", "scripts/LIMITS.md", "scripts/CHANGELOG.md") or path.startswith(("scripts/guide/", ".github/"))


def blank(pattern, text):
    """The text with all matches blanked; line numbers stay."""
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


def blocks(text):
    """(line, text, whether it is a cell) of each paragraph, list item and table cell, without code blocks, headings and
    comments."""
    text = blank(re.compile(r"<!--.*?-->", re.S), blank(FENCE, blank(GENERATED, text)))
    found, start, held = [], 0, []
    for number, line in enumerate(text.splitlines() + [""], 1):
        item = re.match(r"\s*(?:[-*]|\d+\.) +", line)
        if not line.strip() or item or line.lstrip().startswith(("#", "|")):
            if held:
                found.append((start, " ".join(held), False))
            held = []
        if line.lstrip().startswith("|") and not re.fullmatch(r"[|\s:-]+", line):
            found += [(number, cell, True) for cell in re.split(r"(?<!\\)\|", line) if cell.strip()]
        elif line.strip() and not line.lstrip().startswith(("#", "|")):
            start = start if held else number
            held.append(line[item.end():] if item else line.strip())
    return found


def sentences(text):
    """(line, words, whether in a table) of each sentence. Code between backticks is one word."""
    for line, block, is_cell in blocks(text):
        block = re.sub(r"``.*?``|`[^`]*`", "Code", block)
        block = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", block)
        block = re.sub(r"[*_]{1,2}(?=\S)|(?<=\S)[*_]{1,2}", "", block)
        for sentence in re.split(r"(?<=[.!?])[)\"']*\s+(?=[A-Z0-9(\"'])", block):
            words = re.findall(r"[^\s]*[A-Za-z0-9][^\s]*", sentence)
            if words:
                yield line, words, is_cell


def check_sentences(path, text):
    lengths = []  # without cells, which are short and would hide long sentences
    for line, words, is_cell in sentences(text):
        if not is_cell:
            lengths.append(len(words))
        if len(words) > MOST_WORDS:
            problem(path, line, f"sentence of {len(words)} words; at most {MOST_WORDS}: {' '.join(words[:8])} …")
    if lengths and statistics.median(lengths) > MOST_MEDIAN:
        problem(path, 1, f"the median sentence has {statistics.median(lengths):g} words; at most {MOST_MEDIAN}")


def check_docstrings(path, text):
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        indentation = " " * node.body[0].col_offset
        docstring = re.sub(rf"^{indentation} +\S.*$", "", ast.get_docstring(node, clean=False) or "", flags=re.M)
        docstring = re.sub(r"\.\s+[a-z]", lambda match: match[0].upper(), docstring)  # a sentence may begin with the name of an argument
        for line, words, _ in sentences(docstring):
            if len(words) > MOST_WORDS:
                problem(path, node.body[0].lineno + line - 1, f"sentence of {len(words)} words; at most {MOST_WORDS}: {' '.join(words[:8])} …")


def check_sizes(path, text):
    for number, line in enumerate(blank(GENERATED, text).splitlines(), 1):
        if len(line.rstrip()) > MOST_COLUMNS and (is_prose(path) or not line.startswith("|")):
            problem(path, number, f"{len(line)} columns; at most {MOST_COLUMNS}")
    lines, size = len(text.splitlines()), len(text.encode())
    if path == "README.md" and (lines > MOST_LINES or size > MOST_BYTES):
        problem(path, lines, f"{lines} lines and {size} bytes; at most {MOST_LINES} and {MOST_BYTES}")


@functools.lru_cache(None)
def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    found = set()
    for heading in re.findall(r"^#+ +(.*)$", blank(FENCE, text), re.M):
        name = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()).replace(" ", "-")
        while name in found:
            name += "-1"
        found.add(name)
    return found


def check_links(path, text):
    code = blank(re.compile(r"`[^`\n]*`"), blank(FENCE, text))
    for number, line in enumerate(code.splitlines(), 1):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = (ROOT / path).parent / name
            if name and not file.exists():
                problem(path, number, f"no such file: {target}")
            elif anchor and anchor not in anchors(file.read_text() if name else text):
                problem(path, number, f"no such heading: {target}")


@functools.lru_cache(None)
def targets():
    """The targets of make."""
    text = "".join((ROOT / name).read_text() for name in ("Makefile", "tests/programs.mk", "tests/sanitize.mk", "tests/sim/sim.mk",
                                                           "scripts/install.mk") if (ROOT / name).is_file())
    return set(re.findall(r"^## ([a-z0-9-]+): ", text, re.M)) | set(re.findall(r"^([a-z0-9-]+):(?!=)", text, re.M))


@functools.lru_cache(None)
def options(command):
    """The options of a sub-command of cprof; None if there is no such command."""
    sys.path.insert(0, str(ROOT / "scripts/python"))
    tool = importlib.import_module("cprof.tool")
    if command not in tool.COMMANDS:
        return None
    whole = "--help-all" if command in ("run", "env") else "--help"
    help_text = subprocess.run([sys.executable, ROOT / "scripts/cprof", command, whole], capture_output=True, text=True).stdout
    return set(re.findall(r"(?<![\w-])(--?[A-Za-z][\w-]*)", help_text))


def check_command(path, number, line):
    """Checks that the commands, options and targets in a shell line exist."""
    line = re.sub(r"(^|\s)#.*", "", line)
    for match in re.finditer(r"(?:^|[\s(;&|\"])(?:scripts/)?cprof +([a-z][\w-]*)((?: +[^;&|)]*)?)", line):
        known = options(match.group(1))
        if known is None:
            problem(path, number, f"no such command: cprof {match.group(1)}")
            continue
        own = re.split(r" -- ", match.group(2))[0]
        for option in re.findall(r"(?<!\S)(--[a-z][\w-]*)", own):
            if option not in known:
                problem(path, number, f"cprof {match.group(1)} has no option {option}")
    for match in re.finditer(r"(?:^|[\s(;&|])make((?: +[^\s;&|)]+)*)", line):
        for word in match.group(1).split():
            if re.fullmatch(r"[a-z][a-z0-9-]*", word) and word not in targets():
                problem(path, number, f"no such target: make {word}")


@functools.lru_cache(None)
def known_names():
    """Every CPROF_ name of config.def, cprof.h and the build."""
    files = ["preload/settings/config.def", "preload/cprof.h"]
    return set(re.findall(r"CPROF_[A-Z0-9_]+", "".join((ROOT / file).read_text() for file in files)))


@functools.lru_cache(None)
def functions():
    """Every cprof_ name of the headers in preload/, and every metric."""
    files = [*(ROOT / "preload").rglob("*.h"), ROOT / "writer/metrics.c"]
    return set(re.findall(r"\bcprof_[a-z_]+", "".join(file.read_text() for file in files)))


def check_code(path, text):
    for match in SHELL.finditer(text):
        first = text.count("\n", 0, match.start(1)) + 1
        for offset, line in enumerate(match.group(1).splitlines()):
            check_command(path, first + offset, line)
            check_paths(path, first + offset, line)
    for number, line in enumerate(blank(FENCE, text).splitlines(), 1):
        for code in re.findall(r"`([^`]+)`", line):
            if code.startswith(("cprof ", "make ", "scripts/")):
                check_command(path, number, code)
            check_paths(path, number, code)
            for name in re.findall(r"(?<![\w./])cprof_[a-z_]+[a-z](?![\w*.-])", code):
                if name not in functions():
                    problem(path, number, f"no such function or metric: {name}")
    for number, line in enumerate(text.splitlines(), 1):
        for name in re.findall(r"CPROF_[A-Z0-9_]*[A-Z0-9]\b", line):
            if name not in known_names():
                problem(path, number, f"no such name in config.def or cprof.h: {name}")


def check_paths(path, number, code):
    """Checks that the paths in a piece of code exist, relative to the root or to the page's folder."""
    for name in re.findall(rf"(?<![\w./$<>{{}}*-]){PATH.pattern}(?![\w*{{<…])", code):
        if not (ROOT / name).exists() and not ((ROOT / path).parent / name).exists():
            problem(path, number, f"no such file: {name}")


def check_completeness():
    """Checks that everything that must be documented is."""
    readme, settings = (ROOT / "README.md").read_text(), (ROOT / "scripts/guide/settings.md").read_text()
    for command in ("make demo", "make test"):
        if not re.search(rf"^{command}\b", readme, re.M):
            problem("README.md", 1, f"does not show `{command}`")
    for name, state in re.findall(r"^X\((\w+),.*, (NOW|INTERNAL), ", (ROOT / "preload/settings/config.def").read_text(), re.M):
        if state == "NOW" and f"`{name}`" not in settings:
            problem("scripts/guide/settings.md", 1, f"does not describe {name}")
    format_page = (ROOT / "writer/README.md").read_text()
    for key in re.findall(r'^LOSS\(\w+, "(\w+)"', (ROOT / "writer/record/losses.def").read_text(), re.M):
        if f"`{key}`" not in format_page:
            problem("writer/README.md", 1, f"does not describe the loss {key}")


def main():
    for name in sys.argv[1:]:
        lengths = [len(words) for _, words, is_cell in sentences(pathlib.Path(name).read_text()) if not is_cell]
        print(f"{name}: {len(lengths)} sentences, median {statistics.median(lengths):g} words, longest {max(lengths)}")
    for path in documents():
        text = (ROOT / path).read_text()
        if is_prose(path):
            check_sentences(path, text)
        check_sizes(path, text)
        check_links(path, text)
        check_code(path, text)
    for path in documents("*.py"):
        check_docstrings(path, (ROOT / path).read_text())
    check_completeness()
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
