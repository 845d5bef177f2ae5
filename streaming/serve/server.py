"""The server process: follower thread, board and uvicorn, from the start to an orderly shutdown."""

import asyncio
import logging
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import uvicorn
from anyio import CapacityLimiter, to_thread

from assignors.errors import MonitorError, OutsideFailure
from streaming.freshness import Freshness
from streaming.kafka.lag_reader import GroupLag
from streaming.recording.file import Recording
from streaming.serve import connections
from streaming.serve.app import build
from streaming.serve.archive import Archive
from streaming.serve.board import Board
from streaming.serve.connections import BoundedProtocol
from streaming.serve.feed import Feed, FeedTimes
from streaming.serve.follower import Follower
from streaming.serve.forecasts import Workers
from streaming.serve.history import STORIES, History, Retention
from streaming.serve.security import Access, Proxies, TokenFile, is_loopback
from streaming.serve.source import RECORDED_STORIES, RecordedSource, Source
from streaming.serve.stories import Sort
from streaming.settings.config import ServiceLevel

log = logging.getLogger(__name__)

#: The most queries of the history that run at once.
_MAX_READERS: Final = 4
#: Seconds that open requests may still take once the process is stopped.
_DRAIN_SECONDS: Final = 5
_MAX_REQUEST_HEAD: Final = 16 * 1024
#: Seconds without progress of the follower after which the watchdog may end the process.
_LOST_SECONDS: Final = 300.0
#: Seconds between checks of the follower and the tokens.
_WATCH_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Options of the web server ``serve``."""

    history: Path
    diffs_topic: str
    stories: Mapping[str, Sort] = field(default_factory=lambda: STORIES)
    host: str = "127.0.0.1"
    port: int = 8686
    token_file: Path | None = None
    proxies: Proxies | None = None
    access_log: bool = False
    limits: Retention = field(default_factory=lambda: Retention(30 * 86_400_000, 2**30))
    max_clients: int = 1000
    cluster_name: str = ""
    times: FeedTimes = field(default_factory=FeedTimes)
    levels: Sequence[ServiceLevel] = ()


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket (port 0: any free port); raise OutsideFailure if the address can't be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=512)
    except (OSError, OverflowError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise OutsideFailure(f"--host {host} --port {port}: {reason}; --port 0 takes a free one") from error


def address(listening: socket.socket) -> str:
    """Return the address to open in a browser."""
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class _Server(uvicorn.Server):
    """uvicorn's server, which ends normally on a signal; uvicorn itself raises the signal again after its shutdown."""

    def __init__(self, config: uvicorn.Config, stopping: Callable[[], None]) -> None:
        super().__init__(config)
        self._stopping = stopping

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        handled = (signal.SIGTERM, signal.SIGINT)
        with suppress(RuntimeError, ValueError):  # without signal handlers the caller stops the server
            for number in handled:
                loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            with suppress(RuntimeError, ValueError):
                for number in handled:
                    loop.remove_signal_handler(number)

    def stop(self) -> None:
        """Drain the connections and end the server; a second call ends the server at once."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._stopping()


class FeedServer:
    """Serves the page, the feed and the API for the records of a source.

    ``freshness`` returns the freshness of the components that write the topics, at a time of the monotonic clock.
    ``beat`` is called once a second while the server makes progress; see :mod:`streaming.process.watchdog`.
    ``lags`` returns the lag of each group that was sampled.
    """

    def __init__(
        self,
        source: Source,
        options: ServeOptions,
        *,
        cluster_id: str,
        freshness: Callable[[float], Freshness] = lambda _: Freshness(),
        beat: Callable[[], None] = lambda: None,
        lags: Callable[[], Mapping[str, GroupLag]] = dict,
    ) -> None:
        self._source, self._options, self._cluster_id = source, options, cluster_id
        self._freshness, self._heartbeat, self._lags = freshness, beat, lags
        self._access = Access(TokenFile(options.token_file) if options.token_file else None, options.proxies)
        self._failure: MonitorError | None = None
        self._stopped = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: _Server | None = None
        self._history = History(
            options.history, cluster_id=cluster_id, diffs_topic=options.diffs_topic, stories=options.stories
        )
        try:
            self.socket = listen(options.host, options.port)
        except BaseException:
            self._history.close()
            raise
        self.address = address(self.socket)
        if not is_loopback(options.host) and self._access.is_open:
            log.warning("%s is open to the network without a token: use --token-file", self.address)

    def stop(self) -> None:
        """Drain the connections and end the server, as on a signal; may be called from any thread."""
        self._stopped.set()
        loop, server = self._loop, self._server
        if loop is not None and server is not None:
            with suppress(RuntimeError):  # the event loop has ended by itself meanwhile
                loop.call_soon_threadsafe(server.stop)

    def run(self) -> None:
        """Serve until a signal or :meth:`stop`, then store all records read. Raise MonitorError if reading failed."""
        asyncio.run(self._serve())
        if self._failure is not None:
            raise self._failure

    async def _serve(self) -> None:
        options, loop = self._options, asyncio.get_running_loop()
        history, name = self._history, options.cluster_name or self._cluster_id
        board = Board(history.extent, history.groups, history.current_stories, cluster=name)
        board.levels, board.lags, board.notice = options.levels, self._lags, history.notice
        workers = Workers()
        feed = Feed(board, Archive(history.path), CapacityLimiter(_MAX_READERS), options.times)
        app = build(
            feed,
            access=self._access,
            loopback_only=is_loopback(options.host),
            max_clients=options.max_clients,
            access_log=options.access_log,
            workers=workers,
            publish=self._source.publish,
        )

        def stopping() -> None:
            board.close()
            workers.close()

        server = _Server(_uvicorn_config(app, connections.max_connections(options.max_clients)), stopping)
        self._loop, self._server = loop, server
        if self._stopped.is_set():
            server.stop()

        def failed(error: MonitorError) -> None:
            self._failure = error
            loop.call_soon_threadsafe(server.stop)

        follower = Follower(
            self._source, history, board, options.limits, loop=loop, failed=failed, freshness=self._freshness
        )
        follower.start()
        watching = asyncio.create_task(_watch_follower(follower, self._access, board, self._heartbeat))
        try:
            await server.serve([self.socket])
        finally:
            watching.cancel()
            stopping()
            self._loop = None
            await to_thread.run_sync(follower.stop)
            history.close()


def serve_recording(recording: Recording, host: str, port: int, started: Callable[[FeedServer], None]) -> None:
    """Serve the page of a recording until SIGTERM or SIGINT; ``started`` is called with the server once it listens."""
    with tempfile.TemporaryDirectory() as folder:
        history, limits = Path(folder) / "history.sqlite", Retention(2**62, 2**50)  # of any age and size
        options = ServeOptions(history, "diffs", RECORDED_STORIES, host=host, port=port, limits=limits)
        source = cast("Source", RecordedSource(recording))  # RecordedSource has all members that the server uses
        server = FeedServer(source, options, cluster_id="recording")
        started(server)
        server.run()


async def _watch_follower(follower: Follower, access: Access, board: Board, beat: Callable[[], None]) -> None:
    tokens = access.valid()
    while True:
        await asyncio.sleep(_WATCH_SECONDS)
        follower.watch()
        if follower.silent_seconds < _LOST_SECONDS:
            beat()
        if access.valid() is not tokens:
            tokens = access.valid()
            board.wake()  # ends the streams of callers without a valid token, also while there are no events


def _uvicorn_config(app: Any, most: int) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=BoundedProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=connections.IDLE_SECONDS,
        timeout_graceful_shutdown=_DRAIN_SECONDS,
        limit_concurrency=most + 1,  # uvicorn's own check runs with the first request, which is too late
        h11_max_incomplete_event_size=_MAX_REQUEST_HEAD,
        proxy_headers=False,
        backlog=512,
    )
