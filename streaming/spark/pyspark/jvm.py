"""The JVM's life: started in a session of its own, gone when this process is."""

from __future__ import annotations

import logging
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

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


class Launch:
    """A JVM of Spark's on its way; what else there is to do at a start is done meanwhile.

    Args:
        properties: Spark's; those that a JVM is started with count.
        log_file: where JVM and Python workers write.
        home: the JVM's working directory. Spark leaves a folder ``artifacts`` there (``ArtifactManager`` of 4.0
            makes its temporary folder below that relative path).
        end_seconds: it is killed when it has not ended by itself so long after it was asked to.
    """

    def __init__(self, properties: Mapping[str, str], log_file: Path, home: Path, end_seconds: float) -> None:
        self._log_file = log_file
        self._end_seconds = end_seconds
        self._gateway: Future[Any] = Future()
        threading.Thread(
            target=self._launch, args=(_conf(properties), home), name="jvm-launch", daemon=True
        ).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._gateway.exception() is None:
            _end(self._gateway.result(), self._end_seconds)

    def _launch(self, conf: SparkConf, home: Path) -> None:
        from pyspark.java_gateway import launch_gateway

        try:
            with open_private(self._log_file, "a") as out:
                popen: dict[str, Any] = {"stdout": out, "stderr": out, "start_new_session": True, "cwd": home}
                self._gateway.set_result(launch_gateway(conf, popen))
        except BaseException as error:  # noqa: BLE001 - it is raised where the JVM is asked for
            self._gateway.set_exception(error)

    @contextmanager
    def context(self, properties: Mapping[str, str]) -> Iterator[SparkContext]:
        """A Spark context in the new JVM; under spark-submit in the one that is there.

        Raises:
            SparkUnavailable: the JVM ended while starting.
            SparkGone: it ended while the context was open.
        """
        from pyspark import SparkContext

        with starting(self._log_file):
            gateway = self._gateway.result()
            conf = _submitted(_conf(properties), gateway)
            spark = without_handler(lambda: SparkContext(conf=conf, gateway=gateway))
        ended = threading.Event()
        if gateway.proc is not None:
            threading.Thread(
                target=_outlive, args=(gateway.proc, ended, gone(self._log_file)), daemon=True
            ).start()
        try:
            with open_until_gone(spark, self._log_file):
                yield spark
        finally:
            ended.set()


def _conf(properties: Mapping[str, str]) -> SparkConf:
    from pyspark import SparkConf

    return SparkConf(loadDefaults=False).setAll(list(properties.items()))


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
