"""Samples of groups' progress: which partitions are sampled, how often, and the content of the events."""

from itertools import pairwise
from typing import Any

from msgspec import UNSET

from streaming.collect.coordinator.records import OffsetCommit
from streaming.collect.progress import ProgressSampler, SampleSchedule, consumed_partitions, progress_event
from streaming.collect.rebalances import KnownGroup
from streaming.records.events import GroupObserved, GroupProgress, ObservedMember
from streaming.settings.connection import KafkaSettings
from tests.support.memory_kafka import MemoryKafka

A, B = ("t", 0), ("t", 1)


def snapshot(assigned: dict[str, list[int]], **fields: Any) -> GroupObserved:
    members = [ObservedMember(member_id="m", topics=["t"], assigned=assigned)] if assigned else []
    return GroupObserved(group_id="g", timestamp=1, members=members, **fields)


def commit(offset: int, at: int | None = None) -> OffsetCommit:
    return OffsetCommit("g", "t", 0, at, offset)


def test_sampled_partitions_are_assigned_or_committed() -> None:
    offsets = {B: commit(5), ("u", 0): commit(7)}
    assert consumed_partitions(KnownGroup(snapshot({"t": [0]}), committed=offsets)) == [A, B]
    assert consumed_partitions(KnownGroup(snapshot({}), committed=offsets)) == [B, ("u", 0)]
    assert consumed_partitions(KnownGroup(snapshot({"0": [3]}, group_protocol="streams"), committed=offsets)) == [B]
    assert consumed_partitions(KnownGroup(snapshot({"t": [0]}, group_protocol="share"), committed=offsets)) == []
    assert consumed_partitions(KnownGroup(snapshot({"c": [-1, 0]}, kind="connect"), committed=offsets)) == []


def test_progress_event_has_offsets_and_starts_after_data_loss() -> None:
    group = KnownGroup(snapshot({}), committed={A: commit(5, 970), B: commit(3)})
    event = progress_event(group, {A: 4, B: 9, ("t", 2): 8}, {B: 6, A: 2}, 1000, 980, is_busy=True)
    data = {"partitions": {"t": {"0": (5, 5), "1": (3, 9), "2": (None, 8)}}, "starts": {"t": {"1": 6}}}
    times = {"requested_at": 980, "committed_at": {"t": {"0": 970}}}
    assert event == GroupProgress(group_id="g", timestamp=1000, **data, **times)
    at_rest = progress_event(group, {A: 9}, {A: 5}, 1000, 980, is_busy=False)
    assert at_rest.starts is at_rest.committed_at is UNSET


def times(schedule: SampleSchedule, committed: dict[Any, int], ends: dict[Any, int], until: int) -> list[int]:
    """Return the seconds from 0 to ``until`` in which the schedule takes a sample of the group."""
    sample_times = []
    for now in range(until):
        if schedule.due(lambda: ["g"], now):
            sample_times.append(now)
            schedule.schedule_next_sample("g", committed, ends, now)
    return sample_times


def test_busy_group_is_sampled_every_second_then_less_often() -> None:
    schedule = SampleSchedule(0)
    schedule.sample_often(["g"], 0, changed=True)
    assert times(schedule, {A: 1}, {A: 9}, 140) == [*range(11), 12, 16, 24, 40, 70, 100, 130]


def test_a_change_is_sampled_at_once_up_to_four_times_a_second() -> None:
    schedule = SampleSchedule(0)
    schedule.sample_often(["g"], 0, changed=True)
    times(schedule, {A: 1}, {A: 9}, 30)  # the pauses are long by now
    sample_times = []
    for tick in range(300, 400):
        now = tick / 10
        schedule.sample_often(["g"], now, changed=tick <= 320)
        if schedule.due(lambda: ["g"], now):
            sample_times.append(now)
            schedule.schedule_next_sample("g", {A: 1}, {A: 9}, now)
    assert sample_times[0] == 30.0
    pauses = [b - a for a, b in pairwise(sample_times)]
    assert all(0.25 <= pause < 0.31 for pause in pauses[:6])
    assert all(0.99 < pause < 1.11 for pause in pauses[-6:])


