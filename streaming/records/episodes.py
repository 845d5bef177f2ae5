"""Episodes and incidents: the records of the episode and incident topics, as types.

Both topics are compacted, and a record's key is the group id, a slash and the number: ``checkout/17``. A group id
may contain slashes, so the number is after the last slash (:func:`key`, :func:`decode_key`). Records are partitioned by
the group id alone, so that all records of a group are in one partition, in order.

Every field is a function of the membership log.
"""

from typing import Annotated, Final, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from assignors.errors import BadInput
from streaming.records.codec import DECODE_ERRORS, decode
from streaming.records.diffs import MemberNames
from streaming.records.events import ClusterKind, Count, Evidence, GroupPauses, Holding, Id, Task, Timestamp, Wire

_T = TypeVar("_T")
#: ``ce_type`` of an episode.
EPISODE_TYPE: Final = "rebalance.episode"
#: ``ce_type`` of an incident.
INCIDENT_TYPE: Final = "rebalance.incident"
#: ``ce_type`` of an annotation, in the topic of incidents.
ANNOTATION_TYPE: Final = "rebalance.annotation"
_Scaling = Literal["first-start", "scale-out", "scale-in", "shutdown"]
_RestartKind = Literal["rolling-restart", "restart", "static-bounce", "fleet-replaced", "surge", "recreate"]
_FailureKind = Literal["crash", "poll-timeout", "zone-lost", "storm", "duplicate-instance-id", "coordinator-move"]
_TopicChange = Literal["subscription-change", "partition-growth", "topic-added", "topic-deleted", "offsets-reset"]
_ClientChange = Literal["assignor-change", "protocol-migration", "connector-change", "app-requested"]
#: Kinds of episodes; docs/explanation/episodes.md has the evidence that each kind needs.
EpisodeKind = Literal[_Scaling, _RestartKind, _FailureKind, _TopicChange, _ClientChange, "unknown"]
#: Statuses of an episode.
EpisodeStatus = Literal["rebalancing", "stuck", "storming", "settling", "catching-up", "settled"]
#: Kinds of incidents detected in a quiet group. They close when the group is quiet and the condition is over.
QuietIncidentKind = Literal["stuck", "partition-without-owner", "idle-members", "skew", "half-migration"]
#: Kinds of incidents that close with their episode.
EpisodeIncidentKind = Literal["storm", "poll-timeout", "duplicate-instance-id"]
_OtherIncidentKind = Literal["topic-gone", "unexpected-assignment", "rebalance-stuck", "data-loss"]
#: Kinds of incidents.
IncidentKind = Literal[QuietIncidentKind, EpisodeIncidentKind, _OtherIncidentKind, ClusterKind]
#: A duration, ms. Sums over many partitions exceed Kafka's INT32 within days.
Milliseconds = Annotated[int, Meta(ge=0)]
#: Lower and upper bound; null: unknown.
Bounds = tuple[Milliseconds, Milliseconds | None]


class MalformedEpisode(BadInput):
    """The record is not an episode or incident."""


class Replaced(Wire, frozen=True):
    """A departed member and its replacement, by member id; ``by``: the key that matched them."""

    left: str
    joined: str
    by: str


class EpisodeMembers(Wire, frozen=True):
    """Members that joined and departed, by member id.

    ``left``: left; ``lost``: session expired; ``gone``: departed for an unknown reason. Members that returned or were
    replaced are only in ``replaced``. Members that joined and departed within the episode are in ``joined`` and one of
    these three. ``before`` and ``after``: number of members. ``names``: names of these members and of awaited ones.
    ``omitted``: how many members are not listed, as there were too many.
    """

    joined: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    replaced: list[Replaced] = field(default_factory=list)
    before: Count = 0
    after: Count = 0
    names: dict[str, MemberNames] = field(default_factory=dict)
    omitted: Count = 0


class PartitionDowntime(Wire, frozen=True):
    """Downtime of one partition, ms, as bounds.

    ``lowerMs`` and ``upperMs``: total of its stops; ``upperMs`` null: unknown. ``longestMs``: its longest stop.
    ``stops``: number of its stops.
    """

    topic: str
    partition: Task
    lower_ms: Milliseconds
    upper_ms: Milliseconds | None
    longest_ms: Bounds = (0, None)
    stops: Bounds = (0, None)

    @property
    def total_ms(self) -> Bounds:
        """Bounds of the total downtime of one partition, ms."""
        return self.lower_ms, self.upper_ms


