"""Server-sent events of `/api/v1/stream`: a snapshot, then changes and the feed's progress. Clients can resume.

All pending events are sent in one write of bytes that were encoded once for all clients. sse-starlette, which formats
each event for each client, takes twice the CPU for 200 clients at 50 events per second.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Concatenate, Final, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread
from msgspec import Struct
from starlette.types import Receive, Scope, Send

from streaming.serve.archive import Archive
from streaming.serve.board import Board, FeedFilter, FeedFrame
from streaming.serve.connections import BodyLimitReached, abort_connection, wait_for_disconnect
from streaming.serve.historyfile import HistoryFailure

log = logging.getLogger(__name__)
_P = ParamSpec("_P")
_T = TypeVar("_T")
#: The numbers of a client's last round and last story (None: it gets no stories).
LastEvent = tuple[int, int | None]
#: Approximate size of one write, bytes. For a client that stopped reading, the socket's buffer adds to it.
TARGET_WRITE_BYTES: Final = 128 * 1024
_MAX_PAGE_ROUNDS: Final = 500
#: Headers of the stream. Without x-accel-buffering nginx would buffer the stream.
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_RESET_EVENT: Final = b'event: reset\ndata: {"reason":"the rounds after this id are gone; a snapshot follows"}\n\n'


class FeedTimes(Struct, frozen=True):
    """Times (s): between keep-alives, until a client that does not read is dropped, between writes, until a retry."""

    keep_alive_seconds: float = 15.0
    stuck: float = 30.0
    gather_seconds: float = 0.01
    retry: float = 1.0


@dataclass(slots=True)
class Feed:
    """Objects that all clients of the feed share. ``readers`` limits the threads that query the archive."""

    board: Board
    archive: Archive
    readers: CapacityLimiter
    times: FeedTimes

    async def read(self, query: Callable[Concatenate[Archive, _P], _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Query the archive in a thread by one of its methods; only a few queries run at once."""
        return await to_thread.run_sync(partial(query, self.archive, *args, **kwargs), limiter=self.readers)

    async def stored(self, position: int) -> list[FeedFrame] | None:
        """Return the stored rounds after the round ``position`` as feed events; None if retention deleted one."""
        round_range = self.board.round_range
        rows = await self.read(Archive.rounds_after, round_range, position, _MAX_PAGE_ROUNDS, TARGET_WRITE_BYTES)
        # The history may already have newer rounds; the client gets these from the board later.
        return None if rows is None else [self.board.round_frame(row) for row in rows if row.seq <= round_range.last]

    async def stored_stories(self, position: int) -> list[FeedFrame]:
        """Return the episodes and incidents that changed after the number ``position``, in their current form."""
        last = self.board.current_stories.last
        rows = await self.read(Archive.stories_after, position, _MAX_PAGE_ROUNDS, TARGET_WRITE_BYTES)
        return [self.board.story_frame(row) for row in rows if row.seq <= last]


