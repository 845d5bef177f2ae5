"""A Spark context by PySpark's public interface; :mod:`streaming.spark.pyspark.jvm` does more for its JVM."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from assignors.errors import OutsideFailure
from streaming.process.private import open_private

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

_Made = TypeVar("_Made")


class SparkUnavailable(OutsideFailure):
    """Spark did not start."""


class SparkGone(OutsideFailure):
    """Spark's JVM ended while it was needed."""


@contextmanager
def context(properties: Mapping[str, str], log_file: Path) -> Iterator[SparkContext]:
    """A Spark context in a JVM of PySpark's, which ends with this process; under spark-submit in the one there is.

    The JVM is in this process's session and working directory.

    Args:
        properties: Spark's; what spark-submit was given wins over them.
        log_file: where JVM and Python workers write.

    Raises:
        SparkUnavailable: the JVM ended while starting.
        SparkGone: it ended while the context was open.
    """
    from pyspark import SparkContext

    with starting(log_file), _console(log_file):
        spark = without_handler(lambda: SparkContext(conf=_conf(properties)))
    with open_until_gone(spark, log_file):
        yield spark


@contextmanager
def starting(log_file: Path) -> Iterator[None]:
    """While Spark starts: what goes wrong is told in our words."""
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, OSError) as error:
        raise SparkUnavailable(f"Spark did not start ({error}); its log is {log_file}") from error


@contextmanager
def open_until_gone(spark: SparkContext, log_file: Path) -> Iterator[None]:
    """While a context is open; then it is stopped. A JVM that is gone is told in our words."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped] # py4j has no types

    try:
        try:
            yield
        finally:
            spark.stop()
    except (Py4JError, ConnectionError) as error:
        if _answers(spark):
            raise
        raise SparkGone(gone(log_file)) from error


def _answers(spark: SparkContext) -> bool:
    """Whether the JVM does: py4j's errors may not tell one that ends in a call from one that says no."""
    from py4j.protocol import Py4JError

    try:
        spark._jvm.System.nanoTime()  # noqa: SLF001 - no public way to the JVM
    except (Py4JError, ConnectionError):
        return False
    return True


def gone(log_file: Path) -> str:
    """That the JVM is gone, and what to do."""
    return (
        f"Spark's JVM is gone, killed or out of memory; its log is {log_file}. "
        "Start again: the checkpoint has the place and the state"
    )


def without_handler(make: Callable[[], _Made]) -> _Made:
    """What ``make`` gives, with Ctrl-C left to us: pyspark's handler cancels all jobs and raises."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        return make()
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


def _conf(properties: Mapping[str, str]) -> SparkConf:
    from pyspark import SparkConf, SparkContext

    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        return SparkConf(loadDefaults=False).setAll(list(properties.items()))
    SparkContext.getSystemProperty(
        "spark.master"
    )  # connects to spark-submit's JVM: a SparkConf has what it was given
    conf = SparkConf()
    for name, value in properties.items():
        conf.setIfMissing(name, value)
    return conf


@contextmanager
def _console(log_file: Path) -> Iterator[None]:
    """Have what is started meanwhile write to the log: PySpark gives its JVM our own console."""
    kept = [os.dup(number) for number in (1, 2)]
    try:
        with open_private(log_file, "a") as out:
            for number in (1, 2):
                os.dup2(out.fileno(), number)
        yield
    finally:
        for number, copy in zip((1, 2), kept, strict=True):
            os.dup2(copy, number)
            os.close(copy)
