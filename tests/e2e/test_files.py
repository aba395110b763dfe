# SPDX-License-Identifier: Apache-2.0
"""Which traces a program leaves: schedule, step 0, programs without marks, file names, and CPROF_OVERWRITE."""

import os
import re
import stat
import sys
import time

import pytest

from support import (TRAIN, Real, Running, events, files, load, loads_plainly, parse, program, python, run, span_ns,
                     step_numbers, text_problems, validate)

EVERY_STEP = dict(WARMUP=0, ACTIVE=1, REPEAT=0)


def count_work(trace):
    """The numbers of `work` ranges and of marks that steps() left in a trace."""
    return len(events(trace, ph="X", name="work")), len(events(trace, ph="i", name="mark"))


# ---- the schedule ------------------------------------------------------------------------------------------

@pytest.fixture(scope="module")
def training(tmp_path_factory):
    """20 steps of a CNN, unprofiled and under the default schedule."""
    folder = tmp_path_factory.mktemp("training")
    command = [sys.executable, TRAIN, "--workers", 0, "--batch", 2, "--steps", 20]
    plain = run(command, folder / "none", preload=False)
    traced = run(command, folder, SKIP_FIRST=2, WAIT=1, WARMUP=1, ACTIVE=3, REPEAT=2)
    return plain, traced


def test_training_run_leaves_two_windows(training):
    plain, traced = training
    assert (traced.rc, traced.out) == (plain.rc, plain.out)
    assert traced.names == ["rank0.7.pt.trace.json", "rank0.12.pt.trace.json"]
    assert sorted(files(traced.folder)) == sorted(traced.traces), "a file besides the traces was left"
    assert [step_numbers(load(path)) for path in traced.traces] == [[4, 5, 6], [9, 10, 11]]
    assert traced.complaints == []


def test_operators_lie_inside_steps(training):
    for path in training[1].traces:
        trace = load(path)
        steps = sorted(span_ns(e) for e in events(trace, ph="X", name=re.compile("ProfilerStep#")))
        first, last = steps[0][0], steps[-1][1]
        operators = events(trace, ph="X", cat="cpu_op")
        assert operators
        assert all(first <= span_ns(e)[0] < last for e in operators)
        for start, end in steps:
            inside = [e["name"] for e in operators if start <= span_ns(e)[0] < end]
            assert inside.count("aten::conv2d") == 2, "each step makes two convolutions"
        assert trace["cprof"]["lost"]["total"] == 0
        numbers = step_numbers(trace)
        assert (trace["cprof"]["first_step"], trace["cprof"]["last_step"]) == (numbers[0], numbers[-1])


def test_exit_line_names_count_and_paths(training):
    _, traced = training
    total = sum(load(path)["cprof"]["events"] for path in traced.traces)
    assert traced.said == [f"rank 0: 2 traces, {total:,} events, 0 lost: " + " ".join(map(str, traced.traces))]


def test_default_schedule(tmp_path):
    result = run(python("steps(20)"), tmp_path)
    assert result.names == ["rank0.5.pt.trace.json"]
    assert step_numbers(load(result.traces[0])) == [1, 2, 3, 4]


