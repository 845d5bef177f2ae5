"""Who owns what, from diffs that leave out who kept everything."""

from __future__ import annotations

import pytest
from msgspec import UNSET, structs

from streaming.monitor.rendering import AssignmentOutput, DiffOutput
from streaming.wire.diffs import Diff, LatestAssignment
from streaming.wire.events import Holding
from streaming.wire.owners import DoesNotFollow, Owners, Together, current
from tests.support.histories import assignments, change, diffs, handed_on, play

EVENTS = handed_on()


def brief() -> list[Diff]:
    return diffs(play(EVENTS, naming="changed")[1])


def whole() -> list[Diff]:
    return diffs(play(EVENTS, naming="all")[1])


def owned(owners: Owners) -> dict[str, Holding]:
    return {name: one.owned for name, one in owners.members.items()}


def test_the_last_round_names_who_is_concerned_and_who_came_back() -> None:
    last = brief()[-1]
    assert {"m0", "s2"} < set(last.members) < {"m0", "m1", "m2", "m3", "m4", "s2"}
    assert last.unchanged == 6 - len(last.members)
    assert [diff.renamed for diff in brief() if diff.renamed] == [{"s1": "s2"}]


def test_put_together_they_are_the_diffs_with_everybody() -> None:
    owners, together = Owners(), Together()
    for short, full in zip(brief(), whole(), strict=True):
        assert owners.whole(short) == together.whole(short) == full
        owners.take(short)
    assert set(owned(owners)) == {"m1", "m2", "m3", "m4", "s2"}


def test_they_can_be_undone_from_a_latest_assignment_back() -> None:
    _, outputs = play(EVENTS, naming="changed")
    latest = assignments(outputs)[-1].assignment
    assert latest is not None
    owners = Owners.of(latest)
    for short, full in zip(reversed(brief()), reversed(whole()), strict=True):
        owners.undo(short)
        before = [one.owned for one in full.members.values() if one.owned]
        held = [share for share in owned(owners).values() if share]
        assert sorted(map(str, held)) == sorted(map(str, before))
    assert not owners.members


def test_a_member_that_came_back_after_the_last_diff_is_undone_under_the_id_that_diffs_know() -> None:
    events = EVENTS[:-1]
    _, outputs = play(events, naming="changed")
    latest = assignments(outputs)[-1].assignment
    assert latest is not None
    assert "s2" in latest.members
    owners = Owners.of(latest)
    for short in reversed(diffs(outputs)):
        owners.undo(short)
    assert owned(owners) == {}


def test_a_latest_assignment_is_that_of_the_diffs_after_it() -> None:
    _, outputs = play(EVENTS, naming="changed")
    told = [one.assignment for one in outputs if isinstance(one, AssignmentOutput)]
    ids = [(one.id, one.diff) for one in outputs if isinstance(one, DiffOutput)]
    for latest in told:
        assert latest is not None
        after = [one for one, _ in ids].index(latest.after) + 1 if latest.after is not UNSET else 0
        found = current(latest, ids[after:])
        assert found == structs.replace(told[-1] or latest, after=found.after)
        assert found.after == ids[-1][0]


def test_what_does_not_follow_is_refused_and_left_as_it_is() -> None:
    *_, first, second = brief()
    assert first.unchanged is not UNSET
    owners = Owners()
    with pytest.raises(DoesNotFollow, match="round 2 of generation 11: the diff leaves out 5"):
        owners.whole(first)
    with pytest.raises(DoesNotFollow):
        owners.take(first)
    together = Together()
    assert together.whole(first) is first
    assert together.whole(second) is second
    latest = LatestAssignment(
        group_id="g",
        protocol="consumer",
        assignor=None,
        generation=None,
        group_epoch=3,
        timestamp=1,
        members={"x": {"t": [1]}},
    )
    assert current(latest, [("1", first)]) is latest


def test_what_an_old_diff_does_not_say_of_presence_is_seen_by_what_is_held() -> None:
    owners = Owners()
    members = {
        "a": change(assigned={"t": [0]}, present=None),
        "b": change({"t": [0]}, {"t": [0]}, present=None),
    }
    owners.take(structs.replace(whole()[0], members=members))
    assert owned(owners) == {"a": {"t": [0]}}
