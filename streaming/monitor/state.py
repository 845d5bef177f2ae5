"""What the monitor knows of one group.

Written into the checkpoint as msgpack arrays (:mod:`streaming.monitor.bucket_state`). Fields are only ever added,
at the end and with a default. Any other change is a new version of the blob.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Self

from msgspec import Struct, field, structs

from assignors.assignment import LastOwners
from streaming.records.diffs import Cause, MemberNames
from streaming.records.events import (
    MAX_INT32,
    Evidence,
    Holding,
    Kind,
    MemberJoined,
    PartitionCount,
    Partitions,
)

NOTHING: Holding = {}
#: ``{member: what it owns}``.
Ownership = Mapping[str, Holding]


class MemberState(Struct, frozen=True, array_like=True, gc=False):
    """A member after the last event. ``owned`` is what it owns after the last round.

    What it is called (``client_id``, ``client_host``) decides nothing: it is what diffs and assignments say of it.
    """

    member_id: str
    topics: list[str]
    assignors: list[str] = field(default_factory=list)
    instance_id: str | None = None
    rack_id: str | None = None
    group_protocol: str = "classic"
    session_timeout_ms: int | None = None
    owned: Holding = field(default_factory=dict)
    client_id: str | None = None
    client_host: str | None = None

    @classmethod
    def joining(cls, data: MemberJoined, other: MemberState | None = None) -> Self:
        """By its own word; it owns nothing yet. What ``other`` says alike is one object: it is compared often."""
        topics, assignors = data.topics, data.assignors
        if other is not None:
            topics = other.topics if topics == other.topics else topics
            assignors = other.assignors if assignors == other.assignors else assignors
        return cls(
            *(data.member_id, topics, assignors, data.group_instance_id, data.rack_id),
            group_protocol=data.group_protocol,
            session_timeout_ms=data.session_timeout_ms,
            client_id=data.client_id,
            client_host=data.client_host,
        )


class TopicState(Struct, frozen=True, array_like=True, gc=False):
    """A topic as the group's last ``topic.partitions_changed`` shows it; 0 partitions: no metadata."""

    partitions: PartitionCount
    racks: list[list[str]] | None = None
    topic_id: str | None = None


class Reports(Struct, frozen=True, array_like=True, gc=False):
    """What the members of a reported group have said (:mod:`streaming.monitor.reported`).

    Attributes:
        members: those that are in the group by their own word, in the order of their first events.
        at: the last generation or epoch that each acknowledged.
        open: generation → those that acknowledged it, with what they hold: what is no round yet.
        since: generation → when it was first acknowledged, ms.
        settled: the last generation that is a round; 0 while the group is empty.
        ripe: up to here somebody has held what it holds for a while.
        overdue: up to here nobody is waited for any longer.
    """

    members: tuple[MemberState, ...] = ()
    at: dict[str, int] = field(default_factory=dict)
    open: dict[int, dict[str, MemberState]] = field(default_factory=dict)
    since: dict[int, int] = field(default_factory=dict)
    settled: int = 0
    ripe: int = 0
    overdue: int = 0


class Former(Struct, frozen=True, array_like=True, gc=False):
    """What the last round of a classic group replaced, in case that it was not delivered.

    Attributes:
        owned: what members owned before it, of those that it gave something or took something from.
        last_owners: of the partitions that nobody owned before it.
    """

    owned: dict[str, Holding] = field(default_factory=dict)
    last_owners: LastOwners = field(default_factory=dict)


