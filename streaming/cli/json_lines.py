"""Read JSON Lines from standard input within a limit, and describe what is wrong with a line."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple, Protocol, TypeVar

import msgspec

from assignors.errors import BadInput, MonitorError
from streaming.cli.output import Progress

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
            if not data.endswith(b"\n"):
                data += stream.readline(len(_BOM))
            if not data:
                return
        ended = data.endswith(b"\n")
        data = data.removesuffix(b"\n").removesuffix(b"\r")
        if len(data) <= limit:
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


S = TypeVar("S")


def read_object(
    data: bytes, decoder: msgspec.json.Decoder[S], located: Callable[[Any, msgspec.ValidationError], str]
) -> S:
    """The struct that a line describes; ``located`` says of a field with the wrong type where it is.

    Raises:
        MalformedJson: it is no JSON, or an object says something twice.
        BadInput: a field is missing or has the wrong type.
    """
    try:
        found = decoder.decode(data)
    except msgspec.ValidationError as error:
        raise BadInput(located(decode_json(data), error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise malformed(data, error) from error
    _refuse_repeats(data)
    return found


def _refuse_repeats(data: bytes) -> None:
    """Two values of one key: whichever is taken, the other was meant by someone."""

    def once(pairs: list[tuple[str, Any]]) -> None:
        if len(dict(pairs)) == len(pairs):
            return
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise MalformedJson(f"line: {key!r} stands twice in one object")
            seen.add(key)

    try:
        json.loads(data, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:  # in a field that nobody reads
        raise malformed(data, error) from error


def decode_json(data: bytes) -> Any:
    """The value of any JSON text.

    Raises:
        MalformedJson: it is none.
    """
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise malformed(data, error) from error


def malformed(data: bytes, error: Exception) -> MalformedJson:
    """What to say of a line that can't be decoded, in place of the decoder's own words where those mislead."""
    if isinstance(error, RecursionError):
        return MalformedJson("line: brackets are nested too deep")
    if type(error) is ValueError:  # Python's bound on the digits of a number
        return MalformedJson("line: a number has thousands of digits")
    if isinstance(error, UnicodeDecodeError):
        return MalformedJson(f"line: not UTF-8 ({error.reason})")
    half = _lone_surrogate(data)
    if half is not None:
        return MalformedJson(
            f"line: \\u{half:04x} is half of a surrogate pair; write both halves, or the letter"
        )
    return MalformedJson(f"line: {error}")


def _lone_surrogate(data: bytes) -> int | None:
    """A lone surrogate that the line escapes: JSON may, UTF-8 (and so Kafka's protocol) can't carry it."""
    try:
        text = json.dumps(json.loads(data), ensure_ascii=False)
    except (ValueError, RecursionError):
        return None
    return next((ord(letter) for letter in text if "\ud800" <= letter <= "\udfff"), None)


def object_items(value: Any) -> list[tuple[str, Any]]:
    """The items of a JSON object; of anything else, none."""
    return list(value.items()) if isinstance(value, dict) else []


def first_problem(path: str, value: Any, shape: Any) -> str | None:
    """What is wrong with ``value`` at ``path``, None when it has the shape."""
    try:
        msgspec.convert(value, shape)
    except msgspec.ValidationError as error:
        return field_message(path, error)
    return None


def field_message(path: str, error: msgspec.ValidationError) -> str:
    """``path.to.field: what is wrong``, from msgspec's words."""
    text, _, place = str(error).partition(" - at `$")
    place = place.rstrip("`").removeprefix("." if not path else "")
    if text.startswith("Object missing required field"):
        missing = text.split("`")[1]
        inside = f"{path}{place}"
        return f"{inside + '.' if inside else ''}{missing}: missing"
    where = f"{path}{place}" or "line"
    example = _example(where) if text.startswith(("Expected `object", "Expected `array")) else None
    such_as = f", such as {example}" if example else ""
    return f"{where}: {text[0].lower()}{text[1:]}{such_as}"


#: What a field looks like, shown where it is neither object nor list.
_EXAMPLES = (
    (r"topics", '{"t0": {"partitions": 3}}'),
    (r"topics\..*\.racks", '[["r1", "r2"], ["r2"]]: one list a partition'),
    (r"topics\..*\.racks\[\]", '["r1", "r2"]: the racks of one partition'),
    (r"topics\..*", '{"partitions": 3}'),
    (r"members", '[{"memberId": "c1", "topics": ["t0"]}]'),
    (r"members\[\]", '{"memberId": "c1", "topics": ["t0"]}'),
    (r"members\[\]\.topics", '["t0"]'),
    (r"members\[\]\.streams", '{"t0": 2}'),
    (r"members\[\]\.owned|assignment\.[^.]*", '{"t0": [0, 1]}'),
    (r"members\[\]\.owned\..*|assignment\..*|placement\..*", "[0, 1]"),
    (r"assignment", '{"c1": {"t0": [0, 1]}}'),
    (r"placement", '{"0": [0, 1]}'),
)


def _example(where: str) -> str | None:
    path = re.sub(r"\[\d+\]", "[]", where)
    return next((example for pattern, example in _EXAMPLES if re.fullmatch(pattern, path)), None)
