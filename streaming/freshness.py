"""Freshness of the data: heartbeats of the long-running components, and the components that are late.

The module is pure, as :mod:`streaming.monitor` is.

Clocks of different hosts are not compared. The reader's own clock measures how long a component has been silent, the
component's clock how far it is behind. A heartbeat from before the reader's start has the age of its record. Such a
heartbeat counts once the reader has been reading for as long as a component may be silent.
"""

from collections.abc import Iterable
from typing import Annotated, Final, Literal, NamedTuple, get_args

import msgspec
from msgspec import Meta, Struct, field

from assignors.errors import BadInput
from streaming.records import codec
from streaming.records.events import Id, Partition, Timestamp

#: ``ce_type`` and ``ce_source`` of a component heartbeat.
HEARTBEAT_TYPE: Final = "rebalance.sign"
_EVENT_SOURCE: Final = "rebalance-monitor"

PartName = Literal["collector", "stream"]

#: Component id of the stream: each topic has only one stream.
STREAM_ID: Final = "rebalance-monitor"
#: Largest difference between a component's clock and the broker's clock, ms; a record with more is malformed.
_MAX_CLOCK_DIFFERENCE_MS: Final = 86_400_000


class MalformedHeartbeat(BadInput):
    """The record is not a component heartbeat."""


class ComponentHeartbeat(Struct, frozen=True, kw_only=True, rename="camel"):
    """Heartbeat of a long-running component; the compacted topic has one record per component.

    ``stopped``: it was shut down in order. ``upTo``: it has processed everything before this time. Both times are by
    its own clock. It publishes a heartbeat every ``everyMs``. ``positions``: the next offset of each partition that it
    reads (``__consumer_offsets``, or the membership topic). ``by``: how a collector reads groups.
    """

    part: PartName
    id: Id
    state: Literal["running", "stopped"]
    timestamp: Timestamp
    up_to: Timestamp
    every_ms: Annotated[int, Meta(ge=0, le=60_000)]
    by: Literal["offsets", "polling"] | None = None
    positions: dict[Partition, Annotated[int, Meta(ge=0, le=2**63 - 1)]] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Record key of a heartbeat: in the compacted topic a component's new heartbeat replaces the previous one."""
        return f"{self.part}/{self.id}"


_decoder = msgspec.json.Decoder(ComponentHeartbeat)


def encode_heartbeat(heartbeat: ComponentHeartbeat) -> tuple[bytes, bytes, codec.Headers]:
    """Return the key, value and headers of a heartbeat's record."""
    ce_id = f"{heartbeat.key}/{heartbeat.timestamp}"
    return (
        heartbeat.key.encode(),
        codec.encode(heartbeat),
        codec.headers(HEARTBEAT_TYPE, f"{_EVENT_SOURCE}/{heartbeat.part}", ce_id, heartbeat.timestamp),
    )


def check_credible(heartbeat: ComponentHeartbeat, written_ms: int, now_ms: int) -> None:
    """Raise MalformedHeartbeat for a heartbeat that no component of the monitor can have written.

    Its stream id is not the monitor's, its time differs from its record's time ``written_ms`` by more than a day, or
    ``written_ms`` is more than a day in the future.
    """
    if heartbeat.part == "stream" and heartbeat.id != STREAM_ID:
        problem = f"stream {heartbeat.id!r} is not {STREAM_ID!r}, the only one"
    elif written_ms > now_ms + _MAX_CLOCK_DIFFERENCE_MS:
        problem = f"written at {written_ms}, which is in the future"
    elif abs(heartbeat.timestamp - written_ms) > _MAX_CLOCK_DIFFERENCE_MS:
        problem = f"timestamp {heartbeat.timestamp} is not when it was written, {written_ms}"
    elif heartbeat.up_to > written_ms + _MAX_CLOCK_DIFFERENCE_MS:
        problem = f"upTo {heartbeat.up_to} is after it was written, at {written_ms}"
    else:
        return
    raise MalformedHeartbeat(f"not a component heartbeat: {problem}")


def decode_heartbeat(key: bytes | None, value: bytes) -> ComponentHeartbeat:
    """Return the component heartbeat in a record; raise MalformedHeartbeat if its value or key is wrong."""
    try:
        heartbeat = codec.decode(_decoder, value)
    except codec.DECODE_ERRORS as problem:
        raise MalformedHeartbeat(f"not a component heartbeat: {problem}") from problem
    if key != heartbeat.key.encode():
        raise MalformedHeartbeat(f"not a component heartbeat: key {key!r} is not {heartbeat.key!r}")
    return heartbeat