class Downtime(Wire, frozen=True):
    """Downtime of partitions in the episode, ms; bounds are ``[at least, at most]``, null: unknown.

    ``longestMs``: the longest single stop of a partition. ``totalMs``: total of all stops of all partitions;
    ``lowerMs`` and ``upperMs`` are its two bounds. ``stops``: number of stops of all partitions. ``worst``: the
    partition with the longest total. ``evidence``: sources of the bounds. ``partitions``: how many were down;
    ``unbounded``: how many of them have no upper bound. ``boundedMs``: sum of the upper bounds of all other partitions.
    """

    lower_ms: Milliseconds
    upper_ms: Milliseconds | None
    longest_ms: Bounds = (0, None)
    total_ms: Bounds = (0, None)
    stops: Bounds = (0, None)
    worst: PartitionDowntime | None = None
    evidence: list[str] = field(default_factory=list)
    partitions: Count = 0
    unbounded: Count = 0
    bounded_ms: Milliseconds = 0


class Waiting(Wire, frozen=True):
    """One member or condition that a rebalance waits for.

    ``since``: when the wait began; ``reason``: text for people. ``memberId``: the awaited member, or null;
    ``partitions``: those to be given up or assigned; ``until``: when the wait ends by itself, or null. ``usualMs``:
    how long this group usually waits at most, the 90th percentile of its last ``usualOf`` waits; null if there are
    fewer than ten, or if the wait ends by itself. ``omitted``: how many partitions are not listed, as there are too
    many; left out if all are listed.
    """

    since: Timestamp
    reason: str
    member_id: str | None = None
    partitions: Holding = field(default_factory=dict)
    until: Timestamp | None = None
    usual_ms: Count | None = None
    usual_of: Count = 0
    omitted: Count | UnsetType = UNSET


class Repeated(Wire, frozen=True):
    """The member that triggers a storm: number of its rebalances, and the usual time between two, ms."""

    member_id: str
    times: Count
    period_ms: Count | None = None


class Rebalancing(Wire, frozen=True):
    """A rebalance in progress.

    ``joined`` and ``awaited``: ids of the members that have rejoined, and of those that have not. ``state``: the
    group's state in Kafka. ``until``: when each awaited member is removed, unless it rejoins. ``commitsStopped``:
    the group has not committed offsets since; null: unknown.
    """

    since: Timestamp
    reason: str | None = None
    joined: list[str] = field(default_factory=list)
    awaited: list[str] = field(default_factory=list)
    state: str | None = None
    until: dict[str, Timestamp] = field(default_factory=dict)
    commits_stopped: bool | None = None


class Cost(Wire, frozen=True):
    """Cost of an episode in messages; bounds are ``[at least, at most]``, null: unknown.

    ``delayedMessages``: messages produced or pending while their partition had no consumer. ``worstDelayMs``: the
    age of the oldest of them when it was consumed. ``peakLag``: the largest lag of the group. ``catchUpMs``: time
    until the lag was as low as before; ``caughtUpAt``: when that was, null before.
    """

    delayed_messages: Bounds = (0, None)
    worst_delay_ms: Bounds = (0, None)
    peak_lag: Bounds = (0, None)
    catch_up_ms: Bounds = (0, None)
    caught_up_at: Timestamp | None = None
    evidence: list[str] = field(default_factory=list)


