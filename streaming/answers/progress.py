"""Progress on standard error, for work that takes longer than a person waits."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

#: Seconds before the first sign, and between signs.
PATIENCE = 2.0
EVERY = 0.5


class Progress:
    """Counts steps; shows the count once work has taken two seconds, if standard error is a terminal."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._count = 0
        self._shown = False
        self._on = sys.stderr.isatty()
        self._next = time.monotonic() + PATIENCE

    def step(self, count: int = 1) -> None:
        """``count`` more are done."""
        self._count += count
        if self._on and time.monotonic() >= self._next:
            self._shown = True
            self._next = time.monotonic() + EVERY
            _show(f"\r{self._count:,} {self._what}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            _show("\r\x1b[K")


def _show(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
