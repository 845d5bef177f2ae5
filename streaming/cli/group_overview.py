"""Overviews of groups and their episodes, from records of the compacted topics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar, Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assignors.errors import MonitorError
from streaming.cli.output import raw_json
from streaming.wire.codec import rfc3339
from streaming.wire.diffs import LatestAssignment, UnknownGroup
from streaming.wire.downtime import midnight, together
from streaming.wire.episodes import Downtime, Episode, EpisodeRecord, EpisodeStatus, IncidentRecord
from streaming.wire.events import Holding, Partitions
from streaming.wire.names import called

#: How a group stands: as its newest episode does, or it has no members.
GroupStatus = EpisodeStatus | Literal["empty"]

#: So many episodes ``group`` tells.
LAST_EPISODES: Final = 10


class NoEpisodeThen(MonitorError):  # noqa: N818 - a bad answer to a question, no failure
    """No episode was open at that time."""

    exit_status: ClassVar[int] = 1


class _Document(Struct, frozen=True, kw_only=True, rename="camel"):
    """Frozen, keyword-only, camelCase in JSON."""


class GroupListLine(_Document, frozen=True):
    """A line of ``groups --json``. ``state`` and ``episode`` are null where no episode is known.

    ``downtimeToday``: of its episodes that had a round today (UTC), null where nothing is known to have stood
    still. ``incidents``: those that are open, the newest first.
    """

    group_id: str
    kind: str
    state: GroupStatus | None
    members: int
    downtime_today: Downtime | None
    episode: msgspec.Raw | None
    incidents: list[msgspec.Raw]


class OwnerLine(_Document, frozen=True):
    """A member in ``group --json``: what people call it, what it is called, and what it owns."""

    member_id: str
    name: str
    client_id: str | None
    client_host: str | None
    group_instance_id: str | None
    owned: Holding
    standby: Partitions | UnsetType = UNSET
    warmup: Partitions | UnsetType = UNSET


class GroupDocument(_Document, frozen=True):
    """``group --json``. ``episodes``: the last ones; ``incidents``: those that are open; the newest first."""

    group_id: str
    kind: str
    state: GroupStatus | None
    protocol: str
    assignor: str | None
    generation: int | None
    group_epoch: int | None
    timestamp: int
    members: list[OwnerLine]
    episodes: list[msgspec.Raw]
    incidents: list[msgspec.Raw]


class GroupOverview(NamedTuple):
    """A group: who owns what, its last episodes and its open incidents, the newest first.

    ``today``: the episodes' downtime of the day.
    """

    latest: LatestAssignment
    told: Sequence[EpisodeRecord]
    today: Downtime | None = None
    wrong: Sequence[IncidentRecord] = ()

    @property
    def kind(self) -> str:
        """What kind of group it is."""
        return "consumer" if self.latest.kind is UNSET else self.latest.kind

    @property
    def state(self) -> GroupStatus | None:
        """How it stands; None where no episode is known."""
        if not self.latest.members:
            return "empty"
        return self.told[0].episode.status if self.told else None

    @property
    def newest(self) -> Episode | None:
        """Its newest episode."""
        return self.told[0].episode if self.told else None


def in_order(records: Iterable[EpisodeRecord]) -> list[EpisodeRecord]:
    """Return a group's episodes, oldest first.

    Their numbers decide, as the clock of an event may be wrong. A group that the stream has forgotten begins at 1
    again: what was written, and over, before its first episode began is older, whatever its number.
    """
    found = sorted(records, key=lambda one: one.episode.episode)
    if not found:
        return found
    first = found[0]

    def is_former(one: EpisodeRecord) -> bool:
        return one.written < first.written and one.episode.updated_at < first.episode.opened_at

    return sorted(found, key=lambda one: not is_former(one))


def newest_first(incidents: Iterable[IncidentRecord], *, closed: bool = False) -> list[IncidentRecord]:
    """Incidents that are open, or all of them with ``closed``."""
    return sorted(
        (one for one in incidents if closed or one.incident.status == "open"),
        key=lambda one: (one.incident.opened_at, one.incident.group_id, one.incident.incident),
        reverse=True,
    )


def group_overviews(
    assignments: Iterable[LatestAssignment],
    told: Iterable[EpisodeRecord],
    incidents: Iterable[IncidentRecord],
    now_ms: int,
) -> list[GroupOverview]:
    """All groups that exist, by their ids.

    Each with the newest of its episodes, the downtime of the day, and its open incidents.
    """
    episodes: dict[str, list[EpisodeRecord]] = {}
    today: dict[str, list[Downtime | None]] = {}
    since = midnight(now_ms)
    for one in told:
        group_id = one.episode.group_id
        episodes.setdefault(group_id, []).append(one)
        if max(one.episode.opened_at, one.episode.updated_at) >= since:
            today.setdefault(group_id, []).append(one.episode.downtime)
    wrong: dict[str, list[IncidentRecord]] = {}
    for found in newest_first(incidents):
        wrong.setdefault(found.incident.group_id, []).append(found)
    return [
        GroupOverview(
            latest,
            in_order(episodes.get(latest.group_id, ()))[-1:],
            together(today.get(latest.group_id, ())),
            wrong.get(latest.group_id, ()),
        )
        for latest in sorted(assignments, key=lambda one: one.group_id)
    ]


def group_overview(
    group_id: str,
    assignments: Iterable[LatestAssignment],
    told: Iterable[EpisodeRecord],
    incidents: Iterable[IncidentRecord],
) -> GroupOverview:
    """One group with its last episodes and its open incidents.

    Raises:
        UnknownGroup: there is no such group, or no longer.
    """
    latest = next((one for one in assignments if one.group_id == group_id), None)
    episodes = in_order(one for one in told if one.episode.group_id == group_id)[::-1]
    if latest is None and episodes:
        raise UnknownGroup(
            f"group {group_id}: does not exist any more; `rebalance-monitor why {group_id}` tells how it ended"
        )
    if latest is None:
        raise UnknownGroup(
            f"group {group_id}: nothing is known of it; `rebalance-monitor groups` lists those that are known"
        )
    wrong = newest_first(one for one in incidents if one.incident.group_id == group_id)
    return GroupOverview(latest, episodes[:LAST_EPISODES], wrong=wrong)


def newest_episode(group_id: str, told: Iterable[EpisodeRecord]) -> EpisodeRecord:
    """The newest episode of a group.

    Raises:
        UnknownGroup: none of it is known.
    """
    return in_order(_episodes_of(group_id, told))[-1]


def episode_open_at(group_id: str, told: Iterable[EpisodeRecord], at: int, quiet_ms: int) -> EpisodeRecord:
    """The episode of a group that was open at ``at``, ms: until the quiet time after its last round.

    Raises:
        UnknownGroup: no episode of the group is known.
        NoEpisodeThen: none was open then; the message has those before and after.
    """
    episodes = in_order(_episodes_of(group_id, told))
    before = [one for one in episodes if one.episode.opened_at <= at]
    if before:
        closed_at = before[-1].episode.closed_at
        if closed_at is None or at <= closed_at + quiet_ms:
            return before[-1]
    near = []
    if before:
        near.append(
            f"episode {before[-1].episode.episode} ended at {rfc3339(before[-1].episode.closed_at or 0)}"
        )
    if len(before) < len(episodes):
        after = episodes[len(before)].episode
        near.append(f"episode {after.episode} began at {rfc3339(after.opened_at)}")
    raise NoEpisodeThen(f"group {group_id}: no episode was open at {rfc3339(at)}: {', '.join(near)}")


def _episodes_of(group_id: str, told: Iterable[EpisodeRecord]) -> list[EpisodeRecord]:
    found = [one for one in told if one.episode.group_id == group_id]
    if not found:
        raise UnknownGroup(
            f"group {group_id}: no episode of it is known; `rebalance-monitor groups` lists the groups"
        )
    return found


def group_line(group: GroupOverview) -> GroupListLine:
    """A group as one line for programs."""
    return GroupListLine(
        group_id=group.latest.group_id,
        kind=group.kind,
        state=group.state,
        members=len(group.latest.members),
        downtime_today=group.today,
        episode=raw_json(group.told[0].value) if group.told else None,
        incidents=[raw_json(value) for _, value in group.wrong],
    )


def owner_lines(latest: LatestAssignment) -> list[OwnerLine]:
    """The members of a group by what people call them."""
    names = called(latest.names)
    lines = []
    for member_id, owned in latest.members.items():
        known = latest.names.get(member_id)
        lines.append(
            OwnerLine(
                member_id=member_id,
                name=names.get(member_id, member_id),
                client_id=known.client_id if known else None,
                client_host=known.client_host if known else None,
                group_instance_id=known.group_instance_id if known else None,
                owned=owned,
                standby=_tasks_of(latest.standby, member_id),
                warmup=_tasks_of(latest.warmup, member_id),
            )
        )
    return sorted(lines, key=lambda one: (one.name, one.member_id))


def _tasks_of(tasks: dict[str, Holding] | UnsetType, member_id: str) -> Holding | UnsetType:
    return UNSET if tasks is UNSET else tasks.get(member_id, {})


def group_document(group: GroupOverview) -> GroupDocument:
    """A group with its members and last episodes, for programs."""
    latest = group.latest
    return GroupDocument(
        group_id=latest.group_id,
        kind=group.kind,
        state=group.state,
        protocol=latest.protocol,
        assignor=latest.assignor,
        generation=latest.generation,
        group_epoch=latest.group_epoch,
        timestamp=latest.timestamp,
        members=owner_lines(latest),
        episodes=[raw_json(record.value) for record in group.told],
        incidents=[raw_json(value) for _, value in group.wrong],
    )
