"""A worker acknowledges a task's command at once.

The JVM sends a task's command and then its rows. Nagle's algorithm holds the rows back until the command is
acknowledged, and a worker that has answered before puts that off by 40 ms.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from streaming.spark.pyspark.signatures import differing, missing

#: ``pyspark.daemon.worker``: a connection and whether it is authenticated → status.
Serve = Callable[[socket.socket, bool], int]


def unfit() -> str | None:
    """Why this does not fit the installed PySpark; None when it does."""
    from pyspark import daemon

    if not hasattr(socket, "TCP_QUICKACK"):
        return "an option of Linux"
    return missing(daemon, ["worker"]) or differing(daemon.worker, ["sock", "authenticated"])


def install() -> None:
    """Have this process's workers do so."""
    from pyspark import daemon

    daemon.worker = at_once(daemon.worker)


def at_once(serve: Serve) -> Serve:
    """What serves one task on a connection to the JVM, with TCP's delayed acknowledgement off while it reads."""

    def served(connection: socket.socket, authenticated: bool) -> int:
        if connection.family != socket.AF_UNIX:  # later Sparks can do without TCP
            # Not for good: the kernel goes back to delaying when the worker has answered.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return serve(connection, authenticated)

    return served
