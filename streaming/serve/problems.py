"""Errors as RFC 9457 problem documents: the table of their kinds, and the page to which ``type`` refers."""

from collections.abc import Mapping
from html import escape
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from streaming.serve.historyfile import HistoryFailure

#: Kinds by the last part of ``type``: the HTTP status, and what happened or what a client can do. The first kind with a
#: status is the general kind of that status.
PROBLEM_KINDS: Final[Mapping[str, tuple[HTTPStatus, str]]] = {
    "parameter": (HTTPStatus.BAD_REQUEST, "A parameter is unknown, malformed or repeated: correct `parameter`."),
    "annotation": (HTTPStatus.BAD_REQUEST, "The annotation can't be read: `detail` has the reason."),
    "token": (HTTPStatus.UNAUTHORIZED, "Send a token of --token-file: `Authorization: Bearer …`."),
    "proxy": (HTTPStatus.FORBIDDEN, "Connect through the authenticating proxy."),
    "writing": (HTTPStatus.FORBIDDEN, "Only known callers may write: start the server with --token-file."),
    "not-found": (HTTPStatus.NOT_FOUND, "Nothing is served at this path; /api/v1/openapi.json lists what is."),
    "cluster": (HTTPStatus.NOT_FOUND, "No cluster of this name is served; /api/v1/clusters lists all."),
    "group": (HTTPStatus.NOT_FOUND, "The group is not known; /api/v1/groups lists all."),
    "round": (HTTPStatus.NOT_FOUND, "The group has no such round, or retention has dropped it."),
    "episode": (HTTPStatus.NOT_FOUND, "The group has no such episode, or retention has dropped it."),
    "method-not-allowed": (HTTPStatus.METHOD_NOT_ALLOWED, "Send a method that `Allow` lists."),
    "body": (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "Send no body with GET, and at most 16 KiB with POST."),
    "host": (HTTPStatus.MISDIRECTED_REQUEST, "The server listens on loopback: use localhost as the host."),
    "forecast": (HTTPStatus.UNPROCESSABLE_ENTITY, "The change can't be computed: `detail` has the reason."),
    "internal": (HTTPStatus.INTERNAL_SERVER_ERROR, "The server failed: its log has the error."),
    "history": (HTTPStatus.SERVICE_UNAVAILABLE, "The history can't be read: `detail` has the reason. Try again."),
    "unconnected": (HTTPStatus.SERVICE_UNAVAILABLE, "The cluster is away: `detail` has the reason. Try again."),
    "publish": (HTTPStatus.SERVICE_UNAVAILABLE, "Kafka did not take the event: `detail` has the reason."),
    "busy": (HTTPStatus.SERVICE_UNAVAILABLE, "Too many requests are in progress. Try again later."),
    "clients": (HTTPStatus.SERVICE_UNAVAILABLE, "Too many clients follow the feed. Raise --max-clients."),
    "worker": (HTTPStatus.SERVICE_UNAVAILABLE, "The process that computed the answer ended. Try again."),
    "stopping": (HTTPStatus.SERVICE_UNAVAILABLE, "The server is stopping. Try again."),
}


class Problem(Exception):  # noqa: N818 - the name RFC 9457 gives it
    """A refused or failed API request; ``kind`` is a key of :data:`PROBLEM_KINDS`, ``members`` extend the JSON answer.

    ``detail``: by default the meaning of the kind. ``headers``: by default ``Retry-After`` if the status is 503.
    """

    def __init__(self, kind: str, detail: str = "", headers: Mapping[str, str] | None = None, **members: str) -> None:
        self.status, meaning = PROBLEM_KINDS[kind]
        self.kind, self.detail, self.members = kind, detail or meaning, members
        super().__init__(self.detail)
        is_unavailable = self.status == HTTPStatus.SERVICE_UNAVAILABLE
        self.headers = {"Retry-After": "10"} if headers is None and is_unavailable else headers

    def response(self, instance: str) -> Response:
        """Return the HTTP response with the problem as JSON (RFC 9457)."""
        body = {"type": f"/problems#{self.kind}", "title": self.status.phrase, "status": self.status.value}
        body |= {"detail": self.detail, "instance": instance, **self.members}
        return Response(msgspec.json.encode(body), self.status, self.headers, media_type="application/problem+json")


async def error_response(request: Request, error: Exception) -> Response:
    """Answer any error with a problem document."""
    if isinstance(error, HTTPException):  # raised by Starlette's router
        kind = next((name for name, (status, _) in PROBLEM_KINDS.items() if status == error.status_code), "internal")
        error = Problem(kind, headers=error.headers)
    elif isinstance(error, HistoryFailure):
        error = Problem("history", str(error))
    elif not isinstance(error, Problem):
        error = Problem("internal")
    return error.response(request.scope["path"])


async def kinds_page(_: Request) -> Response:
    """Return the page ``/problems``, which explains every type of error response."""
    rows = (
        f'<dt id="{name}">{name} ({status.value} {status.phrase})</dt><dd>{escape(meaning)}</dd>'
        for name, (status, meaning) in PROBLEM_KINDS.items()
    )
    return HTMLResponse(f'<!doctype html><html lang="en"><title>Problems</title><dl>{"".join(rows)}</dl></html>')
