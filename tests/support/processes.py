"""Helpers for processes of this machine, and locks between tests that would disturb each other."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def process_lock(name: str, *, shared: bool = False) -> Iterator[None]:
    """Hold a machine-wide lock between processes, exclusive or shared.

    ``crowd``: many consumers at the same time delay each other and their groups. ``network``: Chromium closes its
    connections when Docker creates or removes a network.
    """
    place = Path(tempfile.gettempdir()) / f"kafka-rebalance-monitor-{name}.lock"
    with place.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield


def alive(pid: int) -> bool:
    """Return true if a process exists and has not ended; a zombie has ended."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def children(pid: int) -> list[int]:
    """Return the process ids of a process's children."""
    pids = []
    for stat_file in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat_file.read_text().rpartition(")")[2].split()[1])
        except OSError:  # the process has ended by now
            continue
        if parent == pid:
            pids.append(int(stat_file.parent.name))
    return pids
