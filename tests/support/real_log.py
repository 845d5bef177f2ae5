"""What a coordinator wrote about one group into ``__consumer_offsets``: generations, epochs, members, targets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from confluent_kafka import Consumer
from kafka.protocol.consumer.metadata import ConsumerProtocolAssignment, ConsumerProtocolSubscription

from streaming.collect import records as log
from tests.support.members import Share


@dataclass
class Log:
    """The group's records: generations and epochs as the coordinator wrote them."""

    group_id: str
    consumer: Consumer
    topic_names: dict[str, str]
    generations: dict[int, dict[str, Share]] = field(default_factory=dict)
    owned: dict[int, dict[str, Share]] = field(default_factory=dict)
    said: dict[str, list[str]] = field(default_factory=dict)
    ids: dict[str, list[str]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    targets: dict[str, Share] = field(default_factory=dict)
    current: dict[str, log.Current] = field(default_factory=dict)
    group_epoch: int = 0
    target_epoch: int = 0
    epochs: set[int] = field(default_factory=set)
    last: float = 0.0

    def read(self) -> None:
        """Everything that is there."""
        while True:
            messages = self.consumer.consume(500, 0.05)
            for message in messages:
                assert message.error() is None, message.error()
                key, value = message.key(), message.value()
                record = log.decode(key, value)
                if getattr(record, "group_id", None) == self.group_id:
                    self._take(record)
            if not messages:
                return

    def _take(self, record: Any) -> None:
        if isinstance(record, log.OffsetCommit):
            return
        self.last = monotonic()
        if isinstance(record, log.ClassicGroup) and record.value is not None:
            self._generation(record.value)
        elif isinstance(record, log.GroupEpoch):
            self.group_epoch = record.epoch or 0
        elif isinstance(record, log.MemberSubscription):
            self._subscription(record)
        elif isinstance(record, log.TargetAssignment):
            if record.partitions is None:
                self.targets.pop(record.member_id, None)
            else:
                self.targets[record.member_id] = self._share(record.partitions)
        elif isinstance(record, log.TargetEpoch):
            self.target_epoch = record.epoch or 0
            self._epoch()
        elif isinstance(record, log.CurrentAssignment):
            if record.value is None:
                self.current.pop(record.member_id, None)
            else:
                self.current[record.member_id] = record.value

    def _subscription(self, record: log.MemberSubscription) -> None:
        if record.value is None:
            self.said.pop(self.names[record.member_id], None)
        else:
            self._name(record.member_id, record.value.client_id)
            self.said[record.value.client_id] = sorted(record.value.topics)

    def _name(self, member_id: str, name: str) -> None:
        self.names[member_id] = name
        known = self.ids.setdefault(name, [])
        if member_id not in known:
            known.append(member_id)

    def _generation(self, value: log.ClassicGeneration) -> None:
        shares, owned, said = {}, {}, {}
        for member in value.members:
            self._name(member.member_id, member.client_id)
            version = int.from_bytes(member.subscription[:2])
            subscription = ConsumerProtocolSubscription.decode(member.subscription)
            said[member.client_id] = sorted(subscription.topics)
            if version >= 1:
                owned[member.client_id] = _partitions(subscription.owned_partitions)
            assigned = ConsumerProtocolAssignment.decode(member.assignment) if member.assignment else None
            shares[member.client_id] = _partitions(assigned.assigned_partitions if assigned else ())
        self.said = said
        if value.generation in self.epochs:
            return  # a consumer group that is converted to a classic one: its last epoch over again
        self.generations[value.generation] = shares
        self.owned[value.generation] = owned

    def _share(self, partitions: Mapping[str, Any]) -> Share:
        return {
            self.topic_names[topic]: sorted(known) for topic, known in sorted(partitions.items()) if known
        }

    def _epoch(self) -> None:
        """Targets are written before their epoch; an epoch written first is completed by what follows."""
        if self.target_epoch:
            self.epochs.add(self.target_epoch)
            self.generations[self.target_epoch] = self.targets_by_name()

    def targets_by_name(self) -> dict[str, Share]:
        """The target of each member."""
        return {
            self.names[member_id]: dict(sorted(share.items())) for member_id, share in self.targets.items()
        }

    def reconciled(self) -> bool:
        """Every member has reached the newest target, and nobody is missing."""
        return self.group_epoch == self.target_epoch and all(
            one.member_epoch == self.target_epoch and one.state == "STABLE" for one in self.current.values()
        )


def _partitions(entries: Any) -> Share:
    return dict(
        sorted((entry.topic, sorted(entry.partitions)) for entry in entries or () if entry.partitions)
    )
