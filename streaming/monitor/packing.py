"""Parts of the state from the bytes in the checkpoint."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Raw

from assignors.errors import BadInput
from streaming.wire.codec import UNREADABLE

_T = TypeVar("_T")


class CorruptState(BadInput):
    """The checkpoint's state is not what this program writes."""


def unpacked(decoder: msgspec.msgpack.Decoder[_T], packed: bytes | Raw, what: str) -> _T:
    """A part of the state from its bytes.

    Raises:
        CorruptState: they are none; the message names ``what``.
    """
    try:
        return decoder.decode(packed)
    except UNREADABLE as error:
        raise CorruptState(f"{what}: {error}") from error
