"""The stored state of a bucket's groups, and its bytes: :data:`MAGIC`, one version byte, msgpack.

A bucket holds many groups and a batch touches few. Each group stays packed until it is needed, and only changed
groups are packed again. A group is a :class:`Tracked`; every type in it is written as an array.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TypeVar

import msgspec
from msgspec import Raw, Struct, field

from assignors.errors import BadInput
from streaming.episodes.state import EpisodeState
from streaming.incidents.state import IncidentState
from streaming.monitor.state import GroupState
from streaming.records.codec import UNREADABLE

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


_state = msgspec.msgpack.Decoder(GroupState | None)
_episode = msgspec.msgpack.Decoder(EpisodeState)
_incidents = msgspec.msgpack.Decoder(IncidentState)
_encoder = msgspec.msgpack.Encoder()


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
    """One group in its bucket: its state, its episode and incidents, and the members that send heartbeats.

    Each part stays packed until it is needed: a heartbeat moves a deadline and needs no state.

    Attributes:
        heard: by member id.
        forget_at: when an empty group is forgotten, ms on the clock of the job; 0: it is not empty.
        quiet_at: when its episode is over if nothing comes, ms on the clock of the job; 0: none is open.
        changed: whether it is other than its bytes were.
    """

    def __init__(
        self,
        raw: Raw | None = None,
        heard: dict[str, Heard] | None = None,
        forget_at: int = 0,
        *,
        episode: Raw | None = None,
        quiet_at: int = 0,
        incidents: Raw | None = None,
    ) -> None:
        #: The state's bytes; None: it was changed since, or nothing is known.
        self._raw = raw
        self.heard = {} if heard is None else heard
        self.forget_at = forget_at
        #: The same of its episode.
        self._raw_episode = episode
        self.quiet_at = quiet_at
        #: The same of its incidents.
        self._raw_incidents = incidents
        self.changed = False

    @cached_property
    def state(self) -> GroupState | None:
        """What the log says of the group; None when it says nothing.

        Raises:
            CorruptState: its bytes are no group's.
        """
        return None if self._raw is None else unpacked(_state, self._raw, "state of a group")

    def keep(self, state: GroupState | None) -> None:
        """Take the group's state after an event."""
        self.state, self._raw, self.changed = state, None, True

    @cached_property
    def episode(self) -> EpisodeState | None:
        """The group's last episode; None when it has had none.

        Raises:
            CorruptState: its bytes are no episode's.
        """
        return (
            None if self._raw_episode is None else unpacked(_episode, self._raw_episode, "episode of a group")
        )

    def tell(self, episode: EpisodeState | None, quiet_at: int) -> None:
        """Take the group's episode after a note, and when it is over if nothing comes."""
        self.episode, self._raw_episode, self.quiet_at = episode, None, quiet_at
        self.changed = True

    @property
    def untold(self) -> bool:
        """Whether the group has had no episode."""
        return self._raw_episode is None and self.episode is None

    @cached_property
    def incidents(self) -> IncidentState | None:
        """The group's incidents; None when it has had none.

        Raises:
            CorruptState: its bytes are no incidents'.
        """
        return (
            None
            if self._raw_incidents is None
            else unpacked(_incidents, self._raw_incidents, "incidents of a group")
        )

    def report(self, incidents: IncidentState | None) -> None:
        """Take the group's incidents after a note."""
        self.incidents, self._raw_incidents, self.changed = incidents, None, True

    @property
    def empty(self) -> bool:
        """Whether nothing is known of the group."""
        return self._raw is None and self.state is None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tracked) and self._whole() == other._whole()

    def _whole(self) -> tuple[object, ...]:
        return self.state, self.heard, self.forget_at, self.episode, self.quiet_at, self.incidents

    __hash__ = None  # type: ignore[assignment] # it is changed in place

    def pack(self) -> Raw:
        """The group's bytes."""
        state = self.state if self._raw is None else self._raw
        episode = self.episode if self._raw_episode is None else self._raw_episode
        incidents = self.incidents if self._raw_incidents is None else self._raw_incidents
        whole = state, self.heard, self.forget_at, episode, self.quiet_at, incidents
        left = 6 if incidents is not None else 5 if episode is not None else 3
        return Raw(_encoder.encode(whole[:left]))

    @property
    def deadline(self) -> int:
        """The first moment at which a timer has something to do for the group; 0: never."""
        deadlines = [heard.deadline for heard in self.heard.values()]
        return min((*deadlines, *filter(None, (self.forget_at, self.quiet_at))), default=0)


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
