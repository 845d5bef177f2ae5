"""What people read is written here, and nowhere else.

Names, reasons and file names are chosen by others: an escape sequence in one would steer the terminal, a line
break would forge a line, rich's markup would vanish. So whatever is printed is a :class:`SafeText`, or text that
becomes one: it stays on its line, and what Python's ``repr`` would escape is escaped. JSON for programs has its own
rules and goes through ``streaming.cli.output``.
"""

from __future__ import annotations

from typing import Any, Self

from rich.console import Console
from rich.text import Text

from streaming.process.plain import printable

#: Columns of a table that is not shown in a terminal, which has no width of its own.
_WIDE = 200


class SafeText(Text):
    """Text of one line; every part of it is made printable."""

    def __init__(self, text: str = "", style: str = "", **layout: Any) -> None:
        super().__init__(printable(text), style, **layout)

    def append(self, text: Text | str, style: Any = None) -> Self:
        """Add a part, with a style of its own."""
        super().append(printable(text) if isinstance(text, str) else text, style)
        return self


class _Plain(Console):
    """Text is data: one printable line, in which nothing is markup, an emoji's name or worth a colour."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(printable(text), **options)


def console(*, stderr: bool = False, wide: bool = False, soft_wrap: bool = False) -> Console:
    """Where lines and tables go; ``wide`` gives tables room where there is no terminal."""
    made = _Plain(stderr=stderr, soft_wrap=soft_wrap, markup=False, emoji=False, highlight=False)
    if wide and not made.is_terminal:
        made.width = max(made.width, _WIDE)
    return made
