#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the rules of the source tree that a compiler does not know. Prints `file:line: text` for each broken rule, and then exits 1.

- layers: includes go preload -> cupti -> writer and preload -> writer, only through the other folder's public header
- no calls that would end the host, write to its stdout, bypass the settings to read its environment, use another library's dlsym(), or walk
  the loader's list without regard to forks
- in the file of the thread with its own descriptor table: only system calls, no library functions
- in the command: no output that bypasses screen.py, and no file opened without _untrusted.py
- files of at most 800 lines, functions of at most 90, lines of C and C++ of at most 100 columns
- one style for braces and comparisons with NULL; no header included twice
- a comment at each header prototype and each _Atomic field
- SPDX and a purpose at the top of each file; no left-over marks; no path of one machine, no package host

A comment on a line or directly above it allows an exception: /* lint: allow */, in Python # lint: allow.
"""

import os
import pathlib
import re
import subprocess
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYERS = {"preload": {"cupti", "writer"}, "cupti": {"writer"}, "writer": set()}
PUBLIC = {"preload/cprof.h", "cupti/gpu_trace.h", "writer/writer.h"}
MAX_FILE, MAX_FUNCTION, MAX_LINE = 800, 90, 100

FORBIDDEN = re.compile(r"(?<![\w.>])(exit|_exit|_Exit|quick_exit|abort|assert|printf|vprintf|puts|putchar|system|popen)\s*\(")
GETENV = re.compile(r"(?<![\w.>])(getenv|secure_getenv)\s*\(")
WALK = re.compile(r"(?<![\w.>])dl_iterate_phdr\s*\(")
LOOKUP = re.compile(r"(?<![\w.>])dlv?sym\s*\(")
TIMED = re.compile(r"\b(pthread_\w+_timed\w+|sem_timedwait)\s*\(")
# The file that runs with its own descriptor table (writer/base/io_server.h), and all that it may call.
SERVER = "writer/base/io_server.c"
SERVER_CALLS = {"raw_syscall", "futex_wait", "futex_wake", "atomic_load", "atomic_store", "give_turn", "io_serve"}
PRINTS = re.compile(r"(?<![\w.])print\s*\(|\bsys\.(__)?std(out|err)(__)?\.(write|writelines|buffer)|file=sys\.")
OPENS = re.compile(r"(?<![\w.])open\s*\(|\b(os|io|gzip|codecs)\.open\s*\(|\.read_(text|bytes)\s*\(")
COMMAND = "scripts/python/cprof/tool/"
# Each mark is in two parts, so that this file does not find itself.
MARKS = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
PACKAGE_HOST = re.compile(r"https?://[^\s/]*(pypi|pythonhosted|pytorch|debian|ubuntu|npmjs|anaconda|nvidia)\.(org|com)")
TEXT_SUFFIXES = {".c", ".h", ".def", ".py", ".sh", ".cpp", ".map"}

problems = []


def problem(path, line, text):
    problems.append(f"{path}:{line}: {text}")


def project_files():
    """Tracked files and new ones that git does not ignore."""
    out = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                         capture_output=True, text=True, check=True).stdout
    return sorted(name for name in set(out.split("\0")) if name and (ROOT / name).is_file())


def without_comments(text, strings=False):
    """The C text with comments (and strings, if asked) blanked; line numbers stay."""
    def blank(match):
        found = match.group()
        if not found.startswith("/") and not strings:
            return found
        return re.sub(r"[^\n]", " ", found)

    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def allowed(lines, number):
    """Whether line `number` (from 1), or a comment line above it, says `lint: allow`."""
    above = lines[number - 2] if number > 1 else ""
    return "lint: allow" in lines[number - 1] or "lint: allow" in above and above.lstrip().startswith(("/*", "//", "*", "#"))


def check_layers(path, lines, code):
    folder = path.split("/")[0]
    for number, line in enumerate(code.splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not match or allowed(lines, number):
            continue
        target = match.group(1)
        other = target.split("/")[0]
        if "/" not in target:
            problem(path, number, f'include "{target}" must be written from the repository root')
        elif other in LAYERS and other != folder:
            if other not in LAYERS[folder]:
                problem(path, number, f"{folder}/ must not include from {other}/")
            elif target not in PUBLIC:
                problem(path, number, f"{target} is private to {other}/")


def check_calls(path, lines, bare_lines):
    for number, line in enumerate(bare_lines, 1):
        match = FORBIDDEN.search(line)
        if match and not allowed(lines, number):
            problem(path, number, f"{match.group(1)}() in the host process")
        if GETENV.search(line) and path != "preload/settings/config.c" and not allowed(lines, number):
            problem(path, number, "getenv() outside preload/settings/config.c")
        if LOOKUP.search(line) and path != "writer/os/loader.c" and not allowed(lines, number):
            problem(path, number, "dlsym() outside writer/os/loader.c, whose loader_symbol() is the C library's own")
        match = TIMED.search(line)
        if match and not allowed(lines, number):
            problem(path, number, f"{match.group(1)}() uses a clock that can be set back; use lock_within() of writer/os/locks.h")
        if WALK.search(line) and path != "writer/os/loader.c" and not allowed(lines, number):
            problem(path, number, "dl_iterate_phdr() outside writer/os/loader.c, whose loader_walk() forks wait for")


def check_server(path, bare_lines):
    for number, line in enumerate(bare_lines, 1):
        for name in re.findall(r"\b(\w+)\s*\(", line):
            if name not in SERVER_CALLS | {"if", "for", "while", "switch", "return", "sizeof"} and not line.startswith("#"):
                problem(path, number, f"{name}() on the thread with its own descriptor table")


def without_strings(text):
    """The lines of Python text with strings and comments blanked."""
    lines = text.splitlines(keepends=True)
    for token in tokenize.generate_tokens(iter(lines).__next__):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            (first, begin), (last, end) = token.start, token.end
            for number in range(first, last + 1):
                line = lines[number - 1]
                start, stop = begin if number == first else 0, end if number == last else len(line)
                lines[number - 1] = line[:start] + " " * (stop - start) + line[stop:]
    return lines


def check_command(path, text, lines):
    """Text of files and processes comes in through one module, and goes out through one."""
    name = path[len(COMMAND):]
    for number, line in enumerate(without_strings(text), 1):
        if PRINTS.search(line) and name not in ("screen.py", "progress.py") and not allowed(lines, number):
            problem(path, number, "prints without screen.py, which keeps control characters from terminals")
        if OPENS.search(line) and name not in ("output.py", "screen.py") and not allowed(lines, number):
            problem(path, number, "opens a file without _untrusted.py (or output.py), which refuses pipes and devices")


def check_includes(path, lines):
    """No header is included twice. `lint: allow` is for the test that does so."""
    seen = set()
    for number, line in enumerate(lines, 1):
        match = re.match(r'\s*#\s*include\s+["<]([^">]+\.h)[">]', line)
        if match and match[1] in seen and not allowed(lines, number):
            problem(path, number, f"includes {match[1]} a second time")
        seen.add(match and match[1])


def check_sizes(path, lines):
    if len(lines) > MAX_FILE:
        problem(path, len(lines), f"{len(lines)} lines; at most {MAX_FILE}")
    if path.endswith((".c", ".h", ".cpp")):
        for number, line in enumerate(lines, 1):
            if len(line) > MAX_LINE:
                problem(path, number, f"{len(line)} columns; at most {MAX_LINE}")
    # clang-format puts only the braces of a function body into the first column.
    start = None
    for number, line in enumerate(lines, 1):
        if line == "{":
            start = number
        elif line == "}" and start:
            if number - start + 1 > MAX_FUNCTION:
                problem(path, start, f"function of {number - start + 1} lines; at most {MAX_FUNCTION}")
            start = None


def comment_above(lines, bare_lines, index, same_block):
    """Whether there is a comment line above lines[index], or above the code before it for which same_block is true."""
    index -= 1
    while index >= 0 and bare_lines[index].strip() and same_block(bare_lines[index]):
        index -= 1
    return index >= 0 and bool(lines[index].strip()) and not bare_lines[index].strip()


def check_prototypes(path, lines, bare_lines):
    """Neighbouring prototypes without a blank line between them may share the comment above them."""
    def same_block(code):
        return not code.rstrip().endswith(("{", "}")) and not code.lstrip().startswith("#")

    depth, start, statement, in_directive = 0, None, "", False
    for number, line in enumerate(bare_lines, 1):
        directive = in_directive or line.lstrip().startswith("#")
        in_directive = directive and line.endswith("\\")
        if directive or re.match(r"\s*extern\s+\{", line):  # extern "C", its string blanked
            continue
        if depth == 0 and line.strip():
            start = start or number
            statement += " " + line.strip()
        depth = max(0, depth + line.count("{") - line.count("}"))
        if depth == 0 and re.search(r"[;}]\s*$", line):
            statement = re.sub(r"__attribute__\s*\(\(.*?\)\)\s*(?=[;\w_])", "", statement)
            is_prototype = re.search(r"\w\s*\([^{]*\)[^{}=]*;$", statement) and \
                not re.match(r"\s*(typedef|_Static_assert|struct \w+ \{)", statement)
            on_its_lines = any(re.search(r"/\*|//", text) for text in lines[start - 1:number])
            if is_prototype and not on_its_lines and not comment_above(lines, bare_lines, start - 1, same_block):
                problem(path, start, "prototype without a comment")
            start, statement = None, ""


def check_atomics(path, lines, bare_lines):
    for number, line in enumerate(bare_lines, 1):
        if not re.match(r"\s+_Atomic\b[^()=]*;|\s+_Atomic\s*\([^)]*\)[^()=]*;", line):
            continue
        if not re.search(r"/\*|//", lines[number - 1]) and \
                not comment_above(lines, bare_lines, number - 1, lambda code: "_Atomic" in code):
            problem(path, number, "_Atomic field without a comment (who writes, who reads, which ordering)")


# A condition has `p` or `!p`. NULL is for values (`return p != NULL;`), and after an assignment.
NULL_CONDITION = re.compile(r"\b(?:if|while) \((?!\()[^=\n]*[^)=\n] [!=]= NULL\)(?! [!=]=)|[\w\])] [!=]= NULL\s+(?:&&|\|\||\?)|(?:&&|\|\|) !?[\w>.\[\]*-]+ [!=]= NULL")
BRANCH = re.compile(r"(\s*)(?:\} )?(else if|else|if|for|while)\b")


def branches(lines):
    """{line: (indentation, keyword, whether it has braces, lines of the body, line after it)} of each if, else and loop. Lines count from 0,
    and are formatted: a body is indented."""
    found = {}
    for first, line in enumerate(lines):
        head = BRANCH.match(line)
        if not head or line.endswith("\\"):
            continue
        last, depth = first, line.count("(") - line.count(")")
        while depth > 0 and last + 1 < len(lines):
            last += 1
            depth += lines[last].count("(") - lines[last].count(")")
        if lines[last].rstrip().endswith(";"):
            continue  # the end of do … while
        end = last + 1
        while end < len(lines) and (not lines[end].strip() or lines[end].startswith(("#", head[1] + " "))):
            end += 1
        body = [text.rstrip() for text in lines[last + 1:end] if text.strip()]
        found[first] = len(head[1]), head[2], lines[last].rstrip().endswith("{"), body, end
    return found


def is_one_statement(body):
    text = "\n".join(body)
    return text.count(";") == 1 and text.endswith(";") and "{" not in text and not re.match(r"\s*(if|for|while|do|switch|case|default|#)\b", text)


def check_braces(path, lines):
    """One statement has no braces, on however many lines. An if and its else have them either all or, if each is one statement, none."""
    found = branches(lines)
    for first, branch in found.items():
        if branch[1].startswith("else"):
            continue
        chain = [branch]
        while chain[-1][1] in ("if", "else if") and found.get(chain[-1][4], (None, ""))[:2] in [(branch[0], "else if"), (branch[0], "else")]:
            chain.append(found[chain[-1][4]])
        braces = [has for _, _, has, _, _ in chain]
        if any(braces) and all(is_one_statement(body) for _, _, _, body, _ in chain):
            problem(path, first + 1, "braces around one statement")
        elif any(braces) and not all(braces):
            problem(path, first + 1, "braces in some branches only")


def check_dialect(path, code):
    """The style: no braces around a single statement, no comparison with NULL in a condition."""
    for match in NULL_CONDITION.finditer(code):
        problem(path, code.count("\n", 0, match.start()) + 1, "a condition compares with NULL: p, !p")
    check_braces(path, code.split("\n"))


def check_head(path, lines):
    """The first comment (or docstring) must hold the SPDX line and then a sentence on the file."""
    head = [line for line in lines[:8] if not line.startswith("#!")]
    if not any("SPDX-License-Identifier: Apache-2.0" in line for line in head[:2]):
        problem(path, 1, "no SPDX line at the top")
        return
    purpose = [line for line in head if "SPDX" not in line and line.strip(" */#")][:2]
    is_comment = purpose and re.match(r'\s*(/\*|\*|//|#|r?""")', purpose[0]) and not re.match(r"#\s*(include|define|if)", purpose[0])
    words = re.findall(r"[A-Za-z]{2,}", " ".join(purpose))
    if not is_comment or len(words) < 4 or re.match(r"\W*(See|Implements|Implementation of) [\w/]+\.h\b", purpose[0]):
        problem(path, 2, "no sentence about the purpose of the file")


