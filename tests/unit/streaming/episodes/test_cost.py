"""Bounds of an episode's cost: outages of several rounds, slow requests, and samples around the episode."""

from msgspec import structs

from streaming.episodes.cost import (
    OffsetSamples,
    Sample,
    add_samples,
    cost,
    keep_past_cost,
    outage_cost_bounds,
    samples_after_end,
)
from streaming.episodes.downtime import Outage, Outages
from streaming.records.events import GroupProgress


def add_sample(progress: OffsetSamples | None, at: int, committed: int | None, end: int) -> OffsetSamples:
    data = GroupProgress(group_id="g", timestamp=at, partitions={"t": {"0": (committed, end)}}, requested_at=at - 10)
    updated = add_samples(progress, data)
    assert updated is not None
    return updated


def kept_times(progress: OffsetSamples) -> list[int]:
    """Return the times of the samples that are kept after the end of the episode."""
    kept = samples_after_end(progress)
    return [sample.at for sample in kept.samples["t"][0]]


def test_a_commit_before_its_sample_bounds_the_delay() -> None:
    # A message a second; the partition stopped at 2 s, and a commit at 4.2 s covers all messages until then.
    samples = [Sample(1000 * at, 2 if at < 5 else 4, at, 1000 * at - 10) for at in range(1, 7)]
    outage = Outage(1, 1, is_owned=True, stopped_after=2000, resumed_after=3500, resumed_before=4200, committed=2)
    assert outage_cost_bounds(samples, outage, 2000).worst[1] is None  # the messages until 5 s are not committed
    later = [*samples, Sample(7000, 5, 7, 6990)]
    assert outage_cost_bounds(later, outage, 2000).worst == (0, 7000 - 3990)
    exact = [sample if sample.at < 7000 else structs.replace(sample, committed_at=6100) for sample in later]
    assert outage_cost_bounds(exact, outage, 2000).worst == (0, max(5000 - 1990, 6100 - 3990))


def test_messages_between_two_outages_may_be_delayed_or_not() -> None:
    # Nobody consumed from 1 s to 2 s and from 6 s to 7 s. The 80 messages in between may have been consumed at once.
    samples = [Sample(1000 * at, 0 if at < 4 else 80, 20 * at, 1000 * at - 10) for at in range(1, 10)]
    samples += [Sample(10_000, 200, 200, 9990)]
    outage = Outage(
        *(2, 1, 2),
        is_owned=True,
        latest_stop_ms=1000,
        stopped_before=5900,
        resumed_after=7000,
        resumed_before=7500,
        committed=0,
        longest_interval=(900, 2000),
    )
    bounds = outage_cost_bounds(samples, outage, 0)
    assert bounds.delayed == (20 + 20, 160)
    assert outage_cost_bounds(samples, structs.replace(outage, rounds=1, longest_interval=None), 0).delayed == (20, 80)


def test_slow_request_widens_the_bounds() -> None:
    samples = [Sample(1000, 10, 10, 990), Sample(4000, 10, 10, 1500), Sample(5000, 30, 30, 4990)]
    outage = Outage(1, 1, is_owned=True, stopped_before=2000, resumed_after=3000, resumed_before=3500)
    # The second sample's end offset may be 2.5 s old, so that it does not prove that the messages are newer.
    assert outage_cost_bounds(samples, outage, 0) == ((0, 20), (0, 3500), 5000, True)


def test_past_outage_is_bounded_by_a_later_sample() -> None:
    progress = add_sample(add_sample(None, 1000, 10, 10), 2000, 10, 30)
    first = Outage(1, 1, is_owned=True, stopped_before=1500, resumed_after=2100, resumed_before=2500)
    second = Outage(2, 2, stopped_after=2600, stopped_before=2600)
    before, after = Outages(1, {"t": {0: first}}), Outages(2, {"t": {0: second}})
    progress = keep_past_cost(progress, before, after)
    earlier_cost, _ = cost(progress, after, 1000)
    progress = add_sample(progress, 3000, 50, 50)
    resumed_outage = structs.replace(second, is_owned=True, resumed_after=2700, resumed_before=2800)
    later, _ = cost(progress, Outages(2, {"t": {0: resumed_outage}}), 1000)
    assert earlier_cost.delayed_messages[1] is None
    assert later.delayed_messages == (0, 80)


def test_samples_of_uncommitted_messages_are_kept() -> None:
    progress = add_sample(None, 1000, 10, 10)
    for at in range(2, 12):
        progress = add_sample(progress, 1000 * at, 10, 10 * at)
    assert kept_times(progress) == [1000 * at for at in range(1, 12)]
    assert kept_times(add_sample(progress, 12_000, 120, 120)) == [9000, 10_000, 11_000, 12_000]


def test_partition_without_any_record_costs_nothing() -> None:
    progress = add_sample(add_sample(None, 1000, None, 0), 5000, None, 0)
    outage = Outage(1, 1, is_owned=True, stopped_before=2000, resumed_after=3000)
    total, catching_up = cost(progress, Outages(1, {"t": {0: outage}}), 1000)
    assert (total.delayed_messages, total.worst_delay_ms, catching_up) == ((0, 0), (0, 0), False)
