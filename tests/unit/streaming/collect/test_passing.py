"""Where passing over commits ends, and what they say."""

from __future__ import annotations

from struct import pack
from typing import Any

import pytest
from confluent_kafka import KafkaError

from streaming.collect.passing import pass_over
from tests.support import offsets_topic as log
from tests.support.memory_kafka.log import Message

KEY = log.commit_key("g", "t", 0)
ENDS = KafkaError(KafkaError._PARTITION_EOF)


def value(metadata: str | None = "", version: int = 3) -> bytes:
    return pack(">hqi", version, 7, 5) + log.string(metadata) + pack(">q", 1000)


VALUE = value()


def message(offset: int, key: Any = KEY, said: Any = VALUE, *, partition: int = 4, **more: Any) -> Message:
    return Message("t", partition, offset, key=key, value=said, **more)


@pytest.mark.parametrize(
    "other",
    [
        message(14, error=ENDS),
        message(14, partition=5),
        message(12),  # a second time: records were lost
        message(14, log.commit_key("ü", "t", 0)),
        message(14, log.commit_key("g", "ü", 0)),
        message(14, log.group_key("g")),
        message(14, KEY + b"\0"),
        message(14, KEY[:-5]),
        message(14, KEY[:9]),
        message(14, b"\0\0\0\1g\0\1"),
        message(14, b""),
        message(14, None),
        message(14, "text"),
        message(14, said=value("ü")),
        message(14, said=value(version=4)),
        message(14, said=VALUE + b"\0"),
        message(14, said=VALUE[:-1]),
        message(14, said=b"\0\3"),
        message(14, said=b""),
    ],
)
def test_another_ends_it(other: Message) -> None:
    messages = [message(1, error=ENDS), message(10), message(12), other, message(15)]
    assert pass_over(messages, 1, 4, 10, {}) == (3, 13, [])
    assert pass_over(messages, 3, 4, 13, {}) == (3, 13, [])


def test_commits_and_their_tombstones_are_passed_over() -> None:
    messages = [
        message(10),
        message(11, log.commit_key("follower", "", -1)),
        message(12, said=value("m" * 300)),
        message(13, said=value(None)),
        message(14, b"\0\0" + KEY[2:]),
        message(15, said=None),
    ]
    assert pass_over(messages, 0, 4, 10, {b"followed": None}) == (6, 16, [])
    assert pass_over(messages, 6, 4, 16, {}) == (6, 16, [])


def test_those_of_followed_groups_are_read() -> None:
    messages = [
        message(10),
        message(11, log.commit_key("other", "t", 0)),
        message(12, log.commit_key("g", "u", -1), value("m")),
        message(13, log.commit_key("h", "u", 2**31 - 1), value(None)),
        message(14, said=None),
        message(15, error=ENDS),
        message(16),
    ]
    commits = [
        (0, b"g", "t", 0, 1000, 7),
        (2, b"g", "u", -1, 1000, 7),
        (3, b"h", "u", 2**31 - 1, 1000, 7),
        (4, b"g", "t", 0, None, None),
    ]
    assert pass_over(messages, 0, 4, 10, {b"g": None, b"h": None}) == (5, 15, commits)
