"""The Spark session, which starts the JVM and ends it with this process.

The JVM ignores Ctrl-C, and ends when its standard input is closed.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, wait
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from assignors.errors import OutsideFailure
from streaming.kafka.jars import DownloadFailed, fetch, java, spark_connector
from streaming.process.children import open_private
from streaming.spark import archives

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

#: The PySpark release in ``uv.lock``, whose connector can be downloaded, and the oldest supported release.
LOCKED_PYSPARK: Final = "4.2.0"
OLDEST_RELEASE: Final = (4, 1)
#: Jars of the connector that are also part of PySpark: a second copy would slow down the start.
_IN_PYSPARK = ("hadoop-client-", "scala-library-", "slf4j-api-", "lz4-java-", "snappy-", "scala-parallel-", "jsr305-")
#: Settings for writing a checkpoint in a folder. Without Hadoop's native library, Spark's default file manager
#: forks ``chmod`` and ``ls`` for every file. Each of Hadoop's checksums is one more file and fork; the state has
#: checksums of its own.
_LOCAL_FILE_OPTIONS: Final = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
}


class StartInterrupted(OutsideFailure):
    """A signal stopped the start of Spark: the process must end."""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """The options of the Spark session.

    ``master``: by default two cores, and four attempts for a task whose Python worker died. ``log_file``: the log of
    the JVM and the Python workers; None: a temporary file. ``shuffle_partitions`` is fixed in the checkpoint by its
    first batch. ``local_checkpoint``: True for a checkpoint in a folder; behind a URL Spark chooses how to write the
    files. ``java_options`` also apply to the executors. ``archive``: the Python archive for executors. ``packages``:
    coordinates of further jars. ``conf`` overrides this module's Spark properties.
    """

    master: str = "local[2,4]"
    log_file: Path | None = None
    shuffle_partitions: int = 2
    verbose: bool = False
    connector: bool = True
    local_checkpoint: bool = True
    java_options: str = ""
    archive: Path | None = None
    packages: tuple[str, ...] = ()
    conf: tuple[tuple[str, str], ...] = ()


def installed_pyspark() -> str:
    """Return the version of the installed PySpark; raise OutsideFailure if it is too old."""
    try:
        release = version("pyspark")
    except PackageNotFoundError:  # spark-submit uses the PySpark in Spark's own folder
        from pyspark import __version__

        release = str(__version__)
    if tuple(int(part) for part in release.split(".")[:2] if part.isdigit()) < OLDEST_RELEASE:
        oldest = ".".join(map(str, OLDEST_RELEASE))
        raise OutsideFailure(f"PySpark {release} is installed, which is too old: pip install 'pyspark>={oldest}'")
    return release


def kafka_connector(packages: Iterable[str] = ()) -> list[Path]:
    """Return the jars of Spark's Kafka connector and of further packages, without jars that are part of PySpark."""
    release = installed_pyspark()
    try:
        return [jar for jar in fetch([spark_connector(release), *packages]) if not jar.name.startswith(_IN_PYSPARK)]
    except DownloadFailed as error:
        if release == LOCKED_PYSPARK:
            raise
        raise OutsideFailure(
            f"Spark's Kafka connector for the installed PySpark {release} could not be fetched. If the repository "
            f"does not have it, install a release that it has: pip install 'pyspark=={LOCKED_PYSPARK}' ({error})"
        ) from error


def jvm_path(path: str) -> str:
    """Return the absolute path of a folder, for the JVM; return a URL unchanged."""
    return path if "://" in path else str(Path(path).absolute())


