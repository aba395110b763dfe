# SPDX-License-Identifier: Apache-2.0
"""A simulated training on two devices with two streams each, in Perfetto's UI: import without errors, named rows, arrows to kernels. The
picture for scripts/guide/reading.md goes to build/e2e/pictures, with UPDATE=1 to tests/e2e/pictures."""

import pytest

import perfetto
from gpu_runs import gpu_run, needed

pytestmark = [needed, perfetto.needed]


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    """Path of the trace of three steps."""
    run = gpu_run("train", tmp_path_factory.mktemp("train"), "--steps", 6, ACTIVE=3)
    assert run.rc == 0 and len(run.traces) == 1, run.err
    return run.traces[0]


def test_perfetto_imports_without_errors(trace):
    assert perfetto.import_errors(trace) == []


def test_rows_of_both_devices_have_names(trace):
    rows = perfetto.query(trace, "select p.name as process, t.name as row from thread t join process p using (upid) "
                                 "where p.name glob 'GPU *' and t.name is not null")
    assert {row["process"][:5] for row in rows} == {"GPU 0", "GPU 1"}
    for device in ("GPU 0", "GPU 1"):
        names = sorted(row["row"] for row in rows if row["process"].startswith(device))
        assert names == ["ranges on stream 13", "ranges on stream 14", "stream 13", "stream 14", "waits on stream 13",
                         "waits on stream 14"]


def test_every_kernel_has_an_arrow_from_its_launch(trace):
    kernels = perfetto.query(trace, "select count(*) as n from slice where category = 'kernel'")[0]["n"]
    arrows = perfetto.query(trace, "select o.name as launch, count(*) as n from flow f join slice i on f.slice_in = i.id "
                                   "join slice o on f.slice_out = o.id where i.category = 'kernel' group by 1")
    assert kernels > 0 and [(row["launch"], row["n"]) for row in arrows] == [("cudaLaunchKernel", kernels)]


def test_ranges_cover_their_kernels(trace):
    ranges = perfetto.query(trace, "select name, count(*) as n from slice where category = 'gpu_user_annotation' group by 1")
    assert {row["name"] for row in ranges} == {"load batch", "forward", "backward", "optimizer"}


def test_picture(trace, tmp_path):
    trace = perfetto.view_of(trace, tmp_path / "view")
    steps = perfetto.query(trace, "select ts, dur from slice where name glob 'ProfilerStep#*' order by ts")
    kernels = perfetto.query(trace, "select s.id as id from slice s join track t on s.track_id = t.id join track p on t.parent_id = p.id "
                                    f"where s.name glob 'ncclDev*' and p.name glob 'GPU 1*' and s.ts > {steps[1]['ts']} order by s.ts")
    perfetto.picture_of(trace, "gpu.png", start=steps[1]["ts"], end=steps[1]["ts"] + steps[1]["dur"], select=kernels[0]["id"])
