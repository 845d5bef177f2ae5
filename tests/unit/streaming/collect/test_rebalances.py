"""Rebalances in progress, from group lists, log lines and records: their begin, members, changes and end."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from streaming.collect.broker_log.events import CoordinatorEvent, LogTimestamp, MessageKind, ReasonKind
from streaming.collect.rebalances import KnownGroup, ListedGroup, Rebalances
from streaming.records.events import GroupDeleted, GroupObserved, GroupRebalancing, ObservedMember

PREPARING = "PreparingRebalance"
NOW = 1_700_000_000_000


def member(name: str, **fields: Any) -> ObservedMember:
    fields = {"topics": ["t"], "assigned": {}, "rebalance_timeout_ms": 300_000} | fields
    return ObservedMember(member_id=name, **fields)


def classic(*names: str, generation: int = 3, **fields: Any) -> GroupObserved:
    members = [member(name) for name in names]
    return GroupObserved(group_id="g", timestamp=NOW - 9_000, members=members, generation=generation, **fields)


def modern(*members: ObservedMember, state: str = "Reconciling", at: int = NOW) -> GroupObserved:
    return GroupObserved(
        group_id="g", timestamp=at, members=[*members], group_epoch=8, group_protocol="consumer", state=state
    )


def preparing(reason: ReasonKind, *members: str, at: int = NOW, number: int = 3) -> CoordinatorEvent:
    return CoordinatorEvent(
        kind=MessageKind.PREPARING,
        group_id="g",
        number=number,
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
    fields = {"since": NOW, "state": PREPARING, "source": "admin"} | fields
    return GroupRebalancing(group_id="g", timestamp=at, **fields)


def test_a_listed_group_awaits_members_that_did_not_rejoin() -> None:
    rebalances, group = Rebalances(), known_group(classic("a", "b"))
    rebalances.listed(listed(PREPARING, "a", "b", "new"), NOW)
    assert rebalances.events(group, NOW + 999) == []
    until = dict.fromkeys("ab", NOW + 300_000)
    first = rebalancing(NOW + 1000, joined=["new"], awaited=["a", "b"], until=until)
    assert rebalances.events(group, NOW + 1000) == [first]
    assert rebalances.events(group, NOW + 2000) == []


def test_a_member_that_commits_has_rejoined() -> None:
    rebalances, group = Rebalances(), known_group(classic("a", "b"), a=NOW + 100, b=NOW - 5000)
    rebalances.listed(listed(), NOW)
    (event,) = rebalances.events(group, NOW + 1000)
    assert (event.joined, event.awaited, event.commits_stopped) == (["a"], ["b"], False)


def test_commits_of_all_members_leave_every_member_awaited() -> None:
    rebalances, group = Rebalances(), known_group(classic("a"), a=NOW + 100)
    rebalances.listed(listed(), NOW)
    (event,) = rebalances.events(group, NOW + 1000)
    assert (event.joined, event.awaited) == ([], ["a"])


def test_commits_have_stopped_if_the_last_is_older() -> None:
    rebalances, group = Rebalances(), known_group(classic("a", "b"), a=NOW - 100, b=NOW)
    rebalances.listed(listed(), NOW)
    assert [event.commits_stopped for event in rebalances.events(group, NOW + 1000)] == [True]


def test_the_log_gives_begin_reason_and_joined_members() -> None:
    rebalances, group = Rebalances(), known_group(classic("a", "b"))
    rebalances.listed(listed(), NOW + 400)
    rebalances.log(preparing(ReasonKind.JOINED, "new"), NOW + 500)
    rebalances.log(line(MessageKind.MEMBER_JOINING, "newer"), NOW + 600)
    rebalances.log(line(MessageKind.MEMBER_LEFT, "b"), NOW + 700)
    assert rebalances.events(group, NOW + 1400) == [
        rebalancing(
            NOW + 1400,
            source="coordinator-log",
            reason="joined new",
            joined=["new", "newer"],
            awaited=["a"],
            until={"a": NOW + 300_000},
        )
    ]


def test_a_log_in_another_time_zone_gives_the_same_begin() -> None:
    rebalances = Rebalances()
    rebalances.log(preparing(ReasonKind.LEFT, "b", at=NOW - 2 * 3_600_000), NOW + 50)
    assert [event.since for event in rebalances.events(known_group(classic("a", "b")), NOW + 2000)] == [NOW]


def test_changes_are_published_at_most_once_a_second() -> None:
    rebalances, group = Rebalances(), known_group(classic("a", "b"))
    rebalances.log(preparing(ReasonKind.JOINED, "new"), NOW)
    assert len(rebalances.events(group, NOW + 1000)) == 1
    rebalances.log(line(MessageKind.MEMBER_FENCED, "b"), NOW + 1100)
    assert rebalances.events(group, NOW + 1200) == []
    assert [event.awaited for event in rebalances.events(group, NOW + 2000)] == [["a"]]


def test_no_member_is_awaited_while_the_leader_assigns() -> None:
    rebalances = Rebalances()
    rebalances.listed(listed("CompletingRebalance", "a", "b"), NOW)
    (event,) = rebalances.events(known_group(classic("a", "b")), NOW + 1000)
    assert (event.joined, event.awaited) == (["a", "b"], [])


def test_the_next_generation_ends_a_rebalance_without_an_event() -> None:
    rebalances, group = Rebalances(), known_group(classic("a"))
    rebalances.log(preparing(ReasonKind.JOINED, "new"), NOW)
    assert len(rebalances.events(group, NOW + 1000)) == 1
    rebalances.observed(classic("a", generation=3))  # an older record that is read later
    assert "g" in rebalances.groups()
    rebalances.observed(classic("a", "new", generation=4))
    assert "g" not in rebalances.groups()
    assert rebalances.events(group, NOW + 5000) == []


def test_rebalance_missing_from_two_listings_has_ended() -> None:
    rebalances, group = Rebalances(), known_group(classic("a"))
    rebalances.listed(listed(), NOW)
    (first,) = rebalances.events(group, NOW + 1000)
    rebalances.listed({}, NOW + 1500)
    rebalances.listed({}, NOW + 2500, complete=False)
    assert rebalances.events(group, NOW + 2500) == []
    rebalances.listed({}, NOW + 3500)
    assert rebalances.events(group, NOW + 3500) == [rebalancing(NOW + 3500, state=None, ended=True)]
    assert first.awaited == ["a"]
    assert rebalances.events(group, NOW + 9000) == []


def test_short_rebalances_publish_nothing() -> None:
    rebalances, group = Rebalances(), known_group(classic("a"))
    rebalances.listed(listed(), NOW)
    rebalances.listed({}, NOW + 400)
    rebalances.listed({}, NOW + 800)
    assert rebalances.events(group, NOW + 5000) == []


def test_a_rebalance_in_one_list_only_publishes_nothing() -> None:
    rebalances, group = Rebalances(), known_group(classic("a"))
    rebalances.listed(listed(), NOW)
    rebalances.listed({}, NOW + 1000)
    assert rebalances.events(group, NOW + 1000) == []
    rebalances.listed({}, NOW + 2000)
    assert rebalances.events(group, NOW + 2000) == []
    assert "g" not in rebalances.groups()


def test_a_deleted_group_does_not_rebalance() -> None:
    rebalances = Rebalances()
    rebalances.listed(listed(), NOW)
    rebalances.observed(GroupDeleted(group_id="g", timestamp=NOW))
    assert "g" not in rebalances.groups()


def test_a_consumer_group_awaits_members_that_revoke() -> None:
    revoking = member("a", member_epoch=7, state="UNREVOKED_PARTITIONS", pending_revocation={"t": [1]})
    waiting = member("b", member_epoch=8, state="UNRELEASED_PARTITIONS")
    steps = [modern(revoking, waiting), modern(revoking, waiting, at=NOW + 900)]
    rebalances = Rebalances()
    for step in steps:
        rebalances.observed(step)
    group = known_group(steps[-1])
    assert rebalances.events(group, NOW + 1000) == [
        rebalancing(
            NOW + 1000, state="Reconciling", source="records", joined=["b"], awaited=["a"], until={"a": NOW + 300_000}
        )
    ]
    rebalances.listed({}, NOW + 1500)
    rebalances.listed({}, NOW + 2500)  # records take precedence over ListGroups
    assert rebalances.events(group, NOW + 2500) == []
    rebalances.observed(modern(state="Stable", at=NOW + 3000))
    (last,) = rebalances.events(group, NOW + 3000)
    assert (last.ended, last.state, last.awaited, last.until) == (True, "Stable", [], {})


def test_a_member_behind_the_epoch_is_awaited() -> None:
    snapshot = modern(member("a", member_epoch=7, state="STABLE"), member("b", member_epoch=8, state="STABLE"))
    rebalances = Rebalances()
    rebalances.observed(snapshot)
    (event,) = rebalances.events(known_group(snapshot), NOW + 1000)
    assert (event.joined, event.awaited, event.until) == (["b"], ["a"], {})


def test_group_without_a_snapshot_awaits_no_member() -> None:
    rebalances = Rebalances()
    rebalances.listed(listed(PREPARING, "a"), NOW)
    expected = rebalancing(NOW + 1000, joined=["a"], commits_stopped=UNSET)
    assert rebalances.events(lambda _: None, NOW + 1000) == [expected]


def test_restarted_collector_ends_earlier_rebalances() -> None:
    before = rebalancing(NOW - 60_000, awaited=["a"])
    rebalances = Rebalances({"g": before})
    rebalances.listed({}, NOW)
    rebalances.listed({}, NOW + 1000)
    assert [event.ended for event in rebalances.events(known_group(classic("a")), NOW + 1000)] == [True]
