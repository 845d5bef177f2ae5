"""A consumer that records the time of every record: ``python -m tests.acceptance.situations.timed_consumer``.

Its argument is JSON: ``client`` (confluent, kafka-python), ``config`` of that client, ``topic``, ``marks`` (a
file), ``listener`` (bootstrap servers and topic prefix of a monitor), ``cooperative`` (kafka-python's assignor) and
``incremental`` (callbacks name what is added). After each rebalance callback it writes the numbers of the
partitions that it owns as a line on standard output, and for each record that it consumed a line into ``marks``: the
time (ms), the topic, the partition, the number of assignments of this partition so far, the record's offset, and the
next offset. A line with the offsets -1 marks an assignment of the partition. Upon SIGTERM the consumer leaves its
group.
"""

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from streaming.listener import Listener
from streaming.process.children import end_with_parent
from streaming.process.service import stop_on_signals

_ClassDecoratorFunction = Callable[[type[Any]], type[Any]]


class MarkWriter:
    """Writes the member's partitions after each callback, and a mark for each record that the member consumed."""

    def __init__(self, path: str, *, incremental: bool) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._incremental = incremental
        self._owned_partitions: set[int] = set()
        self._assignment_counts: Counter[int] = Counter()

    def assigned(self, partitions: Iterable[Any]) -> None:
        partitions = [*partitions]
        numbers = {partition.partition for partition in partitions}
        self._assignment_counts.update(numbers)
        for partition in partitions:
            self._write_mark(partition.topic, partition.partition, -1, -1)
        self._owned_partitions = self._owned_partitions | numbers if self._incremental else numbers
        self._write_partitions()

    def record_assignment(self, partitions: Iterable[Any]) -> None:
        self._owned_partitions -= {partition.partition for partition in partitions}
        self._write_partitions()

    def record_consumption(self, topic: str, partition: int, offset: int) -> None:
        self._write_mark(topic, partition, offset, offset + 1)

    def _write_mark(self, topic: str, partition: int, first: int, next_offset: int) -> None:
        """Write a line about consumed offsets, unbuffered, so that no line is lost if the process is killed."""
        at = time.time_ns() // 1_000_000
        os.write(
            self._file,
            f"{at} {topic} {partition} {self._assignment_counts[partition]} {first} {next_offset}\n".encode(),
        )

    def _write_partitions(self) -> None:
        sys.stdout.write(json.dumps(sorted(self._owned_partitions)) + "\n")
        sys.stdout.flush()


def consume_with_confluent(
    wrap: _ClassDecoratorFunction, options: dict[str, Any], marks: MarkWriter, stop: threading.Event
) -> None:
    """Consume with confluent-kafka until SIGTERM."""
    from confluent_kafka import Consumer

    consumer = wrap(Consumer)(options["config"])
    consumer.subscribe(
        [options["topic"]],
        on_assign=lambda _, partitions: marks.assigned(partitions),
        on_revoke=lambda _, partitions: marks.record_assignment(partitions),
        on_lost=lambda _, partitions: marks.record_assignment(partitions),
    )
    try:
        while not stop.is_set():
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                marks.record_consumption(message.topic(), message.partition(), message.offset())
    finally:
        consumer.close()


def kafka_python(
    wrap: _ClassDecoratorFunction, options: dict[str, Any], marks: MarkWriter, stop: threading.Event
) -> None:
    """Consume with kafka-python until SIGTERM."""
    from kafka import ConsumerRebalanceListener, KafkaConsumer
    from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
    from kafka.coordinator.assignors.range import RangePartitionAssignor

    class ReportingListener(ConsumerRebalanceListener):  # type: ignore[misc] # kafka-python has no types
        def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
            marks.assigned(assigned)

        def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
            marks.record_assignment(revoked)

        def on_partitions_lost(self, lost: Iterable[Any]) -> None:
            marks.record_assignment(lost)

    assignor = CooperativeStickyAssignor if options["cooperative"] else RangePartitionAssignor
    consumer = wrap(KafkaConsumer)(**options["config"], partition_assignment_strategy=[assignor])
    # A leader without metadata of its topic assigns nothing, and may not notice later metadata.
    consumer.partitions_for_topic(options["topic"])
    consumer.subscribe([options["topic"]], listener=ReportingListener())
    try:
        while not stop.is_set():
            for place, records in consumer.poll(timeout_ms=100).items():
                for record in records:
                    marks.record_consumption(place.topic, place.partition, record.offset)
    finally:
        consumer.close()


def main() -> None:
    """Consume until SIGTERM, then leave the group."""
    options = json.loads(sys.argv[1])
    end_with_parent()
    stop = stop_on_signals()
    servers, prefix = options["listener"]
    listener = Listener(servers, topic_prefix=prefix)
    run = consume_with_confluent if options["client"] == "confluent" else kafka_python
    run(listener.wrap, options, MarkWriter(options["marks"], incremental=options["incremental"]), stop)


if __name__ == "__main__":
    main()
