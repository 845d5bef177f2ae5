"""Membership events: the records of the membership topic, as types. Diffs are in :mod:`streaming.records.diffs`.

Field names on the wire are Kafka's own, in camelCase; times are milliseconds since the epoch. The event type is not in
the value but in the ``ce_type`` header (CloudEvents Kafka binding, binary mode), which :data:`EVENT_TYPES` maps to a
struct. Unknown fields are ignored and wrong types refused: msgspec never turns ``"77"`` into a number.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType, field

#: The last moment of the year 9998: RFC 3339 and ``datetime`` can write it in every time zone.
MAX_TIMESTAMP = 253_370_764_799_999
#: Milliseconds since the epoch.
Timestamp = Annotated[int, Meta(ge=0, le=MAX_TIMESTAMP)]
#: A group's or member's id: Kafka's requests can't carry longer strings.
Id = Annotated[str, Meta(max_length=32_767)]
#: The largest INT32 of Kafka.
MAX_INT32 = 2_147_483_647
#: A generation, an epoch, a timeout: Kafka's INT32.
Int32 = Annotated[int, Meta(ge=-MAX_INT32 - 1, le=MAX_INT32)]
#: A partition's number.
Partition = Annotated[int, Meta(ge=0, le=MAX_INT32)]
#: The most partitions of a group. A cluster has at most about two million, so a larger number in an event is a mistake.
MAX_PARTITIONS = 2_000_000
#: A partition's number as a name in JSON.
PartitionName = Annotated[str, Meta(pattern="^[0-9]{1,10}$")]
#: Partitions of a topic.
PartitionCount = Annotated[int, Meta(ge=0, le=MAX_PARTITIONS)]
#: An offset of a partition: Kafka's INT64.
Offset = Annotated[int, Meta(ge=0, le=2**63 - 1)]
#: A count.
Count = Annotated[int, Meta(ge=0, le=MAX_INT32)]
#: ``{topic: ascending partitions}``.
Partitions = dict[str, list[Partition]]
#: Source of the evidence that every polled snapshot has.
POLLING = "polling"
#: Source of evidence from the comparison of two generations.
COMPARISON = "comparison"
#: Kind of evidence: another broker became the group's coordinator, so members rejoined.
COORDINATOR_MOVED = "coordinator.moved"
#: Kind of evidence: the group had no record before, so it was created while the collector was running.
GROUP_CREATED = "group.created"
#: Kind of evidence: members did not receive a generation whose record is in the log.
UNDELIVERED = "generation.undelivered"
#: Kind of evidence: committed offsets were reset to lower ones while the group had no members.
OFFSETS_RESET = "offsets.reset"
#: Cause of a rebalance that Kafka Streams schedules to check whether warm-up tasks have caught up.
PROBING = "streams.probing_rebalance"
#: Kind of a group; left out in records of plain consumer groups.
Kind = Literal["consumer", "connect", "streams", "share"]
#: Task number of a connector's own instance, as in Connect's protocol.
CONNECTOR = -1
#: The number of a partition or of a connector's task.
Task = Annotated[int, Meta(ge=CONNECTOR, le=MAX_INT32)]
#: Partitions or tasks of a member: :data:`Partitions`; in Connect ``{connector: tasks}``; in a streams group
#: (KIP-1071) ``{subtopology: partitions of its tasks}``.
Holding = dict[str, list[Task]]


class Wire(Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=False, gc=False):
    """Base of all records: frozen, keyword-only, camelCase on the wire."""


class EventData(Wire, frozen=True):
    """The value of an event's record: base of all types of :data:`EVENT_TYPES`."""

    group_id: Id
    timestamp: Timestamp


class MemberEventData(EventData, frozen=True):
    """Base class of the events about one member."""

    member_id: Id


class MemberJoined(MemberEventData, frozen=True):
    """A member joined, or rejoined with new metadata.

    ``acknowledges``: the member reports its partitions itself, so nothing is computed for its group.
    """

    topics: list[str]
    group_instance_id: Id | None = None
    client_id: str | None = None
    client_host: str | None = None
    rack_id: str | None = None
    owned: Partitions = field(default_factory=dict)
    generation: Int32 = -1
    protocol_type: str = "consumer"
    group_protocol: Literal["classic", "consumer"] = "classic"
    assignors: list[str] = field(default_factory=list)
    session_timeout_ms: Int32 | None = None
    rebalance_timeout_ms: Int32 | None = None
    acknowledges: bool | UnsetType = UNSET