@pytest.mark.parametrize("settings, steps, expected", [
    # one file per step, for ever; step 0 is recorded because the schedule says so
    (EVERY_STEP, 4, {1: [0], 2: [1], 3: [2], 4: [3]}),
    # repeat=0: the cycle goes on until the program ends, the last one cut short
    (dict(WAIT=1, WARMUP=1, ACTIVE=2, REPEAT=0), 11, {4: [2, 3], 8: [6, 7], 11: [10]}),
    # the first cycle without its wait
    (dict(WAIT=2, WARMUP=1, ACTIVE=2, REPEAT=2, SKIP_FIRST_WAIT=1), 20, {3: [1, 2], 8: [6, 7]}),
    (dict(SKIP_FIRST=3, WAIT=2, WARMUP=0, ACTIVE=1, REPEAT=2, SKIP_FIRST_WAIT=1), 20, {4: [3], 7: [6]}),
    # step 0 is active
    (dict(WARMUP=0, ACTIVE=2), 5, {2: [0, 1]}),
    # more repeats than the program has steps
    (dict(WAIT=1, WARMUP=0, ACTIVE=1, REPEAT=9), 4, {2: [1], 4: [3]}),
    # the partial cycle of torch: steps 4 to 6 of an active 6, and no almost empty ProfilerStep#7
    (dict(WAIT=2, WARMUP=2, ACTIVE=6), 7, {7: [4, 5, 6]}),
    # named steps, of which the last one begins and does not end
    (dict(STEPS="3-4,6,8-99"), 10, {5: [3, 4], 7: [6], 10: [8, 9]}),
])
def test_schedule(tmp_path, settings, steps, expected):
    result = run(python(f"steps({steps})"), tmp_path, **settings)
    assert result.rc == 0 and result.complaints == []
    assert result.names == [f"rank0.{batch}.pt.trace.json" for batch in expected]
    for path, numbers in zip(result.traces, expected.values()):
        trace = load(path)
        assert step_numbers(trace) == numbers
        partial = path == result.traces[-1] if "STEPS" in settings else len(numbers) < settings["ACTIVE"]
        assert trace["cprof"]["partial"] == partial and trace["cprof"]["complete"]
        warm = settings.get("WARMUP", 1)  # markers of warmup steps stand at the head of the file
        assert count_work(trace) == (len(numbers) + warm, len(numbers) + warm)
        rows = sorted(span_ns(e) for e in events(trace, ph="X", name=re.compile("ProfilerStep#")))
        assert all(a[1] + 1 == b[0] for a, b in zip(rows, rows[1:])), "a step begins a nanosecond after the one before"
    assert result.parts == []


@pytest.mark.parametrize("steps", [0, 1])
def test_exit_before_the_first_active_step_leaves_nothing(tmp_path, steps):
    result = run(python(f"steps(1); steps({steps}); mark(b'on'); push(b'open')"), tmp_path, WAIT=1, WARMUP=2, ACTIVE=2)
    assert result.rc == 0 and len(result.said) == 1 and f"nothing was recorded: the program ended after {steps + 1} step" in result.said[0]
    assert files(tmp_path) == []


def test_step_zero_is_thrown_away_at_the_first_mark(tmp_path):
    result = run(python("push(b'before'); pop(); steps(3)"), tmp_path, WAIT=1, WARMUP=0, ACTIVE=1)
    trace = load(result.traces[0])
    assert step_numbers(trace) == [1] and count_work(trace) == (1, 1)
    assert events(trace, name="before") == []


def test_run_without_marks_becomes_one_trace(tmp_path):
    result = run(python("for i in range(5): push(b'work'); mark(b'mark'); pop()"), tmp_path, SKIP_FIRST=50)
    assert result.names == ["rank0.0.pt.trace.json"]
    trace = load(result.traces[0])
    assert count_work(trace) == (5, 5) and step_numbers(trace) == []
    assert trace["cprof"]["marked"] is False and trace["cprof"]["partial"] is False
    assert [line for line in result.said if "no step was marked" in line] == result.complaints
    assert len(result.complaints) == 1


def test_reports_a_run_that_ends_before_the_schedule_records(tmp_path):
    result = run(python("steps(4)"), tmp_path / "short", SKIP_FIRST=100)
    assert result.traces == [] and result.said == [
        "nothing was recorded: the program ended after 4 steps; the schedule: skip 100 steps, then 1 time: wait 0, warm up 1, record 4; "
        "steps 101 to 104 are recorded first"]
    result = run(python("_c.cprof_start(); steps(1); _c.cprof_stop()"), tmp_path / "region", WARMUP=5)
    assert result.traces == [] and len(result.said) == 1 and "ended after 1 step; the schedule: 1 time: wait 0, warm up 5" in result.said[0]
    # No message for a program that waits for a trigger, was recorded in part, or disabled the recording.
    for code, settings in (("steps(4)", dict(TRIGGER="socket", SKIP_FIRST=100)), ("steps(4)", dict(SKIP_FIRST=100, LOG="warn")),
                           ("steps(1)", dict(WAIT=0, WARMUP=1)), ("steps(1)", dict(ENABLED=0))):
        result = run(python(code), tmp_path / "quiet", **settings)
        assert not [line for line in result.said if "nothing was recorded" in line], result.err


