"""Prometheus metrics of a component that has no web server of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from assignors.errors import OutsideFailure

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry


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
        server, _ = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)
        raise MetricsPortUnusable(f"--metrics-port {port} on {host}: {reason}; choose another") from error
    return int(server.server_port)
