# SPDX-License-Identifier: Apache-2.0
"""`cprof explain` on steps without a GPU: small operators, unfused operators, the interpreter lock, loaders, transfers, and ranks. Each fault is
tested at half its threshold, a little above it, and at twice the threshold."""

import json

import pytest

import tool
from cprof.tool.explain import _surplus
from cprof.tool.findings import Group
from cprof.tool.moments import Trace
from test_explain import explained

STEPS, STEP_US = 8, 100_000
MS = 1_000_000
SHARES = pytest.mark.parametrize("share, reported", [(0.025, False), (0.06, True), (0.11, True), (0.2, True)])
BACKWARD = "autograd::engine::evaluate_function: "


class Thread:
    """Events of a thread of process 5000, one after the other; times in microseconds."""

    def __init__(self):
        self.now, self.events, self.sequence, self.address = 0.0, [], 0, 4096

    def operator(self, name, us, line="train.py(10): main", library=False, forward=True, size=0, **args):
        """size: bytes that the operator allocates and frees again."""
        self.sequence += forward
        frames = f"{'torch/nn/functional.py(9): relu;' if library else ''}{line};"
        self.events.append(tool.span(name, self.now, us, Call_stack=frames, Sequence_number=self.sequence, **args))
        if size:
            self.address += size
            for at, change in ((us / 4, size), (us / 2, -size)):
                self.events.append({"ph": "i", "s": "t", "name": "[memory]", "pid": 5000, "tid": 5000, "ts": self.now + at, "args": {
                    "Total Allocated": max(change, 0), "Bytes": change, "Device Id": -1, "Device Type": 0, "Addr": self.address}})
        self.now += us
        return self.sequence

    def backward(self, name, us, sequence):
        """The backward operator of the forward operator with this sequence number."""
        self.events.append(tool.span(BACKWARD + name, self.now, us, Call_stack="train.py(90): main;", Sequence_number=sequence, Fwd_thread_id=1))
        self.now += us

    def range(self, name, us, **more):
        self.events.append(tool.span(name, self.now, us, "user_annotation", **more))
        self.now += us


def steps(fault, share, path="t.json", **account):
    """Steps in which fault(thread, us) takes this share. The rest is products with short pauses, as in Python."""
    thread = Thread()
    for number in range(STEPS):
        begin = thread.now
        fault(thread, STEP_US * share)
        rest = STEP_US - (thread.now - begin)
        for n in range(10):
            thread.operator("aten::linear", rest / 10 - 20, library=True, line=f"train.py({30 + n}): main")
            thread.now += 20
        thread.events.append(tool.span(f"ProfilerStep#{number}", begin, STEP_US, "user_annotation", tid=4194305))
    metadata = dict({"distributedInfo": {"rank": account.pop("rank", 0), "world_size": 4}, "host_name": "a"} if "rank" in account else {})
    return tool.write(path, thread.events, **({"cprof": {"process": process(**account)}} if account else {}), **metadata)


def process(ran=1.0, queued=0.0, main_ran=None, main_queued=0.0):
    """The account of a process; arguments are shares of the wall time."""
    wall = STEPS * STEP_US * 1000
    account = {"cores": 2, "threads": 3, "wall_ns": wall, "ran_ns": ran * wall, "queued_ns": queued * wall, "system_ns": 0, "page_faults": 0}
    if main_ran is not None:
        account.update(main_ran_ns=main_ran * wall, main_queued_ns=main_queued * wall)
    return {name: int(value) for name, value in account.items()}


def rules(*paths):
    return [one["rule"] for one in explained(*paths)["findings"]]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def row_by_row(thread, us):
    """Five operators for each row, three of them in the forward pass."""
    rows = []
    for n in range(round(us / 50)):
        rows += [thread.operator(f"aten::{name}", 8, "train.py(20): loss") for name in ("select", "mul", "add")]
        thread.now += 2
    for n in reversed(rows[1::3]):
        for name in ("MulBackward0", "AddBackward0"):
            thread.backward(name, 12, n)


@SHARES
def test_finds_a_loop_over_rows_with_its_backward_pass(share, reported):
    """Each operator is called a few times, with no large operator in between."""
    found = explained(steps(row_by_row, share))["findings"]
    assert [one["rule"] for one in found] == ["tiny-operators"] * reported
    assert not reported or found[0]["share"] == pytest.approx(share, abs=0.01)
    assert not reported or "train.py(20): loss" in found[0]["title"] and {one["line"] for one in found[0]["evidence"]} == {"train.py(20): loss"}


def test_time_in_the_queue_does_not_hide_a_pause():
    """On a machine where each thread waits for a processor as long as it runs."""
    def parse(thread, us):
        for _ in range(10):
            thread.operator("aten::tensor", us / 10 - 1500)
            thread.now += 1500
    assert rules(steps(parse, 0.16, ran=0.4, queued=0.6)) == ["python"]


