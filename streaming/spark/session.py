"""The JVM: started with a quiet console, in a session of its own, gone when this process is.

Ctrl-C in a terminal goes to every process of the foreground group; a JVM among them dies first and takes the
query down with a stack trace. In a session of its own it only hears from us. It ends with this process all the
same: it watches its standard input.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from streaming.kafka.jars import fetch, spark_connector
from streaming.kafka.java import java
from streaming.spark import archive, classes, context, state_store
from streaming.spark.pyspark import (
    LOCAL_FILES,
    OWN_SESSION,
    QUIET_ACCUMULATORS,
    WARM_DAEMON,
    Fit,
    survey,
    unit,
)

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from streaming.spark.state_store import StateStore

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


#: A JVM that was asked to end has so long; one that writes its classes before takes longer.
_END_SECONDS, _WRITING_SECONDS = 10.0, 180.0


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """How Spark runs.

    Attributes:
        master: Spark's master URL. ``local[2,4]``: two cores, and a task whose Python worker died is tried again.
        log_file: where the JVM and the Python workers write; a temporary file when None.
        shuffle_partitions: tasks of the stateful stage. Kept in the checkpoint from its first batch on.
        verbose: log level INFO in place of WARN.
        connector: whether Spark's Kafka connector is needed.
        local_checkpoint: whether the checkpoint is a folder; behind a URL Spark chooses how to write its files.
        state_store: where the state is kept; None for whatever the checkpoint has.
        java_options: further options of the JVMs, the executors' too.
        archive: what executors import from (:mod:`streaming.spark.archive`); None when they have it installed.
        conf: Spark properties; they override this module's.
        public: use PySpark's public interface alone (:mod:`streaming.spark.pyspark`).
        archive_classes: where the driver's JVM writes the classes that it has loaded, at its end; None: nowhere.
    """

    master: str = "local[2,4]"
    log_file: Path | None = None
    shuffle_partitions: int = 2
    verbose: bool = False
    connector: bool = True
    local_checkpoint: bool = True
    state_store: StateStore | None = state_store.DEFAULT
    java_options: str = ""
    archive: Path | None = None
    conf: tuple[tuple[str, str], ...] = ()
    public: bool = False
    archive_classes: Path | None = None


def connector_jars(jars: Iterable[Path]) -> list[Path]:
    """Those of the connector's jars that pyspark does not ship itself."""
    return [jar for jar in jars if not jar.name.startswith(_SHIPPED)]


def jvm_path(path: str) -> str:
    """A folder or URL as the JVM, whose working directory is another, has to be told."""
    return path if "://" in path else str(Path(path).absolute())


