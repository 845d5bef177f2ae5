"""Downtime of several episodes as one."""

from __future__ import annotations

from streaming.wire.downtime import midnight, together
from streaming.wire.episodes import Downtime, PartitionDowntime


def still(lower: int, upper: int | None, *evidence: str, partition: int = 0) -> Downtime:
    """Of one partition."""
    return Downtime(
        lower_ms=lower,
        upper_ms=upper,
        worst=PartitionDowntime(topic="t", partition=partition, lower_ms=lower, upper_ms=upper),
        evidence=list(evidence),
        partitions=1,
        unbounded=int(upper is None),
        bounded_ms=upper or 0,
    )


def test_a_day_begins_at_midnight_in_utc() -> None:
    assert midnight(1_700_000_000_000) == 1_699_920_000_000
    assert midnight(1_699_920_000_000) == 1_699_920_000_000


def test_nothing_that_stood_still_is_nothing() -> None:
    assert together([]) is None
    assert together([None, None]) is None


def test_bounds_are_added_and_the_worst_is_that_which_may_have_taken_longest() -> None:
    one, other = still(20, 50, "listener"), still(10, 90, "listener", "offset-commits", partition=3)
    assert together([one, None, other]) == Downtime(
        lower_ms=30,
        upper_ms=140,
        worst=other.worst,
        evidence=["listener", "offset-commits"],
        partitions=2,
        unbounded=0,
        bounded_ms=140,
    )


def test_one_without_an_upper_bound_leaves_all_without() -> None:
    one, other = still(20, None), still(10, 90)
    assert together([one, other]) == Downtime(
        lower_ms=30, upper_ms=None, worst=one.worst, partitions=2, unbounded=1, bounded_ms=90
    )
