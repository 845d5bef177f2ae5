"""Compares the reported downtime of partitions with the measured downtime."""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from streaming.collect.broker_log.group_reasons import LOG_SOURCE as LOG
from streaming.episodes.downtime import stops_of
from streaming.monitor.bucket import process
from streaming.monitor.bucket_state import Bucket
from streaming.records import codec
from streaming.records.codec import Record
from streaming.records.downtime import NO_STOPS
from streaming.records.events import Event, PartitionsStopped
from tests.acceptance.situations.groups import (
    COMMIT_MS,
    QUIET_TIME_MS,
    RECORD_MS,
    AppliedChanges,
    Place,
    UnconsumedPeriod,
)
from tests.support.pure_stream import SINKS


class Bounds(NamedTuple):
    """Bounds of a downtime in ms; ``upper`` is None if there is no upper bound."""

    lower: int
    upper: int | None


class ComparedDowntime(NamedTuple):
    """Reported bounds and measured downtime of one partition after one change of its group.

    Attributes:
        reported: the reported bounds; None if no downtime was reported.
        pause: the longest time (ms) between two consecutive records of a partition with one holder after this change.
    """

    change: int
    kind: str
    partition: Place
    gaps: int
    measured: int
    reported: Bounds | None
    pause: int

    @property
    def inside(self) -> bool:
        """Return true if the reported bounds contain the downtime that the consumed records show."""
        return self.within(RECORD_MS)

    def within(self, interval: int) -> bool:
        """Return true if the reported bounds contain the measured downtime; gaps are known within ``interval`` ms."""
        if self.reported is None:
            return not self.gaps
        lower, upper = self.reported
        # Times are whole milliseconds.
        least = self.measured - self.gaps * (interval + 2)
        return lower <= self.measured + 2 * self.gaps and (upper is None or least <= upper)

    @property
    def width(self) -> int | None:
        return (
            None if self.reported is None or self.reported.upper is None else self.reported.upper - self.reported.lower
        )

    @property
    def excess_ms(self) -> int:
        """Return the excess (ms) of the bounds' width over 1.5 times the measured downtime plus a commit interval."""
        return (self.width or 0) - round(1.5 * self.measured) - COMMIT_MS


def _is_not_from_log(event: Event) -> bool:
    return not (isinstance(event.data, PartitionsStopped) and event.data.source == LOG)


def _is_not_from_listener(event: Event) -> bool:
    return not event.source.startswith("listener/")


#: For each kind of evidence, a filter of the events that a monitor with only this evidence publishes.
EVIDENCE: dict[str, Callable[[Event], bool]] = {
    "commits": lambda event: _is_not_from_log(event) and _is_not_from_listener(event),
    "commits, log": _is_not_from_listener,
    "commits, listener": _is_not_from_log,
}


def compared(played: AppliedChanges, events: Iterable[Event], quiet_ms: int = QUIET_TIME_MS) -> list[ComparedDowntime]:
    """Return the reported and the measured downtime of each partition after each change, where either exists."""
    gaps: dict[tuple[int, Place], list[UnconsumedPeriod]] = defaultdict(list)
    for gap in played.gaps():
        gaps[_last_change(played, gap.end), gap.partition].append(gap)
    bounds, pauses = _reported_bounds(played, events, quiet_ms), _pauses(played)
    return [
        ComparedDowntime(
            change,
            played.changes[change].kind,
            partition,
            len(gaps[change, partition]),
            sum(gap.end - gap.start for gap in gaps[change, partition]),
            bounds.get((change, partition)),
            pauses.get(change, 0),
        )
        for change, partition in sorted({*gaps, *bounds})
    ]


def _pauses(played: AppliedChanges) -> dict[int, int]:
    """Return the longest time (ms) between two records that one member consumed from a partition, by change."""
    pauses: dict[int, int] = {}
    for mark, later in pairwise(played.marks()):
        if mark.partition == later.partition and mark.holder == later.holder:
            change = _last_change(played, mark.at)
            pauses[change] = max(pauses.get(change, 0), later.at - mark.at)
    return pauses


