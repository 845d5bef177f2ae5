"""Large groups are told by what changed; whoever lacks the view before asks, and gets a full one."""

from __future__ import annotations

from typing import Any

import pytest

from streaming.collect import changes
from streaming.collect.fold import OFFSETS_TOPIC, Row
from streaming.wire import codec
from streaming.wire.events import Event, GroupAsked, GroupChanged, GroupObserved
from tests.support.epoch_log import EpochLog, topic_id
from tests.support.memory_kafka import MemoryKafka
from tests.support.wait import eventually
from tests.unit.streaming.collect.test_collector import TOPIC, Collecting, settings


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> MemoryKafka:
    made = MemoryKafka(monkeypatch)
    made.cluster_id = "c"
    made.create("x", 40).id = topic_id("x") + "=="
    made.create(OFFSETS_TOPIC, 1)
    return made


def write(kafka: MemoryKafka, rows: list[Row]) -> None:
    for row in rows:
        kafka.append(OFFSETS_TOPIC, row.value, key=row.key, timestamp=row.timestamp)


def views(kafka: MemoryKafka) -> list[Event]:
    """The views of the group that are published, full or not."""
    found = [
        codec.decode_event(one.key(), one.value(), codec.ce_attributes(one.headers()))
        for one in (kafka.records(TOPIC) if TOPIC in kafka.topics else [])
    ]
    return [event for event in found if isinstance(event.data, GroupObserved | GroupChanged)]


def kinds(kafka: MemoryKafka) -> list[str]:
    return [event.type.removeprefix("group.") for event in views(kafka)]


def ask(kafka: MemoryKafka, group: str = "g") -> None:
    event = Event("stream", "asks", GroupAsked(group_id=group, timestamp=1, after="0:7"))
    key, value, headers = codec.encode_event(event)
    partition = kafka.records(TOPIC)[-1].partition()
    kafka.append(TOPIC, value, key=key, headers=headers, partition=partition)


def large(kafka: MemoryKafka) -> EpochLog:
    """A group of twelve that has been told once."""
    log = EpochLog({"x": 40})
    write(kafka, log.join(*(f"m{number:02d}" for number in range(12))))
    return log


