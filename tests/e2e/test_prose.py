# SPDX-License-Identifier: Apache-2.0
"""scripts/lint/check_prose.py finds each mistake: every rule is broken once in an otherwise good page."""

import importlib.util
import re

import pytest

from conftest import ROOT

spec = importlib.util.spec_from_file_location("check_prose", ROOT / "scripts/lint/check_prose.py")
prose = importlib.util.module_from_spec(spec)
spec.loader.exec_module(prose)

FINE = """\
# A page

It has short sentences. [A link](../LIMITS.md#gpu) leads to a heading; [this one](#a-page) to its own.

- An item names `CPROF_ACTIVE`, `make test`, `cprof top --sort-by` and `scripts/demo.sh`.

| a | table |
| --- | --- |
| with | cells of a few words each |

```sh
cprof run --active 3 -- python train.py --epochs 2
make bench BENCH_ARGS="--only hook"
```
"""
PAGE = "scripts/guide/page.md"


def found(text, path=PAGE):
    """The problems that the checks of one page find in a text."""
    prose.problems.clear()
    for check in (prose.check_sentences, prose.check_sizes, prose.check_links, prose.check_code):
        check(path, text)
    return list(prose.problems)


def test_accepts_a_good_page():
    assert found(FINE) == []


def words(n):
    return " ".join(["Word"] * n) + ".\n"


BROKEN = [
    ("\n" + words(36), "sentence of 36 words"),
    ("\n- " + words(36), "sentence of 36 words"),
    ("\n| " + words(36).strip()[:-1] + " |\n", "sentence of 36 words"),
    ("\n" + words(17) * 5, "the median sentence has 17 words"),
    ("\n" + "x" * 121 + "\n", "121 columns; at most 120"),
    ("\n[gone](../GONE.md)\n", "no such file: ../GONE.md"),
    ("\n[gone](../LIMITS.md#gone)\n", "no such heading: ../LIMITS.md#gone"),
    ("\n[gone](#gone)\n", "no such heading: #gone"),
    ("\n![gone](gone.png)\n", "no such file: gone.png"),
    ("\n```sh\ncprof gone TRACE\n```\n", "no such command: cprof gone"),
    ("\n```sh\neval \"$(cprof gone)\"\n```\n", "no such command: cprof gone"),
    ("\n```sh\ncprof top --gone TRACE\n```\n", "cprof top has no option --gone"),
    ("\n```sh\nmake gone\n```\n", "no such target: make gone"),
    ("\n```sh\nscripts/gone.sh\n```\n", "no such file: scripts/gone.sh"),
    ("\nType `cprof gone`.\n", "no such command: cprof gone"),
    ("\nType `make gone`.\n", "no such target: make gone"),
    ("\nRead `preload/gone.c`.\n", "no such file: preload/gone.c"),
    ("\nCall `cprof_gone()`.\n", "no such function or metric: cprof_gone"),
    ("\nSet `CPROF_GONE=1`.\n", "no such name in config.def or cprof.h: CPROF_GONE"),
]


@pytest.mark.parametrize("broken, said", BROKEN, ids=[said.replace(" ", "-") for _, said in BROKEN])
def test_finds_each_broken_rule(broken, said):
    assert any(said in problem for problem in found(FINE + broken)), prose.problems


def test_source_folder_pages_may_have_long_sentences():
    """Rows of tables may be long, too; other lines may not."""
    assert "README.md" in prose.documents() and not prose.is_prose("writer/README.md")
    prose.problems.clear()
    prose.check_sizes("writer/README.md", "| " + "x" * 130 + " |\n" + "y" * 121 + "\n")
    assert len(prose.problems) == 1 and ":2:" in prose.problems[0]


@pytest.mark.parametrize("text", ["line\n" * 201, "é" * 7169])
def test_finds_a_readme_that_is_too_long(text):
    prose.problems.clear()
    prose.check_sizes("README.md", text)
    assert any("at most 200 and 14336" in problem for problem in prose.problems)


@pytest.mark.parametrize("page, text", [("README.md", "make demo"), ("README.md", "make test"), ("scripts/guide/settings.md", "`CPROF_SUMMARY_MB`"),
                                        ("writer/README.md", "`ring_full`")])
def test_finds_missing_settings_and_commands(page, text, tmp_path, monkeypatch):
    for name in ("README.md", "scripts/guide/settings.md", "writer/README.md", "preload/settings/config.def", "writer/record/losses.def"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text((ROOT / name).read_text())
    monkeypatch.setattr(prose, "ROOT", tmp_path)
    prose.problems.clear()
    prose.check_completeness()
    assert prose.problems == []
    (tmp_path / page).write_text((ROOT / page).read_text().replace(text, "gone"))
    prose.check_completeness()
    assert len(prose.problems) == 1 and re.search(page, prose.problems[0])
