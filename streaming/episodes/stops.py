"""What is told of partitions that nobody consumed: by rounds, by witnesses, and by members' own callbacks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from streaming.wire.events import Holding, Stop

#: Where bounds come from that the coordinator's records of the group give.
RECORDS = "group-records"
#: Where those come from that members tell themselves.
LISTENER = "listener"


class Turned(NamedTuple):
    """What a round stops and starts.

    Attributes:
        number: of its generation, or of its epoch; −1: not known, so nothing that has one is told of it.
        at: when the coordinator wrote it, ms; None: its time is nothing that partitions can be measured by.
        live: what it stops and whose holder is still there.
        gone: what it stops and whose holder is gone, or has come back under another id.
        started: what has an owner with it that had none or was stopped.
        pending: what holders learn with it that they have to give up; all else that it stops was stopped before.
    """

    number: int
    at: int | None
    live: Holding
    gone: Holding
    started: Holding
    pending: Holding


class Pending(NamedTuple):
    """What members still have to give up, in a view that makes no round; ``at``: ms, on the broker's clock."""

    at: int
    partitions: Holding


class Witness(NamedTuple):
    """What a witness saw of the partitions that a round stopped; ``number``: its generation or epoch."""

    source: str
    number: int
    stops: Sequence[Stop]


class Callback(NamedTuple):
    """A member's word after one of its callbacks.

    Attributes:
        at: when, ms, on its own clock.
        number: its generation or epoch; −1: it is between two.
        revoked: what it has just given up.
        assigned: what it has just been given.
    """

    at: int
    number: int
    revoked: Holding
    assigned: Holding


#: What is told beside rounds.
Told = Pending | Witness | Callback
