"""Reading JSON Lines from standard input within a limit, and errors that name what is wrong with a line."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, TypeVar

import msgspec

from assignors.errors import BadInput, MonitorError
from streaming.cli.output import Progress

#: The longest line that is read, in bytes: a group of a million partitions with all of them owned is 8 MiB.
MAX_LINE = 64 * 1024 * 1024
_SKIP_BYTES = 1024 * 1024
_BOM = b"\xef\xbb\xbf"
BAD_INPUT = 2

_Struct = TypeVar("_Struct")


class LineTooLong(BadInput):
    """The line is longer than the limit."""


class MalformedJson(BadInput):
    """The line is no JSON object."""


class NoInput(BadInput):
    """Standard input is closed; give it a file, a pipe or nothing at all (< /dev/null)."""


def standard_input() -> BinaryIO:
    """Return standard input as bytes."""
    if sys.stdin is None:
        raise NoInput
    return sys.stdin.buffer


def read_lines(stream: BinaryIO, limit: int = MAX_LINE) -> Iterator[bytes | None]:
    """Yield lines without LF, CRLF or a byte-order mark at the very start; None for a line longer than ``limit``.

    At most ``limit`` bytes (plus its end) of a line are ever held: the rest of a longer one is skipped.
    """
    is_first = True
    while data := stream.readline(limit + 2):
        if is_first and data.startswith(_BOM):
            data = data[len(_BOM) :]
            if not data.endswith(b"\n"):
                data += stream.readline(len(_BOM))
            if not data:
                return
        is_first = False
        is_complete = data.endswith(b"\n")
        data = data.removesuffix(b"\n").removesuffix(b"\r")
        if len(data) <= limit:
            yield data
            continue
        while not is_complete and (rest := stream.readline(_SKIP_BYTES)):
            is_complete = rest.endswith(b"\n")
        yield None


def error_answer(error: MonitorError) -> dict[str, Any]:
    """Return the answer to a line that can't be answered: ``{"error": {"type", "message"}}``."""
    return {"error": {"type": error.type, "message": str(error)}}


def answer_lines(
    source: BinaryIO,
    answer: Callable[[bytes], Any],
    write: Callable[[Any], None],
    *,
    limit: int | None = None,
    skip_blank: bool = True,
) -> int:
    """Answer every line in order; return 2 if one was answered with an error, else 0.

    ``limit``: the longest line that is read, in bytes (None: ``MAX_LINE``).
    """
    limit = limit or MAX_LINE
    status = 0
    with Progress("lines answered") as progress:
        for number, line in enumerate(read_lines(source, limit), 1):
            if skip_blank and line is not None and not line.strip():
                continue
            try:
                if line is None:
                    raise LineTooLong(
                        f"line {number}: longer than {limit} bytes, the limit; shorten it or raise --max-line-bytes"
                    )
                write(answer(line))
            except MonitorError as error:
                status = BAD_INPUT
                write(error_answer(error))
            progress.step()
    return status


def read_object(
    data: bytes, decoder: msgspec.json.Decoder[_Struct], locate: Callable[[Any, msgspec.ValidationError], str]
) -> _Struct:
    """Decode a line; ``locate`` describes a field of the wrong type."""
    try:
        value = decoder.decode(data)
    except msgspec.ValidationError as error:
        raise BadInput(locate(decode_json(data), error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _malformed(error) from error
    _refuse_repeated_keys(data)
    return value


def _refuse_repeated_keys(data: bytes) -> None:
    """Refuse an object with a key twice: decoders silently take the last value."""

    def check(pairs: list[tuple[str, Any]]) -> None:
        if len(dict(pairs)) != len(pairs):
            key = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise MalformedJson(f"line: {key!r} stands twice in one object")

    try:
        json.loads(data, object_pairs_hook=check)
    except (ValueError, RecursionError) as error:  # in a field that is not read
        raise _malformed(error) from error


def decode_json(data: bytes) -> Any:
    """Decode any JSON text."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _malformed(error) from error


def _malformed(error: Exception) -> MalformedJson:
    """Describe why a line can't be decoded, in other words than the decoder's where those mislead."""
    if isinstance(error, RecursionError):
        return MalformedJson("line: brackets are nested too deep")
    if type(error) is ValueError:  # Python limits the digits of a number
        return MalformedJson("line: a number has thousands of digits")
    if isinstance(error, UnicodeDecodeError):
        return MalformedJson(f"line: not UTF-8 ({error.reason})")
    return MalformedJson(f"line: {error}")


def object_items(value: Any) -> list[tuple[str, Any]]:
    """Return the items of a JSON object; nothing for any other value."""
    return list(value.items()) if isinstance(value, dict) else []


def first_problem(path: str, value: Any, shape: Any) -> str | None:
    """Describe what is wrong with ``value`` at ``path``; None if it has the shape."""
    try:
        msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        return field_message(path, error)
    return None


def field_message(path: str, error: msgspec.ValidationError) -> str:
    """Return ``path.to.field: what is wrong``, from msgspec's message."""
    text, _, place = str(error).partition(" - at `$")
    place = place.rstrip("`").removeprefix("." if not path else "")
    if text.startswith("Object missing required field"):
        missing = text.split("`")[1]
        inside = f"{path}{place}"
        return f"{inside + '.' if inside else ''}{missing}: missing"
    where = f"{path}{place}" or "line"
    return f"{where}: {text[0].lower()}{text[1:]}"
