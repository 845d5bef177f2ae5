"""Who owns what, from diffs that leave out who kept everything."""

from __future__ import annotations

import pytest
from msgspec import UNSET, structs

from streaming.monitor.rendering import AssignmentOutput, DiffOutput
from streaming.wire.diffs import FEW, Cause, Diff, LatestAssignment
from streaming.wire.events import Holding
from streaming.wire.owners import DoesNotFollow, Owners, Together, current
from tests.support.histories import assignments, change, diffs, handed_on, play, sample

EVENTS = handed_on()


def brief() -> list[Diff]:
    return diffs(play(EVENTS, naming="changed")[1])


def whole() -> list[Diff]:
    return diffs(play(EVENTS, naming="all")[1])


def owned(owners: Owners) -> dict[str, Holding]:
    return {name: one.owned for name, one in owners.members.items()}


def assignment(members: dict[str, Holding]) -> LatestAssignment:
    return LatestAssignment(
        group_id="g",
        protocol="consumer",
        assignor=None,
        generation=None,
        group_epoch=3,
        timestamp=1,
        members=members,
    )


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
    latest = assignment({"x": {"t": [1]}})
    assert current(latest, [("1", first)]) is latest


def known(unassigned: Holding, cause: Cause | None = None) -> Owners:
    """Owners ``a`` and ``b``, the diff before of which said this."""
    owners = Owners()
    members = {"a": change(assigned={"t": [0]}), "b": change(assigned={"t": [1]})}
    first = sample(members=members, unassigned=unassigned)
    owners.take(first if cause is None else structs.replace(first, cause=cause))
    return owners


def test_what_nobody_has_is_what_nobody_had_but_for_what_the_diff_says() -> None:
    owners = known({"t": [2, 5], "u": [3]})
    members = {"a": change({"t": [0]}, {"t": [0]}, {"t": [5]})}
    step = sample(members=members, unassigned={"t": [0]}, unchanged=1, still_unassigned=2)

    assert owners.whole(step).unassigned == {"t": [0, 2], "u": [3]}
    assert owners.whole(step).still_unassigned is UNSET
    owners.take(step)
    assert owners.unassigned == {"t": [0, 2], "u": [3]}
    owners.undo(step)
    assert owners.unassigned == {"t": [2, 5], "u": [3]}


def test_a_diff_that_leaves_out_other_partitions_does_not_follow() -> None:
    step = sample(members={}, unassigned={}, unchanged=2, still_unassigned=3)
    assert known({"t": [2, 5, 6]}).fits(step)
    with pytest.raises(DoesNotFollow, match="and 3 partitions"):
        known({"t": [2, 5]}).whole(step)


def test_a_cause_that_is_left_out_is_that_of_the_diff_before() -> None:
    cause = Cause(kind="member.left", member_ids=["x", "y"])
    same = Cause(kind="member.left", omitted=2)
    step = sample(members={}, unassigned={}, unchanged=2, cause=same)
    owners = known({}, cause)

    assert owners.whole(step).cause == cause
    owners.take(step)
    owners.undo(step)
    assert owners.whole(step).cause == cause
    owners.undo(structs.replace(step, cause=cause))
    assert owners.whole(step).cause == same


def test_a_latest_assignment_says_what_the_next_diff_may_leave_out() -> None:
    cause = Cause(kind="member.left", member_ids=[f"m{number}" for number in range(FEW + 1)])
    free = {"t": [*range(2, FEW + 3)]}
    latest = assignment({"a": {"t": [0]}, "b": {"t": [1]}})
    first = sample(members={"a": change({"t": [0]}, kept={"t": [0]})}, unassigned=free, unchanged=1)

    found = current(latest, [("1", structs.replace(first, cause=cause))])

    assert (found.cause, found.unassigned) == (cause, free)
    assert Owners.of(found).unassigned == free
    assert Owners.of(found).cause == cause
    settled = current(found, [("2", first)])
    assert (settled.cause, settled.unassigned) == (UNSET, free)


def test_what_an_old_diff_does_not_say_of_presence_is_seen_by_what_is_held() -> None:
    owners = Owners()
    members = {
        "a": change(assigned={"t": [0]}, present=None),
        "b": change({"t": [0]}, {"t": [0]}, present=None),
    }
    owners.take(structs.replace(whole()[0], members=members))
    assert owned(owners) == {"a": {"t": [0]}}
