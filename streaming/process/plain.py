"""Lines of plain text on standard output and standard error; imports nothing slow."""

from __future__ import annotations

import sys

#: The longest message: what it quotes was chosen by others, and may be of any length.
LONGEST_MESSAGE = 4000


def printable(text: str) -> str:
    r"""The text on one line, with line breaks, control characters, marks of direction … as ``\n``, ``\u202e``."""
    if text.isprintable():
        return text
    return "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text
    )


def say(text: str) -> None:
    """One line on standard output."""
    print(printable(text), flush=True)


def warn(text: str) -> None:
    """Print one line on standard error, without the middle of a very long one; nothing where it is closed."""
    if sys.stderr is None:  # print() would take standard output in its place
        return
    if len(text) > LONGEST_MESSAGE:
        half = LONGEST_MESSAGE // 2
        text = f"{text[:half]} … {text[-half:]}"
    print(printable(text), file=sys.stderr, flush=True)
