import json
from typing import Any

import pytest

from streaming.collect.counts import partitions_changed
from streaming.collect.polling.group import PolledGroup, resumed, resumed_from_latest
from streaming.collect.polling.resume import read_published_state
from streaming.records import codec
from streaming.records.diffs import LatestAssignment
from streaming.records.events import Event, GroupDeleted, GroupObserved, TopicMetadata
from tests.support.memory_kafka import SETTINGS, MemoryKafka

SIX_PARTITIONS = TopicMetadata(partitions=6, topic_id="i")


@pytest.fixture
def kafka(kafka: MemoryKafka) -> MemoryKafka:
    kafka.create(SETTINGS.topics.membership, 2)
    return kafka


def view(group: str, generation: int, **kind: Any) -> Event:
    data = GroupObserved(group_id=group, timestamp=generation, members=[], generation=generation, **kind)
    return Event("anyone", f"{group}-{generation}", data)


def latest(group: str, generation: int, protocol: str = "classic", **kind: Any) -> LatestAssignment:
    return LatestAssignment(
        **kind,
        group_id=group,
        protocol=protocol,
        assignor="range",
        generation=generation,
        group_epoch=None,
        timestamp=1,
        members={"m": {"t": [0]}},
    )


def read_groups() -> dict[str, PolledGroup]:
    return read_published_state(SETTINGS, "here", lambda name: name != "unwanted")[1]


def test_only_newest_snapshot_of_each_included_group_is_resumed(kafka: MemoryKafka) -> None:
    deleted = Event("s", "d", GroupDeleted(group_id="gone", timestamp=9))
    kafka.publish(view("a", 1), view("a", 2), view("unwanted", 1), view("gone", 1), deleted)
    kafka.publish(view("bb", 4), partition=1)
    kafka.publish(*(partitions_changed(*ids, 1, {"t": SIX_PARTITIONS}) for ids in (("here", "a"), ("there", "bb"))))
    published, groups = read_published_state(SETTINGS, "here", lambda name: name != "unwanted")
    assert published.counts == {"a": {"t": SIX_PARTITIONS}}
    assert groups == {"a": resumed(view("a", 2)), "bb": resumed(view("bb", 4))}


def test_groups_of_other_kinds_are_not_polled(kafka: MemoryKafka) -> None:
    kafka.create(SETTINGS.topics.assignments, 1)
    kafka.publish(
        view("workers", 3, kind="connect", protocol_type="connect"),
        view("shared", 3, kind="share", group_protocol="share"),
        view("new streams", 3, kind="streams", group_protocol="streams"),
        view("classic streams", 1, kind="streams", protocol="stream"),
    )
    for group, value in (
        ("workers", latest("workers", 3)),  # from a release that did not write kinds
        ("other workers", latest("other workers", 3, kind="connect")),
        ("others shared", latest("others shared", 3, "share", kind="share")),
    ):
        kafka.append(SETTINGS.topics.assignments, codec.encode(value), key=group.encode())
    assert read_groups().keys() == {"classic streams"}


def test_group_without_events_resumes_from_its_assignment(kafka: MemoryKafka) -> None:
    kafka.create(SETTINGS.topics.assignments, 1)
    for group, value in (
        ("a", codec.encode(latest("a", 3))),
        ("a", codec.encode(latest("a", 7))),
        ("told", codec.encode(latest("told", 7))),
        ("unwanted", codec.encode(latest("unwanted", 7))),
        ("gone", codec.encode(latest("gone", 7))),
        ("gone", None),
        ("broken", b"{"),
    ):
        kafka.append(SETTINGS.topics.assignments, value, key=group.encode())
    kafka.publish(view("told", 9))
    assert read_groups() == {"a": resumed_from_latest(latest("a", 7)), "told": resumed(view("told", 9))}


def test_reader_of_published_events_skips_undecodable_ones(kafka: MemoryKafka) -> None:
    _, value, headers = codec.encode_event(view("a", 1))
    kafka.append(SETTINGS.topics.membership, b"{", key=b"a", headers=headers)
    invalid_snapshot = json.dumps({**json.loads(value), "groupId": "bb", "members": 7}).encode()
    kafka.append(SETTINGS.topics.membership, invalid_snapshot, key=b"bb", headers=headers)
    kafka.append(SETTINGS.topics.membership, value, key=None, headers=[])
    assert read_groups() == {}


@pytest.mark.parametrize(("before", "after"), [(0, 1), (1, 0)])
def test_newest_snapshot_is_read_from_either_partition(kafka: MemoryKafka, before: int, after: int) -> None:
    for partition, generation in ((before, 1), (after, 2)):
        counts = partitions_changed("here", "a", generation, {"t": TopicMetadata(partitions=generation)})
        kafka.publish(view("a", generation), counts, partition=partition, timestamp=generation)
    published, groups = read_published_state(SETTINGS, "here", lambda _: True)
    assert published.counts == {"a": {"t": TopicMetadata(partitions=2)}}
    assert groups == {"a": resumed(view("a", 2))}
