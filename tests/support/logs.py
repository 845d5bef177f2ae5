"""A recorded membership log of many groups, the same for the same seed: all protocols, assignors and disturbances.

Derived groups under every assignor and protocol, a migration from one to the other, observed groups (eager,
cooperative, consumer), static members, duplicates, stale generations, events of unknown members, heartbeats,
session timeouts (fences of the timer, good and stale), partition counts that grow and shrink, deletions.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from assignors.partitioner import partition_for_key
from streaming.wire import codec
from streaming.wire.events import (
    AssignmentAcknowledged,
    Event,
    EventData,
    GroupDeleted,
    GroupObserved,
    MemberFenced,
    MemberHeartbeat,
    MemberJoined,
    MemberLeft,
    ObservedMember,
    Partitions,
    PartitionsChanged,
    SubscriptionChanged,
    TopicMetadata,
)

#: Kinds of groups; a group keeps its kind.
FLAVOURS: tuple[dict[str, Any], ...] = (
    {"assignors": []},
    {"assignors": ["roundrobin", "range"]},
    {"assignors": ["sticky"]},
    {"assignors": ["cooperative-sticky"]},
    {"assignors": ["cooperative-sticky", "range"]},
    {"assignors": ["uniform"], "group_protocol": "consumer"},
    {"assignors": ["range"], "group_protocol": "consumer"},
    {"observed": "range"},
    {"observed": "cooperative-sticky"},
    {"observed": "uniform"},
    {"migrates": True},
)
#: No session ends while a test runs: what is fenced stands in the log.
SESSION_TIMEOUT_MS = 3_600_000
TOPICS = ("orders", "payments", "audit")


@dataclass
class _Group:
    name: str
    flavour: dict[str, Any]
    rng: random.Random
    clock: int = 1_700_000_000_000
    members: dict[str, str | None] = field(default_factory=dict)
    born: int = 0
    sent: int = 0
    generation: int = 0
    owned: dict[str, Partitions] = field(default_factory=dict)
    heard: dict[str, int] = field(default_factory=dict)
    history: list[Event] = field(default_factory=list)

    def emit(self, kind: type[EventData], **fields: Any) -> Event:
        self.sent += 1
        self.clock += self.rng.randrange(-500, 5_000)
        event = Event(
            f"/groups/{self.name}", str(self.sent), kind(group_id=self.name, timestamp=self.clock, **fields)
        )
        self.history = [*self.history[-40:], event]
        return event

    def next(self) -> Event:
        if self.sent == 0:
            return self._topics()
        roll = self.rng.random()
        if roll < 0.08 and self.history:
            return self.rng.choice(self.history)
        if roll < 0.12:
            return self._topics()
        if roll < 0.125:
            self.members, self.owned, self.generation = {}, {}, 0
            forget = self.rng.random() < 0.1
            deleted = self.emit(GroupDeleted, forget=forget)
            if forget:  # with the group goes the memory of its events: nobody repeats those of a week ago
                self.history = []
            return deleted
        if roll < 0.14:
            return self.emit(AssignmentAcknowledged, member_id=self._someone(), owned={"orders": [0]})
        return self._observe() if "observed" in self.flavour else self._member_event(roll)

    def _topics(self) -> Event:
        names = self.rng.sample(TOPICS, self.rng.randint(1, len(TOPICS))) if self.sent else TOPICS
        counts = {name: TopicMetadata(partitions=self.rng.choice((1, 3, 6, 12))) for name in names}
        return self.emit(PartitionsChanged, topics=counts)

    def _someone(self) -> str:
        return self.rng.choice([*self.members, "nobody"])

    def _subscription(self) -> list[str]:
        return sorted(self.rng.sample(TOPICS, self.rng.randint(1, len(TOPICS))))

    def _join(self, member_id: str, instance_id: str | None) -> Event:
        self.members[member_id] = instance_id
        fields = {name: value for name, value in self.flavour.items() if name not in ("observed", "migrates")}
        if "migrates" in self.flavour:
            modern = self.rng.random() < min(0.9, self.sent / 100)
            fields = (
                {"group_protocol": "consumer"} if modern else {"assignors": ["cooperative-sticky", "range"]}
            )
        return self.emit(
            MemberJoined,
            member_id=member_id,
            topics=self._subscription(),
            group_instance_id=instance_id,
            owned={"orders": [0]} if self.rng.random() < 0.1 else {},
            generation=self.rng.randint(-1, 5) if self.rng.random() < 0.1 else -1,
            session_timeout_ms=self.rng.choice((None, SESSION_TIMEOUT_MS)),
            **fields,
        )

    def _member_event(self, roll: float) -> Event:
        if not self.members or (roll < 0.45 and len(self.members) < 6):
            self.born += 1
            instance = f"i{self.born}" if self.rng.random() < 0.3 else None
            return self._join(f"c{self.born}", instance)
        if roll < 0.55:
            member_id = self._someone()
            beat = self.emit(MemberHeartbeat, member_id=member_id, generation=self.rng.randint(0, 9))
            self.heard[member_id] = beat.data.timestamp
            return beat
        if roll < 0.58 and self.heard:
            return self._fence()
        if roll < 0.65:
            return self.emit(SubscriptionChanged, member_id=self._someone(), topics=self._subscription())
        if roll < 0.72:
            old = self.rng.choice(list(self.members))
            instance = self.members.pop(old)
            self.born += 1
            return self._join(f"c{self.born}" if instance else old, instance)
        member_id = self._someone()
        self.members.pop(member_id, None)
        return self.emit(self.rng.choice((MemberLeft, MemberFenced)), member_id=member_id, reason="r")

    def _fence(self) -> Event:
        """What the timer writes; now and then it had not read the member's last heartbeat."""
        member_id = self.rng.choice(list(self.heard))
        heard = self.heard[member_id]
        if self.rng.random() < 0.3:
            heard -= 1
        else:
            self.members.pop(member_id, None)
        return self.emit(MemberFenced, member_id=member_id, reason="session timeout", last_heard=heard)

    def _observe(self) -> Event:
        self.generation += self.rng.choice((0, 1, 1, 1, 2))
        if self.rng.random() < 0.5:
            self.born += 1
            self.members[f"c{self.born}"] = None
        elif self.members:
            self.members.pop(self.rng.choice(list(self.members)))
        ids = list(self.members)
        shares: dict[str, Partitions] = {member_id: {} for member_id in ids}
        for topic in TOPICS if ids else ():
            for partition in range(6):
                shares[self.rng.choice(ids)].setdefault(topic, []).append(partition)
        members = [
            ObservedMember(member_id=member_id, topics=list(TOPICS), assigned=shares[member_id])
            for member_id in ids
        ]
        assignor = self.flavour["observed"]
        number: dict[str, Any] = {"generation": self.generation}
        if assignor == "uniform":
            number = {"group_epoch": self.generation, "group_protocol": "consumer"}
        return self.emit(GroupObserved, members=members, protocol=assignor, **number)


def membership_log(events: int, groups: int, seed: int = 1) -> Iterator[Event]:
    """``events`` events over ``groups`` groups, interleaved."""
    rng = random.Random(seed)
    known = [
        _Group(f"group-{number}", FLAVOURS[number % len(FLAVOURS)], random.Random(f"{seed}/{number}"))
        for number in range(groups)
    ]
    for _ in range(events):
        yield rng.choice(known).next()


@dataclass
class Log:
    """A topic's records in memory: ``[(key, value, headers)]`` a partition."""

    partitions: list[list[tuple[bytes, bytes, codec.Headers]]]


def as_topic(events: Iterator[Event], partitions: int) -> Log:
    """The log as the producer would have written it."""
    log = Log([[] for _ in range(partitions)])
    for event in events:
        key, value, headers = codec.encode_event(event)
        log.partitions[partition_for_key(key, partitions)].append((key, value, headers))
    return log
