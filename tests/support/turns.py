"""Locks across processes for tests that disturb each other."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def turn(name: str, *, shared: bool = False) -> Iterator[None]:
    """Only one process at a time is in here, or any number of those that share.

    ``crowd``: many consumers side by side starve each other, and their groups. ``network``: Chromium gives up its
    connections when Docker makes a network or takes one away.
    """
    place = Path(tempfile.gettempdir()) / f"kafka-rebalance-monitor-{name}.lock"
    with place.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
