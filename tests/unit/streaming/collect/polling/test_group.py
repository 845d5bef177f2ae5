from typing import Any

import pytest
from msgspec import UNSET

from streaming.collect.polling.group import (
    UNAVAILABLE_EVIDENCE,
    UNKNOWN,
    OngoingRebalance,
    PolledGroup,
    poll,
    resumed,
    resumed_from_latest,
    shows_change,
)
from streaming.monitor.state import ownership
from streaming.records.diffs import LatestAssignment
from streaming.records.events import Event, Evidence, GroupDeleted, GroupObserved, ObservedMember, Partitions
from tests.support.histories import diffs, play


def member(
    name: str, assigned: list[int], target: list[int] | None = None, instance: str | None = None
) -> ObservedMember:
    def share(numbers: list[int]) -> Partitions:
        return {"t": numbers} if numbers else {}

    return ObservedMember(
        member_id=name,
        topics=[],
        assigned=share(assigned),
        target=None if target is None else share(target),
        group_instance_id=instance,
        client_id=name,
        client_host="/h",
    )


def classic(state: str, *members: ObservedMember, assignor: str | None = "range") -> GroupObserved:
    protocol = assignor if members else None
    return GroupObserved(group_id="g", timestamp=0, members=[*members], protocol=protocol, state=state)


def consumer(state: str, *members: ObservedMember) -> GroupObserved:
    return GroupObserved(
        group_id="g", timestamp=0, members=[*members], group_protocol="consumer", protocol="uniform", state=state
    )


def polled(*responses: GroupObserved, group: PolledGroup = UNKNOWN) -> tuple[PolledGroup, list[Event]]:
    """Apply coordinators' responses, which arrive one second apart; return the group and the published events."""
    events = []
    for number, answer in enumerate(responses, start=1):
        group, event = poll(group, answer, 1000 * number, "s")
        events += [] if event is None else [event]
    return group, events


def views(events: list[Event]) -> list[GroupObserved]:
    return [event.data for event in events if isinstance(event.data, GroupObserved)]


def numbers(*responses: GroupObserved) -> list[int | None]:
    return [
        view.group_epoch if view.group_protocol == "consumer" else view.generation
        for view in views(polled(*responses)[1])
    ]


A_OWNS_ALL, B_OWNS_NOTHING = member("a", [0, 1, 2, 3, 4, 5]), member("b", [])
A_OWNS_HALF, B_OWNS_HALF = member("a", [0, 1, 2]), member("b", [3, 4, 5])


def test_first_snapshot_marks_unknown_fields() -> None:
    _, (event,) = polled(classic("Stable", B_OWNS_HALF, A_OWNS_HALF))
    assert event.data == GroupObserved(
        group_id="g",
        timestamp=1000,
        members=[A_OWNS_HALF, B_OWNS_HALF],
        generation=1,
        protocol="range",
        state="Stable",
        evidence=[Evidence(source="polling", reason=UNAVAILABLE_EVIDENCE)],
    )


BOTH, BOTH_PREPARING = (classic(state, A_OWNS_HALF, B_OWNS_HALF) for state in ("Stable", "PreparingRebalance"))
A_OWNS_ONE = consumer("Stable", member("a", [0], [0]))


