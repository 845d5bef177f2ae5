"""The folder where downloads are kept between runs, and locks in it that outlive no process."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from assignors.errors import OutsideFailure

#: Overrides where downloads are kept.
CACHE_VARIABLE = "REBALANCE_MONITOR_CACHE"


class CacheUnusable(OutsideFailure):
    """The cache folder can't be written."""


def cache_dir(*parts: str) -> Path:
    """The cache folder, or a folder in it: made when missing.

    ``$REBALANCE_MONITOR_CACHE``, else the platform's place for caches (``$XDG_CACHE_HOME`` or ``~/.cache``;
    ``~/Library/Caches`` on macOS).

    Raises:
        CacheUnusable: it can't be made.
    """
    override = os.environ.get(CACHE_VARIABLE)
    if override:
        root = Path(override).expanduser()
    elif sys.platform == "darwin":
        root = Path.home() / "Library/Caches/kafka-rebalance-monitor"
    else:
        root = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kafka-rebalance-monitor"
    path = root.joinpath(*parts).resolve()
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CacheUnusable(
            f"{path}: {error.strerror}; set {CACHE_VARIABLE} to a folder to write in"
        ) from error
    return path


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Holds the lock file ``path``; the kernel lets go of it when the process ends, however it ends."""
    try:
        with path.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
    except PermissionError as error:
        raise CacheUnusable(
            f"{path}: {error.strerror}; set {CACHE_VARIABLE} to a folder to write in"
        ) from error
