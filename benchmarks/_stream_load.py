"""The load of the stream's benchmarks: groups of 20 members; 90 % heartbeats and repeats, 10 % changes.

Deterministic by seed. Changes are joins and leaves that keep each group near its size. The groups use the
assignors of a list in turn.
"""

import random
from collections.abc import Iterator
from typing import Any

from streaming.records.events import (
    Event,
    EventData,
    MemberHeartbeat,
    MemberJoined,
    MemberLeft,
    PartitionsChanged,
    TopicMetadata,
)

MEMBERS = 20
TOPIC = "orders"
PARTITIONS = 40
ASSIGNORS: tuple[list[str], ...] = (["range"], ["roundrobin"], ["sticky"], ["cooperative-sticky"])
START_MS = 1_700_000_000_000


def events(count: int, groups: int, seed: int = 1) -> Iterator[Event]:
    """Yield ``count`` events, a tenth of which change a group; the first ones create the groups."""
    load = _StreamLoad(seed)
    for _ in range(groups):
        yield from load.new_group()
    left = count - load.sent
    changes = max(0, count // 10 - load.sent)
    last: Event | None = None
    for number in range(left):
        group = load.random.randrange(groups)
        # Changes are spread evenly over the other events.
        if changes * (number + 1) // left > changes * number // left:
            last = load.change(group)
            yield last
        elif number % 10 == 0 and last is not None:
            load.sent += 1
            yield last  # a producer that repeats itself
        else:
            yield load.heartbeat(group)


class _StreamLoad:
    """Generates events of numbered groups, and keeps each group's members and the count of events."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.sent = 0
        self._members: list[list[int]] = []

    def new_group(self) -> Iterator[Event]:
        group = len(self._members)
        self._members.append(list(range(MEMBERS)))
        yield self._event(group, PartitionsChanged, topics={TOPIC: TopicMetadata(partitions=PARTITIONS)})
        for member in range(MEMBERS):
            yield self._join(group, member)

    def change(self, group: int) -> Event:
        """Return an event in which a member leaves, or in which a member joins if one has left before."""
        members = self._members[group]
        if len(members) > MEMBERS - 1:
            member = members.pop(self.random.randrange(len(members)))
            return self._event(group, MemberLeft, member_id=_name(group, member))
        members.append(self.sent)
        return self._join(group, self.sent)

    def heartbeat(self, group: int) -> Event:
        member = self.random.choice(self._members[group])
        return self._event(group, MemberHeartbeat, member_id=_name(group, member), generation=1)

    def _join(self, group: int, member: int) -> Event:
        return self._event(
            group,
            MemberJoined,
            member_id=_name(group, member),
            topics=[TOPIC],
            assignors=ASSIGNORS[group % len(ASSIGNORS)],
            session_timeout_ms=3_600_000,
        )

    def _event(self, group: int, kind: type[EventData], **fields: Any) -> Event:
        data = kind(group_id=f"group-{group:06d}", timestamp=START_MS + self.sent, **fields)
        self.sent += 1
        return Event(f"/app/{group}", str(self.sent), data)


def _name(group: int, member: int) -> str:
    return f"consumer-{group:06d}-{member:08d}"