def test_shortens_names_too_long_for_a_file(tmp_path):
    """The cut part of the name may hold {rank} and {batch}, so a hash keeps the names distinct."""
    name = "x" * 250 + ".rank{rank}.{batch}.pt.trace.json"
    result = run(python("steps(6)"), tmp_path, FILENAME=name, RUN_NAME="r" * 500, FOLDER="{run_name}/" + "f" * 300,
                 WARMUP=0, ACTIVE=1, REPEAT=0, USE_GZIP=1)
    assert result.rc == 0 and len(result.complaints) == 1 and "too long for a file" in result.complaints[0], result.err
    assert len(set(result.names)) == 6 and result.parts == []
    assert [step_numbers(load(path)) for path in sorted(result.traces, key=os.path.getmtime)] == [[n] for n in range(6)]
    for found in result.names:
        assert len(found) <= 200 and re.fullmatch(r"x+~[0-9a-f]{8}\.pt\.trace\.json\.gz", found), found
    again = run(python("steps(3)"), tmp_path, FILENAME=name, RUN_NAME="r" * 500, FOLDER="{run_name}/" + "f" * 300,
                WARMUP=0, ACTIVE=1, REPEAT=0, USE_GZIP=1)
    assert len(again.complaints) == 1 and len(again.names) == 9, again.err  # nothing was replaced


def test_reports_a_folder_path_that_is_too_long_once(tmp_path):
    result = run(python("steps(6)"), tmp_path, FOLDER="x/" * 1990, FILENAME="y" * 150, WARMUP=0, ACTIVE=1, REPEAT=0)
    assert result.rc == 0 and result.traces == [] and len(result.said) == 1, result.err
    assert result.said[0].startswith("no path for the trace: too long for a path: x/x/"), result.said


def test_torch_run_without_optimizer_becomes_one_trace(tmp_path):
    code = "import torch; torch.set_num_threads(1); x = torch.ones(8, 8)\nfor i in range(3): x = x @ x\nprint(x.sum())"
    plain = run([sys.executable, "-c", code], tmp_path, preload=False)
    result = run([sys.executable, "-c", code], tmp_path)
    assert (result.rc, result.out) == (plain.rc, plain.out)
    trace = load(result.traces[0])
    assert len(events(trace, ph="X", cat="cpu_op", name="aten::matmul")) == 3
    assert len(result.complaints) == 1 and len(result.traces) == 1


# ---- no schedule -------------------------------------------------------------------------------------------

def test_scope_none_records_from_start_to_exit(tmp_path):
    result = run(python("push(b'before'); pop(); steps(3); push(b'after'); pop()"), tmp_path, SCHEDULE_SCOPE="none")
    assert result.names == ["rank0.3.pt.trace.json"]
    trace = load(result.traces[0])
    assert step_numbers(trace) == [0, 1, 2] and count_work(trace) == (3, 3)
    assert len(events(trace, name="before")) == len(events(trace, name="after")) == 1


def test_scope_none_rolls_over_without_loss(tmp_path):
    """Three bursts of more than 1 MB each, then a quiet end. The run leaves several finished files, with each event in one of them."""
    result = run(python("""
for burst in range(3):
    for i in range(6000):
        push(b"range %d" % (burst * 6000 + i)); pop()
    time.sleep(0.4)
steps(2)
"""), tmp_path, SCHEDULE_SCOPE="none", MAX_TRACE_MB=1)
    assert result.rc == 0 and result.complaints == [] and result.parts == []
    traces = [load(path) for path in result.traces]
    assert len(traces) >= 3
    names = [e["name"] for trace in traces for e in events(trace, ph="X", name=re.compile("range "))]
    assert sorted(names) == sorted(f"range {i}" for i in range(18000))
    assert sum(trace["cprof"]["lost"]["total"] for trace in traces) == 0
    assert sorted(n for trace in traces for n in step_numbers(trace)) == [0, 1]


def test_burst_during_rollover_is_not_lost(tmp_path):
    """More than MAX_TRACE_MB arrives at once, and more waits in the ring."""
    result = run(program("burst", 2, 20000, 300), tmp_path, SCHEDULE_SCOPE="none", MAX_TRACE_MB=1)
    assert result.out == "made 80000\n" and result.complaints == []
    traces = [load(path) for path in result.traces]
    assert len(traces) >= 2
    assert sum(len(events(trace, name="burst")) for trace in traces) == 80000
    assert sum(trace["cprof"]["lost"]["total"] for trace in traces) == 0


