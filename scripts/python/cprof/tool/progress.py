# SPDX-License-Identifier: Apache-2.0
"""The progress line on a terminal, for commands that take longer than a second."""

import sys
import time
from typing import Any, Optional

from cprof._untrusted import printable

FIRST_S = 1.0
EVERY_S = 0.2


class Progress:
    """Counts towards a total and shows it on stderr, if that is a terminal. Use it with `with`: the line goes away at the
    end.

        with Progress("rank0.json", size) as progress:
            for block in blocks:
                progress.add(len(block))
    """

    def __init__(self, what: str, total: Optional[int] = None, stream: Any = None) -> None:
        self.what, self.total = what, total
        self._stream = sys.stderr if stream is None else stream
        self._done, self._shown = 0, False
        try:
            self._next = time.monotonic() + FIRST_S if self._stream.isatty() else float("inf")
        except (AttributeError, ValueError):
            self._next = float("inf")

    def add(self, n: int) -> None:
        """Adds to the work that is done."""
        self._done += n
        if time.monotonic() >= self._next:
            self._show()

    def to(self, done: int) -> None:
        """Sets the work that is done in all."""
        self.add(done - self._done)

    def _show(self) -> None:
        self._next = time.monotonic() + EVERY_S
        if self.total:
            amount = f"{min(100, 100 * self._done // self.total)} %"
        else:
            amount = f"{self._done / 1e6:,.0f} MB"
        self._shown = True
        self._write(f"\r\x1b[K{printable(self.what)[-60:]}: {amount}")

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):
            self._next = float("inf")

    def close(self) -> None:
        """Removes the line."""
        if self._shown:
            self._write("\r\x1b[K")
            self._shown = False

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
