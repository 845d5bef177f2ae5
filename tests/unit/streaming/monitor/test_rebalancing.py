"""Rebalances in progress: the status of the episode, the rebalance's end, and the incident of a stuck rebalance."""

from typing import Any

import pytest
from msgspec import structs

from streaming.episodes.incidents import IncidentLimits
from streaming.episodes.status import GroupStatus, group_status
from streaming.monitor.bucket import expire, process
from streaming.monitor.bucket_state import Bucket
from streaming.monitor.outputs import OutputRecord
from streaming.records import codec
from streaming.records.codec import Record, ce_attributes, decode_event
from streaming.records.diffs import LatestAssignment
from streaming.records.episodes import Acknowledged, Episode, Incident, decode_episode, decode_incident
from streaming.records.events import (
    Event,
    GroupObserved,
    GroupQuiet,
    GroupRebalancing,
    IncidentAcknowledged,
    ObservedMember,
)
from tests.support.histories import Log
from tests.support.pure_stream import SINKS

HALF_ASSIGNED: dict[str, Any] = {"a": {"t": [0]}, "b": {"t": [1]}}
CLIENTS = {"a": ("pay", "/10.0.0.1"), "b": ("ship", "/10.0.0.2")}


class Group:
    """An observed group of two members at generation 1, whose first episode settled at 4 s."""

    def __init__(self, **thresholds: int) -> None:
        self.log, self.bucket = Log(), Bucket()
        self.sinks = SINKS._replace(thresholds=IncidentLimits(**thresholds))
        self.apply(self.log.topics(t=2), self.observed(1))
        self.quiet()

    def apply(self, *events: Event, now_ms: int = 0) -> tuple[list[Episode], list[Incident]]:
        records = [Record.of(0, at, *codec.encode_event(event)) for at, event in enumerate(events)]
        writes = process(self.bucket, records, now_ms, self.sinks)
        self.bucket = Bucket(self.bucket.pack())
        return read(writes)

    def quiet(self) -> None:
        episode = self.bucket.get("g").episode
        assert episode is not None
        self.apply(self.log.event(GroupQuiet, after=episode.last_note_id))

    def observed(self, generation: int, **fields: Any) -> Event:
        return self.log.observe(generation, HALF_ASSIGNED, clients=CLIENTS, **fields)

    def rebalancing(self, since: int | None = None, **fields: Any) -> Event:
        since = 1000 * (self.log.count + 1) if since is None else since
        report = {"reason": "b joined", "joined": ["b"], "awaited": ["a"], "until": {"a": 300_000}} | fields
        return self.log.event(GroupRebalancing, since=since, **report)

    def timer(self, now_ms: int) -> list[Event]:
        writes = expire(self.bucket, now_ms, self.sinks)
        return [decode_event(write.key, write.value, ce_attributes(write.headers)) for write in writes]


def read(writes: list[OutputRecord]) -> tuple[list[Episode], list[Incident]]:
    episodes = [decode_episode(write.value or b"") for write in writes if write.topic == "e"]
    return episodes, [decode_incident(write.value or b"") for write in writes if write.topic == "i"]


def status_of_group(group: Group, episode: Episode) -> GroupStatus:
    latest = LatestAssignment(
        group_id="g",
        protocol="classic",
        assignor="range",
        generation=1,
        group_epoch=None,
        timestamp=0,
        members={"a": {}, "b": {}},
    )
    return group_status(latest, episode)


def test_rebalance_opens_an_episode_with_its_awaited_members() -> None:
    group = Group()
    (episode,), _ = group.apply(group.rebalancing())
    assert (episode.episode, episode.kind, episode.status, episode.opened_at) == (2, "unknown", "rebalancing", 4000)
    assert status_of_group(group, episode) == GroupStatus("rebalancing", 4000, "b joined", ("a",))
    assert episode.story == "Rebalancing since 00:00:04 (b joined): waiting for pay, at most until 00:05:00."
    (second_episode,), _ = group.apply(group.observed(2))
    assert (second_episode.episode, second_episode.status, second_episode.rebalancing, second_episode.round_count) == (
        2,
        "settled",
        None,
        1,
    )
    assert status_of_group(group, second_episode) == GroupStatus("stable", 5000)


def test_rebalance_joins_the_open_episode() -> None:
    group = Group()
    group.apply(group.observed(2))
    (episode,), _ = group.apply(group.rebalancing(commits_stopped=True))
    assert (episode.episode, episode.status, episode.round_count) == (2, "rebalancing", 1)
    assert episode.story.endswith(
        " Rebalancing since 00:00:05 (b joined): waiting for pay, at most until 00:05:00; no commits since."
    )


def test_rebalance_longer_than_the_quiet_time_is_one_episode() -> None:
    group = Group()
    group.apply(group.rebalancing())
    group.log.count += 500
    (episode,), _ = group.apply(group.observed(2))
    assert (episode.episode, episode.opened_at, episode.updated_at) == (2, 4000, 505_000)


