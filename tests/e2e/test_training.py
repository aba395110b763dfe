# SPDX-License-Identifier: Apache-2.0
"""The functions of cprof.h that describe a training (tests/e2e/c/training.c, one mode per test): metadata, epochs, samples, tokens, start
and stop, and a schedule function. Tests check the contents and the names of the trace files."""

import re

import pytest

import support

EACH = {"WARMUP": 0, "ACTIVE": 1, "REPEAT": 0}  # a trace for each step


def run(mode, folder, lines=0, **settings):
    """Runs a mode. cprof must print `lines` lines besides the one at exit."""
    result = support.run(support.program("training", mode), folder, **settings)
    assert result.rc == 0 and len(result.complaints) == lines, result.err
    return result


def held(trace):
    """The numbers of the steps whose ranges are in a trace."""
    ranges = support.events(trace, ph="X", name=re.compile(r"in step \d+$"))
    return [int(e["name"].split()[-1]) for e in sorted(ranges, key=lambda e: float(e["ts"]))]


def windows(result):
    """{file name: (step rows, steps whose ranges it holds)}"""
    traces = {path.name: support.load(path) for path in result.traces}
    return {name: (support.step_numbers(trace), held(trace)) for name, trace in traces.items()}


@pytest.mark.parametrize("mode", ["metadata", "epochs", "regions", "region", "schedule"])
def test_calls_do_nothing_without_the_library(mode, tmp_path):
    assert run(mode, tmp_path, preload=False).out in ("", "000000000\n")
    assert support.files(tmp_path) == []


def test_metadata_reaches_open_and_later_files(tmp_path):
    """Metadata is in the open file and in every later one. The last value of a key wins. Refused values change nothing."""
    result = run("metadata", tmp_path, lines=5, **EACH)
    assert result.out == "111000001\n"
    traces = [support.load(path) for path in result.traces]
    assert len(traces) == 4
    for trace in traces:
        assert trace["model"] == 'café "50"\n\ufffd'
        assert trace["config"] == {"lr": 0.001, "dims": [1, 2], "x": "é"}
        assert len(trace["traceEvents"]) > 1
    assert traces[3]["later"] == "1"
    call = 'cprof_add_metadata_json("config"): no JSON at byte'
    assert result.complaints[0] == f'{call} 7, "NaN}}": NaN and Infinity are not JSON; it is left out'
    assert result.complaints[1] == f'{call} 3, "{{}}": text after the value; it is left out'
    assert result.complaints[2] == 'cprof_add_metadata_json("traceEvents"): traces use this key themselves; it is left out'
    assert all("the key or the value is NULL" in line for line in result.complaints[3:])


def test_epochs_replay_the_schedule(tmp_path):
    """The end of an epoch saves the active steps. The cycle that it cuts short is not a partial trace."""
    result = run("epochs", tmp_path, SCHEDULE_SCOPE="epoch", WARMUP=1, ACTIVE=2, REPEAT=0,
                 FILENAME="ep{epoch}-ba{batch}-{batch_in_epoch}.json")
    assert windows(result) == {f"ep{epoch}-ba{first + n}-{n}.json": ([first + i for i in steps], held)
                               for epoch, first in enumerate((0, 5, 10)) for n, steps, held in
                               ((3, (1, 2), [first, first + 1, first + 2]), (5, (4,), [first + 3, first + 4]))}
    assert all(not support.load(path)["cprof"]["partial"] for path in result.traces)


def test_epochs_samples_and_tokens_name_files(tmp_path):
    result = run("epochs", tmp_path, FILENAME="{epoch}_{batch}_{batch_in_epoch}_{sample}_{sample_in_epoch}_{token}_"
                 "{token_in_epoch}_{total_wct}.json", WARMUP=0, ACTIVE=7, REPEAT=0)
    named = [re.fullmatch(r"(\w+)_(0\.\d+|\de-06|[\d.]+e-05)\.json", name).group(1) for name in result.names]
    assert named == ["1_7_2_28_8_700_200", "2_14_4_56_16_1400_400", "3_15_0_60_0_1500_0"]


def test_regions_restart_the_schedule(tmp_path):
    """The schedule begins anew with each cprof_start(). Nothing is recorded before the first start or between regions."""
    result = run("regions", tmp_path, WARMUP=1, ACTIVE=2)
    assert windows(result) == {"rank0.4.pt.trace.json": ([2, 3], [1, 2, 3]), "rank0.9.pt.trace.json": ([7, 8], [6, 7, 8])}


def test_records_a_region_without_steps(tmp_path):
    result = run("region", tmp_path)
    trace = support.load(result.traces[0])
    assert [e["name"] for e in support.events(trace, ph="X", cat="user_annotation")] == ["inside"]
    assert trace["cprof"]["marked"] is False and result.names == ["rank0.0.pt.trace.json"]


def test_follows_the_programs_own_schedule(tmp_path):
    result = run("schedule", tmp_path, lines=1, WAIT=3)
    assert result.out.splitlines() == [f"asked {i} {4 * i}" for i in range(6)]
    assert windows(result) == {f"rank0.{i + 1}.pt.trace.json": ([i], [i]) for i in (0, 2, 4)}
    assert "the program's schedule returned 1000" in result.complaints[0]
