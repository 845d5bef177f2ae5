"""Lines of standard input, within a limit, and the loop that answers them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple, Protocol

from assignors.errors import BadInput, MonitorError
from streaming.answers.progress import Progress

#: The longest line that is read, in bytes: a group of a million partitions with all of them owned is 8 MiB.
MAX_LINE = 64 * 1024 * 1024
_SKIPPED_AT_ONCE = 1024 * 1024
_BOM = b"\xef\xbb\xbf"
BAD_INPUT = 2


class LineTooLong(BadInput):
    """The line is longer than is read."""


class MalformedJson(BadInput):
    """The line is no JSON object."""


class NoInput(BadInput):
    """Standard input is closed; give it a file, a pipe or nothing at all (< /dev/null)."""


def standard_input() -> BinaryIO:
    """Standard input as bytes.

    Raises:
        NoInput: it is closed (``<&-``).
    """
    if sys.stdin is None:
        raise NoInput
    return sys.stdin.buffer


class Line(NamedTuple):
    """One line without its end; ``data`` is None when it was longer than the limit, and thrown away."""

    number: int
    data: bytes | None


def read_lines(stream: BinaryIO, limit: int = MAX_LINE) -> Iterator[Line]:
    """The lines of ``stream``, numbered from 1, without LF, CRLF or a byte-order mark at the very start.

    At most ``limit`` bytes (plus its end) of a line are ever held: the rest of a longer one is read past.
    """
    number = 0
    while data := stream.readline(limit + 2):
        number += 1
        if number == 1 and data.startswith(_BOM):
            data = data[len(_BOM) :]
        ended = data.endswith(b"\n")
        data = data.removesuffix(b"\n").removesuffix(b"\r")
        if len(data) <= limit and (ended or not stream.peek(1) if hasattr(stream, "peek") else True):
            yield Line(number, data)
            continue
        while not ended and (rest := stream.readline(_SKIPPED_AT_ONCE)):
            ended = rest.endswith(b"\n")
        yield Line(number, None)


class LineAnswer(Protocol):
    """Answers one line: an object for JSON. Raises :class:`MonitorError` for what it can't answer."""

    def __call__(self, data: bytes) -> Any:
        """The answer to ``data``, one line."""
        ...


def error_answer(error: MonitorError) -> dict[str, Any]:
    """``{"error": {"type", "message"}}``: what a line is answered with that can't be."""
    return {"error": {"type": error.type, "message": str(error)}}


def answer_lines(
    source: BinaryIO, answer: LineAnswer, write: Callable[[Any], None], *, limit: int | None = None
) -> int:
    """Answer every line that is not blank, in order; 2 when one was answered with an error, else 0.

    ``limit`` is the longest line that is read, in bytes (None: ``MAX_LINE``).
    """
    limit = limit or MAX_LINE
    failed = False
    with Progress("lines answered") as progress:
        for line in read_lines(source, limit):
            if line.data is not None and not line.data.strip():
                continue
            try:
                if line.data is None:
                    raise LineTooLong(
                        f"line {line.number}: longer than {limit} bytes, the limit; split the group or raise "
                        "--max-line-bytes"
                    )
                found = answer(line.data)
            except MonitorError as error:
                failed = True
                found = error_answer(error)
            write(found)
            progress.step()
    return BAD_INPUT if failed else 0