def test_repeated_and_late_reports_change_nothing() -> None:
    group = Group()
    begun, later = group.rebalancing(), group.rebalancing(since=4000, awaited=[])
    group.apply(begun)
    assert group.apply(begun) == ([], [])
    group.apply(later)
    assert group.apply(begun) == ([], [])
    group.apply(group.observed(2))
    assert group.apply(later, begun) == ([], [])


def test_generation_before_the_rebalance_does_not_end_it() -> None:
    group = Group()
    late, begun = group.observed(2), group.rebalancing()
    group.apply(begun)
    (episode,), _ = group.apply(late)
    assert (episode.status, episode.round_count) == ("rebalancing", 1)


def test_deleted_group_with_epochs_rebalances_no_more() -> None:
    group = Group()
    group.bucket = Bucket()
    group.apply(group.log.topics(t=2), group.log.observe(2, HALF_ASSIGNED, epoch=True))
    group.apply(group.rebalancing(state="Reconciling"))
    episodes, _ = group.apply(group.log.delete())
    assert episodes[-1].rebalancing is None


@pytest.mark.parametrize("how", ["ended", "deleted"])
def test_rebalance_ends_without_a_generation(how: str) -> None:
    group = Group()
    group.apply(group.rebalancing())
    last = group.rebalancing(since=4000, ended=True) if how == "ended" else group.log.delete()
    episodes, _ = group.apply(last)
    assert [(episode.status, episode.rebalancing) for episode in episodes] == [("settled", None)]


def test_group_with_epochs_ends_its_rebalance_when_stable() -> None:
    group = Group()
    group.bucket = Bucket()
    snapshot = group.log.observe(2, HALF_ASSIGNED, epoch=True)
    group.apply(group.log.topics(t=2), snapshot)
    (episode,), _ = group.apply(group.rebalancing(state="Reconciling"))
    assert episode.status == "rebalancing"
    for state, status in (("Reconciling", "rebalancing"), ("Stable", "settled")):
        view = group.log.observe(2, HALF_ASSIGNED, epoch=True)
        data = structs.replace(view.data, state=state, members=members_with_epoch(view, 2 if state == "Stable" else 1))
        (episode,), _ = group.apply(structs.replace(view, data=data))
        assert episode.status == status


def test_rebalance_that_began_with_an_epoch_is_reported_later() -> None:
    group = Group()
    group.bucket = Bucket()
    group.apply(group.log.topics(t=2), group.log.observe(2, HALF_ASSIGNED, epoch=True))
    view = group.log.observe(3, HALF_ASSIGNED, epoch=True)
    data = structs.replace(view.data, state="Reconciling", members=members_with_epoch(view, 2))
    group.apply(structs.replace(view, data=data))
    (episode,), _ = group.apply(group.rebalancing(since=view.data.timestamp, source="records"))
    assert episode.status == "rebalancing"


def members_with_epoch(view: Event, epoch: int) -> list[ObservedMember]:
    """Return the members of a snapshot with their member epoch set to ``epoch``."""
    assert isinstance(view.data, GroupObserved)
    return [structs.replace(member, member_epoch=epoch) for member in view.data.members]


def test_stuck_rebalance_opens_an_incident_that_closes_itself() -> None:
    group = Group()
    group.apply(group.rebalancing(), now_ms=50_000)
    assert group.timer(109_999) == []
    (timer_events,) = group.timer(110_000)
    assert (timer_events.data.timestamp, timer_events.id) == (64_000, "g/quiet/rebalancing/4000")
    _, (stuck_incident,) = group.apply(timer_events)
    assert (stuck_incident.kind, stuck_incident.member_ids, stuck_incident.status) == ("rebalance-stuck", ["a"], "open")
    assert stuck_incident.story == "Rebalance has waited for pay for more than 60 s (since 1970-01-01 00:01 UTC)."
    assert group.timer(1 << 50) == []
    _, (again,) = group.apply(group.rebalancing(since=4000, awaited=["a", "b"]))
    assert again.member_ids == ["a", "b"]
    group.log.count += 80
    _, (closed,) = group.apply(group.observed(2))
    assert (closed.status, closed.closed_at, closed.times) == ("closed", 86_000, 1)


def test_timer_of_a_rebalance_that_has_ended_opens_nothing() -> None:
    group = Group()
    group.apply(group.rebalancing())
    timer_events = group.timer(1 << 50)
    group.apply(group.observed(2))
    assert group.apply(*timer_events) == ([], [])


def test_usual_rebalances_lower_the_threshold() -> None:
    group = Group()
    for generation in range(2, 12):
        group.apply(group.rebalancing())
        group.log.count += 4
        group.apply(group.observed(generation))
    group.apply(group.rebalancing())
    (timer_events,) = group.timer(1 << 50)
    assert timer_events.data.timestamp - 1000 * group.log.count == 15_000


def test_acknowledged_incident_is_marked_until_reopened() -> None:
    group = Group()
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
