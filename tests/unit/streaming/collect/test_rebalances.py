"""Rebalances in progress, from group lists, log lines and records: their begin, members, changes and end."""

from typing import Any

import pytest
from msgspec import UNSET

from streaming.collect.broker_log.events import CoordinatorEvent, LogTimestamp, MessageKind, ReasonKind
from streaming.collect.rebalances import KnownGroup, ListedGroup, Rebalances
from streaming.records.events import GroupDeleted, GroupObserved, GroupRebalancing, ObservedMember

PREPARING = "PreparingRebalance"
NOW_MS = 1_700_000_000_000


def member(name: str, **fields: Any) -> ObservedMember:
    fields = {"topics": ["t"], "assigned": {}, "rebalance_timeout_ms": 300_000} | fields
    return ObservedMember(member_id=name, **fields)


def classic(*names: str, generation: int = 3, **fields: Any) -> GroupObserved:
    members = [member(name) for name in names]
    return GroupObserved(group_id="g", timestamp=NOW_MS - 9_000, members=members, generation=generation, **fields)


def modern(*members: ObservedMember, state: str = "Reconciling", at: int = NOW_MS) -> GroupObserved:
    return GroupObserved(
        group_id="g", timestamp=at, members=[*members], group_epoch=8, group_protocol="consumer", state=state
    )


def prepare_event(reason: ReasonKind, *members: str, at: int = NOW_MS) -> CoordinatorEvent:
    return CoordinatorEvent(
        kind=MessageKind.PREPARING,
        group_id="g",
        number=3,
        member_ids=members,
        reason=f"{reason} {' '.join(members)}",
        reason_kind=reason,
        timestamp=LogTimestamp(at),
    )


def line(kind: MessageKind, *members: str) -> CoordinatorEvent:
    return CoordinatorEvent(kind=kind, group_id="g", member_ids=members)


def known_group(snapshot: GroupObserved, **commits: int) -> Any:
    return lambda _: KnownGroup(snapshot, lambda member: commits.get(member.member_id))


def listed(state: str = PREPARING, *members: str) -> dict[str, ListedGroup]:
    return {"g": ListedGroup(state, frozenset(members) or None)}


def rebalancing(at: int, **fields: Any) -> GroupRebalancing:
    fields = {"since": NOW_MS, "state": PREPARING, "source": "admin"} | fields
    return GroupRebalancing(group_id="g", timestamp=at, **fields)


def test_members_missing_in_a_rebalance_list_are_awaited() -> None:
    rebalances, group = Rebalances(), known_group(classic("a", "b"))
    rebalances.apply_list(listed(PREPARING, "a", "b", "new"), NOW_MS)
    assert rebalances.events(group, NOW_MS + 999) == []
    until = dict.fromkeys("ab", NOW_MS + 300_000)
    first = rebalancing(NOW_MS + 1000, joined=["new"], awaited=["a", "b"], until=until)
    assert rebalances.events(group, NOW_MS + 1000) == [first]
    assert rebalances.events(group, NOW_MS + 2000) == []


@pytest.mark.parametrize(
    ("a", "b", "expected"),  # the last commits of both members, ms since the begin of the rebalance
    [
        (100, -5000, (["a"], ["b"], False)),
        (100, 100, ([], ["a", "b"], False)),  # commits by every member show no rejoin
        (-100, 0, ([], ["a", "b"], True)),
    ],
)
def test_only_some_members_that_commit_have_rejoined(
    a: int, b: int, expected: tuple[list[str], list[str], bool]
) -> None:
    rebalances, group = Rebalances(), known_group(classic("a", "b"), a=NOW_MS + a, b=NOW_MS + b)
    rebalances.apply_list(listed(), NOW_MS)
    (event,) = rebalances.events(group, NOW_MS + 1000)
    assert (event.joined, event.awaited, event.commits_stopped) == expected


def test_the_log_gives_begin_reason_and_joined_members() -> None:
    rebalances, group = Rebalances(), known_group(classic("a", "b"))
    rebalances.apply_list(listed(), NOW_MS + 400)
    rebalances.add_log_event(prepare_event(ReasonKind.JOINED, "new"), NOW_MS + 500)
    rebalances.add_log_event(line(MessageKind.MEMBER_JOINING, "newer"), NOW_MS + 600)
    rebalances.add_log_event(line(MessageKind.MEMBER_LEFT, "b"), NOW_MS + 700)
    assert rebalances.events(group, NOW_MS + 1400) == [
        rebalancing(
            NOW_MS + 1400,
            source="coordinator-log",
            reason="joined new",
            joined=["new", "newer"],
            awaited=["a"],
            until={"a": NOW_MS + 300_000},
        )
    ]


def test_a_log_in_another_time_zone_gives_the_same_begin() -> None:
    rebalances = Rebalances()
    rebalances.add_log_event(prepare_event(ReasonKind.LEFT, "b", at=NOW_MS - 2 * 3_600_000), NOW_MS + 50)
    assert [event.since for event in rebalances.events(known_group(classic("a", "b")), NOW_MS + 2000)] == [NOW_MS]


