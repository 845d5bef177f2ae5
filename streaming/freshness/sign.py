"""A part's sign of life, as it stands in the compacted topic: one record a part."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from assignors.errors import BadInput
from streaming.wire import codec
from streaming.wire.events import Id, Partition, Timestamp

#: ``ce_type`` and ``ce_source`` of a sign.
SIGN_TYPE: Final = "rebalance.sign"
_SOURCE: Final = "rebalance-monitor"

PartName = Literal["collector", "stream"]

#: The id of the stream: there is one a topic.
STREAM_ID: Final = "rebalance-monitor"
#: How far a part's clock may be from the broker's, ms. More is no clock that is wrong, but a record that is.
_MOST_APART_MS: Final = 86_400_000


class MalformedSign(BadInput):
    """A record of the topic is no sign of life."""


class Sign(Struct, frozen=True, kw_only=True, rename="camel"):
    """A sign of life of a long-running part: the value of the compacted topic, a record a part.

    A part that ends in order says so (``stopped``). Everything that happened before ``upTo`` has gone through the
    part; both times are the part's own clock. It leaves a sign every ``everyMs``. ``positions``: the next offset
    of each partition that it reads (``__consumer_offsets``, or the membership topic). ``by``: how a collector
    sees groups.
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
        """What it is kept under: a part's newest sign takes the place of the one before."""
        return f"{self.part}/{self.id}"


_decoder = msgspec.json.Decoder(Sign)


def encoded(sign: Sign) -> tuple[bytes, bytes, codec.Headers]:
    """Key, value and headers of its record."""
    ce_id = f"{sign.key}/{sign.timestamp}"
    return (
        sign.key.encode(),
        codec.encode(sign),
        codec.headers(SIGN_TYPE, f"{_SOURCE}/{sign.part}", ce_id, sign.timestamp),
    )


def check_credible(sign: Sign, written_ms: int, now_ms: int) -> None:
    """Refuse a sign that no part leaves: anybody who may write the topic can.

    Args:
        sign: the sign.
        written_ms: when its record was written.
        now_ms: the reader's time.

    Raises:
        MalformedSign: it is of a second stream, or one of its times is a day from when it was written, or that is
            in the future.
    """
    if sign.part == "stream" and sign.id != STREAM_ID:
        raise MalformedSign(f"no sign of life: stream {sign.id!r} is not {STREAM_ID!r}, the only one")
    if written_ms > now_ms + _MOST_APART_MS:
        raise MalformedSign(f"no sign of life: written at {written_ms}, which is in the future")
    if abs(sign.timestamp - written_ms) > _MOST_APART_MS:
        raise MalformedSign(
            f"no sign of life: timestamp {sign.timestamp} is not when it was written, {written_ms}"
        )
    if sign.up_to > written_ms + _MOST_APART_MS:
        raise MalformedSign(f"no sign of life: upTo {sign.up_to} is after it was written, at {written_ms}")


def decoded(key: bytes | None, value: bytes) -> Sign:
    """The sign of a record.

    Raises:
        MalformedSign: there is none, or it stands under another key.
    """
    try:
        sign = codec.decode(_decoder, value)
    except codec.UNREADABLE as problem:
        raise MalformedSign(f"no sign of life: {problem}") from problem
    if key != sign.key.encode():
        raise MalformedSign(f"no sign of life: key {key!r} is not {sign.key!r}")
    return sign