@pytest.mark.parametrize(
    ("responses", "expected"),
    [
        pytest.param([BOTH, BOTH, classic("Stable", B_OWNS_HALF, A_OWNS_HALF)], [1], id="same-members"),
        pytest.param([A_OWNS_ONE, A_OWNS_ONE], [1], id="same-members-and-targets"),
        pytest.param([classic("Empty"), classic("Stable", A_OWNS_ALL)], [1], id="empty-before"),
        pytest.param([classic("PreparingRebalance"), classic("Stable", A_OWNS_ALL)], [1], id="preparing-before"),
        pytest.param([classic("CompletingRebalance"), classic("Stable", A_OWNS_ALL)], [1], id="completing-before"),
        pytest.param([BOTH, BOTH_PREPARING, BOTH, BOTH], [1, 2], id="rebalance-without-changes"),
        pytest.param(
            [classic("Stable", A_OWNS_ALL), classic("Stable", A_OWNS_ALL, assignor="sticky")], [1, 2], id="assignor"
        ),
        pytest.param([classic("Stable", member("a", [0])), A_OWNS_ONE], [1, 2], id="protocol"),
        pytest.param(
            [
                A_OWNS_ONE,
                consumer("Reconciling", member("a", [0], [0, 1])),
                consumer("Stable", member("a", [0, 1], [0, 1])),
                consumer("Stable", member("a", [0, 1, 2], [0, 1, 2])),
            ],
            [1, 2, 2, 3],
            id="new-target-as-the-topic-grew",
        ),
        pytest.param(
            [
                consumer("Reconciling", member("a", [0], [0, 1])),
                consumer("Reconciling", member("a", [0], [0]), member("b", [], [1])),
                consumer("Reconciling", member("b", [], [0, 1])),
            ],
            [1, 2, 3],
            id="join-and-leave",
        ),
    ],
)
def test_each_seen_change_has_a_new_number(responses: list[GroupObserved], expected: list[int]) -> None:
    assert numbers(*responses) == expected


def test_classic_group_is_published_only_when_stable() -> None:
    members_without_partitions = member("a", []), member("b", [])
    rebalance = (
        classic("PreparingRebalance", *members_without_partitions),
        classic("CompletingRebalance", *members_without_partitions),
    )
    _, events = polled(classic("Stable", A_OWNS_ALL), *rebalance, classic("Stable", A_OWNS_HALF, B_OWNS_HALF))
    assert [(view.generation, view.members) for view in views(events)] == [
        (1, [A_OWNS_ALL]),
        (2, [A_OWNS_HALF, B_OWNS_HALF]),
    ]
    reason = (
        "the rebalance began between 1970-01-01T00:00:01.000Z and 1970-01-01T00:00:02.000Z, when the group "
        "was seen in PreparingRebalance; it was over by 1970-01-01T00:00:04.000Z"
    )
    assert views(events)[1].evidence[1:] == [Evidence(source="polling", reason=reason)]


def test_missing_member_may_have_crashed_or_left() -> None:
    _, events = polled(classic("Stable", A_OWNS_HALF, B_OWNS_HALF), classic("Stable", A_OWNS_ALL))
    assert views(events)[1].evidence[1:] == [
        Evidence(
            source="polling",
            reason=(
                "it changed between 1970-01-01T00:00:01.000Z and 1970-01-01T00:00:02.000Z; no state between the "
                "two was seen"
            ),
        ),
        Evidence(
            source="polling",
            reason="gone since the answer before: can't tell a crash from a leave",
            member_ids=["b"],
            kind="group.observed",
        ),
    ]


def test_static_member_rejoin_is_not_a_generation() -> None:
    before, after = member("a-1", [0], instance="i"), member("a-2", [0], instance="i")
    _, events = polled(classic("Stable", before), classic("Stable", after))
    assert [(view.generation, view.members[0].member_id) for view in views(events)] == [(1, "a-1"), (1, "a-2")]
    assert [item.member_ids for item in views(events)[1].evidence] == [[], []]


def test_kafka_streams_is_recognised_by_protocol_and_stays() -> None:
    streams = classic("Stable", member("a", [0]), assignor="stream")
    snapshots = views(polled(streams, classic("Empty"), classic("Stable", A_OWNS_ALL))[1])
    assert [view.kind for view in snapshots] == ["streams", "streams", UNSET]
    assert views(polled(consumer("Stable", member("a", [0], [0])))[1])[0].kind is UNSET


def test_each_step_of_an_epoch_is_published_under_one_number() -> None:
    events = polled(
        consumer("Stable", member("a", [0, 1], [0, 1])),
        consumer("Assigning", member("a", [0, 1], [0, 1]), member("b", [], [])),
        consumer("Reconciling", member("a", [0, 1], [0]), member("b", [], [1])),
        consumer("Reconciling", member("a", [0], [0]), member("b", [], [1])),
        consumer("Reconciling", member("a", [0], [0]), member("b", [], [1])),
        consumer("Stable", member("a", [0], [0]), member("b", [1], [1])),
    )[1]
    assert [(view.group_epoch, view.state) for view in views(events)] == [
        (1, "Stable"),
        (2, "Assigning"),
        (2, "Reconciling"),
        (2, "Reconciling"),
        (2, "Stable"),
    ]
    assert [item.reason[:40] for item in views(events)[3].evidence[1:]] == ["the rebalance began between 1970-01-01T0"]


