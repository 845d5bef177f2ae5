"""The process that Spark forks its Python workers from (Spark's setting ``spark.python.daemon.module``).

It runs PySpark's own daemon after imports and two settings, whose savings are in ``docs/design/stream.md``.
"""

from __future__ import annotations

import gc
import sys
from typing import Final

#: This module's name, for the setting.
MODULE: Final = "streaming.spark.daemon"


def main() -> None:
    """Run PySpark's daemon."""
    import pandas  # type: ignore[import-untyped] # noqa: F401, ICN001 - the frames' library
    import pyspark.testing.utils
    import pyspark.worker  # noqa: F401 - the workers' main
    from pyspark import daemon

    import streaming.spark.operator  # noqa: F401 - the job's own

    leave_out_jars()
    # A worker collects garbage after each task, and a batch makes no cycles.
    gc.freeze()
    gc.disable()
    daemon.manager()


def leave_out_jars() -> None:
    """Remove jars from the import path: Spark puts its core jar there, which has no Python modules.

    Before 3.13, CPython reads the directory of each archive on the path again whenever import caches are
    invalidated, as PySpark does in every new worker.
    """
    for jar in [path for path in sys.path if path.endswith(".jar")]:
        sys.path.remove(jar)
        sys.path_importer_cache.pop(jar, None)


if __name__ == "__main__":
    main()
