"""The process that Spark forks its Python workers from (Spark's setting ``spark.python.daemon.module``).

PySpark's own daemon, started with three things done before the first fork. What each saves is in
``docs/design/stream.md``.
"""

from __future__ import annotations

import gc
import sys
import zipimport
from pathlib import Path
from typing import Final

#: This module's name, for the setting.
MODULE: Final = "streaming.spark.daemon"


def main() -> None:
    """Run PySpark's daemon."""
    from pyspark import daemon

    _import_early()
    if sys.version_info < (3, 13):
        cache_zip_directories()
    # A worker collects after each task, and a batch makes no cycles: what is imported need not be looked at again.
    gc.freeze()
    gc.disable()
    daemon.manager()


def _import_early() -> None:
    """Import what every worker needs: each fork then has it."""
    import pandas  # type: ignore[import-untyped] # noqa: F401, ICN001 - the frames' library
    import pyspark.testing.utils
    import pyspark.worker  # noqa: F401 - the workers' main

    import streaming.spark.operator  # noqa: F401 - the job's own


def cache_zip_directories() -> None:
    """Have ``zipimport`` read an archive's directory again only when the file has changed, as CPython 3.13 does.

    PySpark invalidates the import caches for every task, and Spark puts its 20 MB core jar on the workers' path.
    This replaces a method of the standard library in the workers' processes alone.
    """
    read_again = zipimport.zipimporter.invalidate_caches
    known: dict[str, tuple[int, int] | None] = {}

    def invalidate_caches(self: zipimport.zipimporter) -> None:
        stamp = _stamp(Path(self.archive))
        if known.setdefault(self.archive, stamp) != stamp:
            known[self.archive] = stamp
            read_again(self)

    zipimport.zipimporter.invalidate_caches = invalidate_caches  # type: ignore[method-assign] # see above


def _stamp(archive: Path) -> tuple[int, int] | None:
    try:
        stat = archive.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


if __name__ == "__main__":
    main()