@pytest.fixture
def every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of a member is told."""
    monkeypatch.setattr(changes, "FEW", 100)


@pytest.mark.usefixtures("every_step")
def test_after_the_first_view_only_what_changed(kafka: MemoryKafka) -> None:
    log = large(kafka)
    with Collecting(settings(changes_from=10)):
        eventually(lambda: kinds(kafka) == ["observed"])
        write(kafka, log.leave("m03"))
        eventually(lambda: kinds(kafka) == ["observed", "changed"])
        write(kafka, log.beat("m00"))
        eventually(lambda: kinds(kafka) == ["observed", "changed", "changed"])
    first, second, third = views(kafka)
    assert isinstance(first.data, GroupObserved)
    assert isinstance(second.data, GroupChanged)
    assert isinstance(third.data, GroupChanged)
    assert (first.data.followed, second.data.since, third.data.since) == (True, first.id, second.id)
    assert second.data.gone == ["m03"]
    assert third.data.members == []
    assert third.data.behind == sorted({*log.members} - {"m00"})


def test_of_many_that_are_behind_only_what_else_changes_is_told(kafka: MemoryKafka) -> None:
    """Each member reaches each epoch: so many records of the coordinator need not be as many events."""
    log = large(kafka)
    with Collecting(settings(changes_from=10)):
        eventually(lambda: kinds(kafka) == ["observed"])
        for rows in ([*log.settle()], log.leave("m03"), *log.beats()):
            write(kafka, rows)
        eventually(lambda: views(kafka)[-1].data.state == "Stable")
    told = [event.data for event in views(kafka) if isinstance(event.data, GroupChanged)]
    assert len(told) < 3 * 12
    assert told[-1].behind == []
    assert any(one.behind is None for one in told)


@pytest.mark.parametrize("least", [{"changes_from": 0}, {"changes_from": 13}, {}])
def test_smaller_groups_are_told_in_full_views(kafka: MemoryKafka, least: dict[str, Any]) -> None:
    log = large(kafka)
    with Collecting(settings(**least)):
        eventually(lambda: kinds(kafka) == ["observed"])
        write(kafka, log.leave("m03"))
        eventually(lambda: kinds(kafka) == ["observed", "observed"])
    assert {event.data.followed for event in views(kafka) if isinstance(event.data, GroupObserved)} == {
        GroupObserved(group_id="g", timestamp=1, members=[]).followed
    }


@pytest.mark.usefixtures("every_step")
def test_a_restarted_collector_begins_with_a_full_view(kafka: MemoryKafka) -> None:
    log = large(kafka)
    with Collecting(settings(changes_from=10)):
        eventually(lambda: kinds(kafka) == ["observed"])
    write(kafka, log.leave("m03"))
    write(kafka, log.beat("m00"))
    with Collecting(settings(changes_from=10)):
        eventually(lambda: kinds(kafka) == ["observed", "observed", "changed"])


@pytest.mark.usefixtures("every_step")
def test_who_asks_gets_a_full_view_and_changes_follow_from_it(kafka: MemoryKafka) -> None:
    log = large(kafka)
    with Collecting(settings(changes_from=10)):
        eventually(lambda: kinds(kafka) == ["observed"])
        write(kafka, log.leave("m03"))
        eventually(lambda: kinds(kafka) == ["observed", "changed"])
        ask(kafka, "another")
        ask(kafka)
        eventually(lambda: kinds(kafka) == ["observed", "changed", "observed"])
        ask(kafka)  # it was told in full last: whoever asks has not read on yet
        write(kafka, log.beat("m00"))
        eventually(lambda: kinds(kafka)[3:])
    _, change, told, after = views(kafka)
    assert isinstance(told.data, GroupObserved)
    assert isinstance(after.data, GroupChanged)
    assert told.id.startswith(f"{change.id}/whole/")
    assert after.data.since == told.id
    assert (len(told.data.members), told.data.followed) == (11, True)


@pytest.mark.usefixtures("every_step")
def test_a_restarted_collector_answers_who_asked_meanwhile(kafka: MemoryKafka) -> None:
    log = large(kafka)
    with Collecting(settings(changes_from=10)):
        eventually(lambda: kinds(kafka) == ["observed"])
        write(kafka, log.leave("m03"))
        eventually(lambda: kinds(kafka) == ["observed", "changed"])
    ask(kafka)
    with Collecting(settings(changes_from=10)):
        eventually(lambda: kinds(kafka) == ["observed", "changed", "observed"])
        write(kafka, log.beat("m00"))
        eventually(lambda: kinds(kafka) == ["observed", "changed", "observed", "changed"])
    *_, whole, change = views(kafka)
    assert isinstance(change.data, GroupChanged)
    assert change.data.since == whole.id


@pytest.mark.usefixtures("every_step")
def test_after_a_view_that_was_not_published_comes_a_full_one(kafka: MemoryKafka) -> None:
    kafka.create(TOPIC, 4, max_message_bytes="9000")
    log = EpochLog({"x": 40})
    write(kafka, log.join(*(f"m{number:02d}" for number in range(12))))
    with Collecting(settings(changes_from=10)):
        eventually(lambda: kinds(kafka) == ["observed"])
        write(kafka, log.join("m" * 9000))
        eventually(lambda: kafka.records("rebalance.membership-dlt"))
        assert kinds(kafka) == ["observed"]
        write(kafka, log.leave("m" * 9000))
        eventually(lambda: kinds(kafka) == ["observed", "observed"])
        write(kafka, log.beat("m00"))
        eventually(lambda: kinds(kafka) == ["observed", "observed", "changed"])
