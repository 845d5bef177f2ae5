"""Archives the classes that Spark loads (AppCDS) in the cache folder: a start then takes a third less processor time.

``make demo`` and the tests run this script. spark-submit runs it again, with the argument ``load``, in the JVM whose
classes are archived.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from streaming.kafka.jars import create_if_missing
from streaming.spark.archives import SILENT_ARCHIVE_OPTIONS, class_archive, spark_home
from streaming.spark.session import kafka_connector

#: The number of archives that are kept, for environments that are used alternately.
_KEPT_ARCHIVES = 3
_LOAD_MODE = "load"


def make_archive(archive: Path, connector: list[Path]) -> None:
    """Write the AppCDS archive of the classes that Spark loads for two batches, and delete the oldest archives."""
    print("preparing Spark (once, half a minute)", file=sys.stderr, flush=True)
    part = archive.with_name(f".{archive.name}.part")
    options = f"-XX:ArchiveClassesAtExit={part} {SILENT_ARCHIVE_OPTIONS} -XX:+UseSerialGC"
    jvm = ["--driver-java-options", options, "--driver-class-path", ":".join(map(str, connector))]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1]), "PYSPARK_PYTHON": sys.executable}
    command = [spark_home() / "bin/spark-submit", *jvm, __file__, _LOAD_MODE]
    result = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False, text=True, timeout=600
    )
    if result.returncode or not part.exists():
        last = (result.stderr.strip() or "no message").splitlines()[-1]
        print(f"Spark's classes are not archived, so Spark starts more slowly: {last}", file=sys.stderr)
        return
    part.rename(archive)
    for old in sorted(archive.parent.glob("*.jsa"), key=lambda file: file.stat().st_mtime)[:-_KEPT_ARCHIVES]:
        old.unlink(missing_ok=True)


def load() -> None:
    """Run the Spark job on an embedded broker: its first batch, and one more batch of the same query."""
    from confluent_kafka import Producer

    from streaming.kafka.broker import EmbeddedBroker
    from streaming.kafka.clients import confluent_config
    from streaming.kafka.topics import ensure_topics
    from streaming.settings.config import Settings
    from streaming.settings.connection import KafkaSettings
    from streaming.spark.job import run
    from streaming.spark.start import StreamOptions

    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker() as broker:
        settings = Settings(kafka=KafkaSettings(bootstrap_servers=broker.bootstrap_servers))
        ensure_topics(settings)
        producer = Producer(confluent_config(settings.kafka))
        for _ in range(2):  # two batches of one event
            producer.produce(settings.topics.membership, b"{}", b"group")
        producer.flush(30)
        options = StreamOptions(f"{folder}/checkpoint", available_now=True, max_offsets_per_trigger=1, buckets=4)
        run(settings, options, threading.Event())


if __name__ == "__main__":
    if _LOAD_MODE in sys.argv:
        load()
    else:
        jars = kafka_connector()
        create_if_missing(class_archive(jars), lambda: make_archive(class_archive(jars), jars))
