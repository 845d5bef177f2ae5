"""Who may ask, and what a browser may do with the answer."""

from __future__ import annotations

import hmac
import re
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assignors.errors import BadInput
from streaming.serve.problems import Problem

#: The page needs nothing but this origin: no inline code, no frame, no other host.
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


_METHODS: Final = ("GET", "HEAD")


class UnusableToken(BadInput):
    """The token file can't be used."""


def read_token(path: Path) -> str:
    """The token of ``--token-file``: its one line, at least 16 characters, readable by its owner alone.

    Raises:
        UnusableToken: the file is missing, empty, short, or open to others.
    """
    try:
        mode = path.stat().st_mode
        token = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableToken(f"--token-file {path}: {error}") from error
    if mode & 0o007:
        raise UnusableToken(f"--token-file {path}: every user may read it; chmod 640 {path}")
    if len(token) < 16 or not token.isascii() or any(character.isspace() for character in token):  # noqa: PLR2004 - 96 bits of base64
        raise UnusableToken(f"--token-file {path}: holds no token of 16 or more characters on one line")
    return token


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is this machine's alone."""
    host = host.lower()
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if host == "localhost":
        return True
    try:
        # A zone (::1%eth0) may hold any text.
        return "%" not in host and ip_address(host).is_loopback
    except ValueError:
        return False


#: `Host` of RFC 9110, 7.2: a name or IPv4 address, or an IPv6 address in brackets; a port.
_HOST: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]*)?", re.ASCII)


def _name(host_header: str) -> str:
    """The host of a `Host` header, without its port; empty when it is none."""
    match = _HOST.fullmatch(host_header)
    return match[1] if match else ""


class Guard:
    """Middleware: asks for the token, checks the host, refuses bodies, sets the headers."""

    def __init__(self, app: ASGIApp, *, token: str | None, loopback_only: bool) -> None:
        self._app = app
        self._token = token
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer requests that are refused, pass on the others."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(_HEADERS)
            await send(message)

        problem = self._refusal(Request(scope))
        if problem is None:
            await self._app(scope, receive, with_headers)
        else:
            await problem.response(scope["path"])(scope, receive, with_headers)

    def _refusal(self, request: Request) -> Problem | None:
        if self._loopback_only and not is_loopback(_name(request.headers.get("host", ""))):
            # Else a page of any site could read the feed by pointing its own name at 127.0.0.1.
            return Problem(
                HTTPStatus.MISDIRECTED_REQUEST,
                "host",
                "this server listens on loopback and answers to localhost only",
            )
        if request.method not in _METHODS:
            return Problem(
                HTTPStatus.METHOD_NOT_ALLOWED,
                "method-not-allowed",
                "this service is read-only: GET and HEAD",
                {"Allow": ", ".join(_METHODS)},
            )
        if request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers:
            return Problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "body", "requests have no body here")
        if self._token is None or not self._guarded(request.url.path):
            return None
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and hmac.compare_digest(
            given.strip().encode(errors="replace"), self._token.encode()
        ):
            return None
        return Problem(
            HTTPStatus.UNAUTHORIZED,
            "token",
            "give the token of --token-file: Authorization: Bearer …",
            {"WWW-Authenticate": 'Bearer realm="rebalance-monitor"'},
        )

    @staticmethod
    def _guarded(path: str) -> bool:
        return path.startswith("/api/") or path == "/metrics"
