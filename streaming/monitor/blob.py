"""The bytes of a bucket's state: ``KRMB``, one version byte, msgpack.

A bucket holds many groups and a batch touches few, so each group stays packed until it is asked for, and only
touched groups are packed again. A group is a :class:`Tracked`; every type in it is written as an array.

**Versions.** The checkpoint of an older release is read and migrated (:data:`MIGRATIONS`), and written in the
current version when its bucket next changes. A version from the future is refused: going back to an older
release needs a checkpoint of that release.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

import msgspec
from msgspec import Raw, Struct, field

from assignors.errors import BadInput
from streaming.monitor.state import GroupState

try:
    from rebalance_kernel import Group
except ImportError:  # optional: streaming.monitor.decision
    Group = None  # type: ignore[assignment, misc]

MAGIC = b"KRMB"
VERSION = 1
_HEADER = len(MAGIC) + 1

#: ``{version: bytes of that version's msgpack → bytes of the next version's}``.
MIGRATIONS: dict[int, Callable[[bytes], bytes]] = {}


class CorruptState(BadInput):
    """The checkpoint's state is not what this program writes."""


class StateFromTheFuture(BadInput):
    """The checkpoint was written by a newer release of this program."""


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

    __slots__ = ("_other", "_raw", "_state", "forget_at", "heard")

    def __init__(
        self, raw: Raw | None = None, heard: dict[str, Heard] | None = None, forget_at: int = 0
    ) -> None:
        self._raw = raw
        self._state: GroupState | Group | None = None
        self._other = Group is None
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
        if self._native is None and not self._other and not self.empty:
            known = Group.read(_encoder.encode(self._state) if self._raw is None else bytes(self._raw))
            # Until the group is next opened: most that are not plain stay so.
            self._other = known is None
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
        native = self._native
        state = Raw(native.write()) if native is not None else self._state if self._raw is None else self._raw
        return Raw(_encoder.encode((state, self.heard, self.forget_at)))


class _PackedGroup(Struct, array_like=True):
    state: Raw
    heard: dict[str, Heard] = field(default_factory=dict)
    forget_at: int = 0


class _Packed(Struct, array_like=True):
    groups: dict[str, Raw]
    #: ``{group: its earliest deadline}``, for groups that have one.
    due: dict[str, int] = field(default_factory=dict)


_packed = msgspec.msgpack.Decoder(_Packed)
_group = msgspec.msgpack.Decoder(_PackedGroup)
_state = msgspec.msgpack.Decoder(GroupState | None)
_encoder = msgspec.msgpack.Encoder()


class Bucket:
    """The groups of one bucket, unpacked on demand. A group is changed by :meth:`put`."""

    def __init__(self, blob: bytes | None = None) -> None:
        packed = _Packed({}) if blob is None else _unpack(blob)
        self._groups = packed.groups
        self.due = packed.due
        self._open: dict[str, Tracked] = {}
        self._changed: set[str] = set()

    def __len__(self) -> int:
        return len(self._groups.keys() | self._changed)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._groups.keys() | self._changed))

    def __contains__(self, group_id: object) -> bool:
        return group_id in self._groups or group_id in self._changed

    def get(self, group_id: str) -> Tracked:
        """The group; an empty one when nothing is known of it."""
        tracked = self._open.get(group_id)
        if tracked is None:
            raw = self._groups.get(group_id)
            if raw is None:
                tracked = Tracked()
            else:
                packed = _group.decode(raw)
                tracked = Tracked(packed.state, packed.heard, packed.forget_at)
            self._open[group_id] = tracked
        return tracked

    def put(self, group_id: str) -> None:
        """Mark a group that :meth:`get` gave as changed."""
        self._changed.add(group_id)

    @property
    def changed(self) -> bool:
        """Whether :meth:`pack` would give other bytes than those that were read."""
        return bool(self._changed)

    def pack(self) -> bytes:
        """The bytes of all groups; a group without state is dropped."""
        for group_id in sorted(self._changed):
            tracked = self._open[group_id]
            if tracked.empty:
                self._groups.pop(group_id, None)
                self.due.pop(group_id, None)
                continue
            self._groups[group_id] = tracked.pack()
            deadlines = [heard.deadline for heard in tracked.heard.values()]
            if tracked.forget_at:
                deadlines.append(tracked.forget_at)
            if deadlines:
                self.due[group_id] = min(deadlines)
            else:
                self.due.pop(group_id, None)
        self._changed.clear()
        return MAGIC + bytes([VERSION]) + _encoder.encode(_Packed(self._groups, self.due))

    def size(self, group_id: str) -> int:
        """Bytes of one group as last packed."""
        return len(bytes(self._groups[group_id]))


def _unpack(blob: bytes) -> _Packed:
    version = blob[_HEADER - 1] if blob[: _HEADER - 1] == MAGIC and len(blob) > _HEADER else None
    if version is None:
        raise CorruptState(f"state: {blob[:_HEADER].hex()}… is no bucket of this program")
    if version > VERSION:
        raise StateFromTheFuture(
            f"state: version {version}, this release reads up to {VERSION}; "
            "run the release that wrote the checkpoint, or start with a new one"
        )
    body = blob[_HEADER:]
    for step in range(version, VERSION):
        body = MIGRATIONS[step](body)
    try:
        return _packed.decode(body)
    except msgspec.MsgspecError as error:
        raise CorruptState(f"state of version {version}: {error}") from error
