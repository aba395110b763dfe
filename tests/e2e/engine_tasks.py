# SPDX-License-Identifier: Apache-2.0
"""Tasks for the tests of cprof.tool.engine. Processes of their own import this module."""

import os
import pathlib
import signal
import sys
import time

from cprof.tool import Problem, note


def ends(path):
    """Adds a line to the file, then does what its first line says."""
    file = pathlib.Path(path)
    with file.open("a") as opened:
        opened.write("again\n")
    what, *tries = file.read_text().splitlines()
    note(f"try of {what}", path)
    if what == "dies" or what == "dies once" and len(tries) == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if what == "raises":
        raise KeyError("\033[31m")
    if what == "refuses":
        raise Problem("is refused", path)
    return what


def sleeps(path):
    """Says that it began, and never ends."""
    pathlib.Path(path).touch()
    time.sleep(600)


if __name__ == "__main__":
    from cprof.tool.engine import Engine, each, over
    import engine_tasks
    try:
        list(each(over(engine_tasks.sleeps, sys.argv[1:]), Engine(jobs=len(sys.argv) - 1)))
    except KeyboardInterrupt:
        sys.exit(130)
