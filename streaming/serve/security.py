"""Who may ask, and what a browser may do with the answer."""

from __future__ import annotations

import re
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from streaming.serve.accesslog import CALLER, refused
from streaming.serve.callers import Access
from streaming.serve.problems import Problem

#: The page needs nothing but this origin: no inline code, no frame, no other host.
POLICY: Final = (
    "default-src 'none'; object-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
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


#: Where TLS ends at a proxy: a year, as browsers take it to heart.
_HSTS: Final = "max-age=31536000; includeSubDomains"
_METHODS: Final = ("GET", "HEAD")


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


def _needs_access(path: str) -> bool:
    """Return True if the path is open to callers with access only.

    The path is the one that routes are matched by. ``Request.url`` is no substitute: Starlette builds it from the
    ``Host`` header, so a caller could choose it.
    """
    return path.startswith("/api/") or path == "/metrics"


class Guard:
    """Middleware: asks who it is, checks the host, refuses bodies, sets the headers."""

    def __init__(self, app: ASGIApp, *, access: Access, loopback_only: bool) -> None:
        self._app = app
        self._access = access
        self._loopback_only = loopback_only

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer requests that are refused, pass on the others."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        request = Request(scope)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(_HEADERS)
                headers.setdefault("cache-control", "no-store")
                if self._behind_tls(request):
                    headers["strict-transport-security"] = _HSTS
            await send(message)

        problem = self._refusal(request)
        if problem is None:
            await self._app(scope, receive, with_headers)
        else:
            refused(scope, problem.kind)
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
        if self._access.is_open:
            return None
        request.scope[CALLER] = caller = self._access.caller(request)
        return self._access.refusal() if caller is None and _needs_access(request.scope["path"]) else None

    def _behind_tls(self, request: Request) -> bool:
        """Whether a trusted proxy says that it was asked by TLS."""
        proxies = self._access.proxies
        if proxies is None or not proxies.vouches(request):
            return False
        return request.headers.get("x-forwarded-proto", "").strip().lower() == "https"
