"""Errors as RFC 9457 problem documents."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

MEDIA_TYPE: Final = "application/problem+json"


class Problem(Exception):  # noqa: N818 - the name RFC 9457 gives it
    """A request can't be answered.

    ``detail`` says what is wrong and what would be right; ``kind`` is the last part of the document's type URI.
    """

    def __init__(
        self, status: HTTPStatus, kind: str, detail: str, headers: Mapping[str, str] | None = None, **members: str
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.headers = headers
        self.members = members

    def response(self, instance: str) -> Response:
        """The document."""
        body = {
            "type": f"/problems#{self.kind}",
            "title": self.status.phrase,
            "status": self.status.value,
            "detail": self.detail,
            "instance": instance,
            **self.members,
        }
        return Response(msgspec.json.encode(body), self.status, self.headers, media_type=MEDIA_TYPE)


async def on_problem(request: Request, error: Exception) -> Response:
    """Answers a :class:`Problem`."""
    if not isinstance(error, Problem):
        raise error
    return error.response(request.scope["path"])


async def on_http(request: Request, error: Exception) -> Response:
    """Starlette's own errors (no such path, wrong method) in the same form."""
    if not isinstance(error, HTTPException):
        raise error
    status = HTTPStatus(error.status_code)
    detail = {
        HTTPStatus.NOT_FOUND: "nothing is served here; /api/v1/openapi.json lists what is",
        HTTPStatus.METHOD_NOT_ALLOWED: "this service is read-only: GET and HEAD",
    }.get(status, error.detail)
    return Problem(status, status.name.lower().replace("_", "-"), detail, error.headers).response(request.scope["path"])


async def on_history(request: Request, error: Exception) -> Response:
    """Answers a history that can't be read: the disk is full, the file locked, damaged or gone."""
    return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "history", str(error), {"Retry-After": "10"}).response(
        request.scope["path"]
    )


async def on_failure(request: Request, _: Exception) -> Response:
    """Answers an error of our own; the log has the details."""
    return Problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", "the server failed; its log says how").response(
        request.scope["path"]
    )
