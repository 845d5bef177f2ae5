"""The thread that stores records of the monitor's topics in the history and publishes them to the feed's clients."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Final, ParamSpec, TypeVar

from msgspec import structs

from assignors.errors import MonitorError, OutsideFailure
from streaming.freshness import Freshness
from streaming.serve.board import Board, FeedStatus, Stale
from streaming.serve.history import History, HistoryUpdate, Retention
from streaming.serve.historyfile import HistoryBlocked
from streaming.serve.records import TopicRecord
from streaming.serve.source import Source

log = logging.getLogger(__name__)
_P = ParamSpec("_P")
_T = TypeVar("_T")
_POLL_SECONDS: Final = 0.1
_TRIM_INTERVAL_SECONDS: Final = 60.0
_CHECK_INTERVAL_SECONDS: Final = 1.0
#: Seconds between attempts to write to a history that is locked, or whose disk is full.
_RETRY_SECONDS: Final = 1.0
#: Seconds without a poll after which the follower counts as stalled; each wait of its loop is shorter.
STALLED_AFTER_SECONDS: Final = 15.0


class Follower:
    """Thread that reads records from ``source``, stores them in ``history``, and updates ``board`` with them.

    The board has the current state of all groups. On a failure, the thread calls ``failed`` and ends. ``freshness``
    returns the freshness of the components that write the topics, at a time of the monotonic clock.
    """

    def __init__(
        self,
        source: Source,
        history: History,
        board: Board,
        limits: Retention,
        *,
        loop: asyncio.AbstractEventLoop,
        failed: Callable[[MonitorError], None],
        freshness: Callable[[float], Freshness],
    ) -> None:
        self._source, self._history, self._board = source, history, board
        self._limits, self._loop, self._report_failure = limits, loop, failed
        self._freshness = freshness
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="follower", daemon=True)
        self._trimmed_at = self._checked_at = 0.0
        self._history_problem: Stale | None = None
        self._topic_ids: dict[str, str] = {}
        self._last_pass_at = time.monotonic()

    def start(self) -> None:
        """Start the thread that follows the topics."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the current batch and end the thread; blocks until it has ended."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    @property
    def silent_seconds(self) -> float:
        """Seconds since the follower last polled the topics."""
        return time.monotonic() - self._last_pass_at

    def watch(self) -> None:
        """Set the feed's status to stalled if the reader makes no progress; the event loop calls this every second."""
        silent = self.silent_seconds
        stale = self._board.status.stale
        if silent > STALLED_AFTER_SECONDS and (stale is None or stale.kind != "follower-stalled"):
            log.warning("no progress for %d s: the reader of the topics is stalled", silent)
            stalled_state = Stale("follower-stalled", "The reader has made no progress", _now_ms() - int(silent * 1000))
            self._board.progress(structs.replace(self._board.status, caught_up=False, lag=None, stale=stalled_state))

    def _run(self) -> None:
        try:
            try:
                self._read()
            finally:
                self._source.close()
        except MonitorError as error:
            self._report_failure(error)
        except BaseException as error:
            # If the end of this thread went unnoticed, the page would look live but no longer change.
            log.debug("the follower ended", exc_info=error)
            ended = OutsideFailure(f"reading the topics ended with {type(error).__name__}: {error}; please report it")
            ended.__cause__ = error
            self._report_failure(ended)

    def _read(self) -> None:
        self._source.open(self._history.positions(), self._history.topic_ids())
        while not self._stopping.is_set():
            self._last_pass_at = time.monotonic()
            records = self._source.poll(_POLL_SECONDS)
            if self._source.ids != self._topic_ids:  # before the first records of a recreated topic
                self._topic_ids = dict(self._source.ids)
                self._retry(self._history.reset_changed_topics, self._topic_ids)
            self._store_records(records)

    def _store_records(self, records: list[TopicRecord]) -> None:
        batch = self._retry(self._history.append, records) if records else None
        now = time.monotonic()
        if now - self._checked_at > _CHECK_INTERVAL_SECONDS:
            self._checked_at = now
            self._history.check()
        self._report_status(batch)
        if now - self._trimmed_at > _TRIM_INTERVAL_SECONDS:
            self._trimmed_at = now
            self._trim_history()

    def _report_status(self, batch: HistoryUpdate | None = None) -> None:
        fresh = self._freshness(time.monotonic())
        stale = self._history_problem or self._source.stale or (fresh.late and Stale(*fresh.late))
        caught_up = stale is None and self._source.caught_up and fresh.is_known
        lag = self._source.lag if stale is None else None
        status = FeedStatus(caught_up, lag, stale, fresh.parts, self._source.whole)

        def publish() -> None:
            if batch is not None:
                self._board.publish(batch)
            self._board.progress(status)

        if batch is not None or status != self._board.status:
            self._run_on_loop(publish)

    def _retry(self, write: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T | None:
        """Retry ``write`` until the history accepts it, and return its result; None if the follower is stopped."""
        while True:
            try:
                result = write(*args, **kwargs)
            except HistoryBlocked as error:
                if self._history_problem is None:
                    log.warning("%s: trying again until it can be written", error)
                    self._history_problem = Stale("history-blocked", "The history can't be written", _now_ms())
                self._report_status()
                self._last_pass_at = time.monotonic()
                if self._stopping.wait(_RETRY_SECONDS):
                    return None
            else:
                if self._history_problem is not None:
                    log.warning("history %s: written again", self._history.path)
                    self._history_problem = None
                return result

    def _trim_history(self) -> None:
        trimmed = self._retry(self._history.trim, self._limits, _now_ms(), caught_up=self._source.caught_up)
        rounds, gone = trimmed or (0, [])
        if not (rounds or gone):
            return
        log.info("retention dropped %d rounds and %d deleted groups", rounds, len(gone))
        round_range, groups, stories = self._history.round_range, self._history.groups, self._history.current_stories
        self._run_on_loop(lambda: self._board.trimmed(round_range, groups, gone, stories))

    def _run_on_loop(self, work: Callable[[], None]) -> None:
        """Run ``work`` on the event loop and wait for it, so that no work accumulates while the loop is busy."""

        async def call() -> None:
            work()

        try:
            asyncio.run_coroutine_threadsafe(call(), self._loop).result()
        except CancelledError:
            self._stopping.set()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
