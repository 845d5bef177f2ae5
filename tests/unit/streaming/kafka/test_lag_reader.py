"""Lag of groups, from the samples in the membership topic."""

import pytest

from streaming.kafka.lag_reader import GroupLag, LagReader, read_lags
from streaming.kafka.topics import ensure_topics
from streaming.records.events import Event, GroupProgress
from tests.support.memory_kafka import SETTINGS, MemoryKafka
from tests.support.wait import eventually

NOW_MS = 1_700_000_000_000
MINUTE_MS = 60_000


def sample(group_id: str, at: int, **offsets: tuple[int | None, int]) -> GroupProgress:
    """Return a progress sample of topic ``t``; the argument ``_0=(committed, end)`` gives partition 0's offsets."""
    return GroupProgress(
        group_id=group_id, timestamp=at, partitions={"t": {name[1:]: both for name, both in offsets.items()}}
    )


def test_group_lag_sums_partitions_with_a_commit() -> None:
    first = GroupLag().add(sample("g", 1, _0=(4, 10), _1=(None, 7), _2=(3, 3)))
    assert first == GroupLag(1, 6, {"t": {"0": 6, "1": None, "2": 0}}, ((1, 6),))
    assert first.add(sample("g", 1, _0=(10, 10))) == first
    second = first.add(sample("g", 2, _0=(None, 10)))
    assert second == GroupLag(2, None, {"t": {"0": None}}, ((1, 6), (2, None)))
    assert (second.until(1), second.until(0)) == (GroupLag(1, 6, samples=((1, 6),)), GroupLag())


@pytest.fixture
def kafka(kafka: MemoryKafka) -> MemoryKafka:
    ensure_topics(SETTINGS)
    return kafka


def write(kafka: MemoryKafka, *samples: GroupProgress) -> None:
    for number, data in enumerate(samples):
        kafka.publish(Event("collector", str(number), data), timestamp=data.timestamp)


def test_current_lags_are_read_from_the_last_minutes(kafka: MemoryKafka) -> None:
    write(kafka, sample("old", NOW_MS - 5 * MINUTE_MS, _0=(0, 9)), sample("g", NOW_MS - MINUTE_MS, _0=(0, 9)))
    write(kafka, sample("g", NOW_MS, _0=(5, 9)), sample("silent", NOW_MS, _0=(None, 9)))
    headers = [("ce_type", b"group.progress")]
    kafka.append(SETTINGS.topics.membership, b"{", key=b"g", headers=headers, timestamp=NOW_MS)
    assert read_lags(SETTINGS, NOW_MS) == {"g": 4, "silent": None}


def test_reader_begins_with_the_lags_of_the_last_hour(kafka: MemoryKafka, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time_ns", lambda: NOW_MS * 1_000_000)
    hour = 60 * MINUTE_MS
    write(kafka, sample("gone", NOW_MS - hour - 1, _0=(0, 9)), sample("g", NOW_MS - hour + 1, _0=(0, 9)))
    with LagReader(SETTINGS) as reader:
        eventually(lambda: "g" in reader.groups)
        write(kafka, sample("g", NOW_MS, _0=(9, 9)))
        eventually(lambda: reader.groups["g"].timestamp == NOW_MS)
        assert {group_id: lag.samples for group_id, lag in reader.groups.items()} == {
            "g": ((NOW_MS - hour + 1, 9), (NOW_MS, 0))
        }
