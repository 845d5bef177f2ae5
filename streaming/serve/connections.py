"""Limits on connections and answers: their number, their duration, and the bytes that wait for slow clients."""

import asyncio
import gzip
import resource
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from anyio import CapacityLimiter, to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from streaming.serve.problems import Problem

#: Seconds that a connection may stay open without a request, and that the head of a request may take.
IDLE_TIMEOUT_SECONDS: Final = 15
#: Seconds that a client may leave an answer unread.
UNREAD_TIMEOUT_SECONDS: Final = 60
#: The most connections besides clients of the feed, and the number of open files besides connections.
_RESERVED_CONNECTIONS: Final = 256
_OTHER_OPEN_FILES: Final = 64
_FULL: Final = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 10\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"


class BoundedProtocol(H11Protocol):
    """uvicorn's HTTP protocol with limits on connections, idle time and unread answers.

    It also puts ``abort`` into the scope's state. With it the feed drops a connection whose client reads nothing.
    Closing such a connection would wait forever for its buffer to drain.
    """

    _head_timer: asyncio.TimerHandle | None = None
    _unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvicorn's: asyncio has BaseTransport
        """Accept the connection, or refuse it if there are too many connections."""
        super().connection_made(transport)
        if len(self.connections) >= (self.limit_concurrency or 0):
            transport.write(_FULL)
            transport.close()
            return
        self.app_state = {**self.app_state, "abort": transport.abort}
        self._set_head_timeout()

    def data_received(self, data: bytes) -> None:
        """Parse received bytes; the head of a request must be complete in time."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None
        elif self._head_timer is None:
            self._set_head_timeout()

    def send_400_response(self, msg: str) -> None:
        """Answer bytes that are not a request with 400; after an earlier request on the connection, only close it."""
        if not self.cycle:
            super().send_400_response(msg)
            return
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        self.transport.close()

    def _set_head_timeout(self) -> None:
        """Set the time by which the request's head must be complete; received bytes don't extend this time."""
        self._head_timer = self.loop.call_later(IDLE_TIMEOUT_SECONDS, self._on_late_request_head)

    def _on_late_request_head(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def pause_writing(self) -> None:
        """Start the timer that drops a client which does not read its answer."""
        super().pause_writing()
        if self._unread_timer is None:
            self._unread_timer = self.loop.call_later(UNREAD_TIMEOUT_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the timer that drops the connection: the client reads its answer again."""
        super().resume_writing()
        if self._unread_timer is not None:
            self._unread_timer.cancel()
            self._unread_timer = None

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers of the closed connection."""
        super().connection_lost(exc)
        for timer in (self._head_timer, self._unread_timer):
            if timer is not None:
                timer.cancel()


def max_connections(max_clients: int) -> int:
    """Return the limit of connections: feed clients and a reserve, but no more than open files allow."""
    connections = max_clients + _RESERVED_CONNECTIONS
    needed_files = connections + _OTHER_OPEN_FILES
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files < needed_files and files != resource.RLIM_INFINITY:
        files = needed_files if most == resource.RLIM_INFINITY else min(needed_files, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    return connections if files == resource.RLIM_INFINITY else max(1, min(connections, files - _OTHER_OPEN_FILES))


#: A body is written in pieces of this size, bytes; each piece follows once the client has read the previous one.
SEND_CHUNK_BYTES: Final = 64 * 1024
#: Bytes of bodies above ``PIECE_BYTES`` that may wait for clients at once; a body that clients share counts once.
MAX_WAITING_BYTES: Final = 256 * 2**20
#: The lowest speed at which a client may read a large body, after the first seconds.
_MIN_BYTES_PER_SECOND: Final = 16 * 1024
_SLOW_CLIENT_SECONDS: Final = 60
#: Smaller bodies are not compressed.
_MIN_COMPRESSED_BYTES: Final = 1024


class BodyLimitReached(Exception):  # noqa: N818 - a state, not a mistake
    """A response body is not sent, as too many bytes already wait for slow clients."""


class SharedBody:
    """A response body for many clients; it is compressed once, for the first client that accepts gzip."""

    def __init__(self, plain: bytes | memoryview, media_type: str) -> None:
        self.plain = plain
        self._media_type = media_type
        self._compressed_body: bytes | None = None
        self._lock = threading.Lock()

    def compressed_body(self) -> bytes:
        """Return the body compressed with gzip. This is slow for a large body: call it off the event loop."""
        with self._lock:
            if self._compressed_body is None:
                self._compressed_body = gzip.compress(self.plain, compresslevel=1, mtime=0)
            return self._compressed_body

    async def response(self, request: Request, workers: CapacityLimiter) -> Response:
        """Return the response in an encoding that the client accepts; ``workers`` limits the compressing threads."""
        headers = {"content-type": self._media_type}
        if len(self.plain) < _MIN_COMPRESSED_BYTES or "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(self.plain, headers=headers)
        body = self._compressed_body or await to_thread.run_sync(self.compressed_body, limiter=workers)
        return Response(body, headers=headers | {"content-encoding": "gzip", "vary": "Accept-Encoding"})


class BoundedBodies:
    """Middleware that sends large bodies in pieces as clients read them, and limits the bytes that wait in memory."""

    def __init__(self, app: ASGIApp, most_bytes: int = MAX_WAITING_BYTES) -> None:
        self._app, self._most_bytes = app, most_bytes
        #: The number of clients to which a body is being sent, by the body's identity.
        self._clients = Counter[int]()
        self.waiting_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and send a large response body in pieces."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        head: Message | None = None
        is_refused = False

        async def bounded(message: Message) -> None:
            nonlocal head, is_refused
            if is_refused:
                return
            if message["type"] == "http.response.start":
                head = message
                return
            body = message.get("body", b"")
            with self._counted_body(body) as has_room:
                if has_room:
                    if head is not None:
                        await send(head)
                        head = None
                    await _send_in_pieces(scope, send, body, more=message.get("more_body", False))
                    return
            if head is None:
                raise BodyLimitReached
            is_refused = True
            busy = Problem("busy", "too many answers wait for slow clients; try again")
            await busy.response(scope["path"])(scope, receive, send)

        await self._app(scope, receive, bounded)

    @contextmanager
    def _counted_body(self, body: bytes | memoryview) -> Iterator[bool]:
        """Count the bytes of a response body while it is sent; yield False if too many bytes wait for clients."""
        size, key = len(body), id(body)
        counted = 0 if size <= SEND_CHUNK_BYTES or self._clients[key] else size
        if counted and self.waiting_bytes + size > self._most_bytes:
            yield False
            return
        self._clients[key] += 1
        self.waiting_bytes += counted
        try:
            yield True
        finally:
            self._clients[key] -= 1
            if not self._clients[key]:
                del self._clients[key]
                self.waiting_bytes -= size if size > SEND_CHUNK_BYTES else 0


async def _send_in_pieces(scope: Scope, send: Send, body: bytes | memoryview, *, more: bool) -> None:
    if len(body) <= SEND_CHUNK_BYTES:
        await send({"type": "http.response.body", "body": bytes(body), "more_body": more})
        return
    try:
        async with asyncio.timeout(_SLOW_CLIENT_SECONDS + len(body) / _MIN_BYTES_PER_SECOND):
            for start in range(0, len(body), SEND_CHUNK_BYTES):
                last = start + SEND_CHUNK_BYTES >= len(body)
                chunk = bytes(body[start : start + SEND_CHUNK_BYTES])
                await send({"type": "http.response.body", "body": chunk, "more_body": more or not last})
    except TimeoutError:
        abort_connection(scope)


def abort_connection(scope: Scope) -> None:
    """Drop the connection of a client that reads nothing, without waiting for its buffer to drain."""
    scope["state"]["abort"]()


async def wait_for_disconnect(receive: Receive) -> None:
    """Wait until the HTTP client has closed the connection."""
    while (await receive())["type"] != "http.disconnect":
        pass
