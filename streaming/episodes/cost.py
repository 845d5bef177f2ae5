"""Cost of an episode in messages: how many messages were delayed, for how long, and when the group had caught up.

docs/explanation/episodes.md#bounds-of-the-cost defines each bound. The bounds of an outage
(:mod:`streaming.episodes.downtime`) say when the partition stopped and resumed. Samples of ``group.progress`` have
committed and end offsets at some moments; offsets only grow between samples.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from msgspec import UNSET, Struct, field, structs

from streaming.episodes.downtime import MAX_OUTAGE_PARTITIONS, Outage, Outages, find_outage
from streaming.records.downtime import add_bounds, max_bounds
from streaming.records.episodes import Bounds, Cost
from streaming.records.events import GroupProgress

#: Source of bounds that come from samples of offsets.
PROGRESS_SOURCE: Final = "progress"
#: The most samples kept per partition. Beyond that every second sample is dropped, which only widens the bounds.
MAX_SAMPLES: Final = 32
#: The least number of samples per partition that are kept after an episode.
_SAMPLES_KEPT_AT_REST: Final = 4
#: An end offset without the time of its request is at most this much older than its sample, ms.
_MAX_REQUEST_MS: Final = 500
_ZERO_BOUNDS: Final[Bounds] = (0, 0)
_UNKNOWN_BOUNDS: Final[Bounds] = (0, None)


class Sample(Struct, frozen=True, array_like=True, gc=False):
    """Offsets of a partition at one moment (ms); ``committed`` is None if the partition never had a commit.

    ``since``: when the end offset was requested, ms. ``committed_at``: the offset had been committed by then, ms.
    """

    at: int
    committed: int | None
    end: int
    since: int = 0
    committed_at: int | None = None


class OffsetSamples(Struct, array_like=True, gc=False):
    """Samples of the offsets of a group's partitions, changed in place.

    ``at``: time of the last sample, ms. ``samples``: by topic and partition, oldest first. ``peak``: the largest lag of
    the group in the episode. ``past``: delayed messages and worst delay by partition, in outages before the current
    one. ``followed``: number of partitions with samples. ``unsettled``: past outages whose cost is not in ``past``,
    because no sample shows yet what had been produced when they ended, and when that was consumed.
    """

    at: int = 0
    samples: dict[str, dict[int, tuple[Sample, ...]]] = field(default_factory=dict)
    peak: Bounds = _ZERO_BOUNDS
    past: dict[str, dict[int, tuple[Bounds, Bounds]]] = field(default_factory=dict)
    followed: int = 0
    unsettled: tuple[tuple[str, int, Outage], ...] = ()


class PartitionCost(NamedTuple):
    """Cost of one outage of a partition: delayed messages, and the longest delay, ms.

    ``caught_up_at`` None: not caught up yet, or unknown. ``is_known``: the partition has commits and samples.
    """

    delayed: Bounds
    worst: Bounds
    caught_up_at: int | None
    is_known: bool = True


Offsets = Mapping[str, Mapping[str, tuple[int | None, int]]]


def add_samples(progress: OffsetSamples | None, data: GroupProgress) -> OffsetSamples | None:
    """Return the stored samples with those of a newer event; None if the event is not newer than the stored samples."""
    current, at = progress or OffsetSamples(), data.timestamp
    if at <= current.at:
        return None
    since = at - _MAX_REQUEST_MS if data.requested_at is UNSET else data.requested_at
    samples = {topic: dict(by_partition) for topic, by_partition in current.samples.items()}
    followed = current.followed
    current_lag = max_lag = 0
    is_unknown = False
    for topic, offsets in data.partitions.items():
        by_partition = samples.setdefault(topic, {})
        for name, (offset, end) in offsets.items():
            committed = 0 if offset is None and not end else offset  # a partition without any record has no lag
            series = by_partition.get(int(name), ())
            if not series and followed >= MAX_OUTAGE_PARTITIONS:
                continue
            followed += not series
            committed_at = None if data.committed_at is UNSET else data.committed_at.get(topic, {}).get(name)
            by_partition[int(name)] = _add_sample(series, Sample(at, committed, end, since, committed_at))
            if committed is None:
                is_unknown = True
                continue
            current_lag += max(0, end - committed)
            max_lag += max(0, end - min((sample.committed or 0 for sample in series[-2:]), default=committed))
    lower, upper = current.peak
    most = None if upper is None or is_unknown else max(upper, max_lag)
    return OffsetSamples(at, samples, (max(lower, current_lag), most), current.past, followed, current.unsettled)


def _add_sample(series: tuple[Sample, ...], sample: Sample) -> tuple[Sample, ...]:
    if series and sample.end < series[-1].end:
        return (sample,)  # the topic was created again
    offsets = sample.committed, sample.end
    if len(series) > 1 and all((earlier.committed, earlier.end) == offsets for earlier in series[-2:]):
        return (*series[:-1], sample)
    if len(series) >= MAX_SAMPLES:
        series = (series[0], *series[1:-1:2], series[-1])
    return (*series, sample)


def rewound_partitions(before: OffsetSamples | None, after: OffsetSamples) -> list[str]:
    """Return a text such as ``t 0 from 500 to 100`` for each partition whose committed offset has decreased."""
    rewound_texts: list[str] = []
    for topic, by_partition in before.samples.items() if before is not None else ():
        for number, series in by_partition.items():
            old, new = series[-1], after.samples[topic][number][-1]
            if old.committed is None or new.committed is None or new.end < old.end:
                continue
            if new.committed < old.committed:
                rewound_texts.append(f"{topic} {number} from {old.committed} to {new.committed}")
    return rewound_texts


def samples_after_end(progress: OffsetSamples | None) -> OffsetSamples | None:
    """Return the samples needed after an episode: the last ones, and those that show since when the group lags."""
    if progress is None:
        return None
    samples = {
        topic: {number: _last_samples(series) for number, series in by_partition.items()}
        for topic, by_partition in progress.samples.items()
    }
    return OffsetSamples(progress.at, samples, followed=progress.followed)


def _last_samples(series: tuple[Sample, ...]) -> tuple[Sample, ...]:
    """Return the last samples, back to the newest sample whose messages have all been committed by now."""
    committed = series[-1].committed or 0
    first = max((place for place, sample in enumerate(series) if sample.end <= committed), default=0)
    return series[min(first, max(0, len(series) - _SAMPLES_KEPT_AT_REST)) :]


def keep_past_cost(progress: OffsetSamples, before: Outages | None, after: Outages | None) -> OffsetSamples:
    """Return the samples, with the costs of outages that ended because a new outage of the same partition began."""
    if before is None or after is None:
        return progress
    past = {topic: dict(by_partition) for topic, by_partition in progress.past.items()}
    unsettled, ended = list[tuple[str, int, Outage]](), [*progress.unsettled]
    for topic, number, outage in before.tracked():
        now = find_outage(after, topic, number)
        if outage.rounds and now is not None and now.first != outage.first:
            ended.append((topic, number, outage))
    for topic, number, outage in ended:
        samples = progress.samples.get(topic, {}).get(number, ())
        outage_cost = outage_cost_bounds(samples, outage, 0)
        is_pending = outage.resumed_before is not None and outage_cost.worst[1] is None
        if samples and is_pending and len(unsettled) < MAX_OUTAGE_PARTITIONS:
            unsettled.append((topic, number, outage))
        else:
            delayed, worst = past.get(topic, {}).get(number, (_ZERO_BOUNDS, _ZERO_BOUNDS))
            total = add_bounds(delayed, outage_cost.delayed), max_bounds(worst, outage_cost.worst)
            past.setdefault(topic, {})[number] = total
    return structs.replace(progress, past=past, unsettled=tuple(unsettled))


def cost(progress: OffsetSamples | None, outages: Outages | None, opened_at: int) -> tuple[Cost | None, bool]:
    """Return the cost of an episode, and True if the group is still catching up.

    The cost is None if there are no samples, or if no partition is known to have stopped.
    """
    if progress is None or outages is None or not progress.samples:
        return None, False
    stopped = [item for item in outages.tracked() if item[2].rounds and item[2].started_at is None]
    if not (stopped or progress.past or progress.unsettled or outages.missed):
        return None, False
    delayed, worst = (_UNKNOWN_BOUNDS, _UNKNOWN_BOUNDS) if outages.missed else (_ZERO_BOUNDS, _ZERO_BOUNDS)
    caught_up, resumed, catching_up, is_known = 0, 0, False, not outages.missed
    for topic, number, outage in stopped:
        outage_cost = outage_cost_bounds(progress.samples.get(topic, {}).get(number, ()), outage, opened_at)
        delayed, worst = add_bounds(delayed, outage_cost.delayed), max_bounds(worst, outage_cost.worst)
        if outage_cost.caught_up_at is not None:
            caught_up = max(caught_up, outage_cost.caught_up_at)
        elif outage_cost.is_known and outage.is_owned:
            catching_up = True
        else:  # no commits, or no member owns it
            is_known = False
        resumed = max(resumed, outage.resumed_after or 0)
    past = [bounds for counts in progress.past.values() for bounds in counts.values()]
    for topic, number, outage in progress.unsettled:
        past.append(outage_cost_bounds(progress.samples[topic][number], outage, opened_at)[:2])
    for delayed_before, worst_delay_before in past:
        delayed, worst = add_bounds(delayed, delayed_before), max_bounds(worst, worst_delay_before)
    at = caught_up if is_known and not catching_up and caught_up else None
    return (
        Cost(
            delayed_messages=delayed,
            worst_delay_ms=worst,
            peak_lag=progress.peak,
            catch_up_ms=(0, at - resumed if at is not None and resumed else None),
            caught_up_at=at,
            evidence=[PROGRESS_SOURCE, *outages.sources],
        ),
        catching_up,
    )


def outage_cost_bounds(samples: Sequence[Sample], outage: Outage, opened_at: int) -> PartitionCost:
    """Return the cost of one outage of a partition; ``opened_at``: start of its episode, ms."""
    if not samples or samples[-1].committed is None:
        return PartitionCost(_UNKNOWN_BOUNDS, _UNKNOWN_BOUNDS, None, is_known=False)
    resumed = outage.resumed_after
    # Between the rounds of an outage messages may have been consumed.
    until = resumed if outage.rounds == 1 and resumed is not None else outage.latest_stop_ms or outage.stopped_after
    last = None if until is None else _last_sample_until(samples, until)
    committed = [outage.committed, None if last is None else last.committed]
    start = max((offset for offset in committed if offset is not None), default=None)
    end = None if outage.resumed_before is None else _end_offset_after(samples, outage.resumed_before)
    if end is None and resumed is not None and resumed <= samples[-1].at and samples[-1].end == start:
        end = start  # no message was pending, and no message has been produced since
    least = worst_lower_bound = 0
    for stopped, resumed_after in (outage.longest_interval or (None, None), (outage.stopped_before, resumed)):
        if stopped is None or resumed_after is None:
            continue
        oldest, newest = _end_offset_after(samples, stopped), _last_sample_until(samples, resumed_after)
        if oldest is not None and newest is not None and newest.end > oldest:
            least += newest.end - oldest
            shown = next(sample.at for sample in samples if sample.end > oldest)
            worst_lower_bound = max(worst_lower_bound, resumed_after - shown)
    if start is None or end is None:
        most, longest = None, None
    else:
        most, longest = max(least, end - start), _worst_delay(samples, start, end, resumed or 0)
    return PartitionCost((least, most), (worst_lower_bound, longest), _caught_up_at(samples, outage, start, opened_at))


def _worst_delay(samples: Sequence[Sample], start: int, end: int, resumed: int) -> int | None:
    if start >= end:
        return 0
    if samples[0].end > start:
        return None  # the message was produced before the first sample
    worst = 0
    for before, after in pairwise(samples):
        last = min(after.end, end) - 1
        if last < max(before.end, start):
            continue
        commits = (sample for sample in samples if sample.at >= resumed and (sample.committed or 0) > last)
        if (commit := next(commits, None)) is None:
            return None
        consumed = commit.at if commit.committed_at is None else min(commit.at, commit.committed_at)
        worst = max(worst, consumed - before.since)
    return worst


def _caught_up_at(samples: Sequence[Sample], outage: Outage, start: int | None, opened_at: int) -> int | None:
    """Return the time (ms) of the first sample that proves that the partition caught up after the outage.

    ``start``: committed offset at which the partition resumed. If the outage's end has no upper bound, the partition
    counts as resumed after a later commit, or if no message was produced.
    """
    least = outage.resumed_after if outage.resumed_after is not None else opened_at
    since = least if outage.resumed_before is None else outage.resumed_before
    target = _end_offset_after(samples, since)
    began = opened_at if outage.stopped_after is None else outage.stopped_after
    lag = 0 if (last := _last_sample_until(samples, began)) is None else _lag(last)
    for sample in samples:
        committed = sample.committed or 0
        has_resumed = outage.resumed_before is not None or committed > (start or 0) or samples[-1].end == start
        is_current = sample.since >= since  # an older end offset may lack messages that were delayed
        has_reached = (is_current and _lag(sample) <= lag) or (target is not None and committed >= target)
        if sample.at >= since and has_resumed and has_reached:
            return sample.at
    return None


def _lag(sample: Sample) -> int:
    return 0 if sample.committed is None else max(0, sample.end - sample.committed)


def _last_sample_until(samples: Sequence[Sample], at: int) -> Sample | None:
    return next((sample for sample in reversed(samples) if sample.at <= at), None)


def _end_offset_after(samples: Sequence[Sample], at: int) -> int | None:
    return next((sample.end for sample in samples if sample.since >= at), None)
