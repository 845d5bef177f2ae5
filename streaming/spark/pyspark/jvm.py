"""The JVM's life: started in a session of its own, gone when this process is."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from streaming.process.private import open_private
from streaming.spark.context import SparkGone, gone, open_until_gone, starting, without_handler
from streaming.spark.pyspark.signatures import differing, lacking, missing

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

log = logging.getLogger(__name__)

_ERROR_SECONDS = 10.0


def unfit() -> str | None:
    """Why this does not fit the installed PySpark; None when it does."""
    from pyspark import SparkContext, java_gateway

    return (
        missing(java_gateway, ["launch_gateway"])
        or differing(java_gateway.launch_gateway, ["conf", "popen_kwargs"])
        or lacking(SparkContext.__init__, ["conf", "gateway"])
    )


@contextmanager
def context(
    properties: Mapping[str, str], log_file: Path, home: Path, end_seconds: float
) -> Iterator[SparkContext]:
    """A Spark context in a new JVM; under spark-submit in the one that is there.

    Args:
        properties: Spark's.
        log_file: where JVM and Python workers write.
        home: the JVM's working directory. Spark leaves a folder ``artifacts`` there (``ArtifactManager`` of 4.0
            makes its temporary folder below that relative path).
        end_seconds: it is killed when it has not ended by itself so long after it was asked to.

    Raises:
        SparkUnavailable: the JVM ended while starting.
        SparkGone: it ended while the context was open.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False).setAll(list(properties.items()))
    with starting(log_file):
        with open_private(log_file, "a") as out:
            popen: dict[str, Any] = {"stdout": out, "stderr": out, "start_new_session": True, "cwd": home}
            gateway = launch_gateway(conf, popen)
        spark = without_handler(lambda: SparkContext(conf=_submitted(conf, gateway), gateway=gateway))
    ended = threading.Event()
    if gateway.proc is not None:
        threading.Thread(target=_outlive, args=(gateway.proc, ended, gone(log_file)), daemon=True).start()
    try:
        with open_until_gone(spark, log_file):
            yield spark
    finally:
        ended.set()
        _end(gateway, end_seconds)


def _outlive(jvm: subprocess.Popen[bytes], ended: threading.Event, why: str) -> None:
    """A JVM that ends unasked ends this process: py4j may wait for an answer that never comes."""
    jvm.wait()
    # The usual way is the error that the next call into the JVM meets; it has this long.
    time.sleep(_ERROR_SECONDS)
    if ended.is_set():
        return
    log.critical("%s", why)
    os._exit(SparkGone.exit_status)


def _submitted(conf: SparkConf, gateway: Any) -> SparkConf:
    """Under spark-submit the JVM is there already, and what it was given (master, images, …) wins over ours."""
    if gateway.proc is not None:
        return conf
    from pyspark import SparkConf as Conf

    given = Conf(loadDefaults=True, _jvm=gateway.jvm)
    return Conf(loadDefaults=False, _jvm=gateway.jvm).setAll([*conf.getAll(), *given.getAll()])


def _end(gateway: Any, seconds: float) -> None:
    """Close the JVM's standard input, which ends it, and wait until it has."""
    process: subprocess.Popen[bytes] | None = gateway.proc
    gateway.shutdown()
    if process is None:  # spark-submit's own
        return
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
