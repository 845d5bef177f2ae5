"""Starts and ends of groups that ran already, or were empty, when the monitor first observed them."""

import pytest
from msgspec import structs

from streaming.episodes.notes import existed_before
from streaming.records.diffs import Cause
from streaming.records.events import GROUP_CREATED, Evidence
from tests.support.built_diffs import DiffBuilder
from tests.support.diff_episodes import episodes
from tests.unit.streaming.episodes.test_kinds import THREE_MEMBERS, restart_one_by_one


def first_seen(generation: int, *ids: str, created: bool = False) -> DiffBuilder:
    """Return a group that is observed for the first time at this generation."""
    why = Evidence(source="comparison", reason=f"first observation, at generation {generation}")
    creation_evidence = Evidence(source="group-records", reason="no record of the group before", kind=GROUP_CREATED)
    builder = DiffBuilder().round("member.joined", joined=ids, evidence=(why, creation_evidence) if created else (why,))
    diff_id, diff = builder.diffs[0]
    builder.diffs[0] = (diff_id, structs.replace(diff, generation=generation))
    return builder


@pytest.mark.parametrize(("generation", "members"), [(2, 1), (2, 2), (3, 2), (4, 3)])
def test_superseded_first_generation_may_be_a_start(generation: int, members: int) -> None:
    (record,) = episodes("g", first_seen(generation, *THREE_MEMBERS[:members]).diffs)
    assert (record.kind, record.sure) == ("first-start", False)
    assert record.story.startswith(f"Probably started with {members} member")
    assert "before it was" not in record.evidence[-1].reason


def test_superseded_first_generation_is_unsure_scale_out() -> None:
    (record,) = episodes("g", first_seen(2, "a@h1#1").join("b@h2#1").join("c@h3#1").diffs)
    assert (record.kind, record.sure, record.members.after) == ("first-start", False, 3)


def test_group_created_while_collecting_is_a_sure_start() -> None:
    (record,) = episodes("g", first_seen(3, *THREE_MEMBERS, created=True).diffs)
    assert (record.kind, record.sure, record.members.joined) == ("first-start", True, [*THREE_MEMBERS])


def test_late_generation_does_not_prove_a_start() -> None:
    (record,) = episodes("g", first_seen(90, *THREE_MEMBERS).diffs)
    assert (record.kind, record.sure) == ("unknown", False)
    assert record.evidence[-1].reason == "first seen at generation 90: earlier events are unknown"


def test_join_to_group_first_seen_midway_is_unsure_scale_out() -> None:
    (record,) = episodes("g", first_seen(90, *THREE_MEMBERS).join("d@h4#1").diffs)
    assert (record.kind, record.sure) == ("scale-out", False)
    assert record.story.startswith("Probably scaled out from 3 to 4 members (d joined), ")


def test_rolling_restart_after_a_start_is_its_own_episode() -> None:
    first, second = episodes("g", restart_one_by_one(DiffBuilder().join(*THREE_MEMBERS), *THREE_MEMBERS).diffs)
    assert (first.kind, first.status, first.sure) == ("first-start", "settled", True)
    assert (second.kind, second.status, second.sure) == ("rolling-restart", "settled", True)
    assert second.members.before == 3


def test_restarts_right_after_a_start_are_a_second_episode() -> None:
    builder = DiffBuilder().join(*THREE_MEMBERS)
    for member_id in THREE_MEMBERS:
        left = Evidence(source="coordinator-log", reason="closed", member_ids=[member_id], kind="member.left")
        builder.round("member.joined", joined=(member_id.replace("#1", "#2"),), gone=(member_id,), evidence=(left,))
    assert [episode.kind for episode in episodes("g", builder.diffs)] == ["first-start", "rolling-restart"]


@pytest.mark.parametrize("reasons", [(), ("first observation, at generation 7",)])
def test_group_first_observed_empty_is_not_a_shutdown(reasons: tuple[str, ...]) -> None:
    evidence = tuple(Evidence(source="comparison", reason=reason) for reason in reasons)
    (record,) = episodes("g", DiffBuilder().round("group.observed", evidence=evidence).diffs)
    assert (record.kind, record.sure) == ("unknown", False)
    assert record.story.startswith("No members, ")


def test_a_deleted_empty_group_was_deleted() -> None:
    (record,) = episodes("g", DiffBuilder().round("group.deleted").diffs)
    assert record.story.startswith("Deleted, ")


def test_members_that_start_and_leave_are_a_start_and_a_shutdown() -> None:
    builder = DiffBuilder()
    for member_id in THREE_MEMBERS:
        builder.join(member_id)
    for member_id in THREE_MEMBERS:
        builder.leave(member_id)
    first, second = episodes("g", builder.diffs)
    assert (first.kind, first.status, first.members.after) == ("first-start", "settled", 3)
    assert (second.kind, second.sure, second.members.before) == ("shutdown", True, 3)
    assert second.story.startswith("Shut down (all 3 members left), ")


def test_partitions_of_older_members_prove_an_older_group() -> None:
    cause = Cause(kind="member.joined", member_ids=["new"])
    assert existed_before(cause, {"new": {}, "old": {"t": [0]}})
    assert not existed_before(cause, {"new": {"t": [0]}, "other": {}})
