"""Diffs and latest assignments: what the monitor says of groups, as types. See :mod:`streaming.records.events`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import UNSET, UnsetType, field

from assignors.errors import BadInput
from streaming.records.events import Count, Evidence, Holding, Int32, Kind, PartitionCount, Partitions, Timestamp, Wire


class UnknownGroup(BadInput):
    """Nothing is known of this group."""


class MemberNames(Wire, frozen=True, kw_only=False):
    """Names of a member beside its id: client id, host, instance id; null if unknown."""

    client_id: str | None = None
    client_host: str | None = None
    group_instance_id: str | None = None


class Cause(Wire, frozen=True):
    """Why a round happened: ``kind`` is the type of the event behind it, ``memberIds`` who caused it.

    ``names``: those of members that departed before this round; left out where there are none.
    """

    kind: str
    member_ids: list[str] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    names: dict[str, MemberNames] | UnsetType = UNSET


class MemberDiff(Wire, frozen=True):
    """Change of one member: kept = owned − revoked, after = kept + assigned, revoked ∩ assigned = ∅.

    ``present``: whether the member is in the group after the round; null in diffs of releases that did not say.
    ``standby`` and ``warmup``: tasks of Kafka Streams that the member has after the round, by subtopology; left out
    for other members, and where the protocol does not have them. ``clientId``, ``clientHost`` and
    ``groupInstanceId``: names of the member, also of one that is gone; null if unknown.
    """

    owned: Holding
    revoked: Holding
    assigned: Holding
    kept: Holding
    present: bool | None = None
    standby: Partitions | UnsetType = UNSET
    warmup: Partitions | UnsetType = UNSET
    client_id: str | None = None
    client_host: str | None = None
    group_instance_id: str | None = None


class Expected(Wire, frozen=True):
    """Comparison of a round with the assignment that Kafka's own assignor computes from the same input.

    ``equal``: the same. ``tie``: other than ours, and no rule broken: a client in another language broke ties
    otherwise. ``different``: members lack ``missing`` and have ``extra`` in its place. ``custom``: the assignor is
    none of Kafka's. ``unknown``: ``why`` says what is missing. ``partitions``: counts that the leader
    knew, where those of the log are others.
    """

    verdict: Literal["equal", "tie", "different", "custom", "unknown"]
    why: str | UnsetType = UNSET
    partitions: dict[str, PartitionCount] | UnsetType = UNSET
    missing: dict[str, Holding] | UnsetType = UNSET
    extra: dict[str, Holding] | UnsetType = UNSET


class Undelivered(Wire, frozen=True):
    """A generation that was written to the log and that members did not receive.

    The members that ``evidence`` names had no callback for the ``generation``. What its diff gave them and took
    from them never happened, and their ``owned`` is that of before it.
    """

    generation: Int32
    evidence: Evidence


class Diff(Wire, frozen=True):
    """Changes of one round of a group's rebalance, by member.

    ``generation`` counts under the classic protocol, ``groupEpoch`` under all others; the other is null.
    ``round`` starts at 1 and counts the follow-up rounds of one rebalance. ``moved`` counts partitions
    given to another member than the last that owned them. ``kind`` is left out for groups of consumers.
    ``delayMs``: how long Connect's ``unassigned`` tasks still wait for their worker, from ``timestamp`` on.
    ``expected``: of rounds that were observed, with a new generation or epoch. ``unchanged``: how many members
    ``members`` leaves out, as nothing changed for them, and ``unchangedPartitions``: how many partitions these own.
    Where both are left out, ``members`` has everybody. ``undelivered``: the generation before this one, if it was
    not delivered.
    """

    group_id: str
    protocol: str
    assignor: str | None
    generation: Int32 | None
    group_epoch: Int32 | None
    round: Count
    cause: Cause
    timestamp: Timestamp
    members: dict[str, MemberDiff]
    unassigned: Holding
    moved: Count
    violations: list[str]
    kind: Kind | UnsetType = UNSET
    delay_ms: Count | UnsetType = UNSET
    expected: Expected | UnsetType = UNSET
    unchanged: Count | UnsetType = UNSET
    unchanged_partitions: Count | UnsetType = UNSET
    undelivered: Undelivered | UnsetType = UNSET

    @property
    def named(self) -> Mapping[str, MemberDiff | MemberNames]:
        """The names of all members of the diff, and of others that its cause refers to."""
        return self.members if self.cause.names is UNSET else {**self.cause.names, **self.members}

    def holdings(self) -> Iterator[tuple[str, Holding]]:
        """Everything that members hold after the round, by member id, and what nobody does, under ``unassigned``.

        What they held before may be of a group of another kind that had this name.
        """
        for member_id, member in self.members.items():
            yield from ((member_id, held) for held in (member.assigned, member.kept) if held)
        yield "unassigned", self.unassigned


class LatestAssignment(Wire, frozen=True):
    """The value of the compacted topic: who owns what in a group now.

    ``kind`` is left out for groups of consumers. ``standby`` and ``warmup``: tasks of Kafka Streams by member and
    subtopology; left out for other groups. ``names`` has every one of ``members``. ``racks``: those of members that
    say where they run; left out where none does.
    """

    group_id: str
    protocol: str
    assignor: str | None
    generation: Int32 | None
    group_epoch: Int32 | None
    timestamp: Timestamp
    members: dict[str, Holding]
    kind: Kind | UnsetType = UNSET
    standby: dict[str, Partitions] | UnsetType = UNSET
    warmup: dict[str, Partitions] | UnsetType = UNSET
    names: dict[str, MemberNames] = field(default_factory=dict)
    racks: dict[str, str] | UnsetType = UNSET

    def holdings(self) -> Iterator[tuple[str, Holding]]:
        """Everything that members hold, by member id."""
        return iter(self.members.items())
