# SPDX-License-Identifier: Apache-2.0
"""tests/explore runs the rings and thread logs through every interleaving that C11 allows. To prove that the explorer finds mistakes, each
mistake of MISTAKES is put into the source and must make it fail."""

import os
import re
import shutil
import subprocess

import pytest

from conftest import BUILD, ROOT

COMPILER = shutil.which(os.environ.get("CC", "cc"))
FLAGS = ["-std=gnu11", "-D_GNU_SOURCE=", "-O1", "-w", "-fsanitize=thread"]

# mistake: (file, correct text, wrong text)
MISTAKES = {
    "commit does not publish the record":
        ("ring.h", "r->reserved + r->filling, memory_order_release", "r->reserved + r->filling, memory_order_relaxed"),
    "the consumer does not see what was published":
        ("ring.h", "(&r->head, memory_order_acquire)", "(&r->head, memory_order_relaxed)"),
    "slots are given back before they were read":
        ("ring.h", "tail + rec->slots, memory_order_release", "tail + rec->slots, memory_order_relaxed"),
    "the producer does not wait for the reader":
        ("ring.h", "(&r->tail, memory_order_acquire)", "(&r->tail, memory_order_relaxed)"),
    "no room is needed for the pad":
        ("ring.h", "slots <= to_end ? slots : to_end + slots", "slots"),
    "the pad is not part of what is reserved":
        ("ring.h", "head += to_end;", ""),
    "the end of a thread is looked at after its ring":
        ("thread_log.c", """\
        log->ended = atomic_load_explicit(&log->state, memory_order_acquire) == THREAD_ENDED;
        log->until = ring_head(&log->ring);
""", """\
        log->until = ring_head(&log->ring);
        log->ended = atomic_load_explicit(&log->state, memory_order_acquire) == THREAD_ENDED;
"""),
    "the end of a thread does not publish its records":
        ("thread_log.c", "THREAD_ENDED, memory_order_release", "THREAD_ENDED, memory_order_relaxed"),
    "a log is given back before it was emptied":
        ("thread_log.c", "THREAD_FREE, memory_order_release", "THREAD_FREE, memory_order_relaxed"),
    "a place goes to two threads":
        ("thread_log.c", "while (!atomic_compare_exchange_strong(&slab_next, &next, next + place_bytes() - 1));",
         "while (atomic_store(&slab_next, next + place_bytes() - 1), false);"),
}


def run_explorer(program):
    return subprocess.run([program], capture_output=True, text=True, timeout=300)


def test_every_interleaving_is_correct():
    done = run_explorer(BUILD / "explore/ring")
    assert done.returncode == 0, done.stderr
    states = {name: int(n) for name, n in re.findall(r"(\w+): \d+ runs, (\d+) states", done.stdout)}
    assert states["ring"] > 1000 and states["threads"] > 100000 and states["places"] > 1000


@pytest.fixture(scope="module")
def runtime(tmp_path_factory):
    path = tmp_path_factory.mktemp("explore") / "explore.o"
    subprocess.run([COMPILER, *FLAGS[:-1], f"-I{ROOT}", "-c", "-o", path, ROOT / "tests/explore/explore.c"], check=True, timeout=120)
    return path


@pytest.mark.parametrize("mistake", MISTAKES)
def test_explorer_finds_each_planted_mistake(tmp_path, runtime, mistake):
    name, right, wrong = MISTAKES[mistake]
    text = (ROOT / "writer/record" / name).read_text()
    assert text.count(right) == 1, f"{name} has changed: {right} stands there {text.count(right)} times"
    (tmp_path / "writer/record").mkdir(parents=True)
    (tmp_path / "writer/record" / name).write_text(text.replace(right, wrong))
    subprocess.run([COMPILER, *FLAGS, f"-I{tmp_path}", f"-I{ROOT}", "-c", "-o", tmp_path / "ring.o",
                    ROOT / "tests/explore/explore_ring.c"], check=True, timeout=120)
    subprocess.run([COMPILER, "-o", tmp_path / "ring", runtime, tmp_path / "ring.o", "-lpthread"], check=True, timeout=120)
    done = run_explorer(tmp_path / "ring")
    assert done.returncode == 1 and "; choices " in done.stderr, done.stdout + done.stderr
