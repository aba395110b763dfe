# SPDX-License-Identifier: Apache-2.0
"""`cprof memory-timeline`: the same allocations as torch's export_memory_timeline, the category of each allocation, each form of file,
and the page in a real browser."""

import gzip
import json
import os
import re

import pytest

import pages
import tool

(PARAMETER, OPTIMIZER_STATE, INPUT, TEMPORARY, ACTIVATION, GRADIENT, AUTOGRAD_DETAIL, UNKNOWN) = range(8)
CREATE, DESTROY = 2, 4
BASE = 10**18


def training():
    """A step with an allocation of each category: taken at 100 * address, released at `end`."""
    spans = [tool.span("ProfilerStep#3", 0.0, 2000.0, cat="user_annotation"),
             tool.span("enumerate(DataLoader)#x.__next__", 90.0, 20.0, cat="user_annotation"),
             tool.span("aten::linear", 190.0, 120.0), tool.span("aten::addmm", 295.0, 10.0),
             tool.span("aten::relu", 390.0, 20.0),
             tool.span("autograd::engine::evaluate_function: MmBackward0", 480.0, 60.0), tool.span("MmBackward0", 490.0, 40.0),
             tool.span("autograd::engine::evaluate_function: AddBackward0", 590.0, 60.0),
             tool.span("Optimizer.step#SGD.step", 690.0, 150.0, cat="user_annotation"), tool.span("aten::add_", 695.0, 100.0)]
    kept = [(1, INPUT, 1500), (2, TEMPORARY, 310), (3, ACTIVATION, 520), (4, TEMPORARY, 450), (5, AUTOGRAD_DETAIL, 600),
            (6, GRADIENT, 700), (7, OPTIMIZER_STATE, None), (8, TEMPORARY, 820), (9, UNKNOWN, None)]
    events = []
    for address, _, end in kept:
        events.append(tool.memory(100.0 * address, 1000 + address, address, total=5000))
        if end:
            events.append(tool.memory(float(end), -1000 - address, address))
    return spans + events, {1000 + address: category for address, category, _ in kept}


def raw(trace, folder, *args):
    """The rows of the raw form."""
    out = folder / "out.raw.json.gz"
    result = tool.cprof("memory-timeline", trace, "-o", out, *args)
    assert result.rc == 0 and result.err == "", result.err
    return json.loads(gzip.decompress(out.read_bytes()))


def test_classifies_each_allocation(tmp_path):
    events, expected = training()
    trace = tool.write(tmp_path / "t.json", events, baseTimeNanoseconds=BASE)
    rows = raw(trace, tmp_path)
    assert rows[0] == [-1, 1, 5000 - 1001, UNKNOWN]  # memory that was in use before the first allocation
    assert {size: category for _, action, size, category in rows[1:] if action == CREATE} == expected
    assert all(category == expected[-size] for _, action, size, category in rows if action == DESTROY)
    assert rows[1][0] == BASE + 100_000 and [row[0] for row in rows[1:]] == sorted(row[0] for row in rows[1:])


