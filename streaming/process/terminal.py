"""Terminal output with rich: tables and lines in which text from outside is escaped.

An escape sequence in the name of a group or file could control the terminal, a line break could forge a line, and rich
would parse brackets as markup. So all text becomes a :class:`SafeText`, which escapes as Python's ``repr`` does. JSON
for programs is written by ``streaming.cli.output``.
"""

from collections.abc import Container, Iterable
from functools import partial
from itertools import compress
from typing import Any, Self

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from streaming.process import escape_unprintable

#: Width of a table in columns, if standard output is not a terminal.
_PIPE_COLUMNS = 200


class SafeText(Text):
    """A line of text in which unprintable characters are escaped."""

    def __init__(self, text: str = "", style: str = "", **layout: Any) -> None:
        super().__init__(escape_unprintable(text), style, **layout)

    def append(self, text: Text | str, style: Any = None) -> Self:
        """Append a text in this style, with control characters made visible."""
        super().append(escape_unprintable(text) if isinstance(text, str) else text, style)
        return self


class _PlainConsole(Console):
    """A rich console without markup, emoji names or highlighting."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(escape_unprintable(text), **options)


def console(*, stderr: bool = False, is_wide: bool = False, soft_wrap: bool = False) -> Console:
    """Return a console for lines and tables; ``is_wide``: tables have 200 columns if the output is not a terminal."""
    made = _PlainConsole(stderr=stderr, soft_wrap=soft_wrap, markup=False, emoji=False, highlight=False)
    if is_wide and not made.is_terminal:
        made.width = max(made.width, _PIPE_COLUMNS)
    return made


#: Table columns: for numbers, for long words that are folded, for text that is not wrapped, and for text that takes
#: the remaining width.
right = partial(Column, justify="right")
fold = partial(Column, overflow="fold")
nowrap = partial(Column, no_wrap=True)
wide_column = partial(Column, ratio=1)


def table(
    headings: Iterable[Column | str], rows: Iterable[Iterable[object]], *, optional: Container[str] = (), **layout: Any
) -> Table:
    """Return a table; cells that are not :class:`SafeText` are converted by ``str``.

    ``optional``: headings of columns that are left out if all their cells are empty.
    """
    columns = [heading if isinstance(heading, Column) else Column(heading) for heading in headings]
    texts = [
        [cell if isinstance(cell, Text) else SafeText("" if cell is None else str(cell)) for cell in row]
        for row in rows
    ]
    shown = [head.header not in optional or any(row[at].plain for row in texts) for at, head in enumerate(columns)]
    made = Table(*compress(columns, shown), **layout)
    for row in texts:
        made.add_row(*compress(row, shown))
    return made


def show(parts: Iterable[Table | Text | str]) -> None:
    """Print tables and lines on standard output without wrapping lines; tables in a pipe have 200 columns."""
    screen = console(is_wide=True)
    for part in parts:
        screen.print(part, soft_wrap=not isinstance(part, Table))
