from __future__ import annotations

import msgspec
import pytest

from streaming.serve import rounds
from streaming.serve.rounds import GroupSummary
from streaming.wire.codec import encode
from streaming.wire.events import Cause, Diff, LatestAssignment, MemberDiff
from tests.support.histories import change, sample


def member(
    owned: list[int] | None = None,
    revoked: list[int] | None = None,
    assigned: list[int] | None = None,
    *,
    present: bool | None = True,
) -> MemberDiff:
    kept = sorted(set(owned or []) - set(revoked or []))
    shares = ({"t": numbers} if numbers else {} for numbers in (owned, revoked, assigned, kept))
    return change(*shares, present=present)


def diff(kind: str = "member.joined", who: str = "c3", **changes: object) -> Diff:
    base: dict[str, object] = {
        "assignor": "cooperative-sticky",
        "generation": 2,
        "cause": Cause(kind=kind, member_ids=[who]),
        "timestamp": 1000,
        "members": {"c1": member([0, 1, 2], [2]), "c2": member([3, 4, 5], [5]), "c3": member()},
        "unassigned": {"t": [2, 5]},
    }
    return sample(**base | changes)


def test_a_round_that_revokes_without_giving_on_is_not_the_last() -> None:
    summary = rounds.summarise("id-1", diff())
    assert (summary.state, summary.members, summary.partitions, summary.unassigned) == (
        "PreparingRebalance",
        3,
        6,
        2,
    )
    assert rounds.summarise("id-1", diff(generation=None, group_epoch=7)).state == "Reconciling"


def test_partitions_nobody_wants_leave_the_group_stable() -> None:
    lonely = diff(members={"c1": member([0], [], [1])}, unassigned={"other": [0]})
    assert rounds.summarise("id-1", lonely).state == "Stable"


def test_a_join_and_a_leave_in_one_generation_leave_two_in_a_group_of_two() -> None:
    gone = member([1], [1], present=False)
    both = diff(members={"c1": member([0]), "c2": gone, "c3": member(None, None, [1])}, unassigned={})
    assert rounds.summarise("id-1", both).members == 2


@pytest.mark.parametrize("present", [False, None])
def test_who_left_is_not_counted_and_an_idle_member_is(present: bool | None) -> None:
    left = diff(
        "member.left",
        "c3",
        members={"c1": member([0]), "c2": member(), "c3": member([1], [1], present=present)},
        unassigned={},
    )
    assert rounds.summarise("id-1", left).members == 2


def test_a_diff_of_a_release_that_did_not_say_who_is_present_is_read() -> None:
    value = encode(diff(members={"c1": member([0], present=None)}))
    assert rounds.summarise("id-1", msgspec.json.decode(value, type=Diff)).members == 1
    older = value.replace(b',"present":null', b"")
    assert older != value
    assert msgspec.json.decode(older, type=Diff) == msgspec.json.decode(value, type=Diff)


@pytest.mark.parametrize("present", [False, None])
def test_empty_and_dead(present: bool | None) -> None:
    last = diff(
        "member.fenced", "c1", members={"c1": member([0], [0], present=present)}, unassigned={"t": [0]}
    )
    assert rounds.summarise("id-1", last).state == "Empty"
    deleted = diff("group.deleted", "", members={}, unassigned={})
    assert rounds.summarise("id-1", deleted).state == "Dead"


def test_changes_name_takers_first_then_what_nobody_owns() -> None:
    assert rounds.changes(diff()) == [(None, "t", [2, 5])]
    second = diff(round=2, members={"c1": member([0, 1]), "c3": member([], [], [2, 5])}, unassigned={})
    assert rounds.changes(second) == [("c3", "t", [2, 5])]
    handed = diff(members={"c1": member([0, 1], [1]), "c2": member([], [], [1])}, unassigned={})
    assert rounds.changes(handed) == [("c2", "t", [1])]


def test_before_lists_what_each_member_owned() -> None:
    assert rounds.before(diff().members) == [("c1", "t", [0, 1, 2]), ("c2", "t", [3, 4, 5])]


def test_totals_grow_with_each_round_and_gaps_count_once_they_close() -> None:
    first = rounds.advance(None, 1, rounds.summarise("a", diff()))
    given = diff(
        round=2,
        timestamp=1500,
        moved=2,
        members={"c1": member([0, 1]), "c2": member([3, 4]), "c3": member([], [], [2, 5])},
        unassigned={},
    )
    second = rounds.advance(first, 2, rounds.summarise("b", given))
    assert (
        second.rounds,
        second.rebalances,
        second.moved_total,
        second.unavailable_ms,
        second.rebalance_ms,
    ) == (
        2,
        1,
        2,
        1000,
        500,
    )
    assert second.causes == {"member.joined": 2}
    assert second.state == "Stable"


def test_the_latest_assignment_stands_in_for_rounds_that_are_gone() -> None:
    latest = LatestAssignment(
        group_id="g",
        protocol="classic",
        assignor="range",
        generation=9,
        group_epoch=None,
        timestamp=5,
        members={"c1": {"t": [0, 1]}, "c2": {}},
    )
    alone = rounds.with_assignment(None, latest)
    assert (alone.state, alone.members, alone.partitions, alone.cause, alone.rounds) == (
        "Stable",
        2,
        2,
        None,
        0,
    )
    known = rounds.advance(None, 1, rounds.summarise("a", diff()))
    assert rounds.with_assignment(known, latest) == known  # older than the round
    newer = msgspec.structs.replace(latest, timestamp=2000)
    expected: GroupSummary = msgspec.structs.replace(known, members=2)
    assert rounds.with_assignment(known, newer) == expected
