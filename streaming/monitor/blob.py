"""The bytes of a bucket's state: ``KRMB``, one version byte, msgpack.

A bucket holds many groups and a batch touches few, so each group stays packed until it is asked for, and only
touched groups are packed again. A group is a :class:`~streaming.monitor.tracked.Tracked`; every type in it is
written as an array.

**Versions.** The checkpoint of an older release is read and migrated (:data:`MIGRATIONS`), and written in the
current version when its bucket next changes. A version from the future is refused: going back to an older
release needs a checkpoint of that release.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from msgspec import Raw, Struct, field

from assignors.errors import BadInput
from streaming.monitor.packing import CorruptState, unpacked
from streaming.monitor.tracked import Heard, Tracked

MAGIC = b"KRMB"
VERSION = 4
_HEADER = len(MAGIC) + 1


def _unnamed(body: bytes) -> bytes:
    """Version 1 did not know members' client ids and hosts: they are what a member is not known by."""
    return body


def _untold(body: bytes) -> bytes:
    """Version 2 did not know episodes: a group's first begins with its next round."""
    return body


def _unpaged(body: bytes) -> bytes:
    """Version 3 had all members in the group's state: those of a large one are put in pages when it changes."""
    return body


#: ``{version: bytes of that version's msgpack → bytes of the next version's}``.
MIGRATIONS: dict[int, Callable[[bytes], bytes]] = {1: _unnamed, 2: _untold, 3: _unpaged}


class StateFromTheFuture(BadInput):
    """The checkpoint was written by a newer release of this program."""


class _PackedGroup(Struct, array_like=True):
    state: Raw
    heard: dict[str, Heard] = field(default_factory=dict)
    forget_at: int = 0
    #: Empty: none.
    episode: Raw = Raw(b"")
    quiet_at: int = 0
    incidents: Raw = Raw(b"")
    #: Empty: the state has its members.
    roster: Raw = Raw(b"")


class _Packed(Struct, array_like=True):
    groups: dict[str, Raw]
    #: ``{group: its earliest deadline}``, for groups that have one.
    due: dict[str, int] = field(default_factory=dict)


_packed = msgspec.msgpack.Decoder(_Packed)
_group = msgspec.msgpack.Decoder(_PackedGroup)
_encoder = msgspec.msgpack.Encoder()


def _there(part: Raw) -> Raw | None:
    """A part of a group; None where nothing stands for it, or null."""
    return part if memoryview(part).nbytes > 1 else None


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
                packed = unpacked(_group, raw, f"state of group {group_id!r}")
                tracked = Tracked(
                    packed.state,
                    packed.heard,
                    packed.forget_at,
                    episode=_there(packed.episode),
                    quiet_at=packed.quiet_at,
                    incidents=_there(packed.incidents),
                    roster=_there(packed.roster),
                )
            self._open[group_id] = tracked
        return tracked

    def adopt(self, other: Bucket, group_id: str) -> None:
        """Take a group over from another bucket, as it was packed there."""
        self._groups[group_id] = other._groups[group_id]
        if group_id in other.due:
            self.due[group_id] = other.due[group_id]

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
            deadline = tracked.deadline
            if deadline:
                self.due[group_id] = deadline
            else:
                self.due.pop(group_id, None)
        self._changed.clear()
        return MAGIC + bytes([VERSION]) + _encoder.encode(_Packed(self._groups, self.due))

    def size(self, group_id: str) -> int:
        """Bytes of one group as last packed."""
        return len(bytes(self._groups[group_id]))


def _unpack(blob: bytes) -> _Packed:
    version = blob[_HEADER - 1] if blob[: _HEADER - 1] == MAGIC and len(blob) > _HEADER else None
    if version is None or (version < VERSION and version not in MIGRATIONS):
        raise CorruptState(f"state: {blob[:_HEADER].hex()}… is no bucket of this program")
    if version > VERSION:
        raise StateFromTheFuture(
            f"state: version {version}, this release reads up to {VERSION}; "
            "run the release that wrote the checkpoint, or start with a new one"
        )
    body = blob[_HEADER:]
    for step in range(version, VERSION):
        body = MIGRATIONS[step](body)
    return unpacked(_packed, body, f"state of version {version}")