class GroupState(Struct, frozen=True, array_like=True, gc=False):
    """One group. A function of the log alone: no arrival times, no deadlines.

    Attributes:
        observed: a collector has been seen; member events are only evidence from then on.
        generation: the last generation (classic) or group epoch (consumer).
        protocol: ``classic``, ``consumer``, ``streams`` or ``share``.
        assignor: what the last round was assigned with.
        members: in the order of joining, which stands for the order of the JoinGroup response.
        topics: partition counts by topic.
        last_owners: of the partitions that nobody owns now.
        applied: fingerprints of the events applied, oldest first (see :data:`REMEMBERED`).
        timestamp: of the last event that changed something, ms.
        round: the last round's number within its rebalance.
        cause: why the last rebalance happened: its follow-up rounds have the same cause.
        revoked: whether the last round revoked partitions from members that stayed.
        hints: evidence heard since the last observed generation.
        kind: what the members of an observed group are.
        standby, warmup: tasks of Kafka Streams, by member.
        counted: the generation is a count of the collector by polling, and not Kafka's number.
        reports: what members have said that tell themselves what they hold; None: nobody does, or a collector sees
            more than they can.
        assigning: the last view was of an epoch whose target was not computed yet.
        departed: names of the members that departed last: later causes may refer to them.
        former: what the last round replaced; None: it was delivered for sure.
    """

    observed: bool = False
    generation: int = 0
    protocol: str = "classic"
    assignor: str | None = None
    members: tuple[MemberState, ...] = ()
    topics: dict[str, TopicState] = field(default_factory=dict)
    last_owners: LastOwners = field(default_factory=dict)
    applied: bytes = b""
    timestamp: int = 0
    round: int = 0
    cause: Cause | None = None
    revoked: bool = False
    hints: tuple[Evidence, ...] = ()
    kind: Kind = "consumer"
    standby: dict[str, Partitions] = field(default_factory=dict)
    warmup: dict[str, Partitions] = field(default_factory=dict)
    counted: bool = False
    reports: Reports | None = None
    assigning: bool = False
    departed: dict[str, MemberNames] = field(default_factory=dict)
    former: Former | None = None

    @property
    def holds_tasks(self) -> bool:
        """Whether members hold tasks of connectors or subtopologies, not partitions of topics."""
        return self.kind == "connect" or self.protocol == "streams"

    def member(self, member_id: str) -> MemberState | None:
        """The member of this id."""
        for member in self.members:
            if member.member_id == member_id:
                return member
        return None

    def static_member(self, instance_id: str | None) -> MemberState | None:
        """The member of this instance id."""
        if instance_id is None:
            return None
        return next((member for member in self.members if member.instance_id == instance_id), None)

    def rename(self, newcomers: Mapping[str, MemberState]) -> GroupState:
        """The group with static members' replacements, by old member id: in the past they have the new ids too."""
        renames = {old: member.member_id for old, member in newcomers.items()}
        members = tuple(
            _called(member, newcomers[member.member_id]) if member.member_id in newcomers else member
            for member in self.members
        )
        last_owners = {
            topic: {p: renames.get(owner, owner) for p, owner in owners.items()}
            for topic, owners in self.last_owners.items()
        }
        former = self.former
        if former is not None:  # a new process owns nothing that it could have kept
            owned = {one: share for one, share in former.owned.items() if one not in newcomers}
            former = structs.replace(former, owned=owned)
        return structs.replace(self, members=members, last_owners=last_owners, former=former)

    def call(self, seen: Iterable[MemberState]) -> GroupState:
        """The group with the names that its members have been seen with; itself, if it knew them."""
        known = {member.member_id: member for member in seen}
        members = tuple(
            _called(member, known[member.member_id]) if member.member_id in known else member
            for member in self.members
        )
        return self if members == self.members else structs.replace(self, members=members)


def _called(member: MemberState, seen: MemberState) -> MemberState:
    """The member with the id and names of another view of it."""
    return structs.replace(
        member, member_id=seen.member_id, client_id=seen.client_id, client_host=seen.client_host
    )


def following(generation: int) -> int:
    """The generation after this one; past Kafka's INT32, which a member may claim to be at, they start over."""
    return generation + 1 if generation < MAX_INT32 else 1


def ownership(members: Iterable[MemberState]) -> dict[str, Holding]:
    """What each member owns."""
    return {member.member_id: member.owned for member in members}


def subscribed(members: Iterable[MemberState]) -> set[str]:
    """The topics that some member subscribes to."""
    found: set[str] = set()
    listed: list[str] | None = None
    for member in members:
        if member.topics != listed:  # mostly all subscribe alike
            listed = member.topics
            found.update(listed)
    return found


def prune(last_owners: LastOwners, topics: Mapping[str, TopicState]) -> LastOwners:
    """Last owners without partitions that their topic does not have any more."""
    kept: LastOwners = {}
    for topic, owners in last_owners.items():
        count = topics[topic].partitions if topic in topics else None
        left = {p: owner for p, owner in owners.items() if count is None or p < count}
        if left:
            kept[topic] = left
    return kept


#: Events that a group remembers as applied, so that a repeated record changes nothing: at most 4 KiB of state.
#: They are 64-bit fingerprints in the order of the log, so the log alone decides: never time, batch or restart.
#: Heartbeats and acknowledgements are not remembered: they change no diff, and would push out what matters.
#: A repeat behind more changes of its group counts as new; producers repeat within seconds.
REMEMBERED = 512
_SIZE = 8
#: What the memory of a group takes at most.
MOST_BYTES = REMEMBERED * _SIZE


def fingerprint(source: str, event_id: str) -> bytes:
    """64 bits of an event's identity: two of 10⁶ events collide with a chance of 3·10⁻⁸."""
    return blake2b(f"{source}\0{event_id}".encode(), digest_size=_SIZE).digest()


def contains(applied: bytes, mark: bytes) -> bool:
    """Whether the memory holds this fingerprint."""
    place = applied.find(mark)
    while place % _SIZE and place >= 0:  # found across two neighbours
        place = applied.find(mark, place + 1)
    return place >= 0


def remember(applied: bytes, mark: bytes) -> bytes:
    """The memory with this fingerprint as its newest."""
    return applied[_SIZE - MOST_BYTES :] + mark
