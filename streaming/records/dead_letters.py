"""Dead letters: unusable records, unchanged, with the reason in added headers.

Key, value and headers stay byte for byte the same, so that a repaired record can be sent again. The reason and the
record's topic, partition and offset are added as ``dlt_*`` headers, which replace earlier ``dlt_*`` headers.
"""

from collections.abc import Iterable

from assignors.errors import MonitorError
from streaming.records.codec import record_bytes

#: The headers that a dead letter adds.
HEADER_PREFIX = "dlt_"
#: Header of a dead letter that was cut to the limit of its topic: original bytes of key, value and headers.
TRUNCATED_HEADER = "dlt_truncated"
#: The most characters of the error message in a dead letter.
_MOST_MESSAGE_CHARACTERS = 1000


def dead_letter_headers(
    original: Iterable[tuple[str, bytes | None]] | None, error: Exception, *, topic: str, partition: int, offset: int
) -> list[tuple[str, bytes | None]]:
    """Return the headers of a record's dead letter.

    ``dlt_exception`` is the public type of the error (:attr:`assignors.errors.MonitorError.type`), ``dlt_message``
    the error's message. ``dlt_topic``, ``dlt_partition`` and ``dlt_offset`` are the place of the record.
    """
    kind = error.type if isinstance(error, MonitorError) else type(error).__name__
    kept = [(name, value) for name, value in original or () if not name.startswith(HEADER_PREFIX)]
    return [
        *kept,
        ("dlt_exception", kind.encode()),
        ("dlt_message", str(error)[:_MOST_MESSAGE_CHARACTERS].encode(errors="replace")),
        ("dlt_topic", topic.encode()),
        ("dlt_partition", str(partition).encode()),
        ("dlt_offset", str(offset).encode()),
    ]


def shorten_dead_letter(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], limit: int
) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
    """Return a dead letter that is not larger than its topic accepts.

    A dead letter that is too large gets the header :data:`TRUNCATED_HEADER` and a shorter value. If that is not enough,
    the record's own headers are dropped, and finally the key is cut. The original record is in the topic ``dlt_topic``
    as long as that topic retains it.
    """
    size = record_bytes(key, value, headers)
    if size <= limit:
        return key, value, headers
    headers = [*headers, (TRUNCATED_HEADER, str(size).encode())]
    if record_bytes(key, None, headers) > limit:
        headers = [(name, data) for name, data in headers if name.startswith(HEADER_PREFIX)]
    if key is not None:
        key = key[: max(0, limit - record_bytes(None, None, headers))]
    if value is not None:
        value = value[: max(0, limit - record_bytes(key, None, headers))]
    return key, value, headers
