"""A dead letter is the original record with a reason; the value is cut only if the topic's size limit requires it."""

import pytest

from streaming.records.codec import MalformedEvent, record_bytes
from streaming.records.dead_letters import TRUNCATED_HEADER, dead_letter_headers, shorten_dead_letter


def test_reason_replaces_an_earlier_one_after_the_headers() -> None:
    earlier = [("x", None), ("dlt_topic", b"old")]
    assert dead_letter_headers(earlier, MalformedEvent("why"), topic="m", partition=1, offset=2) == [
        *(("x", None), ("dlt_exception", b"MalformedEvent"), ("dlt_message", b"why")),
        *(("dlt_topic", b"m"), ("dlt_partition", b"1"), ("dlt_offset", b"2")),
    ]


def test_dead_letter_message_has_at_most_1000_bytes() -> None:
    headers = dict(dead_letter_headers(None, ValueError("x" * 10**6), topic="m", partition=0, offset=0))
    assert headers["dlt_message"] == b"x" * 1000


def test_record_size_equals_that_of_kafka() -> None:
    """Kafka counts 61 bytes per batch and 21 per record, and an upper bound for each varint length.

    The upper bound is 5 bytes for each of key length, value length and header count, and 10 for a header's two lengths.
    """
    assert record_bytes(None, None, []) == 61 + 21 + 15
    assert record_bytes(b"key", b"value", [("é", b"1"), ("none", None)]) == 97 + 8 + 10 + 3 + 10 + 4


def test_dead_letter_within_the_limit_is_unchanged() -> None:
    headers = [("x", b"1"), ("dlt_topic", b"m")]
    size = record_bytes(b"k", b"v" * 100, headers)
    assert shorten_dead_letter(b"k", b"v" * 100, headers, size) == (b"k", b"v" * 100, headers)


@pytest.mark.parametrize(
    ("key", "value", "header", "kept"),
    [
        (b"k", b"v" * 5000, b"h", (1, 1, True)),
        (b"k", b"v" * 5000, b"h" * 5000, (1, 1, False)),
        (b"k" * 5000, b"v" * 50, b"h", (1, 0, False)),
        (None, b"v" * 5000, b"h", (0, 1, True)),
        (b"k", None, b"h" * 5000, (1, 0, False)),
    ],
)
def test_too_long_record_is_truncated_and_marked(
    key: bytes | None, value: bytes | None, header: bytes, kept: tuple[int, int, bool]
) -> None:
    headers = [("x", header), ("dlt_topic", b"m")]
    shortened_key, shortened_value, shortened_headers = shorten_dead_letter(key, value, headers, 1000)
    assert record_bytes(shortened_key, shortened_value, shortened_headers) <= 1000
    assert (bool(shortened_key), bool(shortened_value), ("x", header) in shortened_headers) == tuple(map(bool, kept))
    assert (key or b"").startswith(shortened_key or b"")
    assert (value or b"").startswith(shortened_value or b"")
    assert (shortened_value is None) == (value is None)
    assert dict(shortened_headers)[TRUNCATED_HEADER] == str(record_bytes(key, value, headers)).encode()
    assert ("dlt_topic", b"m") in shortened_headers


def test_oversized_dead_letter_keeps_only_its_reason() -> None:
    reason = [("dlt_message", b"x" * 2000)]
    key, value, headers = shorten_dead_letter(b"k", b"v" * 50, reason, 1000)
    assert (key, value, headers[:1]) == (b"", b"", reason)
