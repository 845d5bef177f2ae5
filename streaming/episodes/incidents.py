"""Incidents of a group: thresholds, findings, the state in the checkpoint, and the published record.

A group has at most one open incident of a kind. A condition that returns within ``reopen_ms`` opens its incident
again (``times``), so a condition that flaps is one incident.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple, cast

from msgspec import Struct, field, structs

from streaming.episodes.identity import MemberIdentity
from streaming.episodes.story import moment
from streaming.records.diffs import MemberNames
from streaming.records.episodes import Acknowledged, Incident, IncidentKind
from streaming.records.events import CLUSTER, Evidence, Holding

#: Members and partitions that an incident lists; a group of thousands would make a record of megabytes.
MOST_LISTED: Final = 500


class Thresholds(NamedTuple):
    """Section ``[incidents]`` of the settings.

    Attributes:
        reopen_ms: a condition that returns this soon is the same incident.
        skew: a member with more than this many times its fair share is a skew.
        rebalance_stuck_ms: a rebalance that lasts longer is stuck.
        poll_timeouts: how often a member exceeds max.poll.interval.ms within ``poll_timeouts_within_ms``.
    """

    reopen_ms: int = 1_800_000
    skew: float = 2.0
    poll_timeouts: int = 2
    poll_timeouts_within_ms: int = 3_600_000
    rebalance_stuck_ms: int = 60_000


DEFAULTS: Final = Thresholds()
#: Characters of the story of a record that is too long.
_SHORT_STORY: Final = 1000
_UNNAMED: Final = MemberIdentity()


class IncidentFinding(NamedTuple):
    """A condition that was detected; its fields are those of :class:`StoredIncident`.

    ``subject``: what it is about, where several of a kind may be open at once: a broker, a topic, a host.
    """

    kind: IncidentKind
    what: str
    member_ids: Sequence[str] = ()
    names: Mapping[str, MemberIdentity] = MappingProxyType({})
    partitions: Mapping[str, list[int]] = MappingProxyType({})
    sure: bool = True
    evidence: Sequence[Evidence] = ()
    subject: str = ""
    groups: Sequence[str] = ()


class StoredIncident(Struct, frozen=True, array_like=True, gc=False):
    """The newest incident of one kind in a group.

    Attributes:
        number: counts the group's incidents from 1.
        closed_at: ms; 0: it is open.
        times: how often the condition occurred.
        episode: number of the episode that was open at first; 0: none.
        what: the condition, as a sentence without its full stop.
        sure: the evidence proves it.
        groups: of an incident of the cluster, the groups that it concerns.
        acknowledged: None: nobody acknowledged it.
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
    groups: tuple[str, ...] = ()
    acknowledged: Acknowledged | None = None


class IncidentState(Struct, frozen=True, array_like=True, gc=False):
    """A group's incidents, the newest of each kind. A function of the log alone.

    Attributes:
        last: number of the newest incident.
        known: by :func:`incident_key`.
        overruns: by member, the last times at which it exceeded max.poll.interval.ms, ms.
    """

    last: int = 0
    known: dict[str, StoredIncident] = field(default_factory=dict)
    overruns: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def is_open(self, kind: str) -> bool:
        """True if an incident of this kind is open."""
        known = self.known.get(kind)
        return known is not None and not known.closed_at


def incident_key(kind: str, subject: str = "") -> str:
    """Return what an incident is known by: its kind, and its subject where it has one."""
    return f"{kind} {subject}" if subject else kind


