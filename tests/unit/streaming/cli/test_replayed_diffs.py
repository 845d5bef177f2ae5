"""Diffs of a replay from the membership log, and the differences between these diffs and a topic's."""

from collections.abc import Iterable
from dataclasses import replace

import msgspec
import pytest
from msgspec import UNSET, structs

from streaming.cli.replay import differences, replayed_diffs
from streaming.kafka.diff_reader import DiffRecord
from streaming.kafka.topics import ensure_topics
from streaming.records import codec
from streaming.records.events import Event
from streaming.settings.config import Settings, StreamSettings
from streaming.settings.connection import KafkaSettings
from tests.support.histories import Log, diffs, play, static_member_handover
from tests.support.memory_kafka import MemoryKafka

SETTINGS = Settings(kafka=KafkaSettings(bootstrap_servers="memory:1"))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    """Return a cluster with the log of two groups, each in its own partition, and one unusable record."""
    kafka = MemoryKafka(monkeypatch)
    ensure_topics(SETTINGS)
    for partition, group in enumerate(("g", "h")):
        kafka.publish(*member_event(group), partition=partition)
    kafka.append(SETTINGS.topics.membership, b"{", key=b"g", partition=0)
    return kafka


def member_event(group: str) -> list[Event]:
    log = Log(group)
    return [log.topics(t=4), log.join("c1"), log.join("c2"), log.leave("c1"), log.delete()]


def write(kafka: MemoryKafka, records: Iterable[DiffRecord]) -> None:
    for record in records:
        headers = [("ce_id", record.id.encode()), ("ce_type", b"rebalance.diff")]
        kafka.append(SETTINGS.topics.diffs, record.value, key=record.diff.group_id.encode(), headers=headers)


def test_replay_equals_the_pure_functions(log: MemoryKafka) -> None:
    records = list(replayed_diffs(SETTINGS))
    expected = [diff for group in ("g", "h") for diff in diffs(play(member_event(group))[1])]
    assert [record.diff for record in records] == expected
    assert [(record.partition, record.offset) for record in records] == [
        (partition, offset) for partition in (0, 1) for offset in (1, 2, 3, 4)
    ]
    assert [msgspec.json.decode(record.value) for record in records] == [
        msgspec.json.decode(msgspec.json.encode(diff)) for diff in expected
    ]


def test_replay_of_one_group_can_stop_early(log: MemoryKafka) -> None:
    assert [record.diff.group_id for record in replayed_diffs(SETTINGS, "h")] == ["h"] * 4
    assert list(replayed_diffs(SETTINGS, "nobody")) == []
    assert list(replayed_diffs(SETTINGS, until=lambda: True)) == []


def test_too_long_event_gives_no_diff(log: MemoryKafka) -> None:
    log.topics[SETTINGS.topics.diffs].config["max.message.bytes"] = "600"
    assert list(replayed_diffs(SETTINGS)) == []


def test_diffs_written_twice_equal_the_replay(log: MemoryKafka) -> None:
    records = list(replayed_diffs(SETTINGS))
    write(log, [*records, *records[:2]])
    assert list(differences(SETTINGS)) == []
    assert list(differences(SETTINGS, "g")) == []


def test_missing_changed_and_surplus_diffs_are_named(log: MemoryKafka) -> None:
    missing, changed, *rest = replayed_diffs(SETTINGS)
    changed_diff = msgspec.structs.replace(changed.diff, moved=changed.diff.moved + 1)
    changed_record = DiffRecord(changed.id, changed_diff, msgspec.json.encode(changed_diff), 0, 0)
    extra_record = DiffRecord("extra", changed_diff, msgspec.json.encode(changed_diff), 0, 0)
    write(log, [changed_record, *rest, extra_record])
    log.append(SETTINGS.topics.diffs, b"no diff", key=b"g", headers=[("ce_id", b"x")])
    unreadable_line, *lines = differences(SETTINGS)
    assert unreadable_line.startswith("rebalance.diffs partition 0 offset 8: ")
    assert lines == [
        f"g, event at partition 0 offset 1: the diff {missing.id} is not in the topic",
        f"g, event at partition 0 offset 2: the diff {changed.id} has other content in the topic",
        "g: no event explains the diff extra in the topic",
    ]


def test_diffs_with_omitted_members_equal_the_replay(log: MemoryKafka) -> None:
    """Stored diffs with only changed members equal replayed diffs, whatever the setting ``diffs`` is now."""
    log.publish(*static_member_handover(Log("big")), partition=2)
    changed_members_settings = Settings(kafka=SETTINGS.kafka, stream=StreamSettings(diffs="changed"))
    records = list(replayed_diffs(changed_members_settings, "big"))
    assert [record.diff.unchanged for record in records] != [UNSET] * len(records)
    write(log, records)
    assert list(differences(SETTINGS, "big")) == list(differences(changed_members_settings, "big")) == []
    last = records[-1]
    wrong = structs.replace(last.diff, unchanged=(last.diff.unchanged or 0) + 1)
    del log.topics[SETTINGS.topics.diffs].logs[0].entries[-1]
    write(log, [replace(last, diff=wrong, value=codec.encode(wrong))])
    (line,) = differences(SETTINGS, "big")
    assert line.endswith(f"the diff {last.id} has other content in the topic")
