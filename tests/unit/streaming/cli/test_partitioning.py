from __future__ import annotations

import base64
import io
from typing import Any

import msgspec
import pytest

from assignors.errors import BadInput
from assignors.partitioner import partition_for_key
from streaming.cli.json_lines import answer_lines
from streaming.cli.partitioning import parse_key, partition_chooser


def run(data: bytes, partitions: int = 10, *, limit: int | None = None, **options: Any) -> Any:
    answers: list[Any] = []
    keys = options.pop("keys", "utf8")
    choose = partition_chooser(options.pop("partitioner", "murmur2"), partitions, **options)
    status = answer_lines(
        io.BytesIO(data), lambda line: choose(parse_key(line, keys)), answers.append, limit=limit, skip_blank=False
    )
    return status, [msgspec.json.encode(answer).decode() for answer in answers]


def of(*keys: str, partitions: int = 10) -> list[str]:
    return [str(partition_for_key(key.encode(), partitions)) for key in keys]


def test_lines_are_answered_in_order() -> None:
    data = "\ufeffalice\r\n\nb\u00f6b\n\r\n\ufeffx\n日本".encode()
    assert run(data) == (0, of("alice", "", "böb", "", "\ufeffx", "日本"))


def test_large_partition_counts() -> None:
    many = 2**31 - 1
    assert run(b"21\nabc\n", many) == (0, of("21", "abc", partitions=many))


def test_base64() -> None:
    keys = [b"alice", b"\xff\xfe\x00", b""]
    data = b"\n".join(base64.b64encode(key) for key in keys) + b"\n__-_\n"
    expected = [str(partition_for_key(key, 10)) for key in [*keys, b"\xff\xff\xbf"]]
    assert run(data, keys="base64") == (0, expected)


def test_invalid_key_gets_an_error_on_its_line() -> None:
    error = '{"error":{"type":"InvalidKey","message":"key: not utf8: '
    status, lines = run(b"a\n\xff\nb\n")
    assert (status, lines[0], lines[2], lines[1].startswith(error)) == (2, *of("a", "b"), True)
    status, lines = run(b"YQ==\n!\nYg==\n", keys="base64")
    assert (status, lines[0], lines[2]) == (2, *of("a", "b"))
    assert lines[1].startswith('{"error":{"type":"InvalidKey","message":"key: not base64: ')


def test_a_line_as_long_as_the_limit_is_read() -> None:
    assert run(b"abcd\nefgh\n", limit=4) == (0, of("abcd", "efgh"))


def test_a_line_over_the_limit_inside_a_block() -> None:
    error = (
        '{"error":{"type":"LineTooLong","message":"line %d: longer than 3 bytes, the limit; '
        'shorten it or raise --max-line-bytes"}}'
    )
    expected = [*of("abc"), error % 2, *of("", "xyz", "a"), error % 6]
    assert run(b"abc\nabcd\n\nxyz\r\na\nabcde", limit=3) == (2, expected)


def test_sticky_stays_for_a_batch() -> None:
    status, lines = run(b"k\n" * 500, 6, partitioner="sticky", batch_size=1000, record_size=100, seed=3)
    batches = [set(lines[at : at + 10]) for at in range(0, 500, 10)]
    assert status == 0
    assert all(len(batch) == 1 for batch in batches)
    assert len(set().union(*batches)) == 6
    again = run(b"k\n" * 500, 6, partitioner="sticky", batch_size=1000, record_size=100, seed=3)
    assert again == (status, lines)


@pytest.mark.parametrize(
    ("partitioner", "options", "message"),
    [
        ("murmur2", {"partitions": 0}, "--partitions: 0"),
        ("murmur2", {"partitions": 2**31}, "--partitions: 2147483648"),
        ("round-robin", {"start": 2**31}, "--start: 2147483648"),
        ("sticky", {"record_size": 0}, "--record-size: 0"),
        ("sticky", {"batch_size": 0}, "--batch-size: 0; must be between 1 and 2147483647"),
    ],
)
def test_refused(partitioner: Any, options: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        partition_chooser(partitioner, **{"partitions": 3, **options})
