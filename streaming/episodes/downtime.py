"""Downtime: bounds of the time in which partitions had no consumer, from evidence about a group's rebalances.

A partition that a round takes away is *down* from the moment when its owner stopped until another consumer (or the
same one) resumed. Evidence gives four moments, which bound the stop and the resumption:

- it was consumed until ``stopped_after`` at least, and no longer from ``stopped_before`` on;
- it was not consumed before ``resumed_after``, and was consumed again by ``resumed_before``.

docs/explanation/downtime.md has the evidence of each; contradictory evidence proves nothing. Times of brokers are only
compared with times of brokers, and times of members with times of members, as their clocks may differ.

If a round takes a partition away again and nothing proves that it was consumed in between, the outage continues. For
lower bounds its parts count as separate stops: the longest part bounds the longest stop, the sum of all parts the
total. For upper bounds the whole outage may have been one stop, or one stop per round.
"""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import Struct, field, structs

from streaming.records.downtime import NO_STOPS, Stops, downtime_sort_key, sum_stops
from streaming.records.episodes import Downtime, PartitionDowntime
from streaming.records.events import Holding

#: Source of bounds that come from the coordinator's records of the group.
RECORDS: Final = "group-records"
#: Source of bounds that come from members' rebalance callbacks.
LISTENER: Final = "listener"
#: The most partitions of a group that are tracked one by one; stops of other partitions are counted without bounds.
MAX_OUTAGE_PARTITIONS: Final = 1000


class Outage(Struct, frozen=True, array_like=True, gc=False):
    """Last outage of a partition in the episode, and the sums of the partition's earlier outages.

    Attributes:
        number: the last round that took the partition away or assigned it.
        first: the round that began the outage.
        rounds: how many rounds took the partition away in this outage; 0: a starting group only assigned it.
        is_owned: a member owns the partition again.
        is_owner_present: the previous owner stayed in the group in the round that took the partition away.
        started_at: start of the group, ms, until something proves that it has consumed the partition; then None.
        past: sums of the outages before this one.
        longest_stop_ms, total_stops_ms: longest and total proven downtime of this outage's earlier rounds.
        latest_stop_ms: earliest moment of this outage at which provably no member consumed the partition, ms.
        stopped_after, stopped_before, resumed_after, resumed_before: ms, by brokers' clocks.
        committed: the committed offset when the partition stopped.
        longest_interval: ``stopped_before`` and ``resumed_after`` of the longest of this outage's earlier rounds.
        reported_stop_ms, reported_start_ms: when members reported that they gave the partition up and got it, by the
                members' clocks.
    """

    number: int
    first: int
    rounds: int = 1
    is_owned: bool = False
    is_owner_present: bool = True
    started_at: int | None = None
    past: Stops = NO_STOPS
    longest_stop_ms: int = 0
    total_stops_ms: int = 0
    latest_stop_ms: int | None = None
    stopped_after: int | None = None
    stopped_before: int | None = None
    resumed_after: int | None = None
    resumed_before: int | None = None
    reported_stop_ms: int | None = None
    reported_start_ms: int | None = None
    committed: int | None = None
    longest_interval: tuple[int, int] | None = None


class EarlyReport(Struct, frozen=True, array_like=True, gc=False):
    """Times of a partition's revocation and assignment in round ``number``, reported by members before the round."""

    stopped: int | None = None
    number: int | None = None
    started: int | None = None


class Outages(Struct, array_like=True, gc=False):
    """Outages of a group's open episode, changed in place.

    ``number``: generation or epoch of the last round. ``partitions``: outages by topic and partition.
    ``early_reports``: reports of members that arrived before their round. ``followed``: number of tracked partitions;
    ``missed``: stops of partitions that are not tracked.
    """

    number: int = -1
    partitions: dict[str, dict[int, Outage]] = field(default_factory=dict)
    early_reports: dict[str, dict[int, EarlyReport]] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    followed: int = 0
    missed: int = 0

    def tracked(self) -> list[tuple[str, int, Outage]]:
        """Return all partitions whose downtime is measured, as (topic, partition, outage)."""
        return [(topic, p, outage) for topic, outages in self.partitions.items() for p, outage in outages.items()]

    def add_source(self, source: str) -> None:
        """Add a source of evidence for the bounds of a group's downtime."""
        if source not in self.sources:
            self.sources = (*self.sources, source)


class AssignmentChange(NamedTuple):
    """Partitions that a round takes away and assigns.

    Attributes:
        number: the generation or epoch; −1 if unknown (polling), so that no other evidence can refer to this round.
        at: when the coordinator wrote the round, ms; None if that is unknown.
        taken: partitions taken from members that are still in the group.
        unowned_partitions: partitions of members that departed, or that rejoined under another member id.
        assigned: partitions that have an owner now but had none before, or that the round interrupted.
        pending: partitions that members must give up but still consume at the time ``at``.
        away: partitions of static members that left temporarily and keep their assignment (KIP-848).
        starts: the group is known to have had no members before.
    """

    number: int
    at: int | None
    taken: Holding
    unowned_partitions: Holding
    assigned: Holding
    pending: Holding
    away: Holding
    starts: bool = False


