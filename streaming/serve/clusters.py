"""One cluster of the server: its source, history, board and follower, and whether it is ready."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from anyio import CapacityLimiter, to_thread

from assignors.errors import MonitorError
from streaming.freshness import Freshness
from streaming.kafka.lag_reader import GroupLag
from streaming.records.events import Event
from streaming.serve.archive import Archive
from streaming.serve.board import Board, FeedStatus
from streaming.serve.feed import Feed, FeedTimes
from streaming.serve.follower import Follower
from streaming.serve.history import History, Retention, RoundRange
from streaming.serve.problems import Problem
from streaming.serve.security import TrustedProxies
from streaming.serve.source import Source
from streaming.settings.config import ServiceLevel


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Options of the web server ``serve``. ``history``: None for the default path of the cluster."""

    history: Path | None = None
    host: str = "127.0.0.1"
    port: int = 8686
    token_file: Path | None = None
    proxies: TrustedProxies | None = None
    access_log: bool = False
    limits: Retention = field(default_factory=lambda: Retention(30 * 86_400_000, 2**30))
    max_clients: int = 1000
    times: FeedTimes = field(default_factory=FeedTimes)
    levels: Sequence[ServiceLevel] = ()


class Cluster:
    """A cluster that is served: its records are read into its history and board, from which its API answers.

    ``connect`` returns the source of the records, or raises MonitorError.
    """

    def __init__(self, connect: Callable[[], Source], options: ServeOptions, *, name: str = "") -> None:
        self.connect, self.options, self.name = connect, options, name
        #: Function that returns how fresh the components' data is, at a time of the monotonic clock.
        self.freshness: Callable[[float], Freshness] = lambda _: Freshness()
        #: Function that returns the lag of each group that was sampled.
        self.lags: Callable[[], Mapping[str, GroupLag]] = dict
        self.cluster_id: str | None = None
        #: None while the cluster is not connected, for the reason in ``problem``.
        self.feed: Feed | None = None
        self.problem = "not connected yet"
        self.publish: Callable[[Event], None] = lambda _: None
        self._opened: tuple[Source, History] | None = None
        self._follower: Follower | None = None

    def open(self) -> tuple[Source, History]:
        """Connect to the cluster and open its history; raise MonitorError if that fails."""
        source = self.connect()
        path, diffs_topic = self.options.history or source.default_history, source.topics[0]
        history = History(path, cluster_id=source.cluster_id, diffs_topic=diffs_topic, stories=source.stories)
        self._opened = source, history
        self.cluster_id, self.name = source.cluster_id, self.name or source.cluster_id
        return self._opened

    def close(self) -> None:
        """Close the history file of the cluster."""
        if self._opened is not None:
            self._opened[1].close()
            self._opened = None

    async def follow(self, readers: CapacityLimiter) -> None:
        """Connect to the cluster and read its topics until the task is cancelled; raise MonitorError on failure."""
        source, history = await to_thread.run_sync(self.open) if self._opened is None else self._opened
        loop, errors, limits = asyncio.get_running_loop(), asyncio.Queue[MonitorError](), self.options.limits

        def failed(error: MonitorError) -> None:
            loop.call_soon_threadsafe(errors.put_nowait, error)

        board = Board(history.round_range, history.groups, history.current_stories, cluster=self.name)
        board.levels, board.lags, board.notice = self.options.levels, self.lags, history.notice
        follower = Follower(source, history, board, limits, loop=loop, failed=failed, freshness=self.freshness)
        self._follower, self.publish = follower, source.publish
        self.feed = Feed(board, Archive(history.path), readers, self.options.times)
        follower.start()
        try:
            raise await errors.get()
        finally:
            self.feed = self._follower = None
            board.close()
            await to_thread.run_sync(follower.stop)
            self.close()

    def watch(self) -> float:
        """Report the cluster's follower if it has stalled; return the seconds since its last poll, or 0."""
        if self._follower is None:
            return 0.0
        self._follower.watch()
        return self._follower.silent_seconds

    def open_feed(self) -> Feed:
        """Return the cluster's feed; raise Problem while the cluster is not connected."""
        if self.feed is None:
            raise Problem("unconnected", f"cluster {self.name}: {self.problem}")
        return self.feed

    @property
    def board(self) -> Board:
        """The feed's board; while the cluster is not connected, an empty board that is marked as not up to date."""
        if self.feed is not None:
            return self.feed.board
        board = Board(RoundRange("", 0, 0), {}, cluster=self.name)
        board.status = FeedStatus(lag=None)
        return board

    def readiness_document(self) -> dict[str, object]:
        """Return the document of ``/ready`` for this cluster. Anyone may read it, so it has no text of an error."""
        if self.feed is None:
            return {"ready": False, "problem": "not connected; the log has the reason"}
        document, notice = self.feed.board.status_document(), self.feed.board.notice
        return {"ready": document.pop("caughtUp"), **document, **({"notice": notice} if notice else {})}

    def document(self) -> dict[str, object]:
        """Return the cluster as an element of ``/api/v1/clusters``."""
        return {"name": self.name, "clusterId": self.cluster_id, **self.readiness_document()}
