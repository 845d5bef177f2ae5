"""Bounds of downtime from group snapshots, offset commits, the coordinator's log and members' rebalance callbacks.

:mod:`streaming.episodes.downtime` defines the moments that bound an outage; this module reads them from evidence.
"""

from collections.abc import Callable, Iterable
from typing import Final

from msgspec import UNSET, UnsetType, structs

from assignors.assignment import collect_lists
from streaming.episodes import downtime
from streaming.episodes.downtime import EarlyReport, Outage, Outages
from streaming.records import events
from streaming.records.events import Holding

#: Member epoch of a static KIP-848 member that has left temporarily.
AWAY_EPOCH: Final = -2
#: Events other than rounds that are evidence of downtime.
DowntimeEvidence = events.GroupObserved | events.PartitionsStopped | events.AssignmentAcknowledged


def apply_evidence(outages: Outages, data: DowntimeEvidence, protocol: str) -> bool:
    """Apply an event's evidence of downtime to the outages, in place; return whether a bound changes."""
    match data:
        case events.GroupObserved():
            return _apply_snapshot(outages, data)
        case events.PartitionsStopped():
            return _apply_witness(outages, data, data.generation if protocol == "classic" else data.group_epoch)
        case events.AssignmentAcknowledged():
            return _apply_callback(outages, data)


def _apply_snapshot(outages: Outages, view: events.GroupObserved) -> bool:
    """Apply a KIP-848 group's snapshot without a new round to its outages; return whether an outage changes."""
    number = view.group_epoch or 0
    changed = downtime.apply_temporary_leave(outages, away_partitions(view.members), number)
    changed = downtime.prove_unconsumed(outages, view.timestamp, pending_partitions(view.members)) or changed
    if any(not outage.is_owned for _, _, outage in outages.tracked()):
        # A static member that rejoins under the same id does not cause a round.
        present = collect_lists(member.assigned for member in view.members if member.member_epoch != AWAY_EPOCH)
        for topic, partition in downtime.partitions_of(present):
            outage = downtime.find_outage(outages, topic, partition)
            if outage is not None and not outage.is_owned:
                outages.partitions[topic][partition] = structs.replace(outage, is_owned=True, number=number)
                changed = True
    if changed:
        outages.add_source(downtime.RECORDS)
    return changed


def away_partitions(members: Iterable[events.ObservedMember]) -> Holding:
    """Return the partitions of static members that left temporarily (KIP-848)."""
    return collect_lists(member.assigned for member in members if member.member_epoch == AWAY_EPOCH)


def pending_partitions(members: Iterable[events.ObservedMember]) -> Holding:
    """Return the partitions that a snapshot's members must revoke but still consume."""
    return collect_lists(member.pending_revocation for member in members)


def _apply_witness(outages: Outages, record: events.PartitionsStopped, number: int | None) -> bool:
    if number is None:
        return False
    changed = False
    for stop in record.stops:
        is_whole_group = stop.partitions is UNSET
        tracked = [(topic, partition) for topic, partition, _ in outages.tracked()]
        for topic, partition in tracked if stop.partitions is UNSET else downtime.partitions_of(stop.partitions):
            outage = new_outage = downtime.find_outage(outages, topic, partition)
            if outage is None:
                continue
            if outage.number == number:
                offsets = {} if stop.committed is UNSET else stop.committed.get(topic, {})
                new_outage = _narrow_outage(outage, stop, offsets.get(str(partition)), is_whole_group=is_whole_group)
            elif outage.number > number and stop.resumed_before is not UNSET:
                new_outage = structs.replace(outage, started_at=None)  # the partition was consumed before this outage
            if new_outage is not None and new_outage != outage:
                outages.partitions[topic][partition] = new_outage
                changed = True
    if changed:
        outages.add_source(record.source)
    return changed


