"""The record of a large group's episode while it goes on."""

from __future__ import annotations

import json

from msgspec import UNSET, structs

from streaming.episodes.reading import episodes
from streaming.episodes.record import fitting, record
from streaming.episodes.state import EpisodeState
from streaming.episodes.underway import MOST_LISTED, MOST_ROUNDS, underway
from streaming.wire.diffs import FEW
from streaming.wire.episodes import Episode, Waiting
from tests.support.told import Teller

MANY = 40


def restarted() -> Episode:
    """A group that started, each of whose members then went and came back under another id."""
    teller = Teller(MANY).join(*(f"c{number}@h{number}#1" for number in range(MANY)))
    for number in range(MANY):
        teller.leave(f"c{number}@h{number}#1").join(f"c{number}@h{number}#2")
    return episodes("g", teller.told)[-1]


def test_it_lists_some_and_counts_the_others() -> None:
    whole = restarted()
    found = underway(whole)

    assert found.rounds == whole.rounds[-MOST_ROUNDS:]
    assert len(whole.members.replaced) + len(whole.members.joined) > 2 * MOST_LISTED
    for sort in ("joined", "left", "lost", "gone", "replaced"):
        assert getattr(found.members, sort) == getattr(whole.members, sort)[:MOST_LISTED]
    listed = found.members.joined + [
        one for pair in found.members.replaced for one in (pair.left, pair.joined)
    ]
    assert set(found.members.names) == set(listed)
    assert found.members.omitted == sum(
        len(getattr(whole.members, sort)) - len(getattr(found.members, sort))
        for sort in ("joined", "replaced")
    )
    kept = ("kind", "status", "moved", "round_count", "rebalances", "story", "evidence")
    assert [getattr(found, one) for one in kept] == [getattr(whole, one) for one in kept]


def test_who_is_waited_for_has_its_name_and_partitions_are_counted() -> None:
    waits = [
        Waiting(since=1, reason="", member_id=f"c{MANY - 1}@h{MANY - 1}#2", partitions={"t": [1]}),
        Waiting(since=1, reason="", partitions={"t": [*range(FEW - 1)], "u": [1, 2, 3], "v": [1]}),
    ]
    found = underway(structs.replace(restarted(), waiting_for=waits))

    assert found.waiting_for[0] == waits[0]
    assert found.waiting_for[1].partitions == {"t": [*range(FEW - 1)], "u": [1]}
    assert [one.omitted for one in found.waiting_for] == [UNSET, 3]
    assert f"c{MANY - 1}@h{MANY - 1}#2" in found.members.names


def test_what_has_few_members_is_as_it_was() -> None:
    whole = episodes("g", Teller(3).join("a@h#1").leave("a@h#1").join("a@h#2").told)[-1]
    assert whole.members.replaced or whole.members.joined
    assert underway(whole) == whole


def test_records_are_short_where_that_is_asked_for() -> None:
    state = EpisodeState(number=1, open=True, rounds="\n".join(map(str, range(MANY))), round_count=MANY)
    long, short = (
        json.loads(fitting("g", state, 10**6, closed=False, storm_turns=5, brief=brief))
        for brief in (False, True)
    )
    assert long["rounds"] == record("g", state).rounds
    assert short["rounds"] == long["rounds"][-MOST_ROUNDS:]