def test_full_file_of_a_schedule_counts_dropped_events(tmp_path):
    result = run(program("burst", 1, 20000, 400), tmp_path, WARMUP=1, ACTIVE=1, MAX_TRACE_MB=1)
    trace = load(result.traces[0])
    assert result.names == ["rank0.2.pt.trace.json"] and step_numbers(trace) == [1]
    kept, lost = len(events(trace, name="burst")), trace["cprof"]["lost"]
    assert kept + lost["total"] == 40000 and lost["file_limit"] == lost["total"] > 0
    assert f"{lost['total']:,} lost" in result.said[0]


# ---- names -------------------------------------------------------------------------------------------------

VARIABLES = ("run_name rank local_rank world_size local_world_size node_rank epoch batch batch_in_epoch sample "
             "sample_in_epoch token token_in_epoch total_wct epoch_wct batch_wct").split()


def test_file_name_expands_all_variables(tmp_path):
    template = ",".join(f"{{{name}}}" for name in VARIABLES) + ".json"
    ranks = dict(RANK="3", LOCAL_RANK="1", WORLD_SIZE="8", LOCAL_WORLD_SIZE="2", GROUP_RANK="1")
    result = run(python("steps(2); time.sleep(1.1); steps(1)"), tmp_path, env=ranks, WARMUP=0, ACTIVE=3,
                 RUN_NAME="my run", FILENAME=template, FOLDER=f"{tmp_path}/{{run_name}}-{{rank}}-{{local_rank}}-"
                 "{world_size}-{local_world_size}-{node_rank}")
    assert [path.parent.name for path in result.traces] == ["my run-3-1-8-2-1"]
    given = result.names[0].removesuffix(".json").split(",")
    assert len(given) == len(VARIABLES)
    values = dict(zip(VARIABLES, given))
    expected = dict(run_name="my run", rank="3", local_rank="1", world_size="8", local_world_size="2", node_rank="1",
                    epoch="0", batch="3", batch_in_epoch="3")
    assert {name: values[name] for name in expected} == expected
    assert all(values[name].isdigit() for name in VARIABLES[1:-3])
    times = {name: float(values[name]) for name in VARIABLES[-3:]}  # in Composer's form, str(timedelta.total_seconds())
    assert {name: str(seconds) for name, seconds in times.items()} == {name: values[name] for name in times}
    assert 1.1 <= times["batch_wct"] < times["total_wct"] == times["epoch_wct"]
    trace = load(result.traces[0])
    assert trace["distributedInfo"]["rank"] == 3 and trace["distributedInfo"]["world_size"] == 8
    assert trace["traceName"] == str(result.traces[0])


def test_default_folder_is_named_after_the_run(tmp_path):
    """The name is the script's name and the start time. Two runs in a row both leave their traces."""
    script = tmp_path / "my_training.py"
    script.write_text("import ctypes\nc = ctypes.CDLL(None)\nfor i in range(6): c.cprof_mark(b'x'); c.cprof_step()\n")
    for _ in range(2):
        result = run([sys.executable, script], tmp_path, cwd=tmp_path, FOLDER=None)
        assert result.rc == 0 and result.complaints == []
    assert len(result.traces) == 2
    for path in result.traces:
        assert re.fullmatch(r"my_training-\d{8}-\d{6}/torch_traces/rank0\.5(-2)?\.pt\.trace\.json",
                            str(path.relative_to(tmp_path)))
        assert load(path)["traceName"] == str(path)


@pytest.mark.parametrize("settings, name", [
    (dict(USE_GZIP=1), "rank0.2.pt.trace.json.gz"),
    (dict(USE_GZIP=1, FILENAME="r{rank}.json.gz"), "r0.json.gz"),
    (dict(USE_GZIP=0, FILENAME="r{rank}.json.gz"), "r0.json.gz"),
    (dict(USE_GZIP=0, FILENAME="r{rank}.json"), "r0.json"),
])
def test_gzip_by_setting_and_by_name(tmp_path, settings, name):
    result = run(python("steps(4)"), tmp_path, WARMUP=0, ACTIVE=2, **settings)
    assert result.names == [name]
    packed = result.traces[0].read_bytes()[:2] == b"\x1f\x8b"
    assert packed == name.endswith(".gz")
    trace = load(result.traces[0])
    assert step_numbers(trace) == [0, 1] and count_work(trace) == (2, 2)
    assert trace["traceName"] == str(result.traces[0])
    assert len(loads_plainly(result.traces[0])["traceEvents"]) == len(trace["traceEvents"])


