# SPDX-License-Identifier: Apache-2.0
"""`cprof report` and the flame graph of `cprof stacks`: their numbers equal those of the other commands, and names from traces stay text. A page
is small, loads nothing else, and is readable on each kind of screen and on paper."""

import base64
import hashlib
import html.parser
import json
import pathlib
import random
import re
import shutil

import pytest
import torch

import pages
import support
import tool
from command_runs import ALLREDUCE
from test_command_merge import training
from test_explain import FIXTURES, Machine

MOST_BYTES = 1_000_000
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)></title></style><!--"
RUN = "run/torch_traces"


class _Tables(html.parser.HTMLParser):
    """The tables of a page by id. A row is a dictionary by column head; a number is its cell's sort value."""

    def __init__(self, text):
        super().__init__()
        self.tables, self.text, self._table, self._value = {}, {}, None, None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        told = dict(attributes)
        if tag == "table":
            self._table, self._heads = self.tables.setdefault(told.get("id"), []), []
        elif tag == "tr":
            self._row = []
        elif tag in ("td", "th"):
            self._value, self._words = told.get("data-v"), ""

    def handle_data(self, data):
        if self._table is not None:
            self._words += data

    def handle_endtag(self, tag):
        if tag == "th":
            self._heads.append(self._words)
        elif tag == "td":
            self._row.append(self._words if self._value is None else float(self._value))
        elif tag == "tr" and self._row:
            self._table.append(dict(zip(self._heads, self._row)))


def report(*args, out="report.html"):
    """The page as text. Checks its size."""
    result = tool.cprof("report", *args, "-o", out)
    assert result.rc == 0 and result.out == "", result.err
    text = pathlib.Path(out).read_text()
    assert pathlib.Path(out).stat().st_size <= MOST_BYTES
    return text


def of(*args):
    """The command's JSON output."""
    result = tool.cprof(*args, "--json")
    assert result.rc == 0, result.err
    return json.loads(result.out)


def gpu_run(steps=6, name="aten::linear", line="train.py(10): main", **more):
    """A trace of a GPU with steps, memory and a cprof object."""
    machine = Machine()
    for number in range(steps):
        begin = machine.now
        for n in range(4):
            machine.events.append(tool.memory(machine.now + 1, 1 << 20, 100 * number + n, device=1, index=0))
            machine.operator(name, line=line)
            if n:
                machine.events.append(tool.memory(machine.now, -(1 << 20), 100 * number + n, device=1, index=0))
        machine.events.append(tool.span(f"ProfilerStep#{number}", begin, machine.now - begin, "user_annotation", tid=4194305))
    account = {"version": "0.1.0", "flops": {"CUDA:0": {"flops": 4 * 10**12, "recompute_flops": 10**12, "tflops_per_s": 512.25, "mfu_percent": 41.5,
                                                       "hfu_percent": 55.0}}, "lost": {"ring_full": 12, "stacks_full": 0, "total": 12}}
    head = {"cprof": account, "deviceProperties": [{"name": "NVIDIA H100", "totalGlobalMem": 80 << 30}] * 2, "host_name": "node-7", "with_stack": 1}
    return tool.write("gpu.json", machine.events, **{**head, **more})


def eight_ranks(ranks=8, steps=6):
    """Traces of 8 ranks: rank 2 is late in step 3, rank 1 a little in every step."""
    folder = pathlib.Path(RUN)
    folder.mkdir(parents=True, exist_ok=True)
    for rank in range(ranks):
        one = training(rank, slow_ms=1.0 if rank == 1 else 0.0, steps=steps, world=ranks)
        if rank == 2:
            late = training(rank, slow_ms=5.0, steps=1, first=3, world=ranks)
            one.events = [event for event in one.events if event["name"] not in ("gemm", ALLREDUCE) or not in_step(one, event, 3)]
            one.events += [event for event in late.events if event["name"] in ("gemm", ALLREDUCE)]
        one.write(folder)


def in_step(rank, event, number):
    return rank.us(number * 12_000) <= event["ts"] < rank.us((number + 1) * 12_000)


