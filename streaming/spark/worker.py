"""The daemon that Spark forks its Python workers from (``spark.python.daemon.module``).

Two things make every batch faster, both before the first fork:

* What the operator needs (pandas, pyarrow, the monitor) is imported once here rather than in each new worker.
* For every task a worker calls ``importlib.invalidate_caches()``, and before CPython 3.13 ``zipimport`` then reads
  the directory of every zip on the path again: pyspark's, py4j's and Spark's own core jar. Half of a small batch
  went there. Here, as CPython 3.13 does in effect, an archive is read again only if its file has changed.
"""

from __future__ import annotations

import gc
import sys
import warnings
import zipimport
from pathlib import Path


def _stamp(archive: str) -> tuple[int, int] | None:
    try:
        stat = Path(archive).stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size


def read_changed_archives_only() -> None:
    """Make ``zipimporter.invalidate_caches`` read an archive's directory only when its file has changed."""
    if sys.version_info >= (3, 13):
        return
    read_again = zipimport.zipimporter.invalidate_caches
    seen: dict[str, tuple[int, int] | None] = {}

    def invalidate_caches(self: zipimport.zipimporter) -> None:
        stamp = _stamp(self.archive)
        # The first call finds the directory as the import of this process read it, moments ago.
        if seen.setdefault(self.archive, stamp) != stamp:
            seen[self.archive] = stamp
            read_again(self)

    zipimport.zipimporter.invalidate_caches = invalidate_caches  # type: ignore[method-assign]


def main() -> None:
    """Run pyspark's daemon, warmed up."""
    import pandas as pd  # noqa: F401 - warms the fork
    import pyarrow as pa  # noqa: F401 - same
    import pyspark.worker  # noqa: F401 - same
    from pyspark.daemon import manager

    import streaming.spark.operator  # noqa: F401 - same

    read_changed_archives_only()
    # pyspark's own serializer concatenates empty frames for every batch; nothing here depends on their types.
    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    # A worker runs a full collection after every task: what was imported here need not be looked at again.
    gc.freeze()
    # That collection is enough: a batch makes no cycles worth looking for, and looking took a sixth of its time.
    gc.disable()
    manager()


if __name__ == "__main__":
    main()
