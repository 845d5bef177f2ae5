"""State of one group, as the checkpoint has it between two events.

Structs are written into the checkpoint as msgpack arrays (:mod:`streaming.monitor.bucket_state`). New fields are
added at the end, with a default. Any other change of a struct needs a new version of the stored state.
"""

from collections.abc import Callable, Iterable, Mapping
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
    """State of a member after the last event; ``owned`` is from the last round. Names are for display only."""

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
    def joining(cls, data: MemberJoined, template: Self | None = None) -> Self:
        """Return a new member without partitions; lists that equal those of ``template`` are shared, to save memory."""
        topics, assignors = data.topics, data.assignors
        if template is not None:
            topics = template.topics if topics == template.topics else topics
            assignors = template.assignors if assignors == template.assignors else assignors
        return cls(
            data.member_id,
            topics,
            assignors,
            data.group_instance_id,
            data.rack_id,
            group_protocol=data.group_protocol,
            session_timeout_ms=data.session_timeout_ms,
            client_id=data.client_id,
            client_host=data.client_host,
        )


class TopicState(Struct, frozen=True, array_like=True, gc=False):
    """A topic as the group's last ``topic.partitions_changed`` event has it; 0 partitions: no metadata."""

    partitions: PartitionCount
    racks: list[list[str]] | None = None
    topic_id: str | None = None


class Reports(Struct, frozen=True, array_like=True, gc=False):
    """Reports of a reported group's members about their own assignments (:mod:`streaming.monitor.reported`).

    Attributes:
        members: reporting members, in the order of their first events.
        at: the last generation or epoch that each member acknowledged.
        open: incomplete generations: the members that acknowledged them, with the partitions they own.
        since: when each open generation was first acknowledged, ms.
        settled: the last generation that became a round; 0 while the group is empty.
        ready: the last generation whose assignment some member has kept for the settling time.
        overdue: the last generation that no longer waits for members.
    """

    members: tuple[MemberState, ...] = ()
    at: dict[str, int] = field(default_factory=dict)
    open: dict[int, dict[str, MemberState]] = field(default_factory=dict)
    since: dict[int, int] = field(default_factory=dict)
    settled: int = 0
    ready: int = 0
    overdue: int = 0


class PriorState(Struct, frozen=True, array_like=True, gc=False):
    """The assignment before the last round of a classic group, restored if members did not receive that round.

    ``owned``: partitions of the changed members. ``last_owners``: last owners of partitions without an owner.
    """

    owned: dict[str, Holding] = field(default_factory=dict)
    last_owners: LastOwners = field(default_factory=dict)


class GroupState(Struct, frozen=True, array_like=True, gc=False):
    """State of one group, computed from the membership log alone, without arrival times and deadlines.

    Attributes:
        observed: a collector follows the group, so member events are only evidence.
        generation: the last generation (classic) or group epoch.
        protocol: ``classic``, ``consumer``, ``streams`` or ``share``.
        members: members in the order of joining, as in the JoinGroup response.
        last_owners: last owners of the partitions without an owner.
        applied: fingerprints of the applied events, oldest first (see :data:`MAX_APPLIED`).
        timestamp: time of the last event that changed the group, ms.
        round, cause: number of the last round within its rebalance, and the cause of that rebalance.
        revoked: the last round revoked partitions from members that stayed.
        hints: evidence since the last observed generation.
        standby, warmup: standby and warm-up tasks of Kafka Streams, by member.
        counted: the generation is a count by polling, not Kafka's generation.
        reports: the members' own reports; None: members don't report, or a collector follows the group.
        assigning: the last snapshot was of an epoch without a computed target.
        departed: names of recently departed members, for later causes.
        prior: the assignment before the last round; None if that round was surely delivered.
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
    prior: PriorState | None = None

    @property
    def holds_tasks(self) -> bool:
        """True if members own tasks of connectors or subtopologies, not partitions of topics."""
        return self.kind == "connect" or self.protocol == "streams"

    def member(self, member_id: str, instance_id: str | None = None) -> MemberState | None:
        """Return the member of this id, else the static member of this instance id."""
        return find_member(self.members, member_id, instance_id)

    def rename(self, newcomers: Mapping[str, MemberState]) -> Self:
        """Return the group after static members rejoined. ``newcomers``: the rejoined member by its old member id."""
        new_ids = {old: member.member_id for old, member in newcomers.items()}
        members = _renamed(self.members, newcomers)
        last_owners = {
            topic: {p: new_ids.get(owner, owner) for p, owner in owners.items()}
            for topic, owners in self.last_owners.items()
        }
        prior = self.prior
        if prior is not None:  # a new process has kept no partitions
            owned = {member_id: share for member_id, share in prior.owned.items() if member_id not in newcomers}
            prior = structs.replace(prior, owned=owned)
        return structs.replace(self, members=members, last_owners=last_owners, prior=prior)

    def with_names(self, seen: Iterable[MemberState]) -> Self:
        """Return the group with its members' current names; the same object if none has changed."""
        members = _renamed(self.members, {member.member_id: member for member in seen})
        return self if members == self.members else structs.replace(self, members=members)


