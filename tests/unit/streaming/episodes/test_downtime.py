"""Bounds of downtime: from each kind of evidence, from combined evidence, and without evidence."""

from typing import Any

import pytest
from msgspec import msgpack

from streaming.episodes import downtime
from streaming.episodes.downtime import MAX_OUTAGE_PARTITIONS, AssignmentChange, Outages, apply_change
from streaming.episodes.evidence import DowntimeEvidence, apply_evidence
from streaming.records.episodes import Bounds, Downtime, PartitionDowntime
from streaming.records.events import (
    AssignmentAcknowledged,
    GroupObserved,
    Holding,
    ObservedMember,
    PartitionsStopped,
    Stop,
)

P: Holding = {"t": [0]}
NO_PARTITIONS: Holding = {}


def change(number: int, at: int | None, *, starts: bool = False, **parts: Holding) -> AssignmentChange:
    holdings: dict[str, Any] = {name: {} for name in ("taken", "unowned_partitions", "assigned", "pending", "away")}
    return AssignmentChange(number=number, at=at, starts=starts, **(holdings | parts))


def view(at: int, pending: Holding) -> GroupObserved:
    return snapshot_of_one_member(0, at, assigned={}, pending_revocation=pending)


def snapshot_of_one_member(epoch: int, at: int, **member: Any) -> GroupObserved:
    members = [ObservedMember(member_id="m", topics=["t"], **member)]
    return GroupObserved(group_id="g", timestamp=at, group_epoch=epoch, members=members)


def stops_of_witness(source: str, number: int, *stops: Stop) -> PartitionsStopped:
    return PartitionsStopped(group_id="g", timestamp=0, source=source, generation=number, stops=[*stops])


def eager(number: int, at: int | None, of: Holding = P) -> AssignmentChange:
    """Return a round in which all partitions are revoked from and assigned to the same members."""
    return change(number, at, taken=of, assigned=of)


def starts(number: int, at: int) -> AssignmentChange:
    return change(number, at, starts=True, assigned=P)


def committed(number: int, after: int, before: int, of: Holding = P) -> PartitionsStopped:
    return stops_of_witness("offset-commits", number, Stop(partitions=of, stopped_after=after, resumed_before=before))


def logged(number: int, after: int, before: int) -> PartitionsStopped:
    return stops_of_witness("coordinator-log", number, Stop(stopped_after=after, stopped_before=before))


def callback(at: int, number: int, **partitions: Holding) -> AssignmentAcknowledged:
    return AssignmentAcknowledged(group_id="g", timestamp=at, member_id="m", generation=number, **partitions)


def bounds(outages: Outages | None) -> Bounds | None:
    total = downtime.downtime(outages)
    return None if total is None else (total.lower_ms, total.upper_ms)


def after(*inputs: AssignmentChange | DowntimeEvidence, outages: Outages | None = None) -> Outages:
    outages = Outages() if outages is None else outages
    for item in inputs:
        if isinstance(item, AssignmentChange):
            outages = apply_change(outages, item)
        else:
            apply_evidence(outages, item, "classic")
    return outages


def measured(outages: Outages | None) -> Downtime:
    total = downtime.downtime(outages)
    assert total is not None
    return total


LOST = change(2, 1000, unowned_partitions=P, assigned=P)
COMMITTED = committed(2, 400, 1700)
LOGGED = logged(2, 600, 990)
REVOKED = callback(10, -1, revoked=P)


