"""Service of a long-running command: an orderly end on signals, and a port for Prometheus."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from queue import SimpleQueue
from types import FrameType
from typing import TYPE_CHECKING, Final

from assignors.errors import OutsideFailure

if TYPE_CHECKING:
    from socketserver import BaseServer

    from prometheus_client import CollectorRegistry

log = logging.getLogger(__name__)

_AGAIN_SECONDS: Final = 1.0


class MetricsPortUnusable(OutsideFailure):
    """The metrics can't be served on the port."""


def serve_metrics(registry: CollectorRegistry, host: str, port: int | None) -> int | None:
    """Serve ``GET /metrics`` from a thread until the process ends, and return the port; None serves nothing.

    ``port`` 0 takes a free one.

    Raises:
        MetricsPortUnusable: the message names the address.
    """
    if port is None:
        return None
    from prometheus_client import start_http_server

    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise MetricsPortUnusable(f"--metrics-port {port} on {host}: {reason}; choose another") from error
    threading.Thread(target=_keep, args=(server, thread), name="metrics", daemon=True).start()
    return int(server.server_port)


def _keep(server: BaseServer, first: threading.Thread) -> None:
    """Serve again whenever the server's thread ends by an error: nobody would notice missing metrics."""
    first.join()
    while True:
        log.error("the metrics server ended: it is started again")
        try:
            server.serve_forever()
        except Exception:
            log.exception("the metrics server failed")
        time.sleep(_AGAIN_SECONDS)


def stop_on_signals() -> threading.Event:
    """Return an event that SIGTERM or SIGINT sets; a second signal ends the process at once."""
    stop = threading.Event()
    # A handler runs between any two steps of the main thread, also while `stop.wait()` holds the event's lock:
    # setting the event there would wait for ever. Only a SimpleQueue may be written to at any time.
    received: SimpleQueue[int] = SimpleQueue()
    seen: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:
        del frame
        if seen:
            os._exit(128 + number)
        seen.append(number)
        received.put(number)

    def pass_on() -> None:
        received.get()
        stop.set()

    threading.Thread(target=pass_on, name="signals", daemon=True).start()
    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
    return stop
