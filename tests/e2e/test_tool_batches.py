# SPDX-License-Identifier: Apache-2.0
"""Sums over spans are the same with numpy and without it, on random traces."""

import random

import pytest

import tool
from cprof.tool import averages, breakdown, compare, span_batches, spans

CATEGORIES = {"aten::a": "cpu_op", "aten::b": "cpu_op", "a": "user_annotation", "gloo:all_reduce": "user_annotation", "nccl:x": "user_annotation",
              "cudaLaunchKernel": "cuda_runtime", "lib": "library_call"}


def events(chance):
    """Spans that nest, overlap or take no time, ranges of transfers, work, memory and steps, mostly at the same few times."""
    last, most = chance.choice([30, 300, 3000]), chance.choice([5, 50, 400])
    found = []

    def span(start, end, name=None):
        name = name or chance.choice(list(CATEGORIES))
        args = {key: chance.randint(1, 40) for key in ("External id", "correlation", "flops") if chance.random() < 0.4}
        found.append(dict(tool.span(name, start, end - start, cat=CATEGORIES[name], tid=chance.choice([5000, 5000, 5001])), args=args))

    def nest(low, high, depth):
        cuts = sorted(chance.randint(low, high) for _ in range(2 * chance.randint(0, 4)))
        for start, end in zip(cuts[::2], cuts[1::2]):
            if depth < 7 and len(found) < most:
                span(start, end, "aten::a" if chance.random() < 0.3 else None)
                nest(start, end, depth + 1)

    nest(0, last, 0)
    for _ in range(chance.choice([0, 5])):
        start = chance.randint(0, last)
        span(start, chance.randint(start, last))
    at = 0
    for step in range(chance.choice([0, 1, 3])):
        end = at + chance.randint(1, last // 3)
        found.append(dict(tool.span(f"ProfilerStep#{step}", at, end - at, cat="user_annotation", tid=4194305), args={"thread": 5000}))
        at = end + chance.choice([0, 3])
    if chance.random() < 0.3:
        found.append(tool.span("ProfilerStep#1", 1, last // 2, cat="user_annotation"))
    for _ in range(chance.choice([0, 40])):
        number = chance.randint(1, 40)
        found.append(tool.span("kernel", chance.randint(0, last), chance.randint(0, 9), cat="kernel", pid=0, tid=7, device=0, stream=7, External_id=number,
                               correlation=chance.randint(1, 40)))
    for _ in range(chance.choice([0, 60])):
        found.append(tool.memory(chance.randint(0, last), chance.randint(-50, 50), 4096, device=chance.choice([0, 1])))
    if chance.random() < 0.5:
        chance.shuffle(found)
    return found


def answers(path):
    found = averages.Averages()
    found.add(path)
    side = compare.Side(path, [path], False)
    return [found.table(row_limit=-1), found.below, side.cells, side.calls, side.whole, *(breakdown.breakdown(by, [path])[1] for by in ("step", "category") if by != "step" or '"ProfilerStep#' in open(path).read())]


def test_numpy_gives_the_same_sums(tmp_path, monkeypatch):
    pytest.importorskip("numpy")
    seen = []
    fits = span_batches.fits
    monkeypatch.setattr("cprof.tool.span_roots.fits", lambda *args: seen.append(fits(*args)) or seen[-1])
    for seed in range(60):
        chance = random.Random(seed)
        path = str(tool.write(tmp_path / "t.json", events(chance) + [tool.span("aten::a", 1, 2)], profile_memory=1,
                              **({"cprof": {}} if chance.random() < 0.5 else {})))
        monkeypatch.setattr(span_batches, "WORTH", 1 << 40)
        monkeypatch.setattr(spans, "AT_A_TIME", 1 << 14)
        expected = answers(path)
        assert not any(seen[-2:])
        monkeypatch.setattr(span_batches, "WORTH", 0)
        monkeypatch.setattr(spans, "AT_A_TIME", chance.choice([1, 5, 40]))
        monkeypatch.setattr(span_batches, "AT_ONCE", chance.choice([1, 7, 100]))
        monkeypatch.setattr(spans, "SORTED_AT_ONCE", chance.choice([1, 3, 17, 1 << 16]))
        assert answers(path) == expected, seed
    assert sum(seen) > 100


def test_large_sums_fall_back_to_python(tmp_path, monkeypatch):
    pytest.importorskip("numpy")
    path = str(tool.write(tmp_path / "t.json", [tool.span("aten::a", 0, 3e15), tool.span("aten::b", 0, 3e15)] * 4))
    monkeypatch.setattr(span_batches, "WORTH", 0)
    found = averages.Averages()
    found.add(path)
    assert {row.key: row.cpu_ns for row in found} == {"aten::a": 12 * 10**18, "aten::b": 12 * 10**18}
