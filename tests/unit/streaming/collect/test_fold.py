import pytest

from streaming.collect.coordinator.records import RawRecord
from streaming.collect.fold import CollectedEvent, Fold, Outcome, RejectedRecord
from streaming.records.events import (
    COORDINATOR_MOVED,
    GROUP_CREATED,
    MAX_TIMESTAMP,
    Event,
    GroupDeleted,
    GroupObserved,
    PartitionsStopped,
    Stop,
)
from tests.support import offsets_topic as log

NAMES = {"5a0scAsoRdS8Ki4XL0hedw": "t", "OKMdhzJ5TU2q1sqNLVf-kQ": "u"}


def fold(rows: list[RawRecord]) -> list[Outcome]:
    fold_under_test = Fold("kafka://c/__consumer_offsets", 4, NAMES.__getitem__)
    return [item for row in rows for item in fold_under_test.add(row)] + fold_under_test.settle()


def stopped(rows: list[RawRecord], stop: int) -> tuple[Fold, list[Outcome]]:
    """Return a :class:`Fold` that was stopped after the first ``stop`` records, and their outcomes."""
    fold_under_test = Fold("kafka://c/__consumer_offsets", 4, NAMES.__getitem__)
    return fold_under_test, [item for row in rows[:stop] for item in fold_under_test.add(row)]


def generation(offset: int, number: int, assigned: dict[str, dict[str, list[int]]], at: int | None = None) -> RawRecord:
    members = {member: (log.subscription(["t"]), log.assignment(share)) for member, share in assigned.items()}
    return RawRecord(4, offset, at or offset * 1000, log.group_key("g"), log.group_bytes(number, members))


def events(items: list[Outcome]) -> list[Event]:
    assert all(isinstance(item, CollectedEvent) for item in items)
    return [item.event for item in items if isinstance(item, CollectedEvent)]


def observed(item: Outcome) -> GroupObserved:
    assert isinstance(item, CollectedEvent)
    assert isinstance(item.event.data, GroupObserved)
    return item.event.data


def test_resumed_fold_repeats_and_loses_no_event() -> None:
    rows = log.captured_records()[4]
    whole = fold(rows)
    for stop in range(1, len(rows), 5):
        first, published = stopped(rows, stop)
        place = rows[stop].offset if first.open_offset is None else first.open_offset
        later = [item for item in fold(rows) if item.record.offset >= place]
        assert published + later == whole


def test_group_with_offsets_only_gives_no_event() -> None:
    created = RawRecord(4, 0, 1, log.group_key("g"), log.group_bytes(0, {}))
    commit = RawRecord(4, 1, 2, log.commit_key("simple", "t", 0), log.commit_value(2))
    assert fold([created, commit]) == []


def test_two_generations_with_equal_time_are_both_published() -> None:
    rows = [generation(1, 1, {"m": {"t": [0]}}, at=7), generation(2, 2, {"m": {"t": [0]}}, at=7)]
    assert [
        (event.id, event.data.generation) for event in events(fold(rows)) if isinstance(event.data, GroupObserved)
    ] == [("4:1", 1), ("4:2", 2)]


@pytest.mark.parametrize("value_length", [3, 20, 60, 100])
def test_truncated_value_is_returned_and_reading_continues(value_length: int) -> None:
    readable_record, after = generation(1, 1, {"m": {"t": [0]}}), generation(3, 3, {"m": {"t": [1]}})
    truncated_record = generation(2, 2, {"m": {"t": [0]}})._replace(
        value=(generation(2, 2, {"m": {"t": [0]}}).value or b"")[:value_length]
    )
    first, rejected, last = fold([readable_record, truncated_record, after])
    assert observed(first).generation == 1
    assert isinstance(rejected, RejectedRecord)
    assert (rejected.record, rejected.error.type) == (truncated_record, "MalformedRecord")
    assert observed(last).generation == 3


def test_record_after_a_bad_assignment_is_still_collected() -> None:
    null_partitions = bytes.fromhex("0000 00000001 0002") + b"t0" + bytes.fromhex("ffffffff ffffffff")  # by a leader
    bad_value = log.group_bytes(2, {"m": (log.subscription(["t"]), null_partitions)})
    rows = [
        generation(1, 1, {"a": {"t": [0]}, "b": {"t": [1]}}),
        generation(2, 1, {"x": {"t": [0]}})._replace(key=log.group_key("other")),
        RawRecord(4, 3, 3000, log.commit_key("g", "t", 1), log.commit_value(3000)),
        RawRecord(4, 4, 4000, log.group_key("g"), bad_value),
        generation(5, 2, {"x": {"t": [0]}})._replace(key=log.group_key("other")),
        generation(6, 3, {"a": {"t": [0, 1]}}),
        generation(7, 4, {"a": {"t": [0]}, "c": {"t": [1]}}),
        generation(9, 5, {"a": {"t": [0, 1]}}),
    ]

    out = fold(rows)

    [rejected] = [item for item in out if isinstance(item, RejectedRecord)]
    assert rejected.record.offset == 4
    assert str(rejected.error) == "assignment of member m: assignedPartitions.partitions: null"
    views = {item.record.offset: observed(item) for item in out if isinstance(item, CollectedEvent)}
    assert [(at, view.group_id, view.generation) for at, view in views.items()] == [
        (1, "g", 1),
        (2, "other", 1),
        (5, "other", 2),
        (6, "g", 3),
        (7, "g", 4),
        (9, "g", 5),
    ]
    # The member may have left in the unreadable generation, so the time and reason are unknown.
    assert views[6].evidence == []


