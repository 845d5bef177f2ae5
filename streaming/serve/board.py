"""The board: all groups' current state and the newest server-sent events, encoded once for all clients.

Listeners do not have queues. Each listener has a cursor into one shared, bounded list of events. A slow listener falls
behind the start of the list and continues from the history. All code of this module runs on the event loop.
"""

import asyncio
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, Literal, get_args

from msgspec import Struct, structs

from streaming.freshness import ComponentState, LateKind
from streaming.kafka.lag_reader import GroupLag
from streaming.records.codec import encode, raw_json
from streaming.serve.annotations import add_story_suffix, story_suffix
from streaming.serve.connections import SharedBody
from streaming.serve.history import HistoryUpdate, RoundRange, StoredRound
from streaming.serve.owner_history import limit_bytes
from streaming.serve.records import GroupSummary
from streaming.serve.stories import CurrentStories, Sort, StoredStory, member_names
from streaming.settings.config import ServiceLevel

MAX_EVENTS: Final = 8192
MAX_BYTES: Final = 16 * 1024 * 1024
#: A snapshot above this size (bytes) is shared for this long (seconds) while events keep coming.
LARGE_SNAPSHOT_BYTES: Final = 2**20
SHARED_SNAPSHOT_SECONDS: Final = 2.0


class FeedFrame(Struct, frozen=True):
    """One server-sent event: its bytes, and the fields that filters compare.

    ``seq`` and ``story_seq``: the number of its round or story, else 0. Events without a group are for every listener.
    """

    data: bytes
    group: str | None = None
    seq: int = 0
    cause: str = ""
    moved: int = 0
    story_seq: int = 0


class FeedFilter(Struct, frozen=True):
    """The events that a client of the feed receives: matching rounds, and stories if ``stories`` is set."""

    group: str | None = None
    cause: str | None = None
    min_moved: int = 0
    stories: bool = False

    def accepts(self, frame: FeedFrame) -> bool:
        """Return True if the listener receives this event. Filters on rounds don't drop group events and stories."""
        if frame.story_seq and not self.stories:
            return False
        if self.group is not None and frame.group not in (None, self.group):
            return False
        if frame.seq == 0:
            return True
        return (self.cause is None or frame.cause == self.cause) and frame.moved >= self.min_moved


def _event(name: str, content: object) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name.encode(), encode(content))


class Snapshot(Struct, frozen=True):
    """Groups after the round ``seq``, encoded once: as an event, and as the body of ``/api/v1/groups``.

    The event's id is the position from which to read the changes. ``cursor``: cursor of the events after the snapshot.
    ``moment``: when it was built, seconds of the monotonic clock.
    """

    seq: int
    cursor: int
    event: bytes
    body: SharedBody
    moment: float


