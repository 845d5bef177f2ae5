"""Who asked for what, and who was refused: lines of the log, with nothing secret in them."""

from __future__ import annotations

import json
import logging
import time
from typing import Any, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streaming.kafka.clients import OncePerMinute

#: Every request, where that is wanted: one line each, with fields of its own in the JSON format.
requests: Final = logging.getLogger("streaming.serve.access")
#: What the guard refuses, always: once a minute for each caller and reason.
refusals: Final = logging.getLogger("streaming.serve.refused")
refusals.addFilter(OncePerMinute())

#: Where the guard notes in the scope who asks.
CALLER: Final = "rebalance_monitor.caller"
_LONGEST_PATH: Final = 1000


def refused(scope: Scope, reason: str) -> None:
    """Note a request that the guard refuses. The reason is ours; its path, which may be anything, is left out."""
    refusals.warning("refused %s: %s", _peer(scope), reason)


class AccessLog:
    """Middleware: a line for each request, once it is answered or its client has gone."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status, sent = time.monotonic(), 0, 0

        async def counted(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = int(message["status"])
            sent += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, counted)
        finally:
            _write(scope, {"status": status, "bytes": sent, "ms": round((time.monotonic() - began) * 1000)})


def _write(scope: Scope, answer: dict[str, int]) -> None:
    # As it was sent, so percent-encoded. Without the query: a secret that somebody put there by mistake stays out.
    path = scope.get("raw_path", b"")[:_LONGEST_PATH].decode("ascii", "backslashreplace")
    fields: dict[str, Any] = {
        "peer": _peer(scope),
        "caller": scope.get(CALLER),
        "method": scope["method"],
        "path": path,
        **answer,
    }
    line = " ".join(f"{name}={json.dumps(value)}" for name, value in fields.items())
    requests.info("%s", line, extra=fields)


def _peer(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else "unknown"
