"""Where answers go: JSON Lines for programs, tables for people."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, Literal

import msgspec

Shape = Literal["assigned", "compared", "placed", "checked"]


def writer(shape: Shape, *, as_json: bool, as_table: bool) -> Callable[[Any], None]:
    """Writes answers as tables of this shape where standard output is a terminal, or where tables are asked for.

    Everywhere else, and with ``as_json``, as JSON Lines.
    """
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


def json_lines() -> Callable[[Any], None]:
    """Writes one JSON value a line to standard output."""
    encode = msgspec.json.Encoder().encode
    out = sys.stdout.buffer

    def write(value: Any) -> None:
        out.write(encode(value) + b"\n")
        out.flush()

    return write
