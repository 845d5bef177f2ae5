"""Episodes from diffs as their topic has them."""

from __future__ import annotations

from streaming.episodes.notes import BounceNote
from streaming.records.diffs import MemberNames
from streaming.records.episodes import Replaced
from tests.support.diff_episodes import GroupReader, episodes, updates
from tests.support.told import START, Teller

BOUNCED = BounceNote(
    "e1",
    START + 1_000_000,
    {"x@h1#1=i": "x@h2#2=i"},
    {"x@h2#2=i": MemberNames("x", "/h2", "i")},
    2,
    "classic",
    "range",
    "consumer",
)


def test_joined_members_are_absent_from_the_diff_before() -> None:
    teller = Teller().join("a").join("b").leave("a")
    reader = GroupReader()
    notes = [reader.read(*one) for one in teller.told]
    assert [(note.joined, note.gone, note.after) for note in notes] == [(["a"], [], 1), (["b"], [], 2), ([], ["a"], 1)]
    assert [note.moved for note in notes] == [{}, {"t": [6, 7, 8, 9, 10, 11]}, {"t": [0, 1, 2, 3, 4, 5]}]


def test_log_without_its_beginning_names_no_first_joiner() -> None:
    teller = Teller().join("a").join("b").join("c")
    found = episodes("g", teller.told[1:])
    assert [(one.kind, one.members.joined, one.members.before) for one in found] == [("scale-out", ["c"], 2)]


def test_returning_static_member_is_an_episode_without_rounds() -> None:
    teller = Teller().join("x@h1#1=i", "y@h3#1")
    one = episodes("g", [*teller.told, BOUNCED])[-1]
    assert (one.kind, one.rounds, one.sure) == ("static-bounce", [], True)
    assert one.members.replaced == [Replaced(left="x@h1#1=i", joined="x@h2#2=i", by="instance id")]


def test_a_static_member_under_a_new_id_did_not_join() -> None:
    teller = Teller().join("x@h1#1=i", "y@h3#1")
    first = list(teller.told)
    teller.members = {"x@h2#2=i": teller.members["x@h1#1=i"], "y@h3#1": teller.members["y@h3#1"]}
    teller.join("z@h4#1")
    for told in ([*first, BOUNCED, teller.told[-1]], teller.told):
        reader = GroupReader()
        notes = [reader.bounced(one) if isinstance(one, BounceNote) else reader.read(*one) for one in told]
        assert notes[-1].joined == ["z@h4#1"]  # type: ignore[union-attr]


def test_round_updates_its_episode_and_opening_one_closes_it() -> None:
    teller = Teller().join("a").join("b").join("c", after=1000)
    assert [(update.episode, update.status, update.round_count) for update in updates("g", teller.told)] == [
        (1, "settled", 1),
        (1, "settled", 2),
        (1, "settled", 2),
        (2, "settled", 1),
    ]
