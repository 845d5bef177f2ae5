"""The bytes of a bucket's state: :data:`MAGIC`, one version byte, msgpack.

A bucket holds many groups and a batch touches few. Each group stays packed until it is needed, and only changed
groups are packed again. A group is a :class:`~streaming.monitor.tracked.Tracked`; every type in it is written as an
array.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from msgspec import Raw, Struct, field

from assignors.errors import BadInput
from streaming.monitor.packing import CorruptState, unpacked
from streaming.monitor.tracked import Heard, Tracked

#: Unreleased versions wrote ``KRMB``: their bytes are refused as no state.
MAGIC = b"KRBS"
VERSION = 1
_HEADER = len(MAGIC) + 1


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
    """The groups of one bucket, unpacked on demand.

    A group that :meth:`get` gave may be changed in place. :meth:`commit` keeps it, :meth:`discard` drops that.
    """

    def __init__(self, blob: bytes | None = None) -> None:
        packed = _Packed({}) if blob is None else _unpack(blob)
        self._groups = packed.groups
        self.due = packed.due
        self._open: dict[str, Tracked] = {}
        self.changed = False

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._groups))

    def __contains__(self, group_id: object) -> bool:
        return group_id in self._groups

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
                )
            self._open[group_id] = tracked
        return tracked

    def adopt(self, other: Bucket, group_id: str) -> None:
        """Take a group over from another bucket, as it was packed there."""
        self._groups[group_id] = other._groups[group_id]
        if group_id in other.due:
            self.due[group_id] = other.due[group_id]

    def commit(self, group_id: str) -> None:
        """Keep a group that :meth:`get` gave as it is now: its state, episode, incidents and deadlines."""
        tracked = self._open[group_id]
        packed, deadline = (None, 0) if tracked.empty else (tracked.pack(), tracked.deadline)
        if packed is None:
            self._groups.pop(group_id, None)
        else:
            self._groups[group_id] = packed
        if deadline:
            self.due[group_id] = deadline
        else:
            self.due.pop(group_id, None)
        tracked.changed, self.changed = False, True

    def discard(self, group_id: str) -> None:
        """Drop what was changed in a group since its last commit."""
        self._open.pop(group_id, None)

    def pack(self) -> bytes:
        """The bytes of all groups; a group without state has none."""
        return MAGIC + bytes([VERSION]) + _encoder.encode(_Packed(self._groups, self.due))

    def size(self, group_id: str) -> int:
        """Bytes of one group as last packed."""
        return len(bytes(self._groups[group_id]))


def _unpack(blob: bytes) -> _Packed:
    if blob[: _HEADER - 1] != MAGIC or len(blob) <= _HEADER:
        raise CorruptState(
            f"state: {blob[:_HEADER].hex()}… is no state of this release, and unreleased versions wrote others; "
            "start with a new checkpoint"
        )
    version = blob[_HEADER - 1]
    if version > VERSION:
        raise StateFromTheFuture(
            f"state: version {version}, this release reads up to {VERSION}; "
            "run the release that wrote the checkpoint, or start with a new one"
        )
    return unpacked(_packed, blob[_HEADER:], f"state of version {version}")