def test_ids_depend_only_on_what_was_polled() -> None:
    responses = (
        classic("Stable", A_OWNS_ALL),
        classic("Stable", A_OWNS_HALF, B_OWNS_HALF),
        classic("Stable", A_OWNS_ALL),
        classic("Dead"),
    )
    ids = [event.id for event in polled(*responses)[1]]
    later, group = [], UNKNOWN
    for number, answer in enumerate(responses):
        group, event = poll(group, answer, 1000 + 10**9 * number, "s")
        later += [] if event is None else [event.id]
    assert ids == later
    assert len(set(ids)) == 4


def test_recreated_identical_group_gets_new_event_ids() -> None:
    group_history = consumer("Stable", member("a", [0], [0])), consumer("Dead")
    events = polled(*group_history, *group_history, *group_history)[1]
    assert len({event.id for event in events}) == len(events) == 6


def test_state_that_recurs_in_one_epoch_has_another_event_id() -> None:
    first, second = (consumer("Reconciling", member("a", [n], [n])) for n in (0, 1))
    events = polled(first, second, first)[1]
    assert [view.group_epoch for view in views(events)] == [1, 1, 1]
    assert len({event.id for event in events}) == 3


def test_group_unknown_to_its_coordinator_is_deleted_once() -> None:
    group, events = polled(classic("Stable", A_OWNS_ALL), classic("Dead"), classic("Dead"))
    assert group is UNKNOWN
    assert events[1].data == GroupDeleted(group_id="g", timestamp=2000, reason="the coordinator no longer knows it")
    assert len(events) == 2
    assert polled(classic("Dead")) == (UNKNOWN, [])


@pytest.mark.parametrize(
    "responses",
    [
        (classic("Stable", A_OWNS_ALL), classic("Stable", A_OWNS_HALF, B_OWNS_HALF)),
        (consumer("Stable", member("a", [0], [0])), consumer("Reconciling", member("a", [0], [0, 1]))),
    ],
)
def test_restarted_collector_continues_without_repeats(responses: tuple[GroupObserved, ...]) -> None:
    events = polled(*responses)[1]
    group = resumed(events[-1])
    assert polled(responses[-1], group=group)[1] == []
    more = classic("Stable", A_OWNS_ALL, B_OWNS_NOTHING), consumer("Stable", member("c", [0], [0]))
    wanted = next(response for response in more if response.group_protocol == responses[0].group_protocol)
    (event,) = polled(wanted, group=group)[1]
    assert event.id == polled(*responses, wanted)[1][-1].id
    assert resumed(Event("s", "d", GroupDeleted(group_id="g", timestamp=1))) is UNKNOWN


def test_polling_keeps_numbers_and_topics_of_other_collectors() -> None:
    offsets_snapshot = GroupObserved(
        group_id="g",
        timestamp=500,
        members=[
            ObservedMember(member_id="a", topics=["t", "u"], assigned={"t": [0]}, client_id="a", client_host="/h")
        ],
        generation=41,
        protocol="range",
        state="Stable",
    )
    group = resumed(Event("kafka://c/__consumer_offsets", "3:99", offsets_snapshot))
    assert polled(classic("Stable", member("a", [0])), group=group)[1] == []
    ((view,)) = views(polled(classic("Stable", member("a", []), member("b", [0])), group=group)[1])
    assert view.generation == 42
    assert {member.member_id: member.topics for member in view.members} == {"a": ["t", "u"], "b": []}


