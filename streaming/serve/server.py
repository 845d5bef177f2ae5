"""The server process: follower thread, board and uvicorn, from the start to an orderly shutdown."""

import asyncio
import logging
import os
import signal
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, cast

import uvicorn
from anyio import CapacityLimiter

from assignors.errors import OutsideFailure
from streaming.recording.file import Recording
from streaming.serve import connections
from streaming.serve.app import build
from streaming.serve.clusters import Cluster, ServeOptions
from streaming.serve.connections import BoundedProtocol
from streaming.serve.forecasts import WorkerPool
from streaming.serve.history import Retention
from streaming.serve.security import Access, TokenFile, is_loopback
from streaming.serve.source import RecordedSource, Source

log = logging.getLogger(__name__)
#: Seconds without progress of the follower after which the watchdog may end the process.
_LOST_CONNECTION_SECONDS: Final = 300.0
#: Seconds between attempts to connect to one of several clusters.
_RECONNECT_SECONDS: Final = 10.0
#: Seconds between checks of the followers and the tokens.
_WATCH_INTERVAL_SECONDS: Final = 1.0


def open_socket(host: str, port: int) -> socket.socket:
    """Return a listening socket (port 0: any free port); raise OutsideFailure if the address can't be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host.strip("[]"), port), family=family, backlog=512)
    except (OSError, OverflowError) as error:
        reason = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
        raise OutsideFailure(f"--host {host} --port {port}: {reason}; --port 0 takes a free port") from error


def address(listening_socket: socket.socket) -> str:
    """Return the address to open in a browser."""
    host, port = listening_socket.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


class _Server(uvicorn.Server):
    """uvicorn's server, which ends normally on a signal; uvicorn itself raises the signal again after its shutdown."""

    def __init__(self, config: uvicorn.Config, stopping: Callable[[], None]) -> None:
        super().__init__(config)
        self._stopping = stopping

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        stop_signals = (signal.SIGTERM, signal.SIGINT)
        with suppress(RuntimeError, ValueError):  # without signal handlers the caller stops the server
            for number in stop_signals:
                loop.add_signal_handler(number, self.stop)
        try:
            yield
        finally:
            with suppress(RuntimeError, ValueError):
                for number in stop_signals:
                    loop.remove_signal_handler(number)

    def stop(self) -> None:
        """Drain the connections and end the server; a second call ends the server at once."""
        self.force_exit = self.should_exit
        self.should_exit = True
        self._stopping()


class FeedServer:
    """Serves the page, the feeds and the API for clusters. A cluster that fails ends the server if it is the only one.

    ``report_progress`` is called once a second while the server makes progress; see :mod:`streaming.process.watchdog`.
    """

    def __init__(
        self, clusters: Sequence[Cluster], options: ServeOptions, *, report_progress: Callable[[], None] = lambda: None
    ) -> None:
        self._clusters, self._options, self._report_alive = clusters, options, report_progress
        self._access = Access(TokenFile(options.token_file) if options.token_file else None, options.proxies)
        self._failure: Exception | None = None
        self._stopped = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: _Server | None = None
        if len(clusters) == 1:
            clusters[0].open()
        try:
            self.socket = open_socket(options.host, options.port)
        except BaseException:
            clusters[0].close()
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
        asyncio.run(self._run_server())
        if self._failure is not None:
            raise self._failure

    async def _run_server(self) -> None:
        options, clusters, workers = self._options, self._clusters, WorkerPool()
        app = build(clusters, options, self._access, workers)

        def stopping() -> None:
            for cluster in clusters:
                cluster.board.close()
            workers.close()

        config = uvicorn.Config(
            app,
            http=BoundedProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=connections.IDLE_TIMEOUT_SECONDS,
            timeout_graceful_shutdown=5,
            # One more, as uvicorn's own check runs with the first request, which is too late.
            limit_concurrency=connections.max_connections(options.max_clients) + 1,
            h11_max_incomplete_event_size=16 * 1024,
            backlog=512,
        )
        server = _Server(config, stopping)
        self._loop, self._server = asyncio.get_running_loop(), server
        if self._stopped.is_set():
            server.stop()
        readers = CapacityLimiter(4)  # queries of the history that run at once
        tasks = [asyncio.create_task(self._follow_cluster(cluster, readers, server)) for cluster in clusters]
        watch_task = asyncio.create_task(self._watch())
        try:
            await server.serve([self.socket])
        finally:
            watch_task.cancel()
            stopping()
            self._loop = None
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for cluster in clusters:
                cluster.close()

    async def _follow_cluster(self, cluster: Cluster, readers: CapacityLimiter, server: _Server) -> None:
        """Follow a cluster. If following fails, connect again; if the server has only this cluster, end the server."""
        while True:
            try:
                await cluster.follow(readers)
            except Exception as error:  # noqa: BLE001 - no failure of one cluster may end the others
                if len(self._clusters) == 1:
                    self._failure = error
                    server.stop()
                    return
                reason = str(error) or type(error).__name__
                if reason != cluster.problem:
                    log.warning("cluster %s: %s; connecting again every %d s", cluster.name, reason, _RECONNECT_SECONDS)
                cluster.problem = reason
            await asyncio.sleep(_RECONNECT_SECONDS)

    async def _watch(self) -> None:
        tokens = self._access.valid_tokens()
        while True:
            await asyncio.sleep(_WATCH_INTERVAL_SECONDS)
            if min([cluster.watch() for cluster in self._clusters]) < _LOST_CONNECTION_SECONDS:
                self._report_alive()
            if self._access.valid_tokens() is not tokens:
                tokens = self._access.valid_tokens()
                for cluster in self._clusters:
                    cluster.board.wake_listeners()  # ends streams of callers without a valid token, also without events


def serve_recording(recording: Recording, host: str, port: int, started: Callable[[FeedServer], None]) -> None:
    """Serve the page of a recording until SIGTERM or SIGINT; ``started`` is called with the server once it listens."""
    with tempfile.TemporaryDirectory() as folder:
        history, limits = Path(folder) / "history.sqlite", Retention(2**62, 2**50)  # of any age and size
        options = ServeOptions(history, host=host, port=port, limits=limits)
        source = cast("Source", RecordedSource(recording))  # RecordedSource has all members that the server uses
        server = FeedServer([Cluster(lambda: source, options)], options)
        started(server)
        server.run()
