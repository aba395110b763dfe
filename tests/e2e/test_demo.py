# SPDX-License-Identifier: Apache-2.0
"""`make demo`, the first thing that a newcomer runs, and its trace in Perfetto's UI.

The picture goes to build/e2e/pictures. With UPDATE=1 it goes to tests/e2e/pictures, which scripts/guide/reading.md shows.
"""

import os
import re
import subprocess
import sys

import pytest

import perfetto
import support
from conftest import BUILD, ROOT
from cprof.tool import check

torch = pytest.importorskip("torch", reason="PyTorch is not installed in .venv")


@pytest.fixture(scope="module")
def exported_folder(tmp_path_factory):
    """The folder that CPROF_FOLDER names in the shell that starts the demo."""
    return tmp_path_factory.mktemp("demo") / "elsewhere"


@pytest.fixture(scope="module")
def demo(exported_folder):
    """The output of `make demo` after set-up and build, with the whole of torch."""
    env = dict(os.environ, BUILD=os.path.relpath(BUILD, ROOT), WHOLE_TORCH="1", CPROF_FOLDER=str(exported_folder))
    done = subprocess.run(["bash", "scripts/demo.sh"], cwd=ROOT, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def trace(demo):
    """Path of the one trace that the demo names."""
    found = re.findall(r"^  (\S+\.pt\.trace\.json)$", demo.stdout, re.MULTILINE)
    assert len(found) == 1, demo.stdout
    return ROOT / found[0]


def test_demo_prints_how_to_open_the_trace(demo, trace):
    assert "ui.perfetto.dev" in demo.stdout
    for command in "open", "top":
        assert f"  scripts/cprof {command} {trace.parent.parent.relative_to(ROOT)}\n" in demo.stdout
    assert re.search(r"\n *aten::\S+ +[\d.]+[mu]?s +[\d.]+%", demo.stdout), "the table has no operator"
    assert re.fullmatch(r"cprof: rank 0: 1 trace, [\d,]+ events, 0 lost: \S+rank0\.5\.pt\.trace\.json\n", demo.stderr)


def test_suggested_command_works(demo, trace):
    top, = re.findall(r"^  (scripts/cprof top \S+)$", demo.stdout, re.MULTILINE)
    done = subprocess.run(top.split(), cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and " steps took " in done.stdout, done.stderr


def test_demo_refuses_a_path_with_spaces(tmp_path):
    """A space or a colon ends a name in LD_PRELOAD. The demo must not train without the library."""
    build = tmp_path / "with a space"
    build.mkdir()
    (build / "libcprof.so").symlink_to(BUILD / "libcprof.so")
    done = subprocess.run(["bash", "scripts/demo.sh"], cwd=ROOT, env=dict(os.environ, BUILD=str(build)), capture_output=True, text=True, timeout=300)
    assert done.returncode == 1 and "step 0" not in done.stdout
    assert done.stderr == f"demo: LD_PRELOAD cannot name {build}/libcprof.so: it has a space or a colon; make demo BUILD=/tmp/cprof builds it elsewhere\n"


def test_demo_ignores_exported_settings(demo, exported_folder):
    assert not exported_folder.exists()


def test_demo_trains_all_steps(demo):
    assert len(re.findall(r"^step \d+ loss", demo.stdout, re.MULTILINE)) == 20


def test_trace_holds_only_the_scheduled_steps(trace):
    loaded = support.load(trace)
    support.validate(loaded)
    names = [e["name"] for e in support.events(loaded, ph="X", cat="user_annotation")]
    assert [n for n in names if n.startswith("ProfilerStep")] == [f"ProfilerStep#{n}" for n in (1, 2, 3, 4)]
    assert names.count("Optimizer.step#SGD.step") == 4
    assert sum(n.startswith("enumerate(DataLoader)#") for n in names) == 4
    first = min(support.to_ns(e["ts"]) for e in support.events(loaded, ph="X", name="ProfilerStep#1"))
    early = [e["name"] for e in loaded["traceEvents"] if e["ph"] in "Xib" and support.to_ns(e["ts"]) < first]
    assert early == [], "the timeline begins with the first step"


def test_trace_passes_check(trace):
    assert check.findings(str(trace)) == ([], len(support.loads_plainly(trace)["traceEvents"]))


@perfetto.needed
def test_perfetto_imports_without_errors(trace):
    assert perfetto.import_errors(trace) == []


@perfetto.needed
def test_rows_have_names(trace):
    threads = {row["name"] for row in perfetto.query(trace, "select name from thread where name is not null")}
    assert "steps" in threads
    assert any(re.fullmatch(r"thread \d+ \(.+\)", name) for name in threads)
    rows = perfetto.query(trace, "select t.name as row, count(*) as n from slice s join thread_track tt on s.track_id = tt.id "
                                 "join thread t using (utid) where s.name glob 'ProfilerStep#*' group by 1")
    assert [(row["row"], row["n"]) for row in rows] == [("steps", 4)]


@perfetto.needed
def test_operators_nest_and_have_arrows(trace):
    below = perfetto.query(trace, "select p.name as parent from slice s join slice p on s.parent_id = p.id "
                                  "where s.name = 'aten::mkldnn_convolution' or s.name = 'aten::cudnn_convolution'")
    assert below and {row["parent"] for row in below} == {"aten::_convolution"}
    arrows = perfetto.query(trace, "select o.name as name from flow f join slice i on f.slice_in = i.id "
                                   "join slice o on f.slice_out = o.id where i.name = 'AddmmBackward0'")
    assert len(arrows) == 4 and {row["name"] for row in arrows} == {"aten::addmm"}


@perfetto.needed
def test_picture(trace, tmp_path):
    trace = perfetto.view_of(trace, tmp_path / "view")
    spans = perfetto.query(trace, "select ts, dur from slice where name glob 'ProfilerStep#*' order by ts")
    perfetto.picture_of(trace, "demo.png", start=spans[1]["ts"], end=spans[2]["ts"] + spans[2]["dur"])


@perfetto.needed
def test_picture_of_a_stack(tmp_path):
    """The same program with stacks. An operator's stack is in its arguments, one line a frame down to the script."""
    support.run([sys.executable, ROOT / "tests/e2e/train_cnn.py"], tmp_path, WITH_STACK=1)
    trace, = support.files(tmp_path, ".json")
    assert trace.stat().st_size < 4 << 20, "four steps of a small model"
    trace = perfetto.view_of(trace, tmp_path / "view")
    step = perfetto.query(trace, "select ts, dur from slice where name = 'ProfilerStep#2'")[0]
    shown = perfetto.query(trace, f"select id, arg_set_id as args from slice where name = 'aten::conv2d' and ts > {step['ts']} order by ts")[0]
    frames = perfetto.query(trace, "select string_value as frame from args where flat_key = 'debug.Call stack' "
                                   f"and arg_set_id = {shown['args']} order by id")
    assert re.search(r"torch/nn/modules/conv\.py:\d+ forward\n.*train_cnn\.py:\d+ main\n", "\n".join(row["frame"] for row in frames), re.S)
    perfetto.picture_of(trace, "stack.png", start=step["ts"], end=step["ts"] + step["dur"], select=shown["id"], details=True)
