"""Processes of this machine."""

from __future__ import annotations

import os
from pathlib import Path


def alive(pid: int) -> bool:
    """Return true if a process exists and has not ended (a zombie has)."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"


def children(pid: int) -> list[int]:
    """Return the pids of a process's children."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
        except OSError:  # the process has ended by now
            continue
        if parent == pid:
            found.append(int(stat.parent.name))
    return found
