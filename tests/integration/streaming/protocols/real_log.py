"""Reads one group's records in ``__consumer_offsets``, and builds the group's state from them as the collector does."""

from collections.abc import Collection
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from confluent_kafka import Consumer

from streaming.collect.coordinator.classic import ClassicGroup
from streaming.collect.coordinator.modern import GroupRecordPart
from streaming.collect.coordinator.records import decode
from streaming.collect.followed_group import CoordinatedGroup
from streaming.kafka.metadata import request_identities
from streaming.records.events import GroupObserved, Partitions
from streaming.settings.connection import KafkaSettings
from tests.support.kafka import Kafka
from tests.support.members import Share
from tests.support.wait import eventually


def topic_ids(kafka: Kafka, names: Collection[str]) -> dict[str, str]:
    """Return topic ids by name in the offsets topic's format (base64url without padding); wait for new topics."""
    settings = KafkaSettings(bootstrap_servers=kafka.bootstrap_servers)

    def read_topic_ids() -> dict[str, str]:
        ids = {name: topic.topic_id for name, topic in request_identities(settings, names).items() if topic}
        return ids if len(ids) == len(names) else {}  # some broker may not have the topic's metadata yet

    ids: Any = eventually(read_topic_ids)
    return {name: topic_id.rstrip("=").replace("+", "-").replace("/", "_") for name, topic_id in ids.items()}


@dataclass
class Log:
    """The group's records in the offsets topic; members are named by their client ids.

    Attributes:
        generations: assignments by generation or target epoch.
        subscriptions: the subscription of each current member.
        ids: the member ids that each client had, in order.
        seen: the current state of the group.
        last: the time of the group's last record.
    """

    group_id: str
    consumer: Consumer
    topic_names: dict[str, str]
    generations: dict[int, dict[str, Share]] = field(default_factory=dict)
    subscriptions: dict[str, list[str]] = field(default_factory=dict)
    ids: dict[str, list[str]] = field(default_factory=dict)
    seen: GroupObserved | None = None
    last: float = 0.0
    _group: CoordinatedGroup = field(default_factory=CoordinatedGroup)
    _epochs: set[int] = field(default_factory=set)

    def read(self) -> None:
        """Read all records of the offsets topic that are available now."""
        while messages := self.consumer.consume(500, 0.05):
            for message in messages:
                assert message.error() is None, message.error()
                record = decode(message.key(), message.value(), self.group_id.__eq__)
                if isinstance(record, ClassicGroup | GroupRecordPart):
                    self._apply_record(record)

    def _apply_record(self, record: ClassicGroup | GroupRecordPart) -> None:
        self.last = monotonic()
        self._group.apply(record)
        self.seen = self._group.snapshot(self.group_id, 0, self.topic_names.__getitem__)
        if self.seen is None:
            return
        self.subscriptions = {str(member.client_id): sorted(member.topics) for member in self.seen.members}
        for member in self.seen.members:
            member_ids = self.ids.setdefault(str(member.client_id), [])
            if member.member_id not in member_ids:
                member_ids.append(member.member_id)
        number = self.seen.generation
        # A consumer group that is converted to a classic one writes its last epoch again.
        if number is not None and number not in self._epochs:
            self.generations[number] = {str(m.client_id): _sorted_share(m.assigned) for m in self.seen.members}
        if isinstance(record, GroupRecordPart) and record.part == "target_epoch":
            self.complete()

    def complete(self) -> None:
        """Complete the newest target assignment: its records may come before or after the record of the epoch."""
        group = self._group.epoch_group
        if self.seen is not None and group is not None and group.target_epoch:
            self._epochs.add(group.target_epoch)
            self.generations[group.target_epoch] = {
                str(member.client_id): _sorted_share(member.target)
                for member in self.seen.members
                if member.target is not None
            }

    @property
    def newest(self) -> dict[str, Share]:
        return self.generations[max(self.generations)] if self.generations else {}


def _sorted_share(partitions: Partitions) -> Share:
    return {topic: sorted(numbers) for topic, numbers in sorted(partitions.items()) if numbers}
