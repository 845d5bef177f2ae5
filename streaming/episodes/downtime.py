"""How long nobody consumed partitions, as bounds: from the moments that rounds and witnesses tell.

A partition that a round stops has a *span*: from the moment its holder stopped to the moment that somebody consumed
it again. Four moments say where these two lie:

- it was consumed until ``stopped_after`` at least, and not from ``stopped_before`` on;
- it was not consumed before ``resumed_after``, and was by ``resumed_before``.

So it stood still for at least ``resumed_after − stopped_before`` and at most ``resumed_before − stopped_after``.
Every witness narrows what the others leave; where they contradict each other, nothing is known. A moment that
nobody told is never filled in, and the clock tells none.

A round that stops a partition again before somebody proved that it was consumed in between goes on with its span:
what it stood still before and after is counted together from below, and as one from above.

Brokers' times are compared with each other, and members' times (:class:`~streaming.episodes.stops.Callback`) with
each other: never one with the other, as their clocks may differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from msgspec import UNSET, Struct, UnsetType, field, structs

from streaming.episodes.stops import LISTENER, RECORDS, Callback, Pending, Told, Turned, Witness
from streaming.wire.downtime import longest
from streaming.wire.episodes import Downtime, PartitionDowntime
from streaming.wire.events import Holding, Stop

#: Partitions of a group that are followed; what stops beyond them is counted, and nothing bounds it.
MOST_PARTITIONS: Final = 1000


class Still(Struct, frozen=True, array_like=True, gc=False):
    """One partition in an episode.

    Attributes:
        number: of the last round that stopped it or gave it to somebody.
        first: of the round with which its span began.
        owned: somebody has it again.
        alive: its holder was still there in the round that stopped it.
        lower, upper: bounds of the spans that are over, ms; ``upper`` None: nothing bounds one of them.
        held: lower bound of the earlier rounds of its span, ms.
        stopped_after, stopped_before, resumed_after, resumed_before: of its span, ms, by brokers' clocks.
        said_stopped, said_resumed: when members said that they gave it up and got it, ms, by their clocks.
    """

    number: int
    first: int
    owned: bool = False
    alive: bool = True
    lower: int = 0
    upper: int | None = 0
    held: int = 0
    stopped_after: int | None = None
    stopped_before: int | None = None
    resumed_after: int | None = None
    resumed_before: int | None = None
    said_stopped: int | None = None
    said_resumed: int | None = None


class Early(Struct, frozen=True, array_like=True, gc=False):
    """What members said of a partition ahead of the round: when one gave it up, when one got it, and with which."""

    stopped: int | None = None
    number: int | None = None
    resumed: int | None = None


class Standstill(Struct, array_like=True, gc=False):
    """What is known of a group's partitions that stood still; changed in place, by whom it belongs to.

    Attributes:
        number: of the last round.
        stills: by topic and partition.
        early: what members said ahead of the round.
        sources: whose moments are in it.
        followed: how many partitions are in ``stills``.
        missed: stops of partitions beyond :data:`MOST_PARTITIONS`.
    """

    number: int = -1
    stills: dict[str, dict[int, Still]] = field(default_factory=dict)
    early: dict[str, dict[int, Early]] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    followed: int = 0
    missed: int = 0


def copied(known: Standstill | None) -> Standstill | None:
    """The same with containers of its own."""
    if known is None:
        return None
    return structs.replace(
        known,
        stills={topic: dict(found) for topic, found in known.stills.items()},
        early={topic: dict(found) for topic, found in known.early.items()},
    )


def over(known: Standstill | None) -> Standstill | None:
    """What is kept when the episode is over: what members have said of the next round."""
    return None if known is None else Standstill(known.number, early=known.early)


def play(known: Standstill | None, turned: Turned) -> Standstill:
    """Take a round."""
    known = known or Standstill()
    for holding, alive in ((turned.live, True), (turned.gone, False)):
        for topic, partition in _each(holding):
            _stop(known, topic, partition, turned, alive=alive)
    if turned.at is not None:
        _idle(known, turned.at, turned.pending)
        if turned.live or turned.gone:
            _credit(known, RECORDS)
    for topic, partition in _each(turned.started):
        _start(known, topic, partition, turned)
    known.number = turned.number
    known.early = _ahead(known.early, turned.number)
    return known


def learn(known: Standstill, told: Told) -> bool:
    """Take what is told beside rounds; whether it says more of partitions that stood still."""
    match told:
        case Pending():
            return _idle(known, told.at, told.partitions)
        case Witness():
            return _witness(known, told)
        case Callback():
            return _callback(known, told)


def downtime(known: Standstill | None) -> Downtime | None:
    """The bounds; None where no partition is known to have stood still."""
    if known is None or not (known.stills or known.missed):
        return None
    found = [
        PartitionDowntime(topic=topic, partition=partition, lower_ms=lower, upper_ms=upper)
        for topic, partition, still in _stills(known)
        for lower, upper in (bounds(still),)
    ]
    unbounded = known.missed + sum(one.upper_ms is None for one in found)
    bounded = sum(one.upper_ms or 0 for one in found)
    return Downtime(
        lower_ms=sum(one.lower_ms for one in found),
        upper_ms=None if unbounded else bounded,
        worst=longest(found, bounded=not unbounded),
        evidence=list(known.sources),
        partitions=known.missed + len(found),
        unbounded=unbounded,
        bounded_ms=bounded,
    )


def bounds(still: Still) -> tuple[int, int | None]:
    """How long a partition stood still, at least and at most, ms."""
    lower, upper = _span(still)
    return still.lower + lower, None if still.upper is None or upper is None else still.upper + upper


def _span(still: Still) -> tuple[int, int | None]:
    """The bounds of the span that goes on, or is the last."""
    lower = still.held + max(
        0,
        _between(still.stopped_before, still.resumed_after),
        _between(still.said_stopped, still.said_resumed),
    )
    if still.resumed_before is None or still.stopped_after is None:
        return lower, None
    upper = still.resumed_before - still.stopped_after
    return (lower, upper) if lower <= upper else (0, None)  # the witnesses contradict each other


def _between(start: int | None, end: int | None) -> int:
    return 0 if start is None or end is None else end - start


def _each(holding: Holding) -> Iterator[tuple[str, int]]:
    for topic, partitions in holding.items():
        for partition in partitions:
            yield topic, partition


def _stills(known: Standstill) -> Iterator[tuple[str, int, Still]]:
    for topic, found in known.stills.items():
        for partition, still in found.items():
            yield topic, partition, still


def _credit(known: Standstill, source: str) -> None:
    if source not in known.sources:
        known.sources = (*known.sources, source)


def _stop(known: Standstill, topic: str, partition: int, turned: Turned, *, alive: bool) -> None:
    """A round takes a partition from its holder, or stops it until it has one again."""
    number, found = turned.number, known.stills.setdefault(topic, {})
    still = found.get(partition)
    if still is None:
        if known.followed >= MOST_PARTITIONS:
            known.missed += 1
            return
        known.followed += 1
        still = Still(number, number, alive=alive)
    elif still.resumed_before is not None:
        lower, upper = bounds(still)
        still = Still(number, number, alive=alive, lower=lower, upper=upper)
    else:
        still = Still(
            *(number, still.first, False, alive, still.lower, still.upper, _span(still)[0]),
            stopped_after=still.stopped_after,
        )
    if turned.at is not None and still.first == number and partition in turned.pending.get(topic, ()):
        still = structs.replace(still, stopped_after=turned.at)
    early = known.early.get(topic, {}).get(partition)
    if early is not None and early.stopped is not None and early.number in (None, number):
        still = structs.replace(still, said_stopped=early.stopped)
    found[partition] = still


def _start(known: Standstill, topic: str, partition: int, turned: Turned) -> None:
    """A round gives a partition to somebody."""
    still = known.stills.get(topic, {}).get(partition)
    if still is None or still.owned:
        return
    still = structs.replace(still, owned=True, number=turned.number)
    early = known.early.get(topic, {}).get(partition)
    if early is not None and early.number == turned.number:
        still = structs.replace(still, said_resumed=early.resumed)
        _credit(known, LISTENER)
    known.stills[topic][partition] = still


def _idle(known: Standstill, at: int, pending: Holding) -> bool:
    """Nobody has these partitions at a moment, but those that have not given them up."""
    changed = False
    for topic, partition, still in [*_stills(known)]:
        if still.owned or partition in pending.get(topic, ()):
            continue
        stopped = at if still.stopped_before is None else still.stopped_before
        resumed = max(at, still.resumed_after or 0)
        if (stopped, resumed) != (still.stopped_before, still.resumed_after):
            known.stills[topic][partition] = structs.replace(
                still, stopped_before=stopped, resumed_after=resumed
            )
            changed = True
    return changed


def _ahead(early: dict[str, dict[int, Early]], number: int) -> dict[str, dict[int, Early]]:
    """What was said of rounds that are still to come, of the same number too."""
    ahead: dict[str, dict[int, Early]] = {}
    for topic, found in early.items():
        for partition, one in found.items():
            if one.number is not None and one.number >= number:
                ahead.setdefault(topic, {})[partition] = one
    return ahead


def _witness(known: Standstill, told: Witness) -> bool:
    changed = False
    for stop in told.stops:
        everywhere = stop.partitions is UNSET
        places = (
            [(topic, partition) for topic, partition, _ in _stills(known)]
            if stop.partitions is UNSET
            else _each(stop.partitions)
        )
        for topic, partition in places:
            still = known.stills.get(topic, {}).get(partition)
            if still is None or still.number != told.number:
                continue
            narrowed = _narrowed(still, stop, everywhere=everywhere)
            if narrowed != still:
                known.stills[topic][partition] = narrowed
                changed = True
    if changed:
        _credit(known, told.source)
    return changed


def _narrowed(still: Still, stop: Stop, *, everywhere: bool) -> Still:
    """A partition's span with what a witness saw of it."""
    after = still.stopped_after
    if still.first == still.number:
        # Of members that are gone nothing said of the others holds.
        if still.alive or not everywhere:
            after = _later(after, stop.stopped_after)
    elif after is None and not everywhere:
        # A span of several rounds: who saw it consumed at its end saw it last before its beginning.
        after = _known(stop.stopped_after)
    return structs.replace(
        still,
        stopped_after=after,
        stopped_before=_earlier(still.stopped_before, stop.stopped_before),
        resumed_after=_later(still.resumed_after, stop.resumed_after),
        resumed_before=_earlier(still.resumed_before, stop.resumed_before)
        if still.owned
        else still.resumed_before,
    )


