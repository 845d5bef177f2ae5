"""Rebalances in progress: the status of the episode, the rebalance's end, and the incident of a stuck rebalance."""

from typing import Any

import pytest
from msgspec import structs

from streaming.episodes.status import GroupStatus, group_status
from streaming.monitor.bucket import expire
from streaming.records.diffs import LatestAssignment
from streaming.records.episodes import Acknowledged
from streaming.records.events import Event, GroupRebalancing, IncidentAcknowledged
from tests.support.pure_stream import StreamedGroup, written_event

HALF_ASSIGNED: dict[str, Any] = {"a": {"t": [0]}, "b": {"t": [1]}}
CLIENTS = {"a": ("pay", "/10.0.0.1"), "b": ("ship", "/10.0.0.2")}
LATEST = LatestAssignment(
    group_id="g",
    protocol="classic",
    assignor="range",
    generation=1,
    group_epoch=None,
    timestamp=0,
    members={"a": {}, "b": {}},
)


class Group(StreamedGroup):
    """An observed group of two members at generation 1, whose first episode settled at 4 s."""

    def __init__(self, *, epoch: int | None = None) -> None:
        super().__init__()
        if epoch is None:
            self.apply(self.log.topics(t=2), self.observed(1))
            self.quiet()
        else:
            self.apply(self.log.topics(t=2), self.observed(epoch, epoch=True))

    def observed(self, generation: int, **fields: Any) -> Event:
        return self.log.observe(generation, HALF_ASSIGNED, clients=CLIENTS, **fields)

    def in_state(self, state: str, epoch: int, member_epoch: int) -> Event:
        """Return a snapshot of a group with epochs, whose members have reached ``member_epoch``."""
        event = self.observed(epoch, epoch=True)
        members = [structs.replace(member, member_epoch=member_epoch) for member in event.data.members]
        return structs.replace(event, data=structs.replace(event.data, state=state, members=members))

    def rebalancing(self, since: int | None = None, **fields: Any) -> Event:
        since = 1000 * (self.log.count + 1) if since is None else since
        report = {"reason": "b joined", "joined": ["b"], "awaited": ["a"], "until": {"a": 300_000}} | fields
        return self.log.event(GroupRebalancing, since=since, **report)

    def timer(self, now_ms: int) -> list[Event]:
        return [written_event(write) for write in expire(self.bucket, now_ms, self.sinks)]


@pytest.fixture
def group() -> Group:
    return Group()


def test_rebalance_opens_an_episode_with_its_awaited_members(group: Group) -> None:
    (episode,), _ = group.apply(group.rebalancing())
    assert (episode.episode, episode.kind, episode.status, episode.opened_at) == (2, "unknown", "rebalancing", 4000)
    assert group_status(LATEST, episode) == GroupStatus("rebalancing", 4000, "b joined", ("a",))
    assert episode.story == "Rebalancing since 00:00:04 (b joined): waiting for pay, at most until 00:05:00."
    (ended,), _ = group.apply(group.observed(2))
    assert (ended.episode, ended.status, ended.rebalancing, ended.round_count) == (2, "settled", None, 1)
    assert group_status(LATEST, ended) == GroupStatus("stable", 5000)


def test_rebalance_joins_the_open_episode(group: Group) -> None:
    group.apply(group.observed(2))
    (episode,), _ = group.apply(group.rebalancing(commits_stopped=True))
    assert (episode.episode, episode.status, episode.round_count) == (2, "rebalancing", 1)
    assert episode.story.endswith(
        " Rebalancing since 00:00:05 (b joined): waiting for pay, at most until 00:05:00; no commits since."
    )


def test_rebalance_longer_than_the_quiet_time_is_one_episode(group: Group) -> None:
    group.apply(group.rebalancing())
    group.log.count += 500
    (episode,), _ = group.apply(group.observed(2))
    assert (episode.episode, episode.opened_at, episode.updated_at) == (2, 4000, 505_000)


def test_repeated_and_late_reports_change_nothing(group: Group) -> None:
    begun, later = group.rebalancing(), group.rebalancing(since=4000, awaited=[])
    group.apply(begun)
    assert group.apply(begun) == ([], [])
    group.apply(later)
    assert group.apply(begun) == ([], [])
    group.apply(group.observed(2))
    assert group.apply(later, begun) == ([], [])


