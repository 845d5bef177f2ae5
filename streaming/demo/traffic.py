"""Topics with a little traffic for the demo's consumers."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from itertools import count
from typing import Self

from streaming.kafka.clients import answer_of, confluent_config
from streaming.kafka.topics import TopicsNotCreated
from streaming.settings.config import Settings

#: Records a second and topic.
RATE = 20


def create_topics(settings: Settings, topics: Mapping[str, int]) -> None:
    """Create the topics, unless they are there, and wait until they are."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient(confluent_config(settings.kafka))
    copies = settings.topics.replication_factor
    wanted = [NewTopic(name, num_partitions=n, replication_factor=copies) for name, n in topics.items()]
    for name, future in admin.create_topics(wanted, operation_timeout=10).items():
        try:
            answer_of(future)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise TopicsNotCreated(f"topic {name}: {error.args[0].str()}") from error


class Traffic:
    """Produces keyed records from a thread until the block ends."""

    def __init__(self, settings: Settings, topics: Mapping[str, int]) -> None:
        self._settings = settings
        self._topics = list(topics)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._produce, name="traffic", daemon=True)

    def _produce(self) -> None:
        from confluent_kafka import Producer

        producer = Producer(confluent_config(self._settings.kafka) | {"partitioner": "murmur2_random", "linger.ms": 20})
        for number in count():
            for topic in self._topics:
                producer.produce(topic, key=f"key-{number % 997}", value=f"{number}")
            producer.poll(0)
            if self._stop.wait(1 / RATE):
                break
        producer.flush(5)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(10)
