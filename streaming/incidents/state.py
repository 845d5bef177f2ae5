"""The types of incidents: thresholds, findings, and the state that is kept of a group between two events.

The state is written into the checkpoint as msgpack arrays with the group's own state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from msgspec import Struct, field

from streaming.episodes.identity import MemberIdentity
from streaming.records.episodes import IncidentKind
from streaming.records.events import Evidence, Holding


class Thresholds(NamedTuple):
    """When something is an incident: section ``[incidents]`` of the settings.

    Attributes:
        reopen_ms: what is wrong again so soon after it was right is the same incident.
        skew: a member with more than so many times its fair share makes a skew.
        poll_timeouts: so often a member exceeds max.poll.interval.ms
        poll_timeouts_within_ms: within so long.
    """

    reopen_ms: int = 1_800_000
    skew: float = 2.0
    poll_timeouts: int = 2
    poll_timeouts_within_ms: int = 3_600_000


#: As long as nobody says otherwise.
DEFAULTS = Thresholds()


class Finding(NamedTuple):
    """Something that is wrong; the fields are those of :class:`~streaming.incidents.state.Condition`."""

    kind: IncidentKind
    what: str
    member_ids: Sequence[str] = ()
    names: Mapping[str, MemberIdentity] = MappingProxyType({})
    partitions: Mapping[str, list[int]] = MappingProxyType({})
    sure: bool = True
    evidence: Sequence[Evidence] = ()


class MemberAtRest(NamedTuple):
    """A member of a group at rest; ``classic``: whether it speaks the classic protocol."""

    member_id: str
    identity: MemberIdentity
    topics: Sequence[str]
    partitions: int
    classic: bool


class AtRest(NamedTuple):
    """A group in which nothing has happened for a while.

    Attributes:
        group_id: the group.
        kind: of the group.
        protocol: of the group.
        members: in any order.
        counts: partitions of the topics that it reads.
        unassigned: what nobody owns.
    """

    group_id: str
    kind: str
    protocol: str
    members: Sequence[MemberAtRest]
    counts: Mapping[str, int]
    unassigned: Holding


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
    names: dict[str, MemberIdentity] = field(default_factory=dict)
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