class FeedResponse:
    """The ASGI response of one client, with its progress through the feed.

    ``last``: the last round and story that the client received; None for a new client. A new client begins with a
    snapshot. A client that reconnected or fell behind first reads the history (no ``_cursor`` yet), then the board's
    live events. ``admitted`` returns True while the client has access: tokens can be replaced while feeds are open.
    """

    def __init__(
        self, feed: Feed, wanted: FeedFilter, last: LastEvent | None, has_access: Callable[[], bool] = lambda: True
    ) -> None:
        self._feed, self._feed_filter, self._has_access = feed, wanted, has_access
        self._position: int | None = None if last is None else last[0]
        self._story_seq = None if last is None else last[1]
        self._cursor: int | None = None
        self._has_disconnected = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send events until the client leaves, stops reading or loses its access, or the server closes."""
        board = self._feed.board
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        if scope["method"] == "HEAD":
            await send({"type": "http.response.body", "body": b""})
            return
        with board.listener_event() as waker:
            disconnect_task = asyncio.create_task(self._watch_client(receive, waker))
            try:
                async with contextlib.aclosing(self.chunks(waker)) as chunks:
                    async for chunk in chunks:
                        async with asyncio.timeout(self._feed.times.stuck):
                            await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
            except HistoryFailure as error:
                # The head is sent, so the stream can only end. The client reconnects with its last id.
                log.warning("a follower of the feed was let go: %s", error)
                await send({"type": "http.response.body", "body": b""})
            except (TimeoutError, BodyLimitReached):
                board.dropped_unread += 1
                abort_connection(scope)
            finally:
                disconnect_task.cancel()

    async def _watch_client(self, receive: Receive, waker: asyncio.Event) -> None:
        await wait_for_disconnect(receive)
        self._has_disconnected = True
        waker.set()

    async def chunks(self, waker: asyncio.Event) -> AsyncGenerator[bytes, None]:
        """Yield bytes to write until the client is gone or loses its access, or the server closes."""
        board = self._feed.board
        yield b"retry: %d\n\n" % int(self._feed.times.retry * 1000)
        while not (self._has_disconnected or board.closing) and self._has_access():
            for chunk in await (self._catch_up() if self._cursor is None else self._live_frames(self._cursor, waker)):
                yield chunk

    async def _catch_up(self) -> list[bytes]:
        board = self._feed.board
        position = self._position
        if position is None:
            return self._snapshot_frames()
        if position != board.round_range.last:
            lost = not board.round_range.trimmed <= position <= board.round_range.last
            frames = None if lost else await self._feed.stored(position)
            return [_RESET_EVENT, *self._snapshot_frames()] if frames is None else self._join_events(frames, position)
        if self._feed_filter.stories:
            if self._story_seq is None or self._story_seq > board.current_stories.last:
                self._story_seq = board.current_stories.last
                return [board.stories(self._feed_filter, position)]
            if self._story_seq != board.current_stories.last:
                last = board.current_stories.last
                frames = await self._feed.stored_stories(self._story_seq)
                if not frames:
                    self._story_seq = last
                return self._join_events(frames, position)
        self._cursor = board.end
        return [board.progress_event()]

    def _snapshot_frames(self) -> list[bytes]:
        board = self._feed.board
        snapshot = board.snapshot(self._feed_filter.group)
        self._position, self._cursor = snapshot.seq, snapshot.cursor
        if not self._feed_filter.stories:
            return [snapshot.event]
        self._story_seq = board.current_stories.last
        return [snapshot.event, board.stories(self._feed_filter, self._position)]

    async def _live_frames(self, cursor: int, waker: asyncio.Event) -> list[bytes]:
        board = self._feed.board
        position = self._position or 0
        frames = board.events_after(cursor, TARGET_WRITE_BYTES)
        if frames is None:
            board.fell_behind_count += 1
            self._cursor = None
            return []
        if frames:
            self._cursor = cursor + len(frames)
            return self._join_events(frames, position)
        try:
            async with asyncio.timeout(self._feed.times.keep_alive_seconds):
                await waker.wait()
        except TimeoutError:
            # The event has the client's place, as a client whose filter takes few events would reconnect far behind.
            return [b"id: %b\n%b" % (board.event_id(position, self._story_seq), board.progress_event())]
        waker.clear()
        # Events that arrive together are sent in one write.
        await asyncio.sleep(self._feed.times.gather_seconds)
        return []

    def _join_events(self, frames: list[FeedFrame], position: int) -> list[bytes]:
        """Join events into writes of about ``TARGET_WRITE_BYTES`` each, and advance the client's position."""
        writes, parts, size = list[bytes](), list[bytes](), 0
        for frame in frames:
            position = frame.seq or position
            if self._story_seq is not None:
                self._story_seq = frame.story_seq or self._story_seq
            if self._feed_filter.accepts(frame):
                if frame.seq or frame.story_seq:
                    parts.append(b"id: %b\n" % self._feed.board.event_id(position, self._story_seq))
                parts.append(frame.data)
                size += len(frame.data)
            if size >= TARGET_WRITE_BYTES:
                writes.append(b"".join(parts))
                parts, size = [], 0
        self._position = position
        return [*writes, b"".join(parts)] if parts else writes
