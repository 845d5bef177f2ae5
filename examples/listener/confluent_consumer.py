"""A confluent-kafka consumer that reports its rebalances to the monitor.

python confluent_consumer.py kafka:9092 monitor-kafka:9092 payments orders
"""

import signal
import sys

from confluent_kafka import Consumer

from streaming.listener import Listener

servers, monitor, group, topic = sys.argv[1:]
Consumer = Listener(monitor).wrap(Consumer)  # the only line for the monitor beside the import

consumer = Consumer({"bootstrap.servers": servers, "group.id": group, "auto.offset.reset": "earliest"})
consumer.subscribe([topic], on_assign=lambda _, partitions: print("mine now:", partitions, flush=True))
running = True


def stop(*_: object) -> None:
    """Let the poll loop end after SIGTERM or SIGINT."""
    global running  # noqa: PLW0603 - an example stays short
    running = False


signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)
while running:
    message = consumer.poll(0.5)
    if message is not None and message.error() is None:
        print(message.topic(), message.partition(), message.offset(), flush=True)
consumer.close()  # the monitor reports this as a leave
