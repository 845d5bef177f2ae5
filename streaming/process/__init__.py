"""Shared code of long-running commands: child processes, log, text output, signals, metrics port, watchdog."""

import sys

#: Length of the longest message, as messages may quote outside text of any length.
MAX_MESSAGE_CHARACTERS = 4000


def escape_unprintable(text: str) -> str:
    r"""Return the text on one line, with line breaks, control characters and direction marks as ``\n``, ``\u202e``."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def print_line(text: str) -> None:
    """Print one line on standard output."""
    print(escape_unprintable(text), flush=True)


def warn(text: str) -> None:
    """Print one line, shortened in its middle if it is very long, on standard error, unless that is closed."""
    if sys.stderr is None:  # If standard error is None, print() would write to standard output.
        return
    if len(text) > MAX_MESSAGE_CHARACTERS:
        half_length = MAX_MESSAGE_CHARACTERS // 2
        text = f"{text[:half_length]} … {text[-half_length:]}"
    print(escape_unprintable(text), file=sys.stderr, flush=True)
