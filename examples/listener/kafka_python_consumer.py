"""A kafka-python consumer that reports its rebalances to the monitor.

python kafka_python_consumer.py kafka:9092 monitor-kafka:9092 payments orders
"""

import signal
import sys
from collections.abc import Iterable

from kafka import ConsumerRebalanceListener, KafkaConsumer, TopicPartition

from streaming.listener import Listener

servers, monitor, group, topic = sys.argv[1:]
KafkaConsumer = Listener(monitor).wrap(KafkaConsumer)  # the only line for the monitor beside the import


class ApplicationRebalanceListener(ConsumerRebalanceListener):
    """The application's own listener, which is called in the same way as without the monitor."""

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        """Open the resources that belong to the assigned partitions."""
        print("mine now:", sorted(assigned), flush=True)

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        """Close the resources that belong to the revoked partitions."""


consumer = KafkaConsumer(bootstrap_servers=servers, group_id=group, auto_offset_reset="earliest")
consumer.subscribe([topic], listener=ApplicationRebalanceListener())
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda *_: sys.exit())
try:
    while True:
        for messages in consumer.poll(timeout_ms=500).values():
            for message in messages:
                print(message.topic, message.partition, message.offset, flush=True)
finally:
    consumer.close()  # the monitor reports this as a leave
