"""Where partitions begin and end, asked without a consumer."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from streaming.kafka.clients import ClusterUnavailable, answer_of, confluent_config

if TYPE_CHECKING:
    from streaming.settings.connection import KafkaSettings

_ANSWER_SECONDS: Final = 10.0
#: A topic that was just made, or whose leader moves, has no leader for moments.
_PATIENCE_SECONDS: Final = 10.0
_AGAIN_SECONDS: Final = 0.1
#: What brokers answer in these moments. (``KafkaError.retriable`` knows transactions only.)
_PASSING: Final = frozenset(
    {
        "FENCED_LEADER_EPOCH",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "OFFSET_NOT_AVAILABLE",
        "UNKNOWN_LEADER_EPOCH",
        "UNKNOWN_TOPIC_OR_PART",
    }
)

#: The answer for a time after the newest record.
_NONE_SINCE: Final = -1

#: A topic and a partition of it.
Place = tuple[str, int]


def bounds(
    settings: KafkaSettings, places: Iterable[Place], *, patience: float = _PATIENCE_SECONDS
) -> dict[Place, tuple[int, int]]:
    """``{(topic, partition): (earliest offset, next offset)}``; what open transactions wrote is beyond the end.

    ``patience``: seconds for partitions without a leader to get one.

    Raises:
        ClusterUnavailable: nobody tells.
    """
    from confluent_kafka.admin import OffsetSpec

    places = list(places)
    lows = _patiently(settings, places, OffsetSpec.earliest(), patience)
    highs = _patiently(settings, places, OffsetSpec.latest(), patience)
    return {place: (lows[place], highs[place]) for place in places}


def since(settings: KafkaSettings, places: Iterable[Place], timestamp_ms: int) -> dict[Place, int]:
    """The first offset of each partition whose record is not older; partitions without one are left out.

    Raises:
        ClusterUnavailable: nobody tells.
    """
    from confluent_kafka.admin import OffsetSpec

    spec = OffsetSpec.for_timestamp(max(timestamp_ms, 0))
    found = _patiently(settings, list(places), spec, least=_NONE_SINCE)
    return {place: offset for place, offset in found.items() if offset >= 0}


def _patiently(
    settings: KafkaSettings,
    places: list[Place],
    spec: Any,
    patience: float = _PATIENCE_SECONDS,
    *,
    least: int = 0,
) -> dict[Place, int]:
    """What brokers answer once every partition has a leader; an offset below ``least`` is no answer."""
    from confluent_kafka import KafkaException

    by = time.monotonic() + patience
    while True:
        try:
            return _offsets(settings, places, spec, least)
        except KafkaException as error:
            if time.monotonic() >= by or error.args[0].name() not in _PASSING:
                names = ", ".join(sorted({topic for topic, _ in places}))
                raise ClusterUnavailable(
                    f"topic {names}: nobody tells where its partitions end: {error.args[0].str()}"
                ) from error
            time.sleep(_AGAIN_SECONDS)


def _offsets(settings: KafkaSettings, places: list[Place], spec: Any, least: int) -> dict[Place, int]:
    from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicPartition
    from confluent_kafka.admin import AdminClient

    if not places:
        return {}
    admin = AdminClient(confluent_config(settings))  # held: answers come only while it lives
    # The first question of a client that has not met a broker yet waits for three seconds one time in five
    # (12 of 60, librdkafka 2.16); behind metadata it never did (0 of 120).
    admin.list_topics(places[0][0], timeout=_ANSWER_SECONDS)
    asked = {TopicPartition(*place): spec for place in places}
    found = admin.list_offsets(
        asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=_ANSWER_SECONDS
    )
    offsets = {(place.topic, place.partition): answer_of(result).offset for place, result in found.items()}
    if min(offsets.values(), default=least) < least:
        # Without an error, a leader that is about to move answers OFFSET_INVALID (-1001).
        raise KafkaException(KafkaError(KafkaError.OFFSET_NOT_AVAILABLE, "no offset is available now"))
    return offsets
