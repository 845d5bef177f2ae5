"""Safe text for people: tables and lines of rich, in which text from outside can't do harm.

An escape sequence in a group's or file's name would control the terminal, a line break would forge a line, and rich
would take brackets for markup. So all text becomes a :class:`SafeText`, which escapes as Python's ``repr`` does.
JSON for programs goes through ``streaming.cli.output``.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any, Self

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from streaming.process.plain import printable

#: Columns of a table outside a terminal.
_WIDE = 200


class SafeText(Text):
    """Text of one line; every part is made printable."""

    def __init__(self, text: str = "", style: str = "", **layout: Any) -> None:
        super().__init__(printable(text), style, **layout)

    def append(self, text: Text | str, style: Any = None) -> Self:
        """Add a part, with a style of its own."""
        super().append(printable(text) if isinstance(text, str) else text, style)
        return self


class _Plain(Console):
    """A console without markup, emoji names or highlighting."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


def console(*, stderr: bool = False, wide: bool = False, soft_wrap: bool = False) -> Console:
    """Return a console for lines and tables; ``wide`` gives tables 200 columns outside a terminal."""
    made = _Plain(stderr=stderr, soft_wrap=soft_wrap, markup=False, emoji=False, highlight=False)
    if wide and not made.is_terminal:
        made.width = max(made.width, _WIDE)
    return made


#: Columns of numbers, of long words that are folded, that are not wrapped, and that take the rest of the width.
right = partial(Column, justify="right")
fold = partial(Column, overflow="fold")
whole = partial(Column, no_wrap=True)
rest = partial(Column, ratio=1)


def table(heads: Iterable[Column | str], rows: Iterable[Iterable[object]], **layout: Any) -> Table:
    """Return a table with these headings and rows; a cell is text, a :class:`SafeText`, or anything with a string."""
    made = Table(*heads, **layout)
    for row in rows:
        made.add_row(*(cell if isinstance(cell, Text) else SafeText("" if cell is None else str(cell)) for cell in row))
    return made


def show(parts: Iterable[Table | Text | str]) -> None:
    """Print tables and lines on standard output; lines are not wrapped, tables have 200 columns in a pipe."""
    screen = console(wide=True)
    for part in parts:
        screen.print(part, soft_wrap=not isinstance(part, Table))
