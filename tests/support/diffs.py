"""A generator of realistic diffs: groups whose members join, leave, crash and bounce, as the job would emit them.

Deterministic by seed; every diff satisfies the algebra of the contract.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from streaming.serve.history import Record
from streaming.wire.codec import encode, headers
from streaming.wire.events import Cause, Diff, Evidence, LatestAssignment, MemberDiff, Partitions

TopicPartition = tuple[str, int]

DIFFS = "rebalance.diffs"
ASSIGNMENTS = "rebalance.assignments"


@dataclass
class Group:
    """One consumer group and its sticky assignment."""

    name: str
    topics: dict[str, int]
    seed: int
    protocol: str = "cooperative"
    timestamp: int = 1_700_000_000_000
    members: dict[str, set[TopicPartition]] = field(default_factory=dict)
    generation: int = 0
    joined: int = 0
    free: set[TopicPartition] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.random = random.Random(f"{self.name}/{self.seed}")
        self.free = {(topic, number) for topic, count in self.topics.items() for number in range(count)}

    def change(self) -> Iterator[Diff]:
        """One membership change: one diff, or two when cooperative members must first give up partitions."""
        self.timestamp += self.random.randrange(5_000, 180_000)
        names = list(self.members)
        kinds = ["member.joined"] * 3 if len(names) < 3 else ["member.joined"]
        if len(names) > 1:
            kinds += ["member.left", "member.fenced"]
        if len(names) > 8:
            kinds = ["member.left", "member.fenced"]
        kind = self.random.choice(kinds)
        if kind == "member.joined":
            self.joined += 1
            who = f"{self.name}-{self.joined}"
            self.members[who] = set()
            yield from self._rebalance(Cause(kind=kind, member_ids=[who], evidence=[]))
            return
        who = self.random.choice(names)
        reason = "the member left" if kind == "member.left" else "session timeout expired"
        yield from self._rebalance(
            Cause(kind=kind, member_ids=[who], evidence=[Evidence(source="coordinator-log", reason=reason)]),
            gone=who,
        )

    def _target(self) -> dict[str, set[TopicPartition]]:
        """Sticky: members keep what fits their share, the rest goes where most room is."""
        total = sum(self.topics.values())
        share, extra = divmod(total, len(self.members))
        target: dict[str, set[TopicPartition]] = {}
        loose = set(self.free)
        for name, held in sorted(self.members.items(), key=lambda item: -len(item[1])):
            room = share + (1 if extra > 0 else 0)
            kept = set(sorted(held)[:room])
            if len(kept) > share:
                extra -= 1
            target[name] = kept
            loose |= held - kept
        for partition in sorted(loose):
            target[min(target, key=lambda name: (len(target[name]), name))].add(partition)
        return target

    def _rebalance(self, cause: Cause, gone: str | None = None) -> Iterator[Diff]:
        self.generation += 1
        if gone is not None:
            departed = self.members.pop(gone)
            self.free |= departed
        target = self._target()
        revoking = {name: held - target[name] for name, held in self.members.items()}
        two_rounds = self.protocol == "cooperative" and any(revoking.values())
        if two_rounds:
            first = {
                name: (held - revoking[name]) | (target[name] & self.free)
                for name, held in self.members.items()
            }
            yield self._diff(1, cause, first, gone, departed if gone else set())
            self.timestamp += self.random.randrange(40, 900)
            self.generation += 1
            yield self._diff(2, cause, target, None, set())
        else:
            yield self._diff(1, cause, target, gone, departed if gone else set())

    def _diff(
        self,
        round_: int,
        cause: Cause,
        after: dict[str, set[TopicPartition]],
        gone: str | None,
        departed: set[TopicPartition],
    ) -> Diff:
        members = {
            name: MemberDiff(
                owned=_by_topic(held),
                revoked=_by_topic(held - after[name]),
                assigned=_by_topic(after[name] - held),
                kept=_by_topic(held & after[name]),
            )
            for name, held in self.members.items()
        }
        if gone is not None:
            held = _by_topic(departed)
            members[gone] = MemberDiff(owned=held, revoked=held, assigned={}, kept={})
        moved = (
            sum(len(after[name] - held) for name, held in self.members.items()) if self.generation > 1 else 0
        )
        self.members = after
        everything = {(topic, number) for topic, count in self.topics.items() for number in range(count)}
        self.free = everything - set().union(*after.values()) if after else everything
        return Diff(
            group_id=self.name,
            protocol=self.protocol,
            assignor="cooperative-sticky" if self.protocol == "cooperative" else "range",
            generation=self.generation,
            group_epoch=None,
            round=round_,
            cause=cause,
            timestamp=self.timestamp,
            members=members,
            unassigned=_by_topic(self.free),
            moved=moved,
            violations=[],
        )

    def latest(self) -> LatestAssignment:
        """What the compacted topic says of the group now."""
        return LatestAssignment(
            group_id=self.name,
            protocol=self.protocol,
            assignor="cooperative-sticky",
            generation=self.generation,
            group_epoch=None,
            timestamp=self.timestamp,
            members={name: _by_topic(held) for name, held in self.members.items()},
        )


def _by_topic(partitions: set[TopicPartition]) -> Partitions:
    found: Partitions = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic, []).append(number)
    return found


def diff_id(diff: Diff) -> str:
    """A function of group, generation and round alone, as the job's ids are."""
    return f"{diff.group_id}:{diff.generation}:{diff.round}"


def diffs(group: Group, count: int) -> list[Diff]:
    """At least ``count`` diffs of one group, cut to ``count``."""
    found: list[Diff] = []
    while len(found) < count:
        found.extend(group.change())
    return found[:count]


def records(found: list[Diff], *, start: int = 0, partition: int = 0) -> list[Record]:
    """The diffs as they stand in one partition of the topic."""
    return [
        Record(DIFFS, partition, start + index, diff.group_id.encode(), encode(diff), diff_id(diff))
        for index, diff in enumerate(found)
    ]


def message(diff: Diff) -> dict[str, object]:
    """What a producer takes, less the topic."""
    return {
        "key": diff.group_id.encode(),
        "value": encode(diff),
        "headers": headers("rebalance.diff", "/test", diff_id(diff), diff.timestamp),
    }
