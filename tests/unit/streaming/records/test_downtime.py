"""The combined downtime of several episodes."""

from streaming.records.downtime import start_of_day, total_downtime
from streaming.records.episodes import Downtime, PartitionDowntime


def down(lower: int, upper: int | None, *evidence: str, partition: int = 0) -> Downtime:
    """Return the downtime of one partition in one episode."""
    return Downtime(
        lower_ms=lower,
        upper_ms=upper,
        longest_ms=(lower, upper),
        total_ms=(lower, upper),
        stops=(1, 1),
        worst=PartitionDowntime(topic="t", partition=partition, lower_ms=lower, upper_ms=upper),
        evidence=list(evidence),
        partitions=1,
        unbounded=int(upper is None),
        bounded_ms=upper or 0,
    )


def test_a_day_begins_at_midnight_in_utc() -> None:
    assert start_of_day(1_700_000_000_000) == 1_699_920_000_000
    assert start_of_day(1_699_920_000_000) == 1_699_920_000_000


def test_sum_of_no_downtimes_is_none() -> None:
    assert total_downtime([]) is None
    assert total_downtime([None, None]) is None


def test_total_downtime_has_sums_and_the_longest_stop() -> None:
    first, second = down(20, 50, "listener"), down(10, 90, "listener", "offset-commits", partition=3)
    assert total_downtime([first, None, second]) == Downtime(
        lower_ms=30,
        upper_ms=140,
        longest_ms=(20, 90),
        total_ms=(30, 140),
        stops=(2, 2),
        worst=second.worst,
        evidence=["listener", "offset-commits"],
        partitions=2,
        unbounded=0,
        bounded_ms=140,
    )


def test_sum_with_an_unbounded_episode_is_unbounded() -> None:
    first, second = down(20, None), down(10, 90)
    assert total_downtime([first, second]) == Downtime(
        lower_ms=30,
        upper_ms=None,
        longest_ms=(20, None),
        total_ms=(30, None),
        stops=(2, 2),
        worst=first.worst,
        partitions=2,
        unbounded=1,
        bounded_ms=90,
    )
