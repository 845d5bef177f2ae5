"""The command ``replay`` prints diffs, or compares the diffs with the topic and returns an exit status."""

import msgspec
import pytest

from streaming.kafka.topics import ensure_topics
from streaming.settings.config import Settings
from tests.support.histories import Log, diffs, play
from tests.support.memory_kafka import MemoryKafka
from tests.unit.streaming.cli.conftest import Command


@pytest.fixture
def log(kafka: MemoryKafka) -> MemoryKafka:
    ensure_topics(Settings())
    log = Log("g")
    kafka.publish(log.topics(t=2), log.join("c1"), log.join("c2"))
    return kafka


def test_replay_prints_diffs_as_json_and_text(command: Command, log: MemoryKafka) -> None:
    group_log = Log("g")
    expected = diffs(play([group_log.topics(t=2), group_log.join("c1"), group_log.join("c2")])[1])
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


def test_check_exits_with_1_on_differences(command: Command, log: MemoryKafka) -> None:
    status, out, errors = command("replay", "--check")
    assert (status, len(out.splitlines()), errors) == (1, 2, "2 differences\n")
    assert command("replay", "--check", "--group", "other") == (0, "", "no differences\n")
