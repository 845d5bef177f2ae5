"""Samples of a group's offsets: the cost of an episode, the status until the group has caught up, and lost records."""

from typing import Any

import pytest

from streaming.monitor.bucket_state import Bucket
from streaming.records.episodes import Cost, Episode, Incident
from streaming.records.events import Event, GroupProgress, PartitionsStopped, Stop
from tests.support.histories import Log
from tests.support.pure_stream import StreamedGroup


class Group(StreamedGroup):
    """An observed group whose two partitions stop at 18 s and move to a second member at 20 s."""

    def __init__(self) -> None:
        super().__init__()
        self.apply(self.log.topics(t=2), self.log.observe(1, {"a": {"t": [0, 1]}}, clients={"a": ("pay", "/h1")}))
        self.quiet()
        self.sample(10, t0=(100, 100), t1=(50, 50))

    def at(self, seconds: int) -> Log:
        self.log.count = max(self.log.count, seconds - 1)
        return self.log

    def sample(self, seconds: int, **offsets: tuple[int | None, int]) -> tuple[list[Episode], list[Incident]]:
        return self.apply(self.progress(seconds, **offsets))

    def progress(self, seconds: int, starts: Any = None, **offsets: tuple[int | None, int]) -> Event:
        partitions = {"t": {name.removeprefix("t"): position for name, position in offsets.items()}}
        start_fields = {} if starts is None else {"starts": {"t": starts}}
        return self.at(seconds).event(GroupProgress, partitions=partitions, **start_fields)

    def rebalance(self, **evidence_fields: Any) -> Episode:
        equal_shares: dict[str, Any] = {"a": {"t": [0]}, "b": {"t": [1]}}
        stop = Stop(stopped_after=18_000, stopped_before=18_000, resumed_before=21_000, **evidence_fields)
        round_ = self.at(20).observe(2, equal_shares)
        stopped = self.at(21).event(PartitionsStopped, source="offset-commits", generation=2, stops=[stop])
        return self.apply(round_, stopped)[0][-1]


@pytest.fixture
def group() -> Group:
    return Group()


def test_cost_grows_until_the_group_has_caught_up(group: Group) -> None:
    group.sample(18, t0=(100, 100), t1=(50, 50))
    episode = group.rebalance()
    assert (episode.status, episode.cost and episode.cost.delayed_messages) == ("catching-up", (0, None))
    (episode,), _ = group.sample(22, t0=(100, 140), t1=(50, 50))
    assert (episode.status, episode.story.endswith(" Catching up.")) == ("catching-up", True)
    assert group.quiet() == ([], [])
    (episode,), _ = group.sample(30, t0=(150, 150), t1=(50, 50))
    assert episode.status == "settled"
    assert episode.cost == Cost(
        delayed_messages=(0, 40),
        worst_delay_ms=(0, 12_500),
        peak_lag=(40, 50),
        catch_up_ms=(0, 10_000),
        caught_up_at=30_000,
        evidence=["progress", "group-records", "offset-commits"],
    )
    assert ": at most 40 messages delayed up to 12 s, caught up at 00:00:30, " in episode.story
    (episode,), _ = group.quiet()
    assert (episode.closed_at, episode.status) == (20_000, "settled")


def test_commits_after_the_last_sample_count(group: Group) -> None:
    group.rebalance(partitions={"t": [0, 1]}, committed={"t": {"0": 900, "1": 50}})
    group.sample(22, t0=(900, 1000), t1=(50, 50))
    (episode,), _ = group.sample(30, t0=(1000, 1000), t1=(50, 50))
    assert episode.cost.delayed_messages == (0, 100)


def test_partitions_without_traffic_cost_nothing(group: Group) -> None:
    group.rebalance()
    (episode,), _ = group.sample(30, t0=(100, 100), t1=(50, 50))
    assert (episode.cost.delayed_messages, episode.cost.worst_delay_ms) == ((0, 0), (0, 0))
    assert "delayed" not in episode.story


def test_cost_without_commits_is_unknown(group: Group) -> None:
    group.log, group.bucket = Log(), Bucket()
    group.apply(group.log.topics(t=2), group.log.observe(1, {"a": {"t": [0, 1]}}))
    group.quiet()
    group.sample(10, t0=(None, 100), t1=(50, 50))
    group.rebalance()
    (episode,), _ = group.sample(30, t0=(None, 140), t1=(50, 50))
    unknown = (episode.cost.delayed_messages, episode.cost.peak_lag, episode.cost.caught_up_at)
    assert (episode.status, unknown) == ("settled", ((0, None), (0, None), None))


def test_late_offset_samples_change_nothing(group: Group) -> None:
    late = group.progress(19, t0=(100, 120), t1=(50, 50))
    group.rebalance()
    group.sample(30, t0=(150, 150), t1=(50, 50))
    assert group.apply(late) == ([], [])


def test_members_that_left_are_not_awaited(group: Group) -> None:
    group.rebalance()
    group.sample(22, t0=(100, 140), t1=(50, 50))
    (*_, episode), _ = group.apply(group.at(40).observe(3, {}))
    assert (episode.kind, episode.status) == ("unknown", "settled")


def test_retention_loss_opens_an_incident_with_record_count(group: Group) -> None:
    lost = group.progress(12, starts={"0": 1340}, t0=(100, 2000), t1=(50, 50))
    _, (incident,) = group.apply(lost)
    assert (incident.kind, incident.partitions, incident.status) == ("data-loss", {"t": [0]}, "open")
    assert incident.story.startswith("Retention deleted 1,240 records of t 0 before they were consumed (since ")
    assert group.apply(lost) == ([], [])
    _, (closed,) = group.sample(14, t0=(2000, 2000), t1=(50, 50))
    assert (closed.status, closed.story.split(" of ")[0]) == ("closed", "Retention deleted 1,240 records")


def test_offsets_that_go_back_in_an_empty_group_were_reset(group: Group) -> None:
    group.apply(group.at(20).observe(2, {}))
    group.quiet()
    group.sample(30, t0=(100, 100), t1=(50, 50))
    (episode,), _ = group.sample(40, t0=(7, 120), t1=(50, 60))
    assert (episode.kind, episode.sure) == ("offsets-reset", True)
    assert (episode.status, episode.opened_at) == ("settled", 40_000)
    assert episode.story.startswith("Reset committed offsets (t 0 from 100 to 7), ")
    assert group.sample(41, t0=(7, 120), t1=(50, 70)) == ([], [])
    (reset, start), _ = group.apply(group.at(50).observe(3, {"a": {"t": [0, 1]}}))
    assert (reset.kind, reset.closed_at, start.kind) == ("offsets-reset", 40_000, "first-start")


def test_lower_offsets_of_a_group_with_members_are_no_reset(group: Group) -> None:
    assert group.sample(12, t0=(7, 120), t1=(50, 50)) == ([], [])


def test_abandoned_partition_is_not_awaited(group: Group) -> None:
    group.rebalance()
    group.sample(22, t0=(100, 140), t1=(50, 50))
    episodes, _ = group.apply(group.at(24).observe(3, {"a": {"t": [1]}}), group.at(25).topics(t=2))
    assert (episodes[-1].status, episodes[-1].waiting_for[0].partitions) == ("settling", {"t": [0]})