def test_changes_are_published_at_most_once_a_second() -> None:
    rebalances, group = Rebalances(), known_group(classic("a", "b"))
    rebalances.add_log_event(prepare_event(ReasonKind.JOINED, "new"), NOW_MS)
    assert len(rebalances.events(group, NOW_MS + 1000)) == 1
    rebalances.add_log_event(line(MessageKind.MEMBER_FENCED, "b"), NOW_MS + 1100)
    assert rebalances.events(group, NOW_MS + 1200) == []
    assert [event.awaited for event in rebalances.events(group, NOW_MS + 2000)] == [["a"]]


def test_no_member_is_awaited_while_the_leader_assigns() -> None:
    rebalances = Rebalances()
    rebalances.apply_list(listed("CompletingRebalance", "a", "b"), NOW_MS)
    (event,) = rebalances.events(known_group(classic("a", "b")), NOW_MS + 1000)
    assert (event.joined, event.awaited) == (["a", "b"], [])


def test_next_generation_ends_a_rebalance_without_an_event() -> None:
    rebalances, group = Rebalances(), known_group(classic("a"))
    rebalances.add_log_event(prepare_event(ReasonKind.JOINED, "new"), NOW_MS)
    assert len(rebalances.events(group, NOW_MS + 1000)) == 1
    rebalances.apply_event(classic("a", generation=3))  # an older record that is read later
    assert "g" in rebalances.groups()
    rebalances.apply_event(classic("a", "new", generation=4))
    assert "g" not in rebalances.groups()
    assert rebalances.events(group, NOW_MS + 5000) == []


def test_rebalance_missing_from_two_listings_has_ended() -> None:
    rebalances, group = Rebalances(), known_group(classic("a"))
    rebalances.apply_list(listed(), NOW_MS)
    (first,) = rebalances.events(group, NOW_MS + 1000)
    rebalances.apply_list({}, NOW_MS + 1500)
    rebalances.apply_list({}, NOW_MS + 2500, complete=False)
    assert rebalances.events(group, NOW_MS + 2500) == []
    rebalances.apply_list({}, NOW_MS + 3500)
    assert rebalances.events(group, NOW_MS + 3500) == [rebalancing(NOW_MS + 3500, state=None, ended=True)]
    assert first.awaited == ["a"]
    assert rebalances.events(group, NOW_MS + 9000) == []


def test_a_rebalance_in_one_list_only_publishes_nothing() -> None:
    rebalances, group = Rebalances(), known_group(classic("a"))
    rebalances.apply_list(listed(), NOW_MS)
    rebalances.apply_list({}, NOW_MS + 1000)
    assert rebalances.events(group, NOW_MS + 1000) == []
    rebalances.apply_list({}, NOW_MS + 2000)
    assert rebalances.events(group, NOW_MS + 2000) == []
    assert "g" not in rebalances.groups()


def test_a_deleted_group_does_not_rebalance() -> None:
    rebalances = Rebalances()
    rebalances.apply_list(listed(), NOW_MS)
    rebalances.apply_event(GroupDeleted(group_id="g", timestamp=NOW_MS))
    assert "g" not in rebalances.groups()


def test_a_consumer_group_awaits_members_that_revoke() -> None:
    revoking = member("a", member_epoch=7, state="UNREVOKED_PARTITIONS", pending_revocation={"t": [1]})
    waiting = member("b", member_epoch=8, state="UNRELEASED_PARTITIONS")
    steps = [modern(revoking, waiting), modern(revoking, waiting, at=NOW_MS + 900)]
    rebalances = Rebalances()
    for step in steps:
        rebalances.apply_event(step)
    group = known_group(steps[-1])
    assert rebalances.events(group, NOW_MS + 1000) == [
        rebalancing(
            NOW_MS + 1000,
            state="Reconciling",
            source="records",
            joined=["b"],
            awaited=["a"],
            until={"a": NOW_MS + 300_000},
        )
    ]
    rebalances.apply_list({}, NOW_MS + 1500)
    rebalances.apply_list({}, NOW_MS + 2500)  # records take precedence over ListGroups
    assert rebalances.events(group, NOW_MS + 2500) == []
    rebalances.apply_event(modern(state="Stable", at=NOW_MS + 3000))
    (last,) = rebalances.events(group, NOW_MS + 3000)
    assert (last.ended, last.state, last.awaited, last.until) == (True, "Stable", [], {})


def test_a_member_behind_the_epoch_is_awaited() -> None:
    snapshot = modern(member("a", member_epoch=7, state="STABLE"), member("b", member_epoch=8, state="STABLE"))
    rebalances = Rebalances()
    rebalances.apply_event(snapshot)
    (event,) = rebalances.events(known_group(snapshot), NOW_MS + 1000)
    assert (event.joined, event.awaited, event.until) == (["b"], ["a"], {})


def test_group_without_a_snapshot_awaits_no_member() -> None:
    rebalances = Rebalances()
    rebalances.apply_list(listed(PREPARING, "a"), NOW_MS)
    expected = rebalancing(NOW_MS + 1000, joined=["a"], commits_stopped=UNSET)
    assert rebalances.events(lambda _: None, NOW_MS + 1000) == [expected]


def test_restarted_collector_ends_earlier_rebalances() -> None:
    before = rebalancing(NOW_MS - 60_000, awaited=["a"])
    rebalances = Rebalances({"g": before})
    rebalances.apply_list({}, NOW_MS)
    rebalances.apply_list({}, NOW_MS + 1000)
    assert [event.ended for event in rebalances.events(known_group(classic("a")), NOW_MS + 1000)] == [True]
