"""Sends one request to an ASGI application, without a server."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote


@dataclass
class Response:
    """Status, headers and body that the ASGI application sent."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def ask(
    app: Any,
    target: str,
    headers: Mapping[str, str] | Sequence[tuple[str, str]] = (),
    *,
    method: str = "GET",
    host: str = "localhost:8686",
    peer: str = "127.0.0.1",
    body: bytes = b"",
) -> Response:
    """Send one request to the application and return the response."""
    header_items = headers.items() if isinstance(headers, Mapping) else headers
    path, _, query = target.partition("?")
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": unquote(path),
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "headers": [(name.lower().encode(), value.encode()) for name, value in [("host", host), *header_items]],
        "client": (peer, 1),
        "server": ("127.0.0.1", 8686),
        "state": {},
    }
    sent: list[dict[str, Any]] = []
    arrived = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> dict[str, Any]:
        event = next(arrived, None)
        if event is None:  # the client stays connected
            await asyncio.Event().wait()
        return event or {}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    try:
        asyncio.run(app(scope, receive, send))
    except Exception:
        if not sent or sent[0]["status"] != 500:  # Starlette responds to a failure, then raises it again
            raise
    return Response(
        sent[0]["status"],
        {name.decode(): value.decode() for name, value in sent[0]["headers"]},
        b"".join(message.get("body", b"") for message in sent[1:]),
    )


async def settle() -> None:
    """Let the tasks of the event loop run until each waits for something."""
    for _ in range(20):
        await asyncio.sleep(0)
