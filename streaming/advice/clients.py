"""Client libraries: how to recognise them, and their names for options of Kafka's Java consumer.

Names are those of ``ConsumerConfig``, librdkafka's ``CONFIGURATION.md``, Spring Boot's ``KafkaProperties`` and
``KafkaConsumer.DEFAULT_CONFIG`` of kafka-python.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

COOPERATIVE: Final = "cooperative-sticky"
STRATEGY: Final = "partition.assignment.strategy"


class Client(NamedTuple):
    """A client library: whether it has ``cooperative-sticky`` and KIP-848, and how an application leaves its group.

    ``mixes``: its list of strategies may contain eager and cooperative ones, as a change by two bounces requires.
    """

    name: str
    close: str
    cooperative: bool = True
    consumer: bool = True
    mixes: bool = True


JAVA: Final = Client("Java", "KafkaConsumer.close() on SIGTERM, after wakeup() ended the last poll")
SPRING: Final = Client("Spring Boot", "let the application context close on SIGTERM, which stops listener containers")
LIBRDKAFKA: Final = Client("librdkafka", "close() of the consumer on SIGTERM", mixes=False)
KAFKA_PYTHON: Final = Client("kafka-python", "KafkaConsumer.close() on SIGTERM", consumer=False)
AIOKAFKA: Final = Client("aiokafka", "await consumer.stop() on SIGTERM", cooperative=False, consumer=False)
STREAMS: Final = Client("Kafka Streams", "KafkaStreams.close(new CloseOptions().leaveGroup(true)) on SIGTERM")
CONNECT: Final = Client("Kafka Connect", "stop the worker with SIGTERM, not SIGKILL")
SINK: Final = Client("Kafka Connect sink", "stop the worker with SIGTERM, not SIGKILL")
UNKNOWN: Final = Client("unknown, Java names", "close the consumer on SIGTERM")

#: Default client ids of the libraries.
_DEFAULT_IDS: Final = (
    (re.compile(r"kafka-python-[\d.]+"), KAFKA_PYTHON),
    (re.compile(r"aiokafka-[\d.]+"), AIOKAFKA),
    (re.compile(r"rdkafka"), LIBRDKAFKA),
    (re.compile(r"connector-consumer-.+"), SINK),
    (re.compile(r".+-StreamThread-\d+-consumer"), STREAMS),
    (re.compile(r"consumer-(?:.+-)?\d+"), JAVA),
)


def recognise(client_ids: Iterable[str]) -> Client:
    """Return the library of these client ids; ``UNKNOWN`` if they don't reveal it or belong to several."""
    libraries = {
        next((client for pattern, client in _DEFAULT_IDS if pattern.fullmatch(client_id)), UNKNOWN)
        for client_id in client_ids
    }
    return libraries.pop() if len(libraries) == 1 else UNKNOWN


_JAVA_CLASSES: Final = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    COOPERATIVE: "CooperativeStickyAssignor",
}
#: Options with other names in Spring Boot.
_SPRING: Final = {
    "max.poll.records": "spring.kafka.consumer.max-poll-records",
    "heartbeat.interval.ms": "spring.kafka.consumer.heartbeat-interval",
}
#: A client → its prefix of consumer options.
_PREFIXES: Final = {SPRING: "spring.kafka.consumer.properties.", STREAMS: "main.consumer.", SINK: "consumer.override."}
#: Options of brokers, Streams and workers, which no client renames.
_FIXED: Final = ("group.initial.", "group.consumer.", "acceptable.", "num.standby.", "scheduled.", "connect.")


def in_words_of(client: Client, settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings of the Java consumer under this client's option names."""
    return dict(_option(client, name, value) for name, value in settings.items())


def _option(client: Client, name: str, value: str) -> tuple[str, str]:
    if name.startswith(_FIXED):
        return name, value
    if client in (KAFKA_PYTHON, AIOKAFKA):
        return name.replace(".", "_"), f"[{_JAVA_CLASSES[value]}]" if name == STRATEGY else value
    if name == STRATEGY and client is not LIBRDKAFKA:
        value = f"org.apache.kafka.clients.consumer.{_JAVA_CLASSES[value]}"
    if client is SPRING and name in _SPRING:
        return _SPRING[name], value
    return _PREFIXES.get(client, "") + name, value
