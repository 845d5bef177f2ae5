from typing import TypeVar

import msgspec
import pytest

from streaming.records.diffs import Cause, Diff, LatestAssignment, MemberDiff
from streaming.serve import records
from streaming.serve.records import (
    GroupSummary,
    RoundSummary,
    TopicRecord,
    UnusableRecord,
    parse_assignment,
    parse_round,
)
from tests.support.feed import ASSIGNMENTS
from tests.support.feed import records as diff_records
from tests.support.histories import Group, change, sample

_StructType = TypeVar("_StructType", bound=msgspec.Struct)


def build_struct(kind: type[_StructType], *values: object) -> _StructType:
    return kind(**dict(zip(kind.__struct_fields__, values, strict=False)))


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


@pytest.mark.parametrize(
    ("newest", "state"),
    [
        (diff(), "PreparingRebalance"),  # until the revoked partitions are owned
        (diff(generation=None, group_epoch=7), "Reconciling"),
        (diff(members={"c1": member([0], [], [1])}, unassigned={"other": [0]}), "Stable"),  # no member subscribes to it
        (diff("member.fenced", "c1", members={"c1": member([0], [0], present=False)}, unassigned={"t": [0]}), "Empty"),
        (diff("group.deleted", "", members={}, unassigned={}), "Dead"),
    ],
)
def test_group_has_the_state_of_its_newest_round(newest: Diff, state: str) -> None:
    assert records.summarise("id-1", newest).state == state


def test_partitions_of_omitted_members_are_counted() -> None:
    summary = records.summarise("id-1", diff(unchanged=2, unchanged_partitions=9))
    assert (summary.members, summary.partitions) == (3 + 2, 6 + 9)


def test_summaries_name_only_the_members_concerned() -> None:
    members = {
        "c1": change(owned={"t": [0]}, kept={"t": [0]}, client_id="idle"),
        "c2": change(owned={"t": [1]}, revoked={"t": [1]}, client_id="loser"),
        "c3": change(assigned={"t": [1]}, group_instance_id="i-3"),
        "c4": change(present=False, client_id="orders"),
        "c5": change(assigned={"t": [2]}),
    }
    summary = records.summarise("id-1", diff("member.left", "c4", members=members, unassigned={}))
    assert summary.names == {"c2": "loser", "c3": "i-3", "c4": "orders"}
    assert records.advance(None, 1, summary).names == {"c4": "orders"}


def test_group_lists_members_of_the_newest_round_of_each_cause() -> None:
    def left(*gone: str) -> Diff:
        members = {name: change(client_id=None if name == "unnamed" else name) for name in gone}
        return diff(cause=Cause(kind="member.left", member_ids=[*gone]), members=members, unassigned={})

    joined = diff(members={"c3": change(group_instance_id="i-9")}, unassigned={})
    assert after(joined, left("a"), left("b", "c")).cause_members == {"member.joined": "i-9", "member.left": "b, c"}
    assert after(left("a", "b", "unnamed")).cause_members == {"member.left": "a and 2 more"}
    assert after(joined, left("a"), left("unnamed")).cause_members == {"member.joined": "i-9"}


@pytest.mark.parametrize(
    ("members", "count"),
    [
        # One member leaves and another joins in the same generation.
        ({"c1": member([0]), "c2": member([1], [1], present=False), "c3": member(None, None, [1])}, 2),
        # A member without partitions counts; a departed member does not.
        ({"c1": member([0]), "c2": member(), "c3": member([1], [1], present=False)}, 2),
        # In diffs without ``present`` every listed member counts, including a member that rejoined in the round.
        ({"c2": member([1], [], present=None)}, 1),
        ({"c2": member([], [], [1], present=None)}, 1),
    ],
)
def test_members_in_the_group_after_a_round_are_counted(members: dict[str, MemberDiff], count: int) -> None:
    assert records.summarise("id-1", diff("member.left", "c3", members=members, unassigned={})).members == count


def test_round_changes_list_new_owners_before_unassigned() -> None:
    assert records.changes(diff()) == [(None, "t", [2, 5])]
    second = diff(round=2, members={"c1": member([0, 1]), "c3": member([], [], [2, 5])}, unassigned={})
    assert records.changes(second) == [("c3", "t", [2, 5])]
    diff_of_handover = diff(members={"c1": member([0, 1], [1]), "c2": member([], [], [1])}, unassigned={})
    assert records.changes(diff_of_handover) == [("c2", "t", [1])]


#: Fields that the summaries of the first round and of its group share.
FIRST_ROUND = build_struct(
    RoundSummary,
    *("g", "classic", "cooperative-sticky", 2, None, 1, 1000),
    *("PreparingRebalance", 3, 6, 2, 3, ["two owners"], "consumer", {}),
    *("id-7", Cause(kind="member.joined", member_ids=["c3"])),
)


def test_round_summary_equals_its_diff() -> None:
    assert records.summarise("id-7", diff(moved=3, violations=["two owners"])) == FIRST_ROUND


def after(*diffs: Diff) -> GroupSummary:
    group = None
    for seq, round_ in enumerate(diffs, 7):
        group = records.advance(group, seq, records.summarise(f"id-{seq}", round_))
    assert group is not None
    return group


def test_first_round_starts_the_totals_of_a_group() -> None:
    fields = {name: value for name, value in msgspec.structs.asdict(FIRST_ROUND).items() if name != "id"}
    assert after(diff(moved=3, violations=["two owners"])) == GroupSummary(
        **fields,
        seq=7,
        rounds=1,
        rebalances=1,
        moved_total=3,
        causes={"member.joined": 1},
        rebalance_causes={"member.joined": 1},
        unavailable_ms=0,
        rebalance_started=1000,
        rebalance_ms=0,
    )