LOST_AND_PENDING = change(2, 1000, taken=P, pending=P)
UNOWNED = change(2, 1000, unowned_partitions=P)
CALLBACKS = [callback(91_000, -1, revoked=P), callback(91_250, 2, assigned=P)]
STOPPED_AT_START = [starts(1, 1000), eager(2, 4000), logged(2, 3000, 3500)]
AWAY = snapshot_of_one_member(7, 1000, assigned=P, member_epoch=-2)
BOUNDS: dict[str, tuple[Bounds | None, list[Any]]] = {
    "no round": (None, []),
    "no evidence": ((0, None), [eager(2, 1000)]),
    "commits bound from above": ((0, 1300), [eager(2, 1000), COMMITTED]),
    "the log narrows the bounds": ((10, 1100), [eager(2, 1000), LOGGED, COMMITTED]),
    "the log has no stop of a departed member": ((10, 1300), [LOST, LOGGED, COMMITTED]),
    "commits of another round": ((0, None), [eager(2, 1000), committed(1, 400, 1700)]),
    "a partition without an owner was not consumed again": ((0, None), [UNOWNED, COMMITTED]),
    "clocks of members and brokers are not compared": ((0, 1300), [REVOKED, eager(2, 1000), COMMITTED]),
    "contradictory witnesses": ((0, None), [REVOKED, callback(5010, 2, assigned=P), eager(2, 1000), COMMITTED]),
    "callbacks before the round": ((250, 1300), [*CALLBACKS, eager(2, 1000), COMMITTED]),
    "callbacks after the round": ((250, 1300), [eager(2, 1000), *CALLBACKS, COMMITTED]),
    "revoked, then assigned in the next round": (
        (0, 900),
        [LOST_AND_PENDING, change(3, 1400, assigned=P), committed(3, 300, 1900)],
    ),
    "a snapshot shows the partition revoked": (
        (300, 900),
        [LOST_AND_PENDING, view(1050, P), view(1100, {}), change(2, 1400, assigned=P), committed(2, 300, 1900)],
    ),
    "down until the last round without an owner": ((8000, None), [UNOWNED, change(3, 5000), change(4, 9000)]),
    "the new owner reports before the round of its epoch": (
        (40, None),
        [
            *(callback(60, -1, revoked=P), UNOWNED, callback(95, 2, assigned=P)),
            *(change(2, 1010, assigned={"t": [7]}), change(2, 1040, assigned=P)),
        ],
    ),
    "callbacks of both owners": (
        (25, None),
        [LOST_AND_PENDING, callback(70, 2, revoked=P), callback(95, 3, assigned=P), change(3, 1400, assigned=P)],
    ),
    "one of two stops is unbounded": (
        (0, None),
        [
            *(eager(2, 1000), stops_of_witness("w", 2, Stop(partitions=P, resumed_before=1500))),
            *(eager(3, 9000), committed(3, 8000, 9500)),
        ],
    ),
    "a commit between two rounds": ((0, None), [eager(2, 1000), eager(3, 40_000), committed(3, 39_000, 41_000)]),
    "the first start of a group": (None, STOPPED_AT_START[:1]),
    "rounds before any consumption": (None, [*STOPPED_AT_START, eager(3, 6000)]),
    "a commit proves a stop after the start": ((500, 1400), [*STOPPED_AT_START, committed(2, 2500, 4400)]),
    "a commit before the start": (None, [*STOPPED_AT_START[:2], committed(2, 500, 4400)]),
    "a static member is away": (
        (8000, 8700),
        [AWAY, change(7, 9000, unowned_partitions=P, assigned=P), committed(7, 700, 9400)],
    ),
    "a static member returns under its member id": (
        (3000, None),
        [AWAY, *(snapshot_of_one_member(n, at, assigned=P, member_epoch=n) for n, at in ((7, 4000), (8, 9000)))],
    ),
}


@pytest.mark.parametrize(("expected", "inputs"), BOUNDS.values(), ids=BOUNDS)
def test_evidence_bounds_the_downtime(expected: Bounds | None, inputs: list[Any]) -> None:
    assert bounds(after(*inputs)) == expected


STOPS: dict[str, tuple[Bounds, Bounds, Bounds, list[Any]]] = {
    "two stops": (
        *((2500, 3500), (2800, 4300), (2, 2)),
        [
            *(eager(2, 1000), logged(2, 600, 700), committed(2, 500, 1400)),
            *(eager(3, 9000), logged(3, 6000, 6500), committed(3, 5000, 9500)),
        ],
    ),
    "two stops, or one without consumption between": (
        *((100, 1900), (150, 1900), (1, 2)),
        [eager(2, 1000), logged(2, 700, 950), eager(3, 2000), logged(3, 1800, 1900), committed(3, 400, 2600)],
    ),
    "an empty group until its members are back, and a round": (
        *((16_000, 17_300), (16_000, 18_500), (2, 2)),
        [
            *(UNOWNED, starts(4, 17_000), committed(4, 200, 17_500)),
            *(change(5, 26_000, unowned_partitions=P, assigned=P), committed(5, 25_500, 26_700)),
        ],
    ),
}


@pytest.mark.parametrize(("longest", "total", "stops", "inputs"), STOPS.values(), ids=STOPS)
def test_downtime_has_longest_total_and_number_of_stops(
    longest: Bounds, total: Bounds, stops: Bounds, inputs: list[Any]
) -> None:
    result = measured(after(*inputs))
    assert (result.longest_ms, result.total_ms, result.stops) == (longest, total, stops)


