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


def committed(number: int, after: int, before: int, of: Holding = P) -> PartitionsStopped:
    return stops_of_witness("offset-commits", number, Stop(partitions=of, stopped_after=after, resumed_before=before))


def logged(number: int, after: int, before: int) -> PartitionsStopped:
    return stops_of_witness("coordinator-log", number, Stop(stopped_after=after, stopped_before=before))


def callback(at: int, number: int, **partitions: Holding) -> AssignmentAcknowledged:
    return AssignmentAcknowledged(group_id="g", timestamp=at, member_id="m", generation=number, **partitions)


def bounds(outages: Outages | None) -> tuple[int, int | None]:
    total = measured(outages)
    return total.lower_ms, total.upper_ms


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


class TestOneRound:
    def test_without_a_round_there_is_no_downtime(self) -> None:
        assert downtime.downtime(None) is None
        assert downtime.downtime(Outages()) is None

    @pytest.mark.parametrize(
        ("expected", "inputs"),
        [
            pytest.param((0, None), [eager(2, 1000)], id="no evidence"),
            pytest.param((0, 1300), [eager(2, 1000), COMMITTED], id="commits bound from above"),
            pytest.param((10, 1100), [eager(2, 1000), LOGGED, COMMITTED], id="the log narrows the bounds"),
            pytest.param((10, 1300), [LOST, LOGGED, COMMITTED], id="the log has no stop of a departed member"),
            pytest.param((0, None), [eager(2, 1000), committed(1, 400, 1700)], id="commits of another round"),
            pytest.param((0, None), [change(2, 1000, unowned_partitions=P), COMMITTED], id="not consumed again"),
            pytest.param((0, 1300), [REVOKED, eager(2, 1000), COMMITTED], id="clocks of members and brokers"),
            pytest.param(
                (0, None), [REVOKED, callback(5010, 2, assigned=P), eager(2, 1000), COMMITTED], id="contradictory"
            ),
        ],
    )
    def test_evidence_of_one_round_bounds_its_downtime(self, expected: Bounds, inputs: list[Any]) -> None:
        assert bounds(after(*inputs)) == expected

    @pytest.mark.parametrize("early", [True, False])
    def test_callbacks_bound_downtime_from_below_in_any_order(self, early: bool) -> None:
        callbacks = [callback(91_000, -1, revoked=P), callback(91_250, 2, assigned=P)]
        changes = [*callbacks, eager(2, 1000)] if early else [eager(2, 1000), *callbacks]
        assert bounds(after(*changes, COMMITTED)) == (250, 1300)

    def test_repeated_evidence_changes_nothing(self) -> None:
        outages = after(callback(100, -1, revoked=P), eager(2, 1000), callback(300, 2, assigned=P))
        assert not apply_evidence(outages, callback(2300, 2, assigned=P), "classic")
        assert bounds(outages) == (200, None)

    def test_callbacks_of_a_later_generation_are_ignored(self) -> None:
        callbacks = [callback(100, -1, revoked=P), callback(300, 2, assigned=P)]
        later = [callback(5000, -1, revoked=P), callback(9000, 3, assigned=P)]
        outages = after(eager(1, 50), callback(60, 1, assigned=P), *callbacks, *later)
        assert bounds(outages) == (0, None)
        assert bounds(apply_change(outages, eager(2, 1000))) == (0, None)
        assert bounds(apply_change(outages, eager(3, 6000))) == (4000, None)


class TestIncrementalRounds:
    def test_revoked_then_assigned_in_next_round_is_one_downtime(self) -> None:
        outages = after(change(2, 1000, taken=P, pending=P), change(3, 1400, assigned=P), committed(3, 300, 1900))
        assert bounds(outages) == (0, 900)

    def test_snapshot_with_revoked_partition_gives_a_lower_bound(self) -> None:
        outages = after(
            change(2, 1000, taken=P, pending=P),
            view(1050, P),
            view(1100, NO_PARTITIONS),
            change(2, 1400, assigned=P),
            committed(2, 300, 1900),
        )
        assert bounds(outages) == (300, 900)

    def test_unowned_partition_is_down_until_the_last_such_round(self) -> None:
        outages = after(change(2, 1000, unowned_partitions=P), change(3, 5000), change(4, 9000))
        assert bounds(outages) == (8000, None)

    def test_new_owner_may_report_before_the_round_of_its_epoch(self) -> None:
        outages = after(
            callback(60, -1, revoked=P),
            change(2, 1000, unowned_partitions=P),
            callback(95, 2, assigned=P),
            change(2, 1010, assigned={"t": [7]}),
            change(2, 1040, assigned=P),
        )
        assert bounds(outages) == (40, None)

    def test_both_owners_callbacks_give_the_lower_downtime_bound(self) -> None:
        outages = after(
            change(2, 1000, taken=P, pending=P),
            callback(70, 2, revoked=P),
            callback(95, 3, assigned=P),
            change(3, 1400, assigned=P),
        )
        assert bounds(outages) == (25, None)


