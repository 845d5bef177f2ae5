"""Heartbeats that follow each other in one group's log, read at once: nine of ten records are heartbeats.

Of many only each member's last counts. Where the package ``rebalance-kernel`` is installed it reads those that are
written as the library writes them; :func:`streaming.wire.codec.read_heartbeat` reads any.
"""

from __future__ import annotations

from typing import NamedTuple

from streaming.wire.codec import UNREADABLE, decode_heartbeat

try:
    from rebalance_kernel import read_heartbeats as native
except ImportError:  # it is not installed, or not of this release
    native = None  # type: ignore[assignment] # a function where it is installed


class Heartbeats(NamedTuple):
    """Heartbeats of a group with nothing else between them.

    Attributes:
        group_id: the group.
        heard: the timestamp of each member's last one, ms, in the order in which the members were first heard.
    """

    group_id: str
    heard: dict[str, int]


def read(key: bytes, values: list[bytes]) -> Heartbeats | None:
    """Heartbeats from their values in the log's order; None where one of them can't be used.

    Args:
        key: of all.
        values: of records that have id and source, as :func:`streaming.wire.codec.read_heartbeat` wants.
    """
    if native is not None:
        heard = native(key, values)
        if heard is not None:
            return Heartbeats(key.decode(), heard)
    heard = {}
    try:
        group_id = key.decode()
        for value in values:
            data = decode_heartbeat(value)
            if data.group_id != group_id:
                return None
            heard[data.member_id] = data.timestamp
    except UNREADABLE:
        return None
    return Heartbeats(group_id, heard)
