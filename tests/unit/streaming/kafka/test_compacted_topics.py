"""Tests that readers of compacted topics read the newest record of each key, up to the topic's end."""

import pytest

from assignors.errors import BadInput
from streaming.kafka.access import NoPermission
from streaming.kafka.compacted_topics import (
    FollowOptions,
    MalformedLatest,
    read_assignment_records,
    read_assignments,
    read_episode_records,
    read_episodes,
    read_groups,
    read_incident_records,
    read_incidents,
)
from streaming.kafka.topic_reader import TopicUnreadable
from streaming.records.codec import encode
from streaming.records.episodes import MalformedEpisode, key
from tests.support.built_diffs import DiffBuilder
from tests.support.compacted import checkout_group, episode_records, latest, records
from tests.support.incidents import incident
from tests.support.memory_kafka import SETTINGS, MemoryKafka

EPISODES, ASSIGNMENTS = SETTINGS.topics.episodes, SETTINGS.topics.assignments
INCIDENTS = SETTINGS.topics.incidents
OTHER_GROUP = DiffBuilder(group_id="team/checkout/2").join("x")


@pytest.fixture
def kafka(kafka: MemoryKafka) -> MemoryKafka:
    for topic in (EPISODES, ASSIGNMENTS, INCIDENTS):
        kafka.create(topic, 2)
    for place, builder in enumerate((checkout_group(), OTHER_GROUP)):
        for topic, name, value in records(builder):
            kafka.append(topic, value, key=name, partition=place)
    return kafka


def test_only_newest_episode_and_assignment_records_are_returned(kafka: MemoryKafka) -> None:
    counted: list[int] = []
    assignments, episodes, _ = read_groups(SETTINGS, on_step=counted.append)
    assert {assignment.group_id: assignment for assignment in assignments} == {
        builder.group_id: latest(builder) for builder in (checkout_group(), OTHER_GROUP)
    }
    assert sorted(episodes, key=lambda episode: episode.value) == sorted(
        [*episode_records(checkout_group()), *episode_records(OTHER_GROUP)], key=lambda record: record.value
    )
    assert sum(counted) == len(kafka.records(EPISODES)) + len(kafka.records(ASSIGNMENTS))


def test_reader_of_one_group_skips_other_groups_episodes(kafka: MemoryKafka) -> None:
    assignments, episodes, _ = read_groups(SETTINGS, group="team/checkout")
    assert assignments == [latest(checkout_group())]
    assert episodes == read_episode_records(SETTINGS, group="team/checkout") == episode_records(checkout_group())


def test_incidents_are_read_for_all_groups_or_one_group(kafka: MemoryKafka) -> None:
    checkout_incident, second = incident("team/checkout"), incident("team/checkout/2")
    for incident_record in (checkout_incident, second):
        kafka.append(INCIDENTS, encode(incident_record), key=key(incident_record.group_id, incident_record.incident))
    kafka.append(INCIDENTS, b"{}", key=None)
    kafka.append(INCIDENTS, b"{}", key=b"x/1", headers=[("ce_type", b"other")])
    assert [record.incident for record in read_groups(SETTINGS, group="team/checkout").incidents] == [checkout_incident]
    assert read_incident_records(SETTINGS) == read_groups(SETTINGS).incidents
    kafka.append(INCIDENTS, b"{}", key=b"no number")
    with pytest.raises(MalformedEpisode, match=r"rebalance\.incidents key no number: "):
        read_groups(SETTINGS)


def test_deleted_groups_are_not_returned(kafka: MemoryKafka) -> None:
    kafka.append(ASSIGNMENTS, None, key=b"team/checkout", partition=0)
    kafka.append(EPISODES, None, key=b"team/checkout/1", partition=0)
    kafka.append(EPISODES, None, key=b"never/1", partition=0)
    assignments, episodes, _ = read_groups(SETTINGS)
    assert [assignment.group_id for assignment in assignments] == ["team/checkout/2"]
    assert episodes == [episode_records(checkout_group())[1], *episode_records(OTHER_GROUP)]


def test_unparsable_entries_are_reported_and_left_out(kafka: MemoryKafka) -> None:
    kafka.append(EPISODES, b"{}", key=b"team/checkout/2", partition=0)
    kafka.append(ASSIGNMENTS, b"[", key=b"bad\xff", partition=0)
    problems: list[BadInput] = []
    assignments, episodes, _ = read_groups(SETTINGS, on_malformed=problems.append)
    assert (len(assignments), episodes) == (2, [episode_records(checkout_group())[0], *episode_records(OTHER_GROUP)])
    assert [str(problem).partition(": ")[0] for problem in problems] == [
        "rebalance.assignments key bad\\xff",
        "rebalance.episodes key team/checkout/2",
    ]
    with pytest.raises(MalformedEpisode, match=r"rebalance\.episodes key team/checkout/2: .*groupId"):
        read_episode_records(SETTINGS)
    with pytest.raises(MalformedLatest):
        read_assignment_records(SETTINGS)


def test_error_names_the_missing_or_unreadable_topic(kafka: MemoryKafka) -> None:
    kafka.deny(ASSIGNMENTS, "READ", "DESCRIBE")
    with pytest.raises(NoPermission, match=f"may not read topic {ASSIGNMENTS}"):
        read_groups(SETTINGS)
    assert len(read_episode_records(SETTINGS)) == 3
    kafka.delete(EPISODES)
    with pytest.raises(TopicUnreadable, match=f"topic {EPISODES}: does not exist; .*topics --create"):
        read_episode_records(SETTINGS)


def test_record_under_another_key_is_refused(kafka: MemoryKafka) -> None:
    kafka.append(EPISODES, episode_records(checkout_group())[0].value, key=b"other/1")
    with pytest.raises(MalformedEpisode, match=r"rebalance\.episodes key other/1: key: .* does not match the value"):
        read_episode_records(SETTINGS)
    misplaced_incident = incident("team/checkout")
    kafka.append(INCIDENTS, encode(misplaced_incident), key=key("other", misplaced_incident.incident))
    with pytest.raises(MalformedEpisode, match=r"rebalance\.incidents key other/\d+: .* does not match the value"):
        read_incident_records(SETTINGS)


READ_TO_END: FollowOptions = {"from_beginning": True, "exit_at_end": True}


def test_readers_end_with_the_existing_records(kafka: MemoryKafka) -> None:
    checkout_incident = incident("team/checkout")
    kafka.append(INCIDENTS, encode(checkout_incident), key=key("team/checkout", checkout_incident.incident))
    assert list(read_assignments(SETTINGS, **READ_TO_END)) == [latest(checkout_group()), latest(OTHER_GROUP)]
    assert [record.group_id for record in read_episodes(SETTINGS, group="team/checkout/2", **READ_TO_END)] == [
        "team/checkout/2"
    ]
    assert list(read_incidents(SETTINGS, **READ_TO_END)) == [checkout_incident]
    for read in (read_assignments, read_episodes, read_incidents):
        assert list(read(SETTINGS, exit_at_end=True)) == []


def test_readers_continue_with_later_records(kafka: MemoryKafka) -> None:
    groups: list[str] = []
    for record in read_assignments(SETTINGS, from_beginning=True, until=lambda: len(groups) == 3):
        groups.append(record.group_id)
        if len(groups) == 2:
            kafka.append(ASSIGNMENTS, encode(latest(checkout_group("later"))), key=b"later")
    assert groups == ["team/checkout", "team/checkout/2", "later"]