def _last_change(played: AppliedChanges, at: int) -> int:
    """Return the index of the last change that began at or before ``at`` (ms); −1 if there is none."""
    return sum(change.at <= at for change in played.changes) - 1


def _reported_bounds(played: AppliedChanges, events: Iterable[Event], quiet_ms: int) -> dict[tuple[int, Place], Bounds]:
    """Return the reported downtime of each partition after each change, from episodes that began after the change."""
    bucket, sinks = Bucket(), SINKS._replace(quiet_ms=quiet_ms)
    bounds: dict[tuple[int, Place], dict[int, Bounds]] = defaultdict(dict)
    for offset, event in enumerate(events):
        process(bucket, [Record.of(0, offset, *codec.encode_event(event))], event.data.timestamp, sinks)
        episode = bucket.get(played.group).episode
        if episode is None or episode.outages is None or (change := _last_change(played, episode.opened_at)) < 0:
            continue
        for topic, partition, outage in episode.outages.tracked():
            if stops_of(outage) != NO_STOPS:
                bounds[change, (topic, partition)][episode.number] = Bounds(*stops_of(outage).total)
    return {
        place: Bounds(
            sum(part.lower for part in partition_bounds.values()),
            None
            if any(part.upper is None for part in partition_bounds.values())
            else sum(part.upper or 0 for part in partition_bounds.values()),
        )
        for place, partition_bounds in bounds.items()
    }


class DowntimeLine(NamedTuple):
    """One line of the table of measured and reported downtime; times (ms) are medians over partitions with downtime.

    Attributes:
        inside: rounds whose bounds contain the measurement.
        measurable_rounds: rounds whose bounds contain the measurement if the start of a gap is uncertain by the longest
            pause between two records, because a busy machine delays consumption.
        stops, bounded_rounds: number of partitions with reported downtime, and of those with an upper bound.
        excess_ms: median excess (ms) of the bounds' width over 1.5 times the measurement plus a commit interval.
    """

    group: str
    evidence: str
    rounds: int
    inside: int
    measurable_rounds: int
    stops: int
    bounded_rounds: int
    gap: float
    lower: float
    width: float
    excess_ms: float

    def row(self) -> str:
        """Return the comparison as a row of a Markdown table."""
        return (
            f"| {self.group} | {self.evidence} | {self.inside} of {self.rounds} "
            f"| {self.bounded_rounds} of {self.stops} | {self.gap:.0f} ms "
            f"| {self.lower:.0f} ms | {self.width:.0f} ms | {self.excess_ms:+.0f} ms |"
        )


def line(group: str, evidence: str, rounds: int, downtimes: Sequence[ComparedDowntime]) -> DowntimeLine:
    """Return a line of the downtime comparison's table, for one group and one kind of evidence."""
    wrong_changes = {downtime.change for downtime in downtimes if not downtime.inside}
    changes_beyond_any_bounds = {item.change for item in downtimes if not item.within(max(RECORD_MS, item.pause))}
    stops = [downtime for downtime in downtimes if downtime.reported is not None]
    bounded_rounds = [stop for stop in stops if stop.width is not None]
    return DowntimeLine(
        *(
            group,
            evidence,
            rounds,
            rounds - len(wrong_changes),
            rounds - len(changes_beyond_any_bounds),
            len(stops),
            len(bounded_rounds),
        ),
        gap=median(stop.measured for stop in stops),
        lower=median(stop.reported.lower for stop in stops if stop.reported is not None),
        width=median(downtime.width or 0 for downtime in bounded_rounds),
        excess_ms=median(downtime.excess_ms for downtime in bounded_rounds),
    )


def table(lines: Iterable[DowntimeLine]) -> str:
    lines = list(lines)
    rounds = sum({line.group: line.rounds for line in lines}.values())
    head = (
        f"{rounds} rounds on a machine of {os.cpu_count()} cores:",
        "",
        "| group | evidence | rounds inside | bounded from above | gap | lower bound | width | beyond |",
        "|---|---|---|---|---|---|---|---|",
    )
    return "\n".join([*head, *(line.row() for line in lines)]) + "\n"
