"""Zip archives on the path are read again when they have changed, and only then.

For every task a worker calls ``importlib.invalidate_caches()``, and before CPython 3.13 ``zipimport`` then reads
the directory of every zip on the path again: pyspark's, py4j's and Spark's own core jar. Half of a small batch went
there.
"""

from __future__ import annotations

import sys
import zipimport
from pathlib import Path

from streaming.spark.pyspark.signatures import differing


def unfit() -> str | None:
    """Why this does not fit the running Python; None when it does."""
    if sys.version_info >= (3, 13):
        return "CPython 3.13 does the same by itself"
    return differing(zipimport.zipimporter.invalidate_caches, ())


def install() -> None:
    """Make ``zipimporter.invalidate_caches`` read an archive's directory only when its file has changed."""
    read_again = zipimport.zipimporter.invalidate_caches
    seen: dict[str, tuple[int, int] | None] = {}

    def invalidate_caches(self: zipimport.zipimporter) -> None:
        stamp = _stamp(self.archive)
        # The first call finds the directory as the import of this process read it, moments ago.
        if seen.setdefault(self.archive, stamp) != stamp:
            seen[self.archive] = stamp
            read_again(self)

    zipimport.zipimporter.invalidate_caches = invalidate_caches  # type: ignore[method-assign] # the point of it


def _stamp(archive: str) -> tuple[int, int] | None:
    try:
        stat = Path(archive).stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size
