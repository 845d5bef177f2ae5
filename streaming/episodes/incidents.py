"""Incidents of a group: thresholds, the stored state, and the published record.

A group has at most one open incident per kind. A condition that recurs within ``reopen_ms`` reopens its incident and
increments ``times``, so a flapping condition is one incident.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from msgspec import UNSET, Struct, field, structs

from streaming.episodes.story import moment
from streaming.records.diffs import MemberNames
from streaming.records.episodes import Acknowledged, Incident, IncidentKind
from streaming.records.events import CLUSTER, Evidence, GroupPauses, Holding

#: The most members and partitions that an incident lists: thousands would make a record of megabytes.
MAX_LISTED_ITEMS: Final = 500
#: The most groups that a cluster incident lists.
_MAX_GROUPS: Final = 5000


class IncidentLimits(NamedTuple):
    """Thresholds of incidents, from the section ``[incidents]`` of the settings.

    Attributes:
        reopen_ms: a condition that recurs within this time is the same incident.
        skew: a skew incident opens if a member owns more than this many times its fair share.
        rebalance_stuck_ms: a rebalance that lasts longer counts as stuck.
        poll_timeouts: an incident opens if a member exceeds max.poll.interval.ms this often within
                ``poll_timeouts_within_ms``.
    """

    reopen_ms: int = 1_800_000
    skew: float = 2.0
    poll_timeouts: int = 2
    poll_timeouts_within_ms: int = 3_600_000
    rebalance_stuck_ms: int = 60_000


LIMITS: Final = IncidentLimits()
#: Characters of the story in a record that was shortened because it was too large.
_MAX_SHORT_STORY_CHARACTERS: Final = 1000


class StoredIncident(Struct, frozen=True, array_like=True, gc=False):
    """An incident of a group or of the cluster, as the checkpoint has it: the newest one of its kind and subject.

    Attributes:
        what: the condition, as a sentence without its full stop.
        sure: True if the evidence proves the condition.
        subject: broker, topic or host, for kinds of which several incidents may be open at once.
        groups, pauses: the groups that a cluster incident concerns, and their pauses, once known.
        number: number of the incident in its group, from 1.
        closed_at: when it was closed, ms; 0: it is open.
        times: how often the condition occurred.
        episode: number of the episode in which it was first opened; 0: none.
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
    pauses: GroupPauses | None = None


class IncidentState(Struct, frozen=True, array_like=True, gc=False):
    """The newest incident of a group for each :func:`incident_key` (a kind, or a kind and a subject), from its events.

    ``overruns``: when each member last exceeded max.poll.interval.ms, ms.
    """

    last: int = 0
    by_key: dict[str, StoredIncident] = field(default_factory=dict)
    overruns: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def is_open(self, kind: str) -> bool:
        """True if an incident of this kind is open."""
        stored = self.by_key.get(kind)
        return stored is not None and not stored.closed_at


def incident_key(kind: str, subject: str = "") -> str:
    """Return the key of an incident in the state: its kind and, if it has one, its subject."""
    return f"{kind} {subject}" if subject else kind


def open_incident(
    state: IncidentState, finding: StoredIncident, at: int, *, episode: int = 0, reopen_ms: int
) -> IncidentState:
    """Return the incidents after a condition was detected; the same object as ``state`` if no incident changes.

    ``at``: time of the event, ms. ``episode``: number of the open episode; 0: none.
    """
    key = incident_key(finding.kind, finding.subject)
    stored, ids, no_names = state.by_key.get(key), finding.member_ids[:MAX_LISTED_ITEMS], MemberNames()
    finding = structs.replace(
        finding,
        member_ids=ids,
        names={member_id: names for member_id in ids if (names := finding.names.get(member_id, no_names)) != no_names},
        partitions=_sorted_partitions(finding.partitions),
        groups=finding.groups[:_MAX_GROUPS],
    )
    if stored is None or (stored.closed_at and at - stored.closed_at > reopen_ms):
        incident = structs.replace(finding, number=state.last + 1, opened_at=at, updated_at=at, episode=episode)
    else:
        acknowledged = stored.acknowledged
        if stored.closed_at and acknowledged is not None and at >= (acknowledged.until or 0):
            acknowledged = None
        incident = structs.replace(
            finding,
            number=stored.number,
            opened_at=stored.opened_at,
            updated_at=stored.updated_at,
            times=stored.times + bool(stored.closed_at),
            episode=stored.episode,
            acknowledged=acknowledged,
        )
        if incident == stored:
            return state
        incident = structs.replace(incident, updated_at=max(at, stored.updated_at))
    return structs.replace(state, last=max(state.last, incident.number), by_key={**state.by_key, key: incident})


def close_incidents(state: IncidentState, keys: Iterable[str], at: int) -> IncidentState:
    """Close the open incidents with these keys; return the same object ``state`` if none of them is open."""
    opened = {key: state.by_key[key] for key in keys if state.is_open(key)}
    ended = {k: structs.replace(i, closed_at=at, updated_at=max(at, i.updated_at)) for k, i in opened.items()}
    return structs.replace(state, by_key={**state.by_key, **ended}) if ended else state


def acknowledge(state: IncidentState, number: int, acknowledged: Acknowledged) -> IncidentState:
    """Return the incidents after one was acknowledged, open or closed; the same ``state`` if the number is unknown.

    An acknowledgement without an end expires when a closed incident opens again.
    """
    for kind, stored in state.by_key.items():
        if stored.number == number:
            incident = structs.replace(stored, acknowledged=acknowledged)
            return structs.replace(state, by_key={**state.by_key, kind: incident})
    return state


def _sorted_partitions(partitions: Mapping[str, list[int]]) -> Holding:
    remaining_count, listed = MAX_LISTED_ITEMS, Holding()
    for topic, numbers in partitions.items():
        if remaining_count > 0 or not numbers:
            listed[topic] = numbers[:remaining_count]
            remaining_count -= len(listed[topic])
    return listed


def incident_record(group_id: str, stored: StoredIncident) -> Incident:
    """Return the published record of an incident of a group or of the cluster."""
    opened = moment(stored.opened_at)
    period_text = f"from {opened} to {moment(stored.closed_at)} UTC" if stored.closed_at else f"since {opened} UTC"
    times_text = f", {stored.times} times" if stored.times > 1 else ""
    kept = structs.asdict(stored)
    for name in ("what", "number", "subject"):
        del kept[name]
    for name in ("closed_at", "episode"):
        kept[name] = kept[name] or None
    return Incident(
        **{**kept, "pauses": stored.pauses or UNSET},
        group_id=group_id,
        incident=stored.number,
        status="closed" if stored.closed_at else "open",
        story=f"{stored.what} ({period_text}{times_text}).",
        scope="cluster" if group_id == CLUSTER else "group",
    )


def shorten_incident(incident: Incident) -> Incident:
    """Return a record below the size limit: without members, partitions, groups, pauses and evidence."""
    incident = structs.replace(incident, story=incident.story[:_MAX_SHORT_STORY_CHARACTERS], pauses=UNSET)
    return structs.replace(incident, member_ids=[], names={}, partitions={}, groups=[], evidence=[])