def copy_outages(outages: Outages | None) -> Outages | None:
    """Return a copy of the outages that does not share containers with the original."""
    if outages is None:
        return None
    return structs.replace(
        outages,
        partitions={topic: dict(by_partition) for topic, by_partition in outages.partitions.items()},
        early_reports={topic: dict(by_partition) for topic, by_partition in outages.early_reports.items()},
    )


def outages_after_end(outages: Outages | None) -> Outages | None:
    """Return the ended episode's outages for the next episode: no partitions, only early reports about its round."""
    return None if outages is None else Outages(outages.number, early_reports=outages.early_reports)


def outages_for_next_episode(outages: Outages | None) -> Outages | None:
    """Return the outages with which an episode begins right after another one: of partitions not consumed again yet."""
    if outages is None or (next_outages := outages_after_end(outages)) is None:
        return None
    for topic, partition, outage in outages.tracked():
        if outage.started_at is not None and outage.resumed_before is None:
            waits = Outage(outage.number, outage.first, rounds=0, is_owned=True, started_at=outage.started_at)
            next_outages.partitions.setdefault(topic, {})[partition] = waits
            next_outages.followed += 1
    return next_outages


def downtime(outages: Outages | None) -> Downtime | None:
    """Return the bounds of the episode's downtime; None if no partition is known to have been down."""
    if outages is None:
        return None
    tracked = [(topic, partition, stops_of(outage)) for topic, partition, outage in outages.tracked()]
    stopped = [(topic, partition, stops) for topic, partition, stops in tracked if stops != NO_STOPS]
    if not stopped and not outages.missed:
        return None
    missed = Stops((0, outages.missed), (0, None), (0, None)) if outages.missed else NO_STOPS
    total = sum_stops([missed, *(stops for _, _, stops in stopped)])
    unbounded = outages.missed + sum(stops.total[1] is None for _, _, stops in stopped)
    return Downtime(
        lower_ms=total.total[0],
        upper_ms=total.total[1],
        longest_ms=total.longest,
        total_ms=total.total,
        stops=total.count,
        worst=_worst(stopped, bounded=not unbounded) if stopped else None,
        evidence=list(outages.sources),
        partitions=outages.missed + len(stopped),
        unbounded=unbounded,
        bounded_ms=sum(stops.total[1] or 0 for _, _, stops in stopped),
    )


def _worst(stopped: Sequence[tuple[str, int, Stops]], *, bounded: bool) -> PartitionDowntime:
    topic, partition, stops = max(stopped, key=lambda item: downtime_sort_key(item[2].total, bounded=bounded))
    lower, upper = stops.total
    return PartitionDowntime(
        topic=topic, partition=partition, lower_ms=lower, upper_ms=upper, longest_ms=stops.longest, stops=stops.count
    )


def stops_of(outage: Outage) -> Stops:
    """Return the downtimes of a partition in an episode: the sum over its earlier outages and the last outage."""
    if not outage.rounds or outage.started_at is not None:
        return outage.past
    last = _stops_of_last_outage(outage)
    return last if outage.past == NO_STOPS else sum_stops((outage.past, last))


def _stops_of_last_outage(outage: Outage) -> Stops:
    part = _proved_duration_ms(outage)
    total, longest = outage.total_stops_ms + part, max(outage.longest_stop_ms, part)
    count = 1, None if outage.number < 0 else outage.rounds  # polling may have missed rounds
    if outage.resumed_before is None or outage.stopped_after is None:
        return Stops(count, (total, None), (longest, None))
    upper = outage.resumed_before - outage.stopped_after
    if total > upper:  # the evidence contradicts itself
        return Stops(count, (0, None), (0, None))
    return Stops(count, (total, upper), (longest, upper))


def _proved_duration_ms(outage: Outage) -> int:
    """Return the proven downtime (ms) of an outage since the last round that took its partition away."""
    duration = 0
    if outage.stopped_before is not None and outage.resumed_after is not None:
        duration = max(duration, outage.resumed_after - outage.stopped_before)
    if outage.reported_stop_ms is not None and outage.reported_start_ms is not None:
        duration = max(duration, outage.reported_start_ms - outage.reported_stop_ms)
    return duration


def apply_change(outages: Outages | None, change: AssignmentChange) -> Outages:
    """Apply the assignment changes of a rebalance round to the outages, in place, and return the outages."""
    outages = outages or Outages()
    for holding, is_owner_present in ((change.taken, True), (change.unowned_partitions, False)):
        for topic, partition in partitions_of(holding):
            consumed_at = change.at if partition in change.pending.get(topic, ()) else None
            _stop(outages, topic, partition, change.number, is_owner_present=is_owner_present, consumed_at=consumed_at)
    apply_temporary_leave(outages, change.away, change.number)
    if change.at is not None:
        prove_unconsumed(outages, change.at, change.pending)
        if change.taken or change.unowned_partitions or change.away:
            outages.add_source(RECORDS)
    for topic, partition in partitions_of(change.assigned):
        _assign(outages, topic, partition, change)
    outages.number = change.number
    outages.early_reports = _future_reports(outages.early_reports, change.number)
    return outages


