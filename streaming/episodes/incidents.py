"""Incidents of a group: thresholds, findings, the state in the checkpoint, and the published record.

A group has at most one open incident of a kind. A condition that returns within ``reopen_ms`` opens its incident
again (``times``), so a condition that flaps is one incident.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import Struct, field, structs

from streaming.episodes.story import moment
from streaming.records.diffs import MemberNames
from streaming.records.episodes import Acknowledged, Incident, IncidentKind
from streaming.records.events import CLUSTER, Evidence, Holding

#: Members and partitions that an incident lists; a group of thousands would make a record of megabytes.
MOST_LISTED: Final = 500
#: Groups that an incident of the cluster lists.
_MOST_GROUPS: Final = 5000


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
_UNNAMED: Final = MemberNames()


class StoredIncident(Struct, frozen=True, array_like=True, gc=False):
    """A condition that was detected; once it is stored, the newest incident of its kind and subject in a group.

    Attributes:
        what: the condition, as a sentence without its full stop.
        sure: the evidence proves it.
        subject: what it is about, where several of a kind may be open at once: a broker, a topic, a host.
        groups: of an incident of the cluster, the groups that it concerns.
        number: counts the group's incidents from 1.
        closed_at: ms; 0: it is open.
        times: how often the condition occurred.
        episode: number of the episode that was open at first; 0: none.
        acknowledged: None: nobody acknowledged it.
    """

    kind: IncidentKind
    what: str
    member_ids: list[str] = field(default_factory=list)
    names: dict[str, MemberNames] = field(default_factory=dict)
    partitions: Holding = field(default_factory=dict)
    sure: bool = True
    evidence: list[Evidence] = field(default_factory=list)
    subject: str = ""
    groups: list[str] = field(default_factory=list)
    number: int = 0
    opened_at: int = 0
    updated_at: int = 0
    closed_at: int = 0
    times: int = 1
    episode: int = 0
    acknowledged: Acknowledged | None = None


class IncidentState(Struct, frozen=True, array_like=True, gc=False):
    """A group's incidents by :func:`incident_key`, the newest of each. A function of the log alone.

    ``overruns``: by member, the last times at which it exceeded max.poll.interval.ms, ms.
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
    state: IncidentState, found: StoredIncident, at: int, *, episode: int = 0, reopen_ms: int
) -> IncidentState:
    """Open or update the incident of a condition; return ``state`` itself if nothing changes.

    ``at``: time of the event, ms. ``episode``: number of the open episode; 0: none.
    """
    key = incident_key(found.kind, found.subject)
    known, ids = state.known.get(key), found.member_ids[:MOST_LISTED]
    names = {one: found.names[one] for one in ids if found.names.get(one, _UNNAMED) != _UNNAMED}
    partitions, groups = _listed(found.partitions), found.groups[:_MOST_GROUPS]
    found = structs.replace(found, member_ids=ids, names=names, partitions=partitions, groups=groups)
    if known is None or (known.closed_at and at - known.closed_at > reopen_ms):
        fresh = structs.replace(found, number=state.last + 1, opened_at=at, updated_at=at, episode=episode)
    else:
        acknowledged = known.acknowledged
        if known.closed_at and acknowledged is not None and at >= (acknowledged.until or 0):
            acknowledged = None
        fresh = structs.replace(
            found,
            number=known.number,
            opened_at=known.opened_at,
            updated_at=known.updated_at,
            times=known.times + bool(known.closed_at),
            episode=known.episode,
            acknowledged=acknowledged,
        )
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


def changed_incidents(before: IncidentState, after: IncidentState) -> list[StoredIncident]:
    """Return the incidents whose records differ."""
    return [incident for key, incident in after.known.items() if before.known.get(key) != incident]


def _listed(partitions: Mapping[str, list[int]]) -> Holding:
    left, some = MOST_LISTED, Holding()
    for topic, numbers in partitions.items():
        if left > 0 or not numbers:
            some[topic] = numbers[:left]
            left -= len(some[topic])
    return some


def incident_record(group_id: str, known: StoredIncident) -> Incident:
    """Return the record of a group's or the cluster's incident."""
    until = f"from {moment(known.opened_at)} to {moment(known.closed_at)} UTC"
    when = until if known.closed_at else f"since {moment(known.opened_at)} UTC"
    often = f", {known.times} times" if known.times > 1 else ""
    return Incident(
        group_id=group_id,
        incident=known.number,
        kind=known.kind,
        status="closed" if known.closed_at else "open",
        opened_at=known.opened_at,
        updated_at=known.updated_at,
        closed_at=known.closed_at or None,
        times=known.times,
        member_ids=known.member_ids,
        partitions=known.partitions,
        episode=known.episode or None,
        sure=known.sure,
        evidence=known.evidence,
        story=f"{known.what} ({when}{often}).",
        names=known.names,
        scope="cluster" if group_id == CLUSTER else "group",
        groups=known.groups,
        acknowledged=known.acknowledged,
    )


def shorten_incident(incident: Incident) -> Incident:
    """Return a record that is too long without its members, partitions, groups and evidence."""
    story = incident.story[:_SHORT_STORY]
    return structs.replace(incident, story=story, member_ids=[], names={}, partitions={}, groups=[], evidence=[])
