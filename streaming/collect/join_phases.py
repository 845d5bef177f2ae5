"""When the members of a classic group joined its generations, by its coordinator's lines. No file, no clock.

``Preparing to rebalance``: from then on members are told to join again. ``Stabilized``: all have, and each had
given up what it held before it did (eager). ``Assignment received``: they are told what they have now, and the
generation is written. So its record has the time of this line, which places the others in time, whatever the time
zone that the broker writes its log in.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from msgspec import UNSET, UnsetType

from streaming.wire.events import MAX_TIMESTAMP, Stop

#: Generations remembered: their records are read moments later.
_REMEMBERED: Final = 50_000
#: Time zones differ by so much, ms.
_ZONES_MS: Final = 900_000
#: A record that is further than this from its line, ms, is not of this line: the log is old, or a static member has
#: come back, for which the generation is written again.
_APART_MS: Final = 1_000
_STAMP: Final = re.compile(r"\[?(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d:\d\d)[,.](\d{3})")


@dataclass(slots=True)
class _Phase:
    """A join phase, moments in ms of the log's own time; None: not seen.

    ``prepared`` is that of the first of several phases in a row, of which only the last led to an assignment.
    ``asked``: all of them because of members that came or went: the others stopped because they were told to.
    """

    prepared: int | None = None
    asked: bool = True
    stabilized: int | None = None


class JoinPhases:
    """Remembers the join phase of each generation. Feed it the lines of a group in order; ask for a generation."""

    def __init__(self) -> None:
        self._open: dict[str, _Phase] = {}
        self._known: OrderedDict[tuple[str, int], tuple[_Phase, int]] = OrderedDict()

    def prepared(self, group_id: str, line: str, *, asked: bool) -> None:
        """Members are told to join again; ``asked``: because others came or went."""
        phase = self._open.setdefault(group_id, _Phase(_moment(line)))
        phase.asked = phase.asked and asked

    def stabilized(self, group_id: str, line: str) -> None:
        """All members have joined."""
        phase = self._open.setdefault(group_id, _Phase(asked=False))
        phase.stabilized = _moment(line)

    def assigned(self, group_id: str, number: int, line: str) -> None:
        """The leader has told who has what in a generation."""
        phase, at = self._open.pop(group_id, None), _moment(line)
        if phase is None or at is None:
            return
        self._known[group_id, number] = phase, at
        if len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)

    def stop(self, group_id: str, number: int, timestamp: int) -> Stop | None:
        """What the log says of when members of an eager group stopped for a generation, once; None: nothing.

        Args:
            group_id: the group.
            number: the generation.
            timestamp: of its record, ms.
        """
        known = self._known.get((group_id, number))
        if known is None:
            return None
        phase, assigned = known
        zone = round((timestamp - assigned) / _ZONES_MS) * _ZONES_MS
        if abs(timestamp - assigned - zone) > _APART_MS:
            return None
        del self._known[group_id, number]  # the next record of this generation is none of a join phase
        found = Stop(
            stopped_after=_placed(phase.prepared if phase.asked else None, zone),
            stopped_before=_placed(phase.stabilized, zone),
        )
        return None if found == Stop() else found


def _placed(moment: int | None, zone: int) -> int | UnsetType:
    known = moment is not None and 0 <= moment + zone <= MAX_TIMESTAMP
    return moment + zone if moment is not None and known else UNSET


def _moment(line: str) -> int | None:
    """The time at the beginning of a line, ms, as if it were UTC; None: it has none that is known."""
    found = _STAMP.match(line)
    if found is None:
        return None
    try:
        second = datetime.fromisoformat(f"{found[1]} {found[2]}").replace(tzinfo=UTC)
    except ValueError:
        return None
    return int(second.timestamp()) * 1000 + int(found[3])