def test_threshold_follows_the_noise_between_steps():
    """Pauses of 7 % of a step are a finding where steps are alike, and none where their lengths differ by a third."""
    def told(noise):
        thread = Thread()
        for number in range(STEPS):
            begin, length = thread.now, STEP_US * (1 + noise * (number % 3 - 1))
            thread.operator("aten::tensor", 100)
            thread.now += 0.07 * STEP_US
            thread.operator("aten::linear", length - (thread.now - begin) - 20, library=True)
            thread.now = begin + length
            thread.events.append(tool.span(f"ProfilerStep#{number}", begin, length, "user_annotation", tid=4194305))
        return rules(tool.write("t.json", thread.events))
    assert told(0) == ["python"] and told(0.33) == []


@pytest.mark.parametrize("every, reported", [(1, ["python"]), (2, ["python"]), (4, [])])
def test_finds_a_long_pause_among_short_ones_of_the_same_place(every, reported):
    """In the mean the pauses there are short. A long one that comes seldom is left to the rule of outlier steps."""
    seen = iter(range(STEPS))

    def pauses(thread, us):
        for n in range(40):
            thread.operator("aten::add", 200, "train.py(5): main", library=True)
            thread.now += 20 if n else us * every * (next(seen) % every == every - 1)
            thread.operator("aten::mul", 200, "train.py(6): main", library=True)
    found = explained(steps(pauses, 0.15))["findings"]
    assert [one["rule"] for one in found if one["rule"] != "outlier-steps"] == reported
    assert not reported or "from train.py(5): main to train.py(6): main" in found[0]["title"]


def test_small_operators_of_layers_are_not_a_loop():
    """Twenty small operators between two products, as in a transformer."""
    def layers(thread, us):
        for n in range(round(us / 1000)):
            for k in range(20):
                thread.operator("aten::view", 10, f"train.py({60 + k}): forward")
            thread.operator("aten::linear", 800, "train.py(21): forward", library=True)
    assert rules(steps(layers, 0.9)) == []


def test_interrupted_operator_still_counts_as_small():
    def interrupted(thread, us):
        for n in range(round(us / 20)):
            thread.operator("aten::mul", 4000 if n == 50 else 20 - 4000 / (us / 20), "train.py(20): loss")
    assert rules(steps(interrupted, 0.2)) == ["tiny-operators"]


def test_backward_operator_has_its_forward_operators_line():
    """A backward operator with an unknown sequence number, as from another thread, keeps the line of backward()."""
    def forward_and_back(thread, us):
        number = thread.operator("aten::mul", us / 4, "train.py(20): loss")
        thread.backward("MulBackward0", us / 2, number)
        thread.backward("AddBackward0", us / 4, 1 << 40)
    lines = {piece.cause.name: piece.cause.line for piece in Trace(steps(forward_and_back, 0.5)).windows[1].pieces()}
    assert lines[BACKWARD + "MulBackward0"] == "train.py(20): loss" and lines[BACKWARD + "AddBackward0"] == "train.py(90): main"


def tensors(makers=2, size=1 << 20, library=False, product=False):
    """A function of the program with operators that make tensors; half of the time is their backward pass."""
    def fault(thread, us):
        numbers = [thread.operator("aten::bmm" if product else f"aten::{name}", us / 2 / makers, f"train.py({20 + n}): pairs", library, size=size)
                   for n, name in enumerate(("sub", "pow", "exp")[:makers])]
        for number in numbers:
            thread.backward("PowBackward0", us / 2 / makers, number)
    return fault


@SHARES
def test_finds_unfused_operators(share, reported):
    found = explained(steps(tensors(), share))["findings"]
    assert [one["rule"] for one in found] == ["unfused-operators"] * reported
    assert not reported or found[0]["share"] == pytest.approx(share, abs=0.01) and "2 operators of train.py: pairs make 2.00 MB" in found[0]["title"]


@pytest.mark.parametrize("other", [{"makers": 1}, {"size": 1 << 10}, {"size": 0}, {"library": True}, {"product": True}])
def test_does_not_advise_to_fuse_other_operators(other):
    """A single operator, small tensors, no tensors, operators of a library, and products."""
    assert rules(steps(tensors(**other), 0.3)) == []


def pauses(places=10, each_us=500):
    """Pauses between operators, at `places` different lines."""
    def fault(thread, us):
        for n in range(max(1, round(us / each_us))):
            thread.operator("aten::linear", 1000, f"train.py({60 + n % places}): main", library=True)
            thread.now += each_us + 100  # 100 us: as long as Python itself may take
    return fault


@SHARES
def test_finds_waiting_for_the_interpreter_lock(share, reported):
    assert rules(steps(pauses(), share, ran=1.0, main_ran=1 - share - 0.01)) == ["interpreter-lock"] * reported