@pytest.mark.parametrize("code", ["steps(1); os.chdir('/'); steps(3)", "os.chdir('/'); steps(4)"])
def test_relative_folder_survives_chdir(tmp_path, code):
    """The program may change its directory before cprof starts, as Hydra's hydra.job.chdir does."""
    result = run(python(code), tmp_path, cwd=tmp_path, FOLDER="here/{run_name}", RUN_NAME="r", WARMUP=0, ACTIVE=2)
    assert result.traces == [tmp_path / "here/r/rank0.2.pt.trace.json"]
    assert load(result.traces[0])["traceName"] == str(result.traces[0])


def test_open_file_is_named_after_its_process_and_readable(tmp_path):
    """While recording there is one file, named after the process and the first step. It can be read, and its name is not that of a trace."""
    with Running(python("steps(3); print('ready', flush=True); sys.stdin.readline(); steps(2)"), tmp_path, WARMUP=1,
                 ACTIVE=4) as running:
        running.wait_for("ready")
        running.wait_flushed("ProfilerStep#2")
        with running.stopped():
            found = files(tmp_path)
            assert [path.name for path in found] == [f"rank0.1.pt.trace.json.{running.process.pid}.1.part"]
            trace = load(found[0])
        assert step_numbers(trace) == [1, 2] and trace["cprof"]["complete"] is False
        running.say()
        result = running.end()
    assert result.names == ["rank0.5.pt.trace.json"] and result.parts == []
    assert step_numbers(load(result.traces[0])) == [1, 2, 3, 4]


# ---- earlier files -----------------------------------------------------------------------------------------

def trace_of_yesterday(folder, name="rank0.99.pt.trace.json"):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{}")
    os.utime(path, (time.time() - 86400,) * 2)
    return path


@pytest.mark.parametrize("name", ["rank0.99.pt.trace.json", "rank0.2.pt.trace.json", "layers=[2,3]/rank0.99.pt.trace.json"])
def test_traces_of_an_earlier_run_stop_the_recording(tmp_path, name):
    old = trace_of_yesterday(tmp_path, name)
    result = run(python("steps(4); print('done')"), old.parent, WARMUP=0, ACTIVE=2)
    assert (result.rc, result.out) == (0, "done\n")
    assert files(tmp_path) == [old] and old.read_text() == "{}"
    assert len(result.said) == 1 and str(old) in result.said[0] and "CPROF_OVERWRITE" in result.said[0]


def test_traces_of_other_ranks_do_not_stop_the_recording(tmp_path):
    trace_of_yesterday(tmp_path, "rank1.99.pt.trace.json")
    trace_of_yesterday(tmp_path, "rank0.notes.txt")
    result = run(python("steps(4)"), tmp_path, WARMUP=0, ACTIVE=2)
    assert "rank0.2.pt.trace.json" in result.names and result.complaints == []


def test_overwrite_replaces_a_trace_of_the_same_name(tmp_path):
    same, other = trace_of_yesterday(tmp_path, "rank0.2.pt.trace.json"), trace_of_yesterday(tmp_path)
    result = run(python("steps(4)"), tmp_path, WARMUP=0, ACTIVE=2, OVERWRITE=1)
    assert result.complaints == [] and sorted(files(tmp_path)) == sorted([same, other])
    assert step_numbers(load(same)) == [0, 1] and other.read_text() == "{}"


