"""The daemon that Spark forks its Python workers from (``spark.python.daemon.module``), warmed up.

What the operator needs (pyarrow, the monitor) is imported once here, before the first fork, rather than in each new
worker, and no batch is interrupted to look for garbage. The other shortcuts of the workers are put in place here,
each where it fits the PySpark of this machine, which may be another one than the driver's.
"""

from __future__ import annotations

import gc

from streaming.spark.pyspark import (
    ARROW_COLUMNS,
    QUICK_ACKNOWLEDGEMENT,
    WARM_DAEMON,
    ZIP_CACHE,
    survey,
    unit,
)
from streaming.spark.pyspark.signatures import differing, missing

#: Its name for Spark.
MODULE = "streaming.spark.pyspark.worker"


def unfit() -> str | None:
    """Why this does not fit the installed PySpark; None when it does."""
    from pyspark import daemon

    return missing(daemon, ["manager"]) or differing(daemon.manager, ())


def main() -> None:
    """Run pyspark's daemon with what fits."""
    from pyspark import daemon

    used = survey().used
    for name in (ARROW_COLUMNS, ZIP_CACHE, QUICK_ACKNOWLEDGEMENT):
        if name in used:
            unit(name).install()
    if WARM_DAEMON in used:
        _warm_up()
    daemon.manager()


def _warm_up() -> None:
    import pyspark.testing.utils  # noqa: F401 - GroupState.update asks it for numpy, it loads pandas

    import streaming.spark.operator  # noqa: F401 - the workers' own

    # A worker runs a full collection after every task: what was imported here need not be looked at again.
    gc.freeze()
    # That collection is enough: a batch makes no cycles worth looking for, and looking took a sixth of its time.
    gc.disable()


if __name__ == "__main__":
    main()
