"""Computes the notifications of incidents that open or close, and of episodes that are finished."""

import re
from datetime import UTC, datetime
from string import Template
from typing import Final, Literal, NamedTuple
from urllib.parse import quote, urlsplit
from zoneinfo import ZoneInfo

from streaming.episodes.cluster_cause import explain_episode
from streaming.records.episodes import Episode, Incident
from streaming.settings.notify import SEVERITIES, NotifyTarget, Severity

#: Kinds of incidents to which somebody must react at once; incidents of other kinds are warnings.
CRITICAL_KINDS: Final = frozenset({"storm", "stuck", "rebalance-stuck", "data-loss", "broker-restart", "mass-restart"})
#: Number of the newest incidents of the whole cluster that are kept to explain episodes.
_MAX_CLUSTER_INCIDENTS: Final = 100

NotificationAction = Literal["open", "close", "event"]


class Notification(NamedTuple):
    """One message to a receiver.

    ``id`` stays the same if the message is sent again. ``subject`` is the id of the incident or episode. ``action`` is
    ``open`` or ``close`` of an incident, or ``event`` for a finished episode. ``link`` is empty without ``page_url``.
    """

    id: str
    subject: str
    action: NotificationAction
    severity: Severity
    group_id: str
    kind: str
    text: str
    at_ms: int
    link: str

    @property
    def title(self) -> str:
        """Title of the notification, such as ``critical: checkout storm`` or ``closed: checkout storm``."""
        prefix = "closed" if self.action == "close" else self.severity
        return f"{prefix}: {self.group_id} {self.kind}"


class OpenIncidents:
    """Open incidents of which one target was notified; rebuilt from the compacted topic at each start.

    An incident may open and close several times; ``times`` in the incident's record counts how often it opened.
    """

    def __init__(self, target: NotifyTarget) -> None:
        self._target = target
        self._opened: dict[tuple[str, int], int] = {}
        self._cluster_incidents: dict[int, Incident] = {}

    def notifications(self, incident: Incident) -> list[Notification]:
        """Apply the next record of an incident, and return the target's notifications about it, oldest first."""
        key = incident.group_id, incident.incident
        was_open = self._opened.get(key) == incident.times
        if incident.scope == "cluster":
            before = self._cluster_incidents.get(incident.incident)
            self._cluster_incidents[incident.incident] = incident
            self._cluster_incidents.pop(incident.incident - _MAX_CLUSTER_INCIDENTS, None)
            if before and before.closed_at is not None and before.closed_at == incident.closed_at:
                return []  # only the pauses of its groups are new
        is_muted = not was_open and _has_recurred_while_muted(incident)
        if incident.status == "open" and not is_muted:
            self._opened[key] = incident.times
        else:
            self._opened.pop(key, None)
        severity: Severity = "critical" if incident.kind in CRITICAL_KINDS else "warning"
        if is_muted or SEVERITIES.index(severity) < SEVERITIES.index(self._target.severity):
            return []
        if not _is_for_target(self._target, incident.group_id, severity, incident.opened_at):
            return []
        opened: list[NotificationAction] = [] if was_open else ["open"]
        actions = [*opened, "close"] if incident.status == "closed" else opened
        return [_incident_notification(self._target, incident, action, severity) for action in actions]

    def forget(self, group_id: str, number: int) -> None:
        """Forget an open incident whose record was deleted from the topic."""
        self._opened.pop((group_id, number), None)

    def explain(self, episode: Episode) -> Episode:
        """Return the episode with the cluster incident that explains it; unchanged if none concerns its group."""
        incidents = [incident for incident in self._cluster_incidents.values() if episode.group_id in incident.groups]
        return explain_episode(episode, incidents)


def episode_notification(target: NotifyTarget, episode: Episode) -> Notification | None:
    """Return the notification of a finished episode; None if the episode is below the target's thresholds."""
    if episode.closed_at is None or target.episode_downtime_ms is None:
        return None
    longest_ms = episode.downtime.longest_ms[0] if episode.downtime else 0
    severity: Severity = "critical" if episode.status in {"stuck", "storming"} else "info"
    is_wanted = _is_for_target(target, episode.group_id, severity, episode.closed_at)
    if longest_ms < target.episode_downtime_ms or not is_wanted:
        return None
    subject = f"{episode.group_id}/episode/{episode.episode}"
    return Notification(
        subject,
        subject,
        "event",
        severity,
        episode.group_id,
        episode.kind,
        episode.story,
        episode.closed_at,
        link=_page_link(target, episode.group_id),
    )


def notification_text(target: NotifyTarget, notification: Notification) -> str:
    """Return the message from the target's template; placeholders are the fields of :class:`Notification`."""
    values = notification._asdict() | {"title": notification.title, "group": notification.group_id}
    return Template(target.template).safe_substitute(values).strip()


def _has_recurred_while_muted(incident: Incident) -> bool:
    """Return True if the incident opened again after somebody had muted it, and is still muted."""
    muted = incident.acknowledged if incident.acknowledged and incident.acknowledged.muted else None
    if muted is None or incident.times == 1:  # an incident is muted after it has opened for the first time
        return False
    return muted.at < incident.updated_at and (muted.until is None or incident.updated_at < muted.until)


def _incident_notification(
    target: NotifyTarget, incident: Incident, action: NotificationAction, severity: Severity
) -> Notification:
    subject = f"{incident.group_id}/incident/{incident.incident}/{incident.times}"
    at_ms = incident.opened_at if action == "open" else incident.closed_at or incident.updated_at
    return Notification(
        f"{subject}/{action}",
        subject,
        action,
        severity,
        incident.group_id,
        incident.kind,
        incident.story,
        at_ms,
        _page_link(target, incident.group_id),
    )


def _is_for_target(target: NotifyTarget, group_id: str, severity: Severity, at_ms: int) -> bool:
    """Return True if notifications of this group and severity are sent to the target at this time.

    The result only depends on the record, so that a target is notified of both the open and the close, or of neither.
    """
    if re.fullmatch(target.groups, group_id) is None:
        return False
    return severity == "critical" or not _is_in_quiet_hours(target, at_ms)


def _is_in_quiet_hours(target: NotifyTarget, at_ms: int) -> bool:
    if target.quiet_hours is None:
        return False
    begin, end = target.quiet_hours.split("-")
    local_time = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone(ZoneInfo(target.time_zone)).strftime("%H:%M")
    return begin <= local_time < end if begin <= end else local_time >= begin or local_time < end


def _page_link(target: NotifyTarget, group_id: str) -> str:
    url = urlsplit(target.page_url)  # its query may name a cluster
    return url._replace(path=f"{url.path.rstrip('/')}/groups/{quote(group_id)}").geturl() if target.page_url else ""