def test_long_pauses_of_several_places_are_the_lock_too():
    """A thread that waits for the lock for longer than an operator takes stands still at each place."""
    assert rules(steps(pauses(places=4, each_us=3000), 0.3, ran=1.0, main_ran=0.68)) == ["interpreter-lock"]
    assert rules(steps(pauses(places=1, each_us=3000), 0.3, ran=1.0, main_ran=0.68)) == ["python"]


def test_findings_do_not_depend_on_a_moved_pid(tmp_path):
    """In a container the pid may be below 4096. Readers take such a pid for a GPU, so cprof adds a million; thread ids stay."""
    path = steps(pauses(), 0.2, ran=1.0, main_ran=0.79)
    trace = json.load(open(path))
    for event in trace["traceEvents"]:
        event.update(pid=1_000_077, tid=event["tid"] if event["tid"] == 4194305 else 77)
    moved = tool.write(tmp_path / "moved.json", **{"events": trace.pop("traceEvents")}, **trace)
    assert rules(moved) == rules(path) == ["interpreter-lock"]


@pytest.mark.parametrize("fault, account", [
    (pauses(), {"ran": 1.0, "main_ran": 1.0}),                                         # the main thread itself runs
    (pauses(), {"ran": 0.8, "main_ran": 0.8}),                                         # no other thread runs
    (pauses(), {"ran": 1.0, "main_ran": 0.6, "main_queued": 0.4, "queued": 0.4}),      # another program runs
    (pauses(places=1), {"ran": 1.0, "main_ran": 0.8}),                                 # the thread sleeps at one line
    (pauses(), {"ran": 1.0})])                                                         # the account lacks the main thread
def test_pauses_with_another_cause_are_not_the_lock(fault, account):
    assert "interpreter-lock" not in rules(steps(fault, 0.2, **account))


@pytest.mark.parametrize("share, reported", [(0.05, False), (0.11, True), (0.2, True)])
def test_finds_waiting_for_a_loader(share, reported):
    loader = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
    assert rules(steps(lambda thread, us: thread.range(loader, us), share, ran=1 - share, main_ran=1 - share)) == ["input-bound"] * reported
    assert rules(steps(lambda thread, us: thread.range(loader, us), share, ran=1.0, main_ran=0.98)) == []  # the thread runs: the batch is ready
    told = tool.cprof("explain", steps(lambda thread, us: thread.range(loader, us), share, ran=1 - share, main_ran=1 - share)).out
    assert " times" not in told, "small operators cut a wait into pieces"
    alone = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    assert rules(steps(lambda thread, us: thread.range(alone, us), share, ran=1.0, main_ran=1.0)) == ["input-bound"] * reported


@pytest.mark.parametrize("share, reported", [(0.15, False), (0.33, True), (0.6, True)])
def test_finds_exposed_transfers_on_a_cpu(share, reported):
    """With twice as many runnable threads as processors, half of the wait is blamed on the machine."""
    def transfer(thread, us):
        thread.range("gloo:all_reduce", us, tid=6000)
    assert rules(steps(transfer, share)) == ["exposed-communication"] * reported
    crowded = rules(steps(transfer, share, ran=0.5, queued=0.5))
    assert crowded == ["exposed-communication"] * (share == 0.6)


@pytest.mark.parametrize("main_queued, reported", [(0.2, []), (0.02, ["python"])])
def test_wait_for_a_processor_behind_a_transfer_is_no_pause(main_queued, reported):
    """A thread that slept until a transfer was over may have to wait for a processor. The time that it did not wait is Python's."""
    def transfer(thread, us):
        thread.operator("c10d::allreduce_", 100)
        thread.range("gloo:all_reduce", us / 2, tid=6000)
        thread.now += us / 2
    assert rules(steps(transfer, 0.2, ran=0.7, main_ran=0.7, main_queued=main_queued)) == reported


@pytest.mark.parametrize("queued, surplus_ms", [(0.0, 15.0), (0.15, 0.0)])
def test_time_in_the_run_queue_is_not_extra_work(queued, surplus_ms):
    """Rank 1 is later because of more work, or only because it waited in the run queue. The latter is no extra work."""
    for rank, (share, ran, stood) in enumerate([(0.5, 0.45, 0.0), (0.65, 0.6 - queued, queued)]):
        steps(lambda thread, us: thread.range("gloo:all_reduce", us, tid=6000), 1 - share, f"{rank}.json", rank=rank, ran=1.0, main_ran=ran, main_queued=stood)
    traces = [Trace(f"{rank}.json") for rank in range(2)]
    groups = [Group(rank, "cpu", trace.windows, trace) for rank, trace in enumerate(traces)]
    assert _surplus(1, groups) / 1e6 == pytest.approx(surplus_ms, abs=1.5)