class Board:
    """Current state of all groups, the newest server-sent events, and the clients that wait for more."""

    def __init__(
        self,
        round_range: RoundRange,
        groups: dict[str, GroupSummary],
        stories: CurrentStories | None = None,
        cluster: str = "",
    ) -> None:
        self.cluster, self.round_range, self.groups = cluster, round_range, dict(groups)
        self.current_stories = stories or CurrentStories()
        self.status = FeedStatus()
        #: Text that ``/ready`` shows.
        self.notice = ""
        #: Service levels, for the metrics.
        self.levels: Sequence[ServiceLevel] = ()
        #: Function that returns the lag of each group that was sampled.
        self.lags: Callable[[], Mapping[str, GroupLag]] = dict
        self.closing = False
        #: Counters of records and of clients.
        self.refused = self.repeated = self.fell_behind_count = self.dropped_unread = 0
        self._frames: list[FeedFrame] = []
        self._start = self._buffered_bytes = 0
        #: An asyncio event for each client that follows the feed.
        self.listeners: set[asyncio.Event] = set()
        self._snapshot: Snapshot | None = None
        self._stories: tuple[CurrentStories, int, bytes] | None = None

    @property
    def end(self) -> int:
        """The number (cursor) that the board's next event will get."""
        return self._start + len(self._frames)

    def event_id(self, seq: int, story_seq: int | None = None) -> bytes:
        """Return the event id (`Last-Event-ID`) of a round and, if ``story_seq`` is set, of an episode or incident."""
        place = b"%b.%d" % (self.round_range.epoch.encode(), seq)
        return place if story_seq is None else b"%b.%d" % (place, story_seq)

    def round_frame(self, stored: StoredRound) -> FeedFrame:
        """Return a round as an event: ``{"seq", "summary", "group", "diff"}``, with the current state of the group."""
        summary = stored.summary
        group, diff = self.groups[summary.group_id], raw_json(stored.body)
        data = _event("round", {"seq": stored.seq, "summary": summary, "group": group, "diff": diff})
        return FeedFrame(data, summary.group_id, stored.seq, summary.cause.kind, summary.moved)

    def story_frame(self, stored: StoredStory) -> FeedFrame:
        """Return an episode or incident as an event: its number, id and names, and its JSON as in the topic."""
        sort, body, names = stored.sort, stored.body, member_names(stored.body)
        if sort == "episode":
            body = add_story_suffix(body, self.current_stories.annotations)
        data = _event(sort, {"seq": stored.seq, "id": stored.id, "names": names, sort: raw_json(body)})
        return FeedFrame(data, stored.group_id, story_seq=stored.seq)

    def publish(self, batch: HistoryUpdate) -> None:
        """Publish a committed update of the history to the clients of the feed, and wake them."""
        self.groups |= batch.groups
        if batch.rounds:
            self.round_range = structs.replace(self.round_range, last=batch.rounds[-1].seq)
        for stored in batch.rounds:
            self._append_event(self.round_frame(stored))
        for name in batch.groups.keys() - {stored.summary.group_id for stored in batch.rounds}:
            self._append_event(FeedFrame(_event("group", batch.groups[name]), name))
        if batch.current_stories is not None:
            self.current_stories = batch.current_stories
        for annotation in batch.annotations:
            self._append_event(FeedFrame(_event("annotation", annotation)))
        for story in batch.stories:
            self._append_event(self.story_frame(story))
        self.refused += batch.refused
        self.repeated += batch.repeated
        if batch.groups or batch.current_stories:
            if not self._is_large():
                self._snapshot = None
            self.wake_listeners()

    def _is_large(self) -> bool:
        return self._snapshot is not None and len(self._snapshot.event) > LARGE_SNAPSHOT_BYTES

    def trimmed(
        self, round_range: RoundRange, groups: dict[str, GroupSummary], gone: list[str], current_stories: CurrentStories
    ) -> None:
        """Remove the oldest rounds, and the groups in ``gone``, which retention has dropped, from the board."""
        self.round_range, self.groups, self.current_stories = round_range, dict(groups), current_stories
        self._snapshot = None
        if gone:
            self._append_event(FeedFrame(_event("gone", {"groups": gone})))
            self.wake_listeners()

    def progress(self, status: "FeedStatus") -> None:
        """Set the feed's status; listeners receive a change at once."""
        before, self.status = self.status, status
        if before.parts != status.parts and not self._is_large():
            self._snapshot = None
        if (before.caught_up, before.stale) != (status.caught_up, status.stale):
            self._snapshot = None
            self._append_event(FeedFrame(self.progress_event()))
            self.wake_listeners()

    def status_document(self) -> dict[str, object]:
        """Return the feed's status as in JSON answers; ``stale`` and ``parts`` are left out if empty."""
        status = self.status
        optional = {name: value for name, value in (("stale", status.stale), ("parts", status.parts)) if value}
        return {"caughtUp": status.caught_up, "lag": status.lag, "seq": self.round_range.last, **optional}

    def groups_document(self, groups: list[GroupSummary], next_cursor: str | None = None) -> dict[str, object]:
        """Return the JSON document of these groups, with the feed's status."""
        return self.status_document() | {"cluster": self.cluster, "groups": groups, "next": next_cursor}

    def progress_event(self) -> bytes:
        """Return the server-sent event ``progress``, which contains the feed's status."""
        return _event("progress", self.status_document())

    def stories(self, wanted: FeedFilter, seq: int) -> bytes:
        """Return the newest episode and the open incidents of every group, or of one group, as an event with an id."""
        current = self.current_stories
        shared = self._stories
        if wanted.group is None and shared is not None and shared[0] is current and shared[1] == seq:
            return shared[2]
        episodes = [
            structs.replace(episode, story=episode.story + story_suffix(name, episode.opened_at, current.annotations))
            for name, episode in current.newest.items()
            if wanted.group in (None, name)
        ]
        incidents = [incident for incident in current.open.values() if wanted.group in (None, incident.group_id)]
        data = _event("stories", {"seq": current.last, "episodes": episodes, "incidents": incidents})
        event = b"id: %b\n%b" % (self.event_id(seq, current.last), data)
        if wanted.group is None:
            self._stories = (current, seq, event)
        return event

    def snapshot(self, group: str | None = None) -> Snapshot:
        """Return the current state of all groups, or of one group; clients share the state of all groups.

        While events keep coming, a large snapshot is shared for some seconds; clients then read the later events from
        its cursor. Without sharing, each slow client would keep a copy in memory.
        """
        shared, now = self._snapshot, time.monotonic()
        if group is None and shared is not None:
            is_new = self._is_large() and now - shared.moment < SHARED_SNAPSHOT_SECONDS and shared.cursor >= self._start
            if is_new or shared.cursor == self.end:
                return shared
        groups = [summary for name, summary in self.groups.items() if group in (None, name)]
        head = b"id: %b\nevent: snapshot\ndata: " % self.event_id(self.round_range.last)
        encoded_groups = encode(self.groups_document(groups))
        event = b"".join((head, encoded_groups, b"\n\n"))
        body = SharedBody(memoryview(event)[len(head) : len(head) + len(encoded_groups)], "application/json")
        snapshot = Snapshot(self.round_range.last, self.end, event, body, now)
        if group is None:
            self._snapshot = snapshot
        return snapshot

    def events_after(self, cursor: int, most_bytes: int = MAX_BYTES) -> list[FeedFrame] | None:
        """Return events from a cursor on, about ``most_bytes`` in all; None if these events are no longer in memory."""
        if cursor < self._start:
            return None
        frames = itertools.islice(self._frames, cursor - self._start, None)
        return list(limit_bytes(most_bytes, frames, lambda frame: len(frame.data)))

    @contextmanager
    def listener_event(self) -> Iterator[asyncio.Event]:
        """Yield an asyncio event that is set whenever new server-sent events are available."""
        event = asyncio.Event()
        self.listeners.add(event)
        try:
            yield event
        finally:
            self.listeners.discard(event)

    def wake_listeners(self) -> None:
        """Wake all clients of the feed, which wait for new events."""
        for event in self.listeners:
            event.set()

    def close(self) -> None:
        """End the event streams of all clients before the process ends."""
        self.closing = True
        self.wake_listeners()

    def _append_event(self, frame: FeedFrame) -> None:
        self._frames.append(frame)
        self._buffered_bytes += len(frame.data)
        if len(self._frames) <= MAX_EVENTS and self._buffered_bytes <= MAX_BYTES:
            return
        # The list is cut to three quarters at once: dropping one event at a time would copy the list for every event.
        drop_count = 0
        while len(self._frames) - drop_count > MAX_EVENTS * 3 // 4 or self._buffered_bytes > MAX_BYTES * 3 // 4:
            self._buffered_bytes -= len(self._frames[drop_count].data)
            drop_count += 1
        del self._frames[:drop_count]
        self._start += drop_count


#: Codes of the reasons why the feed is not up to date.
StaleKind = Literal["topic-missing", "partition-offline", "history-blocked", "follower-stalled", LateKind]
STALE_KINDS: Final[tuple[StaleKind, ...]] = get_args(StaleKind)


class Stale(Struct, frozen=True):
    """The reason for outdated data and its start (ms); messages continue the clause ``reason`` with "since …"."""

    kind: StaleKind
    reason: str
    since: int


class FeedStatus(Struct, frozen=True):
    """Progress of reading the monitor's topics. ``lag``: number of unread records; None: not yet known.

    ``parts``: the components, by their heartbeats. ``whole``: the completely read stories: episodes, incidents.
    """

    caught_up: bool = False
    lag: int | None = 0
    stale: Stale | None = None
    parts: tuple[ComponentState, ...] = ()
    whole: frozenset[Sort] = frozenset()
