"""The thread that carries records from the source into the history, and from there to the board."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Final

from assignors.errors import MonitorError
from streaming.serve.board import Board
from streaming.serve.history import Applied, History, Limits, Record
from streaming.serve.source import Source

log = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.1
_TRIM_EVERY: Final = 60.0
_LAG_EVERY: Final = 1.0


class Follower:
    """Reads until it is told to stop: what was read is stored and published, then it ends.

    ``failed`` is called, on this thread, with an error that ends the service.
    """

    def __init__(
        self,
        source: Source,
        history: History,
        board: Board,
        limits: Limits,
        *,
        loop: asyncio.AbstractEventLoop,
        failed: Callable[[MonitorError], None],
    ) -> None:
        self._source = source
        self._history = history
        self._board = board
        self._limits = limits
        self._loop = loop
        self._failed = failed
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._trimmed = self._looked = 0.0
        self.lag = 0

    def start(self) -> None:
        """Begin to read."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the batch at hand and end; blocks."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            self._source.open(self._history.positions())
            while not self._stopping.is_set():
                self._step(self._source.poll(_POLL_SECONDS))
        except MonitorError as error:
            self._failed(error)
        finally:
            self._source.close()

    def _step(self, records: list[Record]) -> None:
        applied = self._history.append(records) if records else None
        now = time.monotonic()
        if now - self._looked > _LAG_EVERY:
            self._looked = now
            self.lag = self._source.lag
        caught_up = self._source.caught_up
        if applied is not None or caught_up != self._board.caught_up or self.lag != self._board.lag:
            self._on_loop(lambda: self._publish(applied, caught_up=caught_up))
        if now - self._trimmed > _TRIM_EVERY:
            self._trimmed = now
            self._trim()

    def _publish(self, applied: Applied | None, *, caught_up: bool) -> None:
        if applied is not None:
            self._board.publish(applied)
        self._board.progress(caught_up=caught_up, lag=self.lag)

    def _trim(self) -> None:
        dropped = self._history.trim(self._limits, time.time_ns() // 1_000_000)
        if dropped:
            log.info("retention dropped %d rounds", dropped)
            place, groups = self._history.place, self._history.groups
            self._on_loop(lambda: self._board.trimmed(place, groups))

    def _on_loop(self, work: Callable[[], None]) -> None:
        """Run it there and wait: while the loop is busy nothing piles up in front of it."""

        async def call() -> None:
            work()

        try:
            asyncio.run_coroutine_threadsafe(call(), self._loop).result()
        except CancelledError:
            self._stopping.set()
