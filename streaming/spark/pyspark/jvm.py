"""The JVM's life: started in a session of its own, gone when this process is."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assignors.errors import OutsideFailure
from streaming.process.private import open_private

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext

log = logging.getLogger(__name__)

_END_SECONDS = 10.0
#: What saves forked commands where Hadoop's native library is missing, as nearly everywhere.
LOCAL_FILES = {
    # The default manager forks `chmod` and `ls` for every checkpoint file.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager"
    ),
    # Hadoop's checksums are a file of their own beside each file, and another `chmod`; state has its own within.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}


class SparkUnavailable(OutsideFailure):
    """Spark did not start."""


class SparkGone(OutsideFailure):
    """Spark's JVM ended while it was needed."""


@contextmanager
def context(properties: Mapping[str, str], log_file: Path, home: Path) -> Iterator[SparkContext]:
    """A Spark context in a new JVM; under spark-submit in the one that is there.

    Args:
        properties: Spark's.
        log_file: where JVM and Python workers write.
        home: the JVM's working directory. Spark leaves a folder ``artifacts`` there (``ArtifactManager`` of 4.0
            makes its temporary folder below that relative path).

    Raises:
        SparkUnavailable: the JVM ended while starting.
        SparkGone: it ended while the context was open.
    """
    from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped] # py4j has no types
    from pyspark import SparkConf
    from pyspark.accumulators import AccumulatorServer
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False).setAll(list(properties.items()))
    try:
        with open_private(log_file, "a") as out:
            popen: dict[str, Any] = {"stdout": out, "stderr": out, "start_new_session": True, "cwd": home}
            gateway = launch_gateway(conf, popen)
        spark = _context(_submitted(conf, gateway), gateway)
    except (PySparkException, OSError) as error:
        raise SparkUnavailable(f"Spark did not start ({error}); its log is {log_file}") from error
    AccumulatorServer.handle_error = _accumulators_gone
    gone = (
        f"Spark's JVM is gone, killed or out of memory; its log is {log_file}. "
        "Start again: the checkpoint has the place and the state"
    )
    ended = threading.Event()
    if gateway.proc is not None:
        threading.Thread(target=_outlive, args=(gateway.proc, ended, gone), daemon=True).start()
    try:
        try:
            yield spark
        finally:
            spark.stop()
    except (Py4JNetworkError, ConnectionError) as error:
        raise SparkGone(gone) from error
    finally:
        ended.set()
        _end(gateway)


def _outlive(jvm: subprocess.Popen[bytes], ended: threading.Event, gone: str) -> None:
    """A JVM that ends unasked ends this process: py4j may wait for an answer that never comes."""
    jvm.wait()
    # The usual way is the error that the next call into the JVM meets; it has this long.
    time.sleep(_END_SECONDS)
    if ended.is_set():
        return
    log.critical("%s", gone)
    os._exit(SparkGone.exit_status)


def _accumulators_gone(server: Any, request: Any, client: Any) -> None:
    """Pyspark prints a stack trace when the JVM's end of this socket goes; what is lost is said once, by us."""
    del server, request, client
    error = sys.exception()
    if isinstance(error, OSError | EOFError):
        log.debug("pyspark's accumulators lost the JVM")
    else:
        log.error(
            "what the buckets of a batch told is lost, timers among it: %s: %s", type(error).__name__, error
        )


def _submitted(conf: SparkConf, gateway: Any) -> SparkConf:
    """Under spark-submit the JVM is there already, and what it was given (master, images, …) wins over ours."""
    if gateway.proc is not None:
        return conf
    from pyspark import SparkConf as Conf

    given = Conf(loadDefaults=True, _jvm=gateway.jvm)
    return Conf(loadDefaults=False, _jvm=gateway.jvm).setAll([*conf.getAll(), *given.getAll()])


def _context(conf: Any, gateway: Any) -> Any:
    """A SparkContext that leaves Ctrl-C to us: pyspark's handler cancels all jobs and raises."""
    from pyspark import SparkContext

    handler = signal.getsignal(signal.SIGINT)
    try:
        return SparkContext(conf=conf, gateway=gateway)
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


def _end(gateway: Any) -> None:
    """Close the JVM's standard input, which ends it, and wait until it has."""
    process: subprocess.Popen[bytes] | None = gateway.proc
    gateway.shutdown()
    if process is None:  # spark-submit's own
        return
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