def test_group_without_events_resumes_from_latest_assignment() -> None:
    latest: dict[str, Any] = {"group_id": "g", "timestamp": 5, "members": {"a": {"t": [0]}}}
    consumers = LatestAssignment(**latest, protocol="consumer", assignor="uniform", generation=None, group_epoch=7)
    latest_assignment = LatestAssignment(**latest, protocol="classic", assignor="range", generation=9, group_epoch=None)
    events_without_change = polled(classic("Stable", member("a", [0])), group=resumed_from_latest(latest_assignment))[1]
    assert [view.generation for view in views(events_without_change)] == [9]
    changed = polled(classic("Stable", member("b", [0])), group=resumed_from_latest(latest_assignment))[1]
    assert [view.generation for view in views(changed)] == [10]
    (view,) = views(polled(consumer("Stable", member("a", [0], [0])), group=resumed_from_latest(consumers))[1])
    assert view.group_epoch == 7


def test_listed_states_narrow_the_start_of_a_rebalance() -> None:
    group, _ = polled(classic("Stable", A_OWNS_ALL))
    assert not shows_change(group, "Stable")
    group = group.with_rebalance("PreparingRebalance", 6000, 5000)
    assert shows_change(group, "PreparingRebalance")
    assert shows_change(group, "Stable")
    assert group.with_rebalance("CompletingRebalance", 7000, 6500) is group
    group, event = poll(group, classic("Stable", A_OWNS_HALF, B_OWNS_HALF), 8000, "s")
    assert event is not None
    assert isinstance(event.data, GroupObserved)
    assert "began between 1970-01-01T00:00:05.000Z and 1970-01-01T00:00:06.000Z" in event.data.evidence[1].reason
    assert not shows_change(group, "Stable")
    assert shows_change(group, "Empty")


@pytest.mark.parametrize(
    ("described", "listed", "bound"), [(None, None, None), (None, 5, 5), (5, None, 5), (5, 7, 7), (7, 5, 7)]
)
def test_rebalance_began_after_the_last_stable_answer(
    described: int | None, listed: int | None, bound: int | None
) -> None:
    group = PolledGroup(rest=described).with_rebalance("PreparingRebalance", 9, listed)
    assert group.rebalance == OngoingRebalance(bound, 9, "PreparingRebalance")


def test_listed_state_that_differs_from_the_last_is_a_change() -> None:
    assert not shows_change(UNKNOWN, "Stable")  # an unknown group is due in any case
    assert shows_change(UNKNOWN.with_rebalance("PreparingRebalance", 1), "PreparingRebalance")
    empty, _ = polled(classic("Empty"))
    assert not shows_change(empty, "Empty")
    assert shows_change(empty, "Stable")
    group = resumed_from_latest(
        LatestAssignment(
            group_id="g", protocol="classic", assignor=None, generation=1, group_epoch=None, timestamp=1, members={}
        )
    )
    assert not shows_change(group, "Stable")


def test_each_change_is_a_round_and_a_repeat_is_not() -> None:
    events = polled(
        classic("Stable", A_OWNS_ALL),
        classic("PreparingRebalance"),
        classic("Stable", A_OWNS_HALF, B_OWNS_HALF),
        classic("Stable", A_OWNS_ALL),
    )[1]
    state, outputs = play([*events, *events])
    assert state is not None
    assert ownership(state.members) == {"a": {"t": [0, 1, 2, 3, 4, 5]}}
    rounds = diffs(outputs)
    assert [(diff.generation, diff.cause.kind) for diff in rounds] == [
        (1, "member.joined"),
        (2, "member.joined"),
        (3, "group.observed"),
    ]
    assert rounds[-1].cause.member_ids == ["b"]
    assert not any(diff.violations for diff in rounds)


def test_steps_of_an_epoch_are_rounds_of_one_rebalance() -> None:
    events = polled(
        consumer("Stable", member("a", [0, 1], [0, 1])),
        consumer("Assigning", member("a", [0, 1], [0, 1]), member("b", [], [])),
        consumer("Reconciling", member("a", [0], [0]), member("b", [], [1])),
        consumer("Stable", member("a", [0], [0]), member("b", [1], [1])),
    )[1]
    rounds = diffs(play(events)[1])
    assert [(diff.group_epoch, diff.round, diff.cause.kind) for diff in rounds] == [
        (1, 1, "member.joined"),
        (2, 1, "member.joined"),
        (2, 2, "member.joined"),
        (2, 3, "member.joined"),
    ]
    assert [diff.cause.member_ids for diff in rounds] == [["a"], ["b"], ["b"], ["b"]]
