"""What incidents are found in: a group at rest, and what is found there or while it rebalances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from streaming.episodes.tracks import Person
from streaming.wire.episodes import IncidentKind
from streaming.wire.events import Evidence, Holding


class Thresholds(NamedTuple):
    """When something is an incident: section ``[incidents]`` of the settings.

    Attributes:
        reopen_ms: what is wrong again so soon after it was right is the same incident.
        skew: a member with more than so many times its fair share makes a skew.
        poll_timeouts: so often a member overruns its poll interval
        poll_timeouts_within_ms: within so long.
    """

    reopen_ms: int = 1_800_000
    skew: float = 2.0
    poll_timeouts: int = 2
    poll_timeouts_within_ms: int = 3_600_000


#: As long as nobody says otherwise.
DEFAULTS = Thresholds()


class Trouble(NamedTuple):
    """Something that is wrong; the fields are those of :class:`~streaming.incidents.state.Condition`."""

    kind: IncidentKind
    what: str
    member_ids: Sequence[str] = ()
    names: Mapping[str, Person] = MappingProxyType({})
    partitions: Mapping[str, list[int]] = MappingProxyType({})
    sure: bool = True
    evidence: Sequence[Evidence] = ()


class MemberAtRest(NamedTuple):
    """A member of a group at rest; ``classic``: whether it speaks the classic protocol."""

    member_id: str
    person: Person
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
