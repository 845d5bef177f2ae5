"""Consumer threads and the eras of the old consumer's assignors."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from assignors.errors import BadInput, InvalidGroup
from assignors.java import in_string_order
from assignors.model import Member, Topic

DEFAULT_KAFKA_VERSION = "0.11"
#: KAFKA-2434: before it, round robin wants the same threads for every topic.
_UNION_SINCE = (0, 10, 2)
#: From here on a partition's text, and so its hash code, is "topic-partition", not "[topic,partition]".
_DASH_SINCE = (1, 0)
_OLDEST, _AFTER_LAST = (0, 8, 2), (2, 0)


def version(kafka_version: str) -> tuple[int, ...]:
    """A Kafka version as numbers.

    Raises:
        BadInput: not a version that had the old consumer's assignors.
    """
    if not re.fullmatch(r"\d{1,4}(\.\d{1,4}){1,3}", kafka_version, re.ASCII):
        raise BadInput(f"kafkaVersion: {kafka_version!r} is not a version such as 0.8.2, 0.11 or 1.1")
    numbers = tuple(map(int, kafka_version.split(".")))
    if not _OLDEST <= numbers < _AFTER_LAST:
        raise BadInput(f"kafkaVersion: {kafka_version!r} is outside 0.8.2 to 1.1, which had these assignors")
    return numbers


def same_threads_required(kafka_version: str) -> bool:
    """Whether round robin refuses topics with different threads."""
    return version(kafka_version) < _UNION_SINCE


def dashed(kafka_version: str) -> bool:
    """Whether a partition is hashed as ``topic-partition``."""
    return version(kafka_version) >= _DASH_SINCE


def threads_by_topic(topics: Mapping[str, Topic], members: Sequence[Member]) -> dict[str, list[str]]:
    """Every subscribed topic's thread ids ("consumer-n"), sorted as strings: c-10 stands before c-2.

    Topics with the same threads share one list.

    Raises:
        InvalidGroup: a consumer listed twice or without ``streams``, a number of streams below 1, a negative
            number of partitions.
    """
    for name, topic in topics.items():
        if topic.partitions < 0:
            raise InvalidGroup(f"topics.{name}.partitions: {topic.partitions} is below 0")
    streams_by_topic: dict[str, list[tuple[int, int]]] = {}
    seen: set[str] = set()
    for position, member in enumerate(members):
        if member.member_id in seen:
            raise InvalidGroup(f"members[{position}].memberId: {member.member_id!r} is listed twice")
        seen.add(member.member_id)
        if member.streams is None:
            raise InvalidGroup(
                f"members[{position}].streams: missing; an old consumer subscribes with a number of threads for "
                "each topic"
            )
        for name, streams in member.streams.items():
            if not isinstance(streams, int) or isinstance(streams, bool) or streams < 1:
                raise InvalidGroup(
                    f"members[{position}].streams.{name}: {streams!r} is not a number of threads, 1 or more"
                )
            streams_by_topic.setdefault(name, []).append((position, streams))
    sorted_threads: dict[tuple[tuple[int, int], ...], list[str]] = {}
    answer: dict[str, list[str]] = {}
    for name, streams_of in streams_by_topic.items():
        key = tuple(streams_of)
        if key not in sorted_threads:
            sorted_threads[key] = in_string_order(
                f"{members[position].member_id}-{thread}"
                for position, streams in streams_of
                for thread in range(streams)
            )
        answer[name] = sorted_threads[key]
    return answer