class MemberHeartbeat(MemberEventData, frozen=True):
    """A heartbeat of a member: the member is still alive."""

    generation: Int32 = -1


class MemberLeft(MemberEventData, frozen=True):
    """A member left by itself (LeaveGroup). ``acknowledges``: the member sent this event, see :class:`MemberJoined`."""

    reason: str | None = None
    group_instance_id: Id | None = None
    acknowledges: bool | UnsetType = UNSET


class MemberFenced(MemberEventData, frozen=True):
    """A member was removed: its session timed out, or another member took its instance id.

    ``lastHeard`` is set by the monitor's own timer: the ``timestamp`` of the last event of this member that the timer
    had read. If the log has a later event of the member, the ``member.fenced`` changes nothing. ``acknowledges``: the
    member reported this itself, see :class:`MemberJoined`.
    """

    reason: str | None = None
    group_instance_id: Id | None = None
    last_heartbeat: Timestamp | None = field(default=None, name="lastHeard")
    acknowledges: bool | UnsetType = UNSET


class SubscriptionChanged(MemberEventData, frozen=True):
    """A member subscribes to other topics than before."""

    topics: list[str]


class AssignmentAcknowledged(MemberEventData, frozen=True):
    """A member reports the partitions that it owns after its rebalance callbacks.

    ``generation`` −1: the member is between two generations. ``heldMs``: how long its partitions have not changed.
    ``revoked`` and ``assigned``: partitions that it has just given up, and just received.
    """

    generation: Int32 = -1
    owned: Partitions = field(default_factory=dict)
    held_ms: Count | UnsetType = UNSET
    revoked: Partitions | UnsetType = UNSET
    assigned: Partitions | UnsetType = UNSET


class TopicMetadata(Wire, frozen=True):
    """A topic's partition count and, where known, the racks of each partition's replicas."""

    partitions: PartitionCount
    racks: list[list[str]] | None = None
    topic_id: str | None = None


class PartitionsChanged(EventData, frozen=True):
    """Current partition counts of topics that the group subscribes to."""

    topics: dict[str, TopicMetadata]


class ObservedMember(Wire, frozen=True):
    """A member of one observed generation (classic) or epoch (all other protocols).

    ``standby`` and ``warmup`` are tasks of Kafka Streams, by subtopology; left out for protocols without
    them. ``nextRebalanceMs``: when the member will rejoin by itself, 0 for at once (Kafka Streams).
    ``endpoint``: the URL of a Connect worker, the ``application.server`` of a Streams instance.
    """

    member_id: Id
    topics: list[str]
    assigned: Holding
    owned: Holding = field(default_factory=dict)
    group_instance_id: Id | None = None
    client_id: str | None = None
    client_host: str | None = None
    rack_id: str | None = None
    session_timeout_ms: Int32 | None = None
    rebalance_timeout_ms: Int32 | None = None
    member_epoch: Int32 | None = None
    previous_member_epoch: Int32 | None = None
    state: str | None = None
    pending_revocation: Holding = field(default_factory=dict)
    target: Holding | None = None
    owned_generation: Int32 = -1
    standby: Partitions | UnsetType = UNSET
    warmup: Partitions | UnsetType = UNSET
    next_rebalance_ms: Timestamp | UnsetType = UNSET
    process_id: str | UnsetType = UNSET
    endpoint: str | UnsetType = UNSET


class Evidence(Wire, frozen=True):
    """A reason for an event, with its source (``coordinator-log``, ``offset-commits``, …).

    ``kind``: the event type that the reason is evidence of, if there is one. ``generation``: the earlier generation
    that the reason is about, if it is not the current one.
    """

    source: str
    reason: str
    member_ids: list[str] = field(default_factory=list)
    kind: str | None = None
    generation: Int32 | UnsetType = UNSET


