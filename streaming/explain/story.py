"""Stories of groups, each built from the group's log events in order of time."""

import heapq
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import BinaryIO, Final, NamedTuple

import msgspec

from streaming.episodes.notes import BounceNote
from streaming.explain.client_rounds import ClientRounds
from streaming.explain.coordinator_rounds import CoordinatorRounds
from streaming.explain.episodes import EpisodeBuilder, LogEpisode
from streaming.explain.events import LogEvent
from streaming.explain.rounds import LogRound, merged
from streaming.records.diffs import MemberNames

#: The largest number of events in memory.
_EVENTS_PER_SORTED_FILE: Final = 50_000
#: Rounds within this time are ordered by their generations or epochs, as clocks differ.
_CLOCK_SKEW_MS: Final = 60_000
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(LogEvent)


def _order(event: LogEvent) -> tuple[str, int, tuple[str, int]]:
    return event.group_id, event.at, event.place


class EventSorter:
    """Sorts any number of events in constant memory, with files that ``temporary`` opens."""

    def __init__(self, open_temporary_file: Callable[[], BinaryIO]) -> None:
        self._open_temporary = open_temporary_file
        self._events: list[LogEvent] = []
        self._sorted_files: list[BinaryIO] = []

    def add(self, event: LogEvent) -> None:
        """Add an event; many events are sorted into temporary files."""
        self._events.append(event)
        if len(self._events) >= _EVENTS_PER_SORTED_FILE:
            run = self._open_temporary()
            run.writelines(_encoder.encode(event) + b"\n" for event in sorted(self._events, key=_order))
            run.seek(0)
            self._sorted_files.append(run)
            self._events = []

    def sorted_events(self) -> Iterator[LogEvent]:
        """Yield the events in the order of group, time, file and line; can be called only once."""
        runs = [map(_decoder.decode, run) for run in self._sorted_files]
        yield from heapq.merge(*runs, sorted(self._events, key=_order), key=_order)
        for run in self._sorted_files:
            run.close()


class GroupStory(NamedTuple):
    """Explanation of one group: episodes, members as Kafka's tools list them, and lines of text about missing data."""

    group_id: str
    episodes: list[LogEpisode]
    listed: dict[str, MemberNames]
    unknown: list[str]


def group_stories(
    events: Iterable[LogEvent], newest: int, start_ms: int | None = None, end_ms: int | None = None
) -> Iterator[GroupStory]:
    """Yield the story of each group, built from sorted events, with rounds from ``start_ms`` to ``end_ms``.

    ``newest``: last time in the logs, ms.
    """
    for group_id, group_events in groupby(events, key=lambda event: event.group_id):
        yield _make_story(group_id, group_events, newest, start_ms, end_ms)


def _make_story(
    group_id: str, events: Iterable[LogEvent], newest: int, start_ms: int | None, end_ms: int | None
) -> GroupStory:
    coordinator, clients = CoordinatorRounds(group_id), ClientRounds(group_id)
    coordinator_rounds: list[LogRound | BounceNote] = []
    client_rounds: list[LogRound] = []
    listed: dict[str, MemberNames] = {}
    has_coordinator, has_clients, is_undated, is_imprecise = False, False, False, False
    for event in events:
        is_imprecise = is_imprecise or event.precision_ms > 1
        if event.coordinator is not None:
            has_coordinator = True
            coordinator_rounds += coordinator.add(event, event.coordinator)
        elif event.client is not None:
            has_clients = True
            client_rounds += clients.add(event, event.client)
        elif event.listing is not None:
            client_rounds += clients.add_listing(event, event.listing)
        if event.listing is not None and event.listing.number is None:
            listed.update(event.listing.members)
        elif event.at < 0:
            is_undated = True
    coordinator_rounds += coordinator.finish()
    client_rounds += clients.finish()
    builder, episodes = EpisodeBuilder(group_id), list[LogEpisode]()
    for item in _merge_rounds(coordinator_rounds, client_rounds, clients) if has_coordinator else client_rounds:
        at = item.timestamp if isinstance(item, BounceNote) else item.began if item.ended is None else item.ended
        if (start_ms is None or at >= start_ms) and (end_ms is None or at <= end_ms):
            episodes.extend(builder.add(item))
    episodes.extend(builder.finish(newest))
    lacks_coordinator, lacks_clients = episodes and not has_coordinator, has_coordinator and not has_clients
    gaps = {
        "which partitions moved, and how long they had no consumer": not all(e.has_moves for e in episodes),
        "rounds and members that no client's log shows: add the coordinator's log (the broker's)": lacks_coordinator,
        "what clients did meanwhile: add their logs": episodes and lacks_clients,
        "how many members the group had all the time": not all(e.is_counted for e in episodes),
        "when lines without a timestamp were written": is_undated,
        "times more exact than a second": is_imprecise,
    }
    return GroupStory(group_id, episodes, listed, [text for text, is_unknown in gaps.items() if is_unknown])


def _merge_rounds(
    coordinator_items: Sequence[LogRound | BounceNote], seen: Sequence[LogRound], clients: ClientRounds
) -> Iterator[LogRound | BounceNote]:
    """Yield the coordinator's rounds with details from clients, and clients' rounds that the coordinator's log lacks.

    Clocks of clients may differ from the coordinator's by minutes.
    """
    numbers = {item.number: item for item in coordinator_items if isinstance(item, LogRound)}
    round_by_number = {item.number: item for item in seen if item.number is not None}
    others = deque(item for item in seen if item.number is not None and item.number not in numbers)
    reports = deque(clients.reports)
    for item in coordinator_items:
        while others and _is_earlier(others[0], item):
            yield others.popleft()
        if isinstance(item, LogRound):
            item.names = {member: merged(clients.names.get(member), who) for member, who in item.names.items()}
            item.kind = clients.kind if item.kind == "consumer" else item.kind
            due = []
            while reports and (item.ended is None or reports[0][0] <= item.ended):
                due.append(reports.popleft()[1])
            item.add_reports(due)
            if item.number in round_by_number:
                coordinator_round = round_by_number[item.number]
                item.assignor = item.assignor or coordinator_round.assignor
                item.moved, item.pauses = coordinator_round.moved, coordinator_round.pauses
                item.ended = coordinator_round.ended if item.ended is None else item.ended
        yield item
    yield from others


def _is_earlier(by_client: LogRound, item: LogRound | BounceNote) -> bool:
    if isinstance(item, BounceNote):
        return by_client.began < item.timestamp
    if item.number is not None and by_client.number is not None and abs(by_client.began - item.began) < _CLOCK_SKEW_MS:
        return by_client.number < item.number
    return by_client.began < item.began
