"""Evidence of when partitions had no consumer, and what it proves: rounds, views, witness records, callbacks.

:mod:`streaming.episodes.downtime` says which moments bound an outage; the rules here read them from evidence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from msgspec import UNSET, UnsetType, structs

from streaming.episodes.downtime import (
    MOST_PARTITIONS,
    EarlyReport,
    Outage,
    Outages,
    proved_part_ms,
    stops_of,
)
from streaming.records.events import Holding, ObservedMember, Stop

#: Source of bounds that come from the coordinator's records of the group.
RECORDS = "group-records"
#: Source of bounds that come from members' own callbacks.
LISTENER = "listener"
#: Epoch of a static KIP-848 member that has left and may come back.
_AWAY_EPOCH: Final = -2


class AssignmentChange(NamedTuple):
    """The partitions that a round takes away and gives out.

    Attributes:
        number: the generation or epoch; −1 if unknown (polling), so no other evidence refers to this round.
        at: when the coordinator wrote the round, ms; None if the round has no time that bounds anything.
        taken: partitions taken from members that are still in the group.
        orphaned: partitions of members that are gone, or that are back under another member id.
        assigned: partitions with an owner that had none before the round, or that the round stopped.
        pending: partitions that members are told to give up and still consume at ``at``.
        away: partitions of static members that have left for a while and keep their assignment (KIP-848).
        starts: nobody was in the group before, and the monitor saw that.
    """

    number: int
    at: int | None
    taken: Holding
    orphaned: Holding
    assigned: Holding
    pending: Holding
    away: Holding
    starts: bool = False


class View(NamedTuple):
    """A view of a KIP-848 group that makes no round; ``at``: when the coordinator wrote it, ms."""

    number: int
    at: int
    members: Sequence[ObservedMember]


class WitnessRecord(NamedTuple):
    """Bounds that one source gives for partitions of a round; ``number``: its generation or epoch."""

    source: str
    number: int
    stops: Sequence[Stop]


class Callback(NamedTuple):
    """A member's report after one of its rebalance callbacks.

    Attributes:
        at: time of the report, ms, by the member's clock.
        number: the member's generation or epoch; −1 between two.
        revoked: partitions that the member has just given up.
        assigned: partitions that the member has just been assigned.
    """

    at: int
    number: int
    revoked: Holding
    assigned: Holding


#: Evidence that is not a round.
Evidence = View | WitnessRecord | Callback


def play(outages: Outages | None, change: AssignmentChange) -> Outages:
    """Apply a round."""
    outages = outages or Outages()
    for holding, stayed in ((change.taken, True), (change.orphaned, False)):
        for topic, partition in _each(holding):
            _stop(outages, topic, partition, change, holder_stayed=stayed)
    _leave(outages, change.away, change.number)
    if change.at is not None:
        _prove_unconsumed(outages, change.at, change.pending)
        if change.taken or change.orphaned or change.away:
            outages.credit(RECORDS)
    for topic, partition in _each(change.assigned):
        _assign(outages, topic, partition, change)
    outages.number = change.number
    outages.early = _ahead(outages.early, change.number)
    return outages


def learn(outages: Outages, evidence: Evidence) -> bool:
    """Apply evidence that is not a round. True if it changes a bound."""
    match evidence:
        case View():
            return _view(outages, evidence)
        case WitnessRecord():
            return _witness(outages, evidence)
        case Callback():
            return _callback(outages, evidence)


def _each(holding: Holding) -> Iterator[tuple[str, int]]:
    for topic, partitions in holding.items():
        for partition in partitions:
            yield topic, partition


def _outage(outages: Outages, topic: str, partition: int) -> Outage | None:
    """Return the outage of a partition; None if it is not followed."""
    return outages.partitions.get(topic, {}).get(partition)


def _has(holding: Holding, topic: str, partition: int) -> bool:
    return partition in holding.get(topic, ())


def _stop(
    outages: Outages, topic: str, partition: int, change: AssignmentChange, *, holder_stayed: bool
) -> None:
    """A round takes a partition from its holder."""
    number, before = change.number, _outage(outages, topic, partition)
    if before is None and outages.followed >= MOST_PARTITIONS:
        outages.missed += 1
        return
    if (
        before is None
        or not before.rounds
        or before.resumed_before is not None
        or before.started_at is not None
    ):
        outage = _begun(before, number, holder_stayed=holder_stayed)
        outages.followed += before is None
    elif not before.is_owned:
        outage = structs.replace(before, number=number, holder_stayed=holder_stayed)
    else:
        part = proved_part_ms(before)
        outage = structs.replace(
            before,
            number=number,
            rounds=before.rounds + 1,
            is_owned=False,
            holder_stayed=holder_stayed,
            longest_part_ms=max(before.longest_part_ms, part),
            parts_ms=before.parts_ms + part,
            stopped_before=None,
            resumed_after=None,
            reported_stop=None,
            reported_start=None,
        )
    if change.at is not None and outage.first == number and _has(change.pending, topic, partition):
        outage = structs.replace(outage, stopped_after=change.at)
    early = outages.early.get(topic, {}).get(partition)
    if early is not None and early.stopped is not None and early.number in (None, number):
        outage = structs.replace(outage, reported_stop=early.stopped)
    outages.partitions.setdefault(topic, {})[partition] = outage


def _begun(before: Outage | None, number: int, *, holder_stayed: bool) -> Outage:
    """An outage that begins. ``before``: the last one, which is over, or the assignment at the group's start."""
    if before is None:
        return Outage(number, number, holder_stayed=holder_stayed)
    return Outage(
        number,
        number,
        holder_stayed=holder_stayed,
        started_at=before.started_at if before.resumed_before is None else None,
        past=stops_of(before),
        stopped_after=before.started_at,  # it can't have been down before the group started
    )


