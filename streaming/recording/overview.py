"""Overviews of groups, built from the records of the compacted topics, for people and as JSON."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

from msgspec import UNSET, Struct, UnsetType

from assignors.errors import MonitorError
from streaming.episodes.budget import ErrorBudget, error_budget
from streaming.episodes.status import GroupStatus, group_status
from streaming.records.codec import raw_records, rfc3339
from streaming.records.diffs import LatestAssignment, MemberNames, UnknownGroup
from streaming.records.downtime import start_of_day, total_downtime
from streaming.records.episodes import Downtime, Episode, EpisodeRecord, Incident, IncidentRecord
from streaming.records.events import Holding, Partitions
from streaming.records.names import display_names
from streaming.settings.config import ServiceLevel, service_level

#: The most episodes that the command ``group`` lists.
MAX_LISTED_EPISODES: Final = 10


class NoEpisodeAtTime(MonitorError):  # noqa: N818 - a bad answer to a question, no failure
    """The group had no open episode at the requested time."""

    exit_status: ClassVar[int] = 1


class OwnerLine(Struct, frozen=True, rename="camel"):
    """A member in ``group --json``, with its display name."""

    member_id: str
    name: str
    client_id: str | None
    client_host: str | None
    group_instance_id: str | None
    owned: Holding
    standby: Partitions | UnsetType = UNSET
    warmup: Partitions | UnsetType = UNSET


class GroupOverview(NamedTuple):
    """A group's latest assignment, its last episodes and its open incidents, the newest first.

    ``today``: downtime of the group's episodes of today. ``budget``: what is left of today's error budget. ``lag``: the
    group's lag in records, as last sampled.
    """

    latest: LatestAssignment
    episodes: Sequence[EpisodeRecord]
    today: Downtime | None = None
    incidents: Sequence[IncidentRecord] = ()
    budget: ErrorBudget | None = None
    lag: int | None = None

    @property
    def kind(self) -> str:
        """The kind of the group, such as ``consumer``."""
        return "consumer" if self.latest.kind is UNSET else self.latest.kind

    @property
    def status(self) -> GroupStatus:
        """The group's status by its latest assignment and newest episode; the worst one if several apply."""
        return group_status(self.latest, self.newest)

    @property
    def newest(self) -> Episode | None:
        """The newest episode of the group."""
        return self.episodes[0].episode if self.episodes else None

    @property
    def state(self) -> str | None:
        """The status of the newest episode, or ``empty``; None if there is no episode."""
        if not self.latest.members:
            return "empty"
        return self.newest.status if self.newest else None

    def _shared_fields(self) -> dict[str, Any]:
        return {"groupId": self.latest.group_id, "kind": self.kind, "state": self.state, **self.status._asdict()}

    def line(self) -> dict[str, Any]:
        """Return the group as a line of ``groups --json``.

        ``downtimeToday`` and ``lag`` are null if unknown; ``slo`` is left out if the group has no service level.
        """
        line = self._shared_fields() | {
            "members": len(self.latest.members),
            "lag": self.lag,
            "downtimeToday": self.today,
            "episode": next(raw_records(self.episodes), None),
            "incidents": [*raw_records(self.incidents)],
        }
        return line if self.budget is None else line | {"slo": self.budget}

    def document(self) -> dict[str, Any]:
        """Return the group as the document of ``group --json``."""
        latest = self.latest
        return self._shared_fields() | {
            "protocol": latest.protocol,
            "assignor": latest.assignor,
            "generation": latest.generation,
            "groupEpoch": latest.group_epoch,
            "timestamp": latest.timestamp,
            "members": owner_lines(latest),
            "episodes": [*raw_records(self.episodes)],
            "incidents": [*raw_records(self.incidents)],
        }


def sort_episodes(records: Iterable[EpisodeRecord]) -> list[EpisodeRecord]:
    """Return a group's episodes, oldest first.

    Episodes are ordered by number, as the clock of an event may be wrong. A group that the stream has forgotten begins
    at 1 again: an episode that was written and over before the new episode 1 began is older, whatever its number.
    """
    numbered_records = sorted(records, key=lambda record: record.episode.episode)

    def is_current(record: EpisodeRecord) -> bool:
        first = numbered_records[0]
        return record.written >= first.written or record.episode.updated_at >= first.episode.opened_at

    return sorted(numbered_records, key=is_current)


def since(records: Iterable[EpisodeRecord], begin_ms: int) -> list[Episode]:
    """Return the episodes with a round at or after a time."""
    return [r.episode for r in records if max(r.episode.opened_at, r.episode.updated_at) >= begin_ms]


