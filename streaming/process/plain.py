"""Print lines of plain text on standard output and standard error; imports nothing slow."""

from __future__ import annotations

import sys
from collections.abc import Iterable

#: Longest message: it may quote text of any length from outside.
LONGEST_MESSAGE = 4000


def printable(text: str) -> str:
    r"""Return the text on one line: line breaks, control characters and direction marks as ``\n``, ``\u202e``."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def say(text: str) -> None:
    """Print one line on standard output."""
    print(printable(text), flush=True)


def say_lines(lines: Iterable[str]) -> None:
    """Print lines on standard output."""
    for line in lines:
        say(line)


def warn(text: str) -> None:
    """Print one line on standard error, without the middle of a very long one; nothing where it is closed."""
    if sys.stderr is None:  # print() would take standard output in its place
        return
    if len(text) > LONGEST_MESSAGE:
        half = LONGEST_MESSAGE // 2
        text = f"{text[:half]} … {text[-half:]}"
    print(printable(text), file=sys.stderr, flush=True)