def configuration(
    options: SessionOptions, fit: Fit, jars: list[Path], log4j: Path, driver: Sequence[str] = ()
) -> dict[str, str]:
    """Spark's properties. Each that is not about quiet or place has its reason beside it.

    ``driver``: options of the driver's JVM alone.
    """
    local = options.master.startswith("local")
    # VFORK: Hadoop forks a `chmod` for each of a batch's files; by the JDK's helper one takes 1.6 ms, so 1.0.
    java_options = (
        f"-Dlog4j.configurationFile={log4j} -XX:+UseSerialGC -Xshare:auto "
        f"-Djdk.lang.Process.launchMechanism=VFORK {' '.join(driver)} {options.java_options}"
    )
    return {
        "spark.master": options.master,
        "spark.app.name": "kafka-rebalance-monitor",
        "spark.jars": ",".join(str(jar) for jar in connector_jars(jars)),
        # Spark prints options where it explains a plan: what holds a secret reads "(redacted)".
        "spark.redaction.regex": r"(?i)secret|password|token|access[.]?key|jaas|keystore|ssl[.]key",
        # What a damaged checkpoint is about stands in the causes of Spark's errors.
        "spark.sql.pyspark.jvmStacktrace.enabled": "true",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.streaming.ui.enabled": "false",
        # A cluster's drivers must be reachable; on one machine nothing listens beyond loopback.
        **({"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} if local else {}),
        "spark.driver.extraJavaOptions": java_options.rstrip(),
        **({"spark.executor.extraJavaOptions": options.java_options} if options.java_options else {}),
        **({} if options.archive is None else _unpacked(options.archive)),
        **({"spark.python.daemon.module": unit(WARM_DAEMON).MODULE} if WARM_DAEMON in fit.used else {}),
        "spark.sql.shuffle.partitions": str(options.shuffle_partitions),
        # Timers run on the ticks of the plan; without this an idle query would run empty batches without pause.
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.minBatchesToRetain": "20",
        # How often Spark tidies the state's files, by default once a minute: until then each batch's changes stay,
        # each up to the whole state, and at four batches a second that is 400 times.
        "spark.sql.streaming.stateStore.maintenanceInterval": "10s",
        "spark.sql.streaming.stopTimeout": "30s",
        # `inspect-state` and `resize` collect the whole state: the heap is their bound, not Spark's gigabyte.
        "spark.driver.maxResultSize": "0",
        # Adaptive execution is off for stateful queries anyway.
        "spark.sql.adaptive.enabled": "false",
        **state_store.properties(options.state_store),
        **(_local_files(fit, options.state_store) if options.local_checkpoint else {}),
        **dict(options.conf),
    }


def _unpacked(file: Path) -> dict[str, str]:
    """Have executors unpack the archive, and import from it: both in their working directory."""
    return {
        "spark.archives": f"{file.absolute()}#{archive.FOLDER}",
        "spark.executorEnv.PYTHONPATH": archive.FOLDER,
    }


def _local_files(fit: Fit, store: StateStore | None) -> dict[str, str]:
    """How the files of a checkpoint in a folder are written.

    Hadoop's checksums are a file of their own beside each file, and a forked ``chmod`` for each; Spark's own store
    has them within. Both of Hadoop's interfaces do without: one that wrote none would find the other's out of date.
    RocksDB's files are copied to and fro by ``FileSystem.getLocal``, which takes no file system but the one with
    checksums (a ClassCastException else).
    """
    manager: dict[str, str] = unit(LOCAL_FILES).properties() if LOCAL_FILES in fit.used else {}
    if store != "memory":
        return manager
    return {
        **manager,
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.file.impl": "org.apache.hadoop.fs.local.RawLocalFs",
    }


@contextmanager
def session(options: SessionOptions) -> Iterator[SparkSession]:
    """A Spark session in a new JVM, which is gone when the context is left.

    The JVM has a temporary working directory: paths that it is given have to be absolute.

    Raises:
        NoJava: there is none.
        DownloadFailed: the Kafka connector could not be fetched.
        PySparkUnfit: the installed PySpark is too old.
        SparkUnavailable: the JVM ended while starting; the message names its log.
        SparkGone: it ended while the context was open.
    """
    fit = survey(public=options.public)
    java()
    from pyspark.sql import SparkSession

    jars = fetch([spark_connector(fit.release)]) if options.connector else []
    with tempfile.TemporaryDirectory(prefix="rebalance-monitor-", ignore_cleanup_errors=True) as home:
        log_file = options.log_file or Path(tempfile.mkdtemp(prefix="rebalance-monitor-")) / "spark.log"
        log_file = log_file.absolute()
        log_file.parent.mkdir(parents=True, exist_ok=True)
        log4j = _log4j(Path(home), "info" if options.verbose else "warn")
        # pyspark logs every captured error once more, whole, to the console; ours names its cause.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
        if options.master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYSPARK_PYTHON", archive.python() if options.archive else sys.executable)
        # The workers import this package wherever the command was started.
        paths = [str(Path(__file__).parents[2]), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        absolute = [str(Path(path).absolute()) for path in paths if path]
        os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(absolute))
        if QUIET_ACCUMULATORS in fit.used:
            unit(QUIET_ACCUMULATORS).install()
        driver = classes.java_options(options.archive_classes)

        properties = configuration(options, fit, jars, log4j, driver)
        with _context(fit, properties, log_file, Path(home), writing=options.archive_classes is not None):
            yield SparkSession.builder.getOrCreate()


def _context(
    fit: Fit, properties: dict[str, str], log_file: Path, home: Path, *, writing: bool
) -> AbstractContextManager[SparkContext]:
    if OWN_SESSION not in fit.used:
        return context.context(properties, log_file)
    seconds = _WRITING_SECONDS if writing else _END_SECONDS
    found: AbstractContextManager[SparkContext] = unit(OWN_SESSION).context(
        properties, log_file, home, seconds
    )
    return found


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
