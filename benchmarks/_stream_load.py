"""The load of the stream's benchmark: groups of 20 members, 90 % heartbeats and repeats, 10 % changes.

Deterministic by seed. Changes are joins and leaves that keep each group near its size, under assignors in turn.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from streaming.wire.events import (
    Event,
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
    """``count`` events; the first ``groups × 21`` set the groups up (counted as part of the 10 % changes)."""
    rng = random.Random(seed)
    sent = 0

    def event(group: int, data: object) -> Event:
        nonlocal sent
        sent += 1
        return Event(f"/app/{group}", str(sent), data)

    def join(group: int, member: int) -> Event:
        return event(
            group,
            MemberJoined(
                group_id=f"group-{group:06d}",
                timestamp=START_MS + sent,
                member_id=f"consumer-{group:06d}-{member:08d}",
                topics=[TOPIC],
                assignors=ASSIGNORS[group % len(ASSIGNORS)],
                session_timeout_ms=3_600_000,
            ),
        )

    members: list[list[int]] = []
    for group in range(groups):
        topics = {TOPIC: TopicMetadata(partitions=PARTITIONS)}
        yield event(
            group, PartitionsChanged(group_id=f"group-{group:06d}", timestamp=START_MS + sent, topics=topics)
        )
        members.append(list(range(MEMBERS)))
        for member in range(MEMBERS):
            yield join(group, member)
    left = count - sent
    changes = max(0, count // 10 - sent)
    last: Event | None = None
    for number in range(left):
        group = rng.randrange(groups)
        known = members[group]
        # Changes are spread evenly over what is left.
        if changes * (number + 1) // left > changes * number // left:
            if len(known) > MEMBERS - 1:
                member = known.pop(rng.randrange(len(known)))
                last = event(
                    group,
                    MemberLeft(
                        group_id=f"group-{group:06d}",
                        timestamp=START_MS + sent,
                        member_id=f"consumer-{group:06d}-{member:08d}",
                    ),
                )
            else:
                known.append(sent)
                last = join(group, sent)
            yield last
        elif number % 10 == 0 and last is not None:
            sent += 1
            yield last  # a producer that repeats itself
        else:
            member = rng.choice(known)
            yield event(
                group,
                MemberHeartbeat(
                    group_id=f"group-{group:06d}",
                    timestamp=START_MS + sent,
                    member_id=f"consumer-{group:06d}-{member:08d}",
                    generation=1,
                ),
            )