def configuration(options: SessionOptions, jars: list[Path], log4j: Path) -> dict[str, str]:
    """Return Spark's configuration properties; comments have the reasons."""
    local = options.master.startswith("local")
    # VFORK: Hadoop forks a `chmod` for some files, which takes 1.0 ms this way and 1.6 by the JDK's helper.
    java_options = (
        f"-Dlog4j.configurationFile={log4j} -XX:+UseSerialGC -Xshare:auto "
        f"-Djdk.lang.Process.launchMechanism=VFORK {archives.java_options(jars)} {options.java_options}"
    )
    # The class archive can only have classes of the class path, which is fixed when spark-submit has started the JVM.
    is_fixed = not local or "PYSPARK_GATEWAY_PORT" in os.environ
    name, separator = ("spark.jars", ",") if is_fixed else ("spark.driver.extraClassPath", ":")
    optional = {name: separator.join(map(str, jars))} if jars else {}
    if options.archive is not None:
        optional["spark.archives"] = f"{options.archive.absolute()}#{archives.UNPACKED_FOLDER}"
        optional["spark.executorEnv.PYTHONPATH"] = archives.UNPACKED_FOLDER
    if options.java_options:
        optional["spark.executor.extraJavaOptions"] = options.java_options
    if local:  # a cluster's executors must reach the driver; with a local master, Spark listens only on loopback
        optional |= dict.fromkeys(("spark.driver.host", "spark.driver.bindAddress"), "127.0.0.1")
    return optional | {
        "spark.master": options.master,
        "spark.app.name": "kafka-rebalance-monitor",
        # Spark prints options when it explains a plan; options with secrets are printed as "(redacted)".
        "spark.redaction.regex": r"(?i)secret|password|token|access[.]?key|jaas|keystore|ssl[.]key",
        # The stack trace of Spark's errors contains the cause, such as the file that can't be read.
        "spark.sql.pyspark.jvmStacktrace.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.streaming.ui.enabled": "false",
        "spark.driver.extraJavaOptions": java_options.rstrip(),
        "spark.python.daemon.module": "streaming.spark.daemon",
        # Over TCP each task waits 40 ms for a delayed acknowledgement.
        "spark.python.unix.domain.socket.enabled": "true",
        # The most of a pandas frame. Without a limit in bytes, records of large groups fill the JVM's memory; fewer
        # rows would make more frames.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1024",
        "spark.sql.shuffle.partitions": str(options.shuffle_partitions),
        # Timers use ticks; with Spark's default an idle query would run empty batches without pause.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        # Each batch that a checkpoint keeps takes up to the size of the state. A restart reads the last two.
        "spark.sql.streaming.minBatchesToRetain": "10",
        # How often Spark deletes old files of the state. At its default of a minute, 240 batches' changes would
        # stay, each up to the whole state.
        "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
        "spark.sql.streaming.stopTimeout": "30s",
        # `inspect-state` and `resize` collect the whole state, which may be larger than Spark's default of 1 GB.
        "spark.driver.maxResultSize": "0",
        # Spark never uses adaptive execution for stateful queries.
        "spark.sql.adaptive.enabled": "false",
        **(_LOCAL_FILE_OPTIONS if options.local_checkpoint else {}),
        **dict(options.conf),
    }


@contextmanager
def session(options: SessionOptions, stop: threading.Event | None = None) -> Iterator[SparkSession]:
    """Yield a Spark session in a JVM that ends with this process; under spark-submit, in spark-submit's JVM.

    Raises StartStopped if ``stop`` is set during the start: the process must end, as a JVM may still be starting.
    """
    installed_pyspark()
    java()
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    jars = kafka_connector(options.packages) if options.connector else []
    with tempfile.TemporaryDirectory(prefix="rebalance-monitor-", ignore_cleanup_errors=True) as home:
        log_file = (options.log_file or Path(tempfile.mkdtemp(prefix="rebalance-monitor-")) / "spark.log").absolute()
        log_file.parent.mkdir(parents=True, exist_ok=True)
        # PySpark logs every error again to the console, with its stack trace; this project's message names the cause.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
        _set_environment(options)
        properties = configuration(options, jars, _log4j(Path(home), "info" if options.verbose else "warn"))
        try:
            context = _start_context(lambda: _context(properties, log_file, Path(home)), stop or threading.Event())
        except (PySparkException, OSError) as error:
            raise OutsideFailure(f"Spark did not start ({error}); its log is {log_file}") from error
        with keep_open_until_context_ends(context, log_file):
            yield SparkSession.builder.getOrCreate()


