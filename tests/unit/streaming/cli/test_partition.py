"""``partition``: its options reach the partitioner."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable

import pytest

from assignors.partitioner import partition_for_key

Command = Callable[..., tuple[int, str, str]]
KEYS = [f"key-{number}" for number in range(12)]
TEXT = "".join(f"{key}\n" for key in KEYS)


@pytest.fixture
def partitions(command: Command) -> Callable[..., list[int]]:
    def run(*words: str, stdin: str = TEXT) -> list[int]:
        status, out, errors = command("partition", "--partitions", "5", *words, stdin=stdin)
        assert (status, errors) == (0, "")
        return list(map(int, out.split()))

    return run


def test_keys_go_where_the_producer_sends_them(partitions: Callable[..., list[int]]) -> None:
    expected = [partition_for_key(key.encode(), 5) for key in KEYS]
    assert partitions() == expected
    encoded = "".join(f"{b64encode(key.encode()).decode()}\n" for key in KEYS)
    assert partitions("--keys", "base64", stdin=encoded) == expected


def test_by_turn_whatever_the_key(partitions: Callable[..., list[int]]) -> None:
    assert partitions("--partitioner", "round-robin") == [number % 5 for number in range(12)]
    assert partitions("--partitioner", "round-robin", "--start", "3") == [number % 5 for number in range(3, 15)]


def test_one_partition_a_batch(partitions: Callable[..., list[int]]) -> None:
    sticky = ("--partitioner", "sticky", "--seed", "1", "--batch-size", "400")
    found = partitions(*sticky)
    assert [len(set(found[start : start + 4])) for start in (0, 4, 8)] == [1, 1, 1]
    assert len(set(found)) > 1
    assert partitions(*sticky) == found
    assert len(set(partitions(*sticky, "--record-size", "1"))) == 1
    assert len(set(partitions("--partitioner", "sticky"))) == 1  # a batch is 16 KiB


def test_a_line_that_is_too_long_is_refused(command: Command) -> None:
    words = ("partition", "--partitions", "5", "--max-line-bytes", "4")
    status, out, _ = command(*words, stdin="a\nabcde\n")
    assert (status, out.splitlines()) == (
        2,
        [
            str(partition_for_key(b"a", 5)),
            (
                '{"error":{"type":"LineTooLong","message":"line 2: longer than 4 bytes, the limit; '
                'shorten it or raise --max-line-bytes"}}'
            ),
        ],
    )
