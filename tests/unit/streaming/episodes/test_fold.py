"""Start, rounds and end of an episode, computed from a group's rounds."""

import msgspec
import pytest

from streaming.episodes.fold import MAX_EVIDENCE, MOST_ROUNDS, QUIET_TIME_MS, quiet_time_end, state_after_end
from streaming.episodes.state import EpisodeState
from streaming.records.episodes import Waiting
from streaming.records.events import Evidence
from tests.support.built_diffs import START_MS, DiffBuilder
from tests.support.diff_episodes import GroupReader, QuietNote, advance, episode_state, episodes
from tests.unit.streaming.episodes.test_kinds import started, storm


def test_rounds_within_quiet_time_are_one_episode() -> None:
    builder = DiffBuilder().join("a#1").join("b#1", after=QUIET_TIME_MS / 1000)
    assert len(episodes("g", builder.diffs)) == 1
    first, second = episodes("g", builder.join("c#1", after=QUIET_TIME_MS / 1000 + 0.001).diffs)
    assert (first.status, first.closed_at, first.rounds) == ("settled", START_MS + 121_000, ["d1", "d2"])
    assert (second.episode, second.status, second.closed_at) == (2, "settled", None)


def test_configured_quiet_time_separates_episodes() -> None:
    builder = DiffBuilder().join("a#1").join("b#1", after=5)
    assert len(episodes("g", builder.diffs, 5_000)) == 1
    assert len(episodes("g", builder.diffs, 4_999)) == 2


def test_timer_and_next_round_close_with_equal_records() -> None:
    builder = DiffBuilder().join("a#1")
    (closed_by_timer,) = episodes("g", [*builder.diffs, QuietNote("d1")])
    closed_by_round, _ = episodes("g", builder.join("b#1", after=1000).diffs)
    assert closed_by_timer == closed_by_round


@pytest.mark.parametrize("after", ["d1", "other"])
def test_quiet_after_another_round_changes_nothing(after: str) -> None:
    state = episode_state(DiffBuilder().join("a#1").join("b#1"))
    assert advance(state, QuietNote(after))[0] is state


def test_quiet_time_without_an_episode_has_no_effect() -> None:
    assert advance(None, QuietNote("d1")) == (None, None)
    over = advance(episode_state(DiffBuilder().join("a#1")), QuietNote("d1"))[0]
    assert over is not None
    assert advance(over, QuietNote("d1"))[0] is over


def test_round_after_the_quiet_note_starts_a_new_episode() -> None:
    builder = DiffBuilder().join("a#1").join("b#1", after=1)
    records = episodes("g", [builder.diffs[0], QuietNote("d1"), builder.diffs[1]])
    assert [record.episode for record in records] == [1, 2]


def test_late_rounds_belong_to_their_rebalance() -> None:
    builder = DiffBuilder().join("a#1").round("member.joined", number=2, who=("a#1",), after=500)
    (record,) = episodes("g", builder.diffs)
    assert (record.round_count, record.rebalances) == (2, 1)


def test_unowned_partitions_are_awaited_and_stuck_when_quiet() -> None:
    builder = started("a#1", "b#1", partitions=4)
    builder.round("group.observed", shares={"a#1": {"t": [0]}, "b#1": {"t": [2, 3]}}, unassigned={"t": [1]})
    waiting = episodes("g", builder.diffs)[-1]
    assert waiting.status == "settling"
    assert [(wait.partitions, wait.since) for wait in waiting.waiting_for] == [({"t": [1]}, builder.now)]
    notes = [*builder.diffs, QuietNote("d2")]
    stuck = episodes("g", notes)[-1]
    assert (stuck.status, stuck.closed_at) == ("stuck", None)
    notes.append(builder.round("group.observed", number=2, after=400).diffs[-1])
    continued = episodes("g", notes)[-1]
    assert (continued.episode, continued.status, continued.waiting_for) == (2, "settled", [])
    over = episodes("g", [*notes, QuietNote("d3")])[-1]
    assert (over.status, over.closed_at) == ("settled", builder.now)


def test_continued_wait_keeps_its_start() -> None:
    builder = DiffBuilder(4, protocol="consumer").join("a#1")
    for number in (2, 3):
        builder.round("member.joined", who=(), number=number, shares={"a#1": {"t": [0]}}, unassigned={"t": [1]})
    assert episodes("g", builder.diffs)[-1].waiting_for[0].since == START_MS + 2000


def test_rounds_around_a_connect_delay_are_one_episode() -> None:
    builder = started("a#1", "b#1")
    builder.kind = "connect"
    kept = {"a#1": {"t": list(range(6))}}
    builder.round("member.left", gone=("b#1",), shares=kept, unassigned={"t": list(range(6, 12))}, delay_ms=300_000)
    until = builder.now + 300_000
    waiting = episodes("g", builder.diffs)[-1]
    assert [wait.until for wait in waiting.waiting_for] == [until]
    builder.round("member.left", who=(), after=300 + QUIET_TIME_MS / 1000)
    assert len(episodes("g", builder.diffs)) == 2


def test_partitions_moved_again_are_counted_separately() -> None:
    builder = DiffBuilder(4).join("a#1")
    state = episode_state(builder.join("b#1"))
    assert (state.moved, state.twice_moved_partitions) == ({"t": {2, 3}}, {})
    state = episode_state(builder.join("c#1"))
    assert (state.moved, state.twice_moved_partitions) == ({"t": {1, 2, 3}}, {"t": {2, 3}})


def test_partition_revoked_then_assigned_in_next_round_moved() -> None:
    builder = started("a#1", "b#1", partitions=4)
    half = {"a#1": {"t": [0]}, "b#1": {"t": [2, 3]}}
    builder.round("member.joined", joined=("c#1",), shares=half, unassigned={"t": [1]})
    assert episode_state(builder).moved == {}
    builder.round("member.joined", who=("c#1",), number=2, shares=half | {"c#1": {"t": [1]}})
    assert episode_state(builder).moved == {"t": {1}}


def test_partition_returned_to_its_last_owner_has_not_moved() -> None:
    builder = DiffBuilder(2).join("a#1", "b#1")
    builder.round("group.observed", shares={"a#1": {"t": [0]}}, unassigned={"t": [1]})
    builder.round("group.observed", number=2, shares={"a#1": {"t": [0]}, "b#1": {"t": [1]}})
    assert episode_state(builder).moved == {}


def test_endless_storm_keeps_bounded_rounds_and_evidence() -> None:
    builder = DiffBuilder(2).join("a@h#0")
    for number in range(MOST_ROUNDS):
        evidence = Evidence(source="coordinator-log", reason=f"reason {number}")
        builder.round("group.observed", evidence=(evidence,))
    state = episode_state(builder)
    rounds = state.rounds.split("\n")
    assert (len(rounds), state.round_count) == (MOST_ROUNDS, MOST_ROUNDS + 1)
    assert rounds == [diff_id for diff_id, _ in builder.diffs[1:]]
    assert len(state.evidence) == MAX_EVIDENCE


def test_arguments_are_not_modified() -> None:
    builder = DiffBuilder(6).join("a@h#1")
    reader, state, states = GroupReader(), None, []
    for entry in builder.join("b@h#1").leave("a@h#1").join("a@h#2").diffs:
        before = repr(state)
        step = advance(state, note := reader.read(*entry))
        assert repr(state) == before
        states.append((note, state, step))
        state, _ = step
    assert all(advance(state, note) == step for note, state, step in states)


def test_state_is_unchanged_after_writing_and_reading() -> None:
    state = episode_state(storm(started()).round("group.observed", unassigned={"t": [1]}))
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=EpisodeState) == state


def test_ended_episodes_have_a_small_state() -> None:
    state = episode_state(DiffBuilder().join("a"))
    assert state_after_end(state) == EpisodeState(
        1, last_at=state.last_at, last_note_id="d1", assignor="range", after=1
    )
    assert len(msgspec.msgpack.encode(state_after_end(state))) < 100


def test_quiet_time_counts_from_the_last_note_or_wait() -> None:
    state = EpisodeState(1, last_at=1000)
    assert quiet_time_end(state, 50) == 1050
    waiting = (Waiting(since=0, reason="", until=3000), Waiting(since=0, reason=""))
    assert quiet_time_end(EpisodeState(1, last_at=1000, waiting=waiting), 50) == 3050
