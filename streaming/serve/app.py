"""The application: routes, middleware, paths whose group ids are percent-encoded, and the page as one document.

The page's style sheets and modules are written into its document when the server starts. So a browser needs one request
instead of 44. The page loads completely or not at all, and a browser repeats a failed load of the document by itself.
"""

import base64
import hashlib
import re
from collections.abc import Sequence
from http import HTTPStatus
from importlib.resources import files
from posixpath import dirname, join, normpath
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

from streaming.serve.api import GroupApi, Json
from streaming.serve.clusters import Cluster, ServeOptions
from streaming.serve.connections import BoundedBodies
from streaming.serve.forecasts import WorkerPool
from streaming.serve.historyfile import HistoryFailure
from streaming.serve.metrics import MetricsResponse
from streaming.serve.problems import Problem, error_response, kinds_page
from streaming.serve.security import CLUSTER_PREFIX, CSP, Access, SecurityGuard, api_path, is_loopback

#: Characters of group ids that stay percent-encoded in paths.
_ENCODED_CHARACTERS: Final = str.maketrans({"%": "%25", "/": "%2F", "\n": "%0A"})
_STYLESHEET_LINK: Final = re.compile(r'<link rel="stylesheet" href="(.+?)">')
_SCRIPT: Final = re.compile(r'<script (type="module" )?src="(.+?)"></script>')
_IMPORT_STATEMENT: Final = re.compile(r'^import \{ (.+?) \} from "(.+?)";\n', re.MULTILINE)
_EXPORT_STATEMENT: Final = re.compile(r"^export ((?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


def build(
    clusters: Sequence[Cluster], options: ServeOptions, access: Access, workers: WorkerPool | None = None
) -> ASGIApp:
    """Return the ASGI application: the page, and each cluster's API and feed, which the cluster's thread updates.

    ``workers`` compute forecasts; the caller closes them.
    """
    page, routes, workers = Page(), list[Route](), workers or WorkerPool()
    # The name of a single cluster may be its id, which may have any characters.
    named = {cluster.name: cluster for cluster in clusters if re.fullmatch(r"[a-zA-Z0-9._-]+", cluster.name)}
    for prefix, cluster in [("", clusters[0]), *((f"/clusters/{name}", cluster) for name, cluster in named.items())]:
        api = GroupApi(cluster, clusters, access=access, max_clients=options.max_clients, workers=workers)
        routes += api.routes(prefix)

    async def health(_: Request) -> Response:
        return Json({"status": "up"})

    async def ready(_: Request) -> Response:
        documents = [cluster.document() for cluster in clusters]
        is_ready = all(document["ready"] for document in documents)
        body = {"ready": is_ready, "clusters": documents} if len(clusters) > 1 else clusters[0].readiness_document()
        return Json(body, HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE)

    async def missing(request: Request) -> Response:
        prefix = CLUSTER_PREFIX.match(request.scope["path"])
        if named and prefix is not None and prefix[1] not in named:
            raise Problem("cluster", f"no cluster {prefix[1]!r} is served; there are {', '.join(named)}")
        return await page.missing(request)

    application = Starlette(
        routes=[
            *routes,
            Route("/metrics", MetricsResponse(clusters).response),
            Route("/health", health),
            Route("/ready", ready),
            Route("/problems", kinds_page),
            Route("/", page.view),
            Route("/groups/{group:path}", page.view),
            Route("/{path:path}", missing),
        ],
        middleware=[
            Middleware(BoundedBodies),
            Middleware(GZipMiddleware, minimum_size=1024, compresslevel=1),  # leaves event streams as they are
            Middleware(EncodedGroupIds),
        ],
        # Starlette picks the handler of the nearest class. It runs a handler of Exception outside of the middleware.
        exception_handlers=dict.fromkeys((Problem, HTTPException, HistoryFailure, Exception), error_response),
    )
    # A redirect to the path without its last slash would name the host of the request's own Host header.
    application.router.redirect_slashes = False
    # Wraps the whole application, as Starlette answers failures outside of its own middleware.
    is_local = is_loopback(options.host)
    return SecurityGuard(application, access=access, loopback_only=is_local, access_log=options.access_log)


class EncodedGroupIds:
    """Middleware that keeps slashes, line breaks and percent signs of group ids encoded in paths.

    The handler decodes the id that the route matched. Otherwise ``team/rounds`` would be taken for the rounds of
    ``team``, and no route would match an id with a line break.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; characters of the group id that would split the path stay percent-encoded."""
        if scope["type"] == "http" and api_path(scope).startswith(("/api/v1/groups/", "/groups/")):
            parts = map(unquote, scope["raw_path"].decode("latin-1").split("/"))
            scope = {**scope, "path": "/".join(part.translate(_ENCODED_CHARACTERS) for part in parts)}
        await self._app(scope, receive, send)


class Page:
    """The HTML page, its entity tag, and a content security policy that allows its scripts and styles by hash."""

    def __init__(self) -> None:
        index = _STYLESHEET_LINK.sub(lambda link: f"<style>{_page_file(link[1])}</style>", _page_file("index.html"))
        index = _SCRIPT.sub(lambda script: f"<script {script[1] or ''}>{_bundle_modules(script[2])}</script>", index)
        sources = [f"{name}-src {_hash_sources(name, index)}" for name in ("script", "style")]
        self._body = index.encode()
        self._etag = f'"{hashlib.sha256(self._body).hexdigest()[:16]}"'
        self._policy = {"content-security-policy": "; ".join([CSP, *sources, "img-src data:; connect-src 'self'"])}

    async def view(self, request: Request) -> Response:
        """Return the HTML page, or the status 304 if the browser has its newest version."""
        # Browsers revalidate the document each time (usually: 304), so that they don't show an older version.
        headers = {"etag": self._etag, "cache-control": "no-cache", **self._policy}
        if request.headers.get("if-none-match") == self._etag:
            return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=headers)
        return HTMLResponse(self._body, headers=headers)

    async def missing(self, request: Request) -> Response:
        """Return the HTML page for an unknown address; programs get a JSON problem document instead."""
        if api_path(request.scope).startswith("/api/") or "text/html" not in request.headers.get("accept", ""):
            raise HTTPException(HTTPStatus.NOT_FOUND)
        return HTMLResponse(self._body, HTTPStatus.NOT_FOUND, self._policy)


