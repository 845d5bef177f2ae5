"""Diffs and latest assignments of groups, as types; see :mod:`streaming.records.events` for the input."""

from collections.abc import Iterator, Mapping
from typing import Literal

from msgspec import UNSET, UnsetType, field
from msgspec.json import Decoder

from assignors.errors import BadInput
from streaming.records.events import Count, Evidence, Holding, Int32, Kind, PartitionCount, Partitions, Timestamp, Wire


class UnknownGroup(BadInput):
    """The monitor has no data about this group."""


class MemberNames(Wire, frozen=True, kw_only=False):
    """Names of a member besides its id: client id, host, instance id; null if unknown."""

    client_id: str | None = None
    client_host: str | None = None
    group_instance_id: str | None = None


class Cause(Wire, frozen=True):
    """Cause of a round: ``kind`` is the type of the event behind it, ``memberIds`` are the members that caused it.

    ``names``: names of members that departed before this round; left out if there are none.
    """

    kind: str
    member_ids: list[str] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    names: dict[str, MemberNames] | UnsetType = UNSET


class MemberDiff(Wire, frozen=True):
    """Change of one member: kept = owned − revoked, after = kept + assigned, revoked ∩ assigned = ∅.

    ``present``: whether the member is in the group after the round; null in diffs of releases without this field.
    ``standby`` and ``warmup``: tasks of Kafka Streams that the member has after the round, by subtopology; left out
    for other members and for protocols without them. ``clientId``, ``clientHost`` and
    ``groupInstanceId``: names of the member, even if it departed; null if unknown.
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

    ``equal``: the same. ``tie``: different but within all rules, as a client in another language breaks ties
    differently. ``different``: members lack ``missing`` and have ``extra`` instead. ``custom``: the assignor is not
    one of Kafka's. ``unknown``: not compared, for the reason in ``why``. ``partitions``: the leader's partition
    counts, where they differ from those in the log.
    """

    verdict: Literal["equal", "tie", "different", "custom", "unknown"]
    why: str | UnsetType = UNSET
    partitions: dict[str, PartitionCount] | UnsetType = UNSET
    missing: dict[str, Holding] | UnsetType = UNSET
    extra: dict[str, Holding] | UnsetType = UNSET


class Undelivered(Wire, frozen=True):
    """A generation that the coordinator wrote to the log but members did not receive.

    The members in ``evidence`` had no callback for the ``generation``. What its diff assigned to them or revoked never
    took effect, and their ``owned`` is that of the generation before.
    """

    generation: Int32
    evidence: Evidence


class Diff(Wire, frozen=True):
    """Changes of one round of a group's rebalance, by member.

    ``generation`` counts under the classic protocol, ``groupEpoch`` under all others; the other is null.
    ``round`` starts at 1 and counts the follow-up rounds of one rebalance. ``moved`` counts partitions
    assigned to another member than their last owner. ``kind`` is left out for groups of consumers.
    ``delayMs``: how long Connect's ``unassigned`` tasks still wait for their worker, from ``timestamp`` on.
    ``expected``: only in observed rounds with a new generation or epoch. ``unchanged``: how many unchanged members
    ``members`` leaves out, and ``unchangedPartitions``: how many partitions these own. If both are left out,
    ``members`` lists all members. ``undelivered``: the previous generation, if it was not delivered.
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
    def number(self) -> int:
        """The diff's generation or group epoch; 0 if the diff has no number."""
        return (self.generation if self.group_epoch is None else self.group_epoch) or 0

    @property
    def named(self) -> Mapping[str, MemberDiff | MemberNames]:
        """Return the names of all members of the diff, and of other members in its cause."""
        return self.members if self.cause.names is UNSET else {**self.cause.names, **self.members}

    def holdings(self) -> Iterator[tuple[str, Holding]]:
        """Yield each member's partitions after the round, by member id, and unowned partitions under ``unassigned``.

        Partitions owned before the round are left out, as they may be of an earlier group of another kind.
        """
        for member_id, member in self.members.items():
            yield from ((member_id, held) for held in (member.assigned, member.kept) if held)
        yield "unassigned", self.unassigned


class LatestAssignment(Wire, frozen=True):
    """Current assignment of a group; the value of the compacted topic.

    ``kind`` is left out for groups of consumers. ``standby`` and ``warmup``: tasks of Kafka Streams by member and
    subtopology; left out for other groups. ``names`` has an entry for each of ``members``. ``racks``: racks of the
    members that report one; left out if none does.
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
        """Yield each member's partitions, by member id."""
        return iter(self.members.items())


diff_decoder = Decoder(Diff)
assignment_decoder = Decoder(LatestAssignment)
