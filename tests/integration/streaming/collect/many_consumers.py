"""Consumers of many groups in one process: ``python -m tests.integration.streaming.collect.many_consumers``.

Its argument is JSON: ``topics`` (the topic of each group, by group id) and ``config`` (of each consumer). There is one
consumer for each group. Upon SIGTERM, and when the parent process has ended, all of them leave.
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Consumer

from streaming.process.service import stop_on_signals


def main() -> None:
    """Consume until SIGTERM."""
    options = json.loads(sys.argv[1])
    parent, stop = os.getppid(), stop_on_signals()
    consumers = []
    for group, topic in options["topics"].items():
        consumers.append(Consumer({"group.id": group, **options["config"]}))
        consumers[-1].subscribe([topic])
    while os.getppid() == parent and not stop.wait(0.05):
        for consumer in consumers:
            consumer.consume(500, 0)
    with ThreadPoolExecutor(len(consumers)) as pool:
        list(pool.map(Consumer.close, consumers))


if __name__ == "__main__":
    main()