class TestSeveralRounds:
    def test_downtimes_without_consumption_between_may_be_one(self) -> None:
        first = [eager(2, 1000), logged(2, 700, 950)]
        total = measured(after(*first, eager(3, 2000), logged(3, 1800, 1900), committed(3, 400, 2600)))
        assert (total.longest_ms, total.total_ms, total.stops) == ((100, 1900), (150, 1900), (1, 2))

    def test_unbounded_stop_makes_the_total_downtime_unbounded(self) -> None:
        later = stops_of_witness("w", 2, Stop(partitions=P, resumed_before=1500))
        outages = after(eager(2, 1000), later, eager(3, 9000), committed(3, 8000, 9500))
        assert bounds(outages) == (0, None)


def starts(number: int, at: int, of: Holding = P) -> AssignmentChange:
    return change(number, at, starts=True, assigned=of)


class TestNumberOfStops:
    def test_downtime_has_longest_total_and_number_of_stops(self) -> None:
        outages = after(
            *(eager(2, 1000), logged(2, 600, 700), committed(2, 500, 1400)),
            *(eager(3, 9000), logged(3, 6000, 6500), committed(3, 5000, 9500)),
        )
        total = measured(outages)
        assert (total.longest_ms, total.total_ms, total.stops) == ((2500, 3500), (2800, 4300), (2, 2))

    def test_commit_between_two_rounds_starts_one_downtime(self) -> None:
        outages = after(eager(2, 1000), eager(3, 40_000), committed(3, 39_000, 41_000))
        assert bounds(outages) == (0, None)


class TestEmptyGroup:
    def test_rounds_after_the_return_have_separate_downtime(self) -> None:
        outages = after(
            *(change(2, 1000, unowned_partitions=P), starts(4, 17_000), committed(4, 200, 17_500)),
            *(change(5, 26_000, unowned_partitions=P, assigned=P), committed(5, 25_500, 26_700)),
        )
        total = measured(outages)
        assert (total.longest_ms, total.total_ms, total.stops) == ((16_000, 17_300), (16_000, 18_500), (2, 2))


class TestGroupStart:
    def test_first_start_of_a_group_has_no_downtime(self) -> None:
        assert downtime.downtime(after(starts(1, 1000))) is None

    def test_rounds_before_any_consumption_are_not_downtime(self) -> None:
        outages = after(starts(1, 1000), eager(2, 4000), logged(2, 3000, 3500), eager(3, 6000))
        assert downtime.downtime(outages) is None

    def test_a_commit_proves_a_stop_after_the_start(self) -> None:
        outages = after(starts(1, 1000), eager(2, 4000), logged(2, 3000, 3500), committed(2, 2500, 4400))
        assert bounds(outages) == (500, 1400)

    def test_commit_before_the_start_is_not_evidence(self) -> None:
        outages = after(starts(9, 1000), eager(10, 4000), committed(10, 500, 4400))
        assert downtime.downtime(outages) is None


class TestEpisodeWithoutQuietTime:
    """Downtime of an episode that begins without a quiet time after the previous episode."""

    def test_rounds_before_the_first_consumption_have_no_downtime(self) -> None:
        outages = downtime.outages_for_next_episode(after(starts(1, 1000), eager(2, 4000)))
        assert outages is not None
        assert downtime.downtime(apply_change(outages, eager(3, 6000))) is None

    def test_group_that_has_consumed_is_down(self) -> None:
        outages = downtime.outages_for_next_episode(after(starts(1, 1000), committed(1, 0, 2000), eager(2, 4000)))
        assert outages is not None
        assert downtime.downtime(outages) is None
        assert bounds(apply_change(outages, eager(3, 6000))) == (0, None)


class TestStaticMemberAway:
    def test_downtime_begins_when_the_static_member_leaves(self) -> None:
        away = snapshot_of_one_member(7, 1000, assigned=P, member_epoch=-2)
        outages = after(away, change(7, 9000, unowned_partitions=P, assigned=P), committed(7, 700, 9400))
        assert bounds(outages) == (8000, 8700)

    def test_return_under_the_same_member_id_ends_downtime(self) -> None:
        away = snapshot_of_one_member(7, 1000, assigned=P, member_epoch=-2)
        back = snapshot_of_one_member(7, 4000, assigned=P, member_epoch=7)
        later = snapshot_of_one_member(8, 9000, assigned=P, member_epoch=8)
        assert bounds(after(away, back, later)) == (3000, None)


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
        assert downtime.downtime(rest) is None
        assert bounds(after(eager(3, 9000), callback(980, 3, assigned=P), outages=rest)) == (80, None)