def _assign(outages: Outages, topic: str, partition: int, change: AssignmentChange) -> None:
    """A round gives a partition to a member."""
    outage = _outage(outages, topic, partition)
    if outage is None:
        if change.starts and change.at is not None and outages.followed < MOST_PARTITIONS:
            outages.followed += 1
            outages.partitions.setdefault(topic, {})[partition] = Outage(
                change.number, change.number, rounds=0, is_owned=True, started_at=change.at
            )
        return
    if outage.is_owned:
        return
    outage = structs.replace(outage, is_owned=True, number=change.number)
    early = outages.early.get(topic, {}).get(partition)
    if early is not None and early.number == change.number:
        outage = structs.replace(outage, reported_start=early.started)
        outages.credit(LISTENER)
    outages.partitions[topic][partition] = outage


def _prove_unconsumed(outages: Outages, at: int, pending: Holding) -> bool:
    """Nobody consumes partitions without an owner at a moment, except holders that have not given them up."""
    changed = False
    for topic, partition, outage in outages.each():
        if outage.is_owned or _has(pending, topic, partition):
            continue
        stopped = at if outage.stopped_before is None else outage.stopped_before
        resumed = max(at, outage.resumed_after or 0)
        if (stopped, resumed) != (outage.stopped_before, outage.resumed_after):
            outages.partitions[topic][partition] = structs.replace(
                outage,
                stopped_before=stopped,
                resumed_after=resumed,
                stopped_by=stopped if outage.stopped_by is None else outage.stopped_by,
            )
            changed = True
    return changed


def _ahead(early: dict[str, dict[int, EarlyReport]], number: int) -> dict[str, dict[int, EarlyReport]]:
    """The reports about rounds to come, those of the same number included."""
    ahead: dict[str, dict[int, EarlyReport]] = {}
    for topic, reports in early.items():
        for partition, report in reports.items():
            if report.number is not None and report.number >= number:
                ahead.setdefault(topic, {})[partition] = report
    return ahead


def _view(outages: Outages, view: View) -> bool:
    """Apply a view of a KIP-848 group that makes no round."""
    changed = _leave(outages, _held(view.members, is_away=True), view.number)
    pending = together(one.pending_revocation for one in view.members if one.pending_revocation)
    changed = _prove_unconsumed(outages, view.at, pending) or changed
    if any(not outage.is_owned for _, _, outage in outages.each()):
        # A static member that is back under the same id makes no round.
        for topic, partition in _each(_held(view.members, is_away=False)):
            outage = _outage(outages, topic, partition)
            if outage is not None and not outage.is_owned:
                outages.partitions[topic][partition] = structs.replace(
                    outage, is_owned=True, number=view.number
                )
                changed = True
    if changed:
        outages.credit(RECORDS)
    return changed


def _leave(outages: Outages, away: Holding, number: int) -> bool:
    """Static members have left for a while, and keep their assignment."""
    changed = False
    change = AssignmentChange(number, None, {}, {}, {}, {}, {})
    for topic, partition in _each(away):
        outage = _outage(outages, topic, partition)
        if outage is None or outage.is_owned:
            _stop(outages, topic, partition, change, holder_stayed=False)
            changed = True
    return changed


def away_of(members: Iterable[ObservedMember]) -> Holding:
    """The partitions of static members that have left for a while (KIP-848)."""
    return _held(members, is_away=True)


def _held(members: Iterable[ObservedMember], *, is_away: bool) -> Holding:
    return together(one.assigned for one in members if (one.member_epoch == _AWAY_EPOCH) == is_away)


