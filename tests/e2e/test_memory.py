# SPDX-License-Identifier: Apache-2.0
"""Tensor memory: the peak and its holders, leaks, failed allocations. Python recomputes the numbers from the events of the same file."""

import collections
import re

import pytest

import support
from conftest import matrix
from torch_runs import SCRIPTS, Trace, run, trace

torch = pytest.importorskip("torch", reason="PyTorch is not installed in .venv")

KEY = "Module Hierarchy"
MB = 1 << 20


def account(one, device="CPU"):
    [found] = [m for m in one.account["memory"] if m["device"] == device and m["level"] == "tensor"]
    return found


def operator_of(one):
    """{External id: name of the outermost operator around it, the one that the program called}."""
    ops = {e["args"]["External id"]: e for e in one.ops()}
    rows = collections.defaultdict(list)
    for e in sorted(ops.values(), key=lambda e: (support.span_ns(e)[0], -support.span_ns(e)[1])):
        rows[e["tid"]].append(e)
    outer = {}
    for row in rows.values():
        stack = []
        for e in row:
            while stack and support.span_ns(stack[-1])[1] <= support.span_ns(e)[0]:
                stack.pop()
            parents = [p for p in stack if not p["name"].startswith("autograd::engine::evaluate_function")]
            outer[e["args"]["External id"]] = (parents or [e])[0]["name"]
            stack.append(e)
    return outer


def replay(one):
    """(most bytes allocated, holders then, holders at the end) of the CPU; holders as {(operator, module): [bytes, allocations]}."""
    outer, alive, most, then = operator_of(one), {}, 0, {}

    def holders():
        found = collections.defaultdict(lambda: [0, 0])
        for size, key in alive.values():
            found[key][0] += size
            found[key][1] += 1
        return {key: tuple(value) for key, value in found.items()}

    for e in one.memory():
        args = e["args"]
        if args["Bytes"] > 0:
            alive[args["Addr"]] = (args["Bytes"], (outer.get(args.get("External id"), ""), args.get(KEY)))
        else:
            del alive[args["Addr"]]
        if args["Total Allocated"] > most:
            most, then = args["Total Allocated"], holders()
    return most, then, holders()


def assert_same(told, others, computed):
    told = {(h["operator"], h.get("module")): (h["bytes"], h["allocations"]) for h in told}
    assert told.items() <= computed.items() and sum(b for b, _ in told.values()) + others == sum(b for b, _ in computed.values())
    assert len(told) == min(10, len(computed))
    assert not told or min(b for b, _ in told.values()) >= max([b for k, (b, _) in computed.items() if k not in told], default=0)


@pytest.fixture(scope="module")
def leak(tmp_path_factory):
    return trace(run("memory.py", tmp_path_factory.mktemp("leak"), "leak", WITH_MODULES=1))


def test_leak_is_held_by_its_operator_and_module(leak):
    """One MiB from each of the four steps is held, by the operator and the module that allocated it."""
    largest = account(leak)["end_holders"][0]
    assert largest == {"operator": "aten::zeros", "module": "Net.b.1", "bytes": 4 * MB, "allocations": 4}


@pytest.mark.parametrize("native", matrix([0, 1], 1))  # test_readme.py has the case without native frames
def test_leak_is_held_by_its_line(tmp_path, native):
    one = trace(run("memory.py", tmp_path, "leak", WITH_MODULES=1, WITH_STACK=1, NATIVE_STACK=native))
    held = [h for h in account(one)["end_holders"] if h["operator"] == "aten::zeros" and h["bytes"] >= MB]
    assert sum(h["bytes"] for h in held) == 4 * MB and sum(h["allocations"] for h in held) == 4
    source = (SCRIPTS / "memory.py").read_text().splitlines()
    line = 1 + next(i for i, text in enumerate(source) if "self.kept.append(" in text)
    for holder in held:
        frames = holder["Call stack"].split(";")
        innermost = next(frame for frame in frames if ".py(" in frame)
        assert innermost == f"memory.py({line}): forward" and holder["module"] == "Net.b.1"
        assert str(holder["sf"]) in one.data["stackFrames"]
    assert len(held) == 1 or native


