"""The stories of all groups, one group at a time, from events that are sorted by group and time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from streaming.episodes.identity import MemberIdentity
from streaming.explain.episodes import EpisodeBuilder, LogEpisode
from streaming.explain.events import LogEvent
from streaming.explain.rounds import Bounce, GroupRounds, LogRound


class GroupStory(NamedTuple):
    """One group: its episodes, the members that tools list, and what the logs can't tell."""

    group_id: str
    episodes: list[LogEpisode]
    listed: dict[str, MemberIdentity]
    unknown: list[str]


def group_stories(
    events: Iterable[LogEvent],
    coordinated: frozenset[str],
    newest: int,
    start_ms: int | None = None,
    end_ms: int | None = None,
) -> Iterator[GroupStory]:
    """Yield the story of each group.

    Args:
        events: by group and time.
        coordinated: groups of which a coordinator's log is there.
        newest: last time of the logs, ms.
        start_ms: rounds before are left out.
        end_ms: rounds after are left out.
    """
    for group_id, found in groupby(events, key=lambda event: event.group_id):
        yield _story(group_id, found, group_id in coordinated, newest, start_ms, end_ms)


def _story(  # noqa: C901, PLR0917 - one pass over the events
    group_id: str,
    events: Iterable[LogEvent],
    has_coordinator: bool,
    newest: int,
    start_ms: int | None,
    end_ms: int | None,
) -> GroupStory:
    rounds, builder = GroupRounds(group_id, has_coordinator=has_coordinator), EpisodeBuilder(group_id)
    episodes: list[LogEpisode] = []
    listed: dict[str, MemberIdentity] = {}
    has_clients, is_undated, is_rough = False, False, False

    def take(items: Iterable[LogRound | Bounce]) -> None:
        for item in items:
            at = item.at if isinstance(item, Bounce) else item.ended if item.ended is not None else item.began
            if (start_ms is None or at >= start_ms) and (end_ms is None or at <= end_ms):
                episodes.extend(builder.add(item))

    for event in events:
        has_clients = has_clients or event.client is not None
        is_rough = is_rough or event.precision_ms > 1
        if event.listing is not None and event.listing.number is None:
            listed.update(event.listing.members)
        elif event.at < 0:
            is_undated = True
        take(rounds.add(event))
    take(rounds.finish())
    episodes.extend(builder.finish(newest))
    unknown = []
    if episodes and not all(one.has_moves for one in episodes):
        unknown.append("which partitions moved, and how long they had no consumer")
    if not has_coordinator and episodes:
        unknown.append(
            "rounds and members that no client's log shows: add the coordinator's log (the broker's)"
        )
    elif not has_clients and episodes:
        unknown.append("what clients did meanwhile: add their logs")
    if any(not one.is_counted for one in episodes):
        unknown.append("how many members the group had all the time")
    if is_undated:
        unknown.append("when lines without a timestamp were written")
    if is_rough:
        unknown.append("times more exact than a second")
    return GroupStory(group_id, episodes, listed, unknown)
