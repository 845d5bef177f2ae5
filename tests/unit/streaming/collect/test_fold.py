from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from streaming.collect.fold import Fold, Row, Unusable
from streaming.wire.events import Event, Evidence, GroupDeleted, GroupObserved, ObservedMember
from tests.support.offsets_topic import (
    assignment,
    captured,
    commit_key,
    commit_value,
    group_key,
    group_value,
    subscription,
)

NAMES = {"5a0scAsoRdS8Ki4XL0hedw": "t", "OKMdhzJ5TU2q1sqNLVf-kQ": "u"}


def fold(rows: list[Row], partition: int = 4) -> list[Event | Unusable]:
    one = Fold("kafka://c/__consumer_offsets", partition, NAMES.__getitem__)
    return [item for row in rows for item in one.add(row)] + one.settle()


def generation(
    offset: int, number: int, assigned: dict[str, dict[str, list[int]]], at: int | None = None
) -> Row:
    members = {member: (subscription(["t"]), assignment(given)) for member, given in assigned.items()}
    return Row(offset, at or offset * 1000, group_key("g"), group_value(number, members))


def observed(item: Event | Unusable) -> GroupObserved:
    assert isinstance(item, Event)
    assert isinstance(item.data, GroupObserved)
    return item.data


def test_one_classic_generation_as_a_whole() -> None:
    row = Row(
        8,
        5000,
        group_key("g"),
        group_value(
            3,
            {"m1": (subscription(["t"], {"t": [1]}, generation=2, rack="r"), assignment({"t": [1, 0]}))},
            instances={"m1": "i-1"},
        ),
    )

    assert fold([row]) == [
        Event(
            "kafka://c/__consumer_offsets",
            "4:8",
            GroupObserved(
                group_id="g",
                timestamp=5000,
                members=[
                    ObservedMember(
                        member_id="m1",
                        topics=["t"],
                        assigned={"t": [0, 1]},
                        owned={"t": [1]},
                        owned_generation=2,
                        group_instance_id="i-1",
                        client_id="client-m1",
                        client_host="/127.0.0.1",
                        rack_id="r",
                        session_timeout_ms=10_000,
                        rebalance_timeout_ms=300_000,
                    )
                ],
                generation=3,
                protocol="range",
                leader="m1",
                state="Stable",
            ),
        )
    ]


def test_captured_classic_group_generations_are_published_once_each() -> None:
    views = [
        item.data
        for item in fold(captured()[4])
        if isinstance(item, Event) and item.data.group_id == "g-classic"
    ]

    assert [view.generation for view in views if isinstance(view, GroupObserved)] == [
        *(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11),
        11,  # the static member came back under a new member id: same generation, written again
        12,
    ]
    assert isinstance(views[-1], GroupDeleted)


def test_captured_consumer_group_step_by_step() -> None:
    views = [
        observed(item)
        for item in fold(captured()[4])
        if isinstance(item, Event) and item.data.group_id == "g-consumer"
    ]

    def owners(view: GroupObserved) -> dict[str | None, list[int]]:
        return {member.client_id: member.assigned.get("t", []) for member in view.members}

    steps = [(view.group_epoch, view.state, owners(view)) for view in views]
    assert steps[:5] == [
        (2, "Stable", {"A": [0, 1, 2, 3, 4, 5]}),
        (3, "Reconciling", {"A": [0, 1, 2, 3, 4, 5], "B": []}),
        (3, "Reconciling", {"A": [0, 1, 2], "B": []}),
        (3, "Reconciling", {"A": [0, 1, 2], "B": []}),
        (3, "Stable", {"A": [0, 1, 2], "B": [3, 4, 5]}),
    ]
    for view in views:
        held = [
            (topic, number)
            for member in view.members
            for topic, numbers in member.assigned.items()
            for number in numbers
        ]
        assert len(held) == len(set(held)), "two members own the same partition"
    assert views[2].members[1].pending_revocation == {"t": [3, 4, 5]}
    assert all(before.group_epoch <= after.group_epoch for before, after in pairwise(views))  # type: ignore[operator]


