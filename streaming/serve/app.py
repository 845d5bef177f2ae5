"""The application: routes, guard, the page's files, and paths whose group ids are percent-encoded."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from http import HTTPStatus
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from streaming.records.codec import encode
from streaming.serve.api import Api, JsonBytes
from streaming.serve.connections import BoundedBodies
from streaming.serve.feed import Feed
from streaming.serve.forecasts import Workers
from streaming.serve.historyfile import HistoryFailure
from streaming.serve.metrics import Exposition
from streaming.serve.problems import Problem, kinds_page, on_error
from streaming.serve.security import Access, AccessLog, Guard

_MEDIA_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class _Asset:
    body: bytes
    media_type: str
    tag: str


def _assets() -> dict[str, _Asset]:
    """Every file of the page, by path; they are small and part of the program, so they are read once."""
    assets: dict[str, _Asset] = {}
    pending = [(files("streaming.serve") / "page", PurePosixPath())]
    while pending:
        folder, path = pending.pop()
        for entry in folder.iterdir():
            here = path / entry.name
            if entry.is_dir():
                pending.append((entry, here))
            elif here.suffix in _MEDIA_TYPES:
                body = entry.read_bytes()
                tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
                assets[str(here)] = _Asset(body, _MEDIA_TYPES[here.suffix], tag)
    return assets


class _Page:
    def __init__(self) -> None:
        self._assets = _assets()

    def asset(self, request: Request, path: str) -> Response:
        asset = self._assets.get(path)
        if asset is None:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        # Asked again each time, answered with 304: an upgrade never meets modules of the version before.
        headers = {"etag": asset.tag, "cache-control": "no-cache"}
        if request.headers.get("if-none-match") == asset.tag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return Response(asset.body, headers=headers, media_type=asset.media_type)

    async def index(self, request: Request) -> Response:
        """The page's one document; its address decides which view it shows."""
        return self.asset(request, "index.html")

    async def file(self, request: Request) -> Response:
        """A module, a style sheet or the icon."""
        return self.asset(request, request.path_params["path"])


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
) -> ASGIApp:
    """Return the application that serves a feed; a follower keeps the feed up to date.

    ``workers``: compute forecasts; close them when the server stops.
    """
    board = feed.board
    page, metrics = _Page(), Exposition(board)
    api = Api(feed, access=access, max_clients=max_clients, workers=workers or Workers())

    async def health(_: Request) -> Response:
        return JsonBytes(b'{"status":"up"}')

    async def ready(_: Request) -> Response:
        document = board.status_document()
        is_ready = document.pop("caughtUp")
        status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
        return JsonBytes(encode({"ready": is_ready, **document}), status)

    answering = Starlette(
        routes=[
            *api.routes(),
            Route("/metrics", metrics.response),
            Route("/health", health),
            Route("/ready", ready),
            Route("/problems", kinds_page),
            Route("/", page.index),
            Route("/groups/{group:path}", page.index),
            Route("/assets/{path:path}", page.file),
        ],
        middleware=[Middleware(BoundedBodies), Middleware(_Compressed), Middleware(WholeGroups)],
        # Starlette looks for the nearest class; Exception alone would be answered outside of the middleware.
        exception_handlers=dict.fromkeys((Problem, HTTPException, HistoryFailure, Exception), on_error),
    )
    # A redirect to the path without its last slash would name the host of the request's own Host header.
    answering.router.redirect_slashes = False
    # Around all of it: Starlette answers failures outside of its own middleware.
    guarded = Guard(answering, access=access, loopback_only=loopback_only)
    return AccessLog(guarded) if access_log else guarded


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
