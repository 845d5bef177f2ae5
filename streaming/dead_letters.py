"""Dead letters: a record that could not be used, as it was, with the reason in its headers.

Key, value and headers stay byte for byte, so that what was repaired can be sent again; the reason and the
place it was read from are added as ``dlt_*`` headers (an earlier reason is replaced).
"""

from __future__ import annotations

from collections.abc import Iterable

from assignors.errors import MonitorError

#: The headers that a dead letter adds.
PREFIX = "dlt_"


def dead_letter_headers(
    original: Iterable[tuple[str, bytes | None]] | None,
    error: Exception,
    *,
    topic: str,
    partition: int,
    offset: int,
) -> list[tuple[str, bytes | None]]:
    """The headers of the dead letter of one record.

    ``dlt_exception`` is the public type of the error (:attr:`assignors.errors.MonitorError.type`), ``dlt_message``
    its message, ``dlt_topic``, ``dlt_partition`` and ``dlt_offset`` where the record stands.
    """
    kind = error.type if isinstance(error, MonitorError) else type(error).__name__
    kept = [(name, value) for name, value in original or () if not name.startswith(PREFIX)]
    return [
        *kept,
        ("dlt_exception", kind.encode()),
        ("dlt_message", str(error).encode(errors="replace")),
        ("dlt_topic", topic.encode()),
        ("dlt_partition", str(partition).encode()),
        ("dlt_offset", str(offset).encode()),
    ]
