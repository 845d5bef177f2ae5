"""Standard output as JSON Lines or tables, and progress on standard error."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, BinaryIO, Literal, Self

import msgspec

from assignors.errors import OutsideFailure


class NoOutput(OutsideFailure):
    """Standard output is closed; give it a file or a pipe."""


TableShape = Literal["assigned", "compared", "placed", "checked"]


def standard_output() -> BinaryIO:
    """Standard output as bytes.

    Raises:
        NoOutput: it is closed (``>&-``).
    """
    if sys.stdout is None:
        raise NoOutput
    return sys.stdout.buffer


def writer(shape: TableShape, *, as_json: bool, as_table: bool) -> Callable[[Any], None]:
    """Writes answers as tables of this shape where standard output is a terminal, or where tables are asked for.

    Everywhere else, and with ``as_json``, as JSON Lines.
    """
    standard_output()
    if as_json or not (as_table or sys.stdout.isatty()):
        return json_lines()
    from streaming.cli import render  # rich takes longer to load than most answers

    shapes = {
        "assigned": render.assignment_table,
        "compared": render.comparison_table,
        "placed": render.placement_table,
        "checked": render.check_table,
    }
    return render.table_writer(shapes[shape])


def raw_json(value: bytes) -> msgspec.Raw:
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


#: Seconds before the first sign, and between signs.
PROGRESS_AFTER = 2.0
PROGRESS_INTERVAL = 0.5


class Progress:
    """Counts steps; shows the count once work has taken two seconds, if standard error is a terminal."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._count = 0
        self._shown = False
        self._on = sys.stderr.isatty()
        self._next = time.monotonic() + PROGRESS_AFTER

    def step(self, count: int = 1) -> None:
        """``count`` more are done."""
        self._count += count
        if self._on and time.monotonic() >= self._next:
            self._shown = True
            self._next = time.monotonic() + PROGRESS_INTERVAL
            _write_progress(f"\r{self._count:,} {self._what}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            _write_progress("\r\x1b[K")


def _write_progress(text: str) -> None:
    sys.stderr.write(text)
    sys.stderr.flush()