def test_peak_and_holders_match_the_events(leak):
    found = account(leak)
    most, then, end = replay(leak)
    assert found["peak_bytes"] == most and found["begin_bytes"] == 0
    at = [e for e in leak.memory() if e["args"]["Total Allocated"] == most][0]
    assert float(at["ts"]) == pytest.approx(found["peak_ts"], abs=0.002)
    assert_same(found["peak_holders"], found["peak_other_holders_bytes"], then)
    assert_same(found["end_holders"], found["end_other_holders_bytes"], end)
    assert found["peak_unknown_bytes"] == found["end_unknown_bytes"] == 0
    assert found["end_bytes"] == leak.memory()[-1]["args"]["Total Allocated"] == sum(b for b, _ in end.values())


def test_each_memory_event_has_its_module(leak):
    kept = [e for e in leak.memory() if e["args"]["Bytes"] == MB]
    assert len(kept) == 4 and {e["args"][KEY] for e in kept} == {"Net.b.1"}


def test_memory_without_modules(tmp_path):
    one = trace(run("memory.py", tmp_path, "leak"))
    found = account(one)
    assert not one.spans("nn_module") and not [e for e in one.ops() if KEY in e["args"]] and "with_modules" not in one.data
    assert found["end_holders"][0] == {"operator": "aten::zeros", "bytes": 4 * MB, "allocations": 4}


def test_memory_of_several_threads_is_in_time_order(tmp_path):
    """cprof empties the threads' rings one after the other, and counts their events in time order."""
    one = trace(run("memory.py", tmp_path, "threads"))
    found = account(one)
    totals = [e["args"]["Total Allocated"] for e in one.memory()]
    assert found["peak_bytes"] == max(totals) and len({e["tid"] for e in one.memory()}) > 3
    held = sum(h["bytes"] for h in found["peak_holders"]) + found["peak_other_holders_bytes"]
    # two threads may read totals and times in different orders
    assert abs(found["peak_unknown_bytes"]) <= 3 * 7000 * 4 and held + found["peak_unknown_bytes"] == found["peak_bytes"]
    assert_same(found["end_holders"], found["end_other_holders_bytes"], replay(one)[2])


def test_memory_off_records_nothing(tmp_path):
    one = trace(run("memory.py", tmp_path, "leak", PROFILE_MEMORY=0))
    assert "memory" not in one.account and not one.memory()


def out_of_memory(one):
    [event] = support.events(one.data, name="[OutOfMemory]")
    assert event["ph"] == "i" and event["cat"] == "cpu_instant_event"
    return event["args"]


def test_failed_allocation_names_the_largest_holders(tmp_path):
    result = run("memory.py", tmp_path, "oom", WITH_MODULES=1)
    assert result.out == "caught\ndone\n"
    args = out_of_memory(trace(result))
    assert args["Bytes"] == 1 << 47 and (args["Device Type"], args["Device Id"]) == (0, -1)
    assert args["Operator"] == "aten::empty" and args["Total Reserved"] == 0
    assert args["Largest Holders"][0] == {"operator": "aten::zeros", "module": "Net.b.1", "bytes": 3 * MB, "allocations": 3}
    assert sum(h["bytes"] for h in args["Largest Holders"]) == args["Total Allocated"]


def test_failed_allocation_is_in_the_open_file(tmp_path):
    """SIGKILL comes right after the error."""
    result = run("memory.py", tmp_path, "die")
    assert result.rc == -9 and result.out == "caught\n"
    [part] = [path for path in tmp_path.iterdir() if path.name.endswith(".part")]
    args = out_of_memory(Trace(part))
    assert args["Bytes"] == 1 << 47 and args["Largest Holders"][0]["bytes"] == 3 * MB
    assert re.search(r"^rank0\.1\.", part.name)