def _narrow_outage(outage: Outage, stop: events.Stop, committed: int | None, *, is_whole_group: bool) -> Outage:
    resumed_before = outage.resumed_before
    if outage.is_owned:
        resumed_before = _narrow_bound(min, resumed_before, stop.resumed_before)
    if not outage.rounds:
        return structs.replace(outage, resumed_before=resumed_before)
    after, started, moment = outage.stopped_after, outage.started_at, stop.stopped_after
    # Consumption after the first proof of the outage: the record is only about a part of the outage.
    if moment is not UNSET and (outage.latest_stop_ms is None or moment <= outage.latest_stop_ms):
        if not is_whole_group and moment > (outage.started_at or 0):
            started = None
        if outage.first == outage.number:
            # A record without partitions is about members that are still in the group.
            if outage.is_owner_present or not is_whole_group:
                after = _narrow_bound(max, after, moment)
        elif after is None and not is_whole_group:
            # After several rounds, the last consumption in the record was before the first of these rounds.
            after = moment
    return structs.replace(
        outage,
        started_at=started,
        stopped_after=after,
        stopped_before=_narrow_bound(min, outage.stopped_before, stop.stopped_before),
        latest_stop_ms=_narrow_bound(min, outage.latest_stop_ms, stop.stopped_before),
        resumed_after=_narrow_bound(max, outage.resumed_after, stop.resumed_after),
        resumed_before=resumed_before,
        committed=outage.committed if committed is None else committed,
    )


def _narrow_bound(choose_bound: Callable[..., int], current: int | None, moment: int | UnsetType) -> int | None:
    return current if moment is UNSET else moment if current is None else choose_bound(current, moment)


def _apply_callback(outages: Outages, report: events.AssignmentAcknowledged) -> bool:
    changed = False
    revoked = {} if report.revoked is UNSET else report.revoked
    assigned = {} if report.assigned is UNSET else report.assigned
    free_report_slots = downtime.MAX_OUTAGE_PARTITIONS - sum(map(len, outages.early_reports.values()))
    if sum(map(len, revoked.values())) <= free_report_slots:
        for topic, partition in downtime.partitions_of(revoked):
            changed = _apply_release(outages, topic, partition, report.timestamp) or changed
    if report.generation > 0 and sum(map(len, assigned.values())) <= free_report_slots:
        for topic, partition in downtime.partitions_of(assigned):
            changed = _apply_gain(outages, topic, partition, report) or changed
    if changed:
        outages.add_source(downtime.LISTENER)
    return changed


def _apply_release(outages: Outages, topic: str, partition: int, at: int) -> bool:
    """Apply a member's report that it revoked a partition in the last or the next rebalance round."""
    outage = downtime.find_outage(outages, topic, partition)
    is_next_round = outage is None or not outage.rounds
    if outage is None or is_next_round or (outage.reported_start_ms is not None and at > outage.reported_start_ms):
        outages.early_reports.setdefault(topic, {})[partition] = EarlyReport(at)
        return False
    if outage.reported_stop_ms is not None:
        return False
    outages.partitions[topic][partition] = structs.replace(outage, reported_stop_ms=at)
    return True


def _apply_gain(outages: Outages, topic: str, partition: int, report: events.AssignmentAcknowledged) -> bool:
    """Record in the outages that a member was assigned a partition; return whether a bound of an outage changes."""
    at, number = report.timestamp, report.generation
    outage = downtime.find_outage(outages, topic, partition)
    is_assigned = outage is not None and outage.is_owned and outage.number == number
    if outage is not None and is_assigned and outage.reported_start_ms is None:
        outages.partitions[topic][partition] = structs.replace(outage, reported_start_ms=at)
        return True
    early_reports = outages.early_reports.get(topic, {}).get(partition)
    # One epoch has several rounds: the new owner may report before the round that assigns the partition.
    if early_reports is None and (number < outages.number or is_assigned):
        return False
    early_reports = early_reports or EarlyReport()
    if early_reports.number is None or early_reports.number < number:
        stopped = early_reports.stopped if early_reports.number is None else None
        outages.early_reports.setdefault(topic, {})[partition] = EarlyReport(stopped, number, at)
    return False
