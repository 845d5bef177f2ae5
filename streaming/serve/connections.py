"""Limits on connections: how many there are, and how long each may take to ask and to accept an answer."""

from __future__ import annotations

import asyncio
import resource
from typing import Final

from uvicorn.protocols.http.h11_impl import H11Protocol

#: Seconds a connection may stay open without asking for anything, and that the head of a request may take.
IDLE_SECONDS: Final = 15
#: Seconds that a client may leave an answer untaken.
UNTAKEN_SECONDS: Final = 60
#: Connections beside those that follow the feed, and files that are open beside connections.
_MORE_CONNECTIONS: Final = 256
_OTHER_FILES: Final = 64

_FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 10\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
)


class BoundedProtocol(H11Protocol):
    """uvicorn's own protocol, with these limits.

    It also lets the feed drop a connection whose client takes no bytes: closing it would wait for ever until
    everything buffered is taken.
    """

    _deadline: asyncio.TimerHandle | None = None
    _untaken: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # uvicorn's: asyncio has BaseTransport
        """Accept the connection, or refuse it when there are too many."""
        super().connection_made(transport)
        if len(self.connections) >= (self.limit_concurrency or 0):
            transport.write(_FULL)
            transport.close()
            return
        self.app_state = {**self.app_state, "abort": transport.abort}
        self._await_head()

    def data_received(self, data: bytes) -> None:
        """Part of a request has arrived; its head must be complete in time."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel(self._deadline)
            self._deadline = None
        elif self._deadline is None:
            self._await_head()

    def send_400_response(self, msg: str) -> None:
        """Refuse bytes that are no request; behind a request, which may be answered by now, just close."""
        if not self.cycle:
            super().send_400_response(msg)
            return
        self.cycle.disconnected = True
        self.cycle.message_event.set()
        self.transport.close()

    def _await_head(self) -> None:
        """Set the time by which the head must be complete; bytes that drip in don't put it off."""
        self._deadline = self.loop.call_later(IDLE_SECONDS, self._late)

    def _late(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def pause_writing(self) -> None:
        """The client takes less than is sent: give up after a while."""
        super().pause_writing()
        if self._untaken is None:
            self._untaken = self.loop.call_later(UNTAKEN_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has caught up."""
        super().resume_writing()
        self._cancel(self._untaken)
        self._untaken = None

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is closed."""
        super().connection_lost(exc)
        self._cancel(self._deadline)
        self._cancel(self._untaken)

    @staticmethod
    def _cancel(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()


def allow(max_clients: int) -> int:
    """How many connections to allow: followers and some more, as far as the system's limit on files goes."""
    wanted = max_clients + _MORE_CONNECTIONS
    files, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files < wanted + _OTHER_FILES and files != resource.RLIM_INFINITY:
        files = wanted + _OTHER_FILES if most == resource.RLIM_INFINITY else min(wanted + _OTHER_FILES, most)
        resource.setrlimit(resource.RLIMIT_NOFILE, (files, most))
    return wanted if files == resource.RLIM_INFINITY else max(1, min(wanted, files - _OTHER_FILES))
