"""Locks between test processes, for tests that disturb each other."""

from __future__ import annotations

import fcntl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def process_lock(name: str, *, shared: bool = False) -> Iterator[None]:
    """Hold a lock between processes: exclusive, or shared with others that share.

    ``crowd``: many consumers at the same time starve each other, and their groups. ``network``: Chromium gives up its
    connections when Docker makes a network or takes one away.
    """
    place = Path(tempfile.gettempdir()) / f"kafka-rebalance-monitor-{name}.lock"
    with place.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield
