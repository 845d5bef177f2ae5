"""The record of an episode, as the stream writes it."""

from msgspec import structs

from streaming.episodes.record import MAX_LISTED_MEMBERS, record
from streaming.episodes.state import EpisodeState
from streaming.records.codec import encode
from streaming.records.diffs import MemberNames
from streaming.records.episodes import EpisodeMembers, decode_episode
from tests.support.built_diffs import START_MS, DiffBuilder
from tests.support.diff_episodes import episode_state, episodes
from tests.unit.streaming.episodes.test_kinds import started, storm


def test_record_fits_its_topic() -> None:
    record = episodes("g", storm(started()).diffs)[-1]
    assert decode_episode(encode(record)) == record
    assert (record.status, record.kind, record.downtime, record.closed_at) == ("storming", "storm", None, None)


def test_episode_members_have_display_names() -> None:
    builder = started().join("d@h4#1").leave("a@h1#1")
    assert episodes("g", builder.diffs)[-1].members == EpisodeMembers(
        joined=["d@h4#1"],
        left=["a@h1#1"],
        before=3,
        after=3,
        names={
            "d@h4#1": MemberNames(client_id="d", client_host="/h4"),
            "a@h1#1": MemberNames(client_id="a", client_host="/h1"),
        },
    )


def test_some_of_thousands_of_members_are_listed() -> None:
    builder = DiffBuilder(1).join(*(f"m{number}" for number in range(MAX_LISTED_MEMBERS + 3)))
    members = episodes("g", builder.diffs)[-1].members
    assert (len(members.joined), members.omitted, members.after) == (MAX_LISTED_MEMBERS, 3, MAX_LISTED_MEMBERS + 3)


def test_episode_over_while_waiting_was_stuck() -> None:
    builder = DiffBuilder(2).join("a#1").round("group.observed", shares={"a#1": {"t": [0]}}, unassigned={"t": [1]})
    first, _ = episodes("g", builder.join("b#1", after=1000).diffs)
    assert (first.status, first.closed_at) == ("stuck", START_MS + 2000)


def test_episode_record_copies_times_and_counts_of_the_state() -> None:
    state = EpisodeState(number=4, open=True, opened_at=5, last_at=9, before=1, after=1, rebalances=2)
    written = record("g", state)
    assert (written.episode, written.opened_at, written.updated_at, written.rebalances) == (4, 5, 9, 2)


def test_configured_storm_turns_decide_between_storm_and_crash() -> None:
    state = episode_state(storm(started()))
    assert [record("g", state, storm_turns=storm_turns).kind for storm_turns in (4, 5)] == ["storm", "crash"]


def test_member_that_rejoins_without_names_has_none() -> None:
    builder = started().leave("a@h1#1").join("a@h1#1")
    diff_id, diff = builder.diffs.pop()
    unnamed = structs.replace(diff.members["a@h1#1"], client_id=None, client_host=None, group_instance_id=None)
    back = structs.replace(diff, members=diff.members | {"a@h1#1": unnamed})
    record = episodes("g", [*builder.diffs, (diff_id, back)])[-1]
    assert [(pair.left, pair.joined) for pair in record.members.replaced] == [("a@h1#1", "a@h1#1")]
    assert record.members.names == {}