def together(shares: Iterable[Holding]) -> Holding:
    """The partitions of all these shares."""
    union: Holding = {}
    for share in shares:
        for topic, partitions in share.items():
            union.setdefault(topic, []).extend(partitions)
    return union


def _witness(outages: Outages, record: WitnessRecord) -> bool:
    changed = False
    for stop in record.stops:
        is_general = stop.partitions is UNSET
        places = (
            [(topic, partition) for topic, partition, _ in outages.each()]
            if stop.partitions is UNSET
            else _each(stop.partitions)
        )
        for topic, partition in places:
            outage = _outage(outages, topic, partition)
            if outage is None:
                continue
            if outage.number == record.number:
                narrowed = _narrowed(outage, stop, is_general=is_general)
            elif outage.number > record.number and stop.resumed_before is not UNSET:
                narrowed = structs.replace(outage, started_at=None)  # consumed before this outage
            else:
                continue
            if narrowed != outage:
                outages.partitions[topic][partition] = narrowed
                changed = True
    if changed:
        outages.credit(record.source)
    return changed


def _narrowed(outage: Outage, stop: Stop, *, is_general: bool) -> Outage:
    """A partition's outage with one witness record."""
    resumed_before = outage.resumed_before
    if outage.is_owned:
        resumed_before = _earlier(resumed_before, stop.resumed_before)
    if not outage.rounds:
        return structs.replace(outage, resumed_before=resumed_before)
    after, started = outage.stopped_after, outage.started_at
    known = _known(stop.stopped_after)
    # Later than the first proof of the outage: it was consumed in between, so this is about a part of it.
    if known is not None and (outage.stopped_by is None or known <= outage.stopped_by):
        if not is_general and known > (outage.started_at or 0):
            started = None
        if outage.first == outage.number:
            # A general record is about members that are still there.
            if outage.holder_stayed or not is_general:
                after = _later(after, known)
        elif after is None and not is_general:
            # Whoever saw the partition consumed after several rounds saw it last before the first of them.
            after = known
    return structs.replace(
        outage,
        started_at=started,
        stopped_after=after,
        stopped_before=_earlier(outage.stopped_before, stop.stopped_before),
        stopped_by=_earlier(outage.stopped_by, stop.stopped_before),
        resumed_after=_later(outage.resumed_after, _known(stop.resumed_after)),
        resumed_before=resumed_before,
    )


def _known(moment: int | UnsetType) -> int | None:
    return None if moment is UNSET else moment


def _later(known: int | None, moment: int | None) -> int | None:
    return known if moment is None else moment if known is None else max(known, moment)


def _earlier(known: int | None, moment: int | UnsetType) -> int | None:
    return known if moment is UNSET else moment if known is None else min(known, moment)


def _callback(outages: Outages, report: Callback) -> bool:
    changed = False
    room = MOST_PARTITIONS - sum(map(len, outages.early.values()))
    if sum(map(len, report.revoked.values())) <= room:
        for topic, partition in _each(report.revoked):
            changed = _gave_up(outages, topic, partition, report.at) or changed
    if report.number > 0 and sum(map(len, report.assigned.values())) <= room:
        for topic, partition in _each(report.assigned):
            changed = _got(outages, topic, partition, report) or changed
    if changed:
        outages.credit(LISTENER)
    return changed


def _gave_up(outages: Outages, topic: str, partition: int, at: int) -> bool:
    """A member reports that it gave a partition up: in the last round, or in the next one."""
    outage = _outage(outages, topic, partition)
    is_next = outage is None or not outage.rounds
    if outage is None or is_next or (outage.reported_start is not None and at > outage.reported_start):
        outages.early.setdefault(topic, {})[partition] = EarlyReport(at)
        return False
    if outage.reported_stop is not None:
        return False
    outages.partitions[topic][partition] = structs.replace(outage, reported_stop=at)
    return True


def _got(outages: Outages, topic: str, partition: int, report: Callback) -> bool:
    """A member reports that it got a partition, in the last round or in one to come."""
    at, number = report.at, report.number
    outage = _outage(outages, topic, partition)
    is_assigned = outage is not None and outage.is_owned and outage.number == number
    if outage is not None and is_assigned and outage.reported_start is None:
        outages.partitions[topic][partition] = structs.replace(outage, reported_start=at)
        return True
    early = outages.early.get(topic, {}).get(partition)
    if early is None:
        # One epoch has several rounds: the new holder may report ahead of the round that shows it.
        if number < outages.number or is_assigned:
            return False
        early = EarlyReport()
    if early.number is None or early.number < number:
        stopped = early.stopped if early.number is None else None
        outages.early.setdefault(topic, {})[partition] = EarlyReport(stopped, number, at)
    return False