def _known(moment: int | UnsetType) -> int | None:
    return None if moment is UNSET else moment


def _later(known: int | None, moment: int | UnsetType) -> int | None:
    return known if moment is UNSET else moment if known is None else max(known, moment)


def _earlier(known: int | None, moment: int | UnsetType) -> int | None:
    return known if moment is UNSET else moment if known is None else min(known, moment)


def _callback(known: Standstill, told: Callback) -> bool:
    changed = False
    room = MOST_PARTITIONS - sum(map(len, known.early.values()))
    if sum(map(len, told.revoked.values())) <= room:
        for topic, partition in _each(told.revoked):
            changed = _gave_up(known, topic, partition, told.at) or changed
    if told.number > 0 and sum(map(len, told.assigned.values())) <= room:
        for topic, partition in _each(told.assigned):
            changed = _got(known, topic, partition, told) or changed
    if changed:
        _credit(known, LISTENER)
    return changed


def _gave_up(known: Standstill, topic: str, partition: int, at: int) -> bool:
    """A member says that it gave a partition up: in the round that is known, or in the next."""
    still = known.stills.get(topic, {}).get(partition)
    if still is None or (still.said_resumed is not None and at > still.said_resumed):
        known.early.setdefault(topic, {})[partition] = Early(at)
        return False
    if still.said_stopped is not None:
        return False
    known.stills[topic][partition] = structs.replace(still, said_stopped=at)
    return True


def _got(known: Standstill, topic: str, partition: int, told: Callback) -> bool:
    """A member says that it got a partition, with the round that is known, or one that is to come."""
    at, number = told.at, told.number
    still = known.stills.get(topic, {}).get(partition)
    given = still is not None and still.owned and still.number == number
    if still is not None and given and still.said_resumed is None:
        known.stills[topic][partition] = structs.replace(still, said_resumed=at)
        return True
    early = known.early.get(topic, {}).get(partition)
    if early is None:
        # Of one epoch there are several rounds: who gets it may say so ahead of that which gives it to him.
        if number < known.number or given:
            return False
        early = Early()
    if early.number is None or early.number < number:
        stopped = early.stopped if early.number is None else None
        known.early.setdefault(topic, {})[partition] = Early(stopped, number, at)
    return False
