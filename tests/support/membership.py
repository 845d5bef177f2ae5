"""Membership events for tests, with running ids and times, and the state machine over them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from streaming.monitor.apply import apply
from streaming.monitor.state import AssignmentOutput, DiffOutput, GroupState, Output
from streaming.wire.events import (
    AssignmentAcknowledged,
    Diff,
    Event,
    EventData,
    Evidence,
    GroupDeleted,
    GroupObserved,
    MemberDiff,
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

SOURCE = "test"


class Log:
    """Makes the events of one group; the nth has id ``n`` and time ``1000·n``."""

    def __init__(self, group_id: str = "g") -> None:
        self.group_id = group_id
        self.count = 0

    def event(self, kind: type[EventData], **fields: Any) -> Event:
        self.count += 1
        data = kind(group_id=self.group_id, timestamp=1000 * self.count, **fields)
        return Event(SOURCE, str(self.count), data)

    def topics(self, **counts: int) -> Event:
        return self.event(
            PartitionsChanged,
            topics={name: TopicMetadata(partitions=count) for name, count in counts.items()},
        )

    def join(self, member_id: str, *topics: str, **fields: Any) -> Event:
        return self.event(MemberJoined, member_id=member_id, topics=list(topics or ["t"]), **fields)

    def leave(self, member_id: str, **fields: Any) -> Event:
        return self.event(MemberLeft, member_id=member_id, **fields)

    def fence(self, member_id: str, **fields: Any) -> Event:
        return self.event(MemberFenced, member_id=member_id, **fields)

    def subscribe(self, member_id: str, *topics: str) -> Event:
        return self.event(SubscriptionChanged, member_id=member_id, topics=list(topics))

    def beat(self, member_id: str, **fields: Any) -> Event:
        return self.event(MemberHeartbeat, member_id=member_id, **fields)

    def acknowledge(self, member_id: str, **fields: Any) -> Event:
        return self.event(AssignmentAcknowledged, member_id=member_id, **fields)

    def delete(self, **fields: Any) -> Event:
        return self.event(GroupDeleted, **fields)

    def observe(
        self,
        generation: int,
        assigned: dict[str, Partitions],
        *,
        protocol: str | None = "range",
        instances: dict[str, str] | None = None,
        topics: dict[str, list[str]] | None = None,
        evidence: Iterable[Evidence] = (),
        epoch: bool = False,
        owned: dict[str, Partitions] | None = None,
    ) -> Event:
        members = [
            ObservedMember(
                member_id=member_id,
                topics=(topics or {}).get(member_id, ["t"]),
                assigned=share,
                group_instance_id=(instances or {}).get(member_id),
                owned=(owned or {}).get(member_id, {}),
            )
            for member_id, share in assigned.items()
        ]
        return self.event(
            GroupObserved,
            members=members,
            generation=None if epoch else generation,
            group_epoch=generation if epoch else None,
            group_protocol="consumer" if epoch else "classic",
            protocol=protocol,
            evidence=list(evidence),
        )


def play(events: Iterable[Event], state: GroupState | None = None) -> tuple[GroupState | None, list[Output]]:
    outputs: list[Output] = []
    for event in events:
        state, given = apply(state, event)
        outputs += given
    return state, outputs


def diffs(outputs: Iterable[Output]) -> list[Diff]:
    return [output.diff for output in outputs if isinstance(output, DiffOutput)]


def assignments(outputs: Iterable[Output]) -> list[AssignmentOutput]:
    return [output for output in outputs if isinstance(output, AssignmentOutput)]


def change(
    owned: Partitions | None = None,
    revoked: Partitions | None = None,
    assigned: Partitions | None = None,
    kept: Partitions | None = None,
) -> MemberDiff:
    return MemberDiff(owned=owned or {}, revoked=revoked or {}, assigned=assigned or {}, kept=kept or {})


def holds(diff: Diff) -> dict[str, Partitions]:
    """Who owns what after the round."""
    after: dict[str, Partitions] = {}
    for member_id, member in diff.members.items():
        after[member_id] = {
            topic: sorted(member.kept.get(topic, []) + member.assigned.get(topic, []))
            for topic in sorted({*member.kept, *member.assigned})
        }
    return after


def check_algebra(diff: Diff) -> None:
    """The contract: kept = owned − revoked, revoked ∩ assigned = ∅, no partition in two afters."""
    seen: set[tuple[str, int]] = set()
    for member in diff.members.values():
        sets = {
            name: {(topic, p) for topic, ps in getattr(member, name).items() for p in ps}
            for name in ("owned", "revoked", "assigned", "kept")
        }
        assert sets["kept"] == sets["owned"] - sets["revoked"]
        assert sets["revoked"] <= sets["owned"]
        assert not sets["revoked"] & sets["assigned"]
        assert not sets["kept"] & sets["assigned"]
        after = sets["kept"] | sets["assigned"]
        assert not after & seen
        seen |= after
        for name in ("owned", "revoked", "assigned", "kept"):
            for partitions in getattr(member, name).values():
                assert partitions
                assert partitions == sorted(set(partitions))