def check_text(path, lines, private):
    for number, line in enumerate(lines, 1):
        if MARKS.search(line):
            problem(path, number, "left-over mark")
        if PACKAGE_HOST.search(line):
            problem(path, number, "names a package host")
        if private.search(line):
            problem(path, number, "names a path of this machine")


def private_paths():
    """A pattern of paths that only this machine has: below the home folder, the checkout, or its parent folder."""
    shared = {"/", "/tmp/", "/home/", "/opt/", "/src/", "/srv/", "/usr/", "/usr/src/", "/usr/local/src/", "/var/tmp/", "/mnt/"}
    folders = {os.path.expanduser("~") + "/", f"{ROOT}/", f"{ROOT.parent}/"} - shared
    return re.compile(r"(?<![\w.~*$}-])(" + "|".join(map(re.escape, sorted(folders))) + ")")


def check_makefile():
    """Checks that each target for users has a line for `make help`."""
    text = "".join((ROOT / name).read_text() for name in project_files() if name == "Makefile" or name.endswith(".mk"))
    named = set(re.findall(r"^## ([a-z0-9-]+): \S", text, re.M))
    for group in re.findall(r"^\.PHONY: (.*)$", text, re.M):
        for target in group.split():
            # Helpers of other targets have no text of their own.
            if target not in named and target not in (".always", "e2e-programs", "bench-programs", "fuzz-programs"):
                problem("Makefile", 1, f"target {target} has no `## {target}: text`")


def main():
    private = private_paths()
    for path in project_files():
        data = (ROOT / path).read_bytes()
        if b"\0" in data:
            continue
        text = data.decode("utf-8", "replace")
        lines = text.splitlines()
        check_text(path, lines, private)
        suffix = pathlib.Path(path).suffix
        if suffix in TEXT_SUFFIXES or path.endswith(".mk") or path in ("Makefile", ".ci/run", "scripts/cprof"):
            check_head(path, lines)
            check_sizes(path, lines)
        if path.startswith(COMMAND):
            check_command(path, text, lines)
        if suffix in (".c", ".h", ".cpp"):
            check_dialect(path, without_comments(text, strings=True))
        if suffix in (".c", ".h", ".cpp", ".def"):
            check_includes(path, lines)
        if path.split("/")[0] in LAYERS and suffix in (".c", ".h", ".def"):
            check_layers(path, lines, without_comments(text))
            bare_lines = without_comments(text, strings=True).splitlines()
            check_calls(path, lines, bare_lines)
            check_atomics(path, lines, bare_lines)
            if path == SERVER:
                check_server(path, bare_lines)
            if suffix == ".h":
                check_prototypes(path, lines, bare_lines)
    check_makefile()
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