class Episode(Wire, frozen=True):
    """Consecutive rounds of a group that belong together, as one story.

    ``episode`` counts a group's episodes from 1. ``openedAt`` is the first round's time, ``closedAt`` that of the
    last one, null while the episode is open. ``rounds``: ids of its newest diffs; ``roundCount``: number of all of
    them; ``rebalances``: number of rebalances. ``moved``: number of partitions assigned to another member than their
    last owner; ``movedAgain``: how many of them moved more than once. ``downtime``: null if unknown. ``waitingFor``:
    empty if the group waits for nothing. ``repeated``: the member that triggers a storm, else null. ``sure``: whether
    the evidence proves the kind. ``story``: one to three sentences for people. ``rebalancing``: the rebalance in
    progress. ``cause``: the id of the cluster incident that explains the episode.
    """

    group_id: Id
    episode: Count
    kind: EpisodeKind
    status: EpisodeStatus
    opened_at: Timestamp
    closed_at: Timestamp | None
    rounds: list[str]
    members: EpisodeMembers
    moved: Count
    moved_again: Count
    downtime: Downtime | None
    waiting_for: list[Waiting]
    sure: bool
    evidence: list[Evidence]
    story: str
    round_count: Count = 0
    rebalances: Count = 0
    updated_at: Timestamp = 0
    protocol: str = "classic"
    assignor: str | None = None
    repeated: Repeated | None = None
    rebalancing: Rebalancing | None = None
    cost: Cost | None = None
    cause: str | None = None


class EpisodeRecord(NamedTuple):
    """An episode, the bytes of its record in the topic, and when the record was written, ms (0: unknown)."""

    episode: Episode
    value: bytes
    written: int = 0


class Acknowledged(Wire, frozen=True):
    """Acknowledgement of an incident by a person; ``until`` null: until the incident closes."""

    at: Timestamp
    by: str | None = None
    until: Timestamp | None = None
    text: str | None = None
    muted: bool = False


class Incident(Wire, frozen=True):
    """A condition of a group that needs attention; one incident even if the condition recurs.

    ``incident`` counts a group's incidents from 1. ``closedAt``: null while it is open. ``times``: how often the
    condition occurred. ``episode``: the episode in which it was first detected, or null. ``story``: text for people.
    ``scope``: ``cluster`` for an incident of several groups, which ``groups`` lists, with their ``pauses`` once known.
    """

    group_id: Id
    incident: Count
    kind: IncidentKind
    status: Literal["open", "closed"]
    opened_at: Timestamp
    updated_at: Timestamp
    closed_at: Timestamp | None
    times: Count
    member_ids: list[str]
    partitions: Holding
    episode: Count | None
    sure: bool
    evidence: list[Evidence]
    story: str
    names: dict[str, MemberNames] = field(default_factory=dict)
    scope: Literal["group", "cluster"] = "group"
    groups: list[str] = field(default_factory=list)
    acknowledged: Acknowledged | None = None
    pauses: GroupPauses | UnsetType = UNSET


class StoredAnnotation(Wire, frozen=True):
    """An annotation as stored in the topic of incidents, with its ``ce_id``; see the event ``Annotation``."""

    id: str
    timestamp: Timestamp
    groups: str
    text: str
    link: str | None = None
    revision: str | None = None


class IncidentRecord(NamedTuple):
    """An incident, and the bytes of its record in the topic."""

    incident: Incident
    value: bytes


_episodes = msgspec.json.Decoder(Episode)
_incidents = msgspec.json.Decoder(Incident)


def key(group_id: str, number: int) -> bytes:
    """Return the record key of a group's episode or incident with this number."""
    return f"{group_id}/{number}".encode()


def decode_key(key: bytes) -> tuple[str, int]:
    """Return the group id and the number in a record key; raises MalformedEpisode if the key does not have both."""
    try:
        group_id, slash, number = key.decode().rpartition("/")
    except UnicodeDecodeError as error:
        raise MalformedEpisode(f"key: {key!r} is not UTF-8") from error
    if not slash or not number.isascii() or not number.isdigit() or len(number) > len("2147483647"):
        raise MalformedEpisode(f"key: {key!r} is not a group id, a slash and a number")
    return group_id, int(number)


def decode_episode(value: bytes) -> Episode:
    """Return the episode in a record's value; raises MalformedEpisode if the value is not an episode."""
    return _decode_record(_episodes, value, EPISODE_TYPE)


def decode_incident(value: bytes) -> Incident:
    """Return the incident in a record's value; raises MalformedEpisode if the value is not an incident."""
    return _decode_record(_incidents, value, INCIDENT_TYPE)


def _decode_record(decoder: msgspec.json.Decoder[_T], value: bytes, ce_type: str) -> _T:
    try:
        return decode(decoder, value)
    except DECODE_ERRORS as error:
        raise MalformedEpisode(f"value of {ce_type}: {error}") from error
