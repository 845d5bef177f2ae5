"""The daemon that Spark forks its Python workers from (``spark.python.daemon.module``).

Four things make every batch faster, all before the first fork:

* What the operator needs (pyarrow, the monitor) is imported once here rather than in each new worker.
* For every task a worker calls ``importlib.invalidate_caches()``, and before CPython 3.13 ``zipimport`` then reads
  the directory of every zip on the path again: pyspark's, py4j's and Spark's own core jar. Half of a small batch
  went there. Here, as CPython 3.13 does in effect, an archive is read again only if its file has changed.
* The JVM sends a task's command and then its rows. Nagle's algorithm holds the rows back until the command is
  acknowledged, and a worker that has answered before puts that off by 40 ms. Here it acknowledges at once.
* pyspark makes pandas frames of everything: here Arrow's arrays are handed over (:mod:`.arrow`).
"""

from __future__ import annotations

import gc
import socket
import sys
import zipimport
from collections.abc import Callable
from pathlib import Path

#: ``pyspark.daemon.worker``: a connection and whether it is authenticated → status.
Serve = Callable[[socket.socket, bool], int]


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

    zipimport.zipimporter.invalidate_caches = invalidate_caches  # type: ignore[method-assign] # the point of it


def acknowledge_at_once(serve: Serve) -> Serve:
    """What serves one task on a connection to the JVM, with TCP's delayed acknowledgement off while it reads."""
    quick = getattr(socket, "TCP_QUICKACK", None)
    if quick is None:  # not Linux
        return serve

    def served(connection: socket.socket, authenticated: bool) -> int:
        if connection.family != socket.AF_UNIX:  # later Sparks can do without TCP
            # Not for good: the kernel goes back to delaying when the worker has answered.
            connection.setsockopt(socket.IPPROTO_TCP, quick, 1)
        return serve(connection, authenticated)

    return served


def main() -> None:
    """Run pyspark's daemon, warmed up."""
    import pyspark.testing.utils  # noqa: F401 - warms the fork: GroupState.update asks it for numpy, it loads pandas
    from pyspark import daemon

    import streaming.spark.operator  # noqa: F401 - same
    from streaming.spark.pyspark import arrow

    read_changed_archives_only()
    arrow.install()
    # A worker runs a full collection after every task: what was imported here need not be looked at again.
    gc.freeze()
    # That collection is enough: a batch makes no cycles worth looking for, and looking took a sixth of its time.
    gc.disable()
    daemon.worker = acknowledge_at_once(daemon.worker)
    daemon.manager()


if __name__ == "__main__":
    main()