def _page_file(path: str) -> str:
    return (files("streaming.serve") / "page" / path).read_text()


def _bundle_modules(entry: str) -> str:
    """Return a module and its imports as one script, in which each module is a function that returns its exports."""
    functions: dict[str, str] = {}

    def add(path: str) -> None:
        def imported(statement: re.Match[str]) -> str:
            target = normpath(join(dirname(path), statement[2]))
            if target not in functions:
                add(target)
            return f'const {{ {statement[1].replace(" as ", ": ")} }} = modules["{target}"];\n'

        source = _IMPORT_STATEMENT.sub(imported, _page_file(path))
        exported_names = ", ".join(name for _, name in _EXPORT_STATEMENT.findall(source))
        source = _EXPORT_STATEMENT.sub(r"\1", source)
        functions[path] = f'modules["{path}"] = (() => {{\n{source}return {{ {exported_names} }};\n}})();\n'

    add(entry)
    return "const modules = {};\n" + "".join(functions.values())


def _hash_sources(name: str, document: str) -> str:
    """Return the hash sources of the content security policy for the document's elements with this tag name."""
    bodies = re.findall(rf"<{name}\b[^>]*>(.*?)</{name}>", document, re.DOTALL)
    script_digests = (base64.b64encode(hashlib.sha256(body.encode()).digest()).decode() for body in bodies)
    return " ".join(f"'sha256-{digest}'" for digest in script_digests)
