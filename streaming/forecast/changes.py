"""Changes of a live group as events of a scenario: a rolling restart, more or fewer members, a past deploy."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count, islice
from typing import Any

from streaming.simulate.scenario import InvalidScenario

#: An event as a scenario's file could hold it.
Entry = dict[str, Any]

#: When the change begins, ms: in the middle of a heartbeat interval, as nothing says where in it a group is.
BEGIN_MS = 1500


def rolling_restart(names: Sequence[str], *, parallel: int, down_ms: int, between_ms: int) -> list[Entry]:
    """Every member stops and comes back after ``down_ms``; ``parallel`` of them at once.

    ``between_ms``: from the return of some to the stop of the next.
    """
    return [
        {"at": BEGIN_MS + turn // parallel * (down_ms + between_ms), "bounce": name, "down_ms": down_ms}
        for turn, name in enumerate(names)
    ]


def scaled(names: Sequence[str], to: int) -> list[Entry]:
    """New members come, all at once; or the last of these leave, all at once.

    Raises:
        InvalidScenario: that is no change.
    """
    if to < 1 or to == len(names):
        raise InvalidScenario(
            f"--scale {to}: the group has {len(names)} members; give another number, from 1 up"
        )
    if to < len(names):
        return [{"at": BEGIN_MS, "leave": name} for name in names[to:]]
    free = (name for number in count(1) if (name := f"new-{number}") not in names)
    return [{"at": BEGIN_MS, "join": name} for name in islice(free, to - len(names))]
