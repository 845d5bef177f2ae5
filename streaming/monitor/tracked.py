"""One group as its bucket holds it: packed, as native code has it, or readable; and who was heard when."""

from __future__ import annotations

from collections.abc import Collection

import msgspec
from msgspec import Raw, Struct

from streaming.monitor.state import GroupState

try:
    from rebalance_kernel import Group
except ImportError:  # optional: streaming.monitor.decision
    Group = None  # type: ignore[assignment, misc]

_state = msgspec.msgpack.Decoder(GroupState | None)
_encoder = msgspec.msgpack.Encoder()


def native() -> bool:
    """Whether native code for plain groups is installed."""
    return Group is not None


class Heard(Struct, array_like=True):
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

    The state stays packed until it is asked for: a heartbeat moves a deadline and needs nothing of it. A plain
    group's is kept as native code has it (:mod:`streaming.monitor.decision`), until someone asks for more.

    Attributes:
        heard: by member id.
        forget_at: when an empty group is forgotten, ms on the clock of the job; 0: it is not empty.
    """

    __slots__ = ("_declined", "_raw", "_state", "forget_at", "heard")

    def __init__(
        self, raw: Raw | None = None, heard: dict[str, Heard] | None = None, forget_at: int = 0
    ) -> None:
        self._raw = raw
        self._state: GroupState | Group | None = None
        self._declined = not native()
        self.heard = {} if heard is None else heard
        self.forget_at = forget_at

    @property
    def _native(self) -> Group | None:
        return None if isinstance(self._state, GroupState) else self._state

    @property
    def state(self) -> GroupState | None:
        """What the log says of the group; None: nothing."""
        raw = self._raw if self._native is None else self._native.write()
        if raw is not None:
            self.keep(_state.decode(raw))
        return self._state if isinstance(self._state, GroupState) else None

    @property
    def dense(self) -> bool:
        """Whether native code has the state."""
        return self._native is not None

    @property
    def plain(self) -> Group | None:
        """The state as native code has it; None where that is not installed, or the group not one for it."""
        if self._native is None and not self._declined and not self.empty:
            known = Group.read(_encoder.encode(self._state) if self._raw is None else bytes(self._raw))
            # Until the group is next opened: most that are not plain stay so.
            self._declined = known is None
            if known is not None:
                self.keep(known)
        return self._native

    def keep(self, state: GroupState | Group | None) -> None:
        """The group after an event."""
        self._state, self._raw = state, None

    @property
    def member_ids(self) -> Collection[str]:
        """Of its members, in order."""
        if self._native is not None:
            return self._native.member_ids()
        return [member.member_id for member in self.state.members] if self.state is not None else ()

    @property
    def deserted(self) -> bool:
        """Whether something is known of the group, and it has no members."""
        if self._native is not None:
            return not len(self._native)
        return self.state is not None and not self.state.members

    def session_timeout_ms(self, member_id: str) -> int | None:
        """What a member named; None: nothing, or there is no such member."""
        if self._native is not None:
            return self._native.session_timeout_ms(member_id)
        member = self.state.member(member_id) if self.state is not None else None
        return member.session_timeout_ms if member is not None else None

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
        """Its bytes."""
        group = self._native
        state = Raw(group.write()) if group is not None else self._state if self._raw is None else self._raw
        return Raw(_encoder.encode((state, self.heard, self.forget_at)))
