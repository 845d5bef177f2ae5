"""Where answers go: JSON Lines for programs, tables for people."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, BinaryIO, Literal

import msgspec

from assignors.errors import OutsideFailure


class NoOutput(OutsideFailure):
    """Standard output is closed; give it a file or a pipe."""


Shape = Literal["assigned", "compared", "placed", "checked"]


def standard_output() -> BinaryIO:
    """Standard output as bytes.

    Raises:
        NoOutput: it is closed (``>&-``).
    """
    if sys.stdout is None:
        raise NoOutput
    return sys.stdout.buffer


def writer(shape: Shape, *, as_json: bool, as_table: bool) -> Callable[[Any], None]:
    """Writes answers as tables of this shape where standard output is a terminal, or where tables are asked for.

    Everywhere else, and with ``as_json``, as JSON Lines.
    """
    standard_output()
    if as_json or not (as_table or sys.stdout.isatty()):
        return json_lines()
    from streaming.answers import tables  # rich takes longer to load than most answers

    shapes = {
        "assigned": tables.assigned,
        "compared": tables.compared,
        "placed": tables.placed,
        "checked": tables.checked,
    }
    return tables.table_writer(shapes[shape])


def one_line(value: bytes) -> msgspec.Raw:
    """A JSON value that others wrote, its own bytes wherever they stand on one line."""
    return msgspec.Raw(msgspec.json.format(value, indent=-1) if b"\n" in value else value)


def camel_case(value: Any) -> dict[str, Any]:
    """A dataclass with its fields named as everywhere in JSON: ``wantedCleanupPolicy``."""
    named = {}
    for name, field in msgspec.to_builtins(value).items():
        first, *rest = name.split("_")
        named[first + "".join(word.capitalize() for word in rest)] = field
    return named


def json_lines() -> Callable[[Any], None]:
    """Writes one JSON value a line to standard output."""
    encode = msgspec.json.Encoder().encode
    out = standard_output()

    def write(value: Any) -> None:
        out.write(encode(value) + b"\n")
        out.flush()

    return write