def open_incident(
    state: IncidentState, found: IncidentFinding, at: int, *, episode: int = 0, reopen_ms: int
) -> IncidentState:
    """Open or update the incident of a finding; return ``state`` itself if nothing changes.

    Args:
        state: the incidents before.
        found: the condition.
        at: time of the event, ms.
        episode: number of the open episode; 0: none.
        reopen_ms: see :class:`Thresholds`.
    """
    key = incident_key(found.kind, found.subject)
    known = state.known.get(key)
    member_ids = tuple(found.member_ids[:MOST_LISTED])
    content: dict[str, object] = {
        "what": found.what,
        "member_ids": member_ids,
        "names": {one: found.names[one] for one in member_ids if found.names.get(one, _UNNAMED) != _UNNAMED},
        "partitions": _listed(found.partitions),
        "sure": found.sure,
        "evidence": tuple(found.evidence),
        "groups": tuple(found.groups[:MOST_LISTED]),
    }
    if known is None or (known.closed_at and at - known.closed_at > reopen_ms):
        fresh = structs.replace(StoredIncident(state.last + 1, at, at, episode=episode), **content)
    else:
        fresh = structs.replace(known, closed_at=0, times=known.times + bool(known.closed_at), **content)
        if known.closed_at and known.acknowledged is not None and at >= (known.acknowledged.until or 0):
            fresh = structs.replace(fresh, acknowledged=None)
        if fresh == known:
            return state
        fresh = structs.replace(fresh, updated_at=max(at, known.updated_at))
    return structs.replace(state, last=max(state.last, fresh.number), known={**state.known, key: fresh})


def close_incidents(state: IncidentState, keys: Iterable[str], at: int) -> IncidentState:
    """Close the open incidents of these keys; return ``state`` itself if there are none."""
    ended = {
        key: structs.replace(state.known[key], closed_at=at, updated_at=max(at, state.known[key].updated_at))
        for key in keys
        if state.is_open(key)
    }
    return structs.replace(state, known={**state.known, **ended}) if ended else state


def acknowledge(state: IncidentState, number: int, acknowledged: Acknowledged) -> IncidentState:
    """Acknowledge the incident of this number, open or closed; return ``state`` itself if it is not kept.

    An acknowledgement without an end is over when a closed incident opens again.
    """
    for kind, known in state.known.items():
        if known.number == number:
            fresh = structs.replace(known, acknowledged=acknowledged)
            return structs.replace(state, known={**state.known, kind: fresh})
    return state


def changed_incidents(before: IncidentState, after: IncidentState) -> Iterator[tuple[str, StoredIncident]]:
    """Yield the incidents whose records differ, with their keys."""
    for key, incident in after.known.items():
        if before.known.get(key) != incident:
            yield key, incident


def _listed(partitions: Mapping[str, list[int]]) -> Holding:
    """Return at most :data:`MOST_LISTED` partitions."""
    left, some = MOST_LISTED, Holding()
    for topic, numbers in partitions.items():
        if left > 0 or not numbers:
            some[topic] = numbers[:left]
            left -= len(some[topic])
    return some


def incident_record(group_id: str, key: str, known: StoredIncident) -> Incident:
    """Return the record of a group's or the cluster's incident."""
    until = f"from {moment(known.opened_at)} to {moment(known.closed_at)} UTC"
    when = until if known.closed_at else f"since {moment(known.opened_at)} UTC"
    often = f", {known.times} times" if known.times > 1 else ""
    return Incident(
        group_id=group_id,
        incident=known.number,
        kind=cast("IncidentKind", key.partition(" ")[0]),
        status="closed" if known.closed_at else "open",
        opened_at=known.opened_at,
        updated_at=known.updated_at,
        closed_at=known.closed_at or None,
        times=known.times,
        member_ids=list(known.member_ids),
        partitions=known.partitions,
        episode=known.episode or None,
        sure=known.sure,
        evidence=list(known.evidence),
        story=f"{known.what} ({when}{often}).",
        names={one: MemberNames(**structs.asdict(who)) for one, who in known.names.items()},
        scope="cluster" if group_id == CLUSTER else "group",
        groups=list(known.groups),
        acknowledged=known.acknowledged,
    )


def shorten_incident(incident: Incident) -> Incident:
    """Return a record that is too long without its members, partitions and evidence."""
    story = incident.story[:_SHORT_STORY]
    return structs.replace(incident, story=story, member_ids=[], names={}, partitions={}, evidence=[])
