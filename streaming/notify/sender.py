"""Delivery of requests, with retries and back-off until the receiver accepts or finally refuses the request."""

import ipaddress
import logging
from collections.abc import Callable
from typing import Any, Final

import urllib3
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential
from urllib3.connection import HTTPConnection, HTTPSConnection

from assignors.errors import OutsideFailure
from streaming.notify.requests import Request

_log = logging.getLogger(__name__)

_TIMEOUT_SECONDS: Final = 10.0
_FIRST_RETRY_SECONDS: Final = 0.5
_MAX_RETRY_SECONDS: Final = 60.0
#: HTTP statuses after which the same request may succeed later.
_RETRIED_STATUSES: Final = frozenset({408, 425, 429, *range(500, 600)})
#: Largest number of bytes that are read from an answer, for the message about a refusal.
_MAX_ANSWER_BYTES: Final = 500


class Rejection(OutsideFailure):
    """The receiver rejects the request for good, so a retry is useless."""


class _Unavailable(OutsideFailure):
    """The receiver did not answer, or requested a retry after ``after`` seconds (0: without a time)."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


class Sender:
    """Sends requests to the receiver of one notification target; its address must be public by default.

    ``wait`` is called with the seconds until the next attempt.
    """

    def __init__(self, name: str, wait: Callable[[float], None], *, allow_private: bool = False) -> None:
        self._name = name
        self._wait = wait
        self._pool = urllib3.PoolManager(retries=False, timeout=_TIMEOUT_SECONDS)
        if not allow_private:
            self._pool.pool_classes_by_scheme = {"http": _PublicHttpPool, "https": _PublicHttpsPool}

    def send(self, request: Request) -> None:
        """Send the request, and repeat it while the receiver does not answer or requests a retry.

        Raises Refused if a retry can't succeed, as after a redirect, 400, 404, or with a private address.
        """
        for attempt in Retrying(
            retry=retry_if_exception_type(_Unavailable),
            wait=self._seconds_to_wait,
            sleep=self._wait,
            before_sleep=self._log_retry,
        ):
            with attempt:
                self._send_once(request)

    def _send_once(self, request: Request) -> None:
        try:
            answer: Any = self._pool.request(
                "POST", request.url, body=request.body, headers=request.headers, redirect=False, preload_content=False
            )
            try:
                text = answer.read(_MAX_ANSWER_BYTES).decode(errors="replace").strip()
            finally:
                answer.release_conn()
        except urllib3.exceptions.HTTPError as error:
            raise _Unavailable(str(error)) from error
        if answer.status in _RETRIED_STATUSES:
            raise _Unavailable(f"status {answer.status} {text}", _retry_seconds(answer.headers.get("retry-after")))
        if not 200 <= answer.status < 300:  # noqa: PLR2004 - HTTP statuses of success
            raise Rejection(f"status {answer.status} {text}".rstrip())

    def _seconds_to_wait(self, state: RetryCallState) -> float:
        backoff = wait_exponential(_FIRST_RETRY_SECONDS, _MAX_RETRY_SECONDS)(state)
        error = state.outcome.exception() if state.outcome else None
        return float(max(backoff, error.after if isinstance(error, _Unavailable) else 0.0))

    def _log_retry(self, state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome else None
        seconds = state.next_action.sleep if state.next_action else 0.0
        _log.warning("notify %s: %s; next attempt in %.1f s", self._name, error, seconds)


def _retry_seconds(value: str | None) -> float:
    if value is None or not value.isascii() or not value.isdigit():
        return 0.0
    return min(float(value[:6]), 3600.0)


def _require_public(connection: HTTPConnection) -> None:
    """Raise Refused if the connected address is private, loopback, link-local or reserved."""
    peer = connection.sock.getpeername()[0] if connection.sock is not None else ""
    if not ipaddress.ip_address(peer.partition("%")[0]).is_global:
        connection.close()
        raise Rejection(f"{connection.host} is {peer}, which is not a public address; set allow_private to send to it")


class _PublicHttpConnection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _require_public(self)


class _PublicHttpsConnection(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        _require_public(self)


class _PublicHttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _PublicHttpConnection


class _PublicHttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _PublicHttpsConnection