def test_busy_groups_share_at_most_four_requests_a_second() -> None:
    schedule, groups = SampleSchedule(0), [f"g{number}" for number in range(100)]
    sizes = []
    for tick in range(200):  # each group begins to rebalance at its own moment
        now = tick / 20
        if tick < 100:
            schedule.sample_often([groups[tick]], now, changed=True)
        due = schedule.due(lambda: groups, now)
        for group_id in due:
            schedule.schedule_next_sample(group_id, {A: 1}, {A: 9}, now)
        sizes += [len(due)] if due else []
    assert len(sizes) <= 4 * 10
    assert sum(sizes) > 7 * 100  # each group is still sampled every second


def test_a_change_during_a_request_is_sampled_again_at_once() -> None:
    schedule = SampleSchedule(0)
    schedule.sample_often(["g"], 0, changed=True)
    assert schedule.due(lambda: ["g"], 0) == ["g"]
    schedule.sample_often(["g"], 0.2, changed=True)
    schedule.schedule_next_sample("g", {A: 1}, {A: 9}, 0.3)
    assert schedule.due(lambda: ["g"], 0.35) == ["g"]
    schedule.schedule_next_sample("g", {A: 1}, {A: 9}, 0.4)
    assert not schedule.due(lambda: ["g"], 1.3)


def test_group_has_caught_up_when_its_rebalance_ends() -> None:
    schedule, committed = SampleSchedule(0), {A: 1}
    schedule.sample_often(["g"], 0, changed=True)
    assert times(schedule, committed, {A: 9}, 12)[-1] == 10
    committed[A] = 9
    assert schedule.due(lambda: ["g"], 12) == ["g"]
    schedule.schedule_next_sample("g", committed, {A: 500}, 12)
    assert not any(schedule.due(lambda: ["g"], now) for now in range(13, 200))


def test_groups_that_never_commit_are_not_followed_until_they_do() -> None:
    schedule = SampleSchedule(0)
    schedule.sample_often(["g"], 0, changed=True)
    assert times(schedule, {}, {A: 9}, 140) == [*range(11)]


def test_a_group_at_rest_is_sampled_once_a_minute() -> None:
    schedule = SampleSchedule(60)
    sample_times = times(schedule, {A: 9}, {A: 9}, 400)
    assert len(sample_times) == 6
    assert sample_times[1] - sample_times[0] <= 60  # from the group's own time to that of its topic
    assert {b - a for a, b in pairwise(sample_times[1:])} == {60}


def test_groups_at_rest_with_one_topic_are_sampled_together() -> None:
    schedule, sample_times = SampleSchedule(60), dict[str, list[int]]()
    for now in range(400):
        for group_id in schedule.due(lambda: ["g", "h", "other"], now):
            sample_times.setdefault(group_id, []).append(now)
            schedule.schedule_next_sample(group_id, {}, {("u", 0) if group_id == "other" else A: 9}, now)
    assert sample_times["g"][-3:] == sample_times["h"][-3:] != sample_times["other"][-3:]


def test_progress_sample_has_committed_and_end_offsets(kafka: MemoryKafka) -> None:
    kafka.create("t", 2)
    for partition, count in ((0, 3), (1, 4)):
        for _ in range(count):
            kafka.append("t", b"v", partition=partition)
    kafka.topics["t"].logs[1].begins = 2
    sampler = ProgressSampler(KafkaSettings(bootstrap_servers="memory:1"), 0)
    group = KnownGroup(snapshot({"t": [0, 1]}), committed={A: commit(3), B: commit(1)})
    sampler.schedule.sample_often(["g"], 0, changed=True)
    samples = [event for now in range(5) for event in sampler.sample(lambda _: group, lambda: ["g"], now, now)]
    partitions = {"t": {"0": (3, 3), "1": (1, 4)}}
    assert samples == [
        GroupProgress(group_id="g", timestamp=1, partitions=partitions, requested_at=0),
        GroupProgress(group_id="g", timestamp=3, partitions=partitions, starts={"t": {"1": 2}}, requested_at=2),
    ]
