"""Freshness of the data: heartbeats of the long-running components, and which of them are late.

Pure, as :mod:`streaming.monitor` is.

Clocks of two hosts are not compared. The reader's own clock measures how long a component has been silent, the
component's clock how far it is behind. The age of a heartbeat that is older than the reader comes from its record.
It counts once the reader has listened for as long as a component may be silent.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final, Literal, NamedTuple, get_args

import msgspec
from msgspec import Meta, Struct, field

from assignors.errors import BadInput
from streaming.records import codec
from streaming.records.events import Id, Partition, Timestamp

#: ``ce_type`` and ``ce_source`` of a component heartbeat.
SIGN_TYPE: Final = "rebalance.sign"
_SOURCE: Final = "rebalance-monitor"

PartName = Literal["collector", "stream"]

#: The id of the stream: there is one a topic.
STREAM_ID: Final = "rebalance-monitor"
#: Largest difference between a component's clock and the broker's, ms; a record with more is malformed.
_MOST_APART_MS: Final = 86_400_000


class MalformedSign(BadInput):
    """A record of the topic is not a component heartbeat."""


class Sign(Struct, frozen=True, kw_only=True, rename="camel"):
    """Heartbeat of a long-running component: the value of the compacted topic, a record a component.

    ``stopped``: the component ended in order. It has processed everything before ``upTo``; both times are by its
    own clock. It publishes a heartbeat every ``everyMs``. ``positions``: the next offset of each partition that it
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
        """Return its record's key: the newest heartbeat of a component replaces the one before."""
        return f"{self.part}/{self.id}"


_decoder = msgspec.json.Decoder(Sign)


def encoded(sign: Sign) -> tuple[bytes, bytes, codec.Headers]:
    """Return the key, value and headers of a heartbeat's record."""
    ce_id = f"{sign.key}/{sign.timestamp}"
    return (
        sign.key.encode(),
        codec.encode(sign),
        codec.headers(SIGN_TYPE, f"{_SOURCE}/{sign.part}", ce_id, sign.timestamp),
    )


def check_credible(sign: Sign, written_ms: int, now_ms: int) -> None:
    """Refuse a heartbeat that no component writes; anybody who may write the topic can.

    Args:
        sign: the heartbeat.
        written_ms: when its record was written.
        now_ms: the reader's time.

    Raises:
        MalformedSign: it is of a second stream, or one of its times is a day from when it was written, or that is
            in the future.
    """
    if sign.part == "stream" and sign.id != STREAM_ID:
        raise MalformedSign(f"no component heartbeat: stream {sign.id!r} is not {STREAM_ID!r}, the only one")
    if written_ms > now_ms + _MOST_APART_MS:
        raise MalformedSign(f"no component heartbeat: written at {written_ms}, which is in the future")
    if abs(sign.timestamp - written_ms) > _MOST_APART_MS:
        raise MalformedSign(
            f"no component heartbeat: timestamp {sign.timestamp} is not when it was written, {written_ms}"
        )
    if sign.up_to > written_ms + _MOST_APART_MS:
        raise MalformedSign(f"no component heartbeat: upTo {sign.up_to} is after it was written, at {written_ms}")


def decoded(key: bytes | None, value: bytes) -> Sign:
    """Return the component heartbeat of a record.

    Raises:
        MalformedSign: there is none, or its record has another key.
    """
    try:
        sign = codec.decode(_decoder, value)
    except codec.UNREADABLE as problem:
        raise MalformedSign(f"no component heartbeat: {problem}") from problem
    if key != sign.key.encode():
        raise MalformedSign(f"no component heartbeat: key {key!r} is not {sign.key!r}")
    return sign


State = Literal["alive", "behind", "silent", "stopped"]
#: Why what is shown may no longer be true, by the heartbeats of one component.
LateKind = Literal[
    "kafka-unreachable",
    "collector-silent",
    "collector-stopped",
    "collector-behind",
    "stream-silent",
    "stream-stopped",
    "stream-behind",
]
#: By component and state.
_KINDS: Final = {tuple(kind.rsplit("-", 1)): kind for kind in get_args(LateKind)}
#: Heartbeats that prove a component if another of its kind is alive: anybody may write one record.
CONFIRMED: Final = 3
#: Heartbeats that may be lost before a component is silent.
_LOST: Final = 3


