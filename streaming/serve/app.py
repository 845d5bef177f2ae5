"""The application: routes, middleware, and paths whose group ids are percent-encoded."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from streaming.records.events import Event
from streaming.serve.api import Api, Json
from streaming.serve.connections import BoundedBodies
from streaming.serve.document import Page
from streaming.serve.feed import Feed
from streaming.serve.forecasts import Workers
from streaming.serve.historyfile import HistoryFailure
from streaming.serve.metrics import Exposition
from streaming.serve.problems import Problem, kinds_page, on_error
from streaming.serve.security import Access, Guard


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
    """Return the application that serves a feed, which a follower keeps up to date.

    ``workers`` compute forecasts; the caller closes them. ``publish`` writes an event to the membership topic, or
    raises ``MonitorError``.
    """
    board, page = feed.board, Page()
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
            Route("/metrics", Exposition(board).response),
            Route("/health", health),
            Route("/ready", ready),
            Route("/problems", kinds_page),
            Route("/", page.view),
            Route("/groups/{group:path}", page.view),
            Route("/{path:path}", page.missing),
        ],
        middleware=[
            Middleware(BoundedBodies),
            Middleware(GZipMiddleware, minimum_size=1024, compresslevel=1),  # leaves event streams as they are
            Middleware(WholeGroups),
        ],
        # Starlette picks the handler of the nearest class. It runs a handler of Exception outside of the middleware.
        exception_handlers=dict.fromkeys((Problem, HTTPException, HistoryFailure, Exception), on_error),
    )
    # A redirect to the path without its last slash would name the host of the request's own Host header.
    answering.router.redirect_slashes = False
    # Wraps the whole application, as Starlette answers failures outside of its own middleware.
    return Guard(answering, access=access, loopback_only=loopback_only, access_log=access_log)


class WholeGroups:
    """Middleware that keeps slashes, line breaks and percent signs of group ids encoded in paths.

    The handler decodes the id that the route matched. Otherwise ``team/rounds`` would be taken for the rounds of
    ``team``, and no route would match an id with a line break.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with the encoded group id in its path kept encoded."""
        if scope["type"] == "http" and scope["path"].startswith(("/api/v1/groups/", "/groups/")):
            parts = scope["raw_path"].decode("latin-1").split("/")
            scope = {**scope, "path": "/".join(map(_protected, parts))}
        await self._app(scope, receive, send)


def _protected(part: str) -> str:
    return unquote(part).replace("%", "%25").replace("/", "%2F").replace("\n", "%0A")
