"""What is kept of a group between two events, for its incidents.

Written into the checkpoint as msgpack arrays with the group's own state: fields are only ever added, at the end and
with a default.
"""

from __future__ import annotations

from msgspec import Struct, field

from streaming.episodes.tracks import Person
from streaming.wire.events import Evidence, Holding


class Condition(Struct, frozen=True, array_like=True, gc=False):
    """One incident: the last of its kind in the group.

    Attributes:
        number: the group's so many-th.
        opened_at, updated_at: ms.
        closed_at: ms; 0: it lasts.
        times: how often the condition has come.
        episode: number of the one in which it was first seen; 0: none was open.
        what: what is wrong, a sentence without its stop.
        member_ids, names: who is concerned, and what they are called.
        partitions: which are.
        sure: whether the evidence proves it.
        evidence: for it.
    """

    number: int
    opened_at: int
    updated_at: int
    closed_at: int = 0
    times: int = 1
    episode: int = 0
    what: str = ""
    member_ids: tuple[str, ...] = ()
    names: dict[str, Person] = field(default_factory=dict)
    partitions: Holding = field(default_factory=dict)
    sure: bool = True
    evidence: tuple[Evidence, ...] = ()

    @property
    def lasts(self) -> bool:
        """Whether it is open."""
        return not self.closed_at


class IncidentState(Struct, frozen=True, array_like=True, gc=False):
    """A group's incidents, the last of each kind. A function of the log alone.

    Attributes:
        last: number of the newest.
        known: by kind.
        overruns: when members overran their poll interval, ms, the last times, by who they are.
    """

    last: int = 0
    known: dict[str, Condition] = field(default_factory=dict)
    overruns: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def lasts(self, kind: str) -> bool:
        """Whether an incident of this kind is open."""
        known = self.known.get(kind)
        return known is not None and known.lasts