class GroupObserved(EventData, frozen=True):
    """A complete snapshot of one generation of a group, by a collector.

    ``kind`` is left out for groups of consumers. ``delayMs``: how long Connect's lost tasks still wait for their
    worker to come back, from ``timestamp`` on.
    """

    members: list[ObservedMember]
    generation: Int32 | None = None
    group_epoch: Int32 | None = None
    group_protocol: Literal["classic", "consumer", "streams", "share"] = "classic"
    protocol_type: str | None = "consumer"
    protocol: str | None = None
    leader: str | None = None
    state: str | None = None
    evidence: list[Evidence] = field(default_factory=list)
    kind: Kind | UnsetType = UNSET
    delay_ms: Count | UnsetType = UNSET

    def holdings(self) -> Iterator[tuple[str, Holding]]:
        """Yield the partitions that members own, owned before or will own, by member id."""
        for member in self.members:
            for held in (member.assigned, member.owned, member.pending_revocation, member.target):
                if held:
                    yield member.member_id, held

    @property
    def has_epochs(self) -> bool:
        """True if the group counts epochs (KIP-848, share and Streams groups), not generations."""
        return self.group_protocol != "classic"

    @property
    def number(self) -> int | None:
        """The group epoch if the group has epochs, else the generation; None if unknown."""
        return self.group_epoch if self.has_epochs else self.generation

    @property
    def holds_tasks(self) -> bool:
        """True if members own tasks of connectors or subtopologies, not partitions of topics."""
        return self.kind == "connect" or self.group_protocol == "streams"

    @property
    def polled(self) -> bool:
        """True if the snapshot was polled: its generation counts changes and is never ahead of Kafka's."""
        return any(item.source == POLLING for item in self.evidence)


class GroupDeleted(EventData, frozen=True):
    """The group was deleted. With ``forget`` (by the monitor's own timer) its state is deleted, too."""

    reason: str | None = None
    forget: bool = False


class GroupQuiet(EventData, frozen=True):
    """The group's episode has ended, as the quiet time has passed. Written by the monitor's own timer.

    ``after``: id of the last note before the quiet time: a diff, a rejoin of a static member, or a snapshot with
    waits. If the episode has a later note, the event changes nothing.
    """

    after: str


class Stop(Wire, frozen=True):
    """Stop of partitions according to one witness: four moments, each left out if the witness does not know the moment.

    ``partitions`` left out: all partitions of members that are still in the group. They were consumed until
    ``stoppedAfter`` at least and no longer from ``stoppedBefore`` on; they were not consumed before
    ``resumedAfter``, and were consumed again by ``resumedBefore``. ``committed``: their offsets when they stopped.
    """

    partitions: Partitions | UnsetType = UNSET
    committed: dict[str, dict[PartitionName, Offset]] | UnsetType = UNSET
    stopped_after: Timestamp | UnsetType = UNSET
    stopped_before: Timestamp | UnsetType = UNSET
    resumed_after: Timestamp | UnsetType = UNSET
    resumed_before: Timestamp | UnsetType = UNSET


class PartitionsStopped(EventData, frozen=True):
    """Evidence of downtime: when partitions of a group were not consumed around one of its rounds.

    ``source``: the witness. ``generation`` (classic) or ``groupEpoch`` (all other protocols): number of the round that
    took the partitions away, or of a later one that assigned them again. Times are by the brokers' clocks.
    """

    source: str
    stops: list[Stop]
    generation: Int32 | None = None
    group_epoch: Int32 | None = None


class GroupRebalancing(EventData, frozen=True):
    """A rebalance in progress. The next generation, ``group.deleted`` or ``ended`` ends it.

    ``since``: when it began. ``joined``: members known to have rejoined; ``awaited``: those that have not.
    ``state``: Kafka's group state. ``until``: when each awaited member is removed (its rebalance timeout).
    ``source``: coordinator-log, admin, listener or records. ``commits_stopped``: the group has not committed since.
    ``ended``: the rebalance ended without a new generation.
    """

    since: Timestamp
    reason: str | None = None
    joined: list[Id] = field(default_factory=list)
    awaited: list[Id] = field(default_factory=list)
    state: str | None = None
    until: dict[Id, Timestamp] = field(default_factory=dict)
    source: str = ""
    commits_stopped: bool | UnsetType = UNSET
    ended: bool = False


