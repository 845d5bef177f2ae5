"""Query parameters: one definition per parameter, used to decode requests and to write the OpenAPI document."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from starlette.requests import Request

from streaming.serve.problems import Problem

#: The largest whole number that all JSON readers keep exact.
_MAX_INTEGER: Final = 2**53
#: Digits of 2^63.
_MAX_DIGITS: Final = 19
#: The most characters of a parameter's value that its refusal quotes.
_MAX_SHOWN: Final = 60

#: The decoded parameters of a request by name; None for a parameter that is left out or empty.
Query = dict[str, Any]


class Parameter(NamedTuple):
    """A parameter of a route. ``decode`` raises ``ValueError`` with the reason for a refusal."""

    name: str
    description: str
    schema: dict[str, Any]
    decode: Callable[[str], object] = str
    location: str = "query"

    def document(self) -> dict[str, Any]:
        """Return the OpenAPI parameter object."""
        return {
            "name": self.name,
            "in": self.location,
            "required": self.location == "path",
            "description": self.description,
            "schema": self.schema,
        }


def text(name: str, description: str, *, location: str = "query") -> Parameter:
    """Return a parameter whose value is text."""
    return Parameter(name, description, {"type": "string"}, location=location)


def whole(name: str, description: str, *, minimum: int = 0, location: str = "query") -> Parameter:
    """Return a parameter whose value is a whole number from ``minimum`` to 2^53."""

    def decode(value: str) -> int:
        number = digits(value)
        if number is None or not minimum <= number <= _MAX_INTEGER:
            raise ValueError(f"{_short(value)} is not a whole number in {minimum}…{_MAX_INTEGER}")
        return number

    return Parameter(name, description, {"type": "integer", "minimum": minimum}, decode, location)


def choice(name: str, values: Collection[str], description: str) -> Parameter:
    """Return a parameter whose value is one of ``values``."""

    def decode(value: str) -> str:
        if value not in values:
            raise ValueError(f"{_short(value)} is not one of {', '.join(values)}")
        return value

    return Parameter(name, description, {"enum": list(values)}, decode)


def flag(name: str, description: str) -> Parameter:
    """Return a parameter whose value is ``true`` or ``false``."""
    as_text = choice(name, ("true", "false"), description)
    return as_text._replace(decode=lambda value: as_text.decode(value) == "true")


def moment(name: str, description: str) -> Parameter:
    """Return a parameter whose value is a time: milliseconds since the epoch, or RFC 3339."""
    schema = {"oneOf": [{"type": "integer"}, {"type": "string", "format": "date-time"}]}
    return Parameter(name, description, schema, _milliseconds)


def _milliseconds(value: str) -> int:
    if len(value) <= len("8640000000000000") and (number := digits(value)) is not None:
        return number
    try:
        # A '+' of an offset that was not percent-encoded arrives as a space.
        time = datetime.fromisoformat(value.replace(" ", "+"))
    except ValueError as error:
        raise ValueError(f"{_short(value)} is neither RFC 3339 (2026-01-31T12:00:00Z) nor milliseconds") from error
    return int((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1000)


def digits(value: str) -> int | None:
    """Return the number in a text of ASCII digits, below 2^63 (the limit of SQLite); None for any other text."""
    return int(value) if value.isascii() and value.isdigit() and len(value) < _MAX_DIGITS else None


def decode_query(request: Request, parameters: Collection[Parameter]) -> Query:
    """Return the decoded query parameters of a request.

    Raises:
        Problem: a parameter is malformed, unknown or repeated. (With an ignored typo the answer would have too much.)
    """
    by_name = {parameter.name: parameter for parameter in parameters if parameter.location == "query"}
    query: Query = dict.fromkeys(by_name)
    seen: set[str] = set()
    for name, value in request.query_params.multi_items():
        if name not in by_name:
            names = ", ".join(sorted(by_name)) or "none"
            raise refuse(_cut(name), f"no such parameter; there are {names}")
        if name in seen:
            raise refuse(name, "is given twice")
        seen.add(name)
        try:
            query[name] = by_name[name].decode(value) if value else None
        except ValueError as error:
            raise refuse(name, str(error)) from error
    return query


def refuse(name: str, reason: str) -> Problem:
    """Return the problem that refuses a parameter."""
    return Problem("parameter", f"{name}: {reason}", parameter=name)


def _cut(value: str) -> str:
    return value if len(value) <= _MAX_SHOWN else f"{value[:_MAX_SHOWN]}…"


def _short(value: str) -> str:
    return repr(_cut(value))
