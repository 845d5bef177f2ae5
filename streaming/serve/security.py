"""Access control: tokens, trusted proxies, the guard around the application, security headers, and the access log."""

import hmac
import json
import logging
import re
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Any, Final, Self

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from assignors.errors import BadInput
from streaming.kafka.clients import OncePerMinuteFilter
from streaming.serve.openapi import digits
from streaming.serve.problems import Problem

#: Content security policy: no code, no frames, no other hosts. The page's own policy adds its code by hash.
CSP: Final = "default-src 'none'; object-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_HEADERS: Final = {
    "cache-control": "no-store",
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_READING_METHODS: Final = ("GET", "HEAD")
#: Allowed methods of the paths that accept more than reading.
_METHODS_BY_PATH: Final = {"/api/v1/annotations": (*_READING_METHODS, "POST")}


def is_loopback(host: str) -> bool:
    """Return True if an address to listen on is a loopback address."""
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
_HOST_PATTERN: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9.-]+)(?::[0-9]*)?", re.ASCII)
#: What precedes the API's path in paths of one of several clusters.
CLUSTER_PREFIX: Final = re.compile(r"\A/clusters/([^/]+)(?=/api/)")


def api_path(scope: Scope) -> str:
    """Return a request's path without the prefix of a cluster, so that the same rules hold for each cluster's API."""
    return CLUSTER_PREFIX.sub("", scope["path"])


class SecurityGuard:
    """Middleware that checks access and host, limits bodies, sets security headers, and logs refusals.

    ``access_log``: log a line per request, once the request is answered or its client has gone.
    """

    def __init__(self, app: ASGIApp, *, access: "Access", loopback_only: bool, access_log: bool) -> None:
        self._app, self._access = app, access
        self._is_loopback_only, self._access_log = loopback_only, access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse the request, or pass it to the application and add security headers to the response."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request, began, status, sent = Request(scope), time.monotonic(), 0, 0

        async def send_with_headers(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = int(message["status"])
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                proxies, protocol = self._access.proxies, request.headers.get("x-forwarded-proto", "")
                if proxies is not None and proxies.is_proxied(request) and protocol.strip().lower() == "https":
                    headers["strict-transport-security"] = "max-age=31536000; includeSubDomains"
            sent += len(message.get("body", b""))
            await send(message)

        try:
            if (problem := self._refusal(request)) is None:
                await self._app(scope, receive, send_with_headers)
            else:  # the log leaves out the path, which may have any content
                refusals.warning("refused %s: %s", _peer_address(scope), problem.kind)
                await problem.response(scope["path"])(scope, receive, send_with_headers)
        finally:
            if self._access_log:
                _log_request(scope, {"status": status, "bytes": sent, "ms": round((time.monotonic() - began) * 1000)})

    def _refusal(self, request: Request) -> Problem | None:
        host = _HOST_PATTERN.fullmatch(request.headers.get("host", ""))
        if self._is_loopback_only and not (host and is_loopback(host[1])):
            # Otherwise a page of any site could read the feed by resolving its own host name to 127.0.0.1.
            return Problem("host", "this server listens on loopback and answers to localhost only")
        # ``Request.url`` can't replace the path by which routes are matched: Starlette builds the URL from the ``Host``
        # header, so a caller could choose it.
        path = api_path(request.scope)
        methods = _METHODS_BY_PATH.get(path, _READING_METHODS)
        if request.method not in methods:
            allowed = ", ".join(methods)
            return Problem("method-not-allowed", f"this path takes {allowed}", {"Allow": allowed})
        length = digits(request.headers.get("content-length", "0"))
        longest = 16 * 1024 if request.method == "POST" else 0
        if "transfer-encoding" in request.headers or length is None or length > longest:
            return Problem("body")
        if self._access.is_open:
            return None
        request.scope[CALLER_KEY] = caller = self._access.caller(request)
        needs_access = path.startswith("/api/") or path == "/metrics"
        return self._access.refusal() if caller is None and needs_access else None


log = logging.getLogger(__name__)
#: Shortest token: 96 bits in base64.
_MIN_TOKEN_CHARACTERS: Final = 16
#: Seconds between checks of the token file.
_CHECK_INTERVAL_SECONDS: Final = 1.0
#: Field names of HTTP headers (RFC 9110, 5.1), and names of headers that have another meaning.
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_RESERVED: Final = frozenset({"authorization", "cookie", "host", "content-length", "transfer-encoding", "connection"})
_MAX_NAME_CHARACTERS: Final = 256


def read_tokens(path: Path) -> tuple[str, ...]:
    """Return the tokens in ``--token-file``, one a line; raise BadInput if it is public or has an invalid token."""
    try:
        mode = path.stat().st_mode
        tokens = tuple(line for line in map(str.strip, path.read_text().splitlines()) if line)
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"--token-file {path}: {error}") from error
    if mode & 0o007:
        raise BadInput(f"--token-file {path}: every user may read it; chmod 640 {path}")
    for number, token in enumerate(tokens or ("",), 1):
        if len(token) < _MIN_TOKEN_CHARACTERS or not token.isascii() or any(map(str.isspace, token)):
            raise BadInput(
                f"--token-file {path}: line {number} needs {_MIN_TOKEN_CHARACTERS} or more ASCII characters, no spaces"
            )
    return tokens