State = Literal["alive", "behind", "silent", "stopped"]
#: Reasons why the data may be outdated, according to the heartbeats of one component.
LateKind = Literal[
    "kafka-unreachable",
    "collector-silent",
    "collector-stopped",
    "collector-behind",
    "stream-silent",
    "stream-stopped",
    "stream-behind",
]
#: Reason why the data may be outdated, by component and state.
_LATE_KINDS: Final = {tuple(kind.rsplit("-", 1)): kind for kind in get_args(LateKind)}
#: Heartbeats that confirm a second component of the same kind, as a single record may be forged.
CONFIRMING_HEARTBEATS: Final = 3
#: Heartbeats that may be lost before a component counts as silent.
_ALLOWED_LOST_HEARTBEATS: Final = 3
_ALIVE_STATES: Final = ("alive", "behind")


class Limits(NamedTuple):
    """Time limits of freshness, in seconds.

    A component is silent after ``silent`` without a heartbeat (later if its interval is long), and behind with more
    than ``behind`` between an event and its processing. After ``forget`` a silent component is forgotten if another
    component of its kind is alive.
    """

    silent: float = 20.0
    behind: float = 60.0
    forget: float = 86_400.0


class TrackedHeartbeat(NamedTuple):
    """Newest heartbeat of a component, and when it was read.

    ``at``: time of reading, in seconds of the reader's monotonic clock; ``ms``: the same time, ms since the epoch.
    ``confirmations``: number of heartbeats of the component that were read, up to ``CONFIRMING_HEARTBEATS``.
    ``written``: when the record was written to ``partition``, ms.
    """

    heartbeat: ComponentHeartbeat
    at: float
    ms: int
    confirmations: int = CONFIRMING_HEARTBEATS
    written: int = 0
    partition: int = 0


class ComponentState(Struct, frozen=True, rename="camel"):
    """State of a component, by its heartbeats; times in ms."""

    part: PartName
    id: str
    by: Literal["offsets", "polling"] | None
    state: State
    last_heartbeat: int
    up_to: int


class Lateness(NamedTuple):
    """A late component, and the start (ms) of outdated data; messages continue the clause ``reason`` with "since …"."""

    kind: LateKind
    reason: str
    since: int


class Freshness(NamedTuple):
    """Freshness of the data, by component heartbeats.

    ``is_known``: False until the reader has read heartbeats for long enough. ``parts``: the components, ordered by kind
    and id. ``late``: the component that is furthest behind; None while all are alive.
    """

    is_known: bool = True
    parts: tuple[ComponentState, ...] = ()
    late: Lateness | None = None


def compute_freshness(newest: Iterable[TrackedHeartbeat], now: float, last_contact: float, limits: Limits) -> Freshness:
    """Return the freshness of the data by the newest heartbeat of each component.

    ``now``: time of the reader's monotonic clock, seconds. ``last_contact``: the time at which it had last read all
    heartbeats.
    """
    states = [(tracked, _component_state(tracked, now, last_contact, limits)) for tracked in newest]
    is_known = all(state is not None for _, state in states)
    alive = {tracked.heartbeat.part for tracked, state in states if state in _ALIVE_STATES}
    parts: list[ComponentState] = []
    for tracked, state in states:
        heartbeat = tracked.heartbeat
        is_counted = now - tracked.at <= limits.forget and tracked.confirmations >= CONFIRMING_HEARTBEATS
        if state is not None and (state in _ALIVE_STATES or heartbeat.part not in alive or is_counted):
            parts.append(ComponentState(heartbeat.part, heartbeat.id, heartbeat.by, state, tracked.ms, heartbeat.up_to))
    parts.sort(key=lambda part: (part.part, part.id))
    late_parts = [_lateness(part) for part in parts if part.state != "alive"]
    return Freshness(is_known, tuple(parts), min(late_parts, key=lambda late: late.since, default=None))


def _component_state(tracked: TrackedHeartbeat, now: float, last_contact: float, limits: Limits) -> State | None:
    """Return a component's state; None until the reader has read heartbeats for long enough."""
    heartbeat = tracked.heartbeat
    if heartbeat.state == "stopped":
        return "stopped"
    max_silence_s = max(limits.silent, _ALLOWED_LOST_HEARTBEATS * heartbeat.every_ms / 1000)
    if now - tracked.at > max_silence_s:
        return "silent" if now - last_contact > max_silence_s else None
    return "behind" if heartbeat.timestamp - heartbeat.up_to > limits.behind * 1000 else "alive"


def _lateness(part: ComponentState) -> Lateness:
    who = f"collector {part.id}" if part.part == "collector" else "the stream"
    is_silent = part.state == "silent"
    reason = f"No heartbeat from {who}" if is_silent else f"{who[0].upper()}{who[1:]} has been {part.state}"
    since = part.up_to if part.state == "behind" else part.last_heartbeat
    return Lateness(_LATE_KINDS[part.part, part.state], reason, since)


def with_unreachable_kafka(freshness: Freshness, since: int) -> Freshness:
    """Return ``freshness`` with the data marked as outdated since ``since`` (ms), because no Kafka broker answers."""
    return Freshness(False, freshness.parts, Lateness("kafka-unreachable", "No contact with Kafka", since))