@pytest.mark.parametrize("timestamp", [-1, MAX_TIMESTAMP + 1, 2**62])
def test_time_outside_the_range_of_events_is_refused(timestamp: int) -> None:
    row = generation(1, 1, {"m": {"t": [0]}}, at=timestamp)
    [rejected] = fold([row])
    assert isinstance(rejected, RejectedRecord)
    assert str(rejected.error) == f"timestamp: {timestamp} is not a time in milliseconds"


def test_commits_show_resumed_consumption_in_log_order() -> None:
    def commit(offset: int, at: int, partition: int, committed: int) -> RawRecord:
        value = log.commit_value(at, offset=committed)
        return RawRecord(4, offset, at, log.commit_key("g", "t", partition), value)

    rows = [
        generation(1, 1, {"a": {"t": [0]}, "b": {"t": [1]}}),
        *(commit(2 + place, 2000, place, 10) for place in (0, 1)),
        *(commit(4 + place, 3000, place, 20) for place in (0, 1)),
        generation(6, 2, {"a": {"t": [0, 1]}}),
        *(commit(7 + place, 7000, place, 30) for place in (0, 1)),
        generation(9, 3, {"a": {"t": [0, 1]}}),
        commit(10, 10_000, 0, 40),
    ]
    stops = [event for event in events(fold(rows)) if isinstance(event.data, PartitionsStopped)]
    assert [event.id for event in stops] == ["4:5/stopped/1", "4:8/stopped/2", "4:10/stopped/3"]
    expected = (
        Stop({"t": [0, 1]}, resumed_before=3000),  # evidence that the group has begun to consume
        Stop({"t": [0, 1]}, committed={"t": {"0": 20, "1": 20}}, stopped_after=2000, resumed_before=7000),
        Stop({"t": [0]}, committed={"t": {"0": 30}}, stopped_after=6000, resumed_before=10_000),
    )
    for number, (event, stop) in enumerate(zip(stops, expected, strict=True), start=1):
        assert event.data == PartitionsStopped("g", stop.resumed_before, "offset-commits", [stop], generation=number)
    for stop in range(len(rows)):  # a fold that starts again at the open offset gives the same outcomes
        fold_under_test, before = stopped(rows, stop)
        place = fold_under_test.open_offset
        again = [item for item in fold(rows) if place is None or item.record.offset >= place]
        if place is not None:
            assert events([*before, *again]) == events(fold(rows))


def test_share_group_records_give_snapshots_and_deletion() -> None:
    def row(offset: int, at: int, number: int, *key: str, value: str | None) -> RawRecord:
        fields = b"".join(map(log.string, ("g", *key)))
        return RawRecord(
            4, offset, at, number.to_bytes(2) + fields, None if value is None else bytes.fromhex("0000" + value)
        )

    rows = [
        row(1, 1000, 10, "m", value="00 0263 0268 020274 00"),
        row(2, 1000, 11, value="00000002 0000000000000000 00"),
        row(3, 2000, 14, "m", value="00000002 00000000 00 01 00"),
        row(4, 2000, 14, "m", value="00000002 00000000 00 01 00"),  # the same record again
        row(5, 3000, 14, "m", value=None),
        row(6, 3000, 10, "m", value=None),
        row(7, 3000, 11, value="00000003 0000000000000000 00"),
        row(8, 4000, 15, value="00"),  # a share group's state is skipped
        row(9, 4000, 11, value=None),
        row(10, 5000, 11, value="01"),
    ]
    *out, refused = fold(rows)

    assert [
        (event.id, event.data.group_epoch, len(event.data.members), event.data.state)
        for event in events(out)
        if isinstance(event.data, GroupObserved)
    ] == [("4:2", 2, 1, "Stable"), ("4:4", 2, 1, "Stable"), ("4:7", 3, 0, "Empty")]
    assert isinstance(events(out)[-1].data, GroupDeleted)
    assert isinstance(refused, RejectedRecord)


def test_repeated_snapshot_of_an_epoch_group_is_published_once() -> None:
    head = log.string("g")
    epoch = RawRecord(4, 1, 1000, b"\x00\x11" + head, bytes.fromhex("0000 00000004 0000000000000000 00"))
    again = epoch._replace(offset=2, timestamp=2000)
    assert [event.id for event in events(fold([epoch, again]))] == ["4:1"]


def test_superseded_first_generation_is_of_a_new_group() -> None:
    share = {"m1": {"t": [0]}}
    empty = generation(1, 0, {})
    (outcome,) = fold([empty, generation(2, 2, share)])
    assert [item.kind for item in observed(outcome).evidence] == [GROUP_CREATED]
    for rows in ([generation(2, 2, share)], [empty, generation(2, 1, share)]):
        assert observed(fold(rows)[-1]).evidence == []
    later = fold([empty, generation(2, 2, share), generation(3, 3, share)])[-1]
    assert observed(later).evidence == []


@pytest.mark.parametrize(
    ("epochs", "at", "moved"),
    [
        ((4, 5, 5), 31_000, True),
        ((4, 4, 4), 31_000, False),
        ((4, 5, 5), 120_000, False),
        ((4, 4, 5), 31_000, False),  # the time of the leader change is unknown
        ((-1, 5, 5), 31_000, False),
    ],
)
def test_new_partition_leader_is_reported(epochs: tuple[int, ...], at: int, *, moved: bool) -> None:
    rows = [
        generation(1, 1, {"m1": {"t": [0]}}, at=1000),
        generation(2, 1, {}, at=2000)._replace(key=log.group_key("h")),
        generation(3, 2, {"m2": {"t": [0]}}, at=2000 + at),
    ]
    outcomes = fold([row._replace(leader_epoch=epoch) for row, epoch in zip(rows, epochs, strict=True)])
    kinds = [item.kind for item in observed(outcomes[-1]).evidence]
    assert (COORDINATOR_MOVED in kinds) is moved