def concerns_group(incident: Incident, group_id: str) -> bool:
    """Return True if an incident belongs to this group, or is a cluster incident that lists this group."""
    return group_id in (incident.group_id, *incident.groups)


def sort_newest_first(incidents: Iterable[IncidentRecord], *, closed: bool = False) -> list[IncidentRecord]:
    """Return the open incidents (if ``closed``, all incidents), the newest first."""
    chosen = (record for record in incidents if closed or record.incident.status == "open")
    return sorted(chosen, key=lambda r: (r.incident.opened_at, r.incident.group_id, r.incident.incident), reverse=True)


def group_overviews(
    assignments: Iterable[LatestAssignment],
    episodes: Iterable[EpisodeRecord],
    incidents: Iterable[IncidentRecord],
    now_ms: int,
    levels: Sequence[ServiceLevel] = (),
    *,
    lags: Mapping[str, int | None] | None = None,
) -> list[GroupOverview]:
    """Return all groups by group id, each with its newest episode, today's downtime and its open incidents.

    ``levels``: the service levels of ``[[slo]]``; ``lags``: the known lags by group.
    """
    episodes_of: defaultdict[str, list[EpisodeRecord]] = defaultdict(list)
    for record in episodes:
        episodes_of[record.episode.group_id].append(record)
    incidents_of: defaultdict[str, list[IncidentRecord]] = defaultdict(list)
    for opened in sort_newest_first(incidents):
        for group_id in (opened.incident.group_id, *opened.incident.groups):
            incidents_of[group_id].append(opened)
    overviews = []
    for latest in sorted(assignments, key=lambda latest: latest.group_id):
        name = latest.group_id
        today, level = since(episodes_of[name], start_of_day(now_ms)), service_level(levels, name)
        downtime = total_downtime(episode.downtime for episode in today)
        budget = error_budget(today, level.downtime_day_ms, level.worst_delay_ms) if level else None
        newest, lag = sort_episodes(episodes_of[name])[-1:], (lags or {}).get(name)
        overviews.append(GroupOverview(latest, newest, downtime, incidents_of[name], budget, lag))
    return overviews


def group_overview(
    group_id: str,
    assignments: Iterable[LatestAssignment],
    episodes: Iterable[EpisodeRecord],
    incidents: Iterable[IncidentRecord],
) -> GroupOverview:
    """Return one group with its last episodes and its open incidents."""
    latest = next((latest for latest in assignments if latest.group_id == group_id), None)
    own = sort_episodes(record for record in episodes if record.episode.group_id == group_id)[::-1]
    if latest is None:
        deleted = f"deleted; `rebalance-monitor why {group_id}` shows its last episode"
        why = deleted if own else "not found; `rebalance-monitor groups` lists all groups"
        raise UnknownGroup(f"group {group_id}: {why}")
    open_incidents = sort_newest_first(record for record in incidents if concerns_group(record.incident, group_id))
    return GroupOverview(latest, own[:MAX_LISTED_EPISODES], incidents=open_incidents)


def episode_at(group_id: str, episodes: Iterable[EpisodeRecord], at: int | None, quiet_ms: int) -> EpisodeRecord:
    """Return the episode that was open at ``at`` (ms) or closed at most ``quiet_ms`` before; None: the newest."""
    own = sort_episodes(record for record in episodes if record.episode.group_id == group_id)
    if not own:
        raise UnknownGroup(f"group {group_id}: has no episode; `rebalance-monitor groups` lists all groups")
    if at is None:
        return own[-1]
    before = [record for record in own if record.episode.opened_at <= at]
    near = []
    if before:
        last = before[-1].episode
        if last.closed_at is None or at <= last.closed_at + quiet_ms:
            return before[-1]
        near.append(f"episode {last.episode} ended at {rfc3339(last.closed_at)}")
    if len(before) < len(own):
        after = own[len(before)].episode
        near.append(f"episode {after.episode} began at {rfc3339(after.opened_at)}")
    raise NoEpisodeAtTime(f"group {group_id}: no episode was open at {rfc3339(at)}: {', '.join(near)}")


def owner_lines(latest: LatestAssignment) -> list[OwnerLine]:
    """Return the members of a group, ordered by display name."""
    names, lines = display_names(latest.names), []
    for member_id, owned in latest.members.items():
        who = latest.names.get(member_id, MemberNames())
        standby, warmup = (UNSET if t is UNSET else t.get(member_id, {}) for t in (latest.standby, latest.warmup))
        identity = (who.client_id, who.client_host, who.group_instance_id)
        lines.append(OwnerLine(member_id, names.get(member_id, member_id), *identity, owned, standby, warmup))
    return sorted(lines, key=lambda line: (line.name, line.member_id))