def partitions_of(holding: Holding) -> Iterator[tuple[str, int]]:
    """Yield each partition as (topic, number)."""
    for topic, partitions in holding.items():
        for partition in partitions:
            yield topic, partition


def find_outage(outages: Outages, topic: str, partition: int) -> Outage | None:
    """Return the outage of a partition; None if the partition is not tracked."""
    return outages.partitions.get(topic, {}).get(partition)


def _stop(
    outages: Outages, topic: str, partition: int, number: int, *, is_owner_present: bool, consumed_at: int | None = None
) -> None:
    """Record that a round took a partition from its owner; ``consumed_at``: when it was still consumed, ms."""
    before = find_outage(outages, topic, partition)
    if before is None:
        if outages.followed >= MAX_OUTAGE_PARTITIONS:
            outages.missed += 1
            return
        outages.followed += 1
        outage = Outage(number, number, is_owner_present=is_owner_present)
    elif not before.rounds or before.resumed_before is not None or before.started_at is not None:
        outage = Outage(
            number,
            number,
            is_owner_present=is_owner_present,
            started_at=before.started_at if before.resumed_before is None else None,
            past=stops_of(before),
            stopped_after=before.started_at,  # no downtime before the group started
        )
    elif not before.is_owned:
        outage = structs.replace(before, number=number, is_owner_present=is_owner_present)
    else:
        part, stopped, resumed = _proved_duration_ms(before), before.stopped_before, before.resumed_after
        is_longest_stop = part > before.longest_stop_ms and stopped is not None and resumed is not None
        outage = structs.replace(
            before,
            number=number,
            rounds=before.rounds + 1,
            is_owned=False,
            is_owner_present=is_owner_present,
            longest_stop_ms=max(before.longest_stop_ms, part),
            longest_interval=(stopped, resumed) if is_longest_stop else before.longest_interval,
            total_stops_ms=before.total_stops_ms + part,
            stopped_before=None,
            resumed_after=None,
            reported_stop_ms=None,
            reported_start_ms=None,
        )
    if consumed_at is not None and outage.first == number:
        outage = structs.replace(outage, stopped_after=consumed_at)
    early_reports = outages.early_reports.get(topic, {}).get(partition)
    if early_reports is not None and early_reports.stopped is not None and early_reports.number in (None, number):
        outage = structs.replace(outage, reported_stop_ms=early_reports.stopped)
    outages.partitions.setdefault(topic, {})[partition] = outage


def _assign(outages: Outages, topic: str, partition: int, change: AssignmentChange) -> None:
    outage = find_outage(outages, topic, partition)
    if outage is None:
        if change.starts and change.at is not None and outages.followed < MAX_OUTAGE_PARTITIONS:
            outages.followed += 1
            outages.partitions.setdefault(topic, {})[partition] = Outage(
                change.number, change.number, rounds=0, is_owned=True, started_at=change.at
            )
        return
    if outage.is_owned:
        return
    outage = structs.replace(outage, is_owned=True, number=change.number)
    early_reports = outages.early_reports.get(topic, {}).get(partition)
    if early_reports is not None and early_reports.number == change.number:
        outage = structs.replace(outage, reported_start_ms=early_reports.started)
        outages.add_source(LISTENER)
    outages.partitions[topic][partition] = outage


def prove_unconsumed(outages: Outages, at: int, pending: Holding) -> bool:
    """Record that no member consumed the partitions without an owner at ``at`` (ms), except those in ``pending``."""
    changed = False
    for topic, partition, outage in outages.tracked():
        if outage.is_owned or partition in pending.get(topic, ()):
            continue
        stopped = at if outage.stopped_before is None else outage.stopped_before
        resumed = max(at, outage.resumed_after or 0)
        if (stopped, resumed) != (outage.stopped_before, outage.resumed_after):
            outages.partitions[topic][partition] = structs.replace(
                outage,
                stopped_before=stopped,
                resumed_after=resumed,
                latest_stop_ms=stopped if outage.latest_stop_ms is None else outage.latest_stop_ms,
            )
            changed = True
    return changed


def _future_reports(early_reports: dict[str, dict[int, EarlyReport]], number: int) -> dict[str, dict[int, EarlyReport]]:
    """Return the early reports of members about round ``number`` and later rounds."""
    later_reports = {
        topic: {p: report for p, report in reports.items() if report.number is not None and report.number >= number}
        for topic, reports in early_reports.items()
    }
    return {topic: reports for topic, reports in later_reports.items() if reports}


def apply_temporary_leave(outages: Outages, away: Holding, number: int) -> bool:
    """Begin outages for partitions of static members that left temporarily; return whether any has begun."""
    changed = False
    for topic, partition in partitions_of(away):
        outage = find_outage(outages, topic, partition)
        if outage is None or outage.is_owned:
            _stop(outages, topic, partition, number, is_owner_present=False)
            changed = True
    return changed
