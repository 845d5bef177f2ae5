"""Dead letters: a record that could not be used, as it was, with the reason in its headers.

Key, value and headers stay byte for byte, so that what was repaired can be sent again; the reason and the
place it was read from are added as ``dlt_*`` headers (an earlier reason is replaced).
"""

from __future__ import annotations

from collections.abc import Iterable

from assignors.errors import MonitorError
from streaming.records.codec import record_bytes

#: The headers that a dead letter adds.
PREFIX = "dlt_"
#: On a dead letter that was cut to what its topic takes: how many bytes key, value and headers had.
TRUNCATED = "dlt_truncated"
#: A message is for people: no longer than this.
_MESSAGE = 1000


def dead_letter_headers(
    original: Iterable[tuple[str, bytes | None]] | None, error: Exception, *, topic: str, partition: int, offset: int
) -> list[tuple[str, bytes | None]]:
    """Return the headers of a record's dead letter.

    ``dlt_exception`` is the public type of the error (:attr:`assignors.errors.MonitorError.type`), ``dlt_message``
    its message, ``dlt_topic``, ``dlt_partition`` and ``dlt_offset`` the place of the record.
    """
    kind = error.type if isinstance(error, MonitorError) else type(error).__name__
    kept = [(name, value) for name, value in original or () if not name.startswith(PREFIX)]
    return [
        *kept,
        ("dlt_exception", kind.encode()),
        ("dlt_message", str(error)[:_MESSAGE].encode(errors="replace")),
        ("dlt_topic", topic.encode()),
        ("dlt_partition", str(partition).encode()),
        ("dlt_offset", str(offset).encode()),
    ]


def fit(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]], limit: int
) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
    """Return a dead letter that is no longer than its topic takes.

    One that is too long gets :data:`TRUNCATED` and a shorter value; where that is not enough the record's own headers
    go, at last the key is cut. The whole record is at ``dlt_topic`` …, as long as that topic keeps it.
    """
    size = record_bytes(key, value, headers)
    if size <= limit:
        return key, value, headers
    headers = [*headers, (TRUNCATED, str(size).encode())]
    if record_bytes(key, None, headers) > limit:
        headers = [(name, data) for name, data in headers if name.startswith(PREFIX)]
    if key is not None:
        key = key[: max(0, limit - record_bytes(None, None, headers))]
    if value is not None:
        value = value[: max(0, limit - record_bytes(key, None, headers))]
    return key, value, headers
