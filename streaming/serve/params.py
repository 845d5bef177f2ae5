"""Query parameters: each read strictly, each refusal naming the parameter and what it takes."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from http import HTTPStatus

from starlette.requests import Request

from streaming.serve.problems import Problem


def _refuse(name: str, detail: str) -> Problem:
    return Problem(HTTPStatus.BAD_REQUEST, "parameter", f"{name}: {detail}", parameter=name)


def only(request: Request, names: Collection[str]) -> None:
    """Refuse parameters that do not exist: a typo must not widen what is asked for."""
    for name in request.query_params:
        if name not in names:
            raise _refuse(name, f"no such parameter; there are {', '.join(sorted(names)) or 'none'}")


def text(request: Request, name: str) -> str | None:
    """A parameter as it is; None when it is left out or empty."""
    return request.query_params.get(name) or None


def whole(request: Request, name: str, default: int | None, *, most: int = 2**53) -> int | None:
    """A whole number in 0 … ``most``."""
    value = text(request, name)
    if value is None:
        return default
    if not (value.isascii() and value.isdigit()) or int(value) > most:
        raise _refuse(name, f"{value!r} is no whole number in 0…{most}")
    return int(value)


def moment(request: Request, name: str) -> int | None:
    """Milliseconds since the epoch, given as such or as RFC 3339."""
    value = text(request, name)
    if value is None:
        return None
    if value.isascii() and value.isdigit() and len(value) <= len("8640000000000000"):
        return int(value)
    try:
        # A '+' of an offset that was not percent-encoded arrives as a space.
        found = datetime.fromisoformat(value.replace(" ", "+"))
    except ValueError as error:
        raise _refuse(
            name, f"{value!r} is neither RFC 3339 (2026-01-31T12:00:00Z) nor milliseconds"
        ) from error
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def one_of(request: Request, name: str, values: Collection[str], default: str) -> str:
    """One of a few words."""
    value = text(request, name) or default
    if value not in values:
        raise _refuse(name, f"{value!r} is none of {', '.join(values)}")
    return value