def same_steps(text, summary):
    """Checks that the page's tables hold each step of the summary with the same numbers."""
    tables = _Tables(text).tables
    rows = {(row["step"], row["rank"], row["device"]): row for row in tables.get("steps-gpu", []) + tables.get("steps-cpu", [])}
    assert len(rows) == len(summary["steps"])
    names = {"computation": "computing", "exposed_comm": "communication", "exposed_memcpy": "copies", "cpu_late": "idle: CPU late",
             "sync": "idle: a call waited", "data": "idle: data", "between_steps": "idle: between steps", "other": "idle: other",
             "operators": "operators", "outside": "outside operators", "waiting": "waiting"}
    for step in summary["steps"]:
        row = rows[step["step"], step["rank"], step["device"]]
        assert row["ms"] == pytest.approx(step["total"], rel=1e-9)
        parts = {**step, **step.get("idle_causes", {})}
        for name, head in names.items():
            assert row.get(head, 0) == pytest.approx(parts.get(name, 0), rel=1e-9), (step, name)
        assert (row.get("left out") or None) == step["left_out"]


def same_findings(text, summary):
    found = [float(value) for value in re.findall(r'data-ms="([^"]+)"', text)]
    assert found == pytest.approx([one["ms_per_step"] for one in summary["findings"]], rel=1e-9)
    for one in summary["findings"]:
        assert html.escape(one["title"]) in text and html.escape(one["advice"]) in text


# ---- numbers ----