class GroupProgress(EventData, frozen=True):
    """Committed offset (null: never committed) and end offset of a group's partitions at one moment.

    ``partitions``: ``{topic: {"0": [committed, end]}}``. ``starts``: log start offsets above the committed offset:
    retention deleted records before the group consumed them. ``requestedAt``: when the end offsets were requested, so
    that none is older; left out: half a second before. ``committedAt``: when a group in flux committed these offsets.
    """

    partitions: dict[str, dict[PartitionName, tuple[Offset | None, Offset]]]
    starts: dict[str, dict[PartitionName, Offset]] | UnsetType = UNSET
    requested_at: Timestamp | UnsetType = UNSET
    committed_at: dict[str, dict[PartitionName, Timestamp]] | UnsetType = UNSET


class IncidentAcknowledged(EventData, frozen=True):
    """A user acknowledged or muted an incident (``incidents ack``, ``incidents mute``).

    ``until`` null: until the incident closes.
    """

    incident: Count
    by: str | None = None
    until: Timestamp | None = None
    text: str | None = None
    muted: bool = False


#: The ``groupId`` of events and incidents of the cluster as a whole.
CLUSTER = "(cluster)"
#: Kinds of :class:`ClusterChange`.
ClusterKind = Literal["broker-restart", "coordinator-moved", "topic-deleted", "partitions-added", "mass-restart"]


class GroupPauses(Wire, frozen=True):
    """Pauses in the commits of groups around a change of their coordinators.

    ``groups``: the least and the most time (ms) of each group's pause, the longest first; ``more`` of them are not
    listed. ``unknown``: how many groups did not commit regularly, or not again. ``rebalanced``: groups that rebalanced.
    """

    groups: dict[Id, tuple[Count, Count]]
    rebalanced: list[Id] = field(default_factory=list)
    more: Count = 0
    unknown: Count = 0


class ClusterChange(Wire, frozen=True, kw_only=False):
    """One change that concerns many groups.

    ``subject``: ``broker 1``, ``broker 1 to broker 2``, a topic, ``t from 3 to 6``, a host. ``since``: when the
    change was first noticed. ``groups``: the groups that it concerns. ``pauses``: the pauses of these groups, in a
    second event about the same change.
    """

    kind: ClusterKind
    subject: str
    since: Timestamp
    groups: list[Id] = field(default_factory=list)
    pauses: GroupPauses | UnsetType = UNSET


class ClusterObserved(EventData, frozen=True):
    """The brokers of the cluster, and the cluster's changes since the previous event; ``groupId`` is CLUSTER."""

    brokers: list[Int32]
    changes: list[ClusterChange] = field(default_factory=list)


class Annotation(EventData, frozen=True, kw_only=True):
    """A mark on the timeline of groups, such as a deployment; ``groupId`` may be left out, and the key is ignored.

    ``groups``: a pattern with ``*`` and ``?`` for whole group ids. ``text``, ``link`` and ``revision`` (of the source
    code) are for people.
    """

    group_id: Id = CLUSTER
    groups: Id = "*"
    text: str = ""
    link: str | None = None
    revision: str | None = None


#: ``ce_type`` → the struct of its value.
EVENT_TYPES: dict[str, type[EventData]] = {
    "member.joined": MemberJoined,
    "member.heartbeat": MemberHeartbeat,
    "member.left": MemberLeft,
    "member.fenced": MemberFenced,
    "member.subscription_changed": SubscriptionChanged,
    "member.assignment_acknowledged": AssignmentAcknowledged,
    "topic.partitions_changed": PartitionsChanged,
    "group.observed": GroupObserved,
    "group.deleted": GroupDeleted,
    "group.quiet": GroupQuiet,
    "partitions.stopped": PartitionsStopped,
    "group.rebalancing": GroupRebalancing,
    "group.progress": GroupProgress,
    "incident.acknowledged": IncidentAcknowledged,
    "cluster.observed": ClusterObserved,
    "annotation": Annotation,
}
#: Event types that only earlier versions wrote: readers count records of these types and skip them.
RETIRED_TYPES = frozenset({"group.changed", "group.asked"})
#: The struct of a value → its ``ce_type``.
TYPE_NAMES: dict[type[EventData], str] = {struct: name for name, struct in EVENT_TYPES.items()}


class Event(Struct, frozen=True, gc=False):
    """One membership event: its CloudEvents ``source`` and ``id``, which together identify it, and its data."""

    source: str
    id: str
    data: EventData

    @property
    def type(self) -> str:
        """The ``ce_type`` of this event."""
        return TYPE_NAMES[type(self.data)]
