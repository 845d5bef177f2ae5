"""A failed query in one line: what a person can act on, without Spark's stack traces."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from assignors.errors import OutsideFailure
from streaming.kafka.producer import CLOCK
from streaming.spark.damage import explain, state_files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Our own errors in the stack trace of a Python worker.
_OURS = re.compile(r"(?:assignors|streaming)\.[\w.]+: (.+)")
#: Kafka's retriable errors as they stand in a failed query's text.
_AWAY = (
    "org.apache.kafka.common.errors.TimeoutException",
    "org.apache.kafka.common.errors.DisconnectException",
    "org.apache.kafka.common.errors.NetworkException",
    "org.apache.kafka.common.errors.NotLeaderOrFollowerException",
    "org.apache.kafka.common.errors.LeaderNotAvailableException",
    "java.util.concurrent.TimeoutException",
)
#: And those that say that a broker's clock is another.
_TIME_REFUSED = re.compile(r"InvalidTimestampException|InvalidRecordException: Timestamp")


class StreamFailed(OutsideFailure):
    """The streaming query failed."""


def cluster_is_away(text: str) -> bool:
    """Whether a query's failure says that the brokers did not answer: the one failure that waiting cures."""
    return any(name in text for name in _AWAY)


def not_allowed(text: str) -> bool:
    """Whether a query's failure says that this user may not do something."""
    return "AuthorizationException" in text


def reason(error: Exception) -> str:
    """The line of an error that a person can act on: what our own code raised in a worker, else the last cause."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    ours = [found[1] for line in lines if (found := _OURS.match(line))]
    causes = [line for line in lines if line.startswith("Caused by:")]
    said = (ours or causes)[-1:] or lines[:1] or [type(error).__name__]
    return f"{said[0][:500]}; {CLOCK}" if _TIME_REFUSED.search(said[0]) else said[0][:500]


def errors() -> tuple[type[Exception], ...]:
    """What PySpark raises when the JVM says no; a JVM that is gone is another thing."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped] # py4j has no types
    from pyspark.errors import PySparkException

    return PySparkException, Py4JJavaError


def of_checkpoint(
    error: Exception, spark: SparkSession, checkpoint: str, location: str
) -> OutsideFailure | None:
    """What to tell when one of :func:`errors` is about the checkpoint's files; None when it is not.

    Args:
        error: it.
        spark: the session, still open.
        checkpoint: the checkpoint's folder as it was given.
        location: the same as Spark names it.
    """
    from streaming.spark.pyspark.state_files import unreadable

    return explain(str(error), checkpoint, location, lambda: unreadable(spark, state_files(Path(checkpoint))))