def test_writes_the_coalesced_form(tmp_path):
    events, _ = training()
    trace = tool.write(tmp_path / "t.json", events, baseTimeNanoseconds=BASE)
    for name in ("out.json", "out.json.gz"):
        assert tool.cprof("memory-timeline", trace, "-o", tmp_path / name).rc == 0
    times, sizes = json.loads((tmp_path / "out.json").read_text())
    assert [times, sizes] == json.loads(gzip.decompress((tmp_path / "out.json.gz").read_bytes()))
    assert times[:2] == [BASE // 1000 + 100] * 2 and len(times) == len(sizes)
    assert sizes[0] == [0, 0, 0, 0, 0, 0, 0, 0, 3999] and sizes[1] == [0, 0, 0, 1001, 0, 0, 0, 0, 3999]
    assert sum(sizes[-1]) == 3999 + 1007 + 1009


def test_allocations_equal_torchs(torch_run, tmp_path):
    """torch also knows tensors from before the trace. All allocations inside are the same."""
    if not (torch_run / "stack.raw.json.gz").is_file():
        pytest.skip("this torch has no export_memory_timeline")
    theirs = json.loads(gzip.decompress((torch_run / "stack.raw.json.gz").read_bytes()))
    ours = raw(torch_run / "stack.json", tmp_path)
    made = [(time, size) for time, action, size, _ in ours if action == CREATE]
    assert len(made) > 30 and sorted(made) == sorted((time, size) for time, action, size, _ in theirs if action == CREATE)
    for category in (GRADIENT, AUTOGRAD_DETAIL):
        assert sum(row[2] for row in ours if row[1] == CREATE and row[3] == category) == \
            sum(row[2] for row in theirs if row[1] == CREATE and row[3] == category) > 0


def test_gradients_are_as_large_as_parameters(our_trace, tmp_path):
    """Each step takes gradients as large as the parameters, and no more is released than was taken."""
    parameters = 64 * 64 + 64 + 8 * 64 + 8
    rows = raw(our_trace, tmp_path)
    assert sum(size for _, action, size, category in rows if action == CREATE and category == GRADIENT) >= 4 * parameters
    live = 0
    for _, _, size, _ in rows:
        live += size
        assert live >= 0


def test_selects_a_device_and_refuses_bad_outputs(tmp_path):
    trace = tool.write(tmp_path / "t.json", [tool.memory(1.0, 10, 1), tool.memory(2.0, 20, 1, device=1, index=0),
                                             tool.memory(3.0, 30, 1, device=1, index=1)])
    assert [row[2] for row in raw(trace, tmp_path)] == [20]
    assert [row[2] for row in raw(trace, tmp_path, "--device", "cuda:1")] == [30]
    assert [row[2] for row in raw(trace, tmp_path, "--device", "cpu")] == [10]
    tool.refused(tool.cprof("memory-timeline", trace, "-o", "x.json", "--device", "cuda:5"), "cpu, cuda:0, cuda:1")
    tool.refused(tool.cprof("memory-timeline", trace, "-o", "x.png"), "x.png", ".html")
    tool.refused(tool.cprof("memory-timeline", trace, "-o", "none/x.html"), "none/x.html", "No such file")
    without = tool.write(tmp_path / "w.json", [tool.span("aten::add", 0, 1)])
    tool.refused(tool.cprof("memory-timeline", without, "-o", "x.html"), "CPROF_PROFILE_MEMORY=1")
    recorded = tool.write(tmp_path / "r.json", [tool.span("aten::add", 0, 1)], profile_memory=1)
    refused = tool.cprof("memory-timeline", recorded, "-o", "x.html")
    tool.refused(refused, "holds no tensor memory", "no PyTorch tensor")
    assert "CPROF_PROFILE_MEMORY" not in refused.err
    assert os.listdir(".") and not os.path.exists("x.html")


@pages.needed
@pytest.mark.parametrize("name", ["ProfilerStep#7", "torch.profiler step 7"])  # the second name is all that a run killed in its first step has
def test_page_names_steps(name, tmp_path):
    trace = tool.write(tmp_path / "t.json", [tool.span(name, 0.0, 90.0, cat="user_annotation"), tool.memory(10.0, 64, 1)])
    assert tool.cprof("memory-timeline", trace, "-o", tmp_path / "out.html").rc == 0
    assert re.findall(r">(step [^<]*)<", (tmp_path / "out.html").read_text()) == ["step 7"]


def test_page_shows_peaks_and_allocations(tmp_path):
    events, _ = training()
    events += [tool.memory(200.0, 1 << 30, 77, device=1, index=0), tool.memory(900.0, -(1 << 30), 77, device=1, index=0)]
    events.append(tool.span("<!--<script></script><b>é", 850.0, 100.0))
    events.append(tool.memory(860.0, 9000, 99))
    trace = tool.write(tmp_path / "t.json", events)
    out = tmp_path / "out.html"
    assert tool.cprof("memory-timeline", trace, "-o", out).rc == 0
    text = out.read_text()
    assert not re.search(r"https?:|src=|href=|@import|url\(", text)  # self-contained
    with pages.Page(out) as page:
        assert page("failed") == [] and page.requests == []
        assert page("[...document.querySelectorAll('h2')].map(h => h.textContent)") == ["cuda:0", "cpu"]
        peaks = page("[...document.querySelectorAll('b.peak')].map(text => text.textContent)")
        assert peaks == ["peak 1.00 GB at 200.000us", "peak 15.64 KB at 900.000us"]
        shown = page("document.querySelectorAll('svg.memory')[1].querySelectorAll('[data-category]').length")
        assert shown == len({INPUT, TEMPORARY, ACTIVATION, GRADIENT, AUTOGRAD_DETAIL, OPTIMIZER_STATE, UNKNOWN})
        page("document.querySelectorAll('svg.memory')[1].scrollIntoView()")
        box = page("(() => { const b = document.querySelectorAll('svg.memory')[1].getBoundingClientRect();"
                   " return [b.left, b.top, b.width, b.height]; })()")
        tip = page.point_at(int(box[0] + box[2] * 0.1751) + 1, box[1] + box[3] / 2)  # 350 us, or a column or two more
        assert tip.startswith(("350.", "351.", "352.")) and "activation" in tip and "aten::addmm > aten::linear" in tip, tip
        assert "<!--<script></script><b>é" in page.point_at(box[0] + box[2] * 0.8, box[1] + box[3] / 2)
        picture = tool.BUILD_PICTURES / "memory.png"
        picture.parent.mkdir(parents=True, exist_ok=True)
        page.picture(picture)
        assert picture.stat().st_size > 10_000
