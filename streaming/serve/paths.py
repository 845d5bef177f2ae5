"""Group ids hold anything, slashes and line breaks too; servers decode a path before they split it."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send

_GROUPS: Final = ("/api/v1/groups/", "/groups/")


class WholeGroups:
    """Middleware: what is percent-encoded in a group's id does not separate parts of the path.

    Below these prefixes, slashes, line breaks and percent signs of an id stay encoded; the handler decodes the id
    that the route found. Else ``team/rounds`` would be taken for the rounds of ``team``, and no
    route would match an id with a line break.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its path protected."""
        if scope["type"] == "http" and scope["path"].startswith(_GROUPS):
            parts = scope["raw_path"].decode("latin-1").split("/")
            scope = {**scope, "path": "/".join(map(_protected, parts))}
        await self._app(scope, receive, send)


def _protected(part: str) -> str:
    return unquote(part).replace("%", "%25").replace("/", "%2F").replace("\n", "%0A")
