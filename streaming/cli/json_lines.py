"""Reading of JSON Lines from standard input, up to a limit per line, and error messages about malformed lines."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import NoneType, UnionType
from typing import Any, BinaryIO, TypeVar, get_args, get_origin

import msgspec
from msgspec import Struct, structs

from assignors.errors import BadInput, MonitorError
from streaming.cli.output import Progress

#: The longest line that is read, in bytes: a group that owns a million partitions has 8 MiB.
MAX_LINE_BYTES = 64 * 1024 * 1024
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_Struct = TypeVar("_Struct")


class LineTooLong(BadInput):
    """The line is longer than the limit."""


class MalformedJson(BadInput):
    """The line is not a JSON object."""


def standard_input() -> BinaryIO:
    """Return standard input as bytes."""
    if sys.stdin is None:
        raise BadInput("Standard input is closed; give it a file, a pipe or nothing at all (< /dev/null).")
    return sys.stdin.buffer


def read_lines(stream: BinaryIO, limit: int = MAX_LINE_BYTES) -> Iterator[bytes | None]:
    """Yield lines without LF, CRLF or a byte-order mark at the very start; None for a line longer than ``limit``.

    At most ``limit`` bytes of a line (plus its end) are in memory; the rest of a longer line is skipped.
    """
    is_first = True
    while data := stream.readline(limit + 2):
        if is_first and data.startswith(_BYTE_ORDER_MARK):
            data = data[len(_BYTE_ORDER_MARK) :]
            if not data.endswith(b"\n"):
                data += stream.readline(len(_BYTE_ORDER_MARK))
            if not data:
                return
        is_first = False
        is_complete = data.endswith(b"\n")
        data = data.removesuffix(b"\n").removesuffix(b"\r")
        if len(data) <= limit:
            yield data
            continue
        while not is_complete and (rest := stream.readline(2**20)):
            is_complete = rest.endswith(b"\n")
        yield None


def error_answer(error: MonitorError) -> dict[str, Any]:
    """Return the answer to an unusable line of the input: ``{"error": {"type", "message"}}``."""
    return {"error": {"type": error.type, "message": str(error)}}


def answer_lines(
    source: BinaryIO,
    answer: Callable[[bytes], Any],
    write: Callable[[Any], None],
    *,
    limit: int | None = None,
    skip_blank: bool = True,
) -> int:
    """Answer every line in order; return 2 if a line was answered with an error, else 0.

    ``limit``: the longest line that is read, in bytes (None: ``MAX_LINE_BYTES``).
    """
    limit = limit or MAX_LINE_BYTES
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
                status = 2
                write(error_answer(error))
            progress.step()
    return status


def read_object(data: bytes, decoder: msgspec.json.Decoder[_Struct]) -> _Struct:
    """Decode a line of JSON into a type; an error contains the field with the wrong type."""
    try:
        value = decoder.decode(data)
    except msgspec.ValidationError as error:
        raise BadInput(_first_problem("", decode_json(data), decoder.type) or _field_message("", error)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _malformed_json(error) from error
    _refuse_repeated_keys(data)
    return value


def _refuse_repeated_keys(data: bytes) -> None:
    """Refuse an object that has a key twice, as decoders silently take the last value."""

    def check(pairs: list[tuple[str, Any]]) -> None:
        if len(dict(pairs)) != len(pairs):
            key = Counter(key for key, _ in pairs).most_common(1)[0][0]
            raise MalformedJson(f"line: an object has the key {key!r} twice")

    try:
        json.loads(data, object_pairs_hook=check)
    except (ValueError, RecursionError) as error:  # the error is in a field that is not read
        raise _malformed_json(error) from error


def decode_json(data: bytes) -> Any:
    """Return the value of any JSON text."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _malformed_json(error) from error


def _malformed_json(error: Exception) -> MalformedJson:
    """Describe why a line can't be decoded; misleading messages of the decoder are replaced."""
    if isinstance(error, RecursionError):
        return MalformedJson("line: brackets are nested too deep")
    if type(error) is ValueError:  # Python limits the digits of a number
        return MalformedJson("line: a number has thousands of digits")
    if isinstance(error, UnicodeDecodeError):
        return MalformedJson(f"line: not UTF-8 ({error.reason})")
    return MalformedJson(f"line: {error}")


def _first_problem(path: str, value: Any, expected: Any) -> str | None:
    """Describe the first part of ``value`` (at ``path``) with a wrong type; None if every part has the expected type.

    Example: ``members[0].owned.t0[1]: expected `int`, got `str```. msgspec's own messages have indexes of lists, but
    not keys of mappings.
    """
    try:
        msgspec.convert(value, expected)
    except msgspec.ValidationError as error:
        problems = (_first_problem(f"{path}{place}", part, of) for place, part, of in _nested_values(value, expected))
        return next(filter(None, problems), None) or _field_message(path, error)
    return None


def _nested_values(value: Any, expected: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield path, value and expected type of each field of an object, value of a mapping or item of a list."""
    origin, arguments = get_origin(expected), get_args(expected)
    if origin is UnionType and any(get_origin(part) is dict for part in arguments):
        is_object = isinstance(value, dict)
        matching_args = (part for part in arguments if part is not NoneType and (get_origin(part) is dict) == is_object)
        yield from (("", value, part) for part in matching_args)
    elif origin is list and isinstance(value, list) and _is_struct(arguments[0]):
        yield from ((f"[{at}]", item, arguments[0]) for at, item in enumerate(value))
    elif origin is dict and isinstance(value, dict):
        yield from ((f".{name}", item, arguments[1]) for name, item in value.items())
    elif _is_struct(expected) and isinstance(value, dict):
        fields = (field for field in structs.fields(expected) if field.encode_name in value)
        yield from ((f".{field.encode_name}", value[field.encode_name], field.type) for field in fields)


def _is_struct(expected: Any) -> bool:
    return isinstance(expected, type) and issubclass(expected, Struct)


def _field_message(path: str, error: msgspec.ValidationError) -> str:
    """Return msgspec's message in the form ``path.to.field: what is wrong``."""
    text, _, place = str(error).partition(" - at `$")
    where = f"{path}{place.rstrip('`')}".removeprefix(".")
    if text.startswith("Object missing required field"):
        return f"{where}.{text.split('`')[1]}: missing".removeprefix(".")
    return f"{where or 'line'}: {text[0].lower()}{text[1:]}"
