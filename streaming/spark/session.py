"""The JVM: started with a quiet console, in a session of its own, gone when this process is.

Ctrl-C in a terminal goes to every process of the foreground group; a JVM among them dies first and takes the
query down with a stack trace. In a session of its own it only hears from us. It ends with this process all the
same: it watches its standard input.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assignors.errors import OutsideFailure
from streaming.kafka.jars import fetch, spark_connector
from streaming.kafka.java import java

if TYPE_CHECKING:
    from pyspark import SparkConf
    from pyspark.sql import SparkSession

#: Already in pyspark's own jars, where a second copy would only cost start-up time.
_SHIPPED = (
    "hadoop-client-",
    "scala-library-",
    "slf4j-api-",
    "lz4-java-",
    "snappy-java-",
    "scala-parallel-",
    "jsr305-",
)
_END_SECONDS = 10.0
#: What saves forked commands where Hadoop's native library is missing, as nearly everywhere.
_LOCAL_FILES = {
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


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How Spark runs.

    Attributes:
        master: Spark's master URL. ``local[2,4]``: two cores, and a task whose Python worker died is tried again.
        log_file: where the JVM and the Python workers write; a temporary file when None.
        shuffle_partitions: tasks of the stateful stage. Kept in the checkpoint from its first batch on.
        verbose: log level INFO in place of WARN.
        connector: with the jars of Spark's Kafka connector.
        local_checkpoint: the checkpoint is a folder; behind a URL Spark chooses how to write its files.
        conf: Spark properties that go before this module's.
    """

    master: str = "local[2,4]"
    log_file: Path | None = None
    shuffle_partitions: int = 2
    verbose: bool = False
    connector: bool = True
    local_checkpoint: bool = True
    conf: tuple[tuple[str, str], ...] = ()


def connector_jars(jars: Iterable[Path]) -> list[Path]:
    """Those of the connector's jars that pyspark does not ship itself."""
    return [jar for jar in jars if not jar.name.startswith(_SHIPPED)]


def configuration(options: SessionOptions, jars: list[Path], log4j: Path) -> dict[str, str]:
    """Spark's properties. Each that is not about quiet or place has its reason beside it."""
    local = options.master.startswith("local")
    # VFORK: Hadoop forks a `chmod` for each of a batch's files; by the JDK's helper one takes 1.6 ms, so 1.0.
    java_options = (
        f"-Dlog4j.configurationFile={log4j} -XX:+UseSerialGC -XX:TieredStopAtLevel=4 -Xshare:auto "
        "-Djdk.lang.Process.launchMechanism=VFORK"
    )
    return {
        "spark.master": options.master,
        "spark.app.name": "kafka-rebalance-monitor",
        "spark.jars": ",".join(str(jar) for jar in connector_jars(jars)),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.streaming.ui.enabled": "false",
        # A cluster's drivers must be reachable; on one machine nothing listens beyond loopback.
        **({"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} if local else {}),
        "spark.driver.extraJavaOptions": java_options,
        "spark.python.daemon.module": "streaming.spark.worker",
        "spark.sql.shuffle.partitions": str(options.shuffle_partitions),
        # Whole buckets go to Python; splitting them there only to join them again costs.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
        # Timers run on the ticks of the plan; without this an idle query would run empty batches without pause.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.minBatchesToRetain": "20",
        "spark.sql.streaming.stopTimeout": "30s",
        # Adaptive execution is off for stateful queries anyway.
        "spark.sql.adaptive.enabled": "false",
        **(_LOCAL_FILES if options.local_checkpoint else {}),
        **dict(options.conf),
    }


@contextmanager
def session(options: SessionOptions) -> Iterator[SparkSession]:
    """A Spark session in a new JVM, which is gone when the context is left.

    Raises:
        NoJava: there is none.
        DownloadFailed: the Kafka connector could not be fetched.
        SparkUnavailable: the JVM ended while starting; the message names its log.
        SparkGone: it ended while the context was open.
    """
    java()
    import pyspark
    from py4j.protocol import Py4JNetworkError  # type: ignore[import-untyped]
    from pyspark import SparkConf
    from pyspark.accumulators import AccumulatorServer
    from pyspark.errors import PySparkException
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    jars = fetch([spark_connector(pyspark.__version__)]) if options.connector else []
    log_file = options.log_file or Path(tempfile.mkdtemp(prefix="rebalance-monitor-")) / "spark.log"
    log_file.parent.mkdir(parents=True, exist_ok=True)
    log4j = _log4j(log_file.parent, "info" if options.verbose else "warn")
    # pyspark logs every captured error once more, whole, to the console; ours names its cause.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    if options.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # The workers import this package wherever the command was started.
    root = str(Path(__file__).parents[2])
    paths = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if root not in paths:
        os.environ["PYTHONPATH"] = os.pathsep.join([root, *filter(None, paths)])
    conf = SparkConf(loadDefaults=False).setAll(list(configuration(options, jars, log4j).items()))
    with log_file.open("a") as log:
        popen: dict[str, Any] = {"stdout": log, "stderr": log, "start_new_session": True}
        try:
            gateway = launch_gateway(conf, popen)
            context = _context(_submitted(conf, gateway), gateway)
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
            yield SparkSession(context)
        finally:
            context.stop()
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
    logging.getLogger(__name__).critical("%s", gone)
    os._exit(SparkGone.exit_status)


def _accumulators_gone(server: Any, request: Any, client: Any) -> None:
    """Pyspark prints a stack trace when the JVM's end of this socket goes; what is lost is said once, by us."""
    del server, request, client
    logging.getLogger(__name__).debug("pyspark's accumulators lost the JVM")


def _submitted(conf: SparkConf, gateway: Any) -> SparkConf:
    """Under spark-submit the JVM is there already, and what it was given (master, images, …) goes before ours."""
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


def _log4j(folder: Path, level: str) -> Path:
    """Console is the log file; noise that no one can act on is off."""
    path = folder / "log4j2.properties"
    path.write_text(
        f"""rootLogger.level = {level}
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{yy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
logger.kafka.name = org.apache.kafka.clients.admin.AdminClientConfig
logger.kafka.level = error
logger.consumer.name = org.apache.kafka.clients.consumer.ConsumerConfig
logger.consumer.level = error
logger.producer.name = org.apache.kafka.clients.producer.ProducerConfig
logger.producer.level = error
logger.nativecode.name = org.apache.hadoop.util.NativeCodeLoader
logger.nativecode.level = error
"""
    )
    return path