def _set_environment(options: SessionOptions) -> None:
    if options.master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYSPARK_PYTHON", archives.python() if options.archive else sys.executable)
    # The workers must find this package, whatever their working directory is.
    paths = [str(Path(__file__).parents[2]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([str(Path(path).absolute()) for path in paths if path]))


@contextmanager
def keep_open_until_context_ends(context: SparkContext, log_file: Path) -> Iterator[None]:
    """Stop the Spark context at the end of the ``with`` block; raise OutsideFailure if the JVM has ended."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped] # py4j has no types

    try:
        try:
            yield
        finally:
            context.stop()
    except (Py4JError, ConnectionError) as error:
        if _is_alive(context):
            raise
        raise OutsideFailure(
            f"Spark's JVM is gone, killed or out of memory; its log is {log_file}. "
            "Start again: the checkpoint has the offsets and the state"
        ) from error


def _is_alive(context: SparkContext) -> bool:
    """True if the JVM answers; an error alone does not show whether the JVM has ended or refused a call."""
    from py4j.protocol import Py4JError

    try:
        _ = context.version  # a call into the JVM
    except (Py4JError, ConnectionError, AttributeError):  # AttributeError: the context was stopped
        return False
    return True


def _start_context(start: Callable[[], SparkContext], stop: threading.Event) -> SparkContext:
    """Return the Spark context that ``start`` creates in a separate thread.

    In the main thread PySpark would install a handler for Ctrl-C that cancels all jobs and raises.
    """
    made: Future[SparkContext] = Future()

    def run() -> None:
        try:
            made.set_result(start())
        except BaseException as error:  # noqa: BLE001 - raised on the waiting thread
            made.set_exception(error)

    threading.Thread(target=run, name="spark-start", daemon=True).start()
    while not stop.is_set():
        if wait([made], 0.2).done:
            return made.result()
    raise StartInterrupted


def _context(properties: Mapping[str, str], log_file: Path, home: Path) -> SparkContext:
    from pyspark import SparkConf, SparkContext

    if "PYSPARK_GATEWAY_PORT" in os.environ:
        # Connects to spark-submit's JVM. A SparkConf then has spark-submit's properties, which override this module's.
        SparkContext.getSystemProperty("spark.master")
        conf = SparkConf()
        for name, value in properties.items():
            conf.setIfMissing(name, value)
        return SparkContext(conf=conf)
    # SparkContext's constructor takes a gateway, and only launch_gateway's `popen_kwargs` choose the JVM's output:
    # without them its warnings and stack traces go to this process's standard error. In its own process session the JVM
    # survives a SIGTERM or SIGHUP for the whole process group, and the query can be stopped in order.
    from pyspark.java_gateway import launch_gateway

    conf = SparkConf(loadDefaults=False).setAll(list(properties.items()))
    with open_private(log_file, "a") as out:
        gateway = launch_gateway(conf, {"stdout": out, "stderr": out, "start_new_session": True, "cwd": home})
    return SparkContext(conf=conf, gateway=gateway)


def _log4j(folder: Path, level: str) -> Path:
    """Write log4j's configuration: the JVM logs to its standard error, without useless warnings."""
    kafka = "org.apache.kafka.clients"
    quiet = (f"{kafka}.admin.AdminClientConfig", f"{kafka}.consumer.ConsumerConfig", f"{kafka}.producer.ProducerConfig")
    loggers = enumerate((*quiet, "org.apache.hadoop.util.NativeCodeLoader"))
    path = folder / "log4j2.properties"
    path.write_text(
        f"""rootLogger.level = {level}
rootLogger.appenderRef.stdout.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{{yy-MM-dd HH:mm:ss.SSS}} %p %c{{1}}: %m%n%ex
"""
        + "".join(f"logger.{number}.name = {name}\nlogger.{number}.level = error\n" for number, name in loggers)
    )
    return path
