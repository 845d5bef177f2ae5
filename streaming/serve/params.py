"""Query parameters: each read strictly, each refusal naming the parameter and what it takes."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final

from starlette.requests import Request

from streaming.serve.problems import Problem

#: The largest number that JSON's readers keep exact.
_MOST: Final = 2**53
#: Digits of 2^63.
_DIGITS: Final = 19
#: Characters of what was asked that an answer repeats.
_SHOWN: Final = 60


def _refuse(name: str, detail: str) -> Problem:
    return Problem(HTTPStatus.BAD_REQUEST, "parameter", f"{name}: {detail}", parameter=name)


def only(request: Request, names: Collection[str]) -> None:
    """Refuse parameters that do not exist, or are given twice: a typo must not widen what is asked for."""
    seen: set[str] = set()
    for name, _ in request.query_params.multi_items():
        if name not in names:
            shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
            raise _refuse(shown, f"no such parameter; there are {', '.join(sorted(names)) or 'none'}")
        if name in seen:
            raise _refuse(name, "is given twice")
        seen.add(name)


def text(request: Request, name: str) -> str | None:
    """A parameter as it is; None if it is left out or empty."""
    return request.query_params.get(name) or None


def whole(request: Request, name: str, default: int | None, *, least: int = 0) -> int | None:
    """A whole number in ``least`` … 2^53."""
    value = text(request, name)
    if value is None:
        return default
    number = digits(value)
    if number is None or not least <= number <= _MOST:
        raise _refuse(name, f"{_short(value)} is no whole number in {least}…{_MOST}")
    return number


def digits(text: str) -> int | None:
    """A number of ASCII digits below 2^63, which is what the history can hold; None for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < _DIGITS else None


def _short(value: str) -> str:
    return repr(value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…")


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
            name, f"{_short(value)} is neither RFC 3339 (2026-01-31T12:00:00Z) nor milliseconds"
        ) from error
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def one_of(request: Request, name: str, values: Collection[str], default: str) -> str:
    """A parameter that must be one of ``values``."""
    value = text(request, name) or default
    if value not in values:
        raise _refuse(name, f"{_short(value)} is none of {', '.join(values)}")
    return value
