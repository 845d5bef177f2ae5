"""Prometheus metrics of a component that has no web server of its own."""

from __future__ import annotations

import logging
import os
import threading
import time
from typing import TYPE_CHECKING, Final

from assignors.errors import OutsideFailure

if TYPE_CHECKING:
    from socketserver import BaseServer

    from prometheus_client import CollectorRegistry


log = logging.getLogger(__name__)

_AGAIN_SECONDS: Final = 1.0


class MetricsPortUnusable(OutsideFailure):
    """The port for the metrics can't be listened on."""


def serve_metrics(registry: CollectorRegistry, host: str, port: int | None) -> int | None:
    """Answer ``GET /metrics`` from a thread until the process ends; nothing when ``port`` is None.

    Returns:
        The port: the one that was free when ``port`` is 0.

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
    """Serve on when the thread that serves ends by an error: nobody would see that there are no more metrics."""
    first.join()
    while True:
        log.error("the server of the metrics had ended: it serves again")
        try:
            server.serve_forever()
        except Exception:
            log.exception("the server of the metrics ended")
        time.sleep(_AGAIN_SECONDS)
