"""When the members of a classic group joined its generations, by its coordinator's log.

``Preparing to rebalance``: from then on members are told to join again. ``Stabilized``: all have, and each had
given up what it held before it did (eager). ``Assignment received``: they are told what they have now, and the
generation is written. So its record has the time of this line, which places the others in time, whatever the time
zone that the broker writes its log in.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from msgspec import UNSET, UnsetType

from streaming.collect.broker_log.events import CoordinatorEvent, Kind, Moment, ReasonKind
from streaming.wire.events import MAX_TIMESTAMP, Stop

#: Generations remembered: their records are read moments later.
_REMEMBERED: Final = 50_000
#: Time zones differ by so much, ms.
_ZONES_MS: Final = 900_000
#: A record that is further than this from its line, ms, is not of this line: the log is old, or a static member has
#: come back, for which the generation is written again.
_APART_MS: Final = 1_000
#: Reasons for which the members that stay stop because the coordinator tells them to.
_ASKED: Final = frozenset({ReasonKind.JOINED, ReasonKind.LEFT, ReasonKind.FENCED})


@dataclass(slots=True)
class _Phase:
    """A join phase; None: not seen.

    ``prepared`` is that of the first of several phases in a row, of which only the last led to an assignment.
    ``asked``: all of them because of members that came or went: the others stopped because they were told to.
    """

    prepared: Moment | None = None
    asked: bool = True
    stabilized: Moment | None = None


class JoinPhases:
    """Remembers the join phase of each generation. Add the events of a group in order."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, _Phase] = OrderedDict()
        self._known: OrderedDict[tuple[str, int], tuple[_Phase, Moment]] = OrderedDict()

    def add(self, event: CoordinatorEvent) -> None:
        """Take note of an event, if it is of a join phase."""
        if event.kind is Kind.PREPARING:
            phase = self._phase(event, _Phase(event.moment))
            phase.asked = phase.asked and event.reason_kind in _ASKED
        elif event.kind is Kind.STABILIZED:
            self._phase(event, _Phase(asked=False)).stabilized = event.moment
        elif event.kind is Kind.ASSIGNMENT_RECEIVED and event.number is not None:
            done = self._open.pop(event.group_id, None)
            if done is not None and event.moment is not None:
                self._known[event.group_id, event.number] = done, event.moment
                if len(self._known) > _REMEMBERED:
                    self._known.popitem(last=False)

    def _phase(self, event: CoordinatorEvent, new: _Phase) -> _Phase:
        phase = self._open.setdefault(event.group_id, new)
        if len(self._open) > _REMEMBERED:
            self._open.popitem(last=False)
        return phase

    def stop(self, group_id: str, number: int, timestamp: int) -> Stop | None:
        """Return when the members of an eager group stopped for a generation, once; None: the log does not show it.

        Args:
            group_id: the group.
            number: the generation.
            timestamp: of its record, ms.
        """
        known = self._known.get((group_id, number))
        if known is None:
            return None
        phase, assigned = known
        zone = round((timestamp - assigned.ms) / _ZONES_MS) * _ZONES_MS
        if abs(timestamp - assigned.ms - zone) >= _APART_MS + assigned.precision_ms:
            return None
        del self._known[group_id, number]  # the next record of this generation is none of a join phase
        found = Stop(
            stopped_after=_placed(phase.prepared if phase.asked else None, zone),
            stopped_before=_placed(phase.stabilized, zone, end=True),
        )
        return None if found == Stop() else found


def _placed(moment: Moment | None, zone: int, *, end: bool = False) -> int | UnsetType:
    """Return a moment in the records' time; the ``end`` of what its timestamp can mean, or the beginning."""
    if moment is None:
        return UNSET
    ms = moment.ms + zone + (moment.precision_ms - 1 if end else 0)
    return ms if 0 <= ms <= MAX_TIMESTAMP else UNSET