def test_shows_the_numbers_of_a_gpu(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = gpu_run()
    text, summary = report(path), of("explain", path)
    same_steps(text, summary)
    same_findings(text, summary)
    tables = _Tables(text).tables
    kernel, = tables["kernels"]
    assert (kernel["kernel or copy"], kernel["times"], kernel["ms"]) == ("gemm", 24, 24 * 400_000)
    assert (kernel["most launched by"], kernel["line"]) == ("aten::linear", "train.py(10): main")
    first = tables["operators"][0]
    assert (first["operator"], first["line"], first["calls"]) == ("aten::linear", "train.py(10): main", 24)
    assert first["self CPU ms"] == 24 * 390_000 and first["its kernels ms"] == 24 * 400_000
    rate, = tables["flops"]
    assert [rate[name] for name in ("GFLOP", "TFLOP/s", "MFU", "HFU", "recomputed")] == [4 * 10**12, 512.25, 41.5, 55.0, 0.25]
    for told in ("2 × NVIDIA H100 (80 GiB)", "node-7", "12: ring_full 12", "with_stack", "cprof 0.1.0"):
        assert told in text, told


def test_shows_the_sums_of_summaries_alone(tmp_path, monkeypatch):
    """The longest operators and kernels of all ranks. A name stays text."""
    monkeypatch.chdir(tmp_path)
    path = pathlib.Path(gpu_run(name=EVIL))
    assert tool.cprof("summarize", path).rc == 0
    kept = pathlib.Path("kept")
    kept.mkdir()
    for rank in (0, 1):
        shutil.copy(f"{path}.summary", kept / f"rank{rank}.json.summary")
    text = report(kept)
    tables, told = _Tables(text).tables, of("top", kept)["rows"]
    for table, head, device, ms in (("operators", "operator", "cpu", "self CPU ms"), ("kernels", "kernel or copy", "cuda", "ms")):
        shown = {row[head]: row[ms] / 1000 for row in tables[table]}
        time = "self_cpu_time_total" if device == "cpu" else "self_device_time_total"
        assert shown == {row["name"]: row[time] for row in told if row["device_type"] == device and row[time] and row["name"] != "ProfilerStep*"
                         and not (device == "cuda" and row["is_user_annotation"])} and shown
    assert EVIL not in text and next(iter(tables["kernels"]))["times"] == 48
    same_findings(text, of("explain", kept))
    [goes], of_both = tables[None], of("explain", kept)["steps"]
    assert goes["steps"] == sum(row["left_out"] is None for row in of_both) == 10, "where each step goes"
    lines = (kept / "rank1.json.summary").read_text().splitlines()
    (kept / "rank1.json.summary").write_text("\n".join([*lines[:3], '{"table": null, "modules": null}', lines[-1], ""]))
    text = report(kept)
    assert "By 2 summaries without traces" in text and "1 of them has no table of operators." in text and next(iter(_Tables(text).tables["kernels"]))["times"] == 24


def test_shows_the_numbers_of_memory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = gpu_run()
    text, told = report(path), of("memory", path)["devices"]
    tables = _Tables(text).tables
    row, = tables["memory"]
    assert [row["peak"], row["at the end"], row["at the begin"]] == [told[0][name] for name in ("peak_bytes", "end_bytes", "begin_bytes")]
    for title, name in (("At the peak", "peak"), ("At the end", "end")):
        held = sorted((one for one in told[0]["holders"] if one[f"{name}_bytes"]), key=lambda one: -one[f"{name}_bytes"])
        shown = _Tables(text[text.index(f">{title}<"):].split("</table>")[0]).tables[None]
        assert [(row["bytes"], row["pieces"], row["operator"]) for row in shown] == \
            [(one[f"{name}_bytes"], one[f"{name}_pieces"], one["operator"]) for one in held]
    assert "aten::linear at train.py(10): main grows by" in text


def test_shows_the_numbers_of_ranks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    eight_ranks()
    text, told = report(RUN), of("ranks", RUN)
    same_steps(text, of("explain", RUN))
    rows = {row["rank"]: row for row in _Tables(text).tables["ranks"]}
    for one in told["ranks"]:
        row = rows[one["rank"]]
        assert [row[name] for name in ("cost sum ms", "waited sum ms", "own median ms", "collectives median ms", "slowest in")] == \
            [one[name] for name in ("cost_sum_ns", "waited_sum_ns", "own_ns", "collective_ns", "slowest_in")]
    answer = tool.cprof("ranks", RUN).out.splitlines()[:2]
    assert all(html.escape(line) in text for line in answer), answer
    cells = {(int(rank), int(step)): float(ms.replace(",", ""))
             for rank, step, ms in re.findall(r"<title>rank (\d+), step (\d+): ([\d,.]+) ms</title>", text)}
    assert len(cells) == 8 * 6 and max(cells, key=cells.get) == (2, 3)
    for step, ranks in told["steps"].items():
        least = min(cell["own_ns"] for cell in ranks.values())
        assert all(cells[int(rank), int(step)] == pytest.approx((cell["own_ns"] - least) / 1e6, abs=1e-3) for rank, cell in ranks.items())


@pytest.mark.parametrize("name", ["launch-bound", "healthy"])
def test_shows_findings_of_h200_transformers(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = FIXTURES / f"h200-{name}.json.gz"
    text, summary = report(path), of("explain", path)
    same_steps(text, summary)
    same_findings(text, summary)
    assert "NVIDIA H200 (140 GiB)" in text and "130001" in text and ("Nothing stands out." in text) == (name == "healthy")
    assert ("Recorded with stacks, which slow the CPU" in text) == (name == "launch-bound")
    assert all(row["most launched by"] for row in _Tables(text).tables["kernels"] if not row["kernel or copy"].startswith("Mem"))


@pytest.mark.parametrize("path", tool.KINETO_TRACES, ids=lambda path: path.name)
def test_reports_kineto_traces(path, tmp_path, monkeypatch):
    """Some of these traces have no steps."""
    monkeypatch.chdir(tmp_path)
    text, summary = report(path), of("explain", path)
    same_findings(text, summary)
    if summary["steps"][0]["step"] is None:
        assert "The traces have no steps" in text
    else:
        same_steps(text, summary)


def test_reports_a_program_without_a_gpu(our_trace, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = report(our_trace)
    same_steps(text, of("explain", our_trace))
    version = torch.__version__.partition("+")[0]
    assert support.loads_plainly(our_trace)["torch_version"] == version and f"<dt>torch</dt><dd>{version}</dd>" in text
    averages = {row["name"]: row for row in of("top", our_trace, "--row-limit", "-1")["rows"]}
    sums = {}
    for row in _Tables(text).tables["operators"]:
        sums[row["operator"]] = sums.get(row["operator"], 0) + row["self CPU ms"]
    name = max((name for name in sums if name.startswith("aten::")), key=sums.get)
    assert sums[name] / 1000 == pytest.approx(averages[name]["self_cpu_time_total"], rel=1e-6)


# ---- what is given ----

def test_takes_a_folder_or_the_newest_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    eight_ranks(2)
    by_name = report(RUN)
    assert "<h1>run</h1>" in by_name
    result = tool.cprof("report", "-o", "newest.html")
    assert result.rc == 0 and "the newest run" in result.err
    assert pathlib.Path("newest.html").read_text() == by_name
    tool.refused(tool.cprof("report", "none", "-o", "x.html"), "none", "No such file")
    trace = pathlib.Path(RUN) / "rank0.4.pt.trace.json"
    tool.refused(tool.cprof("report", trace, "-o", trace), "is the trace itself")
    tool.refused(tool.cprof("stacks", trace, "-o", "x.html"), "holds no stacks")
    empty = tool.write("empty.json", [])
    tool.refused(tool.cprof("report", empty, "-o", "x.html"), "holds no operator, call or kernel")
    assert not pathlib.Path("x.html").exists()


# ---- one file, small, nothing from elsewhere, nothing from names ----

def hashes(text):
    """The hashes that the page's policy allows, and those of the page's style and script."""
    policy = html.unescape(re.search(r'<meta http-equiv="Content-Security-Policy" content="([^"]+)"', text)[1])
    said = {kind: re.search(rf"{kind}-src ([^;]+)", policy)[1] for kind in ("default", "style", "script")}
    assert said["default"] == "'none'" and "unsafe" not in policy
    made = {}
    for kind in ("style", "script"):
        code, = re.findall(rf"<{kind}>(.*?)</{kind}>", text, re.S)
        made[kind] = f"'sha256-{base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()}'"
    return said, made


def hostile_trace():
    machine = Machine()
    for number in range(3):
        begin = machine.now
        for n in range(3):
            machine.events.append(tool.memory(machine.now + 1, 4096, 10 * number + n))
            machine.operator(EVIL, what=EVIL, line=f"{EVIL}.py(3): {EVIL}")
        machine.events.append(tool.span(f"ProfilerStep#{number}", begin, machine.now - begin, "user_annotation", tid=4194305))
    for event in machine.events:
        event.setdefault("args", {})["Module Hierarchy"] = EVIL
    return tool.write(f"{EVIL.replace('/', '')}.json", machine.events, host_name=EVIL, deviceProperties=[{"name": EVIL}], cupti_version=EVIL,
                      cprof={"version": EVIL, "lost": {EVIL: 3}, "notes": [EVIL]}, distributedInfo={"rank": 0, "world_size": 1, "backend": EVIL})


PAGES = {"report": ["report"], "stacks": ["stacks"], "memory": ["memory-timeline"]}


@pages.needed
@pytest.mark.parametrize("kind", PAGES)
def test_names_cannot_inject_markup(kind, tmp_path, monkeypatch):
    """The trace holds markup in every text. The browser also checks that the policy allows what the page needs, and nothing else."""
    monkeypatch.chdir(tmp_path)
    result = tool.cprof(*PAGES[kind], hostile_trace(), "-o", "out.html")
    assert result.rc == 0, result.err
    text = pathlib.Path("out.html").read_text()
    assert "<script>alert" not in text and "<img" not in text
    assert not re.search(r"\sstyle=|\son\w+=[\"']|https?:|@import|url\(", re.sub(r"<script.*?</script>", "", text, flags=re.S))
    said, made = hashes(text)
    assert said["style"] == made["style"] and said["script"] == made["script"]
    with pages.Page("out.html") as page:
        assert page("failed") == [] and page.requests == []
        assert page("document.images.length") == 0 and page("document.querySelectorAll('script:not([type])').length") == 1
        shown = page("document.body.textContent + [...document.querySelectorAll('[title]')].map(one => one.title).join()")
        assert "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>" in shown
        # Injected elements do nothing.
        page("document.body.insertAdjacentHTML('beforeend', '<p style=\"color: red\" onclick=\"alert(3)\">x</p><img src=\"http://127.0.0.1:9/x.png\">')")
        page("document.body.append(Object.assign(document.createElement('script'), {textContent: 'alert(4)'}))")
        page("document.body.lastElementChild.previousElementSibling.previousElementSibling.click()")
        failed = page("new Promise(done => setTimeout(() => done(failed), 200))")
        assert {"forbidden: img-src", "forbidden: script-src-elem", "forbidden: script-src-attr", "forbidden: style-src-attr"} <= set(failed), failed
        assert not [one for one in failed if one.startswith("alert")]


def test_pages_of_large_runs_stay_small(tmp_path, monkeypatch):
    """Many ranks and steps, and long names of wide characters."""
    monkeypatch.chdir(tmp_path)
    eight_ranks(70, 80)
    text = report(RUN)
    assert "64 of 70 ranks" in text and "200 of 5,600 steps" in text
    random.seed(5)
    machine = Machine()
    for n in range(400):
        begin = machine.now
        for _ in range(5):
            name = "".join(random.choices("\U0001f600éя<", k=3000))
            machine.events.append(tool.memory(machine.now + 1, 1 << random.randrange(30), machine.correlation, device=1, index=n % 90))
            machine.operator(name, what=name[::-1], line=f"{name}.py({n}): {name}")
        machine.events.append(tool.span(f"ProfilerStep#{n}", begin, machine.now - begin, "user_annotation", tid=4194305))
    path = tool.write("long.json", machine.events)
    text = report(path)
    assert "30 of 2," in text and "64 of 90 devices" in text
    assert tool.cprof("stacks", path, "-o", "flames.html").rc == 0
    text = pathlib.Path("flames.html").read_text()
    assert 500_000 < pathlib.Path("flames.html").stat().st_size <= MOST_BYTES and "small frames, with the frames inside them, are left out" in text


# ---- how it looks ----

@pages.needed
@pytest.mark.parametrize("form", [{}, {"dark": True}, {"width": 390}, {"media": "print", "width": 760}], ids=["screen", "dark", "phone", "paper"])
def test_page_fits_screen_dark_phone_and_paper(form, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    eight_ranks()
    report(RUN)
    with pages.Page("report.html", **form) as page:
        assert page("failed") == [] and page.requests == []
        assert page("document.documentElement.scrollWidth") <= form.get("width", 1400)
        light = [int(part) for part in re.findall(r"\d+", page("getComputedStyle(document.body).backgroundColor"))]
        assert (sum(light) < 150) == form.get("dark", False), light
        assert [one for one in page("[...document.querySelectorAll('h2')].map(one => one.textContent)")] == [
            "What stands out", "What ran", "Where each step goes", "Step times", "Ranks", "Operators and calls", "Kernels and copies", "Steps in numbers"]
        least = page("Math.min(...[...document.querySelectorAll('td, p, .along span')].map(one => parseFloat(getComputedStyle(one).fontSize)))")
        assert least >= (10 if form.get("media") else 12)
        picture = tool.BUILD_PICTURES / f"report-{'-'.join(map(str, form.values())) or 'screen'}.png"
        page.picture(picture)
        assert picture.stat().st_size > 10_000


@pages.needed
def test_tables_sort_by_a_clicked_column(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    eight_ranks()
    report(RUN)
    with pages.Page("report.html") as page:
        column = "[...document.querySelectorAll('#ranks tbody tr')].map(row => Number(row.cells[{}].dataset.v))"
        for at in (0, 2):
            before = page(column.format(at))
            page(f"document.querySelectorAll('#ranks th')[{at}].click()")
            assert page(column.format(at)) == sorted(before, reverse=True)
            page(f"document.querySelectorAll('#ranks th')[{at}].click()")
            assert page(column.format(at)) == sorted(before)
        assert page("document.querySelectorAll('#ranks th')[2].ariaSort") == "ascending"
        page("document.querySelector('#operators th').click()")
        names = page("[...document.querySelectorAll('#operators tbody tr')].map(row => row.cells[0].textContent)")
        assert names == sorted(names)


# ---- the flame graph ----

def flames(*args):
    result = tool.cprof("stacks", *args, "-o", "flames.html")
    assert result.rc == 0 and result.out == "", result.err
    text = pathlib.Path("flames.html").read_text()
    return json.loads(re.search(r'id="data">(.*?)</script>', text, re.S)[1])


def two_stacks():
    return tool.write("t.json", [tool.span("aten::mm", 0, 30, Call_stack="train.py(9): f;train.py(3): main;"),
                                 tool.span("aten::add", 40, 10, Call_stack="train.py(9): f;train.py(3): main;"),
                                 tool.span("aten::mul", 60, 60, Call_stack="torch/nn/f.py(7): g;train.py(3): main;")])


def test_flame_graph_times_equal_the_lines(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = flames(two_stacks())
    found = {}
    for at, (parent, name, kind, time) in enumerate(zip(*(data[key] for key in ("parent", "name", "kind", "time")))):
        path = (found[parent][0] + ";" if parent >= 0 else "") + data["names"][name]
        found[at] = (path, time, kind)
    times = {path: time for path, time, _ in found.values()}
    assert times == {"all": 100_000, "all;train.py(3): main": 100_000, "all;train.py(3): main;torch/nn/f.py(7): g": 60_000,
                     "all;train.py(3): main;train.py(9): f": 40_000, "all;train.py(3): main;torch/nn/f.py(7): g;aten::mul": 60_000,
                     "all;train.py(3): main;train.py(9): f;aten::mm": 30_000, "all;train.py(3): main;train.py(9): f;aten::add": 10_000}
    lines = dict(line.rsplit(" ", 1) for line in tool.cprof("stacks", "t.json").out.splitlines())
    assert set(lines) == {"train.py(3):_main;train.py(9):_f", "train.py(3):_main;torch/nn/f.py(7):_g"}
    kinds = {path.rsplit(";", 1)[-1]: kind for path, _, kind in found.values()}
    assert (kinds["aten::mm"], kinds["train.py(9): f"], kinds["torch/nn/f.py(7): g"]) == (0, 1, 2)


@pages.needed
def test_flame_graph_zooms_and_searches(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flames(two_stacks())
    with pages.Page("flames.html", width=390) as page:
        shown = "[...document.querySelectorAll('#flames button')].map(one => [one.title.split(':')[0], Math.round(parseFloat(one.style.width))])"
        assert page("failed") == [] and page.requests == [] and page("document.documentElement.scrollWidth") <= 390
        assert sorted(page(shown)) == sorted([["all", 100], ["train.py(3)", 100], ["torch/nn/f.py(7)", 60], ["train.py(9)", 40], ["aten", 60], ["aten", 30],
                                              ["aten", 10]])
        page("[...document.querySelectorAll('#flames button')].find(one => one.title.startsWith('train.py(9)')).click()")
        assert sorted(page(shown)) == sorted([["all", 100], ["train.py(3)", 100], ["train.py(9)", 100], ["aten", 75], ["aten", 25]])
        assert page("document.getElementById('about').textContent") == "train.py(9): f: 40.000 us (40.00 %)"
        page("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape', bubbles: true}))")
        assert len(page(shown)) == 7
        page("const s = document.getElementById('search'); s.value = 'aten::m'; s.dispatchEvent(new Event('input'))")
        assert page("document.getElementById('matched').textContent") == "matched: 90.000 us (90.00 %)"
        assert page("document.querySelectorAll('#flames .hit').length") == 2
        page.picture(tool.BUILD_PICTURES / "flames.png")


def test_flame_graph_accepts_deep_stacks(tmp_path, monkeypatch):
    """The stack is deeper than Python's recursion limit."""
    monkeypatch.chdir(tmp_path)
    stack = "".join(f"deep.py({n}): f;" for n in range(2000))
    data = flames(tool.write("t.json", [tool.span("aten::mm", 0, 30, Call_stack=stack)]))
    assert len(data["time"]) == 2002 and set(data["time"]) == {30_000}
