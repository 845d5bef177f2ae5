"""Incidents of episodes: storms with and without a triggering member, and static members that bounce."""

from collections.abc import Iterable

import pytest

from streaming.episodes.detection import detect_in_note
from streaming.episodes.fold import QUIET_TIME_MS
from streaming.episodes.incidents import (
    LIMITS,
    IncidentState,
    StoredIncident,
    close_incidents,
    incident_record,
    open_incident,
)
from streaming.episodes.notes import BounceNote, RoundNote
from streaming.episodes.state import EpisodeState
from streaming.records.episodes import Incident
from tests.support.built_diffs import DiffBuilder
from tests.support.diff_episodes import GroupReader, advance
from tests.unit.streaming.episodes.test_kinds import THREE_MEMBERS, restart_one_by_one, started
from tests.unit.streaming.episodes.test_storms import bounce_notes, migrate_beside_classic_member, rejoin


def incidents(builder: DiffBuilder, bounces: Iterable[BounceNote] = ()) -> list[Incident]:
    """Return all incidents of a group in their final state, including closed ones."""
    reader, state, incident_state = GroupReader(), None, IncidentState()
    notes: list[RoundNote | BounceNote] = [reader.read(*step) for step in builder.diffs]
    for note in [*notes, *bounces]:
        state, closed = advance(state, note, QUIET_TIME_MS)
        assert isinstance(state, EpisodeState)
        incident_state = detect_in_note(
            incident_state, note, state, LIMITS, storm_turns=3, begins_episode=closed is not None
        )
    return [incident_record("g", condition) for condition in incident_state.by_key.values()]


def test_rebalances_without_a_named_member_are_counted(builder: DiffBuilder) -> None:
    for _ in range(8):
        builder.round("group.observed", after=5)
    (incident,) = incidents(builder)
    assert (incident.kind, incident.status, incident.member_ids) == ("storm", "open", [])
    assert incident.story.startswith("Rebalances again and again: 8 rebalances without a membership change (since ")


def test_application_that_keeps_requesting_rebalances_is_quoted() -> None:
    (incident,) = incidents(rejoin(started(), "a@h1#1", "app asked", 5))
    assert "because of a: 5 times, about every 5.0 s, client reason: “app asked” (since " in incident.story
    assert incident.evidence[0].reason.endswith("app asked")


def test_members_that_crash_in_turn_are_all_named(builder: DiffBuilder) -> None:
    for incarnation in range(1, 5):
        for member_id in THREE_MEMBERS[:2]:
            builder.fence(member_id.replace("#1", f"#{incarnation}"), after=5, reason="heartbeat expiration")
            builder.join(member_id.replace("#1", f"#{incarnation + 1}"))
    (incident,) = incidents(builder)
    assert sorted(incident.member_ids) == ["a@h1#5", "b@h2#5"]
    assert "because of a and b" in incident.story


@pytest.mark.parametrize("hosts", [("h9", "h0") * 4, ("h0",) * 8])
def test_shared_instance_id_is_a_separate_incident(hosts: tuple[str, ...]) -> None:
    builder, notes = bounce_notes(*hosts)
    (incident,) = incidents(builder, notes)
    assert (incident.kind, incident.status) == ("duplicate-instance-id", "open")
    assert incident.member_ids == [f"x@{hosts[-1]}#8=i0"]
    assert incident.sure is (len(set(hosts)) > 1)
    assert incident.story.startswith("i0 rejoined 8 times under new member ids: ")
    assert ("probably" in incident.story) is not incident.sure


def test_rolling_restarts_and_migrations_open_no_incident(builder: DiffBuilder) -> None:
    for incarnation in range(1, 4):
        ids = (member_id.replace("#1", f"#{incarnation}") for member_id in THREE_MEMBERS)
        restart_one_by_one(builder, *ids, seconds=2)
    assert incidents(builder) == []
    assert incidents(migrate_beside_classic_member(started())) == []


def test_update_is_never_older_than_the_previous_one() -> None:
    """The collector's clock dates the report of a rebalance; the broker's clock dates the rebalance's end."""
    opened = open_incident(IncidentState(), StoredIncident("rebalance-stuck", "for a"), 1000, reopen_ms=0)
    updated_incident = open_incident(opened, StoredIncident("rebalance-stuck", "for b"), 900, reopen_ms=0)
    closed = close_incidents(updated_incident, ["rebalance-stuck"], 950)
    incident = closed.by_key["rebalance-stuck"]
    assert (incident.opened_at, incident.updated_at, incident.closed_at) == (1000, 1000, 950)
