"""Group ids hold anything, slashes too; servers decode a path before they split it."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send

_GROUPS: Final = "/api/groups/"


class WholeGroups:
    """Middleware: a slash that was percent-encoded in a group's id parts nothing.

    Below ``/api/groups/`` the path goes on with such slashes (and percent signs) still encoded; the handler
    decodes the id that the route found. Else the group ``team/rounds`` were taken for the rounds of ``team``.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand it on."""
        if scope["type"] == "http" and scope["path"].startswith(_GROUPS):
            parts = scope["raw_path"].decode("latin-1").split("/")
            kept = "/".join(unquote(part).replace("%", "%25").replace("/", "%2F") for part in parts)
            scope = {**scope, "path": kept}
        await self._app(scope, receive, send)