def test_rebalance_and_unavailable_times_add_up() -> None:
    """In one episode two partitions have no owner for 400 ms; 600 s later one partition has none for 300 ms."""
    group = after(
        diff(timestamp=1000, moved=0),
        diff(timestamp=1400, round=2, moved=2, unassigned={}),
        diff("member.left", timestamp=601_400, unassigned={"t": [5]}, moved=1),
        diff("member.left", timestamp=601_700, round=2, moved=4, unassigned={}),
    )
    assert (group.rounds, group.rebalances, group.moved_total) == (4, 2, 7)
    assert (group.rebalance_started, group.rebalance_ms, group.unavailable_ms) == (601_400, 700, 1100)
    assert group.causes == {"member.joined": 2, "member.left": 2}


def test_backward_clock_adds_no_negative_time() -> None:
    group = after(diff(timestamp=1000), diff(timestamp=900, round=2, unassigned={}))
    assert (group.rebalance_ms, group.unavailable_ms, group.timestamp) == (0, 0, 900)


def test_time_before_the_first_stored_round_is_not_counted() -> None:
    """The time before the first stored round is counted neither as rebalance time nor as downtime."""
    assigned = records.apply_assignment(None, LATEST_ASSIGNMENT)
    first = records.advance(assigned, 1, records.summarise("a", diff(round=2)))
    assert (first.rounds, first.rebalances, first.rebalance_started) == (1, 1, 1000)
    assert (first.rebalance_ms, first.unavailable_ms) == (0, 0)


LATEST_ASSIGNMENT = build_struct(
    LatestAssignment, *("g", "consumer", "uniform", None, 9, 5), {"c1": {"t": [0, 1], "u": [3]}, "c2": {}}
)


def test_latest_assignment_alone_gives_a_group_summary() -> None:
    assert records.apply_assignment(None, LATEST_ASSIGNMENT) == GroupSummary(
        group_id="g",
        state="Stable",
        protocol="consumer",
        assignor="uniform",
        generation=None,
        group_epoch=9,
        round=0,
        members=2,
        partitions=3,
        unassigned=0,
        cause=None,
        moved=0,
        violations=[],
        timestamp=5,
    )
    without_members = msgspec.structs.replace(LATEST_ASSIGNMENT, members={})
    assert records.apply_assignment(None, without_members).state == "Empty"
    assert records.apply_assignment(records.apply_assignment(None, LATEST_ASSIGNMENT), without_members).members == 0


def test_late_assignment_updates_the_member_count_unless_dead() -> None:
    group = after(diff(timestamp=1000))
    same = msgspec.structs.replace(LATEST_ASSIGNMENT, timestamp=1000)
    assert records.apply_assignment(group, same) == msgspec.structs.replace(group, members=2)
    assert records.apply_assignment(group, LATEST_ASSIGNMENT) == group  # the assignment is older than the round
    dead_group = after(diff(timestamp=1000), diff("group.deleted", "", timestamp=1100, members={}, unassigned={}))
    late = msgspec.structs.replace(LATEST_ASSIGNMENT, timestamp=1200)
    assert records.apply_assignment(dead_group, late) == dead_group


def test_shared_partition_counts_once_and_has_another_owner() -> None:
    diff = sample(
        kind="share",
        members={
            "a": change(owned={"t": [0, 1]}, revoked={"t": [0]}, kept={"t": [1]}),
            "b": change(owned={"t": [0]}, assigned={"t": [1]}, kept={"t": [0]}),
        },
        unassigned={"t": [2]},
    )

    assert records.changes(diff) == [("b", "t", [0]), ("b", "t", [1]), (None, "t", [2])]
    summary = records.summarise("id", diff)
    assert (summary.kind, summary.partitions, summary.unassigned) == ("share", 3, 1)


def test_missing_kind_means_consumer() -> None:
    assert records.summarise("id", sample()).kind == "consumer"
    assert records.apply_assignment(None, LATEST_ASSIGNMENT).kind == "consumer"
    connect = msgspec.structs.replace(LATEST_ASSIGNMENT, kind="connect")
    assert records.apply_assignment(None, connect).kind == "connect"
    assert records.advance(None, 1, records.summarise("id", sample(kind="connect"))).kind == "connect"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": None}, "header ce_id: missing"),
        ({"id": ""}, "header ce_id: missing"),
        ({"value": None}, "value: missing"),
        ({"value": b"{"}, "value: Input data was truncated"),
        ({"value": b"\xff"}, "value: 'utf-8' codec"),
    ],
)
def test_invalid_diff_is_refused(fields: dict[str, bytes | None], message: str) -> None:
    (record,) = diff_records(Group("g", {"t": 6}, 1).diffs(1))
    with pytest.raises(UnusableRecord, match=message):
        parse_round(msgspec.structs.replace(record, **fields))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (None, b"{}", "key: missing"),
        (b"\xff", b"{}", "key: 'utf-8' codec"),
        (b"\xff", None, "key: 'utf-8' codec"),
        (b"g", b"null", "value: Expected `object`"),
    ],
)
def test_invalid_assignment_is_refused(key: bytes | None, value: bytes | None, message: str) -> None:
    with pytest.raises(UnusableRecord, match=message):
        parse_assignment(TopicRecord(ASSIGNMENTS, 0, 0, key, value, None))
