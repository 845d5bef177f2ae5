"""Stored state of a bucket of groups, and its bytes: :data:`MAGIC`, one version byte, msgpack.

A bucket holds many groups and a batch touches few. Each group stays packed until it is needed, and only changed
groups are packed again. Every struct in a :class:`TrackedGroup` is written as an array.
"""

from collections.abc import Iterator
from typing import Self, TypeVar

import msgspec
from msgspec import Raw, Struct, field

from assignors.errors import BadInput
from streaming.episodes.incidents import IncidentState
from streaming.episodes.state import EpisodeState
from streaming.monitor.state import GroupState
from streaming.records.codec import DECODE_ERRORS

_T = TypeVar("_T")
#: Unreleased versions wrote ``KRMB`` here; state that begins with it is refused.
MAGIC = b"KRBS"
VERSION = 2
_HEADER_BYTES = len(MAGIC) + 1


class CorruptState(BadInput):
    """The state in the checkpoint was not written by this version."""


class LastHeartbeat(Struct, array_like=True, gc=False):
    """The last heartbeat of a member that sends heartbeat events.

    ``timestamp``: time of the member's last event, ms, for comparison with a ``member.fenced`` that the timer wrote.
    ``timeout``: session timeout, ms. ``deadline``: batch time at arrival + session timeout, ms. Deadlines are the only
    part of the state that does not follow from the log, and no diff depends on them.
    """

    timestamp: int
    deadline: int
    timeout: int


class TrackedGroup(Struct, array_like=True):
    """State of one group, changed in place by the function that unpacked the group from its bucket.

    ``forget_at``: when an empty group is forgotten. ``quiet_at``: when the open episode ends if no event comes. Both
    times: ms by the job's clock; 0: never. ``state``, ``episode`` and ``incidents`` are None if the group has none.
    """

    state: GroupState | None = None
    heartbeats: dict[str, LastHeartbeat] = field(default_factory=dict)
    forget_at: int = 0
    episode: EpisodeState | None = None
    quiet_at: int = 0
    incidents: IncidentState | None = None


class _PackedBucket(Struct, array_like=True):
    groups: dict[str, Raw]
    #: Earliest deadline by group, for groups that have one.
    due: dict[str, int] = field(default_factory=dict)


_bucket = msgspec.msgpack.Decoder(_PackedBucket)
_group = msgspec.msgpack.Decoder(TrackedGroup)
_encode = msgspec.msgpack.Encoder().encode


class Bucket:
    """The states of a bucket's groups, each unpacked from bytes when it is first needed.

    A group that :meth:`get` returns may be changed in place. :meth:`commit` keeps the changes, :meth:`discard` drops
    them. ``due``: earliest deadline by group, for groups that have one. ``changed``: a commit has changed the bytes.
    """

    def __init__(self, blob: bytes | None = None) -> None:
        packed_bucket = _PackedBucket({})
        if blob is not None:
            if blob[:_HEADER_BYTES] != MAGIC + bytes([VERSION]) or len(blob) <= _HEADER_BYTES:
                start = f"state: {blob[:_HEADER_BYTES].hex()}…"
                raise CorruptState(f"{start} is not this release's state format; start with a new checkpoint")
            packed_bucket = _decode_state(_bucket, blob[_HEADER_BYTES:], f"state of version {VERSION}")
        self._groups = packed_bucket.groups
        self.due = packed_bucket.due
        self._open: dict[str, TrackedGroup] = {}
        self.changed = False

    def __len__(self) -> int:
        return len(self._groups)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._groups))

    def get(self, group_id: str) -> TrackedGroup:
        """Return the group with this id, or an empty group; raise CorruptState if the group's bytes can't be read."""
        group = self._open.get(group_id)
        if group is None:
            raw = self._groups.get(group_id)
            group = TrackedGroup() if raw is None else _decode_state(_group, raw, f"state of group {group_id!r}")
            self._open[group_id] = group
        return group

    def take_over_group(self, source: Self, group_id: str) -> None:
        """Copy a group's stored state and deadline from another bucket."""
        self._groups[group_id] = source._groups[group_id]
        if group_id in source.due:
            self.due[group_id] = source.due[group_id]

    def commit(self, group_id: str) -> None:
        """Pack the group that :meth:`get` returned, with its changes; remove the group if its state is None."""
        group, last = self._open.get(group_id), self._groups.get(group_id)
        if group is None:
            return
        if group.state is None:
            self._groups.pop(group_id, None)
            self.due.pop(group_id, None)
            self.changed = self.changed or last is not None
            return
        packed_group = _encode(group)
        if last is not None and bytes(last) == packed_group:
            return
        deadlines = [heartbeat.deadline for heartbeat in group.heartbeats.values()]
        deadlines += filter(None, (group.forget_at, group.quiet_at))
        # No call can fail from here on, so the change is atomic.
        self._groups[group_id], self.changed = Raw(packed_group), True
        if deadlines:
            self.due[group_id] = min(deadlines)
        else:
            self.due.pop(group_id, None)

    def discard(self, group_id: str) -> None:
        """Undo the changes of a group since its last commit."""
        self._open.pop(group_id, None)

    def pack(self) -> bytes:
        """Return the bucket as bytes, for Spark's state store."""
        return MAGIC + bytes([VERSION]) + _encode(_PackedBucket(self._groups, self.due))

    def size(self, group_id: str) -> int:
        """Return the size of one group's stored state in bytes, as of its last commit."""
        return len(bytes(self._groups[group_id]))


def _decode_state(decoder: msgspec.msgpack.Decoder[_T], packed_bytes: bytes | Raw, what: str) -> _T:
    try:
        return decoder.decode(packed_bytes)
    except DECODE_ERRORS as error:
        raise CorruptState(f"{what}: {error}") from error
