"""The process that forks Spark's Python workers (Spark's setting ``spark.python.daemon.module``).

It imports some modules, changes two settings, and runs PySpark's own daemon (``docs/design/stream.md``).
"""

import gc
import sys


def main() -> None:
    """Import the modules that Spark's Python workers need, then run PySpark's daemon, which forks the workers."""
    import pandas  # type: ignore[import-untyped] # noqa: F401, ICN001 - the frames' library
    import pyspark.testing.utils
    import pyspark.worker  # noqa: F401 - the workers' main
    from pyspark import daemon

    import streaming.spark.operator  # noqa: F401 - the job's own

    leave_out_jars()
    # A worker collects garbage after each task, and a batch creates no reference cycles.
    gc.freeze()
    gc.disable()
    daemon.manager()


def leave_out_jars() -> None:
    """Remove jars from the import path; Spark adds its core jar, which has no Python modules.

    Before 3.13, CPython reads the directory of each archive on the path again whenever import caches are
    invalidated, as PySpark does in every new worker.
    """
    for jar in [path for path in sys.path if path.endswith(".jar")]:
        sys.path.remove(jar)
        sys.path_importer_cache.pop(jar, None)


if __name__ == "__main__":
    main()
