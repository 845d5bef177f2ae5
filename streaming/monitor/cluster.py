"""Incidents of the whole cluster, updated by ``cluster.observed`` events.

Cluster incidents are stored under the group id :data:`~streaming.records.events.CLUSTER`. A broker's incident is open
while the broker is away. Incidents about all other changes open and close at once.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import UNSET, structs

from streaming.episodes.cluster_cause import PAUSE_SEPARATOR
from streaming.episodes.incidents import IncidentState, StoredIncident, close_incidents, incident_key, open_incident
from streaming.episodes.story import bounds, count
from streaming.records.events import ClusterChange, ClusterKind, ClusterObserved, Evidence, GroupPauses

#: The number of closed incidents that are kept.
_MAX_CLOSED_INCIDENTS: Final = 200
#: A change that recurs within this time is the same incident, ms. Short, as episodes are matched by an incident's time.
_REOPEN_WINDOW_MS: Final = 60_000
_BROKER_RESTART: Final = "broker-restart"
#: Texts of incidents, by kind, with the subject and the number of groups.
_TEXT_BY_KIND: Final[Mapping[ClusterKind, str]] = {
    "broker-restart": "{} away: coordinator of {groups}",
    "coordinator-moved": "Coordinator of {groups} moved from {}",
    "topic-deleted": "Topic {} deleted: {groups} subscribed",
    "partitions-added": "Topic {} partitions: {groups} subscribed",
    "mass-restart": "All members on {} gone: {groups}",
}


def update_incidents(state: IncidentState, data: ClusterObserved) -> IncidentState:
    """Return the incidents of the cluster after an event; the same object as ``state`` if no incident changes."""
    present = {incident_key(_BROKER_RESTART, f"broker {broker}") for broker in data.brokers}
    state = close_incidents(state, sorted(present & state.by_key.keys()), data.timestamp)
    for change in data.changes:
        if change.pauses is not UNSET:
            state = _add_pauses(state, change, change.pauses, data.timestamp)
            continue
        what = _TEXT_BY_KIND[change.kind].format(change.subject, groups=count(len(change.groups), "group"))
        finding = StoredIncident(
            change.kind,
            f"{what[0].upper()}{what[1:]}",
            evidence=[Evidence(source="metadata", reason=f"{change.kind}: {change.subject}")],
            subject=change.subject,
            groups=change.groups,
        )
        state = open_incident(state, finding, change.since, reopen_ms=_REOPEN_WINDOW_MS)
        key = incident_key(change.kind, change.subject)
        is_broker_away = change.kind == _BROKER_RESTART and change.subject.startswith("broker ") and key not in present
        if not is_broker_away:
            state = close_incidents(state, [key], data.timestamp)
    return _drop_oldest_closed(state)


def _add_pauses(state: IncidentState, change: ClusterChange, pauses: GroupPauses, at: int) -> IncidentState:
    """Add the pauses that a change of the cluster caused in groups to the cluster incident about this change."""
    stored = state.by_key.get(key := incident_key(change.kind, change.subject))
    if stored is None or stored.opened_at > change.since:
        return state
    what = f"{stored.what.partition(PAUSE_SEPARATOR)[0]}{PAUSE_SEPARATOR}{_pauses_text(pauses)}"
    updated_incident = structs.replace(stored, what=what, pauses=pauses, updated_at=max(at, stored.updated_at))
    return structs.replace(state, by_key={**state.by_key, key: updated_incident})


def _pauses_text(pauses: GroupPauses) -> str:
    least, most = zip(*pauses.groups.values(), strict=True) if pauses.groups else ((0,), (0,))
    pause_text = f"commits of {len(pauses.groups) + pauses.more} paused {bounds((min(least), max(most)))}"
    parts = [pause_text if pauses.groups else "no pause of commits seen", f"{len(pauses.rebalanced)} rebalanced"]
    return ", ".join([*parts, *([f"{pauses.unknown} unknown"] if pauses.unknown else ())])


def _drop_oldest_closed(state: IncidentState) -> IncidentState:
    closed = sorted(
        (key for key, incident in state.by_key.items() if incident.closed_at), key=lambda key: state.by_key[key].number
    )
    dropped_keys = set(closed[: max(0, len(closed) - _MAX_CLOSED_INCIDENTS)])
    kept = {key: incident for key, incident in state.by_key.items() if key not in dropped_keys}
    return structs.replace(state, by_key=kept) if dropped_keys else state
