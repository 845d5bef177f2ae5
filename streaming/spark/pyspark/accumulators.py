"""The socket that accumulators come in by ends without a stack trace when the JVM goes."""

from __future__ import annotations

import logging
import socketserver
import sys
from typing import Any

log = logging.getLogger(__name__)


def unfit() -> str | None:
    """Why this does not fit the installed PySpark; None when it does."""
    return None if _servers() else "pyspark.accumulators has no server"


def install() -> None:
    """Have what is lost said once, by us: pyspark prints the stack trace."""
    for server in _servers():
        server.handle_error = _gone  # type: ignore[method-assign, assignment] # the point of it


def _servers() -> list[type[socketserver.BaseServer]]:
    """``AccumulatorServer`` of 4.0; from 4.1 on one for TCP and one for Unix sockets."""
    from pyspark import accumulators

    return [
        found
        for found in vars(accumulators).values()
        if isinstance(found, type)
        and issubclass(found, socketserver.BaseServer)
        and found.__module__ == accumulators.__name__
    ]


def _gone(server: Any, request: Any, client: Any) -> None:
    del server, request, client
    error = sys.exception()
    if isinstance(error, OSError | EOFError):
        log.debug("pyspark's accumulators lost the JVM")
    else:
        log.error(
            "what the buckets of a batch told is lost, timers among it: %s: %s", type(error).__name__, error
        )