def test_the_log_alone_decides_wherever_reading_stops() -> None:
    rows = captured()[4]
    whole = fold(rows)
    for stop in range(0, len(rows), 7):
        one = Fold("kafka://c/__consumer_offsets", 4, NAMES.__getitem__)
        before = [item for row in rows[:stop] for item in one.add(row)]
        after = [item for row in rows[stop:] for item in one.add(row)] + one.settle()
        assert before + after == whole
        assert before == whole[: len(before)]


def test_going_on_at_the_open_offset_repeats_nothing_and_loses_nothing() -> None:
    rows = captured()[4]
    whole = fold(rows)
    for stop in range(1, len(rows), 5):
        first = Fold("kafka://c/__consumer_offsets", 4, NAMES.__getitem__)
        published = [item for row in rows[:stop] for item in first.add(row)]
        place = rows[stop].offset if first.open_offset is None else first.open_offset
        later = [item for item in fold(rows) if isinstance(item, Event) and int(item.id[2:]) >= place]
        assert published + later == whole


def test_a_new_group_and_a_group_of_offsets_are_no_generation() -> None:
    created = Row(0, 1, group_key("g"), group_value(0, {}))
    commit = Row(1, 2, commit_key("simple", "t", 0), commit_value(2))

    assert fold([created, commit]) == []


def test_a_deleted_group() -> None:
    rows = [generation(1, 1, {"m": {"t": [0]}}), Row(2, 2000, group_key("g"), None)]

    assert fold(rows)[1:] == [
        Event(
            "kafka://c/__consumer_offsets",
            "4:2",
            GroupDeleted(group_id="g", timestamp=2000, reason="tombstone"),
        )
    ]


def test_two_generations_of_one_moment_are_both_published() -> None:
    rows = [generation(1, 1, {"m": {"t": [0]}}, at=7), generation(2, 2, {"m": {"t": [0]}}, at=7)]

    assert [(item.id, observed(item).generation) for item in fold(rows) if isinstance(item, Event)] == [
        ("4:1", 1),
        ("4:2", 2),
    ]


@pytest.mark.parametrize("cut", [3, 20, 60, 100])
def test_a_truncated_value_is_handed_out_and_reading_goes_on(cut: int) -> None:
    good, after = generation(1, 1, {"m": {"t": [0]}}), generation(3, 3, {"m": {"t": [1]}})
    bad = replace(
        generation(2, 2, {"m": {"t": [0]}}), value=(generation(2, 2, {"m": {"t": [0]}}).value or b"")[:cut]
    )

    first, unusable, last = fold([good, bad, after])

    assert observed(first).generation == 1
    assert isinstance(unusable, Unusable)
    assert (unusable.row, unusable.error.type) == (bad, "MalformedRecord")
    assert observed(last).generation == 3


def commits(*times: int) -> list[Row]:
    return [Row(2, time, commit_key("g", "t", 1), commit_value(time)) for time in times]


@pytest.mark.parametrize(
    ("last_commit", "gone", "expected"),
    [
        (11_500, 12_000, "member.left"),
        (11_500, 22_500, "member.fenced"),
        (11_500, 99_000, None),  # idle for long: nobody can say
        (500, 12_000, None),  # not its own commit: it did not hold the partition yet
    ],
)
def test_commits_tell_a_leave_from_a_fence(last_commit: int, gone: int, expected: str | None) -> None:
    rows = [
        generation(1, 1, {"a": {"t": [0]}, "b": {"t": [1]}}),
        *commits(last_commit),
        generation(3, 2, {"a": {"t": [0, 1]}}, at=gone),
    ]

    evidence = observed(fold(rows)[1]).evidence

    assert [(item.kind, item.member_ids) for item in evidence] == ([(expected, ["b"])] if expected else [])
    assert all(isinstance(item, Evidence) and item.source == "offset-commits" for item in evidence)
