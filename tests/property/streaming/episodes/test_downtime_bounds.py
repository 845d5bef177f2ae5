"""Bounds of downtime contain the true downtime, for any history and any evidence."""

from collections.abc import Callable, Iterator
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streaming.episodes import fold
from streaming.episodes.downtime import downtime, stops_of
from streaming.monitor.bucket_state import Bucket
from streaming.records.downtime import NO_STOPS, Stops
from streaming.records.events import Event
from tests.support.pure_stream import SINKS, apply_events
from tests.support.timeline_groups import cooperative, eager, epochs
from tests.support.timelines import Timeline, UnconsumedPeriod, events_of, gaps

#: The whole history of the group is one episode.
SINKS_WITH_LONG_QUIET_TIME = SINKS._replace(quiet_ms=10**9)


@pytest.fixture(autouse=True, scope="module")
def episode_without_end() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(fold, "_begins_next_episode", lambda *_: False)
        yield


def bounds(events: list[Event]) -> tuple[dict[int, Stops], Stops]:
    """Return the final downtime per partition, and the downtime of all partitions together."""
    bucket = Bucket()
    for event in events:
        apply_events(bucket, [event], sinks=SINKS_WITH_LONG_QUIET_TIME)
    episode = bucket.get("g").episode
    rounds_bounds = (
        {} if episode.outages is None else {number: stops_of(outage) for _, number, outage in episode.outages.tracked()}
    )
    total = downtime(episode.outages)
    return rounds_bounds, NO_STOPS if total is None else Stops(total.stops, total.total_ms, total.longest_ms)


def check(stops: Stops, true_periods: list[UnconsumedPeriod], end: int) -> None:
    """Assert that the true downtimes are within the bounds; periods without sure evidence may be counted or not."""
    downtimes_ms = [(gap.end or end) - gap.start for gap in true_periods]
    proven_downtimes_ms = [length for length, outage in zip(downtimes_ms, true_periods, strict=True) if outage.is_sure]
    is_open = any(gap.end is None and gap.is_sure for gap in true_periods)
    for bound, least, most in (
        (stops.count, len(proven_downtimes_ms), len(downtimes_ms)),
        (stops.total, sum(proven_downtimes_ms), sum(downtimes_ms)),
        (stops.longest, max(proven_downtimes_ms, default=0), max(downtimes_ms, default=0)),
    ):
        assert bound[0] <= most, (stops, true_periods)
        assert bound[1] is None or least <= bound[1], (stops, true_periods)
    assert not is_open or stops.total[1] is None, (stops, true_periods)


@pytest.mark.parametrize("draw", [eager, cooperative, epochs])
@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32), reported=st.booleans(), logged=st.booleans(), restarts=st.integers(0, 2))
def test_bounds_contain_the_true_downtime(
    draw: Callable[[Random], Timeline], seed: int, reported: bool, logged: bool, restarts: int
) -> None:
    line = draw(Random(seed))
    true_periods = {partition: gaps(line, partition) for partition in range(line.partitions)}
    line.chance = Random(seed)
    rounds_bounds, merged_bounds = bounds(events_of(line, reported=reported, logged=logged, restarts=restarts))
    for partition, outages in true_periods.items():
        check(rounds_bounds.get(partition, NO_STOPS), outages, line.now)
    check(merged_bounds, [outage for outages in true_periods.values() for outage in outages], line.now)