@pytest.mark.parametrize("kind", ["fifo", "folder", "link", "dangling link", "device"])
def test_overwrite_replaces_only_regular_files(tmp_path, kind):
    """Anything else under that name stays; the trace gets the next number."""
    old, same = trace_of_yesterday(tmp_path, "old"), tmp_path / "t/rank0.2.pt.trace.json"
    same.parent.mkdir()
    try:
        {"fifo": os.mkfifo, "folder": os.mkdir, "link": lambda path: path.symlink_to(old), "dangling link": lambda path: path.symlink_to("x"),
         "device": lambda path: os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))}[kind](same)
    except OSError as error:
        pytest.skip(f"no {kind} can be made here: {error}")
    os.utime(same, (time.time() - 86400,) * 2, follow_symlinks=False)
    before = same.lstat()
    result = run(python("steps(4)"), tmp_path / "t", WARMUP=0, ACTIVE=2, OVERWRITE=1)
    assert result.complaints == [] and same.lstat().st_ino == before.st_ino and same.lstat().st_mode == before.st_mode
    assert step_numbers(load(tmp_path / "t/rank0.2-2.pt.trace.json")) == [0, 1] and old.read_text() == "{}"


@pytest.mark.parametrize("written, replaced", [(0.4, True), (0.6, False), (0, False)])
def test_overwrite_distinguishes_runs_within_one_second(tmp_path, written, replaced):
    """The run began half a second after a full second. A trace written earlier in that second is of an earlier run. A file time of a whole
    second may come from a file system without fractions, so that trace is kept."""
    second = int(time.time()) - 100
    same = tmp_path / "rank0.2.pt.trace.json"
    same.write_text("{}")
    os.utime(same, ns=(round((second + written) * 10) * 10**8,) * 2)
    launch = dict(RANK="0", WORLD_SIZE="2", CPROF_START_TIME=f"{second}500000000")
    result = run(python("steps(4)"), tmp_path, env=launch, WARMUP=0, ACTIVE=2, OVERWRITE=1)
    assert result.complaints == []
    assert sorted(path.name for path in files(tmp_path)) == (["rank0.2.pt.trace.json"] if replaced else
                                                             ["rank0.2-2.pt.trace.json", "rank0.2.pt.trace.json"])
    assert (same.read_text() == "{}") != replaced


def test_trace_of_the_same_second_stops_only_a_named_folder(tmp_path):
    """Two runs of the same second have the same default run name. The later run then leaves its trace beside the earlier one. In a folder that
    the user named, the earlier trace stops the recording."""
    second = int(time.time()) - 100
    launch = dict(RANK="0", WORLD_SIZE="2", CPROF_START_TIME=f"{second}500000000")

    def leave(folder):
        folder.mkdir(parents=True)
        (folder / "rank0.2.pt.trace.json").write_text("{}")
        os.utime(folder / "rank0.2.pt.trace.json", ns=(second * 10**9 + 4 * 10**8,) * 2)
        return folder

    (tmp_path / "default").mkdir()
    first = run(python("steps(4)"), tmp_path / "which", env=launch, cwd=tmp_path / "default", WARMUP=0, ACTIVE=2, FOLDER="{run_name}")
    [name] = {path.parent.name for path in files(tmp_path / "default")}
    folder = leave(tmp_path / "again" / name)
    result = run(python("steps(4)"), tmp_path / "which", env=launch, cwd=folder.parent, WARMUP=0, ACTIVE=2, FOLDER="{run_name}")
    assert first.complaints == result.complaints == [] and (folder / "rank0.2.pt.trace.json").read_text() == "{}"
    assert "rank0.2-2.pt.trace.json" in {path.name for path in files(folder)}
    folder = leave(tmp_path / "given")
    assert "is in the way" in run(python("steps(4)"), folder, env=launch, WARMUP=0, ACTIVE=2).complaints[0]
    assert [path.name for path in files(folder)] == ["rank0.2.pt.trace.json"]


def test_overwrite_keeps_the_traces_of_this_run(tmp_path):
    """The partial last step has the batch number of the window before, and without {batch} all windows have one name. None replaces another."""
    result = run(python("steps(2); push(b'evaluation'); pop()"), tmp_path / "a", OVERWRITE=1, **EVERY_STEP)
    assert result.names == ["rank0.1.pt.trace.json", "rank0.2-2.pt.trace.json", "rank0.2.pt.trace.json"]
    assert [step_numbers(load(path)) for path in result.traces] == [[0], [], [1]]
    for _ in range(2):
        result = run(python("steps(3)"), tmp_path / "b", OVERWRITE=1, FILENAME="trace.json.gz", **EVERY_STEP)
        assert result.names == ["trace-2.json.gz", "trace-3.json.gz", "trace.json.gz"]
        assert [step_numbers(load(path)) for path in result.traces] == [[1], [2], [0]]
        for path in result.traces:
            os.utime(path, (time.time() - 86400,) * 2)


