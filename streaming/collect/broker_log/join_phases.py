"""The times at which members of a classic group joined its generations, by its coordinator's log.

``Preparing to rebalance``: members are asked to rejoin. ``Stabilized``: all have; eager members had revoked
everything before. ``Assignment received``: members receive their assignment and the coordinator writes the
generation. That record has this line's time, which gives the time zone of the log.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from msgspec import UNSET, UnsetType

from streaming.collect.broker_log.events import CoordinatorEvent, LogTimestamp, MessageKind, ReasonKind
from streaming.records.events import MAX_TIMESTAMP, Stop

#: The most generations kept; their records follow within moments.
_REMEMBERED: Final = 50_000
#: Time zones differ by multiples of this, ms.
_ZONES_MS: Final = 900_000
#: A record further from its line than this, ms, belongs to another line: the log is old, or a static member
#: rejoined and the coordinator wrote the generation again.
_APART_MS: Final = 1_000
#: BrokerReasons for which the coordinator asks all members to rejoin.
_REQUESTED: Final = frozenset({ReasonKind.JOINED, ReasonKind.LEFT, ReasonKind.FENCED})


@dataclass(slots=True)
class _Phase:
    """Timestamps of a join phase; None: not logged.

    Several phases in a row count as one if only the last led to an assignment; ``prepared`` is that of the first.
    ``is_requested``: the coordinator asked the members to rejoin, as others joined or left.
    """

    prepared: LogTimestamp | None = None
    is_requested: bool = True
    stabilized: LogTimestamp | None = None


class JoinPhases:
    """The join phases of the last generations; takes the events of a group in order."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, _Phase] = OrderedDict()
        self._phases: OrderedDict[tuple[str, int], tuple[_Phase, LogTimestamp]] = OrderedDict()

    def add(self, event: CoordinatorEvent) -> None:
        """Take the next event."""
        if event.kind is MessageKind.PREPARING:
            phase = self._phase(event, _Phase(event.timestamp))
            phase.is_requested = phase.is_requested and event.reason_kind in _REQUESTED
        elif event.kind is MessageKind.STABILIZED:
            self._phase(event, _Phase(is_requested=False)).stabilized = event.timestamp
        elif event.kind is MessageKind.ASSIGNMENT_RECEIVED and event.number is not None:
            complete = self._open.pop(event.group_id, None)
            if complete is not None and event.timestamp is not None:
                self._phases[event.group_id, event.number] = complete, event.timestamp
                if len(self._phases) > _REMEMBERED:
                    self._phases.popitem(last=False)

    def _phase(self, event: CoordinatorEvent, new: _Phase) -> _Phase:
        phase = self._open.setdefault(event.group_id, new)
        if len(self._open) > _REMEMBERED:
            self._open.popitem(last=False)
        return phase

    def stop(self, group_id: str, number: int, timestamp: int) -> Stop | None:
        """Return when an eager group's members stopped for a generation; None: not logged, or returned before."""
        entry = self._phases.get((group_id, number))
        if entry is None:
            return None
        phase, assigned = entry
        zone = round((timestamp - assigned.ms) / _ZONES_MS) * _ZONES_MS
        if abs(timestamp - assigned.ms - zone) >= _APART_MS + assigned.precision_ms:
            return None
        del self._phases[group_id, number]  # a second record of this generation has no join phase
        stop = Stop(
            stopped_after=_bound(phase.prepared if phase.is_requested else None, zone),
            stopped_before=_bound(phase.stabilized, zone, end=True),
        )
        return None if stop == Stop() else stop


def _bound(timestamp: LogTimestamp | None, zone: int, *, end: bool = False) -> int | UnsetType:
    """Return the first or last (``end``) moment that a timestamp can mean, in the records' time zone."""
    if timestamp is None:
        return UNSET
    ms = timestamp.ms + zone + (timestamp.precision_ms - 1 if end else 0)
    return ms if 0 <= ms <= MAX_TIMESTAMP else UNSET
