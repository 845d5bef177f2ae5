"""One group as its bucket holds it: its state, packed until it is asked for, and who was heard when."""

from __future__ import annotations

from typing import TypeVar

import msgspec
from msgspec import Raw, Struct

from assignors.errors import BadInput
from streaming.monitor.state import GroupState, written
from streaming.wire.codec import UNREADABLE

_T = TypeVar("_T")

_state = msgspec.msgpack.Decoder(GroupState | None)
_encoder = msgspec.msgpack.Encoder()


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


class Heard(Struct, array_like=True, gc=False):
    """When a member that sends heartbeats was last heard.

    Attributes:
        timestamp: the last event's own, ms: what a fence is checked against when it is read back.
        deadline: when the session ends, ms on the clock of the job: batch time at arrival + session timeout.
            The only thing in the state that is not decided by the log; it decides no diff.
        timeout: the session timeout, ms.
    """

    timestamp: int
    deadline: int
    timeout: int


class Tracked:
    """One group in its bucket: its state, and the members that send heartbeats.

    The state stays packed until it is asked for: a heartbeat moves a deadline and needs nothing of it.

    Attributes:
        heard: by member id.
        forget_at: when an empty group is forgotten, ms on the clock of the job; 0: it is not empty.
    """

    __slots__ = ("_raw", "_state", "forget_at", "heard")

    def __init__(
        self, raw: Raw | None = None, heard: dict[str, Heard] | None = None, forget_at: int = 0
    ) -> None:
        #: The state's bytes; None: it was changed since, or nothing is known.
        self._raw = raw
        #: The state, once it was asked for.
        self._state: GroupState | None = None
        self.heard = {} if heard is None else heard
        self.forget_at = forget_at

    @property
    def state(self) -> GroupState | None:
        """What the log says of the group; None when it says nothing.

        Raises:
            CorruptState: its bytes are no group's.
        """
        if self._state is None and self._raw is not None:
            self._state = unpacked(_state, self._raw, "state of a group")
        return self._state

    def keep(self, state: GroupState | None) -> None:
        """Take the group's state after an event."""
        self._state, self._raw = state, None

    @property
    def deserted(self) -> bool:
        """Whether something is known of the group, and it has no members."""
        return self.state is not None and not self.state.members

    @property
    def empty(self) -> bool:
        """Whether nothing is known of the group."""
        return self._raw is None and self._state is None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tracked) and (self.state, self.heard, self.forget_at) == (
            other.state,
            other.heard,
            other.forget_at,
        )

    __hash__ = None  # type: ignore[assignment] # it is changed in place

    def pack(self) -> Raw:
        """The group's bytes."""
        state = written(self._state) if self._raw is None else self._raw
        return Raw(_encoder.encode((state, self.heard, self.forget_at)))
