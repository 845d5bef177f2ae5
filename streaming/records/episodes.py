"""Episodes and incidents: the records of their topics, as types.

Both topics are compacted, and a record's key is the group id, a slash and the number: ``checkout/17``. A group id
may have slashes of its own, so the number is behind the last one (:func:`key`, :func:`of_key`). Records
are partitioned by the group id alone: all of a group are in one partition, in order.

Every field is a function of the membership log.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from assignors.errors import BadInput
from streaming.records.codec import UNREADABLE, decode
from streaming.records.diffs import MemberNames
from streaming.records.events import Count, Evidence, Holding, Id, Task, Timestamp, Wire

_T = TypeVar("_T")

#: ``ce_type`` of an episode.
EPISODE_TYPE: Final = "rebalance.episode"
#: ``ce_type`` of an incident.
INCIDENT_TYPE: Final = "rebalance.incident"
#: In the topic of incidents.
ANNOTATION_TYPE: Final = "rebalance.annotation"

#: What an episode was; docs/explanation/episodes.md says which evidence each needs.
EpisodeKind = Literal[
    "first-start",
    "scale-out",
    "scale-in",
    "rolling-restart",
    "restart",
    "crash",
    "poll-timeout",
    "static-bounce",
    "subscription-change",
    "partition-growth",
    "assignor-change",
    "protocol-migration",
    "coordinator-move",
    "connector-change",
    "storm",
    "shutdown",
    "app-requested",
    "duplicate-instance-id",
    "fleet-replaced",
    "surge",
    "recreate",
    "zone-lost",
    "offsets-reset",
    "topic-added",
    "topic-deleted",
    "unknown",
]
#: Whether it is over, and how it goes while it is not.
EpisodeStatus = Literal["rebalancing", "stuck", "storming", "settling", "catching-up", "settled"]
#: What is wrong.
IncidentKind = Literal[
    "storm",
    "stuck",
    "partition-without-owner",
    "topic-gone",
    "idle-members",
    "skew",
    "unexpected-assignment",
    "half-migration",
    "poll-timeout",
    "duplicate-instance-id",
    "rebalance-stuck",
    "data-loss",
    "broker-restart",
    "coordinator-moved",
    "topic-deleted",
    "partitions-added",
    "mass-restart",
]


#: Sums over many partitions outgrow Kafka's INT32 within days.
Milliseconds = Annotated[int, Meta(ge=0)]
#: At least and at most; null: unknown.
Bounds = tuple[Milliseconds, Milliseconds | None]


class MalformedEpisode(BadInput):
    """The record is no episode or incident."""


class Replaced(Wire, frozen=True):
    """A departed member and its replacement, by member id; ``by``: what they were matched by."""

    left: str
    joined: str
    by: str


class EpisodeMembers(Wire, frozen=True):
    """Members that joined and departed, by member id.

    ``left``: they left; ``lost``: their session ended; ``gone``: they departed, and nothing says how. Members that
    came back are in ``replaced`` alone. Members that joined and departed within the episode are in ``joined`` and
    one of these three. ``before`` and ``after``: number of members. ``names``: names of these members, and of those
    that are waited for. ``omitted``: how many are not listed, as there were too many.
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
    """Time of one partition without a consumer, ms, as bounds.

    ``lowerMs`` and ``upperMs``: all its stops together; ``upperMs`` null: unknown. ``longestMs``: its longest stop.
    ``stops``: how many.
    """

    topic: str
    partition: Task
    lower_ms: Milliseconds
    upper_ms: Milliseconds | None
    longest_ms: Bounds = (0, None)
    stops: Bounds = (0, None)

    @property
    def total_ms(self) -> Bounds:
        """All its stops together."""
        return self.lower_ms, self.upper_ms


