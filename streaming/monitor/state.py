"""State of one group.

Structs are written into the checkpoint as msgpack arrays (:mod:`streaming.monitor.bucket_state`). New fields are
added at the end, with a default. Any other change needs a new version of the blob.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Self

from msgspec import Struct, field, structs

from assignors.assignment import LastOwners
from streaming.records.diffs import Cause, MemberNames
from streaming.records.events import MAX_INT32, Evidence, Holding, Kind, MemberJoined, PartitionCount, Partitions

NOTHING: Holding = {}
#: ``{member: partitions that it owns}``.
Ownership = Mapping[str, Holding]


class MemberState(Struct, frozen=True, array_like=True, gc=False):
    """A member after the last event; ``owned``: after the last round. Its names are for display only."""

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
        """Return a new member without partitions, which shares equal lists with ``other``."""
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
    """A topic by the group's last ``topic.partitions_changed``; 0 partitions: no metadata."""

    partitions: PartitionCount
    racks: list[list[str]] | None = None
    topic_id: str | None = None


class Reports(Struct, frozen=True, array_like=True, gc=False):
    """Reports of the members of a reported group (:mod:`streaming.monitor.reported`).

    Attributes:
        members: members by their own events, in the order of their first ones.
        at: the last generation or epoch that each member acknowledged.
        open: generations that are no round yet: the members that acknowledged them, with what they own.
        since: when each of these was first acknowledged, ms.
        settled: the last generation that is a round; 0 while the group is empty.
        ready: up to this generation some member has kept its assignment for the settling time.
        overdue: up to this generation no member is waited for.
    """

    members: tuple[MemberState, ...] = ()
    at: dict[str, int] = field(default_factory=dict)
    open: dict[int, dict[str, MemberState]] = field(default_factory=dict)
    since: dict[int, int] = field(default_factory=dict)
    settled: int = 0
    ready: int = 0
    overdue: int = 0


class Former(Struct, frozen=True, array_like=True, gc=False):
    """Assignment before the last round of a classic group, in case the round was not delivered.

    ``owned``: of the changed members. ``last_owners``: of the partitions without an owner.
    """

    owned: dict[str, Holding] = field(default_factory=dict)
    last_owners: LastOwners = field(default_factory=dict)


class GroupState(Struct, frozen=True, array_like=True, gc=False):
    """One group. A function of the log alone: no arrival times, no deadlines.

    Attributes:
        observed: a collector follows the group, so member events are only evidence.
        generation: the last generation (classic) or group epoch.
        protocol: ``classic``, ``consumer``, ``streams`` or ``share``.
        members: in the order of joining, as in the JoinGroup response.
        topics: partition counts by topic.
        last_owners: of the partitions without an owner.
        applied: fingerprints of the applied events, oldest first (see :data:`REMEMBERED`).
        timestamp: of the last event that changed the group, ms.
        round: number of the last round within its rebalance.
        cause: of the last rebalance; its follow-up rounds have the same.
        revoked: the last round revoked partitions from members that stayed.
        hints: evidence since the last observed generation.
        kind: of an observed group.
        standby, warmup: tasks of Kafka Streams, by member.
        counted: the generation is the polling collector's count, and not Kafka's number.
        reports: the members' own reports; None: they don't report, or a collector follows the group.
        assigning: the last view was of an epoch without a computed target.
        departed: names of the members that departed last, for later causes.
        former: what the last round replaced; None: the round was delivered for sure.
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
        """True if members own tasks of connectors or subtopologies, not partitions of topics."""
        return self.kind == "connect" or self.protocol == "streams"

    def member(self, member_id: str, instance_id: str | None = None) -> MemberState | None:
        """Return the member of this id, else the static member of this instance id."""
        return find_member(self.members, member_id, instance_id)

    def rename(self, newcomers: Mapping[str, MemberState]) -> GroupState:
        """Return the group with new ids for static members that rejoined; ``newcomers``: by old member id."""
        renames = {old: member.member_id for old, member in newcomers.items()}
        members = tuple(
            _renamed(member, newcomers[member.member_id]) if member.member_id in newcomers else member
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

    def with_names(self, seen: Iterable[MemberState]) -> GroupState:
        """Return the group with its members' current names; itself if none has changed."""
        known = {member.member_id: member for member in seen}
        members = tuple(
            _renamed(member, known[member.member_id]) if member.member_id in known else member
            for member in self.members
        )
        return self if members == self.members else structs.replace(self, members=members)


def _renamed(member: MemberState, seen: MemberState) -> MemberState:
    return structs.replace(member, member_id=seen.member_id, client_id=seen.client_id, client_host=seen.client_host)


def next_generation(generation: int) -> int:
    """Return the generation after this one; after Kafka's largest INT32 they start over."""
    return generation + 1 if generation < MAX_INT32 else 1


def find_member(members: Iterable[MemberState], member_id: str, instance_id: str | None = None) -> MemberState | None:
    """Return the member of this id, else the static member of this instance id."""
    same = None
    for member in members:
        if member.member_id == member_id:
            return member
        if instance_id is not None and member.instance_id == instance_id:
            same = same or member
    return same


def tidy(share: Mapping[str, Iterable[int]]) -> Holding:
    """Return partitions sorted by topic and number, each once, without topics that have none."""
    found = {topic: sorted(set(numbers)) for topic, numbers in sorted(share.items())}
    return {topic: numbers for topic, numbers in found.items() if numbers}


def names_of(members: Iterable[MemberState]) -> dict[str, MemberNames]:
    """Return the names of members, by member id."""
    return {one.member_id: MemberNames(one.client_id, one.client_host, one.instance_id) for one in members}


def ownership(members: Iterable[MemberState]) -> dict[str, Holding]:
    """Return the partitions that each member owns."""
    return {member.member_id: member.owned for member in members}


def subscribed(members: Iterable[MemberState]) -> set[str]:
    """Return the topics that some member subscribes to."""
    found: set[str] = set()
    listed: list[str] | None = None
    for member in members:
        if member.topics != listed:  # mostly all subscribe alike
            listed = member.topics
            found.update(listed)
    return found


def prune(last_owners: LastOwners, topics: Mapping[str, TopicState]) -> LastOwners:
    """Return the last owners without partitions that no longer exist."""
    kept: LastOwners = {}
    for topic, owners in last_owners.items():
        count = topics[topic].partitions if topic in topics else None
        left = {p: owner for p, owner in owners.items() if count is None or p < count}
        if left:
            kept[topic] = left
    return kept


#: Applied events that a group remembers, so that a repeated record changes nothing: at most 4 KiB of state.
#: They are 64-bit fingerprints in the order of the log: two of 10⁶ events collide with a chance of 3·10⁻⁸.
#: Heartbeats and acknowledgements change no diff and are not remembered.
#: A repeat behind more events of its group counts as new; producers repeat within seconds.
REMEMBERED = 512
_SIZE = 8
#: Most bytes of a group's memory.
MOST_BYTES = REMEMBERED * _SIZE


def remember(applied: bytes, source: str, event_id: str) -> bytes | None:
    """Return the memory with one more event; None if the event is a repeat."""
    mark = blake2b(f"{source}\0{event_id}".encode(), digest_size=_SIZE).digest()
    place = applied.find(mark)
    while place % _SIZE and place >= 0:  # found across two neighbours
        place = applied.find(mark, place + 1)
    return None if place >= 0 else applied[_SIZE - MOST_BYTES :] + mark
