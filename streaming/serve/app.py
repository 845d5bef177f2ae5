"""The application: routes, guard, the page, and paths whose group ids are percent-encoded."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from streaming.records.events import Event
from streaming.serve.api import Api, Json
from streaming.serve.connections import BoundedBodies
from streaming.serve.document import read_document
from streaming.serve.feed import Feed
from streaming.serve.forecasts import Workers
from streaming.serve.historyfile import HistoryFailure
from streaming.serve.metrics import Exposition
from streaming.serve.problems import Problem, kinds_page, on_error
from streaming.serve.security import Access, Guard


class _Page:
    """The page's one document; its address decides which view it shows."""

    def __init__(self) -> None:
        self._document = read_document()

    async def view(self, request: Request) -> Response:
        """A view that exists."""
        # Revalidated each time, answered with 304: an upgrade never meets the page of the version before.
        headers = {
            "etag": self._document.tag,
            "cache-control": "no-cache",
            "content-security-policy": self._document.policy,
        }
        if request.headers.get("if-none-match") == self._document.tag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return HTMLResponse(self._document.body, headers=headers)

    async def missing(self, request: Request) -> Response:
        """A person with a mistyped address sees the page, which says so; a program receives a problem document."""
        if request.url.path.startswith("/api/") or "text/html" not in request.headers.get("accept", ""):
            raise HTTPException(HTTPStatus.NOT_FOUND)
        headers = {"content-security-policy": self._document.policy}
        return HTMLResponse(self._document.body, HTTPStatus.NOT_FOUND, headers)


class _Compressed:
    """Compresses all answers but the stream, whose events must leave as soon as they are written."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._gzip = GZipMiddleware(app, minimum_size=1024, compresslevel=1)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stream = scope["type"] == "http" and scope["path"] == "/api/v1/stream"
        await (self._app if stream else self._gzip)(scope, receive, send)


def build(
    feed: Feed,
    *,
    access: Access,
    loopback_only: bool,
    max_clients: int,
    access_log: bool = False,
    workers: Workers | None = None,
    publish: Callable[[Event], None] = lambda _: None,
) -> ASGIApp:
    """Return the application that serves a feed; a follower keeps the feed up to date.

    ``workers``: compute forecasts; close them when the server stops. ``publish``: writes an event to the membership
    topic, or raises ``MonitorError``.
    """
    board = feed.board
    page, metrics = _Page(), Exposition(board)
    api = Api(feed, access=access, max_clients=max_clients, workers=workers or Workers(), publish=publish)

    async def health(_: Request) -> Response:
        return Json({"status": "up"})

    async def ready(_: Request) -> Response:
        document = board.status_document()
        is_ready, notice = document.pop("caughtUp"), {"notice": board.notice} if board.notice else {}
        status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
        return Json({"ready": is_ready, **document, **notice}, status)

    answering = Starlette(
        routes=[
            *api.routes(),
            Route("/metrics", metrics.response),
            Route("/health", health),
            Route("/ready", ready),
            Route("/problems", kinds_page),
            Route("/", page.view),
            Route("/groups/{group:path}", page.view),
            Route("/{path:path}", page.missing),
        ],
        middleware=[Middleware(BoundedBodies), Middleware(_Compressed), Middleware(WholeGroups)],
        # Starlette looks for the nearest class; Exception alone would be answered outside of the middleware.
        exception_handlers=dict.fromkeys((Problem, HTTPException, HistoryFailure, Exception), on_error),
    )
    # A redirect to the path without its last slash would name the host of the request's own Host header.
    answering.router.redirect_slashes = False
    # Around all of it: Starlette answers failures outside of its own middleware.
    return Guard(answering, access=access, loopback_only=loopback_only, access_log=access_log)


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
