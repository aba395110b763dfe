# SPDX-License-Identifier: Apache-2.0
"""Which spans of a trace are its steps.

cprof writes its steps, ProfilerStep#N, on a row of their own, whose number no thread can have. A program that still calls
torch.profiler's prof.step() has ranges of that name on its threads as well: they count other things, and where cprof's
steps are there they are ranges like any other, which cprof writes as `torch.profiler step N` (older ones: as they are). A
trace of torch.profiler has these only, and they are its steps."""

from typing import Any, Dict

ROW = "4194305"                           # STEP_TID of writer/window/window.c
FOREIGN_PIDS = 10_000_000                 # from here on: of files that were merged into cprof's (writer/import/foreign.h)
FOREIGN_DIGITS = len(str(FOREIGN_PIDS))
RANGE_NAME = "torch.profiler step "       # of one of the program's; STEP_RANGE_NAME of writer/json/json.h
GPU_PIDS, PID_SHIFT = 4096, 1_000_000     # a process of a number below is written with so much more (writer/window/window.c)
NAMES = ("ProfilerStep#", RANGE_NAME)
STEPS = "ProfilerStep*"                   # all of them, in tables
RANGES = STEPS + " (torch.profiler)"      # beside cprof's; as writer/sums/top.c has it


def is_main_thread(pid: str, tid: str) -> bool:
    """Whether a thread is the first one of its process, which has the same number."""
    return pid == tid or tid.isdecimal() and int(tid) < GPU_PIDS and pid == str(int(tid) + PID_SHIFT)


def is_step_name(name: str) -> bool:
    """Whether tables have it as one of all steps."""
    return name.startswith(NAMES) or name == STEPS


def on_our_row(event: Dict[str, Any]) -> bool:
    """Whether an event that has a step's name is one of cprof's own."""
    return event.get("cat") == "user_annotation" and str(event.get("tid")) == ROW and len(str(event.get("pid"))) < FOREIGN_DIGITS