def test_episode_without_rounds_has_no_downtime() -> None:
    assert bounds(None) is None


def test_repeated_evidence_changes_nothing() -> None:
    outages = after(callback(100, -1, revoked=P), eager(2, 1000), callback(300, 2, assigned=P))
    assert not apply_evidence(outages, callback(2300, 2, assigned=P), "classic")
    assert bounds(outages) == (200, None)


def test_callbacks_of_a_later_generation_are_ignored() -> None:
    callbacks = [callback(100, -1, revoked=P), callback(300, 2, assigned=P)]
    later = [callback(5000, -1, revoked=P), callback(9000, 3, assigned=P)]
    outages = after(eager(1, 50), callback(60, 1, assigned=P), *callbacks, *later)
    assert bounds(outages) == (0, None)
    assert bounds(apply_change(outages, eager(2, 1000))) == (0, None)
    assert bounds(apply_change(outages, eager(3, 6000))) == (4000, None)


class TestEpisodeWithoutQuietTime:
    """Downtime of an episode that begins without a quiet time after the previous episode."""

    def test_rounds_before_the_first_consumption_have_no_downtime(self) -> None:
        outages = downtime.outages_for_next_episode(after(starts(1, 1000), eager(2, 4000)))
        assert outages is not None
        assert bounds(apply_change(outages, eager(3, 6000))) is None

    def test_group_that_has_consumed_is_down(self) -> None:
        outages = downtime.outages_for_next_episode(after(starts(1, 1000), committed(1, 0, 2000), eager(2, 4000)))
        assert outages is not None
        assert bounds(outages) is None
        assert bounds(apply_change(outages, eager(3, 6000))) == (0, None)


class TestDowntimeRecord:
    def test_two_partitions_down_give_total_and_longest_downtime(self) -> None:
        both: Holding = {"t": [0], "u": [3]}
        outages = after(
            eager(2, 1000, both), committed(2, 400, 1700), committed(2, 900, 1800, {"u": [3]}), logged(2, 0, 990)
        )
        assert downtime.downtime(outages) == Downtime(
            lower_ms=20,
            upper_ms=2200,
            longest_ms=(10, 1300),
            total_ms=(20, 2200),
            stops=(2, 2),
            worst=PartitionDowntime(
                topic="t", partition=0, lower_ms=10, upper_ms=1300, longest_ms=(10, 1300), stops=(1, 1)
            ),
            evidence=["group-records", "offset-commits", "coordinator-log"],
            partitions=2,
            bounded_ms=2200,
        )

    def test_longest_downtime_is_proven_if_a_bound_is_missing(self) -> None:
        both: Holding = {"t": [0, 1]}
        callbacks = [callback(100, -1, revoked={"t": [1]}), callback(130, 2, assigned={"t": [1]})]
        total = measured(after(eager(2, 1000, both), committed(2, 400, 1700), *callbacks))
        assert (total.upper_ms, total.unbounded, total.bounded_ms) == (None, 1, 1300)
        assert total.worst == PartitionDowntime(
            topic="t", partition=1, lower_ms=30, upper_ms=None, longest_ms=(30, None), stops=(1, 1)
        )

    def test_partitions_beyond_the_limit_are_counted(self) -> None:
        many_partitions: Holding = {"t": list(range(MAX_OUTAGE_PARTITIONS + 5))}
        total = measured(after(eager(2, 1000, many_partitions), committed(2, 400, 1700, many_partitions)))
        assert (total.partitions, total.unbounded, total.upper_ms) == (MAX_OUTAGE_PARTITIONS + 5, 5, None)
        assert total.bounded_ms == 1300 * MAX_OUTAGE_PARTITIONS

    def test_downtime_state_is_unchanged_after_serialization(self) -> None:
        outages = after(callback(100, -1, revoked=P), eager(2, 1000), committed(2, 400, 1700))
        assert msgpack.decode(msgpack.encode(outages), type=Outages) == outages

    def test_report_for_the_next_round_outlives_its_episode(self) -> None:
        outages = after(eager(2, 1000), callback(300, 2, assigned=P), callback(900, -1, revoked=P))
        rest = downtime.outages_after_end(outages)
        assert rest is not None
        assert bounds(rest) is None
        assert bounds(after(eager(3, 9000), callback(980, 3, assigned=P), outages=rest)) == (80, None)
