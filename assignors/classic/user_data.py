"""The user data of the sticky assignors, as bytes: what ``owned`` and ``generation`` of a member stand for.

``sticky`` (StickyAssignor): v1 is [[topic, [partition]]] and a generation; v0, before 2.3, has no generation. There
is no version number: what is too short for v1 is read as v0, and what fits neither owns nothing.
``cooperative-sticky`` sends its generation alone, for brokers that drop the subscription's own fields.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from assignors.model import Share

_INT = struct.Struct(">i")
_SHORT = struct.Struct(">h")
NO_GENERATION = -1


def encode_sticky(owned: Mapping[str, Sequence[int]], generation: int | None) -> bytes:
    """v1, or v0 when the generation is None."""
    parts = [_INT.pack(len(owned))]
    for topic, partitions in owned.items():
        name = topic.encode()
        parts += [
            _SHORT.pack(len(name)),
            name,
            struct.pack(f">i{len(partitions)}i", len(partitions), *partitions),
        ]
    if generation is not None:
        parts.append(_INT.pack(generation))
    return b"".join(parts)


def decode_sticky(data: bytes | None) -> tuple[Share, int]:
    """Owned partitions and generation; nothing and -1 when the bytes are missing or make no sense, as in Java."""
    if not data:
        return {}, NO_GENERATION
    try:
        owned, end = _read_owned(data)
    except (struct.error, UnicodeDecodeError, ValueError):
        return {}, NO_GENERATION
    if len(data) - end < _INT.size:
        return owned, NO_GENERATION
    return owned, int(_INT.unpack_from(data, end)[0])


def _read_owned(data: bytes) -> tuple[dict[str, list[int]], int]:
    (topics,) = _INT.unpack_from(data)
    at = _INT.size
    owned: dict[str, list[int]] = {}
    if topics < 0:
        raise ValueError(topics)
    for _ in range(topics):
        (length,) = _SHORT.unpack_from(data, at)
        at += _SHORT.size
        if length < 0 or at + length > len(data):
            raise ValueError(length)
        name = data[at : at + length].decode()
        at += length
        (count,) = _INT.unpack_from(data, at)
        at += _INT.size
        if count < 0 or count > (len(data) - at) // _INT.size:
            raise ValueError(count)
        owned.setdefault(name, []).extend(struct.unpack_from(f">{count}i", data, at))
        at += count * _INT.size
    return owned, at


def encode_cooperative(generation: int) -> bytes:
    """The generation, as a Java client sends it beside its subscription."""
    return _INT.pack(generation)


def decode_cooperative(data: bytes | None) -> int:
    """The generation; -1 when the bytes are missing or too few."""
    return int(_INT.unpack_from(data)[0]) if data is not None and len(data) >= _INT.size else NO_GENERATION