def test_generation_before_the_rebalance_does_not_end_it(group: Group) -> None:
    late, begun = group.observed(2), group.rebalancing()
    group.apply(begun)
    (episode,), _ = group.apply(late)
    assert (episode.status, episode.round_count) == ("rebalancing", 1)


def test_deleted_group_with_epochs_rebalances_no_more() -> None:
    group = Group(epoch=2)
    group.apply(group.rebalancing(state="Reconciling"))
    episodes, _ = group.apply(group.log.delete())
    assert episodes[-1].rebalancing is None


@pytest.mark.parametrize("how", ["ended", "deleted"])
def test_rebalance_ends_without_a_generation(group: Group, how: str) -> None:
    group.apply(group.rebalancing())
    last = group.rebalancing(since=4000, ended=True) if how == "ended" else group.log.delete()
    episodes, _ = group.apply(last)
    assert [(episode.status, episode.rebalancing) for episode in episodes] == [("settled", None)]


def test_group_with_epochs_ends_its_rebalance_when_stable() -> None:
    group = Group(epoch=2)
    (episode,), _ = group.apply(group.rebalancing(state="Reconciling"))
    assert episode.status == "rebalancing"
    (episode,), _ = group.apply(group.in_state("Reconciling", 2, member_epoch=1))
    assert episode.status == "rebalancing"
    (episode,), _ = group.apply(group.in_state("Stable", 2, member_epoch=2))
    assert episode.status == "settled"


def test_rebalance_that_began_with_an_epoch_is_reported_later() -> None:
    group = Group(epoch=2)
    snapshot = group.in_state("Reconciling", 3, member_epoch=2)
    group.apply(snapshot)
    (episode,), _ = group.apply(group.rebalancing(since=snapshot.data.timestamp, source="records"))
    assert episode.status == "rebalancing"


def test_stuck_rebalance_opens_an_incident_that_closes_itself(group: Group) -> None:
    group.apply(group.rebalancing(), now_ms=50_000)
    assert group.timer(109_999) == []
    (event,) = group.timer(110_000)
    assert (event.data.timestamp, event.id) == (64_000, "g/quiet/rebalancing/4000")
    _, (stuck,) = group.apply(event)
    assert (stuck.kind, stuck.member_ids, stuck.status) == ("rebalance-stuck", ["a"], "open")
    assert stuck.story == "Rebalance has waited for pay for more than 60 s (since 1970-01-01 00:01 UTC)."
    assert group.timer(1 << 50) == []
    _, (again,) = group.apply(group.rebalancing(since=4000, awaited=["a", "b"]))
    assert again.member_ids == ["a", "b"]
    group.log.count += 80
    _, (closed,) = group.apply(group.observed(2))
    assert (closed.status, closed.closed_at, closed.times) == ("closed", 86_000, 1)


def test_timer_of_a_rebalance_that_has_ended_opens_nothing(group: Group) -> None:
    group.apply(group.rebalancing())
    timer_events = group.timer(1 << 50)
    group.apply(group.observed(2))
    assert group.apply(*timer_events) == ([], [])


def test_usual_rebalances_lower_the_threshold(group: Group) -> None:
    for generation in range(2, 12):
        group.apply(group.rebalancing())
        group.log.count += 4
        group.apply(group.observed(generation))
    group.apply(group.rebalancing())
    (timer_events,) = group.timer(1 << 50)
    assert timer_events.data.timestamp - 1000 * group.log.count == 15_000


def test_acknowledged_incident_is_marked_until_reopened(group: Group) -> None:
    group.apply(group.rebalancing())
    group.apply(*group.timer(1 << 50))
    event = group.log.event(IncidentAcknowledged, incident=1, by="me", text="looking", muted=True)
    _, (incident,) = group.apply(event)
    assert incident.acknowledged == Acknowledged(at=event.data.timestamp, by="me", text="looking", muted=True)
    assert group.apply(group.log.event(IncidentAcknowledged, incident=9)) == ([], [])
    group.log.count += 80
    _, (closed,) = group.apply(group.observed(2))
    assert closed.acknowledged == incident.acknowledged
    group.apply(group.rebalancing())
    _, (reopened_incident,) = group.apply(*group.timer(1 << 50))
    assert (reopened_incident.incident, reopened_incident.times, reopened_incident.acknowledged) == (1, 2, None)
