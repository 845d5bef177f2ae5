"""A group member that speaks the classic protocol byte by byte, so that it can say what no client would."""

from __future__ import annotations

import socket
from struct import pack, unpack
from typing import Self

from streaming.collect.encoding import Reader
from tests.support.offsets_topic import sized, string

_JOIN_GROUP, _SYNC_GROUP, _LEAVE_GROUP = 11, 14, 13


class RawLeader:
    """The only member, and so the leader, of a group; it sends no heartbeats.

    Args:
        servers: the broker that coordinates the group.
        group: the group id.
        session_timeout_ms: until the coordinator removes it.
    """

    def __init__(self, servers: str, group: str, session_timeout_ms: int = 6000) -> None:
        host, _, port = servers.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._group = group
        self._session_timeout_ms = session_timeout_ms
        self._member_id = ""

    def generation(self, subscription: bytes, assignment: bytes, protocol: str = "range") -> int:
        """Join and, as the leader, assign: both exactly as given. Returns the generation."""
        joined = self._ask(
            _JOIN_GROUP,
            2,
            string(self._group)
            + pack(">ii", self._session_timeout_ms, 60_000)
            + string(self._member_id)
            + string("consumer")
            + pack(">i", 1)
            + string(protocol)
            + sized(subscription),
        )
        joined.int32("throttle")
        assert joined.int16("error") == 0
        number = joined.int32("generation")
        joined.string("protocol")
        leader, self._member_id = joined.string("leader"), joined.string("member")
        assert leader == self._member_id
        assigned = pack(">i", 1) + string(self._member_id) + sized(assignment)
        synced = self._ask(
            _SYNC_GROUP, 0, string(self._group) + pack(">i", number) + string(self._member_id) + assigned
        )
        assert synced.int16("error") == 0
        return number

    def leave(self) -> None:
        """Leave the group."""
        left = self._ask(_LEAVE_GROUP, 0, string(self._group) + string(self._member_id))
        assert left.int16("error") == 0

    def _ask(self, api: int, version: int, body: bytes) -> Reader:
        self._socket.sendall(sized(pack(">hhi", api, version, 7) + string("raw-leader") + body))
        (size,) = unpack(">i", self._receive(4))
        reader = Reader(self._receive(size))
        assert reader.int32("correlation") == 7
        return reader

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            assert part, "the broker closed the connection"
            data += part
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
