"""Copies the brokers' group coordinator log from a topic into a file, for ``collect --coordinator-log``.

A log shipper writes the topic: docs/how-to/coordinator-log.md. The file begins with the last ten minutes of the topic.
"""

import argparse
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, TopicPartition

from streaming.kafka.clients import check_reachable, reader_config
from streaming.settings.config import load

MAX_BACKLOG_MS = 600_000
#: Size at which the file is renamed to `….1` and a new one is started.
MAX_FILE_BYTES = 64 * 2**20
POLL_SECONDS = 5.0


def partitions(consumer: Consumer, topic: str) -> list[TopicPartition]:
    """Wait until the topic exists; return its partitions with the offsets of the records of the last ten minutes."""
    while not (partitions := consumer.list_topics(topic, timeout=POLL_SECONDS).topics[topic].partitions):
        time.sleep(POLL_SECONDS)
    begin_ms = int(time.time() * 1000) - MAX_BACKLOG_MS
    return list(
        consumer.offsets_for_times([TopicPartition(topic, number, begin_ms) for number in partitions], POLL_SECONDS)
    )


def main() -> None:
    """Copy the log lines in a topic into a file until a signal ends the process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, help="settings file (TOML)")
    parser.add_argument("--topic", required=True, help="topic whose records are lines of the coordinator's log")
    parser.add_argument("--file", type=Path, required=True, help="file to write")
    arguments = parser.parse_args()
    kafka = load(arguments.config).kafka
    check_reachable(kafka)
    config = reader_config(kafka, "rebalance-monitor-coordinator-log")
    consumer = Consumer(config | {"enable.partition.eof": False})
    consumer.assign(partitions(consumer, arguments.topic))
    file: Path = arguments.file
    out = file.open("wb", buffering=0)
    while True:
        for record in consumer.consume(500, timeout=0.1):
            if record.error() is not None:
                raise KafkaException(record.error())
            out.write((record.value() or b"") + b"\n")
        if out.tell() > MAX_FILE_BYTES:
            out.close()
            file.rename(file.with_name(f"{file.name}.1"))
            out = file.open("wb", buffering=0)


main()
