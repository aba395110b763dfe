# SPDX-License-Identifier: Apache-2.0
"""The four actions of a schedule, and their names in other profilers."""

import enum
from typing import Any


class Action(enum.IntEnum):
    """The schedule's action for a step; values as in cprof.h."""
    SKIP = 0
    WARMUP = 1
    ACTIVE = 2
    ACTIVE_AND_SAVE = 3


_OTHERS = {"NONE": Action.SKIP, "RECORD": Action.ACTIVE, "RECORD_AND_SAVE": Action.ACTIVE_AND_SAVE}


def action_of(given: Any) -> int:
    """The number of an Action, of torch's or Composer's ProfilerAction, or of their names. An int stays as it is."""
    if isinstance(given, int) and not isinstance(given, bool):
        return int(given)
    name = str(getattr(given, "name", given)).upper()
    if name in _OTHERS:
        return _OTHERS[name]
    try:
        return Action[name]
    except KeyError:
        raise TypeError(f"{given!r} is no action") from None
