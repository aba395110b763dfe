# SPDX-License-Identifier: Apache-2.0
"""Which spans of a trace are its steps.

cprof writes its steps, ProfilerStep#N, on a row of their own, whose number no thread can have. A program that still calls
torch.profiler's prof.step() also has ranges of that name on its threads. They count other things. Beside cprof's steps they are
ordinary ranges, which cprof writes as `torch.profiler step N` (older versions keep the name). A trace of torch.profiler has only
these, and they are its steps."""

from typing import Any, Dict

ROW = "4194305"                           # STEP_TID of writer/window/window.c
FOREIGN_PIDS = 10_000_000                 # least pid of files that were merged into cprof's (writer/import/foreign.h)
FOREIGN_DIGITS = len(str(FOREIGN_PIDS))
RANGE_NAME = "torch.profiler step "       # of one of the program's; STEP_RANGE_NAME of writer/json/json.h
GPU_PIDS, PID_SHIFT = 4096, 1_000_000     # PID_SHIFT is added to a process's pid below GPU_PIDS (writer/window/window.c)
NAMES = ("ProfilerStep#", RANGE_NAME)
STEPS = "ProfilerStep*"                   # all of them, in tables
RANGES = STEPS + " (torch.profiler)"      # those beside cprof's; as in writer/sums/top.c


def is_main_thread(pid: str, tid: str) -> bool:
    """Whether a thread is the first one of its process: both have the same number."""
    return pid == tid or tid.isdecimal() and int(tid) < GPU_PIDS and pid == str(int(tid) + PID_SHIFT)


def is_step_name(name: str) -> bool:
    """Whether it is the name of a step, or of all steps in tables."""
    return name.startswith(NAMES) or name == STEPS


def on_our_row(event: Dict[str, Any]) -> bool:
    """Whether an event with a step's name is one of cprof's own."""
    return event.get("cat") == "user_annotation" and str(event.get("tid")) == ROW and len(str(event.get("pid"))) < FOREIGN_DIGITS