class Downtime(Wire, frozen=True):
    """Time of partitions without a consumer in the episode, ms; bounds are ``[at least, at most]``, null: unknown.

    ``longestMs``: the longest single stop of a partition. ``totalMs``: all stops of all partitions together;
    ``lowerMs`` and ``upperMs`` are its two bounds. ``stops``: how many stops, of all partitions. ``worst``: the
    partition that was down the longest in all. ``evidence``: sources of the bounds. ``partitions``: how many were
    down; ``unbounded``: those without an upper bound. ``boundedMs``: the upper bounds of all others together.
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

    ``since``: when it began; ``reason`` is for people. ``memberId``: for whom, null where it is for nobody in
    particular; ``partitions``: which are to be given up or given out; ``until``: when it ends by itself, null where
    nothing ends it. ``usualMs``: how long this group usually waits at most, the 90th percentile of its last
    ``usualOf`` waits; null where there are fewer than ten, and of what ends by itself. ``omitted``: how many
    partitions are not listed, as there are too many; left out where all are.
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
    """The member that triggers a storm: how many rebalances, and the usual time between two, ms."""

    member_id: str
    times: Count
    period_ms: Count | None = None


class Rebalancing(Wire, frozen=True):
    """A rebalance in progress.

    ``joined`` and ``awaited``: ids of the members that have rejoined, and of those that have not. ``state``: the
    group's state by Kafka. ``until``: when each awaited member is removed, unless it rejoins. ``commitsStopped``:
    the group has committed nothing since; null: unknown.
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
    until the lag was back to what it was before; ``caughtUpAt``: when, null while it is not.
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
    last one, null while it is open. ``rounds``: ids of its diffs, the newest of ``roundCount``; ``rebalances``: how
    many rebalances those rounds are. ``moved``: partitions that another member got than the last that owned them in
    the episode; ``movedAgain``: those of them that moved more than once. ``downtime``: null where nothing says how
    long. ``waitingFor`` is empty where nothing is waited for. ``repeated``: who is behind a storm, else null.
    ``sure``: whether the evidence proves the kind. ``story``: one to three sentences for people. ``rebalancing``:
    the rebalance in progress. ``cause``: the id of the cluster incident that explains the episode.
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
    """An episode, its bytes as they are in the topic, and when they were written, ms; 0: not known."""

    episode: Episode
    value: bytes
    written: int = 0


class Acknowledged(Wire, frozen=True):
    """Acknowledgement of an incident, by whom and when; ``until`` null: until the incident closes."""

    at: Timestamp
    by: str | None = None
    until: Timestamp | None = None
    text: str | None = None
    muted: bool = False


class Incident(Wire, frozen=True):
    """A condition of a group that somebody should look at: one, however often it comes and goes.

    ``incident`` counts a group's incidents from 1. ``closedAt`` is null while it lasts. ``times``: how often the
    condition has come. ``episode``: the one in which it was first seen, null where it was seen in none. ``story``
    is for people. ``scope``: ``cluster`` for one of many groups, which ``groups`` lists.
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


class StoredAnnotation(Wire, frozen=True):
    """An annotation as in the topic of incidents, with its ``ce_id``; see ``Annotation`` of the membership events."""

    id: str
    timestamp: Timestamp
    groups: str
    text: str
    link: str | None = None
    revision: str | None = None


class IncidentRecord(NamedTuple):
    """An incident, and its bytes in the topic."""

    incident: Incident
    value: bytes


_episodes = msgspec.json.Decoder(Episode)
_incidents = msgspec.json.Decoder(Incident)


def key(group_id: str, number: int) -> bytes:
    """The key of a group's episode or incident of this number."""
    return f"{group_id}/{number}".encode()


def of_key(key: bytes) -> tuple[str, int]:
    """Return the group id and the number of a key; raises MalformedEpisode if it has none."""
    try:
        group_id, slash, number = key.decode().rpartition("/")
    except UnicodeDecodeError as error:
        raise MalformedEpisode(f"key: {key!r} is not UTF-8") from error
    if not slash or not number.isascii() or not number.isdigit() or len(number) > len("2147483647"):
        raise MalformedEpisode(f"key: {key!r} is no group id, slash and number")
    return group_id, int(number)


def decode_episode(value: bytes) -> Episode:
    """Return the episode of a record's value; raises MalformedEpisode if it is none."""
    return _decoded(_episodes, value, EPISODE_TYPE)


def decode_incident(value: bytes) -> Incident:
    """Return the incident of a record's value; raises MalformedEpisode if it is none."""
    return _decoded(_incidents, value, INCIDENT_TYPE)


def _decoded(decoder: msgspec.json.Decoder[_T], value: bytes, ce_type: str) -> _T:
    try:
        return decode(decoder, value)
    except UNREADABLE as error:
        raise MalformedEpisode(f"value of {ce_type}: {error}") from error