class TokenFile:
    """The valid tokens, read from a file; the file is read again when it changes.

    The constructor raises BadInput for an invalid file; a later invalid file is logged, and the old tokens stay valid.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._file_stamp = path, _file_stamp(path)
        self._tokens = read_tokens(path)
        self._next = time.monotonic() + _CHECK_INTERVAL_SECONDS

    def __call__(self) -> Collection[str]:
        """Return all valid tokens; read the file again if it has changed."""
        now = time.monotonic()
        if now < self._next:
            return self._tokens
        self._next, before, self._file_stamp = now + _CHECK_INTERVAL_SECONDS, self._file_stamp, _file_stamp(self._path)
        if self._file_stamp != before:
            try:
                self._tokens = read_tokens(self._path)
                log.info("--token-file %s: %d tokens are valid now", self._path, len(self._tokens))
            except BadInput as error:
                log.warning("%s; the tokens stay as they were", error)
        return self._tokens


def _file_stamp(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode


@dataclass(frozen=True, slots=True)
class TrustedProxies:
    """Authenticating proxies that send the user's name in a header; the header is ignored in all other requests."""

    header: str
    networks: tuple[IPv4Network | IPv6Network, ...]

    @classmethod
    def of(cls, header: str, addresses: Iterable[str]) -> Self:
        """Return the proxies of ``--trust-header`` and each ``--trusted-proxy``; raise BadInput if one is invalid."""
        if _HEADER_NAME.fullmatch(header) is None or header.lower() in _RESERVED:
            raise BadInput(f"--trust-header {header}: name the header that the proxy sets, such as X-Forwarded-User")
        try:
            networks = tuple(map(ip_network, addresses))
        except ValueError as error:
            advice = "write an address or a network, such as 10.0.0.0/24"
            raise BadInput(f"--trusted-proxy: {error}; {advice}") from error
        if not networks:
            raise BadInput("--trust-header: name each proxy with --trusted-proxy ADDRESS")
        return cls(header, networks)

    def is_proxied(self, request: Request) -> bool:
        """Return True if the request comes from a trusted proxy (``--trusted-proxy``)."""
        try:
            peer = ip_address(request.client.host if request.client else "")
        except ValueError:
            return False
        ipv4_address = peer.ipv4_mapped if isinstance(peer, IPv6Address) else None
        return any((ipv4_address or peer) in network for network in self.networks)

    def name(self, request: Request) -> str | None:
        """Return the user's name in a request; None if the proxy sends no name, or more than one."""
        names = [name.strip() for name in request.headers.getlist(self.header)]
        if len(names) != 1 or not self.is_proxied(request):
            return None
        return names[0] if 0 < len(names[0]) <= _MAX_NAME_CHARACTERS and names[0].isprintable() else None


@dataclass(frozen=True, slots=True)
class Access:
    """The access rules: valid ``tokens`` and trusted ``proxies``; without any of these, everyone has access."""

    tokens: Callable[[], Collection[str]] | None = None
    proxies: TrustedProxies | None = None

    @property
    def is_open(self) -> bool:
        """True if every client may read everything, without a token or a proxy."""
        return self.tokens is None and self.proxies is None

    def caller(self, request: Request) -> str | None:
        """Return the caller's name for the log; None if the caller has no access."""
        if self.proxies is not None and (name := self.proxies.name(request)) is not None:
            return name
        scheme, _, credentials = request.headers.get("authorization", "").partition(" ")
        sent = credentials.strip().encode(errors="replace")
        # All tokens are compared, so that the time does not depend on which of them matches.
        matching_tokens = sum(hmac.compare_digest(sent, token.encode()) for token in self.valid_tokens())
        return "token" if matching_tokens > 0 and scheme.lower() == "bearer" else None

    def valid_tokens(self) -> Collection[str]:
        """Return the valid tokens; changed tokens are returned as a new object."""
        return () if self.tokens is None else self.tokens()

    def access_check(self, request: Request) -> Callable[[], bool]:
        """Return a function that returns True as long as the client of this request has access."""
        is_admitted = self.is_open
        checked_tokens: Collection[str] | None = None

        def has_access() -> bool:
            nonlocal is_admitted, checked_tokens
            valid_tokens = self.valid_tokens()
            if valid_tokens is not checked_tokens and not self.is_open:
                is_admitted, checked_tokens = self.caller(request) is not None, valid_tokens
            return is_admitted

        return has_access

    def refusal(self) -> Problem:
        """Return the HTTP error for a caller without access."""
        if self.tokens is None:
            return Problem("proxy", "connect through the authenticating proxy")
        challenge = {"WWW-Authenticate": 'Bearer realm="rebalance-monitor"'}
        return Problem("token", "send a token of --token-file: Authorization: Bearer …", challenge)


#: Logger of the access log: one line per request, with additional fields in the JSON format.
requests: Final = logging.getLogger("streaming.serve.access")
#: Logger of refused requests: at most one line per minute for each caller and reason.
refusals: Final = logging.getLogger("streaming.serve.refused")
refusals.addFilter(OncePerMinuteFilter())
#: Key of the caller's name in the scope.
CALLER_KEY: Final = "rebalance_monitor.caller"


def _log_request(scope: Scope, answer: dict[str, int]) -> None:
    # The path is percent-encoded, as the client sent it. The query is left out, as it may have a secret by mistake.
    path = scope.get("raw_path", b"")[:1000].decode("ascii", "backslashreplace")
    fields: dict[str, Any] = {"peer": _peer_address(scope), "caller": scope.get(CALLER_KEY), "method": scope["method"]}
    fields |= {"path": path, **answer}
    requests.info("%s", " ".join(f"{name}={json.dumps(value)}" for name, value in fields.items()), extra=fields)


def _peer_address(scope: Scope) -> str:
    client = scope.get("client")
    return client[0] if client else "unknown"
