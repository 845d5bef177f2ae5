"""Matching of episodes with cluster incidents, such as a broker's restart, that explain the episodes.

Readers of the topics do the matching. The stream can't, as a group's stored state depends on that group's events alone.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import structs

from streaming.episodes.story import story
from streaming.records.codec import encode
from streaming.records.episodes import Episode, EpisodeRecord, Incident, IncidentKind, IncidentRecord
from streaming.records.events import Evidence

#: Source of evidence that refers to a cluster incident.
CLUSTER_INCIDENT: Final = "cluster-incident"
#: Separates the pauses of groups from the change in an incident's story.
PAUSE_SEPARATOR: Final = "; "
#: An episode may begin this long before the incident, as groups may notice a change before the collector, ms.
MAX_ROUND_BEFORE_INCIDENT_MS: Final = 30_000
#: An episode may begin this long after the incident: sessions end, then members rejoin.
_MAX_DELAY_MS: Final = 60_000
#: The same limit for topic changes: clients notice them after ``metadata.max.age.ms``, five minutes by default.
_MAX_METADATA_DELAY_MS: Final = 330_000
_COORDINATOR_MOVE_KINDS: Final = ("broker-restart", "coordinator-moved")
_TOPICS: Final = ("topic-deleted", "topic-added", "partition-growth", "subscription-change", "unknown")
#: Kind of a cluster incident → kinds of episodes that the incident explains.
_EXPLAINED_KINDS: Final[Mapping[IncidentKind, Sequence[str]]] = {
    "broker-restart": ("coordinator-move", "crash", "zone-lost", "restart", "rolling-restart", "unknown"),
    "coordinator-moved": ("coordinator-move", "crash", "zone-lost", "restart", "rolling-restart", "unknown"),
    "topic-deleted": _TOPICS,
    "partitions-added": _TOPICS,
    "mass-restart": ("crash", "zone-lost", "restart", "rolling-restart", "recreate", "static-bounce", "unknown"),
}


def explain_episodes(records: Iterable[EpisodeRecord], incidents: Iterable[IncidentRecord]) -> list[EpisodeRecord]:
    """Return the episodes with their cause set to the cluster incident that explains them, if there is one."""
    incidents_by_group: dict[str, list[Incident]] = {}
    for incident in incidents:
        for group_id in incident.incident.groups if incident.incident.scope == "cluster" else ():
            incidents_by_group.setdefault(group_id, []).append(incident.incident)
    explained = []
    for record in records:
        episode = explain_episode(record.episode, incidents_by_group.get(record.episode.group_id, ()))
        is_same = episode is record.episode
        explained.append(record if is_same else EpisodeRecord(episode, encode(episode), record.written))
    return explained


def explain_episode(episode: Episode, incidents: Sequence[Incident]) -> Episode:
    """Return an episode with the incident that explains it in ``cause`` and story; unchanged if no incident does.

    ``incidents``: cluster incidents that concern the group. The incident that began closest to the episode counts.
    """
    candidates = [incident for incident in incidents if _is_cause(incident, episode)] if episode.cause is None else []
    if not candidates:
        return episode
    incident = min(candidates, key=lambda candidate: (abs(candidate.opened_at - episode.opened_at), candidate.incident))
    what = incident.story.rpartition(" (")[0].partition(PAUSE_SEPARATOR)[0]
    kind, sure, members = episode.kind, episode.sure, episode.members
    if incident.kind in _COORDINATOR_MOVE_KINDS and kind != "coordinator-move":
        sure = False
        if not (members.left or members.lost or members.gone):
            kind = "coordinator-move"
    why = Evidence(source=CLUSTER_INCIDENT, reason=f"incident {incident.incident} of the cluster: {what}")
    cause, evidence = f"{incident.group_id}/{incident.incident}", [*episode.evidence, why]
    episode = structs.replace(episode, kind=kind, sure=sure, cause=cause, evidence=evidence)
    return structs.replace(episode, story=story(episode, reason_text=f"{what} (cluster incident {incident.incident})"))


def _is_cause(incident: Incident, episode: Episode) -> bool:
    """Return whether an incident explains an episode: by its kind, and by the times at which both began."""
    if episode.kind not in _EXPLAINED_KINDS.get(incident.kind, ()):
        return False
    if incident.kind in _COORDINATOR_MOVE_KINDS and episode.sure and episode.kind in ("restart", "rolling-restart"):
        return False  # clients were closed, so a deployment at the same time is the cause
    max_delay_ms = _MAX_METADATA_DELAY_MS if incident.kind in ("topic-deleted", "partitions-added") else _MAX_DELAY_MS
    has_begun_too_late = incident.closed_at is not None and episode.opened_at > incident.closed_at + max_delay_ms
    return not has_begun_too_late and episode.opened_at >= incident.opened_at - MAX_ROUND_BEFORE_INCIDENT_MS