def _renamed(members: Iterable[MemberState], seen: Mapping[str, MemberState]) -> tuple[MemberState, ...]:
    """Return the members with new ids and names; ``seen``: each member under its new id, by its old member id."""
    return tuple(
        structs.replace(member, member_id=new.member_id, client_id=new.client_id, client_host=new.client_host)
        if (new := seen.get(member.member_id)) is not None
        else member
        for member in members
    )


def next_generation(generation: int) -> int:
    """Return the generation after this one; it is 1 after Kafka's largest number (INT32)."""
    return generation + 1 if generation < MAX_INT32 else 1


def find_member(members: Iterable[MemberState], member_id: str, instance_id: str | None = None) -> MemberState | None:
    """Return the member of this id, else the static member of this instance id."""
    static = None
    for member in members:
        if member.member_id == member_id:
            return member
        if instance_id is not None and member.instance_id == instance_id:
            static = static or member
    return static


def sorted_partitions(share: Mapping[str, Iterable[int]]) -> Holding:
    """Return partitions sorted by topic and number, each once, without topics that have no partitions."""
    partitions = {topic: sorted(set(numbers)) for topic, numbers in sorted(share.items())}
    return {topic: numbers for topic, numbers in partitions.items() if numbers}


def names_of(members: Iterable[MemberState]) -> dict[str, MemberNames]:
    """Return the names of members, by member id."""
    return {m.member_id: MemberNames(m.client_id, m.client_host, m.instance_id) for m in members}


def ownership(members: Iterable[MemberState]) -> dict[str, Holding]:
    """Return the partitions that each member owns."""
    return {member.member_id: member.owned for member in members}


def subscribed(members: Iterable[MemberState]) -> set[str]:
    """Return the topics that some member subscribes to."""
    topics: set[str] = set()
    listed: list[str] | None = None
    for member in members:
        if member.topics != listed:  # most members have equal subscriptions
            listed = member.topics
            topics.update(listed)
    return topics


def existing_last_owners(last_owners: LastOwners, topics: Mapping[str, TopicState]) -> LastOwners:
    """Return the partitions' last owners, without partitions that no longer exist."""
    return filter_last_owners(last_owners, lambda topic, p: topic not in topics or p < topics[topic].partitions)


def filter_last_owners(last_owners: LastOwners, keep: Callable[[str, int], bool]) -> LastOwners:
    """Return the last owners of the partitions for which ``keep(topic, partition)`` is true."""
    kept = {topic: {p: owner for p, owner in owners.items() if keep(topic, p)} for topic, owners in last_owners.items()}
    return {topic: owners for topic, owners in kept.items() if owners}


#: Applied events that a group remembers, so that a repeated record changes nothing: at most 4 KiB of state.
#: They are 64-bit fingerprints in log order: among 10⁶ events a collision has a probability of 3·10⁻⁸.
#: Heartbeats and acknowledgements change no diff and are not remembered.
#: A repeat after more events than these counts as new; producers repeat within seconds.
MAX_FINGERPRINTS = 512
_FINGERPRINT_BYTES = 8
#: The most bytes of fingerprints of a group.
MAX_FINGERPRINT_BYTES = MAX_FINGERPRINTS * _FINGERPRINT_BYTES


def add_fingerprint(applied: bytes, source: str, event_id: str) -> bytes | None:
    """Return the fingerprints of the applied events with this event added; None if the event was applied before."""
    mark = blake2b(f"{source}\0{event_id}".encode(), digest_size=_FINGERPRINT_BYTES).digest()
    place = applied.find(mark)
    while place % _FINGERPRINT_BYTES and place >= 0:  # a match that straddles two fingerprints
        place = applied.find(mark, place + 1)
    return None if place >= 0 else applied[_FINGERPRINT_BYTES - MAX_FINGERPRINT_BYTES :] + mark
