"""Topics in memory: logs of records with transaction markers between the records."""

from dataclasses import dataclass, field

from confluent_kafka import KafkaError

DEFAULT_CONFIG = {"cleanup.policy": "delete", "max.message.bytes": "1048588"}
Headers = list[tuple[str, bytes | None]]


class Message:
    """A record, or an error event of the client if ``error`` is set."""

    def __init__(
        self,
        topic: str | None,
        partition: int | None,
        offset: int | None,
        *,
        key: bytes | None = None,
        value: bytes | None = None,
        headers: Headers | None = None,
        timestamp: int = 0,
        leader_epoch: int | None = None,
        error: KafkaError | None = None,
    ) -> None:
        self.topic, self.partition, self.offset = (lambda: topic), (lambda: partition), (lambda: offset)
        self.key, self.value, self.error = (lambda: key), (lambda: value), (lambda: error)
        self.headers, self.timestamp = (lambda: headers), (lambda: (1, timestamp))
        self.leader_epoch = lambda: leader_epoch

    @property
    def record(self) -> tuple[bytes | None, bytes | None, Headers]:
        return self.key(), self.value(), self.headers() or []


@dataclass
class Log:
    """The records of one partition in order; None is for a transaction marker."""

    entries: list[Message | None] = field(default_factory=list)
    begins: int = 0

    @property
    def end(self) -> int:
        return len(self.entries)


@dataclass
class Topic:
    """A topic: the log of each partition, the topic's configuration, and the racks of the replicas."""

    id: str
    logs: list[Log]
    config: dict[str, str]
    racks: list[list[str]] | None = None
    #: Partitions without a leader.
    offline: set[int] = field(default_factory=set)
