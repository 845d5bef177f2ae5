"""Who asks: whoever has a token, or whom a trusted proxy vouches for."""

from __future__ import annotations

import hmac
import logging
import re
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from pathlib import Path
from typing import Final, Self

from starlette.requests import Request

from assignors.errors import BadInput
from streaming.serve.problems import Problem

log = logging.getLogger(__name__)

#: 96 bits of base64.
_SHORTEST: Final = 16
#: Seconds between two looks at the file of tokens.
_LOOK_SECONDS: Final = 1.0
#: A field name of RFC 9110, 5.1, and those that mean something else.
_FIELD: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_TAKEN: Final = frozenset(
    {"authorization", "cookie", "host", "content-length", "transfer-encoding", "connection"}
)
_LONGEST_NAME: Final = 256


class UnusableToken(BadInput):
    """The token file can't be used."""


class UnusableProxy(BadInput):
    """What a trusted proxy is can't be used."""


def read_tokens(path: Path) -> tuple[str, ...]:
    """The tokens of ``--token-file``, a line each, of at least 16 characters, not readable by every user.

    Raises:
        UnusableToken: the file is missing, empty, open to others, or a token is short.
    """
    try:
        mode = path.stat().st_mode
        tokens = tuple(line for line in map(str.strip, path.read_text().splitlines()) if line)
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableToken(f"--token-file {path}: {error}") from error
    if mode & 0o007:
        raise UnusableToken(f"--token-file {path}: every user may read it; chmod 640 {path}")
    for number, token in enumerate(tokens or ("",), 1):
        if len(token) < _SHORTEST or not token.isascii() or any(map(str.isspace, token)):
            raise UnusableToken(
                f"--token-file {path}: line {number} holds no token of {_SHORTEST} or more characters, "
                "of ASCII and without spaces"
            )
    return tokens


class TokenFile:
    """The tokens that are valid now: those of a file, which is read again when it changes.

    Raises:
        UnusableToken: as :func:`read_tokens`; later on that is logged, and the tokens stay as they were.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = self._look()
        self._tokens = read_tokens(path)
        self._next = time.monotonic() + _LOOK_SECONDS

    def __call__(self) -> Collection[str]:
        """All of them."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + _LOOK_SECONDS
            stamp = self._look()
            if stamp != self._stamp:
                self._stamp = stamp
                self._read_again()
        return self._tokens

    def _read_again(self) -> None:
        try:
            self._tokens = read_tokens(self._path)
        except UnusableToken as error:
            log.warning("%s; the tokens stay as they were", error)
        else:
            log.info("--token-file %s: %d tokens are valid now", self._path, len(self._tokens))

    def _look(self) -> tuple[int, ...] | None:
        try:
            found = self._path.stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode


@dataclass(frozen=True, slots=True)
class Proxies:
    """Proxies that sign people in and say in a header who asks.

    Attributes:
        header: its name; whatever others send in it counts for nothing.
        networks: the proxies' addresses.
    """

    header: str
    networks: tuple[IPv4Network | IPv6Network, ...]

    @classmethod
    def of(cls, header: str, addresses: Iterable[str]) -> Self:
        """From ``--trust-header`` and each ``--trusted-proxy``.

        Raises:
            UnusableProxy: the name is none, or an address is.
        """
        if _FIELD.fullmatch(header) is None or header.lower() in _TAKEN:
            raise UnusableProxy(
                f"--trust-header {header}: name the header that the proxy sets, as X-Forwarded-User"
            )
        networks = []
        for address in addresses:
            try:
                networks.append(ip_network(address))
            except ValueError as error:
                says = f"--trusted-proxy {address}: write an address, or a network as 10.0.0.0/24"
                raise UnusableProxy(says) from error
        if not networks:
            raise UnusableProxy("--trust-header: name who may set it, each proxy by --trusted-proxy ADDRESS")
        return cls(header, tuple(networks))

    def vouches(self, request: Request) -> bool:
        """Whether the request comes from one of them."""
        try:
            peer = ip_address(request.client.host if request.client else "")
        except ValueError:
            return False
        if isinstance(peer, IPv6Address) and peer.ipv4_mapped is not None:
            peer = peer.ipv4_mapped
        return any(peer in network for network in self.networks)

    def name(self, request: Request) -> str | None:
        """Whom the request comes from; None when the proxy does not say, or more than one name is there."""
        names = request.headers.getlist(self.header)
        if len(names) != 1 or not self.vouches(request):
            return None
        name = names[0].strip()
        return name if name and len(name) <= _LONGEST_NAME and name.isprintable() else None


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask for data: everyone, when there are neither tokens nor proxies.

    Attributes:
        tokens: gives the tokens that are valid now.
        proxies: those that are trusted.
    """

    tokens: Callable[[], Collection[str]] | None = None
    proxies: Proxies | None = None

    @property
    def is_open(self) -> bool:
        """Whether everyone may."""
        return self.tokens is None and self.proxies is None

    def caller(self, request: Request) -> str | None:
        """Who asks, in words for the log; None when nobody vouches for it."""
        if self.proxies is not None and (name := self.proxies.name(request)) is not None:
            return name
        if self.tokens is not None and self._has_token(request, self.tokens()):
            return "token"
        return None

    def valid(self) -> Collection[str]:
        """The tokens that are valid now; another object when they are others than before."""
        return () if self.tokens is None else self.tokens()

    def admission(self, request: Request) -> Callable[[], bool]:
        """Tells of a request, whenever it is asked, whether it would be let in now."""
        admitted = self.is_open
        known: Collection[str] | None = None

        def still() -> bool:
            nonlocal admitted, known
            valid = self.valid()
            if valid is not known and not self.is_open:
                admitted, known = self.caller(request) is not None, valid
            return admitted

        return still

    @staticmethod
    def _has_token(request: Request, tokens: Collection[str]) -> bool:
        scheme, _, given = request.headers.get("authorization", "").partition(" ")
        sent = given.strip().encode(errors="replace")
        # All are compared, so that the time tells nothing of which one it is.
        matching = sum(hmac.compare_digest(sent, token.encode()) for token in tokens)
        return matching > 0 and scheme.lower() == "bearer"

    def refusal(self) -> Problem:
        """The answer to whom nobody vouches for."""
        if self.tokens is None:
            return Problem(HTTPStatus.FORBIDDEN, "proxy", "come by the proxy that signs you in")
        return Problem(
            HTTPStatus.UNAUTHORIZED,
            "token",
            "give a token of --token-file: Authorization: Bearer …",
            {"WWW-Authenticate": 'Bearer realm="rebalance-monitor"'},
        )
