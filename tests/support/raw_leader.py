"""A group member that encodes the classic protocol itself, to send requests that client libraries never send."""

import socket
from collections.abc import Mapping
from struct import pack, unpack
from typing import Self, cast

from streaming.collect.coordinator.schema import Reader
from tests.support.offsets_topic import prefixed, string
from tests.support.wait import TIMEOUT_SECONDS, eventually

_FIND_COORDINATOR = 10
_JOIN_GROUP, _HEARTBEAT, _LEAVE_GROUP, _SYNC_GROUP = 11, 12, 13, 14
#: Kafka's error codes while a coordinator starts: loading, not available, not coordinator.
_COORDINATOR_STARTING = frozenset({14, 15, 16})
#: Kafka's error code of a heartbeat while the group waits for this member to rejoin.
REBALANCE_IN_PROGRESS = 27


class RequestRefused(Exception):  # noqa: N818 - the coordinator refuses
    """Raised when the coordinator responds with an error; ``code`` is Kafka's error code."""

    def __init__(self, request: str, code: int) -> None:
        super().__init__(f"{request}: error {code}")
        self.code = code


class RawConnection:
    """A context manager for a connection to the coordinator of any number of groups.

    The broker processes one request after the other: a request that waits delays all later ones.
    """

    def __init__(self, servers: str, timeout: float = TIMEOUT_SECONDS) -> None:
        host, _, port = servers.partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=timeout)

    def await_coordinator(self, group: str) -> None:
        """Wait until the group has a coordinator; the first lookup in a cluster creates the offsets topic."""

        def there() -> bool:
            self._send(_FIND_COORDINATOR, 0, string(group))
            return self._response().int16("error") == 0

        eventually(there, every=0.1)

    def send_join(
        self,
        group: str,
        member_id: str,
        subscription: bytes,
        *,
        protocol: str = "range",
        session_timeout_ms: int = 6000,
        rebalance_timeout_ms: int = 60_000,
    ) -> None:
        """Send a JoinGroup request; :meth:`joined` reads the response once all members have joined."""
        self._send(
            _JOIN_GROUP,
            2,
            string(group)
            + pack(">ii", session_timeout_ms, rebalance_timeout_ms)
            + string(member_id)
            + string("consumer")
            + pack(">i", 1)
            + string(protocol)
            + prefixed(subscription),
        )

    def joined(self) -> tuple[int, str, str]:
        """Read the JoinGroup response; return the generation, the leader's id and this member's id."""
        response = self._response()
        response.int32("throttle")
        _check("JoinGroup", response)
        number = response.int32("generation")
        response.string("protocol")
        return number, response.string("leader") or "", response.string("member") or ""

    def sync(self, group: str, generation: int, member_id: str, assignments: Mapping[str, bytes]) -> None:
        """Send SyncGroup; the leader's request includes every member's assignment."""
        assigned = b"".join(string(member) + prefixed(data) for member, data in assignments.items())
        header = string(group) + pack(">i", generation) + string(member_id)
        self._send(_SYNC_GROUP, 0, header + pack(">i", len(assignments)) + assigned)
        _check("SyncGroup", self._response())

    def heartbeat(self, group: str, generation: int, member_id: str) -> None:
        self._send(_HEARTBEAT, 0, string(group) + pack(">i", generation) + string(member_id))
        _check("Heartbeat", self._response())

    def leave(self, group: str, member_id: str) -> None:
        self._send(_LEAVE_GROUP, 0, string(group) + string(member_id))
        _check("LeaveGroup", self._response())

    def _send(self, api: int, version: int, body: bytes) -> None:
        self._socket.sendall(prefixed(pack(">hhi", api, version, 7) + string("raw-leader") + body))

    def _response(self) -> Reader:
        (size,) = unpack(">i", self._receive(4))
        reader = Reader(self._receive(size))
        assert reader.int32("correlation") == 7
        return reader

    def _receive(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionResetError("the broker closed the connection")
            data += part
        return data

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _check(request: str, response: Reader) -> None:
    code = response.int16("error")
    if code:
        raise RequestRefused(request, code)


class RawLeader(RawConnection):
    """The only member, and therefore the leader, of a group; it sends no heartbeats.

    Args:
        servers: address of the group's coordinator.
        group: the group id.
        session_timeout_ms: session timeout of the member.
    """

    def __init__(self, servers: str, group: str, session_timeout_ms: int = 6000) -> None:
        super().__init__(servers)
        self.group = group
        self._session_timeout_ms = session_timeout_ms
        self._member_id = ""

    def generation(self, subscription: bytes, assignment: bytes, protocol: str = "range") -> int:
        """Join with this subscription, assign these bytes as the leader, and return the generation of the group."""
        timeout = self._session_timeout_ms

        def joined() -> tuple[int, str, str] | None:
            self.send_join(self.group, self._member_id, subscription, protocol=protocol, session_timeout_ms=timeout)
            try:
                return self.joined()
            except RequestRefused as refused:
                if refused.code not in _COORDINATOR_STARTING:
                    raise
                return None

        self.await_coordinator(self.group)
        number, leader, self._member_id = cast("tuple[int, str, str]", eventually(joined, every=0.1))
        assert leader == self._member_id
        self.sync(self.group, number, self._member_id, {self._member_id: assignment})
        return number

    def end(self) -> None:
        """Leave the group with a LeaveGroup request."""
        self.leave(self.group, self._member_id)
