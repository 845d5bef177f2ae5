"""``replay`` prints diffs or compares them, with an exit status."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from streaming.kafka.topics import ensure_topics
from streaming.records import codec
from streaming.settings.config import Settings
from tests.support.histories import Log, diffs, play
from tests.support.memory_kafka import MemoryKafka

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def log(kafka: MemoryKafka) -> MemoryKafka:
    ensure_topics(Settings())
    one = Log("g")
    for event in (one.topics(t=2), one.join("c1"), one.join("c2")):
        key, value, headers = codec.encode_event(event)
        kafka.append("rebalance.membership", value, key=key, headers=headers)
    return kafka


def test_the_diffs_are_shown_for_programs_and_people(command: Command, log: MemoryKafka) -> None:
    one = Log("g")
    expected = diffs(play([one.topics(t=2), one.join("c1"), one.join("c2")])[1])
    status, out, errors = command("replay", "--json")
    assert (status, errors) == (0, "")
    assert [msgspec.json.decode(line) for line in out.splitlines()] == [
        msgspec.json.decode(msgspec.json.encode(diff)) for diff in expected
    ]
    _, out, _ = command("replay", "--group", "g")
    assert [line.split(" ", 1)[1][:14] for line in out.splitlines() if "joined" in line] == [
        "g generation 1",
        "g generation 2",
    ]
    assert command("replay", "--group", "other") == (0, "", "")


def test_a_comparison_has_a_status(command: Command, log: MemoryKafka) -> None:
    status, out, errors = command("replay", "--check")
    assert (status, len(out.splitlines()), errors) == (1, 2, "2 differences\n")
    assert command("replay", "--check", "--group", "other") == (0, "", "no differences\n")
