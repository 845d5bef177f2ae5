"""One group as its bucket holds it: its state and its episode, packed until asked for, and who was heard when."""

from __future__ import annotations

import msgspec
from msgspec import Raw, Struct, structs

from streaming.episodes.state import EpisodeState
from streaming.incidents.state import IncidentState
from streaming.monitor import views
from streaming.monitor.packing import unpacked
from streaming.monitor.roster import Roster
from streaming.monitor.state import GroupState, MemberState, written

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
    """One group in its bucket: its state, and the members that send heartbeats.

    The state stays packed until it is asked for: a heartbeat moves a deadline and needs nothing of it.

    Attributes:
        heard: by member id.
        forget_at: when an empty group is forgotten, ms on the clock of the job; 0: it is not empty.
        quiet_at: when its episode is over if nothing comes, ms on the clock of the job; 0: none is open.
    """

    __slots__ = (
        *("_episode", "_head", "_incidents", "_raw", "_raw_episode", "_raw_incidents", "_raw_roster"),
        *("_roster", "_state"),
        *("forget_at", "heard", "quiet_at"),
    )

    def __init__(
        self,
        raw: Raw | None = None,
        heard: dict[str, Heard] | None = None,
        forget_at: int = 0,
        *,
        episode: Raw | None = None,
        quiet_at: int = 0,
        incidents: Raw | None = None,
        roster: Raw | None = None,
    ) -> None:
        #: The state's bytes; None: it was changed since, or nothing is known. Where there is a roster, the head's.
        self._raw = raw
        #: The state, once it was asked for.
        self._state: GroupState | None = None
        #: The members in pages, packed and not, and all of the state but them; None: the state has its members.
        self._raw_roster = roster
        self._roster: Roster | None = None
        self._head: GroupState | None = None
        self.heard = {} if heard is None else heard
        self.forget_at = forget_at
        #: The episode's bytes and the episode, as of the state; both None: the group has had none.
        self._raw_episode = episode
        self._episode: EpisodeState | None = None
        self.quiet_at = quiet_at
        #: The same of its incidents.
        self._raw_incidents = incidents
        self._incidents: IncidentState | None = None

    @property
    def state(self) -> GroupState | None:
        """What the log says of the group; None when it says nothing.

        Raises:
            CorruptState: its bytes are no group's.
        """
        if self._state is None:
            parts = self._parts()
            self._state = self.head if parts is None else parts[1].whole(parts[0])
        return self._state

    @property
    def head(self) -> GroupState | None:
        """The state, in which the members and their last view may be missing.

        Raises:
            CorruptState: its bytes are no group's.
        """
        if self._state is not None:
            return self._state
        if self._head is None and self._raw is not None:
            self._head = unpacked(_state, self._raw, "state of a group")
        return self._head

    def member(self, member_id: str) -> MemberState | None:
        """The member of this id.

        Raises:
            CorruptState: its bytes are no group's.
        """
        parts = self._parts() if self._state is None else None
        if parts is None:
            return None if self.state is None else self.state.member(member_id)
        entry = parts[1].get(member_id)
        return None if entry is None else entry.member

    def keep(self, state: GroupState | None) -> None:
        """Take the group's state after an event."""
        self._state, self._raw = state, None
        self._head = self._roster = self._raw_roster = None

    def parts(self) -> tuple[GroupState, Roster] | None:
        """The state without its members, and these in pages; None where pages can't hold them.

        Raises:
            CorruptState: its bytes are no group's.
        """
        parts = self._parts()
        if parts is not None:
            return parts
        state = self.state
        roster = Roster.of(state) if state is not None else None
        if state is None or roster is None:
            return None
        self.keep_parts(structs.replace(state, members=(), view=views.bare(state.view)), roster)
        return self._parts()

    def _parts(self) -> tuple[GroupState, Roster] | None:
        if self._roster is None and self._raw_roster is not None:
            self._roster = Roster.unpack(self._raw_roster)
        if self._roster is None:
            return None
        head = self._head
        if head is None and self._raw is not None:
            head = self._head = unpacked(_state, self._raw, "state of a group")
        return None if head is None else (head, self._roster)

    def keep_parts(self, head: GroupState, roster: Roster) -> None:
        """Take the group after a step of some members, which ``roster`` has."""
        self._head, self._roster = head, roster
        self._state = self._raw = self._raw_roster = None

    @property
    def episode(self) -> EpisodeState | None:
        """The group's last episode; None when it has had none.

        Raises:
            CorruptState: its bytes are no episode's.
        """
        if self._episode is None and self._raw_episode is not None:
            self._episode = unpacked(_episode, self._raw_episode, "episode of a group")
        return self._episode

    @property
    def incidents(self) -> IncidentState | None:
        """The group's incidents; None when it has had none.

        Raises:
            CorruptState: its bytes are no incidents'.
        """
        if self._incidents is None and self._raw_incidents is not None:
            self._incidents = unpacked(_incidents, self._raw_incidents, "incidents of a group")
        return self._incidents

    def report(self, incidents: IncidentState | None) -> None:
        """Take the group's incidents after a note."""
        self._incidents, self._raw_incidents = incidents, None

    @property
    def untold(self) -> bool:
        """Whether the group has had no episode."""
        return self._episode is None and self._raw_episode is None

    def tell(self, episode: EpisodeState | None, quiet_at: int) -> None:
        """Take the group's episode after a note, and when it is over if nothing comes."""
        self._episode, self._raw_episode, self.quiet_at = episode, None, quiet_at

    @property
    def deserted(self) -> bool:
        """Whether something is known of the group, and it has no members."""
        if self._roster is not None or self._raw_roster is not None:
            return False  # a roster has members
        return self.state is not None and not self.state.members

    @property
    def empty(self) -> bool:
        """Whether nothing is known of the group."""
        return self._raw is None and self._state is None and self._head is None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tracked) and self._whole() == other._whole()

    def _whole(self) -> tuple[object, ...]:
        return self.state, self.heard, self.forget_at, self.episode, self.quiet_at, self.incidents

    __hash__ = None  # type: ignore[assignment] # it is changed in place

    def pack(self) -> Raw:
        """The group's bytes."""
        state, roster = self._pack()
        episode = self._episode if self._raw_episode is None else self._raw_episode
        incidents = self._incidents if self._raw_incidents is None else self._raw_incidents
        whole = state, self.heard, self.forget_at, episode, self.quiet_at, incidents, roster
        left = 7 if roster is not None else 6 if incidents is not None else 5 if episode is not None else 3
        return Raw(_encoder.encode(whole[:left]))

    def _pack(self) -> tuple[object, Raw | None]:
        """The state as it is written, and the roster's bytes where there is one."""
        if self._raw is not None:
            return self._raw, self._raw_roster
        view = None if self.head is None else self.head.view
        parts = None if view is None else self.parts()
        return (written(self._state), None) if parts is None else (written(parts[0]), parts[1].packed())

    @property
    def deadline(self) -> int:
        """The first moment at which a timer has something to do for the group; 0: never."""
        deadlines = [heard.deadline for heard in self.heard.values()]
        return min((*deadlines, *filter(None, (self.forget_at, self.quiet_at))), default=0)