def test_elastic_restart_keeps_the_traces_of_the_first_attempt(tmp_path):
    """A launcher restarts the only worker of a node. That is the same run, so both attempts leave their traces."""
    worker = "import ctypes\nc = ctypes.CDLL(None)\nfor i in range(4): c.cprof_mark(b'x'); c.cprof_step()\n"
    launcher = python("""
import time
for attempt in range(2):
    subprocess.run([sys.executable, "-c", sys.argv[1]], check=True,
                   env=dict(os.environ, RANK="0", WORLD_SIZE="2", LOCAL_RANK="0", LOCAL_WORLD_SIZE="1"))
    time.sleep(1.1)
""", worker)
    result = run(launcher, tmp_path, WARMUP=0, ACTIVE=2, FOLDER=f"{tmp_path}/{{run_name}}")
    assert result.rc == 0 and result.complaints == []
    assert result.names == ["rank0.2-2.pt.trace.json", "rank0.2.pt.trace.json"]
    assert len({path.parent for path in result.traces}) == 1, "the two attempts are one run"
    assert all(step_numbers(load(path)) == [0, 1] for path in result.traces)


# ---- the validator itself ----------------------------------------------------------------------------------

def span(**changes):
    return dict(dict(ph="X", cat="cpu_op", name="x", pid=9999, tid=7, ts=Real("5.000"), dur=Real("9.000")), **changes)


def flow(ph, **changes):
    return dict(dict(ph=ph, cat="fwdbwd", name="fwdbwd", id=5, pid=9999, tid=7, ts=Real("6.000")), **changes)


@pytest.mark.parametrize("added, problem", [
    ([span()], None),
    ([span(), span(ts=Real("14.000"))], None),
    ([span(), flow("s"), flow("f", ts=Real("7.000"), bp="e")], None),
    ([span(), span(ts=Real("13.999"))], "crosses"),
    ([span(tid=0)], "tid 0"),
    ([span(tid=-1)], "tid -1"),
    ([span(pid=12)], "looks like a GPU's"),
    ([span(pid=2**32)], "pid 4294967296"),
    ([span(ts=5)], "three decimals"),
    ([span(ts=Real("5.00"))], "three decimals"),
    ([span(ts=Real("1763633123456789.123"))], "round it"),
    ([span(cat="")], "no category"),
    ([span(name="")], "no name"),
    ([span(args=dict(n=2**63))], "64 bits"),
    ([span(ph="Q")], "phase Q"),
    ([span(), flow("f", bp="e")], "without a beginning"),
    ([span(), flow("s")], "never ends"),
    ([span(), flow("s"), flow("f", bp="e", ts=Real("5.500"))], "ends before it begins"),
    ([span(), flow("s"), flow("f")], "without bp e"),
    ([span(), flow("s"), flow("f", bp="e", tid=8)], "is on no slice"),
    ([span(ph="C", args=dict(a=1, b=2))], "one key"),
    ([span(ph="i")], "scope None"),
    ([span(ph="M")], "unknown metadata"),
])
def test_validator_finds_mistakes(added, problem):
    trace = dict(schemaVersion=1, deviceProperties=[], distributedInfo=dict(rank=0, world_size=1), displayTimeUnit="ms",
                 baseTimeNanoseconds=30 * 86400 * 10**9 * 600, traceName="x", traceEvents=added,
                 cprof=dict(lost=dict(late=1, total=1), first_step=0, last_step=0, records=0, events=0, unfinished=0,
                            writer_cpu_ns=0, bytes=0))
    problems = validate(trace)
    assert problems == [] if problem is None else any(problem in line for line in problems), problems


@pytest.mark.parametrize("text", ['{"a": NaN}', '{"a": 1, "a": 2}', '{"a": 1} x', '{"a": "\x01"}', '{"a": 01}', '[1,]'])
def test_json_reader_is_strict(text):
    with pytest.raises(ValueError):
        parse(text.encode())
    assert text_problems(b'{"a": "\\ud83d\\ude00"}') and text_problems(b"[]") and not text_problems(b'{"a": "\\u0001"}')