class Limits(NamedTuple):
    """Seconds.

    Attributes:
        silent: without a heartbeat; longer for a component with a longer interval.
        behind: between an event and its processing.
        forget: until a component that is gone is forgotten, if another of its kind is alive.
    """

    silent: float = 20.0
    behind: float = 60.0
    forget: float = 86_400.0


class LastSign(NamedTuple):
    """A component's newest heartbeat, and when it was read.

    Attributes:
        at: seconds of the reader's clock that only goes forward.
        ms: the same moment, since the epoch.
        signs: how many of its heartbeats were read, up to ``CONFIRMED``.
        written: when the record was written, ms, and in which partition.
    """

    sign: Sign
    at: float
    ms: int
    signs: int = CONFIRMED
    written: int = 0
    partition: int = 0


class Part(Struct, frozen=True, rename="camel"):
    """A component as its heartbeats show it; times in ms."""

    part: PartName
    id: str
    by: Literal["offsets", "polling"] | None
    state: State
    last_heartbeat: int
    up_to: int


class Late(NamedTuple):
    """A late component: the data was true at ``since`` (ms); ``reason``: a clause before "since …"."""

    kind: LateKind
    reason: str
    since: int


class Freshness(NamedTuple):
    """Freshness of the data by component heartbeats.

    Attributes:
        known: False until the reader has listened for long enough.
        parts: the components by kind and id. Without one, nothing is claimed.
        late: the component that is furthest behind; None while all of them are alive.
    """

    known: bool = True
    parts: tuple[Part, ...] = ()
    late: Late | None = None


def judge(newest: Iterable[LastSign], now: float, contact: float, limits: Limits) -> Freshness:
    """Return the freshness of the data at ``now``.

    Args:
        newest: each component's newest heartbeat.
        now: seconds of the reader's clock.
        contact: since when the reader has read all heartbeats, by the same clock.
        limits: what is too long.
    """
    known = True
    found: list[tuple[Part, float]] = []
    doubtful: set[str] = set()
    for one in newest:
        state = _state(one, now, contact, limits)
        if state is None:
            known = False
            continue
        sign = one.sign
        if one.signs < CONFIRMED:
            doubtful.add(sign.key)
        found.append((Part(sign.part, sign.id, sign.by, state, one.ms, sign.up_to), now - one.at))
    alive = {part.part for part, _ in found if part.state in ("alive", "behind")}
    parts = sorted(
        (
            part
            for part, age in found
            if part.state in ("alive", "behind")
            or part.part not in alive
            or (age <= limits.forget and f"{part.part}/{part.id}" not in doubtful)
        ),
        key=lambda part: (part.part, part.id),
    )
    late = min((_late(part) for part in parts if part.state != "alive"), key=_since, default=None)
    return Freshness(known, tuple(parts), late)


def _state(one: LastSign, now: float, contact: float, limits: Limits) -> State | None:
    """Return a component's state; None until the reader has listened for long enough."""
    sign = one.sign
    if sign.state == "stopped":
        return "stopped"
    patience = max(limits.silent, _LOST * sign.every_ms / 1000)
    if now - one.at > patience:
        return "silent" if now - contact > patience else None
    return "behind" if sign.timestamp - sign.up_to > limits.behind * 1000 else "alive"


def _since(late: Late) -> int:
    return late.since


def _late(part: Part) -> Late:
    who = f"collector {part.id}" if part.part == "collector" else "the stream"
    if part.state == "silent":
        reason = f"No heartbeat from {who}"
    else:
        reason = f"{who[0].upper()}{who[1:]} has been {part.state}"
    since = part.up_to if part.state == "behind" else part.last_heartbeat
    return Late(_KINDS[part.part, part.state], reason, since)


def unreachable(freshness: Freshness, since: int) -> Freshness:
    """Return the freshness while the cluster does not answer."""
    return Freshness(False, freshness.parts, Late("kafka-unreachable", "No contact with Kafka", since))
