"""What needs the machine for itself runs so, whoever else tests beside it."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_LOCK = Path(tempfile.gettempdir()) / "kafka-rebalance-monitor-alone.lock"


@contextmanager
def alone() -> Iterator[None]:
    """Only one process at a time is in here: many consumers side by side starve each other, and their groups."""
    with _LOCK.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
